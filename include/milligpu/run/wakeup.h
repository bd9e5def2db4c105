/*
 * wakeup - wakes one thread from any other; a binary semaphore.
 *
 * A wake-up carries no data: store the work elsewhere, under a lock or in an atomic, then signal.
 * A signal before the wait ends the next wait at once, so none is lost; signals do not add up.
 */
#ifndef MILLIGPU_WAKEUP_H
#define MILLIGPU_WAKEUP_H

#include "milligpu/base/base.h"

struct wakeup;

struct wakeup *wakeup_new(void) MUST_USE;
void wakeup_free(struct wakeup *wakeup); /* no thread may wait; NULL is fine */

void wakeup_signal(struct wakeup *wakeup); /* any thread */

enum { WAKEUP_WAIT_MS_MAX = 60 * 60 * 1000 };

/* Waits for a signal, for at most the smaller of wait_ms and WAKEUP_WAIT_MS_MAX. */
void wakeup_wait(struct wakeup *wakeup, int64_t wait_ms);

#endif
