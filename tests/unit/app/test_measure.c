/* Measured sums are stored once a minute and at the end; no failure loses or doubles them. */
#include <stdio.h>
#include <string.h>

#include "milligpu/usage/idle_changes.h"
#include "milligpu/usage/measured_sums.h"
#include "milligpu/usage/usage_table.h"
#include "milligpu/writer/writer.h"

#include "support/test.h"
#include "support_fixture.h"

static void add(struct app_fixture *fixture, int hour, uint64_t milli_s)
{
    const struct store_measured row = {.hour_ms = hour * (int64_t)STORE_HOUR_MS,
                                       .namespace = "team",
                                       .model = "T4",
                                       .milli_s = milli_s,
                                       .of_milli_s = milli_s};

    assert_true(measured_sums_add(usage_table_sums(fixture->app.usage_table), &row));
}

static void add_up(void *user, const struct store_measured *row)
{
    *(uint64_t *)user += row->milli_s;
}

static uint64_t stored(struct app_fixture *fixture)
{
    uint64_t sum = 0;
    struct err err;

    assert_int_equal(store_measured(fixture->app.store, 0, INT64_MAX / 2, &sum, add_up, &err), 0);
    return sum;
}

APP_TEST(measured_sums__are_stored_once_a_minute_and_at_the_end)
{
    fixture_pass(fixture, 61000);
    add(fixture, 1, 5);
    fixture_pass(fixture, 61000);
    assert_int_equal(stored(fixture), 5);
    add(fixture, 1, 7);
    fixture_pass(fixture, 30000);
    assert_int_equal(stored(fixture), 5);
    fixture_pass(fixture, 61000);
    assert_int_equal(stored(fixture), 12);
    add(fixture, 2, 1);
    writer_end(fixture->parts.writer);
    assert_int_equal(stored(fixture), 13);
}

APP_TEST(measured_sums__are_stored_in_chunks)
{
    for (int i = 0; i < 1000; i++)
        add(fixture, i, 1);
    fixture_pass(fixture, 70000);
    assert_int_equal(stored(fixture), 1000);
    for (int i = 0; i < 1000; i++)
        add(fixture, i, 1);
    writer_end(fixture->parts.writer);
    assert_int_equal(stored(fixture), 2000);
}

APP_TEST(measured_sums__are_stored_once_after_a_failure)
{
    fixture_break_store(fixture, POINT_MEASURE, true);
    add(fixture, 1, 5);
    fixture_pass(fixture, 130000);
    assert_true(fixture->struck > 1);
    assert_true(fixture->struck < 5); /* not after each batch */
    assert_int_equal(stored(fixture), 0);
    assert_false(fixture_disk_broken(fixture)); /* nothing is granted worse for it */
    add(fixture, 1, 2);
    fixture_heal(fixture);
    fixture_pass(fixture, 130000);
    assert_int_equal(stored(fixture), 7);
}

/* --- idle --- */

enum { MINUTE = 60000 };
static const char key[] = "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";

/* The report of the agent of n1 about pod p, minutes after bound(). */
static void report(struct app_fixture *fixture, int64_t minutes, int32_t milli)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n1"));
    const struct allocation *pod = node->allocation[0];
    const struct share *share = pod->facts.share;
    struct usage_gpu gpu = {.gpu = atom_text(share->gpu), .milli = milli};
    struct usage_container container = {
        .name = text_of(share->container), .n_gpus = 1, .gpu = &gpu};
    struct usage_pod usage = {
        .uid = text_of(pod->facts.uid), .n_containers = 1, .container = &container};
    const struct usage_report report = {.node = TEXT("n1"),
                                        .number = (uint64_t)minutes + 1,
                                        .seconds = 300,
                                        .n_pods = 1,
                                        .pod = &usage};
    const struct measured_how how = {.now_ms = pod->facts.bound_ms + minutes * MINUTE};
    uint32_t unknown;

    assert_int_equal(node->n_allocations, 1);
    usage_table_node(fixture->app.usage_table, "n1", key);
    assert_true(usage_table_take(fixture->app.usage_table, node, key, &report, &how, &unknown));
    assert_int_equal(unknown, 0);
}

static void idle_until(struct app_fixture *fixture, int64_t minutes)
{
    for (int64_t minute = 0; minute <= minutes; minute += 10)
        report(fixture, minute, 0);
}

static void bound(struct app_fixture *fixture)
{
    fixture_pod(fixture, "p", "300");
    assert_string_equal(fixture_bind(fixture, "p", "n1"), "");
    fixture_run(fixture);
}

static void count_one(void *user, const struct store_idle *idle)
{
    assert_true(idle->since_ms > 0);
    ++*(int *)user;
}

/* How many shares are idle in the ledger, and whether it knows until when. */
static int stored_idle(struct app_fixture *fixture, bool *out_known)
{
    int64_t reported_ms;
    int count = 0;
    struct err err;

    assert_int_equal(store_idle(fixture->app.store, &reported_ms, &count, count_one, &err), 0);
    *out_known = reported_ms > 0;
    return count;
}

static void assert_stored(struct app_fixture *fixture, int should, bool should_know)
{
    bool known = false;

    assert_int_equal(stored_idle(fixture, &known), should);
    assert_int_equal(known, should_know);
}

/* Minutes after the bind; -1 if the share is not idle or unknown. */
static int64_t idle_since(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n1"));
    const struct allocation *pod = node->allocation[0];
    const struct measured *is = usage_table_measured(fixture->app.usage_table, TEXT("n1"));
    const struct measured_share *share = measured_find(is, node, pod, pod->facts.share);
    const int64_t since_ms = share != NULL ? share->idle_since_ms : 0;

    measured_unref(is);
    return since_ms > 0 ? (since_ms - pod->facts.bound_ms) / MINUTE : -1;
}

APP_TEST(idle_since__survives_a_restart)
{
    bound(fixture);
    idle_until(fixture, 50);
    fixture_pass(fixture, 61000);
    assert_stored(fixture, 0, true); /* not for an hour yet */
    report(fixture, 60, 0);
    fixture_pass(fixture, 61000);
    assert_stored(fixture, 1, true);
    report(fixture, 70, 0);
    writer_end(fixture->parts.writer); /* and with it the time of the last report */
    fixture_restart_and_run(fixture);
    assert_int_equal(idle_since(fixture), 0);
    report(fixture, 85, 0);
    assert_int_equal(idle_since(fixture), 0);
    report(fixture, 86, 10);
    assert_int_equal(idle_since(fixture), -1);
    fixture_pass(fixture, 61000);
    assert_stored(fixture, 0, true);
    fixture_restart_and_run(fixture);
    assert_int_equal(idle_since(fixture), -1);
    report(fixture, 90, 0);
    assert_int_equal(idle_since(fixture), 90);
}

APP_TEST(idle_since__begins_anew_after_a_long_absence)
{
    bound(fixture);
    idle_until(fixture, 70);
    writer_end(fixture->parts.writer);
    assert_stored(fixture, 1, true);
    fixture_restart_and_run(fixture);
    report(fixture, 86, 0);
    assert_int_equal(idle_since(fixture), 86);
    fixture_pass(fixture, 61000);
    assert_stored(fixture, 0, true);
}

APP_TEST(idle_changes__are_stored_when_the_disk_works)
{
    bound(fixture);
    fixture_break_store(fixture, POINT_MEASURE, true);
    idle_until(fixture, 70);
    fixture_pass(fixture, 130000);
    assert_true(fixture->struck > 1);
    assert_stored(fixture, 0, false);
    fixture_heal(fixture);
    fixture_pass(fixture, 61000);
    assert_stored(fixture, 1, true);
    /* Nothing is new, so nothing is written. */
    fixture_break_store(fixture, POINT_MEASURE, true);
    fixture_pass(fixture, 130000);
    assert_int_equal(fixture->met, 0);
    report(fixture, 71, 0); /* but when the last report was taken is */
    fixture_pass(fixture, 61000);
    assert_true(fixture->met > 0);
}

/* Until when reports were taken is only known once all that they said is stored. */
APP_TEST(idle_changes__are_stored_in_chunks)
{
    const struct fixture_fault second = {.point = POINT_MEASURE, .nth = 2, .lasting = true};
    char uid[16];

    bound(fixture);
    idle_until(fixture, 60);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(uid, sizeof uid, "%d", i);
        const struct store_idle ended = {"n1", uid, "c", "GPU-x", 5};
        assert_true(idle_changes_put(usage_table_idle(fixture->app.usage_table), &ended));
    }
    fixture_break(fixture, &second);
    fixture_pass(fixture, 61000);
    bool known = false;
    (void)stored_idle(fixture, &known);
    assert_false(known);
    fixture_heal(fixture);
    fixture_pass(fixture, 61000);
    assert_stored(fixture, 1, true);
}

APP_TEST(measured_sums__are_not_stored_in_safe_mode)
{
    bound(fixture);
    atomic_store(&fixture->app.health.safe_mode, true);
    add(fixture, 1, 5);
    idle_until(fixture, 60);
    fixture_pass(fixture, 61000);
    writer_end(fixture->parts.writer);
    assert_int_equal(stored(fixture), 0);
    assert_stored(fixture, 0, false);
    atomic_store(&fixture->app.health.safe_mode, false);
    writer_end(fixture->parts.writer);
    assert_int_equal(stored(fixture), 5);
    assert_stored(fixture, 1, true);
}
