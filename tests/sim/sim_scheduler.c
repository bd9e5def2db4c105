/*
 * scheduler - kube-scheduler as far as an extender sees it (modelled on real ones).
 *
 * One serial cycle: take a pod, filter, prioritize, choose, assume; if no node fits, preempt. The
 * bind runs beside it, often after the next pod's filter. A bind that is not answered within
 * httpTimeout has failed; a failed pod is tried again after a growing pause. A refused pod is woken
 * by any event of the cluster, else after 330 s. Its knowledge of the cluster is behind by its lag.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/waiting/waiting_pods.h"

#include "sim_run.h"

enum {
    HTTP_TIMEOUT_MS = 5000,
    WAKE_ALL_MS = 330000,
    BACKOFF_MS = 1000,
    BACKOFF_MAX_MS = 10000,
    IDLE_MS = 20000,
    WAKE_MS = 5,
    NAMES = MODEL_NODES + 2,
};

struct answer {
    uint32_t asked; /* so many nodes */
    bool left;      /* a node that would have done was not on the list */
    uint32_t n_names;
    char name[NAMES][MODEL_NAME];
};

/* --- what it knows --- */

static bool sees(const struct sim *sim, const struct scheduler *scheduler, int64_t since_ms)
{
    return sim->now_ms >= since_ms + scheduler->lag_ms;
}

static bool believes_bound(const struct sim *sim, const struct scheduler *scheduler,
                           const struct model_pod *pod)
{
    return !model_alive(pod) || pod->terminating ||
           (pod->node[0] != '\0' && sees(sim, scheduler, pod->bound_ms));
}

static void back_off(struct sim *sim, struct view_of_pod *view)
{
    int64_t wait = BACKOFF_MS << (view->tries < 4 ? view->tries : 4);

    if (wait > BACKOFF_MAX_MS)
        wait = BACKOFF_MAX_MS;
    view->tries++;
    view->state = VIEW_BACKOFF;
    view->due_ms = sim->now_ms + wait + draw_between(&sim->draw, 0, 50);
}

static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261U;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return hash != 0 ? hash : 1;
}

/* A status of its own, which gives the pod another version. */
static void write_status(struct sim *sim, const struct model_pod *pod, json_t *take_status)
{
    char path[96];
    struct strbuf out;
    json_t *patch = json_pack("{s:o}", "status", take_status);
    char *body = json_dumps(patch, JSON_COMPACT);

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/p%u/status", pod->name);
    strbuf_init(&out);
    (void)sim_api_request(sim->api, "PATCH", path, body, &out); /* it may be gone */
    strbuf_done(&out);
    free(body);
    json_decref(patch);
}

/* Why it is not bound: written if it differs from what is there. */
static void write_condition(struct sim *sim, struct model_pod *pod, const char *why)
{
    const uint32_t hash = hash_of(why);

    if (!model_alive(pod) || pod->node[0] != '\0' || pod->condition == hash || sim->frozen ||
        (!sim->settling && draw_chance(&sim->draw, 100)))
        return;
    pod->condition = hash;
    write_status(sim, pod,
                 json_pack("{s:[{s:s,s:s,s:s}]}", "conditions", "type", "PodScheduled", "status",
                           "False", "message", why));
    sim_met("scheduler/condition");
}

/* Before a bind with volumes, or after a preemption. */
static void nominate(struct sim *sim, const struct model_pod *pod, const char *node)
{
    if (!model_alive(pod) || pod->node[0] != '\0')
        return;
    write_status(sim, pod, json_pack("{s:s}", "nominatedNodeName", node));
    sim_met("scheduler/nominates");
}

void scheduler_restart(struct sim *sim, struct scheduler *scheduler)
{
    memset(scheduler->view, 0, sizeof scheduler->view);
    scheduler->cycle_ms = sim->now_ms + draw_between(&sim->draw, 500, 5000);
    for (size_t i = 0; i < SIM_CALLS; i++)
        if (sim->call[i].busy && sim->call[i].scheduler == scheduler->id)
            sim->call[i].deadline_ms = sim->now_ms; /* nobody waits for the answer any more */
    sim_met("scheduler/restart");
}

/* --- calls --- */

static void call_reset(struct sim_call *call, const char *path)
{
    http_call_done(&call->http);
    http_call_init(&call->http, path);
    strbuf_reset(&call->body);
    call->lost = call->sent = call->given = false;
}

static void put_pod(struct sim *sim, struct strbuf *out, const struct model_pod *pod)
{
    char path[96];
    struct strbuf object;

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/p%u", pod->name);
    strbuf_init(&object);
    if (fake_apiserver_request(sim->fake, "GET", path, TEXT(""), &object) == 200)
        strbuf_text(out, (struct text){object.data, object.len});
    else
        strbuf_str(out, "null");
    strbuf_done(&object);
}

static void put_nodes(struct sim *sim, struct strbuf *out, uint32_t count,
                      const char name[NAMES][MODEL_NAME])
{
    struct strbuf object;
    char path[64];

    strbuf_str(out, "\"Nodes\":{\"items\":[");
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, "/api/v1/nodes/%s", name[i]);
        strbuf_init(&object);
        if (fake_apiserver_request(sim->fake, "GET", path, TEXT(""), &object) == 200)
            strbuf_printf(out, "%s%s", i > 0 ? "," : "", object.data);
        else
            strbuf_printf(out, "%s{\"metadata\":{\"name\":\"%s\"}}", i > 0 ? "," : "", name[i]);
        strbuf_done(&object);
    }
    strbuf_str(out, "]},\"NodeNames\":null}");
}

static void put_names(struct strbuf *out, uint32_t count, const char name[NAMES][MODEL_NAME])
{
    strbuf_str(out, "\"Nodes\":null,\"NodeNames\":[");
    for (uint32_t i = 0; i < count; i++)
        strbuf_printf(out, "%s\"%s\"", i > 0 ? "," : "", name[i]);
    strbuf_str(out, "]}");
}

/* kube-scheduler sends what it saw when its cycle began, whatever happened to the pod since. */
static void put_args(struct sim *sim, struct sim_call *call, uint32_t count,
                     const char name[NAMES][MODEL_NAME])
{
    must(call->seen.len > 0);
    strbuf_printf(&call->body, "{\"Pod\":%s,", call->seen.data);
    if (sim->rules.full_nodes)
        put_nodes(sim, &call->body, count, name);
    else
        put_names(&call->body, count, name);
}

/* --- filter and prioritize --- */

static uint32_t offered(struct sim *sim, const struct model_pod *pod, char name[NAMES][MODEL_NAME],
                        uint32_t *out_withheld)
{
    uint32_t count = 0;

    *out_withheld = 0;
    for (uint32_t i = 0; i < sim->model.n_nodes; i++) {
        const struct model_node *node = &sim->model.node[i];
        if (node->is.there && taints_leave(pod, node) &&
            (sim->settling || draw_chance(&sim->draw, 900)))
            (void)snprintf(name[count++], MODEL_NAME, "%s", node->name);
        else if (node->is.there)
            *out_withheld |= 1U << i;
    }
    if (!sim->settling && draw_chance(&sim->draw, 30))
        (void)snprintf(name[count++], MODEL_NAME, "stranger");
    return count;
}

static void take_names(struct sim *sim, json_t *list, struct answer *out, uint32_t count,
                       const char name[NAMES][MODEL_NAME])
{
    size_t i;
    const json_t *item;

    json_array_foreach (list, i, item) {
        const char *text = json_string_value(item);
        bool known = false;
        if (text == NULL)
            text = json_string_value(json_object_get(json_object_get(item, "metadata"), "name"));
        for (uint32_t k = 0; k < count; k++)
            known = known || (text != NULL && strcmp(name[k], text) == 0);
        for (uint32_t k = 0; k < out->n_names; k++)
            known = known && strcmp(out->name[k], text) != 0;
        if (!known)
            sim_violation(sim, "filter passed %s, which was not offered, or twice",
                          text != NULL ? text : "no name");
        (void)snprintf(out->name[out->n_names++], MODEL_NAME, "%s", text);
    }
}

static void met_refusals(struct sim *sim, json_t *map, uint32_t passed)
{
    const char *node;
    const json_t *text;

    if (passed > 0 && json_object_size(map) > 0)
        sim_violation(sim, "filter passed %u nodes and refused others in words", passed);
    json_object_foreach (map, node, text) {
        if (json_string_length(text) == 0)
            sim_violation(sim, "filter refused %s without a word", node);
    }
}

static json_t *ask(struct sim *sim, struct sim_call *call)
{
    json_t *answer;

    if (!daemon_call(sim, call))
        return NULL;
    if (call->lost)
        return NULL; /* it died in the middle */
    if (call->http.status == 0)
        sim_violation(sim, "%s was not answered at once", call->http.path);
    answer = json_loadb(call->http.answer.data, call->http.answer.len, JSON_ALLOW_NUL, NULL);
    if (answer == NULL)
        sim_violation(sim, "%s was answered with something that is no JSON", call->http.path);
    return answer;
}

static uint32_t node_at(const struct sim *sim, const char *name)
{
    uint32_t n = 0;

    while (n < sim->model.n_nodes && strcmp(sim->model.node[n].name, name) != 0)
        n++;
    return n;
}

/* Another extender, asked after us, decides for itself. */
static void second_extender(struct sim *sim, const struct model_pod *pod, struct answer *answer)
{
    uint32_t left = 0;
    uint32_t listed = 0;

    if (pod->accepts == MODEL_ANY || answer->n_names == 0)
        return;
    for (uint32_t i = 0; i < answer->n_names; i++) {
        const uint32_t n = node_at(sim, answer->name[i]);
        listed |= 1U << n;
        if ((pod->accepts & 1U << n) != 0)
            memmove(answer->name[left++], answer->name[i], MODEL_NAME);
    }
    for (uint32_t n = 0; n < sim->model.n_nodes; n++)
        answer->left = answer->left || ((listed & 1U << n) == 0 && oracle_fits(sim, pod, n));
    answer->n_names = left;
    sim_met(left > 0 ? "second/agrees" : answer->left ? "second/wants_more" : "second/refuses");
}

/* False: no daemon, or it answers Error. */
static bool filter(struct sim *sim, struct scheduler *scheduler, const struct model_pod *pod,
                   struct answer *out)
{
    struct sim_call *call = &scheduler->asking;
    char name[NAMES][MODEL_NAME];
    uint32_t *withheld = &scheduler->view[pod - sim->model.pod].withheld;
    const uint32_t count = offered(sim, pod, name, withheld);

    *out = (struct answer){.asked = count};
    if (count == 0) { /* then no extender is asked */
        sim_met("filter/no_node");
        return true;
    }
    call_reset(call, "/scheduler/filter");
    strbuf_reset(&call->seen);
    put_pod(sim, &call->seen, pod);
    put_args(sim, call, count, name);
    const struct snapshot *before = daemon_view(sim);
    json_t *answer = ask(sim, call);
    const struct snapshot *after = daemon_view(sim);
    const bool same = before == after;
    snapshot_unref(before);
    if (answer == NULL) {
        snapshot_unref(after);
        sim_met("filter/nobody");
        return false;
    }
    const char *error = json_string_value(json_object_get(answer, "Error"));
    const bool failed = error != NULL && error[0] != '\0';
    if (failed) {
        sim_met("filter/error/%.*s", (int)strcspn(error, ": "), error);
    } else {
        take_names(sim,
                   sim->rules.full_nodes
                       ? json_object_get(json_object_get(answer, "Nodes"), "items")
                       : json_object_get(answer, "NodeNames"),
                   out, count, name);
        met_refusals(sim, json_object_get(answer, "FailedNodes"), out->n_names);
        met_refusals(sim, json_object_get(answer, "FailedAndUnresolvableNodes"), out->n_names);
        sim_met(out->n_names > 0 ? "filter/fits" : "filter/refused");
        if (out->n_names > 0)
            wakes_offered(sim);
        if (same)
            oracle_filter(sim, pod, after, &(struct sim_offer){count, name}, answer);
        out->left = out->n_names == 0;
        second_extender(sim, pod, out);
    }
    snapshot_unref(after);
    json_decref(answer);
    return !failed;
}

static uint32_t best_of(struct sim *sim, json_t *scores, const struct answer *answer)
{
    uint32_t best = 0;
    json_int_t top = -1;
    size_t i;
    const json_t *item;

    if (json_array_size(scores) != answer->n_names)
        sim_violation(sim, "prioritize scored %zu of %u nodes", json_array_size(scores),
                      answer->n_names);
    json_array_foreach (scores, i, item) {
        const json_int_t score = json_integer_value(json_object_get(item, "Score"));
        const char *host = json_string_value(json_object_get(item, "Host"));
        if (score < 0 || score > 10 || host == NULL)
            sim_violation(sim, "prioritize gave a score of %lld", (long long)score);
        for (uint32_t k = 0; k < answer->n_names; k++)
            if (score > top && strcmp(answer->name[k], host) == 0) {
                top = score;
                best = k;
            }
    }
    return best;
}

static const char *choose(struct sim *sim, struct sim_call *call, const struct answer *fits)
{
    uint32_t best = 0;

    if (fits->n_names > 1) {
        call_reset(call, "/scheduler/prioritize");
        put_args(sim, call, fits->n_names, fits->name);
        json_t *scores = ask(sim, call);
        best = scores != NULL ? best_of(sim, scores, fits) : 0;
        if (draw_chance(&sim->draw, 60)) { /* I5: the same question, the same answer */
            call_reset(call, "/scheduler/prioritize");
            put_args(sim, call, fits->n_names, fits->name);
            json_t *again = ask(sim, call);
            if (!json_equal(scores, again))
                sim_violation(sim, "prioritize answered the same question in two ways");
            json_decref(again);
        }
        json_decref(scores);
    }
    if (!sim->settling && draw_chance(&sim->draw, 150))
        best = draw_below(&sim->draw, fits->n_names); /* other plugins have their say, too */
    return fits->name[best];
}

/* --- preempt --- */

static void propose(struct sim *sim, struct proposal *out)
{
    *out = (struct proposal){.stranger = draw_chance(&sim->draw, 100)};
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const bool offered = draw_chance(&sim->draw, node->is.there ? 800 : 100);
        const uint32_t eager = draw_below(&sim->draw, 1001);
        bool any = false;
        for (uint32_t i = 0; offered && i < sim->model.n_pods; i++) {
            const struct model_pod *pod = &sim->model.pod[i];
            if (!model_alive(pod) || strcmp(pod->node, node->name) != 0 ||
                !draw_chance(&sim->draw, eager))
                continue;
            out->victim[i] = any = true;
        }
        out->node[n] = any || (offered && sim->frozen); /* it never proposes an empty list */
    }
}

static void put_victims(struct sim *sim, struct strbuf *out, const struct model_node *node,
                        const struct proposal *proposal)
{
    uint32_t victims = 0;

    strbuf_printf(out, "\"%s\":{\"Pods\":[", node->name);
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!proposes(proposal, sim, i, node))
            continue;
        strbuf_str(out, victims++ > 0 ? "," : "");
        if (sim->rules.full_nodes)
            put_pod(sim, out, pod);
        else
            strbuf_printf(out, "{\"UID\":\"%s\"}", pod->uid);
    }
    strbuf_printf(out, "],\"NumPDBViolations\":%u}", victims);
}

static void put_proposal(struct sim *sim, struct strbuf *out, const struct model_pod *pod,
                         const struct proposal *proposal)
{
    bool first = true;

    strbuf_str(out, "{\"Pod\":");
    put_pod(sim, out, pod);
    strbuf_str(out, sim->rules.full_nodes
                        ? ",\"NodeNameToMetaVictims\":null,\"NodeNameToVictims\":{"
                        : ",\"NodeNameToVictims\":null,\"NodeNameToMetaVictims\":{");
    if (proposal->stranger) {
        strbuf_str(out, "\"stranger\":{\"Pods\":[],\"NumPDBViolations\":0}");
        first = false;
    }
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        if (!proposal->node[n])
            continue;
        strbuf_str(out, first ? "" : ",");
        put_victims(sim, out, &sim->model.node[n], proposal);
        first = false;
    }
    strbuf_str(out, "}}");
}

static bool ask_preempt(struct sim *sim, const struct model_pod *pod,
                        const struct proposal *proposal, bool kept[MODEL_NODES])
{
    struct sim_call call = {.lost = false};

    http_call_init(&call.http, "/scheduler/preempt");
    strbuf_init(&call.body);
    put_proposal(sim, &call.body, pod, proposal);
    json_t *answer = ask(sim, &call);
    const bool answered = answer != NULL && call.http.status == 200;
    if (answered)
        oracle_preempt(sim, pod, proposal, answer, kept);
    else
        sim_met("preempt/nobody");
    json_decref(answer);
    strbuf_done(&call.body);
    http_call_done(&call.http);
    return answered;
}

/* The victims on one of the nodes that were kept must end, unless nothing may move. */
void scheduler_preempt(struct sim *sim, const struct model_pod *pod)
{
    struct proposal proposal;
    bool kept[MODEL_NODES];

    propose(sim, &proposal);
    if (!ask_preempt(sim, pod, &proposal, kept) || sim->frozen)
        return;
    const uint32_t from = draw_below(&sim->draw, sim->model.n_nodes);
    for (uint32_t k = 0; k < sim->model.n_nodes; k++) {
        const uint32_t n = (from + k) % sim->model.n_nodes;
        if (!kept[n])
            continue;
        for (uint32_t i = 0; i < sim->model.n_pods; i++)
            if (proposes(&proposal, sim, i, &sim->model.node[n]))
                core_evict(sim, &sim->model.pod[i]);
        sim_met("preempt/evicts");
        return;
    }
}

/* --- bind --- */

static bool assume(struct sim *sim, struct scheduler *scheduler, uint32_t pod, const char *node)
{
    for (size_t i = 0; i < SIM_CALLS; i++) {
        struct sim_call *call = &sim->call[i];
        if (call->busy)
            continue;
        call_reset(call, "/scheduler/bind");
        call->busy = true;
        call->scheduler = scheduler->id;
        call->pod = pod;
        (void)snprintf(call->node, sizeof call->node, "%s", node);
        call->start_ms = sim->now_ms + draw_between(&sim->draw, 0, 8);
        call->deadline_ms = call->start_ms + HTTP_TIMEOUT_MS;
        if (draw_chance(&sim->draw, 120))
            nominate(sim, &sim->model.pod[pod], node);
        scheduler->view[pod].state = VIEW_BINDING;
        return true;
    }
    return false;
}

static void send_bind(struct sim *sim, struct sim_call *call)
{
    struct model_pod *pod = &sim->model.pod[call->pod];

    strbuf_printf(&call->body,
                  "{\"PodName\":\"p%u\",\"PodNamespace\":\"default\",\"PodUID\":\"%s\","
                  "\"Node\":\"%s\"}",
                  pod->name, pod->uid, call->node);
    if (!pod->asked || sim->daemon.applied_nodes < pod->asked_version)
        pod->asked_version = sim->daemon.applied_nodes;
    if (!pod->asked || sim->daemon.applied_pods < pod->asked_pods)
        pod->asked_pods = sim->daemon.applied_pods;
    pod->asked = true;
    policy_asked(sim, pod);
    if (!daemon_call(sim, call)) {
        call->sent = true;
        call->lost = true;
        sim_met("bind/nobody");
    }
    if (!sim->settling && draw_chance(&sim->draw, 10))
        call->lost = true; /* the connection ends; the bind does not */
}

static const char *error_of(struct sim *sim, const struct sim_call *call, json_t **out)
{
    *out = json_loadb(call->http.answer.data, call->http.answer.len, JSON_ALLOW_NUL, NULL);
    if (*out == NULL || call->http.status != 200)
        sim_violation(sim, "bind was answered with status %d", call->http.status);
    const char *error = json_string_value(json_object_get(*out, "Error"));
    return error != NULL ? error : "";
}

static void bind_is_over(struct sim *sim, struct sim_call *call)
{
    struct view_of_pod *view = &sim->scheduler[call->scheduler].view[call->pod];

    if (call->http.status != 0) {
        json_t *answer;
        const char *error = error_of(sim, call, &answer);
        oracle_bind_answer(sim, call, error);
        sim_met("bind/%.*s", error[0] != '\0' ? (int)strcspn(error, ":") : 2,
                error[0] != '\0' ? error : "ok");
        sim_say(sim, "bind p%u to %s: %s", sim->model.pod[call->pod].name, call->node,
                error[0] != '\0' ? error : "ok");
        if (error[0] != '\0')
            write_condition(sim, &sim->model.pod[call->pod], error);
        if (view->state == VIEW_BINDING && error[0] == '\0')
            view->state = VIEW_DONE;
        else if (view->state == VIEW_BINDING)
            back_off(sim, view);
        json_decref(answer);
        call->busy = false;
        return;
    }
    /* Timed out or disconnected. The daemon may still answer; nobody reads it. */
    sim_met(call->lost ? "bind/lost" : "bind/timeout");
    write_condition(sim, &sim->model.pod[call->pod], "the extender did not answer");
    if (view->state == VIEW_BINDING)
        back_off(sim, view);
    call->deadline_ms = INT64_MAX;
    call->lost = true;
}

static void step_calls(struct sim *sim, const struct scheduler *scheduler)
{
    for (size_t i = 0; i < SIM_CALLS; i++) {
        struct sim_call *call = &sim->call[i];
        if (!call->busy || call->scheduler != scheduler->id)
            continue;
        if (!call->sent && sim->now_ms >= call->start_ms)
            send_bind(sim, call);
        if (call->deadline_ms == INT64_MAX) { /* nobody reads the answer */
            call->busy = call->given;
        } else if (call->sent &&
                   (call->http.status != 0 || call->lost || sim->now_ms >= call->deadline_ms)) {
            bind_is_over(sim, call);
        }
    }
}

/* --- the serial loop --- */

static bool is_due(const struct sim *sim, const struct scheduler *scheduler, uint32_t i)
{
    const struct view_of_pod *view = &scheduler->view[i];
    const struct model_pod *pod = &sim->model.pod[i];

    if ((pod->schedulers & 1U << scheduler->id) == 0 || pod->uid[0] == '\0')
        return false;
    switch (view->state) {
    case VIEW_UNSEEN:
        return sees(sim, scheduler, pod->created_ms);
    case VIEW_QUEUED:
    case VIEW_BACKOFF:
        return sim->now_ms >= view->due_ms;
    case VIEW_REFUSED:
        return sim->now_ms >= view->due_ms + WAKE_ALL_MS ||
               (sim->events != view->events && sees(sim, scheduler, sim->events_ms));
    case VIEW_BINDING:
    case VIEW_DONE:
        return false;
    }
    return false;
}

/* Where nvidia.com/gpu is not among the managed resources, nobody asks us about such a pod. */
static bool is_whole_of_others(struct sim *sim, const struct model_pod *pod)
{
    return sim->rules.agents && pod->shape->whole > 0 && !pod->shape->ours &&
           draw_chance(&sim->agents_draw, 400);
}

/* A pod that requests nothing we manage: kube-scheduler binds it, mostly without asking us. */
static bool binds_itself(struct sim *sim, const struct model_pod *pod)
{
    char path[96];
    char body[256];
    struct strbuf out;
    const struct model_node *node = &sim->model.node[draw_below(&sim->draw, sim->model.n_nodes)];

    if (!is_whole_of_others(sim, pod) &&
        (pod->shape->ours || pod->shape->whole > 0 || draw_chance(&sim->draw, 100)))
        return false;
    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/p%u/binding", pod->name);
    (void)snprintf(body, sizeof body,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"p%u\"},"
                   "\"target\":{\"kind\":\"Node\",\"name\":\"%s\"}}",
                   pod->name, node->name);
    strbuf_init(&out);
    (void)sim_api_request(sim->api, "POST", path, body,
                          &out); /* somebody else may have been faster */
    strbuf_done(&out);
    return true;
}

/* Why, as the REST API would tell a person. */
static void met_reason(struct sim *sim, const struct model_pod *pod)
{
    struct arena arena;
    struct waiting waiting;

    must(sim->daemon.up);
    arena_init(&arena);
    if (waiting_pods_find(sim->daemon.app.waiting_pods, text_of(pod->uid), &arena, &waiting))
        sim_met("refused/%s", reason_name(waiting.reason));
    arena_done(&arena);
}

static void refused(const struct sim *sim, struct view_of_pod *view, bool by_us)
{
    view->state = VIEW_REFUSED;
    view->ours = by_us;
    view->due_ms = sim->now_ms;
}

static void cycle(struct sim *sim, struct scheduler *scheduler, uint32_t i)
{
    struct sim_call *call = &scheduler->asking;
    struct view_of_pod *view = &scheduler->view[i];
    struct model_pod *pod = &sim->model.pod[i];
    const bool first = view->state == VIEW_UNSEEN;
    struct answer fits;

    if (believes_bound(sim, scheduler, pod)) {
        view->state = VIEW_DONE;
        return;
    }
    if (binds_itself(sim, pod)) {
        view->state = VIEW_DONE;
        return;
    }
    if (!sim->settling && draw_chance(&sim->draw, first ? 150 : 10))
        sim->pressing = core_makes_room(sim, pod);
    view->events = sim->events;
    const uint64_t room = sim->daemon.up ? view_capacity_generation(sim->daemon.app.view) : 0;
    if (!sim->settling && draw_chance(&sim->draw, 30)) { /* no node passes its own plugins */
        refused(sim, view, false);
        write_condition(sim, pod, "no node");
        scheduler_preempt(sim, pod);
    } else if (!filter(sim, scheduler, pod, &fits)) {
        write_condition(sim, pod, "filter said Error");
        back_off(sim, view);
    } else if (fits.n_names == 0) {
        if (fits.asked > 0)
            met_reason(sim, pod);
        refused(sim, view, fits.asked > 0 && fits.left);
        write_condition(sim, pod, "no node has room");
        if (!sim->settling && draw_chance(&sim->draw, 50))
            scheduler_preempt(sim, pod);
        waits_refused(sim, view, pod, room);
    } else if (!assume(sim, scheduler, i, choose(sim, call, &fits))) {
        back_off(sim, view);
    }
    sim->pressing = false;
}

/* When the next of its pods may be due, as far as it knows now. */
static int64_t idle_until(const struct sim *sim, const struct scheduler *scheduler)
{
    int64_t until = sim->now_ms + IDLE_MS;

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct view_of_pod *view = &scheduler->view[i];
        int64_t due = INT64_MAX;
        if (view->state == VIEW_QUEUED || view->state == VIEW_BACKOFF)
            due = view->due_ms;
        else if (view->state == VIEW_REFUSED)
            due = view->due_ms + WAKE_ALL_MS;
        if (due < until)
            until = due;
    }
    return until > sim->now_ms ? until : sim->now_ms + 1;
}

void schedulers_hear(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->rules.schedulers; i++) {
        struct scheduler *scheduler = &sim->scheduler[i];
        const int64_t heard = sim->now_ms + scheduler->lag_ms + WAKE_MS;
        if (heard < scheduler->cycle_ms)
            scheduler->cycle_ms = heard;
    }
}

/*
 * kube-scheduler queues an unschedulable pod again when the pod itself is written, but for its own
 * condition. Its last event counts as not received.
 */
void schedulers_pod_written(struct sim *sim, const struct model_pod *pod)
{
    for (uint32_t i = 0; i < sim->rules.schedulers; i++) {
        struct view_of_pod *view = &sim->scheduler[i].view[pod - sim->model.pod];
        if (view->state == VIEW_REFUSED)
            view->events = sim->events - 1;
    }
}

static void step_alone(struct sim *sim, struct scheduler *scheduler)
{
    step_calls(sim, scheduler);
    if (sim->now_ms < scheduler->cycle_ms || sim_is_still(sim))
        return;
    /* The pod that waits longest; where the search began last time does not matter. */
    const uint32_t from = draw_below(&sim->draw, sim->model.n_pods);
    for (uint32_t k = 0; k < sim->model.n_pods; k++) {
        const uint32_t i = (from + k) % sim->model.n_pods;
        if (!is_due(sim, scheduler, i))
            continue;
        cycle(sim, scheduler, i);
        scheduler->cycle_ms = sim->now_ms + draw_between(&sim->draw, 1, 5);
        return;
    }
    scheduler->cycle_ms = idle_until(sim, scheduler);
}

void scheduler_step(struct sim *sim, struct scheduler *scheduler)
{
    if (scheduler->stepping)
        return;
    scheduler->stepping = true;
    step_alone(sim, scheduler);
    scheduler->stepping = false;
}

int64_t scheduler_next(const struct sim *sim, const struct scheduler *scheduler)
{
    int64_t next = sim_is_still(sim) ? INT64_MAX : scheduler->cycle_ms;

    for (size_t i = 0; i < SIM_CALLS; i++) {
        const struct sim_call *call = &sim->call[i];
        if (!call->busy || call->scheduler != scheduler->id)
            continue;
        const int64_t due = !call->sent                            ? call->start_ms
                            : call->http.status != 0 || call->lost ? sim->now_ms + 1
                                                                   : call->deadline_ms;
        if (due < next && call->deadline_ms != INT64_MAX)
            next = due;
    }
    return next;
}

size_t scheduler_binding(const struct sim *sim)
{
    size_t count = 0;

    for (size_t i = 0; i < SIM_CALLS; i++)
        count += sim->call[i].busy ? 1 : 0;
    return count;
}
