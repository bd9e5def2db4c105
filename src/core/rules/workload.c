/*
 * Derives the input of the policies fgd and rollout from counted classes: typical shapes, fixed
 * sequences, scarce classes. Called when the configuration is read and after new counts, not for
 * each filter call. The result is one block of memory and depends only on the classes and their
 * order, so that every process rates placements alike.
 */
#include "milligpu/core/rules/workload.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/random.h"

enum { TYPICAL_PERCENT = 95 };

static_assert((int)WORKLOAD_SIZES * WORKLOAD_SIZE_MILLI > (int)GPU_MILLI,
              "each size has its place");
static_assert((WORKLOAD_SIZES - 1) * WORKLOAD_SIZE_MILLI < (int)GPU_MILLI,
              "the last place is used");

static bool models_alike(const struct workload_class *a, const struct workload_class *b)
{
    must(a->n_models == 0 || a->model != NULL);
    must(b->n_models == 0 || b->model != NULL);

    if (a->n_models != b->n_models)
        return false;
    for (uint32_t i = 0; i < a->n_models; i++)
        if (strcmp(a->model[i], b->model[i]) != 0)
            return false;
    return true;
}

bool workload_alike(const struct workload_class *a, const struct workload_class *b)
{
    must(a != NULL);
    must(b != NULL);

    if (a->host.cpu_milli != b->host.cpu_milli || a->host.memory_mib != b->host.memory_mib ||
        a->parts != b->parts)
        return false;
    if (a->parts == 0)
        return true;
    return a->milli == b->milli && a->share_mib == b->share_mib && models_alike(a, b);
}

void workload_class_of(const struct request *request, struct workload_class *out)
{
    must(request != NULL);
    must(out != NULL);

    const struct want *largest = NULL;
    for (uint32_t i = 0; i < request->n_wants; i++) {
        const struct want *want = &request->want[i];
        if (largest == NULL || want->parts * want->milli > largest->parts * largest->milli)
            largest = want;
    }
    *out = (struct workload_class){.host = request->host, .count = 1};
    if (largest == NULL)
        return;
    must(largest->parts > 0 && largest->parts <= GPUS_PER_NODE_MAX);
    must(largest->milli > 0 && largest->milli <= GPU_MILLI);
    out->parts = largest->parts;
    out->milli = largest->milli;
    out->share_mib = request->memory_mib;
    out->n_models = request->n_models;
    out->model = request->model;
}

/*
 * The copy
 */

struct sizes {
    size_t models;
    size_t strings;
};

static struct sizes sizes_of(const struct workload_class *class, uint32_t classes)
{
    struct sizes sizes = {0};

    must(classes == 0 || class != NULL);
    must(classes <= WORKLOAD_CLASSES_MAX);
    for (uint32_t i = 0; i < classes; i++) {
        for (uint32_t m = 0; m < class[i].n_models; m++)
            sizes.strings += strlen(class[i].model[m]) + 1;
        sizes.models += class[i].n_models;
    }
    return sizes;
}

/* Fills model[] of the copy and the strings after it. */
static void copy_classes(const struct workload_class *class, struct workload *workload,
                         const char **model, char *at)
{
    for (uint32_t i = 0; i < workload->n_classes; i++) {
        struct workload_class *copy = &workload->class[i];
        *copy = class[i];
        copy->model = model;
        for (uint32_t m = 0; m < copy->n_models; m++)
            *model++ = text_lay(&at, class[i].model[m]);
        must_debug(workload_alike(copy, &class[i]));
        must(copy->count == class[i].count);
    }
}

static void count_classes(struct workload *workload)
{
    must(workload->count == 0);
    for (uint32_t i = 0; i < workload->n_classes; i++) {
        const struct workload_class *class = &workload->class[i];
        must(class->count > 0 && class->count <= WORKLOAD_COUNT_MAX);
        must(class->parts <= GPUS_PER_NODE_MAX);
        must(class->parts == 0 || (class->milli > 0 && class->milli <= GPU_MILLI));
        const uint64_t parts = class->parts;
        workload->count += class->count;
        workload->gpu_milli += parts * class->milli * class->count;
    }
    must(workload->count <= WORKLOAD_COUNT_MAX);
}

/*
 * Typical shapes
 */

static bool is_of_shape(const struct workload *workload, const struct workload_typical *shape,
                        const struct workload_class *class)
{
    must(shape->class < workload->n_classes);
    must(shape->count > 0);

    if (shape->cpu_milli != class->host.cpu_milli || shape->parts != class->parts)
        return false;
    return shape->parts == 0 ||
           (shape->milli == class->milli && models_alike(&workload->class[shape->class], class));
}

static struct workload_typical *shape_for(const struct workload *workload,
                                          const struct workload_class *class, uint32_t shapes)
{
    must(shapes < WORKLOAD_CLASSES_MAX);
    must(workload->typical != NULL);
    for (uint32_t t = 0; t < shapes; t++)
        if (is_of_shape(workload, &workload->typical[t], class))
            return &workload->typical[t];
    return NULL;
}

/* Collects all shapes, in order of first appearance. */
static uint32_t merge_shapes(struct workload *workload)
{
    uint32_t shapes = 0;

    for (uint32_t i = 0; i < workload->n_classes; i++) {
        const struct workload_class *class = &workload->class[i];
        struct workload_typical *known = shape_for(workload, class, shapes);
        if (known != NULL) {
            known->count += class->count;
            continue;
        }
        workload->typical[shapes++] = (struct workload_typical){
            .class = i,
            .cpu_milli = class->host.cpu_milli,
            .parts = class->parts,
            .milli = class->parts > 0 ? class->milli : 0,
            .count = class->count,
        };
    }
    must(shapes <= workload->n_classes);
    must(shapes > 0 || workload->n_classes == 0);
    return shapes;
}

/* Insertion sort, stable. */
static void sort_shapes(struct workload_typical *shape, uint32_t shapes)
{
    for (uint32_t i = 1; i < shapes; i++) {
        const struct workload_typical moving = shape[i];
        uint32_t at = i;
        for (; at > 0 && shape[at - 1].count < moving.count; at--)
            shape[at] = shape[at - 1];
        shape[at] = moving;
        must(at == 0 || shape[at - 1].count >= moving.count);
        must(at == i || shape[at + 1].count < moving.count);
    }
}

static void choose_typicals(struct workload *workload)
{
    const uint32_t shapes = merge_shapes(workload);

    sort_shapes(workload->typical, shapes);
    while (workload->typical_count * 100 < workload->count * TYPICAL_PERCENT) {
        must(workload->n_typical < shapes);
        workload->typical_count += workload->typical[workload->n_typical++].count;
    }
    must(workload->typical_count <= workload->count);
}

/*
 * Sequences
 */

/* The class of the pod with this number, counting pods with GPUs class by class. */
static uint32_t class_at(const struct workload *workload, uint64_t place)
{
    uint32_t class = 0;

    for (;; class ++) {
        must(class < workload->n_classes);
        const uint32_t count = workload->class[class].parts > 0 ? workload->class[class].count : 0;
        if (place < count)
            break;
        place -= count;
    }
    must(workload->class[class].parts > 0);
    return class;
}

static void mark_sizes(struct workload *workload, uint32_t sequence, uint32_t step)
{
    const uint32_t milli = workload->class[workload->sequence[sequence][step]].milli;

    must(milli > 0 && milli <= GPU_MILLI);
    must(step < WORKLOAD_LENGTH);
    for (uint32_t z = milli / WORKLOAD_SIZE_MILLI; z < WORKLOAD_SIZES; z++)
        workload->small[sequence][z][step / 64] |= (uint64_t)1 << step % 64;
}

static void draw_sequences(struct workload *workload)
{
    uint64_t state = 1; /* any constant */
    uint64_t pods = 0;

    for (uint32_t i = 0; i < workload->n_classes; i++)
        pods += workload->class[i].parts > 0 ? workload->class[i].count : 0;
    must(pods <= workload->count);
    if (pods == 0)
        return;
    workload->n_sequences = WORKLOAD_SEQUENCES;
    for (uint32_t s = 0; s < WORKLOAD_SEQUENCES; s++)
        for (uint32_t i = 0; i < WORKLOAD_LENGTH; i++) {
            /* At most 2^20 pods, so that the modulo bias is negligible. */
            workload->sequence[s][i] = (uint16_t)class_at(workload, random_next(&state) % pods);
            mark_sizes(workload, s, i);
        }
    must(workload->gpu_milli > 0);
}

/*
 * Scarce classes
 */

/* Inserts by descending count; drops the rarest if there are too many. */
static void insert_scarce(struct workload *workload, uint32_t class)
{
    const uint32_t count = workload->class[class].count;
    const bool full = workload->n_scarce == WORKLOAD_SCARCE_MAX;
    uint32_t at = workload->n_scarce;

    must(workload->class[class].parts > 1);
    must(workload->n_scarce <= WORKLOAD_SCARCE_MAX);
    if (full && workload->class[workload->scarce[--at]].count >= count)
        return;
    for (; at > 0 && workload->class[workload->scarce[at - 1]].count < count; at--)
        workload->scarce[at] = workload->scarce[at - 1];
    workload->scarce[at] = (uint16_t) class;
    workload->n_scarce += !full;
}

static void choose_scarces(struct workload *workload)
{
    must(workload->n_scarce == 0);
    for (uint32_t i = 0; i < workload->n_classes; i++)
        if (workload->class[i].parts > 1)
            insert_scarce(workload, i);
    must(workload->n_scarce <= workload->n_classes);
}

struct workload *workload_new(const struct workload_class *class, uint32_t classes)
{
    const struct sizes sizes = sizes_of(class, classes);

    /* Classes, pointers, typical shapes, strings: this order keeps each part aligned. */
    const size_t model_at = sizeof(struct workload) + classes * sizeof *class;
    const size_t typical_at = model_at + sizes.models * sizeof(char *);
    const size_t string_at = typical_at + classes * sizeof(struct workload_typical);
    static_assert(sizeof(struct workload) % _Alignof(struct workload_class) == 0, "aligned");
    char *block = xmalloc(string_at + sizes.strings);
    struct workload *workload = (struct workload *)(void *)block;

    memset(workload, 0, sizeof *workload);
    atomic_init(&workload->refs, 1);
    workload->n_classes = classes;
    workload->class = (struct workload_class *)(void *)(block + sizeof *workload);
    workload->typical = (struct workload_typical *)(void *)(block + typical_at);
    copy_classes(class, workload, (const char **)(void *)(block + model_at), block + string_at);
    count_classes(workload);
    choose_typicals(workload);
    draw_sequences(workload);
    choose_scarces(workload);
    must(workload->n_typical > 0 || classes == 0);
    must(workload->n_sequences > 0 || workload->n_scarce == 0);
    return workload;
}

struct workload *workload_ref(const struct workload *workload)
{
    must(workload != NULL);
    struct workload *counted = (struct workload *)(uintptr_t)workload;
    const unsigned before = atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
    must(before > 0);
    return counted;
}

void workload_unref(const struct workload *workload)
{
    if (workload == NULL)
        return;
    struct workload *counted = (struct workload *)(uintptr_t)workload;
    const unsigned before = atomic_fetch_sub_explicit(&counted->refs, 1, memory_order_acq_rel);
    must(before > 0);
    if (before == 1)
        xfree(counted);
}
