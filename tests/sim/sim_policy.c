/*
 * policy - settings that differ after a restart.
 *
 * The order of placements may change. The smallest request allowed, and the steps of requests,
 * decide about new grants: those of pods that held nothing when the bind was requested. What runs,
 * and what is on its way, goes on; every snapshot is judged to still hold it, whatever the settings
 * are.
 */
#include <string.h>

#include "sim_run.h"

enum { WHOLE_MILLI = 1000 };

void policy_draw(struct sim *sim)
{
    static const uint32_t min[] = {10, 10, 60, 350};
    static const uint32_t step[] = {1, 1, 50, 100};
    static const uint32_t lists[] = {0, 1, 2, 16};
    static const uint32_t names[] = {1, 2, 100};
    static const char *const orders[] = {"binpack", "spread", "firstfit", "fgd", "rollout"};
    struct draw *draw = &sim->draw;
    const struct sim_policy before = sim->policy;

    if (sim->policy.min_milli == 0)
        sim->policy = (struct sim_policy){
            .min_milli = 10, .step_milli = 1, .refusal_names = 100, .order = sim->rules.order};
    if (before.min_milli == 0 && strcmp(sim->policy.order, "binpack") != 0)
        sim_met("policy/begins_with_%s", sim->policy.order);
    if (before.min_milli == 0 || !sim->rules.resets || !draw_chance(draw, 500))
        return;
    sim->policy.min_milli = min[draw_below(draw, ARRAY_LEN(min))];
    sim->policy.step_milli = step[draw_below(draw, ARRAY_LEN(step))];
    sim->policy.refusal_names = names[draw_below(draw, ARRAY_LEN(names))];
    sim->policy.order = orders[draw_below(draw, ARRAY_LEN(orders))];
    sim->rules.shortlist = lists[draw_below(draw, ARRAY_LEN(lists))];
    sim_met(sim->policy.min_milli > before.min_milli     ? "policy/min_raised"
            : sim->policy.step_milli > before.step_milli ? "policy/step_raised"
                                                         : "policy/other");
    if (strcmp(sim->policy.order, "fgd") == 0 || strcmp(sim->policy.order, "rollout") == 0)
        sim_met("policy/judges_nodes");
    sim_say(sim, "at least %u in steps of %u from now on", sim->policy.min_milli,
            sim->policy.step_milli);
}

bool policy_allows(const struct sim_policy *policy, const struct shape *shape)
{
    for (uint32_t w = 0; w < shape->n_wants; w++) {
        const uint32_t parts = model_parts(&shape->want[w]);
        const uint32_t milli = parts > 0 ? shape->want[w].milli / parts : 0;
        if (parts > 0 && (milli < policy->min_milli ||
                          (milli != WHOLE_MILLI && milli % policy->step_milli != 0)))
            return false;
    }
    return true;
}

/* A pod that already holds something requests what it has. */
void policy_asked(const struct sim *sim, struct model_pod *pod)
{
    const struct snapshot *snapshot = daemon_ready(sim) ? daemon_view(sim) : NULL;

    if (snapshot != NULL && snapshot_open(snapshot, text_of(pod->uid)) == NULL)
        pod->policy = sim->policy;
    snapshot_unref(snapshot);
}

void oracle_policy(const struct sim *sim, const struct model_pod *pod)
{
    if (pod->n_shares == 0 || pod->policy.min_milli == 0)
        return;
    if (!policy_allows(&pod->policy, pod->shape))
        sim_violation(sim, "p%u (%s) was granted, at least %u in steps of %u was to be asked",
                      pod->name, pod->shape->word, pod->policy.min_milli, pod->policy.step_milli);
    if (!policy_allows(&sim->policy, pod->shape))
        sim_met("policy/granted_before");
}
