/*
 * The rollout against a plain one, which looks at each step and each GPU, and against examples by
 * hand.
 */
#include "core/rank/policy_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static struct kinds kinds;

static uint64_t idle_of(const struct workload *workload, const struct room *room)
{
    struct remaining remaining;
    uint64_t work = 0;
    measure_room(room, workload, &remaining);
    return rollout_idle(workload, &remaining, &work);
}

/* Puts each part on the tightest GPU that has none of the others; false, and no change, if not. */
static bool slow_place(struct room *room, const struct workload_class *class)
{
    struct room after = *room;
    bool used[GPUS_PER_NODE_MAX] = {false};

    if (room->host_known && (room->host.cpu_milli < class->host.cpu_milli ||
                             room->host.memory_mib < class->host.memory_mib))
        return false;
    for (uint32_t p = 0; p < class->parts; p++) {
        uint32_t best = GPUS_PER_NODE_MAX;
        for (uint32_t i = 0; i < room->n_gpus; i++)
            if (!used[i] && room->gpu[i].closed == REASON_NONE &&
                room->gpu[i].free_milli >= class->milli && gpu_may_serve(&room->gpu[i], class) &&
                (best == GPUS_PER_NODE_MAX || room->gpu[i].free_milli < room->gpu[best].free_milli))
                best = i;
        if (best == GPUS_PER_NODE_MAX)
            return false;
        used[best] = true;
        after.gpu[best].free_milli -= class->milli;
        after.free_milli -= class->milli;
    }
    /* UINT32_MAX: unknown, so it does not run out. */
    after.host.cpu_milli -= room->host.cpu_milli == UINT32_MAX ? 0 : class->host.cpu_milli;
    after.host.memory_mib -= room->host.memory_mib == UINT32_MAX ? 0 : class->host.memory_mib;
    *room = after;
    return true;
}

static uint64_t slow_idle(const struct workload *workload, const struct room *room)
{
    uint64_t idle = 0;

    if (room->closed != REASON_NONE)
        return 0;
    if (workload->n_sequences == 0)
        return (uint64_t)room->free_milli * WORKLOAD_SEQUENCES;
    for (uint32_t s = 0; s < WORKLOAD_SEQUENCES; s++) {
        struct room filling = *room;
        for (uint32_t i = 0; i < WORKLOAD_LENGTH; i++)
            (void)slow_place(&filling, &workload->class[workload->sequence[s][i]]);
        idle += filling.free_milli;
    }
    return idle;
}

TEST(rollout__equals_the_plain_one)
{
    uint64_t seed = 2;
    for (int i = walk_steps(700, 60); i > 0; i--) {
        struct workload *workload = draw_workload(&seed, 30);
        struct room room;
        for (uint32_t gpus = 0; gpus < 9; gpus++) {
            draw_room_of(&seed, gpus, &room);
            assert_int_equal(idle_of(workload, &room), slow_idle(workload, &room));
        }
        if (i % 10 == 0) { /* the largest node */
            draw_room_of(&seed, GPUS_PER_NODE_MAX, &room);
            assert_int_equal(idle_of(workload, &room), slow_idle(workload, &room));
        }
        workload_unref(workload);
    }
}

/* Kinds that differ without any effect on the classes: only the way to the result differs. */
TEST(rollout__ignores_kinds_without_effect)
{
    uint64_t seed = 4;
    uint32_t checked = 0;
    for (int i = walk_steps(1500, 150); i > 0; i--) {
        struct workload_class class[20];
        const uint32_t classes = draw_classes(&seed, ARRAY_LEN(class), class);
        for (uint32_t c = 0; c < classes; c++) {
            class[c].n_models = 0;
            class[c].share_mib = 0;
            class[c].host.cpu_milli = c; /* else some would be equal now */
        }
        struct workload *workload = workload_new(class, classes);
        struct room room;
        struct remaining equal;
        draw_room_of(&seed, 2 + draw_below(&seed, 8), &room);
        for (uint32_t g = 0; g < room.n_gpus; g++)
            room.gpu[g].milli = GPU_MILLI;
        kinds_done(&kinds);
        kinds_init(&kinds, workload);
        remaining_of(&room, &kinds, &equal);
        struct remaining several = equal;
        if (equal.n_gpus > 1) {
            const uint32_t other = kinds.count;
            kinds.kind[other] = kinds.kind[equal.kind[0]];
            for (uint32_t g = 0; g < equal.n_gpus; g++)
                equal.kind[g] = several.kind[g] = equal.kind[0];
            several.kind[draw_below(&seed, equal.n_gpus)] = (uint8_t)other;
            checked++;
            uint64_t work = 0;
            assert_int_equal(rollout_idle(workload, &several, &work),
                             rollout_idle(workload, &equal, &work));
        }
        workload_unref(workload);
    }
    assert_true(checked > 100);
}

TEST(rollout__fills_a_node_until_no_pod_fits)
{
    const struct workload_class class[] = {
        {.host = {1000, 100}, .parts = 1, .milli = 300, .count = 1}};
    struct workload *workload = workload_new(class, 1);
    struct room room = {
        .n_gpus = 2, .host_known = true, .host = {96000, 100000}, .free_milli = 1900};
    for (uint32_t i = 0; i < 2; i++)
        room.gpu[i] = (struct gpu_room){
            .milli = GPU_MILLI, .free_milli = GPU_MILLI - 100 * i, .model = atom("A100")};
    /* Six pods leave 100 milli on the first and nothing on the second. */
    assert_int_equal(idle_of(workload, &room), 100 * WORKLOAD_SEQUENCES);
    room.host.cpu_milli = 4999; /* four pods */
    assert_int_equal(idle_of(workload, &room), 700 * WORKLOAD_SEQUENCES);
    room.host.memory_mib = 300; /* three pods */
    assert_int_equal(idle_of(workload, &room), 1000 * WORKLOAD_SEQUENCES);
    room.host_known = false;
    assert_int_equal(idle_of(workload, &room), 100 * WORKLOAD_SEQUENCES);
    workload_unref(workload);
}

/* A set of its holes uses each bit of a number. */
TEST(rollout__fills_the_largest_node_of_two_models)
{
    const struct workload_class class[] = {{.parts = 1, .milli = GPU_MILLI, .count = 1}};
    struct workload *workload = workload_new(class, 1);
    struct room room = {.n_gpus = GPUS_PER_NODE_MAX, .free_milli = GPUS_PER_NODE_MAX * GPU_MILLI};
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        room.gpu[i] = (struct gpu_room){
            .milli = GPU_MILLI, .free_milli = GPU_MILLI, .model = atom(i % 2 == 0 ? "A100" : "T4")};
    assert_int_equal(idle_of(workload, &room), 0);
    workload_unref(workload);
}

/* Each pod that is tried is work: more of it on more GPUs, and on GPUs of several kinds. */
TEST(rollout__counts_each_try_as_work)
{
    const struct workload_class class[] = {{.parts = 2, .milli = 500, .count = 1}};
    struct workload *workload = workload_new(class, 1);
    struct remaining remaining = {.host = {HOST_UNKNOWN, HOST_UNKNOWN},
                                  .n_gpus = 4,
                                  .free_milli = 4000,
                                  .total_milli = 4000,
                                  .free = {1000, 1000, 1000, 1000},
                                  .kinds = kinds.kind};
    uint64_t work = 7;
    kinds_done(&kinds);
    kinds_init(&kinds, workload);
    for (uint32_t i = 0; i < 2; i++) {
        kinds.kind[i] = (struct gpu_kind){.model = atom("A100"), .milli = GPU_MILLI, .mib = i};
        gpu_kind_make(workload, &kinds.kind[i]);
    }
    /* Four pods fill the node, and then no other is tried. */
    assert_int_equal(rollout_idle(workload, &remaining, &work), 0);
    assert_int_equal(work, 7 + WORKLOAD_SEQUENCES * 4 * (10 + 4 / 2));
    remaining.kind[2] = 1;
    work = 0;
    assert_int_equal(rollout_idle(workload, &remaining, &work), 0);
    assert_int_equal(work, WORKLOAD_SEQUENCES * 4 * (12 + 4 * (1 + 2) * 3 / 2));
    remaining.kind[2] = 0;
    kinds.kind[0].allowed_classes[0] = 0; /* a class without a place is not tried */
    work = 0;
    assert_int_equal(rollout_idle(workload, &remaining, &work), 4000 * WORKLOAD_SEQUENCES);
    assert_int_equal(work, 0);
    remaining.free_milli = 0;
    assert_int_equal(rollout_idle(workload, &remaining, &work), 0);
    assert_int_equal(work, 0);
    workload_unref(workload);
}

TEST(rollout__leaves_everything_idle_without_pods)
{
    const struct workload_class class[] = {{.host = {1000, 100}, .count = 5}};
    struct room room = {.n_gpus = 1, .free_milli = 700};
    room.gpu[0] = (struct gpu_room){.milli = GPU_MILLI, .free_milli = 700, .model = atom("A100")};
    struct workload *workload = workload_new(class, 1);
    assert_int_equal(idle_of(workload, &room), 700 * WORKLOAD_SEQUENCES);
    workload_unref(workload);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
