/*
 * policy_kind - the policies by name. What each of them prefers: policy.h.
 */
#ifndef MILLIGPU_POLICY_KIND_H
#define MILLIGPU_POLICY_KIND_H

#include "milligpu/text.h"

#define POLICY_TABLE(X)                                                                            \
    X(POLICY_BINPACK, binpack)                                                                     \
    X(POLICY_FIRSTFIT, firstfit)                                                                   \
    X(POLICY_SPREAD, spread)                                                                       \
    X(POLICY_FGD, fgd)                                                                             \
    X(POLICY_ROLLOUT, rollout)

enum policy_kind {
#define X(code, word) code,
    POLICY_TABLE(X)
#undef X
        POLICIES
};

const char *policy_name(enum policy_kind kind);
const char *policy_help(enum policy_kind kind);
/* False: there is no such policy. */
bool policy_of_name(struct text name, enum policy_kind *out);
/* Does it judge what a placement leaves of a node for the pods that are expected? */
bool policy_needs_workload(enum policy_kind kind);

#endif
