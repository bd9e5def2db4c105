/*
 * Classes of pods, and their typical shapes, sequences and scarce classes.
 */
#include <string.h>

#include "milligpu/core/rules/workload.h"

#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static const char *t4[] = {"T4"};
static const char *a100[] = {"A100"};
static const char *both[] = {"T4", "A100"};
static const char *turned[] = {"A100", "T4"};
static const char *half[] = {"T4", "H100"};

/*
 * Classes
 */

TEST(workload_class__is_that_of_the_largest_want)
{
    struct want want[] = {{.container = "a", .parts = 1, .milli = 900},
                          {.container = "b", .parts = 2, .milli = 500},
                          {.container = "c", .parts = 1, .milli = 1000}};
    const struct request request = {.n_wants = 3,
                                    .want = want,
                                    .n_models = 2,
                                    .model = both,
                                    .memory_mib = 77,
                                    .host = {4000, 512}};
    struct workload_class class;

    workload_class_of(&request, &class);
    assert_int_equal(class.parts, 2); /* the first of equals */
    assert_int_equal(class.milli, 500);
    assert_int_equal(class.share_mib, 77);
    assert_int_equal(class.host.cpu_milli, 4000);
    assert_int_equal(class.host.memory_mib, 512);
    assert_int_equal(class.n_models, 2);
    assert_ptr_equal(class.model, both);
    assert_int_equal(class.count, 1);
    want[0].parts = 2; /* 1800 milli */
    workload_class_of(&request, &class);
    assert_int_equal(class.parts, 2);
    assert_int_equal(class.milli, 900);
    want[2].milli = 601;
    want[2].parts = 3;
    workload_class_of(&request, &class);
    assert_int_equal(class.parts, 3);
    assert_int_equal(class.milli, 601);
}

TEST(workload_class__has_no_gpus_without_wants)
{
    const struct request request = {
        .n_models = 1, .model = t4, .memory_mib = 5, .host = {1, 2}, .whole = 1};
    struct workload_class class;

    workload_class_of(&request, &class);
    assert_int_equal(class.parts, 0);
    assert_int_equal(class.milli, 0);
    assert_int_equal(class.share_mib, 0);
    assert_int_equal(class.n_models, 0);
    assert_int_equal(class.host.cpu_milli, 1);
    assert_int_equal(class.host.memory_mib, 2);
    assert_int_equal(class.count, 1);
}

TEST(workload_alike__compares_the_request_not_the_count)
{
    const struct workload_class class = {.host = {1, 2},
                                         .parts = 1,
                                         .milli = 4,
                                         .share_mib = 5,
                                         .n_models = 2,
                                         .model = both,
                                         .count = 1};
    struct workload_class other[9];
    for (uint32_t i = 0; i < ARRAY_LEN(other); i++)
        other[i] = class;
    other[0].host.cpu_milli++;
    other[1].host.memory_mib++;
    other[2].parts++;
    other[3].milli++;
    other[4].share_mib++;
    other[5].n_models = 1;
    other[6].model = turned;
    other[7].model = half;
    other[8].count++;
    for (uint32_t i = 0; i < ARRAY_LEN(other); i++)
        assert_int_equal(workload_alike(&class, &other[i]), i == 8);
    /* Without GPUs only the host matters. */
    const struct workload_class none = {.host = {1, 2}, .count = 1};
    struct workload_class same = other[0];
    same.host = none.host;
    same.parts = 0;
    assert_true(workload_alike(&none, &same));
    same.host.memory_mib++;
    assert_false(workload_alike(&none, &same));
}

TEST(workload__copies_classes_and_models)
{
    char first[] = "T4";
    char second[] = "A100-SXM4-80GB";
    const char *model[] = {first, second};
    struct workload_class class[] = {
        {.host = {1, 2},
         .parts = 3,
         .milli = 4,
         .share_mib = 5,
         .n_models = 1,
         .model = t4,
         .count = 6},
        {.host = {7, 8}, .count = 9},
        {.parts = 1, .milli = 10, .n_models = 2, .model = model, .count = 11},
    };
    struct workload *workload = workload_new(class, ARRAY_LEN(class));

    memset(first, 'x', sizeof first - 1);
    memset(second, 'x', sizeof second - 1);
    assert_int_equal(workload->n_classes, 3);
    assert_int_equal(workload->count, 26);
    assert_int_equal(workload->gpu_milli, 6 * 3 * 4 + 11 * 10);
    assert_true(workload_alike(&workload->class[0], &class[0]));
    assert_true(workload_alike(&workload->class[1], &class[1]));
    assert_ptr_not_equal(workload->class[0].model[0], t4[0]);
    assert_string_equal(workload->class[2].model[0], "T4");
    assert_string_equal(workload->class[2].model[1], "A100-SXM4-80GB");
    assert_int_equal(workload->class[0].count, 6);
    assert_int_equal(workload->class[2].count, 11);
    workload_unref(workload);
}

TEST(workload__lives_until_its_last_reference)
{
    const struct workload_class class[] = {{.parts = 1, .milli = 10, .count = 1}};
    struct workload *workload = workload_new(class, 1);

    assert_int_equal(workload->refs, 1);
    assert_ptr_equal(workload_ref(workload), workload);
    assert_int_equal(workload->refs, 2);
    workload_unref(workload);
    assert_int_equal(workload->refs, 1);
    assert_int_equal(workload->class[0].milli, 10);
    workload_unref(workload);
    workload_unref(NULL);
}

TEST(workload__without_gpus_has_no_sequences)
{
    struct workload *workload = workload_new(NULL, 0);

    assert_int_equal(workload->n_classes, 0);
    assert_int_equal(workload->count, 0);
    assert_int_equal(workload->gpu_milli, 0);
    assert_int_equal(workload->n_typical, 0);
    assert_int_equal(workload->typical_count, 0);
    assert_int_equal(workload->n_sequences, 0);
    assert_int_equal(workload->n_scarce, 0);
    workload_unref(workload);
    const struct workload_class class = {.host = {1, 0}, .count = 3};
    workload = workload_new(&class, 1);
    assert_int_equal(workload->n_typical, 1);
    assert_int_equal(workload->n_sequences, 0);
    assert_int_equal(workload->gpu_milli, 0);
    workload_unref(workload);
}

/*
 * Typical shapes
 */

TEST(typical_shapes__ignore_host_memory_and_share_memory)
{
    const struct workload_class class[] = {
        {.host = {1, 1}, .parts = 1, .milli = 500, .count = 10},
        {.host = {1, 1}, .parts = 1, .milli = 500, .count = 50, .n_models = 1, .model = t4},
        {.host = {1, 2}, .parts = 1, .milli = 500, .count = 20},
        {.host = {1, 1}, .parts = 1, .milli = 500, .count = 30, .share_mib = 9},
        {.host = {2, 1}, .parts = 1, .milli = 500, .count = 40},
        {.host = {1, 1}, .parts = 2, .milli = 500, .count = 70},
        {.host = {1, 1}, .parts = 1, .milli = 501, .count = 80},
        {.host = {1, 1}, .parts = 1, .milli = 500, .count = 90, .n_models = 1, .model = a100},
        {.host = {1, 1}, .count = 100, .milli = 5},
        {.host = {1, 2}, .count = 1, .milli = 6},
    };
    static const struct workload_typical expected[] = {
        {.class = 8, .cpu_milli = 1, .count = 101},
        {.class = 7, .cpu_milli = 1, .parts = 1, .milli = 500, .count = 90},
        {.class = 6, .cpu_milli = 1, .parts = 1, .milli = 501, .count = 80},
        {.class = 5, .cpu_milli = 1, .parts = 2, .milli = 500, .count = 70},
        {.class = 0, .cpu_milli = 1, .parts = 1, .milli = 500, .count = 60},
        {.class = 1, .cpu_milli = 1, .parts = 1, .milli = 500, .count = 50},
        {.class = 4, .cpu_milli = 2, .parts = 1, .milli = 500, .count = 40},
    };
    struct workload *workload = workload_new(class, ARRAY_LEN(class));

    assert_int_equal(workload->n_typical, ARRAY_LEN(expected));
    assert_memory_equal(workload->typical, expected, sizeof expected);
    assert_int_equal(workload->typical_count, 491);
    workload_unref(workload);
}

static uint32_t typicals_of(uint32_t first, uint32_t second, uint32_t third)
{
    const struct workload_class class[] = {
        {.parts = 1, .milli = 1, .count = first},
        {.parts = 1, .milli = 2, .count = second},
        {.parts = 1, .milli = 3, .count = third},
    };
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    const uint32_t typicals = workload->n_typical;

    uint64_t covered = 0;
    for (uint32_t t = 0; t < typicals; t++)
        covered += workload->typical[t].count;
    assert_int_equal(workload->typical_count, covered);
    workload_unref(workload);
    return typicals;
}

TEST(typical_shapes__cover_95_percent_of_the_pods)
{
    assert_int_equal(typicals_of(95, 3, 2), 1);
    assert_int_equal(typicals_of(94, 3, 3), 2);
    assert_int_equal(typicals_of(94, 1, 5), 2);
    assert_int_equal(typicals_of(949, 48, 3), 2);
    assert_int_equal(typicals_of(1, 1, 1), 3);
    assert_int_equal(typicals_of(WORKLOAD_COUNT_MAX - 2, 1, 1), 1);
}

/* Chooses the commonest remaining shape, the first of equals, until enough pods are covered. */
static void check_typicals(const struct workload *workload)
{
    uint32_t count[WORKLOAD_CLASSES_MAX] = {0};
    uint32_t left = workload->n_classes;
    uint64_t covered = 0;
    uint32_t t = 0;

    for (uint32_t i = 0; i < workload->n_classes; i++) {
        uint32_t first = 0;
        for (;; first++) {
            struct workload_class a = workload->class[first];
            struct workload_class b = workload->class[i];
            a.host.memory_mib = b.host.memory_mib = 0;
            a.share_mib = b.share_mib = 0;
            if (workload_alike(&a, &b))
                break;
        }
        count[first] += workload->class[i].count;
        left -= first != i;
    }
    while (covered * 100 < workload->count * 95) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < workload->n_classes; i++)
            best = count[i] > count[best] ? i : best;
        assert_true(t < workload->n_typical);
        assert_int_equal(workload->typical[t].class, best);
        assert_int_equal(workload->typical[t].count, count[best]);
        covered += count[best];
        count[best] = 0;
        t++;
    }
    assert_int_equal(workload->n_typical, t);
    assert_true(t <= left);
    assert_int_equal(workload->typical_count, covered);
}

/*
 * Sequences
 */

static void check_sequences(const struct workload *workload)
{
    for (uint32_t s = 0; s < workload->n_sequences; s++)
        for (uint32_t i = 0; i < WORKLOAD_LENGTH; i++) {
            assert_in_range(workload->sequence[s][i], 0, workload->n_classes - 1);
            const struct workload_class *class = &workload->class[workload->sequence[s][i]];
            assert_true(class->parts > 0);
            for (uint32_t z = 0; z < WORKLOAD_SIZES; z++)
                assert_int_equal(workload->small[s][z][i / 64] >> i % 64 & 1,
                                 class->milli < (z + 1) * WORKLOAD_SIZE_MILLI);
        }
}

TEST(workload__agrees_with_its_classes)
{
    uint64_t seed = 7;
    for (int i = walk_steps(1000, 100); i > 0; i--) {
        struct workload *workload = draw_workload(&seed, i % 20 == 0 ? WORKLOAD_CLASSES_MAX : 40);
        check_typicals(workload);
        check_sequences(workload);
        workload_unref(workload);
    }
}

TEST(sequences__draw_gpu_classes_by_their_counts)
{
    const struct workload_class class[] = {
        {.host = {1, 0}, .count = 5000},        {.parts = 1, .milli = 1, .count = 300},
        {.host = {2, 0}, .count = 5000},        {.parts = 1, .milli = 2, .count = 600},
        {.parts = 1, .milli = 3, .count = 100},
    };
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    uint32_t drawn[ARRAY_LEN(class)] = {0};

    assert_int_equal(workload->n_sequences, WORKLOAD_SEQUENCES);
    for (uint32_t s = 0; s < WORKLOAD_SEQUENCES; s++)
        for (uint32_t i = 0; i < WORKLOAD_LENGTH; i++)
            drawn[workload->sequence[s][i]]++;
    assert_int_equal(drawn[0] + drawn[2], 0);
    assert_in_range(drawn[1], 400, 560);
    assert_in_range(drawn[3], 880, 1040);
    assert_in_range(drawn[4], 110, 210);
    workload_unref(workload);
}

/* Placements must not differ between processes, times or versions. */
TEST(sequences__never_change_for_the_same_classes)
{
    struct workload_class class[100];
    for (uint32_t i = 0; i < ARRAY_LEN(class); i++)
        class[i] = (struct workload_class){.parts = 1, .milli = 1 + i, .count = 1};
    struct workload *workload = workload_new(class, ARRAY_LEN(class));
    static const uint16_t first[] = {65, 19, 90, 35, 61, 48, 45, 33, 20, 50, 37, 70};
    static const uint16_t last[] = {42, 43, 87, 37, 13, 92, 5, 23, 35, 36, 26, 24};

    assert_memory_equal(workload->sequence[0], first, sizeof first);
    assert_memory_equal(
        &workload->sequence[WORKLOAD_SEQUENCES - 1][WORKLOAD_LENGTH - ARRAY_LEN(last)], last,
        sizeof last);
    workload_unref(workload);
}

/*
 * Scarce classes
 */

TEST(scarce_classes__are_the_commonest_of_several_gpus)
{
    static const struct workload_class class[] = {
        {.parts = 1, .milli = 1, .count = 900}, {.parts = 2, .milli = 1, .count = 5},
        {.parts = 8, .milli = 1, .count = 7},   {.host = {1, 1}, .count = 900},
        {.parts = 3, .milli = 1, .count = 5},   {.parts = 4, .milli = 1, .count = 7},
        {.parts = 5, .milli = 1, .count = 6},
    };
    static const uint16_t expected[] = {2, 5, 6, 1, 4};
    struct workload *workload = workload_new(class, ARRAY_LEN(class));

    assert_int_equal(workload->n_scarce, ARRAY_LEN(expected));
    assert_memory_equal(workload->scarce, expected, sizeof expected);
    workload_unref(workload);
}

/* The WORKLOAD_SCARCE_MAX largest counts in order, the first of equals first. */
static void check_scarces(const uint32_t *count, uint32_t classes)
{
    struct workload_class class[WORKLOAD_CLASSES_MAX] = {0};
    bool used[WORKLOAD_CLASSES_MAX] = {false};
    const uint32_t scarces = classes < WORKLOAD_SCARCE_MAX ? classes : WORKLOAD_SCARCE_MAX;

    for (uint32_t i = 0; i < classes; i++)
        class[i] = (struct workload_class){.parts = 2, .milli = 1 + i, .count = count[i]};
    struct workload *workload = workload_new(class, classes);
    assert_int_equal(workload->n_scarce, scarces);
    for (uint32_t s = 0; s < scarces; s++) {
        uint32_t best = classes;
        for (uint32_t i = 0; i < classes; i++)
            if (!used[i] && (best == classes || count[i] > count[best]))
                best = i;
        used[best] = true;
        assert_int_equal(workload->scarce[s], best);
    }
    workload_unref(workload);
}

TEST(scarce_classes__leave_the_rarest_out)
{
    uint64_t seed = 8;
    for (int i = walk_steps(500, 50); i > 0; i--) {
        uint32_t count[80];
        const uint32_t classes = draw_below(&seed, ARRAY_LEN(count) + 1);
        for (uint32_t c = 0; c < classes; c++)
            count[c] = 1 + draw_below(&seed, i % 2 == 0 ? 5 : 1000);
        check_scarces(count, classes);
    }
}
