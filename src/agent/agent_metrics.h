/*
 * agent_metrics - the part of /metrics with one sample per GPU, or per container and GPU: the
 * metrics M_GPU_... and M_CONTAINER_... of node_metrics.def.
 *
 * Unknown values have no sample. There are at most NODE_CONTAINERS_MAX containers, and one sample
 * per state of a GPU. The listener's thread writes the page.
 */
#ifndef MILLIGPU_AGENT_AGENT_METRICS_H
#define MILLIGPU_AGENT_AGENT_METRICS_H

#include "milligpu/nvml/nvml.h"
#include "milligpu/run/metric.h"

#include "agent/meter/meter.h"

struct agent_metrics {
    struct nvml *nvml;   /* borrowed; NULL: no metrics of GPUs */
    struct meter *meter; /* borrowed; NULL: no metrics of containers */
    bool has_containers; /* include metrics of containers, with the names of their pods */
};

/* Appends to out, in Prometheus text format 0.0.4. */
void agent_metrics_write(const struct agent_metrics *from, struct strbuf *out);

#endif
