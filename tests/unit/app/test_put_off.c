/*
 * A bind is answered when its Binding is known to be in the cluster. That the pod is bound is
 * written with the next batch, at the latest 10 ms later, and until then everybody sees a
 * reservation.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/test.h"
#include "support_fixture.h"
#include "writer/writer_internal.h"

enum { PUT_OFF_MS = 10, LARGE = 5 * 1024 * 1024 };

static size_t put_off(const struct app_fixture *fixture)
{
    struct writer_tables tables;

    writer_tables(fixture->parts.writer, &tables);
    return tables.n_put_off;
}

static size_t step(struct app_fixture *fixture)
{
    return writer_step(fixture->parts.writer, 0);
}

static void pass_ms(struct app_fixture *fixture, int64_t ms)
{
    fixture->now_ms += ms;
    fixture->wall_ms += ms;
}

static void to_informer(void *user, const struct kube_answer *answer)
{
    struct app_fixture *fixture = user;
    informer_answer(fixture->parts.informer, fixture->now_ms, answer);
}

/* Puts into the queue what the watch has to show. */
static void hear(struct app_fixture *fixture)
{
    for (int i = 0; i < 4; i++) {
        (void)informer_step(fixture->parts.informer, fixture->now_ms);
        fixture->watch.ops.poll(fixture->watch.ops.ctx, 0, fixture, to_informer);
    }
}

/* Creates the pod and binds it to n1 without the watch and without the time that passes. */
static void bind(struct app_fixture *fixture, const char *pod, const char *limits)
{
    fixture_show_pod(fixture, pod, limits);
    const struct fixture_call *call = fixture_bind_begin(fixture, pod, "n1");
    fixture_run_deaf(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_int_equal(put_off(fixture), 1);
}

/* The uid of the only reservation. */
static const char *uid_of(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n1"));

    assert_int_equal(node->n_allocations, 1);
    assert_int_equal(node->allocation[0]->facts.state, STATE_RESERVED);
    return node->allocation[0]->facts.uid;
}

static struct message *outcome_of(const char *uid, enum bind_outcome result)
{
    struct message *message = message_new(MESSAGE_OUTCOME);

    message->outcome = (struct binding_outcome){
        .uid = arena_copy(&message->arena, text_of(uid)), .result = result, .text = "of a test"};
    return message;
}

static void put(struct app_fixture *fixture, struct message *take_message)
{
    assert_true(queue_put(fixture->app.queue, take_message));
}

/* Reserves and does not send: the test gives the outcome. */
static void reserve(struct app_fixture *fixture)
{
    fixture_show_pod(fixture, "a", "300");
    (void)fixture_bind_begin(fixture, "a", "n1");
    (void)step(fixture);
    assert_int_equal(fixture_reserved(fixture, "n1"), 300);
}

static void assert_bound(struct app_fixture *fixture, uint32_t milli)
{
    assert_int_equal(fixture_taken(fixture, "n1"), milli);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
    assert_int_equal(put_off(fixture), 0);
}

APP_TEST(answer__comes_before_the_second_commit)
{
    fixture_show_pod(fixture, "a", "300");
    const uint32_t before = fixture->commits;
    const struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    fixture_run_deaf(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_string_equal(fixture_where(fixture, "a"), "n1");
    assert_int_equal(fixture->commits, before + 1);
    /* Readers see the state that is on disk. */
    assert_int_equal(fixture_reserved(fixture, "n1"), 300);
    pass_ms(fixture, PUT_OFF_MS - 1);
    assert_int_equal(step(fixture), 0);
    pass_ms(fixture, 1);
    assert_int_equal(step(fixture), 1);
    assert_int_equal(fixture->commits, before + 2);
    assert_bound(fixture, 300);
}

APP_TEST(put_off__rides_in_the_commit_of_the_next_bind)
{
    for (int i = 0; i < 4; i++)
        fixture_show_pod(fixture, fixture_name("p", i), "200");
    const uint32_t before = fixture->commits;
    for (int i = 0; i < 4; i++) {
        const struct fixture_call *call = fixture_bind_begin(fixture, fixture_name("p", i), "n1");
        fixture_run_deaf(fixture);
        assert_string_equal(fixture_error(call), "");
        assert_int_equal(fixture->commits, before + (uint32_t)i + 1);
        assert_int_equal(fixture_reserved(fixture, "n1"), 200);
    }
    fixture_run(fixture);
    assert_int_equal(fixture->commits, before + 5);
    assert_bound(fixture, 800);
}

struct noted {
    const struct app_fixture *fixture;
    uint32_t commits;
};

static void note(struct http_call *call)
{
    struct noted *noted = call->user;
    noted->commits = noted->fixture->commits;
}

/* The outcome and another bind are in one batch, and only the other one waits for its COMMIT. */
APP_TEST(answer__does_not_wait_for_a_bind_beside_it)
{
    struct noted noted = {.fixture = fixture, .commits = UINT32_MAX};

    fixture_show_pod(fixture, "b", "200");
    fixture_show_pod(fixture, "a", "300");
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    call->http.answered = note;
    call->http.user = &noted;
    (void)step(fixture);
    const uint32_t before = fixture->commits;
    put(fixture, outcome_of(uid_of(fixture), OUTCOME_BOUND));
    const struct fixture_call *other = fixture_bind_begin(fixture, "b", "n1");
    assert_int_equal(step(fixture), 2);
    assert_int_equal(noted.commits, before);
    assert_int_equal(fixture->commits, before + 1);
    assert_int_equal(other->http.status, 0);
    assert_int_equal(fixture_reserved(fixture, "n1"), 200);
    assert_int_equal(fixture_taken(fixture, "n1"), 500);
}

/* The event that shows the pod on its node is in the same batch as the outcome, or before it. */
APP_TEST(put_off__has_what_the_watch_shows_of_it)
{
    bind(fixture, "a", "300");
    const uint32_t before = fixture->commits;
    hear(fixture);
    fixture_pod(fixture, "b", "100");
    hear(fixture);
    assert_int_equal(step(fixture), 0);
    assert_int_equal(put_off(fixture), 3);
    assert_int_equal(fixture->commits, before);
    fixture_run(fixture);
    assert_int_equal(fixture->commits, before + 1);
    assert_bound(fixture, 300);
    assert_string_equal(fixture_bind(fixture, "b", "n1"), "");
}

APP_TEST(put_off__begins_with_the_event_if_that_is_first)
{
    fixture_show_pod(fixture, "a", "300");
    fixture->lose_answers = true;
    (void)fixture_bind_begin(fixture, "a", "n1");
    fixture_run_deaf(fixture);
    const uint32_t before = fixture->commits;
    hear(fixture);
    assert_int_equal(step(fixture), 0);
    assert_int_equal(put_off(fixture), 1);
    fixture->lose_answers = false;
    fixture_run(fixture);
    assert_int_equal(fixture->commits, before + 1);
    assert_bound(fixture, 300);
}

/* Only what confirms is worth a wait: an event of a pod that is not reserved is handled at once. */
APP_TEST(put_off__does_not_begin_with_other_events)
{
    fixture_bound_pod(fixture, "x", "500", "n2");
    hear(fixture);
    assert_int_equal(step(fixture), 1);
    assert_int_equal(fixture_taken(fixture, "n2"), 500);
    fixture_pod(fixture, "y", "500");
    hear(fixture);
    assert_int_equal(step(fixture), 1);
}

/* Its reservation is released, and that frees room. */
APP_TEST(put_off__does_not_begin_with_a_pod_that_is_elsewhere)
{
    reserve(fixture);
    fixture_api(fixture, "POST", "/api/v1/namespaces/default/pods/a/binding",
                "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"a\"},"
                "\"target\":{\"kind\":\"Node\",\"name\":\"n2\"}}");
    hear(fixture);
    assert_int_equal(step(fixture), 1);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
    assert_int_equal(fixture_taken(fixture, "n2"), 300);
}

/* A pod's end frees room, so it is handled at once, and after what was put off. */
APP_TEST(put_off__ends_with_the_pod)
{
    bind(fixture, "a", "300");
    const uint32_t before = fixture->commits;
    fixture_delete_pod(fixture, "a");
    hear(fixture);
    assert_true(step(fixture) > 1);
    assert_int_equal(fixture->commits, before + 1);
    assert_bound(fixture, 0);
    assert_int_equal(fixture_allocations(fixture), 0);
}

APP_TEST(put_off__ends_with_an_event_that_shows_an_end)
{
    bind(fixture, "a", "300");
    struct message *ended = message_new(MESSAGE_POD);
    ended->pod = (struct pod){.uid = arena_copy(&ended->arena, text_of(uid_of(fixture))),
                              .namespace = "default",
                              .name = "a",
                              .node = "n1",
                              .phase = POD_SUCCEEDED,
                              .resource_version = "1000000"};
    put(fixture, ended);
    assert_int_equal(step(fixture), 2);
    assert_bound(fixture, 0);
}

/* A pod that is bound already has nothing to confirm. */
APP_TEST(put_off__does_not_begin_with_a_later_event)
{
    fixture_grant(fixture, "a", "300", "n1");
    fixture_annotate(fixture, "a", "\"x\":\"y\"");
    hear(fixture);
    assert_int_equal(step(fixture), 1);
}

/* The writer sleeps until then at most, and longer if nothing is put off. */
APP_TEST(put_off__limits_the_wait)
{
    struct writer *writer = fixture->parts.writer;

    assert_int_equal(writer_put_off_wait(writer, 500), 500);
    bind(fixture, "a", "300");
    assert_int_equal(writer_put_off_wait(writer, 500), PUT_OFF_MS);
    assert_int_equal(writer_put_off_wait(writer, 4), 4);
    pass_ms(fixture, PUT_OFF_MS + 1);
    assert_int_equal(writer_put_off_wait(writer, 500), 0);
    (void)step(fixture);
    assert_int_equal(writer_put_off_wait(writer, 500), 500);
}

/* The pod waits for nothing any more, and its offer is not counted beside its reservation. */
APP_TEST(answer__takes_the_pod_from_those_that_wait)
{
    fixture_show_pod(fixture, "a", "300");
    assert_says(fixture_filter(fixture, "a", "n1"), "\"n1\"");
    const struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    (void)step(fixture);
    const struct text uid = text_of(uid_of(fixture));
    assert_true(waiting_pods_has_asked(fixture->app.waiting_pods, uid));
    fixture_run_deaf(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_int_equal(put_off(fixture), 1);
    assert_false(waiting_pods_has_asked(fixture->app.waiting_pods, uid));
}

static uint32_t offers(struct app_fixture *fixture)
{
    static struct offer offer[OFFERS_MAX];
    struct app *app = &fixture->app;

    return waiting_pods_offers(app->waiting_pods, TEXT("another"),
                               app->clock.now_ms(app->clock.ctx), offer);
}

/* Else its place counts twice until the watch shows the pod, and the next pod goes elsewhere. */
APP_TEST(reservation__ends_the_offer)
{
    fixture_show_pod(fixture, "a", "300");
    assert_says(fixture_filter(fixture, "a", "n1"), "\"n1\"");
    const struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    assert_int_equal(offers(fixture), 1); /* nothing is reserved yet */
    (void)step(fixture);
    assert_int_equal(offers(fixture), 0);
    fixture_run_deaf(fixture);
    assert_string_equal(fixture_error(call), "");
}

static uint32_t reserved_at_commit;
static uint32_t offers_at_commit;

static int commit_and_look(void *ctx, struct err *err)
{
    struct app_fixture *fixture = ctx;

    reserved_at_commit = fixture_reserved(fixture, "n1");
    offers_at_commit = offers(fixture);
    return fixture->real_store.commit(fixture->real_store.ctx, err);
}

/* Room is published once it is on disk, so readers see its node as it was, without the grant. */
APP_TEST(reservation__keeps_the_offer_until_readers_see_its_node)
{
    fixture_bound_pod(fixture, "b", "300", "n1");
    fixture_run(fixture);
    fixture_show_pod(fixture, "a", "300");
    assert_says(fixture_filter(fixture, "a", "n1"), "\"n1\"");
    fixture->app.store_ops.commit = commit_and_look;
    fixture_delete_pod(fixture, "b");
    hear(fixture);
    (void)fixture_bind_begin(fixture, "a", "n1");
    (void)step(fixture);
    assert_int_equal(reserved_at_commit, 0);
    assert_int_equal(offers_at_commit, 1);
    assert_int_equal(fixture_reserved(fixture, "n1"), 300);
    assert_int_equal(offers(fixture), 0);
    fixture_run(fixture);
}

/* Calls wait for each of these, and an unknown outcome is no success. */
APP_TEST(put_off__has_no_outcome_but_bound)
{
    static const enum bind_outcome outcome[] = {OUTCOME_UNKNOWN, OUTCOME_VOID};
    static const char *const says[] = {"in doubt", "of a test"};

    for (size_t i = 0; i < ARRAY_LEN(outcome); i++) {
        fixture_show_pod(fixture, fixture_name("p", (int)i), "300");
        const struct fixture_call *call =
            fixture_bind_begin(fixture, fixture_name("p", (int)i), "n2");
        (void)step(fixture);
        CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
        const struct node *node = snapshot_node(snapshot, TEXT("n2"));
        put(fixture, outcome_of(node->allocation[node->n_allocations - 1]->facts.uid, outcome[i]));
        const uint32_t before = fixture->commits;
        assert_int_equal(step(fixture), 1);
        assert_int_equal(fixture->commits, before + 1);
        assert_says(fixture_error(call), says[i]);
    }
}

APP_TEST(put_off__answers_a_second_bind_of_its_pod)
{
    bind(fixture, "a", "300");
    const struct fixture_call *again = fixture_bind_begin(fixture, "a", "n1");
    const struct fixture_call *elsewhere = fixture_bind_begin(fixture, "a", "n2");
    assert_int_equal(step(fixture), 3);
    assert_string_equal(fixture_error(again), "");
    assert_says(fixture_error(elsewhere), "n1");
    assert_int_equal(fixture->bindings, 1);
    assert_bound(fixture, 300);
}

/* The tick looks at reservations. */
APP_TEST(put_off__ends_with_the_tick)
{
    reserve(fixture);
    const char *uid = uid_of(fixture);
    pass_ms(fixture, 1000);
    put(fixture, outcome_of(uid, OUTCOME_BOUND));
    assert_int_equal(step(fixture), 1);
    assert_bound(fixture, 300);
}

APP_TEST(put_off__has_less_than_a_batch)
{
    reserve(fixture);
    const char *uid = uid_of(fixture);
    for (int i = 0; i < BATCH_MAX - 1; i++)
        put(fixture, outcome_of(uid, OUTCOME_BOUND));
    assert_int_equal(step(fixture), 0);
    assert_int_equal(put_off(fixture), BATCH_MAX - 1);
    put(fixture, outcome_of(uid, OUTCOME_BOUND));
    assert_int_equal(step(fixture), BATCH_MAX);
    assert_bound(fixture, 300);
}

APP_TEST(put_off__has_a_bound_in_bytes)
{
    reserve(fixture);
    const char *uid = uid_of(fixture);
    struct message *large = outcome_of(uid, OUTCOME_BOUND);
    assert_non_null(arena_alloc(&large->arena, LARGE));
    put(fixture, large);
    assert_int_equal(step(fixture), 1);
    assert_bound(fixture, 300);
    /* The bytes of those that were handled do not count. */
    fixture_run(fixture);
    bind(fixture, "b", "200");
}

/* kill -9 between the answer and the COMMIT: the reservation is on disk, the pod is on its node. */
APP_TEST(killed__before_it_is_written_finds_the_pod_bound)
{
    bind(fixture, "a", "300");
    fixture_restart(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_reserved(fixture, "n1"), 300);
    fixture_run(fixture);
    assert_bound(fixture, 300);
    assert_int_equal(fixture_allocations(fixture), 1);
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n1"));
    assert_int_equal(node->allocation[0]->facts.origin, ORIGIN_GRANTED);
    assert_int_equal(fixture->bindings, 1);
}

/* The same, and the pod has ended before milligpud is back. */
APP_TEST(killed__before_it_is_written_leaks_nothing)
{
    bind(fixture, "a", "300");
    fixture_delete_pod(fixture, "a");
    fixture_restart_and_run(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
    assert_int_equal(fixture_allocations(fixture), 0);
}

/* The answer is true; only the ledger is late. */
APP_TEST(disk__that_fails_after_the_answer_loses_nothing)
{
    bind(fixture, "a", "300");
    fixture->disk_full = true;
    fixture_pass(fixture, 2000);
    assert_false(app_ready(&fixture->app, NULL));
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_reserved(fixture, "n1"), 300);
    fixture_pod(fixture, "b", "900");
    assert_string_not_equal(fixture_bind(fixture, "b", "n1"), "");
    fixture->disk_full = false;
    fixture_pass(fixture, 2000);
    assert_true(app_ready(&fixture->app, NULL));
    assert_bound(fixture, 300);
    assert_int_equal(fixture_allocations(fixture), 1);
}

APP_TEST(safe_mode__after_the_answer_loses_nothing)
{
    bind(fixture, "a", "300");
    fixture->contradict = true;
    fixture_run(fixture);
    assert_true(atomic_load(&fixture->app.health.safe_mode));
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_reserved(fixture, "n1"), 300);
    fixture_pod(fixture, "b", "100");
    assert_string_not_equal(fixture_bind(fixture, "b", "n1"), "");
    fixture_restart_and_run(fixture);
    assert_bound(fixture, 300);
    assert_int_equal(fixture_allocations(fixture), 1);
}

/* An orderly end leaves no doubt behind, and reserves nothing that nobody would send. */
APP_TEST(end__writes_what_was_put_off)
{
    bind(fixture, "a", "300");
    fixture_show_pod(fixture, "b", "100");
    fixture_run_deaf(fixture);
    bind(fixture, "c", "200");
    (void)fixture_bind_begin(fixture, "b", "n1");
    writer_end(fixture->parts.writer);
    assert_bound(fixture, 500);
}
