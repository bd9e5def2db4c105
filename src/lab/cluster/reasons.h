/*
 * reasons - the reasons why a pod was refused, each with its number of nodes.
 *
 * Every node is counted once, so the numbers add up to all nodes that were checked. Pure.
 */
#ifndef MILLIGPU_LAB_REASONS_H
#define MILLIGPU_LAB_REASONS_H

#include "milligpu/document/document.h"

struct node_reason {
    const char *text;
    /* a text of kube-scheduler, which begins with "node(s)", unlike those of milligpud */
    bool own;
    uint32_t nodes;
    struct node_reason *next;
};

struct node_reasons {
    struct arena *arena;
    struct node_reason *first;
    uint32_t nodes; /* total */
};

void reasons_add(struct node_reasons *reasons, const char *text, bool own, uint32_t nodes);

/*
 * Adds the nodes that filter refused. names: the nodes of the call; answer: its answer. Beyond
 * refusal_names nodes, an answer has one entry for many nodes; then verdicts (the nodes of the
 * pod's view in REST) has the reason of each node. verdicts: NULL if not available.
 */
void reasons_take(struct node_reasons *reasons, const struct document *names,
                  const struct document *answer, const struct document *verdicts);
/* True if reasons_take() counts exactly without verdicts. */
bool reasons_are_counted(const struct document *names, const struct document *answer);

/* "3 node(s) were unschedulable; 2 nodes: no GPU of model H100"; most nodes first. */
void reasons_write(struct node_reasons *reasons, struct strbuf *out);
/* [{"nodes":3,"text":"..."}] in the same order. */
struct document *reasons_document(struct node_reasons *reasons, struct arena *arena) MUST_USE;

#endif
