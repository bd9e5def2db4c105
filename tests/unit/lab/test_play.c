#include <stdio.h>
#include <string.h>

#include "ctl/client.h"
#include "ctl/forward.h"
#include "lab/cluster/manifest.h"
#include "lab/play/play.h"
#include "lab/play/play_nodes.h"
#include "support/scoped.h"
#include "support/test.h"

static struct arena arena;
static struct strbuf left_out;
static struct strbuf wrong_objects;
static struct err err;

static struct document *json(const char *text)
{
    struct document *value;
    if (document_parse_json(text_of(text), "document", &arena, &value, &err) < 0)
        fail_msg("%s", err.text);
    return value;
}

static void note(void *user, const char *kind, const char *name, const char *why)
{
    (void)user;
    assert_true(why[0] != '\0');
    strbuf_printf(&left_out, "%s %s;", kind, name);
}

static void note_wrong(void *user, const char *text)
{
    (void)user;
    strbuf_printf(&wrong_objects, "%s;", text);
}

/* All pods that the text stands for. */
static int read_pods(const char *text, struct document **out)
{
    struct manifest manifest = {.arena = &arena, .namespace = "home", .skip = note};

    *out = document_new(&arena, DOCUMENT_ARRAY);
    if (manifest_parse(&manifest, text_of(text), "pods.yaml", &err) < 0)
        return -1;
    manifest_finish(&manifest);
    for (const struct pod_maker *at = manifest.first; at != NULL; at = at->next)
        for (uint32_t i = 0; i < at->pods; i++)
            document_append(*out, pod_maker_pod(&arena, at, i));
    assert_int_equal((*out)->count, manifest.pods);
    return 0;
}

static int begin(void **state __attribute__((unused)))
{
    arena_init(&arena);
    strbuf_init(&left_out);
    strbuf_init(&wrong_objects);
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    arena_done(&arena);
    strbuf_done(&left_out);
    strbuf_done(&wrong_objects);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

FIXTURE_TEST(manifest__reads_documents_lists_and_json)
{
    static const char *const same[] = {
        "kind: Pod\nmetadata: {name: a, namespace: x}\nspec: {}\n---\n"
        "kind: Pod\nmetadata: {name: b}\nspec: {}\n---\n",
        "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a, namespace: x}\n  spec: {}\n"
        "- kind: Pod\n  metadata: {name: b}\n  spec: {}\n",
        "{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a\",\"namespace\":\"x\"},"
        "\"spec\":{}},{\"metadata\":{\"name\":\"b\"},\"spec\":{}}]}",
        " \n{kind: PodList, items: [{metadata: {name: a, namespace: x}, spec: {}}, "
        "{metadata: {name: b}, spec: {}}]}",
    };
    struct document *pods;
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        assert_int_equal(read_pods(same[i], &pods), 0);
        assert_int_equal(pods->count, 2);
        assert_string_equal(document_shown(pods->first, "metadata.name"), "a");
        assert_string_equal(document_shown(pods->first, "metadata.namespace"), "x");
        assert_string_equal(document_shown(pods->last, "metadata.name"), "b");
        assert_string_equal(document_shown(pods->last, "metadata.namespace"), "home");
    }
}

FIXTURE_TEST(manifest__skips_and_names_other_kinds)
{
    struct document *pods;
    assert_int_equal(
        read_pods("kind: Service\nmetadata: {name: web}\n---\nkind: List\nitems: "
                  "[{kind: Node, metadata: {name: n1}}]\n---\napiVersion: apps.example.com/v1\n"
                  "kind: StatefulSet\nmetadata: {name: theirs}\n",
                  &pods),
        0);
    assert_int_equal(pods->count, 0);
    assert_string_equal(left_out.data, "Service web;Node n1;StatefulSet theirs;");
}

/* Without a reporter, the first of them ends the reading. */
FIXTURE_TEST(manifest__skips_wrong_objects_with_a_reporter)
{
    static const char text[] = "kind: DaemonSet\nmetadata: {name: each}\n---\n[]\n---\n{}\n---\n"
                               "kind: List\nitems: 7\n---\n"
                               "kind: Pod\nmetadata: {name: a}\nspec: {}\n";
    struct manifest manifest = {
        .arena = &arena, .namespace = "home", .skip = note, .wrong = note_wrong};
    struct document *pods;
    assert_int_equal(manifest_parse(&manifest, text_of(text), "pods.yaml", &err), 0);
    assert_string_equal(wrong_objects.data,
                        "pods.yaml: DaemonSet each: spec.template: a pod template is required;"
                        "pods.yaml: a Pod must be an object;"
                        "pods.yaml: an object has no kind: it is Pod or List;"
                        "pods.yaml: the items of a List are an array;");
    assert_int_equal(manifest.workloads, 1);
    assert_string_equal(manifest.first->name, "a");
    assert_int_equal(read_pods(text, &pods), -1);
}

FIXTURE_TEST(manifest__plays_owned_objects_once)
{
    static const char dump[] =
        "kind: List\nitems:\n"
        "- {kind: Pod, metadata: {name: web-1-a, ownerReferences: [{kind: ReplicaSet, name: web-1, "
        "controller: true}]}, spec: {}}\n"
        "- {kind: Pod, metadata: {name: alone, ownerReferences: [{kind: ReplicaSet, name: gone, "
        "controller: true}]}, spec: {}}\n"
        "- {kind: Pod, metadata: {name: web-1-b, namespace: other, ownerReferences: [{kind: "
        "ReplicaSet, name: web-1, controller: true}]}, spec: {}}\n"
        "- {kind: Deployment, apiVersion: apps/v1, metadata: {name: web}, spec: {replicas: 2, "
        "template: {spec: {}}}}\n"
        "- {kind: ReplicaSet, apiVersion: apps/v1, metadata: {name: web-1, ownerReferences: [{"
        "kind: Deployment, name: web, controller: true}]}, spec: {replicas: 2, template: {spec: "
        "{}}}}\n";
    struct document *pods;
    assert_int_equal(read_pods(dump, &pods), 0);
    assert_string_equal(left_out.data, "Pod web-1-a;ReplicaSet web-1;");
    assert_int_equal(pods->count, 4);
    assert_string_equal(document_str(pods->first, "metadata.name"), "alone");
}

FIXTURE_TEST(manifest__refuses_too_many_pods)
{
    static const char deployment[] =
        "{kind: Deployment, metadata: {name: %s}, spec: {replicas: %s, "
        "template: {spec: {}}}}\n---\n";
    struct document *pods;
    assert_true(read_pods(arena_printf(&arena, deployment, "web", "1000000000"), &pods) < 0);
    assert_string_equal(err.text, "pods.yaml: Deployment web: spec.replicas: 1000000000 pods are "
                                  "too many: play makes at most 100000");
    const char *two = arena_printf(&arena, "%s%s", arena_printf(&arena, deployment, "a", "60000"),
                                   arena_printf(&arena, deployment, "b", "60000"));
    assert_true(read_pods(two, &pods) < 0);
    assert_string_equal(err.text,
                        "pods.yaml: Deployment b: its 60000 pods and the 60000 before are "
                        "too many: play makes at most 100000");
}

FIXTURE_TEST(manifest__names_the_fault_of_broken_text)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"17", "must be an object"},
        {"- kind: Pod\n", "must be an object"},
        {"kind: Pod\nspec: {}\n", "metadata.name"},
        {"kind: Pod\nmetadata: {name: [x]}\nspec: {}\n", "metadata.name"},
        {"kind: Pod\nmetadata: {name: x}\n", "needs a spec"},
        {"metadata: {name: x}\n", "no kind"},
        {"kind: List\nitems: 3\n", "array"},
        {"kind: List\nitems: [3]\n", "must be an object"},
        {"{\"kind\":\"Pod\",", "document"},
        {"kind: Pod\n\tx: 1\n", "line 2"},
    };
    struct document *pods;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(read_pods(bad[i].text, &pods) < 0);
        if (strstr(err.text, "pods.yaml") == NULL || strstr(err.text, bad[i].says) == NULL)
            fail_msg("%s: %s", bad[i].text, err.text);
    }
}

FIXTURE_TEST(play_args__have_capitalised_members)
{
    SCOPED_STRBUF(out);
    const struct document *pod =
        json("{\"metadata\":{\"name\":\"a\\\"b\",\"namespace\":\"x\",\"uid\":\"u\"},\"spec\":{}}");
    play_args(&out, pod, json("[\"n1\",\"n2\"]"));
    assert_string_equal(out.data,
                        "{\"Pod\":{\"metadata\":{\"name\":\"a\\\"b\",\"namespace\":\"x\",\"uid\":"
                        "\"u\"},\"spec\":{}},\"Nodes\":null,\"NodeNames\":[\"n1\",\"n2\"]}");
    strbuf_reset(&out);
    play_bind_args(&out, pod, "n1");
    assert_string_equal(out.data, "{\"PodName\":\"a\\\"b\",\"PodNamespace\":\"x\",\"PodUID\":\"u\","
                                  "\"Node\":\"n1\"}");
}

FIXTURE_TEST(play_best__takes_the_first_of_the_best_scores)
{
    const struct document *names = json("[\"a\",\"b\",\"c\"]");
    assert_string_equal(
        play_best(json("[{\"Host\":\"a\",\"Score\":3},{\"Host\":\"b\",\"Score\":10},"
                       "{\"Host\":\"c\",\"Score\":10}]"),
                  names),
        "b");
    assert_string_equal(play_best(json("[{\"Host\":\"a\",\"Score\":0}]"), names), "a");
    assert_string_equal(
        play_best(json("[{\"Host\":\"stranger\",\"Score\":10},{\"Host\":\"c\",\"Score\":1}]"),
                  names),
        "c");
    assert_null(play_best(json("[]"), names));
    assert_null(play_best(json("{\"Host\":\"a\"}"), names));
    assert_null(play_best(NULL, names));
}

/* Why a pod was refused: names of nodes, the answer of filter, the nodes of the view or NULL. */
static char *counted(const char *names, const char *filter, const char *view)
{
    struct node_reasons reasons = {.arena = &arena};
    SCOPED_STRBUF(out);
    uint32_t sum = 0;

    reasons_add(&reasons, "node(s) were unschedulable", true, 1);
    reasons_take(&reasons, json(names), json(filter), view != NULL ? json(view) : NULL);
    reasons_write(&reasons, &out);
    document_each (reason, reasons_document(&reasons, &arena))
        sum += (uint32_t)document_int(reason, "nodes");
    assert_int_equal(sum, 1 + json(names)->count);
    return arena_copy(&arena, (struct text){out.data, out.len});
}

FIXTURE_TEST(reasons__count_an_entry_for_each_node)
{
    assert_string_equal(
        counted("[\"n1\",\"n2\",\"n3\"]",
                "{\"FailedNodes\":{\"n1\":\"cold\"},\"FailedAndUnresolvableNodes\":{"
                "\"n2\":\"full\",\"n3\":\"full\"}}",
                NULL),
        "2 nodes: full; 1 node: cold; 1 node(s) were unschedulable");
    assert_string_equal(counted("[]", "{}", NULL), "1 node(s) were unschedulable");
    assert_string_equal(counted("[\"n1\"]", "{\"FailedNodes\":null}", NULL),
                        "1 node: no reason was given; 1 node(s) were unschedulable");
}

FIXTURE_TEST(reasons__count_a_shared_entry_by_the_view)
{
    static const char many[] = "[\"n1\",\"n2\",\"n3\",\"n4\"]";
    static const char two[] = "{\"FailedAndUnresolvableNodes\":{"
                              "\"n1\":\"full (one entry for all such nodes)\","
                              "\"n3\":\"no GPU (one entry for all such nodes)\"}}";
    static const char view[] =
        "[{\"name\":\"n0\",\"text\":\"full\"},{\"name\":\"n1\",\"text\":\"full\"},"
        "{\"name\":\"n2\",\"text\":\"full\"},{\"name\":\"n3\",\"text\":\"no GPU\"},"
        "{\"name\":\"n4\",\"text\":\"full\"}]";
    assert_false(reasons_are_counted(json(many), json(two)));
    assert_string_equal(counted(many, two, view),
                        "3 nodes: full; 1 node: no GPU; 1 node(s) were unschedulable");
    /* One text is true of all nodes, so no view is needed. */
    assert_true(reasons_are_counted(
        json(many), json("{\"FailedNodes\":{\"n1\":\"full (one entry for all such nodes)\"}}")));
    assert_true(reasons_are_counted(json("[\"n1\",\"n2\"]"),
                                    json("{\"FailedNodes\":{\"n1\":\"a\",\"n2\":\"b\"}}")));
    assert_string_equal(
        counted(many, "{\"FailedNodes\":{\"n1\":\"full (one entry for all such nodes)\"}}", "[]"),
        "4 nodes: full; 1 node(s) were unschedulable");
    /* A view that is missing, or that lacks nodes, makes no number wrong. */
    assert_string_equal(counted(many, two, NULL),
                        "4 nodes: full, or no GPU; 1 node(s) were unschedulable");
    assert_string_equal(counted(many, two, "[{\"name\":\"n1\",\"text\":\"\"}]"),
                        "3 nodes: not known to milligpud; 1 node: fits by now; "
                        "1 node(s) were unschedulable");
}

FIXTURE_TEST(play_nodes__count_running_pods)
{
    SCOPED_STRBUF(out);
    struct node_reasons reasons = {.arena = &arena};
    struct play_nodes nodes;
    struct fit_pod pod;
    play_nodes_init(&nodes, &arena);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            play_nodes_add(&nodes,
                           json(arena_printf(&arena,
                                             "{\"metadata\":{\"name\":\"n%d\"},\"spec\":{"
                                             "\"unschedulable\":%s},\"status\":{"
                                             "\"allocatable\":{\"cpu\":\"4\"}}}",
                                             i, i == 2 ? "true" : "false")),
                           &err),
            0);
    static const char *const runs[] = {
        "{\"spec\":{\"nodeName\":\"n0\",\"containers\":[{\"resources\":{\"requests\":{"
        "\"cpu\":\"1\"}}}]},\"status\":{\"phase\":\"Running\"}}",
        "{\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"resources\":{\"requests\":{"
        "\"cpu\":\"3\"}}}]},\"status\":{\"phase\":\"Succeeded\"}}",
        "{\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"resources\":{\"requests\":{"
        "\"cpu\":\"3\"}}}]},\"status\":{\"phase\":\"Failed\"}}",
        "{\"spec\":{\"nodeName\":\"gone\"}}",
        "{\"spec\":{}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(runs); i++)
        assert_int_equal(play_nodes_run(&nodes, json(runs[i]), &err), 0);
    const struct document *wanted = json("{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{"
                                         "\"cpu\":\"3500m\"}}}]}}");
    assert_int_equal(fit_pod_read(&arena, wanted, &pod, &err), 0);
    const struct document *names = play_nodes_feasible(&nodes, &pod, "nvidia.com/vgpu", &reasons);
    assert_int_equal(names->count, 1);
    assert_string_equal(names->first->text.at, "n1");
    reasons_write(&reasons, &out);
    assert_string_equal(out.data, "1 Insufficient cpu; 1 node(s) were unschedulable");
    play_nodes_take(&nodes, "n1", &pod);
    reasons = (struct node_reasons){.arena = &arena};
    assert_int_equal(play_nodes_feasible(&nodes, &pod, "nvidia.com/vgpu", &reasons)->count, 0);
    assert_int_equal(reasons.nodes, 3);
    assert_true(play_nodes_run(&nodes,
                               json("{\"metadata\":{\"namespace\":\"x\",\"name\":\"bad\"},"
                                    "\"spec\":{\"nodeName\":\"n1\",\"containers\":3}}"),
                               &err) < 0);
    assert_string_equal(err.text, "Pod x/bad: spec.containers: expected an array, found a number");
    assert_true(
        play_nodes_add(&nodes, json("{\"metadata\":{\"name\":\"n9\",\"labels\":3}}"), &err) < 0);
    assert_string_equal(err.text, "Node n9: metadata.labels: expected an object, found a number");
    play_nodes_done(&nodes);
}

FIXTURE_TEST(play_asks__needs_the_resource_in_the_pod)
{
    static const struct {
        const char *pod;
        bool asks;
    } cases[] = {
        {"{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/vgpu\":300}}}]}}",
         true},
        {"{\"spec\":{\"containers\":[{},{\"resources\":{\"requests\":{"
         "\"nvidia.com/vgpu\":\"0\"}}}]}}",
         true},
        {"{\"spec\":{\"initContainers\":[{\"resources\":{\"limits\":{\"nvidia.com/vgpu\":1}}}]}}",
         true},
        {"{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":1}}}]}}", false},
        {"{\"spec\":{}}", false},
        {"{}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(play_asks(json(cases[i].pod), "nvidia.com/vgpu"), cases[i].asks);
}

FIXTURE_TEST(url__escapes_queries_and_segments)
{
    SCOPED_STRBUF(path);
    strbuf_str(&path, "/x/");
    url_escape(&path, "a/b c?\xc3\xa4~-._");
    url_query(&path, "k", "1+2&3");
    url_query(&path, "none", NULL);
    url_query(&path, "l", "");
    assert_string_equal(path.data, "/x/a%2Fb%20c%3F%C3%A4~-._?k=1%2B2%263&l=");
}

FIXTURE_TEST(client_problem__is_one_sentence)
{
    assert_int_equal(
        client_problem(404, TEXT("{\"title\":\"not found\",\"detail\":\"no pod x\"}"), &err),
        -ERR_NOT_FOUND);
    assert_string_equal(err.text, "no pod x");
    assert_int_equal(client_problem(503, TEXT("{\"title\":\"starting\"}"), &err), -ERR_UNAVAILABLE);
    assert_string_equal(err.text, "starting");
    assert_int_equal(client_problem(500, TEXT("<html>"), &err), -ERR_INTERNAL);
    assert_non_null(strstr(err.text, "500"));
    assert_int_equal(client_problem(400, TEXT(""), &err), -ERR_INVALID);
    assert_int_equal(client_problem(409, TEXT("[]"), &err), -ERR_CONFLICT);
}

FIXTURE_TEST(forward__finds_the_port_in_kubectl_output)
{
    char address[32];
    assert_true(
        forward_read_line("Forwarding from 127.0.0.1:43211 -> 8911\n", address, sizeof address));
    assert_string_equal(address, "127.0.0.1:43211");
    assert_true(
        forward_read_line("hello\nForwarding from 127.0.0.1:1 -> 8911\nForwarding from [::1]:1",
                          address, sizeof address));
    assert_string_equal(address, "127.0.0.1:1");
    assert_false(forward_read_line("", address, sizeof address));
    assert_false(forward_read_line("Forwarding from 127.0.0.1:432", address, sizeof address));
    assert_false(
        forward_read_line("Forwarding from 127.0.0.1:432110 -> 1", address, sizeof address));
    assert_false(forward_read_line("Forwarding from [::1]:43211 -> 8911", address, sizeof address));
}
