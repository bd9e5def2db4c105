/* The workload that is learned from the watch, and its use by the policy. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/core/rank/policy.h"
#include "milligpu/core/rules/tally.h"
#include "milligpu/writer/writer.h"

#include "support/metric_sum.h"
#include "support/test.h"
#include "support_fixture.h"

static int64_t counted(void)
{
    return metric_sum(M_WORKLOAD_PODS, "");
}

static void take_up(struct app_fixture *fixture, const char *policy)
{
    fixture->settings.policy = policy;
    fixture_restart_and_run(fixture);
}

/* How often the workload of the present snapshot has seen one part of this size; 0: not at all. */
static uint32_t weight(struct app_fixture *fixture, uint32_t milli)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct workload *workload = snapshot->context->workload;
    uint32_t sum = 0;

    for (uint32_t i = 0; i < workload->n_classes; i++)
        if (workload->class[i].milli == milli && workload->class[i].parts == 1)
            sum += workload->class[i].count;
    return sum;
}

APP_TEST(tally__counts_a_pod_once)
{
    const int64_t before = counted();

    fixture_show_pod(fixture, "a", "300");
    assert_int_equal(counted(), before + 1);
    for (int i = 0; i < 5; i++)
        (void)fixture_filter(fixture, "a", "n1 n2");
    fixture_annotate(fixture, "a", "\"x\":\"y\"");
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    fixture_end_pod(fixture, "a");
    fixture_run(fixture);
    assert_int_equal(counted(), before + 1);
    fixture_delete_pod(fixture, "a");
    fixture_pod(fixture, "a", "300"); /* another pod of the same name */
    fixture_run(fixture);
    assert_int_equal(counted(), before + 2);
}

APP_TEST(tally__counts_a_filtered_pod_when_the_watch_shows_it)
{
    const int64_t before = counted();

    fixture_pod(fixture, "a", "300");
    (void)fixture_filter(fixture, "a", "n1 n2");
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    assert_int_equal(counted(), before);
    fixture_run(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_int_equal(counted(), before + 1);
}

APP_TEST(tally__counts_only_pods_that_ask_for_shares)
{
    const int64_t before = counted();

    fixture_pod_of(fixture, "cpu", "\"cpu\":\"2\"", NULL, NULL);
    fixture_pod_of(fixture, "whole", "\"nvidia.com/gpu\":\"1\"", NULL, NULL);
    fixture_pod(fixture, "zero", "0");
    fixture_show_pod(fixture, "wrong", "1500");
    assert_int_equal(counted(), before);
    fixture_bound_pod(fixture, "bound", "300", "n1"); /* by whomever */
    fixture_run(fixture);
    assert_int_equal(counted(), before + 1);
}

APP_TEST(workload__is_taken_up_by_the_policy)
{
    take_up(fixture, "rollout");
    assert_int_equal(weight(fixture, 300), 0);
    assert_true(weight(fixture, 250) > 0); /* the cold start */
    for (int i = 0; i < TALLY_COLD; i++) {
        fixture_show_pod(fixture, fixture_name("p", i), "300");
        if (i + 1 == TALLY_STEP_MIN)
            assert_int_equal(weight(fixture, 300), TALLY_STEP_MIN * TALLY_WEIGHT);
    }
    assert_true(weight(fixture, 300) > TALLY_COLD / 2 * TALLY_WEIGHT);
}

APP_TEST(workload__is_known_under_every_policy)
{
    fixture_pod(fixture, "a", "300");
    fixture_show_pod(fixture, "b", "300");
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    assert_int_equal(snapshot->context->kind, POLICY_BINPACK);
    assert_int_equal(weight(fixture, 300), 2 * TALLY_WEIGHT);
}

/*
 * Restarts
 */

static void two_pods(struct app_fixture *fixture, const char *one, const char *two)
{
    fixture_pod(fixture, one, "300");
    fixture_show_pod(fixture, two, "300");
}

APP_TEST(workload__survives_a_kill)
{
    const int64_t before = counted();

    two_pods(fixture, "a", "b");
    fixture_pass(fixture, 61000); /* it is stored once a minute */
    fixture_restart_and_run(fixture);
    assert_int_equal(weight(fixture, 300), 2 * TALLY_WEIGHT);
    assert_int_equal(counted(), before + 2); /* the list that shows them again counts nothing */
    fixture_restart_and_run(fixture);
    assert_int_equal(weight(fixture, 300), 2 * TALLY_WEIGHT);
}

APP_TEST(workload__is_relearned_from_the_list_if_it_was_not_stored)
{
    two_pods(fixture, "a", "b");
    writer_end(fixture->parts.writer);
    fixture_pass(fixture, 2000);
    two_pods(fixture, "c", "d");
    fixture_restart_and_run(fixture); /* a kill: only a and b are stored */
    assert_int_equal(weight(fixture, 300), 4 * TALLY_WEIGHT);
}

APP_TEST(tally__counts_pods_created_during_a_restart)
{
    const int64_t before = counted();

    two_pods(fixture, "a", "b");
    writer_end(fixture->parts.writer);
    fixture_pass(fixture, 2000);
    fixture_restart(fixture);
    fixture_show_pod(fixture, "c", "300");
    assert_int_equal(counted(), before + 3);
    fixture_show_pod(fixture, "d", "300");
    assert_int_equal(counted(), before + 4);
}

APP_TEST(tally__counts_nothing_again_at_another_list)
{
    const int64_t before = counted();
    const uint32_t lists = fixture->pod_lists;

    two_pods(fixture, "a", "b");
    atomic_store(&fixture->app.watch.list_again, true);
    fixture_pass(fixture, 30000);
    assert_true(fixture->pod_lists > lists);
    assert_int_equal(counted(), before + 2);
}

APP_TEST(workload__is_stored_later_when_the_disk_failed)
{
    fixture_break_store(fixture, POINT_LEARN, true);
    two_pods(fixture, "a", "b");
    fixture_pass(fixture, 61000);
    assert_true(fixture->struck > 0);
    assert_false(fixture_disk_broken(fixture)); /* nothing is granted worse for it */
    fixture_heal(fixture);
    fixture_pass(fixture, 61000);
    fixture_restart_and_run(fixture);
    assert_int_equal(weight(fixture, 300), 2 * TALLY_WEIGHT);
}

APP_TEST(workload__is_not_stored_in_safe_mode)
{
    fixture_break_store(fixture, POINT_LEARN, true);
    atomic_store(&fixture->app.health.safe_mode, true);
    two_pods(fixture, "a", "b");
    fixture_pass(fixture, 61000);
    writer_end(fixture->parts.writer);
    assert_int_equal(fixture->struck, 0);
    atomic_store(&fixture->app.health.safe_mode, false);
    fixture_heal(fixture);
}

TEST(workload__is_learned_anew_when_it_is_unreadable)
{
    char file[] = "/tmp/milligpu-learn-XXXXXX";
    const int fd = mkstemp(file);
    sqlite3 *db;

    assert_true(fd >= 0);
    (void)close(fd);
    struct app_fixture *fixture = fixture_new_on(file);
    fixture_node(fixture, "n1", "1000");
    two_pods(fixture, "a", "b");
    assert_true(fixture_pass_until_ready(fixture, 120000));
    writer_end(fixture->parts.writer);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM class WHERE place = 0", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    fixture_restart_and_run(fixture);
    assert_int_equal(weight(fixture, 300), 2 * TALLY_WEIGHT); /* from the list */
    assert_int_equal(weight(fixture, 250), 2);                /* the cold start, once more */
    fixture_free(fixture);
    (void)unlink(file);
}
