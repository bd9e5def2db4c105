/*
 * pod_context - what people are told of a pod beside what it asks for: its scheduler, why that has
 * not scheduled it, and its controller. One block; NULL members are absent (pod.h).
 */
#ifndef MILLIGPU_POD_CONTEXT_H
#define MILLIGPU_POD_CONTEXT_H

#include "milligpu/core/facts/pod.h"

struct pod_context {
    /* of a bound pod all is absent but the scheduler, and that, too, if milligpud bound the pod */
    struct pod_scheduling scheduling;
    struct pod_owner owner;
    uint32_t bytes; /* of the block */
};

/* NULL: there is nothing to tell. To be freed with xfree(). */
struct pod_context *pod_context_new(const struct pod *pod) MUST_USE;
struct pod_context *pod_context_clone(const struct pod_context *from) MUST_USE;

#endif
