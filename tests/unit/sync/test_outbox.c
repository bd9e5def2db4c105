#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/kube/kube.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"

#include "support/test.h"
#include "sync/flow.h"

/* An API server that gives the answers of the test, one request at a time. */
struct script {
    struct outbox *outbox;
    struct kube_request last;
    char method[16];
    char path[256];
    char body[2048];
    uint32_t started;
    uint32_t cancelled;
    struct message *result;
    uint32_t n_results;
    uint32_t outcomes[4]; /* by outcome */
    uint64_t in_flight[4096];
    uint32_t n_in_flight;
    bool seen[4096]; /* Bindings of pod p0, p1, ... */
    uint32_t tries_again;
    int64_t now;
};

static void forget_request(struct script *script, uint64_t id)
{
    for (uint32_t i = 0; i < script->n_in_flight; i++)
        if (script->in_flight[i] == id) {
            script->in_flight[i] = script->in_flight[--script->n_in_flight];
            return;
        }
}

static int script_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct script *script = ctx;

    (void)err;
    script->last = *request;
    script->started++;
    script->in_flight[script->n_in_flight++] = request->id;
    unsigned pod;
    if (sscanf(request->path, "/api/v1/namespaces/ns/pods/p%u/binding", &pod) == 1) {
        script->tries_again += script->seen[pod];
        script->seen[pod] = true;
    }
    (void)snprintf(script->method, sizeof script->method, "%s", request->method);
    (void)snprintf(script->path, sizeof script->path, "%s", request->path);
    (void)snprintf(script->body, sizeof script->body, "%.*s", TEXT_ARG(request->body));
    return 0;
}

static void script_cancel(void *ctx, uint64_t id)
{
    struct script *script = ctx;

    forget_request(script, id);
    script->cancelled++;
}

static void script_wake(void *ctx)
{
    (void)ctx;
}

static void script_result(void *user, struct message *take_message)
{
    struct script *script = user;

    message_free(script->result);
    script->result = take_message;
    script->n_results++;
    script->outcomes[take_message->outcome.result]++;
}

static const struct wire_rules wire = {.resource = "nvidia.com/vgpu",
                                       .whole_resource = "nvidia.com/gpu"};
static struct kube_ops ops = {.start = script_start, .cancel = script_cancel, .wake = script_wake};

static struct outbox *make_outbox(struct script *script, const char *wake)
{
    const struct outbox_rules rules = {.ops = &ops,
                                       .wire = &wire,
                                       .wake = wake,
                                       .namespace = "milligpu-system",
                                       .instance = "test",
                                       .resource = "nvidia.com/vgpu",
                                       .user = script,
                                       .result = script_result};

    return outbox_new(&rules);
}

static int set_up(void **state)
{
    struct script *script = xcalloc(1, sizeof *script);

    ops.ctx = script;
    script->outbox = make_outbox(script, "object");
    script->now = 1000;
    *state = script;
    return 0;
}

static int tear_down(void **state)
{
    struct script *script = *state;

    outbox_free(script->outbox);
    message_free(script->result);
    xfree(script);
    return 0;
}

#define SCRIPT_TEST(name) TEST_WITH(name, struct script *script, set_up, tear_down)

static void step(struct script *script)
{
    (void)outbox_step(script->outbox, script->now, 1700000000000 + script->now);
}

static void answer(struct script *script, struct kube_answer answer, const char *body)
{
    forget_request(script, answer.id);
    outbox_answer(script->outbox, script->now, &answer);
    answer.piece = KUBE_DATA;
    answer.data = text_of(body);
    outbox_answer(script->outbox, script->now, &answer);
    answer.piece = KUBE_DONE;
    outbox_answer(script->outbox, script->now, &answer);
}

/* Answers the request that was started last. */
static void say(struct script *script, int status, const char *body)
{
    answer(script, (struct kube_answer){.id = script->last.id, .status = status}, body);
}

static void say_to(struct script *script, uint64_t id, int status, int64_t retry_after_s)
{
    answer(script, (struct kube_answer){.id = id, .status = status, .retry_after_s = retry_after_s},
           "");
}

/* Answers those in flight now, not those sent in their place. */
static void answer_all(struct script *script, int status)
{
    for (uint32_t left = script->n_in_flight; left > 0; left--)
        say_to(script, script->in_flight[0], status, 0);
}

static void lose_one(struct script *script, uint64_t id, bool unsent)
{
    const struct err err = {ERR_IO, "connection lost"};
    const struct kube_answer failed = {
        .id = id, .piece = KUBE_FAILED, .unsent = unsent, .err = &err};

    forget_request(script, id);
    outbox_answer(script->outbox, script->now, &failed);
}

static void lose_all(struct script *script)
{
    for (uint32_t left = script->n_in_flight; left > 0; left--)
        lose_one(script, script->in_flight[0], false);
}

static void lose(struct script *script, bool unsent)
{
    lose_one(script, script->last.id, unsent);
}

/* After this time so many requests were started. */
static void assert_started(struct script *script, int64_t ms, uint32_t started)
{
    script->now += ms;
    step(script);
    assert_int_equal(script->started, started);
}

static struct outbox_binding binding_of(const char *uid, const char *name, int64_t deadline_ms)
{
    return (struct outbox_binding){.uid = uid,
                                   .namespace = "ns",
                                   .name = name,
                                   .node = "n1",
                                   .body = TEXT("{\"kind\":\"Binding\"}"),
                                   .version = 190,
                                   .deadline_ms = deadline_ms};
}

static void send(struct script *script)
{
    const struct outbox_binding binding = binding_of("u1", "pod", script->now + 4000);

    outbox_bind(script->outbox, &binding);
    step(script);
}

static void ends(const struct script *script, enum bind_outcome outcome)
{
    assert_int_equal(script->n_results, 1);
    assert_int_equal(script->result->kind, MESSAGE_OUTCOME);
    assert_string_equal(script->result->outcome.uid, "u1");
    assert_int_equal(script->result->outcome.result, outcome);
    assert_int_equal(outbox_open(script->outbox), 0);
}

SCRIPT_TEST(binding__is_repeated_unchanged_after_500_and_a_lost_answer)
{
    send(script);
    assert_string_equal(script->method, "POST");
    assert_string_equal(script->path, "/api/v1/namespaces/ns/pods/pod/binding");
    assert_string_equal(script->body, "{\"kind\":\"Binding\"}");
    assert_int_equal(outbox_open(script->outbox), 1);
    say(script, 500, "etcd leader changed");
    assert_started(script, 60, 2);
    assert_string_equal(script->body, "{\"kind\":\"Binding\"}");
    lose(script, false);
    assert_started(script, 200, 3);
    say(script, 201, "{}");
    ends(script, OUTCOME_BOUND);
}

SCRIPT_TEST(retry_after__delays_the_binding)
{
    send(script);
    say_to(script, script->last.id, 429, 1);
    assert_started(script, 900, 1);
    assert_started(script, 200, 2);
}

static void conflict(struct script *script)
{
    send(script);
    say(script, 409, "{\"kind\":\"Status\",\"message\":\"is already assigned\",\"code\":409}");
    step(script);
    assert_string_equal(script->method, "GET");
    assert_string_equal(script->path, "/api/v1/namespaces/ns/pods/pod");
}

/* Anyone may write to the pod before the outbox looks; that must not free the share. */
SCRIPT_TEST(binding__holds_whatever_is_annotated_on_the_pod)
{
    conflict(script);
    say(script, 200,
        "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod\",\"namespace\":\"ns\",\"uid\":\"u1\","
        "\"annotations\":{\"milligpu.io/allocation\":"
        "\"{\\\"v\\\":1,\\\"containers\\\":{\\\"c\\\":[]}}\"}},"
        "\"spec\":{\"nodeName\":\"n1\",\"containers\":[]},\"status\":{}}");
    ends(script, OUTCOME_BOUND);
}

/* Otherwise the missing part could be the one with the node, and the pod would look "not bound". */
SCRIPT_TEST(answer__is_ignored_beyond_its_limit)
{
    struct kube_answer answer = {.piece = KUBE_HEAD, .status = 200};
    CLEANUP(freep) char *much = xmalloc(1 << 20);

    memset(much, 'x', 1 << 20);
    conflict(script);
    answer.id = script->last.id;
    outbox_answer(script->outbox, script->now, &answer);
    answer.piece = KUBE_DATA;
    answer.data = TEXT("{\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod\",\"uid\":\"u1\",\"x\":\"");
    outbox_answer(script->outbox, script->now, &answer);
    for (int i = 0; i < EVENT_BYTES_MAX >> 20; i++) {
        answer.data = (struct text){much, 1 << 20};
        outbox_answer(script->outbox, script->now, &answer);
    }
    answer.data = TEXT("\"}}"); /* short enough to fit again */
    outbox_answer(script->outbox, script->now, &answer);
    answer.piece = KUBE_DONE;
    forget_request(script, answer.id);
    outbox_answer(script->outbox, script->now, &answer);
    ends(script, OUTCOME_UNKNOWN);
}

/* An API server shows a pod of 1.5 MiB at six times that size if each character is escaped. */
SCRIPT_TEST(answer__may_have_9_mib)
{
    enum { MUCH = 9 << 20 };
    CLEANUP(strbuf_done) struct strbuf body;

    strbuf_init(&body);
    strbuf_str(&body, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod\",\"uid\":\"u1\",\"x\":\"");
    while (body.len < MUCH)
        strbuf_str(&body, "\\u0001");
    strbuf_str(&body, "\"},\"spec\":{\"nodeName\":\"n1\",\"containers\":[]},\"status\":{}}");
    conflict(script);
    say(script, 200, body.data);
    ends(script, OUTCOME_BOUND);
}

SCRIPT_TEST(binding__is_void_when_it_was_never_sent)
{
    send(script);
    while (script->n_results == 0) {
        lose(script, true);
        script->now += 500;
        step(script);
    }
    ends(script, OUTCOME_VOID);
    assert_non_null(strstr(script->result->outcome.text, "connection lost"));
}

SCRIPT_TEST(answer__of_a_cancelled_try_is_ignored)
{
    send(script);
    const uint64_t old = script->last.id;
    lose(script, false);
    script->now += 60;
    step(script);
    const struct kube_answer late = {.id = old, .piece = KUBE_DONE, .status = 404};
    outbox_answer(script->outbox, script->now, &late);
    assert_int_equal(script->n_results, 0);
    say(script, 201, "{}");
    ends(script, OUTCOME_BOUND);
}

SCRIPT_TEST(wake__creates_the_object_and_patches_it_with_pauses)
{
    struct outbox_stats stats;

    outbox_wake(script->outbox, 3, NULL);
    step(script);
    assert_string_equal(script->method, "PATCH");
    assert_string_equal(script->path, "/apis/storage.k8s.io/v1/namespaces/milligpu-system/"
                                      "csistoragecapacities/milligpu-bell");
    say(script, 404, "{}");
    step(script);
    assert_string_equal(script->method, "POST");
    say(script, 201, "{}");
    outbox_wake(script->outbox, 100, NULL);
    assert_started(script, 0, 2); /* too soon */
    assert_started(script, 250, 3);
    say(script, 200, "{}");
    outbox_wake(script->outbox, 100, NULL);
    assert_started(script, 900, 3); /* a hundred waiting pods: a second between two wake-ups */
    assert_started(script, 100, 4);
    outbox_stats(script->outbox, &stats);
    assert_int_equal(stats.wake_ups, 2);
    assert_false(stats.wake_failing);
}

SCRIPT_TEST(wake__pause_is_at_most_1s)
{
    outbox_wake(script->outbox, 16384, NULL);
    step(script);
    say(script, 200, "{}");
    outbox_wake(script->outbox, 16384, NULL);
    assert_started(script, 999, 1);
    assert_started(script, 1, 2);
}

struct waker {
    struct outbox *outbox;
    atomic_bool woke;
};

static void *wake_up(void *user)
{
    struct waker *waker = user;

    outbox_wake(waker->outbox, 40, NULL);
    /* Relaxed: it says that the call is done, without ordering what the call did. */
    atomic_store_explicit(&waker->woke, true, memory_order_relaxed);
    return NULL;
}

/*
 * The writer asks for a wake-up between the outbox's last look at the inbox and the answer to the
 * previous wake-up: the thread sanitizer sees whether both hold the lock.
 */
SCRIPT_TEST(wake__is_thread_safe_while_another_is_answered)
{
    struct waker waker = {.outbox = script->outbox};
    pthread_t thread;

    outbox_wake(script->outbox, 1, NULL);
    step(script);
    assert_int_equal(pthread_create(&thread, NULL, wake_up, &waker), 0);
    while (!atomic_load_explicit(&waker.woke, memory_order_relaxed))
        (void)sched_yield();
    say(script, 200, "{}");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_started(script, 399, 1);
    assert_started(script, 1, 2);
}

SCRIPT_TEST(wake__is_retried_and_reported_when_it_failed)
{
    struct outbox_stats stats;

    outbox_wake(script->outbox, 1, NULL);
    step(script);
    say(script, 403, "{\"kind\":\"Status\",\"message\":\"may not patch\",\"code\":403}");
    outbox_stats(script->outbox, &stats);
    assert_true(stats.wake_failing);
    assert_non_null(strstr(stats.wake_error, "may not patch"));
    assert_started(script, 1000, 2);
}

/* Advances in steps of 50 ms until one more request goes out. */
static int64_t until_next(struct script *script)
{
    const uint32_t before = script->started;
    const int64_t since = script->now;

    while (script->started == before && script->now - since < 60000) {
        script->now += 50;
        step(script);
    }
    assert_int_equal(script->started, before + 1);
    return script->now - since;
}

SCRIPT_TEST(binding__is_repeated_after_1s_at_most)
{
    int64_t pause_ms = 0;

    send(script);
    for (int i = 0; i < 6; i++) {
        say(script, 500, "");
        pause_ms = until_next(script);
    }
    assert_in_range(pause_ms, 950, 1050);
}

SCRIPT_TEST(wake__backs_off_and_is_not_lost)
{
    int64_t pause_ms[12];
    bool differ = false;

    outbox_wake(script->outbox, 1, NULL);
    step(script);
    for (size_t i = 0; i < ARRAY_LEN(pause_ms); i++) {
        if (i % 2 == 0)
            say(script, 500, "");
        else
            lose(script, true);
        pause_ms[i] = until_next(script);
        differ = differ || (i > 5 && pause_ms[i] != pause_ms[i - 1]);
    }
    assert_in_range(pause_ms[0], 750, 1050);
    assert_in_range(pause_ms[1], 1500, 2050);
    assert_in_range(pause_ms[2], 3000, 4050);
    for (size_t i = 3; i < ARRAY_LEN(pause_ms); i++)
        assert_in_range(pause_ms[i], 3000, 4050);
    assert_true(differ); /* many daemons must not retry all at once */

    say(script, 200, "{}");
    outbox_wake(script->outbox, 1, NULL);
    (void)until_next(script);
    say(script, 500, "");
    assert_in_range(until_next(script), 750, 1050);
}

SCRIPT_TEST(retry_after__of_a_wake_up_delays_all_requests)
{
    outbox_wake(script->outbox, 1, NULL);
    step(script);
    say_to(script, script->last.id, 429, 3);
    send(script);
    assert_int_equal(script->started, 1);
    assert_in_range(until_next(script), 2950, 3050);
}

SCRIPT_TEST(events__are_limited_in_flight_and_dropped_beyond_the_queue)
{
    const struct kube_event_facts facts = {.namespace = "ns",
                                           .name = "e",
                                           .kind = "Pod",
                                           .regarding = "pod",
                                           .uid = "u",
                                           .reason = "GPULedgerDrift",
                                           .action = "over",
                                           .note = "text",
                                           .instance = "test",
                                           .at_ms = 1};

    for (int i = 0; i < 1000; i++)
        outbox_event(script->outbox, &facts);
    step(script);
    assert_int_equal(script->started, FLOW_SIDE_MAX);
    while (script->n_in_flight > 0) {
        assert_true(script->n_in_flight <= FLOW_SIDE_MAX);
        answer_all(script, 201);
        step(script);
    }
    assert_int_equal(script->started, 256);
}

/* --- a burst --- */

enum { BURST = 3000 };

static void burst(struct script *script, int64_t deadline_ms)
{
    for (uint32_t i = 0; i < BURST; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "p%u", i);
        const struct outbox_binding binding = binding_of(name, name, deadline_ms);
        outbox_bind(script->outbox, &binding);
    }
    step(script);
}

SCRIPT_TEST(burst__is_sent_in_windows_and_once)
{
    burst(script, script->now + 60000);
    assert_int_equal(script->n_in_flight, FLOW_WINDOW_FIRST);
    while (script->n_in_flight > 0) {
        assert_true(script->n_in_flight <= FLOW_WINDOW_MAX);
        script->now += 20;
        answer_all(script, 201);
        step(script);
    }
    assert_int_equal(script->started, BURST);
    assert_int_equal(script->outcomes[OUTCOME_BOUND], BURST);
}

/* Each takes the API server half a second, whatever else it does. */
SCRIPT_TEST(burst__is_bound_once_by_a_slow_server)
{
    burst(script, script->now + 60000);
    for (int i = 0; i < 100 && script->n_in_flight > 0; i++) {
        for (int k = 0; k < 9; k++) {
            script->now += 50;
            step(script);
        }
        script->now += 50;
        answer_all(script, 201);
        step(script);
    }
    assert_int_equal(script->started, BURST);
    assert_int_equal(script->outcomes[OUTCOME_BOUND], BURST);
}

/* The server accepts fifty per second, and the others get Retry-After. */
SCRIPT_TEST(burst__is_bound_at_the_rate_of_a_server_that_answers_429)
{
    uint32_t refused = 0;

    burst(script, script->now + 600000);
    for (int seconds = 0; script->n_results < BURST && seconds < 600; seconds++) {
        for (int taken = 0; script->n_in_flight > 0; taken++) {
            if (taken < 50) {
                say_to(script, script->in_flight[0], 201, 0);
            } else {
                say_to(script, script->in_flight[0], 429, 1);
                refused++;
            }
            step(script);
        }
        script->now += 1000;
        step(script);
    }
    assert_int_equal(script->outcomes[OUTCOME_BOUND], BURST);
    /*
     * When the window has grown too large, at most one window is refused, not everything that
     * waits.
     */
    assert_int_equal(script->started, BURST + refused);
    assert_true(refused < BURST);
}

/* A waiting Binding was never sent, so its reservation may be released. */
SCRIPT_TEST(burst__is_void_when_it_waited_and_in_doubt_when_it_was_sent)
{
    burst(script, script->now + 4000);
    script->now += 3000;
    step(script);
    assert_int_equal(script->started, FLOW_WINDOW_FIRST);
    assert_int_equal(script->outcomes[OUTCOME_VOID], BURST - FLOW_WINDOW_FIRST);
    script->now += 1000;
    step(script);
    assert_int_equal(script->outcomes[OUTCOME_UNKNOWN], FLOW_WINDOW_FIRST);
    assert_int_equal(outbox_open(script->outbox), 0);
}

SCRIPT_TEST(binding__has_no_second_try_while_the_first_may_be_answered)
{
    send(script);
    for (int i = 0; i < 39; i++) {
        script->now += 100;
        step(script);
    }
    assert_int_equal(script->started, 1);
    assert_true(script->last.timeout_ms > 3500 && script->last.timeout_ms < 4000);
    say(script, 201, "{}");
    ends(script, OUTCOME_BOUND);
}

SCRIPT_TEST(retry_budget__limits_retries_of_lost_connections)
{
    burst(script, script->now + 60000);
    while (script->n_in_flight > 0 && script->started < 1000) {
        answer_all(script, 201);
        step(script);
    }
    const uint32_t before = script->started;
    for (int seconds = 0; seconds < 10; seconds++) {
        for (int k = 0; k < 100; k++) {
            lose_all(script);
            script->now += 10;
            step(script);
        }
    }
    /*
     * Ten seconds of losses: one retry budget plus its refill, besides what is sent for the first
     * time.
     */
    assert_true(script->tries_again <= FLOW_RETRIES + 10 * FLOW_RETRIES_PER_S);
    assert_true(script->started > before);
}

/* A copy that this call sent before may still take effect. */
SCRIPT_TEST(conflict__is_in_doubt_after_a_copy_that_may_have_been_sent)
{
    send(script);
    lose(script, false);
    script->now += 60;
    step(script);
    say(script, 409, "{\"kind\":\"Status\",\"message\":\"a webhook says no\",\"code\":409}");
    step(script);
    assert_string_equal(script->method, "GET");
    say(script, 200,
        "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod\",\"namespace\":\"ns\",\"uid\":\"u1\","
        "\"resourceVersion\":\"190\"},\"spec\":{\"containers\":[]},\"status\":{}}");
    ends(script, OUTCOME_UNKNOWN);
}

/* There is no node to wake by; a caller that knows one may name it. */
SCRIPT_TEST(wake__by_node_needs_the_name_of_a_node)
{
    struct outbox *outbox = make_outbox(script, "node");
    const int64_t idle = outbox_step(outbox, script->now, 0);

    outbox_wake(outbox, 1, NULL);
    assert_int_equal(outbox_step(outbox, script->now, 0), idle);
    assert_int_equal(script->started, 0);
    outbox_wake(outbox, 1, "n1");
    (void)outbox_step(outbox, script->now, 0);
    assert_int_equal(script->started, 1);
    assert_string_equal(script->path, "/api/v1/nodes/n1");
    outbox_free(outbox);
}
