/*
 * Starts and stops a listener. Called by daemon.c in the main thread; any thread may read the
 * counters at the end. Start: checks, files, socket, libmicrohttpd's threads, the watch. Stop: no
 * new connections, 503 for sleeping calls, a second to send the last answers, then the threads.
 * Invariants: every step that can fail comes before the first thread, so that a failed start leaves
 * no thread behind; and no call is answered after http_stop().
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gnutls/abstract.h>

#include "milligpu/base/alloc.h"

#include "http_internal.h"

/* --- start --- */

/* Sets an error that says what to do, not only the errno. */
static int listen_error(const struct http_server *http, int failed, struct err *err)
{
    const char *listen_at = http->rules.listen;

    must(failed != 0);
    if (failed == EADDRINUSE)
        return err_set(
            err, ERR_CONFLICT,
            "%s is in use by another program: stop it, or choose another port (0: a free one)",
            listen_at);
    if (failed == EADDRNOTAVAIL)
        return err_set(err, ERR_INVALID, "%s is not an address of this machine", listen_at);
    if (failed == EACCES)
        return err_set(err, ERR_FORBIDDEN,
                       "listen on %s: ports below 1024 need CAP_NET_BIND_SERVICE", listen_at);
    return err_set(err, ERR_IO, "listen on %s: %s", listen_at, strerrordesc_np(failed));
}

/* Reads the bound port for http_port(): with port 0 the system has chosen it. */
static int read_port(struct http_server *http)
{
    struct sockaddr_storage bound = {0};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    socklen_t bytes = sizeof bound;

    must(http->fd >= 0);
    if (getsockname(http->fd, (struct sockaddr *)&bound, &bytes) != 0)
        return errno;
    memcpy(&v4, &bound, sizeof v4);
    memcpy(&v6, &bound, sizeof v6);
    http->port = ntohs(bound.ss_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
    return 0;
}

/* Returns 0 or the errno. */
static int http_open_socket(struct http_server *http, const struct sockaddr_storage *address,
                            socklen_t bytes)
{
    const int on = 1;
    const int off = 0;

    must(http->fd < 0);
    http->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (http->fd < 0)
        return errno;
    /* A restart must not wait for connections of the previous process in TIME_WAIT. */
    (void)setsockopt(http->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ss_family == AF_INET6) /* [::] accepts everything, including IPv4 */
        (void)setsockopt(http->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(http->fd, (const struct sockaddr *)address, bytes) != 0)
        return errno;
    if (listen(http->fd, LISTEN_BACKLOG) != 0)
        return errno;
    return read_port(http);
}

/*
 * libmicrohttpd answers unparsable requests without a callback; a line of its log is the only
 * report. Other lines, mostly from GnuTLS about closed connections, are ignored.
 */
__attribute__((format(printf, 2, 0))) static void logged(void *cls, const char *fmt, va_list args)
{
    static const char mark[] = "HTTP response code is ";
    struct http_server *http = cls;
    char line[sizeof http->complaint];

    must(http != NULL);
    if (vsnprintf(line, sizeof line, fmt, args) < 0)
        return;
    line[strcspn(line, "\n")] = '\0';
    /* Only the starting thread writes complaint, so it needs no lock. */
    if (pthread_equal(http->starter, pthread_self()))
        memcpy(http->complaint, line, sizeof line);
    const char *at = strstr(line, mark);
    if (at == NULL)
        return;
    const unsigned long status = strtoul(at + sizeof mark - 1, NULL, 10);
    if (status >= 400 && status <= 599)
        http_refused(http, (int)status, "not HTTP as libmicrohttpd accepts it");
}

/* Certificates are set per connection, but libmicrohttpd requires a callback for one. */
static int no_certificate(gnutls_session_t session, /* NOLINT(readability-function-size) */
                          const gnutls_datum_t *ca, int cas,
                          const gnutls_pk_algorithm_t *algorithms, int count,
                          gnutls_pcert_st **pcert, unsigned int *pcert_count, gnutls_privkey_t *key)
{
    (void)session, (void)ca, (void)cas, (void)algorithms, (void)count;
    (void)pcert, (void)key;
    *pcert_count = 0;
    return GNUTLS_E_INSUFFICIENT_CREDENTIALS;
}

/* Seconds for libmicrohttpd, rounded up, because 0 means no limit. */
static unsigned seconds_of(int64_t ms)
{
    must(ms > 0);
    return (unsigned)((ms + 999) / 1000);
}

/*
 * Drops connections that arrive after http_quiesce(). MHD_quiesce_daemon() is not used, because it
 * races with the pool's threads to remove the listening socket from the epoll set, and aborts if it
 * comes second.
 */
static enum MHD_Result http_admit(void *user, const struct sockaddr *address, socklen_t bytes)
{
    struct http_server *http = user;

    must(address != NULL && bytes > 0);
    return !atomic_load(&http->quiesced) && admission_admits(http, address) ? MHD_YES : MHD_NO;
}

/* Maximum number of sockets: each accepting thread may exceed the limit by one. */
static uint32_t sockets_of(const struct http_rules *rules)
{
    must(rules->threads > 0);
    return admission_most(rules) + rules->threads;
}

/*
 * libmicrohttpd's own limit must never be reached: each of its threads has a part of it, and stops
 * accepting any client when that is used up.
 */
static struct MHD_Daemon *start_daemon(struct http_server *http)
{
    struct MHD_OptionItem more[4] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    size_t count = 0;

    if (http->rules.threads > 1) /* libmicrohttpd logs an error for a pool of one */
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE,
                                                (intptr_t)http->rules.threads, NULL};
    if (http->tls != NULL) {
        flags |= MHD_USE_TLS;
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
                                                (void *)(uintptr_t)no_certificate};
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0,
                                                (void *)(uintptr_t)tls_priorities};
    }
    must(count < ARRAY_LEN(more));
    more[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    return MHD_start_daemon(
        flags, 0, http_admit, http, call_step, http, MHD_OPTION_EXTERNAL_LOGGER, logged, http,
        MHD_OPTION_LISTEN_SOCKET, http->fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(sockets_of(&http->rules) * http->rules.threads), MHD_OPTION_CONNECTION_TIMEOUT,
        seconds_of(http->rules.idle_ms), MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, call_began, http, MHD_OPTION_NOTIFY_COMPLETED, call_ended,
        http, MHD_OPTION_NOTIFY_CONNECTION, accept_notify, http, MHD_OPTION_ARRAY, more,
        MHD_OPTION_END);
}

static char *http_copy_or_null(const char *text)
{
    return text != NULL ? xstrdup(text) : NULL;
}

/* Copies the rules and their strings. */
static struct http_server *http_server_new(const struct http_rules *rules)
{
    struct http_server *http = xcalloc(1, sizeof *http);

    http->rules = *rules;
    http->rules.name = xstrdup(rules->name);
    http->rules.listen = xstrdup(rules->listen);
    http->rules.cert_file = http_copy_or_null(rules->cert_file);
    http->rules.key_file = http_copy_or_null(rules->key_file);
    http->rules.client_ca_file = http_copy_or_null(rules->client_ca_file);
    http->rules.hosts = http_copy_or_null(rules->hosts);
    http->fd = -1;
    condvar_init(&http->changed);
    mutex_init(&http->lock);
    admission_init(http);
    return http;
}

static void free_copy(const char *text)
{
    xfree((void *)(uintptr_t)text);
}

/* Call it when the threads have ended and every connection is closed. */
static void http_server_free(struct http_server *http)
{
    must(http->connections == NULL && http->asleep == NULL);

    admission_done(http);
    if (http->fd >= 0)
        (void)close(http->fd);
    socket_remove(http);
    tls_unref(http->tls);
    condvar_done(&http->changed);
    mutex_done(&http->lock);
    free_copy(http->rules.name);
    free_copy(http->rules.listen);
    free_copy(http->rules.cert_file);
    free_copy(http->rules.key_file);
    free_copy(http->rules.client_ca_file);
    free_copy(http->rules.hosts);
    xfree(http);
}

/* Starts the threads with signals blocked: the main thread handles them. */
static int http_start_threads(struct http_server *http, struct err *err)
{
    sigset_t all;
    sigset_t before;

    http->starter = pthread_self();
    must(sigfillset(&all) == 0);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    http->daemon = start_daemon(http);
    if (http->daemon != NULL)
        watch_start(http);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (http->daemon == NULL)
        return err_set(err, ERR_IO, "%s: libmicrohttpd did not start: %s", http->rules.listen,
                       http->complaint[0] != '\0' ? http->complaint : "it does not say why");
    return 0;
}

/* On error the caller closes all with http_server_free(). */
static int http_start_listener(struct http_server *http, struct err *err)
{
    const char *path = socket_path_of(http->rules.listen);
    struct sockaddr_storage address;
    socklen_t bytes;

    must(http->daemon == NULL);
    int rc = path == NULL ? address_parse(http->rules.listen, &address, &bytes, err)
                          : socket_open(http, path, err);
    if (rc < 0)
        return rc;
    if (path != NULL)
        return http_start_threads(http, err);
    if (http->rules.cert_file != NULL) {
        http->files_seen = tls_files_print(&http->rules);
        rc = tls_load(&http->rules, &http->tls, err);
        if (rc < 0)
            return rc;
    }
    const int failed = http_open_socket(http, &address, bytes);
    if (failed != 0)
        return listen_error(http, failed, err);
    return http_start_threads(http, err);
}

/* True if clients can become known. */
static bool http_knows(const struct http_rules *rules)
{
    must(!rules->has_request_proof || rules->client_ca_file == NULL);
    return rules->has_request_proof || rules->client_ca_file != NULL;
}

/* Contradicting rules are a bug, not an operator's error: they abort. */
int http_start(const struct http_rules *rules, struct http_server **out, struct err *err)
{
    must(rules->handler != NULL && rules->name != NULL && rules->listen != NULL);
    must(rules->threads > 0 && rules->strangers > 0 && rules->strangers_each > 0);
    must((rules->connections > 0) == http_knows(rules));
    must((rules->cert_file == NULL) == (rules->key_file == NULL));
    must(rules->client_ca_file == NULL || rules->cert_file != NULL);
    must(socket_path_of(rules->listen) == NULL || rules->cert_file == NULL);
    must(rules->first_ms > 0 && rules->request_ms > 0 && rules->idle_ms > 0);
    must(rules->takes_body == NULL || body_most(rules, false) > rules->body_bytes_max);

    struct http_server *http = http_server_new(rules);
    const int rc = http_start_listener(http, err);
    if (rc < 0) {
        http_server_free(http);
        return rc;
    }
    *out = http;
    return 0;
}

/* --- stop --- */

/*
 * The sockets stay open: http_admit() drops new connections, and call_compose() closes the others
 * after their answers.
 */
void http_quiesce(struct http_server *http)
{
    must(http->daemon != NULL);

    atomic_store(&http->quiesced, true);
}

/*
 * Sets stopping under the lock, so a call either sleeps before, and is answered here, or sees it in
 * sleep_or_answer(). Answers get STOP_PATIENCE_MS to be sent.
 */
void http_stop(struct http_server *http)
{
    if (http == NULL)
        return;
    must(!atomic_load(&http->stopping));

    http_quiesce(http);
    mutex_lock(&http->lock);
    atomic_store(&http->stopping, true);
    call_answer_all(http);
    for (int64_t waited = 0; waited < STOP_PATIENCE_MS && atomic_load(&http->open) > 0;
         waited += 10)
        http_wait(http, 10);
    mutex_unlock(&http->lock);
    watch_stop(http);
    MHD_stop_daemon(http->daemon); /* closes the listening socket as well */
    http->daemon = NULL;
    http->fd = -1;
    http_server_free(http);
}

/* --- the rest --- */

uint16_t http_port(const struct http_server *http)
{
    must(http->port != 0);
    return http->port;
}

bool http_over_socket(const struct http_call *call)
{
    return socket_path_of(call->http->rules.listen) != NULL;
}

uint32_t http_pending(const struct http_server *http)
{
    return atomic_load(&http->pending);
}

const char *http_cause_word(enum http_cause cause)
{
    static const char *const words[HTTP_CAUSES] = {"silent", "gave_way", "slow_body", "no_place"};

    must(cause < HTTP_CAUSES);
    return words[cause];
}

uint32_t http_files(const struct http_rules *rules)
{
    /* Plus the listening socket, and for each thread its epoll and wake-up descriptors. */
    return sockets_of(rules) + 1 + 2 * rules->threads;
}

size_t http_body_bytes(const struct http_server *http)
{
    return atomic_load(&http->body_bytes);
}

int64_t http_certificate_ends_s(struct http_server *http)
{
    mutex_lock(&http->lock);
    const int64_t ends_s = http->tls != NULL ? http->tls->ends_s : 0;
    mutex_unlock(&http->lock);
    return ends_s;
}

/* Polled by the main thread. A failed reload counts as seen, so it is logged once. */
bool http_files_changed(struct http_server *http)
{
    if (http->rules.cert_file == NULL)
        return false;
    const uint64_t now = tls_files_print(&http->rules);
    mutex_lock(&http->lock);
    const bool changed = now != http->files_seen;
    mutex_unlock(&http->lock);
    return changed;
}

/* Existing connections hold a reference to their certificates (W3). */
int http_reload(struct http_server *http, struct err *err)
{
    struct http_tls *fresh;

    if (http->rules.cert_file == NULL)
        return 0;
    /* The digest comes before the load: a change in between is found next time. */
    const uint64_t print = tls_files_print(&http->rules);
    const int rc = tls_load(&http->rules, &fresh, err);
    mutex_lock(&http->lock);
    http->files_seen = print;
    struct http_tls *old = rc < 0 ? NULL : http->tls;
    if (rc == 0)
        http->tls = fresh;
    mutex_unlock(&http->lock);
    tls_unref(old);
    return rc;
}
