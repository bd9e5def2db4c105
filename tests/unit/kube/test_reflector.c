#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/alloc.h"
#include "milligpu/limits.h"
#include "milligpu/reflector.h"
#include "milligpu/strbuf.h"

enum { BASE = 1000, SECOND = 1000 };

/* kube_ops that does nothing but remember; the test answers, and holds the clock. */
struct bench {
    struct reflector *reflector;
    int64_t now_ms;
    int64_t wait_ms;
    unsigned started;
    unsigned cancelled;
    bool busy; /* a request is in flight */
    bool start_fails;
    uint64_t id;
    char path[2048];
    int64_t silence_ms;
    struct strbuf said; /* what the sink heard, a word each */
    struct err trouble;
    unsigned troubles;
};

static int on_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct bench *bench = ctx;

    if (bench->start_fails)
        return err_set(err, ERR_IO, "no start today");
    assert_false(bench->busy);
    assert_true(request->id >= BASE);
    assert_string_equal(request->method, "GET");
    bench->started++;
    bench->busy = true;
    bench->id = request->id;
    bench->silence_ms = request->silence_ms;
    (void)snprintf(bench->path, sizeof bench->path, "%s", request->path);
    return 0;
}

static void on_cancel(void *ctx, uint64_t id)
{
    struct bench *bench = ctx;

    assert_true(bench->busy);
    assert_int_equal(id, bench->id);
    bench->busy = false;
    bench->cancelled++;
}

static void say(struct bench *bench, const char *word, struct text object)
{
    strbuf_printf(&bench->said, "%s%s", bench->said.len > 0 ? " " : "", word);
    const char *name = memmem(object.at, object.len, "\"name\":\"", 8);
    if (name != NULL)
        strbuf_printf(&bench->said, ":%.*s", (int)strcspn(name + 8, "\""), name + 8);
}

/* As a decoder does that finds no uid. */
static int take(struct bench *bench, const char *word, struct text object, struct err *err)
{
    if (memmem(object.at, object.len, "nobody", 6) != NULL)
        return err_set(err, ERR_INVALID, "has no metadata.uid");
    say(bench, word, object);
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
    struct bench *bench = user;
    bench->trouble = *err;
    bench->troubles++;
}

static int set_up(void **state)
{
    struct bench *bench = xcalloc(1, sizeof *bench);
    const struct kube_ops ops = {.ctx = bench, .start = on_start, .cancel = on_cancel};
    const struct reflector_sink sink = {bench,          on_list_begin, on_listed,  on_list_end,
                                        on_list_failed, on_changed,    on_deleted, on_trouble};
    const struct reflector_rules rules = {.path = "/api/v1/pods",
                                          .selector = "fieldSelector=status.phase%21%3DFailed",
                                          .page = 500,
                                          .watch_ms = 600 * SECOND,
                                          .silence_ms = 180 * SECOND,
                                          .list_timeout_ms = 60 * SECOND,
                                          .seed = 7,
                                          .id_base = BASE};
    strbuf_init(&bench->said);
    bench->now_ms = 5000;
    bench->reflector = reflector_new(&rules, &ops, &sink);
    bench->wait_ms = reflector_step(bench->reflector, bench->now_ms);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    reflector_free(bench->reflector);
    assert_false(bench->busy);
    strbuf_done(&bench->said);
    xfree(bench);
    return 0;
}

static void step(struct bench *bench)
{
    bench->wait_ms = reflector_step(bench->reflector, bench->now_ms);
}

static void later(struct bench *bench, int64_t ms)
{
    bench->now_ms += ms;
    step(bench);
}

static void answer(struct bench *bench, enum kube_piece piece, int status, const char *text)
{
    const struct kube_answer given = {
        .id = bench->id, .piece = piece, .status = status, .data = text_of(text)};

    if (piece == KUBE_DONE || piece == KUBE_FAILED)
        bench->busy = false;
    assert_true(reflector_answer(bench->reflector, bench->now_ms, &given));
}

static void head(struct bench *bench, int status)
{
    answer(bench, KUBE_HEAD, status, "");
}

static void data(struct bench *bench, const char *text)
{
    answer(bench, KUBE_DATA, 200, text);
}

static void done(struct bench *bench)
{
    answer(bench, KUBE_DONE, 200, "");
}

static void whole(struct bench *bench, int status, const char *text)
{
    head(bench, status);
    answer(bench, KUBE_DATA, status, text);
    answer(bench, KUBE_DONE, status, "");
    step(bench);
}

static void lose(struct bench *bench)
{
    const struct err err = {ERR_TIMEOUT, "not a byte"};
    const struct kube_answer given = {.id = bench->id, .piece = KUBE_FAILED, .err = &err};
    bench->busy = false;
    assert_true(reflector_answer(bench->reflector, bench->now_ms, &given));
    step(bench);
}

static void heard(struct bench *bench, const char *words)
{
    assert_string_equal(bench->said.data, words);
    strbuf_reset(&bench->said);
}

static const char one_page[] =
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"100\"},\"items\":["
    "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}]}";

static void be_watching(struct bench *bench)
{
    whole(bench, 200, one_page);
    heard(bench, "begin listed:a end");
    assert_true(bench->busy);
    assert_non_null(strstr(bench->path, "watch=1"));
    head(bench, 200);
}

static bool is_listing(const struct bench *bench)
{
    return bench->busy && strstr(bench->path, "?limit=") != NULL;
}

static struct reflector_stats stats_of(const struct bench *bench)
{
    struct reflector_stats stats;
    reflector_stats(bench->reflector, &stats);
    return stats;
}

#define EVENT(type, name, rv)                                                                      \
    "{\"type\":\"" type "\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name           \
    "\",\"resourceVersion\":\"" rv "\"}}}\n"
#define BOOKMARK(rv)                                                                               \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"" rv  \
    "\"}}}\n"
#define ERROR_EVENT(code, reason)                                                                  \
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":" code ",\"reason\":\"" reason   \
    "\",\"message\":\"m\"}}\n"

/* ---- listing ---- */

static void the_first_request_is_a_consistent_page(void **state)
{
    struct bench *bench = *state;

    assert_string_equal(bench->path,
                        "/api/v1/pods?limit=500&fieldSelector=status.phase%21%3DFailed");
    assert_int_equal(bench->id, BASE);
    assert_true(bench->wait_ms > 0);
    assert_false(stats_of(bench).synced);
}

static void pages_are_followed_to_the_end_and_make_one_list(void **state)
{
    struct bench *bench = *state;

    whole(bench, 200,
          "{\"metadata\":{\"resourceVersion\":\"90\",\"continue\":\"t+/=\"},\"items\":["
          "{\"metadata\":{\"name\":\"a\"}},{\"metadata\":{\"name\":\"b\"}}]}");
    heard(bench, "begin listed:a listed:b");
    assert_non_null(strstr(bench->path, "&continue=t%2B%2F%3D"));
    whole(bench, 200,
          "{\"metadata\":{\"resourceVersion\":\"90\",\"continue\":\"u\"},\"items\":[]}");
    heard(bench, "");
    whole(
        bench, 200,
        "{\"metadata\":{\"resourceVersion\":\"99\"},\"items\":[{\"metadata\":{\"name\":\"c\"}}]}");
    heard(bench, "listed:c end");
    assert_non_null(strstr(bench->path, "resourceVersion=90&"));
    assert_true(stats_of(bench).synced);
    assert_int_equal(stats_of(bench).lists, 1);
}

static void an_empty_list_and_null_items_are_lists(void **state)
{
    struct bench *bench = *state;

    whole(bench, 200, "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":null}");
    heard(bench, "begin end");
    assert_non_null(strstr(bench->path, "watch=1"));
}

static void an_expired_continue_token_starts_the_list_anew(void **state)
{
    struct bench *bench = *state;

    whole(bench, 200,
          "{\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"t\"},\"items\":["
          "{\"metadata\":{\"name\":\"a\"}}]}");
    heard(bench, "begin listed:a");
    whole(bench, 410, "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}");
    heard(bench, "failed");
    assert_false(bench->busy);
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
    assert_null(strstr(bench->path, "continue"));
    whole(bench, 200, one_page);
    heard(bench, "begin listed:a end");
}

static void a_page_that_fails_is_asked_for_again(void **state)
{
    struct bench *bench = *state;

    whole(bench, 200, "{\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"t\"},\"items\":[]}");
    heard(bench, "begin");
    whole(bench, 503, "busy");
    heard(bench, "");
    later(bench, bench->wait_ms);
    assert_non_null(strstr(bench->path, "continue=t"));
    lose(bench);
    later(bench, bench->wait_ms);
    assert_non_null(strstr(bench->path, "continue=t"));
    whole(bench, 200, "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[]}");
    heard(bench, "end");
}

static void a_page_that_keeps_failing_gives_the_list_up(void **state)
{
    struct bench *bench = *state;

    whole(bench, 200, "{\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"t\"},\"items\":[]}");
    for (int i = 0; i < 5; i++) {
        assert_non_null(strstr(bench->path, "continue=t"));
        lose(bench);
        later(bench, bench->wait_ms);
    }
    heard(bench, "begin failed");
    assert_true(is_listing(bench));
    assert_null(strstr(bench->path, "continue"));
}

static void half_a_page_is_no_page(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{\"items\":[]}",
        "{\"metadata\":{},\"items\":[]}",
        "null",
        "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[{\"metadata\":",
        "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[]} more",
    };
    struct bench *bench = *state;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        whole(bench, 200, bad[i]);
        heard(bench, "begin failed");
        assert_int_equal(bench->troubles, i + 1);
        later(bench, bench->wait_ms);
        assert_true(is_listing(bench));
    }
    whole(bench, 200, one_page);
    heard(bench, "begin listed:a end");
}

static void overflow(struct bench *bench)
{
    CLEANUP(freep) char *much = xcalloc(1, 1 << 20);
    memset(much, ' ', (1 << 20) - 1);

    head(bench, 200);
    while (bench->busy)
        data(bench, much);
    assert_int_equal(bench->trouble.code, ERR_TOO_LARGE);
    step(bench);
}

/* A few objects as large as an API server takes them: no failure, and nobody waits for it. */
static void a_page_beyond_all_bounds_is_asked_for_in_smaller_ones(void **state)
{
    static const char *const limit[] = {"?limit=250&", "?limit=125&", "?limit=62&"};
    struct bench *bench = *state;

    for (size_t i = 0; i < ARRAY_LEN(limit); i++) {
        overflow(bench);
        assert_true(bench->busy);
        assert_non_null(strstr(bench->path, limit[i]));
    }
    assert_int_equal(stats_of(bench).failures, 0);
    whole(bench, 200,
          "{\"metadata\":{\"resourceVersion\":\"90\",\"continue\":\"t\"},\"items\":["
          "{\"metadata\":{\"name\":\"a\"}}]}");
    assert_non_null(strstr(bench->path, "?limit=124&")); /* and back to where it was */
    assert_non_null(strstr(bench->path, "continue=t"));
    overflow(bench);
    assert_non_null(strstr(bench->path, "?limit=62&"));
    assert_non_null(strstr(bench->path, "continue=t")); /* the list goes on where it was */
    whole(bench, 200, one_page);
    heard(bench, "begin listed:a listed:a end");
}

static void one_object_beyond_all_bounds_ends_no_list(void **state)
{
    struct bench *bench = *state;

    for (int i = 0; i < 9; i++)
        overflow(bench);
    assert_false(bench->busy);
    assert_int_equal(stats_of(bench).failures, 1);
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
    heard(bench, "");
}

static void too_many_requests_is_waited_out(void **state)
{
    struct bench *bench = *state;
    const struct kube_answer told = {
        .id = bench->id, .piece = KUBE_HEAD, .status = 429, .retry_after_s = 17};

    assert_true(reflector_answer(bench->reflector, bench->now_ms, &told));
    answer(bench, KUBE_DATA, 429, "Too many requests, please try again later.");
    answer(bench, KUBE_DONE, 429, "");
    step(bench);
    assert_int_equal(bench->wait_ms, 17 * SECOND);
    assert_int_equal(bench->trouble.code, ERR_BUSY);
    later(bench, 17 * SECOND - 1);
    assert_false(bench->busy);
    later(bench, 1);
    assert_true(is_listing(bench));
}

/* Whatever it says: who does not ask for an hour does not hear for an hour. */
static void retry_after_is_obeyed_for_a_minute_and_no_longer(void **state)
{
    struct bench *bench = *state;

    whole(bench, 503,
          "{\"kind\":\"Status\",\"reason\":\"ServiceUnavailable\",\"message\":\"later\","
          "\"details\":{\"retryAfterSeconds\":2147483647}}");
    step(bench);
    assert_int_equal(bench->wait_ms, 60 * SECOND);
    later(bench, 60 * SECOND);
    assert_true(is_listing(bench));
}

static void a_forbidden_list_is_reported_and_tried_again(void **state)
{
    struct bench *bench = *state;

    whole(bench, 403,
          "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"pods is forbidden\"}");
    assert_int_equal(bench->trouble.code, ERR_FORBIDDEN);
    assert_non_null(strstr(bench->trouble.text, "list /api/v1/pods: 403 Forbidden: pods is"));
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
    heard(bench, "");
}

static void waiting_doubles_to_half_a_minute_and_is_forgotten_when_well(void **state)
{
    struct bench *bench = *state;
    int64_t least_ms = 800;

    for (int i = 0; i < 12; i++) {
        lose(bench);
        assert_true(bench->wait_ms <= 30 * SECOND);
        assert_true(bench->wait_ms >= (least_ms < 22500 ? least_ms : 22500));
        least_ms = least_ms < 25600 ? least_ms * 2 : least_ms;
        later(bench, bench->wait_ms);
        assert_true(bench->busy);
    }
    be_watching(bench);
    later(bench, 121 * SECOND);
    lose(bench);
    assert_true(bench->wait_ms >= 800 && bench->wait_ms <= 1200);
}

static void a_request_that_cannot_start_is_tried_later(void **state)
{
    struct bench *bench = *state;

    bench->start_fails = true;
    lose(bench);
    later(bench, bench->wait_ms);
    assert_false(bench->busy);
    assert_string_equal(bench->trouble.text, "list /api/v1/pods: no start today; trying again");
    bench->start_fails = false;
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
}

/* ---- watching ---- */

static void a_watch_asks_for_bookmarks_from_the_lists_version(void **state)
{
    struct bench *bench = *state;
    long long seconds = 0;

    be_watching(bench);
    assert_non_null(strstr(bench->path, "allowWatchBookmarks=true"));
    assert_non_null(strstr(bench->path, "resourceVersion=100&fieldSelector="));
    assert_int_equal(
        sscanf(strstr(bench->path, "timeoutSeconds="), "timeoutSeconds=%lld", &seconds), 1);
    assert_true(seconds >= 300 && seconds <= 600);
    assert_true(bench->silence_ms > 180 * SECOND); /* which is ours to end */
}

static void events_reach_the_sink(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    data(bench, EVENT("ADDED", "b", "101") EVENT("MODIFIED", "b", "102") BOOKMARK("103")
                    EVENT("DELETED", "b", "104") "\r\n\n");
    heard(bench, "changed:b changed:b deleted:b");
    assert_int_equal(stats_of(bench).events, 4);
    done(bench);
    step(bench);
    assert_non_null(strstr(bench->path, "resourceVersion=104&"));
    assert_int_equal(bench->troubles, 0);
}

static void an_event_may_be_cut_anywhere(void **state)
{
    static const char stream[] = EVENT("ADDED", "b", "101") EVENT("MODIFIED", "c", "102");
    struct bench *bench = *state;

    be_watching(bench);
    for (size_t cut = 1; cut < sizeof stream - 1; cut++) {
        char first[sizeof stream] = "";
        memcpy(first, stream, cut);
        data(bench, first);
        data(bench, stream + cut);
        heard(bench, "changed:b changed:c");
        /* The versions come again: start where they are new. */
        data(bench, BOOKMARK("102"));
        done(bench);
        reflector_free(bench->reflector);
        strbuf_done(&bench->said);
        xfree(bench);
        assert_int_equal(set_up(state), 0);
        bench = *state;
        be_watching(bench);
    }
}

static void one_byte_at_a_time_is_fine(void **state)
{
    static const char stream[] = EVENT("ADDED", "b", "101") EVENT("DELETED", "b", "102");
    struct bench *bench = *state;

    be_watching(bench);
    for (size_t i = 0; i + 1 < sizeof stream; i++) {
        const char byte[2] = {stream[i], '\0'};
        data(bench, byte);
    }
    heard(bench, "changed:b deleted:b");
}

static void a_stream_that_ends_goes_on_from_the_last_bookmark(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    data(bench, BOOKMARK("500"));
    later(bench, 170 * SECOND);
    done(bench);
    step(bench);
    assert_true(bench->busy);
    assert_non_null(strstr(bench->path, "resourceVersion=500&"));
    assert_int_equal(stats_of(bench).watches, 2);
    assert_int_equal(stats_of(bench).lists, 1);
}

static void what_was_cut_off_at_the_end_is_not_believed(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    data(bench, EVENT("ADDED", "b", "101") "{\"type\":\"ADDED\",\"obj");
    done(bench);
    step(bench);
    heard(bench, "changed:b");
    head(bench, 200);
    data(bench, EVENT("ADDED", "c", "102"));
    heard(bench, "changed:c");
}

static void a_watch_that_ends_at_once_with_nothing_backs_off(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    done(bench);
    step(bench);
    assert_false(bench->busy);
    assert_true(bench->wait_ms >= 800);
    later(bench, bench->wait_ms);
    assert_non_null(strstr(bench->path, "resourceVersion=100&"));
    head(bench, 200);
    done(bench);
    step(bench);
    assert_true(bench->wait_ms >= 1600);
}

static void gone_as_a_status_lists_again(void **state)
{
    struct bench *bench = *state;

    whole(bench, 200, one_page);
    heard(bench, "begin listed:a end");
    whole(bench, 410, "{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410}");
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
    whole(bench, 200, one_page);
    heard(bench, "begin listed:a end");
    assert_int_equal(stats_of(bench).lists, 2);
}

static void gone_as_an_event_lists_again(void **state)
{
    static const char *const gone[] = {ERROR_EVENT("410", "Expired"), ERROR_EVENT("410", ""),
                                       ERROR_EVENT("0", "Gone"), ERROR_EVENT("500", "Expired")};
    struct bench *bench = *state;

    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        be_watching(bench);
        data(bench, gone[i]);
        assert_false(bench->busy);
        assert_int_equal(bench->trouble.code, ERR_GONE);
        step(bench);
        later(bench, bench->wait_ms);
        assert_true(is_listing(bench));
    }
}

static void gone_after_an_outage_lists_soon_but_not_in_a_circle(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    for (int i = 0; i < 6; i++) {
        lose(bench);
        later(bench, bench->wait_ms);
    }
    head(bench, 200);
    data(bench, ERROR_EVENT("410", "Expired"));
    step(bench);
    assert_true(bench->wait_ms >= 800 && bench->wait_ms <= 1200);
    later(bench, bench->wait_ms);
    whole(bench, 200, one_page);
    whole(bench, 410, "{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410}");
    step(bench);
    assert_true(bench->wait_ms >= 1600 && bench->wait_ms <= 2400);
}

static void other_errors_in_the_stream_go_on_from_the_last_version(void **state)
{
    static const char *const error[] = {ERROR_EVENT("500", "InternalError"),
                                        ERROR_EVENT("504", "Timeout"),
                                        ERROR_EVENT("429", "TooManyRequests")};
    struct bench *bench = *state;

    be_watching(bench);
    data(bench, EVENT("ADDED", "b", "101"));
    for (size_t i = 0; i < ARRAY_LEN(error); i++) {
        data(bench, error[i]);
        assert_false(bench->busy);
        step(bench);
        assert_true(bench->wait_ms >= 800);
        later(bench, bench->wait_ms);
        assert_non_null(strstr(bench->path, "resourceVersion=101&"));
        head(bench, 200);
    }
    heard(bench, "changed:b");
}

static void an_error_may_say_how_long_to_wait(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    data(bench, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":429,"
                "\"details\":{\"retryAfterSeconds\":9}}}\n");
    step(bench);
    assert_int_equal(bench->wait_ms, 9 * SECOND);
}

static void a_version_that_goes_back_lists_again(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    data(bench, EVENT("ADDED", "b", "1000") EVENT("ADDED", "c", "999") EVENT("ADDED", "d", "1001"));
    heard(bench, "changed:b");
    assert_non_null(strstr(bench->trouble.text, "from 1000 to 999"));
    step(bench);
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
}

static void versions_that_are_no_numbers_are_not_compared(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    data(bench, EVENT("ADDED", "b", "xyz") EVENT("ADDED", "c", "9") EVENT("ADDED", "d", "9"));
    heard(bench, "changed:b changed:c changed:d");
}

static void nonsense_in_the_stream_is_tried_again_once_and_then_listed(void **state)
{
    static const char *const bad[] = {"nonsense\n", "{\"type\":\"ADDED\"}\n", "[]\n",
                                      "{\"type\":\"EXPLODED\",\"object\":{}}\n",
                                      "{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}\n"};
    struct bench *bench = *state;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        be_watching(bench);
        data(bench, bad[i]);
        assert_false(bench->busy);
        step(bench);
        later(bench, bench->wait_ms);
        assert_non_null(strstr(bench->path, "watch=1"));
        head(bench, 200);
        data(bench, bad[i]);
        step(bench);
        later(bench, bench->wait_ms);
        assert_true(is_listing(bench));
    }
    heard(bench, "");
}

/* Something is there, and nobody knows who: it must not be swept for being unknown. */
static void a_list_with_an_object_without_a_name_does_not_end(void **state)
{
    struct bench *bench = *state;

    whole(
        bench, 200,
        "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[{\"metadata\":{"
        "\"name\":\"a\"}},{\"metadata\":{\"name\":\"nobody\"}},{\"metadata\":{\"name\":\"c\"}}]}");
    heard(bench, "begin listed:a failed");
    assert_non_null(strstr(bench->trouble.text, "has no metadata.uid"));
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
}

static void an_event_of_an_object_without_a_name_lists_again(void **state)
{
    static const char *const bad[] = {EVENT("MODIFIED", "nobody", "7"),
                                      EVENT("DELETED", "nobody", "7")};
    struct bench *bench = *state;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        be_watching(bench);
        data(bench, bad[i]);
        assert_false(bench->busy);
        step(bench);
        later(bench, bench->wait_ms);
        assert_true(is_listing(bench));
        heard(bench, "");
    }
}

static void an_event_beyond_all_bounds_lists_again(void **state)
{
    struct bench *bench = *state;
    CLEANUP(freep) char *much = xcalloc(1, 1 << 20);
    memset(much, 'x', (1 << 20) - 1);

    be_watching(bench);
    unsigned given = 0;
    for (; bench->busy && given < 64; given++)
        data(bench, much);
    assert_int_equal(given, EVENT_BYTES_MAX / (1 << 20) + 1);
    assert_int_equal(bench->trouble.code, ERR_TOO_LARGE);
    step(bench);
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
}

static void a_connection_that_fell_silent_is_taken_up_again(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    later(bench, 180 * SECOND);
    lose(bench);
    later(bench, bench->wait_ms);
    assert_non_null(strstr(bench->path, "resourceVersion=100&"));
}

/* An API server of 1.31 has nothing to say of a quiet cluster, not even bookmarks. */
static void a_watch_in_which_nothing_happens_is_begun_anew_without_a_word(void **state)
{
    enum { ROUNDS = 100 };
    struct bench *bench = *state;

    be_watching(bench);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        const struct reflector_stats before = stats_of(bench);
        assert_true(bench->wait_ms <= 180 * SECOND);
        later(bench, 180 * SECOND);
        assert_int_equal(bench->cancelled, i);
        assert_true(bench->busy);
        assert_non_null(strstr(bench->path, "watch=1"));
        assert_non_null(strstr(bench->path, "resourceVersion=100&"));
        assert_int_equal(stats_of(bench).heard_ms, before.heard_ms);
        head(bench, 200); /* it is there, and lets us watch */
        assert_int_equal(stats_of(bench).heard_ms, bench->now_ms);
        step(bench);
    }
    assert_int_equal(bench->troubles, 0);
    assert_int_equal(stats_of(bench).failures, 0);
    assert_int_equal(stats_of(bench).lists, 1);
}

/* So a connection is dead, or a server hangs: a silence alone does not tell. */
static void a_watch_that_is_not_answered_is_trouble(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    later(bench, 180 * SECOND);
    const int64_t heard_ms = stats_of(bench).heard_ms;
    assert_int_equal(bench->troubles, 0);
    assert_true(bench->wait_ms <= 30 * SECOND);
    later(bench, 30 * SECOND);
    assert_int_equal(bench->cancelled, 2);
    assert_int_equal(bench->troubles, 1);
    assert_int_equal(bench->trouble.code, ERR_TIMEOUT);
    assert_non_null(strstr(bench->trouble.text, "not answered for 30 s"));
    later(bench, bench->wait_ms);
    assert_true(bench->busy);
    assert_non_null(strstr(bench->path, "resourceVersion=100&"));
    assert_int_equal(stats_of(bench).heard_ms, heard_ms);
}

/* A kube-apiserver that has just started denies everybody everything, for some milliseconds. */
static void a_watch_that_is_denied_goes_on_from_where_it_was(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    later(bench, 2 * SECOND);
    done(bench);
    step(bench);
    assert_true(bench->busy);
    whole(bench, 403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\"}");
    assert_int_equal(bench->troubles, 1);
    later(bench, bench->wait_ms);
    assert_true(bench->busy);
    assert_non_null(strstr(bench->path, "watch=1"));
    assert_non_null(strstr(bench->path, "resourceVersion=100&"));
    assert_int_equal(stats_of(bench).lists, 1);
}

static void a_watch_that_never_ends_is_ended(void **state)
{
    struct bench *bench = *state;

    be_watching(bench);
    for (int i = 0; i < 64 && bench->cancelled == 0; i++) {
        data(bench, BOOKMARK("200"));
        later(bench, 10 * SECOND);
    }
    assert_int_equal(bench->cancelled, 1);
    assert_true(bench->busy);
    assert_int_equal(bench->troubles, 0);
    assert_non_null(strstr(bench->path, "resourceVersion=200&"));
}

static void a_bad_request_for_a_watch_lists_again(void **state)
{
    struct bench *bench = *state;

    whole(bench, 200, one_page);
    whole(bench, 400, "{\"kind\":\"Status\",\"code\":400,\"message\":\"invalid resourceVersion\"}");
    later(bench, bench->wait_ms);
    assert_true(is_listing(bench));
}

static void answers_of_others_are_not_ours(void **state)
{
    struct bench *bench = *state;
    struct kube_answer other = {.id = BASE - 1, .piece = KUBE_DONE, .status = 200};

    assert_false(reflector_answer(bench->reflector, bench->now_ms, &other));
    other.id = BASE + (1ULL << 32);
    assert_false(reflector_answer(bench->reflector, bench->now_ms, &other));
    other.id = BASE + 77;
    assert_true(reflector_answer(bench->reflector, bench->now_ms, &other));
    heard(bench, "");
    assert_true(bench->busy);
}

static void the_same_seed_waits_the_same(void **state)
{
    struct bench *bench = *state;
    void *second = NULL;

    lose(bench);
    const int64_t first_ms = bench->wait_ms;
    assert_int_equal(set_up(&second), 0);
    lose(second);
    assert_int_equal(((struct bench *)second)->wait_ms, first_ms);
    (void)tear_down(&second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_request_is_a_consistent_page),
        TEST(pages_are_followed_to_the_end_and_make_one_list),
        TEST(an_empty_list_and_null_items_are_lists),
        TEST(an_expired_continue_token_starts_the_list_anew),
        TEST(a_page_that_fails_is_asked_for_again),
        TEST(a_page_that_keeps_failing_gives_the_list_up),
        TEST(half_a_page_is_no_page),
        TEST(a_page_beyond_all_bounds_is_asked_for_in_smaller_ones),
        TEST(one_object_beyond_all_bounds_ends_no_list),
        TEST(too_many_requests_is_waited_out),
        TEST(retry_after_is_obeyed_for_a_minute_and_no_longer),
        TEST(a_forbidden_list_is_reported_and_tried_again),
        TEST(waiting_doubles_to_half_a_minute_and_is_forgotten_when_well),
        TEST(a_request_that_cannot_start_is_tried_later),
        TEST(a_watch_asks_for_bookmarks_from_the_lists_version),
        TEST(events_reach_the_sink),
        TEST(an_event_may_be_cut_anywhere),
        TEST(one_byte_at_a_time_is_fine),
        TEST(a_stream_that_ends_goes_on_from_the_last_bookmark),
        TEST(what_was_cut_off_at_the_end_is_not_believed),
        TEST(a_watch_that_ends_at_once_with_nothing_backs_off),
        TEST(gone_as_a_status_lists_again),
        TEST(gone_as_an_event_lists_again),
        TEST(gone_after_an_outage_lists_soon_but_not_in_a_circle),
        TEST(other_errors_in_the_stream_go_on_from_the_last_version),
        TEST(an_error_may_say_how_long_to_wait),
        TEST(a_version_that_goes_back_lists_again),
        TEST(versions_that_are_no_numbers_are_not_compared),
        TEST(nonsense_in_the_stream_is_tried_again_once_and_then_listed),
        TEST(a_list_with_an_object_without_a_name_does_not_end),
        TEST(an_event_of_an_object_without_a_name_lists_again),
        TEST(an_event_beyond_all_bounds_lists_again),
        TEST(a_connection_that_fell_silent_is_taken_up_again),
        TEST(a_watch_in_which_nothing_happens_is_begun_anew_without_a_word),
        TEST(a_watch_that_is_not_answered_is_trouble),
        TEST(a_watch_that_is_denied_goes_on_from_where_it_was),
        TEST(a_watch_that_never_ends_is_ended),
        TEST(a_bad_request_for_a_watch_lists_again),
        TEST(answers_of_others_are_not_ours),
        TEST(the_same_seed_waits_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
