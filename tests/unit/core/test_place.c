#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "milligpu/alloc.h"
#include "milligpu/place.h"

#include "support/walk.h"

enum { GPUS = 6, WANTS = 4 }; /* of generated cases: small enough to try everything */

static struct names *names;

static int set_up(void **state)
{
    (void)state;
    names = names_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    names_free(names);
    return 0;
}

static const struct atom *atom(const char *text)
{
    return names_intern(names, text_of(text));
}

static uint64_t first_seed(void)
{
    const char *env = getenv("PLACE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    const uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 42;
    print_message("PLACE_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33) % below;
}

/*
 * The judge: every way to place a request, each held against the rules as they are written
 */

struct judge {
    const struct room *room;
    const struct request *request;
    uint32_t on[WANTS]; /* bit g: a part on GPU g */
    bool found;
    uint64_t ways;
    uint32_t best_touches;
    struct placement best;
};

/* The formula of request.h, word for word. */
static uint32_t judged_peak(const struct judge *judge, uint32_t gpu, bool mib)
{
    const struct request *request = judge->request;
    const struct gpu_room *room = &judge->room->gpu[gpu];
    uint32_t taken[WANTS] = {0};
    uint32_t apps = 0;
    uint32_t sidecars = 0;
    uint32_t inits = 0;

    for (uint32_t w = 0; w < request->wants; w++)
        if ((judge->on[w] >> gpu & 1) != 0)
            taken[w] =
                mib ? room->mib * request->want[w].milli / room->milli : request->want[w].milli;
    for (uint32_t w = 0; w < request->wants; w++) {
        apps += request->want[w].kind == CONTAINER_APP ? taken[w] : 0;
        sidecars += request->want[w].kind == CONTAINER_SIDECAR ? taken[w] : 0;
        if (request->want[w].kind != CONTAINER_INIT || taken[w] == 0)
            continue;
        uint32_t then = taken[w];
        for (uint32_t before = 0; before < w; before++)
            then += request->want[before].kind == CONTAINER_SIDECAR ? taken[before] : 0;
        inits = then > inits ? then : inits;
    }
    return apps + sidecars > inits ? apps + sidecars : inits;
}

static bool part_may_lie(const struct judge *judge, uint32_t want, uint32_t gpu)
{
    const struct gpu_room *room = &judge->room->gpu[gpu];
    const uint32_t milli = judge->request->want[want].milli;

    return judge->room->closed == REASON_NONE && room->closed == REASON_NONE && room->milli > 0 &&
           milli <= room->milli && request_takes_model(judge->request, atom_text(room->model)) &&
           room->mib * milli / room->milli >= judge->request->memory_mib;
}

static uint32_t touched(const struct judge *judge)
{
    uint32_t set = 0;

    for (uint32_t w = 0; w < judge->request->wants; w++)
        set |= judge->on[w];
    return (uint32_t)__builtin_popcount(set);
}

/* Each whole GPU is one that is there and that no share lies on. */
static bool leaves_whole(const struct judge *judge)
{
    uint32_t there = 0;

    for (uint32_t gpu = 0; gpu < judge->room->gpus; gpu++)
        there += judge->room->gpu[gpu].closed != REASON_ABSENT;
    return touched(judge) + judge->request->whole <= there;
}

/* False if it does not fit. */
static bool write_down(const struct judge *judge, struct placement *out)
{
    *out = (struct placement){.exact = true, .free_milli = judge->room->free_milli};
    for (uint32_t gpu = 0; gpu < judge->room->gpus; gpu++) {
        const uint32_t milli = judged_peak(judge, gpu, false);
        if (milli == 0)
            continue;
        if (milli > judge->room->gpu[gpu].free_milli ||
            judged_peak(judge, gpu, true) > judge->room->gpu[gpu].free_mib)
            return false;
        out->charge_milli += milli;
        out->left_milli += judge->room->gpu[gpu].free_milli - milli;
    }
    for (uint32_t w = 0; w < judge->request->wants; w++)
        for (uint32_t gpu = 0; gpu < judge->room->gpus; gpu++)
            if ((judge->on[w] >> gpu & 1) != 0)
                out->part[out->parts++] = (struct part){(uint16_t)w, (uint16_t)gpu};
    return true;
}

/* Rules 1, 2, 5; beside whole GPUs the fewest before all. */
static bool is_better(const struct judge *judge, const struct placement *a)
{
    const struct placement *b = &judge->best;

    if (judge->request->whole > 0 && touched(judge) != judge->best_touches)
        return touched(judge) < judge->best_touches;
    if (a->charge_milli != b->charge_milli)
        return a->charge_milli < b->charge_milli;
    if (a->left_milli != b->left_milli)
        return a->left_milli < b->left_milli;
    for (uint32_t i = 0; i < a->parts; i++)
        if (a->part[i].gpu != b->part[i].gpu)
            return a->part[i].gpu < b->part[i].gpu;
    fail_msg("two ways are one");
    return false;
}

static void try_all(struct judge *judge, uint32_t want)
{
    if (want == judge->request->wants) {
        struct placement placement;
        if (!write_down(judge, &placement) || !leaves_whole(judge))
            return;
        judge->ways++;
        if (!judge->found || is_better(judge, &placement)) {
            judge->best = placement;
            judge->best_touches = touched(judge);
        }
        judge->found = true;
        return;
    }
    for (uint32_t set = 1; set < 1U << judge->room->gpus; set++) {
        bool may = (uint32_t)__builtin_popcount(set) == judge->request->want[want].parts;
        for (uint32_t gpu = 0; may && gpu < judge->room->gpus; gpu++)
            may = (set >> gpu & 1) == 0 || part_may_lie(judge, want, gpu);
        judge->on[want] = set;
        if (may)
            try_all(judge, want + 1);
    }
    judge->on[want] = 0;
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
    const uint32_t taken = draw(seed, 11);
    const uint32_t steps = 10 - taken * draw(seed, 11) / 10; /* rather free than not */
    *out = (struct gpu_room){.milli = GPU_MILLI, .model = atom("A100")};
    if (draw(seed, 6) == 0)
        out->milli = 500;
    if (draw(seed, 5) == 0)
        out->model = atom("T4");
    out->mib = draw(seed, 6) == 0 ? 0 : 997; /* no multiple of anything: floors count */
    out->free_milli = out->milli * steps / 10;
    const uint32_t more = draw(seed, 8);
    out->free_mib = out->mib * steps / 10;
    if (more == 0)
        out->free_mib /= 2; /* memory, not milli, is what lacks */
    if (draw(seed, 12) == 0)
        out->closed = closed[draw(seed, ARRAY_LEN(closed))];
    if (draw(seed, 40) == 0)
        *out = (struct gpu_room){.closed = REASON_ABSENT, .model = atom("")};
}

static void draw_room(uint64_t *seed, uint32_t gpus_max, struct room *out)
{
    out->gpus = 1 + draw(seed, gpus_max);
    out->closed = REASON_NONE;
    out->shared = false;
    out->free_milli = 0;
    const uint32_t closed = draw(seed, 40);
    if (closed < 2)
        out->closed = closed == 0 ? REASON_MIXED : REASON_UNPLACED;
    for (uint32_t i = 0; i < out->gpus; i++) {
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
    out->request.wants = 1 + draw(seed, wants_max);
    out->request.whole = draw(seed, 4) == 0 ? 1 + draw(seed, 3) : 0;
    out->request.models = draw(seed, 6) == 0;
    const uint32_t memory = draw(seed, 8);
    out->request.memory_mib = memory == 0 ? 200 : 0;
    for (uint32_t w = 0; w < out->request.wants; w++) {
        const uint32_t parts = draw(seed, 10);
        out->want[w] = (struct want){.container = "c", .parts = 1};
        out->want[w].kind = (enum container_kind)draw(seed, 3);
        const uint32_t most = draw(seed, 3) == 0 ? 20 : 8;
        out->want[w].milli = 50 * (1 + draw(seed, most));
        if (parts < 3)
            out->want[w].parts = 1 + parts;
    }
}

static void assert_same_placement(const struct placement *a, const struct placement *b)
{
    assert_int_equal(a->exact, b->exact);
    assert_int_equal(a->charge_milli, b->charge_milli);
    assert_int_equal(a->left_milli, b->left_milli);
    assert_int_equal(a->free_milli, b->free_milli);
    assert_int_equal(a->parts, b->parts);
    for (uint32_t i = 0; i < a->parts; i++) {
        assert_int_equal(a->part[i].want, b->part[i].want);
        assert_int_equal(a->part[i].gpu, b->part[i].gpu);
    }
}

static void what_is_found_is_the_best_of_all_ways(void **state)
{
    (void)state;
    uint64_t seed = first_seed();
    uint64_t fitting[WANTS + 1] = {0};
    uint64_t refused[WANTS + 1] = {0};
    uint64_t ways = 0;
    uint32_t reasons[REASONS] = {0};

    for (int i = 0; i < walk_steps(30000, 9000); i++) {
        struct setting setting;
        struct placement found;
        draw_setting(&seed, i % 10 == 0 ? GPUS : 4, WANTS, &setting);
        struct judge judge = {.room = &setting.room, .request = &setting.request};
        try_all(&judge, 0);
        const enum reason why = place_search(&setting.room, &setting.request, &found);
        assert_int_equal(why == REASON_NONE, judge.found);
        reasons[why]++;
        ways += judge.ways;
        if (!judge.found) {
            refused[setting.request.wants]++;
            continue;
        }
        fitting[setting.request.wants]++;
        assert_same_placement(&found, &judge.best);
        struct placement again;
        memset(&again, 0xa5, sizeof again); /* nothing of what was there before matters */
        assert_int_equal(place_search(&setting.room, &setting.request, &again), REASON_NONE);
        assert_same_placement(&found, &again);
    }
    print_message("%llu ways judged\n", (unsigned long long)ways);
    for (uint32_t wants = 1; wants <= WANTS; wants++)
        assert_true(fitting[wants] > 500 && refused[wants] > 500);
    /* Of the reasons that a room can give, none was missed; NO_GPU is tested by its own. */
    for (enum reason why = REASON_MODEL; why <= REASON_ROOM; why++)
        assert_true(reasons[why] > 0);
}

static struct gpu_room whole_gpu(void)
{
    return (struct gpu_room){
        .milli = GPU_MILLI,
        .mib = 81920,
        .free_milli = GPU_MILLI,
        .free_mib = 81920,
        .model = atom("A100-SXM4-80GB"),
    };
}

static void set_room(struct room *room, uint32_t gpus)
{
    room->closed = REASON_NONE;
    room->gpus = gpus;
    room->free_milli = gpus * GPU_MILLI;
    for (uint32_t i = 0; i < gpus; i++)
        room->gpu[i] = whole_gpu();
}

static void the_first_hurdle_of_the_nearest_gpu_is_the_reason(void **state)
{
    (void)state;
    const char *glob[] = {"A100*"};
    struct want want = {.container = "c", .parts = 1, .milli = 300};
    struct request request = {
        .wants = 1, .want = &want, .models = 1, .model = glob, .memory_mib = 16384};
    struct room room;
    struct placement placement;
    set_room(&room, 0);
    assert_int_equal(place_search(&room, &request, &placement), REASON_NO_GPU);

    /* One GPU has every fault at once; taken away one by one they come in the table's order. */
    set_room(&room, 1);
    room.closed = REASON_MIXED;
    room.gpu[0] =
        (struct gpu_room){.milli = 200, .mib = 100, .closed = REASON_CORDONED, .model = atom("T4")};
    static const enum reason order[] = {REASON_MODEL,    REASON_SMALL, REASON_MEMORY, REASON_MIXED,
                                        REASON_CORDONED, REASON_ROOM,  REASON_NONE};
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        assert_int_equal(place_search(&room, &request, &placement), order[i]);
        if (order[i] == REASON_MODEL)
            room.gpu[0].model = atom("NVIDIA A100 80GB");
        else if (order[i] == REASON_SMALL)
            room.gpu[0].milli = GPU_MILLI;
        else if (order[i] == REASON_MEMORY)
            room.gpu[0].mib = 81920;
        else if (order[i] == REASON_MIXED)
            room.closed = REASON_NONE;
        else if (order[i] == REASON_CORDONED)
            room.gpu[0].closed = REASON_NONE;
        else
            room.gpu[0].free_milli = room.gpu[0].free_mib = 81920 * 300 / 1000;
    }
}

static void of_several_gpus_the_one_nearest_to_fitting_speaks(void **state)
{
    (void)state;
    struct want want = {.container = "c", .parts = 1, .milli = 600};
    struct request request = {.wants = 1, .want = &want};
    struct room room;
    struct placement placement;
    set_room(&room, 3);
    room.gpu[0].milli = 500; /* too small for ever */
    room.gpu[1].closed = REASON_UNHEALTHY;
    room.gpu[2].closed = REASON_ABSENT;
    assert_int_equal(place_search(&room, &request, &placement), REASON_UNHEALTHY);
    want.parts = 3;
    assert_int_equal(place_search(&room, &request, &placement), REASON_FEW);
    want.parts = 2;
    assert_int_equal(place_search(&room, &request, &placement), REASON_UNHEALTHY);
    want.parts = 4;
    assert_int_equal(place_search(&room, &request, &placement), REASON_FEW);
}

static void a_want_that_can_never_be_served_speaks_for_all(void **state)
{
    (void)state;
    struct want want[] = {{.container = "a", .parts = 1, .milli = 800},
                          {.container = "b", .parts = 2, .milli = 100}};
    struct request request = {.wants = 2, .want = want};
    struct room room;
    struct placement placement;
    set_room(&room, 1);
    room.gpu[0].free_milli = 500; /* no room for a now; for b there never will be */
    assert_int_equal(place_search(&room, &request, &placement), REASON_FEW);
    want[1].parts = 1;
    assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);
    /* Each fits alone, both do not. */
    want[0].milli = 450;
    assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);
    room.gpu[0].free_milli = 550;
    assert_int_equal(place_search(&room, &request, &placement), REASON_NONE);
}

static void of_two_wants_the_one_nearest_to_fitting_speaks(void **state)
{
    (void)state;
    struct want want[] = {{.container = "a", .parts = 1, .milli = 800},
                          {.container = "b", .parts = 1, .milli = 300}};
    struct request request = {.wants = 2, .want = want};
    struct room room;
    struct placement placement;
    set_room(&room, 2);
    room.gpu[0].closed = REASON_CORDONED; /* the only one for a */
    room.gpu[1].milli = 500;
    room.gpu[1].free_milli = 100; /* b would only have to wait */
    assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);
    want[0].milli = 300;
    want[1].milli = 800;
    assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);
}

static void each_gpu_of_the_largest_node_may_be_the_only_one(void **state)
{
    (void)state;
    struct want want = {.container = "c", .parts = 1, .milli = 300};
    struct request request = {.wants = 1, .want = &want};
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
    request.models = 1;
    request.model = glob; /* of which there is none, not even at the end */
    assert_int_equal(place_search(&room, &request, &placement), REASON_MODEL);
}

static void memory_fits_to_the_last_mib(void **state)
{
    (void)state;
    struct want want[] = {{.container = "a", .parts = 1, .milli = 500},
                          {.container = "b", .parts = 1, .milli = 500}};
    struct request request = {.wants = 1, .want = want};
    struct room room;
    struct placement placement;
    set_room(&room, 1);
    room.gpu[0].mib = 1000;
    room.gpu[0].free_mib = 500;
    assert_int_equal(place_search(&room, &request, &placement), REASON_NONE);
    room.gpu[0].free_mib = 499;
    assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);
    /* Two shares of 500 MiB each, though their sum of 1000 milli would come with 1001. */
    request.wants = 2;
    room.gpu[0].mib = 1001;
    room.gpu[0].free_mib = 1000;
    assert_int_equal(place_search(&room, &request, &placement), REASON_NONE);
    room.gpu[0].free_mib = 999;
    assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);

    struct want six[EXACT_WANTS_MAX];
    for (uint32_t w = 0; w < EXACT_WANTS_MAX; w++)
        six[w] = (struct want){.container = "c", .parts = 1, .milli = 100};
    request = (struct request){.wants = EXACT_WANTS_MAX, .want = six};
    room.gpu[0].mib = 1009; /* 100 MiB each, 605 for all */
    room.gpu[0].free_mib = 600;
    assert_int_equal(place_search(&room, &request, &placement), REASON_NONE);
    room.gpu[0].free_mib = 599;
    assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);
}

static void a_gpu_of_unknown_size_is_absent_and_not_small(void **state)
{
    (void)state;
    const char *glob[] = {"A100*"};
    struct want want = {.container = "c", .parts = 1, .milli = 300};
    struct request request = {.wants = 1, .want = &want, .models = 1, .model = glob};
    struct room room;
    struct placement placement;
    set_room(&room, 1);
    room.gpu[0] = (struct gpu_room){.closed = REASON_ABSENT, .model = atom("")};
    assert_int_equal(place_search(&room, &request, &placement), REASON_ABSENT);
}

/* Eight wants, or six of many parts: beyond what is placed exactly. */
static void check_greedy(const struct setting *setting, const struct placement *found)
{
    uint32_t at = 0;
    uint32_t charge = 0;
    uint32_t left = 0;

    assert_false(found->exact);
    for (uint32_t w = 0; w < setting->request.wants; w++)
        for (uint32_t part = 0; part < setting->want[w].parts; part++, at++) {
            assert_int_equal(found->part[at].want, w);
            assert_true(part == 0 || found->part[at - 1].gpu < found->part[at].gpu);
        }
    assert_int_equal(found->parts, at);
    for (uint32_t gpu = 0; gpu < setting->room.gpus; gpu++) {
        uint32_t milli[CONTAINERS_MAX] = {0};
        uint32_t mib[CONTAINERS_MAX] = {0};
        const struct gpu_room *room = &setting->room.gpu[gpu];
        for (uint32_t i = 0; i < found->parts; i++) {
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

static void many_wants_are_placed_greedily_and_rightly(void **state)
{
    (void)state;
    uint64_t seed = first_seed();
    uint32_t fitting = 0;
    uint32_t refused = 0;
    for (int i = 0; i < walk_steps(20000, 4000); i++) {
        struct setting setting;
        struct placement found;
        draw_setting(&seed, 12, 1, &setting);
        setting.request.wants = EXACT_WANTS_MAX + 1 + draw(&seed, 6);
        for (uint32_t w = 0; w < setting.request.wants; w++) {
            setting.want[w] = (struct want){.container = "c", .parts = 1};
            setting.want[w].kind = (enum container_kind)draw(&seed, 3);
            setting.want[w].milli = 20 * (1 + draw(&seed, 20));
            if (draw(&seed, 5) == 0)
                setting.want[w].parts = 2;
        }
        if (place_search(&setting.room, &setting.request, &found) != REASON_NONE) {
            refused++;
            continue;
        }
        check_greedy(&setting, &found);
        fitting++;
    }
    assert_true(fitting > 1000 && refused > 1000);
}

static void too_many_states_are_left_to_the_greedy_way(void **state)
{
    (void)state;
    struct setting setting = {.request = {.wants = 4, .want = setting.want}};
    struct placement found;
    set_room(&setting.room, 8);
    for (uint32_t w = 0; w < 4; w++)
        setting.want[w] = (struct want){.container = "c", .parts = 8, .milli = 200};
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    check_greedy(&setting, &found);
    setting.request.wants = 3; /* 9 x 9 x 9 are few enough */
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    assert_true(found.exact);
}

static void as_many_states_as_there_may_be_are_gone_through(void **state)
{
    (void)state;
    struct setting setting = {.request = {.wants = 5, .want = setting.want}};
    struct placement found;
    set_room(&setting.room, 4);
    for (uint32_t w = 0; w < 5; w++)
        setting.want[w] = (struct want){.container = "c", .parts = 3, .milli = 100};
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    assert_true(found.exact); /* 4 x 4 x 4 x 4 x 4 = 1024 */
}

/* Nine small ones, so that the way is greedy; the tests say what is different about them. */
static void start_nine(struct setting *setting, uint32_t gpus)
{
    *setting = (struct setting){.request = {.wants = 9, .want = setting->want}};
    set_room(&setting->room, gpus);
    for (uint32_t w = 0; w < 9; w++)
        setting->want[w] = (struct want){.container = "c", .parts = 1, .milli = 1};
}

/* Where the first part of a want went. */
static uint32_t place_of(const struct placement *found, uint32_t want)
{
    for (uint32_t i = 0; i < found->parts; i++)
        if (found->part[i].want == want)
            return found->part[i].gpu;
    fail_msg("want %u has no part", want);
    return 0;
}

static void the_greedy_way_takes_the_tightest_gpu_and_stays_on_it(void **state)
{
    (void)state;
    struct setting setting;
    struct placement found;
    start_nine(&setting, 3);
    setting.room.gpu[0].free_milli = 900;
    setting.room.gpu[1].free_milli = 500;
    setting.room.gpu[2].free_milli = 700;
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    check_greedy(&setting, &found);
    for (uint32_t w = 0; w < 9; w++)
        assert_int_equal(place_of(&found, w), 1);

    /* Of GPUs that are used already and cost the same, the first. */
    setting.want[0].parts = 2; /* on 1 and 2 */
    setting.room.gpu[1].free_milli = 700;
    setting.room.gpu[2].free_milli = 500;
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    check_greedy(&setting, &found);
    assert_int_equal(place_of(&found, 0), 1);
    for (uint32_t w = 1; w < 9; w++)
        assert_int_equal(place_of(&found, w), 1);
}

static void a_gpu_of_which_one_thousandth_is_taken_is_a_used_one(void **state)
{
    (void)state;
    struct setting setting;
    struct placement found;
    start_nine(&setting, 9);
    setting.want[0].parts = 9; /* on each; the others stay together */
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    check_greedy(&setting, &found); /* which adds up what is left */
}

static void the_greedy_way_charges_as_little_as_it_can(void **state)
{
    (void)state;
    struct setting setting;
    struct placement found;
    start_nine(&setting, 2);
    setting.want[0].milli = 500; /* fills GPU 0 */
    setting.want[1] =
        (struct want){.container = "s", .kind = CONTAINER_SIDECAR, .parts = 1, .milli = 5};
    setting.want[2] =
        (struct want){.container = "i", .kind = CONTAINER_INIT, .parts = 1, .milli = 3};
    setting.room.gpu[0].free_milli = 500;
    setting.room.gpu[1].free_milli = 900;
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    check_greedy(&setting, &found);
    assert_int_equal(place_of(&found, 0), 0);
    assert_int_equal(place_of(&found, 1), 1);
    assert_int_equal(place_of(&found, 2), 0); /* where it adds nothing; beside the sidecar, 3 */
}

static void of_equally_large_wants_the_pods_first_goes_first(void **state)
{
    (void)state;
    struct setting setting;
    struct placement found;
    start_nine(&setting, 3);
    setting.want[3].milli = setting.want[4].milli = 100;
    setting.want[3].parts = 2; /* takes both; the other way round one would be full */
    setting.room.gpu[0].free_milli = 100;
    setting.room.gpu[1].free_milli = 200;
    setting.room.gpu[2].free_milli = 50;
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    check_greedy(&setting, &found);
    assert_int_equal(place_of(&found, 3), 0);
    assert_int_equal(place_of(&found, 4), 1);
}

static void the_largest_pod_is_placed(void **state)
{
    (void)state;
    struct setting setting = {.request = {.wants = CONTAINERS_MAX, .want = setting.want}};
    struct placement found;
    set_room(&setting.room, GPUS_PER_NODE_MAX);
    for (uint32_t w = 0; w < CONTAINERS_MAX; w++)
        setting.want[w] =
            (struct want){.container = "c", .parts = PARTS_MAX / CONTAINERS_MAX, .milli = 125};
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
    assert_int_equal(found.parts, PARTS_MAX);
    assert_int_equal(found.left_milli, 0);
    check_greedy(&setting, &found);
    setting.want[0].milli = 126;
    assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_ROOM);
}

static double ms_since(const struct timespec *start)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) * 1e3 +
           (double)(now.tv_nsec - start->tv_nsec) / 1e6;
}

static void the_worst_case_is_bounded(void **state)
{
    (void)state;
    struct setting setting = {.request = {.wants = EXACT_WANTS_MAX, .want = setting.want}};
    struct placement found;
    for (uint32_t parts = 1; parts <= 3; parts++) {
        set_room(&setting.room, GPUS_PER_NODE_MAX);
        for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
            setting.room.gpu[i].free_milli = 600 + 6 * i; /* all different, all roomy */
        for (uint32_t w = 0; w < EXACT_WANTS_MAX; w++)
            setting.want[w] = (struct want){.container = "c", .parts = parts, .milli = 60 + w};
        struct timespec start;
        (void)clock_gettime(CLOCK_MONOTONIC, &start);
        assert_int_equal(place_search(&setting.room, &setting.request, &found), REASON_NONE);
        print_message("6 wants of %u parts, 64 GPUs: %.2f ms\n", parts, ms_since(&start));
        assert_int_equal(found.exact, parts <= 2); /* 3^6 states, not 4^6 */
        assert_int_equal(found.parts, EXACT_WANTS_MAX * parts);
    }
}

/*
 * The order
 */

static void draw_placement(uint64_t *seed, struct placement *out)
{
    out->exact = true;
    out->charge_milli = 1 + draw(seed, 2);
    out->left_milli = draw(seed, 2);
    out->free_milli = draw(seed, 2);
    out->parts = 1 + draw(seed, 2);
    for (uint32_t i = 0; i < out->parts; i++) {
        out->part[i].want = (uint16_t)draw(seed, 2);
        out->part[i].gpu = (uint16_t)draw(seed, 2);
    }
}

static bool is_same(const struct placement *a, const struct placement *b)
{
    return a->charge_milli == b->charge_milli && a->left_milli == b->left_milli &&
           a->free_milli == b->free_milli && a->parts == b->parts &&
           memcmp(a->part, b->part, a->parts * sizeof a->part[0]) == 0;
}

static int sign(int number)
{
    return (number > 0) - (number < 0);
}

static void the_order_is_total(void **state)
{
    (void)state;
    static const char *const node[] = {"a", "a-1", "b"};
    uint64_t seed = first_seed();
    uint32_t ties = 0;
    for (int i = 0; i < walk_steps(200000, 20000); i++) {
        struct placement p[3];
        const struct atom *on[3];
        for (int k = 0; k < 3; k++) {
            draw_placement(&seed, &p[k]);
            on[k] = atom(node[draw(&seed, 3)]);
        }
        const int ab = sign(placement_cmp(&p[0], on[0], &p[1], on[1]));
        const int ba = sign(placement_cmp(&p[1], on[1], &p[0], on[0]));
        const int bc = sign(placement_cmp(&p[1], on[1], &p[2], on[2]));
        const int ac = sign(placement_cmp(&p[0], on[0], &p[2], on[2]));
        assert_int_equal(ab, -ba);
        assert_int_equal(ab == 0, on[0] == on[1] && is_same(&p[0], &p[1]));
        if (ab <= 0 && bc <= 0)
            assert_true(ac <= 0 && (ac < 0 || (ab == 0 && bc == 0)));
        ties += ab == 0;
    }
    assert_true(ties > 0);
}

static void the_rules_decide_in_their_order(void **state)
{
    (void)state;
    const struct placement base = {
        .charge_milli = 5, .left_milli = 5, .free_milli = 5, .parts = 2, .part = {{0, 1}, {1, 1}}};
    struct placement worse[6];
    const struct atom *on[6];
    for (int i = 0; i < 6; i++) {
        worse[i] = base;
        on[i] = atom("m");
    }
    worse[0].charge_milli = 6;
    worse[1].left_milli = 6;
    worse[2].free_milli = 6;
    on[3] = atom("n");
    worse[4].part[0].gpu = 2;
    worse[5].part[1].gpu = 2;
    /* Each is worse than base, and an earlier rule outweighs all later ones. */
    for (int i = 0; i < 6; i++) {
        assert_true(placement_cmp(&base, atom("m"), &worse[i], on[i]) < 0);
        for (int k = i + 1; k < 6; k++)
            assert_true(placement_cmp(&worse[i], on[i], &worse[k], on[k]) > 0);
    }
    assert_int_equal(placement_cmp(&base, atom("m"), &base, atom("m")), 0);
}

static void of_placements_that_begin_alike_the_shorter_comes_first(void **state)
{
    (void)state;
    /* What stands behind the parts is left over from before. */
    const struct placement one = {.parts = 1, .part = {{0, 1}, {9, 9}}};
    const struct placement two = {.parts = 2, .part = {{0, 1}, {1, 1}}};
    assert_true(placement_cmp(&one, atom("m"), &two, atom("m")) < 0);
    assert_true(placement_cmp(&two, atom("m"), &one, atom("m")) > 0);
}

/*
 * Rooms of nodes
 */

static struct node *two_gpus(const struct allocation *const *allocation, uint32_t allocations)
{
    const struct gpu gpu[] = {
        {.id = atom("GPU-a"), .model = atom("A100"), .milli = 1000, .mib = 81920, .index = 0},
        {.id = atom("GPU-b"), .model = atom("A100"), .milli = 1000, .mib = 81920, .index = 1}};
    const struct node_build build = {.name = atom("n1"),
                                     .uid = atom("u"),
                                     .problem_text = atom(""),
                                     .gpus = 2,
                                     .gpu = gpu,
                                     .allocations = allocations,
                                     .allocation = allocation};
    return node_new(&build);
}

static const struct allocation *pod(const char *uid, const char *gpu, uint32_t milli)
{
    const struct share share = {
        .container = "c", .gpu = atom(gpu), .milli = milli, .mib = milli * 80};
    const struct allocation_facts facts = {.uid = uid,
                                           .namespace = "default",
                                           .name = uid,
                                           .node = atom("n1"),
                                           .state = STATE_BOUND,
                                           .origin = ORIGIN_OBSERVED,
                                           .shares = 1,
                                           .share = &share};
    return allocation_new(&facts);
}

static void the_room_of_a_node_is_what_is_left(void **state)
{
    (void)state;
    const struct allocation *pods[] = {pod("a", "GPU-a", 300), pod("b", "GPU-lost", 400)};
    struct node *node = two_gpus(pods, 2);
    struct room room;
    room_of(node, &room);
    assert_int_equal(room.gpus, 3);
    assert_int_equal(room.closed, REASON_NONE);
    assert_int_equal(room.free_milli, 1700);
    assert_int_equal(room.gpu[0].free_milli, 700);
    assert_int_equal(room.gpu[0].free_mib, 81920 - 24000);
    assert_int_equal(room.gpu[2].closed, REASON_ABSENT);

    room_take(&room, 0, 200);
    assert_int_equal(room.gpu[0].free_milli, 500);
    assert_int_equal(room.free_milli, 1500);
    room_take(&room, 0, 9999); /* more than is free leaves 0 */
    assert_int_equal(room.gpu[0].free_milli, 0);
    assert_int_equal(room.free_milli, 1000);
    room_take(&room, 2, 100);
    assert_int_equal(room.free_milli, 1000);
    node_unref(node);
    allocation_unref(pods[0]);
    allocation_unref(pods[1]);
}

static void more_missing_gpus_than_a_node_may_have_are_not_seen(void **state)
{
    (void)state;
    const struct allocation *pods[GPUS_PER_NODE_MAX];
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++) {
        char word[16];
        (void)snprintf(word, sizeof word, "lost-%02u", i);
        pods[i] = pod(word, word, 300);
    }
    struct node *node = two_gpus(pods, GPUS_PER_NODE_MAX);
    struct room room;
    assert_int_equal(node->gpus, GPUS_PER_NODE_MAX + 2);
    room_of(node, &room);
    assert_int_equal(room.gpus, GPUS_PER_NODE_MAX);
    assert_int_equal(room.gpu[0].free_milli, 1000);
    assert_int_equal(room.gpu[1].closed, REASON_NONE);
    node_unref(node);
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        allocation_unref(pods[i]);
}

static void a_room_without_pods_is_that_of_a_node_without_them(void **state)
{
    (void)state;
    const struct allocation *pods[] = {pod("a", "GPU-a", 300), pod("b", "GPU-a", 800),
                                       pod("c", "GPU-b", 400)};
    struct node *node = two_gpus(pods, 3);
    struct room room;
    room_of(node, &room);
    assert_int_equal(room.gpu[0].closed, REASON_ROOM); /* over */
    assert_int_equal(room.gpu[0].free_milli, 0);
    assert_int_equal(room.gpu[0].free_mib, 0);

    const struct text both[] = {TEXT("b"), TEXT("nobody"), TEXT("c"), TEXT("b")};
    room_without(node, both, 4, &room);
    assert_int_equal(room.gpu[0].closed, REASON_NONE);
    assert_int_equal(room.gpu[0].free_milli, 700);
    assert_int_equal(room.gpu[1].free_milli, 1000);
    assert_int_equal(room.free_milli, 1700);
    room_without(node, NULL, 0, &room);
    assert_int_equal(room.free_milli, 600);
    struct node *empty = two_gpus(NULL, 0);
    room_without(empty, both, 4, &room);
    assert_int_equal(room.free_milli, 2000);
    node_unref(empty);
    node_audit(node); /* the node itself stays as it is */
    node_unref(node);
    for (int i = 0; i < 3; i++)
        allocation_unref(pods[i]);
}

static void shares_carry_the_memory_that_comes_with_them(void **state)
{
    (void)state;
    struct want want[] = {{.container = "x", .kind = CONTAINER_INIT, .parts = 2, .milli = 333},
                          {.container = "y", .parts = 1, .milli = 500}};
    struct request request = {.wants = 2, .want = want};
    struct node *node = two_gpus(NULL, 0);
    struct room room;
    struct placement placement;
    struct share share[3];
    room_of(node, &room);
    assert_int_equal(place_search(&room, &request, &placement), REASON_NONE);
    assert_int_equal(placement.parts, 3);
    place_shares(&placement, &request, node, share);
    assert_string_equal(share[0].container, "x");
    assert_int_equal(share[0].kind, CONTAINER_INIT);
    assert_ptr_equal(share[0].gpu, atom("GPU-a"));
    assert_ptr_equal(share[1].gpu, atom("GPU-b"));
    assert_int_equal(share[1].order, 0);
    assert_int_equal(share[1].mib, 81920 * 333 / 1000);
    assert_string_equal(share[2].container, "y");
    assert_int_equal(share[2].order, 1);
    assert_ptr_equal(share[2].gpu, atom("GPU-a"));
    assert_int_equal(share[2].mib, 40960);
    node_unref(node);
}

static void shares_leave_whole_gpus_of_the_same_pod_as_many_as_they_can(void **state)
{
    (void)state;
    struct want wants[] = {{.container = "a", .parts = 1, .milli = 500},
                           {.container = "b", .parts = 1, .milli = 300}};
    struct request request = {.wants = 2, .want = wants, .whole = 2};
    struct room room = {0};
    struct placement placement;

    /* Both halves would be as tight as the large one, and come first. */
    set_room(&room, 3);
    room.gpu[0].milli = room.gpu[0].free_milli = 500;
    room.gpu[1].milli = room.gpu[1].free_milli = 500;
    assert_int_equal(place_search(&room, &request, &placement), REASON_NONE);
    assert_int_equal(placement.part[0].gpu, 2);
    assert_int_equal(placement.part[1].gpu, 2);
    request.whole = 3;
    assert_int_equal(place_search(&room, &request, &placement), REASON_ROOM);
}

static void whole_gpus_alone_are_placed_on_no_gpu(void **state)
{
    (void)state;
    const struct request whole = {.whole = 1};
    struct room room = {.free_milli = 700};
    struct placement placement;
    memset(&placement, 0xAA, sizeof placement);
    placement.exact = false;
    assert_int_equal(place_search(&room, &whole, &placement), REASON_NONE);
    assert_true(placement.exact);
    assert_int_equal(placement.parts, 0);
    assert_int_equal(placement.charge_milli, 0);
    assert_int_equal(placement.free_milli, 700);
    room.shared = true;
    assert_int_equal(place_search(&room, &whole, &placement), REASON_MIXED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_leave_whole_gpus_of_the_same_pod_as_many_as_they_can),
        cmocka_unit_test(whole_gpus_alone_are_placed_on_no_gpu),
        cmocka_unit_test(what_is_found_is_the_best_of_all_ways),
        cmocka_unit_test(the_first_hurdle_of_the_nearest_gpu_is_the_reason),
        cmocka_unit_test(of_several_gpus_the_one_nearest_to_fitting_speaks),
        cmocka_unit_test(a_want_that_can_never_be_served_speaks_for_all),
        cmocka_unit_test(of_two_wants_the_one_nearest_to_fitting_speaks),
        cmocka_unit_test(each_gpu_of_the_largest_node_may_be_the_only_one),
        cmocka_unit_test(memory_fits_to_the_last_mib),
        cmocka_unit_test(a_gpu_of_unknown_size_is_absent_and_not_small),
        cmocka_unit_test(many_wants_are_placed_greedily_and_rightly),
        cmocka_unit_test(too_many_states_are_left_to_the_greedy_way),
        cmocka_unit_test(as_many_states_as_there_may_be_are_gone_through),
        cmocka_unit_test(the_greedy_way_takes_the_tightest_gpu_and_stays_on_it),
        cmocka_unit_test(a_gpu_of_which_one_thousandth_is_taken_is_a_used_one),
        cmocka_unit_test(the_greedy_way_charges_as_little_as_it_can),
        cmocka_unit_test(of_equally_large_wants_the_pods_first_goes_first),
        cmocka_unit_test(the_largest_pod_is_placed),
        cmocka_unit_test(the_worst_case_is_bounded),
        cmocka_unit_test(the_order_is_total),
        cmocka_unit_test(the_rules_decide_in_their_order),
        cmocka_unit_test(of_placements_that_begin_alike_the_shorter_comes_first),
        cmocka_unit_test(the_room_of_a_node_is_what_is_left),
        cmocka_unit_test(more_missing_gpus_than_a_node_may_have_are_not_seen),
        cmocka_unit_test(a_room_without_pods_is_that_of_a_node_without_them),
        cmocka_unit_test(shares_carry_the_memory_that_comes_with_them),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
