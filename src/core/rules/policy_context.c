/*
 * Creates and queries the policy context of a snapshot. Called by any thread; a policy context is
 * immutable after publication.
 */
#include "milligpu/core/rules/policy_context.h"

#include <string.h>

#include "milligpu/base/alloc.h"

struct policy_context *policy_context_new(enum policy_kind kind, uint32_t seed,
                                          const struct workload *workload)
{
    must(kind < POLICIES);
    must(workload != NULL || !policy_needs_workload(kind));

    struct policy_context *context = xcalloc(1, sizeof *context);
    atomic_init(&context->refs, 1);
    context->kind = kind;
    context->seed = seed;
    if (workload != NULL)
        context->workload = workload_ref(workload);
    return context;
}

struct policy_context *policy_context_of_rulebook(const struct rulebook *book, rule_set holding,
                                                  const struct workload *workload)
{
    must(workload != NULL || !rulebook_needs_workload(book));

    struct policy_context *context = policy_context_new(book->policy, book->seed, workload);
    context->rulebook = rulebook_ref(book);
    context->holding = holding;
    must(context->kind == book->policy);
    return context;
}

struct policy_context *policy_context_copy(const struct policy_context *context)
{
    struct policy_context *copy =
        policy_context_new(context->kind, context->seed, context->workload);

    if (context->rulebook != NULL)
        copy->rulebook = rulebook_ref(context->rulebook);
    copy->holding = context->holding;
    memcpy(copy->idle, context->idle, sizeof copy->idle);
    memcpy(copy->scarcity_price, context->scarcity_price, sizeof copy->scarcity_price);
    must(copy->workload == context->workload);
    must(copy->rulebook == context->rulebook);
    return copy;
}

bool policy_context_uses(const struct policy_context *context, enum policy_kind kind)
{
    const struct rulebook *book = context->rulebook;
    bool uses = context->kind == kind;

    must(kind < POLICIES);
    must(book == NULL || book->n_rules <= RULES_MAX);
    for (uint32_t i = 0; book != NULL && i < book->n_rules; i++)
        uses = uses || (book->rule[i].has_order && book->rule[i].policy == kind);
    return uses;
}

bool policy_context_needs_workload(const struct policy_context *context)
{
    if (context == NULL)
        return false;
    const bool needs = context->rulebook == NULL ? policy_needs_workload(context->kind)
                                                 : rulebook_needs_workload(context->rulebook);
    must(!needs || context->workload != NULL);
    must(needs || !policy_needs_workload(context->kind));
    return needs;
}

/* Only the reference count is mutable. */
static atomic_uint *policy_context_refs_of(const struct policy_context *context)
{
    must(context != NULL);
    return (atomic_uint *)(uintptr_t)&context->refs;
}

const struct policy_context *policy_context_ref(const struct policy_context *context)
{
    const unsigned before =
        atomic_fetch_add_explicit(policy_context_refs_of(context), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    return context;
}

void policy_context_unref(const struct policy_context *context)
{
    if (context == NULL)
        return;
    const unsigned before =
        atomic_fetch_sub_explicit(policy_context_refs_of(context), 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1)
        return;
    workload_unref(context->workload);
    rulebook_unref(context->rulebook);
    xfree((void *)(uintptr_t)context);
}

rule_set policy_context_rules(const struct policy_context *context, struct text namespace)
{
    must(namespace.at != NULL || namespace.len == 0);
    return context == NULL ? 0 : rulebook_of_namespace(context->rulebook, namespace);
}

/*
 * The order of nodes
 */

enum policy_kind policy_context_kind(const struct policy_context *context, const struct rule *rule)
{
    must(context->kind < POLICIES);
    must(rule == NULL || context->rulebook != NULL);
    return rule != NULL && rule->has_order ? rule->policy : context->kind;
}
