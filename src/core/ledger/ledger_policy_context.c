/*
 * Maintains the policy context of grants and its totals over the cluster. Called by the owner of
 * the ledger. Places for pods of several GPUs are counted node by node, at every change of a node;
 * prices are calculated from the totals after every PRICE_EVERY grants, in a new policy context,
 * because filters may still read the former one.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "ledger_internal.h"

static bool has_prices(const struct ledger *ledger)
{
    const struct policy_context *context = ledger->context;

    must(context == NULL || context->workload != NULL || !policy_context_needs_workload(context));
    return context != NULL && policy_context_uses(context, POLICY_ROLLOUT) &&
           context->workload->n_scarce > 0;
}

static void add_node(struct ledger *ledger, const struct node *node, int64_t sign)
{
    const struct workload *workload = ledger->context->workload;
    UNSET struct room room;
    struct remaining remaining;
    struct class_capacity slots;

    must(sign == 1 || sign == -1);
    room_of(node, &room);
    remaining_of(&room, ledger->kinds, &remaining);
    class_capacity_of(workload, &remaining, &slots);
    for (uint32_t i = 0; i < workload->n_scarce; i++)
        ledger->supply.slots[i] += (uint64_t)(sign * slots.count[i]);
    ledger->supply.free_milli += (uint64_t)(sign * remaining.free_milli);
    ledger->supply.nodes += (uint32_t)(sign * (node->n_gpus > 0));
    must(ledger->supply.nodes <= NODES_MAX);
}

/* Rules with a reserve. */
static rule_set reserving_rules(const struct policy_context *context)
{
    rule_set rules = 0;

    if (context == NULL || context->rulebook == NULL)
        return 0;
    for (uint32_t i = 0; i < context->rulebook->n_rules; i++)
        rules |= context->rulebook->rule[i].reserve > 0 ? one_rule(i) : 0;
    must(context->rulebook->n_rules <= RULES_MAX);
    must(context->rulebook->n_rules > 0 || rules == 0);
    return rules;
}

/* Changes a copy of the context, because filters may still read the former one. */
static void count_idle(struct ledger *ledger, const struct node *from, const struct node *to)
{
    const rule_set less = from != NULL && node_is_idle(from) ? from->rules & ledger->reserving : 0;
    const rule_set more = to != NULL && node_is_idle(to) ? to->rules & ledger->reserving : 0;

    must(ledger->reserving != 0);
    must(ledger->context != NULL);
    if (less == more)
        return;
    struct policy_context *context = policy_context_copy(ledger->context);
    for (uint32_t i = 0; i < context->rulebook->n_rules; i++) {
        must((less & one_rule(i)) == 0 || context->idle[i] > 0);
        context->idle[i] += (more & one_rule(i)) != 0;
        context->idle[i] -= (less & one_rule(i)) != 0;
    }
    policy_context_unref(ledger->context);
    ledger->context = context;
}

void ledger_swap_supply(struct ledger *ledger, const struct node *from, const struct node *to)
{
    if (ledger->reserving != 0)
        count_idle(ledger, from, to);
    if (ledger->kinds == NULL)
        return;

    must(has_prices(ledger));
    must(from != NULL || to != NULL);
    if (from != NULL)
        add_node(ledger, from, -1);
    if (to != NULL)
        add_node(ledger, to, 1);
}

void ledger_set_prices(struct ledger *ledger)
{
    const struct policy_context *former = ledger->context;

    if (ledger->kinds == NULL)
        return;
    must(has_prices(ledger));
    struct policy_context *context = policy_context_copy(former);
    scarcity_prices(former->workload, &ledger->supply, context->scarcity_price);
    ledger->context = context;
    ledger->grants = 0;
    policy_context_unref(former);
    must(has_prices(ledger));
}

void ledger_count_grant(struct ledger *ledger)
{
    must(ledger != NULL);
    must(ledger->grants < PRICE_EVERY);
    if (ledger->kinds != NULL && ++ledger->grants == PRICE_EVERY)
        ledger_set_prices(ledger);
}

void ledger_start_prices(struct ledger *ledger, const struct policy_context *context)
{
    must(ledger != NULL);
    policy_context_unref(ledger->context);
    ledger->context = context != NULL ? policy_context_ref(context) : NULL;
    ledger->reserving = reserving_rules(context);
    /* Starts at 0: the caller counts all nodes. */
    if (ledger->reserving != 0) {
        struct policy_context *empty = policy_context_copy(context);
        memset(empty->idle, 0, sizeof empty->idle);
        policy_context_unref(ledger->context);
        ledger->context = empty;
    }
    ledger->supply = (struct supply){0};
    kinds_freep(&ledger->kinds);
    ledger->kinds = NULL;
    score_cache_free(STEAL(ledger->scores));
    if (context != NULL && policy_context_needs_workload(context))
        ledger->scores = score_cache_new();
    if (!has_prices(ledger))
        return;
    ledger->kinds = xmalloc(sizeof *ledger->kinds);
    kinds_init(ledger->kinds, ledger->context->workload);
    must(ledger->kinds->workload != NULL);
}

const struct policy_context *ledger_policy_context(const struct ledger *ledger)
{
    must(ledger != NULL);
    must(ledger->kinds == NULL || ledger->context != NULL);
    return ledger->context;
}

struct cause ledger_place(const struct ledger *ledger, const struct node *node,
                          const struct request *request, struct placement *out)
{
    const struct policy_question question = {
        .context = ledger->context,
        .cache = ledger->scores,
        .node = node,
        .slot = 0, /* any: by slot, policy_score() alone caches */
    };
    CLEANUP(xfreep) struct room *room = xmalloc(sizeof *room);
    UNSET struct plan plan;
    struct rank rank;

    must(!node->gone);
    must(request_asks(request));
    room_of(node, room);
    policy_begin_rooms(ledger->scores, ledger->context);
    plan_init(&plan, request, ledger->context);
    return plan_cause(&plan, policy_score_room(&question, &plan, room, &rank, out));
}
