/*
 * The sums of a ledger and a score cache, compared with a fresh count: the supply that prices
 * follow; and in random lives of a ledger every answer, rule b by all pairs of GPUs, and merits by
 * the formulas of policy.h.
 */
#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/policy_fixture.h"
#include "support/test.h"
#include "support/walk.h"

/*
 * Prices
 */

/* The prices that the ledger's nodes have now, counted anew. */
static void count_supply(const struct ledger *ledger, struct supply *out)
{
    const struct workload *workload = ledger->context->workload;
    struct kinds *kinds = xmalloc(sizeof *kinds);
    const struct node *node;
    struct room room;
    struct remaining remaining;
    struct class_capacity slots;

    *out = (struct supply){0};
    kinds_init(kinds, workload);
    for (size_t at = 0; (node = ledger_next_node(ledger, &at)) != NULL;) {
        room_of(node, &room);
        remaining_of(&room, kinds, &remaining);
        class_capacity_of(workload, &remaining, &slots);
        out->nodes += node->n_gpus > 0;
        out->free_milli += remaining.free_milli;
        for (uint32_t i = 0; i < workload->n_scarce; i++)
            out->slots[i] += slots.count[i];
    }
    kinds_freep(&kinds);
}

static void assert_supply(const struct ledger *ledger)
{
    struct supply supply;
    if (ledger->context == NULL || ledger->context->kind != POLICY_ROLLOUT ||
        ledger->context->workload->n_scarce == 0)
        return;
    count_supply(ledger, &supply);
    assert_int_equal(ledger->supply.nodes, supply.nodes);
    assert_int_equal(ledger->supply.free_milli, supply.free_milli);
    assert_memory_equal(ledger->supply.slots, supply.slots, sizeof supply.slots);
}

/* The prices in force are those of the supply of this moment. */
static void assert_prices(struct ledger *ledger)
{
    const struct policy_context *context = ledger_policy_context(ledger);
    int64_t price[WORKLOAD_SCARCE_MAX];
    struct supply supply;

    count_supply(ledger, &supply);
    scarcity_prices(context->workload, &supply, price);
    assert_memory_equal(context->scarcity_price, price,
                        context->workload->n_scarce * sizeof price[0]);
}

CORE_TEST(prices__are_updated_after_every_20_grants)
{
    cluster_show(core, false);
    assert_int_equal(core_node(core, "empty", NULL, 0), VERDICT_OK);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    assert_supply(core->ledger);
    assert_int_equal(core->ledger->supply.nodes, NODES);
    const struct policy_context *first = ledger_policy_context(core->ledger);
    assert_true(first->workload->n_scarce > 0);
    assert_prices(core->ledger);

    for (uint32_t i = 0; i < PRICE_EVERY; i++) {
        assert_ptr_equal(ledger_policy_context(core->ledger), first);
        const char *uid = arena_printf(&core->arena, "p-%u", i);
        const char *node = cluster_node(core, 3 + 4 * (i % 5));
        assert_int_equal(core_reserve(core, uid, node, i < 5 ? "2000" : "100"), VERDICT_OK);
    }
    const struct policy_context *second = ledger_policy_context(core->ledger);
    assert_ptr_not_equal(second, first);
    assert_prices(core->ledger);
    assert_int_equal(second->kind, POLICY_ROLLOUT);
    assert_int_equal(second->seed, SEED);
    for (uint32_t i = 1; i < PRICE_EVERY; i++)
        assert_int_equal(core_reserve(core, arena_printf(&core->arena, "q-%u", i), "n-3", "10"),
                         VERDICT_OK);
    assert_ptr_equal(ledger_policy_context(core->ledger), second);
    assert_int_equal(core_reserve(core, "last", "n-3", "10"), VERDICT_OK);
    assert_ptr_not_equal(ledger_policy_context(core->ledger), second);
}

CORE_TEST(supply__is_restored_by_undo)
{
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    const struct supply before = core->ledger->supply;
    assert_int_equal(core_reserve(core, "p", "n-3", "4000"), VERDICT_OK);
    assert_memory_not_equal(&core->ledger->supply, &before, sizeof before);
    core_undo(core);
    assert_memory_equal(core->ledger->supply.slots, before.slots, sizeof before.slots);
    assert_int_equal(core->ledger->supply.free_milli, before.free_milli);
}

CORE_TEST(supply__is_not_counted_without_prices)
{
    cluster_show(core, false);
    assert_null(ledger_policy_context(core->ledger));
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    assert_non_null(core->ledger->kinds);
    cluster_set_policy(core, POLICY_ROLLOUT, 5); /* one class of several GPUs */
    assert_int_equal(ledger_policy_context(core->ledger)->workload->n_scarce, 1);
    assert_non_null(core->ledger->kinds);
    cluster_set_policy(core, POLICY_ROLLOUT, 3); /* none */
    assert_null(core->ledger->kinds);
    assert_int_equal(core->ledger->supply.nodes, 0);
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    assert_null(core->ledger->kinds);
    cluster_set_policy(core, POLICY_SPREAD, SHAPES);
    assert_null(core->ledger->kinds);
    ledger_set_policy_context(core->ledger, NULL);
    assert_null(ledger_policy_context(core->ledger));
}

/*
 * Memory of binds
 */

static struct score_cache_counts bind_counts(const struct core_fixture *core)
{
    assert_non_null(core->ledger->scores);
    return score_cache_counts(core->ledger->scores);
}

/* The same pod on the same node again. */
static void bind_again(struct core_fixture *core)
{
    assert_int_equal(core_reserve(core, "again", "n-3", "300"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "again"), VERDICT_OK);
}

CORE_TEST(bind__calculates_nothing_anew_for_the_same_capacity)
{
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    assert_int_equal(bind_counts(core).idle_made, 0);
    bind_again(core);
    const struct score_cache_counts first = bind_counts(core);
    assert_true(first.idle_made > 0);
    bind_again(core);
    ledger_set_prices(core->ledger); /* another context, with the same workload */
    bind_again(core);
    assert_int_equal(bind_counts(core).idle_made, first.idle_made);
    assert_int_equal(bind_counts(core).idle_found,
                     3 * first.idle_found + 2 * (uint64_t)first.idle_made);
}

CORE_TEST(bind__remembers_for_one_workload_only)
{
    cluster_show(core, false);
    assert_null(core->ledger->scores);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    bind_again(core);
    cluster_set_policy(core, POLICY_ROLLOUT, 5);
    assert_int_equal(bind_counts(core).idle_made, 0);
    cluster_set_policy(core, POLICY_SPREAD, SHAPES);
    assert_null(core->ledger->scores);
    bind_again(core);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    bind_again(core);
    assert_true(bind_counts(core).idle_made > 0);
    ledger_set_policy_context(core->ledger, NULL);
    assert_null(core->ledger->scores);
}

/*
 * A random life of a ledger
 */

struct life {
    struct core_fixture *core;
    struct score_cache *cache;
    uint64_t seed;
    uint32_t pods;
    uint32_t bound;
    enum policy_kind kind;
    bool linked; /* nodes report links, and pods demand some */
    uint32_t near[DISTANCE_ANYWHERE + 1];
    bool levels;
    uint32_t raised;          /* pods whose shares were raised */
    uint64_t found[POLICIES]; /* nodes whose judgement was remembered */
};

/* How near a want of two parts can lie, by all pairs of GPUs. */
static enum distance nearest_pair(const struct node *node, const struct request *request)
{
    const struct want *want = &request->want[0];
    enum distance nearest = DISTANCE_ANYWHERE;

    assert_int_equal(want->parts, 2);
    for (uint32_t a = 0; a < node->n_gpus; a++)
        for (uint32_t b = 0; b < a; b++) {
            const struct gpu *gpu[] = {&node->gpu[a], &node->gpu[b]};
            bool fits = true;
            for (uint32_t i = 0; i < 2; i++)
                fits = fits && gpu_closed(gpu[i]) == REASON_NONE &&
                       gpu_free(gpu[i]) >= want->milli &&
                       request_takes_model(request, atom_text(gpu[i]->model));
            const bool numa = gpu[0]->numa >= 0 && gpu[0]->numa == gpu[1]->numa;
            if (!fits || (request->topology == TOPOLOGY_NUMA && !numa))
                continue;
            const enum distance distance = (gpu[0]->peers >> b & 1) != 0 ? DISTANCE_LINKED
                                           : numa                        ? DISTANCE_NUMA
                                                                         : DISTANCE_ANYWHERE;
            nearest = distance < nearest ? distance : nearest;
        }
    return nearest;
}

/* The nodes that are judged come in the order of rule b, each with the nearest way that it has. */
static void assert_near(struct life *life, const struct request *request,
                        const struct filter_answer *answer)
{
    if (!life->linked || request->n_wants != 1 || request->want[0].parts != 2)
        return;
    for (uint32_t i = 0; i < answer->n_candidates; i++) {
        const struct candidate *candidate = &answer->candidate[i];
        assert_int_equal(candidate->rank.distance, nearest_pair(candidate->node, request));
        assert_true(i == 0 || candidate[-1].rank.distance <= candidate->rank.distance);
        assert_true(request->topology != TOPOLOGY_NVLINK ||
                    candidate->rank.distance == DISTANCE_LINKED);
        life->near[candidate->rank.distance]++;
    }
    if (answer->n_candidates > 0)
        assert_int_equal(answer->candidate[0].placement->distance,
                         answer->candidate[0].rank.distance);
}

static void place_one(struct life *life)
{
    struct core_fixture *core = life->core;
    struct request *request = cluster_shape(core, draw_below(&life->seed, 23));
    struct asked with;
    struct asked without;

    if (draw_below(&life->seed, 12) == 0)
        request->n_wants = 0; /* only CPU and memory: ranked, never reserved */
    else if (life->linked && request->want[0].parts > 1)
        request->topology = (enum topology)draw_below(&life->seed, TOPOLOGIES);
    if (life->levels && draw_below(&life->seed, 2) == 0)
        request->memory_mib = 2000 * (1 + draw_below(&life->seed, 8));
    const uint64_t found = life->cache != NULL ? score_cache_counts(life->cache).found : 0;
    cluster_ask(&with, core, request, life->cache);
    if (life->cache != NULL)
        life->found[life->kind] += score_cache_counts(life->cache).found - found;
    cluster_ask(&without, core, request, NULL);
    assert_same_answers(&with.answer, &without.answer);
    assert_near(life, request, &with.answer);
    if (with.answer.verdict == FILTER_FITS && request->n_wants > 0) {
        const char *uid = arena_printf(&core->arena, "p-%u", life->pods++);
        const struct candidate *best = &with.answer.candidate[0];
        assert_int_equal(core_reserve_for(core, uid, best->node->name->text, request), VERDICT_OK);
        const struct allocation *made = ledger_find(core->ledger, text_of(uid));
        struct share share[PARTS_MAX];
        place_shares(best->placement, request, best->node, share);
        assert_int_equal(made->facts.n_shares, best->placement->n_parts);
        for (uint32_t i = 0; i < made->facts.n_shares;
             i++) { /* bind chooses what filter has chosen */
            assert_ptr_equal(made->facts.share[i].gpu, share[i].gpu);
            assert_int_equal(made->facts.share[i].milli, share[i].milli);
            assert_int_equal(made->facts.share[i].asked, share[i].asked);
        }
        life->raised += best->placement->raised_milli > 0;
    }
    cluster_ask_done(&with);
    cluster_ask_done(&without);
}

static void end_one(struct life *life)
{
    const uint32_t pod = draw_below(&life->seed, life->pods + 1);
    const char *uid = arena_printf(&life->core->arena, "p-%u", pod);
    if (ledger_find(life->core->ledger, text_of(uid)) != NULL)
        assert_int_equal(core_step(life->core, COMMAND_RELEASE, uid), VERDICT_OK);
}

static void change_one(struct life *life)
{
    const uint32_t node = draw_below(&life->seed, NODES);
    const struct host host = cluster_host(draw_below(&life->seed, 30000));
    if (draw_below(&life->seed, 2) == 0)
        assert_true(
            ledger_set_host(life->core->ledger, text_of(cluster_node(life->core, node)), &host));
    else
        cluster_show_node(life->core, node, draw_below(&life->seed, GPUS + 1),
                          life->linked ? draw_below(&life->seed, 1000) : 0);
}

static void live(struct life *life, int steps)
{
    for (int i = 0; i < steps; i++) {
        if (i % 30 == 20) {
            life->kind = (life->kind + 1) % POLICIES;
            (life->levels ? cluster_set_levels : cluster_set_policy)(
                life->core, life->kind, 3 + draw_below(&life->seed, SHAPES - 3));
        }
        const uint32_t what = draw_below(&life->seed, 10);
        if (what < 6)
            place_one(life);
        else if (what < 9)
            end_one(life);
        else
            change_one(life);
        assert_supply(life->core->ledger);
    }
}

/* With a score cache, under policies in turn. */
static void live_with_cache(struct life *life, int steps)
{
    life->cache = score_cache_new();
    life->kind = POLICY_ROLLOUT;
    cluster_show(life->core, life->linked);
    (life->levels ? cluster_set_levels : cluster_set_policy)(life->core, POLICY_ROLLOUT, SHAPES);
    live(life, steps);
    const struct score_cache_counts counts = score_cache_counts(life->cache);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++)
        assert_true(life->found[kind] > NODES);
    assert_true(counts.bytes < SCORE_CACHE_BYTES_MAX);
    score_cache_free(life->cache);
}

CORE_TEST(score_cache__never_changes_an_answer)
{
    struct life life = {.core = core, .seed = 1};
    live_with_cache(&life, walk_steps(600, 200));
}

CORE_TEST(score_cache__never_changes_prices_and_raises)
{
    struct life life = {.core = core, .seed = 5, .levels = true};
    live_with_cache(&life, walk_steps(600, 200));
    assert_true(life.raised > 5);
}

/* Under each policy, with and without a cache; and bind agrees with filter. */
CORE_TEST(rule_b__comes_first_under_every_policy)
{
    struct life life = {.core = core, .seed = 4, .linked = true};
    live_with_cache(&life, walk_steps(1000, 500));
    print_message("%u linked, %u on one NUMA node, %u anywhere\n", life.near[0], life.near[1],
                  life.near[2]);
    for (uint32_t i = 0; i <= DISTANCE_ANYWHERE; i++)
        assert_true(life.near[i] > 20);
}

/*
 * Merits, by the formulas of policy.h
 */

struct merits {
    const struct policy_context *context;
    const struct request *request;
    const struct room *room;
    struct kinds *kinds;
    int64_t best;
    uint32_t best_on; /* a set of GPUs, bit g: GPU g */
    bool any;
};

static int64_t merit_of(const struct merits *merits, const struct placement *placement)
{
    const struct workload *workload = merits->context->workload;
    struct workload_class class;
    struct remaining before;
    struct remaining after;
    struct class_capacity were;
    struct class_capacity are;
    uint64_t work = 0;

    remaining_of(merits->room, merits->kinds, &before);
    after = before;
    remaining_take(&after, merits->request, placement);
    if (merits->context->kind == POLICY_FGD) {
        const int64_t less =
            (int64_t)(fgd_fragment(workload, &before) - fgd_fragment(workload, &after));
        return 1000 * (int64_t)sigmoid_score(less, workload->typical_count);
    }
    const int64_t less =
        (int64_t)(rollout_idle(workload, &before, &work) - rollout_idle(workload, &after, &work));
    int64_t merit = 1000 * (int64_t)sigmoid_score(less, WORKLOAD_SEQUENCES);
    merit -= 300 * after.free_milli / after.total_milli;
    class_capacity_of(workload, &before, &were);
    class_capacity_of(workload, &after, &are);
    workload_class_of(merits->request, &class);
    for (uint32_t i = 0; i < workload->n_scarce; i++) {
        int64_t lost = were.count[i] - are.count[i];
        if (lost > 0 && workload_alike(&class, &workload->class[workload->scarce[i]]))
            lost--;
        merit -= lost * merits->context->scarcity_price[i];
    }
    return merit;
}

/* Every set of GPUs that can take the parts of the one want. */
static void try_everything(struct merits *merits)
{
    const struct want *want = &merits->request->want[0];
    struct placement placement = {.raised_milli = 0};

    merits->any = false;
    for (uint32_t set = 0; set < 1U << merits->room->n_gpus; set++) {
        bool fits = (uint32_t)__builtin_popcount(set) == want->parts;
        placement.n_parts = 0;
        for (uint32_t i = 0; i < merits->room->n_gpus; i++) {
            const struct gpu_room *gpu = &merits->room->gpu[i];
            if ((set >> i & 1) == 0)
                continue;
            fits = fits && gpu->closed == REASON_NONE && gpu->free_milli >= want->milli &&
                   request_takes_model(merits->request, atom_text(gpu->model));
            placement.part[placement.n_parts++] = (struct part){.gpu = (uint16_t)i};
        }
        if (!fits)
            continue;
        const int64_t merit = merit_of(merits, &placement);
        if (!merits->any || merit > merits->best)
            *merits = (struct merits){
                merits->context, merits->request, merits->room, merits->kinds, merit, set, true};
    }
}

static void assert_best_merit(struct merits *merits, const struct node *node)
{
    const struct policy_question question = {
        .context = merits->context, .node = node, .slot = SNAPSHOT_NO_SLOT};
    struct placement placement;
    struct plan plan;
    struct room room;
    struct rank rank;

    room_of(node, &room);
    merits->room = &room;
    try_everything(merits);
    plan_init(&plan, merits->request, NULL);
    const enum reason why = policy_score_room(&question, &plan, &room, &rank, &placement);
    assert_int_equal(why == REASON_NONE, merits->any);
    if (!merits->any) {
        merits->room = NULL;
        return;
    }
    assert_int_equal(rank.key[0], -merits->best);
    assert_int_equal(rank.key[1], 0);
    assert_int_equal(rank.key[2], 0);
    assert_true(rank.exact && placement.exact);
    assert_int_equal(rank.left_milli, 0);
    assert_int_equal(rank.free_milli, 0);
    assert_true(rank.judged > 0);
    for (uint32_t i = 0; i < placement.n_parts; i++)
        merits->best_on &= ~(1U << placement.part[i].gpu);
    /* or another set that is as good */
    assert_true(merits->best_on == 0 || merit_of(merits, &placement) == merits->best);
    merits->room = NULL;
}

CORE_TEST(merit__equals_the_formulas)
{
    struct life life = {.core = core, .seed = 3, .kind = POLICY_ROLLOUT};
    struct merits merits = {.kinds = xcalloc(1, sizeof(struct kinds))};
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    for (int turn = 0; turn < walk_steps(30, 6); turn++) {
        live(&life, 20);
        cluster_set_policy(core, turn % 3 == 0 ? POLICY_FGD : POLICY_ROLLOUT,
                           SHAPES - (uint32_t)turn % 3);
        merits.context = ledger_policy_context(core->ledger);
        kinds_done(merits.kinds);
        kinds_init(merits.kinds, merits.context->workload);
        for (uint32_t i = 0; i < 8; i++) {
            merits.request = cluster_shape(core, i);
            for (uint32_t n = 0; n < NODES; n++)
                assert_best_merit(&merits,
                                  ledger_node(core->ledger, text_of(cluster_node(core, n))));
        }
    }
    kinds_freep(&merits.kinds);
}
