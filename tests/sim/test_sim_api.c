#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/alloc.h"
#include "milligpu/reflector.h"
#include "milligpu/wire_kube.h"

#include "sim_api.h"

enum {
    TRIES = 3000, /* of one request, until its fault was met */
    TIMEOUT_MS = 5000,
    SILENCE_MS = 100 * 1000,
    MINUTE = 60 * 1000,
};

/* A process that asks one thing at a time and remembers what it heard. */
struct bench {
    struct fake_apiserver *fake;
    struct sim_api *api;
    struct kube_ops watch;
    struct kube_ops calls;
    int64_t now_ms;
    uint64_t id; /* of the last request */

    unsigned heads; /* of the request at hand, as all below */
    unsigned pieces;
    bool ended;
    bool failed;
    bool unsent;
    enum err_code trouble;
    int status;
    int64_t retry_after_s;
    int64_t ended_ms;
    struct strbuf heard;

    unsigned effects;
    bool ours;
    int64_t effect_ms;
    int effect_status;
    char effect_path[256];
    uint64_t told_pods;
    unsigned tellings;
    struct strbuf diary; /* everything that anybody saw */
    struct strbuf out;
};

/* ---- what sim_api calls ---- */

static int64_t fixed_wall(void *ctx)
{
    (void)ctx;
    return 1767323045678;
}

static void on_effect(void *user, const struct sim_effect *effect)
{
    struct bench *bench = user;

    bench->effects++;
    bench->ours = effect->ours;
    bench->effect_ms = bench->now_ms;
    bench->effect_status = effect->status;
    (void)snprintf(bench->effect_path, sizeof bench->effect_path, "%s", effect->path);
    strbuf_printf(&bench->diary, "effect %s %s %d %.*s\n", effect->method, effect->path,
                  effect->status, TEXT_ARG(effect->answer));
}

static void on_told(void *user, const char *resource, uint64_t version)
{
    struct bench *bench = user;

    if (strcmp(resource, "pods") == 0)
        bench->told_pods = version;
    bench->tellings++;
    strbuf_printf(&bench->diary, "told %s %llu\n", resource, (unsigned long long)version);
}

static void deliver(void *user, const struct kube_answer *answer)
{
    struct bench *bench = user;

    strbuf_printf(&bench->diary, "%lld %llu %d %d %.*s\n", (long long)bench->now_ms,
                  (unsigned long long)answer->id, (int)answer->piece, answer->status,
                  TEXT_ARG(answer->data));
    if (answer->id != bench->id)
        return;
    assert_false(bench->ended);
    bench->status = answer->status;
    bench->retry_after_s = answer->retry_after_s;
    bench->heads += answer->piece == KUBE_HEAD;
    bench->pieces += answer->piece == KUBE_DATA;
    bench->ended = answer->piece == KUBE_DONE || answer->piece == KUBE_FAILED;
    bench->failed = answer->piece == KUBE_FAILED;
    bench->unsent = answer->unsent;
    bench->trouble = answer->err != NULL ? answer->err->code : ERR_NONE;
    if (bench->ended)
        bench->ended_ms = bench->now_ms;
    strbuf_text(&bench->heard, answer->data);
}

/* ---- the bench ---- */

static struct bench *bench_new(uint64_t seed, uint32_t per_mille)
{
    struct bench *bench = xcalloc(1, sizeof *bench);

    bench->fake = fake_apiserver_new("sim");
    fake_apiserver_set_clock(bench->fake, fixed_wall, NULL);
    strbuf_init(&bench->heard);
    strbuf_init(&bench->diary);
    strbuf_init(&bench->out);
    const struct sim_api_rules rules = {.seed = seed,
                                        .fake = bench->fake,
                                        .faults_per_mille = per_mille,
                                        .user = bench,
                                        .effect = on_effect,
                                        .told = on_told};
    bench->api = sim_api_new(&rules);
    sim_api_ops(bench->api, &bench->watch, &bench->calls);
    return bench;
}

static void bench_free(struct bench *bench)
{
    sim_api_free(bench->api);
    fake_apiserver_free(bench->fake);
    strbuf_done(&bench->heard);
    strbuf_done(&bench->diary);
    strbuf_done(&bench->out);
    xfree(bench);
}

static int set_up(void **state)
{
    *state = bench_new(1, 0);
    return 0;
}

static int set_up_faulty(void **state)
{
    *state = bench_new(1, 1000);
    return 0;
}

static int tear_down(void **state)
{
    bench_free(*state);
    return 0;
}

static uint64_t met(const struct bench *bench, enum sim_fault fault)
{
    return sim_api_met(bench->api)[fault];
}

/* Time goes on to what is due next, but not past until_ms. */
static bool turn(struct bench *bench, int64_t until_ms)
{
    const int64_t next_ms = sim_api_next(bench->api);

    if (next_ms > until_ms) {
        bench->now_ms = until_ms;
        sim_api_now(bench->api, until_ms);
        return false;
    }
    bench->now_ms = next_ms > bench->now_ms ? next_ms : bench->now_ms;
    sim_api_now(bench->api, bench->now_ms);
    bench->watch.poll(bench->watch.ctx, 0, bench, deliver);
    bench->calls.poll(bench->calls.ctx, 0, bench, deliver);
    return true;
}

static void pass(struct bench *bench, int64_t ms)
{
    const int64_t until_ms = bench->now_ms + ms;

    while (turn(bench, until_ms)) {
    }
}

static void start(struct bench *bench, const struct kube_ops *ops,
                  const struct kube_request *request)
{
    struct kube_request copy = *request;
    struct err err;

    copy.id = ++bench->id;
    bench->heads = bench->pieces = 0;
    bench->ended = bench->failed = bench->unsent = false;
    bench->trouble = ERR_NONE;
    bench->status = 0;
    strbuf_reset(&bench->heard);
    bench->effects = 0;
    assert_int_equal(ops->start(ops->ctx, &copy, &err), 0);
}

static void ask(struct bench *bench, const char *method, const char *path, const char *body)
{
    start(bench, &bench->calls,
          &(struct kube_request){.method = method,
                                 .path = path,
                                 .content_type = body[0] != '\0' ? "application/json" : NULL,
                                 .body = text_of(body),
                                 .timeout_ms = TIMEOUT_MS});
}

/* The request at hand, to its end. */
static void finish(struct bench *bench)
{
    for (unsigned i = 0; i < 1000 && !bench->ended; i++)
        (void)turn(bench, bench->now_ms + MINUTE);
    assert_true(bench->ended);
}

static void act(struct bench *bench, const char *method, const char *path, const char *body)
{
    const int status = sim_api_request(bench->api, method, path, body, &bench->out);
    assert_true(status == 200 || status == 201);
}

static const char *pod_body(unsigned number)
{
    static char body[256];

    (void)snprintf(body, sizeof body,
                   "{\"metadata\":{\"name\":\"p%u\"},\"spec\":{\"containers\":[{\"name\":\"c\"}]}}",
                   number);
    return body;
}

#define PODS "/api/v1/namespaces/default/pods"

static void add_pods(struct bench *bench, unsigned from, unsigned count)
{
    for (unsigned i = from; i < from + count; i++)
        act(bench, "POST", PODS, pod_body(i));
}

static void begin_watch(struct bench *bench, uint64_t version, unsigned timeout_s)
{
    char path[256];

    (void)snprintf(path, sizeof path,
                   "/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=%u"
                   "&resourceVersion=%llu",
                   timeout_s, (unsigned long long)version);
    start(bench, &bench->watch,
          &(struct kube_request){
              .method = "GET", .path = path, .silence_ms = SILENCE_MS, .body = TEXT("")});
}

static void watch_from_now(struct bench *bench)
{
    begin_watch(bench, fake_apiserver_version(bench->fake), 100000);
}

static unsigned count(const struct bench *bench, const char *part)
{
    unsigned found = 0;

    for (const char *at = bench->heard.data; (at = strstr(at, part)) != NULL; at++)
        found++;
    return found;
}

/* ---- a good network ---- */

static void a_request_takes_effect_and_is_then_answered(void **state)
{
    struct bench *bench = *state;

    ask(bench, "POST", PODS, pod_body(1));
    assert_int_equal(bench->effects, 0);
    finish(bench);
    assert_int_equal(bench->status, 201);
    assert_false(bench->failed);
    assert_int_equal(bench->heads, 1);
    assert_int_equal(bench->effects, 1);
    assert_true(bench->ours);
    assert_int_equal(bench->effect_status, 201);
    assert_string_equal(bench->effect_path, PODS);
    assert_true(bench->effect_ms < bench->ended_ms);
    assert_non_null(strstr(bench->heard.data, "\"name\":\"p1\""));
    assert_true(sim_api_quiet(bench->api));
    assert_int_equal(sim_api_next(bench->api), INT64_MAX);
}

static void an_actor_is_answered_at_once_and_its_effect_is_told(void **state)
{
    struct bench *bench = *state;

    sim_api_outage(bench->api, 1000);
    add_pods(bench, 1, 1);
    assert_int_equal(bench->effects, 1);
    assert_false(bench->ours);
    assert_int_equal(sim_api_request(bench->api, "GET", PODS "/nobody", "", &bench->out), 404);
    assert_int_equal(bench->effects, 2);
    assert_int_equal(bench->effect_status, 404);
}

static void a_watch_is_told_every_change_once_and_in_order(void **state)
{
    struct bench *bench = *state;
    const char *last = NULL;

    watch_from_now(bench);
    for (unsigned i = 0; i < 50; i++) {
        add_pods(bench, i, 1);
        pass(bench, i % 7);
    }
    assert_false(sim_api_quiet(bench->api));
    pass(bench, 100);
    assert_true(sim_api_quiet(bench->api));
    assert_int_equal(count(bench, "ADDED"), 50);
    for (unsigned i = 0; i < 50; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "\"name\":\"p%u\"", i);
        const char *at = strstr(bench->heard.data, name);
        assert_non_null(at);
        assert_true(last == NULL || at > last);
        last = at;
    }
    assert_int_equal(bench->told_pods, fake_apiserver_version(bench->fake));
    assert_int_equal(bench->tellings, 50);
}

static void a_write_to_nodes_is_no_news_for_a_watch_of_pods(void **state)
{
    struct bench *bench = *state;

    watch_from_now(bench);
    pass(bench, 100);
    act(bench, "POST", "/api/v1/nodes", "{\"metadata\":{\"name\":\"pods\"}}");
    act(bench, "PATCH", "/api/v1/nodes/pods", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    assert_true(sim_api_quiet(bench->api));
    pass(bench, 100);
    assert_int_equal(bench->pieces, 0);
}

static void a_list_tells_with_its_last_page(void **state)
{
    struct bench *bench = *state;
    char path[256];

    add_pods(bench, 0, 3);
    const uint64_t version = fake_apiserver_version(bench->fake);
    ask(bench, "GET", "/api/v1/pods?limit=2", "");
    finish(bench);
    assert_int_equal(bench->tellings, 0);
    const char *token = strstr(bench->heard.data, "\"continue\":\"");
    assert_non_null(token);
    token += strlen("\"continue\":\"");
    (void)snprintf(path, sizeof path, "/api/v1/pods?limit=2&continue=%.*s",
                   (int)strcspn(token, "\""), token);
    add_pods(bench, 3, 1);
    ask(bench, "GET", path, "");
    finish(bench);
    assert_int_equal(bench->told_pods, version);
    /* Some pods of one namespace are not all pods. */
    ask(bench, "GET", PODS, "");
    finish(bench);
    assert_int_equal(bench->tellings, 1);
}

static void bookmarks_come_each_minute_and_right_before_the_end(void **state)
{
    struct bench *bench = *state;

    begin_watch(bench, fake_apiserver_version(bench->fake), 200);
    pass(bench, 70 * 1000);
    assert_int_equal(count(bench, "BOOKMARK"), 1);
    act(bench, "POST", "/api/v1/nodes", "{\"metadata\":{\"name\":\"n\"}}");
    pass(bench, 129 * 1000);
    assert_int_equal(count(bench, "BOOKMARK"), 3);
    assert_false(bench->ended);
    finish(bench);
    assert_false(bench->failed);
    assert_int_equal(count(bench, "BOOKMARK"), 4);
    assert_int_equal(met(bench, SIM_BOOKMARK), 4);
    assert_int_equal(bench->told_pods, fake_apiserver_version(bench->fake));
    assert_true(bench->ended_ms >= 200 * 1000);
    assert_int_equal(sim_api_next(bench->api), INT64_MAX);
}

static void a_compacted_version_is_gone_for_watches_and_for_pages(void **state)
{
    struct bench *bench = *state;

    add_pods(bench, 0, 40);
    act(bench, "GET", "/api/v1/pods?limit=2", ""); /* the first list: its token is known */
    assert_non_null(strstr(bench->out.data, "\"continue\":\"1.0\""));
    sim_api_compact(bench->api);
    begin_watch(bench, 2, 100);
    finish(bench);
    assert_false(bench->failed);
    assert_int_equal(count(bench, "\"code\":410"), 1);
    assert_int_equal(met(bench, SIM_GONE_EVENT), 1);
    ask(bench, "GET", "/api/v1/pods?limit=2&continue=1.0", "");
    finish(bench);
    assert_int_equal(bench->status, 410);
    assert_int_equal(met(bench, SIM_GONE_CONTINUE), 1);
    /* What was told already is not compacted away. */
    watch_from_now(bench);
    pass(bench, 100);
    add_pods(bench, 40, 1);
    sim_api_compact(bench->api);
    add_pods(bench, 41, 1);
    pass(bench, 100);
    assert_int_equal(count(bench, "ADDED"), 2);
    assert_int_equal(count(bench, "ERROR"), 0);
}

static void a_cancelled_request_is_not_answered_and_may_take_effect(void **state)
{
    struct bench *bench = *state;

    ask(bench, "POST", PODS, pod_body(1));
    bench->calls.cancel(bench->calls.ctx, bench->id);
    pass(bench, MINUTE);
    assert_int_equal(bench->heads, 0);
    assert_int_equal(bench->effects, 1);
    watch_from_now(bench);
    bench->watch.cancel(bench->watch.ctx, bench->id);
    bench->watch.cancel(bench->watch.ctx, bench->id);
    pass(bench, MINUTE);
    assert_int_equal(bench->heads, 0);
    assert_int_equal(sim_api_next(bench->api), INT64_MAX);
}

static void answers_that_are_ready_are_forgotten_by_cancel(void **state)
{
    struct bench *bench = *state;

    ask(bench, "POST", PODS, pod_body(1));
    sim_api_now(bench->api, 1000);
    assert_int_equal(bench->effects, 1);
    assert_false(sim_api_quiet(bench->api));
    bench->calls.cancel(bench->calls.ctx, bench->id);
    bench->calls.poll(bench->calls.ctx, 0, bench, deliver);
    assert_int_equal(bench->heads, 0);
    assert_true(sim_api_quiet(bench->api));
}

/* ---- the process dies ---- */

static void what_a_dead_process_had_sent_may_still_take_effect(void **state)
{
    struct bench *bench = *state;
    unsigned effects = 0;
    struct err err;

    for (unsigned i = 0; i < 64; i++) {
        struct kube_ops old_watch = bench->watch;
        struct kube_ops old_calls = bench->calls;
        watch_from_now(bench);
        ask(bench, "POST", PODS, pod_body(i));
        sim_api_gone(bench->api);
        const struct kube_request late = {.id = 1000 + i, .method = "GET", .path = "/version"};
        assert_true(old_calls.start(old_calls.ctx, &late, &err) < 0);
        old_calls.cancel(old_calls.ctx, bench->id);
        old_calls.poll(old_calls.ctx, 0, bench, deliver);
        old_calls.free(old_calls.ctx);
        old_watch.free(old_watch.ctx);
        sim_api_ops(bench->api, &bench->watch, &bench->calls);
        pass(bench, MINUTE);
        assert_int_equal(bench->heads, 0);
        assert_true(bench->effects == 0 || bench->ours);
        effects += bench->effects;
        assert_true(sim_api_quiet(bench->api));
    }
    assert_true(effects > 0 && effects < 64);
}

static void die(void *user, const struct kube_answer *answer)
{
    struct bench *bench = user;

    assert_int_equal(answer->piece, KUBE_HEAD);
    bench->heads++;
    sim_api_gone(bench->api);
}

static void a_process_may_die_while_it_is_answered(void **state)
{
    struct bench *bench = *state;

    ask(bench, "POST", PODS, pod_body(1));
    sim_api_now(bench->api, 1000);
    bench->calls.poll(bench->calls.ctx, 0, bench, die);
    assert_int_equal(bench->heads, 1);
    bench->calls.poll(bench->calls.ctx, 0, bench, die);
    assert_int_equal(bench->heads, 1);
    bench->calls.free(bench->calls.ctx);
    bench->watch.free(bench->watch.ctx);
    assert_true(sim_api_quiet(bench->api));
}

static jmp_buf grave;

static void die_by_jumping(void *user, const struct kube_answer *answer)
{
    (void)user;
    (void)answer;
    longjmp(grave, 1);
}

static void a_process_may_jump_out_of_its_answer(void **state)
{
    struct bench *bench = *state;

    ask(bench, "POST", PODS, pod_body(1));
    sim_api_now(bench->api, 1000);
    if (setjmp(grave) == 0) {
        bench->calls.poll(bench->calls.ctx, 0, bench, die_by_jumping);
        fail_msg("deliver came back");
    }
    sim_api_gone(bench->api);
    assert_true(sim_api_quiet(bench->api));
    sim_api_ops(bench->api, &bench->watch, &bench->calls);
    ask(bench, "GET", PODS "/p1", "");
    finish(bench);
    assert_int_equal(bench->status, 200);
}

/* ---- what goes wrong with requests ---- */

/* Asks until that fault was met; what was heard of that request is then in the bench. */
static void until_met(struct bench *bench, enum sim_fault fault, const char *method)
{
    static unsigned number;

    for (unsigned i = 0; i < TRIES; i++) {
        const uint64_t before = met(bench, fault);
        const bool post = strcmp(method, "POST") == 0;
        ask(bench, method, PODS, post ? pod_body(number++) : "");
        finish(bench);
        pass(bench, 7 * 60 * MINUTE); /* late effects, too */
        if (met(bench, fault) > before)
            return;
    }
    fail_msg("fault %d was not met", (int)fault);
}

static int64_t began_ms(const struct bench *bench)
{
    return bench->ended_ms - TIMEOUT_MS;
}

static void expect_timeout(const struct bench *bench)
{
    assert_true(bench->failed);
    assert_false(bench->unsent);
    assert_int_equal(bench->trouble, ERR_TIMEOUT);
    assert_int_equal(bench->heads, 0);
    assert_int_equal(sim_api_felt_ms(bench->api), bench->ended_ms); /* later than it was met */
}

static void a_late_effect_comes_after_its_timeout(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_LATE_EFFECT, "POST");
    expect_timeout(bench);
    assert_int_equal(bench->effects, 1);
    assert_true(bench->ours);
    assert_int_equal(bench->effect_status, 201);
    assert_true(bench->effect_ms > bench->ended_ms);
}

/* A minute late, or hours: the API server promises nothing. */
static void a_late_effect_may_come_hours_later(void **state)
{
    struct bench *bench = *state;
    int64_t latest_ms = 0;

    for (unsigned i = 0; i < 16; i++) {
        until_met(bench, SIM_LATE_EFFECT, "POST");
        if (bench->effect_ms - bench->ended_ms > latest_ms)
            latest_ms = bench->effect_ms - bench->ended_ms;
    }
    assert_true(latest_ms > 10 * MINUTE);
}

static void what_is_late_may_be_bounded_for_who_cannot_know_of_it(void **state)
{
    struct bench *bench = *state;

    sim_api_faults(bench->api, 1000);
    for (unsigned i = 0; i < 100; i++)
        ask(bench, "POST", PODS, pod_body(5000 + i));
    finish(bench);
    sim_api_late_within(bench->api, MINUTE);
    sim_api_faults(bench->api, 0);
    pass(bench, 2 * MINUTE);
    const unsigned effects = bench->effects;
    pass(bench, 12 * 60 * MINUTE);
    assert_int_equal(bench->effects, effects);
}

static void a_lost_request_never_takes_effect(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_LOST_REQUEST, "POST");
    expect_timeout(bench);
    assert_int_equal(bench->effects, 0);
}

static void a_lost_answer_is_a_timeout_after_the_effect(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_LOST_ANSWER, "POST");
    expect_timeout(bench);
    assert_int_equal(bench->effects, 1);
    assert_true(bench->effect_ms < bench->ended_ms);
    assert_true(bench->effect_ms > began_ms(bench));
}

static void a_broken_answer_has_a_head_and_no_end(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_BROKEN_ANSWER, "POST");
    assert_true(bench->failed);
    assert_false(bench->unsent);
    assert_int_equal(bench->heads, 1);
    assert_int_equal(bench->status, 201);
    assert_int_equal(bench->effects, 1);
    assert_int_not_equal(bench->heard.data[bench->heard.len - 1], '}');
}

static void a_refused_connection_is_certainly_unsent(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_REFUSED, "POST");
    assert_true(bench->failed);
    assert_true(bench->unsent);
    assert_int_equal(bench->effects, 0);
}

static void an_error_before_leaves_no_effect(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_ERROR_BEFORE, "POST");
    assert_false(bench->failed);
    assert_true(bench->status == 500 || bench->status == 503 || bench->status == 504);
    assert_int_equal(count(bench, "\"status\":\"Failure\""), 1);
    assert_int_equal(bench->effects, 0);
}

static void an_error_after_hides_an_effect(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_ERROR_AFTER, "POST");
    assert_false(bench->failed);
    assert_true(bench->status == 500 || bench->status == 504);
    assert_int_equal(bench->effects, 1);
    assert_int_equal(bench->effect_status, 201);
}

static void a_throttled_request_is_told_to_wait_or_not(void **state)
{
    struct bench *bench = *state;
    unsigned with = 0;
    unsigned without = 0;

    for (unsigned i = 0; i < 100 && (with == 0 || without == 0); i++) {
        until_met(bench, SIM_THROTTLED, "POST");
        assert_int_equal(bench->status, 429);
        assert_int_equal(bench->effects, 0);
        with += bench->retry_after_s > 0;
        without += bench->retry_after_s == 0;
    }
    assert_true(with > 0 && without > 0);
}

static void an_unauthorized_request_did_nothing(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_UNAUTHORIZED, "POST");
    assert_int_equal(bench->status, 401);
    assert_int_equal(bench->effects, 0);
}

static void a_slow_answer_comes_after_seconds_or_too_late(void **state)
{
    struct bench *bench = *state;
    unsigned in_time = 0;
    unsigned too_late = 0;

    for (unsigned i = 0; i < 100 && (in_time == 0 || too_late == 0); i++) {
        until_met(bench, SIM_SLOW, "POST");
        assert_int_equal(bench->effects, 1);
        assert_true(bench->ended_ms - bench->effect_ms >= 1000);
        if (bench->failed)
            expect_timeout(bench);
        else
            assert_int_equal(bench->status, 201);
        too_late += bench->failed;
        in_time += !bench->failed;
    }
    assert_true(in_time > 0 && too_late > 0);
}

static void an_answer_in_pieces_is_the_same_answer(void **state)
{
    struct bench *bench = *state;

    until_met(bench, SIM_CHUNKS, "POST");
    assert_int_equal(bench->status, 201);
    assert_false(bench->failed);
    assert_true(bench->pieces > 10);
    assert_int_equal(bench->heard.data[bench->heard.len - 1], '}');
    assert_int_equal(count(bench, "\"kind\":\"Pod\""), 1);
}

static void the_next_page_of_a_list_may_be_gone(void **state)
{
    struct bench *bench = *state;

    add_pods(bench, 0, 4);
    for (unsigned i = 0; i < TRIES && met(bench, SIM_GONE_CONTINUE) == 0; i++) {
        assert_int_equal(
            sim_api_request(bench->api, "GET", "/api/v1/pods?limit=2", "", &bench->out), 200);
        const char *token = strstr(bench->out.data, "\"continue\":\"") + strlen("\"continue\":\"");
        char path[128];
        (void)snprintf(path, sizeof path, "/api/v1/pods?limit=2&continue=%.*s",
                       (int)strcspn(token, "\""), token);
        ask(bench, "GET", path, "");
        finish(bench);
    }
    assert_int_equal(met(bench, SIM_GONE_CONTINUE), 1);
    assert_int_equal(bench->status, 410);
    assert_int_equal(count(bench, "\"reason\":\"Expired\""), 1);
}

static void a_timeout_comes_at_its_millisecond(void **state)
{
    struct bench *bench = *state;

    for (unsigned i = 0; i < 100; i++) {
        const int64_t asked_ms = bench->now_ms;
        ask(bench, "GET", PODS, "");
        finish(bench);
        assert_true(bench->ended_ms <= asked_ms + TIMEOUT_MS);
        if (bench->trouble == ERR_TIMEOUT)
            assert_int_equal(bench->ended_ms, asked_ms + TIMEOUT_MS);
    }
    assert_true(met(bench, SIM_LOST_REQUEST) > 0);
}

static void a_request_that_waits_for_ever_is_never_lost(void **state)
{
    struct bench *bench = *state;

    for (unsigned i = 0; i < 200; i++) {
        start(bench, &bench->calls, &(struct kube_request){.method = "GET", .path = PODS});
        finish(bench);
    }
    assert_int_equal(met(bench, SIM_LOST_REQUEST) + met(bench, SIM_LOST_ANSWER), 0);
}

/* ---- what goes wrong with watches ---- */

/* Watches while pods come, until that fault was met; false: this watch ended without it. */
static bool watch_meets(struct bench *bench, enum sim_fault fault, unsigned *pods)
{
    const uint64_t before = met(bench, fault);

    watch_from_now(bench);
    for (unsigned i = 0; i < 100 && !bench->ended && met(bench, fault) == before; i++) {
        add_pods(bench, (*pods)++, 1);
        pass(bench, 100);
    }
    return met(bench, fault) > before;
}

static void until_watch_met(struct bench *bench, enum sim_fault fault)
{
    static unsigned pods = 1000000;

    for (unsigned i = 0; i < TRIES; i++) {
        if (watch_meets(bench, fault, &pods))
            return;
        bench->watch.cancel(bench->watch.ctx, bench->id);
    }
    fail_msg("fault %d was not met", (int)fault);
}

/* 200 or so: a stream lives for some seconds. */
static int set_up_streams(void **state)
{
    *state = bench_new(1, 200);
    return 0;
}

static void a_watch_may_be_cut_inside_an_event(void **state)
{
    struct bench *bench = *state;
    unsigned clean = 0;
    unsigned broken = 0;

    for (unsigned i = 0; i < 100 && (clean == 0 || broken == 0); i++) {
        until_watch_met(bench, SIM_WATCH_CUT);
        finish(bench);
        clean += !bench->failed;
        broken += bench->failed;
        assert_true(bench->heard.len > 0);
        assert_int_not_equal(bench->heard.data[bench->heard.len - 1], '\n');
    }
    assert_true(clean > 0 && broken > 0);
}

static void a_watch_may_end_cleanly(void **state)
{
    struct bench *bench = *state;

    until_watch_met(bench, SIM_WATCH_END);
    finish(bench);
    assert_false(bench->failed);
    assert_int_equal(bench->status, 200);
    /* What comes now is told to nobody, until there is a watch again. */
    sim_api_faults(bench->api, 0);
    pass(bench, MINUTE);
    assert_false(sim_api_quiet(bench->api));
    watch_from_now(bench);
    pass(bench, 100);
    assert_true(sim_api_quiet(bench->api));
}

static void a_half_open_watch_fails_when_its_silence_is_too_long(void **state)
{
    struct bench *bench = *state;

    until_watch_met(bench, SIM_WATCH_SILENT);
    const size_t heard = bench->heard.len;
    const int64_t silent_ms = bench->now_ms;
    assert_false(sim_api_quiet(bench->api));
    add_pods(bench, 0, 3);
    finish(bench);
    assert_true(bench->failed);
    assert_int_equal(bench->trouble, ERR_TIMEOUT);
    assert_int_equal(bench->heard.len, heard);
    assert_true(bench->ended_ms > silent_ms + SILENCE_MS / 2);
    assert_true(bench->ended_ms <= silent_ms + SILENCE_MS);
}

static void a_half_open_watch_breaks_when_faults_end(void **state)
{
    struct bench *bench = *state;

    until_watch_met(bench, SIM_WATCH_SILENT);
    sim_api_faults(bench->api, 0);
    pass(bench, 2);
    assert_true(bench->ended);
    assert_int_equal(bench->trouble, ERR_IO);
}

static void events_of_a_resource_may_be_held_back_for_seconds(void **state)
{
    struct bench *bench = *state;

    until_watch_met(bench, SIM_WATCH_DELAY);
    assert_false(sim_api_quiet(bench->api));
    /* No fault any more: they are let go. */
    sim_api_faults(bench->api, 0);
    pass(bench, 2);
    assert_true(sim_api_quiet(bench->api));
    assert_int_equal(bench->told_pods, fake_apiserver_version(bench->fake));
}

static void a_watch_may_begin_too_early(void **state)
{
    struct bench *bench = *state;
    bool met_it = false;

    add_pods(bench, 0, 50);
    const uint64_t version = fake_apiserver_version(bench->fake);
    for (unsigned i = 0; i < TRIES && !met_it; i++) {
        watch_from_now(bench);
        pass(bench, 100);
        met_it = met(bench, SIM_REPEAT) > 0;
        bench->watch.cancel(bench->watch.ctx, bench->id);
    }
    assert_true(met_it);
    assert_true(count(bench, "ADDED") >= 1);
    assert_int_equal(bench->told_pods, version);
}

static void an_early_watch_does_not_go_behind_a_compaction(void **state)
{
    struct bench *bench = *state;

    add_pods(bench, 0, 50);
    sim_api_compact(bench->api);
    for (unsigned i = 0; i < 500; i++) {
        sim_api_faults(bench->api, 1000);
        watch_from_now(bench);
        sim_api_faults(bench->api,
                       1); /* what may happen to it is chosen; the stream is left alone */
        pass(bench, 20);
        bench->watch.cancel(bench->watch.ctx, bench->id);
    }
    assert_int_equal(met(bench, SIM_GONE_EVENT), 0);
    assert_int_equal(met(bench, SIM_REPEAT), 0);
    assert_true(met(bench, SIM_GONE_HTTP) > 0);
}

static void a_watch_may_be_gone_as_an_answer_or_as_an_event(void **state)
{
    struct bench *bench = *state;

    until_watch_met(bench, SIM_GONE_HTTP);
    finish(bench);
    assert_int_equal(bench->status, 410);
    assert_false(bench->failed);
    until_watch_met(bench, SIM_GONE_EVENT);
    finish(bench);
    assert_int_equal(bench->status, 200);
    assert_false(bench->failed);
    assert_int_equal(count(bench, "\"code\":410"), 1);
    const char *error = strstr(bench->heard.data, "{\"type\":\"ERROR\"");
    assert_non_null(error);
    assert_ptr_equal(strchr(error, '\n'), bench->heard.data + bench->heard.len - 1);
}

static void an_event_in_pieces_is_told_with_its_last_one(void **state)
{
    struct bench *bench = *state;

    until_watch_met(bench, SIM_CHUNKS);
    const unsigned before = bench->tellings;
    sim_api_faults(bench->api, 0);
    pass(bench, 1000);
    assert_int_equal(bench->heard.data[bench->heard.len - 1], '\n');
    assert_true(bench->tellings >= before);
    assert_int_equal(bench->told_pods, fake_apiserver_version(bench->fake));
    assert_true(bench->pieces > count(bench, "\n"));
}

/* ---- the API server away ---- */

static void in_an_outage_streams_end_and_connections_are_refused(void **state)
{
    struct bench *bench = *state;

    watch_from_now(bench);
    pass(bench, 100);
    sim_api_outage(bench->api, bench->now_ms + 10000);
    finish(bench);
    assert_true(bench->failed);
    assert_false(bench->unsent);
    assert_int_equal(met(bench, SIM_OUTAGE), 1);
    ask(bench, "POST", PODS, pod_body(1));
    finish(bench);
    assert_true(bench->unsent);
    assert_int_equal(bench->effects, 0);
    assert_int_equal(met(bench, SIM_OUTAGE), 2);
    pass(bench, 10000);
    ask(bench, "POST", PODS, pod_body(1));
    finish(bench);
    assert_int_equal(bench->status, 201);
    sim_api_outage(bench->api, bench->now_ms + 10000);
    sim_api_faults(bench->api, 0);
    ask(bench, "POST", PODS, pod_body(2));
    finish(bench);
    assert_int_equal(bench->status, 201);
}

/* Between a list and the first watch that opens, whoever listed is told nothing. */
static void all_is_not_quiet_while_a_first_watch_finds_nobody(void **state)
{
    struct bench *bench = *state;

    sim_api_outage(bench->api, bench->now_ms + 10000);
    watch_from_now(bench);
    finish(bench);
    assert_true(bench->unsent);
    assert_false(sim_api_quiet(bench->api));
    pass(bench, 10000);
    watch_from_now(bench);
    pass(bench, 100);
    assert_true(sim_api_quiet(bench->api));
}

static void what_was_on_its_way_when_the_outage_came_is_unknown(void **state)
{
    struct bench *bench = *state;
    unsigned effects = 0;

    for (unsigned i = 0; i < 64; i++) {
        ask(bench, "POST", PODS, pod_body(i));
        sim_api_outage(bench->api, bench->now_ms + 1000);
        pass(bench, 2000);
        assert_true(bench->failed);
        assert_false(bench->unsent);
        effects += bench->effects;
    }
    assert_true(effects > 0 && effects < 64);
}

static void without_faults_a_late_effect_comes_at_once(void **state)
{
    struct bench *bench = *state;

    for (unsigned i = 0; i < 100; i++) {
        sim_api_faults(bench->api, 1000);
        ask(bench, "POST", PODS, pod_body(i));
        pass(bench, 10);
        sim_api_faults(bench->api, 0);
        const unsigned before = bench->effects;
        pass(bench, 10);
        if (bench->effects > before) {
            assert_true(bench->ended);
            assert_int_equal(bench->status, 201);
            return;
        }
        finish(bench);
    }
    fail_msg("no effect was late");
}

/* ---- all of it, for long ---- */

enum { NAMES = 40, BASE_NODES = 1, BASE_PODS = 2 };

/* One resource: what a client believes, and what was written. */
struct mirror {
    struct world *world;
    struct reflector *reflector;
    const char *plural;
    const char *prefix;
    uint64_t known[NAMES]; /* resourceVersion; 0: not there */
    uint64_t listed[NAMES];
    uint64_t written[NAMES]; /* the last write, a deletion too */
    uint64_t alive[NAMES];   /* what the cluster has; 0: nothing */
    unsigned lists;
};

struct world {
    struct bench *bench;
    uint64_t random;
    struct mirror mirror[2];
};

static uint64_t draw(struct world *world, uint64_t bound)
{
    world->random = world->random * 6364136223846793005U + 1442695040888963407U;
    return (world->random >> 33) % bound;
}

static unsigned slot_of(struct text object, uint64_t *out_version)
{
    struct object_meta meta;
    struct arena arena;
    struct err err;

    arena_init(&arena);
    assert_int_equal(meta_decode(object, &arena, &meta, &err), 0);
    *out_version = strtoull(meta.resource_version, NULL, 10);
    const unsigned slot = (unsigned)strtoul(meta.name + 1, NULL, 10);
    arena_done(&arena);
    assert_true(slot<NAMES && * out_version> 0);
    return slot;
}

static void list_begin(void *user)
{
    struct mirror *mirror = user;
    memset(mirror->listed, 0, sizeof mirror->listed);
}

static int listed(void *user, struct text object, struct err *err)
{
    struct mirror *mirror = user;
    uint64_t version;
    const unsigned slot = slot_of(object, &version);
    mirror->listed[slot] = version;
    (void)err;
    return 0;
}

static void list_end(void *user, const char *resource_version)
{
    (void)resource_version;
    struct mirror *mirror = user;
    memcpy(mirror->known, mirror->listed, sizeof mirror->known);
    mirror->lists++;
}

static void list_failed(void *user)
{
    (void)user;
}

static int changed(void *user, struct text object, struct err *err)
{
    struct mirror *mirror = user;
    uint64_t version;
    const unsigned slot = slot_of(object, &version);
    mirror->known[slot] = version;
    (void)err;
    return 0;
}

static int deleted(void *user, struct text object, struct err *err)
{
    struct mirror *mirror = user;
    uint64_t version;
    const unsigned slot = slot_of(object, &version);
    mirror->known[slot] = 0;
    (void)err;
    return 0;
}

/* "Told up to version" is the truth: no write before it is unknown. */
static void world_told(void *user, const char *resource, uint64_t version)
{
    struct world *world = user;
    const struct mirror *mirror = &world->mirror[strcmp(resource, "pods") == 0];

    world->bench->tellings++;
    for (unsigned i = 0; i < NAMES; i++)
        if (mirror->written[i] <= version)
            assert_int_equal(mirror->known[i], mirror->alive[i]);
}

static void world_deliver(void *user, const struct kube_answer *answer)
{
    struct world *world = user;

    for (unsigned i = 0; i < 2; i++)
        (void)reflector_answer(world->mirror[i].reflector, world->bench->now_ms, answer);
}

/* An actor makes, changes or removes one object. */
static void write_one(struct world *world)
{
    struct bench *bench = world->bench;
    struct mirror *mirror = &world->mirror[draw(world, 2)];
    const unsigned slot = (unsigned)draw(world, NAMES);
    const uint64_t change = draw(world, 3);
    char path[128];
    char body[256];

    (void)snprintf(path, sizeof path, "%s/x%u", mirror->prefix, slot);
    if (mirror->alive[slot] == 0) {
        (void)snprintf(
            body, sizeof body,
            "{\"metadata\":{\"name\":\"x%u\"},\"spec\":{\"containers\":[{\"name\":\"c\"}]}}", slot);
        act(bench, "POST", mirror->prefix, body);
    } else if (change == 0) {
        act(bench, "DELETE", path, "");
    } else {
        (void)snprintf(body, sizeof body, "{\"metadata\":{\"labels\":{\"a\":\"%llu\"}}}",
                       (unsigned long long)world->random);
        act(bench, "PATCH", path, body);
    }
    mirror->written[slot] = fake_apiserver_version(bench->fake);
    mirror->alive[slot] = change == 0 && mirror->alive[slot] != 0 ? 0 : mirror->written[slot];
}

static void world_turn(struct world *world, int64_t ms)
{
    struct bench *bench = world->bench;
    const int64_t until_ms = bench->now_ms + ms;
    int64_t next_ms = bench->now_ms;

    do {
        bench->now_ms = next_ms;
        sim_api_now(bench->api, bench->now_ms);
        bench->watch.poll(bench->watch.ctx, 0, world, world_deliver);
        next_ms = until_ms;
        for (unsigned i = 0; i < 2; i++) {
            const int64_t wait_ms = reflector_step(world->mirror[i].reflector, bench->now_ms);
            if (bench->now_ms + wait_ms < next_ms)
                next_ms = bench->now_ms + (wait_ms > 0 ? wait_ms : 1);
        }
        if (sim_api_next(bench->api) < next_ms)
            next_ms = sim_api_next(bench->api);
    } while (next_ms < until_ms);
    bench->now_ms = until_ms;
}

static struct reflector *open_mirror(struct mirror *mirror, uint64_t base)
{
    static const char *const path[] = {NULL, "/api/v1/nodes", "/api/v1/pods"};
    const struct reflector_rules rules = {.path = path[base],
                                          .page = 7,
                                          .watch_ms = 10 * MINUTE,
                                          .silence_ms = 3 * MINUTE,
                                          .list_timeout_ms = MINUTE,
                                          .seed = base,
                                          .id_base = base << 32};
    const struct reflector_sink sink = {.user = mirror,
                                        .list_begin = list_begin,
                                        .listed = listed,
                                        .list_end = list_end,
                                        .list_failed = list_failed,
                                        .changed = changed,
                                        .deleted = deleted};
    return reflector_new(&rules, &mirror->world->bench->watch, &sink);
}

static void live(struct world *world, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        write_one(world);
        world_turn(world, 1 + (int64_t)draw(world, 1000));
        if (draw(world, 2000) == 0)
            sim_api_outage(world->bench->api,
                           world->bench->now_ms + 1 + (int64_t)draw(world, MINUTE));
        if (draw(world, 500) == 0)
            sim_api_compact(world->bench->api);
    }
}

static void all_faults_but_those_of_writes_were_met(const struct bench *bench)
{
    for (enum sim_fault fault = 0; fault < SIM_FAULTS; fault++)
        if (fault != SIM_LATE_EFFECT && fault != SIM_ERROR_AFTER && met(bench, fault) == 0)
            fail_msg("fault %d was not met", (int)fault);
}

static void after_a_long_bad_time_a_reflector_agrees_with_the_cluster(void **state)
{
    struct bench *bench = *state;
    struct world world = {.bench = bench, .random = 7};
    const struct sim_api_rules rules = {.seed = 3,
                                        .fake = bench->fake,
                                        .faults_per_mille = 200,
                                        .user = &world,
                                        .told = world_told};

    sim_api_free(bench->api);
    bench->api = sim_api_new(&rules);
    sim_api_ops(bench->api, &bench->watch, &bench->calls);
    world.mirror[0] = (struct mirror){.world = &world, .prefix = "/api/v1/nodes"};
    world.mirror[1] = (struct mirror){.world = &world, .prefix = PODS};
    for (unsigned i = 0; i < 2; i++)
        world.mirror[i].reflector = open_mirror(&world.mirror[i], i + 1);
    live(&world, 10000);
    sim_api_faults(bench->api, 10);
    live(&world, 10000);
    all_faults_but_those_of_writes_were_met(bench);
    sim_api_faults(bench->api, 0);
    for (unsigned i = 0; i < 100 && !sim_api_quiet(bench->api); i++)
        world_turn(&world, MINUTE);
    assert_true(sim_api_quiet(bench->api));
    for (unsigned i = 0; i < 2; i++) {
        assert_memory_equal(world.mirror[i].known, world.mirror[i].alive,
                            sizeof world.mirror[i].known);
        assert_true(world.mirror[i].lists > 10);
    }
    assert_true(bench->tellings > 1000);
    for (unsigned i = 0; i < 2; i++)
        reflector_free(world.mirror[i].reflector);
}

/* Everything that anybody saw in a short bad life. */
static char *life(uint64_t seed)
{
    struct bench *bench = bench_new(seed, 300);
    unsigned pods = 0;

    for (unsigned i = 0; i < 60; i++) {
        watch_from_now(bench);
        for (unsigned k = 0; k < 20; k++) {
            add_pods(bench, pods++, 1);
            ask(bench, "POST", PODS, pod_body(pods++));
            pass(bench, 200);
        }
        if (i % 20 == 19)
            sim_api_outage(bench->api, bench->now_ms + 500);
        if (i % 30 == 29) {
            sim_api_gone(bench->api);
            sim_api_ops(bench->api, &bench->watch, &bench->calls);
        }
    }
    for (enum sim_fault fault = 0; fault < SIM_FAULTS; fault++)
        strbuf_printf(&bench->diary, "%llu ", (unsigned long long)met(bench, fault));
    char *diary = strbuf_steal(&bench->diary);
    bench_free(bench);
    return diary;
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    CLEANUP(xfreep) char *first = life(7);
    CLEANUP(xfreep) char *second = life(7);
    CLEANUP(xfreep) char *other = life(8);

    (void)state;
    assert_true(strlen(first) > 100000);
    assert_string_equal(first, second);
    assert_string_not_equal(first, other);
}

#define CALM(name)    cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define FAULTY(name)  cmocka_unit_test_setup_teardown(name, set_up_faulty, tear_down)
#define STREAMS(name) cmocka_unit_test_setup_teardown(name, set_up_streams, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALM(a_request_takes_effect_and_is_then_answered),
        CALM(an_actor_is_answered_at_once_and_its_effect_is_told),
        CALM(a_watch_is_told_every_change_once_and_in_order),
        CALM(a_write_to_nodes_is_no_news_for_a_watch_of_pods),
        CALM(a_list_tells_with_its_last_page),
        CALM(bookmarks_come_each_minute_and_right_before_the_end),
        CALM(a_compacted_version_is_gone_for_watches_and_for_pages),
        CALM(a_cancelled_request_is_not_answered_and_may_take_effect),
        CALM(answers_that_are_ready_are_forgotten_by_cancel),
        CALM(what_a_dead_process_had_sent_may_still_take_effect),
        CALM(a_process_may_die_while_it_is_answered),
        CALM(a_process_may_jump_out_of_its_answer),
        FAULTY(a_late_effect_comes_after_its_timeout),
        FAULTY(a_late_effect_may_come_hours_later),
        FAULTY(what_is_late_may_be_bounded_for_who_cannot_know_of_it),
        FAULTY(a_lost_request_never_takes_effect),
        FAULTY(a_lost_answer_is_a_timeout_after_the_effect),
        FAULTY(a_broken_answer_has_a_head_and_no_end),
        FAULTY(a_refused_connection_is_certainly_unsent),
        FAULTY(an_error_before_leaves_no_effect),
        FAULTY(an_error_after_hides_an_effect),
        FAULTY(a_throttled_request_is_told_to_wait_or_not),
        FAULTY(an_unauthorized_request_did_nothing),
        FAULTY(a_slow_answer_comes_after_seconds_or_too_late),
        FAULTY(an_answer_in_pieces_is_the_same_answer),
        FAULTY(the_next_page_of_a_list_may_be_gone),
        FAULTY(a_timeout_comes_at_its_millisecond),
        FAULTY(a_request_that_waits_for_ever_is_never_lost),
        STREAMS(a_watch_may_be_cut_inside_an_event),
        STREAMS(a_watch_may_end_cleanly),
        STREAMS(a_half_open_watch_fails_when_its_silence_is_too_long),
        STREAMS(a_half_open_watch_breaks_when_faults_end),
        STREAMS(events_of_a_resource_may_be_held_back_for_seconds),
        STREAMS(a_watch_may_begin_too_early),
        STREAMS(an_early_watch_does_not_go_behind_a_compaction),
        STREAMS(a_watch_may_be_gone_as_an_answer_or_as_an_event),
        STREAMS(an_event_in_pieces_is_told_with_its_last_one),
        CALM(in_an_outage_streams_end_and_connections_are_refused),
        CALM(all_is_not_quiet_while_a_first_watch_finds_nobody),
        CALM(what_was_on_its_way_when_the_outage_came_is_unknown),
        FAULTY(without_faults_a_late_effect_comes_at_once),
        CALM(after_a_long_bad_time_a_reflector_agrees_with_the_cluster),
        CALM(the_same_seed_gives_the_same_bytes),
    };
    return cmocka_run_group_tests_name("sim_api", tests, NULL, NULL);
}
