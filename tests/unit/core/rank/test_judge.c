/* What a judge remembers of nodes and of what they have left, and forgets where a table is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"

#include "core/ledger/ledger_internal.h"
#include "core/rank/judge.h"
#include "support/core_fixture.h"
#include "support/policy_fixture.h"

/*
 * What is remembered of nodes
 */

static void other_prices(struct core_fixture *core, int64_t price)
{
    const struct outlook *former = core->ledger->outlook;
    struct outlook *outlook = outlook_new(former->kind, former->seed, former->workload);
    for (uint32_t i = 0; i < outlook->workload->scarces; i++)
        outlook->price[i] = price * (i + 1);
    outlook_unref(former);
    core->ledger->outlook = outlook;
}

/* The answer is that of one who remembers nothing. */
static void assert_right(struct core_fixture *core, struct judge *judge,
                         const struct request *request)
{
    struct asked with;
    struct asked without;
    cluster_ask(&with, core, request, judge);
    cluster_ask(&without, core, request, NULL);
    assert_same_answers(&with.answer, &without.answer);
    cluster_ask_done(&with);
    cluster_ask_done(&without);
}

/* What is remembered holds for all nodes, and the answer is the right one. */
static void assert_remembered(struct core_fixture *core, struct judge *judge, const char *wanted)
{
    const struct judge_counts before = judge_counts(judge);
    assert_right(core, judge, core_request(core, wanted));
    assert_int_equal(judge_counts(judge).made, before.made);
    assert_int_equal(judge_counts(judge).found, before.found + NODES);
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
        struct judge *judge = judge_new();
        cluster_ask(&first, core, core_request(core, wanted[i]), judge);
        assert_int_equal(judge_counts(judge).made, NODES);
        assert_int_equal(first.answer.candidate[0].rank.judged, i == 0 ? 3 : 1);
        cluster_ask_done(&first);
        assert_remembered(core, judge, wanted[i]);
        /* Other prices are another outlook; what is remembered holds. */
        other_prices(core, 1234);
        assert_remembered(core, judge, wanted[i]);
        other_prices(core, 0);
        assert_remembered(core, judge, wanted[i]);
        judge_free(judge);
    }
}

static void what_is_refused_is_remembered_too(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct asked asked;
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    for (uint32_t turn = 0; turn < 2; turn++) {
        cluster_ask(&asked, core, cluster_shape(core, 5),
                    judge); /* 4 GPUs: a quarter of the nodes */
        assert_int_equal(asked.answer.candidates, NODES / GPUS);
        cluster_ask_done(&asked);
    }
    assert_int_equal(judge_counts(judge).made, NODES);
    assert_int_equal(judge_counts(judge).found, NODES);
    judge_free(judge);
}

static void another_order_of_nodes_is_another_answer(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct workload *workload = cluster_workload(core, SHAPES);
    cluster_show(core, false);
    static const struct {
        enum policy_kind kind;
        uint32_t seed;
    } order[] = {{POLICY_FGD, 0}, {POLICY_FGD, 1}, {POLICY_ROLLOUT, 1}, {POLICY_FGD, 1}};
    for (uint32_t i = 0; i < ARRAY_LEN(order); i++) {
        for (uint32_t turn = 0; turn < 2; turn++) {
            struct outlook *outlook = outlook_new(order[i].kind, order[i].seed, workload);
            ledger_set_outlook(core->ledger, outlook); /* another object, which says the same */
            outlook_unref(outlook);
            assert_right(core, judge, cluster_shape(core, 3));
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
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), judge); /* before there is any node */
    assert_int_equal(asked.answer.verdict, FILTER_NONE);
    cluster_ask_done(&asked);
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_SPREAD, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), judge);
    cluster_ask_done(&asked);
    ledger_set_outlook(core->ledger, NULL);
    cluster_ask(&asked, core, cluster_shape(core, 0), judge);
    assert_int_equal(asked.answer.candidates, NODES);
    cluster_ask_done(&asked);
    assert_int_equal(judge_counts(judge).made, 0);
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 8),
                judge); /* several containers are judged, not remembered */
    cluster_ask_done(&asked);
    cluster_ask(&asked, core, cluster_shape(core, 8), judge);
    cluster_ask_done(&asked);
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
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), NULL);
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
    cluster_ask_done(&asked);
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
    cluster_show(core, false);
    assert_int_equal(core_reserve(core, "full", cluster_node(core, 0), "1000"), VERDICT_OK);
    workload_class_of(cluster_shape(core, 3), &class); /* 1000 milli, not of a T4 */
    class.count = 1;
    struct workload *workload = workload_new(&class, 1);
    struct outlook *outlook = outlook_new(POLICY_ROLLOUT, SEED, workload);
    ledger_set_outlook(core->ledger, outlook);
    inventory->gpu[0].model = "T4";
    struct node *node = node_from_inventory(inventory, NULL, names);
    const struct node *nodes[2] = {node, NULL};
    cluster_ask(&asked, core, cluster_shape(core, 0), NULL);
    asked.name[0] = TEXT("new");
    asked.name[1] = text_of(cluster_node(core, 0));
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
    cluster_ask_done(&asked);
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
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), judge);
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
    cluster_ask_done(&asked);
    judge_free(judge);
}

static void large_and_mixed_rests_are_not_remembered(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct asked asked;
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    cluster_ask(&asked, core, cluster_shape(core, 0), judge);
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
    cluster_ask_done(&asked);
    judge_free(judge);
}

/*
 * More than there is room for
 */

/* Nodes of 1 to 24 GPUs, and classes of 2 to 33: each takes other places from each. */
static void more_losses_than_are_remembered_change_nothing(void **state)
{
    struct core_fixture *core = *state;
    struct workload_class class[32];
    struct core_gpu gpu[2 * NODES];
    struct judge *judge = judge_new();
    struct asked with;
    for (uint32_t i = 0; i < ARRAY_LEN(gpu); i++)
        gpu[i] = (struct core_gpu){.index = i};
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(core_node(core, cluster_node(core, i), gpu, NODES + i), VERDICT_OK);
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
            assert_right(core, judge, request);
        }
    /* What was full was forgotten, again and again; each time what came next was remembered. */
    const struct judge_counts counts = judge_counts(judge);
    assert_int_equal(counts.found + counts.made, NODES * NODES);
    assert_true(counts.made > NODES * NODES / 2);
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct request *request = core_request(core, "1000");
        request->want[0].parts = NODES - 1;
        cluster_ask(&with, core, request, judge);
        cluster_ask_done(&with);
    }
    assert_true(judge_counts(judge).found >= counts.found + NODES);
    judge_free(judge);
}

static void judge_node(const struct snapshot *snapshot, struct judge *judge,
                       const struct node *node, const struct request *request, struct rank *out)
{
    const struct policy_question question = {
        .outlook = snapshot->outlook, .judge = judge, .node = node};
    struct plan plan;
    policy_begin(judge, snapshot, request);
    plan_init(&plan, request, snapshot->outlook);
    assert_int_equal(policy_judge(&question, &plan, out), REASON_NONE);
}

/*
 * Serials of a node's objects are short: the 65,535th object after the first one has its serial.
 * Between the two nobody asks about the requests that are asked about then.
 */
static void an_object_with_the_serial_of_a_former_one_is_not_taken_for_it(void **state)
{
    struct core_fixture *core = *state;
    const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}, {.index = 1, .mib = 16000}};
    const struct request *request[] = {core_request(core, "300"), core_request(core, "500"),
                                       core_request(core, "200")};
    struct judge *judge = judge_new();
    const struct node *object[2];
    struct rank first[ARRAY_LEN(request)];
    struct rank last;
    struct rank alone;
    assert_int_equal(core_node(core, "n", gpu, 2), VERDICT_OK);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    object[0] = node_ref(ledger_node(core->ledger, TEXT("n")));
    assert_int_equal(core_reserve(core, "p", "n", "600"), VERDICT_OK);
    object[1] = node_ref(ledger_node(core->ledger, TEXT("n")));
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    for (uint32_t r = 0; r < ARRAY_LEN(request); r++)
        judge_node(snapshot, judge, object[0], request[r], &first[r]);
    for (uint32_t i = 1; i <= UINT16_MAX; i++)
        judge_node(snapshot, judge, object[i % 2], request[1], &last);
    assert_int_equal(judge_counts(judge).found, 0);
    for (uint32_t r = 0; r < ARRAY_LEN(request); r++) {
        judge_node(snapshot, judge, object[1], request[r], &last);
        judge_node(snapshot, NULL, object[1], request[r], &alone);
        assert_memory_equal(last.key, alone.key, sizeof last.key);
        assert_memory_not_equal(last.key, first[r].key, sizeof last.key);
    }
    assert_int_equal(judge_counts(judge).found, 1);
    snapshot_unref(snapshot);
    node_unref(object[0]);
    node_unref(object[1]);
    judge_free(judge);
}

/*
 * 300 nodes of one GPU, each of which has less memory than the one before: a share of 50 milli is
 * raised to another one on each of them.
 */
static void more_levels_than_a_judge_keeps_change_nothing(void **state)
{
    enum { LEVELS = 300, FIT = 255 }; /* with one more the table is full */
    struct core_fixture *core = *state;
    struct request *request = core_request(core, "50");
    struct text *name = arena_array(&core->arena, LEVELS, sizeof *name);
    struct judge *judge = judge_new();
    struct filter_answer with;
    struct filter_answer without;
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
        .snapshot = snapshot, .request = request, .names = LEVELS, .name = name};
    for (uint32_t turn = 0; turn < 4; turn++) {
        if (turn == 2) { /* now without the first nodes */
            question.names = FIT;
            question.name = &name[LEVELS - FIT];
        }
        question.judge = judge;
        filter_ask(&question, &core->arena, &with);
        question.judge = NULL;
        filter_ask(&question, &core->arena, &without);
        assert_same_answers(&with, &without);
        assert_int_equal(with.candidates, question.names);
        for (uint32_t i = 0; i < with.candidates; i++)
            assert_int_equal(with.candidate[i].rank.raised_milli,
                             100 + LEVELS - question.names + with.candidate[i].name);
        /* A full table is forgotten as a whole, and then there is room for others. */
        assert_int_equal(judge_counts(judge).found, turn < 3 ? 0 : FIT);
    }
    assert_int_equal(judge_counts(judge).made, 2 * LEVELS + FIT);
    snapshot_unref(snapshot);
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
        name[i] = text_of(cluster_node(core, i));
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

/* More requests than are remembered, and a cluster that grows. */
static void what_was_asked_longest_ago_is_forgotten(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    struct asked asked;
    cluster_show(core, false);
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t i = 1; i <= 257; i++) {
            cluster_ask(&asked, core, core_request(core, arena_printf(&core->arena, "%u", i)),
                        judge);
            cluster_ask_done(&asked);
        }
    assert_int_equal(judge_counts(judge).found, 0);
    for (uint32_t i = 257; i > 2; i--) {
        cluster_ask(&asked, core, core_request(core, arena_printf(&core->arena, "%u", i)), judge);
        cluster_ask_done(&asked);
        assert_int_equal(judge_counts(judge).found, (258 - i) * NODES);
    }
    const size_t bytes = judge_counts(judge).bytes;
    for (uint32_t i = NODES; i < BOOK_NODES + 1; i++)
        cluster_show_node(core, i, 1, 0);
    cluster_ask(&asked, core, cluster_shape(core, 0), judge);
    cluster_ask_done(&asked);
    assert_true(judge_counts(judge).bytes < bytes); /* one request, for twice as many places */
    judge_free(judge);
    judge_free(NULL);
}

static void a_judge_takes_no_more_memory_than_it_may(void **state)
{
    struct core_fixture *core = *state;
    struct judge *judge = judge_new();
    const size_t empty = judge_counts(judge).bytes;
    size_t bytes[3];
    cluster_set_policy(core, POLICY_FGD, SHAPES);
    struct snapshot snapshot = {.outlook = ledger_outlook(core->ledger), .slots = BOOK_NODES};
    assert_true(empty > 3 << 20 && empty < 8 << 20);
    for (uint32_t i = 0; i < 2; i++) {
        policy_begin(judge, &snapshot, cluster_shape(core, i));
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, core_set_up, core_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_nodes_of_a_question_are_remembered),
        TEST(what_is_refused_is_remembered_too),
        TEST(another_order_of_nodes_is_another_answer),
        TEST(a_judge_is_not_asked_by_policies_that_judge_no_nodes),
        TEST(an_unknown_node_is_judged_each_time),
        TEST(an_unknown_node_leaves_nothing_behind),
        TEST(equal_rests_are_rolled_out_once),
        TEST(large_and_mixed_rests_are_not_remembered),
        TEST(more_losses_than_are_remembered_change_nothing),
        TEST(more_levels_than_a_judge_keeps_change_nothing),
        TEST(an_object_with_the_serial_of_a_former_one_is_not_taken_for_it),
        TEST(more_kinds_of_gpus_than_are_known_at_once_change_nothing),
        TEST(what_was_asked_longest_ago_is_forgotten),
        TEST(a_judge_takes_no_more_memory_than_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
