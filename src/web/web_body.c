#include <string.h>

#include "web/web_inside.h"

/*
 * Bodies in memory, counted by what they take up: all of a listener together have bodies_bytes_max,
 * so that who sends much, on however many connections, is answered 503, and the memory is not his.
 */

const char body_too_large[] = "the body is larger than this server takes";
const char body_no_room[] =
    "the bodies of other requests fill the memory that bodies may have: try again";

static bool claim(struct web *web, size_t bytes)
{
    const size_t most = web->rules.bodies_bytes_max;

    must(most > 0);
    if (bytes <= most && atomic_fetch_add(&web->body_bytes, bytes) <= most - bytes)
        return true;
    if (bytes <= most)
        atomic_fetch_sub(&web->body_bytes, bytes);
    return false;
}

bool body_has_room(const struct web *web, size_t bytes)
{
    const size_t used = atomic_load(&web->body_bytes);
    const size_t most = web->rules.bodies_bytes_max;

    must(bytes <= web->rules.body_bytes_max);
    return used < most && bytes < most - used;
}

/* Room for count more bytes and the terminator, but for no more than was announced. */
static bool grow(struct web_call *call, size_t count)
{
    const struct strbuf *body = &call->body;
    const size_t need = body->len + count + 1;
    size_t capacity = body->capacity * 2;

    if (need <= body->capacity)
        return true;
    if (capacity > call->body_bytes + 1)
        capacity = call->body_bytes + 1;
    if (capacity < need)
        capacity = need;
    if (!claim(call->web, capacity - body->capacity))
        return false;
    strbuf_reserve(&call->body, capacity);
    must(body->capacity == capacity);
    return true;
}

void body_drop(struct web_call *call)
{
    const size_t before = atomic_fetch_sub(&call->web->body_bytes, call->body.capacity);

    must(before >= call->body.capacity);
    strbuf_done(&call->body);
}

void body_reset(struct web_call *call)
{
    const struct web *web = call->web;

    must(call->body.len <= web->rules.body_bytes_max);
    if (call->body.capacity > BODY_KEEP_BYTES ||
        atomic_load(&web->body_bytes) > web->rules.bodies_bytes_max / BODY_KEEP_PART)
        body_drop(call);
    else
        strbuf_reset(&call->body);
}

void body_take(struct web_call *call, const char *bytes, size_t count)
{
    const size_t most = call->web->rules.body_bytes_max;

    must(call->body.len <= most && !call->unread);
    if (call->refuse != 0)
        return;                          /* the rest is read, until W2 ends it, and forgotten */
    if (count > most - call->body.len) { /* without a Content-Length */
        call->refuse = 413;
        call->refuse_why = body_too_large;
    } else if (!grow(call, count)) {
        call->refuse = 503;
        call->refuse_why = body_no_room;
    } else {
        strbuf_add(&call->body, bytes, count);
        return;
    }
    body_drop(call);
}
