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

CORE_TEST(a_gpu_that_is_shown_takes_no_other_gpus_place)
{
    const struct core_gpu made_up_first[] = {{.index = 0, .mib = 1000}, b_then_a[1]};
    const struct core_gpu made_up_last[] = {a_then_b[0], {.index = 1, .mib = 1000}};
    (void)core_node(core, "n1", a_then_b, 2);
    hold_gpu_a(core);
    /* Index 0 has lost its UUID; it is not GPU-a, which is now at index 1. */
    assert_int_equal(core_node(core, "n1", made_up_first, 2), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 300);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->index, 1);
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->used_milli, 0);
    /* And the other way round. */
    assert_int_equal(core_node(core, "n1", made_up_last, 2), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 300);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->index, 0);
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-1")->used_milli, 0);
}

CORE_TEST(a_made_up_name_that_is_shown_is_no_other_gpus_alias)
{
    const struct core_gpu mixed[] = {{.index = 0, .mib = 1000}, b_then_a[1]};
    (void)core_node(core, "n1", counted, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "300"), VERDICT_OK);
    (void)core_node(core, "n1", a_then_b, 2);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 300);
    (void)core_node(core, "n1", mixed, 2);
    assert_string_equal(core_gpu(core, "n1", "GPU-a")->alias->text, "n1/gpu-1");
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->reserved_milli, 300);
}

/* "GPU-a 300, n1/gpu-1 absent 400": the GPUs of n1. */
static const char *shown(const struct core_fixture *core)
{
    static char text[256];
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    size_t at = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < node->gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%s%s %u", i > 0 ? ", " : "",
                               gpu->id->text, (gpu->flags & GPU_ABSENT) != 0 ? " absent" : "",
                               (gpu->flags & GPU_UNSURE) != 0 ? " unsure" : "",
                               gpu->used_milli + gpu->reserved_milli);
    }
    return text;
}

/* Adopts a bound pod whose annotation names its GPU by an index of n1. */
static void hold_index(struct core_fixture *core, const char *uid, const char *line,
                       const char *milli)
{
    struct pod *pod = core_pod(core, uid, "n1");
    core_note(core, pod, line);
    assert_int_equal(core_adopt(core, pod, milli), VERDICT_OK);
}

CORE_TEST(a_gpu_that_a_pod_may_hold_by_an_index_that_moved_takes_nothing)
{
    (void)core_node(core, "n1", counted, 2);
    hold_index(core, "p0", "c0 n1/gpu-0 300 300", "300");
    hold_index(core, "p1", "c0 n1/gpu-1 400 400", "400");
    (void)core_node(core, "n1", a_then_b, 1); /* GPU-b comes later */
    assert_string_equal(shown(core), "GPU-a 300, n1/gpu-1 absent 400");
    assert_int_equal(core_node(core, "n1", b_then_a, 2), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", b_then_a, 2), VERDICT_SAME);
    assert_string_equal(shown(core), "GPU-b unsure 0, GPU-a 300, n1/gpu-1 absent 400");
    assert_int_equal(core_reserve(core, "q", "n1", "900"), VERDICT_REFUSED);
    assert_int_equal(core_reserve(core, "q", "n1", "700"), VERDICT_OK);

    /* The pod that proved the indexes moved ends; that they moved is not forgotten. */
    (void)core_step(core, COMMAND_RELEASE, "p0");
    assert_int_equal(core_node(core, "n1", b_then_a, 2), VERDICT_SAME);
    assert_string_equal(shown(core), "GPU-b unsure 0, GPU-a 700, n1/gpu-1 absent 400");
    (void)core_step(core, COMMAND_RELEASE, "p1");
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    assert_string_equal(shown(core), "GPU-b 0, GPU-a 700");
    assert_int_equal(core_reserve(core, "r", "n1", "900"), VERDICT_OK);
}

CORE_TEST(an_index_means_nothing_once_another_is_known_to_have_moved)
{
    const struct core_gpu three[] = {
        {.index = 0, .mib = 1000}, {.index = 1, .mib = 1000}, {.index = 2, .mib = 1000}};
    const struct core_gpu moved[] = {{.id = "GPU-b", .index = 0, .mib = 1000},
                                     {.id = "GPU-c", .index = 1, .mib = 1000},
                                     {.id = "GPU-a", .index = 2, .mib = 1000}};
    (void)core_node(core, "n1", three, 3);
    hold_index(core, "p0", "c0 n1/gpu-0 300 300", "300");
    (void)core_node(core, "n1", a_then_b, 1);
    (void)core_node(core, "n1", moved, 3);
    /* GPU-c is at index 1 now, but need not be the GPU that index 1 named before. */
    hold_index(core, "p1", "c0 n1/gpu-1 400 400 1", "400");
    assert_string_equal(shown(core),
                        "GPU-b unsure 0, GPU-c unsure 0, GPU-a 300, n1/gpu-1 absent 400");
}

CORE_TEST(a_gpu_that_is_held_by_its_index_is_known_when_uuids_come_back_moved)
{
    (void)core_node(core, "n1", counted, 2);
    assert_int_equal(core_reserve(core, "p", "n1", "300"), VERDICT_OK);
    (void)core_node(core, "n1", a_then_b, 2);
    (void)core_node(core, "n1", counted, 2);
    (void)core_node(core, "n1", b_then_a, 2);
    assert_string_equal(shown(core), "GPU-b 0, GPU-a 300");
    /* Counts that replace moved UUIDs refer to the GPUs' last positions. */
    (void)core_node(core, "n1", counted, 2);
    assert_string_equal(shown(core), "GPU-b 0, GPU-a 300");
    assert_int_equal(core_reserve(core, "q", "n1", "800"), VERDICT_OK);
    assert_string_equal(shown(core), "GPU-b 800, GPU-a 300");
    (void)core_node(core, "n1", a_then_b, 2);
    assert_string_equal(shown(core), "GPU-a 300, GPU-b 800");
    const struct core_gpu alone = b_then_a[1];
    (void)core_node(core, "n1", &alone, 1);
    (void)core_node(core, "n1", counted, 2);
    assert_string_equal(shown(core), "GPU-a 300, GPU-b absent 800");
}

CORE_TEST(a_gpu_that_was_late_is_known_by_its_index_where_none_has_moved)
{
    (void)core_node(core, "n1", counted, 2);
    hold_index(core, "p0", "c0 n1/gpu-0 300 300,c1 n1/gpu-1 400 400", "300+400");
    (void)core_node(core, "n1", a_then_b, 1);
    assert_string_equal(shown(core), "GPU-a 300, n1/gpu-1 absent 400");
    (void)core_node(core, "n1", a_then_b, 2);
    assert_string_equal(shown(core), "GPU-a 300, GPU-b 400");
    /* Both keep their charges when they move. */
    (void)core_node(core, "n1", b_then_a, 2);
    assert_string_equal(shown(core), "GPU-b 400, GPU-a 300");
}

CORE_TEST(who_comes_to_the_index_of_a_gpu_that_is_held_is_not_that_gpu)
{
    const struct core_gpu a_then_c[] = {a_then_b[0], {.id = "GPU-c", .index = 1, .mib = 1000}};
    (void)core_node(core, "n1", counted, 2);
    hold_index(core, "p0", "c0 n1/gpu-0 300 300,c1 n1/gpu-1 400 400", "300+400");
    (void)core_node(core, "n1", a_then_b, 2);
    (void)core_node(core, "n1", a_then_c, 2);
    assert_string_equal(shown(core), "GPU-a 300, GPU-c 0, GPU-b absent 400");
}

CORE_TEST(an_index_means_what_shows_it_when_who_held_one_that_moved_has_ended)
{
    (void)core_node(core, "n1", counted, 2);
    hold_index(core, "p", "c0 n1/gpu-0 300 300", "300");
    (void)core_node(core, "n1", a_then_b, 2);
    (void)core_node(core, "n1", b_then_a, 2);
    assert_string_equal(shown(core), "GPU-b 0, GPU-a 300");
    (void)core_step(core, COMMAND_RELEASE, "p");
    (void)core_node(core, "n1", b_then_a, 2);
    hold_index(core, "q", "c0 n1/gpu-1 100 100 1", "100");
    assert_string_equal(shown(core), "GPU-b 0, GPU-a 100");
}

/* GPU-b is held by its index, and another GPU took that index before UUIDs disappeared. */
TEST_BETWEEN(counts_do_not_mean_a_gpu_where_another_was_last, core_set_up, core_tear_down)
{
    struct core_fixture *core = *state;

    for (uint32_t index = 0; index < 2; index++) {
        const struct core_gpu before[] = {{.id = "GPU-a", .index = 1 - index, .mib = 1000},
                                          {.id = "GPU-b", .index = index, .mib = 1000}};
        const struct core_gpu after[] = {before[0], {.id = "GPU-c", .index = index, .mib = 1000}};
        const char *held = index == 0 ? "c0 n1/gpu-0 300 300" : "c0 n1/gpu-1 300 300 1";
        (void)core_node(core, "n1", counted, 2);
        hold_index(core, "p", held, "300");
        (void)core_node(core, "n1", before, 2);
        (void)core_node(core, "n1", after, 2);
        (void)core_node(core, "n1", counted, 2);
        assert_int_equal(core_gpu(core, "n1", "GPU-b")->used_milli, 300);
        assert_int_equal(core_gpu(core, "n1", "GPU-b")->flags, GPU_ABSENT);
        assert_int_equal(core_gpu(core, "n1", "GPU-c")->index, index);
        core_tear_down(state);
        core_set_up(state);
        core = *state;
    }
}

/* Nothing follows the last of them; the sanitizer reports a read past it. */
CORE_TEST(gpus_and_charges_are_read_to_their_end)
{
    struct want want = {.container = "c", .milli = 300, .parts = 1};
    const struct request request = {.wants = 1, .want = &want};
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

static uint64_t peers_of(const struct core_fixture *core, const char *gpu)
{
    return core_gpu(core, "n1", gpu)->peers;
}

CORE_TEST(peers_are_those_that_the_node_showed_last)
{
    struct core_gpu gpu[] = {a_then_b[0], a_then_b[1], {.id = "GPU-c", .index = 2}};
    gpu[0].peers = 1 << 1 | 1 << 2;
    gpu[1].peers = gpu[2].peers = 1;
    (void)core_node(core, "n1", gpu, 3);
    hold_gpu_a(core);
    assert_int_equal(peers_of(core, "GPU-a"), 6);
    assert_int_equal(peers_of(core, "GPU-b"), 1);
    /* What cannot be read says nothing: all stay linked. */
    struct inventory *silent = core_inventory(core, "n1", "node-uid", NULL, 0);
    silent->silent = true;
    silent->problem = PROBLEM_ANNOTATION;
    assert_int_equal(core_do(core, &(struct command){.kind = COMMAND_NODE, .inventory = silent}),
                     VERDICT_OK);
    assert_int_equal(peers_of(core, "GPU-a"), 6);
    assert_int_equal(peers_of(core, "GPU-c"), 1);
    /* GPU-a leaves, and is the last one while a pod holds it. */
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

/* Counts replace moved UUIDs: one more than before may be any GPU and is left out. */
CORE_TEST(links_by_place_are_dropped_where_places_have_moved)
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
    assert_string_equal(shown(core), "GPU-b 0, GPU-a 300");
    assert_int_equal(peers_of(core, "GPU-a"), 0);
    assert_int_equal(peers_of(core, "GPU-b"), 0);
}

CORE_TEST(a_missing_gpu_is_missing_and_nothing_else)
{
    struct core_gpu gpu[] = {a_then_b[0], a_then_b[1]};
    (void)core_node(core, "n1", gpu, 2);
    hold_gpu_a(core);
    gpu[0].sick = gpu[0].cordoned = true;
    (void)core_node(core, "n1", gpu, 2);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_UNHEALTHY | GPU_CORDONED);
    (void)core_node(core, "n1", &gpu[1], 1);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_ABSENT);
}

CORE_TEST(a_made_up_name_of_its_own_is_never_a_duplicate)
{
    const struct core_gpu forged = {.id = "n1/gpu-0", .mib = 1000};
    (void)core_node(core, "n1", counted, 1);
    (void)core_node(core, "n2", &forged, 1);
    assert_int_equal(core_node(core, "n1", counted, 1), VERDICT_SAME);
    assert_int_equal(core_node(core, "n1", counted, 2), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->flags, 0);
}

/* Nothing is known about its GPUs: they stay, but accept nothing. */
CORE_TEST(a_node_that_cannot_be_read_keeps_its_gpus_closed)
{
    struct inventory *broken = core_inventory(core, "n1", "node-uid", NULL, 0);
    const struct command command = {.kind = COMMAND_NODE, .inventory = broken};
    broken->problem = PROBLEM_ANNOTATION;
    broken->silent = true;
    (void)snprintf(broken->problem_text, sizeof broken->problem_text, "not JSON");

    (void)core_node(core, "n1", counted, 2);
    (void)core_reserve(core, "a", "n1", "300");
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(core_do(core, &command), VERDICT_SAME);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    assert_int_equal(node->gpus, 2);
    for (uint32_t i = 0; i < node->gpus; i++)
        assert_int_equal(node->gpu[i].flags, GPU_CORDONED);
    assert_int_equal(node->free_milli, 0);
    assert_int_equal(core_reserve(core, "b", "n1", "100"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_CORDONED);

    assert_int_equal(core_node(core, "n1", counted, 2), VERDICT_OK);
    assert_true(change_gives_room(&core->done[core->dones - 1]));
    assert_int_equal(core_reserve(core, "b", "n1", "100"), VERDICT_OK);
    (void)core_step(core, COMMAND_RELEASE, "a");
    (void)core_step(core, COMMAND_RELEASE, "b");
    broken->silent = false; /* now it says that it has no GPUs */
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->gpus, 0);
}

/* This is how the file stores it and how it is loaded again. */
CORE_TEST(a_gpu_that_was_absent_already_is_no_more_than_that_when_nothing_can_be_read)
{
    struct inventory *broken = core_inventory(core, "n1", "node-uid", NULL, 0);
    const struct command command = {.kind = COMMAND_NODE, .inventory = broken};
    broken->problem = PROBLEM_ANNOTATION;
    broken->silent = true;

    (void)core_node(core, "n1", counted, 1);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_node(core, "n1", counted, 0);
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->flags, GPU_ABSENT);
    (void)core_do(core, &command);
    assert_int_equal(core_gpu(core, "n1", "n1/gpu-0")->flags, GPU_ABSENT);
}

CORE_TEST(another_word_for_the_same_problem_is_a_change)
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

CORE_TEST(every_new_trouble_has_its_time)
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
}

/* Restored, they come one by one in another order, so links by place would be those of others. */
CORE_TEST(gpus_of_a_gone_node_are_linked_with_none)
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

CORE_TEST(of_a_gpu_of_a_gone_node_it_is_known_that_it_is_missing_and_no_more)
{
    const struct core_gpu closed = {.id = "GPU-a", .mib = 1000, .sick = true, .cordoned = true};
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    (void)core_node(core, "n1", &closed, 1);
    hold_gpu_a(core);
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_ABSENT);
}

/* Having only one name is no reason for a node to keep a GPU. */
CORE_TEST(what_nobody_holds_gives_way_to_an_older_node)
{
    (void)core_node(core, "n1", a_then_b, 2);
    const struct command give_way = {.kind = COMMAND_NODE,
                                     .node = "n1",
                                     .first_owner = core_inventory(core, "n2", "u2", a_then_b, 1)};
    assert_int_equal(core_do(core, &give_way), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_DUPLICATE);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->flags, 0);
}

static enum verdict show_anew(struct core_fixture *core, const char *uid)
{
    const struct command command = {.kind = COMMAND_NODE,
                                    .inventory = core_inventory(core, "n1", uid, NULL, 0)};
    return core_do(core, &command);
}

CORE_TEST(a_node_anew_inherits_nothing_that_a_pod_gives_back)
{
    (void)core_node(core, "n1", a_then_b, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "2000"), VERDICT_OK);
    assert_int_equal(show_anew(core, "anew"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->owned_ids, 0);
}

/* The pod holds its GPU by the name it had before its UUID was known. */
CORE_TEST(what_a_pod_holds_by_another_name_it_holds)
{
    (void)core_node(core, "n1", counted, 1);
    assert_int_equal(core_reserve(core, "a", "n1", "300"), VERDICT_OK);
    (void)core_node(core, "n1", a_then_b, 1);
    const struct command give_way = {.kind = COMMAND_NODE,
                                     .node = "n1",
                                     .first_owner = core_inventory(core, "n2", "u2", a_then_b, 1)};
    assert_int_equal(core_do(core, &give_way), VERDICT_SAME);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, 0);
    assert_int_equal(show_anew(core, "anew"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->owned_ids, 0);
}

CORE_TEST(claims_that_differ_make_another_node_wherever_they_differ)
{
    struct names *names = core->ledger->names;
    const struct atom *empty = names_intern(names, TEXT(""));
    const struct atom *one[] = {names_intern(names, TEXT("GPU-a")),
                                names_intern(names, TEXT("GPU-c")),
                                names_intern(names, TEXT("GPU-e"))};
    struct node_build build = {.name = names_intern(names, TEXT("n1")),
                               .uid = empty,
                               .problem_text = empty,
                               .owned_ids = 3,
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
