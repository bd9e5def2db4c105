#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/arena.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/kube/reflector.h"

#include "support/made_protobuf.h"
#include "support/quotes.h"
#include "support/scoped.h"
#include "support/test.h"

enum { BASE = 1000, SECOND = 1000 };

/* kube_ops that only record; the test gives the answers and sets the clock. */
struct fixture {
    struct reflector *reflector;
    int64_t now_ms;
    int64_t wait_ms;
    unsigned started;
    unsigned cancelled;
    bool busy; /* a request is not answered yet */
    bool start_fails;
    uint64_t id;
    char path[2048];
    int64_t silence_ms;
    struct strbuf calls; /* the calls of the sink, one word each */
    struct err trouble;
    unsigned troubles;
    const char *first; /* the object that on_listed_first() takes */
    size_t most_rest;  /* bytes that it was shown at most */
};

static int on_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct fixture *fixture = ctx;

    if (fixture->start_fails)
        return err_set(err, ERR_IO, "no start today");
    assert_false(fixture->busy);
    assert_true(request->id >= BASE);
    assert_string_equal(request->method, "GET");
    assert_true(request->takes_protobuf);
    fixture->started++;
    fixture->busy = true;
    fixture->id = request->id;
    fixture->silence_ms = request->silence_ms;
    (void)snprintf(fixture->path, sizeof fixture->path, "%s", request->path);
    return 0;
}

static void on_cancel(void *ctx, uint64_t id)
{
    struct fixture *fixture = ctx;

    assert_int_equal(id, fixture->id);
    fixture->cancelled += fixture->busy; /* does nothing to a request that has ended */
    fixture->busy = false;
}

static void say(struct fixture *fixture, const char *word, struct text object)
{
    strbuf_printf(&fixture->calls, "%s%s", fixture->calls.len > 0 ? " " : "", word);
    const char *name = memmem(object.at, object.len, "\"name\":\"", 8);
    if (name != NULL)
        strbuf_printf(&fixture->calls, ":%.*s", (int)strcspn(name + 8, "\""), name + 8);
}

/* Fails as a decoder does that finds no uid. */
static int take(struct fixture *fixture, const char *word, struct text object, struct err *err)
{
    if (memmem(object.at, object.len, "nameless", 8) != NULL)
        return err_set(err, ERR_INVALID, "has no metadata.uid");
    say(fixture, word, object);
    return 0;
}

static void on_list_begin(void *user)
{
    say(user, "begin", TEXT(""));
}

static int on_listed(void *user, struct text object, struct err *err)
{
    return take(user, "listed", object, err);
}

/* Takes only an object that the fixture knows, as long as its end is among the bytes. */
static size_t on_listed_first(void *user, struct text rest)
{
    struct fixture *fixture = user;
    const size_t len = fixture->first != NULL ? strlen(fixture->first) : 0;

    if (fixture->most_rest < rest.len)
        fixture->most_rest = rest.len;
    if (len == 0 || rest.len < len || memcmp(rest.at, fixture->first, len) != 0)
        return 0;
    say(fixture, "first", (struct text){rest.at, len});
    return len;
}

static void on_list_end(void *user, const char *resource_version)
{
    (void)resource_version;
    say(user, "end", TEXT(""));
}

static void on_list_failed(void *user)
{
    say(user, "failed", TEXT(""));
}

static int on_changed(void *user, struct text object, struct err *err)
{
    return take(user, "changed", object, err);
}

static int on_deleted(void *user, struct text object, struct err *err)
{
    return take(user, "deleted", object, err);
}

static void on_trouble(void *user, const struct err *err)
{
    struct fixture *fixture = user;
    fixture->trouble = *err;
    fixture->troubles++;
}

/* An event with this word repeats what the sink knows. */
static bool on_line(void *user, struct text line, struct arena *arena, const char **out_version)
{
    (void)user;
    if (memmem(line.at, line.len, "heartbeat", 9) == NULL)
        return false;
    const char *version = memmem(line.at, line.len, "\"resourceVersion\":\"", 19);
    assert_non_null(version);
    version += 19;
    *out_version = arena_copy(arena, (struct text){version, strcspn(version, "\"")});
    return true;
}

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);
    const struct kube_ops ops = {.ctx = fixture, .start = on_start, .cancel = on_cancel};
    const struct reflector_sink sink = {.user = fixture,
                                        .list_begin = on_list_begin,
                                        .listed = on_listed,
                                        .listed_first = on_listed_first,
                                        .list_end = on_list_end,
                                        .list_failed = on_list_failed,
                                        .changed = on_changed,
                                        .deleted = on_deleted,
                                        .trouble = on_trouble,
                                        .repeats = on_line};
    const struct reflector_rules rules = {.path = "/api/v1/pods",
                                          .selector = "fieldSelector=status.phase%21%3DFailed",
                                          .page = 500,
                                          .watch_ms = 600 * SECOND,
                                          .silence_ms = 180 * SECOND,
                                          .list_timeout_ms = 60 * SECOND,
                                          .seed = 7,
                                          .id_base = BASE};
    strbuf_init(&fixture->calls);
    fixture->now_ms = 5000;
    fixture->reflector = reflector_new(&rules, &ops, &sink);
    fixture->wait_ms = reflector_step(fixture->reflector, fixture->now_ms);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    reflector_free(fixture->reflector);
    assert_false(fixture->busy);
    strbuf_done(&fixture->calls);
    xfree(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

/* A step that asks for no wait is followed by the next one at once, as in the informer. */
static void step(struct fixture *fixture)
{
    int left = 4;

    do
        fixture->wait_ms = reflector_step(fixture->reflector, fixture->now_ms);
    while (fixture->wait_ms == 0 && --left > 0);
    assert_true(left > 0);
}

static void later(struct fixture *fixture, int64_t ms)
{
    fixture->now_ms += ms;
    step(fixture);
}

static void answer_bytes(struct fixture *fixture, enum kube_piece piece, int status,
                         struct text bytes)
{
    const struct kube_answer given = {
        .id = fixture->id, .piece = piece, .status = status, .data = bytes};

    if (piece == KUBE_DONE || piece == KUBE_FAILED)
        fixture->busy = false;
    assert_true(reflector_answer(fixture->reflector, fixture->now_ms, &given));
}

/* The text has ' for ". */
static void answer(struct fixture *fixture, enum kube_piece piece, int status, const char *text)
{
    CLEANUP(xfreep) char *json = with_quotes(text);

    answer_bytes(fixture, piece, status, text_of(json));
}

static void head(struct fixture *fixture, int status)
{
    answer(fixture, KUBE_HEAD, status, "");
}

static void data(struct fixture *fixture, const char *text)
{
    answer(fixture, KUBE_DATA, 200, text);
}

static void end(struct fixture *fixture)
{
    answer(fixture, KUBE_DONE, 200, "");
    step(fixture);
}

static void whole(struct fixture *fixture, int status, const char *text)
{
    head(fixture, status);
    answer(fixture, KUBE_DATA, status, text);
    answer(fixture, KUBE_DONE, status, "");
    step(fixture);
}

static void whole_bytes(struct fixture *fixture, int status, struct text bytes)
{
    head(fixture, status);
    answer_bytes(fixture, KUBE_DATA, status, bytes);
    answer(fixture, KUBE_DONE, status, "");
    step(fixture);
}

static void lose(struct fixture *fixture)
{
    const struct err err = {ERR_TIMEOUT, "not a byte"};
    const struct kube_answer given = {.id = fixture->id, .piece = KUBE_FAILED, .err = &err};
    fixture->busy = false;
    assert_true(reflector_answer(fixture->reflector, fixture->now_ms, &given));
    step(fixture);
}

/* These calls have reached the sink since the last look. */
static void received(struct fixture *fixture, const char *words)
{
    assert_string_equal(fixture->calls.data, words);
    strbuf_reset(&fixture->calls);
}

#define PAGE(version, items) "{'metadata':{'resourceVersion':'" version "'},'items':[" items "]}"
#define MORE(version, token, items)                                                                \
    "{'metadata':{'resourceVersion':'" version "','continue':'" token "'},'items':[" items "]}"
#define ITEM(name) "{'metadata':{'name':'" name "','resourceVersion':'7'}}"

static const char one_page[] = PAGE("100", ITEM("a"));

static void be_watching(struct fixture *fixture)
{
    whole(fixture, 200, one_page);
    received(fixture, "begin listed:a end");
    assert_true(fixture->busy);
    assert_non_null(strstr(fixture->path, "watch=1"));
    head(fixture, 200);
}

static bool is_listing(const struct fixture *fixture)
{
    return fixture->busy && strstr(fixture->path, "?limit=") != NULL;
}

/* After its pause. */
static void lists_again(struct fixture *fixture)
{
    assert_false(fixture->busy);
    step(fixture);
    later(fixture, fixture->wait_ms);
    assert_true(is_listing(fixture));
}

static void watches_from(const struct fixture *fixture, const char *version)
{
    char part[64];

    (void)snprintf(part, sizeof part, "resourceVersion=%s&", version);
    assert_true(fixture->busy);
    assert_non_null(strstr(fixture->path, "watch=1"));
    assert_non_null(strstr(fixture->path, part));
}

static struct reflector_stats stats_of(const struct fixture *fixture)
{
    struct reflector_stats stats;
    reflector_stats(fixture->reflector, &stats);
    return stats;
}

#define EVENT(type, name, rv)                                                                      \
    "{'type':'" type "','object':{'kind':'Pod','metadata':{'name':'" name                          \
    "','resourceVersion':'" rv "'}}}\n"
#define BOOKMARK(rv)                                                                               \
    "{'type':'BOOKMARK','object':{'kind':'Pod','metadata':{'resourceVersion':'" rv "'}}}\n"
#define ERROR_EVENT(code, reason)                                                                  \
    "{'type':'ERROR','object':{'kind':'Status','code':" code ",'reason':'" reason                  \
    "','message':'m'}}\n"

/* ---- listing ---- */

FIXTURE_TEST(list__begins_with_a_consistent_page)
{
    assert_string_equal(fixture->path,
                        "/api/v1/pods?limit=500&fieldSelector=status.phase%21%3DFailed");
    assert_int_equal(fixture->id, BASE);
    assert_true(fixture->wait_ms > 0);
    assert_false(stats_of(fixture).synced);
}

FIXTURE_TEST(list__follows_pages_to_the_end)
{
    whole(fixture, 200, MORE("90", "t+/=", ITEM("a") "," ITEM("b")));
    received(fixture, "begin listed:a listed:b");
    assert_non_null(strstr(fixture->path, "&continue=t%2B%2F%3D"));
    whole(fixture, 200, MORE("90", "u", ""));
    received(fixture, "");
    whole(fixture, 200, PAGE("99", ITEM("c")));
    received(fixture, "listed:c end");
    watches_from(fixture, "90");
    assert_true(stats_of(fixture).synced);
    assert_int_equal(stats_of(fixture).lists, 1);
}

/* The server makes it meanwhile. */
FIXTURE_TEST(list__requests_the_next_page_before_it_decodes_one)
{
    head(fixture, 200);
    data(fixture, MORE("90", "t", ITEM("a")));
    answer(fixture, KUBE_DONE, 200, "");
    assert_int_equal(reflector_step(fixture->reflector, fixture->now_ms), 0);
    assert_true(fixture->busy);
    assert_non_null(strstr(fixture->path, "&continue=t"));
    received(fixture, "begin");
    step(fixture);
    received(fixture, "listed:a");
    assert_true(fixture->wait_ms > 0);
}

FIXTURE_TEST(list__decodes_a_page_before_the_next_one_arrives)
{
    static const char *const next[] = {MORE("90", "u", ITEM("b")), PAGE("90", ITEM("c"))};

    head(fixture, 200);
    data(fixture, MORE("90", "t", ITEM("a")));
    answer(fixture, KUBE_DONE, 200, "");
    for (size_t i = 0; i < ARRAY_LEN(next); i++) {
        assert_int_equal(reflector_step(fixture->reflector, fixture->now_ms), 0);
        head(fixture, 200);
        data(fixture, next[i]);
        answer(fixture, KUBE_DONE, 200, "");
    }
    received(fixture, "begin listed:a listed:b listed:c end");
    step(fixture);
    watches_from(fixture, "90");
}

FIXTURE_TEST(list__with_metadata_behind_its_items_is_decoded_first)
{
    whole(fixture, 200,
          "{'items':[" ITEM("a") "],'metadata':{'resourceVersion':'9','continue':'t'}}");
    received(fixture, "begin listed:a");
    assert_non_null(strstr(fixture->path, "&continue=t"));
    whole(fixture, 200, PAGE("9", ITEM("b")));
    received(fixture, "listed:b end");
}

FIXTURE_TEST(page__that_cannot_be_decoded_stops_the_request_for_the_next)
{
    whole(fixture, 200, MORE("9", "t", ITEM("a") ",{'metadata':{'name':'nameless'}}"));
    received(fixture, "begin listed:a failed");
    assert_int_equal(fixture->cancelled, 1);
    const struct kube_answer late = {.id = fixture->id, .piece = KUBE_HEAD, .status = 200};
    assert_true(reflector_answer(fixture->reflector, fixture->now_ms, &late));
    lists_again(fixture);
    assert_null(strstr(fixture->path, "continue"));
    whole(fixture, 200, one_page);
    received(fixture, "begin listed:a end");
}

FIXTURE_TEST(page__that_cannot_be_decoded_stops_the_next_one_that_arrives)
{
    head(fixture, 200);
    data(fixture, MORE("9", "t", "{'metadata':{'name':'nameless'}}"));
    answer(fixture, KUBE_DONE, 200, "");
    assert_int_equal(reflector_step(fixture->reflector, fixture->now_ms), 0);
    head(fixture, 200);
    received(fixture, "begin failed");
    assert_false(fixture->busy);
    assert_int_equal(fixture->cancelled, 1);
    lists_again(fixture);
}

FIXTURE_TEST(page__that_cannot_be_decoded_counts_before_the_failure_of_the_next)
{
    head(fixture, 200);
    data(fixture, MORE("9", "t", "{'metadata':{'name':'nameless'}}"));
    answer(fixture, KUBE_DONE, 200, "");
    assert_int_equal(reflector_step(fixture->reflector, fixture->now_ms), 0);
    lose(fixture);
    received(fixture, "begin failed");
    assert_int_equal(fixture->cancelled, 0);
    assert_int_equal(stats_of(fixture).failures, 1);
    lists_again(fixture);
    assert_null(strstr(fixture->path, "continue"));
}

FIXTURE_TEST(page__is_decoded_even_if_the_next_cannot_be_requested)
{
    head(fixture, 200);
    data(fixture, MORE("9", "t", ITEM("a")));
    fixture->start_fails = true;
    answer(fixture, KUBE_DONE, 200, "");
    step(fixture);
    received(fixture, "begin listed:a");
    assert_false(fixture->busy);
    assert_int_equal(stats_of(fixture).failures, 1);
    fixture->start_fails = false;
    later(fixture, fixture->wait_ms);
    assert_non_null(strstr(fixture->path, "&continue=t"));
    whole(fixture, 200, PAGE("9", ITEM("b")));
    received(fixture, "listed:b end");
}

/* One failure, and one list that begins again. */
FIXTURE_TEST(page__that_cannot_be_decoded_or_followed_begins_the_list_once)
{
    head(fixture, 200);
    data(fixture, MORE("9", "t", "{'metadata':{'name':'nameless'}}"));
    fixture->start_fails = true;
    answer(fixture, KUBE_DONE, 200, "");
    step(fixture);
    received(fixture, "begin failed");
    assert_int_equal(stats_of(fixture).failures, 1);
    fixture->start_fails = false;
    lists_again(fixture);
}

FIXTURE_TEST(list__lets_the_sink_find_the_end_of_an_object)
{
    fixture->first = "{\"metadata\":{\"name\":\"b\"}}";
    whole(fixture, 200,
          "{'metadata':{'resourceVersion':'5'},'items':[{'metadata':{'name':'a'}}, "
          "{'metadata':{'name':'b'}},null,{'metadata':{'name':'b'}},{'metadata':{'name':'c'}}]}");
    received(fixture, "begin listed:a first:b first:b listed:c end");
    assert_int_equal(stats_of(fixture).last_seen_ms, fixture->now_ms);
}

/* An object that is refused because of its size is not taken before its size is known. */
FIXTURE_TEST(list__shows_the_sink_no_more_than_an_object_may_have)
{
    struct strbuf page;

    strbuf_init(&page);
    strbuf_str(&page, "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[{\"a\":\"");
    for (size_t i = 0; i < EVENT_BYTES_MAX; i++)
        strbuf_char(&page, 'x');
    strbuf_str(&page, "\"}]}");
    head(fixture, 200);
    data(fixture, page.data);
    end(fixture);
    received(fixture, "begin failed");
    assert_int_equal(fixture->most_rest, EVENT_BYTES_MAX);
    assert_int_equal(fixture->trouble.code, ERR_TOO_LARGE);
    strbuf_done(&page);
}

FIXTURE_TEST(list__may_be_empty_or_have_null_items)
{
    whole(fixture, 200, "{'metadata':{'resourceVersion':'5'},'items':null}");
    received(fixture, "begin end");
    assert_non_null(strstr(fixture->path, "watch=1"));
}

/* Something between the API server and us that answers 200 must not end the list. */
FIXTURE_TEST(page__without_a_version_fails_the_list)
{
    whole(fixture, 200, MORE("9", "t", ITEM("a")));
    whole(fixture, 200, "{}");
    received(fixture, "begin listed:a failed");
    assert_false(stats_of(fixture).synced);
    assert_non_null(strstr(fixture->trouble.text, "metadata.resourceVersion"));
}

FIXTURE_TEST(page__with_an_expired_token_restarts_the_list)
{
    whole(fixture, 200, MORE("9", "t", ITEM("a")));
    received(fixture, "begin listed:a");
    whole(fixture, 410, "{'kind':'Status','code':410,'reason':'Expired'}");
    received(fixture, "failed");
    lists_again(fixture);
    assert_null(strstr(fixture->path, "continue"));
    whole(fixture, 200, one_page);
    received(fixture, "begin listed:a end");
}

FIXTURE_TEST(page__that_fails_is_requested_again)
{
    whole(fixture, 200, MORE("9", "t", ""));
    received(fixture, "begin");
    whole(fixture, 503, "busy");
    received(fixture, "");
    later(fixture, fixture->wait_ms);
    assert_non_null(strstr(fixture->path, "continue=t"));
    lose(fixture);
    later(fixture, fixture->wait_ms);
    assert_non_null(strstr(fixture->path, "continue=t"));
    whole(fixture, 200, PAGE("9", ""));
    received(fixture, "end");
}

FIXTURE_TEST(page__that_keeps_failing_fails_the_list)
{
    whole(fixture, 200, MORE("9", "t", ""));
    for (int i = 0; i < 5; i++) {
        assert_non_null(strstr(fixture->path, "continue=t"));
        lose(fixture);
        later(fixture, fixture->wait_ms);
    }
    received(fixture, "begin failed");
    assert_true(is_listing(fixture));
    assert_null(strstr(fixture->path, "continue"));
}

FIXTURE_TEST(page__that_is_cut_or_no_list_fails_the_list)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{'items':[]}",
        "{'metadata':{},'items':[]}",
        "null",
        "{'metadata':{'resourceVersion':'9'},'items':[{'metadata':",
        "{'metadata':{'resourceVersion':'9'},'items':[]} more",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        whole(fixture, 200, bad[i]);
        received(fixture, "begin failed");
        assert_int_equal(fixture->troubles, i + 1);
        lists_again(fixture);
    }
    whole(fixture, 200, one_page);
    received(fixture, "begin listed:a end");
}

static void overflow(struct fixture *fixture)
{
    CLEANUP(freep) char *much = xcalloc(1, 1 << 20);
    memset(much, ' ', (1 << 20) - 1);

    head(fixture, 200);
    while (fixture->busy)
        data(fixture, much);
    assert_int_equal(fixture->trouble.code, ERR_TOO_LARGE);
    step(fixture);
}

/* A few objects as large as an API server accepts them: this is no failure and costs no wait. */
FIXTURE_TEST(page__that_is_too_large_is_requested_in_smaller_ones)
{
    static const char *const limit[] = {"?limit=250&", "?limit=125&", "?limit=62&"};

    for (size_t i = 0; i < ARRAY_LEN(limit); i++) {
        overflow(fixture);
        assert_true(fixture->busy);
        assert_non_null(strstr(fixture->path, limit[i]));
    }
    assert_int_equal(stats_of(fixture).failures, 0);
    whole(fixture, 200, MORE("90", "t", ITEM("a")));
    assert_non_null(strstr(fixture->path, "?limit=124&")); /* doubled again */
    assert_non_null(strstr(fixture->path, "continue=t"));
    overflow(fixture);
    assert_non_null(strstr(fixture->path, "?limit=62&"));
    assert_non_null(strstr(fixture->path, "continue=t")); /* the list goes on from there */
    whole(fixture, 200, one_page);
    received(fixture, "begin listed:a listed:a end");
}

FIXTURE_TEST(page__with_one_object_too_large_is_a_failure)
{
    for (int i = 0; i < 9; i++)
        overflow(fixture);
    assert_false(fixture->busy);
    assert_int_equal(stats_of(fixture).failures, 1);
    lists_again(fixture);
    received(fixture, "");
}

FIXTURE_TEST(too_many_requests__waits_as_long_as_the_server_says)
{
    const struct kube_answer refusal = {
        .id = fixture->id, .piece = KUBE_HEAD, .status = 429, .retry_after_s = 17};

    assert_true(reflector_answer(fixture->reflector, fixture->now_ms, &refusal));
    answer(fixture, KUBE_DATA, 429, "Too many requests, please try again later.");
    answer(fixture, KUBE_DONE, 429, "");
    step(fixture);
    assert_int_equal(fixture->wait_ms, 17 * SECOND);
    assert_int_equal(fixture->trouble.code, ERR_BUSY);
    later(fixture, 17 * SECOND - 1);
    assert_false(fixture->busy);
    later(fixture, 1);
    assert_true(is_listing(fixture));
}

/* A reflector that waits for an hour receives nothing for an hour. */
FIXTURE_TEST(retry_after__is_obeyed_for_a_minute_at_most)
{
    whole(fixture, 503,
          "{'kind':'Status','reason':'ServiceUnavailable','message':'later','details':{"
          "'retryAfterSeconds':2147483647}}");
    step(fixture);
    assert_int_equal(fixture->wait_ms, 60 * SECOND);
    later(fixture, 60 * SECOND);
    assert_true(is_listing(fixture));
}

FIXTURE_TEST(forbidden_list__is_reported_and_tried_again)
{
    whole(fixture, 403, "{'kind':'Status','reason':'Forbidden','message':'pods is forbidden'}");
    assert_int_equal(fixture->trouble.code, ERR_FORBIDDEN);
    assert_non_null(strstr(fixture->trouble.text, "list /api/v1/pods: 403 Forbidden: pods is"));
    lists_again(fixture);
    received(fixture, "");
}

FIXTURE_TEST(backoff__doubles_to_half_a_minute_and_resets_after_success)
{
    int64_t least_ms = 800;

    for (int i = 0; i < 12; i++) {
        lose(fixture);
        assert_true(fixture->wait_ms <= 30 * SECOND);
        assert_true(fixture->wait_ms >= (least_ms < 22500 ? least_ms : 22500));
        least_ms = least_ms < 25600 ? least_ms * 2 : least_ms;
        later(fixture, fixture->wait_ms);
        assert_true(fixture->busy);
    }
    be_watching(fixture);
    later(fixture, 121 * SECOND);
    lose(fixture);
    assert_true(fixture->wait_ms >= 800 && fixture->wait_ms <= 1200);
}

FIXTURE_TEST(start_failure__is_tried_again_later)
{
    fixture->start_fails = true;
    lose(fixture);
    later(fixture, fixture->wait_ms);
    assert_false(fixture->busy);
    assert_string_equal(fixture->trouble.text, "list /api/v1/pods: no start today; trying again");
    fixture->start_fails = false;
    lists_again(fixture);
}

/* ---- watching ---- */

/* The sink does not get it; its version counts, and so does its time. */
FIXTURE_TEST(watch__advances_by_an_event_that_repeats_what_is_known)
{
    be_watching(fixture);
    data(fixture, EVENT("MODIFIED", "b", "101"));
    received(fixture, "changed:b");
    fixture->now_ms += SECOND;
    data(fixture, EVENT("MODIFIED", "heartbeat", "105"));
    received(fixture, "");
    assert_int_equal(stats_of(fixture).last_seen_ms, fixture->now_ms);
    assert_int_equal(stats_of(fixture).events, 2);
    end(fixture);
    watches_from(fixture, "105");
}

/* As for all events: etcd was restored, or the version is none. */
FIXTURE_TEST(watch__judges_the_version_of_an_event_that_repeats_what_is_known)
{
    be_watching(fixture);
    data(fixture, EVENT("MODIFIED", "heartbeat", "99"));
    received(fixture, "");
    later(fixture, fixture->wait_ms + 2 * SECOND);
    assert_true(is_listing(fixture));
    whole(fixture, 200, one_page);
    head(fixture, 200);
    data(fixture, EVENT("MODIFIED", "heartbeat", ""));
    assert_int_equal(fixture->troubles, 2);
}

FIXTURE_TEST(watch__asks_for_bookmarks_from_the_version_of_the_list)
{
    long long seconds = 0;

    be_watching(fixture);
    assert_non_null(strstr(fixture->path, "allowWatchBookmarks=true"));
    assert_non_null(strstr(fixture->path, "resourceVersion=100&fieldSelector="));
    assert_int_equal(
        sscanf(strstr(fixture->path, "timeoutSeconds="), "timeoutSeconds=%lld", &seconds), 1);
    assert_true(seconds >= 300 && seconds <= 600);
    assert_true(fixture->silence_ms > 180 * SECOND); /* we end a silent watch ourselves */
}

FIXTURE_TEST(event__reaches_the_sink)
{
    be_watching(fixture);
    data(fixture, EVENT("ADDED", "b", "101") EVENT("MODIFIED", "b", "102") BOOKMARK("103")
                      EVENT("DELETED", "b", "104") "\r\n\n");
    received(fixture, "changed:b changed:b deleted:b");
    assert_int_equal(stats_of(fixture).events, 4);
    end(fixture);
    watches_from(fixture, "104");
    assert_int_equal(fixture->troubles, 0);
}

/* Versions that are no numbers are not compared, so the same events may come again. */
FIXTURE_TEST(event__may_be_cut_anywhere)
{
    static const char stream[] = EVENT("ADDED", "b", "x") EVENT("MODIFIED", "c", "x");

    be_watching(fixture);
    for (size_t cut = 1; cut < sizeof stream - 1; cut++) {
        char first[sizeof stream] = "";
        memcpy(first, stream, cut);
        data(fixture, first);
        data(fixture, stream + cut);
        received(fixture, "changed:b changed:c");
    }
}

FIXTURE_TEST(event__may_come_byte_by_byte)
{
    static const char stream[] = EVENT("ADDED", "b", "101") EVENT("DELETED", "b", "102");

    be_watching(fixture);
    for (size_t i = 0; i + 1 < sizeof stream; i++) {
        const char byte[2] = {stream[i], '\0'};
        data(fixture, byte);
    }
    received(fixture, "changed:b deleted:b");
}

FIXTURE_TEST(watch__that_ends_resumes_from_the_last_bookmark)
{
    be_watching(fixture);
    data(fixture, BOOKMARK("500"));
    later(fixture, 170 * SECOND);
    end(fixture);
    watches_from(fixture, "500");
    assert_int_equal(stats_of(fixture).watches, 2);
    assert_int_equal(stats_of(fixture).lists, 1);
}

FIXTURE_TEST(event__cut_off_by_the_end_is_dropped)
{
    be_watching(fixture);
    data(fixture, EVENT("ADDED", "b", "101") "{'type':'ADDED','obj");
    end(fixture);
    received(fixture, "changed:b");
    head(fixture, 200);
    data(fixture, EVENT("ADDED", "c", "102"));
    received(fixture, "changed:c");
}

FIXTURE_TEST(watch__that_ends_at_once_backs_off)
{
    be_watching(fixture);
    end(fixture);
    assert_false(fixture->busy);
    assert_true(fixture->wait_ms >= 800);
    later(fixture, fixture->wait_ms);
    watches_from(fixture, "100");
    head(fixture, 200);
    end(fixture);
    assert_true(fixture->wait_ms >= 1600);
}

FIXTURE_TEST(gone__as_a_status_lists_again)
{
    whole(fixture, 200, one_page);
    received(fixture, "begin listed:a end");
    whole(fixture, 410, "{'kind':'Status','reason':'Expired','code':410}");
    lists_again(fixture);
    whole(fixture, 200, one_page);
    received(fixture, "begin listed:a end");
    assert_int_equal(stats_of(fixture).lists, 2);
}

/* Gone, or an event of an object without a name. */
FIXTURE_TEST(gone__as_an_event_lists_again)
{
    static const char *const gone[] = {
        ERROR_EVENT("410", "Expired"),      ERROR_EVENT("410", ""),
        ERROR_EVENT("0", "Gone"),           ERROR_EVENT("500", "Expired"),
        EVENT("MODIFIED", "nameless", "7"), EVENT("DELETED", "nameless", "7")};

    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        be_watching(fixture);
        fixture->trouble.code = ERR_NONE;
        data(fixture, gone[i]);
        assert_int_equal(fixture->trouble.code, ERR_GONE);
        lists_again(fixture);
        received(fixture, "");
    }
}

FIXTURE_TEST(gone__after_an_outage_lists_soon_and_then_backs_off)
{
    be_watching(fixture);
    for (int i = 0; i < 6; i++) {
        lose(fixture);
        later(fixture, fixture->wait_ms);
    }
    head(fixture, 200);
    data(fixture, ERROR_EVENT("410", "Expired"));
    step(fixture);
    assert_true(fixture->wait_ms >= 800 && fixture->wait_ms <= 1200);
    later(fixture, fixture->wait_ms);
    whole(fixture, 200, one_page);
    whole(fixture, 410, "{'kind':'Status','reason':'Expired','code':410}");
    step(fixture);
    assert_true(fixture->wait_ms >= 1600 && fixture->wait_ms <= 2400);
}

FIXTURE_TEST(watch_error__resumes_from_the_last_version)
{
    static const char *const error[] = {ERROR_EVENT("500", "InternalError"),
                                        ERROR_EVENT("504", "Timeout"),
                                        ERROR_EVENT("429", "TooManyRequests")};

    be_watching(fixture);
    data(fixture, EVENT("ADDED", "b", "101"));
    for (size_t i = 0; i < ARRAY_LEN(error); i++) {
        data(fixture, error[i]);
        assert_false(fixture->busy);
        step(fixture);
        assert_true(fixture->wait_ms >= 800);
        later(fixture, fixture->wait_ms);
        watches_from(fixture, "101");
        head(fixture, 200);
    }
    received(fixture, "changed:b");
}

FIXTURE_TEST(watch_error__may_say_how_long_to_wait)
{
    be_watching(fixture);
    data(fixture, "{'type':'ERROR','object':{'kind':'Status','code':429,'details':{"
                  "'retryAfterSeconds':9}}}\n");
    step(fixture);
    assert_int_equal(fixture->wait_ms, 9 * SECOND);
}

FIXTURE_TEST(version__that_goes_back_lists_again)
{
    be_watching(fixture);
    data(fixture,
         EVENT("ADDED", "b", "1000") EVENT("ADDED", "c", "999") EVENT("ADDED", "d", "1001"));
    received(fixture, "changed:b");
    assert_non_null(strstr(fixture->trouble.text, "from 1000 to 999"));
    lists_again(fixture);
}

FIXTURE_TEST(version__that_is_no_number_is_not_compared)
{
    be_watching(fixture);
    data(fixture, EVENT("ADDED", "b", "xyz") EVENT("ADDED", "c", "9") EVENT("ADDED", "d", "9"));
    received(fixture, "changed:b changed:c changed:d");
}

FIXTURE_TEST(malformed_event__is_tried_again_once_and_then_listed)
{
    static const char *const bad[] = {"nonsense\n", "{'type':'ADDED'}\n", "[]\n",
                                      "{'type':'EXPLODED','object':{}}\n",
                                      "{'type':'ADDED','object':{'metadata':{}}}\n"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        be_watching(fixture);
        data(fixture, bad[i]);
        assert_false(fixture->busy);
        step(fixture);
        later(fixture, fixture->wait_ms);
        assert_non_null(strstr(fixture->path, "watch=1"));
        head(fixture, 200);
        data(fixture, bad[i]);
        lists_again(fixture);
    }
    received(fixture, "");
}

/* An object exists that cannot be named: it must not be swept as missing. */
FIXTURE_TEST(list__with_a_nameless_object_fails)
{
    whole(fixture, 200, PAGE("5", ITEM("a") "," ITEM("nameless") "," ITEM("c")));
    received(fixture, "begin listed:a failed");
    assert_non_null(strstr(fixture->trouble.text, "has no metadata.uid"));
    lists_again(fixture);
}

FIXTURE_TEST(event__that_is_too_large_lists_again)
{
    CLEANUP(freep) char *much = xcalloc(1, 1 << 20);
    memset(much, 'x', (1 << 20) - 1);

    be_watching(fixture);
    unsigned given = 0;
    for (; fixture->busy && given < 64; given++)
        data(fixture, much);
    assert_int_equal(given, EVENT_BYTES_MAX / (1 << 20) + 1);
    assert_int_equal(fixture->trouble.code, ERR_TOO_LARGE);
    lists_again(fixture);
}

FIXTURE_TEST(silent_connection__is_resumed)
{
    be_watching(fixture);
    later(fixture, 180 * SECOND);
    lose(fixture);
    later(fixture, fixture->wait_ms);
    watches_from(fixture, "100");
}

/* An API server 1.31 sends nothing while the cluster is quiet, not even bookmarks. */
FIXTURE_TEST(idle_watch__is_restarted_without_a_report)
{
    enum { ROUNDS = 100 };

    be_watching(fixture);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        const struct reflector_stats before = stats_of(fixture);
        assert_true(fixture->wait_ms <= 180 * SECOND);
        later(fixture, 180 * SECOND);
        assert_int_equal(fixture->cancelled, i);
        watches_from(fixture, "100");
        assert_int_equal(stats_of(fixture).last_seen_ms, before.last_seen_ms);
        head(fixture, 200); /* the server is up and lets us watch */
        assert_int_equal(stats_of(fixture).last_seen_ms, fixture->now_ms);
        step(fixture);
    }
    assert_int_equal(fixture->troubles, 0);
    assert_int_equal(stats_of(fixture).failures, 0);
    assert_int_equal(stats_of(fixture).lists, 1);
}

/* Silence alone proves nothing, but this means a dead connection or a server that hangs. */
FIXTURE_TEST(unanswered_watch__is_reported)
{
    be_watching(fixture);
    later(fixture, 180 * SECOND);
    const int64_t seen_ms = stats_of(fixture).last_seen_ms;
    assert_int_equal(fixture->troubles, 0);
    assert_true(fixture->wait_ms <= 30 * SECOND);
    later(fixture, 30 * SECOND);
    assert_int_equal(fixture->cancelled, 2);
    assert_int_equal(fixture->troubles, 1);
    assert_int_equal(fixture->trouble.code, ERR_TIMEOUT);
    assert_non_null(strstr(fixture->trouble.text, "not answered for 30 s"));
    later(fixture, fixture->wait_ms);
    watches_from(fixture, "100");
    assert_int_equal(stats_of(fixture).last_seen_ms, seen_ms);
}

/* A kube-apiserver that has just started denies every request for some milliseconds. */
FIXTURE_TEST(denied_watch__resumes_from_its_version)
{
    be_watching(fixture);
    later(fixture, 2 * SECOND);
    end(fixture);
    assert_true(fixture->busy);
    whole(fixture, 403, "{'kind':'Status','reason':'Forbidden','message':'no'}");
    assert_int_equal(fixture->troubles, 1);
    later(fixture, fixture->wait_ms);
    watches_from(fixture, "100");
    assert_int_equal(stats_of(fixture).lists, 1);
}

FIXTURE_TEST(endless_watch__is_ended)
{
    be_watching(fixture);
    for (int i = 0; i < 64 && fixture->cancelled == 0; i++) {
        data(fixture, BOOKMARK("200"));
        later(fixture, 10 * SECOND);
    }
    assert_int_equal(fixture->cancelled, 1);
    assert_true(fixture->busy);
    assert_int_equal(fixture->troubles, 0);
    watches_from(fixture, "200");
}

FIXTURE_TEST(bad_request__for_a_watch_lists_again)
{
    whole(fixture, 200, one_page);
    whole(fixture, 400, "{'kind':'Status','code':400,'message':'invalid resourceVersion'}");
    lists_again(fixture);
}

FIXTURE_TEST(answer__of_another_client_is_not_taken)
{
    struct kube_answer other = {.id = BASE - 1, .piece = KUBE_DONE, .status = 200};

    assert_false(reflector_answer(fixture->reflector, fixture->now_ms, &other));
    other.id = BASE + (1ULL << 32);
    assert_false(reflector_answer(fixture->reflector, fixture->now_ms, &other));
    other.id = BASE + 77;
    assert_true(reflector_answer(fixture->reflector, fixture->now_ms, &other));
    received(fixture, "");
    assert_true(fixture->busy);
}

FIXTURE_TEST(backoff__is_the_same_for_the_same_seed)
{
    void *second = NULL;

    lose(fixture);
    const int64_t first_ms = fixture->wait_ms;
    assert_int_equal(set_up(&second), 0);
    lose(second);
    assert_int_equal(((struct fixture *)second)->wait_ms, first_ms);
    (void)tear_down(&second);
}

/* ---- protobuf ---- */

/* token: "" on the last page; name: "" for no item. */
static void made_page(struct strbuf *out, const char *version, const char *token, const char *name)
{
    SCOPED_STRBUF(meta);
    SCOPED_STRBUF(list);
    SCOPED_STRBUF(pod);

    made_text(&meta, 2, text_of(version));
    made_text(&meta, 3, text_of(token));
    made_text(&list, 1, made_bytes(&meta));
    made_object(&pod, name, "7");
    if (name[0] != '\0')
        made_text(&list, 2, made_bytes(&pod));
    strbuf_reset(out);
    made_body(out, "PodList", made_bytes(&list));
}

static void made_event(struct strbuf *out, const char *type, const char *name, const char *version)
{
    SCOPED_STRBUF(pod);
    SCOPED_STRBUF(body);

    made_object(&pod, name, version);
    made_body(&body, "Pod", made_bytes(&pod));
    made_frame(out, type, made_bytes(&body));
}

static void made_status(struct strbuf *out, int code, const char *reason)
{
    SCOPED_STRBUF(status);

    made_text(&status, 3, TEXT("m"));
    made_text(&status, 4, text_of(reason));
    made_number(&status, 6, code);
    made_body(out, "Status", made_bytes(&status));
}

FIXTURE_TEST(protobuf__pages_are_listed)
{
    SCOPED_STRBUF(page);

    made_page(&page, "90", "t+", "a");
    whole_bytes(fixture, 200, made_bytes(&page));
    received(fixture, "begin listed:a");
    assert_non_null(strstr(fixture->path, "&continue=t%2B"));
    made_page(&page, "99", "", "b");
    whole_bytes(fixture, 200, made_bytes(&page));
    received(fixture, "listed:b end");
    watches_from(fixture, "90");
}

FIXTURE_TEST(protobuf__page_that_is_cut_fails_the_list)
{
    SCOPED_STRBUF(page);

    made_page(&page, "90", "", "a");
    whole_bytes(fixture, 200, text_first(made_bytes(&page), page.len - 10));
    received(fixture, "begin failed");
    assert_non_null(strstr(fixture->trouble.text, "protobuf: malformed"));
    lists_again(fixture);
}

/* Each byte of the name takes six in JSON. */
FIXTURE_TEST(protobuf__page_that_is_too_large_as_json_is_requested_in_smaller_ones)
{
    enum { NAME_BYTES = BODY_BYTES_MAX / 6 + 1 };
    CLEANUP(freep) char *name = xcalloc(1, NAME_BYTES);
    SCOPED_STRBUF(meta);
    SCOPED_STRBUF(list);
    SCOPED_STRBUF(page);
    SCOPED_STRBUF(pod);

    made_text(&meta, 1, (struct text){name, NAME_BYTES});
    made_text(&pod, 1, made_bytes(&meta));
    made_text(&list, 2, made_bytes(&pod));
    made_body(&page, "PodList", made_bytes(&list));
    whole_bytes(fixture, 200, made_bytes(&page));
    received(fixture, "begin");
    assert_non_null(strstr(fixture->path, "limit=250&"));
    whole(fixture, 200, one_page);
    received(fixture, "listed:a end");
}

/* Appends four events with versions from this one on. */
static void made_stream(struct strbuf *out, unsigned version)
{
    static const struct {
        const char *type;
        const char *name;
    } event[] = {{"ADDED", "x"}, {"MODIFIED", "heartbeat"}, {"DELETED", "x"}, {"BOOKMARK", ""}};
    char text[16];

    for (unsigned i = 0; i < ARRAY_LEN(event); i++) {
        (void)snprintf(text, sizeof text, "%u", version + i);
        made_event(out, event[i].type, event[i].name, text);
    }
}

FIXTURE_TEST(protobuf__events_may_be_cut_anywhere)
{
    SCOPED_STRBUF(stream);
    size_t cut = 0;

    be_watching(fixture);
    do {
        strbuf_reset(&stream);
        made_stream(&stream, 1001 + 4 * (unsigned)cut);
        answer_bytes(fixture, KUBE_DATA, 200, text_first(made_bytes(&stream), cut));
        answer_bytes(fixture, KUBE_DATA, 200, (struct text){stream.data + cut, stream.len - cut});
        received(fixture, "changed:x deleted:x");
    } while (cut++ < stream.len);
    strbuf_reset(&stream);
    made_stream(&stream, 9001);
    for (size_t i = 0; i < stream.len; i++)
        answer_bytes(fixture, KUBE_DATA, 200, (struct text){stream.data + i, 1});
    received(fixture, "changed:x deleted:x");
    assert_int_equal(fixture->troubles, 0);
}

FIXTURE_TEST(protobuf__watch_that_ends_resumes_from_its_last_event)
{
    SCOPED_STRBUF(stream);

    be_watching(fixture);
    made_stream(&stream, 1001);
    answer_bytes(fixture, KUBE_DATA, 200, text_first(made_bytes(&stream), stream.len - 1));
    received(fixture, "changed:x deleted:x");
    end(fixture);
    watches_from(fixture, "1003");
    head(fixture, 200);
    data(fixture, EVENT("ADDED", "y", "1004")); /* another API server may answer in JSON */
    received(fixture, "changed:y");
}

FIXTURE_TEST(protobuf__gone_lists_again)
{
    SCOPED_STRBUF(status);
    SCOPED_STRBUF(frame);

    be_watching(fixture);
    made_status(&status, 410, "Expired");
    made_frame(&frame, "ERROR", made_bytes(&status));
    answer_bytes(fixture, KUBE_DATA, 200, made_bytes(&frame));
    assert_int_equal(fixture->trouble.code, ERR_GONE);
    assert_non_null(strstr(fixture->trouble.text, "410 Expired: m"));
    lists_again(fixture);
}

FIXTURE_TEST(protobuf__refusal_is_read)
{
    SCOPED_STRBUF(status);

    made_status(&status, 403, "Forbidden");
    whole_bytes(fixture, 403, made_bytes(&status));
    assert_int_equal(fixture->trouble.code, ERR_FORBIDDEN);
    assert_non_null(strstr(fixture->trouble.text, "403 Forbidden: m"));
    lists_again(fixture);
    whole_bytes(fixture, 403, text_first(made_bytes(&status), 12));
    assert_non_null(strstr(fixture->trouble.text, "403 : k8s?")); /* as the bytes of a proxy */
    lists_again(fixture);
}

FIXTURE_TEST(protobuf__malformed_event_is_tried_again_once_and_then_listed)
{
    static const struct text bad[] = {
        TEXT("\0\0\0\0"),
        TEXT("\0\0\0\1\xff"),        /* no field */
        TEXT("\0\0\0\7\x0a\5ADDED"), /* without an object */
        TEXT("\0\0\0\x0b\x0a\5ADDED\x12\2\x0a\0"),
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        be_watching(fixture);
        answer_bytes(fixture, KUBE_DATA, 200, bad[i]);
        assert_false(fixture->busy);
        step(fixture);
        later(fixture, fixture->wait_ms);
        assert_non_null(strstr(fixture->path, "watch=1"));
        head(fixture, 200);
        answer_bytes(fixture, KUBE_DATA, 200, bad[i]);
        lists_again(fixture);
    }
}

FIXTURE_TEST(protobuf__event_that_is_too_large_lists_again)
{
    be_watching(fixture);
    answer_bytes(fixture, KUBE_DATA, 200, TEXT("\2\0\0\1")); /* 32 MiB and a byte follow */
    assert_int_equal(fixture->trouble.code, ERR_TOO_LARGE);
    lists_again(fixture);
}
