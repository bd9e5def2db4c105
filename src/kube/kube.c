/*
 * kube_fetch(): one request whose answer is collected, for callers without an event loop (start,
 * doctor). Runs on the thread of the kube_ops.
 */
#include "milligpu/kube/kube.h"

#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"

enum { FETCH_WAIT_MS = 1000 };

/* State of kube_fetch(). */
struct fetch {
    uint64_t id;
    struct strbuf *out;
    struct err *err;
    int status; /* HTTP status, or negative after the first error */
    bool ended;
};

/* Checks the size before it stores bytes, so an answer costs at most BODY_BYTES_MAX. */
static void kube_fetched(void *user, const struct kube_answer *answer)
{
    struct fetch *fetch = user;

    must(answer->id == fetch->id);
    if (answer->piece == KUBE_FAILED) {
        must(answer->err != NULL);
        *fetch->err = *answer->err;
        fetch->status = -(int)answer->err->code;
    } else if (fetch->status >= 0) {
        fetch->status = answer->status;
    }
    fetch->ended |= answer->piece == KUBE_DONE || answer->piece == KUBE_FAILED;
    if (answer->piece != KUBE_DATA || fetch->ended)
        return;
    if (fetch->out->len + answer->data.len > BODY_BYTES_MAX) {
        fetch->status =
            err_set(fetch->err, ERR_TOO_LARGE, "an answer of more than %d bytes", BODY_BYTES_MAX);
        fetch->ended = true;
    } else {
        strbuf_text(fetch->out, answer->data);
    }
}

int kube_fetch(const struct kube_ops *ops, const struct kube_request *request, struct strbuf *out,
               struct err *err)
{
    struct fetch fetch = {.id = request->id, .out = out, .err = err};

    must(request->timeout_ms > 0);
    strbuf_reset(out);
    int rc = ops->start(ops->ctx, request, err);
    if (rc < 0)
        return rc;
    while (!fetch.ended)
        ops->poll(ops->ctx, FETCH_WAIT_MS, &fetch, kube_fetched);
    /* A request whose answer was too large is still in flight. */
    ops->cancel(ops->ctx, request->id);
    return fetch.status;
}
