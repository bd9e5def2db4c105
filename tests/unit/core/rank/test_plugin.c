/* The state of a node's device plugin: it stays with the node, and its end gives room. */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/place/place.h"
#include "milligpu/core/rules/rulebook.h"

#include "support/core_fixture.h"
#include "support/rules.h"
#include "support/test.h"

static const struct plugin_report up = {PLUGIN_UP, 3, 4};
static const struct plugin_report down = {.state = PLUGIN_DOWN};
static const struct plugin_report zero = {.state = PLUGIN_ZERO};

static enum verdict show(struct core_fixture *core, const struct plugin_report *plugin)
{
    static const struct core_gpu gpu[] = {{.id = "GPU-a", .mib = 16000}};
    struct inventory *inventory = core_inventory(core, "n", "uid", gpu, 1);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    inventory->plugin = *plugin;
    return core_do(core, &command);
}

static const struct node *shown(const struct core_fixture *core)
{
    return ledger_node(core->ledger, TEXT("n"));
}

static void is_down(const struct core_fixture *core)
{
    assert_int_equal(shown(core)->plugin.state, PLUGIN_DOWN);
    assert_int_equal(node_closed(shown(core)), REASON_PLUGIN);
    assert_int_equal(shown(core)->free_milli, 0);
}

CORE_TEST(plugin__opens_and_closes_its_node_without_a_row)
{
    assert_int_equal(show(core, &up), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_OK);
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    assert_int_equal(show(core, &down), VERDICT_OK);
    is_down(core);
    assert_true(core->done[core->n_done - 1].unwritten);
    assert_false(change_gives_room(&core->done[core->n_done - 1]));
    assert_int_equal(show(core, &zero), VERDICT_SAME);
    assert_int_equal(core_reserve(core, "q", "n", "300"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_PLUGIN);
    assert_int_equal(show(core, &up), VERDICT_OK);
    assert_true(core->done[core->n_done - 1].unwritten);
    assert_true(change_gives_room(&core->done[core->n_done - 1]));
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(after, before);
    assert_int_equal(core_reserve(core, "q", "n", "300"), VERDICT_OK);
}

/* A change of any of the three fields is stored, and none gives room. */
CORE_TEST(plugin__reports_each_change_of_its_offer)
{
    static const struct plugin_report reports[] = {
        {PLUGIN_UP, 3, 4}, {PLUGIN_UP, 2, 4}, {PLUGIN_UP, 2, 5}, {PLUGIN_NONE, 0, 0}};

    assert_int_equal(show(core, &(struct plugin_report){0}), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_OK);
    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        assert_int_equal(show(core, &reports[i]), VERDICT_OK);
        assert_false(change_gives_room(&core->done[core->n_done - 1]));
        assert_int_equal(show(core, &reports[i]), VERDICT_SAME);
        assert_memory_equal(&shown(core)->plugin, &reports[i], sizeof reports[i]);
    }
}

CORE_TEST(plugin__survives_changes_of_its_node)
{
    const struct host host = {1000, 1000};

    assert_int_equal(show(core, &up), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_OK);
    assert_int_equal(show(core, &down), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "p"), VERDICT_OK);
    is_down(core);
    assert_true(ledger_set_host(core->ledger, TEXT("n"), &host));
    is_down(core);
    const struct rule any = {.name = "r", .min_milli = 100};
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "test");
    book->rule = &any;
    book->n_rules = 1;
    struct policy_context *context = policy_context_of_rulebook(book, RULES_ALL, NULL);
    ledger_set_policy_context(core->ledger, context);
    is_down(core);
    ledger_set_policy_context(core->ledger, NULL);
    policy_context_unref(context);
    rulebook_unref(book);
    /* The victims of a preemption do not bring the plugin back. */
    static const struct text pod = {"p", 1};
    struct room room;
    room_without(shown(core), &pod, 1, &room);
    assert_int_equal(room.closed, REASON_PLUGIN);

    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n", .at_ms = 5};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(shown(core)->plugin.state, PLUGIN_NONE);
    assert_int_equal(show(core, &zero), VERDICT_OK); /* the same Node came back, and reports 0 */
    assert_int_equal(node_closed(shown(core)), REASON_NONE);
}

/* Such a node reports neither plugin nor GPUs; a Node with another uid starts anew. */
CORE_TEST(plugin__stays_while_its_node_cannot_be_read)
{
    struct inventory *broken = core_inventory(core, "n", "uid", NULL, 0);
    struct inventory *other = core_inventory(core, "n", "other", NULL, 0);
    const struct command unread = {.kind = COMMAND_NODE, .inventory = broken};
    const struct command another = {.kind = COMMAND_NODE, .inventory = other};

    broken->problem = other->problem = PROBLEM_ANNOTATION;
    broken->silent = other->silent = true;
    assert_int_equal(show(core, &down), VERDICT_OK);
    assert_int_equal(core_do(core, &unread), VERDICT_OK);
    assert_int_equal(shown(core)->plugin.state, PLUGIN_DOWN);
    assert_int_equal(core_do(core, &another), VERDICT_OK);
    assert_int_equal(shown(core)->plugin.state, PLUGIN_NONE);
}

CORE_TEST(plugin__closes_a_node_that_only_the_question_knows)
{
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}};
    struct inventory *inventory = core_inventory(core, "n", "uid", gpu, 1);
    struct names *names = names_new();
    static const struct {
        const struct plugin_report *shown;
        enum reason closed;
    } row[] = {{&down, REASON_PLUGIN}, {&zero, REASON_NONE}, {&up, REASON_NONE}};

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        inventory->plugin = *row[i].shown;
        struct node *node = node_from_inventory(inventory, NULL, names);
        assert_int_equal(node_closed(node), row[i].closed);
        node_unref(node);
    }
    names_free(names);
}
