#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bin/ctl/client.h"
#include "bin/ctl/forward.h"
#include "bin/ctl/manifest.h"
#include "bin/ctl/play.h"

static struct arena arena;
static struct strbuf left_out;
static struct err err;

static struct doc *json(const char *text)
{
    struct doc *value;
    if (doc_parse_json(text_of(text), "document", &arena, &value, &err) < 0)
        fail_msg("%s", err.text);
    return value;
}

static void note(void *user, const char *kind, const char *name)
{
    (void)user;
    strbuf_printf(&left_out, "%s %s;", kind, name);
}

static int read_pods(const char *text, struct doc **out)
{
    struct manifest manifest = {
        .arena = &arena,
        .namespace = "home",
        .pods = doc_new(&arena, DOC_ARRAY),
        .skip = note,
    };
    *out = manifest.pods;
    return manifest_parse(&manifest, text_of(text), "pods.yaml", &err);
}

static void pods_come_from_documents_lists_and_json(void **state)
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
    struct doc *pods;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        assert_int_equal(read_pods(same[i], &pods), 0);
        assert_int_equal(pods->count, 2);
        assert_string_equal(doc_shown(pods->first, "metadata.name"), "a");
        assert_string_equal(doc_shown(pods->first, "metadata.namespace"), "x");
        assert_string_equal(doc_shown(pods->last, "metadata.name"), "b");
        assert_string_equal(doc_shown(pods->last, "metadata.namespace"), "home");
    }
}

static void other_kinds_are_named_and_left_out(void **state)
{
    struct doc *pods;
    (void)state;
    assert_int_equal(read_pods("kind: Deployment\nmetadata: {name: web}\n---\nkind: List\nitems: "
                               "[{kind: Node, metadata: {name: n1}}]\n",
                               &pods),
                     0);
    assert_int_equal(pods->count, 0);
    assert_string_equal(left_out.data, "Deployment web;Node n1;");
}

static void broken_manifests_are_named_with_the_reason(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"17", "must be an object"},
        {"- kind: Pod\n", "must be an object"},
        {"kind: Pod\nspec: {}\n", "metadata.name"},
        {"kind: Pod\nmetadata: {name: [x]}\nspec: {}\n", "metadata.name"},
        {"kind: Pod\nmetadata: {name: x}\n", "no spec"},
        {"metadata: {name: x}\n", "no kind"},
        {"kind: List\nitems: 3\n", "array"},
        {"kind: List\nitems: [3]\n", "must be an object"},
        {"{\"kind\":\"Pod\",", "document"},
        {"kind: Pod\n\tx: 1\n", "line 2"},
    };
    struct doc *pods;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(read_pods(bad[i].text, &pods) < 0);
        if (strstr(err.text, "pods.yaml") == NULL || strstr(err.text, bad[i].says) == NULL)
            fail_msg("%s: %s", bad[i].text, err.text);
    }
}

static void the_scheduler_writes_capitalised_bodies(void **state)
{
    CLEANUP(strbuf_done) struct strbuf out;
    const struct doc *pod =
        json("{\"metadata\":{\"name\":\"a\\\"b\",\"namespace\":\"x\",\"uid\":\"u\"},\"spec\":{}}");
    (void)state;
    strbuf_init(&out);
    play_args(&out, pod, json("[\"n1\",\"n2\"]"));
    assert_string_equal(out.data,
                        "{\"Pod\":{\"metadata\":{\"name\":\"a\\\"b\",\"namespace\":\"x\",\"uid\":"
                        "\"u\"},\"spec\":{}},\"Nodes\":null,\"NodeNames\":[\"n1\",\"n2\"]}");
    strbuf_reset(&out);
    play_bind_args(&out, pod, "n1");
    assert_string_equal(out.data, "{\"PodName\":\"a\\\"b\",\"PodNamespace\":\"x\",\"PodUID\":\"u\","
                                  "\"Node\":\"n1\"}");
}

static void the_best_score_wins_and_the_first_among_equals(void **state)
{
    const struct doc *names = json("[\"a\",\"b\",\"c\"]");
    (void)state;
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

static void reasons_are_counted_as_kube_scheduler_counts_them(void **state)
{
    CLEANUP(strbuf_done) struct strbuf out;
    (void)state;
    strbuf_init(&out);
    play_reasons(&out, json("{\"FailedNodes\":{\"n1\":\"cold\"},\"FailedAndUnresolvableNodes\":{"
                            "\"n2\":\"full\",\"n3\":\"full\"}}"));
    assert_string_equal(out.data, "2 nodes: full; 1 node: cold");
    strbuf_reset(&out);
    play_reasons(&out, json("{\"FailedNodes\":null}"));
    assert_string_equal(out.data, "no node, and no reason was given");
}

static void only_pods_that_name_the_resource_are_asked_about(void **state)
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
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(play_asks(json(cases[i].pod), "nvidia.com/vgpu"), cases[i].asks);
}

static void queries_and_segments_are_escaped(void **state)
{
    CLEANUP(strbuf_done) struct strbuf path;
    (void)state;
    strbuf_init(&path);
    strbuf_str(&path, "/x/");
    url_escape(&path, "a/b c?\xc3\xa4~-._");
    url_query(&path, "k", "1+2&3");
    url_query(&path, "none", NULL);
    url_query(&path, "l", "");
    assert_string_equal(path.data, "/x/a%2Fb%20c%3F%C3%A4~-._?k=1%2B2%263&l=");
}

static void problems_become_one_sentence(void **state)
{
    (void)state;
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

static void the_port_is_found_in_what_kubectl_says(void **state)
{
    char address[32];
    (void)state;
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

static int begin(void **state)
{
    (void)state;
    arena_init(&arena);
    strbuf_init(&left_out);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_done(&arena);
    strbuf_done(&left_out);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(pods_come_from_documents_lists_and_json),
        TEST(other_kinds_are_named_and_left_out),
        TEST(broken_manifests_are_named_with_the_reason),
        TEST(the_scheduler_writes_capitalised_bodies),
        TEST(the_best_score_wins_and_the_first_among_equals),
        TEST(reasons_are_counted_as_kube_scheduler_counts_them),
        TEST(only_pods_that_name_the_resource_are_asked_about),
        TEST(queries_and_segments_are_escaped),
        TEST(problems_become_one_sentence),
        TEST(the_port_is_found_in_what_kubectl_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
