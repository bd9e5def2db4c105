/*
 * kube_curl - implements kube_ops with libcurl. Each kube_ops belongs to one thread, the informer's
 * or the outbox's, and has its own connections; only kube_wake() is thread-safe.
 *
 * With HTTP/2 all requests of one kube_ops share one connection, which costs one handshake and one
 * buffer. With HTTP/1.1 each request has a connection, from a limited number; without a free one
 * the request waits inside libcurl, unsent.
 *
 *   call --QUEUED--> stream of h2.c    kube_calls_new(), where the server speaks HTTP/2
 *              \---> handle of libcurl   else, and while the connection of h2.c is leaving
 *
 * libcurl forbids adding or removing handles inside its callbacks, from which answers are
 * delivered: start() only queues, cancel() only marks, and poll() does both before and after. A
 * turn of libcurl costs a system call for each of its calls in flight; one of h2.c costs a few.
 *
 * Invariants: a call is in exactly one chain until it is freed, and in by_id until it is done; it
 * is done before its last piece is delivered, so that the receiver may use the id again.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/kube/kube.h"

#include "curl_handle.h"
#include "h2.h"

enum {
    CONNECTIONS_MAX = 16, /* concurrent connections to the server */
    STREAMS_MAX = 256,    /* streams per connection; the server may allow fewer */
    RETRY_AFTER_MAX_S = 3600,
    GATHER_CALLS = 32, /* from this many calls in flight on, an answer waits for more of them */
    GATHER_MS = 1,
    STALL_MS = 100, /* silence after which an answer may be complete (may_stall()) */
    NUDGE = 0,      /* id of a nudge: callers never use 0 */
    /* pause after a server that did not speak HTTP/2 */
    H2_AGAIN_MS = 10 * 60 * 1000,
};

enum curl_call_state { CALL_QUEUED, CALL_ACTIVE, CALL_STATES };

struct curl_call {
    struct curl_call *next; /* in its chain */
    struct curl_call *prev;
    struct curl_call *next_done;
    struct curl_kube *kube;
    uint64_t id;
    enum curl_call_state state;
    bool done; /* delivers no more; freed at the end of the turn */
    bool cancelled;
    bool retried; /* has been retried after a 401 */
    bool swallow; /* the answer is a 401 that will be retried */
    bool headed;  /* HEAD was delivered */
    bool watch;   /* silence is normal */
    bool takes_protobuf;
    bool nudged; /* a nudge was sent since the last byte */
    int status;
    int64_t retry_after_s;
    int64_t begun_ms;    /* monotonic time of start() */
    int64_t deadline_ms; /* monotonic; 0 if none */
    int64_t silence_ms;
    int64_t last_byte_ms;
    char *method;
    char *path;
    char *content_type;
    char *header;
    struct strbuf body;
    /* When ACTIVE, it has one of these. */
    struct curl_handle *handle;
    struct h2_stream stream;
    char error[CURL_ERROR_SIZE]; /* libcurl's message; written while the handle is in use */
};

/* The thread that calls poll(), as wake() sees it. */
enum sleeper { SLEEPER_AWAKE, SLEEPER_ASLEEP, SLEEPER_WOKEN };

/* All calls of one state, oldest first. */
struct chain {
    struct curl_call *first;
    struct curl_call *last;
    size_t calls;
};

struct curl_kube {
    CURLM *multi;
    struct kube_config *config;
    struct handles *handles;
    size_t n_handles; /* in libcurl */
    bool wants_h2;
    bool readable;           /* the connection of h2 has bytes, or an end */
    struct h2 *h2;           /* NULL: none */
    int64_t no_h2_before_ms; /* monotonic */
    struct chain chain[CALL_STATES];
    struct curl_call *done;
    struct map by_id;     /* calls that are not done, by id */
    int64_t look_ms;      /* monotonic; no deadline is due before */
    int64_t last_byte_ms; /* monotonic time of the last byte of any call */
    unsigned inside;      /* nesting depth of libcurl's callbacks */
    uint64_t delivered;   /* number of pieces so far; poll() returns early when it grows */
    _Atomic(enum sleeper) sleeper;
    int bell; /* eventfd that ends a sleep */
    void *user;
    /* NULL outside poll(). */
    void (*deliver)(void *user, const struct kube_answer *answer);
};

static int64_t kube_curl_clock_now_ms(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static const struct h2_receiver stream_receiver;

/* ---- calls ---- */

static struct text id_text(const uint64_t *id)
{
    return (struct text){(const char *)id, sizeof *id};
}

static void chain_add(struct curl_call *call, enum curl_call_state state)
{
    struct chain *chain = &call->kube->chain[state];

    must(call->next == NULL && call->prev == NULL && call != chain->first);
    call->state = state;
    call->prev = chain->last;
    if (chain->last != NULL)
        chain->last->next = call;
    else
        chain->first = call;
    chain->last = call;
    chain->calls++;
}

/* Constant time, as start() and cancel() promise. */
static void chain_drop(struct curl_call *call)
{
    struct chain *chain = &call->kube->chain[call->state];

    must((call->prev != NULL || chain->first == call) && chain->calls > 0);
    chain->calls--;
    *(call->prev != NULL ? &call->prev->next : &chain->first) = call->next;
    *(call->next != NULL ? &call->next->prev : &chain->last) = call->prev;
    call->next = call->prev = NULL;
}

/* Frees the id, but leaves the chains unchanged: a caller may be iterating over them. */
static void kube_curl_retire(struct curl_call *call)
{
    struct curl_kube *kube = call->kube;

    if (call->done)
        return;
    must(map_take(&kube->by_id, id_text(&call->id)) == call);
    call->done = true;
    call->next_done = kube->done;
    kube->done = call;
}

/* Timeouts start here, so they include the wait for a free connection. */
static struct curl_call *curl_call_new(struct curl_kube *kube, const struct kube_request *request)
{
    struct curl_call *call = xcalloc(1, sizeof *call);

    call->kube = kube;
    call->id = request->id;
    call->watch = strstr(request->path, "watch=") != NULL;
    call->begun_ms = call->last_byte_ms = kube_curl_clock_now_ms();
    call->deadline_ms = request->timeout_ms > 0 ? call->last_byte_ms + request->timeout_ms : 0;
    call->silence_ms = request->silence_ms;
    call->method = xstrdup(request->method);
    call->path = xstrdup(request->path);
    call->content_type = request->content_type != NULL ? xstrdup(request->content_type) : NULL;
    call->header = request->header != NULL ? xstrdup(request->header) : NULL;
    call->takes_protobuf = request->takes_protobuf;
    strbuf_init(&call->body);
    strbuf_text(&call->body, request->body);
    return call;
}

/* Returns the next deadline of a call; INT64_MAX if it has neither deadline nor silence timeout. */
static int64_t limit_of(const struct curl_call *call)
{
    int64_t limit_ms = call->deadline_ms != 0 ? call->deadline_ms : INT64_MAX;

    if (call->silence_ms != 0 && call->last_byte_ms + call->silence_ms < limit_ms)
        limit_ms = call->last_byte_ms + call->silence_ms;
    must(limit_ms > 0);
    return limit_ms;
}

/*
 * Makes the next look earlier, never later; look_at_calls() computes it anew. A turn in which
 * nothing is due costs one comparison, not a walk over all calls.
 */
static void look_by(struct curl_kube *kube, int64_t at_ms)
{
    must(at_ms > 0);
    if (at_ms < kube->look_ms)
        kube->look_ms = at_ms;
}

static void call_add(struct curl_call *take_call)
{
    struct curl_kube *kube = take_call->kube;

    must(map_put(&kube->by_id, id_text(&take_call->id), take_call) == NULL);
    chain_add(take_call, CALL_QUEUED);
    look_by(kube, limit_of(take_call));
}

/* ---- answers ---- */

/* The receiver may start and cancel calls, this one too: afterwards call may be done. */
static void kube_curl_deliver(struct curl_call *call, enum kube_piece piece, struct text data,
                              bool unsent, const struct err *err)
{
    struct curl_kube *kube = call->kube;
    const struct kube_answer answer = {
        .id = call->id,
        .piece = piece,
        .status = call->status,
        .retry_after_s = call->retry_after_s,
        .data = data,
        .unsent = unsent,
        .err = err,
    };

    if (call->cancelled)
        return;
    must(!call->done && kube->deliver != NULL);
    must(piece == KUBE_FAILED || call->headed);
    if (piece == KUBE_DONE || piece == KUBE_FAILED)
        kube_curl_retire(call);
    if (call->id == NUDGE)
        return;
    kube->delivered++;
    kube->deliver(kube->user, &answer);
}

static void kube_curl_fail(struct curl_call *call, bool unsent, const struct err *err)
{
    must(call->kube != NULL);
    kube_curl_deliver(call, KUBE_FAILED, TEXT(""), unsent, err);
    must(call->done);
}

/* ---- curl's callbacks ---- */

/* Parses Retry-After in seconds; the form with a date counts as absent (0). */
static int64_t parse_seconds(const char *at, size_t len)
{
    must(at != NULL || len == 0);
    int64_t seconds = 0;

    while (len > 0 && (*at == ' ' || *at == '\t'))
        at++, len--;
    for (; len > 0 && *at >= '0' && *at <= '9' && seconds < RETRY_AFTER_MAX_S; at++, len--)
        seconds = seconds * 10 + (*at - '0');
    return seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S;
}

/*
 * A first 401 is not delivered if other credentials may exist: transfer_ended() queues the call
 * again.
 */
static void head_is_complete(struct curl_call *call, int status)
{
    if (status < 200)
        return; /* informational (100 Continue): the final status follows */
    call->status = status;
    if (status == 401 && !call->retried &&
        kube_auth_refuse(call->kube->config, call->last_byte_ms)) {
        call->swallow = true;
        return;
    }
    call->headed = true;
    kube_curl_deliver(call, KUBE_HEAD, TEXT(""), false, NULL);
}

/* Any byte of any call shows that the peer is alive, for cut_if_silent(). */
static void kube_curl_note_bytes(struct curl_call *call)
{
    const int64_t now_ms = kube_curl_clock_now_ms();

    must(!call->done || call->cancelled);
    call->last_byte_ms = call->kube->last_byte_ms = now_ms;
    call->nudged = false;
    if (call->handle != NULL && !call->watch)
        look_by(call->kube, now_ms + STALL_MS);
}

/*
 * Called for each line, with HTTP/2 as well; the empty line ends the head. Returning less than the
 * length makes libcurl end the transfer.
 */
static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    static const char retry_after[] = "retry-after:";
    struct curl_call *call = arg;
    const size_t len = size * count;

    must(size == 1);
    kube_curl_note_bytes(call);
    if (len > sizeof retry_after - 1 && curl_strnequal(data, retry_after, sizeof retry_after - 1))
        call->retry_after_s =
            parse_seconds(data + sizeof retry_after - 1, len - (sizeof retry_after - 1));
    if (!call->headed && (len == 0 || data[0] == '\r' || data[0] == '\n')) {
        long status = 0;
        must(curl_easy_getinfo(call->handle->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK);
        call->kube->inside++;
        head_is_complete(call, (int)status);
        call->kube->inside--;
    }
    return call->cancelled ? 0 : len;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): curl gives the form */
static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct curl_call *call = arg;
    const size_t len = size * count;

    must(size == 1);
    kube_curl_note_bytes(call);
    call->kube->inside++;
    if (!call->swallow)
        kube_curl_deliver(call, KUBE_DATA, (struct text){data, len}, false, NULL);
    call->kube->inside--;
    return call->cancelled ? 0 : len;
}

/* ---- the life of a call ---- */

/*
 * Call it only outside libcurl's callbacks. If the transfer is not over, its HTTP/2 stream is
 * reset, or its HTTP/1.1 connection closed.
 */
static void drop_transfer(struct curl_call *call)
{
    struct curl_kube *kube = call->kube;

    if (call->stream.id != 0)
        h2_drop(kube->h2, &call->stream);
    if (call->handle == NULL)
        return;
    must(call->state == CALL_ACTIVE && kube->n_handles > 0);
    (void)curl_multi_remove_handle(kube->multi, call->handle->easy); /* it was added */
    handles_give(kube->handles, call->handle);
    call->handle = NULL;
    kube->n_handles--;
}

static void kube_curl_call_free(struct curl_call *call)
{
    must(call->handle == NULL && call->stream.id == 0 && call->done);
    strbuf_done(&call->body);
    xfree(call->method);
    xfree(call->path);
    xfree(call->content_type);
    xfree(call->header);
    xfree(call);
}

static struct handle_request request_of(const struct curl_call *call)
{
    return (struct handle_request){.method = call->method,
                                   .path = call->path,
                                   .content_type = call->content_type,
                                   .header = call->header,
                                   .takes_protobuf = call->takes_protobuf,
                                   .body = {call->body.data, call->body.len},
                                   .watch = call->watch};
}

/* Options that refer to the call are set for each request, because handles are reused. */
static int kube_curl_ask(struct curl_call *call, struct curl_handle *handle, struct err *err)
{
    struct handle_request request = request_of(call);

    must(call->handle == NULL);
    /*
     * libcurl never learns whether requests can share the connection of h2.c, and would wait for
     * that until it ends. Later requests wait for the first one's connection.
     */
    request.waits_for_none = call->kube->h2 != NULL && call->kube->n_handles == 0;
    call->error[0] = '\0';
    (void)curl_easy_setopt(handle->easy, CURLOPT_PRIVATE, call); /* none of these can fail */
    (void)curl_easy_setopt(handle->easy, CURLOPT_ERRORBUFFER, call->error);
    (void)curl_easy_setopt(handle->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(handle->easy, CURLOPT_HEADERDATA, call);
    (void)curl_easy_setopt(handle->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(handle->easy, CURLOPT_WRITEDATA, call);
    return handle_ask(call->kube->handles, handle, &request, err);
}

/* If libcurl did not get the request, it is certainly unsent. */
static int begin_by_libcurl(struct curl_call *call, int64_t now_ms, struct err *err)
{
    struct curl_kube *kube = call->kube;
    struct curl_handle *handle = NULL;

    must(call->state == CALL_QUEUED && call->handle == NULL);
    int rc = handles_take(kube->handles, now_ms, &handle, err);
    if (rc < 0)
        return err_wrap(err, "%s", kube->config->server);
    rc = kube_curl_ask(call, handle, err);
    if (rc < 0) {
        handles_give(kube->handles, handle);
        return rc;
    }
    call->handle = handle;
    kube->n_handles++;
    must(curl_multi_add_handle(kube->multi, handle->easy) == CURLM_OK);
    return 0;
}

/* A call waits in the queue until the connection is there, or another way is open. */
static int begin_by_h2(struct curl_call *call, int64_t now_ms, struct err *err)
{
    struct curl_kube *kube = call->kube;
    int rc = handles_look(kube->handles, now_ms, err);

    if (rc == 0 && kube->h2 == NULL)
        rc = h2_new(kube->handles, kube->multi, &stream_receiver, now_ms, &kube->h2, err);
    if (rc < 0)
        return err_wrap(err, "%s", kube->config->server);
    if (h2_state(kube->h2) == H2_OPEN && h2_is_outdated(kube->h2))
        h2_leave(kube->h2);
    if (h2_state(kube->h2) == H2_OPEN) {
        const struct handle_request request = request_of(call);
        h2_ask(kube->h2, &call->stream, &request, call);
    }
    if (h2_state(kube->h2) == H2_LEAVING && call->stream.id == 0)
        return begin_by_libcurl(call, now_ms, err);
    return 0;
}

static void kube_curl_begin(struct curl_call *call, int64_t now_ms)
{
    const struct curl_kube *kube = call->kube;
    struct err err;

    /* A nudge is for a connection of libcurl's. */
    const bool by_h2 = kube->wants_h2 && call->id != NUDGE && now_ms >= kube->no_h2_before_ms;
    const int rc = by_h2 ? begin_by_h2(call, now_ms, &err) : begin_by_libcurl(call, now_ms, &err);
    if (rc < 0)
        kube_curl_fail(call, true, &err);
}

/* True only if certain: it decides whether a Binding is in doubt. */
static bool nothing_was_sent(const struct curl_call *call)
{
    long bytes = 0;

    if (call->stream.id != 0)
        return h2_is_unsent(&call->stream);
    if (call->handle == NULL)
        return true;
    /* The count includes libcurl's own retries, so 0 is certain. */
    must(curl_easy_getinfo(call->handle->easy, CURLINFO_REQUEST_SIZE, &bytes) == CURLE_OK);
    return bytes == 0;
}

/*
 * True if the server ended the stream before it had the whole body: usually a 429 right after the
 * headers, which libcurl does not report. Such a request is never processed.
 */
static bool was_cut_short(const struct curl_call *call, CURLcode code)
{
    must(call->state == CALL_ACTIVE && call->handle != NULL);
    return code == CURLE_HTTP2_STREAM && call->body.len > 0 && !handle_sent_body(call->handle);
}

/* Reads the files again after a refusal: the CA may have been renewed. */
static void look_for_renewal(struct curl_kube *kube, CURLcode code)
{
    if (curl_handle_code_of(code) == ERR_UNAUTHORIZED)
        (void)kube_auth_refuse(kube->config, kube_curl_clock_now_ms());
}

/* No retry here: the caller decides whether the request may be sent again. */
static void transfer_failed(struct curl_call *call, CURLcode code)
{
    struct err err;

    must(code != CURLE_OK);
    look_for_renewal(call->kube, code);
    (void)err_set(&err, curl_handle_code_of(code), "%s: %s", call->kube->config->server,
                  call->error[0] != '\0' ? call->error : curl_easy_strerror(code));
    kube_curl_fail(call, nothing_was_sent(call) || was_cut_short(call, code), &err);
}

/* A retry after a 401 goes to the end of the queue. */
static void ask_again(struct curl_call *call)
{
    must(call->swallow && !call->retried);
    drop_transfer(call);
    call->swallow = false;
    call->retried = true;
    call->status = 0;
    call->retry_after_s = 0;
    chain_drop(call);
    chain_add(call, CALL_QUEUED);
}

static void answer_is_complete(struct curl_call *call)
{
    struct err err;

    if (call->headed) {
        kube_curl_deliver(call, KUBE_DONE, TEXT(""), false, NULL);
        return;
    }
    (void)err_set(&err, ERR_IO, "%s: an answer without a head", call->kube->config->server);
    kube_curl_fail(call, false, &err);
}

/* Called when libcurl is done with the call. */
static void transfer_ended(struct curl_call *call, CURLcode code)
{
    must(call->state == CALL_ACTIVE);
    /* Cancelled, or timed out. */
    if (call->done)
        return;
    if (call->swallow && !call->retried)
        ask_again(call);
    else if (code != CURLE_OK)
        transfer_failed(call, code);
    else
        answer_is_complete(call);
}

/* ---- what h2.c reports of a stream ---- */

static void stream_header(void *arg, struct text name, struct text value)
{
    struct curl_call *call = arg;

    if (text_is(name, "retry-after"))
        call->retry_after_s = parse_seconds(value.at, value.len);
}

static void stream_head(void *arg, int status)
{
    struct curl_call *call = arg;

    kube_curl_note_bytes(call);
    head_is_complete(call, status);
}

static void stream_data(void *arg, struct text data)
{
    struct curl_call *call = arg;

    kube_curl_note_bytes(call);
    if (!call->swallow)
        kube_curl_deliver(call, KUBE_DATA, data, false, NULL);
}

static void stream_failed(struct curl_call *call, bool unsent, const char *failure)
{
    struct err err;

    (void)err_set(&err, ERR_IO, "%s: %s", call->kube->config->server, failure);
    kube_curl_fail(call, unsent, &err);
}

static void stream_ended(void *arg, bool unsent, const char *failure)
{
    struct curl_call *call = arg;

    if (call->done)
        return;
    if (call->swallow && !call->retried)
        ask_again(call);
    else if (failure != NULL)
        stream_failed(call, unsent, failure);
    else
        answer_is_complete(call);
}

static const struct h2_receiver stream_receiver = {
    .header = stream_header, .head = stream_head, .data = stream_data, .end = stream_ended};

/* Called when libcurl has connected for h2.c, or failed, as all calls that wait for it then do. */
static void connection_came(struct curl_kube *kube, CURLcode code)
{
    must(kube->h2 != NULL);
    h2_connected(kube->h2, code, kube_curl_clock_now_ms());
    if (code == CURLE_OK) {
        look_by(kube, h2_limit_ms(kube->h2));
        return;
    }
    look_for_renewal(kube, code);
    /* The receiver may start calls meanwhile: these get another connection. */
    const struct curl_call *last = kube->chain[CALL_QUEUED].last;
    for (struct curl_call *call = kube->chain[CALL_QUEUED].first; call != NULL;
         call = call == last ? NULL : call->next)
        if (!call->done)
            kube_curl_fail(call, true, h2_error(kube->h2));
}

/* The streams of a connection that has ended have no end of their own. */
static void lose_streams(struct curl_kube *kube)
{
    for (struct curl_call *call = kube->chain[CALL_ACTIVE].first; call != NULL; call = call->next) {
        if (call->stream.id == 0)
            continue;
        const bool unsent = h2_is_unsent(&call->stream);
        h2_drop(kube->h2, &call->stream);
        if (!call->done)
            kube_curl_fail(call, unsent, h2_error(kube->h2));
    }
}

/* A later call gets a new connection. */
static void follow_h2(struct curl_kube *kube, int64_t now_ms)
{
    if (kube->h2 == NULL)
        return;
    if (now_ms >= h2_limit_ms(kube->h2))
        h2_refuse(kube->h2, "no SETTINGS of HTTP/2");
    const enum h2_state state = h2_state(kube->h2);
    if (state == H2_REFUSED)
        kube->no_h2_before_ms = now_ms + H2_AGAIN_MS;
    if (state == H2_REFUSED || state == H2_CLOSED)
        lose_streams(kube);
    else if (state != H2_LEAVING || h2_n_streams(kube->h2) > 0)
        return;
    h2_free(kube->h2);
    kube->h2 = NULL;
}

/* Is the connection of h2.c in the making? */
static bool waits_for_h2(const struct curl_kube *kube)
{
    return kube->h2 != NULL && h2_is_early(h2_state(kube->h2));
}

/* Cuts the connections of a dead peer, so that later requests do not wait on them, too. */
static void cut_if_silent(struct curl_call *call)
{
    struct curl_kube *kube = call->kube;

    must(!call->done);
    if (call->state == CALL_ACTIVE && kube->last_byte_ms <= call->begun_ms) {
        handles_cut(kube->handles);
        if (kube->h2 != NULL)
            h2_close(kube->h2, ERR_TIMEOUT, "closed after a silence");
    }
    if (call->state == CALL_QUEUED && waits_for_h2(kube) && h2_begun_ms(kube->h2) <= call->begun_ms)
        h2_close(kube->h2, ERR_TIMEOUT, "no connection in time");
}

/* Enforces all timeouts but the connect timeout, which is libcurl's. */
static void kube_curl_expire(struct curl_call *call, int64_t now_ms)
{
    struct err err;

    must(!call->done && now_ms >= limit_of(call));
    if (call->deadline_ms != 0 && now_ms >= call->deadline_ms)
        (void)err_set(&err, ERR_TIMEOUT, "%s: no complete answer in time",
                      call->kube->config->server);
    else
        (void)err_set(&err, ERR_TIMEOUT, "%s: not a byte for %lld ms", call->kube->config->server,
                      (long long)(now_ms - call->last_byte_ms));
    cut_if_silent(call);
    kube_curl_fail(call, nothing_was_sent(call), &err);
}

/* ---- answers whose end libcurl does not see ---- */

/*
 * Workaround for libcurl 7.88, which may miss the end of an HTTP/2 stream: if its buffer has no
 * room for the last frame, nghttp2 stops in the middle of the frame until more bytes arrive. A list
 * with nothing behind it then ended only by its timeout, a minute later (once in 75 starts beside a
 * real API server). So if an answer has begun and is silent, a small request, the nudge, is sent;
 * any answer to it will do.
 */
static bool may_stall(const struct curl_call *call)
{
    must(call->kube != NULL);
    return call->handle != NULL && call->headed && !call->watch && !call->nudged && !call->done &&
           call->id != NUDGE;
}

static bool kube_curl_speaks_h2(const struct curl_call *call)
{
    long version = 0;

    must(call->handle != NULL);
    must(curl_easy_getinfo(call->handle->easy, CURLINFO_HTTP_VERSION, &version) == CURLE_OK);
    return version == CURL_HTTP_VERSION_2_0;
}

/* Sends a nudge, at most one at a time. */
static void kube_curl_nudge(struct curl_call *stalled)
{
    struct curl_kube *kube = stalled->kube;
    const uint64_t id = NUDGE;

    must(may_stall(stalled));
    if (map_find(&kube->by_id, id_text(&id)) != NULL)
        return;
    stalled->nudged = true;
    if (!kube_curl_speaks_h2(stalled))
        return;
    /* Every user may read this path; even a refusal would be enough. */
    const struct kube_request request = {.id = id, .method = "GET", .path = "/version"};
    struct curl_call *nudge = curl_call_new(kube, &request);
    nudge->deadline_ms = stalled->deadline_ms;
    call_add(nudge);
}

/* While another call's nudge is in flight, this call stays a candidate. */
static void look_for_stall(struct curl_call *call, int64_t now_ms)
{
    must(!call->done);
    if (may_stall(call) && now_ms >= call->last_byte_ms + STALL_MS)
        kube_curl_nudge(call);
    if (!may_stall(call))
        return;
    const int64_t stalls_ms = call->last_byte_ms + STALL_MS;
    look_by(call->kube, stalls_ms > now_ms ? stalls_ms : now_ms + STALL_MS);
}

/* Answers may start calls meanwhile; these are at the end of the chain, and not due. */
static void look_at_call(struct curl_call *call, int64_t now_ms)
{
    if (call->done)
        return;
    if (now_ms >= limit_of(call)) {
        kube_curl_expire(call, now_ms);
        return;
    }
    look_by(call->kube, limit_of(call));
    look_for_stall(call, now_ms);
}

/* Visits every call, but only when something is due. */
static void look_at_calls(struct curl_kube *kube, int64_t now_ms)
{
    if (now_ms < kube->look_ms)
        return;
    kube->look_ms = INT64_MAX;
    /* A limit that passed in this turn is follow_h2()'s, which comes next. */
    if (kube->h2 != NULL && h2_limit_ms(kube->h2) > now_ms)
        kube->look_ms = h2_limit_ms(kube->h2);
    for (size_t state = 0; state < CALL_STATES; state++)
        for (struct curl_call *call = kube->chain[state].first; call != NULL; call = call->next)
            look_at_call(call, now_ms);
    must(kube->look_ms > now_ms);
}

/* The only place that frees calls: outside libcurl's callbacks, and outside walks over chains. */
static void kube_curl_free_done(struct curl_kube *kube)
{
    must(kube->inside == 0);
    while (kube->done != NULL) {
        struct curl_call *call = kube->done;
        kube->done = call->next_done;
        drop_transfer(call);
        chain_drop(call);
        kube_curl_call_free(call);
    }
}

/* Safe while answers start calls: these are added at the end. */
static void begin_queued(struct curl_kube *kube)
{
    must(kube->multi != NULL);
    for (struct curl_call *call = kube->chain[CALL_QUEUED].first; call != NULL;) {
        if (!call->done)
            kube_curl_begin(call, kube_curl_clock_now_ms());
        struct curl_call *next = call->next;
        if (call->handle != NULL || call->stream.id != 0) {
            chain_drop(call);
            chain_add(call, CALL_ACTIVE);
        }
        call = next;
    }
}

static void kube_curl_reap(struct curl_kube *kube)
{
    int left;
    const CURLMsg *message;

    while ((message = curl_multi_info_read(kube->multi, &left)) != NULL) {
        char *private = NULL;
        /* Copy it first: removing the handle frees the message. */
        const CURLcode code = message->data.result;
        must(message->msg == CURLMSG_DONE);
        must(curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private) == CURLE_OK);
        /* The char pointer is the call that was set as CURLOPT_PRIVATE, so it is aligned. */
        if (private != NULL)
            transfer_ended((struct curl_call *)(void *)private, code);
        else
            connection_came(kube, code);
    }
}

/*
 * Answers on the streams of h2.c, which call the receiver as libcurl's callbacks do. Reads before
 * it sends, too, so that no request is sent on a connection that the server has closed.
 */
static void receive_streams(struct curl_kube *kube)
{
    if (kube->h2 == NULL ||
        (!kube->readable && !h2_has_more(kube->h2) && kube->chain[CALL_QUEUED].first == NULL))
        return;
    kube->readable = false;
    kube->inside++;
    h2_receive(kube->h2);
    kube->inside--;
}

/* Lets libcurl send and receive: a system call for each of its calls in flight. */
static void turn_libcurl(struct curl_kube *kube)
{
    int running;

    if (kube->n_handles == 0 && !waits_for_h2(kube))
        return;
    const CURLMcode code = curl_multi_perform(kube->multi, &running);
    must(code == CURLM_OK || code == CURLM_CALL_MULTI_PERFORM);
    kube_curl_reap(kube);
}

/*
 * Receives answers and sends the queued calls. Deadlines after the answers, so that an answer that
 * has arrived wins over its deadline.
 */
static void kube_curl_turn(struct curl_kube *kube)
{
    receive_streams(kube);
    follow_h2(kube, kube_curl_clock_now_ms());
    begin_queued(kube);
    turn_libcurl(kube);
    if (kube->h2 != NULL)
        h2_send(kube->h2);
    look_at_calls(kube, kube_curl_clock_now_ms());
    follow_h2(kube, kube_curl_clock_now_ms());
    kube_curl_free_done(kube);
}

/*
 * Returns 0 if the turn has queued calls (a retry after a 401, a nudge) or left bytes unread, else
 * wait_ms at most.
 */
static int64_t wait_at_most(const struct curl_kube *kube, int64_t wait_ms)
{
    const int64_t left_ms = kube->look_ms - kube_curl_clock_now_ms();

    must(kube->multi != NULL);
    if (kube->chain[CALL_QUEUED].first != NULL && !waits_for_h2(kube))
        return 0;
    if (kube->h2 != NULL && h2_has_more(kube->h2))
        return 0;
    if (left_ms < wait_ms)
        wait_ms = left_ms > 0 ? left_ms : 0;
    return wait_ms;
}

/* ---- kube_ops ---- */

static int kube_start(void *ctx, const struct kube_request *request, struct err *err)
{
    must(request->id != 0 && request->path[0] == '/');
    must((request->content_type != NULL) == (request->body.len > 0));
    must(request->header == NULL || strpbrk(request->header, "\r\n") == NULL);
    /* Whitespace would end the request line, or begin another header. */
    if (strpbrk(request->path, " \t\r\n") != NULL)
        return err_set(err, ERR_INVALID, "path \"%s\": a blank inside", request->path);
    call_add(curl_call_new(ctx, request));
    return 0;
}

static void kube_cancel(void *ctx, uint64_t id)
{
    struct curl_kube *kube = ctx;

    must(id != 0);
    struct curl_call *call = map_find(&kube->by_id, id_text(&id));
    if (call == NULL)
        return;
    call->cancelled = true;
    kube_curl_retire(call);
}

/*
 * Waits for more answers, at most GATHER_MS, because libcurl examines every call in flight to
 * receive one. wake() ends the wait.
 */
static void kube_curl_gather(const struct curl_kube *kube, struct pollfd *bell)
{
    must(kube->inside == 0 && bell->fd == kube->bell);
    if (kube->n_handles >= GATHER_CALLS)
        (void)poll(bell, 1, GATHER_MS);
}

/*
 * Waits for the server, for libcurl's timers or for wake(). Returns false if wake() was called and
 * the server has sent nothing.
 */
static bool kube_curl_sleep(struct curl_kube *kube, int64_t wait_ms)
{
    struct curl_waitfd fd[2] = {{.fd = kube->bell, .events = CURL_WAIT_POLLIN}};
    unsigned n_fds = 1;
    enum sleeper was = SLEEPER_AWAKE;
    eventfd_t rings;
    int ready = 0;

    must(wait_ms >= 0);
    const bool sleeps = atomic_compare_exchange_strong(&kube->sleeper, &was, SLEEPER_ASLEEP);
    const int timeout = !sleeps ? 0 : wait_ms < INT32_MAX ? (int)wait_ms : INT32_MAX;
    if (kube->h2 != NULL && h2_socket(kube->h2) >= 0)
        fd[n_fds++] = (struct curl_waitfd){.fd = h2_socket(kube->h2),
                                           .events = h2_wants_to_send(kube->h2)
                                                         ? CURL_WAIT_POLLIN | CURL_WAIT_POLLOUT
                                                         : CURL_WAIT_POLLIN};
    must(curl_multi_poll(kube->multi, fd, n_fds, timeout, &ready) == CURLM_OK);
    struct pollfd again = {.fd = kube->bell, .events = POLLIN, .revents = fd[0].revents};
    if (again.revents != 0)
        ready--;
    else if (sleeps && ready > 0)
        kube_curl_gather(kube, &again);
    kube->readable |= ready > 0; /* an end of the connection shows in no other way */
    was = atomic_exchange(&kube->sleeper, SLEEPER_AWAKE);
    /* It may ring after the exchange, which ends the next sleep at once. */
    if (again.revents != 0)
        must(eventfd_read(kube->bell, &rings) == 0);
    return ready > 0 || was != SLEEPER_WOKEN;
}

/*
 * Sends queued calls before it waits. Waits only if nothing was delivered, so that the caller can
 * handle answers at once.
 */
static void kube_poll(void *ctx, int64_t wait_ms, void *user,
                      void (*deliver_to)(void *user, const struct kube_answer *answer))
{
    struct curl_kube *kube = ctx;

    must(kube->inside == 0 && kube->deliver == NULL);
    kube->user = user;
    kube->deliver = deliver_to;
    const uint64_t before = kube->delivered;
    if (kube->chain[CALL_QUEUED].first != NULL || kube->done != NULL)
        kube_curl_turn(kube);
    if (kube->delivered == before) {
        /* A call that ends by its deadline leaves libcurl in the same turn. */
        if (kube_curl_sleep(kube, wait_at_most(kube, wait_ms)) ||
            kube_curl_clock_now_ms() >= kube->look_ms)
            kube_curl_turn(kube);
    }
    kube->deliver = NULL;
}

/* Any thread. Costs a system call only if poll() sleeps, and only the first time. */
static void kube_wake(void *ctx)
{
    struct curl_kube *kube = ctx;

    if (atomic_exchange(&kube->sleeper, SLEEPER_WOKEN) == SLEEPER_ASLEEP)
        must(eventfd_write(kube->bell, 1) == 0);
}

static const char *kube_name(void *ctx)
{
    must(ctx != NULL);
    const struct curl_kube *kube = ctx;
    return kube_config_server(kube->config);
}

/*
 * Removes the handles from libcurl, then closes its connections, which tells handles of each
 * socket. Delivers nothing.
 */
static void kube_free(void *ctx)
{
    struct curl_kube *kube = ctx;

    must(kube->inside == 0);
    for (size_t state = 0; state < CALL_STATES; state++)
        for (struct curl_call *call = kube->chain[state].first; call != NULL; call = call->next)
            kube_curl_retire(call);
    kube_curl_free_done(kube);
    must(kube->by_id.count == 0);
    h2_free(kube->h2);
    map_done(&kube->by_id);
    (void)curl_multi_cleanup(kube->multi); /* no handle is left in it */
    handles_free(kube->handles);
    must(close(kube->bell) == 0);
    xfree(kube);
}

static CURLcode global_code = CURLE_FAILED_INIT;

/* Called once per process (pthread_once), before any other function of libcurl. */
static void global_init(void)
{
    global_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int kube_curl_make(struct kube_config *config, bool wants_h2, struct kube_ops *out,
                          struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    must(config->server != NULL);
    must(pthread_once(&once, global_init) == 0);
    CURLM *multi = global_code == CURLE_OK ? curl_multi_init() : NULL;
    if (multi == NULL)
        return err_set(err, ERR_INTERNAL, "libcurl does not start");
    const int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0) {
        const int error = errno;
        (void)curl_multi_cleanup(multi);
        return err_set(err, ERR_IO, "no eventfd: %s", strerrordesc_np(error));
    }
    must(curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX) == CURLM_OK);
    must(curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)STREAMS_MAX) == CURLM_OK);
    must(curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)CONNECTIONS_MAX) ==
         CURLM_OK);
    must(curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX) == CURLM_OK);

    struct curl_kube *kube = xcalloc(1, sizeof *kube);
    kube->multi = multi;
    kube->bell = bell;
    kube->config = config;
    kube->handles = handles_new(config);
    kube->wants_h2 = wants_h2 && handles_can_connect(kube->handles);
    map_init(&kube->by_id);
    kube->look_ms = INT64_MAX;
    *out = (struct kube_ops){.ctx = kube,
                             .start = kube_start,
                             .cancel = kube_cancel,
                             .poll = kube_poll,
                             .wake = kube_wake,
                             .name = kube_name,
                             .free = kube_free};
    return 0;
}

int kube_curl_new(struct kube_config *config, struct kube_ops *out, struct err *err)
{
    return kube_curl_make(config, false, out, err);
}

int kube_calls_new(struct kube_config *config, struct kube_ops *out, struct err *err)
{
    return kube_curl_make(config, true, out, err);
}
