/*
 * agent_metrics - the part of /metrics that has one sample for each GPU of the node, and for each
 * GPU of each container: the metrics M_GPU_... and M_CONTAINER_... of node_metrics.def.
 *
 * What is not known has no sample. There are at most NODE_CONTAINERS_MAX containers, and of each
 * state of a GPU one sample. The listener's thread writes the page.
 */
#ifndef MILLIGPU_AGENT_AGENT_METRICS_H
#define MILLIGPU_AGENT_AGENT_METRICS_H

#include "milligpu/nvml/nvml.h"
#include "milligpu/run/metric.h"

#include "agent/meter/meter.h"

struct agent_metrics {
    struct nvml *nvml;   /* NULL: nothing is known of GPUs */
    struct meter *meter; /* NULL: nothing is metered */
    bool has_containers; /* names of pods may be on the page */
};

/* Prometheus text 0.0.4. */
void agent_metrics_write(const struct agent_metrics *from, struct strbuf *out);

#endif
