#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/alloc.h"

#include "support/world.h"

static const struct atom *atom(struct world *world, const char *name)
{
    return names_intern(ledger_names(world->ledger), text_of(name));
}

static struct gpu row_of_gpu(struct world *world, const char *id, uint16_t index, uint16_t flags)
{
    return (struct gpu){.id = atom(world, id),
                        .model = atom(world, ""),
                        .milli = GPU_MILLI,
                        .numa = -1,
                        .index = index,
                        .flags = flags};
}

static int restore_node(struct world *world, const char *name, const struct gpu *gpu, uint32_t gpus,
                        struct err *err)
{
    const struct node_build build = {.name = atom(world, name),
                                     .uid = atom(world, ""),
                                     .problem_text = atom(world, ""),
                                     .gpus = gpus,
                                     .gpu = gpu};
    return ledger_restore_node(world->ledger, &build, err);
}

/* A bound pod of n1 with these shares. */
static int restore_pod(struct world *world, const char *uid, const struct share *share,
                       uint32_t shares, struct err *err)
{
    const struct allocation_facts facts = {.uid = uid,
                                           .namespace = "default",
                                           .name = "pod",
                                           .node = atom(world, "n1"),
                                           .node_uid = atom(world, ""),
                                           .state = STATE_BOUND,
                                           .origin = ORIGIN_OBSERVED,
                                           .shares = shares,
                                           .share = share};
    return ledger_restore(world->ledger, &facts, err);
}

static void names_and_uids_are_as_long_as_they_may_be(void **state)
{
    struct world *world = *state;
    struct err err;
    char text[NAME_BYTES_MAX + 2];
    memset(text, 'n', sizeof text);
    text[NAME_BYTES_MAX + 1] = '\0';
    assert_int_equal(restore_node(world, text, NULL, 0, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node: a name of 254 bytes, not 1 to 253");
    text[NAME_BYTES_MAX] = '\0';
    assert_int_equal(restore_node(world, text, NULL, 0, &err), 0);

    const struct gpu gpu = row_of_gpu(world, "GPU-a", 0, 0);
    const struct share share = {.container = "c0", .gpu = gpu.id, .milli = 300};
    assert_int_equal(restore_node(world, "n1", &gpu, 1, &err), 0);
    text[UID_BYTES_MAX + 1] = '\0';
    assert_int_equal(restore_pod(world, text, &share, 1, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "allocation: a uid of 129 bytes, not 1 to 128");
    assert_int_equal(restore_pod(world, "", &share, 1, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "allocation: a uid of 0 bytes, not 1 to 128");
    text[UID_BYTES_MAX] = '\0';
    assert_int_equal(restore_pod(world, text, &share, 1, &err), 0);
}

static void the_last_of_a_row_is_judged_like_the_first(void **state)
{
    struct world *world = *state;
    struct err err;
    const struct gpu gpu[] = {row_of_gpu(world, "GPU-a", 0, 0), row_of_gpu(world, "GPU-b", 1, 0),
                              row_of_gpu(world, "GPU-b", 2, 0)};
    assert_int_equal(restore_node(world, "n1", gpu, 3, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: GPU GPU-b is there twice");
    assert_int_equal(restore_node(world, "n1", gpu, 2, &err), 0);
    const struct share share[] = {{.container = "c0", .gpu = gpu[0].id, .milli = 1000},
                                  {.container = "c1", .gpu = gpu[1].id, .milli = 1001}};
    assert_int_equal(restore_pod(world, "a", share, 2, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "allocation a: a share of 1001 milli");
    assert_int_equal(restore_pod(world, "a", share, 1, &err), 0);
}

static void a_missing_gpu_may_stand_before_those_that_are_there(void **state)
{
    struct world *world = *state;
    struct err err;
    const struct gpu gpu[] = {row_of_gpu(world, "GPU-a", 0, GPU_ABSENT),
                              row_of_gpu(world, "GPU-b", 1, 0)};
    assert_int_equal(restore_node(world, "n1", gpu, 2, &err), 0);
    assert_null(world_gpu(world, "n1", "GPU-a")); /* so far nobody holds it */
    assert_int_equal(world_gpu(world, "n1", "GPU-b")->flags, 0);
    const struct share share = {.container = "c0", .gpu = gpu[0].id, .milli = 300};
    assert_int_equal(restore_pod(world, "a", &share, 1, &err), 0);
    assert_int_equal(world_gpu(world, "n1", "GPU-a")->flags, GPU_ABSENT);
    assert_int_equal(world_gpu(world, "n1", "GPU-b")->flags, 0);
}

/* Whose an absent GPU is stands in its row: its own, or nobody's. */
static void an_absent_gpu_is_whose_it_was(void **state)
{
    struct world *world = *state;
    struct err err;
    const struct gpu gpu[] = {row_of_gpu(world, "GPU-a", 0, GPU_ABSENT),
                              row_of_gpu(world, "GPU-z", 1, GPU_ABSENT | GPU_DUPLICATE)};
    const struct world_gpu both[] = {{.id = "GPU-a", .index = 0, .mib = 1000},
                                     {.id = "GPU-z", .index = 1, .mib = 1000}};
    assert_int_equal(restore_node(world, "n1", gpu, 2, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        const struct share share = {.container = "c0", .gpu = gpu[i].id, .milli = 300};
        assert_int_equal(restore_pod(world, i == 0 ? "a" : "z", &share, 1, &err), 0);
    }
    assert_int_equal(world_gpu(world, "n1", "GPU-a")->flags, GPU_ABSENT);
    assert_int_equal(world_gpu(world, "n1", "GPU-z")->flags, GPU_ABSENT | GPU_DUPLICATE);
    (void)world_node(world, "n2", both, 2);
    assert_int_equal(world_gpu(world, "n2", "GPU-a")->flags, GPU_DUPLICATE);
    assert_int_equal(world_gpu(world, "n2", "GPU-z")->flags, 0);
}

/* node NULL: none is. */
static void assert_stale_after_restart(const struct world *world, const char *node)
{
    CLEANUP(xfreep) char *before = world_dump(world->ledger);
    struct ledger *copy = world_copy(world->ledger);
    CLEANUP(xfreep) char *after = world_dump(copy);
    assert_string_equal(before, after);
    const struct node *stale = ledger_stale_duplicate(copy);
    assert_int_equal(stale != NULL, node != NULL);
    if (stale != NULL && node != NULL)
        assert_string_equal(stale->name->text, node);
    ledger_free(copy);
}

/* The end came between an owner's leave and the heir's turn: it has its turn after the start. */
static void a_stale_duplicate_is_one_after_a_restart(void **state)
{
    struct world *world = *state;
    const struct world_gpu gpu = {.id = "GPU-a", .mib = 1000};
    (void)world_node(world, "n1", &gpu, 1);
    (void)world_node(world, "n2", &gpu, 1);
    struct pod *pod = world_pod(world, "a", "n2");
    world_note(world, pod, "c0 GPU-a 300 300");
    assert_int_equal(world_adopt(world, pod, "300"), VERDICT_OK);
    (void)world_node(world, "n1", NULL, 0);
    assert_stale_after_restart(world, NULL); /* it is the first one's, shown or not */
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(world_do(world, &gone), VERDICT_OK);
    assert_int_equal(world_gpu(world, "n2", "GPU-a")->flags, GPU_DUPLICATE);
    assert_stale_after_restart(world, "n2");

    (void)world_node(world, "n1", &gpu, 1);  /* not yet claimed: the first is the first again */
    assert_stale_after_restart(world, "n1"); /* as it is to be told that it is contested */
    (void)world_node(world, "n2", NULL, 0);
    assert_int_equal(world_do(world, &gone), VERDICT_OK);
    assert_int_equal(world_gpu(world, "n2", "GPU-a")->flags, GPU_ABSENT | GPU_DUPLICATE);
    assert_stale_after_restart(world, NULL); /* no node shows it: there is nothing to grant */
}

static int restore_owned_ids(struct world *world, const char *name, bool gone,
                             const char *const *owned_ids, struct err *err)
{
    const struct atom *owned_id[GPUS_PER_NODE_MAX + 1];
    const uint16_t flags = gone ? GPU_ABSENT : GPU_DUPLICATE;
    const struct gpu gpu[] = {row_of_gpu(world, "GPU-m", 0, flags),
                              row_of_gpu(world, "GPU-n", 1, flags)};
    struct node_build build = {.name = atom(world, name),
                               .uid = atom(world, ""),
                               .problem_text = atom(world, ""),
                               .gone = gone,
                               .gpus = 2,
                               .gpu = gpu,
                               .owned_id = owned_id};
    for (; owned_ids[build.owned_ids] != NULL; build.owned_ids++)
        owned_id[build.owned_ids] = atom(world, owned_ids[build.owned_ids]);
    return ledger_restore_node(world->ledger, &build, err);
}

static void claims_that_cannot_be_are_refused(void **state)
{
    struct world *world = *state;
    struct err err;
    static const struct {
        bool gone;
        const char *owned_ids[4];
        const char *says;
    } wrong[] = {
        {true, {"GPU-x"}, "node n2: it cannot claim GPU GPU-x"},
        {false, {""}, "node n2: it cannot claim GPU "},
        {false, {"n2/gpu-0"}, "node n2: it cannot claim GPU n2/gpu-0"},
        {false, {"GPU-x", "GPU-x"}, "node n2: it claims GPU GPU-x twice"},
        {false, {"GPU-y", "GPU-x"}, "node n2: it claims GPU GPU-x twice"},
        {false, {"GPU-x", "GPU-a"}, "node n2: it claims GPU GPU-a twice"},
        {false, {"GPU-a"}, "node n2: it claims GPU GPU-a, which is another node's"},
        {false, {"GPU-c"}, "node n2: it claims GPU GPU-c, which is another node's"},
        {false, {"GPU-m"}, "node n2: it claims GPU GPU-m, which it has"},
        {false, {"GPU-n"}, "node n2: it claims GPU GPU-n, which it has"},
    };
    const struct gpu gpu = row_of_gpu(world, "GPU-a", 0, 0);
    static const char *const good[] = {"GPU-c", "GPU-d", NULL};
    assert_int_equal(restore_node(world, "n1", &gpu, 1, &err), 0);
    assert_int_equal(restore_owned_ids(world, "n3", false, good, &err), 0);
    assert_int_equal(ledger_node(world->ledger, TEXT("n3"))->owned_ids, 2);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(restore_owned_ids(world, "n2", wrong[i].gone, wrong[i].owned_ids, &err),
                         -ERR_CORRUPT);
        assert_string_equal(err.text, wrong[i].says);
    }
    char many[GPUS_PER_NODE_MAX + 1][16];
    const char *names[GPUS_PER_NODE_MAX + 2] = {NULL};
    for (int i = 0; i <= GPUS_PER_NODE_MAX; i++) {
        (void)snprintf(many[i], sizeof many[i], "GPU-%03d", i);
        names[i] = many[i];
    }
    assert_int_equal(restore_owned_ids(world, "n2", false, names, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node n2: it claims more than 64 GPUs");
    names[GPUS_PER_NODE_MAX] = NULL;
    assert_int_equal(restore_owned_ids(world, "n2", false, names, &err), 0);
    ledger_assert_valid(world->ledger);
}

int main(void)
{
#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(names_and_uids_are_as_long_as_they_may_be),
        IN_A_WORLD(the_last_of_a_row_is_judged_like_the_first),
        IN_A_WORLD(a_missing_gpu_may_stand_before_those_that_are_there),
        IN_A_WORLD(an_absent_gpu_is_whose_it_was),
        IN_A_WORLD(a_stale_duplicate_is_one_after_a_restart),
        IN_A_WORLD(claims_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
