/*
 * workload - the shapes of pods that a cluster serves, and how often each of them comes.
 *
 *   classes, counted --> typical shapes, for fgd           (policy.h says what for)
 *                    \-> fixed random sequences, for rollout
 *                     \> shapes of several GPUs, which have a price
 *
 * A pod of several asking containers counts as its largest want. Immutable and reference-counted:
 * any thread may read it, and everything in it follows from the classes and their order alone.
 */
#ifndef MILLIGPU_WORKLOAD_H
#define MILLIGPU_WORKLOAD_H

#include <stdatomic.h>

#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/request.h"

enum {
    WORKLOAD_CLASSES_MAX = 512,
    WORKLOAD_COUNT_MAX = 1 << 20, /* of all classes together */
    WORKLOAD_SEQUENCES = 16,
    WORKLOAD_LENGTH = 100,
    /* classes of several GPUs that have a price: those that come most often */
    WORKLOAD_SCARCE_MAX = 32,
    WORKLOAD_WORDS = WORKLOAD_CLASSES_MAX / 64,
    /* sizes of a part that are told apart when a sequence is searched for what still fits */
    WORKLOAD_SIZES = 16,
    WORKLOAD_SIZE_MILLI = 64,
    WORKLOAD_STEP_WORDS = (WORKLOAD_LENGTH + 63) / 64,
};

struct workload_class {
    struct host host;   /* CPU and memory that the pod requests; 0: none */
    uint32_t parts;     /* GPUs; 0: none */
    uint32_t milli;     /* of each GPU */
    uint32_t share_mib; /* least memory of each share; 0: any */
    uint32_t models;    /* as in struct request */
    const char **model;
    uint32_t count; /* how often it was seen; at least 1 */
};

/* A class as fgd tells classes apart: without host memory and share_mib. */
struct workload_typical {
    uint32_t class; /* the first of its classes, for the models */
    uint32_t cpu_milli;
    uint32_t parts;
    uint32_t milli;
    uint32_t count;
};

struct workload {
    atomic_uint refs;
    uint32_t classes;
    struct workload_class *class;
    uint64_t count;     /* of all classes */
    uint64_t gpu_milli; /* that all counted pods request together */

    /*
     * The commonest typical shapes, by falling count (of equals, the one that was seen first), as
     * many as it takes to cover 95 % of the count.
     */
    uint32_t n_typical;
    uint64_t typical_count;
    struct workload_typical *typical;

    /* Classes that request GPUs, drawn by their counts. sequences is 0 if there is none. */
    uint32_t sequences;
    uint16_t sequence[WORKLOAD_SEQUENCES][WORKLOAD_LENGTH];
    /* bit i of small[s][z]: step i of sequence s asks for less than 64 x (z + 1) milli per part */
    uint64_t small[WORKLOAD_SEQUENCES][WORKLOAD_SIZES][WORKLOAD_STEP_WORDS];

    /* Classes of two and more GPUs, by falling count; of equals the first. */
    uint32_t n_scarce;
    uint16_t scarce[WORKLOAD_SCARCE_MAX];
};

/*
 * Copies the classes, strings included. There are at most WORKLOAD_CLASSES_MAX, no two of them
 * alike, each with a count of at least 1, at most GPUS_PER_NODE_MAX parts, and milli in 1 ..
 * GPU_MILLI if it has parts, and their counts add up to at most WORKLOAD_COUNT_MAX. No class at all
 * is fine. One reference.
 */
struct workload *workload_new(const struct workload_class *class, uint32_t classes) MUST_USE;
struct workload *workload_ref(const struct workload *workload);
void workload_unref(const struct workload *workload); /* NULL is fine */

/*
 * Do both ask for the same? The counts do not matter; nor do milli, share_mib and models without
 * parts.
 */
bool workload_alike(const struct workload_class *a, const struct workload_class *b);

/*
 * The class of a request, with count 1: its largest want by parts x milli, of equals the first. It
 * borrows from the request. Without wants it is a class without parts, share_mib and models.
 */
void workload_class_of(const struct request *request, struct workload_class *out);

#endif
