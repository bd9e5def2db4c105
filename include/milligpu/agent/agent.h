/*
 * agent - milligpu-node: gives each container on its node the GPUs of its allocation.
 *
 *     runtime <== NRI socket ==> main thread: judge, adjust, validate; records
 *     NVML    --> watcher thread --> reading (nvml.h)
 *     MPS daemons <-- thread of mps.h, where MPS is on
 *     /proc   --> meter thread --> what containers use (meter.h)
 *     API server <-- reporter thread: annotations of the Node, on change or if they vanish
 *     label of the Node, STATE_DIR/driver --> driver_release.h --> NVML and MPS let go of it
 *     kubelet, Prometheus <-- probe listener: /livez /readyz /metrics
 *
 * The main thread never waits for the API server, nor for a lock that is held longer than a copy,
 * and for NVML only where a container starts that it shall limit, at most half a second: the
 * runtime has one lock for the whole node, and a plugin that takes two seconds is cut off.
 * Injection needs no API call.
 *
 * It reconnects at once and then each second, for ever; a runtime without CDI for plugins is
 * refused, with a sentence in its log and in ours.
 */
#ifndef MILLIGPU_AGENT_H
#define MILLIGPU_AGENT_H

#include "milligpu/agent/agent_settings.h"
#include "milligpu/base/err.h"

/* Until SIGTERM or SIGINT. */
int agent_run(const struct agent_settings *settings, struct err *err) MUST_USE;

/* Writes to its Node that the agent is uninstalled, and takes its GPUs off it. */
int agent_uninstall(const struct agent_settings *settings, struct err *err) MUST_USE;

/*
 * May a runtime of this name and version be served? Negative: no, with a sentence that names what
 * would be right. *out_closed: nothing runs without us where its validator is on (containerd 2.2).
 */
int agent_runtime_check(struct text name, struct text version, bool *out_closed,
                        struct err *err) MUST_USE;

#endif
