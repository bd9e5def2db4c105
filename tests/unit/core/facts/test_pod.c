#include <stdint.h>
#include <string.h>

#include "milligpu/core/facts/pod.h"

#include "support/test.h"

struct scene {
    struct pod pod;
    struct pod_container container[2];
    struct pod_share share[2];
    char bytes[512];
};

static const struct toleration any = {"", "", TOLERATE_EXISTS, EFFECT_ANY};

/* A pod whose strings are in scene->bytes, so that the test can overwrite them. */
static void fill(struct scene *scene)
{
    char *at = scene->bytes;

    scene->container[0] =
        (struct pod_container){.name = text_lay(&at, "first"), .kind = CONTAINER_INIT};
    scene->container[1] = (struct pod_container){.name = text_lay(&at, "second"),
                                                 .amount = text_lay(&at, "300"),
                                                 .count = text_lay(&at, "2")};
    scene->share[0] = (struct pod_share){
        .container = text_lay(&at, "first"), .gpu = text_lay(&at, "GPU-a"), .mib = 4915};
    scene->share[1] = (struct pod_share){
        .container = text_lay(&at, "second"), .gpu = text_lay(&at, "GPU-b"), .index = 1};
    scene->pod = (struct pod){.uid = text_lay(&at, "uid-1"),
                              .namespace = text_lay(&at, "default"),
                              .name = text_lay(&at, "a"),
                              .resource_version = text_lay(&at, "4711"),
                              .node = text_lay(&at, "n1"),
                              .unreadable = text_lay(&at, "spec.overhead: no"),
                              .phase = POD_RUNNING,
                              .scheduled_ms = 17,
                              .n_containers = ARRAY_LEN(scene->container),
                              .container = scene->container,
                              .count = text_lay(&at, "3"),
                              .model = text_lay(&at, "A100"),
                              .memory = text_lay(&at, "40Gi"),
                              .topology = text_lay(&at, "numa"),
                              .n_odd_keys = ODD_KEYS_MAX,
                              .odd_key = {text_lay(&at, "x.io/a"), text_lay(&at, "x.io/b"),
                                          text_lay(&at, "x.io/c"), text_lay(&at, "x.io/d")},
                              .annotation = NOTE_BROKEN,
                              .signature = text_lay(&at, "v1:x"),
                              .note_text = text_lay(&at, "{"),
                              .note_error = text_lay(&at, "it is no JSON"),
                              .n_shares = ARRAY_LEN(scene->share),
                              .share = scene->share,
                              .demands = {.n_tolerations = 1, .toleration = &any}};
    scene->pod.scheduling =
        (struct pod_scheduling){text_lay(&at, "sched"), text_lay(&at, "gate"),
                                text_lay(&at, "reason"), text_lay(&at, "message"), 17};
    scene->pod.owner = (struct pod_owner){text_lay(&at, "kind"), text_lay(&at, "name"),
                                          text_lay(&at, "uid"), text_lay(&at, "rev"), true};
    assert_true(at <= scene->bytes + sizeof scene->bytes);
}

TEST(pod_keep__copies_deeply)
{
    struct arena arena;
    struct scene scene;

    arena_init(&arena);
    fill(&scene);
    const struct pod *kept = pod_keep(&scene.pod, &arena);
    memset(&scene, 'x', sizeof scene);
    assert_string_equal(kept->uid, "uid-1");
    assert_string_equal(kept->namespace, "default");
    assert_string_equal(kept->name, "a");
    assert_string_equal(kept->resource_version, "4711");
    assert_string_equal(kept->node, "n1");
    assert_string_equal(kept->unreadable, "spec.overhead: no");
    assert_int_equal(kept->phase, POD_RUNNING);
    assert_int_equal(kept->scheduled_ms, 17);
    assert_string_equal(kept->count, "3");
    assert_string_equal(kept->model, "A100");
    assert_string_equal(kept->memory, "40Gi");
    assert_string_equal(kept->topology, "numa");
    assert_int_equal(kept->n_odd_keys, ODD_KEYS_MAX);
    assert_string_equal(kept->odd_key[0], "x.io/a");
    assert_string_equal(kept->odd_key[1], "x.io/b");
    assert_string_equal(kept->odd_key[2], "x.io/c");
    assert_string_equal(kept->odd_key[3], "x.io/d");
    assert_int_equal(kept->annotation, NOTE_BROKEN);
    assert_string_equal(kept->signature, "v1:x");
    assert_string_equal(kept->note_text, "{");
    assert_string_equal(kept->note_error, "it is no JSON");
    assert_int_equal(kept->n_containers, 2);
    assert_string_equal(kept->container[0].name, "first");
    assert_int_equal(kept->container[0].kind, CONTAINER_INIT);
    assert_string_equal(kept->container[1].name, "second");
    assert_string_equal(kept->container[1].amount, "300");
    assert_string_equal(kept->container[1].count, "2");
    assert_int_equal(kept->n_shares, 2);
    assert_string_equal(kept->share[0].container, "first");
    assert_string_equal(kept->share[0].gpu, "GPU-a");
    assert_int_equal(kept->share[0].mib, 4915);
    assert_string_equal(kept->share[1].container, "second");
    assert_string_equal(kept->share[1].gpu, "GPU-b");
    assert_int_equal(kept->share[1].index, 1);
    assert_int_equal(kept->demands.n_tolerations, 1);
    assert_ptr_not_equal(kept->demands.toleration, &any);
    assert_int_equal(kept->demands.toleration[0].op, TOLERATE_EXISTS);
    assert_string_equal(kept->scheduling.scheduler, "sched");
    assert_string_equal(kept->scheduling.gates, "gate");
    assert_string_equal(kept->scheduling.reason, "reason");
    assert_string_equal(kept->scheduling.message, "message");
    assert_int_equal(kept->scheduling.since_ms, 17);
    assert_string_equal(kept->owner.kind, "kind");
    assert_string_equal(kept->owner.name, "name");
    assert_string_equal(kept->owner.uid, "uid");
    assert_string_equal(kept->owner.revision, "rev");
    assert_true(kept->owner.argo);
    arena_done(&arena);
}

TEST(pod_keep__leaves_absent_fields_absent)
{
    struct arena arena;
    struct pod_container container = {.name = "main"};
    const struct pod pod = {.uid = "uid-1",
                            .namespace = "default",
                            .name = "a",
                            .node = "",
                            .n_containers = 1,
                            .container = &container};

    arena_init(&arena);
    const struct pod *kept = pod_keep(&pod, &arena);
    assert_string_equal(kept->node, "");
    assert_null(kept->count);
    assert_null(kept->model);
    assert_null(kept->memory);
    assert_null(kept->topology);
    assert_null(kept->signature);
    assert_null(kept->note_text);
    assert_null(kept->note_error);
    assert_null(kept->container[0].amount);
    assert_null(kept->container[0].count);
    assert_int_equal(kept->n_shares, 0);
    arena_done(&arena);
}

TEST(pod_keep__takes_a_pod_without_containers)
{
    struct arena arena;
    const struct pod pod = {.uid = "uid-1", .namespace = "default", .name = "a", .node = "n1"};

    arena_init(&arena);
    const struct pod *kept = pod_keep(&pod, &arena);
    assert_string_equal(kept->uid, "uid-1");
    assert_int_equal(kept->n_containers, 0);
    assert_int_equal(kept->n_shares, 0);
    arena_done(&arena);
}

TEST(pod_owner__is_the_same_by_kind_name_and_uid)
{
    const struct pod_owner a = {"Job", "j", "1", NULL, false};
    const struct pod_owner equal = {"Job", "j", "1", "r", false};
    const struct pod_owner other[] = {{"Jab", "j", "1", NULL, false},
                                      {"Job", "k", "1", NULL, false},
                                      {"Job", "j", "2", NULL, false},
                                      {"Job", "j", NULL, NULL, false},
                                      {NULL, NULL, NULL, NULL, false}};
    const struct pod_owner none = {.kind = NULL};
    const struct pod_owner nameless = {"Deployment", "d", NULL, NULL, false};

    assert_true(pod_owner_same(&a, &equal));
    assert_true(pod_owner_same(&nameless, &nameless));
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        assert_false(pod_owner_same(&a, &other[i]));
        assert_false(pod_owner_same(&other[i], &a));
    }
    assert_false(pod_owner_same(&none, &none));
}

TEST(pod_owner__is_replaced_by_another_revision)
{
    const struct pod_owner a = {"Deployment", "d", NULL, "1", false};
    const struct pod_owner next = {"Deployment", "d", NULL, "2", false};
    const struct pod_owner unknown = {"Deployment", "d", NULL, NULL, false};
    const struct pod_owner other = {"Deployment", "e", NULL, "2", false};

    assert_true(pod_owner_replaces(&a, &next));
    assert_true(pod_owner_replaces(&next, &a));
    assert_false(pod_owner_replaces(&a, &a));
    assert_false(pod_owner_replaces(&a, &unknown));
    assert_false(pod_owner_replaces(&unknown, &a));
    assert_false(pod_owner_replaces(&a, &other));
}
