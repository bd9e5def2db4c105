/*
 * measured_sums - what was measured since the writer last stored it, as sums of hours.
 *
 *   report listener --add--> [ sums ] --take--> writer --> store (measured_hours.c)
 *                               ^------add again, if the commit failed
 *
 * A row for each hour, namespace and model. Whoever takes rows has them alone: what is added again
 * after a failure is lost never and counted never twice. The writer takes all within a minute, so a
 * kill loses what was added in the last minute. Bounded: beyond MEASURED_SUMS_MAX rows what is
 * added goes into one row of its hour, with namespace and model "", and where even these are too
 * many (the disk has been full for days) it is dropped and counted.
 *
 * One lock, held for one look-up at a time. Any thread.
 */
#ifndef MILLIGPU_MEASURED_SUMS_H
#define MILLIGPU_MEASURED_SUMS_H

#include "milligpu/base/arena.h"
#include "milligpu/store/store.h"

enum {
    MEASURED_SUMS_MAX = 8192,
    MEASURED_SUMS_HOURS_MAX = 256, /* rows of hours beyond */
};

struct measured_sums;

struct measured_sums *measured_sums_new(void) MUST_USE;
void measured_sums_free(struct measured_sums *sums); /* NULL is fine */

/* False: it was dropped. The names are copied. */
bool measured_sums_add(struct measured_sums *sums, const struct store_measured *row);

/* Takes at most as many rows, in no order; the names are copied into arena. */
uint32_t measured_sums_take(struct measured_sums *sums, struct store_measured *out, uint32_t most,
                            struct arena *arena) MUST_USE;

#endif
