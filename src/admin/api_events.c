/*
 * The handler of the stream of events: finds its first entry, and checks that the journal still has
 * all entries from there. Called by the router in an admin thread; does not block, because events.c
 * feeds the stream.
 */
#include <stdlib.h>

#include "milligpu/admin/events.h"
#include "milligpu/http/http.h"
#include "milligpu/spine/commits.h"

#include "api_internal.h"

/* Ends the query at once: only the number of folded entries is needed. */
static bool events_none(void *user, const struct journal_row *row)
{
    must(user != NULL && row->seq > 0);
    return false;
}

/*
 * The newest entry is the newest that lists show: a client that lists after the event `start` and
 * then follows misses nothing. The parameter takes precedence over the header, which clients send
 * automatically when they reconnect.
 */
static bool events_since(struct api_call *call, uint64_t newest, uint64_t *out)
{
    const char *since = call->value[PARAMETER_since];
    const char *last = http_header(call->http, "Last-Event-ID");

    must(call->status == 200);
    *out = newest;
    if (since == NULL && last != NULL &&
        !api_schema_check(call, TEXT("Last-Event-ID"),
                          api_parameter_schema(call->route, PARAMETER_since), last))
        return false;
    if (since != NULL || last != NULL)
        *out = strtoull(since != NULL ? since : last, NULL, 10);
    if (*out <= newest)
        return true;
    api_fail(call, 410,
             "since is %llu, and the newest event is %llu: this is another ledger; list again, and "
             "follow from now",
             (unsigned long long)*out, (unsigned long long)newest);
    return false;
}

void api_events(struct api_call *call)
{
    struct app *app = call->app;
    uint64_t folded = 0;
    uint64_t since;
    struct err err;

    if (app->events == NULL) {
        api_fail(call, 503, "nobody feeds streams of events here");
        return;
    }
    if (!events_since(call, commits_newest(app->commits), &since))
        return;
    const struct store_journal_query query = {
        .after = since, .limit = 1, .user = call, .each = events_none};
    if (store_journal(app->store, &query, &folded, &err) < 0) {
        api_fail_err(call, &err);
        return;
    }
    if (since < folded) {
        api_fail(call, 410,
                 "since is %llu, and events up to %llu are no longer kept: list again, and follow "
                 "from now",
                 (unsigned long long)since, (unsigned long long)folded);
        return;
    }
    call->is_streaming = events_open(app->events, call->http, since);
    if (!call->is_streaming)
        api_fail(call, 503, "%d streams are open already, or milligpud is stopping: try again",
                 EVENTS_STREAMS_MAX);
    must(call->is_streaming || call->status == 503);
}
