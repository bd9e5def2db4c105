/*
 * idle_changes - which shares became idle, or are so no more, since the writer last stored it.
 *
 *   report listener --put--> [ changes ] --take--> writer --> store (idle_shares.c)
 *                                ^-----put back, if the commit failed
 *
 * One entry for each share, and for each node all of whose shares it is about: the newest wins,
 * and of a node and one of its shares that wait together, the share is the newer (idle_shares.c).
 * Bounded: where IDLE_CHANGES_MAX shares wait (the disk has been full for long), no further one is
 * taken, and usage_table.h asks again with its next report. Nodes are always taken: there is one
 * entry for each at most. That is 8 MB, with names of 200 bytes.
 *
 * One lock, held for one look-up, or for a walk over all of them when a node is put or some are
 * taken. Any thread.
 */
#ifndef MILLIGPU_IDLE_CHANGES_H
#define MILLIGPU_IDLE_CHANGES_H

#include "milligpu/base/arena.h"
#include "milligpu/store/store.h"

enum { IDLE_CHANGES_MAX = 32768 };

struct idle_changes;

struct idle_changes *idle_changes_new(void) MUST_USE;
void idle_changes_free(struct idle_changes *changes); /* NULL is fine */

/* Replaces what waits of the same share. False: there is no room. The names are copied. */
bool idle_changes_put(struct idle_changes *changes, const struct store_idle *idle) MUST_USE;

/* What was taken and could not be stored, all at once; what was put meanwhile is newer. */
void idle_changes_put_back(struct idle_changes *changes, const struct store_idle *idle,
                           uint32_t count);

/* Takes at most as many, in no order; the names are copied into arena. */
uint32_t idle_changes_take(struct idle_changes *changes, struct store_idle *out, uint32_t most,
                           struct arena *arena) MUST_USE;

#endif
