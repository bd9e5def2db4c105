/* The CPU and memory that pods leave on each node, without a cluster around it. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/text.h"
#include "milligpu/sync/host_sums.h"

#include "support/test.h"

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

#define FIXTURE_TEST(name) TEST_WITH(name, struct host_sums *sums, set_up, tear_down)

/* The last report about n1, and the number of reports. */
struct reported {
    struct host n1;
    unsigned nodes;
};

static void note(void *user, const char *node, const struct host *left)
{
    struct reported *reported = user;

    reported->nodes++;
    if (strcmp(node, "n1") == 0)
        reported->n1 = *left;
}

static struct reported report(struct host_sums *sums)
{
    struct reported reported = {.nodes = 0};

    host_sums_report_changed(sums, &reported, note);
    return reported;
}

static void assert_left(struct host_sums *sums, uint32_t cpu_milli, uint32_t memory_mib)
{
    const struct reported reported = report(sums);

    assert_int_equal(reported.nodes, 1);
    assert_int_equal(reported.n1.cpu_milli, cpu_milli);
    assert_int_equal(reported.n1.memory_mib, memory_mib);
}

static void show(struct host_sums *sums, const char *node, uint32_t cpu_milli, uint32_t memory_mib)
{
    const struct host host = {cpu_milli, memory_mib};

    host_sums_show(sums, node, &host);
}

FIXTURE_TEST(host_sums__subtract_requests)
{
    show(sums, "n1", 8000, 1000);
    assert_left(sums, 8000, 1000);
    host_sums_come(sums, "n1", 1500, 100 * MIB);
    host_sums_come(sums, "n1", 500, 1); /* a byte of a MiB */
    assert_left(sums, 6000, 899);
    host_sums_leave(sums, "n1", 1500, 100 * MIB);
    assert_left(sums, 7500, 999);
    host_sums_leave(sums, "n1", 500, 1);
    assert_left(sums, 8000, 1000);
}

FIXTURE_TEST(host_sums__report_each_change_once)
{
    show(sums, "n1", 8000, 1000);
    show(sums, "n2", 8000, 1000);
    host_sums_come(sums, "n1", 1, 1);
    host_sums_come(sums, "n3", 1, 1);
    assert_int_equal(report(sums).nodes, 3);
    assert_int_equal(report(sums).nodes, 0);
    host_sums_come(sums, "n2", 1, 1);
    assert_int_equal(report(sums).nodes, 1);
}

FIXTURE_TEST(host_sums__count_pods_before_their_node)
{
    host_sums_come(sums, "n1", 1000, 10 * MIB);
    assert_left(sums, HOST_UNKNOWN, HOST_UNKNOWN);
    show(sums, "n1", 8000, 1000);
    assert_left(sums, 7000, 990);
}

FIXTURE_TEST(host_sums__are_unknown_without_allocatable)
{
    host_sums_come(sums, "n1", 1000, 10 * MIB);
    show(sums, "n1", 0, 1000);
    assert_left(sums, HOST_UNKNOWN, 990);
    show(sums, "n1", 8000, 0);
    assert_left(sums, 7000, HOST_UNKNOWN);
    host_sums_hide(sums, "n1");
    assert_left(sums, HOST_UNKNOWN, HOST_UNKNOWN);
    host_sums_hide(sums, "n2");
    assert_int_equal(report(sums).nodes, 0);
}

/* A tenant writes the amounts. */
FIXTURE_TEST(host_sums__count_the_largest_requests_exactly)
{
    show(sums, "n1", HOST_UNKNOWN - 1, HOST_UNKNOWN - 1);
    for (int i = 0; i < 5; i++)
        host_sums_come(sums, "n1", INT64_MAX, INT64_MAX);
    host_sums_come(sums, "n1", 7, 7 * MIB);
    assert_left(sums, 0, 0);
    for (int i = 0; i < 4; i++)
        host_sums_leave(sums, "n1", INT64_MAX, INT64_MAX);
    assert_left(sums, 0, 0);
    host_sums_leave(sums, "n1", INT64_MAX, INT64_MAX);
    assert_left(sums, HOST_UNKNOWN - 8, HOST_UNKNOWN - 8);
}

FIXTURE_TEST(host_sums__end_at_zero)
{
    show(sums, "n1", 8000, 10);
    host_sums_come(sums, "n1", 7999, 10 * MIB - 1);
    assert_left(sums, 1, 0);
    host_sums_come(sums, "n1", 1, 1);
    assert_left(sums, 0, 0);
    host_sums_come(sums, "n1", 1, 1);
    assert_left(sums, 0, 0);
}

FIXTURE_TEST(host_sums__report_every_node_after_a_new_start)
{
    show(sums, "n1", 8000, 1000);
    show(sums, "n2", 8000, 1000);
    host_sums_come(sums, "n1", 1000, MIB);
    host_sums_come(sums, "n3", 1000, MIB);
    host_sums_stop(sums);
    assert_int_equal(host_sums_count(sums), 2);
    assert_false(host_sums_started(sums));
    assert_int_equal(report(sums).nodes, 0);
    show(sums, "n1", 9000, 1000);
    host_sums_hide(sums, "n2");
    host_sums_start(sums);
    assert_true(host_sums_started(sums));
    assert_left(sums, 9000, 1000); /* n2 and n3 say nothing any more */
}

FIXTURE_TEST(host_sums__report_every_node_while_they_settle)
{
    enum { NODES = 800 };
    char name[16];

    for (int i = 0; i < NODES; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        show(sums, name, 8000, 1000);
    }
    assert_int_equal(report(sums).nodes, NODES);
    for (int i = 0; i < NODES; i++) {
        host_sums_settle(sums, 10);
        (void)snprintf(name, sizeof name, "n%d", i);
        host_sums_come(sums, name, 1000, 0);
    }
    const struct reported reported = report(sums);
    assert_int_equal(reported.nodes, NODES);
    assert_int_equal(reported.n1.cpu_milli, 7000);
    assert_int_equal(host_sums_count(sums), NODES);
}

FIXTURE_TEST(host_sums__forget_nodes)
{
    char name[16];

    host_sums_stop(sums);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        show(sums, name, 8000, 1000);
        host_sums_hide(sums, name);
    }
    assert_int_equal(host_sums_count(sums), 0);
    host_sums_start(sums);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        host_sums_come(sums, name, 1, 1);
        host_sums_leave(sums, name, 1, 1);
    }
    assert_int_equal(report(sums).nodes, 1000); /* and are forgotten then */
    assert_int_equal(host_sums_count(sums), 0);
}
