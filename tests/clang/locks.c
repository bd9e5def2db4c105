/*
 * Wrong uses of locks that clang must report, and right ones: tests/clang/run compares what clang
 * says with the comments. It is compiled nowhere else.
 */
#include "milligpu/run/mutex.h"

struct counter {
    struct mutex lock;
    struct condvar changed;
    int count;
};

static struct mutex all = MUTEX_INITIALIZER;

static void count_one(struct counter *counter) REQUIRES(counter->lock)
{
    counter->count++;
    condvar_broadcast(&counter->changed);
}

static void count_slowly(struct counter *counter) EXCLUDES(counter->lock)
{
    mutex_lock(&counter->lock);
    count_one(counter);
    mutex_unlock(&counter->lock);
}

static int count_all(struct counter *counter) REQUIRES(all)
{
    count_slowly(counter);
    mutex_lock(&counter->lock);
    while (counter->count == 0)
        condvar_wait(&counter->changed, &counter->lock);
    const int count = counter->count;
    mutex_unlock(&counter->lock);
    return count;
}

int right(struct counter *counter);
int right(struct counter *counter)
{
    mutex_lock(&all);
    const int count = count_all(counter);
    mutex_unlock(&all);
    return count;
}

int returns_with_it(struct counter *counter);
int returns_with_it(struct counter *counter)
{
    mutex_lock(&counter->lock); /* expected-note {{mutex acquired here}} */
    if (counter->count > 0)
        return 1;
    mutex_unlock(&counter->lock);
    return 0;
} /* expected-warning {{mutex 'counter->lock' is not held on every path}} */

int helps_without_it(struct counter *counter);
int helps_without_it(struct counter *counter)
{
    count_one(counter);        /* expected-warning {{requires holding mutex 'counter->lock'}} */
    return count_all(counter); /* expected-warning {{requires holding mutex 'all'}} */
}

void waits_without_it(struct counter *counter);
void waits_without_it(struct counter *counter)
{
    condvar_wait(&counter->changed, /* expected-warning {{requires holding mutex}} */
                 &counter->lock);
}

void holds_the_other(struct counter *counter, struct counter *other);
void holds_the_other(struct counter *counter, struct counter *other)
{
    mutex_lock(&other->lock);
    count_one(counter); /* expected-warning {{requires holding mutex 'counter->lock'}} \
                           expected-note {{found near match 'other->lock'}} */
    mutex_unlock(&other->lock);
}

void locks_twice(struct counter *counter);
void locks_twice(struct counter *counter)
{
    mutex_lock(&counter->lock);   /* expected-note {{mutex acquired here}} */
    mutex_lock(&counter->lock);   /* expected-warning {{that is already held}} */
    count_slowly(counter);        /* expected-warning {{cannot call function 'count_slowly'}} */
    mutex_unlock(&counter->lock); /* expected-note {{mutex released here}} */
    mutex_unlock(&counter->lock); /* expected-warning {{that was not held}} */
}
