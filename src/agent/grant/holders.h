/*
 * holders - by whom the GPUs of this node are held whole, other than by shares of ours.
 *
 *     containers of others (containers.h) --+
 *     GPUs with a process of nobody --------+--> for each GPU of the reading, a word (inventory.h)
 *
 * What kubelet gave comes before what a variable claims, and both before a process; of several pods
 * the first of the table is named. A pod holds its GPUs from the first of its containers to the end
 * of its sandbox, also while none of them runs.
 *
 * kubelet's device plugin knows nothing of shares, so it may give away a GPU that has some. Whoever
 * comes second is refused: the container that would have whole what others share, and the share of
 * what another pod has whole. A container of ours may also have GPUs whole beside its shares.
 *
 * Pure.
 */
#ifndef MILLIGPU_HOLDERS_H
#define MILLIGPU_HOLDERS_H

#include "milligpu/nvml/nvml.h"

#include "containers.h"

struct holders {
    const char *by[GPUS_PER_NODE_MAX]; /* by the order of the reading; NULL: nobody */
};

/*
 * outside: UUIDs of GPUs with a process that belongs to no container. *out borrows from arena and
 * from static memory.
 */
void holders_find(const struct gpu_reading *reading, const struct containers_copy *containers,
                  const char *const *outside, uint32_t outsides, struct arena *arena,
                  struct holders *out);

/*
 * May the container with this id, which is in the table, have its GPUs beside those of other pods?
 * Negative: no, with the GPU and the pod that has it, or since some of the others are not in the
 * table. A container that is not there has no GPUs.
 */
int holders_allow(const struct gpu_reading *reading, const struct containers_copy *containers,
                  struct text id, struct err *err) MUST_USE;

#endif
