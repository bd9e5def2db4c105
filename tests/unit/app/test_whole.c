/* Whole GPUs of the other resource: held from the moment we decide, on the same path as a share. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/store_checks.h"
#include "support/test.h"
#include "support_fixture.h"

#define ONE_WHOLE "\"nvidia.com/gpu\":\"1\""
#define BOTH      "\"nvidia.com/gpu\":\"1\",\"nvidia.com/vgpu\":\"300\""

static const char *const two_nodes[] = {"n1", "2000", "n2", "2000", NULL};

static int set_up(void **state)
{
    *state = fixture_new(two_nodes);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, fixture_tear_down)

/* Whole GPUs that n1 holds in the snapshot. */
static uint32_t held(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    return snapshot_node(snapshot, TEXT("n1"))->held_gpus;
}

static size_t reservations(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    return snapshot->n_opens;
}

FIXTURE_TEST(whole_gpu__is_held_on_disk_before_its_binding_is_sent)
{
    fixture_pod_of(fixture, "w", ONE_WHOLE, NULL, NULL);
    fixture_show_pod(fixture, "a", "100");
    const uint32_t commits = fixture->commits;
    struct fixture_call *call = fixture_bind_begin(fixture, "w", "n1");
    (void)writer_step(fixture->parts.writer, 0);
    assert_int_equal(fixture->commits, commits + 1);
    assert_int_equal(fixture->bindings, 0);
    assert_int_equal(held(fixture), 1);
    assert_int_equal(reservations(fixture), 1);
    assert_says(fixture_filter(fixture, "a", "n1 n2"), "\"NodeNames\":[\"n2\"]");
    fixture_run(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_string_equal(fixture_where(fixture, "w"), "n1");
    assert_int_equal(reservations(fixture), 0);
    assert_int_equal(held(fixture), 1);
    fixture_end_pod(fixture, "w");
    fixture_run(fixture);
    assert_int_equal(held(fixture), 0);
}

FIXTURE_TEST(whole_gpu__excludes_a_share_in_one_batch)
{
    for (int first = 0; first < 2; first++) {
        fixture_pod(fixture, "a", "100");
        fixture_pod_of(fixture, "w", ONE_WHOLE, NULL, NULL);
        fixture_run(fixture);
        assert_true(fixture_fits(fixture, "a", "n1"));
        assert_true(fixture_fits(fixture, "w", "n1"));
        struct fixture_call *one = fixture_bind_begin(fixture, first == 0 ? "a" : "w", "n1");
        struct fixture_call *two = fixture_bind_begin(fixture, first == 0 ? "w" : "a", "n1");
        fixture_run(fixture); /* both in one batch */
        assert_string_equal(fixture_error(one), "");
        assert_string_equal(fixture_error(two), first == 0 ? "mixed: the node's GPUs are shared"
                                                           : "mixed: no GPU with 100 milli free");
        fixture_delete_pod(fixture, "a");
        fixture_delete_pod(fixture, "w");
        fixture_run(fixture);
    }
    assert_int_equal(fixture_allocations(fixture), 0);
}

FIXTURE_TEST(whole_gpu__stays_held_on_its_node_while_in_doubt)
{
    fixture_pod_of(fixture, "w", ONE_WHOLE, NULL, NULL);
    fixture_show_pod(fixture, "a", "100");
    fixture->lose_requests = true;
    struct fixture_call *call = fixture_bind_begin(fixture, "w", "n1");
    fixture_pass(fixture, 20000);
    assert_says(fixture_error(call), "in doubt");
    assert_int_equal(held(fixture), 1);
    assert_says(fixture_bind(fixture, "a", "n1"), "mixed");
    assert_says(fixture_bind(fixture, "w", "n2"), "elsewhere");
    assert_says(fixture_filter(fixture, "w", "n1 n2"), "\"NodeNames\":[\"n1\"]");
    assert_says(fixture_filter(fixture, "w", "n2"), "holds a reservation on node n1");
    fixture_restart_and_run(fixture);
    assert_int_equal(held(fixture), 1);
    fixture->lose_requests = false;
    assert_string_equal(fixture_bind(fixture, "w", "n1"), "");
    assert_string_equal(fixture_where(fixture, "w"), "n1");
    assert_int_equal(reservations(fixture), 0);
}

FIXTURE_TEST(whole_gpu__is_freed_when_its_binding_is_refused)
{
    fixture_pod_of(fixture, "w", ONE_WHOLE, NULL, NULL);
    fixture_run(fixture);
    fixture_break(fixture,
                  &(struct fixture_fault){
                      .point = POINT_REQUEST, .nth = 1, .trouble = POINT_STATUS, .status = 403});
    assert_says(fixture_bind(fixture, "w", "n1"), "403");
    fixture_heal(fixture);
    fixture_pass(fixture, 2000);
    assert_int_equal(held(fixture), 0);
    assert_int_equal(fixture_allocations(fixture), 0);
}

FIXTURE_TEST(both_resources__are_held_whoever_bound_the_pod)
{
    for (int bound = 0; bound < 2; bound++) {
        fixture_pod_of(fixture, "b", BOTH, NULL, bound > 0 ? "n1" : NULL);
        fixture_show_pod(fixture, "a", "100");
        if (bound == 0)
            assert_string_equal(fixture_bind(fixture, "b", "n1"), "");
        assert_int_equal(held(fixture), 1);
        assert_int_equal(fixture_taken(fixture, "n1"), 300);
        assert_says(fixture_bind(fixture, "a", "n1"), "mixed");
        fixture_restart_and_run(fixture);
        assert_int_equal(held(fixture), 1);
        fixture_delete_pod(fixture, "a");
        fixture_delete_pod(fixture, "b");
        fixture_run(fixture);
    }
}

FIXTURE_TEST(both_resources__are_not_offered_nodes_with_shares)
{
    fixture_pod(fixture, "a", "100");
    fixture_pod_of(fixture, "b", BOTH, NULL, NULL);
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_says(fixture_filter(fixture, "b", "n1 n2"), "\"NodeNames\":[\"n2\"]");
    assert_says(fixture_filter(fixture, "b", "n1"), "no other pod's shares");
    assert_says(fixture_bind(fixture, "b", "n1"), "mixed");
}

FIXTURE_TEST(whole_gpu__is_consistent_in_journal_and_file)
{
    struct err err;

    fixture_pod_of(fixture, "w", ONE_WHOLE, NULL, NULL);
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "w", "n1"), "");
    assert_int_equal(store_verify(fixture->app.store, &err), 0);
    fixture_delete_pod(fixture, "w");
    fixture_run(fixture);
    assert_int_equal(store_verify(fixture->app.store, &err), 0);
    assert_false(atomic_load(&fixture->app.health.safe_mode));
}
