#include <errno.h>
#include <time.h>

#include "http/http_internal.h"

void http_lock(struct http_server *http)
{
    must(pthread_mutex_lock(&http->lock) == 0);
}

void http_unlock(struct http_server *http)
{
    must(pthread_mutex_unlock(&http->lock) == 0);
}

void http_wait(struct http_server *http, int64_t wait_ms)
{
    struct timespec until;

    must(wait_ms > 0);
    must(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    const int rc = pthread_cond_timedwait(&http->changed, &http->lock, &until);
    must(rc == 0 || rc == ETIMEDOUT);
}

/* The listener may hold its lock here, hence the rule that refused() must not call http_*. */
void http_refused(const struct http_server *http, int status, const char *why)
{
    must(why != NULL);
    if (http->rules.refused != NULL)
        http->rules.refused(http->rules.user, status, why);
}
