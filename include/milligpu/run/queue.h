/*
 * queue - a bounded queue of pointers: many producers, one consumer.
 *
 * One lock guards the ring and is held for a few instructions. Each producer decides what to do
 * about a full queue: webhooks answer with an error, the informer waits.
 */
#ifndef MILLIGPU_QUEUE_H
#define MILLIGPU_QUEUE_H

#include "milligpu/base/base.h"

struct queue;

struct queue *queue_new(size_t capacity) MUST_USE;
void queue_free(struct queue *queue); /* must be empty */

/* False if it is full. */
bool queue_put(struct queue *queue, void *item) MUST_USE;
/* Waits for room, or for queue_close(): then false. */
bool queue_put_wait(struct queue *queue, void *item) MUST_USE;
/*
 * Waits until less than this is in the queue: for producers with much to send, who must leave room
 * for others. bytes: the size of the item, as far as it is bounded; items put without a size count
 * as 0.
 */
struct queue_share {
    size_t items;
    size_t bytes;
};
bool queue_put_below(struct queue *queue, void *item, size_t bytes,
                     struct queue_share most) MUST_USE;

/* Up to max items in order; waits at most wait_ms for the first. 0 on time-out or queue_wake(). */
size_t queue_take(struct queue *queue, void **items, size_t max, int64_t wait_ms);

void queue_wake(struct queue *queue); /* queue_take() returns */
/*
 * Producers get false from now on; a waiting queue_take() returns, and may be called again for the
 * items that are left.
 */
void queue_close(struct queue *queue);
size_t queue_depth(const struct queue *queue);

#endif
