/*
 * Prices and raised shares inside one node, compared with every possible placement at every
 * possible amount, for one container and several, under every policy.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/rank/policy.h"

#include "core/place/place_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/place_oracle.h"
#include "support/test.h"
#include "support/walk.h"

enum { GPUS = 4, WANTS = 2, MANY = 7 };

/*
 * Settings
 */

struct setting {
    struct rulebook *book;
    struct rule rule;
    struct policy_context *context;
    struct room room;
    struct request request;
    struct want want[MANY];
    const char *model[1];
};

static void draw_gpu(uint64_t *seed, struct gpu_room *out)
{
    /* Two cards have one price, and one is priced by its memory. */
    static const char *const model[] = {"T4", "Tesla-T4", "A100-SXM4-80GB", "L4", "card"};
    static const uint32_t mib[] = {0, 991, 997, 16384, 40960, 81920};

    *out = (struct gpu_room){.model = atom(model[draw_below(seed, ARRAY_LEN(model))]),
                             .milli = draw_below(seed, 6) == 0 ? 500 : GPU_MILLI,
                             .mib = mib[draw_below(seed, ARRAY_LEN(mib))]};
    const uint32_t tenths = 10 - draw_below(seed, 8) * draw_below(seed, 2);
    out->free_milli = out->milli * tenths / 10;
    out->free_mib = out->mib * tenths / 10 / (draw_below(seed, 8) == 0 ? 2 : 1);
    if (draw_below(seed, 12) == 0)
        out->closed = REASON_CORDONED;
    if (draw_below(seed, 20) == 0)
        *out = (struct gpu_room){.model = atom(""), .closed = REASON_ABSENT};
}

static void draw_request(uint64_t *seed, struct setting *out)
{
    static const uint32_t memory[] = {0, 300, 9000, 16384, 30000};

    out->request = (struct request){.want = out->want, .model = out->model};
    out->request.n_wants = 1 + draw_below(seed, WANTS);
    out->request.memory_mib = memory[draw_below(seed, ARRAY_LEN(memory))];
    out->request.rules = RULES_ALL;
    out->model[0] = "A100*";
    out->request.n_models = draw_below(seed, 10) == 0;
    out->request.whole = draw_below(seed, 10) == 0;
    for (uint32_t w = 0; w < out->request.n_wants; w++)
        out->want[w] = (struct want){.container = "c",
                                     .kind = (enum container_kind)draw_below(seed, 3),
                                     .parts = 1 + draw_below(seed, 4) / 3,
                                     .milli = 100 * (1 + draw_below(seed, 5))};
}

static void draw_setting(uint64_t *seed, enum policy_kind policy, struct setting *out)
{
    struct workload_class class = {.count = 1, .parts = 1, .milli = 300};
    struct workload *workload = workload_new(&class, 1);

    *out = (struct setting){.book = rulebook_new(policy, "drawn")};
    out->book->raise = draw_below(seed, 3) > 0;
    out->book->prices_by = draw_below(seed, 3) > 0 ? PRICES_KNOWN : PRICES_OFF;
    out->rule = (struct rule){.name = "drawn", .memory = (enum memory_mode)draw_below(seed, 3)};
    if (draw_below(seed, 2) == 0)
        out->rule.step_milli = 100;
    out->book->n_rules = draw_below(seed, 2);
    out->book->rule = &out->rule;
    out->context = policy_context_of_rulebook(out->book, RULES_ALL, workload);
    workload_unref(workload);
    out->room.rules = out->book->n_rules;
    out->room.n_gpus = 1 + draw_below(seed, GPUS);
    for (uint32_t i = 0; i < out->room.n_gpus; i++) {
        draw_gpu(seed, &out->room.gpu[i]);
        if (out->room.gpu[i].closed == REASON_NONE)
            out->room.free_milli += out->room.gpu[i].free_milli;
    }
    draw_request(seed, out);
}

static void setting_done(struct setting *setting)
{
    policy_context_unref(setting->context);
    rulebook_unref(setting->book);
}

static bool setting_raises(const struct setting *setting)
{
    if (setting->request.memory_mib == 0)
        return false;
    if (setting->book->n_rules > 0 && setting->rule.memory != MEMORY_UNSAID)
        return setting->rule.memory == MEMORY_RAISE;
    return setting->book->raise;
}

static uint32_t price_of(const struct setting *setting, uint32_t gpu)
{
    const struct gpu_room *room = &setting->room.gpu[gpu];
    return rulebook_price(setting->book, atom_text(room->model),
                          room->mib * (GPU_MILLI / room->milli));
}

static void ask_at(const struct setting *setting, uint32_t raised_milli, struct place_oracle *out)
{
    *out = (struct place_oracle){.room = &setting->room,
                                 .request = &setting->request,
                                 .book = setting->book,
                                 .raised_milli = raised_milli};
    place_oracle_run(out);
}

/* The lowest price at any amount; of the amounts with this price, the smallest. */
static void ask_oracle(const struct setting *setting, struct place_oracle *out)
{
    const struct rule *rule = setting->book->n_rules > 0 ? &setting->rule : NULL;
    struct place_oracle raised;

    ask_at(setting, 0, out);
    for (uint32_t m = 1; setting_raises(setting) && m <= GPU_MILLI; m++) {
        if (rule != NULL && rule->step_milli > 0 && m % rule->step_milli != 0)
            continue;
        ask_at(setting, m, &raised);
        if (raised.found && (!out->found || raised.best.price < out->best.price))
            *out = raised;
    }
}

/*
 * Comparison
 */

/* 0 if no share is below the amount. */
static uint32_t raise_of(const struct place_oracle *oracle)
{
    for (uint32_t w = 0; w < oracle->request->n_wants; w++)
        if (oracle->request->want[w].milli < oracle->raised_milli)
            return oracle->raised_milli;
    return 0;
}

/* place_find() returns this placement, and place_evaluate() its rank before and after. */
static void assert_best(const struct setting *setting, const struct placement *best)
{
    struct plan plan;
    struct rank rank;
    struct rank again;
    struct placement found;

    memset(&found, 0xa5, sizeof found);
    plan_init(&plan, &setting->request, setting->context);
    assert_int_equal(place_evaluate(&plan, &setting->room, &rank), REASON_NONE);
    assert_int_equal(place_find(&plan, &setting->room, &again, &found), REASON_NONE);
    assert_int_equal(place_evaluate(&plan, &setting->room, &again), REASON_NONE);
    assert_true(rank.exact && found.exact);
    assert_int_equal(rank.price, best->price);
    assert_int_equal(again.price, rank.price);
    assert_int_equal(again.raised_milli, rank.raised_milli);
    assert_int_equal(rank.charge_milli, best->charge_milli);
    assert_int_equal(again.charge_milli, rank.charge_milli);
    assert_int_equal(rank.left_milli, best->left_milli);
    assert_int_equal(again.left_milli, rank.left_milli);
    assert_int_equal(found.price, rank.price);
    assert_int_equal(found.raised_milli, rank.raised_milli);
    assert_int_equal(found.charge_milli, rank.charge_milli);
    assert_int_equal(found.left_milli, rank.left_milli);
    assert_int_equal(found.free_milli, setting->room.free_milli);
    assert_int_equal(found.n_parts, best->n_parts);
    for (uint32_t p = 0; p < found.n_parts; p++)
        assert_int_equal(found.part[p].gpu, best->part[p].gpu);
}

/* A card of an unknown model with hardly any memory has that price. */
TEST(level__may_have_the_price_1)
{
    struct setting setting;
    uint64_t seed = 1;
    struct plan plan;
    struct rank rank;
    const struct node_build build = {
        .name = atom("n"), .uid = atom("u"), .problem_text = atom(""), .rules = 0};
    struct node *node = node_new(&build);

    do {
        if (seed > 1)
            setting_done(&setting);
        draw_setting(&seed, POLICY_BINPACK, &setting);
    } while (setting.book->prices_by == PRICES_OFF || setting.book->n_rules > 0);
    setting.room.rules = 0;
    setting.room.n_gpus = 2;
    setting.room.gpu[0] = (struct gpu_room){.model = atom("A100-SXM4-80GB"),
                                            .milli = 1000,
                                            .mib = 81920,
                                            .free_milli = 1000,
                                            .free_mib = 81920};
    setting.room.gpu[1] = (struct gpu_room){
        .model = atom("card"), .milli = 1000, .mib = 1, .free_milli = 1000, .free_mib = 1};
    setting.room.free_milli = 2000;
    setting.want[0] = (struct want){.container = "c", .parts = 1, .milli = 300};
    setting.request = (struct request){.want = setting.want, .n_wants = 1, .rules = RULES_ALL};
    const struct policy_question question = {
        .context = setting.context, .node = node, .slot = SNAPSHOT_NO_SLOT};
    plan_init(&plan, &setting.request, setting.context);
    assert_int_equal(price_of(&setting, 1), 1);
    assert_int_equal(policy_score_room(&question, &plan, &setting.room, &rank, NULL), REASON_NONE);
    assert_int_equal(rank.price, 1);
    setting_done(&setting);
    node_unref(node);
}

/* The place inside a tier depends on the policy; price, raise, and whether it fits, do not. */
TEST(level__is_the_lowest_price_and_the_smallest_raise)
{
    uint64_t seed = 11;
    uint32_t found[POLICIES] = {0};
    uint32_t raised = 0;
    uint32_t cheaper = 0;
    const struct node_build build = {
        .name = atom("n"), .uid = atom("u"), .problem_text = atom(""), .rules = 1};
    struct node *bare = node_new(&build);
    for (int i = 0; i < walk_steps(1400, 500); i++) {
        const enum policy_kind policy =
            i % 2 == 0 ? POLICY_BINPACK : (enum policy_kind)(i % POLICIES);
        struct setting setting;
        struct place_oracle oracle;
        struct placement placement;
        struct plan plan;
        struct rank rank;
        uint32_t price = 0;
        draw_setting(&seed, policy, &setting);
        struct node *node = node_with_rules(bare, setting.room.rules);
        ask_oracle(&setting, &oracle);
        const struct policy_question question = {
            .context = setting.context, .node = node, .slot = SNAPSHOT_NO_SLOT};
        plan_init(&plan, &setting.request, setting.context);
        const enum reason why =
            policy_score_room(&question, &plan, &setting.room, &rank, &placement);
        assert_int_equal(why == REASON_NONE, oracle.found);
        if (oracle.found) {
            found[policy]++;
            raised += raise_of(&oracle) > 0;
            cheaper += oracle.best.price > 0 && oracle.best.price < 900;
            for (uint32_t p = 0; p < placement.n_parts; p++) {
                const uint32_t gpu = placement.part[p].gpu;
                price = price_of(&setting, gpu) > price ? price_of(&setting, gpu) : price;
            }
            assert_int_equal(rank.price, oracle.best.price);
            assert_int_equal(price, oracle.best.price);
            assert_int_equal(rank.raised_milli, raise_of(&oracle));
            assert_int_equal(placement.price, rank.price);
            assert_int_equal(placement.raised_milli, rank.raised_milli);
            assert_int_equal(placement.charge_milli, rank.charge_milli);
            if (policy == POLICY_BINPACK)
                assert_best(&setting, &oracle.best);
        }
        setting_done(&setting);
        node_unref(node);
    }
    for (size_t k = 0; k < POLICIES; k++)
        assert_true(found[k] > 5);
    assert_true(raised > 5 && cheaper > 10);
    node_unref(bare);
}

/*
 * The steps and the exactness of every level, from searches without prices and raises
 */

struct expected {
    enum reason why;
    struct rank rank;
    uint32_t raised;
    uint32_t on; /* the GPUs of the last attempt that fitted */
};

/* Without prices and raises: shares of at least so many milli, on these GPUs. */
static enum reason score_plainly(const struct setting *setting, uint32_t steps, uint32_t on,
                                 uint32_t raised, struct rank *out)
{
    struct request request = setting->request;
    struct room room = setting->room;
    struct want want[MANY];
    struct plan plan;

    request.want = want;
    for (uint32_t w = 0; w < request.n_wants; w++) {
        want[w] = setting->want[w];
        want[w].milli = want[w].milli > raised ? want[w].milli : raised;
    }
    for (uint32_t i = 0; i < room.n_gpus; i++)
        if ((on >> i & 1) == 0)
            room.gpu[i].closed = REASON_CORDONED;
    plan_init(&plan, &request, NULL);
    plan.steps = steps;
    return place_evaluate(&plan, &room, out);
}

static bool is_need(const struct setting *setting, uint32_t on, uint32_t milli)
{
    const uint64_t memory = setting->request.memory_mib;

    for (uint32_t i = 0; i < setting->room.n_gpus; i++) {
        const struct gpu_room *gpu = &setting->room.gpu[i];
        if ((on >> i & 1) == 0 || milli > gpu->milli ||
            !request_takes_model(&setting->request, atom_text(gpu->model)))
            continue;
        if ((uint64_t)gpu->mib * milli / gpu->milli >= memory &&
            (uint64_t)gpu->mib * (milli - 1) / gpu->milli < memory)
            return true;
    }
    return false;
}

static void expect_amounts(const struct setting *setting, uint32_t steps, uint32_t on,
                           struct expected *out)
{
    uint32_t least = GPU_MILLI;

    for (uint32_t w = 0; w < setting->request.n_wants; w++)
        least = setting->want[w].milli < least ? setting->want[w].milli : least;
    out->raised = 0;
    out->on = on;
    out->why = score_plainly(setting, steps, on, 0, &out->rank);
    for (uint32_t m = least + 1; setting_raises(setting) && m <= GPU_MILLI; m++) {
        struct rank rank;
        if (out->why == REASON_NONE)
            return;
        if (!is_need(setting, on, m))
            continue;
        const enum reason why = score_plainly(setting, steps, on, m, &rank);
        rank.steps += out->rank.steps;
        rank.exact = rank.exact && out->rank.exact;
        out->rank = rank;
        out->raised = why == REASON_NONE ? m : 0;
        out->why = why == REASON_NONE || why > out->why ? why : out->why;
    }
}

static void expect_level(const struct setting *setting, uint32_t steps, bool skips_tiers,
                         struct expected *out)
{
    uint32_t dearest = 0;
    uint32_t price[GPUS] = {0};

    expect_amounts(setting, steps, UINT32_MAX, out);
    if (out->why != REASON_NONE || setting->book->prices_by == PRICES_OFF)
        return;
    for (uint32_t i = 0; i < setting->room.n_gpus; i++) {
        const struct gpu_room *gpu = &setting->room.gpu[i];
        if (gpu->closed == REASON_NONE && gpu->free_milli > 0 &&
            request_takes_model(&setting->request, atom_text(gpu->model)))
            price[i] = price_of(setting, i);
        dearest = price[i] > dearest ? price[i] : dearest;
    }
    for (uint32_t tier = 1; tier < dearest && !skips_tiers; tier++) {
        struct expected cheaper;
        uint32_t on = 0;
        bool any = false;
        for (uint32_t i = 0; i < setting->room.n_gpus; i++) {
            on |= price[i] > 0 && price[i] <= tier ? 1U << i : 0;
            any = any || price[i] == tier;
        }
        if (!any)
            continue;
        expect_amounts(setting, steps, on, &cheaper);
        cheaper.rank.steps += out->rank.steps;
        cheaper.rank.exact = cheaper.rank.exact && out->rank.exact;
        if (cheaper.why == REASON_NONE) {
            *out = cheaper;
            out->rank.price = tier;
            return;
        }
        out->rank.steps = cheaper.rank.steps;
        out->rank.exact = cheaper.rank.exact;
    }
    out->rank.price = dearest;
}

/* One more search, at the level that was found. Returns whether it was exact. */
static bool find_at_level(const struct setting *setting, struct plan *plan,
                          const struct expected *expected)
{
    struct placement found;
    struct rank last;
    struct rank rank;

    assert_int_equal(score_plainly(setting, plan->steps, expected->on, expected->raised, &last),
                     REASON_NONE);
    assert_int_equal(place_find(plan, &setting->room, &rank, &found), REASON_NONE);
    assert_int_equal(rank.exact, expected->rank.exact);
    assert_int_equal(rank.steps, last.steps + (plan_has_levels(plan) ? expected->rank.steps : 0));
    assert_int_equal(rank.price, expected->rank.price);
    return last.exact;
}

TEST(level__sums_the_steps_and_inexactness_of_every_attempt)
{
    uint64_t seed = 23;
    uint32_t inexact = 0;
    uint32_t before = 0;
    uint32_t raised = 0;
    uint32_t skipped = 0;
    for (int i = 0; i < walk_steps(3000, 1500); i++) {
        struct setting setting;
        struct expected expected;
        struct rank rank;
        struct plan plan;
        draw_setting(&seed, POLICY_BINPACK, &setting);
        setting.book->n_rules = 0;
        setting.room.rules = 0;
        setting.request.n_wants = 1 + draw_below(&seed, MANY);
        setting.request.memory_mib = draw_below(&seed, 2) * 100 * draw_below(&seed, 90);
        for (uint32_t w = 0; w < setting.request.n_wants; w++)
            setting.want[w] = (struct want){
                .container = "c", .parts = 1, .milli = 50 + 10 * draw_below(&seed, 40)};
        const uint32_t steps = 1 + draw_below(&seed, 80);
        plan_init(&plan, &setting.request, setting.context);
        plan.steps = steps;
        plan.skips_tiers = i % 3 == 0;
        expect_level(&setting, steps, plan.skips_tiers, &expected);
        skipped += plan.skips_tiers && expected.rank.price > 0;
        assert_int_equal(place_evaluate(&plan, &setting.room, &rank), expected.why);
        assert_int_equal(rank.exact, expected.rank.exact);
        assert_int_equal(rank.steps, expected.rank.steps);
        if (expected.why == REASON_NONE) {
            assert_int_equal(rank.price, expected.rank.price);
            assert_int_equal(rank.raised_milli, expected.raised);
            assert_int_equal(rank.charge_milli, expected.rank.charge_milli);
            inexact += !rank.exact;
            raised += expected.raised > 0;
            before += find_at_level(&setting, &plan, &expected) && !rank.exact;
        }
        setting_done(&setting);
    }
    assert_true(inexact > 10 && before > 10 && raised > 10 && skipped > 10);
}

/*
 * Equal rooms are searched once
 */

TEST(level__is_part_of_the_key_of_a_remembered_search)
{
    uint64_t seed = 3;
    uint32_t several = 0;
    for (int i = 0; i < walk_steps(600, 200); i++) {
        struct setting setting;
        struct arena arena;
        struct plan plan;
        arena_init(&arena);
        draw_setting(&seed, POLICY_BINPACK, &setting);
        plan_init(&plan, &setting.request, setting.context);
        plan_remember(&plan, &arena);
        for (int k = 0; k < 8; k++) {
            struct plan alone;
            struct rank rank;
            struct rank own;
            struct gpu_room *gpu = &setting.room.gpu[draw_below(&seed, setting.room.n_gpus)];
            const struct gpu_room before = *gpu;
            plan_init(&alone, &setting.request, setting.context);
            const enum reason why = place_evaluate(&plan, &setting.room, &rank);
            assert_int_equal(place_evaluate(&alone, &setting.room, &own), why);
            assert_int_equal(rank.price, own.price);
            assert_int_equal(rank.raised_milli, own.raised_milli);
            assert_int_equal(rank.charge_milli, own.charge_milli);
            assert_int_equal(rank.left_milli, own.left_milli);
            assert_int_equal(rank.exact, own.exact);
            several += rank.raised_milli > 0 && setting.request.n_wants > 1;
            setting.room.free_milli -= gpu->closed == REASON_NONE ? gpu->free_milli : 0;
            draw_gpu(&seed, gpu);
            if (draw_below(&seed, 2) == 0)
                *gpu = before;
            setting.room.free_milli += gpu->closed == REASON_NONE ? gpu->free_milli : 0;
        }
        arena_done(&arena);
        setting_done(&setting);
    }
    assert_true(several > 5);
}

/*
 * One by one
 */

static struct setting setting_of(uint32_t milli, uint32_t memory_mib)
{
    struct setting setting = {.book = rulebook_new(POLICY_BINPACK, "one")};
    setting.context = policy_context_of_rulebook(setting.book, RULES_ALL, NULL);
    setting.request = (struct request){.n_wants = 1, .memory_mib = memory_mib, .rules = RULES_ALL};
    setting.want[0] = (struct want){.container = "c", .parts = 1, .milli = milli};
    return setting;
}

static void add_gpu(struct setting *setting, const char *model, uint32_t mib, uint32_t free_milli)
{
    struct room *room = &setting->room;
    room->gpu[room->n_gpus++] = (struct gpu_room){.model = atom(model),
                                                  .milli = GPU_MILLI,
                                                  .mib = mib,
                                                  .free_milli = free_milli,
                                                  .free_mib = mib};
    room->free_milli += free_milli;
}

static enum reason check(struct setting *setting, struct rank *out)
{
    struct plan plan;
    setting->request.want = setting->want;
    plan_init(&plan, &setting->request, setting->context);
    return place_evaluate(&plan, &setting->room, out);
}

TEST(raise__is_a_size_that_the_rule_permits)
{
    static const struct {
        uint32_t min, step, size; /* 100 is handed out, too */
        uint32_t raised;
        enum reason why;
    } says[] = {
        {0, 0, 0, 200, REASON_NONE},
        {50, 0, 0, 200, REASON_NONE},
        {0, 50, 0, 200, REASON_NONE},
        {0, 20, 0, 200, REASON_NONE},
        {0, 0, 250, 250, REASON_NONE},
        {0, 50, 250, 250, REASON_NONE},
        {0, 0, 200, 200, REASON_NONE},
        {0, 0, 199, 0, REASON_MEMORY},
        /* what was asked for is refused, raised or not */
        {300, 0, 0, 0, REASON_RULE},
        {0, 30, 0, 0, REASON_RULE},
    };
    struct rank rank;
    for (size_t i = 0; i < ARRAY_LEN(says); i++) {
        struct setting setting = setting_of(100, 16384);
        const struct rule rule = {.name = "r",
                                  .memory = MEMORY_RAISE,
                                  .min_milli = says[i].min,
                                  .step_milli = says[i].step,
                                  .n_sizes = says[i].size > 0 ? 2 : 0,
                                  .size = {100, (uint16_t)says[i].size}};
        add_gpu(&setting, "A100", 81920, GPU_MILLI);
        setting.book->rule = &rule;
        setting.book->n_rules = 1;
        setting.room.rules = 1;
        assert_int_equal(check(&setting, &rank), says[i].why);
        assert_int_equal(rank.raised_milli, says[i].raised);
        setting_done(&setting);
    }
}

TEST(price__falls_back_to_the_highest_after_eight_tries)
{
    static const char *const model[] = {"K80",  "M60", "P4",  "P40", "T4",
                                        "P100", "L4",  "A30", "A40", "L40"};
    struct rank rank;
    struct setting setting = setting_of(600, 0);
    setting.context->holding = 0;
    setting.book->prices_by = PRICES_KNOWN;
    for (size_t i = 0; i < ARRAY_LEN(model); i++)
        add_gpu(&setting, model[i], 16384, i < 7 ? 500 : 600);
    for (uint32_t first = 7; first <= 9; first++) {
        assert_int_equal(check(&setting, &rank), REASON_NONE);
        /* Eight prices are tried, up to the A30; then all GPUs are as dear as the L40. */
        assert_int_equal(rank.price,
                         rulebook_price(setting.book, text_of(model[first == 7 ? 7 : 9]), 0));
        setting.room.gpu[first].free_milli = 500;
    }
    assert_int_equal(check(&setting, &rank), REASON_ROOM);
    assert_int_equal(rank.price, 0);
    /* Full GPUs are none of the eight. */
    setting.room.gpu[8].free_milli = setting.room.gpu[9].free_milli = 600;
    for (uint32_t i = 0; i < 7; i++) {
        setting.room.gpu[i].free_milli = 0;
        assert_int_equal(check(&setting, &rank), REASON_NONE);
        assert_int_equal(rank.price, rulebook_price(setting.book, TEXT("A40"), 0));
    }
    setting_done(&setting);
}

/* The slots are the same at both levels; the shares are not. */
TEST(raise__is_searched_after_the_requested_size_failed)
{
    struct arena arena;
    struct plan plan;
    struct rank rank;
    struct setting setting = setting_of(600, 12000);
    setting.request.want = setting.want;
    setting.request.n_wants = 2;
    setting.want[1] = setting.want[0];
    setting.book->raise = true;
    add_gpu(&setting, "A100", 20000, GPU_MILLI);
    add_gpu(&setting, "A100", 17200, GPU_MILLI);
    arena_init(&arena);
    plan_init(&plan, &setting.request, setting.context);
    plan_remember(&plan, &arena);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(place_evaluate(&plan, &setting.room, &rank), REASON_NONE);
        assert_int_equal(rank.raised_milli, 698);
        assert_int_equal(rank.charge_milli, 2 * 698);
    }
    arena_done(&arena);
    setting_done(&setting);
}

/* A plan caches some models; the price of the others is computed each time. */
TEST(price__is_right_for_more_models_than_a_plan_caches)
{
    struct plan plan;
    struct rank rank;
    struct setting setting = setting_of(100, 0);
    setting.request.want = setting.want;
    setting.book->prices_by = PRICES_KNOWN;
    add_gpu(&setting, "T4", 16384, GPU_MILLI);
    plan_init(&plan, &setting.request, setting.context);
    for (uint32_t i = 0; i < 2 * PLAN_MODELS; i++) {
        char model[16];
        (void)snprintf(model, sizeof model, "card-%u", i % (PLAN_MODELS + 9));
        setting.room.gpu[0].model = atom(model);
        setting.room.gpu[0].mib = 16384 * (1 + i % 3); /* by memory, which is not kept */
        assert_int_equal(place_evaluate(&plan, &setting.room, &rank), REASON_NONE);
        assert_int_equal(rank.price, 100 * (1 + i % 3));
    }
    setting_done(&setting);
}

TEST(price__includes_the_last_gpu_of_the_largest_node)
{
    struct rank rank;
    struct setting setting = setting_of(1000, 0);
    setting.book->prices_by = PRICES_KNOWN;
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        add_gpu(&setting, i + 1 < GPUS_PER_NODE_MAX ? "T4" : "A100", 16384,
                i + 1 < GPUS_PER_NODE_MAX ? 999 : GPU_MILLI);
    assert_int_equal(check(&setting, &rank), REASON_NONE);
    assert_int_equal(rank.price, 700); /* not as if it belonged to the cheap ones */
    setting.want[0].milli = 900;
    assert_int_equal(check(&setting, &rank), REASON_NONE);
    assert_int_equal(rank.price, 100);
    setting_done(&setting);
}

TEST(plan__resets_its_level_for_another_room)
{
    struct plan plan;
    struct rank rank;
    struct placement placement;
    struct setting setting = setting_of(100, 16384);
    setting.request.want = setting.want;
    add_gpu(&setting, "A100", 81920, GPU_MILLI);
    struct rule rule = {.name = "r", .memory = MEMORY_RAISE};
    setting.book->rule = &rule;
    setting.book->n_rules = 1;
    setting.room.rules = 1;
    plan_init(&plan, &setting.request, setting.context);
    assert_int_equal(place_evaluate(&plan, &setting.room, &rank), REASON_NONE);
    assert_int_equal(plan.raised_milli, 200);
    struct room plain = setting.room;
    plain.rules = 0;
    plain.gpu[0].mib = plain.gpu[0].free_mib = 163840;
    assert_int_equal(place_find(&plan, &plain, &rank, &placement), REASON_NONE);
    assert_int_equal(placement.raised_milli, 0);
    assert_int_equal(placement.charge_milli, 100);
    assert_int_equal(place_find(&plan, &setting.room, &rank, &placement), REASON_NONE);
    assert_int_equal(placement.raised_milli, 200);
    assert_int_equal(place_evaluate(&plan, &plain, &rank), REASON_NONE);
    assert_int_equal(rank.charge_milli, 100);
    setting_done(&setting);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
