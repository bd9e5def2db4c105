/*
 * overlap - keeps pods with shares from having more of a GPU together than it has.
 *
 * A pod that is deleted by force is gone from the API server at once, so milligpud gives its room
 * to another pod, while kubelet may need the whole grace period to end its containers. The other
 * pod then waits here: its containers are refused until there is room for them, and kubelet tries
 * to create them again.
 *
 * A pod lives while one of its containers runs or is about to start. What it counts for is the most
 * that its containers had of the GPU at one time while it lived. That is never more than its charge
 * in the ledger: containers that take turns, as init containers do, count once. The allocation says
 * which shares a pod has, and not which containers take turns.
 *
 * A pod that would not have more than it had while it lived is not judged: when one of its
 * containers starts again, it takes nothing from anybody.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_OVERLAP_H
#define MILLIGPU_AGENT_OVERLAP_H

#include "containers.h"

/*
 * The milli of a GPU that the containers of a pod have together which run, or are about to. Those
 * that have a successor do not count.
 */
uint32_t overlap_of_pod(const struct container_facts *const *container, uint32_t containers,
                        const char *uid, const char *gpu);

/*
 * May the container with this id, which is in the table, have its shares beside those of other
 * pods? Negative: no, with the GPU and the pods that run there, or since some of the others are not
 * in the table. A container that is not there has no shares.
 */
int overlap_allow(const struct containers_copy *containers, struct text id,
                  struct err *err) MUST_USE;

#endif
