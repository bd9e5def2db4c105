/*
 * policy_context - the input of a policy beyond the node.
 *
 * Immutable, reference-counted, part of the snapshot. A NULL policy context means binpack.
 */
#ifndef MILLIGPU_POLICY_CONTEXT_H
#define MILLIGPU_POLICY_CONTEXT_H

#include "milligpu/core/rules/policy_kind.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/core/rules/workload.h"

struct policy_context {
    atomic_uint refs;
    enum policy_kind kind;           /* default; a rule may override it */
    uint32_t seed;                   /* of the node order */
    const struct rulebook *rulebook; /* NULL: no rules and no prices of models */
    rule_set holding;                /* rules that hold now */
    uint32_t idle[RULES_MAX];        /* idle hosts matched by each rule with a reserve; else 0 */
    const struct workload *workload; /* NULL only if the policy needs none */
    int64_t scarcity_price[WORKLOAD_SCARCE_MAX];
};

struct policy_context *policy_context_new(enum policy_kind kind, uint32_t seed,
                                          const struct workload *workload) MUST_USE;
/* The context of a policy document with the rules that hold. workload: NULL if not needed. */
struct policy_context *policy_context_of_rulebook(const struct rulebook *book, rule_set holding,
                                                  const struct workload *workload) MUST_USE;
/* Returns a copy, prices and idle hosts included, to be changed before it is shared. */
struct policy_context *policy_context_copy(const struct policy_context *context) MUST_USE;
const struct policy_context *policy_context_ref(const struct policy_context *context);
void policy_context_unref(const struct policy_context *context); /* NULL is fine */

/* Does it order nodes by this policy, by default or by a rule? */
bool policy_context_uses(const struct policy_context *context, enum policy_kind kind);
bool policy_context_needs_workload(const struct policy_context *context); /* false for NULL */

/* The rules that match a namespace, for request.rules; empty if context is NULL. */
rule_set policy_context_rules(const struct policy_context *context, struct text namespace);

/*
 * The policy where this rule wins: its own, or that of the document if the rule is NULL or sets no
 * order.
 */
enum policy_kind policy_context_kind(const struct policy_context *context, const struct rule *rule);

#endif
