/*
 * policy_context - what a policy knows beyond the node.
 *
 * Immutable, reference-counted, part of the snapshot. NULL instead of a policy context means
 * binpack.
 */
#ifndef MILLIGPU_POLICY_CONTEXT_H
#define MILLIGPU_POLICY_CONTEXT_H

#include "milligpu/core/rules/policy_kind.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/core/rules/workload.h"

struct policy_context {
    atomic_uint refs;
    enum policy_kind kind;           /* where no rule says otherwise */
    uint32_t seed;                   /* of the node order */
    const struct rulebook *rulebook; /* NULL: no rules and no prices of models */
    rule_set holding;                /* rules that hold at the moment */
    /* idle hosts that each rule with a reserve matches; 0 for the others */
    uint32_t idle[RULES_MAX];
    const struct workload *workload; /* may be NULL where the policy needs none */
    int64_t price[WORKLOAD_SCARCE_MAX];
};

struct policy_context *policy_context_new(enum policy_kind kind, uint32_t seed,
                                          const struct workload *workload) MUST_USE;
/* What a policy document says, and which of its rules hold. workload: where it needs one. */
struct policy_context *policy_context_of_rulebook(const struct rulebook *book, rule_set holding,
                                                  const struct workload *workload) MUST_USE;
/* The same with the same prices and idle hosts, to be changed before it is shared. */
struct policy_context *policy_context_copy(const struct policy_context *context) MUST_USE;
const struct policy_context *policy_context_ref(const struct policy_context *context);
void policy_context_unref(const struct policy_context *context); /* NULL is fine */

/* Does it order nodes by this policy, all of them or those of a rule? */
bool policy_context_uses(const struct policy_context *context, enum policy_kind kind);
bool policy_context_needs_workload(const struct policy_context *context); /* NULL: no */

/* The rules that match a namespace, for request.rules; policy context NULL: none. */
rule_set policy_context_rules(const struct policy_context *context, struct text namespace);

/*
 * The policy where this rule wins; one that says nothing about the order (or NULL)
 * leaves that of the whole document in force.
 */
enum policy_kind policy_context_kind(const struct policy_context *context, const struct rule *rule);

#endif
