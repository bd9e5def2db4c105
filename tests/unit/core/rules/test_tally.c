/*
 * The tally of a workload: pods counted by class, with weights that are halved from time to time.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/rules/tally.h"

#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static void tally_freep(struct tally **tally)
{
    tally_free(*tally);
}

static void workload_unrefp(struct workload **workload)
{
    workload_unref(*workload);
}

static void count_with(struct tally *tally, uint32_t milli, uint32_t cpu, const char *model)
{
    struct want want = {.container = "c", .parts = 1, .milli = milli};
    const struct request request = {
        .n_wants = 1, .want = &want, .host = {cpu, 0}, .n_models = model != NULL, .model = &model};

    tally_count(tally, &request);
}

static void count(struct tally *tally, uint32_t milli, uint32_t pods)
{
    for (uint32_t i = 0; i < pods; i++)
        count_with(tally, milli, 0, NULL);
}

/* The sum over all classes of one part of this size. */
static uint32_t weight_of(const struct tally *tally, uint32_t milli)
{
    uint32_t weight = 0;

    for (uint32_t i = 0; i < tally_classes(tally); i++) {
        const struct workload_class *class = tally_class(tally, i);
        if (class->parts == 1 && class->milli == milli)
            weight += class->count;
    }
    return weight;
}

TEST(tally__begins_with_a_common_workload)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    assert_int_equal(tally_pods(tally), 0);
    assert_int_equal(tally_classes(tally), 6);
    assert_int_equal(weight_of(tally, 1000), 4);
    assert_int_equal(weight_of(tally, 500), 2);
    assert_int_equal(weight_of(tally, 250), 2);
    CLEANUP(workload_unrefp) struct workload *workload = tally_workload(tally);
    assert_int_equal(workload->count, 11);
    assert_true(workload->count < TALLY_WEIGHT); /* one pod says more than all of it */
    assert_int_equal(workload->n_scarce, 3);     /* pods of 2, 4 and 8 GPUs are protected */
}

TEST(tally__counts_each_pod_in_its_class)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    count(tally, 300, 2);
    count(tally, 500, 1);
    count_with(tally, 300, 4000, NULL);
    count_with(tally, 300, 0, "T4");
    assert_int_equal(tally_pods(tally), 5);
    assert_int_equal(tally_classes(tally), 9);
    assert_int_equal(weight_of(tally, 500), 2 + TALLY_WEIGHT);
    const struct workload_class *class = tally_class(tally, 6);
    assert_int_equal(class->count, 2 * TALLY_WEIGHT);
    assert_int_equal(class->n_models, 0);
    assert_null(class->model);
    class = tally_class(tally, 7); /* in the order in which they came */
    assert_int_equal(class->host.cpu_milli, 4000);
    assert_int_equal(class->count, TALLY_WEIGHT);
    class = tally_class(tally, 8);
    assert_int_equal(class->n_models, 1);
    assert_string_equal(class->model[0], "T4");
}

TEST(cold_start__is_forgotten_after_a_few_pods)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    count(tally, 500, 1);
    count(tally, 300, TALLY_COLD - 2);
    assert_int_equal(tally_classes(tally), 7);
    count(tally, 300, 1);
    assert_int_equal(tally_classes(tally), 2);
    assert_int_equal(weight_of(tally, 500), TALLY_WEIGHT);
    assert_int_equal(weight_of(tally, 300), (TALLY_COLD - 1) * TALLY_WEIGHT);
    count(tally, 250, 1);
    assert_int_equal(weight_of(tally, 250), TALLY_WEIGHT);
}

TEST(tally__halves_old_weights_and_forgets_them)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    count(tally, 500, 1);
    count(tally, 250, 1);
    count(tally, 300, TALLY_HALF - 3);
    assert_int_equal(weight_of(tally, 300), (TALLY_HALF - 3) * TALLY_WEIGHT);
    count_with(tally, 300, 1, NULL); /* of another class */
    assert_int_equal(weight_of(tally, 300), (TALLY_HALF - 2) * TALLY_WEIGHT / 2);
    assert_int_equal(weight_of(tally, 500), TALLY_WEIGHT / 2);
    assert_int_equal(tally_classes(tally), 4);
    count(tally, 700, 3 * TALLY_HALF);
    assert_int_equal(weight_of(tally, 500), 1);
    assert_int_equal(weight_of(tally, 250), 1);
    assert_int_equal(tally_classes(tally), 5);
    count(tally, 700, TALLY_HALF);
    assert_int_equal(weight_of(tally, 500), 0);
    assert_int_equal(weight_of(tally, 250), 0);
    assert_int_equal(weight_of(tally, 300), (TALLY_HALF - 3) * TALLY_WEIGHT / 32);
    assert_int_equal(tally_classes(tally), 2);
    assert_int_equal(tally_pods(tally), 5 * TALLY_HALF);
}

TEST(tally__forgets_the_rarest_class_when_full)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    count(tally, 100, TALLY_COLD);
    for (uint32_t cpu = 1; tally_classes(tally) < WORKLOAD_CLASSES_MAX; cpu++)
        count_with(tally, 100, cpu, NULL);
    count_with(tally, 100, 1, NULL); /* the only one counted twice */
    for (uint32_t i = 0; i < 3; i++)
        count_with(tally, 900, i, NULL);
    assert_int_equal(tally_classes(tally), WORKLOAD_CLASSES_MAX);
    assert_int_equal(tally_class(tally, 0)->count, TALLY_COLD * TALLY_WEIGHT);
    assert_int_equal(tally_class(tally, 1)->host.cpu_milli, 1);
    /* The first of equals was dropped. */
    assert_int_equal(tally_class(tally, 2)->host.cpu_milli, 5);
    assert_int_equal(tally_class(tally, WORKLOAD_CLASSES_MAX - 1)->milli, 900);
    assert_int_equal(tally_class(tally, WORKLOAD_CLASSES_MAX - 1)->host.cpu_milli, 2);
}

/* The number of pods after which another workload is due. */
static uint64_t pods_until_due(struct tally *tally)
{
    const uint64_t before = tally_pods(tally);

    workload_unref(tally_workload(tally));
    assert_false(tally_is_due(tally));
    while (!tally_is_due(tally))
        count(tally, 300, 1);
    return tally_pods(tally) - before;
}

TEST(tally_is_due__often_at_first_and_seldom_later)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    assert_true(tally_is_due(tally)); /* there was none yet */
    assert_int_equal(pods_until_due(tally), TALLY_STEP_MIN);
    assert_int_equal(pods_until_due(tally), TALLY_STEP_MIN);
    assert_int_equal(pods_until_due(tally), TALLY_STEP_MIN);
    assert_int_equal(pods_until_due(tally), 3);
    count(tally, 300, 91);
    assert_int_equal(pods_until_due(tally), 50);
    count(tally, 300, 4 * TALLY_STEP_MAX);
    assert_int_equal(pods_until_due(tally), TALLY_STEP_MAX);
}

TEST(tally_workload__fits_a_full_window)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    count(tally, 300, 40 * TALLY_HALF - 1);
    CLEANUP(workload_unrefp) struct workload *workload = tally_workload(tally);
    assert_true(workload->count > TALLY_SUM_MAX - 3 * TALLY_WEIGHT);
    assert_true(workload->count <= TALLY_SUM_MAX);
}

/*
 * Stored rows
 */

static struct tally_rows rows_of(const struct tally *tally)
{
    return (struct tally_rows){
        .pods = tally_pods(tally),
        .n_classes = tally_classes(tally),
        .class = tally_class(tally, 0), /* an array */
    };
}

static void assert_same_tally(const struct tally *a, const struct tally *b)
{
    assert_int_equal(tally_pods(a), tally_pods(b));
    assert_int_equal(tally_classes(a), tally_classes(b));
    for (uint32_t i = 0; i < tally_classes(a); i++) {
        assert_true(workload_alike(tally_class(a, i), tally_class(b, i)));
        assert_int_equal(tally_class(a, i)->count, tally_class(b, i)->count);
    }
}

static void count_any(struct tally *tally, uint64_t *seed)
{
    static const char *const model[] = {"T4", "A100", NULL};

    count_with(tally, 1 + draw_below(seed, 20) * 50, draw_below(seed, 3) * 1000,
               model[draw_below(seed, 3)]);
}

TEST(tally_restore__continues_the_stored_tally)
{
    uint64_t seed = 7;
    CLEANUP(tally_freep) struct tally *tally = tally_new();
    CLEANUP(tally_freep) struct tally *again = NULL;
    struct err err;

    for (uint32_t i = 0; i < TALLY_HALF + 100; i++)
        count_any(tally, &seed);
    const struct tally_rows rows = rows_of(tally);
    assert_int_equal(tally_restore(&rows, &again, &err), 0);
    assert_same_tally(tally, again);
    assert_true(tally_is_due(again)); /* no workload was made of it yet */
    for (uint32_t i = 0; i < TALLY_HALF; i++) {
        uint64_t same = seed;
        count_any(tally, &seed);
        count_any(again, &same);
    }
    assert_same_tally(tally, again);
}

TEST(cold_start__ends_after_a_restart_that_lost_part_of_it)
{
    const struct workload_class class[] = {{.parts = 2, .milli = 300, .count = TALLY_WEIGHT},
                                           {.parts = 1, .milli = 500, .count = 1}};
    struct tally_rows rows = {.pods = TALLY_COLD - 1, .n_classes = 1, .class = class};
    CLEANUP(tally_freep) struct tally *tally = NULL;
    struct err err;

    assert_int_equal(tally_restore(&rows, &tally, &err), 0);
    count(tally, 1000, 1);
    assert_int_equal(tally_classes(tally), 2);
    tally_free(tally);
    rows.n_classes = 2;
    assert_int_equal(tally_restore(&rows, &tally, &err), 0);
    count(tally, 1000, 1);
    assert_int_equal(tally_classes(tally), 2);
    assert_int_equal(weight_of(tally, 500), 0);
    assert_int_equal(weight_of(tally, 1000), TALLY_WEIGHT - 4); /* as if no class were missing */
}

/* Two valid classes, changed by the test. */
struct stored {
    struct workload_class class[2];
    struct tally_rows rows;
};

static struct stored stored_start(void)
{
    return (struct stored){
        .class = {{.parts = 1, .milli = 300, .count = 16}, {.parts = 2, .milli = 300, .count = 16}},
        .rows = {.pods = 2, .n_classes = 2},
    };
}

static void is_refused(struct stored stored, const char *text)
{
    struct tally *tally = NULL;
    struct err err;

    stored.rows.class = stored.class;
    assert_int_equal(tally_restore(&stored.rows, &tally, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, text);
    assert_null(tally);
}

static void is_restored(struct stored stored)
{
    struct tally *tally = NULL;
    struct err err;

    stored.rows.class = stored.class;
    assert_int_equal(tally_restore(&stored.rows, &tally, &err), 0);
    workload_unref(tally_workload(tally));
    tally_free(tally);
}

TEST(tally_restore__refuses_invalid_rows)
{
    struct stored stored = stored_start();

    is_restored(stored);
    stored.class[1].parts = 0;
    is_refused(stored, "class 1: parts: 1 to 64 would be right");
    stored.class[1].parts = GPUS_PER_NODE_MAX + 1;
    is_refused(stored, "class 1: parts: 1 to 64 would be right");
    stored.class[1].parts = GPUS_PER_NODE_MAX;
    is_restored(stored);
    stored.class[0].milli = 0;
    is_refused(stored, "class 0: milli: 1 to 1000 would be right");
    stored.class[0].milli = GPU_MILLI + 1;
    is_refused(stored, "class 0: milli: 1 to 1000 would be right");
    stored.class[0].milli = GPU_MILLI;
    is_restored(stored);
    stored.class[0].count = 0;
    is_refused(stored, "class 0: weight: at least 1 would be right");
    stored = stored_start();
    stored.class[1].parts = 1;
    is_refused(stored, "class 1 is like class 0");
    stored.rows.n_classes = 1; /* the valid class alone */
    is_restored(stored);
    stored.rows.n_classes = 0;
    is_refused(stored, "0 classes: 1 to 512 would be right");
    stored.rows.n_classes = WORKLOAD_CLASSES_MAX + 1;
    is_refused(stored, "513 classes: 1 to 512 would be right");
}

TEST(tally_restore__refuses_equal_classes_anywhere)
{
    struct workload_class class[WORKLOAD_CLASSES_MAX];
    const struct tally_rows rows = {.pods = 0, .n_classes = WORKLOAD_CLASSES_MAX, .class = class};
    struct tally *tally = NULL;
    struct err err;

    for (uint32_t i = 0; i < WORKLOAD_CLASSES_MAX; i++)
        class[i] = (struct workload_class){.parts = 1, .milli = 1 + i, .count = 1};
    assert_int_equal(tally_restore(&rows, &tally, &err), 0);
    assert_int_equal(tally_classes(tally), WORKLOAD_CLASSES_MAX);
    tally_free(tally);
    class[7].milli = class[5].milli;
    assert_int_equal(tally_restore(&rows, &tally, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "class 7 is like class 5");
}

TEST(tally_restore__keeps_models_with_their_class)
{
    const char *model[] = {"T4", "A100", ""};
    struct workload_class class[WORKLOAD_CLASSES_MAX];
    const struct tally_rows rows = {
        .pods = TALLY_COLD, .n_classes = WORKLOAD_CLASSES_MAX, .class = class};
    CLEANUP(tally_freep) struct tally *tally = NULL;
    struct err err;

    for (uint32_t i = 0; i < WORKLOAD_CLASSES_MAX; i++)
        class[i] = (struct workload_class){
            .parts = 1, .milli = 1 + i, .count = i < 2 ? 1 : 2, .n_models = 3, .model = model};
    assert_int_equal(tally_restore(&rows, &tally, &err), 0);
    assert_string_equal(tally_class(tally, 1)->model[0], "T4");
    assert_string_equal(tally_class(tally, 1)->model[1], "A100");
    assert_string_equal(tally_class(tally, 1)->model[2], "");
    count(tally, 1000, 1); /* drops the first of the rarest */
    assert_int_equal(tally_class(tally, 0)->milli, 2);
    count(tally, 999, 1);
    assert_int_equal(tally_class(tally, 0)->milli, 3);
    tally_free(NULL);
}

TEST(tally_restore__limits_the_sum_of_weights)
{
    struct stored stored = stored_start();

    stored.rows.pods = TALLY_HALF;
    stored.class[0].count = TALLY_WEIGHT * TALLY_HALF - 16;
    is_restored(stored);
    stored.class[0].count++;
    is_refused(stored, "the weights add up to 65537; at most 65536 would be right");
    stored.rows.pods++;
    is_restored(stored);
}

/*
 * Expected shapes
 */

struct expecting {
    struct tally *tally;
    struct rulebook *book;
    struct expected_shape shape[RULEBOOK_SHAPES_MAX];
    struct workload *workload; /* of the last learn() */
};

/* One pod was seen, of 600 milli; the cold start is over. */
static int expecting_start(void **state)
{
    static struct expecting expecting;
    const struct workload_class class = {.parts = 1, .milli = 600, .count = TALLY_WEIGHT};
    const struct tally_rows rows = {.pods = TALLY_COLD + 1, .n_classes = 1, .class = &class};
    struct err err;

    expecting = (struct expecting){.book = rulebook_new(POLICY_ROLLOUT, "test")};
    if (tally_restore(&rows, &expecting.tally, &err) < 0)
        fail_msg("%s", err.text);
    expecting.book->shape = expecting.shape;
    *state = &expecting;
    return 0;
}

static int expecting_done(void **state)
{
    struct expecting *expecting = *state;

    tally_free(expecting->tally);
    rulebook_unref(expecting->book);
    workload_unref(expecting->workload);
    return 0;
}

#define EXPECTING_TEST(name)                                                                       \
    TEST_WITH(name, struct expecting *expecting, expecting_start, expecting_done)

static void expect(struct expecting *expecting, uint32_t parts, uint32_t milli, uint32_t weight)
{
    struct expected_shape *shape = &expecting->shape[expecting->book->n_shapes++];

    shape->class = (struct workload_class){.parts = parts, .milli = milli, .count = 1 << 20};
    shape->weight = weight;
}

/* The next piece of "PARTSxMILLI:NUMBER MILLI:NUMBER ..."; false at the end. */
static bool next_piece(const char **text, uint32_t *parts, uint32_t *milli, uint32_t *number)
{
    int length = 0;

    *parts = 1;
    if (sscanf(*text, "%ux%u:%u %n", parts, milli, number, &length) != 3) {
        *parts = 1;
        if (sscanf(*text, "%u:%u %n", milli, number, &length) != 2)
            return false;
    }
    *text += length;
    return true;
}

/* Expects shapes by weight, counts pods of one part, and makes the workload of both. */
static const struct workload *learn(struct expecting *expecting, const char *shapes,
                                    const char *pods)
{
    uint32_t parts;
    uint32_t milli;
    uint32_t number;

    while (next_piece(&shapes, &parts, &milli, &number))
        expect(expecting, parts, milli, number);
    tally_expect(expecting->tally, expecting->book);
    while (next_piece(&pods, &parts, &milli, &number))
        count(expecting->tally, milli, number);
    assert_string_equal(shapes, "");
    assert_string_equal(pods, "");
    expecting->workload = tally_workload(expecting->tally);
    return expecting->workload;
}

static uint32_t count_in(const struct workload *workload, uint32_t parts, uint32_t milli)
{
    for (uint32_t i = 0; i < workload->n_classes; i++)
        if (workload->class[i].parts == parts && workload->class[i].milli == milli)
            return workload->class[i].count;
    return 0;
}

/* The count among a million pods of the workload. */
static uint64_t part_of(const struct workload *workload, uint32_t parts, uint32_t milli)
{
    return UINT64_C(1000000) * count_in(workload, parts, milli) / workload->count;
}

EXPECTING_TEST(expected_shape__gets_its_weight_of_the_workload)
{
    const struct workload *workload = learn(expecting, "8x1000:5 4x1000:20", "300:3 700:1");
    assert_int_equal(workload->n_classes, 5);
    assert_in_range(part_of(workload, 8, 1000), 5000, 5020);
    assert_in_range(part_of(workload, 4, 1000), 20000, 20020);
    assert_int_equal(count_in(workload, 1, 300), 3 * count_in(workload, 1, 700));
    assert_int_equal(tally_classes(expecting->tally), 3); /* expected shapes are not counted */
    assert_int_equal(workload->class[1].milli, 300);      /* seen classes come first */
    assert_int_equal(workload->class[3].parts, 8);
}

EXPECTING_TEST(expected_shape__gets_its_weight_beside_expected_pods_alone)
{
    const struct workload *workload = learn(expecting, "8x1000:5 600:1", "");
    assert_int_equal(count_in(workload, 1, 600), 131072);
    assert_in_range(part_of(workload, 8, 1000), 5000, 5020);
    assert_int_equal(workload->n_classes, 2);
}

EXPECTING_TEST(expected_shape__stays_when_seen_more_often)
{
    const struct workload *workload = learn(expecting, "300:100 8x1000:400", "300:2 700:1");
    assert_int_equal(count_in(workload, 1, 300), 2 * count_in(workload, 1, 700));
    assert_in_range(part_of(workload, 8, 1000), 400000, 400020);
}

EXPECTING_TEST(expected_shape__stays_when_seen_exactly_as_often)
{
    const struct workload *workload = learn(expecting, "300:250", "300:1 700:2");
    assert_int_equal(2 * count_in(workload, 1, 300), count_in(workload, 1, 700));
    assert_int_equal(count_in(workload, 1, 300), 32 * 1024);
}

/* Rare shapes are raised, whatever others have beyond their weight. */
EXPECTING_TEST(expected_shape__is_never_below_its_weight)
{
    const struct workload *workload =
        learn(expecting, "200:100 300:100 400:100", "200:2 300:30 700:10");
    assert_in_range(part_of(workload, 1, 200), 100000, 100020);
    assert_in_range(part_of(workload, 1, 400), 100000, 100020);
    assert_int_equal(count_in(workload, 1, 300), 3 * count_in(workload, 1, 700));
    assert_in_range(workload->count, 65537, 262144);
}

EXPECTING_TEST(full_tally__drops_the_rarest_for_an_expected_shape)
{
    count(expecting->tally, 600, 1);
    for (uint32_t i = 0; i < WORKLOAD_CLASSES_MAX - 1; i++)
        count(expecting->tally, i + 1, i == 0 || i == 7 || i == 11 ? 1 : 2);
    const struct workload *workload = learn(expecting, "8x1000:5 1:1", ""); /* 1 is the rarest */
    assert_int_equal(workload->n_classes, WORKLOAD_CLASSES_MAX);
    assert_int_equal(count_in(workload, 1, 8), 0); /* the first of the other rare ones is dropped */
    assert_true(count_in(workload, 1, 12) > 0);
    assert_true(count_in(workload, 1, 1) > 0);
    assert_true(count_in(workload, 1, 2) > 0);
    assert_true(count_in(workload, 1, 9) > 0);
    assert_in_range(part_of(workload, 8, 1000), 5000, 5020);
    assert_int_equal(tally_classes(expecting->tally), WORKLOAD_CLASSES_MAX);
}

EXPECTING_TEST(full_tally__keeps_a_rare_class_that_is_expected)
{
    for (uint32_t i = 0; i < WORKLOAD_CLASSES_MAX - 1; i++)
        count(expecting->tally, i + 1, i == 99 ? 1 : 2);
    count(expecting->tally, 600, 1);
    const struct workload *workload = learn(expecting, "100:1 8x1000:5", "");
    assert_int_equal(workload->n_classes, WORKLOAD_CLASSES_MAX);
    assert_int_equal(count_in(workload, 1, 600),
                     0); /* the first of the other rare ones is dropped */
    assert_int_equal(workload->class[99].milli, 100);
    assert_in_range(part_of(workload, 1, 100), 1000, 1020);
    assert_in_range(part_of(workload, 8, 1000), 5000, 5020);
}

/* Drops the first of equals, one for each unseen shape. */
EXPECTING_TEST(full_tally__drops_a_class_for_each_expected_shape)
{
    for (uint32_t i = 0; i < WORKLOAD_CLASSES_MAX - 1; i++)
        count(expecting->tally, i + 1, 2);
    count(expecting->tally, 600, 1); /* with the one at the start as often as the others */
    const struct workload *workload =
        learn(expecting, "8x1000:5 2:1 4x1000:20 2x1000:10", ""); /* 2 was seen */
    assert_int_equal(workload->n_classes, WORKLOAD_CLASSES_MAX);
    assert_int_equal(count_in(workload, 1, 600), 0);
    assert_int_equal(count_in(workload, 1, 1), 0);
    assert_true(count_in(workload, 1, 2) > 0);
    assert_int_equal(count_in(workload, 1, 3), 0);
    assert_true(count_in(workload, 1, 4) > 0);
    assert_in_range(part_of(workload, 8, 1000), 5000, 5020);
    assert_in_range(part_of(workload, 4, 1000), 20000, 20020);
    assert_in_range(part_of(workload, 2, 1000), 10000, 10020);
}

EXPECTING_TEST(full_tally__drops_the_first_class_if_it_is_the_rarest)
{
    for (uint32_t i = 0; i < WORKLOAD_CLASSES_MAX - 1; i++)
        count(expecting->tally, i + 1, 2);
    const struct workload *workload = learn(expecting, "8x1000:5", "");
    assert_int_equal(count_in(workload, 1, 600), 0);
    assert_int_equal(workload->class[0].milli, 1);
    assert_int_equal(workload->n_classes, WORKLOAD_CLASSES_MAX);
}

EXPECTING_TEST(expected_shape__stays_beside_others_seen_often)
{
    const struct workload *workload =
        learn(expecting, "300:100 400:1 500:100", "300:3 400:3 500:3");
    assert_int_equal(count_in(workload, 1, 300), 3 * count_in(workload, 1, 600));
    assert_int_equal(count_in(workload, 1, 400), 3 * count_in(workload, 1, 600));
    assert_int_equal(count_in(workload, 1, 500), 3 * count_in(workload, 1, 600));
}

/* Compared by count for its weight, not by count. */
EXPECTING_TEST(expected_shape__is_compared_by_count_for_its_weight)
{
    const struct workload *workload = learn(expecting, "300:1 400:100", "300:10 400:100 600:949");
    assert_int_equal(95 * count_in(workload, 1, 300), count_in(workload, 1, 600));
    assert_true(count_in(workload, 1, 400) > 10 * count_in(workload, 1, 300));
}

/* Expects a quarter, and counts 300 pods of 300 + others. */
static bool is_raised(struct expecting *expecting, uint32_t others)
{
    expect(expecting, 1, 300, 250);
    count(expecting->tally, 300, 300);
    count(expecting->tally, 600, others - 1);
    const struct workload *workload = learn(expecting, "", "");
    const uint32_t seen = count_in(workload, 1, 600) / others * 300;
    assert_true(count_in(workload, 1, 300) >= seen);
    return count_in(workload, 1, 300) > seen;
}

EXPECTING_TEST(expected_shape__is_raised_when_seen_a_little_too_rarely)
{
    assert_true(is_raised(expecting, 901));
}

EXPECTING_TEST(expected_shape__stays_when_seen_a_little_more_often)
{
    assert_false(is_raised(expecting, 899));
}

EXPECTING_TEST(expected_shape__is_not_rounded_when_its_count_is_whole)
{
    const struct workload *workload = learn(expecting, "8x1000:250", "600:2");
    assert_int_equal(3 * count_in(workload, 8, 1000), count_in(workload, 1, 600));
}

TEST(tally_expect__is_due_before_the_first_pod)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();
    struct rulebook *book = rulebook_new(POLICY_ROLLOUT, "test");
    CLEANUP(workload_unrefp) struct workload *workload = tally_workload(tally);
    assert_false(tally_is_due(tally));
    tally_expect(tally, book);
    assert_true(tally_is_due(tally));
    rulebook_unref(book);
    assert_int_equal(workload->n_classes, 6);
}

EXPECTING_TEST(tally_expect__is_due_and_empty_changes_nothing)
{
    count(expecting->tally, 300, 100);
    CLEANUP(workload_unrefp) struct workload *bare = tally_workload(expecting->tally);
    assert_false(tally_is_due(expecting->tally));
    tally_expect(expecting->tally, expecting->book);
    assert_true(tally_is_due(expecting->tally));
    CLEANUP(workload_unrefp) struct workload *empty = tally_workload(expecting->tally);
    assert_int_equal(empty->count, bare->count);
    assert_false(tally_is_due(expecting->tally));
    count(expecting->tally, 300, 49);
    assert_false(tally_is_due(expecting->tally));
    tally_expect(expecting->tally, NULL);
    assert_true(tally_is_due(expecting->tally));
    CLEANUP(workload_unrefp) struct workload *none = tally_workload(expecting->tally);
    assert_int_equal(none->n_classes, 2);
}

EXPECTING_TEST(tally_workload__is_deterministic)
{
    for (uint32_t i = 0; i < RULEBOOK_SHAPES_MAX; i++)
        expect(expecting, 2 + i, 1000, 1 + i % 15);
    tally_expect(expecting->tally, expecting->book);
    for (uint32_t i = 1; i < 200; i++)
        count(expecting->tally, i, i);
    CLEANUP(workload_unrefp) struct workload *one = tally_workload(expecting->tally);
    CLEANUP(workload_unrefp) struct workload *two = tally_workload(expecting->tally);
    assert_int_equal(one->n_classes, two->n_classes);
    assert_memory_equal(one->sequence, two->sequence, sizeof one->sequence);
    for (uint32_t i = 0; i < RULEBOOK_SHAPES_MAX; i++)
        assert_true(part_of(one, 2 + i, 1000) >= 999 * (1 + i % 15)); /* but for rounding */
}
