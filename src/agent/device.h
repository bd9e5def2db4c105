/*
 * device - what the name of a CDI device ("vendor/class=name"), or the path of a device node, says
 * of GPUs, and which GPU it is.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_DEVICE_H
#define MILLIGPU_AGENT_DEVICE_H

#include "milligpu/nvml.h"
#include "milligpu/text.h"

/* A device of a vendor that hands out GPUs: perhaps one, perhaps what belongs to one. */
bool device_gives_gpus(struct text device);
/* The operator's own pods see all GPUs by it; NVIDIA's NRI plugin restricts it by namespace. */
bool device_is_management(struct text device);
/* Is its class "gpu"? Then its name is that of a GPU. */
bool device_is_gpu(struct text device);
struct text device_name(struct text device); /* empty: it has none */

/* /dev/nvidia and whatever follows */
bool device_is_gpu_path(struct text path);
/* /dev/nvidia<N>: one GPU, and not what all share */
bool device_is_one_gpu_path(struct text path);

/* "0", "12" */
bool device_is_index(struct text name);
/* "GPU-...": letters, digits, '-' and '_' */
bool device_is_gpu_uuid(struct text name);
/* "GPU-...", and "MIG-..." of a part of one */
bool device_is_uuid(struct text name);

/*
 * The GPU of a reading that a name means: a UUID, an index, or /dev/nvidia<minor>; NULL: none. A
 * lost GPU is known by its UUID only: another one may have its numbers now.
 */
const struct gpu_state *device_gpu(const struct gpu_reading *reading, const char *name);

#endif
