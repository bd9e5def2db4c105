/*
 * policy_kind - the policies by name. What each of them prefers: policy.h.
 */
#ifndef MILLIGPU_POLICY_KIND_H
#define MILLIGPU_POLICY_KIND_H

#include "milligpu/text.h"

#define POLICY_TABLE(X)                                                                            \
    X(POLICY_BINPACK, "binpack", "tightest hole, fullest node")                                    \
    X(POLICY_FIRSTFIT, "firstfit", "first node and first GPUs that fit, in a fixed order")         \
    X(POLICY_SPREAD, "spread", "emptiest GPUs, emptiest node")                                     \
    X(POLICY_FGD, "fgd", "least fragmentation for the workload (published scores)")                \
    X(POLICY_ROLLOUT, "rollout", "least idle GPU once the workload has filled the node")

enum policy_kind {
#define X(code, word, help) code,
    POLICY_TABLE(X)
#undef X
        POLICIES
};

const char *policy_name(enum policy_kind kind);
const char *policy_help(enum policy_kind kind);
/* False: there is no such policy. */
bool policy_of_name(struct text name, enum policy_kind *out);
/* fgd and rollout need a workload. */
bool policy_needs_workload(enum policy_kind kind);

#endif
