/* usage_fill - averages of a window over the known time. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/meter/usage_fill.h"
#include "support/test.h"

static struct arena arena;
static struct meter_gpu gpus[4][2];
static struct meter_container containers[4];
static struct meter_copy now;
static struct meter_container before;
static struct meter_gpu was; /* of that one */
static const struct meter_copy then = {.count = 1, .container = &before};
static const struct meter_copy nothing = {.count = 0};
static struct usage_report report;

static int begin(void **state __attribute__((unused)))
{
    arena_init(&arena);
    memset(gpus, 0, sizeof gpus);
    memset(containers, 0, sizeof containers);
    before = (struct meter_container){.id = "c1", .n_gpus = 1, .gpu = &was};
    now = (struct meter_copy){.is_metering = true, .can_report = true, .container = containers};
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

static struct meter_gpu *add(const char *id, const char *uid, const char *name)
{
    const uint32_t at = now.count++;
    gpus[at][0].uuid = "GPU-a";
    containers[at] = (struct meter_container){
        .id = id, .uid = uid, .name = name, .right = RIGHT_SHARE, .n_gpus = 1, .gpu = gpus[at]};
    return gpus[at];
}

static const struct usage_gpu *only(const struct meter_copy *from)
{
    usage_fill_between(from, &now, &arena, &report);
    assert_int_equal(report.n_pods, 1);
    assert_int_equal(report.pod[0].n_containers, 1);
    assert_int_equal(report.pod[0].container[0].n_gpus, 1);
    return &report.pod[0].container[0].gpu[0];
}

static void has(const struct meter_copy *from, int64_t milli, int64_t mib, int64_t peak_mib)
{
    const struct usage_gpu *found = only(from);
    assert_int_equal(found->milli, milli);
    assert_int_equal(found->mib, mib);
    assert_int_equal(found->peak_mib, peak_mib);
}

FIXTURE_TEST(usage_fill__averages_over_the_known_time)
{
    was = (struct meter_gpu){.uuid = "GPU-a",
                             .milli_ms = 1000,
                             .milli_known_ms = 10,
                             .mib_ms = 5000,
                             .mib_known_ms = 10};
    struct meter_gpu *gpu = add("c1", "u1", "main");
    gpu->milli_ms = 1000 + 250 * 4;
    gpu->milli_known_ms = 14;
    gpu->mib_ms = 5000 + 100 * 8;
    gpu->mib_known_ms = 18;
    gpu->peak_mib = 700;
    const struct usage_gpu *found = only(&then);
    assert_true(text_is(found->gpu, "GPU-a"));
    assert_int_equal(found->milli, 250);
    assert_int_equal(found->mib, 100);
    assert_int_equal(found->peak_mib, 700);
    /* A container that was absent has the average of its life. */
    before.id = "another";
    found = only(&then);
    assert_int_equal(found->milli, 2000 / 14);
    assert_int_equal(found->mib, 5800 / 18);
}

/* One sample of many is enough: the average has it in it. */
FIXTURE_TEST(usage_fill__marks_an_average_with_a_scaled_sample)
{
    was = (struct meter_gpu){.uuid = "GPU-a", .milli_known_ms = 10, .scaled_ms = 3};
    struct meter_gpu *gpu = add("c1", "u1", "main");
    gpu->milli_known_ms = 1000;
    gpu->scaled_ms = 3;
    gpu->is_scaled = true; /* now; its time is not in the window yet */
    assert_false(only(&then)->is_scaled);
    assert_true(only(&nothing)->is_scaled); /* the average of its life */
    gpu->scaled_ms = 4;
    gpu->is_scaled = false;
    assert_true(only(&then)->is_scaled);
    gpu->scaled_ms = 0;
    assert_false(only(&nothing)->is_scaled);
}

/* As for a container that was missing in one list of the runtime. */
FIXTURE_TEST(usage_fill__is_unknown_after_sums_restart)
{
    was = (struct meter_gpu){.uuid = "GPU-a",
                             .milli_ms = 9000,
                             .milli_known_ms = 10,
                             .mib_ms = 9000,
                             .mib_known_ms = 10};
    struct meter_gpu *gpu = add("c1", "u1", "main");
    gpu->scaled_ms = 5;
    gpu->milli_known_ms = gpu->mib_known_ms = 9;
    gpu->milli_ms = gpu->mib_ms = 2000;
    for (int i = 0; i < 2; i++) { /* the time is less than before, or the sums alone are */
        const struct usage_gpu *found = only(&then);
        assert_int_equal(found->milli, USAGE_UNKNOWN);
        assert_int_equal(found->mib, USAGE_UNKNOWN);
        assert_false(found->is_scaled);
        gpu->milli_known_ms = gpu->mib_known_ms = 11;
    }
}

FIXTURE_TEST(usage_fill__leaves_out_unknown_values)
{
    struct meter_gpu *gpu = add("c1", "u1", "main");
    has(&nothing, USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN);
    gpu->mib_known_ms = 10; /* it was idle, and that is known */
    gpu->milli_known_ms = 10;
    has(&nothing, 0, 0, 0);
    gpu->milli_ms = INT64_C(5000) * 10;
    gpu->mib_ms = (int64_t)UINT32_MAX * 10;
    gpu->peak_mib = UINT32_MAX;
    has(&nothing, GPU_MILLI, INT32_MAX, INT32_MAX);
}

FIXTURE_TEST(usage_fill__sorts_containers_into_pods)
{
    add("c1", "u1", "main");
    add("c2", "u2", "main");
    add("c3", "u1", "side")[1].uuid = "GPU-b";
    containers[2].n_gpus = 2;
    containers[2].over = OVER_SEEN;
    add("c4", "u3", "whole");
    containers[3].right = RIGHT_KUBELET; /* no share of ours */
    usage_fill_between(&nothing, &now, &arena, &report);
    assert_int_equal(report.n_pods, 2);
    assert_int_equal(report.pod[0].n_containers, 2);
    assert_true(text_is(report.pod[0].container[1].name, "side"));
    assert_int_equal(report.pod[0].container[1].n_gpus, 2);
    assert_int_equal(report.pod[0].container[1].over, USAGE_OVER_SEEN);
    assert_int_equal(report.pod[1].n_containers, 1);
    assert_int_equal(report.pod[1].container[0].over, USAGE_OVER_NOT);
    now.can_report = false;
    usage_fill_between(&nothing, &now, &arena, &report);
    assert_int_equal(report.pod[0].container[1].over, USAGE_OVER_NOT);
}

FIXTURE_TEST(usage_fill__takes_the_later_life_of_a_container)
{
    add("c1", "u1", "main")->peak_mib = 900;
    struct meter_gpu *second = add("c2", "u1", "main");
    second->peak_mib = 100;
    second->mib_known_ms = 1;
    assert_int_equal(only(&nothing)->peak_mib, 100);
}

FIXTURE_TEST(usage_fill__reports_nothing_without_a_meter)
{
    struct usage_fill *fill = usage_fill_new(NULL, 1000);
    assert_false(usage_fill_report(fill, &report, &arena));
    assert_false(usage_fill_is_urgent(fill));
    usage_fill_free(fill);
    usage_fill_free(NULL);
}
