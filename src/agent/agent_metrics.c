/*
 * Writes the metrics of GPUs and containers. Called by the listener's thread for each scrape; waits
 * for nothing but copies.
 */
#include "agent_metrics.h"

#include <string.h>

/* nvmlClocksEventReasons: HW slowdown, SW and HW thermal slowdown, HW power brake. */
static const uint64_t THROTTLING = 0x8 | 0x20 | 0x40 | 0x80;

/* --- containers --- */

/* False if unknown. */
static bool container_value(enum metric_id id, const struct meter_gpu *gpu, uint32_t *out)
{
    switch (id) {
    case M_CONTAINER_GRANTED_MILLI:
        *out = gpu->granted_milli;
        return gpu->granted_milli > 0;
    case M_CONTAINER_GRANTED_MIB:
        *out = gpu->granted_mib;
        return gpu->granted_mib > 0;
    case M_CONTAINER_USED_MILLI:
        *out = gpu->used_milli >= 0 ? (uint32_t)gpu->used_milli : 0;
        return gpu->used_milli >= 0;
    case M_CONTAINER_USED_MIB:
        *out = gpu->used_mib;
        return gpu->is_known;
    case M_CONTAINER_OVER:
        *out = gpu->is_over ? 1 : 0;
        return gpu->granted_mib > 0 && (gpu->is_known || gpu->is_over);
    default:
        must_not_reach("each family has a value");
    }
}

static void put_container(struct strbuf *out, enum metric_id id,
                          const struct meter_container *container)
{
    uint32_t value;

    for (uint32_t i = 0; i < container->n_gpus; i++)
        if (container_value(id, &container->gpu[i], &value))
            metric_sample(out, id,
                          LABEL_VALUES(container->namespace, container->pod, container->name,
                                       container->gpu[i].uuid),
                          value);
}

/*
 * True if a later row has the same labels, which happens when a container's successor begins before
 * its end was seen. Only the later one is shown: a duplicate sample invalidates the whole page.
 */
static bool has_successor(const struct meter_copy *copy, uint32_t at)
{
    const struct meter_container *one = &copy->container[at];

    for (uint32_t i = at + 1; i < copy->count; i++)
        if (strcmp(copy->container[i].name, one->name) == 0 &&
            strcmp(copy->container[i].pod, one->pod) == 0 &&
            strcmp(copy->container[i].namespace, one->namespace) == 0)
            return true;
    return false;
}

static void put_containers(struct strbuf *out, const struct meter_copy *copy, struct arena *arena)
{
    bool *shown = arena_array(arena, copy->count + 1, sizeof *shown);

    for (uint32_t i = 0; i < copy->count; i++)
        shown[i] = !has_successor(copy, i);
    for (enum metric_id id = M_CONTAINER_GRANTED_MILLI; id <= M_CONTAINER_OVER; id++) {
        metric_head(out, id, METRIC_PLAIN);
        for (uint32_t i = 0; i < copy->count; i++)
            if (shown[i])
                put_container(out, id, &copy->container[i]);
    }
}

/* --- GPUs --- */

static void put_number(struct strbuf *out, enum metric_id id, const struct gpu_state *gpu,
                       uint64_t number)
{
    metric_sample(out, id, LABEL_VALUES(gpu->uuid), number);
}

static void put_ecc(struct strbuf *out, const struct gpu_state *gpu)
{
    metric_sample(out, M_GPU_ECC, LABEL_VALUES(gpu->uuid, "corrected"), gpu->ecc_corrected);
    metric_sample(out, M_GPU_ECC, LABEL_VALUES(gpu->uuid, "uncorrected"), gpu->ecc_uncorrected);
}

static void put_health(struct strbuf *out, const struct gpu_state *gpu)
{
    for (enum gpu_health health = GPU_HEALTHY; health <= GPU_UNKNOWN; health++)
        metric_sample(out, M_GPU_HEALTH, LABEL_VALUES(gpu->uuid, gpu_health_name(health)),
                      gpu->health == health);
}

struct outside {
    bool is_known;
    uint32_t gpus;
    const char *const *uuid;
};

static uint64_t is_outside(const struct outside *outside, const char *uuid)
{
    for (uint32_t i = 0; i < outside->gpus; i++)
        if (strcmp(outside->uuid[i], uuid) == 0)
            return 1;
    return 0;
}

static void put_gpu(struct strbuf *out, enum metric_id id, const struct gpu_state *gpu,
                    const struct outside *outside)
{
    const uint32_t knows = gpu->known;

    if (id == M_GPU_MEMORY_TOTAL)
        put_number(out, id, gpu, gpu->mib_total);
    else if (id == M_GPU_MEMORY_USED && knows != 0) /* otherwise the value is an old one */
        put_number(out, id, gpu, gpu->mib_used);
    else if (id == M_GPU_TEMPERATURE && (knows & GPU_KNOWS_TEMPERATURE) != 0)
        put_number(out, id, gpu, gpu->temperature_c);
    else if (id == M_GPU_POWER && (knows & GPU_KNOWS_POWER) != 0)
        metric_sample_milli(out, id, LABEL_VALUES(gpu->uuid), gpu->power_mw);
    else if (id == M_GPU_THROTTLED && (knows & GPU_KNOWS_CLOCKS) != 0)
        put_number(out, id, gpu, (gpu->clock_reasons & THROTTLING) != 0 ? 1 : 0);
    else if (id == M_GPU_ECC && (knows & GPU_KNOWS_ECC) != 0)
        put_ecc(out, gpu);
    else if (id == M_GPU_XIDS)
        put_number(out, id, gpu, gpu->xids);
    else if (id == M_GPU_APPLICATION_XIDS)
        put_number(out, id, gpu, gpu->application_xids);
    else if (id == M_GPU_HEALTH)
        put_health(out, gpu);
    else if (id == M_GPU_OUTSIDE && outside->is_known)
        put_number(out, id, gpu, is_outside(outside, gpu->uuid));
}

static void put_gpus(struct strbuf *out, const struct gpu_reading *reading,
                     const struct outside *outside)
{
    for (enum metric_id id = M_GPU_MEMORY_TOTAL; id <= M_GPU_OUTSIDE; id++) {
        metric_head(out, id, METRIC_PLAIN);
        for (uint32_t i = 0; i < reading->n_gpus; i++)
            put_gpu(out, id, &reading->gpu[i], outside);
    }
}

void agent_metrics_write(const struct agent_metrics *from, struct strbuf *out)
{
    struct outside outside = {0};
    struct meter_copy copy;
    struct arena arena;

    arena_init(&arena);
    meter_copy(from->meter, &arena, &copy);
    if (from->nvml != NULL) {
        const struct gpu_reading *reading = nvml_latest(from->nvml);
        outside.is_known = copy.is_metering && copy.is_complete;
        outside.gpus = meter_outside(from->meter, &arena, &outside.uuid);
        put_gpus(out, reading, &outside);
        gpu_reading_unref(reading);
    }
    if (from->meter != NULL && from->has_containers)
        put_containers(out, &copy, &arena);
    arena_done(&arena);
}
