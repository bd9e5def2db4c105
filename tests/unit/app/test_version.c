/* A Binding names the version of the pod that was evaluated, and a doubt ends by evidence. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/spine/message.h"
#include "milligpu/sync/pod_cache.h"

#include "support/test.h"
#include "support_fixture.h"

/* The version in the only reservation on n1. */
static uint64_t version_on_n1(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n1"));
    assert_int_equal(node->n_allocations, 1);
    return node->allocation[0]->facts.version;
}

/* A write to the pod gives it its next version. */
static void move(struct app_fixture *fixture, const char *name)
{
    static int writes;
    char note[64];

    (void)snprintf(note, sizeof note, "\"example.com/touched\":\"%d\"", writes++);
    fixture_annotate(fixture, name, note);
}

/* Pod a is shown, and its bind to n1 begins. */
static struct fixture_call *begin(struct app_fixture *fixture, const char *milli)
{
    fixture_show_pod(fixture, "a", milli);
    return fixture_bind_begin(fixture, "a", "n1");
}

/* Pod a holds 700 on n1, and the outcome of its Binding is unknown. */
static void doubt(struct app_fixture *fixture)
{
    char named[64];

    fixture->lose_requests = true;
    struct fixture_call *call = begin(fixture, "700");
    fixture_pass(fixture, 5000);
    fixture->lose_requests = false;
    (void)snprintf(named, sizeof named, "in doubt: the Binding of version %llu: ",
                   (unsigned long long)version_on_n1(fixture));
    assert_says(fixture_error(call), named);
    assert_int_equal(fixture_reserved(fixture, "n1"), 700);
}

APP_TEST(bind__evaluates_a_changed_pod_again)
{
    struct fixture_call *call = begin(fixture, "300");
    struct fixture_call *twice = fixture_bind_begin(fixture, "a", "n1");
    move(fixture, "a"); /* the watch has not shown it */
    fixture_run_deaf(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_string_equal(fixture_error(twice), "");
    assert_int_equal(fixture->bindings, 2);
    assert_string_equal(fixture_where(fixture, "a"), "n1");
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_allocations(fixture), 1);
}

APP_TEST(version__is_on_disk_before_it_is_sent)
{
    (void)begin(fixture, "300");
    (void)writer_step(fixture->parts.writer, 0);
    const uint64_t first = version_on_n1(fixture);
    move(fixture, "a");
    fixture_run_deaf(fixture);
    fixture_restart(fixture); /* what is there now was on disk */
    assert_true(version_on_n1(fixture) > first);
}

APP_TEST(version__is_not_sent_when_it_cannot_be_written)
{
    struct fixture_call *call = begin(fixture, "300");
    (void)writer_step(fixture->parts.writer, 0);
    move(fixture, "a");
    fixture->disk_full = true;
    fixture_run_deaf(fixture);
    assert_says(fixture_error(call), "the ledger cannot be written");
    assert_int_equal(fixture->bindings, 1);
    assert_string_equal(fixture_where(fixture, "a"), "");
    fixture->disk_full = false;
    fixture_pass(fixture, 2000);
    assert_int_equal(fixture_taken(fixture, "n1"),
                     0); /* the Binding that was sent named another version */
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
}

APP_TEST(bind__grants_the_request_at_the_time_of_the_binding)
{
    static const char *const count[] = {"2", "many"}; /* n1 has one GPU */
    static const char *const why[] = {"few: ", "gpu-count"};
    char annotation[64];

    fixture_show_pod(fixture, "a", "600");
    for (size_t i = 0; i < ARRAY_LEN(count); i++) {
        struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
        (void)snprintf(annotation, sizeof annotation, "\"milligpu.io/gpu-count\":\"%s\"", count[i]);
        fixture_annotate(fixture, "a", annotation);
        fixture_run_deaf(fixture);
        assert_says(fixture_error(call), why[i]);
        assert_string_equal(fixture_where(fixture, "a"), "");
        assert_int_equal(fixture_taken(fixture, "n1"), 0);
        fixture_annotate(fixture, "a", "\"milligpu.io/gpu-count\":\"1\"");
        fixture_run(fixture);
    }
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_int_equal(fixture_taken(fixture, "n1"), 600);
}

APP_TEST(bind__sends_the_evaluated_version_of_a_pod_that_asks_0)
{
    fixture_show_pod(fixture, "zero", "0");
    struct fixture_call *call = fixture_bind_begin(fixture, "zero", "n1");
    move(fixture, "zero");
    fixture_run_deaf(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_int_equal(fixture->bindings, 2);
    assert_string_equal(fixture_where(fixture, "zero"), "n1");
}

APP_TEST(moved_outcome__does_not_bring_back_a_deleted_pod)
{
    fixture_show_pod(fixture, "a", "300");
    struct pod_record *known = pod_cache_copy(fixture->app.pod_cache, "default", "a");
    struct message *outcome = message_new(MESSAGE_OUTCOME);
    const char *uid = arena_copy(&outcome->arena, text_of(pod_record_uid(known)));
    outcome->outcome = (struct binding_outcome){.uid = uid,
                                                .result = OUTCOME_MOVED,
                                                .text = "the pod is not bound",
                                                .pod = {.uid = uid,
                                                        .namespace = "default",
                                                        .name = "a",
                                                        .node = "",
                                                        .resource_version = "1000000",
                                                        .ours = true}};
    fixture_delete_pod(fixture, "a");
    fixture_run(fixture);
    assert_true(queue_put(fixture->app.queue, outcome));
    fixture_run(fixture);
    assert_null(pod_cache_copy(fixture->app.pod_cache, "default", "a"));
    pod_record_free(known);
}

APP_TEST(doubt__does_not_end_with_time)
{
    doubt(fixture);
    fixture_pass(fixture, 3600000);
    assert_int_equal(fixture_reserved(fixture, "n1"), 700);
    fixture_restart(fixture);
    fixture_pass(fixture, 3600000);
    assert_int_equal(fixture_reserved(fixture, "n1"), 700);
}

APP_TEST(doubt__ends_when_the_pod_is_seen_unbound_in_a_later_version)
{
    doubt(fixture);
    move(fixture, "a"); /* as kube-scheduler does: it writes the error into the condition */
    fixture_run(fixture);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
    assert_string_equal(fixture_bind(fixture, "a", "n2"), "");
}

APP_TEST(doubt__ends_by_what_the_watch_showed_before_the_outcome)
{
    fixture->lose_requests = true;
    struct fixture_call *call = begin(fixture, "700");
    fixture_run(fixture);
    move(fixture, "a");
    fixture_run(fixture);
    assert_int_equal(fixture_reserved(fixture, "n1"), 700); /* its outcome is not known yet */
    fixture_pass(fixture, 5000);
    assert_true(fixture_error(call)[0] != '\0');
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
}

APP_TEST(doubt__ends_by_the_list_after_a_restart)
{
    doubt(fixture);
    fixture_restart_and_run(fixture);
    assert_int_equal(fixture_reserved(fixture, "n1"), 700); /* same version: it may still land */
    move(fixture, "a");
    fixture_restart_and_run(fixture);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
}

static void pass_deaf(struct app_fixture *fixture, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        fixture->now_ms += 1000;
        fixture_run_deaf(fixture);
    }
}

APP_TEST(doubt__ends_by_a_get_without_the_watch)
{
    doubt(fixture);
    move(fixture, "a");
    pass_deaf(fixture, 90);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
}

APP_TEST(doubt__repeats_the_same_bytes_while_the_version_is_the_same)
{
    doubt(fixture);
    const uint64_t version = version_on_n1(fixture);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_string_equal(fixture_where(fixture, "a"), "n1");
    assert_int_equal(version_on_n1(fixture), version);
    assert_int_equal(fixture_taken(fixture, "n1"), 700);
}

/* The first Binding may still land, whatever becomes of the second. */
APP_TEST(doubt__outlasts_a_second_bind_that_fails)
{
    static const struct fixture_fault faults[] = {
        {.point = POINT_REQUEST, .nth = 1, .lasting = true, .trouble = POINT_UNSENT},
        {.point = POINT_REQUEST, .nth = 1, .trouble = POINT_STATUS, .status = 403},
        {.point = POINT_REQUEST, .nth = 1, .trouble = POINT_STATUS, .status = 409}, /* a webhook */
    };

    doubt(fixture);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        fixture_break(fixture, &faults[i]);
        struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
        fixture_pass(fixture, 5000);
        assert_says(fixture_error(call), "in doubt");
        assert_int_equal(fixture_reserved(fixture, "n1"), 700);
        fixture_heal(fixture);
    }
}

APP_TEST(doubt__ends_when_the_pod_is_gone)
{
    doubt(fixture);
    fixture_delete_pod(fixture, "a");
    pass_deaf(fixture, 90);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
}

APP_TEST(doubt__outlasts_an_unreachable_api_server)
{
    const struct fixture_fault fault = {
        .point = POINT_REQUEST, .nth = 1, .lasting = true, .trouble = POINT_UNSENT};

    doubt(fixture);
    fixture_break(fixture, &fault);
    move(fixture, "a"); /* neither the watch nor a GET can report it */
    pass_deaf(fixture, 150);
    assert_int_equal(fixture_reserved(fixture, "n1"), 700);
    fixture_heal(fixture);
    pass_deaf(fixture, 110);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
    assert_string_equal(fixture_where(fixture, "a"), "");
}

APP_TEST(bind__is_evaluated_again_with_the_answer_about_a_doubt)
{
    const struct fixture_fault fault = {
        .point = POINT_REQUEST, .nth = 1, .lasting = true, .trouble = POINT_UNSENT};

    doubt(fixture);
    fixture_break(fixture, &fault);
    fixture_pass(fixture, 31000);
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    (void)writer_step(fixture->parts.writer, 0);
    move(fixture, "a");
    fixture_heal(fixture);
    fixture_pass(fixture, 5000);
    assert_string_equal(fixture_error(call), "");
    assert_string_equal(fixture_where(fixture, "a"), "n1");
    assert_int_equal(fixture_taken(fixture, "n1"), 700);
}

/* Pod a holds 300 on n1, reserved by an older milligpud that recorded no versions. */
static void reserve_as_before(struct app_fixture *fixture)
{
    struct ledger *ledger = ledger_new();
    struct want want = {.container = "c", .parts = 1, .milli = 300};
    const struct request request = {.n_wants = 1, .want = &want};
    struct pod_record *pod = pod_cache_copy(fixture->app.pod_cache, "default", "a");
    const struct command reserve = {.kind = COMMAND_RESERVE,
                                    .at_ms = fixture->wall_ms,
                                    .uid = pod_record_uid(pod),
                                    .namespace = "default",
                                    .name = "a",
                                    .node = "n1",
                                    .request = &request};
    const struct store_ops *ops = &fixture->real_store;
    struct change change;
    struct err err;

    assert_int_equal(store_load(fixture->app.store, ledger, &err), 0);
    assert_int_equal(ledger_decide(ledger, &reserve, &change), VERDICT_OK);
    assert_int_equal(ops->begin(ops->ctx, &err), 0);
    assert_int_equal(ops->write(ops->ctx, &reserve, &change, &err), STORE_OK);
    assert_int_equal(ops->commit(ops->ctx, &err), 0);
    ledger_apply(ledger, &change);
    change_done(&change);
    ledger_free(ledger);
    pod_record_free(pod);
    fixture_restart_and_run(fixture);
    assert_int_equal(fixture_reserved(fixture, "n1"), 300);
}

APP_TEST(unversioned_reservation__ends_after_its_time)
{
    fixture_show_pod(fixture, "a", "300");
    reserve_as_before(fixture);
    move(fixture, "a"); /* the Binding sent for it may have named no version */
    fixture_pass(fixture, 80000);
    assert_int_equal(fixture_reserved(fixture, "n1"), 300);
    fixture_pass(fixture, 20000);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
}

APP_TEST(unversioned_reservation__is_sent_without_a_version)
{
    fixture_show_pod(fixture, "a", "300");
    reserve_as_before(fixture);
    move(fixture, "a");
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_int_equal(version_on_n1(fixture), 0);
    assert_int_equal(fixture->bindings, 1);
}
