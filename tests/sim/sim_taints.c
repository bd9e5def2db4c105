/*
 * taints - nodes that kube-scheduler would not use, and pods that tolerate it.
 *
 * Operators cordon nodes, kubelets are not Ready, controllers taint nodes that are about to go, and
 * some nodes are tainted for the pods that tolerate it. kube-scheduler offers milligpud no such
 * node. milligpud itself never refuses one: it only leaves it out of the idle hosts that a rule
 * keeps (sim_reserve.c). So the end of a taint may let in a small pod elsewhere, which waits: it is
 * woken (sim_waits.c).
 *
 * A taint that pods may tolerate counts while none of those does that wait for shares or hold any.
 * Whether milligpud counts a pod that is about to end is not known here.
 */
#include <stdio.h>
#include <string.h>

#include "sim_run.h"

/* TOLERABLE: for some pods. SOFT keeps nobody away. */
enum what { LEAVING, UNREACHABLE, TOLERABLE, SOFT };

static const struct {
    const char *key;
    const char *value;
    const char *effect;
    enum what what;
} taint[] = {
    {"ToBeDeletedByClusterAutoscaler", "1700000000", "NoSchedule", LEAVING},
    {"node.kubernetes.io/unreachable", "", "NoExecute", UNREACHABLE},
    {"sim/gpu", "yes", "NoSchedule", TOLERABLE},
    {"sim/team", "blue", "NoExecute", TOLERABLE},
    {"sim/soft", "yes", "PreferNoSchedule", SOFT},
};
enum { TAINTS = ARRAY_LEN(taint) };

static uint32_t bits(enum what what)
{
    uint32_t set = 0;

    for (uint32_t i = 0; i < TAINTS; i++)
        set |= taint[i].what == what ? 1U << i : 0;
    return set;
}

/* --- pods --- */

void taints_of_pod(const struct sim *sim, struct model_pod *pod, struct draw *draw)
{
    if (!sim->rules.taints || !draw_chance(draw, 100))
        return;
    for (uint32_t i = 0; i < TAINTS; i++)
        if (taint[i].what == TOLERABLE && draw_chance(draw, 600))
            pod->tolerates |= 1U << i;
}

/* In one of the ways that mean the same. */
static json_t *toleration(uint32_t i, uint32_t way)
{
    if (way % 3 == 0)
        return json_pack("{s:s,s:s}", "key", taint[i].key, "operator", "Exists");
    if (way % 3 == 1)
        return json_pack("{s:s,s:s,s:s}", "key", taint[i].key, "value", taint[i].value, "effect",
                         taint[i].effect);
    return json_pack("{s:s,s:s,s:s}", "key", taint[i].key, "operator", "Equal", "value",
                     taint[i].value);
}

void taints_tell_pod(const struct model_pod *pod, json_t *spec)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < TAINTS; i++)
        if ((pod->tolerates >> i & 1) != 0)
            json_array_append_new(list, toleration(i, pod->name + i));
    if (pod->tolerates != 0)
        json_object_set(spec, "tolerations", list);
    json_decref(list);
}

/* --- nodes --- */

static void patch(struct sim *sim, struct model_node *node, const char *rest, json_t *take_body,
                  const char *what)
{
    core_change_node(sim, node, rest, take_body);
    model_node_is(sim, node, core_version(sim));
    sim_met("taint/%s", what);
    sim_say(sim, "node %s: %s, taints %x", node->name, what, node->is.taints);
}

static void write_spec(struct sim *sim, struct model_node *node, const char *what)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < TAINTS; i++)
        if ((node->is.taints >> i & 1) != 0)
            json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "key", taint[i].key, "value",
                                                  taint[i].value, "effect", taint[i].effect));
    json_t *spec = json_pack("{s:o}", "taints", list);
    json_object_set_new(spec, "unschedulable", node->is.unschedulable ? json_true() : json_null());
    patch(sim, node, "", json_pack("{s:o}", "spec", spec), what);
}

static void write_ready(struct sim *sim, struct model_node *node, const char *status)
{
    patch(sim, node, "/status",
          json_pack("{s:{s:[{s:s,s:s},{s:s,s:s}]}}", "status", "conditions", "type",
                    "MemoryPressure", "status", "False", "type", "Ready", "status", status),
          node->is.not_ready ? "not_ready" : "ready");
}

static uint32_t first_of(uint32_t taints)
{
    uint32_t first = 0;

    while ((taints >> first & 1) == 0)
        first++;
    return first;
}

static void change(struct sim *sim, struct model_node *node, struct draw *draw)
{
    uint32_t which = draw_below(draw, TAINTS);

    if (node->is.taints != 0 && draw_chance(draw, 500))
        which = first_of(node->is.taints); /* as many go as come */
    switch (draw_below(draw, 5)) {
    case 0:
        node->is.unschedulable = !node->is.unschedulable;
        write_spec(sim, node, node->is.unschedulable ? "cordoned" : "uncordoned");
        break;
    case 1:
        node->is.not_ready = !node->is.not_ready;
        write_ready(sim, node,
                    !node->is.not_ready      ? "True"
                    : draw_chance(draw, 500) ? "False"
                                             : "Unknown");
        break;
    default:
        node->is.taints ^= 1U << which;
        write_spec(sim, node, (node->is.taints >> which & 1) != 0 ? "comes" : "goes");
    }
}

void taints_trouble(struct sim *sim, uint32_t step)
{
    struct draw draw = {.state = sim->seed * 0x9FB21C651E98DF25U + step};

    if (!sim->rules.taints || !draw_chance(&draw, sim->rules.taint_per_mille))
        return;
    struct model_node *node = &sim->model.node[draw_below(&draw, sim->model.n_nodes)];
    if (node->is.there)
        change(sim, node, &draw);
}

static void mend(struct sim *sim, struct model_node *node)
{
    if (node->is.taints != 0 || node->is.unschedulable) {
        node->is.taints = 0;
        node->is.unschedulable = false;
        write_spec(sim, node, "all_go");
    }
    if (node->is.not_ready) {
        node->is.not_ready = false;
        write_ready(sim, node, "True");
    }
}

void taints_mend_all(struct sim *sim)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++)
        if (sim->model.node[n].is.there)
            mend(sim, &sim->model.node[n]);
}

/* A node becomes usable, so that the pod fits, there or elsewhere: milligpud does not know yet. */
bool taints_make_room(struct sim *sim, const struct model_pod *pod)
{
    if (!sim->rules.taints || !draw_chance(&sim->draw, 700))
        return false;
    const uint32_t from = draw_below(&sim->draw, sim->model.n_nodes);
    for (uint32_t i = 0; i < sim->model.n_nodes; i++) {
        struct model_node *node = &sim->model.node[(from + i) % sim->model.n_nodes];
        if (!node->is.there || taints_usable(sim, node) != FIT_NO)
            continue;
        mend(sim, node);
        if (!oracle_fits_somewhere(sim, pod))
            return false;
        sim_met("taint/makes_room");
        return true;
    }
    return false;
}

void taints_forget(struct model_node *node)
{
    node->is.taints = 0;
    node->is.unschedulable = node->is.not_ready = false;
}

/* --- what they mean --- */

bool taints_leave(const struct model_pod *pod, const struct model_node *node)
{
    return !node->is.unschedulable && !node->is.not_ready &&
           (node->is.taints & ~pod->tolerates & ~bits(SOFT)) == 0;
}

/* Does it wait for shares, or hold any, so that milligpud counts it once it knows the pod? */
static bool is_counted(const struct sim *sim, const struct model_pod *pod)
{
    return model_alive(pod) && !pod->strange && !pod->unlike && oracle_asks(pod) &&
           pod->shape->grantable && (pod->ours || policy_allows(&sim->policy, pod->shape));
}

/* Does a known pod tolerate this one? */
static enum fit is_covered(const struct sim *sim, uint32_t which)
{
    enum fit covered = FIT_NO;

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!pod->there || (pod->tolerates >> which & 1) == 0)
            continue;
        if (is_counted(sim, pod))
            return FIT_YES;
        covered = FIT_UNSURE;
    }
    return covered;
}

static enum fit usable_in(const struct sim *sim, const struct model_version *version)
{
    enum fit usable = FIT_YES;

    if (version->unschedulable || version->not_ready ||
        (version->taints & (bits(LEAVING) | bits(UNREACHABLE))) != 0)
        return FIT_NO;
    for (uint32_t i = 0; i < TAINTS; i++) {
        if ((version->taints >> i & 1) == 0 || taint[i].what != TOLERABLE)
            continue;
        const enum fit covered = is_covered(sim, i);
        if (covered == FIT_NO)
            return FIT_NO;
        usable = covered == FIT_UNSURE ? FIT_UNSURE : usable;
    }
    return usable;
}

enum fit taints_usable(const struct sim *sim, const struct model_node *node)
{
    return usable_in(sim, &node->is);
}

/* Were its taints the same, for any tolerations, in all states that the writer may know? */
bool taints_are_steady(const struct sim *sim, const struct model_node *node)
{
    for (uint32_t v = model_first_known(node, sim->daemon.applied_nodes); v < node->versions; v++) {
        const struct model_version *was = &node->was[v];
        if (was->unschedulable != node->is.unschedulable || was->not_ready != node->is.not_ready ||
            was->taints != node->is.taints || (was->taints & bits(TOLERABLE)) != 0)
            return false;
    }
    return true;
}

/* --- all is quiet: what is shown is what the Node says --- */

static enum unusable reason_of(const struct model_version *is)
{
    if ((is->taints & bits(LEAVING)) != 0)
        return UNUSABLE_LEAVING;
    if (is->unschedulable)
        return UNUSABLE_CORDONED;
    if (is->not_ready || (is->taints & bits(UNREACHABLE)) != 0)
        return UNUSABLE_NOT_READY;
    return UNUSABLE_TAINTED;
}

void oracle_taints(const struct sim *sim, const struct snapshot *snapshot)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const struct node *shown = snapshot_node(snapshot, text_of(node->name));
        const enum fit usable = taints_usable(sim, node);
        if (!node->is.there || shown == NULL)
            continue;
        const enum unusable why = usable == FIT_YES ? USABLE : reason_of(&node->is);
        if (shown->unusable.why != why && usable != FIT_UNSURE)
            sim_violation(sim, "node %s is shown as %s, its Node says %s", node->name,
                          unusable_name(shown->unusable.why), unusable_name(why));
        if (node->is.taints != 0 || why != USABLE)
            sim_met("taint/shown_%s", unusable_name(shown->unusable.why));
    }
}
