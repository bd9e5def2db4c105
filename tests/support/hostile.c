#include "hostile.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/wire/json/json.h"

enum {
    CONTAINERS_MANY = 250,
    CONTAINERS_MOST = 1500,
    NEST_DEEP = 2000,
    ANNOTATIONS_BYTES = 200 * 1024, /* of the 256 KiB that the API server allows in all */
};

struct making {
    struct json_writer json;
    struct strbuf *out;
    const struct hostile_draw *draw;
    bool shown;  /* added by the API server, not sent to it */
    size_t left; /* bytes of annotations */
};

static uint32_t below(const struct hostile_draw *draw, uint32_t bound)
{
    const uint32_t drawn = draw->below(draw->user, bound);
    must(drawn < bound || bound == 0);
    return drawn;
}

/* With a chance of 1 in n, and never once the source is exhausted. */
static bool rarely(const struct hostile_draw *draw, uint32_t times)
{
    return below(draw, times) == 1;
}

/* --- strings --- */

static const char *const odd[] = {
    "",
    "\\u0000",
    "1\\u00002",
    "\\u0000\\u0000\\u0000",
    "1",
    "2",
    "64",
    "65",
    "-1",
    "0x10",
    "99999999999999999999999999999999",
    "1e999",
    "0.1",
    " 2 ",
    "300m",
    "9223372036854775807",
    "9223372036854775808",
    "NaN",
    "null",
    "true",
    "all",
    "\\u0001\\u0002\\u001f",
    "\\u007f\\u0080\\u009f",
    "\\b\\f\\n\\r\\t",
    "\\\\\\\"\\/",
    "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80",
    "\\ud83d\\ude00",
    "\\ufffd\xEF\xBF\xBD",
    "\\u2028\\u2029\\ufeff",
    "\\u202e",
    "*",
    "A100*,H100*",
    ",,,,",
    "[]",
    "{}",
    "{\\\"v\\\":1,\\\"containers\\\":{}}",
    ("{\\\"v\\\":1,\\\"containers\\\":{\\\"c\\\":[{\\\"gpu\\\":\\\"\\u0000\\\",\\\"index\\\":0,"
     "\\\"milli\\\":1,\\\"mib\\\":0}]}}"),
    "[{\\\"uuid\\\":\\\"GPU-\\\\u0000\\\",\\\"index\\\":0}]",
    "[{\\\"uuid\\\":\\\"GPU-x\\\",\\\"index\\\":4294967296}]",
    "[{\\\"uuid\\\":",
    "../../../../etc/passwd",
    "%s%n%d",
    "'; DROP TABLE charge; --",
};

/* The piece that is repeated to make a string long. */
static const char *const piece[] = {
    "a", "\\u0000", "[", "{\\\"a\\\":", "\xF0\x9F\x98\x80", ",", "9", "\\u0001", "*", "A100,",
};

static void add_long(struct strbuf *out, size_t most, const struct hostile_draw *draw)
{
    const char *what = piece[below(draw, ARRAY_LEN(piece))];
    const size_t bytes = strlen(what);
    size_t times = 1 + below(draw, 400);

    if (rarely(draw, 20))
        times *= 500;
    for (; times > 0 && most >= bytes; times--, most -= bytes)
        strbuf_str(out, what);
}

/* Bytes that the API server stores and writes unchanged: metadata.managedFields. */
static const char *const raw[] = {"\\ud800", "\\udc00\\ud800", "\xFF\xFE", "\xED\xA0\x80", "\xC0"};

void hostile_text(struct strbuf *out, size_t most, const struct hostile_draw *draw)
{
    const char *what = odd[below(draw, ARRAY_LEN(odd))];

    strbuf_char(out, '"');
    if (strlen(what) <= most)
        strbuf_str(out, what);
    if (rarely(draw, 6) && strlen(what) <= most)
        add_long(out, most - strlen(what), draw);
    strbuf_char(out, '"');
}

/* json_writer writes finished values; here the value is made first. */
static void odd_value(struct making *making, size_t most)
{
    struct strbuf text;

    strbuf_init(&text);
    hostile_text(&text, most, making->draw);
    json_write_raw(&making->json, (struct text){text.data, text.len});
    strbuf_done(&text);
}

static void odd_member(struct making *making, const char *key, size_t most)
{
    json_write_key(&making->json, key);
    odd_value(making, most);
}

static void member(struct making *making, const char *key, const char *value)
{
    json_write_key(&making->json, key);
    json_write_str(&making->json, value);
}

/* --- metadata --- */

static void annotation(struct making *making, const char *key)
{
    const size_t before = making->out->len;

    if (making->left < sizeof "\"\":\"\"" + strlen(key))
        return;
    odd_member(making, key, making->left - strlen(key));
    const size_t bytes = making->out->len - before;
    making->left = bytes < making->left ? making->left - bytes : 0;
}

static void some_annotations(struct making *making, const char *const *key, size_t keys)
{
    for (size_t i = 0; i < keys; i++)
        if (rarely(making->draw, 4))
            annotation(making, key[i]);
}

static const char *const pod_notes[] = {
    "milligpu.io/gpu-count",          "milligpu.io/gpu-model",
    "milligpu.io/gpu-memory",         "milligpu.io/allocation",
    "gpu-count.milligpu.io/ask-0",    "gpu-count.milligpu.io/plain-0",
    "milligpu.io/visible-devices",    "visible-devices.milligpu.io/ask-0",
    "example.com/whatever",           "kubectl.kubernetes.io/last-applied-configuration",
    "milligpu.io/of-a-later-version", "milligpu.io/topology",
};

static const char *const node_notes[] = {
    "milligpu.io/gpus",
    "milligpu.io/cordon",
    "milligpu.io/bell",
    "milligpu.io/of-a-later-version",
    "node.alpha.kubernetes.io/ttl",
    "example.com/whatever",
};

static void many_annotations(struct making *making)
{
    const uint32_t count = rarely(making->draw, 10) ? below(making->draw, 2000) : 0;
    char key[48];

    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "gpu-count.milligpu.io/n%u", i);
        annotation(making, key);
    }
}

static void managed_fields(struct making *making)
{
    struct strbuf fields;
    uint32_t deep = 1 + below(making->draw, 8);

    if (rarely(making->draw, 10))
        deep = NEST_DEEP;
    strbuf_init(&fields);
    for (uint32_t i = 0; i < deep; i++) {
        strbuf_str(&fields, "{\"f:");
        strbuf_str(&fields, raw[below(making->draw, ARRAY_LEN(raw))]);
        strbuf_str(&fields, "\":");
    }
    strbuf_str(&fields, "{}");
    for (uint32_t i = 0; i < deep; i++)
        strbuf_char(&fields, '}');
    json_write_key(&making->json, "managedFields");
    json_write_array(&making->json);
    json_write_object(&making->json);
    member(making, "manager", "m");
    json_write_key(&making->json, "fieldsV1");
    json_write_raw(&making->json, (struct text){fields.data, fields.len});
    json_write_object_end(&making->json);
    json_write_array_end(&making->json);
    strbuf_done(&fields);
}

/* gpus: what a node says of its GPUs unless something odd takes its place. */
static void annotations(struct making *making, const char *const *key, size_t keys,
                        const char *gpus)
{
    json_write_key(&making->json, "annotations");
    json_write_object(&making->json);
    if (gpus != NULL && !rarely(making->draw, 3)) {
        member(making, "milligpu.io/gpus", gpus);
        key++; /* the first */
        keys--;
    }
    some_annotations(making, key, keys);
    many_annotations(making);
    json_write_object_end(&making->json);
}

static void made_by_the_server(struct making *making, const char *uid, const char *version,
                               bool terminating)
{
    static const char *const later[] = {"2026-11-22T14:30:00Z", "2318-04-11T23:47:16Z",
                                        "9999-12-31T23:59:59Z", "1734-08-16T00:12:44Z"};
    member(making, "uid", uid);
    member(making, "resourceVersion", version);
    member(making, "creationTimestamp", "2026-11-22T14:30:00Z");
    if (terminating)
        member(making, "deletionTimestamp", later[below(making->draw, ARRAY_LEN(later))]);
    if (rarely(making->draw, 3))
        managed_fields(making);
    if (rarely(making->draw, 3))
        odd_member(making, "selfLink", 4096);
}

static void labels(struct making *making)
{
    json_write_key(&making->json, "labels");
    json_write_object(&making->json);
    if (rarely(making->draw, 3))
        member(making, "example.com/empty", "");
    if (rarely(making->draw, 3))
        member(making, "nvidia.com/gpu.count",
               "a.b_c-d.0123456789.0123456789.0123456789.0123456789.012345678");
    json_write_object_end(&making->json);
}

/* --- a pod's spec --- */

static const char *const cpus[] = {"100m", "0", "1n", "1m", "9223372036854775807", "1e3", "0.5"};
static const char *const memories[] = {"1Gi", "0", "1", "8Ei", "1e18", "0.5Gi", "100m"};

static void amounts(struct making *making, const char *key, const char *resource,
                    const char *amount)
{
    json_write_key(&making->json, key);
    json_write_object(&making->json);
    if (below(making->draw, 2) == 1)
        member(making, "cpu", cpus[below(making->draw, ARRAY_LEN(cpus))]);
    if (below(making->draw, 2) == 1)
        member(making, "ephemeral-storage", "1");
    if (amount != NULL) {
        json_write_key_text(&making->json, text_of(resource));
        json_write_str(&making->json, amount);
    }
    if (below(making->draw, 2) == 1)
        member(making, "memory", memories[below(making->draw, ARRAY_LEN(memories))]);
    json_write_object_end(&making->json);
}

static void environment(struct making *making)
{
    json_write_key(&making->json, "env");
    json_write_array(&making->json);
    json_write_object(&making->json);
    member(making, "name", "ODD");
    odd_member(making, "value", 4096);
    json_write_object_end(&making->json);
    json_write_array_end(&making->json);
}

static void command(struct making *making)
{
    json_write_key(&making->json, "command");
    json_write_array(&making->json);
    odd_value(making, 4096);
    odd_value(making, 4096);
    json_write_array_end(&making->json);
}

/* An amount of an extended resource is set in limits: the API server copies it to requests. */
static void container(struct making *making, const char *name, const char *resource,
                      const char *amount)
{
    json_write_object(&making->json);
    if (rarely(making->draw, 5))
        command(making);
    if (rarely(making->draw, 5))
        environment(making);
    member(making, "name", name);
    member(making, "image", "x");
    if (amount != NULL || rarely(making->draw, 4)) {
        json_write_key(&making->json, "resources");
        json_write_object(&making->json);
        amounts(making, "limits", resource, amount);
        if (making->shown && amount != NULL) {
            json_write_key(&making->json, "requests");
            json_write_object(&making->json);
            json_write_key_text(&making->json, text_of(resource));
            json_write_str(&making->json, amount);
            json_write_object_end(&making->json);
        }
        json_write_object_end(&making->json);
    }
    if (rarely(making->draw, 8))
        odd_member(making, "workingDir", 4096);
    if (making->shown && rarely(making->draw, 5))
        odd_member(making, "fieldOfALaterVersion", 4096);
    json_write_object_end(&making->json);
}

/* Containers that request nothing come before those that do. */
static void plain_containers(struct making *making, const char *prefix)
{
    uint32_t count = below(making->draw, 3);
    char name[64];

    if (rarely(making->draw, 12))
        count = CONTAINERS_MANY;
    else if (rarely(making->draw, 40))
        count = CONTAINERS_MOST;
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "%s-%u", prefix, i);
        container(making, name, "", NULL);
    }
}

static void containers(struct making *making, const struct hostile_pod *pod)
{
    char whole[16];
    char name[64];

    json_write_key(&making->json, "containers");
    json_write_array(&making->json);
    container(making, "main", "", NULL);
    plain_containers(making, "plain");
    for (uint32_t i = 0; i < pod->asking; i++) {
        (void)snprintf(name, sizeof name, "ask-%u", i);
        container(making, name, pod->resource, pod->amount[i]);
    }
    if (pod->whole > 0) {
        (void)snprintf(whole, sizeof whole, "%u", pod->whole);
        container(making, "whole", pod->whole_resource, whole);
    }
    json_write_array_end(&making->json);
}

static void init_containers(struct making *making)
{
    json_write_key(&making->json, "initContainers");
    json_write_array(&making->json);
    plain_containers(making, "init");
    json_write_array_end(&making->json);
}

/* Its attributes have arbitrary keys, and so has what managedFields says of them. */
static void volumes(struct making *making)
{
    json_write_key(&making->json, "volumes");
    json_write_array(&making->json);
    json_write_object(&making->json);
    member(making, "name", "v");
    json_write_key(&making->json, "csi");
    json_write_object(&making->json);
    member(making, "driver", "csi.example.com");
    json_write_key(&making->json, "volumeAttributes");
    json_write_object(&making->json);
    json_write_key_text(&making->json, TEXT("any \x01 key"));
    odd_value(making, 4096);
    json_write_object_end(&making->json);
    json_write_object_end(&making->json);
    json_write_object_end(&making->json);
    json_write_array_end(&making->json);
}

static void number(struct making *making, const char *key, int64_t value)
{
    json_write_key(&making->json, key);
    json_write_i64(&making->json, value);
}

static void spec(struct making *making, const struct hostile_pod *pod)
{
    json_write_key(&making->json, "spec");
    json_write_object(&making->json);
    if (rarely(making->draw, 3))
        odd_member(making, "schedulerName", 64 * 1024);
    if (rarely(making->draw, 4))
        init_containers(making);
    containers(making, pod);
    if (rarely(making->draw, 5))
        volumes(making);
    if (rarely(making->draw, 4))
        number(making, "terminationGracePeriodSeconds", INT64_MAX);
    if (rarely(making->draw, 4))
        number(making, "activeDeadlineSeconds", INT32_MAX);
    if (making->shown) {
        if (rarely(making->draw, 4))
            number(making, "priority", below(making->draw, 2) == 1 ? INT32_MIN : INT32_MAX);
        if (rarely(making->draw, 5))
            amounts(making, "overhead", "", NULL);
        if (rarely(making->draw, 4))
            odd_member(making, "fieldOfALaterVersion", 4096);
    }
    if (pod->node[0] != '\0')
        member(making, "nodeName", pod->node);
    json_write_object_end(&making->json);
}

/* --- a pod's status: written by kubelet or any client with the right --- */

static void condition(struct making *making)
{
    json_write_object(&making->json);
    odd_member(making, "type", 256);
    odd_member(making, "status", 256);
    odd_member(making, "reason", 256);
    odd_member(making, "message", 4096);
    if (below(making->draw, 2) == 0)
        member(making, "lastTransitionTime", "2026-11-22T14:30:00Z");
    else
        json_write_key(&making->json, "lastTransitionTime"), json_write_null(&making->json);
    json_write_object_end(&making->json);
}

static void container_status(struct making *making)
{
    json_write_object(&making->json);
    odd_member(making, "name", 4096);
    odd_member(making, "image", 4096);
    number(making, "restartCount", INT32_MAX);
    amounts(making, "allocatedResources", "", NULL);
    json_write_key(&making->json, "resources");
    json_write_object(&making->json);
    amounts(making, "requests", "", NULL);
    json_write_object_end(&making->json);
    json_write_object_end(&making->json);
}

static void repeated(struct making *making, const char *key, void (*one)(struct making *))
{
    const uint32_t count = rarely(making->draw, 12) ? 300 : below(making->draw, 3);

    json_write_key(&making->json, key);
    json_write_array(&making->json);
    for (uint32_t i = 0; i < count; i++)
        one(making);
    json_write_array_end(&making->json);
}

static void status(struct making *making, const struct hostile_pod *pod)
{
    json_write_key(&making->json, "status");
    json_write_object(&making->json);
    if (below(making->draw, 2) == 1)
        repeated(making, "conditions", condition);
    if (rarely(making->draw, 4))
        repeated(making, "containerStatuses", container_status);
    if (rarely(making->draw, 4))
        repeated(making, "initContainerStatuses", container_status);
    if (rarely(making->draw, 4))
        odd_member(making, "message", 4096);
    if (rarely(making->draw, 4))
        odd_member(making, "nominatedNodeName", 4096);
    member(making, "phase", pod->phase);
    json_write_object_end(&making->json);
}

static struct making begin(struct strbuf *out, bool shown, const struct hostile_draw *draw)
{
    struct making making = {.out = out, .draw = draw, .shown = shown, .left = ANNOTATIONS_BYTES};

    must(draw->below != NULL);
    json_writer_init(&making.json, out);
    json_write_object(&making.json);
    return making;
}

void hostile_pod(struct strbuf *out, const struct hostile_pod *pod, const struct hostile_draw *draw)
{
    struct making making = begin(out, pod->uid != NULL, draw);

    must(pod->node != NULL && (pod->asking == 0 || pod->amount != NULL));
    member(&making, "apiVersion", "v1");
    member(&making, "kind", "Pod");
    json_write_key(&making.json, "metadata");
    json_write_object(&making.json);
    annotations(&making, pod_notes, ARRAY_LEN(pod_notes), NULL);
    labels(&making);
    member(&making, "namespace", pod->namespace);
    member(&making, "name", pod->name);
    if (making.shown)
        made_by_the_server(&making, pod->uid, pod->version, pod->terminating);
    json_write_object_end(&making.json);
    spec(&making, pod);
    if (making.shown)
        status(&making, pod);
    json_write_object_end(&making.json);
}

/* --- a node --- */

static void image(struct making *making)
{
    json_write_object(&making->json);
    json_write_key(&making->json, "names");
    json_write_array(&making->json);
    odd_value(making, 4096);
    json_write_array_end(&making->json);
    number(making, "sizeBytes", INT64_MAX);
    json_write_object_end(&making->json);
}

static void capacity(struct making *making, const char *key, const struct hostile_node *node)
{
    json_write_key(&making->json, key);
    json_write_object(&making->json);
    member(making, "cpu", cpus[below(making->draw, ARRAY_LEN(cpus))]);
    if (node->amount != NULL) {
        json_write_key_text(&making->json, text_of(node->resource));
        json_write_str(&making->json, node->amount);
    }
    member(making, "pods", "110");
    json_write_object_end(&making->json);
}

static void node_status(struct making *making, const struct hostile_node *node)
{
    json_write_key(&making->json, "status");
    json_write_object(&making->json);
    capacity(making, "capacity", node);
    capacity(making, "allocatable", node);
    if (rarely(making->draw, 3))
        repeated(making, "conditions", condition);
    if (rarely(making->draw, 3))
        repeated(making, "images", image);
    if (making->shown && rarely(making->draw, 4))
        odd_member(making, "fieldOfALaterVersion", 4096);
    json_write_object_end(&making->json);
}

void hostile_node(struct strbuf *out, const struct hostile_node *node,
                  const struct hostile_draw *draw)
{
    struct making making = begin(out, node->uid != NULL, draw);

    member(&making, "apiVersion", "v1");
    member(&making, "kind", "Node");
    json_write_key(&making.json, "metadata");
    json_write_object(&making.json);
    annotations(&making, node_notes, ARRAY_LEN(node_notes), node->gpus);
    member(&making, "name", node->name);
    if (making.shown)
        made_by_the_server(&making, node->uid, node->version, false);
    json_write_object_end(&making.json);
    json_write_key(&making.json, "spec");
    json_write_object(&making.json);
    if (making.shown && rarely(making.draw, 4))
        odd_member(&making, "fieldOfALaterVersion", 4096);
    json_write_object_end(&making.json);
    node_status(&making, node);
    json_write_object_end(&making.json);
}

/* --- later changes --- */

static void patch(struct strbuf *out, const char *const *key, uint32_t keys,
                  const struct hostile_draw *draw)
{
    struct making making = begin(out, false, draw);
    const uint32_t first = below(draw, keys);

    json_write_key(&making.json, "metadata");
    json_write_object(&making.json);
    json_write_key(&making.json, "annotations");
    json_write_object(&making.json);
    annotation(&making, key[first]);
    for (uint32_t i = 0; i < keys; i++)
        if (i != first && rarely(draw, 4))
            annotation(&making, key[i]);
    json_write_object_end(&making.json);
    json_write_object_end(&making.json);
    json_write_object_end(&making.json);
}

void hostile_pod_patch(struct strbuf *out, const struct hostile_draw *draw)
{
    enum { INPUTS = 4 };
    patch(out, pod_notes, INPUTS, draw);
}

void hostile_node_patch(struct strbuf *out, const struct hostile_draw *draw)
{
    enum { OURS = 2 };
    patch(out, node_notes, OURS, draw);
}
