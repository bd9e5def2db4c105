/*
 * gpus_annotation - the annotation milligpu.io/gpus of a Node, written from a reading.
 *
 *     [{"uuid":"GPU-...","index":0,"milli":1000,"mib":81559,"model":"NVIDIA H100 80GB HBM3",
 *       "numa":0,"health":"healthy","nvlink":["GPU-..."],"held":"pod:UID"}, ...]
 *
 * with "reason" (a sentence) and "since" (RFC 3339) unless it is healthy, and with "reason" alone
 * if it is held by "unknown": no container can get it.
 *
 * Sorted by index. It changes only if a GPU appears, disappears, fails, recovers, or is taken or
 * returned whole; identical bytes need no patch. inventory.h parses it: indexes are distinct (a
 * lost GPU gets the next free index if another GPU has its index now), health is one of
 * HEALTH_WORDS, and only the first GPU of a link names it. Always fits into ANNOTATION_BYTES_MAX.
 *
 * A GPU in MIG mode is held by "mig", since MIG instances cannot be shared.
 *
 * Pure.
 */
#ifndef MILLIGPU_GPUS_ANNOTATION_H
#define MILLIGPU_GPUS_ANNOTATION_H

#include "milligpu/base/strbuf.h"
#include "milligpu/nvml/nvml.h"

/*
 * For each GPU of the reading: held is its holder (a word of hold_kind()), NULL if it is not held
 * whole; why is the reason of a healthy GPU that is held, a sentence for people, or NULL.
 *
 * Returns false, and writes nothing, if the reading has no information about GPUs: while starting,
 * or without a driver so far. An empty annotation would mean that the node has no GPUs any more.
 */
bool gpus_annotation_write(const struct gpu_reading *reading, const char *const *held,
                           const char *const *why, struct strbuf *out) MUST_USE;

#endif
