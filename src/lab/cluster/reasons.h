/*
 * reasons - why a pod was placed on no node: each reason with the number of its nodes.
 *
 * Every node is counted once, so the numbers add up to all nodes that were judged. Pure.
 */
#ifndef MILLIGPU_CTL_REASONS_H
#define MILLIGPU_CTL_REASONS_H

#include "milligpu/document/document.h"

struct node_reason {
    const char *text;
    /* kube-scheduler's own texts say "node(s)" themselves; those of milligpud do not */
    bool own;
    uint32_t nodes;
    struct node_reason *next;
};

struct node_reasons {
    struct arena *arena;
    struct node_reason *first;
    uint32_t nodes; /* in total */
};

void reasons_add(struct node_reasons *reasons, const char *text, bool own, uint32_t nodes);

/*
 * The nodes that filter refused. names: those that it was asked about; answer: its answer. An
 * answer beyond refusal_names nodes has one entry for many nodes; verdicts, the nodes of the view
 * of the pod, then says which node has which reason. NULL: there is no such view.
 */
void reasons_take(struct node_reasons *reasons, const struct document *names,
                  const struct document *answer, const struct document *verdicts);
/* Can reasons_take() count exactly without the view of the pod? */
bool reasons_are_counted(const struct document *names, const struct document *answer);

/* "3 node(s) were unschedulable; 2 nodes: no GPU of model H100": most first. */
void reasons_write(struct node_reasons *reasons, struct strbuf *out);
/* [{"nodes":3,"text":"..."}] in the same order. */
struct document *reasons_document(struct node_reasons *reasons, struct arena *arena) MUST_USE;

#endif
