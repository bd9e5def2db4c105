/*
 * The policy of grants: which outlook holds, and what it has to know of the whole cluster. Called
 * by the owner of the ledger. Places for pods of several GPUs are counted node by node, with every
 * change of a node; prices follow from the sums after every PRICE_EVERY grants, in a new outlook,
 * since filters may still read the former one.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "ledger_internal.h"

static bool has_prices(const struct ledger *ledger)
{
    const struct outlook *outlook = ledger->outlook;

    must(outlook == NULL || outlook->workload != NULL || !outlook_needs_workload(outlook));
    return outlook != NULL && outlook_uses(outlook, POLICY_ROLLOUT) &&
           outlook->workload->scarces > 0;
}

static void add_node(struct ledger *ledger, const struct node *node, int64_t sign)
{
    const struct workload *workload = ledger->outlook->workload;
    UNSET struct room room;
    struct rest rest;
    struct slots slots;

    must(sign == 1 || sign == -1);
    room_of(node, &room);
    rest_of(&room, ledger->kinds, &rest);
    slots_of(workload, &rest, &slots);
    for (uint32_t i = 0; i < workload->scarces; i++)
        ledger->supply.slots[i] += (uint64_t)(sign * slots.count[i]);
    ledger->supply.free_milli += (uint64_t)(sign * rest.free_milli);
    ledger->supply.nodes += (uint32_t)(sign * (node->gpus > 0));
    must(ledger->supply.nodes <= NODES_MAX);
}

/* Rules that keep idle hosts. */
static rule_set reserving_rules(const struct outlook *outlook)
{
    rule_set rules = 0;

    if (outlook == NULL || outlook->rulebook == NULL)
        return 0;
    for (uint32_t i = 0; i < outlook->rulebook->rules; i++)
        rules |= outlook->rulebook->rule[i].reserve > 0 ? one_rule(i) : 0;
    must(outlook->rulebook->rules <= RULES_MAX);
    must(outlook->rulebook->rules > 0 || rules == 0);
    return rules;
}

/* Filters may still read the former outlook, so another number is another outlook. */
static void count_idle(struct ledger *ledger, const struct node *from, const struct node *to)
{
    const rule_set less = from != NULL && node_is_idle(from) ? from->rules & ledger->reserving : 0;
    const rule_set more = to != NULL && node_is_idle(to) ? to->rules & ledger->reserving : 0;

    must(ledger->reserving != 0);
    must(ledger->outlook != NULL);
    if (less == more)
        return;
    struct outlook *outlook = outlook_copy(ledger->outlook);
    for (uint32_t i = 0; i < outlook->rulebook->rules; i++) {
        must((less & one_rule(i)) == 0 || outlook->idle[i] > 0);
        outlook->idle[i] += (more & one_rule(i)) != 0;
        outlook->idle[i] -= (less & one_rule(i)) != 0;
    }
    outlook_unref(ledger->outlook);
    ledger->outlook = outlook;
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
    const struct outlook *former = ledger->outlook;

    if (ledger->kinds == NULL)
        return;
    must(has_prices(ledger));
    struct outlook *outlook = outlook_copy(former);
    scarcity_prices(former->workload, &ledger->supply, outlook->price);
    ledger->outlook = outlook;
    ledger->grants = 0;
    outlook_unref(former);
    must(has_prices(ledger));
}

void ledger_count_grant(struct ledger *ledger)
{
    must(ledger != NULL);
    must(ledger->grants < PRICE_EVERY);
    if (ledger->kinds != NULL && ++ledger->grants == PRICE_EVERY)
        ledger_set_prices(ledger);
}

void ledger_start_prices(struct ledger *ledger, const struct outlook *outlook)
{
    must(ledger != NULL);
    outlook_unref(ledger->outlook);
    ledger->outlook = outlook != NULL ? outlook_ref(outlook) : NULL;
    ledger->reserving = reserving_rules(outlook);
    /* The nodes are counted anew. */
    if (ledger->reserving != 0) {
        struct outlook *empty = outlook_copy(outlook);
        memset(empty->idle, 0, sizeof empty->idle);
        outlook_unref(ledger->outlook);
        ledger->outlook = empty;
    }
    ledger->supply = (struct supply){0};
    kinds_freep(&ledger->kinds);
    ledger->kinds = NULL;
    if (!has_prices(ledger))
        return;
    ledger->kinds = xmalloc(sizeof *ledger->kinds);
    kinds_init(ledger->kinds, ledger->outlook->workload);
    must(ledger->kinds->workload != NULL);
}

const struct outlook *ledger_outlook(const struct ledger *ledger)
{
    must(ledger != NULL);
    must(ledger->kinds == NULL || ledger->outlook != NULL);
    return ledger->outlook;
}

struct cause ledger_place(const struct ledger *ledger, const struct node *node,
                          const struct request *request, struct placement *out)
{
    const struct policy_question question = {
        .outlook = ledger->outlook,
        .node = node,
        .slot = SNAPSHOT_NO_SLOT,
    };
    CLEANUP(xfreep) struct room *room = xmalloc(sizeof *room);
    UNSET struct plan plan;
    struct rank rank;

    must(!node->gone);
    must(request_asks(request));
    room_of(node, room);
    plan_init(&plan, request, ledger->outlook);
    return plan_cause(&plan, policy_judge_room(&question, &plan, room, &rank, out));
}
