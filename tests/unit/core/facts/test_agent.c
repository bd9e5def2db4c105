/* The agent flag of a node: set by its inventory, used by the next Binding, and nothing else. */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "support/core_fixture.h"
#include "support/test.h"

static enum verdict show(struct core_fixture *core, bool agent)
{
    static const struct core_gpu gpu[] = {{.id = "GPU-a", .mib = 16000}};
    struct inventory *inventory = core_inventory(core, "n", "uid", gpu, 1);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    inventory->agent = agent;
    return core_do(core, &command);
}

static bool has_agent(const struct core_fixture *core)
{
    return ledger_node(core->ledger, TEXT("n"))->agent;
}

CORE_TEST(agent_flag__changes_nothing_else)
{
    assert_int_equal(show(core, false), VERDICT_OK);
    assert_false(has_agent(core));
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_OK);
    for (int agent = 1; agent >= 0; agent--) {
        CLEANUP(xfreep) char *before = core_dump(core->ledger);
        assert_int_equal(show(core, agent == 1), VERDICT_OK);
        const struct change *change = &core->done[core->n_done - 1];
        assert_true(change->unwritten);
        assert_false(change_gives_room(change)); /* no wake-up */
        CLEANUP(xfreep) char *after = core_dump(core->ledger);
        assert_string_equal(after, before);
        assert_int_equal(has_agent(core), agent);
        assert_int_equal(show(core, agent == 1), VERDICT_SAME);
    }
    core_undo(core);
    assert_true(has_agent(core));
}

/* The pod is seen before its node, so no inventory has set the flag. */
CORE_TEST(agent_flag__is_unset_before_the_node_is_shown)
{
    struct pod *pod = core_pod(core, "p", "n");

    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    assert_false(has_agent(core));
    assert_int_equal(show(core, true), VERDICT_OK);
    assert_true(has_agent(core));
}

CORE_TEST(node_from_inventory__has_the_agent_flag)
{
    static const struct core_gpu gpu[] = {{.index = 0, .mib = 16000}};
    struct inventory *inventory = core_inventory(core, "n", "uid", gpu, 1);
    struct names *names = names_new();

    for (int agent = 0; agent < 2; agent++) {
        inventory->agent = agent == 1;
        struct node *node = node_from_inventory(inventory, NULL, names);
        assert_int_equal(node->agent, agent);
        node_unref(node);
    }
    names_free(names);
}

CORE_TEST(node_from_inventory__has_the_notes_of_gpus)
{
    static const struct core_gpu gpu[] = {
        {.index = 0, .mib = 16000, .held = "process"},
        {.index = 1, .mib = 16000},
        {.index = 2, .mib = 16000, .sick = true, .ill = "XID 79"}};
    struct names *names = names_new();
    struct node *node = node_from_inventory(core_inventory(core, "n", "uid", gpu, 3), NULL, names);

    assert_int_equal(node->n_notes, 2);
    assert_int_equal(gpu_closed(&node->gpu[0]), REASON_HELD);
    assert_int_equal(gpu_closed(&node->gpu[1]), REASON_NONE);
    assert_string_equal(node_note_of(node, &node->gpu[0])->held, "process");
    assert_null(node_note_of(node, &node->gpu[0])->ill);
    assert_null(node_note_of(node, &node->gpu[1]));
    assert_string_equal(node_note_of(node, &node->gpu[2])->ill, "XID 79");
    node_unref(node);
    names_free(names);
}

CORE_TEST(inventory__has_the_agent_flag)
{
    const struct inventory_rules rules = {.from_labels = true};

    for (int agent = 0; agent < 2; agent++)
        for (int mig = 0; mig < 2; mig++) {
            const struct node_facts facts = {.name = "n",
                                             .uid = "uid",
                                             .label_mig = mig == 1 ? "mixed" : NULL,
                                             .agent = agent == 1};
            struct inventory inventory;
            inventory_parse(&facts, &rules, &core->arena, &inventory);
            assert_int_equal(inventory.agent, agent);
        }
}
