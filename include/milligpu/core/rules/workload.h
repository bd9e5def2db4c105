/*
 * workload - the shapes of a cluster's pods and their frequencies.
 *
 *   classes, counted --> typical shapes, for fgd           (see policy.h)
 *                    \-> fixed random sequences, for rollout
 *                     \> shapes of several GPUs, with prices
 *
 * A pod with several wants counts as its largest want. Immutable and reference-counted: any thread
 * may read it. Its content depends only on the classes and their order.
 */
#ifndef MILLIGPU_WORKLOAD_H
#define MILLIGPU_WORKLOAD_H

#include <stdatomic.h>

#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/request.h"

enum {
    WORKLOAD_CLASSES_MAX = 512,
    WORKLOAD_COUNT_MAX = 1 << 20, /* sum over all classes */
    WORKLOAD_SEQUENCES = 16,
    WORKLOAD_LENGTH = 100,
    /* classes of several GPUs with a price: the most frequent ones */
    WORKLOAD_SCARCE_MAX = 32,
    WORKLOAD_WORDS = WORKLOAD_CLASSES_MAX / 64,
    /* size steps of a part, and their width, in the search of a sequence for fitting pods */
    WORKLOAD_SIZES = 16,
    WORKLOAD_SIZE_MILLI = 64,
    WORKLOAD_STEP_WORDS = (WORKLOAD_LENGTH + 63) / 64,
};

struct workload_class {
    struct host host;   /* requested CPU and memory; 0: none */
    uint32_t parts;     /* GPUs; 0: none */
    uint32_t milli;     /* of each GPU */
    uint32_t share_mib; /* minimum memory of each share; 0: any */
    uint32_t n_models;  /* as in struct request */
    const char **model;
    uint32_t count; /* times seen; at least 1 */
};

/* A class as distinguished by fgd: without host memory and share_mib. */
struct workload_typical {
    uint32_t class; /* index of its first class, for the models */
    uint32_t cpu_milli;
    uint32_t parts;
    uint32_t milli;
    uint32_t count;
};

struct workload {
    atomic_uint refs;
    uint32_t n_classes;
    struct workload_class *class;
    uint64_t count;     /* sum over all classes */
    uint64_t gpu_milli; /* sum over all counted pods */

    /*
     * The most frequent typical shapes that cover 95 % of the count, by descending count (ties:
     * first seen first).
     */
    uint32_t n_typical;
    uint64_t typical_count;
    struct workload_typical *typical;

    /* Indexes of classes with GPUs, drawn by their counts. sequences is 0 if no class has GPUs. */
    uint32_t n_sequences;
    uint16_t sequence[WORKLOAD_SEQUENCES][WORKLOAD_LENGTH];
    /* bit i of small[s][z]: step i of sequence s requests < 64 x (z + 1) milli per part */
    uint64_t small[WORKLOAD_SEQUENCES][WORKLOAD_SIZES][WORKLOAD_STEP_WORDS];

    /* Indexes of classes of several GPUs, by descending count (ties: first class first). */
    uint32_t n_scarce;
    uint16_t scarce[WORKLOAD_SCARCE_MAX];
};

/*
 * Copies the classes, strings included, and returns one reference. Preconditions: at most
 * WORKLOAD_CLASSES_MAX classes (0 is fine), no two alike, each with count >= 1, at most
 * GPUS_PER_NODE_MAX parts, and milli in 1 .. GPU_MILLI if it has parts; the counts add up to at
 * most WORKLOAD_COUNT_MAX.
 */
struct workload *workload_new(const struct workload_class *class, uint32_t classes) MUST_USE;
struct workload *workload_ref(const struct workload *workload);
void workload_unref(const struct workload *workload); /* NULL is fine */

/*
 * Are both the same class? Ignores the counts, and without parts also milli, share_mib and models.
 */
bool workload_alike(const struct workload_class *a, const struct workload_class *b);

/*
 * Sets *out to the class of a request, with count 1: its largest want by parts x milli (ties: the
 * first). Borrows from the request. Without wants, the class has no parts, share_mib and models.
 */
void workload_class_of(const struct request *request, struct workload_class *out);

#endif
