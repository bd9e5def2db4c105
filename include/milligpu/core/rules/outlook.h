/*
 * outlook - what a policy knows beyond the node.
 *
 * Immutable, reference-counted, part of the snapshot. NULL instead of an outlook means binpack.
 */
#ifndef MILLIGPU_OUTLOOK_H
#define MILLIGPU_OUTLOOK_H

#include "milligpu/core/rules/policy_kind.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/core/rules/workload.h"

struct outlook {
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

struct outlook *outlook_new(enum policy_kind kind, uint32_t seed,
                            const struct workload *workload) MUST_USE;
/* What a policy document says, and which of its rules hold. workload: where it needs one. */
struct outlook *outlook_of_rulebook(const struct rulebook *book, rule_set holding,
                                    const struct workload *workload) MUST_USE;
/* The same with the same prices and idle hosts, to be changed before it is shared. */
struct outlook *outlook_copy(const struct outlook *outlook) MUST_USE;
const struct outlook *outlook_ref(const struct outlook *outlook);
void outlook_unref(const struct outlook *outlook); /* NULL is fine */

/* Does it order nodes by this policy, all of them or those of a rule? */
bool outlook_uses(const struct outlook *outlook, enum policy_kind kind);
bool outlook_needs_workload(const struct outlook *outlook); /* NULL: no */

/* The rules that match a namespace, for request.rules; outlook NULL: none. */
rule_set outlook_rules(const struct outlook *outlook, struct text namespace);

/*
 * The policy where this rule wins; one that says nothing about the order (or NULL)
 * leaves that of the whole document in force.
 */
enum policy_kind outlook_kind(const struct outlook *outlook, const struct rule *rule);

#endif
