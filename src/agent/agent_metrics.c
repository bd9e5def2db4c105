/*
 * Called by the listener's thread for each scrape, which waits for nothing but copies.
 */
#include "agent/agent_metrics.h"

#include <string.h>

#define CONTAINER_LABELS "namespace, pod, container, gpu"

enum container_family {
#define X(id, name, type, help) CONTAINER_##id,
    AGENT_CONTAINER_FAMILIES(X)
#undef X
        CONTAINER_FAMILIES
};

enum gpu_family {
#define X(id, name, type, labels, help) GPU_FAMILY_##id,
    AGENT_GPU_FAMILIES(X)
#undef X
        GPU_FAMILIES
};

struct family {
    const char *name;
    const char *type;
    const char *labels;
    const char *help;
};

static const struct family of_containers[] = {
#define X(id, name, type, help) {name, type, CONTAINER_LABELS, help},
    AGENT_CONTAINER_FAMILIES(X)
#undef X
};

static const struct family of_gpus[] = {
#define X(id, name, type, labels, help) {name, type, labels, help},
    AGENT_GPU_FAMILIES(X)
#undef X
};

/* Of nvmlClocksEventReasons: hardware slowdown, heat by software and by hardware, power brake. */
static const uint64_t THROTTLING = 0x8 | 0x20 | 0x40 | 0x80;

static void put_head(struct strbuf *out, const struct family *family)
{
    strbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name,
                  family->type);
}

/* --- containers --- */

/* False: not known. */
static bool container_value(enum container_family family, const struct meter_gpu *gpu,
                            uint32_t *out)
{
    switch (family) {
    case CONTAINER_GRANTED_MILLI:
        *out = gpu->granted_milli;
        return gpu->granted_milli > 0;
    case CONTAINER_GRANTED_MIB:
        *out = gpu->granted_mib;
        return gpu->granted_mib > 0;
    case CONTAINER_USED_MILLI:
        *out = gpu->used_milli >= 0 ? (uint32_t)gpu->used_milli : 0;
        return gpu->used_milli >= 0;
    case CONTAINER_USED_MIB:
        *out = gpu->used_mib;
        return gpu->is_known;
    case CONTAINER_OVER:
        *out = gpu->is_over ? 1 : 0;
        return gpu->granted_mib > 0 && (gpu->is_known || gpu->is_over);
    case CONTAINER_FAMILIES:
        break;
    }
    must_not_reach("each family has a value");
}

static void put_container(struct strbuf *out, enum container_family family,
                          const struct meter_container *container)
{
    uint32_t value;

    for (uint32_t i = 0; i < container->gpus; i++) {
        if (!container_value(family, &container->gpu[i], &value))
            continue;
        strbuf_printf(out, "%s{", of_containers[family].name);
        strbuf_label(out, "namespace", text_of(container->namespace));
        strbuf_char(out, ',');
        strbuf_label(out, "pod", text_of(container->pod));
        strbuf_char(out, ',');
        strbuf_label(out, "container", text_of(container->name));
        strbuf_char(out, ',');
        strbuf_label(out, "gpu", text_of(container->gpu[i].uuid));
        strbuf_printf(out, "} %u\n", (unsigned)value);
    }
}

/*
 * A sample that is there twice spoils the whole page. The same container is when its successor has
 * begun before it was seen to end; then the later one is shown.
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
    for (enum container_family family = 0; family < CONTAINER_FAMILIES; family++) {
        put_head(out, &of_containers[family]);
        for (uint32_t i = 0; i < copy->count; i++)
            if (shown[i])
                put_container(out, family, &copy->container[i]);
    }
}

/* --- GPUs --- */

static void put_gpu_name(struct strbuf *out, enum gpu_family family, const struct gpu_state *gpu)
{
    strbuf_printf(out, "%s{", of_gpus[family].name);
    strbuf_label(out, "gpu", text_of(gpu->uuid));
}

static void put_number(struct strbuf *out, enum gpu_family family, const struct gpu_state *gpu,
                       uint64_t number)
{
    put_gpu_name(out, family, gpu);
    strbuf_printf(out, "} %llu\n", (unsigned long long)number);
}

static void put_ecc(struct strbuf *out, const struct gpu_state *gpu)
{
    put_gpu_name(out, GPU_FAMILY_ECC, gpu);
    strbuf_printf(out, ",kind=\"corrected\"} %llu\n", (unsigned long long)gpu->ecc_corrected);
    put_gpu_name(out, GPU_FAMILY_ECC, gpu);
    strbuf_printf(out, ",kind=\"uncorrected\"} %llu\n", (unsigned long long)gpu->ecc_uncorrected);
}

static void put_health(struct strbuf *out, const struct gpu_state *gpu)
{
    for (enum gpu_health health = GPU_HEALTHY; health <= GPU_UNKNOWN; health++) {
        put_gpu_name(out, GPU_FAMILY_HEALTH, gpu);
        strbuf_printf(out, ",health=\"%s\"} %d\n", gpu_health_name(health),
                      gpu->health == health ? 1 : 0);
    }
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

static void put_gpu(struct strbuf *out, enum gpu_family family, const struct gpu_state *gpu,
                    const struct outside *outside)
{
    const uint32_t knows = gpu->known;

    if (family == GPU_FAMILY_MEMORY_TOTAL)
        put_number(out, family, gpu, gpu->mib_total);
    else if (family == GPU_FAMILY_MEMORY_USED && knows != 0) /* else it is as last seen */
        put_number(out, family, gpu, gpu->mib_used);
    else if (family == GPU_FAMILY_TEMPERATURE && (knows & GPU_KNOWS_TEMPERATURE) != 0)
        put_number(out, family, gpu, gpu->temperature_c);
    else if (family == GPU_FAMILY_POWER && (knows & GPU_KNOWS_POWER) != 0) {
        put_gpu_name(out, family, gpu);
        strbuf_printf(out, "} %u.%03u\n", (unsigned)gpu->power_mw / 1000,
                      (unsigned)gpu->power_mw % 1000);
    } else if (family == GPU_FAMILY_THROTTLED && (knows & GPU_KNOWS_CLOCKS) != 0)
        put_number(out, family, gpu, (gpu->clock_reasons & THROTTLING) != 0 ? 1 : 0);
    else if (family == GPU_FAMILY_ECC && (knows & GPU_KNOWS_ECC) != 0)
        put_ecc(out, gpu);
    else if (family == GPU_FAMILY_XIDS)
        put_number(out, family, gpu, gpu->xids);
    else if (family == GPU_FAMILY_APPLICATION_XIDS)
        put_number(out, family, gpu, gpu->application_xids);
    else if (family == GPU_FAMILY_HEALTH)
        put_health(out, gpu);
    else if (family == GPU_FAMILY_OUTSIDE && outside->is_known)
        put_number(out, family, gpu, is_outside(outside, gpu->uuid));
}

static void put_gpus(struct strbuf *out, const struct gpu_reading *reading,
                     const struct outside *outside)
{
    for (enum gpu_family family = 0; family < GPU_FAMILIES; family++) {
        put_head(out, &of_gpus[family]);
        for (uint32_t i = 0; i < reading->gpus; i++)
            put_gpu(out, family, &reading->gpu[i], outside);
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

static void put_rows(struct strbuf *out, const struct family *family, size_t families)
{
    for (size_t i = 0; i < families; i++)
        strbuf_printf(out, "| `%s` | %s | %s | %s |\n", family[i].name, family[i].type,
                      family[i].labels, family[i].help);
}

void agent_metrics_markdown(struct strbuf *out)
{
    strbuf_str(out, "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n");
    put_rows(out, of_gpus, ARRAY_LEN(of_gpus));
    put_rows(out, of_containers, ARRAY_LEN(of_containers));
}
