#include <stdio.h>
#include <string.h>

#include "ctl/convert/convert.h"
#include "support/scoped.h"
#include "support/shown.h"
#include "support/test.h"

static struct strbuf out;
static struct strbuf messages;
static struct convert_rules rules;

static void take_message(void *user, const char *line)
{
    (void)user;
    strbuf_str(&messages, line);
    strbuf_char(&messages, '\n');
}

/* Returns how many objects were not converted. */
static uint32_t convert(const char *text)
{
    struct conversion conversion = {.rules = rules, .say = take_message};

    strbuf_reset(&out);
    strbuf_reset(&messages);
    convert_text(&conversion, text_of(text), "f", &out);
    return conversion.unconverted;
}

static int begin(void **state __attribute__((unused)))
{
    rules =
        (struct convert_rules){.resource = "nvidia.com/vgpu", .gpu_mib = 40960, .aliyun_mib = 1024};
    strbuf_init(&out);
    strbuf_init(&messages);
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    strbuf_done(&out);
    strbuf_done(&messages);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

/* Also converts the result again, which changes nothing. */
static void becomes(const char *text, const char *expected)
{
    SCOPED_STRBUF(once);

    const uint32_t unconverted = convert(text);
    if (unconverted != 0)
        fail_msg("%s\n%s", text, messages.data);
    assert_string_equal(out.data, expected);
    strbuf_text(&once, (struct text){out.data, out.len});
    assert_int_equal(convert(once.data), 0);
    assert_string_equal(out.data, once.data);
}

static void stays_as_it_is(const char *text)
{
    becomes(text, text);
}

static void reports(const char *expected)
{
    if (strstr(messages.data, expected) == NULL)
        fail_msg("\"%s\" is not in:\n%s", expected, messages.data);
}

/* One object is not converted, and its text stays, for this reason. */
static void stays(const char *text, const char *why)
{
    if (convert(text) != 1)
        fail_msg("converted: %s", out.data);
    assert_string_equal(out.data, text);
    reports(why);
}

/* --- containers --- */

#define POD_OF(metadata, containers)                                                               \
    "kind: Pod\nmetadata: " metadata "\nspec:\n  containers:\n" containers
#define LIMITS(amounts) "  - {name: c, resources: {limits: {" amounts "}}}\n"
#define POD(amounts)    POD_OF("{name: p}", LIMITS(amounts))

FIXTURE_TEST(hami__takes_the_larger_of_memory_and_cores)
{
    static const struct {
        const char *hami;
        const char *milli;
    } samples[] = {
        {"nvidia.com/gpu: 1, nvidia.com/gpumem: 10240", "250"},
        {"nvidia.com/gpu: 1, nvidia.com/gpumem: 10241", "251"}, /* rounded up */
        {"nvidia.com/gpu: 1, nvidia.com/gpumem: 1", "1"},
        {"nvidia.com/gpu: 1, nvidia.com/gpumem: 40960", "1000"},
        {"nvidia.com/gpumem: \"3k\"", "74"}, /* a quantity, and one GPU without a number */
        {"nvidia.com/gpu: 1, nvidia.com/gpumem: 10240, nvidia.com/gpucores: 25", "250"},
        {"nvidia.com/gpu: 1, nvidia.com/gpumem: 10240, nvidia.com/gpucores: 26", "260"},
        {"nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50", "500"},
        {"nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 0, nvidia.com/gpucores: 7", "70"},
        {"nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 100", "1000"},
        /* MiB come before percent, unless they are 0 */
        {"nvidia.com/gpumem: 10240, nvidia.com/gpumem-percentage: 90", "250"},
        {"nvidia.com/gpumem: 0, nvidia.com/gpumem-percentage: 90", "900"},
        /* without an amount of memory HAMi gives all of it */
        {"nvidia.com/gpu: 1, nvidia.com/gpucores: 30", "1000"},
        {"nvidia.com/gpumem: 0", "1000"},
        {"nvidia.com/gpu: 2, nvidia.com/gpucores: 100", "2000"}, /* whole GPUs: no annotation */
        {"nvidia.com/gpu: 0, nvidia.com/gpumem: 100", "0"},
    };
    char expected[256];

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, POD("%s"), samples[i].hami);
        (void)snprintf(expected, sizeof expected, POD("nvidia.com/vgpu: %s"), samples[i].milli);
        becomes(text, expected);
    }
    assert_int_equal(convert(POD("nvidia.com/gpu: 1, nvidia.com/gpucores: 30")), 0);
    reports("without an amount of memory HAMi gives the whole memory of the GPU: 1000");
}

FIXTURE_TEST(hami__counts_several_gpus_by_an_annotation)
{
    becomes("kind: Pod\n"
            "metadata:\n"
            "  name: p # its name\n"
            "spec:\n"
            "  containers:\n"
            "  - name: train\n"
            "    resources:\n"
            "      limits:\n"
            "        cpu: 2\n"
            "        nvidia.com/gpu: 2 # two\n"
            "        nvidia.com/gpumem: 10240\n"
            "      requests:\n"
            "        nvidia.com/gpu: 2\n"
            "        nvidia.com/gpumem: 10240\n",
            "kind: Pod\n"
            "metadata:\n"
            "  name: p # its name\n"
            "  annotations:\n"
            "    gpu-count.milligpu.io/train: \"2\"\n"
            "spec:\n"
            "  containers:\n"
            "  - name: train\n"
            "    resources:\n"
            "      limits:\n"
            "        cpu: 2\n"
            "        nvidia.com/vgpu: 500\n");
}

FIXTURE_TEST(hami__converts_whole_gpus_only_beside_its_resources)
{
    static const char whole[] = POD("nvidia.com/gpu: 1");

    stays_as_it_is(whole);
    rules.from = PEER_KAI;
    stays_as_it_is(whole);
    rules.from = PEER_HAMI;
    becomes(whole, POD("nvidia.com/vgpu: 1000"));
    rules.from = PEER_ANY;
    /* in another container, an init container, the pod */
    becomes(POD_OF("{}", LIMITS("nvidia.com/gpu: 1") LIMITS("nvidia.com/gpucores: 10")),
            POD_OF("{}", LIMITS("nvidia.com/vgpu: 1000") LIMITS("nvidia.com/vgpu: 1000")));
    becomes(POD("nvidia.com/gpu: 2") "  initContainers: [{resources: {limits: "
                                     "{nvidia.com/gpumem: 40960}}}]\n",
            POD("nvidia.com/vgpu: 2000") "  initContainers: [{resources: {limits: "
                                         "{nvidia.com/vgpu: 1000}}}]\n");
    becomes(POD("nvidia.com/gpu: 1") "  schedulerName: hami-scheduler\n",
            POD("nvidia.com/vgpu: 1000"));
    becomes(POD_OF("{annotations: {nvidia.com/numa-bind: 'false', a.b/c: d}}",
                   LIMITS("nvidia.com/gpu: 1")),
            POD_OF("{annotations: {a.b/c: d}}", LIMITS("nvidia.com/vgpu: 1000")));
}

FIXTURE_TEST(aliyun__takes_memory_of_all_gpus)
{
    becomes(POD("aliyun.com/gpu-mem: 10"), POD("nvidia.com/vgpu: 250"));
    becomes(POD("aliyun.com/gpu-mem: 10, aliyun.com/gpu-core.percentage: 30"),
            POD("nvidia.com/vgpu: 300"));
    becomes(POD("aliyun.com/gpu-core.percentage: 30"), POD("nvidia.com/vgpu: 300"));
    becomes(POD("aliyun.com/gpu-mem: 10, nvidia.com/gpu: 1"), /* a whole GPU beside it */
            POD("nvidia.com/gpu: 1, nvidia.com/vgpu: 250"));
    becomes(POD_OF("{labels: {aliyun.com/gpu-count: '2'}}", LIMITS("aliyun.com/gpu-mem: 20")),
            POD_OF("{labels: {aliyun.com/gpu-count: '2'}, annotations: "
                   "{gpu-count.milligpu.io/c: \"2\"}}",
                   LIMITS("nvidia.com/vgpu: 500")));
    rules.aliyun_mib = 1;
    becomes(POD("aliyun.com/gpu-mem: 10240"), POD("nvidia.com/vgpu: 250"));
    rules.resource = "example.com/share";
    becomes(POD("aliyun.com/gpu-mem: 10240"), POD("example.com/share: 250"));
}

FIXTURE_TEST(convert__keeps_a_container_that_cannot_be_converted)
{
    static const struct {
        const char *text;
        const char *why;
    } samples[] = {
        {POD("nvidia.com/gpumem: 40961"),
         "spec.containers[0].resources.limits[\"nvidia.com/gpumem\"]: 40961 MiB are more than a "
         "GPU has (--gpu-memory 40960)"},
        {POD("nvidia.com/gpumem: 1.5"), "it is not a whole number"},
        {POD("nvidia.com/gpumem: -1"), "it is not a whole number"},
        {POD("nvidia.com/gpumem: [1]"), "it is not a whole number"},
        {POD("nvidia.com/gpumem: 99999999999999999999"), "it is not a whole number"},
        {POD("nvidia.com/gpumem: 9223372036854775807"), "are more than a GPU has"},
        {POD("aliyun.com/gpu-mem: 9223372036854775807"), "are more than a GPU has"},
        {POD("nvidia.com/gpucores: 101"), "more than 100 percent"},
        {POD("nvidia.com/gpumem-percentage: 101"), "more than 100 percent"},
        {POD("nvidia.com/gpumem-percentage: 0"), "it asks for no part of a GPU"},
        {POD("nvidia.com/gpu: 65, nvidia.com/gpumem: 1"), "more than 64 GPUs"},
        {POD("nvidia.com/gpumem: 1, aliyun.com/gpu-mem: 1"), "words of HAMi and of Aliyun"},
        {POD("nvidia.com/vgpu: 1, nvidia.com/gpumem: 1"), "asks for nvidia.com/vgpu already"},
        {POD_OF("{}", "  - {resources: {limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 1}}}\n"),
         "several GPUs of a container without a name"},
        {POD_OF("{}", "  - {resources: {limits: {nvidia.com/gpumem: 1}, requests: "
                      "{nvidia.com/gpumem: 2}}}\n"),
         "requests[\"nvidia.com/gpumem\"]: it differs from the limit"},
        {POD_OF("{annotations: [1]}", LIMITS("nvidia.com/gpu: 2, nvidia.com/gpumem: 1")),
         "it becomes annotation gpu-count.milligpu.io/c, for which the pod has no place"},
        {POD_OF("{annotations: {gpu-count.milligpu.io/c: '3'}}",
                LIMITS("nvidia.com/gpu: 2, nvidia.com/gpumem: 1")),
         "annotation gpu-count.milligpu.io/c is there already"},
        {POD_OF("{annotations: {milligpu.io/gpu-count: '3'}}", LIMITS("nvidia.com/gpumem: 1")),
         "milligpu.io/gpu-count is there already"},
        {POD_OF("{labels: {aliyun.com/gpu-count: '3'}}", LIMITS("aliyun.com/gpu-mem: 20")),
         "metadata.labels[\"aliyun.com/gpu-count\"]: aliyun.com/gpu-mem cannot be split evenly"},
        {POD_OF("{labels: {aliyun.com/gpu-count: '0'}}", LIMITS("aliyun.com/gpu-mem: 20")),
         "cannot be split evenly"},
        {POD_OF("{labels: {aliyun.com/gpu-count: x}}", LIMITS("aliyun.com/gpu-mem: 20")),
         "it is not a whole number"},
        {"kind: X\nspec: {deep: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2, "
         "nvidia.com/gpumem: 1}}}]}}\n",
         "spec.deep.containers[0].resources.limits[\"nvidia.com/gpu\"]: it becomes annotation"},
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        stays(samples[i].text, samples[i].why);
        reports("f: document 1 (line 1), ");
        reports(": not converted: ");
    }
    rules.gpu_mib = 0;
    stays(POD("aliyun.com/gpu-mem: 1"),
          "Pod p: not converted: spec.containers[0].resources.limits[\"aliyun.com/gpu-mem\"]: an "
          "amount of memory: --gpu-memory says how many MiB a GPU has");
    becomes(POD("nvidia.com/gpumem-percentage: 50"), POD("nvidia.com/vgpu: 500"));
}

/* --- annotations --- */

FIXTURE_TEST(hami__converts_annotations)
{
    static const struct {
        const char *types;
        const char *models; /* NULL: every model */
    } samples[] = {
        {"A100,V100", "*A100*,*V100*"},
        {" Tesla P4 , NVIDIA-NVIDIA A100-SXM4", "*Tesla P4*,*A100-SXM4*"},
        {"nvidia", NULL},
        {"A100,", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        char text[256];
        char expected[256];
        (void)snprintf(text, sizeof text,
                       POD_OF("{annotations: {x.y/z: w, nvidia.com/use-gputype: \"%s\"}}",
                              LIMITS("nvidia.com/gpu: 1")),
                       samples[i].types);
        (void)snprintf(expected, sizeof expected,
                       POD_OF("{annotations: {x.y/z: w%s%s%s}}", LIMITS("nvidia.com/vgpu: 1000")),
                       samples[i].models != NULL ? ", milligpu.io/gpu-model: \"" : "",
                       samples[i].models != NULL ? samples[i].models : "",
                       samples[i].models != NULL ? "\"" : "");
        becomes(text, expected);
    }
    becomes("kind: Pod\nmetadata:\n  annotations:\n    nvidia.com/numa-bind: \"true\"\nspec:\n"
            "  containers:\n" LIMITS("nvidia.com/gpu: 4"),
            "kind: Pod\nmetadata:\n  annotations:\n    milligpu.io/topology: \"numa\"\nspec:\n"
            "  containers:\n" LIMITS("nvidia.com/vgpu: 4000"));
    becomes(
        "kind: Pod\nmetadata:\n  name: p\n  annotations:\n    nvidia.com/vgpu-mode: hami-core\n"
        "    hami.io/vgpu-node: n1\n    hami.io/node-scheduler-policy: spread\nspec:\n"
        "  containers:\n" LIMITS("nvidia.com/gpumem: 40960"),
        "kind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n" LIMITS("nvidia.com/vgpu: 1000"));
    stays(POD_OF("{annotations: {nvidia.com/use-gputype: 'A*'}}", LIMITS("nvidia.com/gpu: 1")),
          "not converted: metadata.annotations[\"nvidia.com/use-gputype\"]: it is not a list");
}

/* A demand without counterpart stays and is reported; the rest is converted. */
FIXTURE_TEST(convert__reports_what_has_no_counterpart)
{
    static const struct {
        const char *text;
        const char *expected;
        const char *why;
    } samples[] = {
        {POD_OF("{annotations: {nvidia.com/nouse-gputype: T4}}", LIMITS("nvidia.com/gpu: 1")),
         POD_OF("{annotations: {nvidia.com/nouse-gputype: T4}}", LIMITS("nvidia.com/vgpu: 1000")),
         "no counterpart: metadata.annotations[\"nvidia.com/nouse-gputype\"]: a pod names the "
         "models that will do"},
        {POD_OF("{annotations: {nvidia.com/vgpu-mode: mig}}", LIMITS("nvidia.com/gpu: 1")),
         POD_OF("{annotations: {nvidia.com/vgpu-mode: mig}}", LIMITS("nvidia.com/vgpu: 1000")),
         "MIG is not a share"},
        {POD("nvidia.com/gpumem: 40960, nvidia.com/priority: 1"), POD("nvidia.com/vgpu: 1000"),
         "limits[\"nvidia.com/priority\"]: removed: shares of a GPU have no priorities"},
        {POD("nvidia.com/priority: 1"),
         "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, resources: "
         "{limits: {}}}\n",
         "shares of a GPU have no priorities"},
        {"kind: ResourceQuota\nspec:\n  hard:\n    limits.nvidia.com/gpumem: 10000\n    cpu: 1\n",
         "kind: ResourceQuota\nspec:\n  hard:\n    limits.nvidia.com/gpumem: 10000\n    cpu: 1\n",
         "no counterpart: spec.hard[\"limits.nvidia.com/gpumem\"]: this is not a container"},
        {"kind: Odd\nmetadata: {annotations: {gpu-fraction: '0.5'}}\n",
         "kind: Odd\nmetadata: {annotations: {gpu-fraction: '0.5'}}\n",
         "this is not an annotation of a pod"},
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        assert_int_equal(convert(samples[i].text), 1);
        assert_string_equal(out.data, samples[i].expected);
        reports(samples[i].why);
    }
    static const char node[] = "kind: Node\nstatus: {allocatable: {aliyun.com/gpu-mem: 40}}\n";
    stays_as_it_is(node); /* reported, not requested */
}

FIXTURE_TEST(kai__turns_a_fraction_into_a_container_limit)
{
    static const char after[] = POD_OF(
        "{name: p}", "  - {name: a}\n  - {name: b, resources: {limits: {nvidia.com/vgpu: 334}}}\n");

    becomes("kind: Pod\n"
            "metadata:\n"
            "  name: p\n"
            "  annotations:\n"
            "    gpu-fraction: \"0.5\"\n"
            "  labels:\n"
            "    kai.scheduler/queue: team\n"
            "spec:\n"
            "  schedulerName: kai-scheduler\n"
            "  containers:\n"
            "    - name: gpu\n"
            "      image: ubuntu\n",
            "kind: Pod\n"
            "metadata:\n"
            "  name: p\n"
            "  labels:\n"
            "    kai.scheduler/queue: team\n"
            "spec:\n"
            "  containers:\n"
            "    - name: gpu\n"
            "      image: ubuntu\n"
            "      resources:\n"
            "        limits:\n"
            "          nvidia.com/vgpu: 500\n");
    reports("metadata.labels[\"kai.scheduler/queue\"]: stays, and nobody reads it");
    becomes(POD_OF("{name: p, annotations: {gpu-fraction: '0.3333', "
                   "gpu-fraction-container-name: b}}",
                   "  - {name: a}\n  - {name: b}\n"),
            after);
    becomes(POD_OF("{name: p, annotations: {gpu-memory: '10240', gpu-fraction-num-devices: '2', "
                   "mps: 'true', gpu-sm-percentage: '30'}}",
                   "  - {name: a, resources: {}}\n"),
            POD_OF("{name: p, annotations: {gpu-count.milligpu.io/a: \"2\"}}",
                   "  - {name: a, resources: {limits: {nvidia.com/vgpu: 600}}}\n"));
    rules.from = PEER_HAMI;
    static const char kai[] =
        POD_OF("{annotations: {gpu-fraction: '0.5'}}", "  - {name: a}\n") "  schedulerName: "
                                                                          "kai-scheduler\n";
    stays_as_it_is(kai);
}

FIXTURE_TEST(kai__keeps_a_fraction_that_cannot_be_converted)
{
    static const struct {
        const char *annotations;
        const char *why;
    } samples[] = {
        {"gpu-fraction: '0'", "above 0 and at most 1"},
        {"gpu-fraction: '1.001'", "above 0 and at most 1"},
        {"gpu-fraction: half", "above 0 and at most 1"},
        {"gpu-fraction: [1]", "above 0 and at most 1"},
        {"gpu-fraction: '0.5', gpu-memory: '1'", "gpu-fraction or gpu-memory"},
        {"gpu-fraction: '0.5', gpu-fraction-container-name: z", "no container of this name"},
        {"gpu-fraction: '0.5', gpu-fraction-num-devices: '0'", "from 1 to 64"},
        {"gpu-fraction: '0.5', gpu-fraction-num-devices: '65'", "from 1 to 64"},
        {"gpu-fraction: '0.5', gpu-sm-percentage: '101'", "from 1 to 100"},
        {"gpu-memory: '0'", "it asks for no part of a GPU"},
        {"gpu-memory: 2Gi", "are more than a GPU has"}, /* MiB are meant */
        {"gpu-memory: x", "it is not a whole number"},
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, POD_OF("{annotations: {%s}}", "  - {name: a}\n"),
                       samples[i].annotations);
        stays(text, samples[i].why);
    }
    stays(POD_OF("{annotations: {gpu-fraction: '0.5'}}", LIMITS("nvidia.com/gpu: 1")),
          "asks for nvidia.com/gpu, too");
    stays(POD_OF("{annotations: {gpu-fraction: '0.5'}}", "  - {name: a, resources: [1]}\n"),
          "spec.containers[0].resources: it must be an object");
}

/* --- documents --- */

FIXTURE_TEST(convert__finds_every_pod_template)
{
    static const char *const paths[] = {
        "spec: {template: {spec: {%s}}}",                           /* a Deployment */
        "spec: {jobTemplate: {spec: {template: {spec: {%s}}}}}",    /* a CronJob */
        "template: {spec: {%s}}",                                   /* a PodTemplate */
        "spec: {workerGroupSpecs: [{}, {template: {spec: {%s}}}]}", /* a RayCluster */
        "spec: {predictor: {%s}}",                                  /* an InferenceService */
    };

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char text[256];
        char expected[256];
        char format[128];
        (void)snprintf(format, sizeof format, "kind: X\n%s\n", paths[i]);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(text, sizeof text, format,
                       "containers: [{resources: {limits: {aliyun.com/gpu-mem: 10}}}]");
        (void)snprintf(expected, sizeof expected, format,
                       "containers: [{resources: {limits: {nvidia.com/vgpu: 250}}}]");
#pragma GCC diagnostic pop
        becomes(text, expected);
    }
}

#define BAD_ONES                                                                                   \
    "---\nkind: {{ x }}\n---\nkind: [\n--- # last\n" POD("aliyun.com/gpu-mem: 50") "---\n%s\n---\n"

FIXTURE_TEST(convert__continues_after_a_bad_document)
{
    assert_int_equal(convert("# head\n---\n" POD("aliyun.com/gpu-mem: 10")
                                 BAD_ONES POD("aliyun.com/gpu-mem: 20")),
                     4);
    assert_string_equal(out.data, "# head\n---\n" POD("nvidia.com/vgpu: 250")
                                      BAD_ONES POD("nvidia.com/vgpu: 500"));
    reports("f: document 2 (line 8): not converted: counted from there, line 2: ");
    reports("f: document 3 (line 10): not converted: ");
    reports("f: document 4 (line 13), Pod p: not converted: ");
}

/* A directive stands before its document, and "..." ends one. */
FIXTURE_TEST(convert__keeps_a_stream_together)
{
    becomes("%YAML 1.1\n# c\n---\n" POD("aliyun.com/gpu-mem: 10") "...\n---\na: 1\n...\n# c\n",
            "%YAML 1.1\n# c\n---\n" POD("nvidia.com/vgpu: 250") "...\n---\na: 1\n...\n# c\n");
    stays_as_it_is("");
    stays_as_it_is("---\n");
    stays_as_it_is("a: |\n  x\n\n  ---\n");
    stays_as_it_is("---x: 1\n---y: 2\n");
}

FIXTURE_TEST(convert__takes_items_of_a_list)
{
    assert_int_equal(convert("kind: List\nitems:\n- kind: Pod\n  metadata: {name: good}\n  spec:\n"
                             "    containers:\n    - resources:\n        limits:\n"
                             "          aliyun.com/gpu-mem: 10 # GiB\n"
                             "- kind: Pod\n  metadata: {name: bad}\n  spec:\n    containers:\n"
                             "    - resources: {limits: {aliyun.com/gpu-mem: x}}\n- 1\n"),
                     1);
    assert_string_equal(out.data,
                        "kind: List\nitems:\n- kind: Pod\n  metadata: {name: good}\n  spec:\n"
                        "    containers:\n    - resources:\n        limits:\n"
                        "          nvidia.com/vgpu: 250\n"
                        "- kind: Pod\n  metadata: {name: bad}\n  spec:\n    containers:\n"
                        "    - resources: {limits: {aliyun.com/gpu-mem: x}}\n- 1\n");
    reports("f: document 1 (line 10), Pod bad: not converted: spec.containers[0]");
}

FIXTURE_TEST(convert__keeps_json)
{
    static const char other[] = "{\"kind\":\"Pod\",  \"spec\": {}}\n";

    stays_as_it_is(other);
    becomes("{\"kind\":\"Pod\",\"spec\":{\"containers\":[{\"resources\":{\"limits\":"
            "{\"aliyun.com/gpu-mem\":10}}}]}}",
            "{\n  \"kind\": \"Pod\",\n  \"spec\": {\n    \"containers\": [\n      {\n"
            "        \"resources\": {\n          \"limits\": {\n"
            "            \"nvidia.com/vgpu\": 250\n          }\n        }\n      }\n    ]\n  }\n"
            "}\n");
    stays("{\"kind\": [}", "not converted: document.kind");
}

/* Where the text cannot be changed in place, the document is rewritten, and a message says so. */
FIXTURE_TEST(convert__reports_a_rewritten_document)
{
    becomes("---\nkind: Pod # c\nspec:\n  containers:\n  - resources:\n      limits: !!map\n"
            "        aliyun.com/gpu-mem: 10\n---\na: 1 # stays\n",
            "---\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n"
            "        nvidia.com/vgpu: 250\n---\na: 1 # stays\n");
    convert("kind: Pod # c\nspec: {containers: [{resources: {limits: !!map "
            "{aliyun.com/gpu-mem: 10}}}]}\n");
    reports("f: line 1: written anew: comments and layout of this document are lost");
}

FIXTURE_TEST(convert__bounds_and_escapes_messages)
{
    SCOPED_STRBUF(text);
    uint32_t lines = 0;

    strbuf_str(&text, "kind: \"P\\e[31m\"\nmetadata: {name: \"a\\nb\"}\nspec:\n  containers:\n");
    for (int i = 0; i < 20000; i++)
        strbuf_str(&text, LIMITS("nvidia.com/gpumem: x"));
    assert_int_equal(convert(text.data), 1);
    assert_string_equal(out.data, text.data);
    for (size_t i = 0; i < messages.len; i++)
        lines += messages.data[i] == '\n';
    assert_int_equal(lines, CONVERT_LINES_MAX + 1);
    reports("not converted: 19980 more like these");
    assert_null(strchr(messages.data, '\033'));
}

/* Aliases could describe more than there is memory for. */
FIXTURE_TEST(convert__refuses_aliases_and_depth)
{
    SCOPED_STRBUF(text);

    stays("a: &a [1, 1]\nb: &b [*a, *a]\nc: [*b, *b]\n", "aliases are not read");
    for (int i = 0; i < 100000; i++)
        strbuf_char(&text, '[');
    stays(text.data, "nested deeper than 96");
}

/* --- the command --- */

FIXTURE_TEST(convert__refuses_wrong_options)
{
    static const char *const words[] = {
        "convert --gpu-memory 0 x",        "convert --gpu-memory 40Gi x",
        "convert --gpu-memory -1 x",       "convert --gpu-memory 99999999999999999999 x",
        "convert --gpu-memory 16777217 x", "convert --from volcano x",
        "convert --aliyun-unit KiB x",     "convert --resource vgpu x"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        program_says(words[i], CTL_USAGE, NULL, "milligpuctl: ");
    }
    program_says("convert no/such/file", CTL_NO, NULL,
                 "milligpuctl: no/such/file: No such file or directory\n");
}
