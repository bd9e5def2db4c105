/*
 * waiting_metrics - number, age and reasons of waiting pods, as metrics.
 *
 * Any thread. One pass over the table of waiting pods (at most WAITING_MAX); the comparison of
 * requests with models has a budget.
 */
#ifndef MILLIGPU_HEALTH_WAITING_METRICS_H
#define MILLIGPU_HEALTH_WAITING_METRICS_H

#include "milligpu/selfcheck/metrics_page.h"
#include "milligpu/waiting/waiting_pods.h"

/* Sets the gauges. wall_ms: UTC now. models: of the snapshot; empty: no pod waits despite room. */
void waiting_metrics_set(struct waiting_pods *waiting_pods, int64_t wall_ms,
                         const struct amounts_by_model *models);

#endif
