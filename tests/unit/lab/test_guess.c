#include <stdio.h>
#include <string.h>

#include "lab/cluster/guess.h"
#include "support/test.h"

static struct arena arena;
static struct err err;
static struct strbuf found;

static int take(void *user, const struct pod_maker_part *part, struct err *ignored)
{
    (void)user;
    (void)ignored;
    strbuf_printf(&found, "%s%s:%u", found.len > 0 ? " " : "", part->word, (unsigned)part->pods);
    return 0;
}

/* "head:1 gpu:2": the parts of an object with this spec. */
static const char *parts_of(const char *spec)
{
    struct document *documents;
    uint32_t parts;

    strbuf_reset(&found);
    const char *text = arena_printf(&arena, "kind: Any\nmetadata: {name: x}\nspec: %s\n", spec);
    if (document_parse_yaml(text_of(text), &arena, &documents, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    if (guess_parts(&arena, documents->first, take, NULL, &parts, &err) < 0)
        return err.text;
    assert_true((parts > 0) == (found.len > 0));
    return found.data;
}

#define GPU "{containers: [{name: c, resources: {limits: {a.b/gpu: 1}}}]}"

static int begin(void **state __attribute__((unused)))
{
    arena_init(&arena);
    strbuf_init(&found);
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    arena_done(&arena);
    strbuf_done(&found);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

FIXTURE_TEST(guess__multiplies_counts_above_a_template)
{
    static const struct {
        const char *spec;
        const char *parts;
    } each[] = {
        {"{template: {spec: " GPU "}}", ":1"},
        {"{replicas: 3, template: {spec: " GPU "}}", ":3"},
        {"{replicas: 0, template: {spec: " GPU "}}", ":0"},
        {"{minReplicas: 0, template: {spec: " GPU "}}", ":1"},
        {"{minReplicas: 4, replicas: 2, template: {spec: " GPU "}}", ":2"},
        {"{replicas: 2, size: 3, numOfHosts: 2, template: {spec: " GPU "}}", ":12"},
        {"{size: 10Gi, replicas: {min: 1}, template: {spec: " GPU "}}", ":1"},
        {"{replicas: -1, template: {spec: " GPU "}}", ":1"},
        {"{parallelism: 3, completions: 2, template: {spec: " GPU "}}", ":2"},
        {"{parallelism: 3, completions: 4, template: {spec: " GPU "}}", ":3"},
        {"{completions: 4, template: {spec: " GPU "}}", ":1"},
        {"{size: 3, workerTemplate: {spec: " GPU "}}", "worker:3"},
        {"{size: 3, leaderTemplate: {spec: " GPU "}, workerTemplate: {spec: " GPU "}}",
         "leader:1 worker:2"},
        {"{size: 0, leaderTemplate: {spec: " GPU "}, workerTemplate: {spec: " GPU "}}",
         "leader:1 worker:0"},
        {"{suspend: true, a: {replicas: 2, template: {spec: " GPU "}}}", "a:0"},
        {"{runPolicy: {suspend: true}, a: {template: {spec: " GPU "}}}", "a:0"},
        {"{replicas: 2, groups: [{count: 3, podSpec: " GPU "}]}", "groups0:6"},
        {"{replicas: 100000, template: {spec: " GPU "}}", ":100000"},
        {"{replicas: 100001, template: {spec: " GPU "}}",
         "spec.template.spec: replicas 100001: play makes at most 100000 pods"},
        {"{replicas: 99999999999999999999, size: 99999999999, template: {spec: " GPU "}}",
         "spec.template.spec: replicas 2147483647 x size 2147483647: play makes at most 100000 "
         "pods"},
    };
    for (size_t i = 0; i < ARRAY_LEN(each); i++)
        if (strcmp(parts_of(each[i].spec), each[i].parts) != 0)
            fail_msg("%s: %s", each[i].spec, parts_of(each[i].spec));
}

FIXTURE_TEST(guess__finds_parts_that_look_like_pods)
{
    static const struct {
        const char *spec;
        const char *parts;
    } each[] = {
        {"{headGroupSpec: {template: {spec: " GPU "}}, workerGroupSpecs: [{groupName: gpu-a, "
         "template: {spec: " GPU "}}]}",
         "head:1 gpu-a:1"},
        {"{tfReplicaSpecs: {Worker: {template: {spec: " GPU "}}, PS: {template: {spec: " GPU "}}}}",
         "worker:1 ps:1"},
        /* without a template */
        {"{predictor: {minReplicas: 2, model: {resources: {limits: {a.b/gpu: 1}}}}}",
         "predictor:2"},
        {"{predictor: {model: {resources: {requests: {a.b/gpu: 1}}}, containers: [{name: c}]}}",
         "predictor:1"},
        {"{trainer: {numNodes: 3, resourcesPerNode: {limits: {a.b/gpu: 1}}}}", "trainer:3"},
        {"{replicas: 2, resources: {limits: {a.b/gpu: 1}}}", ":2"},
        {"{replicas: 2, template: " GPU ", worker: " GPU "}", ":2 worker:2"},
        {"{templates: [{name: A.b, container: {resources: {limits: {a.b/gpu: 1}}}}]}", "a-b:1"},
        {"{componentSpecs: [{spec: " GPU "}], \"\\e[31m\": {x: 1}}", "component0:1"},
        {"{gpu_Spec: {template: {spec: " GPU "}}}", "gpu:1"},
        /* two of one name */
        {"{a: [{name: x, template: {spec: " GPU "}}, {name: x, template: {spec: " GPU "}}]}",
         "x:1 x-2:1"},
        /* nothing that anybody would ask about */
        {"{template: {spec: {containers: [{name: c, resources: {limits: {cpu: 1}}}]}}}", ""},
        {"{resources: {limits: {cpu: 1}}, storage: {resources: {requests: {storage: 1Gi}}}}", ""},
        {"{template: {spec: {containers: [7]}}}", ""},
        {"{template: {spec: {containers: []}}}", ""},
        {"{containers: {type: array}, resources: {limits: [a.b/gpu]}}", ""},
        {"7", ""},
        {"null", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(each); i++)
        if (strcmp(parts_of(each[i].spec), each[i].parts) != 0)
            fail_msg("%s: %s", each[i].spec, parts_of(each[i].spec));
}
