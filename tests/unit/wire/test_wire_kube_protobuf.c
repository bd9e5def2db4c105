/* kube_protobuf - objects in the API server's protobuf are those of its JSON. */
#include "milligpu/wire/kube/kube_protobuf.h"

#include "support.h"
#include "support/made_protobuf.h"
#include "support/scoped.h"

static const struct wire_rules agents = {
    .resource = "nvidia.com/vgpu",
    .whole_resource = "nvidia.com/gpu",
    .agents = {.namespace = "default", .key = TEXT("app"), .value = TEXT("inf")},
};

/* ---- recorded objects ---- */

static struct text recorded(struct fixture *fixture, const char *file)
{
    return exact(fixture, read_file(fixture, arena_printf(&fixture->arena,
                                                          "tests/golden/protobuf/%s", file)));
}

static struct text converted(struct fixture *fixture, struct text body)
{
    struct strbuf json;

    strbuf_init(&json);
    if (kube_protobuf_object(body, BODY_BYTES_MAX, &json, &fixture->err) != 0)
        fail_msg("%s", fixture->err.text);
    const struct text text = exact(fixture, (struct text){json.data, json.len});
    strbuf_done(&json);
    return text;
}

static const char *json_of(struct fixture *fixture, struct text body)
{
    return arena_copy(&fixture->arena, converted(fixture, body));
}

static void add(struct strbuf *out, const char *name, const char *text)
{
    strbuf_printf(out, "%s: %s\n", name, text != NULL ? text : "-");
}

static void add_number(struct strbuf *out, const char *name, int64_t number)
{
    strbuf_printf(out, "%s: %lld\n", name, (long long)number);
}

static void add_claims(struct strbuf *out, const struct pod *pod)
{
    for (uint32_t i = 0; i < pod->n_containers; i++) {
        add(out, "container", pod->container[i].name);
        add_number(out, "kind", pod->container[i].kind);
        add(out, "amount", pod->container[i].amount);
        add(out, "count", pod->container[i].count);
    }
    for (uint32_t i = 0; i < pod->n_odd_keys; i++)
        add(out, "odd key", pod->odd_key[i]);
    add(out, "count", pod->count);
    add(out, "model", pod->model);
    add(out, "memory", pod->memory);
    add(out, "topology", pod->topology);
    add(out, "signature", pod->signature);
    add_number(out, "signed by", (int64_t)pod->signed_by);
    add_number(out, "annotation", pod->annotation);
    add(out, "note", pod->note_text);
    add(out, "note error", pod->note_error);
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        add(out, "share", pod->share[i].container);
        add(out, "gpu", pod->share[i].gpu);
        add_number(out, "milli", pod->share[i].milli);
    }
}

/* The key has any bytes: only the printable ones are shown. */
static void add_demands(struct strbuf *out, const struct node_demands *demands)
{
    SCOPED_STRBUF(key);

    node_demands_key(demands, &key);
    strbuf_str(out, "demands: ");
    strbuf_shown(out, (struct text){key.data, key.len});
    strbuf_str(out, "\n");
}

static void add_pod(struct strbuf *out, const struct pod *pod)
{
    add(out, "uid", pod->uid);
    add(out, "namespace", pod->namespace);
    add(out, "name", pod->name);
    add(out, "version", pod->resource_version);
    add(out, "node", pod->node);
    add_number(out, "phase", pod->phase);
    add_number(out, "priority", pod->priority);
    add_number(out, "created", pod->created_ms);
    add_number(out, "scheduled", pod->scheduled_ms);
    add_number(out, "terminating", pod->terminating_ms);
    add_number(out, "cpu", pod->cpu_milli);
    add_number(out, "memory", pod->memory_bytes);
    add_number(out, "gpus", pod->whole_gpus);
    add_number(out, "agent", pod->is_agent);
    add_number(out, "ready", pod->is_ready);
    add_number(out, "ours", pod->ours);
    add(out, "unreadable", pod->unreadable);
    add_claims(out, pod);
    add_demands(out, &pod->demands);
    add(out, "scheduler", pod->scheduling.scheduler);
    add(out, "gates", pod->scheduling.gates);
    add(out, "reason", pod->scheduling.reason);
    add(out, "message", pod->scheduling.message);
    add_number(out, "since", pod->scheduling.since_ms);
    add(out, "owner", pod->owner.kind);
    add(out, "owner", pod->owner.name);
    add(out, "owner", pod->owner.uid);
    add(out, "revision", pod->owner.revision);
}

static void add_taints(struct strbuf *out, const struct node_taints *taints)
{
    add_number(out, "unschedulable", taints->unschedulable);
    add_number(out, "not ready", taints->not_ready);
    add_number(out, "unreadable", taints->unreadable);
    for (uint32_t i = 0; i < taints->n_taints; i++) {
        add(out, "taint", taints->taint[i].key);
        add(out, "value", taints->taint[i].value);
        add_number(out, "effect", taints->taint[i].effect);
    }
}

static void add_node(struct strbuf *out, const struct node_facts *node)
{
    add(out, "name", node->name);
    add(out, "uid", node->uid);
    add(out, "version", node->resource_version);
    add_number(out, "created", node->created_ms);
    add_taints(out, &node->taints);
    add_number(out, "cpu", node->host.cpu_milli);
    add_number(out, "memory", node->host.memory_mib);
    add(out, "capacity", node->capacity_milli);
    add(out, "allocatable", node->allocatable_milli);
    add(out, "whole", node->whole_capacity);
    add(out, "whole", node->whole_allocatable);
    add(out, "shared", node->whole_shared);
    add(out, "mig", node->label_mig);
    add(out, "sharing", node->label_sharing);
    add(out, "workload", node->label_workload);
    add_number(out, "paused", node->plugin_paused);
    for (uint32_t i = 0; i < node->n_labels; i++)
        strbuf_printf(out, "label: %s=%s\n", node->label[i].key, node->label[i].value);
    add(out, "cordon", node->cordon);
    add_number(out, "agent", node->agent);
    add(out, "key", node->agent_key);
    add(out, "claim", node->claim.pod);
    add(out, "claim", node->claim.node);
    add(out, "claim", node->claim.boot);
    add(out, "claim", node->claim.leaving);
    add(out, "boot", node->boot);
    add(out, "error", node->gpus_error);
    add(out, "unreadable", node->unreadable);
    for (uint32_t i = 0; i < node->n_gpus; i++)
        add(out, "gpu", node->gpu[i].id);
}

/* The facts of a Pod or a Node, one a line. */
static const char *facts_of(struct fixture *fixture, struct text json, bool is_node)
{
    struct node_facts node;
    struct strbuf out;
    struct pod pod;

    strbuf_init(&out);
    const int rc = is_node ? node_decode(json, &agents, &fixture->arena, &node, &fixture->err)
                           : pod_decode(json, &agents, &fixture->arena, &pod, &fixture->err);
    if (rc != 0)
        fail_msg("%s", fixture->err.text);
    if (is_node)
        add_node(&out, &node);
    else
        add_pod(&out, &pod);
    const char *facts = arena_copy(&fixture->arena, (struct text){out.data, out.len});
    strbuf_done(&out);
    return facts;
}

WIRE_TEST(protobuf__has_the_facts_of_json)
{
    static const struct {
        const char *name;
        bool is_node;
        const char *has; /* so that the comparison is of something */
    } row[] = {
        {"pod", false, "amount: 600\ncount: 2\n"},
        {"pod", false, "gates: example.com/a, example.com/b\nreason: SchedulingGated\n"},
        {"running", false, "share: c\ngpu: GPU-1\nmilli: 300\n"},
        {"node", true, "boot: 6e1e0a3c-boot\n"},
        {"node", true, "taint: nvidia.com/gpu\nvalue: present\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const char *name = arena_printf(&fixture->arena, "%s.json", row[i].name);
        const char *json = facts_of(fixture, recorded(fixture, name), row[i].is_node);
        name = arena_printf(&fixture->arena, "%s.pb", row[i].name);
        const struct text body = converted(fixture, recorded(fixture, name));
        assert_string_equal(facts_of(fixture, body, row[i].is_node), json);
        assert_has(json, row[i].has);
        assert_null(memmem(body.at, body.len, "managedFields", strlen("managedFields")));
    }
}

/* ---- lists ---- */

struct listing {
    struct fixture *fixture;
    bool is_node;
    struct strbuf facts;
};

static int list_one(void *user, struct text bytes, struct err *err)
{
    struct listing *listing = user;

    (void)err;
    strbuf_str(&listing->facts, facts_of(listing->fixture, bytes, listing->is_node));
    return 0;
}

/* The facts of all items, and then the list's own. */
static const char *list_facts(struct fixture *fixture, struct text json, bool is_node)
{
    struct listing listing = {.fixture = fixture, .is_node = is_node};
    struct list_page page;

    strbuf_init(&listing.facts);
    if (list_decode(json, &fixture->arena, &listing, list_one, &page, &fixture->err) != 0)
        fail_msg("%s", fixture->err.text);
    add(&listing.facts, "version", page.resource_version);
    add(&listing.facts, "continue", page.continue_token);
    assert_string_equal(list_continue(json, &fixture->arena), page.continue_token);
    const char *facts =
        arena_copy(&fixture->arena, (struct text){listing.facts.data, listing.facts.len});
    strbuf_done(&listing.facts);
    return facts;
}

WIRE_TEST(protobuf__has_the_items_of_a_list)
{
    const char *pods = list_facts(fixture, recorded(fixture, "pods.json"), false);
    const char *nodes = list_facts(fixture, recorded(fixture, "nodes.json"), true);

    assert_has(pods, "name: kitchen\n");
    assert_has(pods, "continue: eyJ");
    assert_has(nodes, "name: kitchen\n");
    assert_string_equal(
        list_facts(fixture, converted(fixture, recorded(fixture, "pods.pb")), false), pods);
    assert_string_equal(
        list_facts(fixture, converted(fixture, recorded(fixture, "nodes.pb")), true), nodes);
}

/* ---- watches ---- */

static void add_event(struct fixture *fixture, struct text line, struct strbuf *out)
{
    struct watch_event event;

    if (watch_decode(line, &fixture->arena, &event, &fixture->err) != 0)
        fail_msg("%s", fixture->err.text);
    add_number(out, "type", event.type);
    add(out, "version", event.resource_version);
    if (event.type == WATCH_ERROR) {
        add_number(out, "code", event.status.code);
        add(out, "reason", event.status.reason);
        add(out, "message", event.status.message);
    } else if (event.type != WATCH_BOOKMARK) {
        strbuf_str(out, facts_of(fixture, event.object, false));
    }
}

static void add_lines(struct fixture *fixture, struct text stream, struct strbuf *out)
{
    while (stream.len > 0) {
        const char *end = memchr(stream.at, '\n', stream.len);
        assert_non_null(end);
        const size_t bytes = (size_t)(end - stream.at);
        add_event(fixture, (struct text){stream.at, bytes}, out);
        stream = (struct text){end + 1, stream.len - bytes - 1};
    }
}

static void add_frames(struct fixture *fixture, struct text stream, struct strbuf *out)
{
    SCOPED_STRBUF(line);

    while (stream.len > 0) {
        assert_true(stream.len >= KUBE_FRAME_HEAD);
        const size_t bytes = kube_protobuf_frame(stream.at);
        assert_true(stream.len - KUBE_FRAME_HEAD >= bytes);
        const struct text frame = {stream.at + KUBE_FRAME_HEAD, bytes};
        strbuf_reset(&line);
        if (kube_protobuf_event(exact(fixture, frame), EVENT_BYTES_MAX, &line, &fixture->err) != 0)
            fail_msg("%s", fixture->err.text);
        add_event(fixture, exact(fixture, (struct text){line.data, line.len}), out);
        stream.at += KUBE_FRAME_HEAD + bytes;
        stream.len -= KUBE_FRAME_HEAD + bytes;
    }
}

WIRE_TEST(protobuf__has_the_events_of_a_watch)
{
    static const struct {
        const char *lines;
        const char *frames;
        const char *has;
    } row[] = {
        {"watch.json", "watch.pb", "name: plain\n"},
        {"gone.json", "gone.pb", "code: 410\nreason: Expired\n"},
    };
    SCOPED_STRBUF(json);
    SCOPED_STRBUF(protobuf);

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        strbuf_reset(&json);
        strbuf_reset(&protobuf);
        add_lines(fixture, recorded(fixture, row[i].lines), &json);
        add_frames(fixture, recorded(fixture, row[i].frames), &protobuf);
        assert_string_equal(protobuf.data, json.data);
        assert_has(json.data, row[i].has);
    }
}

WIRE_TEST(protobuf__has_the_refusal_of_json)
{
    struct status json;
    struct status protobuf;

    status_decode(recorded(fixture, "status.json"), &fixture->arena, &json);
    status_decode(converted(fixture, recorded(fixture, "status.pb")), &fixture->arena, &protobuf);
    assert_int_equal(json.code, 404);
    assert_int_equal(protobuf.code, json.code);
    assert_int_equal(protobuf.retry_after_s, json.retry_after_s);
    assert_string_equal(protobuf.reason, json.reason);
    assert_string_equal(protobuf.message, json.message);
}

/* ---- bytes by hand ---- */

static struct text enveloped(struct fixture *fixture, const char *kind,
                             const struct strbuf *message)
{
    SCOPED_STRBUF(body);

    made_body(&body, kind, made_bytes(message));
    return exact(fixture, made_bytes(&body));
}

/* A Pod with this as its metadata. */
static struct text pod_with(struct fixture *fixture, const struct strbuf *metadata)
{
    SCOPED_STRBUF(pod);

    made_text(&pod, 1, made_bytes(metadata));
    return enveloped(fixture, "Pod", &pod);
}

WIRE_TEST(protobuf__texts_are_those_of_json)
{
    static const struct {
        struct text text;
        const char *json;
    } row[] = {
        {TEXT("a\0b"), "a\\u0000b"},
        {TEXT("\xff"
              "a\xc3"),
         "\xef\xbf\xbd"
         "a\xef\xbf\xbd"},
        {TEXT("\"\\\n"), "\\\"\\\\\\n"},
        {TEXT("\xc3\xa4"), "\xc3\xa4"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        SCOPED_STRBUF(meta);
        made_text(&meta, 1, row[i].text);
        const char *want = arena_printf(
            &fixture->arena, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\"}}", row[i].json);
        assert_string_equal(json_of(fixture, pod_with(fixture, &meta)), want);
    }
}

WIRE_TEST(protobuf__times_are_those_of_json)
{
    static const struct {
        int64_t seconds;
        const char *json;
    } row[] = {
        {0, "\"1970-01-01T00:00:00.000Z\""},
        {1795910400, "\"2026-11-29T00:00:00.000Z\""},
        {-1, "\"1969-12-31T23:59:59.000Z\""},
        {INT64_C(253402300799), "\"9999-12-31T23:59:59.000Z\""},
        {INT64_C(253402300800), "\"beyond the years of RFC 3339\""},
        {INT64_MIN, "\"beyond the years of RFC 3339\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        SCOPED_STRBUF(time);
        SCOPED_STRBUF(meta);
        made_number(&time, 1, row[i].seconds);
        made_number(&time, 2, 0);
        made_text(&meta, 8, made_bytes(&time));
        assert_has(json_of(fixture, pod_with(fixture, &meta)), row[i].json);
    }
}

/* Go writes them where JSON leaves them out. */
WIRE_TEST(protobuf__leaves_out_what_json_leaves_out)
{
    SCOPED_STRBUF(meta);

    made_text(&meta, 1, TEXT("a"));
    made_text(&meta, 3, TEXT(""));
    made_text(&meta, 8, TEXT(""));
    assert_json(json_of(fixture, pod_with(fixture, &meta)),
                "{'kind':'Pod','metadata':{'name':'a'}}");
}

WIRE_TEST(protobuf__fields_come_in_any_order)
{
    SCOPED_STRBUF(meta);

    made_text(&meta, 5, TEXT("u"));
    made_text(&meta, 17, TEXT("none of ours"));
    made_text(&meta, 1, TEXT("a"));
    made_number(&meta, 7, 1);
    assert_json(json_of(fixture, pod_with(fixture, &meta)),
                "{'kind':'Pod','metadata':{'uid':'u','name':'a'}}");
}

/* The recorded objects would be the same without these. */
WIRE_TEST(protobuf__has_what_no_recorded_object_shows)
{
    SCOPED_STRBUF(owner);
    SCOPED_STRBUF(meta);
    SCOPED_STRBUF(status);
    SCOPED_STRBUF(details);

    made_text(&owner, 1, TEXT("StatefulSet"));
    made_text(&owner, 3, TEXT("db"));
    made_text(&owner, 4, TEXT("u7"));
    made_number(&owner, 6, 1);
    made_text(&meta, 13, made_bytes(&owner));
    assert_json(json_of(fixture, pod_with(fixture, &meta)),
                "{'kind':'Pod','metadata':{'ownerReferences':[{'kind':'StatefulSet','name':'db',"
                "'uid':'u7','controller':true}]}}");
    made_number(&details, 5, 17);
    made_text(&status, 5, made_bytes(&details));
    made_number(&status, 6, 429);
    assert_json(json_of(fixture, enveloped(fixture, "Status", &status)),
                "{'kind':'Status','details':{'retryAfterSeconds':17},'code':429}");
}

WIRE_TEST(protobuf__has_limits_and_conditions)
{
    SCOPED_STRBUF(quantity);
    SCOPED_STRBUF(limits);
    SCOPED_STRBUF(container);
    SCOPED_STRBUF(spec);
    SCOPED_STRBUF(pod);
    SCOPED_STRBUF(condition);
    SCOPED_STRBUF(status);
    SCOPED_STRBUF(node);

    made_text(&quantity, 1, TEXT("4"));
    made_entry(&limits, 1, "cpu", quantity.data);
    made_text(&container, 1, TEXT("c"));
    made_text(&container, 8, made_bytes(&limits));
    made_text(&spec, 2, made_bytes(&container));
    made_number(&spec, 25, -7);
    made_text(&pod, 2, made_bytes(&spec));
    assert_json(json_of(fixture, enveloped(fixture, "Pod", &pod)),
                "{'kind':'Pod','spec':{'containers':[{'name':'c','resources':{'limits':{'cpu':"
                "'4'}}}],'priority':-7}}");
    made_text(&condition, 1, TEXT("Ready"));
    made_text(&condition, 2, TEXT("False"));
    made_text(&status, 4, made_bytes(&condition));
    made_text(&node, 3, made_bytes(&status));
    assert_json(json_of(fixture, enveloped(fixture, "Node", &node)),
                "{'kind':'Node','status':{'conditions':[{'type':'Ready','status':'False'}]}}");
}

/* Nothing of the first part is lost without a word. */
WIRE_TEST(protobuf__list_in_two_parts_is_refused)
{
    struct pod pod;
    SCOPED_STRBUF(meta);

    made_entry(&meta, 12, "a", "1");
    made_entry(&meta, 12, "b", "");
    made_text(&meta, 1, TEXT("p"));
    made_entry(&meta, 12, "c", "3");
    const struct text json = converted(fixture, pod_with(fixture, &meta));
    assert_json(arena_copy(&fixture->arena, json),
                "{'kind':'Pod','metadata':{'annotations':{'a':'1','b':''},'name':'p',"
                "'annotations':{'c':'3'}}}");
    assert_true(pod_decode(json, &rules, &fixture->arena, &pod, &fixture->err) < 0);
    assert_says(fixture, "comes twice");
}

static void assert_refused(struct fixture *fixture, struct text body, const char *says)
{
    SCOPED_STRBUF(json);

    assert_int_equal(kube_protobuf_object(body, BODY_BYTES_MAX, &json, &fixture->err),
                     -(int)ERR_INVALID);
    assert_says(fixture, says);
}

WIRE_TEST(protobuf__other_kinds_are_refused)
{
    SCOPED_STRBUF(empty);

    assert_refused(fixture, enveloped(fixture, "PodTemplateList", &empty), "\"PodTemplateList\"");
    assert_refused(fixture, enveloped(fixture, "", &empty), "kind \"\"");
    assert_refused(fixture, exact(fixture, TEXT("k8s\0")), "has no object");
    assert_refused(fixture, exact(fixture, TEXT("{}")), "does not begin with k8s");

    SCOPED_STRBUF(body);
    strbuf_text(&body, enveloped(fixture, "Pod", &empty));
    made_text(&body, 3, TEXT("gzip"));
    assert_refused(fixture, exact(fixture, made_bytes(&body)), "encoding \"gzip\"");
}

/* A page that breaks off is none; nor is one that another message stands in. */
WIRE_TEST(protobuf__broken_bytes_are_refused)
{
    static const char *const file[] = {"pod.pb", "node.pb", "pods.pb"};
    SCOPED_STRBUF(json);
    SCOPED_STRBUF(meta);

    for (size_t i = 0; i < ARRAY_LEN(file); i++) {
        const struct text body = recorded(fixture, file[i]);
        const size_t last = body.len - 4; /* of two empty fields, which nobody needs */
        for (size_t len = 5; len < last; len += len < 200 || len > last - 200 ? 1 : 97) {
            strbuf_reset(&json);
            if (kube_protobuf_object(exact(fixture, text_first(body, len)), BODY_BYTES_MAX, &json,
                                     &fixture->err) == 0)
                fail_msg("the first %zu bytes of %s are taken", len, file[i]);
        }
    }
    made_number(&meta, 1, 7); /* a number where the name should be */
    assert_refused(fixture, pod_with(fixture, &meta), "malformed, in ObjectMeta");
    strbuf_reset(&meta);
    made_text(&meta, 12, TEXT("\x0a\xff"));
    assert_refused(fixture, pod_with(fixture, &meta), "malformed, in an entry of a map");
    strbuf_reset(&meta);
    made_text(&meta, 8, TEXT("\x08"));
    assert_refused(fixture, pod_with(fixture, &meta), "malformed, in Time");
}

WIRE_TEST(protobuf__json_is_limited)
{
    const struct text body = recorded(fixture, "pods.pb");
    SCOPED_STRBUF(json);

    strbuf_str(&json, "before");
    assert_int_equal(kube_protobuf_object(body, BODY_BYTES_MAX, &json, &fixture->err), 0);
    assert_true(text_starts(made_bytes(&json), "before{\"kind\":\"PodList\""));
    const size_t bytes = json.len - strlen("before");
    for (size_t max = 0; max < bytes; max += 100) {
        strbuf_reset(&json);
        assert_int_equal(kube_protobuf_object(body, max, &json, &fixture->err),
                         -(int)ERR_TOO_LARGE);
    }
    strbuf_reset(&json);
    assert_int_equal(kube_protobuf_object(body, bytes, &json, &fixture->err), 0);
}

WIRE_TEST(protobuf__events_need_an_object)
{
    static const struct text frame[] = {TEXT(""),
                                        TEXT("\x0a\x05"
                                             "ADDED"),
                                        TEXT("\x0a\x05"
                                             "ADDED\x12\x04\x0a\x02{}"),
                                        TEXT("\x08")};

    for (size_t i = 0; i < ARRAY_LEN(frame); i++) {
        SCOPED_STRBUF(line);
        assert_int_equal(
            kube_protobuf_event(exact(fixture, frame[i]), EVENT_BYTES_MAX, &line, &fixture->err),
            -(int)ERR_INVALID);
        assert_says(fixture, "protobuf: ");
    }
}

WIRE_TEST(protobuf__frame_has_its_length_first)
{
    assert_int_equal(kube_protobuf_frame((const char[]){0, 0, 0, 0}), 0);
    assert_int_equal(kube_protobuf_frame((const char[]){0, 0, 3, (char)0x8c}), 908);
    assert_int_equal(
        kube_protobuf_frame((const char[]){(char)0xff, (char)0xff, (char)0xff, (char)0xff}),
        UINT32_MAX);
}
