#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/device.h"
#include "agent/grant/holders.h"
#include "support/test.h"
#include "unit/agent/support.h"

/* Three GPUs: GPU-a has index 0 and minor 2, GPU-b 1 and 1, GPU-c 2 and 0. */
static struct gpu_reading reading;
static struct arena arena;
static struct container_facts container[8];
static struct container_gpu gpus[8][4];
static struct containers_copy copy;

static int begin(void **state __attribute__((unused)))
{
    reading = (struct gpu_reading){.status = NVML_READY, .n_gpus = 3};
    for (uint32_t i = 0; i < 3; i++) {
        struct gpu_state *gpu = &reading.gpu[i];
        (void)snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%c", 'a' + (int)i);
        gpu->index = i;
        gpu->minor = 2 - (int32_t)i;
    }
    copy = (struct containers_copy){.is_complete = true, .container = container};
    arena_init(&arena);
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

/* Its id and uid are made of the name of its pod; of one GPU, or of two. */
static void add(const char *pod, enum container_right right, const char *first, const char *second)
{
    const uint32_t at = copy.count++;
    gpus[at][0] = (struct container_gpu){.name = first};
    gpus[at][1] = (struct container_gpu){.name = second};
    container[at] = (struct container_facts){.id = arena_printf(&arena, "%s-%u", pod, at),
                                             .uid = arena_printf(&arena, "uid-%s", pod),
                                             .namespace = "default",
                                             .pod = pod,
                                             .name = "main",
                                             .right = right,
                                             .n_gpus = second != NULL ? 2 : 1,
                                             .gpu = gpus[at]};
    if (right != RIGHT_KUBELET)
        return;
    container[at].n_whole = container[at].n_gpus;
    container[at].whole = gpus[at];
}

/* The container that was added last has a share, and this besides. */
static void gets_whole(const struct container_gpu *whole, uint32_t wholes)
{
    container[copy.count - 1].whole = whole;
    container[copy.count - 1].n_whole = wholes;
}

/* "word,-,-": the holders of GPU-a, GPU-b and GPU-c. */
static void assert_held(const char *expected, const char *outside)
{
    struct holders holders;
    char found[256] = "";

    holders_find(&reading, &copy, &outside, outside != NULL, &arena, &holders);
    for (uint32_t i = 0; i < 3; i++)
        (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s",
                       i > 0 ? "," : "", holders.by[i] != NULL ? holders.by[i] : "-");
    assert_string_equal(found, expected);
    for (uint32_t i = 3; i < GPUS_PER_NODE_MAX; i++)
        assert_null(holders.by[i]);
}

/* -1: none. */
static int found(const char *name)
{
    const struct gpu_state *gpu = device_gpu(&reading, name);
    return gpu != NULL ? (int)(gpu - reading.gpu) : -1;
}

FIXTURE_TEST(device_gpu__finds_by_uuid_index_and_device_node)
{
    static const char *const names[3][3] = {{"GPU-a", "0", "/dev/nvidia2"},
                                            {"GPU-b", "1", "/dev/nvidia1"},
                                            {"GPU-c", "2", "/dev/nvidia0"}};
    static const char *const unknown[] = {"",
                                          "3",
                                          "GPU-",
                                          "GPU-ab",
                                          "/dev/nvidia",
                                          "/dev/nvidia3",
                                          "-1",
                                          "/dev/nvidiactl",
                                          "4294967296",
                                          "18446744073709551616"};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(found(names[i][k]), i);
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
        assert_int_equal(found(unknown[i]), -1);
    /* An index, or a device node, is that of a GPU that is there. */
    reading.gpu[0].health = GPU_LOST;
    reading.gpu[1].index = 0;
    reading.gpu[1].minor = -1;
    assert_int_equal(found("0"), 1);
    assert_int_equal(found("GPU-a"), 0);
    assert_int_equal(found("/dev/nvidia2"), -1);
}

FIXTURE_TEST(holders__order_kubelet_before_variable_before_process)
{
    assert_held("-,-,-", NULL);
    assert_held("-,process,-", "GPU-b");
    add("v", RIGHT_VARIABLE, "1", "/dev/nvidia0");
    assert_held("-,env:uid-v,env:uid-v", "GPU-b");
    add("k", RIGHT_KUBELET, "GPU-b", NULL);
    add("l", RIGHT_KUBELET, "GPU-b", NULL); /* of several the first */
    assert_held("process,pod:uid-k,env:uid-v", "GPU-a");
    assert_held("-,pod:uid-k,env:uid-v", "GPU-gone");
}

FIXTURE_TEST(holders__leave_out_shares)
{
    add("a", RIGHT_SHARE, "GPU-a", "GPU-b");
    assert_held("-,-,-", NULL);
}

static void assert_allowed(const char *id)
{
    struct err err;
    assert_outcome(holders_allow(&reading, &copy, text_of(id), &err), &err, NULL);
}

static void assert_refused(const char *id, const char *text)
{
    struct err err;
    assert_int_equal(holders_allow(&reading, &copy, text_of(id), &err), -ERR_CONFLICT);
    assert_non_null(strstr(err.text, text));
}

FIXTURE_TEST(holders__refuse_a_share_of_a_gpu_that_is_held_whole)
{
    add("a", RIGHT_SHARE, "GPU-c", "GPU-b");
    add("k", RIGHT_KUBELET, "0", NULL);
    assert_allowed("a-0");
    assert_allowed("k-1");
    assert_allowed("nobody");
    add("l", RIGHT_KUBELET, "/dev/nvidia1", NULL);
    assert_refused("a-0", "its GPU GPU-b was given whole to pod default/l: delete the pod");
}

FIXTURE_TEST(holders__refuse_a_whole_gpu_that_has_shares)
{
    add("a", RIGHT_SHARE, "GPU-b", NULL);
    add("k", RIGHT_KUBELET, "0", "1");
    assert_refused("k-1",
                   "it would have GPU 1 whole, of which pods have shares (one is default/a)");
    /* A variable takes nothing away from a share, and gets nothing of it. */
    add("v", RIGHT_VARIABLE, "GPU-b", NULL);
    assert_refused("v-2", "it would have GPU GPU-b whole");
    copy.count = 1;
    add("v", RIGHT_VARIABLE, "GPU-b", NULL);
    assert_allowed("a-0");
    /* Without a driver, UUIDs are compared. */
    reading.n_gpus = 0;
    assert_refused("v-1", "it would have GPU GPU-b whole");
}

FIXTURE_TEST(holders__refuse_what_cannot_be_compared)
{
    add("a", RIGHT_SHARE, "GPU-b", NULL);
    add("k", RIGHT_KUBELET, "GPU-a", NULL);
    add("v", RIGHT_VARIABLE, "GPU-a", NULL);
    copy.left_out[RIGHT_VARIABLE] = 5; /* they take nothing away from a share */
    assert_allowed("a-0");
    assert_allowed("k-1");
    copy.left_out[RIGHT_KUBELET] = 3;
    assert_refused("a-0", "the node has 3 more containers with whole GPUs than can be compared");
    assert_allowed("k-1");
    assert_allowed("v-2");
    assert_allowed("nobody");
    copy.left_out[RIGHT_KUBELET] = 0;
    copy.left_out[RIGHT_SHARE] = 2;
    assert_allowed("a-0");
    assert_refused("k-1", "the node has 2 more containers with shares of GPUs than can be");
    assert_refused("v-2", "the node has 2 more containers with shares of GPUs than can be");
    assert_allowed("nobody");
    static const struct container_gpu given[] = {{.name = "GPU-c"}};
    add("b", RIGHT_SHARE, "GPU-b", NULL);
    assert_allowed("b-3");
    gets_whole(given, 1);
    assert_refused("b-3", "the node has 2 more containers with shares of GPUs than can be");
    copy.left_out[RIGHT_SHARE] = 0;
    assert_allowed("b-3");
    copy.left_out[RIGHT_KUBELET] = 1;
    assert_refused("b-3", "the node has 1 more containers with whole GPUs than can be compared");
}

/* By a device plugin of another resource, or another name: GPU-b, and the node of its own share. */
FIXTURE_TEST(holders__count_kubelet_devices_beside_a_share_as_whole)
{
    static const struct container_gpu given[] = {{.name = "/dev/nvidia2"},
                                                 {.name = "/dev/nvidia1"}};
    add("a", RIGHT_SHARE, "GPU-a", NULL);
    gets_whole(given, 2);
    assert_held("-,pod:uid-a,-", NULL);
    assert_allowed("a-0");
    add("b", RIGHT_SHARE, "GPU-a",
        NULL); /* GPU-a is shared, and not whole, though a sees its node */
    assert_allowed("a-0");
    assert_allowed("b-1");
    add("c", RIGHT_SHARE, "GPU-b", NULL);
    assert_refused("a-0", "it would have GPU /dev/nvidia1 whole, of which pods have shares (one is "
                          "default/c)");
    assert_refused("c-2", "its GPU GPU-b was given whole to pod default/a");
    add("k", RIGHT_KUBELET, "GPU-a", NULL);
    assert_refused("b-1", "its GPU GPU-a was given whole to pod default/k");
    add("v", RIGHT_VARIABLE, "GPU-b", NULL);
    assert_refused("v-4", "it would have GPU GPU-b whole");
    assert_held("pod:uid-k,pod:uid-a,-", NULL);
}

FIXTURE_TEST(holders__ignore_containers_of_one_pod_and_pods_without_shares)
{
    add("a", RIGHT_SHARE, "GPU-b", NULL);
    add("a", RIGHT_KUBELET, "GPU-b", NULL); /* both resources in one pod */
    add("b", RIGHT_SHARE, "GPU-b", NULL);
    assert_allowed("");
    add("k", RIGHT_KUBELET, "GPU-a", NULL);
    add("l", RIGHT_KUBELET, "GPU-a", NULL);
    assert_allowed("a-0");
    assert_allowed("k-3");
    assert_allowed("l-4");
    assert_refused("b-2", "whole to pod default/a");
}
