#include "sim_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"

#include "sim_run.h"

const struct shape model_shape[] = {
    {"50", 1, {{"c", WANT_APP, 50, 0}}, .grantable = true, .ours = true},
    {"100", 1, {{"c", WANT_APP, 100, 0}}, .grantable = true, .ours = true},
    {"300", 1, {{"c", WANT_APP, 300, 0}}, .grantable = true, .ours = true},
    {"333", 1, {{"c", WANT_APP, 333, 0}}, .grantable = true, .ours = true},
    {"500", 1, {{"c", WANT_APP, 500, 0}}, .grantable = true, .ours = true},
    {"700", 1, {{"c", WANT_APP, 700, 0}}, .grantable = true, .ours = true},
    {"1000", 1, {{"c", WANT_APP, 1000, 0}}, .grantable = true, .ours = true},
    {"2000", 1, {{"c", WANT_APP, 2000, 0}}, .grantable = true, .ours = true},
    {"300+400",
     2,
     {{"a", WANT_APP, 300, 0}, {"b", WANT_APP, 400, 0}},
     .grantable = true,
     .ours = true},
    {"600+600",
     2,
     {{"a", WANT_APP, 600, 0}, {"b", WANT_APP, 600, 0}},
     .grantable = true,
     .ours = true},
    {"init800+300",
     2,
     {{"i", WANT_INIT, 800, 0}, {"c", WANT_APP, 300, 0}},
     .grantable = true,
     .ours = true},
    {"sidecar200+init600+300",
     3,
     {{"s", WANT_SIDECAR, 200, 0}, {"i", WANT_INIT, 600, 0}, {"c", WANT_APP, 300, 0}},
     .grantable = true,
     .ours = true},
    {"init600+sidecar200+300",
     3,
     {{"i", WANT_INIT, 600, 0}, {"s", WANT_SIDECAR, 200, 0}, {"c", WANT_APP, 300, 0}},
     .grantable = true,
     .ours = true},
    {"1000over2", 1, {{"c", WANT_APP, 1000, 2}}, .grantable = true, .ours = true},
    {"model", 1, {{"c", WANT_APP, 400, 0}}, .grantable = true, .ours = true, .model = "A100*"},
    {"memory",
     1,
     {{"c", WANT_APP, 300, 0}},
     .grantable = true,
     .ours = true,
     .memory = "16Gi",
     .memory_mib = 16384},
    {"few", 1, {{"c", WANT_APP, 4000, 0}}, .grantable = true, .ours = true},
    {"h100", 1, {{"c", WANT_APP, 200, 0}}, .grantable = true, .ours = true, .model = "H100*"},
    {"much_memory",
     1,
     {{"c", WANT_APP, 300, 0}},
     .grantable = true,
     .ours = true,
     .memory = "60Gi",
     .memory_mib = 61440},
    {"1500", 1, {{"c", WANT_APP, 1500, 0}}, .ours = true},
    {"uneven", 1, {{"c", WANT_APP, 1000, 3}}, .ours = true},
    {"bad_model", 1, {{"c", WANT_APP, 100, 0}}, .ours = true, .model = ","},
    {"bad_memory", 1, {{"c", WANT_APP, 100, 0}}, .ours = true, .memory = "plenty"},
    {"1", 1, {{"c", WANT_APP, 1, 0}}, .ours = true},
    {"0", 1, {{"c", WANT_APP, 0, 0}}, .ours = true},
    {"plain", 0, {{0}}, .ours = false},
    {"whole", 0, {{0}}, .ours = false, .whole = 1},
    {"300&whole", 1, {{"c", WANT_APP, 300, 0}}, .grantable = true, .ours = true, .whole = 1},
    {"1000over2&whole", 1, {{"c", WANT_APP, 1000, 2}}, .grantable = true, .ours = true, .whole = 1},
    {"500+300&2whole",
     2,
     {{"a", WANT_APP, 500, 0}, {"b", WANT_APP, 300, 0}},
     .grantable = true,
     .ours = true,
     .whole = 2,
     .apart = true},
    {"1500&whole", 1, {{"c", WANT_APP, 1500, 0}}, .ours = true, .whole = 1},
    {"0&whole", 1, {{"c", WANT_APP, 0, 0}}, .ours = true, .whole = 1, .apart = true},
};
const uint32_t model_shapes = ARRAY_LEN(model_shape);

void model_done(struct model *model)
{
    for (uint32_t i = 0; i < model->n_nodes; i++)
        xfree(model->node[i].was);
}

struct model_pod *model_find(struct model *model, const char *uid)
{
    for (uint32_t i = model->n_pods; i > 0; i--)
        if (strcmp(model->pod[i - 1].uid, uid) == 0)
            return &model->pod[i - 1];
    return NULL;
}

struct model_node *model_node(struct model *model, const char *name)
{
    for (uint32_t i = 0; i < model->n_nodes; i++)
        if (strcmp(model->node[i].name, name) == 0)
            return &model->node[i];
    return NULL;
}

/* --- charges --- */

struct life {
    uint32_t apps;
    uint32_t sidecars;
    uint32_t peak; /* of an init container, with the sidecars before it */
};

static void live(struct life *life, const struct model_want *want, uint32_t milli)
{
    switch (want->kind) {
    case WANT_APP:
        life->apps += milli;
        break;
    case WANT_SIDECAR:
        life->sidecars += milli;
        break;
    case WANT_INIT:
        if (life->sidecars + milli > life->peak)
            life->peak = life->sidecars + milli;
        break;
    }
}

static uint32_t most(const struct life *life)
{
    const uint32_t running = life->apps + life->sidecars;

    return running > life->peak ? running : life->peak;
}

uint32_t model_parts(const struct model_want *want)
{
    if (want->milli == 0)
        return 0;
    if (want->count > 0)
        return want->count;
    return want->milli > 1000 ? want->milli / 1000 : 1;
}

uint32_t model_peak_of(const struct shape *shape, const uint32_t amount[MODEL_WANTS])
{
    struct life life = {0};

    for (uint32_t w = 0; w < shape->n_wants; w++)
        live(&life, &shape->want[w], amount[w]);
    return most(&life);
}

uint32_t model_charge(const struct model_pod *pod, const char *gpu)
{
    uint32_t milli[MODEL_WANTS] = {0};

    for (uint32_t i = 0; i < pod->n_shares; i++)
        if (strcmp(pod->share[i].gpu, gpu) == 0)
            milli[pod->share[i].want] += pod->share[i].milli;
    return model_peak_of(pod->shape, milli);
}

uint32_t model_peak(const struct shape *shape)
{
    uint32_t milli[MODEL_WANTS] = {0};

    for (uint32_t w = 0; w < shape->n_wants; w++)
        milli[w] = shape->want[w].milli;
    return model_peak_of(shape, milli);
}

/* --- nodes --- */

void model_node_is(struct sim *sim, struct model_node *node, uint64_t version)
{
    if (node->versions == MODEL_VERSIONS)
        sim_violation(sim, "the simulator's own table of node versions is full");
    if (node->was == NULL)
        node->was = xcalloc(MODEL_VERSIONS, sizeof *node->was);
    sim->changes++;
    node->is.version = version;
    node->is.odd = node->odd;
    node->was[node->versions++] = node->is;
    vouched_node_is(sim, node, version);
}

uint32_t model_first_known(const struct model_node *node, uint64_t version)
{
    uint32_t first = 0;

    while (first + 1 < node->versions && node->was[first + 1].version <= version)
        first++;
    return first;
}

/* --- pods --- */

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

json_t *model_fetch(const struct sim *sim, const char *path)
{
    struct strbuf out;
    json_t *object = NULL;

    strbuf_init(&out);
    if (fake_apiserver_request(sim->fake, "GET", path, TEXT(""), &out) == 200) {
        object = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
        if (object == NULL)
            sim_violation(sim, "%s is no JSON", path);
    }
    strbuf_done(&out);
    return object;
}

static bool phase_is_end(const json_t *pod)
{
    const char *phase = text_at(json_object_get(pod, "status"), "phase");

    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* The text of our Binding; others may have written to the pod before. */
static void read_binding(struct sim *sim, struct model_pod *pod, struct text body)
{
    json_t *binding = json_loadb(body.at, body.len, 0, NULL);
    const json_t *meta = json_object_get(binding, "metadata");

    const json_t *notes = json_object_get(meta, "annotations");

    oracle_grant(sim, pod, text_at(notes, "milligpu.io/allocation"));
    oracle_signed(sim, pod, notes);
    json_decref(binding);
}

static void became_bound(struct sim *sim, struct model_pod *pod, const json_t *object,
                         const struct sim_effect *effect)
{
    (void)snprintf(pod->node, sizeof pod->node, "%s",
                   text_at(json_object_get(object, "spec"), "nodeName"));
    pod->bound_ms = sim->now_ms;
    pod->bound_forward_ms = sim->forward_ms;
    pod->bound_version = pod->version;
    if (!sim->settling) /* at the end running pods go on running */
        pod->kubelet_ms = sim->now_ms + draw_between(&sim->draw, 50, 60000);
    pod->ours = effect->ours;
    if (pod->ours)
        read_binding(sim, pod, effect->body);
    stay_begins(sim, pod);
    sim_say(sim, "p%u is on %s now%s", pod->name, pod->node, pod->ours ? "" : ", not by us");
}

static void refresh(struct sim *sim, const char *path, uint32_t name,
                    const struct sim_effect *effect)
{
    struct model *model = &sim->model;
    json_t *object = model_fetch(sim, path);
    struct model_pod *pod =
        model->current[name] != 0 ? &model->pod[model->current[name] - 1] : NULL;
    const char *uid = text_at(json_object_get(object, "metadata"), "uid");

    if (pod != NULL && pod->there && (object == NULL || strcmp(pod->uid, uid) != 0))
        pod->there = false;
    if (object != NULL && (pod == NULL || strcmp(pod->uid, uid) != 0)) {
        /* The creator put its shape there and counted it. */
        pod = &model->pod[model->n_pods - 1];
        (void)snprintf(pod->uid, sizeof pod->uid, "%s", uid);
        pod->there = true;
        model->current[name] = model->n_pods;
    }
    if (object != NULL && pod != NULL) {
        pod->version =
            strtoull(text_at(json_object_get(object, "metadata"), "resourceVersion"), NULL, 10);
        pod->ended = pod->ended || phase_is_end(object);
        pod->terminating =
            text_at(json_object_get(object, "metadata"), "deletionTimestamp")[0] != '\0';
        if (pod->node[0] == '\0' && text_at(json_object_get(object, "spec"), "nodeName")[0] != '\0')
            became_bound(sim, pod, object, effect);
    }
    json_decref(object);
}

static void wake_everybody(struct sim *sim)
{
    sim->events++;
    sim->events_ms = sim->now_ms;
    schedulers_hear(sim);
}

/* A patch that changes nothing is no event: the API server writes nothing. */
static bool has_woken(struct sim *sim, const struct sim_effect *effect)
{
    json_t *body = json_loadb(effect->body.at, effect->body.len, 0, NULL);
    json_t *notes = json_object_get(json_object_get(body, "metadata"), "annotations");
    const char *value = json_string_value(json_object_iter_value(json_object_iter(notes)));
    const bool changed = value == NULL || strcmp(value, sim->woken) != 0;

    (void)snprintf(sim->woken, sizeof sim->woken, "%s", value != NULL ? value : "");
    json_decref(body);
    return changed;
}

void model_effect(struct sim *sim, const struct sim_effect *effect)
{
    static const char pods[] = "/api/v1/namespaces/default/pods/";
    static const char precondition[] = "ResourceVersion in precondition";
    char path[128];

    sim->operations++;
    if (effect->ours && effect->status == 409 && effect->answer.len > 0 &&
        memmem(effect->answer.at, effect->answer.len, precondition, sizeof precondition - 1) !=
            NULL)
        sim_met("bind/precondition");
    if (strcmp(effect->method, "GET") == 0 || effect->status >= 300)
        return;
    sim->changes++;
    if ((strstr(effect->path, "csistoragecapacities") != NULL && has_woken(sim, effect)) ||
        strncmp(effect->path, "/api/v1/nodes", 13) == 0)
        wake_everybody(sim);
    if (strncmp(effect->path, pods, strlen(pods) - 1) != 0)
        return;
    uint32_t name;
    if (effect->path[strlen(pods) - 1] == '/') {
        name = (uint32_t)strtoul(effect->path + strlen(pods) + 1, NULL, 10);
    } else {
        name = sim->model.pod[sim->model.n_pods - 1].name; /* it is being created */
    }
    (void)snprintf(path, sizeof path, "%sp%u", pods, name);
    refresh(sim, path, name, effect);
    schedulers_hear(sim);
    const uint32_t current = sim->model.current[name];
    if (current == 0)
        return;
    const struct model_pod *pod = &sim->model.pod[current - 1];
    if (pod->node[0] != '\0')
        wake_everybody(sim);                          /* a bound pod changed */
    else if (strstr(effect->path, "/status") == NULL) /* that is a scheduler's condition */
        schedulers_pod_written(sim, pod);
}
