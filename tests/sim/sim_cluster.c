/*
 * cluster - what the cluster does by itself: users, kubelets, operators, a hostile tenant, and
 * everything that breaks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sqlite3.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"

#include "sim_run.h"
#include "support/disk.h"
#include "support/hostile.h"

enum { GPUS = 4, MIB = 81920, MAKE_ROOM = 3, NODE_AGE_MS = 2000 };
static const int64_t YEAR_MS = INT64_C(400) * 24 * 3600 * 1000;

static const char pods_path[] = "/api/v1/namespaces/default/pods";

static int request(struct sim *sim, const char *method, const char *path, const char *body)
{
    struct strbuf out;

    strbuf_init(&out);
    const int status = sim_api_request(sim->api, method, path, body, &out);
    strbuf_done(&out);
    return status;
}

int core_request_json(struct sim *sim, const char *method, const char *path, json_t *take_body)
{
    char *body = json_dumps(take_body, JSON_COMPACT);
    const int status = request(sim, method, path, body);

    free(body);
    json_decref(take_body);
    return status;
}

/* --- nodes --- */

void core_change_node(struct sim *sim, const struct model_node *node, const char *rest,
                      json_t *take_patch)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s%s", node->name, rest);
    if (core_request_json(sim, "PATCH", path, take_patch) != 200)
        sim_violation(sim, "the fake API server does not take a change of %s", node->name);
}

uint64_t core_version(struct sim *sim)
{
    struct strbuf out;

    strbuf_init(&out);
    if (fake_apiserver_request(sim->fake, "GET", "/api/v1/nodes?limit=1", TEXT(""), &out) != 200)
        sim_violation(sim, "the fake API server does not list");
    json_t *list = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
    const char *version =
        json_string_value(json_object_get(json_object_get(list, "metadata"), "resourceVersion"));
    if (version == NULL)
        sim_violation(sim, "a list without a version");
    const uint64_t number = strtoull(version, NULL, 10);
    json_decref(list);
    strbuf_done(&out);
    return number;
}

/* With why it is ill, since when, and by whom it is held whole. */
static void tell_as_agent(const struct model_gpu *gpu, json_t *object)
{
    char since[SIM_TIME_BYTES];

    if (gpu->ill) {
        sim_time(gpu->since_ms, since);
        json_object_set_new(object, "health", json_string(gpu->health));
        json_object_set_new(object, "reason", json_string(gpu->reason));
        json_object_set_new(object, "since", json_string(since));
    }
    if (gpu->held[0] != '\0')
        json_object_set_new(object, "held", json_string(gpu->held));
}

json_t *core_gpus(const struct model_node *node)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        const struct model_gpu *gpu = &node->is.gpu[i];
        if (gpu->missing)
            continue;
        json_t *object =
            json_pack("{s:s,s:i,s:i,s:i,s:s,s:s}", "uuid", gpu->id, "index", (int)gpu->index,
                      "milli", (int)gpu->milli, "mib", (int)gpu->mib, "model", gpu->model, "health",
                      gpu->ill ? "Unhealthy" : "Healthy");
        topology_tell(node, i, object);
        if (node->by_agent)
            tell_as_agent(gpu, object);
        json_array_append_new(list, object);
    }
    char *text = json_dumps(list, JSON_COMPACT);
    json_t *out = json_string(text);
    free(text);
    json_decref(list);
    return out;
}

uint32_t core_milli(const struct model_node *node)
{
    uint32_t milli = 0;

    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        milli += node->is.gpu[i].missing ? 0 : node->is.gpu[i].milli;
    return milli;
}

json_t *core_amounts(const struct model_node *node)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%u", core_milli(node));
    return json_pack("{s:{s:s},s:{s:s}}", "capacity", "nvidia.com/vgpu", text, "allocatable",
                     "nvidia.com/vgpu", text);
}

json_t *core_pool(const struct model_node *node)
{
    return json_pack("{s:s}", "sim/pool", rules_even(node) ? "even" : "odd");
}

json_t *core_labels(const struct model_node *node)
{
    char count[16];

    (void)snprintf(count, sizeof count, "%u", core_milli(node) / 1000);
    json_t *labels = core_pool(node);
    json_object_set_new(labels, "nvidia.com/gpu.count", json_string(count));
    json_object_set_new(labels, "nvidia.com/gpu.memory", json_string("81920"));
    json_object_set_new(labels, "nvidia.com/gpu.product", json_string("A100-SXM4-80GB"));
    return labels;
}

/* The Node as its source shows it; whole: for creation. */
static json_t *node_object(const struct sim *sim, const struct model_node *node)
{
    json_t *meta = json_pack("{s:s}", "name", node->name);
    json_t *status = json_object();
    json_t *notes = json_object();

    if (node->is.cordoned)
        json_object_set_new(notes, "milligpu.io/cordon", json_string("all"));
    if (node->source == MODEL_ANNOTATED && !node->by_agent)
        json_object_set_new(notes, "milligpu.io/gpus", core_gpus(node));
    json_t *labels = node->source == MODEL_LABELLED ? core_labels(node) : core_pool(node);
    json_object_set_new(meta, "labels", vouch_labels(sim, node, labels));
    if (node->source != MODEL_LABELLED && !node->by_agent) {
        json_decref(status);
        status = core_amounts(node);
    }
    json_object_set_new(meta, "annotations", notes);
    return json_pack("{s:s,s:s,s:o,s:o}", "apiVersion", "v1", "kind", "Node", "metadata", meta,
                     "status", vouch_status(sim, node, status));
}

static void create_node(struct sim *sim, struct model_node *node, bool oddly)
{
    node->is.there = true;
    if (node->by_agent)
        agent_node_comes(sim, node);
    if (!(oddly && odd_create(sim, node, &sim->draw)) &&
        core_request_json(sim, "POST", "/api/v1/nodes", node_object(sim, node)) != 201)
        sim_violation(sim, "the fake API server does not take a node");
    model_node_is(sim, node, core_version(sim));
    sim_say(sim, "node %s comes%s", node->name, node->odd ? ", and its GPUs cannot be read" : "");
}

/* One request that reports one change. */
void core_patch_node(struct sim *sim, struct model_node *node, const char *what)
{
    json_t *patch;

    if (node->source == MODEL_ANNOTATED) {
        patch = json_pack("{s:{s:{s:o}}}", "metadata", "annotations", "milligpu.io/gpus",
                          core_gpus(node));
    } else if (node->source == MODEL_LABELLED) {
        patch = json_pack("{s:{s:o}}", "metadata", "labels", core_labels(node));
    } else {
        patch = json_pack("{s:o}", "status", core_amounts(node));
    }
    core_change_node(sim, node, node->source == MODEL_COUNTED ? "/status" : "", patch);
    model_node_is(sim, node, core_version(sim));
    sim_met("node/%s", what);
    sim_say(sim, "node %s: %s", node->name, what);
}

static void cordon(struct sim *sim, struct model_node *node, bool on)
{
    json_t *value = on ? json_string("all") : json_null();

    node->is.cordoned = on;
    core_change_node(
        sim, node, "",
        json_pack("{s:{s:{s:o}}}", "metadata", "annotations", "milligpu.io/cordon", value));
    model_node_is(sim, node, core_version(sim));
    sim_met(on ? "node/cordon" : "node/uncordon");
    sim_say(sim, "node %s is %s", node->name, on ? "cordoned" : "not cordoned");
}

static void delete_node(struct sim *sim, struct model_node *node)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s", node->name);
    if (request(sim, "DELETE", path, "") >= 300)
        sim_violation(sim, "the fake API server does not delete a node");
    odd_forget(node);
    node->is.there = node->is.cordoned = false;
    taints_forget(node);
    copies_node_gone(sim, node);
    model_node_is(sim, node, core_version(sim));
    if (node->by_agent)
        agent_node_goes(sim, node);
    sim_met("node/deleted");
    sim_say(sim, "node %s is deleted", node->name);
}

void core_remake_node(struct sim *sim, struct model_node *node)
{
    delete_node(sim, node);
    create_node(sim, node, false);
}

/* The first ones are present, the others are not: all that a count can express. */
static void keep_first(struct model_node *node, uint32_t count)
{
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        node->is.gpu[i].missing = i >= count;
}

static void rotate_indexes(struct model_node *node)
{
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        node->is.gpu[i].index = (node->is.gpu[i].index + 1) % node->is.n_gpus;
}

/* From counts to UUIDs: the made-up id becomes an alias. */
static void name_gpus(struct sim *sim, struct model_node *node)
{
    const uint32_t n = (uint32_t)(node - sim->model.node);

    node->source = MODEL_ANNOTATED;
    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        struct model_gpu *gpu = &node->is.gpu[i];
        (void)snprintf(gpu->alias, sizeof gpu->alias, "n%u/gpu-%u", n, i);
        (void)snprintf(gpu->id, sizeof gpu->id, "GPU-n%u-late-%u", n, i);
        gpu->mib = MIB;
    }
    topology_draw(sim, node, &sim->draw);
    core_patch_node(sim, node, "gets_uuids");
}

static bool has_aliases(const struct model_node *node)
{
    return node->is.gpu[0].alias[0] != '\0';
}

static void change_annotated(struct sim *sim, struct model_node *node, struct draw *draw)
{
    struct model_gpu *gpu = &node->is.gpu[draw_below(draw, node->is.n_gpus)];

    switch (draw_below(draw, 6)) {
    case 0:
        gpu->ill = !gpu->ill;
        core_patch_node(sim, node, gpu->ill ? "ill" : "well");
        break;
    case 1:
        gpu->missing = !gpu->missing;
        core_patch_node(sim, node, gpu->missing ? "loses_a_gpu" : "gpu_returns");
        break;
    case 2:
        gpu->milli = gpu->milli == 1000 ? 500 : 1000;
        gpu->mib = gpu->milli == 1000 ? MIB : MIB / 2;
        core_patch_node(sim, node, gpu->milli == 1000 ? "grows" : "shrinks");
        break;
    case 3:
        if (!has_aliases(node)) { /* an alias belongs to an index */
            rotate_indexes(node);
            core_patch_node(sim, node, "other_indexes");
        }
        break;
    case 4:
        keep_first(node, 0);
        core_patch_node(sim, node, "all_missing");
        break;
    default:
        keep_first(node, node->is.n_gpus);
        core_patch_node(sim, node, "all_there");
    }
}

static void change_counted(struct sim *sim, struct model_node *node, struct draw *draw)
{
    switch (draw_below(draw, 4)) {
    case 0:
        keep_first(node, 0);
        core_patch_node(sim, node, "plugin_restarts");
        break;
    case 1:
        keep_first(node, 1 + draw_below(draw, node->is.n_gpus));
        core_patch_node(sim, node, "other_count");
        break;
    case 2:
        if (node->source == MODEL_COUNTED && draw_chance(draw, 300)) {
            keep_first(node, node->is.n_gpus);
            name_gpus(sim, node);
        }
        break;
    default:
        keep_first(node, node->is.n_gpus);
        core_patch_node(sim, node, "plugin_back");
    }
}

static void change_node(struct sim *sim, struct draw *draw)
{
    struct model_node *node = &sim->model.node[draw_below(draw, sim->model.n_nodes)];
    const uint32_t what = draw_below(draw, 10);

    if (!node->is.there)
        create_node(sim, node, draw_below(draw, 1000) < 10 * sim->rules.odd_per_mille);
    else if (what == 0)
        delete_node(sim, node);
    else if (what <= 2)
        cordon(sim, node, !node->is.cordoned);
    else if (node->odd)
        odd_mend(sim, node);
    else if (node->by_agent)
        return; /* agents_trouble() */
    else if (copies_step(sim, node, draw) || topology_step(sim, node, draw))
        return;
    else if (node->source == MODEL_ANNOTATED)
        change_annotated(sim, node, draw);
    else
        change_counted(sim, node, draw);
}

static void begin_node(struct sim *sim, uint32_t n)
{
    struct model_node *node = &sim->model.node[n];
    const uint32_t kind = draw_below(&sim->draw, 10);

    (void)snprintf(node->name, sizeof node->name, "n%u", n);
    const bool told =
        sim->rules.copies || (sim->rules.agents && draw_chance(&sim->agents_draw, 600));
    node->source = kind < 5 || told ? MODEL_ANNOTATED : kind < 8 ? MODEL_COUNTED : MODEL_LABELLED;
    node->is.n_gpus = topology_gpus(sim, 1 + draw_below(&sim->draw, GPUS), &sim->draw);
    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        struct model_gpu *gpu = &node->is.gpu[i];
        *gpu = (struct model_gpu){.index = i, .milli = 1000, .mib = MIB, .model = "A100-SXM4-80GB"};
        if (node->source == MODEL_ANNOTATED) {
            (void)snprintf(gpu->id, sizeof gpu->id, "GPU-n%u-%u", n, i);
            if (draw_chance(&sim->draw, 250))
                gpu->model = "H100-PCIE-80GB";
            if (sim->rules.raises && draw_chance(&sim->draw, 300))
                gpu->mib = MIB / 2;
        } else {
            (void)snprintf(gpu->id, sizeof gpu->id, "n%u/gpu-%u", n, i);
        }
        if (node->source == MODEL_COUNTED) {
            gpu->mib = 0;
            gpu->model = "";
        }
    }
    topology_draw(sim, node, &sim->draw);
    if (sim->rules.agents && node->source == MODEL_ANNOTATED && draw_chance(&sim->agents_draw, 800))
        agent_begin(sim, node);
    vouch_begin(sim, node);
    create_node(sim, node, false);
}

/* --- pods --- */

static json_t *container_object(const struct model_want *want)
{
    char milli[16];

    (void)snprintf(milli, sizeof milli, "%u", want->milli);
    json_t *container = json_pack("{s:s,s:s,s:{s:{s:s},s:{s:s}}}", "name", want->container, "image",
                                  "none", "resources", "limits", "nvidia.com/vgpu", milli,
                                  "requests", "nvidia.com/vgpu", milli);
    if (want->kind == WANT_SIDECAR)
        json_object_set_new(container, "restartPolicy", json_string("Always"));
    return container;
}

/* The first app container requests them, or one that requests nothing else. */
static void ask_whole(const struct shape *shape, json_t *apps)
{
    static const char *const kinds[] = {"limits", "requests"};
    char count[16];

    if (shape->apart)
        json_array_append_new(apps, json_pack("{s:s,s:s}", "name", "whole", "image", "none"));
    json_t *container = json_array_get(apps, shape->apart ? json_array_size(apps) - 1 : 0);
    if (json_object_get(container, "resources") == NULL)
        json_object_set_new(container, "resources", json_pack("{s:{},s:{}}", kinds[0], kinds[1]));
    (void)snprintf(count, sizeof count, "%u", shape->whole);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        json_object_set_new(json_object_get(json_object_get(container, "resources"), kinds[i]),
                            "nvidia.com/gpu", json_string(count));
}

static json_t *spec_object(const struct shape *shape, const char *node)
{
    json_t *apps = json_array();
    json_t *inits = json_array();

    for (uint32_t i = 0; i < shape->n_wants; i++)
        json_array_append_new(shape->want[i].kind == WANT_APP ? apps : inits,
                              container_object(&shape->want[i]));
    if (json_array_size(apps) == 0)
        json_array_append_new(apps, json_pack("{s:s,s:s}", "name", "plain", "image", "none"));
    if (shape->whole > 0)
        ask_whole(shape, apps);
    json_t *spec = json_pack("{s:o}", "containers", apps);
    if (json_array_size(inits) > 0)
        json_object_set(spec, "initContainers", inits);
    json_decref(inits);
    if (node[0] != '\0')
        json_object_set_new(spec, "nodeName", json_string(node));
    return spec;
}

static json_t *notes_object(const struct shape *shape)
{
    json_t *notes = json_object();
    char count[16];

    if (shape->model != NULL)
        json_object_set_new(notes, "milligpu.io/gpu-model", json_string(shape->model));
    if (shape->memory != NULL)
        json_object_set_new(notes, "milligpu.io/gpu-memory", json_string(shape->memory));
    if (shape->topology != NULL)
        json_object_set_new(notes, "milligpu.io/topology", json_string(shape->topology));
    for (uint32_t i = 0; i < shape->n_wants; i++)
        if (shape->want[i].count > 0) {
            (void)snprintf(count, sizeof count, "%u", shape->want[i].count);
            json_object_set_new(notes, "milligpu.io/gpu-count", json_string(count));
        }
    return notes;
}

static bool free_name(struct sim *sim, uint32_t *out)
{
    for (uint32_t i = 0; i < MODEL_NAMES; i++) {
        const uint32_t name = (i + sim->model.n_pods) % MODEL_NAMES;
        const uint32_t current = sim->model.current[name];
        if (current == 0 || !sim->model.pod[current - 1].there) {
            *out = name;
            return true;
        }
    }
    return false;
}

/* A pod that is about to be created; NULL: there are enough of them. */
static struct model_pod *begin_pod(struct sim *sim, struct draw *draw, const struct shape *shape)
{
    struct model *model = &sim->model;
    uint32_t name;

    if (model->n_pods == MODEL_PODS || !free_name(sim, &name))
        return NULL;
    struct model_pod *pod = &model->pod[model->n_pods++];
    *pod = (struct model_pod){.shape = shape, .name = name, .created_ms = sim->now_ms};
    pod->asked_version = sim->daemon.applied_nodes;
    pod->accepts = sim->rules.picky && draw_chance(draw, 500)
                       ? 1U << draw_below(draw, sim->model.n_nodes)
                       : MODEL_ANY;
    taints_of_pod(sim, pod, draw);
    pod->schedulers = sim->rules.both ? (1U << sim->rules.schedulers) - 1
                                      : 1U << draw_below(draw, sim->rules.schedulers);
    return pod;
}

/* note: foreign text in our annotation, "" for none. */
static void create_pod(struct sim *sim, struct draw *draw, const struct shape *shape,
                       const char *node, const char *note)
{
    struct model_pod *pod = begin_pod(sim, draw, shape);
    char text[16];

    if (pod == NULL)
        return;
    pod->strange = note[0] != '\0';
    json_t *notes = notes_object(shape);
    if (note[0] != '\0')
        json_object_set_new(notes, "milligpu.io/allocation", json_string(note));
    (void)snprintf(text, sizeof text, "p%u", pod->name);
    json_t *spec = spec_object(shape, node);
    taints_tell_pod(pod, spec);
    const int status = core_request_json(
        sim, "POST", pods_path,
        json_pack("{s:s,s:s,s:{s:s,s:s,s:o},s:o}", "apiVersion", "v1", "kind", "Pod", "metadata",
                  "name", text, "namespace", "default", "annotations", notes, "spec", spec));
    if (status != 201)
        sim_violation(sim, "the fake API server does not take pod %s: %d", text, status);
    sim_say(sim, "p%u (%s) comes%s%s", pod->name, shape->word, node[0] != '\0' ? ", bound to " : "",
            node);
}

static void pod_path(const struct model_pod *pod, const char *rest, char path[160])
{
    (void)snprintf(path, 160, "%s/p%u%s", pods_path, pod->name, rest);
}

static void delete_pod(struct sim *sim, const struct model_pod *pod, bool at_once)
{
    char path[160];

    pod_path(pod, at_once ? "?gracePeriodSeconds=0" : "?gracePeriodSeconds=30", path);
    (void)request(sim, "DELETE", path, "");
    sim_say(sim, "p%u is deleted%s", pod->name, at_once ? " at once" : "");
}

static void end_pod(struct sim *sim, const struct model_pod *pod, bool well)
{
    char path[160];

    pod_path(pod, "/status", path);
    if (request(sim, "PATCH", path,
                well ? "{\"status\":{\"phase\":\"Succeeded\"}}"
                     : "{\"status\":{\"phase\":\"Failed\"}}") != 200)
        sim_violation(sim, "the fake API server does not end p%u", pod->name);
    sim_say(sim, "p%u ends", pod->name);
}

static struct model_pod *some_pod(struct sim *sim, struct draw *draw)
{
    if (sim->model.n_pods == 0)
        return NULL;
    struct model_pod *pod = &sim->model.pod[draw_below(draw, sim->model.n_pods)];
    return pod->there ? pod : NULL;
}

void core_evict(struct sim *sim, struct model_pod *pod)
{
    delete_pod(sim, pod, false);
    pod->kubelet_ms = sim->now_ms + draw_between(&sim->draw, 10, 30000);
}

void core_vanish(struct sim *sim, uint32_t pods)
{
    const uint32_t from = draw_below(&sim->agents_draw, sim->model.n_pods);

    for (uint32_t k = 0; k < sim->model.n_pods && pods > 0; k++) {
        const struct model_pod *pod = &sim->model.pod[(from + k) % sim->model.n_pods];
        if (!model_alive(pod) || !pod->ours)
            continue;
        delete_pod(sim, pod, true);
        pods--;
    }
}

bool core_makes_room(struct sim *sim, const struct model_pod *pod)
{
    const uint32_t from = draw_below(&sim->draw, sim->model.n_pods);
    uint32_t ended = 0;

    if (!pod->shape->grantable || oracle_fits_somewhere(sim, pod))
        return false;
    if (topology_makes_room(sim, pod) || taints_make_room(sim, pod)) {
        sim_met("pod/makes_room");
        return true;
    }
    for (uint32_t k = 0; k < sim->model.n_pods && ended < MAKE_ROOM; k++) {
        struct model_pod *other = &sim->model.pod[(from + k) % sim->model.n_pods];
        if (!model_alive(other) || !other->ours || other->n_shares == 0)
            continue;
        end_pod(sim, other, true);
        other->kubelet_ms = sim->now_ms + draw_between(&sim->draw, 10, 20000);
        ended++;
        if (oracle_fits_somewhere(sim, pod)) {
            sim_met("pod/makes_room");
            return true;
        }
    }
    return false;
}

void core_fails(struct sim *sim, struct model_pod *pod)
{
    end_pod(sim, pod, false);
    pod->kubelet_ms = sim->now_ms + draw_between(&sim->agents_draw, 10, 20000);
}

static void kubelet(struct sim *sim, struct model_pod *pod)
{
    struct draw *draw = &sim->draw;
    const uint32_t what = draw_below(draw, 10);

    pod->kubelet_ms = 0;
    if (pod->ended || what == 0) {
        delete_pod(sim, pod, true);
        sim_met(pod->ended ? "pod/cleared" : "pod/vanished");
    } else if (pod->terminating || what < 7) {
        end_pod(sim, pod, what < 5);
        pod->kubelet_ms = sim->now_ms + draw_between(draw, 10, 20000);
        sim_met("pod/ended");
    } else {
        core_evict(sim, pod);
        sim_met("pod/terminating");
    }
}

void core_kubelets(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        struct model_pod *pod = &sim->model.pod[i];
        if (pod->there && pod->kubelet_ms != 0 && sim->now_ms >= pod->kubelet_ms)
            kubelet(sim, pod);
        if (!pod->hesitates)
            continue;
        pod->hesitates = false;
        if (model_alive(pod) && pod->node[0] == '\0' && !topology_ask(sim, pod, &sim->draw))
            (void)raise_ask(sim, pod, &sim->draw);
    }
}

int64_t core_next(const struct sim *sim)
{
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (pod->there && pod->kubelet_ms != 0 && pod->kubelet_ms < next)
            next = pod->kubelet_ms;
    }
    return next;
}

/* --- a hostile tenant --- */

static const char *forged(struct sim *sim, struct draw *draw, const struct shape *shape,
                          char out[256])
{
    const struct model_node *node = &sim->model.node[draw_below(draw, sim->model.n_nodes)];
    const char *gpu = node->is.gpu[draw_below(draw, node->is.n_gpus)].id;
    const char *container = shape->n_wants > 0 ? shape->want[0].container : "c";
    const uint32_t milli = shape->n_wants > 0 ? shape->want[0].milli : 100;

    switch (draw_below(draw, 6)) {
    case 0: /* what it would be if it were ours */
        (void)snprintf(out, 256,
                       "{\"v\":1,\"containers\":{\"%s\":[{\"gpu\":\"%s\",\"index\":0,\"milli\":%u,"
                       "\"mib\":0}]}}",
                       container, gpu, milli);
        break;
    case 1: /* less than is requested */
        (void)snprintf(out, 256,
                       "{\"v\":1,\"containers\":{\"%s\":[{\"gpu\":\"%s\",\"index\":0,\"milli\":1,"
                       "\"mib\":0}]}}",
                       container, gpu);
        break;
    case 2:
        (void)snprintf(out, 256, "{\"v\":1,\"containers\":{}}");
        break;
    case 3:
        (void)snprintf(out, 256, "{\"v\":2,\"containers\":[[[[");
        break;
    case 4: /* a GPU that nobody has */
        (void)snprintf(out, 256,
                       "{\"v\":1,\"containers\":{\"%s\":[{\"gpu\":\"GPU-none\",\"index\":7,"
                       "\"milli\":%u,\"mib\":99999999}]}}",
                       container, milli);
        break;
    default:
        (void)snprintf(out, 256, "%s", draw_chance(draw, 500) ? "null" : "\\");
    }
    return out;
}

/* Nothing of ours, but it gives the pod another version. */
static void write_something(struct sim *sim, struct draw *draw, const struct model_pod *pod)
{
    char path[160];
    char number[16];

    if (pod == NULL)
        return;
    pod_path(pod, "", path);
    (void)snprintf(number, sizeof number, "%u", draw_below(draw, 1000000));
    (void)core_request_json(
        sim, "PATCH", path,
        json_pack("{s:{s:{s:s}}}", "metadata", "annotations", "example.com/touched", number));
    sim_met("tenant/touches");
}

static bool is_shape(const struct model_pod *pod, const char *word)
{
    return strcmp(pod->shape->word, word) == 0;
}

/* The youngest that waits and requests one GPU or two halves; NULL: none. */
static struct model_pod *who_may_ask_otherwise(struct sim *sim)
{
    for (uint32_t i = sim->model.n_pods; i > 0; i--) {
        struct model_pod *pod = &sim->model.pod[i - 1];
        if (model_alive(pod) && pod->node[0] == '\0' &&
            (is_shape(pod, "1000") || is_shape(pod, "1000over2")))
            return pod;
    }
    return NULL;
}

/* One GPU, or two halves: it gets what it requests in the version that is bound. */
static void ask_otherwise(struct sim *sim)
{
    struct model_pod *pod = who_may_ask_otherwise(sim);
    char path[160];

    if (pod == NULL)
        return;
    const bool one = is_shape(pod, "1000");
    pod->edited = true;
    for (uint32_t i = 0; i < model_shapes; i++)
        if (strcmp(model_shape[i].word, one ? "1000over2" : "1000") == 0)
            pod->shape = &model_shape[i];
    pod_path(pod, "", path);
    pod->edited_version = UINT64_MAX;
    (void)core_request_json(
        sim, "PATCH", path,
        one ? json_pack("{s:{s:{s:s}}}", "metadata", "annotations", "milligpu.io/gpu-count", "2")
            : json_pack("{s:{s:{s:n}}}", "metadata", "annotations", "milligpu.io/gpu-count"));
    pod->edited_version = pod->version;
    sim_met("tenant/asks_otherwise");
}

/* How its GPUs lie: the youngest that waits and may demand that. */
static bool demand_otherwise(struct sim *sim, struct draw *draw)
{
    if (!sim->rules.linked)
        return false;
    for (uint32_t i = sim->model.n_pods; i > 0; i--) {
        struct model_pod *pod = &sim->model.pod[i - 1];
        if (model_alive(pod) && pod->node[0] == '\0' && topology_ask(sim, pod, draw))
            return true;
    }
    return false;
}

/* --- what the API server accepts and a careless reader does not --- */

/* Bound by hand, and as odd as possible: it counts like a plain one. */
static void hostile_stranger(struct sim *sim, struct draw *draw, const char *node)
{
    const struct shape *shape = draw_chance(draw, 300)
                                    ? &model_squatter[draw_below(draw, model_squatters)]
                                    : &model_shape[draw_below(draw, 7)]; /* one amount */
    struct model_pod *pod = begin_pod(sim, draw, shape);
    char name[16];
    char milli[16];
    const char *const amount[] = {milli};
    struct strbuf body;

    if (pod == NULL)
        return;
    must(shape->n_wants <= 1 && shape->model == NULL && shape->memory == NULL);
    pod->strange = true;
    (void)snprintf(name, sizeof name, "p%u", pod->name);
    (void)snprintf(milli, sizeof milli, "%u", shape->want[0].milli);
    const struct hostile_pod is = {.namespace = "default",
                                   .name = name,
                                   .node = node,
                                   .resource = "nvidia.com/vgpu",
                                   .whole_resource = "nvidia.com/gpu",
                                   .amount = amount,
                                   .asking = shape->n_wants,
                                   .whole = shape->whole};
    strbuf_init(&body);
    hostile_pod(&body, &is, &(struct hostile_draw){.user = draw, .below = draw_any});
    if (request(sim, "POST", pods_path, body.data) != 201)
        sim_violation(sim, "the fake API server does not take a hostile pod");
    strbuf_done(&body);
    sim_met("tenant/hostile_pod");
    sim_say(sim, "p%u (%s) comes as odd as it can be, bound to %s", pod->name, shape->word, node);
}

/* The pod is bound: it keeps what it holds. */
static void hostile_edit(struct sim *sim, struct draw *draw, struct model_pod *pod)
{
    char path[160];
    struct strbuf body;

    if (pod == NULL || pod->node[0] == '\0')
        return;
    pod_path(pod, "", path);
    pod->strange = true;
    strbuf_init(&body);
    hostile_pod_patch(&body, &(struct hostile_draw){.user = draw, .below = draw_any});
    if (request(sim, "PATCH", path, body.data) != 200)
        sim_violation(sim, "the fake API server does not take a hostile edit of p%u", pod->name);
    strbuf_done(&body);
    sim_met("tenant/hostile_edit");
    sim_say(sim, "p%u says something odd", pod->name);
}

/* The oldest pod whose GPUs a tenant made up; NULL: none lives. */
static struct model_pod *who_made_up(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        struct model_pod *pod = &sim->model.pod[i];
        if (model_alive(pod) && pod->makes_up)
            return pod;
    }
    return NULL;
}

/*
 * Each of its 64 parts lies on a GPU that nobody has and nobody named before. Usually the one
 * before ends when the next comes, so that ever new names are made up at a constant load.
 */
static void make_up(struct sim *sim, struct draw *draw, const char *node)
{
    const struct shape *shape = &model_squatter[2];
    const struct model_want *want = &shape->want[0];
    const struct model_pod *before = who_made_up(sim);
    struct strbuf note;

    must(strcmp(shape->word, "6400over64") == 0);
    if (before != NULL && draw_chance(draw, 800))
        delete_pod(sim, before, false);
    strbuf_init(&note);
    strbuf_printf(&note, "{\"v\":1,\"containers\":{\"%s\":[", want->container);
    for (uint32_t i = 0; i < want->count; i++)
        strbuf_printf(&note, "%s{\"gpu\":\"GPU-p%u-%u\",\"index\":%u,\"milli\":%u,\"mib\":0}",
                      i > 0 ? "," : "", sim->model.n_pods, i, i, want->milli / want->count);
    strbuf_str(&note, "]}}");
    const uint32_t pods = sim->model.n_pods;
    create_pod(sim, draw, shape, node, note.data);
    strbuf_done(&note);
    if (sim->model.n_pods > pods)
        sim->model.pod[pods].makes_up = true;
    sim_met("tenant/makes_up");
}

/* They name their node themselves, without a scheduler: more than it has, or as much as allowed. */
static void squat(struct sim *sim, struct draw *draw, const char *node)
{
    const uint32_t pods = draw_chance(draw, 300) ? 2 + draw_below(draw, 3) : 1;

    for (uint32_t i = 0; i < pods; i++)
        create_pod(sim, draw,
                   draw_chance(draw, 700) ? &model_squatter[draw_below(draw, model_squatters)]
                                          : topology_shape(sim, draw),
                   node, "");
    sim_met("tenant/squats");
}

static void tenant(struct sim *sim, struct draw *draw)
{
    char note[256];
    char path[160];
    const struct shape *shape = topology_shape(sim, draw);
    const struct model_node *node = &sim->model.node[draw_below(draw, sim->model.n_nodes)];
    struct model_pod *pod = some_pod(sim, draw);

    switch (draw_below(draw, 10)) {
    case 0:
        create_pod(sim, draw, shape, "", forged(sim, draw, shape, note));
        sim_met("tenant/forged_before");
        break;
    case 1:
        create_pod(sim, draw, shape, node->name, forged(sim, draw, shape, note));
        sim_met("tenant/bound_forged");
        break;
    case 2:
        create_pod(sim, draw, shape, node->name, "");
        sim_met("tenant/bound_by_hand");
        break;
    case 3:
        write_something(sim, draw, pod);
        break;
    case 4:
        if (!demand_otherwise(sim, draw))
            ask_otherwise(sim);
        break;
    case 5:
        hostile_stranger(sim, draw, node->name);
        break;
    case 6:
        hostile_edit(sim, draw, pod);
        break;
    case 7:
        squat(sim, draw, node->name);
        break;
    case 8:
        make_up(sim, draw, node->name);
        break;
    default:
        if (pod == NULL)
            return;
        pod_path(pod, "", path);
        pod->strange = true;
        (void)core_request_json(sim, "PATCH", path,
                                json_pack("{s:{s:{s:s}}}", "metadata", "annotations",
                                          "milligpu.io/allocation",
                                          forged(sim, draw, pod->shape, note)));
        sim_met("tenant/rewrites");
    }
}

/* --- trouble --- */

static void crash(struct sim *sim, struct draw *draw)
{
    if (!sim->daemon.up)
        return;
    if (sim->rules.loses && draw_chance(draw, 400)) {
        daemon_lose_ledger(sim);
        return;
    }
    switch (draw_below(draw, 5)) {
    case 0:
        daemon_kill(sim);
        break;
    case 1:
        daemon_stop(sim);
        break;
    default:
        disk_cut_before(1 + draw_below(draw, 40));
    }
}

static void break_disk(struct sim *sim, struct draw *draw)
{
    static const struct {
        unsigned kinds;
        int rc;
        const char *word;
    } ways[] = {{DISK_WRITE, SQLITE_FULL, "full"},
                {DISK_SYNC, SQLITE_IOERR, "no_sync"},
                {DISK_CHANGES, SQLITE_IOERR, "broken"},
                {DISK_READ, SQLITE_IOERR, "no_read"}};
    const uint32_t way = draw_below(draw, ARRAY_LEN(ways));
    const bool lasting = draw_chance(draw, 500);

    disk_fail(ways[way].kinds, 1 + draw_below(draw, 12), ways[way].rc, lasting);
    sim->daemon.disk_heals_ms = sim->now_ms + draw_between(draw, 100, 20000);
    sim_met("disk/%s", ways[way].word);
    sim_say(sim, "the disk is %s%s", ways[way].word, lasting ? "" : " once");
}

static void trouble(struct sim *sim, struct draw *draw)
{
    int64_t step_ms;

    switch (draw_below(draw, 7)) {
    case 0:
        sim_api_outage(sim->api, sim->now_ms + draw_between(draw, 100, 40000));
        break;
    case 1:
        sim_api_compact(sim->api);
        break;
    case 2:
        scheduler_restart(sim, &sim->scheduler[draw_below(draw, sim->rules.schedulers)]);
        break;
    case 3:
        sim->wall_ms -= draw_between(draw, 0, 5000);
        sim_met("clock/back");
        break;
    case 4:
        step_ms = draw_between(draw, 0, 60000000); /* up to most of a day */
        sim->wall_ms += step_ms;
        sim->forward_ms += step_ms;
        sim_met("clock/forward");
        break;
    case 5:
        if (sim->clock_heals_ms != 0)
            break;
        sim->clock_ahead_ms = YEAR_MS + draw_between(draw, 0, YEAR_MS);
        sim->wall_ms += sim->clock_ahead_ms;
        sim->years = true;
        sim->clock_heals_ms = sim->now_ms + draw_between(draw, 10, 10000);
        sim_met("clock/years");
        break;
    default:
        sim_api_faults(sim->api, draw_chance(draw, 400)
                                     ? 0
                                     : 2 * draw_below(draw, sim->rules.faults_per_mille));
    }
}

static void users(struct sim *sim, struct draw *draw)
{
    const uint32_t what = draw_below(draw, 10);

    if (what < 8) {
        const uint32_t pods = draw_chance(draw, 100) ? 1 + draw_below(draw, 12) : 1;
        for (uint32_t i = 0; i < pods; i++)
            create_pod(sim, draw, topology_shape(sim, draw), "", "");
        return;
    }
    const struct model_pod *pod = some_pod(sim, draw);
    if (pod != NULL)
        delete_pod(sim, pod, draw_chance(draw, 300));
}

void core_add_idle_pods(struct sim *sim)
{
    struct strbuf out;
    char body[256];

    for (uint32_t i = 0; i < sim->rules.idle_pods; i++) {
        strbuf_init(&out);
        (void)snprintf(body, sizeof body,
                       "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"q%u\"},"
                       "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"none\"}]}}",
                       i);
        if (fake_apiserver_request(sim->fake, "POST", pods_path, text_of(body), &out) != 201)
            sim_violation(sim, "the fake API server does not take the idle pods");
        strbuf_done(&out);
    }
}

void core_begin(struct sim *sim)
{
    sim->model.n_nodes = sim->rules.nodes;
    /* The last by name is the oldest. */
    for (uint32_t i = sim->model.n_nodes; i > 0; i--) {
        begin_node(sim, i - 1);
        sim->wall_ms += NODE_AGE_MS;
    }
    copies_begin(sim);
}

void core_step(struct sim *sim, struct draw *draw)
{
    const uint32_t dice = draw_below(draw, 1000);
    uint32_t sum = sim->rules.crash_per_mille;

    if (dice < sum) {
        crash(sim, draw);
        return;
    }
    sum += sim->rules.disk_per_mille;
    if (dice < sum) {
        break_disk(sim, draw);
        return;
    }
    sum += sim->rules.node_per_mille;
    if (dice < sum) {
        change_node(sim, draw);
        return;
    }
    sum += sim->rules.odd_per_mille;
    if (dice < sum) {
        core_odd_node(sim, draw);
        return;
    }
    sum += sim->rules.tenant_per_mille;
    if (dice < sum) {
        tenant(sim, draw);
        return;
    }
    if (dice < sum + 40)
        trouble(sim, draw);
    else if (sim->rules.ruled && dice < sum + 80)
        rules_change(sim, draw);
    else
        users(sim, draw);
}

void core_calm(struct sim *sim)
{
    disk_fail(0, 0, 0, false);
    disk_cut_before(0);
    sim->daemon.disk_heals_ms = 0;
    sim_api_faults(sim->api, 0);
    sim_api_outage(sim->api, sim->now_ms);
    keys_calm(sim);
}

void core_end_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        if (sim->model.pod[i].there)
            delete_pod(sim, &sim->model.pod[i], true);
}
