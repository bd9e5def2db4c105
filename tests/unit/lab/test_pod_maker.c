#include <stdio.h>
#include <string.h>

#include "lab/cluster/pod_maker.h"
#include "lab/cluster/unconsidered.h"
#include "support/test.h"

static struct arena arena;
static struct err err;

static struct document *yaml(const char *text)
{
    struct document *documents;
    if (document_parse_yaml(text_of(text), &arena, &documents, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return documents->first;
}

static int read_one(const char *text, struct pod_maker *out)
{
    const struct document *object = yaml(text);
    const enum workload_kind kind =
        workload_kind_of(document_str(object, "kind"), document_str(object, "apiVersion"));
    assert_true(kind != WORKLOAD_KINDS);
    const struct pod_maker_names names = {"home", 7};
    return pod_maker_read(&arena, object, kind, &names, out, &err);
}

static struct pod_maker good(const char *text)
{
    struct pod_maker workload;
    if (read_one(text, &workload) < 0)
        fail_msg("%s: %s", text, err.text);
    return workload;
}

static const char *name_of(const struct pod_maker *workload, uint32_t at)
{
    const struct document *pod = pod_maker_pod(&arena, workload, at);
    assert_string_equal(document_str(pod, "kind"), "Pod");
    assert_string_equal(document_str(pod, "metadata.namespace"), workload->namespace);
    return document_str(pod, "metadata.name");
}

/* A label or annotation, whose key may have dots. */
static const char *entry(const struct document *pod, const char *map, const char *key)
{
    const struct document *value = document_get(document_at(pod, map), key);
    return value != NULL ? value->text.at : "none";
}

/* Members of a document, "path = value" each, separated by semicolons; value "-": absent. */
static void has(const struct document *document, const char *members)
{
    struct text rest = text_of(members);
    struct text member;
    while (text_cut(&rest, ';', &member)) {
        char *path = arena_copy(&arena, member);
        char *value = strstr(path, " = ");
        *value = '\0';
        const struct document *at = document_at(document, path);
        assert_string_equal(at != NULL ? document_shown(document, path) : "-", value + 3);
    }
}

static const struct document *owner_of(const struct document *pod)
{
    return document_at(pod, "metadata.ownerReferences")->first;
}

#define TEMPLATE                                                                                   \
    "template: {metadata: {labels: {app: web}, annotations: {milligpu.io/gpu-model: L4}, name: "   \
    "ignored}, spec: {containers: [{name: c}]}}"

static int begin(void **state __attribute__((unused)))
{
    arena_init(&arena);
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

FIXTURE_TEST(deployment__makes_pods_of_a_replica_set)
{
    static const char text[] =
        "{kind: Deployment, apiVersion: apps/v1, metadata: {name: web, "
        "namespace: shop, labels: {not: copied}}, spec: {replicas: 3, " TEMPLATE "}}";
    struct pod_maker workload = good(text);
    const struct document *pod = pod_maker_pod(&arena, &workload, 2);
    const struct document *owner = owner_of(pod);
    assert_int_equal(workload.pods, 3);
    assert_false(workload.ordered);
    has(pod, arena_printf(&arena,
                          "metadata.name = web-%s-2;metadata.generateName = web-%s-;"
                          "metadata.namespace = shop",
                          workload.hash, workload.hash));
    assert_string_equal(entry(pod, "metadata.labels", "app"), "web");
    assert_string_equal(entry(pod, "metadata.labels", "not"), "none");
    assert_string_equal(entry(pod, "metadata.labels", "pod-template-hash"), workload.hash);
    assert_string_equal(entry(pod, "metadata.annotations", "milligpu.io/gpu-model"), "L4");
    has(owner, arena_printf(&arena, "kind = ReplicaSet;apiVersion = apps/v1;name = web-%s",
                            workload.hash));
    assert_int_equal(strlen(document_str(owner, "uid")), 36);
    assert_true(document_true(owner, "controller"));
    assert_string_equal(document_str(document_at(pod, "spec.containers")->first, "name"), "c");
    /* The same again, and another template has another hash. */
    const struct pod_maker again = good(text);
    assert_string_equal(again.hash, workload.hash);
    const struct pod_maker other = good("{kind: Deployment, metadata: {name: web}, "
                                        "spec: {template: {spec: {containers: [{name: d}]}}}}");
    assert_int_equal(other.pods, 1);
    assert_string_equal(other.namespace, "home");
    assert_string_not_equal(other.hash, workload.hash);
}

FIXTURE_TEST(pod_maker__shares_nothing_between_pods)
{
    const struct pod_maker workload =
        good("{kind: StatefulSet, metadata: {name: db}, spec: {replicas: 2, " TEMPLATE "}}");
    struct document *first = pod_maker_pod(&arena, &workload, 0);
    const struct document *second = pod_maker_pod(&arena, &workload, 1);
    document_set_str(&arena, document_object(&arena, first, "spec"), "nodeName", "n1");
    has(first, "spec.hostname = db-0");
    has(second, "spec.hostname = db-1;spec.nodeName = -");
    assert_null(document_get(workload.spec, "hostname"));
}

FIXTURE_TEST(stateful_set__counts_from_its_start_in_order)
{
    struct pod_maker set =
        good("{kind: StatefulSet, metadata: {name: db}, spec: {replicas: 3, ordinals: {start: 5}, "
             "serviceName: db, " TEMPLATE "}}");
    const struct document *pod = pod_maker_pod(&arena, &set, 1);
    assert_true(set.ordered);
    assert_string_equal(name_of(&set, 0), "db-5");
    assert_string_equal(name_of(&set, 2), "db-7");
    assert_null(document_at(pod, "metadata.generateName"));
    assert_string_equal(entry(pod, "metadata.labels", "statefulset.kubernetes.io/pod-name"),
                        "db-6");
    assert_string_equal(entry(pod, "metadata.labels", "apps.kubernetes.io/pod-index"), "6");
    has(owner_of(pod), "kind = StatefulSet");
    set = good(
        "{kind: StatefulSet, metadata: {name: db}, spec: {podManagementPolicy: Parallel, " TEMPLATE
        "}}");
    assert_false(set.ordered);
    assert_false(set.has_claims);
    assert_int_equal(set.pods, 1);
    set = good(
        "{kind: StatefulSet, metadata: {name: db}, spec: {volumeClaimTemplates: [{}], " TEMPLATE
        "}}");
    assert_true(set.has_claims);
}

FIXTURE_TEST(replica_set__numbers_its_pods)
{
    static const char *const each[][2] = {{"ReplicaSet", "apps/v1"},
                                          {"ReplicationController", "v1"}};
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        const char *kind =
            arena_printf(&arena, "kind = %s;apiVersion = %s", each[i][0], each[i][1]);
        const struct pod_maker set =
            good(arena_printf(&arena,
                              "{kind: %s, apiVersion: %s, metadata: {name: web}, "
                              "spec: {replicas: 2, " TEMPLATE "}}",
                              each[i][0], each[i][1]));
        assert_int_equal(set.pods, 2);
        assert_string_equal(name_of(&set, 0), "web-0");
        assert_string_equal(name_of(&set, 1), "web-1");
        has(owner_of(pod_maker_pod(&arena, &set, 0)), kind);
    }
}

FIXTURE_TEST(job__starts_its_first_pods)
{
    static const struct {
        const char *spec;
        uint32_t pods;
        const char *note; /* a part of it; NULL: none */
    } each[] = {
        {"", 1, NULL},
        {"parallelism: 4, ", 4, NULL},
        {"completions: 4, ", 1, "the first 1 of 4 pods"},
        {"parallelism: 4, completions: 10, ", 4, "the first 4 of 10 pods"},
        {"parallelism: 4, completions: 3, ", 3, NULL},
        {"parallelism: 0, ", 0, NULL},
        {"parallelism: 4, suspend: true, ", 0, "suspended"},
        {"parallelism: 4, suspend: false, ", 4, NULL},
        {"parallelism: null, completions: null, ", 1, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        const struct pod_maker job = good(arena_printf(
            &arena, "{kind: Job, apiVersion: batch/v1, metadata: {name: train}, spec: {%s%s}}",
            each[i].spec, TEMPLATE));
        if (job.pods != each[i].pods)
            fail_msg("%s: %u pods", each[i].spec, (unsigned)job.pods);
        assert_true((job.note == NULL) == (each[i].note == NULL));
        assert_true(job.note == NULL || strstr(job.note, each[i].note) != NULL);
        assert_string_equal(name_of(&job, 3), "train-3");
        assert_string_equal(entry(pod_maker_pod(&arena, &job, 0), "metadata.labels",
                                  "batch.kubernetes.io/job-name"),
                            "train");
    }
}

FIXTURE_TEST(indexed_job__names_the_index)
{
    const struct pod_maker job = good("{kind: Job, metadata: {name: train}, spec: {parallelism: 2, "
                                      "completions: 2, completionMode: Indexed, " TEMPLATE "}}");
    const struct document *pod = pod_maker_pod(&arena, &job, 1);
    has(pod, "metadata.name = train-1-0;spec.hostname = train-1");
    assert_string_equal(entry(pod, "metadata.labels", "batch.kubernetes.io/job-completion-index"),
                        "1");
    assert_string_equal(
        entry(pod, "metadata.annotations", "batch.kubernetes.io/job-completion-index"), "1");
    assert_string_equal(entry(pod, "metadata.annotations", "milligpu.io/gpu-model"), "L4");
}

FIXTURE_TEST(cron_job__makes_one_job)
{
    struct pod_maker cron =
        good("{kind: CronJob, apiVersion: batch/v1, metadata: {name: night}, spec: {schedule: "
             "\"0 3 * * *\", jobTemplate: {spec: {parallelism: 2, " TEMPLATE "}}}}");
    assert_int_equal(cron.pods, 2);
    assert_string_equal(name_of(&cron, 1), "night-1-1");
    has(owner_of(pod_maker_pod(&arena, &cron, 0)), "kind = Job");
    assert_non_null(strstr(cron.note, "one Job"));
    cron = good("{kind: CronJob, metadata: {name: night}, "
                "spec: {suspend: true, jobTemplate: {spec: {" TEMPLATE "}}}}");
    assert_int_equal(cron.pods, 0);
    cron = good("{kind: CronJob, metadata: {name: night}, "
                "spec: {jobTemplate: {spec: {suspend: true, " TEMPLATE "}}}}");
    assert_int_equal(cron.pods, 0);
}

FIXTURE_TEST(pod__stands_for_itself)
{
    struct pod_maker pod =
        good("{kind: Pod, metadata: {name: one, labels: {a: b}, ownerReferences: ["
             "{kind: ReplicaSet, name: r, controller: true}]}, spec: {x: 1}, "
             "status: {phase: Running}}");
    const struct document *made = pod_maker_pod(&arena, &pod, 0);
    assert_int_equal(pod.pods, 1);
    assert_string_equal(name_of(&pod, 0), "one");
    assert_string_equal(entry(made, "metadata.labels", "a"), "b");
    assert_int_equal(document_int(made, "spec.x"), 1);
    assert_string_equal(pod.owner_kind, "ReplicaSet");
    assert_string_equal(pod.owner_name, "r");
    pod = good("{kind: Pod, metadata: {generateName: one-}, spec: {}}");
    assert_string_equal(name_of(&pod, 0), "one-7");
}

FIXTURE_TEST(pod_name__fits_a_label)
{
    char name[254];
    (void)memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const struct pod_maker web = good(arena_printf(
        &arena, "{kind: Deployment, metadata: {name: %s}, spec: {replicas: 100000, " TEMPLATE "}}",
        name));
    assert_int_equal(strlen(name_of(&web, 99999)), 63);
    const struct pod_maker job =
        good(arena_printf(&arena,
                          "{kind: Job, metadata: {name: %s}, spec: {parallelism: 100000, "
                          "completions: 100000, completionMode: Indexed, " TEMPLATE "}}",
                          name));
    const char *last = name_of(&job, 99999);
    assert_true(strlen(last) <= 63);
    assert_non_null(strstr(last, "a-99999-0"));
}

FIXTURE_TEST(workload_kind__is_known_by_kind_and_group)
{
    static const struct {
        const char *kind;
        const char *version;
        enum workload_kind is;
    } each[] = {
        {"Pod", "v1", WORKLOAD_POD},
        {"Pod", "", WORKLOAD_POD},
        {"Pod", "metrics.k8s.io/v1", WORKLOAD_KINDS},
        {"Deployment", "apps/v1", WORKLOAD_DEPLOYMENT},
        {"Deployment", "apps/v1beta2", WORKLOAD_DEPLOYMENT},
        {"Deployment", "v1", WORKLOAD_KINDS},
        {"Deployment", "app/v1", WORKLOAD_KINDS},
        {"StatefulSet", "apps.kruise.io/v1", WORKLOAD_KINDS},
        {"Job", "batch/v1", WORKLOAD_JOB},
        {"Job", "batch.volcano.sh/v1alpha1", WORKLOAD_KINDS},
        {"CronJob", "batch/v1beta1", WORKLOAD_CRON_JOB},
        {"ReplicationController", "v1", WORKLOAD_REPLICATION_CONTROLLER},
        {"ReplicaSet", "apps/v1", WORKLOAD_REPLICA_SET},
        {"DaemonSet", "apps/v1", WORKLOAD_DAEMON_SET},
        {"DaemonSet", "apps.kruise.io/v1", WORKLOAD_KINDS},
        {"", "v1", WORKLOAD_KINDS},
    };
    for (size_t i = 0; i < ARRAY_LEN(each); i++)
        if (workload_kind_of(each[i].kind, each[i].version) != each[i].is)
            fail_msg("%s %s", each[i].kind, each[i].version);
}

FIXTURE_TEST(daemon_set__makes_a_pod_for_each_node)
{
    static const char *const nodes[] = {"n1", "n2"};
    struct pod_maker maker;
    assert_int_equal(read_one("kind: DaemonSet\nmetadata: {name: each}\nspec: {template: {spec: "
                              "{tolerations: [{operator: Exists}], affinity: {nodeAffinity: "
                              "{requiredDuringSchedulingIgnoredDuringExecution: "
                              "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: "
                              "Exists}]}]}}}}}}",
                              &maker),
                     0);
    assert_int_equal(maker.pods, 0); /* until the nodes are known */
    const struct document *any = pod_maker_pod(&arena, &maker, 0);
    assert_int_equal(document_at(any, "spec.tolerations")->count, 7);
    const char *terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                        "nodeSelectorTerms";
    assert_string_equal(
        document_str(document_at(document_at(any, terms)->first, "matchExpressions")->first, "key"),
        "a");
    maker.node = nodes;
    maker.pods = 2;
    const struct document *pod = pod_maker_pod(&arena, &maker, 1);
    assert_string_equal(document_str(pod, "metadata.name"), "each-1");
    const struct document *term = document_at(pod, terms)->first;
    assert_null(document_get(term, "matchExpressions"));
    assert_int_equal(document_at(pod, terms)->count, 1);
    const struct document *rule = document_get(term, "matchFields")->first;
    assert_string_equal(document_str(rule, "key"), "metadata.name");
    assert_true(text_is(document_get(rule, "values")->first->text, "n2"));
    /* The template itself is as it was. */
    assert_int_equal(document_get(maker.spec, "tolerations")->count, 1);
}

/* An object with this spec beside the template; and one with this metadata. */
#define SPEC(kind, spec) "{kind: " kind ", metadata: {name: w}, spec: {" spec ", " TEMPLATE "}}"
#define META(kind, meta) "{kind: " kind ", metadata: " meta ", spec: {" TEMPLATE "}}"

FIXTURE_TEST(pod_maker__names_wrong_fields)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {SPEC("Deployment", "replicas: \"3\""),
         "spec.replicas: expected an integer, found a string; write it without quotes"},
        {SPEC("Deployment", "replicas: -1"),
         "spec.replicas: -1 must be greater than or equal to 0"},
        {SPEC("Deployment", "replicas: 1.5"), "spec.replicas: expected an integer, found 1.5"},
        {SPEC("Deployment", "replicas: 99999999999999999999"),
         "spec.replicas: 99999999999999999999 is beyond 2147483647"},
        {SPEC("Deployment", "replicas: 100001"), "spec.replicas: 100001 pods are too many"},
        {SPEC("Deployment", "replicas: [2]"), "spec.replicas: expected an integer, found an array"},
        {"{kind: Deployment, metadata: {name: w}}", "spec.template: a pod template is required"},
        {"{kind: Deployment, metadata: {name: w}, spec: {template: x}}",
         "spec.template: expected an object, found a string"},
        {"{kind: Deployment, metadata: {name: w}, spec: {template: {}}}",
         "spec.template.spec: a pod needs a spec"},
        {"{kind: Deployment, metadata: {name: w}, spec: {template: {spec: 3}}}",
         "spec.template.spec: expected an object, found a number"},
        {"{kind: Deployment, metadata: {name: w}, spec: {template: {metadata: {labels: {a: 1}}, "
         "spec: {}}}}",
         "spec.template.metadata.labels[\"a\"]: expected a string, found a number; put it in"},
        {META("Deployment", "{}"), "metadata.name: a name is required"},
        {META("Deployment", "{name: Web}"), "metadata.name: expected lower case"},
        {META("Deployment", "{name: w, namespace: a/b}"),
         "metadata.namespace: expected lower case"},
        {SPEC("StatefulSet", "podManagementPolicy: parallel"),
         "spec.podManagementPolicy: \"parallel\" is not one of OrderedReady and Parallel"},
        {SPEC("StatefulSet", "ordinals: {start: -3}"), "spec.ordinals.start: -3 must be"},
        {SPEC("Job", "parallelism: x"), "spec.parallelism: expected an integer"},
        {SPEC("Job", "completions: true"), "spec.completions: expected an integer"},
        {SPEC("Job", "completionMode: Indexed"), "spec.completions: a number is required"},
        {SPEC("Job", "completionMode: indexed"), "spec.completionMode: \"indexed\" is not one of"},
        {SPEC("Job", "suspend: \"x\""), "spec.suspend: expected true or false, found a string"},
        {META("CronJob", "{name: w}"),
         "spec.jobTemplate.spec.template: a pod template is required"},
        {"{kind: CronJob, metadata: {name: w}, "
         "spec: {jobTemplate: {spec: {parallelism: z, " TEMPLATE "}}}}",
         "spec.jobTemplate.spec.parallelism: expected an integer"},
        {"{kind: Pod, metadata: {name: w, annotations: {a: true}}, spec: {}}",
         "metadata.annotations[\"a\"]: expected a string"},
        {"{kind: Pod, metadata: 3, spec: {}}", "metadata: expected an object"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct pod_maker workload;
        if (read_one(bad[i].text, &workload) == 0)
            fail_msg("%s was read", bad[i].text);
        if (strncmp(err.text, bad[i].says, strlen(bad[i].says)) != 0)
            fail_msg("%s: %s", bad[i].text, err.text);
    }
}

FIXTURE_TEST(unconsidered__names_rules_that_a_pod_uses)
{
    static const struct {
        const char *spec;
        int what; /* -1: nothing */
    } each[] = {
        {"{}", -1},
        {"{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{}]}}}",
         UNCONSIDERED_POD_AFFINITY},
        {"{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{}]}}}",
         UNCONSIDERED_POD_AFFINITY},
        {"{affinity: {podAffinity: {}, nodeAffinity: {}}}", -1},
        {"{topologySpreadConstraints: [{}]}", UNCONSIDERED_SPREAD},
        {"{topologySpreadConstraints: []}", -1},
        {"{containers: [{}, {ports: [{containerPort: 80}, {hostPort: 80}]}]}",
         UNCONSIDERED_HOST_PORTS},
        {"{hostNetwork: true, containers: [{ports: [{containerPort: 80}]}]}",
         UNCONSIDERED_HOST_PORTS},
        {"{hostNetwork: true, containers: [{}]}", -1},
        {"{containers: [{ports: [{containerPort: 80}]}]}", -1},
        {"{volumes: [{emptyDir: {}}, {configMap: {name: x}}]}", -1},
        {"{volumes: [{emptyDir: {}}, {persistentVolumeClaim: {claimName: x}}]}",
         UNCONSIDERED_VOLUMES},
        {"{volumes: [{ephemeral: {}}]}", UNCONSIDERED_VOLUMES},
        {"{resourceClaims: [{name: x}]}", UNCONSIDERED_CLAIMS},
        {"{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{}]}}}",
         UNCONSIDERED_PREFERRED},
        {"{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}}", -1},
        {"{priorityClassName: high}", UNCONSIDERED_PRIORITY},
        {"{priority: 10}", UNCONSIDERED_PRIORITY},
        {"{priority: 0}", -1},
        {"{runtimeClassName: kata}", UNCONSIDERED_RUNTIME_CLASS},
        {"{workloadRef: {name: x}}", UNCONSIDERED_GANG},
        {"{schedulerName: mine}", UNCONSIDERED_SCHEDULER},
        {"{schedulerName: default-scheduler}", -1},
        {"{affinity: x, volumes: 3, containers: {}, topologySpreadConstraints: y}", -1},
    };
    uint32_t met = 0;
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        const uint32_t wanted = each[i].what < 0 ? 0 : 1U << each[i].what;
        const uint32_t found =
            unconsidered_of(yaml(arena_printf(&arena, "{spec: %s}", each[i].spec)));
        if (found != wanted)
            fail_msg("%s: %x", each[i].spec, (unsigned)found);
        met |= found;
    }
    for (unsigned i = 0; i < UNCONSIDEREDS; i++) {
        assert_true(unconsidered_text((enum unconsidered)i)[0] != '\0');
        assert_true((met >> i & 1) != 0 || i == UNCONSIDERED_PREFER_NO_SCHEDULE);
    }
}
