/*
 * privileged - privileged containers of pods with an allocation, which can open GPUs that were not
 * granted to them.
 *
 * A privileged container can open every device of its node, regardless of its grant. It is detected
 * by a device rule that allows all devices, or all of NVIDIA's. A device with a rule of its own was
 * given by kubelet (a device plugin, a DRA claim), and holders.h compares it with shares.
 *
 * Containers of pods without an allocation are not checked: device plugins, monitoring, the agent.
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
 * True if the container can open GPUs beyond its grant. *out_gpus: how many, of the GPUs of the
 * reading, or of its device nodes if the reading is empty; 0 if neither shows it. arena: scratch
 * memory.
 */
bool privileged_sees(const struct grant *grant, const struct nri_container *container,
                     const struct gpu_reading *reading, struct arena *arena, uint32_t *out_gpus);

/* Sets err for such a container, with the remedy. Returns negative. */
int privileged_error(uint32_t gpus, struct err *err);

#endif
