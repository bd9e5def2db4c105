/*
 * nvml_gpu - reads the state of one GPU from NVML.
 */
#ifndef MILLIGPU_NVML_GPU_H
#define MILLIGPU_NVML_GPU_H

#include "nvml_devices.h"

/* Updates the record of a GPU with a device handle. Values without an answer stay unknown. */
void nvml_gpu_read(struct nvml_devices *devices, const struct nvml_library *nvml,
                   struct nvml_record *record, struct nvml_now now);
/* Finds the NVLink peers, after all GPUs were read: it needs their bus ids. */
void nvml_gpu_link(struct nvml_devices *devices, const struct nvml_library *nvml);

#endif
