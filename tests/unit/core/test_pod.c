#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/pod.h"

/* A pod whose every string lies in bytes that the test can spoil. */
static void fill(struct pod *pod, char bytes[64], struct pod_container *container,
                 struct pod_share *share)
{
    memset(bytes, 0, 64);
    memcpy(bytes, "uid-1", 6);
    memcpy(bytes + 16, "300", 4);
    memcpy(bytes + 32, "GPU-a", 6);
    *container =
        (struct pod_container){.name = bytes, .kind = CONTAINER_INIT, .amount = bytes + 16};
    *share = (struct pod_share){
        .container = bytes, .gpu = bytes + 32, .index = 1, .milli = 300, .mib = 4915};
    *pod = (struct pod){.uid = bytes,
                        .namespace = bytes,
                        .name = bytes,
                        .resource_version = bytes + 16,
                        .node = bytes + 32,
                        .scheduler = bytes,
                        .phase = POD_RUNNING,
                        .scheduled_ms = 4711,
                        .ours = true,
                        .containers = 1,
                        .container = container,
                        .memory = bytes + 16,
                        .note = NOTE_OK,
                        .note_text = bytes,
                        .shares = 1,
                        .share = share};
}

static void a_kept_pod_needs_nothing_of_the_bytes_it_came_in(void **state)
{
    struct arena arena;
    struct pod pod;
    struct pod_container container;
    struct pod_share share;
    char bytes[64];

    (void)state;
    arena_init(&arena);
    fill(&pod, bytes, &container, &share);
    const struct pod *kept = pod_keep(&pod, &arena);
    memset(bytes, 'x', sizeof bytes);
    memset(&container, 'x', sizeof container);
    memset(&share, 'x', sizeof share);
    assert_string_equal(kept->uid, "uid-1");
    assert_string_equal(kept->node, "GPU-a");
    assert_string_equal(kept->memory, "300");
    assert_int_equal(kept->scheduled_ms, 4711);
    assert_string_equal(kept->container[0].name, "uid-1");
    assert_string_equal(kept->container[0].amount, "300");
    assert_int_equal(kept->container[0].kind, CONTAINER_INIT);
    assert_string_equal(kept->share[0].gpu, "GPU-a");
    assert_int_equal(kept->share[0].mib, 4915);
    arena_done(&arena);
}

static void what_is_not_set_stays_not_set(void **state)
{
    struct arena arena;
    struct pod pod;
    struct pod_container container;
    struct pod_share share;
    char bytes[64];

    (void)state;
    arena_init(&arena);
    fill(&pod, bytes, &container, &share);
    const struct pod *kept = pod_keep(&pod, &arena);
    assert_null(kept->count);
    assert_null(kept->model);
    assert_null(kept->note_error);
    assert_null(kept->container[0].count);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_pod_needs_nothing_of_the_bytes_it_came_in),
        cmocka_unit_test(what_is_not_set_stays_not_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
