/*
 * The number of the last COMMIT, with a condition variable. Set by the writer; the thread that
 * feeds streams of events waits for a new one.
 */
#include "milligpu/spine/commits.h"

#include "milligpu/run/clock.h"
#include "milligpu/run/mutex.h"

struct commits {
    struct mutex lock; /* guards seq and ended */
    struct condvar changed;
    uint64_t seq;
    bool ended;
};

struct commits *commits_new(void)
{
    struct commits *commits = xcalloc(1, sizeof *commits);

    condvar_init(&commits->changed);
    mutex_init(&commits->lock);
    return commits;
}

void commits_free(struct commits *commits)
{
    if (commits == NULL)
        return;
    condvar_done(&commits->changed);
    mutex_done(&commits->lock);
    xfree(commits);
}

void commits_post(struct commits *commits, uint64_t seq)
{
    mutex_lock(&commits->lock);
    commits->seq = seq;
    condvar_broadcast(&commits->changed);
    mutex_unlock(&commits->lock);
}

uint64_t commits_newest(struct commits *commits)
{
    mutex_lock(&commits->lock);
    const uint64_t newest = commits->seq;
    mutex_unlock(&commits->lock);
    return newest;
}

uint64_t commits_wait(struct commits *commits, uint64_t seen, int64_t wait_ms)
{
    const struct timespec until = clock_deadline(wait_ms);

    mutex_lock(&commits->lock);
    while (!commits->ended && commits->seq == seen &&
           condvar_wait_until(&commits->changed, &commits->lock, &until))
        ;
    const uint64_t newest = commits->seq;
    mutex_unlock(&commits->lock);
    return newest;
}

void commits_end(struct commits *commits)
{
    mutex_lock(&commits->lock);
    commits->ended = true;
    condvar_broadcast(&commits->changed);
    mutex_unlock(&commits->lock);
}
