/*
 * heap - what is smallest, of things that stand in it by a node of their own.
 *
 * A binary heap of borrowed nodes: each knows its place, so that any of them can be taken out.
 * Equal keys leave in the order in which they came.  Not thread-safe.
 */
#ifndef MILLIGPU_HEAP_H
#define MILLIGPU_HEAP_H

#include "milligpu/base.h"

struct heap_node {
    int64_t key;     /* set by heap_put */
    uint64_t serial; /* of its coming */
    size_t place;    /* from 1; 0: it stands in none */
    void *owner;     /* set by the owner, once */
};

struct heap {
    struct heap_node **node;
    size_t count;
    size_t capacity;
    uint64_t serial;
};

void heap_done(struct heap *heap); /* nodes stay their owners'; a zeroed heap is an empty one */
void heap_put(struct heap *heap, struct heap_node *node, int64_t key);
void heap_take(struct heap *heap, struct heap_node *node); /* fine if it stands in none */
struct heap_node *heap_first(const struct heap *heap);     /* the smallest; NULL: empty */

#endif
