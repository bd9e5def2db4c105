/*
 * process_metrics - what the kernel counts for this process, under the names that Prometheus'
 * client libraries use.
 *
 * Any thread. It reads files below /proc/self only, which the sandbox allows.
 */
#ifndef MILLIGPU_HEALTH_PROCESS_METRICS_H
#define MILLIGPU_HEALTH_PROCESS_METRICS_H

#include "milligpu/base/strbuf.h"
#include "milligpu/run/metric.h"

/* What cannot be read is left out. */
void process_metrics(struct strbuf *out, enum metric_format format);

#endif
