/*
 * Places for pods of several GPUs, and what they cost, against plain counting and by hand.
 */
#include "core/rank/score_cache.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static uint32_t slow_slots(const struct room *room, const struct workload_class *class)
{
    uint64_t gpus = 0;
    uint64_t slots = 0;

    for (uint32_t i = 0; i < room->n_gpus; i++)
        gpus += room->closed == REASON_NONE && room->gpu[i].closed == REASON_NONE &&
                room->gpu[i].free_milli >= class->milli && gpu_may_serve(&room->gpu[i], class);
    const bool cpu = room->host_known && room->host.cpu_milli != UINT32_MAX;
    const bool memory = room->host_known && room->host.memory_mib != UINT32_MAX;
    while ((slots + 1) * class->parts <= gpus &&
           (!cpu || (slots + 1) * class->host.cpu_milli <= room->host.cpu_milli) &&
           (!memory || (slots + 1) * class->host.memory_mib <= room->host.memory_mib))
        slots++;
    return (uint32_t)slots;
}

TEST(class_capacity__equals_a_plain_count)
{
    uint64_t seed = 5;
    for (int i = walk_steps(4000, 200); i > 0; i--) {
        struct workload *workload = draw_workload(&seed, 40);
        struct room room;
        struct remaining remaining;
        struct class_capacity slots;
        draw_room_of(&seed, draw_below(&seed, i % 8 == 0 ? GPUS_PER_NODE_MAX + 1 : 9), &room);
        measure_room(&room, workload, &remaining);
        class_capacity_of(workload, &remaining, &slots);
        for (uint32_t s = 0; s < workload->n_scarce; s++)
            assert_int_equal(slots.count[s],
                             slow_slots(&room, &workload->class[workload->scarce[s]]));
        workload_unref(workload);
    }
}

/*
 * Takes something from some GPUs and from the host, as a placement does. Often a GPU is left with
 * exactly a part of some class.
 */
static struct remaining some_less(uint64_t *seed, const struct workload *workload,
                                  const struct remaining *before, const struct host *asked)
{
    struct remaining after = *before;

    for (uint32_t i = 0; i < after.n_gpus && workload->n_classes > 0; i++) {
        const uint32_t part = workload->class[draw_below(seed, workload->n_classes)].milli;
        if (draw_below(seed, 3) == 0)
            after.free[i] = (uint16_t)draw_below(seed, after.free[i] + 1U);
        else if (part < after.free[i])
            after.free[i] = (uint16_t)part;
    }
    after.host.cpu_milli = host_less(after.host.cpu_milli, asked->cpu_milli);
    after.host.memory_mib = host_less(after.host.memory_mib, asked->memory_mib);
    return after;
}

TEST(places_lost__is_the_difference_of_two_counts)
{
    uint64_t seed = 6;
    uint32_t lost = 0;

    for (int i = walk_steps(4000, 400); i > 0; i--) {
        struct workload *workload = draw_workload(&seed, 40);
        const struct host asked = {draw_below(&seed, 9000), draw_below(&seed, 40000)};
        struct room room;
        struct remaining before;
        struct class_capacity fit_before, fit_after;
        struct places places;
        struct loss loss = {0};

        draw_room_of(&seed, draw_below(&seed, i % 8 == 0 ? GPUS_PER_NODE_MAX + 1 : 9), &room);
        measure_room(&room, workload, &before);
        const struct remaining after = some_less(&seed, workload, &before, &asked);
        class_capacity_of(workload, &before, &fit_before);
        class_capacity_of(workload, &after, &fit_after);
        places_of(workload, &before, &asked, &places);
        places_lost(workload, &places, &before, &after, &loss);
        for (uint32_t s = 0; s < workload->n_scarce; s++) {
            assert_int_equal(loss.count[s], fit_before.count[s] - fit_after.count[s]);
            lost += loss.count[s];
        }
        workload_unref(workload);
    }
    assert_true(lost > 0);
}

/* 100 pods of 500 milli, 10 of two GPUs and 5 of eight: 110 GPUs. 220 are free, except in the last
 * row: 20 pods of two GPUs and 10 of eight are expected, and at least one of each is stock. */
TEST(scarcity_price__grows_with_the_square_of_the_demand)
{
    static const struct workload_class class[] = {
        {.parts = 1, .milli = 500, .count = 100},
        {.parts = 8, .milli = 1000, .count = 5},
        {.parts = 2, .milli = 1000, .count = 10},
    };
    static const struct {
        struct supply supply;
        int64_t of_two, of_eight;
    } row[] = {
        /* rho is 21 / 42 and 11 / 44 */
        {{.slots = {42, 44}, .free_milli = 220000, .nodes = 40}, 7500 * 2 / 4, 7500 * 8 / 16},
        {{.slots = {42, 44}, .free_milli = 220000, .nodes = 239}, 7500 * 2 / 4, 7500 * 8 / 16},
        /* two are stock; rho is 22 / 42 and 12 / 36, rounded down */
        {{.slots = {42, 36}, .free_milli = 220000, .nodes = 240}, 4115, 6666},
        /* no more room than is needed: the full price */
        {{.slots = {0, 11}, .free_milli = 220000}, 7500 * 2, 7500 * 8},
        /* 60000 x (11 / 12)^2, a little below */
        {{.slots = {1, 12}, .free_milli = 220000}, 7500 * 2, 50416},
        /* 60000 / 10^6, rounded down */
        {{.slots = {1, 1000}, .free_milli = 0}, 7500 * 2, 0},
    };
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    int64_t price[WORKLOAD_SCARCE_MAX] = {0};

    assert_int_equal(workload->gpu_milli, 110000);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        scarcity_prices(workload, &row[i].supply, price);
        assert_int_equal(price[0], row[i].of_two);
        assert_int_equal(price[1], row[i].of_eight);
        assert_int_equal(price[2], 0); /* not filled */
    }
    workload_unref(workload);
}

TEST(scarcity_price__does_not_overflow_in_the_largest_cluster)
{
    static const struct workload_class small[] = {
        {.parts = 2, .milli = 1, .count = WORKLOAD_COUNT_MAX}};
    static const struct workload_class large[] = {
        {.parts = GPUS_PER_NODE_MAX, .milli = GPU_MILLI, .count = WORKLOAD_COUNT_MAX}};
    const uint64_t most = (uint64_t)NODES_MAX * GPUS_PER_NODE_MAX;
    int64_t price[WORKLOAD_SCARCE_MAX] = {0};
    /* 2^31 x 1000 / 1024 pods of two milli are expected, and 546 are stock. */
    struct supply supply = {.slots = {most}, .free_milli = most * GPU_MILLI, .nodes = NODES_MAX};

    struct workload *workload = workload_new(small, 1);
    scarcity_prices(workload, &supply, price);
    assert_int_equal(price[0], 7500 * 2);
    workload_unref(workload);
    workload = workload_new(large, 1);
    supply.slots[0] = NODES_MAX;
    scarcity_prices(workload, &supply, price);
    assert_int_equal(price[0], 7500 * GPUS_PER_NODE_MAX);
    supply.slots[0] = 2 * (NODES_MAX + 546);
    scarcity_prices(workload, &supply, price);
    assert_int_equal(price[0], 7500 * GPUS_PER_NODE_MAX / 4);
    workload_unref(workload);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
