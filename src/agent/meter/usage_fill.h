/*
 * usage_fill - fills reports of the last minutes (usage_report.h) from the meter.
 *
 * A report covers a window from a mark at least every_ms old until now, so a retry covers the same
 * time and a few seconds more. Averages are over the part of the window with known values; the peak
 * is that of the container's life.
 *
 * Sender's thread only.
 */
#ifndef MILLIGPU_AGENT_USAGE_FILL_H
#define MILLIGPU_AGENT_USAGE_FILL_H

#include "milligpu/wire/usage/usage_report.h"

#include "meter.h"

struct usage_fill;

/* The meter is borrowed. */
struct usage_fill *usage_fill_new(struct meter *meter, int64_t every_ms) MUST_USE;
void usage_fill_free(struct usage_fill *fill); /* NULL is fine */

/* Callbacks of usage_sender.h; user is the fill. */

/* Fills a report, which borrows from the fill until the next one. False if nothing is metered. */
bool usage_fill_report(void *user, struct usage_report *out, struct arena *arena);
/* True if a container is over its memory, or killed for it, and no report has said so yet. */
bool usage_fill_is_urgent(void *user);
/* Marks the kills of the last report as delivered, after milligpud has accepted it. */
void usage_fill_taken(void *user);

/*
 * Usage, since then, of the pods with shares in now. *out borrows from now, and its arrays are in
 * arena. Pure.
 */
void usage_fill_between(const struct meter_copy *then, const struct meter_copy *now,
                        struct arena *arena, struct usage_report *out);

#endif
