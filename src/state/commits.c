/*
 * A number with a lock and a condition: the writer tells it, the thread that feeds streams of
 * events waits for it.
 */
#include "milligpu/commits.h"

#include <errno.h>
#include <pthread.h>

#include "milligpu/clock.h"

struct commits {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t seq;
    bool ended;
};

struct commits *commits_new(void)
{
    struct commits *commits = xcalloc(1, sizeof *commits);
    pthread_condattr_t monotonic;

    must(pthread_condattr_init(&monotonic) == 0);
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    must(pthread_cond_init(&commits->changed, &monotonic) == 0);
    must(pthread_mutex_init(&commits->lock, NULL) == 0);
    (void)pthread_condattr_destroy(&monotonic);
    return commits;
}

void commits_free(struct commits *commits)
{
    if (commits == NULL)
        return;
    must(pthread_cond_destroy(&commits->changed) == 0);
    must(pthread_mutex_destroy(&commits->lock) == 0);
    xfree(commits);
}

void commits_tell(struct commits *commits, uint64_t seq)
{
    must(pthread_mutex_lock(&commits->lock) == 0);
    commits->seq = seq;
    must(pthread_cond_broadcast(&commits->changed) == 0);
    must(pthread_mutex_unlock(&commits->lock) == 0);
}

uint64_t commits_told(struct commits *commits)
{
    must(pthread_mutex_lock(&commits->lock) == 0);
    const uint64_t told = commits->seq;
    must(pthread_mutex_unlock(&commits->lock) == 0);
    return told;
}

uint64_t commits_wait(struct commits *commits, uint64_t seen, int64_t wait_ms)
{
    const struct timespec until = clock_deadline(wait_ms);
    int rc = 0;

    must(pthread_mutex_lock(&commits->lock) == 0);
    while (rc == 0 && !commits->ended && commits->seq == seen)
        rc = pthread_cond_timedwait(&commits->changed, &commits->lock, &until);
    must(rc == 0 || rc == ETIMEDOUT);
    const uint64_t told = commits->seq;
    must(pthread_mutex_unlock(&commits->lock) == 0);
    return told;
}

void commits_end(struct commits *commits)
{
    must(pthread_mutex_lock(&commits->lock) == 0);
    commits->ended = true;
    must(pthread_cond_broadcast(&commits->changed) == 0);
    must(pthread_mutex_unlock(&commits->lock) == 0);
}
