/* The orders of all policies over a whole cluster: prices, keys, edges, the budget per question. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"

#include "core/rank/score_cache.h"
#include "support/aborts.h"
#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/policy_fixture.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/walk.h"

/*
 * Prices
 */

/* Dearer nodes rank behind all cheaper ones, however well a pod would fit there. */
CORE_TEST(order__ranks_nodes_by_price_first)
{
    static const enum policy_kind kinds[] = {POLICY_BINPACK, POLICY_FIRSTFIT, POLICY_SPREAD,
                                             POLICY_FGD, POLICY_ROLLOUT};
    struct asked asked;
    uint32_t dearer = 0;
    cluster_show(core, false);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        cluster_set_levels(core, kinds[k], SHAPES);
        cluster_ask(&asked, core, cluster_shape(core, 0), NULL);
        assert_true(asked.answer.n_candidates > 10);
        for (uint32_t i = 1; i < asked.answer.n_candidates; i++) {
            const uint32_t before = asked.answer.candidate[i - 1].rank.price;
            assert_true(before > 0 && before <= asked.answer.candidate[i].rank.price);
            dearer += before < asked.answer.candidate[i].rank.price;
        }
        cluster_ask_done(&asked);
    }
    assert_true(dearer >= ARRAY_LEN(kinds));
}

/* The price of a node of which a T4 would do, beside a dearer GPU. */
static uint32_t price_for(const struct snapshot *snapshot, const struct request *request,
                          bool is_unscored)
{
    const struct policy_question question = {.context = snapshot->context,
                                             .node = snapshot_node(snapshot, TEXT("n-0")),
                                             .slot = SNAPSHOT_NO_SLOT,
                                             .is_unscored = is_unscored};
    struct plan plan;
    struct rank rank;
    plan_init(&plan, request, snapshot->context);
    assert_int_equal(policy_score(&question, &plan, &rank), REASON_NONE);
    assert_int_equal(rank.is_unscored, is_unscored);
    return rank.price;
}

/* Beyond the limit of work, only one container is searched for on cheaper GPUs. */
CORE_TEST(price__of_several_containers_is_the_dearest_beyond_the_limit)
{
    const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}, {.index = 1, .mib = 81920}};
    struct inventory *inventory = core_inventory(core, "n-0", "uid", gpu, 2);
    const struct command command = {
        .kind = COMMAND_NODE, .node = "n-0", .inventory = inventory, .at_ms = 1};
    inventory->gpu[0].model = "T4";
    inventory->gpu[1].model = "H100-80GB-HBM3";
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    cluster_set_levels(core, POLICY_FGD, SHAPES);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    const struct request *none = core_request(core, NULL);
    const struct request *one = core_request(core, "300");
    const struct request *two = core_request(core, "300+200");
    const uint32_t cheap = price_for(snapshot, one, false);
    assert_int_equal(price_for(snapshot, one, true), cheap);
    assert_int_equal(price_for(snapshot, two, false), cheap);
    assert_true(price_for(snapshot, two, true) > cheap);
    assert_int_equal(price_for(snapshot, none, true), 0);
    snapshot_unref(snapshot);
}

TEST(loss_price__sums_the_price_of_every_lost_slot)
{
    struct workload_class class[3] = {{.parts = 2, .milli = 1000, .count = 3},
                                      {.parts = 4, .milli = 1000, .count = 2},
                                      {.parts = 8, .milli = 1000, .count = 1}};
    struct workload *workload = workload_new(class, 3);
    struct policy_context *context = policy_context_new(POLICY_ROLLOUT, 0, workload);
    const struct loss loss = {.count = {5, 3, 2}};
    context->scarcity_price[0] = 1;
    context->scarcity_price[1] = 100;
    context->scarcity_price[2] = 10000;
    assert_int_equal(loss_price(context, &loss), 20305);
    policy_context_unref(context);
    workload_unref(workload);
}

/*
 * Orders
 */

CORE_TEST(policy__has_a_name_and_a_served_kind)
{
    enum policy_kind kind;
    for (enum policy_kind i = 0; i < POLICIES; i++) {
        assert_true(policy_of_name(text_of(policy_name(i)), &kind));
        assert_int_equal(kind, i);
        assert_true(strlen(policy_help(i)) > 0);
        assert_int_equal(policy_needs_workload(i), i == POLICY_FGD || i == POLICY_ROLLOUT);
    }
    assert_string_equal(policy_name(POLICY_ROLLOUT), "rollout");
    assert_int_equal(policy_served(POLICY_BINPACK), POLICY_BINPACK);
    assert_int_equal(policy_served(POLICY_FIRSTFIT), POLICY_BINPACK);
    assert_int_equal(policy_served(POLICY_SPREAD), POLICY_SPREAD);
    assert_int_equal(policy_served(POLICY_FGD), POLICY_ROLLOUT);
    assert_int_equal(policy_served(POLICY_ROLLOUT), POLICY_ROLLOUT);
    assert_false(policy_of_name(TEXT("binpac"), &kind));
    assert_false(policy_of_name(TEXT(""), &kind));
}

CORE_TEST(order__applies_each_rule_before_the_next)
{
    struct names *names = ledger_names(core->ledger);
    const struct atom *a = names_intern(names, TEXT("a"));
    const struct atom *b = names_intern(names, TEXT("b"));
    /* Each is worse than the one before it by one rule, and better by all later ones. */
    const struct rank worse[] = {
        {.key = {1, 1, 1}, .order = 1, .node = a, .turn = 1},
        {.key = {1, 1, 1}, .order = 1, .node = a, .turn = 2},
        {.key = {1, 1, 1}, .order = 1, .node = b},
        {.key = {1, 1, 1}, .order = 2, .node = a},
        {.key = {1, 1, 2}, .node = a},
        {.key = {1, 2}, .node = a},
        {.key = {2}, .node = a},
        {.pool = 1, .node = a},
        {.distance = DISTANCE_NUMA, .node = a},
        {.price = 1, .node = a},
        {.is_unscored = true, .node = a},
        {.behind = true, .node = a},
    };
    for (size_t i = 0; i < ARRAY_LEN(worse); i++)
        for (size_t k = 0; k < i; k++) {
            assert_true(order_cmp(&worse[k], &worse[i]) < 0);
            assert_true(order_cmp(&worse[i], &worse[k]) > 0);
        }
}

static void draw_rank(uint64_t *seed, const struct atom *const node[3], struct rank *out)
{
    *out = (struct rank){.node = node[draw_below(seed, 3)]};
    out->behind = draw_below(seed, 2) == 0;
    out->is_unscored = draw_below(seed, 2) == 0;
    out->price = draw_below(seed, 2);
    out->distance = (enum distance)draw_below(seed, 2);
    out->pool = draw_below(seed, 2);
    for (size_t i = 0; i < ARRAY_LEN(out->key); i++)
        out->key[i] = (int64_t)draw_below(seed, 3) - 1;
    out->order = draw_below(seed, 2);
}

/* By the first rules, then by rule 4; the same node again is not said to be behind. */
CORE_TEST(policy_is_behind__agrees_with_the_order)
{
    static const struct {
        const char *name;
        int64_t key[3];
        uint32_t price;
        uint32_t order;
        bool behind;
    } row[] = {
        {"n", {-5, 2, -9}, 7, 30, false},  {"n", {-5, 2, -9}, 7, 29, false},
        {"n", {-5, 2, -9}, 7, 31, true},   {"n", {-6, 2, -9}, 7, 31, false},
        {"n", {-4, 2, -9}, 7, 29, true},   {"n", {4, 2, -9}, 7, 30, true},
        {"n", {-6, 2, -9}, 8, 29, true},   {"n", {-4, 2, -9}, 6, 31, false},
        {"n", {-5, -2, 9}, 7, 31, false},  {"n", {-5, 3, -10}, 7, 29, true},
        {"n", {-5, 2, -10}, 7, 31, false}, {"n", {-5, 2, 0}, 7, 29, true},
        {"m", {-5, 2, -9}, 7, 30, false},  {"o", {-5, 2, -9}, 7, 30, true},
        {"m", {-5, 2, -9}, 7, 31, true},   {"o", {-5, 2, -9}, 7, 29, false},
    };
    assert_int_equal(core_node(core, "m", NULL, 0), VERDICT_OK);
    assert_int_equal(core_node(core, "n", NULL, 0), VERDICT_OK);
    assert_int_equal(core_node(core, "o", NULL, 0), VERDICT_OK);
    const struct rank worst = {.price = 7,
                               .key = {-5, 2, -9},
                               .order = 30,
                               .node = ledger_node(core->ledger, TEXT("n"))->name};
    const struct order_head head = order_head_of(&worst);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct node *node = ledger_node(core->ledger, text_of(row[i].name));
        const struct rank rank = {.price = row[i].price,
                                  .key = {row[i].key[0], row[i].key[1], row[i].key[2]},
                                  .order = row[i].order,
                                  .node = node->name,
                                  .turn = 1};
        const struct policy_brief brief = {
            .known = true, .order = rank.order, .head = order_head_of(&rank)};
        assert_int_equal(policy_is_behind(&brief, node, &head, &worst), row[i].behind);
        assert_true(i == 0 || (order_cmp(&rank, &worst) > 0) == row[i].behind);
    }
}

/* The order decides as the heads do, where they decide; each key counts to its ends. */
CORE_TEST(order_head__agrees_with_the_order)
{
    static const int64_t amount[] = {-ORDER_KEY_MAX, -1, 0, 1, ORDER_KEY_MAX};
    static const uint32_t order[] = {0, 3, 4, UINT32_MAX - 4, UINT32_MAX};
    struct names *names = ledger_names(core->ledger);
    const struct atom *node[] = {names_intern(names, TEXT("a")), names_intern(names, TEXT("b")),
                                 names_intern(names, TEXT("c"))};
    uint64_t seed = 7;
    uint32_t equal = 0;
    for (int i = 0; i < walk_steps(50000, 5000); i++) {
        struct rank rank[2];
        struct order_head head[2];
        for (uint32_t k = 0; k < 2; k++) {
            draw_rank(&seed, node, &rank[k]);
            rank[k].behind = rank[k].is_unscored = false;
            rank[k].price = rank[k].pool = 0;
            rank[k].distance = DISTANCE_LINKED;
            rank[k].turn = k;
            rank[k].key[0] = draw_below(&seed, 2) == 0 ? rank[k].key[0] * (INT64_C(1) << 40) : 0;
            for (size_t at = 1; at < ARRAY_LEN(rank[k].key); at++)
                rank[k].key[at] = amount[draw_below(&seed, ARRAY_LEN(amount))];
            rank[k].order = order[draw_below(&seed, ARRAY_LEN(order))];
            head[k] = order_head_of(&rank[k]);
        }
        const int heads = order_head_cmp(&head[0], &head[1]);
        const bool same = memcmp(rank[0].key, rank[1].key, sizeof rank[0].key) == 0 &&
                          rank[0].order / 4 == rank[1].order / 4;
        assert_int_equal(heads == 0, same);
        assert_int_equal(order_head_cmp(&head[1], &head[0]), -heads);
        assert_true(heads == 0 || (heads > 0) == (order_cmp(&rank[0], &rank[1]) > 0));
        equal += heads == 0;
    }
    assert_true(equal > 20);
}

CORE_TEST(order__is_total)
{
    struct names *names = ledger_names(core->ledger);
    const struct atom *node[] = {names_intern(names, TEXT("a")), names_intern(names, TEXT("a-1")),
                                 names_intern(names, TEXT("b"))};
    uint64_t seed = 42;
    uint32_t ordered = 0;
    for (int i = 0; i < walk_steps(200000, 20000); i++) {
        struct rank rank[3];
        for (uint32_t k = 0; k < 3; k++) {
            draw_rank(&seed, node, &rank[k]);
            rank[k].turn = k;
        }
        const bool ab = order_cmp(&rank[0], &rank[1]) < 0;
        const bool bc = order_cmp(&rank[1], &rank[2]) < 0;
        assert_int_equal(order_cmp(&rank[1], &rank[0]) > 0, ab);
        if (ab != bc)
            continue;
        assert_int_equal(order_cmp(&rank[0], &rank[2]) < 0, ab);
        ordered++;
    }
    assert_true(ordered > 0);
}

static void compare(void *user)
{
    const struct rank *const *pair = user;
    (void)order_cmp(pair[0], pair[1]);
}

CORE_TEST(order__aborts_on_equal_candidates)
{
    const struct atom *a = names_intern(ledger_names(core->ledger), TEXT("a"));
    const struct rank third = {.node = a, .turn = 3};
    const struct rank fourth = {.node = a, .turn = 4};
    const struct rank nowhere = {.price = 1};
    assert_false(aborts(compare, (const struct rank *[]){&third, &fourth}));
    assert_true(aborts(compare, (const struct rank *[]){&third, &third}));
    assert_true(aborts(compare, (const struct rank *[]){&nowhere, &third}));
    assert_true(aborts(compare, (const struct rank *[]){&third, &nowhere}));
}

CORE_TEST(order__of_nodes_follows_the_seed)
{
    struct asked one;
    struct asked other;
    cluster_show(core, false);
    for (uint32_t seed = 0; seed < 2; seed++) {
        struct policy_context *context = policy_context_new(POLICY_FIRSTFIT, seed, NULL);
        ledger_set_policy_context(core->ledger, context);
        policy_context_unref(context);
        cluster_ask(seed == 0 ? &one : &other, core, cluster_shape(core, 0), NULL);
    }
    uint32_t moved = 0;
    assert_int_equal(one.answer.n_candidates, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        moved += one.answer.candidate[i].name != other.answer.candidate[i].name;
        assert_true(i == 0 ||
                    one.answer.candidate[i - 1].rank.order < one.answer.candidate[i].rank.order);
    }
    assert_true(moved > NODES / 2);
    cluster_ask_done(&one);
    cluster_ask_done(&other);
}

static int64_t key_of(struct core_fixture *core, const char *wanted)
{
    struct request *request = core_request(core, wanted != NULL ? wanted : "1");
    struct asked asked;
    request->n_wants = wanted != NULL;
    cluster_ask(&asked, core, request, NULL);
    assert_int_equal(asked.answer.n_candidates, 1);
    const int64_t key = asked.answer.candidate[0].rank.key[0];
    cluster_ask_done(&asked);
    return key;
}

CORE_TEST(empty_workload__prefers_the_fuller_node)
{
    const struct core_gpu gpu[] = {{.index = 0}, {.index = 1}};
    const struct core_gpu tiny = {.index = 0, .milli = 1};
    assert_int_equal(core_node(core, "n-0", gpu, 2), VERDICT_OK);
    cluster_set_policy(core, POLICY_ROLLOUT, 0);
    assert_int_equal(key_of(core, "1000"), 150);
    assert_int_equal(key_of(core, NULL), 300);
    cluster_set_policy(core, POLICY_FGD, 0);
    assert_int_equal(key_of(core, "1000"), 0);
    assert_int_equal(core_node(core, "n-0", &tiny, 1), VERDICT_OK);
    cluster_set_policy(core, POLICY_ROLLOUT, 0);
    assert_int_equal(key_of(core, NULL), 300);
    assert_int_equal(core_node(core, "n-0", NULL, 0), VERDICT_OK);
    assert_int_equal(key_of(core, NULL), 0);
}

/* The only candidate has a placement of so many parts; exact: whether that is exact. */
static struct rank rank_of(struct core_fixture *core, const char *wanted, uint32_t parts,
                           bool *exact)
{
    struct asked asked;
    cluster_ask(&asked, core, core_request(core, wanted), NULL);
    assert_int_equal(asked.answer.n_candidates, 1);
    const struct candidate *best = &asked.answer.candidate[0];
    const struct rank rank = best->rank;
    assert_int_equal(best->placement->n_parts, parts);
    assert_int_equal(best->placement->charge_milli, rank.charge_milli);
    *exact = best->placement->exact;
    cluster_ask_done(&asked);
    return rank;
}

/* Two GPUs that are no use to pods of 800: the more of them a pod takes, the better. */
CORE_TEST(rank__has_the_charge_of_the_chosen_placement)
{
    const struct core_gpu gpu[] = {{.index = 0, .milli = 700}, {.index = 1, .milli = 400}};
    const struct workload_class class = {.parts = 1, .milli = 800, .count = 1};
    struct workload *workload = workload_new(&class, 1);
    const struct text name = text_of(cluster_node(core, 0));
    assert_int_equal(core_node(core, name.at, gpu, 2), VERDICT_OK);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        struct policy_context *context =
            policy_context_new(kind, SEED, policy_needs_workload(kind) ? workload : NULL);
        ledger_set_policy_context(core->ledger, context);
        policy_context_unref(context);
        bool exact;
        const struct rank rank = rank_of(core, "i700+400", 2, &exact);
        if (policy_needs_workload(kind))
            assert_int_equal(rank.charge_milli, 1100);
    }
    workload_unref(workload);
}

/* Without a GPU there is nothing to reserve, but the order counts: CPU is taken from GPU hosts. */
CORE_TEST(rank__covers_pods_without_gpus)
{
    struct asked asked;
    struct request *request = cluster_shape(core, 2);
    request->n_wants = 0;
    cluster_show(core, false);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        cluster_set_policy(core, kind, SHAPES);
        cluster_ask(&asked, core, request, NULL);
        assert_int_equal(asked.answer.verdict, FILTER_FITS);
        assert_int_equal(asked.answer.n_candidates, NODES);
        assert_int_equal(asked.answer.candidate[0].placement->n_parts, 0);
        assert_int_equal(asked.answer.candidate[0].rank.judged, policy_needs_workload(kind));
        assert_true(asked.answer.candidate[0].rank.exact);
        cluster_ask_done(&asked);
    }
}

CORE_TEST(host__stays_with_its_node)
{
    const struct host host = cluster_host(5000);
    cluster_show(core, false);
    assert_false(ledger_set_host(core->ledger, TEXT("nobody"), &host));
    assert_true(ledger_set_host(core->ledger, TEXT("n-0"), &host));
    assert_int_equal(core_reserve(core, "p", "n-0", "300"), VERDICT_OK);
    cluster_show_node(core, 0, 2, 0);
    const struct node *node = ledger_node(core->ledger, TEXT("n-0"));
    struct room room;
    room_of(node, &room);
    assert_int_equal(node->n_gpus, 2);
    assert_true(room.host_known);
    assert_int_equal(room.host.cpu_milli, 5000);
    assert_int_equal(room.host.memory_mib, 64000);
    room_without(node, NULL, 0, &room);
    assert_true(room.host_known);
    assert_int_equal(room.host.cpu_milli, 5000);
    room_of(ledger_node(core->ledger, TEXT("n-7")), &room);
    assert_false(room.host_known);
    ledger_assert_valid(core->ledger);
}

/*
 * Requests that are too large to score each layout
 */

/* "90+90+70+...": so many containers */
static const char *many_of(struct core_fixture *core, uint32_t count, uint32_t (*milli)(uint32_t))
{
    const char *words = arena_printf(&core->arena, "%u", milli(0));
    for (uint32_t i = 1; i < count; i++)
        words = arena_printf(&core->arena, "%s+%u", words, milli(i));
    return words;
}

static uint32_t two_sizes(uint32_t i)
{
    return i % 7 < 3 ? 90 : 70;
}

static uint32_t all_sizes(uint32_t i)
{
    return 10 + i;
}

static void show_node(struct core_fixture *core, uint32_t gpus, uint32_t milli, uint32_t step_milli)
{
    struct core_gpu gpu[GPUS_PER_NODE_MAX];
    for (uint32_t i = 0; i < gpus; i++)
        gpu[i] = (struct core_gpu){.index = i, .milli = milli + i * step_milli};
    assert_int_equal(core_node(core, "n-0", gpu, gpus), VERDICT_OK);
}

/* 30 containers on 16 half full GPUs: far more layouts than are scored. */
CORE_TEST(score__falls_back_to_the_search_above_layouts_max)
{
    const char *many = many_of(core, 30, two_sizes);
    static const enum policy_kind kinds[] = {POLICY_FGD, POLICY_ROLLOUT, POLICY_SPREAD,
                                             POLICY_FIRSTFIT};
    bool exact;
    show_node(core, 16, 500, 10);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        cluster_set_policy(core, kinds[i], SHAPES);
        const struct rank rank = rank_of(core, many, 30, &exact);
        assert_int_equal(rank.exact, kinds[i] == POLICY_FIRSTFIT);
        assert_int_equal(exact, rank.exact);
        assert_int_equal(rank.judged, policy_needs_workload(kinds[i]) ? LAYOUTS_MAX + 1 : 0);
        /* one container, whose four parts have 1,820 places */
        assert_int_equal(rank_of(core, "400x4", 4, &exact).exact, !policy_needs_workload(kinds[i]));
        assert_int_equal(exact, !policy_needs_workload(kinds[i]));
    }
}

/* 17 rows on 64 GPUs: more cells than a walk has. */
CORE_TEST(score__takes_the_greedy_placement_above_cells_max)
{
    const char *many = many_of(core, 17, all_sizes);
    bool exact;
    show_node(core, GPUS_PER_NODE_MAX, 0, 0);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        cluster_set_policy(core, kind, SHAPES);
        assert_int_equal(rank_of(core, many, 17, &exact).judged, policy_needs_workload(kind));
    }
}

/*
 * The budget of a question
 */

/* A question that names the nodes of the cluster in turn, many times. */
static void ask_often(struct core_fixture *core, const struct snapshot *snapshot,
                      const struct request *request, uint32_t names, struct score_cache *cache,
                      struct filter_answer *answer)
{
    struct text *name = arena_array(&core->arena, names, sizeof *name);
    for (uint32_t i = 0; i < names; i++)
        name[i] = text_of(cluster_node(core, i % NODES));
    const struct filter_question question = {
        .snapshot = snapshot, .request = request, .n_names = names, .name = name, .cache = cache};
    filter_ask(&question, &core->arena, answer);
    assert_int_equal(answer->n_candidates, answer->fitting);
}

/* Returns how many were scored: the first ones, while their work is within the budget. */
static uint32_t assert_budget(const struct filter_answer *answer, uint32_t names, uint64_t paid)
{
    const struct candidate **by_name = xcalloc(names, sizeof(struct candidate *));
    uint64_t work = paid;
    uint32_t judged = 0;
    for (uint32_t i = 0; i < answer->n_candidates; i++)
        by_name[answer->candidate[i].name] = &answer->candidate[i];
    for (uint32_t i = 0; i < names; i++) {
        if (by_name[i] == NULL)
            continue; /* it does not fit, and costs nothing */
        const struct rank *rank = &by_name[i]->rank;
        assert_int_equal(rank->is_unscored, work >= policy_work_max(names));
        assert_true(rank->is_unscored ? rank->work == 0 && rank->judged == 0 : rank->work > 0);
        work += rank->work;
        judged += !rank->is_unscored;
    }
    assert_int_equal(answer->work, work);
    for (uint32_t i = 0; i < answer->n_candidates; i++)
        assert_int_equal(answer->candidate[i].rank.is_unscored, i >= judged);
    xfree(by_name);
    return judged;
}

TEST(budget__grows_with_the_names)
{
    static const struct {
        uint32_t names;
        uint64_t units;
    } limit[] = {{0, 17500},      {16, 17500},         {1000, 17500},   {1001, 17509},
                 {5000, 53500},   {15000, 143500},     {23499, 219991}, {23500, 220000},
                 {23501, 220000}, {UINT32_MAX, 220000}};
    for (size_t i = 0; i < ARRAY_LEN(limit); i++)
        assert_int_equal(policy_work_max(limit[i].names), limit[i].units);
}

/* A thousand names get no more work than their limit, and one node; what fits is as by binpack. */
CORE_TEST(budget__changes_the_order_only)
{
    enum { NAMES = 1000, MORE_NAMES = 3000 };
    static const enum policy_kind kinds[] = {POLICY_ROLLOUT, POLICY_FGD};
    struct filter_answer all;
    struct filter_answer answer;
    cluster_show(core, false);
    const struct request *request = core_request(core, "60+70+80+90+100");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        for (uint32_t names = NAMES; names <= MORE_NAMES; names += MORE_NAMES - NAMES) {
            cluster_set_policy(core, POLICY_BINPACK, SHAPES);
            const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
            ask_often(core, snapshot, request, names, NULL, &all);
            snapshot_unref(snapshot);
            assert_int_equal(all.work, names * SEARCH_WORK);
            cluster_set_policy(core, kinds[i], SHAPES);
            snapshot = ledger_publish(core->ledger, NULL, 0);
            ask_often(core, snapshot, request, names, NULL, &answer);
            snapshot_unref(snapshot);
            const uint32_t judged = assert_budget(&answer, names, names * SEARCH_WORK);
            assert_true(judged > 0 && judged < answer.n_candidates);
            assert_int_equal(answer.fitting, all.fitting);
            for (uint32_t n = 0; n < names; n++)
                assert_int_equal(answer.cause[n].why, all.cause[n].why);
        }
}

CORE_TEST(budget__ranks_unscored_nodes_last)
{
    enum { NAMES = 120000 };
    struct filter_answer cold;
    struct filter_answer warm;
    cluster_show(core, false);
    static const enum policy_kind kinds[] = {POLICY_ROLLOUT, POLICY_FGD};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        cluster_set_policy(core, kinds[i], SHAPES);
        const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
        struct score_cache *cache = score_cache_new();
        const uint32_t names = kinds[i] == POLICY_FGD ? 4 * NAMES : NAMES;
        const struct request *request = core_request(core, "100");
        ask_often(core, snapshot, request, names, cache, &cold);
        const uint32_t judged = assert_budget(&cold, names, 0);
        assert_true(judged > NODES && judged < cold.n_candidates);
        /* Now the cache has each node, and the answer is the same. */
        const uint64_t made = score_cache_counts(cache).made;
        ask_often(core, snapshot, request, names, cache, &warm);
        assert_int_equal(score_cache_counts(cache).made, made);
        assert_int_equal(assert_budget(&warm, names, 0), judged);
        for (uint32_t c = 0; c < cold.n_candidates; c++)
            assert_int_equal(warm.candidate[c].name, cold.candidate[c].name);
        score_cache_free(cache);
        snapshot_unref(snapshot);
    }
}

/* The search for several containers is paid for in advance, on each node that is named. */
CORE_TEST(budget__charges_the_search_for_several_containers_first)
{
    enum { ALL = WORK_MAX / SEARCH_WORK };
    struct filter_answer answer;
    cluster_show(core, false);
    const struct request *request = core_request(core, "300+200");
    for (enum policy_kind kind = POLICY_FIRSTFIT; kind < POLICIES; kind++) {
        cluster_set_policy(core, kind, SHAPES);
        const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
        ask_often(core, snapshot, request, ALL - 1, NULL, &answer);
        const uint32_t judged = assert_budget(&answer, ALL - 1, (ALL - 1) * SEARCH_WORK);
        assert_true(judged > 0 && judged <= 2 * SEARCH_WORK);
        ask_often(core, snapshot, request, ALL, NULL, &answer);
        assert_int_equal(assert_budget(&answer, ALL, (uint64_t)ALL * SEARCH_WORK), 0);
        snapshot_unref(snapshot);
    }
}
