/* How many more pods of a shape fit on a node, compared with putting them there one by one. */
#include "milligpu/base/alloc.h"

#include "core/answer/defrag_shapes.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

/* GPUs of these milli, all free. */
static struct node *node_of(const uint32_t *milli, uint32_t gpus)
{
    struct gpu_facts gpu[GPUS_PER_NODE_MAX];
    char id[GPUS_PER_NODE_MAX][8];

    for (uint32_t i = 0; i < gpus; i++) {
        id[i][0] = (char)('a' + i);
        id[i][1] = '\0';
        gpu[i] = (struct gpu_facts){.id = id[i],
                                    .index = i,
                                    .milli = milli[i],
                                    .model = i % 2 == 0 ? "A100" : "T4",
                                    .numa = -1,
                                    .healthy = true};
    }
    const struct inventory inventory = {
        .node = "n", .uid = "n", .source = SOURCE_ANNOTATION, .n_gpus = gpus, .gpu = gpu};
    return node_from_inventory(&inventory, NULL, atoms);
}

static uint64_t fits(const struct workload_class *class, const struct node *node)
{
    struct workload *workload = workload_new(class, 1);
    struct shape_counter *counter = xcalloc(1, sizeof *counter);
    uint64_t count[DEFRAG_SHAPES] = {7, 8, 9};

    shape_counter_init(counter, workload);
    assert_int_equal(counter->n_shapes, 1);
    assert_int_equal(shape_counter_class(counter, 0)->milli, class->milli);
    shape_counter_add(counter, node, count);
    assert_int_equal(count[1], 8);
    assert_int_equal(count[2], 9);
    shape_counter_done(counter);
    xfree(counter);
    workload_unref(workload);
    return count[0] - 7;
}

TEST(shape__fits_as_often_as_the_free_milli_allow)
{
    struct node *node = node_of((const uint32_t[]){1000, 400, 99}, 3);
    static const char *t4[] = {"T4"};
    struct workload_class class = {.parts = 1, .milli = 100, .count = 1};

    assert_int_equal(fits(&class, node), 14);
    class.milli = 300;
    assert_int_equal(fits(&class, node), 4);
    class.n_models = 1;
    class.model = t4;
    assert_int_equal(fits(&class, node), 1);
    class.milli = 401;
    assert_int_equal(fits(&class, node), 0);
    node_unref(node);
}

TEST(shape__of_several_gpus_takes_a_part_of_each)
{
    struct node *node = node_of((const uint32_t[]){1000, 300, 200}, 3);
    struct workload_class class = {.parts = 2, .milli = 100, .count = 1};

    assert_int_equal(fits(&class, node), 5); /* 10 parts, 3 and 2: each pod needs one of the 5 */
    class.parts = 3;
    assert_int_equal(fits(&class, node), 2);
    class.parts = 4;
    assert_int_equal(fits(&class, node), 0);
    node_unref(node);
    node = node_of((const uint32_t[]){300, 300, 300}, 3);
    class.parts = 2;
    assert_int_equal(fits(&class, node), 4); /* of 9 parts one is left */
    node_unref(node);
}

TEST(shape__needs_cpu_for_each_pod)
{
    static const struct {
        uint32_t host_milli, class_milli;
        uint64_t fits;
    } row[] = {{3999, 1000, 3}, {999, 1000, 0}, {999, 0, 10},
               {999, 1, 10},    {3, 1, 3},      {HOST_UNKNOWN, HOST_UNKNOWN / 2, 10}};
    struct node *bare = node_of((const uint32_t[]){1000}, 1);
    struct workload_class class = {.parts = 1, .milli = 100, .count = 1, .host = {1000, 0}};

    assert_int_equal(fits(&class, bare), 10); /* the host is unknown */
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct host host = {row[i].host_milli, 0};
        struct node *node = node_with_host(bare, &host);
        class.host.cpu_milli = row[i].class_milli;
        assert_int_equal(fits(&class, node), row[i].fits);
        node_unref(node);
    }
    node_unref(bare);
}

TEST(shape_counter__has_the_3_most_frequent_shapes_with_gpus)
{
    const struct workload_class class[] = {{.parts = 1, .milli = 100, .count = 10},
                                           {.parts = 0, .count = 50},
                                           {.parts = 2, .milli = 300, .count = 40},
                                           {.parts = 1, .milli = 500, .count = 30},
                                           {.parts = 1, .milli = 700, .count = 20}};
    struct node *node = node_of((const uint32_t[]){1000, 400}, 2);
    struct shape_counter *counter = xcalloc(1, sizeof *counter);
    uint64_t count[DEFRAG_SHAPES] = {0};

    for (uint32_t classes = 1; classes <= ARRAY_LEN(class); classes++) {
        static const uint32_t shapes[] = {0, 1, 1, 2, 3, 3};
        struct workload *workload = workload_new(class, classes);
        shape_counter_done(counter);
        shape_counter_init(counter, workload);
        assert_int_equal(counter->n_shapes, shapes[classes]);
        workload_unref(workload);
    }
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    shape_counter_init(counter, workload);
    for (int i = 0; i < 2; i++)
        shape_counter_add(counter, node, count);
    assert_int_equal(shape_counter_class(counter, 0)->milli, 300);
    assert_int_equal(shape_counter_class(counter, 1)->milli, 500);
    assert_int_equal(shape_counter_class(counter, 2)->milli, 700);
    assert_int_equal(count[0], 2 * 1);
    assert_int_equal(count[1], 2 * 2);
    assert_int_equal(count[2], 2 * 1);
    workload_unref(workload);
    shape_counter_done(counter);
    xfree(counter);
    node_unref(node);
}

/* Each pod takes its parts from the GPUs with the most free milli. */
static uint64_t put_one_by_one(const uint32_t *milli, uint32_t gpus, uint32_t parts, uint32_t each)
{
    uint32_t left[8];

    for (uint32_t i = 0; i < gpus; i++)
        left[i] = milli[i];
    for (uint64_t pods = 0;; pods++) {
        bool taken[8] = {false};
        for (uint32_t p = 0; p < parts; p++) {
            uint32_t best = gpus;
            for (uint32_t i = 0; i < gpus; i++)
                if (!taken[i] && left[i] >= each && (best == gpus || left[i] > left[best]))
                    best = i;
            if (best == gpus)
                return pods;
            taken[best] = true;
            left[best] -= each;
        }
    }
}

TEST(shape__fits_as_often_as_one_by_one)
{
    uint64_t seed = 5;

    for (int i = walk_steps(2000, 300); i > 0; i--) {
        uint32_t milli[8];
        const uint32_t gpus = 1 + draw_below(&seed, 8);
        const struct workload_class class = {
            .parts = 1 + draw_below(&seed, 5), .milli = 20 + draw_below(&seed, 400), .count = 1};
        for (uint32_t g = 0; g < gpus; g++)
            milli[g] = 1 + draw_below(&seed, 1000);
        struct node *node = node_of(milli, gpus);
        assert_int_equal(fits(&class, node), put_one_by_one(milli, gpus, class.parts, class.milli));
        node_unref(node);
    }
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
