/*
 * Fragmentation against its definition, computed from the room and the classes themselves, and
 * against examples by hand.
 */
#include "core/rank/policy_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static struct kinds kinds;

static uint64_t fragment_of(const struct workload *workload, const struct room *room)
{
    struct remaining remaining;
    kinds_done(&kinds);
    kinds_init(&kinds, workload);
    remaining_of(room, &kinds, &remaining);
    return fgd_fragment(workload, &remaining);
}

static uint32_t unusable_by(const struct room *room, const struct workload_class *class)
{
    uint32_t unusable = 0;
    uint32_t fits = 0;

    for (uint32_t i = 0; i < room->gpus; i++) {
        const struct gpu_room *gpu = &room->gpu[i];
        if (gpu->closed != REASON_NONE)
            continue;
        if (class->parts > 0 && gpu->free_milli >= class->milli && gpu_may_serve(gpu, class))
            fits++;
        else
            unusable += gpu->free_milli;
    }
    if (class->parts == 0 || fits < class->parts)
        return room->free_milli;
    return room->host_known && room->host.cpu_milli < class->host.cpu_milli ? room->free_milli
                                                                            : unusable;
}

static uint64_t slow_fragment(const struct workload *workload, const struct room *room)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < workload->n_typical; t++) {
        const struct workload_typical *shape = &workload->typical[t];
        sum += (uint64_t)shape->count * unusable_by(room, &workload->class[shape->class]);
    }
    return room->closed == REASON_NONE ? sum : 0;
}

TEST(fgd_fragment__equals_its_definition)
{
    uint64_t seed = 1;
    for (int i = walk_steps(4000, 200); i > 0; i--) {
        struct workload *workload = draw_workload(&seed, 30);
        struct room room;
        for (uint32_t gpus = 0; gpus < 9; gpus++) {
            draw_room_of(&seed, gpus, &room);
            assert_int_equal(fragment_of(workload, &room), slow_fragment(workload, &room));
        }
        workload_unref(workload);
    }
}

/* GPUs of 1000, 400 and 190 free milli, and 8 cores. */
static uint64_t fragment_for(const struct workload_class *class)
{
    static const uint32_t free_milli[] = {1000, 400, 190};
    struct workload *workload = workload_new(class, 1);
    struct room room = {.gpus = 3, .host_known = true, .host = {8000, 0}, .free_milli = 1590};
    for (uint32_t i = 0; i < room.gpus; i++)
        room.gpu[i] = (struct gpu_room){
            .milli = GPU_MILLI, .free_milli = free_milli[i], .model = atom(i == 1 ? "T4" : "A100")};
    const uint64_t fragment = fragment_of(workload, &room);
    workload_unref(workload);
    return fragment;
}

TEST(fgd_fragment__is_the_room_that_a_pod_cannot_use)
{
    static const char *t4[] = {"T4"};
    static const char *h100[] = {"H100"};
    struct workload_class class = {.parts = 1, .milli = 200, .count = 3};
    assert_int_equal(fragment_for(&class), 3 * 190);
    class.milli = 190;
    assert_int_equal(fragment_for(&class), 0);
    class.milli = 401;
    assert_int_equal(fragment_for(&class), 3 * 590);
    class = (struct workload_class){.parts = 2, .milli = 400, .count = 1};
    assert_int_equal(fragment_for(&class), 190);
    class.milli = 401; /* only one GPU has that */
    assert_int_equal(fragment_for(&class), 1590);
    class = (struct workload_class){.parts = 1, .milli = 100, .count = 1, .host = {8000, 1 << 20}};
    assert_int_equal(fragment_for(&class), 0);
    class.host.cpu_milli = 8001;
    assert_int_equal(fragment_for(&class), 1590);
    class = (struct workload_class){.parts = 1, .milli = 100, .count = 1, .models = 1, .model = t4};
    assert_int_equal(fragment_for(&class), 1190);
    class.model = h100;
    assert_int_equal(fragment_for(&class), 1590);
    class = (struct workload_class){.count = 2, .host = {1000, 0}};
    assert_int_equal(fragment_for(&class), 2 * 1590);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
