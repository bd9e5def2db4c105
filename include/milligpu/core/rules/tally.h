/*
 * tally - learns the workload of a cluster: the recent frequency of each class of pods.
 *
 *   pod, once --> its class: + TALLY_WEIGHT --after every TALLY_HALF pods--> all classes halved
 *                     \--when tally_is_due()--> workload_new() --> policy_context.h
 *
 * Each pod that requests a share counts once, and webhook calls do not count, because one waiting
 * pod causes thousands. A class last seen 4 x TALLY_HALF pods ago is dropped, and beyond
 * WORKLOAD_CLASSES_MAX the least frequent class.
 *
 * A new tally starts with a few common shapes, which weigh less than one pod. They are dropped
 * after TALLY_COLD pods: shapes that no pod requests must not keep GPUs free.
 *
 * The expected shapes of a policy document (rulebook.h) are added to the workload, not to the
 * tally: a shape of weight 5 is at least 5 of 1,000 pods of the workload, or more if it was seen
 * more often.
 *
 * Pure: the result depends only on the pods and their order. Single owner.
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
    /* maximum sum of all counts; halving leaves at most half of it */
    TALLY_SUM_MAX = 2 * TALLY_WEIGHT * TALLY_HALF,
    /* bounds of the pods between two workloads, which is half of all pods so far */
    TALLY_STEP_MIN = 2,
    TALLY_STEP_MAX = 2048,
};
static_assert((int)TALLY_SUM_MAX * 2 + RULEBOOK_SHAPES_MAX <= (int)WORKLOAD_COUNT_MAX,
              "a tally is a workload, also if half of it is only expected");

struct tally;

struct tally *tally_new(void) MUST_USE; /* the cold start */
void tally_free(struct tally *tally);   /* NULL is fine */

/* Expects the shapes of book from the next workload on, now due. Keeps a reference. NULL: none. */
void tally_expect(struct tally *tally, const struct rulebook *book);

/* Counts a pod. Its request must have a want: we do not place whole GPUs of the other resource. */
void tally_count(struct tally *tally, const struct request *request);

/* Were enough pods counted since the last tally_workload(), or was there none yet? */
bool tally_is_due(const struct tally *tally);
struct workload *tally_workload(struct tally *tally) MUST_USE;

/*
 * The state to store: the number of pods ever counted, and the classes in order, with weights as
 * counts.
 */
uint64_t tally_pods(const struct tally *tally);
uint32_t tally_classes(const struct tally *tally);
const struct workload_class *tally_class(const struct tally *tally, uint32_t at);

/* Restores a tally from the database, as outside input: an error names the impossible class. */
struct tally_rows {
    uint64_t pods;
    uint32_t n_classes;
    const struct workload_class *class; /* borrowed for the call */
};
int tally_restore(const struct tally_rows *rows, struct tally **out, struct err *err) MUST_USE;

#endif
