/*
 * http - the HTTP server: listeners, limits, TLS. It does not know what is served.
 *
 *   request complete -> handler(call) in one of the listener's threads
 *                          http_answer(call) now, or later from any thread: the connection sleeps
 *
 * Every call is answered exactly once. Its body, path and headers stay valid until http_answer().
 * Handlers must not block: a slow answer is given later (bind). This layer hides libmicrohttpd's
 * pitfalls: answers are queued on the second callback, bodies are in buffers of our own, answers
 * carry Content-Length, and ambiguous requests are refused. Requests from browser pages (with
 * Origin) are refused, and bodies must be JSON.
 *
 *  W1  A call is answered once: by http_answer(), or with 503 by http_stop(), after which no other
 *      code may answer it.
 *  W2  A request must be complete within request_ms of its first byte, however steadily its bytes
 *      arrive.
 *  W3  A connection uses the certificates that were loaded when it was accepted.
 *  W4  A new connection is accepted as long as another one is idle: if strangers, or connections of
 *      one address, are at their limit, the one that has been idle longest among those of the
 *      address with the most connections is closed. A connection whose request is being answered is
 *      never closed for another one, and a known client never for a stranger.
 *  W5  A stranger must send the first byte, and complete the TLS handshake, within first_ms of
 *      connecting.
 *  W6  Slow bodies cannot occupy the memory for bodies: if it is full, the oldest body that has
 *      been arriving for a second is dropped, a stranger's first. If clients can be known,
 *      strangers never occupy more than three quarters of it.
 *
 * A client is a stranger until it is known: by a certificate of the client CA, if there is one; by
 * a complete request, if the rules say so; otherwise never.
 *
 * Any thread, unless a function says otherwise; one call is touched by one thread at a time.
 */
#ifndef MILLIGPU_HTTP_H
#define MILLIGPU_HTTP_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

struct http_server; /* one listener */
struct http_call;   /* one request */

/* Why a connection was closed before its time. */
enum http_cause {
    HTTP_SILENT,    /* no byte, or no TLS handshake, in first_ms */
    HTTP_GAVE_WAY,  /* it was idle, and a new connection needed its place (W4) */
    HTTP_BODY_SLOW, /* its body was slow, and another body needed the memory (W6) */
    HTTP_NO_PLACE,  /* it was new, and all others were being answered */
    HTTP_CAUSES,
};
const char *http_cause_word(enum http_cause cause);

struct http_rules {
    const char *name; /* "webhook", "admin", "probe", "report", "socket": for logs and metrics */
    /*
     * "127.0.0.1:8910", "[::1]:0" (port 0 picks a free one), or "unix:/run/milligpu/admin.sock": a
     * Unix socket without TLS, mode 0600. Its folder is created if it is missing, a socket on which
     * nobody listens is replaced, and http_stop() removes the file.
     */
    const char *listen;
    uint32_t threads;     /* threads of the epoll pool */
    uint32_t connections; /* maximum of known clients; 0 if clients are never known */
    uint32_t strangers;   /* maximum of strangers */
    /* maximum of strangers for one address; in IPv6 for one /64 network */
    uint32_t strangers_each;
    bool has_request_proof; /* a client that has completed a request is known */
    /*
     * Does any route accept a body? Any other body is not read: the request is handed over after
     * its headers (http_body_unread), and its connection ends. NULL: no route does.
     */
    bool (*takes_body)(void *user, const char *method, const char *path);
    /* 413 above this, before the bytes are read if Content-Length shows it */
    size_t body_bytes_max;
    /* for all connections together, and larger than body_bytes_max: 503 above this */
    size_t bodies_bytes_max;
    int64_t first_ms; /* for the first byte and the TLS handshake */
    int64_t idle_ms;  /* keep-alive without a request */
    /* from the first byte of a request to its last: then 408, and the connection is closed */
    int64_t request_ms;
    const char *cert_file; /* NULL: plain HTTP */
    const char *key_file;
    const char *client_ca_file; /* NULL: no client certificate is requested */
    /*
     * Is this name accepted in a certificate of that CA? Called when a connection begins, first
     * with "" (true: any certificate), then with each name in the certificate: its CN and its DNS
     * names. If none is accepted, each request gets 403. NULL: any certificate.
     */
    bool (*admits)(void *user, const char *name);
    /* Host must be a loopback name or one of these (DNS rebinding) */
    bool known_hosts_only;
    /* names or addresses without ports, separated by commas; or NULL */
    const char *hosts;
    void *user;
    void (*handler)(void *user, struct http_call *call);
    /*
     * A request that did not reach the handler: 400, 403, 408, 413, 415, 417, 431, 501, 503, 505;
     * 0: the TLS handshake failed. Any thread; must not call http_*. May be NULL.
     */
    void (*refused)(void *user, int status, const char *why);
    /* This many connections of the listener were closed; reported a moment later. May be NULL. */
    void (*dropped)(void *user, const char *name, enum http_cause cause, uint32_t count);
};

/* How many files a listener with these rules may have open at once. */
uint32_t http_files(const struct http_rules *rules);

int http_start(const struct http_rules *rules, struct http_server **out, struct err *err) MUST_USE;

/* The port that was bound; not for a Unix socket. */
uint16_t http_port(const struct http_server *http);

/* Accepts no new connections; the others are closed after their answer. */
void http_quiesce(struct http_server *http);

/* How many calls are not answered yet. */
uint32_t http_pending(const struct http_server *http);

/*
 * The bytes occupied by request bodies, including buffers that connections keep for their next
 * request.
 */
size_t http_body_bytes(const struct http_server *http);

/* Answers the remaining calls with 503 and stops. NULL is fine. */
void http_stop(struct http_server *http);

/*
 * Reads certificate, key and CA again; the old ones stay if the new ones cannot be loaded. Plain
 * HTTP: nothing to do.
 */
int http_reload(struct http_server *http, struct err *err) MUST_USE;

/*
 * UTC seconds at which the certificate in use ends, or the first one of its chain; 0: plain HTTP.
 */
int64_t http_certificate_ends_s(struct http_server *http);

/* Has one of these files changed since they were last read, successfully or not? */
bool http_files_changed(struct http_server *http);

/* Accepts the forms that http_start() accepts: "127.0.0.1:8910", "[::1]:0", "localhost:80". */
int http_address_check(const char *address, struct err *err) MUST_USE;
/* For an address that passed the check: can only this machine reach it? */
bool http_address_is_loopback(const char *address);
/* Can a Unix socket have this path? It must be absolute and no longer than 107 bytes. */
int http_socket_check(const char *path, struct err *err) MUST_USE;

/* Did the call come over a Unix socket? Then its peer is a process of this user, or root. */
bool http_over_socket(const struct http_call *call);

const char *http_method(const struct http_call *call);
/* Decoded, without the query; begins with '/'. */
const char *http_path(const struct http_call *call);
/* Visits the names in the query, decoded, so that unknown ones can be refused. */
void http_query_each(struct http_call *call, void *user,
                     void (*name)(void *user, const char *name, const char *value));
const char *http_header(struct http_call *call, const char *name); /* NULL if absent */
struct text http_body(const struct http_call *call);
/* Did the request have a body that takes_body() does not accept? http_body() is then empty. */
bool http_body_unread(const struct http_call *call);
uint64_t http_id(const struct http_call *call);      /* request id, unique in the process */
int64_t http_began_ns(const struct http_call *call); /* monotonic, when the request was complete */

/* Takes the content of body (it is reset). type: "application/json". Any thread, exactly once. */
void http_answer(struct http_call *call, int status, const char *type, struct strbuf *take_body);
/*
 * The same with the content that a file has now; it is read while it is sent, and closed
 * afterwards.
 */
void http_answer_file(struct http_call *call, int status, const char *type, int take_fd);

/*
 * An answer without an end, fed from outside: it takes no thread while it waits. The stream belongs
 * to the caller until http_stream_end(), which must come before http_stop(). The connection is an
 * idle one to W4, and a peer that takes nothing for long is cut like any slow one.
 */
struct http_stream;
struct http_stream *http_answer_stream(struct http_call *call, int status,
                                       const char *type) MUST_USE;
/* Copies the text. Any thread, one at a time for each stream. */
void http_stream_put(struct http_stream *stream, struct text text);
/* How many bytes has the peer not taken yet? False: the peer is gone. */
bool http_stream_waits(struct http_stream *stream, size_t *out_bytes);
/* What was put is still sent. The caller must not use it any more. */
void http_stream_end(struct http_stream *stream);

/*
 * Adds a header before the answer, at most 8; both strings are copied. A header whose value cannot
 * be sent is left out.
 */
void http_set_header(struct http_call *call, const char *name, const char *value);

#endif
