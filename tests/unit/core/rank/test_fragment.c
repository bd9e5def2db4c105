/* Fragments: the free GPU that the workload cannot use, by GPU. */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/rank/fragment.h"

#include "core/rank/policy_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

TEST(fragments__add_up_to_the_score_of_fgd)
{
    uint64_t seed = 3;

    for (int i = walk_steps(4000, 200); i > 0; i--) {
        struct workload *workload = draw_workload(&seed, 30);
        struct room room;
        struct remaining remaining;
        for (uint32_t gpus = 0; gpus < 9; gpus++) {
            uint64_t each[GPUS_PER_NODE_MAX];
            uint64_t sum = 0;
            draw_room_of(&seed, gpus, &room);
            measure_room(&room, workload, &remaining);
            fragments_of_remaining(workload, &remaining, each);
            for (uint32_t g = 0; g < remaining.n_gpus; g++)
                sum += each[g];
            assert_int_equal(sum, fgd_fragment(workload, &remaining));
        }
        workload_unref(workload);
    }
}

/* An A100, a T4 of 400 milli, a cordoned A100, and an A100 of 190 milli; all free. */
static struct node *four_gpus(void)
{
    struct gpu_facts gpu[] = {
        {.id = "GPU-a", .index = 0, .milli = 1000, .model = "A100", .numa = -1, .healthy = true},
        {.id = "GPU-b", .index = 1, .milli = 400, .model = "T4", .numa = -1, .healthy = true},
        {.id = "GPU-c",
         .index = 2,
         .milli = 1000,
         .model = "A100",
         .healthy = true,
         .cordoned = true},
        {.id = "GPU-d", .index = 3, .milli = 190, .model = "A100", .numa = -1, .healthy = true}};
    const struct inventory inventory = {
        .node = "n", .uid = "n", .source = SOURCE_ANNOTATION, .n_gpus = 4, .gpu = gpu};

    return node_from_inventory(&inventory, NULL, atoms);
}

static void assert_fragments(const struct node *node, const struct workload_class *class,
                             uint32_t classes, const uint32_t expected[4])
{
    struct workload *workload = workload_new(class, classes);
    struct fragments *fragments = fragments_new(workload);
    uint32_t milli[GPUS_PER_NODE_MAX];

    for (int again = 0; again < 2; again++) {
        memset(milli, 0xFF, sizeof milli); /* all of it is written */
        fragments_of_node(fragments, node, milli);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(milli[i], expected[i]);
        for (uint32_t i = 4; i < GPUS_PER_NODE_MAX; i++)
            assert_int_equal(milli[i], 0);
    }
    fragments_free(fragments);
    workload_unref(workload);
}

TEST(fragments__depend_on_size_model_gpus_and_cpu)
{
    const char *a100[] = {"A100"};
    struct node *node = four_gpus();
    struct workload_class class = {.parts = 1, .milli = 190, .count = 5};

    assert_fragments(node, &class, 1, (const uint32_t[]){0, 0, 0, 0});
    class.milli = 191;
    assert_fragments(node, &class, 1, (const uint32_t[]){0, 0, 0, 190});
    class.n_models = 1;
    class.model = a100;
    assert_fragments(node, &class, 1, (const uint32_t[]){0, 400, 0, 190});
    class.parts = 2; /* of A100s, only one has room for it */
    assert_fragments(node, &class, 1, (const uint32_t[]){1000, 400, 0, 190});
    class = (struct workload_class){.parts = 0, .count = 1};
    assert_fragments(node, &class, 1, (const uint32_t[]){1000, 400, 0, 190});
    class = (struct workload_class){.parts = 1, .milli = 100, .count = 1, .host = {4000, 0}};
    struct node *full = node_with_host(node, &(struct host){3999, 0});
    assert_fragments(full, &class, 1, (const uint32_t[]){1000, 400, 0, 190});
    node_unref(full);
    full = node_with_host(node, &(struct host){4000, 0});
    assert_fragments(full, &class, 1, (const uint32_t[]){0, 0, 0, 0});
    node_unref(full);
    node_unref(node);
}

TEST(fragments__weigh_each_shape_by_its_count)
{
    const struct workload_class class[] = {{.parts = 1, .milli = 100, .count = 2},
                                           {.parts = 1, .milli = 300, .count = 3},
                                           {.parts = 1, .milli = 500, .count = 1}};
    struct node *node = four_gpus();

    /* A sixth of the pods cannot use the T4, two thirds not the smallest GPU: 66.7 and 126.7. */
    assert_fragments(node, class, 3, (const uint32_t[]){0, 67, 0, 127});
    const struct workload_class two[] = {{.parts = 1, .milli = 191, .count = 4},
                                         {.parts = 1, .milli = 100, .count = 3}};
    assert_fragments(node, two, 2, (const uint32_t[]){0, 0, 0, 109}); /* 108.57 */
    node_unref(node);
}

TEST(fragments__are_none_without_a_workload)
{
    struct node *node = four_gpus();

    assert_fragments(node, NULL, 0, (const uint32_t[]){0, 0, 0, 0});
    node_unref(node);
    fragments_free(NULL);
}

TEST(fragments_new_for__takes_the_workload_of_the_snapshot)
{
    const struct workload_class class = {.parts = 1, .milli = 500, .count = 1};
    struct workload *workload = workload_new(&class, 1);
    struct policy_context *context = policy_context_new(POLICY_BINPACK, 0, workload);
    struct policy_context *without = policy_context_new(POLICY_BINPACK, 0, NULL);
    struct node *node = four_gpus();
    uint32_t milli[GPUS_PER_NODE_MAX];

    assert_null(fragments_new_for(&(struct snapshot){.context = NULL}));
    assert_null(fragments_new_for(&(struct snapshot){.context = without}));
    struct fragments *fragments = fragments_new_for(&(struct snapshot){.context = context});
    fragments_of_node(fragments, node, milli);
    assert_int_equal(milli[1], 400);
    fragments_of_node(NULL, node, milli);
    assert_int_equal(milli[1], 0);
    fragments_free(fragments);
    node_unref(node);
    policy_context_unref(context);
    policy_context_unref(without);
    workload_unref(workload);
}

TEST(fragment_at__is_zero_beyond_the_last_gpu)
{
    const uint32_t milli[GPUS_PER_NODE_MAX] = {[0] = 1, [GPUS_PER_NODE_MAX - 1] = 2};
    assert_int_equal(fragment_at(milli, 0), 1);
    assert_int_equal(fragment_at(milli, GPUS_PER_NODE_MAX - 1), 2);
    assert_int_equal(fragment_at(milli, GPUS_PER_NODE_MAX), 0);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
