/*
 * http_internal - types and functions that the parts of the HTTP server share.
 *
 *   http.c            a listener: start, quiesce, stop
 *   http_accept.c     connections: time limits, certificates
 *   http_admission.c  connections: how many are accepted, and which one is closed for another
 *   http_call.c       requests: read, hand over, answer
 *   http_stream.c     endless answers
 *   http_headers.c    which requests are accepted, by their headers
 *   http_body.c       request bodies, and the limit on their memory
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
 *  I1  Only the connection's own thread of libmicrohttpd changes the state, except SLEEPING ->
 *      ANSWERED and HANDLING -> ANSWERED (http_answer), and -> CUT (the watch).
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
    /* Maximum size of a buffer that a connection keeps between requests. */
    BODY_KEEP_BYTES = 256 * 1024,
    /* No buffer is kept while bodies occupy more than this fraction (1/n) of their memory. */
    BODY_KEEP_PART = 4,
    /* libmicrohttpd's default; more costs time on every request */
    CONNECTION_BYTES = 32 * 1024,
    ANSWER_PATIENCE = 4,     /* timeout to send an answer, in multiples of request_ms */
    STOP_PATIENCE_MS = 1000, /* timeout to send the last answers */
    LISTEN_BACKLOG = 4096,   /* the system may allow fewer */
    OVERDUE_PATIENCE =
        /* factor of the limit while the client waits for us */
    3,
};

enum call_state {
    CALL_WAITING,  /* between requests */
    CALL_READING,  /* the request line has arrived */
    CALL_HANDLING, /* complete; the handler has it */
    CALL_SLEEPING, /* the handler returned without an answer */
    CALL_ANSWERED, /* the answer exists and may be on its way */
    CALL_CUT,      /* aborted; the socket is shut down */
};

struct call_header {
    char *name;
    char *value;
};

struct http_call {
    struct http_server *http;
    struct MHD_Connection *peer;
    atomic_int state;              /* enum call_state */
    atomic_int_fast64_t since_ns;  /* monotonic start of READING or ANSWERED */
    atomic_uint_fast64_t requests; /* completed on this connection */

    const char *method; /* NULL until the headers are complete */
    const char *path;
    struct strbuf body;
    size_t body_bytes; /* maximum: announced by Content-Length, or the limit */
    /* Bytes of the buffer that count in http->body_bytes; 0 after the body was dropped. */
    atomic_size_t claimed;
    /* True while in http->bodies; set by the call's own thread, under the lock. */
    atomic_bool body_listed;
    int64_t body_since_ns;
    struct http_call *body_next;
    struct http_call *body_last;
    bool unread; /* has a body that no route accepts */
    int refuse;  /* status to answer instead of calling the handler; 0 if none */
    const char *refuse_why;
    bool counted; /* counts in http->open */
    uint64_t id;
    int64_t began_ns;

    struct call_header header[CALL_HEADERS_MAX];
    size_t n_headers;
    int status;
    struct MHD_Response *response;
    struct http_stream *stream; /* endless answer in progress; NULL if none */

    struct http_call *asleep_next;
    struct http_call *asleep_last;
};

struct http_tls {
    atomic_uint refs;
    gnutls_certificate_credentials_t credentials;
    bool has_client_auth;
    int64_t ends_s; /* UTC expiry of the first certificate of the chain to expire */
};

/* A list of connections, longest idle first. */
struct idle_list {
    struct connection *first;
    struct connection *last;
    uint32_t count;
};

struct admission_address;

struct connection {
    struct http_call call; /* first member, see connection_of() */
    int fd;
    struct http_tls *tls; /* one reference; NULL for plain HTTP */
    atomic_bool greeted;  /* the TLS handshake is complete */
    bool verified;        /* the client's certificate was issued by our client CA */
    bool doubted;         /* it was not */
    bool named;           /* one of its names is accepted, or any is */
    char *nameless_why;   /* otherwise: its names, for people */
    int64_t accepted_ns;
    /* Used by http_admission.c only, under the lock. */
    struct admission_address *address; /* NULL after it has stopped counting */
    bool known;
    bool gone;              /* shut down, by itself or for another; the socket closes soon */
    struct idle_list *line; /* NULL while it is being answered, and when gone */
    struct connection *line_next;
    struct connection *line_last;
    struct connection *next;
    struct connection *last;
    /* Used by the watch only. */
    bool seen_greeted;
    uint64_t seen_requests;
    uint64_t seen_bytes;
    int64_t first_ns; /* time at which the present request was first seen; 0 if not yet */
};

static inline struct connection *connection_of(struct http_call *call)
{
    static_assert(offsetof(struct connection, call) == 0,
                  "a call is what its connection begins with");
    return (struct connection *)call;
}

/* The connected clients; guarded by the lock. */
struct http_admission {
    struct admission_address **bucket; /* hash table, by address */
    struct admission_address **rank;   /* lists, by the number of idle strangers */
    uint32_t top;                      /* highest rank in use; 0 if none */
    struct idle_list idle;             /* idle known clients */
    uint32_t strangers;
    uint32_t known;
    uint32_t dying;
};

/* Incomplete bodies of at least BODY_LARGE bytes, ordered by the time at which they reached it. */
struct bodies {
    struct http_call *first;
    struct http_call *last;
};

struct http_server {
    struct http_rules rules; /* strings are copies */
    int fd;
    uint16_t port;
    bool owns_path; /* we created the Unix socket's file, and remove it */
    struct MHD_Daemon *daemon;
    pthread_t starter;
    /* Last log line of libmicrohttpd in the starting thread. */
    char complaint[256];
    atomic_bool quiesced;
    atomic_bool stopping;
    atomic_uint pending;              /* calls handed over and not answered */
    atomic_uint open;                 /* calls handed over whose answer is not sent */
    atomic_size_t body_bytes;         /* memory of the bodies of all connections */
    atomic_uint dropped[HTTP_CAUSES]; /* connections closed since the watch's last report */

    struct mutex lock; /* guards everything below */
    struct condvar changed;
    struct connection *connections;
    struct http_admission admission;
    struct bodies bodies[2]; /* [0] of strangers, [1] of known clients */
    struct http_call *asleep;
    struct http_tls *tls;
    uint64_t files_seen; /* digest of the TLS files' inodes, sizes and times */
    bool watch_ends;
    bool watch_rests; /* the watch sleeps until a connection begins */
    bool watch_runs;
    pthread_t watch;
};

/* http_common.c */
void http_refused(const struct http_server *http, int status, const char *why);
/* Waits for http->changed, at most wait_ms. */
void http_wait(struct http_server *http, int64_t wait_ms) REQUIRES(http->lock);

int address_parse(const char *address, struct sockaddr_storage *out, socklen_t *out_bytes,
                  struct err *err) MUST_USE;

/* Returns PATH of "unix:PATH"; NULL for another form. */
const char *socket_path_of(const char *listen);
/*
 * Opens the Unix socket http->rules.listen as http->fd; only the user of this process can connect.
 * After a failure the caller closes http->fd.
 */
int socket_open(struct http_server *http, const char *path, struct err *err) MUST_USE;
void socket_remove(struct http_server *http); /* removes the file if owns_path */

/* *out is one reference, owned by the caller. */
int tls_load(const struct http_rules *rules, struct http_tls **out, struct err *err) MUST_USE;
void tls_unref(struct http_tls *tls); /* NULL is fine */
/* Sets the certificate of a new connection, and whether the client's is requested. */
void tls_install(struct connection *connection, gnutls_session_t session);
/* Checks and records the names of the certificate that was just verified. */
void names_check(struct connection *connection, gnutls_session_t session);
/* Returns the reason to refuse the client's names; NULL if one is accepted or none required. */
const char *names_refuse(const struct connection *connection);
uint64_t tls_files_print(const struct http_rules *rules);
extern const char tls_priorities[];

/* Two references: the feeder's, which is returned, and that of *out, the call's answer. */
struct http_stream *stream_new(struct http_call *call, struct MHD_Response **out) MUST_USE;
/* Detaches the stream when the answer or the call's connection ends. */
void stream_over(struct http_stream *stream);

/* Callbacks of libmicrohttpd. */
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

/* Checks complete headers; false sets call->refuse or call->unread. */
bool check_headers(struct http_call *call, const char *version) MUST_USE;

/*
 * Checks for memory for this many bytes, and drops another body if that helps. Reserves nothing:
 * bytes count as they arrive.
 */
bool body_has_room(struct http_call *call, size_t bytes) MUST_USE;
/* Limit on the memory of bodies, for known clients or for strangers. */
size_t body_most(const struct http_rules *rules, bool known);
/* Stores received bytes, or sets call->refuse. */
void body_take(struct http_call *call, const char *bytes, size_t count);
void body_complete(struct http_call *call); /* after this it is not dropped for others */
void body_reset(struct http_call *call);    /* prepares for the next request */
void body_drop(struct http_call *call);
extern const char body_too_large[];
extern const char body_no_room[];

bool connection_waits_for_us(const struct connection *connection);

/* The lock is held unless noted, except for admission_init() and admission_done(). */
void admission_init(struct http_server *http);
void admission_done(struct http_server *http);
/* Maximum number of sockets, including those being closed. */
uint32_t admission_most(const struct http_rules *rules);
/* Checks for a place for a new connection, and closes another one if needed. */
bool admission_admits(struct http_server *http, const struct sockaddr *from)
    EXCLUDES(http->lock) MUST_USE;
void admission_join(struct connection *connection, const struct sockaddr *from);
void admission_leave(struct connection *connection);
/*
 * Shuts the socket down and stops counting the connection. Before that it sends an error with
 * status, unless that is 0, the connection has TLS, or an answer is being sent. Returns false if
 * the connection did not count, or the call is not in state from.
 */
bool admission_cut(struct connection *connection, enum call_state from, int status) MUST_USE;
/*
 * Without the lock: called when the client's certificate is verified, and when a request is
 * complete. Return false if there is no place for it as a known client.
 */
bool admission_greeted(struct connection *connection) MUST_USE;
bool admission_asks(struct connection *connection) MUST_USE;
/* Without the lock: called when the answer exists. */
void admission_rests(struct connection *connection);

/* The thread that shuts down slow connections. */
void watch_start(struct http_server *http);
void watch_stop(struct http_server *http);

#endif
