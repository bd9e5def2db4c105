/*
 * nvml_gpu - what NVML says of one GPU.
 */
#ifndef MILLIGPU_NVML_GPU_H
#define MILLIGPU_NVML_GPU_H

#include "nvml_devices.h"

/* Fills the record of a GPU that is there. What NVML does not tell stays not known. */
void nvml_gpu_read(struct nvml_devices *devices, const struct nvml_library *nvml,
                   struct nvml_record *record, struct nvml_now now);
/* After all were read, since it needs their bus ids. */
void nvml_gpu_link(struct nvml_devices *devices, const struct nvml_library *nvml);

#endif
