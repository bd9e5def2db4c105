#include "milligpu/bell.h"

#include <errno.h>
#include <pthread.h>

#include "milligpu/alloc.h"
#include "milligpu/clock.h"

struct bell {
    pthread_mutex_t lock; /* guards rung */
    pthread_cond_t ring;
    bool rung;
};

struct bell *bell_new(void)
{
    struct bell *bell = xcalloc(1, sizeof *bell);
    pthread_condattr_t monotonic;

    must(pthread_condattr_init(&monotonic) == 0);
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    must(pthread_cond_init(&bell->ring, &monotonic) == 0);
    must(pthread_mutex_init(&bell->lock, NULL) == 0);
    (void)pthread_condattr_destroy(&monotonic);
    return bell;
}

void bell_free(struct bell *bell)
{
    if (bell == NULL)
        return;
    must(pthread_cond_destroy(&bell->ring) == 0);
    must(pthread_mutex_destroy(&bell->lock) == 0);
    xfree(bell);
}

void bell_ring(struct bell *bell)
{
    must(pthread_mutex_lock(&bell->lock) == 0);
    bell->rung = true;
    must(pthread_cond_signal(&bell->ring) == 0);
    must(pthread_mutex_unlock(&bell->lock) == 0);
}

void bell_wait(struct bell *bell, int64_t wait_ms)
{
    must(wait_ms >= 0);

    const struct timespec until =
        clock_deadline(wait_ms < BELL_WAIT_MS_MAX ? wait_ms : BELL_WAIT_MS_MAX);
    int rc = 0;

    must(pthread_mutex_lock(&bell->lock) == 0);
    while (rc == 0 && !bell->rung)
        rc = pthread_cond_timedwait(&bell->ring, &bell->lock, &until);
    must(rc == 0 || rc == ETIMEDOUT);
    bell->rung = false;
    must(pthread_mutex_unlock(&bell->lock) == 0);
}
