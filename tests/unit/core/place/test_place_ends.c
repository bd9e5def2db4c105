/* The search for several containers: its steps, its limits, and the answers at these limits. */
#include <stdio.h>
#include <string.h>

#include "milligpu/core/rank/policy.h"

#include "core/place/place_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"

enum { ISLAND = 8, MANY = 17, ALL_STEPS = 1 << 20 };

static uint64_t peer(uint32_t gpu)
{
    return (uint64_t)1 << gpu;
}

/* GPUs in islands of eight, each of which is a NUMA node, too. */
static void open_islands(struct room *room, uint32_t gpus, uint32_t free_milli)
{
    *room = (struct room){.n_gpus = gpus};
    for (uint32_t i = 0; i < gpus; i++) {
        room->gpu[i] = (struct gpu_room){.milli = GPU_MILLI,
                                         .free_milli = free_milli,
                                         .model = atom("A100"),
                                         .socket = 1 + i / ISLAND};
        room->free_milli += free_milli;
        for (uint32_t k = 0; k < gpus; k++)
            room->gpu[i].peers |= k != i && k / ISLAND == i / ISLAND ? peer(k) : 0;
    }
}

static void drop_links(struct room *room)
{
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        room->gpu[i].peers = 0;
        room->gpu[i].socket = 0;
    }
}

/* Containers of two parts; their milli differ, so that no two are equal. */
struct asking {
    struct want want[MANY];
    struct request request;
    struct plan plan;
};

static void ask_pairs(struct asking *asking, uint32_t wants, uint32_t milli, uint32_t step_milli,
                      enum topology topology)
{
    assert_true(wants <= MANY);
    for (uint32_t i = 0; i < wants; i++)
        asking->want[i] =
            (struct want){.container = "c", .parts = 2, .milli = milli + i * step_milli};
    asking->request =
        (struct request){.n_wants = wants, .want = asking->want, .topology = topology};
    plan_init(&asking->plan, &asking->request, NULL);
}

/* Linked GPUs were not found, so one NUMA node and then all GPUs were searched, too. */
TEST(rank__sums_the_steps_of_each_distance)
{
    struct asking asking;
    struct rank linked;
    struct rank plain;
    struct rank all;
    struct room room;

    /* Two GPUs are linked, and have room for one pair. */
    open_islands(&room, 12, 600);
    drop_links(&room);
    room.gpu[0].peers = peer(1);
    room.gpu[1].peers = peer(0);
    ask_pairs(&asking, 3, 301, 1, TOPOLOGY_NVLINK);
    assert_int_equal(place_evaluate(&asking.plan, &room, &linked), REASON_ROOM);
    ask_pairs(&asking, 3, 301, 1, TOPOLOGY_ANY);
    assert_int_equal(place_evaluate(&asking.plan, &room, &all), REASON_NONE);
    assert_int_equal(all.distance, DISTANCE_ANYWHERE);
    drop_links(&room);
    assert_int_equal(place_evaluate(&asking.plan, &room, &plain), REASON_NONE);
    assert_true(plain.steps > 0);
    assert_int_equal(all.charge_milli, plain.charge_milli);
    assert_true(all.steps > linked.steps + plain.steps);
    assert_true(all.steps < 3 * (linked.steps + plain.steps));
}

TEST(rank__takes_one_step_per_distance_for_more_than_all_free)
{
    struct asking asking;
    struct rank rank;
    struct room room;

    open_islands(&room, 2, 500);
    ask_pairs(&asking, 2, 300, 1, TOPOLOGY_ANY);
    assert_int_equal(place_evaluate(&asking.plan, &room, &rank), REASON_ROOM);
    assert_int_equal(rank.steps, 3);
    assert_true(rank.exact);
    ask_pairs(&asking, 2, 300, 1, TOPOLOGY_NVLINK);
    assert_int_equal(place_evaluate(&asking.plan, &room, &rank), REASON_ROOM);
    assert_int_equal(rank.steps, 1);
    assert_true(rank.exact);
}

/* Rows x GPUs is bounded: a larger request is unsearched, not refused. */
TEST(search__leaves_a_request_above_cells_max_unsearched)
{
    struct asking asking;
    struct placement found;
    struct rank rank;
    struct room room;

    open_islands(&room, GPUS_PER_NODE_MAX, GPU_MILLI);
    static_assert((MANY - 1) * GPUS_PER_NODE_MAX == CELLS_MAX, "one more container is too large");
    ask_pairs(&asking, MANY, 10, 1, TOPOLOGY_NVLINK);
    asking.plan.steps = ALL_STEPS;
    assert_int_equal(place_evaluate(&asking.plan, &room, &rank), REASON_UNSEARCHED);
    assert_false(rank.exact);
    assert_int_equal(rank.steps, 1);
    ask_pairs(&asking, MANY - 1, 10, 1, TOPOLOGY_NVLINK);
    asking.plan.steps = ALL_STEPS;
    assert_int_equal(place_evaluate(&asking.plan, &room, &rank), REASON_NONE);
    assert_int_equal(rank.distance, DISTANCE_LINKED);
    /* Without a demand it fits; whether a nearer placement does is unknown. */
    ask_pairs(&asking, MANY, 10, 1, TOPOLOGY_ANY);
    assert_int_equal(place_find(&asking.plan, &room, &rank, &found), REASON_NONE);
    assert_int_equal(found.distance, DISTANCE_ANYWHERE);
    assert_false(found.exact);
}

/* Equal wants are one row where they may lie anywhere, and two where each needs linked GPUs. */
TEST(place_any__writes_linked_placements_want_by_want)
{
    struct asking asking;
    struct placement found;
    struct rank rank;
    struct room room;
    uint32_t first[2] = {0};
    uint32_t parts[2] = {0};

    open_islands(&room, 16, GPU_MILLI);
    ask_pairs(&asking, 2, 700, 0, TOPOLOGY_NVLINK);
    assert_int_equal(place_any(&asking.plan, &room, &rank, &found), REASON_NONE);
    assert_int_equal(found.distance, DISTANCE_LINKED);
    assert_int_equal(found.n_parts, 4);
    for (uint32_t i = 0; i < found.n_parts; i++) {
        const uint32_t want = found.part[i].want;
        assert_true(want < 2);
        if (parts[want]++ == 0)
            first[want] = found.part[i].gpu;
        assert_int_equal(found.part[i].gpu / ISLAND, first[want] / ISLAND);
    }
    assert_int_equal(parts[0], 2);
    assert_int_equal(parts[1], 2);
    /* Anywhere: place_any() writes them as one row. */
    drop_links(&room);
    ask_pairs(&asking, 2, 700, 0, TOPOLOGY_ANY);
    assert_int_equal(place_any(&asking.plan, &room, &rank, &found), REASON_NONE);
    assert_int_equal(found.n_parts, 4);
    for (uint32_t i = 1; i < found.n_parts; i++)
        assert_true(found.part[i].want != found.part[i - 1].want ||
                    found.part[i].gpu != found.part[i - 1].gpu);
}

/*
 * Two GPUs that the containers fill to the last milli. The search with the largest first finds that
 * at once; the walk in the order of rule 5 may run out of steps before.
 */
static void fill_two_gpus(struct asking *asking, struct room *room, uint64_t *seed)
{
    uint32_t left = 2 * GPU_MILLI;

    open_islands(room, 6, GPU_MILLI);
    drop_links(room);
    for (uint32_t i = 0; i < MANY; i++) {
        const uint32_t milli = 40 + draw_below(seed, 140);
        asking->want[i] = (struct want){.container = "c", .parts = 1, .milli = milli};
        left -= milli;
        if (i + 1 == MANY || left < 40 + 180) {
            asking->want[i].milli += left;
            asking->request = (struct request){.n_wants = i + 1, .want = asking->want};
            break;
        }
    }
    plan_init(&asking->plan, &asking->request, NULL);
    asking->plan.steps = ALL_STEPS;
}

/* The cost is the least, and yet another layout of that cost may come first by rule 5. */
TEST(policy_score_room__is_inexact_until_rule_5_is_settled)
{
    const struct node_build build = {.name = atom("n"), .uid = atom("u"), .problem_text = atom("")};
    struct node *node = node_new(&build);
    const struct policy_question question = {.node = node, .slot = SNAPSHOT_NO_SLOT};
    struct asking asking;
    struct placement found;
    struct rank without;
    struct rank rank;
    struct room room;
    uint64_t seed = 5;
    uint32_t unsettled = 0;

    for (int i = 0; i < 60; i++) {
        fill_two_gpus(&asking, &room, &seed);
        assert_int_equal(policy_score_room(&question, &asking.plan, &room, &without, NULL),
                         REASON_NONE);
        assert_int_equal(policy_score_room(&question, &asking.plan, &room, &rank, &found),
                         REASON_NONE);
        assert_int_equal(rank.exact, found.exact);
        assert_int_equal(rank.charge_milli, without.charge_milli);
        assert_true(without.exact || !rank.exact);
        unsettled += without.exact && !rank.exact;
    }
    print_message("%u of 60 unsettled\n", unsettled);
    assert_in_range(unsettled, 3, 57);
    node_unref(node);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
