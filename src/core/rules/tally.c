/*
 * Counts pods by class, with exponential decay by halving. Called by the writer for each pod that
 * the watch shows for the first time, and by simulate. Classes are kept, and stored, in order of
 * first appearance, because workloads depend on it.
 */
#include "milligpu/core/rules/tally.h"

#include <inttypes.h>
#include <string.h>

#include "milligpu/base/alloc.h"

struct tally {
    uint64_t pods;
    uint64_t made_at; /* value of pods at the last workload */
    bool made;
    const struct rulebook *book; /* expected shapes, a reference; or NULL */
    uint32_t n_classes;
    struct workload_class class[WORKLOAD_CLASSES_MAX]; /* model: owned, or NULL */
};

/*
 * Classes
 */

/* Returns pointers and strings in one block. */
static const char **copy_models(const struct workload_class *class)
{
    size_t bytes = class->n_models * sizeof(char *);

    must(class->n_models == 0 || class->model != NULL);
    if (class->n_models == 0)
        return NULL;
    for (uint32_t m = 0; m < class->n_models; m++)
        bytes += strlen(class->model[m]) + 1;
    const char **model = xmalloc(bytes);
    char *at = (char *)(model + class->n_models);
    for (uint32_t m = 0; m < class->n_models; m++)
        model[m] = text_lay(&at, class->model[m]);
    must(at == (char *)model + bytes);
    return model;
}

static void forget_class(struct tally *tally, uint32_t at)
{
    must(at < tally->n_classes);
    must(tally->class[at].n_models == 0 || tally->class[at].model != NULL);
    xfree(tally->class[at].model);
    tally->n_classes--;
    memmove(&tally->class[at], &tally -> class[at + 1],
            (tally->n_classes - at) * sizeof *tally->class);
}

static uint32_t rarest(const struct tally *tally)
{
    uint32_t least = 0;

    must(tally->n_classes > 0);
    for (uint32_t i = 1; i < tally->n_classes; i++)
        if (tally->class[i].count < tally->class[least].count)
            least = i;
    must(least < tally->n_classes);
    return least;
}

/* Copies the class to the end. */
static void append_class(struct tally *tally, const struct workload_class *class)
{
    must(class->parts > 0);
    must(class->count > 0);
    if (tally->n_classes == WORKLOAD_CLASSES_MAX)
        forget_class(tally, rarest(tally));
    struct workload_class *mine = &tally->class[tally->n_classes++];
    *mine = *class;
    mine->model = copy_models(class);
    must_debug(workload_alike(mine, class));
}

/*
 * The tally
 */

/*
 * The most common shapes are whole GPUs and even fractions. All together weigh less than one pod,
 * because the first real pods are better evidence, and pods placed for a wrong workload do not
 * move.
 */
static const struct workload_class cold[] = {
    {.parts = 1, .milli = 1000, .count = 4}, {.parts = 1, .milli = 500, .count = 2},
    {.parts = 1, .milli = 250, .count = 2},  {.parts = 2, .milli = 1000, .count = 1},
    {.parts = 4, .milli = 1000, .count = 1}, {.parts = 8, .milli = 1000, .count = 1},
};

static void start_cold(struct tally *tally)
{
    must(tally->n_classes == 0);
    for (size_t i = 0; i < ARRAY_LEN(cold); i++)
        append_class(tally, &cold[i]);
    must(tally->n_classes == ARRAY_LEN(cold));
}

static struct tally *tally_empty(void)
{
    return xcalloc(1, sizeof(struct tally));
}

struct tally *tally_new(void)
{
    struct tally *tally = tally_empty();

    start_cold(tally);
    must(tally->pods == 0);
    must(tally_is_due(tally));
    return tally;
}

void tally_free(struct tally *tally)
{
    if (tally == NULL)
        return;
    for (uint32_t i = 0; i < tally->n_classes; i++)
        xfree(tally->class[i].model);
    rulebook_unref(tally->book);
    xfree(tally);
}

/* The index of the same class, or tally->classes if there is none. */
static uint32_t place_of(const struct tally *tally, const struct workload_class *class)
{
    uint32_t at = 0;

    must(class->parts > 0);
    while (at < tally->n_classes && !workload_alike(&tally->class[at], class))
        at++;
    must(at <= tally->n_classes);
    return at;
}

/* Removes the initial shapes; a stored tally may lack some of them. */
static void end_cold(struct tally *tally)
{
    must(tally->pods == TALLY_COLD);
    for (size_t i = 0; i < ARRAY_LEN(cold); i++) {
        const uint32_t at = place_of(tally, &cold[i]);
        if (at == tally->n_classes)
            continue;
        if (tally->class[at].count > cold[i].count)
            tally->class[at].count -= cold[i].count;
        else
            forget_class(tally, at);
    }
}

static void halve(struct tally *tally)
{
    uint32_t at = 0;

    must(tally->n_classes > 0);
    must(tally->pods % TALLY_HALF == 0);
    while (at < tally->n_classes) {
        tally->class[at].count /= 2;
        if (tally->class[at].count == 0)
            forget_class(tally, at);
        else
            at++;
    }
}

void tally_count(struct tally *tally, const struct request *request)
{
    struct workload_class class;

    must(request->n_wants > 0);
    workload_class_of(request, &class);
    must(class.parts > 0);
    const uint32_t at = place_of(tally, &class);
    class.count = TALLY_WEIGHT;
    if (at == tally->n_classes)
        append_class(tally, &class);
    else
        tally->class[at].count += TALLY_WEIGHT;
    if (++tally->pods == TALLY_COLD)
        end_cold(tally);
    if (tally->pods % TALLY_HALF == 0)
        halve(tally);
}

bool tally_is_due(const struct tally *tally)
{
    const uint64_t half = tally->made_at / 2;

    must(tally->made_at <= tally->pods);
    must(tally->made || tally->made_at == 0);
    const uint64_t step = half < TALLY_STEP_MIN   ? TALLY_STEP_MIN
                          : half > TALLY_STEP_MAX ? TALLY_STEP_MAX
                                                  : half;
    return !tally->made || tally->pods - tally->made_at >= step;
}

void tally_expect(struct tally *tally, const struct rulebook *book)
{
    const struct rulebook *former = tally->book;

    must(book == NULL || book->n_shapes <= RULEBOOK_SHAPES_MAX);
    tally->book = book == NULL ? NULL : rulebook_ref(book);
    rulebook_unref(former);
    tally->made = false;
    tally->made_at = 0;
    must(tally_is_due(tally));
}

/*
 * Expected shapes
 */

/* The classes of a new workload; their models are borrowed. */
struct blend {
    const struct rulebook *book;
    uint32_t n_classes;
    struct workload_class *class;
    uint32_t class_index[RULEBOOK_SHAPES_MAX]; /* index of the class of each shape */
    bool open[RULEBOOK_SHAPES_MAX];            /* the count of its class is not final yet */
    uint64_t count;                            /* sum over classes with a final count */
    uint32_t weight;                           /* sum over open shapes */
};

/* Scales the counts up, so that 5 of 1,000 are not rounded to 1 of 11. */
static void scale_blend(struct blend *blend)
{
    uint64_t sum = 0;
    uint32_t scale = 1;

    for (uint32_t i = 0; i < blend->n_classes; i++)
        sum += blend->class[i].count;
    must(sum > 0 && sum <= TALLY_SUM_MAX);
    while (2 * sum * scale <= TALLY_SUM_MAX)
        scale *= 2;
    for (uint32_t i = 0; i < blend->n_classes; i++)
        blend->class[i].count *= scale;
    must(sum * scale <= TALLY_SUM_MAX);
}

static bool is_expected(const struct rulebook *book, const struct workload_class *class)
{
    must(class->parts > 0);
    must(book->n_shapes <= RULEBOOK_SHAPES_MAX);
    for (uint32_t i = 0; i < book->n_shapes; i++) {
        must(book->shape[i].weight > 0);
        if (workload_alike(&book->shape[i].class, class))
            return true;
    }
    return false;
}

/* Drops the rarest class that no shape expects (ties: the first). */
static void drop_from_blend(struct blend *blend)
{
    uint32_t least = blend->n_classes;

    must(blend->n_classes > RULEBOOK_SHAPES_MAX);
    for (uint32_t i = 0; i < blend->n_classes; i++)
        if (!is_expected(blend->book, &blend->class[i]) &&
            (least == blend->n_classes || blend->class[i].count < blend->class[least].count))
            least = i;
    must(least < blend->n_classes);
    blend->n_classes--;
    memmove(&blend->class[least], &blend -> class[least + 1],
            (blend->n_classes - least) * sizeof *blend->class);
}

static uint32_t place_in_blend(const struct blend *blend, const struct workload_class *class)
{
    uint32_t at = 0;

    must(class->parts > 0);
    while (at < blend->n_classes && !workload_alike(&blend->class[at], class))
        at++;
    must(at <= blend->n_classes);
    return at;
}

/* Assigns a class to each shape: a seen one, or a new one at the end. */
static void add_expected(struct blend *blend)
{
    const struct rulebook *book = blend->book;
    uint32_t unseen = 0;

    must(book->n_shapes > 0 && book->n_shapes <= RULEBOOK_SHAPES_MAX);
    for (uint32_t i = 0; i < book->n_shapes; i++)
        unseen += place_in_blend(blend, &book->shape[i].class) == blend->n_classes;
    while (blend->n_classes + unseen > WORKLOAD_CLASSES_MAX)
        drop_from_blend(blend);
    for (uint32_t i = 0; i < book->n_shapes; i++) {
        const uint32_t at = place_in_blend(blend, &book->shape[i].class);
        if (at == blend->n_classes) {
            blend->class[at] = book->shape[i].class;
            blend->class[at].count = 0;
            blend->n_classes++;
        }
        blend->class_index[i] = at;
    }
    must(blend->n_classes <= WORKLOAD_CLASSES_MAX);
}

/* The open shape with the highest count per weight; RULEBOOK_SHAPES_MAX: none is open. */
static uint32_t most_seen(const struct blend *blend)
{
    const struct expected_shape *shape = blend->book->shape;
    uint32_t most = RULEBOOK_SHAPES_MAX;

    must(blend->book->n_shapes <= RULEBOOK_SHAPES_MAX);
    for (uint32_t i = 0; i < blend->book->n_shapes; i++) {
        must(shape[i].weight > 0);
        if (!blend->open[i])
            continue;
        const uint64_t count = blend->class[blend->class_index[i]].count;
        if (most == RULEBOOK_SHAPES_MAX ||
            count * shape[most].weight >
                (uint64_t)blend->class[blend->class_index[most]].count * shape[i].weight)
            most = i;
    }
    return most;
}

/*
 * A shape seen at least as often as its weight requires keeps its count, which then adds to the
 * total for the other weights. Shapes are closed by descending count per weight, so that a closed
 * count stays sufficient when later shapes increase the total.
 */
static void keep_seen(struct blend *blend)
{
    for (uint32_t i = 0; i < blend->n_classes; i++)
        blend->count += blend->class[i].count;
    for (uint32_t i = 0; i < blend->book->n_shapes; i++) {
        blend->open[i] = true;
        blend->count -= blend->class[blend->class_index[i]].count;
        blend->weight += blend->book->shape[i].weight;
    }
    must(blend->weight <= SHAPE_WEIGHT_MAX);
    for (uint32_t i = 0; i < blend->book->n_shapes; i++) {
        const uint32_t most = most_seen(blend);
        must(most < blend->book->n_shapes);
        const uint64_t count = blend->class[blend->class_index[most]].count;
        const uint32_t weight = blend->book->shape[most].weight;
        if (count * (1000 - blend->weight) < weight * blend->count)
            return;
        blend->open[most] = false;
        blend->count += count;
        blend->weight -= weight;
    }
}

/* Sets the counts of the open shapes by their weights, rounded up. */
static void raise_unseen(struct blend *blend)
{
    const uint32_t rest = 1000 - blend->weight;

    must(blend->weight <= SHAPE_WEIGHT_MAX);
    must(blend->count > 0); /* if every seen class is expected, the most frequent one is closed */
    for (uint32_t i = 0; i < blend->book->n_shapes; i++) {
        const uint64_t weight = blend->book->shape[i].weight;
        struct workload_class *class = &blend->class[blend->class_index[i]];
        if (!blend->open[i])
            continue;
        const uint64_t count = (weight * blend->count + rest - 1) / rest;
        must(count >= class->count && count <= TALLY_SUM_MAX);
        class->count = (uint32_t)count;
    }
}

static struct workload *workload_with_expected(const struct tally *tally)
{
    struct blend blend = {
        .book = tally->book,
        .n_classes = tally->n_classes,
        .class = xcalloc(WORKLOAD_CLASSES_MAX, sizeof *blend.class),
    };

    must(tally->book->n_shapes > 0);
    memcpy(blend.class, tally->class, tally->n_classes * sizeof *blend.class);
    scale_blend(&blend);
    add_expected(&blend);
    keep_seen(&blend);
    raise_unseen(&blend);
    struct workload *workload = workload_new(blend.class, blend.n_classes);
    xfree(blend.class);
    must(workload->n_classes >= tally->book->n_shapes);
    return workload;
}

struct workload *tally_workload(struct tally *tally)
{
    const bool expects = tally->book != NULL && tally->book->n_shapes > 0;

    tally->made = true;
    tally->made_at = tally->pods;
    must(!tally_is_due(tally));
    if (expects)
        return workload_with_expected(tally);
    struct workload *workload = workload_new(tally->class, tally->n_classes);
    must(workload->count <= TALLY_SUM_MAX);
    return workload;
}

/*
 * Storing and restoring
 */

uint64_t tally_pods(const struct tally *tally)
{
    must(tally != NULL);
    return tally->pods;
}

uint32_t tally_classes(const struct tally *tally)
{
    must(tally->n_classes <= WORKLOAD_CLASSES_MAX);
    return tally->n_classes;
}

const struct workload_class *tally_class(const struct tally *tally, uint32_t at)
{
    must(at < tally->n_classes);
    must(tally->class[at].count > 0);
    return &tally->class[at];
}

static int check_class(const struct tally_rows *rows, uint32_t at, struct err *err)
{
    const struct workload_class *class = &rows->class[at];

    must(at < rows->n_classes);
    must(class->n_models == 0 || class->model != NULL);
    if (class->parts < 1 || class->parts > GPUS_PER_NODE_MAX)
        return err_set(err, ERR_CORRUPT, "class %" PRIu32 ": parts: 1 to %d would be right", at,
                       GPUS_PER_NODE_MAX);
    if (class->milli < 1 || class->milli > GPU_MILLI)
        return err_set(err, ERR_CORRUPT, "class %" PRIu32 ": milli: 1 to %d would be right", at,
                       GPU_MILLI);
    if (class->count < 1)
        return err_set(err, ERR_CORRUPT, "class %" PRIu32 ": weight: at least 1 would be right",
                       at);
    for (uint32_t i = 0; i < at; i++)
        if (workload_alike(&rows->class[i], class))
            return err_set(err, ERR_CORRUPT, "class %" PRIu32 " is like class %" PRIu32, at, i);
    return 0;
}

static int check_rows(const struct tally_rows *rows, struct err *err)
{
    /* The maximum after halving, plus the pods since. */
    const uint64_t most = (uint64_t)TALLY_WEIGHT * (TALLY_HALF + rows->pods % TALLY_HALF);
    uint64_t sum = 0;

    must(most < TALLY_SUM_MAX);
    must(rows->n_classes == 0 || rows->class != NULL);
    if (rows->n_classes < 1 || rows->n_classes > WORKLOAD_CLASSES_MAX)
        return err_set(err, ERR_CORRUPT, "%" PRIu32 " classes: 1 to %d would be right",
                       rows->n_classes, WORKLOAD_CLASSES_MAX);
    for (uint32_t i = 0; i < rows->n_classes; i++) {
        const int failed = check_class(rows, i, err);
        if (failed != 0)
            return failed;
        sum += rows->class[i].count;
    }
    if (sum > most)
        return err_set(err, ERR_CORRUPT,
                       "the weights add up to %" PRIu64 "; at most %" PRIu64 " would be right", sum,
                       most);
    return 0;
}

int tally_restore(const struct tally_rows *rows, struct tally **out, struct err *err)
{
    const int failed = check_rows(rows, err);

    if (failed != 0)
        return failed;
    struct tally *tally = tally_empty();
    tally->pods = rows->pods;
    for (uint32_t i = 0; i < rows->n_classes; i++)
        append_class(tally, &rows->class[i]);
    must(tally->n_classes == rows->n_classes);
    *out = tally;
    return 0;
}
