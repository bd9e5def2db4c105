/*
 * nvml_health - how a GPU is, from what is recorded of it.
 *
 * Pure.
 */
#ifndef MILLIGPU_NVML_HEALTH_H
#define MILLIGPU_NVML_HEALTH_H

#include "nvml_devices.h"

/* An XID or a memory error that was not corrected. */
void nvml_health_event(struct nvml_record *record, const struct abi_event *event,
                       struct nvml_now now);
/* The counter of errors that were not corrected: one that rises is an event. */
void nvml_health_ecc(struct nvml_record *record, uint64_t uncorrected, struct nvml_now now);
void nvml_health_clear_fault(struct nvml_record *record);
/* Derives state.health from the record; what is sick recovers after quiet_ms. */
void nvml_health_check(struct nvml_record *record, int64_t quiet_ms, struct nvml_now now);
/* reason: a sentence; cut off if it is too long. */
void nvml_health_set(struct gpu_state *gpu, enum gpu_health health, const char *reason,
                     int64_t wall_ms);

#endif
