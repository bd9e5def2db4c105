/* Whole GPUs of the other resource: held from the moment that we decide, by the path of a share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support_rig.h"

#define ONE_WHOLE "\"nvidia.com/gpu\":\"1\""
#define BOTH      "\"nvidia.com/gpu\":\"1\",\"nvidia.com/vgpu\":\"300\""

static const char *const two_nodes[] = {"n1", "2000", "n2", "2000", NULL};

static int set_up(void **state)
{
    *state = rig_new(two_nodes);
    return 0;
}

/* Whole GPUs that n1 is seen to hold. */
static uint32_t held(struct rig *rig)
{
    const struct snapshot *snapshot = view_take(rig->app.view);
    const uint32_t gpus = snapshot_node(snapshot, TEXT("n1"))->held_gpus;

    snapshot_unref(snapshot);
    return gpus;
}

static size_t reservations(struct rig *rig)
{
    const struct snapshot *snapshot = view_take(rig->app.view);
    const size_t opens = snapshot->opens;

    snapshot_unref(snapshot);
    return opens;
}

static void a_whole_gpu_is_held_on_disk_and_in_sight_before_its_binding_goes_out(void **state)
{
    struct rig *rig = *state;

    rig_pod_of(rig, "w", ONE_WHOLE, NULL, NULL);
    rig_pod(rig, "a", "100");
    rig_run(rig);
    const uint32_t commits = rig->commits;
    struct rig_call *call = rig_bind_begin(rig, "w", "n1");
    (void)writer_step(rig->writer, 0);
    assert_int_equal(rig->commits, commits + 1);
    assert_int_equal(rig->bindings, 0);
    assert_int_equal(held(rig), 1);
    assert_int_equal(reservations(rig), 1);
    assert_non_null(strstr(rig_filter(rig, "a", "n1 n2"), "\"NodeNames\":[\"n2\"]"));
    rig_run(rig);
    assert_string_equal(rig_error(call), "");
    assert_string_equal(rig_where(rig, "w"), "n1");
    assert_int_equal(reservations(rig), 0);
    assert_int_equal(held(rig), 1);
    rig_end_pod(rig, "w");
    rig_run(rig);
    assert_int_equal(held(rig), 0);
}

static void of_a_share_and_a_whole_gpu_that_both_passed_filter_one_is_bound(void **state)
{
    struct rig *rig = *state;

    for (int first = 0; first < 2; first++) {
        rig_pod(rig, "a", "100");
        rig_pod_of(rig, "w", ONE_WHOLE, NULL, NULL);
        rig_run(rig);
        assert_non_null(strstr(rig_filter(rig, "a", "n1"), "\"NodeNames\":[\"n1\"]"));
        assert_non_null(strstr(rig_filter(rig, "w", "n1"), "\"NodeNames\":[\"n1\"]"));
        struct rig_call *one = rig_bind_begin(rig, first == 0 ? "a" : "w", "n1");
        struct rig_call *two = rig_bind_begin(rig, first == 0 ? "w" : "a", "n1");
        rig_run(rig); /* both in one batch */
        assert_string_equal(rig_error(one), "");
        assert_string_equal(rig_error(two), first == 0 ? "mixed: the node's GPUs are shared"
                                                       : "mixed: no GPU with 100 milli free");
        rig_delete_pod(rig, "a");
        rig_delete_pod(rig, "w");
        rig_run(rig);
    }
    assert_int_equal(rig_allocations(rig), 0);
}

static void a_whole_gpu_whose_binding_is_in_doubt_stays_held_on_its_node(void **state)
{
    struct rig *rig = *state;

    rig_pod_of(rig, "w", ONE_WHOLE, NULL, NULL);
    rig_pod(rig, "a", "100");
    rig_run(rig);
    rig->lose_requests = true;
    struct rig_call *call = rig_bind_begin(rig, "w", "n1");
    rig_pass(rig, 20000);
    assert_non_null(strstr(rig_error(call), "in doubt"));
    assert_int_equal(held(rig), 1);
    assert_non_null(strstr(rig_bind(rig, "a", "n1"), "mixed"));
    assert_non_null(strstr(rig_bind(rig, "w", "n2"), "elsewhere"));
    assert_non_null(strstr(rig_filter(rig, "w", "n1 n2"), "\"NodeNames\":[\"n1\"]"));
    assert_non_null(strstr(rig_filter(rig, "w", "n2"), "holds a reservation on node n1"));
    rig_restart(rig);
    rig_run(rig);
    assert_int_equal(held(rig), 1);
    rig->lose_requests = false;
    assert_string_equal(rig_bind(rig, "w", "n1"), "");
    assert_string_equal(rig_where(rig, "w"), "n1");
    assert_int_equal(reservations(rig), 0);
}

static void a_binding_of_a_whole_gpu_that_cannot_be_leaves_nothing_held(void **state)
{
    struct rig *rig = *state;

    rig_pod_of(rig, "w", ONE_WHOLE, NULL, NULL);
    rig_run(rig);
    rig_break(rig, &(struct rig_fault){
                       .point = RIG_REQUEST, .nth = 1, .trouble = RIG_STATUS, .status = 403});
    assert_non_null(strstr(rig_bind(rig, "w", "n1"), "403"));
    rig_heal(rig);
    rig_pass(rig, 2000);
    assert_int_equal(held(rig), 0);
    assert_int_equal(rig_allocations(rig), 0);
}

static void a_pod_of_both_resources_holds_both_whoever_bound_it(void **state)
{
    struct rig *rig = *state;

    for (int bound = 0; bound < 2; bound++) {
        rig_pod_of(rig, "b", BOTH, NULL, bound > 0 ? "n1" : NULL);
        rig_pod(rig, "a", "100");
        rig_run(rig);
        if (bound == 0)
            assert_string_equal(rig_bind(rig, "b", "n1"), "");
        assert_int_equal(held(rig), 1);
        assert_int_equal(rig_taken(rig, "n1"), 300);
        assert_non_null(strstr(rig_bind(rig, "a", "n1"), "mixed"));
        rig_restart(rig);
        rig_run(rig);
        assert_int_equal(held(rig), 1);
        rig_delete_pod(rig, "a");
        rig_delete_pod(rig, "b");
        rig_run(rig);
    }
}

static void a_pod_of_both_resources_is_not_offered_nodes_with_shares(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "100");
    rig_pod_of(rig, "b", BOTH, NULL, NULL);
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_non_null(strstr(rig_filter(rig, "b", "n1 n2"), "\"NodeNames\":[\"n2\"]"));
    assert_non_null(strstr(rig_filter(rig, "b", "n1"), "no other pod's shares"));
    assert_non_null(strstr(rig_bind(rig, "b", "n1"), "mixed"));
}

static void who_waits_with_whole_gpus_is_woken_when_the_last_share_goes(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "100");
    rig_pod_of(rig, "w", ONE_WHOLE, NULL, NULL);
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_non_null(strstr(rig_filter(rig, "w", "n1"), "the node's GPUs are shared"));
    rig_pass(rig, 1000);
    const uint32_t wake_ups = rig->wake_ups;
    rig_end_pod(rig, "a");
    rig_pass(rig, 1000);
    assert_int_equal(rig->wake_ups, wake_ups + 1);
    assert_non_null(strstr(rig_filter(rig, "w", "n1"), "\"NodeNames\":[\"n1\"]"));
}

static void the_journal_and_the_file_tell_of_a_whole_gpu_as_of_a_share(void **state)
{
    struct rig *rig = *state;
    struct err err;

    rig_pod_of(rig, "w", ONE_WHOLE, NULL, NULL);
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "w", "n1"), "");
    assert_int_equal(store_verify(rig->app.store, &err), 0);
    rig_delete_pod(rig, "w");
    rig_run(rig);
    assert_int_equal(store_verify(rig->app.store, &err), 0);
    assert_false(atomic_load(&rig->app.safe_mode));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_whole_gpu_is_held_on_disk_and_in_sight_before_its_binding_goes_out),
        TEST(of_a_share_and_a_whole_gpu_that_both_passed_filter_one_is_bound),
        TEST(a_whole_gpu_whose_binding_is_in_doubt_stays_held_on_its_node),
        TEST(a_binding_of_a_whole_gpu_that_cannot_be_leaves_nothing_held),
        TEST(a_pod_of_both_resources_holds_both_whoever_bound_it),
        TEST(a_pod_of_both_resources_is_not_offered_nodes_with_shares),
        TEST(who_waits_with_whole_gpus_is_woken_when_the_last_share_goes),
        TEST(the_journal_and_the_file_tell_of_a_whole_gpu_as_of_a_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
