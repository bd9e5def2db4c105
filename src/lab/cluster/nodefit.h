/*
 * nodefit - kube-scheduler's own filters, which choose the nodes to ask an extender about.
 *
 * In its order: unschedulable nodes, taints, nodeSelector and required node affinity, resources.
 * Pods and nodes are read once and checked often; invalid fields are refused with their path, as in
 * an API server.
 *
 * Pure. Pods borrow from their document; nodes are copied.
 */
#ifndef MILLIGPU_LAB_NODEFIT_H
#define MILLIGPU_LAB_NODEFIT_H

#include "milligpu/core/facts/node_filter.h"

#include "amounts.h"

struct fit_pod {
    /* including the default tolerations of the API server */
    struct node_demands demands;
    struct amount *requests;
};

struct fit_node {
    const char *name;
    struct node_taints taints;
    const struct document *labels; /* NULL if none */
    struct amount *allocatable;    /* status.allocatable */
    struct amount *used;           /* sum over the node's pods; "pods" is their number */
};

int fit_pod_read(struct arena *arena, const struct document *pod, struct fit_pod *out,
                 struct err *err) MUST_USE;
int fit_node_read(struct arena *arena, const struct document *node, struct fit_node *out,
                  struct err *err) MUST_USE;

/* Adds a pod to the node. */
void fit_node_take(struct arena *arena, struct fit_node *node, const struct amount *requests);

/*
 * True if the pod fits on the node; otherwise appends kube-scheduler's reason to why. The resource
 * `managed` is left to the extender. CPU, memory, ephemeral storage and pods are not limited if the
 * node does not list them.
 */
bool fit_check(const struct fit_pod *pod, const struct fit_node *node, const char *managed,
               struct strbuf *why);

/* True if the node has a taint PreferNoSchedule that the pod does not tolerate. */
bool fit_avoids(const struct fit_pod *pod, const struct fit_node *node);

#endif
