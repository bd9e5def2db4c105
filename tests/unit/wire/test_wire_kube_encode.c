#include "support.h"
#include "wire/kube/kube_read.h"

/* A node with two real GPUs and two that are known only by index, and a pod on them. */
static struct {
    struct names *names;
    struct node *node;
    struct allocation *allocation;
} place;

static const struct atom *intern(const char *name)
{
    return names_intern(place.names, text_of(name));
}

static struct share share(const char *container, const char *gpu, uint32_t milli)
{
    return (struct share){
        .container = container, .gpu = intern(gpu), .milli = milli, .mib = milli * 16};
}

static int set_up(void **state)
{
    place.names = names_new();
    const struct atom *empty = intern("");
    const struct gpu gpu[] = {
        {.id = intern("GPU-zzz"), .alias_number = 1, .index = 0},
        {.id = intern("node-1/gpu-1"), .index = 1},
        {.id = intern("node-1/gpu-2"), .index = 2},
        {.id = intern("GPU-aaa"), .index = 12},
    };
    struct gpu gpus[ARRAY_LEN(gpu)];

    for (size_t i = 0; i < ARRAY_LEN(gpu); i++) {
        gpus[i] = gpu[i];
        gpus[i].model = empty;
        gpus[i].milli = 1000;
    }
    const struct node_build build = {.name = intern("node-1"),
                                     .uid = empty,
                                     .problem_text = empty,
                                     .n_gpus = ARRAY_LEN(gpus),
                                     .gpu = gpus};
    place.node = node_new(&build);
    return bench_setup(state);
}

static int tear_down(void **state)
{
    allocation_unref(place.allocation);
    place.allocation = NULL;
    node_unref(place.node);
    names_free(place.names);
    return bench_teardown(state);
}

#define PLACE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

/* The pod of the test, in place of the one before. */
static void place_pod(const struct share *shares, uint32_t count)
{
    const struct allocation_facts facts = {.uid = "cf75",
                                           .namespace = "team",
                                           .name = "web-0",
                                           .node = place.node->name,
                                           .node_uid = place.node->uid,
                                           .origin = count > 0 ? ORIGIN_GRANTED : ORIGIN_ADOPTED,
                                           .reserved_ms = 1,
                                           .n_shares = count,
                                           .share = shares};
    allocation_unref(place.allocation);
    place.allocation = allocation_new(&facts);
}

PLACE_TEST(note__lists_shares_by_container_and_index)
{
    const struct share shares[] = {share("b", "GPU-aaa", 500), share("a", "node-1/gpu-2", 300),
                                   share("b", "GPU-zzz", 500)};
    place_pod(shares, ARRAY_LEN(shares));
    note_value(&fixture->out, place.allocation, place.node);
    assert_json(
        fixture->out.data,
        "{'v':1,'containers':{'b':[{'gpu':'GPU-zzz','index':0,'milli':500,'mib':8000},{"
        "'gpu':'GPU-aaa','index':12,'milli':500,'mib':8000}],'a':[{'gpu':'node-1/gpu-2','index':2,"
        "'milli':300,'mib':4800}]}}");
}

PLACE_TEST(note__has_the_request_of_a_raised_share)
{
    struct share shares[] = {share("a", "GPU-aaa", 200), share("b", "GPU-aaa", 300)};
    struct pod pod = {.annotation = NOTE_NONE};
    shares[0].asked = 100;
    shares[1].asked = 300;
    place_pod(shares, ARRAY_LEN(shares));
    note_value(&fixture->out, place.allocation, place.node);
    assert_json(fixture->out.data,
                "{'v':1,'containers':{'a':[{'gpu':'GPU-aaa','index':12,'milli':200,'mib':3200,"
                "'asked':100}],'b':[{'gpu':'GPU-aaa','index':12,'milli':300,'mib':4800}]}}");
    annotation_decode((struct text){fixture->out.data, fixture->out.len}, &fixture->arena, &pod);
    assert_int_equal(pod.annotation, NOTE_OK);
    assert_int_equal(pod.share[0].milli, 200);
    assert_int_equal(pod.share[0].asked, 100);
    assert_int_equal(pod_share_asked(&pod.share[0]), 100);
    assert_int_equal(pod.share[1].asked, 0);
    assert_int_equal(pod_share_asked(&pod.share[1]), 300);
}

PLACE_TEST(annotation__is_read_back)
{
    const struct share shares[] = {share("a", "GPU-aaa", 300), share("b", "node-1/gpu-1", 700)};
    place_pod(shares, ARRAY_LEN(shares));
    strbuf_str(&fixture->out, "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"annotations\":");
    annotation_encode(&fixture->out, place.allocation, place.node);
    strbuf_str(&fixture->out, "}}");
    struct pod pod;
    assert_int_equal(pod_decode((struct text){fixture->out.data, fixture->out.len}, &rules,
                                &fixture->arena, &pod, &fixture->err),
                     0);
    assert_int_equal(pod.annotation, NOTE_OK);
    assert_int_equal(pod.n_shares, 2);
    assert_string_equal(pod.share[0].container, "a");
    assert_string_equal(pod.share[0].gpu, "GPU-aaa");
    assert_int_equal(pod.share[0].index, 12);
    assert_int_equal(pod.share[0].milli, 300);
    assert_int_equal(pod.share[0].mib, 4800);
    assert_string_equal(pod.share[1].gpu, "node-1/gpu-1");
}

PLACE_TEST(visible_devices__are_uuids_or_indexes_each_once)
{
    const struct share shares[] = {share("a", "GPU-aaa", 100), share("a", "node-1/gpu-1", 100),
                                   share("b", "GPU-aaa", 100), share("c", "node-1/gpu-0", 100)};
    place_pod(shares, ARRAY_LEN(shares));
    annotation_encode(&fixture->out, place.allocation, place.node);
    const char *rest = strstr(fixture->out.data, ",\"milligpu.io/visible-devices\"");
    assert_non_null(rest);
    /* The GPU that the pod still holds by index has a UUID by now. */
    assert_json(
        rest,
        ",'milligpu.io/visible-devices':'GPU-zzz,1,GPU-aaa','visible-devices.milligpu.io/a':'1,"
        "GPU-aaa','visible-devices.milligpu.io/b':'GPU-aaa',"
        "'visible-devices.milligpu.io/c':'GPU-zzz'}");
}

PLACE_TEST(visible_devices__keep_the_name_of_an_unknown_gpu)
{
    const struct share shares[] = {share("a", "GPU-gone", 100), share("b", "node-1/gpu-31", 100)};
    place_pod(shares, ARRAY_LEN(shares));
    annotation_encode(&fixture->out, place.allocation, place.node);
    assert_has(fixture->out.data, "visible-devices':'GPU-gone,31'");
}

static int bind(struct fixture *fixture, struct binding_terms terms)
{
    return binding_encode(&fixture->out, place.allocation, place.node, &terms, &fixture->err);
}

PLACE_TEST(binding__has_everything_in_one_write)
{
    const struct share shares[] = {share("c", "GPU-aaa", 300)};
    place_pod(shares, ARRAY_LEN(shares));
    assert_int_equal(bind(fixture, (struct binding_terms){.version = 190}), 0);
    assert_json(
        fixture->out.data,
        "{'apiVersion':'v1','kind':'Binding','metadata':{'name':'web-0','namespace':'team',"
        "'uid':'cf75','resourceVersion':'190','annotations':{'milligpu.io/allocation':'{\\'v\\':1,"
        "\\'containers\\':{\\'c\\':[{\\'gpu\\':\\'GPU-aaa\\',\\'index\\':12,\\'milli\\':300,"
        "\\'mib\\':4800}]}}','milligpu.io/visible-devices':'GPU-aaa',"
        "'visible-devices.milligpu.io/c':'GPU-aaa'}},'target':{'apiVersion':'v1','kind':'Node',"
        "'name':'node-1'}}");
}

/* Writes the signed text in words; fails with ctx, if there is one. */
static int sign_in_words(const void *ctx, struct text uid, struct text node, struct text annotation,
                         struct strbuf *out, struct err *err)
{
    if (ctx != NULL)
        return err_set(err, ERR_INTERNAL, "%s", (const char *)ctx);
    strbuf_printf(out, "%.*s on %.*s: %zu", TEXT_ARG(uid), TEXT_ARG(node), annotation.len);
    return 0;
}

PLACE_TEST(binding__for_an_agent_is_signed_and_requires_its_plugin)
{
    const struct share shares[] = {
        share("c", "GPU-aaa", 300),
        share("abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc", "GPU-aaa", 1),
        share("c", "GPU-zzz", 300),
        share("123456789012345678901234567890123456789012345678901234", "GPU-aaa", 1)};
    const char *others[] = {"log",
                            "-",
                            "",
                            "a/b",
                            "12345678901234567890123456789012345678901234567890123",
                            "123456789012345678901234567890123456789012345678901234"};
    const struct binding_signer signer = {NULL, sign_in_words};
    const struct request request = {.n_others = ARRAY_LEN(others), .other = others};
    const struct binding_terms terms = {&signer, &request, 190};
    place_pod(shares, ARRAY_LEN(shares));
    place.node->agent = true;
    assert_int_equal(bind(fixture, terms), 0);
    CLEANUP(strbuf_done) struct strbuf note;
    strbuf_init(&note);
    note_value(&note, place.allocation, place.node);
    char expected[100];
    (void)snprintf(expected, sizeof expected,
                   "}','milligpu.io/signature':'cf75 on node-1: %zu','milligpu.io/visible",
                   note.len);
    assert_has(fixture->out.data, expected);
    /*
     * With "container." a name of 54 letters makes 64, and others are no names either: the key of
     * the pod is for them.
     */
    const char *required = strstr(fixture->out.data, "\"required-plugins");
    assert_non_null(required);
    assert_json(
        required,
        "'required-plugins.noderesource.dev/pod':'[\\'milligpu\\']',"
        "'required-plugins.noderesource.dev/container.c':'[\\'milligpu\\']',"
        "'required-plugins.noderesource.dev/container.abcdefghijabcdefghijabcdefghijabcdefghijabcde"
        "fghijabc':'[\\'milligpu\\']','required-plugins.noderesource.dev/container.log':'["
        "\\'milligpu\\']','required-plugins.noderesource.dev/container.1234567890123456789012345678"
        "9012345678901234567890123':'[\\'milligpu\\']'}},'target':{'apiVersion':'v1','kind':'Node',"
        "'name':'node-1'}}");
    /* The same again, byte for byte. */
    CLEANUP(strbuf_done) struct strbuf again;
    strbuf_init(&again);
    assert_int_equal(binding_encode(&again, place.allocation, place.node, &terms, &fixture->err),
                     0);
    assert_string_equal(again.data, fixture->out.data);
}

PLACE_TEST(binding__may_have_a_signature_without_an_agent_or_the_reverse)
{
    const struct share one = share("c", "GPU-aaa", 300);
    const struct binding_signer signer = {NULL, sign_in_words};
    place_pod(&one, 1);
    assert_int_equal(bind(fixture, (struct binding_terms){.signer = &signer, .version = 1}), 0);
    assert_has(fixture->out.data, "'milligpu.io/signature':'cf75 on node-1: ");
    assert_lacks(fixture->out.data, "required-plugins");
    strbuf_reset(&fixture->out);
    place.node->agent = true;
    assert_int_equal(bind(fixture, (struct binding_terms){.version = 1}), 0);
    assert_lacks(fixture->out.data, "signature");
    assert_has(fixture->out.data, "required-plugins.noderesource.dev/pod");
}

PLACE_TEST(binding__fails_when_it_cannot_be_signed)
{
    const struct share one = share("c", "GPU-aaa", 300);
    const struct binding_signer signer = {"no ink", sign_in_words};
    place_pod(&one, 1);
    assert_int_equal(bind(fixture, (struct binding_terms){.signer = &signer, .version = 1}),
                     -ERR_INTERNAL);
    assert_says(fixture, "no ink");
}

PLACE_TEST(binding__without_shares_is_not_signed)
{
    const struct binding_signer signer = {"no ink", sign_in_words};
    place_pod(NULL, 0);
    place.node->agent = true;
    assert_int_equal(bind(fixture, (struct binding_terms){.signer = &signer, .version = 7}), 0);
    assert_lacks(fixture->out.data, "annotations");
}

WIRE_TEST(public_keys__are_a_config_map)
{
    static const struct published_key key[] = {
        {"0123456789abcdef", "AAAA="}, {"1123456789abcdef", NULL}, {"2", "BBBB="}};

    keys_encode(&fixture->out, "team", key, ARRAY_LEN(key));
    assert_json(fixture->out.data,
                "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'milligpu-keys',"
                "'namespace':'team'},'data':{'0123456789abcdef':'AAAA=','2':'BBBB='}}");
    strbuf_reset(&fixture->out);
    keys_patch(&fixture->out, key, ARRAY_LEN(key));
    assert_json(fixture->out.data,
                "{'data':{'0123456789abcdef':'AAAA=','1123456789abcdef':null,'2':'BBBB='}}");
    assert_string_equal(configmaps_path(&fixture->arena, "team"),
                        "/api/v1/namespaces/team/configmaps");
}

PLACE_TEST(annotation_key__is_checked_where_the_api_server_does_not)
{
    static const struct {
        const char *container;
        bool good;
    } cases[] = {
        {"a", true},
        {"web-0", true},
        {"A_b.c", true},
        {"123456789012345678901234567890123456789012345678901234567890123", true},
        {"1234567890123456789012345678901234567890123456789012345678901234", false},
        {"-a", false},
        {"a-", false},
        {"a/b", false},
        {"a b", false},
        {"\xC3\xA9", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct share one = share(cases[i].container, "GPU-aaa", 300);
        place_pod(&one, 1);
        const int result = bind(fixture, (struct binding_terms){.version = 0});
        assert_int_equal(result, cases[i].good ? 0 : -ERR_INVALID);
        if (!cases[i].good)
            assert_says(fixture, "annotation visible-devices.milligpu.io/");
    }
}

static int bind_parts(struct fixture *fixture, int id_bytes)
{
    static struct share shares[PARTS_MAX];
    for (uint32_t i = 0; i < PARTS_MAX; i++) {
        char id[512];
        (void)snprintf(id, sizeof id, "GPU-%0*u", id_bytes - 4, i);
        shares[i] = share("container-with-a-long-name", id, 1);
    }
    place_pod(shares, PARTS_MAX);
    strbuf_reset(&fixture->out);
    const int result = bind(fixture, (struct binding_terms){.version = 0});
    return result;
}

PLACE_TEST(annotation__that_is_too_large_is_refused)
{
    assert_int_equal(bind_parts(fixture, 128), 0);
    assert_true(fixture->out.len > 200 * 1024);
    assert_int_equal(bind_parts(fixture, 300), -ERR_TOO_LARGE);
    assert_says(fixture, "more than 262144 (ANNOTATION_BYTES_MAX)");
}

WIRE_TEST(event__is_complete_and_cut)
{
    char annotation[1400];
    memset(annotation, 'x', sizeof annotation);
    memcpy(annotation + 996, "\xC3\xA9", 2); /* sits where the text must be cut */
    annotation[sizeof annotation - 1] = '\0';
    struct kube_event_facts facts = {.namespace = "team",
                                     .name = "web-0.1",
                                     .kind = "Pod",
                                     .regarding = "web-0",
                                     .uid = "u",
                                     .reason = "Absent",
                                     .action = "Observed",
                                     .note = "gone",
                                     .instance = "milligpud-0",
                                     .at_ms = INT64_C(1767323045678),
                                     .warning = true};
    event_encode(&fixture->out, &facts);
    assert_json(
        fixture->out.data,
        "{'apiVersion':'events.k8s.io/v1','kind':'Event','metadata':{'name':'web-0.1',"
        "'namespace':'team'},'eventTime':'2026-01-02T03:04:05.678000Z',"
        "'reportingController':'milligpu.io/milligpud','reportingInstance':'milligpud-0',"
        "'action':'Observed','reason':'Absent','type':'Warning','regarding':{'apiVersion':'v1',"
        "'kind':'Pod','namespace':'team','name':'web-0','uid':'u'},'note':'gone'}");

    facts.note = annotation;
    facts.kind = "Node";
    facts.uid = NULL;
    facts.warning = false;
    strbuf_reset(&fixture->out);
    event_encode(&fixture->out, &facts);
    const char *written = strstr(fixture->out.data, "\"note\":\"");
    assert_non_null(written);
    assert_int_equal(strlen(written), strlen("\"note\":\"") + 996 + strlen("...\"}"));
    assert_has(fixture->out.data, "'regarding':{'apiVersion':'v1','kind':'Node','name':'web-0'}");
    assert_has(fixture->out.data, "'type':'Normal'");

    facts.note = "\x1b[2J\xE2\x80\xAE"; /* kubectl would print it to a terminal unescaped */
    strbuf_reset(&fixture->out);
    event_encode(&fixture->out, &facts);
    assert_has(fixture->out.data, "'note':'\\\\u001b[2J\\\\u202e'}");
}

WIRE_TEST(patches__have_these_bytes)
{
    wake_object_encode(&fixture->out, "milligpu");
    assert_json(
        fixture->out.data,
        "{'apiVersion':'storage.k8s.io/v1','kind':'CSIStorageCapacity','metadata':{"
        "'name':'milligpu-bell','namespace':'milligpu'},'storageClassName':'milligpu.io-bell'}");
    strbuf_reset(&fixture->out);
    wake_object_patch(&fixture->out, 7, INT64_C(1767323045678));
    assert_json(fixture->out.data,
                "{'metadata':{'annotations':{'milligpu.io/bell':'7 2026-01-02T03:04:05.678Z'}}}");
    strbuf_reset(&fixture->out);
    node_wake_patch(&fixture->out, 0, 0);
    assert_json(fixture->out.data,
                "{'metadata':{'annotations':{'milligpu.io/bell':'0 1970-01-01T00:00:00.000Z'}}}");
    strbuf_reset(&fixture->out);
    advertise_patch(&fixture->out, "nvidia.com/vgpu", 8000);
    assert_json(fixture->out.data, "{'status':{'capacity':{'nvidia.com/vgpu':'8000'}}}");
    strbuf_reset(&fixture->out);
    advertise_patch(&fixture->out, "r", UINT32_MAX);
    assert_has(fixture->out.data, "\"4294967295\"");
}
