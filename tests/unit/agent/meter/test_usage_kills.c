/* A kill is reported until milligpud has taken the report, and once. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/meter/usage_kills.h"
#include "support/test.h"

static struct meter_container shown[USAGE_KILLS_MAX + 1];
static struct meter_copy copy;
static struct usage_kills kills;
static struct usage_gpu gpu;
static struct usage_container container;
static struct usage_pod pod;
static struct usage_report report;

static int begin(void **state __attribute__((unused)))
{
    memset(&kills, 0, sizeof kills);
    copy = (struct meter_copy){.can_report = true, .count = 1, .container = shown};
    shown[0] =
        (struct meter_container){.id = "first", .uid = "u1", .name = "main", .over = OVER_KILLED};
    pod = (struct usage_pod){.uid = TEXT("u1"), .n_containers = 1, .container = &container};
    report = (struct usage_report){.n_pods = 1, .pod = &pod};
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    usage_kills_done(&kills);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

/* The kill that a report has, if the present life of the container is over this way. */
static enum usage_over reported(enum usage_over over)
{
    gpu = (struct usage_gpu){.peak_mib = 7};
    container =
        (struct usage_container){.name = TEXT("main"), .n_gpus = 1, .gpu = &gpu, .over = over};
    usage_kills_note(&kills, &copy);
    usage_kills_put(&kills, &report);
    return container.over;
}

static void lives_again(void)
{
    shown[0].id = "second";
    shown[0].over = OVER_NOT;
}

FIXTURE_TEST(usage_kills__are_repeated_until_taken)
{
    assert_int_equal(reported(USAGE_OVER_KILLED), USAGE_OVER_KILLED);
    assert_int_equal(gpu.peak_mib, 7); /* of the life that was killed */
    assert_true(usage_kills_are_news(&kills));
    lives_again();
    assert_int_equal(reported(USAGE_OVER_NOT), USAGE_OVER_KILLED);
    assert_int_equal(gpu.peak_mib, USAGE_UNKNOWN);
    assert_int_equal(reported(USAGE_OVER_SEEN), USAGE_OVER_KILLED);
    usage_kills_taken(&kills);
    assert_false(usage_kills_are_news(&kills));
    assert_int_equal(reported(USAGE_OVER_SEEN), USAGE_OVER_SEEN);
    assert_int_equal(gpu.peak_mib, 7);
    assert_int_equal(kills.count, 0);
}

FIXTURE_TEST(usage_kills__are_no_news_while_still_shown)
{
    (void)reported(USAGE_OVER_KILLED);
    usage_kills_taken(&kills);
    (void)reported(USAGE_OVER_KILLED);
    assert_false(usage_kills_are_news(&kills));
    shown[0].id = "second"; /* killed as well */
    (void)reported(USAGE_OVER_KILLED);
    assert_true(usage_kills_are_news(&kills));
    assert_int_equal(kills.count, 1);
}

FIXTURE_TEST(usage_kills__belong_to_one_container_of_one_pod)
{
    shown[0].name = "side";
    assert_int_equal(reported(USAGE_OVER_NOT), USAGE_OVER_NOT);
    shown[0] =
        (struct meter_container){.id = "other", .uid = "u2", .name = "main", .over = OVER_KILLED};
    assert_int_equal(reported(USAGE_OVER_NOT), USAGE_OVER_NOT);
    assert_int_equal(kills.count, 2);
}

FIXTURE_TEST(usage_kills__leave_out_unreportable_ones)
{
    copy.can_report = false;
    (void)reported(USAGE_OVER_NOT);
    copy.can_report = true;
    shown[0].over = OVER_SEEN;
    (void)reported(USAGE_OVER_NOT);
    assert_int_equal(kills.count, 0);
}

FIXTURE_TEST(usage_kills__are_bounded)
{
    char id[USAGE_KILLS_MAX + 1][16];

    copy.count = USAGE_KILLS_MAX + 1;
    for (uint32_t i = 0; i < copy.count; i++) {
        (void)snprintf(id[i], sizeof id[i], "%u", (unsigned)i);
        shown[i] =
            (struct meter_container){.id = id[i], .uid = "u1", .name = "main", .over = OVER_KILLED};
    }
    (void)reported(USAGE_OVER_KILLED);
    assert_int_equal(kills.count, USAGE_KILLS_MAX);
    usage_kills_taken(&kills);
    copy.count = 0;
    (void)reported(USAGE_OVER_NOT);
    assert_int_equal(kills.count, 0);
}
