/* Any text of our two JSON annotations becomes facts, whole or broken. */
#include <string.h>

#include "wire/kube_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shares(const struct pod *pod)
{
    must((pod->note == NOTE_OK) == (pod->shares > 0));
    must(pod->shares <= PARTS_MAX);
    for (uint32_t i = 0; i < pod->shares; i++) {
        const struct pod_share *share = &pod->share[i];
        must(strlen(share->container) > 0 && strlen(share->gpu) > 0);
        must(share->milli >= 1 && share->milli <= GPU_MILLI);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text note = {size > 0 ? (const char *)data : "", size};
    struct arena arena;
    struct pod pod = {.note = NOTE_NONE};
    struct node_facts node = {.name = "n"};
    arena_init(&arena);
    note_decode(note, &arena, &pod);
    check_shares(&pod);
    gpus_decode(note, &arena, &node);
    must(node.has_gpus == (node.gpus_error == NULL));
    for (uint32_t i = 0; i < node.gpus; i++)
        must(node.gpu[i].milli >= 1 && node.gpu[i].milli <= GPU_MILLI && node.gpu[i].id != NULL);
    arena_done(&arena);
    return 0;
}
