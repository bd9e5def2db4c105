/*
 * Computes the fragments of GPUs for people: REST, metrics and top. The policy fgd computes the sum
 * for a node in policy_fgd.c; a test compares the two.
 */
#include "milligpu/core/rank/fragment.h"

#include <string.h>

#include "milligpu/base/alloc.h"

#include "policy_internal.h"

struct fragments {
    struct kinds kinds;
    /* Both are too large for the stack. */
    struct room room;
    struct remaining remaining;
};

struct fragments *fragments_new(const struct workload *workload)
{
    must(workload != NULL);
    struct fragments *fragments = xmalloc(sizeof *fragments);
    kinds_init(&fragments->kinds, workload);
    must(fragments->kinds.workload == workload);
    return fragments;
}

struct fragments *fragments_new_for(const struct snapshot *snapshot)
{
    must(snapshot != NULL);
    if (snapshot->context == NULL || snapshot->context->workload == NULL)
        return NULL;
    return fragments_new(snapshot->context->workload);
}

void fragments_free(struct fragments *fragments)
{
    if (fragments == NULL)
        return;
    must(fragments->kinds.workload != NULL);
    kinds_done(&fragments->kinds);
    xfree(fragments);
}

/* Adds, for each GPU, the free milli unusable for this shape, times its count. */
static void add_shape(const struct remaining *remaining, const struct workload_typical *shape,
                      uint64_t *sum)
{
    uint32_t able = 0;
    bool fits[GPUS_PER_NODE_MAX];

    must(shape->count > 0);
    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < remaining->n_gpus; i++) {
        fits[i] = remaining_takes(remaining, i, shape);
        able += fits[i];
    }
    const bool none = able < shape->parts || remaining->host.cpu_milli < shape->cpu_milli;
    for (uint32_t i = 0; i < remaining->n_gpus; i++)
        if (none || !fits[i])
            sum[i] += (uint64_t)shape->count * remaining->free[i];
}

void fragments_of_remaining(const struct workload *workload, const struct remaining *remaining,
                            uint64_t sum[GPUS_PER_NODE_MAX])
{
    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    memset(sum, 0, remaining->n_gpus * sizeof *sum);
    for (uint32_t t = 0; t < workload->n_typical; t++)
        add_shape(remaining, &workload->typical[t], sum);
}

void fragments_of_node(struct fragments *fragments, const struct node *node,
                       uint32_t milli[GPUS_PER_NODE_MAX])
{
    uint64_t sum[GPUS_PER_NODE_MAX];

    memset(milli, 0, GPUS_PER_NODE_MAX * sizeof *milli);
    if (fragments == NULL || fragments->kinds.workload->typical_count == 0 ||
        node->unusable.why != USABLE)
        return;
    const struct workload *workload = fragments->kinds.workload;
    const uint64_t pods = workload->typical_count;
    struct remaining *remaining = &fragments->remaining;
    room_of(node, &fragments->room);
    remaining_of(&fragments->room, &fragments->kinds,
                 remaining); /* without GPUs if the node is closed */
    fragments_of_remaining(workload, remaining, sum);
    for (uint32_t i = 0; i < remaining->n_gpus; i++) {
        must(remaining->gpu[i] < node->n_gpus);
        must(sum[i] <= pods * remaining->free[i]);
        milli[remaining->gpu[i]] = (uint32_t)((sum[i] + pods / 2) / pods);
    }
}
