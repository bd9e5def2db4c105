#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/kube.h"
#include "milligpu/kube/reflector.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "sim_api.h"
#include "support/test.h"

enum {
    TRIES = 3000, /* runs of one request until its fault was met */
    TIMEOUT_MS = 5000,
    SILENCE_MS = 100 * 1000,
    MINUTE = 60 * 1000,
};

/* A process that sends one request at a time and keeps what it receives. */
struct fixture {
    struct fake_apiserver *fake;
    struct sim_api *api;
    struct kube_ops watch;
    struct kube_ops calls;
    int64_t now_ms;
    uint64_t id; /* of the last request */

    unsigned heads; /* of the current request, like everything below */
    unsigned pieces;
    bool ended;
    bool failed;
    bool unsent;
    enum err_code trouble;
    int status;
    int64_t retry_after_s;
    int64_t ended_ms;
    struct strbuf received;

    unsigned effects;
    bool ours;
    int64_t effect_ms;
    int effect_status;
    char effect_path[256];
    uint64_t pods_version;
    unsigned deliveries;
    struct strbuf journal; /* everything that was delivered */
    struct strbuf out;
};

/* ---- callbacks of sim_api ---- */

static int64_t fixed_wall(void *ctx)
{
    (void)ctx;
    return 1767323045678;
}

static void on_effect(void *user, const struct sim_effect *effect)
{
    struct fixture *fixture = user;

    fixture->effects++;
    fixture->ours = effect->ours;
    fixture->effect_ms = fixture->now_ms;
    fixture->effect_status = effect->status;
    (void)snprintf(fixture->effect_path, sizeof fixture->effect_path, "%s", effect->path);
    strbuf_printf(&fixture->journal, "effect %s %s %d %.*s\n", effect->method, effect->path,
                  effect->status, TEXT_ARG(effect->answer));
}

static void on_delivered(void *user, const char *resource, uint64_t version)
{
    struct fixture *fixture = user;

    if (strcmp(resource, "pods") == 0)
        fixture->pods_version = version;
    fixture->deliveries++;
    strbuf_printf(&fixture->journal, "told %s %llu\n", resource, (unsigned long long)version);
}

static void deliver(void *user, const struct kube_answer *answer)
{
    struct fixture *fixture = user;

    strbuf_printf(&fixture->journal, "%lld %llu %d %d %.*s\n", (long long)fixture->now_ms,
                  (unsigned long long)answer->id, (int)answer->piece, answer->status,
                  TEXT_ARG(answer->data));
    if (answer->id != fixture->id)
        return;
    assert_false(fixture->ended);
    fixture->status = answer->status;
    fixture->retry_after_s = answer->retry_after_s;
    fixture->heads += answer->piece == KUBE_HEAD;
    fixture->pieces += answer->piece == KUBE_DATA;
    fixture->ended = answer->piece == KUBE_DONE || answer->piece == KUBE_FAILED;
    fixture->failed = answer->piece == KUBE_FAILED;
    fixture->unsent = answer->unsent;
    fixture->trouble = answer->err != NULL ? answer->err->code : ERR_NONE;
    if (fixture->ended)
        fixture->ended_ms = fixture->now_ms;
    strbuf_text(&fixture->received, answer->data);
}

/* ---- the fixture ---- */

static struct fixture *fixture_new(uint64_t seed, uint32_t per_mille)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);

    fixture->fake = fake_apiserver_new("sim");
    fake_apiserver_set_clock(fixture->fake, fixed_wall, NULL);
    strbuf_init(&fixture->received);
    strbuf_init(&fixture->journal);
    strbuf_init(&fixture->out);
    const struct sim_api_rules rules = {.seed = seed,
                                        .fake = fixture->fake,
                                        .faults_per_mille = per_mille,
                                        .user = fixture,
                                        .effect = on_effect,
                                        .told = on_delivered};
    fixture->api = sim_api_new(&rules);
    sim_api_ops(fixture->api, &fixture->watch, &fixture->calls);
    return fixture;
}

static void fixture_free(struct fixture *fixture)
{
    sim_api_free(fixture->api);
    fake_apiserver_free(fixture->fake);
    strbuf_done(&fixture->received);
    strbuf_done(&fixture->journal);
    strbuf_done(&fixture->out);
    xfree(fixture);
}

static int set_up(void **state)
{
    *state = fixture_new(1, 0);
    return 0;
}

static int set_up_faulty(void **state)
{
    *state = fixture_new(1, 1000);
    return 0;
}

static int tear_down(void **state)
{
    fixture_free(*state);
    return 0;
}

#define FAULTY_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up_faulty, tear_down)

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

static uint64_t met(const struct fixture *fixture, enum sim_fault fault)
{
    return sim_api_met(fixture->api)[fault];
}

/* Advance time to the next event, but not past until_ms. */
static bool turn(struct fixture *fixture, int64_t until_ms)
{
    const int64_t next_ms = sim_api_next(fixture->api);

    if (next_ms > until_ms) {
        fixture->now_ms = until_ms;
        sim_api_now(fixture->api, until_ms);
        return false;
    }
    fixture->now_ms = next_ms > fixture->now_ms ? next_ms : fixture->now_ms;
    sim_api_now(fixture->api, fixture->now_ms);
    fixture->watch.poll(fixture->watch.ctx, 0, fixture, deliver);
    fixture->calls.poll(fixture->calls.ctx, 0, fixture, deliver);
    return true;
}

static void pass(struct fixture *fixture, int64_t ms)
{
    const int64_t until_ms = fixture->now_ms + ms;

    while (turn(fixture, until_ms)) {
    }
}

static void start(struct fixture *fixture, const struct kube_ops *ops,
                  const struct kube_request *request)
{
    struct kube_request copy = *request;
    struct err err;

    copy.id = ++fixture->id;
    fixture->heads = fixture->pieces = 0;
    fixture->ended = fixture->failed = fixture->unsent = false;
    fixture->trouble = ERR_NONE;
    fixture->status = 0;
    strbuf_reset(&fixture->received);
    fixture->effects = 0;
    assert_int_equal(ops->start(ops->ctx, &copy, &err), 0);
}

static void ask(struct fixture *fixture, const char *method, const char *path, const char *body)
{
    start(fixture, &fixture->calls,
          &(struct kube_request){.method = method,
                                 .path = path,
                                 .content_type = body[0] != '\0' ? "application/json" : NULL,
                                 .body = text_of(body),
                                 .timeout_ms = TIMEOUT_MS});
}

/* Run the current request to its end. */
static void finish(struct fixture *fixture)
{
    for (unsigned i = 0; i < 1000 && !fixture->ended; i++)
        (void)turn(fixture, fixture->now_ms + MINUTE);
    assert_true(fixture->ended);
}

static void request(struct fixture *fixture, const char *method, const char *path, const char *body)
{
    const int status = sim_api_request(fixture->api, method, path, body, &fixture->out);
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

static void add_pods(struct fixture *fixture, unsigned from, unsigned count)
{
    for (unsigned i = from; i < from + count; i++)
        request(fixture, "POST", PODS, pod_body(i));
}

static void begin_watch(struct fixture *fixture, uint64_t version, unsigned timeout_s)
{
    char path[256];

    (void)snprintf(path, sizeof path,
                   "/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=%u"
                   "&resourceVersion=%llu",
                   timeout_s, (unsigned long long)version);
    start(fixture, &fixture->watch,
          &(struct kube_request){
              .method = "GET", .path = path, .silence_ms = SILENCE_MS, .body = TEXT("")});
}

static void watch_from_now(struct fixture *fixture)
{
    begin_watch(fixture, fake_apiserver_version(fixture->fake), 100000);
}

static unsigned count(const struct fixture *fixture, const char *part)
{
    unsigned found = 0;

    for (const char *at = fixture->received.data; (at = strstr(at, part)) != NULL; at++)
        found++;
    return found;
}

/* ---- a good network ---- */

FIXTURE_TEST(request__takes_effect_before_its_answer)
{
    ask(fixture, "POST", PODS, pod_body(1));
    assert_int_equal(fixture->effects, 0);
    finish(fixture);
    assert_int_equal(fixture->status, 201);
    assert_false(fixture->failed);
    assert_int_equal(fixture->heads, 1);
    assert_int_equal(fixture->effects, 1);
    assert_true(fixture->ours);
    assert_int_equal(fixture->effect_status, 201);
    assert_string_equal(fixture->effect_path, PODS);
    assert_true(fixture->effect_ms < fixture->ended_ms);
    assert_non_null(strstr(fixture->received.data, "\"name\":\"p1\""));
    assert_true(sim_api_quiet(fixture->api));
    assert_int_equal(sim_api_next(fixture->api), INT64_MAX);
}

FIXTURE_TEST(actor__is_answered_at_once_and_watches_see_its_effect)
{
    sim_api_outage(fixture->api, 1000);
    add_pods(fixture, 1, 1);
    assert_int_equal(fixture->effects, 1);
    assert_false(fixture->ours);
    assert_int_equal(sim_api_request(fixture->api, "GET", PODS "/nobody", "", &fixture->out), 404);
    assert_int_equal(fixture->effects, 2);
    assert_int_equal(fixture->effect_status, 404);
}

FIXTURE_TEST(watch__sends_every_change_once_and_in_order)
{
    const char *last = NULL;

    watch_from_now(fixture);
    for (unsigned i = 0; i < 50; i++) {
        add_pods(fixture, i, 1);
        pass(fixture, i % 7);
    }
    assert_false(sim_api_quiet(fixture->api));
    pass(fixture, 100);
    assert_true(sim_api_quiet(fixture->api));
    assert_int_equal(count(fixture, "ADDED"), 50);
    for (unsigned i = 0; i < 50; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "\"name\":\"p%u\"", i);
        const char *at = strstr(fixture->received.data, name);
        assert_non_null(at);
        assert_true(last == NULL || at > last);
        last = at;
    }
    assert_int_equal(fixture->pods_version, fake_apiserver_version(fixture->fake));
    assert_int_equal(fixture->deliveries, 50);
}

FIXTURE_TEST(watch__of_pods_ignores_writes_to_nodes)
{
    watch_from_now(fixture);
    pass(fixture, 100);
    request(fixture, "POST", "/api/v1/nodes", "{\"metadata\":{\"name\":\"pods\"}}");
    request(fixture, "PATCH", "/api/v1/nodes/pods", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    assert_true(sim_api_quiet(fixture->api));
    pass(fixture, 100);
    assert_int_equal(fixture->pieces, 0);
}

FIXTURE_TEST(list__answers_with_its_last_page)
{
    char path[256];

    add_pods(fixture, 0, 3);
    const uint64_t version = fake_apiserver_version(fixture->fake);
    ask(fixture, "GET", "/api/v1/pods?limit=2", "");
    finish(fixture);
    assert_int_equal(fixture->deliveries, 0);
    const char *token = strstr(fixture->received.data, "\"continue\":\"");
    assert_non_null(token);
    token += strlen("\"continue\":\"");
    (void)snprintf(path, sizeof path, "/api/v1/pods?limit=2&continue=%.*s",
                   (int)strcspn(token, "\""), token);
    add_pods(fixture, 3, 1);
    ask(fixture, "GET", path, "");
    finish(fixture);
    assert_int_equal(fixture->pods_version, version);
    /* Some pods of one namespace are not all pods. */
    ask(fixture, "GET", PODS, "");
    finish(fixture);
    assert_int_equal(fixture->deliveries, 1);
}

FIXTURE_TEST(bookmark__comes_each_minute_and_right_before_the_end)
{
    begin_watch(fixture, fake_apiserver_version(fixture->fake), 200);
    pass(fixture, 70 * 1000);
    assert_int_equal(count(fixture, "BOOKMARK"), 1);
    request(fixture, "POST", "/api/v1/nodes", "{\"metadata\":{\"name\":\"n\"}}");
    pass(fixture, 129 * 1000);
    assert_int_equal(count(fixture, "BOOKMARK"), 3);
    assert_false(fixture->ended);
    finish(fixture);
    assert_false(fixture->failed);
    assert_int_equal(count(fixture, "BOOKMARK"), 4);
    assert_int_equal(met(fixture, SIM_BOOKMARK), 4);
    assert_int_equal(fixture->pods_version, fake_apiserver_version(fixture->fake));
    assert_true(fixture->ended_ms >= 200 * 1000);
    assert_int_equal(sim_api_next(fixture->api), INT64_MAX);
}

FIXTURE_TEST(compaction__gives_410_to_watches_and_pages)
{
    add_pods(fixture, 0, 40);
    request(fixture, "GET", "/api/v1/pods?limit=2", ""); /* the first list: its token is known */
    assert_non_null(strstr(fixture->out.data, "\"continue\":\"1.0\""));
    sim_api_compact(fixture->api);
    begin_watch(fixture, 2, 100);
    finish(fixture);
    assert_false(fixture->failed);
    assert_int_equal(count(fixture, "\"code\":410"), 1);
    assert_int_equal(met(fixture, SIM_GONE_EVENT), 1);
    ask(fixture, "GET", "/api/v1/pods?limit=2&continue=1.0", "");
    finish(fixture);
    assert_int_equal(fixture->status, 410);
    assert_int_equal(met(fixture, SIM_GONE_CONTINUE), 1);
    /* Delivered versions are not compacted away. */
    watch_from_now(fixture);
    pass(fixture, 100);
    add_pods(fixture, 40, 1);
    sim_api_compact(fixture->api);
    add_pods(fixture, 41, 1);
    pass(fixture, 100);
    assert_int_equal(count(fixture, "ADDED"), 2);
    assert_int_equal(count(fixture, "ERROR"), 0);
}

FIXTURE_TEST(cancelled_request__gets_no_answer_and_may_take_effect)
{
    ask(fixture, "POST", PODS, pod_body(1));
    fixture->calls.cancel(fixture->calls.ctx, fixture->id);
    pass(fixture, MINUTE);
    assert_int_equal(fixture->heads, 0);
    assert_int_equal(fixture->effects, 1);
    watch_from_now(fixture);
    fixture->watch.cancel(fixture->watch.ctx, fixture->id);
    fixture->watch.cancel(fixture->watch.ctx, fixture->id);
    pass(fixture, MINUTE);
    assert_int_equal(fixture->heads, 0);
    assert_int_equal(sim_api_next(fixture->api), INT64_MAX);
}

FIXTURE_TEST(cancel__drops_ready_answers)
{
    ask(fixture, "POST", PODS, pod_body(1));
    sim_api_now(fixture->api, 1000);
    assert_int_equal(fixture->effects, 1);
    assert_false(sim_api_quiet(fixture->api));
    fixture->calls.cancel(fixture->calls.ctx, fixture->id);
    fixture->calls.poll(fixture->calls.ctx, 0, fixture, deliver);
    assert_int_equal(fixture->heads, 0);
    assert_true(sim_api_quiet(fixture->api));
}

/* ---- the process dies ---- */

FIXTURE_TEST(dead_process__may_have_its_requests_take_effect)
{
    unsigned effects = 0;
    struct err err;

    for (unsigned i = 0; i < 64; i++) {
        struct kube_ops old_watch = fixture->watch;
        struct kube_ops old_calls = fixture->calls;
        watch_from_now(fixture);
        ask(fixture, "POST", PODS, pod_body(i));
        sim_api_gone(fixture->api);
        const struct kube_request late = {.id = 1000 + i, .method = "GET", .path = "/version"};
        assert_true(old_calls.start(old_calls.ctx, &late, &err) < 0);
        old_calls.cancel(old_calls.ctx, fixture->id);
        old_calls.poll(old_calls.ctx, 0, fixture, deliver);
        old_calls.free(old_calls.ctx);
        old_watch.free(old_watch.ctx);
        sim_api_ops(fixture->api, &fixture->watch, &fixture->calls);
        pass(fixture, MINUTE);
        assert_int_equal(fixture->heads, 0);
        assert_true(fixture->effects == 0 || fixture->ours);
        effects += fixture->effects;
        assert_true(sim_api_quiet(fixture->api));
    }
    assert_true(effects > 0 && effects < 64);
}

static void die(void *user, const struct kube_answer *answer)
{
    struct fixture *fixture = user;

    assert_int_equal(answer->piece, KUBE_HEAD);
    fixture->heads++;
    sim_api_gone(fixture->api);
}

FIXTURE_TEST(process__may_die_while_it_is_answered)
{
    ask(fixture, "POST", PODS, pod_body(1));
    sim_api_now(fixture->api, 1000);
    fixture->calls.poll(fixture->calls.ctx, 0, fixture, die);
    assert_int_equal(fixture->heads, 1);
    fixture->calls.poll(fixture->calls.ctx, 0, fixture, die);
    assert_int_equal(fixture->heads, 1);
    fixture->calls.free(fixture->calls.ctx);
    fixture->watch.free(fixture->watch.ctx);
    assert_true(sim_api_quiet(fixture->api));
}

static jmp_buf grave;

static void die_by_jumping(void *user, const struct kube_answer *answer)
{
    (void)user;
    (void)answer;
    longjmp(grave, 1);
}

FIXTURE_TEST(process__may_jump_out_of_its_answer)
{
    ask(fixture, "POST", PODS, pod_body(1));
    sim_api_now(fixture->api, 1000);
    if (setjmp(grave) == 0) {
        fixture->calls.poll(fixture->calls.ctx, 0, fixture, die_by_jumping);
        fail_msg("deliver came back");
    }
    sim_api_gone(fixture->api);
    assert_true(sim_api_quiet(fixture->api));
    sim_api_ops(fixture->api, &fixture->watch, &fixture->calls);
    ask(fixture, "GET", PODS "/p1", "");
    finish(fixture);
    assert_int_equal(fixture->status, 200);
}

/* ---- what goes wrong with requests ---- */

/* Repeat until that fault was met; its answer is then in the fixture. */
static void until_met(struct fixture *fixture, enum sim_fault fault, const char *method)
{
    static unsigned number;

    for (unsigned i = 0; i < TRIES; i++) {
        const uint64_t before = met(fixture, fault);
        const bool post = strcmp(method, "POST") == 0;
        ask(fixture, method, PODS, post ? pod_body(number++) : "");
        finish(fixture);
        pass(fixture, 7 * 60 * MINUTE); /* late effects, too */
        if (met(fixture, fault) > before)
            return;
    }
    fail_msg("fault %d was not met", (int)fault);
}

static int64_t began_ms(const struct fixture *fixture)
{
    return fixture->ended_ms - TIMEOUT_MS;
}

static void expect_timeout(const struct fixture *fixture)
{
    assert_true(fixture->failed);
    assert_false(fixture->unsent);
    assert_int_equal(fixture->trouble, ERR_TIMEOUT);
    assert_int_equal(fixture->heads, 0);
    assert_int_equal(sim_api_felt_ms(fixture->api), fixture->ended_ms); /* later than it was met */
}

FAULTY_TEST(late_effect__follows_its_timeout)
{
    until_met(fixture, SIM_LATE_EFFECT, "POST");
    expect_timeout(fixture);
    assert_int_equal(fixture->effects, 1);
    assert_true(fixture->ours);
    assert_int_equal(fixture->effect_status, 201);
    assert_true(fixture->effect_ms > fixture->ended_ms);
}

/* A minute late, or hours: the API server promises nothing. */
FAULTY_TEST(late_effect__may_follow_hours_later)
{
    int64_t latest_ms = 0;

    for (unsigned i = 0; i < 16; i++) {
        until_met(fixture, SIM_LATE_EFFECT, "POST");
        if (fixture->effect_ms - fixture->ended_ms > latest_ms)
            latest_ms = fixture->effect_ms - fixture->ended_ms;
    }
    assert_true(latest_ms > 10 * MINUTE);
}

FAULTY_TEST(late_effect__may_be_bounded)
{
    sim_api_faults(fixture->api, 1000);
    for (unsigned i = 0; i < 100; i++)
        ask(fixture, "POST", PODS, pod_body(5000 + i));
    finish(fixture);
    sim_api_late_within(fixture->api, MINUTE);
    sim_api_faults(fixture->api, 0);
    pass(fixture, 2 * MINUTE);
    const unsigned effects = fixture->effects;
    pass(fixture, 12 * 60 * MINUTE);
    assert_int_equal(fixture->effects, effects);
}

FAULTY_TEST(lost_request__never_takes_effect)
{
    until_met(fixture, SIM_LOST_REQUEST, "POST");
    expect_timeout(fixture);
    assert_int_equal(fixture->effects, 0);
}

FAULTY_TEST(lost_answer__is_a_timeout_after_the_effect)
{
    until_met(fixture, SIM_LOST_ANSWER, "POST");
    expect_timeout(fixture);
    assert_int_equal(fixture->effects, 1);
    assert_true(fixture->effect_ms < fixture->ended_ms);
    assert_true(fixture->effect_ms > began_ms(fixture));
}

FAULTY_TEST(broken_answer__has_a_head_and_no_end)
{
    until_met(fixture, SIM_BROKEN_ANSWER, "POST");
    assert_true(fixture->failed);
    assert_false(fixture->unsent);
    assert_int_equal(fixture->heads, 1);
    assert_int_equal(fixture->status, 201);
    assert_int_equal(fixture->effects, 1);
    assert_int_not_equal(fixture->received.data[fixture->received.len - 1], '}');
}

FAULTY_TEST(refused_connection__is_certainly_unsent)
{
    until_met(fixture, SIM_REFUSED, "POST");
    assert_true(fixture->failed);
    assert_true(fixture->unsent);
    assert_int_equal(fixture->effects, 0);
}

FAULTY_TEST(error_before__leaves_no_effect)
{
    until_met(fixture, SIM_ERROR_BEFORE, "POST");
    assert_false(fixture->failed);
    assert_true(fixture->status == 500 || fixture->status == 503 || fixture->status == 504);
    assert_int_equal(count(fixture, "\"status\":\"Failure\""), 1);
    assert_int_equal(fixture->effects, 0);
}

FAULTY_TEST(error_after__hides_an_effect)
{
    until_met(fixture, SIM_ERROR_AFTER, "POST");
    assert_false(fixture->failed);
    assert_true(fixture->status == 500 || fixture->status == 504);
    assert_int_equal(fixture->effects, 1);
    assert_int_equal(fixture->effect_status, 201);
}

FAULTY_TEST(throttled_request__has_an_optional_delay)
{
    unsigned with = 0;
    unsigned without = 0;

    for (unsigned i = 0; i < 100 && (with == 0 || without == 0); i++) {
        until_met(fixture, SIM_THROTTLED, "POST");
        assert_int_equal(fixture->status, 429);
        assert_int_equal(fixture->effects, 0);
        with += fixture->retry_after_s > 0;
        without += fixture->retry_after_s == 0;
    }
    assert_true(with > 0 && without > 0);
}

FAULTY_TEST(unauthorized_request__has_no_effect)
{
    until_met(fixture, SIM_UNAUTHORIZED, "POST");
    assert_int_equal(fixture->status, 401);
    assert_int_equal(fixture->effects, 0);
}

FAULTY_TEST(slow_answer__takes_seconds_or_times_out)
{
    unsigned in_time = 0;
    unsigned too_late = 0;

    for (unsigned i = 0; i < 100 && (in_time == 0 || too_late == 0); i++) {
        until_met(fixture, SIM_SLOW, "POST");
        assert_int_equal(fixture->effects, 1);
        assert_true(fixture->ended_ms - fixture->effect_ms >= 1000);
        if (fixture->failed)
            expect_timeout(fixture);
        else
            assert_int_equal(fixture->status, 201);
        too_late += fixture->failed;
        in_time += !fixture->failed;
    }
    assert_true(in_time > 0 && too_late > 0);
}

FAULTY_TEST(answer_in_pieces__equals_the_whole_answer)
{
    until_met(fixture, SIM_CHUNKS, "POST");
    assert_int_equal(fixture->status, 201);
    assert_false(fixture->failed);
    assert_true(fixture->pieces > 10);
    assert_int_equal(fixture->received.data[fixture->received.len - 1], '}');
    assert_int_equal(count(fixture, "\"kind\":\"Pod\""), 1);
}

FAULTY_TEST(list_page__may_be_gone)
{
    add_pods(fixture, 0, 4);
    for (unsigned i = 0; i < TRIES && met(fixture, SIM_GONE_CONTINUE) == 0; i++) {
        assert_int_equal(
            sim_api_request(fixture->api, "GET", "/api/v1/pods?limit=2", "", &fixture->out), 200);
        const char *token =
            strstr(fixture->out.data, "\"continue\":\"") + strlen("\"continue\":\"");
        char path[128];
        (void)snprintf(path, sizeof path, "/api/v1/pods?limit=2&continue=%.*s",
                       (int)strcspn(token, "\""), token);
        ask(fixture, "GET", path, "");
        finish(fixture);
    }
    assert_int_equal(met(fixture, SIM_GONE_CONTINUE), 1);
    assert_int_equal(fixture->status, 410);
    assert_int_equal(count(fixture, "\"reason\":\"Expired\""), 1);
}

FAULTY_TEST(timeout__comes_at_its_millisecond)
{
    for (unsigned i = 0; i < 100; i++) {
        const int64_t asked_ms = fixture->now_ms;
        ask(fixture, "GET", PODS, "");
        finish(fixture);
        assert_true(fixture->ended_ms <= asked_ms + TIMEOUT_MS);
        if (fixture->trouble == ERR_TIMEOUT)
            assert_int_equal(fixture->ended_ms, asked_ms + TIMEOUT_MS);
    }
    assert_true(met(fixture, SIM_LOST_REQUEST) > 0);
}

FAULTY_TEST(unlimited_request__is_never_lost)
{
    for (unsigned i = 0; i < 200; i++) {
        start(fixture, &fixture->calls, &(struct kube_request){.method = "GET", .path = PODS});
        finish(fixture);
    }
    assert_int_equal(met(fixture, SIM_LOST_REQUEST) + met(fixture, SIM_LOST_ANSWER), 0);
}

/* ---- what goes wrong with watches ---- */

/* Watch while pods come until that fault was met; false: this watch ended without it. */
static bool watch_meets(struct fixture *fixture, enum sim_fault fault, unsigned *pods)
{
    const uint64_t before = met(fixture, fault);

    watch_from_now(fixture);
    for (unsigned i = 0; i < 100 && !fixture->ended && met(fixture, fault) == before; i++) {
        add_pods(fixture, (*pods)++, 1);
        pass(fixture, 100);
    }
    return met(fixture, fault) > before;
}

static void until_watch_met(struct fixture *fixture, enum sim_fault fault)
{
    static unsigned pods = 1000000;

    for (unsigned i = 0; i < TRIES; i++) {
        if (watch_meets(fixture, fault, &pods))
            return;
        fixture->watch.cancel(fixture->watch.ctx, fixture->id);
    }
    fail_msg("fault %d was not met", (int)fault);
}

/* 200 or so: a stream lives for some seconds. */
static int set_up_streams(void **state)
{
    *state = fixture_new(1, 200);
    return 0;
}

#define STREAMS_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up_streams, tear_down)

STREAMS_TEST(watch__may_be_cut_inside_an_event)
{
    unsigned clean = 0;
    unsigned broken = 0;

    for (unsigned i = 0; i < 100 && (clean == 0 || broken == 0); i++) {
        until_watch_met(fixture, SIM_WATCH_CUT);
        finish(fixture);
        clean += !fixture->failed;
        broken += fixture->failed;
        assert_true(fixture->received.len > 0);
        assert_int_not_equal(fixture->received.data[fixture->received.len - 1], '\n');
    }
    assert_true(clean > 0 && broken > 0);
}

STREAMS_TEST(watch__may_end_cleanly)
{
    until_watch_met(fixture, SIM_WATCH_END);
    finish(fixture);
    assert_false(fixture->failed);
    assert_int_equal(fixture->status, 200);
    /* Events are not delivered from here on until there is a watch again. */
    sim_api_faults(fixture->api, 0);
    pass(fixture, MINUTE);
    assert_false(sim_api_quiet(fixture->api));
    watch_from_now(fixture);
    pass(fixture, 100);
    assert_true(sim_api_quiet(fixture->api));
}

STREAMS_TEST(half_open_watch__fails_when_silent_too_long)
{
    until_watch_met(fixture, SIM_WATCH_SILENT);
    const size_t received = fixture->received.len;
    const int64_t silent_ms = fixture->now_ms;
    assert_false(sim_api_quiet(fixture->api));
    add_pods(fixture, 0, 3);
    finish(fixture);
    assert_true(fixture->failed);
    assert_int_equal(fixture->trouble, ERR_TIMEOUT);
    assert_int_equal(fixture->received.len, received);
    assert_true(fixture->ended_ms > silent_ms + SILENCE_MS / 2);
    assert_true(fixture->ended_ms <= silent_ms + SILENCE_MS);
}

STREAMS_TEST(half_open_watch__breaks_when_faults_end)
{
    until_watch_met(fixture, SIM_WATCH_SILENT);
    sim_api_faults(fixture->api, 0);
    pass(fixture, 2);
    assert_true(fixture->ended);
    assert_int_equal(fixture->trouble, ERR_IO);
}

STREAMS_TEST(events__of_a_resource_may_be_delayed_for_seconds)
{
    until_watch_met(fixture, SIM_WATCH_DELAY);
    assert_false(sim_api_quiet(fixture->api));
    /* Faults have ended: they are released. */
    sim_api_faults(fixture->api, 0);
    pass(fixture, 2);
    assert_true(sim_api_quiet(fixture->api));
    assert_int_equal(fixture->pods_version, fake_apiserver_version(fixture->fake));
}

STREAMS_TEST(watch__may_begin_too_early)
{
    bool met_it = false;

    add_pods(fixture, 0, 50);
    const uint64_t version = fake_apiserver_version(fixture->fake);
    for (unsigned i = 0; i < TRIES && !met_it; i++) {
        watch_from_now(fixture);
        pass(fixture, 100);
        met_it = met(fixture, SIM_REPEAT) > 0;
        fixture->watch.cancel(fixture->watch.ctx, fixture->id);
    }
    assert_true(met_it);
    assert_true(count(fixture, "ADDED") >= 1);
    assert_int_equal(fixture->pods_version, version);
}

STREAMS_TEST(early_watch__does_not_go_behind_a_compaction)
{
    add_pods(fixture, 0, 50);
    sim_api_compact(fixture->api);
    for (unsigned i = 0; i < 500; i++) {
        sim_api_faults(fixture->api, 1000);
        watch_from_now(fixture);
        sim_api_faults(fixture->api,
                       1); /* what may happen to it is chosen; the stream is left alone */
        pass(fixture, 20);
        fixture->watch.cancel(fixture->watch.ctx, fixture->id);
    }
    assert_int_equal(met(fixture, SIM_GONE_EVENT), 0);
    assert_int_equal(met(fixture, SIM_REPEAT), 0);
    assert_true(met(fixture, SIM_GONE_HTTP) > 0);
}

STREAMS_TEST(gone_watch__is_an_answer_or_an_event)
{
    until_watch_met(fixture, SIM_GONE_HTTP);
    finish(fixture);
    assert_int_equal(fixture->status, 410);
    assert_false(fixture->failed);
    until_watch_met(fixture, SIM_GONE_EVENT);
    finish(fixture);
    assert_int_equal(fixture->status, 200);
    assert_false(fixture->failed);
    assert_int_equal(count(fixture, "\"code\":410"), 1);
    const char *error = strstr(fixture->received.data, "{\"type\":\"ERROR\"");
    assert_non_null(error);
    assert_ptr_equal(strchr(error, '\n'), fixture->received.data + fixture->received.len - 1);
}

STREAMS_TEST(event_in_pieces__is_delivered_with_its_last_piece)
{
    until_watch_met(fixture, SIM_CHUNKS);
    const unsigned before = fixture->deliveries;
    sim_api_faults(fixture->api, 0);
    pass(fixture, 1000);
    assert_int_equal(fixture->received.data[fixture->received.len - 1], '\n');
    assert_true(fixture->deliveries >= before);
    assert_int_equal(fixture->pods_version, fake_apiserver_version(fixture->fake));
    assert_true(fixture->pieces > count(fixture, "\n"));
}

/* ---- the API server away ---- */

FIXTURE_TEST(outage__ends_streams_and_refuses_connections)
{
    watch_from_now(fixture);
    pass(fixture, 100);
    sim_api_outage(fixture->api, fixture->now_ms + 10000);
    finish(fixture);
    assert_true(fixture->failed);
    assert_false(fixture->unsent);
    assert_int_equal(met(fixture, SIM_OUTAGE), 1);
    ask(fixture, "POST", PODS, pod_body(1));
    finish(fixture);
    assert_true(fixture->unsent);
    assert_int_equal(fixture->effects, 0);
    assert_int_equal(met(fixture, SIM_OUTAGE), 2);
    pass(fixture, 10000);
    ask(fixture, "POST", PODS, pod_body(1));
    finish(fixture);
    assert_int_equal(fixture->status, 201);
    sim_api_outage(fixture->api, fixture->now_ms + 10000);
    sim_api_faults(fixture->api, 0);
    ask(fixture, "POST", PODS, pod_body(2));
    finish(fixture);
    assert_int_equal(fixture->status, 201);
}

/* Between a list and the first watch that opens, the client receives nothing. */
FIXTURE_TEST(quiet__is_false_while_a_first_watch_cannot_connect)
{
    sim_api_outage(fixture->api, fixture->now_ms + 10000);
    watch_from_now(fixture);
    finish(fixture);
    assert_true(fixture->unsent);
    assert_false(sim_api_quiet(fixture->api));
    pass(fixture, 10000);
    watch_from_now(fixture);
    pass(fixture, 100);
    assert_true(sim_api_quiet(fixture->api));
}

FIXTURE_TEST(pending_request__is_unknown_after_an_outage)
{
    unsigned effects = 0;

    for (unsigned i = 0; i < 64; i++) {
        ask(fixture, "POST", PODS, pod_body(i));
        sim_api_outage(fixture->api, fixture->now_ms + 1000);
        pass(fixture, 2000);
        assert_true(fixture->failed);
        assert_false(fixture->unsent);
        effects += fixture->effects;
    }
    assert_true(effects > 0 && effects < 64);
}

FAULTY_TEST(late_effect__comes_at_once_without_faults)
{
    for (unsigned i = 0; i < 100; i++) {
        sim_api_faults(fixture->api, 1000);
        ask(fixture, "POST", PODS, pod_body(i));
        pass(fixture, 10);
        sim_api_faults(fixture->api, 0);
        const unsigned before = fixture->effects;
        pass(fixture, 10);
        if (fixture->effects > before) {
            assert_true(fixture->ended);
            assert_int_equal(fixture->status, 201);
            return;
        }
        finish(fixture);
    }
    fail_msg("no effect was late");
}

/* ---- everything together, for a long time ---- */

enum { NAMES = 40, BASE_NODES = 1, BASE_PODS = 2 };

/* One resource: what a client believes, and what was written. */
struct mirror {
    struct sim_api_fixture *core;
    struct reflector *reflector;
    const char *plural;
    const char *prefix;
    uint64_t known[NAMES]; /* resourceVersion; 0: does not exist */
    uint64_t listed[NAMES];
    uint64_t written[NAMES]; /* the last write, or the deletion */
    uint64_t alive[NAMES];   /* what the cluster has; 0: nothing */
    unsigned lists;
};

struct sim_api_fixture {
    struct fixture *fixture;
    uint64_t random;
    struct mirror mirror[2];
};

static uint64_t draw(struct sim_api_fixture *core, uint64_t bound)
{
    core->random = core->random * 6364136223846793005U + 1442695040888963407U;
    return (core->random >> 33) % bound;
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

/* "Delivered up to version" is true: no earlier write is unknown. */
static void core_delivered(void *user, const char *resource, uint64_t version)
{
    struct sim_api_fixture *core = user;
    const struct mirror *mirror = &core->mirror[strcmp(resource, "pods") == 0];

    core->fixture->deliveries++;
    for (unsigned i = 0; i < NAMES; i++)
        if (mirror->written[i] <= version)
            assert_int_equal(mirror->known[i], mirror->alive[i]);
}

static void core_deliver(void *user, const struct kube_answer *answer)
{
    struct sim_api_fixture *core = user;

    for (unsigned i = 0; i < 2; i++)
        (void)reflector_answer(core->mirror[i].reflector, core->fixture->now_ms, answer);
}

/* An actor creates, changes or removes one object. */
static void write_one(struct sim_api_fixture *core)
{
    struct fixture *fixture = core->fixture;
    struct mirror *mirror = &core->mirror[draw(core, 2)];
    const unsigned slot = (unsigned)draw(core, NAMES);
    const uint64_t change = draw(core, 3);
    char path[128];
    char body[256];

    (void)snprintf(path, sizeof path, "%s/x%u", mirror->prefix, slot);
    if (mirror->alive[slot] == 0) {
        (void)snprintf(
            body, sizeof body,
            "{\"metadata\":{\"name\":\"x%u\"},\"spec\":{\"containers\":[{\"name\":\"c\"}]}}", slot);
        request(fixture, "POST", mirror->prefix, body);
    } else if (change == 0) {
        request(fixture, "DELETE", path, "");
    } else {
        (void)snprintf(body, sizeof body, "{\"metadata\":{\"labels\":{\"a\":\"%llu\"}}}",
                       (unsigned long long)core->random);
        request(fixture, "PATCH", path, body);
    }
    mirror->written[slot] = fake_apiserver_version(fixture->fake);
    mirror->alive[slot] = change == 0 && mirror->alive[slot] != 0 ? 0 : mirror->written[slot];
}

static void core_turn(struct sim_api_fixture *core, int64_t ms)
{
    struct fixture *fixture = core->fixture;
    const int64_t until_ms = fixture->now_ms + ms;
    int64_t next_ms = fixture->now_ms;

    do {
        fixture->now_ms = next_ms;
        sim_api_now(fixture->api, fixture->now_ms);
        fixture->watch.poll(fixture->watch.ctx, 0, core, core_deliver);
        next_ms = until_ms;
        for (unsigned i = 0; i < 2; i++) {
            const int64_t wait_ms = reflector_step(core->mirror[i].reflector, fixture->now_ms);
            if (fixture->now_ms + wait_ms < next_ms)
                next_ms = fixture->now_ms + (wait_ms > 0 ? wait_ms : 1);
        }
        if (sim_api_next(fixture->api) < next_ms)
            next_ms = sim_api_next(fixture->api);
    } while (next_ms < until_ms);
    fixture->now_ms = until_ms;
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
    return reflector_new(&rules, &mirror->core->fixture->watch, &sink);
}

static void live(struct sim_api_fixture *core, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        write_one(core);
        core_turn(core, 1 + (int64_t)draw(core, 1000));
        if (draw(core, 2000) == 0)
            sim_api_outage(core->fixture->api,
                           core->fixture->now_ms + 1 + (int64_t)draw(core, MINUTE));
        if (draw(core, 500) == 0)
            sim_api_compact(core->fixture->api);
    }
}

static void all_faults_but_those_of_writes_were_met(const struct fixture *fixture)
{
    for (enum sim_fault fault = 0; fault < SIM_FAULTS; fault++)
        if (fault != SIM_LATE_EFFECT && fault != SIM_ERROR_AFTER && met(fixture, fault) == 0)
            fail_msg("fault %d was not met", (int)fault);
}

FIXTURE_TEST(reflector__agrees_with_the_cluster_after_many_faults)
{
    struct sim_api_fixture core = {.fixture = fixture, .random = 7};
    const struct sim_api_rules rules = {.seed = 3,
                                        .fake = fixture->fake,
                                        .faults_per_mille = 200,
                                        .user = &core,
                                        .told = core_delivered};

    sim_api_free(fixture->api);
    fixture->api = sim_api_new(&rules);
    sim_api_ops(fixture->api, &fixture->watch, &fixture->calls);
    core.mirror[0] = (struct mirror){.core = &core, .prefix = "/api/v1/nodes"};
    core.mirror[1] = (struct mirror){.core = &core, .prefix = PODS};
    for (unsigned i = 0; i < 2; i++)
        core.mirror[i].reflector = open_mirror(&core.mirror[i], i + 1);
    live(&core, 10000);
    sim_api_faults(fixture->api, 10);
    live(&core, 10000);
    all_faults_but_those_of_writes_were_met(fixture);
    sim_api_faults(fixture->api, 0);
    for (unsigned i = 0; i < 100 && !sim_api_quiet(fixture->api); i++)
        core_turn(&core, MINUTE);
    assert_true(sim_api_quiet(fixture->api));
    for (unsigned i = 0; i < 2; i++) {
        assert_memory_equal(core.mirror[i].known, core.mirror[i].alive,
                            sizeof core.mirror[i].known);
        assert_true(core.mirror[i].lists > 10);
    }
    assert_true(fixture->deliveries > 1000);
    for (unsigned i = 0; i < 2; i++)
        reflector_free(core.mirror[i].reflector);
}

/* Everything that was delivered in a short, bad life. */
static char *life(uint64_t seed)
{
    struct fixture *fixture = fixture_new(seed, 300);
    unsigned pods = 0;

    for (unsigned i = 0; i < 60; i++) {
        watch_from_now(fixture);
        for (unsigned k = 0; k < 20; k++) {
            add_pods(fixture, pods++, 1);
            ask(fixture, "POST", PODS, pod_body(pods++));
            pass(fixture, 200);
        }
        if (i % 20 == 19)
            sim_api_outage(fixture->api, fixture->now_ms + 500);
        if (i % 30 == 29) {
            sim_api_gone(fixture->api);
            sim_api_ops(fixture->api, &fixture->watch, &fixture->calls);
        }
    }
    for (enum sim_fault fault = 0; fault < SIM_FAULTS; fault++)
        strbuf_printf(&fixture->journal, "%llu ", (unsigned long long)met(fixture, fault));
    char *journal = strbuf_steal(&fixture->journal);
    fixture_free(fixture);
    return journal;
}

FIXTURE_TEST(seed__gives_the_same_bytes_again)
{
    CLEANUP(xfreep) char *first = life(7);
    CLEANUP(xfreep) char *second = life(7);
    CLEANUP(xfreep) char *other = life(8);

    assert_true(strlen(first) > 100000);
    assert_string_equal(first, second);
    assert_string_not_equal(first, other);
}
