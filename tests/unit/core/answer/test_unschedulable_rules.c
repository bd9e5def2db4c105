/* Which rules of the policy match no node of the cluster. */
#include <stdio.h>
#include <string.h>

#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/rank/policy.h"

#include "support/core_fixture.h"
#include "support/test.h"

/* A node with label pool=NAME, and a GPU of each of these models. */
static void show(struct core_fixture *core, const char *name, const char *const *model,
                 uint32_t gpus)
{
    struct core_gpu gpu[4] = {{0}};
    const struct label label = {"pool", name};

    assert_in_range(gpus, 1, ARRAY_LEN(gpu));
    for (uint32_t i = 0; i < gpus; i++)
        gpu[i] = (struct core_gpu){.index = i, .mib = 1000};
    struct inventory *inventory = core_inventory(core, name, "uid", gpu, gpus);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    for (uint32_t i = 0; i < gpus; i++)
        inventory->gpu[i].model = model[i];
    inventory->n_labels = 1;
    inventory->label = &label;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
}

static void unmatched(struct core_fixture *core, const struct rule *rule, uint32_t rules,
                      const char *want)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "p");

    strbuf_init(&text);
    book->rule = rule;
    book->n_rules = rules;
    struct policy_context *context = policy_context_of_rulebook(book, 0, NULL);
    ledger_set_policy_context(core->ledger, context);
    struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    cluster_unmatched_rules(snapshot, &text);
    assert_int_equal(text.len, strlen(want));
    if (text.len > 0)
        assert_string_equal(text.data, want);
    snapshot_unref(snapshot);
    policy_context_unref(context);
    rulebook_unref(book);
}

static const char *const abc[] = {"A", "B", "C"};
static const char *const ac[] = {"A", "C"};
static const char *const c[] = {"C"};
static const struct label n1[] = {{"pool", "n1"}};
static const struct label n2[] = {{"pool", "n2"}};
static const struct label n3[] = {{"pool", "n3"}};
static const struct label n4[] = {{"pool", "n4"}};

CORE_TEST(unmatched_rules__names_each_rule_without_nodes)
{
    /* The third is behind the end of the book. */
    static const struct rule rule[] = {{.name = "a", .n_labels = 1, .label = n2},
                                       {.name = "b", .n_labels = 1, .label = n3},
                                       {.name = "c", .n_labels = 1, .label = n4}};

    unmatched(core, rule, 2, ""); /* a cluster without nodes has no unmatched rules */
    show(core, "n1", abc, 1);
    unmatched(core, rule, 0, "");
    unmatched(core, rule, 2,
              "rule 1 (a), nodes: pool=n2 matches 0 nodes\n"
              "rule 2 (b), nodes: pool=n3 matches 0 nodes");
    show(core, "n2", abc, 1);
    unmatched(core, rule, 2, "rule 2 (b), nodes: pool=n3 matches 0 nodes");
    show(core, "n3", abc, 1);
    unmatched(core, rule, 2, "");
}

CORE_TEST(unmatched_rules__is_empty_without_a_policy)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    show(core, "n1", abc, 1);
    struct snapshot *published = ledger_publish(core->ledger, NULL, 0);
    struct snapshot bare = {.nodes = published->nodes};
    cluster_unmatched_rules(&bare, &text);
    assert_int_equal(text.len, 0);
    snapshot_unref(published);
}

/* One array takes the models of each node in turn: none may be seen on the next. */
CORE_TEST(unmatched_rules__does_not_mix_the_models_of_nodes)
{
    static const struct rule rule[] = {
        {.name = "1", .n_labels = 1, .label = n1, .n_models = 3, .model = abc},
        {.name = "2", .n_labels = 1, .label = n2, .n_models = 1, .model = c},
        {.name = "3", .n_labels = 1, .label = n3, .n_models = 1, .model = c},
        {.name = "4", .n_labels = 1, .label = n4, .n_models = 1, .model = c},
        {.name = "5", .n_labels = 1, .label = n4, .n_models = 1, .model = abc},
    };

    show(core, "n1", abc, 3);
    show(core, "n2", ac, 2);
    show(core, "n3", ac, 2);
    show(core, "n4", ac, 1);
    unmatched(core, rule, ARRAY_LEN(rule), "rule 4 (4), models: matches 0 of its 1 node");
}

CORE_TEST(unmatched_rules__ignores_gone_nodes)
{
    static const struct rule rule[] = {{.name = "a", .n_labels = 1, .label = n1},
                                       {.name = "b", .n_labels = 1, .label = n2}};
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};

    show(core, "n1", abc, 1);
    show(core, "n2", abc, 1);
    assert_int_equal(core_reserve(core, "p", "n1", "300"), VERDICT_OK);
    unmatched(core, rule, 2, "");
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    unmatched(core, rule, 2, "rule 1 (a), nodes: pool=n1 matches 0 nodes");
}

/* Pods made up GPUs before the node showed its own. */
CORE_TEST(unmatched_rules__reads_nodes_with_more_than_64_gpus)
{
    static const char *model_a[] = {"A"};
    static const char *model_b[] = {"B"};
    static const struct rule rule[] = {{.name = "a", .n_models = 1, .model = model_a},
                                       {.name = "b", .n_models = 1, .model = model_b}};

    core_make_up_gpus(core, "n1", GPUS_PER_NODE_MAX);
    show(core, "n1", ac, 2);
    assert_true(ledger_node(core->ledger, TEXT("n1"))->n_gpus > GPUS_PER_NODE_MAX);
    unmatched(core, rule, 2, "rule 2 (b), models: B matches 0 nodes");
}

/* 64 GPUs of different models, and one without a model that a pod made up. */
CORE_TEST(unmatched_rules__reads_as_many_models_as_gpus)
{
    struct core_gpu gpu[GPUS_PER_NODE_MAX];
    static const char *last[] = {"M63"};
    static const struct rule rule[] = {{.name = "a", .n_models = 1, .model = last}};

    core_make_up_gpus(core, "n1", 1);
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        gpu[i] = (struct core_gpu){
            .id = arena_printf(&core->arena, "GPU-%u", i), .index = i, .mib = 1000};
    struct inventory *inventory = core_inventory(core, "n1", "uid", gpu, GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        inventory->gpu[i].model = arena_printf(&core->arena, "M%u", i);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->n_gpus, GPUS_PER_NODE_MAX + 1);
    unmatched(core, rule, 1, "");
}
