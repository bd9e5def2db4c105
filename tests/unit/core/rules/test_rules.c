/*
 * The rules of a policy document, as every question meets them: filter, bind, preempt, the summary,
 * with and without what a score cache remembers.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"
#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/core/rules/window.h"

#include "support/core_fixture.h"
#include "support/rules.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/zones.h"

enum { RULES = 8, NODES = 3 };

/* A ledger, and a book that the test fills before it puts it in force. */
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
    assert_true(scene->book->rules < RULES);
    if (rule.name == NULL)
        rule.name = "a rule";
    scene->rule[scene->book->rules++] = rule;
}

static void enforce(struct scene *scene, rule_set holding)
{
    struct policy_context *context =
        policy_context_of_rulebook(scene->book, holding, scene->workload);

    ledger_set_policy_context(scene->core.ledger, context);
    policy_context_unref(context);
    ledger_assert_valid(scene->core.ledger);
}

/* A node of two whole GPUs of a model, in a pool; "" has no labels. */
static void show_of(struct scene *scene, const char *name, const char *pool, const char *model,
                    enum verdict expected)
{
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}, {.index = 1, .mib = 16000}};
    static struct label label;
    struct inventory *inventory = core_inventory(&scene->core, name, "uid", gpu, 2);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    label = (struct label){"pool", pool};
    inventory->label = &label;
    inventory->labels = pool[0] != '\0';
    inventory->gpu[0].model = model;
    inventory->gpu[1].model = model;
    assert_int_equal(core_do(&scene->core, &command), expected);
}

static void show(struct scene *scene, const char *name, const char *pool)
{
    show_of(scene, name, pool, "T4", VERDICT_OK);
}

/* What filter says of the nodes "a", "b" and "c", for a pod of this namespace. */
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
        .names = NODES,
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
 * The nodes on which it fits, best first: "ab". Cold and twice with a score cache it is the same,
 * and bind, the summary and the wake-up's question agree with it about each node.
 */
static const char *fits(struct scene *scene, const char *words, const char *namespace)
{
    static char said[NODES + 1];
    char again[NODES + 1];
    struct asked asked;

    for (int round = 0; round < 3; round++) {
        ask(scene, words, namespace, round > 0, &asked);
        for (uint32_t i = 0; i < asked.answer.candidates; i++)
            again[i] = asked.answer.candidate[i].node->name->text[0];
        again[asked.answer.candidates] = '\0';
        if (round > 0)
            assert_string_equal(again, said);
        (void)snprintf(said, sizeof said, "%s", again);
        asked_done(&asked);
    }
    return said;
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

static enum verdict bind_in(struct scene *scene, const char *uid, const char *namespace,
                            const char *node, const char *words)
{
    const struct command command = {.kind = COMMAND_RESERVE,
                                    .uid = uid,
                                    .namespace = namespace,
                                    .name = "pod",
                                    .node = node,
                                    .request = core_request(&scene->core, words)};
    return core_do(&scene->core, &command);
}

static const struct label training[] = {{"pool", "train*"}};
static const struct label training_now[] = {{"pool", "train*"}, {"pool", "inference"}};
static const struct label any_pool[] = {{"pool", "*"}};
static const char *const teams[] = {"team-*", "ops"};
static const char *const a100[] = {"A100*"};

static void three_pools(struct scene *scene)
{
    show(scene, "a", "training");
    show(scene, "b", "inference");
    show(scene, "c", "");
}

/*
 * Who a rule is about
 */

SCENE_TEST(a_rule_is_about_the_nodes_with_its_labels)
{
    say(scene, (struct rule){.labels = 1, .label = training, .whole = true});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_string_equal(fits(scene, "300", "x"), "bc");
    assert_string_equal(fits(scene, "1000", "x"), "abc");
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_REFUSED);
    assert_int_equal(scene->core.reason, REASON_RULE);
    assert_int_equal(bind_in(scene, "p", "x", "b", "300"), VERDICT_OK);
    assert_int_equal(bind_in(scene, "q", "x", "a", "1000"), VERDICT_OK);
}

SCENE_TEST(a_rule_is_about_the_pods_of_its_namespaces)
{
    say(scene, (struct rule){.namespaces = 2, .namespace = teams, .min_milli = 500});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_string_equal(fits(scene, "300", "team-a"), "");
    assert_string_equal(fits(scene, "300", "ops"), "");
    assert_string_equal(fits(scene, "300", "ops-2"), "abc");
    assert_string_equal(fits(scene, "500", "team-a"), "abc");
    assert_int_equal(bind_in(scene, "p", "team-a", "a", "499"), VERDICT_REFUSED);
    assert_int_equal(bind_in(scene, "p", "default", "a", "499"), VERDICT_OK);
}

SCENE_TEST(the_first_rule_that_matches_both_wins_alone)
{
    say(scene,
        (struct rule){
            .labels = 1, .label = training, .namespaces = 2, .namespace = teams, .min_milli = 200});
    say(scene, (struct rule){.labels = 1, .label = any_pool, .step_milli = 250});
    say(scene, (struct rule){.whole = true});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    /* On a the first, on b the second, on c the third. */
    assert_string_equal(fits(scene, "300", "team-a"), "a");
    assert_string_equal(fits(scene, "250", "team-a"), "ab");
    assert_string_equal(fits(scene, "250", "x"), "ab");
    assert_string_equal(fits(scene, "300", "x"), "");
    assert_int_equal(cause_on(scene, "100", "team-a", 0).rule, 0);
    assert_int_equal(cause_on(scene, "100", "team-a", 1).rule, 1);
    assert_int_equal(cause_on(scene, "100", "team-a", 2).rule, 2);
}

SCENE_TEST(a_rule_that_does_not_hold_now_says_nothing)
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

SCENE_TEST(what_changes_when_rules_change_may_fit)
{
    struct snapshot *before;
    struct snapshot *after;
    say(scene, (struct rule){.whole = true});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    before = ledger_publish(scene->core.ledger, NULL, 0);
    after = ledger_publish(scene->core.ledger, NULL, 0);
    assert_int_equal(before->capacity_generation, after->capacity_generation);
    snapshot_unref(before);
    enforce(scene, RULES_ALL); /* the same again */
    before = ledger_publish(scene->core.ledger, NULL, 0);
    assert_int_equal(before->capacity_generation, after->capacity_generation);
    snapshot_unref(after);
    enforce(scene, 0);
    after = ledger_publish(scene->core.ledger, NULL, 0);
    assert_true(after->capacity_generation > before->capacity_generation);
    snapshot_unref(before);
    ledger_set_policy_context(scene->core.ledger, NULL);
    before = ledger_publish(scene->core.ledger, NULL, 0);
    assert_true(before->capacity_generation > after->capacity_generation);
    snapshot_unref(before);
    snapshot_unref(after);
}

/*
 * What a rule demands
 */

SCENE_TEST(shares_are_of_the_sizes_that_are_handed_out)
{
    say(scene, (struct rule){.sizes = 3, .size = {250, 500, 1000}});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_string_equal(fits(scene, "250", "x"), "abc");
    assert_string_equal(fits(scene, "1000", "x"), "abc");
    assert_string_equal(fits(scene, "500x2", "x"), "abc");
    assert_string_equal(fits(scene, "750", "x"), "");
    assert_string_equal(fits(scene, "250+300", "x"), "");
    assert_string_equal(fits(scene, "i300+250", "x"), "");
}

SCENE_TEST(each_container_has_to_meet_the_demand)
{
    say(scene, (struct rule){.min_milli = 200, .step_milli = 100});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_string_equal(fits(scene, "200", "x"), "abc");
    assert_string_equal(fits(scene, "199", "x"), "");
    assert_string_equal(fits(scene, "100", "x"), "");
    assert_string_equal(fits(scene, "300+200", "x"), "abc");
    assert_string_equal(fits(scene, "300+250", "x"), "");
    assert_string_equal(fits(scene, "150x2", "x"), "");
    assert_string_equal(fits(scene, "2000", "x"), "abc");
}

SCENE_TEST(only_some_models_may_be_used)
{
    static const char *t4[] = {"T4"};
    struct asked asked;
    say(scene, (struct rule){.models = 1, .model = a100});
    enforce(scene, RULES_ALL);
    show_of(scene, "a", "", "NVIDIA-A100-SXM4-80GB", VERDICT_OK);
    show_of(scene, "b", "", "T4", VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
    assert_int_equal(cause_on(scene, "300", "x", 1).why, REASON_RULE);
    assert_string_equal(fits(scene, "300+200", "x"), "a");
    assert_string_equal(fits(scene, "2000", "x"), "a");
    /* Who asks for T4s gets neither: where there are none, that is the reason. */
    ask(scene, "300", "x", false, &asked);
    asked.request->models = 1;
    asked.request->model = t4;
    const struct filter_question question = {
        .snapshot = asked.snapshot, .request = asked.request, .names = 2, .name = asked.name};
    filter_ask(&question, &asked.arena, &asked.answer);
    assert_int_equal(asked.answer.candidates, 0);
    assert_int_equal(asked.answer.cause[0].why, REASON_MODEL);
    assert_int_equal(asked.answer.cause[1].why, REASON_RULE);
    asked_done(&asked);
}

SCENE_TEST(a_node_of_two_models_gives_the_one_that_the_rule_allows)
{
    static const struct core_gpu gpu[] = {{.index = 0, .milli = 400, .mib = 8000},
                                          {.index = 1, .mib = 80000}};
    struct inventory *inventory = core_inventory(&scene->core, "a", "uid", gpu, 2);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    say(scene, (struct rule){.models = 1, .model = a100});
    enforce(scene, RULES_ALL);
    inventory->gpu[0].model = "T4"; /* tighter */
    inventory->gpu[1].model = "A100-80GB";
    assert_int_equal(core_do(&scene->core, &command), VERDICT_OK);
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-1")->reserved_milli, 300);
    assert_int_equal(bind_in(scene, "q", "x", "a", "200+100"), VERDICT_OK);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-1")->reserved_milli, 600);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-0")->reserved_milli, 0);
}

SCENE_TEST(whole_gpus_of_the_other_resource_are_no_shares)
{
    struct asked asked;
    say(scene, (struct rule){.whole = true, .min_milli = 700});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    ask(scene, "300", "x", false, &asked);
    asked.request->wants = 0;
    asked.request->whole = 1;
    const struct filter_question question = {
        .snapshot = asked.snapshot, .request = asked.request, .names = NODES, .name = asked.name};
    filter_ask(&question, &asked.arena, &asked.answer);
    assert_int_equal(asked.answer.candidates, NODES);
    asked_done(&asked);
}

SCENE_TEST(what_runs_is_judged_by_no_rule)
{
    struct pod *pod = core_pod(&scene->core, "p", "a");
    say(scene, (struct rule){.whole = true});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_int_equal(core_adopt(&scene->core, pod, "300"), VERDICT_OK);
    assert_int_equal(core_gpu(&scene->core, "a", "a/gpu-0")->used_milli, 300);
}

SCENE_TEST(two_rules_may_allow_different_models)
{
    static const char *const t4[] = {"T4"};
    say(scene, (struct rule){.labels = 1, .label = training, .models = 1, .model = a100});
    say(scene, (struct rule){.models = 1, .model = t4});
    enforce(scene, RULES_ALL);
    show_of(scene, "a", "training", "A100", VERDICT_OK);
    show_of(scene, "b", "", "A100", VERDICT_OK);
    show_of(scene, "c", "training", "A100", VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "ac");
    assert_int_equal(cause_on(scene, "300", "x", 1).rule, 1);
}

/* Its T4 may not be used, its A100 was not asked for. */
SCENE_TEST(what_was_not_asked_for_does_not_help)
{
    static const char *t4[] = {"T4"};
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 8000}, {.index = 1, .mib = 80000}};
    struct inventory *inventory = core_inventory(&scene->core, "a", "uid", gpu, 2);
    struct request *request = core_request(&scene->core, "300");
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    const struct command bind = {.kind = COMMAND_RESERVE,
                                 .uid = "p",
                                 .namespace = "x",
                                 .name = "p",
                                 .node = "a",
                                 .request = request};
    say(scene, (struct rule){.models = 1, .model = a100});
    enforce(scene, RULES_ALL);
    inventory->gpu[0].model = "T4";
    inventory->gpu[1].model = "A100-80GB";
    assert_int_equal(core_do(&scene->core, &command), VERDICT_OK);
    request->models = 1;
    request->model = t4;
    assert_int_equal(core_do(&scene->core, &bind), VERDICT_REFUSED);
    assert_int_equal(scene->core.reason, REASON_RULE);
}

SCENE_TEST(a_node_of_one_gpu_has_rules_too)
{
    static const char *const h100[] = {"H100"};
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 8000}};
    say(scene, (struct rule){.models = 1, .model = h100});
    enforce(scene, RULES_ALL);
    assert_int_equal(core_node(&scene->core, "a", gpu, 1), VERDICT_OK);
    assert_int_equal(cause_on(scene, "300", "x", 0).why, REASON_RULE);
    scene->rule[0] = (struct rule){.name = "r", .whole = true};
    assert_int_equal(cause_on(scene, "300", "x", 0).why, REASON_RULE);
}

SCENE_TEST(a_rule_about_two_labels_needs_both)
{
    say(scene, (struct rule){.labels = 2, .label = training_now, .whole = true});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_string_equal(fits(scene, "300", "x"), "abc");
}

SCENE_TEST(a_rule_without_models_takes_any)
{
    char name[MODEL_BYTES_MAX + 1];
    const struct rule any = {.name = "any"};
    const struct rule some = {.models = 1, .model = a100};
    static const char *const two[] = {"T4", "?*"};
    const struct rule all = {.models = 2, .model = two};
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
        book->zone[book->zones++] = zones_of_rule("Made/Zone", rule);
    return book;
}

SCENE_TEST(books_are_alike_by_name_bytes_and_zones)
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
    book->zone[book->zones++] = zones_of_rule("Made/Zone", "<+03>-3");
    same->zone[same->zones++] = zones_of_rule("Made/Zone", "<+03>-3");
    assert_true(rulebook_alike(book, same));
    others[0]->name = "a";
    others[0]->zone[others[0]->zones++] = zones_of_rule("Made/Zone", "<+04>-4");
    assert_false(rulebook_alike(book, others[0]));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        rulebook_unref(others[i]);
    rulebook_unref(same);
    rulebook_unref(book);
}

SCENE_TEST(a_book_begins_empty)
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
    book->rules = 2;
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

/* It has no GPU that a rule could give away. */
SCENE_TEST(a_node_without_gpus_keeps_no_labels)
{
    static const struct label label = {"pool", "training"};
    struct inventory *inventory = core_inventory(&scene->core, "a", "uid", NULL, 0);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    inventory->label = &label;
    inventory->labels = 1;
    assert_int_equal(core_do(&scene->core, &command), VERDICT_OK);
    assert_null(ledger_node(scene->core.ledger, TEXT("a"))->labels);
}

SCENE_TEST(the_next_amount_that_a_rule_hands_out)
{
    const struct rule sizes = {.sizes = 2, .size = {250, 500}};
    const struct rule one = {.sizes = 1, .size = {500}};
    assert_int_equal(rule_next(&sizes, 100), 250);
    assert_int_equal(rule_next(&sizes, 251), 500);
    assert_int_equal(rule_next(&sizes, 501), 0);
    assert_int_equal(rule_next(&one, 300), 500);
    assert_int_equal(rule_next(&one, 600), 0);
}

/* Other rules match the same nodes, so no node is replaced. */
SCENE_TEST(what_was_remembered_of_other_rules_is_void)
{
    static const struct rule strict[] = {{.name = "s", .whole = true}};
    static const struct rule lax[] = {{.name = "l", .min_milli = 100}};
    struct rulebook *other = rulebook_new(POLICY_ROLLOUT, "other");
    scene->book->policy = POLICY_ROLLOUT;
    scene->book->rule = lax;
    scene->book->rules = 1;
    other->rule = strict;
    other->rules = 1;
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_int_equal(strlen(fits(scene, "300", "x")), 3);
    struct policy_context *context = policy_context_of_rulebook(other, RULES_ALL, scene->workload);
    ledger_set_policy_context(scene->core.ledger, context);
    assert_string_equal(fits(scene, "300", "x"), "");
    policy_context_unref(context);
    rulebook_unref(other);
}

SCENE_TEST(what_is_remembered_names_its_rule)
{
    scene->book->policy = POLICY_ROLLOUT;
    say(scene, (struct rule){.labels = 1, .label = training, .whole = true});
    say(scene, (struct rule){.labels = 1, .label = any_pool, .min_milli = 900});
    say(scene, (struct rule){.min_milli = 800});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    for (int round = 0; round < 2; round++)
        for (uint32_t node = 0; node < NODES; node++) {
            const struct cause cause = cause_on(scene, "300", "x", node);
            assert_int_equal(cause.why, REASON_RULE);
            assert_int_equal(cause.rule, node);
        }
}

SCENE_TEST(a_bind_is_told_which_rule_refused_it)
{
    struct change change;
    const struct command command = {.kind = COMMAND_RESERVE,
                                    .uid = "p",
                                    .namespace = "x",
                                    .name = "p",
                                    .node = "b",
                                    .request = core_request(&scene->core, "300")};
    say(scene, (struct rule){.labels = 1, .label = training, .whole = true});
    say(scene, (struct rule){.whole = true});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_int_equal(ledger_decide(scene->core.ledger, &command, &change), VERDICT_REFUSED);
    assert_int_equal(change.reason, REASON_RULE);
    assert_int_equal(change.rule, 1);
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

SCENE_TEST(a_refusal_names_the_rule_and_what_it_wants)
{
    static const char *const two[] = {"A100*", "H100"};
    say(scene, (struct rule){.name = "night", .whole = true, .min_milli = 100, .step_milli = 50});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_refusal(scene, "300", "policy rule 1 (night): only whole GPUs here");
    scene->rule[0].whole = false;
    assert_refusal(scene, "50", "policy rule 1 (night): shares of at least 100 milli here");
    assert_refusal(scene, "125", "policy rule 1 (night): shares in steps of 50 milli here");
    scene->rule[0].sizes = 3;
    scene->rule[0].size[0] = 250;
    scene->rule[0].size[1] = 500;
    scene->rule[0].size[2] = 1000;
    assert_refusal(scene, "300", "policy rule 1 (night): shares of 250, 500 or 1000 milli here");
    scene->rule[0].models = 1;
    scene->rule[0].model = two + 1;
    assert_refusal(scene, "500", "policy rule 1 (night): only GPUs of model H100");
    scene->rule[0].models = 2;
    scene->rule[0].model = two;
    assert_refusal(scene, "500", "policy rule 1 (night): only GPUs of model A100* or H100");
}

struct told {
    uint32_t count;
    char text[NODES][REASON_BYTES_MAX];
};

static void keep_refusal(void *user, struct text name, const char *text)
{
    struct told *told = user;
    (void)name;
    assert_true(told->count < NODES);
    (void)snprintf(told->text[told->count++], REASON_BYTES_MAX, "%s", text);
}

SCENE_TEST(each_rule_has_a_text_of_its_own)
{
    struct told told = {0};
    struct asked asked;
    say(scene, (struct rule){.name = "one", .labels = 1, .label = training, .whole = true});
    say(scene, (struct rule){.name = "two", .min_milli = 400});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    ask(scene, "300", "x", false, &asked);
    struct filter_question question = {
        .snapshot = asked.snapshot, .request = asked.request, .names = NODES, .name = asked.name};
    filter_refusals(&question, &asked.answer, 100, &told, keep_refusal);
    assert_int_equal(told.count, 3);
    assert_string_equal(told.text[0], "policy rule 1 (one): only whole GPUs here");
    assert_string_equal(told.text[1], "policy rule 2 (two): shares of at least 400 milli here");
    assert_string_equal(told.text[2], told.text[1]);
    /* Beyond the number of names each text comes once. */
    told.count = 0;
    filter_refusals(&question, &asked.answer, 2, &told, keep_refusal);
    assert_int_equal(told.count, 2);
    assert_non_null(strstr(told.text[1], "rule 2 (two)"));
    asked_done(&asked);
}

SCENE_TEST(an_operator_reads_which_rules_keep_a_pod_from_how_many_nodes)
{
    struct unschedulable unschedulable;
    struct asked asked;
    char text[REASON_BYTES_MAX];
    say(scene, (struct rule){.name = "one", .labels = 1, .label = training, .whole = true});
    say(scene, (struct rule){.name = "two", .min_milli = 400});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    ask(scene, "300", "x", false, &asked);
    unschedulable_of(asked.snapshot,
                     &(struct unschedulable_question){asked.request, &(struct node_demands){0}},
                     &asked.arena, &unschedulable);
    assert_int_equal(unschedulable.nodes[REASON_RULE], 3);
    assert_int_equal(unschedulable.rule_nodes[0], 1);
    assert_int_equal(unschedulable.rule_nodes[1], 2);
    unschedulable_reason_text(asked.snapshot->context, asked.request,
                              (struct cause){REASON_RULE, 1}, text);
    assert_string_equal(text, "policy rule 2 (two): shares of at least 400 milli here");
    assert_true(unschedulable.never);
    assert_non_null(strstr(unschedulable.never_text, "policy rule 1 (one)"));
    filter_explain(asked.snapshot->context, snapshot_node(asked.snapshot, TEXT("a")), asked.request,
                   text, sizeof text);
    assert_string_equal(text, "rule: policy rule 1 (one): only whole GPUs here");
    asked_done(&asked);
}

static struct unschedulable unschedulable_from(struct scene *scene, const char *words)
{
    struct unschedulable unschedulable;
    struct asked asked;
    ask(scene, words, "x", false, &asked);
    unschedulable_of(asked.snapshot,
                     &(struct unschedulable_question){asked.request, &(struct node_demands){0}},
                     &asked.arena, &unschedulable);
    asked_done(&asked);
    return unschedulable;
}

SCENE_TEST(what_only_the_hour_or_a_reserve_forbids_is_not_never)
{
    const struct window window = {.days = 1, .minutes = 60};
    say(scene, (struct rule){.reserve = 3});
    enforce(scene, RULES_ALL);
    three_pools(scene);
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

SCENE_TEST(idle_hosts_are_kept_for_pods_of_several_gpus)
{
    say(scene, (struct rule){.reserve = 2});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    /* Three are idle, two are kept: one may be opened. */
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
    /* An end gives the host back; an undone end does not. */
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

SCENE_TEST(a_reserve_counts_the_hosts_of_its_rule)
{
    say(scene, (struct rule){.labels = 1, .label = any_pool, .reserve = 1});
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_int_equal(bind_in(scene, "o", "x", "c", "300"), VERDICT_OK);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 2);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[1], 2);
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "o"), VERDICT_OK);
    /* The same policy context again counts nothing twice. */
    const struct policy_context *same =
        policy_context_ref(ledger_policy_context(scene->core.ledger));
    ledger_set_policy_context(scene->core.ledger, same);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 2);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[1], 3);
    policy_context_unref(same);
    /* All three count for the second rule, which wins on c alone. */
    assert_string_equal(fits(scene, "300", "x"), "abc");
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "ac");
    assert_int_equal(bind_in(scene, "q", "x", "b", "2000"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
}

/* The first 63 rules are about other nodes; the last one keeps hosts. */
SCENE_TEST(the_last_of_as_many_rules_as_there_may_be_keeps_its_reserve)
{
    static const struct label elsewhere = {"pool", "elsewhere"};
    struct rule rule[RULES_MAX];
    for (uint32_t i = 0; i < RULES_MAX; i++)
        rule[i] = (struct rule){.labels = 1, .label = &elsewhere, .reserve = 1};
    rule[RULES_MAX - 1] = (struct rule){.reserve = 2};
    rulebook_unref(scene->book);
    scene->book = rulebook_with(POLICY_BINPACK, "full", rule, RULES_MAX);
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[RULES_MAX - 1], 3);
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[RULES_MAX - 1], 2);
    assert_string_equal(fits(scene, "300", "x"), "a");
    assert_int_equal(cause_on(scene, "300", "x", 1).why, REASON_RESERVE);
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "p"), VERDICT_OK);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[RULES_MAX - 1], 3);
    assert_string_equal(fits(scene, "300", "x"), "abc");
    for (uint32_t i = 0; i < RULES_MAX - 1; i++)
        assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[i], 0);
}

static bool last_gave_room(const struct scene *scene)
{
    return change_gives_room(&scene->core.done[scene->core.dones - 1]);
}

/* What was kept for pods of several GPUs opens to others with the first of those. */
SCENE_TEST(a_host_that_is_idle_no_longer_is_room_for_small_pods)
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

SCENE_TEST(the_first_answer_of_a_policy_that_remembers_is_not_the_last)
{
    scene->book->policy = POLICY_ROLLOUT;
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    const struct policy_context *before =
        policy_context_ref(ledger_policy_context(scene->core.ledger));
    assert_int_equal(before->idle[0], 3);
    assert_true(before->price[0] > 0);
    (void)fits(scene, "300", "x");
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    assert_int_equal(bind_in(scene, "q", "x", "b", "300"), VERDICT_OK);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 1);
    assert_int_equal(before->idle[0], 3); /* a filter may still read it */
    assert_int_equal(ledger_policy_context(scene->core.ledger)->price[0], before->price[0]);
    assert_int_equal(cause_on(scene, "300", "x", 2).why, REASON_RESERVE);
    assert_int_equal(strlen(fits(scene, "300", "x")), 2);
    policy_context_unref(before);
}

SCENE_TEST(victims_that_leave_a_host_idle_do_not_open_the_reserve)
{
    const struct text victim[] = {TEXT("p")};
    struct asked asked;
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    show(scene, "a", "");
    ask(scene, "300", "x", false, &asked);
    assert_int_equal(preempt_ask(asked.snapshot->context, snapshot_node(asked.snapshot, TEXT("a")),
                                 asked.request, NULL, victim, 1),
                     REASON_RESERVE); /* it is idle already */
    asked_done(&asked);
    assert_int_equal(bind_in(scene, "p", "x", "a", "2000"), VERDICT_OK);
    ask(scene, "300", "x", false, &asked);
    const struct node *node = snapshot_node(asked.snapshot, TEXT("a"));
    /* Without p one host is idle, and that one is kept. */
    assert_int_equal(preempt_ask(asked.snapshot->context, node, asked.request, NULL, victim, 1),
                     REASON_RESERVE);
    asked_done(&asked);
    show(scene, "b", "");
    ask(scene, "300", "x", false, &asked);
    assert_int_equal(preempt_ask(asked.snapshot->context, snapshot_node(asked.snapshot, TEXT("a")),
                                 asked.request, NULL, victim, 1),
                     REASON_NONE);
    asked_done(&asked);
}

/* A pod that tolerates the cordon may go there, with victims as without. */
SCENE_TEST(a_host_that_victims_leave_is_no_reserve_while_it_is_cordoned)
{
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}, {.index = 1, .mib = 16000}};
    const struct text victim[] = {TEXT("p")};
    struct asked asked;
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    struct inventory *inventory = core_inventory(&scene->core, "a", "uid", gpu, 2);
    inventory->taints.unschedulable = true;
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    assert_int_equal(core_do(&scene->core, &command), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "a");
    assert_int_equal(bind_in(scene, "p", "x", "a", "2000"), VERDICT_OK);
    ask(scene, "300", "x", false, &asked);
    assert_int_equal(preempt_ask(asked.snapshot->context, snapshot_node(asked.snapshot, TEXT("a")),
                                 asked.request, NULL, victim, 1),
                     REASON_NONE);
    asked_done(&asked);
}

/* Why a bind to node a is refused; filter says the same. */
static enum reason why_asked(struct scene *scene, struct request *request)
{
    const struct policy_context *context = ledger_policy_context(scene->core.ledger);
    struct placement placement = {.parts = 1};
    struct room room;
    struct plan plan;
    struct rank rank;
    const struct command bind = {.kind = COMMAND_RESERVE,
                                 .uid = "w",
                                 .namespace = "x",
                                 .name = "w",
                                 .node = "a",
                                 .request = request};
    request->rules = policy_context_rules(context, TEXT("x"));
    room_of(ledger_node(scene->core.ledger, TEXT("a")), &room);
    plan_init(&plan, request, context);
    const enum reason judged = place_evaluate(&plan, &room, &rank);
    assert_int_equal(place_find(&plan, &room, &rank, &placement), judged);
    assert_true((placement.parts > 0) == (judged == REASON_NONE && request->wants > 0));
    const enum verdict verdict = core_do(&scene->core, &bind);
    if (verdict == VERDICT_OK)
        core_undo(&scene->core);
    assert_int_equal(judged, verdict == VERDICT_OK ? REASON_NONE : scene->core.reason);
    return judged;
}

static enum reason why_whole(struct scene *scene, uint32_t whole)
{
    struct request *request = core_request(&scene->core, "300");
    request->wants = 0;
    request->whole = whole;
    return why_asked(scene, request);
}

SCENE_TEST(whole_gpus_of_the_other_resource_count_as_several)
{
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    show(scene, "a", "");
    assert_int_equal(why_whole(scene, 1), REASON_RESERVE);
    assert_int_equal(why_whole(scene, 2), REASON_NONE);
    assert_int_equal(why_whole(scene, 3), REASON_NONE);
}

/* Beside any share, one whole GPU is the second. */
SCENE_TEST(a_share_and_a_whole_gpu_are_two)
{
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    show(scene, "a", "");
    struct request *request = core_request(&scene->core, "300");
    assert_int_equal(why_asked(scene, request), REASON_RESERVE);
    request->whole = 1;
    assert_int_equal(why_asked(scene, request), REASON_NONE);
}

/* By the peak of its life, as it asks: what runs one after another may use the same GPU. */
SCENE_TEST(a_pod_that_one_gpu_cannot_hold_may_use_the_reserve)
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
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    show(scene, "a", "");
    for (uint32_t i = 0; i < ARRAY_LEN(row); i++) {
        const enum reason why = why_asked(scene, core_request(&scene->core, row[i].words));
        if (why != row[i].why)
            fail_msg("%s: %s", row[i].words, reason_name(why));
        assert_int_equal(cause_on(scene, row[i].words, "x", 0).why, why);
    }
}

/* Two T4 that take shares; an A100 that does not, and a piece of one. */
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
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 1);
}

/* Never is not later: the reserve is the reason only where the host would do, now or later. */
SCENE_TEST(what_a_kept_host_can_never_serve_is_not_kept_from_it)
{
    static const char *sick[] = {"A100"};
    static const char *h100[] = {"H100"};
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    show_mixture(scene, 1000);
    struct request *request = core_request(&scene->core, "300");
    assert_int_equal(why_asked(scene, request), REASON_RESERVE);
    request->models = 1;
    request->model = h100;
    assert_int_equal(why_asked(scene, request), REASON_MODEL);
    request->model = sick; /* which is sick: it waits for both */
    assert_int_equal(why_asked(scene, request), REASON_RESERVE);
    request->models = 0;
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

/* The search ends before it knows; that the host is kept is known. */
SCENE_TEST(a_kept_host_that_is_not_searched_to_the_end_is_kept)
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

SCENE_TEST(an_operator_reads_which_rule_keeps_which_hosts)
{
    static const struct label big[] = {{"pool", "training"}};
    struct unschedulable unschedulable;
    struct asked asked;
    char text[REASON_BYTES_MAX];
    struct refusal refusal;
    say(scene, (struct rule){.name = "big", .labels = 1, .label = big, .reserve = 1});
    say(scene, (struct rule){.name = "rest", .reserve = 3});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_int_equal(cause_on(scene, "300", "x", 0).rule, 0);
    assert_int_equal(cause_on(scene, "300", "x", 1).rule, 1);
    ask(scene, "300", "x", false, &asked);
    unschedulable_of(asked.snapshot,
                     &(struct unschedulable_question){asked.request, &(struct node_demands){0}},
                     &asked.arena, &unschedulable);
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
    const struct command bind = {.kind = COMMAND_RESERVE,
                                 .uid = "q",
                                 .namespace = "x",
                                 .name = "q",
                                 .node = "b",
                                 .request = core_request(&scene->core, "300")};
    struct change change;
    assert_int_equal(ledger_decide(scene->core.ledger, &bind, &change), VERDICT_REFUSED);
    assert_int_equal(change.reason, REASON_RESERVE);
    assert_int_equal(change.rule, 1);
}

SCENE_TEST(a_host_with_whole_gpus_of_the_other_resource_is_not_idle)
{
    struct pod *pod = core_pod(&scene->core, "p", "a");
    pod->whole_gpus = 1;
    const struct command adopt = {
        .kind = COMMAND_ADOPT, .uid = "p", .namespace = "x", .name = "p", .node = "a", .pod = pod};
    say(scene, (struct rule){.reserve = 1});
    enforce(scene, RULES_ALL);
    show(scene, "a", "");
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 1);
    assert_int_equal(core_do(&scene->core, &adopt), VERDICT_OK);
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("a"))->held_gpus, 1);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 0);
    /* Its agent names the GPU: the others take shares, and still nobody could have the host. */
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 16000, .held = "pod:p"},
                                          {.index = 1, .mib = 16000},
                                          {.index = 2, .mib = 16000}};
    assert_int_equal(core_node(&scene->core, "a", gpu, 3), VERDICT_OK);
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("a"))->unnamed_gpus, 0);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 0);
    assert_string_equal(fits(scene, "300", "x"), "a");
    /* The agent is late, but the others are free. */
    assert_int_equal(core_step(&scene->core, COMMAND_RELEASE, "p"), VERDICT_OK);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 1);
    assert_string_equal(fits(scene, "300", "x"), "");
}

SCENE_TEST(what_nobody_could_have_for_itself_is_not_idle)
{
    static const struct core_gpu one[] = {{.index = 0, .mib = 16000}};
    static const struct core_gpu sick[] = {{.index = 0, .mib = 16000, .sick = true},
                                           {.index = 1, .mib = 16000}};
    say(scene, (struct rule){.reserve = 3});
    enforce(scene, RULES_ALL);
    assert_int_equal(core_node(&scene->core, "a", one, 1), VERDICT_OK);
    assert_int_equal(core_node(&scene->core, "b", sick, 2), VERDICT_OK);
    show(scene, "c", "");
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 1);
    assert_string_equal(fits(scene, "300", "x"), "ab");
    show_of(scene, "b", "", "T4", VERDICT_OK); /* repaired */
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 2);
    assert_string_equal(fits(scene, "300", "x"), "a");
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "b"};
    assert_int_equal(core_do(&scene->core, &gone), VERDICT_OK);
    assert_int_equal(ledger_policy_context(scene->core.ledger)->idle[0], 1);
    ledger_set_policy_context(scene->core.ledger, NULL); /* and its slot is empty */
    assert_int_equal(ledger_node(scene->core.ledger, TEXT("a"))->rules, 0);
}

/*
 * Policies of pools
 */

SCENE_TEST(a_pool_can_be_ordered_by_another_policy)
{
    say(scene,
        (struct rule){.labels = 1, .label = training, .has_order = true, .policy = POLICY_SPREAD});
    enforce(scene, RULES_ALL);
    show(scene, "a", "training");
    show(scene, "b", "training");
    for (uint32_t seed = 0; seed < 6; seed++) { /* equals by name, whatever the seed is */
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

SCENE_TEST(nodes_under_the_policy_of_the_document_come_before_those_of_rules)
{
    static const struct label inference[] = {{"pool", "inference"}};
    say(scene,
        (struct rule){.labels = 1, .label = training, .has_order = true, .policy = POLICY_ROLLOUT});
    say(scene,
        (struct rule){.labels = 1, .label = inference, .has_order = true, .policy = POLICY_SPREAD});
    say(scene, (struct rule){.has_order = true, .policy = POLICY_BINPACK});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_int_equal(bind_in(scene, "p", "x", "a", "500"), VERDICT_OK);
    assert_string_equal(fits(scene, "300", "x"), "cab");
    assert_string_equal(fits(scene, "300+200", "x"), "cab");
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

SCENE_TEST(a_policy_of_a_rule_gets_its_workload)
{
    assert_false(rulebook_needs_workload(scene->book));
    say(scene, (struct rule){.labels = 1, .label = training, .whole = true});
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

SCENE_TEST(a_label_that_changes_changes_who_is_let_in)
{
    say(scene, (struct rule){.labels = 1, .label = training, .whole = true});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_string_equal(fits(scene, "300", "x"), "bc");
    show(scene, "a", "inference");
    assert_true(scene->core.done[scene->core.dones - 1].unwritten);
    assert_true(change_gives_room(&scene->core.done[scene->core.dones - 1]));
    assert_string_equal(fits(scene, "300", "x"), "abc");
    core_undo(&scene->core);
    assert_string_equal(fits(scene, "300", "x"), "bc");
    show_of(scene, "a", "training", "T4", VERDICT_SAME);
    show_of(scene, "a", "training", "P100", VERDICT_OK);
    assert_false(scene->core.done[scene->core.dones - 1].unwritten);
    assert_string_equal(fits(scene, "300", "x"), "bc");
}

SCENE_TEST(labels_outlive_what_happens_to_their_node)
{
    say(scene, (struct rule){.labels = 1, .label = training, .min_milli = 200});
    enforce(scene, RULES_ALL);
    three_pools(scene);
    assert_int_equal(bind_in(scene, "p", "x", "a", "300"), VERDICT_OK);
    const struct host host = {1000, 1000};
    assert_true(ledger_set_host(scene->core.ledger, TEXT("a"), &host));
    assert_string_equal(fits(scene, "100", "x"), "bc");
    /* With another book the nodes are matched anew, though nobody shows them again. */
    struct rulebook *other = rulebook_new(POLICY_BINPACK, "other");
    struct rule rule = {.name = "r", .labels = 1, .label = any_pool, .min_milli = 900};
    other->rule = &rule;
    other->rules = 1;
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

SCENE_TEST(a_node_of_the_question_alone_has_rules_too)
{
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}};
    struct inventory *inventory = core_inventory(&scene->core, "n", "uid", gpu, 1);
    const struct label label = {"pool", "training"};
    say(scene, (struct rule){.labels = 1, .label = training, .whole = true});
    inventory->label = &label;
    inventory->labels = 1;
    struct node *node =
        node_from_inventory(inventory, scene->book, ledger_names(scene->core.ledger));
    assert_int_equal(node->rules, 1);
    node_unref(node);
}
