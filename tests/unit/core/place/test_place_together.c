/* Rule b for one container: large rooms, irregular links, every choice of a policy. */
#include <stdio.h>
#include <string.h>

#include "milligpu/core/rank/policy.h"

#include "core/place/place_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static void open_room(struct room *room, uint32_t gpus)
{
    *room = (struct room){.n_gpus = gpus};
    for (uint32_t i = 0; i < gpus; i++) {
        room->gpu[i] =
            (struct gpu_room){.milli = GPU_MILLI, .free_milli = GPU_MILLI, .model = atom("A100")};
        room->free_milli += GPU_MILLI;
    }
}

static void set_free(struct room *room, uint32_t gpu, uint32_t milli)
{
    room->free_milli -= room->gpu[gpu].free_milli - milli;
    room->gpu[gpu].free_milli = milli;
}

static void link(struct room *room, uint32_t a, uint32_t b)
{
    room->gpu[a].peers |= (uint64_t)1 << b;
    room->gpu[b].peers |= (uint64_t)1 << a;
}

static void link_islands(struct room *room, uint32_t size)
{
    for (uint32_t i = 0; i < room->n_gpus; i++)
        for (uint32_t k = 0; k < i; k++)
            if (i / size == k / size)
                link(room, i, k);
}

struct asking {
    struct want want;
    struct request request;
    struct plan plan;
    struct placement found;
};

static enum reason ask(struct asking *asking, const struct room *room, uint32_t parts,
                       uint32_t milli, enum topology topology, enum place_choice choice)
{
    struct rank rank;

    asking->want = (struct want){.container = "c", .parts = parts, .milli = milli};
    asking->request = (struct request){.n_wants = 1, .want = &asking->want, .topology = topology};
    plan_init(&asking->plan, &asking->request, NULL);
    assert_int_equal(asking->plan.topology, topology);
    asking->plan.choice = choice;
    const enum reason why = place_find(&asking->plan, room, &rank, &asking->found);
    assert_int_equal(place_evaluate(&asking->plan, room, &rank), why);
    assert_int_equal(rank.exact, asking->found.exact);
    if (why != REASON_NONE)
        return why;
    assert_int_equal(rank.distance, asking->found.distance);
    assert_int_equal(rank.charge_milli, parts * milli);
    assert_int_equal(rank.left_milli, asking->found.left_milli);
    assert_int_equal(asking->found.n_parts, parts);
    return why;
}

static gpu_set set_of(const struct placement *placement)
{
    gpu_set set = 0;

    for (uint32_t i = 0; i < placement->n_parts; i++) {
        assert_true(i == 0 || placement->part[i - 1].gpu < placement->part[i].gpu);
        set |= one_gpu(placement->part[i].gpu);
    }
    return set;
}

/*
 * Each set of GPUs, judged by the words of the rules
 */

struct best {
    bool any;
    enum distance distance;
    uint32_t weight;
    gpu_set set;
};

static bool all_linked(const struct room *room, gpu_set set)
{
    for (uint32_t a = 0; a < room->n_gpus; a++)
        for (uint32_t b = 0; b < a; b++)
            if ((set & one_gpu(a)) != 0 && (set & one_gpu(b)) != 0 &&
                (room->gpu[a].peers >> b & 1) == 0)
                return false;
    return true;
}

static bool one_numa_node(const struct room *room, gpu_set set)
{
    const uint32_t socket = room->gpu[first_of(set)].socket;

    for (uint32_t a = 0; a < room->n_gpus; a++)
        if ((set & one_gpu(a)) != 0 && (socket == 0 || room->gpu[a].socket != socket))
            return false;
    return true;
}

static uint32_t weight_of(const struct room *room, gpu_set set, enum place_choice choice)
{
    uint32_t weight = 0;

    for (; set != 0 && choice != PLACE_FIRST; set &= ~one_gpu(first_of(set))) {
        const uint32_t milli = room->gpu[first_of(set)].free_milli;
        weight += choice == PLACE_TIGHTEST ? milli : GPU_MILLI - milli;
    }
    return weight;
}

static void try_sets(const struct room *room, uint32_t parts, uint32_t milli,
                     enum topology topology, enum place_choice choice, struct best *best)
{
    *best = (struct best){.any = false};
    for (uint32_t bits = 1; bits < 1U << room->n_gpus; bits++) {
        gpu_set set = 0;
        bool fits = (uint32_t)__builtin_popcount(bits) == parts;
        for (uint32_t i = 0; fits && i < room->n_gpus; i++) {
            fits = (bits >> i & 1) == 0 || room->gpu[i].free_milli >= milli;
            set |= (bits >> i & 1) != 0 ? one_gpu(i) : 0;
        }
        if (!fits || (topology == TOPOLOGY_NVLINK && !all_linked(room, set)) ||
            (topology == TOPOLOGY_NUMA && !one_numa_node(room, set)))
            continue;
        const enum distance distance = all_linked(room, set)      ? DISTANCE_LINKED
                                       : one_numa_node(room, set) ? DISTANCE_NUMA
                                                                  : DISTANCE_ANYWHERE;
        const uint32_t weight = weight_of(room, set, choice);
        if (best->any && (distance != best->distance ? distance > best->distance
                          : weight != best->weight   ? weight > best->weight
                                                     : set < best->set))
            continue;
        *best = (struct best){true, distance, weight, set};
    }
}

TEST(place_choice__takes_the_best_of_all_sets)
{
    static const enum place_choice choices[] = {PLACE_TIGHTEST, PLACE_LOOSEST, PLACE_FIRST};
    uint64_t seed = 3;
    uint32_t distance[DISTANCE_ANYWHERE + 1] = {0};

    for (int i = 0; i < walk_steps(6000, 2000); i++) {
        struct room room;
        struct asking asking;
        struct best best;
        const uint32_t dense = draw_below(&seed, 5);
        const uint32_t parts = 2 + draw_below(&seed, 3);
        const enum topology topology = (enum topology)draw_below(&seed, TOPOLOGIES);
        const enum place_choice choice = choices[draw_below(&seed, ARRAY_LEN(choices))];
        const uint32_t sockets = draw_below(&seed, 4);
        open_room(&room, parts + draw_below(&seed, 5));
        for (uint32_t a = 0; a < room.n_gpus; a++) {
            set_free(&room, a, 300 + 100 * draw_below(&seed, 4));
            room.gpu[a].socket = sockets > 0 ? draw_below(&seed, sockets + 1) : 0;
            for (uint32_t b = 0; b < a; b++)
                if (draw_below(&seed, 5) < dense)
                    link(&room, a, b);
        }
        try_sets(&room, parts, 400, topology, choice, &best);
        const enum reason why = ask(&asking, &room, parts, 400, topology, choice);
        assert_int_equal(why == REASON_NONE, best.any);
        if (!best.any)
            continue;
        assert_true(asking.found.exact);
        assert_int_equal(asking.found.distance, best.distance);
        assert_int_equal(set_of(&asking.found), best.set);
        distance[best.distance]++;
    }
    print_message("%u linked, %u on one NUMA node, %u anywhere\n", distance[0], distance[1],
                  distance[2]);
    for (uint32_t i = 0; i <= DISTANCE_ANYWHERE; i++)
        assert_true(distance[i] > 50);
}

/* Islands of any size are searched to the end in few steps. */
TEST(islands__are_searched_to_the_end)
{
    static const enum place_choice choices[] = {PLACE_TIGHTEST, PLACE_LOOSEST, PLACE_FIRST};
    static const uint32_t sizes[] = {2, 4, 8, 16, 32, 64};
    uint64_t seed = 5;

    for (int i = 0; i < 600; i++) {
        struct room room;
        struct asking asking;
        struct rank rank;
        const uint32_t size = sizes[draw_below(&seed, ARRAY_LEN(sizes))];
        const uint32_t parts = 2 + draw_below(&seed, size - 1);
        const uint32_t frees = 1 + draw_below(&seed, 900);
        open_room(&room, 64);
        link_islands(&room, size);
        for (uint32_t a = 0; a < room.n_gpus; a++)
            set_free(&room, a, 100 + draw_below(&seed, frees));
        assert_int_equal(ask(&asking, &room, parts, 100, TOPOLOGY_NVLINK, choices[i % 3]),
                         REASON_NONE);
        assert_true(asking.found.exact);
        assert_true(all_linked(&room, set_of(&asking.found)));
        assert_int_equal(place_evaluate(&asking.plan, &room, &rank), REASON_NONE);
        assert_in_range(rank.steps, parts, 600);
        /* One GPU more than an island has: anywhere, and the answer is exact. */
        if (size == 64)
            continue;
        assert_int_equal(ask(&asking, &room, size + 1, 100, TOPOLOGY_NVLINK, choices[i % 3]),
                         REASON_TOPOLOGY);
        assert_int_equal(ask(&asking, &room, size + 1, 100, TOPOLOGY_ANY, choices[i % 3]),
                         REASON_NONE);
        assert_int_equal(asking.found.distance, DISTANCE_ANYWHERE);
        assert_true(asking.found.exact);
    }
}

/* Each GPU is linked with all but its opposite, so at most 32 are all linked. */
static void link_all_but_opposites(struct room *room)
{
    for (uint32_t a = 0; a < room->n_gpus; a++)
        for (uint32_t b = 0; b < a; b++)
            if (a / 2 != b / 2)
                link(room, a, b);
}

TEST(irregular_links__make_the_answer_inexact_when_steps_run_out)
{
    struct room room;
    struct asking asking;
    uint64_t seed = 11;

    open_room(&room, 64);
    link_all_but_opposites(&room);
    for (uint32_t i = 0; i < 64; i++)
        set_free(&room, i, 500 + draw_below(&seed, 100));
    assert_int_equal(ask(&asking, &room, 32, 100, TOPOLOGY_NVLINK, PLACE_FIRST), REASON_NONE);
    assert_true(asking.found.exact);
    assert_int_equal(asking.found.distance, DISTANCE_LINKED);
    /* 33 do not exist, but the proof takes 2^32 steps. */
    assert_int_equal(ask(&asking, &room, 33, 100, TOPOLOGY_NVLINK, PLACE_TIGHTEST),
                     REASON_UNSEARCHED);
    assert_false(asking.found.exact);
    assert_int_equal(ask(&asking, &room, 33, 100, TOPOLOGY_ANY, PLACE_TIGHTEST), REASON_NONE);
    assert_int_equal(asking.found.distance, DISTANCE_ANYWHERE);
    assert_false(asking.found.exact);
    for (uint32_t i = 0; i < 64; i++)
        room.gpu[i].socket = 1 + i / 40;
    assert_int_equal(ask(&asking, &room, 33, 100, TOPOLOGY_ANY, PLACE_TIGHTEST), REASON_NONE);
    assert_int_equal(asking.found.distance, DISTANCE_NUMA);
    assert_false(asking.found.exact);
}

/* The lightest three come last: the search finds their weight at once, and their place late. */
TEST(linked_search__is_inexact_until_rule_5_is_settled)
{
    struct asking asking;
    struct plan *plan = &asking.plan;
    struct room room;
    struct rank rank;

    open_room(&room, 64);
    link_islands(&room, 64);
    for (uint32_t i = 61; i < 64; i++)
        set_free(&room, i, 400);
    assert_int_equal(ask(&asking, &room, 2, 100, TOPOLOGY_ANY, PLACE_TIGHTEST), REASON_NONE);
    assert_int_equal(place_evaluate(plan, &room, &rank), REASON_NONE);
    assert_true(rank.exact);
    assert_int_equal(rank.steps, 4 + 61 * 2 + 2); /* two at the leaf, two back; then by GPU */
    plan->steps = 20;
    assert_int_equal(place_evaluate(plan, &room, &rank), REASON_NONE);
    assert_false(rank.exact);
    assert_int_equal(rank.distance, DISTANCE_LINKED);
    assert_int_equal(rank.steps, 4 + 20);
    assert_int_equal(place_find(plan, &room, &rank, &asking.found), REASON_NONE);
    assert_false(asking.found.exact);
    assert_int_equal(set_of(&asking.found), one_gpu(61) | one_gpu(62));
    plan->steps = 4; /* the last step finds that nothing is left */
    assert_int_equal(place_evaluate(plan, &room, &rank), REASON_NONE);
    assert_int_equal(rank.left_milli, 600);
    assert_int_equal(rank.steps, 4 + 4);
}

/* A single GPU whose NUMA node is known joins nothing, but the search looks at it. */
TEST(linked_search__looks_at_a_single_gpu_with_a_numa_node)
{
    struct asking asking;
    struct room room;
    struct rank rank;

    for (uint32_t i = 0; i < 3; i++) {
        open_room(&room, 3);
        room.gpu[i].socket = 1;
        assert_int_equal(ask(&asking, &room, 2, 100, TOPOLOGY_ANY, PLACE_TIGHTEST), REASON_NONE);
        assert_int_equal(asking.found.distance, DISTANCE_ANYWHERE);
        assert_true(asking.found.exact);
        assert_int_equal(place_evaluate(&asking.plan, &room, &rank), REASON_NONE);
        assert_true(rank.steps > 0);
    }
}

/* Several wants, and only one pair of GPUs is linked. */
TEST(linked_search__finds_the_only_linked_pair)
{
    /* rows x GPUs is bounded, so 64 GPUs are searched only where b fits on two of them */
    static const struct {
        uint32_t gpus, first, small_milli;
    } row[] = {{16, 14, GPU_MILLI}, {64, 0, 450}};
    struct want want[] = {{.container = "a", .parts = 2, .milli = 400},
                          {.container = "b", .parts = 2, .milli = 500}};
    const struct request request = {.n_wants = ARRAY_LEN(want), .want = want};
    struct placement found;
    struct plan plan;
    struct rank rank;
    struct room room;

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        open_room(&room, row[i].gpus);
        link(&room, row[i].first, row[i].first + 1);
        for (uint32_t g = 0; g < row[i].gpus; g++)
            if (g / 2 != row[i].first / 2)
                set_free(&room, g, row[i].small_milli);
        plan_init(&plan, &request, NULL);
        assert_int_equal(place_find(&plan, &room, &rank, &found), REASON_NONE);
        assert_int_equal(found.distance, DISTANCE_LINKED);
        for (uint32_t k = 0; k < found.n_parts; k++)
            assert_int_equal(found.part[k].gpu, row[i].first + k % 2);
        want[0].milli = 450;
    }
}

/* A rule of a policy may demand what the pod does not. */
TEST(rule__demands_a_topology_for_the_pod)
{
    static const struct rule rule = {.name = "r", .topology = TOPOLOGY_NUMA};
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "test");
    struct room room;
    struct want want = {.container = "c", .parts = 2, .milli = 100};
    struct request request = {.n_wants = 1, .want = &want, .rules = 1};
    struct refusal refusal;
    struct plan plan;
    struct rank rank;

    book->rule = &rule;
    book->n_rules = 1;
    struct policy_context *context = policy_context_of_rulebook(book, 1, NULL);
    open_room(&room, 2);
    plan_init(&plan, &request, context);
    assert_int_equal(plan.topology, TOPOLOGY_ANY);
    assert_int_equal(place_evaluate(&plan, &room, &rank), REASON_NONE);
    assert_int_equal(rank.distance, DISTANCE_ANYWHERE);
    assert_int_equal(rank.steps, 0);
    room.rules = 1;
    assert_int_equal(place_evaluate(&plan, &room, &rank), REASON_TOPOLOGY);
    const struct cause cause = plan_cause(&plan, REASON_TOPOLOGY);
    assert_int_equal(cause.why, REASON_RULE);
    policy_refuse(context, cause, &request, &refusal);
    assert_string_equal(refusal.text, "policy rule 1 (r): GPUs of one container, on one NUMA node");
    /* The rule does not match the next room, and adds nothing to a pod that demands as much. */
    room.rules = 0;
    assert_int_equal(place_evaluate(&plan, &room, &rank), REASON_NONE);
    room.rules = 1;
    request.topology = TOPOLOGY_NVLINK;
    plan_init(&plan, &request, context);
    assert_int_equal(place_evaluate(&plan, &room, &rank), REASON_TOPOLOGY);
    assert_int_equal(plan_cause(&plan, REASON_TOPOLOGY).why, REASON_TOPOLOGY);
    request.topology = TOPOLOGY_ANY;
    want.parts = 1; /* one GPU meets any demand */
    plan_init(&plan, &request, context);
    assert_int_equal(place_evaluate(&plan, &room, &rank), REASON_NONE);
    assert_int_equal(rank.distance, DISTANCE_LINKED);
    policy_context_unref(context);
    rulebook_unref(book);
}

static bool count_one(void *user, const struct placement *placement)
{
    (void)placement;
    ++*(uint32_t *)user;
    return true;
}

TEST(place_each__skips_sets_that_break_the_topology)
{
    struct room room;
    struct asking asking;
    uint32_t reported = 0;

    open_room(&room, 4);
    link_islands(&room, 2);
    assert_int_equal(ask(&asking, &room, 3, 100, TOPOLOGY_NVLINK, PLACE_TIGHTEST), REASON_TOPOLOGY);
    assert_int_equal(place_each(&asking.plan, &room, 1000, &reported, count_one), PLACE_ALL);
    assert_int_equal(reported, 0);
    assert_int_equal(ask(&asking, &room, 2, 100, TOPOLOGY_ANY, PLACE_TIGHTEST), REASON_NONE);
    assert_int_equal(place_each(&asking.plan, &room, 1000, &reported, count_one), PLACE_ALL);
    assert_int_equal(reported, 2); /* each island once: its two GPUs are equal */
    open_room(&room, 64);
    link_all_but_opposites(&room);
    assert_int_equal(ask(&asking, &room, 33, 100, TOPOLOGY_NVLINK, PLACE_TIGHTEST),
                     REASON_UNSEARCHED);
    assert_int_equal(place_each(&asking.plan, &room, 1000, &reported, count_one),
                     PLACE_OUT_OF_STEPS);
    assert_int_equal(ask(&asking, &room, 33, 100, TOPOLOGY_ANY, PLACE_TIGHTEST), REASON_NONE);
    assert_int_equal(place_each(&asking.plan, &room, 1000000, &reported, count_one),
                     PLACE_OUT_OF_STEPS); /* nearer sets were not ruled out */
}

/* Several wants: rows of several parts stand alone, others stay together. */
TEST(rows_separate__gives_each_want_of_several_parts_a_row)
{
    struct want want[] = {{.container = "a", .parts = 1, .milli = 300},
                          {.container = "b", .parts = 2, .milli = 300},
                          {.container = "c", .parts = 1, .milli = 300},
                          {.container = "d", .parts = 2, .milli = 300}};
    const struct request request = {.n_wants = ARRAY_LEN(want), .want = want};
    struct plan plan;
    struct plan_rows rows;

    plan_init(&plan, &request, NULL);
    assert_int_equal(plan.rows.count, 2);
    rows_separate(&plan, &rows);
    assert_int_equal(rows.count, 3);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(rows.row[r].parts, 2);
        assert_int_equal(rows.row[r].wants, 1);
    }
    assert_int_equal(rows.row[2].parts, 1);
    assert_int_equal(rows.row[2].wants, 2);
    assert_memory_equal(rows.want, plan.rows.want, 4 * sizeof rows.want[0]);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
