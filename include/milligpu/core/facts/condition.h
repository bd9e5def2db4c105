/*
 * condition - the kind of a PodScheduled condition, in one word.
 *
 * kube-scheduler writes "0/3 nodes are available: 1 node(s) had untolerated taint {...}, 2
 * Insufficient cpu.", followed by the result of preemption. The kind is the one of most nodes.
 * Third-party plugins write free text.
 *
 * For display only. Pure.
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
    CONDITION_NONE, /* no condition */
#define X(code, word) code,
    CONDITION_TABLE(X)
#undef X
        CONDITIONS
};

const char *condition_word(enum condition_kind kind); /* "" for CONDITION_NONE */

struct condition {
    enum condition_kind kind;
    /*
     * kube-scheduler's own filters or a scheduling gate reject the pod, so no extender is called.
     * False if our resource is missing on some node: an extender decides there.
     */
    bool is_explained;
};

/* reason and message: as in the condition, clipped (pod.h); NULL: absent. resource: ours. */
struct condition condition_read(const char *reason, const char *message, const char *resource);

#endif
