#include <string.h>
#include <unistd.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"

#include "support/test.h"

struct fixture {
    struct fake_apiserver *fake;
    struct strbuf out;
    struct err err;
};

static struct fixture fixture;

static int set_up(void **state)
{
    (void)state;
    fixture.fake = fake_apiserver_new("file");
    strbuf_init(&fixture.out);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_apiserver_free(fixture.fake);
    strbuf_done(&fixture.out);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

static int load(const char *text)
{
    return fake_apiserver_load_text(fixture.fake, "cluster", text_of(text), &fixture.err);
}

static void refuses(const char *text, const char *why)
{
    struct fake_apiserver_counts counts;

    if (load(text) >= 0)
        fail_msg("accepted: %s", text);
    if (strstr(fixture.err.text, "cluster: ") != fixture.err.text ||
        strstr(fixture.err.text, why) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", why, fixture.err.text);
    fake_apiserver_counts(fixture.fake, &counts);
    assert_int_equal(counts.nodes + counts.pods + counts.ignored, 0);
    (void)fake_apiserver_request(fixture.fake, "GET", "/api/v1/pods", TEXT(""), &fixture.out);
    assert_non_null(strstr(fixture.out.data, "\"items\":[]"));
}

static bool shows(const char *path, const char *part)
{
    const int status = fake_apiserver_request(fixture.fake, "GET", path, TEXT(""), &fixture.out);
    return status == 200 && strstr(fixture.out.data, part) != NULL;
}

#define NODE                                                                                       \
    "{\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\",\"uid\":\"u-n1\"},"                          \
    "\"status\":{\"capacity\":{\"nvidia.com/vgpu\":\"8k\"}}}"
#define POD                                                                                        \
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"u-p\","         \
    "\"resourceVersion\":\"999\"},\"spec\":{\"nodeName\":\"n1\",\"containers\":["                  \
    "{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/vgpu\":\"300\"}}}]},"                 \
    "\"status\":{\"phase\":\"Running\"}}"

FIXTURE_TEST(cluster_file__may_be_the_output_of_kubectl)
{
    struct fake_apiserver_counts counts;

    assert_int_equal(load("{\"apiVersion\":\"v1\",\"items\":[" NODE "," POD
                          ",{\"kind\":\"Service\",\"metadata\":{}}],\"kind\":\"List\","
                          "\"metadata\":{\"resourceVersion\":\"\"}}\n"),
                     0);
    fake_apiserver_counts(fixture.fake, &counts);
    assert_int_equal(counts.nodes, 1);
    assert_int_equal(counts.pods, 1);
    assert_int_equal(counts.ignored, 1);
    assert_true(shows("/api/v1/nodes/n1", "\"allocatable\":{\"nvidia.com/vgpu\":\"8k\"}"));
    assert_true(shows("/api/v1/nodes/n1", "\"uid\":\"u-n1\""));
    assert_true(
        shows("/api/v1/namespaces/ns/pods/p", "\"requests\":{\"nvidia.com/vgpu\":\"300\"}"));
    assert_null(strstr(fixture.out.data, "\"999\""));
}

FIXTURE_TEST(cluster_file__may_be_yaml)
{
    assert_int_equal(load("apiVersion: v1\n"
                          "kind: List\n"
                          "items:\n"
                          "- kind: Node\n"
                          "  metadata:\n"
                          "    name: n1\n"
                          "    labels: {nvidia.com/gpu.count: \"8\", empty: ''}\n"
                          "    annotations:\n"
                          "      text: |\n"
                          "        two\n"
                          "        lines\n"
                          "  spec: {unschedulable: true}\n"
                          "  status: {capacity: {cpu: 8, memory: 1Gi}}\n"
                          "- kind: Pod\n"
                          "  metadata: {name: p}\n"
                          "  spec:\n"
                          "    containers:\n"
                          "    - name: c\n"
                          "      resources: {limits: {nvidia.com/vgpu: 300}}\n"),
                     0);
    assert_true(shows("/api/v1/nodes/n1", "\"nvidia.com/gpu.count\":\"8\",\"empty\":\"\""));
    assert_true(shows("/api/v1/nodes/n1", "\"two\\nlines\\n\""));
    assert_true(shows("/api/v1/nodes/n1", "\"unschedulable\":true"));
    assert_true(shows("/api/v1/nodes/n1", "\"allocatable\":{\"cpu\":8,\"memory\":\"1Gi\"}"));
    assert_true(shows("/api/v1/namespaces/default/pods/p", "\"phase\":\"Pending\""));
    assert_true(
        shows("/api/v1/namespaces/default/pods/p", "\"requests\":{\"nvidia.com/vgpu\":300}"));
}

FIXTURE_TEST(cluster_file__may_have_several_documents)
{
    assert_int_equal(load("---\nkind: Node\nmetadata: {name: n1}\n---\n---\nkind: PodList\n"
                          "items:\n- metadata: {name: a}\n- metadata: {name: b}\n"),
                     0);
    assert_true(shows("/api/v1/nodes", "\"name\":\"n1\""));
    assert_true(shows("/api/v1/pods", "\"name\":\"b\""));
    assert_true(shows("/api/v1/pods", "\"kind\":\"Pod\""));
}

FIXTURE_TEST(cluster_file__may_be_a_single_object)
{
    assert_int_equal(load(NODE), 0);
    assert_int_equal(load("{\"kind\":\"List\",\"items\":[]}"), 0);
    assert_true(shows("/api/v1/nodes", "n1"));
}

FIXTURE_TEST(cluster_file__without_a_list_is_refused)
{
    refuses("", "is empty");
    refuses("\n# nothing\n", "is empty");
    refuses("[]",
            "line 1: expected a List, as `kubectl get nodes,pods -A -o json` prints it, found "
            "an array");
    refuses("[" NODE "]", "found an array");
    refuses("hello", "found a string");
    refuses("42", "found a number");
    refuses("{}", "found an object without a kind");
    refuses("{\"kind\":\"List\"}", "items: expected an array, found nothing");
    refuses("{\"kind\":\"List\",\"items\":{}}", "items: expected an array, found an object");
}

FIXTURE_TEST(cluster_file__cut_anywhere_is_refused)
{
    static const char text[] = "{\"kind\":\"List\",\"items\":[" NODE "," POD "]}";
    char part[sizeof text];

    for (size_t len = 1; len + 1 < sizeof text; len++) {
        memcpy(part, text, len);
        part[len] = '\0';
        refuses(part, "cluster: ");
    }
    refuses("kind: List\nitems:\n- kind: Node\n  metadata: {name: n1", "line 5: did not find");
    refuses("kind: List\nitems: [\n", "line 3: ");
    refuses("kind: \"List\nitems:", "line ");
}

FIXTURE_TEST(cluster_file__error_names_line_and_field)
{
    refuses("{\"kind\":\"List\",\"items\":[\n" NODE ",\n7]}",
            "line 3: items[1].expected an object, found a number");
    refuses("{\"kind\":\"List\",\"items\":[{\"metadata\":{}}]}", "items[0].kind: expected");
    refuses("{\"kind\":\"List\",\"items\":[{\"kind\":\"Pod\"}]}",
            "items[0].metadata: expected an object, found nothing");
    refuses("{\"kind\":\"List\",\"items\":[{\"kind\":\"Pod\",\"metadata\":{}}]}",
            "items[0].metadata.name: expected a name, found nothing");
    refuses("kind: Node\nmetadata: {name: 7}\n",
            "metadata.name: expected a string, found a number");
    refuses("kind: Node\nmetadata: {name: Big_Name}\n", "metadata.name: expected lower case");
    refuses("kind: Node\nmetadata: {name: a, labels: {x: 1}}\n", "metadata.labels[\"x\"]");
    refuses("kind: Node\nmetadata: {name: a, labels: [x]}\n",
            "metadata.labels: expected an object");
    refuses("kind: Pod\nmetadata: {name: a}\nspec:\n  nodeName: [x]\n",
            "line 4: spec.nodeName: expected a string, found an array");
    refuses("kind: Pod\nmetadata: {name: a}\nstatus: 3\n", "status: expected an object");
    refuses("--- {kind: Node, metadata: {name: a}}\n--- {kind: Node}\n", "document 2.metadata");
}

FIXTURE_TEST(cluster_file__with_one_name_twice_is_refused)
{
    refuses("{\"kind\":\"List\",\"items\":[" POD "," POD "]}", "the Pod ns/p is there twice");
    assert_int_equal(load(NODE), 0);
    assert_true(load(NODE) < 0);
    assert_non_null(strstr(fixture.err.text, "the Node n1 is there twice"));
}

FIXTURE_TEST(cluster_file__with_a_key_twice_is_refused)
{
    refuses("{\"kind\":\"Node\",\"metadata\":{\"name\":\"a\",\"name\":\"b\"}}", "twice");
    refuses("kind: Node\nmetadata:\n  name: a\n  name: b\n",
            "line 4: the key \"name\" is there twice");
    /* Also with so many keys that they are looked up by hash. */
    struct strbuf text;
    strbuf_init(&text);
    strbuf_str(&text, "{\"kind\":\"Node\",\"metadata\":{\"name\":\"a\",\"labels\":{");
    for (int i = 0; i < 100; i++)
        strbuf_printf(&text, "\"k%d\":\"v\",", i);
    strbuf_str(&text, "\"k57\":\"v\"}}}");
    refuses(text.data, "\"k57\" is there twice");
    strbuf_done(&text);
}

FIXTURE_TEST(cluster_file__with_an_alias_or_deep_nesting_is_refused)
{
    struct strbuf text;

    refuses("a: &a [x]\nb: *a\n", "line 2: the alias *a");
    refuses("a: &a {b: *a}\n", "alias");
    strbuf_init(&text);
    for (int i = 0; i < 2000; i++)
        strbuf_char(&text, '[');
    refuses(text.data, "cluster: ");
    strbuf_reset(&text);
    strbuf_str(&text, "a: ");
    for (int i = 0; i < 2000; i++)
        strbuf_char(&text, '[');
    refuses(text.data, "nested deeper than 96");
    strbuf_done(&text);
    refuses("? [a]\n: b\n", "line 1: a key must be a plain word");
    refuses("a: \xff\xfe\n", "line 1: ");
}

#define ODD_POD(name, node, scheduler)                                                             \
    "{\"kind\":\"List\",\"items\":[{\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name               \
    "\",\"annotations\":{\"k\":\"a\\u0000b\"}},\"spec\":{\"nodeName\":\"" node                     \
    "\",\"schedulerName\":\"" scheduler "\"}}]}"

/* The API server accepts a NUL in an annotation, and the file is a copy of its objects. */
FIXTURE_TEST(cluster_file__may_have_a_nul_where_the_api_server_accepts_it)
{
    refuses(ODD_POD("p\\u0000", "n1", "s"), "metadata.name: must not hold a NUL");
    refuses(ODD_POD("p", "n1\\u0000", "s"), "a NUL where a node or a phase should be");
    assert_int_equal(load(ODD_POD("p", "n1", "s\\u0000")), 0);
    assert_true(shows("/api/v1/pods", "\"k\":\"a\\u0000b\""));
    assert_true(shows("/api/v1/pods", "\"schedulerName\":\"s\\u0000\""));
    assert_int_equal(
        load("kind: List\nitems:\n- kind: Node\n  metadata: {name: n9, annotations: {k: "
             "\"x\\0y\"}}\n"),
        0);
    assert_true(shows("/api/v1/nodes", "\"k\":\"x\\u0000y\""));
}

FIXTURE_TEST(cluster_file__is_read_and_named_in_errors)
{
    char path[] = "/tmp/milligpu-fake-apiserver-XXXXXX";
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, NODE, sizeof NODE - 1), sizeof NODE - 1);
    assert_int_equal(fake_apiserver_load(fixture.fake, path, &fixture.err), 0);
    assert_true(shows("/api/v1/nodes", "n1"));
    assert_int_equal(ftruncate(fd, 20), 0);
    assert_true(fake_apiserver_load(fixture.fake, path, &fixture.err) < 0);
    assert_non_null(strstr(fixture.err.text, path));
    (void)close(fd);
    (void)unlink(path);
    assert_true(fake_apiserver_load(fixture.fake, path, &fixture.err) < 0);
    assert_int_equal(fixture.err.code, ERR_NOT_FOUND);
    assert_true(fake_apiserver_load(fixture.fake, "/", &fixture.err) < 0);
}
