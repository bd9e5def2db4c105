/*
 * host - CPU and memory, of a node or of a pod.
 *
 * kube-scheduler counts and grants them. Here they only order placements: GPU room that no pod can
 * use for lack of CPU is a fragment (fragment.h).
 */
#ifndef MILLIGPU_HOST_H
#define MILLIGPU_HOST_H

#include <stdint.h>

struct host {
    uint32_t cpu_milli; /* thousandths of a core */
    uint32_t memory_mib;
};

/* The free amount of a node if it is unknown: never runs out. Known amounts are below it. */
#define HOST_UNKNOWN UINT32_MAX

enum { HOST_MIB_BYTES = 1024 * 1024 };

/* Clamps an outside amount to 0 .. HOST_UNKNOWN - 1. */
static inline uint32_t host_amount(int64_t amount)
{
    if (amount < 0)
        return 0;
    return amount < HOST_UNKNOWN ? (uint32_t)amount : HOST_UNKNOWN - 1;
}

#endif
