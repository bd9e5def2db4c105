/*
 * heap - a binary min-heap of borrowed nodes.
 *
 * Each node stores its place, so that any node can be removed. Nodes with equal keys are in FIFO
 * order. Not thread-safe.
 */
#ifndef MILLIGPU_HEAP_H
#define MILLIGPU_HEAP_H

#include "milligpu/base/base.h"

struct heap_node {
    int64_t key;     /* set by heap_put */
    uint64_t serial; /* order of arrival */
    size_t position; /* position from 1; 0: in no heap */
    void *owner;     /* set by the owner, once */
};

struct heap {
    struct heap_node **node;
    size_t count;
    size_t capacity;
    uint64_t serial;
};

/* Frees the heap, not its nodes. A zeroed heap is empty. */
void heap_done(struct heap *heap);
void heap_put(struct heap *heap, struct heap_node *node, int64_t key);
/* Removes the node; no effect if it is in no heap. */
void heap_take(struct heap *heap, struct heap_node *node);
struct heap_node *heap_first(const struct heap *heap); /* the smallest; NULL if empty */

#endif
