/*
 * namespace_metrics - amounts held by each namespace, as a metric of bounded size.
 *
 * Any thread. Costs one look-up per allocation of the snapshot.
 */
#ifndef MILLIGPU_HEALTH_NAMESPACE_METRICS_H
#define MILLIGPU_HEALTH_NAMESPACE_METRICS_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/node/snapshot.h"
#include "milligpu/run/metric.h"

/* Number of namespaces with their own series: the largest holders. */
enum { NAMESPACES_SHOWN = 100 };

void namespace_metrics(struct strbuf *out, const struct snapshot *snapshot,
                       enum metric_format format);

#endif
