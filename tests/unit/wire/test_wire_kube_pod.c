#include "support.h"

static struct pod decode(struct fixture *fixture, const char *bytes)
{
    struct pod pod;
    if (pod_decode(exact_json(fixture, bytes), &rules, &fixture->arena, &pod, &fixture->err) != 0)
        fail_msg("%s", fixture->err.text);
    return pod;
}

static void refuse(struct fixture *fixture, const char *bytes, const char *says)
{
    struct pod pod;
    fixture->err = (struct err){0};
    if (pod_decode(exact_json(fixture, bytes), &rules, &fixture->arena, &pod, &fixture->err) == 0)
        fail_msg("%s was taken", bytes);
    assert_says(fixture, says);
}

/* The pod is still seen: its identity can be read, its request cannot. */
static struct pod in_part(struct fixture *fixture, const char *bytes, const char *says)
{
    const struct pod pod = decode(fixture, bytes);
    assert_string_equal(pod.name, "p");
    assert_string_equal(pod.uid, "u");
    if (pod.unreadable == NULL || strstr(pod.unreadable, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", pod.unreadable, says);
    assert_lacks(pod.unreadable, "at byte");
    return pod;
}

#define META             "'metadata':{'name':'p','namespace':'ns','uid':'u'}"
#define SPEC(containers) "{" META ",'spec':{" containers "}}"
#define NOTES(annotations)                                                                         \
    "{'metadata':{'name':'p','uid':'u','annotations':{" annotations                                \
    "}},'spec':{'containers':[{'name':'a'},{'name':'b'}]}}"

WIRE_TEST(demands__are_read)
{
    const struct pod pod = decode(
        fixture,
        SPEC(
            "'tolerations':[{'key':'a','operator':'Exists','effect':'NoSchedule'},{'key':'b',"
            "'value':'v','tolerationSeconds':300},{'operator':'New'}],'nodeSelector':{'pool':'a',"
            "'zone':null},'affinity':{'podAffinity':{'x':1},'nodeAffinity':{"
            "'preferredDuringSchedulingIgnoredDuringExecution':[7],"
            "'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{"
            "'matchExpressions':[{'key':'k','operator':'In','values':['x','y']}]},{'matchFields':[{"
            "'key':'metadata.name','operator':'Exists'}]}]}}}"));
    const struct node_demands *demands = &pod.demands;

    assert_null(pod.unreadable);
    assert_false(demands->unreadable);
    assert_int_equal(demands->n_tolerations, 3);
    assert_string_equal(demands->toleration[0].key, "a");
    assert_string_equal(demands->toleration[0].value, "");
    assert_int_equal(demands->toleration[0].op, TOLERATE_EXISTS);
    assert_int_equal(demands->toleration[0].effect, EFFECT_NO_SCHEDULE);
    assert_string_equal(demands->toleration[1].value, "v");
    assert_int_equal(demands->toleration[1].op, TOLERATE_EQUAL);
    assert_int_equal(demands->toleration[1].effect, EFFECT_ANY);
    assert_int_equal(demands->toleration[2].op, TOLERATE_OTHER);
    assert_int_equal(demands->n_selectors, 1);
    assert_string_equal(demands->selector[0].key, "pool");
    assert_string_equal(demands->selector[0].value, "a");
    assert_true(demands->affine);
    assert_int_equal(demands->n_terms, 2);
    assert_int_equal(demands->term[0].n_expressions, 1);
    assert_int_equal(demands->term[0].n_fields, 0);
    assert_string_equal(demands->term[0].expression[0].key, "k");
    assert_int_equal(demands->term[0].expression[0].op, RULE_IN);
    assert_int_equal(demands->term[0].expression[0].n_values, 2);
    assert_string_equal(demands->term[0].expression[0].value[1], "y");
    assert_int_equal(demands->term[1].n_expressions, 0);
    assert_int_equal(demands->term[1].n_fields, 1);
    assert_int_equal(demands->term[1].field[0].op, RULE_EXISTS);
}

WIRE_TEST(demands__are_empty_for_a_pod_without_them)
{
    static const char *const bare[] = {
        SPEC("'nodeName':''"),
        SPEC("'tolerations':null,'nodeSelector':null,'affinity':null"),
        SPEC("'tolerations':[],'nodeSelector':{},'affinity':{}"),
        SPEC("'affinity':{'nodeAffinity':{}}"),
        SPEC("'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':null}}"),
    };

    for (size_t i = 0; i < ARRAY_LEN(bare); i++) {
        const struct pod pod = decode(fixture, bare[i]);
        assert_null(pod.unreadable);
        assert_false(pod.demands.unreadable || pod.demands.affine);
        assert_int_equal(pod.demands.n_tolerations + pod.demands.n_selectors + pod.demands.n_terms,
                         0);
    }
    const struct pod none = decode(
        fixture,
        SPEC("'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{}}}"));
    assert_true(none.demands.affine);
    assert_int_equal(none.demands.n_terms, 0);
}

/* The pod still gets its shares; only the nodes that admit it are unknown. */
WIRE_TEST(demands__that_cannot_be_read_are_noted_and_refuse_nothing)
{
#define AFFINITY(terms)                                                                            \
    SPEC("'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{"          \
         "'nodeSelectorTerms':" terms "}}}")
    static const char *const odd[] = {
        SPEC("'tolerations':7"),
        SPEC("'tolerations':[7]"),
        SPEC("'tolerations':[{'key':7}]"),
        SPEC("'nodeSelector':[]"),
        SPEC("'nodeSelector':{'a':7}"),
        SPEC("'affinity':7"),
        SPEC("'affinity':{'nodeAffinity':7}"),
        SPEC("'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':7}}"),
        AFFINITY("7"),
        AFFINITY("[7]"),
        AFFINITY("[{'matchExpressions':7}]"),
        AFFINITY("[{'matchExpressions':[7]}]"),
        AFFINITY("[{'matchExpressions':[{'operator':'Exists'}]}]"),
        AFFINITY("[{'matchExpressions':[{'key':'k','operator':7}]}]"),
        AFFINITY("[{'matchFields':[{'key':'k','operator':'In','values':[7]}]}]"),
    };
#undef AFFINITY

    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        const struct pod pod = decode(fixture, odd[i]);
        assert_string_equal(pod.name, "p");
        assert_null(pod.unreadable);
        assert_true(pod.demands.unreadable);
    }
}

/* A pod that tainted nodes refuse, as a real API server and kube-scheduler 1.37 write it. */
WIRE_TEST(condition__says_why_a_pod_is_not_scheduled)
{
    const struct pod pod = decode(
        fixture,
        "{" META
        ",'spec':{'schedulerName':'gpu-scheduler','schedulingGates':[{'name':'example.com/quota'},{"
        "'name':'b'},{}]},'status':{'conditions':[{'type':'PodReadyToStartContainers',"
        "'status':'False','reason':'no'},{'type':'PodScheduled','status':'False',"
        "'reason':'Unschedulable','message':'0/1 nodes are available',"
        "'lastTransitionTime':'2026-01-02T03:04:05Z'}]}}");
    assert_string_equal(pod.scheduling.scheduler, "gpu-scheduler");
    assert_string_equal(pod.scheduling.gates, "example.com/quota, b, ");
    assert_string_equal(pod.scheduling.reason, "Unschedulable");
    assert_string_equal(pod.scheduling.message, "0/1 nodes are available");
    assert_int_equal(pod.scheduling.since_ms, INT64_C(1767323045000));
    assert_int_equal(pod.scheduled_ms, 0);
    assert_null(pod.unreadable);
}

WIRE_TEST(condition__is_absent_when_scheduled_or_never_written)
{
    struct pod pod = decode(
        fixture,
        "{" META ",'spec':{'schedulerName':'','schedulingGates':[]},'status':{'conditions':[{"
        "'type':'PodScheduled','status':'True','lastTransitionTime':'2026-01-02T03:04:05Z'}]}}");
    assert_null(pod.scheduling.scheduler);
    assert_null(pod.scheduling.gates);
    assert_null(pod.scheduling.reason);
    assert_int_equal(pod.scheduled_ms, INT64_C(1767323045000));
    pod = decode(fixture, SPEC("'containers':[]"));
    assert_null(pod.scheduling.reason);
    assert_null(pod.scheduling.message);
    assert_null(pod.owner.kind);
}

/* A tenant may write any length, and any character. */
WIRE_TEST(texts_for_people__are_clipped_and_escaped)
{
    char *text = arena_alloc(&fixture->arena, 4096);
    const size_t head = (size_t)snprintf(
        text, 4096,
        "{" META
        ",'spec':{'schedulerName':'a\\u001b[31m'},'status':{'conditions':[{'type':'PodScheduled',"
        "'message':'");
    memset(text + head, 'x', 1000);
    (void)snprintf(text + head + 1000, 4096 - head - 1000, "\"}]}}");
    const struct pod pod = decode(fixture, text);
    assert_string_equal(pod.scheduling.scheduler, "a\\u001b[31m");
    assert_int_equal(strlen(pod.scheduling.message), CONDITION_TEXT_MAX - 1);
    assert_string_equal(pod.scheduling.message + CONDITION_TEXT_MAX - 4, "...");
    assert_string_equal(pod.scheduling.reason, "");
    assert_int_equal(pod.scheduling.since_ms, 0);
}

/* Texts for people decide nothing: the pod is as readable as without them. */
WIRE_TEST(texts_for_people__that_cannot_be_read_are_left_out)
{
    struct pod pod = decode(
        fixture, "{'metadata':{'name':'p','uid':'u','labels':7,'ownerReferences':[3]},'spec':{"
                 "'schedulerName':5,'schedulingGates':{'a':1},'nodeName':'n1'}}");
    assert_null(pod.unreadable);
    assert_null(pod.scheduling.scheduler);
    assert_null(pod.scheduling.gates);
    assert_null(pod.owner.kind);
    assert_string_equal(pod.node, "n1");
    pod = decode(
        fixture,
        "{'metadata':{'name':'p','uid':'u','labels':{'a':3,'pod-template-hash':9,"
        "'controller-revision-hash':'r'},'ownerReferences':[{'kind':'Job','name':'j','uid':'1',"
        "'controller':true},5]},'spec':{'schedulingGates':[{'name':'x'},4]}}");
    assert_null(pod.unreadable);
    assert_string_equal(pod.owner.revision, "r");
    assert_string_equal(pod.owner.kind, "Job");
    assert_string_equal(pod.scheduling.gates, "x, ");
}

/* A controller of this kind and name made the pod, which has this label. */
WIRE_TEST(owner__of_a_replica_set_is_the_deployment_that_made_it)
{
    static const struct {
        const char *label;
        const char *kind;
        const char *name;
        const char *owner_kind;
        const char *owner_name; /* of the controller itself, unless it was made by another */
    } row[] = {
        {"'pod-template-hash':'5d4'", "ReplicaSet", "llm-5d4", "Deployment", "llm"},
        {"'rollouts-pod-template-hash':'5d4'", "ReplicaSet", "llm-5d4", "Rollout", "llm"},
        {"'pod-template-hash':'5d4'", "ReplicaSet", "a-5d4", "Deployment", "a"},
        {"'pod-template-hash':'5d4'", "ReplicaSet", "-5d4", "ReplicaSet", "-5d4"},
        {"'pod-template-hash':'5d4'", "ReplicaSet", "llm_5d4", "ReplicaSet", "llm_5d4"},
        {"'pod-template-hash':'5d4'", "ReplicaSet", "llm-5d5", "ReplicaSet", "llm-5d5"},
        {"'pod-template-hash':'5d4'", "Job", "llm-5d4", "Job", "llm-5d4"},
        {"'a':'b'", "ReplicaSet", "llm-5d4", "ReplicaSet", "llm-5d4"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct pod pod = decode(
            fixture,
            arena_printf(&fixture->arena,
                         "{'metadata':{'name':'p','uid':'u','ownerReferences':["
                         "{'kind':'A','name':'b','controller':false},{'kind':'C','name':'d'},"
                         "{'kind':'%s','name':'%s','uid':'1-2','controller':true}],"
                         "'labels':{%s}}}",
                         row[i].kind, row[i].name, row[i].label));
        assert_string_equal(pod.owner.kind, row[i].owner_kind);
        assert_string_equal(pod.owner.name, row[i].owner_name);
        if (strcmp(row[i].owner_name, row[i].name) == 0)
            assert_string_equal(pod.owner.uid, "1-2");
        else
            assert_null(pod.owner.uid);
    }
}

WIRE_TEST(odd_keys__are_annotations_near_ours)
{
    struct pod pod =
        decode(fixture, NOTES("'milligpu.io/gpu-model':'A100','gpu-count.milligpu.io/a':'2'"));
    assert_int_equal(pod.n_odd_keys, 0);
    pod = decode(fixture,
                 NOTES("'milligpu.io/gpu_model':'A100','x.io/y':'z','gpu-count.milligpu.io/c':'2',"
                       "'gpu-count.milligpu.io/b':'2','milligpu.com/gpu-count':7"));
    assert_int_equal(pod.n_odd_keys, 3);
    assert_string_equal(pod.odd_key[0], "milligpu.io/gpu_model");
    assert_string_equal(pod.odd_key[1], "milligpu.com/gpu-count");
    assert_string_equal(pod.odd_key[2], "gpu-count.milligpu.io/c");
    assert_null(pod.model);
    assert_null(pod.unreadable); /* their values are not read */
    pod =
        decode(fixture,
               NOTES("'milligpu.io/1':'','milligpu.io/2':'','milligpu.io/3':'','milligpu.io/4':'',"
                     "'milligpu.io/5':'','gpu-count.milligpu.io/c':'2'"));
    assert_int_equal(pod.n_odd_keys, ODD_KEYS_MAX);
    assert_string_equal(pod.odd_key[ODD_KEYS_MAX - 1], "milligpu.io/4");
    pod =
        decode(fixture,
               NOTES("'milli\\u0000gpu.io/gpu-model':'A100','gpu-count.milligpu.io/\\u0000c':'2'"));
    assert_int_equal(pod.n_odd_keys, 0); /* cut off at the NUL they would be other keys */
}

WIRE_TEST(pod_decoder__reads_a_whole_pod)
{
    const struct pod pod = decode(
        fixture,
        "{'kind':'Pod','apiVersion':'v1','metadata':{'name':'web-0','namespace':'team',"
        "'uid':'cf75','resourceVersion':'192','creationTimestamp':'2026-11-21T01:28:29Z',"
        "'deletionTimestamp':'2026-11-21T01:28:30Z','labels':{'a':'b'},'ownerReferences':[{"
        "'uid':'x','name':'y'}]},'spec':{'nodeName':'node-1','schedulerName':'default-scheduler',"
        "'priority':-5,'containers':[{'name':'c','env':[{'name':'x','value':'{'}],'resources':{"
        "'limits':{'nvidia.com/vgpu':'300','cpu':'2'},'requests':{'nvidia.com/vgpu':'300',"
        "'cpu':'1500m','memory':'1Gi','example.com/x':'1'}}}]},'status':{'phase':'Running',"
        "'conditions':[{'type':'Ready','status':'True',"
        "'lastTransitionTime':'2026-11-21T02:00:00Z'},{'type':'PodScheduled','status':'True',"
        "'lastProbeTime':null,'lastTransitionTime':'2026-11-21T01:28:31Z'}]}}");
    assert_string_equal(pod.name, "web-0");
    assert_string_equal(pod.namespace, "team");
    assert_string_equal(pod.uid, "cf75");
    assert_string_equal(pod.resource_version, "192");
    assert_string_equal(pod.node, "node-1");
    assert_null(pod.unreadable);
    assert_int_equal(pod.priority, -5);
    assert_int_equal(pod.phase, POD_RUNNING);
    assert_int_equal(pod.created_ms, INT64_C(1795224509000));
    assert_int_equal(pod.terminating_ms, INT64_C(1795224510000));
    assert_int_equal(pod.scheduled_ms, INT64_C(1795224511000));
    assert_int_equal(pod.cpu_milli, 1500);
    assert_int_equal(pod.memory_bytes, 1 << 30);
    assert_true(pod.ours);
    assert_int_equal(pod.whole_gpus, 0);
    assert_int_equal(pod.n_containers, 1);
    assert_string_equal(pod.container[0].name, "c");
    assert_string_equal(pod.container[0].amount, "300");
    assert_int_equal(pod.container[0].kind, CONTAINER_APP);
    assert_null(pod.container[0].count);
    assert_null(pod.count);
    assert_null(pod.model);
    assert_null(pod.memory);
    assert_int_equal(pod.annotation, NOTE_NONE);
}

/* labels: inside the braces. */
static struct pod agent(struct fixture *fixture, const char *namespace, const char *labels)
{
    static const struct wire_rules selecting = {
        .resource = "nvidia.com/vgpu",
        .whole_resource = "nvidia.com/gpu",
        .agents = {.namespace = "agents", .key = {"part", 4}, .value = {"node", 4}}};
    char bytes[512];
    struct pod pod;

    (void)snprintf(
        bytes, sizeof bytes,
        "{'metadata':{'labels':{%s},'name':'p','uid':'u'%s%s%s},'spec':{'nodeName':'n1'}}", labels,
        namespace != NULL ? ",'namespace':'" : "", namespace != NULL ? namespace : "",
        namespace != NULL ? "\"" : "");
    if (pod_decode(exact_json(fixture, bytes), &selecting, &fixture->arena, &pod, &fixture->err) !=
        0)
        fail_msg("%s", fixture->err.text);
    assert_string_equal(pod.node, "n1");
    assert_null(pod.unreadable);
    return pod;
}

/* Tenants write labels: only those of the agents' own namespace count. */
WIRE_TEST(is_agent__needs_namespace_and_label)
{
    static const struct {
        const char *namespace;
        const char *labels;
        bool agent;
    } row[] = {
        {"agents", "'part':'node'", true},
        {"agents", "'a':'b','part':'node','pod-template-hash':'x'", true},
        {"agents", "'part':'x','part':'node'", true},
        {"agents", "'part':'node','part':'x'", false},
        {"tenant", "'part':'node'", false},
        {"agents2", "'part':'node'", false},
        {"", "'part':'node'", false},
        {NULL, "'part':'node'", false},
        {"agents", "", false},
        {"agents", "'part':'nodes'", false},
        {"agents", "'part':'nod'", false},
        {"agents", "'part':''", false},
        {"agents", "'parts':'node'", false},
        {"agents", "'par':'node'", false},
        {"agents", "'a':'node','node':'part'", false},
        /* No API server has such a label; it must not hide the rest of the pod. */
        {"agents", "'part':null", false},
        {"agents", "'part':7", false},
        {"agents", "'part':{'node':[1]}", false},
        {"agents", "'part':7,'part':'node'", true},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        if (agent(fixture, row[i].namespace, row[i].labels).is_agent != row[i].agent)
            fail_msg("%s: %s", row[i].namespace, row[i].labels);
    /* The revision of its owner is read beside. */
    assert_string_equal(
        agent(fixture, "agents", "'part':'node','controller-revision-hash':'r'").owner.revision,
        "r");
    /* Where no selector is given, no pod is one. */
    const struct pod pod = decode(
        fixture,
        "{'metadata':{'name':'p','uid':'u','namespace':'agents','labels':{'':'','part':'node'}}}");
    assert_false(pod.is_agent);
}

WIRE_TEST(is_ready__is_the_ready_condition)
{
    static const struct {
        const char *conditions;
        bool ready;
    } row[] = {
        {"{'type':'Ready','status':'True'}", true},
        {"{'type':'PodScheduled','status':'True'},{'status':'True','type':'Ready'}", true},
        {"{'type':'Ready','status':'True'},{'type':'ContainersReady','status':'False'}", true},
        {"", false},
        {"{'type':'Ready','status':'False'}", false},
        {"{'type':'Ready','status':'Unknown'}", false},
        {"{'type':'Ready','status':'true'}", false},
        {"{'type':'Ready','status':null}", false},
        {"{'type':'Ready'}", false},
        {"{'type':'ContainersReady','status':'True'}", false},
        {"{'type':'PodScheduled','status':'True'}", false},
        {"{'type':'PodResizePending','status':'True','reason':'Infeasible'}", false},
        {"{'status':'True'}", false},
        /* No API server has two of a kind; the last counts. */
        {"{'type':'Ready','status':'True'},{'type':'Ready','status':'False'}", false},
    };
    char bytes[512];

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        (void)snprintf(bytes, sizeof bytes, "{" META ",'status':{'conditions':[%s]}}",
                       row[i].conditions);
        if (decode(fixture, bytes).is_ready != row[i].ready)
            fail_msg("%s", row[i].conditions);
    }
    assert_false(decode(fixture, "{" META "}").is_ready);
    /* An unreadable condition hides no pod, and makes none Ready. */
    assert_false(decode(fixture, "{" META ",'status':{'conditions':[{'type':'Ready','status':7}]}}")
                     .is_ready);
}

WIRE_TEST(null__of_a_go_client_is_an_absent_key)
{
    const struct pod pod = decode(
        fixture,
        "{'kind':null,'metadata':{'name':'p','namespace':null,'uid':'u','creationTimestamp':null,"
        "'deletionTimestamp':null,'labels':null,'annotations':null,'managedFields':null},'spec':{"
        "'nodeName':null,'priority':null,'initContainers':null,'containers':[{'name':'c',"
        "'resources':null},{'name':'d','restartPolicy':null,'resources':{'limits':null,"
        "'requests':null}}],'overhead':null,'resources':null},'status':{'phase':null,"
        "'conditions':null,'containerStatuses':null}}");
    assert_string_equal(pod.namespace, "");
    assert_string_equal(pod.node, "");
    assert_int_equal(pod.created_ms, 0);
    assert_int_equal(pod.n_containers, 2);
    assert_int_equal(pod.phase, POD_PENDING);
    assert_false(pod.ours);

    const struct pod bare = decode(fixture, "{" META ",'spec':null,'status':null}");
    assert_int_equal(bare.n_containers, 0);
    const struct pod none = decode(fixture, "{" META ",'spec':{'containers':null}}");
    assert_int_equal(none.n_containers, 0);
    assert_false(none.ours);
}

WIRE_TEST(null__annotation_is_absent)
{
    const struct pod pod =
        decode(fixture, NOTES("'milligpu.io/gpu-count':null,'milligpu.io/allocation':null"));
    assert_null(pod.count);
    assert_int_equal(pod.annotation, NOTE_NONE);
}

WIRE_TEST(pod_decoder__takes_keys_in_any_case)
{
    const struct pod pod = decode(
        fixture,
        "{'Metadata':{'NAME':'p','uid':'u','resourceversion':'7'},'SPEC':{'initcontainers':[{"
        "'name':'i','restartpolicy':'Always'}],'nodename':'n'}}");
    assert_string_equal(pod.name, "p");
    assert_string_equal(pod.resource_version, "7");
    assert_string_equal(pod.node, "n");
    assert_int_equal(pod.container[0].kind, CONTAINER_SIDECAR);
}

WIRE_TEST(containers__are_in_the_order_of_their_lives)
{
    const struct pod pod = decode(
        fixture,
        SPEC("'containers':[{'name':'a'},{'name':'b','restartPolicy':'Always'}],"
             "'ephemeralContainers':[{'name':'e','resources':{'limits':{'nvidia.com/vgpu':'1'}}}],"
             "'initContainers':[{'name':'i'},{'name':'s','restartPolicy':'Always'},{'name':'j',"
             "'restartPolicy':'Never'}]"));
    static const struct {
        const char *name;
        enum container_kind kind;
    } expected[] = {{"i", CONTAINER_INIT},
                    {"s", CONTAINER_SIDECAR},
                    {"j", CONTAINER_INIT},
                    {"a", CONTAINER_APP},
                    {"b", CONTAINER_APP}};
    assert_int_equal(pod.n_containers, ARRAY_LEN(expected));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        assert_string_equal(pod.container[i].name, expected[i].name);
        assert_int_equal(pod.container[i].kind, expected[i].kind);
    }
    assert_false(pod.ours);
}

static const char *amount_of(struct fixture *fixture, const char *resources)
{
    struct strbuf bytes;
    strbuf_init(&bytes);
    strbuf_printf(&bytes, "{" META ",'spec':{'containers':[{'name':'c','resources':{%s}}]}}",
                  resources);
    const struct pod pod = decode(fixture, bytes.data);
    strbuf_done(&bytes);
    assert_true(pod.ours == (pod.container[0].amount != NULL));
    return pod.container[0].amount;
}

WIRE_TEST(amount__is_the_limit_or_else_the_request_as_written)
{
    assert_string_equal(
        amount_of(fixture, "'limits':{'nvidia.com/vgpu':'1k'},'requests':{'nvidia.com/vgpu':'2'}"),
        "1k");
    assert_string_equal(amount_of(fixture, "'requests':{'nvidia.com/vgpu':'2'}"), "2");
    assert_string_equal(amount_of(fixture, "'limits':{'nvidia.com/vgpu':300}"), "300");
    assert_string_equal(amount_of(fixture, "'limits':{'nvidia.com/vgpu':3e2}"), "3e2");
    assert_string_equal(amount_of(fixture, "'limits':{'nvidia.com/vgpu':-1.5}"), "-1.5");
    assert_string_equal(amount_of(fixture, "'limits':{'nvidia.com/vgpu':'0'}"), "0");
    assert_string_equal(amount_of(fixture, "'limits':{'nvidia.com/vgpu':'junk'}"), "junk");
    assert_string_equal(amount_of(fixture, "'limits':{'nvidia.com/vgpu':null}"), "0");
    assert_null(amount_of(fixture, "'limits':{'nvidia.com/VGPU':'300'}"));
    assert_null(amount_of(fixture, "'limits':{'cpu':'1'},'requests':{}"));
}

#define RESOURCES(resources)                                                                       \
    SPEC("'containers':[{'name':'c','resources':{" resources "}},{'name':'d',"                     \
         "'resources':{'limits':{'nvidia.com/vgpu':'200'}}}]")

WIRE_TEST(amount__of_a_wrong_type_is_an_unknown_request)
{
    static const struct wire_case cases[] = {
        {RESOURCES("'limits':{'nvidia.com/vgpu':[1]}"),
         "spec.containers[0].resources.limits[\"nvidia.com/vgpu\"]: expected a quantity"},
        {RESOURCES("'limits':{'nvidia.com/vgpu':1,'nvidia.com/vgpu':2}"), "comes twice"},
        {RESOURCES("'requests':{'cpu':'fast'}"), "requests.cpu: is no quantity"},
        {RESOURCES("'requests':{'memory':'-1'}"), "requests.memory: must not be negative"},
        {RESOURCES("'requests':{'memory':true}"), "requests.memory: expected a quantity"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct pod pod = in_part(fixture, cases[i].bytes, cases[i].says);
        assert_true(pod.ours);
        assert_int_equal(pod.n_containers, 2);
        assert_string_equal(pod.container[0].amount, "");
        assert_string_equal(pod.container[1].amount, "200");
    }
}

#define ASKS(name, cpu, more)                                                                      \
    "{'name':'" name "\"," more "'resources':{'requests':{'cpu':'" cpu "\"}}}"
#define SIDECAR "'restartPolicy':'Always',"

WIRE_TEST(effective_request__is_the_peak_over_the_life_of_the_pod)
{
    static const struct {
        const char *bytes;
        int64_t cpu_milli;
    } cases[] = {
        {SPEC("'containers':[" ASKS("a", "1", "") "," ASKS("b", "250m", "") "]"), 1250},
        {SPEC("'initContainers':[" ASKS("i", "3", "") "," ASKS(
             "j", "2", "") "],'containers':[" ASKS("a", "1", "") "]"),
         3000},
        {SPEC("'initContainers':[" ASKS("s", "1", SIDECAR) "," ASKS(
             "j", "2", "") "],'containers':[" ASKS("a", "1", "") "]"),
         3000},
        {SPEC("'initContainers':[" ASKS("j", "2", "") "," ASKS(
             "s", "1", SIDECAR) "],'containers':[" ASKS("a", "1", "") "]"),
         2000},
        {SPEC("'initContainers':[" ASKS("s", "1", SIDECAR) "," ASKS(
             "t", "1", SIDECAR) "],'containers':[" ASKS("a", "1",
                                                        "") "],'overhead':{'cpu':'100m'}"),
         3100},
        {SPEC("'containers':[" ASKS("a", "1", "") "],'resources':{'requests':{'cpu':'5'}}"), 5000},
        {SPEC("'containers':[{'name':'a','resources':{'limits':{'cpu':'2'}}}]"), 2000},
        {SPEC("'containers':[{'name':'a','resources':{'requests':{'cpu':'0'},'limits':{"
              "'cpu':'2'}}}]"),
         0},
        {SPEC("'containers':[" ASKS("a", "1e30", "") "," ASKS("b", "1", "") "]"), INT64_MAX},
        {SPEC("'containers':[" ASKS("a", "0.1m", "") "]"), 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct pod pod = decode(fixture, cases[i].bytes);
        if (pod.cpu_milli != cases[i].cpu_milli)
            fail_msg("case %zu: %lld", i, (long long)pod.cpu_milli);
    }
}

WIRE_TEST(whole_gpus__are_counted_like_shares)
{
    const struct pod pod = decode(
        fixture,
        SPEC("'containers':[{'name':'a','resources':{'limits':{'nvidia.com/gpu':'2'}}},{'name':'b',"
             "'resources':{'limits':{'nvidia.com/gpu':1}}}]"));
    assert_int_equal(pod.whole_gpus, 3);
    assert_false(pod.ours);
    const struct pod many =
        decode(fixture,
               SPEC("'containers':[{'name':'a','resources':{'limits':{'nvidia.com/gpu':'1E'}}}]"));
    assert_int_equal(many.whole_gpus, UINT32_MAX);
}

WIRE_TEST(effective_request__of_a_resized_pod_is_the_largest)
{
#define RESIZED(conditions)                                                                        \
    "{" META ",'status':{" conditions "'containerStatuses':[{'name':'a',"                          \
    "'allocatedResources':{'cpu':'2'},'resources':{'requests':{'cpu':'3'}}}]},"                    \
    "'spec':{'containers':[" ASKS("a", "9", "") "]}}"
#define PENDING(reason)                                                                            \
    "'conditions':[{'type':'PodResizePending','status':'True','reason':'" reason "'}],"
    assert_int_equal(decode(fixture, RESIZED("")).cpu_milli, 9000);
    assert_int_equal(decode(fixture, RESIZED(PENDING("Infeasible"))).cpu_milli, 3000);
    assert_int_equal(decode(fixture, RESIZED(PENDING("Deferred"))).cpu_milli, 9000);
}

/* The API server takes such a status, and protobuf has its lists in the other order. */
WIRE_TEST(effective_request__depends_on_no_order_of_statuses)
{
#define ACTUAL(cpu) "{'name':'a','resources':{'requests':{'cpu':'" cpu "'}}}"
#define APP         "'containerStatuses':[" ACTUAL("40") "," ACTUAL("30") "]"
#define INIT        "'initContainerStatuses':[" ACTUAL("50") "," ACTUAL("60") "]"
#define BOTH(first, second)                                                                        \
    "{" META ",'status':{" first "," second "},'spec':{'containers':[" ASKS("a", "9", "") "]}}"
    assert_int_equal(decode(fixture, BOTH(APP, INIT)).cpu_milli, 40000);
    assert_int_equal(decode(fixture, BOTH(INIT, APP)).cpu_milli, 40000);
    assert_int_equal(decode(fixture, BOTH(INIT, "'phase':'Running'")).cpu_milli, 50000);
}

WIRE_TEST(phase__is_read)
{
    static const struct {
        const char *bytes;
        enum pod_phase phase;
    } cases[] = {
        {"{" META ",'status':{'phase':'Pending'}}", POD_PENDING},
        {"{" META ",'status':{'phase':'Running'}}", POD_RUNNING},
        {"{" META ",'status':{'phase':'Succeeded'}}", POD_SUCCEEDED},
        {"{" META ",'status':{'phase':'Failed'}}", POD_FAILED},
        {"{" META ",'status':{'phase':'Unknown'}}", POD_UNKNOWN},
        {"{" META ",'status':{'phase':'Later'}}", POD_UNKNOWN},
        {"{" META ",'status':{'phase':''}}", POD_PENDING},
        {"{" META ",'status':{}}", POD_PENDING},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(decode(fixture, cases[i].bytes).phase, cases[i].phase);
}

WIRE_TEST(annotations__of_ours_are_read)
{
    const struct pod pod = decode(
        fixture,
        NOTES("'gpu-count.milligpu.io/b':'3','milligpu.io/gpu-count':'2',"
              "'milligpu.io/gpu-model':'A100*,H100*','milligpu.io/gpu-memory':'16Gi',"
              "'gpu-count.milligpu.io/zzz':'4','other':'{\\'','gpu-count.milligpu.io/':'5'"));
    assert_string_equal(pod.count, "2");
    assert_string_equal(pod.model, "A100*,H100*");
    assert_string_equal(pod.memory, "16Gi");
    assert_null(pod.container[0].count);
    assert_string_equal(pod.container[1].count, "3");
    assert_null(pod.unreadable);
}

WIRE_TEST(signature__names_its_key)
{
    static const struct {
        const char *annotation;
        uint64_t key;
    } row[] = {
        {"\"v1:0123456789abcdef:AAAA\"", 0x0123456789abcdef},
        {"\"v1:fedcba9876543210:\"", 0xfedcba9876543210},
        {"\"v1:0123456789abcdef\"", 0},
        {"\"v1:0123456789abcde:AAAA\"", 0},
        {"\"v1:0123456789abcdeF:AAAA\"", 0},
        {"\"v1:0123456789abcde/:AAAA\"", 0},
        {"\"v1:0123456789abcde`:AAAA\"", 0},
        {"\"v1:0123456789abcdeg:AAAA\"", 0},
        {"\"v2:0123456789abcdef:AAAA\"", 0},
        {"\"\"", 0},
        {"null", 0},
        {"7", 0},
        {"\"v1:0123456789abcdef:\\u0000\"", 0},
    };
    char text[300];

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        (void)snprintf(
            text, sizeof text,
            "{'metadata':{'name':'p','uid':'u','annotations':{'milligpu.io/signature':%s}},'spec':{"
            "'containers':[{'name':'a'}]}}",
            row[i].annotation);
        const struct pod pod = decode(fixture, text);
        assert_true(pod.signed_by == row[i].key);
        assert_int_equal(pod.signature_verdict, SIGNATURE_UNCHECKED);
        if (row[i].key == 0)
            assert_string_equal(pod.signature, "");
        else
            assert_memory_equal(pod.signature, row[i].annotation + 1,
                                strlen(row[i].annotation) - 2);
        assert_null(pod.unreadable); /* it concerns no decision */
    }
    assert_true(key_number(TEXT("0123456789abcdef")) == 0x0123456789abcdef);
    assert_true(key_number(TEXT("0123456789abcdef0")) == 0);
}

/* The API server allows any character in a value, so any author of a pod can use it. */
WIRE_TEST(annotation__that_cannot_be_read_hides_no_pod)
{
    static const struct wire_case cases[] = {
        {NOTES("'milligpu.io/gpu-count':'\\u0000'"),
         "metadata.annotations[\"milligpu.io/gpu-count\"]: must not hold a NUL"},
        {NOTES("'milligpu.io/gpu-model':'A100\\u0000'"), "gpu-model\"]: must not hold a NUL"},
        {NOTES("'milligpu.io/gpu-memory':'\\u00001Gi'"), "gpu-memory\"]: must not hold"},
        {NOTES("'gpu-count.milligpu.io/b':'\\u0000'"), "milligpu.io/b\"]: must not hold"},
        {NOTES("'milligpu.io/gpu-count':'2','milligpu.io/gpu-count':'3'"),
         "annotations[\"milligpu.io/gpu-count\"]: comes twice"},
        {NOTES("'gpu-count.milligpu.io/b':'2','gpu-count.milligpu.io/b':'3'"),
         "gpu-count.milligpu.io/ comes twice"},
        {NOTES("'milligpu.io/gpu-count':2"),
         "annotations[\"milligpu.io/gpu-count\"]: expected a string, found a number"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct pod pod = in_part(fixture, cases[i].bytes, cases[i].says);
        assert_int_equal(pod.n_containers, 2);
        assert_false(pod.ours);
    }
}

WIRE_TEST(pod_decoder__reads_on_behind_an_unreadable_value)
{
    const struct pod pod = in_part(
        fixture,
        "{'metadata':{'annotations':{'milligpu.io/gpu-count':'\\u0000',"
        "'milligpu.io/gpu-memory':'16Gi'},'creationTimestamp':[],'deletionTimestamp':'never',"
        "'name':'p','uid':'u','resourceVersion':'77'},'spec':{'priority':{'a':[1,{}]},'overhead':7,"
        "'nodeName':'n1','containers':[{'name':'c','resources':{'limits':{"
        "'nvidia.com/vgpu':'300'}}}]},'status':{'conditions':[{'type':7},{'type':'PodScheduled',"
        "'status':'True','lastTransitionTime':'2026-11-21T01:28:31Z'}],'containerStatuses':{},"
        "'phase':'Running'}}",
        "gpu-count\"]: must not hold a NUL");
    assert_string_equal(pod.resource_version, "77");
    assert_string_equal(pod.node, "n1");
    assert_string_equal(pod.memory, "16Gi");
    assert_string_equal(pod.container[0].amount, "300");
    assert_int_equal(pod.phase, POD_RUNNING);
    assert_int_equal(pod.scheduled_ms, INT64_C(1795224511000));
    assert_true(pod.terminating_ms > 0); /* terminating since an unknown time */
}

WIRE_TEST(pod_decoder__reports_init_containers_first_in_any_order)
{
#define APPS  "'containers':[{'name':7}]"
#define INITS "'initContainers':[{'name':8},{'name':'i','resources':7}]"
    (void)in_part(fixture, "{" META ",'spec':{" APPS "," INITS "}}", "initContainers[0].name");
    (void)in_part(fixture, "{" META ",'spec':{" INITS "," APPS "}}", "initContainers[0].name");
    (void)in_part(fixture, "{" META ",'spec':{" APPS ",'overhead':7}}", "containers[0].name");
}

WIRE_TEST(phase__that_cannot_be_read_is_not_an_end)
{
    assert_int_equal(
        in_part(fixture, "{" META ",'status':{'phase':7}}", "status.phase: expected").phase,
        POD_UNKNOWN);
    assert_int_equal(in_part(fixture, "{" META ",'status':'Failed'}", "status: expected").phase,
                     POD_UNKNOWN);
}

/* The annotation holds the grant, not the request, so the request can still be read. */
WIRE_TEST(note__that_cannot_be_read_is_broken)
{
    const struct pod pod = decode(fixture, NOTES("'milligpu.io/allocation':'\\u0000'"));
    assert_int_equal(pod.annotation, NOTE_BROKEN);
    assert_has(pod.note_error, "must not hold a NUL");
    assert_null(pod.unreadable);
}

WIRE_TEST(foreign_strings__may_be_anything)
{
    static const char hostile[] =
        "{" META
        ",'spec':{'schedulerName':'%s','containers':[{'name':'c','command':['\\u0000','\\ud800']}],"
        "'nodeName':'n1'},'status':{'containerStatuses':[{'name':'\\u0000','resources':{}}],"
        "'message':'\xFF'}}";
    char name[301];
    char bytes[1024];
    memset(name, 's', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    (void)snprintf(bytes, sizeof bytes, hostile, name);
    const struct pod pod = decode(fixture, bytes);
    assert_string_equal(pod.node, "n1");
    assert_null(pod.unreadable);
}

#define NOTE(json) NOTES("'milligpu.io/allocation':'" json "\"")
#define SHARE      "{\\'gpu\\':\\'GPU-1\\',\\'index\\':3,\\'milli\\':300,\\'mib\\':4915}"

WIRE_TEST(note__becomes_shares)
{
    const struct pod pod = decode(
        fixture,
        NOTE("{\\'v\\':1,\\'new\\':[],\\'containers\\':{\\'a\\':[" SHARE
             "],\\'b\\':[{\\'gpu\\':\\'node-1/gpu-0\\',\\'index\\':0,\\'milli\\':1e3,\\'mib\\':0},{"
             "\\'mib\\':4294967295,\\'milli\\':7,\\'index\\':65535,\\'gpu\\':\\'G\\',\\'x\\':1,"
             "\\'asked\\':6}]}}"));
    if (pod.annotation != NOTE_OK)
        fail_msg("%s", pod.note_error);
    assert_int_equal(pod.n_shares, 3);
    assert_string_equal(pod.share[0].container, "a");
    assert_string_equal(pod.share[0].gpu, "GPU-1");
    assert_int_equal(pod.share[0].index, 3);
    assert_int_equal(pod.share[0].milli, 300);
    assert_int_equal(pod.share[0].mib, 4915);
    assert_int_equal(pod.share[0].asked, 0);
    assert_string_equal(pod.share[1].container, "b");
    assert_string_equal(pod.share[1].gpu, "node-1/gpu-0");
    assert_int_equal(pod.share[1].milli, 1000);
    assert_int_equal(pod.share[2].mib, UINT32_MAX);
    assert_int_equal(pod.share[2].asked, 6);
}

WIRE_TEST(note__error_names_the_field)
{
#define ONE(share) "{\\'v\\':1,\\'containers\\':{\\'a\\':[" share "]}}"
    static const struct wire_case cases[] = {
        {NOTE(""), "milligpu.io/allocation: expected an object, found the end"},
        {NOTE("null"), "expected an object"},
        {NOTE("[]"), "milligpu.io/allocation: expected an object, found an array"},
        {NOTE("{"), "found the end"},
        {NOTE("{\\'v\\':1,\\'containers\\':{}} x"), "has no \"containers\""},
        {NOTE("{\\'containers\\':{\\'a\\':[" SHARE "]}}"), "has no \"v\""},
        {NOTE("{\\'v\\':2,\\'containers\\':{}}"),
         "milligpu.io/allocation.v: is 2, but only 1 is known"},
        {NOTE("{\\'v\\':\\'1\\'}"), "milligpu.io/allocation.v: expected a whole number"},
        {NOTE("{\\'v\\':1}"), "has no \"containers\""},
        {NOTE("{\\'v\\':1,\\'v\\':1}"), "comes twice"},
        {NOTE("{\\'v\\':1,\\'containers\\':{\\'a\\':[]}}"), "containers.a: holds no share"},
        {NOTE("{\\'v\\':1,\\'containers\\':{\\'a\\':{}}}"), "containers.a: expected an array"},
        {NOTE("{\\'v\\':1,\\'containers\\':{\\'\\':[" SHARE "]}}"), "is no name"},
        {NOTE("{\\'v\\':1,\\'containers\\':{\\'a\\':[" SHARE "],\\'a\\':[" SHARE "]}}"),
         "containers.a: comes twice"},
        {NOTE(ONE(SHARE "," SHARE)), "containers.a[1]: gives the container the same GPU twice"},
        {NOTE(ONE("7")), "containers.a[0]: expected an object"},
        {NOTE(ONE("{}")), "has no \"gpu\""},
        {NOTE(ONE("{\\'gpu\\':\\'G\\',\\'index\\':0,\\'milli\\':1}")), "has no \"mib\""},
        {NOTE(ONE("{\\'gpu\\':null,\\'index\\':0,\\'milli\\':1,\\'mib\\':1}")), "null"},
        {NOTE(ONE("{\\'gpu\\':\\'\\'}")), "[0].gpu: must not be empty"},
        {NOTE(ONE("{\\'gpu\\':\\'a,b\\'}")), "[0].gpu: must be printable ASCII"},
        {NOTE(ONE("{\\'gpu\\':\\'a b\\'}")), "[0].gpu: must be printable ASCII"},
        {NOTE(ONE("{\\'milli\\':0}")), "[0].milli: is 0, but must be 1 to 1000"},
        {NOTE(ONE("{\\'milli\\':-300}")), "[0].milli: is -300, but must be 1 to 1000"},
        {NOTE(ONE("{\\'milli\\':1001}")), "[0].milli: is 1001, but must be 1 to 1000"},
        {NOTE(ONE("{\\'milli\\':0.5}")), "[0].milli: is 0.5, but must be a whole number"},
        {NOTE(ONE("{\\'milli\\':1e400}")), "[0].milli: is 1e400, beyond"},
        {NOTE(ONE("{\\'milli\\':\\'300\\'}")), "[0].milli: expected a whole number"},
        {NOTE(ONE("{\\'index\\':-1}")), "[0].index: is -1"},
        {NOTE(ONE("{\\'index\\':65536}")), "[0].index: is 65536"},
        {NOTE(ONE("{\\'mib\\':4294967296}")), "[0].mib: is 4294967296"},
        {NOTE(ONE("{\\'asked\\':0}")), "[0].asked: is 0, but must be 1 to 1000"},
        {NOTE(ONE("{\\'asked\\':1001}")), "[0].asked: is 1001, but must be 1 to 1000"},
        {NOTE(ONE("{\\'asked\\':\\'1\\'}")), "[0].asked: expected a whole number"},
        {NOTE(ONE("{\\'gpu\\':\\'G\\',\\'index\\':0,\\'milli\\':1,\\'mib\\':1,\\'asked\\':2}")),
         "[0]: is smaller than what was asked for"},
        {NOTE(ONE(SHARE) "0"), "1 bytes after the value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct pod pod = decode(fixture, cases[i].bytes);
        assert_int_equal(pod.annotation, NOTE_BROKEN);
        if (strstr(pod.note_error, cases[i].says) == NULL)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, pod.note_error, cases[i].says);
        assert_int_equal(pod.n_shares, 0);
        assert_null(pod.share);
        assert_non_null(pod.note_text);
    }
}

WIRE_TEST(note__beyond_its_limits_is_broken)
{
    struct strbuf many;
    strbuf_init(&many);
    strbuf_str(&many, "{\\'v\\':1,\\'containers\\':{\\'a\\':[");
    for (int i = 0; i <= PARTS_MAX; i++)
        strbuf_printf(&many, "%s{\\'gpu\\':\\'G%d\\',\\'index\\':0,\\'milli\\':1,\\'mib\\':0}",
                      i > 0 ? "," : "", i);
    strbuf_str(&many, "]}}");
    struct strbuf bytes;
    strbuf_init(&bytes);
    strbuf_printf(&bytes, NOTE("%s"), many.data);
    const struct pod pod = decode(fixture, bytes.data);
    assert_int_equal(pod.annotation, NOTE_BROKEN);
    assert_has(pod.note_error, "more than 512 shares (PARTS_MAX)");

    strbuf_reset(&many);
    for (int i = 0; i <= ANNOTATION_BYTES_MAX; i++)
        strbuf_char(&many, ' ');
    strbuf_reset(&bytes);
    strbuf_printf(&bytes, NOTE("%s"), many.data);
    const struct pod large = decode(fixture, bytes.data);
    assert_int_equal(large.annotation, NOTE_BROKEN);
    assert_has(large.note_error, "more than 262144");
    strbuf_done(&many);
    strbuf_done(&bytes);
}

WIRE_TEST(containers__are_read_whatever_their_number)
{
    enum { MANY = 3000 };
    struct strbuf bytes;
    strbuf_init(&bytes);
    strbuf_str(&bytes, "{'metadata':{'name':'p','uid':'u','annotations':{");
    for (int i = 0; i < MANY; i++)
        strbuf_printf(&bytes, "%s'gpu-count.milligpu.io/c%d':'%d'", i > 0 ? "," : "", i, i);
    strbuf_str(&bytes, "}},'status':{'containerStatuses':[");
    for (int i = MANY; i-- > 0;)
        strbuf_printf(&bytes, "{'name':'c%d','resources':{'requests':{'cpu':'2'}}}%s", i,
                      i > 0 ? "," : "");
    strbuf_str(&bytes, "]},'spec':{'containers':[");
    for (int i = 0; i < MANY; i++)
        strbuf_printf(&bytes, "%s{'name':'c%d','resources':{'requests':{'cpu':'1'%s}}}",
                      i > 0 ? "," : "", i, i == MANY - 1 ? ",'nvidia.com/vgpu':'7'" : "");
    strbuf_str(&bytes, "]}}");
    const struct pod pod = decode(fixture, bytes.data);
    assert_int_equal(pod.n_containers, MANY);
    assert_int_equal(pod.cpu_milli, MANY * 2000);
    assert_true(pod.ours);
    assert_string_equal(pod.container[MANY - 1].amount, "7");
    assert_string_equal(pod.container[MANY - 1].count, "2999");
    assert_string_equal(pod.container[10].count, "10");
    strbuf_done(&bytes);
}

WIRE_TEST(pod_decoder__refuses_other_objects)
{
    static const struct wire_case cases[] = {
        {"", "Pod: expected an object, found the end"},
        {"[]", "Pod: expected an object, found an array"},
        {"null", "Pod: expected an object"},
        {"{}", "Pod: has no metadata.name"},
        {"{'metadata':{'name':'p'}}", "Pod: has no metadata.uid"},
        {"{'kind':'Node'," META "}", "Pod.kind: is another kind of object, not \"Pod\""},
        {"{" META "} {}", "after the value"},
        {"{" META "," META "}", "Pod.metadata: comes twice"},
        {"{'metadata':{'name':1}}", "Pod.metadata.name: expected a string, found a number"},
        {"{'metadata':{'name':'a\\u0000b'}}", "Pod.metadata.name: must not hold a NUL"},
        {"{'metadata':[]}", "Pod.metadata: expected an object"},
        {SPEC("'nodeName':7"), "Pod.spec.nodeName: expected a string"},
        {SPEC("'containers':[}"), "Pod.spec.containers[0]: expected a value"},
        {"{" META ",'spec':7}", "Pod.spec: expected an object"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        refuse(fixture, cases[i].bytes, cases[i].says);
}

WIRE_TEST(containers__that_cannot_be_read_may_request_shares)
{
    static const struct wire_case cases[] = {
        {SPEC("'containers':{}"), "spec.containers: expected an array"},
        {SPEC("'containers':[null]"), "spec.containers[0]: expected an object"},
        {SPEC("'containers':[{}]"), "spec.containers[0]: has no \"name\""},
        {SPEC("'initContainers':[{'name':'a','resources':[]}]"),
         "spec.initContainers[0].resources: expected an object"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct pod pod = in_part(fixture, cases[i].bytes, cases[i].says);
        assert_true(pod.ours);
        assert_int_equal(pod.n_containers, 1);
        assert_string_equal(pod.container[0].amount, "");
    }
    assert_false(
        in_part(fixture, SPEC("'priority':2147483648"), "spec.priority: is 2147483648").ours);
    assert_false(in_part(fixture, "{'metadata':{'name':'p','uid':'u','annotations':[]}}",
                         "metadata.annotations: expected an object")
                     .ours);
}

WIRE_TEST(names__have_limits)
{
    char bytes[1024];
    char name[400];
    memset(name, 'n', sizeof name);
    (void)snprintf(bytes, sizeof bytes, "{'metadata':{'name':'%.*s','uid':'u'}}", 253, name);
    assert_int_equal(strlen(decode(fixture, bytes).name), 253);
    (void)snprintf(bytes, sizeof bytes, "{'metadata':{'name':'%.*s','uid':'u'}}", 254, name);
    refuse(fixture, bytes, "Pod.metadata.name: has 254 bytes, more than 253");
    (void)snprintf(bytes, sizeof bytes, "{'metadata':{'uid':'%.*s'}}", 129, name);
    refuse(fixture, bytes, "Pod.metadata.uid: has 129 bytes, more than 128");
}
