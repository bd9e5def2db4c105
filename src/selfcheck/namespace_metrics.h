/*
 * namespace_metrics - what each namespace holds, as a metric of bounded size.
 *
 * Any thread. One look-up for each allocation of the snapshot.
 */
#ifndef MILLIGPU_HEALTH_NAMESPACE_METRICS_H
#define MILLIGPU_HEALTH_NAMESPACE_METRICS_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/node/snapshot.h"
#include "milligpu/run/metric.h"

/* As many have a series of their own: those that hold most. */
enum { NAMESPACES_SHOWN = 100 };

void namespace_metrics(struct strbuf *out, const struct snapshot *snapshot,
                       enum metric_format format);

#endif
