/*
 * Probes with a scratch cgroup in the reporter's thread; the main thread records the results of
 * containers.
 */
#include "limit_probe.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"

#include "cgroup_folder.h"

enum { AGAIN_MS = 60 * 1000, SCRATCH_MIB = 64, PROC_BYTES_MAX = 64 * 1024 };

const char *limit_state_word(enum limit_state state)
{
    static const char *const word[] = {
        [LIMITS_OK] = "ok",           [LIMITS_ABSENT] = "absent",
        [LIMITS_REFUSED] = "refused", [LIMITS_NO_CONTROLLER] = "no_controller",
        [LIMITS_DIFFER] = "differs",  [LIMITS_UNREAD] = "unread",
        [LIMITS_FAILED] = "failed",   [LIMITS_UNTRIED] = "untried",
        [LIMITS_OFF] = "off"};

    must((size_t)state < ARRAY_LEN(word));
    return word[state];
}

static enum limit_state state_of(enum nvml_limit_end end)
{
    static const enum limit_state state[] = {
        [NVML_LIMIT_HOLDS] = LIMITS_OK,        [NVML_LIMIT_ABSENT] = LIMITS_ABSENT,
        [NVML_LIMIT_REFUSED] = LIMITS_REFUSED, [NVML_LIMIT_NO_CONTROLLER] = LIMITS_NO_CONTROLLER,
        [NVML_LIMIT_DIFFERS] = LIMITS_DIFFER,  [NVML_LIMIT_UNREAD] = LIMITS_UNREAD,
        [NVML_LIMIT_FAILED] = LIMITS_FAILED};

    must((size_t)end < ARRAY_LEN(state));
    return state[end];
}

/* NVML_LIMIT_FAILED, usually a timeout, says nothing about the next container. */
void limit_probe_note(struct limit_probe *probe, enum nvml_limit_end end)
{
    if (end != NVML_LIMIT_FAILED)
        atomic_store(&probe->by_container, (int)state_of(end));
}

enum limit_state limit_probe_state(const struct limit_probe *probe)
{
    const enum limit_state shown = (enum limit_state)atomic_load(&probe->by_container);

    if (probe->is_off)
        return LIMITS_OFF;
    return shown != LIMITS_UNKNOWN ? shown : (enum limit_state)atomic_load(&probe->by_scratch);
}

/* --- one limit --- */

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0;
}

static const char *advice(enum nvml_limit_end end)
{
    switch (end) {
    case NVML_LIMIT_REFUSED:
        return "this driver has limits, and the agent may not set them: give it the capability "
               "SYS_ADMIN (docs/NODE.md)";
    case NVML_LIMIT_NO_CONTROLLER:
        return "the cgroup has no controller for it: enable dmem (kernel 6.14 and later) or misc "
               "in all cgroups above it";
    case NVML_LIMIT_DIFFERS:
        return "something else sets limits of GPU memory";
    case NVML_LIMIT_HOLDS:
    case NVML_LIMIT_ABSENT:
    case NVML_LIMIT_UNREAD:
    case NVML_LIMIT_FAILED:
        break;
    }
    return NULL;
}

int limit_try(struct nvml *nvml, const struct nvml_limit *limit, int64_t wait_ms,
              enum nvml_limit_end *out, struct err *err)
{
    if (nvml_limit_memory(nvml, limit, wait_ms, out, err) == 0)
        return 0;
    if (*out == NVML_LIMIT_FAILED && err->code == ERR_IO && has_file(limit->cgroup, ".") &&
        !has_file(limit->cgroup, "dmem.max") && !has_file(limit->cgroup, "misc.max"))
        *out = NVML_LIMIT_NO_CONTROLLER;
    const char *what = advice(*out);
    return what != NULL ? err_wrap(err, "%s", what) : err_same(err);
}

/* --- the scratch cgroup --- */

/* Sets *out to the parent folder of the agent's cgroup (version 2); false if unknown. */
static bool find_beside(const struct limit_probe *probe, struct strbuf *out)
{
    char file[PATH_MAX];
    char *bytes = NULL;
    size_t len = 0;
    struct text line;
    struct err err;
    bool found = false;

    const int n = snprintf(file, sizeof file, "%s/self/cgroup", probe->proc_dir);
    if (n < 0 || (size_t)n >= sizeof file ||
        file_read(file, PROC_BYTES_MAX, &bytes, &len, &err) < 0)
        return false;
    struct text rest = {bytes, len};
    while (!found && text_cut(&rest, '\n', &line)) {
        if (!text_starts(line, "0::/"))
            continue;
        const char *end = memrchr(line.at, '/', line.len);
        const struct text above = {line.at + 3, (size_t)(end - (line.at + 3))};
        strbuf_reset(out);
        found = above.len > 0 && cgroup_folder(probe->cgroup_dir, above, out, &err) == 0;
    }
    xfree(bytes);
    return found;
}

static bool make_scratch_in(const char *folder, char out[PATH_MAX], struct err *err)
{
    const int n = snprintf(out, PATH_MAX, "%s/milligpu-scratch-%d", folder, (int)getpid());

    if (n > 0 && n < PATH_MAX && (mkdir(out, 0755) == 0 || errno == EEXIST))
        return true;
    (void)err_set(err, ERR_UNAVAILABLE, "no scratch cgroup can be made in %.200s: %s", folder,
                  strerrordesc_np(errno));
    return false;
}

static bool make_scratch(const struct limit_probe *probe, char out[PATH_MAX], struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf beside;

    strbuf_init(&beside);
    return (find_beside(probe, &beside) && make_scratch_in(beside.data, out, err)) ||
           make_scratch_in(probe->cgroup_dir, out, err);
}

static enum limit_state try_scratch(const struct limit_probe *probe, const char *uuid,
                                    struct err *err)
{
    enum nvml_limit_end end;
    char folder[PATH_MAX];

    if (!make_scratch(probe, folder, err))
        return LIMITS_UNTRIED;
    const struct nvml_limit limit = {
        .uuid = uuid, .cgroup = folder, .hard_bytes = (uint64_t)SCRATCH_MIB << 20};
    const int rc = limit_try(probe->nvml, &limit, LIMIT_WAIT_MS, &end, err);
    must((rc == 0) == (end == NVML_LIMIT_HOLDS));
    (void)rmdir(folder);
    return state_of(end);
}

/* A GPU whose memory can be limited; NULL if none. */
static const char *find_gpu(const struct gpu_reading *reading)
{
    for (uint32_t i = 0; i < reading->n_gpus; i++)
        if (!reading->gpu[i].is_mig && reading->gpu[i].health < GPU_LOST)
            return reading->gpu[i].uuid;
    return NULL;
}

/* --- looks --- */

static void report_result(struct limit_probe *probe, const struct err *err)
{
    const enum limit_state state = limit_probe_state(probe);
    const bool good = state == LIMITS_OK || state == LIMITS_ABSENT || state == LIMITS_OFF;

    if (state == probe->reported || state == LIMITS_UNKNOWN)
        return;
    probe->reported = state;
    log_write(good ? LOG_INFO : LOG_WARN, "limits of GPU memory by the driver",
              log_str("are", limit_state_word(state)), log_str("why", err->text));
}

static void try_now(struct limit_probe *probe, const struct gpu_reading *reading, struct err *err)
{
    const char *uuid = find_gpu(reading);
    enum limit_state state = LIMITS_ABSENT;

    if (uuid == NULL)
        return;
    if (!reading->has_memory_limit)
        (void)err_set(err, ERR_NOT_FOUND, "this driver has none; R615 and later have");
    else
        state = try_scratch(probe, uuid, err);
    atomic_store(&probe->by_scratch, (int)state);
    probe->next_ms =
        state == LIMITS_OK || state == LIMITS_ABSENT ? INT64_MAX : clock_ms() + AGAIN_MS;
}

void limit_probe_look(struct limit_probe *probe)
{
    struct err err = {.code = ERR_NONE};

    if (probe->is_off || probe->nvml == NULL)
        return;
    const struct gpu_reading *reading = nvml_latest(probe->nvml);
    if (reading->status == NVML_READY && reading->loads != probe->loads) {
        probe->loads = reading->loads;
        probe->next_ms = 0;
        probe->reported = LIMITS_UNKNOWN;
        atomic_store(&probe->by_scratch, LIMITS_UNKNOWN);
        atomic_store(&probe->by_container, LIMITS_UNKNOWN);
    }
    if (reading->status == NVML_READY && clock_ms() >= probe->next_ms)
        try_now(probe, reading, &err);
    gpu_reading_unref(reading);
    report_result(probe, &err);
}
