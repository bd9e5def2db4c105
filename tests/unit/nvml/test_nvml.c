/* The watcher against a driver that lies, hangs, and dies. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"

#include "nvml/nvml_health.h"
#include "support.h"
#include "support/patience.h"
#include "support/scoped.h"
#include "support/test.h"

#define TWO "gpu GPU-a NVIDIA_H100 81559 numa=0\ngpu GPU-b NVIDIA_H100 81559 numa=1\n"

static struct nvml *nvml;
static struct err err;
static const struct gpu_reading *reading; /* the latest one that a test waited for, or NULL */

static void stop(void)
{
    nvml_close(nvml);
    nvml = NULL;
}

static int tear_down(void **state __attribute__((unused)))
{
    stop();
    gpu_reading_unref(reading);
    reading = NULL;
    return 0;
}

#define WATCH_TEST(name) TEST_WITH(name, void *state, NULL, tear_down)

static void await(condition *is_so)
{
    const struct gpu_reading *next = await_reading(nvml, is_so);
    gpu_reading_unref(reading);
    reading = next;
}

static void say_until(const char *lines, condition *is_so)
{
    fake_say(lines);
    await(is_so);
}

/* Watches a driver with these lines. */
static void watch_until(const char *lines, condition *is_so)
{
    stop();
    fake_say(lines);
    nvml = watch();
    await(is_so);
}

/* Watches a driver with two GPUs, which counts as silent after so long. */
static void watch_slow(int64_t silent_ms)
{
    fake_say(TWO);
    nvml = watch_by("libnvidia-ml.so.1", silent_ms, 600000);
    await(is_ready);
}

static const char *awaited_gpu;
static enum gpu_health awaited_health;

static bool has_health(const struct gpu_reading *next)
{
    const struct gpu_state *gpu = gpu_of(next, awaited_gpu);
    return is_ready(next) && gpu != NULL && gpu->health == awaited_health;
}

static void await_health(const char *uuid, enum gpu_health health)
{
    awaited_gpu = uuid;
    awaited_health = health;
    await(has_health);
}

WATCH_TEST(reading__has_what_the_driver_says)
{
    watch_until(
        "driver 615.10\n"
        "gpu GPU-a NVIDIA_H100_80GB_HBM3 81559 numa=1 minor=4 bus=00000000:3B:00.0 used=1200 "
        "temperature=61 power=350000 clocks=4 ecc=2 link=GPU-b link=GPU-b\n"
        "gpu GPU-b NVIDIA_H100_80GB_HBM3 81559 bus=00000000:DB:00.0 link=GPU-a link=GPU-x\n"
        "gpu GPU-c NVIDIA_A100 40960 mig=1 link=switch\n"
        "gpu GPU-d NVIDIA_A100 40960 link=switch link=switch\n"
        "process GPU-a 4711 1000 sm=41\nprocess GPU-a 12 -1 mps\nprocess GPU-d 13 5\n"
        "process GPU-b 14 5 sm=101\nprocess GPU-b 14 7 mps sm=3\n",
        is_ready);
    assert_int_equal(reading->n_gpus, 4);
    assert_int_equal(reading->left_out, 0);
    assert_string_equal(reading->driver, "615.10");
    assert_string_equal(reading->library, "13.615.10");
    assert_true(reading->has_events && reading->has_memory_limit);
    const struct gpu_state *a = &reading->gpu[0];
    assert_string_equal(a->uuid, "GPU-a");
    assert_string_equal(a->model, "NVIDIA H100 80GB HBM3");
    assert_string_equal(a->bus_id, "00000000:3B:00.0");
    assert_int_equal(a->minor, 4);
    assert_int_equal(a->numa, 1);
    assert_int_equal(a->mib_total, 81559);
    assert_int_equal(a->mib_used, 1200);
    assert_int_equal(a->known, GPU_KNOWS_TEMPERATURE | GPU_KNOWS_POWER | GPU_KNOWS_CLOCKS |
                                   GPU_KNOWS_ECC | GPU_KNOWS_PROCESSES);
    assert_int_equal(a->temperature_c, 61);
    assert_int_equal(a->power_mw, 350000);
    assert_int_equal(a->clock_reasons, 4);
    assert_int_equal(a->ecc_uncorrected, 2);
    assert_int_equal(a->health, GPU_HEALTHY); /* the first value of the counter is no fault */
    assert_int_equal(a->processes, 2);
    assert_int_equal(reading->process[a->process].pid, 4711);
    assert_int_equal(reading->process[a->process].mib, 1000);
    assert_true(reading->process[a->process + 1].is_mps);
    assert_false(reading->process[a->process + 1].is_known);
    assert_int_equal(reading->process[a->process].sm_milli, 410);
    assert_int_equal(reading->process[a->process + 1].sm_milli, -1);
    /* Neither nonsense nor no sample at all is an amount. */
    assert_int_equal(reading->process[reading->gpu[1].process].sm_milli, -1);
    assert_int_equal(reading->process[reading->gpu[3].process].sm_milli, -1);
    assert_int_equal(reading->gpu[1].numa, -1);
    assert_int_equal(reading->gpu[1].known & GPU_KNOWS_POWER, 0);
    assert_int_equal(reading->process[reading->gpu[3].process].pid, 13);
    assert_true(reading->gpu[2].is_mig && !reading->gpu[3].is_mig);
    assert_int_equal(a->peers, 1 << 1);
    assert_int_equal(reading->gpu[1].peers, 1 << 0);
    assert_int_equal(reading->gpu[2].peers, 1 << 3);
    assert_int_equal(reading->gpu[3].peers, 1 << 2);
}

/* As driver 580 does: a client is in both lists, and the time is that of the server. */
WATCH_TEST(reading__has_no_idle_mps_client_without_a_sample)
{
    watch_until(TWO "process GPU-a 100 500\nprocess GPU-a 200 66 sm=99\nprocess GPU-a 300 5\n"
                    "process GPU-a 100 500 mps\n"
                    "process GPU-b 300 5 sm=40\nprocess GPU-b 300 5 mps\nprocess GPU-b 100 5\n",
                is_ready);
    const struct gpu_process *on_a = &reading->process[gpu_of(reading, "GPU-a")->process];
    const struct gpu_process *on_b = &reading->process[gpu_of(reading, "GPU-b")->process];
    assert_int_equal(gpu_of(reading, "GPU-a")->processes, 4);
    assert_int_equal(on_a[0].sm_milli, -1);
    assert_int_equal(on_a[1].sm_milli, 990);
    assert_int_equal(on_a[2].sm_milli, 0); /* no client, and nothing used */
    assert_int_equal(on_a[3].sm_milli, -1);
    assert_int_equal(on_b[0].sm_milli, 400); /* a reported sample counts */
    assert_int_equal(on_b[1].sm_milli, 0);   /* a client on another GPU */
    assert_int_equal(on_b[2].sm_milli, 400);
}

/* The first readings may have samples from before them. */
static bool is_third(const struct gpu_reading *next)
{
    return is_ready(next) && next->number >= 3;
}

/*
 * PIDs from 1 on have these, separated by commas: "990,890", "~" before what was scaled. The GPU's
 * own use: -1: not reported.
 */
static void uses(const char *percents, int busy, const char *expected)
{
    char said[400];
    char found[200] = "";
    char own[32] = "";
    struct text rest = text_of(percents);
    struct text one;
    if (busy >= 0)
        (void)snprintf(own, sizeof own, " busy=%d", busy);
    size_t len = (size_t)snprintf(said, sizeof said, "gpu GPU-a NVIDIA_H100 81559%s\n", own);
    for (int pid = 1; text_cut(&rest, ',', &one); pid++)
        len += (size_t)snprintf(said + len, sizeof said - len, "process GPU-a %d 5 %.*s\n", pid,
                                TEXT_ARG(one));
    watch_until(said, is_third);
    for (uint32_t i = 0; i < reading->n_processes; i++)
        (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s%d",
                       i > 0 ? "," : "", reading->process[i].is_scaled ? "~" : "",
                       reading->process[i].sm_milli);
    if (strcmp(found, expected) != 0)
        fail_msg("%s of %d: %s, not %s", percents, busy, found, expected);
}

/* As on one H200 with driver 580, where two busy ones had 71 and 37, or 99 and 89. */
WATCH_TEST(utilization__is_scaled_to_that_of_the_gpu)
{
    uses("sm=71,sm=37", 100, "~657,~342");
    uses("sm=99,sm=89", 91, "~479,~430");
    uses("sm=99,sm=89", -1, "~526,~473"); /* a GPU is used at most all the time */
    uses("sm=99,sm=89", 101, "~526,~473");
    uses("sm=99,sm=89", 0, "~526,~473"); /* which cannot be */
    uses("sm=30,sm=20", 60, "300,200");  /* no process waited */
    uses("sm=30,sm=20", 50, "300,200");
    uses("sm=40", 30, "~300");
    uses("sm=80,,sm=0,sm=80", 80, "~400,0,0,~400"); /* 0 is not a part of anything */
    uses("sm=80,sm=101,sm=80", 80, "~400,-1,~400"); /* nonsense is not known */
    uses("", 50, "-1");
}

static int64_t year_1970(void *ctx)
{
    (void)ctx;
    return 1000;
}

/* The driver dates its samples by it: none would be newer than the newest for all that time. */
WATCH_TEST(utilization__survives_a_wall_clock_that_steps_back)
{
    struct nvml_settings settings;
    nvml_defaults(&settings);
    settings.library = fake_library("libnvidia-ml.so.1");
    settings.every_ms = 5;
    settings.clock.wall_ms = year_1970;
    fake_say("gpu GPU-a NVIDIA_H100 81559 busy=40\nprocess GPU-a 1 5 sm=90\n");
    nvml = nvml_open(&settings, &err);
    assert_non_null(nvml);
    await(is_third);
    assert_int_equal(reading->process[0].sm_milli, 600); /* all that there are: 100, 40 and 40 */
}

/* 1 percent in two of many samples is less than one milli. */
WATCH_TEST(utilization__is_at_least_one_milli_when_used)
{
    watch_until("gpu GPU-a NVIDIA_H100 81559 busy=1 rests=30\nprocess GPU-a 1 5 sm=40\n", is_third);
    assert_int_equal(reading->process[0].sm_milli, 1);
}

WATCH_TEST(utilization__sums_a_client_in_both_lists_once)
{
    watch_until("gpu GPU-a NVIDIA_H100 81559 busy=80\nprocess GPU-a 1 5 sm=60\n"
                "process GPU-a 2 5 sm=40\nprocess GPU-a 1 5 mps\n",
                is_third);
    assert_int_equal(reading->process[0].sm_milli, 480);
    assert_int_equal(reading->process[1].sm_milli, 320);
    assert_int_equal(reading->process[2].sm_milli, 480);
}

static bool b_is_first(const struct gpu_reading *next)
{
    return next->status == NVML_READY && gpu_of(next, "GPU-b")->index == 0 &&
           strcmp(gpu_of(next, "GPU-a")->model, "NVIDIA B200") == 0;
}

WATCH_TEST(reading__knows_a_gpu_by_its_uuid)
{
    watch_until(TWO, is_ready);
    say_until("gpu GPU-b NVIDIA_H100 81559 numa=1\ngpu GPU-a NVIDIA_B200 81559 numa=0\n",
              b_is_first);
    assert_string_equal(reading->gpu[0].uuid, "GPU-a"); /* places stay */
    assert_int_equal(reading->gpu[0].index, 1);
    assert_int_equal(reading->gpu[0].health, GPU_HEALTHY);
}

WATCH_TEST(xid__marks_a_gpu_failed_only_if_critical)
{
    assert_false(nvml_xid_is_critical(13) || nvml_xid_is_critical(31) || nvml_xid_is_critical(43));
    assert_false(nvml_xid_is_critical(45) || nvml_xid_is_critical(68));
    assert_true(nvml_xid_is_critical(79) && nvml_xid_is_critical(48) && nvml_xid_is_critical(0));
    watch_until(TWO, is_ready);
    fake_say(TWO "event 1 GPU-b 8 31\nevent 2 GPU-a 8 79\nevent 3 GPU-b 8 43\n");
    await_health("GPU-a", GPU_XID);
    const struct gpu_state *a = gpu_of(reading, "GPU-a");
    assert_string_equal(a->reason, "the driver reported XID 79");
    assert_int_equal(a->xid, 79);
    assert_int_equal(a->xids, 1);
    assert_int_equal(a->application_xids, 0);
    assert_int_equal(gpu_of(reading, "GPU-b")->xids, 0);
    assert_true(gpu_of(reading, "GPU-b")->application_xids > 0); /* the third may still come */
    assert_true(a->since_ms > 0);
    assert_int_equal(gpu_of(reading, "GPU-b")->health, GPU_HEALTHY);
    assert_int_equal(nvml_clear_fault(nvml, "GPU-z", &err), -ERR_NOT_FOUND);
    assert_int_equal(nvml_clear_fault(nvml, "GPU-a", &err), 0);
    await_health("GPU-a", GPU_HEALTHY);
}

WATCH_TEST(xid__counts_for_all_gpus_without_a_name)
{
    watch_until(TWO, is_ready);
    fake_say(TWO "event 1 none 8 79\n");
    await_health("GPU-a", GPU_XID);
    await_health("GPU-b", GPU_XID);
}

WATCH_TEST(ecc__marks_a_gpu_failed_until_quiet)
{
    fake_say("gpu GPU-a NVIDIA_H100 81559 ecc=1\n");
    nvml = watch_by("libnvidia-ml.so.1", 20000, 400);
    await(is_ready);
    fake_say("gpu GPU-a NVIDIA_H100 81559 ecc=2\n"); /* the counter rises */
    await_health("GPU-a", GPU_ECC);
    await_health("GPU-a", GPU_HEALTHY);
    fake_say("gpu GPU-a NVIDIA_H100 81559 ecc=2\nevent 1 GPU-a 2 0\n"); /* the event */
    await_health("GPU-a", GPU_ECC);
    await_health("GPU-a", GPU_HEALTHY);
}

static bool all_are_healthy(const struct gpu_reading *next)
{
    for (uint32_t i = 0; i < next->n_gpus; i++)
        if (next->gpu[i].health != GPU_HEALTHY)
            return false;
    return is_ready(next);
}

WATCH_TEST(lost_gpu__stays_as_last_seen)
{
    static const char *const ends[] = {
        "gpu GPU-a NVIDIA_H100 81559\ngpu GPU-b NVIDIA_H100 81559 fail=15\n",
        "gpu GPU-a NVIDIA_H100 81559\n",
    };
    watch_until(TWO, is_ready);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        fake_say(ends[i]);
        await_health("GPU-b", GPU_LOST);
        assert_int_equal(reading->n_gpus, 2);
        assert_int_equal(reading->gpu[1].mib_total, 81559);
        assert_int_equal(reading->gpu[1].index, 1);
        assert_int_equal(reading->gpu[1].known, 0);
        assert_int_equal(reading->gpu[0].health, GPU_HEALTHY);
        say_until(TWO, all_are_healthy);
    }
    fake_say("gpu GPU-a NVIDIA_H100 81559\ngpu GPU-b NVIDIA_H100 81559 fail=16\n");
    await_health("GPU-b", GPU_RESET_REQUIRED);
}

static bool is_silent(const struct gpu_reading *next)
{
    return next->status == NVML_SILENT;
}

WATCH_TEST(silent_driver__makes_all_gpus_unknown)
{
    watch_slow(500);
    say_until(TWO "hang DeviceGetUUID 60000\n", is_silent);
    assert_int_equal(reading->n_gpus, 2);
    assert_int_equal(reading->gpu[0].health, GPU_UNKNOWN);
    assert_int_equal(reading->gpu[1].health, GPU_UNKNOWN);
    assert_true(strlen(reading->gpu[0].reason) > 0 && strlen(reading->problem) > 0);
    const struct gpu_reading *again = nvml_latest(nvml);
    gpu_reading_unref(again);
    assert_ptr_equal(again, reading); /* made once */
    say_until(TWO, all_are_healthy);
}

/* Sets the limit, which ends so. */
static void limit_ends(const struct nvml_limit *limit, int64_t wait_ms, int rc,
                       enum nvml_limit_end expected)
{
    enum nvml_limit_end end = NVML_LIMIT_UNREAD;
    assert_int_equal(nvml_limit_memory(nvml, limit, wait_ms, &end, &err), rc);
    assert_int_equal(end, expected);
}

WATCH_TEST(silent_driver__delays_no_caller)
{
    watch_slow(500);
    say_until(TWO "hang any 120000\n", is_silent);
    const struct nvml_limit limit = {"GPU-a", "/sys/fs/cgroup/x", 0, 1 << 20};
    int64_t start = clock_ns();
    limit_ends(&limit, 50, -ERR_TIMEOUT, NVML_LIMIT_FAILED);
    for (int i = 0; i < NVML_COMMANDS_MAX; i++)
        assert_int_equal(nvml_clear_fault(nvml, "GPU-a", &err), 0);
    assert_int_equal(nvml_clear_fault(nvml, "GPU-a", &err), -ERR_BUSY);
    limit_ends(&limit, 50, -ERR_BUSY, NVML_LIMIT_FAILED);
    stop();
    assert_true(clock_ns() - start < PATIENCE_S * INT64_C(1000000000));
    assert_string_equal(reading->gpu[0].uuid, "GPU-a"); /* a reading that was taken stays */
    /* The thread that was left behind wakes up and cleans up, here before the sanitizers look. */
    fake_say(TWO);
    const struct timespec wait = {0, 300000000};
    (void)nanosleep(&wait, NULL);
}

static bool has_no_driver(const struct gpu_reading *next)
{
    return next->status == NVML_NO_DRIVER;
}

WATCH_TEST(driver__may_come_and_go)
{
    watch_until("init 9\n", has_no_driver);
    assert_int_equal(reading->n_gpus, 0);
    assert_string_equal(reading->problem,
                        "nvmlInit_v2: the NVIDIA driver is not loaded (NVML error 9)");
    say_until(TWO, all_are_healthy);
    assert_int_equal(reading->loads, 1);
    say_until(TWO "count 1\ninit 18\n", has_no_driver);
    assert_int_equal(reading->n_gpus, 2);
    assert_int_equal(reading->gpu[1].health, GPU_UNKNOWN);
    say_until(TWO, all_are_healthy);
    assert_int_equal(reading->loads, 2);
    stop();
    nvml = watch_by("no-such-library.so.1", 20000, 1000);
    await(has_no_driver);
    assert_non_null(strstr(reading->problem, "the NVIDIA driver's library cannot be loaded"));
}

WATCH_TEST(old_driver__reports_less)
{
    fake_say("gpu GPU-a NVIDIA_P4 7680 used=100 link=GPU-a\n");
    nvml = watch_by("libnvidia-ml-old.so.1", 20000, 1000);
    await(is_ready);
    assert_false(reading->has_events || reading->has_memory_limit);
    assert_int_equal(reading->gpu[0].mib_total, 7680);
    assert_int_equal(reading->gpu[0].mib_used, 100);
    assert_int_equal(reading->gpu[0].minor, -1);
    assert_int_equal(reading->gpu[0].known, 0);
    assert_int_equal(reading->gpu[0].peers, 0);
    const struct nvml_limit limit = {"GPU-a", "/sys/fs/cgroup/x", 0, 1 << 20};
    limit_ends(&limit, 5000, -ERR_NOT_FOUND, NVML_LIMIT_ABSENT);
    assert_non_null(strstr(err.text, "has no memory limits"));
}

WATCH_TEST(memory_limit__is_set_by_uuid_and_cgroup)
{
    char name[128];
    char *text;
    size_t len;
    watch_until(TWO, is_ready);
    struct nvml_limit limit = {"GPU-b", "/sys/fs/cgroup/pod", 1 << 20, 1 << 30};
    limit_ends(&limit, 5000, 0, NVML_LIMIT_HOLDS);
    limit.cgroup = "pod";
    limit_ends(&limit, 5000, -ERR_IO, NVML_LIMIT_FAILED);
    assert_string_equal(err.text, "GPU GPU-b, cgroup pod: nvmlDeviceSetMemoryLimits_v1: the "
                                  "operating system refused it (NVML error 17)");
    limit.uuid = "GPU-z";
    limit_ends(&limit, 5000, -ERR_NOT_FOUND, NVML_LIMIT_FAILED);
    (void)snprintf(name, sizeof name, "%s.limits", fake_file());
    assert_int_equal(file_read(name, 4096, &text, &len, &err), 0);
    assert_string_equal(text, "GPU-b /sys/fs/cgroup/pod 1048576 1073741824\n");
    xfree(text);
}

/* Each failure of a limit has its own end, and lasts until the driver changes. */
WATCH_TEST(memory_limit__is_read_back_and_reports_its_failure)
{
    static const struct {
        const char *says;
        enum nvml_limit_end end;
        int rc;
        const char *words;
    } row[] = {
        {"limits no\n", NVML_LIMIT_ABSENT, -ERR_IO, "does not have the function"},
        {"limits refused\n", NVML_LIMIT_REFUSED, -ERR_FORBIDDEN, "no permission"},
        {"limits bare\n", NVML_LIMIT_NO_CONTROLLER, -ERR_IO, "not found"},
        {"limits real\n", NVML_LIMIT_FAILED, -ERR_IO, "operating system"},
        {"limits differ\n", NVML_LIMIT_DIFFERS, -ERR_CONFLICT,
         "GPU GPU-b, cgroup /c/pod: its limit is 524288 bytes after it was set to 1048576"},
        {"limits unread\n", NVML_LIMIT_UNREAD, -ERR_IO, "DeviceGetMemoryLimits_v1"},
        {"", NVML_LIMIT_HOLDS, 0, ""},
    };
    const struct nvml_limit limit = {"GPU-b", "/c/pod", 0, 1 << 20};
    char lines[256];
    watch_until(TWO, is_ready);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        err.text[0] = '\0';
        (void)snprintf(lines, sizeof lines, "%s%s", TWO, row[i].says);
        fake_say(lines);
        limit_ends(&limit, 5000, row[i].rc, row[i].end);
        if (strstr(err.text, row[i].words) == NULL)
            fail_msg("%s: %s", row[i].says, err.text);
    }
}

WATCH_TEST(reading__leaves_out_invalid_values)
{
    struct strbuf lines;
    strbuf_init(&lines);
    strbuf_str(&lines, "gpu GPU-a,b X 1\ngpu GPU-y X 1 fail=999\ngpu GPU-z X 1 fail=15\n"
                       "gpu GPU-c Odd\xc3\xa9\x07 4294967296 full=1 numa=70000\n");
    for (int i = 4; i < GPUS_PER_NODE_MAX + 3; i++)
        strbuf_printf(&lines, "gpu GPU-%d X 100\n", i);
    fake_say(lines.data);
    strbuf_done(&lines);
    nvml = watch();
    await(is_ready);
    assert_int_equal(reading->n_gpus, GPUS_PER_NODE_MAX - 3);
    assert_int_equal(reading->left_out, 6);
    assert_string_equal(reading->left_out_why, "GPU 0: its UUID is none that can be used");
    const struct gpu_state *odd = &reading->gpu[0];
    assert_int_equal(strlen(odd->uuid), 96);
    assert_memory_equal(odd->uuid, "GPU-cxxx", 8);
    assert_int_equal(strlen(odd->model), 96);
    assert_memory_equal(odd->model, "Odd???xx", 8);
    assert_int_equal(odd->mib_total, UINT32_MAX);
    assert_int_equal(odd->numa, -1);
}

static bool has_new(const struct gpu_reading *next)
{
    return gpu_of(next, "GPU-new") != NULL;
}

WATCH_TEST(reading__replaces_only_a_lost_gpu)
{
    SCOPED_STRBUF(lines);
    for (int i = 0; i < GPUS_PER_NODE_MAX; i++)
        strbuf_printf(&lines, "gpu GPU-%d X 100 link=GPU-%d\n", i, i ^ 1);
    watch_until(lines.data, is_ready);
    /* The new one comes first: those behind it are not lost, but not seen yet. */
    strbuf_reset(&lines);
    strbuf_str(&lines, "gpu GPU-new X 100\n");
    for (int i = 0; i < GPUS_PER_NODE_MAX; i++)
        if (i != 5)
            strbuf_printf(&lines, "gpu GPU-%d X 100\n", i);
    say_until(lines.data, has_new);
    assert_int_equal(reading->n_gpus, GPUS_PER_NODE_MAX);
    assert_null(gpu_of(reading, "GPU-5"));
    assert_non_null(gpu_of(reading, "GPU-4"));
    assert_int_equal(gpu_of(reading, "GPU-4")->peers & 1 << 5, 0);
}

WATCH_TEST(health__keeps_the_worse_of_two_faults)
{
    struct nvml_record record = {.presence = PRESENT};
    const struct abi_event xid = {.type = ABI_EVENT_XID, .data = 94};
    nvml_health_ecc(&record, 5, (struct nvml_now){0, 1000});
    nvml_health_check(&record, 100, (struct nvml_now){0, 1000});
    assert_int_equal(record.state.health, GPU_HEALTHY);
    nvml_health_ecc(&record, 6, (struct nvml_now){10, 1010});
    nvml_health_event(&record, &xid, (struct nvml_now){20, 1020});
    nvml_health_check(&record, 100, (struct nvml_now){119, 1119});
    assert_int_equal(record.state.health, GPU_ECC);
    assert_int_equal(record.state.since_ms, 1119);
    record.presence = LOST;
    nvml_health_check(&record, 100, (struct nvml_now){119, 1120});
    assert_int_equal(record.state.health, GPU_LOST);
    assert_int_equal(record.state.since_ms, 1120);
    record.presence = PRESENT;
    nvml_health_check(&record, 100, (struct nvml_now){120, 1121});
    assert_int_equal(record.state.health, GPU_HEALTHY);
    nvml_health_ecc(&record, 0, (struct nvml_now){130, 1130}); /* reset */
    nvml_health_check(&record, 100, (struct nvml_now){130, 1130});
    assert_int_equal(record.state.health, GPU_HEALTHY);
    assert_string_equal(record.state.reason, "");
}

/* Has this process the file open, or the library mapped? */
static bool holds_driver(void)
{
    char path[64];
    char target[256];
    bool holds = false;
    char line[1024];

    for (int fd = 0; fd < 256; fd++) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const ssize_t len = readlink(path, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        holds = holds || strncmp(target, fake_file(), strlen(fake_file())) == 0;
    }
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        holds = holds || strstr(line, "libnvidia-ml") != NULL;
    (void)fclose(maps);
    return holds;
}

static uint64_t released_at; /* the number of a reading */

static bool is_later(const struct gpu_reading *next)
{
    assert_int_equal(next->status, NVML_RELEASED);
    return next->number > released_at + 2;
}

static bool is_any(const struct gpu_reading *next)
{
    return next != NULL;
}

static bool is_released(const struct gpu_reading *next)
{
    return next->status == NVML_RELEASED;
}

/* The last reading is shown; afterwards, the driver that is present then. */
WATCH_TEST(release__lets_the_driver_be_replaced)
{
    const struct nvml_limit limit = {.uuid = "GPU-a", .cgroup = "/x", .hard_bytes = 1};
    fake_say("driver 570.1\n" TWO "event 1 GPU-b 8 79\nprocess GPU-a 4711 1000\n");
    nvml = watch();
    await_health("GPU-b", GPU_XID);
    assert_true(holds_driver());
    nvml_release(nvml, true);
    await(is_released);
    assert_false(holds_driver());
    assert_string_equal(reading->problem, "milligpu-node has let go of it");
    assert_string_equal(reading->driver, "570.1");
    assert_int_equal(reading->n_gpus, 2);
    assert_int_equal(reading->n_processes, 0);
    assert_int_equal(reading->gpu[0].health, GPU_HEALTHY);
    assert_int_equal(reading->gpu[0].known, 0);
    assert_int_equal(reading->gpu[1].health, GPU_XID);
    limit_ends(&limit, 20000, -ERR_UNAVAILABLE, NVML_LIMIT_FAILED);
    assert_string_equal(err.text, "milligpu-node has let go of it");
    /* It stays so, and its readings do not grow old. */
    released_at = reading->number;
    await(is_later);
    assert_false(holds_driver());
    fake_say("driver 580.2\ninit 9\n"); /* not loaded yet */
    nvml_release(nvml, false);
    await(has_no_driver);
    assert_false(holds_driver());
    say_until("driver 580.2\n" TWO, is_ready);
    assert_string_equal(reading->driver, "580.2");
    assert_int_equal(reading->n_gpus, 2);
    assert_true(holds_driver());
    stop();
    assert_false(holds_driver());
}

WATCH_TEST(release__waits_for_a_hanging_driver)
{
    watch_slow(90);
    say_until(TWO "hang any 600000\n", is_silent);
    nvml_release(nvml, true);
    await(is_any);
    assert_int_equal(reading->status, NVML_SILENT);
    say_until(TWO, is_released);
    assert_false(holds_driver());
}

static int group_set_up(void **state __attribute__((unused)))
{
    fake_start();
    return 0;
}

static int group_tear_down(void **state __attribute__((unused)))
{
    fake_stop();
    return 0;
}

TEST_GROUP(group_set_up, group_tear_down)
