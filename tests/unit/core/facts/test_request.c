/* The cases that need no C are in tests/table/request.txt. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/request.h"

#include "support/test.h"

/* One pod and the result of parsing it. */
struct fixture {
    struct arena arena;
    struct pod pod;
    struct pod_container container[CONTAINERS_MAX + 2];
    char name[CONTAINERS_MAX + 2][8];
    struct request_rules rules;
    struct request request;
    struct refusal refusal;
};

static struct fixture fixture;

static void start(void)
{
    arena_reset(&fixture.arena);
    fixture.pod = (struct pod){.uid = "u", .namespace = "default", .name = "web", .node = ""};
    fixture.pod.container = fixture.container;
    fixture.rules = (struct request_rules){"nvidia.com/vgpu", 1, 1};
}

/* Adds a container that names the resource. */
static struct pod_container *add(enum container_kind kind, const char *amount)
{
    const uint32_t i = fixture.pod.n_containers++;
    (void)snprintf(fixture.name[i], sizeof fixture.name[i], "c%u", i);
    fixture.container[i] = (struct pod_container){fixture.name[i], kind, amount, NULL};
    return &fixture.container[i];
}

static enum request_verdict parse(void)
{
    return request_parse(&fixture.pod, &fixture.rules, &fixture.arena, &fixture.request,
                         &fixture.refusal);
}

static enum request_verdict parse_bound(void)
{
    fixture.pod.node = "n1";
    return request_parse_bound(&fixture.pod, &fixture.rules, &fixture.arena, &fixture.request,
                               &fixture.refusal);
}

static void assert_refused(enum reason why, const char *text)
{
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_string_equal(fixture.refusal.text, text);
    assert_int_equal(fixture.refusal.why, why);
}

static void assert_want(uint32_t i, uint32_t parts, uint32_t milli)
{
    assert_true(i < fixture.request.n_wants);
    assert_int_equal(fixture.request.want[i].parts, parts);
    assert_int_equal(fixture.request.want[i].milli, milli);
}

TEST(refusal__quotes_the_beginning_of_a_long_text)
{
    static char amount[5000];
    memset(amount, 'z', sizeof amount - 1);
    start();
    add(CONTAINER_APP, amount);
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_non_null(strstr(fixture.refusal.text, "zzz...\" is not a number; ask for 1 to 1000"));
    fixture.container[0].amount = "100";
    fixture.pod.count = fixture.pod.model = fixture.pod.memory = amount;
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_COUNT);
    assert_non_null(strstr(fixture.refusal.text, "zzz...\" is not a number of GPUs"));
    fixture.pod.count = NULL;
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_MODEL_SYNTAX);
    fixture.pod.model = NULL;
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_MEMORY_SYNTAX);
    fixture.rules.resource = amount; /* a setting may be absurd, too */
    assert_int_equal(parse(), REQUEST_REFUSED);
    fixture.container[0].amount = "1500";
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(strlen(fixture.refusal.text), REASON_BYTES_MAX - 1);
}

TEST(refusal__names_the_limits_of_a_pod)
{
    start();
    add(CONTAINER_APP, "1");
    while (fixture.pod.n_containers < CONTAINERS_MAX)
        add(CONTAINER_APP, "1");
    assert_int_equal(parse(), REQUEST_OK);
    add(CONTAINER_APP, NULL); /* containers without a request do not count */
    assert_int_equal(parse(), REQUEST_OK);
    add(CONTAINER_APP, "1");
    assert_refused(REASON_LIMIT, "the pod has 129 containers that ask; at most 128 may ask for "
                                 "nvidia.com/vgpu");

    start();
    for (int i = 0; i < 8; i++)
        add(CONTAINER_APP, "64000");
    assert_int_equal(parse(), REQUEST_OK);
    add(CONTAINER_APP, "1");
    assert_refused(REASON_LIMIT, "the pod has 513 parts of GPUs over all containers; at most 512 "
                                 "may ask for nvidia.com/vgpu");
}

TEST(request__has_at_most_128_containers_that_ask_for_nothing)
{
    start();
    add(CONTAINER_APP, "300");
    for (int i = 0; i < CONTAINERS_MAX; i++)
        add(CONTAINER_APP, NULL);
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.request.n_others, CONTAINERS_MAX);
    add(CONTAINER_APP, "0");
    assert_refused(REASON_LIMIT,
                   "the pod has 129 containers that ask for no nvidia.com/vgpu; at most 128 "
                   "may be in a pod that asks for it");
    assert_int_equal(parse_bound(), REQUEST_OK);
}

TEST(models__have_at_most_128_characters)
{
    static char huge[MODEL_BYTES_MAX + 2];
    const struct text model = {huge, MODEL_BYTES_MAX};
    const struct text longer = {huge, MODEL_BYTES_MAX + 1};

    memset(huge, 'a', sizeof huge - 1);
    start();
    add(CONTAINER_APP, "300");
    fixture.pod.model = huge;
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_MODEL_SYNTAX);
    huge[MODEL_BYTES_MAX] = '\0';
    assert_int_equal(parse(), REQUEST_OK);
    fixture.pod.model = "*";
    assert_int_equal(parse(), REQUEST_OK);
    assert_true(request_takes_model(&fixture.request, model));
    assert_false(request_takes_model(&fixture.request, longer));
    fixture.pod.model = NULL;
    assert_int_equal(parse(), REQUEST_OK);
    assert_true(request_takes_model(&fixture.request, longer));
    assert_true(request_takes_model(&fixture.request, (struct text){0}));
}

TEST(request_read_models__reads_a_list_like_the_annotation)
{
    struct request one = {0};

    start();
    assert_null(request_read_models(TEXT(" nvidia-a100* , Tesla T4"), &fixture.arena, &one));
    assert_int_equal(one.n_models, 2);
    assert_true(request_takes_model(&one, TEXT("NVIDIA-A100-SXM4-80GB")));
    assert_true(request_takes_model(&one, TEXT("Tesla-T4")));
    assert_false(request_takes_model(&one, TEXT("NVIDIA-H100")));
    const char *const wrong[] = {"", "a,", ",a", " ", "a\nb"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct request other = {0};
        assert_non_null(request_read_models(text_of(wrong[i]), &fixture.arena, &other));
    }
}

TEST(topology__has_names)
{
    assert_string_equal(topology_name(TOPOLOGY_ANY), "any");
    assert_string_equal(topology_name(TOPOLOGY_NUMA), "numa");
    assert_string_equal(topology_name(TOPOLOGY_NVLINK), "nvlink");
}

TEST(request_format__says_one_gpu_by_its_only_want)
{
    char text[64];
    struct want want[] = {{"c", CONTAINER_APP, 1, 600}, {"not asked for", CONTAINER_APP, 2, 600}};
    const struct request request = {.n_wants = 1, .want = want};
    request_format(&request, text, sizeof text);
    assert_string_equal(text, "600 milli of one GPU");
}

TEST(request_format__clips_to_the_buffer)
{
    char text[8];
    start();
    add(CONTAINER_APP, "600")->count = "2";
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "2 x ...");
}

TEST(clone__outlives_the_pod)
{
    static const char *const other[] = {"c0", "c3", "c4"};
    start();
    add(CONTAINER_INIT, NULL);
    add(CONTAINER_APP, "600")->count = "2";
    add(CONTAINER_INIT, "700");
    add(CONTAINER_APP, "0");
    add(CONTAINER_SIDECAR, NULL);
    fixture.pod.model = "A100*,H100*";
    fixture.pod.memory = "16Gi";
    fixture.pod.topology = "nvlink";
    fixture.pod.whole_gpus = 2;
    fixture.pod.cpu_milli = 4000;
    fixture.pod.memory_bytes = INT64_C(16) << 30;
    assert_int_equal(parse(), REQUEST_OK);
    struct request *clone = request_clone(&fixture.request);
    const uint32_t hash = request_hash(&fixture.request);
    assert_true(request_eq(clone, &fixture.request));
    assert_int_equal(request_hash(clone), hash);
    arena_done(&fixture.arena);
    memset(fixture.name, 0, sizeof fixture.name);
    assert_int_equal(clone->n_wants, 2);
    assert_string_equal(clone->want[0].container, "c1");
    assert_string_equal(clone->want[1].container, "c2");
    assert_int_equal(clone->n_others, ARRAY_LEN(other));
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        assert_string_equal(clone->other[i], other[i]);
    assert_int_equal(clone->n_models, 2);
    assert_string_equal(clone->model[0], "A100*");
    assert_string_equal(clone->model[1], "H100*");
    assert_int_equal(clone->memory_mib, 16384);
    assert_int_equal(clone->topology, TOPOLOGY_NVLINK);
    assert_int_equal(clone->whole, 2);
    assert_int_equal(clone->host.cpu_milli, 4000);
    assert_int_equal(clone->host.memory_mib, 16384);
    assert_int_equal(request_hash(clone), hash);
    xfree(clone);
}

/* Lines of other containers do not count. */
TEST(bound_pod__is_split_by_at_most_64_lines)
{
    struct pod_share line[66] = {{.container = "other", .gpu = "GPU-x", .milli = 600}};
    char name[66][16];
    for (uint32_t i = 1; i < ARRAY_LEN(line); i++) {
        (void)snprintf(name[i], sizeof name[i], "GPU-%u", i);
        line[i] = (struct pod_share){.container = "c0", .gpu = name[i], .milli = 10};
    }
    start();
    add(CONTAINER_APP, "640");
    fixture.pod.annotation = NOTE_OK;
    fixture.pod.share = line;
    fixture.pod.n_shares = 65;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 64, 10);
    fixture.container[0].amount = "650";
    fixture.pod.n_shares = 66;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 1, 650);
}

TEST(request_peak__covers_the_whole_life_of_the_pod)
{
    static const struct {
        enum container_kind kind[4];
        uint32_t amount[4];
        uint32_t peak;
    } row[] = {
        {{CONTAINER_APP, CONTAINER_APP, CONTAINER_APP, CONTAINER_APP}, {1, 2, 3, 4}, 10},
        {{CONTAINER_INIT, CONTAINER_INIT, CONTAINER_APP, CONTAINER_APP}, {700, 300, 400, 400}, 800},
        {{CONTAINER_INIT, CONTAINER_INIT, CONTAINER_APP, CONTAINER_APP}, {700, 900, 400, 400}, 900},
        /* the sidecar starts after the first init container */
        {{CONTAINER_INIT, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP},
         {900, 100, 850, 0},
         950},
        {{CONTAINER_INIT, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP},
         {960, 100, 850, 0},
         960},
        {{CONTAINER_SIDECAR, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP}, {10, 20, 5, 7}, 37},
        {{CONTAINER_SIDECAR, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP}, {10, 20, 9, 7}, 39},
        {{CONTAINER_INIT, CONTAINER_INIT, CONTAINER_APP, CONTAINER_APP}, {0, 0, 0, 0}, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct want want[4] = {0};
        for (size_t k = 0; k < 4; k++)
            want[k] = (struct want){"c", row[i].kind[k], 1, 1};
        const struct request request = {.n_wants = 4, .want = want};
        assert_int_equal(request_peak(&request, row[i].amount), row[i].peak);
    }
}

static int clean(void **state)
{
    (void)state;
    arena_done(&fixture.arena);
    return 0;
}

TEST_GROUP(NULL, clean)
