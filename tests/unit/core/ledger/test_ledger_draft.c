#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/test.h"

static const struct core_gpu a_then_b[] = {{.id = "GPU-a", .index = 0, .mib = 1000},
                                           {.id = "GPU-b", .index = 1, .mib = 1000}};
static const struct core_gpu b_then_a[] = {{.id = "GPU-b", .index = 0, .mib = 1000},
                                           {.id = "GPU-a", .index = 1, .mib = 1000}};
static const struct core_gpu counted[] = {{.index = 0, .mib = 1000}, {.index = 1, .mib = 1000}};

/* Adopts a pod that holds 300 milli of GPU-a by that name. */
static void hold_gpu_a(struct core_fixture *core)
{
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-a 300 300");
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 300);
}

static int64_t since(const struct core_fixture *core)
{
    return ledger_node(core->ledger, TEXT("n1"))->since_ms;
}

/* The arrays end with the last entry; the sanitizer reports a read past it. */
CORE_TEST(draft__reads_no_gpu_or_charge_past_the_last)
{
    struct want want = {.container = "c", .milli = 300, .parts = 1};
    const struct request request = {.n_wants = 1, .want = &want};
    const struct command command = {.kind = COMMAND_RESERVE,
                                    .uid = "a",
                                    .namespace = "",
                                    .name = "",
                                    .node = "n1",
                                    .request = &request};
    (void)core_node(core, "n1", a_then_b, 2);
    assert_int_equal(core_do(core, &command), VERDICT_OK);

    struct inventory *inventory = core_inventory(core, "n1", "node-uid", counted, 2);
    struct gpu_facts exactly[2];
    memcpy(exactly, inventory->gpu, sizeof exactly);
    inventory->gpu = exactly;
    const struct command node = {.kind = COMMAND_NODE, .inventory = inventory};
    assert_int_equal(core_do(core, &node), VERDICT_OK);
    assert_string_equal(core_gpu(core, "n1", "n1/gpu-0")->id->text, "GPU-a");
    assert_string_equal(core_gpu(core, "n1", "n1/gpu-1")->id->text, "n1/gpu-1");

    inventory = core_inventory(core, "n2", "node-uid", a_then_b, 2);
    memcpy(exactly, inventory->gpu, sizeof exactly);
    inventory->gpu = exactly;
    (void)core_node(core, "n2", counted, 2);
    assert_int_equal(core_reserve(core, "b", "n2", "300"), VERDICT_OK);
    (void)core_node(core, "n2", a_then_b, 2);
    assert_int_equal(core_do(core, &(struct command){.kind = COMMAND_NODE, .inventory = inventory}),
                     VERDICT_SAME);
}

CORE_TEST(every_gpu_of_a_pod__keeps_its_uuid_while_the_node_shows_counts)
{
    (void)core_node(core, "n1", a_then_b, 2);
    struct pod *pod = core_pod(core, "p", "n1");
    core_note(core, pod, "c0 GPU-a 300 300,c1 GPU-b 400 400");
    assert_int_equal(core_adopt(core, pod, "300+400"), VERDICT_OK);
    (void)core_node(core, "n1", counted, 2);
    assert_string_equal(core_gpu(core, "n1", "n1/gpu-0")->id->text, "GPU-a");
    assert_string_equal(core_gpu(core, "n1", "n1/gpu-1")->id->text, "GPU-b");
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->used_milli, 400);
}

static uint64_t peers_of(const struct core_fixture *core, const char *gpu)
{
    return core_gpu(core, "n1", gpu)->peers;
}

CORE_TEST(peers__are_those_that_the_node_showed_last)
{
    struct core_gpu gpu[] = {a_then_b[0], a_then_b[1], {.id = "GPU-c", .index = 2}};
    gpu[0].peers = 1 << 1 | 1 << 2;
    gpu[1].peers = gpu[2].peers = 1;
    (void)core_node(core, "n1", gpu, 3);
    hold_gpu_a(core);
    assert_int_equal(peers_of(core, "GPU-a"), 6);
    assert_int_equal(peers_of(core, "GPU-b"), 1);
    /* An unreadable annotation changes no link. */
    struct inventory *silent = core_inventory(core, "n1", "node-uid", NULL, 0);
    silent->silent = true;
    silent->problem = PROBLEM_ANNOTATION;
    assert_int_equal(core_do(core, &(struct command){.kind = COMMAND_NODE, .inventory = silent}),
                     VERDICT_OK);
    assert_int_equal(peers_of(core, "GPU-a"), 6);
    assert_int_equal(peers_of(core, "GPU-c"), 1);
    /* GPU-a leaves; while a pod holds it, it is behind the others. */
    struct core_gpu left[] = {gpu[1], gpu[2]};
    left[0].peers = 2;
    left[1].peers = 1;
    (void)core_node(core, "n1", left, 2);
    assert_int_equal(peers_of(core, "GPU-a"), 0);
    assert_int_equal(peers_of(core, "GPU-b"), 2);
    assert_int_equal(peers_of(core, "GPU-c"), 1);
    (void)core_node(core, "n1", gpu, 3);
    assert_int_equal(peers_of(core, "GPU-a"), 6);
    assert_int_equal(peers_of(core, "GPU-b"), 1);
    gpu[0].peers = 1 << 1; /* nothing else has changed */
    gpu[2].peers = 0;
    assert_int_equal(core_node(core, "n1", gpu, 3), VERDICT_OK);
    assert_int_equal(peers_of(core, "GPU-c"), 0);
    assert_int_equal(core_node(core, "n1", gpu, 3), VERDICT_SAME);
}

/* Counts replace moved UUIDs; a third GPU could be any of them and is left out. */
CORE_TEST(peers__are_dropped_if_indexes_moved)
{
    const struct core_gpu linked[] = {{.index = 0, .mib = 1000, .peers = 1 << 1},
                                      {.index = 1, .mib = 1000, .peers = 1 << 0},
                                      {.index = 2, .mib = 1000}};
    (void)core_node(core, "n1", linked, 2);
    assert_int_equal(peers_of(core, "n1/gpu-0"), 1 << 1);
    assert_int_equal(core_reserve(core, "p", "n1", "300"), VERDICT_OK);
    (void)core_node(core, "n1", a_then_b, 2);
    (void)core_node(core, "n1", b_then_a, 2);
    (void)core_node(core, "n1", linked, 3);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 300);
    assert_int_equal(peers_of(core, "GPU-a"), 0);
    assert_int_equal(peers_of(core, "GPU-b"), 0);
}

CORE_TEST(problem_text__is_part_of_the_inventory)
{
    struct inventory *broken = core_inventory(core, "n1", "node-uid", NULL, 0);
    broken->problem = PROBLEM_ANNOTATION;
    const struct command command = {.kind = COMMAND_NODE, .inventory = broken};
    static const char *const text[] = {"[0].milli", "[1].milli"};
    for (size_t i = 0; i < ARRAY_LEN(text); i++) {
        (void)snprintf(broken->problem_text, sizeof broken->problem_text, "%s", text[i]);
        assert_int_equal(core_do(core, &command), VERDICT_OK);
        assert_int_equal(core_do(core, &command), VERDICT_SAME);
        const struct node *node = ledger_node(core->ledger, TEXT("n1"));
        assert_string_equal(node->problem_text->text, text[i]);
        assert_int_equal(node->source, SOURCE_ANNOTATION);
    }
}

CORE_TEST(node_since__is_the_time_of_a_new_trouble)
{
    struct core_gpu gpu[] = {a_then_b[0], a_then_b[1]};
    /* First a missing node with unknown GPUs; then the node exists, but still has no GPUs. */
    assert_int_equal(core_adopt(core, core_pod(core, "x", "n1"), "300"), VERDICT_OK);
    assert_int_equal(since(core), core->now_ms);
    assert_int_equal(core_node(core, "n1", NULL, 0), VERDICT_OK);
    assert_int_equal(since(core), core->now_ms);

    assert_int_equal(core_node(core, "n1", gpu, 1), VERDICT_OK);
    assert_int_equal(since(core), core->now_ms);
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    assert_int_equal(since(core), core->now_ms);
    gpu[1].sick = true;
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    assert_int_equal(since(core), core->now_ms);
    gpu[1].mib++;
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    assert_int_equal(since(core), core->now_ms - 1); /* no new trouble */
    gpu[0].sick = true;                              /* the first GPU, and not the last */
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    assert_int_equal(since(core), core->now_ms);
}

/* A restore adds them one by one in another order: links by place would name other GPUs. */
CORE_TEST(peers__are_dropped_with_their_node)
{
    struct core_gpu gpu[] = {a_then_b[0], a_then_b[1]};
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    gpu[0].peers = 1 << 1;
    gpu[1].peers = 1 << 0;
    (void)core_node(core, "n1", gpu, 2);
    hold_gpu_a(core);
    assert_int_equal(core_reserve(core, "b", "n1", "900"), VERDICT_OK);
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(peers_of(core, "GPU-a"), 0);
    assert_int_equal(peers_of(core, "GPU-b"), 0);
    struct ledger *copy = core_copy(core->ledger);
    char *was = core_dump(core->ledger);
    char *is = core_dump(copy);
    assert_string_equal(is, was);
    xfree(was);
    xfree(is);
    ledger_free(copy);
    (void)core_node(core, "n1", gpu, 2);
    assert_int_equal(peers_of(core, "GPU-a"), 1 << 1);
}

CORE_TEST(node_alike__compares_every_claim)
{
    struct names *names = core->ledger->names;
    const struct atom *empty = names_intern(names, TEXT(""));
    const struct atom *one[] = {names_intern(names, TEXT("GPU-a")),
                                names_intern(names, TEXT("GPU-c")),
                                names_intern(names, TEXT("GPU-e"))};
    struct node_build build = {.name = names_intern(names, TEXT("n1")),
                               .uid = empty,
                               .problem_text = empty,
                               .n_owned_ids = 3,
                               .owned_id = one};
    struct node *node = node_new(&build);
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const other[] = {"GPU-b", "GPU-d", "GPU-f"};
        const struct atom *two[] = {one[0], one[1], one[2]};
        build.owned_id = two;
        struct node *same = node_new(&build);
        assert_true(node_alike(node, same));
        node_unref(same);
        two[i] = names_intern(names, text_of(other[i]));
        struct node *differs = node_new(&build);
        assert_false(node_alike(node, differs));
        node_unref(differs);
    }
    node_unref(node);
}
