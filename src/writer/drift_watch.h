/*
 * drift_watch - drift as a metric, a log line and an Event, once each.
 *
 * All drift is a function of the snapshot (reconcile.h), so what was told already is the drift of
 * the snapshot that was looked at last: that is held, and the next is compared with it, node by
 * node, where they differ.  A look costs what changed, and goes on in the next step where that is
 * much.  Used by the writer's thread.
 */
#ifndef MILLIGPU_DRIFT_WATCH_H
#define MILLIGPU_DRIFT_WATCH_H

#include "milligpu/app.h"

struct drift_watch;

struct drift_watch *drift_watch_new(struct app *app) MUST_USE;
void drift_watch_free(struct drift_watch *watch);

/* Looks every few seconds, and only when the snapshot changed. */
void drift_watch_step(struct drift_watch *watch, int64_t now_ms, int64_t wall_ms);

/* What it has cost since the start. */
struct drift_watch_work {
    uint64_t nodes;  /* compared with what they were */
    uint64_t drifts; /* seen there, before and after */
};
/* How much is drift now, for all that was told. */
size_t drift_watch_told(const struct drift_watch *watch);
void drift_watch_work(const struct drift_watch *watch, struct drift_watch_work *out);

#endif
