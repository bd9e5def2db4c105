/*
 * holders - the holders of GPUs that are held whole, not by shares.
 *
 *     containers of others (containers.h) ---+
 *     GPUs with processes of no container ---+--> for each GPU of the reading, a word (inventory.h)
 *
 * GPUs given by kubelet come before those of a variable, and both before processes; of several pods
 * the first in the table is named. A pod holds its GPUs from its first container to the end of its
 * sandbox, also while no container runs.
 *
 * kubelet's device plugin ignores shares, so it can give away a GPU that has some. The second
 * container is refused: one that would have a shared GPU whole, or a share of a GPU that another
 * pod has whole. A container with shares can have whole GPUs, too.
 *
 * Pure.
 */
#ifndef MILLIGPU_HOLDERS_H
#define MILLIGPU_HOLDERS_H

#include "milligpu/nvml/nvml.h"

#include "containers.h"

struct holders {
    const char *by[GPUS_PER_NODE_MAX]; /* in the order of the reading; NULL: not held */
};

/*
 * outside: UUIDs of GPUs with processes of no container. *out borrows from arena and from static
 * memory.
 */
void holders_find(const struct gpu_reading *reading, const struct containers_copy *containers,
                  const char *const *outside, uint32_t outsides, struct arena *arena,
                  struct holders *out);

/*
 * Checks the GPUs of the container with this id against those of other pods. Negative: refused; err
 * names the GPU and the other pod, or says that containers are missing from the table. A container
 * that is not in the table has no GPUs, and is accepted.
 */
int holders_allow(const struct gpu_reading *reading, const struct containers_copy *containers,
                  struct text id, struct err *err) MUST_USE;

#endif
