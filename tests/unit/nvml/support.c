#include "support.h"

#include <libgen.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/folder.h"
#include "support/patience.h"

static char folder[32];
static char file[64];

void fake_start(void)
{
    folder_make(folder, sizeof folder);
    (void)snprintf(file, sizeof file, "%s/world", folder);
    assert_int_equal(setenv("FAKE_NVML", file, 1), 0);
}

void fake_stop(void)
{
    folder_remove(folder);
}

const char *fake_file(void)
{
    return file;
}

void fake_say(const char *lines)
{
    if (lines == NULL)
        assert_int_equal(unlink(file), 0);
    else
        file_put(folder, "world", lines);
}

/* Beside the test itself. */
const char *fake_library(const char *name)
{
    static char path[4096];
    char self[2048];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(len > 0);
    self[len] = '\0';
    (void)snprintf(path, sizeof path, "%s/%s", dirname(self), name);
    return path;
}

struct nvml *watch_by(const char *library, int64_t silent_ms, int64_t quiet_ms)
{
    struct nvml_settings settings;
    struct err err;
    nvml_defaults(&settings);
    settings.library = fake_library(library);
    settings.every_ms = 30;
    settings.retry_ms = 30;
    settings.silent_ms = silent_ms;
    settings.quiet_ms = quiet_ms;
    settings.stop_ms = 300;
    struct nvml *nvml = nvml_open(&settings, &err);
    assert_non_null(nvml);
    return nvml;
}

struct nvml *watch(void)
{
    return watch_by("libnvidia-ml.so.1", 20000, 600000);
}

const struct gpu_reading *await_reading(struct nvml *nvml, condition *is_so)
{
    for (int64_t until_ms = 0;;) {
        const struct gpu_reading *reading = nvml_latest(nvml);
        if (is_so(reading))
            return reading;
        if (!patience_left(&until_ms))
            fail_msg("no such reading came, but status %s, %u GPUs, %s",
                     nvml_status_name(reading->status), reading->n_gpus, reading->problem);
        gpu_reading_unref(reading);
    }
}

const struct gpu_state *gpu_of(const struct gpu_reading *reading, const char *uuid)
{
    for (uint32_t i = 0; i < reading->n_gpus; i++)
        if (strcmp(reading->gpu[i].uuid, uuid) == 0)
            return &reading->gpu[i];
    return NULL;
}

bool is_ready(const struct gpu_reading *reading)
{
    return reading->status == NVML_READY;
}
