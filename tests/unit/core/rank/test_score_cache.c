/*
 * Scores of nodes and of their remaining room in a score cache, and their eviction where a table is
 * full.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"

#include "core/ledger/ledger_internal.h"
#include "core/rank/score_cache.h"
#include "support/core_fixture.h"
#include "support/policy_fixture.h"
#include "support/test.h"

/*
 * Scores of nodes
 */

static struct score_cache *cache; /* of the test that runs */

static int set_up(void **state)
{
    cache = score_cache_new();
    return core_set_up(state);
}

static int tear_down(void **state)
{
    score_cache_free(cache);
    return core_tear_down(state);
}

#define CACHE_TEST(name) TEST_WITH(name, struct core_fixture *core, set_up, tear_down)

/* Returns how many candidates the question has. */
static uint32_t ask_once(struct core_fixture *core, const struct request *request)
{
    struct asked asked;
    cluster_ask(&asked, core, request, cache);
    const uint32_t candidates = asked.answer.n_candidates;
    cluster_ask_done(&asked);
    return candidates;
}

static void other_prices(struct core_fixture *core, int64_t price)
{
    const struct policy_context *former = core->ledger->context;
    struct policy_context *context =
        policy_context_new(former->kind, former->seed, former->workload);
    for (uint32_t i = 0; i < context->workload->n_scarce; i++)
        context->scarcity_price[i] = price * (i + 1);
    policy_context_unref(former);
    core->ledger->context = context;
}

/* The answer equals that without a cache. */
static void assert_right(struct core_fixture *core, const struct request *request)
{
    struct asked with;
    struct asked without;
    cluster_ask(&with, core, request, cache);
    cluster_ask(&without, core, request, NULL);
    assert_same_answers(&with.answer, &without.answer);
    cluster_ask_done(&with);
    cluster_ask_done(&without);
}

/* The cache has the scores of all nodes, and the answer is right. */
static void assert_remembered(struct core_fixture *core, const char *wanted)
{
    const struct score_cache_counts before = score_cache_counts(cache);
    assert_right(core, core_request(core, wanted));
    assert_int_equal(score_cache_counts(cache).made, before.made);
    assert_int_equal(score_cache_counts(cache).found, before.found + NODES);
}

/*
 * Two losses on each node: with and without the place of a pod of two GPUs. On every other node the
 * idle GPUs come first.
 */
CACHE_TEST(score_cache__remembers_all_nodes_of_a_question)
{
    static const char *const wanted[] = {"250", "1000"};
    const struct core_gpu gpu[] = {{.index = 0}, {.index = 1}, {.index = 2}, {.index = 3}};
    struct asked first;
    for (uint32_t i = 0; i < NODES; i++) {
        const char *node = cluster_node(core, i);
        assert_int_equal(core_node(core, node, gpu, 4), VERDICT_OK);
        if (i % 2 == 0)
            assert_int_equal(core_reserve(core, node, node, "2000"), VERDICT_OK);
        const char *uid = arena_printf(&core->arena, "p-%u", i);
        assert_int_equal(core_reserve(core, uid, node, "600+700"), VERDICT_OK);
        if (i % 2 == 0)
            assert_int_equal(core_step(core, COMMAND_RELEASE, node), VERDICT_OK);
    }
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    for (uint32_t i = 0; i < ARRAY_LEN(wanted); i++) {
        score_cache_free(cache);
        cache = score_cache_new();
        cluster_ask(&first, core, core_request(core, wanted[i]), cache);
        assert_int_equal(score_cache_counts(cache).made, NODES);
        assert_int_equal(first.answer.candidate[0].rank.judged, i == 0 ? 3 : 1);
        cluster_ask_done(&first);
        assert_remembered(core, wanted[i]);
        /* Other prices are another policy context; the scores stay valid. */
        other_prices(core, 1234);
        assert_remembered(core, wanted[i]);
        other_prices(core, 0);
        assert_remembered(core, wanted[i]);
    }
}

CACHE_TEST(score_cache__prices_every_loss_anew)
{
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    for (int64_t price = 0; price < 9000; price += 2000) {
        for (uint32_t i = 0; i < SHAPES; i++)
            assert_right(core, cluster_shape(core, i));
        other_prices(core, price);
    }
}

CACHE_TEST(score_cache__remembers_refusals)
{
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    for (uint32_t turn = 0; turn < 2; turn++) /* 4 GPUs: a quarter of the nodes */
        assert_int_equal(ask_once(core, cluster_shape(core, 5)), NODES / GPUS);
    assert_int_equal(score_cache_counts(cache).made, NODES);
    assert_int_equal(score_cache_counts(cache).found, NODES);
}

CACHE_TEST(score_cache__separates_policies_and_seeds)
{
    struct workload *workload = cluster_workload(core, SHAPES);
    cluster_show(core, false);
    static const struct {
        enum policy_kind kind;
        uint32_t seed;
    } order[] = {{POLICY_FGD, 0},      {POLICY_FGD, 1},      {POLICY_ROLLOUT, 1},
                 {POLICY_FGD, 1},      {POLICY_BINPACK, 1},  {POLICY_SPREAD, 1},
                 {POLICY_FIRSTFIT, 1}, {POLICY_FIRSTFIT, 2}, {POLICY_ROLLOUT, 2},
                 {POLICY_BINPACK, 2},  {POLICY_ROLLOUT, 2}};
    for (uint32_t i = 0; i < ARRAY_LEN(order); i++) {
        for (uint32_t turn = 0; turn < 2; turn++) {
            struct policy_context *context =
                policy_context_new(order[i].kind, order[i].seed, workload);
            ledger_set_policy_context(core->ledger,
                                      context); /* another object, which says the same */
            policy_context_unref(context);
            assert_right(core, cluster_shape(core, 3));
        }
    }
    assert_int_equal(score_cache_counts(cache).found, ARRAY_LEN(order) * NODES);
    workload_unref(workload);
}

CACHE_TEST(score_cache__is_unused_without_a_policy_context)
{
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    assert_int_equal(ask_once(core, cluster_shape(core, 0)), 0); /* before there is any node */
    cluster_show(core, false);
    ledger_set_policy_context(core->ledger, NULL);
    for (uint32_t turn = 0; turn < 2; turn++)
        assert_int_equal(ask_once(core, cluster_shape(core, 0)), NODES);
    assert_int_equal(score_cache_counts(cache).made, 0);
    assert_int_equal(score_cache_counts(cache).found, 0);
}

/* Their charge differs between places. */
CACHE_TEST(score_cache__remembers_nothing_of_several_containers)
{
    cluster_show(core, false);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        cluster_set_policy(core, kind, SHAPES);
        for (uint32_t turn = 0; turn < 2; turn++)
            (void)ask_once(core, cluster_shape(core, 8));
        assert_int_equal(score_cache_counts(cache).made, 2 * NODES * (kind + 1));
    }
    assert_int_equal(score_cache_counts(cache).found, 0);
}

/* Also the numbers of a request for no GPU, of one on whole GPUs, and of refusals. */
CACHE_TEST(score_cache__remembers_under_every_policy)
{
    static const uint32_t shape[] = {0, 5, 6};
    cluster_show(core, true);
    assert_int_equal(core_reserve(core, "p", cluster_node(core, 3), "600"), VERDICT_OK);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        cluster_set_levels(core, kind, SHAPES);
        const struct score_cache_counts before = score_cache_counts(cache);
        for (uint32_t i = 0; i < 2 * ARRAY_LEN(shape); i++)
            assert_right(core, cluster_shape(core, shape[i % ARRAY_LEN(shape)]));
        struct request *none = core_request(core, "100");
        none->n_wants = 0;
        for (uint32_t i = 0; i < 2; i++)
            assert_right(core, none);
        const struct score_cache_counts after = score_cache_counts(cache);
        assert_int_equal(after.made - before.made, (ARRAY_LEN(shape) + 1) * NODES);
        assert_int_equal(after.found - before.found, (ARRAY_LEN(shape) + 1) * NODES);
    }
}

/* Such judgements depend on no workload, and need no memory for what others expect of a node. */
CACHE_TEST(score_cache__of_numbers_knows_no_workload)
{
    const size_t empty = score_cache_counts(cache).bytes;
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_BINPACK, SHAPES);
    assert_right(core, cluster_shape(core, 0));
    const size_t once = score_cache_counts(cache).bytes - empty;
    cluster_set_policy(core, POLICY_BINPACK, 3);
    assert_right(core, cluster_shape(core, 0));
    assert_int_equal(score_cache_counts(cache).made, NODES);
    assert_int_equal(score_cache_counts(cache).found, NODES);
    assert_int_equal(score_cache_counts(cache).bytes, empty + once);
    assert_true(once < (size_t)64 * BOOK_NODES && empty < 64 * 1024);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    assert_right(core, cluster_shape(core, 0));
    assert_true(score_cache_counts(cache).bytes > empty + once);
    cluster_set_policy(core, POLICY_BINPACK, SHAPES);
    assert_right(core, cluster_shape(core, 0));
    assert_int_equal(score_cache_counts(cache).bytes, empty + once);
    assert_int_equal(score_cache_counts(cache).made, 3 * NODES);
    /* A context without a workload comes after one that knows the losses of one. */
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    assert_right(core, cluster_shape(core, 0));
    struct policy_context *context = policy_context_new(POLICY_BINPACK, SEED, NULL);
    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    assert_right(core, cluster_shape(core, 0));
    assert_int_equal(score_cache_counts(cache).made, 5 * NODES);
}

/* A Node object that the ledger does not know, in the question itself. */
CACHE_TEST(score_cache__scores_an_unknown_node_each_time)
{
    const struct core_gpu gpu = {.index = 0, .mib = 16000};
    struct node *node = node_from_inventory(core_inventory(core, "new", "uid", &gpu, 1), NULL,
                                            ledger_names(core->ledger));
    const struct node *nodes[NODES + 1] = {[NODES] = node};
    struct asked asked;
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), NULL);
    asked.name[NODES] = TEXT("new");
    asked.question.n_names++;
    asked.question.node = nodes;
    asked.question.cache = cache;
    for (uint32_t turn = 0; turn < 2; turn++) {
        filter_ask(&asked.question, &asked.arena, &asked.answer);
        assert_int_equal(asked.answer.cause[NODES].why, REASON_NONE);
        assert_int_equal(score_cache_counts(cache).made, NODES + 1 + turn);
    }
    node_unref(node);
    cluster_ask_done(&asked);
}

/*
 * The names of such a node end with the question, and names of the next question may get the same
 * address: here the model at one address is another one from the second question on.
 */
CACHE_TEST(score_cache__keeps_nothing_of_an_unknown_node)
{
    struct names *names = names_new();
    const struct core_gpu gpu = {.index = 0, .mib = 16000};
    struct inventory *inventory = core_inventory(core, "new", "uid", &gpu, 1);
    struct asked asked;
    struct filter_answer fresh;
    struct workload_class class;
    cluster_show(core, false);
    assert_int_equal(core_reserve(core, "full", cluster_node(core, 0), "1000"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "full too", cluster_node(core, 4), "1000"), VERDICT_OK);
    workload_class_of(cluster_shape(core, 3), &class); /* 1000 milli, not of a T4 */
    class.count = 1;
    struct workload *workload = workload_new(&class, 1);
    struct policy_context *context = policy_context_new(POLICY_ROLLOUT, SEED, workload);
    ledger_set_policy_context(core->ledger, context);
    inventory->gpu[0].model = "T4";
    struct node *node = node_from_inventory(inventory, NULL, names);
    const struct node *nodes[3] = {node};
    cluster_ask(&asked, core, cluster_shape(core, 0), NULL);
    asked.name[0] = TEXT("new");
    asked.name[1] = text_of(cluster_node(core, 0));
    asked.name[2] = text_of(cluster_node(core, 4)); /* full, too, and judged in the second turn */
    asked.question.n_names = 2;
    asked.question.node = nodes;
    asked.question.cache = cache;
    filter_ask(&asked.question, &asked.arena, &asked.answer);
    char *model_text = (char *)(uintptr_t)names_find(names, TEXT("T4"))->text;
    memcpy(model_text, "A1", 2);
    asked.question.n_names = 3;
    filter_ask(&asked.question, &asked.arena, &asked.answer);
    asked.question.cache = NULL;
    filter_ask(&asked.question, &asked.arena, &fresh);
    assert_int_equal(asked.answer.n_candidates, 1);
    assert_ptr_equal(asked.answer.candidate[0].node, node);
    assert_int_equal(asked.answer.candidate[0].rank.key[0], fresh.candidate[0].rank.key[0]);
    policy_context_unref(context);
    workload_unref(workload);
    node_unref(node);
    names_free(names);
    cluster_ask_done(&asked);
}

/* Recalled for many nodes at once, judgements are as in the ranks, or not known. */
static void recall_under(struct core_fixture *core, enum policy_kind kind)
{
    const struct node *node[NODES + 3] = {NULL};
    uint32_t slot[NODES + 3];
    uint32_t hash[NODES + 3];
    struct policy_brief brief[NODES + 3];
    struct asked asked;
    struct plan plan;
    uint32_t refused = 0;
    cluster_set_levels(core, kind, SHAPES);
    const struct request *request = cluster_shape(core, 4);
    cluster_ask(&asked, core, request, cache);
    const uint64_t found = score_cache_counts(cache).found;
    for (uint32_t i = 0; i < NODES; i++)
        hash[i] = text_hash(asked.name[i]);
    snapshot_nodes(asked.snapshot, NODES, asked.name, hash, node, slot);
    slot[NODES] = slot[0]; /* without a node */
    node[NODES + 1] = node[0];
    slot[NODES + 1] = slot[1]; /* another node's */
    node[NODES + 2] = node[0];
    slot[NODES + 2] = SNAPSHOT_NO_SLOT;
    plan_init(&plan, request, asked.snapshot->context);
    memset(brief, 1, sizeof brief);
    policy_recall(cache, &plan, NODES + 3, node, slot, brief);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_true(brief[i].known);
        assert_int_equal(brief[i].why, asked.answer.cause[i].why);
        refused += brief[i].why != REASON_NONE;
    }
    for (uint32_t i = 0; i < asked.answer.n_candidates; i++) {
        const struct rank *rank = &asked.answer.candidate[i].rank;
        const struct policy_brief *of = &brief[asked.answer.candidate[i].name];
        const struct order_head head = order_head_of(rank);
        assert_int_equal(of->order, rank->order);
        assert_int_equal(of->work, rank->work);
        assert_int_equal(of->head.level, head.level);
        assert_int_equal(of->head.key, head.key);
        assert_int_equal(of->head.rest, head.rest);
    }
    assert_true(refused > 0 && refused < NODES);
    for (uint32_t i = NODES; i < NODES + 3; i++)
        assert_false(brief[i].known);
    policy_recall(NULL, &plan, NODES, node, slot, brief);
    assert_false(brief[0].known);
    assert_int_equal(score_cache_counts(cache).found, found); /* not counted yet */
    policy_recalled(cache, 7);
    policy_recalled(cache, 1);
    policy_recalled(NULL, 0);
    assert_int_equal(score_cache_counts(cache).found, found + 8);
    cluster_ask_done(&asked);
}

CACHE_TEST(policy_recall__agrees_with_the_ranks)
{
    cluster_show(core, true);
    assert_int_equal(core_reserve(core, "p", cluster_node(core, 5), "300"), VERDICT_OK);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++)
        recall_under(core, kind);
}

/* filter asks no more about such a node, but policy_score() says the same of it. */
CACHE_TEST(policy_score__finds_a_refusal)
{
    const struct core_gpu gpu = {.index = 0, .mib = 16000};
    const struct request *request = core_request(core, "500");
    struct plan plan;
    struct rank rank;
    assert_int_equal(core_node(core, "n", &gpu, 1), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "600"), VERDICT_OK);
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    const struct policy_question question = {
        .context = snapshot->context, .cache = cache, .node = snapshot_node(snapshot, TEXT("n"))};
    for (uint32_t turn = 0; turn < 3; turn++) {
        policy_begin(cache, snapshot, request);
        plan_init(&plan, request, snapshot->context);
        assert_int_equal(policy_score(&question, &plan, &rank), REASON_ROOM);
        assert_int_equal(score_cache_counts(cache).made, 1);
        assert_int_equal(score_cache_counts(cache).found, turn);
    }
    snapshot_unref(snapshot);
}

/*
 * Scores of remaining room
 */

/* The same idle GPU for the same work, from the cache or not. */
static void assert_idle(const struct workload *workload, const struct remaining *remaining)
{
    uint64_t work[] = {1, 1};
    assert_int_equal(score_cache_idle(cache, workload, remaining, &work[0]),
                     rollout_idle(workload, remaining, &work[1]));
    assert_int_equal(work[0], work[1]);
}

static void note_idle(const struct workload *workload, const struct remaining *remaining,
                      bool found)
{
    const struct score_cache_counts before = score_cache_counts(cache);
    assert_idle(workload, remaining);
    const struct score_cache_counts after = score_cache_counts(cache);
    assert_int_equal(after.idle_found - before.idle_found, found);
    assert_int_equal(after.idle_made - before.idle_made, !found);
}

CACHE_TEST(score_cache_idle__rolls_equal_room_out_once)
{
    struct asked asked;
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), cache);
    const struct workload *workload = asked.snapshot->context->workload;
    /* Each row differs from all before it, except in the order of its GPUs. */
    static const struct {
        struct host host;
        uint32_t gpus;
        uint16_t free_milli[3];
        uint8_t kind; /* of all */
    } row[] = {
        {{8000, 900}, 3, {300, 1000, 200}, 0},
        {{8000, 900}, 3, {1000, 200, 300}, 0}, /* in another order */
        {{8000, 900}, 3, {300, 1000, 200}, 1},
        {{7000, 900}, 3, {300, 1000, 200}, 1},
        {{7000, 800}, 3, {300, 1000, 200}, 1},
        {{7000, 800}, 3, {299, 1000, 200}, 1},
        {{7000, 800}, 3, {299, 1000, 0}, 1}, /* a GPU without free milli is not one GPU less */
        {{7000, 800}, 2, {299, 1000, 0}, 1},
        {{7000, 800}, 1, {299, 1000, 0}, 1},
        {{7000, 800}, 0, {299, 1000, 0}, 1},
        {{0, 0}, 0, {299, 1000, 0}, 1},
    };
    struct remaining remaining = {.total_milli = 3000, .kinds = score_cache_kinds(cache)->kind};
    for (uint32_t i = 0; i < ARRAY_LEN(row); i++) {
        remaining.host = row[i].host;
        remaining.n_gpus = row[i].gpus;
        remaining.free_milli = 0;
        for (uint32_t g = 0; g < 3; g++) {
            remaining.free[g] = row[i].free_milli[g];
            /* the kinds beyond the GPUs say nothing */
            remaining.kind[g] = g < row[i].gpus ? row[i].kind : (uint8_t)(row[i].kind + 1);
            remaining.free_milli += g < row[i].gpus ? row[i].free_milli[g] : 0;
        }
        note_idle(workload, &remaining, i == 1);
        note_idle(workload, &remaining, true);
    }
    cluster_ask_done(&asked);
}

/* Rooms of one GPU, of which no two are equal. */
static void note_idle_rooms(const struct workload *workload, uint32_t first, uint32_t end,
                            bool found)
{
    struct remaining remaining = {.total_milli = 1000,
                                  .n_gpus = 1,
                                  .free_milli = 299,
                                  .free = {299},
                                  .host = {.memory_mib = 900},
                                  .kinds = score_cache_kinds(cache)->kind};
    for (uint32_t i = first; i < end; i++) {
        remaining.host.cpu_milli = 10 * (i + 1);
        note_idle(workload, &remaining, found);
    }
}

/* The table begins small, forgets nothing while it grows, and is cleared at its largest size. */
CACHE_TEST(score_cache_idle__takes_memory_for_what_is_kept)
{
    enum { FIRST = 1 << 10, LARGEST = 1 << 16, ENTRY_BYTES = 52 };
    struct asked asked;
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), cache);
    const struct workload *workload = asked.snapshot->context->workload;
    const size_t before = score_cache_counts(cache).bytes;
    assert_true(before < 200 * 1024);
    note_idle_rooms(workload, 0, FIRST, false);
    note_idle_rooms(workload, 0, FIRST, true);
    assert_int_equal(score_cache_counts(cache).bytes, before + 3 * FIRST * ENTRY_BYTES);
    note_idle_rooms(workload, FIRST, LARGEST / 2 - FIRST, false);
    note_idle_rooms(workload, 0, LARGEST / 2 - FIRST, true);
    assert_int_equal(score_cache_counts(cache).bytes, before + (LARGEST - FIRST) * ENTRY_BYTES);
    note_idle_rooms(workload, LARGEST / 2 - FIRST, LARGEST / 2 + 1, false);
    assert_int_equal(score_cache_counts(cache).bytes, before);
    note_idle_rooms(workload, LARGEST / 2, LARGEST / 2 + 1, true);
    note_idle_rooms(workload, 0, 1, false);
    cluster_ask_done(&asked);
}

CACHE_TEST(score_cache_idle__skips_large_and_mixed_room)
{
    struct asked asked;
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), cache);
    const struct workload *workload = asked.snapshot->context->workload;
    struct remaining remaining = {
        .host = {8000, 900}, .n_gpus = 16, .kinds = score_cache_kinds(cache)->kind};
    remaining.free_milli = remaining.total_milli = 1600;
    for (uint32_t i = 0; i < 17; i++)
        remaining.free[i] = 100;
    note_idle(workload, &remaining, false);
    note_idle(workload, &remaining, true);
    const struct score_cache_counts before = score_cache_counts(cache);
    remaining.kind[15] = 1;
    assert_idle(workload, &remaining);
    remaining.kind[15] = 0;
    remaining.n_gpus = 17;
    remaining.free_milli = remaining.total_milli = 1700;
    assert_idle(workload, &remaining);
    assert_int_equal(score_cache_counts(cache).idle_found, before.idle_found);
    assert_int_equal(score_cache_counts(cache).idle_made, before.idle_made);
    cluster_ask_done(&asked);
}

/*
 * More than there is room for
 */

/* Nodes of 1 to 24 GPUs, and classes of 2 to 33: each takes other places from each. */
CACHE_TEST(score_cache__survives_too_many_losses)
{
    struct workload_class class[32];
    struct core_gpu gpu[2 * NODES];
    for (uint32_t i = 0; i < ARRAY_LEN(gpu); i++)
        gpu[i] = (struct core_gpu){.index = i};
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(core_node(core, cluster_node(core, i), gpu, NODES + i), VERDICT_OK);
    for (uint32_t i = 0; i < ARRAY_LEN(class); i++)
        class[i] = (struct workload_class){.parts = 2 + i, .milli = GPU_MILLI, .count = 40 - i};
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    struct policy_context *context = policy_context_new(POLICY_ROLLOUT, 0, workload);
    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t parts = 1; parts <= NODES; parts += 2) {
            struct request *request = core_request(core, "1000");
            request->want[0].parts = parts;
            assert_right(core, request);
        }
    /* A full table is emptied again and again, and keeps the next scores. */
    const struct score_cache_counts counts = score_cache_counts(cache);
    assert_int_equal(counts.found + counts.made, NODES * NODES);
    assert_true(counts.made > NODES * NODES / 2);
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct request *request = core_request(core, "1000");
        request->want[0].parts = NODES - 1;
        (void)ask_once(core, request);
    }
    assert_true(score_cache_counts(cache).found >= counts.found + NODES);
}

/* taken: NULL, or shares that the node lacks. */
static void score_node(const struct snapshot *snapshot, struct score_cache *in,
                       const struct node *node, const struct request *request,
                       const struct taken *taken, struct rank *out)
{
    const struct policy_question question = {
        .context = snapshot->context, .cache = in, .node = node};
    struct plan plan;
    policy_begin(in, snapshot, request);
    plan_init(&plan, request, snapshot->context);
    assert_int_equal(taken == NULL ? policy_score(&question, &plan, out)
                                   : policy_score_beside(&question, &plan, taken, out),
                     REASON_NONE);
}

/*
 * Serials of a node's objects are short: the 65,535th object after the first one has its serial.
 * The requests in question are not asked for in between.
 */
CACHE_TEST(score_cache__is_not_fooled_by_a_repeated_serial)
{
    const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}, {.index = 1, .mib = 16000}};
    const struct request *request[] = {core_request(core, "300"), core_request(core, "500"),
                                       core_request(core, "200")};
    const struct node *object[2];
    static const struct taken taken = {.count = 1, .milli = {350}};
    struct rank first[ARRAY_LEN(request)];
    struct rank beside;
    struct rank last;
    struct rank alone;
    assert_int_equal(core_node(core, "n", gpu, 2), VERDICT_OK);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    object[0] = node_ref(ledger_node(core->ledger, TEXT("n")));
    assert_int_equal(core_reserve(core, "p", "n", "600"), VERDICT_OK);
    object[1] = node_ref(ledger_node(core->ledger, TEXT("n")));
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    for (uint32_t r = 0; r < ARRAY_LEN(request); r++)
        score_node(snapshot, cache, object[0], request[r], NULL, &first[r]);
    score_node(snapshot, cache, object[0], request[0], &taken, &beside);
    for (uint32_t i = 1; i <= UINT16_MAX; i++)
        score_node(snapshot, cache, object[i % 2], request[1], NULL, &last);
    assert_int_equal(score_cache_counts(cache).found, 0);
    for (uint32_t r = 0; r < ARRAY_LEN(request); r++) {
        score_node(snapshot, cache, object[1], request[r], NULL, &last);
        score_node(snapshot, NULL, object[1], request[r], NULL, &alone);
        assert_memory_equal(last.key, alone.key, sizeof last.key);
        assert_memory_not_equal(last.key, first[r].key, sizeof last.key);
    }
    assert_int_equal(score_cache_counts(cache).found, 1);
    score_node(snapshot, cache, object[1], request[0], &taken, &last);
    score_node(snapshot, NULL, object[1], request[0], &taken, &alone);
    assert_memory_equal(last.key, alone.key, sizeof last.key);
    assert_memory_not_equal(last.key, beside.key, sizeof last.key);
    assert_int_equal(score_cache_counts(cache).found, 1);
    snapshot_unref(snapshot);
    node_unref(object[0]);
    node_unref(object[1]);
}

/* A question with and without the cache; the answers are the same, and fit on each node. */
static void ask_both(struct core_fixture *core, struct filter_question *question,
                     struct filter_answer *out)
{
    struct filter_answer without;

    question->cache = NULL;
    filter_ask(question, &core->arena, &without);
    question->cache = cache;
    filter_ask(question, &core->arena, out);
    assert_same_answers(out, &without);
    assert_int_equal(out->n_candidates, question->n_names);
}

/*
 * Scores beside offers
 */

enum { APART = 64, MANY = 2 * APART }; /* nodes so many places apart displace each other */

struct beside {
    const struct snapshot *snapshot;
    struct text name[MANY];
    struct offer offer[4];
    struct filter_question question;
};

static void beside_look(struct beside *beside, struct core_fixture *core)
{
    snapshot_unref(beside->snapshot);
    beside->snapshot = beside->question.snapshot = ledger_publish(core->ledger, NULL, 0);
}

/* Empty nodes, and a question about all of them. */
static void beside_start(struct beside *beside, struct core_fixture *core)
{
    *beside = (struct beside){.snapshot = NULL};
    for (uint32_t i = 0; i < MANY; i++) {
        cluster_show_node(core, i, GPUS, 0);
        beside->name[i] = text_of(cluster_node(core, i));
    }
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    beside->question = (struct filter_question){.request = core_request(core, "300"),
                                                .n_names = MANY,
                                                .name = beside->name,
                                                .offer = beside->offer};
    beside_look(beside, core);
}

static void beside_offer(struct beside *beside, uint32_t name, uint32_t gpu, uint32_t milli)
{
    const struct node *node = snapshot_node(beside->snapshot, beside->name[name]);
    beside->offer[beside->question.n_offers++] =
        (struct offer){.node = node->name, .gpu = node->gpu[gpu].id, .milli = milli};
}

/* Asks, and returns how many nodes were scored for it. */
static uint64_t beside_scored(struct beside *beside, struct core_fixture *core)
{
    const uint64_t before = score_cache_counts(cache).made;
    struct filter_answer answer;
    ask_both(core, &beside->question, &answer);
    return score_cache_counts(cache).made - before;
}

CACHE_TEST(score_cache__remembers_nodes_beside_their_offers)
{
    struct beside beside;
    beside_start(&beside, core);
    assert_int_equal(beside_scored(&beside, core), MANY);
    beside_offer(&beside, 3, 0, 1000);
    beside_offer(&beside, 3, 1, 1000);
    beside_offer(&beside, 5, 1, 400);
    assert_int_equal(beside_scored(&beside, core), 2);
    assert_int_equal(beside_scored(&beside, core), 0);
    /* The order of offers does not matter; whose GPU and how much does. */
    const struct offer first = beside.offer[0];
    beside.offer[0] = beside.offer[1];
    beside.offer[1] = first;
    assert_int_equal(beside_scored(&beside, core), 0);
    beside.offer[2].milli = 401;
    assert_int_equal(beside_scored(&beside, core), 1);
    beside.offer[0].gpu = beside.offer[1].gpu;
    assert_int_equal(beside_scored(&beside, core), 1);
    /* Another request has scores of its own, and the first one keeps its. */
    beside.question.request = core_request(core, "500");
    assert_int_equal(beside_scored(&beside, core), MANY + 2);
    beside.question.request = core_request(core, "300");
    assert_int_equal(beside_scored(&beside, core), 0);
    snapshot_unref(beside.snapshot);
}

CACHE_TEST(score_cache__scores_a_node_beside_offers_again_when_it_changed)
{
    struct beside beside;
    beside_start(&beside, core);
    beside_offer(&beside, 3, 0, 200);
    beside_offer(&beside, 4, 0, 200);
    assert_int_equal(beside_scored(&beside, core), MANY + 2);
    assert_int_equal(core_reserve(core, "p", cluster_node(core, 3), "600"), VERDICT_OK);
    beside_look(&beside, core);
    assert_int_equal(beside_scored(&beside, core), 2);
    assert_int_equal(beside_scored(&beside, core), 0);
    snapshot_unref(beside.snapshot);
}

CACHE_TEST(score_cache__keeps_one_of_two_nodes_in_the_same_place_beside_offers)
{
    struct beside beside;
    beside_start(&beside, core);
    assert_int_equal(core_reserve(core, "p", cluster_node(core, 3), "600"), VERDICT_OK);
    beside_look(&beside, core);
    assert_int_equal(beside_scored(&beside, core), MANY);
    beside_offer(&beside, 3, 0, 200);
    beside_offer(&beside, 3 + APART, 0, 200);
    for (uint32_t turn = 0; turn < 3; turn++)
        assert_int_equal(beside_scored(&beside, core), 2);
    beside.offer[1] = beside.offer[0];
    beside_offer(&beside, 4 + APART, 0, 200);
    assert_int_equal(beside_scored(&beside, core), 2);
    assert_int_equal(beside_scored(&beside, core), 0);
    snapshot_unref(beside.snapshot);
}

/* As many other requests as are remembered. */
static void displace_requests(const struct beside *beside, struct core_fixture *core)
{
    for (uint32_t i = 0; i < 256; i++)
        policy_begin(cache, beside->snapshot,
                     core_request(core, arena_printf(&core->arena, "%u", 400 + i)));
}

/* So many other requests that the one with offers is displaced, and its memory is freed. */
CACHE_TEST(score_cache__forgets_nodes_beside_offers_with_their_request)
{
    struct beside beside;
    beside_start(&beside, core);
    displace_requests(&beside, core);
    assert_int_equal(beside_scored(&beside, core), MANY);
    const size_t without = score_cache_counts(cache).bytes;
    beside_offer(&beside, 3, 0, 200);
    assert_int_equal(beside_scored(&beside, core), 1);
    const size_t with = score_cache_counts(cache).bytes;
    assert_true(with > without + APART * sizeof(struct taken) && with < without + 8192);
    assert_int_equal(beside_scored(&beside, core), 0);
    displace_requests(&beside, core);
    assert_int_equal(score_cache_counts(cache).bytes, without);
    assert_int_equal(beside_scored(&beside, core), MANY + 1);
    snapshot_unref(beside.snapshot);
}

/*
 * 300 nodes of one GPU, each of which has less memory than the one before: a share of 50 milli is
 * raised to another one on each of them.
 */
CACHE_TEST(score_cache__survives_too_many_levels)
{
    enum { LEVELS = 300, FIT = 255 }; /* with one more the table is full */
    struct request *request = core_request(core, "50");
    struct text *name = arena_array(&core->arena, LEVELS, sizeof *name);
    struct filter_answer answer;
    request->memory_mib = 16000;
    for (uint32_t i = 0; i < LEVELS; i++) {
        const uint32_t least = 100 + i; /* milli that have the memory */
        const struct core_gpu gpu = {.index = 0, .mib = (16000 * GPU_MILLI + least - 1) / least};
        name[i] = text_of(cluster_node(core, i));
        core_show_quickly(core, name[i].at, &gpu, 1);
    }
    cluster_set_levels(core, POLICY_FGD, SHAPES);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    struct filter_question question = {
        .snapshot = snapshot, .request = request, .n_names = LEVELS, .name = name};
    for (uint32_t turn = 0; turn < 4; turn++) {
        if (turn == 2) { /* now without the first nodes */
            question.n_names = FIT;
            question.name = &name[LEVELS - FIT];
        }
        ask_both(core, &question, &answer);
        for (uint32_t i = 0; i < answer.n_candidates; i++)
            assert_int_equal(answer.candidate[i].rank.raised_milli,
                             100 + LEVELS - question.n_names + answer.candidate[i].name);
        /* A full table is emptied as a whole, and then there is room for others. */
        assert_int_equal(score_cache_counts(cache).found, turn < 3 ? 0 : FIT);
    }
    assert_int_equal(score_cache_counts(cache).made, 2 * LEVELS + FIT);
    snapshot_unref(snapshot);
}

/* 300 nodes with GPUs of 300 kinds; pods of one class ask for memory. */
CACHE_TEST(score_cache__survives_too_many_gpu_kinds)
{
    enum { KINDS = 300 };
    struct workload_class class[2] = {{.parts = 1, .milli = 700, .share_mib = 805, .count = 1},
                                      {.parts = 1, .milli = 150, .count = 1}};
    struct text *name = arena_array(&core->arena, KINDS, sizeof *name);
    struct workload *workload = workload_new(class, 2);
    struct policy_context *context = policy_context_new(POLICY_ROLLOUT, 0, workload);
    struct filter_answer answer;
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct core_gpu gpu = {.index = 0, .mib = 1000 + (i * 7919) % KINDS};
        name[i] = text_of(cluster_node(core, i));
        core_show_quickly(core, name[i].at, &gpu, 1);
    }
    ledger_set_policy_context(core->ledger, context);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    struct filter_question question = {.snapshot = snapshot, .n_names = KINDS, .name = name};
    for (uint32_t milli = 100; milli < 500; milli += 100) {
        question.request = core_request(core, arena_printf(&core->arena, "%u", milli));
        ask_both(core, &question, &answer);
    }
    snapshot_unref(snapshot);
    policy_context_unref(context);
    workload_unref(workload);
}

/* More requests than are remembered, and a cluster that grows. */
CACHE_TEST(score_cache__evicts_the_oldest_request)
{
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t i = 1; i <= 257; i++)
            (void)ask_once(core, core_request(core, arena_printf(&core->arena, "%u", i)));
    assert_int_equal(score_cache_counts(cache).found, 0);
    for (uint32_t i = 257; i > 2; i--) {
        (void)ask_once(core, core_request(core, arena_printf(&core->arena, "%u", i)));
        assert_int_equal(score_cache_counts(cache).found, (258 - i) * NODES);
    }
    const size_t bytes = score_cache_counts(cache).bytes;
    for (uint32_t i = NODES; i < BOOK_NODES + 1; i++)
        cluster_show_node(core, i, 1, 0);
    (void)ask_once(core, cluster_shape(core, 0)); /* one request, for twice as many places */
    assert_true(score_cache_counts(cache).bytes < bytes);
    score_cache_free(NULL);
}

CACHE_TEST(score_cache__stays_within_its_memory_limit)
{
    const size_t empty = score_cache_counts(cache).bytes;
    size_t bytes[3];
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    struct snapshot snapshot = {.context = ledger_policy_context(core->ledger),
                                .slots = BOOK_NODES};
    assert_true(empty < 200 << 10);
    for (uint32_t i = 0; i < 2; i++) {
        policy_begin(cache, &snapshot, cluster_shape(core, i));
        bytes[i] = score_cache_counts(cache).bytes;
    }
    const size_t entries = bytes[1] - bytes[0]; /* of one request */
    const size_t nodes = bytes[0] - empty - entries;
    assert_true(entries >= BOOK_NODES * sizeof(uint64_t));
    assert_true(nodes >= BOOK_NODES * sizeof(void *) && nodes < (size_t)64 * BOOK_NODES);
    const size_t most = SCORE_CACHE_BYTES_MAX - (8 << 20);
    for (uint32_t books = 16; books <= 64; books += 48) {
        snapshot.slots = books * BOOK_NODES;
        const size_t fit = (most - books * nodes) / (books * entries);
        assert_true(fit > 8 && fit < 256);
        for (uint32_t i = 1; i <= fit + 8; i++) {
            policy_begin(cache, &snapshot, core_request(core, arena_printf(&core->arena, "%u", i)));
            const size_t kept = i < fit ? i : fit;
            bytes[2] = empty + books * (nodes + kept * entries);
            assert_int_equal(score_cache_counts(cache).bytes, bytes[2]);
        }
    }
}
