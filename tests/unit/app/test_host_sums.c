/* What pods leave of each node's CPU and memory, without a cluster around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/text.h"
#include "milligpu/sync/host_sums.h"

#define MIB INT64_C(1048576)

static int set_up(void **state)
{
    *state = host_sums_new();
    host_sums_start(*state);
    return 0;
}

static int tear_down(void **state)
{
    host_sums_free(*state);
    return 0;
}

/* The last that was told of n1, and how many nodes were told. */
struct told {
    struct host n1;
    unsigned nodes;
};

static void note(void *user, const char *node, const struct host *left)
{
    struct told *told = user;

    told->nodes++;
    if (strcmp(node, "n1") == 0)
        told->n1 = *left;
}

static struct told tell(struct host_sums *sums)
{
    struct told told = {.nodes = 0};

    host_sums_tell_changed(sums, &told, note);
    return told;
}

static void assert_left(struct host_sums *sums, uint32_t cpu_milli, uint32_t memory_mib)
{
    const struct told told = tell(sums);

    assert_int_equal(told.nodes, 1);
    assert_int_equal(told.n1.cpu_milli, cpu_milli);
    assert_int_equal(told.n1.memory_mib, memory_mib);
}

static void show(struct host_sums *sums, const char *node, uint32_t cpu_milli, uint32_t memory_mib)
{
    const struct host host = {cpu_milli, memory_mib};

    host_sums_show(sums, node, &host);
}

static void pods_leave_what_they_do_not_request(void **state)
{
    show(*state, "n1", 8000, 1000);
    assert_left(*state, 8000, 1000);
    host_sums_come(*state, "n1", 1500, 100 * MIB);
    host_sums_come(*state, "n1", 500, 1); /* a byte of a MiB */
    assert_left(*state, 6000, 899);
    host_sums_leave(*state, "n1", 1500, 100 * MIB);
    assert_left(*state, 7500, 999);
    host_sums_leave(*state, "n1", 500, 1);
    assert_left(*state, 8000, 1000);
}

static void a_node_is_told_once_for_each_time_that_it_changed(void **state)
{
    show(*state, "n1", 8000, 1000);
    show(*state, "n2", 8000, 1000);
    host_sums_come(*state, "n1", 1, 1);
    host_sums_come(*state, "n3", 1, 1);
    assert_int_equal(tell(*state).nodes, 3);
    assert_int_equal(tell(*state).nodes, 0);
    host_sums_come(*state, "n2", 1, 1);
    assert_int_equal(tell(*state).nodes, 1);
}

static void pods_may_come_before_their_node(void **state)
{
    host_sums_come(*state, "n1", 1000, 10 * MIB);
    assert_left(*state, HOST_UNKNOWN, HOST_UNKNOWN);
    show(*state, "n1", 8000, 1000);
    assert_left(*state, 7000, 990);
}

static void what_a_node_does_not_show_is_not_known(void **state)
{
    host_sums_come(*state, "n1", 1000, 10 * MIB);
    show(*state, "n1", 0, 1000);
    assert_left(*state, HOST_UNKNOWN, 990);
    show(*state, "n1", 8000, 0);
    assert_left(*state, 7000, HOST_UNKNOWN);
    host_sums_hide(*state, "n1");
    assert_left(*state, HOST_UNKNOWN, HOST_UNKNOWN);
    host_sums_hide(*state, "n2");
    assert_int_equal(tell(*state).nodes, 0);
}

/* A tenant writes the amounts. */
static void the_largest_requests_are_counted_exactly(void **state)
{
    show(*state, "n1", HOST_UNKNOWN - 1, HOST_UNKNOWN - 1);
    for (int i = 0; i < 5; i++)
        host_sums_come(*state, "n1", INT64_MAX, INT64_MAX);
    host_sums_come(*state, "n1", 7, 7 * MIB);
    assert_left(*state, 0, 0);
    for (int i = 0; i < 4; i++)
        host_sums_leave(*state, "n1", INT64_MAX, INT64_MAX);
    assert_left(*state, 0, 0);
    host_sums_leave(*state, "n1", INT64_MAX, INT64_MAX);
    assert_left(*state, HOST_UNKNOWN - 8, HOST_UNKNOWN - 8);
}

static void what_is_taken_to_the_last_unit_leaves_nothing(void **state)
{
    show(*state, "n1", 8000, 10);
    host_sums_come(*state, "n1", 7999, 10 * MIB - 1);
    assert_left(*state, 1, 0);
    host_sums_come(*state, "n1", 1, 1);
    assert_left(*state, 0, 0);
    host_sums_come(*state, "n1", 1, 1);
    assert_left(*state, 0, 0);
}

static void who_starts_again_is_told_of_every_node_and_of_no_former_pod(void **state)
{
    show(*state, "n1", 8000, 1000);
    show(*state, "n2", 8000, 1000);
    host_sums_come(*state, "n1", 1000, MIB);
    host_sums_come(*state, "n3", 1000, MIB);
    host_sums_stop(*state);
    assert_int_equal(host_sums_count(*state), 2);
    assert_false(host_sums_started(*state));
    assert_int_equal(tell(*state).nodes, 0);
    show(*state, "n1", 9000, 1000);
    host_sums_hide(*state, "n2");
    host_sums_start(*state);
    assert_true(host_sums_started(*state));
    assert_left(*state, 9000, 1000); /* n2 and n3 say nothing any more */
}

static void nodes_that_come_and_go_leave_nothing_behind(void **state)
{
    char name[16];

    host_sums_stop(*state);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        show(*state, name, 8000, 1000);
        host_sums_hide(*state, name);
    }
    assert_int_equal(host_sums_count(*state), 0);
    host_sums_start(*state);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        host_sums_come(*state, name, 1, 1);
        host_sums_leave(*state, name, 1, 1);
    }
    assert_int_equal(tell(*state).nodes, 1000); /* and are forgotten then */
    assert_int_equal(host_sums_count(*state), 0);
}

#define sums_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        sums_test(pods_leave_what_they_do_not_request),
        sums_test(a_node_is_told_once_for_each_time_that_it_changed),
        sums_test(pods_may_come_before_their_node),
        sums_test(what_a_node_does_not_show_is_not_known),
        sums_test(the_largest_requests_are_counted_exactly),
        sums_test(what_is_taken_to_the_last_unit_leaves_nothing),
        sums_test(who_starts_again_is_told_of_every_node_and_of_no_former_pod),
        sums_test(nodes_that_come_and_go_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
