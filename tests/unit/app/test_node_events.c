/*
 * Watch events of Nodes that change nothing are dropped before they are decoded, and no event that
 * could change something is. The test is the API server of the Nodes; the rest is the application.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/sync/node_digests.h"

#include "support/metric_sum.h"
#include "support/test.h"
#include "support_fixture.h"

/* An informer of its own, whose requests are noted and answered by the test. */
struct scene {
    struct app_fixture *fixture;
    struct kube_ops ops;
    struct informer *informer;
    uint64_t request; /* the last one about Nodes */
    uint32_t lists;   /* of Nodes */
    uint32_t version;
    int64_t restarts; /* of watches, before this test */
};

static int note_request(void *ctx, const struct kube_request *request, struct err *err)
{
    struct scene *scene = ctx;

    (void)err;
    if (strncmp(request->path, "/api/v1/nodes?", 14) == 0) {
        scene->request = request->id;
        scene->lists += strstr(request->path, "watch=1") == NULL;
    }
    return 0;
}

static void ignore_cancel(void *ctx, uint64_t id)
{
    (void)ctx;
    (void)id;
}

static void answer(struct scene *scene, enum kube_piece piece, const char *data)
{
    const struct kube_answer answer = {
        .id = scene->request, .piece = piece, .status = 200, .data = text_of(data)};

    informer_answer(scene->informer, scene->fixture->now_ms, &answer);
}

/* Lets the writer handle what is queued; returns the number of messages. */
static size_t handled(struct scene *scene)
{
    const size_t depth = queue_depth(scene->fixture->app.queue);

    while (writer_step(scene->fixture->parts.writer, 0) > 0)
        continue;
    return depth;
}

static void step(struct scene *scene)
{
    scene->fixture->now_ms += 60000;
    (void)informer_step(scene->informer, scene->fixture->now_ms);
}

/* Answers the list of Nodes that is due, and begins the watch. items: as JSON has them. */
static void list(struct scene *scene, const char *items)
{
    char page[1024];

    (void)snprintf(page, sizeof page, "{\"metadata\":{\"resourceVersion\":\"%u\"},\"items\":[%s]}",
                   ++scene->version, items);
    step(scene);
    answer(scene, KUBE_HEAD, "");
    answer(scene, KUBE_DATA, page);
    answer(scene, KUBE_DONE, "");
    step(scene);
    answer(scene, KUBE_HEAD, "");
}

/* A Node at its next version. rest: further members of the object, with a comma before them. */
static void put_node(struct scene *scene, const char *name, const char *rest, char out[512])
{
    const int len =
        snprintf(out, 512,
                 "{\"metadata\":{\"name\":\"%s\",\"uid\":\"uid-%s\",\"resourceVersion\":\"%u\"}%s}",
                 name, name, ++scene->version, rest);

    assert_in_range(len, 1, 511);
}

static void send(struct scene *scene, const char *type, const char *name, const char *rest)
{
    char object[512];
    char line[600];

    put_node(scene, name, rest, object);
    (void)snprintf(line, sizeof line, "{\"type\":\"%s\",\"object\":%s}\n", type, object);
    answer(scene, KUBE_DATA, line);
}

/* Sends a watch event; returns the number of messages that it caused, and lets them be handled. */
static size_t shows(struct scene *scene, const char *type, const char *name, const char *rest)
{
    send(scene, type, name, rest);
    return handled(scene);
}

#define MILLI(amount)                                                                              \
    ",\"status\":{\"capacity\":{\"nvidia.com/vgpu\":\"" amount "\"},\"allocatable\":{"             \
    "\"nvidia.com/vgpu\":\"" amount "\"}}"
static const char one_gpu[] = MILLI("1000");
static const char no_gpu[] = "";

/* The number of GPUs that the snapshot shows. */
static uint32_t gpus(const struct scene *scene, const char *name)
{
    CLEANUP(snapshot_unrefp)
    const struct snapshot *snapshot = view_take(scene->fixture->app.view);
    const struct node *node = snapshot_node(snapshot, text_of(name));

    return node != NULL && !node->gone ? node->n_gpus : 0;
}

static int set_up(void **state)
{
    static struct scene scene;

    scene = (struct scene){.fixture = fixture_new(NULL), .version = 100};
    scene.restarts = metric_sum(M_WATCH_RESTARTS, "nodes");
    scene.ops = (struct kube_ops){.ctx = &scene, .start = note_request, .cancel = ignore_cancel};
    scene.informer = informer_new(&scene.fixture->app, &scene.ops);
    list(&scene, "");
    (void)handled(&scene);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    informer_free(scene->informer);
    fixture_free(scene->fixture);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, struct scene *scene, set_up, tear_down)

/* The first event changes the ledger; the second shows that a repetition changes nothing. */
static void show_twice(struct scene *scene, const char *name, const char *rest)
{
    assert_int_equal(shows(scene, "MODIFIED", name, rest), 1);
    assert_int_equal(shows(scene, "MODIFIED", name, rest), 1);
    assert_int_equal(shows(scene, "MODIFIED", name, rest), 0);
}

SCENE_TEST(heartbeat__is_dropped_once_it_has_changed_nothing)
{
    show_twice(scene, "n1", one_gpu);
    atomic_store(&scene->fixture->app.watch.nodes_seen_ms, 0);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 0);
    step(scene);
    assert_int_not_equal(atomic_load(&scene->fixture->app.watch.nodes_seen_ms), 0);
    show_twice(scene, "n2", no_gpu);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 0);
}

SCENE_TEST(node_event__is_handled_when_the_object_changed)
{
    show_twice(scene, "n1", one_gpu);
    assert_int_equal(shows(scene, "MODIFIED", "n1", MILLI("3000")), 1);
    assert_int_equal(gpus(scene, "n1"), 3);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 1);
    assert_int_equal(gpus(scene, "n1"), 1);
    /* The ledger has nothing of it that would be changed. */
    show_twice(scene, "n2", no_gpu);
    assert_int_equal(shows(scene, "MODIFIED", "n2", ",\"spec\":{}"), 1);
    assert_int_equal(shows(scene, "MODIFIED", "n2", no_gpu), 1);
    assert_int_equal(shows(scene, "MODIFIED", "n2", no_gpu), 0);
}

/* A pod that has come or ended since may leave something that the event repairs. */
SCENE_TEST(node_event__is_handled_after_the_ledgers_node_changed)
{
    show_twice(scene, "n1", one_gpu);
    fixture_bound_pod(scene->fixture, "a", "300", "n1");
    fixture_run(scene->fixture);
    assert_int_equal(fixture_taken(scene->fixture, "n1"), 300);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 1);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 0);
    fixture_end_pod(scene->fixture, "a");
    fixture_run(scene->fixture);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 1);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 0);
}

/* A Node comes back as it was, before the writer has handled its deletion. */
SCENE_TEST(node_event__is_handled_after_a_deletion)
{
    (void)shows(scene, "ADDED", "n1", one_gpu);
    (void)shows(scene, "ADDED", "n1", one_gpu);
    send(scene, "DELETED", "n1", one_gpu);
    assert_int_equal(shows(scene, "ADDED", "n1", one_gpu), 2);
    assert_int_equal(gpus(scene, "n1"), 1);
}

/* A Node comes back as it was, before the writer has handled a list that lacks it. */
SCENE_TEST(node_event__is_handled_after_a_list)
{
    const uint32_t lists = scene->lists;
    char n2[512];

    (void)shows(scene, "ADDED", "n1", one_gpu);
    (void)shows(scene, "ADDED", "n1", one_gpu);
    answer(scene, KUBE_DATA,
           "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,"
           "\"reason\":\"Expired\"}}\n");
    put_node(scene, "n2", no_gpu, n2);
    list(scene, n2);
    assert_int_equal(scene->lists, lists + 1);
    (void)shows(scene, "ADDED", "n1", one_gpu);
    assert_int_equal(gpus(scene, "n1"), 1);
}

/* An unreadable Node is counted each time, and it is no heartbeat of what it was before. */
SCENE_TEST(node_event__is_handled_when_it_can_be_read_only_in_part)
{
    static const char unreadable[] = ",\"status\":{\"capacity\":{\"nvidia.com/vgpu\":[]}}";
    const int64_t counted = metric_sum(M_UNREADABLE, "nodes");

    show_twice(scene, "n2", no_gpu);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(shows(scene, "MODIFIED", "n2", unreadable), 1);
        assert_int_equal(metric_sum(M_UNREADABLE, "nodes"), counted + i);
    }
    send(scene, "MODIFIED", "n2", no_gpu);
    send(scene, "MODIFIED", "n2", unreadable);
    assert_int_equal(shows(scene, "MODIFIED", "n2", no_gpu), 3);
}

/* The reader refuses a condition that is no object as a digest, and skips it as a condition. */
SCENE_TEST(node_event__is_handled_when_it_has_no_digest)
{
    static const char odd[] = ",\"status\":{\"conditions\":[7]}";

    show_twice(scene, "n2", no_gpu);
    assert_int_equal(shows(scene, "MODIFIED", "n2", odd), 1);
    assert_int_equal(shows(scene, "MODIFIED", "n2", odd), 1);
    assert_int_equal(shows(scene, "MODIFIED", "n2", no_gpu), 1);
}

/* Each event may write the capacity again. */
SCENE_TEST(node_event__is_handled_when_capacity_is_advertised)
{
    scene->fixture->app.rules.inventory_rules.advertise = true;
    for (int i = 0; i < 4; i++)
        assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 1);
}

/* As if it were full. */
SCENE_TEST(node_event__is_handled_while_the_ledger_has_no_place_for_the_node)
{
    safe_mode_enter(&scene->fixture->app, SAFE_MEMORY, "a test");
    for (int i = 0; i < 4; i++)
        assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 1);
}

/* Messages of a lost batch are kept and handled again: a heartbeat adds nothing. */
SCENE_TEST(heartbeat__is_dropped_while_its_node_waits_for_the_disk)
{
    scene->fixture->disk_full = true;
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 1);
    assert_int_equal(gpus(scene, "n1"), 0);
    (void)shows(scene, "MODIFIED", "n1", one_gpu);
    scene->fixture->disk_full = false;
    fixture_pass(scene->fixture, 2000);
    assert_int_equal(gpus(scene, "n1"), 1);
    (void)shows(scene, "MODIFIED", "n1", one_gpu);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 0);
}

/* The message was dropped, so the writer does not know the Node. */
SCENE_TEST(node_event__is_not_remembered_when_milligpud_is_stopping)
{
    struct app *app = &scene->fixture->app;
    struct node_digest digest;
    struct arena arena;
    char object[512];
    char line[600];

    arena_init(&arena);
    queue_close(app->queue);
    assert_int_equal(shows(scene, "MODIFIED", "n1", one_gpu), 0);
    put_node(scene, "n1", one_gpu, object);
    (void)snprintf(line, sizeof line, "{\"type\":\"MODIFIED\",\"object\":%s}", object);
    assert_true(node_digest(text_of(line), node_digests_key(app->node_digests), &arena, &digest));
    assert_false(node_digests_has(app->node_digests, &digest));
    arena_done(&arena);
}

/* The first watch is no restart, and each later one is one. */
SCENE_TEST(watch_restarts__count_all_watches_but_the_first)
{
    assert_int_equal(metric_sum(M_WATCH_RESTARTS, "nodes"), scene->restarts);
    for (uint32_t i = 1; i <= 3; i++) {
        answer(scene, KUBE_DONE, "");
        step(scene);
        assert_int_equal(metric_sum(M_WATCH_RESTARTS, "nodes"), scene->restarts + i);
        answer(scene, KUBE_HEAD, "");
    }
}
