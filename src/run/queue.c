/*
 * A bounded queue: many producers, one consumer (the writer). One lock guards the ring; one
 * condition is for the consumer, one for waiting producers. Producers that must not wait (HTTP
 * threads) get false if it is full.
 */
#include "milligpu/run/queue.h"

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/mutex.h"

struct queue {
    struct mutex lock; /* guards everything below */
    struct condvar filled;
    struct condvar drained;
    struct queue_entry {
        void *item;
        size_t bytes;
    } * ring;
    size_t bytes; /* sum of the items' sizes; 0 for items put without one */
    size_t capacity;
    size_t first;
    size_t count;
    bool woken; /* the next queue_take() returns without waiting, and clears it */
    bool closed;
};

struct queue *queue_new(size_t capacity)
{
    struct queue *queue = xcalloc(1, sizeof *queue);

    must(capacity > 0);
    mutex_init(&queue->lock);
    condvar_init(&queue->filled);
    condvar_init(&queue->drained);
    queue->ring = xcalloc(capacity, sizeof *queue->ring);
    queue->capacity = capacity;
    return queue;
}

void queue_free(struct queue *queue)
{
    if (queue == NULL)
        return;
    must(queue->count == 0);
    condvar_done(&queue->filled);
    condvar_done(&queue->drained);
    mutex_done(&queue->lock);
    xfree(queue->ring);
    xfree(queue);
}

static void queue_append(struct queue *queue, void *item, size_t bytes) REQUIRES(queue->lock)
{
    must(queue->count < queue->capacity);

    queue->ring[(queue->first + queue->count++) % queue->capacity] =
        (struct queue_entry){item, bytes};
    queue->bytes += bytes;
}

/*
 * Signals without the lock, which the consumer takes first: otherwise it may wake up only to wait
 * for it. A signal is enough for one consumer.
 */
static bool queue_appended(struct queue *queue, bool appended)
{
    if (appended)
        condvar_signal(&queue->filled);
    return appended;
}

bool queue_put(struct queue *queue, void *item)
{
    must(item != NULL);

    mutex_lock(&queue->lock);
    const bool fits = !queue->closed && queue->count < queue->capacity;
    if (fits)
        queue_append(queue, item, 0);
    mutex_unlock(&queue->lock);
    return queue_appended(queue, fits);
}

/* May fill the whole queue: used by the outbox, whose results must not be lost. */
bool queue_put_wait(struct queue *queue, void *item)
{
    return queue_put_below(queue, item, 0, (struct queue_share){queue->capacity, SIZE_MAX});
}

bool queue_put_below(struct queue *queue, void *item, size_t bytes, struct queue_share most)
{
    must(item != NULL);
    must(most.items > 0 && most.items <= queue->capacity);
    must(most.bytes > 0);

    mutex_lock(&queue->lock);
    while (!queue->closed && (queue->count >= most.items || queue->bytes >= most.bytes))
        condvar_wait(&queue->drained, &queue->lock);
    const bool open = !queue->closed;
    if (open)
        queue_append(queue, item, bytes);
    mutex_unlock(&queue->lock);
    return queue_appended(queue, open);
}

/*
 * Waits for the first item; returns early for queue_wake() and queue_close(), and at the deadline
 * despite spurious wakeups.
 */
static void await_first(struct queue *queue, int64_t wait_ms) REQUIRES(queue->lock)
{
    const struct timespec until = clock_deadline(wait_ms);

    must(wait_ms > 0);
    while (queue->count == 0 && !queue->woken &&
           condvar_wait_until(&queue->filled, &queue->lock, &until))
        ;
}

size_t queue_take(struct queue *queue, void **items, size_t max, int64_t wait_ms)
{
    size_t taken = 0;

    must(max > 0);
    must(wait_ms >= 0);
    mutex_lock(&queue->lock);
    if (wait_ms > 0)
        await_first(queue, wait_ms);
    queue->woken = false;
    while (taken < max && queue->count > 0) {
        items[taken++] = queue->ring[queue->first].item;
        queue->bytes -= queue->ring[queue->first].bytes;
        queue->first = (queue->first + 1) % queue->capacity;
        queue->count--;
    }
    /* A broadcast: producers wait for different amounts of room on one condition. */
    if (taken > 0)
        condvar_broadcast(&queue->drained);
    mutex_unlock(&queue->lock);
    return taken;
}

void queue_wake(struct queue *queue)
{
    mutex_lock(&queue->lock);
    queue->woken = true;
    condvar_signal(&queue->filled);
    mutex_unlock(&queue->lock);
}

void queue_close(struct queue *queue)
{
    mutex_lock(&queue->lock);
    queue->closed = true;
    queue->woken = true; /* only once: later calls may wait for remaining items, and do not spin */
    condvar_broadcast(&queue->drained);
    condvar_broadcast(&queue->filled);
    mutex_unlock(&queue->lock);
}

size_t queue_depth(const struct queue *queue)
{
    /* The lock is not part of the visible state, so const may be cast away. */
    struct queue *open = (struct queue *)(uintptr_t)queue;

    mutex_lock(&open->lock);
    const size_t depth = open->count;
    mutex_unlock(&open->lock);
    return depth;
}
