/*
 * Names of a ledger: their number stays close to the number in use, whatever tenants and nodes
 * make up, and a snapshot keeps the names that it shows.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/walk.h"

enum { PARTS = 8, CONSTANT = 64 };

static size_t names_in(const struct core_fixture *core)
{
    return names_count(ledger_names(core->ledger));
}

/* Enough idle moments for a pass over the whole table. */
static void rest(struct core_fixture *core)
{
    for (int i = 0; i < 200; i++)
        ledger_sweep(core->ledger, true);
}

/* A pod bound without us, with an annotation of made-up GPUs. */
static void squat(struct core_fixture *core, const char *uid, int number)
{
    char note[64 * PARTS];
    size_t used = 0;
    struct pod *pod = core_pod(core, uid, "n1");

    for (int i = 0; i < PARTS; i++)
        used += (size_t)snprintf(note + used, sizeof note - used, "%sc0 GPU-made-up-%d-%d 800 1",
                                 i > 0 ? "," : "", number, i);
    core_note(core, pod, note);
    assert_int_equal(core_adopt(core, pod, "800x8"), VERDICT_OK);
    assert_int_equal(ledger_find(core->ledger, text_of(uid))->n_charges, PARTS);
    assert_false(ledger_find(core->ledger, text_of(uid))->facts.presumed);
    core_forget_undo(core);
}

static void leave(struct core_fixture *core, const char *uid)
{
    assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
    core_forget_undo(core);
}

CORE_TEST(adopted__made_up_ids_go_with_their_pods)
{
    static const struct core_gpu gpu = {.id = "GPU-a", .mib = 1000};
    char uid[2][16] = {"", ""};

    assert_int_equal(core_node(core, "n1", &gpu, 1), VERDICT_OK);
    core_forget_undo(core);
    rest(core);
    const size_t alone = names_in(core);
    const size_t bytes = names_bytes(ledger_names(core->ledger));
    const int pods = walk_steps(3000, 300);
    size_t most = 0;
    for (int i = 0; i < pods; i++) {
        (void)snprintf(uid[i % 2], sizeof uid[0], "pod-%d", i);
        squat(core, uid[i % 2], i);
        if (i > 0)
            leave(core, uid[(i + 1) % 2]);
        ledger_sweep(core->ledger, false);
        most = names_in(core) > most ? names_in(core) : most;
    }
    assert_in_range(most, alone + PARTS, 2 * (alone + 2 * PARTS) + CONSTANT);
    leave(core, uid[(pods - 1) % 2]);
    rest(core);
    assert_int_equal(names_in(core), alone);
    assert_int_equal(names_bytes(ledger_names(core->ledger)), bytes);
}

CORE_TEST(snapshots__keep_the_names_that_they_show)
{
    static const struct core_gpu gpu = {.id = "GPU-a", .mib = 1000};
    static const struct core_gpu other = {.id = "GPU-b", .mib = 1000};

    assert_int_equal(core_node(core, "n1", &gpu, 1), VERDICT_OK);
    squat(core, "held", 7);
    struct snapshot *held = ledger_publish(core->ledger, NULL, 0);
    char *before = core_dump_snapshot(held);
    leave(core, "held");
    assert_int_equal(core_node(core, "n1", &other, 1), VERDICT_OK);
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    core_forget_undo(core);
    rest(core);
    for (int i = 0; i < 1000; i++) { /* would take the memory of freed names */
        char text[64];
        (void)snprintf(text, sizeof text, "GPU-made-up-9-%d", i);
        assert_non_null(names_intern(ledger_names(core->ledger), text_of(text)));
    }
    char *after = core_dump_snapshot(held);
    assert_string_equal(after, before);
    assert_non_null(names_find(ledger_names(core->ledger), TEXT("GPU-made-up-7-7")));
    snapshot_unref(held);
    rest(core);
    assert_int_equal(names_in(core), 0);
    xfree(before);
    xfree(after);
}

/* In an idle ledger no change makes a sweep due, and readers release names late. */
CORE_TEST(sweep__visits_the_whole_table_of_an_idle_ledger)
{
    enum { NAMES = 20000 };
    static const struct atom *atom[NAMES];

    for (int i = 0; i < NAMES; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "GPU-%d", i);
        atom[i] = atom_ref(names_intern(ledger_names(core->ledger), text_of(text)));
    }
    ledger_sweep(core->ledger, true);
    assert_int_equal(names_in(core), NAMES);
    for (int i = 0; i < NAMES; i++)
        atom_unref(atom[i]);
    ledger_sweep(core->ledger, false);
    assert_in_range(names_in(core), NAMES - 100, NAMES - 1); /* few, while commands wait */
    const size_t before = names_in(core);
    ledger_sweep(core->ledger, true);
    assert_in_range(before - names_in(core), 100, NAMES / 20);
    rest(core);
    rest(core);
    assert_int_equal(names_in(core), 0);
}

static void show_labelled(struct core_fixture *core, const char *node, const char *id,
                          const char *value)
{
    const struct core_gpu gpu = {.id = id, .mib = 1000};
    const struct label label = {"rack", value};
    struct inventory *inventory = core_inventory(core, node, node, &gpu, 1);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    inventory->label = &label;
    inventory->n_labels = 1;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
}

CORE_TEST(nodes__leave_no_names_when_they_are_gone)
{
    const int nodes = walk_steps(3000, 300);
    size_t most = 0;

    for (int i = 0; i < nodes; i++) {
        char name[32], id[32], value[32];
        (void)snprintf(name, sizeof name, "node-%d", i);
        (void)snprintf(id, sizeof id, "GPU-%d", i);
        (void)snprintf(value, sizeof value, "value-%d", i);
        show_labelled(core, name, id, value);
        const struct command gone = {.kind = COMMAND_NODE_GONE, .node = name};
        assert_int_equal(core_do(core, &gone), VERDICT_OK);
        core_forget_undo(core);
        most = names_in(core) > most ? names_in(core) : most;
        ledger_sweep(core->ledger, false);
    }
    assert_in_range(most, 1, CONSTANT);
    rest(core);
    assert_int_equal(names_in(core), 0);
}

/* A Node's writer chooses its ids and labels, and may choose others all the time. */
CORE_TEST(nodes__keep_only_the_names_of_the_last_inventory)
{
    const int times = walk_steps(3000, 300);
    size_t most = 0;

    for (int i = 0; i < times; i++) {
        char id[32], value[32];
        (void)snprintf(id, sizeof id, "GPU-%d", i % 2 * i);
        (void)snprintf(value, sizeof value, "value-%d", i);
        show_labelled(core, "n1", id, value);
        core_forget_undo(core);
        ledger_sweep(core->ledger, false);
        most = names_in(core) > most ? names_in(core) : most;
    }
    assert_in_range(most, 1, 2 * GPUS_PER_NODE_MAX + CONSTANT); /* those that it owns stay */
}

/* A node of GPUs and labels, each with a name of its own. */
static void show_names(struct core_fixture *core, const char *node, const char *uid, uint32_t gpus,
                       uint32_t labels)
{
    struct core_gpu *gpu = arena_array(&core->arena, gpus, sizeof *gpu);
    struct label *label = arena_array(&core->arena, labels, sizeof *label);

    for (uint32_t i = 0; i < gpus; i++)
        gpu[i] = (struct core_gpu){
            .id = arena_printf(&core->arena, "GPU-%s-%u", node, i), .index = i, .mib = 1000};
    for (uint32_t i = 0; i < labels; i++)
        label[i] = (struct label){arena_printf(&core->arena, "key-%u", i), node};
    struct inventory *inventory = core_inventory(core, node, uid, gpu, gpus);
    inventory->label = label;
    inventory->n_labels = labels;
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    core_forget_undo(core);
}

/* The names by index are made when somebody asks for them. */
CORE_TEST(gpu__takes_one_name_of_the_table)
{
    show_names(core, "n1", "uid", 1, 1);
    const size_t with_one = names_in(core);
    show_names(core, "n1", "uid", 9, 1);
    assert_int_equal(names_in(core), with_one + 8);
    assert_null(names_find(ledger_names(core->ledger), TEXT("n1/gpu-0")));
    const struct gpu *gpu = core_gpu(core, "n1", "n1/gpu-8");
    assert_non_null(gpu);
    assert_string_equal(gpu->id->text, "GPU-n1-8");
}

/* Without idle time: a change that releases names makes the next sweep visit more places. */
CORE_TEST(sweep__visits_more_after_names_are_released)
{
    char node[32];

    for (int i = 0; i < 10; i++) {
        (void)snprintf(node, sizeof node, "other-%d", i);
        show_names(core, node, "uid", 30, 1);
    }
    show_names(core, "plain", "uid", 2, 60);
    show_names(core, "large", "uid", GPUS_PER_NODE_MAX, 1);
    rest(core);
    const size_t all = names_in(core);
    assert_in_range(all, 400, 512);
    show_names(core, "plain", "uid", 2, 0);
    ledger_sweep(core->ledger, false);
    assert_in_range(all - names_in(core), 8, 60); /* 16 places would have about one */
    rest(core);
    const size_t without_labels = names_in(core);
    assert_int_equal(without_labels, all - 60);
    show_names(core, "plenty", "uid", GPUS_PER_NODE_MAX, 1);
    rest(core);
    const size_t with_plenty = names_in(core);
    show_names(core, "plenty", "other", 1, 1); /* another Node owns no UUID of the former */
    ledger_sweep(core->ledger, false);
    assert_in_range(with_plenty - names_in(core), 15, GPUS_PER_NODE_MAX);
    rest(core);
    const size_t before = names_in(core);
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "large"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    core_forget_undo(core);
    ledger_sweep(core->ledger, false);
    assert_in_range(before - names_in(core), 15, GPUS_PER_NODE_MAX + 1);
}

/* Their owner is decided later, when both nodes may be gone. */
CORE_TEST(undecided__ids_keep_their_names)
{
    static const struct core_gpu gpu = {.id = "GPU-twice", .mib = 1000};

    assert_int_equal(core_node(core, "n1", &gpu, 1), VERDICT_OK);
    assert_int_equal(core_node(core, "n2", &gpu, 1), VERDICT_OK);
    static const char *const node[] = {"n1", "n2"};
    for (size_t i = 0; i < ARRAY_LEN(node); i++) {
        const struct command gone = {.kind = COMMAND_NODE_GONE, .node = node[i]};
        assert_int_equal(core_do(core, &gone), VERDICT_OK);
    }
    core_forget_undo(core);
    rest(core);
    assert_true(core->ledger->n_undecided > 0);
    assert_string_equal(core->ledger->undecided_ids[0]->text, "GPU-twice");
    assert_null(ledger_stale_duplicate(core->ledger));
    rest(core);
    assert_int_equal(names_in(core), 0);

    assert_int_equal(core_node(core, "n1", &gpu, 1), VERDICT_OK);
    assert_int_equal(core_node(core, "n2", &gpu, 1), VERDICT_OK);
    assert_true(core->ledger->n_undecided > 0); /* freed with the ledger */
}

/* After a restore, GPUs that waited for their allocations hold no names. */
CORE_TEST(restored__waiting_gpus_release_their_names)
{
    squat(core, "a", 1);
    struct ledger *copy = core_copy(core->ledger);
    assert_int_equal(copy->n_kept, PARTS);
    ledger_sweep(copy, false);
    assert_int_equal(copy->n_kept, 0);
    assert_null(copy->kept);
    ledger_assert_valid(copy);
    ledger_free(copy);
}

/* A grant changes no names, so both versions share one set; each other change of names shows. */
CORE_TEST(versions__share_names_that_are_the_same)
{
    static const struct core_gpu gpu[] = {{.id = "GPU-a", .mib = 1000},
                                          {.id = "GPU-b", .index = 1, .mib = 1000}};

    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    const struct name_set *names = ledger_node(core->ledger, TEXT("n1"))->names;
    assert_int_equal(names->count, 3 + 2 + 1); /* name, uid, "", two ids, a model */
    assert_int_equal(core_reserve(core, "a", "n1", "300"), VERDICT_OK);
    assert_ptr_equal(ledger_node(core->ledger, TEXT("n1"))->names, names);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    assert_ptr_equal(ledger_node(core->ledger, TEXT("n1"))->names, names);
    squat(core, "b", 1);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->names->count, 6 + PARTS + 1);
}
