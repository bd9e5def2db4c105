#include "support_app.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/assembly.h"
#include "milligpu/fake_apiserver.h"
#include "milligpu/hints.h"
#include "milligpu/kube.h"
#include "milligpu/log.h"
#include "milligpu/message.h"
#include "milligpu/outbox.h"
#include "milligpu/pod_cache.h"

#include "support_pool.h"

/* --- the cluster --- */

static const char cluster[] =
    "{\"kind\":\"List\",\"items\":["
    "{\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\",\"uid\":\"node-1\",\"labels\":"
    "{\"nvidia.com/gpu.product\":\"A100\",\"nvidia.com/gpu.memory\":\"81920\"}},"
    "\"status\":{\"capacity\":{\"nvidia.com/vgpu\":\"4000\"}}},"
    "{\"kind\":\"Node\",\"metadata\":{\"name\":\"n2\",\"uid\":\"node-2\",\"annotations\":"
    "{\"milligpu.io/gpus\":\"[{\\\"uuid\\\":\\\"GPU-a\\\",\\\"index\\\":0,\\\"mib\\\":16000,"
    "\\\"model\\\":\\\"T4\\\"},{\\\"uuid\\\":\\\"GPU-b\\\",\\\"index\\\":1,\\\"milli\\\":500}]\"}},"
    "\"status\":{}},"
    "{\"kind\":\"Node\",\"metadata\":{\"name\":\"n3\",\"uid\":\"node-3\",\"annotations\":"
    "{\"milligpu.io/cordon\":\"all\"}},\"status\":{\"capacity\":{\"nvidia.com/vgpu\":\"1500\"}}},"
    "{\"kind\":\"Node\",\"metadata\":{\"name\":\"n4\",\"uid\":\"node-4\"},\"status\":{}},"
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"b1\",\"uid\":\"u-b1\"},\"spec\":{\"nodeName\":"
    "\"n1\",\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/vgpu\":"
    "\"700\"}}}]},\"status\":{\"phase\":\"Running\"}},"
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"b2\",\"uid\":\"u-b2\"},\"spec\":{\"nodeName\":"
    "\"n2\",\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/vgpu\":"
    "\"400\"}}}]},\"status\":{\"phase\":\"Running\"}},"
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"w1\",\"uid\":\"u-w1\"},\"spec\":{\"containers\":"
    "[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/vgpu\":\"300\"}}}]}},"
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"w2\",\"uid\":\"u-w2\"},\"spec\":{\"containers\":"
    "[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/vgpu\":\"2000\"}}}]}},"
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"w3\",\"uid\":\"u-w3\"},\"spec\":{\"containers\":"
    "[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/vgpu\":\"0\"}}}]}},"
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"w4\",\"uid\":\"u-w4\"},\"spec\":{\"containers\":"
    "[{\"name\":\"c\"}]}}]}";

static struct core_fixture *current;
static bool spoiled;

static int64_t now(void *ctx)
{
    return ((struct core_fixture *)ctx)->now_ms;
}

static int64_t wall(void *ctx)
{
    return 1700000000000 + ((struct core_fixture *)ctx)->now_ms;
}

static void to_informer(void *user, const struct kube_answer *answer)
{
    struct core_fixture *core = user;
    informer_answer(core->parts.informer, core->now_ms, answer);
}

static void to_outbox(void *user, const struct kube_answer *answer)
{
    struct core_fixture *core = user;
    outbox_answer(core->app.outbox, core->now_ms, answer);
}

static void turn(struct core_fixture *core)
{
    (void)informer_step(core->parts.informer, core->now_ms);
    core->watch_ops.poll(core->watch_ops.ctx, 0, core, to_informer);
    (void)writer_step(core->parts.writer, 0);
    (void)outbox_step(core->app.outbox, core->now_ms, wall(core));
    core->call_ops.poll(core->call_ops.ctx, 0, core, to_outbox);
}

static void fill(struct core_fixture *core)
{
    struct app *app = &core->app;
    enum settings_action action;
    char *argv[] = {(char[]){"milligpud"}, (char[]){"--standalone=c"}};
    char *envp[] = {NULL};
    struct err err;
    must(settings_load(2, argv, envp, &core->set, &action, &err) == 0);
    atomic_store(&app->set, core->set);
}

static void open_store(struct app *app)
{
    const struct store_rules rules = {.path = ":memory:"};
    struct err err;
    must(store_open(&rules, &app->store, &err) == 0);
    must(store_set_cluster(app->store, "cluster", &err) == 0);
}

static void note_generation(struct core_fixture *core)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(core->app.view);
    core->generation = snapshot->generation;
}

static struct core_fixture *core_new(void)
{
    struct core_fixture *core = xcalloc(1, sizeof *core);
    struct app *app = &core->app;
    struct err err;

    log_set(LOG_ERROR, false);
    core->now_ms = 1000000;
    fill(core);
    open_store(app);
    app->fake = fake_apiserver_new("fuzz");
    fake_apiserver_set_clock(app->fake, wall, core);
    must(fake_apiserver_load_text(app->fake, "cluster", text_of(cluster), &err) == 0);
    fake_apiserver_ops(app->fake, &core->watch_ops);
    fake_apiserver_ops(app->fake, &core->call_ops);
    core->settings = *settings_get(core->set);
    core->settings.wake = "off";
    const struct app_edges edges = {.clock = {.ctx = core, .now_ms = now, .wall_ms = wall},
                                    .store = app->store,
                                    .fake = app->fake,
                                    .watch = &core->watch_ops,
                                    .calls = &core->call_ops,
                                    .server = "standalone",
                                    .wake_namespace = "ns",
                                    .instance = "fuzz"};
    app_open(app, &core->settings, &edges, &core->parts);
    must(writer_load(core->parts.writer, &err) == 0);
    atomic_store(&app->identified, true);
    atomic_store(&app->history_checked, true);
    for (int i = 0; i < 24; i++)
        turn(core);
    must(app_ready(app, NULL));
    note_generation(core);
    return core;
}

static void core_free(struct core_fixture *core)
{
    struct app *app = &core->app;

    app_close(app, &core->parts);
    core->watch_ops.free(core->watch_ops.ctx);
    core->call_ops.free(core->call_ops.ctx);
    fake_apiserver_free(app->fake);
    store_close(app->store);
    settings_free(core->set);
    xfree(core);
}

static void at_exit(void)
{
    if (current != NULL)
        core_free(current);
    current = NULL;
}

struct core_fixture *core_take(void)
{
    static bool registered;
    if (!registered) {
        must(atexit(at_exit) == 0);
        sqlite_use_pool();
    }
    registered = true;
    if (spoiled && current != NULL)
        at_exit();
    spoiled = false;
    if (current == NULL)
        current = core_new();
    return current;
}

/* Every node of the snapshot keeps its invariants; so does the store, including its journal. */
static void core_assert_valid(struct core_fixture *core)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(core->app.view);
    const struct node *node;
    struct err err;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        node_assert_valid(node);
    must(store_verify(core->app.store, &err) == 0);
    must(store_replay_check(core->app.store, &err) == 0);
}

void core_spoil(void)
{
    spoiled = true;
}

void core_close(struct core_fixture *core)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(core->app.view);
    if (snapshot->generation == core->generation)
        return;
    core_assert_valid(core);
    core_spoil();
}

void core_forget(struct core_fixture *core)
{
    hints_free(core->app.hints);
    core->app.hints = hints_new();
}

void core_run(struct core_fixture *core)
{
    for (int i = 0; i < 8; i++)
        turn(core);
}

void core_answer(struct core_fixture *core, const struct http_call *call)
{
    for (int i = 0; i < 64 && call->status == 0; i++) {
        turn(core);
        core->now_ms += i >= 8 ? 250 : 0; /* let time pass, so that lost requests time out */
    }
    must(call->status != 0);
}
