/*
 * standstill - a world in which nothing happens by itself: a clock that is moved by hand, and an
 * API server that never answers. For benchmarks of one thread.
 */
#ifndef MILLIGPU_BENCH_STANDSTILL_H
#define MILLIGPU_BENCH_STANDSTILL_H

#include "milligpu/kube/kube.h"
#include "milligpu/run/clock.h"

extern int64_t standstill_ms; /* monotonic; the wall clock follows it */

struct clock_ops standstill_clock(void);
struct kube_ops standstill_server(void);

#endif
