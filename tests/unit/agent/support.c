#include "support.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DEPTH_MAX = 16 };

void folder_make(char *out, size_t bytes)
{
    assert_true(snprintf(out, bytes, "%s", "/tmp/milligpu-agent-XXXXXX") < (int)bytes);
    assert_non_null(mkdtemp(out));
}

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is;
    (void)kind;
    (void)where;
    return remove(path);
}

void folder_remove(const char *folder)
{
    assert_int_equal(nftw(folder, remove_one, DEPTH_MAX, FTW_DEPTH | FTW_PHYS), 0);
}

void driver_says(const char *folder, const char *lines)
{
    char file[64];
    char next[64];
    (void)snprintf(file, sizeof file, "%s/driver", folder);
    (void)snprintf(next, sizeof next, "%s/driver.next", folder);
    FILE *out = fopen(next, "we");
    assert_non_null(out);
    assert_true(fputs(lines, out) >= 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(rename(next, file), 0);
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
