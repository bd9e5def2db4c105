/* Wraps pthread mutexes and condition variables; a failing call aborts. Any thread. */
#include "milligpu/run/mutex.h"

#include <errno.h>

void mutex_init(struct mutex *mutex)
{
    pthread_mutexattr_t adaptive;

    must(pthread_mutexattr_init(&adaptive) == 0);
    must(pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP) == 0);
    must(pthread_mutex_init(&mutex->impl, &adaptive) == 0);
    must(pthread_mutexattr_destroy(&adaptive) == 0);
}

void mutex_done(struct mutex *mutex)
{
    must(pthread_mutex_destroy(&mutex->impl) == 0);
}

NO_THREAD_SAFETY_ANALYSIS void mutex_lock(struct mutex *mutex)
{
    must(pthread_mutex_lock(&mutex->impl) == 0);
}

NO_THREAD_SAFETY_ANALYSIS void mutex_unlock(struct mutex *mutex)
{
    must(pthread_mutex_unlock(&mutex->impl) == 0);
}

void condvar_init(struct condvar *condvar)
{
    pthread_condattr_t monotonic;

    must(pthread_condattr_init(&monotonic) == 0);
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    must(pthread_cond_init(&condvar->impl, &monotonic) == 0);
    must(pthread_condattr_destroy(&monotonic) == 0);
}

void condvar_done(struct condvar *condvar)
{
    must(pthread_cond_destroy(&condvar->impl) == 0);
}

void condvar_signal(struct condvar *condvar)
{
    must(pthread_cond_signal(&condvar->impl) == 0);
}

void condvar_broadcast(struct condvar *condvar)
{
    must(pthread_cond_broadcast(&condvar->impl) == 0);
}

void condvar_wait(struct condvar *condvar, struct mutex *mutex)
{
    must(pthread_cond_wait(&condvar->impl, &mutex->impl) == 0);
}

bool condvar_wait_until(struct condvar *condvar, struct mutex *mutex, const struct timespec *until)
{
    const int rc = pthread_cond_timedwait(&condvar->impl, &mutex->impl, until);

    must(rc == 0 || rc == ETIMEDOUT);
    return rc == 0;
}
