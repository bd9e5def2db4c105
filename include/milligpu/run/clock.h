/*
 * clock - the clocks, as functions that the simulator can replace.
 *
 * Deadlines use the monotonic clock; times that people read are wall-clock UTC.
 */
#ifndef MILLIGPU_CLOCK_H
#define MILLIGPU_CLOCK_H

#include <time.h>

#include "milligpu/base/base.h"

struct clock_ops {
    void *ctx;
    int64_t (*now_ms)(void *ctx);  /* monotonic */
    int64_t (*wall_ms)(void *ctx); /* UTC since 1970 */
};

void clock_real(struct clock_ops *out);
int64_t clock_ms(void);        /* monotonic, for callers without clock_ops */
int64_t clock_ns(void);        /* monotonic, for measurements only */
int64_t clock_thread_ns(void); /* CPU time of the calling thread, for measurements only */
/* Returns the monotonic time wait_ms from now, for condition variables. */
struct timespec clock_deadline(int64_t wait_ms);

#endif
