/*
 * bell - one thread sleeps until somebody has work for it.
 *
 * The bell carries no data: store the work elsewhere, under a lock or in an atomic, then ring.
 * A ring before the wait ends the next wait at once, so none is lost; several rings are one.
 */
#ifndef MILLIGPU_BELL_H
#define MILLIGPU_BELL_H

#include "milligpu/base/base.h"

struct bell;

struct bell *bell_new(void) MUST_USE;
void bell_free(struct bell *bell); /* nobody waits; NULL is fine */

void bell_ring(struct bell *bell); /* any thread */

enum { BELL_WAIT_MS_MAX = 60 * 60 * 1000 };

/* Until a ring, or at most this long; never longer than BELL_WAIT_MS_MAX. */
void bell_wait(struct bell *bell, int64_t wait_ms);

#endif
