/*
 * nvml_health - the health of a GPU, derived from its record.
 *
 * Pure.
 */
#ifndef MILLIGPU_NVML_HEALTH_H
#define MILLIGPU_NVML_HEALTH_H

#include "nvml_devices.h"

/* Takes an XID, or an uncorrected memory error. */
void nvml_health_event(struct nvml_record *record, const struct abi_event *event,
                       struct nvml_now now);
/* Takes the counter of uncorrected memory errors; an increase is a fault. */
void nvml_health_ecc(struct nvml_record *record, uint64_t uncorrected, struct nvml_now now);
void nvml_health_clear_fault(struct nvml_record *record);
/* Derives state.health from the record; a fault expires after quiet_ms. */
void nvml_health_check(struct nvml_record *record, int64_t quiet_ms, struct nvml_now now);
/* reason: a sentence, truncated to NVML_REASON_MAX. */
void nvml_health_set(struct gpu_state *gpu, enum gpu_health health, const char *reason,
                     int64_t wall_ms);

#endif
