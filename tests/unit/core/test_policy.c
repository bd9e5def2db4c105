/* Policies over whole ledgers: the same answer with a judge and without, prices, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/alloc.h"
#include "milligpu/filter.h"

#include "core/judge.h"
#include "core/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/walk.h"

enum { NODES = 24, GPUS = 4, SHAPES = 9, SEED = 7 };

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33) % below;
}

/*
 * A cluster and its workload
 */

static const char *const model[] = {"H100", "T4", "A100"};
static const char *const words[SHAPES] = {"250",  "300",   "500", "1000",   "2000",
                                          "4000", "400x2", "810", "300+200"};
static const uint32_t cores[SHAPES] = {1, 0, 4, 8, 12, 20, 3, 2, 1};

static const char *node_name(struct core_fixture *core, uint32_t node)
{
    return arena_printf(&core->arena, "n-%u", node);
}

/* links: 0: nothing is told; else what is told follows from this number. */
static void show_node(struct core_fixture *core, uint32_t node, uint32_t gpus, uint64_t links)
{
    struct core_gpu gpu[GPUS + 1];
    for (uint32_t i = 0; i < gpus; i++) {
        gpu[i] = (struct core_gpu){.index = i, .mib = 16000};
        for (uint32_t k = 0; k < i && links != 0; k++)
            if (draw(&links, 2) == 0) {
                gpu[i].peers |= (uint64_t)1 << k;
                gpu[k].peers |= (uint64_t)1 << i;
            }
        gpu[i].socket = links != 0 ? draw(&links, 3) : 0;
    }
    struct inventory *inventory =
        core_inventory(core, node_name(core, node), "node-uid", gpu, gpus);
    for (uint32_t i = 0; i < gpus; i++)
        inventory->gpu[i].model = model[(node + (node % 5 == 0 ? i : 0)) % ARRAY_LEN(model)];
    const struct command command = {
        .kind = COMMAND_NODE, .node = inventory->node, .inventory = inventory, .at_ms = 1};
    const enum verdict verdict = core_do_quickly(core, &command);
    assert_true(verdict == VERDICT_OK || verdict == VERDICT_SAME);
}

static struct host host_of(uint32_t cpu_milli)
{
    return (struct host){.cpu_milli = cpu_milli, .memory_mib = 64000};
}

static void show_cluster(struct core_fixture *core, bool linked)
{
    for (uint32_t i = 0; i < NODES; i++) {
        const struct host host = host_of(8000 * (1 + i % 4));
        show_node(core, i, 1 + i % GPUS, linked && i % 6 != 0 ? i : 0);
        if (i % 7 != 0)
            assert_true(ledger_set_host(core->ledger, text_of(node_name(core, i)), &host));
    }
}

static struct request *shape(struct core_fixture *core, uint32_t i)
{
    static const char *wanted[] = {"H100", "A1*"};
    struct request *request = core_request(core, words[i % SHAPES]);
    request->host = host_of(1000 * cores[i % SHAPES]);
    request->host.memory_mib = 100 * cores[i % SHAPES];
    request->models = i % 11 == 3 ? 1 + i % 2 : 0;
    request->model = wanted;
    return request;
}

static struct workload *workload_of(struct core_fixture *core, uint32_t classes)
{
    struct workload_class class[SHAPES];
    for (uint32_t i = 0; i < classes; i++) {
        workload_class_of(shape(core, i), &class[i]);
        class[i].count = 1 + 5 * i % 7;
    }
    return workload_new(class, classes);
}

static void set_policy(struct core_fixture *core, enum policy_kind kind, uint32_t classes)
{
    struct workload *workload = workload_of(core, classes);
    struct outlook *outlook = outlook_new(kind, SEED, workload);
    ledger_set_outlook(core->ledger, outlook);
    outlook_unref(outlook);
    workload_unref(workload);
}

/* The same where models have prices and shares are raised. */
static void set_policy_with_levels(struct core_fixture *core, enum policy_kind kind,
                                   uint32_t classes)
{
    struct workload *workload = workload_of(core, classes);
    struct rulebook *book = rulebook_new(kind, "levels");
    book->seed = SEED;
    book->raise = true;
    book->prices_by = PRICES_KNOWN;
    struct outlook *outlook = outlook_of_rulebook(book, 0, workload);
    ledger_set_outlook(core->ledger, outlook);
    outlook_unref(outlook);
    rulebook_unref(book);
    workload_unref(workload);
}

/*
 * A question about all nodes
 */

struct asked {
    struct arena arena;
    const struct snapshot *snapshot;
    struct text name[2 * NODES];
    struct filter_question question;
    struct filter_answer answer;
};

static void ask(struct asked *asked, struct core_fixture *core, const struct request *request,
                struct judge *judge)
{
    *asked = (struct asked){.snapshot = ledger_publish(core->ledger, NULL, 0)};
    arena_init(&asked->arena);
    for (uint32_t i = 0; i < NODES; i++)
        asked->name[i] = text_of(node_name(core, i));
    asked->question = (struct filter_question){.snapshot = asked->snapshot,
                                               .request = request,
                                               .uid = TEXT("asking"),
                                               .names = NODES,
                                               .name = asked->name,
                                               .judge = judge};
    filter_ask(&asked->question, &asked->arena, &asked->answer);
}

static void ask_done(struct asked *asked)
{
    snapshot_unref(asked->snapshot);
    arena_done(&asked->arena);
}

static void assert_same_answers(const struct filter_answer *a, const struct filter_answer *b)
{
    assert_int_equal(a->verdict, b->verdict);
    assert_int_equal(a->candidates, b->candidates);
    assert_memory_equal(a->cause, b->cause, NODES * sizeof *a->cause);
    for (uint32_t i = 0; i < a->candidates; i++) {
        struct rank one = a->candidate[i].rank;
        struct rank other = b->candidate[i].rank;
        one.steps = 0; /* a remembered search takes none */
        other.steps = 0;
        assert_int_equal(a->candidate[i].name, b->candidate[i].name);
        assert_int_equal(one.exact, other.exact);
        assert_int_equal(one.unjudged, other.unjudged);
        assert_int_equal(one.apart, other.apart);
        assert_int_equal(one.price, other.price);
        assert_int_equal(one.raised_milli, other.raised_milli);
        assert_int_equal(one.charge_milli, other.charge_milli);
        assert_int_equal(one.left_milli, other.left_milli);
        assert_int_equal(one.free_milli, other.free_milli);
        assert_int_equal(one.judged, other.judged);
        assert_int_equal(one.work, other.work);
        assert_int_equal(one.order, other.order);
        assert_memory_equal(one.key, other.key, sizeof one.key);
    }
    if (a->candidates == 0)
        return;
    const struct placement *one = a->candidate[0].placement;
    const struct placement *other = b->candidate[0].placement;
    assert_int_equal(one->parts, other->parts);
    assert_memory_equal(one->part, other->part, one->parts * sizeof one->part[0]);
}

/* The prices that the ledger's nodes have now, counted anew. */
static void count_supply(const struct ledger *ledger, struct supply *out)
{
    const struct workload *workload = ledger->outlook->workload;
    struct kinds *kinds = xmalloc(sizeof *kinds);
    const struct node *node;
    struct room room;
    struct rest rest;
    struct slots slots;

    *out = (struct supply){0};
    kinds_init(kinds, workload);
    for (size_t at = 0; (node = ledger_next_node(ledger, &at)) != NULL;) {
        room_of(node, &room);
        rest_of(&room, kinds, &rest);
        slots_of(workload, &rest, &slots);
        out->nodes += node->gpus > 0;
        out->free_milli += rest.free_milli;
        for (uint32_t i = 0; i < workload->scarces; i++)
            out->slots[i] += slots.count[i];
    }
    xfree(kinds);
}

static void assert_supply(const struct ledger *ledger)
{
    struct supply supply;
    if (ledger->outlook == NULL || ledger->outlook->kind != POLICY_ROLLOUT)
        return;
    count_supply(ledger, &supply);
    assert_int_equal(ledger->supply.nodes, supply.nodes);
    assert_int_equal(ledger->supply.free_milli, supply.free_milli);
    assert_memory_equal(ledger->supply.slots, supply.slots, sizeof supply.slots);
}

/*
 * A random life of a ledger
 */

struct life {
    struct core_fixture *core;
    struct judge *judge;
    uint64_t seed;
    uint32_t pods;
    uint32_t bound;
    enum policy_kind kind;
    bool linked; /* nodes tell of links, and pods demand some */
    uint32_t near[APART_ANYWHERE + 1];
    bool levels;
    uint32_t raised; /* pods whose shares were raised */
};

/* How near a want of two parts can lie, by all pairs of GPUs. */
static enum apart nearest_pair(const struct node *node, const struct request *request)
{
    const struct want *want = &request->want[0];
    enum apart nearest = APART_ANYWHERE;

    assert_int_equal(want->parts, 2);
    for (uint32_t a = 0; a < node->gpus; a++)
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
            const enum apart apart = (gpu[0]->peers >> b & 1) != 0 ? APART_LINKED
                                     : numa                        ? APART_NUMA
                                                                   : APART_ANYWHERE;
            nearest = apart < nearest ? apart : nearest;
        }
    return nearest;
}

/* The nodes that are judged come in the order of rule b, each with the nearest way that it has. */
static void assert_near(struct life *life, const struct request *request,
                        const struct filter_answer *answer)
{
    if (!life->linked || request->wants != 1 || request->want[0].parts != 2)
        return;
    for (uint32_t i = 0; i < answer->candidates; i++) {
        const struct candidate *candidate = &answer->candidate[i];
        assert_int_equal(candidate->rank.apart, nearest_pair(candidate->node, request));
        assert_true(i == 0 || candidate[-1].rank.apart <= candidate->rank.apart);
        assert_true(request->topology != TOPOLOGY_NVLINK || candidate->rank.apart == APART_LINKED);
        life->near[candidate->rank.apart]++;
    }
    if (answer->candidates > 0)
        assert_int_equal(answer->candidate[0].placement->apart, answer->candidate[0].rank.apart);
}

static void place_one(struct life *life)
{
    struct core_fixture *core = life->core;
    struct request *request = shape(core, draw(&life->seed, 23));
    struct asked with;
    struct asked without;

    if (draw(&life->seed, 12) == 0)
        request->wants = 0; /* only CPU and memory: ranked, never reserved */
    else if (life->linked && request->want[0].parts > 1)
        request->topology = (enum topology)draw(&life->seed, TOPOLOGIES);
    if (life->levels && draw(&life->seed, 2) == 0)
        request->memory_mib = 2000 * (1 + draw(&life->seed, 8));
    ask(&with, core, request, life->judge);
    ask(&without, core, request, NULL);
    assert_same_answers(&with.answer, &without.answer);
    assert_near(life, request, &with.answer);
    if (with.answer.verdict == FILTER_FITS && request->wants > 0) {
        const char *uid = arena_printf(&core->arena, "p-%u", life->pods++);
        const struct candidate *best = &with.answer.candidate[0];
        assert_int_equal(core_reserve_for(core, uid, best->node->name->text, request), VERDICT_OK);
        const struct allocation *made = ledger_find(core->ledger, text_of(uid));
        struct share share[PARTS_MAX];
        place_shares(best->placement, request, best->node, share);
        assert_int_equal(made->is.shares, best->placement->parts);
        for (uint32_t i = 0; i < made->is.shares; i++) { /* bind chooses what filter has chosen */
            assert_ptr_equal(made->is.share[i].gpu, share[i].gpu);
            assert_int_equal(made->is.share[i].milli, share[i].milli);
            assert_int_equal(made->is.share[i].asked, share[i].asked);
        }
        life->raised += best->placement->raised_milli > 0;
    }
    ask_done(&with);
    ask_done(&without);
}

static void end_one(struct life *life)
{
    const uint32_t pod = draw(&life->seed, life->pods + 1);
    const char *uid = arena_printf(&life->core->arena, "p-%u", pod);
    if (ledger_find(life->core->ledger, text_of(uid)) != NULL)
        assert_int_equal(core_step(life->core, COMMAND_RELEASE, uid), VERDICT_OK);
}

static void change_one(struct life *life)
{
    const uint32_t node = draw(&life->seed, NODES);
    const struct host host = host_of(draw(&life->seed, 30000));
    if (draw(&life->seed, 2) == 0)
        assert_true(
            ledger_set_host(life->core->ledger, text_of(node_name(life->core, node)), &host));
    else
        show_node(life->core, node, draw(&life->seed, GPUS + 1),
                  life->linked ? draw(&life->seed, 1000) : 0);
}

static void live(struct life *life, int steps)
{
    for (int i = 0; i < steps; i++) {
        if (i % 90 == 40) {
            life->kind = life->linked               ? (life->kind + 1) % POLICIES
                         : life->kind == POLICY_FGD ? POLICY_ROLLOUT
                                                    : POLICY_FGD;
            (life->levels ? set_policy_with_levels : set_policy)(life->core, life->kind,
                                                                 3 + draw(&life->seed, SHAPES - 3));
        }
        const uint32_t what = draw(&life->seed, 10);
        if (what < 6)
            place_one(life);
        else if (what < 9)
            end_one(life);
        else
            change_one(life);
        assert_supply(life->core->ledger);
    }
}

static void what_is_remembered_never_changes_an_answer(void **state)
{
    struct core_fixture *core = *state;
    struct life life = {.core = core, .judge = judge_new(), .seed = 1, .kind = POLICY_ROLLOUT};
    show_cluster(core, false);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    live(&life, walk_steps(600, 200));
    const struct judge_counts counts = judge_counts(life.judge);
    assert_true(counts.found > 0);
    assert_true(counts.bytes < JUDGE_BYTES_MAX);
    judge_free(life.judge);
}

/* Under each policy, with and without memory; and bind agrees with filter. */
static void rule_b_comes_first_under_every_policy(void **state)
{
    struct core_fixture *core = *state;
    struct life life = {
        .core = core, .judge = judge_new(), .seed = 4, .kind = POLICY_ROLLOUT, .linked = true};
    show_cluster(core, true);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    live(&life, walk_steps(1000, 500));
    assert_true(judge_counts(life.judge).found > 0);
    judge_free(life.judge);
    print_message("%u linked, %u on one NUMA node, %u anywhere\n", life.near[0], life.near[1],
                  life.near[2]);
    for (uint32_t i = 0; i <= APART_ANYWHERE; i++)
        assert_true(life.near[i] > 20);
}

static void what_is_remembered_of_prices_and_raises_never_changes_an_answer(void **state)
{
    struct core_fixture *core = *state;
    struct life life = {
        .core = core, .judge = judge_new(), .seed = 5, .kind = POLICY_ROLLOUT, .levels = true};
    show_cluster(core, false);
    set_policy_with_levels(core, POLICY_ROLLOUT, SHAPES);
    live(&life, walk_steps(600, 200));
    const struct judge_counts counts = judge_counts(life.judge);
    assert_true(counts.found > 0);
    assert_true(life.raised > 5);
    judge_free(life.judge);
}

/* Dearer nodes rank behind all cheaper ones, however well a pod would fit there. */
static void nodes_rank_by_the_price_of_their_gpus_first(void **state)
{
    static const enum policy_kind kinds[] = {POLICY_BINPACK, POLICY_FIRSTFIT, POLICY_SPREAD,
                                             POLICY_FGD, POLICY_ROLLOUT};
    struct core_fixture *core = *state;
    struct asked asked;
    uint32_t dearer = 0;
    show_cluster(core, false);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        set_policy_with_levels(core, kinds[k], SHAPES);
        ask(&asked, core, shape(core, 0), NULL);
        assert_true(asked.answer.candidates > 10);
        for (uint32_t i = 1; i < asked.answer.candidates; i++) {
            const uint32_t before = asked.answer.candidate[i - 1].rank.price;
            assert_true(before > 0 && before <= asked.answer.candidate[i].rank.price);
            dearer += before < asked.answer.candidate[i].rank.price;
        }
        ask_done(&asked);
    }
    assert_true(dearer >= ARRAY_LEN(kinds));
}

/*
 * Merits, by the formulas of policy.h
 */

static void every_lost_place_has_its_price(void **state)
{
    (void)state;
    struct workload_class class[3] = {{.parts = 2, .milli = 1000, .count = 3},
                                      {.parts = 4, .milli = 1000, .count = 2},
                                      {.parts = 8, .milli = 1000, .count = 1}};
    struct workload *workload = workload_new(class, 3);
    struct outlook *outlook = outlook_new(POLICY_ROLLOUT, 0, workload);
    const struct loss loss = {.count = {5, 3, 2}};
    outlook->price[0] = 1;
    outlook->price[1] = 100;
    outlook->price[2] = 10000;
    assert_int_equal(loss_price(outlook, &loss), 20305);
    outlook_unref(outlook);
    workload_unref(workload);
}

struct merits {
    const struct outlook *outlook;
    const struct request *request;
    const struct room *room;
    struct kinds *kinds;
    int64_t best;
    uint32_t best_on; /* a set of GPUs, bit g: GPU g */
    bool any;
};

static int64_t merit_of(const struct merits *merits, const struct placement *placement)
{
    const struct workload *workload = merits->outlook->workload;
    struct workload_class class;
    struct rest before;
    struct rest after;
    struct slots were;
    struct slots are;
    uint64_t work = 0;

    rest_of(merits->room, merits->kinds, &before);
    after = before;
    rest_take(&after, merits->request, placement);
    if (merits->outlook->kind == POLICY_FGD) {
        const int64_t less =
            (int64_t)(fgd_fragment(workload, &before) - fgd_fragment(workload, &after));
        return 1000 * (int64_t)sigmoid_score(less, workload->typical_count);
    }
    const int64_t less =
        (int64_t)(rollout_idle(workload, &before, &work) - rollout_idle(workload, &after, &work));
    int64_t merit = 1000 * (int64_t)sigmoid_score(less, WORKLOAD_SEQUENCES);
    merit -= 300 * after.free_milli / after.total_milli;
    slots_of(workload, &before, &were);
    slots_of(workload, &after, &are);
    workload_class_of(merits->request, &class);
    for (uint32_t i = 0; i < workload->scarces; i++) {
        int64_t lost = were.count[i] - are.count[i];
        if (lost > 0 && workload_alike(&class, &workload->class[workload->scarce[i]]))
            lost--;
        merit -= lost * merits->outlook->price[i];
    }
    return merit;
}

/* Every set of GPUs that can take the parts of the one want. */
static void try_everything(struct merits *merits)
{
    const struct want *want = &merits->request->want[0];
    struct placement placement = {.raised_milli = 0};

    merits->any = false;
    for (uint32_t set = 0; set < 1U << merits->room->gpus; set++) {
        bool fits = (uint32_t)__builtin_popcount(set) == want->parts;
        placement.parts = 0;
        for (uint32_t i = 0; i < merits->room->gpus; i++) {
            const struct gpu_room *gpu = &merits->room->gpu[i];
            if ((set >> i & 1) == 0)
                continue;
            fits = fits && gpu->closed == REASON_NONE && gpu->free_milli >= want->milli &&
                   request_takes_model(merits->request, atom_text(gpu->model));
            placement.part[placement.parts++] = (struct part){.gpu = (uint16_t)i};
        }
        if (!fits)
            continue;
        const int64_t merit = merit_of(merits, &placement);
        if (!merits->any || merit > merits->best)
            *merits = (struct merits){
                merits->outlook, merits->request, merits->room, merits->kinds, merit, set, true};
    }
}

static void assert_best_merit(struct merits *merits, const struct node *node)
{
    const struct policy_question question = {
        .outlook = merits->outlook, .node = node, .slot = SNAPSHOT_NO_SLOT};
    struct placement placement;
    struct plan plan;
    struct room room;
    struct rank rank;

    room_of(node, &room);
    merits->room = &room;
    try_everything(merits);
    plan_init(&plan, merits->request, NULL);
    const enum reason why = policy_judge_room(&question, &plan, &room, &rank, &placement);
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
    for (uint32_t i = 0; i < placement.parts; i++)
        merits->best_on &= ~(1U << placement.part[i].gpu);
    /* or another set that is as good */
    assert_true(merits->best_on == 0 || merit_of(merits, &placement) == merits->best);
    merits->room = NULL;
}

static void the_best_merit_is_that_of_the_formulas(void **state)
{
    struct core_fixture *core = *state;
    struct life life = {.core = core, .seed = 3, .kind = POLICY_ROLLOUT};
    struct merits merits = {.kinds = xmalloc(sizeof(struct kinds))};
    show_cluster(core, false);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    for (int turn = 0; turn < walk_steps(30, 6); turn++) {
        live(&life, 20);
        set_policy(core, turn % 3 == 0 ? POLICY_FGD : POLICY_ROLLOUT, SHAPES - (uint32_t)turn % 3);
        merits.outlook = ledger_outlook(core->ledger);
        kinds_init(merits.kinds, merits.outlook->workload);
        for (uint32_t i = 0; i < 8; i++) {
            merits.request = shape(core, i);
            for (uint32_t n = 0; n < NODES; n++)
                assert_best_merit(&merits, ledger_node(core->ledger, text_of(node_name(core, n))));
        }
    }
    xfree(merits.kinds);
}

/*
 * Limits and edges
 */

static void prices_follow_after_every_20_grants(void **state)
{
    struct core_fixture *core = *state;
    int64_t price[WORKLOAD_SCARCE_MAX];
    struct supply supply;
    show_cluster(core, false);
    assert_int_equal(core_node(core, "empty", NULL, 0), VERDICT_OK);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    assert_supply(core->ledger);
    assert_int_equal(core->ledger->supply.nodes, NODES);
    const struct outlook *first = ledger_outlook(core->ledger);
    assert_true(first->workload->scarces > 0);
    count_supply(core->ledger, &supply);
    scarcity_prices(first->workload, &supply, price);
    assert_memory_equal(first->price, price, first->workload->scarces * sizeof price[0]);

    for (uint32_t i = 0; i < PRICE_EVERY; i++) {
        assert_ptr_equal(ledger_outlook(core->ledger), first);
        const char *uid = arena_printf(&core->arena, "p-%u", i);
        const char *node = node_name(core, 3 + 4 * (i % 5));
        assert_int_equal(core_reserve(core, uid, node, i < 5 ? "2000" : "100"), VERDICT_OK);
    }
    const struct outlook *second = ledger_outlook(core->ledger);
    assert_ptr_not_equal(second, first);
    count_supply(core->ledger, &supply);
    scarcity_prices(second->workload, &supply, price);
    assert_memory_equal(second->price, price, second->workload->scarces * sizeof price[0]);
    assert_int_equal(second->kind, POLICY_ROLLOUT);
    assert_int_equal(second->seed, SEED);
    for (uint32_t i = 1; i < PRICE_EVERY; i++)
        assert_int_equal(core_reserve(core, arena_printf(&core->arena, "q-%u", i), "n-3", "10"),
                         VERDICT_OK);
    assert_ptr_equal(ledger_outlook(core->ledger), second);
    assert_int_equal(core_reserve(core, "last", "n-3", "10"), VERDICT_OK);
    assert_ptr_not_equal(ledger_outlook(core->ledger), second);
}

static void what_is_undone_counts_no_more(void **state)
{
    struct core_fixture *core = *state;
    show_cluster(core, false);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    const struct supply before = core->ledger->supply;
    assert_int_equal(core_reserve(core, "p", "n-3", "4000"), VERDICT_OK);
    assert_memory_not_equal(&core->ledger->supply, &before, sizeof before);
    core_undo(core);
    assert_memory_equal(core->ledger->supply.slots, before.slots, sizeof before.slots);
    assert_int_equal(core->ledger->supply.free_milli, before.free_milli);
}

static void a_ledger_without_prices_counts_nothing(void **state)
{
    struct core_fixture *core = *state;
    show_cluster(core, false);
    assert_null(ledger_outlook(core->ledger));
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    assert_non_null(core->ledger->kinds);
    set_policy(core, POLICY_ROLLOUT, 5); /* one class of several GPUs */
    assert_int_equal(ledger_outlook(core->ledger)->workload->scarces, 1);
    assert_non_null(core->ledger->kinds);
    set_policy(core, POLICY_ROLLOUT, 3); /* none */
    assert_null(core->ledger->kinds);
    assert_int_equal(core->ledger->supply.nodes, 0);
    set_policy(core, POLICY_FGD, SHAPES);
    assert_null(core->ledger->kinds);
    set_policy(core, POLICY_SPREAD, SHAPES);
    assert_null(core->ledger->kinds);
    ledger_set_outlook(core->ledger, NULL);
    assert_null(ledger_outlook(core->ledger));
}

static void a_node_keeps_what_its_pods_leave_of_the_host(void **state)
{
    struct core_fixture *core = *state;
    const struct host host = host_of(5000);
    show_cluster(core, false);
    assert_false(ledger_set_host(core->ledger, TEXT("nobody"), &host));
    assert_true(ledger_set_host(core->ledger, TEXT("n-0"), &host));
    assert_int_equal(core_reserve(core, "p", "n-0", "300"), VERDICT_OK);
    show_node(core, 0, 2, 0);
    const struct node *node = ledger_node(core->ledger, TEXT("n-0"));
    struct room room;
    room_of(node, &room);
    assert_int_equal(node->gpus, 2);
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

static void policies_have_names(void **state)
{
    (void)state;
    enum policy_kind kind;
    for (enum policy_kind i = 0; i < POLICIES; i++) {
        assert_true(policy_of_name(text_of(policy_name(i)), &kind));
        assert_int_equal(kind, i);
        assert_true(strlen(policy_help(i)) > 0);
        assert_int_equal(policy_needs_workload(i), i == POLICY_FGD || i == POLICY_ROLLOUT);
    }
    assert_string_equal(policy_name(POLICY_ROLLOUT), "rollout");
    assert_false(policy_of_name(TEXT("binpac"), &kind));
    assert_false(policy_of_name(TEXT(""), &kind));
}

static void each_key_decides_before_the_next(void **state)
{
    (void)state;
    struct names *names = names_new();
    const struct atom *a = names_intern(names, TEXT("a"));
    const struct atom *b = names_intern(names, TEXT("b"));
    const struct rank best = {.key = {1, 1, 1}, .order = 1};
    struct rank worse[5];
    for (size_t i = 0; i < ARRAY_LEN(worse); i++)
        worse[i] = best;
    worse[0].order = 2;
    worse[1].key[2] = 2;
    worse[1].order = 0;
    worse[2].key[1] = 2;
    worse[2].key[2] = 0;
    worse[3].key[0] = 2;
    worse[3].key[1] = 0;
    worse[4].unjudged = true;
    worse[4].key[0] = 0;
    for (size_t i = 0; i < ARRAY_LEN(worse); i++) {
        assert_int_equal(rank_cmp(&best, b, &worse[i], a), -1);
        assert_int_equal(rank_cmp(&worse[i], a, &best, b), 1);
        if (i > 0)
            assert_int_equal(rank_cmp(&worse[i - 1], b, &worse[i], a), -1);
    }
    assert_true(rank_cmp(&best, a, &best, b) < 0);
    assert_true(rank_cmp(&best, b, &best, a) > 0);
    assert_int_equal(rank_cmp(&best, a, &best, a), 0);
    names_free(names);
}

static void the_order_of_nodes_is_that_of_the_seed(void **state)
{
    struct core_fixture *core = *state;
    struct asked one;
    struct asked other;
    show_cluster(core, false);
    for (uint32_t seed = 0; seed < 2; seed++) {
        struct outlook *outlook = outlook_new(POLICY_FIRSTFIT, seed, NULL);
        ledger_set_outlook(core->ledger, outlook);
        outlook_unref(outlook);
        ask(seed == 0 ? &one : &other, core, shape(core, 0), NULL);
    }
    uint32_t moved = 0;
    assert_int_equal(one.answer.candidates, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        moved += one.answer.candidate[i].name != other.answer.candidate[i].name;
        assert_true(i == 0 ||
                    one.answer.candidate[i - 1].rank.order < one.answer.candidate[i].rank.order);
    }
    assert_true(moved > NODES / 2);
    ask_done(&one);
    ask_done(&other);
}

/* 30 containers on 16 half full GPUs: far more layouts than are judged. */
static void more_layouts_than_are_judged_still_get_a_place(void **state)
{
    struct core_fixture *core = *state;
    char many[30 * 4] = "";
    struct core_gpu gpu[16];
    struct asked asked;
    for (uint32_t i = 0; i < ARRAY_LEN(gpu); i++)
        gpu[i] = (struct core_gpu){.index = i, .milli = 500 + 10 * i};
    assert_int_equal(core_node(core, "n-0", gpu, ARRAY_LEN(gpu)), VERDICT_OK);
    for (uint32_t i = 0; i < 30; i++)
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "%s%u", i > 0 ? "+" : "",
                       i % 7 < 3 ? 90 : 70);
    static const enum policy_kind kinds[] = {POLICY_FGD, POLICY_ROLLOUT, POLICY_SPREAD,
                                             POLICY_FIRSTFIT};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        set_policy(core, kinds[i], SHAPES);
        ask(&asked, core, core_request(core, many), NULL);
        assert_int_equal(asked.answer.candidates, 1);
        const struct candidate *best = &asked.answer.candidate[0];
        assert_int_equal(best->placement->parts, 30);
        assert_int_equal(best->rank.exact, kinds[i] == POLICY_FIRSTFIT);
        assert_int_equal(best->placement->exact, best->rank.exact);
        assert_int_equal(best->rank.judged, policy_needs_workload(kinds[i]) ? LAYOUTS_MAX + 1 : 0);
        ask_done(&asked);
        /* one container, whose four parts have 1,820 places */
        ask(&asked, core, core_request(core, "400x4"), NULL);
        best = &asked.answer.candidate[0];
        assert_int_equal(best->placement->parts, 4);
        assert_int_equal(best->rank.exact, !policy_needs_workload(kinds[i]));
        assert_int_equal(best->placement->exact, best->rank.exact);
        ask_done(&asked);
    }
}

static int64_t key_of(struct core_fixture *core, const char *wanted)
{
    struct request *request = core_request(core, wanted != NULL ? wanted : "1");
    struct asked asked;
    request->wants = wanted != NULL;
    ask(&asked, core, request, NULL);
    assert_int_equal(asked.answer.candidates, 1);
    const int64_t key = asked.answer.candidate[0].rank.key[0];
    ask_done(&asked);
    return key;
}

static void an_empty_workload_prefers_only_the_fuller_node(void **state)
{
    struct core_fixture *core = *state;
    const struct core_gpu gpu[] = {{.index = 0}, {.index = 1}};
    const struct core_gpu tiny = {.index = 0, .milli = 1};
    assert_int_equal(core_node(core, "n-0", gpu, 2), VERDICT_OK);
    set_policy(core, POLICY_ROLLOUT, 0);
    assert_int_equal(key_of(core, "1000"), 150);
    assert_int_equal(key_of(core, NULL), 300);
    set_policy(core, POLICY_FGD, 0);
    assert_int_equal(key_of(core, "1000"), 0);
    assert_int_equal(core_node(core, "n-0", &tiny, 1), VERDICT_OK);
    set_policy(core, POLICY_ROLLOUT, 0);
    assert_int_equal(key_of(core, NULL), 300);
    assert_int_equal(core_node(core, "n-0", NULL, 0), VERDICT_OK);
    assert_int_equal(key_of(core, NULL), 0);
}

/* 17 rows on 64 GPUs: more cells than a walk has. */
static void a_request_that_is_too_large_to_walk_over_gets_the_greedy_place(void **state)
{
    struct core_fixture *core = *state;
    char many[17 * 4] = "";
    struct core_gpu gpu[GPUS_PER_NODE_MAX];
    struct asked asked;
    for (uint32_t i = 0; i < ARRAY_LEN(gpu); i++)
        gpu[i] = (struct core_gpu){.index = i};
    assert_int_equal(core_node(core, "n-0", gpu, ARRAY_LEN(gpu)), VERDICT_OK);
    for (uint32_t i = 0; i < 17; i++)
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "%s%u", i > 0 ? "+" : "",
                       10 + i);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        set_policy(core, kind, SHAPES);
        ask(&asked, core, core_request(core, many), NULL);
        assert_int_equal(asked.answer.candidates, 1);
        const struct candidate *best = &asked.answer.candidate[0];
        assert_int_equal(best->placement->parts, 17);
        assert_int_equal(best->rank.charge_milli, best->placement->charge_milli);
        assert_int_equal(best->rank.judged, policy_needs_workload(kind));
        ask_done(&asked);
    }
}

static void other_prices(struct core_fixture *core, int64_t price)
{
    const struct outlook *former = core->ledger->outlook;
    struct outlook *outlook = outlook_new(former->kind, former->seed, former->workload);
    for (uint32_t i = 0; i < outlook->workload->scarces; i++)
        outlook->price[i] = price * (i + 1);
    outlook_unref(former);
    core->ledger->outlook = outlook;
}

/* What is remembered holds for all nodes, and the answer is the right one. */
static void assert_remembered(struct core_fixture *core, struct judge *judge, const char *wanted)
{
    const struct judge_counts before = judge_counts(judge);
    struct asked known;
    struct asked fresh;
    ask(&known, core, core_request(core, wanted), judge);
    ask(&fresh, core, core_request(core, wanted), NULL);
    assert_int_equal(judge_counts(judge).made, before.made);
    assert_int_equal(judge_counts(judge).found, before.found + NODES);
    assert_same_answers(&known.answer, &fresh.answer);
    ask_done(&known);
    ask_done(&fresh);
}

/*
 * Two losses on each node: with and without the place of a pod of two GPUs. On every other node the
 * idle GPUs come first.
 */
static void all_nodes_of_a_question_are_remembered(void **state)
{
    static const char *const wanted[] = {"250", "1000"};
    struct core_fixture *core = *state;
    const struct core_gpu gpu[] = {{.index = 0}, {.index = 1}, {.index = 2}, {.index = 3}};
    struct asked first;
    for (uint32_t i = 0; i < NODES; i++) {
        const char *node = node_name(core, i);
        assert_int_equal(core_node(core, node, gpu, 4), VERDICT_OK);
        if (i % 2 == 0)
            assert_int_equal(core_reserve(core, node, node, "2000"), VERDICT_OK);
        const char *uid = arena_printf(&core->arena, "p-%u", i);
        assert_int_equal(core_reserve(core, uid, node, "600+700"), VERDICT_OK);
        if (i % 2 == 0)
            assert_int_equal(core_step(core, COMMAND_RELEASE, node), VERDICT_OK);
    }
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    for (uint32_t i = 0; i < ARRAY_LEN(wanted); i++) {
        struct judge *judge = judge_new();
        ask(&first, core, core_request(core, wanted[i]), judge);
        assert_int_equal(judge_counts(judge).made, NODES);
        assert_int_equal(first.answer.candidate[0].rank.judged, i == 0 ? 3 : 1);
        ask_done(&first);
        assert_remembered(core, judge, wanted[i]);
        /* Other prices are another outlook; what is remembered holds. */
        other_prices(core, 1234);
        assert_remembered(core, judge, wanted[i]);
        other_prices(core, 0);
        assert_remembered(core, judge, wanted[i]);
        judge_free(judge);
    }
}

static void another_order_of_nodes_is_another_answer(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct workload *workload = workload_of(core, SHAPES);
    struct asked with;
    struct asked without;
    show_cluster(core, false);
    static const struct {
        enum policy_kind kind;
        uint32_t seed;
    } order[] = {{POLICY_FGD, 0}, {POLICY_FGD, 1}, {POLICY_ROLLOUT, 1}, {POLICY_FGD, 1}};
    for (uint32_t i = 0; i < ARRAY_LEN(order); i++) {
        for (uint32_t turn = 0; turn < 2; turn++) {
            struct outlook *outlook = outlook_new(order[i].kind, order[i].seed, workload);
            ledger_set_outlook(core->ledger, outlook); /* another object, which says the same */
            outlook_unref(outlook);
            ask(&with, core, shape(core, 3), judge);
            ask(&without, core, shape(core, 3), NULL);
            assert_same_answers(&with.answer, &without.answer);
            ask_done(&with);
            ask_done(&without);
        }
    }
    assert_int_equal(judge_counts(judge).found, 4 * NODES);
    workload_unref(workload);
    judge_free(judge);
}

static void a_judge_is_not_asked_by_policies_that_judge_no_nodes(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct asked asked;
    set_policy(core, POLICY_FGD, SHAPES);
    ask(&asked, core, shape(core, 0), judge); /* before there is any node */
    assert_int_equal(asked.answer.verdict, FILTER_NONE);
    ask_done(&asked);
    show_cluster(core, false);
    set_policy(core, POLICY_SPREAD, SHAPES);
    ask(&asked, core, shape(core, 0), judge);
    ask_done(&asked);
    ledger_set_outlook(core->ledger, NULL);
    ask(&asked, core, shape(core, 0), judge);
    assert_int_equal(asked.answer.candidates, NODES);
    ask_done(&asked);
    assert_int_equal(judge_counts(judge).made, 0);
    set_policy(core, POLICY_FGD, SHAPES);
    ask(&asked, core, shape(core, 8), judge); /* several containers are judged, not remembered */
    ask_done(&asked);
    ask(&asked, core, shape(core, 8), judge);
    ask_done(&asked);
    assert_int_equal(judge_counts(judge).made, 2 * NODES);
    assert_int_equal(judge_counts(judge).found, 0);
    judge_free(judge);
}

/* A Node object that the ledger does not know, in the question itself. */
static void an_unknown_node_is_judged_each_time(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    const struct core_gpu gpu = {.index = 0, .mib = 16000};
    struct node *node = node_from_inventory(core_inventory(core, "new", "uid", &gpu, 1), NULL,
                                            ledger_names(core->ledger));
    const struct node *nodes[NODES + 1] = {[NODES] = node};
    struct asked asked;
    show_cluster(core, false);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    ask(&asked, core, shape(core, 0), NULL);
    asked.name[NODES] = TEXT("new");
    asked.question.names++;
    asked.question.node = nodes;
    asked.question.judge = judge;
    for (uint32_t turn = 0; turn < 2; turn++) {
        filter_ask(&asked.question, &asked.arena, &asked.answer);
        assert_int_equal(asked.answer.cause[NODES].why, REASON_NONE);
        assert_int_equal(judge_counts(judge).made, NODES + 1 + turn);
    }
    node_unref(node);
    ask_done(&asked);
    judge_free(judge);
}

/*
 * The names of such a node end with the question, and those of the next one may come to lie in the
 * same place: here the model at one address is another one from the second question on.
 */
static void an_unknown_node_leaves_nothing_behind(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct names *names = names_new();
    const struct core_gpu gpu = {.index = 0, .mib = 16000};
    struct inventory *inventory = core_inventory(core, "new", "uid", &gpu, 1);
    struct asked asked;
    struct filter_answer fresh;
    struct workload_class class;
    show_cluster(core, false);
    assert_int_equal(core_reserve(core, "full", node_name(core, 0), "1000"), VERDICT_OK);
    workload_class_of(shape(core, 3), &class); /* 1000 milli, not of a T4 */
    class.count = 1;
    struct workload *workload = workload_new(&class, 1);
    struct outlook *outlook = outlook_new(POLICY_ROLLOUT, SEED, workload);
    ledger_set_outlook(core->ledger, outlook);
    inventory->gpu[0].model = "T4";
    struct node *node = node_from_inventory(inventory, NULL, names);
    const struct node *nodes[2] = {node, NULL};
    ask(&asked, core, shape(core, 0), NULL);
    asked.name[0] = TEXT("new");
    asked.name[1] = text_of(node_name(core, 0));
    asked.question.names = 2;
    asked.question.node = nodes;
    asked.question.judge = judge;
    filter_ask(&asked.question, &asked.arena, &asked.answer);
    char *model_text = (char *)(uintptr_t)names_find(names, TEXT("T4"))->text;
    memcpy(model_text, "A1", 2);
    filter_ask(&asked.question, &asked.arena, &asked.answer);
    asked.question.judge = NULL;
    filter_ask(&asked.question, &asked.arena, &fresh);
    assert_int_equal(asked.answer.candidates, 1);
    assert_ptr_equal(asked.answer.candidate[0].node, node);
    assert_int_equal(asked.answer.candidate[0].rank.key[0], fresh.candidate[0].rank.key[0]);
    outlook_unref(outlook);
    workload_unref(workload);
    node_unref(node);
    names_free(names);
    ask_done(&asked);
    judge_free(judge);
}

static void what_is_refused_is_remembered_too(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct asked asked;
    show_cluster(core, false);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    for (uint32_t turn = 0; turn < 2; turn++) {
        ask(&asked, core, shape(core, 5), judge); /* 4 GPUs: a quarter of the nodes */
        assert_int_equal(asked.answer.candidates, NODES / GPUS);
        ask_done(&asked);
    }
    assert_int_equal(judge_counts(judge).made, NODES);
    assert_int_equal(judge_counts(judge).found, NODES);
    judge_free(judge);
}

/* Two GPUs that are no use to pods of 800: the more of them a pod takes, the better. */
static void the_charge_is_that_of_the_place_that_the_policy_takes(void **state)
{
    struct core_fixture *core = *state;
    const struct core_gpu gpu[] = {{.index = 0, .milli = 700}, {.index = 1, .milli = 400}};
    const struct workload_class class = {.parts = 1, .milli = 800, .count = 1};
    struct workload *workload = workload_new(&class, 1);
    const struct text name = text_of(node_name(core, 0));
    assert_int_equal(core_node(core, name.at, gpu, 2), VERDICT_OK);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        struct outlook *outlook =
            outlook_new(kind, SEED, policy_needs_workload(kind) ? workload : NULL);
        struct asked asked;
        ledger_set_outlook(core->ledger, outlook);
        outlook_unref(outlook);
        ask(&asked, core, core_request(core, "i700+400"), NULL);
        assert_int_equal(asked.answer.candidates, 1);
        const struct candidate *best = &asked.answer.candidate[0];
        assert_int_equal(best->rank.charge_milli, best->placement->charge_milli);
        if (policy_needs_workload(kind))
            assert_int_equal(best->rank.charge_milli, 1100);
        ask_done(&asked);
    }
    workload_unref(workload);
}

/* Nodes of 1 to 24 GPUs, and classes of 2 to 33: each takes other places from each. */
static void more_losses_than_are_remembered_change_nothing(void **state)
{
    struct core_fixture *core = *state;
    struct workload_class class[32];
    struct core_gpu gpu[2 * NODES];
    struct judge *judge = judge_new();
    struct asked with;
    struct asked without;
    for (uint32_t i = 0; i < ARRAY_LEN(gpu); i++)
        gpu[i] = (struct core_gpu){.index = i};
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(core_node(core, node_name(core, i), gpu, NODES + i), VERDICT_OK);
    for (uint32_t i = 0; i < ARRAY_LEN(class); i++)
        class[i] = (struct workload_class){.parts = 2 + i, .milli = GPU_MILLI, .count = 40 - i};
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    struct outlook *outlook = outlook_new(POLICY_ROLLOUT, 0, workload);
    ledger_set_outlook(core->ledger, outlook);
    outlook_unref(outlook);
    workload_unref(workload);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t parts = 1; parts <= NODES; parts += 2) {
            struct request *request = core_request(core, "1000");
            request->want[0].parts = parts;
            ask(&with, core, request, judge);
            ask(&without, core, request, NULL);
            assert_same_answers(&with.answer, &without.answer);
            ask_done(&with);
            ask_done(&without);
        }
    /* What was full was forgotten, again and again; each time what came next was remembered. */
    const struct judge_counts counts = judge_counts(judge);
    assert_int_equal(counts.found + counts.made, NODES * NODES);
    assert_true(counts.made > NODES * NODES / 2);
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct request *request = core_request(core, "1000");
        request->want[0].parts = NODES - 1;
        ask(&with, core, request, judge);
        ask_done(&with);
    }
    assert_true(judge_counts(judge).found >= counts.found + NODES);
    judge_free(judge);
}

/*
 * What a node may have left
 */

/* The same idle GPU for the same work, whether it was remembered or not. */
static void assert_idle(struct judge *judge, const struct workload *workload,
                        const struct rest *rest)
{
    uint64_t work[] = {1, 1};
    assert_int_equal(judge_idle(judge, workload, rest, &work[0]),
                     rollout_idle(workload, rest, &work[1]));
    assert_int_equal(work[0], work[1]);
}

static void note_idle(struct judge *judge, const struct workload *workload, const struct rest *rest,
                      bool found)
{
    const struct judge_counts before = judge_counts(judge);
    assert_idle(judge, workload, rest);
    const struct judge_counts after = judge_counts(judge);
    assert_int_equal(after.idle_found - before.idle_found, found);
    assert_int_equal(after.idle_made - before.idle_made, !found);
}

static void equal_rests_are_rolled_out_once(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct asked asked;
    show_cluster(core, false);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    ask(&asked, core, shape(core, 0), judge);
    const struct workload *workload = asked.snapshot->outlook->workload;
    struct rest rest = {.host = {8000, 900},
                        .gpus = 3,
                        .free_milli = 1500,
                        .total_milli = 3000,
                        .free = {300, 1000, 200},
                        .kinds = judge_kinds(judge)->kind};
    note_idle(judge, workload, &rest, false);
    note_idle(judge, workload, &rest, true);
    const struct rest other_order = {.host = {8000, 900},
                                     .gpus = 3,
                                     .free_milli = 1500,
                                     .total_milli = 3000,
                                     .free = {1000, 200, 300},
                                     .kinds = rest.kinds};
    note_idle(judge, workload, &other_order, true);
    rest.kind[0] = rest.kind[1] = rest.kind[2] = 1;
    note_idle(judge, workload, &rest, false);
    note_idle(judge, workload, &rest, true);
    rest.host.cpu_milli = 7000;
    note_idle(judge, workload, &rest, false);
    rest.host.memory_mib = 800;
    note_idle(judge, workload, &rest, false);
    rest.free[0] = 299;
    rest.free_milli--;
    note_idle(judge, workload, &rest, false);
    note_idle(judge, workload, &rest, true);
    rest.free[2] = 0; /* not the same as one GPU less */
    rest.free_milli -= 200;
    note_idle(judge, workload, &rest, false);
    rest.gpus = 2;
    note_idle(judge, workload, &rest, false);
    note_idle(judge, workload, &rest, true);
    rest.gpus = 1;
    rest.kind[0] = 1;
    rest.kind[1] = 0;
    rest.free_milli = 299;
    note_idle(judge, workload, &rest, false);
    note_idle(judge, workload, &rest, true);
    rest.gpus = 0;
    rest.free_milli = 0;
    note_idle(judge, workload, &rest, false);
    note_idle(judge, workload, &rest, true);
    rest.host = (struct host){0, 0};
    note_idle(judge, workload, &rest, false);
    note_idle(judge, workload, &rest, true);
    rest.gpus = 1; /* enough of them to fall on the same entries now and then */
    rest.free_milli = 299;
    for (uint32_t i = 1; i < 3000; i++) {
        rest.host.cpu_milli = 10 * i;
        assert_idle(judge, workload, &rest);
    }
    ask_done(&asked);
    judge_free(judge);
}

static void large_and_mixed_rests_are_not_remembered(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct asked asked;
    show_cluster(core, false);
    set_policy(core, POLICY_ROLLOUT, SHAPES);
    ask(&asked, core, shape(core, 0), judge);
    const struct workload *workload = asked.snapshot->outlook->workload;
    struct rest rest = {.host = {8000, 900}, .gpus = 16, .kinds = judge_kinds(judge)->kind};
    rest.free_milli = rest.total_milli = 1600;
    for (uint32_t i = 0; i < 17; i++)
        rest.free[i] = 100;
    note_idle(judge, workload, &rest, false);
    note_idle(judge, workload, &rest, true);
    const struct judge_counts before = judge_counts(judge);
    rest.kind[15] = 1;
    assert_idle(judge, workload, &rest);
    rest.kind[15] = 0;
    rest.gpus = 17;
    rest.free_milli = rest.total_milli = 1700;
    assert_idle(judge, workload, &rest);
    assert_int_equal(judge_counts(judge).idle_found, before.idle_found);
    assert_int_equal(judge_counts(judge).idle_made, before.idle_made);
    ask_done(&asked);
    judge_free(judge);
}

/* 300 nodes, no two of whose GPUs are alike; pods of one class ask for memory. */
static void more_kinds_of_gpus_than_are_known_at_once_change_nothing(void **state)
{
    enum { KINDS = 300 };
    struct core_fixture *core = *state;
    struct workload_class class[2] = {{.parts = 1, .milli = 700, .share_mib = 805, .count = 1},
                                      {.parts = 1, .milli = 150, .count = 1}};
    struct text *name = xcalloc(KINDS, sizeof *name);
    struct judge *judge = judge_new();
    struct workload *workload = workload_new(class, 2);
    struct outlook *outlook = outlook_new(POLICY_ROLLOUT, 0, workload);
    struct filter_answer answer;
    struct arena arena;
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct core_gpu gpu = {.index = 0, .mib = 1000 + (i * 7919) % KINDS};
        name[i] = text_of(node_name(core, i));
        core_show_quickly(core, name[i].at, &gpu, 1);
    }
    ledger_set_outlook(core->ledger, outlook);
    arena_init(&arena);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    for (uint32_t milli = 100; milli < 500; milli += 100) {
        struct rank rank[KINDS];
        for (uint32_t turn = 0; turn < 2; turn++) {
            const struct filter_question question = {
                .snapshot = snapshot,
                .request = core_request(core, arena_printf(&core->arena, "%u", milli)),
                .names = KINDS,
                .name = name,
                .judge = turn == 0 ? judge : NULL};
            filter_ask(&question, &arena, &answer);
            assert_int_equal(answer.candidates, KINDS);
            for (uint32_t i = 0; i < KINDS; i++) {
                const struct candidate *candidate = &answer.candidate[i];
                if (turn == 1)
                    assert_int_equal(rank[candidate->name].key[0], candidate->rank.key[0]);
                rank[candidate->name] = candidate->rank;
            }
        }
    }
    snapshot_unref(snapshot);
    arena_done(&arena);
    outlook_unref(outlook);
    workload_unref(workload);
    judge_free(judge);
    xfree(name);
}

static void a_judge_takes_no_more_memory_than_it_may(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    const size_t empty = judge_counts(judge).bytes;
    size_t bytes[3];
    set_policy(core, POLICY_FGD, SHAPES);
    struct snapshot snapshot = {.outlook = ledger_outlook(core->ledger), .slots = BOOK_NODES};
    assert_true(empty > 3 << 20 && empty < 8 << 20);
    for (uint32_t i = 0; i < 2; i++) {
        policy_begin(judge, &snapshot, shape(core, i));
        bytes[i] = judge_counts(judge).bytes;
    }
    const size_t entries = bytes[1] - bytes[0]; /* of one request */
    const size_t nodes = bytes[0] - empty - entries;
    assert_true(entries >= BOOK_NODES * sizeof(uint64_t));
    assert_true(nodes >= BOOK_NODES * sizeof(void *) && nodes < (size_t)64 * BOOK_NODES);
    const size_t most = JUDGE_BYTES_MAX - (8 << 20);
    for (uint32_t books = 16; books <= 64; books += 48) {
        snapshot.slots = books * BOOK_NODES;
        const size_t fit = (most - books * nodes) / (books * entries);
        assert_true(fit > 8 && fit < 256);
        for (uint32_t i = 1; i <= fit + 8; i++) {
            policy_begin(judge, &snapshot, core_request(core, arena_printf(&core->arena, "%u", i)));
            const size_t kept = i < fit ? i : fit;
            bytes[2] = empty + books * (nodes + kept * entries);
            assert_int_equal(judge_counts(judge).bytes, bytes[2]);
        }
    }
    judge_free(judge);
}

/*
 * The budget of a question
 */

/* A question that names the nodes of the cluster in turn, many times. */
static void ask_often(struct core_fixture *core, const struct snapshot *snapshot,
                      const struct request *request, uint32_t names, struct judge *judge,
                      struct filter_answer *answer)
{
    struct text *name = arena_array(&core->arena, names, sizeof *name);
    for (uint32_t i = 0; i < names; i++)
        name[i] = text_of(node_name(core, i % NODES));
    const struct filter_question question = {
        .snapshot = snapshot, .request = request, .names = names, .name = name, .judge = judge};
    filter_ask(&question, &core->arena, answer);
    assert_int_equal(answer->candidates, answer->fitting);
}

/* How many are judged: those that come first, as long as their work is within the budget. */
static uint32_t assert_budget(const struct filter_answer *answer, uint32_t names, uint64_t paid)
{
    const struct candidate **by_name = xcalloc(names, sizeof(struct candidate *));
    uint64_t work = paid;
    uint32_t judged = 0;
    for (uint32_t i = 0; i < answer->candidates; i++)
        by_name[answer->candidate[i].name] = &answer->candidate[i];
    for (uint32_t i = 0; i < names; i++) {
        if (by_name[i] == NULL)
            continue; /* it does not fit, and costs nothing */
        const struct rank *rank = &by_name[i]->rank;
        assert_int_equal(rank->unjudged, work >= WORK_MAX);
        assert_true(rank->unjudged ? rank->work == 0 && rank->judged == 0 : rank->work > 0);
        work += rank->work;
        judged += !rank->unjudged;
    }
    for (uint32_t i = 0; i < answer->candidates; i++)
        assert_int_equal(answer->candidate[i].rank.unjudged, i >= judged);
    xfree(by_name);
    return judged;
}

static void nodes_beyond_the_budget_of_a_question_rank_behind(void **state)
{
    enum { NAMES = 120000 };
    struct core_fixture *core = *state;
    struct filter_answer cold;
    struct filter_answer warm;
    show_cluster(core, false);
    static const enum policy_kind kinds[] = {POLICY_ROLLOUT, POLICY_FGD};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        set_policy(core, kinds[i], SHAPES);
        const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
        struct judge *judge = judge_new();
        const uint32_t names = kinds[i] == POLICY_FGD ? 4 * NAMES : NAMES;
        const struct request *request = core_request(core, "100");
        ask_often(core, snapshot, request, names, judge, &cold);
        const uint32_t judged = assert_budget(&cold, names, 0);
        assert_true(judged > NODES && judged < cold.candidates);
        /* Now each node is known, and the answer is the same. */
        const uint64_t made = judge_counts(judge).made;
        ask_often(core, snapshot, request, names, judge, &warm);
        assert_int_equal(judge_counts(judge).made, made);
        assert_int_equal(assert_budget(&warm, names, 0), judged);
        for (uint32_t c = 0; c < cold.candidates; c++)
            assert_int_equal(warm.candidate[c].name, cold.candidate[c].name);
        judge_free(judge);
        snapshot_unref(snapshot);
    }
}

/* The search for several containers is paid for in advance, on each node that is named. */
static void a_question_about_several_containers_pays_for_its_search_first(void **state)
{
    enum { ALL = WORK_MAX / SEARCH_WORK };
    struct core_fixture *core = *state;
    struct filter_answer answer;
    show_cluster(core, false);
    const struct request *request = core_request(core, "300+200");
    for (enum policy_kind kind = POLICY_FIRSTFIT; kind < POLICIES; kind++) {
        set_policy(core, kind, SHAPES);
        const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
        ask_often(core, snapshot, request, ALL - 1, NULL, &answer);
        const uint32_t judged = assert_budget(&answer, ALL - 1, (ALL - 1) * SEARCH_WORK);
        assert_true(judged > 0 && judged <= 2 * SEARCH_WORK);
        ask_often(core, snapshot, request, ALL, NULL, &answer);
        assert_int_equal(assert_budget(&answer, ALL, (uint64_t)ALL * SEARCH_WORK), 0);
        snapshot_unref(snapshot);
    }
}

/* More requests than are remembered, and a cluster that grows. */
static void what_was_asked_longest_ago_is_forgotten(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct asked asked;
    show_cluster(core, false);
    set_policy(core, POLICY_FGD, SHAPES);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t i = 1; i <= 257; i++) {
            ask(&asked, core, core_request(core, arena_printf(&core->arena, "%u", i)), judge);
            ask_done(&asked);
        }
    assert_int_equal(judge_counts(judge).found, 0);
    for (uint32_t i = 257; i > 2; i--) {
        ask(&asked, core, core_request(core, arena_printf(&core->arena, "%u", i)), judge);
        ask_done(&asked);
        assert_int_equal(judge_counts(judge).found, (258 - i) * NODES);
    }
    const size_t bytes = judge_counts(judge).bytes;
    for (uint32_t i = NODES; i < BOOK_NODES + 1; i++)
        show_node(core, i, 1, 0);
    ask(&asked, core, shape(core, 0), judge);
    ask_done(&asked);
    assert_true(judge_counts(judge).bytes < bytes); /* one request, for twice as many places */
    judge_free(judge);
    judge_free(NULL);
}

/* Without a GPU there is nothing to reserve, but the order counts: CPU is taken from GPU hosts. */
static void a_pod_without_gpus_is_ranked(void **state)
{
    struct core_fixture *core = *state;
    struct asked asked;
    struct request *request = shape(core, 2);
    request->wants = 0;
    show_cluster(core, false);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        set_policy(core, kind, SHAPES);
        ask(&asked, core, request, NULL);
        assert_int_equal(asked.answer.verdict, FILTER_FITS);
        assert_int_equal(asked.answer.candidates, NODES);
        assert_int_equal(asked.answer.candidate[0].placement->parts, 0);
        assert_int_equal(asked.answer.candidate[0].rank.judged, policy_needs_workload(kind));
        assert_true(asked.answer.candidate[0].rank.exact);
        ask_done(&asked);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, core_set_up, core_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_remembered_never_changes_an_answer),
        TEST(rule_b_comes_first_under_every_policy),
        TEST(what_is_remembered_of_prices_and_raises_never_changes_an_answer),
        TEST(nodes_rank_by_the_price_of_their_gpus_first),
        TEST(prices_follow_after_every_20_grants),
        TEST(what_is_undone_counts_no_more),
        TEST(a_ledger_without_prices_counts_nothing),
        TEST(a_node_keeps_what_its_pods_leave_of_the_host),
        TEST(policies_have_names),
        TEST(each_key_decides_before_the_next),
        TEST(the_order_of_nodes_is_that_of_the_seed),
        TEST(more_layouts_than_are_judged_still_get_a_place),
        TEST(a_request_that_is_too_large_to_walk_over_gets_the_greedy_place),
        TEST(the_best_merit_is_that_of_the_formulas),
        cmocka_unit_test(every_lost_place_has_its_price),
        TEST(an_empty_workload_prefers_only_the_fuller_node),
        TEST(all_nodes_of_a_question_are_remembered),
        TEST(another_order_of_nodes_is_another_answer),
        TEST(a_judge_is_not_asked_by_policies_that_judge_no_nodes),
        TEST(an_unknown_node_is_judged_each_time),
        TEST(an_unknown_node_leaves_nothing_behind),
        TEST(the_charge_is_that_of_the_place_that_the_policy_takes),
        TEST(what_is_refused_is_remembered_too),
        TEST(more_losses_than_are_remembered_change_nothing),
        TEST(equal_rests_are_rolled_out_once),
        TEST(large_and_mixed_rests_are_not_remembered),
        TEST(more_kinds_of_gpus_than_are_known_at_once_change_nothing),
        TEST(a_judge_takes_no_more_memory_than_it_may),
        TEST(nodes_beyond_the_budget_of_a_question_rank_behind),
        TEST(a_question_about_several_containers_pays_for_its_search_first),
        TEST(what_was_asked_longest_ago_is_forgotten),
        TEST(a_pod_without_gpus_is_ranked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
