/*
 * idle_changes - shares that became idle or busy since the writer last stored them.
 *
 *   report listener --put--> [ changes ] --take--> writer --> store (idle_shares.c)
 *                                ^-----put back, if the commit failed
 *
 * At most one entry for each share, and one for each node, which covers all its shares. A newer
 * entry replaces an older one. If a node and one of its shares both wait, the share's entry is the
 * newer one (idle_shares.c). Limit: IDLE_CHANGES_MAX shares; beyond it (the disk has been full for
 * long) a share is refused, and usage_table.h retries with its next report. Nodes are never
 * refused. 8 MB with names of 200 bytes.
 *
 * One lock, held for one look-up; for a walk over all entries in a put of a node and in a take. Any
 * thread.
 */
#ifndef MILLIGPU_IDLE_CHANGES_H
#define MILLIGPU_IDLE_CHANGES_H

#include "milligpu/base/arena.h"
#include "milligpu/store/store.h"

enum { IDLE_CHANGES_MAX = 32768 };

struct idle_changes;

struct idle_changes *idle_changes_new(void) MUST_USE;
void idle_changes_free(struct idle_changes *changes); /* NULL is fine */

/* Replaces the waiting entry of the same share. False: the table is full. Names are copied. */
bool idle_changes_put(struct idle_changes *changes, const struct store_idle *idle) MUST_USE;

/*
 * Returns all taken entries after a failed commit; entries that were put meanwhile are newer and
 * stay.
 */
void idle_changes_put_back(struct idle_changes *changes, const struct store_idle *idle,
                           uint32_t count);

/* Takes up to most entries, in no order; names are copied into arena. Returns the count. */
uint32_t idle_changes_take(struct idle_changes *changes, struct store_idle *out, uint32_t most,
                           struct arena *arena) MUST_USE;

#endif
