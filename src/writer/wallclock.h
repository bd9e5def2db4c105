/*
 * wallclock - detects steps of the wall clock, so that retention does not trust it.
 *
 * History is stored with wall-clock time, and retention deletes by it, so a clock that is 400 days
 * ahead for two seconds must have no effect. The wall clock is compared with the monotonic clock,
 * and after a start with the newest entry of the journal. A difference of more than a day is a
 * step; the clock is then not trusted until it has run for an hour without a step. The hour begins
 * again with each start, because only the untrusted clock could show how much of it has passed.
 *
 * Pure; one thread.
 */
#ifndef MILLIGPU_WALLCLOCK_H
#define MILLIGPU_WALLCLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct wallclock {
    int64_t wall_ms;          /* UTC at the last check */
    int64_t now_ms;           /* monotonic time of the last check */
    int64_t doubted_until_ms; /* end of the distrust, monotonic */
};

/* last_ms, stepped_ms: from store_clock(); 0 if none. */
void wallclock_start(struct wallclock *clock, int64_t wall_ms, int64_t now_ms, int64_t last_ms,
                     int64_t stepped_ms);

/* Checks for a step; returns the wall-clock time expected from the monotonic clock. */
int64_t wallclock_look(struct wallclock *clock, int64_t wall_ms, int64_t now_ms);

/*
 * Undoes the last check, whose result could not be written, so that the next one finds the step
 * again. The distrust stays.
 */
void wallclock_look_again(struct wallclock *clock, const struct wallclock *before);

bool wallclock_is_doubted(const struct wallclock *clock);

#endif
