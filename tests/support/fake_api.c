#include "support/fake_api.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"

enum { WAIT_MS = 20 };

struct fake_api {
    struct fake_apiserver *fake;
    struct MHD_Daemon *daemon;
    char url[64];
    unsigned port;
    bool client_certs;
    pthread_mutex_t lock; /* guards everything below */
    struct fault *fault;
    size_t n_faults;
    size_t fault_capacity;
    char *token;
    char **seen;
    size_t n_seen;
    size_t seen_capacity;
    unsigned connections;
    unsigned releases;
};

/* One request; for a watch also its stream. */
struct exchange {
    struct fake_api *api;
    struct MHD_Connection *connection;
    struct strbuf body;
    struct fault fault;
    bool faulty;
    bool streaming;
    bool stream_ended;
    struct strbuf out;
    size_t sent;
    unsigned releases;
    struct kube_ops ops;
};

static void pause_ms(long ms)
{
    const struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&wait, NULL);
}

static void exchange_free(struct exchange *exchange)
{
    if (exchange->streaming)
        exchange->ops.free(exchange->ops.ctx);
    strbuf_done(&exchange->body);
    strbuf_done(&exchange->out);
    xfree(exchange);
}

static bool was_released(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->api->lock);
    const bool released = exchange->api->releases != exchange->releases;
    pthread_mutex_unlock(&exchange->api->lock);
    return released;
}

/* The next close() sends a reset. */
static void make_reset(struct exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const struct linger now = {1, 0};

    must(info != NULL);
    (void)setsockopt(info->connect_fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void gather(void *user, const struct kube_answer *answer)
{
    struct exchange *exchange = user;

    if (answer->piece == KUBE_DATA)
        strbuf_text(&exchange->out, answer->data);
    if (answer->piece == KUBE_DONE || answer->piece == KUBE_FAILED)
        exchange->stream_ended = true;
}

static size_t left(const struct exchange *exchange)
{
    must(exchange->sent <= exchange->out.len);
    return exchange->out.len - exchange->sent;
}

static ssize_t stop_or_wait(struct exchange *exchange)
{
    if (was_released(exchange))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    pause_ms(WAIT_MS);
    return 0;
}

static ssize_t give_bytes(struct exchange *exchange, char *to, size_t max)
{
    const size_t len = left(exchange) < max ? left(exchange) : max;

    memcpy(to, exchange->out.data + exchange->sent, len);
    exchange->sent += len;
    return (ssize_t)len;
}

/* MHD asks for body bytes; 0 means ask again. */
static ssize_t read_body(void *arg, uint64_t at, char *to, size_t max)
{
    struct exchange *exchange = arg;
    const struct fault *fault = &exchange->fault;

    (void)at;
    if (exchange->streaming && left(exchange) == 0 && !exchange->stream_ended)
        exchange->ops.poll(exchange->ops.ctx, WAIT_MS, exchange, gather);
    if (exchange->faulty && fault->kind == FAULT_DRIP) {
        pause_ms((long)fault->number);
        max = 1;
    }
    if (exchange->faulty && (fault->kind == FAULT_TRUNCATE || fault->kind == FAULT_HALF_OPEN)) {
        const size_t room = fault->number > exchange->sent ? fault->number - exchange->sent : 0;
        if (room == 0 && fault->kind == FAULT_TRUNCATE)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (room == 0)
            return stop_or_wait(exchange);
        max = max < room ? max : room;
    }
    if (left(exchange) > 0)
        return give_bytes(exchange, to, max);
    if (exchange->streaming && !exchange->stream_ended)
        return was_released(exchange) ? MHD_CONTENT_READER_END_OF_STREAM : 0;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static enum MHD_Result respond(struct exchange *exchange, int status, bool sized, int retry_after_s)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        sized ? exchange->out.len : MHD_SIZE_UNKNOWN, 4096, read_body, exchange, NULL);
    char seconds[16];

    must(response != NULL);
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    if (retry_after_s > 0) {
        (void)snprintf(seconds, sizeof seconds, "%d", retry_after_s);
        (void)MHD_add_response_header(response, "Retry-After", seconds);
    }
    const enum MHD_Result result =
        MHD_queue_response(exchange->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- requests received ---- */

static void note(struct fake_api *api, const char *line)
{
    pthread_mutex_lock(&api->lock);
    api->seen = xgrow(api->seen, api->n_seen, &api->seen_capacity, sizeof *api->seen);
    api->seen[api->n_seen++] = xstrdup(line);
    pthread_mutex_unlock(&api->lock);
}

static bool matches(const char *line, const char *match)
{
    const size_t len = strlen(match);
    const size_t line_len = strlen(line);

    if (len == 0 || match[len - 1] != '$')
        return strstr(line, match) != NULL;
    return line_len >= len - 1 && strncmp(line + line_len - (len - 1), match, len - 1) == 0;
}

static void take_fault(struct exchange *exchange, const char *line)
{
    struct fake_api *api = exchange->api;

    pthread_mutex_lock(&api->lock);
    exchange->releases = api->releases;
    for (size_t i = 0; i < api->n_faults && !exchange->faulty; i++) {
        if (api->fault[i].times == 0 || !matches(line, api->fault[i].match))
            continue;
        api->fault[i].times--;
        exchange->fault = api->fault[i];
        exchange->faulty = true;
    }
    pthread_mutex_unlock(&api->lock);
}

static bool has_certificate(struct exchange *exchange)
{
    unsigned verdict = 1;

    if (!exchange->api->client_certs)
        return true;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info == NULL || gnutls_certificate_verify_peers2(info->tls_session, &verdict) != 0)
        return false;
    return verdict == 0;
}

/* Returns the value, NULL if there is none. */
static const char *note_header(struct exchange *exchange, const char *name)
{
    const char *value = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
    char line[512];

    if (value != NULL) {
        (void)snprintf(line, sizeof line, "%s: %s", name, value);
        note(exchange->api, line);
    }
    return value;
}

static bool may_enter(struct exchange *exchange)
{
    struct fake_api *api = exchange->api;
    const char *given = note_header(exchange, "Authorization");
    char wanted[256];

    (void)note_header(exchange, "Accept");

    if (!has_certificate(exchange))
        return false;
    pthread_mutex_lock(&api->lock);
    const bool any = api->token == NULL;
    (void)snprintf(wanted, sizeof wanted, "Bearer %s", any ? "" : api->token);
    pthread_mutex_unlock(&api->lock);
    return any || (given != NULL && strcmp(given, wanted) == 0);
}

static void add_parameter(struct strbuf *out, const char *key, const char *value)
{
    strbuf_char(out, strchr(out->data, '?') == NULL ? '?' : '&');
    strbuf_printf(out, "%s=", key);
    for (; value != NULL && *value != '\0'; value++)
        strbuf_printf(out, "%%%02X", (unsigned)(unsigned char)*value);
}

static enum MHD_Result one_parameter(void *arg, enum MHD_ValueKind kind, const char *key,
                                     const char *value)
{
    (void)kind;
    add_parameter(arg, key, value);
    return MHD_YES;
}

static enum MHD_Result serve_watch(struct exchange *exchange, const char *path)
{
    const struct kube_request request = {.id = 1, .method = "GET", .path = path, .body = TEXT("")};
    struct err err;

    fake_apiserver_ops(exchange->api->fake, &exchange->ops);
    exchange->streaming = true;
    must(exchange->ops.start(exchange->ops.ctx, &request, &err) == 0);
    return respond(exchange, 200, false, 0);
}

static enum MHD_Result serve(struct exchange *exchange, const char *method, const char *path)
{
    const struct fault *fault = &exchange->fault;
    const bool faulty = exchange->faulty;

    if (faulty && fault->kind == FAULT_REFUSE) {
        make_reset(exchange);
        return MHD_NO;
    }
    if (faulty && (fault->kind == FAULT_STATUS || fault->kind == FAULT_STREAM)) {
        strbuf_str(&exchange->out, fault->text != NULL ? fault->text : "");
        const bool sized = fault->kind == FAULT_STATUS;
        return respond(exchange, sized ? (int)fault->number : 200, sized, fault->retry_after_s);
    }
    if (faulty && fault->kind == FAULT_SLOW)
        pause_ms((long)fault->number);
    if (!may_enter(exchange)) {
        strbuf_str(&exchange->out,
                   "{\"kind\":\"Status\",\"reason\":\"Unauthorized\",\"code\":401}");
        return respond(exchange, 401, true, 0);
    }
    if (strstr(path, "watch=") != NULL)
        return serve_watch(exchange, path);
    const int status = fake_apiserver_request(
        exchange->api->fake, method, path, (struct text){exchange->body.data, exchange->body.len},
        &exchange->out);
    if (faulty && fault->kind == FAULT_LOSE) {
        make_reset(exchange);
        return MHD_NO;
    }
    if (faulty && fault->kind == FAULT_LIE) {
        strbuf_reset(&exchange->out);
        strbuf_str(&exchange->out, fault->text != NULL ? fault->text : "");
        return respond(exchange, (int)fault->number, true, 0);
    }
    while (faulty && fault->kind == FAULT_SILENT && !was_released(exchange))
        pause_ms(WAIT_MS);
    return respond(exchange, status, true, 0);
}

static enum MHD_Result on_request(void *arg, /* NOLINT(readability-function-size): not our form */
                                  struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **state)
{
    struct exchange *exchange = *state;
    struct strbuf path;
    struct strbuf line;

    (void)version;
    if (exchange == NULL) {
        exchange = xcalloc(1, sizeof *exchange);
        exchange->api = arg;
        exchange->connection = connection;
        strbuf_init(&exchange->body);
        strbuf_init(&exchange->out);
        *state = exchange;
        return MHD_YES;
    }
    if (*data_len > 0) {
        strbuf_add(&exchange->body, data, *data_len);
        *data_len = 0;
        return MHD_YES;
    }
    strbuf_init(&path);
    strbuf_init(&line);
    strbuf_str(&path, url);
    strbuf_printf(&line, "%s %s", method, url);
    (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, one_parameter, &path);
    const char *watch = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "watch");
    strbuf_str(&line, watch != NULL ? "?watch" : "");
    note(exchange->api, line.data);
    take_fault(exchange, line.data);
    const enum MHD_Result result = serve(exchange, method, path.data);
    strbuf_done(&path);
    strbuf_done(&line);
    return result;
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)arg;
    (void)connection;
    (void)code;
    if (*state != NULL)
        exchange_free(*state);
    *state = NULL;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct fake_api *api = arg;

    (void)connection;
    (void)state;
    if (code != MHD_CONNECTION_NOTIFY_STARTED)
        return;
    pthread_mutex_lock(&api->lock);
    api->connections++;
    pthread_mutex_unlock(&api->lock);
}

/* ---- creating and ending ---- */

static void keep_quiet(void *arg, const char *fmt, va_list args)
{
    /* Resets and truncations are what the tests request. */
    (void)arg;
    (void)fmt;
    (void)args;
}

struct fake_api *fake_api_new(struct fake_apiserver *fake, const struct fake_tls *tls)
{
    struct fake_api *api = fake_api_new_at(fake, tls, 0);

    must(api != NULL);
    return api;
}

struct fake_api *fake_api_new_at(struct fake_apiserver *fake, const struct fake_tls *tls,
                                 unsigned port)
{
    struct fake_api *api = xcalloc(1, sizeof *api);
    const unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                           MHD_USE_POLL | MHD_USE_ERROR_LOG | (tls != NULL ? MHD_USE_TLS : 0U);
    const struct sockaddr_in here = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)port),
                                     .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct MHD_OptionItem more[4] = {{MHD_OPTION_END, 0, NULL}};

    must(pthread_mutex_init(&api->lock, NULL) == 0);
    api->fake = fake;
    if (tls != NULL) {
        union {
            const char *text;
            void *value;
        } cert = {tls->cert}, key = {tls->key}, ca = {tls->client_ca};
        more[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, cert.value};
        more[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key.value};
        more[2] = (struct MHD_OptionItem){
            tls->client_ca != NULL ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, ca.value};
        api->client_certs = tls->client_ca != NULL;
    }
    api->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, api, MHD_OPTION_EXTERNAL_LOGGER, keep_quiet, NULL,
        MHD_OPTION_SOCK_ADDR, &here, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, api, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    if (api->daemon == NULL) {
        fake_api_free(api);
        return NULL;
    }
    api->port = MHD_get_daemon_info(api->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    (void)snprintf(api->url, sizeof api->url, "%s://127.0.0.1:%u", tls != NULL ? "https" : "http",
                   api->port);
    return api;
}

void fake_api_free(struct fake_api *api)
{
    if (api == NULL)
        return;
    fake_api_release(api);
    if (api->daemon != NULL)
        MHD_stop_daemon(api->daemon);
    for (size_t i = 0; i < api->n_seen; i++)
        xfree(api->seen[i]);
    xfree(api->seen);
    xfree(api->fault);
    xfree(api->token);
    pthread_mutex_destroy(&api->lock);
    xfree(api);
}

const char *fake_api_url(const struct fake_api *api)
{
    return api->url;
}

unsigned fake_api_port(const struct fake_api *api)
{
    return api->port;
}

void fake_api_fault(struct fake_api *api, const struct fault *fault)
{
    pthread_mutex_lock(&api->lock);
    api->fault = xgrow(api->fault, api->n_faults, &api->fault_capacity, sizeof *api->fault);
    api->fault[api->n_faults++] = *fault;
    pthread_mutex_unlock(&api->lock);
}

void fake_api_release(struct fake_api *api)
{
    pthread_mutex_lock(&api->lock);
    api->releases++;
    pthread_mutex_unlock(&api->lock);
}

void fake_api_token(struct fake_api *api, const char *token)
{
    pthread_mutex_lock(&api->lock);
    xfree(api->token);
    api->token = token != NULL ? xstrdup(token) : NULL;
    pthread_mutex_unlock(&api->lock);
}

unsigned fake_api_seen(struct fake_api *api, const char *part)
{
    unsigned count = 0;

    pthread_mutex_lock(&api->lock);
    for (size_t i = 0; i < api->n_seen; i++)
        count += strstr(api->seen[i], part) != NULL;
    pthread_mutex_unlock(&api->lock);
    return count;
}

unsigned fake_api_connections(struct fake_api *api)
{
    pthread_mutex_lock(&api->lock);
    const unsigned count = api->connections;
    pthread_mutex_unlock(&api->lock);
    return count;
}
