#include "milligpu/base/alloc.h"

#include "support.h"

struct seen {
    struct text item[8];
    uint32_t n_items;
    uint32_t stop_after;
};

static int see(void *user, struct text bytes, struct err *err)
{
    struct seen *seen = user;
    assert_true(seen->n_items < ARRAY_LEN(seen->item));
    seen->item[seen->n_items++] = bytes;
    if (seen->n_items == seen->stop_after)
        return err_set(err, ERR_CONFLICT, "enough");
    return 0;
}

static int list(struct fixture *fixture, const char *bytes, struct seen *seen,
                struct list_page *page)
{
    const uint32_t stop_after = seen->stop_after;
    *seen = (struct seen){.stop_after = stop_after};
    fixture->err = (struct err){0};
    return list_decode(exact_json(fixture, bytes), &fixture->arena, seen, see, page, &fixture->err);
}

WIRE_TEST(list_decoder__gives_items_wherever_the_metadata_stands)
{
    struct seen seen = {0};
    struct list_page page;
    assert_int_equal(
        list(fixture,
             "{'kind':'PodList','metadata':{'resourceVersion':'42','continue':'tok\\u003d'},"
             "'items':[{'a':1}, {} ]}",
             &seen, &page),
        0);
    assert_int_equal(seen.n_items, 2);
    assert_true(text_is(seen.item[0], "{\"a\":1}"));
    assert_true(text_is(seen.item[1], "{}"));
    assert_string_equal(page.resource_version, "42");
    assert_string_equal(page.continue_token, "tok=");

    assert_int_equal(
        list(fixture, "{'items':[{}],'kind':'List','metadata':{'continue':'c'}}", &seen, &page), 0);
    assert_int_equal(seen.n_items, 1);
    assert_string_equal(page.continue_token, "c");
    assert_string_equal(page.resource_version, "");
}

WIRE_TEST(list_decoder__takes_an_empty_list)
{
    static const char *const empty[] = {
        "{'kind':'NodeList','metadata':{},'items':[]}",
        "{'kind':'NodeList','metadata':null,'items':null}",
        "{'kind':'NodeList'}",
        "{'kind':'NodeList','items':[null]}",
    };
    struct seen seen = {0};
    struct list_page page;
    for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
        assert_int_equal(list(fixture, empty[i], &seen, &page), 0);
        assert_int_equal(seen.n_items, 0);
        assert_string_equal(page.continue_token, "");
    }
}

WIRE_TEST(list_continue__is_read_without_the_items)
{
    static const char *const page[][2] = {
        {"{'kind':'PodList','metadata':{'resourceVersion':'42','continue':'t\\u003d'},'items':[",
         "t="},
        {"{'metadata':{'continue':'t'}}", "t"},
        {"{'metadata':{'resourceVersion':'42'},'items':[{}]}", ""},
        {"{'items':[{}],'metadata':{'continue':'t'}}", ""},
        {"{'kind':'Status','metadata':{'continue':'t'}}", ""},
        {"{'kind':'PodList','metadata':{'continue':'t", ""},
        {"{'metadata':{'continue':'t'},'metadata':{'continue':'u'}}", ""},
        {"{'metadata':{'continue':7},'items':[]}", ""},
        {"[]", ""},
        {"", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(page); i++)
        assert_string_equal(list_continue(exact_json(fixture, page[i][0]), &fixture->arena),
                            page[i][1]);
}

WIRE_TEST(list_decoder__can_be_stopped_by_an_item)
{
    struct seen seen = {.stop_after = 2};
    struct list_page page;
    assert_int_equal(list(fixture, "{'items':[1,2,3]}", &seen, &page), -ERR_CONFLICT);
    assert_int_equal(seen.n_items, 2);
    assert_string_equal(fixture->err.text, "enough");
}

WIRE_TEST(list_decoder__refuses_other_objects)
{
    static const struct wire_case bad[] = {
        {"", "List: expected an object, found the end"},
        {"[]", "List: expected an object, found an array"},
        {"{'kind':'Pod','metadata':{'name':'p'}}", "List.kind: is not a List"},
        {"{'kind':'Status','code':410}", "List.kind: is not a List"},
        {"{'items':{}}", "List.items: expected an array"},
        {"{'items':[{}]", "found the end"},
        {"{'items':[{'a':}]}", "List.items[0].a: expected a value"},
        {"{'items':[],'items':[]}", "List.items: comes twice"},
        {"{'items':[]}x", "after the value"},
    };
    struct seen seen = {0};
    struct list_page page;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(list(fixture, bad[i].bytes, &seen, &page), -ERR_INVALID);
        assert_says(fixture, bad[i].says);
    }
}

/* The pods of a page, by one way or the other. */
struct pods {
    struct arena *arena;
    struct strbuf text;
    uint32_t by_begin;
};

static void note_pod(struct pods *pods, const struct pod *pod)
{
    strbuf_printf(&pods->text, "%s %s %s %u %s;", pod->name, pod->uid, pod->node, pod->n_containers,
                  pod->unreadable != NULL ? pod->unreadable : "");
}

static size_t begin_pod(void *user, struct text rest)
{
    struct pods *pods = user;
    struct pod pod;
    const size_t bytes = pod_decode_first(rest, &rules, pods->arena, &pod);
    assert_true(bytes <= rest.len);
    pods->by_begin += bytes > 0;
    if (bytes > 0)
        note_pod(pods, &pod);
    return bytes;
}

static int item_pod(void *user, struct text bytes, struct err *err)
{
    struct pods *pods = user;
    struct pod pod;
    const int rc = pod_decode(bytes, &rules, pods->arena, &pod, err);
    if (rc == 0)
        note_pod(pods, &pod);
    return rc;
}

static int list_pods(struct fixture *fixture, struct text bytes, bool in_one, struct pods *pods)
{
    const struct list_items items = {
        .user = pods, .begin = in_one ? begin_pod : NULL, .item = item_pod};
    struct list_page page;
    fixture->err = (struct err){0};
    strbuf_reset(&pods->text);
    pods->by_begin = 0;
    const int rc = list_decode_items(bytes, &fixture->arena, &items, &page, &fixture->err);
    strbuf_printf(&pods->text, " %s %s %s", page.resource_version, page.continue_token,
                  rc < 0 ? fixture->err.text : "");
    return rc;
}

/* Returns the number of pods that were read in one pass. */
static uint32_t assert_list_same(struct fixture *fixture, struct text bytes)
{
    struct pods two = {.arena = &fixture->arena};
    struct pods one = {.arena = &fixture->arena};
    strbuf_init(&two.text);
    strbuf_init(&one.text);
    const int rc = list_pods(fixture, bytes, false, &two);
    assert_int_equal(list_pods(fixture, bytes, true, &one), rc);
    assert_string_equal(one.text.data, two.text.data);
    assert_int_equal(two.by_begin, 0);
    strbuf_done(&two.text);
    strbuf_done(&one.text);
    return one.by_begin;
}

/* Each byte of a page, replaced by others, and each of its beginnings. */
WIRE_TEST(list_decoder__finds_the_same_in_one_pass)
{
    static const char others[] = "{}[]\",:\\ 0n\x01\xff";
    const struct text page = exact_json(
        fixture,
        "{'kind':'PodList','metadata':{'resourceVersion':'4'},'items':[ {'metadata':{"
        "'name':'a','uid':'1','labels':{'x':'\\u00e9'}},'spec':{'nodeName':'n','containers':"
        "[{'name':'c','resources':{'limits':{'nvidia.com/vgpu':'300'}}}]}},null,{'metadata'"
        ":{'uid':'2','name':'b','managedFields':[{'f:x':{'.':{}}},-1.5e3,true]},'spec':{}}"
        " , {'metadata':{'name':'d','uid':'3'},'spec':{'containers':7}}]}");
    CLEANUP(xfreep) char *changed = xmalloc(page.len);
    struct arena *arena = &fixture->arena;

    assert_int_equal(assert_list_same(fixture, page), 3);
    for (size_t i = 0; i < page.len; i++) {
        assert_list_same(fixture, (struct text){page.at, i});
        for (size_t k = 0; k + 1 < sizeof others; k++) {
            memcpy(changed, page.at, page.len);
            changed[i] = others[k];
            assert_list_same(fixture, (struct text){changed, page.len});
            arena_reset(arena);
        }
    }
}

/* An object nested too deeply for one pass is read by itself, and is refused at the same depth. */
WIRE_TEST(list_decoder__finds_the_same_at_any_depth)
{
    static const int depths[] = {60,    63,    64,    65,    93,    94,    95,    96,
                                 10238, 10330, 10331, 10332, 10333, 10334, 10335, 10336};
    struct strbuf page;

    strbuf_init(&page);
    for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
        strbuf_reset(&page);
        strbuf_str(&page, "{\"metadata\":{\"resourceVersion\":\"4\"},\"items\":[{\"metadata\":{"
                          "\"name\":\"a\",\"uid\":\"1\"},\"x\":");
        for (int k = 0; k < depths[i]; k++)
            strbuf_char(&page, '[');
        for (int k = 0; k < depths[i]; k++)
            strbuf_char(&page, ']');
        strbuf_str(&page, "}]}");
        const struct text bytes = {page.data, page.len};
        assert_int_equal(assert_list_same(fixture, bytes), depths[i] < JSON_DEPTH_MAX);
        arena_reset(&fixture->arena);
    }
    strbuf_done(&page);
}

static int watch(struct fixture *fixture, const char *line, struct watch_event *event)
{
    fixture->err = (struct err){0};
    return watch_decode(exact_json(fixture, line), &fixture->arena, event, &fixture->err);
}

WIRE_TEST(watch_decoder__reads_events)
{
    struct watch_event event;
    assert_int_equal(
        watch(
            fixture,
            "{'type':'ADDED','object':{'kind':'Pod','metadata':{'name':'p','resourceVersion':'7'},"
            "'spec':{}}}\n",
            &event),
        0);
    assert_int_equal(event.type, WATCH_ADDED);
    assert_string_equal(event.resource_version, "7");
    assert_true(text_starts(event.object, "{\"kind\":\"Pod\"") &&
                event.object.at[event.object.len - 1] == '}');

    assert_int_equal(watch(fixture, "{'object':{'metadata':{}},'type':'MODIFIED'}", &event), 0);
    assert_int_equal(event.type, WATCH_MODIFIED);
    assert_string_equal(event.resource_version, "");
    assert_int_equal(watch(fixture, "{'type':'DELETED','object':{}}", &event), 0);
    assert_int_equal(event.type, WATCH_DELETED);
    assert_int_equal(
        watch(fixture,
              "{'type':'BOOKMARK','object':{'kind':'Pod','apiVersion':'v1','metadata':{"
              "'resourceVersion':'12746','creationTimestamp':null},'spec':{'containers':null},"
              "'status':{}}}",
              &event),
        0);
    assert_int_equal(event.type, WATCH_BOOKMARK);
    assert_string_equal(event.resource_version, "12746");
}

WIRE_TEST(watch_decoder__reads_the_status_of_an_error)
{
    struct watch_event event;
    assert_int_equal(
        watch(fixture,
              "{'type':'ERROR','object':{'kind':'Status','apiVersion':'v1','metadata':{},"
              "'status':'Failure','message':'too old resource version: 1 (9)','reason':'Expired',"
              "'code':410}}",
              &event),
        0);
    assert_int_equal(event.type, WATCH_ERROR);
    assert_int_equal(event.status.code, 410);
    assert_string_equal(event.status.reason, "Expired");
    assert_string_equal(event.status.message, "too old resource version: 1 (9)");
}

WIRE_TEST(watch_decoder__refuses_broken_events)
{
    static const struct wire_case bad[] = {
        {"", "event: expected an object"},
        {"{}", "event: has no \"type\""},
        {"{'type':'ADDED'}", "event: has no \"object\""},
        {"{'type':'ADDED','object':null}", "event: has no \"object\""},
        {"{'type':null,'object':{}}", "event: has no \"type\""},
        {"{'type':'MOVED','object':{}}", "event.type: must be ADDED"},
        {"{'type':'ADDED','object':[]}", "event.object: expected an object"},
        {"{'type':'ADDED','object':{'metadata':{'resourceVersion':7}}}",
         "event.object.metadata.resourceVersion: expected a string"},
        {"{'type':'ADDED','object':{'metadata':", "found the end"},
        {"{'type':'ADDED','object':{}} {}", "after the value"},
    };
    struct watch_event event;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(watch(fixture, bad[i].bytes, &event), -ERR_INVALID);
        assert_says(fixture, bad[i].says);
    }
}

WIRE_TEST(status_decoder__reads_a_status_and_shows_other_bytes)
{
    struct status status;
    status_decode(
        exact_json(fixture,
                   "{'kind':'Status','status':'Failure','message':'m','reason':'TooManyRequests',"
                   "'details':{'retryAfterSeconds':3},'code':429}"),
        &fixture->arena, &status);
    assert_int_equal(status.code, 429);
    assert_string_equal(status.reason, "TooManyRequests");
    assert_int_equal(status.retry_after_s, 3);

    static const char *const other[] = {"Too many requests, please try again later.\n",
                                        "{'kind':'Pod','code':429}", "{'kind':'Status'", "",
                                        "\xFF\001x"};
    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        status_decode(exact_json(fixture, other[i]), &fixture->arena, &status);
        assert_int_equal(status.code, 0);
        assert_string_equal(status.reason, "");
        assert_int_equal(strlen(status.message), strlen(other[i]));
    }
    char large[1000];
    memset(large, 'x', sizeof large);
    status_decode((struct text){large, sizeof large}, &fixture->arena, &status);
    assert_int_equal(strlen(status.message), 200);
}

WIRE_TEST(meta_decoder__reads_any_object)
{
    struct object_meta meta;
    assert_int_equal(
        meta_decode(exact_json(fixture,
                               "{'kind':'Namespace','metadata':{'name':'kube-system','uid':'u',"
                               "'resourceVersion':'4'},'spec':{}}"),
                    &fixture->arena, &meta, &fixture->err),
        0);
    assert_string_equal(meta.kind, "Namespace");
    assert_string_equal(meta.name, "kube-system");
    assert_string_equal(meta.uid, "u");
    assert_string_equal(meta.namespace, "");
    assert_string_equal(meta.resource_version, "4");
    assert_int_equal(
        meta_decode(exact_json(fixture, "{'metadata':7}"), &fixture->arena, &meta, &fixture->err),
        -ERR_INVALID);
    assert_says(fixture, "object.metadata: expected an object");
}

WIRE_TEST(version_number__is_0_for_other_texts)
{
    assert_true(version_number("0042") == 42);
    assert_true(version_number("18446744073709551615") == UINT64_MAX);
    assert_true(version_number("18446744073709551616") == 0);
    assert_true(version_number("") == 0);
    assert_true(version_number("12a") == 0);
    assert_true(version_number("-1") == 0);
}
