/* memory_limit - limits of GPU memory at the start of a container. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "agent/meter/limit_probe.h"
#include "agent/meter/memory_limit.h"
#include "support/patience.h"
#include "support/test.h"
#include "unit/agent/support.h"

#define GPUS "gpu GPU-a NVIDIA_H100 81559\ngpu GPU-b NVIDIA_H100 81559\n"

struct site {
    char dir[32];
    struct memory_limit limit;
    struct pod_share share[2];
    const struct pod_share *shares[2];
    struct grant grant;
    struct nri_container container;
    struct err err;
};

static int set_up(void **state)
{
    struct site *site = test_calloc(1, sizeof *site);
    folder_make(site->dir, sizeof site->dir);
    site->share[0] = (struct pod_share){.gpu = "GPU-a", .milli = 300, .mib = 2};
    site->share[1] = (struct pod_share){.gpu = "GPU-b", .milli = 300, .mib = 3};
    for (size_t i = 0; i < 2; i++)
        site->shares[i] = &site->share[i];
    site->grant = (struct grant){.verdict = GRANT_GPUS, .n_shares = 2, .share = site->shares};
    site->container.cgroups_path = TEXT("/kubepods/pod1/0123");
    site->limit = (struct memory_limit){.cgroup_dir = "/c"};
    *state = site;
    return 0;
}

static int tear_down(void **state)
{
    struct site *site = *state;
    nvml_close(site->limit.nvml);
    folder_remove(site->dir);
    test_free(site);
    return 0;
}

#define SITE_TEST(name) TEST_WITH(name, struct site *site, set_up, tear_down)

/* Waits for a reading by this driver. */
static void driver(struct site *site, const char *lines, enum nvml_status status)
{
    nvml_close(site->limit.nvml);
    site->limit.nvml = driver_open(site->dir, lines);
    driver_await(site->limit.nvml, status);
}

static enum limit_outcome starts(struct site *site, enum limit_mode mode)
{
    site->limit.mode = mode;
    return memory_limit_set(&site->limit, &site->grant, &site->container, &site->err);
}

static void fails(struct site *site, const char *words)
{
    assert_int_equal(starts(site, LIMIT_AUTO), LIMIT_FAILED);
    assert_says(site->err.text, words);
}

static void refused(struct site *site, const char *words)
{
    assert_int_equal(starts(site, LIMIT_REQUIRE), LIMIT_FAILED);
    assert_says(site->err.text, words);
    assert_says(site->err.text, "operator");
}

SITE_TEST(memory_limit__is_the_share_of_each_gpu)
{
    driver(site, GPUS, NVML_READY);
    assert_int_equal(starts(site, LIMIT_OFF), LIMIT_NONE);
    assert_int_equal(starts(site, LIMIT_AUTO), LIMIT_SET);
    char *limits = file_text(site->dir, "driver.limits");
    assert_string_equal(limits, "GPU-a /c/kubepods/pod1/0123 0 2097152\n"
                                "GPU-b /c/kubepods/pod1/0123 0 3145728\n");
    xfree(limits);
    site->share[0].mib = 0; /* not known: it has no limit */
    assert_int_equal(starts(site, LIMIT_AUTO), LIMIT_SET);
    refused(site, "not known");
    site->share[1].mib = 0;
    assert_int_equal(starts(site, LIMIT_AUTO), LIMIT_NONE);
}

SITE_TEST(memory_limit__refuses_only_where_required)
{
    driver(site, GPUS "limits no\n", NVML_READY);
    fails(site, "DeviceSetMemoryLimits_v1");
    assert_null(strstr(site->err.text, "operator"));
    refused(site, "DeviceSetMemoryLimits_v1");
    site->container.cgroups_path = TEXT("nonsense");
    refused(site, "\"nonsense\" is no path of a cgroup");
}

/* As with the kernel's dmem: a promise to a container stays in the cgroups above when it ends. */
SITE_TEST(memory_limit__leaves_nothing_reserved_by_ended_containers)
{
    char path[64];
    char id[32];
    driver(site, GPUS, NVML_READY);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof id, "/kubepods/pod1/%d", i);
        site->container.cgroups_path = text_of(id);
        assert_int_equal(starts(site, LIMIT_REQUIRE), LIMIT_SET);
    }
    (void)snprintf(path, sizeof path, "%s/driver.reserved", site->dir);
    assert_int_equal(access(path, F_OK), -1);
}

SITE_TEST(memory_limit__reports_the_reason_to_operator_and_node)
{
    struct limit_probe probe = {.cgroup_dir = "/c"};
    site->limit.probe = &probe;
    driver(site, GPUS "limits refused\n", NVML_READY);
    fails(site, "give it the capability SYS_ADMIN");
    assert_int_equal(limit_probe_state(&probe), LIMITS_REFUSED);
    driver(site, GPUS "limits differ\n", NVML_READY);
    refused(site, "something else sets limits");
    driver(site, GPUS "limits bare\n", NVML_READY);
    refused(site, "enable dmem");
    assert_int_equal(limit_probe_state(&probe), LIMITS_NO_CONTROLLER);
    driver(site, GPUS, NVML_READY);
    assert_int_equal(starts(site, LIMIT_REQUIRE), LIMIT_SET);
    assert_int_equal(limit_probe_state(&probe), LIMITS_OK);
}

SITE_TEST(memory_limit__waits_for_the_driver_only_where_required)
{
    assert_int_equal(starts(site, LIMIT_AUTO), LIMIT_NONE);
    refused(site, "no NVML");
    driver(site, "init 9\n", NVML_NO_DRIVER);
    assert_int_equal(starts(site, LIMIT_AUTO), LIMIT_FAILED);
    refused(site, "not loaded");
}

SITE_TEST(memory_limit__waits_a_bounded_time_for_a_hanging_driver)
{
    driver(site, GPUS, NVML_READY);
    driver_says(site->dir, GPUS "hang DeviceSetMemoryLimits_v1 120000\n");
    const int64_t from_ns = clock_ns();
    assert_int_equal(starts(site, LIMIT_AUTO), LIMIT_FAILED);
    const int64_t took_ms = (clock_ns() - from_ns) / 1000000;
    assert_true(took_ms >= LIMIT_WAIT_MS - 50 && took_ms < PATIENCE_MS);
    assert_int_equal(site->err.code, ERR_TIMEOUT);
    driver_says(site->dir, GPUS);
}
