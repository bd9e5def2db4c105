/*
 * Passes requests from libmicrohttpd's callbacks to the handler, and answers back. call_began(),
 * call_step() and call_ended() run in the connection's own thread; http_answer() may run in any.
 * They synchronize by call->state: the thread whose compare-and-exchange succeeds owns the next
 * step; the lock is needed only to sleep and to wake. Invariant: http_answer() is called once for
 * each call that the handler got. In order: answers, requests, functions for handlers.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/problem.h"
#include "milligpu/run/clock.h"

#include "http_internal.h"

/* Shared by all listeners, so that ids in the log are unique. */
static atomic_uint_fast64_t last_id;

static enum call_state call_state_of(const struct http_call *call)
{
    return (enum call_state)atomic_load(&call->state);
}

/* Changes the state; false if another thread was first. */
static bool call_move(struct http_call *call, enum call_state from, enum call_state to)
{
    int expected = (int)from;

    must(from != to);
    return atomic_compare_exchange_strong(&call->state, &expected, (int)to);
}

void call_init(struct http_call *call, struct http_server *http, struct MHD_Connection *peer)
{
    must(http != NULL && peer != NULL);

    *call = (struct http_call){.http = http, .peer = peer};
    strbuf_init(&call->body);
}

/* --- answers --- */

static void free_headers(struct http_call *call)
{
    must(call->n_headers <= CALL_HEADERS_MAX);
    for (size_t i = 0; i < call->n_headers; i++) {
        xfree(call->header[i].name);
        xfree(call->header[i].value);
    }
    call->n_headers = 0;
}

/* Moves the bytes without a copy; libmicrohttpd frees them after sending. */
static struct MHD_Response *response_of(struct strbuf *body)
{
    static char nothing[1];

    if (body->len == 0)
        return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    const size_t len = body->len;
    return MHD_create_response_from_buffer_with_free_callback(len, strbuf_steal(body), xfree);
}

/* Stores the answer; the caller then changes the state, which makes it visible. */
static void call_compose(struct http_call *call, int status, const char *type,
                         struct MHD_Response *response)
{
    must(status >= 200 && status <= 599);
    must(call->response == NULL && response != NULL);

    if (type != NULL)
        must(MHD_add_response_header(response, "Content-Type", type) == MHD_YES);
    if (atomic_load(&call->http->quiesced))
        must(MHD_add_response_header(response, "Connection", "close") == MHD_YES);
    /* Fails for an invalid value, which came from outside: the answer is sent without it. */
    for (size_t i = 0; i < call->n_headers; i++)
        (void)MHD_add_response_header(response, call->header[i].name, call->header[i].value);
    free_headers(call);
    /* Set before the state changes to ANSWERED. */
    atomic_store(&call->since_ns, clock_ns());
    call->status = status;
    call->response = response;
}

/* A 503 is temporary here: no memory, no place, or a restart. */
static void compose_problem(struct http_call *call, int status, const char *why)
{
    CLEANUP(strbuf_done) struct strbuf body;

    must(why != NULL);
    strbuf_init(&body);
    problem_encode(&body, status, "Request not served", why);
    call_compose(call, status, PROBLEM_TYPE, response_of(&body));
    if (status == 503)
        must(MHD_add_response_header(call->response, "Retry-After", "1") == MHD_YES);
}

/* Call it before the state changes: afterwards the call may serve another request. */
static void call_let_go(struct http_call *call)
{
    must(atomic_load(&call->http->pending) > 0);
    atomic_fetch_sub(&call->http->pending, 1);
}

/* Runs in the connection's own thread. */
static enum MHD_Result send_answer(struct http_call *call)
{
    must(call_state_of(call) == CALL_ANSWERED);
    must(call->response != NULL);

    admission_rests(connection_of(call));
    const enum MHD_Result queued =
        MHD_queue_response(call->peer, (unsigned)call->status, call->response);
    MHD_destroy_response(call->response);
    call->response = NULL;
    return queued;
}

/* Only from READING: after CUT the last message was sent already. */
static enum MHD_Result call_refuse(struct http_call *call, int status, const char *why)
{
    must(status >= 400);

    http_refused(call->http, status, why);
    if (!call_move(call, CALL_READING, CALL_ANSWERED))
        return MHD_NO;
    compose_problem(call, status, why);
    return send_answer(call);
}

static void remove_asleep(struct http_server *http, struct http_call *call) REQUIRES(http->lock)
{
    if (call->asleep_last != NULL)
        call->asleep_last->asleep_next = call->asleep_next;
    else
        http->asleep = call->asleep_next;
    if (call->asleep_next != NULL)
        call->asleep_next->asleep_last = call->asleep_last;
    call->asleep_next = NULL;
    call->asleep_last = NULL;
    must(http->asleep != call);
}

static void add_asleep(struct http_server *http, struct http_call *call) REQUIRES(http->lock)
{
    must(call->asleep_next == NULL && call->asleep_last == NULL);
    call->asleep_next = http->asleep;
    if (http->asleep != NULL)
        http->asleep->asleep_last = call;
    http->asleep = call;
}

/* When this returns, the call belongs to its connection's thread again. */
static void call_wake(struct http_server *http, struct http_call *call) REQUIRES(http->lock)
{
    must(call_state_of(call) == CALL_ANSWERED);
    remove_asleep(http, call);
    MHD_resume_connection(call->peer);
}

/*
 * After the exchange the call belongs to its own thread, unless it sleeps: then only the thread
 * that changed the state may wake it.
 */
static void answer_with(struct http_call *call, int status, const char *type,
                        struct MHD_Response *response)
{
    struct http_server *http = call->http;

    call_compose(call, status, type, response);
    call_let_go(call);
    const int before = atomic_exchange(&call->state, CALL_ANSWERED);
    must(before == CALL_HANDLING || before == CALL_SLEEPING);
    if (before == CALL_HANDLING)
        return; /* its thread is still in sleep_or_answer(), and sees the answer */
    mutex_lock(&http->lock);
    call_wake(http, call);
    mutex_unlock(&http->lock);
}

void http_answer(struct http_call *call, int status, const char *type, struct strbuf *take_body)
{
    answer_with(call, status, type, response_of(take_body));
    strbuf_reset(take_body);
}

void http_answer_file(struct http_call *call, int status, const char *type, int take_fd)
{
    struct stat st;

    must(take_fd >= 0);
    must(fstat(take_fd, &st) == 0);
    answer_with(call, status, type, MHD_create_response_from_fd64((uint64_t)st.st_size, take_fd));
}

struct http_stream *http_answer_stream(struct http_call *call, int status, const char *type)
{
    struct MHD_Response *response;
    struct http_stream *stream = stream_new(call, &response);

    call->stream = stream; /* before the answer becomes visible */
    answer_with(call, status, type, response);
    return stream;
}

static const char stopping[] = "the server is stopping";

static void answer_stopping(struct http_call *call)
{
    compose_problem(call, 503, stopping);
    http_refused(call->http, 503, stopping);
    call_let_go(call);
}

/* A call still in its handler is not in the list; sleep_or_answer() answers it. */
void call_answer_all(struct http_server *http)
{
    struct http_call *next;

    must(atomic_load(&http->stopping));
    for (struct http_call *call = http->asleep; call != NULL; call = next) {
        next = call->asleep_next;
        if (!call_move(call, CALL_SLEEPING, CALL_ANSWERED))
            continue; /* http_answer() owns the call and waits for the lock */
        answer_stopping(call);
        call_wake(http, call);
    }
}

/* --- requests --- */

/* Called at the beginning and the end of a request, so that no data reaches the next one. */
static void call_reset(struct http_call *call)
{
    must(call->response == NULL);

    free_headers(call);
    body_reset(call);
    call->method = NULL;
    call->path = NULL;
    call->body_bytes = 0;
    call->unread = false;
    call->refuse = 0;
    call->refuse_why = NULL;
}

void call_drop(struct http_call *call)
{
    must(call_state_of(call) == CALL_WAITING || call_state_of(call) == CALL_CUT);
    call_reset(call);
    body_drop(call);
}

/*
 * libmicrohttpd's URI log callback, used because it is the first of a request, and gets the path
 * before decoding.
 */
void *call_began(void *cls, const char *uri, struct MHD_Connection *peer)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(peer, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    (void)cls;
    must(info != NULL && info->socket_context != NULL);
    struct http_call *call = &((struct connection *)info->socket_context)->call;
    call_reset(call);
    atomic_store(&call->since_ns, clock_ns());
    /* Fails if the connection was shut down: call_step() handles that. */
    (void)call_move(call, CALL_WAITING, CALL_READING);
    if (uri[0] != '/') {
        call->refuse = 400;
        call->refuse_why = "the path does not begin with '/'";
    } else if (strstr(uri, "%00") != NULL) {
        call->refuse = 400;
        call->refuse_why = "a NUL byte in the path or the query";
    }
    return call;
}

/*
 * Called when the handler has returned: the call sleeps unless it has been answered. The connection
 * is suspended before the state changes, because http_answer() may resume it from then on.
 */
static enum MHD_Result sleep_or_answer(struct http_call *call)
{
    struct http_server *http = call->http;

    if (call_state_of(call) == CALL_ANSWERED)
        return send_answer(call);
    mutex_lock(&http->lock);
    if (atomic_load(&http->stopping)) {
        if (call_move(call, CALL_HANDLING, CALL_ANSWERED))
            answer_stopping(call);
        mutex_unlock(&http->lock);
        return send_answer(call);
    }
    MHD_suspend_connection(call->peer);
    add_asleep(http, call);
    if (!call_move(call, CALL_HANDLING, CALL_SLEEPING))
        call_wake(http, call);
    mutex_unlock(&http->lock);
    return MHD_YES;
}

/* From HANDLING on the watch does not cut the connection, however long the answer takes. */
static enum MHD_Result hand_over(struct http_call *call)
{
    struct http_server *http = call->http;

    if (atomic_load(&http->stopping))
        return call_refuse(call, 503, stopping);
    body_complete(call);
    if (!admission_asks(connection_of(call))) {
        atomic_fetch_add(&http->dropped[HTTP_NO_PLACE], 1);
        return call_refuse(call, 503, "other requests use all connections: try again");
    }
    if (!call_move(call, CALL_READING, CALL_HANDLING))
        return MHD_NO;
    must(!call->counted);
    call->counted = true;
    call->id = atomic_fetch_add(&last_id, 1) + 1;
    call->began_ns = clock_ns();
    atomic_fetch_add(&http->open, 1);
    atomic_fetch_add(&http->pending, 1);
    http->rules.handler(http->rules.user, call);
    return sleep_or_answer(call);
}

/*
 * Called when the headers are complete. An answer at this point ends the connection: right for
 * refused requests, whose body is not read; but a GET would lose its connection.
 */
static enum MHD_Result call_begin(struct http_call *call, const char *version)
{
    must(call->path != NULL && call->method != NULL);

    if (!check_headers(call, version))
        return call_refuse(call, call->refuse, call->refuse_why);
    return call->unread ? hand_over(call) : MHD_YES;
}

/* Called when the body is complete; only answers from here on can keep the connection open. */
static enum MHD_Result call_complete(struct http_call *call)
{
    must(!call->unread);

    if (call->refuse != 0) /* refused while the body arrived */
        return call_refuse(call, call->refuse, call->refuse_why);
    return hand_over(call);
}

/* NOLINTNEXTLINE(readability-function-size): libmicrohttpd gives the form */
enum MHD_Result call_step(void *cls, struct MHD_Connection *peer, const char *path,
                          const char *method, const char *version, const char *bytes, size_t *count,
                          void **request)
{
    struct http_call *call = *request;

    (void)cls;
    must(call != NULL && call->peer == peer);
    const enum call_state state = call_state_of(call);
    if (state == CALL_ANSWERED)
        return send_answer(call); /* resumed */
    if (state == CALL_CUT)
        return MHD_NO;
    must(state == CALL_READING);
    if (call->method == NULL) {
        call->path = path;
        call->method = method;
        return call_begin(call, version);
    }
    if (*count == 0)
        return call_complete(call);
    body_take(call, bytes, *count);
    *count = 0;
    return MHD_YES;
}

/*
 * Called when the answer was sent or the connection broke, never while the connection is suspended:
 * so no handler has the call.
 */
void call_ended(void *cls, struct MHD_Connection *peer, void **request,
                enum MHD_RequestTerminationCode code)
{
    struct http_server *http = cls;
    struct http_call *call = *request;

    (void)peer;
    (void)code;
    if (call == NULL)
        return;
    const enum call_state state = call_state_of(call);
    must(state != CALL_HANDLING && state != CALL_SLEEPING);
    if (call->stream != NULL)
        stream_over(STEAL(call->stream));
    if (call->response != NULL)
        MHD_destroy_response(STEAL(call->response));
    call_reset(call);
    atomic_fetch_add(&call->requests, 1);
    if (state != CALL_CUT)
        (void)call_move(call, state, CALL_WAITING); /* fails if it was just shut down */
    *request = NULL;
    if (!call->counted)
        return;
    call->counted = false;
    atomic_fetch_sub(&http->open, 1);
    if (!atomic_load(&http->stopping))
        return;
    mutex_lock(&http->lock);
    condvar_broadcast(&http->changed);
    mutex_unlock(&http->lock);
}

/* --- what a handler may use --- */

const char *http_method(const struct http_call *call)
{
    must(call->method != NULL);
    return call->method;
}

const char *http_path(const struct http_call *call)
{
    must(call->path != NULL);
    return call->path;
}

const char *http_header(struct http_call *call, const char *name)
{
    const char *value = NULL;

    must(call->method != NULL && name != NULL);
    if (MHD_lookup_connection_value_n(call->peer, MHD_HEADER_KIND, name, strlen(name), &value,
                                      NULL) != MHD_YES)
        return NULL;
    return value != NULL ? value : "";
}

struct visit {
    void *user;
    void (*name)(void *user, const char *name, const char *value);
};

/* For "?name" without '=' libmicrohttpd has no value; handlers get an empty one. */
static enum MHD_Result visit_one(void *cls, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    const struct visit *visit = cls;

    must(kind == MHD_GET_ARGUMENT_KIND);
    visit->name(visit->user, name != NULL ? name : "", value != NULL ? value : "");
    return MHD_YES;
}

void http_query_each(struct http_call *call, void *user,
                     void (*name)(void *user, const char *name, const char *value))
{
    struct visit visit = {user, name};

    must(name != NULL);
    (void)MHD_get_connection_values(call->peer, MHD_GET_ARGUMENT_KIND, visit_one, &visit);
}

struct text http_body(const struct http_call *call)
{
    return (struct text){call->body.data, call->body.len};
}

bool http_body_unread(const struct http_call *call)
{
    return call->unread;
}

uint64_t http_id(const struct http_call *call)
{
    must(call->id > 0);
    return call->id;
}

int64_t http_began_ns(const struct http_call *call)
{
    return call->began_ns;
}

void http_set_header(struct http_call *call, const char *name, const char *value)
{
    must(call->n_headers < CALL_HEADERS_MAX);
    must(name != NULL && value != NULL);

    struct call_header *header = &call->header[call->n_headers++];
    header->name = xstrdup(name);
    header->value = xstrdup(value);
}
