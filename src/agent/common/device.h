/*
 * device - what the name of a CDI device ("vendor/class=name"), or the path of a device node, says
 * of GPUs, and which GPU it is.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_DEVICE_H
#define MILLIGPU_AGENT_DEVICE_H

#include "milligpu/base/arena.h"
#include "milligpu/base/text.h"
#include "milligpu/nri/nri.h"
#include "milligpu/nvml/nvml.h"

/* A device of a vendor that hands out GPUs: perhaps one, perhaps what belongs to one. */
bool device_gives_gpus(struct text device);

/* The operator's own pods see all GPUs by it; NVIDIA's NRI plugin restricts it by namespace. */
#define DEVICE_MANAGES "management.nvidia.com/"
bool device_is_management(struct text device);
/* The annotations by which NVIDIA's NRI plugin gives devices begin with this. */
#define DEVICE_ANNOTATION "nvidia.cdi.k8s.io"
/* Is it one of these, and gives such a device? */
bool device_annotation_manages(const struct nri_pair *annotation);

/* Is its class "gpu"? Then its name is that of a GPU. */
bool device_is_gpu(struct text device);
struct text device_name(struct text device); /* empty: it has none */

/* /dev/nvidia and whatever follows */
bool device_is_gpu_path(struct text path);

/*
 * NVIDIA's major number, which never changes. The driver has others, which the kernel chooses when
 * a module is loaded; nothing can be done with them alone.
 */
enum { DEVICE_MAJOR = 195 };
/* Has the driver of a GPU this major number? proc_devices: the content of /proc/devices. */
bool device_is_gpu_major(struct text proc_devices, int64_t major);
/* Is it a character device, as those of GPUs are? Types of block devices and pipes are known. */
bool device_is_character(struct text type);
/*
 * "/dev/nvidia<minor>", if it is the node of one GPU by its numbers, wherever it lies, or by its
 * path; empty if it is none. The name lives in arena, or is borrowed.
 */
struct text device_of_node(const struct nri_device *node, struct arena *arena);

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
