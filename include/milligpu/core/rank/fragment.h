/*
 * fragment - how much free capacity the workload cannot use.
 *
 * A typical shape of the workload (workload.h) cannot use the free milli of a GPU if one of its
 * parts is larger, if the GPU is of another model or too small, or if the shape does not fit on the
 * node at all, for lack of GPUs or CPU. The fragment of a GPU is its free milli times the fraction
 * of pods that cannot use them: 0 if all can, all free milli if none can. The policy fgd measures
 * the sum over a node (source: policy.h).
 *
 * Pure.
 */
#ifndef MILLIGPU_FRAGMENT_H
#define MILLIGPU_FRAGMENT_H

#include "milligpu/core/node/node.h"
#include "milligpu/core/node/snapshot.h"
#include "milligpu/core/rules/workload.h"

/* Caches which class fits on which kind of GPU, for many nodes and one workload. One caller. */
struct fragments;
/* workload: borrowed. */
struct fragments *fragments_new(const struct workload *workload) MUST_USE;
/* The workload of this snapshot, which must outlive the result; NULL: it has none. */
struct fragments *fragments_new_for(const struct snapshot *snapshot) MUST_USE;
void fragments_free(struct fragments *fragments); /* NULL is allowed */
static inline void fragments_freep(struct fragments **fragments)
{
    fragments_free(*fragments);
}

/* Sets milli[i] to the fragment of node->gpu[i]; 0 if the GPU is closed. fragments NULL: all 0. */
void fragments_of_node(struct fragments *fragments, const struct node *node,
                       uint32_t milli[GPUS_PER_NODE_MAX]);

/* milli[gpu]; 0 for GPUs beyond GPUS_PER_NODE_MAX, which a node may list but which are absent. */
static inline uint32_t fragment_at(const uint32_t milli[GPUS_PER_NODE_MAX], uint32_t gpu)
{
    return gpu < GPUS_PER_NODE_MAX ? milli[gpu] : 0;
}

#endif
