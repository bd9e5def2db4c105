/*
 * Drift is reported once, and healing costs only as much as heals: steps are counted, never time.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"

#include "support/core_fixture.h"
#include "support/count_of.h"
#include "support/logged.h"
#include "support/metric_sum.h"
#include "support/test.h"
#include "writer/drift_watch.h"

enum {
    NODES = 15000,
    GPUS = 8,
    DRIFTS = NODES * (GPUS + 1), /* the node is gone, and so is each of its GPUs */
    LOOK_MS = 2000,
    STEPS_MAX = 1000,
};

static const struct core_gpu eight[GPUS] = {
    {.index = 0}, {.index = 1}, {.index = 2}, {.index = 3},
    {.index = 4}, {.index = 5}, {.index = 6}, {.index = 7},
};

struct scene {
    struct core_fixture core;
    struct app app;
    struct settings settings;
    struct drift_watch *watch;
    const struct request *all_gpus;
    int64_t now_ms;
    int64_t wall_ms;
};

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    const struct store_rules rules = {.path = ":memory:"};
    struct err err;

    assert_int_equal(store_open(&rules, &scene->app.store, &err), 0);
    core_init(&scene->core);
    scene->all_gpus = core_request(&scene->core, "8000");
    scene->app.settings = &scene->settings; /* no Events: there is no outbox */
    scene->app.view = view_new();
    atomic_store(&scene->app.identified, true);
    atomic_store(&scene->app.watch.nodes_synced, true);
    atomic_store(&scene->app.watch.pods_synced, true);
    assert_true(app_ready(&scene->app, NULL));
    scene->watch = drift_watch_new(&scene->app);
    log_set(LOG_ERROR, false);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    drift_watch_free(scene->watch);
    view_free(scene->app.view);
    store_close(scene->app.store);
    core_done(&scene->core);
    xfree(scene);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, struct scene *scene, set_up, tear_down)

static void run(struct scene *scene, const struct command *command)
{
    assert_int_equal(core_do_quickly(&scene->core, command), VERDICT_OK);
}

static const char *node_name(struct scene *scene, uint32_t node)
{
    return arena_printf(&scene->core.arena, "node-%05u", node);
}

static void show_node(struct scene *scene, uint32_t node)
{
    core_show_quickly(&scene->core, node_name(scene, node), eight, GPUS);
}

static void lose_node(struct scene *scene, uint32_t node)
{
    const struct command command = {
        .kind = COMMAND_NODE_GONE, .at_ms = 1, .node = node_name(scene, node)};
    run(scene, &command);
}

/* A node with one pod, on all of its GPUs. */
static void fill_node(struct scene *scene, uint32_t node)
{
    const struct command command = {.kind = COMMAND_RESERVE,
                                    .at_ms = 1,
                                    .uid = arena_printf(&scene->core.arena, "uid-%u", node),
                                    .namespace = "default",
                                    .name = "pod",
                                    .node = node_name(scene, node),
                                    .request = scene->all_gpus};

    show_node(scene, node);
    run(scene, &command);
}

static void fill(struct scene *scene)
{
    for (uint32_t i = 0; i < NODES; i++)
        fill_node(scene, i);
}

/* Runs the next look to its end; returns how many steps of the writer it took. */
static uint32_t look(struct scene *scene)
{
    struct drift_watch_work before;
    struct drift_watch_work after;
    uint32_t steps = 0;

    view_publish(scene->app.view, ledger_publish(scene->core.ledger, NULL, 0));
    scene->now_ms += LOOK_MS;
    do {
        drift_watch_work(scene->watch, &before);
        drift_watch_step(scene->watch, scene->now_ms, 1);
        drift_watch_work(scene->watch, &after);
        assert_in_range(after.nodes - before.nodes, 0, 256); /* per step */
        assert_true(++steps < STEPS_MAX);
    } while (after.nodes != before.nodes);
    return steps;
}

SCENE_TEST(drift__is_forgotten_in_one_pass_when_all_heals)
{
    struct drift_watch_work work;

    fill(scene);
    (void)look(scene);
    drift_watch_work(scene->watch, &work);
    assert_int_equal(work.nodes, NODES);
    assert_int_equal(work.drifts, 0);
    assert_int_equal(metric_sum(M_DRIFT, "kind="), 0);

    for (uint32_t i = 0; i < NODES; i++)
        lose_node(scene, i);
    (void)look(scene);
    drift_watch_work(scene->watch, &work);
    assert_int_equal(work.nodes, 2 * NODES);
    assert_int_equal(work.drifts, DRIFTS);
    assert_int_equal(metric_sum(M_DRIFT, "kind="), DRIFTS);

    for (uint32_t i = 0; i < NODES; i++)
        show_node(scene, i);
    (void)look(scene);
    drift_watch_work(scene->watch, &work);
    assert_int_equal(work.nodes, 3 * NODES);
    assert_int_equal(work.drifts, 2 * DRIFTS); /* each once when it came and once when it went */
    assert_int_equal(metric_sum(M_DRIFT, "kind="), 0);
}

SCENE_TEST(drift_look__visits_the_changed_nodes_only)
{
    struct drift_watch_work before;
    struct drift_watch_work after;

    fill(scene);
    (void)look(scene);
    drift_watch_work(scene->watch, &before);
    lose_node(scene, 7);
    lose_node(scene, 14999);
    assert_in_range(look(scene), 1, 2);
    drift_watch_work(scene->watch, &after);
    assert_int_equal(after.nodes - before.nodes, 2);
    assert_int_equal(after.drifts - before.drifts, 2 * (GPUS + 1));
    assert_int_equal(metric_sum(M_DRIFT, "kind="), 2 * (GPUS + 1));

    show_node(scene, 7);
    (void)look(scene);
    assert_int_equal(metric_sum(M_DRIFT, "kind="), GPUS + 1);
    (void)look(scene); /* nothing changed */
    drift_watch_work(scene->watch, &after);
    assert_int_equal(after.nodes - before.nodes, 3);
}

/* Pods that others bound, one on each of the first nodes. */
static void adopt(struct scene *scene, uint32_t pods, const char *prefix, int64_t bound_ms)
{
    for (uint32_t i = 0; i < pods; i++) {
        const char *name = arena_printf(&scene->core.arena, "%s-%u", prefix, i);
        struct pod *pod = core_pod(&scene->core, name, node_name(scene, i));
        pod->scheduled_ms = bound_ms;
        assert_int_equal(core_adopt(&scene->core, pod, "100"), VERDICT_OK);
    }
}

static void log_one_look(void *user)
{
    struct scene *scene = user;

    view_publish(scene->app.view, ledger_publish(scene->core.ledger, NULL, 0));
    scene->now_ms += LOOK_MS;
    drift_watch_step(scene->watch, scene->now_ms, scene->wall_ms);
}

/* Returns the lines that a look at wall_ms logs. */
static const char *logged_by_look(struct scene *scene, int64_t wall_ms)
{
    scene->wall_ms = wall_ms;
    return logged(LOG_INFO, log_one_look, scene);
}

/* A cluster whose pods were there first: one line at each start, also if they came just now. */
SCENE_TEST(adopted_pods__are_one_line_at_the_start)
{
    static const int64_t now_ms = INT64_C(1767323045000);

    for (uint32_t i = 0; i < 200; i++)
        show_node(scene, i);
    adopt(scene, 200, "old", now_ms - DRIFT_ADOPTED_MS);
    const char *text = logged_by_look(scene, now_ms);
    assert_int_equal(count_of(text, "\n"), 1);
    assert_non_null(strstr(text, " info "));
    assert_non_null(strstr(text, "count=200 kinds=\"200 adopted\""));

    adopt(scene, 1, "new", now_ms);
    text = logged_by_look(scene, now_ms);
    assert_int_equal(count_of(text, "\n"), 1);
    assert_non_null(strstr(text, "warn  drift kind=adopted node=node-00000"));

    adopt(scene, 3, "seen-late", now_ms - DRIFT_ADOPTED_MS);
    text = logged_by_look(scene, now_ms);
    assert_int_equal(count_of(text, "\n"), 1);
    assert_non_null(strstr(text, "count=3 kinds=\"3 adopted\""));
}

SCENE_TEST(adopted_pods__are_one_warning_at_the_start_if_fresh)
{
    show_node(scene, 0);
    show_node(scene, 1);
    adopt(scene, 2, "new", 1000);
    const char *text = logged_by_look(scene, 1000);
    assert_int_equal(count_of(text, "\n"), 1);
    assert_non_null(strstr(text, " warn "));
    assert_non_null(strstr(text, "kinds=\"2 adopted\""));
    assert_null(strstr(logged_by_look(scene, 1000), "drift"));
}

/* One of each GPU and one of the node: nine a node, sixteen lines at most, the rest in one. */
SCENE_TEST(drift_log__has_a_few_lines_and_a_sum)
{
    for (uint32_t i = 0; i < 4; i++)
        fill_node(scene, i);
    assert_string_equal(logged_by_look(scene, 1), "");
    lose_node(scene, 0);
    assert_int_equal(count_of(logged_by_look(scene, 1), "\n"), GPUS + 1);
    lose_node(scene, 1);
    lose_node(scene, 2);
    const char *text = logged_by_look(scene, 1);
    assert_int_equal(count_of(text, "warn  drift kind="), 16);
    assert_int_equal(count_of(text, "\n"), 17);
    assert_non_null(strstr(text, "count=2 kinds=\"2 absent\""));
    lose_node(scene, 3); /* the next comparison has its own lines */
    assert_int_equal(count_of(logged_by_look(scene, 1), "\n"), GPUS + 1);
}

/* A node whose slot another took: its drift is gone, and the other node has only its own. */
SCENE_TEST(drift__goes_with_its_node)
{
    const struct command release = {
        .kind = COMMAND_RELEASE, .at_ms = 1, .uid = "uid-1", .why = "ended"};

    fill_node(scene, 1);
    lose_node(scene, 1);
    (void)look(scene);
    assert_int_equal(metric_sum(M_DRIFT, "kind="), GPUS + 1);
    run(scene, &release);
    show_node(scene, 2);
    (void)look(scene);
    assert_int_equal(metric_sum(M_DRIFT, "kind="), 0);
}
