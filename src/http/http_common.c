/* Waits on the lock of a listener, and the callback for refused requests. Any thread. */
#include "milligpu/run/clock.h"

#include "http_internal.h"

void http_wait(struct http_server *http, int64_t wait_ms)
{
    const struct timespec until = clock_deadline(wait_ms);

    must(wait_ms > 0);
    (void)condvar_wait_until(&http->changed, &http->lock, &until);
}

/* The lock may be held here, so refused() must not call http_*. */
void http_refused(const struct http_server *http, int status, const char *why)
{
    must(why != NULL);
    if (http->rules.refused != NULL)
        http->rules.refused(http->rules.user, status, why);
}
