/*
 * reserve - idle hosts that a rule keeps for pods of several GPUs.
 *
 * A host is idle if no pod is there, two or more of its GPUs take shares, and kube-scheduler would
 * use it (sim_taints.c). While the rule matches
 * no more idle hosts than it keeps, none of them takes a small pod: one that a single GPU could
 * hold, as it asks: no container of several GPUs, a peak of at most one, and at most one whole one,
 * without shares beside it. A host whose victims leave is one more.
 *
 * Counted in three ways. An answer goes by the snapshot that was shown, so there it is exact. A
 * grant goes by the ledger at that point of its batch, which is followed change by change, as it is
 * written; so that is exact, too. What the cluster shows is not always what the ledger knows: there
 * the count is between two numbers, and the answer is FIT_UNSURE if the reserve is between them.
 */
#include <string.h>

#include "sim_run.h"

enum { HOST_GPUS = 2, ALLOCATIONS_MAX = 256 };

/* Two containers that no single GPU could hold together: where hosts are often kept. */
const struct shape *reserve_shape(const struct sim *sim, const struct draw *draw)
{
    struct draw own = {.state = ~draw->state};

    if (!sim->rules.taints || !draw_chance(&own, 100))
        return NULL;
    for (uint32_t i = 0; i < model_shapes; i++)
        if (strcmp(model_shape[i].word, "600+600") == 0)
            return &model_shape[i];
    sim_violation(sim, "the simulator has no pod of two containers with a GPU each");
}

bool reserve_is_small(const struct shape *shape)
{
    for (uint32_t w = 0; w < shape->n_wants; w++)
        if (model_parts(&shape->want[w]) > 1)
            return false;
    if (model_peak(shape) > 1000)
        return false;
    return shape->whole + (model_peak(shape) > 0 ? 1 : 0) < 2;
}

/*
 * Known: what is shown before a COMMIT counts hosts as idle that are only shown so afterwards. A
 * small pod may be offered another one until then.
 */
bool reserve_is_ahead(const struct sim *sim, const struct sim_rule *rule, const struct shape *shape)
{
    return sim->daemon.uncommitted && rule->reserve > 0 && reserve_is_small(shape);
}

/* --- by a snapshot, or the ledger --- */

static bool leaves(const struct sim *sim, const struct model_node *node,
                   const struct proposal *proposal, const char *uid)
{
    for (uint32_t i = 0; proposal != NULL && i < sim->model.n_pods; i++)
        if (proposes(proposal, sim, i, node) && strcmp(sim->model.pod[i].uid, uid) == 0)
            return true;
    return false;
}

/* A GPU over its size is so no longer once its pods are gone. */
static uint32_t open_gpus(const struct node *shown)
{
    const unsigned shut = GPU_ABSENT | GPU_UNHEALTHY | GPU_CORDONED | GPU_DUPLICATE;
    uint32_t open = 0;
    bool all[ALLOCATIONS_MAX];

    /* The pod there has left, and the GPUs named for it are free. */
    must(shown->n_allocations <= ALLOCATIONS_MAX);
    memset(all, true, sizeof all);
    for (uint32_t i = 0; i < shown->n_gpus; i++)
        open += (shown->gpu[i].flags & shut) == 0 && !held_shown(shown, &shown->gpu[i], all);
    return open;
}

/* proposal NULL: nobody leaves. */
static bool is_idle_shown(const struct sim *sim, const struct node *shown,
                          const struct model_node *node, const struct proposal *proposal)
{
    if (shown == NULL || shown->gone || shown->unusable.why != USABLE || vouch_closes(shown->vouch))
        return false;
    for (uint32_t i = 0; i < shown->n_allocations; i++)
        if (!leaves(sim, node, proposal, shown->allocation[i]->facts.uid))
            return false;
    return open_gpus(shown) >= HOST_GPUS;
}

bool reserve_keeps_shown(const struct sim *sim, const struct sim_rule *rule,
                         const struct snapshot *snapshot, const struct model_node *node,
                         const struct proposal *proposal)
{
    uint32_t idle = 0;

    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *other = &sim->model.node[n];
        const struct node *shown = snapshot_node(snapshot, text_of(other->name));
        const bool is_idle = is_idle_shown(sim, shown, other, other == node ? proposal : NULL);
        if (other == node && !is_idle)
            return false;
        idle += is_idle && rules_match(rule, rules_even(other)) ? 1 : 0;
    }
    return idle <= rule->reserve;
}

/* --- by what the ledger holds --- */

void reserve_loaded(struct sim *sim)
{
    const struct snapshot *snapshot = daemon_view(sim);

    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const struct node *shown = snapshot_node(snapshot, text_of(node->name));
        sim->idle[n] = is_idle_shown(sim, shown, node, NULL);
    }
    reserve_committed(sim);
    snapshot_unref(snapshot);
}

/*
 * Holders of whole GPUs, and taints, are never written: an agent may have freed a GPU in
 * this batch, and a taint may have gone.
 */
static bool may_be_idle(const struct sim *sim, uint32_t n)
{
    const struct model_node *node = &sim->model.node[n];

    return sim->idle[n] || node->by_agent || sim->rules.vouches || !taints_are_steady(sim, node);
}

/* Facts that are not written are seen in the answers. */
void reserve_shown(struct sim *sim, const struct snapshot *snapshot)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        if (node->by_agent || sim->rules.taints || sim->rules.vouches)
            sim->idle[n] = sim->idle_kept[n] =
                is_idle_shown(sim, snapshot_node(snapshot, text_of(node->name)), node, NULL);
    }
}

static void judge_grant(struct sim *sim, const struct command *command, const struct change *change,
                        uint32_t n)
{
    const char *name = change->after->facts.node->text;
    const struct sim_rule *rule = rules_granting(sim, command, name);
    const struct model_pod *pod = model_find(&sim->model, command->uid);
    uint32_t idle = 0;

    if (rule == NULL || rule->reserve == 0 || pod == NULL || !reserve_is_small(pod->shape) ||
        !is_idle_shown(sim, change->node_before, &sim->model.node[n], NULL))
        return;
    for (uint32_t i = 0; i < sim->model.n_nodes; i++)
        idle += may_be_idle(sim, i) && rules_match(rule, rules_even(&sim->model.node[i])) ? 1 : 0;
    if (idle <= rule->reserve)
        sim_violation(sim, "%s was granted %s, one of %u idle hosts of which %u are kept",
                      command->name, name, idle, rule->reserve);
    sim_met("reserve/let_in");
}

void reserve_written(struct sim *sim, const struct command *command, const struct change *change)
{
    const struct node *node = change->node_after != NULL ? change->node_after : change->node_before;

    if (node == NULL)
        return; /* no node changes */
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        if (strcmp(sim->model.node[n].name, node->name->text) != 0)
            continue;
        if (command->kind == COMMAND_RESERVE)
            judge_grant(sim, command, change, n);
        sim->idle[n] = is_idle_shown(sim, change->node_after, &sim->model.node[n], NULL);
    }
}

void reserve_committed(struct sim *sim)
{
    memcpy(sim->idle_kept, sim->idle, sizeof sim->idle_kept);
}

void reserve_lost(struct sim *sim)
{
    memcpy(sim->idle, sim->idle_kept, sizeof sim->idle);
}

/* Nothing was missed: what was followed is what is shown. */
void oracle_reserve(const struct sim *sim, const struct snapshot *snapshot)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const struct node *shown = snapshot_node(snapshot, text_of(node->name));
        if (sim->idle[n] != is_idle_shown(sim, shown, node, NULL))
            sim_violation(sim, "node %s is %s, and that was never written", node->name,
                          sim->idle[n] ? "not idle" : "idle");
    }
}

/* --- by what the cluster shows --- */

static enum fit has_open_gpus(const struct sim *sim, const struct model_node *node,
                              const bool *victim)
{
    uint32_t sure = 0;
    uint32_t unsure = 0;

    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        const struct model_gpu *gpu = &node->is.gpu[i];
        const enum copies_whose whose = copies_whose(sim, node, gpu->id);
        if (gpu->missing || gpu->ill || held_is(sim, node, gpu, victim))
            continue;
        sure += whose == COPIES_ITS_OWN ? 1 : 0;
        unsure += whose == COPIES_UNSURE ? 1 : 0;
    }
    if (sure >= HOST_GPUS)
        return FIT_YES;
    return sure + unsure >= HOST_GPUS ? FIT_UNSURE : FIT_NO;
}

/* A doubt holds room that the API server does not know of. */
static bool is_doubted(const struct sim *sim, const struct model_node *node)
{
    const struct snapshot *snapshot = daemon_view(sim);
    const struct node *shown =
        snapshot != NULL ? snapshot_node(snapshot, text_of(node->name)) : NULL;
    bool doubted = false;

    for (uint32_t i = 0; shown != NULL && i < shown->n_allocations; i++)
        doubted = doubted || shown->allocation[i]->facts.state == STATE_RESERVED;
    snapshot_unref(snapshot);
    return doubted;
}

static enum fit is_idle(const struct sim *sim, const struct model_node *node, const bool *victim)
{
    if (!node->is.there || node->is.cordoned)
        return FIT_NO;
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (strcmp(pod->node, node->name) == 0 && oracle_should_hold(pod) &&
            (victim == NULL || !victim[i]))
            return FIT_NO;
    }
    const enum fit open = has_open_gpus(sim, node, victim);
    const enum fit usable = taints_usable(sim, node);
    const enum fit by_agent = (enum fit)vouched_fit(sim, node);
    if (open == FIT_NO || usable == FIT_NO || by_agent == FIT_NO)
        return FIT_NO;
    return open == FIT_UNSURE || usable == FIT_UNSURE || by_agent == FIT_UNSURE ||
                   is_doubted(sim, node)
               ? FIT_UNSURE
               : FIT_YES;
}

enum fit reserve_keeps(const struct sim *sim, const struct sim_rule *rule,
                       const struct model_node *node, const bool *victim)
{
    const enum fit here = is_idle(sim, node, victim);
    uint32_t least = 1; /* if it is idle itself */
    uint32_t most = 1;

    if (here == FIT_NO)
        return FIT_NO;
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *other = &sim->model.node[n];
        if (other == node || !rules_match(rule, rules_even(other)))
            continue;
        const enum fit idle = is_idle(sim, other, NULL);
        least += idle == FIT_YES ? 1 : 0;
        most += idle != FIT_NO ? 1 : 0;
    }
    if (least > rule->reserve)
        return FIT_NO;
    return here == FIT_YES && most <= rule->reserve ? FIT_YES : FIT_UNSURE;
}
