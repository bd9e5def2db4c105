/*
 * Tracks connections as libmicrohttpd reports them, and closes slow ones (W2, W5). accept_notify()
 * runs in libmicrohttpd's threads and updates http->connections and the admission. The watch is one
 * thread per listener: every tenth of the shortest limit, at most every second, it looks at all
 * connections under the lock; less often while all are idle, and not at all without connections. It
 * only shuts sockets down; the connection's own thread then cleans up. It calls the callbacks of
 * the rules without the lock.
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

#include "http_internal.h"

enum {
    LOOKS_IN_A_LIMIT = 10,
    /* Looks per request_ms while all connections are idle; delays the detection of a request. */
    IDLE_LOOKS_IN_A_LIMIT = 4,
    REST_MS = 60 * 60 * 1000,
};

/* --- connections come and go --- */

static gnutls_session_t session_of(struct MHD_Connection *peer)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(peer, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    must(info != NULL);
    return info->tls_session;
}

static int fd_of(struct MHD_Connection *peer)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(peer, MHD_CONNECTION_INFO_CONNECTION_FD);

    must(info != NULL);
    return info->connect_fd;
}

static const struct sockaddr *accept_address_of(struct MHD_Connection *peer)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(peer, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    must(info != NULL && info->client_addr != NULL);
    return info->client_addr;
}

/* Number of bytes that the peer has sent on this connection, including TLS. */
static uint64_t bytes_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;

    must(fd >= 0);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return 0;
    return info.tcpi_bytes_received;
}

/*
 * Runs after admission_admits() has found a place. Takes the reference to the TLS credentials under
 * the lock, because a reload replaces them.
 */
static void open_connection(struct http_server *http, struct MHD_Connection *peer, void **context)
{
    struct connection *connection = xcalloc(1, sizeof *connection);

    call_init(&connection->call, http, peer);
    connection->fd = fd_of(peer);
    connection->accepted_ns = clock_ns();
    mutex_lock(&http->lock);
    admission_join(connection, accept_address_of(peer));
    if (http->tls != NULL) {
        atomic_fetch_add(&http->tls->refs, 1);
        connection->tls = http->tls;
    }
    connection->next = http->connections;
    if (http->connections != NULL)
        http->connections->last = connection;
    http->connections = connection;
    if (http->watch_rests)
        condvar_broadcast(&http->changed);
    mutex_unlock(&http->lock);
    if (connection->tls != NULL)
        tls_install(connection, session_of(peer));
    *context = connection;
}

/*
 * Reports a failed handshake: the client sent bytes and did not finish. The session is freed
 * already, so only facts recorded earlier are available. Clients that only connected, like a TCP
 * health check, are not reported.
 */
static void report_handshake(const struct connection *connection)
{
    must(connection->call.http != NULL);
    if (connection->tls == NULL || atomic_load(&connection->greeted) ||
        bytes_received(connection->fd) == 0)
        return;
    http_refused(connection->call.http, 0,
                 connection->doubted
                     ? "TLS handshake: the client's certificate was not issued by the client CA"
                     : "TLS handshake failed");
}

/* Removes the connection from the list first, so that the watch cannot find it. */
static void close_connection(struct http_server *http, struct MHD_Connection *peer,
                             struct connection *connection)
{
    must(connection->call.peer == peer);

    report_handshake(connection);
    mutex_lock(&http->lock);
    admission_leave(connection);
    if (connection->last != NULL)
        connection->last->next = connection->next;
    else
        http->connections = connection->next;
    if (connection->next != NULL)
        connection->next->last = connection->last;
    mutex_unlock(&http->lock);
    call_drop(&connection->call);
    tls_unref(connection->tls);
    xfree(connection->nameless_why);
    xfree(connection);
}

/* *socket_context is the struct connection, from the first notification to the last. */
void accept_notify(void *cls, struct MHD_Connection *peer, void **socket_context,
                   enum MHD_ConnectionNotificationCode code)
{
    must(cls != NULL && socket_context != NULL);

    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        open_connection(cls, peer, socket_context);
    else if (*socket_context != NULL)
        close_connection(cls, peer, STEAL(*socket_context));
}

/* --- the watch --- */

/*
 * Returns the start of the incoming request. Its first lines cause no callback, so the kernel's
 * byte count is used; bytes between the last answer (or the TLS handshake) and our next check are
 * missed, the next byte is not.
 */
static int64_t incoming_since(struct connection *connection, enum call_state state,
                              uint64_t requests, int64_t now)
{
    const bool greeted = connection->tls != NULL && atomic_load(&connection->greeted);

    must(requests >= connection->seen_requests);
    if (requests != connection->seen_requests || greeted != connection->seen_greeted) {
        connection->seen_requests = requests;
        connection->seen_greeted = greeted;
        connection->seen_bytes = bytes_received(connection->fd);
        connection->first_ns = 0;
    }
    if (connection->first_ns == 0 && state == CALL_READING)
        connection->first_ns = atomic_load(&connection->call.since_ns);
    if (connection->first_ns == 0 && bytes_received(connection->fd) > connection->seen_bytes)
        connection->first_ns = now;
    return connection->first_ns;
}

/* True if took exceeds the limit, or a multiple of it if our threads are behind with reading. */
static bool accept_overdue(const struct connection *connection, int64_t took, int64_t limit)
{
    must(limit > 0);
    return took > limit * OVERDUE_PATIENCE ||
           (took > limit && !connection_waits_for_us(connection));
}

/* True if no byte has arrived since the connection was opened. */
static bool is_silent(const struct connection *connection, uint64_t requests, int64_t now)
{
    const struct http_rules *rules = &connection->call.http->rules;
    const int64_t took = now - connection->accepted_ns;

    must(rules->first_ms > 0);
    if (requests > 0 || took <= rules->first_ms * 1000000)
        return false;
    const bool spoke = connection->tls != NULL ? atomic_load(&connection->greeted)
                                               : bytes_received(connection->fd) > 0;
    return !spoke && accept_overdue(connection, took, rules->first_ms * 1000000);
}

/* Shuts the connection down if it exceeds a limit; true if that cut off a request. */
static bool look_at(struct connection *connection, int64_t now)
{
    struct http_server *http = connection->call.http;
    const int64_t patience = http->rules.request_ms * 1000000;
    const uint64_t requests = atomic_load(&connection->call.requests);
    const enum call_state state = (enum call_state)atomic_load(&connection->call.state);

    must(patience > 0);
    if (connection->gone || requests != atomic_load(&connection->call.requests))
        return false; /* state and number are of different requests */
    if (state == CALL_ANSWERED) {
        const int64_t since = atomic_load(&connection->call.since_ns);
        return now - since > patience * ANSWER_PATIENCE && admission_cut(connection, state, 0) &&
               false;
    }
    if (state != CALL_WAITING && state != CALL_READING)
        return false;
    if (state == CALL_WAITING && is_silent(connection, requests, now)) {
        if (admission_cut(connection, state, 0))
            atomic_fetch_add(&http->dropped[HTTP_SILENT], 1);
        return false;
    }
    const int64_t since = incoming_since(connection, state, requests, now);
    return since != 0 && accept_overdue(connection, now - since, patience) &&
           admission_cut(connection, state, 408);
}

/* The watch reports totals, because code that closes a connection often holds the lock. */
static void report_dropped(struct http_server *http) EXCLUDES(http->lock)
{
    const struct http_rules *rules = &http->rules;

    must(rules->name != NULL);
    for (int cause = 0; cause < HTTP_CAUSES; cause++) {
        const uint32_t count = atomic_exchange(&http->dropped[cause], 0);
        if (count > 0 && rules->dropped != NULL)
            rules->dropped(rules->user, rules->name, (enum http_cause)cause, count);
    }
}

/*
 * Releases the lock to report. A pass costs a few system calls per connection that is idle or being
 * read.
 */
static void look_around(struct http_server *http) REQUIRES(http->lock)
{
    const int64_t now = clock_ns();
    size_t count = 0;

    must(http->watch_runs);
    for (struct connection *at = http->connections; at != NULL; at = at->next)
        count += look_at(at, now) ? 1 : 0;
    mutex_unlock(&http->lock);
    for (size_t i = 0; i < count; i++)
        http_refused(http, 408, "the request did not come to its end in time");
    report_dropped(http);
    mutex_lock(&http->lock);
}

/* True if it has served a request, and no byte has arrived since. */
static bool is_at_rest(const struct connection *connection)
{
    must(connection->call.http != NULL);
    return atomic_load(&connection->call.state) == CALL_WAITING && connection->first_ns == 0 &&
           connection->seen_requests > 0;
}

/* Time until the next look; every_ms is the period while a connection is active. */
static int64_t watch_pause_ms(const struct http_server *http, int64_t every_ms) REQUIRES(http->lock)
{
    const int64_t idle_ms = http->rules.request_ms / IDLE_LOOKS_IN_A_LIMIT;
    uint32_t dropped = 0;

    must(every_ms > 0);
    for (int cause = 0; cause < HTTP_CAUSES; cause++)
        dropped += atomic_load(&http->dropped[cause]);
    if (dropped > 0)
        return every_ms;
    if (http->connections == NULL)
        return REST_MS;
    for (const struct connection *at = http->connections; at != NULL; at = at->next)
        if (!is_at_rest(at))
            return every_ms;
    return idle_ms > every_ms ? idle_ms : every_ms;
}

static void *accept_watch(void *arg)
{
    struct http_server *http = arg;
    const struct http_rules *rules = &http->rules;
    int64_t every_ms = (rules->first_ms < rules->request_ms ? rules->first_ms : rules->request_ms) /
                       LOOKS_IN_A_LIMIT;

    must(every_ms >= 0);
    every_ms = every_ms < 10 ? 10 : every_ms > 1000 ? 1000 : every_ms;
    mutex_lock(&http->lock);
    while (!http->watch_ends) {
        const int64_t pause_ms = watch_pause_ms(http, every_ms);
        http->watch_rests = pause_ms > every_ms;
        http_wait(http, pause_ms);
        http->watch_rests = false;
        look_around(http);
    }
    mutex_unlock(&http->lock);
    report_dropped(http);
    return NULL;
}

void watch_start(struct http_server *http)
{
    must(!http->watch_runs);
    http->watch_runs = true;
    must(pthread_create(&http->watch, NULL, accept_watch, http) == 0);
}

/* Does nothing if the watch was never started. */
void watch_stop(struct http_server *http)
{
    if (!http->watch_runs)
        return;
    mutex_lock(&http->lock);
    http->watch_ends = true;
    condvar_broadcast(&http->changed);
    mutex_unlock(&http->lock);
    must(pthread_join(http->watch, NULL) == 0);
    http->watch_runs = false;
}
