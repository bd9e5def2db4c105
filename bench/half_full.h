/*
 * half_full - a ledger as an earlier run of the daemon left it: the cluster of cluster.h in the
 * app's store, half of all milli held, and those pods in its pod cache. Then call writer_load().
 */
#ifndef MILLIGPU_BENCH_HALF_FULL_H
#define MILLIGPU_BENCH_HALF_FULL_H

#include "milligpu/spine/app.h"

/* Returns how many pods are bound. */
uint32_t half_full(struct app *app, uint32_t nodes);

#endif
