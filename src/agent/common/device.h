/*
 * device - identifies GPUs by names of CDI devices ("vendor/class=name") and by device nodes.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_DEVICE_H
#define MILLIGPU_AGENT_DEVICE_H

#include "milligpu/base/arena.h"
#include "milligpu/base/text.h"
#include "milligpu/nri/nri.h"
#include "milligpu/nvml/nvml.h"

/* True for a device of a vendor of GPUs: a GPU, or something that belongs to one. */
bool device_gives_gpus(struct text device);

/* Gives the GPU operator's own pods all GPUs; NVIDIA's NRI plugin restricts it by namespace. */
#define DEVICE_MANAGES "management.nvidia.com/"
bool device_is_management(struct text device);
/* Prefix of the annotations that request devices from NVIDIA's NRI plugin. */
#define DEVICE_ANNOTATION "nvidia.cdi.k8s.io"
/* True for such an annotation with a management device. */
bool device_annotation_manages(const struct nri_pair *annotation);

/* True if its class is "gpu", so that its name is that of a GPU. */
bool device_is_gpu(struct text device);
struct text device_name(struct text device); /* empty if it has none */

/* True for paths with the prefix "/dev/nvidia". */
bool device_is_gpu_path(struct text path);

/*
 * NVIDIA's fixed major number. The driver has others, which the kernel assigns when a module is
 * loaded; they are of no use alone.
 */
enum { DEVICE_MAJOR = 195 };
/* True if major belongs to a GPU driver. proc_devices: the content of /proc/devices. */
bool device_is_gpu_major(struct text proc_devices, int64_t major);
/* True unless type is that of a block device or a pipe ("b", "p"). */
bool device_is_character(struct text type);
/*
 * "/dev/nvidia<minor>" if node is that of one GPU by its numbers, at any path, or by its path; else
 * empty. The text is in arena, or borrowed from node.
 */
struct text device_of_node(const struct nri_device *node, struct arena *arena);

/* True for "0", "12". */
bool device_is_index(struct text name);
/* True for "GPU-..." of letters, digits, '-' and '_'. */
bool device_is_gpu_uuid(struct text name);
/* True for "GPU-...", and for "MIG-..." of a MIG instance. */
bool device_is_uuid(struct text name);

/*
 * The GPU of a reading with this name: a UUID, an index, or /dev/nvidia<minor>; NULL if none. A
 * lost GPU is found by UUID only, since another GPU can have its numbers now.
 */
const struct gpu_state *device_gpu(const struct gpu_reading *reading, const char *name);

#endif
