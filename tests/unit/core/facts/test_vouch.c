/* The verdict on a node's agent in the ledger: without a row, kept with the node, closing it. */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/place/place.h"
#include "milligpu/core/rules/rulebook.h"

#include "support/core_fixture.h"
#include "support/rules.h"
#include "support/test.h"

static enum verdict show(struct core_fixture *core, enum vouch vouch)
{
    static const struct core_gpu gpu[] = {{.id = "GPU-a", .mib = 16000}};
    struct inventory *inventory = core_inventory(core, "n", "uid", gpu, 1);
    const struct command command = {
        .kind = COMMAND_NODE, .at_ms = core->now_ms, .inventory = inventory, .vouch = vouch};

    inventory->agent = true;
    return core_do(core, &command);
}

static enum verdict check(struct core_fixture *core, enum vouch vouch)
{
    const struct command command = {.kind = COMMAND_NODE,
                                    .at_ms = core->now_ms,
                                    .node = "n",
                                    .has_vouch = true,
                                    .vouch = vouch};

    return core_do(core, &command);
}

static const struct node *shown(const struct core_fixture *core)
{
    return ledger_node(core->ledger, TEXT("n"));
}

static const struct change *newest(const struct core_fixture *core)
{
    return &core->done[core->n_done - 1];
}

/* The node is closed for this verdict since then, and has the agent flag. */
static void is_closed(const struct core_fixture *core, enum vouch vouch, int64_t since_ms)
{
    assert_true(shown(core)->agent);
    assert_int_equal(shown(core)->vouch, vouch);
    assert_int_equal(shown(core)->vouch_ms, since_ms);
    assert_int_equal(node_closed(shown(core)), REASON_AGENT);
    assert_int_equal(shown(core)->free_milli, 0);
}

CORE_TEST(vouch__closes_or_opens_the_node_without_a_row)
{
    assert_int_equal(show(core, VOUCH_NONE), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_OK);
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    for (int i = 0; i < VOUCHES; i++) {
        const enum vouch vouch = (enum vouch)i;
        const bool closes = vouch_closes(vouch);
        if (vouch != VOUCH_NONE) {
            core->now_ms += 1000;
            const bool was_closed = node_closed(shown(core)) != REASON_NONE;
            assert_int_equal(i % 2 == 0 ? check(core, vouch) : show(core, vouch), VERDICT_OK);
            assert_true(newest(core)->unwritten);
            /* A change from one reason to another opens nothing. */
            assert_int_equal(change_gives_room(newest(core)), was_closed && !closes);
            assert_int_equal(shown(core)->vouch_ms, core->now_ms);
        }
        core->now_ms += 1;
        assert_int_equal(check(core, vouch), VERDICT_SAME);
        assert_int_equal(show(core, vouch), VERDICT_SAME);
        assert_int_equal(shown(core)->vouch, vouch);
        assert_int_equal(node_closed(shown(core)), closes ? REASON_AGENT : REASON_NONE);
        assert_int_equal(core_reserve(core, "q", "n", "300"),
                         closes ? VERDICT_REFUSED : VERDICT_OK);
        if (closes)
            assert_int_equal(core->reason, REASON_AGENT);
        else
            assert_int_equal(core_step(core, COMMAND_RELEASE, "q"), VERDICT_OK);
    }
    assert_int_equal(check(core, VOUCH_GOOD), VERDICT_OK);
    assert_true(newest(core)->unwritten);
    assert_true(change_gives_room(newest(core)));
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(after, before);
    core_undo(core);
    assert_int_equal(shown(core)->vouch, VOUCHES - 1); /* the last of them */
}

CORE_TEST(vouch__stays_through_other_changes)
{
    const struct host host = {1000, 1000};

    assert_int_equal(show(core, VOUCH_GOOD), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_OK);
    assert_int_equal(check(core, VOUCH_GONE), VERDICT_OK);
    const int64_t since_ms = shown(core)->vouch_ms;
    core->now_ms += 1000;
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "p"), VERDICT_OK);
    is_closed(core, VOUCH_GONE, since_ms);
    assert_true(ledger_set_host(core->ledger, TEXT("n"), &host));
    is_closed(core, VOUCH_GONE, since_ms);
    const struct rule any = {.min_milli = 100};
    struct rulebook *book = rulebook_with(POLICY_BINPACK, "test", &any, 1);
    struct policy_context *context = policy_context_of_rulebook(book, RULES_ALL, NULL);
    ledger_set_policy_context(core->ledger, context);
    assert_int_equal(shown(core)->rules, 1);
    is_closed(core, VOUCH_GONE, since_ms);
    ledger_set_policy_context(core->ledger, NULL);
    policy_context_unref(context);
    rulebook_unref(book);
    /* A command without has_vouch. */
    const struct command again = {.kind = COMMAND_NODE, .node = "n", .vouch = VOUCH_GOOD};
    assert_int_equal(core_do(core, &again), VERDICT_SAME);
    is_closed(core, VOUCH_GONE, since_ms);
    /* Preemption does not open the node. */
    static const struct text pod = {"p", 1};
    struct room room;
    room_without(shown(core), &pod, 1, &room);
    assert_int_equal(room.closed, REASON_AGENT);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "p"), VERDICT_OK);
    is_closed(core, VOUCH_GONE, since_ms);
}

/* The time is that of the verdict. */
CORE_TEST(vouch__keeps_its_time_when_the_inventory_changes)
{
    static const struct core_gpu more[] = {{.id = "GPU-a", .mib = 16000},
                                           {.id = "GPU-b", .index = 1, .mib = 16000}};

    assert_int_equal(show(core, VOUCH_NOT_READY), VERDICT_OK);
    const int64_t since_ms = shown(core)->vouch_ms;
    core->now_ms += 1000;
    struct inventory *inventory = core_inventory(core, "n", "uid", more, 2);
    inventory->agent = true;
    const struct command command = {.kind = COMMAND_NODE,
                                    .at_ms = core->now_ms,
                                    .inventory = inventory,
                                    .vouch = VOUCH_NOT_READY};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(shown(core)->n_gpus, 2);
    is_closed(core, VOUCH_NOT_READY, since_ms);
}

/* The pods of the node stay. */
CORE_TEST(vouch__ends_with_the_node)
{
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n", .at_ms = 5};

    assert_int_equal(show(core, VOUCH_GOOD), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_OK);
    assert_int_equal(check(core, VOUCH_NO_AGENT), VERDICT_OK);
    assert_true(node_misses_agent(shown(core)));
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_true(shown(core)->agent); /* kept while its pods are there */
    assert_int_equal(shown(core)->vouch, VOUCH_NONE);
    assert_int_equal(shown(core)->vouch_ms, 5);
    assert_false(node_misses_agent(shown(core)));
    assert_int_equal(show(core, VOUCH_NO_AGENT), VERDICT_OK);
    assert_int_equal(node_closed(shown(core)), REASON_AGENT);
}

/* A granted bind is completed, and pods bound by others are adopted. */
CORE_TEST(closed_node__keeps_its_shares)
{
    assert_int_equal(show(core, VOUCH_GOOD), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_OK);
    assert_int_equal(check(core, VOUCH_GONE), VERDICT_OK);
    assert_int_equal(core_reserve(core, "p", "n", "300"), VERDICT_SAME);
    assert_int_equal(core_step(core, COMMAND_DOUBT, "p"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "p"), VERDICT_OK);
    assert_int_equal(core_adopt(core, core_pod(core, "x", "n"), "200"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n", "GPU-a")->used_milli, 500);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "p"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n", "GPU-a")->used_milli, 200);
    assert_false(change_gives_room(newest(core))); /* the node is closed */
}

/* A new version of the pod is judged like a new pod. */
CORE_TEST(closed_node__refuses_new_versions_of_a_reservation)
{
    struct command command = {.kind = COMMAND_RESERVE,
                              .at_ms = core->now_ms,
                              .uid = "p",
                              .namespace = "default",
                              .name = "p",
                              .node = "n",
                              .request = core_request(core, "300"),
                              .version = 7};
    assert_int_equal(show(core, VOUCH_GOOD), VERDICT_OK);
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    command.kind = COMMAND_VERSION;
    for (int i = 0; i < VOUCHES; i++) {
        const enum vouch vouch = (enum vouch)i;
        const bool closes = vouch_closes(vouch);
        assert_int_not_equal(check(core, vouch), VERDICT_REFUSED);
        command.version++;
        assert_int_equal(core_do(core, &command), closes ? VERDICT_REFUSED : VERDICT_OK);
        if (closes)
            assert_int_equal(core->reason, REASON_CHANGED);
    }
}
