/*
 * drift_watch - reports drift once, as a metric, a log line and an Event.
 *
 * All drift is a function of the snapshot (reconcile.h), so the drift reported so far is that of
 * the last snapshot examined. That snapshot is kept and compared with the next one, node by node.
 * The cost is proportional to the changed nodes; a large comparison takes several steps. Writer's
 * thread only.
 */
#ifndef MILLIGPU_DRIFT_WATCH_H
#define MILLIGPU_DRIFT_WATCH_H

#include "milligpu/spine/app.h"

struct drift_watch;

struct drift_watch *drift_watch_new(struct app *app) MUST_USE;
void drift_watch_free(struct drift_watch *watch);

/* Compares every two seconds, if the snapshot changed. */
void drift_watch_step(struct drift_watch *watch, int64_t now_ms, int64_t wall_ms);

/* Work done since the start. */
struct drift_watch_work {
    uint64_t nodes;  /* nodes compared */
    uint64_t drifts; /* drift found on them, before and after */
};
/* Returns the number of reported drifts that still exist. */
size_t drift_watch_reported(const struct drift_watch *watch);
void drift_watch_work(const struct drift_watch *watch, struct drift_watch_work *out);

#endif
