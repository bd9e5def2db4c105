/*
 * bell - wakes one thread from any other; a binary semaphore.
 *
 * The bell carries no data: store the work elsewhere, under a lock or in an atomic, then ring.
 * A ring before the wait ends the next wait at once, so none is lost; rings do not add up.
 */
#ifndef MILLIGPU_BELL_H
#define MILLIGPU_BELL_H

#include "milligpu/base/base.h"

struct bell;

struct bell *bell_new(void) MUST_USE;
void bell_free(struct bell *bell); /* no thread may wait; NULL is fine */

void bell_ring(struct bell *bell); /* any thread */

enum { BELL_WAIT_MS_MAX = 60 * 60 * 1000 };

/* Waits for a ring, for at most the smaller of wait_ms and BELL_WAIT_MS_MAX. */
void bell_wait(struct bell *bell, int64_t wait_ms);

#endif
