/*
 * Detects steps of the wall clock. Pure; writer.c calls it once per batch, on the writer's thread,
 * and undoes the check of a lost batch.
 */
#include "wallclock.h"

#include "milligpu/base/base.h"
#include "milligpu/store/store.h"

enum { HOUR_MS = 3600000 };

void wallclock_start(struct wallclock *clock, int64_t wall_ms, int64_t now_ms, int64_t last_ms,
                     int64_t stepped_ms)
{
    /*
     * The journal's newest entry serves as the previous check, so a downtime of more than a day
     * counts as a step: the two cannot be distinguished.
     */
    *clock = (struct wallclock){.wall_ms = last_ms != 0 ? last_ms : wall_ms,
                                .now_ms = now_ms,
                                .doubted_until_ms = INT64_MIN};
    /* Only the untrusted clock could show how much of the hour has passed. */
    if (stepped_ms != 0)
        clock->doubted_until_ms = now_ms + HOUR_MS;
}

int64_t wallclock_look(struct wallclock *clock, int64_t wall_ms, int64_t now_ms)
{
    must(now_ms >= clock->now_ms);
    const int64_t expected_ms = clock->wall_ms + (now_ms - clock->now_ms);
    const int64_t step = wall_ms - expected_ms;

    if (step > STORE_CLOCK_STEP_MS || step < -STORE_CLOCK_STEP_MS)
        clock->doubted_until_ms = now_ms + HOUR_MS;
    clock->wall_ms = wall_ms;
    clock->now_ms = now_ms;
    return expected_ms;
}

/* doubted_until_ms stays: an unneeded distrust costs an hour at most. */
void wallclock_look_again(struct wallclock *clock, const struct wallclock *before)
{
    must(before->now_ms <= clock->now_ms);
    clock->wall_ms = before->wall_ms;
    clock->now_ms = before->now_ms;
}

bool wallclock_is_doubted(const struct wallclock *clock)
{
    return clock->now_ms < clock->doubted_until_ms;
}
