/*
 * answers - filter, preempt and grants, judged by what was shown when they were given.
 *
 * While an answer is given other threads go on, so what the cluster shows by then need not be what
 * milligpud knew. But if the same snapshot is shown before and after a call, then the call went by
 * it, and whether the pod fits there is counted anew, node by node: by what the snapshot's pods
 * hold, by its rules, and by where the GPUs lie. The last is taken from the model: from any state
 * of the Node that milligpud may have known, since it may be behind. A grant is judged in the same
 * way, by the node as it was before.
 *
 * A refusal in words says of some nodes that they never do: that no set of their GPUs lies as the
 * pod demands, even if they were empty.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "sim_lay.h"
#include "sim_run.h"

enum { ALLOCATIONS_MAX = 256 };

/* A node as a snapshot shows it, without the victims (proposal NULL: none). */
struct shown {
    const struct sim *sim;
    const struct node *node; /* NULL: it does not show it */
    const struct model_node *model;
    const struct proposal *proposal;
    bool leaves[ALLOCATIONS_MAX];
};

static void show(const struct sim *sim, const struct node *node, const struct model_node *model,
                 const struct proposal *proposal, struct shown *out)
{
    out->sim = sim;
    out->node = node;
    out->model = model;
    out->proposal = proposal;
    must(node == NULL || node->n_allocations <= ALLOCATIONS_MAX);
    for (uint32_t i = 0; node != NULL && i < node->n_allocations; i++) {
        const struct model_pod *pod =
            proposal != NULL
                ? model_find((struct model *)(uintptr_t)&sim->model, node->allocation[i]->facts.uid)
                : NULL;
        out->leaves[i] =
            pod != NULL && proposes(proposal, sim, (uint32_t)(pod - sim->model.pod), model);
    }
}

static bool is_named(const struct node *node, const struct gpu *gpu, const struct atom *id)
{
    char buffer[GPU_ALIAS_BYTES];
    const char *alias = gpu_alias(gpu, node->name, buffer);

    return strcmp(gpu->id->text, id->text) == 0 || (alias != NULL && strcmp(alias, id->text) == 0);
}

/* --- its room --- */

static uint32_t less(uint32_t all, uint64_t taken)
{
    return taken < all ? all - (uint32_t)taken : 0;
}

static void take(const struct shown *shown, const struct gpu *gpu, struct lay_gpu *out)
{
    uint64_t milli = 0;
    uint64_t mib = 0;

    for (uint32_t i = 0; i < shown->node->n_allocations; i++) {
        const struct allocation *allocation = shown->node->allocation[i];
        for (uint32_t k = 0; !shown->leaves[i] && k < allocation->n_charges; k++) {
            const struct charge charge = allocation_charge(allocation, k);
            if (!is_named(shown->node, gpu, charge.gpu))
                continue;
            milli += charge.milli;
            mib += charge.mib;
        }
    }
    out->free_milli = less(gpu->milli, milli);
    out->free_mib = less(gpu->mib, mib);
    /* A GPU that is over its size on either axis takes nothing. */
    out->open = out->open && milli <= gpu->milli && (gpu->mib == 0 || mib <= gpu->mib);
}

/* By none of the victims: of a pod that has just come milligpud may only know that it holds it. */
static bool is_held(const struct shown *shown, const struct gpu *gpu)
{
    for (uint32_t i = 0; shown->proposal != NULL && i < shown->sim->model.n_pods; i++)
        if (proposes(shown->proposal, shown->sim, i, shown->model) &&
            held_shown_by(shown->node, gpu, shown->sim->model.pod[i].uid))
            return false;
    return held_shown(shown->node, gpu, shown->leaves);
}

/* Absent GPUs take nothing and are nothing. */
static void room_of_shown(const struct shown *shown, struct lay_room *out)
{
    const unsigned unknown = GPU_DUPLICATE | GPU_UNSURE;
    const unsigned shut = unknown | GPU_UNHEALTHY | GPU_CORDONED;

    out->n_gpus = 0;
    for (uint32_t i = 0; i < shown->node->n_gpus; i++) {
        const struct gpu *gpu = &shown->node->gpu[i];
        if ((gpu->flags & GPU_ABSENT) != 0)
            continue;
        must(out->n_gpus < LAY_GPUS);
        const bool held = is_held(shown, gpu);
        struct lay_gpu *to = &out->gpu[out->n_gpus++];
        *to = (struct lay_gpu){.id = gpu->id->text,
                               .model = gpu->model->text,
                               .milli = gpu->milli,
                               .mib = gpu->mib,
                               .open = (gpu->flags & shut) == 0 && !held,
                               .whole = (gpu->flags & unknown) == 0 && !held};
        take(shown, gpu, to);
    }
}

static bool has_flag(const struct node *node, unsigned flags)
{
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if ((node->gpu[i].flags & flags) != 0)
            return true;
    return false;
}

/* --- what fits there --- */

/* Shares of others there close the node, or are in the way of whole GPUs. */
static bool is_closed(const struct shown *shown, const struct model_pod *pod)
{
    const bool asks = oracle_asks(pod);

    if (asks && (shown->node->gone || vouch_closes(shown->node->vouch) ||
                 held_unnamed(shown->node, shown->leaves) > 0))
        return true;
    for (uint32_t i = 0; i < shown->node->n_allocations; i++) {
        const struct allocation_facts *facts = &shown->node->allocation[i]->facts;
        if (shown->leaves[i])
            continue;
        if (asks && facts->unplaced_milli > 0)
            return true;
        if (pod->shape->whole > 0 && (facts->n_shares > 0 || facts->unplaced_milli > 0))
            return true;
    }
    return false;
}

static enum fit join(enum fit a, enum fit b)
{
    return a == b ? a : FIT_UNSURE;
}

/* On the GPUs of the room; which of them lie where is known up to a few states. */
static enum fit fit_on_gpus(const struct shown *shown, const struct model_pod *pod,
                            enum model_lie demand, struct lay_raise raise)
{
    const struct model_node *model = shown->model;
    const uint32_t last = model->versions - 1;
    enum fit fit = FIT_UNSURE;
    struct lay_room room;

    room_of_shown(shown, &room);
    room.raise = raise;
    const uint32_t first =
        demand == LIE_ANYWHERE ? last : model_first_known(model, shown->sim->daemon.applied_nodes);
    for (uint32_t v = first; v <= last; v++) {
        lay_tell(&room, &model->was[v]);
        const enum fit now = lay_fits(&room, pod->shape, demand) ? FIT_YES : FIT_NO;
        fit = v == first ? now : join(fit, now);
    }
    return fit == FIT_YES && !lay_is_searched(pod->shape, room.n_gpus) ? FIT_UNSURE : fit;
}

/* The rule that wins there lets it in. */
static enum fit is_let_in(const struct shown *shown, const struct snapshot *snapshot,
                          const struct model_pod *pod, const struct sim_rule *rule)
{
    if (rule == NULL)
        return FIT_YES;
    if (!rules_take(rule, pod->shape))
        return FIT_NO;
    if (reserve_is_ahead(shown->sim, rule, pod->shape))
        return FIT_UNSURE;
    return rule->reserve > 0 && reserve_is_small(pod->shape) &&
                   reserve_keeps_shown(shown->sim, rule, snapshot, shown->model, shown->proposal)
               ? FIT_NO
               : FIT_YES;
}

/* Whose GPUs are, or which of them are meant, decides how many are left. */
static bool is_unclear(const struct shown *shown, const struct model_pod *pod)
{
    return (pod->shape->whole > 0 && has_flag(shown->node, GPU_DUPLICATE | GPU_UNSURE)) ||
           (shown->proposal != NULL && has_flag(shown->node, GPU_UNSURE)) ||
           (!oracle_asks(pod) && shown->node->gone);
}

static enum fit fit_shown(const struct shown *shown, const struct snapshot *snapshot,
                          const struct model_pod *pod)
{
    const bool asks = oracle_asks(pod);

    if (!asks && pod->shape->whole == 0)
        return FIT_YES;
    if (asks && (!pod->shape->grantable || !policy_allows(&shown->sim->policy, pod->shape)))
        return FIT_NO;
    if (shown->node == NULL || is_unclear(shown, pod))
        return FIT_UNSURE; /* an unknown one's object may have been sent */
    if (is_closed(shown, pod))
        return FIT_NO;
    const struct sim_rule *rule =
        shown->node->n_gpus > 0 ? rules_shown(shown->sim, snapshot, shown->model) : NULL;
    const enum fit let_in = is_let_in(shown, snapshot, pod, rule);
    if (let_in != FIT_YES || !asks)
        return let_in;
    return fit_on_gpus(shown, pod, rules_demand(rule, pod->shape),
                       rules_raise_shown(shown->sim, snapshot, shown->model));
}

/* --- filter --- */

static bool is_listed(const json_t *answer, const char *name)
{
    const json_t *nodes = json_object_get(json_object_get(answer, "Nodes"), "items");
    const json_t *names = json_object_get(answer, "NodeNames");
    size_t i;
    const json_t *item;

    json_array_foreach (names, i, item)
        if (strcmp(json_string_value(item), name) == 0)
            return true;
    json_array_foreach (nodes, i, item) {
        const json_t *meta = json_object_get(item, "metadata");
        if (strcmp(json_string_value(json_object_get(meta, "name")), name) == 0)
            return true;
    }
    return false;
}

static size_t listed(const json_t *answer)
{
    return json_array_size(json_object_get(json_object_get(answer, "Nodes"), "items")) +
           json_array_size(json_object_get(answer, "NodeNames"));
}

static bool could_ever(const struct model_version *version, const struct shape *shape)
{
    struct lay_room room = {.n_gpus = 0};

    for (uint32_t i = 0; version->there && i < version->n_gpus; i++) {
        const struct model_gpu *gpu = &version->gpu[i];
        if (!gpu->missing)
            room.gpu[room.n_gpus++] = (struct lay_gpu){
                .id = gpu->id, .model = gpu->model, .milli = gpu->milli, .mib = gpu->mib};
    }
    lay_tell(&room, version);
    return lay_ever(&room, shape, shape->lie);
}

/* A node that takes shares could, in each state that milligpud may know, if it were empty. */
static bool could_now(const struct shown *shown, const struct model_pod *pod)
{
    const struct model_node *model = shown->model;
    struct lay_room all;
    struct lay_room room = {.n_gpus = 0};

    if (shown->node == NULL || is_closed(shown, pod))
        return false;
    room_of_shown(shown, &all);
    for (uint32_t i = 0; i < all.n_gpus; i++)
        if (all.gpu[i].open)
            room.gpu[room.n_gpus++] = all.gpu[i];
    for (uint32_t v = model_first_known(model, shown->sim->daemon.applied_nodes);
         v < model->versions; v++) {
        lay_tell(&room, &model->was[v]);
        if (!model->was[v].there || !lay_ever(&room, pod->shape, pod->shape->lie))
            return false;
    }
    return true;
}

static bool someone_made_up(const struct sim *sim, const struct model_node *node)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        if (sim->model.pod[i].makes_up && strcmp(sim->model.pod[i].node, node->name) == 0)
            return true;
    return false;
}

/* No version of the Node had a GPU: the shown GPUs are charged to pods bound by others only. */
static bool shows_strangers_only(const struct shown *shown)
{
    for (uint32_t v = 0; v < shown->model->versions; v++)
        for (uint32_t i = 0; i < shown->model->was[v].n_gpus; i++)
            if (shown->model->was[v].there && !shown->model->was[v].gpu[i].missing)
                return false;
    return shown->node != NULL && shown->node->n_gpus > 0;
}

/*
 * It says that the node never has such GPUs: then those that take shares do not lie so. (A refusal
 * may be as old as the last room that came, and where nothing takes shares none comes.) Where no
 * state of the node ever had linked GPUs, it may not say that they are only taken. NUMA nodes do
 * not decide: an absent GPU still has its own. Nor do GPUs that a pod made up, or holds before its
 * node reports them: their links are unknown.
 */
static void oracle_never(const struct shown *shown, const struct model_pod *pod, const char *text)
{
    const struct sim *sim = shown->sim;
    const struct model_node *node = shown->model;
    const bool never = strstr(text, " suitable GPUs for one container, ") != NULL;
    const bool taken = strstr(text, " milli free") != NULL || strstr(text, "with room for") != NULL;
    bool ever =
        pod->shape->lie != LIE_LINKED || someone_made_up(sim, node) || shows_strangers_only(shown);

    if (pod->shape->lie == LIE_ANYWHERE || !pod->shape->grantable)
        return;
    for (uint32_t v = 0; v < node->versions; v++)
        ever = ever || could_ever(&node->was[v], pod->shape);
    if (never && could_now(shown, pod))
        sim_violation(sim, "p%u (%s) is told that %s never does, and it does: %s", pod->name,
                      pod->shape->word, node->name, text);
    if (taken && !ever)
        sim_violation(sim, "p%u (%s) is told that %s may do some day, and it never does: %s",
                      pod->name, pod->shape->word, node->name, text);
    if (never)
        sim_met("never/%s", pod->shape->topology);
}

static void oracle_name(const struct shown *shown, const struct model_pod *pod,
                        const struct snapshot *snapshot, const json_t *answer)
{
    const struct sim *sim = shown->sim;
    const char *name = shown->model->name;
    const json_t *refusals = json_object_get(answer, "FailedAndUnresolvableNodes");
    const json_t *text = json_object_get(refusals, name);
    const enum fit fit = fit_shown(shown, snapshot, pod);
    const bool is = is_listed(answer, name);
    const bool all = sim->rules.shortlist == 0 || listed(answer) < sim->rules.shortlist;

    if (is && fit == FIT_NO)
        sim_violation(sim, "p%u (%s) does not fit on %s, and filter passed it", pod->name,
                      pod->shape->word, name);
    if (!is && all && fit == FIT_YES)
        sim_violation(sim, "p%u (%s) fits on %s, and filter refused it", pod->name,
                      pod->shape->word, name);
    sim_met(fit == FIT_UNSURE ? "filter/unsure" : is ? "filter/exactly_yes" : "filter/exactly_no");
    if (text != NULL)
        oracle_never(shown, pod, json_string_value(text));
}

void oracle_filter(const struct sim *sim, const struct model_pod *pod,
                   const struct snapshot *snapshot, const struct sim_offer *offer,
                   const json_t *answer)
{
    if (snapshot == NULL || pod->unlike || snapshot_open(snapshot, text_of(pod->uid)) != NULL)
        return; /* it runs and requests something else now, or is offered what it holds */
    for (uint32_t i = 0; i < offer->names; i++) {
        const struct model_node *node =
            model_node((struct model *)(uintptr_t)&sim->model, offer->name[i]);
        struct shown shown;
        if (node == NULL)
            continue;
        show(sim, snapshot_node(snapshot, text_of(node->name)), node, NULL, &shown);
        oracle_name(&shown, pod, snapshot, answer);
    }
}

/* --- preempt --- */

void oracle_kept_there(const struct sim *sim, const struct model_pod *pod,
                       const struct snapshot *snapshot, const struct model_node *node,
                       const struct proposal *proposal, bool kept)
{
    struct shown shown;

    show(sim, snapshot_node(snapshot, text_of(node->name)), node, proposal, &shown);
    const enum fit fit = fit_shown(&shown, snapshot, pod);

    if (kept && fit == FIT_NO)
        sim_violation(sim, "p%u (%s) does not fit on %s without the victims that preempt kept",
                      pod->name, pod->shape->word, node->name);
    if (!kept && fit == FIT_YES)
        sim_violation(sim, "p%u (%s) fits on %s without its victims, and preempt dropped it",
                      pod->name, pod->shape->word, node->name);
    sim_met(fit == FIT_UNSURE ? "preempt/unsure" : "preempt/as_shown");
}

/* --- grants --- */

struct granted {
    uint32_t wants;
    const char *container[MODEL_SHARES];
    uint32_t on[MODEL_SHARES]; /* bits: its GPUs, by position in the room */
    uint32_t raised;           /* the amount of those that were raised; 0: none was */
};

static void lay_granted(const struct sim *sim, const struct lay_room *room,
                        const struct allocation_facts *facts, struct granted *out)
{
    *out = (struct granted){.wants = 0};
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        uint32_t w = 0;
        uint32_t at = 0;
        while (w < out->wants && strcmp(out->container[w], facts->share[i].container) != 0)
            w++;
        while (at < room->n_gpus && strcmp(room->gpu[at].id, facts->share[i].gpu->text) != 0)
            at++;
        if (at == room->n_gpus || w == MODEL_SHARES)
            sim_violation(sim, "%s was granted GPU %s, which %s does not have", facts->name,
                          facts->share[i].gpu->text, facts->node->text);
        out->container[w] = facts->share[i].container;
        out->on[w] |= 1U << at;
        out->wants += w == out->wants ? 1 : 0;
        if (facts->share[i].milli != facts->share[i].asked)
            out->raised = facts->share[i].milli;
    }
}

static bool obeys(const struct lay_room *room, const struct granted *granted, enum model_lie demand)
{
    for (uint32_t w = 0; w < granted->wants; w++)
        if (!lay_obeys(room, granted->on[w], demand))
            return false;
    return true;
}

static enum lay_apart apart_of(const struct lay_room *room, const struct granted *granted)
{
    enum lay_apart apart = LAY_LINKED;

    for (uint32_t w = 0; w < granted->wants; w++) {
        const enum lay_apart its = lay_apart(room, granted->on[w]);
        apart = its > apart ? its : apart;
    }
    return apart;
}

/* The pod was edited: it may have demanded more when this was decided. */
static bool obeys_the_rule(const struct lay_room *room, const struct granted *granted,
                           enum model_lie by_rule)
{
    return obeys(room, granted, by_rule) ||
           (by_rule == LIE_ON_NUMA && obeys(room, granted, LIE_LINKED));
}

/* Rule b: nothing lies nearer that fits. */
static bool lies_nearest(const struct lay_room *room, const struct granted *granted,
                         const struct shape *shape, enum model_lie demand)
{
    return apart_of(room, granted) == lay_nearest(room, shape, demand);
}

/* It was raised no further than it must be to fit. */
static bool is_raised_least(const struct lay_room *room, const struct granted *granted,
                            const struct shape *shape, enum model_lie demand)
{
    return granted->raised == lay_raised(room, shape, demand);
}

/* Rule a: nothing fits on GPUs that are all cheaper than the dearest of these. */
static bool is_cheapest(struct lay_room *room, const struct granted *granted,
                        const struct shape *shape, enum model_lie demand)
{
    if (!lay_cheapest(room, shape, demand))
        return true;
    sim_met("price/chooses");
    for (uint32_t w = 0; w < granted->wants; w++)
        for (uint32_t i = 0; i < room->n_gpus; i++)
            if ((granted->on[w] >> i & 1) != 0 && !room->gpu[i].open)
                return false;
    return true;
}

/* pod NULL: what it requested then is not known any more. */
static bool is_right(struct lay_room *room, const struct granted *granted,
                     const struct model_pod *pod, const struct sim_rule *rule)
{
    if (pod == NULL)
        return rule == NULL || obeys_the_rule(room, granted, rule->lie);
    const enum model_lie demand = rules_demand(rule, pod->shape);
    if (!obeys(room, granted, demand))
        return false;
    if (!lay_is_searched(pod->shape, room->n_gpus))
        return true;
    return is_cheapest(room, granted, pod->shape, demand) &&
           lies_nearest(room, granted, pod->shape, demand) &&
           is_raised_least(room, granted, pod->shape, demand);
}

void oracle_reserved(struct sim *sim, const struct command *command, const struct change *change)
{
    static const char *const word[] = {"linked", "on_numa", "anywhere"};
    const struct allocation_facts *facts = &change->after->facts;
    const struct model_node *model = model_node(&sim->model, facts->node->text);
    struct model_pod *pod = model_find(&sim->model, command->uid);
    const struct model_pod *known =
        pod != NULL && command->version >= pod->edited_version ? pod : NULL;
    const struct sim_rule *rule = rules_granting(sim, command, facts->node->text);
    struct shown shown;
    struct granted granted;
    struct lay_room room;
    struct lay_room then = {.n_gpus = 0};
    bool right = false;

    if (model == NULL || facts->n_shares == 0)
        return;
    show(sim, change->node_before, model, NULL, &shown);
    room_of_shown(&shown, &room);
    room.raise = rules_raise_granting(sim, command, facts->node->text);
    lay_granted(sim, &room, facts, &granted);
    for (uint32_t i = 0; i < room.n_gpus; i++)
        room.gpu[i].price = rules_price_granting(sim, room.gpu[i].model);
    for (uint32_t v = model_first_known(model, sim->daemon.applied_nodes);
         v < model->versions && !right; v++) {
        then = room;
        lay_tell(&then, &model->was[v]);
        right = is_right(&then, &granted, known, rule);
    }
    if (!right)
        sim_violation(
            sim,
            "%s (%s) was granted GPUs of %s, and they do not lie as demanded, or others "
            "that fit are cheaper or nearer together, or its shares are raised to %u without need",
            command->name, pod != NULL ? pod->shape->word : "", facts->node->text, granted.raised);
    if (pod != NULL) {
        pod->told_nvlink = rule != NULL && rule->lie == LIE_LINKED;
        topology_reserved(sim, pod);
    }
    if (granted.wants < facts->n_shares)
        sim_met("lies/%s", word[apart_of(&then, &granted)]);
    if (granted.raised > 0)
        sim_met(rule != NULL ? "raise/with_a_rule" : "raise/without_a_rule");
}
