#include "support_app.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/log.h"

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

static struct world *current;
static bool spoiled;

static int64_t now(void *ctx)
{
    return ((struct world *)ctx)->now_ms;
}

static int64_t wall(void *ctx)
{
    return 1700000000000 + ((struct world *)ctx)->now_ms;
}

static void take_result(void *user, struct message *take_message)
{
    struct world *world = user;
    must(queue_put(world->app.queue, take_message));
}

static void to_watcher(void *user, const struct kube_answer *answer)
{
    struct world *world = user;
    informer_answer(world->informer, world->now_ms, answer);
}

static void to_outbox(void *user, const struct kube_answer *answer)
{
    struct world *world = user;
    outbox_answer(world->app.outbox, world->now_ms, answer);
}

static void turn(struct world *world)
{
    (void)informer_step(world->informer, world->now_ms);
    world->watch_ops.poll(world->watch_ops.ctx, 0, world, to_watcher);
    (void)writer_step(world->writer, 0);
    (void)outbox_step(world->app.outbox, world->now_ms, wall(world));
    world->call_ops.poll(world->call_ops.ctx, 0, world, to_outbox);
}

static void fill(struct world *world)
{
    struct app *app = &world->app;
    enum settings_action action;
    char *argv[] = {(char[]){"milligpud"}, (char[]){"--standalone=c"}};
    char *envp[] = {NULL};
    struct err err;
    must(settings_load(2, argv, envp, &world->set, &action, &err) == 0);
    atomic_store(&app->set, world->set);
    atomic_store(&app->settings, settings_get(world->set));
    app->request_rules =
        (struct request_rules){.resource = "nvidia.com/vgpu", .min_milli = 1, .step_milli = 1};
    app->inventory_rules = (struct inventory_rules){.from_labels = true};
    app->wire_rules = (struct wire_rules){"nvidia.com/vgpu", "nvidia.com/gpu"};
    app->clock = (struct clock_ops){.ctx = world, .now_ms = now, .wall_ms = wall};
    app->server = "standalone";
    app->wake_namespace = "ns";
}

static void open_store(struct app *app)
{
    const struct store_rules rules = {.path = ":memory:"};
    struct err err;
    must(store_open(&rules, &app->store, &err) == 0);
    must(store_set_cluster(app->store, "cluster", &err) == 0);
    store_ops(app->store, &app->store_ops);
}

static void note_generation(struct world *world)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(world->app.view);
    world->generation = snapshot->generation;
}

static struct world *world_new(void)
{
    struct world *world = xcalloc(1, sizeof *world);
    struct app *app = &world->app;
    struct err err;

    log_set(LOG_ERROR, false);
    world->now_ms = 1000000;
    fill(world);
    open_store(app);
    app->fake = fake_apiserver_new("fuzz");
    fake_apiserver_set_clock(app->fake, wall, world);
    must(fake_apiserver_load_text(app->fake, "cluster", text_of(cluster), &err) == 0);
    fake_apiserver_ops(app->fake, &world->watch_ops);
    fake_apiserver_ops(app->fake, &world->call_ops);
    app->queue = queue_new(QUEUE_MAX);
    app->view = view_new();
    app->pod_cache = pod_cache_new();
    app->hints = hints_new();
    const struct outbox_rules outbox = {.ops = &world->call_ops,
                                        .wire = &app->wire_rules,
                                        .wake = "off",
                                        .namespace = "ns",
                                        .instance = "fuzz",
                                        .resource = "nvidia.com/vgpu",
                                        .user = world,
                                        .result = take_result};
    app->outbox = outbox_new(&outbox);
    world->writer = writer_new(app);
    world->informer = informer_new(app, &world->watch_ops);
    world->webhooks = webhooks_new(app);
    must(writer_load(world->writer, &err) == 0);
    atomic_store(&app->claimed, true);
    atomic_store(&app->history_checked, true);
    for (int i = 0; i < 24; i++)
        turn(world);
    must(app_ready(app, NULL));
    note_generation(world);
    return world;
}

static void world_free(struct world *world)
{
    struct app *app = &world->app;

    informer_free(world->informer);
    outbox_free(app->outbox);
    writer_free(world->writer);
    webhooks_free(world->webhooks);
    queue_free(app->queue);
    hints_free(app->hints);
    pod_cache_free(app->pod_cache);
    view_free(app->view);
    world->watch_ops.free(world->watch_ops.ctx);
    world->call_ops.free(world->call_ops.ctx);
    fake_apiserver_free(app->fake);
    store_close(app->store);
    settings_free(world->set);
    xfree(world);
}

static void at_exit(void)
{
    if (current != NULL)
        world_free(current);
    current = NULL;
}

struct world *world_take(void)
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
        current = world_new();
    return current;
}

/* Every node of the snapshot keeps its invariants; so does the store, journal included. */
static void world_audit(struct world *world)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(world->app.view);
    const struct node *node;
    struct err err;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        node_assert_valid(node);
    must(store_verify(world->app.store, &err) == 0);
    must(store_replay_check(world->app.store, &err) == 0);
}

void world_spoil(void)
{
    spoiled = true;
}

void world_close(struct world *world)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(world->app.view);
    if (snapshot->generation == world->generation)
        return;
    world_audit(world);
    world_spoil();
}

void world_forget(struct world *world)
{
    hints_free(world->app.hints);
    world->app.hints = hints_new();
}

void world_run(struct world *world)
{
    for (int i = 0; i < 8; i++)
        turn(world);
}

void world_answer(struct world *world, const struct http_call *call)
{
    for (int i = 0; i < 64 && call->status == 0; i++) {
        turn(world);
        world->now_ms += i >= 8 ? 250 : 0; /* what is lost has its time, too */
    }
    must(call->status != 0);
}
