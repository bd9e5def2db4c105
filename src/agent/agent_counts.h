/*
 * agent_counts - what the agent counts, each number declared once: the table below makes the page
 * of /metrics and docs/NODE_REFERENCE.md.
 *
 * Any thread.
 */
#ifndef MILLIGPU_AGENT_AGENT_COUNTS_H
#define MILLIGPU_AGENT_AGENT_COUNTS_H

#include "milligpu/strbuf.h"

/* id, name, type, label ("" for none), help; rows of one name stand together */
#define AGENT_COUNTS(X)                                                                            \
    X(COUNT_GPUS, "milligpu_node_containers_total", "counter", "outcome=\"gpus\"",                 \
      "Containers by what was decided: gpus (it got those of its shares), nothing (its pod has "   \
      "shares, it has none), foreign (no pod of ours), refused.")                                  \
    X(COUNT_NOTHING, "milligpu_node_containers_total", "counter", "outcome=\"nothing\"", "")       \
    X(COUNT_FOREIGN, "milligpu_node_containers_total", "counter", "outcome=\"foreign\"", "")       \
    X(COUNT_REFUSED, "milligpu_node_containers_total", "counter", "outcome=\"refused\"", "")       \
    X(COUNT_VALID, "milligpu_node_validations_total", "counter", "outcome=\"ok\"",                 \
      "Containers by the last look at what all plugins made of them: ok, refused.")                \
    X(COUNT_INVALID, "milligpu_node_validations_total", "counter", "outcome=\"refused\"", "")      \
    X(COUNT_VALIDATOR_ON, "milligpu_node_validator", "gauge", "state=\"on\"",                      \
      "1 for what the last container has shown of the runtime's validator: on, off. Both are 0 "   \
      "until one was made since the agent connected.")                                             \
    X(COUNT_VALIDATOR_OFF, "milligpu_node_validator", "gauge", "state=\"off\"", "")                \
    X(COUNT_STRANGERS, "milligpu_node_strangers_total", "counter", "",                             \
      "Containers of our pods that were found running and did not pass the agent.")                \
    X(COUNT_OVERLAPS, "milligpu_node_overlaps_total", "counter", "",                               \
      "Attempts to create a container that were refused because pods that still run have its "     \
      "room on the GPU. kubelet tries again.")                                                     \
    X(COUNT_PRIVILEGED_WARNED, "milligpu_node_privileged_total", "counter", "outcome=\"warned\"",  \
      "Privileged containers of pods with shares that can open GPUs beyond their own, by what "    \
      "was done (--privileged): warned (it runs), refused.")                                       \
    X(COUNT_PRIVILEGED_REFUSED, "milligpu_node_privileged_total", "counter",                       \
      "outcome=\"refused\"", "")                                                                   \
    X(COUNT_LEFT_OUT_SHARES, "milligpu_node_containers_left_out", "gauge", "right=\"share\"",      \
      "Containers with GPUs that ran when the agent connected and had no row in its table, by "    \
      "what gives them their GPUs: share, kubelet, variable. They are not metered.")               \
    X(COUNT_LEFT_OUT_KUBELET, "milligpu_node_containers_left_out", "gauge", "right=\"kubelet\"",   \
      "")                                                                                          \
    X(COUNT_LEFT_OUT_VARIABLE, "milligpu_node_containers_left_out", "gauge", "right=\"variable\"", \
      "")                                                                                          \
    X(COUNT_UNREAD_PODS, "milligpu_node_unread_total", "counter", "kind=\"pod\"",                  \
      "Reports of the runtime about a pod or container that is too long or broken; the log names " \
      "it. If it runs it goes on; a new container is refused.")                                    \
    X(COUNT_UNREAD_CONTAINERS, "milligpu_node_unread_total", "counter", "kind=\"container\"", "")  \
    X(COUNT_CONNECTIONS, "milligpu_node_connections_total", "counter", "",                         \
      "Connections to the container runtime.")                                                     \
    X(COUNT_CONNECTED, "milligpu_node_connected", "gauge", "",                                     \
      "1 while the container runtime asks this agent about each container.")                       \
    X(COUNT_READY_RUNTIME, "milligpu_node_ready", "gauge", "condition=\"runtime\"",                \
      "1 for each condition of /readyz that holds, 0 for the others: runtime (it asks this "       \
      "agent), table (all containers with shares have a row), driver (it answers), validator (as " \
      "--validator wants it), node (its annotations were written), machine (the Node is this "     \
      "machine), stays (the driver is not let go of). The least of them says whether the agent "   \
      "is ready.")                                                                                 \
    X(COUNT_READY_TABLE, "milligpu_node_ready", "gauge", "condition=\"table\"", "")                \
    X(COUNT_READY_DRIVER, "milligpu_node_ready", "gauge", "condition=\"driver\"", "")              \
    X(COUNT_READY_VALIDATOR, "milligpu_node_ready", "gauge", "condition=\"validator\"", "")        \
    X(COUNT_READY_NODE, "milligpu_node_ready", "gauge", "condition=\"node\"", "")                  \
    X(COUNT_READY_MACHINE, "milligpu_node_ready", "gauge", "condition=\"machine\"", "")            \
    X(COUNT_READY_STAYS, "milligpu_node_ready", "gauge", "condition=\"stays\"", "")                \
    X(COUNT_RECORDS, "milligpu_node_records", "gauge", "",                                         \
      "Pods whose first allocation is remembered.")                                                \
    X(COUNT_UNWRITTEN, "milligpu_node_records_unwritten", "gauge", "",                             \
      "Of these, those that could not be written to disk (full?).")                                \
    X(COUNT_METERING, "milligpu_node_metering", "gauge", "",                                       \
      "1 while it is known what containers use: NVML answers, and the host's processes are seen.") \
    X(COUNT_OVER_SEEN, "milligpu_node_over_memory_total", "counter", "outcome=\"seen\"",           \
      "Times that a container used more of a GPU's memory than its share: seen (in two readings, " \
      "one after another), killed.")                                                               \
    X(COUNT_OVER_KILLED, "milligpu_node_over_memory_total", "counter", "outcome=\"killed\"", "")   \
    X(COUNT_MPS_CLIENT_ENDED, "milligpu_node_mps_clients_ended_total", "counter",                  \
      "outcome=\"ok\"",                                                                            \
      "Clients of MPS whose work the daemon was told to end before they were killed for their "    \
      "memory: ok, failed (killed in the middle of it; other clients of the GPU may fail).")       \
    X(COUNT_MPS_CLIENT_UNENDED, "milligpu_node_mps_clients_ended_total", "counter",                \
      "outcome=\"failed\"", "")                                                                    \
    X(COUNT_LIMITED, "milligpu_node_memory_limits_total", "counter", "outcome=\"ok\"",             \
      "Containers whose GPU memory the driver was told to limit: ok, failed (it starts, and is "   \
      "metered), refused (it does not start).")                                                    \
    X(COUNT_UNLIMITED, "milligpu_node_memory_limits_total", "counter", "outcome=\"failed\"", "")   \
    X(COUNT_LIMIT_REFUSED, "milligpu_node_memory_limits_total", "counter", "outcome=\"refused\"",  \
      "")                                                                                          \
    X(COUNT_MPS_UP, "milligpu_node_mps_daemons", "gauge", "state=\"up\"",                          \
      "GPUs by the state of their MPS daemon: up, fault (a client's fault; no new ones until all " \
      "have ended), down (or starting, or it does not answer). None where MPS is off.")            \
    X(COUNT_MPS_FAULT, "milligpu_node_mps_daemons", "gauge", "state=\"fault\"", "")                \
    X(COUNT_MPS_DOWN, "milligpu_node_mps_daemons", "gauge", "state=\"down\"", "")                  \
    X(COUNT_MPS_STARTS, "milligpu_node_mps_starts_total", "counter", "",                           \
      "MPS daemons that were started.")                                                            \
    X(COUNT_MPS_ENDS, "milligpu_node_mps_ends_total", "counter", "",                               \
      "MPS daemons that ended although they were needed.")                                         \
    X(COUNT_PATCHED, "milligpu_node_patches_total", "counter", "outcome=\"ok\"",                   \
      "Writes of the Node's annotations, by outcome.")                                             \
    X(COUNT_UNPATCHED, "milligpu_node_patches_total", "counter", "outcome=\"failed\"", "")         \
    X(COUNT_REPORTED, "milligpu_node_reports_total", "counter", "outcome=\"taken\"",               \
      "Reports of usage to milligpud, by outcome.")                                                \
    X(COUNT_UNREPORTED, "milligpu_node_reports_total", "counter", "outcome=\"failed\"", "")

enum agent_count {
#define X(id, name, type, label, help) id,
    AGENT_COUNTS(X)
#undef X
        COUNTS
};

void agent_count(enum agent_count id);
void agent_count_set(enum agent_count id, uint64_t value);
uint64_t agent_count_get(enum agent_count id);

/* Prometheus text, all of them. */
void agent_counts_write(struct strbuf *out);
void agent_counts_markdown(struct strbuf *out); /* a table of docs/NODE_REFERENCE.md */

#endif
