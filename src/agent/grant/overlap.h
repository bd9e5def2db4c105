/*
 * overlap - keeps the shares of a GPU from adding up to more than the GPU.
 *
 * A pod that is deleted by force disappears from the API server at once, and milligpud gives its
 * room to another pod, while kubelet can need the whole grace period to end its containers. The
 * containers of the other pod are refused here until there is room, and kubelet retries.
 *
 * A pod lives while one of its containers runs or is about to start. It counts with the peak sum of
 * its containers' shares on the GPU while it lived. That is never more than its charge in the
 * ledger: containers that run one after another, as init containers do, count once. The allocation
 * has the shares of a pod, but not which containers run at the same time.
 *
 * A pod that stays within its peak is not checked: a container that restarts needs no new room.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_OVERLAP_H
#define MILLIGPU_AGENT_OVERLAP_H

#include "containers.h"

/*
 * Sum of the shares (milli) of a GPU of a pod's containers that run or are about to. Containers
 * with a successor do not count.
 */
uint32_t overlap_of_pod(const struct container_facts *const *container, uint32_t containers,
                        const char *uid, const char *gpu);

/*
 * Checks the shares of the container with this id against those of other pods. Negative: refused;
 * err names the GPU and the pods that run there, or says that containers are missing from the
 * table. A container that is not in the table has no shares, and is accepted.
 */
int overlap_allow(const struct containers_copy *containers, struct text id,
                  struct err *err) MUST_USE;

#endif
