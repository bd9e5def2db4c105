/*
 * process_metrics - CPU, memory and files of this process, named as in Prometheus client libraries.
 *
 * Any thread. It reads only files below /proc/self, as the sandbox allows.
 */
#ifndef MILLIGPU_HEALTH_PROCESS_METRICS_H
#define MILLIGPU_HEALTH_PROCESS_METRICS_H

#include "milligpu/base/strbuf.h"
#include "milligpu/run/metric.h"

/* Leaves out metrics that cannot be read. */
void process_metrics(struct strbuf *out, enum metric_format format);

#endif
