#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/abstract.h>

#include "milligpu/alloc.h"

#include "web/web_inside.h"

void web_lock(struct web *web)
{
    must(pthread_mutex_lock(&web->lock) == 0);
}

void web_unlock(struct web *web)
{
    must(pthread_mutex_unlock(&web->lock) == 0);
}

void web_refused(const struct web *web, int status, const char *why)
{
    must(why != NULL);
    if (web->rules.refused != NULL)
        web->rules.refused(web->rules.user, status, why);
}

void web_wait(struct web *web, int64_t wait_ms)
{
    struct timespec until;

    must(wait_ms > 0);
    must(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    const int rc = pthread_cond_timedwait(&web->changed, &web->lock, &until);
    must(rc == 0 || rc == ETIMEDOUT);
}

/* --- start --- */

static int listen_error(const struct web *web, int failed, struct err *err)
{
    const char *listen_at = web->rules.listen;

    must(failed != 0);
    if (failed == EADDRINUSE)
        return err_set(
            err, ERR_CONFLICT,
            "%s is in use by another program: stop it, or choose another port (0: a free one)",
            listen_at);
    if (failed == EADDRNOTAVAIL)
        return err_set(err, ERR_INVALID, "%s is no address of this machine", listen_at);
    if (failed == EACCES)
        return err_set(err, ERR_FORBIDDEN,
                       "%s may not be listened on: ports below 1024 need a right", listen_at);
    return err_set(err, ERR_IO, "listen on %s: %s", listen_at, strerrordesc_np(failed));
}

static int read_port(struct web *web)
{
    struct sockaddr_storage bound = {0};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    socklen_t bytes = sizeof bound;

    must(web->fd >= 0);
    if (getsockname(web->fd, (struct sockaddr *)&bound, &bytes) != 0)
        return errno;
    memcpy(&v4, &bound, sizeof v4);
    memcpy(&v6, &bound, sizeof v6);
    web->port = ntohs(bound.ss_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
    return 0;
}

/* 0, or the errno. */
static int open_socket(struct web *web, const struct sockaddr_storage *address, socklen_t bytes)
{
    const int on = 1;
    const int off = 0;

    must(web->fd < 0);
    web->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (web->fd < 0)
        return errno;
    (void)setsockopt(web->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ss_family == AF_INET6) /* [::] is everything, IPv4 included */
        (void)setsockopt(web->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(web->fd, (const struct sockaddr *)address, bytes) != 0)
        return errno;
    if (listen(web->fd, LISTEN_BACKLOG) != 0)
        return errno;
    return read_port(web);
}

/*
 * libmicrohttpd answers what it cannot parse without asking us; this line of its log is how we
 * learn of it.  The rest, most of it GnuTLS about peers that hung up, says nothing we could use.
 */
__attribute__((format(printf, 2, 0))) static void logged(void *cls, const char *fmt, va_list args)
{
    static const char mark[] = "HTTP response code is ";
    struct web *web = cls;
    char line[sizeof web->complaint];

    must(web != NULL);
    if (vsnprintf(line, sizeof line, fmt, args) < 0)
        return;
    line[strcspn(line, "\n")] = '\0';
    if (pthread_equal(web->starter, pthread_self()))
        memcpy(web->complaint, line, sizeof line);
    const char *at = strstr(line, mark);
    if (at == NULL)
        return;
    const unsigned long status = strtoul(at + sizeof mark - 1, NULL, 10);
    if (status >= 400 && status <= 599)
        web_refused(web, (int)status, "not HTTP as libmicrohttpd accepts it");
}

/* Certificates are set for each connection; libmicrohttpd wants some way to one all the same. */
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

static unsigned seconds_of(int64_t ms)
{
    must(ms > 0);
    return (unsigned)((ms + 999) / 1000);
}

/*
 * Who connects after web_quiesce() is dropped here.  MHD_quiesce_daemon() would do it, but it
 * takes the listening socket out of an epoll set that a thread of the pool may be taking it out
 * of too, and aborts when it comes second.
 */
static enum MHD_Result admit(void *user, const struct sockaddr *address, socklen_t bytes)
{
    struct web *web = user;

    must(address != NULL && bytes > 0);
    return !atomic_load(&web->quiesced) && crowd_admits(web, address) ? MHD_YES : MHD_NO;
}

/* Each thread that accepts may go over by one. */
static uint32_t sockets_of(const struct web_rules *rules)
{
    must(rules->threads > 0);
    return crowd_most(rules) + rules->threads;
}

/*
 * The limit of libmicrohttpd is never reached, as each of its threads has but a part of it and at
 * the end of that stops to accept: then nobody comes in, whoever he is.
 */
static struct MHD_Daemon *start_daemon(struct web *web)
{
    struct MHD_OptionItem more[4] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    size_t count = 0;

    if (web->rules.threads > 1) /* a pool of one only makes it complain */
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE,
                                                (intptr_t)web->rules.threads, NULL};
    if (web->tls != NULL) {
        flags |= MHD_USE_TLS;
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
                                                (void *)(uintptr_t)no_certificate};
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0,
                                                (void *)(uintptr_t)tls_priorities};
    }
    must(count < ARRAY_LEN(more));
    more[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    return MHD_start_daemon(
        flags, 0, admit, web, call_step, web, MHD_OPTION_EXTERNAL_LOGGER, logged, web,
        MHD_OPTION_LISTEN_SOCKET, web->fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(sockets_of(&web->rules) * web->rules.threads), MHD_OPTION_CONNECTION_TIMEOUT,
        seconds_of(web->rules.idle_ms), MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, call_began, web, MHD_OPTION_NOTIFY_COMPLETED, call_ended, web,
        MHD_OPTION_NOTIFY_CONNECTION, accept_notify, web, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

static char *copy_or_null(const char *text)
{
    return text != NULL ? xstrdup(text) : NULL;
}

static struct web *new_web(const struct web_rules *rules)
{
    struct web *web = xcalloc(1, sizeof *web);
    pthread_condattr_t monotonic;

    web->rules = *rules;
    web->rules.name = xstrdup(rules->name);
    web->rules.listen = xstrdup(rules->listen);
    web->rules.cert_file = copy_or_null(rules->cert_file);
    web->rules.key_file = copy_or_null(rules->key_file);
    web->rules.client_ca_file = copy_or_null(rules->client_ca_file);
    web->rules.hosts = copy_or_null(rules->hosts);
    web->fd = -1;
    must(pthread_condattr_init(&monotonic) == 0);
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    must(pthread_cond_init(&web->changed, &monotonic) == 0);
    must(pthread_mutex_init(&web->lock, NULL) == 0);
    (void)pthread_condattr_destroy(&monotonic);
    crowd_init(web);
    return web;
}

static void free_copy(const char *text)
{
    xfree((void *)(uintptr_t)text);
}

static void free_web(struct web *web)
{
    must(web->connections == NULL && web->asleep == NULL);

    crowd_done(web);
    if (web->fd >= 0)
        (void)close(web->fd);
    tls_unref(web->tls);
    (void)pthread_cond_destroy(&web->changed);
    (void)pthread_mutex_destroy(&web->lock);
    free_copy(web->rules.name);
    free_copy(web->rules.listen);
    free_copy(web->rules.cert_file);
    free_copy(web->rules.key_file);
    free_copy(web->rules.client_ca_file);
    free_copy(web->rules.hosts);
    xfree(web);
}

/* The threads that are born here leave signals to whoever waits for them. */
static int start_threads(struct web *web, struct err *err)
{
    sigset_t all;
    sigset_t before;

    web->starter = pthread_self();
    must(sigfillset(&all) == 0);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    web->daemon = start_daemon(web);
    if (web->daemon != NULL)
        watch_start(web);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (web->daemon == NULL)
        return err_set(err, ERR_IO, "%s: libmicrohttpd did not start: %s", web->rules.listen,
                       web->complaint[0] != '\0' ? web->complaint : "it does not say why");
    return 0;
}

static int start(struct web *web, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t bytes;

    must(web->daemon == NULL);
    int rc = address_parse(web->rules.listen, &address, &bytes, err);
    if (rc < 0)
        return rc;
    if (web->rules.cert_file != NULL) {
        web->files_seen = tls_files_print(&web->rules);
        rc = tls_load(&web->rules, &web->tls, err);
        if (rc < 0)
            return rc;
    }
    const int failed = open_socket(web, &address, bytes);
    if (failed != 0)
        return listen_error(web, failed, err);
    return start_threads(web, err);
}

/* Is there a way to become known? */
static bool knows(const struct web_rules *rules)
{
    must(!rules->request_proves || rules->client_ca_file == NULL);
    return rules->request_proves || rules->client_ca_file != NULL;
}

int web_start(const struct web_rules *rules, struct web **out, struct err *err)
{
    must(rules->handler != NULL && rules->name != NULL && rules->listen != NULL);
    must(rules->threads > 0 && rules->strangers > 0 && rules->strangers_each > 0);
    must((rules->connections > 0) == knows(rules));
    must((rules->cert_file == NULL) == (rules->key_file == NULL));
    must(rules->client_ca_file == NULL || rules->cert_file != NULL);
    must(rules->first_ms > 0 && rules->request_ms > 0 && rules->idle_ms > 0);
    must(rules->takes_body == NULL || body_most(rules, false) > rules->body_bytes_max);

    struct web *web = new_web(rules);
    const int rc = start(web, err);
    if (rc < 0) {
        free_web(web);
        return rc;
    }
    *out = web;
    return 0;
}

/* --- stop --- */

void web_quiesce(struct web *web)
{
    must(web->daemon != NULL);

    atomic_store(&web->quiesced, true);
}

void web_stop(struct web *web)
{
    if (web == NULL)
        return;
    must(!atomic_load(&web->stopping));

    web_quiesce(web);
    web_lock(web);
    atomic_store(&web->stopping, true);
    call_answer_all(web);
    for (int64_t waited = 0; waited < STOP_PATIENCE_MS && atomic_load(&web->open) > 0; waited += 10)
        web_wait(web, 10);
    web_unlock(web);
    watch_stop(web);
    MHD_stop_daemon(web->daemon); /* closes the listening socket, too */
    web->daemon = NULL;
    web->fd = -1;
    free_web(web);
}

/* --- the rest --- */

uint16_t web_port(const struct web *web)
{
    must(web->port != 0);
    return web->port;
}

const char *web_name(const struct web *web)
{
    return web->rules.name;
}

uint32_t web_pending(const struct web *web)
{
    return atomic_load(&web->pending);
}

const char *web_cause_word(enum web_cause cause)
{
    static const char *const words[WEB_CAUSES] = {"silent", "gave_way", "slow_body", "no_place"};

    must(cause < WEB_CAUSES);
    return words[cause];
}

uint32_t web_files(const struct web_rules *rules)
{
    /* The listening socket, and what each thread waits by: epoll's descriptor and a bell. */
    return sockets_of(rules) + 1 + 2 * rules->threads;
}

size_t web_body_bytes(const struct web *web)
{
    return atomic_load(&web->body_bytes);
}

bool web_files_changed(struct web *web)
{
    if (web->rules.cert_file == NULL)
        return false;
    const uint64_t now = tls_files_print(&web->rules);
    web_lock(web);
    const bool changed = now != web->files_seen;
    web_unlock(web);
    return changed;
}

int web_reload(struct web *web, struct err *err)
{
    struct web_tls *fresh;

    if (web->rules.cert_file == NULL)
        return 0;
    /* Looked at before they are read: a change in between is seen next time. */
    const uint64_t print = tls_files_print(&web->rules);
    const int rc = tls_load(&web->rules, &fresh, err);
    web_lock(web);
    web->files_seen = print;
    struct web_tls *old = rc < 0 ? NULL : web->tls;
    if (rc == 0)
        web->tls = fresh;
    web_unlock(web);
    tls_unref(old);
    return rc;
}
