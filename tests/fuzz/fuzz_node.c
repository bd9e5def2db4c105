/*
 * Any node that is read can be judged, and the result is within limits.h; jansson finds the same
 * facts in the same bytes.
 */
#include <string.h>

#include "milligpu/core/facts/agents.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

static const struct wire_rules rules = {.resource = "nvidia.com/vgpu",
                                        .whole_resource = "nvidia.com/gpu"};

static void check_inventory(const struct inventory *inventory)
{
    uint32_t sum = 0;
    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);
    must(inventory->problem == PROBLEM_NONE || inventory->problem_text[0] != '\0');
    must(inventory->problem == PROBLEM_NONE || inventory->n_gpus == 0);
    for (uint32_t i = 0; i < inventory->n_gpus; i++) {
        const struct gpu_facts *gpu = &inventory->gpu[i];
        must(gpu->milli >= 1 && gpu->milli <= GPU_MILLI && strlen(gpu->id) <= GPU_ID_BYTES_MAX);
        must(strlen(gpu->model) <= MODEL_BYTES_MAX);
        must(i == 0 || gpu->index > inventory->gpu[i - 1].index);
        for (uint32_t j = 0; j < i; j++)
            must(strcmp(gpu->id, inventory->gpu[j].id) != 0);
        sum += gpu->milli;
    }
    must(sum <= GPU_MILLI * GPUS_PER_NODE_MAX);
    must(inventory_problem_name(inventory->problem)[0] != '\0');
    must(inventory->plugin.state == PLUGIN_NONE || inventory->n_gpus > 0);
    must((inventory->plugin.state == PLUGIN_UP) == (inventory->plugin.offered > 0));
}

static void check(const struct node_facts *node, struct arena *arena)
{
    for (unsigned i = 0; i < 12; i++) {
        const struct inventory_rules how = {.advertise = (i & 1) != 0,
                                            .from_labels = (i & 2) != 0,
                                            .plugin = (enum plugin_rule)(i / 4)};
        struct inventory inventory;
        inventory_parse(node, &how, arena, &inventory);
        check_inventory(&inventory);
        must(how.advertise || inventory.advertise_milli == 0);
    }
}

static void same_text(const char *ours, json_t *map, const char *key)
{
    json_t *theirs = json_object_get(map, key);
    must((ours == NULL) == (theirs == NULL || json_is_null(theirs)));
    must(ours == NULL || json_is_number(theirs) || second_says(theirs, ours));
}

/* Members that are read even if the rest is unreadable. */
static void same_identity(const struct node_facts *node, json_t *root)
{
    must(second_says(second_at(root, "metadata.name"), node->name));
    must(second_says(second_at(root, "metadata.uid"), node->uid));
    must(second_says(second_at(root, "metadata.resourceVersion"), node->resource_version));
}

static void same_facts(const struct node_facts *node, json_t *root)
{
    json_t *labels = second_at(root, "metadata.labels");
    json_t *notes = second_at(root, "metadata.annotations");
    must(node->taints.unschedulable == json_is_true(second_at(root, "spec.unschedulable")));
    same_text(node->capacity_milli, second_at(root, "status.capacity"), rules.resource);
    same_text(node->allocatable_milli, second_at(root, "status.allocatable"), rules.resource);
    same_text(node->whole_capacity, second_at(root, "status.capacity"), rules.whole_resource);
    same_text(node->whole_allocatable, second_at(root, "status.allocatable"), rules.whole_resource);
    same_text(node->label_workload, labels, "nvidia.com/gpu.workload.config");
    same_text(node->label_count, labels, "nvidia.com/gpu.count");
    same_text(node->label_product, labels, "nvidia.com/gpu.product");
    same_text(node->label_memory, labels, "nvidia.com/gpu.memory");
    if (node->cordon == NULL || strcmp(node->cordon, "all") != 0)
        same_text(node->cordon, notes, "milligpu.io/cordon");
    must((node->has_gpus || node->gpus_error != NULL) ==
         json_is_string(json_object_get(notes, "milligpu.io/gpus")));
}

/* Bounded, and only for an agent; an unreadable claim is empty. */
static void check_claim(const struct node_facts *node)
{
    const struct agent_claim *claim = &node->claim;
    const char *const ids[] = {claim->pod, claim->node, claim->boot, node->boot};

    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        must(ids[i] == NULL || strlen(ids[i]) <= UID_BYTES_MAX);
    must(node->agent || (claim->pod == NULL && claim->node == NULL && claim->boot == NULL));
    must(node->agent || (claim->leaving == NULL && node->agent_key == NULL));
}

/* jansson reads the annotation, too, as far as it reads the same JSON. */
static void same_claim(const struct node_facts *node, json_t *root)
{
    json_t *notes = second_at(root, "metadata.annotations");
    json_t *value = json_object_get(notes, "milligpu.io/agent");

    if (!json_is_string(value))
        return;
    const struct second second =
        second_read((struct text){json_string_value(value), json_string_length(value)});
    if (second.value != NULL && node->claim.pod != NULL)
        must(second_says(second_at(second.value, "pod.uid"), node->claim.pod));
    if (second.value != NULL && node->claim.node != NULL)
        must(second_says(second_at(second.value, "pod.node"), node->claim.node));
    if (second.value != NULL && node->claim.boot != NULL)
        must(second_says(second_at(second.value, "pod.boot"), node->claim.boot));
    if (second.value != NULL && node->claim.leaving != NULL)
        must(second_says(second_at(second.value, "leaving"), node->claim.leaving));
    json_decref(second.value);
}

/* Whatever it says, the table of agents takes it, and gives it back when the Node is gone. */
static void vouch(const struct node_facts *node)
{
    for (unsigned i = 0; i < 6; i++) {
        const struct agents_rules how = {.required = (enum agents_required)(i / 2),
                                         .by_annotation = i % 2 == 1,
                                         .key = TEXT("nvidia.com/gpu.present"),
                                         .value = TEXT("true")};
        struct agents *agents = agents_new(&how);
        struct agent_memory memory;
        size_t at = 0;
        const bool first = agents_see_node(agents, node);
        must(!first || node->agent);
        const enum vouch is = agents_check(agents, text_of(node->name));
        must(is != VOUCH_GOOD); /* no pod was shown */
        must(how.required != REQUIRE_NEVER || is == VOUCH_NONE);
        must(!agents_lost_gpus(agents, node));
        agents_node_gone(agents, text_of(node->name));
        while (agents_next_changed(agents, &at, &memory))
            must(!memory.named_gpus && !memory.vouched);
        agents_stored(agents, at);
        must(agents_count(agents) == 0);
        agents_free(agents);
    }
}

/* Nested so deeply that an object must be read by itself. */
static bool may_be_deep(struct text bytes)
{
    size_t brackets = 0;
    for (size_t i = 0; i < bytes.len; i++)
        brackets += bytes.at[i] == '[' || bytes.at[i] == '{';
    return brackets > JSON_DEPTH_MAX;
}

/*
 * Whether its end is known or not, the same bytes are the same node; what follows them does not
 * matter. node: NULL if bytes are no node.
 */
static void same_first(struct text bytes, const struct node_facts *node, struct arena *arena)
{
    CLEANUP(freep) char *more = malloc(bytes.len + 1);
    struct node_facts first;
    struct err err;
    must(more != NULL);
    memcpy(more, bytes.at, bytes.len);
    more[bytes.len] = ',';
    const size_t len = node_decode_first((struct text){more, bytes.len + 1}, &rules, arena, &first);
    must(len <= bytes.len);
    must(len > 0 || node == NULL || may_be_deep(bytes));
    if (len == 0)
        return;
    struct node_facts alone;
    must(node_decode((struct text){bytes.at, len}, &rules, arena, &alone, &err) == 0);
    must(strcmp(first.name, alone.name) == 0 && strcmp(first.uid, alone.uid) == 0);
    must(first.n_labels == alone.n_labels && first.n_gpus == alone.n_gpus);
    must((first.unreadable == NULL) == (alone.unreadable == NULL));
    must(first.unreadable == NULL || strcmp(first.unreadable, alone.unreadable) == 0);
    must(node == NULL || strcmp(first.name, node->name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {size > 0 ? (const char *)data : "", size};
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    struct node_facts node;
    struct err err;
    const int result = node_decode(bytes, &rules, &arena, &node, &err);
    heap_is_bounded(before, size);
    same_first(bytes, result == 0 ? &node : NULL, &arena);
    if (result == 0) {
        must(!(node.has_gpus && node.gpus_error != NULL));
        must(node.n_gpus <= GPUS_PER_NODE_MAX + 1);
        must(node.name[0] != '\0' && strlen(node.name) <= NAME_BYTES_MAX);
        check(&node, &arena);
        check_claim(&node);
        vouch(&node);
        const struct second second = second_read(bytes);
        must(!second.refused);
        if (second.value != NULL)
            same_identity(&node, second.value);
        if (second.value != NULL && node.unreadable == NULL) {
            same_facts(&node, second.value);
            same_claim(&node, second.value);
        }
        json_decref(second.value);
    } else {
        must(strncmp(err.text, "Node", strlen("Node")) == 0);
    }
    return 0;
}
