/*
 * A binary min-heap of borrowed nodes in an array. flow.c orders tickets with it, on the outbox
 * thread.
 */
#include "heap.h"

#include "milligpu/base/alloc.h"

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
    must(a->position != 0 && b->position != 0);
    return a->key != b->key ? a->key < b->key : a->serial < b->serial;
}

/* Places count from 1, so the children of n are 2n and 2n + 1; the array counts from 0. */
static void heap_set(struct heap *heap, size_t place, struct heap_node *node)
{
    must(place >= 1 && place <= heap->count);
    heap->node[place - 1] = node;
    node->position = place;
}

static void heap_rise(struct heap *heap, struct heap_node *node)
{
    must(heap->node[node->position - 1] == node);
    while (node->position > 1) {
        const size_t place = node->position;
        struct heap_node *above = heap->node[place / 2 - 1];
        if (!is_before(node, above))
            return;
        heap_set(heap, place, above);
        heap_set(heap, place / 2, node);
    }
}

static void heap_sink(struct heap *heap, struct heap_node *node)
{
    must(heap->node[node->position - 1] == node);
    for (size_t below; (below = node->position * 2) <= heap->count;) {
        const size_t place = node->position;
        if (below < heap->count && is_before(heap->node[below], heap->node[below - 1]))
            below++;
        if (!is_before(heap->node[below - 1], node))
            return;
        heap_set(heap, place, heap->node[below - 1]);
        heap_set(heap, below, node);
    }
}

void heap_done(struct heap *heap)
{
    xfree(heap->node);
    *heap = (struct heap){0};
}

void heap_put(struct heap *heap, struct heap_node *node, int64_t key)
{
    must(node->position == 0);
    heap->node = xgrow(heap->node, heap->count, &heap->capacity, sizeof(void *));
    heap->count++;
    node->key = key;
    node->serial = ++heap->serial;
    heap_set(heap, heap->count, node);
    heap_rise(heap, node);
}

void heap_take(struct heap *heap, struct heap_node *node)
{
    const size_t place = node->position;

    if (place == 0)
        return;
    must(place <= heap->count && heap->node[place - 1] == node);
    struct heap_node *last = heap->node[heap->count - 1];
    heap->count--;
    node->position = 0;
    if (last == node)
        return;
    heap_set(heap, place, last);
    /* The last node comes from another branch: it may belong above this place or below it. */
    heap_rise(heap, last);
    heap_sink(heap, last);
}

struct heap_node *heap_first(const struct heap *heap)
{
    must(heap->count <= heap->capacity);
    return heap->count > 0 ? heap->node[0] : NULL;
}
