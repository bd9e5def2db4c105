#include "nvml_roster.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "nvml_gpu.h"
#include "nvml_health.h"

void nvml_roster_init(struct nvml_roster *roster, int64_t quiet_ms)
{
    must(quiet_ms >= 0);

    *roster = (struct nvml_roster){.quiet_ms = quiet_ms};
    roster->scratch = xcalloc(NVML_PROCESSES_MAX, sizeof *roster->scratch);
    roster->samples = xcalloc(NVML_PROCESSES_MAX, sizeof *roster->samples);
}

void nvml_roster_done(struct nvml_roster *roster)
{
    xfree(roster->process);
    xfree(roster->scratch);
    xfree(roster->samples);
}

static struct nvml_record *find_uuid(struct nvml_roster *roster, const char *uuid)
{
    for (uint32_t i = 0; i < roster->gpus; i++)
        if (strcmp(roster->record[i].state.uuid, uuid) == 0)
            return &roster->record[i];
    return NULL;
}

struct nvml_record *nvml_roster_find(struct nvml_roster *roster, const char *uuid)
{
    struct nvml_record *record = find_uuid(roster, uuid);
    return record != NULL && record->presence == PRESENT ? record : NULL;
}

/* Within a round: not seen yet. */
static bool is_gone(const struct nvml_record *record)
{
    return record->presence != PRESENT;
}

static void leave_out(struct nvml_roster *roster, uint32_t index, const char *why)
{
    if (roster->left_out++ == 0)
        (void)snprintf(roster->left_out_why, sizeof roster->left_out_why, "GPU %u: %s", index, why);
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

/* A new record, or that of a GPU that was lost before; NULL: there are too many. */
static struct nvml_record *add_record(struct nvml_roster *roster, const char *uuid)
{
    uint32_t at = 0;

    while (at < roster->gpus && !(roster->record[at].was_gone && is_gone(&roster->record[at])))
        at++;
    if (roster->gpus < GPUS_PER_NODE_MAX)
        at = roster->gpus++;
    if (at == GPUS_PER_NODE_MAX)
        return NULL;
    for (uint32_t i = 0; i < roster->gpus; i++)
        roster->record[i].state.peers &= ~(UINT64_C(1) << at);
    roster->record[at] = (struct nvml_record){.state = {.minor = -1, .numa = -1}};
    (void)snprintf(roster->record[at].state.uuid, sizeof roster->record[at].state.uuid, "%s", uuid);
    return &roster->record[at];
}

/*
 * A lost GPU gives no UUID. It is the one which was seen last under this index, unless that one is
 * seen elsewhere in this round; of two, the one that was there more lately.
 */
static void mark_lost(struct nvml_roster *roster, uint32_t index, int code)
{
    struct nvml_record *found = NULL;

    for (uint32_t i = 0; i < roster->gpus; i++) {
        struct nvml_record *record = &roster->record[i];
        if (record->state.index == index && is_gone(record) && (found == NULL || found->was_gone))
            found = record;
    }
    if (found != NULL)
        found->presence = code == NVML_GPU_IS_LOST ? LOST : NEEDS_RESET;
    else
        leave_out(roster, index, nvml_words(code));
}

static void see_gpu(struct nvml_roster *roster, const struct nvml_library *nvml, uint32_t index,
                    struct nvml_now now)
{
    struct abi_device *device = NULL;
    char raw[ABI_TEXT_BYTES] = "";
    char uuid[NVML_TEXT_MAX];

    int code = nvml->DeviceGetHandleByIndex_v2(index, &device);
    if (code == NVML_SUCCESS)
        code = nvml->DeviceGetUUID(device, raw, sizeof raw);
    if (code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED) {
        mark_lost(roster, index, code);
        return;
    }
    nvml_text(uuid, sizeof uuid, raw, sizeof raw);
    if (code != NVML_SUCCESS || device == NULL || !is_uuid(uuid)) {
        leave_out(roster, index,
                  code != NVML_SUCCESS ? nvml_words(code) : "its UUID is none that can be used");
        return;
    }
    struct nvml_record *record = find_uuid(roster, uuid);
    if (record != NULL && record->presence == PRESENT) {
        leave_out(roster, index, "another GPU has its UUID");
        return;
    }
    if (record == NULL)
        record = add_record(roster, uuid);
    if (record == NULL) {
        leave_out(roster, index, "more than GPUS_PER_NODE_MAX GPUs");
        return;
    }
    record->is_registered = record->is_registered && record->device == device;
    record->presence = PRESENT;
    record->device = device;
    record->state.index = index;
    nvml_gpu_read(roster, nvml, record, now);
}

static void read_versions(struct nvml_roster *roster, const struct nvml_library *nvml)
{
    char text[ABI_TEXT_BYTES] = "";

    if (nvml->SystemGetDriverVersion(text, sizeof text) == NVML_SUCCESS)
        nvml_text(roster->driver, sizeof roster->driver, text, sizeof text);
    if (nvml->SystemGetNVMLVersion != NULL &&
        nvml->SystemGetNVMLVersion(text, sizeof text) == NVML_SUCCESS)
        nvml_text(roster->library, sizeof roster->library, text, sizeof text);
}

static void forget_meters(struct gpu_state *gpu)
{
    gpu->known = 0;
    gpu->process = 0;
    gpu->processes = 0;
    gpu->processes_left_out = 0;
}

int nvml_roster_round(struct nvml_roster *roster, const struct nvml_library *nvml,
                      struct nvml_now now, struct err *err)
{
    unsigned count = 0;
    const int code = nvml->DeviceGetCount_v2(&count);

    if (code != NVML_SUCCESS)
        return nvml_library_fail(err, "DeviceGetCount_v2", code);
    read_versions(roster, nvml);
    roster->left_out = 0;
    roster->left_out_why[0] = '\0';
    roster->processes = 0;
    for (uint32_t i = 0; i < roster->gpus; i++) {
        struct nvml_record *record = &roster->record[i];
        record->was_gone = is_gone(record);
        record->presence = MISSING;
        forget_meters(&record->state);
    }
    for (uint32_t i = 0; i < count && i < GPUS_PER_NODE_MAX; i++)
        see_gpu(roster, nvml, i, now);
    if (count > GPUS_PER_NODE_MAX) {
        leave_out(roster, GPUS_PER_NODE_MAX, "more than GPUS_PER_NODE_MAX GPUs");
        roster->left_out += count - GPUS_PER_NODE_MAX - 1;
    }
    nvml_gpu_link(roster, nvml);
    for (uint32_t i = 0; i < roster->gpus; i++)
        nvml_health_judge(&roster->record[i], roster->quiet_ms, now);
    return 0;
}

void nvml_roster_let_go(struct nvml_roster *roster)
{
    roster->processes = 0;
    for (uint32_t i = 0; i < roster->gpus; i++) {
        struct nvml_record *record = &roster->record[i];
        record->device = NULL;
        record->presence = MISSING;
        record->is_registered = false;
        forget_meters(&record->state);
        record->has_ecc = false;
    }
}

void nvml_roster_no_driver(struct nvml_roster *roster, const char *why, struct nvml_now now)
{
    nvml_roster_let_go(roster);
    for (uint32_t i = 0; i < roster->gpus; i++)
        nvml_health_set(&roster->record[i].state, GPU_UNKNOWN, why, now.wall_ms);
}

void nvml_roster_event(struct nvml_roster *roster, const struct abi_event *event,
                       struct nvml_now now)
{
    for (uint32_t i = 0; i < roster->gpus; i++)
        if (event->device == NULL || roster->record[i].device == event->device)
            nvml_health_event(&roster->record[i], event, now);
}

bool nvml_roster_forgive(struct nvml_roster *roster, const char *uuid)
{
    struct nvml_record *record = find_uuid(roster, uuid);
    if (record != NULL)
        nvml_health_forgive(record);
    return record != NULL;
}

bool nvml_roster_misses_any(const struct nvml_roster *roster)
{
    for (uint32_t i = 0; i < roster->gpus; i++)
        if (is_gone(&roster->record[i]))
            return true;
    return false;
}

void nvml_roster_write(const struct nvml_roster *roster, struct gpu_reading *out)
{
    out->gpus = roster->gpus;
    for (uint32_t i = 0; i < roster->gpus; i++)
        out->gpu[i] = roster->record[i].state;
    memcpy(out->driver, roster->driver, sizeof out->driver);
    memcpy(out->library, roster->library, sizeof out->library);
    out->left_out = roster->left_out;
    memcpy(out->left_out_why, roster->left_out_why, sizeof out->left_out_why);
}
