/*
 * measured_sums - hourly sums of measured usage that the writer has not stored yet.
 *
 *   report listener --add--> [ sums ] --take--> writer --> store (measured_hours.c)
 *                               ^------add again, if the commit failed
 *
 * One row for each hour, namespace and model. A take removes the rows, so adding them again after a
 * failure neither loses nor duplicates anything. The writer takes all rows once a minute: a kill
 * loses at most the last minute. Limit: beyond MEASURED_SUMS_MAX rows, sums go into one row of
 * their hour, with namespace and model ""; beyond MEASURED_SUMS_HOURS_MAX of those (the disk has
 * been full for days), sums are dropped and counted.
 *
 * One lock, held for one look-up at a time. Any thread.
 */
#ifndef MILLIGPU_MEASURED_SUMS_H
#define MILLIGPU_MEASURED_SUMS_H

#include "milligpu/base/arena.h"
#include "milligpu/store/store.h"

enum {
    MEASURED_SUMS_MAX = 8192,
    MEASURED_SUMS_HOURS_MAX = 256, /* additional rows, with namespace and model "" */
};

struct measured_sums;

struct measured_sums *measured_sums_new(void) MUST_USE;
void measured_sums_free(struct measured_sums *sums); /* NULL is fine */

/* False: the row was dropped. Names are copied. */
bool measured_sums_add(struct measured_sums *sums, const struct store_measured *row);

/* Takes up to most rows, in no order; names are copied into arena. Returns the count. */
uint32_t measured_sums_take(struct measured_sums *sums, struct store_measured *out, uint32_t most,
                            struct arena *arena) MUST_USE;

#endif
