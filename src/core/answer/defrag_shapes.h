/*
 * defrag_shapes - how many more pods of the commonest shapes of a workload fit, each by itself.
 *
 * Counted as: each GPU of a node takes as many parts as fit into its free milli, each pod as many
 * GPUs as it has parts, and the CPU that is known to be left is enough for all. Memory of hosts and
 * the number of pods on one GPU are no part of it.
 *
 * Pure.
 */
#ifndef MILLIGPU_CORE_DEFRAG_SHAPES_H
#define MILLIGPU_CORE_DEFRAG_SHAPES_H

#include "milligpu/core/answer/defrag.h"

#include "core/rank/policy_internal.h"

struct shape_counter {
    uint32_t shapes;
    const struct workload_typical *shape[DEFRAG_SHAPES];
    struct kinds kinds;
};

/* Of the shapes that ask for GPUs, the first. Borrows the workload. */
void shape_counter_init(struct shape_counter *counter, const struct workload *workload);
void shape_counter_done(struct shape_counter *counter);
const struct workload_class *shape_counter_class(const struct shape_counter *counter, uint32_t at);
/* Adds to count[i] what fits of shape i on this node. */
void shape_counter_add(struct shape_counter *counter, const struct node *node,
                       uint64_t count[DEFRAG_SHAPES]);

#endif
