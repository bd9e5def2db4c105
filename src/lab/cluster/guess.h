/*
 * guess - the pods of an object of an unknown kind: RayCluster, PyTorchJob, JobSet ...
 *
 * Every part of the object that looks like a pod template is read, under any name: an object with
 * containers (template.spec, podSpec, predictor), or with resources that name an extended resource
 * (predictor.model, trainer.resourcesPerNode), which counts as a container. The number of pods is
 * the product of the counts above the part: replicas (or minReplicas, numNodes, instances, count),
 * parallelism, size, numOfHosts. An object that requests no extended resource has no parts. The
 * note of each part has the guess and its fields, since only the object's controller is
 * authoritative. Pure.
 */
#ifndef MILLIGPU_LAB_GUESS_H
#define MILLIGPU_LAB_GUESS_H

#include "pod_maker.h"

typedef int guess_take(void *user, const struct pod_maker_part *part, struct err *err);

/*
 * Calls take() for each part of the object; its first failure ends the search. *out_parts: number
 * of parts. Parts borrow from the object.
 */
int guess_parts(struct arena *arena, const struct document *object, guess_take *take, void *user,
                uint32_t *out_parts, struct err *err) MUST_USE;

#endif
