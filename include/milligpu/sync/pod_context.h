/*
 * pod_context - a pod's scheduler, its reason for not scheduling the pod, and the pod's controller.
 *
 * Shown to people beside the request. One block of memory; NULL members are absent (pod.h).
 */
#ifndef MILLIGPU_POD_CONTEXT_H
#define MILLIGPU_POD_CONTEXT_H

#include "milligpu/core/facts/pod.h"

struct pod_context {
    /* for a bound pod only the scheduler, and nothing if milligpud bound the pod */
    struct pod_scheduling scheduling;
    struct pod_owner owner;
    uint32_t bytes; /* size of the block */
};

/* Returns NULL if a bound pod has neither scheduler nor controller. Free with xfree(). */
struct pod_context *pod_context_new(const struct pod *pod) MUST_USE;
struct pod_context *pod_context_clone(const struct pod_context *from) MUST_USE;

#endif
