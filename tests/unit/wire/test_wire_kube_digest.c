/* The digest by which a heartbeat of a Node is recognized. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support/test.h"

static const struct siphash_key key = {{1, 2}};

/* Everything that a kubelet writes, in short. */
static const char node[] =
    "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n1\",\"uid\":\"u1\","
    "\"resourceVersion\":\"71\",\"labels\":{\"nvidia.com/gpu.count\":\"8\",\"zone\":\"a\"},"
    "\"annotations\":{\"milligpu.io/cordon\":\"GPU-1\"},\"managedFields\":[{\"manager\":"
    "\"kubelet\",\"time\":\"2026-11-21T01:50:00Z\"}]},\"spec\":{\"unschedulable\":true,"
    "\"taints\":[{\"key\":\"k\",\"effect\":\"NoSchedule\"}]},\"status\":{\"capacity\":{"
    "\"nvidia.com/vgpu\":\"8k\"},"
    "\"conditions\":[{\"type\":\"DiskPressure\",\"status\":\"False\",\"lastHeartbeatTime\":"
    "\"2026-11-21T01:50:00Z\"},{\"type\":\"Ready\",\"status\":\"True\",\"lastHeartbeatTime\":"
    "\"2026-11-21T01:50:00Z\",\"lastTransitionTime\":\"2026-11-20T01:50:00Z\"}],\"images\":"
    "[{\"names\":[\"a/b:1\"],\"sizeBytes\":123}],\"nodeInfo\":{\"bootID\":\"b1\"}}}";

/* The digest of an event with this object. False: none. The version lasts until the next call. */
static bool digest_of(struct text object, struct node_digest *out)
{
    static char version[64];
    CLEANUP(arena_done) struct arena arena;
    CLEANUP(strbuf_done) struct strbuf line;

    arena_init(&arena);
    strbuf_init(&line);
    strbuf_str(&line, "{\"type\":\"MODIFIED\",\"object\":");
    strbuf_text(&line, object);
    strbuf_str(&line, "}");
    if (!node_digest((struct text){line.data, line.len}, &key, &arena, out))
        return false;
    (void)snprintf(version, sizeof version, "%s", out->version);
    out->version = version;
    return true;
}

static bool is_same(const char *before, const char *after)
{
    struct node_digest first;
    struct node_digest second;

    assert_true(digest_of(text_of(before), &first));
    assert_true(digest_of(text_of(after), &second));
    assert_int_not_equal(first.bytes, 0);
    return first.name == second.name && first.bytes == second.bytes;
}

/* The node with this part replaced everywhere; valid until the next call. */
static const char *with(const char *part, const char *other)
{
    static char out[2 * sizeof node];
    const char *from = node;
    size_t len = 0;

    assert_non_null(strstr(node, part));
    for (const char *at; (at = strstr(from, part)) != NULL; from = at + strlen(part)) {
        memcpy(out + len, from, (size_t)(at - from));
        len += (size_t)(at - from);
        memcpy(out + len, other, strlen(other));
        len += strlen(other);
        assert_true(len + sizeof node < sizeof out);
    }
    memcpy(out + len, from, strlen(from) + 1);
    return out;
}

TEST(node_digest__leaves_out_what_a_heartbeat_changes)
{
    assert_true(is_same(node, node));
    assert_true(is_same(node, with("\"71\"", "\"100000\"")));
    assert_true(is_same(node, with("2026-11-21T01:50", "2026-11-21T01:55")));
    assert_false(is_same(node, with("2026-11-20T01:50", "2026-11-21T01:55")));
    assert_true(is_same(node, with("\"sizeBytes\":123", "\"sizeBytes\":124")));
    assert_true(is_same(node, with("[{\"names\":[\"a/b:1\"],\"sizeBytes\":123}]", "[]")));
}

/* The ranges of bytes that a digest leaves out: from behind `from` to before `to`. */
static bool is_left_out(size_t at)
{
    static const struct {
        const char *from;
        const char *to;
    } value[] = {
        {"\"resourceVersion\":", ",\"labels\""},
        {"\"managedFields\":", "},\"spec\""},
        {"\"False\",\"lastHeartbeatTime\":", "},{\"type\":\"Ready\""},
        {"\"True\",\"lastHeartbeatTime\":", ",\"lastTransitionTime\""},
        {"\"images\":", ",\"nodeInfo\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(value); i++) {
        const char *begin = strstr(node, value[i].from);
        assert_non_null(begin);
        begin += strlen(value[i].from);
        if (node + at >= begin && node + at < strstr(begin, value[i].to))
            return true;
    }
    return false;
}

/* Each byte, replaced by several others. */
TEST(node_digest__contains_all_other_bytes)
{
    static const char others[] = "x0\"\\ ,:{}[]";
    char changed[sizeof node];
    struct node_digest before;
    struct node_digest after;
    uint32_t seen = 0;

    assert_true(digest_of(text_of(node), &before));
    for (size_t at = 0; at + 1 < sizeof node; at++)
        for (size_t i = 0; i + 1 < sizeof others; i++) {
            memcpy(changed, node, sizeof node);
            changed[at] = others[i];
            if (others[i] == node[at] || !digest_of(text_of(changed), &after))
                continue;
            seen++;
            if (!is_left_out(at))
                assert_int_not_equal(after.bytes, before.bytes);
        }
    assert_true(seen > sizeof node);
}

/* A member of one of these names elsewhere is read, or may be one day. */
TEST(node_digest__leaves_out_values_at_their_places_only)
{
    static const char *const place[] = {"\"spec\":{", "\"labels\":{", "\"capacity\":{",
                                        "{\"kind\":\"Node\","};
    static const char *const name[] = {"resourceVersion", "managedFields", "images",
                                       "lastHeartbeatTime"};

    for (size_t i = 0; i < ARRAY_LEN(place); i++)
        for (size_t k = 0; k < ARRAY_LEN(name); k++) {
            char other[2][80];
            for (size_t v = 0; v < 2; v++)
                (void)snprintf(other[v], sizeof other[v], "%s\"%s\":\"%zu\",", place[i], name[k],
                               v);
            char *before = xstrdup(with(place[i], other[0]));
            assert_false(is_same(before, with(place[i], other[1])));
            xfree(before);
        }
}

/* Decoding reports the error of a line that the reader refuses. */
TEST(node_digest__does_not_exist_without_a_name_or_json)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"metadata\":{}}",
        "{\"metadata\":{\"name\":7}}",
        "{\"metadata\":{\"name\":\"n1\"}",
        "{\"metadata\":{\"name\":\"n1\"}} x",
        "{\"metadata\":{\"name\":\"n1\",\"managedFields\":[}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"conditions\":{}}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"conditions\":[7]}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":7}",
        "{\"metadata\":{\"name\":\"n1\",\"resourceVersion\":7}}",
    };
    struct node_digest digest;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(digest_of(text_of(bad[i]), &digest));
}

TEST(node_digest__has_the_version)
{
    struct node_digest digest;

    assert_true(digest_of(text_of(node), &digest));
    assert_string_equal(digest.version, "71");
    assert_true(digest_of(TEXT("{\"metadata\":{\"name\":\"n1\"}}"), &digest));
    assert_string_equal(digest.version, "");
}

/* A Node that was deleted, or an error, is no heartbeat. */
TEST(node_digest__contains_the_type_of_the_event)
{
    CLEANUP(arena_done) struct arena arena;
    struct node_digest digest[2];

    arena_init(&arena);
    assert_true(
        node_digest(TEXT("{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"n1\"}}}"),
                    &key, &arena, &digest[0]));
    assert_true(
        node_digest(TEXT("{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"n1\"}}}"),
                    &key, &arena, &digest[1]));
    assert_int_not_equal(digest[0].bytes, digest[1].bytes);
    assert_false(node_digest(TEXT("{\"type\":\"MODIFIED\"}"), &key, &arena, &digest[0]));
}

TEST(node_digest__names_the_node_by_its_text)
{
    struct node_digest digest;

    assert_true(digest_of(TEXT("{\"metadata\":{\"name\":\"n\\u0031\"}}"), &digest));
    assert_int_equal(digest.name, node_digest_name(TEXT("n1"), &key));
    assert_int_not_equal(digest.name, node_digest_name(TEXT("n2"), &key));
}
