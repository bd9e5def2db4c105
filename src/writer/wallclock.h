/*
 * wallclock - is the wall clock to be believed?
 *
 * History is stored with the time that the wall clock said, and retention drops what is old by it.
 * So a clock that is 400 days ahead for two seconds must not be what decides.  It is held against
 * the monotonic clock, and after a start against the newest entry of the journal: beyond a day it
 * has stepped, and is doubted until it has gone on without a step for an hour, which begins anew
 * with a start: only the clock in doubt could say how much of it has gone by.
 *
 * Pure; one thread.
 */
#ifndef MILLIGPU_WALLCLOCK_H
#define MILLIGPU_WALLCLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct wallclock {
    int64_t wall_ms; /* at the last look */
    int64_t now_ms;
    int64_t doubted_until_ms; /* monotonic */
};

/* last_ms, stepped_ms: what store_clock() tells; 0: never. */
void wallclock_start(struct wallclock *clock, int64_t wall_ms, int64_t now_ms, int64_t last_ms,
                     int64_t stepped_ms);

/* Where the wall clock would be, had it gone on since the last look as the monotonic one did. */
int64_t wallclock_look(struct wallclock *clock, int64_t wall_ms, int64_t now_ms);

/* What was found since could not be written down: the next look finds it again; doubt stays. */
void wallclock_look_again(struct wallclock *clock, const struct wallclock *before);

bool wallclock_is_doubted(const struct wallclock *clock);

#endif
