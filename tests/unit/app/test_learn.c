/* What the watch teaches about the workload, and when the policy takes it up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/metric.h"
#include "milligpu/policy.h"
#include "milligpu/tally.h"

#include "support_fixture.h"

static void add_up(void *user, const char *labels, int64_t value)
{
    (void)labels;
    *(int64_t *)user += value;
}

static int64_t counted(void)
{
    int64_t pods = 0;

    metric_each(M_WORKLOAD_PODS, &pods, add_up);
    return pods;
}

static void take_up(struct app_fixture *fixture, const char *policy)
{
    fixture->settings.policy = policy;
    fixture_restart(fixture);
    fixture_run(fixture);
}

/* How often the workload of the present snapshot has seen one part of this size; 0: not at all. */
static uint32_t weight(struct app_fixture *fixture, uint32_t milli)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct workload *workload = snapshot->outlook->workload;
    uint32_t sum = 0;

    for (uint32_t i = 0; i < workload->classes; i++)
        if (workload->class[i].milli == milli && workload->class[i].parts == 1)
            sum += workload->class[i].count;
    return sum;
}

static void a_pod_counts_once_however_often_it_is_seen_and_asked_about(void **state)
{
    struct app_fixture *fixture = *state;
    const int64_t before = counted();

    fixture_pod(fixture, "a", "300");
    fixture_run(fixture);
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

static void a_pod_that_filter_asked_about_first_counts_when_the_watch_shows_it(void **state)
{
    struct app_fixture *fixture = *state;
    const int64_t before = counted();

    fixture_pod(fixture, "a", "300");
    (void)fixture_filter(fixture, "a", "n1 n2");
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    assert_int_equal(counted(), before);
    fixture_run(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_int_equal(counted(), before + 1);
}

static void only_pods_that_ask_for_shares_count(void **state)
{
    struct app_fixture *fixture = *state;
    const int64_t before = counted();

    fixture_pod_of(fixture, "cpu", "\"cpu\":\"2\"", NULL, NULL);
    fixture_pod_of(fixture, "whole", "\"nvidia.com/gpu\":\"1\"", NULL, NULL);
    fixture_pod(fixture, "zero", "0");
    fixture_pod(fixture, "wrong", "1500");
    fixture_run(fixture);
    assert_int_equal(counted(), before);
    fixture_bound_pod(fixture, "bound", "300", "n1"); /* by whomever */
    fixture_run(fixture);
    assert_int_equal(counted(), before + 1);
}

static void the_policy_takes_up_what_was_learned(void **state)
{
    struct app_fixture *fixture = *state;
    char name[8];

    take_up(fixture, "rollout");
    assert_int_equal(weight(fixture, 300), 0);
    assert_true(weight(fixture, 250) > 0); /* the cold start */
    for (uint32_t i = 0; i < TALLY_COLD; i++) {
        (void)snprintf(name, sizeof name, "p%u", i);
        fixture_pod(fixture, name, "300");
        fixture_run(fixture);
        if (i + 1 == TALLY_STEP_MIN)
            assert_int_equal(weight(fixture, 300), TALLY_STEP_MIN * TALLY_WEIGHT);
    }
    assert_true(weight(fixture, 300) > TALLY_COLD / 2 * TALLY_WEIGHT);
}

static void binpack_needs_to_know_nothing(void **state)
{
    struct app_fixture *fixture = *state;

    fixture_pod(fixture, "a", "300");
    fixture_pod(fixture, "b", "300");
    fixture_run(fixture);
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    assert_null(snapshot->outlook);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pod_counts_once_however_often_it_is_seen_and_asked_about),
        TEST(a_pod_that_filter_asked_about_first_counts_when_the_watch_shows_it),
        TEST(only_pods_that_ask_for_shares_count),
        TEST(the_policy_takes_up_what_was_learned),
        TEST(binpack_needs_to_know_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
