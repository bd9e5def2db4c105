/*
 * agent - milligpu-node: gives each container on its node the GPUs of its allocation.
 *
 *     runtime <== NRI socket ==> main thread: judge, adjust, validate; records
 *     NVML    --> watcher thread --> reading (nvml.h)
 *     MPS daemons <-- thread of mps.h, where MPS is on
 *     /proc   --> meter thread --> usage of containers (meter.h)
 *     milligpud  <-- sender thread: usage reports (usage_sender.h)
 *     API server <-- reporter thread: annotations of the Node, on change or if they vanish
 *     label of the Node, STATE_DIR/driver --> driver_release.h --> NVML and MPS release the driver
 *     kubelet, Prometheus <-- probe listener: /livez /readyz /metrics
 *
 * The main thread never waits for the API server, nor for a lock that is held longer than a copy.
 * It waits for NVML only to limit the memory of a starting container, at most LIMIT_WAIT_MS
 * (500 ms): the runtime calls plugins under one lock for the whole node, and disconnects a plugin
 * after two seconds. Injection needs no API call.
 *
 * It reconnects at once and then every second, without limit. A runtime that cannot inject CDI
 * devices for plugins is refused; the reason is in its log and in ours.
 */
#ifndef MILLIGPU_AGENT_H
#define MILLIGPU_AGENT_H

#include "milligpu/agent/agent_settings.h"
#include "milligpu/base/err.h"

/* Runs until SIGTERM or SIGINT. */
int agent_run(const struct agent_settings *settings, struct err *err) MUST_USE;

/* Marks the agent as uninstalled on its Node, and removes the inventory annotation. */
int agent_uninstall(const struct agent_settings *settings, struct err *err) MUST_USE;

/*
 * Returns 0 if a runtime of this name and version is supported, else negative; err names the
 * versions that are. *out_closed: with the runtime's validator on, no container is created without
 * the agent (containerd 2.2 and later).
 */
int agent_runtime_check(struct text name, struct text version, bool *out_closed,
                        struct err *err) MUST_USE;

#endif
