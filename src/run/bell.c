/* A flag under a mutex, with a condition variable. Rung by any thread, awaited by one. */
#include "milligpu/run/bell.h"

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/mutex.h"

struct bell {
    struct mutex lock; /* guards rung */
    struct condvar ring;
    bool rung;
};

struct bell *bell_new(void)
{
    struct bell *bell = xcalloc(1, sizeof *bell);

    condvar_init(&bell->ring);
    mutex_init(&bell->lock);
    return bell;
}

void bell_free(struct bell *bell)
{
    if (bell == NULL)
        return;
    condvar_done(&bell->ring);
    mutex_done(&bell->lock);
    xfree(bell);
}

void bell_ring(struct bell *bell)
{
    mutex_lock(&bell->lock);
    bell->rung = true;
    condvar_signal(&bell->ring);
    mutex_unlock(&bell->lock);
}

void bell_wait(struct bell *bell, int64_t wait_ms)
{
    must(wait_ms >= 0);

    const struct timespec until =
        clock_deadline(wait_ms < BELL_WAIT_MS_MAX ? wait_ms : BELL_WAIT_MS_MAX);

    mutex_lock(&bell->lock);
    while (!bell->rung && condvar_wait_until(&bell->ring, &bell->lock, &until))
        ;
    bell->rung = false;
    mutex_unlock(&bell->lock);
}
