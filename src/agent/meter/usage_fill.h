/*
 * usage_fill - what the meter measured, as a report of the last minutes (usage_report.h).
 *
 * A report tells of a window: from a mark that is at least every_ms old to now, so a try that
 * follows a failure tells of the same time, and some seconds more. Averages are over the time of
 * the window in which the driver told; the peak is that of the container's life.
 *
 * Used by the thread of the sender only.
 */
#ifndef MILLIGPU_AGENT_USAGE_FILL_H
#define MILLIGPU_AGENT_USAGE_FILL_H

#include "milligpu/wire/usage/usage_report.h"

#include "meter.h"

struct usage_fill;

/* The meter is borrowed. */
struct usage_fill *usage_fill_new(struct meter *meter, int64_t every_ms) MUST_USE;
void usage_fill_free(struct usage_fill *fill); /* NULL is fine */

/* For usage_sender.h. user is the fill. False: nothing is metered. */
bool usage_fill_report(void *user, struct usage_report *out, struct arena *arena);
/* Is a container over its memory, or killed for it, that no report told of yet? */
bool usage_fill_is_urgent(void *user);
/* milligpud has taken the last report: the kills that it told of are told. */
void usage_fill_taken(void *user);

/*
 * The pure part: pods and containers of ours in now, and what they used since then. *out borrows
 * from now.
 */
void usage_fill_between(const struct meter_copy *then, const struct meter_copy *now,
                        struct arena *arena, struct usage_report *out);

#endif
