#include <stdint.h>

#include "milligpu/run/clock.h"

#include "support/test.h"

TEST(clock_ns__never_goes_back)
{
    struct clock_ops clock;
    clock_real(&clock);
    int64_t last_ms = clock.now_ms(clock.ctx);
    int64_t last_ns = clock_ns();
    for (int i = 0; i < 10000; i++) {
        const int64_t ns = clock_ns();
        const int64_t ms = clock.now_ms(clock.ctx);
        assert_true(ns >= last_ns);
        assert_true(ms >= last_ms);
        assert_true(ms - ns / 1000000 <= 1000);
        last_ns = ns;
        last_ms = ms;
    }
}

TEST(wall_clock__is_in_milliseconds_since_1970)
{
    struct clock_ops clock;
    clock_real(&clock);
    const int64_t now = clock.wall_ms(clock.ctx);
    assert_true(now > 1577836800000); /* 2020 */
    assert_true(now < 7258118400000); /* 2200 */
}

TEST(clock_thread_ns__stands_still_while_the_thread_sleeps)
{
    const int64_t start_ns = clock_ns();
    const int64_t start_thread_ns = clock_thread_ns();
    const struct timespec pause = {.tv_nsec = 200000000};
    assert_int_equal(nanosleep(&pause, NULL), 0);
    assert_true(clock_ns() - start_ns >= 200000000);
    const int64_t slept_ns = clock_thread_ns() - start_thread_ns;
    assert_true(slept_ns >= 0 && slept_ns < 100000000);
    volatile uint32_t work = 0;
    while (clock_thread_ns() - start_thread_ns < slept_ns + 1000000)
        work = work + 1;
    assert_true(work > 0);
}
