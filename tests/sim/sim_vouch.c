/*
 * vouch - what happens to pods of agents, and to what vouches for their nodes.
 *
 * A DaemonSet's controller creates one on each node that has an agent, and replaces it; kubelet
 * writes whether it is Ready, some time after that changed, and with a later Node status which
 * boot the machine runs; the agent names its pod, its Node and its boot as it knew them when it
 * wrote. So each of these may be the older one. Operators pause agents, clone them, tell them to
 * leave, and delete annotations; the Node is made anew under a running agent.
 */
#include "sim_vouch.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "sim_run.h"
#include "support/disk.h"

enum {
    KUBELET_MS = 8000,     /* until it tells that a pod is not Ready, or of a boot */
    READY_MS = 4000,       /* until it tells that one is */
    LATE_READY_MS = 60000, /* the same, sometimes */
    CREATE_MS = 4000,
    GRACE_MS = 15000,
    ORPHAN_MS = 40000,
    FLAP_MS = 1500,
    FAST_FLAP_MS = 20,
    LEAVE_MS = 60000,
};

static const char pods_path[] = "/api/v1/namespaces/ns/pods";

static struct sim_vouch *vouch_of(struct sim *sim, const struct model_node *node)
{
    return &sim->vouch[node - sim->model.node];
}

static const struct sim_vouch *looked_at(const struct sim *sim, const struct model_node *node)
{
    return &sim->vouch[node - sim->model.node];
}

static struct sim_agent *agent_of(struct sim *sim, const struct model_node *node)
{
    return &sim->agent[node - sim->model.node];
}

static int64_t later(struct sim *sim, int64_t most)
{
    return sim->now_ms + draw_between(&sim->agents_draw, 1, most);
}

static bool chance(struct sim *sim, uint32_t per_mille)
{
    return draw_chance(&sim->agents_draw, per_mille);
}

/* --- pods --- */

static void pod_path(const struct model_node *node, const struct vouch_pod *pod, const char *rest,
                     char path[160])
{
    (void)snprintf(path, 160, "%s/agent-%s-%u%s", pods_path, node->name, pod->number, rest);
}

/* The table follows what the API server has. */
static void changed(struct sim *sim, const struct model_node *node)
{
    vouched_pods_are(sim, node, core_version(sim));
}

static void create(struct sim *sim, const struct model_node *node, struct vouch_pod *pod)
{
    char name[64];
    char path[160];

    *pod = (struct vouch_pod){.number = ++sim->vouch_pods};
    (void)snprintf(name, sizeof name, "agent-%s-%u", node->name, pod->number);
    if (core_request_json(sim, "POST", pods_path,
                          json_pack("{s:s,s:s,s:{s:s,s:s,s:{s:s}},s:{s:[{s:s,s:s}]}}", "apiVersion",
                                    "v1", "kind", "Pod", "metadata", "name", name, "namespace",
                                    "ns", "labels", "app.kubernetes.io/component", "node", "spec",
                                    "containers", "name", "agent", "image", "none")) != 201)
        sim_violation(sim, "the fake API server does not take a pod of an agent");
    pod_path(node, pod, "/binding", path);
    if (core_request_json(sim, "POST", path,
                          json_pack("{s:s,s:s,s:{s:s},s:{s:s,s:s}}", "apiVersion", "v1", "kind",
                                    "Binding", "metadata", "name", name, "target", "kind", "Node",
                                    "name", node->name)) != 201)
        sim_violation(sim, "the fake API server does not bind a pod of an agent");
    pod_path(node, pod, "", path);
    json_t *object = model_fetch(sim, path);
    (void)snprintf(pod->uid, sizeof pod->uid, "%s",
                   json_string_value(json_object_get(json_object_get(object, "metadata"), "uid")));
    json_decref(object);
    pod->there = true;
    changed(sim, node);
    sim_say(sim, "a pod of an agent comes to %s", node->name);
}

static void tell_ready(struct sim *sim, const struct model_node *node, struct vouch_pod *pod,
                       bool ready)
{
    char path[160];

    pod->tell_ms = 0;
    if (!pod->there || pod->ready == ready)
        return;
    pod->ready = ready;
    pod_path(node, pod, "/status", path);
    if (core_request_json(sim, "PATCH", path,
                          json_pack("{s:{s:[{s:s,s:s}]}}", "status", "conditions", "type", "Ready",
                                    "status", ready ? "True" : "False")) != 200)
        sim_violation(sim, "the fake API server does not take whether an agent is Ready");
    changed(sim, node);
    sim_met(ready ? "vouch/ready" : "vouch/not_ready");
    sim_say(sim, "the pod of an agent on %s is %sReady", node->name, ready ? "" : "not ");
}

static void delete_pod(struct sim *sim, const struct model_node *node, struct vouch_pod *pod,
                       bool at_once)
{
    char path[160];
    struct strbuf out;

    if (!pod->there || (pod->terminating && !at_once))
        return;
    pod_path(node, pod, at_once ? "?gracePeriodSeconds=0" : "?gracePeriodSeconds=30", path);
    strbuf_init(&out);
    if (sim_api_request(sim->api, "DELETE", path, "", &out) >= 300)
        sim_violation(sim, "the fake API server does not delete a pod of an agent");
    strbuf_done(&out);
    pod->there = !at_once;
    pod->terminating = true;
    pod->end_ms = at_once ? 0 : later(sim, GRACE_MS);
    changed(sim, node);
    sim_say(sim, "the pod of an agent on %s is %s", node->name, at_once ? "gone" : "being deleted");
}

/* A place beside its agent's own pod; NULL: none. */
static struct vouch_pod *free_place(struct sim_vouch *vouch)
{
    for (uint32_t i = 1; i < VOUCH_PODS; i++)
        if (!vouch->pod[i].there)
            return &vouch->pod[i];
    return NULL;
}

/* Its pod gives way to another one, and goes by itself. */
static void step_aside(struct sim *sim, const struct model_node *node, int64_t end_ms)
{
    struct sim_vouch *vouch = vouch_of(sim, node);
    struct vouch_pod *aside = free_place(vouch);

    if (!vouch->pod[0].there)
        return;
    if (aside == NULL) {
        delete_pod(sim, node, &vouch->pod[0], true);
        return;
    }
    *aside = vouch->pod[0];
    aside->end_ms = end_ms;
    aside->tell_ms = 0;
    vouch->pod[0] = (struct vouch_pod){.there = false};
}

/* --- its agent --- */

void vouch_begin(struct sim *sim, struct model_node *node)
{
    struct sim_vouch *vouch = vouch_of(sim, node);

    if (!sim->rules.vouches)
        return;
    vouch->selected = chance(sim, node->by_agent ? 800 : 60);
    vouch->silent = chance(sim, 150);
    vouch->boot = 1;
}

bool vouch_can_start(const struct sim *sim, const struct model_node *node)
{
    return !sim->rules.vouches ||
           (looked_at(sim, node)->pod[0].there && !looked_at(sim, node)->pod[0].terminating);
}

/* A process knows its pod and its boot from the start, its Node from the first answer. */
void vouch_starts(struct sim *sim, const struct model_node *node)
{
    struct sim_vouch *vouch = vouch_of(sim, node);

    if (!sim->rules.vouches)
        return;
    vouch->node_uid[0] = '\0';
    vouch->claim = (struct vouch_claim){.pod = ""};
    if (vouch->silent)
        return;
    memcpy(vouch->claim.pod, vouch->pod[0].uid, sizeof vouch->claim.pod);
    (void)snprintf(vouch->claim.boot, sizeof vouch->claim.boot, "%s-%u", node->name, vouch->boot);
}

void vouch_says(const struct sim *sim, const struct model_node *node, struct vouch_claim *out)
{
    const struct sim_vouch *vouch = looked_at(sim, node);

    *out = vouch->claim;
    if (out->pod[0] != '\0')
        memcpy(out->node, vouch->node_uid, sizeof out->node);
    if (vouch->leave_ms > sim->now_ms)
        (void)snprintf(out->leaving, sizeof out->leaving, "driver-upgrade");
}

void vouch_tells(const struct vouch_claim *claim, json_t *note)
{
    if (claim->leaving[0] != '\0')
        json_object_set_new(note, "leaving", json_string(claim->leaving));
    if (claim->pod[0] == '\0')
        return;
    json_t *pod = json_pack("{s:s,s:s}", "uid", claim->pod, "boot", claim->boot);
    if (claim->node[0] != '\0')
        json_object_set_new(pod, "node", json_string(claim->node));
    json_object_set_new(note, "pod", pod);
}

void vouch_answered(struct sim *sim, const struct model_node *node)
{
    struct sim_vouch *vouch = vouch_of(sim, node);
    const struct vouch_table *table = &sim->vouched[node - sim->model.node];

    if (sim->rules.vouches && table->n_words > 0)
        memcpy(vouch->node_uid, table->word[table->n_words - 1].uid, sizeof vouch->node_uid);
}

/* --- its node --- */

json_t *vouch_labels(const struct sim *sim, const struct model_node *node, json_t *take_labels)
{
    if (looked_at(sim, node)->selected)
        json_object_set_new(take_labels, "nvidia.com/gpu.present", json_string("true"));
    return take_labels;
}

static json_t *boot_info(const struct sim *sim, const struct model_node *node)
{
    char boot[VOUCH_WORD];

    (void)snprintf(boot, sizeof boot, "%s-%u", node->name, looked_at(sim, node)->boot);
    return json_pack("{s:s}", "bootID", boot);
}

json_t *vouch_status(const struct sim *sim, const struct model_node *node, json_t *take_status)
{
    if (sim->rules.vouches)
        json_object_set_new(take_status, "nodeInfo", boot_info(sim, node));
    return take_status;
}

bool vouch_node_goes(struct sim *sim, const struct model_node *node)
{
    struct sim_vouch *vouch = vouch_of(sim, node);

    vouch->counted = false;
    vouch->kubelet_ms = 0;
    if (vouch->stays)
        return true;
    step_aside(sim, node, later(sim, ORPHAN_MS));
    return false;
}

void vouch_reboots(struct sim *sim, const struct model_node *node)
{
    struct sim_vouch *vouch = vouch_of(sim, node);

    if (!sim->rules.vouches)
        return;
    vouch->boot++;
    vouch->kubelet_ms = later(sim, KUBELET_MS);
}

static void patch(struct sim *sim, struct model_node *node, const char *rest, json_t *take_body)
{
    core_change_node(sim, node, rest, take_body);
    model_node_is(sim, node, core_version(sim));
}

static void count_by_labels(struct sim *sim, struct model_node *node, bool on)
{
    struct sim_vouch *vouch = vouch_of(sim, node);
    json_t *labels = on ? core_labels(node)
                        : json_pack("{s:n,s:n,s:n}", "nvidia.com/gpu.count",
                                    "nvidia.com/gpu.memory", "nvidia.com/gpu.product");

    if (on)
        json_object_set_new(labels, "nvidia.com/gpu.count", json_string("4"));
    vouch->counted = on;
    patch(sim, node, "", json_pack("{s:{s:o}}", "metadata", "labels", labels));
}

void vouch_leaves(struct sim *sim, const struct model_node *node)
{
    struct sim_vouch *vouch = vouch_of(sim, node);

    delete_pod(sim, node, &vouch->pod[0], false);
    vouch->create_ms = 0;
    if (vouch->counted && node->is.there)
        count_by_labels(sim, &sim->model.node[node - sim->model.node], false);
}

/* --- trouble --- */

/* Until it heals, no write succeeds. */
static void fill_disk(struct sim *sim)
{
    if (!sim->daemon.up || sim->settling || sim->daemon.disk_heals_ms != 0)
        return;
    disk_fail(DISK_WRITE, 1, SQLITE_FULL, true);
    sim->daemon.disk_heals_ms = later(sim, 8000);
    sim_met("vouch/disk_full");
    sim_say(sim, "the disk is full");
}

static void pause_agent(struct sim *sim, struct sim_vouch *vouch)
{
    vouch->pause_ms = later(sim, 60000);
}

/* Slowly, or faster than anybody may be woken. */
static void flap(struct sim *sim, struct sim_vouch *vouch)
{
    const bool fast = chance(sim, 300);

    vouch->flap_most_ms = fast ? FAST_FLAP_MS : FLAP_MS;
    vouch->flaps_ms = later(sim, fast ? 10000 : 90000);
    vouch->flap_ms = later(sim, vouch->flap_most_ms);
    vouch->pod[0].tell_ms = 0;
}

/* Another DaemonSet has the same label, or a pod was forced away and its machine lives. */
static void clone(struct sim *sim, const struct model_node *node, struct sim_vouch *vouch)
{
    struct vouch_pod *pod = free_place(vouch);

    if (pod == NULL)
        return;
    create(sim, node, pod);
    pod->tell_ms = later(sim, READY_MS);
    pod->end_ms = later(sim, 60000);
}

/* The new pod comes when the old one is gone, or before. */
static void replace(struct sim *sim, const struct model_node *node, struct sim_vouch *vouch)
{
    vouch->silent = chance(sim, 150);
    delete_pod(sim, node, &vouch->pod[0], chance(sim, 200));
    if (chance(sim, 400))
        step_aside(sim, node, vouch->pod[0].end_ms);
    agent_stops(sim, node, draw_between(&sim->agents_draw, 500, 5000));
}

/* Somebody deletes what the agent wrote; labels may be all that is left. */
static void strip(struct sim *sim, struct model_node *node, const struct sim_vouch *vouch)
{
    if (!node->is.agent || !vouch->selected || !vouch->pod[0].there)
        return;
    if (!vouch->counted && chance(sim, 600) && vouched_is_kept(sim, node)) {
        count_by_labels(sim, node, true);
        sim_met("vouch/counted_by_labels");
    }
    agent_shows_nothing(node);
    node->is.stripped = true;
    patch(sim, node, "",
          json_pack("{s:{s:{s:n,s:n}}}", "metadata", "annotations", "milligpu.io/agent",
                    "milligpu.io/gpus"));
    if (chance(sim, 500)) /* else it writes when it would write the same again */
        agent_looks(sim, node);
}

static void remake(struct sim *sim, struct model_node *node, struct sim_vouch *vouch)
{
    if (!node->is.there)
        return;
    vouch->stays = chance(sim, 600) && agent_serves(sim, node);
    core_remake_node(sim, node);
    vouch->stays = false;
}

/*
 * No event tells that its pod is gone, and others with it: the list that shows it has rows to
 * write, and may meet a disk that is full.
 */
static void vanish(struct sim *sim, const struct model_node *node, struct sim_vouch *vouch)
{
    sim_api_compact(sim->api);
    sim_api_outage(sim->api, later(sim, 3000));
    delete_pod(sim, node, &vouch->pod[0], true);
    agent_stops(sim, node, draw_between(&sim->agents_draw, 500, 20000));
    vouch->create_ms = sim->now_ms + draw_between(&sim->agents_draw, 1000, 40000);
    core_vanish(sim, draw_below(&sim->agents_draw, 3));
    if (chance(sim, 500))
        fill_disk(sim);
}

static void leave(struct sim *sim, const struct model_node *node, struct sim_vouch *vouch)
{
    vouch->leave_ms = later(sim, LEAVE_MS);
    agent_looks(sim, node);
}

bool vouch_trouble(struct sim *sim, struct model_node *node, struct draw *draw)
{
    static const char *const word[] = {"pauses",   "flaps",  "cloned", "replaced",
                                       "stripped", "remade", "leaves", "unseen"};
    struct sim_vouch *vouch = vouch_of(sim, node);

    if (!sim->rules.vouches || !draw_chance(draw, 500))
        return false;
    const uint32_t what = draw_below(draw, ARRAY_LEN(word));
    sim_met("vouch/%s", word[what]);
    sim_say(sim, "node %s and its agent: %s", node->name, word[what]);
    switch (what) {
    case 0:
        pause_agent(sim, vouch);
        break;
    case 1:
        flap(sim, vouch);
        break;
    case 2:
        clone(sim, node, vouch);
        break;
    case 3:
        replace(sim, node, vouch);
        break;
    case 4:
        strip(sim, node, vouch);
        break;
    case 5:
        remake(sim, node, vouch);
        break;
    case 6:
        leave(sim, node, vouch);
        break;
    default:
        vanish(sim, node, vouch);
    }
    return true;
}

void vouch_calm(struct sim *sim)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        struct sim_vouch *vouch = &sim->vouch[n];
        if (!sim->rules.vouches || !node->by_agent)
            continue;
        vouch->pause_ms = vouch->flap_ms = 0;
        if (vouch->leave_ms > sim->now_ms)
            vouch->leave_ms = sim->now_ms;
        for (uint32_t i = 1; i < VOUCH_PODS; i++)
            delete_pod(sim, node, &vouch->pod[i], true);
        agent_looks(sim, node);
    }
}

/* --- turns --- */

/* The result of kubelet's probe. */
static bool is_ready(const struct sim *sim, const struct model_node *node)
{
    const struct sim_vouch *vouch = looked_at(sim, node);
    const struct sim_agent *agent = &sim->agent[node - sim->model.node];

    return agent->up && agent->has_read && vouch->pause_ms <= sim->now_ms &&
           vouch->leave_ms <= sim->now_ms &&
           (vouch->silent || strcmp(vouch->claim.pod, vouch->pod[0].uid) == 0);
}

static int64_t until_told(struct sim *sim, bool ready)
{
    if (!ready)
        return KUBELET_MS;
    if (sim->settling || !chance(sim, 150))
        return READY_MS;
    sim_met("vouch/late");
    return LATE_READY_MS;
}

static void probe(struct sim *sim, const struct model_node *node, struct vouch_pod *pod)
{
    struct sim_vouch *vouch = vouch_of(sim, node);
    const bool ready = is_ready(sim, node);

    if (vouch->flap_ms != 0) {
        if (sim->now_ms < vouch->flap_ms)
            return;
        tell_ready(sim, node, pod, !pod->ready);
        vouch->flap_ms = sim->now_ms < vouch->flaps_ms ? later(sim, vouch->flap_most_ms) : 0;
        return;
    }
    if (ready == pod->ready)
        pod->tell_ms = 0;
    else if (pod->tell_ms == 0)
        pod->tell_ms = later(sim, until_told(sim, ready));
    else if (sim->now_ms >= pod->tell_ms)
        tell_ready(sim, node, pod, ready);
}

static void pod_ends(struct sim *sim, const struct model_node *node, struct vouch_pod *pod)
{
    if (pod->there && pod->end_ms != 0 && sim->now_ms >= pod->end_ms)
        delete_pod(sim, node, pod, pod->terminating || chance(sim, 500));
}

static void controller(struct sim *sim, const struct model_node *node)
{
    struct sim_vouch *vouch = vouch_of(sim, node);

    if (vouch->pod[0].there || !node->is.there || !agent_of(sim, node)->installed)
        return;
    if (vouch->create_ms == 0)
        vouch->create_ms = later(sim, CREATE_MS);
    if (sim->now_ms < vouch->create_ms)
        return;
    vouch->create_ms = 0;
    /* With the first one milligpud begins to judge all nodes. */
    if (sim->vouch_pods == 0 && chance(sim, 300))
        fill_disk(sim);
    create(sim, node, &vouch->pod[0]);
}

void vouch_turn(struct sim *sim, struct model_node *node)
{
    struct sim_vouch *vouch = vouch_of(sim, node);

    if (!sim->rules.vouches)
        return;
    for (uint32_t i = 0; i < VOUCH_PODS; i++)
        pod_ends(sim, node, &vouch->pod[i]);
    for (uint32_t i = 1; i < VOUCH_PODS; i++)
        if (vouch->pod[i].tell_ms != 0 && sim->now_ms >= vouch->pod[i].tell_ms)
            tell_ready(sim, node, &vouch->pod[i], true);
    controller(sim, node);
    if (vouch->pod[0].there)
        probe(sim, node, &vouch->pod[0]);
    if (vouch->leave_ms != 0 && sim->now_ms >= vouch->leave_ms) {
        vouch->leave_ms = 0;
        sim_met("vouch/comes_back");
        agent_looks(sim, node);
    }
    if (vouch->kubelet_ms != 0 && sim->now_ms >= vouch->kubelet_ms) {
        vouch->kubelet_ms = 0;
        if (node->is.there)
            patch(sim, node, "/status",
                  json_pack("{s:{s:o}}", "status", "nodeInfo", boot_info(sim, node)));
    }
}

static void sooner(int64_t *next, int64_t at)
{
    if (at != 0 && at < *next)
        *next = at;
}

int64_t vouch_next(const struct sim *sim, const struct model_node *node)
{
    const struct sim_vouch *vouch = looked_at(sim, node);
    int64_t next = INT64_MAX;

    if (!sim->rules.vouches)
        return next;
    for (uint32_t i = 0; i < VOUCH_PODS; i++) {
        if (!vouch->pod[i].there)
            continue;
        sooner(&next, vouch->pod[i].tell_ms);
        sooner(&next, vouch->pod[i].end_ms);
    }
    if (node->is.there)
        sooner(&next, vouch->create_ms);
    sooner(&next, vouch->kubelet_ms);
    sooner(&next, vouch->leave_ms);
    if (vouch->pod[0].there)
        sooner(&next, vouch->flap_ms);
    sooner(&next, vouch->pause_ms > sim->now_ms ? vouch->pause_ms : 0);
    return next;
}
