/* privileged - GPUs that a container can open by its device rules beyond its grant. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/grant/privileged.h"
#include "support/test.h"
#include "unit/agent/support.h"

enum { ANY = NRI_ANY_NUMBER, NONE = 1000 };

/* Three GPUs: GPU-a has minor 2, GPU-b 1, and that of GPU-c is not known. */
static struct gpu_reading reading;
static struct grant grant;
static struct arena arena;

static const struct nri_device_rule nothing = {false, TEXT(""), ANY, ANY, TEXT("rwm")};
static const struct nri_device_rule all = {true, TEXT(""), ANY, ANY, TEXT("rwm")};

static int begin(void **state __attribute__((unused)))
{
    reading = (struct gpu_reading){.status = NVML_READY, .n_gpus = 3};
    for (uint32_t i = 0; i < 3; i++) {
        struct gpu_state *gpu = &reading.gpu[i];
        (void)snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%c", 'a' + (int)i);
        gpu->minor = i < 2 ? 2 - (int32_t)i : -1;
    }
    grant = (struct grant){.verdict = GRANT_NOTHING};
    arena_init(&arena);
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

static void has_share_of(const char *gpu)
{
    struct pod_share *share = arena_alloc(&arena, sizeof *share);
    const struct pod_share **list = arena_array(&arena, 1, sizeof *list);

    *share = (struct pod_share){.container = "main", .gpu = gpu, .milli = 300};
    list[0] = share;
    grant = (struct grant){.verdict = GRANT_GPUS, .n_shares = 1, .share = list};
}

/* NONE: it sees none. */
static uint32_t seen_of(const struct nri_container *container)
{
    uint32_t gpus = 77;
    const bool sees = privileged_sees(&grant, container, &reading, &arena, &gpus);

    return sees ? gpus : NONE;
}

static uint32_t seen(struct nri_device_rule first, struct nri_device_rule second)
{
    const struct nri_device_rule rule[] = {nothing, first, second};

    return seen_of(&(struct nri_container){.n_rules = 3, .rule = rule});
}

FIXTURE_TEST(privileged__sees_all_gpus_but_its_own)
{
    assert_int_equal(seen(all, all), 3);
    has_share_of("GPU-b");
    assert_int_equal(seen(all, all), 2);
    assert_int_equal(seen_of(&(struct nri_container){.n_rules = 0}), NONE);
    assert_int_equal(seen(nothing, nothing), NONE);
    reading.gpu[0].health = GPU_LOST;
    assert_int_equal(seen(all, all), 1);
    reading.n_gpus = 1; /* its own is the only one that is left */
    reading.gpu[0] = reading.gpu[1];
    assert_int_equal(seen(all, all), NONE);
}

FIXTURE_TEST(privileged__follows_the_last_matching_rule)
{
    static const struct {
        bool allow;
        const char *type;
        int64_t major;
        int64_t minor;
        const char *access;
        uint32_t after_nothing;
        uint32_t after_all;
    } row[] = {
        {true, "a", ANY, ANY, "rwm", 3, 3},
        {true, "c", 195, ANY, "rw", 3, 3},
        {true, "c", 195, ANY, "r", 3, 3},
        {true, "c", 195, ANY, "w", 3, 3},
        {true, "u", 195, ANY, "", 3, 3},
        {true, "c", ANY, ANY, "m", NONE, 3}, /* makes nodes, and opens none */
        {true, "b", ANY, ANY, "rwm", NONE, 3},
        {true, "c", 136, ANY, "rwm", NONE, 3},
        {true, "c", 195, 1, "rwm", NONE, 2}, /* kubelet gave it that one */
        {true, "c", 195, 7, "rwm", NONE, 3},
        {false, "c", 195, 1, "rwm", NONE, 2},
        {false, "c", 195, ANY, "rwm", NONE, NONE},
        {false, "b", ANY, ANY, "rwm", NONE, 3},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct nri_device_rule rule = {row[i].allow, text_of(row[i].type), row[i].major,
                                             row[i].minor, text_of(row[i].access)};
        if (seen(nothing, rule) != row[i].after_nothing || seen(all, rule) != row[i].after_all)
            fail_msg("row %zu: %u, %u", i, seen(nothing, rule), seen(all, rule));
    }
}

FIXTURE_TEST(privileged__counts_device_nodes_without_a_reading)
{
    const struct nri_device node[] = {{TEXT("/dev/nvidia0"), TEXT("c"), 195, 0},
                                      {TEXT("/dev/nvidia1"), TEXT("c"), 195, 1},
                                      {TEXT("/dev/nvidiactl"), TEXT("c"), 195, 255},
                                      {TEXT("/dev/null"), TEXT("c"), 1, 3}};
    const struct nri_device_rule one = {true, TEXT("c"), 195, 0, TEXT("rw")};
    struct nri_container container = {.n_devices = 4, .device = node, .n_rules = 1, .rule = &all};

    reading.n_gpus = 0;
    assert_int_equal(seen_of(&container), 2);
    has_share_of("GPU-b");
    assert_int_equal(seen_of(&container), 1);
    container.n_devices = 1;
    assert_int_equal(seen_of(&container), NONE);
    container.rule = &one; /* kubelet gave it */
    grant = (struct grant){.verdict = GRANT_NOTHING};
    assert_int_equal(seen_of(&container), NONE);
    container.n_devices = 0;
    assert_int_equal(seen_of(&container), NONE);
    container.rule = &all;
    assert_int_equal(seen_of(&container), 0); /* it may make their nodes */
}

static void says(uint32_t gpus, const char *words)
{
    struct err err;

    assert_int_equal(privileged_error(gpus, &err), -ERR_FORBIDDEN);
    assert_says(err.text, words);
}

FIXTURE_TEST(privileged__names_the_field_and_the_remedy)
{
    says(7, "it is privileged (securityContext.privileged: true), so it can open 7 GPUs that it "
            "was not granted: remove that field (in kubectl debug, take another profile than "
            "sysadmin), or run it in a pod that asks for no share");
    says(1, "can open 1 GPU that");
    says(0, "can open GPUs of its node that it was not granted");
}
