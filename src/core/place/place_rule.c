/*
 * Applies the rules of a policy to a request and a room before the search: the winner among the
 * rules that match both, its demands, and the idle hosts that it reserves. Called by place.c for
 * every room, so that all callers get the same answer.
 */
#include "milligpu/core/rules/policy_context.h"

#include "place_internal.h"

const struct rule *plan_rule(const struct plan *plan, const rule_set *of_node)
{
    const rule_set rules = plan->rules == 0 ? 0 : plan->rules & *of_node;

    must(rules == 0 || plan->context != NULL);
    must(rules == 0 || plan->context->rulebook != NULL);
    return rules == 0 ? NULL : rulebook_first(plan->context->rulebook, rules);
}

/* Caches the last answer: the GPUs of a node are mostly of one model. */
static bool is_allowed(struct plan *plan, const struct atom *model)
{
    const struct rule *rule = plan->rule;

    must(model != NULL);
    if (rule == NULL || rule->n_models == 0)
        return true;
    if (plan->allowed.rule != rule || plan->allowed.model != model) {
        plan->allowed.can_take = rule_takes_model(rule, atom_text(model));
        plan->allowed.rule = rule;
        plan->allowed.model = model;
    }
    return plan->allowed.can_take;
}

bool plan_takes(struct plan *plan, const struct atom *model)
{
    must(model != NULL);
    must(plan->request != NULL);
    return plan_asks_for(plan, model) && is_allowed(plan, model);
}

/* False: every GPU of a requested model is of a model that the rule does not allow. */
static bool allows_a_model(struct plan *plan, const struct room *room)
{
    bool asked = false;

    must(plan->rule != NULL);
    must(room->n_gpus > 0);
    if (plan->rule->n_models == 0)
        return true;
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        if (!plan_asks_for(plan, room->gpu[i].model))
            continue;
        asked = true;
        if (is_allowed(plan, room->gpu[i].model))
            return true;
    }
    return !asked;
}

bool plan_reserve_matters(const struct plan *plan, const struct rule *rule)
{
    must(rule == NULL || rule->reserve <= RULE_RESERVE_MAX);
    return rule != NULL && rule->reserve > 0 && !plan->several;
}

/*
 * Is the room one of the idle hosts that the rule reserves? If victims leave it, it adds one to the
 * idle hosts.
 */
static bool is_reserved(const struct plan *plan, const struct room *room)
{
    const struct rule *rule = plan->rule;

    if (!plan_reserve_matters(plan, rule) || !room->idle)
        return false;
    const uint32_t at = rulebook_number(plan->context->rulebook, rule) - 1;
    must(at < RULES_MAX);
    must(plan->context->idle[at] <= NODES_MAX);
    return plan->context->idle[at] + room->is_leaving <= rule->reserve;
}

struct cause plan_cause(const struct plan *plan, enum reason why)
{
    struct cause cause = {.why = why};

    must(why < REASONS);
    /* The rule demands the topology, not the pod. */
    if (why == REASON_TOPOLOGY && plan->topology != plan->request->topology)
        cause.why = REASON_RULE;
    if (cause.why != REASON_RULE && cause.why != REASON_RESERVE)
        return cause;
    must(plan->rule != NULL);
    must(plan->context != NULL);
    cause.rule = rulebook_number(plan->context->rulebook, plan->rule) - 1;
    return cause;
}

void plan_obey(struct plan *plan, const struct rule *rule)
{
    must(rule == NULL || rule->topology < TOPOLOGIES);
    plan->rule = rule;
    plan->topology = plan->request->topology;
    /* One GPU has no distance. */
    if (rule != NULL && plan->most_parts > 1 && rule->topology > plan->topology)
        plan->topology = rule->topology;
}

enum reason plan_admit(struct plan *plan, const struct room *room)
{
    plan_obey(plan, plan_rule(plan, &room->rules));
    if (plan->rule == NULL || room->n_gpus == 0)
        return REASON_NONE;
    must(plan->context != NULL && plan->context->rulebook != NULL);
    return rule_takes(plan->rule, plan->request) && allows_a_model(plan, room) ? REASON_NONE
                                                                               : REASON_RULE;
}

enum reason plan_keep(const struct plan *plan, const struct room *room, enum reason why)
{
    must(why < REASONS);
    must(plan->rule == NULL || plan->context != NULL);
    if (!is_reserved(plan, room))
        return why;
    const bool is_never = why != REASON_NONE && reason_class(why) == REASON_CLASS_KIND;
    return is_never || why == REASON_ROOM ? why : REASON_RESERVE;
}
