/* limit_probe - the state of the driver's memory limits, from a scratch cgroup and containers. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/log.h"

#include "agent/meter/limit_probe.h"
#include "support/patience.h"
#include "support/test.h"
#include "unit/agent/support.h"

#define GPUS "gpu GPU-a NVIDIA_H100 81559\ngpu GPU-b NVIDIA_H100 81559\n"

struct site {
    char dir[32];
    char cgroups[64]; /* DIR/cgroups, like the next one */
    char proc[64];
    struct limit_probe probe;
};

static void make_folder(const struct site *site, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", site->dir, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static int set_up(void **state)
{
    struct site *site = test_calloc(1, sizeof *site);
    log_set(LOG_ERROR, false);
    folder_make(site->dir, sizeof site->dir);
    (void)snprintf(site->cgroups, sizeof site->cgroups, "%s/cgroups", site->dir);
    (void)snprintf(site->proc, sizeof site->proc, "%s/proc", site->dir);
    make_folder(site, "cgroups");
    make_folder(site, "proc");
    make_folder(site, "proc/self");
    site->probe.cgroup_dir = site->cgroups;
    site->probe.proc_dir = site->proc;
    *state = site;
    return 0;
}

static int tear_down(void **state)
{
    struct site *site = *state;
    nvml_close(site->probe.nvml);
    folder_remove(site->dir);
    test_free(site);
    return 0;
}

#define SITE_TEST(name) TEST_WITH(name, struct site *site, set_up, tear_down)

/* The probe has looked at a driver with these lines, anew. */
static enum limit_state looks(struct site *site, const char *lines)
{
    nvml_close(site->probe.nvml);
    site->probe.loads = 0; /* each watcher of a test counts from 0, too */
    site->probe.nvml = driver_open(site->dir, lines);
    driver_await(site->probe.nvml, NVML_READY);
    limit_probe_look(&site->probe);
    return limit_probe_state(&site->probe);
}

/* The limits that the driver has received since the last call. */
static void limits_are(const struct site *site, const char *lines)
{
    char path[64];
    char *limits = file_text(site->dir, "driver.limits");
    assert_string_equal(limits, lines);
    xfree(limits);
    (void)snprintf(path, sizeof path, "%s/driver.limits", site->dir);
    (void)remove(path);
}

static void is_limited_in(const struct site *site, const char *folder)
{
    char line[256];
    (void)snprintf(line, sizeof line, "GPU-a %s/milligpu-scratch-%d 0 67108864\n", folder,
                   (int)getpid());
    limits_are(site, line);
}

static void is_empty(const char *folder)
{
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (const struct dirent *one = readdir(open); one != NULL; one = readdir(open))
        if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
            fail_msg("%s is left in %s", one->d_name, folder);
    (void)closedir(open);
}

SITE_TEST(limit_probe__has_a_word_for_each_failure)
{
    static const struct {
        const char *lines;
        const char *word;
    } row[] = {
        {GPUS "limits real\n", "ok"},
        {GPUS "limits no\n", "absent"},
        {GPUS "limits refused\n", "refused"},
        {GPUS "limits bare\n", "no_controller"},
        {GPUS "limits differ\n", "differs"},
        {GPUS "limits unread\n", "unread"},
        {GPUS "hang DeviceSetMemoryLimits_v1 1000\n", "failed"},
    };
    char path[64];
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const enum limit_state is = looks(site, row[i].lines);
        if (limit_state_word(is) == NULL || strcmp(limit_state_word(is), row[i].word) != 0)
            fail_msg("%s is %d", row[i].word, (int)is);
        is_empty(site->cgroups); /* the scratch is removed in any case */
    }
    (void)snprintf(path, sizeof path, "%s/driver.reserved", site->dir);
    assert_int_equal(access(path, F_OK), -1); /* nothing is left reserved in the cgroups above */
}

SITE_TEST(limit_probe__makes_its_scratch_beside_the_agent_or_in_the_folder)
{
    char beside[128];
    make_folder(site, "cgroups/kubepods");
    make_folder(site, "cgroups/kubepods/pod1");
    (void)snprintf(beside, sizeof beside, "%s/kubepods/pod1", site->cgroups);
    file_put(site->dir, "proc/self/cgroup", "1:pids:/x/y\n0::/kubepods/pod1/own\n");
    assert_int_equal(looks(site, GPUS "limits real\n"), LIMITS_OK);
    is_limited_in(site, beside);
    is_empty(beside);
    static const char *const elsewhere[] = {"0::/\n",
                                            "0::/own\n",
                                            "0::/not/there/own\n",
                                            "0::/../../own\n",
                                            "1:pids:/kubepods/pod1/own\n",
                                            "",
                                            "0:\n"};
    for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++) {
        file_put(site->dir, "proc/self/cgroup", elsewhere[i]);
        assert_int_equal(looks(site, GPUS "limits real\n"), LIMITS_OK);
        is_limited_in(site, site->cgroups);
    }
    /* One of an agent that was killed is used again, and removed. */
    (void)snprintf(beside, sizeof beside, "cgroups/milligpu-scratch-%d", (int)getpid());
    make_folder(site, beside);
    assert_int_equal(looks(site, GPUS "limits real\n"), LIMITS_OK);
    (void)snprintf(beside, sizeof beside, "%s/kubepods/pod1", site->cgroups);
    assert_int_equal(rmdir(beside), 0);
    (void)snprintf(beside, sizeof beside, "%s/kubepods", site->cgroups);
    assert_int_equal(rmdir(beside), 0);
    is_empty(site->cgroups);
}

SITE_TEST(limit_probe__is_untried_without_a_scratch)
{
    site->probe.cgroup_dir = "/nowhere";
    assert_int_equal(looks(site, GPUS), LIMITS_UNTRIED);
    limits_are(site, "");
    limit_probe_note(&site->probe, NVML_LIMIT_FAILED); /* says nothing of the next */
    assert_int_equal(limit_probe_state(&site->probe), LIMITS_UNTRIED);
    limit_probe_note(&site->probe, NVML_LIMIT_REFUSED);
    assert_int_equal(limit_probe_state(&site->probe), LIMITS_REFUSED);
    limit_probe_note(&site->probe, NVML_LIMIT_HOLDS);
    limit_probe_note(&site->probe, NVML_LIMIT_FAILED);
    assert_int_equal(limit_probe_state(&site->probe), LIMITS_OK);
}

SITE_TEST(limit_probe__runs_again_after_the_driver_came_back)
{
    bool reloaded = false;
    assert_int_equal(looks(site, GPUS "limits real\n"), LIMITS_OK);
    is_limited_in(site, site->cgroups);
    limit_probe_look(&site->probe);
    limits_are(site, "");
    limit_probe_note(&site->probe, NVML_LIMIT_HOLDS);
    driver_says(site->dir, GPUS "count 1\n");
    for (int64_t until_ms = 0; !reloaded && patience_left(&until_ms);) {
        const struct gpu_reading *reading = nvml_latest(site->probe.nvml);
        if (reading->status == NVML_NO_DRIVER) {
            limit_probe_look(&site->probe); /* no driver to ask */
            assert_int_equal(limit_probe_state(&site->probe), LIMITS_OK);
            driver_says(site->dir, GPUS "limits refused\n");
        }
        reloaded = reading->status == NVML_READY && reading->loads > 1;
        gpu_reading_unref(reading);
    }
    limit_probe_look(&site->probe);
    assert_int_equal(limit_probe_state(&site->probe), LIMITS_REFUSED);
}

SITE_TEST(limit_probe__delays_the_next_try_after_a_failure)
{
    assert_int_equal(looks(site, GPUS "limits refused\n"), LIMITS_REFUSED);
    driver_says(site->dir, GPUS "limits real\n");
    limit_probe_look(&site->probe);
    assert_int_equal(limit_probe_state(&site->probe), LIMITS_REFUSED);
    site->probe.next_ms = 0; /* a minute later */
    limit_probe_look(&site->probe);
    assert_int_equal(limit_probe_state(&site->probe), LIMITS_OK);
}

SITE_TEST(limit_probe__skips_machines_where_nothing_can_be_tried)
{
    limit_probe_look(&site->probe);
    assert_int_equal(limit_probe_state(&site->probe), LIMITS_UNKNOWN);
    assert_null(limit_state_word(LIMITS_UNKNOWN));
    assert_int_equal(looks(site, "gpu GPU-a NVIDIA_H100 81559 mig=1\n"), LIMITS_UNKNOWN);
    site->probe.is_off = true;
    assert_int_equal(looks(site, GPUS), LIMITS_OFF);
    assert_string_equal(limit_state_word(LIMITS_OFF), "off");
    assert_string_equal(limit_state_word(LIMITS_UNTRIED), "untried");
    limits_are(site, "");
}

static void tries(struct site *site, const char *cgroup, int rc, enum nvml_limit_end expected,
                  const char *words)
{
    const struct nvml_limit limit = {.uuid = "GPU-a", .cgroup = cgroup, .hard_bytes = 1 << 20};
    enum nvml_limit_end end;
    struct err err;
    assert_int_equal(limit_try(site->probe.nvml, &limit, 5000, &end, &err), rc);
    assert_int_equal(end, expected);
    assert_says(err.text, words);
}

SITE_TEST(limit_probe__distinguishes_a_missing_controller)
{
    static const char *const files[] = {"cgroups/dmem.max", "cgroups/misc.max"};
    char path[128];
    site->probe.is_off = true;
    (void)looks(site, GPUS "limits real\n");
    tries(site, "/nowhere/cgroup", -ERR_IO, NVML_LIMIT_FAILED, "");
    driver_says(site->dir, GPUS "limits broken\n"); /* as for a folder that cannot be opened */
    tries(site, site->cgroups, -ERR_IO, NVML_LIMIT_NO_CONTROLLER, "enable dmem");
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        file_put(site->dir, files[i], "max\n");
        tries(site, site->cgroups, -ERR_IO, NVML_LIMIT_FAILED, "");
        (void)snprintf(path, sizeof path, "%s/%s", site->dir, files[i]);
        assert_int_equal(remove(path), 0);
    }
    driver_says(site->dir, GPUS "limits refused\n");
    tries(site, site->cgroups, -ERR_FORBIDDEN, NVML_LIMIT_REFUSED, "capability SYS_ADMIN");
    driver_says(site->dir, GPUS "limits differ\n");
    tries(site, site->cgroups, -ERR_CONFLICT, NVML_LIMIT_DIFFERS, "something else sets");
}
