/*
 * http - the HTTP server: listeners, limits, TLS.
 *
 *   request complete -> handler(call) in one of the listener's threads
 *                          http_answer(call) now, or later from any thread: the connection sleeps
 *
 * Every call is answered exactly once. Its body, path and headers stay valid until http_answer().
 * Handlers must not block: a slow answer is given later (bind). This layer hides the pitfalls of
 * libmicrohttpd: answers are queued on the second callback, bodies are in our own buffers, answers
 * carry Content-Length, and ambiguous requests are refused. Requests from browser pages (with
 * Origin) are refused, and bodies must be JSON.
 *
 *  W1  A call is answered once: by http_answer(), or with 503 by http_stop(), after which no other
 *      code may answer it.
 *  W2  A request must be complete within request_ms of its first byte, however steadily its bytes
 *      arrive.
 *  W3  A connection uses the certificates that were loaded when it was accepted.
 *  W4  A new connection is accepted as long as another one is idle: at the limit of strangers, or
 *      of one address, the longest idle connection of the address with the most connections is
 *      closed. A connection whose request is being answered is never closed for another one, and a
 *      known client never for a stranger.
 *  W5  A stranger must send the first byte, and complete the TLS handshake, within first_ms of
 *      connecting.
 *  W6  Slow bodies cannot exhaust the memory for bodies: if it is full, the oldest body that has
 *      been arriving for a second is dropped, a stranger's first. If clients can be known,
 *      strangers never occupy more than three quarters of it.
 *
 * A stranger is an unauthenticated client. It becomes a known client by a certificate of the client
 * CA, if there is one, or by a complete request, if has_request_proof is set.
 *
 * Functions may be called by any thread unless they say otherwise; a call belongs to one thread at
 * a time.
 */
#ifndef MILLIGPU_HTTP_H
#define MILLIGPU_HTTP_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

struct http_server; /* one listener */
struct http_call;   /* one request */

/* Reasons to close a connection early. */
enum http_cause {
    HTTP_SILENT,    /* no byte, or no TLS handshake, within first_ms */
    HTTP_GAVE_WAY,  /* idle, closed for a new connection (W4) */
    HTTP_BODY_SLOW, /* slow body, dropped for another body (W6) */
    HTTP_NO_PLACE,  /* new, with no idle connection to close */
    HTTP_CAUSES,
};
const char *http_cause_word(enum http_cause cause);

struct http_rules {
    const char *name; /* "webhook", "admin", "probe", "report", "socket": for logs and metrics */
    /*
     * Address and port, "127.0.0.1:8910" or "[::1]:0" (port 0 picks a free one), or a Unix socket,
     * "unix:/run/milligpu/admin.sock", without TLS and with mode 0600. Its folder is created if
     * missing, a stale socket is replaced, and http_stop() removes the file.
     */
    const char *listen;
    uint32_t threads; /* size of the epoll thread pool */
    /* Limits of connections. */
    uint32_t connections;    /* known clients; 0 if clients are never known */
    uint32_t strangers;      /* strangers */
    uint32_t strangers_each; /* strangers of one address; in IPv6 of one /64 network */
    bool has_request_proof;  /* a complete request makes a client known */
    /*
     * True if a route accepts a body. Any other body is not read: the request is handed over after
     * its headers (http_body_unread), and its connection ends. NULL if no route does.
     */
    bool (*takes_body)(void *user, const char *method, const char *path);
    /* Limit of one body: 413 above it, before the bytes are read if Content-Length shows it. */
    size_t body_bytes_max;
    /* Limit of all bodies together, larger than body_bytes_max: 503 above it. */
    size_t bodies_bytes_max;
    /* Timeouts. */
    int64_t first_ms;      /* until the first byte and the TLS handshake */
    int64_t idle_ms;       /* keep-alive between requests */
    int64_t request_ms;    /* from the first byte of a request to its last: then 408 and close */
    const char *cert_file; /* NULL for plain HTTP */
    const char *key_file;
    const char *client_ca_file; /* NULL if no client certificate is requested */
    /*
     * True if the name is accepted in a certificate of that CA. Called when a connection begins,
     * first with "" (true accepts any certificate), then with the certificate's CN and DNS names.
     * If none is accepted, each request gets 403. NULL accepts any certificate.
     */
    bool (*admits)(void *user, const char *name);
    /* Host must be a loopback name or in hosts (against DNS rebinding). */
    bool known_hosts_only;
    /* Names or addresses without ports, separated by commas; or NULL. */
    const char *hosts;
    void *user;
    void (*handler)(void *user, struct http_call *call);
    /*
     * Reports a request that did not reach the handler: 400, 403, 408, 413, 415, 417, 431, 501,
     * 503, 505, or 0 if the TLS handshake failed. Any thread; must not call http_*. May be NULL.
     */
    void (*refused)(void *user, int status, const char *why);
    /* Reports the number of connections closed since the last report. May be NULL. */
    void (*dropped)(void *user, const char *name, enum http_cause cause, uint32_t count);
};

/* Maximum number of open files of a listener with these rules. */
uint32_t http_files(const struct http_rules *rules);

int http_start(const struct http_rules *rules, struct http_server **out, struct err *err) MUST_USE;

/* Returns the bound port; not for a Unix socket. */
uint16_t http_port(const struct http_server *http);

/* Stops accepting connections; existing ones are closed after their answer. */
void http_quiesce(struct http_server *http);

/* Number of calls without an answer yet. */
uint32_t http_pending(const struct http_server *http);

/* Bytes of request bodies, including buffers that connections keep for their next request. */
size_t http_body_bytes(const struct http_server *http);

/* Answers the remaining calls with 503 and stops. NULL is fine. */
void http_stop(struct http_server *http);

/*
 * Reads certificate, key and CA again; the old ones stay if the new ones cannot be loaded. Does
 * nothing for plain HTTP.
 */
int http_reload(struct http_server *http, struct err *err) MUST_USE;

/* UTC seconds at which the first certificate of the chain in use expires; 0 for plain HTTP. */
int64_t http_certificate_ends_s(struct http_server *http);

/* True if one of the TLS files has changed since the last load, successful or not. */
bool http_files_changed(struct http_server *http);

/* Checks an address as http_start() does: "127.0.0.1:8910", "[::1]:0", "localhost:80". */
int http_address_check(const char *address, struct err *err) MUST_USE;
/* True if only this machine can reach a checked address. */
bool http_address_is_loopback(const char *address);
/* Checks the path of a Unix socket: absolute, at most 107 bytes. */
int http_socket_check(const char *path, struct err *err) MUST_USE;

/* True if the call came over a Unix socket: its peer is a process of this user, or root. */
bool http_over_socket(const struct http_call *call);

const char *http_method(const struct http_call *call);
/* Returns the decoded path without the query; begins with '/'. */
const char *http_path(const struct http_call *call);
/* Visits every query parameter, decoded, so that unknown names can be refused. */
void http_query_each(struct http_call *call, void *user,
                     void (*name)(void *user, const char *name, const char *value));
const char *http_header(struct http_call *call, const char *name); /* NULL if absent */
struct text http_body(const struct http_call *call);
/* True if the request had a body that takes_body() does not accept; http_body() is then empty. */
bool http_body_unread(const struct http_call *call);
uint64_t http_id(const struct http_call *call);      /* request id, unique in the process */
int64_t http_began_ns(const struct http_call *call); /* monotonic time of the complete request */

/*
 * Answers a call, exactly once, from any thread. type is for example "application/json". Takes the
 * content of take_body and resets it.
 */
void http_answer(struct http_call *call, int status, const char *type, struct strbuf *take_body);
/* Answers with a file, of its current size; the file is read while it is sent, then closed. */
void http_answer_file(struct http_call *call, int status, const char *type, int take_fd);

/*
 * An endless answer (event stream), fed by the caller; it occupies no thread while it waits. The
 * stream belongs to the caller until http_stream_end(), which must come before http_stop(). Its
 * connection counts as idle for W4, and a peer that reads nothing is cut like any slow one.
 */
struct http_stream;
struct http_stream *http_answer_stream(struct http_call *call, int status,
                                       const char *type) MUST_USE;
/* Appends a copy of the text. Any thread, one at a time for each stream. */
void http_stream_put(struct http_stream *stream, struct text text);
/* Sets *out_bytes to the number of unsent bytes; false if the peer is gone. */
bool http_stream_waits(struct http_stream *stream, size_t *out_bytes);
/* Releases the stream; buffered bytes are still sent. */
void http_stream_end(struct http_stream *stream);

/*
 * Adds a header to the later answer, at most 8; both strings are copied. A header with an invalid
 * value is left out.
 */
void http_set_header(struct http_call *call, const char *name, const char *value);

#endif
