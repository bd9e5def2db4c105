#include "support_rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/log.h"

/* --- a web without sockets: the functions that handlers call --- */

const char *web_method(const struct web_call *call)
{
    (void)call;
    return "POST";
}

const char *web_path(const struct web_call *call)
{
    return call->path;
}

const char *web_header(struct web_call *call, const char *name)
{
    (void)call;
    (void)name;
    return NULL;
}

struct text web_body(const struct web_call *call)
{
    return (struct text){call->body.data, call->body.len};
}

uint64_t web_id(const struct web_call *call)
{
    (void)call;
    return 1;
}

int64_t web_began_ns(const struct web_call *call)
{
    (void)call;
    return clock_ns() - 1000000;
}

void web_set_header(struct web_call *call, const char *name, const char *value)
{
    (void)call;
    (void)name;
    (void)value;
}

void web_answer(struct web_call *call, int status, const char *type, struct strbuf *take_body)
{
    (void)type;
    must(call->status == 0); /* exactly once */
    call->status = status;
    strbuf_text(&call->answer, (struct text){take_body->data, take_body->len});
    strbuf_reset(take_body);
}

/* --- where the world can fail --- */

static int rig_begin(void *ctx, struct err *err)
{
    struct rig *rig = ctx;
    return rig->real_store.begin(rig->real_store.ctx, err);
}

static enum store_outcome rig_write(void *ctx, const struct command *command,
                                    const struct change *change, struct err *err)
{
    struct rig *rig = ctx;

    if (rig->contradict) {
        rig->contradict = false;
        (void)err_set(err, ERR_CORRUPT, "a trigger said no");
        return STORE_REFUSED;
    }
    return rig->real_store.write(rig->real_store.ctx, command, change, err);
}

static int rig_commit(void *ctx, struct err *err)
{
    struct rig *rig = ctx;

    if (rig->disk_full)
        return err_set(err, ERR_FULL, "the disk is full");
    rig->commits++;
    return rig->real_store.commit(rig->real_store.ctx, err);
}

static void rig_rollback(void *ctx)
{
    struct rig *rig = ctx;
    rig->real_store.rollback(rig->real_store.ctx);
}

static int rig_tend(void *ctx, int64_t now_ms, struct err *err)
{
    struct rig *rig = ctx;
    return rig->real_store.tend(rig->real_store.ctx, now_ms, err);
}

static bool is_binding(const struct kube_request *request)
{
    return strcmp(request->method, "POST") == 0 && strstr(request->path, "/binding") != NULL;
}

/* Nothing will be heard of it until its time is up, as a transport promises. */
static int lose(struct rig *rig, const struct kube_request *request)
{
    size_t free = 0;

    while (rig->lost[free].id != 0)
        must(++free < ARRAY_LEN(rig->lost));
    rig->lost[free].id = request->id;
    rig->lost[free].due_ms = rig->now_ms + request->timeout_ms;
    return 0;
}

static int rig_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct rig *rig = ctx;

    if (strstr(request->path, "csistoragecapacities") != NULL)
        rig->rings++;
    if (!is_binding(request))
        return rig->real_calls.start(rig->real_calls.ctx, request, err);
    rig->bindings++;
    if (rig->lose_requests)
        return lose(rig, request);
    if (rig->lose_answers) {
        struct strbuf answer;
        strbuf_init(&answer);
        (void)standin_request(rig->app.standin, request->method, request->path, request->body,
                              &answer);
        strbuf_done(&answer);
        return lose(rig, request);
    }
    return rig->real_calls.start(rig->real_calls.ctx, request, err);
}

static void rig_cancel(void *ctx, uint64_t id)
{
    struct rig *rig = ctx;

    for (size_t i = 0; i < ARRAY_LEN(rig->lost); i++)
        if (rig->lost[i].id == id)
            rig->lost[i].id = 0;
    rig->real_calls.cancel(rig->real_calls.ctx, id);
}

static void rig_poll(void *ctx, int64_t wait_ms, void *user,
                     void (*deliver)(void *user, const struct kube_answer *answer))
{
    struct rig *rig = ctx;
    struct err err;

    (void)err_set(&err, ERR_TIMEOUT, "no answer in time");
    for (size_t i = 0; i < ARRAY_LEN(rig->lost); i++) {
        if (rig->lost[i].id == 0 || rig->now_ms < rig->lost[i].due_ms)
            continue;
        const struct kube_answer answer = {
            .id = rig->lost[i].id, .piece = KUBE_FAILED, .err = &err};
        rig->lost[i].id = 0;
        deliver(user, &answer);
    }
    rig->real_calls.poll(rig->real_calls.ctx, wait_ms, user, deliver);
}

static void rig_wake(void *ctx)
{
    struct rig *rig = ctx;
    rig->real_calls.wake(rig->real_calls.ctx);
}

/* --- the clock --- */

static int64_t rig_now(void *ctx)
{
    return ((struct rig *)ctx)->now_ms;
}

static int64_t rig_wall(void *ctx)
{
    return ((struct rig *)ctx)->wall_ms;
}

/* --- build --- */

static void take_result(void *user, struct message *take_message)
{
    struct rig *rig = user;
    must(queue_put(rig->app.queue, take_message));
}

static void fill_settings(struct settings *settings)
{
    *settings = (struct settings){.resource = "nvidia.com/vgpu",
                                  .whole_resource = "nvidia.com/gpu",
                                  .base_path = "/scheduler",
                                  .shortlist = 16,
                                  .refusal_names = 100,
                                  .min_milli = 1,
                                  .step_milli = 1,
                                  .http_timeout_ms = 5000,
                                  .inventory_from_labels = true,
                                  .events = true,
                                  .wake = "bell",
                                  .namespace = "ns"};
}

struct rig *rig_new(const char *const *nodes)
{
    struct rig *rig = xcalloc(1, sizeof *rig);
    struct app *app = &rig->app;
    struct err err;
    const struct store_rules store = {.path = ":memory:"};

    log_set(LOG_ERROR, false);
    rig->now_ms = 1000000;
    rig->wall_ms = 1700000000000;
    fill_settings(&rig->settings);
    app->settings = &rig->settings;
    app->request_rules =
        (struct request_rules){.resource = "nvidia.com/vgpu", .min_milli = 1, .step_milli = 1};
    app->inventory_rules = (struct inventory_rules){.from_labels = true};
    app->wire_rules =
        (struct wire_rules){.resource = "nvidia.com/vgpu", .whole_resource = "nvidia.com/gpu"};
    app->clock = (struct clock_ops){.ctx = rig, .now_ms = rig_now, .wall_ms = rig_wall};
    must(store_open(&store, &app->store, &err) == 0);
    must(store_claim(app->store, "cluster", &err) == 0);
    store_ops(app->store, &rig->real_store);
    app->store_ops = (struct store_ops){.ctx = rig,
                                        .begin = rig_begin,
                                        .write = rig_write,
                                        .commit = rig_commit,
                                        .rollback = rig_rollback,
                                        .tend = rig_tend};
    app->standin = standin_new("rig");
    standin_set_clock(app->standin, rig_wall, rig);
    standin_ops(app->standin, &rig->watch_ops);
    standin_ops(app->standin, &rig->real_calls);
    rig->call_ops = (struct kube_ops){
        .ctx = rig, .start = rig_start, .cancel = rig_cancel, .poll = rig_poll, .wake = rig_wake};
    app->queue = queue_new(QUEUE_MAX);
    app->view = view_new();
    app->pods = pods_new();
    app->hints = hints_new();
    const struct outbox_rules outbox = {.ops = &rig->call_ops,
                                        .wire = &app->wire_rules,
                                        .wake = "bell",
                                        .namespace = "ns",
                                        .instance = "rig",
                                        .resource = "nvidia.com/vgpu",
                                        .user = rig,
                                        .result = take_result};
    app->outbox = outbox_new(&outbox);
    rig->writer = writer_new(app);
    rig->watcher = watcher_new(app, &rig->watch_ops);
    rig->webhooks = webhooks_new(app);
    must(writer_load(rig->writer, &err) == 0);
    atomic_store(&app->claimed, true);
    for (; nodes != NULL && *nodes != NULL; nodes += 2)
        rig_node(rig, nodes[0], nodes[1]);
    rig_run(rig);
    must(app_ready(app, NULL));
    return rig;
}

void rig_free(struct rig *rig)
{
    struct app *app = &rig->app;

    watcher_free(rig->watcher);
    outbox_free(app->outbox);
    writer_free(rig->writer);
    webhooks_free(rig->webhooks);
    queue_free(app->queue);
    hints_free(app->hints);
    pods_free(app->pods);
    view_free(app->view);
    rig->watch_ops.free(rig->watch_ops.ctx);
    rig->real_calls.free(rig->real_calls.ctx);
    standin_free(app->standin);
    store_close(app->store);
    for (size_t i = 0; i < rig->call_count; i++) {
        strbuf_done(&rig->calls[i]->body);
        strbuf_done(&rig->calls[i]->answer);
        xfree(rig->calls[i]);
    }
    xfree(rig);
}

static void to_watcher(void *user, const struct kube_answer *answer)
{
    struct rig *rig = user;
    watcher_answer(rig->watcher, rig->now_ms, answer);
}

static void to_outbox(void *user, const struct kube_answer *answer)
{
    struct rig *rig = user;
    outbox_answer(rig->app.outbox, rig->now_ms, answer);
}

void rig_run(struct rig *rig)
{
    int quiet = 0;

    for (int i = 0; i < 400 && quiet < 4; i++) {
        (void)watcher_step(rig->watcher, rig->now_ms);
        rig->watch_ops.poll(rig->watch_ops.ctx, 0, rig, to_watcher);
        const size_t took = writer_step(rig->writer, 0);
        (void)outbox_step(rig->app.outbox, rig->now_ms, rig->wall_ms);
        rig->call_ops.poll(rig->call_ops.ctx, 0, rig, to_outbox);
        quiet = took == 0 ? quiet + 1 : 0;
    }
}

void rig_pass(struct rig *rig, int64_t ms)
{
    for (int64_t passed = 0; passed < ms; passed += 500) {
        rig->now_ms += 500;
        rig->wall_ms += 500;
        rig_run(rig);
    }
}

/* --- the API server's side --- */

static int ask(struct rig *rig, const char *method, const char *path, const char *body,
               struct strbuf *out)
{
    return standin_request(rig->app.standin, method, path, text_of(body), out);
}

static void tell(struct rig *rig, const char *method, const char *path, const char *body)
{
    struct strbuf out;

    strbuf_init(&out);
    const int status = ask(rig, method, path, body, &out);
    if (status >= 300)
        (void)fprintf(stderr, "%s %s: %d %s\n", method, path, status, out.data);
    must(status < 300);
    strbuf_done(&out);
}

static void post_pod(struct rig *rig, const char *name, const char *limits, const char *node)
{
    char body[2048];

    (void)snprintf(body, sizeof body,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
                   "\"namespace\":\"default\"},\"spec\":{%s%s%s\"containers\":[{"
                   "\"name\":\"c\",\"image\":\"none\",\"resources\":{\"limits\":{"
                   "\"nvidia.com/vgpu\":\"%s\"},\"requests\":{\"nvidia.com/vgpu\":\"%s\"}}}]},"
                   "\"status\":{\"phase\":\"Pending\"}}",
                   name, node[0] != '\0' ? "\"nodeName\":\"" : "", node,
                   node[0] != '\0' ? "\"," : "", limits, limits);
    tell(rig, "POST", "/api/v1/namespaces/default/pods", body);
}

void rig_pod(struct rig *rig, const char *name, const char *limits)
{
    post_pod(rig, name, limits, "");
}

void rig_bound_pod(struct rig *rig, const char *name, const char *limits, const char *node)
{
    post_pod(rig, name, limits, node);
}

void rig_delete_pod(struct rig *rig, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s?gracePeriodSeconds=0",
                   name);
    tell(rig, "DELETE", path, "");
}

void rig_end_pod(struct rig *rig, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s/status", name);
    tell(rig, "PATCH", path, "{\"status\":{\"phase\":\"Succeeded\"}}");
}

void rig_node(struct rig *rig, const char *name, const char *milli)
{
    char path[256];
    char body[1024];
    struct strbuf out;

    (void)snprintf(
        body, sizeof body,
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\",\"labels\":{"
        "\"nvidia.com/gpu.product\":\"A100\",\"nvidia.com/gpu.memory\":\"81920\"}},"
        "\"status\":{\"capacity\":{\"nvidia.com/vgpu\":\"%s\"},"
        "\"allocatable\":{\"nvidia.com/vgpu\":\"%s\"}}}",
        name, milli, milli);
    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s/status", name);
    strbuf_init(&out);
    if (ask(rig, "PATCH", path, body, &out) == 404)
        tell(rig, "POST", "/api/v1/nodes", body);
    strbuf_done(&out);
}

void rig_delete_node(struct rig *rig, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s", name);
    tell(rig, "DELETE", path, "");
}

/* Node and uid of a pod; false if it is not there. */
static bool look(struct rig *rig, const char *name, char node[256], char uid[256])
{
    char path[256];
    struct arena arena;
    struct strbuf out;
    struct pod pod;
    struct err err;

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s", name);
    strbuf_init(&out);
    arena_init(&arena);
    const int status = ask(rig, "GET", path, "", &out);
    if (status == 200) {
        must(pod_decode((struct text){out.data, out.len}, &rig->app.wire_rules, &arena, &pod,
                        &err) == 0);
        (void)snprintf(node, 256, "%s", pod.node);
        (void)snprintf(uid, 256, "%s", pod.uid);
    }
    arena_done(&arena);
    strbuf_done(&out);
    return status == 200;
}

const char *rig_where(struct rig *rig, const char *name)
{
    static char where[256];
    char uid[256];

    return look(rig, name, where, uid) ? where : NULL;
}

/* --- kube-scheduler's side --- */

static struct web_call *new_call(struct rig *rig, const char *path)
{
    struct web_call *call = xcalloc(1, sizeof *call);

    must(rig->call_count < ARRAY_LEN(rig->calls));
    (void)snprintf(call->path, sizeof call->path, "%s", path);
    strbuf_init(&call->body);
    strbuf_init(&call->answer);
    rig->calls[rig->call_count++] = call;
    return call;
}

const char *rig_filter(struct rig *rig, const char *pod, const char *names)
{
    char path[256];
    struct strbuf object;
    struct web_call *call = new_call(rig, "/scheduler/filter");

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s", pod);
    strbuf_init(&object);
    must(ask(rig, "GET", path, "", &object) == 200);
    strbuf_printf(&call->body, "{\"Pod\":%s,\"Nodes\":null,\"NodeNames\":[\"", object.data);
    for (; *names != '\0'; names++)
        strbuf_str(&call->body, *names == ' ' ? "\",\"" : (char[]){*names, '\0'});
    strbuf_str(&call->body, "\"]}");
    strbuf_done(&object);
    webhooks_handle(rig->webhooks, call);
    must(call->status == 200);
    return call->answer.data;
}

struct web_call *rig_bind_begin(struct rig *rig, const char *pod, const char *node)
{
    struct web_call *call = new_call(rig, "/scheduler/bind");
    char where[256];
    char uid[256] = "nobody";

    (void)look(rig, pod, where, uid);
    strbuf_printf(&call->body,
                  "{\"PodName\":\"%s\",\"PodNamespace\":\"default\",\"PodUID\":\"%s\","
                  "\"Node\":\"%s\"}",
                  pod, uid, node);
    webhooks_handle(rig->webhooks, call);
    return call;
}

const char *rig_error(struct web_call *call)
{
    static char text[1024];
    struct arena arena;
    struct jr in;
    struct err err;
    struct text key;
    const char *error = "?";

    must(call->status == 200);
    arena_init(&arena);
    jr_init(&in, (struct text){call->answer.data, call->answer.len}, "answer", &arena, &err);
    must(jr_object(&in));
    while (jr_key(&in, &key))
        if (text_is(key, "Error"))
            (void)jr_cstring(&in, &error);
        else
            (void)jr_skip(&in);
    (void)snprintf(text, sizeof text, "%s", error);
    arena_done(&arena);
    return text;
}

const char *rig_bind(struct rig *rig, const char *pod, const char *node)
{
    struct web_call *call = rig_bind_begin(rig, pod, node);

    rig_run(rig);
    return call->status == 0 ? "(no answer)" : rig_error(call);
}

/* --- what the snapshot shows --- */

static uint32_t sum(struct rig *rig, const char *name, bool bound)
{
    const struct snapshot *snapshot = view_take(rig->app.view);
    const struct node *node = snapshot_node(snapshot, text_of(name));
    uint32_t milli = 0;

    for (uint32_t i = 0; node != NULL && i < node->gpus; i++)
        milli += node->gpu[i].reserved_milli + (bound ? node->gpu[i].used_milli : 0);
    snapshot_unref(snapshot);
    return milli;
}

uint32_t rig_taken(struct rig *rig, const char *node)
{
    return sum(rig, node, true);
}

uint32_t rig_reserved(struct rig *rig, const char *node)
{
    return sum(rig, node, false);
}

size_t rig_allocations(struct rig *rig)
{
    const struct snapshot *snapshot = view_take(rig->app.view);
    const size_t count = snapshot->allocations;

    snapshot_unref(snapshot);
    return count;
}
