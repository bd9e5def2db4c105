/*
 * What a policy knows beyond the node: the outlook of a snapshot. Called by any thread; an outlook
 * never changes after it was published.
 */
#include "milligpu/core/rules/outlook.h"

#include <string.h>

#include "milligpu/base/alloc.h"

struct outlook *outlook_new(enum policy_kind kind, uint32_t seed, const struct workload *workload)
{
    must(kind < POLICIES);
    must(workload != NULL || !policy_needs_workload(kind));

    struct outlook *outlook = xcalloc(1, sizeof *outlook);
    atomic_init(&outlook->refs, 1);
    outlook->kind = kind;
    outlook->seed = seed;
    if (workload != NULL)
        outlook->workload = workload_ref(workload);
    return outlook;
}

struct outlook *outlook_of_rulebook(const struct rulebook *book, rule_set holding,
                                    const struct workload *workload)
{
    must(workload != NULL || !rulebook_needs_workload(book));

    struct outlook *outlook = outlook_new(book->policy, book->seed, workload);
    outlook->rulebook = rulebook_ref(book);
    outlook->holding = holding;
    must(outlook->kind == book->policy);
    return outlook;
}

struct outlook *outlook_copy(const struct outlook *outlook)
{
    struct outlook *copy = outlook_new(outlook->kind, outlook->seed, outlook->workload);

    if (outlook->rulebook != NULL)
        copy->rulebook = rulebook_ref(outlook->rulebook);
    copy->holding = outlook->holding;
    memcpy(copy->idle, outlook->idle, sizeof copy->idle);
    memcpy(copy->price, outlook->price, sizeof copy->price);
    must(copy->workload == outlook->workload);
    must(copy->rulebook == outlook->rulebook);
    return copy;
}

bool outlook_uses(const struct outlook *outlook, enum policy_kind kind)
{
    const struct rulebook *book = outlook->rulebook;
    bool uses = outlook->kind == kind;

    must(kind < POLICIES);
    must(book == NULL || book->rules <= RULES_MAX);
    for (uint32_t i = 0; book != NULL && i < book->rules; i++)
        uses = uses || (book->rule[i].orders && book->rule[i].policy == kind);
    return uses;
}

bool outlook_needs_workload(const struct outlook *outlook)
{
    if (outlook == NULL)
        return false;
    const bool needs = outlook->rulebook == NULL ? policy_needs_workload(outlook->kind)
                                                 : rulebook_needs_workload(outlook->rulebook);
    must(!needs || outlook->workload != NULL);
    must(needs || !policy_needs_workload(outlook->kind));
    return needs;
}

/* The reference count is the only part of an outlook that changes. */
static atomic_uint *outlook_refs_of(const struct outlook *outlook)
{
    must(outlook != NULL);
    return (atomic_uint *)(uintptr_t)&outlook->refs;
}

const struct outlook *outlook_ref(const struct outlook *outlook)
{
    const unsigned before =
        atomic_fetch_add_explicit(outlook_refs_of(outlook), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    return outlook;
}

void outlook_unref(const struct outlook *outlook)
{
    if (outlook == NULL)
        return;
    const unsigned before =
        atomic_fetch_sub_explicit(outlook_refs_of(outlook), 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1)
        return;
    workload_unref(outlook->workload);
    rulebook_unref(outlook->rulebook);
    xfree((void *)(uintptr_t)outlook);
}

rule_set outlook_rules(const struct outlook *outlook, struct text namespace)
{
    must(namespace.at != NULL || namespace.len == 0);
    return outlook == NULL ? 0 : rulebook_of_namespace(outlook->rulebook, namespace);
}

/*
 * The order of nodes
 */

enum policy_kind outlook_kind(const struct outlook *outlook, const struct rule *rule)
{
    must(outlook->kind < POLICIES);
    must(rule == NULL || outlook->rulebook != NULL);
    return rule != NULL && rule->orders ? rule->policy : outlook->kind;
}
