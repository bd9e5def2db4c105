/*
 * clock - time as an argument.
 *
 * Deadlines use the monotonic clock; what people read is wall-clock UTC.  Two functions behind a
 * struct, so that the simulator can hold the hands.
 */
#ifndef MILLIGPU_CLOCK_H
#define MILLIGPU_CLOCK_H

#include <time.h>

#include "milligpu/base.h"

struct clock_ops {
    void *ctx;
    int64_t (*now_ms)(void *ctx);  /* monotonic */
    int64_t (*wall_ms)(void *ctx); /* UTC since 1970 */
};

void clock_real(struct clock_ops *out);
int64_t clock_ns(void); /* monotonic; for measuring only */
/* So long from now on the monotonic clock, for conditions that wait by it. */
struct timespec clock_deadline(int64_t wait_ms);

#endif
