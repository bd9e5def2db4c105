#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/node/node.h"

#include "support/atoms.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/walk.h"

/* A whole GPU of 80 GiB. */
static struct gpu gpu(const char *id, uint16_t index)
{
    return (struct gpu){
        .id = atom(id),
        .model = atom("A100"),
        .milli = GPU_MILLI,
        .mib = 81920,
        .index = index,
        .numa = -1,
    };
}

static struct allocation_facts facts_of(const char *uid, const struct share *shares, uint32_t count)
{
    return (struct allocation_facts){
        .uid = uid,
        .namespace = "default",
        .name = uid,
        .node = atom("n1"),
        .state = STATE_BOUND,
        .shares = count,
        .share = shares,
    };
}

/* One share of milli on one GPU, with the memory that comes with it. */
static const struct allocation *pod(const char *uid, const char *on, uint32_t milli,
                                    enum allocation_state state)
{
    const struct share share = {
        .container = "main", .gpu = atom(on), .milli = milli, .mib = 81920 * milli / GPU_MILLI};
    struct allocation_facts facts = facts_of(uid, &share, 1);
    facts.state = state;
    return allocation_new(&facts);
}

struct scene {
    struct gpu gpu[8];
    uint32_t gpus;
    const struct allocation *pod[140];
    uint32_t pods;
    bool gone;
};

static void drop_pods(struct scene *scene)
{
    while (scene->pods > 0)
        allocation_unref(scene->pod[--scene->pods]);
}

static struct node_build build_of(const struct scene *scene)
{
    return (struct node_build){
        .name = atom("n1"),
        .uid = atom("n1-uid"),
        .problem_text = atom(""),
        .gone = scene->gone,
        .since_ms = 17,
        .gpus = scene->gpus,
        .gpu = scene->gpu,
        .allocations = scene->pods,
        .allocation = scene->pod,
    };
}

static struct node *node_of(const struct scene *scene)
{
    const struct node_build build = build_of(scene);
    struct node *node = node_new(&build);
    node_assert_valid(node);
    return node;
}

/* True if the claim ends in abort(). */
static bool aborts(void (*owned_id)(struct scene *), struct scene *scene)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)fclose(stderr);
        owned_id(scene);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST(node__sums_the_charges)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1)}, .gpus = 2};
    scene.pod[scene.pods++] = pod("c", "GPU-a", 300, STATE_BOUND);
    scene.pod[scene.pods++] = pod("a", "GPU-a", 200, STATE_RESERVED);
    scene.pod[scene.pods++] = pod("b", "GPU-b", 500, STATE_BOUND);
    const struct node *node = node_of(&scene);

    assert_int_equal(node->gpu[0].used_milli, 300);
    assert_int_equal(node->gpu[0].reserved_milli, 200);
    assert_int_equal(node->gpu[0].used_mib, 81920 * 300 / 1000 + 81920 * 200 / 1000);
    assert_int_equal(node->gpu[0].charges, 2);
    assert_int_equal(gpu_free(&node->gpu[0]), 500);
    assert_int_equal(gpu_free(&node->gpu[1]), 500);
    assert_int_equal(node->free_milli, 1000);
    assert_int_equal(node->since_ms, 17);
    assert_string_equal(node->allocation[0]->facts.uid, "a"); /* ascending */
    assert_string_equal(node->allocation[2]->facts.uid, "c");
    assert_ptr_equal(node_allocation(node, TEXT("b")), node->allocation[1]);
    assert_null(node_allocation(node, TEXT("aa")));
    assert_null(node_allocation(node, TEXT("")));
    assert_null(node_allocation(node, TEXT("d")));
    node_unref(node);
    drop_pods(&scene);
}

TEST(gpu_reported_unhealthy__needs_a_present_gpu_and_node)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1), gpu("GPU-c", 2)}, .gpus = 3};

    scene.gpu[1].flags = GPU_UNHEALTHY;
    scene.gpu[2].flags = GPU_UNHEALTHY | GPU_ABSENT;
    scene.pod[scene.pods++] = pod("b", "GPU-b", 500, STATE_BOUND);
    scene.pod[scene.pods++] = pod("c", "GPU-c", 500, STATE_BOUND); /* so that the GPU is kept */
    struct node *node = node_of(&scene);
    assert_int_equal(node->gpus, 3);
    assert_false(gpu_reported_unhealthy(node_gpu(node, TEXT("GPU-a"))));
    assert_true(gpu_reported_unhealthy(node_gpu(node, TEXT("GPU-b"))));
    assert_false(gpu_reported_unhealthy(node_gpu(node, TEXT("GPU-c"))));
    node_unref(node);
    scene.gone = true;
    node = node_of(&scene);
    assert_false(gpu_reported_unhealthy(node_gpu(node, TEXT("GPU-b"))));
    node_unref(node);
    drop_pods(&scene);
}

TEST(node_allocation__compares_only_the_length_of_a_uid)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
    scene.pod[scene.pods++] = pod("ab", "GPU-a", 100, STATE_BOUND);
    scene.pod[scene.pods++] = pod("abc", "GPU-a", 100, STATE_BOUND);
    const struct node *node = node_of(&scene);
    static const char longer[] = "abd";
    assert_null(node_allocation(node, (struct text){longer, 1}));
    assert_ptr_equal(node_allocation(node, (struct text){longer, 2}), node->allocation[0]);
    assert_null(node_allocation(node, (struct text){longer, 3}));
    assert_null(node_allocation(node, (struct text){0}));
    node_unref(node);
    drop_pods(&scene);
}

static void build_it(struct scene *scene)
{
    const struct node_build build = build_of(scene);
    node_unref(node_new(&build));
}

TEST(node__aborts_on_a_duplicate_pod)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
    scene.pod[scene.pods++] = pod("a", "GPU-a", 100, STATE_BOUND);
    build_it(&scene);
    scene.pod[scene.pods++] = pod("a", "GPU-a", 100, STATE_RESERVED);
    assert_true(aborts(build_it, &scene));
    drop_pods(&scene);
}

TEST(node__sorts_gpus_by_absence_index_and_id)
{
    struct scene scene = {
        .gpu = {gpu("GPU-x", 3), gpu("GPU-y", 1), gpu("GPU-b", 0), gpu("GPU-a", 0)}, .gpus = 4};
    scene.gpu[2].flags = GPU_ABSENT;
    scene.gpu[3].flags = GPU_ABSENT;
    scene.pod[scene.pods++] = pod("a", "GPU-a", 100, STATE_BOUND);
    scene.pod[scene.pods++] = pod("b", "GPU-b", 100, STATE_BOUND);
    const struct node *node = node_of(&scene);
    static const char *const order[] = {"GPU-y", "GPU-x", "GPU-a", "GPU-b"};
    assert_int_equal(node->gpus, 4);
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        assert_string_equal(node->gpu[i].id->text, order[i]);
    node_unref(node);
    drop_pods(&scene);
}

TEST(absent_gpu__keeps_its_size_while_charged)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1)}, .gpus = 2};
    scene.gpu[1].flags = GPU_ABSENT;
    scene.pod[scene.pods++] = pod("a", "GPU-b", 300, STATE_BOUND);
    const struct node *node = node_of(&scene);
    assert_int_equal(node->gpus, 2);
    assert_int_equal(node->gpu[1].flags, GPU_ABSENT);
    assert_int_equal(node->gpu[1].milli, GPU_MILLI);
    assert_int_equal(node->gpu[1].used_milli, 300);
    assert_int_equal(node->free_milli, 1000); /* what is absent offers nothing */
    assert_int_equal(gpu_closed(&node->gpu[1]), REASON_ABSENT);

    const struct node *without = node_with(node, scene.pod[0], NULL);
    node_assert_valid(without);
    assert_int_equal(without->gpus, 1);
    node_unref(without);
    node_unref(node);
    drop_pods(&scene);
}

TEST(absent_gpu__is_created_by_a_charge_on_an_unknown_id)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
    scene.pod[scene.pods++] = pod("a", "GPU-lost", 300, STATE_BOUND);
    scene.pod[scene.pods++] = pod("b", "GPU-lost", 900, STATE_BOUND);
    const struct node *node = node_of(&scene);
    const struct gpu *lost = node_gpu(node, TEXT("GPU-lost"));
    assert_int_equal(node->gpus, 2);
    assert_non_null(lost);
    assert_int_equal(lost->flags, GPU_ABSENT); /* of unknown size, so never over it */
    assert_int_equal(lost->milli, 0);
    assert_int_equal(lost->used_milli, 1200);
    assert_string_equal(lost->model->text, "");
    assert_int_equal(lost->numa, -1);
    assert_int_equal(gpu_free(lost), 0);
    node_unref(node);
    drop_pods(&scene);
}

TEST(alias__names_the_gpu_that_is_present)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("n1/gpu-0", 0), gpu("n1/gpu-7", 7)},
                          .gpus = 3};
    scene.gpu[0].alias = atom("n1/gpu-0");
    scene.gpu[1].flags = GPU_ABSENT; /* the made-up GPU that the UUID has replaced */
    scene.gpu[2].flags = GPU_ABSENT; /* held by nobody */
    scene.pod[scene.pods++] = pod("a", "n1/gpu-0", 300, STATE_BOUND);
    scene.pod[scene.pods++] = pod("b", "GPU-a", 300, STATE_BOUND);
    const struct node *node = node_of(&scene);
    assert_int_equal(node->gpus, 1);
    assert_int_equal(node->gpu[0].used_milli, 600);
    assert_int_equal(node->gpu[0].charges, 2);
    assert_ptr_equal(node_gpu(node, TEXT("n1/gpu-0")), &node->gpu[0]);
    assert_ptr_equal(node_gpu(node, TEXT("GPU-a")), &node->gpu[0]);
    assert_null(node_gpu(node, TEXT("GPU")));
    node_unref(node);
    drop_pods(&scene);
}

TEST(alias__yields_to_an_id)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("n1/gpu-0", 1)}, .gpus = 2};
    scene.gpu[0].alias = atom("n1/gpu-0");
    scene.pod[scene.pods++] = pod("a", "n1/gpu-0", 300, STATE_BOUND);
    const struct node *node = node_of(&scene);
    assert_int_equal(node->gpu[0].used_milli, 0);
    assert_int_equal(node->gpu[1].used_milli, 300);
    assert_ptr_equal(node_gpu(node, TEXT("n1/gpu-0")), &node->gpu[1]);
    node_unref(node);
    drop_pods(&scene);
}

TEST(gpu__is_over_when_charged_beyond_its_size)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1), gpu("GPU-c", 2)}, .gpus = 3};
    scene.gpu[0].milli = 500; /* shrank below its use */
    scene.gpu[1].mib = 100;
    scene.gpu[2].mib = 0; /* unknown, so it cannot be exceeded */
    scene.pod[scene.pods++] = pod("a", "GPU-a", 600, STATE_BOUND);
    scene.pod[scene.pods++] = pod("b", "GPU-b", 300, STATE_BOUND);
    scene.pod[scene.pods++] = pod("c", "GPU-c", 1000, STATE_BOUND);
    const struct node *node = node_of(&scene);
    assert_int_equal(node->gpu[0].flags, GPU_OVER);
    assert_int_equal(node->gpu[1].flags, GPU_OVER);
    assert_int_equal(node->gpu[2].flags, 0);
    assert_int_equal(gpu_free(&node->gpu[0]), 0);
    assert_int_equal(gpu_closed(&node->gpu[1]), REASON_ROOM);
    assert_int_equal(node->free_milli, 0); /* 700 on b, but nothing is granted there */

    const struct node *without = node_with(node, scene.pod[1], NULL);
    node_assert_valid(without);
    assert_int_equal(without->gpu[1].flags, 0); /* no longer over */
    assert_int_equal(without->free_milli, 1000);
    node_unref(without);
    node_unref(node);
    drop_pods(&scene);
}

TEST(gpu__is_over_even_at_the_smallest_size)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1)}, .gpus = 2};
    scene.gpu[0].milli = 1;
    scene.gpu[1].mib = 1;
    scene.pod[scene.pods++] = pod("a", "GPU-a", 2, STATE_BOUND);
    scene.pod[scene.pods++] = pod("b", "GPU-b", 1, STATE_BOUND);
    const struct node *node = node_of(&scene);
    assert_int_equal(node->gpu[0].flags, GPU_OVER);
    assert_int_equal(node->gpu[1].flags, GPU_OVER);
    node_unref(node);
    drop_pods(&scene);
}

TEST(gpu_closed__returns_the_strongest_reason)
{
    static const struct {
        unsigned flags;
        enum reason why;
    } step[] = {
        {0, REASON_NONE},
        {GPU_DUPLICATE, REASON_ABSENT},
        {GPU_UNHEALTHY, REASON_UNHEALTHY},
        {GPU_CORDONED, REASON_CORDONED},
        {GPU_UNHEALTHY | GPU_CORDONED, REASON_UNHEALTHY},
        {GPU_DUPLICATE | GPU_UNHEALTHY | GPU_CORDONED, REASON_ABSENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(step); i++) {
        struct scene scene = {.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
        scene.gpu[0].flags = (uint16_t)step[i].flags;
        const struct node *node = node_of(&scene);
        assert_int_equal(node->gpu[0].flags, step[i].flags);
        assert_int_equal(gpu_closed(&node->gpu[0]), step[i].why);
        assert_int_equal(node->free_milli, step[i].why == REASON_NONE ? 1000 : 0);
        node_unref(node);
    }
}

TEST(gpu__is_full_at_charges_per_gpu_max)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
    for (int i = 0; i < CHARGES_PER_GPU_MAX; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof uid, "pod-%03d", i);
        scene.pod[scene.pods++] = pod(uid, "GPU-a", 1, STATE_BOUND);
    }
    const struct node *node = node_of(&scene);
    assert_int_equal(gpu_closed(&node->gpu[0]), REASON_CROWDED);
    assert_int_equal(node->free_milli, 0);
    const struct node *less = node_with(node, scene.pod[5], NULL);
    assert_int_equal(gpu_closed(&less->gpu[0]), REASON_NONE);
    assert_int_equal(less->free_milli, 1000 - (CHARGES_PER_GPU_MAX - 1));
    node_unref(less);
    node_unref(node);
    drop_pods(&scene);
}

/* The pod count saturates at its maximum; the node still passes its check. */
TEST(gpu__saturates_its_number_of_charges)
{
    enum { PODS = UINT16_MAX + 1 };
    static const struct allocation *pods[PODS];
    const struct gpu one = gpu("GPU-a", 0);
    for (int i = 0; i < PODS; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof uid, "pod-%05d", i);
        pods[i] = pod(uid, "GPU-a", 1, STATE_BOUND);
    }
    const struct node_build build = {
        .name = atom("n1"), .gpus = 1, .gpu = &one, .allocations = PODS, .allocation = pods};
    const struct node *node = node_new(&build);
    struct err err;
    assert_int_equal(node_check(node, &err), 0);
    assert_int_equal(node->gpu[0].charges, UINT16_MAX);
    assert_int_equal(node->gpu[0].used_milli, PODS);
    assert_int_equal(gpu_closed(&node->gpu[0]), REASON_CROWDED);
    node_unref(node);
    for (int i = 0; i < PODS; i++)
        allocation_unref(pods[i]);
}

TEST(node_closed__returns_the_reason_of_the_node)
{
    struct scene scene = {.gpus = 0};
    const struct node *node = node_of(&scene);
    assert_int_equal(node_closed(node), REASON_NO_GPU);
    node_unref(node);

    scene = (struct scene){.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
    struct allocation_facts facts = facts_of("a", NULL, 0);
    facts.origin = ORIGIN_ADOPTED;
    facts.unplaced_milli = 1;
    scene.pod[scene.pods++] = allocation_new(&facts);
    node = node_of(&scene);
    assert_int_equal(node_closed(node), REASON_UNPLACED);
    assert_int_equal(node->unplaced_milli, 1);
    assert_int_equal(node->free_milli, 0);
    node_unref(node);

    facts = facts_of("b", NULL, 0);
    facts.origin = ORIGIN_ADOPTED;
    facts.held_gpus = 2;
    scene.pod[scene.pods++] = allocation_new(&facts);
    node = node_of(&scene);
    assert_int_equal(node_closed(node), REASON_MIXED);
    assert_int_equal(node->held_gpus, 2);
    node_unref(node);
    drop_pods(&scene);
}

/* Of two GPUs; who holds GPU-a and GPU-b, and the only pod with whole GPUs. */
static const struct node *held_node(struct scene *scene, const char *a, const char *b,
                                    uint32_t held)
{
    struct gpu_note hold[2];
    uint32_t holds = 0;
    struct allocation_facts facts = facts_of("w", NULL, 0);

    *scene = (struct scene){.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1)}, .gpus = 2};
    facts.origin = ORIGIN_ADOPTED;
    facts.held_gpus = held;
    if (held > 0)
        scene->pod[scene->pods++] = allocation_new(&facts);
    if (a != NULL)
        hold[holds++] = (struct gpu_note){.gpu = atom("GPU-a"), .held = a};
    if (b != NULL)
        hold[holds++] = (struct gpu_note){.gpu = atom("GPU-b"), .held = b};
    struct node_build build = build_of(scene);
    build.notes = holds;
    build.note = hold;
    struct node *node = node_new(&build);
    memset(hold, 0, sizeof hold); /* a node has its own copy */
    node_assert_valid(node);
    return node;
}

TEST(held_gpu__closes_only_itself_when_named)
{
    static const struct {
        const char *by[2];
        uint32_t held; /* by pod w */
        uint32_t unnamed;
        bool closed[2];
        uint32_t free;
    } row[] = {
        {{NULL, NULL}, 0, 0, {false, false}, 2000},
        {{NULL, NULL}, 1, 1, {false, false}, 0},
        {{"pod:w", NULL}, 1, 0, {true, false}, 1000},
        {{NULL, "env:w"}, 1, 0, {false, true}, 1000},
        {{NULL, "env:w"}, 0, 0, {false, false}, 2000},
        {{"pod:w", "pod:w"}, 1, 0, {true, true}, 0},
        {{"pod:w", NULL}, 2, 1, {true, false}, 0},
        {{"pod:other", NULL}, 1, 1, {true, false}, 0},
        {{"pod:other", "process"}, 0, 0, {true, true}, 0},
        {{"unknown", NULL}, 0, 0, {true, false}, 1000},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct scene scene;
        const struct node *node = held_node(&scene, row[i].by[0], row[i].by[1], row[i].held);
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(gpu_closed(&node->gpu[k]) == REASON_HELD, row[i].closed[k]);
            assert_int_equal((node->gpu[k].flags & GPU_HELD) != 0, row[i].closed[k]);
        }
        assert_int_equal(node->held_gpus, row[i].held);
        assert_int_equal(node->unnamed_gpus, row[i].unnamed);
        assert_int_equal(node_closed(node), row[i].unnamed > 0 ? REASON_MIXED : REASON_NONE);
        assert_int_equal(node->free_milli, row[i].free);
        node_unref(node);
        drop_pods(&scene);
    }
}

TEST(held_gpu__keeps_its_holder_until_absent)
{
    struct scene scene;
    const struct node *node = held_node(&scene, "env:w", "process", 1);
    const struct node *less = node_with(node, scene.pod[0], NULL);
    node_assert_valid(less);
    assert_int_equal(less->gpu[0].flags, 0); /* nobody there has a right to it */
    assert_int_equal(less->gpu[1].flags, GPU_HELD);
    assert_string_equal(node_note_of(less, &less->gpu[0])->held, "env:w");
    const struct node *again = node_with(less, NULL, scene.pod[0]);
    node_assert_valid(again);
    assert_int_equal(again->gpu[0].flags, GPU_HELD);
    node_unref(again);
    node_unref(less);
    node_unref(node);
    drop_pods(&scene);

    const struct gpu_note hold = {.gpu = atom("GPU-a"), .held = "process"};
    scene = (struct scene){.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
    scene.gpu[0].flags = GPU_ABSENT;
    scene.pod[scene.pods++] = pod("a", "GPU-a", 300, STATE_BOUND);
    struct node_build build = build_of(&scene);
    build.notes = 1;
    build.note = &hold;
    struct node *absent = node_new(&build);
    node_assert_valid(absent);
    assert_int_equal(absent->notes, 0);
    assert_int_equal(absent->gpu[0].flags, GPU_ABSENT);
    node_unref(absent);
    drop_pods(&scene);
}

TEST(node_check__reports_notes_that_fit_no_gpu)
{
    static const struct {
        const char *held;
        const char *fault;
    } row[] = {
        {"somebody", "node n1: it does not know who holds a GPU whole"},
        {"", "node n1: it does not know who holds a GPU whole"},
        {"pod:w", "node n1: a GPU is noted twice"},
    };
    struct scene scene;
    struct err err;
    const struct node *whole = held_node(&scene, "pod:w", "process", 1);
    struct node *node = (struct node *)(uintptr_t)whole;
    const struct gpu_note was = node->note[1];

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        node->note[1] = (struct gpu_note){.gpu = node->note[0].gpu, .held = row[i].held};
        assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
        assert_string_equal(err.text, row[i].fault);
    }
    node->note[1] = (struct gpu_note){.gpu = atom("GPU-z"), .held = "pod:w"};
    assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: a GPU that it does not show is noted");
    node->note[1] = was;
    const struct gpu_note first = node->note[0];
    node->note[0] = (struct gpu_note){.gpu = atom("GPU-z"), .held = "pod:w"};
    assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: a GPU that it does not show is noted");
    node->note[0] = first;
    node->gpu[1].flags = 0;
    assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: GPU GPU-b: it is wrong about being held whole");
    node->gpu[1].flags = GPU_HELD;
    node->unnamed_gpus = 1;
    assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: its unnamed GPUs are not what its pods hold beyond "
                                  "those that are named");
    node->unnamed_gpus = 0;
    assert_int_equal(node_check(node, &err), 0);
    node_unref(node);
    drop_pods(&scene);
}

TEST(gone_node__keeps_only_charged_gpus)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1)}, .gpus = 2, .gone = true};
    scene.pod[scene.pods++] = pod("a", "GPU-b", 300, STATE_BOUND);
    const struct node *node = node_of(&scene);
    assert_true(node->gone);
    assert_int_equal(node->gpus, 1);
    assert_int_equal(node->gpu[0].flags, GPU_ABSENT);
    assert_int_equal(node->free_milli, 0);
    node_unref(node);
    drop_pods(&scene);
}

TEST(node__saturates_at_absurd_amounts)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
    for (int i = 0; i < 2; i++) {
        const struct share share = {
            .container = "main", .gpu = atom("GPU-a"), .milli = UINT32_MAX - 1, .mib = UINT32_MAX};
        struct allocation_facts facts = facts_of(i == 0 ? "a" : "b", &share, 1);
        facts.origin = ORIGIN_ADOPTED;
        facts.state = i == 0 ? STATE_BOUND : STATE_RESERVED;
        scene.pod[scene.pods++] = allocation_new(&facts);
    }
    const struct node *node = node_of(&scene);
    assert_int_equal(node->gpu[0].flags, GPU_OVER);
    assert_int_equal(node->gpu[0].used_mib, UINT32_MAX);
    assert_int_equal(gpu_free(&node->gpu[0]), 0);
    node_unref(node);
    drop_pods(&scene);
}

TEST(atom_cmp__compares_bytewise)
{
    static const char *const ascending[] = {"", "N1", "n", "n-1", "n1", "n10", "n2", "\xc3\xa4"};
    for (size_t i = 0; i < ARRAY_LEN(ascending); i++)
        for (size_t k = 0; k < ARRAY_LEN(ascending); k++) {
            const int order = atom_cmp(atom(ascending[i]), atom(ascending[k]));
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
}

TEST(atom_cmp__ignores_bytes_after_the_end)
{
    static const struct atom a = {.len = 1, .text = "ab"};
    static const struct atom other_a = {.len = 1, .text = "aa"};
    static const struct atom aa = {.len = 2, .text = "aa"};
    assert_int_equal(atom_cmp(&a, &other_a), 0);
    assert_true(atom_cmp(&a, &aa) < 0);
    assert_true(atom_cmp(&aa, &a) > 0);
}

static void break_it_and_assert(struct scene *scene)
{
    struct node *node = node_of(scene);
    node->free_milli++;
    node_assert_valid(node);
    node_unref(node);
}

TEST(node_assert_valid__aborts_on_a_broken_node)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0)}, .gpus = 1};
    node_unref(node_of(&scene)); /* verified, too */
    assert_true(aborts(break_it_and_assert, &scene));
}

/* Faults beyond those that the ledger's check of stray writes covers. */
TEST(node_check__names_the_fault)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1), gpu("GPU-c", 2)}, .gpus = 3};
    const struct share share[] = {
        {.container = "main", .gpu = atom("GPU-a"), .milli = 300, .mib = 1},
        {.container = "main", .gpu = atom("GPU-b"), .milli = 300, .mib = 1}};
    const struct allocation_facts facts = facts_of("a", share, ARRAY_LEN(share));
    scene.pod[scene.pods++] = allocation_new(&facts);
    scene.pod[scene.pods++] = pod("b", "GPU-a", 300, STATE_BOUND);
    struct node *node = node_of(&scene);
    struct err err;

    node->gpus = 1;
    assert_int_equal(node_check(node, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: pod default/a (a): it holds a GPU that its node does "
                                  "not have");
    node->gpus = 3;

    node->gpu[2].flags = GPU_ABSENT;
    assert_int_equal(node_check(node, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: GPU GPU-c: it is absent, and nobody holds it");
    node->gpu[2].flags = 0;

    const struct allocation *second = node->allocation[1];
    node->allocation[1] = node->allocation[0];
    assert_int_equal(node_check(node, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: pod default/a (a): it stands in the wrong place, or "
                                  "twice");
    node->allocation[1] = second;
    assert_int_equal(node_check(node, &err), 0);
    node_unref(node);
    drop_pods(&scene);
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33) % below;
}

static void assert_same_gpu(const struct gpu *a, const struct gpu *b)
{
    assert_ptr_equal(a->id, b->id);
    assert_ptr_equal(a->alias, b->alias);
    assert_int_equal(a->milli, b->milli);
    assert_int_equal(a->used_milli, b->used_milli);
    assert_int_equal(a->reserved_milli, b->reserved_milli);
    assert_int_equal(a->used_mib, b->used_mib);
    assert_int_equal(a->charges, b->charges);
    assert_int_equal(a->flags, b->flags);
}

static void assert_same_node(const struct node *a, const struct node *b)
{
    assert_int_equal(a->gpus, b->gpus);
    assert_int_equal(a->free_milli, b->free_milli);
    assert_int_equal(a->held_gpus, b->held_gpus);
    assert_int_equal(a->unplaced_milli, b->unplaced_milli);
    assert_int_equal(a->allocations, b->allocations);
    for (uint32_t i = 0; i < a->gpus; i++)
        assert_same_gpu(&a->gpu[i], &b->gpu[i]);
    for (uint32_t i = 0; i < a->allocations; i++)
        assert_ptr_equal(a->allocation[i], b->allocation[i]);
}

/* One draw per statement: a seed must replay on every compiler. */
static const struct allocation *draw_pod(uint64_t *seed, const char *uid)
{
    static const char *const on[] = {"GPU-a", "GPU-b", "GPU-c", "n1/gpu-1", "GPU-lost"};
    struct share share[2] = {{.container = "x"}, {.container = "y", .order = 1}};
    for (int i = 0; i < 2; i++) {
        share[i].gpu = atom(on[draw(seed, 5)]);
        share[i].milli = 50 * (1 + draw(seed, 8));
        share[i].mib = share[i].milli * 81;
        share[i].kind = (enum container_kind)draw(seed, 3);
    }
    struct allocation_facts facts = facts_of(uid, share, draw(seed, 3));
    facts.origin = ORIGIN_ADOPTED;
    facts.state = draw(seed, 2) == 0 ? STATE_RESERVED : STATE_BOUND;
    facts.held_gpus = draw(seed, 20) == 0;
    facts.unplaced_milli = draw(seed, 20) == 0 ? 300 : 0;
    return allocation_new(&facts);
}

TEST(node_with__equals_a_node_built_anew)
{
    const char *env = getenv("NODE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 42;
    print_message("NODE_SEED=%llu\n", (unsigned long long)seed);

    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1), gpu("GPU-c", 2)}, .gpus = 3};
    scene.gpu[1].alias = atom("n1/gpu-1");
    scene.gpu[2].flags = GPU_CORDONED;
    const struct node *node = node_of(&scene);
    uint32_t seen_over = 0;
    uint32_t seen_lost = 0;
    for (int step = 0; step < walk_steps(5000, 500); step++) {
        char uid[8];
        (void)snprintf(uid, sizeof uid, "u%u", draw(&seed, 12));
        const struct allocation *before = node_allocation(node, text_of(uid));
        const struct allocation *after = NULL;
        if (before == NULL || draw(&seed, 2) == 0)
            after = draw_pod(&seed, uid);
        struct node *next = node_with(node, before, after);
        node_unref(node);
        allocation_unref(after);
        node = next;
        node_assert_valid(node);

        struct node_build build = build_of(&scene);
        build.allocations = node->allocations;
        build.allocation = node->allocation;
        const struct node *anew = node_new(&build);
        assert_same_node(node, anew);
        node_unref(anew);
        seen_over += (node->gpu[0].flags & GPU_OVER) != 0;
        seen_lost += node->gpus > 3;
    }
    assert_true(seen_over > 0 && seen_lost > 0);
    node_unref(node);
}

/* For a Node object that came with a question and that the ledger does not know. */
TEST(node_from_inventory__has_gpus_and_no_pods)
{
    struct gpu_facts facts[] = {
        {.id = "GPU-a",
         .alias = "n1/gpu-0",
         .model = "A100",
         .milli = 500,
         .mib = 100,
         .healthy = true},
        {.id = "GPU-b", .model = "A100", .index = 1, .milli = 1000, .mib = 7, .numa = -1},
        {.id = "GPU-c",
         .model = "T4",
         .index = 2,
         .milli = 1000,
         .healthy = true,
         .cordoned = true}};
    const struct inventory inventory = {.node = "n1",
                                        .uid = "uid-1",
                                        .source = SOURCE_LABEL,
                                        .problem = PROBLEM_MIG,
                                        .problem_text = "MIG is on",
                                        .gpus = 3,
                                        .gpu = facts};
    struct node *node = node_from_inventory(&inventory, NULL, atoms);
    assert_string_equal(node->name->text, "n1");
    assert_string_equal(node->uid->text, "uid-1");
    assert_int_equal(node->source, SOURCE_LABEL);
    assert_int_equal(node->problem, PROBLEM_MIG);
    assert_string_equal(node->problem_text->text, "MIG is on");
    assert_int_equal(node->gpus, 3);
    assert_ptr_equal(node->gpu[0].id, atom("GPU-a"));
    assert_ptr_equal(node->gpu[0].alias, atom("n1/gpu-0"));
    assert_ptr_equal(node->gpu[0].model, atom("A100"));
    assert_int_equal(node->gpu[0].milli, 500);
    assert_int_equal(node->gpu[0].mib, 100);
    assert_int_equal(node->gpu[0].flags, 0);
    assert_null(node->gpu[1].alias);
    assert_int_equal(node->gpu[1].index, 1);
    assert_int_equal(node->gpu[1].numa, -1);
    assert_int_equal(node->gpu[1].flags, GPU_UNHEALTHY);
    assert_int_equal(node->gpu[2].flags, GPU_CORDONED);
    assert_false(node_has_shares(node));
    node_unref(node);
}

/* In the order of the node, which may differ from that of the build. */
static void assert_peers(const struct node *node, const char *of, const char *peers)
{
    const struct gpu *at = node_gpu(node, text_of(of));
    struct strbuf names;

    assert_non_null(at);
    strbuf_init(&names);
    for (uint32_t i = 0; i < node->gpus; i++)
        if ((at->peers >> i & 1) != 0)
            strbuf_str(&names, node->gpu[i].id->text);
    assert_int_equal(at->peers >> node->gpus, 0);
    assert_string_equal(names.len > 0 ? names.data : "", peers);
    strbuf_done(&names);
}

TEST(peers__follow_their_gpus_when_indexes_change)
{
    /* c and d are absent, and nobody holds d. */
    struct scene scene = {.gpu = {gpu("c", 0), gpu("b", 3), gpu("d", 2), gpu("a", 1)}, .gpus = 4};
    scene.gpu[0].flags = GPU_ABSENT;
    scene.gpu[2].flags = GPU_ABSENT;
    scene.gpu[0].peers = 1 << 1 | 1 << 2 | 1 << 0; /* b, d, and itself */
    scene.gpu[3].peers = 1 << 1 | 1 << 2;          /* b, d; b does not say so */
    scene.pod[scene.pods++] = pod("p", "c", 300, STATE_BOUND);
    scene.pod[scene.pods++] = pod("q", "stranger", 300, STATE_BOUND);
    struct node *node = node_of(&scene);

    assert_string_equal(node->gpu[0].id->text, "a");
    assert_peers(node, "a", "b");
    assert_peers(node, "b", "ac");
    assert_peers(node, "c", "b");
    assert_peers(node, "stranger", "");

    struct node *without = node_with(node, scene.pod[0], NULL);
    node_assert_valid(without);
    assert_peers(without, "a", "b");
    assert_peers(without, "b", "a"); /* c went with its pod */
    const struct host host = {1, 1};
    struct node *with_host = node_with_host(without, &host);
    assert_peers(with_host, "b", "a");
    node_unref(with_host);
    node_unref(without);
    node_unref(node);
    drop_pods(&scene);
}

/* Pods may hold more GPUs than a node can show; peers are among the first. */
TEST(peers__exclude_gpus_beyond_the_limit)
{
    struct gpu many[GPUS_PER_NODE_MAX + 1];
    for (uint32_t i = 0; i <= GPUS_PER_NODE_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "GPU-%02u", i);
        many[i] = gpu(name, (uint16_t)i);
        many[i].peers = UINT64_MAX;
    }
    many[0].flags = GPU_ABSENT; /* the last one, since it is absent */
    const struct allocation *held = pod("p", "GPU-00", 300, STATE_BOUND);
    const struct node_build build = {
        .name = atom("n1"),
        .uid = atom("n1-uid"),
        .problem_text = atom(""),
        .gpus = GPUS_PER_NODE_MAX + 1,
        .gpu = many,
        .allocations = 1,
        .allocation = &held,
    };
    struct node *node = node_new(&build);
    node_assert_valid(node);
    assert_int_equal(node->gpus, GPUS_PER_NODE_MAX + 1);
    assert_int_equal(node->gpu[GPUS_PER_NODE_MAX].peers, 0);
    /* GPU-64 stood behind the bound before; the others know each other. */
    assert_int_equal(node->gpu[GPUS_PER_NODE_MAX - 1].peers, 0);
    for (uint32_t i = 0; i + 1 < GPUS_PER_NODE_MAX; i++)
        assert_int_equal(node->gpu[i].peers, (UINT64_MAX >> 1) & ~((uint64_t)1 << i));
    node->gpu[GPUS_PER_NODE_MAX].peers = 1;
    node->gpu[0].peers |= 1; /* as if it were the first one again */
    struct err err;
    assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
    node->gpu[0].peers &= ~(uint64_t)1;
    assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "GPU-00: it is linked"));
    node_unref(node);
    allocation_unref(held);
}

/* A database may hold anything. */
TEST(peers__ignore_bits_without_a_gpu)
{
    struct scene scene = {.gpu = {gpu("a", 0), gpu("b", 1)}, .gpus = 2};
    scene.gpu[0].peers = 1 << 2; /* the first that is not there */
    struct node *node = node_of(&scene);
    assert_peers(node, "a", "");
    node_unref(node);
    scene.gpu[1].peers = UINT64_MAX;
    node = node_of(&scene);
    assert_peers(node, "a", "b");
    assert_peers(node, "b", "a");
    node_unref(node);
    scene.gpu[0].peers = 0;
    scene.gpu[1].peers = 1; /* the only bit that is set */
    node = node_of(&scene);
    assert_peers(node, "a", "b");
    node_unref(node);
}

TEST(node_check__reports_a_one_sided_link)
{
    static const uint64_t wrong[][2] = {{2, 0}, {1, 0}, {4, 0}, {0, 1}, {2, 3}};
    struct scene scene = {.gpu = {gpu("a", 0), gpu("b", 1)}, .gpus = 2};
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct node *node = node_of(&scene);
        node->gpu[0].peers = wrong[i][0];
        node->gpu[1].peers = wrong[i][1];
        assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
        assert_non_null(strstr(err.text, "it is linked with a GPU that is not linked with it"));
        node->gpu[0].peers = 2;
        node->gpu[1].peers = 1;
        assert_int_equal(node_check(node, &err), 0);
        node_unref(node);
    }
}

TEST(node_held_milli__sums_bound_reserved_and_unplaced)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1)}, .gpus = 2};
    const struct node *node = node_of(&scene);
    assert_int_equal(node_held_milli(node), 0);
    node_unref(node);

    struct allocation_facts facts = facts_of("d", NULL, 0);
    facts.origin = ORIGIN_ADOPTED;
    facts.unplaced_milli = 40;
    scene.pod[scene.pods++] = pod("a", "GPU-a", 200, STATE_RESERVED);
    scene.pod[scene.pods++] = pod("b", "GPU-b", 500, STATE_BOUND);
    scene.pod[scene.pods++] = pod("c", "GPU-c", 1000, STATE_BOUND); /* an absent GPU */
    scene.pod[scene.pods++] = allocation_new(&facts);
    node = node_of(&scene);
    assert_int_equal(node_held_milli(node), 1740);
    node_unref(node);
    drop_pods(&scene);
}

TEST(node_has_shares__is_true_when_a_pod_has_some)
{
    struct scene scene = {.gpu = {gpu("GPU-a", 0), gpu("GPU-b", 1)}, .gpus = 2};
    struct node_build build = build_of(&scene);
    struct node *empty = node_new(&build);
    assert_false(node_has_shares(empty));
    static const char *const id[] = {"GPU-a", "GPU-b"};
    for (size_t i = 0; i < ARRAY_LEN(id); i++) {
        const struct allocation *one = pod("a", id[i], 300, STATE_RESERVED);
        struct node *held = node_with(empty, NULL, one);
        assert_true(node_has_shares(held));
        node_unref(held);
        allocation_unref(one);
    }

    struct allocation_facts facts = facts_of("b", NULL, 0);
    facts.origin = ORIGIN_ADOPTED;
    facts.unplaced_milli = 1;
    const struct allocation *lost = allocation_new(&facts);
    struct node *somewhere = node_with(empty, NULL, lost);
    assert_true(node_has_shares(somewhere)); /* though nobody knows on which GPU */
    node_unref(empty);
    node_unref(somewhere);
    allocation_unref(lost);
}

TEST(gpu_id_index__reads_the_index_of_a_generated_id)
{
    static const struct {
        const char *id;
        uint32_t index;
    } row[] = {
        {"n/gpu-0", 0},     {"n/gpu-1", 1},          {"n/gpu-9", 9},         {"n/gpu-10", 10},
        {"n/gpu-205", 205}, {"n/gpu-6789", 6789},    {"n/gpu-54321", 54321}, {"n/gpu-65535", 65535},
        {"n/gpu-65536", 0}, {"n/gpu-912345", 12345}, /* never generated */
        {"n/gpu-", 0},      {"n/gpu-1:2", 2},        {"n/gpu-1/2", 2},       {"7", 7},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_int_equal(gpu_id_index(text_of(row[i].id)), row[i].index);
    /* Bytes before and after the text do not belong to it. */
    assert_int_equal(gpu_id_index((struct text){&"1234"[1], 2}), 23);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
