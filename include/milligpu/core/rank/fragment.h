/*
 * fragment - how much of what is free the workload cannot use.
 *
 * A typical shape of the workload (workload.h) cannot use what is free on a GPU if a part of it is
 * larger than that, if the GPU is of another model or too small, or if the shape does not fit on
 * the node at all, for want of GPUs or of CPU. The fragment of a GPU is its free milli times the
 * share of pods that cannot use them: 0 if all can, all of it if none can. The sum over a node is
 * the measure of the policy fgd (policy.h has its source).
 *
 * Pure.
 */
#ifndef MILLIGPU_FRAGMENT_H
#define MILLIGPU_FRAGMENT_H

#include "milligpu/core/node/node.h"
#include "milligpu/core/node/snapshot.h"
#include "milligpu/core/rules/workload.h"

/* For many nodes and one workload: remembers which class fits on which kind of GPU. One caller. */
struct fragments;
/* Borrows the workload. */
struct fragments *fragments_new(const struct workload *workload) MUST_USE;
/* Of the workload that this snapshot knows, which must outlive them; NULL: it knows none. */
struct fragments *fragments_new_for(const struct snapshot *snapshot) MUST_USE;
void fragments_free(struct fragments *fragments); /* NULL is fine */
static inline void fragments_freep(struct fragments **fragments)
{
    fragments_free(*fragments);
}

/*
 * milli[i] is the fragment of node->gpu[i]; 0 where the GPU takes no new shares. fragments NULL:
 * nothing is a fragment.
 */
void fragments_of_node(struct fragments *fragments, const struct node *node,
                       uint32_t milli[GPUS_PER_NODE_MAX]);

/* milli[gpu]. A node may list more GPUs than it may show: those beyond are absent, so it is 0. */
static inline uint32_t fragment_at(const uint32_t milli[GPUS_PER_NODE_MAX], uint32_t gpu)
{
    return gpu < GPUS_PER_NODE_MAX ? milli[gpu] : 0;
}

#endif
