/* Runs tests/table/defrag.txt; the language is described at its top. */
#include <stdio.h>
#include <string.h>

#include "milligpu/core/answer/defrag.h"
#include "milligpu/core/rank/policy.h"

#include "support/ledger_table.h"
#include "support/plan_text.h"

enum { CLASSES_MAX = 4, NAMESPACES_MAX = 4, GPUS_MAX = 4 };

/* The parts of the ledger's policy. */
static struct {
    enum policy_kind kind;
    struct workload_class class[CLASSES_MAX];
    uint32_t classes;
    struct rule rule;
    const char *namespace[NAMESPACES_MAX];
} policy;

static void set_policy(struct table *table, uint32_t rules)
{
    struct workload *workload = workload_new(policy.class, policy.classes);
    struct rulebook *book = rulebook_new(policy.kind, "test");

    book->rule = &policy.rule;
    book->n_rules = rules;
    core_obey(&table->core, book, RULES_ALL, workload);
    workload_unref(workload);
}

static void learn(struct table *table)
{
    if (!policy_of_name(text_of(ledger_table_next(table)), &policy.kind))
        ledger_table_fail(table, "there is no policy '%s'", table->word[1]);
    policy.classes = 0;
    do {
        assert_true(policy.classes < CLASSES_MAX);
        struct workload_class *class = &policy.class[policy.classes++];
        const uint32_t count =
            ledger_table_next_is(table, "times") ? ledger_table_number(table) : 1;
        workload_class_of(ledger_table_request(table), class);
        class->count = count;
    } while (ledger_table_next_is(table, "and"));
    set_policy(table, 0);
    ledger_table_say(table, "ok");
}

static void rule(struct table *table)
{
    static const struct label kept = {"pool", "kept"};

    policy.rule =
        (struct rule){.name = "r", .n_labels = 1, .label = &kept, .namespace = policy.namespace};
    policy.rule.whole = ledger_table_next_is(table, "whole");
    if (ledger_table_next_is(table, "reserve"))
        policy.rule.reserve = ledger_table_number(table);
    while (ledger_table_next_is(table, "namespace")) {
        assert_true(policy.rule.n_namespaces < NAMESPACES_MAX);
        policy.namespace[policy.rule.n_namespaces++] =
            arena_copy(&table->core.arena, text_of(ledger_table_next(table)));
    }
    set_policy(table, 1);
    ledger_table_say(table, "ok");
}

static void show(struct table *table)
{
    while (ledger_table_has_more(table)) {
        struct core_gpu gpu[GPUS_MAX] = {{0}};
        char node[16] = "";
        uint32_t gpus = 0;
        if (sscanf(ledger_table_next(table), "%15[^/]/%u", node, &gpus) != 2 || gpus > GPUS_MAX)
            ledger_table_fail(table, "a node is NODE/GPUS");
        for (uint32_t i = 0; i < gpus; i++)
            gpu[i] = (struct core_gpu){.index = i, .mib = 40000};
        const struct command command = {
            .kind = COMMAND_NODE,
            .inventory = core_inventory(&table->core, node, node, gpu, gpus)}; /* uids differ */
        assert_int_equal(core_do(&table->core, &command), VERDICT_OK);
    }
    ledger_table_say(table, "ok");
}

static void host(struct table *table)
{
    const struct text node = text_of(ledger_table_next(table));
    struct host host = {HOST_UNKNOWN, HOST_UNKNOWN};

    if (!ledger_table_next_is(table, "-")) {
        host.cpu_milli = ledger_table_number(table);
        host.memory_mib = ledger_table_number(table);
    }
    ledger_table_say(table, ledger_set_host(table->core.ledger, node, &host) ? "ok" : "same");
}

static const struct request **asked_by(struct table *table, const char *uid)
{
    for (uint32_t i = table->n_asked; i > 0; i--)
        if (strcmp(table->asked[i - 1].uid, uid) == 0)
            return &table->asked[i - 1].request;
    return NULL;
}

static void ask(struct table *table)
{
    const char *uid = ledger_table_next(table);
    const struct request **asked = asked_by(table, uid);

    if (asked == NULL) {
        assert_true(table->n_asked < TABLE_PODS_MAX);
        table->asked[table->n_asked].uid = arena_copy(&table->core.arena, text_of(uid));
        asked = &table->asked[table->n_asked++].request;
    }
    *asked = ledger_table_next_is(table, "unknown") ? NULL : ledger_table_request(table);
    ledger_table_say(table, "ok");
}

static const struct request *request_of(void *user, const struct allocation *pod)
{
    const struct request **asked = asked_by(user, pod->facts.uid);

    return asked != NULL ? *asked : NULL;
}

/* [moves N] [gain N] */
static struct defrag_plan *next_plan(struct table *table, const struct snapshot *snapshot)
{
    struct defrag_question question = {.snapshot = snapshot,
                                       .moves = DEFRAG_MOVES_MAX,
                                       .min_gain_milli = 1,
                                       .steps = DEFRAG_STEPS_MAX,
                                       .user = table,
                                       .request_of = request_of};

    if (ledger_table_next_is(table, "moves"))
        question.moves = ledger_table_number(table);
    if (ledger_table_next_is(table, "gain"))
        question.min_gain_milli = ledger_table_number(table);
    return defrag_plan_new(&question);
}

static void say_numbers(struct table *table, const struct defrag_plan *plan)
{
    ledger_table_print(table, "%u free, fragments %u to %u, %u pods", (uint32_t)plan->free_milli,
                       (uint32_t)plan->fragment_milli, (uint32_t)plan->fragment_milli_after,
                       plan->pods);
    for (uint32_t i = 0; i < plan->n_shapes; i++)
        ledger_table_print(table, ", %u: %u to %u", plan->shape[i].class->milli,
                           (uint32_t)plan->shape[i].before, (uint32_t)plan->shape[i].after);
    if (!plan->learned)
        ledger_table_print(table, ", no workload");
}

static void say_nodes(struct table *table, const struct defrag_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_moves; i++) {
        const struct node *to = plan->move[i].to_node;
        ledger_table_print(table, "%s%s %u, %s %u", i > 0 ? "; " : "",
                           plan->move[i].from_node->name->text, plan->move[i].from_node->free_milli,
                           to->name->text, to->free_milli);
        if (to->host_known)
            ledger_table_print(table, " host %u %u", to->host.cpu_milli, to->host.memory_mib);
    }
}

static void plan(struct table *table)
{
    struct snapshot *snapshot = ledger_publish(table->core.ledger, NULL, 0);
    struct defrag_plan *plan = next_plan(table, snapshot);

    assert_false(plan->cut_short || plan->left_out);
    assert_true(snapshot->nodes > 0 || plan->steps == 0);
    for (uint32_t i = 0; i < plan->n_moves; i++) {
        const struct defrag_move *move = &plan->move[i];
        assert_string_equal(move->to->facts.uid, move->from->facts.uid);
        assert_ptr_equal(move->to->facts.node, move->to_node->name);
        assert_ptr_equal(move->to->facts.node_uid, move->to_node->uid);
        assert_int_equal(move->to->facts.n_shares, move->to->n_charges);
    }
    if (strcmp(table->word[0], "numbers") == 0)
        say_numbers(table, plan);
    else if (strcmp(table->word[0], "nodes") == 0)
        say_nodes(table, plan);
    else if (plan->n_moves > 0)
        plan_text(&table->said, plan);
    else
        ledger_table_say(table, "nothing");
    defrag_plan_free(plan);
    snapshot_unref(snapshot);
}

TEST(defrag__answers_each_request_of_the_table)
{
    static const struct table_request own[] = {
        {"workload", learn}, {"rule", rule}, {"cluster", show},
        {"host", host},      {"asks", ask},  {"plan numbers nodes", plan},
        {NULL, NULL},
    };
    struct table table;

    ledger_table_run(&table, "tests/table/defrag.txt", own);
    assert_true(table.requests > 150);
}
