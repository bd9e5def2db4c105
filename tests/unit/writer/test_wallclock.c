#include "milligpu/base/base.h"

#include "support/test.h"
#include "writer/wallclock.h"

static const int64_t hour_ms = 3600000;
static const int64_t day_ms = INT64_C(24) * 3600000;
static const int64_t wall_ms = INT64_C(1795000000000);

TEST(wallclock__trusts_a_clock_that_goes_on)
{
    struct wallclock clock;
    wallclock_start(&clock, wall_ms, 500, 0, 0);
    assert_int_equal(wallclock_look(&clock, wall_ms, 500), wall_ms);
    assert_false(wallclock_is_doubted(&clock));
    assert_int_equal(wallclock_look(&clock, wall_ms + 7, 1000), wall_ms + 500);
    /* Nobody looked for three days, which is no step. */
    (void)wallclock_look(&clock, wall_ms + 3 * day_ms, 1000 + 3 * day_ms);
    assert_false(wallclock_is_doubted(&clock));
}

TEST(wallclock__trusts_a_step_of_less_than_a_day)
{
    struct wallclock clock;
    wallclock_start(&clock, wall_ms, 0, 0, 0);
    (void)wallclock_look(&clock, wall_ms + day_ms, 0);
    assert_false(wallclock_is_doubted(&clock));
    (void)wallclock_look(&clock, wall_ms, 0);
    assert_false(wallclock_is_doubted(&clock));
}

TEST(wallclock__distrusts_a_large_step_for_an_hour)
{
    struct wallclock clock;
    wallclock_start(&clock, wall_ms, 0, 0, 0);
    assert_int_equal(wallclock_look(&clock, wall_ms + 400 * day_ms, 1000), wall_ms + 1000);
    assert_true(wallclock_is_doubted(&clock));
    (void)wallclock_look(&clock, wall_ms + 3000, 3000); /* stepping back is a step, too */
    (void)wallclock_look(&clock, wall_ms + hour_ms, hour_ms);
    assert_true(wallclock_is_doubted(&clock));
    (void)wallclock_look(&clock, wall_ms + hour_ms + 2999, hour_ms + 2999);
    assert_true(wallclock_is_doubted(&clock));
    (void)wallclock_look(&clock, wall_ms + hour_ms + 3000, hour_ms + 3000);
    assert_false(wallclock_is_doubted(&clock));
}

TEST(wallclock__compares_the_first_look_with_the_journal)
{
    static const struct {
        int64_t last_ms;
        bool doubted;
    } starts[] = {{0, false},
                  {wall_ms, false},
                  {wall_ms - day_ms, false},
                  {wall_ms + day_ms, false},
                  {wall_ms - day_ms - 1, true},
                  {wall_ms + day_ms + 1, true}};
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        struct wallclock clock;
        const int64_t last_ms = starts[i].last_ms;
        wallclock_start(&clock, wall_ms, 9, last_ms, 0);
        assert_int_equal(wallclock_look(&clock, wall_ms, 9), last_ms != 0 ? last_ms : wall_ms);
        assert_int_equal(wallclock_is_doubted(&clock), starts[i].doubted);
    }
}

/*
 * A clock that is a year ahead and then steps by half a day, which is believed, has not run for an
 * hour.
 */
TEST(wallclock__begins_the_hour_anew_at_a_start)
{
    const int64_t stepped[] = {wall_ms, wall_ms - 600000, wall_ms - day_ms / 2, wall_ms + 600000,
                               1};
    for (size_t i = 0; i < ARRAY_LEN(stepped); i++) {
        struct wallclock clock;
        wallclock_start(&clock, wall_ms, 70, wall_ms, stepped[i]);
        (void)wallclock_look(&clock, wall_ms + hour_ms - 1, 70 + hour_ms - 1);
        assert_true(wallclock_is_doubted(&clock));
        (void)wallclock_look(&clock, wall_ms + hour_ms, 70 + hour_ms);
        assert_false(wallclock_is_doubted(&clock));
    }
}
