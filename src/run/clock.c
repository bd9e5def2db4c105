/* Reads the clocks of the kernel. Any thread. */
#include "milligpu/run/clock.h"

#include <time.h>

/* Linux has all clocks that are read here, so a failure is a bug. */
static int64_t read_clock(clockid_t which)
{
    struct timespec now;

    must(clock_gettime(which, &now) == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t real_now_ms(void *ctx)
{
    (void)ctx;
    return clock_ms();
}

static int64_t clock_real_wall_ms(void *ctx)
{
    (void)ctx;
    return read_clock(CLOCK_REALTIME) / 1000000;
}

void clock_real(struct clock_ops *out)
{
    *out = (struct clock_ops){.now_ms = real_now_ms, .wall_ms = clock_real_wall_ms};
}

int64_t clock_ms(void)
{
    return read_clock(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_thread_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

struct timespec clock_deadline(int64_t wait_ms)
{
    must(wait_ms >= 0);

    const int64_t at_ns = clock_ns() + wait_ms * 1000000;

    return (struct timespec){.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
}
