/*
 * defrag_shapes - how many more pods of the most frequent shapes of a workload fit, each by itself.
 *
 * Each GPU of a node takes as many parts as fit into its free milli, each pod as many GPUs as it
 * has parts, and the known free CPU must suffice for all. Host memory and the number of pods on one
 * GPU are ignored.
 *
 * Pure.
 */
#ifndef MILLIGPU_CORE_DEFRAG_SHAPES_H
#define MILLIGPU_CORE_DEFRAG_SHAPES_H

#include "milligpu/core/answer/defrag.h"

#include "core/rank/policy_internal.h"

struct shape_counter {
    uint32_t n_shapes;
    const struct workload_typical *shape[DEFRAG_SHAPES];
    struct kinds kinds;
};

/* Uses the first shapes that request GPUs. Borrows the workload. */
void shape_counter_init(struct shape_counter *counter, const struct workload *workload);
void shape_counter_done(struct shape_counter *counter);
const struct workload_class *shape_counter_class(const struct shape_counter *counter, uint32_t at);
/* Adds to count[i] the number of pods of shape i that fit on this node. */
void shape_counter_add(struct shape_counter *counter, const struct node *node,
                       uint64_t count[DEFRAG_SHAPES]);

#endif
