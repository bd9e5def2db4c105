/*
 * commits - wakes those who wait for the next COMMIT of the ledger.
 *
 * The writer tells the number of the newest journal entry at the start, and after each COMMIT that
 * is also published. It never waits for a reader: telling is a number and a wake-up. Any thread.
 */
#ifndef MILLIGPU_COMMITS_H
#define MILLIGPU_COMMITS_H

#include "milligpu/base/alloc.h"

struct commits;

struct commits *commits_new(void) MUST_USE;
void commits_free(struct commits *commits); /* NULL is fine */

/* The writer only. */
void commits_tell(struct commits *commits, uint64_t seq);
/* The number that was told last; 0: none yet. What the lists show includes this entry. */
uint64_t commits_told(struct commits *commits);
/*
 * Until another number than seen was told, or commits_end(), or at most this long. Returns the
 * number that was told last, which is the next seen; 0: none was told yet.
 */
uint64_t commits_wait(struct commits *commits, uint64_t seen, int64_t wait_ms);
/* From now on nobody waits. */
void commits_end(struct commits *commits);

#endif
