/*
 * mutex - mutexes and condition variables, with annotations for clang's thread safety analysis.
 *
 * clang (tests/clang/run) reports a path that returns with a lock that it took, and a call of a
 * REQUIRES function without the lock. Other compilers ignore the attributes.
 *
 *     static void queue_append(struct queue *queue, void *item) REQUIRES(queue->lock)
 *
 * A failing system call is a bug, and aborts. Mutexes are not recursive. A thread that finds one
 * taken looks at it some hundred times before it sleeps: locks are held for shorter than it takes
 * to fall asleep and to be woken.
 */
#ifndef MILLIGPU_MUTEX_H
#define MILLIGPU_MUTEX_H

#include <pthread.h>
#include <time.h>

#include "milligpu/base/base.h"

#ifdef __clang__
#define CAPABILITY(kind)          __attribute__((capability(kind)))
#define ACQUIRE(mutex)            __attribute__((acquire_capability(mutex)))
#define RELEASE(mutex)            __attribute__((release_capability(mutex)))
#define REQUIRES(mutex)           __attribute__((requires_capability(mutex)))
#define EXCLUDES(mutex)           __attribute__((locks_excluded(mutex)))
#define NO_THREAD_SAFETY_ANALYSIS __attribute__((no_thread_safety_analysis))
#else
#define CAPABILITY(kind)
#define ACQUIRE(mutex)
#define RELEASE(mutex)
#define REQUIRES(mutex)
#define EXCLUDES(mutex)
#define NO_THREAD_SAFETY_ANALYSIS
#endif

struct CAPABILITY("mutex") mutex {
    pthread_mutex_t impl;
};

/* For a mutex in static storage; it needs neither mutex_init() nor mutex_done(). */
#define MUTEX_INITIALIZER                                                                          \
    {                                                                                              \
        PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP                                                      \
    }

void mutex_init(struct mutex *mutex);
void mutex_done(struct mutex *mutex); /* no thread holds it */
void mutex_lock(struct mutex *mutex) ACQUIRE(mutex);
void mutex_unlock(struct mutex *mutex) RELEASE(mutex);

/* Deadlines are on the monotonic clock. */
struct condvar {
    pthread_cond_t impl;
};

void condvar_init(struct condvar *condvar);
void condvar_done(struct condvar *condvar); /* no thread waits */
void condvar_signal(struct condvar *condvar);
void condvar_broadcast(struct condvar *condvar);

/*
 * Both release the mutex while they wait, and may return spuriously: call them in a loop. The
 * second returns false after the deadline (clock_deadline()).
 */
void condvar_wait(struct condvar *condvar, struct mutex *mutex) REQUIRES(mutex);
bool condvar_wait_until(struct condvar *condvar, struct mutex *mutex, const struct timespec *until)
    REQUIRES(mutex);

#endif
