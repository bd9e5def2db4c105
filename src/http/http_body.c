/*
 * Stores request bodies and limits their memory: bodies_bytes_max for all of a listener; beyond it,
 * on any number of connections, a request gets 503. Runs in the connections' threads. Slow bodies
 * would hold the memory until W2. A limit per address would not help: on loopback all clients have
 * one address, and on a port with a client CA other clients never get to send a body. So the oldest
 * body that has been arriving for long enough is dropped, and strangers never get all of the
 * memory. The speed is not measured, because a malicious client would send just fast enough.
 */
#include <string.h>

#include "milligpu/run/clock.h"

#include "http_internal.h"

enum {
    BODY_LARGE = 4096, /* smaller bodies do not matter: 4,096 of them take 16 MiB */
    BODY_GRACE_MS = 1000,
    GIVERS_MAX = 64, /* maximum number of bodies dropped for one */
};

const char body_too_large[] = "the body is larger than this server takes";
const char body_no_room[] = "other requests use all memory for request bodies: try again";

size_t body_most(const struct http_rules *rules, bool known)
{
    const size_t all = rules->bodies_bytes_max;

    must(!known || rules->connections > 0);
    return known || rules->connections == 0 ? all : all - all / BODY_KEEP_PART;
}

/* Call it in the connection's own thread, which changes it. */
static bool body_is_known(struct http_call *call)
{
    return connection_of(call)->known;
}

static size_t most_of(struct http_call *call)
{
    must(call->http != NULL);
    return body_most(&call->http->rules, body_is_known(call));
}

static bool body_claim_fits(struct http_call *call, size_t bytes)
{
    must(bytes > 0);
    const size_t used = atomic_load(&call->http->body_bytes);
    const size_t most = most_of(call);

    return used < most && bytes <= most - used;
}

/* --- dropping bodies --- */

/* Appends, so each list is sorted by body_since_ns. The lock is held. */
static void body_enlist(struct http_call *call)
{
    struct bodies *bodies = &call->http->bodies[body_is_known(call)];

    must(!atomic_load(&call->body_listed));
    atomic_store(&call->body_listed, true);
    call->body_since_ns = clock_ns();
    call->body_next = NULL;
    call->body_last = bodies->last;
    if (bodies->last != NULL)
        bodies->last->body_next = call;
    else
        bodies->first = call;
    bodies->last = call;
}

/* The lock is held. Other threads call it, too (take_from), so body_listed is atomic. */
static void body_delist(struct http_call *call)
{
    struct bodies *bodies = &call->http->bodies[body_is_known(call)];

    if (!atomic_load(&call->body_listed))
        return;
    if (call->body_last != NULL)
        call->body_last->body_next = call->body_next;
    else
        bodies->first = call->body_next;
    if (call->body_next != NULL)
        call->body_next->body_last = call->body_last;
    else
        bodies->last = call->body_last;
    atomic_store(&call->body_listed, false);
    must(bodies->first != call && bodies->last != call);
}

/* Exchanges claimed for 0, so that a dropped body is not subtracted again by its own thread. */
static void body_release(struct http_call *call)
{
    const size_t claimed = atomic_exchange(&call->claimed, 0);
    const size_t before = atomic_fetch_sub(&call->http->body_bytes, claimed);

    must(before >= claimed);
}

/* Drops a body: uncounts its memory now; its thread frees it when it sees the shutdown. */
static void take_from(struct http_call *giver)
{
    struct http_server *http = giver->http;

    body_delist(giver);
    if (!admission_cut(connection_of(giver), CALL_READING, 503))
        return; /* already shut down */
    must(connection_of(giver)->gone);
    body_release(giver);
    atomic_fetch_add(&http->dropped[HTTP_BODY_SLOW], 1);
}

/* Drops bodies, oldest first; the list is sorted, so the first one that is too young ends it. */
static bool make_room_among(struct http_call *call, const struct bodies *bodies, size_t bytes)
{
    const int64_t before = clock_ns() - BODY_GRACE_MS * INT64_C(1000000);
    struct http_call *at = bodies->first;

    must(bytes > 0);
    for (int givers = 0; at != NULL && givers < GIVERS_MAX; givers++) {
        struct http_call *giver = at;
        at = at->body_next;
        if (body_claim_fits(call, bytes) || giver->body_since_ns > before)
            break;
        if (giver != call)
            take_from(giver);
    }
    return body_claim_fits(call, bytes);
}

/* Drops strangers' bodies first, and a known client's body never for a stranger. */
static bool body_make_room(struct http_call *call, size_t bytes)
{
    struct http_server *http = call->http;

    if (bytes > most_of(call))
        return false;
    must(http->rules.takes_body != NULL);
    mutex_lock(&http->lock);
    const bool made = make_room_among(call, &http->bodies[false], bytes) ||
                      (body_is_known(call) && make_room_among(call, &http->bodies[true], bytes));
    mutex_unlock(&http->lock);
    return made;
}

/* --- memory --- */

/*
 * Adds before it checks, so that two threads cannot both take the last bytes. Takes the lock only
 * if there is no room.
 */
static bool body_claim(struct http_call *call, size_t bytes)
{
    struct http_server *http = call->http;
    const size_t most = most_of(call);

    must(most > 0);
    for (int tries = 0; bytes <= most && tries < 2; tries++) {
        if (atomic_fetch_add(&http->body_bytes, bytes) <= most - bytes) {
            atomic_fetch_add(&call->claimed, bytes);
            return true;
        }
        atomic_fetch_sub(&http->body_bytes, bytes);
        if (tries == 0 && !body_make_room(call, bytes))
            break;
    }
    return false;
}

bool body_has_room(struct http_call *call, size_t bytes)
{
    must(bytes <= call->http->rules.body_bytes_max);
    return body_claim_fits(call, bytes + 1) || body_make_room(call, bytes + 1);
}

/* Reserves count more bytes and the terminator, at most the announced size. */
static bool body_grow(struct http_call *call, size_t count)
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
    if (!body_claim(call, capacity - body->capacity))
        return false;
    strbuf_reserve(&call->body, capacity);
    must(body->capacity == capacity);
    if (capacity < BODY_LARGE || atomic_load(&call->body_listed))
        return true;
    mutex_lock(&call->http->lock);
    body_enlist(call);
    mutex_unlock(&call->http->lock);
    return true;
}

void body_complete(struct http_call *call)
{
    if (!atomic_load(&call->body_listed))
        return;
    mutex_lock(&call->http->lock);
    body_delist(call);
    mutex_unlock(&call->http->lock);
    must(!atomic_load(&call->body_listed));
}

void body_drop(struct http_call *call)
{
    body_complete(call);
    strbuf_done(&call->body);
    must(call->body.capacity == 0);
    body_release(call);
}

/* Keeps a small buffer for the next request if memory is not scarce; it still counts. */
void body_reset(struct http_call *call)
{
    const struct http_server *http = call->http;

    must(call->body.len <= http->rules.body_bytes_max);
    body_complete(call);
    if (call->body.capacity > BODY_KEEP_BYTES ||
        atomic_load(&http->body_bytes) > http->rules.bodies_bytes_max / BODY_KEEP_PART)
        body_drop(call);
    else
        strbuf_reset(&call->body);
}

/* On a refusal the connection stays open; call_complete() answers at the end of the body. */
void body_take(struct http_call *call, const char *bytes, size_t count)
{
    const size_t most = call->http->rules.body_bytes_max;

    must(call->body.len <= most && !call->unread);
    if (call->refuse != 0)
        return;                          /* the rest is discarded, until W2 at most */
    if (count > most - call->body.len) { /* without a Content-Length */
        call->refuse = 413;
        call->refuse_why = body_too_large;
    } else if (!body_grow(call, count)) {
        call->refuse = 503;
        call->refuse_why = body_no_room;
    } else {
        strbuf_add(&call->body, bytes, count);
        return;
    }
    body_drop(call);
}
