/* Any node that is read can be judged. */
#include <string.h>

#include "milligpu/wire_kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct wire_rules rules = {"nvidia.com/vgpu", "nvidia.com/gpu"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {(const char *)data, size};
    const struct inventory_rules judge = {.advertise = size % 2 == 0, .from_labels = size % 3 != 0};
    struct arena arena;
    struct node_facts node;
    struct inventory inventory;
    struct err err;
    arena_init(&arena);
    if (node_decode(bytes, &rules, &arena, &node, &err) == 0) {
        must(!(node.has_gpus && node.gpus_error != NULL));
        must(node.gpus <= GPUS_PER_NODE_MAX + 1);
        inventory_parse(&node, &judge, &arena, &inventory);
        must(inventory.gpus <= GPUS_PER_NODE_MAX);
    }
    arena_done(&arena);
    return 0;
}
