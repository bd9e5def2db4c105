/*
 * policy_kind - the policies by name; policy.h describes them.
 */
#ifndef MILLIGPU_POLICY_KIND_H
#define MILLIGPU_POLICY_KIND_H

#include "milligpu/base/text.h"

/*
 * The last column is the policy that milligpud uses where this one is configured: a different one
 * if this is only a baseline of milligpuctl simulate.
 */
#define POLICY_TABLE(X)                                                                            \
    X(POLICY_BINPACK, binpack, POLICY_BINPACK)                                                     \
    X(POLICY_FIRSTFIT, firstfit, POLICY_BINPACK)                                                   \
    X(POLICY_SPREAD, spread, POLICY_SPREAD)                                                        \
    X(POLICY_FGD, fgd, POLICY_ROLLOUT)                                                             \
    X(POLICY_ROLLOUT, rollout, POLICY_ROLLOUT)

enum policy_kind {
#define X(code, word, served) code,
    POLICY_TABLE(X)
#undef X
        POLICIES
};

const char *policy_name(enum policy_kind kind);
const char *policy_help(enum policy_kind kind);
/* Returns false if there is no such policy. */
bool policy_of_name(struct text name, enum policy_kind *out);
/* The policy that milligpud uses for it. */
enum policy_kind policy_served(enum policy_kind kind);
/* Does it rate the remaining room of a node by the expected pods? */
bool policy_needs_workload(enum policy_kind kind);

#endif
