#include <stdio.h>
#include <string.h>

#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/rank/policy.h"

#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static const struct core_gpu four[] = {{.index = 0, .mib = 81920},
                                       {.index = 1, .mib = 81920},
                                       {.index = 2, .mib = 81920},
                                       {.index = 3, .mib = 81920}};

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

/* The request can never fit, and the text contains these words. */
static void never(struct core_fixture *core, const struct request *request, const char *words)
{
    const struct unschedulable unschedulable = unschedulable_from(core, request);

    if (!unschedulable.never || strstr(unschedulable.never_text, words) == NULL)
        fail_msg("never %d: %s", unschedulable.never, unschedulable.never_text);
}

CORE_TEST(moment__is_written_with_its_numbers)
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

CORE_TEST(reason_text__names_the_amount_or_the_obstacle)
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

CORE_TEST(never__compares_all_memory_of_a_gpu_if_shares_are_raised)
{
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "raise");
    book->raise = true;
    core_obey(core, book, 0, NULL);
    assert_int_equal(core_node(core, "n1", four, 4), VERDICT_OK);
    struct request request = *core_request(core, "300");
    request.memory_mib = 81921;
    never(core, &request,
          "300 milli come with 81921 MiB, raised or not; the most that one has is "
          "81920 MiB");
    request.memory_mib = 81920; /* raised to a whole GPU */
    assert_string_equal(unschedulable_from(core, &request).never_text, "");
    request = *core_request(core, "100x5");
    request.memory_mib = 81920;
    never(core, &request, "asks for 5, and no node has more than 4 that suit it");
}

CORE_TEST(never__reads_no_container_past_the_last)
{
    struct want want[] = {{.container = "c0", .parts = 5, .milli = 1000},
                          {.container = "beyond", .parts = 9, .milli = 100}};
    const struct request request = {.n_wants = 1, .want = want};

    assert_int_equal(core_node(core, "n1", four, 4), VERDICT_OK);
    never(core, &request, "one container asks for 5, and no node has more than 4 that suit it");
}

/*
 * Compared with an empty cluster
 */

static uint64_t seed;

enum { WALK_NODES = 4 };

/* The same nodes in both; in the first with pods, sick and cordoned GPUs. */
static void draw_cluster(struct core_fixture *used, struct core_fixture *empty)
{
    static const char *const words[] = {"300", "500", "1000", "200x2", "2000"};
    const uint32_t nodes = 1 + draw_below(&seed, WALK_NODES);

    for (uint32_t n = 0; n < nodes; n++) {
        struct core_gpu gpu[4] = {{0}};
        char name[16];
        const uint32_t gpus = 1 + draw_below(&seed, 4);
        (void)snprintf(name, sizeof name, "n%u", n);
        for (uint32_t i = 0; i < gpus; i++) {
            const uint32_t size = draw_below(&seed, 3);
            gpu[i] = (struct core_gpu){.index = i,
                                       .milli = size == 0 ? 500 : 1000,
                                       .mib = 8192 * (1 + draw_below(&seed, 3))};
        }
        assert_int_equal(core_node(empty, name, gpu, gpus), VERDICT_OK);
        for (uint32_t i = 0; i < gpus; i++) {
            const uint32_t trouble = draw_below(&seed, 6);
            gpu[i].sick = trouble == 0;
            gpu[i].cordoned = trouble == 1;
        }
        assert_int_equal(core_node(used, name, gpu, gpus), VERDICT_OK);
        for (uint32_t pod = 0; pod < 3; pod++) {
            char uid[32];
            const uint32_t asks = draw_below(&seed, ARRAY_LEN(words));
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
    struct request request = *core_request(core, words[draw_below(&seed, ARRAY_LEN(words))]);

    request.memory_mib = draw_below(&seed, 3) == 0 ? 1024 * draw_below(&seed, 20) : 0;
    return request;
}

TEST(never__is_so_if_an_empty_cluster_refuses)
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
    request->n_models = first == NULL ? 0 : second == NULL ? 1 : 2;
    unschedulable_missing_model(snapshot, request, text, bytes);
    snapshot_unref(snapshot);
    return text;
}

CORE_TEST(missing_model__names_the_nearest_models)
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

CORE_TEST(cluster_models__are_sorted_and_limited)
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

CORE_TEST(missing_model__compares_at_most_64_models)
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
