/*
 * http_internal - what the parts of the HTTP server share.
 *
 *   http.c            a listener: start, quiesce, stop
 *   http_accept.c     connections: time limits, certificates
 *   http_admission.c  connections: how many are accepted, and which one is closed for another
 *   http_call.c       requests: read, hand over, answer
 *   http_stream.c     answers without an end
 *   http_headers.c    which requests are accepted, by their headers
 *   http_body.c       request bodies, and how much memory they may take
 *   http_tls.c        certificates
 *   http_names.c      the names in client certificates
 *   http_address.c    "127.0.0.1:8910"
 *   http_socket.c     "unix:/run/milligpu/admin.sock"
 *   http_common.c     waiting, and the callbacks about refused requests
 *
 * A connection serves one request at a time, so each has one call, used again and again:
 *
 *   WAITING -> READING -> HANDLING ------------> ANSWERED -> WAITING
 *      \         |            \-> SLEEPING ------^
 *       \--> CUT <-- the watch found it too slow
 *
 *  I1  Only the connection's own thread of libmicrohttpd moves it, but for SLEEPING -> ANSWERED
 *      and HANDLING -> ANSWERED (http_answer), and -> CUT (the watch).
 *  I2  A call that sleeps is in http->asleep; the lock is held to put it there and to wake it.
 *  I3  A connection is in http->connections, under the lock, as long as its socket is open.
 *  I4  A connection that counts is in an idle list (admission) unless a handler has its request.
 */
#ifndef MILLIGPU_HTTP_HTTP_INTERNAL_H
#define MILLIGPU_HTTP_HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>

#include <gnutls/gnutls.h>
#include <microhttpd.h>

#include "milligpu/http/http.h"
#include "milligpu/run/mutex.h"

enum {
    CALL_HEADERS_MAX = 8,
    /* a connection keeps no larger buffer between requests */
    BODY_KEEP_BYTES = 256 * 1024,
    /* and none if bodies occupy more than this part of their memory */
    BODY_KEEP_PART = 4,
    /* libmicrohttpd's default; more costs time on every request */
    CONNECTION_BYTES = 32 * 1024,
    ANSWER_PATIENCE = 4,     /* times request_ms for the peer to accept its answer */
    STOP_PATIENCE_MS = 1000, /* for the last answers to be sent */
    /* connections that arrive at once; the system may allow fewer */
    LISTEN_BACKLOG = 4096,
    OVERDUE_PATIENCE =
        /* times the limit if the client waits for us: we may be slow, but not that slow */
    3,
};

enum call_state {
    CALL_WAITING,  /* between requests */
    CALL_READING,  /* the request line has arrived */
    CALL_HANDLING, /* complete; the handler has it */
    CALL_SLEEPING, /* the handler returned without an answer */
    CALL_ANSWERED, /* the answer exists and may be on its way */
    CALL_CUT,      /* abandoned; the socket is shut down */
};

struct call_header {
    char *name;
    char *value;
};

struct http_call {
    struct http_server *http;
    struct MHD_Connection *peer;
    atomic_int state;              /* enum call_state */
    atomic_int_fast64_t since_ns;  /* READING, ANSWERED: when that began */
    atomic_uint_fast64_t requests; /* completed on this connection */

    const char *method; /* NULL until the headers are complete */
    const char *path;
    struct strbuf body;
    size_t body_bytes; /* the maximum, as announced */
    /* of http->body_bytes: the size of its buffer, until it was dropped */
    atomic_size_t claimed;
    /* in http->bodies; set by its own thread, under the lock */
    atomic_bool body_listed;
    int64_t body_since_ns;
    struct http_call *body_next;
    struct http_call *body_last;
    bool unread; /* it has a body that no route accepts */
    int refuse;  /* answer with this status instead of calling the handler; 0: call it */
    const char *refuse_why;
    bool counted; /* in http->open */
    uint64_t id;
    int64_t began_ns;

    struct call_header header[CALL_HEADERS_MAX];
    size_t headers;
    int status;
    struct MHD_Response *response;
    struct http_stream *stream; /* the answer, while it goes on */

    struct http_call *asleep_next;
    struct http_call *asleep_last;
};

struct http_tls {
    atomic_uint refs;
    gnutls_certificate_credentials_t credentials;
    bool has_client_auth;
    int64_t ends_s; /* UTC: when the first certificate of the chain ends */
};

/* Lists of connections, the one that has been there longest first. */
struct idle_list {
    struct connection *first;
    struct connection *last;
    uint32_t count;
};

struct admission_address;

struct connection {
    struct http_call call; /* the first known state: all later ones are known */
    int fd;
    struct http_tls *tls; /* NULL: plain */
    atomic_bool greeted;  /* the TLS handshake was completed */
    bool verified;        /* the client's certificate was issued by our client CA */
    bool doubted;         /* it was not */
    bool named;           /* one of its names is accepted, or any is */
    char *nameless_why;   /* otherwise: its names, for people */
    int64_t accepted_ns;
    /* Used by http_admission.c only, under the lock. */
    struct admission_address *address; /* NULL: it does not count any more */
    bool known;
    /* it was closed for another one or shut down; the socket closes in a moment */
    bool gone;
    struct idle_list *line; /* NULL: it is being answered, or gone */
    struct connection *line_next;
    struct connection *line_last;
    struct connection *next;
    struct connection *last;
    /* Used by the watch only. */
    bool seen_greeted;
    uint64_t seen_requests;
    uint64_t seen_bytes;
    int64_t first_ns; /* when the present request was first seen; 0: not yet */
};

static inline struct connection *connection_of(struct http_call *call)
{
    static_assert(offsetof(struct connection, call) == 0,
                  "a call is what its connection begins with");
    return (struct connection *)call;
}

/* The connected clients; guarded by the lock. */
struct http_admission {
    struct admission_address **slot; /* by address */
    struct admission_address **rank; /* by the number of their idle strangers */
    uint32_t top;                    /* the highest rank in use; 0: none */
    struct idle_list idle;           /* of known clients */
    uint32_t strangers;
    uint32_t known;
    uint32_t dying;
};

/* Bodies that are large enough to matter and incomplete, by the time when they became so. */
struct bodies {
    struct http_call *first;
    struct http_call *last;
};

struct http_server {
    struct http_rules rules; /* strings are copies */
    int fd;
    uint16_t port;
    bool owns_path; /* the Unix socket's file is ours to remove */
    struct MHD_Daemon *daemon;
    pthread_t starter;
    /* the last log line of libmicrohttpd, in the thread that starts it */
    char complaint[256];
    atomic_bool quiesced;
    atomic_bool stopping;
    atomic_uint pending;              /* handed over, not answered */
    atomic_uint open;                 /* handed over, answer not yet sent */
    atomic_size_t body_bytes;         /* occupied by the bodies of all connections */
    atomic_uint dropped[HTTP_CAUSES]; /* since the watch reported them last */

    struct mutex lock; /* guards everything below */
    struct condvar changed;
    struct connection *connections;
    struct http_admission admission;
    struct bodies bodies[2]; /* of strangers, of known clients */
    struct http_call *asleep;
    struct http_tls *tls;
    uint64_t files_seen; /* a digest of the certificate files' identities */
    bool watch_ends;
    bool watch_rests; /* until a connection begins */
    bool watch_runs;
    pthread_t watch;
};

/* http_common.c */
void http_refused(const struct http_server *http, int status, const char *why);
/* Waits for a change, at most this long. */
void http_wait(struct http_server *http, int64_t wait_ms) REQUIRES(http->lock);

int address_parse(const char *address, struct sockaddr_storage *out, socklen_t *out_bytes,
                  struct err *err) MUST_USE;

/* The path of "unix:PATH"; NULL: another form. */
const char *socket_path_of(const char *listen);
/*
 * Listens on http->rules.listen, which is "unix:PATH", as http->fd. Only the user of this process
 * may connect. After a failure the caller closes http->fd.
 */
int socket_open(struct http_server *http, const char *path, struct err *err) MUST_USE;
void socket_remove(struct http_server *http); /* the file, if it is ours */

/* Returns one reference, which belongs to the caller. */
int tls_load(const struct http_rules *rules, struct http_tls **out, struct err *err) MUST_USE;
void tls_unref(struct http_tls *tls); /* NULL is fine */
/*
 * Sets the certificate, and the request for the client's, for a connection that was just accepted.
 */
void tls_install(struct connection *connection, gnutls_session_t session);
/* Records whose certificate was just verified. */
void names_check(struct connection *connection, gnutls_session_t session);
/* NULL: a name of the client is accepted, or none is required; else the reason. */
const char *names_refuse(const struct connection *connection);
uint64_t tls_files_print(const struct http_rules *rules);
extern const char tls_priorities[];

/* Held by the feeder and by the response, which is the answer of the call. */
struct http_stream *stream_new(struct http_call *call, struct MHD_Response **out) MUST_USE;
/* The connection of its call ends, or the answer has ended. */
void stream_over(struct http_stream *stream);

/* Called by libmicrohttpd. */
void accept_notify(void *cls, struct MHD_Connection *peer, void **socket_context,
                   enum MHD_ConnectionNotificationCode code);
void *call_began(void *cls, const char *uri, struct MHD_Connection *peer);
enum MHD_Result call_step(void *cls, struct MHD_Connection *peer, const char *path,
                          const char *method, const char *version, const char *bytes, size_t *count,
                          void **request);
void call_ended(void *cls, struct MHD_Connection *peer, void **request,
                enum MHD_RequestTerminationCode code);

void call_init(struct http_call *call, struct http_server *http, struct MHD_Connection *peer);
void call_drop(struct http_call *call);
/* Answers every sleeping call with 503. */
void call_answer_all(struct http_server *http) REQUIRES(http->lock);

/* For a request whose headers are complete: false sets call->refuse, or call->unread. */
bool check_headers(struct http_call *call, const char *version) MUST_USE;

/*
 * Is there memory for this many bytes, possibly by dropping another body? It is counted as the
 * bytes arrive.
 */
bool body_has_room(struct http_call *call, size_t bytes) MUST_USE;
/* The memory for the bodies of known clients, or of others. */
size_t body_most(const struct http_rules *rules, bool known);
/* Stores the data that arrived, or sets call->refuse. */
void body_take(struct http_call *call, const char *bytes, size_t count);
void body_complete(struct http_call *call); /* it cannot be dropped any more */
void body_reset(struct http_call *call);    /* for the next request */
void body_drop(struct http_call *call);
extern const char body_too_large[];
extern const char body_no_room[];

bool connection_waits_for_us(const struct connection *connection);

/* All except admission_init and admission_done; the lock is held unless noted. */
void admission_init(struct http_server *http);
void admission_done(struct http_server *http);
/* sockets, including those that are being closed */
uint32_t admission_most(const struct http_rules *rules);
/* Before a connection: is there a place, possibly by closing another one? */
bool admission_admits(struct http_server *http, const struct sockaddr *from)
    EXCLUDES(http->lock) MUST_USE;
void admission_join(struct connection *connection, const struct sockaddr *from);
void admission_leave(struct connection *connection);
/*
 * Shuts the socket down, after a last message (status 0: none) if the connection is plain and no
 * answer is on its way, and stops counting it; false if it did not count before, or the call is in
 * another state now.
 */
bool admission_cut(struct connection *connection, enum call_state from, int status) MUST_USE;
/*
 * Lock not held. Its certificate was verified, or its request is complete; false: there is no
 * place.
 */
bool admission_greeted(struct connection *connection) MUST_USE;
bool admission_asks(struct connection *connection) MUST_USE;
/* Lock not held. Its answer exists. */
void admission_rests(struct connection *connection);

/* The thread that shuts down slow connections. */
void watch_start(struct http_server *http);
void watch_stop(struct http_server *http);

#endif
