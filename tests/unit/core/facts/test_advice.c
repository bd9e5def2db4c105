/* What is probably a mistake, and what is said about it. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/core/facts/advice.h"

#include "support/test.h"

static const struct request_rules rules = {"nvidia.com/vgpu", 1, 1};

/* A pod of containers "web" and "db-main"; amounts NULL: they ask for nothing. */
struct scene {
    struct pod_container container[2];
    struct pod pod;
    struct advice advice;
};

static void start(struct scene *scene, const char *web, const char *db)
{
    *scene = (struct scene){
        .container = {{.name = "web", .amount = web}, {.name = "db-main", .amount = db}}};
    scene->pod = (struct pod){.uid = "u",
                              .namespace = "default",
                              .name = "p",
                              .node = "",
                              .ours = true,
                              .containers = 2,
                              .container = scene->container};
}

static void says(struct scene *scene, enum advice_kind kind, const char *word, const char *text)
{
    assert_true(advice_of(kind, &scene->pod, &rules, &scene->advice));
    assert_string_equal(scene->advice.word, word);
    assert_string_equal(scene->advice.text, text);
}

static void is_silent(struct scene *scene, enum advice_kind kind)
{
    if (advice_of(kind, &scene->pod, &rules, &scene->advice))
        fail_msg("%s", scene->advice.text);
}

static void odd_key(const char *key, const char *text)
{
    struct scene scene;

    if (!annotation_is_odd(text_of(key)))
        fail_msg("%s is not odd", key);
    start(&scene, "300", NULL);
    scene.pod.odd_keys = 1;
    scene.pod.odd_key[0] = key;
    says(&scene, ADVICE_ANNOTATION, "annotation", text);
}

TEST(a_key_that_is_nearly_ours_gets_the_nearest_of_ours)
{
    static const struct {
        const char *key;
        const char *meant;
    } row[] = {
        {"milligpu.io/gpu_model", "milligpu.io/gpu-model"},
        {"milligpu.io/gpumodel", "milligpu.io/gpu-model"},
        {"milligpu.io/gpu-modell", "milligpu.io/gpu-model"},
        {"milligpu.io/gpu-modells", "milligpu.io/gpu-model"},
        {"milligpu.io/gumodel", "milligpu.io/gpu-model"},
        {"milligpu.io/GPU-model", "milligpu.io/gpu-model"},
        {"milligpu.io/GPU.Model", "milligpu.io/gpu-model"},
        {"milligpu.io/Gpu-Mem", "milligpu.io/gpu-memory"},
        {"milligpu.io/gpu-co", "milligpu.io/gpu-count"},
        {"milligpu.io/gpu-memor", "milligpu.io/gpu-memory"},
        {"milligpu.io/model", "milligpu.io/gpu-model"},
        {"milligpu.io/models", "milligpu.io/gpu-model"},
        {"milligpu.io/memory", "milligpu.io/gpu-memory"},
        {"milligpu.io/topologie", "milligpu.io/topology"},
        {"milligpu.io/Topology", "milligpu.io/topology"},
        {"milligpu.io/topolo", "milligpu.io/topology"},
        {"milligpu.io/gpu-topology", "milligpu.io/topology"},
        {"milligpu.io/gpu-topologie", "milligpu.io/topology"},
        {"topology.milligpu.io/web", "milligpu.io/topology"},
        {"milligpu.io/count", "milligpu.io/gpu-count"},
        {"milligpu.io/gpus-count", "milligpu.io/gpu-count"},
        {"MilliGPU.io/gpu-count", "milligpu.io/gpu-count"},
        {"gpu.milligpu.io/gpu-memory", "milligpu.io/gpu-memory"},
        {"gpu-model.milligpu.io/web", "milligpu.io/gpu-model"},
        {"milligpu.com/gpu-model", "milligpu.io/gpu-model"},
        {"milli-gpu.io/gpu-model", "milligpu.io/gpu-model"},
        {"milligpu/gpu-model", "milligpu.io/gpu-model"},
        {"milligup.io/gpu_count", "milligpu.io/gpu-count"},
        {"gpucount.milligpu.io/web", "gpu-count.milligpu.io/web"},
        {"GPU-count.milligpu.io/web", "gpu-count.milligpu.io/web"},
        {"gpu-count.milligpu.com/web", "gpu-count.milligpu.io/web"},
        {"gpu-cuont.miligpu.io/web", "gpu-count.milligpu.io/web"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "annotation %s has no effect; did you mean %s?",
                       row[i].key, row[i].meant);
        odd_key(row[i].key, text);
    }
}

TEST(a_key_of_ours_that_is_near_none_gets_them_all)
{
    static const char *const key[] = {
        "milligpu.io/priority",
        "milligpu.io/",
        "milligpu.io/node",
        "milligpu.io/gpu-m",
        "milligpu.io/topol",
        "milligpu.io/topo",
        "milligpu.io/gpu",
        "team.milligpu.io/x",
        "a.b.milligpu.io/x",
        "milligpu.io/a-name-that-is-longer-than-any-word-of-ours-and-of-its-neighbors-x",
    };
    for (size_t i = 0; i < ARRAY_LEN(key); i++) {
        char text[300];
        (void)snprintf(text, sizeof text,
                       "annotation %s has no effect; milligpu reads milligpu.io/gpu-count, "
                       "gpu-model, gpu-memory and topology, and gpu-count.milligpu.io/CONTAINER",
                       key[i]);
        odd_key(key[i], text);
    }
}

TEST(other_keys_are_left_alone)
{
    static const char *const key[] = {
        /* read by milligpu */
        "milligpu.io/gpu-count",
        "milligpu.io/gpu-model",
        "milligpu.io/gpu-memory",
        "milligpu.io/topology",
        "gpu-count.milligpu.io/web",
        /* written by milligpu, the node side and operators */
        "milligpu.io/allocation",
        "milligpu.io/visible-devices",
        "visible-devices.milligpu.io/web",
        "milligpu.io/gpus",
        "milligpu.io/cordon",
        "milligpu.io/bell",
        /* of others */
        "",
        "/",
        "gpu-model",
        "gpu-count.milligpu.io",
        "nvidia.com/gpu-model",
        "kubernetes.io/gpu-model",
        "example.com/gpu-count",
        "gpu-count.example.com/web",
        "kubectl.kubernetes.io/last-applied-configuration",
        "milligpu.com/allocation",
        "milligpu.com/node",
        "milligpu.com/modles",
        "notmilligpu.io/x",
        "millgpuus.io/gpu-model",
        "app.milligpu.com/gpu-model",
        "gpu-model.milligpu.com/web",
        "gpu-counters.milligpu.com/web",
    };
    for (size_t i = 0; i < ARRAY_LEN(key); i++)
        if (annotation_is_odd(text_of(key[i])))
            fail_msg("%s is odd", key[i]);
    assert_false(annotation_is_odd((struct text){0}));
}

TEST(a_count_for_no_container_gets_the_nearest_that_asks)
{
    struct scene scene;
    char text[200];
    static const struct {
        const char *name;
        const char *meant;
    } row[] = {
        {"wbe", "; did you mean gpu-count.milligpu.io/web?"},
        {"we", "; did you mean gpu-count.milligpu.io/web?"},
        {"db-mian", ""}, /* it asks for nothing */
        {"cache", ""},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char key[64];
        start(&scene, "300", NULL);
        (void)snprintf(key, sizeof key, "gpu-count.milligpu.io/%s", row[i].name);
        scene.pod.odd_keys = 1;
        scene.pod.odd_key[0] = key;
        (void)snprintf(text, sizeof text, "annotation %s names no container of the pod%s", key,
                       row[i].meant);
        says(&scene, ADVICE_ANNOTATION, "annotation", text);
    }
    start(&scene, "300", "300");
    scene.pod.odd_keys = 1;
    scene.pod.odd_key[0] = "gpu-count.milligpu.io/db-mian";
    says(&scene, ADVICE_ANNOTATION, "annotation",
         "annotation gpu-count.milligpu.io/db-mian names no container of the pod; did you mean "
         "gpu-count.milligpu.io/db-main?");
    scene.container[0].name = "db-mxxn"; /* two are near: the nearer, and of equals the first */
    scene.container[1].name = "db-mia";
    says(&scene, ADVICE_ANNOTATION, "annotation",
         "annotation gpu-count.milligpu.io/db-mian names no container of the pod; did you mean "
         "gpu-count.milligpu.io/db-mia?");
    scene.container[0].name = "db-mia1";
    scene.container[1].name = "db-mia2";
    says(&scene, ADVICE_ANNOTATION, "annotation",
         "annotation gpu-count.milligpu.io/db-mian names no container of the pod; did you mean "
         "gpu-count.milligpu.io/db-mia1?");
}

TEST(names_of_any_length_are_compared_only_if_words_are_that_long)
{
    struct scene scene;
    char name[TEXT_DISTANCE_MAX + 2];
    char key[128];

    for (size_t len = TEXT_DISTANCE_MAX; len <= TEXT_DISTANCE_MAX + 1; len++) {
        memset(name, 'a', len);
        name[len] = '\0';
        start(&scene, "300", NULL);
        scene.container[0].name = name;
        (void)snprintf(key, sizeof key, "gpu-count.milligpu.io/b%s", name + 1);
        scene.pod.odd_keys = 1;
        scene.pod.odd_key[0] = key;
        assert_true(advice_of(ADVICE_ANNOTATION, &scene.pod, &rules, &scene.advice));
        assert_int_equal(strstr(scene.advice.text, "did you mean") != NULL,
                         len <= TEXT_DISTANCE_MAX);
    }
}

TEST(beyond_the_last_container_nothing_is_looked_at)
{
    struct scene scene;

    start(&scene, "300", "1");
    scene.pod.containers = 1;
    is_silent(&scene, ADVICE_AMOUNT);
}

TEST(of_very_many_containers_the_first_are_compared)
{
    struct scene scene;
    struct pod_container *container = test_calloc(CONTAINERS_MAX + 1, sizeof *container);

    start(&scene, NULL, NULL);
    for (size_t i = 0; i <= CONTAINERS_MAX; i++)
        container[i] = (struct pod_container){.name = "other", .amount = "300"};
    scene.pod.container = container;
    scene.pod.odd_keys = 1;
    scene.pod.odd_key[0] = "gpu-count.milligpu.io/wbe";
    for (uint32_t at = CONTAINERS_MAX - 1; at <= CONTAINERS_MAX; at++) {
        scene.pod.containers = at + 1;
        container[at].name = "web";
        assert_true(advice_of(ADVICE_ANNOTATION, &scene.pod, &rules, &scene.advice));
        assert_int_equal(strstr(scene.advice.text, "did you mean") != NULL, at < CONTAINERS_MAX);
        container[at].name = "other";
    }
    test_free(container);
}

TEST(several_keys_are_told_in_one_text_that_is_safe_to_show)
{
    struct scene scene;
    char key[600] = "milligpu.io/";

    start(&scene, "300", NULL);
    is_silent(&scene, ADVICE_ANNOTATION);
    scene.pod.odd_keys = 2;
    scene.pod.odd_key[0] = "milligpu.io/model";
    scene.pod.odd_key[1] = "milligpu.io/\x1b[2J";
    says(&scene, ADVICE_ANNOTATION, "annotation",
         "annotation milligpu.io/model has no effect; did you mean milligpu.io/gpu-model?; "
         "annotation milligpu.io/\\u001b[2J has no effect; milligpu reads milligpu.io/gpu-count, "
         "gpu-model, gpu-memory and topology, and gpu-count.milligpu.io/CONTAINER");
    memset(key + strlen(key), 'x', sizeof key - 1 - strlen(key));
    scene.pod.odd_keys = ODD_KEYS_MAX;
    for (uint32_t i = 0; i < ODD_KEYS_MAX; i++)
        scene.pod.odd_key[i] = key;
    assert_true(advice_of(ADVICE_ANNOTATION, &scene.pod, &rules, &scene.advice));
    /* every key is there: the last one, too, with its advice */
    const char *at = scene.advice.text;
    for (uint32_t i = 0; i < ODD_KEYS_MAX; i++) {
        at = strstr(at, "xxx... has no effect");
        assert_non_null(at);
        at++;
    }
    assert_non_null(strstr(at, "CONTAINER"));
}

TEST(a_tiny_amount_that_is_granted_is_asked_about)
{
    struct scene scene;

    start(&scene, "1", NULL);
    says(&scene, ADVICE_AMOUNT, "tiny",
         "container web: nvidia.com/vgpu: 1 is 1 thousandth of a GPU; 1000 is one whole GPU; did "
         "you mean 1000?");
    start(&scene, "500", "2e0");
    says(&scene, ADVICE_AMOUNT, "tiny",
         "container db-main: nvidia.com/vgpu: 2e0 is 2 thousandths of a GPU; 1000 is one whole "
         "GPU; did you mean 2000?");
    start(&scene, "16", "3");
    says(&scene, ADVICE_AMOUNT, "tiny",
         "container web: nvidia.com/vgpu: 16 is 16 thousandths of a GPU; 1000 is one whole GPU; "
         "did you mean 16000?");
    start(&scene, "17", "0");
    is_silent(&scene, ADVICE_AMOUNT);
    start(&scene, "0", NULL);
    is_silent(&scene, ADVICE_AMOUNT);
    start(&scene, NULL, NULL);
    is_silent(&scene, ADVICE_AMOUNT);
    scene.pod.whole_gpus = 1;
    is_silent(&scene, ADVICE_AMOUNT);
}

TEST(an_amount_that_is_refused_is_told_with_its_reason)
{
    static const struct request_rules strict = {"nvidia.com/vgpu", 50, 20};
    struct scene scene;

    start(&scene, "1500", NULL);
    says(&scene, ADVICE_AMOUNT, "amount",
         "nvidia.com/vgpu: 1500 is neither at most 1000 nor a multiple of 1000; ask for 1000 or "
         "2000");
    start(&scene, "2", NULL);
    assert_true(advice_of(ADVICE_AMOUNT, &scene.pod, &strict, &scene.advice));
    assert_string_equal(scene.advice.word, "minimum");
    assert_string_equal(scene.advice.text, "nvidia.com/vgpu: 2 is below the minimum of 50; 1000 is "
                                           "one whole GPU; did you mean 2000?");
    start(&scene, "70", NULL);
    assert_true(advice_of(ADVICE_AMOUNT, &scene.pod, &strict, &scene.advice));
    assert_string_equal(scene.advice.word, "step");
    assert_string_equal(scene.advice.text,
                        "nvidia.com/vgpu: 70 is not a multiple of 20; ask for 60 or 80");
    /* what runs was granted, by rules of then */
    start(&scene, "1500", NULL);
    scene.pod.node = "n1";
    is_silent(&scene, ADVICE_AMOUNT);
    /* another fault of the request: kube-scheduler says it */
    start(&scene, "300", NULL);
    scene.pod.model = ",";
    is_silent(&scene, ADVICE_AMOUNT);
    scene.pod.model = NULL;
    scene.pod.count = "7";
    is_silent(&scene, ADVICE_AMOUNT);
}
