/*
 * oracle - what must hold, judged from API objects, answers and snapshots alone.
 *
 *   a grant       gives each container what it requested, on GPUs that the node has and that lie as
 *                 it demands, the nearest that fit, and overcommits none of them, whatever else was
 *                 granted there to living pods
 *   an answer     of success means that the pod is on that node at the API server; filter passes
 *                 nodes where the pod fits, and refuses the others; one to preempt keeps proposals
 *                 unchanged, namely those that help
 *   a snapshot    holds every living pod with a grant, with exactly that grant; counts each GPU as
 *                 the sum of what its pods hold; contains each uid once
 *   quiet         ledger and cluster agree, the file agrees with memory, its journal replays, and a
 *                 new list changes nothing
 *   the end       no pod waits that would fit; once all pods are gone nothing is held
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "milligpu/core/ledger/reconcile.h"

#include "sim_lay.h"
#include "sim_run.h"
#include "support/store_checks.h"

/* --- a grant --- */

static uint32_t want_of(const struct shape *shape, const char *container)
{
    for (uint32_t i = 0; i < shape->n_wants; i++)
        if (strcmp(shape->want[i].container, container) == 0)
            return i;
    return MODEL_WANTS;
}

static void read_share(const struct sim *sim, struct model_pod *pod, uint32_t want,
                       const json_t *part)
{
    const char *gpu = json_string_value(json_object_get(part, "gpu"));
    const json_int_t milli = json_integer_value(json_object_get(part, "milli"));
    const json_t *raised = json_object_get(part, "asked");

    if (gpu == NULL || milli <= 0 || milli > 1000)
        sim_violation(sim, "p%u: a share without a GPU or of %lld milli", pod->name,
                      (long long)milli);
    if (pod->n_shares == MODEL_SHARES)
        sim_violation(sim, "p%u: more shares than anybody asked for", pod->name);
    struct model_share *share = &pod->share[pod->n_shares++];
    share->want = want;
    share->milli = (uint32_t)milli;
    share->asked = raised != NULL ? (uint32_t)json_integer_value(raised) : share->milli;
    share->mib = (uint32_t)json_integer_value(json_object_get(part, "mib"));
    (void)snprintf(share->gpu, sizeof share->gpu, "%s", gpu);
}

static void read_annotation(const struct sim *sim, struct model_pod *pod, const char *annotation)
{
    json_t *note = json_loads(annotation, 0, NULL);
    json_t *containers = json_object_get(note, "containers");
    const char *name;
    json_t *parts;

    pod->n_shares = 0;
    if (note == NULL && annotation[0] != '\0')
        sim_violation(sim, "p%u: the annotation of our Binding is no JSON", pod->name);
    json_object_foreach (containers, name, parts) {
        const uint32_t want = want_of(pod->shape, name);
        size_t i;
        const json_t *part;
        if (want == MODEL_WANTS)
            sim_violation(sim, "p%u: a share for container %s, which it has not", pod->name, name);
        json_array_foreach (parts, i, part)
            read_share(sim, pod, want, part);
    }
    json_decref(note);
}

static bool names(const struct model_gpu *gpu, const char *id)
{
    return strcmp(gpu->id, id) == 0 || strcmp(gpu->alias, id) == 0;
}

static const struct model_gpu *gpu_in(const struct model_version *version, const char *id)
{
    for (uint32_t i = 0; i < version->n_gpus; i++)
        if (!version->gpu[i].missing && names(&version->gpu[i], id))
            return &version->gpu[i];
    return NULL;
}

/* Does any version that the writer may have used allow this share? */
static bool allowed(const struct sim *sim, const struct model_pod *pod,
                    const struct model_share *share, const struct model_version *version)
{
    const struct model_gpu *gpu = gpu_in(version, share->gpu);

    if (gpu == NULL || gpu->ill || !version->there || version->cordoned ||
        held_surely(sim, pod, gpu) || held_closes(sim, pod, version))
        return false;
    const struct lay_gpu is = {.model = gpu->model, .milli = gpu->milli, .mib = gpu->mib};
    return lay_suits(pod->shape, &is, share->milli) &&
           share->mib == lay_mib(gpu->mib, gpu->milli, share->milli);
}

static bool same_gpu(const struct model_node *node, const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return true;
    for (uint32_t v = 0; v < node->versions; v++)
        for (uint32_t i = 0; i < node->was[v].n_gpus; i++)
            if (names(&node->was[v].gpu[i], a) && names(&node->was[v].gpu[i], b))
                return true;
    return false;
}

/* The milli of this GPU that living pods bound by us hold; victims (NULL: none) are gone. */
uint32_t oracle_granted(const struct sim *sim, const struct model_node *node, const char *gpu,
                        const bool *victim)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!model_alive(pod) || !pod->ours || strcmp(pod->node, node->name) != 0 ||
            (victim != NULL && victim[i]))
            continue;
        for (uint32_t s = 0; s < pod->n_shares; s++) {
            bool first = true;
            for (uint32_t k = 0; k < s; k++)
                first = first && strcmp(pod->share[k].gpu, pod->share[s].gpu) != 0;
            if (first && same_gpu(node, pod->share[s].gpu, gpu))
                sum += model_charge(pod, pod->share[s].gpu);
        }
    }
    return sum;
}

static void oracle_share(const struct sim *sim, const struct model_pod *pod,
                         const struct model_share *share)
{
    const struct model_node *node = model_node((struct model *)(uintptr_t)&sim->model, pod->node);
    bool ok = false;
    uint32_t room = 0;

    if (node == NULL)
        sim_violation(sim, "p%u is bound to %s, which never existed", pod->name, pod->node);
    for (uint32_t v = model_first_known(node, pod->asked_version); v < node->versions; v++) {
        const struct model_gpu *gpu = gpu_in(&node->was[v], share->gpu);
        if (gpu != NULL && gpu->milli > room)
            room = gpu->milli;
        ok = ok || allowed(sim, pod, share, &node->was[v]);
    }
    if (!ok)
        sim_violation(sim,
                      "p%u: %u milli, %u MiB of %s: no state of %s since version %llu allows that",
                      pod->name, share->milli, share->mib, share->gpu, pod->node,
                      (unsigned long long)pod->asked_version);
    oracle_copies(sim, pod, share);
    const uint32_t sum = oracle_granted(sim, node, share->gpu, NULL);
    if (sum > room)
        sim_violation(sim, "GPU %s of %s is granted beyond its size: %u of %u milli", share->gpu,
                      pod->node, sum, room);
}

/* How many GPUs of that version these shares lie on; UINT32_MAX: it does not show them all. */
static uint32_t touched(const struct model_pod *pod, const struct model_version *version)
{
    const struct model_gpu *seen[MODEL_SHARES];
    uint32_t count = 0;

    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct model_gpu *gpu = gpu_in(version, pod->share[i].gpu);
        bool again = false;
        if (gpu == NULL)
            return UINT32_MAX;
        for (uint32_t k = 0; k < count; k++)
            again = again || seen[k] == gpu;
        if (!again)
            seen[count++] = gpu;
    }
    return count;
}

/*
 * Whole GPUs next to shares of the same pod: each is one more than those that the shares lie on. An
 * unhealthy one counts; who hands it out is not decided here.
 */
static bool leaves_whole(const struct sim *sim, const struct model_pod *pod,
                         const struct model_version *version)
{
    const uint32_t shares = touched(pod, version);
    uint32_t there = 0;

    for (uint32_t i = 0; i < version->n_gpus; i++)
        there += version->gpu[i].missing || held_surely(sim, pod, &version->gpu[i]) ? 0 : 1;
    return shares <= there && pod->shape->whole <= there - shares;
}

static void oracle_whole(const struct sim *sim, const struct model_pod *pod)
{
    const struct model_node *node = model_node((struct model *)(uintptr_t)&sim->model, pod->node);
    bool ok = false;

    if (pod->shape->whole == 0 || pod->n_shares == 0)
        return; /* for whole GPUs alone kube-scheduler counts how many there are */
    for (uint32_t v = model_first_known(node, pod->asked_version); v < node->versions; v++)
        ok = ok || leaves_whole(sim, pod, &node->was[v]);
    if (!ok)
        sim_violation(sim, "p%u (%s): no state of %s has %u GPUs beside those of its shares",
                      pod->name, pod->shape->word, pod->node, pod->shape->whole);
}

/*
 * Whole GPUs and other pods' shares: we bind no pod where the other kind is that we bound. A share
 * may come where the Node says which GPUs are held whole.
 */
static void oracle_company(const struct sim *sim, const struct model_pod *pod)
{
    const struct model_node *node = model_node((struct model *)(uintptr_t)&sim->model, pod->node);

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *other = &sim->model.pod[i];
        if (other == pod || !model_alive(other) || !other->ours ||
            strcmp(other->node, pod->node) != 0)
            continue;
        if ((pod->shape->whole > 0 && other->n_shares > 0) ||
            (other->shape->whole > 0 && pod->n_shares > 0 && !held_named_for(node, other, pod)))
            sim_violation(sim, "p%u (%s) was bound to %s beside p%u (%s)", pod->name,
                          pod->shape->word, pod->node, other->name, other->shape->word);
    }
}

void oracle_grant(struct sim *sim, struct model_pod *pod, const char *annotation)
{
    if (!pod->asked)
        sim_violation(sim, "p%u was bound, and nobody asked", pod->name);
    read_annotation(sim, pod, annotation);
    if (!pod->shape->grantable && pod->n_shares > 0)
        sim_violation(sim, "p%u got shares for a request that cannot be granted", pod->name);
    oracle_amounts(sim, pod);
    oracle_policy(sim, pod);
    for (uint32_t i = 0; i < pod->n_shares; i++)
        oracle_share(sim, pod, &pod->share[i]);
    oracle_lies(sim, pod);
    oracle_whole(sim, pod);
    oracle_company(sim, pod);
    oracle_beside_squatters(sim, pod);
    sim_met("grant/%s", pod->shape->word);
}

/* --- does it fit? --- */

bool oracle_asks(const struct model_pod *pod)
{
    return pod->shape->ours && model_peak(pod->shape) > 0;
}

bool oracle_should_hold(const struct model_pod *pod)
{
    return model_alive(pod) && pod->node[0] != '\0' && (oracle_asks(pod) || pod->shape->whole > 0);
}

/*
 * The node as it is, without the victims (NULL: none). bold: if it is unknown whose a UUID is, it
 * counts as this node's.
 */
static void room_of_node(const struct sim *sim, const struct model_node *node, const bool *victim,
                         bool bold, struct lay_room *out)
{
    out->n_gpus = node->is.n_gpus;
    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        const struct model_gpu *gpu = &node->is.gpu[i];
        const enum copies_whose whose = copies_whose(sim, node, gpu->id);
        const uint32_t taken = oracle_granted(sim, node, gpu->id, victim);
        const bool held = held_is(sim, node, gpu, victim);
        out->gpu[i] = (struct lay_gpu){
            .id = gpu->id,
            .model = gpu->model,
            .milli = gpu->milli,
            .mib = gpu->mib,
            .free_milli = taken < gpu->milli ? gpu->milli - taken : 0,
            .free_mib = UINT32_MAX, /* follows from the milli */
            .open = !gpu->missing && !gpu->ill && !held &&
                    (whose == COPIES_ITS_OWN || (whose == COPIES_UNSURE && bold)),
            .whole = !gpu->missing && !held,
        };
    }
    lay_tell(out, &node->is);
}

/* Is there room for the pod on this node as it is, without the victims (NULL: none)? */
static enum fit fit_of(const struct sim *sim, const struct model_pod *pod,
                       const struct model_node *node, const bool *victim)
{
    bool sure = true;
    struct lay_room room;
    const bool shares = oracle_asks(pod);

    if (!node->is.there ||
        (shares &&
         (!pod->shape->grantable || !policy_allows(&sim->policy, pod->shape) || node->is.cordoned)))
        return FIT_NO;
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *other = &sim->model.pod[i];
        if (!oracle_should_hold(other) || strcmp(other->node, node->name) != 0 ||
            (victim != NULL && victim[i]))
            continue;
        if ((shares && !held_names_all(&node->is, other)) ||
            (pod->shape->whole > 0 && oracle_asks(other)))
            return FIT_NO; /* whole GPUs do not fit where other pods have shares */
        if (shares && squat_fills(other, node))
            return FIT_NO;
        /* Where other pods lie is the ledger's choice. */
        sure = sure && (other->ours || !oracle_asks(other));
    }
    const enum fit by_agent = shares ? (enum fit)vouched_fit(sim, node) : FIT_YES;
    if (by_agent == FIT_NO)
        return FIT_NO;
    const enum rules_fit by_rules = rules_fit(sim, pod->shape, node, victim);
    if (by_rules == RULES_NOT)
        return FIT_NO;
    sure = sure && by_rules == RULES_FIT && by_agent == FIT_YES;
    if (!shares)
        return by_rules == RULES_UNSURE
                   ? FIT_UNSURE
                   : FIT_YES; /* kube-scheduler counts how many whole GPUs there are */
    if (!sure || (pod->shape->whole > 0 && copies_at(sim, node)))
        return FIT_UNSURE;
    const enum model_lie demand = rules_demand(rules_now(sim, node), pod->shape);
    room_of_node(sim, node, victim, false, &room);
    room.raise = rules_raise_now(sim, node);
    if (lay_fits(&room, pod->shape, demand))
        return lay_is_searched(pod->shape, node->is.n_gpus) ? FIT_YES : FIT_UNSURE;
    if (!copies_at(sim, node))
        return FIT_NO;
    room_of_node(sim, node, victim, true, &room);
    room.raise = rules_raise_now(sim, node);
    return lay_fits(&room, pod->shape, demand) ? FIT_UNSURE : FIT_NO;
}

/* --- an answer --- */

void oracle_bind_answer(struct sim *sim, const struct sim_call *call, const char *error)
{
    struct model_pod *pod = &sim->model.pod[call->pod];

    if (error[0] != '\0')
        return;
    if (strcmp(pod->node, call->node) != 0)
        sim_violation(sim, "bind of p%u to %s was answered with success, and it is on \"%s\"",
                      pod->name, call->node, pod->node);
    pod->answered = true;
}

static void oracle_victims(const struct sim *sim, const struct model_node *node,
                           const struct proposal *proposal, const json_t *kept)
{
    const json_t *pods = json_object_get(kept, "Pods");
    uint32_t victims = 0;

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!proposes(proposal, sim, i, node))
            continue;
        const char *uid =
            json_string_value(json_object_get(json_array_get(pods, victims++), "UID"));
        if (uid == NULL || strcmp(uid, pod->uid) != 0)
            sim_violation(sim, "preempt changed the victims of %s: %s for %s", node->name,
                          uid != NULL ? uid : "nobody", pod->uid);
    }
    if (json_array_size(pods) != victims)
        sim_violation(sim, "preempt made %u victims of %s into %zu", victims, node->name,
                      json_array_size(pods));
    if (json_integer_value(json_object_get(kept, "NumPDBViolations")) != (json_int_t)victims)
        sim_violation(sim, "preempt changed NumPDBViolations of %s", node->name);
}

/* When all is quiet the answer is exact; otherwise the ledger may know more, or less. */
static void oracle_kept(const struct sim *sim, const struct model_pod *pod,
                        const struct model_node *node, const struct proposal *proposal, bool kept)
{
    const bool judged = oracle_asks(pod) || pod->shape->whole > 0;
    const enum fit fit = judged ? fit_of(sim, pod, node, proposal->victim) : FIT_YES;

    if ((judged && !sim->frozen) || fit == FIT_UNSURE)
        return;
    if (kept && fit == FIT_NO)
        sim_violation(sim, "p%u (%s) would not fit on %s without the victims that preempt kept",
                      pod->name, pod->shape->word, node->name);
    if (!kept && fit == FIT_YES)
        sim_violation(sim, "p%u (%s) would fit on %s without its victims, and preempt dropped it",
                      pod->name, pod->shape->word, node->name);
    sim_met(kept ? "preempt/exactly_yes" : "preempt/exactly_no");
}

/* A doubt holds room that the API server does not know of. */
static bool is_reserved_on(const struct snapshot *snapshot, const struct model_node *node)
{
    const struct node *shown = snapshot_node(snapshot, text_of(node->name));

    for (uint32_t i = 0; shown != NULL && i < shown->n_allocations; i++)
        if (shown->allocation[i]->facts.state == STATE_RESERVED)
            return true;
    return false;
}

void oracle_preempt(struct sim *sim, const struct model_pod *pod, const struct proposal *proposal,
                    const json_t *answer, bool kept[MODEL_NODES])
{
    const json_t *map = json_object_get(answer, "NodeNameToMetaVictims");
    const struct snapshot *snapshot = daemon_view(sim);
    const struct allocation *held = snapshot_open(snapshot, text_of(pod->uid));
    const bool allowed =
        policy_allows(&sim->policy, pod->shape); /* otherwise it is refused unseen */
    size_t known = 0;

    if (!json_is_object(map))
        sim_violation(sim, "preempt was answered without NodeNameToMetaVictims");
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const json_t *victims = json_object_get(map, node->name);
        kept[n] = victims != NULL;
        if (!proposal->node[n])
            continue;
        known += kept[n] ? 1 : 0;
        if (kept[n])
            oracle_victims(sim, node, proposal, victims);
        if (held == NULL)
            oracle_kept_there(sim, pod, snapshot, node, proposal, kept[n]);
        if (held == NULL && is_reserved_on(snapshot, node))
            sim_met("preempt/beside a doubt");
        else if (held == NULL)
            oracle_kept(sim, pod, node, proposal, kept[n]);
        else if (kept[n] != (allowed && strcmp(held->facts.node->text, node->name) == 0))
            sim_violation(sim, "p%u holds a reservation on %s, and preempt %s %s", pod->name,
                          held->facts.node->text, kept[n] ? "kept" : "dropped", node->name);
    }
    if (json_object_get(map, "stranger") != NULL && proposal->stranger && !oracle_asks(pod))
        known++; /* requests without our resource are not judged here */
    if (known != json_object_size(map))
        sim_violation(sim, "preempt kept a node that was not proposed, or that nobody knows");
    sim_met(held != NULL ? "preempt/reserved" : known > 0 ? "preempt/kept" : "preempt/nothing");
    snapshot_unref(snapshot);
}

/* --- a snapshot --- */

static uint32_t charged(const struct node *node, const struct allocation *allocation,
                        const struct gpu *gpu)
{
    char buffer[GPU_ALIAS_BYTES];
    const char *alias = gpu_alias(gpu, node->name, buffer);
    uint32_t sum = 0;

    for (uint32_t i = 0; i < allocation->n_charges; i++) {
        const struct charge charge = allocation_charge(allocation, i);
        const struct text id = atom_text(charge.gpu);
        if (text_eq(id, atom_text(gpu->id)) || (alias != NULL && text_is(id, alias)))
            sum += charge.milli;
    }
    return sum;
}

static uint32_t sum_of(const struct node *node, const struct gpu *gpu)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < node->n_allocations; i++)
        sum += charged(node, node->allocation[i], gpu);
    return sum;
}

/* Did others change anything on this node since the last snapshot, or its GPUs? */
static bool imposed(const struct node *before, const struct node *after)
{
    for (uint32_t i = 0; i < after->n_allocations; i++) {
        const struct allocation *is = after->allocation[i];
        const struct allocation *was = node_allocation(before, text_of(is->facts.uid));
        if (is->facts.origin == ORIGIN_ADOPTED && (was == NULL || was->n_charges != is->n_charges))
            return true;
    }
    return false;
}

static void oracle_gpu(const struct sim *sim, const struct node *before, const struct node *node,
                       const struct gpu *gpu)
{
    const uint32_t sum = sum_of(node, gpu);

    if (sum != gpu->used_milli + gpu->reserved_milli)
        sim_violation(sim, "GPU %s counts %u + %u milli, its pods hold %u", gpu->id->text,
                      gpu->used_milli, gpu->reserved_milli, sum);
    if (sum <= gpu->milli)
        return;
    if ((gpu->flags & GPU_OVER) == 0)
        sim_violation(sim, "GPU %s is over its size and does not say so: %u of %u", gpu->id->text,
                      sum, gpu->milli);
    const struct gpu *was = before != NULL ? node_gpu(before, atom_text(gpu->id)) : NULL;
    if (was != NULL && was->milli == gpu->milli && sum > sum_of(before, was) &&
        !imposed(before, node))
        sim_violation(sim, "a grant took GPU %s over its size: %u, then %u of %u milli",
                      gpu->id->text, sum_of(before, was), sum, gpu->milli);
}

/* The allocation holds what was granted, no more and no less. */
static void oracle_held(const struct sim *sim, const struct model_pod *pod,
                        const struct allocation *held)
{
    if (held->facts.held_gpus != pod->shape->whole)
        sim_violation(sim, "p%u holds %u whole GPUs in the ledger, it asked %u", pod->name,
                      held->facts.held_gpus, pod->shape->whole);
    if (held->facts.n_shares != pod->n_shares)
        sim_violation(sim, "p%u holds %u shares in the ledger, granted were %u", pod->name,
                      held->facts.n_shares, pod->n_shares);
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct model_share *share = &pod->share[i];
        bool found = false;
        for (uint32_t k = 0; k < held->facts.n_shares; k++)
            found = found || (strcmp(held->facts.share[k].gpu->text, share->gpu) == 0 &&
                              held->facts.share[k].milli == share->milli &&
                              held->facts.share[k].mib == share->mib &&
                              strcmp(held->facts.share[k].container,
                                     pod->shape->want[share->want].container) == 0);
        if (!found)
            sim_violation(sim, "p%u: the ledger has lost %u milli of %s", pod->name, share->milli,
                          share->gpu);
    }
    for (uint32_t i = 0; i < held->n_charges; i++) {
        const struct charge charge = allocation_charge(held, i);
        const uint32_t peak = model_charge(pod, charge.gpu->text);
        if (charge.milli != peak)
            sim_violation(sim, "p%u is charged %u milli of %s, its peak is %u", pod->name,
                          charge.milli, charge.gpu->text, peak);
    }
}

static void oracle_once(const struct sim *sim, const struct snapshot *snapshot,
                        const struct node *here, const char *uid)
{
    const struct node *node;
    uint32_t at = 0;

    while ((node = snapshot_next(snapshot, &at)) != NULL)
        if (node != here && node_allocation(node, text_of(uid)) != NULL)
            sim_violation(sim, "uid %s holds something on %s and on %s", uid, node->name->text,
                          here->name->text);
}

static void oracle_grants_are_held(struct sim *sim, const struct snapshot *snapshot)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!model_alive(pod) || !pod->ours || (pod->n_shares == 0 && pod->shape->whole == 0))
            continue;
        const struct node *node = snapshot_node(snapshot, text_of(pod->node));
        const struct allocation *held =
            node != NULL ? node_allocation(node, text_of(pod->uid)) : NULL;
        if (held == NULL)
            sim_violation(sim,
                          "p%u (%s) lives on %s with what we granted%s, and the ledger does not "
                          "know it",
                          pod->name, pod->uid, pod->node, pod->answered ? " and said so" : "");
        oracle_held(sim, pod, held);
    }
}

void oracle_snapshot(struct sim *sim)
{
    const struct snapshot *snapshot = daemon_view(sim);
    const struct snapshot *seen = sim->daemon.seen;
    const struct node *node;
    uint32_t at = 0;

    if (snapshot == NULL || snapshot == seen) {
        snapshot_unref(snapshot);
        return;
    }
    while ((node = snapshot_next(snapshot, &at)) != NULL) {
        const struct node *before =
            seen != NULL ? snapshot_node(seen, atom_text(node->name)) : NULL;
        if (before == node)
            continue;
        for (uint32_t i = 0; i < node->n_gpus; i++)
            oracle_gpu(sim, before, node, &node->gpu[i]);
        oracle_holds(sim, node);
        for (uint32_t i = 0; i < node->n_allocations; i++)
            oracle_once(sim, snapshot, node, node->allocation[i]->facts.uid);
    }
    if (!sim->daemon.rebuilds)
        oracle_grants_are_held(sim, snapshot);
    reserve_shown(sim, snapshot);
    wakes_shown(sim, seen, snapshot);
    snapshot_unref(seen);
    sim->daemon.seen = snapshot;
}

/* The milli of this GPU available to a new share. */
static uint32_t room_on(const struct node *node, const struct gpu *gpu)
{
    const unsigned shut = GPU_ABSENT | GPU_UNHEALTHY | GPU_CORDONED | GPU_DUPLICATE;
    const uint32_t sum = sum_of(node, gpu);

    if ((gpu->flags & shut) != 0 || node->gone || vouch_closes(node->vouch) ||
        held_shown(node, gpu, NULL) || held_unnamed(node, NULL) > 0 || node->unplaced_milli > 0)
        return 0;
    return sum < gpu->milli ? gpu->milli - sum : 0;
}

/* seen is what the disk holds: it was shown after the last COMMIT. */
void oracle_uncommitted(struct sim *sim)
{
    const struct snapshot *snapshot = daemon_view(sim);
    const struct snapshot *seen = sim->daemon.seen;
    const struct node *node;
    uint32_t at = 0;

    while (seen != NULL && (node = snapshot_next(snapshot, &at)) != NULL) {
        const struct node *before = snapshot_node(seen, atom_text(node->name));
        for (uint32_t i = 0; before != node && i < node->n_gpus; i++) {
            const struct gpu *gpu = &node->gpu[i];
            const struct gpu *was = before != NULL ? node_gpu(before, atom_text(gpu->id)) : NULL;
            const uint32_t room = was != NULL ? room_on(before, was) : 0;
            if (room_on(node, gpu) > room)
                sim_violation(sim, "GPU %s shows %u milli free before the COMMIT, on disk are %u",
                              gpu->id->text, room_on(node, gpu), room);
        }
    }
    if (seen != NULL && seen != snapshot)
        sim_met("uncommitted");
    snapshot_unref(snapshot);
}

/* --- quiet --- */

/* Which of its containers requests it; NULL: none. */
static const char *asking(const json_t *object)
{
    const json_t *containers = json_object_get(json_object_get(object, "spec"), "containers");
    size_t i;
    const json_t *container;

    json_array_foreach (containers, i, container) {
        const json_t *resources = json_object_get(container, "resources");
        if (json_object_get(json_object_get(resources, "limits"), "nvidia.com/vgpu") != NULL)
            return json_string_value(json_object_get(container, "name"));
    }
    return NULL;
}

/* Somebody may have written a count although its shape has none: the count, if it is possible. */
static uint32_t parts_written(const struct sim *sim, const struct model_pod *pod,
                              const struct model_want *want)
{
    char path[96];
    char key[96];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/p%u", pod->name);
    json_t *object = model_fetch(sim, path);
    const json_t *notes = json_object_get(json_object_get(object, "metadata"), "annotations");
    const char *name = asking(object);
    (void)snprintf(key, sizeof key, "gpu-count.milligpu.io/%s", name != NULL ? name : "");
    const json_t *count = json_object_get(notes, key);
    if (count == NULL)
        count = json_object_get(notes, "milligpu.io/gpu-count");
    const char *text = json_string_value(count);
    char *end = NULL;
    const unsigned long said = text != NULL ? strtoul(text, &end, 10) : 0;
    const bool whole =
        text != NULL && strlen(text) == json_string_length(count) && end[strspn(end, " ")] == '\0';
    json_decref(object);
    if (!whole || said == 0 || said > 64 || want->milli % said != 0 || want->milli / said > 1000)
        return model_parts(want);
    return (uint32_t)said;
}

/* Milli of those of its parts for which the node has GPUs; a row is not moved for fewer. */
static uint32_t countable(const struct sim *sim, const struct model_pod *pod,
                          const struct node *node, const struct allocation *held)
{
    const struct model_want *want = &pod->shape->want[0];
    const uint32_t parts = pod->strange ? parts_written(sim, pod, want) : model_parts(want);
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < node->n_gpus; i++)
        gpus += (node->gpu[i].flags & GPU_ABSENT) == 0 ? 1 : 0;
    if (!pod->shape->grantable)
        return 1; /* it closes the node, whatever the number */
    if (held->facts.unplaced_milli >
        0) { /* an amount that cannot be judged is at most what its node has */
        const uint32_t least = squat_least(sim, pod);
        return least < model_peak(pod->shape) ? least : model_peak(pod->shape);
    }
    if (gpus >= parts)
        return model_peak(pod->shape);
    return want->milli / parts * gpus;
}

/* A pod bound by somebody else counts with what it requests, of what its node has. */
static void oracle_adopted(const struct sim *sim, const struct model_pod *pod,
                           const struct node *node, const struct allocation *held)
{
    const uint32_t asked = model_peak(pod->shape);
    const uint32_t counted = allocation_milli(held) + held->facts.unplaced_milli;
    const bool raised = sim->rules.raises && pod->shape->memory != NULL;

    if (held->facts.held_gpus != pod->shape->whole)
        sim_violation(sim, "p%u was bound by hand and asks %u whole GPUs, the ledger counts %u",
                      pod->name, pod->shape->whole, held->facts.held_gpus);
    if (pod->shape->n_wants != 1 || asked == 0)
        return; /* init containers and sidecars may lie on other GPUs than the rest */
    if ((counted > asked && !raised) || counted < countable(sim, pod, node, held))
        sim_violation(sim,
                      "p%u was bound by hand and asks %u milli, the ledger counts %u + %u unplaced",
                      pod->name, asked, allocation_milli(held), held->facts.unplaced_milli);
    if (held->facts.unplaced_milli > 0)
        sim_met("quiet/unplaced");
}

static uint32_t oracle_cluster_is_held(struct sim *sim, const struct snapshot *snapshot)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!oracle_should_hold(pod))
            continue;
        count++;
        const struct node *node = snapshot_node(snapshot, text_of(pod->node));
        const struct allocation *held =
            node != NULL ? node_allocation(node, text_of(pod->uid)) : NULL;
        if (held == NULL)
            sim_violation(sim, "p%u (%s, %s) lives on %s, and the ledger does not know it",
                          pod->name, pod->shape->word, pod->uid, pod->node);
        if (held->facts.state != STATE_BOUND)
            sim_violation(sim, "p%u lives on %s, and the ledger says %s", pod->name, pod->node,
                          allocation_state_name(held->facts.state));
        if (!pod->ours)
            oracle_adopted(sim, pod, node, held);
        if (!pod->ours)
            oracle_squatter(sim, pod, node, held);
    }
    return count;
}

static void met_drift(void *user, const struct drift *drift)
{
    (void)user;
    sim_met("drift/%s", drift->kind);
}

/*
 * A reservation whose Binding has an unknown outcome stays as long as there is no evidence: its pod
 * is unbound in that very version.
 */
static bool is_honest_doubt(const struct sim *sim, const struct allocation_facts *facts)
{
    const struct model_pod *pod = model_find((struct model *)(uintptr_t)&sim->model, facts->uid);

    return facts->state == STATE_RESERVED && pod != NULL && model_alive(pod) &&
           pod->node[0] == '\0' && facts->version == pod->version;
}

/* The number of doubts; everything else that no pod holds is a leak. */
static uint32_t say_leaks(struct sim *sim, const struct snapshot *snapshot)
{
    const struct node *node;
    uint32_t at = 0;
    uint32_t doubts = 0;

    while ((node = snapshot_next(snapshot, &at)) != NULL)
        for (uint32_t i = 0; i < node->n_allocations; i++) {
            const struct allocation_facts *facts = &node->allocation[i]->facts;
            const struct model_pod *pod = model_find(&sim->model, facts->uid);
            const bool doubt = is_honest_doubt(sim, facts);
            doubts += doubt;
            if (doubt)
                sim_met("quiet/in doubt");
            else if (pod == NULL || !oracle_should_hold(pod) ||
                     strcmp(pod->node, node->name->text) != 0)
                sim_violation(sim, "leaked: %s (%s, %s%s) on %s, and no such pod lives there",
                              facts->name, facts->uid, allocation_state_name(facts->state),
                              facts->in_doubt ? " in doubt" : "", node->name->text);
        }
    return doubts;
}

/* A waiting pod asks for pods that could make room. */
static void oracle_proposals(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (model_alive(pod) && pod->node[0] == '\0' && pod->shape->grantable)
            scheduler_preempt(sim, pod);
    }
}

/* --- the file --- */

/* Their atoms belong to two tables, so names are compared as text. */
static bool same_shares(const struct allocation *a, const struct allocation *b)
{
    bool same = a->facts.n_shares == b->facts.n_shares &&
                strcmp(a->facts.node->text, b->facts.node->text) == 0;

    for (uint32_t i = 0; same && i < a->facts.n_shares; i++)
        same = strcmp(a->facts.share[i].container, b->facts.share[i].container) == 0 &&
               strcmp(a->facts.share[i].gpu->text, b->facts.share[i].gpu->text) == 0 &&
               a->facts.share[i].milli == b->facts.share[i].milli &&
               a->facts.share[i].mib == b->facts.share[i].mib;
    return same;
}

static void oracle_file(struct sim *sim, const struct snapshot *snapshot)
{
    struct ledger *ledger = ledger_new();
    struct err err;
    const struct node *node;
    size_t at = 0;

    if (store_verify(sim->daemon.app.store, &err) < 0)
        sim_violation(sim, "the file does not pass its verification: %s", err.text);
    if (store_load(sim->daemon.app.store, ledger, &err) < 0)
        sim_violation(sim, "the file cannot be loaded: %s", err.text);
    const unsigned unkept = GPU_CONTESTED | GPU_HELD;
    uint32_t kept = 0;
    while ((node = ledger_next_node(ledger, &at)) != NULL) {
        const struct node *shown = snapshot_node(snapshot, atom_text(node->name));
        if (shown == NULL || shown->n_gpus != node->n_gpus ||
            shown->n_allocations != node->n_allocations)
            sim_violation(sim, "memory and file disagree about node %s", node->name->text);
        for (uint32_t i = 0; i < node->n_gpus; i++)
            if (node->gpu[i].used_milli != shown->gpu[i].used_milli ||
                node->gpu[i].reserved_milli != shown->gpu[i].reserved_milli ||
                node->gpu[i].milli != shown->gpu[i].milli ||
                ((node->gpu[i].flags ^ shown->gpu[i].flags) & ~unkept) != 0)
                sim_violation(sim, "memory and file disagree about GPU %s: flags %x and %x",
                              shown->gpu[i].id->text, (unsigned)shown->gpu[i].flags,
                              (unsigned)node->gpu[i].flags);
        for (uint32_t i = 0; i < node->n_gpus; i++)
            if (node->gpu[i].numa != shown->gpu[i].numa ||
                node->gpu[i].peers != shown->gpu[i].peers)
                sim_violation(sim, "memory and file disagree about where GPU %s lies",
                              shown->gpu[i].id->text);
        for (uint32_t i = 0; i < node->n_allocations; i++) {
            const struct allocation *a = node->allocation[i];
            const struct allocation *b = node_allocation(shown, text_of(a->facts.uid));
            if (b == NULL)
                sim_violation(sim, "the file has %s, memory has not", a->facts.name);
            if (a->facts.state != b->facts.state || !same_shares(a, b))
                sim_violation(sim, "memory says %s is %s with %u shares, the file %s with %u",
                              a->facts.name, allocation_state_name(b->facts.state),
                              b->facts.n_shares, allocation_state_name(a->facts.state),
                              a->facts.n_shares);
        }
        kept++;
    }
    if (kept != snapshot->nodes)
        sim_violation(sim, "memory has %u nodes, the file %u", snapshot->nodes, kept);
    ledger_free(ledger);
}

/* I7: the same cluster delivered once more changes nothing. */
static void oracle_told_twice(struct sim *sim)
{
    const uint64_t rows = sim->daemon.writes;

    sim_api_compact(sim->api);
    sim_api_outage(sim->api, sim->now_ms + 1500);
    sim_pass(sim, 90000);
    if (!sim->daemon.up || !daemon_ready(sim))
        sim_violation(sim, "not ready again a minute after a short outage");
    if (sim->daemon.writes != rows)
        sim_violation(sim, "the same cluster told again wrote %llu rows",
                      (unsigned long long)(sim->daemon.writes - rows));
}

void oracle_quiet(struct sim *sim)
{
    const char *why = "it is down";

    if (!sim->daemon.up || !app_ready(&sim->daemon.app, &why))
        sim_violation(sim, "not ready when everything is well: %s", why);
    if (scheduler_binding(sim) > 0)
        sim_violation(sim, "a bind has no answer when everything is quiet");
    for (int again = 0; again < 2; again++) {
        const struct snapshot *snapshot = daemon_view(sim);
        const struct node *node;
        uint32_t at = 0;
        const uint32_t expected = oracle_cluster_is_held(sim, snapshot);
        const uint32_t doubts = say_leaks(sim, snapshot);
        if (snapshot->allocations != expected + doubts)
            sim_violation(sim, "the ledger counts %u allocations, the cluster %u and %u doubts",
                          snapshot->allocations, expected, doubts);
        if (snapshot->n_opens != doubts)
            sim_violation(sim, "%u reservations are open when everything is quiet, %u in doubt",
                          snapshot->n_opens, doubts);
        while ((node = snapshot_next(snapshot, &at)) != NULL)
            drift_of(node, NULL, met_drift);
        oracle_odd_nodes(sim, snapshot);
        oracle_open_nodes(sim, snapshot);
        oracle_rules(sim, snapshot);
        oracle_reserve(sim, snapshot);
        oracle_taints(sim, snapshot);
        oracle_proofs(sim);
        oracle_told(sim, snapshot);
        oracle_agents(sim, snapshot);
        oracle_proposals(sim);
        oracle_file(sim, snapshot);
        snapshot_unref(snapshot);
        if (again == 0)
            oracle_told_twice(sim);
    }
    oracle_tables(sim);
    oracle_history(sim);
    oracle_learned(sim);
    oracle_usage(sim);
    sim_met("quiet");
}

/* --- the end --- */

bool oracle_fits(const struct sim *sim, const struct model_pod *pod, uint32_t node)
{
    return (pod->accepts & 1U << node) != 0 && taints_leave(pod, &sim->model.node[node]) &&
           fit_of(sim, pod, &sim->model.node[node], NULL) == FIT_YES;
}

bool oracle_fits_somewhere(const struct sim *sim, const struct model_pod *pod)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++)
        if (oracle_fits(sim, pod, n))
            return true;
    return false;
}

void oracle_nobody_waits(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!model_alive(pod) || pod->node[0] != '\0' || pod->terminating)
            continue;
        if (oracle_fits_somewhere(sim, pod))
            sim_violation(sim, "p%u (%s) waits, and there is room for it", pod->name,
                          pod->shape->word);
        sim_met("waits");
    }
}

void oracle_empty(struct sim *sim)
{
    const struct snapshot *snapshot = daemon_view(sim);

    if (snapshot == NULL)
        sim_violation(sim, "not there at the end");
    if (snapshot->allocations != 0)
        (void)say_leaks(sim, snapshot);
    if (snapshot->allocations != 0)
        sim_violation(sim, "all pods are gone, and %u allocations are left", snapshot->allocations);
    oracle_tables(sim);
    oracle_history(sim);
    snapshot_unref(snapshot);
}
