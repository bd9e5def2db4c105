/*
 * gpus_annotation - the annotation milligpu.io/gpus of a Node, written from a reading.
 *
 *     [{"uuid":"GPU-...","index":0,"milli":1000,"mib":81559,"model":"NVIDIA H100 80GB HBM3",
 *       "numa":0,"health":"healthy","nvlink":["GPU-..."],"held":"pod:UID"}, ...]
 *
 * with "reason" (a sentence) and "since" (RFC 3339) where it is not healthy, and with "reason"
 * alone where it is held by "unknown": then no container could be given it.
 *
 * In the order of the index. Nothing in it changes unless a GPU comes, goes, falls ill, recovers,
 * or is taken or given back whole, so the same bytes mean that no patch is needed. What it says is
 * read back by inventory.h: indexes are distinct (a lost GPU whose index another one has now gets
 * the next one that is free), health is one of HEALTH_WORDS, and a link is named once, by the GPU
 * that comes first. It fits into ANNOTATION_BYTES_MAX, whatever the GPUs are.
 *
 * A GPU in MIG mode is held by "mig", whoever has a part of it: shares are of whole GPUs.
 *
 * Pure.
 */
#ifndef MILLIGPU_GPUS_ANNOTATION_H
#define MILLIGPU_GPUS_ANNOTATION_H

#include "milligpu/base/strbuf.h"
#include "milligpu/nvml/nvml.h"

/*
 * held: for each GPU of the reading, by whom it is held whole (a word of hold_kind()); NULL: by
 * nobody. why: for each, the reason of a healthy GPU that is held, a sentence for people; NULL: it
 * has none.
 *
 * False, and nothing is written, if the reading says nothing of the GPUs: starting, or a driver
 * that was never there. Then an annotation from before is better than an empty one, which would
 * mean that the node has no GPUs any more.
 */
bool gpus_annotation_write(const struct gpu_reading *reading, const char *const *held,
                           const char *const *why, struct strbuf *out) MUST_USE;

/* The word of HEALTH_WORDS that stands for it. */
const char *gpus_annotation_health(enum gpu_health health);

#endif
