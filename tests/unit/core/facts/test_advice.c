/* Advice about probable mistakes of a pod: its texts, and the pods that get none. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/core/facts/advice.h"

#include "support/pieces.h"
#include "support/test.h"

static const struct request_rules rules = {"nvidia.com/vgpu", 1, 1};

/* A pod of containers "web" and "db-main"; an amount NULL requests nothing. */
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
                              .n_containers = 2,
                              .container = scene->container};
}

static void says_by(struct scene *scene, const struct request_rules *by, enum advice_kind kind,
                    const char *word, const char *text)
{
    assert_true(advice_of(kind, &scene->pod, by, &scene->advice));
    assert_string_equal(scene->advice.word, word);
    assert_string_equal(scene->advice.text, text);
}

static void says(struct scene *scene, enum advice_kind kind, const char *word, const char *text)
{
    says_by(scene, &rules, kind, word, text);
}

static void is_silent(struct scene *scene, enum advice_kind kind)
{
    if (advice_of(kind, &scene->pod, &rules, &scene->advice))
        fail_msg("%s", scene->advice.text);
}

static void set_key(struct scene *scene, const char *key)
{
    scene->pod.n_odd_keys = 1;
    scene->pod.odd_key[0] = key;
}

/* The advice about this key; what: its text after the key. */
static void odd_key(const char *key, const char *what)
{
    struct scene scene;
    char text[300];

    if (!annotation_is_odd(text_of(key)))
        fail_msg("%s is not odd", key);
    start(&scene, "300", NULL);
    set_key(&scene, key);
    (void)snprintf(text, sizeof text, "annotation %s %s", key, what);
    says(&scene, ADVICE_ANNOTATION, "annotation", text);
}

/* Each of the keys, separated by blanks, gets this advice. */
static void odd_keys(const char *keys, const char *what)
{
    for (struct pieces list = {.rest = text_of(keys)}; pieces_next(&list, ' ');)
        odd_key(list.text, what);
}

TEST(annotation_key__near_one_of_ours_gets_the_nearest)
{
    odd_keys("milligpu.io/gpu_model milligpu.io/gpumodel milligpu.io/gpu-modell "
             "milligpu.io/gpu-modells milligpu.io/gumodel milligpu.io/GPU-model "
             "milligpu.io/GPU.Model milligpu.io/model milligpu.io/models "
             "gpu-model.milligpu.io/web milligpu.com/gpu-model milli-gpu.io/gpu-model "
             "milligpu/gpu-model",
             "has no effect; did you mean milligpu.io/gpu-model?");
    odd_keys("milligpu.io/Gpu-Mem milligpu.io/gpu-memor milligpu.io/memory "
             "gpu.milligpu.io/gpu-memory",
             "has no effect; did you mean milligpu.io/gpu-memory?");
    odd_keys("milligpu.io/gpu-co milligpu.io/count milligpu.io/gpus-count "
             "MilliGPU.io/gpu-count milligup.io/gpu_count",
             "has no effect; did you mean milligpu.io/gpu-count?");
    odd_keys("milligpu.io/topologie milligpu.io/Topology milligpu.io/topolo "
             "milligpu.io/gpu-topology milligpu.io/gpu-topologie topology.milligpu.io/web",
             "has no effect; did you mean milligpu.io/topology?");
    odd_keys("gpucount.milligpu.io/web GPU-count.milligpu.io/web gpu-count.milligpu.com/web "
             "gpu-cuont.miligpu.io/web",
             "has no effect; did you mean gpu-count.milligpu.io/web?");
}

TEST(annotation_key__near_none_of_ours_gets_them_all)
{
    odd_keys("milligpu.io/priority milligpu.io/ milligpu.io/node milligpu.io/gpu-m "
             "milligpu.io/topol milligpu.io/topo milligpu.io/gpu team.milligpu.io/x "
             "a.b.milligpu.io/x "
             "milligpu.io/a-name-that-is-longer-than-any-word-of-ours-and-of-its-neighbors-x",
             "has no effect; milligpu reads milligpu.io/gpu-count, gpu-model, gpu-memory and "
             "topology, and gpu-count.milligpu.io/CONTAINER");
}

static void not_odd(const char *keys)
{
    for (struct pieces list = {.rest = text_of(keys)}; pieces_next(&list, ' ');)
        if (annotation_is_odd(text_of(list.text)))
            fail_msg("%s is odd", list.text);
}

TEST(annotation_key__of_others_is_not_odd)
{
    /* read by milligpu */
    not_odd("milligpu.io/gpu-count milligpu.io/gpu-model milligpu.io/gpu-memory "
            "milligpu.io/topology gpu-count.milligpu.io/web");
    /* written by milligpu, the node side and operators */
    not_odd("milligpu.io/allocation milligpu.io/visible-devices "
            "visible-devices.milligpu.io/web milligpu.io/gpus milligpu.io/cordon "
            "milligpu.io/bell");
    /* keys of other programs */
    not_odd("/ gpu-model gpu-count.milligpu.io nvidia.com/gpu-model kubernetes.io/gpu-model "
            "example.com/gpu-count gpu-count.example.com/web "
            "kubectl.kubernetes.io/last-applied-configuration milligpu.com/allocation "
            "milligpu.com/node milligpu.com/modles notmilligpu.io/x millgpuus.io/gpu-model "
            "app.milligpu.com/gpu-model gpu-model.milligpu.com/web "
            "gpu-counters.milligpu.com/web");
    assert_false(annotation_is_odd(TEXT("")));
    assert_false(annotation_is_odd((struct text){0}));
}

TEST(advice__names_the_nearest_container_that_asks)
{
    static const struct {
        const char *key; /* container name in the annotation key */
        const char *first;
        const char *second;
        const char *db; /* amount of the second container */
        const char *meant;
    } row[] = {
        {"wbe", "web", "db-main", NULL, "web"},
        {"we", "web", "db-main", NULL, "web"},
        {"db-mian", "web", "db-main", NULL, NULL}, /* its amount is NULL */
        {"cache", "web", "db-main", NULL, NULL},
        {"", "web", "db-main", NULL, NULL},
        {"db-mian", "web", "db-main", "300", "db-main"},
        {"db-mian", "db-mxxn", "db-mia", "300", "db-mia"},   /* the nearer of two */
        {"db-mian", "db-mia1", "db-mia2", "300", "db-mia1"}, /* the first of equals */
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct scene scene;
        char key[64];
        char meant[64] = "";
        char text[200];
        start(&scene, "300", row[i].db);
        scene.container[0].name = row[i].first;
        scene.container[1].name = row[i].second;
        (void)snprintf(key, sizeof key, "gpu-count.milligpu.io/%s", row[i].key);
        set_key(&scene, key);
        if (row[i].meant != NULL)
            (void)snprintf(meant, sizeof meant, "; did you mean gpu-count.milligpu.io/%s?",
                           row[i].meant);
        (void)snprintf(text, sizeof text, "annotation %s names no container of the pod%s", key,
                       meant);
        says(&scene, ADVICE_ANNOTATION, "annotation", text);
    }
}

TEST(container_name__is_compared_up_to_64_bytes)
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
        set_key(&scene, key);
        assert_true(advice_of(ADVICE_ANNOTATION, &scene.pod, &rules, &scene.advice));
        assert_int_equal(strstr(scene.advice.text, "did you mean") != NULL,
                         len <= TEXT_DISTANCE_MAX);
    }
}

TEST(container_name__is_compared_with_the_first_128)
{
    struct scene scene;
    struct pod_container *container = test_calloc(CONTAINERS_MAX + 1, sizeof *container);

    start(&scene, NULL, NULL);
    for (size_t i = 0; i <= CONTAINERS_MAX; i++)
        container[i] = (struct pod_container){.name = "other", .amount = "300"};
    scene.pod.container = container;
    set_key(&scene, "gpu-count.milligpu.io/wbe");
    for (uint32_t at = CONTAINERS_MAX - 1; at <= CONTAINERS_MAX; at++) {
        scene.pod.n_containers = at + 1;
        container[at].name = "web";
        assert_true(advice_of(ADVICE_ANNOTATION, &scene.pod, &rules, &scene.advice));
        assert_int_equal(strstr(scene.advice.text, "did you mean") != NULL, at < CONTAINERS_MAX);
        container[at].name = "other";
    }
    test_free(container);
}

TEST(advice__lists_all_keys_in_one_printable_text)
{
    struct scene scene;
    char key[600] = "milligpu.io/";

    start(&scene, "300", NULL);
    is_silent(&scene, ADVICE_ANNOTATION);
    scene.pod.n_odd_keys = 2;
    scene.pod.odd_key[0] = "milligpu.io/model";
    scene.pod.odd_key[1] = "milligpu.io/\x1b[2J";
    says(&scene, ADVICE_ANNOTATION, "annotation",
         "annotation milligpu.io/model has no effect; did you mean milligpu.io/gpu-model?; "
         "annotation milligpu.io/\\u001b[2J has no effect; milligpu reads milligpu.io/gpu-count, "
         "gpu-model, gpu-memory and topology, and gpu-count.milligpu.io/CONTAINER");
    memset(key + strlen(key), 'x', sizeof key - 1 - strlen(key));
    scene.pod.n_odd_keys = ODD_KEYS_MAX;
    for (uint32_t i = 0; i < ODD_KEYS_MAX; i++)
        scene.pod.odd_key[i] = key;
    assert_true(advice_of(ADVICE_ANNOTATION, &scene.pod, &rules, &scene.advice));
    /* all keys are present, each with its advice */
    const char *at = scene.advice.text;
    for (uint32_t i = 0; i < ODD_KEYS_MAX; i++) {
        at = strstr(at, "xxx... has no effect");
        assert_non_null(at);
        at++;
    }
    assert_non_null(strstr(at, "CONTAINER"));
}

TEST(advice__questions_a_tiny_amount)
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
    start(&scene, "300", "1");
    scene.pod.n_containers = 1; /* later containers are not read */
    is_silent(&scene, ADVICE_AMOUNT);
    start(&scene, "17", "0");
    is_silent(&scene, ADVICE_AMOUNT);
    start(&scene, "0", NULL);
    is_silent(&scene, ADVICE_AMOUNT);
    start(&scene, NULL, NULL);
    is_silent(&scene, ADVICE_AMOUNT);
    scene.pod.whole_gpus = 1;
    is_silent(&scene, ADVICE_AMOUNT);
}

TEST(advice__repeats_the_refusal_of_an_amount)
{
    static const struct request_rules strict = {"nvidia.com/vgpu", 50, 20};
    struct scene scene;

    start(&scene, "1500", NULL);
    says(&scene, ADVICE_AMOUNT, "amount",
         "nvidia.com/vgpu: 1500 is neither at most 1000 nor a multiple of 1000; ask for 1000 or "
         "2000");
    start(&scene, "2", NULL);
    says_by(&scene, &strict, ADVICE_AMOUNT, "minimum",
            "nvidia.com/vgpu: 2 is below the minimum of 50; 1000 is one whole GPU; did you mean "
            "2000?");
    start(&scene, "70", NULL);
    says_by(&scene, &strict, ADVICE_AMOUNT, "step",
            "nvidia.com/vgpu: 70 is not a multiple of 20; ask for 60 or 80");
    /* a bound pod was granted under earlier settings */
    start(&scene, "1500", NULL);
    scene.pod.node = "n1";
    is_silent(&scene, ADVICE_AMOUNT);
    /* kube-scheduler reports other faults of the request */
    start(&scene, "300", NULL);
    scene.pod.model = ",";
    is_silent(&scene, ADVICE_AMOUNT);
    scene.pod.model = NULL;
    scene.pod.count = "7";
    is_silent(&scene, ADVICE_AMOUNT);
}
