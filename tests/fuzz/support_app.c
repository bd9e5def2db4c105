#include "support_app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/daemon/assembly.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/log.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/rules.h"
#include "support/store_checks.h"
#include "support/valid.h"
#include "support_pool.h"

static struct err err; /* of the latest call */

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

static struct fuzz_app *current;
static bool spoiled;

static int64_t now(void *ctx)
{
    return ((struct fuzz_app *)ctx)->now_ms;
}

static int64_t wall(void *ctx)
{
    return 1700000000000 + ((struct fuzz_app *)ctx)->now_ms;
}

static void to_informer(void *user, const struct kube_answer *answer)
{
    struct fuzz_app *fuzz = user;
    informer_answer(fuzz->parts.informer, fuzz->now_ms, answer);
}

static void to_outbox(void *user, const struct kube_answer *answer)
{
    struct fuzz_app *fuzz = user;
    outbox_answer(fuzz->app.outbox, fuzz->now_ms, answer);
}

static void turn(struct fuzz_app *fuzz)
{
    (void)informer_step(fuzz->parts.informer, fuzz->now_ms);
    fuzz->watch_ops.poll(fuzz->watch_ops.ctx, 0, fuzz, to_informer);
    (void)writer_step(fuzz->parts.writer, 0);
    (void)outbox_step(fuzz->app.outbox, fuzz->now_ms, wall(fuzz));
    fuzz->call_ops.poll(fuzz->call_ops.ctx, 0, fuzz, to_outbox);
}

static void fill(struct fuzz_app *fuzz)
{
    struct app *app = &fuzz->app;
    enum settings_action action;
    char *argv[] = {(char[]){"milligpud"}, (char[]){"--standalone=c"},
                    (char[]){"--policy=binpack"}};
    char *envp[] = {NULL};
    must(settings_load(3, argv, envp, &fuzz->set, &action, &err) == 0);
    atomic_store(&app->set, fuzz->set);
}

static void open_store(struct app *app)
{
    const struct store_rules rules = {.path = ":memory:"};
    must(store_open(&rules, &app->store, &err) == 0);
    must(store_set_cluster(app->store, "cluster", &err) == 0);
}

static void note_generation(struct fuzz_app *fuzz)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fuzz->app.view);
    fuzz->generation = snapshot->generation;
}

static struct fuzz_app *fuzz_app_new(void)
{
    struct fuzz_app *fuzz = xcalloc(1, sizeof *fuzz);
    struct app *app = &fuzz->app;

    log_set(LOG_ERROR, false);
    fuzz->now_ms = 1000000;
    fill(fuzz);
    open_store(app);
    app->fake = fake_apiserver_new("fuzz");
    fake_apiserver_set_clock(app->fake, wall, fuzz);
    must(fake_apiserver_load_text(app->fake, "cluster", text_of(cluster), &err) == 0);
    fake_apiserver_ops(app->fake, &fuzz->watch_ops);
    fake_apiserver_ops(app->fake, &fuzz->call_ops);
    fuzz->settings = *settings_get(fuzz->set);
    fuzz->settings.wake = "off";
    if (getenv("FUZZ_POLICY") != NULL)
        fuzz->settings.policy = getenv("FUZZ_POLICY");
    struct rulebook *bare = bare_rulebook(fuzz->settings.policy);
    const struct app_edges edges = {.clock = {.ctx = fuzz, .now_ms = now, .wall_ms = wall},
                                    .store = app->store,
                                    .rulebook = bare,
                                    .fake = app->fake,
                                    .watch = &fuzz->watch_ops,
                                    .calls = &fuzz->call_ops,
                                    .server = "standalone",
                                    .wake_namespace = "ns",
                                    .instance = "fuzz"};
    app_open(app, &fuzz->settings, &edges, &fuzz->parts);
    rulebook_unref(bare);
    must(writer_load(fuzz->parts.writer, &err) == 0);
    atomic_store(&app->identified, true);
    atomic_store(&app->health.history_checked, true);
    for (int i = 0; i < 24; i++)
        turn(fuzz);
    must(app_ready(app, NULL));
    note_generation(fuzz);
    return fuzz;
}

static void fuzz_app_free(struct fuzz_app *fuzz)
{
    struct app *app = &fuzz->app;

    app_close(app, &fuzz->parts);
    fuzz->watch_ops.free(fuzz->watch_ops.ctx);
    fuzz->call_ops.free(fuzz->call_ops.ctx);
    fake_apiserver_free(app->fake);
    store_close(app->store);
    settings_free(fuzz->set);
    xfree(fuzz);
}

static void at_exit(void)
{
    if (current != NULL)
        fuzz_app_free(current);
    current = NULL;
}

struct fuzz_app *fuzz_app_take(void)
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
        current = fuzz_app_new();
    return current;
}

/* Every node of the snapshot keeps its invariants; so does the store, including its journal. */
static void fuzz_app_assert_valid(struct fuzz_app *fuzz)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fuzz->app.view);
    const struct node *node;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        node_assert_valid(node);
    must(store_verify(fuzz->app.store, &err) == 0);
}

void fuzz_app_spoil(void)
{
    spoiled = true;
}

void fuzz_app_close(struct fuzz_app *fuzz)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fuzz->app.view);
    if (snapshot->generation == fuzz->generation)
        return;
    fuzz_app_assert_valid(fuzz);
    fuzz_app_spoil();
}

void fuzz_app_forget(struct fuzz_app *fuzz)
{
    waiting_pods_free(fuzz->app.waiting_pods);
    fuzz->app.waiting_pods = waiting_pods_new();
}

void fuzz_app_run(struct fuzz_app *fuzz)
{
    for (int i = 0; i < 8; i++)
        turn(fuzz);
}

void fuzz_app_answer(struct fuzz_app *fuzz, const struct http_call *call)
{
    for (int i = 0; i < 64 && call->status == 0; i++) {
        turn(fuzz);
        fuzz->now_ms += i >= 8 ? 250 : 0; /* let time pass, so that lost requests time out */
    }
    must(call->status != 0);
}
