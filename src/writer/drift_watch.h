/*
 * drift_watch - reports drift as a metric, a log line and an Event, once each.
 *
 * All drift is a function of the snapshot (reconcile.h), so the drift that was reported is that of
 * the snapshot that was examined last. That snapshot is kept, and the next one is compared with it,
 * node by node, where they differ. A comparison costs what changed, and continues in the next step
 * if much has changed. Used by the writer's thread.
 */
#ifndef MILLIGPU_DRIFT_WATCH_H
#define MILLIGPU_DRIFT_WATCH_H

#include "milligpu/spine/app.h"

struct drift_watch;

struct drift_watch *drift_watch_new(struct app *app) MUST_USE;
void drift_watch_free(struct drift_watch *watch);

/* Compares every few seconds, and only if the snapshot changed. */
void drift_watch_step(struct drift_watch *watch, int64_t now_ms, int64_t wall_ms);

/* The cost since the start. */
struct drift_watch_work {
    uint64_t nodes;  /* nodes that were compared */
    uint64_t drifts; /* drift found on them, before and after */
};
/* How many reported drifts exist now. */
size_t drift_watch_told(const struct drift_watch *watch);
void drift_watch_work(const struct drift_watch *watch, struct drift_watch_work *out);

#endif
