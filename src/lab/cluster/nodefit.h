/*
 * nodefit - which nodes kube-scheduler's own filters leave for a pod.
 *
 * kube-scheduler asks an extender only about these. The filters, in its order: unschedulable nodes,
 * taints, nodeSelector and required node affinity, resources. Pods and nodes are read once and
 * judged often; what cannot be read is refused with the path of the field, as an API server would.
 *
 * Pure. What is read borrows from the document, except for nodes, which are copied.
 */
#ifndef MILLIGPU_CTL_NODEFIT_H
#define MILLIGPU_CTL_NODEFIT_H

#include "milligpu/core/facts/node_filter.h"

#include "amounts.h"

struct fit_pod {
    /* With the tolerations that the API server gives every pod, unless it has its own. */
    struct node_demands demands;
    struct amount *requests;
};

struct fit_node {
    const char *name;
    struct node_taints taints;
    const struct document *labels; /* or NULL */
    struct amount *room;           /* status.allocatable */
    struct amount *used;           /* by the pods of the node; "pods" is their number */
};

int fit_pod_read(struct arena *arena, const struct document *pod, struct fit_pod *out,
                 struct err *err) MUST_USE;
int fit_node_read(struct arena *arena, const struct document *node, struct fit_node *out,
                  struct err *err) MUST_USE;

/* One more pod on this node. */
void fit_node_take(struct arena *arena, struct fit_node *node, const struct amount *requests);

/*
 * May the pod go to the node? If not, why gets the reason in kube-scheduler's words. Amounts of
 * managed are left to the extender. CPU, memory, ephemeral storage and pods that a node says
 * nothing about have no limit there.
 */
bool fit_check(const struct fit_pod *pod, const struct fit_node *node, const char *managed,
               struct strbuf *why);

/* Does the node have a taint of the effect PreferNoSchedule that the pod does not tolerate? */
bool fit_avoids(const struct fit_pod *pod, const struct fit_node *node);

#endif
