/*
 * Keeps the records of GPUs over rounds and reloads of NVML. Called by nvml.c in the watcher's
 * thread; the values of one GPU are read in nvml_gpu.c.
 */
#include "nvml_devices.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "nvml_gpu.h"
#include "nvml_health.h"

void nvml_devices_init(struct nvml_devices *devices, int64_t quiet_ms)
{
    must(quiet_ms >= 0);

    *devices = (struct nvml_devices){.quiet_ms = quiet_ms};
    devices->scratch = xcalloc(NVML_PROCESSES_MAX, sizeof *devices->scratch);
    devices->samples = xcalloc(NVML_PROCESSES_MAX, sizeof *devices->samples);
}

void nvml_devices_done(struct nvml_devices *devices)
{
    xfree(devices->process);
    xfree(devices->scratch);
    xfree(devices->samples);
}

static struct nvml_record *find_uuid(struct nvml_devices *devices, const char *uuid)
{
    for (uint32_t i = 0; i < devices->gpus; i++)
        if (strcmp(devices->record[i].state.uuid, uuid) == 0)
            return &devices->record[i];
    return NULL;
}

struct nvml_record *nvml_devices_find(struct nvml_devices *devices, const char *uuid)
{
    struct nvml_record *record = find_uuid(devices, uuid);
    return record != NULL && record->presence == PRESENT ? record : NULL;
}

/* Within a round, true also if it is not seen yet. */
static bool is_gone(const struct nvml_record *record)
{
    return record->presence != PRESENT;
}

static void leave_out(struct nvml_devices *devices, uint32_t index, const char *why)
{
    if (devices->left_out++ == 0)
        (void)snprintf(devices->left_out_why, sizeof devices->left_out_why, "GPU %u: %s", index,
                       why);
}

static bool is_uuid(const char *uuid)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

    if (uuid[0] == '\0' || strchr(letters, uuid[0]) == NULL)
        return false;
    for (size_t i = 1; uuid[i] != '\0'; i++)
        if (strchr(letters, uuid[i]) == NULL && uuid[i] != '-' && uuid[i] != '_')
            return false;
    return true;
}

/* A new record, or the one of a GPU that was gone in the previous round, too; NULL if full. */
static struct nvml_record *add_record(struct nvml_devices *devices, const char *uuid)
{
    uint32_t at = 0;

    while (at < devices->gpus && !(devices->record[at].was_gone && is_gone(&devices->record[at])))
        at++;
    if (devices->gpus < GPUS_PER_NODE_MAX)
        at = devices->gpus++;
    if (at == GPUS_PER_NODE_MAX)
        return NULL;
    for (uint32_t i = 0; i < devices->gpus; i++)
        devices->record[i].state.peers &= ~(UINT64_C(1) << at);
    devices->record[at] = (struct nvml_record){.state = {.minor = -1, .numa = -1}};
    (void)snprintf(devices->record[at].state.uuid, sizeof devices->record[at].state.uuid, "%s",
                   uuid);
    return &devices->record[at];
}

/*
 * Marks a lost GPU, which returns no UUID: the one last seen with this index and not seen in this
 * round; of two, the one seen more recently.
 */
static void mark_lost(struct nvml_devices *devices, uint32_t index, int code)
{
    struct nvml_record *found = NULL;

    for (uint32_t i = 0; i < devices->gpus; i++) {
        struct nvml_record *record = &devices->record[i];
        if (record->state.index == index && is_gone(record) && (found == NULL || found->was_gone))
            found = record;
    }
    if (found != NULL)
        found->presence = code == NVML_GPU_IS_LOST ? LOST : NEEDS_RESET;
    else
        leave_out(devices, index, nvml_words(code));
}

static void see_gpu(struct nvml_devices *devices, const struct nvml_library *nvml, uint32_t index,
                    struct nvml_now now)
{
    struct abi_device *device = NULL;
    char raw[ABI_TEXT_BYTES] = "";
    char uuid[NVML_TEXT_MAX];

    int code = nvml->DeviceGetHandleByIndex_v2(index, &device);
    if (code == NVML_SUCCESS)
        code = nvml->DeviceGetUUID(device, raw, sizeof raw);
    if (code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED) {
        mark_lost(devices, index, code);
        return;
    }
    nvml_text(uuid, sizeof uuid, raw, sizeof raw);
    if (code != NVML_SUCCESS || device == NULL || !is_uuid(uuid)) {
        leave_out(devices, index,
                  code != NVML_SUCCESS ? nvml_words(code) : "its UUID is none that can be used");
        return;
    }
    struct nvml_record *record = find_uuid(devices, uuid);
    if (record != NULL && record->presence == PRESENT) {
        leave_out(devices, index, "another GPU has its UUID");
        return;
    }
    if (record == NULL)
        record = add_record(devices, uuid);
    if (record == NULL) {
        leave_out(devices, index, "more than GPUS_PER_NODE_MAX GPUs");
        return;
    }
    record->is_registered = record->is_registered && record->device == device;
    record->presence = PRESENT;
    record->device = device;
    record->state.index = index;
    nvml_gpu_read(devices, nvml, record, now);
}

static void read_versions(struct nvml_devices *devices, const struct nvml_library *nvml)
{
    char text[ABI_TEXT_BYTES] = "";

    if (nvml->SystemGetDriverVersion(text, sizeof text) == NVML_SUCCESS)
        nvml_text(devices->driver, sizeof devices->driver, text, sizeof text);
    if (nvml->SystemGetNVMLVersion != NULL &&
        nvml->SystemGetNVMLVersion(text, sizeof text) == NVML_SUCCESS)
        nvml_text(devices->library, sizeof devices->library, text, sizeof text);
}

static void forget_meters(struct gpu_state *gpu)
{
    gpu->known = 0;
    gpu->process = 0;
    gpu->processes = 0;
    gpu->processes_left_out = 0;
}

int nvml_devices_round(struct nvml_devices *devices, const struct nvml_library *nvml,
                       struct nvml_now now, struct err *err)
{
    unsigned count = 0;
    const int code = nvml->DeviceGetCount_v2(&count);

    if (code != NVML_SUCCESS)
        return nvml_library_fail(err, "DeviceGetCount_v2", code);
    read_versions(devices, nvml);
    devices->left_out = 0;
    devices->left_out_why[0] = '\0';
    devices->n_processes = 0;
    for (uint32_t i = 0; i < devices->gpus; i++) {
        struct nvml_record *record = &devices->record[i];
        record->was_gone = is_gone(record);
        record->presence = MISSING;
        forget_meters(&record->state);
    }
    for (uint32_t i = 0; i < count && i < GPUS_PER_NODE_MAX; i++)
        see_gpu(devices, nvml, i, now);
    if (count > GPUS_PER_NODE_MAX) {
        leave_out(devices, GPUS_PER_NODE_MAX, "more than GPUS_PER_NODE_MAX GPUs");
        devices->left_out += count - GPUS_PER_NODE_MAX - 1;
    }
    nvml_gpu_link(devices, nvml);
    for (uint32_t i = 0; i < devices->gpus; i++)
        nvml_health_check(&devices->record[i], devices->quiet_ms, now);
    return 0;
}

void nvml_devices_let_go(struct nvml_devices *devices)
{
    devices->n_processes = 0;
    for (uint32_t i = 0; i < devices->gpus; i++) {
        struct nvml_record *record = &devices->record[i];
        record->device = NULL;
        record->presence = MISSING;
        record->is_registered = false;
        forget_meters(&record->state);
        record->has_ecc = false;
    }
}

void nvml_devices_no_driver(struct nvml_devices *devices, const char *why, struct nvml_now now)
{
    nvml_devices_let_go(devices);
    for (uint32_t i = 0; i < devices->gpus; i++)
        nvml_health_set(&devices->record[i].state, GPU_UNKNOWN, why, now.wall_ms);
}

void nvml_devices_event(struct nvml_devices *devices, const struct abi_event *event,
                        struct nvml_now now)
{
    for (uint32_t i = 0; i < devices->gpus; i++)
        if (event->device == NULL || devices->record[i].device == event->device)
            nvml_health_event(&devices->record[i], event, now);
}

bool nvml_devices_clear_fault(struct nvml_devices *devices, const char *uuid)
{
    struct nvml_record *record = find_uuid(devices, uuid);
    if (record != NULL)
        nvml_health_clear_fault(record);
    return record != NULL;
}

bool nvml_devices_misses_any(const struct nvml_devices *devices)
{
    for (uint32_t i = 0; i < devices->gpus; i++)
        if (is_gone(&devices->record[i]))
            return true;
    return false;
}

void nvml_devices_write(const struct nvml_devices *devices, struct gpu_reading *out)
{
    out->n_gpus = devices->gpus;
    for (uint32_t i = 0; i < devices->gpus; i++)
        out->gpu[i] = devices->record[i].state;
    memcpy(out->driver, devices->driver, sizeof out->driver);
    memcpy(out->library, devices->library, sizeof out->library);
    out->left_out = devices->left_out;
    memcpy(out->left_out_why, devices->left_out_why, sizeof out->left_out_why);
}
