/*
 * Fragmentation against its definition, computed from the room and the classes themselves.
 * unit.core.fragment has examples by hand.
 */
#include "core/rank/policy_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static uint64_t fragment_of(const struct workload *workload, const struct room *room)
{
    struct remaining remaining;
    measure_room(room, workload, &remaining);
    return fgd_fragment(workload, &remaining);
}

static uint32_t unusable_by(const struct room *room, const struct workload_class *class)
{
    uint32_t unusable = 0;
    uint32_t fits = 0;

    for (uint32_t i = 0; i < room->n_gpus; i++) {
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

TEST_GROUP(atoms_set_up, atoms_tear_down)
