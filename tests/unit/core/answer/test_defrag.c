/* Plans of moves: limits, and drawn clusters planned a second way; small ones: table/defrag.txt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/defrag.h"
#include "milligpu/core/rank/fragment.h"
#include "milligpu/core/rank/policy.h"

#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/plan_text.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/walk.h"

enum { PODS_MAX = 8192 };

static struct {
    const char *uid;
    const struct request *request;
} asking[PODS_MAX];
static uint32_t askings;

static const struct request *asks(void *user, const struct allocation *pod)
{
    (void)user;
    for (uint32_t i = 0; i < askings; i++)
        if (strcmp(asking[i].uid, pod->facts.uid) == 0)
            return asking[i].request;
    return NULL;
}

static int set_up(void **state)
{
    askings = 0;
    return core_set_up(state);
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct core_fixture *core, set_up, core_tear_down)

/* Under binpack, with a workload of pods of so many whole GPUs. */
static void learn(struct core_fixture *core, uint32_t parts)
{
    const struct workload_class class = {.parts = parts, .milli = 1000, .count = 1};
    struct workload *workload = workload_new(&class, 1);
    struct policy_context *context = policy_context_new(POLICY_BINPACK, 0, workload);

    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
}

static void show(struct core_fixture *core, const char *node, uint32_t gpus)
{
    struct core_gpu gpu[GPUS_PER_NODE_MAX] = {{0}};

    for (uint32_t i = 0; i < gpus; i++)
        gpu[i] = (struct core_gpu){.index = i, .mib = 40000};
    const struct command command = {.kind = COMMAND_NODE,
                                    .node = node,
                                    .inventory = core_inventory(core, node, node, gpu, gpus)};
    assert_int_equal(core_do_quickly(core, &command), VERDICT_OK);
}

static void bind_for(struct core_fixture *core, const char *uid, const char *node,
                     const struct request *request)
{
    assert_true(askings < PODS_MAX);
    asking[askings].uid = arena_copy(&core->arena, text_of(uid));
    asking[askings++].request = request;
    assert_int_equal(core_reserve_for(core, uid, node, request), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, uid), VERDICT_OK);
}

/* Reserved and confirmed, if there is room. */
static bool bind_quickly(struct core_fixture *core, const char *uid, const char *node,
                         const struct request *request)
{
    const struct command reserved = {.kind = COMMAND_RESERVE,
                                     .uid = uid,
                                     .namespace = "default",
                                     .name = "pod",
                                     .node = node,
                                     .request = request};
    const struct command confirmed = {.kind = COMMAND_CONFIRM, .uid = uid};

    if (core_do_quickly(core, &reserved) != VERDICT_OK)
        return false;
    assert_int_equal(core_do_quickly(core, &confirmed), VERDICT_OK);
    return true;
}

static void bind(struct core_fixture *core, const char *uid, const char *node, const char *words)
{
    bind_for(core, uid, node, core_request(core, words));
}

/* A node with one GPU, and a pod on it. */
static void show_used(struct core_fixture *core, const char *node, const char *uid, uint32_t milli)
{
    show(core, node, 1);
    bind(core, uid, node, arena_printf(&core->arena, "%u", milli));
}

struct planned {
    struct snapshot *snapshot;
    struct defrag_question question;
    struct defrag_plan *plan;
    struct strbuf text;
};

static void plan_init_for(struct planned *planned, struct core_fixture *core)
{
    *planned = (struct planned){.snapshot = ledger_publish(core->ledger, NULL, 0)};
    planned->question = (struct defrag_question){
        .snapshot = planned->snapshot,
        .moves = DEFRAG_MOVES_MAX,
        .min_gain_milli = 1,
        .steps = DEFRAG_STEPS_MAX,
        .request_of = asks,
    };
    strbuf_init(&planned->text);
}

static void make_plan(struct planned *planned)
{
    defrag_plan_free(planned->plan);
    planned->plan = defrag_plan_new(&planned->question);
    strbuf_reset(&planned->text);
    plan_text(&planned->text, planned->plan);
}

static void make_plan_of(struct planned *planned, struct core_fixture *core)
{
    plan_init_for(planned, core);
    make_plan(planned);
}

static void plan_done(struct planned *planned)
{
    defrag_plan_free(planned->plan);
    snapshot_unref(planned->snapshot);
    strbuf_done(&planned->text);
}

static void three_half_used(struct core_fixture *core)
{
    learn(core, 1);
    show_used(core, "n1", "a", 500);
    show_used(core, "n2", "b", 500);
    show_used(core, "n3", "c", 500);
}

/*
 * Three nodes are ranked; of each pod, its own node is judged and the best other one, which is n2
 * for the first and n1 for the others. The move, and two nodes again. Then the node of b is
 * another, to which it would go back, and c would go to n1, which is empty.
 */
FIXTURE_TEST(steps__count_ranks_candidates_and_moves)
{
    struct planned planned;

    three_half_used(core);
    show_used(core, "full", "d", 1000);
    make_plan_of(&planned, core);
    assert_int_equal(planned.plan->steps, 3 + 3 + 2 + (1 + 2) + 1 + 1);
    planned.question.min_gain_milli = 1001;
    make_plan(&planned);
    assert_int_equal(planned.plan->steps, 3 + 3 + 2);
    plan_done(&planned);
}

/* The host is asked first; and a request of several containers takes more steps. */
FIXTURE_TEST(steps__count_the_search_on_a_node)
{
    struct request *request = core_request(core, "150+100+50+100+120+180+70+30");
    struct planned planned;
    struct policy_question question = {.slot = SNAPSHOT_NO_SLOT};
    UNSET struct plan plan;
    struct rank rank;

    learn(core, 9);
    show(core, "n1", 8);
    bind_for(core, "a", "n1", request);
    plan_init_for(&planned, core);
    planned.question.steps = 2; /* enough for one node */
    make_plan(&planned);
    question.context = planned.snapshot->context;
    question.node = snapshot_node(planned.snapshot, TEXT("n1"));
    plan_init(&plan, request, NULL);
    assert_int_equal(policy_score(&question, &plan, &rank), REASON_NONE);
    assert_true(rank.steps >= 32);
    assert_int_equal(planned.plan->steps, 1 + rank.steps / 16);
    plan_done(&planned);
    request->host = (struct host){1, 1};
    assert_true(ledger_set_host(core->ledger, TEXT("n1"), &(struct host){0, 0}));
    plan_init_for(&planned, core);
    planned.question.steps = 2;
    make_plan(&planned);
    assert_in_range(planned.plan->steps, 3, 20); /* one node, and the return to it */
    plan_done(&planned);
}

FIXTURE_TEST(plan__is_cut_short_at_the_step_limit)
{
    struct planned planned;

    three_half_used(core);
    make_plan_of(&planned, core);
    const uint32_t all = planned.plan->steps;
    planned.question.steps = all + 1;
    make_plan(&planned);
    assert_int_equal(planned.plan->n_moves, 1);
    assert_false(planned.plan->cut_short);
    for (uint32_t steps = 0; steps <= all; steps++) {
        planned.question.steps = steps;
        make_plan(&planned);
        assert_true(planned.plan->cut_short);
        assert_true(planned.plan->steps <= all);
        assert_true(planned.plan->n_moves == 1 || planned.text.len == 0);
    }
    assert_int_equal(planned.plan->n_moves, 1);
    plan_done(&planned);
}

/* Half of the steps, rounded down, are for the ranks; a pod without ranks does not move. */
FIXTURE_TEST(steps__are_kept_half_for_moves)
{
    struct planned planned;

    three_half_used(core);
    show_used(core, "n4", "d", 450);
    plan_init_for(&planned, core);
    planned.question.steps = 3; /* the ranks of the first request end with them */
    make_plan(&planned);
    assert_int_equal(planned.plan->steps, 3);
    assert_int_equal(planned.plan->n_moves, 0);
    planned.question.steps = 9; /* the four nodes are ranked for 450, none for 500 */
    make_plan(&planned);
    assert_true(planned.plan->cut_short);
    assert_string_equal(planned.text.data, "d n4/0 n1/0 +1000");
    assert_int_equal(planned.plan->steps, 4 + 2 + (1 + 2));
    planned.question.steps = 10; /* the nodes for 500 as well; then d alone is examined */
    make_plan(&planned);
    assert_true(planned.plan->cut_short);
    assert_string_equal(planned.text.data, "d n4/0 n1/0 +1000");
    assert_int_equal(planned.plan->steps, 2 * 4 + 2 + (1 + 2 * 2));
    plan_done(&planned);
}

/* Each hole takes one pod; the smallest is the best, and the plan has to use all of them. */
FIXTURE_TEST(plan__finds_targets_beyond_the_best_again)
{
    struct planned planned;
    char name[16];

    learn(core, 1);
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "hole%u", i);
        show_used(core, name, name, 700 - i);
        asking[askings - 1].request = NULL;
    }
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "pod%u", i);
        show_used(core, name, name, 300);
    }
    make_plan_of(&planned, core);
    assert_int_equal(planned.plan->n_moves, 8);
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "hole%u", i);
        assert_string_equal(planned.plan->move[i].to_node->name->text, name);
        assert_true(planned.plan->move[i].gain_milli >= 990);
    }
    plan_done(&planned);
}

/* 200 halves become 100 whole GPUs. */
FIXTURE_TEST(plan__has_at_most_100_moves)
{
    struct planned planned;
    char name[16];

    learn(core, 1);
    for (uint32_t i = 0; i < 2 * DEFRAG_MOVES_MAX + 2; i++) {
        (void)snprintf(name, sizeof name, "n%03u", i);
        show_used(core, name, name, 500);
    }
    make_plan_of(&planned, core);
    assert_int_equal(planned.plan->n_moves, DEFRAG_MOVES_MAX);
    assert_int_equal(planned.plan->fragment_milli_after, 1000);
    assert_false(planned.plan->cut_short);
    plan_done(&planned);
}

FIXTURE_TEST(candidates__have_at_most_64_different_requests)
{
    struct planned planned;

    learn(core, 1);
    show(core, "n1", 1);
    show(core, "n2", 1);
    for (uint32_t i = 0; i < DEFRAG_REQUESTS_MAX; i++) {
        bind(core, arena_printf(&core->arena, "p%02u", i), "n1", i == 0 ? "400" : "1");
        asking[i].request = core_request(core, arena_printf(&core->arena, "%u", 400 + i));
    }
    bind(core, "q1", "n2", "400");
    bind(core, "q2", "n2", "401");
    make_plan_of(&planned, core);
    assert_false(planned.plan->left_out);
    assert_int_equal(planned.plan->pods, DEFRAG_REQUESTS_MAX + 2);
    plan_done(&planned);
    asking[askings - 2].request = core_request(core, "399"); /* q2 is examined as before */
    make_plan_of(&planned, core);
    assert_true(planned.plan->left_out);
    assert_int_equal(planned.plan->pods, DEFRAG_REQUESTS_MAX + 1);
    plan_done(&planned);
}

static uint32_t asked;

static const struct request *same_request(void *user, const struct allocation *pod)
{
    (void)pod;
    asked++;
    return user;
}

static void assert_candidates(struct core_fixture *core, struct request *request, bool left_out)
{
    struct planned planned;

    plan_init_for(&planned, core);
    planned.question.request_of = same_request;
    planned.question.user = request;
    planned.question.steps = 1;
    asked = 0;
    make_plan(&planned);
    assert_int_equal(planned.plan->pods, DEFRAG_PODS_MAX);
    assert_int_equal(planned.plan->left_out, left_out);
    assert_int_equal(asked, DEFRAG_PODS_MAX + left_out);
    plan_done(&planned);
}

FIXTURE_TEST(candidates__are_at_most_4096)
{
    struct request *request = core_request(core, "1");
    char uid[16];

    learn(core, 64);
    show(core, "n1", 64);
    for (uint32_t i = 0; i <= DEFRAG_PODS_MAX + 5; i++) {
        if (i == DEFRAG_PODS_MAX)
            assert_candidates(core, request, false);
        (void)snprintf(uid, sizeof uid, "p%u", i);
        assert_true(bind_quickly(core, uid, "n1", request));
    }
    assert_candidates(core, request, true);
}

/*
 * Drawn clusters, planned a second way: every pod on every node, without a cache
 */

enum { NODES = 16, MOVERS = 128 };

struct mover {
    const struct allocation *pod;
    const struct request *request;
    uint32_t at;
    bool moved;
};

struct slow {
    const struct snapshot *snapshot;
    struct fragments *fragments;
    const struct node *node[NODES];
    uint32_t n_nodes;
    struct mover mover[MOVERS];
    uint32_t n_movers;
    struct strbuf text;
};

/* The best move of one pod. */
struct outcome {
    struct allocation *pod; /* NULL: it fits nowhere */
    uint32_t to;
    const struct node *left;
    const struct node *joined; /* if it is another node than left */
    int64_t gain;
    uint32_t given;
};

static uint32_t fragments_of(struct slow *slow, const struct node *node)
{
    uint32_t milli[GPUS_PER_NODE_MAX];
    uint32_t sum = 0;

    fragments_of_node(slow->fragments, node, milli);
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        sum += milli[i];
    return sum;
}

static struct host host_plus(struct host host, const struct request *request, int64_t sign)
{
    if (host.cpu_milli != HOST_UNKNOWN)
        host.cpu_milli = host_amount((int64_t)host.cpu_milli + sign * request->host.cpu_milli);
    if (host.memory_mib != HOST_UNKNOWN)
        host.memory_mib = host_amount((int64_t)host.memory_mib + sign * request->host.memory_mib);
    return host;
}

static const struct node *changed(const struct node *node, const struct allocation *before,
                                  const struct allocation *after, const struct request *request)
{
    struct node *made = node_with(node, before, after);
    const struct host host = host_plus(made->host, request, before != NULL ? 1 : -1);

    if (!made->host_known)
        return made;
    struct node *again = node_with_host(made, &host);
    node_unref(made);
    return again;
}

static enum reason judge_slowly(struct slow *slow, const struct node *node,
                                const struct request *request, struct rank *rank,
                                struct placement *placement)
{
    const struct policy_question question = {
        .context = slow->snapshot->context, .node = node, .slot = SNAPSHOT_NO_SLOT};
    struct plan plan;
    struct room room;

    plan_init(&plan, request, NULL);
    room_of(node, &room);
    return policy_score_room(&question, &plan, &room, rank, placement);
}

static struct allocation *moved_to(const struct node *node, const struct mover *mover,
                                   const struct placement *placement)
{
    struct share share[PARTS_MAX];
    struct allocation_facts facts = mover->pod->facts;

    place_shares(placement, mover->request, node, share);
    facts.node = node->name;
    facts.node_uid = node->uid;
    facts.n_shares = placement->n_parts;
    facts.share = share;
    return allocation_new(&facts);
}

static bool lacks(const struct node *node, const struct request *request)
{
    return node->host_known && (node->host.cpu_milli < request->host.cpu_milli ||
                                node->host.memory_mib < request->host.memory_mib);
}

static void look(struct slow *slow, const struct mover *mover, struct outcome *out)
{
    const struct node *from = slow->node[mover->at];
    static struct placement placement;
    static struct placement best_placement;
    struct rank best = {0};

    *out = (struct outcome){.left = changed(from, mover->pod, NULL, mover->request), .to = NODES};
    for (uint32_t i = 0; i < slow->n_nodes; i++) {
        struct rank rank;
        const struct node *node = i == mover->at ? out->left : slow->node[i];
        if (i != mover->at && lacks(node, mover->request))
            continue;
        if (judge_slowly(slow, node, mover->request, &rank, &placement) != REASON_NONE)
            continue;
        if (out->to < NODES && order_cmp(&rank, &best) > 0)
            continue;
        best = rank;
        best_placement = placement;
        out->to = i;
    }
    if (out->to == NODES)
        return;
    const struct node *onto = out->to == mover->at ? out->left : slow->node[out->to];
    out->pod = moved_to(onto, mover, &best_placement);
    out->joined = changed(onto, NULL, out->pod, mover->request);
    out->given = out->left->free_milli - from->free_milli;
    out->gain = (int64_t)fragments_of(slow, from) - fragments_of(slow, out->joined);
    if (out->to != mover->at)
        out->gain += (int64_t)fragments_of(slow, onto) - fragments_of(slow, out->left);
    if (onto->free_milli - out->joined->free_milli != out->given)
        out->gain = 0;
}

static void outcome_done(struct outcome *outcome)
{
    node_unref(outcome->left);
    node_unref(outcome->joined);
    allocation_unref(outcome->pod);
}

static void slow_move(struct slow *slow, struct mover *mover, struct outcome *outcome)
{
    plan_text_move(&slow->text, mover->pod, slow->node[mover->at], outcome->pod, outcome->joined,
                   (uint32_t)outcome->gain);
    mover->moved = true;
    node_unref(slow->node[mover->at]);
    slow->node[mover->at] = node_ref(outcome->left);
    node_unref(slow->node[outcome->to]);
    slow->node[outcome->to] = node_ref(outcome->joined);
}

static bool slow_step(struct slow *slow, uint32_t min_gain)
{
    struct outcome best = {.gain = 0};
    struct mover *mover = NULL;

    for (uint32_t i = 0; i < slow->n_movers; i++) {
        struct outcome outcome;
        if (slow->mover[i].moved)
            continue;
        look(slow, &slow->mover[i], &outcome);
        const bool better =
            outcome.gain > best.gain || (outcome.gain == best.gain && outcome.given < best.given);
        if (outcome.gain < min_gain || (mover != NULL && !better)) {
            outcome_done(&outcome);
            continue;
        }
        outcome_done(&best);
        best = outcome;
        mover = &slow->mover[i];
    }
    if (mover != NULL)
        slow_move(slow, mover, &best);
    outcome_done(&best);
    return mover != NULL;
}

static void slow_add_pods(struct slow *slow, uint32_t at)
{
    const struct node *node = slow->node[at];

    for (uint32_t i = 0; i < node->n_allocations && fragments_of(slow, node) > 0; i++) {
        const struct allocation *pod = node->allocation[i];
        if (pod->facts.state != STATE_BOUND || pod->facts.origin != ORIGIN_GRANTED)
            continue;
        assert_true(slow->n_movers < MOVERS);
        slow->mover[slow->n_movers++] = (struct mover){pod, asks(NULL, pod), at, false};
    }
}

/* By fragment, then by name, as the candidates. */
static void slow_sort(struct slow *slow)
{
    for (uint32_t i = 0; i < slow->n_nodes; i++)
        for (uint32_t j = i + 1; j < slow->n_nodes; j++) {
            const struct node *a = slow->node[i];
            const struct node *b = slow->node[j];
            const uint32_t of_a = fragments_of(slow, a);
            const uint32_t of_b = fragments_of(slow, b);
            if (of_a > of_b || (of_a == of_b && atom_cmp(a->name, b->name) < 0))
                continue;
            slow->node[i] = b;
            slow->node[j] = a;
        }
}

static void plan_slowly(struct slow *slow, const struct defrag_question *question)
{
    const struct node *node;

    *slow = (struct slow){.snapshot = question->snapshot,
                          .fragments = fragments_new_for(question->snapshot)};
    strbuf_init(&slow->text);
    for (uint32_t at = 0; (node = snapshot_next(question->snapshot, &at)) != NULL;)
        slow->node[slow->n_nodes++] = node_ref(node);
    slow_sort(slow);
    for (uint32_t at = 0; at < slow->n_nodes; at++)
        slow_add_pods(slow, at);
    for (uint32_t i = 0; i < question->moves; i++)
        if (!slow_step(slow, question->min_gain_milli))
            break;
    for (uint32_t at = 0; at < slow->n_nodes; at++)
        node_unref(slow->node[at]);
    fragments_free(slow->fragments);
}

static struct request *draw_request(struct core_fixture *core, uint64_t *seed)
{
    static const char *const words[] = {"100",   "250",   "300",      "300",     "500",  "700",
                                        "500x2", "300x2", "i400+200", "200+100", "1000", "2000"};
    static const char *h100[] = {"H100"};
    struct request *request = core_request(core, words[draw_below(seed, ARRAY_LEN(words))]);

    if (draw_below(seed, 6) == 0) {
        request->n_models = 1;
        request->model = h100;
    }
    if (draw_below(seed, 3) == 0)
        request->host = (struct host){1000 * draw_below(seed, 3), 1024};
    return request;
}

static void draw_nodes(struct core_fixture *core, uint64_t *seed, uint32_t nodes)
{
    char name[16];

    for (uint32_t n = 0; n < nodes; n++) {
        struct core_gpu gpu[4];
        const uint32_t gpus = 1 + draw_below(seed, 4);
        (void)snprintf(name, sizeof name, "n%02u", n);
        for (uint32_t i = 0; i < gpus; i++)
            gpu[i] =
                (struct core_gpu){.index = i, .mib = 40000, .cordoned = draw_below(seed, 15) == 0};
        struct inventory *inventory = core_inventory(core, name, "uid", gpu, gpus);
        for (uint32_t i = 0; i < gpus; i++)
            inventory->gpu[i].model = n % 3 == 0 ? "H100" : "A100";
        const struct command command = {.kind = COMMAND_NODE, .node = name, .inventory = inventory};
        assert_int_equal(core_do_quickly(core, &command), VERDICT_OK);
        const struct host host = {draw_below(seed, 8) == 0 ? HOST_UNKNOWN
                                                           : 500 * draw_below(seed, 16),
                                  draw_below(seed, 8) == 0 ? HOST_UNKNOWN : 4096};
        if (draw_below(seed, 2) == 0)
            assert_true(ledger_set_host(core->ledger, text_of(name), &host));
    }
}

/* Pods on drawn nodes; the policy chooses the GPUs. Every fifth is not bound. */
static void draw_pods(struct core_fixture *core, uint64_t *seed, uint32_t nodes)
{
    char uid[16];
    char node[16];

    for (uint32_t i = 0; i < 5 * nodes; i++) {
        const struct request *request = draw_request(core, seed);
        (void)snprintf(uid, sizeof uid, "p%03u", i);
        (void)snprintf(node, sizeof node, "n%02u", draw_below(seed, nodes));
        const struct command reserved = {.kind = COMMAND_RESERVE,
                                         .uid = uid,
                                         .namespace = "default",
                                         .name = "pod",
                                         .node = node,
                                         .request = request};
        const struct command confirmed = {.kind = COMMAND_CONFIRM, .uid = uid};
        if (core_do_quickly(core, &reserved) != VERDICT_OK)
            continue;
        asking[askings].uid = arena_copy(&core->arena, text_of(uid));
        asking[askings++].request = request;
        if (draw_below(seed, 5) > 0)
            assert_int_equal(core_do_quickly(core, &confirmed), VERDICT_OK);
    }
}

static void draw_cluster(struct core_fixture *core, uint64_t *seed)
{
    const uint32_t nodes = 2 + draw_below(seed, NODES - 1);
    const enum policy_kind kind = (enum policy_kind)draw_below(seed, POLICIES);
    struct workload *workload = draw_workload(seed, 12);
    struct policy_context *context = policy_context_new(kind, 7, workload);

    draw_nodes(core, seed, nodes);
    draw_pods(core, seed, nodes);
    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
}

static uint64_t fragments_of_all(const struct snapshot *snapshot)
{
    struct slow slow = {.fragments = fragments_new_for(snapshot)};
    const struct node *node;
    uint64_t sum = 0;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        sum += fragments_of(&slow, node);
    fragments_free(slow.fragments);
    return sum;
}

static void give_host(struct core_fixture *core, const struct node *node,
                      const struct request *request, int64_t sign)
{
    const struct host host = host_plus(node->host, request, sign);

    if (node->host_known)
        assert_true(ledger_set_host(core->ledger, atom_text(node->name), &host));
}

/* The ledger gives each pod the GPUs of the plan, and no GPU is charged beyond its size. */
static void play_the_plan(struct core_fixture *core, const struct defrag_plan *plan)
{
    struct snapshot *after;
    uint64_t gains = 0;

    for (uint32_t i = 0; i < plan->n_moves; i++) {
        const struct defrag_move *move = &plan->move[i];
        const char *to = move->to->facts.node->text;
        const struct request *request = asks(NULL, move->from);
        const struct command leaves = {
            .kind = COMMAND_RELEASE, .uid = move->from->facts.uid, .why = "test"};
        assert_int_equal(core_do_quickly(core, &leaves), VERDICT_OK);
        give_host(core, ledger_node(core->ledger, atom_text(move->from->facts.node)), request, 1);
        assert_true(bind_quickly(core, move->from->facts.uid, to, request));
        const struct node *node = ledger_node(core->ledger, text_of(to));
        give_host(core, node, request, -1);
        node = ledger_node(core->ledger, text_of(to));
        assert_true(allocation_same_shares(node_allocation(node, text_of(move->from->facts.uid)),
                                           move->to));
        for (uint32_t g = 0; g < node->n_gpus; g++)
            assert_true(node->gpu[g].used_milli + node->gpu[g].reserved_milli <= GPU_MILLI);
        node_assert_valid(node);
        node_assert_valid(move->to_node);
        assert_int_equal(node->free_milli, move->to_node->free_milli);
        gains += move->gain_milli;
    }
    after = ledger_publish(core->ledger, NULL, 0);
    assert_int_equal(plan->fragment_milli - gains, plan->fragment_milli_after);
    assert_int_equal(fragments_of_all(after), plan->fragment_milli_after);
    snapshot_unref(after);
}

static uint64_t first_seed(void)
{
    const char *given = getenv("DEFRAG_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    return given != NULL ? strtoull(given, NULL, 10) : 1;
}

FIXTURE_TEST(plan__equals_a_slow_search_and_can_be_executed)
{
    static struct slow slow;
    const uint64_t first = first_seed();
    uint32_t moves = 0;

    print_message("DEFRAG_SEED=%llu\n", (unsigned long long)first);
    for (int i = 0; i < walk_steps(150, 60); i++) {
        uint64_t seed = first + (uint64_t)i;
        struct planned planned;
        askings = 0;
        core_done(core);
        core_init(core);
        draw_cluster(core, &seed);
        plan_init_for(&planned, core);
        planned.question.moves = 1 + draw_below(&seed, 15);
        planned.question.min_gain_milli = 1 + draw_below(&seed, 3) * 60;
        make_plan(&planned);
        plan_slowly(&slow, &planned.question);
        if (strcmp(planned.text.data, slow.text.data) != 0)
            print_message("seed %d\n", (int)first + i);
        assert_string_equal(planned.text.data, slow.text.data);
        strbuf_done(&slow.text);
        assert_int_equal(planned.plan->fragment_milli, fragments_of_all(planned.snapshot));
        assert_int_equal(planned.plan->pods, slow.n_movers);
        assert_false(planned.plan->cut_short);
        moves += planned.plan->n_moves;
        play_the_plan(core, planned.plan);
        plan_done(&planned);
    }
    assert_true(moves > 100);
}

/* With any number of steps, the plan can be executed. */
FIXTURE_TEST(plan__can_be_executed_with_fewer_steps)
{
    uint32_t cut = 0;

    for (int i = 0; i < walk_steps(60, 20); i++) {
        uint64_t seed = 1000 + (uint64_t)i;
        struct planned planned;
        askings = 0;
        core_done(core);
        core_init(core);
        draw_cluster(core, &seed);
        plan_init_for(&planned, core);
        planned.question.moves = 15;
        planned.question.steps = 20 + draw_below(&seed, 2000);
        make_plan(&planned);
        CLEANUP(xfreep) char *first = strbuf_steal(&planned.text);
        make_plan(&planned);
        assert_string_equal(planned.text.data, first);
        assert_true(planned.plan->cut_short ||
                    planned.plan->steps < planned.question.steps + 4 * NODES * NODES * LAYOUTS_MAX);
        cut += planned.plan->cut_short;
        play_the_plan(core, planned.plan);
        plan_done(&planned);
    }
    assert_true(cut > 0);
}
