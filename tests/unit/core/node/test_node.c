#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/node/node.h"

#include "support/aborts.h"
#include "support/draw.h"
#include "support/node_scene.h"
#include "support/valid.h"
#include "support/walk.h"

NODE_TEST(node__sums_the_charges)
{
    scene_add_gpus(scene, 2);
    scene_bind(scene, "c", "GPU-a", 300);
    scene_add(scene, scene_pod("a", "GPU-a", 200, STATE_RESERVED));
    scene_bind(scene, "b", "GPU-b", 500);
    const struct node *node = scene_node(scene);

    assert_int_equal(node->gpu[0].used_milli, 300);
    assert_int_equal(node->gpu[0].reserved_milli, 200);
    assert_int_equal(node->gpu[0].used_mib, 2 * 300 + 2 * 200);
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
}

NODE_TEST(gpu_reported_unhealthy__needs_a_present_gpu_and_node)
{
    scene_add_gpu(scene, "GPU-a", 0);
    scene_add_gpu(scene, "GPU-b", GPU_UNHEALTHY);
    scene_add_gpu(scene, "GPU-c", GPU_UNHEALTHY | GPU_ABSENT);
    scene_bind(scene, "b", "GPU-b", 500);
    scene_bind(scene, "c", "GPU-c", 500); /* so that the GPU is kept */
    const struct node *node = scene_node(scene);
    assert_int_equal(node->n_gpus, 3);
    assert_false(gpu_reported_unhealthy(node_gpu(node, TEXT("GPU-a"))));
    assert_true(gpu_reported_unhealthy(node_gpu(node, TEXT("GPU-b"))));
    assert_false(gpu_reported_unhealthy(node_gpu(node, TEXT("GPU-c"))));
    scene->build.gone = true;
    assert_false(gpu_reported_unhealthy(node_gpu(scene_node(scene), TEXT("GPU-b"))));
}

NODE_TEST(node_allocation__compares_only_the_length_of_a_uid)
{
    static const char longer[] = "abd";
    scene_add_gpu(scene, "GPU-a", 0);
    scene_bind(scene, "ab", "GPU-a", 100);
    scene_bind(scene, "abc", "GPU-a", 100);
    const struct node *node = scene_node(scene);
    assert_null(node_allocation(node, (struct text){longer, 1}));
    assert_ptr_equal(node_allocation(node, (struct text){longer, 2}), node->allocation[0]);
    assert_null(node_allocation(node, (struct text){longer, 3}));
    assert_null(node_allocation(node, (struct text){0}));
}

/* Without the check of a scene, which would abort, too. */
static void build_node(void *user)
{
    const struct node_scene *scene = user;
    node_unref(node_new(&scene->build));
}

NODE_TEST(node__aborts_on_a_duplicate_pod)
{
    scene_add_gpu(scene, "GPU-a", 0);
    scene_bind(scene, "a", "GPU-a", 100);
    build_node(scene);
    scene_add(scene, scene_pod("a", "GPU-a", 100, STATE_RESERVED));
    assert_true(aborts(build_node, scene));
}

NODE_TEST(node__sorts_gpus_by_absence_index_and_id)
{
    static const char *const order[] = {"GPU-y", "GPU-x", "GPU-a", "GPU-b"};
    scene_add_gpu(scene, "GPU-x", 0)->index = 3;
    scene_add_gpu(scene, "GPU-y", 0)->index = 1;
    scene_add_gpu(scene, "GPU-b", GPU_ABSENT)->index = 0;
    scene_add_gpu(scene, "GPU-a", GPU_ABSENT)->index = 0;
    scene_bind(scene, "a", "GPU-a", 100);
    scene_bind(scene, "b", "GPU-b", 100);
    const struct node *node = scene_node(scene);
    assert_int_equal(node->n_gpus, 4);
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        assert_string_equal(node->gpu[i].id->text, order[i]);
}

NODE_TEST(absent_gpu__keeps_its_size_while_charged)
{
    scene_add_gpu(scene, "GPU-a", 0);
    scene_add_gpu(scene, "GPU-b", GPU_ABSENT);
    scene_bind(scene, "a", "GPU-b", 300);
    const struct node *node = scene_node(scene);
    assert_int_equal(node->n_gpus, 2);
    assert_int_equal(node->gpu[1].flags, GPU_ABSENT);
    assert_int_equal(node->gpu[1].milli, GPU_MILLI);
    assert_int_equal(node->gpu[1].used_milli, 300);
    assert_int_equal(node->free_milli, 1000); /* an absent GPU offers nothing */
    assert_int_equal(gpu_closed(&node->gpu[1]), REASON_ABSENT);
    assert_int_equal(scene_with(scene, node, scene->pod[0], NULL)->n_gpus, 1);
}

NODE_TEST(absent_gpu__is_created_by_a_charge_on_an_unknown_id)
{
    scene_add_gpu(scene, "GPU-a", 0);
    scene_bind(scene, "a", "GPU-lost", 300);
    scene_bind(scene, "b", "GPU-lost", 900);
    const struct node *node = scene_node(scene);
    const struct gpu *lost = node_gpu(node, TEXT("GPU-lost"));
    assert_int_equal(node->n_gpus, 2);
    assert_non_null(lost);
    assert_int_equal(lost->flags, GPU_ABSENT); /* of unknown size, so never over it */
    assert_int_equal(lost->milli, 0);
    assert_int_equal(lost->used_milli, 1200);
    assert_string_equal(lost->model->text, "");
    assert_int_equal(lost->numa, -1);
    assert_int_equal(gpu_free(lost), 0);
}

NODE_TEST(alias__names_the_gpu_that_is_present)
{
    scene_call(scene, scene_add_gpu(scene, "GPU-a", 0), "n1/gpu-0");
    scene_add_gpu(scene, "n1/gpu-0", GPU_ABSENT)->index = 0; /* which the UUID has replaced */
    scene_add_gpu(scene, "n1/gpu-7", GPU_ABSENT)->index = 7; /* without a charge */
    scene_bind(scene, "a", "n1/gpu-0", 300);
    scene_bind(scene, "b", "GPU-a", 300);
    const struct node *node = scene_node(scene);
    assert_int_equal(node->n_gpus, 1);
    assert_int_equal(node->gpu[0].used_milli, 600);
    assert_int_equal(node->gpu[0].charges, 2);
    assert_ptr_equal(node_gpu(node, TEXT("n1/gpu-0")), &node->gpu[0]);
    assert_ptr_equal(node_gpu(node, TEXT("GPU-a")), &node->gpu[0]);
    assert_null(node_gpu(node, TEXT("GPU")));
}

NODE_TEST(alias__yields_to_an_id)
{
    scene_call(scene, scene_add_gpu(scene, "GPU-a", 0), "n1/gpu-0");
    scene_add_gpu(scene, "n1/gpu-0", 0);
    scene_bind(scene, "a", "n1/gpu-0", 300);
    const struct node *node = scene_node(scene);
    assert_int_equal(node->gpu[0].used_milli, 0);
    assert_int_equal(node->gpu[1].used_milli, 300);
    assert_ptr_equal(node_gpu(node, TEXT("n1/gpu-0")), &node->gpu[1]);
}

/* An old ledger may have such an alias, which is not made of the node's name. */
NODE_TEST(alias__that_is_no_number_is_held_by_the_node)
{
    scene_call(scene, scene_add_gpu(scene, "GPU-a", 0), "first");
    const struct node *node = scene_node(scene);
    uint32_t held = 0;

    for (uint32_t i = 0; i < node->names->count; i++)
        held += node->names->name[i] == atom("first");
    assert_int_equal(held, 1);
    assert_ptr_equal(node_gpu(node, TEXT("first")), &node->gpu[0]);
}

NODE_TEST(gpu__is_over_when_charged_beyond_its_size)
{
    static const struct {
        const char *id;
        uint32_t milli, mib, charged; /* with 2 MiB each */
        unsigned flags;
    } row[] = {{"GPU-a", 500, SCENE_MIB, 600, GPU_OVER}, /* shrank below its use */
               {"GPU-b", 1000, 100, 300, GPU_OVER},
               {"GPU-c", 1000, 0, 1000, 0}, /* an unknown size cannot be exceeded */
               {"GPU-d", 1, SCENE_MIB, 2, GPU_OVER},
               {"GPU-e", 1000, 1, 1, GPU_OVER}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct gpu *gpu = scene_add_gpu(scene, row[i].id, 0);
        gpu->milli = row[i].milli;
        gpu->mib = row[i].mib;
        scene_bind(scene, row[i].id, row[i].id, row[i].charged);
    }
    const struct node *node = scene_node(scene);
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_int_equal(node->gpu[i].flags, row[i].flags);
    assert_int_equal(gpu_free(&node->gpu[0]), 0);
    assert_int_equal(gpu_closed(&node->gpu[1]), REASON_ROOM);
    assert_int_equal(node->free_milli, 0); /* 700 on b, but nothing is granted there */

    const struct node *without = scene_with(scene, node, scene->pod[1], NULL);
    assert_int_equal(without->gpu[1].flags, 0); /* no longer over */
    assert_int_equal(without->free_milli, 1000);
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
        struct node_scene *scene = node_scene_new();
        scene_add_gpu(scene, "GPU-a", step[i].flags);
        const struct node *node = scene_node(scene);
        assert_int_equal(node->gpu[0].flags, step[i].flags);
        assert_int_equal(gpu_closed(&node->gpu[0]), step[i].why);
        assert_int_equal(node->free_milli, step[i].why == REASON_NONE ? 1000 : 0);
        node_scene_free(scene);
    }
}

NODE_TEST(gpu__is_full_at_charges_per_gpu_max)
{
    scene_add_gpu(scene, "GPU-a", 0);
    for (int i = 0; i < CHARGES_PER_GPU_MAX; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof uid, "pod-%03d", i);
        scene_bind(scene, uid, "GPU-a", 1);
    }
    const struct node *node = scene_node(scene);
    assert_int_equal(gpu_closed(&node->gpu[0]), REASON_CROWDED);
    assert_int_equal(node->free_milli, 0);
    const struct node *less = scene_with(scene, node, scene->pod[5], NULL);
    assert_int_equal(gpu_closed(&less->gpu[0]), REASON_NONE);
    assert_int_equal(less->free_milli, 1000 - (CHARGES_PER_GPU_MAX - 1));
}

/* So the block of a former version has room for the next one. */
NODE_TEST(node__has_one_size_for_eight_numbers_of_pods)
{
    size_t size[9];

    scene_add_gpu(scene, "GPU-a", 0);
    for (size_t i = 0; i < ARRAY_LEN(size); i++) {
        char uid[16];
        const struct node *node = scene_node(scene);
        assert_int_equal(node->n_allocations, i);
        size[i] = (size_t)((const char *)node->gpu - (const char *)node->allocation);
        (void)snprintf(uid, sizeof uid, "pod-%02zu", i);
        scene_bind(scene, uid, "GPU-a", 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(size); i++)
        assert_int_equal(size[i], (i / 8 + 1) * 8 * sizeof(void *));
}

/* The pod count saturates at its maximum; the node still passes its check. */
NODE_TEST(gpu__saturates_its_number_of_charges)
{
    enum { PODS = UINT16_MAX + 1 };
    static const struct allocation *pods[PODS];
    scene_add_gpu(scene, "GPU-a", 0);
    for (int i = 0; i < PODS; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof uid, "pod-%05d", i);
        pods[i] = scene_pod(uid, "GPU-a", 1, STATE_BOUND);
    }
    struct node_build build = scene->build;
    build.n_allocations = PODS;
    build.allocation = pods;
    const struct node *node = node_new(&build);
    node_assert_valid(node);
    assert_int_equal(node->gpu[0].charges, UINT16_MAX);
    assert_int_equal(node->gpu[0].used_milli, PODS);
    assert_int_equal(gpu_closed(&node->gpu[0]), REASON_CROWDED);
    node_unref(node);
    for (int i = 0; i < PODS; i++)
        allocation_unref(pods[i]);
}

NODE_TEST(node_closed__returns_the_reason_of_the_node)
{
    assert_int_equal(node_closed(scene_node(scene)), REASON_NO_GPU);
    scene_add_gpu(scene, "GPU-a", 0);
    scene_adopt(scene, "a", 0, 1);
    const struct node *node = scene_node(scene);
    assert_int_equal(node_closed(node), REASON_UNPLACED);
    assert_int_equal(node->unplaced_milli, 1);
    assert_int_equal(node->free_milli, 0);
    scene_adopt(scene, "b", 2, 0);
    node = scene_node(scene);
    assert_int_equal(node_closed(node), REASON_MIXED);
    assert_int_equal(node->held_gpus, 2);
}

/* A node of two GPUs, with their holders or NULL; held: the number of whole GPUs of pod w. */
static struct node *held_node(struct node_scene *scene, const char *a, const char *b, uint32_t held)
{
    const char *const id[] = {"GPU-a", "GPU-b"};
    const char *const by[] = {a, b};

    for (size_t i = 0; i < ARRAY_LEN(id); i++) {
        const struct gpu *gpu = scene_add_gpu(scene, id[i], 0);
        if (by[i] != NULL)
            scene_hold(scene, gpu, by[i]);
    }
    if (held > 0)
        scene_adopt(scene, "w", held, 0);
    struct node *node = scene_node(scene);
    memset(scene->note, 0, sizeof scene->note); /* a node has its own copy */
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
        struct node_scene *scene = node_scene_new();
        const struct node *node = held_node(scene, row[i].by[0], row[i].by[1], row[i].held);
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(gpu_closed(&node->gpu[k]) == REASON_HELD, row[i].closed[k]);
            assert_int_equal((node->gpu[k].flags & GPU_HELD) != 0, row[i].closed[k]);
        }
        assert_int_equal(node->held_gpus, row[i].held);
        assert_int_equal(node->unnamed_gpus, row[i].unnamed);
        assert_int_equal(node_closed(node), row[i].unnamed > 0 ? REASON_MIXED : REASON_NONE);
        assert_int_equal(node->free_milli, row[i].free);
        node_scene_free(scene);
    }
}

NODE_TEST(held_gpu__keeps_its_holder_until_absent)
{
    const struct node *node = held_node(scene, "env:w", "process", 1);
    const struct node *less = scene_with(scene, node, scene->pod[0], NULL);
    assert_int_equal(less->gpu[0].flags, 0); /* no pod there has a right to it */
    assert_int_equal(less->gpu[1].flags, GPU_HELD);
    assert_string_equal(node_note_of(less, &less->gpu[0])->held, "env:w");
    const struct node *again = scene_with(scene, less, NULL, scene->pod[0]);
    assert_int_equal(again->gpu[0].flags, GPU_HELD);

    struct node_scene *other = node_scene_new();
    scene_hold(other, scene_add_gpu(other, "GPU-a", GPU_ABSENT), "process");
    scene_bind(other, "a", "GPU-a", 300);
    const struct node *absent = scene_node(other);
    assert_int_equal(absent->n_notes, 0);
    assert_int_equal(absent->gpu[0].flags, GPU_ABSENT);
    node_scene_free(other);
}

static void assert_corrupt(const struct node *node, const char *text)
{
    struct err err;

    assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
    assert_string_equal(err.text, text);
}

NODE_TEST(node_check__reports_notes_that_fit_no_gpu)
{
    static const struct {
        uint32_t at;
        const char *gpu;
        const char *held;
        const char *fault;
    } row[] = {
        {1, "GPU-a", "somebody", "node n1: it does not know who holds a GPU whole"},
        {1, "GPU-a", "", "node n1: it does not know who holds a GPU whole"},
        {1, "GPU-a", "pod:w", "node n1: a GPU is noted twice"},
        {1, "GPU-z", "pod:w", "node n1: a GPU that it does not show is noted"},
        {0, "GPU-z", "pod:w", "node n1: a GPU that it does not show is noted"},
    };
    struct node *node = held_node(scene, "pod:w", "process", 1);

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct gpu_note was = node->note[row[i].at];
        node->note[row[i].at] = (struct gpu_note){.gpu = atom(row[i].gpu), .held = row[i].held};
        assert_corrupt(node, row[i].fault);
        node->note[row[i].at] = was;
    }
    node->gpu[1].flags = 0;
    assert_corrupt(node, "node n1: GPU GPU-b: it is wrong about being held whole");
    node->gpu[1].flags = GPU_HELD;
    node->unnamed_gpus = 1;
    assert_corrupt(node, "node n1: its unnamed GPUs are not what its pods hold beyond those that "
                         "are named");
    node->unnamed_gpus = 0;
    node_assert_valid(node);
}

NODE_TEST(gone_node__keeps_only_charged_gpus)
{
    scene_add_gpus(scene, 2);
    scene->build.gone = true;
    scene_bind(scene, "a", "GPU-b", 300);
    const struct node *node = scene_node(scene);
    assert_true(node->gone);
    assert_int_equal(node->n_gpus, 1);
    assert_int_equal(node->gpu[0].flags, GPU_ABSENT);
    assert_int_equal(node->free_milli, 0);
}

NODE_TEST(node__saturates_at_absurd_amounts)
{
    scene_add_gpu(scene, "GPU-a", 0);
    for (int i = 0; i < 2; i++) {
        const struct share share = {
            .container = "main", .gpu = atom("GPU-a"), .milli = UINT32_MAX - 1, .mib = UINT32_MAX};
        struct allocation_facts facts = scene_facts(i == 0 ? "a" : "b", &share, 1);
        facts.origin = ORIGIN_ADOPTED;
        facts.state = i == 0 ? STATE_BOUND : STATE_RESERVED;
        scene_add(scene, allocation_new(&facts));
    }
    const struct node *node = scene_node(scene);
    assert_int_equal(node->gpu[0].flags, GPU_OVER);
    assert_int_equal(node->gpu[0].used_mib, UINT32_MAX);
    assert_int_equal(gpu_free(&node->gpu[0]), 0);
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

static void break_node(void *scene)
{
    struct node *node = scene_node(scene);
    node->free_milli++;
    node_assert_valid(node);
}

NODE_TEST(node_assert_valid__aborts_on_a_broken_node)
{
    scene_add_gpu(scene, "GPU-a", 0);
    node_assert_valid(scene_node(scene));
    assert_true(aborts(break_node, scene));
}

/* Faults beyond those that the ledger's check of stray writes covers. */
NODE_TEST(node_check__names_the_fault)
{
    const struct share share[] = {
        {.container = "main", .gpu = atom("GPU-a"), .milli = 300, .mib = 1},
        {.container = "main", .gpu = atom("GPU-b"), .milli = 300, .mib = 1}};
    const struct allocation_facts facts = scene_facts("a", share, ARRAY_LEN(share));
    scene_add_gpus(scene, 3);
    scene_add(scene, allocation_new(&facts));
    scene_bind(scene, "b", "GPU-a", 300);
    struct node *node = scene_node(scene);

    node->n_gpus = 1;
    assert_corrupt(node, "node n1: pod default/a (a): it holds a GPU that its node does not have");
    node->n_gpus = 3;
    node->gpu[2].flags = GPU_ABSENT;
    assert_corrupt(node, "node n1: GPU GPU-c: it is absent, and nobody holds it");
    node->gpu[2].flags = 0;
    node->gpu[1].alias = atom("n1/gpu-1");
    assert_corrupt(node, "node n1: GPU GPU-b: its alias has two forms, or the wrong one");
    node->gpu[1].alias = NULL;
    const struct allocation *second = node->allocation[1];
    node->allocation[1] = node->allocation[0];
    assert_corrupt(node, "node n1: pod default/a (a): it stands in the wrong place, or twice");
    node->allocation[1] = second;
    node_assert_valid(node);
}

static void assert_same_gpu(const struct gpu *a, const struct gpu *b)
{
    assert_ptr_equal(a->id, b->id);
    assert_true(gpu_alias_same(a, b));
    assert_int_equal(a->milli, b->milli);
    assert_int_equal(a->used_milli, b->used_milli);
    assert_int_equal(a->reserved_milli, b->reserved_milli);
    assert_int_equal(a->used_mib, b->used_mib);
    assert_int_equal(a->charges, b->charges);
    assert_int_equal(a->flags, b->flags);
}

static void assert_same_node(const struct node *a, const struct node *b)
{
    assert_int_equal(a->n_gpus, b->n_gpus);
    assert_int_equal(a->free_milli, b->free_milli);
    assert_int_equal(a->held_gpus, b->held_gpus);
    assert_int_equal(a->unplaced_milli, b->unplaced_milli);
    assert_int_equal(a->n_allocations, b->n_allocations);
    for (uint32_t i = 0; i < a->n_gpus; i++)
        assert_same_gpu(&a->gpu[i], &b->gpu[i]);
    for (uint32_t i = 0; i < a->n_allocations; i++)
        assert_ptr_equal(a->allocation[i], b->allocation[i]);
}

/* One draw per statement: a seed must replay on every compiler. */
static const struct allocation *draw_pod(uint64_t *seed, const char *uid)
{
    static const char *const on[] = {"GPU-a", "GPU-b", "GPU-c", "n1/gpu-1", "GPU-lost"};
    struct share share[2] = {{.container = "x"}, {.container = "y", .order = 1}};
    for (int i = 0; i < 2; i++) {
        share[i].gpu = atom(on[draw_below(seed, 5)]);
        share[i].milli = 50 * (1 + draw_below(seed, 8));
        share[i].mib = share[i].milli * 2;
        share[i].kind = (enum container_kind)draw_below(seed, 3);
    }
    struct allocation_facts facts = scene_facts(uid, share, draw_below(seed, 3));
    facts.origin = ORIGIN_ADOPTED;
    facts.state = draw_below(seed, 2) == 0 ? STATE_RESERVED : STATE_BOUND;
    facts.held_gpus = draw_below(seed, 20) == 0;
    facts.unplaced_milli = draw_below(seed, 20) == 0 ? 300 : 0;
    return allocation_new(&facts);
}

NODE_TEST(node_with__equals_a_node_built_anew)
{
    const char *env = getenv("NODE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 42;
    print_message("NODE_SEED=%llu\n", (unsigned long long)seed);

    scene_add_gpu(scene, "GPU-a", 0);
    scene_call(scene, scene_add_gpu(scene, "GPU-b", 0), "n1/gpu-1");
    scene_add_gpu(scene, "GPU-c", GPU_CORDONED);
    const struct node *node = node_new(&scene->build);
    uint32_t seen_over = 0;
    uint32_t seen_lost = 0;
    for (int step = 0; step < walk_steps(5000, 500); step++) {
        char uid[8];
        (void)snprintf(uid, sizeof uid, "u%u", draw_below(&seed, 12));
        const struct allocation *before = node_allocation(node, text_of(uid));
        const struct allocation *after = NULL;
        if (before == NULL || draw_below(&seed, 2) == 0)
            after = draw_pod(&seed, uid);
        struct node *next = node_with(node, before, after);
        node_unref(node);
        allocation_unref(after);
        node = next;
        node_assert_valid(node);

        struct node_build build = scene->build;
        build.n_allocations = node->n_allocations;
        build.allocation = node->allocation;
        const struct node *anew = node_new(&build);
        assert_same_node(node, anew);
        node_unref(anew);
        seen_over += (node->gpu[0].flags & GPU_OVER) != 0;
        seen_lost += node->n_gpus > 3;
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
                                        .n_gpus = 3,
                                        .gpu = facts};
    struct node *node = node_from_inventory(&inventory, NULL, atoms);
    assert_string_equal(node->name->text, "n1");
    assert_string_equal(node->uid->text, "uid-1");
    assert_int_equal(node->source, SOURCE_LABEL);
    assert_int_equal(node->problem, PROBLEM_MIG);
    assert_string_equal(node->problem_text->text, "MIG is on");
    assert_int_equal(node->n_gpus, 3);
    assert_ptr_equal(node->gpu[0].id, atom("GPU-a"));
    assert_true(gpu_alias_is(&node->gpu[0], node->name, TEXT("n1/gpu-0")));
    assert_ptr_equal(node->gpu[0].model, atom("A100"));
    assert_int_equal(node->gpu[0].milli, 500);
    assert_int_equal(node->gpu[0].mib, 100);
    assert_int_equal(node->gpu[0].flags, 0);
    assert_false(gpu_has_alias(&node->gpu[1]));
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
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if ((at->peers >> i & 1) != 0)
            strbuf_str(&names, node->gpu[i].id->text);
    assert_int_equal(at->peers >> node->n_gpus, 0);
    assert_string_equal(names.len > 0 ? names.data : "", peers);
    strbuf_done(&names);
}

NODE_TEST(peers__follow_their_gpus_when_indexes_change)
{
    /* c and d are absent, and d has no charge. */
    struct gpu *c = scene_add_gpu(scene, "c", GPU_ABSENT);
    scene_add_gpu(scene, "b", 0)->index = 3;
    scene_add_gpu(scene, "d", GPU_ABSENT);
    struct gpu *a = scene_add_gpu(scene, "a", 0);
    a->index = 1;
    c->peers = 1 << 1 | 1 << 2 | 1 << 0; /* b, d, and itself */
    a->peers = 1 << 1 | 1 << 2;          /* b, d; b does not say so */
    scene_bind(scene, "p", "c", 300);
    scene_bind(scene, "q", "stranger", 300);
    struct node *node = scene_node(scene);

    assert_string_equal(node->gpu[0].id->text, "a");
    assert_peers(node, "a", "b");
    assert_peers(node, "b", "ac");
    assert_peers(node, "c", "b");
    assert_peers(node, "stranger", "");

    struct node *without = scene_with(scene, node, scene->pod[0], NULL);
    assert_peers(without, "a", "b");
    assert_peers(without, "b", "a"); /* c went with its pod */
    const struct host host = {1, 1};
    struct node *with_host = node_with_host(without, &host);
    assert_peers(with_host, "b", "a");
    node_unref(with_host);
}

/* Pods may hold more GPUs than a node can show; peers are among the first. */
NODE_TEST(peers__exclude_gpus_beyond_the_limit)
{
    for (uint32_t i = 0; i <= GPUS_PER_NODE_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "GPU-%02u", i);
        /* GPU-00 is the last one, since it is absent. */
        scene_add_gpu(scene, name, i == 0 ? GPU_ABSENT : 0)->peers = UINT64_MAX;
    }
    scene_bind(scene, "p", "GPU-00", 300);
    struct node *node = scene_node(scene);
    assert_int_equal(node->n_gpus, GPUS_PER_NODE_MAX + 1);
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
}

/* A database may hold anything. */
NODE_TEST(peers__ignore_bits_without_a_gpu)
{
    static const struct {
        uint64_t peers[2];
        const char *of_a, *of_b;
    } row[] = {{{1 << 2, 0}, "", ""}, /* the first bit without a GPU */
               {{1 << 2, UINT64_MAX}, "b", "a"},
               {{0, 1}, "b", "a"}};
    scene_add_gpu(scene, "a", 0);
    scene_add_gpu(scene, "b", 0);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        scene->gpu[0].peers = row[i].peers[0];
        scene->gpu[1].peers = row[i].peers[1];
        const struct node *node = scene_node(scene);
        assert_peers(node, "a", row[i].of_a);
        assert_peers(node, "b", row[i].of_b);
    }
}

NODE_TEST(node_check__reports_a_one_sided_link)
{
    static const uint64_t wrong[][2] = {{2, 0}, {1, 0}, {4, 0}, {0, 1}, {2, 3}};
    struct err err;
    scene_add_gpu(scene, "a", 0);
    scene_add_gpu(scene, "b", 0);
    struct node *node = scene_node(scene);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        node->gpu[0].peers = wrong[i][0];
        node->gpu[1].peers = wrong[i][1];
        assert_int_equal(node_check(node, &err), -(int)ERR_CORRUPT);
        assert_non_null(strstr(err.text, "it is linked with a GPU that is not linked with it"));
        node->gpu[0].peers = 2;
        node->gpu[1].peers = 1;
        node_assert_valid(node);
    }
}

NODE_TEST(node_held_milli__sums_bound_reserved_and_unplaced)
{
    scene_add_gpus(scene, 2);
    assert_int_equal(node_held_milli(scene_node(scene)), 0);
    scene_add(scene, scene_pod("a", "GPU-a", 200, STATE_RESERVED));
    scene_bind(scene, "b", "GPU-b", 500);
    scene_bind(scene, "c", "GPU-c", 1000); /* an absent GPU */
    scene_adopt(scene, "d", 0, 40);
    assert_int_equal(node_held_milli(scene_node(scene)), 1740);
}

NODE_TEST(node_has_shares__is_true_when_a_pod_has_some)
{
    scene_add_gpus(scene, 2);
    const struct node *empty = scene_node(scene);
    assert_false(node_has_shares(empty));
    scene_add(scene, scene_pod("a", "GPU-a", 300, STATE_RESERVED));
    scene_bind(scene, "b", "GPU-b", 300);
    scene_adopt(scene, "c", 0, 1); /* on an unknown GPU */
    for (uint32_t i = 0; i < 3; i++)
        assert_true(node_has_shares(scene_with(scene, empty, NULL, scene->pod[i])));
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
