/*
 * Rules of a policy document in filter, bind, preempt and summaries, with and without a score
 * cache.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"
#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/core/rules/window.h"

#include "support/core_fixture.h"
#include "support/pieces.h"
#include "support/rules.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/zones.h"

enum { RULES = 8, NODES = 3 };

/* A ledger, and a rulebook that the test fills before it puts it in force. */
struct scene {
    struct core_fixture core;
    struct rulebook *book;
    struct rule rule[RULES];
    struct workload *workload;
    struct score_cache *cache;
};

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    const struct workload_class class[] = {{.parts = 1, .milli = 300, .count = 3},
                                           {.parts = 2, .milli = 1000, .count = 1}};

    core_init(&scene->core);
    scene->workload = workload_new(class, ARRAY_LEN(class));
    scene->cache = score_cache_new();
    scene->book = rulebook_new(POLICY_BINPACK, "test");
    scene->book->rule = scene->rule;
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    score_cache_free(scene->cache);
    core_done(&scene->core);
    rulebook_unref(scene->book);
    workload_unref(scene->workload);
    xfree(scene);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, struct scene *scene, set_up, tear_down)

static void say(struct scene *scene, struct rule rule)
{
    assert_true(scene->book->n_rules < RULES);
    if (rule.name == NULL)
        rule.name = "a rule";
    scene->rule[scene->book->n_rules++] = rule;
}

static void enforce(struct scene *scene, rule_set holding)
{
    struct policy_context *context =
        policy_context_of_rulebook(scene->book, holding, scene->workload);

    ledger_set_policy_context(scene->core.ledger, context);
    policy_context_unref(context);
    ledger_assert_valid(scene->core.ledger);
}

static const struct core_gpu two_gpus[] = {{.index = 0, .mib = 16000}, {.index = 1, .mib = 16000}};

/* A node of two whole GPUs of a model, in a pool; "" has no labels. */
static void show_of(struct scene *scene, const char *name, const char *pool, const char *model,
                    enum verdict expected)
{
    static struct label label;
    struct inventory *inventory = core_inventory(&scene->core, name, "uid", two_gpus, 2);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    label = (struct label){"pool", pool};
    inventory->label = &label;
    inventory->n_labels = pool[0] != '\0';
    inventory->gpu[0].model = model;
    inventory->gpu[1].model = model;
    assert_int_equal(core_do(&scene->core, &command), expected);
}

static void show(struct scene *scene, const char *name, const char *pool)
{
    show_of(scene, name, pool, "T4", VERDICT_OK);
}

/* The answer of filter about nodes "a", "b" and "c", for a pod of a namespace. */
struct asked {
    struct arena arena;
    const struct snapshot *snapshot;
    struct text name[NODES];
    struct request *request;
    struct filter_answer answer;
};

static void ask(struct scene *scene, const char *words, const char *namespace, bool remembered,
                struct asked *out)
{
    static const char *const names[NODES] = {"a", "b", "c"};

    arena_init(&out->arena);
    out->snapshot = ledger_publish(scene->core.ledger, NULL, 0);
    out->request = core_request(&scene->core, words);
    out->request->rules = policy_context_rules(out->snapshot->context, text_of(namespace));
    for (uint32_t i = 0; i < NODES; i++)
        out->name[i] = text_of(names[i]);
    const struct filter_question question = {
        .snapshot = out->snapshot,
        .request = out->request,
        .n_names = NODES,
        .name = out->name,
        .cache = remembered ? scene->cache : NULL,
    };
    filter_ask(&question, &out->arena, &out->answer);
}

static void asked_done(struct asked *asked)
{
    snapshot_unref(asked->snapshot);
    arena_done(&asked->arena);
}

/*
 * The nodes on which the pod fits, best first: "ab". Asked without a score cache, then twice with
 * it; all three answers are the same.
 */
static const char *fits(struct scene *scene, const char *words, const char *namespace)
{
    static char said[NODES + 1];
    char again[NODES + 1];
    struct asked asked;

    for (int round = 0; round < 3; round++) {
        ask(scene, words, namespace, round > 0, &asked);
        for (uint32_t i = 0; i < asked.answer.n_candidates; i++)
            again[i] = asked.answer.candidate[i].node->name->text[0];
        again[asked.answer.n_candidates] = '\0';
        if (round > 0)
            assert_string_equal(again, said);
        (void)snprintf(said, sizeof said, "%s", again);
        asked_done(&asked);
    }
    return said;
}

/* Each of the words, separated by blanks, fits on these nodes. */
static void all_fit(struct scene *scene, const char *words, const char *nodes)
{
    for (struct pieces list = {.rest = text_of(words)}; pieces_next(&list, ' ');)
        if (strcmp(fits(scene, list.text, "x"), nodes) != 0)
            fail_msg("%s fits on \"%s\"", list.text, fits(scene, list.text, "x"));
}

static struct cause cause_on(struct scene *scene, const char *words, const char *namespace,
                             uint32_t node)
{
    struct asked asked;
    ask(scene, words, namespace, true, &asked);
    const struct cause cause = asked.answer.cause[node];
    asked_done(&asked);
    return cause;
}

static struct command reserve_of(const char *uid, const char *namespace, const char *node,
                                 const struct request *request)
{
    return (struct command){.kind = COMMAND_RESERVE,
                            .uid = uid,
                            .namespace = namespace,
                            .name = "pod",
                            .node = node,
                            .request = request};
}

static enum verdict bind_in(struct scene *scene, const char *uid, const char *namespace,
                            const char *node, const char *words)
{
    const struct command command =
        reserve_of(uid, namespace, node, core_request(&scene->core, words));
    return core_do(&scene->core, &command);
}

static const struct label training[] = {{"pool", "train*"}};
static const struct label training_now[] = {{"pool", "train*"}, {"pool", "inference"}};
static const struct label any_pool[] = {{"pool", "*"}};
static const char *const teams[] = {"team-*", "ops"};
static const char *a100[] = {"A100*"};
static const char *t4[] = {"T4"};

static void three_pools(struct scene *scene)
{
    show(scene, "a", "training");
    show(scene, "b", "inference");
    show(scene, "c", "");
}

/* Puts the rules in force, over a, b and c: a pool for training, one for inference, no pool. */
static void enforce_on_pools(struct scene *scene)
{
    enforce(scene, RULES_ALL);
    three_pools(scene);
}

/* The same with this rule alone. */
static void rule_on_pools(struct scene *scene, struct rule rule)
{
    say(scene, rule);
    enforce_on_pools(scene);
}

/* This rule alone in force, and one node. */
static void rule_on_one_node(struct scene *scene, struct rule rule)
{
    say(scene, rule);
    enforce(scene, RULES_ALL);
    show(scene, "a", "");
}

static uint32_t idle(const struct scene *scene, uint32_t rule)
{
    return ledger_policy_context(scene->core.ledger)->idle[rule];
}

/* Asks filter again, after the request was changed. */
static void ask_again(struct asked *asked, uint32_t nodes)
{
    const struct filter_question question = {.snapshot = asked->snapshot,
                                             .request = asked->request,
                                             .n_names = nodes,
                                             .name = asked->name};
    filter_ask(&question, &asked->arena, &asked->answer);
}

/*
 * Nodes and pods of a rule
 */

SCENE_TEST(rule__applies_to_nodes_with_its_labels)
{
    rule_on_pools(scene, (struct rule){.n_labels = 1, .label = training, .whole = true});
    assert_string_equal(fits(scene, "300", "x"), "bc");
    assert_string_equal(fits(scene, "1000", "x"), "abc");
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_REFUSED);
    assert_int_equal(scene->core.reason, REASON_RULE);
    assert_int_equal(bind_in(scene, "p", "x", "b", "300"), VERDICT_OK);
    assert_int_equal(bind_in(scene, "q", "x", "a", "1000"), VERDICT_OK);
}

SCENE_TEST(rule__with_two_labels_needs_both)
{
    rule_on_pools(scene, (struct rule){.n_labels = 2, .label = training_now, .whole = true});
    assert_string_equal(fits(scene, "300", "x"), "abc");
}

SCENE_TEST(rule__applies_to_pods_of_its_namespaces)
{
    rule_on_pools(scene, (struct rule){.n_namespaces = 2, .namespace = teams, .min_milli = 500});
    assert_string_equal(fits(scene, "300", "team-a"), "");
    assert_string_equal(fits(scene, "300", "ops"), "");
    assert_string_equal(fits(scene, "300", "ops-2"), "abc");
    assert_string_equal(fits(scene, "500", "team-a"), "abc");
    assert_int_equal(bind_in(scene, "p", "team-a", "a", "499"), VERDICT_REFUSED);
    assert_int_equal(bind_in(scene, "p", "default", "a", "499"), VERDICT_OK);
}

SCENE_TEST(rule__first_match_wins_alone)
{
    say(scene, (struct rule){.n_labels = 1,
                             .label = training,
                             .n_namespaces = 2,
                             .namespace = teams,
                             .min_milli = 200});
    say(scene, (struct rule){.n_labels = 1, .label = any_pool, .step_milli = 250});
    say(scene, (struct rule){.whole = true});
    enforce_on_pools(scene);
    /* Node a has the first rule, b the second, c the third. */
    assert_string_equal(fits(scene, "300", "team-a"), "a");
    assert_string_equal(fits(scene, "250", "team-a"), "ab");
    assert_string_equal(fits(scene, "250", "x"), "ab");
    assert_string_equal(fits(scene, "300", "x"), "");
    struct change change;
    const struct command bind = reserve_of("p", "x", "b", core_request(&scene->core, "300"));
    assert_int_equal(ledger_decide(scene->core.ledger, &bind, &change), VERDICT_REFUSED);
    assert_int_equal(change.reason, REASON_RULE);
    assert_int_equal(change.rule, 1);
    /* A policy with a score cache names the same rules, in the first answer and the next. */
    scene->book->policy = POLICY_ROLLOUT;
    enforce(scene, RULES_ALL);
    for (int round = 0; round < 2; round++)
        for (uint32_t node = 0; node < NODES; node++) {
            const struct cause cause = cause_on(scene, "100", "team-a", node);
            assert_int_equal(cause.why, REASON_RULE);
            assert_int_equal(cause.rule, node);
        }
}

SCENE_TEST(rule__outside_its_hours_is_ignored)
{
    say(scene, (struct rule){.whole = true});
    say(scene, (struct rule){.min_milli = 400});
    enforce(scene, 0);
    three_pools(scene);
    assert_string_equal(fits(scene, "300", "x"), "abc");
    enforce(scene, one_rule(1));
    assert_string_equal(fits(scene, "300", "x"), "");
    assert_int_equal(cause_on(scene, "300", "x", 0).rule, 1);
    assert_string_equal(fits(scene, "400", "x"), "abc");
    enforce(scene, RULES_ALL);
    assert_string_equal(fits(scene, "400", "x"), "");
}

static uint64_t capacity_generation(struct scene *scene)
{
    struct snapshot *snapshot = ledger_publish(scene->core.ledger, NULL, 0);
    const uint64_t generation = snapshot->capacity_generation;

    snapshot_unref(snapshot);
    return generation;
}

SCENE_TEST(capacity_generation__grows_when_rules_change)
{
    rule_on_pools(scene, (struct rule){.whole = true});
    const uint64_t first = capacity_generation(scene);
    assert_int_equal(capacity_generation(scene), first);
    enforce(scene, RULES_ALL); /* the same again */
    assert_int_equal(capacity_generation(scene), first);
    enforce(scene, 0);
    const uint64_t second = capacity_generation(scene);
    assert_true(second > first);
    ledger_set_policy_context(scene->core.ledger, NULL);
    assert_true(capacity_generation(scene) > second);
}

/*
 * Demands of a rule
 */

SCENE_TEST(rule__is_met_by_each_container)
{
    rule_on_pools(scene, (struct rule){.n_sizes = 3, .size = {250, 500, 1000}});
    all_fit(scene, "250 1000 500x2", "abc");
    all_fit(scene, "750 250+300 i300+250", "");
    scene->rule[0] = (struct rule){.name = "r", .min_milli = 200, .step_milli = 100};
    enforce(scene, RULES_ALL);
    all_fit(scene, "200 300+200 2000", "abc");
    all_fit(scene, "199 100 300+250 150x2", "");
}

SCENE_TEST(rule_models__limit_the_gpus)
{
    struct asked asked;
    say(scene, (struct rule){.n_models = 1, .model = a100});
    enforce(scene, RULES_ALL);
    show_of(scene, "a", "", "NVIDIA-A100-SXM4-80GB", VERDICT_OK);
    show_of(scene, "b", "", "T4", VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
    assert_int_equal(cause_on(scene, "300", "x", 1).why, REASON_RULE);
    all_fit(scene, "300+200 2000", "a");
    /* A request for T4s fits on neither node; a node without T4s has that reason. */
    ask(scene, "300", "x", false, &asked);
    asked.request->n_models = 1;
    asked.request->model = t4;
    ask_again(&asked, 2);
    assert_int_equal(asked.answer.n_candidates, 0);
    assert_int_equal(asked.answer.cause[0].why, REASON_MODEL);
    assert_int_equal(asked.answer.cause[1].why, REASON_RULE);
    asked_done(&asked);
}

/* Node a with a piece of a T4, in which shares fit tighter, and an A100. */
static void show_two_models(struct scene *scene)
{
    static const struct core_gpu gpu[] = {{.index = 0, .milli = 400, .mib = 8000},
                                          {.index = 1, .mib = 80000}};
    struct inventory *inventory = core_inventory(&scene->core, "a", "uid", gpu, 2);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    inventory->gpu[0].model = "T4";
    inventory->gpu[1].model = "A100-80GB";
    assert_int_equal(core_do(&scene->core, &command), VERDICT_OK);
}

SCENE_TEST(rule_models__choose_among_the_gpus_of_a_node)
{
    say(scene, (struct rule){.n_models = 1, .model = a100});
    enforce(scene, RULES_ALL);
    show_two_models(scene);
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-1")->reserved_milli, 300);
    assert_int_equal(bind_in(scene, "q", "x", "a", "200+100"), VERDICT_OK);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-1")->reserved_milli, 600);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-0")->reserved_milli, 0);
}

SCENE_TEST(rule__ignores_whole_gpus_of_the_other_resource)
{
    struct asked asked;
    rule_on_pools(scene, (struct rule){.whole = true, .min_milli = 700});
    ask(scene, "300", "x", false, &asked);
    asked.request->n_wants = 0;
    asked.request->whole = 1;
    ask_again(&asked, NODES);
    assert_int_equal(asked.answer.n_candidates, NODES);
    asked_done(&asked);
}

SCENE_TEST(rule__ignores_adopted_pods)
{
    struct pod *pod = core_pod(&scene->core, "p", "a");
    rule_on_pools(scene, (struct rule){.whole = true});
    assert_int_equal(core_adopt(&scene->core, pod, "300"), VERDICT_OK);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-0")->used_milli, 300);
}

SCENE_TEST(rule_models__differ_between_rules)
{
    say(scene, (struct rule){.n_labels = 1, .label = training, .n_models = 1, .model = a100});
    say(scene, (struct rule){.n_models = 1, .model = t4});
    enforce(scene, RULES_ALL);
    show_of(scene, "a", "training", "A100", VERDICT_OK);
    show_of(scene, "b", "", "A100", VERDICT_OK);
    show_of(scene, "c", "training", "A100", VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "ac");
    assert_int_equal(cause_on(scene, "300", "x", 1).rule, 1);
}

/* The rule forbids the T4, and the pod does not request the A100. */
SCENE_TEST(rule_models__do_not_replace_the_requested_model)
{
    struct request *request = core_request(&scene->core, "300");
    const struct command bind = reserve_of("p", "x", "a", request);
    say(scene, (struct rule){.n_models = 1, .model = a100});
    enforce(scene, RULES_ALL);
    show_two_models(scene);
    request->n_models = 1;
    request->model = t4;
    assert_int_equal(core_do(&scene->core, &bind), VERDICT_REFUSED);
    assert_int_equal(scene->core.reason, REASON_RULE);
}

SCENE_TEST(rule__applies_to_a_node_of_one_gpu)
{
    static const char *const h100[] = {"H100"};
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 8000}};
    say(scene, (struct rule){.n_models = 1, .model = h100});
    enforce(scene, RULES_ALL);
    assert_int_equal(core_node(&scene->core, "a", gpu, 1), VERDICT_OK);
    assert_int_equal(cause_on(scene, "300", "x", 0).why, REASON_RULE);
    scene->rule[0] = (struct rule){.name = "r", .whole = true};
    assert_int_equal(cause_on(scene, "300", "x", 0).why, REASON_RULE);
}

SCENE_TEST(rule_takes_model__is_true_without_models)
{
    char name[MODEL_BYTES_MAX + 1];
    const struct rule any = {.name = "any"};
    const struct rule some = {.n_models = 1, .model = a100};
    static const char *const two[] = {"T4", "?*"};
    const struct rule all = {.n_models = 2, .model = two};
    memset(name, 'A', sizeof name);
    assert_true(rule_takes_model(&any, TEXT("T4")));
    assert_true(rule_takes_model(&any, (struct text){name, sizeof name}));
    assert_true(rule_takes_model(&some, TEXT("NVIDIA A100-SXM4-80GB")));
    assert_false(rule_takes_model(&some, TEXT("T4")));
    assert_true(rule_takes_model(&all, TEXT("H100")));
    assert_true(rule_takes_model(&all, (struct text){name, MODEL_BYTES_MAX}));
    assert_false(rule_takes_model(&all, (struct text){name, sizeof name})); /* no GPU has it */
}

static struct rulebook *book_of(const char *name, const char *digest, const char *document,
                                const char *rule)
{
    struct rulebook *book = rulebook_new(POLICY_SPREAD, name);

    book->digest = digest;
    book->document = text_of(document);
    if (rule != NULL)
        book->zone[book->n_zones++] = zones_of_rule("Made/Zone", rule);
    return book;
}

SCENE_TEST(rulebook_alike__compares_name_bytes_and_zones)
{
    struct rulebook *book = book_of("a", "d", "x", "<+01>-1");
    struct rulebook *others[] = {
        book_of("b", "d", "x", "<+01>-1"), book_of("a", "e", "x", "<+01>-1"),
        book_of("a", "d", "y", "<+01>-1"), book_of("a", "d", "", "<+01>-1"),
        book_of("a", "d", "x", "<+02>-2"), book_of("a", "d", "x", NULL),
    };
    struct rulebook *same = book_of("a", "d", "x", "<+01>-1");
    assert_true(rulebook_alike(book, book));
    assert_true(rulebook_alike(book, same));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_false(rulebook_alike(book, others[i]));
        assert_false(rulebook_alike(others[i], book));
    }
    /* The second zone counts like the first. */
    book->zone[book->n_zones++] = zones_of_rule("Made/Zone", "<+03>-3");
    same->zone[same->n_zones++] = zones_of_rule("Made/Zone", "<+03>-3");
    assert_true(rulebook_alike(book, same));
    others[0]->name = "a";
    others[0]->zone[others[0]->n_zones++] = zones_of_rule("Made/Zone", "<+04>-4");
    assert_false(rulebook_alike(book, others[0]));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        rulebook_unref(others[i]);
    rulebook_unref(same);
    rulebook_unref(book);
}

SCENE_TEST(rulebook__begins_empty)
{
    struct rulebook *book = rulebook_new(POLICY_SPREAD, "mine");
    const struct window window = {.days = 1};
    struct rule rule[] = {{.name = "a"}, {.name = "b"}};
    assert_int_equal(book->policy, POLICY_SPREAD);
    assert_string_equal(book->name, "mine");
    assert_string_equal(book->digest, "");
    assert_int_equal(book->document.len, 0);
    assert_int_equal(rulebook_of_namespace(book, TEXT("x")), 0);
    assert_int_equal(rulebook_of_namespace(NULL, TEXT("x")), 0);
    assert_int_equal(rulebook_of_node(NULL, NULL), 0);
    book->rule = rule;
    book->n_rules = 2;
    assert_false(rulebook_has_windows(book));
    rule[0].window = &window;
    assert_true(rulebook_has_windows(book));
    rule[0].window = NULL;
    rule[1].window = &window;
    assert_true(rulebook_has_windows(book));
    rule[1].has_order = true;
    rule[1].policy = POLICY_FGD;
    assert_true(rulebook_needs_workload(book));
    assert_int_equal(rulebook_of_namespace(book, TEXT("x")), 3);
    assert_int_equal(rulebook_number(book, &rule[1]), 2);
    assert_ptr_equal(rulebook_ref(book), book);
    rulebook_unref(book);
    assert_int_equal(rulebook_of_node(book, NULL), 3);
    rulebook_unref(book);
    rulebook_unref(NULL);
}

/* Rules only apply to GPUs. */
SCENE_TEST(node_without_gpus__keeps_no_labels)
{
    static const struct label label = {"pool", "training"};
    struct inventory *inventory = core_inventory(&scene->core, "a", "uid", NULL, 0);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    inventory->label = &label;
    inventory->n_labels = 1;
    assert_int_equal(core_do(&scene->core, &command), VERDICT_OK);
    assert_null(ledger_node(scene->core.ledger, TEXT("a"))->labels);
}

/* Other rules match the same nodes, so no node is replaced. */
SCENE_TEST(score_cache__is_void_under_other_rules)
{
    const struct rule strict = {.whole = true};
    struct rulebook *other = rulebook_with(POLICY_ROLLOUT, "other", &strict, 1);
    scene->book->policy = POLICY_ROLLOUT;
    rule_on_pools(scene, (struct rule){.min_milli = 100});
    assert_int_equal(strlen(fits(scene, "300", "x")), 3);
    struct policy_context *context = policy_context_of_rulebook(other, RULES_ALL, scene->workload);
    ledger_set_policy_context(scene->core.ledger, context);
    assert_string_equal(fits(scene, "300", "x"), "");
    policy_context_unref(context);
    rulebook_unref(other);
}

/*
 * Texts
 */

static void assert_refusal(struct scene *scene, const char *words, const char *expected)
{
    struct asked asked;
    struct refusal refusal;

    ask(scene, words, "x", true, &asked);
    assert_int_equal(asked.answer.cause[0].why, REASON_RULE);
    policy_refuse(asked.snapshot->context, asked.answer.cause[0], asked.request, &refusal);
    assert_int_equal(refusal.why, REASON_RULE);
    assert_string_equal(refusal.text, expected);
    asked_done(&asked);
}

SCENE_TEST(refusal__names_the_rule_and_its_demand)
{
    static const char *const two[] = {"A100*", "H100"};
    rule_on_pools(
        scene, (struct rule){.name = "night", .whole = true, .min_milli = 100, .step_milli = 50});
    assert_refusal(scene, "300", "policy rule 1 (night): only whole GPUs here");
    scene->rule[0].whole = false;
    assert_refusal(scene, "50", "policy rule 1 (night): shares of at least 100 milli here");
    assert_refusal(scene, "125", "policy rule 1 (night): shares in steps of 50 milli here");
    scene->rule[0].n_sizes = 3;
    scene->rule[0].size[0] = 250;
    scene->rule[0].size[1] = 500;
    scene->rule[0].size[2] = 1000;
    assert_refusal(scene, "300", "policy rule 1 (night): shares of 250, 500 or 1000 milli here");
    scene->rule[0].n_models = 1;
    scene->rule[0].model = two + 1;
    assert_refusal(scene, "500", "policy rule 1 (night): only GPUs of model H100");
    scene->rule[0].n_models = 2;
    scene->rule[0].model = two;
    assert_refusal(scene, "500", "policy rule 1 (night): only GPUs of model A100* or H100");
}

struct texts {
    uint32_t count;
    char text[NODES][REASON_BYTES_MAX];
};

static void keep_refusal(void *user, struct text name, const char *text)
{
    struct texts *texts = user;
    (void)name;
    assert_true(texts->count < NODES);
    (void)snprintf(texts->text[texts->count++], REASON_BYTES_MAX, "%s", text);
}

static struct unschedulable unschedulable_asked(struct asked *asked)
{
    const struct unschedulable_question question = {asked->request, &(struct node_demands){0}};
    struct unschedulable unschedulable;

    unschedulable_of(asked->snapshot, &question, &asked->arena, &unschedulable);
    return unschedulable;
}

static struct unschedulable unschedulable_from(struct scene *scene, const char *words)
{
    struct asked asked;

    ask(scene, words, "x", false, &asked);
    const struct unschedulable unschedulable = unschedulable_asked(&asked);
    asked_done(&asked);
    return unschedulable;
}

SCENE_TEST(refusal__names_the_rule_of_each_node)
{
    static const char one[] = "policy rule 1 (one): only whole GPUs here";
    static const char two[] = "policy rule 2 (two): shares of at least 400 milli here";
    struct texts texts = {0};
    struct asked asked;
    char text[REASON_BYTES_MAX];
    say(scene, (struct rule){.name = "one", .n_labels = 1, .label = training, .whole = true});
    say(scene, (struct rule){.name = "two", .min_milli = 400});
    enforce_on_pools(scene);
    ask(scene, "300", "x", false, &asked);
    struct filter_question question = {
        .snapshot = asked.snapshot, .request = asked.request, .n_names = NODES, .name = asked.name};
    filter_refusals(&question, &asked.answer, 100, &texts, keep_refusal);
    assert_int_equal(texts.count, 3);
    assert_string_equal(texts.text[0], one);
    assert_string_equal(texts.text[1], two);
    assert_string_equal(texts.text[2], two);
    /* Beyond the number of names each text comes once. */
    texts.count = 0;
    filter_refusals(&question, &asked.answer, 2, &texts, keep_refusal);
    assert_int_equal(texts.count, 2);
    assert_non_null(strstr(texts.text[1], "rule 2 (two)"));
    /* An operator reads how many nodes each rule refuses. */
    const struct unschedulable unschedulable = unschedulable_asked(&asked);
    assert_int_equal(unschedulable.nodes[REASON_RULE], 3);
    assert_int_equal(unschedulable.rule_nodes[0], 1);
    assert_int_equal(unschedulable.rule_nodes[1], 2);
    unschedulable_reason_text(asked.snapshot->context, asked.request,
                              (struct cause){REASON_RULE, 1}, text);
    assert_string_equal(text, two);
    assert_true(unschedulable.never);
    assert_non_null(strstr(unschedulable.never_text, "policy rule 1 (one)"));
    filter_explain(asked.snapshot->context, snapshot_node(asked.snapshot, TEXT("a")), asked.request,
                   text, sizeof text);
    assert_string_equal(text, "rule: policy rule 1 (one): only whole GPUs here");
    asked_done(&asked);
}

SCENE_TEST(unschedulable__is_not_never_for_hours_or_a_reserve)
{
    const struct window window = {.days = 1, .minutes = 60};
    rule_on_pools(scene, (struct rule){.reserve = 3});
    assert_int_equal(unschedulable_from(scene, "300").nodes[REASON_RESERVE], 3);
    assert_false(unschedulable_from(scene, "300").never);
    scene->rule[0] = (struct rule){.name = "r", .whole = true, .window = &window};
    assert_int_equal(unschedulable_from(scene, "300").nodes[REASON_RULE], 3);
    assert_false(unschedulable_from(scene, "300").never);
    scene->rule[0].window = NULL;
    assert_true(unschedulable_from(scene, "300").never);
    scene->rule[0] = (struct rule){.name = "r"};
}

/*
 * Idle hosts in reserve
 */

SCENE_TEST(reserve__keeps_idle_hosts_for_pods_of_several_gpus)
{
    rule_on_pools(scene, (struct rule){.reserve = 2});
    /* Three hosts are idle and two are kept, so one may be opened. */
    assert_string_equal(fits(scene, "300", "x"), "abc");
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
    assert_int_equal(cause_on(scene, "300", "x", 1).why, REASON_RESERVE);
    assert_string_equal(fits(scene, "1000", "x"), "a");
    assert_int_equal(bind_in(scene, "q", "x", "b", "1000"), VERDICT_REFUSED);
    assert_int_equal(scene->core.reason, REASON_RESERVE);
    assert_string_equal(fits(scene, "2000", "x"), "bc");
    assert_string_equal(fits(scene, "500x2", "x"), "abc");
    assert_int_equal(bind_in(scene, "q", "x", "b", "2000"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
    /* A release gives the host back; an undone release does not. */
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "q"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "p"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "abc");
    core_undo(&scene->core);
    assert_string_equal(fits(scene, "300", "x"), "a");
    core_undo(&scene->core);
    core_undo(&scene->core);
    core_undo(&scene->core); /* the grant of p */
    assert_string_equal(fits(scene, "300", "x"), "abc");
}

SCENE_TEST(reserve__counts_the_hosts_of_its_rule)
{
    say(scene, (struct rule){.n_labels = 1, .label = any_pool, .reserve = 1});
    say(scene, (struct rule){.reserve = 1});
    enforce_on_pools(scene);
    assert_int_equal(bind_in(scene, "o", "x", "c", "300"), VERDICT_OK);
    assert_int_equal(idle(scene, 0), 2);
    assert_int_equal(idle(scene, 1), 2);
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "o"), VERDICT_OK);
    /* Setting the same policy context again does not count twice. */
    const struct policy_context *same =
        policy_context_ref(ledger_policy_context(scene->core.ledger));
    ledger_set_policy_context(scene->core.ledger, same);
    assert_int_equal(idle(scene, 0), 2);
    assert_int_equal(idle(scene, 1), 3);
    policy_context_unref(same);
    /* All three count for the second rule, which wins on c alone. */
    assert_string_equal(fits(scene, "300", "x"), "abc");
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "ac");
    assert_int_equal(bind_in(scene, "q", "x", "b", "2000"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
}

/* The first 63 rules are about other nodes; the last one keeps hosts. */
SCENE_TEST(reserve__works_for_the_last_of_64_rules)
{
    static const struct label elsewhere = {"pool", "elsewhere"};
    struct rule rule[RULES_MAX];
    for (uint32_t i = 0; i < RULES_MAX; i++)
        rule[i] = (struct rule){.n_labels = 1, .label = &elsewhere, .reserve = 1};
    rule[RULES_MAX - 1] = (struct rule){.reserve = 2};
    rulebook_unref(scene->book);
    scene->book = rulebook_with(POLICY_BINPACK, "full", rule, RULES_MAX);
    enforce_on_pools(scene);
    assert_int_equal(idle(scene, RULES_MAX - 1), 3);
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_int_equal(idle(scene, RULES_MAX - 1), 2);
    assert_string_equal(fits(scene, "300", "x"), "a");
    assert_int_equal(cause_on(scene, "300", "x", 1).why, REASON_RESERVE);
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "p"), VERDICT_OK);
    assert_int_equal(idle(scene, RULES_MAX - 1), 3);
    assert_string_equal(fits(scene, "300", "x"), "abc");
    for (uint32_t i = 0; i < RULES_MAX - 1; i++)
        assert_int_equal(idle(scene, i), 0);
}

static bool last_gave_room(const struct scene *scene)
{
    return change_gives_room(&scene->core.done[scene->core.n_done - 1]);
}

/* The first pod of several GPUs opens its host to small pods. */
SCENE_TEST(reserve__gives_room_when_a_host_stops_being_idle)
{
    three_pools(scene);
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_false(last_gave_room(scene)); /* no rule could have kept it */
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "p"), VERDICT_OK);
    say(scene, (struct rule){.reserve = 3});
    enforce(scene, RULES_ALL);
    assert_string_equal(fits(scene, "300", "x"), "");
    assert_int_equal(bind_in(scene, "p", "x", "a", "2000"), VERDICT_OK);
    assert_true(last_gave_room(scene));
    assert_int_equal(core_step(&scene->core, COMMAND_CONFIRM, "p"), VERDICT_OK);
    assert_false(last_gave_room(scene));
}

SCENE_TEST(reserve__is_counted_anew_beside_a_score_cache)
{
    scene->book->policy = POLICY_ROLLOUT;
    rule_on_pools(scene, (struct rule){.reserve = 1});
    const struct policy_context *before =
        policy_context_ref(ledger_policy_context(scene->core.ledger));
    assert_int_equal(before->idle[0], 3);
    assert_true(before->scarcity_price[0] > 0);
    (void)fits(scene, "300", "x");
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_int_equal(bind_in(scene, "q", "x", "b", "300"), VERDICT_OK);
    assert_int_equal(idle(scene, 0), 1);
    assert_int_equal(before->idle[0], 3); /* a filter may still read it */
    assert_int_equal(ledger_policy_context(scene->core.ledger)->scarcity_price[0],
                     before->scarcity_price[0]);
    assert_int_equal(cause_on(scene, "300", "x", 2).why, REASON_RESERVE);
    assert_int_equal(strlen(fits(scene, "300", "x")), 2);
    policy_context_unref(before);
}

/* Why 300 milli do not fit on node a even without pod p. */
static enum reason preempt_p(struct scene *scene)
{
    const struct text victim[] = {TEXT("p")};
    struct asked asked;

    ask(scene, "300", "x", false, &asked);
    const struct node *node = snapshot_node(asked.snapshot, TEXT("a"));
    const enum reason why =
        preempt_ask(asked.snapshot->context, node, asked.request, NULL, victim, 1);
    asked_done(&asked);
    return why;
}

SCENE_TEST(reserve__stays_closed_when_victims_leave_the_host_idle)
{
    rule_on_one_node(scene, (struct rule){.reserve = 1});
    assert_int_equal(preempt_p(scene), REASON_RESERVE); /* it is idle already */
    assert_int_equal(bind_in(scene, "p", "x", "a", "2000"), VERDICT_OK);
    /* Without p one host is idle, and that one is kept. */
    assert_int_equal(preempt_p(scene), REASON_RESERVE);
    show(scene, "b", "");
    assert_int_equal(preempt_p(scene), REASON_NONE);
}

/* A pod that tolerates the cordon may go there, with victims as without. */
SCENE_TEST(reserve__does_not_count_a_cordoned_host_left_by_victims)
{
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    struct inventory *inventory = core_inventory(&scene->core, "a", "uid", two_gpus, 2);
    inventory->taints.unschedulable = true;
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    assert_int_equal(core_do(&scene->core, &command), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
    assert_int_equal(bind_in(scene, "p", "x", "a", "2000"), VERDICT_OK);
    assert_int_equal(preempt_p(scene), REASON_NONE);
}

/* Why a bind to node a is refused; filter says the same. */
static enum reason why_asked(struct scene *scene, struct request *request)
{
    const struct policy_context *context = ledger_policy_context(scene->core.ledger);
    struct placement placement = {.n_parts = 1};
    struct room room;
    struct plan plan;
    struct rank rank;
    const struct command bind = reserve_of("w", "x", "a", request);
    request->rules = policy_context_rules(context, TEXT("x"));
    room_of(ledger_node(scene->core.ledger, TEXT("a")), &room);
    plan_init(&plan, request, context);
    const enum reason judged = place_evaluate(&plan, &room, &rank);
    assert_int_equal(place_find(&plan, &room, &rank, &placement), judged);
    assert_true((placement.n_parts > 0) == (judged == REASON_NONE && request->n_wants > 0));
    const enum verdict verdict = core_do(&scene->core, &bind);
    if (verdict == VERDICT_OK)
        core_undo(&scene->core);
    assert_int_equal(judged, verdict == VERDICT_OK ? REASON_NONE : scene->core.reason);
    return judged;
}

static enum reason why_whole(struct scene *scene, uint32_t whole)
{
    struct request *request = core_request(&scene->core, "300");
    request->n_wants = 0;
    request->whole = whole;
    return why_asked(scene, request);
}

SCENE_TEST(reserve__is_open_to_several_whole_gpus)
{
    rule_on_one_node(scene, (struct rule){.reserve = 1});
    assert_int_equal(why_whole(scene, 1), REASON_RESERVE);
    assert_int_equal(why_whole(scene, 2), REASON_NONE);
    assert_int_equal(why_whole(scene, 3), REASON_NONE);
    struct request *request = core_request(&scene->core, "300");
    assert_int_equal(why_asked(scene, request), REASON_RESERVE);
    request->whole = 1; /* beside a share, one whole GPU is the second */
    assert_int_equal(why_asked(scene, request), REASON_NONE);
}

/* The peak of its life counts: containers that run one after another may share a GPU. */
SCENE_TEST(reserve__is_open_to_pods_larger_than_one_gpu)
{
    static const struct {
        const char *words;
        enum reason why;
    } row[] = {
        {"1000", REASON_RESERVE},
        {"1000+1000", REASON_NONE},
        {"500+500", REASON_RESERVE},
        {"501+500", REASON_NONE},
        {"300x2", REASON_NONE},
        {"300x1", REASON_RESERVE},
        {"i1000+1000", REASON_RESERVE},
        {"i1000+i1000+1", REASON_RESERVE},
        {"s300+i700", REASON_RESERVE},
        {"s300+i701", REASON_NONE},
        {"i1000+500+500", REASON_RESERVE},
        {"s300+500+201", REASON_NONE},
        {"400+300+300", REASON_RESERVE},
        {"400+400+400", REASON_NONE},
        {"i1+i200x2+300", REASON_NONE},
    };
    rule_on_one_node(scene, (struct rule){.reserve = 1});
    for (uint32_t i = 0; i < ARRAY_LEN(row); i++) {
        const enum reason why = why_asked(scene, core_request(&scene->core, row[i].words));
        if (why != row[i].why)
            fail_msg("%s: %s", row[i].words, reason_name(why));
        assert_int_equal(cause_on(scene, row[i].words, "x", 0).why, why);
    }
}

/* Node a: two healthy T4s and an unhealthy A100, each of this size. */
static void show_mixture(struct scene *scene, uint32_t milli)
{
    const struct core_gpu gpu[] = {{.index = 0, .milli = milli, .mib = 16 * milli},
                                   {.index = 1, .milli = milli, .mib = 16 * milli},
                                   {.index = 2, .milli = milli, .mib = 16 * milli, .sick = true}};
    struct inventory *inventory = core_inventory(&scene->core, "a", "uid", gpu, 3);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    for (uint32_t i = 0; i < 3; i++)
        inventory->gpu[i].model = i < 2 ? "T4" : "A100";
    assert_int_equal(core_do(&scene->core, &command), VERDICT_OK);
    assert_int_equal(idle(scene, 0), 1);
}

/* The reserve is the reason only where the request could fit on the host at some time. */
SCENE_TEST(reserve__is_no_reason_where_the_host_never_fits)
{
    static const char *sick[] = {"A100"};
    static const char *h100[] = {"H100"};
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    show_mixture(scene, 1000);
    struct request *request = core_request(&scene->core, "300");
    assert_int_equal(why_asked(scene, request), REASON_RESERVE);
    request->n_models = 1;
    request->model = h100;
    assert_int_equal(why_asked(scene, request), REASON_MODEL);
    request->model = sick; /* unhealthy now */
    assert_int_equal(why_asked(scene, request), REASON_RESERVE);
    request->n_models = 0;
    request->memory_mib = 4800;
    assert_int_equal(why_asked(scene, request), REASON_RESERVE);
    request->memory_mib = 4801;
    assert_int_equal(why_asked(scene, request), REASON_MEMORY);
    request = core_request(&scene->core, "300+100");
    request->memory_mib = 4800;
    assert_int_equal(why_asked(scene, request), REASON_MEMORY);
    show_mixture(scene, 400);
    assert_int_equal(why_asked(scene, core_request(&scene->core, "401")), REASON_SMALL);
    assert_int_equal(why_asked(scene, core_request(&scene->core, "400")), REASON_RESERVE);
    assert_int_equal(why_asked(scene, core_request(&scene->core, "300+300")), REASON_RESERVE);
    assert_int_equal(why_asked(scene, core_request(&scene->core, "300+300+300")), REASON_ROOM);
    assert_int_equal(unschedulable_from(scene, "401").nodes[REASON_SMALL], 1);
    assert_true(unschedulable_from(scene, "401").never);
    scene->rule[0].min_milli = 350;
    assert_int_equal(why_asked(scene, core_request(&scene->core, "300")), REASON_RULE);
    assert_int_equal(why_asked(scene, core_request(&scene->core, "350")), REASON_RESERVE);
}

/* The search ends early, but the reserve is known without it. */
SCENE_TEST(reserve__is_the_reason_when_the_search_ends_early)
{
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    show_mixture(scene, 400);
    struct request *request = core_request(&scene->core, "300+250+200");
    struct room room;
    struct plan plan;
    struct rank rank;
    room_of(ledger_node(scene->core.ledger, TEXT("a")), &room);
    request->rules = RULES_ALL;
    plan_init(&plan, request, NULL);
    plan.steps = 1;
    assert_int_equal(place_evaluate(&plan, &room, &rank), REASON_UNSEARCHED);
    plan_init(&plan, request, ledger_policy_context(scene->core.ledger));
    plan.steps = 1;
    assert_int_equal(place_evaluate(&plan, &room, &rank), REASON_RESERVE);
}

SCENE_TEST(reserve__is_explained_by_rule_and_host)
{
    static const struct label big[] = {{"pool", "training"}};
    struct asked asked;
    char text[REASON_BYTES_MAX];
    struct refusal refusal;
    say(scene, (struct rule){.name = "big", .n_labels = 1, .label = big, .reserve = 1});
    say(scene, (struct rule){.name = "rest", .reserve = 3});
    enforce_on_pools(scene);
    assert_int_equal(cause_on(scene, "300", "x", 0).rule, 0);
    assert_int_equal(cause_on(scene, "300", "x", 1).rule, 1);
    ask(scene, "300", "x", false, &asked);
    const struct unschedulable unschedulable = unschedulable_asked(&asked);
    assert_int_equal(unschedulable.nodes[REASON_RESERVE], 3);
    assert_int_equal(unschedulable.reserved[0].nodes, 1);
    assert_int_equal(unschedulable.reserved[1].nodes, 2);
    assert_int_equal(unschedulable.reserved[0].moment.gpus, 2);
    assert_int_equal(unschedulable.reserved[1].moment.gpus, 4);
    assert_int_equal(unschedulable.moment[REASON_RESERVE].gpus, 0);
    assert_int_equal(unschedulable.rule_nodes[0] + unschedulable.rule_nodes[1], 0);
    const struct policy_context *context = asked.snapshot->context;
    unschedulable_reason_text(context, asked.request, (struct cause){REASON_RESERVE, 0}, text);
    assert_string_equal(text, "policy rule 1 (big): keeps 1 idle host for pods of several GPUs, "
                              "and 1 is idle");
    unschedulable_reason_text(context, asked.request, (struct cause){REASON_RESERVE, 1}, text);
    assert_string_equal(text, "policy rule 2 (rest): keeps 3 idle hosts for pods of several GPUs, "
                              "and 3 are idle");
    filter_explain(context, snapshot_node(asked.snapshot, TEXT("a")), asked.request, text,
                   sizeof text);
    assert_string_equal(text, "reserve: policy rule 1 (big): keeps 1 idle host for pods of several "
                              "GPUs, and 1 is idle; largest free piece 1000 milli, 2000 milli free "
                              "on 2 of 2 GPUs, at most 16000 MiB on one");
    /* The answer to kube-scheduler depends on the request alone. */
    policy_refuse(context, (struct cause){REASON_RESERVE, 1}, asked.request, &refusal);
    assert_string_equal(refusal.text, "no GPU with 300 milli free");
    asked_done(&asked);
    /* The ledger names the rule, too. */
    const struct command bind = reserve_of("q", "x", "b", core_request(&scene->core, "300"));
    struct change change;
    assert_int_equal(ledger_decide(scene->core.ledger, &bind, &change), VERDICT_REFUSED);
    assert_int_equal(change.reason, REASON_RESERVE);
    assert_int_equal(change.rule, 1);
}

SCENE_TEST(idle_host__has_no_whole_gpus_of_the_other_resource)
{
    struct pod *pod = core_pod(&scene->core, "p", "a");
    pod->whole_gpus = 1;
    const struct command adopt = {
        .kind = COMMAND_ADOPT, .uid = "p", .namespace = "x", .name = "p", .node = "a", .pod = pod};
    rule_on_one_node(scene, (struct rule){.reserve = 1});
    assert_int_equal(idle(scene, 0), 1);
    assert_int_equal(core_do(&scene->core, &adopt), VERDICT_OK);
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("a"))->held_gpus, 1);
    assert_int_equal(idle(scene, 0), 0);
    /* The agent names the held GPU: the others take shares, but the host is not idle. */
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 16000, .held = "pod:p"},
                                          {.index = 1, .mib = 16000},
                                          {.index = 2, .mib = 16000}};
    assert_int_equal(core_node(&scene->core, "a", gpu, 3), VERDICT_OK);
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("a"))->unnamed_gpus, 0);
    assert_int_equal(idle(scene, 0), 0);
    assert_string_equal(fits(scene, "300", "x"), "a");
    /* The agent still reports the GPU as held, but the others are free. */
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "p"), VERDICT_OK);
    assert_int_equal(idle(scene, 0), 1);
    assert_string_equal(fits(scene, "300", "x"), "");
}

SCENE_TEST(idle_host__has_several_healthy_gpus)
{
    static const struct core_gpu one[] = {{.index = 0, .mib = 16000}};
    static const struct core_gpu sick[] = {{.index = 0, .mib = 16000, .sick = true},
                                           {.index = 1, .mib = 16000}};
    say(scene, (struct rule){.reserve = 3});
    enforce(scene, RULES_ALL);
    assert_int_equal(core_node(&scene->core, "a", one, 1), VERDICT_OK);
    assert_int_equal(core_node(&scene->core, "b", sick, 2), VERDICT_OK);
    show(scene, "c", "");
    assert_int_equal(idle(scene, 0), 1);
    assert_string_equal(fits(scene, "300", "x"), "ab");
    show_of(scene, "b", "", "T4", VERDICT_OK); /* repaired */
    assert_int_equal(idle(scene, 0), 2);
    assert_string_equal(fits(scene, "300", "x"), "a");
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "b"};
    assert_int_equal(core_do(&scene->core, &gone), VERDICT_OK);
    assert_int_equal(idle(scene, 0), 1);
    ledger_set_policy_context(scene->core.ledger, NULL); /* and its slot is empty */
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("a"))->rules, 0);
}

/*
 * Policies of pools
 */

SCENE_TEST(rule_policy__orders_its_pool)
{
    say(scene, (struct rule){
                   .n_labels = 1, .label = training, .has_order = true, .policy = POLICY_SPREAD});
    enforce(scene, RULES_ALL);
    show(scene, "a", "training");
    show(scene, "b", "training");
    for (uint32_t seed = 0; seed < 6;
         seed++) { /* with any seed, equals are in the order of names */
        scene->book->seed = seed;
        enforce(scene, 0);
        enforce(scene, RULES_ALL);
        assert_string_equal(fits(scene, "1000", "x"), "ab");
    }
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "ba"); /* the emptier one */
    enforce(scene, 0);
    assert_string_equal(fits(scene, "300", "x"), "ab");
    enforce(scene, RULES_ALL);
    assert_int_equal(bind_in(scene, "q", "x", "a", "300"), VERDICT_OK);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-0")->reserved_milli, 300);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-1")->reserved_milli, 300);
}

SCENE_TEST(rule_policy__comes_after_the_policy_of_the_document)
{
    static const struct label inference[] = {{"pool", "inference"}};
    say(scene, (struct rule){
                   .n_labels = 1, .label = training, .has_order = true, .policy = POLICY_ROLLOUT});
    say(scene, (struct rule){
                   .n_labels = 1, .label = inference, .has_order = true, .policy = POLICY_SPREAD});
    say(scene, (struct rule){.has_order = true, .policy = POLICY_BINPACK});
    enforce_on_pools(scene);
    assert_int_equal(bind_in(scene, "p", "x", "a", "500"), VERDICT_OK);
    all_fit(scene, "300 300+200", "cab");
    struct asked asked;
    ask(scene, "300", "x", false, &asked);
    assert_int_equal(asked.answer.candidate[0].rank.pool, 0);
    assert_int_equal(asked.answer.candidate[1].rank.pool, 1);
    assert_int_equal(asked.answer.candidate[2].rank.pool, 2);
    asked_done(&asked);
    /* A later rule with the policy of an earlier one is of the same pool. */
    scene->rule[2].policy = POLICY_ROLLOUT;
    enforce(scene, 0);
    enforce(scene, RULES_ALL);
    assert_string_equal(fits(scene, "300", "x"), "acb");
}

/* A cached judgement is recalled with its pool, here that of the only rule. */
SCENE_TEST(rule_policy__is_recalled_with_its_pool)
{
    const struct node *node[NODES];
    uint32_t slot[NODES];
    uint32_t hash[NODES];
    struct policy_brief brief[NODES];
    struct asked asked;
    struct plan plan;
    scene->book->policy = POLICY_ROLLOUT;
    say(scene, (struct rule){.has_order = true, .policy = POLICY_FGD});
    enforce_on_pools(scene);
    ask(scene, "300", "x", true, &asked);
    for (uint32_t i = 0; i < NODES; i++)
        hash[i] = text_hash(asked.name[i]);
    snapshot_nodes(asked.snapshot, NODES, asked.name, hash, node, slot);
    plan_init(&plan, asked.request, asked.snapshot->context);
    policy_recall(scene->cache, &plan, NODES, node, slot, brief);
    assert_int_equal(asked.answer.n_candidates, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        const struct candidate *candidate = &asked.answer.candidate[i];
        assert_int_equal(candidate->rank.pool, 1);
        assert_int_equal(brief[candidate->name].head.level, order_head_of(&candidate->rank).level);
    }
    asked_done(&asked);
}

SCENE_TEST(rule_policy__gets_its_workload)
{
    assert_false(rulebook_needs_workload(scene->book));
    say(scene, (struct rule){.n_labels = 1, .label = training, .whole = true});
    say(scene, (struct rule){.has_order = true, .policy = POLICY_FGD});
    assert_true(rulebook_needs_workload(scene->book));
    enforce(scene, RULES_ALL);
    assert_true(policy_context_needs_workload(ledger_policy_context(scene->core.ledger)));
    assert_true(policy_context_uses(ledger_policy_context(scene->core.ledger), POLICY_FGD));
    assert_false(policy_context_uses(ledger_policy_context(scene->core.ledger), POLICY_ROLLOUT));
    scene->rule[1].has_order = false;
    assert_false(rulebook_needs_workload(scene->book));
    scene->rule[0].has_order = true;
    scene->rule[0].policy = POLICY_ROLLOUT;
    assert_true(rulebook_needs_workload(scene->book));
    assert_true(policy_context_uses(ledger_policy_context(scene->core.ledger), POLICY_ROLLOUT));
    scene->rule[0].has_order = false;
    scene->book->policy = POLICY_ROLLOUT;
    assert_true(rulebook_needs_workload(scene->book));
    assert_false(policy_context_needs_workload(NULL));
    scene->book->policy = POLICY_BINPACK;
    enforce(scene, 0);
}

/*
 * Labels that change
 */

SCENE_TEST(labels__are_matched_again_when_they_change)
{
    rule_on_pools(scene, (struct rule){.n_labels = 1, .label = training, .whole = true});
    assert_string_equal(fits(scene, "300", "x"), "bc");
    show(scene, "a", "inference");
    assert_true(scene->core.done[scene->core.n_done - 1].unwritten);
    assert_true(change_gives_room(&scene->core.done[scene->core.n_done - 1]));
    assert_string_equal(fits(scene, "300", "x"), "abc");
    core_undo(&scene->core);
    assert_string_equal(fits(scene, "300", "x"), "bc");
    show_of(scene, "a", "training", "T4", VERDICT_SAME);
    show_of(scene, "a", "training", "P100", VERDICT_OK);
    assert_false(scene->core.done[scene->core.n_done - 1].unwritten);
    assert_string_equal(fits(scene, "300", "x"), "bc");
}

SCENE_TEST(labels__stay_through_other_changes)
{
    rule_on_pools(scene, (struct rule){.n_labels = 1, .label = training, .min_milli = 200});
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    const struct host host = {1000, 1000};
    assert_true(ledger_set_host(scene->core.ledger, TEXT("a"), &host));
    assert_string_equal(fits(scene, "100", "x"), "bc");
    /* Another rulebook is matched with the known nodes at once. */
    const struct rule rule = {.n_labels = 1, .label = any_pool, .min_milli = 900};
    struct rulebook *other = rulebook_with(POLICY_BINPACK, "other", &rule, 1);
    struct policy_context *context = policy_context_of_rulebook(other, RULES_ALL, NULL);
    ledger_set_policy_context(scene->core.ledger, context);
    assert_string_equal(fits(scene, "100", "x"), "c");
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("a"))->rules, 1);
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("c"))->rules, 0);
    ledger_assert_valid(scene->core.ledger);
    ledger_set_policy_context(scene->core.ledger, NULL);
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("a"))->rules, 0);
    assert_string_equal(fits(scene, "100", "x"), "abc");
    policy_context_unref(context);
    rulebook_unref(other);
}

SCENE_TEST(node_from_inventory__has_rules)
{
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}};
    struct inventory *inventory = core_inventory(&scene->core, "n", "uid", gpu, 1);
    const struct label label = {"pool", "training"};
    say(scene, (struct rule){.n_labels = 1, .label = training, .whole = true});
    inventory->label = &label;
    inventory->n_labels = 1;
    struct node *node =
        node_from_inventory(inventory, scene->book, ledger_names(scene->core.ledger));
    assert_int_equal(node->rules, 1);
    node_unref(node);
}
