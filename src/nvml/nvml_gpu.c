/* Reads identity, memory, meters, processes and links of one GPU. Watcher's thread. */
#include "nvml_gpu.h"

#include <string.h>
#include <strings.h>

#include "milligpu/base/alloc.h"

#include "nvml_health.h"

/*
 * True if a call succeeded. Any call can report that the GPU is lost or needs a reset; other codes
 * mean that this GPU or driver does not support the call.
 */
static bool answers(struct nvml_record *record, int code)
{
    if (code == NVML_GPU_IS_LOST)
        record->presence = LOST;
    if (code == NVML_RESET_REQUIRED && record->presence == PRESENT)
        record->presence = NEEDS_RESET;
    return code == NVML_SUCCESS;
}

static uint32_t mib_of(uint64_t bytes)
{
    const uint64_t mib = bytes >> 20;
    return mib > UINT32_MAX ? UINT32_MAX : (uint32_t)mib;
}

static void read_memory(const struct nvml_library *nvml, struct nvml_record *record)
{
    struct abi_memory_v2 newer = {.version = ABI_MEMORY_V2};
    struct abi_memory older = {0};

    if (nvml->DeviceGetMemoryInfo_v2 != NULL &&
        answers(record, nvml->DeviceGetMemoryInfo_v2(record->device, &newer))) {
        record->state.mib_total = mib_of(newer.total);
        record->state.mib_used = mib_of(newer.used);
    } else if (answers(record, nvml->DeviceGetMemoryInfo(record->device, &older))) {
        record->state.mib_total = mib_of(older.total);
        record->state.mib_used = mib_of(older.used);
    }
}

/* Reads the values that are constant while the driver is loaded, since an index can change. */
static void read_identity(const struct nvml_library *nvml, struct nvml_record *record)
{
    struct gpu_state *gpu = &record->state;
    char name[ABI_TEXT_BYTES] = "";
    struct abi_pci pci = {0};
    unsigned minor = 0;
    unsigned node = 0;
    unsigned mig = 0;
    unsigned pending = 0;

    if (nvml->DeviceGetName != NULL &&
        answers(record, nvml->DeviceGetName(record->device, name, sizeof name)))
        nvml_text(gpu->model, sizeof gpu->model, name, sizeof name);
    if (nvml->DeviceGetPciInfo_v3 != NULL &&
        answers(record, nvml->DeviceGetPciInfo_v3(record->device, &pci)))
        nvml_text(gpu->bus_id, sizeof gpu->bus_id, pci.bus_id, sizeof pci.bus_id);
    if (nvml->DeviceGetMinorNumber != NULL &&
        answers(record, nvml->DeviceGetMinorNumber(record->device, &minor)))
        gpu->minor = minor <= INT32_MAX ? (int32_t)minor : -1;
    /* UINT_MAX means none; other values that do not fit the annotation are invalid. */
    if (nvml->DeviceGetNumaNodeId != NULL &&
        answers(record, nvml->DeviceGetNumaNodeId(record->device, &node)))
        gpu->numa = node <= INT16_MAX ? (int32_t)node : -1;
    if (nvml->DeviceGetMigMode != NULL &&
        answers(record, nvml->DeviceGetMigMode(record->device, &mig, &pending)))
        gpu->is_mig = mig == 1;
}

static void read_meters(const struct nvml_library *nvml, struct nvml_record *record,
                        struct nvml_now now)
{
    struct gpu_state *gpu = &record->state;
    struct abi_device *device = record->device;
    uint64_t corrected = 0;
    uint64_t not_corrected = 0;

    if (nvml->DeviceGetTemperature != NULL &&
        answers(record,
                nvml->DeviceGetTemperature(device, ABI_TEMPERATURE_GPU, &gpu->temperature_c)))
        gpu->known |= GPU_KNOWS_TEMPERATURE;
    if (nvml->DeviceGetPowerUsage != NULL &&
        answers(record, nvml->DeviceGetPowerUsage(device, &gpu->power_mw)))
        gpu->known |= GPU_KNOWS_POWER;
    if (nvml->DeviceGetCurrentClocksEventReasons != NULL &&
        answers(record, nvml->DeviceGetCurrentClocksEventReasons(device, &gpu->clock_reasons)))
        gpu->known |= GPU_KNOWS_CLOCKS;
    if (nvml->DeviceGetTotalEccErrors == NULL ||
        !answers(record, nvml->DeviceGetTotalEccErrors(device, ABI_ECC_CORRECTED, ABI_ECC_VOLATILE,
                                                       &corrected)) ||
        !answers(record, nvml->DeviceGetTotalEccErrors(device, ABI_ECC_UNCORRECTED,
                                                       ABI_ECC_VOLATILE, &not_corrected)))
        return;
    gpu->known |= GPU_KNOWS_ECC;
    gpu->ecc_corrected = corrected;
    gpu->ecc_uncorrected = not_corrected;
    nvml_health_ecc(record, not_corrected, now);
}

static void add_process(struct nvml_devices *devices, const struct abi_process *from, bool is_mps)
{
    const bool is_known = from->used_bytes != UINT64_MAX;

    devices->process = xgrow(devices->process, devices->n_processes, &devices->process_capacity,
                             sizeof *devices->process);
    devices->process[devices->n_processes++] =
        (struct gpu_process){.pid = from->pid,
                             .mib = is_known ? mib_of(from->used_bytes) : 0,
                             .is_known = is_known,
                             .is_mps = is_mps,
                             .sm_milli = -1};
}

typedef int read_processes(struct abi_device *device, unsigned *count, struct abi_process *process);

static void read_some_processes(struct nvml_devices *devices, struct nvml_record *record,
                                read_processes *read, bool is_mps)
{
    unsigned count = NVML_PROCESSES_MAX;

    if (read == NULL)
        return;
    const int code = read(record->device, &count, devices->scratch);
    if (code == NVML_INSUFFICIENT_SIZE) {
        record->state.known |= GPU_KNOWS_PROCESSES;
        record->state.processes_left_out += count;
    } else if (answers(record, code)) {
        record->state.known |= GPU_KNOWS_PROCESSES;
        for (unsigned i = 0; i < count && i < NVML_PROCESSES_MAX; i++)
            add_process(devices, &devices->scratch[i], is_mps);
    }
}

/* An MPS client can also be in the list of other processes. */
static bool is_client_of_mps(const struct nvml_devices *devices, uint32_t from, uint32_t pid)
{
    for (uint32_t i = from; i < devices->n_processes; i++)
        if (devices->process[i].pid == pid && devices->process[i].is_mps)
            return true;
    return false;
}

/* The mean of the samples of one process; without if there are none; -1 if one is invalid. */
static int32_t sm_milli_of(const struct abi_utilization *sample, unsigned count, uint32_t pid,
                           int32_t without)
{
    uint32_t percent = 0;
    uint32_t samples = 0;

    for (unsigned i = 0; i < count; i++) {
        if (sample[i].pid != pid)
            continue;
        if (sample[i].sm_percent > 100)
            return -1;
        percent += sample[i].sm_percent;
        samples++;
    }
    return samples > 0 ? (int32_t)(percent * 10 / samples) : without;
}

/*
 * The mean of the new samples, rounded up. GPU_MILLI, so that nothing is scaled, if it is 0, or if
 * there are no valid samples.
 */
static uint32_t read_busy(struct nvml_devices *devices, const struct nvml_library *nvml,
                          struct nvml_record *record, struct nvml_now now)
{
    unsigned count = NVML_SAMPLES_MAX;
    uint32_t percent = 0;
    uint32_t samples = 0;
    int type = 0;

    if (now.wall_ms >= 0 && record->busy_us / 1000 > (uint64_t)now.wall_ms)
        record->busy_us = 0; /* the clock was set back, as in read_utilization() */
    if (nvml->DeviceGetSamples == NULL ||
        !answers(record, nvml->DeviceGetSamples(record->device, ABI_SAMPLES_GPU, record->busy_us,
                                                &type, &count, devices->busy)) ||
        type != ABI_VALUE_U32 || count > NVML_SAMPLES_MAX)
        return GPU_MILLI;
    const uint64_t since_us = record->busy_us;
    for (unsigned i = 0; i < count; i++) {
        const struct abi_sample *sample = &devices->busy[i];
        if (sample->time_us <= since_us || sample->value.u32 > 100)
            continue;
        percent += sample->value.u32;
        samples++;
        if (sample->time_us > record->busy_us)
            record->busy_us = sample->time_us;
    }
    return percent > 0 ? (percent * 10 + samples - 1) / samples : GPU_MILLI;
}

static bool is_repeated(const struct gpu_process *process, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (process[i].pid == process[at].pid)
            return true;
    return false;
}

/*
 * Scales the SM time of processes down to the utilization of the GPU. For time-sliced processes
 * NVML also counts time in which they wait for their turn (driver 580): two busy ones show 99 and
 * 89 percent.
 */
static void share_busy(struct gpu_process *process, uint32_t processes, uint32_t busy_milli)
{
    uint64_t sum = 0;

    must(busy_milli > 0 && busy_milli <= GPU_MILLI);
    for (uint32_t i = 0; i < processes; i++)
        if (process[i].sm_milli > 0 && !is_repeated(process, i))
            sum += (uint64_t)process[i].sm_milli;
    for (uint32_t i = 0; i < processes && sum > busy_milli; i++) {
        if (process[i].sm_milli <= 0)
            continue;
        process[i].sm_milli = (int32_t)((uint64_t)process[i].sm_milli * busy_milli / sum);
        process[i].is_scaled = true;
    }
}

/*
 * NVML returns samples of the processes that used the GPU since sampled_us. An empty result is
 * ambiguous (idle, or no samples), so usage stays unknown. A process without samples was idle,
 * except an MPS client: active ones have no samples, either (driver 580). Sample times are of the
 * wall clock: if that is set back, no sample would be newer than sampled_us for a while, so
 * sampled_us is reset.
 */
static void read_utilization(struct nvml_devices *devices, const struct nvml_library *nvml,
                             struct nvml_record *record, struct nvml_now now)
{
    const struct gpu_state *gpu = &record->state;
    unsigned count = NVML_PROCESSES_MAX;

    if (now.wall_ms >= 0 && record->sampled_us / 1000 > (uint64_t)now.wall_ms)
        record->sampled_us = 0; /* request all samples */
    if (nvml->DeviceGetProcessUtilization == NULL || devices->n_processes == gpu->process ||
        !answers(record, nvml->DeviceGetProcessUtilization(record->device, devices->samples, &count,
                                                           record->sampled_us)) ||
        count == 0 || count > NVML_PROCESSES_MAX)
        return;
    for (unsigned i = 0; i < count; i++)
        if (devices->samples[i].time_us > record->sampled_us)
            record->sampled_us = devices->samples[i].time_us;
    for (uint32_t i = gpu->process; i < devices->n_processes; i++) {
        struct gpu_process *process = &devices->process[i];
        const bool is_client = is_client_of_mps(devices, gpu->process, process->pid);
        process->sm_milli = sm_milli_of(devices->samples, count, process->pid, is_client ? -1 : 0);
    }
    share_busy(&devices->process[gpu->process], devices->n_processes - gpu->process,
               read_busy(devices, nvml, record, now));
}

void nvml_gpu_read(struct nvml_devices *devices, const struct nvml_library *nvml,
                   struct nvml_record *record, struct nvml_now now)
{
    must(record->device != NULL);

    struct gpu_state *gpu = &record->state;
    gpu->process = devices->n_processes;
    read_identity(nvml, record);
    read_memory(nvml, record);
    read_meters(nvml, record, now);
    read_some_processes(devices, record, nvml->DeviceGetComputeRunningProcesses_v3, false);
    read_some_processes(devices, record, nvml->DeviceGetMPSComputeRunningProcesses_v3, true);
    read_utilization(devices, nvml, record, now);
    gpu->processes = devices->n_processes - gpu->process;
}

/* Bit i is set if record i has this bus id. Its case differs between versions of NVML. */
static uint64_t gpus_at(const struct nvml_devices *devices, const struct abi_pci *pci)
{
    char bus_id[sizeof devices->record[0].state.bus_id];

    nvml_text(bus_id, sizeof bus_id, pci->bus_id, sizeof pci->bus_id);
    if (bus_id[0] == '\0')
        return 0;
    for (uint32_t i = 0; i < devices->gpus; i++)
        if (devices->record[i].presence != MISSING &&
            strcasecmp(devices->record[i].state.bus_id, bus_id) == 0)
            return UINT64_C(1) << i;
    return 0;
}

static uint64_t read_links(const struct nvml_devices *devices, const struct nvml_library *nvml,
                           struct nvml_record *record)
{
    uint64_t peers = 0;

    for (unsigned link = 0; link < ABI_LINKS_MAX; link++) {
        struct abi_pci pci = {0};
        int active = 0;
        int type = ABI_LINK_TO_GPU;
        const int code = nvml->DeviceGetNvLinkState(record->device, link, &active);
        if (code == NVML_NOT_SUPPORTED || code == NVML_INVALID_ARGUMENT)
            break; /* link numbers are contiguous: this was the last one */
        if (!answers(record, code) || active != 1)
            continue;
        if (nvml->DeviceGetNvLinkRemoteDeviceType != NULL &&
            answers(record, nvml->DeviceGetNvLinkRemoteDeviceType(record->device, link, &type)) &&
            type == ABI_LINK_TO_SWITCH)
            record->has_links_to_switch = true;
        else if (nvml->DeviceGetNvLinkRemotePciInfo_v2 != NULL &&
                 answers(record, nvml->DeviceGetNvLinkRemotePciInfo_v2(record->device, link, &pci)))
            peers |= gpus_at(devices, &pci);
    }
    return peers;
}

void nvml_gpu_link(struct nvml_devices *devices, const struct nvml_library *nvml)
{
    uint64_t switched = 0;

    if (nvml->DeviceGetNvLinkState == NULL)
        return;
    for (uint32_t i = 0; i < devices->gpus; i++) {
        struct nvml_record *record = &devices->record[i];
        if (record->presence != PRESENT)
            continue; /* its links stay as last read */
        record->has_links_to_switch = false;
        record->state.peers = read_links(devices, nvml, record);
    }
    for (uint32_t i = 0; i < devices->gpus; i++)
        if (devices->record[i].has_links_to_switch)
            switched |= UINT64_C(1) << i;
    for (uint32_t i = 0; i < devices->gpus; i++) {
        struct gpu_state *gpu = &devices->record[i].state;
        if ((switched >> i & 1) != 0)
            gpu->peers |= switched;
        gpu->peers &= ~(UINT64_C(1) << i);
    }
}
