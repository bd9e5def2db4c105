#include "support_fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/daemon/assembly.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/log.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/rules.h"

enum { PUT_OFF_ENDS_MS = 10 };

/* --- fault injection --- */

static bool strikes(struct app_fixture *fixture, enum fixture_point point)
{
    if (fixture->fault.point != point)
        return false;
    fixture->met++;
    const bool due = fixture->fault.lasting ? fixture->met >= fixture->fault.nth
                                            : fixture->met == fixture->fault.nth;
    fixture->struck += due ? 1 : 0;
    fixture->felt += due ? 1 : 0;
    return due;
}

void fixture_break(struct app_fixture *fixture, const struct fixture_fault *fault)
{
    must(fault->nth > 0);
    fixture->fault = *fault;
    fixture->met = 0;
    fixture->struck = fixture->felt = 0;
}

void fixture_break_store(struct app_fixture *fixture, enum fixture_point point, bool lasting)
{
    fixture_break(fixture, &(struct fixture_fault){.point = point, .nth = 1, .lasting = lasting});
}

void fixture_heal(struct app_fixture *fixture)
{
    fixture->fault.point = POINT_NOWHERE;
}

bool fixture_disk_broken(const struct app_fixture *fixture)
{
    const enum fixture_point point = fixture->fault.point;

    return fixture->fault.lasting && fixture->felt > 0 &&
           (point == POINT_BEGIN || point == POINT_WRITE || point == POINT_COMMIT);
}

static int fixture_begin(void *ctx, struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (strikes(fixture, POINT_BEGIN))
        return err_set(err, ERR_IO, "the disk gave an error");
    return fixture->real_store.begin(fixture->real_store.ctx, err);
}

static enum store_outcome fixture_write(void *ctx, const struct command *command,
                                        const struct change *change, struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (fixture->contradict) {
        fixture->contradict = false;
        (void)err_set(err, ERR_CORRUPT, "a trigger said no");
        return STORE_REFUSED;
    }
    if (strikes(fixture, POINT_WRITE)) {
        (void)err_set(err, ERR_FULL, "the disk is full");
        return STORE_FAILED;
    }
    return fixture->real_store.write(fixture->real_store.ctx, command, change, err);
}

static int fixture_commit(void *ctx, struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (fixture->disk_full || strikes(fixture, POINT_COMMIT))
        return err_set(err, ERR_FULL, "the disk is full");
    fixture->commits++;
    return fixture->real_store.commit(fixture->real_store.ctx, err);
}

static void fixture_rollback(void *ctx)
{
    struct app_fixture *fixture = ctx;
    fixture->real_store.rollback(fixture->real_store.ctx);
}

static int fixture_maintain(void *ctx, int64_t now_ms, struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (strikes(fixture, POINT_MAINTAIN))
        return err_set(err, ERR_IO, "the disk gave an error");
    return fixture->real_store.maintain(fixture->real_store.ctx, now_ms, err);
}

static int fixture_learn(void *ctx, const struct tally *tally, int64_t until_ms, struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (fixture->disk_full || strikes(fixture, POINT_LEARN))
        return err_set(err, ERR_FULL, "the disk is full");
    return fixture->real_store.learn(fixture->real_store.ctx, tally, until_ms, err);
}

static int fixture_remember(void *ctx, const struct agents *agents, size_t max, size_t *out_count,
                            struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (fixture->disk_full || strikes(fixture, POINT_REMEMBER))
        return err_set(err, ERR_FULL, "the disk is full");
    return fixture->real_store.remember(fixture->real_store.ctx, agents, max, out_count, err);
}

static int fixture_measure(void *ctx, const struct store_chunk *chunk, struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (fixture->disk_full || strikes(fixture, POINT_MEASURE))
        return err_set(err, ERR_FULL, "the disk is full");
    return fixture->real_store.measure(fixture->real_store.ctx, chunk, err);
}

static int fixture_keep_policy(void *ctx, const struct store_policy *policy, struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (fixture->disk_full || strikes(fixture, POINT_KEEP_POLICY))
        return err_set(err, ERR_FULL, "the disk is full");
    return fixture->real_store.keep_policy(fixture->real_store.ctx, policy, err);
}

static bool is_binding(const struct kube_request *request)
{
    return strcmp(request->method, "POST") == 0 && strstr(request->path, "/binding") != NULL;
}

static struct fixture_late *answer_later(struct fixture_wire *wire,
                                         const struct kube_request *request, int64_t in_ms)
{
    size_t free = 0;

    while (wire->late[free].id != 0)
        must(++free < ARRAY_LEN(wire->late));
    struct fixture_late *late = &wire->late[free];
    *late = (struct fixture_late){.id = request->id, .due_ms = wire->fixture->now_ms + in_ms};
    strbuf_init(&late->body);
    return late;
}

static int process(struct fixture_wire *wire, const struct kube_request *request,
                   struct strbuf *out)
{
    return fake_apiserver_request(wire->fixture->app.fake, request->method, request->path,
                                  request->body, out);
}

/* The request stays unanswered until its timeout, when a transport must report it. */
static int lose(struct fixture_wire *wire, const struct kube_request *request, bool processed)
{
    struct fixture_late *late = answer_later(wire, request, request->timeout_ms);

    if (processed)
        (void)process(wire, request, &late->body);
    return 0;
}

static int go_wrong(struct fixture_wire *wire, const struct kube_request *request, struct err *err)
{
    const struct fixture_fault *fault = &wire->fixture->fault;
    const bool watch = strstr(request->path, "watch=") != NULL;

    if (fault->trouble == POINT_REFUSED)
        return err_set(err, ERR_IO, "the transport takes no more requests");
    struct fixture_late *late = answer_later(wire, request, 0);
    if (!watch && (fault->trouble == POINT_UNHEARD || fault->trouble == POINT_SHORT))
        late->status = process(wire, request, &late->body);
    if (fault->trouble == POINT_SHORT) {
        late->status = watch ? 200 : late->status;
        late->body.len /= 2;
    } else if (fault->trouble == POINT_STATUS) {
        late->status = fault->status;
        strbuf_printf(&late->body, "{\"kind\":\"Status\",\"message\":\"no\",\"code\":%d}",
                      fault->status);
    } else {
        late->status = 0;
        late->unsent = fault->trouble == POINT_UNSENT;
    }
    return 0;
}

static int wire_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct fixture_wire *wire = ctx;
    struct app_fixture *fixture = wire->fixture;

    if (strstr(request->path, "csistoragecapacities") != NULL)
        fixture->wake_ups++;
    if (is_binding(request))
        fixture->bindings++;
    const bool pod_list =
        strncmp(request->path, "/api/v1/pods?", 13) == 0 && strstr(request->path, "watch") == NULL;
    fixture->pod_lists += pod_list ? 1 : 0;
    if (strikes(fixture, POINT_REQUEST))
        return go_wrong(wire, request, err);
    if (is_binding(request) && (fixture->lose_requests || fixture->lose_answers))
        return lose(wire, request, !fixture->lose_requests);
    if (pod_list && fixture->list_takes_ms > 0) {
        struct fixture_late *late = answer_later(wire, request, fixture->list_takes_ms);
        late->status = process(wire, request, &late->body);
        return 0;
    }
    return wire->real.start(wire->real.ctx, request, err);
}

static void wire_cancel(void *ctx, uint64_t id)
{
    struct fixture_wire *wire = ctx;

    for (size_t i = 0; i < ARRAY_LEN(wire->late); i++)
        if (wire->late[i].id == id) {
            strbuf_done(&wire->late[i].body);
            wire->late[i].id = 0;
        }
    wire->real.cancel(wire->real.ctx, id);
}

/*
 * The receiver may start and cancel requests meanwhile, so the slot is free before it gets
 * anything.
 */
static void deliver_late(struct fixture_late *late, void *user,
                         void (*deliver)(void *user, const struct kube_answer *answer))
{
    struct fixture_late is = *late;
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
    struct fixture_wire *wire = ctx;

    for (size_t i = 0; i < ARRAY_LEN(wire->late); i++)
        if (wire->late[i].id != 0 && wire->fixture->now_ms >= wire->late[i].due_ms)
            deliver_late(&wire->late[i], user, deliver);
    wire->real.poll(wire->real.ctx, wait_ms, user, deliver);
}

static void wire_wake(void *ctx)
{
    struct fixture_wire *wire = ctx;
    wire->real.wake(wire->real.ctx);
}

static void wire_up(struct app_fixture *fixture, struct fixture_wire *wire)
{
    wire->fixture = fixture;
    fake_apiserver_ops(fixture->app.fake, &wire->real);
    wire->ops = (struct kube_ops){.ctx = wire,
                                  .start = wire_start,
                                  .cancel = wire_cancel,
                                  .poll = wire_poll,
                                  .wake = wire_wake};
}

static void wire_down(struct fixture_wire *wire)
{
    for (size_t i = 0; i < ARRAY_LEN(wire->late); i++)
        if (wire->late[i].id != 0) {
            strbuf_done(&wire->late[i].body);
            wire->late[i].id = 0;
        }
    wire->real.free(wire->real.ctx);
}

/* --- the clock --- */

static int64_t fixture_now(void *ctx)
{
    return ((struct app_fixture *)ctx)->now_ms;
}

static int64_t fixture_wall(void *ctx)
{
    return ((struct app_fixture *)ctx)->wall_ms;
}

/* --- build --- */

static void fill_settings(struct settings *settings)
{
    *settings = (struct settings){.resource = "nvidia.com/vgpu",
                                  .report_listen = "",
                                  .webhook_listen = "127.0.0.1:8900",
                                  .webhook_cert = "",
                                  .webhook_client_ca = "",
                                  .webhook_client_names = "",
                                  .whole_resource = "nvidia.com/gpu",
                                  .base_path = "/scheduler",
                                  .policy = "binpack",
                                  .shortlist = 16,
                                  .refusal_names = 100,
                                  .min_milli = 1,
                                  .step_milli = 1,
                                  .http_timeout_ms = 5000,
                                  .inventory_from_labels = true,
                                  .plugin = "auto",
                                  .events = true,
                                  .require_agent = "where-selected",
                                  .agent_nodes = "nvidia.com/gpu.present=true",
                                  .agents = "pods",
                                  .agent_label = "app.kubernetes.io/component=node",
                                  .wake = "object",
                                  .namespace = "ns",
                                  .keys_namespace = ""};
}

static void open_ledger(struct app_fixture *fixture)
{
    struct app *app = &fixture->app;
    struct err err;
    const struct store_rules store = {.path = fixture->ledger};

    must(store_open(&store, &app->store, &err) == 0);
    store_ops(app->store, &fixture->real_store);
    app->store_ops = (struct store_ops){.ctx = fixture,
                                        .begin = fixture_begin,
                                        .write = fixture_write,
                                        .commit = fixture_commit,
                                        .rollback = fixture_rollback,
                                        .maintain = fixture_maintain,
                                        .learn = fixture_learn,
                                        .measure = fixture_measure,
                                        .keep_policy = fixture_keep_policy,
                                        .remember = fixture_remember};
}

/* The process: everything but the ledger and the cluster. */
static void start(struct app_fixture *fixture)
{
    struct app *app = &fixture->app;
    struct err err;

    wire_up(fixture, &fixture->watch);
    wire_up(fixture, &fixture->call);
    struct rulebook *bare = bare_rulebook(fixture->settings.policy);
    const struct app_edges edges = {
        .clock = {.ctx = fixture, .now_ms = fixture_now, .wall_ms = fixture_wall},
        .store = app->store,
        .store_ops = app->store_ops,
        .rulebook = fixture->rulebook != NULL ? fixture->rulebook : bare,
        .fake = app->fake,
        .watch = &fixture->watch.ops,
        .calls = &fixture->call.ops,
        .grace_ms = app->grace.grace_ms,
        .wake_namespace = "ns",
        .instance = "fixture"};
    app_open(app, &fixture->settings, &edges, &fixture->parts);
    rulebook_unref(bare);
    must(writer_load(fixture->parts.writer, &err) == 0);
    atomic_store(&app->identified, true);
}

static void stop(struct app_fixture *fixture)
{
    struct app *app = &fixture->app;

    app_close(app, &fixture->parts);
    wire_down(&fixture->watch);
    wire_down(&fixture->call);
}

struct app_fixture *fixture_new_on(const char *ledger)
{
    struct app_fixture *fixture = xcalloc(1, sizeof *fixture);
    struct app *app = &fixture->app;

    log_set(LOG_ERROR, false);
    fixture->ledger = ledger;
    fixture->now_ms = 1000000;
    fixture->wall_ms = 1700000000000;
    fill_settings(&fixture->settings);
    app->fake = fake_apiserver_new("fixture");
    fake_apiserver_set_clock(app->fake, fixture_wall, fixture);
    open_ledger(fixture);
    must(store_set_cluster(app->store, "cluster", &(struct err){0}) == 0);
    start(fixture);
    return fixture;
}

struct app_fixture *fixture_new(const char *const *nodes)
{
    struct app_fixture *fixture = fixture_new_on(":memory:");

    for (; nodes != NULL && *nodes != NULL; nodes += 2)
        fixture_node(fixture, nodes[0], nodes[1]);
    fixture_run(fixture);
    must(app_ready(&fixture->app, NULL));
    return fixture;
}

const char *const fixture_two_nodes[] = {"n1", "1000", "n2", "1000", NULL};

int fixture_set_up(void **state)
{
    *state = fixture_new(fixture_two_nodes);
    return 0;
}

int fixture_tear_down(void **state)
{
    fixture_free(*state);
    return 0;
}

void fixture_free(struct app_fixture *fixture)
{
    stop(fixture);
    fake_apiserver_free(fixture->app.fake);
    store_close(fixture->app.store);
    rulebook_unref(fixture->rulebook);
    for (size_t i = 0; i < fixture->call_count; i++) {
        strbuf_done(&fixture->calls[i]->body);
        http_call_done(&fixture->calls[i]->http);
        xfree(fixture->calls[i]);
    }
    xfree(fixture);
}

void fixture_remove_ledger(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", ".lock", ".id"};
    char file[128];

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        (void)snprintf(file, sizeof file, "%s%s", path, ends[i]);
        (void)unlink(file);
    }
}

static void end(struct app_fixture *fixture)
{
    struct app *app = &fixture->app;

    stop(fixture);
    fixture->felt = 0;
    for (size_t i = 0; i < fixture->call_count; i++)
        fixture->calls[i]->cut = fixture->calls[i]->cut || fixture->calls[i]->http.status == 0;
    atomic_store(&app->watch.nodes_synced, false);
    atomic_store(&app->watch.pods_synced, false);
    atomic_store(&app->health.disk_broken, false);
    atomic_store(&app->health.safe_mode, false);
    atomic_store(&app->grace.grace_ends_ms, 0);
}

void fixture_restart(struct app_fixture *fixture)
{
    struct app *app = &fixture->app;

    end(fixture);
    if (strcmp(fixture->ledger, ":memory:") != 0) {
        store_close(app->store);
        open_ledger(fixture);
    }
    start(fixture);
}

void fixture_restart_and_run(struct app_fixture *fixture)
{
    fixture_restart(fixture);
    fixture_run(fixture);
}

void fixture_lose_ledger(struct app_fixture *fixture)
{
    struct app *app = &fixture->app;

    must(strcmp(fixture->ledger, ":memory:") == 0);
    end(fixture);
    store_close(app->store);
    open_ledger(fixture);
    (void)snprintf(app->instance.cluster, sizeof app->instance.cluster, "cluster");
    atomic_store(&app->grace.new_ledger, true);
    start(fixture);
}

static void to_informer(void *user, const struct kube_answer *answer)
{
    struct app_fixture *fixture = user;
    informer_answer(fixture->parts.informer, fixture->now_ms, answer);
}

static void to_outbox(void *user, const struct kube_answer *answer)
{
    struct app_fixture *fixture = user;
    outbox_answer(fixture->app.outbox, fixture->now_ms, answer);
}

/* Runs each thread's step once; true: the writer had something to do. */
static bool turn(struct app_fixture *fixture)
{
    (void)informer_step(fixture->parts.informer, fixture->now_ms);
    fixture->watch.ops.poll(fixture->watch.ops.ctx, 0, fixture, to_informer);
    const size_t took = writer_step(fixture->parts.writer, 0);
    (void)outbox_step(fixture->app.outbox, fixture->now_ms, fixture->wall_ms);
    fixture->call.ops.poll(fixture->call.ops.ctx, 0, fixture, to_outbox);
    return took > 0;
}

/* Lets so much time pass that the writer handles what it has put off; false: nothing was. */
static bool end_put_off(struct app_fixture *fixture)
{
    struct writer_tables tables;

    writer_tables(fixture->parts.writer, &tables);
    if (tables.n_put_off == 0)
        return false;
    fixture->now_ms += PUT_OFF_ENDS_MS;
    fixture->wall_ms += PUT_OFF_ENDS_MS;
    return true;
}

/* Runs until nothing moves any more, or, if asked to, until the daemon is ready. */
static void run(struct app_fixture *fixture, bool until_ready)
{
    int quiet = 0;

    for (int i = 0; i < 400 && quiet < 4; i++) {
        if (until_ready && app_ready(&fixture->app, NULL))
            return;
        quiet = turn(fixture) ? 0 : quiet + 1;
        if (quiet == 3 && end_put_off(fixture))
            quiet = 0;
    }
}

void fixture_run(struct app_fixture *fixture)
{
    run(fixture, false);
}

void fixture_run_deaf(struct app_fixture *fixture)
{
    for (int i = 0; i < 20; i++) {
        (void)writer_step(fixture->parts.writer, 0);
        (void)outbox_step(fixture->app.outbox, fixture->now_ms, fixture->wall_ms);
        fixture->call.ops.poll(fixture->call.ops.ctx, 0, fixture, to_outbox);
    }
}

void fixture_pass(struct app_fixture *fixture, int64_t ms)
{
    for (int64_t passed = 0; passed < ms; passed += 500) {
        fixture->now_ms += 500;
        fixture->wall_ms += 500;
        fixture_run(fixture);
    }
}

bool fixture_pass_until_ready(struct app_fixture *fixture, int64_t ms)
{
    for (int64_t passed = 0; passed < ms && !app_ready(&fixture->app, NULL); passed += 500) {
        fixture->now_ms += 500;
        fixture->wall_ms += 500;
        run(fixture, true);
    }
    return app_ready(&fixture->app, NULL);
}

void fixture_run_until_idle(struct app_fixture *fixture)
{
    for (int i = 0; i < 10; i++) {
        fixture->now_ms += 12000;
        fixture->wall_ms += 12000;
        fixture_run(fixture);
    }
}

/* --- the API server's side --- */

static int ask(struct app_fixture *fixture, const char *method, const char *path, const char *body,
               struct strbuf *out)
{
    return fake_apiserver_request(fixture->app.fake, method, path, text_of(body), out);
}

void fixture_api(struct app_fixture *fixture, const char *method, const char *path,
                 const char *body)
{
    CLEANUP(strbuf_done) struct strbuf out;

    strbuf_init(&out);
    const int status = ask(fixture, method, path, body, &out);
    if (status >= 300)
        (void)fprintf(stderr, "%s %s: %d %s\n", method, path, status, out.data);
    must(status < 300);
}

static const char pods_folder[] = "/api/v1/namespaces/default/pods";
static const char nodes_folder[] = "/api/v1/nodes";

/* FOLDER/NAME and what follows; valid until the next call. */
static const char *path_of(const char *folder, const char *name, const char *suffix)
{
    static char path[256];

    (void)snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
    return path;
}

void fixture_get(struct app_fixture *fixture, const char *path, struct strbuf *out)
{
    must(ask(fixture, "GET", path, "", out) == 200);
}

void fixture_pod_of(struct app_fixture *fixture, const char *name, const char *limits,
                    const char *annotations, const char *node)
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
    fixture_api(fixture, "POST", pods_folder, body);
}

static void post_pod(struct app_fixture *fixture, const char *name, const char *milli,
                     const char *node)
{
    char limits[64];

    (void)snprintf(limits, sizeof limits, "\"nvidia.com/vgpu\":\"%s\"", milli);
    fixture_pod_of(fixture, name, limits, NULL, node);
}

void fixture_pod(struct app_fixture *fixture, const char *name, const char *limits)
{
    post_pod(fixture, name, limits, NULL);
}

const char *fixture_name(const char *prefix, int number)
{
    static char name[32];

    (void)snprintf(name, sizeof name, "%s%d", prefix, number);
    return name;
}

void fixture_show_pod(struct app_fixture *fixture, const char *name, const char *limits)
{
    fixture_pod(fixture, name, limits);
    fixture_run(fixture);
}

void fixture_bound_pod(struct app_fixture *fixture, const char *name, const char *limits,
                       const char *node)
{
    post_pod(fixture, name, limits, node);
}

static void patch(struct app_fixture *fixture, const char *folder, const char *name,
                  const char *before, const char *members, const char *behind)
{
    char body[1024];

    (void)snprintf(body, sizeof body, "%s%s%s", before, members, behind);
    fixture_api(fixture, "PATCH", path_of(folder, name, ""), body);
}

void fixture_annotate(struct app_fixture *fixture, const char *name, const char *annotations)
{
    patch(fixture, pods_folder, name, "{\"metadata\":{\"annotations\":{", annotations, "}}}");
}

void fixture_annotate_node(struct app_fixture *fixture, const char *name, const char *annotations)
{
    patch(fixture, nodes_folder, name, "{\"metadata\":{\"annotations\":{", annotations, "}}}");
}

void fixture_label_node(struct app_fixture *fixture, const char *name, const char *labels)
{
    patch(fixture, nodes_folder, name, "{\"metadata\":{\"labels\":{", labels, "}}}");
}

void fixture_change_node(struct app_fixture *fixture, const char *name, const char *spec)
{
    patch(fixture, nodes_folder, name, "{\"spec\":{", spec, "}}");
}

void fixture_change_pod(struct app_fixture *fixture, const char *name, const char *spec)
{
    patch(fixture, pods_folder, name, "{\"spec\":{", spec, "}}");
}

void fixture_delete_pod(struct app_fixture *fixture, const char *name)
{
    fixture_api(fixture, "DELETE", path_of(pods_folder, name, "?gracePeriodSeconds=0"), "");
}

void fixture_terminate_pod(struct app_fixture *fixture, const char *name)
{
    fixture_api(fixture, "DELETE", path_of(pods_folder, name, "?gracePeriodSeconds=30"), "");
}

void fixture_end_pod(struct app_fixture *fixture, const char *name)
{
    fixture_api(fixture, "PATCH", path_of(pods_folder, name, "/status"),
                "{\"status\":{\"phase\":\"Succeeded\"}}");
}

void fixture_node(struct app_fixture *fixture, const char *name, const char *milli)
{
    CLEANUP(strbuf_done) struct strbuf out;
    char body[1024];

    (void)snprintf(
        body, sizeof body,
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\",\"labels\":{"
        "\"nvidia.com/gpu.product\":\"A100\",\"nvidia.com/gpu.memory\":\"81920\"}},"
        "\"status\":{\"capacity\":{\"nvidia.com/vgpu\":\"%s\"},"
        "\"allocatable\":{\"nvidia.com/vgpu\":\"%s\"}}}",
        name, milli, milli);
    strbuf_init(&out);
    if (ask(fixture, "PATCH", path_of(nodes_folder, name, "/status"), body, &out) == 404)
        fixture_api(fixture, "POST", nodes_folder, body);
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

void fixture_node_with(struct app_fixture *fixture, const char *name, const char *uuids)
{
    CLEANUP(strbuf_done) struct strbuf body;
    CLEANUP(strbuf_done) struct strbuf out;

    strbuf_init(&body);
    strbuf_init(&out);
    strbuf_printf(&body, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\",",
                  name);
    strbuf_str(&body, "\"annotations\":{\"milligpu.io/gpus\":\"[");
    add_gpus(&body, uuids);
    strbuf_str(&body, "]\"}}}");
    if (ask(fixture, "PATCH", path_of(nodes_folder, name, ""), body.data, &out) == 404)
        fixture_api(fixture, "POST", nodes_folder, body.data);
}

void fixture_delete_node(struct app_fixture *fixture, const char *name)
{
    fixture_api(fixture, "DELETE", path_of(nodes_folder, name, ""), "");
}

/* Node and uid of a pod; false if it is not there. */
static bool look(struct app_fixture *fixture, const char *name, char node[256], char uid[256])
{
    CLEANUP(arena_done) struct arena arena;
    CLEANUP(strbuf_done) struct strbuf out;
    struct pod pod;
    struct err err;

    strbuf_init(&out);
    arena_init(&arena);
    const int status = ask(fixture, "GET", path_of(pods_folder, name, ""), "", &out);
    if (status == 200) {
        must(pod_decode((struct text){out.data, out.len}, &fixture->app.rules.wire_rules, &arena,
                        &pod, &err) == 0);
        (void)snprintf(node, 256, "%s", pod.node);
        (void)snprintf(uid, 256, "%s", pod.uid);
    }
    return status == 200;
}

const char *fixture_where(struct app_fixture *fixture, const char *name)
{
    static char where[256];
    char uid[256];

    return look(fixture, name, where, uid) ? where : NULL;
}

void fixture_policy(struct app_fixture *fixture, const struct rulebook *take_book)
{
    struct message *message = message_new(MESSAGE_POLICY);

    rulebook_unref(fixture->rulebook);
    fixture->rulebook = take_book;
    message->rulebook = rulebook_ref(take_book);
    must(queue_put(fixture->app.queue, message));
}

/* --- kube-scheduler's side --- */

static struct fixture_call *new_call(struct app_fixture *fixture, const char *path)
{
    struct fixture_call *call = xcalloc(1, sizeof *call);

    must(fixture->call_count < ARRAY_LEN(fixture->calls));
    http_call_init(&call->http, path);
    strbuf_init(&call->body);
    fixture->calls[fixture->call_count++] = call;
    return call;
}

static void post(struct app_fixture *fixture, struct fixture_call *call)
{
    call->http.began_ns = clock_ns();
    call->http.body = (struct text){call->body.data, call->body.len};
    webhooks_handle(fixture->parts.webhooks, &call->http);
}

const char *fixture_ask(struct app_fixture *fixture, const char *path, const char *body)
{
    struct fixture_call *call = new_call(fixture, path);

    strbuf_str(&call->body, body);
    post(fixture, call);
    if (call->http.status != 200)
        (void)fprintf(stderr, "%s: %d %s\n", path, call->http.status, call->http.answer.data);
    must(call->http.status == 200);
    return call->http.answer.data;
}

const char *fixture_filter_of(struct app_fixture *fixture, const char *object, const char *names)
{
    struct fixture_call *call = new_call(fixture, "/scheduler/filter");

    strbuf_printf(&call->body, "{\"Pod\":%s,\"Nodes\":null,\"NodeNames\":[\"", object);
    for (; *names != '\0'; names++)
        strbuf_str(&call->body, *names == ' ' ? "\",\"" : (char[]){*names, '\0'});
    strbuf_str(&call->body, "\"]}");
    post(fixture, call);
    must(call->http.status == 200);
    return call->http.answer.data;
}

void fixture_object(struct app_fixture *fixture, const char *pod, struct strbuf *out)
{
    fixture_get(fixture, path_of(pods_folder, pod, ""), out);
}

const char *fixture_filter(struct app_fixture *fixture, const char *pod, const char *names)
{
    CLEANUP(strbuf_done) struct strbuf object;

    strbuf_init(&object);
    fixture_object(fixture, pod, &object);
    const char *answer = fixture_filter_of(fixture, object.data, names);
    return answer;
}

bool fixture_fits(struct app_fixture *fixture, const char *pod, const char *node)
{
    char names[64];

    fixture_run(fixture);
    (void)snprintf(names, sizeof names, "\"NodeNames\":[\"%s\"]", node);
    return strstr(fixture_filter(fixture, pod, node), names) != NULL;
}

struct fixture_call *fixture_bind_begin(struct app_fixture *fixture, const char *pod,
                                        const char *node)
{
    struct fixture_call *call = new_call(fixture, "/scheduler/bind");
    char where[256];
    char uid[256] = "nobody";

    (void)look(fixture, pod, where, uid);
    (void)snprintf(call->pod, sizeof call->pod, "%s", pod);
    (void)snprintf(call->node, sizeof call->node, "%s", node);
    strbuf_printf(&call->body,
                  "{\"PodName\":\"%s\",\"PodNamespace\":\"default\",\"PodUID\":\"%s\","
                  "\"Node\":\"%s\"}",
                  pod, uid, node);
    post(fixture, call);
    return call;
}

const char *fixture_error(const struct fixture_call *call)
{
    static char text[1024];
    CLEANUP(arena_done) struct arena arena;
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
    return text;
}

const char *fixture_bind(struct app_fixture *fixture, const char *pod, const char *node)
{
    struct fixture_call *call = fixture_bind_begin(fixture, pod, node);

    fixture_run(fixture);
    return call->http.status == 0 ? "(no answer)" : fixture_error(call);
}

void fixture_grant(struct app_fixture *fixture, const char *pod, const char *limits,
                   const char *node)
{
    fixture_show_pod(fixture, pod, limits);
    const char *error = fixture_bind(fixture, pod, node);
    if (error[0] != '\0')
        (void)fprintf(stderr, "%s on %s: %s\n", pod, node, error);
    must(error[0] == '\0');
}

/* --- what the snapshot shows --- */

static uint32_t sum(struct app_fixture *fixture, const char *name, bool bound)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, text_of(name));
    uint32_t milli = 0;

    for (uint32_t i = 0; node != NULL && i < node->n_gpus; i++)
        milli += node->gpu[i].reserved_milli + (bound ? node->gpu[i].used_milli : 0);
    return milli;
}

uint32_t fixture_taken(struct app_fixture *fixture, const char *node)
{
    return sum(fixture, node, true);
}

uint32_t fixture_reserved(struct app_fixture *fixture, const char *node)
{
    return sum(fixture, node, false);
}

size_t fixture_allocations(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    return snapshot->allocations;
}

struct drift_count {
    const char *kind;
    uint32_t count;
};

static void count_drift(void *user, const struct drift *drift)
{
    struct drift_count *counted = user;

    counted->count += counted->kind == NULL || strcmp(drift->kind, counted->kind) == 0;
}

uint32_t fixture_drifts(struct app_fixture *fixture, const char *node, const char *kind)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    struct drift_count counted = {kind, 0};

    drift_of(snapshot_node(snapshot, text_of(node)), &counted, count_drift);
    return counted.count;
}
