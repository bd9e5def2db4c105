/*
 * Failure answers of a call, for handlers and the router. Called in an admin thread or the probe
 * thread; all state belongs to one call.
 */
#include <stdarg.h>
#include <stdio.h>

#include "milligpu/base/problem.h"

#include "api_internal.h"

/* Drops the body so far, so that no partial answer precedes the problem document. */
void api_fail(struct api_call *call, int status, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list args;

    must(status >= 400);
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncated if too long */
    va_end(args);
    strbuf_reset(&call->body);
    problem_encode(&call->body, status, NULL, text);
    call->status = status;
    call->type = PROBLEM_TYPE;
}

void api_fail_err(struct api_call *call, const struct err *err)
{
    must(err->code != ERR_NONE);
    api_fail(call, err_status(err->code), "%s", err->text);
}

/* The daemon publishes a snapshot before it opens its listeners, so NULL occurs only in tests. */
const struct snapshot *api_snapshot(struct api_call *call)
{
    const struct snapshot *snapshot = view_take(call->app->view);

    must(call->status < 400);
    if (snapshot == NULL)
        api_fail(call, 503, "the ledger is not loaded yet");
    return snapshot;
}
