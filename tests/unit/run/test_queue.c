#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "milligpu/run/clock.h"
#include "milligpu/run/queue.h"

#include "support/patience.h"
#include "support/test.h"

static const int64_t patience_ns = PATIENCE_S * INT64_C(1000000000);

static int item[16];

static void sleep_ms(int64_t ms)
{
    const struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&wait, NULL);
}

TEST(queue__returns_items_in_order)
{
    void *taken[16];
    struct queue *queue = queue_new(5);
    size_t next_in = 0;
    size_t next_out = 0;
    for (int round = 0; round < 50; round++) { /* many times around the buffer */
        for (int i = 0; i < 1 + round % 5; i++)
            if (queue_put(queue, &item[next_in % 16]))
                next_in++;
        const size_t count = queue_take(queue, taken, (size_t)(1 + round % 3), 0);
        for (size_t i = 0; i < count; i++)
            assert_ptr_equal(taken[i], &item[next_out++ % 16]);
        assert_int_equal(queue_depth(queue), next_in - next_out);
    }
    while (queue_take(queue, taken, 1, 0) == 1)
        assert_ptr_equal(taken[0], &item[next_out++ % 16]);
    assert_int_equal(next_in, next_out);
    queue_free(queue);
    queue_free(NULL);
}

TEST(queue__refuses_when_full_and_returns_nothing_when_empty)
{
    void *taken[4];
    struct queue *queue = queue_new(2);
    assert_true(queue_put(queue, &item[0]));
    assert_true(queue_put(queue, &item[1]));
    assert_false(queue_put(queue, &item[2]));
    assert_int_equal(queue_take(queue, taken, 4, 1000), 2);
    const int64_t start = clock_ns();
    assert_int_equal(queue_take(queue, taken, 4, 0), 0);
    assert_int_equal(queue_take(queue, taken, 4, 30), 0);
    assert_true(clock_ns() - start >= 29000000);
    queue_free(queue);
}

TEST(queue_wake__ends_one_wait_also_a_later_one)
{
    void *taken[1];
    struct queue *queue = queue_new(1);
    queue_wake(queue);
    queue_wake(queue);
    const int64_t start = clock_ns();
    assert_int_equal(queue_take(queue, taken, 1, 10 * PATIENCE_MS), 0);
    assert_true(clock_ns() - start < patience_ns);
    const int64_t again = clock_ns();
    assert_int_equal(queue_take(queue, taken, 1, 30), 0);
    assert_true(clock_ns() - again >= 29000000);
    queue_free(queue);
}

static void *wake_soon(void *arg)
{
    sleep_ms(20);
    queue_wake(arg);
    return NULL;
}

static void *put_soon(void *arg)
{
    sleep_ms(20);
    assert_true(queue_put(arg, &item[7]));
    return NULL;
}

static void *close_soon(void *arg)
{
    sleep_ms(20);
    queue_close(arg);
    return NULL;
}

TEST(queue_take__is_woken_by_wake_put_and_close)
{
    void *(*const act[])(void *) = {wake_soon, put_soon, close_soon};
    const size_t gets[] = {0, 1, 0};
    for (size_t i = 0; i < ARRAY_LEN(act); i++) {
        struct queue *queue = queue_new(1);
        pthread_t thread;
        void *taken[1];
        assert_int_equal(pthread_create(&thread, NULL, act[i], queue), 0);
        const int64_t start = clock_ns();
        assert_int_equal(queue_take(queue, taken, 1, 10 * PATIENCE_MS), gets[i]);
        assert_true(clock_ns() - start < patience_ns);
        assert_int_equal(pthread_join(thread, NULL), 0);
        queue_free(queue);
    }
}

TEST(queue_close__keeps_queued_items_and_refuses_more)
{
    void *taken[4];
    struct queue *queue = queue_new(4);
    assert_true(queue_put(queue, &item[0]));
    queue_close(queue);
    assert_false(queue_put(queue, &item[1]));
    assert_false(queue_put_wait(queue, &item[1]));
    assert_int_equal(queue_take(queue, taken, 4, 10000), 1);
    assert_ptr_equal(taken[0], &item[0]);
    /* A taker in a loop must not spin on a closed queue. */
    const int64_t start = clock_ns();
    assert_int_equal(queue_take(queue, taken, 4, 30), 0);
    assert_true(clock_ns() - start >= 29000000);
    queue_free(queue);
}

static void *put_more(void *arg)
{
    const struct queue_share share = {4, 1000};
    return queue_put_below(arg, &item[2], 1, share) ? &item[2] : NULL;
}

/* The last item may be larger than the bytes left. */
TEST(queue_put_below__waits_while_too_many_bytes_are_queued)
{
    const struct queue_share share = {4, 1000};
    struct queue *queue = queue_new(4);
    pthread_t thread;
    void *taken[1];
    void *result;
    assert_true(queue_put_below(queue, &item[0], 999, share));
    assert_true(queue_put_below(queue, &item[1], 5000, share));
    assert_int_equal(pthread_create(&thread, NULL, put_more, queue), 0);
    sleep_ms(20);
    assert_int_equal(queue_depth(queue), 2); /* it waits */
    assert_int_equal(queue_take(queue, taken, 1, 0), 1);
    sleep_ms(20);
    assert_int_equal(queue_depth(queue), 1);
    assert_true(queue_put(queue, &item[3])); /* queue_put() does not */
    assert_int_equal(queue_take(queue, taken, 1, 0), 1);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &item[2]);
    while (queue_take(queue, taken, 1, 0) == 1)
        continue;
    queue_free(queue);
}

static void *put_waiting(void *arg)
{
    return queue_put_wait(arg, &item[1]) ? &item[1] : NULL;
}

TEST(queue_put_wait__waits_for_room_or_for_close)
{
    for (int closes = 0; closes < 2; closes++) {
        struct queue *queue = queue_new(1);
        pthread_t thread;
        void *taken[1];
        void *result;
        assert_true(queue_put_wait(queue, &item[0]));
        assert_int_equal(pthread_create(&thread, NULL, put_waiting, queue), 0);
        sleep_ms(20);
        if (closes)
            queue_close(queue);
        else
            assert_int_equal(queue_take(queue, taken, 1, 0), 1);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, closes ? NULL : &item[1]);
        assert_int_equal(queue_take(queue, taken, 1, 0), 1);
        assert_ptr_equal(taken[0], closes ? &item[0] : &item[1]);
        queue_free(queue);
    }
}

enum { PRODUCERS = 4, EACH = 5000 };

struct producer {
    pthread_t thread;
    struct queue *queue;
    int numbers[EACH]; /* items are addresses in here, so their order is the order of addresses */
};

static void *put_below_two(void *arg)
{
    return queue_put_below(arg, &item[1], 0, (struct queue_share){2, 1}) ? &item[1] : NULL;
}

TEST(queue_put_below__waits_while_other_producers_continue)
{
    struct queue *queue = queue_new(4);
    pthread_t thread;
    void *taken[4];
    void *result;
    assert_true(queue_put_below(queue, &item[0], 0, (struct queue_share){2, 1}));
    assert_true(queue_put(queue, &item[2]));
    assert_int_equal(pthread_create(&thread, NULL, put_below_two, queue), 0);
    sleep_ms(20);
    assert_int_equal(queue_depth(queue), 2); /* it waits */
    assert_true(queue_put(queue, &item[3]));
    assert_int_equal(queue_take(queue, taken, 1, 0), 1);
    sleep_ms(20);
    assert_int_equal(queue_depth(queue), 2); /* it still does */
    assert_int_equal(queue_take(queue, taken, 1, 0), 1);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &item[1]);
    assert_int_equal(queue_take(queue, taken, 4, 0), 2);
    assert_ptr_equal(taken[0], &item[3]);
    assert_ptr_equal(taken[1], &item[1]);
    queue_free(queue);
}

static void *produce(void *arg)
{
    struct producer *producer = arg;

    for (int i = 0; i < EACH; i++)
        if (!queue_put_wait(producer->queue, &producer->numbers[i]))
            return NULL;
    return producer;
}

TEST(queue__keeps_the_order_of_each_producer)
{
    static struct producer producer[PRODUCERS];
    size_t seen[PRODUCERS] = {0};
    void *taken[32];
    size_t all = 0;
    struct queue *queue = queue_new(8);
    for (size_t p = 0; p < PRODUCERS; p++) {
        producer[p].queue = queue;
        assert_int_equal(pthread_create(&producer[p].thread, NULL, produce, &producer[p]), 0);
    }
    while (all < (size_t)PRODUCERS * EACH) {
        const size_t count = queue_take(queue, taken, 32, 5000);
        assert_true(count > 0);
        for (size_t i = 0; i < count; i++) {
            const int *number = taken[i];
            size_t p = 0;
            while (number < producer[p].numbers || number >= producer[p].numbers + EACH)
                assert_true(++p < PRODUCERS);
            assert_ptr_equal(number, &producer[p].numbers[seen[p]++]);
        }
        all += count;
    }
    for (size_t p = 0; p < PRODUCERS; p++)
        assert_int_equal(pthread_join(producer[p].thread, NULL), 0);
    assert_int_equal(queue_depth(queue), 0);
    queue_free(queue);
}
