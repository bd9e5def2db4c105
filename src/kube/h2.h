/*
 * h2 - one HTTP/2 connection to the API server, for many small requests at a time.
 *
 *   h2_new() --> CONNECTING --> GREETING --> OPEN --> LEAVING --> CLOSED
 *                 libcurl        SETTINGS     streams   no new streams
 *
 * libcurl opens the connection (name lookup, TLS, certificates) and transports its bytes;
 * nghttp2 reads and writes the frames. So a request costs its frames, where libcurl would examine
 * every request in flight for each answer. No request is sent before the server's SETTINGS have
 * shown that it speaks HTTP/2: if it does not, the connection ends as REFUSED, and libcurl can send
 * the same requests.
 *
 * Belongs to one thread. The receiver is called from h2_receive() and h2_send() only; it must not
 * free the connection.
 */
#ifndef MILLIGPU_KUBE_H2_H
#define MILLIGPU_KUBE_H2_H

#include "curl_handle.h"

enum h2_state {
    H2_CONNECTING, /* in libcurl's multi handle */
    H2_GREETING,   /* connected; the server's SETTINGS have not arrived */
    H2_OPEN,
    H2_LEAVING, /* takes no new streams; the open ones go on */
    H2_REFUSED, /* the server speaks another protocol; no request was sent */
    H2_CLOSED,  /* streams without an end are lost: see h2_error() */
};

/* One request on the connection, embedded in its owner; zero before h2_ask(). */
struct h2_stream {
    int32_t id;       /* 0: not on a connection */
    int status;       /* of the answer; 0: none yet */
    bool headed;      /* its head was received */
    bool reset;       /* by the server */
    bool sent;        /* a part of the request may have been sent */
    struct text body; /* borrowed until the end of the stream */
    size_t given;     /* bytes of the body in frames */
    void *call;       /* for the receiver */
};

struct h2_receiver {
    /* A header before head(); name in lower case. */
    void (*header)(void *call, struct text name, struct text value);
    /* The head of the final answer; not of an informational one. */
    void (*head)(void *call, int status);
    void (*data)(void *call, struct text data);
    /*
     * The stream has ended, and is on no connection any more. failure NULL: the answer is complete.
     * unsent: the server certainly did not process the request.
     */
    void (*end)(void *call, bool unsent, const char *failure);
};

struct h2;

/* Begins to connect, in multi. Handles, multi and receiver must outlive the connection. */
int h2_new(struct handles *handles, CURLM *multi, const struct h2_receiver *receiver,
           int64_t now_ms, struct h2 **out, struct err *err) MUST_USE;
/* Every stream must have ended, or been dropped. NULL is fine. */
void h2_free(struct h2 *h2);

enum h2_state h2_state(const struct h2 *h2);
/* In CONNECTING and GREETING, requests wait for the connection. */
static inline bool h2_is_early(enum h2_state state)
{
    return state == H2_CONNECTING || state == H2_GREETING;
}
int64_t h2_begun_ms(const struct h2 *h2); /* monotonic time of h2_new() */
uint32_t h2_n_streams(const struct h2 *h2);
/* Why it is CLOSED or REFUSED. */
const struct err *h2_error(const struct h2 *h2);
/* Do the credentials of a new request need another connection (renewed certificates)? */
bool h2_is_outdated(const struct h2 *h2);

/* libcurl has connected, or failed: its handle has CURLOPT_PRIVATE NULL. */
void h2_connected(struct h2 *h2, CURLcode code, int64_t now_ms);
/* When a server without SETTINGS counts as one of another protocol; INT64_MAX: not in GREETING. */
int64_t h2_limit_ms(const struct h2 *h2);
void h2_refuse(struct h2 *h2, const char *why);
/* Takes no new streams from now on. */
void h2_leave(struct h2 *h2);
/* Ends the connection, and its streams without calling the receiver. */
void h2_close(struct h2 *h2, enum err_code code, const char *why);

/*
 * Opens a stream for the request, whose body is borrowed until the stream ends. If the connection
 * takes no more streams, it is LEAVING afterwards, and the stream has no id. Sends nothing before
 * h2_send().
 */
void h2_ask(struct h2 *h2, struct h2_stream *stream, const struct handle_request *request,
            void *call);
/* Did the server certainly not get the whole request? For a stream that was not ended. */
static inline bool h2_is_unsent(const struct h2_stream *stream)
{
    return !stream->sent || stream->given < stream->body.len;
}
/* Resets the stream, if it is open; the receiver is not called for it again. */
void h2_drop(struct h2 *h2, struct h2_stream *stream);

/* In GREETING, OPEN and LEAVING: the socket to wait for; else -1. */
int h2_socket(const struct h2 *h2);
/* True if bytes wait until the socket takes them. */
bool h2_wants_to_send(const struct h2 *h2);
/* True if bytes may wait, either way, that poll() does not show. */
bool h2_has_more(const struct h2 *h2);
/* Reads what has arrived, at most a few dozen buffers, and calls the receiver. */
void h2_receive(struct h2 *h2);
/* Sends what the socket takes. */
void h2_send(struct h2 *h2);

#endif
