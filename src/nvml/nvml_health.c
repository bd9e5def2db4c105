/* Derives health from XIDs, ECC errors and presence. Watcher's thread. */
#include "nvml_health.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/text.h"

/*
 * XIDs caused by applications (NVIDIA, "XID errors"), the same that NVIDIA's device plugin ignores.
 * All others are critical, also unknown ones.
 */
static const struct {
    uint16_t xid;
    const char *what;
} of_applications[] = {
    {13, "graphics engine exception: an access out of bounds, or an illegal instruction"},
    {31, "GPU memory page fault: an illegal address"},
    {43, "GPU stopped processing: the application's channel had a fault"},
    {45, "preemptive cleanup: an application ended, or follows another fault"},
    {68, "video processor exception"},
    {109, "context switch timeout"},
};

bool nvml_xid_is_critical(uint64_t xid)
{
    for (size_t i = 0; i < ARRAY_LEN(of_applications); i++)
        if (of_applications[i].xid == xid)
            return false;
    return true;
}

static const struct {
    const char *name;
    const char *word;
} healths[] = {
#define X(health, name, word, meaning) {name, word},
    GPU_HEALTH_TABLE(X)
#undef X
};

const char *gpu_health_name(enum gpu_health health)
{
    must((size_t)health < ARRAY_LEN(healths));
    return healths[health].name;
}

const char *gpu_health_word(enum gpu_health health)
{
    must((size_t)health < ARRAY_LEN(healths));
    return healths[health].word;
}

void nvml_health_set(struct gpu_state *gpu, enum gpu_health health, const char *reason,
                     int64_t wall_ms)
{
    if (gpu->health != health || gpu->since_ms == 0)
        gpu->since_ms = wall_ms;
    gpu->health = health;
    text_clip(text_of(reason), gpu->reason, sizeof gpu->reason);
}

static void fall_sick(struct nvml_record *record, enum gpu_health sick, struct nvml_now now)
{
    /* The worst fault is kept. */
    if (sick > record->sick)
        record->sick = sick;
    record->sick_ms = now.ms;
}

void nvml_health_event(struct nvml_record *record, const struct abi_event *event,
                       struct nvml_now now)
{
    if ((event->type & ABI_EVENT_DOUBLE_BIT_ECC) != 0)
        fall_sick(record, GPU_ECC, now);
    if ((event->type & ABI_EVENT_XID) == 0)
        return;
    if (!nvml_xid_is_critical(event->data)) {
        record->state.application_xids++;
        return;
    }
    record->state.xid = event->data;
    record->state.xids++;
    fall_sick(record, GPU_XID, now);
}

/* The first value is not a fault, since its time is unknown. A GPU reset clears the counter. */
void nvml_health_ecc(struct nvml_record *record, uint64_t uncorrected, struct nvml_now now)
{
    if (record->has_ecc && uncorrected > record->ecc)
        fall_sick(record, GPU_ECC, now);
    record->has_ecc = true;
    record->ecc = uncorrected;
}

void nvml_health_clear_fault(struct nvml_record *record)
{
    record->sick = GPU_HEALTHY;
}

static void check_present(struct nvml_record *record, int64_t wall_ms)
{
    char reason[NVML_REASON_MAX];

    switch (record->sick) {
    case GPU_XID:
        must(snprintf(reason, sizeof reason, "the driver reported XID %llu",
                      (unsigned long long)record->state.xid) > 0);
        nvml_health_set(&record->state, GPU_XID, reason, wall_ms);
        return;
    case GPU_ECC:
        nvml_health_set(&record->state, GPU_ECC, "memory errors that ECC could not correct",
                        wall_ms);
        return;
    default:
        must(record->sick == GPU_HEALTHY);
        nvml_health_set(&record->state, GPU_HEALTHY, "", wall_ms);
    }
}

void nvml_health_check(struct nvml_record *record, int64_t quiet_ms, struct nvml_now now)
{
    if (record->sick != GPU_HEALTHY && now.ms - record->sick_ms >= quiet_ms)
        record->sick = GPU_HEALTHY;
    switch (record->presence) {
    case MISSING:
        nvml_health_set(&record->state, GPU_LOST, "the driver does not show this GPU any more",
                        now.wall_ms);
        return;
    case LOST:
        nvml_health_set(&record->state, GPU_LOST, nvml_words(NVML_GPU_IS_LOST), now.wall_ms);
        return;
    case NEEDS_RESET:
        nvml_health_set(&record->state, GPU_RESET_REQUIRED, nvml_words(NVML_RESET_REQUIRED),
                        now.wall_ms);
        return;
    case PRESENT:
        check_present(record, now.wall_ms);
        return;
    }
    must_not_reach("presence is one of the above");
}
