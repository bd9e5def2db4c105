/*
 * privileged - privileged containers of pods with an allocation, which can open GPUs that were not
 * granted to them.
 *
 * A privileged container may open every device of its node, whatever the agent gives it. Its device
 * rules show that: one that allows all devices, or all of NVIDIA's, and not just one device. A
 * device that has a rule of its own was given by kubelet (a device plugin, a DRA claim), and is
 * compared with shares elsewhere (holders.h).
 *
 * Containers of pods without an allocation are not judged: device plugins, monitoring, the agent.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_PRIVILEGED_H
#define MILLIGPU_AGENT_PRIVILEGED_H

#include "milligpu/nri/nri.h"
#include "milligpu/nvml/nvml.h"

#include "grant.h"

enum privileged_mode { PRIVILEGED_WARN, PRIVILEGED_REFUSE, PRIVILEGED_ALLOW };

/*
 * Can the container, to which this was granted, open GPUs beyond that? *out_gpus: how many of the
 * reading, or of its device nodes where nothing was read; 0 if neither tells. arena: for the call.
 */
bool privileged_sees(const struct grant *grant, const struct nri_container *container,
                     const struct gpu_reading *reading, struct arena *arena, uint32_t *out_gpus);

/* The error for such a container, and the remedy. Returns negative. */
int privileged_error(uint32_t gpus, struct err *err);

#endif
