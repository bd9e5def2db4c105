/*
 * agent_metrics - the part of /metrics that has one sample for each GPU of the node, and for each
 * GPU of each container: families declared once, in the table below, which also makes
 * docs/NODE_REFERENCE.md.
 *
 * What is not known has no sample. There are at most NODE_CONTAINERS_MAX containers, and of each
 * state of a GPU one sample. The listener's thread writes the page.
 */
#ifndef MILLIGPU_AGENT_AGENT_METRICS_H
#define MILLIGPU_AGENT_AGENT_METRICS_H

#include "milligpu/meter.h"
#include "milligpu/nvml.h"
#include "milligpu/strbuf.h"

/* id, name, type, help; labels: namespace, pod, container, gpu */
#define AGENT_CONTAINER_FAMILIES(X)                                                                \
    X(GRANTED_MILLI, "milligpu_node_container_granted_milli", "gauge",                             \
      "Thousandths of the GPU that the container was granted.")                                    \
    X(GRANTED_MIB, "milligpu_node_container_granted_mib", "gauge",                                 \
      "Memory of the GPU that the container was granted, in MiB.")                                 \
    X(USED_MILLI, "milligpu_node_container_used_milli", "gauge",                                   \
      "Thousandths of the GPU's SM time that the container used between the last two readings.")   \
    X(USED_MIB, "milligpu_node_container_used_mib", "gauge",                                       \
      "Memory of the GPU that the container uses, in MiB.")                                        \
    X(OVER, "milligpu_node_container_over", "gauge",                                               \
      "1 while the container uses more of the GPU's memory than it was granted.")

/* id, name, type, labels, help */
#define AGENT_GPU_FAMILIES(X)                                                                      \
    X(MEMORY_TOTAL, "milligpu_node_gpu_memory_total_mib", "gauge", "gpu", "Memory, in MiB.")       \
    X(MEMORY_USED, "milligpu_node_gpu_memory_used_mib", "gauge", "gpu",                            \
      "Memory that is used, in MiB.")                                                              \
    X(TEMPERATURE, "milligpu_node_gpu_temperature_celsius", "gauge", "gpu", "Temperature.")        \
    X(POWER, "milligpu_node_gpu_power_watts", "gauge", "gpu", "Power.")                            \
    X(THROTTLED, "milligpu_node_gpu_throttled", "gauge", "gpu",                                    \
      "1 while hardware slows it down: heat, power brake. Idle clocks, a power cap and clocks "    \
      "that somebody set are not counted.")                                                        \
    X(ECC, "milligpu_node_gpu_ecc_errors_total", "counter", "gpu, kind",                           \
      "Memory errors since the driver was loaded: corrected, uncorrected.")                        \
    X(XIDS, "milligpu_node_gpu_xids_total", "counter", "gpu",                                      \
      "Critical XIDs since the agent runs.")                                                       \
    X(APPLICATION_XIDS, "milligpu_node_gpu_application_xids_total", "counter", "gpu",              \
      "XIDs that applications cause, since the agent runs: they do not close the GPU.")            \
    X(HEALTH, "milligpu_node_gpu_health", "gauge", "gpu, health",                                  \
      "1 for the state that it is in, 0 for the others: healthy, xid, ecc, reset_required, lost, " \
      "unknown.")                                                                                  \
    X(OUTSIDE, "milligpu_node_gpu_outside", "gauge", "gpu",                                        \
      "1 while processes use it that belong to no container with GPUs.")

struct agent_metrics {
    struct nvml *nvml;   /* NULL: nothing is known of GPUs */
    struct meter *meter; /* NULL: nothing is metered */
    bool has_containers; /* names of pods may be on the page */
};

/* Prometheus text 0.0.4. */
void agent_metrics_write(const struct agent_metrics *from, struct strbuf *out);
void agent_metrics_markdown(struct strbuf *out); /* a table of docs/NODE_REFERENCE.md */

#endif
