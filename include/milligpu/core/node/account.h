/*
 * account - the partition of a GPU: each milli is in exactly one part.
 *
 *   total = used + reserved + free + held + all closed parts
 *
 * The total of a GPU is its size, or the amount that pods hold of it if that is more (the GPU
 * shrank, or its size is unknown). Held amounts are counted first; the rest goes to the first part
 * of the table that applies, so the parts add up on every node.
 *
 * Pure.
 */
#ifndef MILLIGPU_ACCOUNT_H
#define MILLIGPU_ACCOUNT_H

#include "milligpu/core/node/node.h"

/*
 * held: GPUs named by a note (node.h). If it is unknown which GPUs the pods of the other resource
 * hold, the first healthy GPUs of the node without shares count as held.
 */
#define ACCOUNT_TABLE(X)                                                                           \
    X(ACCOUNT_USED, "used")         /* held by bound pods */                                       \
    X(ACCOUNT_RESERVED, "reserved") /* held by reservations of pods that are not bound yet */      \
    X(ACCOUNT_FREE, "free")         /* available to new shares */                                  \
    X(ACCOUNT_HELD, "held")         /* whole GPUs of pods of the other resource or of processes */ \
    X(ACCOUNT_GONE, "gone")         /* the Node object is gone */                                  \
    X(ACCOUNT_ABSENT, "absent")     /* the node does not show the GPU now */                       \
    X(ACCOUNT_DUPLICATE, "duplicate") /* another node showed this UUID first */                    \
    X(ACCOUNT_UNSURE, "unsure")       /* indexes moved, and pods may hold this GPU by its index */ \
    X(ACCOUNT_UNREADABLE, "unreadable") /* the node's facts about its GPUs are unreadable */       \
    X(ACCOUNT_OVER, "over")             /* charged beyond its milli or MiB */                      \
    X(ACCOUNT_UNHEALTHY, "unhealthy")   /* reported unhealthy */                                   \
    X(ACCOUNT_CORDONED, "cordoned")     /* cordoned, by milligpu.io/cordon or kubectl cordon */    \
    X(ACCOUNT_CROWDED, "crowded")       /* CHARGES_PER_GPU_MAX pods share the GPU */               \
    X(ACCOUNT_MIXED, "mixed")       /* the node has a pod with whole GPUs of the other resource */ \
    X(ACCOUNT_UNPLACED, "unplaced") /* the node has a pod with unknown GPUs */                     \
    X(ACCOUNT_PLUGIN, "plugin")     /* the node's device plugin offers no GPU now */               \
    X(ACCOUNT_AGENT, "agent")       /* the node's agent does not vouch for its GPUs now */         \
    X(ACCOUNT_LEAVING, "leaving")   /* an autoscaler is about to delete the node */                \
    X(ACCOUNT_NOT_READY, "not_ready") /* the node is not Ready */                                  \
    X(ACCOUNT_TAINTED, "tainted")     /* the node has a taint that no known pod tolerates */       \
    X(ACCOUNT_TAINTS_UNREADABLE, "taints_unreadable") /* the node's taints cannot be read */

enum account_part {
#define X(code, word) code,
    ACCOUNT_TABLE(X)
#undef X
        ACCOUNT_PARTS
};

/* The first closed part: not held, and not available to new shares. */
enum { ACCOUNT_CLOSED_FIRST = ACCOUNT_GONE };

struct gpu_account {
    uint64_t total_milli;
    uint64_t beyond_milli; /* excess of used and reserved over the size */
    uint64_t milli[ACCOUNT_PARTS];
};

/* gpu must belong to node. */
void gpu_account(const struct node *node, const struct gpu *gpu, struct gpu_account *out);

const char *account_name(enum account_part part);

#endif
