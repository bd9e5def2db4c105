#include "support_rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/log.h"

/* --- where the world can fail --- */

static bool strikes(struct rig *rig, enum rig_point point)
{
    if (rig->fault.point != point)
        return false;
    rig->met++;
    const bool due = rig->fault.lasting ? rig->met >= rig->fault.nth : rig->met == rig->fault.nth;
    rig->struck += due ? 1 : 0;
    rig->felt += due ? 1 : 0;
    return due;
}

void rig_break(struct rig *rig, const struct rig_fault *fault)
{
    must(fault->nth > 0);
    rig->fault = *fault;
    rig->met = 0;
    rig->struck = rig->felt = 0;
}

void rig_heal(struct rig *rig)
{
    rig->fault.point = RIG_NOWHERE;
}

bool rig_disk_broken(const struct rig *rig)
{
    const enum rig_point point = rig->fault.point;

    return rig->fault.lasting && rig->felt > 0 &&
           (point == RIG_BEGIN || point == RIG_WRITE || point == RIG_COMMIT);
}

static int rig_begin(void *ctx, struct err *err)
{
    struct rig *rig = ctx;

    if (strikes(rig, RIG_BEGIN))
        return err_set(err, ERR_IO, "the disk gave an error");
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
    if (strikes(rig, RIG_WRITE)) {
        (void)err_set(err, ERR_FULL, "the disk is full");
        return STORE_FAILED;
    }
    return rig->real_store.write(rig->real_store.ctx, command, change, err);
}

static int rig_commit(void *ctx, struct err *err)
{
    struct rig *rig = ctx;

    if (rig->disk_full || strikes(rig, RIG_COMMIT))
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

    if (strikes(rig, RIG_TEND))
        return err_set(err, ERR_IO, "the disk gave an error");
    return rig->real_store.maintain(rig->real_store.ctx, now_ms, err);
}

static bool is_binding(const struct kube_request *request)
{
    return strcmp(request->method, "POST") == 0 && strstr(request->path, "/binding") != NULL;
}

static struct rig_late *answer_later(struct rig_wire *wire, const struct kube_request *request,
                                     int64_t in_ms)
{
    size_t free = 0;

    while (wire->late[free].id != 0)
        must(++free < ARRAY_LEN(wire->late));
    struct rig_late *late = &wire->late[free];
    *late = (struct rig_late){.id = request->id, .due_ms = wire->rig->now_ms + in_ms};
    strbuf_init(&late->body);
    return late;
}

static int process(struct rig_wire *wire, const struct kube_request *request, struct strbuf *out)
{
    return fake_apiserver_request(wire->rig->app.fake, request->method, request->path,
                                  request->body, out);
}

/* Nothing will be heard of it until its time is up, as a transport promises. */
static int lose(struct rig_wire *wire, const struct kube_request *request, bool processed)
{
    struct rig_late *late = answer_later(wire, request, request->timeout_ms);

    if (processed)
        (void)process(wire, request, &late->body);
    return 0;
}

static int go_wrong(struct rig_wire *wire, const struct kube_request *request, struct err *err)
{
    const struct rig_fault *fault = &wire->rig->fault;
    const bool watch = strstr(request->path, "watch=") != NULL;

    if (fault->trouble == RIG_REFUSED)
        return err_set(err, ERR_IO, "the transport takes no more requests");
    struct rig_late *late = answer_later(wire, request, 0);
    if (!watch && (fault->trouble == RIG_UNHEARD || fault->trouble == RIG_SHORT))
        late->status = process(wire, request, &late->body);
    if (fault->trouble == RIG_SHORT) {
        late->status = watch ? 200 : late->status;
        late->body.len /= 2;
    } else if (fault->trouble == RIG_STATUS) {
        late->status = fault->status;
        strbuf_printf(&late->body, "{\"kind\":\"Status\",\"message\":\"no\",\"code\":%d}",
                      fault->status);
    } else {
        late->status = 0;
        late->unsent = fault->trouble == RIG_UNSENT;
    }
    return 0;
}

static int wire_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct rig_wire *wire = ctx;
    struct rig *rig = wire->rig;

    if (strstr(request->path, "csistoragecapacities") != NULL)
        rig->wake_ups++;
    if (is_binding(request))
        rig->bindings++;
    const bool pod_list =
        strncmp(request->path, "/api/v1/pods?", 13) == 0 && strstr(request->path, "watch") == NULL;
    rig->pod_lists += pod_list ? 1 : 0;
    if (strikes(rig, RIG_REQUEST))
        return go_wrong(wire, request, err);
    if (is_binding(request) && (rig->lose_requests || rig->lose_answers))
        return lose(wire, request, !rig->lose_requests);
    if (pod_list && rig->list_takes_ms > 0) {
        struct rig_late *late = answer_later(wire, request, rig->list_takes_ms);
        late->status = process(wire, request, &late->body);
        return 0;
    }
    return wire->real.start(wire->real.ctx, request, err);
}

static void wire_cancel(void *ctx, uint64_t id)
{
    struct rig_wire *wire = ctx;

    for (size_t i = 0; i < ARRAY_LEN(wire->late); i++)
        if (wire->late[i].id == id) {
            strbuf_done(&wire->late[i].body);
            wire->late[i].id = 0;
        }
    wire->real.cancel(wire->real.ctx, id);
}

/* The taker may start and cancel meanwhile, so the place is free before it hears anything. */
static void deliver_late(struct rig_late *late, void *user,
                         void (*deliver)(void *user, const struct kube_answer *answer))
{
    struct rig_late is = *late;
    struct err err;
    struct kube_answer answer = {.id = is.id, .status = is.status, .err = &err};

    late->id = 0;
    (void)err_set(&err, ERR_TIMEOUT, "no answer in time");
    if (is.status == 0) {
        answer.piece = KUBE_FAILED;
        answer.unsent = is.unsent;
        deliver(user, &answer);
    } else {
        answer.piece = KUBE_HEAD;
        answer.retry_after_s = is.status == 429 ? 2 : 0;
        deliver(user, &answer);
        answer.piece = KUBE_DATA;
        answer.data = (struct text){is.body.data, is.body.len};
        if (is.body.len > 0)
            deliver(user, &answer);
        answer.piece = KUBE_DONE;
        deliver(user, &answer);
    }
    strbuf_done(&is.body);
}

static void wire_poll(void *ctx, int64_t wait_ms, void *user,
                      void (*deliver)(void *user, const struct kube_answer *answer))
{
    struct rig_wire *wire = ctx;

    for (size_t i = 0; i < ARRAY_LEN(wire->late); i++)
        if (wire->late[i].id != 0 && wire->rig->now_ms >= wire->late[i].due_ms)
            deliver_late(&wire->late[i], user, deliver);
    wire->real.poll(wire->real.ctx, wait_ms, user, deliver);
}

static void wire_wake(void *ctx)
{
    struct rig_wire *wire = ctx;
    wire->real.wake(wire->real.ctx);
}

static void wire_up(struct rig *rig, struct rig_wire *wire)
{
    wire->rig = rig;
    fake_apiserver_ops(rig->app.fake, &wire->real);
    wire->ops = (struct kube_ops){.ctx = wire,
                                  .start = wire_start,
                                  .cancel = wire_cancel,
                                  .poll = wire_poll,
                                  .wake = wire_wake};
}

static void wire_down(struct rig_wire *wire)
{
    for (size_t i = 0; i < ARRAY_LEN(wire->late); i++)
        if (wire->late[i].id != 0) {
            strbuf_done(&wire->late[i].body);
            wire->late[i].id = 0;
        }
    wire->real.free(wire->real.ctx);
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
                                  .wake = "object",
                                  .namespace = "ns"};
}

static void open_ledger(struct rig *rig)
{
    struct app *app = &rig->app;
    struct err err;
    const struct store_rules store = {.path = rig->ledger};

    must(store_open(&store, &app->store, &err) == 0);
    store_ops(app->store, &rig->real_store);
    app->store_ops = (struct store_ops){.ctx = rig,
                                        .begin = rig_begin,
                                        .write = rig_write,
                                        .commit = rig_commit,
                                        .rollback = rig_rollback,
                                        .maintain = rig_tend};
}

/* The process: all but the ledger and the cluster. */
static void start(struct rig *rig)
{
    struct app *app = &rig->app;
    struct err err;

    wire_up(rig, &rig->watch);
    wire_up(rig, &rig->call);
    app->queue = queue_new(QUEUE_MAX);
    app->view = view_new();
    app->pod_cache = pod_cache_new();
    app->hints = hints_new();
    const struct outbox_rules outbox = {.ops = &rig->call.ops,
                                        .wire = &app->wire_rules,
                                        .wake = rig->settings.wake,
                                        .namespace = "ns",
                                        .instance = "rig",
                                        .resource = "nvidia.com/vgpu",
                                        .user = rig,
                                        .result = take_result};
    app->outbox = outbox_new(&outbox);
    rig->writer = writer_new(app);
    rig->informer = informer_new(app, &rig->watch.ops);
    rig->webhooks = webhooks_new(app);
    must(writer_load(rig->writer, &err) == 0);
    atomic_store(&app->claimed, true);
}

static void empty_queue(struct queue *queue)
{
    void *item;

    while (queue_take(queue, &item, 1, 0) == 1) {
        struct message *message = item;
        message->call = NULL;
        message_free(message);
    }
    queue_free(queue);
}

static void stop(struct rig *rig)
{
    struct app *app = &rig->app;

    informer_free(rig->informer);
    outbox_free(app->outbox);
    writer_free(rig->writer);
    webhooks_free(rig->webhooks);
    empty_queue(app->queue);
    hints_free(app->hints);
    pod_cache_free(app->pod_cache);
    view_free(app->view);
    wire_down(&rig->watch);
    wire_down(&rig->call);
}

struct rig *rig_new_on(const char *ledger)
{
    struct rig *rig = xcalloc(1, sizeof *rig);
    struct app *app = &rig->app;

    log_set(LOG_ERROR, false);
    rig->ledger = ledger;
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
    app->fake = fake_apiserver_new("rig");
    fake_apiserver_set_clock(app->fake, rig_wall, rig);
    open_ledger(rig);
    must(store_set_cluster(app->store, "cluster", &(struct err){0}) == 0);
    start(rig);
    return rig;
}

struct rig *rig_new(const char *const *nodes)
{
    struct rig *rig = rig_new_on(":memory:");

    for (; nodes != NULL && *nodes != NULL; nodes += 2)
        rig_node(rig, nodes[0], nodes[1]);
    rig_run(rig);
    must(app_ready(&rig->app, NULL));
    return rig;
}

const char *const rig_two_nodes[] = {"n1", "1000", "n2", "1000", NULL};

int rig_set_up(void **state)
{
    *state = rig_new(rig_two_nodes);
    return 0;
}

int rig_tear_down(void **state)
{
    rig_free(*state);
    return 0;
}

void rig_free(struct rig *rig)
{
    stop(rig);
    fake_apiserver_free(rig->app.fake);
    store_close(rig->app.store);
    for (size_t i = 0; i < rig->call_count; i++) {
        strbuf_done(&rig->calls[i]->body);
        http_call_done(&rig->calls[i]->http);
        xfree(rig->calls[i]);
    }
    xfree(rig);
}

static void end(struct rig *rig)
{
    struct app *app = &rig->app;

    stop(rig);
    rig->felt = 0;
    for (size_t i = 0; i < rig->call_count; i++)
        rig->calls[i]->cut = rig->calls[i]->cut || rig->calls[i]->http.status == 0;
    atomic_store(&app->nodes_synced, false);
    atomic_store(&app->pods_synced, false);
    atomic_store(&app->disk_broken, false);
    atomic_store(&app->safe_mode, false);
    atomic_store(&app->grace_ends_ms, 0);
}

void rig_restart(struct rig *rig)
{
    struct app *app = &rig->app;

    end(rig);
    if (strcmp(rig->ledger, ":memory:") != 0) {
        store_close(app->store);
        open_ledger(rig);
    }
    start(rig);
}

void rig_lose_ledger(struct rig *rig)
{
    struct app *app = &rig->app;

    must(strcmp(rig->ledger, ":memory:") == 0);
    end(rig);
    store_close(app->store);
    open_ledger(rig);
    (void)snprintf(app->cluster, sizeof app->cluster, "cluster");
    atomic_store(&app->new_ledger, true);
    start(rig);
}

static void to_watcher(void *user, const struct kube_answer *answer)
{
    struct rig *rig = user;
    informer_answer(rig->informer, rig->now_ms, answer);
}

static void to_outbox(void *user, const struct kube_answer *answer)
{
    struct rig *rig = user;
    outbox_answer(rig->app.outbox, rig->now_ms, answer);
}

/* Each of the threads once; true: the writer had something to do. */
static bool turn(struct rig *rig)
{
    (void)informer_step(rig->informer, rig->now_ms);
    rig->watch.ops.poll(rig->watch.ops.ctx, 0, rig, to_watcher);
    const size_t took = writer_step(rig->writer, 0);
    (void)outbox_step(rig->app.outbox, rig->now_ms, rig->wall_ms);
    rig->call.ops.poll(rig->call.ops.ctx, 0, rig, to_outbox);
    return took > 0;
}

/* Until nothing moves any more, or until the daemon is ready where that is waited for. */
static void run(struct rig *rig, bool until_ready)
{
    int quiet = 0;

    for (int i = 0; i < 400 && quiet < 4; i++) {
        if (until_ready && app_ready(&rig->app, NULL))
            return;
        quiet = turn(rig) ? 0 : quiet + 1;
    }
}

void rig_run(struct rig *rig)
{
    run(rig, false);
}

void rig_run_deaf(struct rig *rig)
{
    for (int i = 0; i < 20; i++) {
        (void)writer_step(rig->writer, 0);
        (void)outbox_step(rig->app.outbox, rig->now_ms, rig->wall_ms);
        rig->call.ops.poll(rig->call.ops.ctx, 0, rig, to_outbox);
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

bool rig_pass_until_ready(struct rig *rig, int64_t ms)
{
    for (int64_t passed = 0; passed < ms && !app_ready(&rig->app, NULL); passed += 500) {
        rig->now_ms += 500;
        rig->wall_ms += 500;
        run(rig, true);
    }
    return app_ready(&rig->app, NULL);
}

void rig_run_until_idle(struct rig *rig)
{
    for (int i = 0; i < 10; i++) {
        rig->now_ms += 12000;
        rig->wall_ms += 12000;
        rig_run(rig);
    }
}

/* --- the API server's side --- */

static int ask(struct rig *rig, const char *method, const char *path, const char *body,
               struct strbuf *out)
{
    return fake_apiserver_request(rig->app.fake, method, path, text_of(body), out);
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

void rig_pod_of(struct rig *rig, const char *name, const char *limits, const char *annotations,
                const char *node)
{
    char body[2048];
    char where[128] = "";

    if (node != NULL)
        (void)snprintf(where, sizeof where, "\"nodeName\":\"%s\",", node);
    (void)snprintf(body, sizeof body,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
                   "\"namespace\":\"default\",\"annotations\":{%s}},\"spec\":{%s\"containers\":[{"
                   "\"name\":\"c\",\"image\":\"none\",\"resources\":{\"limits\":{%s},"
                   "\"requests\":{%s}}}]},\"status\":{\"phase\":\"Pending\"}}",
                   name, annotations != NULL ? annotations : "", where, limits, limits);
    tell(rig, "POST", "/api/v1/namespaces/default/pods", body);
}

static void post_pod(struct rig *rig, const char *name, const char *milli, const char *node)
{
    char limits[64];

    (void)snprintf(limits, sizeof limits, "\"nvidia.com/vgpu\":\"%s\"", milli);
    rig_pod_of(rig, name, limits, NULL, node);
}

void rig_pod(struct rig *rig, const char *name, const char *limits)
{
    post_pod(rig, name, limits, NULL);
}

void rig_bound_pod(struct rig *rig, const char *name, const char *limits, const char *node)
{
    post_pod(rig, name, limits, node);
}

static void annotate(struct rig *rig, const char *path, const char *annotations)
{
    char body[1024];

    (void)snprintf(body, sizeof body, "{\"metadata\":{\"annotations\":{%s}}}", annotations);
    tell(rig, "PATCH", path, body);
}

void rig_annotate(struct rig *rig, const char *name, const char *annotations)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s", name);
    annotate(rig, path, annotations);
}

void rig_annotate_node(struct rig *rig, const char *name, const char *annotations)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s", name);
    annotate(rig, path, annotations);
}

static void delete_pod(struct rig *rig, const char *name, int grace_s)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s?gracePeriodSeconds=%d",
                   name, grace_s);
    tell(rig, "DELETE", path, "");
}

void rig_delete_pod(struct rig *rig, const char *name)
{
    delete_pod(rig, name, 0);
}

void rig_terminate_pod(struct rig *rig, const char *name)
{
    delete_pod(rig, name, 30);
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

static void add_gpus(struct strbuf *out, const char *uuids)
{
    for (unsigned i = 0; *uuids != '\0'; i++) {
        const int bytes = (int)strcspn(uuids, " ");
        strbuf_printf(out, "%s{\\\"uuid\\\":\\\"%.*s\\\",\\\"index\\\":%u,\\\"mib\\\":81920}",
                      i > 0 ? "," : "", bytes, uuids, i);
        uuids += bytes + (uuids[bytes] == ' ');
    }
}

void rig_node_with(struct rig *rig, const char *name, const char *uuids)
{
    struct strbuf body;
    struct strbuf out;
    char path[256];

    strbuf_init(&body);
    strbuf_init(&out);
    strbuf_printf(&body, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\",",
                  name);
    strbuf_str(&body, "\"annotations\":{\"milligpu.io/gpus\":\"[");
    add_gpus(&body, uuids);
    strbuf_str(&body, "]\"}}}");
    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s", name);
    if (ask(rig, "PATCH", path, body.data, &out) == 404)
        tell(rig, "POST", "/api/v1/nodes", body.data);
    strbuf_done(&out);
    strbuf_done(&body);
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

static struct rig_call *new_call(struct rig *rig, const char *path)
{
    struct rig_call *call = xcalloc(1, sizeof *call);

    must(rig->call_count < ARRAY_LEN(rig->calls));
    http_call_init(&call->http, path);
    strbuf_init(&call->body);
    rig->calls[rig->call_count++] = call;
    return call;
}

static void post(struct rig *rig, struct rig_call *call)
{
    call->http.began_ns = clock_ns();
    call->http.body = (struct text){call->body.data, call->body.len};
    webhooks_handle(rig->webhooks, &call->http);
}

const char *rig_filter_of(struct rig *rig, const char *object, const char *names)
{
    struct rig_call *call = new_call(rig, "/scheduler/filter");

    strbuf_printf(&call->body, "{\"Pod\":%s,\"Nodes\":null,\"NodeNames\":[\"", object);
    for (; *names != '\0'; names++)
        strbuf_str(&call->body, *names == ' ' ? "\",\"" : (char[]){*names, '\0'});
    strbuf_str(&call->body, "\"]}");
    post(rig, call);
    must(call->http.status == 200);
    return call->http.answer.data;
}

void rig_object(struct rig *rig, const char *pod, struct strbuf *out)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s", pod);
    must(ask(rig, "GET", path, "", out) == 200);
}

const char *rig_filter(struct rig *rig, const char *pod, const char *names)
{
    struct strbuf object;

    strbuf_init(&object);
    rig_object(rig, pod, &object);
    const char *answer = rig_filter_of(rig, object.data, names);
    strbuf_done(&object);
    return answer;
}

struct rig_call *rig_bind_begin(struct rig *rig, const char *pod, const char *node)
{
    struct rig_call *call = new_call(rig, "/scheduler/bind");
    char where[256];
    char uid[256] = "nobody";

    (void)look(rig, pod, where, uid);
    (void)snprintf(call->pod, sizeof call->pod, "%s", pod);
    (void)snprintf(call->node, sizeof call->node, "%s", node);
    strbuf_printf(&call->body,
                  "{\"PodName\":\"%s\",\"PodNamespace\":\"default\",\"PodUID\":\"%s\","
                  "\"Node\":\"%s\"}",
                  pod, uid, node);
    post(rig, call);
    return call;
}

const char *rig_error(const struct rig_call *call)
{
    static char text[1024];
    struct arena arena;
    struct json_reader in;
    struct err err;
    struct text key;
    const char *error = "?";

    must(call->http.status == 200);
    arena_init(&arena);
    json_reader_init(&in, (struct text){call->http.answer.data, call->http.answer.len}, "answer",
                     &arena, &err);
    must(json_read_object(&in));
    while (json_read_key(&in, &key))
        if (text_is(key, "Error"))
            (void)json_read_cstring(&in, &error);
        else
            (void)json_read_skip(&in);
    (void)snprintf(text, sizeof text, "%s", error);
    arena_done(&arena);
    return text;
}

const char *rig_bind(struct rig *rig, const char *pod, const char *node)
{
    struct rig_call *call = rig_bind_begin(rig, pod, node);

    rig_run(rig);
    return call->http.status == 0 ? "(no answer)" : rig_error(call);
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
