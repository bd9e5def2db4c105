/*
 * drift_watch - drift as a metric, a log line and an Event, once each.
 *
 * All drift is a function of the snapshot (reconcile.h); here is only the memory of what was
 * told already. Used by the writer's thread.
 */
#ifndef MILLIGPU_DRIFT_WATCH_H
#define MILLIGPU_DRIFT_WATCH_H

#include "app.h"

struct drift_watch;

struct drift_watch *drift_watch_new(struct app *app) MUST_USE;
void drift_watch_free(struct drift_watch *watch);

/* Looks every few seconds, and only when the snapshot changed. */
void drift_watch_step(struct drift_watch *watch, int64_t now_ms, int64_t wall_ms);

#endif
