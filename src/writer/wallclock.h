/*
 * wallclock - can the wall clock be trusted?
 *
 * History is stored with wall-clock time, and retention deletes by it. So a clock that is 400 days
 * ahead for two seconds must not decide. The wall clock is compared with the monotonic clock, and
 * after a start with the newest entry of the journal. If it differs by more than a day it has
 * stepped, and is not trusted until it has run for an hour without a step. The hour begins again
 * with each start, because only the untrusted clock could say how much of it has passed.
 *
 * Pure; one thread.
 */
#ifndef MILLIGPU_WALLCLOCK_H
#define MILLIGPU_WALLCLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct wallclock {
    int64_t wall_ms; /* at the last check */
    int64_t now_ms;
    int64_t doubted_until_ms; /* monotonic */
};

/* last_ms, stepped_ms: from store_clock(); 0: never. */
void wallclock_start(struct wallclock *clock, int64_t wall_ms, int64_t now_ms, int64_t last_ms,
                     int64_t stepped_ms);

/* The wall-clock time if it had run like the monotonic clock since the last check. */
int64_t wallclock_look(struct wallclock *clock, int64_t wall_ms, int64_t now_ms);

/*
 * The result of the last check could not be written: the next check finds it again; the distrust
 * stays.
 */
void wallclock_look_again(struct wallclock *clock, const struct wallclock *before);

bool wallclock_is_doubted(const struct wallclock *clock);

#endif
