#include <stdio.h>
#include <string.h>
#include <time.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/place/place.h"

#include "support/draw.h"
#include "support/node_scene.h"
#include "support/place_oracle.h"
#include "support/placements.h"
#include "support/valid.h"
#include "support/walk.h"

enum { GPUS = 6, WANTS = ORACLE_WANTS }; /* for generated cases: small enough to try everything */

static uint64_t first_seed(void)
{
    const char *env = getenv("PLACE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    const uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 42;
    print_message("PLACE_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/*
 * Generated cases
 */

struct setting {
    struct room room;
    struct request request;
    struct want want[CONTAINERS_MAX];
    const char *model[1];
};

static void draw_gpu(uint64_t *seed, struct gpu_room *out)
{
    static const enum reason closed[] = {REASON_ABSENT, REASON_UNHEALTHY, REASON_CORDONED,
                                         REASON_CROWDED, REASON_ROOM};
    const uint32_t taken = draw_below(seed, 11);
    const uint32_t steps = 10 - taken * draw_below(seed, 11) / 10; /* mostly free */
    *out = (struct gpu_room){.milli = GPU_MILLI, .model = atom("A100")};
    if (draw_below(seed, 6) == 0)
        out->milli = 500;
    if (draw_below(seed, 5) == 0)
        out->model = atom("T4");
    out->mib = draw_below(seed, 6) == 0 ? 0 : 997; /* 997 is prime, so rounding down matters */
    out->free_milli = out->milli * steps / 10;
    const uint32_t more = draw_below(seed, 8);
    out->free_mib = out->mib * steps / 10;
    if (more == 0)
        out->free_mib /= 2; /* memory is short, not milli */
    if (draw_below(seed, 12) == 0)
        out->closed = closed[draw_below(seed, ARRAY_LEN(closed))];
    if (out->closed == REASON_ABSENT && taken % 2 == 0)
        out->closed = REASON_HELD;
    if (draw_below(seed, 40) == 0)
        *out = (struct gpu_room){.closed = REASON_ABSENT, .model = atom("")};
}

static void draw_room(uint64_t *seed, uint32_t gpus_max, struct room *out)
{
    out->n_gpus = 1 + draw_below(seed, gpus_max);
    out->closed = REASON_NONE;
    out->shared = false;
    out->free_milli = 0;
    const uint32_t closed = draw_below(seed, 40);
    if (closed < 2)
        out->closed = closed == 0 ? REASON_MIXED : REASON_UNPLACED;
    for (uint32_t i = 0; i < out->n_gpus; i++) {
        draw_gpu(seed, &out->gpu[i]);
        if (out->gpu[i].closed == REASON_NONE)
            out->free_milli += out->gpu[i].free_milli;
    }
}

static void draw_setting(uint64_t *seed, uint32_t gpus_max, uint32_t wants_max, struct setting *out)
{
    draw_room(seed, gpus_max, &out->room);
    out->model[0] = "a100";
    out->request = (struct request){.want = out->want, .model = out->model};
    out->request.n_wants = 1 + draw_below(seed, wants_max);
    out->request.whole = draw_below(seed, 4) == 0 ? 1 + draw_below(seed, 3) : 0;
    out->request.n_models = draw_below(seed, 6) == 0;
    const uint32_t memory = draw_below(seed, 8);
    out->request.memory_mib = memory == 0 ? 200 : 0;
    for (uint32_t w = 0; w < out->request.n_wants; w++) {
        const uint32_t parts = draw_below(seed, 10);
        out->want[w] = (struct want){.container = "c", .parts = 1};
        out->want[w].kind = (enum container_kind)draw_below(seed, 3);
        const uint32_t most = draw_below(seed, 3) == 0 ? 20 : 8;
        out->want[w].milli = 50 * (1 + draw_below(seed, most));
        if (parts < 3)
            out->want[w].parts = 1 + parts;
    }
}

static void assert_same_placement(const struct placement *a, const struct placement *b)
{
    assert_int_equal(a->exact, b->exact);
    assert_int_equal(a->distance, b->distance);
    assert_int_equal(a->charge_milli, b->charge_milli);
    assert_int_equal(a->left_milli, b->left_milli);
    assert_int_equal(a->free_milli, b->free_milli);
    assert_int_equal(a->n_parts, b->n_parts);
    for (uint32_t i = 0; i < a->n_parts; i++) {
        assert_int_equal(a->part[i].want, b->part[i].want);
        assert_int_equal(a->part[i].gpu, b->part[i].gpu);
    }
}

/* Like place_search(), with the given number of steps; place_evaluate() agrees. */
static enum reason search_with(const struct setting *setting, uint32_t steps, struct placement *out)
{
    struct plan plan;
    struct rank rank;

    plan_init(&plan, &setting->request, NULL);
    plan.steps = steps;
    memset(out, 0xa5, sizeof *out); /* previous contents must not matter */
    const enum reason why = place_find(&plan, &setting->room, &rank, out);
    plan_init(&plan, &setting->request, NULL);
    plan.steps = steps;
    assert_int_equal(place_evaluate(&plan, &setting->room, &rank), why);
    if (why != REASON_NONE)
        return why;
    assert_int_equal(rank.distance, out->distance);
    assert_int_equal(rank.charge_milli, out->charge_milli);
    assert_int_equal(rank.left_milli, out->left_milli);
    assert_int_equal(rank.free_milli, out->free_milli);
    assert_true(rank.exact || !out->exact);
    return why;
}

enum { ALL_STEPS = 1 << 24 };

/* The placement is valid, and its numbers are right. */
static void check_written(const struct setting *setting, const struct placement *found)
{
    uint32_t at = 0;
    uint32_t charge = 0;
    uint32_t left = 0;

    for (uint32_t w = 0; w < setting->request.n_wants; w++)
        for (uint32_t part = 0; part < setting->want[w].parts; part++, at++) {
            assert_int_equal(found->part[at].want, w);
            assert_true(part == 0 || found->part[at - 1].gpu < found->part[at].gpu);
        }
    assert_int_equal(found->n_parts, at);
    for (uint32_t gpu = 0; gpu < setting->room.n_gpus; gpu++) {
        uint32_t milli[CONTAINERS_MAX] = {0};
        uint32_t mib[CONTAINERS_MAX] = {0};
        const struct gpu_room *room = &setting->room.gpu[gpu];
        for (uint32_t i = 0; i < found->n_parts; i++) {
            const uint32_t want = found->part[i].want;
            if (found->part[i].gpu != gpu)
                continue;
            milli[want] = setting->want[want].milli;
            mib[want] = inventory_share_mib(room->mib, room->milli, milli[want]);
            assert_true(mib[want] >= setting->request.memory_mib);
            assert_int_equal(room->closed, REASON_NONE);
        }
        const uint32_t peak = request_peak(&setting->request, milli);
        assert_true(peak <= room->free_milli);
        assert_true(request_peak(&setting->request, mib) <= room->free_mib);
        charge += peak;
        left += peak > 0 ? room->free_milli - peak : 0;
    }
    assert_int_equal(found->charge_milli, charge);
    assert_int_equal(found->left_milli, left);
}

/* place_any() returns a valid placement of the same cost as place_find(). */
static void assert_any(const struct setting *setting, uint32_t steps, enum reason why,
                       const struct placement *found)
{
    struct plan plan;
    struct rank judged;
    struct rank rank;
    struct placement any;

    plan_init(&plan, &setting->request, NULL);
    plan.steps = steps;
    memset(&any, 0xa5, sizeof any);
    assert_int_equal(place_evaluate(&plan, &setting->room, &judged), why);
    assert_int_equal(place_any(&plan, &setting->room, &rank, &any), why);
    assert_int_equal(rank.steps, judged.steps);
    assert_int_equal(rank.exact, judged.exact);
    if (why != REASON_NONE)
        return;
    assert_int_equal(any.exact, judged.exact);
    assert_int_equal(any.distance, found->distance);
    assert_int_equal(any.charge_milli, found->charge_milli);
    assert_int_equal(any.left_milli, found->left_milli);
    assert_int_equal(any.free_milli, found->free_milli);
    check_written(setting, &any);
}

/*
 * Links and NUMA nodes
 */

static void link(struct room *room, uint32_t a, uint32_t b)
{
    room->gpu[a].peers |= (uint64_t)1 << b;
    room->gpu[b].peers |= (uint64_t)1 << a;
}

/* Islands or random links; NUMA nodes for none or some of the GPUs. */
static void draw_topology(uint64_t *seed, struct setting *setting)
{
    static const enum topology demand[] = {TOPOLOGY_ANY, TOPOLOGY_ANY, TOPOLOGY_NUMA,
                                           TOPOLOGY_NVLINK};
    struct room *room = &setting->room;
    const uint32_t links = draw_below(seed, 5); /* in three of five cases at random, more or less */
    const uint32_t island = 1 + draw_below(seed, 4);
    const uint32_t sockets = draw_below(seed, 4);

    for (uint32_t i = 0; i < room->n_gpus; i++) {
        room->gpu[i].socket = sockets > 0 ? draw_below(seed, sockets + 1) : 0;
        for (uint32_t k = 0; k < i; k++)
            if (links < 3 ? draw_below(seed, 4) <= links : i / island == k / island)
                link(room, i, k);
    }
    setting->request.topology = demand[draw_below(seed, ARRAY_LEN(demand))];
}

/* Would the want fit into the empty node under this demand? */
static bool could_fit(const struct setting *setting, uint32_t want, enum topology demand)
{
    struct want alone = setting->want[want];
    struct request request = setting->request;
    struct room empty = setting->room;
    struct place_oracle oracle = {.room = &empty, .request = &request};

    request.n_wants = 1;
    request.want = &alone;
    request.whole = 0;
    request.topology = demand;
    empty.closed = REASON_NONE;
    for (uint32_t i = 0; i < empty.n_gpus; i++) {
        struct gpu_room *gpu = &empty.gpu[i];
        if (gpu->milli == 0) /* of unknown size */
            *gpu = (struct gpu_room){.milli = GPU_MILLI,
                                     .mib = 1 << 20,
                                     .model = atom("A100"),
                                     .peers = gpu->peers,
                                     .socket = gpu->socket};
        gpu->closed = REASON_NONE;
        gpu->free_milli = gpu->milli;
        gpu->free_mib = gpu->mib;
    }
    place_oracle_run(&oracle);
    return oracle.found;
}

/* The topology is the reason when a want would fit into the empty node without its demand only. */
static bool topology_is_why(const struct setting *setting)
{
    bool never = false;

    for (uint32_t w = 0; w < setting->request.n_wants; w++)
        never = never || (could_fit(setting, w, TOPOLOGY_ANY) &&
                          !could_fit(setting, w, setting->request.topology));
    return never;
}

static void ask_oracle(const struct setting *setting, struct place_oracle *out)
{
    *out = (struct place_oracle){.room = &setting->room, .request = &setting->request};
    place_oracle_run(out);
}

/*
 * Against the oracle: one case in two has links, NUMA nodes and demands for them
 */

TEST(place_find__returns_the_best_of_all_placements)
{
    uint64_t seed = first_seed();
    uint64_t fitting[WANTS + 1] = {0};
    uint64_t refused[WANTS + 1] = {0};
    uint64_t ways = 0;
    uint32_t undecided = 0;
    uint32_t moment = 0;
    uint32_t reasons[REASONS] = {0};
    uint32_t distance[DISTANCE_ANYWHERE + 1] = {0};

    for (int i = 0; i < walk_steps(70000, 21000); i++) {
        const bool linked = i % 2 == 0;
        struct setting setting;
        struct place_oracle oracle;
        struct placement found;
        draw_setting(&seed, i % 10 < 2 ? GPUS : 4, linked && i % 3 > 0 ? 1 : WANTS, &setting);
        if (linked)
            draw_topology(&seed, &setting);
        if (linked && draw_below(&seed, 2) == 0)
            setting.want[draw_below(&seed, setting.request.n_wants)].parts =
                2 + draw_below(&seed, 3);
        ask_oracle(&setting, &oracle);
        const enum reason why = search_with(&setting, ALL_STEPS, &found);
        assert_int_equal(why == REASON_NONE, oracle.found);
        assert_int_not_equal(why, REASON_UNSEARCHED);
        assert_int_equal(why == REASON_TOPOLOGY, topology_is_why(&setting));
        assert_any(&setting, ALL_STEPS, why, &found);
        reasons[why]++;
        ways += oracle.ways;
        if (!oracle.found) {
            refused[setting.request.n_wants]++;
            moment += reason_class(why) == REASON_CLASS_MOMENT && setting.request.topology > 0;
            continue;
        }
        fitting[setting.request.n_wants]++;
        distance[found.distance]++;
        assert_int_equal(found.distance, oracle.best.distance);
        assert_int_equal(found.charge_milli, oracle.best.charge_milli);
        assert_int_equal(found.left_milli, oracle.best.left_milli);
        assert_true(found.exact || setting.request.n_wants > 1);
        if (found.exact)
            assert_same_placement(&found, &oracle.best);
        undecided += !found.exact; /* as good, but perhaps not the first by rule 5 */
    }
    print_message("%llu ways judged, %u not settled by rule 5; %u linked, %u on one NUMA node, %u "
                  "anywhere; %u not now\n",
                  (unsigned long long)ways, undecided, distance[0], distance[1], distance[2],
                  moment);
    assert_true(undecided <= 40 && moment > 100 && reasons[REASON_TOPOLOGY] > 100);
    for (uint32_t wants = 1; wants <= WANTS; wants++)
        assert_true(fitting[wants] > 500 && refused[wants] > 500);
    for (uint32_t i = 0; i <= DISTANCE_ANYWHERE; i++)
        assert_true(distance[i] > 50);
    /* Every reason that a room can give occurred; NO_GPU has its own test, and so have rules. */
    for (enum reason why = REASON_MODEL; why <= REASON_ROOM; why++)
        assert_true((reasons[why] > 0) == (why != REASON_RULE && why != REASON_RESERVE &&
                                           why != REASON_PLUGIN && why != REASON_AGENT));
}

/* An answer within the steps is true; an answer that the steps cut short says so. */
TEST(place_find__marks_its_answer_as_inexact_when_steps_run_out)
{
    uint64_t seed = first_seed();
    uint32_t inexact[2] = {0}; /* [1]: of the cases with links */
    uint32_t unsearched[2] = {0};
    const int rounds = walk_steps(60000, 18000);

    for (int i = 0; i < rounds; i++) {
        const bool linked = i % 2 == 0;
        struct setting setting;
        struct place_oracle oracle;
        struct placement found;
        draw_setting(&seed, i % 20 == 1 || i % 10 == 0 ? GPUS : 4, WANTS, &setting);
        if (linked)
            draw_topology(&seed, &setting);
        ask_oracle(&setting, &oracle);
        const uint32_t steps = i % 4 < 2 ? PLACE_STEPS_MAX : draw_below(&seed, linked ? 60 : 100);
        const enum reason why = search_with(&setting, steps, &found);
        assert_true(why != REASON_NONE || oracle.found);
        assert_true(why == REASON_NONE || why == REASON_UNSEARCHED || !oracle.found);
        unsearched[linked] += why == REASON_UNSEARCHED;
        assert_any(&setting, steps, why, &found);
        if (why == REASON_UNSEARCHED)
            assert_false(found.exact);
        else if (setting.request.n_wants == 1 && (!linked || steps == PLACE_STEPS_MAX))
            assert_true(found.exact);
        if (why != REASON_NONE)
            continue;
        assert_true(found.distance >= oracle.best.distance);
        if (found.exact)
            assert_same_placement(&found, &oracle.best);
        inexact[linked] += !found.exact;
    }
    for (int i = 0; i < 2; i++) {
        print_message("%u not exact, %u unsearched of %d\n", inexact[i], unsearched[i], rounds / 2);
        assert_true(inexact[i] > 10 && unsearched[i] > 10);
    }
    assert_true(inexact[0] < (uint32_t)rounds / 40 && unsearched[0] < (uint32_t)rounds / 100);
}

TEST(place_find__never_gets_worse_with_more_steps)
{
    static const uint32_t steps[] = {0, 30, 100, 200, 400, PLACE_STEPS_MAX, 4096, ALL_STEPS};
    uint64_t seed = first_seed();
    uint32_t better = 0;
    uint32_t found_later = 0;

    for (int i = 0; i < walk_steps(20000, 5000); i++) {
        struct setting setting;
        struct placement before = {0};
        enum reason why_before = REASONS;
        draw_setting(&seed, GPUS, 6, &setting);
        for (size_t k = 0; k < ARRAY_LEN(steps); k++) {
            struct placement now;
            const enum reason why = search_with(&setting, steps[k], &now);
            if (k > 0 && (why_before == REASON_NONE || why_before != REASON_UNSEARCHED))
                assert_int_equal(why, why_before); /* what was known stays known */
            if (k > 0 && why_before == REASON_NONE) {
                if (before.exact)
                    assert_same_placement(&now, &before);
                assert_true(now.exact || !before.exact);
                if (setting.request.whole == 0)
                    assert_true(placement_cmp(&now, atom("n"), &before, atom("n")) <= 0 ||
                                now.charge_milli < before.charge_milli ||
                                now.left_milli <= before.left_milli);
                better += now.left_milli < before.left_milli;
            }
            found_later += why_before == REASON_UNSEARCHED && why == REASON_NONE;
            why_before = why;
            before = now;
        }
    }
    assert_true(better > 10 && found_later > 5);
}

static void shuffle(uint64_t *seed, struct room *room)
{
    for (uint32_t i = room->n_gpus; i > 1; i--) {
        const uint32_t other = draw_below(seed, i);
        const struct gpu_room gpu = room->gpu[i - 1];
        room->gpu[i - 1] = room->gpu[other];
        room->gpu[other] = gpu;
    }
}

/* The same GPUs in another order make an equal room; a result found for one holds for all. */
TEST(place_evaluate__searches_equal_rooms_once)
{
    uint64_t seed = first_seed();
    uint32_t searched = 0;
    uint32_t known = 0;

    for (int i = 0; i < walk_steps(300, 100); i++) {
        struct setting setting;
        struct plan plan;
        struct plan alone;
        struct arena arena;
        draw_setting(&seed, 8, 6, &setting);
        arena_init(&arena);
        plan_init(&plan, &setting.request, NULL);
        plan_init(&alone, &setting.request, NULL);
        plan_remember(&plan, &arena);
        for (int k = 0; k < 40; k++) {
            struct rank rank;
            struct rank own;
            if (k % 8 == 0)
                draw_room(&seed, 8, &setting.room);
            else
                shuffle(&seed, &setting.room);
            const enum reason why = place_evaluate(&plan, &setting.room, &rank);
            assert_int_equal(place_evaluate(&alone, &setting.room, &own), why);
            if (k % 8 > 0)
                assert_int_equal(rank.steps, 0);
            searched += rank.steps > 0;
            known += own.steps > 0 && rank.steps == 0;
            assert_int_equal(rank.exact, own.exact);
            assert_int_equal(rank.charge_milli, own.charge_milli);
            assert_int_equal(rank.left_milli, own.left_milli);
            assert_int_equal(rank.free_milli, own.free_milli);
        }
        arena_done(&arena);
    }
    assert_true(searched > 100 && known > 5 * searched);
}

/*
 * Distinct ways: what each GPU carries, with equal GPUs interchangeable
 */

enum { WAYS_MAX = 20000, EACH_GPUS = 4, EACH_WANTS = 3 };

struct profile {
    uint8_t count[EACH_GPUS][EACH_WANTS]; /* by GPU and row; equal GPUs in descending order */
};

struct profiles {
    const struct setting *setting;
    enum distance nearest;    /* farther ones are left out */
    uint32_t row[EACH_WANTS]; /* of each want */
    uint32_t count;
    struct profile profile[WAYS_MAX];
};

static void swap_if_larger(uint8_t a[EACH_WANTS], uint8_t b[EACH_WANTS])
{
    uint8_t was[EACH_WANTS];

    if (memcmp(b, a, sizeof was) <= 0)
        return;
    memcpy(was, a, sizeof was);
    memcpy(a, b, sizeof was);
    memcpy(b, was, sizeof was);
}

static bool same_gpus(const struct gpu_room *a, const struct gpu_room *b)
{
    return a->milli == b->milli && a->mib == b->mib && a->free_milli == b->free_milli &&
           a->free_mib == b->free_mib && a->closed == b->closed && a->model == b->model;
}

static void note_profile(struct profiles *profiles, const struct placement *placement)
{
    assert_true(profiles->count < WAYS_MAX);
    struct profile *profile = &profiles->profile[profiles->count++];
    const struct room *room = &profiles->setting->room;

    *profile = (struct profile){0};
    for (uint32_t i = 0; i < placement->n_parts; i++)
        profile->count[placement->part[i].gpu][profiles->row[placement->part[i].want]]++;
    for (uint32_t round = 0; round < room->n_gpus; round++)
        for (uint32_t a = 0; a < room->n_gpus; a++)
            for (uint32_t b = a + 1; b < room->n_gpus; b++)
                if (same_gpus(&room->gpu[a], &room->gpu[b]))
                    swap_if_larger(profile->count[a], profile->count[b]);
}

static void note_way(void *user, const struct placement *way)
{
    struct profiles *profiles = user;

    if (way->distance <= profiles->nearest)
        note_profile(profiles, way);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct profile));
}

static void sort_profiles(struct profiles *profiles, bool once)
{
    uint32_t kept = 0;

    qsort(profiles->profile, profiles->count, sizeof profiles->profile[0], by_bytes);
    for (uint32_t i = 0; i < profiles->count; i++)
        if (i == 0 || by_bytes(&profiles->profile[i - 1], &profiles->profile[i]) != 0)
            profiles->profile[kept++] = profiles->profile[i];
    assert_true(!once || kept == profiles->count); /* none was reported twice */
    profiles->count = kept;
}

static bool note_reported(void *user, const struct placement *placement)
{
    assert_false(placement->exact);
    note_profile(user, placement);
    return true;
}

static void draw_alike(uint64_t *seed, struct setting *setting)
{
    static const char *const model[] = {"A100", "T4"};

    draw_setting(seed, EACH_GPUS, EACH_WANTS, setting);
    for (uint32_t w = 0; w < setting->request.n_wants; w++) {
        setting->want[w].milli = 100 * (1 + draw_below(seed, 3));
        setting->want[w].parts = 1 + draw_below(seed, 2);
    }
    if (draw_below(seed, 3) > 0)
        return;
    for (uint32_t i = 0; i < setting->room.n_gpus; i++) /* more equal GPUs than chance gives */
        setting->room.gpu[i] = (struct gpu_room){.milli = GPU_MILLI,
                                                 .free_milli = 300 + 100 * draw_below(seed, 2),
                                                 .model = atom(model[draw_below(seed, 4) == 0])};
}

/* Linked ones may come twice: equal wants count as different where each lies together. */
TEST(place_each__reports_each_distinct_placement_once)
{
    static struct profiles reported;
    static struct profiles all;
    uint64_t seed = first_seed();
    uint64_t ways[2] = {0}; /* [1]: of the cases with links */

    for (int i = 0; i < walk_steps(8000, 2000); i++) {
        const bool linked = i % 2 == 0;
        struct setting setting;
        struct place_oracle oracle;
        struct plan plan;
        draw_alike(&seed, &setting);
        if (linked)
            draw_topology(&seed, &setting);
        ask_oracle(&setting, &oracle);
        plan_init(&plan, &setting.request, NULL);
        plan.steps = ALL_STEPS;
        reported.setting = all.setting = &setting;
        all.nearest = oracle.best.distance;
        reported.count = all.count = 0;
        for (uint32_t r = 0, w = 0; r < plan.rows.count; r++)
            for (uint32_t k = 0; k < plan.rows.row[r].wants; k++, w++)
                reported.row[plan.rows.want[w]] = all.row[plan.rows.want[w]] = r;
        oracle.visit = note_way;
        oracle.user = &all;
        place_oracle_run(&oracle);
        assert_int_equal(place_each(&plan, &setting.room, ALL_STEPS, &reported, note_reported),
                         PLACE_ALL);
        sort_profiles(&reported, !linked || (setting.request.n_wants == 1 &&
                                             oracle.best.distance == DISTANCE_ANYWHERE));
        sort_profiles(&all, false);
        assert_int_equal(reported.count, all.count);
        assert_memory_equal(reported.profile, all.profile, all.count * sizeof all.profile[0]);
        ways[linked] += all.count;
    }
    print_message("%llu ways, and %llu with links\n", (unsigned long long)ways[0],
                  (unsigned long long)ways[1]);
    assert_true(ways[0] > 2000 && ways[1] > 1000);
}

static bool count_to_three(void *user, const struct placement *placement)
{
    assert_true(placement->n_parts > 0);
    return ++*(uint32_t *)user < 3;
}

static void set_room(struct room *room, uint32_t gpus)
{
    room->closed = REASON_NONE;
    room->n_gpus = gpus;
    room->free_milli = gpus * GPU_MILLI;
    for (uint32_t i = 0; i < gpus; i++)
        room->gpu[i] = (struct gpu_room){.milli = GPU_MILLI,
                                         .mib = 81920,
                                         .free_milli = GPU_MILLI,
                                         .free_mib = 81920,
                                         .model = atom("A100-SXM4-80GB")};
}

/* Containers of as many parts, each larger than the one before by step_milli; whole GPUs. */
static void start(struct setting *setting, uint32_t gpus, uint32_t wants, uint32_t parts,
                  uint32_t milli, uint32_t step_milli)
{
    *setting = (struct setting){.request = {.n_wants = wants, .want = setting->want}};
    set_room(&setting->room, gpus);
    for (uint32_t w = 0; w < wants; w++)
        setting->want[w] =
            (struct want){.container = "c", .parts = parts, .milli = milli + w * step_milli};
}

/* place_weigh_node() does not look at the GPUs. */
TEST(place_weigh_node__returns_the_reason_of_a_closed_node)
{
    static const enum reason reasons[] = {REASON_MIXED, REASON_PLUGIN, REASON_AGENT, REASON_NONE};
    struct setting setting;
    start(&setting, 1, 1, 1, 300, 0);
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        setting.room.closed = reasons[i];
        assert_int_equal(place_weigh_node(&setting.room, &setting.request, 1), reasons[i]);
    }
}

TEST(place_search__finds_the_only_open_gpu_of_the_largest_node)
{
    struct want want = {.container = "c", .parts = 1, .milli = 300};
    struct request request = {.n_wants = 1, .want = &want};
    struct room room;
    struct placement placement;
    for (uint32_t gpu = 0; gpu < GPUS_PER_NODE_MAX; gpu++) {
        set_room(&room, GPUS_PER_NODE_MAX);
        for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
            room.gpu[i].free_milli = i == gpu ? 300 : 299;
        assert_int_equal(place_search(&room, &request, &placement), REASON_NONE);
        assert_int_equal(placement.part[0].gpu, gpu);
        room.gpu[gpu].free_milli = 299;
        assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);
    }
    const char *glob[] = {"H100"};
    request.n_models = 1;
    request.model = glob; /* no GPU matches, not even the last */
    assert_int_equal(place_search(&room, &request, &placement), REASON_MODEL);
}

TEST(refusal__calls_a_gpu_of_unknown_size_absent)
{
    const char *glob[] = {"A100*"};
    struct setting setting;
    struct placement placement;
    start(&setting, 1, 1, 1, 300, 0);
    setting.request.n_models = 1;
    setting.request.model = glob;
    setting.room.gpu[0] = (struct gpu_room){.closed = REASON_ABSENT, .model = atom("")};
    assert_int_equal(place_search(&setting.room, &setting.request, &placement), REASON_ABSENT);
}

/* A valid placement is found in so many steps. */
static void find_in(const struct setting *setting, uint32_t steps, struct placement *out)
{
    assert_int_equal(search_with(setting, steps, out), REASON_NONE);
    check_written(setting, out);
}

TEST(place_search__returns_valid_placements_for_many_wants)
{
    uint64_t seed = first_seed();
    uint32_t fitting = 0;
    uint32_t refused = 0;
    for (int i = 0; i < walk_steps(20000, 4000); i++) {
        struct setting setting;
        struct placement found;
        draw_setting(&seed, 12, 1, &setting);
        setting.request.n_wants = 6 + 1 + draw_below(&seed, 6);
        for (uint32_t w = 0; w < setting.request.n_wants; w++) {
            setting.want[w] = (struct want){.container = "c", .parts = 1};
            setting.want[w].kind = (enum container_kind)draw_below(&seed, 3);
            setting.want[w].milli = 20 * (1 + draw_below(&seed, 20));
            if (draw_below(&seed, 5) == 0)
                setting.want[w].parts = 2;
        }
        if (search_with(&setting, PLACE_STEPS_MAX, &found) != REASON_NONE) {
            refused++;
            continue;
        }
        check_written(&setting, &found);
        fitting++;
    }
    assert_true(fitting > 1000 && refused > 1000);
}

TEST(place_search__treats_equal_wants_as_one_row)
{
    struct setting setting;
    struct placement found;
    start(&setting, 8, CONTAINERS_MAX, 4, 15, 0);
    for (uint32_t i = 0; i < 8; i++)
        setting.room.gpu[i].free_milli = 967 - i; /* 64 parts fit on each, not 65 */
    find_in(&setting, PLACE_STEPS_MAX, &found);
    setting.want[7].milli = 16; /* no longer equal; 15 x 508 + 16 x 4 is 4 too many */
    for (uint32_t i = 0; i < 8; i++)
        setting.room.gpu[i].free_milli = 960;
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_ROOM);
}

TEST(place_each__stops_at_the_step_limit_or_by_its_callback)
{
    struct setting setting;
    struct plan plan;
    uint32_t reported = 0;
    start(&setting, 8, 5, 1, 100, 1);
    plan_init(&plan, &setting.request, NULL);
    assert_int_equal(place_each(&plan, &setting.room, 10000, &reported, count_to_three),
                     PLACE_STOPPED);
    assert_int_equal(reported, 3);
    /* Each row costs as many steps as there are slots, and each cell one. */
    assert_in_range(plan.walked, 5 * 8 + 5 * 8 + 1, 200);
    assert_int_equal(place_each(&plan, &setting.room, 10, &reported, count_to_three),
                     PLACE_OUT_OF_STEPS);
    assert_int_equal(plan.walked, 10);
    assert_int_equal(reported, 3);
    setting.room.closed = REASON_MIXED; /* no placement is possible */
    assert_int_equal(place_each(&plan, &setting.room, 10, &reported, count_to_three), PLACE_ALL);
    assert_int_equal(plan.walked, 0);
    /* 26 rows on 40 GPUs are too many to walk. */
    start(&setting, 40, 26, 1, 100, 1);
    plan_init(&plan, &setting.request, NULL);
    assert_int_equal(place_each(&plan, &setting.room, ALL_STEPS, &reported, count_to_three),
                     PLACE_OUT_OF_STEPS);
    setting.room.n_gpus = 39;
    assert_int_equal(place_each(&plan, &setting.room, ALL_STEPS, &reported, count_to_three),
                     PLACE_STOPPED);
}

/* The placements that place_each() visits, up to the one at which it is told to stop. */
struct visits {
    uint32_t count;
    uint32_t most;
    struct placement at[16];
};

static bool keep_visit(void *user, const struct placement *placement)
{
    struct visits *visits = user;
    assert_true(visits->count < ARRAY_LEN(visits->at));
    visits->at[visits->count++] = *placement;
    return visits->count < visits->most;
}

static enum place_end each_within(const struct setting *setting, uint32_t steps, uint32_t most,
                                  struct visits *out, uint32_t *out_walked)
{
    struct plan plan;
    plan_init(&plan, &setting->request, NULL);
    out->count = 0;
    out->most = most;
    const enum place_end end = place_each(&plan, &setting->room, steps, out, keep_visit);
    *out_walked = plan.walked;
    return end;
}

/* With more steps than it needs the walk for one part is not made, with exactly these it is. */
TEST(place_each__of_one_part_is_the_walk_without_the_walk)
{
    struct setting setting;
    struct visits quick;
    struct visits slow;
    uint32_t met[3] = {0};
    uint64_t seed = 11;
    for (int i = 0; i < walk_steps(20000, 2000); i++) {
        uint32_t walked[2];
        draw_setting(&seed, ARRAY_LEN(quick.at) - 1, 1, &setting);
        setting.want[0].parts = 1;
        const uint32_t most = draw_below(&seed, 2) == 0 ? 1 + draw_below(&seed, 3) : 100;
        const enum place_end end = each_within(&setting, ALL_STEPS, most, &quick, &walked[0]);
        met[end]++;
        assert_true(walked[0] > 0 || quick.count == 0);
        if (walked[0] == 0)
            continue;
        assert_int_equal(each_within(&setting, walked[0], most, &slow, &walked[1]), end);
        assert_int_equal(walked[1], walked[0]);
        assert_int_equal(slow.count, quick.count);
        for (uint32_t k = 0; k < quick.count; k++)
            assert_same_placement(&slow.at[k], &quick.at[k]);
        assert_int_equal(each_within(&setting, walked[0] - 1, most, &slow, &walked[1]),
                         PLACE_OUT_OF_STEPS);
        assert_int_equal(walked[1], walked[0] - 1);
    }
    assert_true(met[PLACE_ALL] > 500 && met[PLACE_STOPPED] > 500);
    assert_int_equal(met[PLACE_OUT_OF_STEPS], 0);
}

/* As long as the steps suffice for any slots, as many as these are not even counted. */
TEST(place_each__of_one_part_goes_to_the_limit_of_steps)
{
    struct setting setting;
    struct visits visits;
    uint32_t walked;
    start(&setting, 15, 1, 1, 100, 1);
    for (uint32_t steps = 15 * 19 - 2; steps < 15 * 19 + 2; steps++) {
        assert_int_equal(each_within(&setting, steps, 100, &visits, &walked), PLACE_ALL);
        assert_int_equal(visits.count, 1); /* all are equal */
        assert_int_equal(walked, 15 + 15 + 14 + 14 + 15);
    }
}

/* 120 different containers: the cheapest layout is found at once, the first of its cost is not. */
TEST(place_any__is_exact_where_place_find_is_not)
{
    struct setting setting;
    struct placement first;
    struct placement any;
    struct rank rank;
    struct plan plan;
    start(&setting, 8, 120, 1, 2, 1);
    for (uint32_t i = 0; i < 8; i++)
        setting.room.gpu[i].free_milli = 990 - 41 * i % 90;
    plan_init(&plan, &setting.request, NULL);
    assert_int_equal(place_find(&plan, &setting.room, &rank, &first), REASON_NONE);
    assert_int_equal(place_any(&plan, &setting.room, &rank, &any), REASON_NONE);
    assert_false(first.exact);
    assert_true(any.exact);
    assert_true(rank.exact);
    assert_int_equal(any.left_milli, first.left_milli);
    assert_int_equal(any.n_parts, 120);
}

TEST(plan__sorts_wants_into_rows)
{
    static const struct want want[] = {
        {"a", CONTAINER_SIDECAR, 1, 200}, {"b", CONTAINER_APP, 1, 300},
        {"c", CONTAINER_APP, 2, 200},     {"d", CONTAINER_APP, 1, 200},
        {"e", CONTAINER_APP, 2, 200},     {"f", CONTAINER_INIT, 1, 200},
    };
    struct want own[ARRAY_LEN(want)];
    struct request request = {.n_wants = 5, .want = own};
    struct plan plan;
    memcpy(own, want, sizeof want);

    /* Without init containers a sidecar is like any other. */
    plan_init(&plan, &request, NULL);
    static const uint16_t order[] = {1, 2, 4, 0, 3};
    assert_int_equal(plan.rows.count, 3);
    assert_memory_equal(plan.rows.want, order, sizeof order);
    assert_int_equal(plan.rows.row[1].wants, 2);
    assert_int_equal(plan.rows.row[1].parts, 2);
    assert_int_equal(plan.rows.row[2].wants, 2);
    assert_int_equal(plan.running_milli, 300 + 4 * 200 + 2 * 200);
    assert_int_equal(plan.most_parts, 2);
    assert_false(plan.mixed_lives);

    /* With one, init containers and sidecars come first, in start order. */
    request.n_wants = 6;
    plan_init(&plan, &request, NULL);
    static const uint16_t lives[] = {0, 5, 1, 2, 4, 3};
    assert_true(plan.mixed_lives);
    assert_int_equal(plan.rows.count, 5);
    assert_memory_equal(plan.rows.want, lives, sizeof lives);
    assert_int_equal(plan.running_milli, 300 + 4 * 200 + 2 * 200);
}

TEST(plan__matches_models_beyond_its_cache)
{
    struct setting setting;
    struct plan plan;
    struct rank rank;
    start(&setting, 1, 1, 1, 100, 0);
    setting.model[0] = "*7";
    setting.request.model = setting.model;
    setting.request.n_models = 1;
    plan_init(&plan, &setting.request, NULL);
    for (uint32_t i = 0; i < 3 * PLAN_MODELS; i++) { /* more models than are remembered */
        char model[16];
        (void)snprintf(model, sizeof model, "M%u", i % (2 * PLAN_MODELS));
        setting.room.gpu[0].model = atom(model);
        assert_int_equal(place_evaluate(&plan, &setting.room, &rank),
                         model[strlen(model) - 1] == '7' ? REASON_NONE : REASON_MODEL);
    }
}

/* Nine small wants, so that the search is greedy; the tests change what matters to them. */
static void start_nine(struct setting *setting, uint32_t gpus)
{
    start(setting, gpus, 9, 1, 1, 0);
}

/* Where the first part of a want went. */
static uint32_t place_of(const struct placement *found, uint32_t want)
{
    for (uint32_t i = 0; i < found->n_parts; i++)
        if (found->part[i].want == want)
            return found->part[i].gpu;
    fail_msg("want %u has no part", want);
    return 0;
}

TEST(greedy_search__stays_on_the_tightest_gpu)
{
    struct setting setting;
    struct placement found;
    start_nine(&setting, 3);
    setting.room.gpu[0].free_milli = 900;
    setting.room.gpu[1].free_milli = 500;
    setting.room.gpu[2].free_milli = 700;
    find_in(&setting, 0, &found);
    for (uint32_t w = 0; w < 9; w++)
        assert_int_equal(place_of(&found, w), 1);

    /* Among GPUs already used at equal cost, the first is taken. */
    setting.want[0].parts = 2; /* on 1 and 2 */
    setting.room.gpu[1].free_milli = 700;
    setting.room.gpu[2].free_milli = 500;
    find_in(&setting, 0, &found);
    assert_int_equal(place_of(&found, 0), 1);
    for (uint32_t w = 1; w < 9; w++)
        assert_int_equal(place_of(&found, w), 1);
}

TEST(greedy_search__counts_a_gpu_with_one_milli_taken_as_used)
{
    struct setting setting;
    struct placement found;
    start_nine(&setting, 9);
    setting.want[0].parts = 9;    /* on each; the others stay together */
    find_in(&setting, 0, &found); /* also checks the sum of what is left */
}

TEST(greedy_search__puts_an_init_container_at_no_extra_cost)
{
    struct setting setting;
    struct placement found;
    start_nine(&setting, 2);
    setting.want[0].milli = 500; /* fills GPU 0 */
    setting.want[1] =
        (struct want){.container = "s", .kind = CONTAINER_SIDECAR, .parts = 1, .milli = 5};
    setting.want[2] =
        (struct want){.container = "i", .kind = CONTAINER_INIT, .parts = 1, .milli = 3};
    setting.room.gpu[0].free_milli = 500;
    setting.room.gpu[1].free_milli = 506;
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    check_written(&setting, &found);
    assert_true(found.exact);
    assert_int_equal(found.charge_milli, 500 + 5 + 6);
    assert_int_equal(place_of(&found, 0), 0);
    assert_int_equal(place_of(&found, 1), 1);
    assert_int_equal(place_of(&found, 2), 0); /* adds 0 here, but 3 beside the sidecar */
}

TEST(greedy_search__places_equal_wants_in_the_order_of_the_pod)
{
    struct setting setting;
    struct placement found;
    start_nine(&setting, 3);
    setting.want[3].milli = setting.want[4].milli = 100;
    setting.want[3].parts = 2; /* takes both GPUs first; else want 4 would fill one */
    setting.room.gpu[0].free_milli = 100;
    setting.room.gpu[1].free_milli = 200;
    setting.room.gpu[2].free_milli = 50;
    find_in(&setting, 0, &found);
    assert_int_equal(place_of(&found, 3), 0);
    assert_int_equal(place_of(&found, 4), 1);
}

TEST(place_search__places_the_largest_pod)
{
    struct setting setting;
    struct placement found;
    start(&setting, GPUS_PER_NODE_MAX, CONTAINERS_MAX, PARTS_MAX / CONTAINERS_MAX, 125, 0);
    find_in(&setting, PLACE_STEPS_MAX, &found);
    assert_int_equal(found.n_parts, PARTS_MAX);
    assert_int_equal(found.left_milli, 0);
    setting.want[0].milli = 126;
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_ROOM);
}

/* The most expensive requests on the largest node must stay within the allowed steps. */
TEST(place_evaluate__bounds_the_steps_of_the_worst_case)
{
    static const struct {
        uint32_t wants;
        uint32_t parts;
        uint32_t milli;
        uint32_t step;
    } worst[] = {
        {6, 1, 60, 1},    {6, 2, 60, 1},    {6, 2, 211, 37}, {6, 3, 60, 1},  {12, 5, 150, 31},
        {16, 1, 501, 2},  {16, 4, 501, 2},  {40, 8, 101, 1}, {64, 8, 90, 1}, {100, 5, 3, 1},
        {128, 1, 330, 1}, {128, 4, 110, 1}, {128, 4, 1, 1},  {8, 64, 90, 5}, {9, 8, 77, 9},
        {4, 8, 203, 71},  {128, 1, 501, 0},
    };
    uint32_t most = 0;

    for (size_t i = 0; i < ARRAY_LEN(worst); i++) {
        struct setting setting;
        struct plan plan;
        struct rank rank;
        start(&setting, GPUS_PER_NODE_MAX, worst[i].wants, worst[i].parts, worst[i].milli,
              worst[i].step);
        for (uint32_t g = 0; g < GPUS_PER_NODE_MAX; g++)
            setting.room.gpu[g].free_milli = 600 + 6 * g; /* all different, all roomy */
        plan_init(&plan, &setting.request, NULL);
        const enum reason why = place_evaluate(&plan, &setting.room, &rank);
        assert_true(why == REASON_NONE || why == REASON_ROOM || why == REASON_UNSEARCHED);
        /* The greedy pass looks at each GPU once per want; a bound counts the GPUs of each row. */
        const uint32_t greedy = worst[i].wants * (2 * GPUS_PER_NODE_MAX + worst[i].parts) + 1;
        assert_true(rank.steps <= (greedy > PLACE_STEPS_MAX ? greedy : PLACE_STEPS_MAX));
        most = rank.steps > most ? rank.steps : most;
    }
    assert_true(most > PLACE_STEPS_MAX);
}

/*
 * Rooms of nodes
 */

NODE_TEST(room__is_the_free_capacity_of_a_node)
{
    struct room room;
    scene_add_gpus(scene, 2);
    scene_bind(scene, "a", "GPU-a", 300);
    scene_bind(scene, "b", "GPU-lost", 400);
    room_of(scene_node(scene), &room);
    assert_int_equal(room.n_gpus, 3);
    assert_int_equal(room.closed, REASON_NONE);
    assert_int_equal(room.free_milli, 1700);
    assert_int_equal(room.gpu[0].free_milli, 700);
    assert_int_equal(room.gpu[0].free_mib, SCENE_MIB - 600);
    assert_int_equal(room.gpu[2].closed, REASON_ABSENT);

    room_take(&room, 0, 200);
    assert_int_equal(room.gpu[0].free_milli, 500);
    assert_int_equal(room.free_milli, 1500);
    room_take(&room, 0, 9999); /* more than is free leaves 0 */
    assert_int_equal(room.gpu[0].free_milli, 0);
    assert_int_equal(room.free_milli, 1000);
    room_take(&room, 2, 100);
    assert_int_equal(room.free_milli, 1000);
}

TEST(taken__is_the_sum_of_the_shares_on_each_gpu)
{
    static const struct taken expected = {
        .count = 3, .milli = {300, GPU_MILLI, 1}, .gpu = {2, 5, 63}};
    struct taken taken = {0};
    taken_add(&taken, 5, 100);
    taken_add(&taken, 63, 1);
    taken_add(&taken, 2, 100);
    taken_add(&taken, 5, 901); /* together more than a GPU has */
    taken_add(&taken, 2, 200);
    assert_memory_equal(&taken, &expected, sizeof taken);
    taken_add(&taken, 5, UINT32_MAX);
    assert_memory_equal(&taken, &expected, sizeof taken);
}

TEST(taken__ignores_further_gpus_when_it_is_full)
{
    struct taken taken = {0};
    for (uint32_t i = 0; i <= TAKEN_MAX; i++)
        taken_add(&taken, 40 - 2 * i, 100); /* in descending order: the last one has no place */
    const struct taken full = taken;
    assert_int_equal(full.count, TAKEN_MAX);
    for (uint32_t i = 0; i < TAKEN_MAX; i++) {
        assert_int_equal(full.gpu[i], 40 - 2 * (TAKEN_MAX - 1 - i));
        assert_int_equal(full.milli[i], 100);
    }
    taken_add(&taken, 41, 100);
    taken_add(&taken, 39, 100);
    assert_memory_equal(&taken, &full, sizeof taken);
    taken_add(&taken, 40, 100);
    assert_int_equal(taken.milli[TAKEN_MAX - 1], 200);
}

NODE_TEST(room_take_all__takes_from_each_gpu)
{
    static const struct taken taken = {.count = 2, .milli = {200, 950}, .gpu = {0, 1}};
    struct room room;
    scene_add_gpus(scene, 3);
    scene_bind(scene, "a", "GPU-b", 300);
    room_of(scene_node(scene), &room);
    room_take_all(&room, &taken);
    assert_int_equal(room.gpu[0].free_milli, 800);
    assert_int_equal(room.gpu[1].free_milli, 0);
    assert_int_equal(room.gpu[2].free_milli, 1000);
    assert_int_equal(room.free_milli, 1800);
}

NODE_TEST(room_take_all__takes_from_as_many_gpus_as_there_may_be)
{
    struct taken taken = {0};
    struct room room;
    scene_add_gpus(scene, TAKEN_MAX + 2);
    for (uint32_t i = 0; i < TAKEN_MAX; i++)
        taken_add(&taken, 1 + i, 400);
    room_of(scene_node(scene), &room);
    room_take_all(&room, &taken);
    for (uint32_t i = 0; i < TAKEN_MAX + 2; i++)
        assert_int_equal(room.gpu[i].free_milli, i > 0 && i <= TAKEN_MAX ? 600 : 1000);
}

NODE_TEST(room__leaves_out_absent_gpus_beyond_the_limit)
{
    struct room room;
    scene_add_gpus(scene, 2);
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++) {
        char word[16];
        (void)snprintf(word, sizeof word, "lost-%02u", i);
        scene_bind(scene, word, word, 300);
    }
    const struct node *node = scene_node(scene);
    assert_int_equal(node->n_gpus, GPUS_PER_NODE_MAX + 2);
    room_of(node, &room);
    assert_int_equal(room.n_gpus, GPUS_PER_NODE_MAX);
    assert_int_equal(room.gpu[0].free_milli, 1000);
    assert_int_equal(room.gpu[1].closed, REASON_NONE);
}

NODE_TEST(room_without__equals_the_room_without_these_pods)
{
    static const struct text both[] = {TEXT("b"), TEXT("nobody"), TEXT("c"), TEXT("b")};
    struct room room;
    scene_add_gpus(scene, 2);
    const struct gpu *ill = scene_add_gpu(scene, "GPU-c", GPU_UNHEALTHY);
    scene->note[scene->build.n_notes++] = (struct gpu_note){.gpu = ill->id, .ill = "Xid 79"};
    const struct node *empty = scene_node(scene);
    scene_bind(scene, "a", "GPU-a", 300);
    scene_bind(scene, "b", "GPU-a", 800);
    scene_bind(scene, "c", "GPU-b", 400);
    const struct node *node = scene_node(scene);
    room_of(node, &room);
    assert_int_equal(room.gpu[0].closed, REASON_ROOM); /* over */
    assert_int_equal(room.gpu[0].free_milli, 0);
    assert_int_equal(room.gpu[0].free_mib, 0);

    room_without(node, both, 4, &room);
    assert_int_equal(room.gpu[0].closed, REASON_NONE);
    assert_int_equal(room.gpu[0].free_milli, 700);
    assert_int_equal(room.gpu[1].free_milli, 1000);
    assert_int_equal(room.free_milli, 1700);
    room_without(node, NULL, 0, &room);
    assert_int_equal(room.free_milli, 600);
    room_without(empty, both, 4, &room);
    assert_int_equal(room.free_milli, 2000);
    node_assert_valid(node); /* the node itself stays as it is */
}

NODE_TEST(place_shares__sets_the_memory_of_each_share)
{
    struct want want[] = {{.container = "x", .kind = CONTAINER_INIT, .parts = 2, .milli = 333},
                          {.container = "y", .parts = 1, .milli = 500}};
    struct request request = {.n_wants = 2, .want = want};
    struct room room;
    struct placement placement;
    struct share share[3];
    scene_add_gpus(scene, 2);
    const struct node *node = scene_node(scene);
    room_of(node, &room);
    assert_int_equal(place_search(&room, &request, &placement), REASON_NONE);
    assert_int_equal(placement.n_parts, 3);
    place_shares(&placement, &request, node, share);
    assert_string_equal(share[0].container, "x");
    assert_int_equal(share[0].kind, CONTAINER_INIT);
    assert_ptr_equal(share[0].gpu, atom("GPU-a"));
    assert_ptr_equal(share[1].gpu, atom("GPU-b"));
    assert_int_equal(share[1].order, 0);
    assert_int_equal(share[1].mib, 666);
    assert_string_equal(share[2].container, "y");
    assert_int_equal(share[2].order, 1);
    assert_ptr_equal(share[2].gpu, atom("GPU-a"));
    assert_int_equal(share[2].mib, 1000);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
