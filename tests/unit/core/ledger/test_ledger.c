#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/placements.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/walk.h"

static const struct core_gpu two_a100[] = {{.id = "GPU-a", .index = 0, .mib = 81920},
                                           {.id = "GPU-b", .index = 1, .mib = 81920}};
static const struct core_gpu two_counted[] = {{.index = 0, .mib = 81920},
                                              {.index = 1, .mib = 81920}};

CORE_TEST(reserving_answers_in_order_of_precedence)
{
    assert_int_equal(core_node(core, "n1", two_a100, 2), VERDICT_OK);

    assert_int_equal(core_reserve(core, "a", "n1", "700"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n1", "700"), VERDICT_SAME);
    /* The pod is known, so neither the node nor the room is checked. */
    assert_int_equal(core_reserve(core, "a", "nowhere", "9000"), VERDICT_ELSEWHERE);
    assert_int_equal(core_reserve(core, "b", "nowhere", "300"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_UNKNOWN_NODE);
    assert_int_equal(core_reserve(core, "b", "n1", "2000"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_ROOM);
    assert_int_equal(core_reserve(core, "b", "n1", "3000"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_FEW);
    assert_int_equal(core_reserve(core, "b", "n1", "300"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 1000); /* tightest fit */
}

CORE_TEST(a_life_goes_reserved_bound_released)
{
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "300"), VERDICT_OK);

    const struct allocation *a = ledger_find(core->ledger, TEXT("a"));
    assert_int_equal(a->facts.state, STATE_RESERVED);
    assert_int_equal(a->facts.reserved_ms, core->now_ms);
    assert_int_equal(core_step(core, COMMAND_DOUBT, "a"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_DOUBT, "a"), VERDICT_SAME);
    assert_true(ledger_find(core->ledger, TEXT("a"))->facts.in_doubt);

    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_SAME);
    assert_int_equal(core_step(core, COMMAND_DOUBT, "a"), VERDICT_SAME); /* nothing to doubt */
    a = ledger_find(core->ledger, TEXT("a"));
    assert_int_equal(a->facts.state, STATE_BOUND);
    assert_int_equal(a->facts.bound_ms, core->now_ms - 2);
    assert_false(a->facts.in_doubt);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 300);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 0);

    const struct command terminating = {
        .kind = COMMAND_TERMINATING, .uid = "a", .terminating_ms = 777};
    assert_int_equal(core_do(core, &terminating), VERDICT_OK);
    assert_int_equal(core_do(core, &terminating), VERDICT_SAME);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 300); /* frees nothing */

    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    const struct change *last = &core->done[core->dones - 1];
    assert_int_equal(last->after->facts.state, STATE_RELEASED);
    assert_int_equal(last->after->facts.released_ms, core->now_ms);
    assert_int_equal(last->after->facts.terminating_ms, 777);
    assert_null(ledger_find(core->ledger, TEXT("a")));
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 0);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_UNKNOWN);
}

/* As in the database: nothing released is in doubt. */
CORE_TEST(a_release_ends_every_doubt)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    assert_int_equal(core_step(core, COMMAND_DOUBT, "a"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    assert_false(core->done[core->dones - 1].after->facts.in_doubt);
}

CORE_TEST(whoever_hears_same_is_shown_what_is_there)
{
    struct change change;
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_step(core, COMMAND_CONFIRM, "a");
    const struct command confirm = {.kind = COMMAND_CONFIRM, .at_ms = 1, .uid = "a"};
    assert_int_equal(ledger_decide(core->ledger, &confirm, &change), VERDICT_SAME);
    assert_ptr_equal(change.held, ledger_find(core->ledger, TEXT("a")));
}

CORE_TEST(steps_of_what_is_not_there_are_unknown)
{
    static const enum command_kind kind[] = {COMMAND_CONFIRM, COMMAND_DOUBT, COMMAND_RELEASE,
                                             COMMAND_TERMINATING, COMMAND_NOTE};
    for (size_t i = 0; i < ARRAY_LEN(kind); i++)
        assert_int_equal(core_step(core, kind[i], "a"), VERDICT_UNKNOWN);
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_UNKNOWN);
    const struct command again = {.kind = COMMAND_NODE, .node = "n1"};
    assert_int_equal(core_do(core, &again), VERDICT_UNKNOWN);

    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    const struct command confirm = {.kind = COMMAND_CONFIRM, .uid = "a", .node = "n2"};
    assert_int_equal(core_do(core, &confirm), VERDICT_UNKNOWN); /* not on that node */
}

CORE_TEST(a_clock_step_changes_nothing)
{
    (void)core_node(core, "n1", two_a100, 2);
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    const struct command entry[] = {
        {.kind = COMMAND_CLOCK, .at_ms = 5, .clock_from_ms = 9},
        {.kind = COMMAND_POLICY, .at_ms = 5},
        {.kind = COMMAND_OVER, .at_ms = 5, .uid = "a", .container = "c0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(entry); i++) {
        assert_int_equal(core_do(core, &entry[i]), VERDICT_OK);
        assert_null(core->done[core->dones - 1].node_after);
        assert_false(change_gives_room(&core->done[core->dones - 1]));
    }
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(before, after);
}

CORE_TEST(the_same_inventory_again_is_same)
{
    assert_int_equal(core_node(core, "n1", two_a100, 2), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", two_a100, 2), VERDICT_SAME);
    (void)core_reserve(core, "a", "n1", "300");
    assert_int_equal(core_node(core, "n1", two_a100, 2), VERDICT_SAME);

    struct inventory *renamed = core_inventory(core, "n1", "node-uid", two_a100, 2);
    renamed->gpu[1].model = "NVIDIA H100";
    const struct command other_model = {.kind = COMMAND_NODE, .inventory = renamed};
    assert_int_equal(core_do(core, &other_model), VERDICT_OK);
    assert_int_equal(core_do(core, &other_model), VERDICT_SAME);
    assert_string_equal(core_gpu(core, "n1", "GPU-b")->model->text, "NVIDIA H100");

    const int64_t since = ledger_node(core->ledger, TEXT("n1"))->since_ms;
    struct core_gpu bigger[] = {two_a100[0], two_a100[1]};
    bigger[0].mib++;
    assert_int_equal(core_node(core, "n1", bigger, 2), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->since_ms, since); /* no new trouble */
    bigger[0].sick = true;
    assert_int_equal(core_node(core, "n1", bigger, 2), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->since_ms, core->now_ms);
}

CORE_TEST(a_charged_gpu_stays_with_its_size_when_it_goes_missing)
{
    const struct core_gpu half = {.id = "GPU-h", .milli = 500, .mib = 40000};
    (void)core_node(core, "n1", &half, 1);
    (void)core_reserve(core, "a", "n1", "200");
    assert_int_equal(core_node(core, "n1", NULL, 0), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", NULL, 0), VERDICT_SAME);

    const struct gpu *gpu = core_gpu(core, "n1", "GPU-h");
    assert_int_equal(gpu->flags, GPU_ABSENT);
    assert_int_equal(gpu->milli, 500);
    assert_int_equal(gpu->mib, 40000);
    assert_int_equal(core_reserve(core, "b", "n1", "100"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_ABSENT);

    assert_int_equal(core_node(core, "n1", &half, 1), VERDICT_OK); /* itself again */
    assert_int_equal(core_gpu(core, "n1", "GPU-h")->flags, 0);
    assert_int_equal(core_reserve(core, "b", "n1", "300"), VERDICT_OK);

    (void)core_node(core, "n1", NULL, 0);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    assert_non_null(core_gpu(core, "n1", "GPU-h"));
    assert_int_equal(core_step(core, COMMAND_RELEASE, "b"), VERDICT_OK);
    assert_null(core_gpu(core, "n1", "GPU-h")); /* nobody holds it any more */
}

CORE_TEST(made_up_names_become_aliases_and_back)
{
    (void)core_node(core, "n1", two_counted, 2);
    (void)core_reserve(core, "a", "n1", "300");
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->reserved_milli, 300);

    (void)core_node(core, "n1", two_a100, 2);
    assert_ptr_equal(core_gpu(core, "n1", "n1/gpu-0"), core_gpu(core, "n1", "GPU-a"));
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 300);
    (void)core_reserve(core, "b", "n1", "700"); /* by UUID now */
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 1000);

    /* Counts again: the GPU keeps the UUID that a pod holds it by, or it would be granted twice. */
    assert_int_equal(core_node(core, "n1", two_counted, 2), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", two_counted, 2), VERDICT_SAME);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->gpus, 2);
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->reserved_milli, 1000);
    assert_string_equal(core_gpu(core, "n1", "n1/gpu-0")->id->text, "GPU-a");
    assert_string_equal(core_gpu(core, "n1", "n1/gpu-1")->id->text, "n1/gpu-1");

    /*
     * It also keeps it for a pod that holds the made-up name; without holders the UUID is dropped.
     */
    (void)core_step(core, COMMAND_RELEASE, "b");
    assert_int_equal(core_node(core, "n1", two_counted, 2), VERDICT_SAME);
    assert_string_equal(core_gpu(core, "n1", "n1/gpu-0")->id->text, "GPU-a");
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->reserved_milli, 300);
    (void)core_step(core, COMMAND_RELEASE, "a");
    (void)core_node(core, "n1", two_counted, 2);
    assert_null(core_gpu(core, "n1", "GPU-a"));
}

CORE_TEST(a_made_up_name_stays_with_its_gpu_when_indexes_move)
{
    const struct core_gpu swapped[] = {{.id = "GPU-b", .index = 0, .mib = 81920},
                                       {.id = "GPU-a", .index = 1, .mib = 81920}};
    const struct core_gpu alone = {.id = "GPU-a", .index = 1, .mib = 81920};

    (void)core_node(core, "n1", two_counted, 2);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_node(core, "n1", swapped, 2), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", swapped, 2), VERDICT_SAME);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 300);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->reserved_milli, 0);
    assert_int_equal(core_node(core, "n1", &alone, 1), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 300);
    assert_int_equal(core_node(core, "n1", &swapped[0], 1), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 300);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_ABSENT);
}

static enum verdict go(struct core_fixture *core, const char *node)
{
    const struct command command = {.kind = COMMAND_NODE_GONE, .node = node};
    return core_do(core, &command);
}

/* As the writer does after every change. */
static void heal(struct core_fixture *core)
{
    const struct node *node;
    for (int i = 0; (node = ledger_stale_duplicate(core->ledger)) != NULL; i++) {
        const struct command again = {.kind = COMMAND_NODE, .node = node->name->text};
        assert_int_equal(core_do(core, &again), VERDICT_OK);
        assert_true(i < 100);
    }
}

static enum verdict node_of(struct core_fixture *core, const char *name, const char *uid,
                            const struct core_gpu *gpu, uint32_t gpus)
{
    const struct command command = {.kind = COMMAND_NODE,
                                    .inventory = core_inventory(core, name, uid, gpu, gpus)};
    const enum verdict verdict = core_do(core, &command);
    heal(core);
    return verdict;
}

static int flags_of(const struct core_fixture *core, const char *node, const char *id)
{
    const struct gpu *gpu = core_gpu(core, node, id);
    return gpu == NULL ? -1 : gpu->flags;
}

CORE_TEST(one_uuid_is_granted_on_one_node_only)
{
    (void)core_node(core, "n1", two_a100, 1);
    (void)core_node(core, "n2", two_a100, 2);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, 0);
    assert_int_equal(core_gpu(core, "n2", "GPU-a")->flags, GPU_DUPLICATE);
    assert_int_equal(core_node(core, "n2", two_a100, 2), VERDICT_SAME);
    heal(core);
    assert_int_equal(core_reserve(core, "a", "n2", "2000"), VERDICT_REFUSED);

    /* The first node gives up the GPU when it is gone, but not while a pod there holds the GPU. */
    (void)core_reserve(core, "b", "n1", "100");
    assert_int_equal(go(core, "n1"), VERDICT_OK);
    assert_null(ledger_stale_duplicate(core->ledger));
    (void)core_step(core, COMMAND_RELEASE, "b");
    const struct node *stale = ledger_stale_duplicate(core->ledger);
    assert_non_null(stale);
    assert_string_equal(stale->name->text, "n2");
    const struct command again = {.kind = COMMAND_NODE, .node = "n2"};
    assert_int_equal(core_do(core, &again), VERDICT_OK);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    assert_int_equal(core_do(core, &again), VERDICT_SAME);
    assert_null(ledger_stale_duplicate(core->ledger));
    assert_int_equal(core_reserve(core, "a", "n2", "2000"), VERDICT_OK);

    (void)core_node(core, "n1", two_a100, 1); /* now n1 is the later one */
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_DUPLICATE);
}

/* Otherwise anyone allowed to write a pod could close another node's GPUs. */
CORE_TEST(an_annotation_takes_no_gpu_from_the_node_that_shows_it)
{
    const struct core_gpu stray = {.id = "GPU-z", .mib = 81920};
    (void)core_node(core, "n1", two_a100, 2);
    struct pod *pod = core_pod(core, "forger", "n1");
    core_note(core, pod, "c0 GPU-z 300 24576");
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-z")->flags, GPU_ABSENT | GPU_DUPLICATE);
    assert_null(ledger_stale_duplicate(core->ledger)); /* nothing to heal */
    (void)core_node(core, "n1", two_a100, 1);
    (void)core_node(core, "n1", two_a100, 2); /* no matter what n1 shows meanwhile */
    assert_int_equal(core_gpu(core, "n1", "GPU-z")->flags, GPU_ABSENT | GPU_DUPLICATE);

    assert_int_equal(core_node(core, "n2", &stray, 1), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n2", "GPU-z")->flags, 0);
    assert_int_equal(core_reserve(core, "a", "n2", "1000"), VERDICT_OK);
    (void)core_node(core, "n1", two_a100, 1); /* no matter what else changes on n1 */
    assert_int_equal(core_gpu(core, "n1", "GPU-z")->flags, GPU_ABSENT | GPU_DUPLICATE);
    assert_int_equal(core_gpu(core, "n2", "GPU-z")->flags, 0);

    (void)core_step(core, COMMAND_RELEASE, "a");
    (void)go(core, "n2");
    assert_null(ledger_stale_duplicate(core->ledger));
    (void)core_node(core, "n1", &stray, 1); /* n1 shows it after all */
    assert_int_equal(core_gpu(core, "n1", "GPU-z")->flags, 0);
}

CORE_TEST(a_stale_duplicate_is_found_wherever_it_is)
{
    const struct core_gpu again[] = {{.id = "GPU-x", .index = 0}, {.id = "GPU-a", .index = 1}};
    (void)core_node(core, "n1", NULL, 0); /* takes the first slot */
    (void)core_node(core, "n2", two_a100, 1);
    (void)core_node(core, "n1", again, 2);
    heal(core);
    (void)go(core, "n2");
    const struct node *stale = ledger_stale_duplicate(core->ledger);
    assert_non_null(stale);
    assert_string_equal(stale->name->text, "n1");
}

/* The search runs after every change, so it looks only at what changed hands. */
CORE_TEST(no_look_for_duplicates_is_made_in_vain)
{
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core->ledger->n_undecided, 0);
    (void)core_node(core, "n2", two_a100, 2);
    assert_int_equal(core->ledger->n_undecided, 2);
    heal(core);
    assert_int_equal(core->ledger->n_undecided, 0);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_int_equal(core->ledger->n_undecided, 0);
    (void)go(core, "n1");
    assert_int_equal(core->ledger->n_undecided, 2);
    assert_non_null(ledger_stale_duplicate(core->ledger));
    assert_int_not_equal(core->ledger->n_undecided, 0); /* remains until it is healed */
    heal(core);
    assert_int_equal(core->ledger->n_undecided, 0);
    assert_int_equal(core->ledger->duplicate_nodes.count, 0);
}

CORE_TEST(an_id_waits_once_however_often_it_changes_hands)
{
    (void)core_node(core, "n1", two_a100, 2);
    for (uint32_t i = 0; i < 5; i++) {
        (void)core_node(core, "n2", two_a100, 2);
        (void)core_node(core, "n2", NULL, 0);
    }
    assert_int_equal(core->ledger->n_undecided, 2);
}

CORE_TEST(an_owner_is_shown_its_rival_on_whichever_gpu)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", &two_a100[1], 1);
    const struct node *stale = ledger_stale_duplicate(core->ledger);
    assert_non_null(stale);
    assert_string_equal(stale->name->text, "n1");
}

CORE_TEST(rivals_leave_one_by_one)
{
    enum { DUPLICATE_OWNERS = 64 };
    char name[16];
    (void)core_node(core, "owner", two_a100, 1);
    for (uint32_t i = 0; i < DUPLICATE_OWNERS; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        (void)core_node(core, name, two_a100, 1);
    }
    for (uint32_t i = 0; i < DUPLICATE_OWNERS; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(go(core, name), VERDICT_OK);
    }
    assert_int_equal(core->ledger->duplicate_nodes.count, 0);
}

static void say_again(struct core_fixture *core, const char *node)
{
    const struct command again = {.kind = COMMAND_NODE, .node = node};
    const struct node *stale = ledger_stale_duplicate(core->ledger);

    assert_non_null(stale);
    assert_string_equal(stale->name->text, node);
    assert_int_equal(core_do(core, &again), VERDICT_OK);
    assert_null(ledger_stale_duplicate(core->ledger));
}

/*
 * If a COMMIT fails, what it recorded about the owner's duplicate owners is undone and must be
 * recorded again.
 */
CORE_TEST(a_word_about_rivals_that_is_undone_is_said_again)
{
    (void)node_of(core, "honest", "u1", two_a100, 1);
    (void)core_node(core, "copier", two_a100, 1);
    for (int i = 0; i < 2; i++) {
        say_again(core, "honest");
        assert_int_equal(flags_of(core, "honest", "GPU-a"), GPU_CONTESTED);
        if (i == 0)
            core_undo(core);
    }
    assert_int_equal(go(core, "copier"), VERDICT_OK);
    for (int i = 0; i < 2; i++) {
        say_again(core, "honest");
        assert_int_equal(flags_of(core, "honest", "GPU-a"), 0);
        if (i == 0)
            core_undo(core);
    }
}

CORE_TEST(a_word_about_the_second_gpu_that_is_undone_is_said_again)
{
    (void)node_of(core, "honest", "u1", two_a100, 2);
    (void)core_node(core, "copier", &two_a100[1], 1);
    for (int i = 0; i < 3; i++) {
        say_again(core, "honest");
        assert_int_equal(flags_of(core, "honest", "GPU-a"), 0);
        assert_int_equal(flags_of(core, "honest", "GPU-b"), GPU_CONTESTED);
        if (i < 2)
            core_undo(core);
    }
}

/* A device plugin restarts or an annotation is unreadable: a copier must not profit from that. */
CORE_TEST(a_node_that_shows_nothing_for_a_moment_keeps_its_uuids)
{
    (void)node_of(core, "honest", "u1", two_a100, 2);
    (void)node_of(core, "copier", "u2", two_a100, 2);
    (void)node_of(core, "honest", "u1", NULL, 0);
    assert_int_equal(flags_of(core, "copier", "GPU-a"), GPU_DUPLICATE);
    assert_int_equal(flags_of(core, "copier", "GPU-b"), GPU_DUPLICATE);
    assert_int_equal(core_reserve(core, "x", "copier", "100"), VERDICT_REFUSED);
    assert_int_equal(ledger_node(core->ledger, TEXT("honest"))->owned_ids, 2);
    (void)node_of(core, "copier", "u2", NULL, 0);
    (void)node_of(core, "copier", "u2", two_a100, 2); /* however often it tries */
    assert_int_equal(flags_of(core, "copier", "GPU-a"), GPU_DUPLICATE);
    (void)node_of(core, "honest", "u1", two_a100, 2);
    assert_int_equal(flags_of(core, "honest", "GPU-a"), GPU_CONTESTED);
    assert_int_equal(ledger_node(core->ledger, TEXT("honest"))->owned_ids, 0);
    assert_int_equal(core_reserve(core, "x", "honest", "2000"), VERDICT_OK);
}

/* Anyone can write an annotation: it takes a UUID from no node, least of all from its own. */
CORE_TEST(what_an_annotation_names_stays_its_nodes_that_shows_nothing)
{
    (void)node_of(core, "honest", "u1", two_a100, 2);
    (void)node_of(core, "copier", "u2", two_a100, 2);
    (void)node_of(core, "honest", "u1", NULL, 0);
    struct pod *pod = core_pod(core, "a", "honest");
    core_note(core, pod, "c0 GPU-a 200 200,c1 GPU-b 300 300 1");
    assert_int_equal(core_adopt(core, pod, "200+300"), VERDICT_OK);
    assert_int_equal(flags_of(core, "honest", "GPU-a"), GPU_ABSENT);
    assert_int_equal(flags_of(core, "honest", "GPU-b"), GPU_ABSENT);
    assert_null(ledger_stale_duplicate(core->ledger));
    (void)node_of(core, "copier", "u2", two_a100, 2);
    assert_int_equal(flags_of(core, "copier", "GPU-a"), GPU_DUPLICATE);
    assert_int_equal(flags_of(core, "copier", "GPU-b"), GPU_DUPLICATE);
    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_null(ledger_stale_duplicate(core->ledger));
    assert_int_equal(ledger_node(core->ledger, TEXT("honest"))->owned_ids, 2);
}

CORE_TEST(what_a_pod_gives_back_while_its_node_shows_nothing_is_kept)
{
    (void)node_of(core, "honest", "u1", two_a100, 1);
    (void)node_of(core, "copier", "u2", two_a100, 1);
    assert_int_equal(core_reserve(core, "x", "honest", "100"), VERDICT_OK);
    (void)node_of(core, "honest", "u1", NULL, 0);
    assert_int_equal(flags_of(core, "honest", "GPU-a"), GPU_ABSENT);
    (void)core_step(core, COMMAND_RELEASE, "x");
    heal(core);
    assert_int_equal(flags_of(core, "honest", "GPU-a"), -1);
    assert_int_equal(flags_of(core, "copier", "GPU-a"), GPU_DUPLICATE);
    assert_ptr_equal(ledger_owner(core->ledger, TEXT("GPU-a")),
                     ledger_node(core->ledger, TEXT("honest")));
    core_undo(core);
    heal(core);
    assert_int_equal(flags_of(core, "honest", "GPU-a"), GPU_ABSENT);
    assert_int_equal(flags_of(core, "copier", "GPU-a"), GPU_DUPLICATE);
}

CORE_TEST(a_claim_lapses_with_its_node_and_goes_to_the_next)
{
    (void)node_of(core, "first", "u1", two_a100, 2);
    (void)node_of(core, "third", "u3", two_a100, 1);
    (void)node_of(core, "fourth", "u4", two_a100, 1);
    (void)node_of(core, "first", "u1", NULL, 0);
    assert_int_equal(go(core, "first"), VERDICT_OK);
    heal(core);
    assert_int_equal(flags_of(core, "third", "GPU-a"), GPU_CONTESTED);
    assert_int_equal(flags_of(core, "fourth", "GPU-a"), GPU_DUPLICATE);
    (void)node_of(core, "first", "u1", two_a100, 2); /* back again */
    assert_int_equal(flags_of(core, "first", "GPU-a"), GPU_DUPLICATE);
    assert_int_equal(flags_of(core, "first", "GPU-b"), 0);
    (void)node_of(core, "fourth", "u4", NULL, 0);
    (void)node_of(core, "first", "u1", NULL, 0);
    assert_int_equal(flags_of(core, "third", "GPU-a"), 0); /* nobody contests it any more */
}

CORE_TEST(a_node_anew_under_its_name_has_only_what_it_shows_or_holds)
{
    (void)node_of(core, "n1", "u1", two_a100, 2);
    (void)node_of(core, "n2", "u2", two_a100, 2);
    /* Deleted and recreated before anyone looked: it keeps what it shows at once. */
    (void)node_of(core, "n1", "u1-anew", two_a100, 1);
    assert_int_equal(flags_of(core, "n1", "GPU-a"), GPU_CONTESTED);
    assert_int_equal(flags_of(core, "n2", "GPU-a"), GPU_DUPLICATE);
    assert_int_equal(flags_of(core, "n2", "GPU-b"), 0);
    /* A pod of the previous Node keeps it until the pod ends, and no longer. */
    assert_int_equal(core_reserve(core, "x", "n1", "100"), VERDICT_OK);
    (void)node_of(core, "n1", "u1-third", NULL, 0);
    assert_int_equal(flags_of(core, "n1", "GPU-a"), GPU_ABSENT);
    assert_int_equal(flags_of(core, "n2", "GPU-a"), GPU_DUPLICATE);
    (void)core_step(core, COMMAND_RELEASE, "x");
    heal(core);
    assert_int_equal(flags_of(core, "n2", "GPU-a"), 0);
    /* What the previous Node claimed but did not show lapses with it. */
    (void)node_of(core, "n2", "u2", NULL, 0);
    assert_int_equal(ledger_node(core->ledger, TEXT("n2"))->owned_ids, 2);
    (void)node_of(core, "n2", "u2-anew", NULL, 0);
    assert_int_equal(ledger_node(core->ledger, TEXT("n2"))->owned_ids, 0);
    assert_null(ledger_owner(core->ledger, TEXT("GPU-a")));
}

CORE_TEST(a_node_claims_no_more_than_a_node_can_have)
{
    for (int i = 0; i < 200; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "GPU-%03d", i);
        const struct core_gpu gpu = {.id = id};
        (void)node_of(core, "n1", "u1", &gpu, 1);
    }
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->owned_ids, GPUS_PER_NODE_MAX);
    assert_int_equal(core->ledger->owners.count, GPUS_PER_NODE_MAX + 1);
    (void)go(core, "n1");
    assert_int_equal(core->ledger->owners.count, 0);
}

/* The order of a first list means nothing; the age of the Nodes decides. */
CORE_TEST(where_a_ledger_begins_the_younger_node_gives_way)
{
    (void)node_of(core, "copier", "u2", two_a100, 2);
    (void)node_of(core, "spare", "u3", &two_a100[1], 1);
    (void)node_of(core, "copier", "u2", two_a100, 1); /* GPU-b is only claimed */
    const struct inventory *honest = core_inventory(core, "honest", "u1", two_a100, 2);
    const struct command give_way = {.kind = COMMAND_NODE, .node = "copier", .first_owner = honest};
    const struct command comes = {.kind = COMMAND_NODE, .inventory = honest};
    assert_int_equal(core_do(core, &give_way), VERDICT_OK);
    assert_int_equal(core_do(core, &give_way), VERDICT_SAME);
    assert_int_equal(core_do(core, &comes), VERDICT_OK);
    heal(core);
    assert_int_equal(flags_of(core, "honest", "GPU-a"), GPU_CONTESTED);
    assert_int_equal(flags_of(core, "copier", "GPU-a"), GPU_DUPLICATE);
    assert_int_equal(flags_of(core, "spare", "GPU-b"), GPU_DUPLICATE);
    assert_int_equal(core_reserve(core, "x", "honest", "2000"), VERDICT_OK);
}

CORE_TEST(what_a_pod_holds_gives_way_to_no_older_node)
{
    (void)node_of(core, "n1", "u1", two_a100, 2);
    assert_int_equal(core_reserve(core, "x", "n1", "100"), VERDICT_OK);
    const struct command give_way = {
        .kind = COMMAND_NODE,
        .node = "n1",
        .first_owner = core_inventory(core, "n2", "u2", two_a100, 2),
    };
    assert_int_equal(core_do(core, &give_way), VERDICT_OK);
    const bool on_a = core_gpu(core, "n1", "GPU-a")->charges > 0;
    assert_int_equal(flags_of(core, "n1", on_a ? "GPU-a" : "GPU-b"), 0);
    assert_int_equal(flags_of(core, "n1", on_a ? "GPU-b" : "GPU-a"), GPU_DUPLICATE);
}

CORE_TEST(only_reservations_are_gone_through_as_open)
{
    size_t at = 0;
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_reserve(core, "b", "n1", "300");
    (void)core_step(core, COMMAND_CONFIRM, "b");
    assert_ptr_equal(ledger_next_open(core->ledger, &at), ledger_find(core->ledger, TEXT("a")));
    assert_null(ledger_next_open(core->ledger, &at));
}

static enum verdict judge_again(struct core_fixture *core, uint64_t version,
                                const struct request *request)
{
    const struct command command = {.kind = COMMAND_VERSION,
                                    .at_ms = core->now_ms,
                                    .uid = "a",
                                    .version = version,
                                    .request = request};
    return core_do(core, &command);
}

static enum verdict reserve_first(struct core_fixture *core, const struct request *request)
{
    const struct command reserve = {.kind = COMMAND_RESERVE,
                                    .at_ms = core->now_ms,
                                    .uid = "a",
                                    .namespace = "default",
                                    .name = "a",
                                    .node = "n1",
                                    .version = 1,
                                    .request = request};
    return core_do(core, &reserve);
}

CORE_TEST(what_is_asked_for_now_is_met_in_every_part_or_not_at_all)
{
    struct change change;
    static const struct core_gpu gpu[] = {{.id = "GPU-a", .index = 0, .mib = 1000},
                                          {.id = "GPU-b", .index = 1, .mib = 1000}};
    struct request *request = core_request(core, "300+200x2");
    (void)core_node(core, "n1", gpu, 2);
    assert_int_equal(reserve_first(core, request), VERDICT_OK);
    const struct command again = {
        .kind = COMMAND_VERSION, .uid = "a", .version = 1, .request = request};
    assert_int_equal(ledger_decide(core->ledger, &again, &change), VERDICT_SAME);
    assert_ptr_equal(change.held, ledger_find(core->ledger, TEXT("a")));

    assert_int_equal(judge_again(core, 2, request), VERDICT_OK);
    request->memory_mib = 200; /* the memory that comes with the smaller part */
    assert_int_equal(judge_again(core, 3, request), VERDICT_OK);
    request->memory_mib = 201;
    assert_int_equal(judge_again(core, 4, request), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_CHANGED);
    request->memory_mib = 0;
    request->whole = 1;
    assert_int_equal(judge_again(core, 4, request), VERDICT_REFUSED);
    request->whole = 0;
    static const char *const words[] = {"300+201x2", "300+200", "301+200x2", "300", "300+200x2+1"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        assert_int_equal(judge_again(core, 4, core_request(core, words[i])), VERDICT_REFUSED);
    assert_int_equal(judge_again(core, 4, request), VERDICT_OK);
    (void)core_node(core, "n1", gpu, 1); /* the other GPU is missing */
    assert_int_equal(judge_again(core, 5, request), VERDICT_REFUSED);
    (void)go(core, "n1");
    assert_int_equal(judge_again(core, 5, request), VERDICT_REFUSED);
}

CORE_TEST(what_is_asked_for_now_lies_as_it_demands_or_not_at_all)
{
    static const struct core_gpu gpu[] = {
        {.id = "GPU-a", .index = 0, .socket = 1, .peers = 1 << 1 | 1 << 5},
        {.id = "GPU-b", .index = 1, .socket = 2, .peers = 1 << 0},
        {.id = "GPU-c", .index = 2, .socket = 2},
        {.id = "GPU-d", .index = 3},
        {.id = "GPU-e", .index = 4},
        {.id = "GPU-f", .index = 5, .socket = 1, .peers = 1 << 0},
        {.id = "GPU-g", .index = 6, .socket = 1},
    };
    static const struct {
        const char *words;
        uint32_t gpus[3]; /* that are shown, and of these the only ones with room */
        bool nvlink;
        bool numa;
    } row[] = {
        {"700x2", {0, 1, 1}, true, false},
        {"700x2", {1, 2, 2}, false, true},
        {"700x2", {3, 4, 4}, false, false}, /* an unknown NUMA node is none */
        {"700x2", {5, 6, 6}, false, true},
        {"700", {3, 3, 3}, true, true},
        {"700+700", {0, 2, 2}, true, true}, /* each container by itself */
        {"700x3", {0, 5, 6}, false, true},
        {"700x3", {0, 1, 5}, false, false}, /* the first is linked with both, and these are not */
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct core_gpu shown[ARRAY_LEN(gpu)];
        memcpy(shown, gpu, sizeof gpu);
        for (uint32_t k = 0; k < ARRAY_LEN(gpu); k++)
            shown[k].sick = k != row[i].gpus[0] && k != row[i].gpus[1] && k != row[i].gpus[2];
        (void)core_node(core, "n1", shown, ARRAY_LEN(shown));
        struct request *request = core_request(core, row[i].words);
        assert_int_equal(reserve_first(core, request), VERDICT_OK);
        request->topology = TOPOLOGY_NVLINK;
        assert_int_equal(judge_again(core, 2, request),
                         row[i].nvlink ? VERDICT_OK : VERDICT_REFUSED);
        request->topology = TOPOLOGY_NUMA;
        assert_int_equal(judge_again(core, 3, request), row[i].numa ? VERDICT_OK : VERDICT_REFUSED);
        request->topology = TOPOLOGY_ANY;
        assert_int_equal(judge_again(core, 4, request), VERDICT_OK);
        assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    }
}

/* It comes behind as many GPUs as a set of links has bits. */
CORE_TEST(a_gpu_that_left_is_linked_with_none)
{
    struct core_gpu gpu[GPUS_PER_NODE_MAX];
    static char name[GPUS_PER_NODE_MAX + 1][16];
    for (uint32_t i = 0; i < ARRAY_LEN(gpu); i++) {
        (void)snprintf(name[i], sizeof name[i], "GPU-%02u", i);
        gpu[i] = (struct core_gpu){.id = name[i], .index = i, .sick = i > 1};
    }
    gpu[0].peers = 1 << 1;
    gpu[1].peers = 1 << 0;
    (void)core_node(core, "n1", gpu, ARRAY_LEN(gpu));
    struct request *request = core_request(core, "700x2");
    assert_int_equal(reserve_first(core, request), VERDICT_OK);
    request->topology = TOPOLOGY_NVLINK;
    assert_int_equal(judge_again(core, 2, request), VERDICT_OK);
    gpu[1].id = "GPU-new";
    (void)core_node(core, "n1", gpu, ARRAY_LEN(gpu));
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->gpus, ARRAY_LEN(gpu) + 1);
    assert_int_equal(judge_again(core, 3, request), VERDICT_REFUSED);
}

/* Of many nodes that show an owner's UUID, only one is looked at when the owner leaves. */
CORE_TEST(the_heir_of_a_gpu_is_found_without_looking_at_the_cluster)
{
    enum { NODES = 100 };
    char name[32];
    for (uint32_t i = 0; i < NODES; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        (void)core_node(core, name, two_a100, 1);
    }
    for (uint32_t i = 0; i + 1 < NODES; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        heal(core);
        assert_int_equal(core->ledger->n_undecided, 0);
        assert_int_equal(go(core, name), VERDICT_OK);
        assert_int_equal(core->ledger->n_undecided, 1);
        (void)snprintf(name, sizeof name, "n%u", i + 1);
        assert_string_equal(ledger_stale_duplicate(core->ledger)->name->text, name);
    }
}

/* When its batch is lost, the heir gets its turn again. */
CORE_TEST(the_heir_is_found_again_where_his_turn_is_undone)
{
    (void)core_node(core, "n1", two_a100, 1);
    (void)core_node(core, "n2", two_a100, 1);
    (void)core_node(core, "n3", two_a100, 1);
    (void)go(core, "n1");
    const struct command again = {.kind = COMMAND_NODE, .node = "n2"};
    assert_string_equal(ledger_stale_duplicate(core->ledger)->name->text, "n2");
    core_forget_undo(core);
    assert_int_equal(core_do(core, &again), VERDICT_OK);
    assert_null(ledger_stale_duplicate(core->ledger));
    core_undo(core);
    const struct node *heir = ledger_stale_duplicate(core->ledger);
    assert_non_null(heir);
    const struct command his_turn = {.kind = COMMAND_NODE, .node = heir->name->text};
    assert_int_equal(core_do(core, &his_turn), VERDICT_OK);
    assert_null(ledger_stale_duplicate(core->ledger));
    ledger_assert_valid(core->ledger);
}

/* A freed place is reused without a look at the others. */
CORE_TEST(a_free_place_is_found_at_once)
{
    enum { NODES = BOOK_NODES + 5 };
    char name[32];
    for (uint32_t i = 0; i < NODES; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        core_show_quickly(core, name, two_a100, 0);
    }
    const uint64_t indexed = core->ledger->indexed;
    for (uint32_t i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "n%u", i * 7);
        const struct command gone = {.kind = COMMAND_NODE_GONE, .node = name};
        assert_int_equal(core_do_quickly(core, &gone), VERDICT_OK);
        assert_int_equal(core->ledger->n_free_slots, 1);
        const struct snapshot *without = ledger_publish(core->ledger, NULL, 0);
        assert_null(snapshot_node(without, text_of(name)));
        core_show_quickly(core, name, two_a100, 0);
        const struct snapshot *with = ledger_publish(core->ledger, NULL, 0);
        assert_null(snapshot_node(without, text_of(name)));
        assert_non_null(snapshot_node(with, text_of(name)));
        snapshot_unref(without);
        snapshot_unref(with);
        assert_int_equal(core->ledger->places, NODES);
    }
    ledger_assert_valid(core->ledger);
    assert_int_equal(core->ledger->indexed - indexed, 100); /* one entry per node added */
}

CORE_TEST(a_node_named_like_a_uuid_owns_no_uuids)
{
    (void)core_node(core, "n1", two_a100, 1);
    (void)core_node(core, "GPU", two_a100, 1);
    assert_int_equal(core_gpu(core, "GPU", "GPU-a")->flags, GPU_DUPLICATE);
}

CORE_TEST(a_gone_node_stays_for_its_pods_and_leaves_with_the_last)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_reserve(core, "b", "n1", "900");
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(core_do(core, &gone), VERDICT_SAME);
    assert_true(ledger_node(core->ledger, TEXT("n1"))->gone);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->source, SOURCE_NONE);
    assert_int_equal(core_reserve(core, "c", "n1", "100"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_NO_GPU);

    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->gpus, 1);
    (void)core_step(core, COMMAND_RELEASE, "b");
    assert_null(ledger_node(core->ledger, TEXT("n1")));
    assert_null(core->done[core->dones - 1].node_after);
    while (core->dones > 0)
        core_undo(core);
    assert_null(ledger_node(core->ledger, TEXT("n1")));
}

CORE_TEST(a_name_that_comes_again_keeps_the_pods_counted)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    const struct command again = {.kind = COMMAND_NODE,
                                  .inventory = core_inventory(core, "n1", "second", two_a100, 2)};
    assert_int_equal(core_do(core, &again), VERDICT_OK);
    assert_string_equal(ledger_node(core->ledger, TEXT("n1"))->uid->text, "second");
    const struct allocation *a = ledger_find(core->ledger, TEXT("a"));
    assert_string_equal(a->facts.node_uid->text, "node-uid"); /* the Node it was granted on */
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 300);

    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(core_do(core, &again), VERDICT_OK);
    assert_false(ledger_node(core->ledger, TEXT("n1"))->gone);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, 0);
}

CORE_TEST(a_believable_annotation_is_believed)
{
    (void)core_node(core, "n1", two_a100, 2);
    struct pod *pod = core_pod(core, "a", "n1");
    pod->scheduled_ms = 555;
    core_note(core, pod, "c0 GPU-b 300 24576");
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    const struct allocation *a = ledger_find(core->ledger, TEXT("a"));
    assert_int_equal(a->facts.state, STATE_BOUND);
    assert_int_equal(a->facts.origin, ORIGIN_ADOPTED);
    assert_int_equal(a->facts.bound_ms, 555);
    assert_false(a->facts.presumed);
    assert_false(a->facts.annotation_differs);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->used_milli, 300);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->used_mib, 24576);
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_SAME); /* a row always wins */

    /* An alias is resolved; an id that is missing is kept, never moved. */
    pod = core_pod(core, "b", "n1");
    core_note(core, pod, "c0 n1/gpu-1 300 24576,c1 GPU-gone 200 9");
    assert_int_equal(core_adopt(core, pod, "300+200"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->used_milli, 600);
    assert_int_equal(core_gpu(core, "n1", "GPU-gone")->flags, GPU_ABSENT | GPU_DUPLICATE);
    assert_int_equal(core_gpu(core, "n1", "GPU-gone")->used_milli, 200);
    assert_false(ledger_find(core->ledger, TEXT("b"))->facts.presumed);

    pod = core_pod(core, "c", "n2");
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    pod = core_pod(core, "c", "n1");
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_ELSEWHERE);
}

CORE_TEST(what_cannot_be_believed_is_adopted)
{
    static const char *const note[] = {
        "",                              /* nothing */
        "c0 GPU-a 299 1",                /* another amount */
        "c0 GPU-a 300 1,c1 GPU-a 100 1", /* one container too many */
        "cx GPU-a 300 1",                /* another container */
        "c0 GPU-a 300 1,c0 GPU-b 300 1", /* one part too many */
        "c0 n2/gpu-0 300 1",             /* a GPU of another node */
        "c0 GPU-a 300 4000000000",       /* far more memory than any GPU has */
        "c0 GPU-a 300 99999",            /* more memory than the GPU has */
    };
    (void)core_node(core, "n1", two_a100, 2);
    for (size_t i = 0; i < ARRAY_LEN(note); i++) {
        struct pod *pod = core_pod(core, "a", "n1");
        core_note(core, pod, note[i]);
        assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
        const struct allocation *a = ledger_find(core->ledger, TEXT("a"));
        assert_true(a->facts.presumed);
        assert_true(a->facts.annotation_differs);
        assert_int_equal(a->charges, 1);
        assert_int_equal(allocation_milli(a), 300);
        assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
        assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->gpus, 2);
    }
    /* Two names of one GPU are not two GPUs. */
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-a 300 1,c0 n1/gpu-0 300 1");
    assert_int_equal(core_adopt(core, pod, "300x2"), VERDICT_OK);
    assert_true(ledger_find(core->ledger, TEXT("a"))->facts.presumed);
    assert_int_equal(ledger_find(core->ledger, TEXT("a"))->charges, 2);
}

CORE_TEST(an_adopted_pod_is_squeezed_in_where_nothing_fits)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "900");
    (void)core_reserve(core, "b", "n1", "700");
    assert_int_equal(core_adopt(core, core_pod(core, "c", "n1"), "400"), VERDICT_OK);
    const struct gpu *gpu = core_gpu(core, "n1", "GPU-b"); /* overused by 100, not by 300 */
    assert_int_equal(gpu->used_milli, 400);
    assert_int_equal(gpu->flags, GPU_OVER);
    assert_int_equal(ledger_find(core->ledger, TEXT("c"))->facts.share[0].mib, 32768);
    assert_int_equal(core_reserve(core, "d", "n1", "200"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_ROOM);

    /* Three parts, two GPUs: it cannot have a third. */
    assert_int_equal(core_adopt(core, core_pod(core, "e", "n1"), "100x3"), VERDICT_OK);
    assert_int_equal(ledger_find(core->ledger, TEXT("e"))->charges, 2);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->unplaced_milli, 0);
}

CORE_TEST(several_containers_are_squeezed_in_one_by_one)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "900");
    (void)core_reserve(core, "b", "n1", "900");
    assert_int_equal(core_adopt(core, core_pod(core, "c", "n1"), "200+200"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 200);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->used_milli, 200);
}

CORE_TEST(a_pod_of_an_unknown_node_makes_a_node_that_grants_nothing)
{
    assert_int_equal(core_adopt(core, core_pod(core, "a", "n1"), "300"), VERDICT_OK);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    assert_true(node->gone);
    assert_int_equal(node->unplaced_milli, 300);
    assert_int_equal(core_reserve(core, "b", "n1", "100"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_NO_GPU);

    assert_int_equal(core_node(core, "n1", two_a100, 2), VERDICT_OK);
    assert_int_equal(core_reserve(core, "b", "n1", "100"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_UNPLACED);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "b", "n1", "100"), VERDICT_OK);
}

CORE_TEST(whole_gpus_of_another_resource_close_the_node)
{
    (void)core_node(core, "n1", two_a100, 2);
    struct pod *pod = core_pod(core, "a", "n1");
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_SAME); /* asks for nothing at all */
    pod->whole_gpus = 1;
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->held_gpus, 1);
    assert_int_equal(core_reserve(core, "b", "n1", "100"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_MIXED);
    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    assert_int_equal(core_reserve(core, "b", "n1", "100"), VERDICT_OK);
}

CORE_TEST(an_amount_nobody_may_ask_for_is_counted_as_unplaced)
{
    struct pod_container container[] = {{.name = "c0", .amount = "1500"},
                                        {.name = "c1", .amount = "nonsense"},
                                        {.name = "c2", .amount = "-4"},
                                        {.name = "c3"}};
    (void)core_node(core, "n1", two_a100, 2);
    struct pod *pod = core_pod(core, "a", "n1");
    pod->ours = true;
    pod->containers = ARRAY_LEN(container);
    pod->container = container;
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->unplaced_milli,
                     1501); /* unreadable amounts together count as 1 */
    assert_true(ledger_find(core->ledger, TEXT("a"))->facts.presumed);

    container[0].amount = "9223372036854775807";
    pod->uid = "b";
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_OK);
    assert_int_equal(ledger_find(core->ledger, TEXT("b"))->facts.unplaced_milli,
                     2000); /* at most what the node has */
    const struct core_gpu small = {.id = "GPU-s", .milli = 1};
    (void)core_node(core, "n2", &small, 1);
    pod->uid = "d";
    pod->node = "n2";
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_OK);
    assert_int_equal(ledger_find(core->ledger, TEXT("d"))->facts.unplaced_milli, 1);
    container[0].amount = "1e99";
    pod->uid = "e";
    pod->node = "n3"; /* nothing is known of this node */
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_OK);
    assert_int_equal(ledger_find(core->ledger, TEXT("e"))->facts.unplaced_milli, 64000);
    container[0].amount = "-1e99";
    container[1].amount = NULL;
    pod->uid = "c";
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_SAME);
    container[0].amount = "0";
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_SAME);
}

CORE_TEST(annotations_cannot_bring_gpus_without_end)
{
    char uid[32];
    char note[64];
    (void)core_node(core, "n1", two_a100, 2);
    for (int i = 0; i < 80; i++) {
        (void)snprintf(uid, sizeof uid, "pod-%d", i);
        (void)snprintf(note, sizeof note, "c0 GPU-forged-%d 100 1", i);
        struct pod *pod = core_pod(core, uid, "n1");
        core_note(core, pod, note);
        assert_int_equal(core_adopt(core, pod, "100"), VERDICT_OK);
    }
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->gpus, GPUS_PER_NODE_MAX);
}

CORE_TEST(a_node_may_remember_more_gpus_than_it_may_show)
{
    char id[2][GPUS_PER_NODE_MAX][32];
    struct core_gpu gpu[2][GPUS_PER_NODE_MAX] = {{{0}}};
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        for (int set = 0; set < 2; set++) {
            (void)snprintf(id[set][i], sizeof id[set][i], "GPU-%d-%u", set, i);
            gpu[set][i] = (struct core_gpu){.id = id[set][i], .index = i};
        }
    assert_int_equal(core_node(core, "n1", gpu[0], GPUS_PER_NODE_MAX), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n1", "64000"), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", gpu[1], GPUS_PER_NODE_MAX), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->gpus, 2 * GPUS_PER_NODE_MAX);
    assert_int_equal(core_reserve(core, "b", "n1", "64000"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "c", "n1", "1"), VERDICT_REFUSED);
    struct pod *pod = core_pod(core, "d", "n1");
    core_note(core, pod, "c0 GPU-forged 100 1"); /* otherwise GPUs would grow without limit */
    assert_int_equal(core_adopt(core, pod, "100"), VERDICT_OK);
    assert_true(ledger_find(core->ledger, TEXT("d"))->facts.presumed);
}

CORE_TEST(room_is_given_by_what_frees_and_repairs_only)
{
    struct core_gpu gpu = {.id = "GPU-a", .mib = 81920, .cordoned = true};
    (void)core_node(core, "n1", &gpu, 1);
    assert_true(change_gives_room(&core->done[core->dones - 1])); /* room for a whole GPU */
    gpu.mib = 81921;
    (void)core_node(core, "n1", &gpu, 1);
    assert_false(change_gives_room(&core->done[core->dones - 1]));
    gpu.cordoned = false;
    (void)core_node(core, "n1", &gpu, 1);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    (void)core_reserve(core, "a", "n1", "300");
    assert_false(change_gives_room(&core->done[core->dones - 1]));
    (void)core_step(core, COMMAND_CONFIRM, "a");
    assert_false(change_gives_room(&core->done[core->dones - 1]));
    gpu.mib = 1000;
    (void)core_node(core, "n1", &gpu, 1);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_OVER); /* 24576 MiB are held */
    assert_false(change_gives_room(&core->done[core->dones - 1]));
    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_true(change_gives_room(&core->done[core->dones - 1]));
}

CORE_TEST(where_the_last_share_goes_whole_gpus_get_room_though_shares_do_not)
{
    struct core_gpu gpu = {.id = "GPU-a", .mib = 81920};
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n2"};
    (void)core_node(core, "n1", &gpu, 1);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_reserve(core, "b", "n1", "300");
    gpu.cordoned = true;
    (void)core_node(core, "n1", &gpu, 1);
    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_false(change_gives_room(&core->done[core->dones - 1]));
    (void)core_step(core, COMMAND_RELEASE, "b");
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    (void)core_node(core, "n2", NULL, 0); /* a node without GPUs of ours may have whole ones */
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    struct pod *whole = core_pod(core, "w", "n2");
    whole->whole_gpus = 1;
    (void)core_adopt(core, whole, NULL);
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_false(change_gives_room(&core->done[core->dones - 1]));
    (void)core_node(core, "n2", NULL, 0);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
}

CORE_TEST(a_gpu_of_another_kind_gives_room_be_it_smaller)
{
    struct core_gpu gpu = {.id = "GPU-a", .mib = 1000};
    (void)core_node(core, "n1", &gpu, 1);
    gpu.mib = 900;
    (void)core_node(core, "n1", &gpu, 1);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    gpu.milli = 500;
    (void)core_node(core, "n1", &gpu, 1);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    struct inventory *other = core_inventory(core, "n1", "node-uid", &gpu, 1);
    other->gpu[0].model = "NVIDIA H100";
    const struct command command = {.kind = COMMAND_NODE, .inventory = other};
    (void)core_do(core, &command);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    other->gpu[0].numa = 1; /* a pod may wait for two GPUs on one NUMA node */
    (void)core_do(core, &command);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    other->gpu[0].cordoned = true;
    (void)core_do(core, &command);
    assert_false(change_gives_room(&core->done[core->dones - 1]));
}

CORE_TEST(a_new_link_gives_room)
{
    struct core_gpu gpu[] = {{.id = "GPU-a"}, {.id = "GPU-b", .index = 1}};
    (void)core_node(core, "n1", gpu, 2);
    gpu[0].peers = 2;
    gpu[1].peers = 1;
    (void)core_node(core, "n1", gpu, 2);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_SAME);
}

CORE_TEST(a_release_gives_room_though_no_memory_is_known)
{
    const struct core_gpu gpu = {.id = "GPU-a"};
    (void)core_node(core, "n1", &gpu, 1);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_true(change_gives_room(&core->done[core->dones - 1]));
}

CORE_TEST(a_release_gives_room_be_it_on_the_last_gpu)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "1000");
    (void)core_reserve(core, "b", "n1", "300");
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->reserved_milli, 300);
    (void)core_step(core, COMMAND_RELEASE, "b");
    assert_true(change_gives_room(&core->done[core->dones - 1]));
}

CORE_TEST(a_release_gives_no_room_where_nothing_is_granted)
{
    static const char *const uid[] = {"a", "b"};
    (void)core_node(core, "n1", two_a100, 2); /* removed later */
    (void)core_node(core, "n2", two_counted, 2);
    for (size_t i = 0; i < ARRAY_LEN(uid); i++) {
        (void)core_reserve(core, uid[i], "n1", "300");
        struct pod *whole = core_pod(core, i == 0 ? "x" : "y", "n2");
        whole->whole_gpus = 1;
        (void)core_adopt(core, whole, NULL);
    }
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    assert_false(change_gives_room(&core->done[core->dones - 1]));
    assert_int_equal(core_step(core, COMMAND_RELEASE, "x"), VERDICT_OK);
    assert_false(change_gives_room(&core->done[core->dones - 1]));
    assert_int_equal(core_step(core, COMMAND_RELEASE, "y"), VERDICT_OK);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
}

/* n1 while it holds a pod with 300 milli and this much memory; the caller gets a reference. */
static const struct node *node_holding(struct core_fixture *core, uint32_t mib)
{
    char note[32];
    struct pod *pod = core_pod(core, "a", "n1");
    (void)snprintf(note, sizeof note, "c0 GPU-a 300 %u", mib);
    core_note(core, pod, note);
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_mib, mib);
    const struct node *node = node_ref(ledger_node(core->ledger, TEXT("n1")));
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    return node;
}

CORE_TEST(memory_alone_gives_room)
{
    const struct core_gpu gpu = {.id = "GPU-a", .mib = 1000};
    static const struct {
        uint32_t from;
        uint32_t to;
        bool gives;
    } line[] = {{500, 400, true},   {400, 500, false},   {1000, 999, true},
                {999, 1000, false}, {1000, 1000, false}, {400, 400, false}};
    (void)core_node(core, "n1", &gpu, 1);
    for (size_t i = 0; i < ARRAY_LEN(line); i++) {
        struct change change = {.kind = COMMAND_NODE,
                                .verdict = VERDICT_OK,
                                .node_before = node_holding(core, line[i].from),
                                .node_after = node_holding(core, line[i].to)};
        assert_int_equal(change_gives_room(&change), line[i].gives);
        change_done(&change);
    }
}

CORE_TEST(a_change_that_is_done_holds_nothing)
{
    struct change change;
    (void)core_node(core, "n1", two_a100, 2);
    const struct command gone = {.kind = COMMAND_NODE_GONE, .at_ms = 1, .node = "n1"};
    assert_int_equal(ledger_decide(core->ledger, &gone, &change), VERDICT_OK);
    assert_non_null(change.node_before);
    change_done(&change);
    assert_null(change.node_before);
    assert_int_equal(change.kind, COMMAND_NODE_GONE);
    assert_int_equal(change.verdict, VERDICT_OK);
    change_done(&change);
    ledger_free(NULL); /* freeing no ledger is allowed */
}

CORE_TEST(another_nodes_made_up_name_is_a_name_like_any_other)
{
    const struct core_gpu gpu = {.id = "n1/gpu-0", .mib = 1000};
    (void)core_node(core, "n1", two_counted, 1); /* its own made-up name, never contested */
    (void)core_node(core, "n2", &gpu, 1);
    (void)core_node(core, "n3", &gpu, 1);
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->flags, 0);
    assert_int_equal(core_gpu(core, "n2", "n1/gpu-0")->flags, 0);
    assert_int_equal(core_gpu(core, "n3", "n1/gpu-0")->flags, GPU_DUPLICATE);
}

CORE_TEST(every_command_and_verdict_has_its_word)
{
    assert_string_equal(command_name(COMMAND_NODE_GONE), "node_gone");
    assert_string_equal(verdict_name(VERDICT_ELSEWHERE), "elsewhere");
    for (int i = 0; i < COMMANDS; i++)
        assert_true(strlen(command_name((enum command_kind)i)) > 2);
    for (int i = 0; i <= VERDICT_REFUSED; i++)
        assert_true(strlen(verdict_name((enum verdict)i)) > 1);
}

static int restore_one(struct core_fixture *core, struct allocation_facts facts, struct err *err)
{
    struct names *names = ledger_names(core->ledger);
    const struct share share = {
        .container = "c0", .gpu = names_intern(names, TEXT("GPU-a")), .milli = 300, .mib = 1};
    if (facts.uid == NULL)
        facts.uid = "a";
    if (facts.shares == 1 && facts.share == NULL)
        facts.share = &share;
    if (facts.node == NULL)
        facts.node = names_intern(names, TEXT("n1"));
    facts.namespace = "default";
    facts.name = "pod";
    facts.node_uid = names_intern(names, TEXT("u"));
    return ledger_restore(core->ledger, &facts, err);
}

CORE_TEST(rows_that_contradict_the_invariants_are_named)
{
    struct names *names = ledger_names(core->ledger);
    struct err err;
    (void)core_node(core, "n1", two_a100, 1);
    CLEANUP(xfreep) char *before = core_dump(core->ledger);

    const struct share twice[] = {
        {.container = "c", .gpu = names_intern(names, TEXT("GPU-a")), .milli = 1},
        {.container = "c", .gpu = names_intern(names, TEXT("GPU-a")), .milli = 1}};
    const struct share empty = {.container = "c", .gpu = twice[0].gpu};
    const struct share huge = {.container = "c", .gpu = twice[0].gpu, .milli = 1001};
    const struct share stranger = {
        .container = "c", .gpu = names_intern(names, TEXT("GPU-z")), .milli = 1};
    const struct {
        struct allocation_facts facts;
        const char *says;
    } bad[] = {
        {{.uid = "", .shares = 1}, "uid"},
        {{.shares = 1, .node = names_intern(names, TEXT("n9"))}, "n9"},
        {{.shares = 1, .state = STATE_RELEASED}, "released"},
        {{.shares = 0}, "without a share"},
        {{.shares = 1, .unplaced_milli = 1}, "grant"},
        {{.shares = 0, .origin = ORIGIN_ADOPTED, .state = STATE_BOUND}, "holds nothing"},
        {{.shares = 1, .origin = ORIGIN_ADOPTED}, "not bound"},
        {{.shares = 2, .share = twice}, "two shares"},
        {{.shares = 1, .share = &empty}, "0 milli"},
        {{.shares = 1, .share = &huge}, "1001 milli"},
        {{.shares = 1, .share = &stranger}, "GPU-z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(restore_one(core, bad[i].facts, &err), -ERR_CORRUPT);
        assert_non_null(strstr(err.text, bad[i].says));
        assert_non_null(strstr(err.text, "allocation"));
    }
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(before, after);
    assert_int_equal(restore_one(core, (struct allocation_facts){.shares = 1}, &err), 0);
    assert_int_equal(restore_one(core, (struct allocation_facts){.shares = 1}, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.text, "twice"));
    ledger_assert_valid(core->ledger);
}

CORE_TEST(node_rows_that_contradict_the_invariants_are_named)
{
    struct names *names = ledger_names(core->ledger);
    const struct atom *empty = names_intern(names, TEXT(""));
    struct err err;
    (void)core_node(core, "n1", two_a100, 1);

    const struct gpu good = {
        .id = names_intern(names, TEXT("GPU-q")), .model = empty, .milli = 500, .numa = -1};
    struct gpu gpu[2] = {good, good};
    struct node_build build = {.name = names_intern(names, TEXT("n2")),
                               .uid = empty,
                               .problem_text = empty,
                               .gpus = 1,
                               .gpu = gpu};
    static const char *const says[] = {"milli", "milli", "without an id", "another node's",
                                       "twice", "twice", "name"};
    for (size_t i = 0; i < ARRAY_LEN(says); i++) {
        struct node_build bad = build;
        gpu[0] = good;
        if (i <= 1)
            gpu[0].milli = i == 0 ? 0 : 1001;
        else if (i == 2)
            gpu[0].id = empty;
        else if (i == 3)
            gpu[0].id = names_intern(names, TEXT("GPU-a"));
        else if (i == 4)
            bad.gpus = 2;
        else if (i == 5)
            bad.name = names_intern(names, TEXT("n1"));
        else
            bad.name = empty;
        assert_int_equal(ledger_restore_node(core->ledger, &bad, &err), -ERR_CORRUPT);
        assert_non_null(strstr(err.text, says[i]));
    }
    gpu[0] = good;
    assert_int_equal(ledger_restore_node(core->ledger, &build, &err), 0);
    ledger_assert_valid(core->ledger);
}

CORE_TEST(what_was_wrong_with_a_node_goes_with_it)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    struct inventory *broken = core_inventory(core, "n1", "node-uid", NULL, 0);
    broken->problem = PROBLEM_MIG;
    (void)snprintf(broken->problem_text, sizeof broken->problem_text, "MIG is on");
    const struct command command = {.kind = COMMAND_NODE, .inventory = broken};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->problem, PROBLEM_MIG);
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    assert_int_equal(node->problem, PROBLEM_NONE);
    assert_string_equal(node->problem_text->text, "");
}

CORE_TEST(no_node_comes_beyond_the_most_there_may_be)
{
    struct names *names = ledger_names(core->ledger);
    const struct atom *empty = names_intern(names, TEXT(""));
    struct node_build build = {.uid = empty, .problem_text = empty};
    struct change change;
    struct err err;
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%u", i);
        build.name = names_intern(names, text_of(name));
        assert_int_equal(ledger_restore_node(core->ledger, &build, &err), 0);
    }
    build.name = names_intern(names, TEXT("more"));
    assert_int_equal(ledger_restore_node(core->ledger, &build, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.text, "one more than"));

    struct command command = {.kind = COMMAND_NODE,
                              .at_ms = 1,
                              .inventory = core_inventory(core, "more", "uid", two_a100, 2)};
    assert_int_equal(ledger_decide(core->ledger, &command, &change), VERDICT_REFUSED);
    assert_int_equal(change.reason, REASON_LIMIT);
    struct command adopt = {.kind = COMMAND_ADOPT,
                            .at_ms = 1,
                            .uid = "a",
                            .namespace = "default",
                            .name = "a",
                            .node = "more",
                            .request = core_request(core, "300"),
                            .pod = core_pod(core, "a", "more")};
    assert_int_equal(ledger_decide(core->ledger, &adopt, &change), VERDICT_REFUSED);
    assert_int_equal(change.reason, REASON_LIMIT);

    /* Existing nodes are served as before. */
    command.inventory = core_inventory(core, "n7", "uid", two_a100, 2);
    assert_int_equal(ledger_decide(core->ledger, &command, &change), VERDICT_OK);
    change_done(&change);
    adopt.node = "n8";
    adopt.pod = core_pod(core, "a", "n8");
    assert_int_equal(ledger_decide(core->ledger, &adopt, &change), VERDICT_OK);
    change_done(&change);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    assert_int_equal(snapshot->nodes, NODES_MAX);
    assert_non_null(snapshot_node(snapshot, TEXT("n65535")));
    snapshot_unref(snapshot);
}

/* The check finds and names what a stray write does to the ledger in memory. */
CORE_TEST(a_wrong_word_in_memory_is_found_and_named)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_counted, 2);
    (void)core_node(core, "n3", two_a100, 1); /* a duplicate */
    (void)core_reserve(core, "a", "n1", "300+400");
    (void)core_reserve(core, "b", "n1", "1000");
    (void)core_step(core, COMMAND_CONFIRM, "b");
    struct node *node = (struct node *)(uintptr_t)ledger_node(core->ledger, TEXT("n1"));
    struct allocation *a = (struct allocation *)(uintptr_t)node->allocation[0];
    struct allocation *b = (struct allocation *)(uintptr_t)node->allocation[1];
    struct gpu *gpu = &node->gpu[0];
    struct share *share = (struct share *)(uintptr_t)&a->facts.share[0];
    uint16_t order = 9;
    uint16_t absent = GPU_ABSENT;
    uint16_t duplicate = GPU_DUPLICATE;
    uint16_t over = GPU_OVER;
    uint32_t small = 7, none = 0; /* for counts: a larger one would read past the memory */
    uint32_t large = 1001;
    bool yes = true;
    char uid = 'c';
    enum allocation_state released = STATE_RELEASED;
    enum allocation_state bound = STATE_BOUND;
    enum allocation_origin observed = ORIGIN_ADOPTED;
    const struct atom *other = ledger_node(core->ledger, TEXT("n2"))->name;

    const struct {
        void *at;
        const void *put;
        size_t bytes;
        const char *says;
    } wrong[] = {
        {&gpu->used_milli, &small, sizeof small, "used milli"},
        {&gpu->reserved_milli, &small, sizeof small, "reserved milli"},
        {&gpu->used_mib, &small, sizeof small, "used MiB"},
        {&gpu->charges, &order, sizeof order, "count the pods"},
        {&gpu->flags, &over, sizeof over, "beyond its size"},
        {&gpu->flags, &duplicate, sizeof duplicate, "free milli"},
        {&gpu->flags, &absent, sizeof absent, "wrong place"},
        {&gpu->id, &node->gpu[1].id, sizeof gpu->id, "does not have"},
        {&node->gone, &yes, sizeof yes, "its node is gone"},
        {&node->held_gpus, &small, sizeof small, "held GPUs"},
        {&node->unplaced_milli, &small, sizeof small, "unplaced milli"},
        {&node->free_milli, &small, sizeof small, "free milli"},
        {&node->name, &other, sizeof other, "another node"},
        {&a->charge[0].milli, &small, sizeof small, "what its shares come to"},
        {&a->charge[0].mib, &small, sizeof small, "what its shares come to"},
        {&a->charges, &none, sizeof none, "pod"},
        {&share->milli, &large, sizeof large, "what its shares come to"},
        {&share->order, &order, sizeof order, "order of their lives"},
        {&a->facts.node, &other, sizeof other, "another node"},
        {(char *)(uintptr_t)a->facts.uid, &uid, 1, "wrong place, or twice"},
        {&a->facts.state, &bound, sizeof bound, "used milli"},
        {&b->facts.state, &released, sizeof released, "released"},
        {&b->facts.in_doubt, &yes, sizeof yes, "doubt"},
        {&a->facts.origin, &observed, sizeof observed, "granted"},
        {&gpu->milli, &large, sizeof large, "free milli"},
    };
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char kept[16];
        assert_true(wrong[i].bytes <= sizeof kept);
        memcpy(kept, wrong[i].at, wrong[i].bytes);
        memcpy(wrong[i].at, wrong[i].put, wrong[i].bytes);
        const int found = ledger_check(core->ledger, &err);
        memcpy(wrong[i].at, kept, wrong[i].bytes);
        assert_int_equal(found, -ERR_CORRUPT);
        assert_non_null(strstr(err.text, wrong[i].says));
        assert_non_null(strstr(err.text, "node n"));
    }
    assert_int_equal(ledger_check(core->ledger, &err), 0);
}

/* Checking a few nodes at a time, as the writer does, reaches every node. */
CORE_TEST(checking_piece_by_piece_misses_nothing)
{
    char name[16];
    struct err err;
    for (int i = 0; i < 150; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        (void)core_node(core, name, two_counted, 2);
    }
    const uint32_t places = ledger_places(core->ledger);
    assert_true(places >= 150);
    size_t at = 0;
    const struct node *node;
    while ((node = ledger_next_node(core->ledger, &at)) != NULL) {
        ((struct node *)(uintptr_t)node)->free_milli--;
        uint32_t found = 0;
        for (uint32_t from = 0; from < places; from += 50)
            found += ledger_check_some(core->ledger, from, 50, &err) < 0;
        ((struct node *)(uintptr_t)node)->free_milli++;
        assert_int_equal(found, 1);
        assert_non_null(strstr(err.text, node->name->text));
    }
    assert_int_equal(ledger_check(core->ledger, &err), 0);
}

CORE_TEST(what_is_restored_is_what_was)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_counted, 2);
    (void)core_node(core, "n3", two_a100, 1); /* a duplicate */
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_reserve(core, "b", "n2", "400+i700");
    (void)core_adopt(core, core_pod(core, "c", "n9"), "300");
    (void)core_node(core, "n1", &two_a100[1], 1); /* GPU-a is absent */
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    struct ledger *copy = core_copy(core->ledger);
    CLEANUP(xfreep) char *after = core_dump(copy);
    assert_string_equal(before, after);
    assert_null(ledger_stale_duplicate(copy));
    const struct snapshot *snapshot = ledger_publish(copy, NULL, 0);
    assert_int_equal(snapshot->capacity_generation, 0); /* the capacity is not new */
    snapshot_unref(snapshot);
    ledger_free(copy);
}

CORE_TEST(a_missing_gpu_cannot_be_restored_beside_its_owner)
{
    struct names *names = ledger_names(core->ledger);
    const struct atom *empty = names_intern(names, TEXT(""));
    struct err err;
    struct gpu gpu = {.id = names_intern(names, TEXT("GPU-a")),
                      .model = empty,
                      .milli = 500,
                      .numa = -1,
                      .flags = GPU_ABSENT};
    struct node_build build = {.name = names_intern(names, TEXT("n1")),
                               .uid = empty,
                               .problem_text = empty,
                               .gpus = 1,
                               .gpu = &gpu};
    assert_int_equal(ledger_restore_node(core->ledger, &build, &err), 0);
    (void)core_node(core, "n2", two_a100, 1);
    assert_int_equal(restore_one(core, (struct allocation_facts){.shares = 1}, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.text, "GPU-a is another node's"));
    ledger_assert_valid(core->ledger);
}

/* ---- the random walk */

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(seed >> 33) % below;
}

static const char *const walk_node[] = {"n1", "n2", "n3"};
static const char *const walk_uid[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
static const char *const walk_gpu[] = {"GPU-a", "GPU-b", "GPU-c", "GPU-d", "n1/gpu-0", "n2/gpu-1"};
static const char *const walk_words[] = {"300",      "500",       "1000",      "2000",   "200x2",
                                         "400+i700", "s300+i600", "100+200x2", "1000+1", "100x3"};

static const char *const walk_holder[] = {"pod:a", "pod:b", "pod:z", "env:c", "process"};

static bool walk_holds; /* GPUs are held whole */

static struct inventory *walk_inventory(struct core_fixture *core)
{
    struct core_gpu gpu[3] = {{0}};
    const uint32_t node = draw(ARRAY_LEN(walk_node));
    const uint32_t gpus = draw(4);
    const uint32_t counted = draw(3);
    const uint32_t first = draw(4);
    for (uint32_t i = 0; i < gpus; i++) {
        const uint32_t half = draw(4);
        const uint32_t memory = draw(3);
        const uint32_t trouble = draw(8);
        const uint32_t holder = walk_holds ? draw(32) : 32;
        gpu[i].id = counted == 0 ? NULL : walk_gpu[(first + i) % 4];
        gpu[i].index = i;
        gpu[i].milli = half == 0 ? 500 : 1000;
        gpu[i].mib = memory * 8192;
        gpu[i].sick = trouble == 0;
        gpu[i].cordoned = trouble == 1;
        if (counted != 0 && holder < ARRAY_LEN(walk_holder))
            gpu[i].held = walk_holder[holder];
    }
    const uint32_t uid = draw(8);
    struct inventory *inventory =
        core_inventory(core, walk_node[node], uid == 0 ? "second" : "first", gpu, gpus);
    if (gpus == 0)
        inventory->problem = PROBLEM_MIG;
    return inventory;
}

static struct pod *walk_pod(struct core_fixture *core, const char *uid, const char *node)
{
    struct pod *pod = core_pod(core, uid, node);
    char note[256];
    const uint32_t kind = draw(4);
    const uint32_t gpu = draw(ARRAY_LEN(walk_gpu));
    const uint32_t other = draw(ARRAY_LEN(walk_gpu));
    const uint32_t whole = draw(10);
    pod->whole_gpus = whole == 0 ? 1 : 0;
    if (kind == 0)
        return pod;
    (void)snprintf(note, sizeof note,
                   kind == 1 ? "c0 %s 300 1024" : "c0 %s 200 1024,c0 %s 200 1024", walk_gpu[gpu],
                   walk_gpu[other]);
    core_note(core, pod, note);
    for (uint32_t i = 0; i < pod->shares; i++)
        pod->share[i].index = draw(3);
    return pod;
}

static struct command walk_command(struct core_fixture *core)
{
    static const enum command_kind weighted[] = {
        COMMAND_RESERVE, COMMAND_RESERVE,     COMMAND_RESERVE, COMMAND_CONFIRM, COMMAND_CONFIRM,
        COMMAND_DOUBT,   COMMAND_RELEASE,     COMMAND_RELEASE, COMMAND_RELEASE, COMMAND_ADOPT,
        COMMAND_ADOPT,   COMMAND_TERMINATING, COMMAND_NOTE,    COMMAND_NODE,    COMMAND_NODE,
        COMMAND_NODE,    COMMAND_NODE_GONE,   COMMAND_CLOCK,   COMMAND_VERSION, COMMAND_VERSION,
        COMMAND_POLICY};
    const uint32_t kind = draw(ARRAY_LEN(weighted));
    const uint32_t uid = draw(ARRAY_LEN(walk_uid));
    const uint32_t node = draw(ARRAY_LEN(walk_node) + 1);
    const uint32_t words = draw(ARRAY_LEN(walk_words));
    const uint32_t odd = draw(8);
    struct command command = {.kind = weighted[kind],
                              .uid = walk_uid[uid],
                              .namespace = "default",
                              .name = walk_uid[uid]};
    const char *name = node < ARRAY_LEN(walk_node) ? walk_node[node] : "n4";

    if (command.kind == COMMAND_RESERVE || command.kind == COMMAND_ADOPT ||
        command.kind == COMMAND_NODE_GONE)
        command.node = name;
    if (command.kind == COMMAND_RESERVE || command.kind == COMMAND_VERSION) {
        /* A later version of a pod mostly asks for what the pod asked for before. */
        static uint32_t asked[ARRAY_LEN(walk_uid)];
        if (command.kind == COMMAND_RESERVE)
            asked[uid] = words;
        struct request *request =
            core_request(core, odd == 0 ? NULL : walk_words[odd % 2 == 1 ? asked[uid] : words]);
        request->whole = odd < 2 ? 1 : 0;
        command.request = request;
        command.version = 1 + odd;
    }
    if (command.kind == COMMAND_ADOPT) {
        command.request = odd == 0 ? NULL : core_request(core, walk_words[words]);
        command.pod = walk_pod(core, command.uid, name);
    }
    if (command.kind == COMMAND_NODE && odd == 0)
        command.node = name;
    else if (command.kind == COMMAND_NODE)
        command.inventory = walk_inventory(core);
    command.terminating_ms = odd;
    command.differs = odd % 2 == 0;
    return command;
}

struct memory {
    const struct snapshot *snapshot;
    char *dump;
};

static void forget(struct memory *memory)
{
    snapshot_unref(memory->snapshot);
    xfree(memory->dump);
    *memory = (struct memory){0};
}

/* A snapshot stays what the ledger was when it was published. */
static void remember(struct core_fixture *core, struct memory *memory)
{
    if (memory->snapshot != NULL) {
        CLEANUP(xfreep) char *now = core_dump_snapshot(memory->snapshot);
        assert_string_equal(now, memory->dump);
        forget(memory);
    }
    memory->snapshot = ledger_publish(core->ledger, NULL, 0);
    memory->dump = core_dump_snapshot(memory->snapshot);
    CLEANUP(xfreep) char *live = core_dump(core->ledger);
    assert_string_equal(live, memory->dump);
}

static void walk_undo(struct core_fixture *core)
{
    /* Apply up to three commands and undo them: nothing may remain of them. */
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    const size_t dones = core->dones;
    const uint32_t steps = 1 + draw(3);
    for (uint32_t i = 0; i < steps; i++) {
        const struct command command = walk_command(core);
        (void)core_do(core, &command);
    }
    while (core->dones > dones)
        core_undo(core);
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(before, after);
}

static void walk_copy(struct core_fixture *core)
{
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    struct ledger *copy = core_copy(core->ledger);
    CLEANUP(xfreep) char *after = core_dump(copy);
    assert_string_equal(before, after);
    ledger_free(copy);
}

static bool walk_fits(const struct node *node, const struct request *request)
{
    struct room room;
    struct placement placement;

    if (node == NULL || node->gone)
        return false;
    room_of(node, &room);
    return place_search(&room, request, &placement) == REASON_NONE;
}

/* A change that makes a refused request fit must count as giving room, or no pod is woken. */
static uint32_t walk_room(struct core_fixture *core, const struct change *change, int turn)
{
    const struct request *words = core_request(core, walk_words[turn % (int)ARRAY_LEN(walk_words)]);
    struct request request = *words;
    static const char *models[] = {"A100*"};

    request.whole = (uint32_t)(turn / 10 % 3);
    request.memory_mib = (uint32_t)(turn / 30 % 3) * 2048;
    request.models = (uint32_t)(turn / 90 % 2);
    request.model = models;
    if (request.whole > 0 && turn % 4 == 0)
        request.wants = 0;
    if (walk_fits(change->node_before, &request) || !walk_fits(change->node_after, &request))
        return 0;
    assert_true(change_gives_room(change));
    return 1;
}

static void walk_far(struct core_fixture *core, int usual, int least)
{
    const char *given = getenv("LEDGER_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    seed = given != NULL ? strtoull(given, NULL, 10) : 42;
    print_message("LEDGER_SEED=%llu\n", (unsigned long long)seed);

    uint32_t met[COMMANDS][VERDICT_REFUSED + 1] = {{0}};
    uint32_t reason[REASONS] = {0};
    struct memory memory[4] = {{0}};
    uint32_t woken = 0;
    for (int i = 0; i < walk_steps(usual, least); i++) {
        const struct command command = walk_command(core);
        const enum verdict verdict = core_do(core, &command);
        met[command.kind][verdict]++;
        reason[core->reason]++;
        if (verdict == VERDICT_OK && command.kind < COMMAND_CLOCK &&
            command.kind != COMMAND_RELEASE) {
            struct command again = command;
            const enum verdict twice = core_do(core, &again);
            assert_int_equal(twice, command.kind == COMMAND_NODE_GONE &&
                                            ledger_node(core->ledger, text_of(command.node)) == NULL
                                        ? VERDICT_UNKNOWN
                                        : VERDICT_SAME);
        }
        const uint32_t chance = draw(256);
        if (chance < 12)
            walk_undo(core);
        else if (chance < 16)
            remember(core, &memory[chance - 12]);
        else if (chance == 16)
            walk_copy(core);
        const struct node *stale = ledger_stale_duplicate(core->ledger);
        if (stale != NULL) {
            const struct command owned_id = {.kind = COMMAND_NODE, .node = stale->name->text};
            assert_int_equal(core_do(core, &owned_id), VERDICT_OK);
        }
        for (size_t done = 0; done < core->dones; done++)
            woken += walk_room(core, &core->done[done], i);
        core_forget_undo(core);
        if (i % 64 == 0)
            arena_reset(&core->arena);
    }
    for (size_t i = 0; i < ARRAY_LEN(memory); i++)
        forget(&memory[i]);

    /* A walk that never meets a verdict proves little. */
    assert_true(woken > 100);
    for (int kind = 0; kind < COMMAND_OVER; kind++) /* which is as one of the last two */
        assert_true(met[kind][VERDICT_OK] > 0);
    for (int kind = 0; kind < COMMAND_CLOCK; kind++)
        assert_true(kind == COMMAND_RELEASE || met[kind][VERDICT_SAME] > 0);
    for (int kind = 0; kind < COMMAND_CLOCK; kind++)
        assert_true(kind == COMMAND_RESERVE || kind == COMMAND_ADOPT ||
                    met[kind][VERDICT_UNKNOWN] > 0);
    assert_true(met[COMMAND_RESERVE][VERDICT_ELSEWHERE] > 0);
    assert_true(met[COMMAND_ADOPT][VERDICT_ELSEWHERE] > 0);
    assert_true(met[COMMAND_RESERVE][VERDICT_REFUSED] > 0);
    static const enum reason expected[] = {
        REASON_UNKNOWN_NODE, REASON_NO_GPU, REASON_SMALL,     REASON_FEW,      REASON_MIXED,
        REASON_UNPLACED,     REASON_ABSENT, REASON_UNHEALTHY, REASON_CORDONED, REASON_ROOM};
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        assert_true(reason[expected[i]] > 0);
    assert_true((reason[REASON_HELD] > 0) == walk_holds);
}

CORE_TEST(the_ledger_survives_a_random_walk)
{
    walk_far(core, 200000, 12000);
}

CORE_TEST(the_ledger_survives_a_walk_where_gpus_are_held_whole)
{
    walk_holds = true;
    walk_far(core, 30000, 12000);
    walk_holds = false;
}
