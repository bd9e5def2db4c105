/*
 * A bounded queue: many producers, one taker (the writer). One lock guards the ring; two
 * conditions, for the taker and for producers that wait. A producer that may not wait (HTTP
 * threads) gets false when it is full.
 */
#include "milligpu/queue.h"

#include <errno.h>
#include <pthread.h>

#include "milligpu/alloc.h"
#include "milligpu/clock.h"

struct queue {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t filled;
    pthread_cond_t drained;
    struct place {
        void *item;
        size_t bytes;
    } * ring;
    size_t bytes; /* of all items in it, as far as their producers gave a size */
    size_t capacity;
    size_t first;
    size_t count;
    /* the next queue_take() returns without waiting; cleared by it */
    bool woken;
    bool closed;
};

struct queue *queue_new(size_t capacity)
{
    struct queue *queue = xcalloc(1, sizeof *queue);
    pthread_condattr_t monotonic;

    must(capacity > 0);
    must(pthread_condattr_init(&monotonic) == 0);
    /* A step of the wall clock must not lengthen a wait. */
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    must(pthread_mutex_init(&queue->lock, NULL) == 0);
    must(pthread_cond_init(&queue->filled, &monotonic) == 0);
    must(pthread_cond_init(&queue->drained, &monotonic) == 0);
    (void)pthread_condattr_destroy(&monotonic);
    queue->ring = xcalloc(capacity, sizeof *queue->ring);
    queue->capacity = capacity;
    return queue;
}

void queue_free(struct queue *queue)
{
    if (queue == NULL)
        return;
    must(queue->count == 0);
    (void)pthread_cond_destroy(&queue->filled);
    (void)pthread_cond_destroy(&queue->drained);
    (void)pthread_mutex_destroy(&queue->lock);
    xfree(queue->ring);
    xfree(queue);
}

static void queue_lock(struct queue *queue)
{
    must(pthread_mutex_lock(&queue->lock) == 0);
}

static void queue_unlock(struct queue *queue)
{
    must(pthread_mutex_unlock(&queue->lock) == 0);
}

/* Under the lock. A signal is enough: there is one taker. */
static void queue_append(struct queue *queue, void *item, size_t bytes)
{
    must(queue->count < queue->capacity);

    queue->ring[(queue->first + queue->count++) % queue->capacity] = (struct place){item, bytes};
    queue->bytes += bytes;
    must(pthread_cond_signal(&queue->filled) == 0);
}

bool queue_put(struct queue *queue, void *item)
{
    must(item != NULL);

    queue_lock(queue);
    const bool fits = !queue->closed && queue->count < queue->capacity;
    if (fits)
        queue_append(queue, item, 0);
    queue_unlock(queue);
    return fits;
}

/* For a producer that may use the whole queue: the outbox, whose results must not be lost. */
bool queue_put_wait(struct queue *queue, void *item)
{
    return queue_put_below(queue, item, 0, (struct queue_share){queue->capacity, SIZE_MAX});
}

bool queue_put_below(struct queue *queue, void *item, size_t bytes, struct queue_share most)
{
    must(item != NULL);
    must(most.items > 0 && most.items <= queue->capacity);
    must(most.bytes > 0);

    queue_lock(queue);
    while (!queue->closed && (queue->count >= most.items || queue->bytes >= most.bytes))
        must(pthread_cond_wait(&queue->drained, &queue->lock) == 0);
    const bool open = !queue->closed;
    if (open)
        queue_append(queue, item, bytes);
    queue_unlock(queue);
    return open;
}

/*
 * Under the lock. Returns early for queue_wake() and queue_close(), and at the deadline at the
 * latest, however often the condition wakes up for nothing.
 */
static void await_first(struct queue *queue, int64_t wait_ms)
{
    const struct timespec until = clock_deadline(wait_ms);

    must(wait_ms > 0);
    while (queue->count == 0 && !queue->woken) {
        const int rc = pthread_cond_timedwait(&queue->filled, &queue->lock, &until);
        must(rc == 0 || rc == ETIMEDOUT);
        if (rc == ETIMEDOUT)
            return;
    }
}

size_t queue_take(struct queue *queue, void **items, size_t max, int64_t wait_ms)
{
    size_t taken = 0;

    must(max > 0);
    must(wait_ms >= 0);
    queue_lock(queue);
    if (wait_ms > 0)
        await_first(queue, wait_ms);
    queue->woken = false;
    while (taken < max && queue->count > 0) {
        items[taken++] = queue->ring[queue->first].item;
        queue->bytes -= queue->ring[queue->first].bytes;
        queue->first = (queue->first + 1) % queue->capacity;
        queue->count--;
    }
    /* A broadcast, because producers wait for different amounts of room on one condition. */
    if (taken > 0)
        must(pthread_cond_broadcast(&queue->drained) == 0);
    queue_unlock(queue);
    return taken;
}

void queue_wake(struct queue *queue)
{
    queue_lock(queue);
    queue->woken = true;
    must(pthread_cond_signal(&queue->filled) == 0);
    queue_unlock(queue);
}

void queue_close(struct queue *queue)
{
    queue_lock(queue);
    queue->closed = true;
    queue->woken = true; /* reported once: whoever takes what is left may wait for it, not spin */
    must(pthread_cond_broadcast(&queue->drained) == 0);
    must(pthread_cond_broadcast(&queue->filled) == 0);
    queue_unlock(queue);
}

size_t queue_bytes(const struct queue *queue)
{
    struct queue *open = (struct queue *)(uintptr_t)queue; /* const: see queue_depth() */

    queue_lock(open);
    const size_t bytes = open->bytes;
    must(open->count > 0 || bytes == 0);
    queue_unlock(open);
    return bytes;
}

size_t queue_depth(const struct queue *queue)
{
    /* The lock is not part of the state that a caller sees. */
    struct queue *open = (struct queue *)(uintptr_t)queue;

    queue_lock(open);
    const size_t depth = open->count;
    queue_unlock(open);
    return depth;
}
