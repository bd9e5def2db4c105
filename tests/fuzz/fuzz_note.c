/*
 * Any text of our two JSON annotations is decoded as whole or as broken. Shares that were read are
 * granted, written as a note, and read again as the same shares.
 */
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"
#include "wire/kube/kube_read.h"

static void check_shares(const struct pod *pod)
{
    must((pod->annotation == NOTE_OK) == (pod->n_shares > 0));
    must(pod->annotation == NOTE_OK ||
         strncmp(pod->note_error, "milligpu.io/allocation", strlen("milligpu.io/allocation")) == 0);
    must(pod->n_shares <= PARTS_MAX);
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct pod_share *share = &pod->share[i];
        must(strlen(share->container) > 0 && strlen(share->container) <= NAME_BYTES_MAX);
        must(strlen(share->gpu) > 0 && strlen(share->gpu) <= GPU_ID_BYTES_MAX);
        must(share->milli >= 1 && share->milli <= GPU_MILLI);
        must(share->asked < share->milli); /* 0 if it is the same */
    }
}

static const struct pod_share *find(const struct pod *pod, const struct pod_share *wanted)
{
    for (uint32_t i = 0; i < pod->n_shares; i++)
        if (strcmp(pod->share[i].gpu, wanted->gpu) == 0 &&
            strcmp(pod->share[i].container, wanted->container) == 0)
            return &pod->share[i];
    return NULL;
}

static void same_shares(const struct pod *pod, const struct pod *again)
{
    must(again->annotation == NOTE_OK && again->n_shares == pod->n_shares);
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct pod_share *other = find(again, &pod->share[i]);
        must(other != NULL && other->milli == pod->share[i].milli &&
             other->asked == pod->share[i].asked && other->mib == pod->share[i].mib);
    }
}

/* The container's place in the order of life: the order in which the note lists them. */
static uint16_t order_of(const struct pod *pod, uint32_t i)
{
    uint32_t order = 0;
    for (uint32_t j = 1; j <= i; j++)
        order += strcmp(pod->share[j].container, pod->share[j - 1].container) != 0;
    return (uint16_t)order;
}

static void write_and_read(const struct pod *pod, struct arena *arena)
{
    struct names *names = names_new();
    const struct atom *empty = names_intern(names, TEXT(""));
    const struct node_build build = {
        .name = names_intern(names, TEXT("n")), .uid = empty, .problem_text = empty};
    struct share *share = arena_array(arena, pod->n_shares, sizeof *share);
    struct pod again = {.annotation = NOTE_NONE};
    SCOPED_STRBUF(out);
    for (uint32_t i = 0; i < pod->n_shares; i++)
        share[i] = (struct share){.container = pod->share[i].container,
                                  .order = order_of(pod, i),
                                  .gpu = names_intern(names, text_of(pod->share[i].gpu)),
                                  .milli = pod->share[i].milli,
                                  .asked = pod->share[i].asked,
                                  .mib = pod->share[i].mib};
    const struct allocation_facts facts = {.uid = "u",
                                           .namespace = "ns",
                                           .name = "p",
                                           .node = build.name,
                                           .node_uid = empty,
                                           .origin = ORIGIN_ADOPTED,
                                           .n_shares = pod->n_shares,
                                           .share = share};
    if (allocation_fault(&facts) == NULL) {
        struct node *node = node_new(&build);
        struct allocation *allocation = allocation_new(&facts);
        note_value(&out, allocation, node);
        annotation_decode((struct text){out.data, out.len}, arena, &again);
        same_shares(pod, &again);
        allocation_unref(allocation);
        node_unref(node);
    }
    names_free(names);
}

static json_t *second_shares(json_t *root)
{
    return second_field(root, "containers");
}

/* jansson counts the same shares and the same milli. */
static void same_as_second(const struct pod *pod, struct text note)
{
    const struct second second = second_read(note);
    const char *name;
    json_t *shares;
    json_t *share;
    size_t i;
    uint32_t count = 0;
    uint64_t sum = 0;
    uint64_t theirs = 0;
    must(!second.refused);
    for (uint32_t j = 0; j < pod->n_shares; j++)
        sum += pod->share[j].milli;
    json_object_foreach (second_shares(second.value), name, shares)
        json_array_foreach (shares, i, share) {
            count++;
            theirs += (uint64_t)json_number_value(second_field(share, "milli"));
        }
    must(second.value == NULL || (count == pod->n_shares && theirs == sum));
    json_decref(second.value);
}

static void check_gpus(const struct node_facts *node)
{
    must(node->has_gpus == (node->gpus_error == NULL));
    must(node->n_gpus <= GPUS_PER_NODE_MAX + 1);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        const struct gpu_facts *gpu = &node->gpu[i];
        must(gpu->milli >= 1 && gpu->milli <= GPU_MILLI && gpu->id != NULL);
        must(gpu->index <= UINT16_MAX && gpu->numa >= -1 && gpu->numa <= INT16_MAX);
        must(gpu->n_nvlinks <= GPUS_PER_NODE_MAX);
        for (uint32_t j = 0; j < gpu->n_nvlinks; j++)
            must(strlen(gpu->nvlink[j]) < ANNOTATION_BYTES_MAX);
        for (uint32_t j = 0; j < i; j++)
            must(strcmp(gpu->id, node->gpu[j].id) != 0 && gpu->index != node->gpu[j].index);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text note = {size > 0 ? (const char *)data : "", size};
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    struct pod pod = {.annotation = NOTE_NONE};
    struct node_facts node = {.name = "n"};
    annotation_decode(note, &arena, &pod);
    gpus_decode(note, &arena, &node);
    heap_is_bounded(before, size);
    check_shares(&pod);
    check_gpus(&node);
    if (pod.annotation == NOTE_OK) {
        write_and_read(&pod, &arena);
        same_as_second(&pod, note);
    }
    return 0;
}
