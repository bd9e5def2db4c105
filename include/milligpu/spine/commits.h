/*
 * commits - wakes threads that wait for the next COMMIT of the ledger.
 *
 * The writer sets the number of the newest journal entry at the start, and after each COMMIT once
 * it is published. It never waits for a reader. Any thread.
 */
#ifndef MILLIGPU_COMMITS_H
#define MILLIGPU_COMMITS_H

#include "milligpu/base/alloc.h"

struct commits;

struct commits *commits_new(void) MUST_USE;
void commits_free(struct commits *commits); /* NULL is fine */

/* The writer only. */
void commits_post(struct commits *commits, uint64_t seq);
/* The number set last; 0: none yet. The published snapshot includes this entry. */
uint64_t commits_newest(struct commits *commits);
/*
 * Waits until the number differs from seen, until commits_end(), or until the timeout. Returns the
 * number set last, the seen of the next call; 0: none yet.
 */
uint64_t commits_wait(struct commits *commits, uint64_t seen, int64_t wait_ms);
/* Ends all waits, now and in future. */
void commits_end(struct commits *commits);

#endif
