#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/patience.h"

void assert_says(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

void assert_outcome(int rc, const struct err *err, const char *words)
{
    if (words == NULL && rc != 0)
        fail_msg("%s", err->text);
    if (words == NULL)
        return;
    assert_int_not_equal(rc, 0);
    assert_says(err->text, words);
}

void driver_says(const char *folder, const char *lines)
{
    file_put(folder, "driver", lines);
}

void driver_await(struct nvml *nvml, enum nvml_status status)
{
    bool is_so = false;
    for (int64_t until_ms = 0; !is_so && patience_left(&until_ms);) {
        const struct gpu_reading *reading = nvml_latest(nvml);
        is_so = reading->status == status;
        gpu_reading_unref(reading);
    }
    assert_true(is_so);
}

struct nvml *driver_open(const char *folder, const char *lines)
{
    struct nvml_settings settings;
    char library[4096];
    char file[64];
    struct err err;
    (void)snprintf(library, sizeof library, "%s/tests/libnvidia-ml.so.1",
                   getenv("MILLIGPU_BUILD_DIR"));
    (void)snprintf(file, sizeof file, "%s/driver", folder);
    assert_int_equal(setenv("FAKE_NVML", file, 1), 0); /* before the watcher's thread */
    driver_says(folder, lines);
    nvml_defaults(&settings);
    settings.library = library;
    settings.every_ms = settings.retry_ms = 20;
    struct nvml *nvml = nvml_open(&settings, &err);
    assert_non_null(nvml);
    return nvml;
}
