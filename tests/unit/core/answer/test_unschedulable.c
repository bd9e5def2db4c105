#include <stdio.h>
#include <string.h>

#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/rank/policy.h"

#include "support/core_fixture.h"
#include "support/test.h"
#include "support/walk.h"

static const struct core_gpu four[] = {{.index = 0, .mib = 81920},
                                       {.index = 1, .mib = 81920},
                                       {.index = 2, .mib = 81920},
                                       {.index = 3, .mib = 81920}};
static const struct core_gpu half[] = {{.index = 0, .milli = 500, .mib = 8192}};

static struct unschedulable unschedulable_from(struct core_fixture *core,
                                               const struct request *request)
{
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    struct unschedulable unschedulable;
    uint32_t nodes = 0;

    const struct node_demands anywhere = {0};
    const struct unschedulable_question question = {request, &anywhere};
    unschedulable_of(snapshot, &question, &core->arena, &unschedulable);
    for (uint32_t why = 0; why < REASONS; why++)
        nodes += unschedulable.nodes[why];
    assert_int_equal(nodes, snapshot->nodes);
    assert_int_equal(unschedulable.never, unschedulable.never_text[0] != '\0');
    snapshot_unref(snapshot);
    return unschedulable;
}

/* It can never fit, and the sentence contains these words. */
static void never(struct core_fixture *core, const struct request *request, const char *words)
{
    const struct unschedulable unschedulable = unschedulable_from(core, request);

    if (!unschedulable.never || strstr(unschedulable.never_text, words) == NULL)
        fail_msg("never %d: %s", unschedulable.never, unschedulable.never_text);
}

static void not_never(struct core_fixture *core, const struct request *request)
{
    const struct unschedulable unschedulable = unschedulable_from(core, request);

    if (unschedulable.never)
        fail_msg("%s", unschedulable.never_text);
}

CORE_TEST(each_reason_counts_its_nodes)
{
    static const struct core_gpu cordoned[] = {{.index = 0, .mib = 81920, .cordoned = true}};

    assert_int_equal(core_node(core, "full", four, 1), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "full", "800"), VERDICT_OK);
    assert_int_equal(core_node(core, "fuller", four, 2), VERDICT_OK);
    assert_int_equal(core_reserve(core, "b", "fuller", "900x2"), VERDICT_OK);
    assert_int_equal(core_node(core, "closed", cordoned, 1), VERDICT_OK);
    assert_int_equal(core_node(core, "small", half, 1), VERDICT_OK);
    const struct unschedulable unschedulable = unschedulable_from(core, core_request(core, "600"));
    assert_int_equal(unschedulable.nodes[REASON_ROOM], 2);
    assert_int_equal(unschedulable.nodes[REASON_CORDONED], 1);
    assert_int_equal(unschedulable.nodes[REASON_SMALL], 1);
    assert_int_equal(unschedulable.moment[REASON_ROOM].free_milli, 400);
    assert_int_equal(unschedulable.moment[REASON_ROOM].piece_milli, 200);
    assert_int_equal(unschedulable.moment[REASON_ROOM].gpus, 3);
    assert_int_equal(unschedulable.moment[REASON_CORDONED].closed[REASON_CORDONED], 1);
    assert_false(unschedulable.never);
}

/* As in the summary: nothing on such a node can be taken, so nothing there is free. */
CORE_TEST(what_is_left_on_a_closed_node_is_not_free)
{
    struct pod *whole = core_pod(core, "w", "n1");

    assert_int_equal(core_node(core, "n1", four, 4), VERDICT_OK);
    whole->ours = false;
    whole->whole_gpus = 1;
    assert_int_equal(core_adopt(core, whole, NULL), VERDICT_OK);
    const struct unschedulable unschedulable = unschedulable_from(core, core_request(core, "600"));
    assert_int_equal(unschedulable.nodes[REASON_MIXED], 1);
    assert_int_equal(unschedulable.moment[REASON_MIXED].free_milli, 0);
    assert_int_equal(unschedulable.moment[REASON_MIXED].closed[REASON_MIXED], 4);
}

CORE_TEST(numbers_of_the_moment_are_told)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct moment moment = {.gpus = 8, .open = 4, .free_milli = 640, .piece_milli = 220};

    strbuf_init(&text);
    moment.piece_mib = 4096;
    moment.closed[REASON_CORDONED] = 2;
    moment_format(&text, &moment);
    assert_string_equal(text.data,
                        "largest free piece 220 milli, 640 milli free on 4 of 8 GPUs, at "
                        "most 4096 MiB on one, 2 cordoned");
    assert_true(unschedulable_has_moment(REASON_NONE));
    assert_true(unschedulable_has_moment(REASON_MIXED));
    assert_false(unschedulable_has_moment(REASON_MODEL));
}

CORE_TEST(a_reason_is_told_by_what_lacks_or_by_what_closes)
{
    const struct request *request = core_request(core, "600");
    char text[REASON_BYTES_MAX];

    memset(text, 'x', sizeof text);
    unschedulable_reason_text(NULL, request, (struct cause){.why = REASON_NONE}, text);
    assert_string_equal(text, "");
    unschedulable_reason_text(NULL, request, (struct cause){.why = REASON_ROOM}, text);
    assert_string_equal(text, "no GPU with 600 milli free");
    unschedulable_reason_text(NULL, request, (struct cause){.why = REASON_CORDONED}, text);
    assert_string_equal(text, "the GPU is cordoned");
    unschedulable_reason_text(NULL, request, (struct cause){.why = REASON_SMALL}, text);
    assert_string_equal(text, "no GPU of 600 milli");
}

CORE_TEST(what_can_never_fit_is_told_with_what_is_there)
{
    static const char *h100[] = {"H100*"};

    never(core, core_request(core, "600"), "no node of this cluster has GPUs to share");
    assert_int_equal(core_node(core, "small", half, 1), VERDICT_OK);
    never(core, core_request(core, "600"), "no GPU of 600 milli; the largest has 500 milli");
    assert_int_equal(core_node(core, "n1", four, 4), VERDICT_OK);
    struct request other = *core_request(core, "100");
    other.models = 1;
    other.model = h100;
    never(core, &other, "no node has a GPU of model H100*; the nearest ");
    struct request large = *core_request(core, "300");
    large.memory_mib = 40000;
    never(core, &large, "; the most that comes with 300 milli is 24576 MiB");
    never(core, core_request(core, "8000"), "asks for 8, and no node has more than 4 that suit it");
    never(core, core_request(core, "3000+2000"), "even if a node were empty");
    assert_string_equal(unschedulable_from(core, core_request(core, "8000")).never_text,
                        "no node of this cluster, as it is, can ever serve it: fewer than 8 "
                        "suitable GPUs for 1000 milli each; one container asks for 8, and no node "
                        "has more than 4 that suit it");
    assert_string_equal(unschedulable_from(core, &other).never_text,
                        "no node has a GPU of model H100*; the nearest is NVIDIA A100");
}

CORE_TEST(memory_that_is_not_known_is_never_enough)
{
    static const struct core_gpu unknown[] = {{.index = 0}};

    assert_int_equal(core_node(core, "n1", unknown, 1), VERDICT_OK);
    struct request request = *core_request(core, "300");
    assert_string_equal(unschedulable_from(core, &request).never_text, "");
    request.memory_mib = 16384;
    assert_int_equal(unschedulable_from(core, &request).nodes[REASON_MEMORY_UNKNOWN], 1);
    assert_string_equal(unschedulable_from(core, &request).never_text,
                        "no node of this cluster, as it is, can ever serve it: no GPU whose memory "
                        "is known, and gpu-memory asks for 16384 MiB; label nvidia.com/gpu.memory "
                        "would tell it, or mib in milligpu.io/gpus");
}

CORE_TEST(where_shares_are_raised_the_whole_memory_counts)
{
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "raise");
    book->raise = true;
    struct policy_context *context = policy_context_of_rulebook(book, 0, NULL);
    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    rulebook_unref(book);
    assert_int_equal(core_node(core, "n1", four, 4), VERDICT_OK);
    struct request request = *core_request(core, "300");
    request.memory_mib = 81921;
    never(core, &request,
          "300 milli come with 81921 MiB, raised or not; the most that one has is "
          "81920 MiB");
    request.memory_mib = 81920; /* it would be raised to a whole one */
    assert_string_equal(unschedulable_from(core, &request).never_text, "");
    request = *core_request(core, "100x5");
    request.memory_mib = 81920;
    never(core, &request, "asks for 5, and no node has more than 4 that suit it");
}

/* Numbers of GPUs that the request cannot take would promise too much. */
CORE_TEST(what_is_told_is_of_gpus_that_suit)
{
    static const char *t4[] = {"T4"};
    static const struct core_gpu mixture[] = {{.index = 0, .milli = 500, .mib = 80000},
                                              {.index = 1, .milli = 1000, .mib = 10000},
                                              {.index = 2, .milli = 700, .mib = 7000}};
    struct inventory *inventory = core_inventory(core, "n1", "uid", mixture, 3);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    inventory->gpu[2].model = "T4";

    assert_int_equal(core_do(core, &command), VERDICT_OK);
    struct request request = *core_request(core, "600");
    request.memory_mib = 6001;
    never(core, &request, "; the most that comes with 600 milli is 6000 MiB");
    request = *core_request(core, "800+600");
    request.memory_mib = 20000;
    never(core, &request, "; the most that comes with 600 milli is 6000 MiB");
    request = *core_request(core, "1000");
    request.models = 1;
    request.model = t4;
    never(core, &request, "no GPU of 1000 milli; the largest has 700 milli");
    request = *core_request(core, "300+600x4");
    request.memory_mib = 3000; /* what 300 milli of the second and the third come with */
    never(core, &request, "one container asks for 4, and no node has more than 3 that suit it");
    struct want *want = arena_array(&core->arena, 2, sizeof *want);
    want[0] = (struct want){.container = "c0", .parts = 5, .milli = 1000};
    want[1] = (struct want){.container = "beyond", .parts = 9, .milli = 100};
    request = (struct request){.wants = 1, .want = want};
    never(core, &request, "one container asks for 5, and no node has more than 1 that suit it");
}

CORE_TEST(a_missing_gpu_may_come_back_whole)
{
    struct pod *pod = core_pod(core, "noted", "n2");

    assert_int_equal(core_node(core, "n2", half, 1), VERDICT_OK);
    core_note(core, pod, "c0 GPU-x 600 4915 3");
    (void)core_adopt(core, pod, "600");
    assert_int_equal(unschedulable_from(core, core_request(core, "1000")).nodes[REASON_ABSENT], 1);
    not_never(core, core_request(core, "1000"));
}

CORE_TEST(whoever_holds_a_node_may_leave_it)
{
    assert_int_equal(core_node(core, "n1", four, 1), VERDICT_OK);
    struct pod *whole = core_pod(core, "whole", "n1");
    whole->whole_gpus = 1;
    (void)core_adopt(core, whole, NULL);
    (void)core_adopt(core, core_pod(core, "share", "n1"), "300");
    const struct unschedulable unschedulable = unschedulable_from(core, core_request(core, "300"));
    assert_int_equal(unschedulable.nodes[REASON_MIXED], 1);
    assert_false(unschedulable.never);
    const struct request all = {.whole = 1};
    assert_int_equal(unschedulable_from(core, &all).nodes[REASON_NONE], 0);
    not_never(core, &all);
}

CORE_TEST(a_thousandth_of_a_gpu_is_a_size)
{
    static const struct core_gpu tiny[] = {{.index = 0, .milli = 1, .mib = 8}};

    assert_int_equal(core_node(core, "n1", tiny, 1), VERDICT_OK);
    never(core, core_request(core, "2"), "no GPU of 2 milli; the largest has 1 milli");
    not_never(core, core_request(core, "1"));
}

CORE_TEST(what_may_change_is_not_never)
{
    static const struct core_gpu sick[] = {{.index = 0, .mib = 81920, .sick = true}};
    static const struct core_gpu cordoned[] = {{.index = 0, .mib = 81920, .cordoned = true}};
    const struct request *request = core_request(core, "600");

    assert_int_equal(core_node(core, "sick", sick, 1), VERDICT_OK);
    not_never(core, request);
    assert_int_equal(core_node(core, "sick", cordoned, 1), VERDICT_OK);
    not_never(core, request);
    assert_int_equal(core_node(core, "sick", four, 1), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "sick", "1000"), VERDICT_OK);
    not_never(core, request);
    /* A node that is gone is no longer part of the cluster, although a pod holds its GPU. */
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "sick"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    never(core, request, "no node of this cluster has GPUs");
}

/* --- against a cluster that is really empty --- */

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(seed >> 33) % below;
}

enum { WALK_NODES = 4 };

/* The same nodes in both; in the first with pods, sick and cordoned GPUs. */
static void draw_cluster(struct core_fixture *used, struct core_fixture *empty)
{
    static const char *const words[] = {"300", "500", "1000", "200x2", "2000"};
    const uint32_t nodes = 1 + draw(WALK_NODES);

    for (uint32_t n = 0; n < nodes; n++) {
        struct core_gpu gpu[4] = {{0}};
        char name[16];
        const uint32_t gpus = 1 + draw(4);
        (void)snprintf(name, sizeof name, "n%u", n);
        for (uint32_t i = 0; i < gpus; i++) {
            const uint32_t size = draw(3);
            gpu[i] = (struct core_gpu){
                .index = i, .milli = size == 0 ? 500 : 1000, .mib = 8192 * (1 + draw(3))};
        }
        assert_int_equal(core_node(empty, name, gpu, gpus), VERDICT_OK);
        for (uint32_t i = 0; i < gpus; i++) {
            const uint32_t trouble = draw(6);
            gpu[i].sick = trouble == 0;
            gpu[i].cordoned = trouble == 1;
        }
        assert_int_equal(core_node(used, name, gpu, gpus), VERDICT_OK);
        for (uint32_t pod = 0; pod < 3; pod++) {
            char uid[32];
            const uint32_t asks = draw(ARRAY_LEN(words));
            (void)snprintf(uid, sizeof uid, "%s-p%u", name, pod);
            (void)core_reserve(used, uid, name, words[asks]);
        }
    }
}

static struct request draw_request(struct core_fixture *core)
{
    static const char *const words[] = {"300",   "600",       "1000",     "2000",    "4000",
                                        "5000",  "200x2",     "600x2",    "500x4",   "1000+1000",
                                        "i2000", "700+600x2", "3000+300", "400+400", "2000+2000"};
    struct request request = *core_request(core, words[draw(ARRAY_LEN(words))]);

    request.memory_mib = draw(3) == 0 ? 1024 * draw(20) : 0;
    return request;
}

TEST(never_is_what_an_empty_cluster_refuses_too)
{
    const char *given = getenv("SURVEY_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    const int steps = walk_steps(2000, 300);
    int nevers = 0;
    int waits = 0;

    seed = given != NULL ? strtoull(given, NULL, 10) : 42;
    print_message("SURVEY_SEED=%llu\n", (unsigned long long)seed);
    for (int i = 0; i < steps; i++) {
        struct core_fixture used;
        struct core_fixture empty;
        core_init(&used);
        core_init(&empty);
        draw_cluster(&used, &empty);
        const struct request request = draw_request(&used);
        const struct unschedulable unschedulable = unschedulable_from(&used, &request);
        const struct unschedulable best = unschedulable_from(&empty, &request);
        const bool fits = best.nodes[REASON_NONE] > 0 || best.nodes[REASON_UNSEARCHED] > 0;
        assert_int_equal(unschedulable.never, !fits);
        nevers += unschedulable.never;
        waits += !unschedulable.never && unschedulable.nodes[REASON_NONE] == 0;
        core_done(&used);
        core_done(&empty);
    }
    assert_true(nevers > 0 && waits > 0);
}

/* Nodes of two GPUs each, in this order; the last may have one. */
static void show_models(struct core_fixture *core, const char *const *model, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += 2) {
        const uint32_t gpus = i + 1 < count ? 2 : 1;
        const struct core_gpu gpu[] = {
            {.id = arena_printf(&core->arena, "GPU-%u", i), .index = 0, .mib = 1000},
            {.id = arena_printf(&core->arena, "GPU-%u", i + 1), .index = 1, .mib = 1000},
        };
        struct inventory *inventory =
            core_inventory(core, arena_printf(&core->arena, "node-%02u", i), "uid", gpu, gpus);
        for (uint32_t k = 0; k < gpus; k++)
            inventory->gpu[k].model = model[i + k];
        const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
        (void)core_do(core, &command);
    }
}

/* The request asks for the models that are not NULL. */
static const char *missing_model(struct core_fixture *core, const char *first, const char *second,
                                 size_t bytes)
{
    const char *model[] = {first, second};
    struct request *request = core_request(core, "300");
    char *text = arena_alloc(&core->arena, bytes);
    struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    memset(text, 'x', bytes);
    request->model = model;
    request->models = first == NULL ? 0 : second == NULL ? 1 : 2;
    unschedulable_missing_model(snapshot, request, text, bytes);
    snapshot_unref(snapshot);
    return text;
}

CORE_TEST(a_model_that_no_gpu_is_of_names_the_nearest)
{
    assert_string_equal(missing_model(core, "T5", NULL, 256), "no node has a GPU of model T5");
    static const char *const models[] = {
        "H100-80GB-HBM3", "Tesla-T4",       "", "Tesla-T4", "L4", "A100-SXM4-80GB",
        "A100-PCIE-40GB", "H100-80GB-HBM3", "X"};
    show_models(core, models, 1);
    assert_string_equal(missing_model(core, "T5", NULL, 256),
                        "no node has a GPU of model T5; the nearest is H100-80GB-HBM3");
    show_models(core, models, ARRAY_LEN(models));
    assert_string_equal(missing_model(core, "T5", NULL, 256),
                        "no node has a GPU of model T5; the nearest are Tesla-T4, L4, X");
    assert_string_equal(missing_model(core, "H100-80GB-HBM2", NULL, 256),
                        "no node has a GPU of model H100-80GB-HBM2; the nearest are "
                        "H100-80GB-HBM3, A100-PCIE-40GB, A100-SXM4-80GB");
    assert_string_equal(missing_model(core, "A100-SXM", NULL, 256),
                        "no node has a GPU of model A100-SXM; the nearest are A100-SXM4-80GB, "
                        "X, A100-PCIE-40GB");
    assert_string_equal(missing_model(core, "L4-T4", NULL, 256),
                        "no node has a GPU of model L4-T4 (several models? separate them by "
                        "commas); the nearest are L4, Tesla-T4, X");
    assert_string_equal(missing_model(core, "A100", NULL, 256), ""); /* from the left */
    assert_string_equal(missing_model(core, "A10O", "L5", 256),
                        "no node has a GPU of model A10O or L5; the nearest are L4, "
                        "A100-PCIE-40GB, A100-SXM4-80GB");
    assert_string_equal(missing_model(core, "T5", NULL, 12), "no node ...");
    /* some node has such a GPU, or any model will do */
    assert_string_equal(missing_model(core, "T4", NULL, 256), "");
    assert_string_equal(missing_model(core, "A100*", "T5", 256), "");
    assert_string_equal(missing_model(core, NULL, NULL, 256), "");
}

CORE_TEST(models__of_the_cluster)
{
    static const char *const models[] = {"T4", "H100", "", "T4", "A100", "A100", "H100", "X"};
    const char *many[CLUSTER_MODELS_MAX + 1];
    struct cluster_models out;

    show_models(core, models, ARRAY_LEN(models));
    struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    cluster_models(snapshot, &out);
    snapshot_unref(snapshot);
    assert_int_equal(out.count, 4);
    assert_string_equal(out.model[0]->text, "A100");
    assert_string_equal(out.model[1]->text, "H100");
    assert_string_equal(out.model[2]->text, "T4");
    assert_string_equal(out.model[3]->text, "X");
    for (uint32_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = arena_printf(&core->arena, "B%03u", i);
    show_models(core, many, ARRAY_LEN(many));
    snapshot = ledger_publish(core->ledger, NULL, 0);
    cluster_models(snapshot, &out);
    snapshot_unref(snapshot);
    assert_int_equal(out.count, CLUSTER_MODELS_MAX);
    assert_string_equal(out.model[CLUSTER_MODELS_MAX - 1]->text, "B063");
}

CORE_TEST(no_more_than_64_models_are_compared)
{
    const char *models[66];
    for (uint32_t i = 0; i < 65; i++)
        models[i] = arena_printf(&core->arena, "B%03u", i);
    models[65] = "T9";
    char *longest = arena_alloc(&core->arena, MODEL_BYTES_MAX + 1);
    memset(longest, 'a', MODEL_BYTES_MAX);
    longest[MODEL_BYTES_MAX] = '\0';
    models[1] = longest;
    show_models(core, models, 66);
    assert_string_equal(missing_model(core, "B064x", NULL, 256),
                        "no node has a GPU of model B064x; the nearest are B004, B014, B024");
    assert_string_equal(missing_model(core, "B063x", NULL, 256),
                        "no node has a GPU of model B063x; the nearest are B063, B003, B013");
    assert_string_equal(missing_model(core, "T9", NULL, 256), "");
    assert_string_equal(missing_model(core, "aaaa", NULL, 91 + MODEL_BYTES_MAX),
                        arena_printf(&core->arena,
                                     "no node has a GPU of model aaaa; the nearest are %s, B000, "
                                     "B002",
                                     longest));
}
