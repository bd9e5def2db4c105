/*
 * The remaining room of a node: its GPUs, the amount that a pod takes, and the classes that fit.
 */
#include <string.h>

#include "core/rank/policy_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/placements.h"
#include "support/test.h"
#include "support/walk.h"

static struct kinds kinds;
static struct workload *no_workload;

static int set_up(void **state)
{
    no_workload = workload_new(NULL, 0);
    return atoms_set_up(state);
}

static int tear_down(void **state)
{
    kinds_done(&kinds);
    workload_unref(no_workload);
    return atoms_tear_down(state);
}

/* With kinds of this call only. */
static void measure(const struct room *room, struct remaining *out)
{
    kinds_done(&kinds);
    kinds_init(&kinds, no_workload);
    remaining_of(room, &kinds, out);
}

static struct gpu_room gpu_of(const char *model, uint32_t milli, uint32_t mib)
{
    return (struct gpu_room){.milli = milli,
                             .mib = mib,
                             .free_milli = milli,
                             .free_mib = mib,
                             .closed = REASON_NONE,
                             .model = atom(model)};
}

TEST(gpu_kind__takes_a_class_by_model_size_and_memory)
{
    static const char *t4[] = {"T4"};
    static const char *either[] = {"A100", "H100"};
    static const struct workload_class class[] = {
        {.parts = 1, .milli = 600, .count = 1},
        {.parts = 1, .milli = 601, .count = 1},
        {.parts = 1, .milli = 100, .count = 1, .share_mib = 16},
        {.parts = 1, .milli = 100, .count = 1, .share_mib = 17},
        {.parts = 2, .milli = 100, .count = 1, .n_models = 1, .model = t4},
        {.parts = 2, .milli = 100, .count = 1, .n_models = 2, .model = either},
        {.count = 1},
    };
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    struct gpu_kind kind = {.model = atom("NVIDIA-H100"), .milli = 600, .mib = 101};

    memset(kind.allowed_classes, 0xFF, sizeof kind.allowed_classes);
    gpu_kind_make(workload, &kind);
    assert_int_equal(kind.allowed_classes[0], 1U << 0 | 1U << 2 | 1U << 5);
    for (uint32_t w = 1; w < WORKLOAD_WORDS; w++)
        assert_int_equal(kind.allowed_classes[w], 0);
    kind = (struct gpu_kind){.model = atom("Tesla T4"), .milli = 1000, .mib = 170};
    gpu_kind_make(workload, &kind);
    assert_int_equal(kind.allowed_classes[0], 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3 | 1U << 4);
    kind.milli = 0; /* a GPU that is gone, whose size is not known */
    gpu_kind_make(workload, &kind);
    assert_int_equal(kind.allowed_classes[0], 0);
    workload_unref(workload);
}

TEST(gpu_kind__has_a_bit_for_the_last_of_many_classes)
{
    static struct workload_class class[WORKLOAD_CLASSES_MAX];
    for (uint32_t i = 0; i < ARRAY_LEN(class); i++)
        class[i] = (struct workload_class){
            .host = {i, 0}, .parts = i % 3 == 0, .milli = 1 + i, .count = 1};
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    struct gpu_kind kind = {.model = atom("A100"), .milli = 509, .mib = 1};

    gpu_kind_make(workload, &kind);
    for (uint32_t i = 0; i < ARRAY_LEN(class); i++)
        assert_int_equal(gpu_kind_takes(&kind, i), i % 3 == 0 && i < 509);
    workload_unref(workload);
}

TEST(remaining__contains_only_open_gpus)
{
    struct room room = {.n_gpus = 4, .host_known = true, .host = {5000, 600}};
    struct remaining remaining;
    room.gpu[0] = gpu_of("A100", 1000, 100);
    room.gpu[1] = gpu_of("T4", 1000, 100);
    room.gpu[2] = gpu_of("A100", 1000, 100);
    room.gpu[3] = gpu_of("A100", 500, 100);
    room.gpu[1].closed = REASON_CORDONED;
    room.gpu[2].free_milli = 300;

    measure(&room, &remaining);
    assert_int_equal(remaining.n_gpus, 3);
    assert_int_equal(remaining.free_milli, 1800);
    assert_int_equal(remaining.total_milli, 2500);
    assert_int_equal(remaining.host.cpu_milli, 5000);
    assert_int_equal(remaining.host.memory_mib, 600);
    static const uint16_t free_milli[] = {1000, 300, 500};
    static const uint8_t gpu[] = {0, 2, 3};
    static const uint8_t kind[] = {0, 0, 1};
    assert_memory_equal(remaining.free, free_milli, sizeof free_milli);
    assert_memory_equal(remaining.gpu, gpu, sizeof gpu);
    assert_memory_equal(remaining.kind, kind, sizeof kind);
    assert_ptr_equal(remaining.kinds, kinds.kind);
    assert_int_equal(kinds.count, 2); /* the kind of the closed GPU is not needed */

    room.closed = REASON_UNPLACED;
    measure(&room, &remaining);
    assert_int_equal(remaining.n_gpus, 0);
    assert_int_equal(remaining.free_milli, 0);
    assert_int_equal(remaining.total_milli, 0);
}

TEST(gpu_kind__is_shared_by_equal_model_milli_and_mib)
{
    struct room room = {.n_gpus = 6};
    struct remaining remaining;
    room.gpu[0] = gpu_of("A100", 1000, 100);
    room.gpu[1] = gpu_of("A100", 1000, 101);
    room.gpu[2] = gpu_of("A100", 999, 100);
    room.gpu[3] = gpu_of("T4", 1000, 100);
    room.gpu[4] = gpu_of("A100", 1000, 101);
    room.gpu[5] = gpu_of("A100", 1000, 100);

    measure(&room, &remaining);
    static const uint8_t kind[] = {0, 1, 2, 3, 1, 0};
    assert_memory_equal(remaining.kind, kind, sizeof kind);
    remaining_of(&room, &kinds, &remaining);
    assert_memory_equal(remaining.kind, kind, sizeof kind);
    assert_int_equal(kinds.count, 4);
}

/* Kinds first .. first + gpus - 1 of a row of kinds that differ by their memory. */
static void remaining_of_row(uint32_t first, uint32_t gpus, struct remaining *out)
{
    struct room room = {.n_gpus = gpus};
    for (uint32_t i = 0; i < gpus; i++)
        room.gpu[i] = gpu_of("A100", 1000, first + i);
    remaining_of(&room, &kinds, out);
    assert_int_equal(out->n_gpus, gpus);
    assert_int_equal(out->free_milli, gpus * 1000);
    assert_int_equal(out->total_milli, gpus * 1000);
    for (uint32_t i = 0; i < gpus; i++) {
        assert_in_range(out->kind[i], 0, kinds.count - 1);
        assert_int_equal(kinds.kind[out->kind[i]].mib, first + i);
    }
}

TEST(kinds__are_dropped_when_a_new_one_finds_no_space)
{
    struct remaining remaining;

    kinds_done(&kinds);
    kinds_init(&kinds, no_workload);
    for (uint32_t i = 0; i < KINDS_MAX; i += 32)
        remaining_of_row(i, 32, &remaining);
    assert_int_equal(kinds.count, KINDS_MAX);
    remaining_of_row(KINDS_MAX - 8, 8, &remaining); /* nothing new */
    assert_int_equal(kinds.count, KINDS_MAX);
    remaining_of_row(KINDS_MAX - 8, 9, &remaining); /* one is new */
    assert_int_equal(kinds.count, 9);
    remaining_of_row(KINDS_MAX - 8, 9, &remaining);
    assert_int_equal(kinds.count, 9);
}

/* Two GPUs, the first of them closed to shares, and two that are free. */
static void remaining_of_four(struct remaining *out)
{
    struct room room = {.n_gpus = 4, .host_known = true, .host = {5000, 600}};
    for (uint32_t i = 0; i < 4; i++)
        room.gpu[i] = gpu_of("A100", 1000, 100);
    room.gpu[0].closed = REASON_UNHEALTHY;
    measure(&room, out);
}

TEST(remaining_take__takes_the_peak_on_each_gpu)
{
    struct want want[] = {
        {.container = "i", .kind = CONTAINER_INIT, .parts = 1, .milli = 700},
        {.container = "a", .kind = CONTAINER_APP, .parts = 2, .milli = 300},
        {.container = "b", .kind = CONTAINER_APP, .parts = 1, .milli = 200},
    };
    const struct request request = {.n_wants = 3, .want = want, .host = {2000, 100}};
    const struct placement placement = {.n_parts = 4, .part = {{0, 1}, {1, 1}, {1, 3}, {2, 3}}};
    struct remaining remaining;

    remaining_of_four(&remaining);
    remaining_take(&remaining, &request, &placement);
    static const uint16_t free_milli[] = {300, 1000, 500};
    assert_memory_equal(remaining.free, free_milli, sizeof free_milli);
    assert_int_equal(remaining.free_milli, 1800);
    assert_int_equal(remaining.total_milli, 3000);
    assert_int_equal(remaining.host.cpu_milli, 3000);
    assert_int_equal(remaining.host.memory_mib, 500);
}

TEST(remaining_take__empties_a_known_host_and_keeps_an_unknown_one)
{
    const struct request request = {.host = {5000, 601}};
    const struct placement none = {.n_parts = 0};
    struct remaining remaining;

    remaining_of_four(&remaining);
    remaining_take(&remaining, &request, &none);
    assert_int_equal(remaining.free_milli, 3000);
    assert_int_equal(remaining.host.cpu_milli, 0);
    assert_int_equal(remaining.host.memory_mib, 0);
    remaining.host = (struct host){HOST_UNKNOWN, HOST_UNKNOWN};
    remaining_take(&remaining, &request, &none);
    assert_int_equal(remaining.host.cpu_milli, HOST_UNKNOWN);
    assert_int_equal(remaining.host.memory_mib, HOST_UNKNOWN);
}

TEST(remaining_take__agrees_with_room_take)
{
    uint64_t seed = 6;
    uint32_t placed = 0;
    for (int i = walk_steps(6000, 600); i > 0; i--) {
        struct want want = {.container = "c",
                            .parts = 1 + draw_below(&seed, 3),
                            .milli = 50 * (1 + draw_below(&seed, 20))};
        const struct request request = {
            .n_wants = 1, .want = &want, .host = {draw_below(&seed, 7000), 9}};
        struct room room;
        struct placement placement;
        struct remaining remaining;
        struct remaining after;
        draw_room_of(&seed, draw_below(&seed, 9), &room);
        measure(&room, &remaining);
        if (place_search(&room, &request, &placement) == REASON_NONE) {
            placed++;
            remaining_take(&remaining, &request, &placement);
            for (uint32_t p = 0; p < placement.n_parts; p++)
                room_take(&room, placement.part[p].gpu, want.milli);
            remaining_of(&room, &kinds, &after);
            assert_int_equal(remaining.n_gpus, after.n_gpus);
            assert_int_equal(remaining.free_milli, after.free_milli);
            assert_int_equal(remaining.free_milli, room.free_milli);
            assert_memory_equal(remaining.free, after.free,
                                remaining.n_gpus * sizeof *remaining.free);
        }
    }
    assert_true(placed > 100);
}

/* A score cache keeps kinds from question to question, and compares models by address. */
TEST(kinds__hold_their_models)
{
    struct names *names = names_new();
    struct room room = {.n_gpus = 2};
    struct remaining remaining;
    const struct atom *model = names_intern(names, TEXT("H100"));
    room.gpu[0] = room.gpu[1] =
        (struct gpu_room){.milli = 1000, .free_milli = 1000, .closed = REASON_NONE, .model = model};
    room.gpu[1].milli = room.gpu[1].free_milli = 500;

    measure(&room, &remaining);
    assert_int_equal(kinds.count, 2);
    names_sweep(names, SIZE_MAX / 4);
    assert_ptr_equal(names_find(names, TEXT("H100")), model);
    kinds_done(&kinds);
    assert_int_equal(kinds.count, 0);
    names_sweep(names, SIZE_MAX / 4);
    assert_null(names_find(names, TEXT("H100")));
    names_free(names);
}

TEST_GROUP(set_up, tear_down)
