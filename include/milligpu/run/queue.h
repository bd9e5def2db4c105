/*
 * queue - a bounded queue of pointers: many producers, one consumer.
 *
 * One lock guards the ring and is held for a few instructions. If the queue is full, each producer
 * decides: webhooks answer with an error, the informer waits.
 */
#ifndef MILLIGPU_QUEUE_H
#define MILLIGPU_QUEUE_H

#include "milligpu/base/base.h"

struct queue;

struct queue *queue_new(size_t capacity) MUST_USE;
void queue_free(struct queue *queue); /* must be empty */

/* Returns false if the queue is full or closed. */
bool queue_put(struct queue *queue, void *item) MUST_USE;
/* Waits for room; false after queue_close(). */
bool queue_put_wait(struct queue *queue, void *item) MUST_USE;
/*
 * Waits until the queue holds less than most: for bulk producers, which must leave room for others.
 * bytes is the item's size; items put by other functions count as 0 bytes. False after
 * queue_close().
 */
struct queue_share {
    size_t items;
    size_t bytes;
};
bool queue_put_below(struct queue *queue, void *item, size_t bytes,
                     struct queue_share most) MUST_USE;

/* Takes up to max items in order; waits at most wait_ms. 0 on timeout, queue_wake(), or close. */
size_t queue_take(struct queue *queue, void **items, size_t max, int64_t wait_ms);

void queue_wake(struct queue *queue); /* makes a waiting or the next queue_take() return */
/* Makes producers get false and a waiting queue_take() return; remaining items can be taken. */
void queue_close(struct queue *queue);
size_t queue_depth(const struct queue *queue);

#endif
