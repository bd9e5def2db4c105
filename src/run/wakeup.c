/* A flag under a mutex, with a condition variable. Set by any thread, awaited by one. */
#include "milligpu/run/wakeup.h"

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/mutex.h"

struct wakeup {
    struct mutex lock; /* guards is_set */
    struct condvar changed;
    bool is_set;
};

struct wakeup *wakeup_new(void)
{
    struct wakeup *wakeup = xcalloc(1, sizeof *wakeup);

    condvar_init(&wakeup->changed);
    mutex_init(&wakeup->lock);
    return wakeup;
}

void wakeup_free(struct wakeup *wakeup)
{
    if (wakeup == NULL)
        return;
    condvar_done(&wakeup->changed);
    mutex_done(&wakeup->lock);
    xfree(wakeup);
}

void wakeup_signal(struct wakeup *wakeup)
{
    mutex_lock(&wakeup->lock);
    wakeup->is_set = true;
    condvar_signal(&wakeup->changed);
    mutex_unlock(&wakeup->lock);
}

void wakeup_wait(struct wakeup *wakeup, int64_t wait_ms)
{
    must(wait_ms >= 0);

    const struct timespec until =
        clock_deadline(wait_ms < WAKEUP_WAIT_MS_MAX ? wait_ms : WAKEUP_WAIT_MS_MAX);

    mutex_lock(&wakeup->lock);
    while (!wakeup->is_set && condvar_wait_until(&wakeup->changed, &wakeup->lock, &until))
        ;
    wakeup->is_set = false;
    mutex_unlock(&wakeup->lock);
}
