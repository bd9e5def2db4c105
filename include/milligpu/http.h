/*
 * http - the HTTP server: listeners, limits, TLS.  It knows nothing of what is served.
 *
 *   request complete -> handler(call) in one of the listener's threads
 *                          http_answer(call) now, or later from any thread: the connection sleeps
 *
 * Every call is answered exactly once.  Until then its body, path and headers stay valid;
 * http_answer() ends that.  Handlers must not block: a slow answer is given later (bind).
 * libmicrohttpd's pitfalls are this layer's: answers are queued on the second callback, bodies
 * live in buffers of our own, answers carry Content-Length, what is ambiguous is refused.  Pages in
 * browsers (Origin) are not served, and bodies are JSON.
 *
 *  W1  A call is answered once: by http_answer(), or with 503 by http_stop(), after which
 *      nobody else may.
 *  W2  A request has request_ms from its first byte to its last, however steadily its bytes drip.
 *  W3  A connection uses the certificates that were loaded when it was accepted.
 *  W4  Who comes finds a place as long as anybody is idle: where strangers, or those of his
 *      address, are at their limit, the longest idle one of the address with most of them is
 *      closed.  Nobody whose request is being answered ever gives way, nobody known to a stranger.
 *  W5  A stranger's first byte, and his TLS handshake, come within first_ms of his connection.
 *  W6  Bodies that come slowly keep the memory of bodies from nobody: where it is full the oldest
 *      one that has been coming for a second gives way, a stranger's first; and strangers never
 *      have more than three quarters of it where somebody can be known.
 *
 * Everybody is a stranger until he is known: by a certificate of the client CA, where there is one;
 * by a complete request, where the rules say so; else never.
 *
 * Any thread, unless a function says otherwise; one call is touched by one thread at a time.
 */
#ifndef MILLIGPU_HTTP_H
#define MILLIGPU_HTTP_H

#include "milligpu/err.h"
#include "milligpu/strbuf.h"

struct http_server; /* one listener */
struct http_call;   /* one request */

/* Why a connection was closed before its time. */
enum http_cause {
    HTTP_SILENT,    /* nothing came from it, or no TLS handshake, in first_ms */
    HTTP_GAVE_WAY,  /* it was idle, and another came (W4) */
    HTTP_BODY_SLOW, /* its body came slowly, and another wanted the memory (W6) */
    HTTP_NO_PLACE,  /* it came, and everybody was being answered */
    HTTP_CAUSES,
};
const char *http_cause_word(enum http_cause cause);

struct http_rules {
    const char *name;        /* "webhook", "admin", "probe": for logs and metrics */
    const char *listen;      /* "127.0.0.1:8910", "[::1]:0"; port 0 picks a free one */
    uint32_t threads;        /* epoll pool */
    uint32_t connections;    /* of those who are known, at most; 0 where nobody is ever known */
    uint32_t strangers;      /* connections of others, at most */
    uint32_t strangers_each; /* of one address, in IPv6 of one network of 64 bits */
    bool request_proves;     /* who has brought a request to its end is known */
    /*
     * Is there a route that takes a body?  Any other body is not read: its request is handed over
     * at its headers (http_body_unread), and its connection ends.  NULL: there is none.
     */
    bool (*takes_body)(void *user, const char *method, const char *path);
    size_t body_bytes_max; /* 413 beyond, before the bytes are read where Content-Length says so */
    size_t bodies_bytes_max; /* of all connections together, more than that of one: 503 beyond */
    int64_t first_ms;        /* for the first byte and the TLS handshake */
    int64_t idle_ms;         /* keep-alive without a request */
    int64_t request_ms;      /* from the first byte to the last of a request: 408 and closed */
    const char *cert_file;   /* NULL: plain HTTP */
    const char *key_file;
    const char *client_ca_file; /* NULL: no client certificate is asked for */
    /*
     * Whose certificate of that CA will do?  Asked when a connection begins, with "" (true: any
     * will), then with each name that the certificate shows, its CN and its DNS names.  If none
     * will, each request is 403.  NULL: any.
     */
    bool (*admits)(void *user, const char *name);
    bool known_hosts_only; /* Host is a loopback name or one of these (DNS rebinding) */
    const char *hosts;     /* names or addresses without ports, between commas; or NULL */
    void *user;
    void (*handler)(void *user, struct http_call *call);
    /*
     * A request that never reached the handler: 400, 403, 408, 413, 415, 417, 431, 501, 503, 505;
     * 0: the TLS handshake failed.  From any thread; must not call http_*.  May be NULL.
     */
    void (*refused)(void *user, int status, const char *why);
    /* So many connections of this listener were closed, told a moment later.  May be NULL. */
    void (*dropped)(void *user, const char *name, enum http_cause cause, uint32_t count);
};

/* How many files a listener with these rules may have open. */
uint32_t http_files(const struct http_rules *rules);

int http_start(const struct http_rules *rules, struct http_server **out, struct err *err) MUST_USE;

/* The port that was bound. */
uint16_t http_port(const struct http_server *http);
const char *http_name(const struct http_server *http);

/* No new connections; answered ones are closed after their answer. */
void http_quiesce(struct http_server *http);

/* Calls that are not yet answered. */
uint32_t http_pending(const struct http_server *http);

/* What the bodies of requests take up, those that connections keep for their next one included. */
size_t http_body_bytes(const struct http_server *http);

/* Answers what is left with 503 and stops.  NULL is fine. */
void http_stop(struct http_server *http);

/*
 * Read certificate, key and CA again; the old ones stay when the new do not load.
 * Plain HTTP: nothing to do.
 */
int http_reload(struct http_server *http, struct err *err) MUST_USE;

/* Did one of these files change since they were last read, with success or without? */
bool http_files_changed(struct http_server *http);

/* "127.0.0.1:8910", "[::1]:0", "localhost:80": the forms that http_start() takes. */
int http_address_check(const char *address, struct err *err) MUST_USE;
/* Of an address that passed the check: can only this machine reach it? */
bool http_address_is_loopback(const char *address);

const char *http_method(const struct http_call *call);
const char *
http_path(const struct http_call *call); /* decoded, without the query; begins with '/' */
/* Decoded; NULL if absent; "" if empty. */
const char *http_query(struct http_call *call, const char *name);
/* Visit the query's names, for refusing those that nobody knows. */
void http_query_each(struct http_call *call, void *user,
                     void (*name)(void *user, const char *name, const char *value));
const char *http_header(struct http_call *call, const char *name); /* NULL if absent */
struct text http_body(const struct http_call *call);
/* It has a body that takes_body() did not want: it is empty here. */
bool http_body_unread(const struct http_call *call);
uint64_t http_id(const struct http_call *call);      /* request id, unique in the process */
int64_t http_began_ns(const struct http_call *call); /* monotonic, when the request was complete */

/*
 * done(user) is called when the call is answered, by http_answer() itself or by http_stop(): frees.
 * A peer that goes away meanwhile changes nothing; the answer is then dropped.
 */
void http_attach(struct http_call *call, void *user, void (*done)(void *user));

/* Swallows body (it is reset).  type: "application/json".  Any thread, exactly once. */
void http_answer(struct http_call *call, int status, const char *type, struct strbuf *take_body);
/* The same with what is in a file now; it is read while it is sent, and closed. */
void http_answer_file(struct http_call *call, int status, const char *type, int take_fd);

/*
 * More headers, at most 8, before the answer; both are copied.  One whose value a header cannot
 * carry is left out.
 */
void http_set_header(struct http_call *call, const char *name, const char *value);

#endif
