/*
 * tally - learns the workload that a cluster serves: how often each class of pods came lately.
 *
 *   pod, once --> its class: + TALLY_WEIGHT --after every TALLY_HALF pods--> all classes halved
 *                     \--when tally_is_due()--> workload_new() --> policy context (policy.h)
 *
 * Only pods that ask for a share count, each once: webhook calls never count, because one waiting
 * pod is asked about thousands of times. A class that came last 4 x TALLY_HALF pods ago is
 * forgotten, and if there are more than WORKLOAD_CLASSES_MAX, the one that came least often.
 *
 * A new tally knows a few shapes that most clusters serve, with the weight of a few pods. After
 * TALLY_COLD pods it forgets them: what nobody asks for must not hold GPUs back.
 *
 * What a policy document expects (rulebook.h) is added to the workload, not to what was learned: a
 * shape of weight 5 is at least 5 of 1,000 pods of the workload, and never less than it was seen.
 *
 * Pure: what is learned follows from the pods and their order alone. Single owner.
 */
#ifndef MILLIGPU_TALLY_H
#define MILLIGPU_TALLY_H

#include "milligpu/base/err.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/core/rules/workload.h"

enum {
    TALLY_WEIGHT = 16,
    TALLY_COLD = 64,
    TALLY_HALF = 4096,
    /* of all counts: at most half of it is left after halving */
    TALLY_SUM_MAX = 2 * TALLY_WEIGHT * TALLY_HALF,
    /* pods between two workloads: half of all so far, within these bounds */
    TALLY_STEP_MIN = 2,
    TALLY_STEP_MAX = 2048,
};
static_assert((int)TALLY_SUM_MAX * 2 + RULEBOOK_SHAPES_MAX <= (int)WORKLOAD_COUNT_MAX,
              "a tally is a workload, also if half of it is only expected");

struct tally;

struct tally *tally_new(void) MUST_USE; /* the cold start */
void tally_free(struct tally *tally);   /* NULL is fine */

/* From the next workload on, which is due. Keeps a reference. NULL: nothing is expected. */
void tally_expect(struct tally *tally, const struct rulebook *book);

/* Counts a pod. The request has a want: whole GPUs of the other resource are nobody's to place. */
void tally_count(struct tally *tally, const struct request *request);

/* Was there no tally_workload() yet, or have enough pods been counted since the last? */
bool tally_is_due(const struct tally *tally);
struct workload *tally_workload(struct tally *tally) MUST_USE;

/*
 * What is stored: how many pods were counted ever, and the classes in their order. The counts of
 * the classes are weights.
 */
uint64_t tally_pods(const struct tally *tally);
uint32_t tally_classes(const struct tally *tally);
const struct workload_class *tally_class(const struct tally *tally, uint32_t at);

/*
 * The same tally again. An error names the class that no tally can contain; a database is input
 * from outside.
 */
struct tally_rows {
    uint64_t pods;
    uint32_t classes;
    const struct workload_class *class; /* borrowed for the call */
};
int tally_restore(const struct tally_rows *rows, struct tally **out, struct err *err) MUST_USE;

#endif
