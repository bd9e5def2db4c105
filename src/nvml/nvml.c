/*
 * Runs the watcher thread, which publishes readings and executes commands of other threads. One
 * lock guards the latest reading and the command queue; it is never held while NVML is called. The
 * library, the event set, and the device records belong to the watcher.
 */
#include "milligpu/nvml/nvml.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/mutex.h"

#include "nvml_devices.h"

enum {
    SLICE_MS = 100,      /* maximum wait for events, and so the latency of stop and commands */
    EVENTS_MAX = 256,    /* events taken before stop and commands are checked again */
    RETRIES_LOST = 6,    /* NVML is reloaded every RETRIES_LOST * retry_ms while a GPU is lost */
    SILENT_READINGS = 3, /* minimum of silent_ms, in intervals between readings */
    WAITS_MS_MAX = 86400000,
};

static const char RELEASED[] = "milligpu-node has let go of it";

/* A reading with its reference count. */
struct counted_reading {
    struct gpu_reading reading; /* first member: gpu_reading_unref() casts its address */
    atomic_uint refs;
    struct gpu_process process[];
};

enum nvml_command_kind { CLEAR_FAULT, LIMIT_MEMORY };
enum command_state { WAITING, RUNNING, ENDED };

struct nvml_command {
    struct nvml_command *next;
    enum nvml_command_kind kind;
    enum command_state state;
    bool is_awaited; /* the caller waits and frees it; else the watcher frees it */
    char uuid[NVML_TEXT_MAX];
    char *cgroup;
    uint64_t soft_bytes;
    uint64_t hard_bytes;
    int rc;
    enum nvml_limit_end end;
    struct err err;
};

struct nvml {
    struct nvml_settings settings;
    char *library_name;
    pthread_t thread;

    struct mutex lock; /* guards the following */
    struct condvar changed;
    struct counted_reading *latest;
    struct counted_reading
        *silent;     /* NVML_SILENT version of latest, made when it is too old; else NULL */
    uint64_t number; /* of the newest reading */
    bool is_stopping;
    bool is_released; /* as requested by nvml_release(); has_let_go is the actual state */
    bool has_ended;
    bool is_orphan;             /* abandoned by nvml_close(): the watcher frees this struct */
    struct nvml_command *first; /* command queue */
    uint32_t commands;          /* its length */

    /* Written by the watcher only. */
    struct nvml_library nvml;
    bool has_let_go; /* the driver is released */
    struct abi_event_set *set;
    bool has_events;
    uint64_t loads;
    struct nvml_devices devices;
    int64_t reload_at_ms; /* monotonic time of the next reload while a GPU is lost; else 0 */
};

void nvml_defaults(struct nvml_settings *out)
{
    *out = (struct nvml_settings){.library = NVML_LIBRARY,
                                  .every_ms = 10000,
                                  .retry_ms = 10000,
                                  .quiet_ms = 600000,
                                  .silent_ms = 40000,
                                  .stop_ms = 2000};
    clock_real(&out->clock);
}

const char *nvml_status_name(enum nvml_status status)
{
    static const char *const names[] = {"starting", "no_driver", "ready", "silent", "released"};
    must((size_t)status < ARRAY_LEN(names));
    return names[status];
}

static struct nvml_now clocks(const struct nvml *nvml)
{
    const struct clock_ops *clock = &nvml->settings.clock;
    return (struct nvml_now){.ms = clock->now_ms(clock->ctx),
                             .wall_ms = clock->wall_ms(clock->ctx)};
}

/* Readings */

static struct counted_reading *counted_reading_new(uint32_t processes)
{
    struct counted_reading *held = xcalloc(1, sizeof *held + processes * sizeof held->process[0]);
    atomic_init(&held->refs, 1);
    held->reading.n_processes = processes;
    held->reading.process = held->process;
    return held;
}

void gpu_reading_unref(const struct gpu_reading *reading)
{
    static_assert(offsetof(struct counted_reading, reading) == 0, "a reading leads to its holders");
    if (reading == NULL)
        return;
    /* Casts const away: only the count changes, which is not part of the constant reading. */
    struct counted_reading *held = (struct counted_reading *)(uintptr_t)reading;
    const unsigned before = atomic_fetch_sub(&held->refs, 1);
    must(before > 0);
    if (before == 1)
        xfree(held);
}

static void counted_reading_drop(struct counted_reading *held)
{
    if (held != NULL)
        gpu_reading_unref(&held->reading);
}

static void put_latest(struct nvml *nvml, struct counted_reading *held) REQUIRES(nvml->lock)
{
    counted_reading_drop(nvml->latest);
    counted_reading_drop(nvml->silent);
    nvml->silent = NULL;
    nvml->latest = held;
    held->reading.number = ++nvml->number;
}

/* The latest reading, with all current values unknown. */
static struct counted_reading *silent_reading(struct nvml *nvml, struct nvml_now now)
    REQUIRES(nvml->lock)
{
    struct counted_reading *held = counted_reading_new(0);
    struct gpu_reading *reading = &held->reading;
    const struct gpu_process *none = reading->process;

    *reading = nvml->latest->reading;
    reading->process = none;
    reading->n_processes = 0;
    reading->status = NVML_SILENT;
    reading->number = ++nvml->number;
    (void)snprintf(reading->problem, sizeof reading->problem,
                   "the NVIDIA driver has not answered for %lld s",
                   (long long)nvml->settings.silent_ms / 1000);
    for (uint32_t i = 0; i < reading->n_gpus; i++) {
        struct gpu_state *gpu = &reading->gpu[i];
        gpu->known = 0;
        gpu->process = 0;
        gpu->processes = 0;
        gpu->processes_left_out = 0;
        gpu->since_ms = gpu->health == GPU_UNKNOWN ? gpu->since_ms : now.wall_ms;
        gpu->health = GPU_UNKNOWN;
        (void)snprintf(gpu->reason, sizeof gpu->reason, "%.*s", (int)sizeof gpu->reason - 1,
                       reading->problem);
    }
    return held;
}

const struct gpu_reading *nvml_latest(struct nvml *nvml)
{
    const struct nvml_now now = clocks(nvml);

    mutex_lock(&nvml->lock);
    struct counted_reading *held = nvml->latest;
    if (now.ms - held->reading.taken_ms > nvml->settings.silent_ms) {
        if (nvml->silent == NULL)
            nvml->silent = silent_reading(nvml, now);
        held = nvml->silent;
    }
    (void)atomic_fetch_add(&held->refs, 1);
    mutex_unlock(&nvml->lock);
    return &held->reading;
}

static void publish(struct nvml *nvml, enum nvml_status status, const char *problem)
{
    const struct nvml_devices *devices = &nvml->devices;
    struct counted_reading *held = counted_reading_new(devices->n_processes);
    struct gpu_reading *reading = &held->reading;

    nvml_devices_write(devices, reading);
    if (devices->n_processes > 0)
        memcpy(held->process, devices->process, devices->n_processes * sizeof held->process[0]);
    reading->status = status;
    (void)snprintf(reading->problem, sizeof reading->problem, "%s", problem);
    reading->has_events = nvml->has_events;
    reading->has_memory_limit = nvml->nvml.DeviceSetMemoryLimits_v1 != NULL;
    reading->loads = nvml->loads;
    reading->taken_ms = clocks(nvml).ms;
    mutex_lock(&nvml->lock);
    put_latest(nvml, held);
    mutex_unlock(&nvml->lock);
}

/* Commands */

static void command_free(struct nvml_command *command)
{
    xfree(command->cgroup);
    xfree(command);
}

static int command_put(struct nvml *nvml, struct nvml_command *command, struct err *err)
    REQUIRES(nvml->lock)
{
    if (nvml->commands == NVML_COMMANDS_MAX)
        return err_set(err, ERR_BUSY, "%d requests wait for the NVIDIA driver already",
                       NVML_COMMANDS_MAX);
    struct nvml_command **at = &nvml->first;
    while (*at != NULL)
        at = &(*at)->next;
    *at = command;
    nvml->commands++;
    condvar_broadcast(&nvml->changed);
    return 0;
}

static void command_remove(struct nvml *nvml, const struct nvml_command *command)
    REQUIRES(nvml->lock)
{
    struct nvml_command **at = &nvml->first;
    while (*at != command)
        at = &(*at)->next;
    *at = command->next;
    must(nvml->commands > 0);
    nvml->commands--;
}

static struct nvml_command *command_take(struct nvml *nvml)
{
    mutex_lock(&nvml->lock);
    struct nvml_command *command = nvml->first;
    if (command != NULL) {
        command_remove(nvml, command);
        command->state = RUNNING;
    }
    mutex_unlock(&nvml->lock);
    return command;
}

static void command_end(struct nvml *nvml, struct nvml_command *command)
{
    mutex_lock(&nvml->lock);
    command->state = ENDED;
    const bool is_awaited = command->is_awaited;
    condvar_broadcast(&nvml->changed);
    mutex_unlock(&nvml->lock);
    if (!is_awaited)
        command_free(command);
}

static enum nvml_limit_end end_of(int code)
{
    switch (code) {
    case NVML_NOT_SUPPORTED:
    case NVML_FUNCTION_NOT_FOUND:
        return NVML_LIMIT_ABSENT;
    case NVML_NO_PERMISSION:
        return NVML_LIMIT_REFUSED;
    case NVML_NOT_FOUND:
        return NVML_LIMIT_NO_CONTROLLER;
    default:
        return NVML_LIMIT_FAILED;
    }
}

/* Compares the limit with the one set: another program can change it, or the driver round it. */
static int read_back(const struct nvml *nvml, struct abi_device *device,
                     struct nvml_command *command, struct err *err)
{
    struct abi_memory_limits_now now = {.cgroup = command->cgroup};

    command->end = NVML_LIMIT_UNREAD;
    if (nvml->nvml.DeviceGetMemoryLimits_v1 == NULL)
        return err_set(err, ERR_NOT_FOUND, "this driver does not let a limit be read");
    const int code = nvml->nvml.DeviceGetMemoryLimits_v1(device, &now);
    if (code != NVML_SUCCESS)
        return nvml_library_fail(err, "DeviceGetMemoryLimits_v1", code);
    command->end = now.hard_bytes == command->hard_bytes ? NVML_LIMIT_HOLDS : NVML_LIMIT_DIFFERS;
    if (command->end == NVML_LIMIT_HOLDS)
        return 0;
    return err_set(err, ERR_CONFLICT, "its limit is %llu bytes after it was set to %llu",
                   (unsigned long long)now.hard_bytes, (unsigned long long)command->hard_bytes);
}

static int limit_memory(struct nvml *nvml, struct nvml_command *command, struct err *err)
{
    const struct nvml_record *record = nvml_devices_find(&nvml->devices, command->uuid);

    if (nvml->has_let_go)
        return err_set(err, ERR_UNAVAILABLE, RELEASED);
    if (record == NULL)
        return err_set(err, ERR_NOT_FOUND, "GPU %s is not there", command->uuid);
    if (nvml->nvml.DeviceSetMemoryLimits_v1 == NULL) {
        command->end = NVML_LIMIT_ABSENT;
        return err_set(err, ERR_NOT_FOUND,
                       "the NVIDIA driver %s has no memory limits; R615 and later have",
                       nvml->devices.driver);
    }
    struct abi_memory_limits limits = {.cgroup = command->cgroup,
                                       .soft_bytes = command->soft_bytes,
                                       .hard_bytes = command->hard_bytes};
    const int code = nvml->nvml.DeviceSetMemoryLimits_v1(record->device, &limits);
    if (code != NVML_SUCCESS) {
        command->end = end_of(code);
        (void)nvml_library_fail(err, "DeviceSetMemoryLimits_v1", code);
    } else if (read_back(nvml, record->device, command, err) == 0)
        return 0;
    return err_wrap(err, "GPU %s, cgroup %s", command->uuid, command->cgroup);
}

/* True if the next reading is due at once. */
static bool run_commands(struct nvml *nvml)
{
    bool again = false;
    struct nvml_command *command;

    while ((command = command_take(nvml)) != NULL) {
        if (command->kind == LIMIT_MEMORY)
            command->rc = limit_memory(nvml, command, &command->err);
        else
            again = nvml_devices_clear_fault(&nvml->devices, command->uuid) || again;
        command_end(nvml, command);
    }
    return again;
}

static void refuse_commands(struct nvml *nvml)
{
    struct nvml_command *command;

    while ((command = command_take(nvml)) != NULL) {
        command->rc = err_set(&command->err, ERR_UNAVAILABLE, "milligpu-node is stopping");
        command_end(nvml, command);
    }
}

static struct nvml_command *command_new(enum nvml_command_kind kind, const char *uuid)
{
    struct nvml_command *command = xcalloc(1, sizeof *command);
    command->kind = kind;
    command->end = NVML_LIMIT_FAILED;
    (void)snprintf(command->uuid, sizeof command->uuid, "%s", uuid);
    return command;
}

static bool has_uuid(const struct gpu_reading *reading, const char *uuid)
{
    for (uint32_t i = 0; i < reading->n_gpus; i++)
        if (strcmp(reading->gpu[i].uuid, uuid) == 0)
            return true;
    return false;
}

int nvml_clear_fault(struct nvml *nvml, const char *uuid, struct err *err)
{
    mutex_lock(&nvml->lock);
    int rc = 0;
    if (has_uuid(&nvml->latest->reading, uuid)) {
        struct nvml_command *command = command_new(CLEAR_FAULT, uuid);
        rc = command_put(nvml, command, err);
        if (rc < 0)
            command_free(command);
    } else {
        rc = err_set(err, ERR_NOT_FOUND, "this node has no GPU %s", uuid);
    }
    mutex_unlock(&nvml->lock);
    return rc;
}

/* True if the watcher has executed or refused the command; false at the timeout. */
static bool command_await(struct nvml *nvml, struct nvml_command *command, int64_t wait_ms)
    REQUIRES(nvml->lock)
{
    const struct timespec until = clock_deadline(wait_ms);

    while (command->state != ENDED && condvar_wait_until(&nvml->changed, &nvml->lock, &until))
        ;
    return command->state == ENDED;
}

int nvml_limit_memory(struct nvml *nvml, const struct nvml_limit *limit, int64_t wait_ms,
                      enum nvml_limit_end *out, struct err *err)
{
    must(limit->soft_bytes <= limit->hard_bytes);

    *out = NVML_LIMIT_FAILED;
    mutex_lock(&nvml->lock);
    if (!has_uuid(&nvml->latest->reading, limit->uuid)) {
        mutex_unlock(&nvml->lock);
        return err_set(err, ERR_NOT_FOUND, "this node has no GPU %s", limit->uuid);
    }
    struct nvml_command *command = command_new(LIMIT_MEMORY, limit->uuid);
    command->cgroup = xstrdup(limit->cgroup);
    command->soft_bytes = limit->soft_bytes;
    command->hard_bytes = limit->hard_bytes;
    command->is_awaited = true;
    int rc = command_put(nvml, command, err);
    bool is_ours = true;
    if (rc == 0 && command_await(nvml, command, wait_ms)) {
        rc = command->rc;
        *out = command->end;
        if (rc < 0)
            *err = command->err;
    } else if (rc == 0) {
        rc = err_set(err, ERR_TIMEOUT, "the NVIDIA driver did not answer within %lld ms",
                     (long long)wait_ms);
        /* A queued command must not be executed later; the watcher frees a running one. */
        is_ours = command->state == WAITING;
        if (is_ours)
            command_remove(nvml, command);
        else
            command->is_awaited = false;
    }
    mutex_unlock(&nvml->lock);
    if (is_ours)
        command_free(command);
    return rc;
}

/* The watcher */

static bool is_stopping(struct nvml *nvml)
{
    mutex_lock(&nvml->lock);
    const bool is_set = nvml->is_stopping;
    mutex_unlock(&nvml->lock);
    return is_set;
}

void nvml_release(struct nvml *nvml, bool released)
{
    mutex_lock(&nvml->lock);
    nvml->is_released = released;
    condvar_broadcast(&nvml->changed);
    mutex_unlock(&nvml->lock);
}

static bool is_released(struct nvml *nvml)
{
    mutex_lock(&nvml->lock);
    const bool is_set = nvml->is_released;
    mutex_unlock(&nvml->lock);
    return is_set;
}

/* Waits at most wait_ms, for stop, a release or a command. */
static void pause_for(struct nvml *nvml, int64_t wait_ms)
{
    const struct timespec until = clock_deadline(wait_ms);

    mutex_lock(&nvml->lock);
    while (!nvml->is_stopping && nvml->is_released == nvml->has_let_go && nvml->first == NULL &&
           condvar_wait_until(&nvml->changed, &nvml->lock, &until))
        ;
    mutex_unlock(&nvml->lock);
}

static void unload(struct nvml *nvml)
{
    if (nvml->set != NULL)
        (void)nvml->nvml.EventSetFree(nvml->set); /* a failure has no remedy */
    nvml->set = NULL;
    nvml->has_events = false;
    for (uint32_t i = 0; i < nvml->devices.gpus; i++)
        nvml->devices.record[i].is_registered = false;
    nvml_library_close(&nvml->nvml);
}

static void open_events(struct nvml *nvml)
{
    const struct nvml_library *library = &nvml->nvml;

    if (library->EventSetCreate == NULL || library->EventSetFree == NULL ||
        library->EventSetWait_v2 == NULL || library->DeviceRegisterEvents == NULL)
        return;
    if (library->EventSetCreate(&nvml->set) != NVML_SUCCESS)
        nvml->set = NULL;
}

/* GPUs without ECC refuse both events together, so XID alone is tried next. */
static void register_events(struct nvml *nvml)
{
    nvml->has_events = nvml->set != NULL;
    for (uint32_t i = 0; nvml->set != NULL && i < nvml->devices.gpus; i++) {
        struct nvml_record *record = &nvml->devices.record[i];
        if (record->presence != PRESENT || record->is_registered)
            continue;
        int code = nvml->nvml.DeviceRegisterEvents(
            record->device, ABI_EVENT_XID | ABI_EVENT_DOUBLE_BIT_ECC, nvml->set);
        if (code != NVML_SUCCESS)
            code = nvml->nvml.DeviceRegisterEvents(record->device, ABI_EVENT_XID, nvml->set);
        record->is_registered = code == NVML_SUCCESS;
        nvml->has_events = nvml->has_events && record->is_registered;
    }
}

static int load_and_read(struct nvml *nvml, struct err *err)
{
    const struct nvml_now now = clocks(nvml);

    /* NVML detects a GPU that was reset or replaced only when it is initialized again. */
    if (nvml->reload_at_ms != 0 && now.ms >= nvml->reload_at_ms)
        unload(nvml);
    if (nvml->nvml.handle == NULL) {
        nvml->reload_at_ms = 0;
        if (nvml_library_open(&nvml->nvml, nvml->library_name, err) < 0)
            return err_same(err);
        nvml->loads++;
        open_events(nvml);
    }
    if (nvml_devices_round(&nvml->devices, &nvml->nvml, now, err) < 0)
        return err_same(err);
    register_events(nvml);
    if (!nvml_devices_misses_any(&nvml->devices))
        nvml->reload_at_ms = 0;
    else if (nvml->reload_at_ms == 0)
        nvml->reload_at_ms = now.ms + RETRIES_LOST * nvml->settings.retry_ms;
    return 0;
}

/* Publishes one reading. Returns the time until the next one. */
static int64_t read_once(struct nvml *nvml)
{
    struct err err;
    const int rc = load_and_read(nvml, &err);

    if (rc < 0)
        unload(nvml);
    if (is_stopping(nvml)) /* nvml_close() can have returned, and the clock be gone */
        return 0;
    if (rc == 0) {
        publish(nvml, NVML_READY, "");
        return nvml->settings.every_ms;
    }
    nvml_devices_no_driver(&nvml->devices, err.text, clocks(nvml));
    publish(nvml, NVML_NO_DRIVER, err.text);
    return nvml->settings.retry_ms;
}

/* Unloads the library. Repeated every every_ms, so that the latest reading is never too old. */
static int64_t let_go(struct nvml *nvml)
{
    unload(nvml);
    nvml->reload_at_ms = 0;
    nvml->has_let_go = true;
    if (is_stopping(nvml)) /* as in read_once(): unload() can hang */
        return 0;
    nvml_devices_let_go(&nvml->devices);
    publish(nvml, NVML_RELEASED, RELEASED);
    return nvml->settings.every_ms;
}

/* Returns the time until the next reading. */
static int64_t read_or_let_go(struct nvml *nvml)
{
    if (is_released(nvml))
        return let_go(nvml);
    nvml->has_let_go = false;
    return read_once(nvml);
}

/*
 * Takes an event; true if readers should know soon. If no record has the event's handle, the GPU is
 * either left out of readings, or unknown to NVML now; then the event counts for all GPUs.
 */
static bool take_event(struct nvml *nvml, struct abi_event *event)
{
    char uuid[ABI_TEXT_BYTES];
    bool is_known = false;

    for (uint32_t i = 0; i < nvml->devices.gpus; i++)
        is_known = is_known || nvml->devices.record[i].device == event->device;
    if (!is_known) {
        if (event->device != NULL &&
            nvml->nvml.DeviceGetUUID(event->device, uuid, sizeof uuid) == NVML_SUCCESS)
            return false;
        event->device = NULL;
    }
    nvml_devices_event(&nvml->devices, event, clocks(nvml));
    return (event->type & ABI_EVENT_DOUBLE_BIT_ECC) != 0 || nvml_xid_is_critical(event->data);
}

/* True if readers should know soon about one of the events. */
static bool wait_for_events(struct nvml *nvml, int64_t wait_ms)
{
    bool is_news = false;

    for (int i = 0; i < EVENTS_MAX; i++) {
        struct abi_event event = {0};
        const int code =
            nvml->nvml.EventSetWait_v2(nvml->set, &event, i == 0 ? (unsigned)wait_ms : 0);
        if (code == NVML_SUCCESS) {
            is_news = take_event(nvml, &event) || is_news;
            continue;
        }
        /* With a lost GPU it fails at once; waits here instead, to avoid a busy loop. */
        if (code != NVML_TIMEOUT)
            pause_for(nvml, wait_ms);
        break;
    }
    return is_news;
}

/* Waits until the next reading is due. Events make it due in SLICE_MS: one reading per burst. */
static void wait_until_due(struct nvml *nvml, int64_t wait_ms)
{
    int64_t due_ms = wait_ms > 0 ? clocks(nvml).ms + wait_ms : 0;

    while (!is_stopping(nvml)) {
        const int64_t now_ms = clocks(nvml).ms;
        const int64_t left_ms = due_ms - now_ms;
        if (run_commands(nvml) || left_ms <= 0 || is_released(nvml) != nvml->has_let_go)
            return;
        const int64_t slice_ms = left_ms < SLICE_MS ? left_ms : SLICE_MS;
        if (nvml->set == NULL)
            pause_for(nvml, left_ms);
        else if (wait_for_events(nvml, slice_ms) && due_ms > now_ms + SLICE_MS)
            due_ms = now_ms + SLICE_MS;
    }
}

static void nvml_destroy(struct nvml *nvml)
{
    must(nvml->first == NULL);
    counted_reading_drop(nvml->latest);
    counted_reading_drop(nvml->silent);
    nvml_devices_done(&nvml->devices);
    condvar_done(&nvml->changed);
    mutex_done(&nvml->lock);
    xfree(nvml->library_name);
    xfree(nvml);
}

static void *nvml_watch(void *user)
{
    struct nvml *nvml = user;

    while (!is_stopping(nvml))
        wait_until_due(nvml, read_or_let_go(nvml));
    refuse_commands(nvml);
    unload(nvml);
    mutex_lock(&nvml->lock);
    nvml->has_ended = true;
    const bool is_orphan = nvml->is_orphan;
    condvar_broadcast(&nvml->changed);
    mutex_unlock(&nvml->lock);
    if (is_orphan)
        nvml_destroy(nvml);
    return NULL;
}

static void init_shared(struct nvml *nvml)
{
    mutex_init(&nvml->lock);
    condvar_init(&nvml->changed);
}

struct nvml *nvml_open(const struct nvml_settings *settings, struct err *err)
{
    must(settings->every_ms > 0 && settings->every_ms <= WAITS_MS_MAX);
    must(settings->retry_ms > 0 && settings->retry_ms <= WAITS_MS_MAX);
    must(settings->stop_ms >= 0 && settings->silent_ms > 0);

    struct nvml *nvml = xcalloc(1, sizeof *nvml);
    nvml->settings = *settings;
    const int64_t slowest_ms =
        settings->every_ms > settings->retry_ms ? settings->every_ms : settings->retry_ms;
    if (nvml->settings.silent_ms < SILENT_READINGS * slowest_ms)
        nvml->settings.silent_ms = SILENT_READINGS * slowest_ms;
    nvml->settings.library = NULL; /* borrowed */
    nvml->library_name = xstrdup(settings->library);
    nvml->is_released = settings->is_released;
    nvml_devices_init(&nvml->devices, settings->quiet_ms);
    init_shared(nvml);
    nvml->latest = counted_reading_new(0);
    nvml->latest->reading.taken_ms = clocks(nvml).ms;
    (void)snprintf(nvml->latest->reading.problem, sizeof nvml->latest->reading.problem,
                   "the NVIDIA driver has not answered yet");
    const int failed = pthread_create(&nvml->thread, NULL, nvml_watch, nvml);
    if (failed != 0) {
        nvml_destroy(nvml);
        (void)err_set(err, ERR_UNAVAILABLE, "no thread for NVML: error %d", failed);
        return NULL;
    }
    return nvml;
}

void nvml_close(struct nvml *nvml)
{
    if (nvml == NULL)
        return;
    const struct timespec until = clock_deadline(nvml->settings.stop_ms);
    const pthread_t thread = nvml->thread;

    mutex_lock(&nvml->lock);
    nvml->is_stopping = true;
    condvar_broadcast(&nvml->changed);
    while (!nvml->has_ended && condvar_wait_until(&nvml->changed, &nvml->lock, &until))
        ;
    const bool has_ended = nvml->has_ended;
    nvml->is_orphan = !has_ended;
    mutex_unlock(&nvml->lock);
    if (has_ended) {
        must(pthread_join(thread, NULL) == 0);
        nvml_destroy(nvml);
    } else {
        must(pthread_detach(thread) == 0);
    }
}
