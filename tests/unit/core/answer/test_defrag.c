/* Plans of moves: small clusters whose best plan is known, and drawn ones planned a second way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/defrag.h"
#include "milligpu/core/rank/fragment.h"
#include "milligpu/core/rank/policy.h"

#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/walk.h"

/*
 * A cluster, and what its pods ask for
 */

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

static void learn(struct core_fixture *core, enum policy_kind kind,
                  const struct workload_class *class, uint32_t classes)
{
    struct workload *workload = workload_new(class, classes);
    struct policy_context *context = policy_context_new(kind, 0, workload);

    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
}

static void learn_whole_gpus(struct core_fixture *core)
{
    learn(core, POLICY_BINPACK, &(struct workload_class){.parts = 1, .milli = 1000, .count = 1}, 1);
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

static void show_model(struct core_fixture *core, const char *node, const char *model)
{
    const struct core_gpu gpu = {.mib = 40000};
    struct inventory *inventory = core_inventory(core, node, "uid", &gpu, 1);

    inventory->gpu[0].model = model;
    const struct command command = {.kind = COMMAND_NODE, .node = node, .inventory = inventory};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
}

static void reserve(struct core_fixture *core, const char *uid, const char *node,
                    const struct request *request)
{
    assert_true(askings < PODS_MAX);
    asking[askings].uid = arena_copy(&core->arena, text_of(uid));
    asking[askings++].request = request;
    assert_int_equal(core_reserve_for(core, uid, node, request), VERDICT_OK);
}

static void bind_for(struct core_fixture *core, const char *uid, const char *node,
                     const struct request *request)
{
    reserve(core, uid, node, request);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, uid), VERDICT_OK);
}

static void bind(struct core_fixture *core, const char *uid, const char *node, const char *words)
{
    bind_for(core, uid, node, core_request(core, words));
}

static void release(struct core_fixture *core, const char *uid)
{
    assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
}

/*
 * A plan as text
 */

struct planned {
    struct snapshot *snapshot;
    struct defrag_question question;
    struct defrag_plan *plan;
    char text[4096];
};

static void write_place(char *out, size_t bytes, const struct allocation *pod,
                        const struct node *node)
{
    size_t used = 0;

    for (uint32_t i = 0; i < pod->charges; i++) {
        const struct gpu *gpu = node_gpu(node, atom_text(pod->charge[i].gpu));
        assert_non_null(gpu);
        used += (size_t)snprintf(out + used, bytes - used, "%s%s/%d", i > 0 ? "," : "",
                                 node->name->text, gpu->index);
    }
}

static void write_plan(struct planned *planned)
{
    char from[256];
    char to[256];
    size_t used = 0;

    planned->text[0] = '\0';
    for (uint32_t i = 0; i < planned->plan->moves; i++) {
        const struct defrag_move *move = &planned->plan->move[i];
        write_place(from, sizeof from, move->from, move->from_node);
        write_place(to, sizeof to, move->to, move->to_node);
        used +=
            (size_t)snprintf(planned->text + used, sizeof planned->text - used, "%s%s %s %s +%u",
                             i > 0 ? "; " : "", move->from->facts.uid, from, to, move->gain_milli);
        assert_true(used < sizeof planned->text);
    }
}

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
}

static void make_plan(struct planned *planned)
{
    defrag_plan_free(planned->plan);
    planned->plan = defrag_plan_new(&planned->question);
    write_plan(planned);
}

static void plan_done(struct planned *planned)
{
    defrag_plan_free(planned->plan);
    snapshot_unref(planned->snapshot);
}

static void assert_plan(struct core_fixture *core, const char *expected)
{
    struct planned planned;

    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_string_equal(planned.text, expected);
    assert_false(planned.plan->cut_short);
    assert_false(planned.plan->left_out);
    plan_done(&planned);
}

/*
 * Small clusters
 */

static void three_half_used(struct core_fixture *core)
{
    learn_whole_gpus(core);
    show(core, "n1", 1);
    show(core, "n2", 1);
    show(core, "n3", 1);
    bind(core, "a", "n1", "500");
    bind(core, "b", "n2", "500");
    bind(core, "c", "n3", "500");
}

FIXTURE_TEST(three_half_used_gpus_become_two)
{
    struct planned planned;

    three_half_used(core);
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_string_equal(planned.text, "a n1/0 n2/0 +1000");
    assert_int_equal(planned.plan->free_milli, 1500);
    assert_int_equal(planned.plan->fragment_milli, 1500);
    assert_int_equal(planned.plan->fragment_milli_after, 500);
    assert_int_equal(planned.plan->pods, 3);
    assert_true(planned.plan->learned);
    assert_false(planned.plan->cut_short);
    assert_int_equal(planned.plan->move[0].from_node->free_milli, 500);
    assert_int_equal(planned.plan->move[0].to_node->free_milli, 0);
    assert_string_equal(planned.plan->move[0].to->facts.node->text, "n2");
    assert_int_equal(planned.plan->shapes, 1);
    assert_int_equal(planned.plan->shape[0].class->milli, 1000);
    assert_int_equal(planned.plan->shape[0].before, 0);
    assert_int_equal(planned.plan->shape[0].after, 1);
    plan_done(&planned);
}

FIXTURE_TEST(the_plan_stops_at_as_many_moves_as_asked_for)
{
    struct planned planned;

    three_half_used(core);
    show(core, "n4", 1);
    bind(core, "d", "n4", "500");
    assert_plan(core, "a n1/0 n2/0 +1000; c n3/0 n4/0 +1000");
    plan_init_for(&planned, core);
    planned.question.moves = 1;
    make_plan(&planned);
    assert_string_equal(planned.text, "a n1/0 n2/0 +1000");
    assert_int_equal(planned.plan->fragment_milli_after, 1000);
    assert_false(planned.plan->cut_short);
    plan_done(&planned);
}

FIXTURE_TEST(a_move_gains_at_least_what_was_asked_for)
{
    struct planned planned;

    three_half_used(core);
    plan_init_for(&planned, core);
    planned.question.min_gain_milli = 1000;
    make_plan(&planned);
    assert_int_equal(planned.plan->moves, 1);
    planned.question.min_gain_milli = 1001;
    make_plan(&planned);
    assert_int_equal(planned.plan->moves, 0);
    assert_int_equal(planned.plan->fragment_milli_after, 1500);
    plan_done(&planned);
}

FIXTURE_TEST(the_largest_gain_comes_first_and_of_equals_the_smaller_pod)
{
    learn_whole_gpus(core);
    show(core, "n1", 1);
    show(core, "n2", 1);
    bind(core, "large", "n1", "600");
    bind(core, "small", "n2", "400");
    assert_plan(core, "small n2/0 n1/0 +1000");
    /* With more fragments on n1, the large one comes first. */
    release(core, "large");
    show(core, "n1", 2);
    bind(core, "filler", "n1", "700");
    bind(core, "large", "n1", "600");
    assert_plan(core, "small n2/0 n1/1 +1000");
}

FIXTURE_TEST(a_later_move_needs_the_room_that_an_earlier_one_leaves)
{
    const struct workload_class class = {.parts = 1, .milli = 600, .count = 1};

    learn(core, POLICY_BINPACK, &class, 1);
    show(core, "n1", 1);
    show(core, "n2", 1);
    show(core, "n3", 1);
    bind(core, "a", "n1", "600");
    bind(core, "b", "n2", "500");
    bind(core, "c", "n2", "400");
    bind(core, "d", "n3", "500");
    asking[2].request = NULL;
    assert_plan(core, "b n2/0 n3/0 +600; a n1/0 n2/0 +400");
}

FIXTURE_TEST(candidates_come_by_fragment_and_then_by_name)
{
    learn_whole_gpus(core);
    show(core, "n3", 1);
    show(core, "n1", 1);
    show(core, "n2", 1);
    bind(core, "z", "n3", "500");
    bind(core, "a", "n1", "500");
    bind(core, "b", "n2", "500");
    assert_plan(core, "a n1/0 n2/0 +1000");
    release(core, "z");
    show(core, "n2", 2);
    bind(core, "more", "n2", "700"); /* so that n2 has 800 milli of fragments, and n1 500 */
    assert_plan(core, "b n2/0 n1/0 +1000");
}

FIXTURE_TEST(a_node_with_one_milli_left_is_no_full_one)
{
    struct planned planned;

    learn_whole_gpus(core);
    show(core, "n1", 1);
    show(core, "n2", 1);
    bind(core, "a", "n1", "999");
    bind(core, "b", "n2", "1");
    assert_plan(core, "b n2/0 n1/0 +1000");
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_int_equal(planned.plan->free_milli, 1000);
    plan_done(&planned);
}

FIXTURE_TEST(pods_move_within_a_node)
{
    learn_whole_gpus(core);
    show(core, "n1", 2);
    bind(core, "a", "n1", "500");
    bind(core, "filler", "n1", "500");
    bind(core, "b", "n1", "500");
    assert_plan(core, "");
    release(core, "filler");
    assert_plan(core, "a n1/0 n1/1 +1000");
}

FIXTURE_TEST(only_bound_pods_that_milligpu_granted_move)
{
    struct command command = {.kind = COMMAND_TERMINATING, .uid = "a", .terminating_ms = 5};

    learn_whole_gpus(core);
    show(core, "n1", 1);
    show(core, "n2", 1);
    reserve(core, "a", "n1", core_request(core, "500"));
    assert_int_equal(core_adopt(core, core_pod(core, "b", "n2"), "500"), VERDICT_OK);
    asking[askings].uid = "b";
    asking[askings++].request = core_request(core, "500");
    assert_plan(core, "");
    assert_int_equal(core_step(core, COMMAND_DOUBT, "a"), VERDICT_OK);
    assert_plan(core, "");
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    assert_plan(core, "a n1/0 n2/0 +1000");
    const struct command note = {.kind = COMMAND_NOTE, .uid = "a", .differs = true};
    const struct command same = {.kind = COMMAND_NOTE, .uid = "a"};
    assert_int_equal(core_do(core, &note), VERDICT_OK);
    assert_plan(core, "");
    assert_int_equal(core_do(core, &same), VERDICT_OK);
    assert_plan(core, "a n1/0 n2/0 +1000");
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_plan(core, "");
}

static void assert_candidates(struct core_fixture *core, uint32_t pods)
{
    struct planned planned;

    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_int_equal(planned.plan->pods, pods);
    plan_done(&planned);
}

FIXTURE_TEST(a_pod_of_which_nothing_is_known_stays)
{
    struct request *whole;

    learn_whole_gpus(core);
    show(core, "n1", 1);
    show(core, "n2", 1);
    bind(core, "a", "n1", "500");
    bind(core, "b", "n2", "500");
    asking[0].request = NULL;
    assert_plan(core, "b n2/0 n1/0 +1000");
    whole = core_request(core, "500");
    asking[1].request = whole;
    assert_candidates(core, 1);
    whole->whole = 1;
    assert_candidates(core, 0);
    asking[1].request = &(struct request){.whole = 1};
    assert_candidates(core, 0);
    asking[1].request = &(struct request){.whole = 0};
    assert_candidates(core, 0);
}

static void cordon_gpu(struct core_fixture *core, const char *node, bool cordoned)
{
    const struct core_gpu gpu = {.mib = 40000, .cordoned = cordoned};
    assert_int_equal(core_node(core, node, &gpu, 1), VERDICT_OK);
}

FIXTURE_TEST(nothing_moves_to_a_cordoned_gpu_or_away_from_one)
{
    three_half_used(core);
    cordon_gpu(core, "n2", true);
    assert_plan(core, "a n1/0 n3/0 +1000");
    cordon_gpu(core, "n3", true);
    assert_plan(core, "");
    cordon_gpu(core, "n2", false);
    assert_plan(core, "a n1/0 n2/0 +1000");
}

/* n1 has a GPU of its own beside the cordoned one, so its pods are looked at. */
FIXTURE_TEST(what_a_pod_leaves_on_a_closed_gpu_is_no_gain)
{
    struct core_gpu gpu[] = {{.index = 0, .mib = 40000}, {.index = 1, .mib = 40000}};

    learn_whole_gpus(core);
    show(core, "n1", 2);
    show(core, "n2", 1);
    bind(core, "a", "n1", "700");
    bind(core, "b", "n1", "800");
    bind(core, "c", "n2", "100");
    assert_plan(core, "c n2/0 n1/1 +1000");
    gpu[1].cordoned = true;
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    asking[0].request = NULL;
    asking[2].request = NULL;
    assert_plan(core, "");
}

FIXTURE_TEST(a_pod_goes_where_its_models_and_its_memory_are)
{
    static const char *h100[] = {"H100"};
    struct request *request = core_request(core, "500");

    learn_whole_gpus(core);
    show_model(core, "n1", "H100");
    show_model(core, "n2", "A100");
    show_model(core, "n3", "H100");
    request->models = 1;
    request->model = h100;
    bind_for(core, "a", "n1", request);
    bind(core, "b", "n2", "500");
    bind_for(core, "c", "n3", request);
    asking[1].request = NULL;
    assert_plan(core, "a n1/0 n3/0 +1000");
    struct request *memory = core_request(core, "500");
    memory->memory_mib = 20001;
    asking[0].request = memory;
    asking[2].request = NULL;
    assert_plan(core, "");
    memory->memory_mib = 20000;
    assert_plan(core, "a n1/0 n2/0 +1000");
}

FIXTURE_TEST(both_parts_of_a_pod_move)
{
    learn_whole_gpus(core);
    show(core, "n1", 2);
    show(core, "n2", 3);
    bind(core, "a", "n1", "500x2");
    bind(core, "b", "n2", "500x3");
    assert_plan(core, "a n1/0,n1/1 n2/0,n2/1 +2000");
}

/* Two halves were granted; what the pod asks for now is one whole GPU. */
FIXTURE_TEST(a_pod_moves_as_it_asks_now)
{
    struct planned planned;

    learn(core, POLICY_BINPACK, &(struct workload_class){.parts = 2, .milli = 1000, .count = 1}, 1);
    show(core, "n1", 2);
    show(core, "n2", 1);
    bind(core, "a", "n1", "500x2");
    asking[0].request = core_request(core, "1000");
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_string_equal(planned.text, "a n1/0,n1/1 n2/0 +2000");
    assert_int_equal(planned.plan->move[0].to->facts.shares, 1);
    assert_ptr_equal(planned.plan->move[0].to->facts.node_uid, planned.plan->move[0].to_node->uid);
    plan_done(&planned);
}

FIXTURE_TEST(nodes_that_are_known_to_lack_cpu_or_memory_are_left_out)
{
    struct request *request = core_request(core, "500");

    request->host = (struct host){2000, 4096};
    learn_whole_gpus(core);
    show(core, "n1", 1);
    show(core, "n2", 1);
    bind_for(core, "a", "n1", request);
    bind(core, "b", "n2", "500");
    asking[1].request = NULL;
    assert_true(ledger_set_host(core->ledger, TEXT("n1"), &(struct host){0, 0}));
    assert_plan(core, "a n1/0 n2/0 +1000");
    assert_true(
        ledger_set_host(core->ledger, TEXT("n1"), &(struct host){HOST_UNKNOWN, HOST_UNKNOWN}));
    assert_plan(core, "a n1/0 n2/0 +1000");
    assert_true(ledger_set_host(core->ledger, TEXT("n2"), &(struct host){1999, 4096}));
    assert_plan(core, "");
    assert_true(ledger_set_host(core->ledger, TEXT("n2"), &(struct host){2000, 4095}));
    assert_plan(core, "");
    assert_true(ledger_set_host(core->ledger, TEXT("n2"), &(struct host){2000, 4096}));
    assert_plan(core, "a n1/0 n2/0 +1000");
    assert_true(
        ledger_set_host(core->ledger, TEXT("n2"), &(struct host){HOST_UNKNOWN, HOST_UNKNOWN}));
    assert_plan(core, "a n1/0 n2/0 +1000");
}

/* The workload wants 2000 thousandths of a core with each GPU. */
FIXTURE_TEST(cpu_goes_with_the_pod)
{
    struct request *request = core_request(core, "500");
    struct planned planned;

    request->host = (struct host){2000, 100};
    learn(core, POLICY_BINPACK,
          &(struct workload_class){.parts = 1, .milli = 1000, .count = 1, .host = {2000, 0}}, 1);
    show(core, "n1", 1);
    show(core, "n2", 2);
    bind_for(core, "a", "n1", request);
    bind(core, "b", "n2", "500");
    asking[1].request = NULL;
    assert_true(ledger_set_host(core->ledger, TEXT("n1"), &(struct host){0, 0}));
    assert_true(ledger_set_host(core->ledger, TEXT("n2"), &(struct host){4000, 200}));
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_string_equal(planned.text, "a n1/0 n2/0 +1000");
    assert_int_equal(planned.plan->move[0].to_node->host.cpu_milli, 2000);
    assert_int_equal(planned.plan->move[0].to_node->host.memory_mib, 100);
    assert_int_equal(planned.plan->shape[0].before, 1);
    assert_int_equal(planned.plan->shape[0].after, 2);
    plan_done(&planned);
    /* With 1 less, n1 would have no CPU for its GPU when it is free. */
    request->host.cpu_milli = 1999;
    assert_plan(core, "");
    request->host.cpu_milli = 2000;
    /* With 500 less, n2 would have no CPU for its other GPU. */
    assert_true(ledger_set_host(core->ledger, TEXT("n2"), &(struct host){3500, 200}));
    assert_plan(core, "");
}

FIXTURE_TEST(without_a_workload_there_is_nothing_to_gain)
{
    struct planned planned;

    show(core, "n1", 1);
    show(core, "n2", 1);
    bind(core, "a", "n1", "500");
    bind(core, "b", "n2", "500");
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_false(planned.plan->learned);
    assert_int_equal(planned.plan->moves, 0);
    assert_int_equal(planned.plan->pods, 0);
    assert_int_equal(planned.plan->shapes, 0);
    assert_int_equal(planned.plan->free_milli, 1000);
    assert_int_equal(planned.plan->fragment_milli, 0);
    plan_done(&planned);
}

FIXTURE_TEST(an_empty_cluster_has_an_empty_plan)
{
    struct planned planned;

    learn_whole_gpus(core);
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_true(planned.plan->learned);
    assert_int_equal(planned.plan->moves, 0);
    assert_int_equal(planned.plan->free_milli, 0);
    assert_int_equal(planned.plan->steps, 0);
    plan_done(&planned);
    defrag_plan_free(NULL);
}

FIXTURE_TEST(the_policy_decides_where_a_pod_would_go)
{
    const struct workload_class class = {.parts = 1, .milli = 1000, .count = 1};

    three_half_used(core);
    learn(core, POLICY_SPREAD, &class, 1); /* back to the emptiest GPU */
    assert_plan(core, "");
    learn(core, POLICY_FGD, &class, 1);
    struct planned planned;
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_int_equal(planned.plan->moves, 1);
    assert_int_equal(planned.plan->move[0].gain_milli, 1000);
    plan_done(&planned);
    learn(core, POLICY_ROLLOUT, &class, 1);
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_int_equal(planned.plan->moves, 1);
    assert_int_equal(planned.plan->move[0].gain_milli, 1000);
    plan_done(&planned);
}

/*
 * Rules of a policy document
 */

static void enforce(struct core_fixture *core, enum policy_kind kind, const struct rule *rule,
                    const struct workload_class *class)
{
    struct workload *workload = workload_new(class, 1);
    struct rulebook *book = rulebook_new(kind, "test");

    book->rule = rule;
    book->rules = 1;
    struct policy_context *context = policy_context_of_rulebook(book, RULES_ALL, workload);
    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    rulebook_unref(book);
    workload_unref(workload);
}

static void show_in_pool(struct core_fixture *core, const char *node, const char *model,
                         uint32_t gpus)
{
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 40000}, {.index = 1, .mib = 40000}};
    static struct label label = {"pool", "kept"};
    struct inventory *inventory = core_inventory(core, node, node, gpu, gpus);
    const struct command command = {.kind = COMMAND_NODE, .node = node, .inventory = inventory};

    inventory->label = &label;
    inventory->labels = 1;
    for (uint32_t i = 0; i < gpus; i++)
        inventory->gpu[i].model = model;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
}

static const struct label kept = {"pool", "kept"};
static const struct workload_class whole_a100 = {
    .parts = 1, .milli = 1000, .count = 1, .models = 1, .model = (const char *[]){"A100"}};

FIXTURE_TEST(a_pod_goes_where_a_rule_lets_it)
{
    static const char *const others[] = {"team-*"};
    static const char *const ours[] = {"team-*", "default"};
    struct rule rule = {.name = "r", .labels = 1, .label = &kept, .whole = true};

    learn(core, POLICY_BINPACK, &whole_a100, 1);
    show_model(core, "n1", "A100");
    show_in_pool(core, "n2", "A100", 1);
    bind(core, "a", "n1", "500");
    bind(core, "b", "n2", "500");
    assert_plan(core, "a n1/0 n2/0 +1000");
    enforce(core, POLICY_BINPACK, &rule, &whole_a100);
    assert_plan(core, "b n2/0 n1/0 +1000"); /* only whole GPUs on n2; who is there may leave */
    rule.namespaces = 1;
    rule.namespace = others;
    enforce(core, POLICY_BINPACK, &rule, &whole_a100);
    assert_plan(core, "a n1/0 n2/0 +1000");
    rule.namespaces = 2;
    rule.namespace = ours;
    enforce(core, POLICY_BINPACK, &rule, &whole_a100);
    assert_plan(core, "b n2/0 n1/0 +1000");
}

/* n2 is of a model that the workload does not want, so a pod gains by going there. */
FIXTURE_TEST(an_idle_host_in_reserve_takes_no_pod)
{
    struct rule rule = {.name = "r", .labels = 1, .label = &kept};

    learn(core, POLICY_SPREAD, &whole_a100, 1);
    show_model(core, "n1", "A100");
    show_in_pool(core, "n2", "T4", 2);
    bind(core, "a", "n1", "500");
    enforce(core, POLICY_SPREAD, &rule, &whole_a100);
    assert_plan(core, "a n1/0 n2/0 +1000");
    rule.reserve = 1;
    enforce(core, POLICY_SPREAD, &rule, &whole_a100);
    assert_plan(core, "");
    learn(core, POLICY_SPREAD, &whole_a100, 1);
    bind(core, "b", "n2", "100"); /* so that it is not idle any more */
    asking[1].request = NULL;
    enforce(core, POLICY_SPREAD, &rule, &whole_a100);
    assert_plan(core, "a n1/0 n2/1 +1000");
}

/* One host is kept, and n3 is idle: without the pod n1 is another one, to which it may return. */
FIXTURE_TEST(the_host_that_a_pod_leaves_counts_as_idle)
{
    struct rule rule = {.name = "r", .labels = 1, .label = &kept, .reserve = 1};

    learn(core, POLICY_SPREAD, &whole_a100, 1);
    show_in_pool(core, "n1", "A100", 2);
    show_model(core, "n2", "A100");
    show_in_pool(core, "n3", "A100", 2);
    bind(core, "a", "n1", "500");
    bind(core, "b", "n2", "500");
    asking[1].request = NULL;
    enforce(core, POLICY_SPREAD, &rule, &whole_a100);
    assert_plan(core, "");
    rule.reserve = 2;
    enforce(core, POLICY_SPREAD, &rule, &whole_a100);
    assert_plan(core, "a n1/0 n2/0 +1000");
}

/*
 * Limits
 */

/*
 * Three nodes are ranked; of each pod, its own node is judged and the best other one, which is n2
 * for the first and n1 for the others. The move, and two nodes again. Then the node of b is
 * another, to which it would go back, and c would go to n1, which is empty.
 */
FIXTURE_TEST(steps_are_counted)
{
    struct planned planned;

    three_half_used(core);
    show(core, "full", 1);
    bind(core, "d", "full", "1000");
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_int_equal(planned.plan->steps, 3 + 3 + 2 + (1 + 2) + 1 + 1);
    planned.question.min_gain_milli = 1001;
    make_plan(&planned);
    assert_int_equal(planned.plan->steps, 3 + 3 + 2);
    plan_done(&planned);
}

/* The host is asked first; and a request of several containers takes more steps. */
FIXTURE_TEST(each_node_costs_what_its_search_takes)
{
    struct request *request = core_request(core, "150+100+50+100+120+180+70+30");
    struct planned planned;
    struct policy_question question = {.slot = SNAPSHOT_NO_SLOT};
    UNSET struct plan plan;
    struct rank rank;

    learn(core, POLICY_BINPACK, &(struct workload_class){.parts = 9, .milli = 1000, .count = 1}, 1);
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
    assert_in_range(planned.plan->steps, 3, 20); /* one, and to come back some more */
    plan_done(&planned);
}

FIXTURE_TEST(the_search_ends_with_its_steps_and_says_so)
{
    struct planned planned;

    three_half_used(core);
    plan_init_for(&planned, core);
    make_plan(&planned);
    const uint32_t all = planned.plan->steps;
    planned.question.steps = all + 1;
    make_plan(&planned);
    assert_int_equal(planned.plan->moves, 1);
    assert_false(planned.plan->cut_short);
    for (uint32_t steps = 0; steps <= all; steps++) {
        planned.question.steps = steps;
        make_plan(&planned);
        assert_true(planned.plan->cut_short);
        assert_true(planned.plan->steps <= all);
        assert_true(planned.plan->moves == 1 || strcmp(planned.text, "") == 0);
    }
    assert_int_equal(planned.plan->moves, 1);
    plan_done(&planned);
}

/* Half of them, rounded down, are for the ranks; what is not ranked does not move. */
FIXTURE_TEST(half_of_the_steps_are_kept_for_moves)
{
    struct planned planned;

    three_half_used(core);
    show(core, "n4", 1);
    bind(core, "d", "n4", "450");
    plan_init_for(&planned, core);
    planned.question.steps = 3; /* the ranks of the first request end with them */
    make_plan(&planned);
    assert_int_equal(planned.plan->steps, 3);
    assert_int_equal(planned.plan->moves, 0);
    planned.question.steps = 9; /* the four nodes are ranked for 450, none for 500 */
    make_plan(&planned);
    assert_true(planned.plan->cut_short);
    assert_string_equal(planned.text, "d n4/0 n1/0 +1000");
    assert_int_equal(planned.plan->steps, 4 + 2 + (1 + 2));
    planned.question.steps = 10; /* the others as well, and then only d is looked at */
    make_plan(&planned);
    assert_true(planned.plan->cut_short);
    assert_string_equal(planned.text, "d n4/0 n1/0 +1000");
    assert_int_equal(planned.plan->steps, 2 * 4 + 2 + (1 + 2 * 2));
    plan_done(&planned);
}

/* Each hole takes one pod; the smallest is the best, and all have to be found in the end. */
FIXTURE_TEST(nodes_beyond_the_best_are_found_again)
{
    struct planned planned;
    char name[16];
    char words[16];

    learn_whole_gpus(core);
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "hole%u", i);
        (void)snprintf(words, sizeof words, "%u", 700 - i);
        show(core, name, 1);
        bind(core, name, name, words);
        asking[askings - 1].request = NULL;
    }
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "pod%u", i);
        show(core, name, 1);
        bind(core, name, name, "300");
    }
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_int_equal(planned.plan->moves, 8);
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "hole%u", i);
        assert_string_equal(planned.plan->move[i].to_node->name->text, name);
        assert_true(planned.plan->move[i].gain_milli >= 990);
    }
    plan_done(&planned);
}

FIXTURE_TEST(the_commonest_shapes_are_counted)
{
    const struct workload_class class[] = {{.parts = 1, .milli = 1000, .count = 2},
                                           {.parts = 1, .milli = 500, .count = 1}};
    struct planned planned;

    three_half_used(core);
    learn(core, POLICY_BINPACK, class, 2);
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_int_equal(planned.plan->shapes, 2);
    assert_int_equal(planned.plan->shape[0].after, 1);
    assert_int_equal(planned.plan->shape[1].class->milli, 500);
    assert_int_equal(planned.plan->shape[1].before, 3);
    assert_int_equal(planned.plan->shape[1].after, 3);
    plan_done(&planned);
}

/* 200 halves become 100 whole GPUs. */
FIXTURE_TEST(a_plan_has_at_most_a_hundred_moves)
{
    struct planned planned;
    char name[16];

    learn_whole_gpus(core);
    for (uint32_t i = 0; i < 2 * DEFRAG_MOVES_MAX + 2; i++) {
        (void)snprintf(name, sizeof name, "n%03u", i);
        show(core, name, 1);
        bind(core, name, name, "500");
    }
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_int_equal(planned.plan->moves, DEFRAG_MOVES_MAX);
    assert_int_equal(planned.plan->fragment_milli_after, 1000);
    assert_false(planned.plan->cut_short);
    plan_done(&planned);
}

FIXTURE_TEST(at_most_so_many_different_requests_are_looked_at)
{
    char uid[16];
    char words[16];
    struct planned planned;

    learn_whole_gpus(core);
    show(core, "n1", 1);
    show(core, "n2", 1);
    for (uint32_t i = 0; i < DEFRAG_REQUESTS_MAX; i++) {
        (void)snprintf(uid, sizeof uid, "p%02u", i);
        bind(core, uid, "n1", i == 0 ? "400" : "1");
        if (i == 0)
            continue;
        (void)snprintf(words, sizeof words, "%u", 400 + i);
        asking[i].request = core_request(core, words);
    }
    bind(core, "q1", "n2", "400");
    bind(core, "q2", "n2", "401");
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_false(planned.plan->left_out);
    assert_int_equal(planned.plan->pods, DEFRAG_REQUESTS_MAX + 2);
    plan_done(&planned);
    asking[askings - 2].request = core_request(core, "399"); /* q2 is looked at all the same */
    plan_init_for(&planned, core);
    make_plan(&planned);
    assert_true(planned.plan->left_out);
    assert_int_equal(planned.plan->pods, DEFRAG_REQUESTS_MAX + 1);
    plan_done(&planned);
}

static uint32_t asked;

static const struct request *all_ask_the_same(void *user, const struct allocation *pod)
{
    (void)pod;
    asked++;
    return user;
}

FIXTURE_TEST(at_most_so_many_pods_are_looked_at)
{
    struct request *request = core_request(core, "1");
    struct planned planned;
    char uid[16];

    learn(core, POLICY_BINPACK, &(struct workload_class){.parts = 64, .milli = 1000, .count = 1},
          1);
    show(core, "n1", 64);
    for (uint32_t i = 0; i <= DEFRAG_PODS_MAX + 5; i++) {
        const struct command reserved = {.kind = COMMAND_RESERVE,
                                         .uid = uid,
                                         .namespace = "default",
                                         .name = "pod",
                                         .node = "n1",
                                         .request = request};
        const struct command confirmed = {.kind = COMMAND_CONFIRM, .uid = uid};
        if (i == DEFRAG_PODS_MAX) {
            plan_init_for(&planned, core);
            planned.question.request_of = all_ask_the_same;
            planned.question.user = request;
            planned.question.steps = 1;
            make_plan(&planned);
            assert_int_equal(planned.plan->pods, DEFRAG_PODS_MAX);
            assert_false(planned.plan->left_out);
            plan_done(&planned);
        }
        (void)snprintf(uid, sizeof uid, "p%u", i);
        assert_int_equal(core_do_quickly(core, &reserved), VERDICT_OK);
        assert_int_equal(core_do_quickly(core, &confirmed), VERDICT_OK);
    }
    plan_init_for(&planned, core);
    planned.question.request_of = all_ask_the_same;
    planned.question.user = request;
    planned.question.steps = 1;
    asked = 0;
    make_plan(&planned);
    assert_int_equal(planned.plan->pods, DEFRAG_PODS_MAX);
    assert_true(planned.plan->left_out);
    assert_int_equal(asked, DEFRAG_PODS_MAX + 1);
    plan_done(&planned);
}

/*
 * Drawn clusters, planned a second way: every pod on every node, without any memory
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
    uint32_t nodes;
    struct mover mover[MOVERS];
    uint32_t movers;
    char text[4096];
    size_t used;
};

/* What would become of one pod. */
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

static const struct node *changed(const struct node *node, const struct allocation *before,
                                  const struct allocation *after, const struct request *request)
{
    struct node *made = node_with(node, before, after);
    struct host host = made->host;
    const int64_t sign = before != NULL ? 1 : -1;

    if (!made->host_known)
        return made;
    if (host.cpu_milli != HOST_UNKNOWN)
        host.cpu_milli = host_amount((int64_t)host.cpu_milli + sign * request->host.cpu_milli);
    if (host.memory_mib != HOST_UNKNOWN)
        host.memory_mib = host_amount((int64_t)host.memory_mib + sign * request->host.memory_mib);
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
    facts.shares = placement->parts;
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
    for (uint32_t i = 0; i < slow->nodes; i++) {
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
    char from[256];
    char to[256];

    write_place(from, sizeof from, mover->pod, slow->node[mover->at]);
    write_place(to, sizeof to, outcome->pod, outcome->joined);
    slow->used += (size_t)snprintf(slow->text + slow->used, sizeof slow->text - slow->used,
                                   "%s%s %s %s +%lld", slow->used > 0 ? "; " : "",
                                   mover->pod->facts.uid, from, to, (long long)outcome->gain);
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

    for (uint32_t i = 0; i < slow->movers; i++) {
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

    for (uint32_t i = 0; i < node->allocations && fragments_of(slow, node) > 0; i++) {
        const struct allocation *pod = node->allocation[i];
        if (pod->facts.state != STATE_BOUND || pod->facts.origin != ORIGIN_GRANTED)
            continue;
        assert_true(slow->movers < MOVERS);
        slow->mover[slow->movers++] = (struct mover){pod, asks(NULL, pod), at, false};
    }
}

/* By fragment, then by name, as candidates come. */
static void slow_sort(struct slow *slow)
{
    for (uint32_t i = 0; i < slow->nodes; i++)
        for (uint32_t j = i + 1; j < slow->nodes; j++) {
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
    for (uint32_t at = 0; (node = snapshot_next(question->snapshot, &at)) != NULL;)
        slow->node[slow->nodes++] = node_ref(node);
    slow_sort(slow);
    for (uint32_t at = 0; at < slow->nodes; at++)
        slow_add_pods(slow, at);
    for (uint32_t i = 0; i < question->moves; i++)
        if (!slow_step(slow, question->min_gain_milli))
            break;
    for (uint32_t at = 0; at < slow->nodes; at++)
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
        request->models = 1;
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

/* Pods come to drawn nodes; the policy chooses the GPUs. Every fifth is not bound. */
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
    struct host host = node->host;

    if (!node->host_known)
        return;
    if (host.cpu_milli != HOST_UNKNOWN)
        host.cpu_milli = host_amount((int64_t)host.cpu_milli + sign * request->host.cpu_milli);
    if (host.memory_mib != HOST_UNKNOWN)
        host.memory_mib = host_amount((int64_t)host.memory_mib + sign * request->host.memory_mib);
    assert_true(ledger_set_host(core->ledger, atom_text(node->name), &host));
}

/* The ledger itself gives each pod the GPUs of the plan, and no GPU is ever beyond its size. */
static void play_the_plan(struct core_fixture *core, const struct defrag_plan *plan)
{
    struct snapshot *after;
    uint64_t gains = 0;

    for (uint32_t i = 0; i < plan->moves; i++) {
        const struct defrag_move *move = &plan->move[i];
        const char *to = move->to->facts.node->text;
        const struct request *request = asks(NULL, move->from);
        const struct command leaves = {
            .kind = COMMAND_RELEASE, .uid = move->from->facts.uid, .why = "test"};
        const struct command comes = {.kind = COMMAND_RESERVE,
                                      .uid = move->from->facts.uid,
                                      .namespace = "default",
                                      .name = "pod",
                                      .node = to,
                                      .request = request};
        const struct command confirmed = {.kind = COMMAND_CONFIRM, .uid = move->from->facts.uid};
        assert_int_equal(core_do_quickly(core, &leaves), VERDICT_OK);
        give_host(core, ledger_node(core->ledger, atom_text(move->from->facts.node)), request, 1);
        assert_int_equal(core_do_quickly(core, &comes), VERDICT_OK);
        assert_int_equal(core_do_quickly(core, &confirmed), VERDICT_OK);
        const struct node *node = ledger_node(core->ledger, text_of(to));
        give_host(core, node, request, -1);
        node = ledger_node(core->ledger, text_of(to));
        assert_true(allocation_same_shares(node_allocation(node, text_of(move->from->facts.uid)),
                                           move->to));
        for (uint32_t g = 0; g < node->gpus; g++)
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

FIXTURE_TEST(a_plan_is_the_one_of_a_slow_search_and_comes_true)
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
        if (strcmp(planned.text, slow.text) != 0)
            print_message("seed %d\n", (int)first + i);
        assert_string_equal(planned.text, slow.text);
        assert_int_equal(planned.plan->fragment_milli, fragments_of_all(planned.snapshot));
        assert_int_equal(planned.plan->pods, slow.movers);
        assert_false(planned.plan->cut_short);
        moves += planned.plan->moves;
        play_the_plan(core, planned.plan);
        plan_done(&planned);
    }
    assert_true(moves > 100);
}

/* Whatever steps there are, the plan is the beginning of the whole one, or another that fits. */
FIXTURE_TEST(fewer_steps_make_a_plan_that_fits_as_well)
{
    uint32_t cut = 0;

    for (int i = 0; i < walk_steps(60, 20); i++) {
        uint64_t seed = 1000 + (uint64_t)i;
        struct planned planned;
        char first[sizeof planned.text];
        askings = 0;
        core_done(core);
        core_init(core);
        draw_cluster(core, &seed);
        plan_init_for(&planned, core);
        planned.question.moves = 15;
        planned.question.steps = 20 + draw_below(&seed, 2000);
        make_plan(&planned);
        memcpy(first, planned.text, sizeof first);
        make_plan(&planned);
        assert_string_equal(planned.text, first);
        assert_true(planned.plan->cut_short ||
                    planned.plan->steps < planned.question.steps + 4 * NODES * NODES * LAYOUTS_MAX);
        cut += planned.plan->cut_short;
        play_the_plan(core, planned.plan);
        plan_done(&planned);
    }
    assert_true(cut > 0);
}
