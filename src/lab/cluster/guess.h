/*
 * guess - the pods of an object of a kind that is not known: RayCluster, PyTorchJob, JobSet ...
 *
 * Every part of the object is read that looks like a pod template, whatever it is called: an object
 * with containers (template.spec, podSpec, predictor), or with resources that name an extended
 * resource (predictor.model, trainer.resourcesPerNode), which is taken as a container. The number
 * of pods is the product of the counts above it: replicas (or minReplicas, numNodes, instances,
 * count), parallelism, size, numOfHosts. An object that asks for no extended resource at all has no
 * parts here. Only the controller of the object knows, so the note of
 * each part says what was guessed, and from which fields. Pure.
 */
#ifndef MILLIGPU_CTL_GUESS_H
#define MILLIGPU_CTL_GUESS_H

#include "pod_maker.h"

typedef int guess_take(void *user, const struct pod_maker_part *part, struct err *err);

/*
 * Calls take for each part of the object; its first failure ends the search. *out_parts: how many
 * there are. Parts borrow from the object.
 */
int guess_parts(struct arena *arena, const struct document *object, guess_take *take, void *user,
                uint32_t *out_parts, struct err *err) MUST_USE;

#endif
