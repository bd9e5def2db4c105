/*
 * A libnvidia-ml.so.1 without a driver. The environment variable FAKE_NVML names the file with its
 * answers, read again whenever that file is another one. Write the new file beside it and
 * rename. One fact per line, '#' begins a comment:
 *
 *     driver VERSION
 *     init CODE                     nvmlInit_v2 returns it: 9, the driver is not loaded
 *     count CODE                    nvmlDeviceGetCount_v2 returns it
 *     hang FUNCTION MS              each call of nvmlFUNCTION ("any": of any) takes so long, or
 *                                   until the line is gone
 *     poll MS                       nvmlEventSetWait_v2 reads this file so often, not each 5 ms:
 *                                   waiting for a real driver costs nothing
 *     gpu UUID MODEL MIB [NAME=VALUE]...
 *         in the order of the index; '_' in MODEL is a blank. used=MIB numa=N minor=N bus=ID mig=1
 *         fail=CODE (of every function; 15 lost, 16 reset required) temperature=N power=MW
 *         clocks=N ecc=N (not corrected; without it there is no ECC) link=UUID or link=switch, each
 *         once per link; busy=PERCENT (utilization; not reported without it) rests=N (so many
 *         samples of that are 0, besides); full=1 (texts fill the buffer and are not terminated)
 *     process UUID PID MIB [mps] [sm=PERCENT]
 *                                   MIB -1: not known; without sm it has no sample of utilization
 *     event SERIAL UUID TYPE DATA   delivered once to each event set; serials rise. UUID
 *                                   "none": a GPU that has no name
 *     limits no                     nvmlDeviceSetMemoryLimits_v1 returns 13
 *     limits refused                it returns 4: the process has not the rights
 *     limits real                   it returns 17 for a cgroup that is no folder
 *     limits bare                   it returns 6: the cgroup has no controller
 *     limits broken                 it returns 17
 *     limits differ                 nvmlDeviceGetMemoryLimits_v1 reports half of the limit
 *     limits unread                 it returns 999
 *
 * From nvmlInit_v2 to nvmlShutdown the file stays open, as the driver's devices do.
 *
 * nvmlDeviceSetMemoryLimits_v1 appends "UUID CGROUP SOFT HARD" to FAKE_NVML + ".limits". A soft
 * limit stays in the cgroups above when its cgroup is removed, as with the kernel's dmem: the sum
 * for a GPU is appended to FAKE_NVML + ".reserved", "UUID BYTES", and missing in its free memory.
 * With FAKE_NVML_OLD defined, it is the library of an old driver: only what milligpu cannot do
 * without.
 *
 * Declared from NVML's documentation once more, not from src/nvml/abi.h, so that a mistake there is
 * seen.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Declares and begins a function of the library. */
#define FUNCTION(name, ...)                                                                        \
    __attribute__((visibility("default"))) int nvml##name(__VA_ARGS__);                            \
    int nvml##name(__VA_ARGS__)

/* The body of a function that gives one value of a GPU; else_code if that does not have it. */
#define GIVE_IF(name, has, else_code, out, value)                                                  \
    {                                                                                              \
        const struct gpu *gpu;                                                                     \
        int code = enter_gpu(name, device, &gpu);                                                  \
        if (code == 0 && !(has))                                                                   \
            code = else_code;                                                                      \
        if (code == 0)                                                                             \
            *(out) = (value);                                                                      \
        return leave(code);                                                                        \
    }
#define GIVE(name, out, value) GIVE_IF(name, true, 0, out, value)

enum { GPUS = 128, PROCESSES = 2048, EVENTS = 256, LINKS = 18, HANGS = 8, LIMITS = 512 };

typedef struct nvmlDevice_st {
    char uuid[128];
} * nvmlDevice_t;

typedef struct nvmlEventSet_st {
    unsigned n_devices;
    nvmlDevice_t device[GPUS];
    long delivered; /* serial */
} * nvmlEventSet_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned int pid;
    unsigned long long timeStamp;
    unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
    unsigned long long timeStamp;
    union {
        double dVal;
        unsigned int uiVal;
        unsigned long ulVal;
        unsigned long long ullVal;
        signed long long sllVal;
    } sampleValue;
} nvmlSample_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
    const char *nameSpace;
    unsigned long long softLimit, hardLimit;
} nvmlSetMemoryLimits_v1_t;

typedef struct {
    const char *nameSpace;
    unsigned long long softLimit, hardLimit, currentUsed;
} nvmlGetMemoryLimits_v1_t;

struct gpu {
    char uuid[128], model[128], bus[40];
    long long mib, used, numa, minor, mig, fail, temperature, power, full, clocks, rests;
    long long ecc, busy; /* -1: not reported */
    unsigned n_links;
    char link[LINKS][128];
};

struct process {
    char uuid[128];
    unsigned pid;
    long long mib;
    bool mps;
    int sm; /* -1: none */
};

struct event {
    long serial;
    char uuid[128];
    unsigned long long type, data;
};

static struct world {
    char driver[64];
    int init, count, limits, real_cgroups, limits_differ, limits_unread;
    unsigned poll_ms;
    unsigned n_gpus, n_processes, n_events, n_hangs;
    struct gpu gpu[GPUS];
    struct process process[PROCESSES];
    struct event event[EVENTS];
    struct {
        char function[64];
        long ms;
    } hang[HANGS];
} world;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all that is static */
static struct stat seen;
static struct nvmlDevice_st devices[GPUS * 4]; /* handles last; a UUID has one */
static unsigned device_count;
static int initialized;
static int open_file = -1; /* open while it is initialized */

static void read_gpu_option(struct gpu *gpu, const char *option)
{
    const struct {
        const char *name;
        long long *value;
    } number[] = {{"used", &gpu->used},   {"numa", &gpu->numa}, {"minor", &gpu->minor},
                  {"mig", &gpu->mig},     {"fail", &gpu->fail}, {"temperature", &gpu->temperature},
                  {"power", &gpu->power}, {"full", &gpu->full}, {"clocks", &gpu->clocks},
                  {"ecc", &gpu->ecc},     {"busy", &gpu->busy}, {"rests", &gpu->rests}};
    const char *value = strchr(option, '=');
    if (value == NULL)
        abort();
    const size_t len = (size_t)(value++ - option);
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        if (strlen(number[i].name) == len && strncmp(option, number[i].name, len) == 0) {
            *number[i].value = strtoll(value, NULL, 10);
            return;
        }
    if (strncmp(option, "bus=", 4) == 0)
        (void)snprintf(gpu->bus, sizeof gpu->bus, "%s", value);
    else if (strncmp(option, "link=", 5) == 0 && gpu->n_links < LINKS)
        (void)snprintf(gpu->link[gpu->n_links++], sizeof gpu->link[0], "%s", value);
    else
        abort();
}

static void read_gpu(char *line)
{
    char option[160];
    int used = 0;
    struct gpu *gpu = &world.gpu[world.n_gpus];
    if (world.n_gpus == GPUS)
        abort();
    *gpu = (struct gpu){.numa = -1, .minor = world.n_gpus, .ecc = -1, .busy = -1};
    (void)snprintf(gpu->bus, sizeof gpu->bus, "00000000:%02X:00.0", world.n_gpus + 1);
    if (sscanf(line, "gpu %127s %127s %lld%n", gpu->uuid, gpu->model, &gpu->mib, &used) != 3)
        abort();
    for (char *at = gpu->model; *at != '\0'; at++)
        if (*at == '_')
            *at = ' ';
    for (line += used; sscanf(line, "%159s%n", option, &used) == 1; line += used)
        read_gpu_option(gpu, option);
    world.n_gpus++;
}

static void read_process(const char *line)
{
    char option[2][16] = {"", ""};
    if (world.n_processes == PROCESSES)
        abort();
    struct process *process = &world.process[world.n_processes++];
    if (sscanf(line, "process %127s %u %lld %15s %15s", process->uuid, &process->pid, &process->mib,
               option[0], option[1]) < 3)
        abort();
    process->sm = -1;
    for (int i = 0; i < 2; i++) {
        process->mps = process->mps || strcmp(option[i], "mps") == 0;
        (void)sscanf(option[i], "sm=%d", &process->sm);
    }
}

static void read_event(const char *line)
{
    if (world.n_events == EVENTS)
        abort();
    struct event *event = &world.event[world.n_events++];
    if (sscanf(line, "event %ld %127s %llu %llu", &event->serial, event->uuid, &event->type,
               &event->data) != 4)
        abort();
}

static void read_limits(const char *word)
{
    const struct {
        const char *word;
        int *of;
        int value;
    } limits[] = {{"no", &world.limits, 13},          {"refused", &world.limits, 4},
                  {"bare", &world.limits, 6},         {"broken", &world.limits, 17},
                  {"real", &world.real_cgroups, 1},   {"differ", &world.limits_differ, 1},
                  {"unread", &world.limits_unread, 1}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (strcmp(word, limits[i].word) == 0) {
            *limits[i].of = limits[i].value;
            return;
        }
    abort();
}

static void read_line(char *line)
{
    line[strcspn(line, "#\n")] = '\0';
    if (line[0] == '\0')
        return;
    if (strncmp(line, "gpu ", 4) == 0)
        read_gpu(line);
    else if (strncmp(line, "process ", 8) == 0)
        read_process(line);
    else if (strncmp(line, "event ", 6) == 0)
        read_event(line);
    else if (strncmp(line, "hang ", 5) == 0) {
        if (world.n_hangs == HANGS ||
            sscanf(line, "hang %63s %ld", world.hang[world.n_hangs].function,
                   &world.hang[world.n_hangs].ms) != 2)
            abort();
        world.n_hangs++;
    } else if (strncmp(line, "limits ", 7) == 0)
        read_limits(line + 7);
    else if (sscanf(line, "driver %63s", world.driver) != 1 &&
             sscanf(line, "init %d", &world.init) != 1 &&
             sscanf(line, "count %d", &world.count) != 1 &&
             sscanf(line, "poll %u", &world.poll_ms) != 1)
        abort();
}

/* Under the lock. */
static void read_world(void)
{
    const char *name = getenv("FAKE_NVML");
    struct stat now;
    char line[4096];
    if (name == NULL || stat(name, &now) != 0) {
        world = (struct world){.init = 9};
        seen = (struct stat){0};
        return;
    }
    if (now.st_ino == seen.st_ino && now.st_size == seen.st_size &&
        now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    seen = now;
    memset(&world, 0, sizeof world);
    (void)snprintf(world.driver, sizeof world.driver, "615.10.02");
    FILE *file = fopen(name, "re");
    if (file == NULL)
        abort();
    while (fgets(line, sizeof line, file) != NULL)
        read_line(line);
    (void)fclose(file);
}

static long hang_of(const char *function)
{
    for (unsigned i = 0; i < world.n_hangs; i++)
        if (strcmp(world.hang[i].function, function) == 0 ||
            strcmp(world.hang[i].function, "any") == 0)
            return world.hang[i].ms;
    return 0;
}

static void sleep_ms(long ms)
{
    const struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&wait, NULL);
}

/* Takes the lock; with it comes the world as the file has it, after the hang that it orders. */
static void enter(const char *function)
{
    long slept = 0;
    (void)pthread_mutex_lock(&lock);
    read_world();
    while (slept < hang_of(function)) {
        if (slept == 0)
            (void)fprintf(stderr, "%s hangs\n", function);
        (void)pthread_mutex_unlock(&lock);
        sleep_ms(5);
        slept += 5;
        (void)pthread_mutex_lock(&lock);
        read_world();
    }
}

static int leave(int code)
{
    (void)pthread_mutex_unlock(&lock);
    return code;
}

static const struct gpu *gpu_named(const char *uuid)
{
    for (unsigned i = 0; i < world.n_gpus; i++)
        if (strcmp(world.gpu[i].uuid, uuid) == 0)
            return &world.gpu[i];
    return NULL;
}

static nvmlDevice_t device_named(const char *uuid)
{
    for (unsigned i = 0; i < device_count; i++)
        if (strcmp(devices[i].uuid, uuid) == 0)
            return &devices[i];
    if (device_count == sizeof devices / sizeof devices[0])
        abort();
    (void)snprintf(devices[device_count].uuid, sizeof devices[0].uuid, "%s", uuid);
    return &devices[device_count++];
}

/* 0, or the result of every call for this GPU. */
static int reach(nvmlDevice_t device, const struct gpu **out)
{
    if (!initialized)
        return 1;
    if (device == NULL)
        return 2;
    *out = gpu_named(device->uuid);
    return *out == NULL ? 15 : (int)(*out)->fail;
}

static int enter_gpu(const char *function, nvmlDevice_t device, const struct gpu **out)
{
    enter(function);
    return reach(device, out);
}

static unsigned long long bytes(long long mib)
{
    return (unsigned long long)mib << 20;
}

static int give_text(char *out, unsigned length, const char *text, bool full)
{
    if (full) {
        memset(out, 'x', length);
        memcpy(out, text, strlen(text) < length ? strlen(text) : length);
        return 0;
    }
    if (strlen(text) >= length)
        return 7;
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

FUNCTION(Init_v2, void)
{
    enter("Init_v2");
    initialized += world.init == 0;
    if (initialized == 1 && open_file < 0)
        open_file = open(getenv("FAKE_NVML"), O_RDONLY | O_CLOEXEC);
    return leave(world.init);
}

FUNCTION(Shutdown, void)
{
    enter("Shutdown");
    if (initialized == 0)
        return leave(1);
    initialized--;
    if (initialized == 0) {
        (void)close(open_file);
        open_file = -1;
    }
    return leave(0);
}

FUNCTION(SystemGetDriverVersion, char *version, unsigned int length)
{
    enter("SystemGetDriverVersion");
    return leave(initialized ? give_text(version, length, world.driver, false) : 1);
}

FUNCTION(DeviceGetCount_v2, unsigned int *count)
{
    enter("DeviceGetCount_v2");
    *count = world.n_gpus;
    return leave(initialized ? world.count : 1);
}

FUNCTION(DeviceGetHandleByIndex_v2, unsigned int index, nvmlDevice_t *device)
{
    enter("DeviceGetHandleByIndex_v2");
    if (!initialized || index >= world.n_gpus)
        return leave(initialized ? 2 : 1);
    if (world.gpu[index].fail == 15)
        return leave(15);
    *device = device_named(world.gpu[index].uuid);
    return leave(0);
}

FUNCTION(DeviceGetUUID, nvmlDevice_t device, char *uuid, unsigned int length)
{
    const struct gpu *gpu;
    const int code = enter_gpu("DeviceGetUUID", device, &gpu);
    return leave(code != 0 ? code : give_text(uuid, length, gpu->uuid, gpu->full != 0));
}

FUNCTION(DeviceGetMemoryInfo, nvmlDevice_t device, nvmlMemory_t *memory)
GIVE("DeviceGetMemoryInfo", memory,
     ((nvmlMemory_t){bytes(gpu->mib), bytes(gpu->mib - gpu->used), bytes(gpu->used)}))

#ifndef FAKE_NVML_OLD

static unsigned long long wall_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* For a GPU and a cgroup, which may have been removed. */
static struct limit {
    char uuid[128], cgroup[512];
    unsigned long long soft, hard;
} set_limits[LIMITS];
static unsigned limits_set;

static struct limit *limit_of(const char *uuid, const char *cgroup)
{
    for (unsigned i = 0; i < limits_set; i++)
        if (strcmp(set_limits[i].uuid, uuid) == 0 && strcmp(set_limits[i].cgroup, cgroup) == 0)
            return &set_limits[i];
    return NULL;
}

static unsigned long long reserved(const char *uuid)
{
    unsigned long long sum = 0;
    for (unsigned i = 0; i < limits_set; i++)
        if (strcmp(set_limits[i].uuid, uuid) == 0)
            sum += set_limits[i].soft;
    return sum;
}

FUNCTION(SystemGetNVMLVersion, char *version, unsigned int length)
{
    enter("SystemGetNVMLVersion");
    return leave(give_text(version, length, "13.615.10", false));
}

FUNCTION(DeviceGetMemoryInfo_v2, nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    const struct gpu *gpu;
    const int code = enter_gpu("DeviceGetMemoryInfo_v2", device, &gpu);
    if (memory->version != (sizeof *memory | 2U << 24))
        return leave(25);
    if (code == 0) {
        memory->total = bytes(gpu->mib);
        memory->reserved = 512U << 20;
        memory->used = bytes(gpu->used);
        memory->free = memory->total - memory->used - reserved(gpu->uuid);
    }
    return leave(code);
}

FUNCTION(DeviceGetName, nvmlDevice_t device, char *name, unsigned int length)
{
    const struct gpu *gpu;
    const int code = enter_gpu("DeviceGetName", device, &gpu);
    return leave(code != 0 ? code : give_text(name, length, gpu->model, gpu->full != 0));
}

FUNCTION(DeviceGetMinorNumber, nvmlDevice_t device, unsigned int *minor)
GIVE("DeviceGetMinorNumber", minor, (unsigned)gpu->minor)

FUNCTION(DeviceGetNumaNodeId, nvmlDevice_t device, unsigned int *node)
GIVE("DeviceGetNumaNodeId", node, (unsigned)gpu->numa)

FUNCTION(DeviceGetPciInfo_v3, nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    const struct gpu *gpu;
    const int code = enter_gpu("DeviceGetPciInfo_v3", device, &gpu);
    if (code == 0) {
        memset(pci, 0, sizeof *pci);
        memcpy(pci->busId, gpu->bus, sizeof pci->busId);
    }
    return leave(code);
}

FUNCTION(DeviceGetMigMode, nvmlDevice_t device, unsigned int *now, unsigned int *pending)
GIVE_IF("DeviceGetMigMode", true, 0, now, *pending = (unsigned)gpu->mig)

FUNCTION(DeviceGetNvLinkState, nvmlDevice_t device, unsigned int link, int *active)
{
    const struct gpu *gpu;
    const int code = enter_gpu("DeviceGetNvLinkState", device, &gpu);
    if (code != 0)
        return leave(code);
    if (gpu->n_links == 0 || link >= LINKS)
        return leave(gpu->n_links == 0 ? 3 : 2);
    *active = link < gpu->n_links;
    return leave(0);
}

FUNCTION(DeviceGetNvLinkRemoteDeviceType, nvmlDevice_t device, unsigned int link, int *type)
GIVE_IF("DeviceGetNvLinkRemoteDeviceType", link < gpu->n_links, 2, type,
        strcmp(gpu->link[link], "switch") == 0 ? 2 : 0)

FUNCTION(DeviceGetNvLinkRemotePciInfo_v2, nvmlDevice_t device, unsigned int link,
         nvmlPciInfo_t *pci)
{
    const struct gpu *gpu;
    const int code = enter_gpu("DeviceGetNvLinkRemotePciInfo_v2", device, &gpu);
    if (code != 0 || link >= gpu->n_links)
        return leave(code != 0 ? code : 2);
    const struct gpu *other = gpu_named(gpu->link[link]);
    memset(pci, 0, sizeof *pci);
    (void)snprintf(pci->busId, sizeof pci->busId, "%.31s",
                   other != NULL ? other->bus : "00000000:ff:00.0");
    /* As real ones differ: small letters here. */
    for (char *at = pci->busId; *at != '\0'; at++)
        *at = (char)(*at >= 'A' && *at <= 'F' ? *at + 32 : *at);
    return leave(0);
}

FUNCTION(DeviceGetTemperature, nvmlDevice_t device, int sensor, unsigned int *temperature)
GIVE_IF("DeviceGetTemperature", sensor == 0, 2, temperature, (unsigned)gpu->temperature)

FUNCTION(DeviceGetPowerUsage, nvmlDevice_t device, unsigned int *power)
GIVE_IF("DeviceGetPowerUsage", gpu->power != 0, 3, power, (unsigned)gpu->power)

FUNCTION(DeviceGetCurrentClocksEventReasons, nvmlDevice_t device, unsigned long long *reasons)
GIVE("DeviceGetCurrentClocksEventReasons", reasons, (unsigned long long)gpu->clocks)

FUNCTION(DeviceGetTotalEccErrors, nvmlDevice_t device, int type, int counter,
         unsigned long long *count)
{
    const struct gpu *gpu;
    enter("DeviceGetTotalEccErrors");
    int code = counter != 0 ? 2 : reach(device, &gpu);
    if (code == 0 && gpu->ecc < 0)
        code = 3;
    if (code == 0)
        *count = type == 1 ? (unsigned long long)gpu->ecc : 1000;
    return leave(code);
}

static int give_processes(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *info,
                          bool mps)
{
    const struct gpu *gpu;
    unsigned found = 0;
    const int code = reach(device, &gpu);
    if (code != 0)
        return code;
    for (unsigned i = 0; i < world.n_processes; i++) {
        const struct process *process = &world.process[i];
        if (strcmp(process->uuid, gpu->uuid) != 0 || process->mps != mps)
            continue;
        if (found++ < *count)
            info[found - 1] = (nvmlProcessInfo_t){
                process->pid, process->mib < 0 ? ~0ULL : bytes(process->mib), ~0U, ~0U};
    }
    const bool fits = found <= *count;
    *count = found;
    return fits ? 0 : 7;
}

FUNCTION(DeviceGetComputeRunningProcesses_v3, nvmlDevice_t device, unsigned int *count,
         nvmlProcessInfo_t *info)
{
    enter("DeviceGetComputeRunningProcesses_v3");
    return leave(give_processes(device, count, info, false));
}

FUNCTION(DeviceGetMPSComputeRunningProcesses_v3, nvmlDevice_t device, unsigned int *count,
         nvmlProcessInfo_t *info)
{
    enter("DeviceGetMPSComputeRunningProcesses_v3");
    return leave(give_processes(device, count, info, true));
}

FUNCTION(DeviceGetProcessUtilization, nvmlDevice_t device,
         nvmlProcessUtilizationSample_t *utilization, unsigned int *count, unsigned long long since)
{
    const struct gpu *gpu;
    unsigned found = 0;
    const int code = enter_gpu("DeviceGetProcessUtilization", device, &gpu);
    if (code != 0)
        return leave(code);
    /* The driver dates its samples by the wall clock: after it went back, none is newer. */
    const unsigned long long now_us = wall_us();
    for (unsigned i = 0; i < world.n_processes && now_us > since; i++) {
        const struct process *process = &world.process[i];
        if (strcmp(process->uuid, gpu->uuid) != 0 || process->sm < 0)
            continue;
        if (found++ < *count)
            utilization[found - 1] = (nvmlProcessUtilizationSample_t){
                process->pid, now_us, (unsigned)process->sm, 1, 0, 0};
    }
    const bool fits = found <= *count;
    *count = found;
    return leave(found == 0 ? 6 : fits ? 0 : 7);
}

/*
 * The driver's buffer of samples: one that is a minute old, and two of now. Those that are not
 * newer than since come as nonsense.
 */
__attribute__((visibility("default"))) int nvmlDeviceGetSamples(nvmlDevice_t device, int type,
                                                                unsigned long long since,
                                                                int *valueType, unsigned int *count,
                                                                nvmlSample_t *samples);
int nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long since, int *valueType,
                         unsigned int *count, nvmlSample_t *samples)
{
    const struct gpu *gpu;
    const int code = enter_gpu("DeviceGetSamples", device, &gpu);
    if (code != 0 || gpu->busy < 0)
        return leave(code != 0 ? code : 3);
    const unsigned long long now_us = wall_us();
    const unsigned all = 4 + (unsigned)gpu->rests;
    if (type != 1 || *count < all || now_us <= since)
        return leave(type != 1 || *count < all ? 2 : 6);
    *valueType = 1;
    *count = all;
    for (unsigned i = 0; i < all; i++) {
        const bool is_new = i >= 2 || (i == 1 && since == 0);
        samples[i].timeStamp = i >= 2 ? now_us : is_new ? now_us - 60000000 : since;
        samples[i].sampleValue.uiVal = i < 2 ? 100 : i < 4 ? (unsigned)gpu->busy : 0;
    }
    return leave(0);
}

FUNCTION(EventSetCreate, nvmlEventSet_t *set)
{
    enter("EventSetCreate");
    if (!initialized)
        return leave(1);
    *set = calloc(1, sizeof **set);
    return leave(0);
}

FUNCTION(EventSetFree, nvmlEventSet_t set)
{
    enter("EventSetFree");
    free(set);
    return leave(0);
}

FUNCTION(DeviceRegisterEvents, nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    const struct gpu *gpu;
    int code = enter_gpu("DeviceRegisterEvents", device, &gpu);
    if (code == 0 && (types & 2) != 0 && gpu->ecc < 0)
        code = 3;
    if (code == 0 && set->n_devices < GPUS)
        set->device[set->n_devices++] = device;
    return leave(code);
}

static bool is_registered(nvmlEventSet_t set, const char *uuid)
{
    for (unsigned i = 0; i < set->n_devices; i++)
        if (strcmp(set->device[i]->uuid, uuid) == 0)
            return true;
    return strcmp(uuid, "none") == 0;
}

static bool next_event(nvmlEventSet_t set, nvmlEventData_t *data)
{
    for (unsigned i = 0; i < world.n_events; i++) {
        const struct event *event = &world.event[i];
        if (event->serial <= set->delivered || !is_registered(set, event->uuid))
            continue;
        set->delivered = event->serial;
        *data = (nvmlEventData_t){device_named(event->uuid), event->type, event->data, ~0U, ~0U};
        return true;
    }
    return false;
}

FUNCTION(EventSetWait_v2, nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
    unsigned step = 0;
    for (unsigned waited = 0;; waited += step) {
        enter("EventSetWait_v2");
        for (unsigned i = 0; i < world.n_gpus; i++)
            if (world.gpu[i].fail == 15)
                return leave(15);
        if (next_event(set, data))
            return leave(0);
        if (waited >= timeoutms)
            return leave(10);
        step = world.poll_ms > 0 ? world.poll_ms : 5;
        if (step > timeoutms - waited)
            step = timeoutms - waited;
        (void)leave(0);
        sleep_ms(step);
    }
}

static bool is_cgroup(const char *path)
{
    struct stat st;

    return path[0] == '/' && (!world.real_cgroups || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)));
}

static bool append(const char *suffix, const char *line)
{
    char name[4096];
    (void)snprintf(name, sizeof name, "%s.%s", getenv("FAKE_NVML"), suffix);
    FILE *file = fopen(name, "ae");
    if (file == NULL)
        return false;
    (void)fputs(line, file);
    (void)fclose(file);
    return true;
}

static void keep_limit(const char *uuid, const nvmlSetMemoryLimits_v1_t *limits)
{
    char line[256];
    struct limit *limit = limit_of(uuid, limits->nameSpace);
    if (limit == NULL && limits_set == LIMITS)
        abort();
    if (limit == NULL)
        limit = &set_limits[limits_set++];
    const bool changes = limit->soft != limits->softLimit;
    (void)snprintf(limit->uuid, sizeof limit->uuid, "%s", uuid);
    (void)snprintf(limit->cgroup, sizeof limit->cgroup, "%s", limits->nameSpace);
    limit->soft = limits->softLimit;
    limit->hard = limits->hardLimit;
    (void)snprintf(line, sizeof line, "%s %llu\n", uuid, reserved(uuid));
    if (changes)
        (void)append("reserved", line);
}

FUNCTION(DeviceSetMemoryLimits_v1, nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits)
{
    const struct gpu *gpu;
    char line[4096];
    int code = enter_gpu("DeviceSetMemoryLimits_v1", device, &gpu);
    if (code == 0)
        code = world.limits;
    if (code == 0 && !is_cgroup(limits->nameSpace))
        code = 17;
    if (code != 0)
        return leave(code);
    (void)snprintf(line, sizeof line, "%s %s %llu %llu\n", gpu->uuid, limits->nameSpace,
                   limits->softLimit, limits->hardLimit);
    if (!append("limits", line))
        return leave(17);
    keep_limit(gpu->uuid, limits);
    return leave(0);
}

FUNCTION(DeviceGetMemoryLimits_v1, nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits)
{
    const struct gpu *gpu;
    int code = enter_gpu("DeviceGetMemoryLimits_v1", device, &gpu);
    if (code == 0 && world.limits_unread)
        code = 999;
    if (code != 0)
        return leave(code);
    const struct limit *limit = limit_of(gpu->uuid, limits->nameSpace);
    if (limit == NULL)
        return leave(6);
    limits->softLimit = limit->soft;
    limits->hardLimit = world.limits_differ ? limit->hard / 2 : limit->hard;
    limits->currentUsed = 0;
    return leave(0);
}

#endif
