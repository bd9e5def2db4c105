/* A Binding names the version of the pod that was judged, and a doubt ends by evidence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "app/message.h"
#include "support_rig.h"

/* Of the one reservation on n1. */
static uint64_t version_on_n1(struct rig *rig)
{
    const struct snapshot *snapshot = view_take(rig->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n1"));
    assert_int_equal(node->allocations, 1);
    const uint64_t version = node->allocation[0]->is.version;
    snapshot_unref(snapshot);
    return version;
}

/* Somebody writes to the pod: its next version. */
static void move(struct rig *rig, const char *name)
{
    static int writes;
    char note[64];

    (void)snprintf(note, sizeof note, "\"example.com/touched\":\"%d\"", writes++);
    rig_annotate(rig, name, note);
}

/* Pod a holds 700 on n1, and nobody knows what became of its Binding. */
static struct rig_call *doubt(struct rig *rig)
{
    rig_pod(rig, "a", "700");
    rig_run(rig);
    rig->lose_requests = true;
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    rig_pass(rig, 5000);
    rig->lose_requests = false;
    assert_non_null(strstr(rig_error(call), "in doubt"));
    assert_int_equal(rig_reserved(rig, "n1"), 700);
    return call;
}

static void a_pod_that_was_written_to_meanwhile_is_judged_again_and_bound(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    struct rig_call *twice = rig_bind_begin(rig, "a", "n1");
    move(rig, "a"); /* the watch has not told of it */
    rig_run_deaf(rig);
    assert_string_equal(rig_error(call), "");
    assert_string_equal(rig_error(twice), "");
    assert_int_equal(rig->bindings, 2);
    assert_string_equal(rig_where(rig, "a"), "n1");
    assert_int_equal(rig_taken(rig, "n1"), 300);
    assert_int_equal(rig_allocations(rig), 1);
}

static void the_new_version_is_on_disk_before_it_is_sent(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    (void)rig_bind_begin(rig, "a", "n1");
    (void)writer_step(rig->writer, 0);
    const uint64_t first = version_on_n1(rig);
    move(rig, "a");
    rig_run_deaf(rig);
    rig_restart(rig); /* what is there now was on disk */
    assert_true(version_on_n1(rig) > first);
}

static void where_the_new_version_cannot_be_written_nothing_is_sent(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    (void)writer_step(rig->writer, 0);
    move(rig, "a");
    rig->disk_full = true;
    rig_run_deaf(rig);
    assert_non_null(strstr(rig_error(call), "the ledger cannot be written"));
    assert_int_equal(rig->bindings, 1);
    assert_string_equal(rig_where(rig, "a"), "");
    rig->disk_full = false;
    rig_pass(rig, 2000);
    assert_int_equal(rig_taken(rig, "n1"), 0); /* the Binding that was sent named another version */
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
}

static void a_pod_gets_what_it_asks_for_when_it_is_bound(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "600");
    rig_run(rig);
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    rig_annotate(rig, "a", "\"milligpu.io/gpu-count\":\"2\""); /* n1 has one GPU */
    rig_run_deaf(rig);
    assert_non_null(strstr(rig_error(call), "few: "));
    assert_string_equal(rig_where(rig, "a"), "");
    assert_int_equal(rig_taken(rig, "n1"), 0);
    rig_annotate(rig, "a", "\"milligpu.io/gpu-count\":\"1\"");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_int_equal(rig_taken(rig, "n1"), 600);
}

static void a_pod_that_asks_for_what_nobody_may_have_now_is_refused(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "600");
    rig_run(rig);
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    rig_annotate(rig, "a", "\"milligpu.io/gpu-count\":\"many\"");
    rig_run_deaf(rig);
    assert_non_null(strstr(rig_error(call), "gpu-count"));
    assert_int_equal(rig_taken(rig, "n1"), 0);
}

static void a_pod_that_asks_0_is_bound_in_the_version_that_was_judged(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "zero", "0");
    rig_run(rig);
    struct rig_call *call = rig_bind_begin(rig, "zero", "n1");
    move(rig, "zero");
    rig_run_deaf(rig);
    assert_string_equal(rig_error(call), "");
    assert_int_equal(rig->bindings, 2);
    assert_string_equal(rig_where(rig, "zero"), "n1");
}

static void a_pod_that_has_gone_meanwhile_is_not_brought_back(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    struct pod_record *known = pod_cache_copy(rig->app.pod_cache, "default", "a");
    struct message *outcome = message_new(MESSAGE_OUTCOME);
    outcome->outcome = OUTCOME_MOVED;
    outcome->uid = arena_copy(&outcome->arena, text_of(known->uid));
    outcome->text = "the pod is not bound";
    outcome->pod = (struct pod){.uid = outcome->uid,
                                .namespace = "default",
                                .name = "a",
                                .node = "",
                                .resource_version = "1000000",
                                .ours = true};
    rig_delete_pod(rig, "a");
    rig_run(rig);
    assert_true(queue_put(rig->app.queue, outcome));
    rig_run(rig);
    assert_null(pod_cache_copy(rig->app.pod_cache, "default", "a"));
    pod_record_free(known);
}

static void no_time_ends_a_doubt(void **state)
{
    struct rig *rig = *state;

    (void)doubt(rig);
    rig_pass(rig, 3600000);
    assert_int_equal(rig_reserved(rig, "n1"), 700);
    rig_restart(rig);
    rig_pass(rig, 3600000);
    assert_int_equal(rig_reserved(rig, "n1"), 700);
}

static void a_doubt_names_the_version_that_was_sent(void **state)
{
    struct rig *rig = *state;
    char named[64];

    const struct rig_call *call = doubt(rig);
    (void)snprintf(named, sizeof named, "in doubt: the Binding of version %llu: ",
                   (unsigned long long)version_on_n1(rig));
    assert_non_null(strstr(rig_error(call), named));
}

static void a_pod_that_is_seen_unbound_in_a_later_version_ends_its_doubt(void **state)
{
    struct rig *rig = *state;

    (void)doubt(rig);
    move(rig, "a"); /* as kube-scheduler does, which writes the error into its condition */
    rig_run(rig);
    assert_int_equal(rig_reserved(rig, "n1"), 0);
    assert_string_equal(rig_bind(rig, "a", "n2"), "");
}

static void what_the_watch_showed_while_a_binding_was_on_its_way_counts_afterwards(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "700");
    rig_run(rig);
    rig->lose_requests = true;
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    rig_run(rig);
    move(rig, "a");
    rig_run(rig);
    assert_int_equal(rig_reserved(rig, "n1"), 700); /* its outcome is not known yet */
    rig_pass(rig, 5000);
    assert_true(rig_error(call)[0] != '\0');
    assert_int_equal(rig_reserved(rig, "n1"), 0);
}

static void after_a_restart_the_list_ends_the_doubts_that_it_can(void **state)
{
    struct rig *rig = *state;

    (void)doubt(rig);
    rig_restart(rig);
    rig_run(rig);
    assert_int_equal(rig_reserved(rig, "n1"), 700); /* in the same version: it may land yet */
    move(rig, "a");
    rig_restart(rig);
    rig_run(rig);
    assert_int_equal(rig_reserved(rig, "n1"), 0);
}

static void pass_deaf(struct rig *rig, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        rig->now_ms += 1000;
        rig_run_deaf(rig);
    }
}

static void a_get_ends_a_doubt_of_which_the_watch_does_not_tell(void **state)
{
    struct rig *rig = *state;

    (void)doubt(rig);
    move(rig, "a");
    pass_deaf(rig, 90);
    assert_int_equal(rig_reserved(rig, "n1"), 0);
}

static void while_the_version_has_not_moved_the_same_bytes_are_sent_again(void **state)
{
    struct rig *rig = *state;

    (void)doubt(rig);
    const uint64_t version = version_on_n1(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_string_equal(rig_where(rig, "a"), "n1");
    assert_int_equal(version_on_n1(rig), version);
    assert_int_equal(rig_taken(rig, "n1"), 700);
}

static void a_refusal_takes_no_doubt_away_while_another_copy_is_on_its_way(void **state)
{
    struct rig *rig = *state;
    const struct rig_fault forbidden = {
        .point = RIG_REQUEST, .nth = 1, .trouble = RIG_STATUS, .status = 403};

    (void)doubt(rig);
    rig_break(rig, &forbidden);
    const char *error = rig_bind(rig, "a", "n1");
    assert_non_null(strstr(error, "in doubt"));
    assert_int_equal(rig_reserved(rig, "n1"), 700);
    rig_heal(rig);
}

static void a_conflict_of_another_kind_takes_no_doubt_away_either(void **state)
{
    struct rig *rig = *state;
    const struct rig_fault webhook = {
        .point = RIG_REQUEST, .nth = 1, .trouble = RIG_STATUS, .status = 409};

    (void)doubt(rig);
    rig_break(rig, &webhook);
    assert_non_null(strstr(rig_bind(rig, "a", "n1"), "in doubt"));
    assert_int_equal(rig_reserved(rig, "n1"), 700);
    rig_heal(rig);
}

static void a_pod_that_is_gone_ends_its_doubt(void **state)
{
    struct rig *rig = *state;

    (void)doubt(rig);
    rig_delete_pod(rig, "a");
    pass_deaf(rig, 90);
    assert_int_equal(rig_reserved(rig, "n1"), 0);
}

static void an_api_server_that_cannot_be_asked_ends_no_doubt(void **state)
{
    struct rig *rig = *state;
    const struct rig_fault fault = {
        .point = RIG_REQUEST, .nth = 1, .lasting = true, .trouble = RIG_UNSENT};

    (void)doubt(rig);
    rig_break(rig, &fault);
    move(rig, "a"); /* neither the watch nor a GET can tell */
    pass_deaf(rig, 150);
    assert_int_equal(rig_reserved(rig, "n1"), 700);
    rig_heal(rig);
    pass_deaf(rig, 110);
    assert_int_equal(rig_reserved(rig, "n1"), 0);
    assert_string_equal(rig_where(rig, "a"), "");
}

static void who_asks_while_the_api_server_is_asked_is_judged_again_with_the_answer(void **state)
{
    struct rig *rig = *state;
    const struct rig_fault fault = {
        .point = RIG_REQUEST, .nth = 1, .lasting = true, .trouble = RIG_UNSENT};

    (void)doubt(rig);
    rig_break(rig, &fault);
    rig_pass(rig, 31000);
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    (void)writer_step(rig->writer, 0);
    move(rig, "a");
    rig_heal(rig);
    rig_pass(rig, 5000);
    assert_string_equal(rig_error(call), "");
    assert_string_equal(rig_where(rig, "a"), "n1");
    assert_int_equal(rig_taken(rig, "n1"), 700);
}

/* Pod a holds 300 on n1 as a milligpud before versions wrote it down. */
static void reserve_as_before(struct rig *rig)
{
    struct ledger *ledger = ledger_new();
    struct want want = {.container = "c", .parts = 1, .milli = 300};
    const struct request request = {.wants = 1, .want = &want};
    struct pod_record *pod = pod_cache_copy(rig->app.pod_cache, "default", "a");
    const struct command reserve = {.kind = COMMAND_RESERVE,
                                    .at_ms = rig->wall_ms,
                                    .uid = pod->uid,
                                    .namespace = "default",
                                    .name = "a",
                                    .node = "n1",
                                    .request = &request};
    const struct store_ops *ops = &rig->real_store;
    struct change change;
    struct err err;

    assert_int_equal(store_load(rig->app.store, ledger, &err), 0);
    assert_int_equal(ledger_decide(ledger, &reserve, &change), VERDICT_OK);
    assert_int_equal(ops->begin(ops->ctx, &err), 0);
    assert_int_equal(ops->write(ops->ctx, &reserve, &change, &err), STORE_OK);
    assert_int_equal(ops->commit(ops->ctx, &err), 0);
    ledger_apply(ledger, &change);
    change_done(&change);
    ledger_free(ledger);
    pod_record_free(pod);
    rig_restart(rig);
    rig_run(rig);
    assert_int_equal(rig_reserved(rig, "n1"), 300);
}

static void a_reservation_of_an_older_ledger_ends_as_it_did(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    reserve_as_before(rig);
    move(rig, "a"); /* what was sent for it may have named no version */
    rig_pass(rig, 80000);
    assert_int_equal(rig_reserved(rig, "n1"), 300);
    rig_pass(rig, 20000);
    assert_int_equal(rig_reserved(rig, "n1"), 0);
}

static void a_reservation_of_an_older_ledger_is_sent_as_it_was(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    reserve_as_before(rig);
    move(rig, "a");
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_int_equal(version_on_n1(rig), 0);
    assert_int_equal(rig->bindings, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pod_that_was_written_to_meanwhile_is_judged_again_and_bound),
        TEST(the_new_version_is_on_disk_before_it_is_sent),
        TEST(where_the_new_version_cannot_be_written_nothing_is_sent),
        TEST(a_pod_gets_what_it_asks_for_when_it_is_bound),
        TEST(a_pod_that_asks_for_what_nobody_may_have_now_is_refused),
        TEST(a_pod_that_asks_0_is_bound_in_the_version_that_was_judged),
        TEST(a_pod_that_has_gone_meanwhile_is_not_brought_back),
        TEST(no_time_ends_a_doubt),
        TEST(a_doubt_names_the_version_that_was_sent),
        TEST(a_pod_that_is_seen_unbound_in_a_later_version_ends_its_doubt),
        TEST(what_the_watch_showed_while_a_binding_was_on_its_way_counts_afterwards),
        TEST(after_a_restart_the_list_ends_the_doubts_that_it_can),
        TEST(a_get_ends_a_doubt_of_which_the_watch_does_not_tell),
        TEST(while_the_version_has_not_moved_the_same_bytes_are_sent_again),
        TEST(a_refusal_takes_no_doubt_away_while_another_copy_is_on_its_way),
        TEST(a_conflict_of_another_kind_takes_no_doubt_away_either),
        TEST(a_pod_that_is_gone_ends_its_doubt),
        TEST(an_api_server_that_cannot_be_asked_ends_no_doubt),
        TEST(a_reservation_of_an_older_ledger_ends_as_it_did),
        TEST(a_reservation_of_an_older_ledger_is_sent_as_it_was),
        TEST(who_asks_while_the_api_server_is_asked_is_judged_again_with_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
