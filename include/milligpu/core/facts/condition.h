/*
 * condition - what a PodScheduled condition says, in one word.
 *
 * kube-scheduler writes "0/3 nodes are available: 1 node(s) had untolerated taint {...}, 2
 * Insufficient cpu." and then what preemption would do. The kind is that of most nodes. Plugins of
 * others write what they like.
 *
 * For people only. Pure.
 */
#ifndef MILLIGPU_CONDITION_H
#define MILLIGPU_CONDITION_H

#include "milligpu/base/base.h"

/* code, word */
#define CONDITION_TABLE(X)                                                                         \
    X(CONDITION_SHARES, "shares") /* our resource is missing on the node */                        \
    X(CONDITION_TAINT, "taint")                                                                    \
    X(CONDITION_CORDONED, "cordoned")                                                              \
    X(CONDITION_SELECTOR, "selector") /* node selector, node affinity or node name */              \
    X(CONDITION_AFFINITY, "affinity") /* to pods */                                                \
    X(CONDITION_SPREAD, "spread")                                                                  \
    X(CONDITION_VOLUME, "volume")                                                                  \
    X(CONDITION_CLAIM, "claim") /* dynamic resource allocation */                                  \
    X(CONDITION_PORTS, "ports")                                                                    \
    X(CONDITION_RESOURCES, "resources")                                                            \
    X(CONDITION_OTHER, "other")

enum condition_kind {
    CONDITION_NONE, /* there is none */
#define X(code, word) code,
    CONDITION_TABLE(X)
#undef X
        CONDITIONS
};

const char *condition_word(enum condition_kind kind); /* "" for CONDITION_NONE */

struct condition {
    enum condition_kind kind;
    /*
     * kube-scheduler's own filters or a scheduling gate are in the way, so nobody asks an extender.
     * False where our resource is missing on some node: that is for an extender to judge.
     */
    bool is_explained;
};

/* reason and message as in the condition, clipped (pod.h); NULL: absent. resource: ours. */
struct condition condition_read(const char *reason, const char *message, const char *resource);

#endif
