#include <pthread.h>
#include <stdint.h>

#include "milligpu/run/clock.h"
#include "milligpu/run/mutex.h"

#include "support/patience.h"
#include "support/test.h"

enum { ROUNDS = 20000 };

struct counter {
    struct mutex lock;
    struct condvar changed;
    int count;
    bool may_end;
};

static struct mutex constant = MUTEX_INITIALIZER;

static void counter_init(struct counter *counter)
{
    *counter = (struct counter){.count = 0};
    mutex_init(&counter->lock);
    condvar_init(&counter->changed);
}

static void counter_done(struct counter *counter)
{
    condvar_done(&counter->changed);
    mutex_done(&counter->lock);
}

static void *count(void *arg)
{
    struct counter *counter = arg;

    for (int i = 0; i < ROUNDS; i++) {
        mutex_lock(&counter->lock);
        mutex_lock(&constant);
        counter->count++;
        mutex_unlock(&constant);
        mutex_unlock(&counter->lock);
    }
    return NULL;
}

TEST(mutex__is_held_by_one_thread)
{
    struct counter counter;
    pthread_t thread;
    counter_init(&counter);
    assert_int_equal(pthread_create(&thread, NULL, count, &counter), 0);
    (void)count(&counter);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(counter.count, 2 * ROUNDS);
    counter_done(&counter);
}

TEST(condvar__wait_ends_at_its_deadline)
{
    struct counter counter;
    const int64_t began_ns = clock_ns();
    const struct timespec until = clock_deadline(20);
    counter_init(&counter);
    mutex_lock(&counter.lock);
    while (condvar_wait_until(&counter.changed, &counter.lock, &until))
        ;
    mutex_unlock(&counter.lock);
    assert_true(clock_ns() - began_ns >= 20 * 1000000);
    counter_done(&counter);
}

/* Takes part in turns: waits without a deadline until the count is odd, and makes it even. */
static void *answer(void *arg)
{
    struct counter *counter = arg;

    mutex_lock(&counter->lock);
    while (!counter->may_end) {
        if (counter->count % 2 == 1) {
            counter->count++;
            condvar_broadcast(&counter->changed);
        }
        condvar_wait(&counter->changed, &counter->lock);
    }
    mutex_unlock(&counter->lock);
    return NULL;
}

TEST(condvar__signal_ends_a_wait_before_its_deadline)
{
    struct counter counter;
    pthread_t thread;
    bool in_time = true;
    const struct timespec until = clock_deadline(PATIENCE_S * INT64_C(1000));
    counter_init(&counter);
    assert_int_equal(pthread_create(&thread, NULL, answer, &counter), 0);
    mutex_lock(&counter.lock);
    for (int turn = 0; turn < 100; turn++) {
        counter.count++;
        condvar_signal(&counter.changed);
        while (counter.count % 2 == 1 && in_time)
            in_time = condvar_wait_until(&counter.changed, &counter.lock, &until);
    }
    counter.may_end = true;
    condvar_broadcast(&counter.changed);
    mutex_unlock(&counter.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(in_time);
    assert_int_equal(counter.count, 200);
    counter_done(&counter);
}
