#include "support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/patience.h"

void sleep_ms(int64_t ms)
{
    const struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&wait, NULL);
}

/* --- the site --- */

static void answer_text(struct http_call *call, int status, const char *text)
{
    struct strbuf body;

    strbuf_init(&body);
    strbuf_str(&body, text);
    http_answer(call, status, "text/plain", &body);
    must(body.len == 0);
    strbuf_done(&body);
}

static void *answer_later(void *arg)
{
    struct http_call *call = arg;

    sleep_ms(50);
    CLEANUP(strbuf_done) struct strbuf body;
    strbuf_init(&body);
    strbuf_text(&body, http_body(call));
    http_set_header(call, "X-Late", "yes");
    http_answer(call, 200, "text/plain", &body);
    return NULL;
}

static void start_later(struct http_call *call)
{
    pthread_t thread;

    must(pthread_create(&thread, NULL, answer_later, call) == 0);
    must(pthread_detach(thread) == 0);
}

static void *run_racer(void *arg)
{
    struct site *site = arg;

    while (!atomic_load(&site->racer_ends)) {
        struct http_call *call = atomic_exchange(&site->race, NULL);
        if (call != NULL)
            answer_text(call, 200, http_path(call));
        else
            sleep_ms(0);
    }
    return NULL;
}

static void add_name(void *user, const char *name, const char *value)
{
    strbuf_printf(user, "[%s=%s]", name, value);
}

static void about(struct http_call *call)
{
    CLEANUP(strbuf_done) struct strbuf body;
    const char *header = http_header(call, "X-Test");

    strbuf_init(&body);
    strbuf_printf(&body, "%s %s test=%s ", http_method(call), http_path(call),
                  header != NULL ? header : "(none)");
    http_query_each(call, &body, add_name);
    http_set_header(call, "X-Answer", "42");
    http_set_header(call, "X-Broken", "a\r\nX-Injected: b");
    http_answer(call, 203, "text/plain", &body);
}

static void hold(struct site *site, struct http_call *call)
{
    must(pthread_mutex_lock(&site->lock) == 0);
    must(site->held_count < HELD_MAX);
    site->held[site->held_count++] = call;
    must(pthread_mutex_unlock(&site->lock) == 0);
}

static void handle(void *user, struct http_call *call)
{
    struct site *site = user;
    const char *path = http_path(call);

    must(http_id(call) > 0 && http_began_ns(call) > 0);
    atomic_fetch_add(&site->handled, 1);
    if (strcmp(path, "/hello") == 0) {
        answer_text(call, http_body_unread(call) ? 413 : 200, "hello");
    } else if (strcmp(path, "/echo") == 0) {
        CLEANUP(strbuf_done) struct strbuf body;
        strbuf_init(&body);
        strbuf_text(&body, http_body(call));
        http_answer(call, 200, "text/plain", &body);
    } else if (strncmp(path, "/about", 6) == 0) {
        about(call);
    } else if (strcmp(path, "/later") == 0) {
        start_later(call);
    } else if (strcmp(path, "/race") == 0) {
        atomic_store(&site->race, call);
    } else if (strcmp(path, "/file") == 0) {
        http_answer_file(call, 200, "text/plain", atomic_exchange(&site->file, -1));
    } else if (strcmp(path, "/hold") == 0) {
        hold(site, call);
    } else if (strcmp(path, "/linger") == 0) { /* it blocks its thread */
        while (!atomic_load(&site->linger_ends))
            sleep_ms(1);
        answer_text(call, 200, "");
    } else {
        answer_text(call, 404, "");
    }
}

static void refused(void *user, int status, const char *why)
{
    struct site *site = user;

    must(why[0] != '\0');
    atomic_fetch_add(&site->refused, 1);
    atomic_store(&site->last_status, status);
}

static void dropped(void *user, const char *name, enum http_cause cause, uint32_t count)
{
    struct site *site = user;

    must(strcmp(name, "test") == 0 && count > 0);
    atomic_fetch_add(&site->dropped[cause], (int)count);
}

static bool takes_body(void *user, const char *method, const char *path)
{
    const struct site *site = user;

    must(site->rules.handler == handle);
    return strcmp(method, "POST") == 0 && strcmp(path, "/hello") != 0;
}

void site_init(struct site *site)
{
    memset(site, 0, sizeof *site);
    must(pthread_mutex_init(&site->lock, NULL) == 0);
    /* A test that is about a limit sets it; no other may meet one. */
    site->rules = (struct http_rules){
        .name = "test",
        .listen = "127.0.0.1:0",
        .threads = 2,
        .strangers = 64,
        .strangers_each = 64,
        .takes_body = takes_body,
        .body_bytes_max = 100000,
        .bodies_bytes_max = 128 << 20,
        .first_ms = 10 * PATIENCE_MS,
        .idle_ms = 10 * PATIENCE_MS,
        .request_ms = 10 * PATIENCE_MS,
        .user = site,
        .handler = handle,
        .refused = refused,
        .dropped = dropped,
    };
}

void site_start(struct site *site)
{
    struct err err;

    if (site->rules.connections == 0 &&
        (site->rules.has_request_proof || site->rules.client_ca_file != NULL))
        site->rules.connections = 64;
    if (http_start(&site->rules, &site->http, &err) < 0)
        fail_msg("%s", err.text);
    must(pthread_create(&site->racer, NULL, run_racer, site) == 0);
}

void site_stop(struct site *site)
{
    atomic_store(&site->linger_ends, true);
    if (site->http == NULL)
        return;
    atomic_store(&site->racer_ends, true);
    must(pthread_join(site->racer, NULL) == 0);
    http_stop(STEAL(site->http));
    must(pthread_mutex_destroy(&site->lock) == 0);
}

size_t site_held(struct site *site)
{
    must(pthread_mutex_lock(&site->lock) == 0);
    const size_t count = site->held_count;
    must(pthread_mutex_unlock(&site->lock) == 0);
    return count;
}

bool site_await_held(struct site *site, size_t count)
{
    int64_t until_ms = 0;

    while (site_held(site) != count && patience_left(&until_ms))
        continue;
    return site_held(site) == count;
}

bool site_await(atomic_int *count, int least)
{
    int64_t until_ms = 0;

    while (atomic_load(count) < least && patience_left(&until_ms))
        continue;
    return atomic_load(count) >= least;
}

void site_release(struct site *site)
{
    must(pthread_mutex_lock(&site->lock) == 0);
    while (site->held_count > 0)
        answer_text(site->held[--site->held_count], 200, "released");
    must(pthread_mutex_unlock(&site->lock) == 0);
}

/* --- clients --- */

static atomic_bool is_kept[1 << 14]; /* by file descriptor */

int client_keep(int fd)
{
    must(fd >= 0 && fd < 1 << 14);
    atomic_store(&is_kept[fd], true);
    return fd;
}

void client_close(int fd)
{
    atomic_store(&is_kept[fd], false);
    must(close(fd) == 0);
}

void client_close_all(void)
{
    for (int fd = 0; fd < 1 << 14; fd++)
        if (atomic_load(&is_kept[fd]))
            client_close(fd);
}

int client_open(const struct site *site)
{
    const bool six = site->rules.listen[0] == '[';
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(http_port(site->http))};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons(http_port(site->http)),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct timeval limit = {.tv_sec = PATIENCE_S};

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0);
    must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    must(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    const int rc = six ? connect(fd, (struct sockaddr *)&v6, sizeof v6)
                       : connect(fd, (struct sockaddr *)&v4, sizeof v4);
    if (rc == 0)
        return client_keep(fd);
    (void)close(fd);
    return -1;
}

void client_send(int fd, const char *text)
{
    const size_t len = strlen(text);
    size_t sent = 0;

    while (sent < len) {
        const ssize_t now = send(fd, text + sent, len - sent, MSG_NOSIGNAL);
        if (now <= 0)
            return; /* the answer will show it */
        sent += (size_t)now;
    }
}

static bool is_whole(const struct strbuf *in)
{
    const char *end = strstr(in->data, "\r\n\r\n");
    const char *length = strcasestr(in->data, "\r\nContent-Length: ");

    if (end == NULL || length == NULL || length > end)
        return false;
    const size_t want = strtoul(length + 18, NULL, 10);
    return in->len >= (size_t)(end + 4 - in->data) + want;
}

static void read_some(int fd, struct strbuf *out, bool to_end)
{
    char bytes[4096];

    strbuf_reset(out);
    while (to_end || !is_whole(out)) {
        const ssize_t now = recv(fd, bytes, sizeof bytes, 0);
        if (now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            fail_msg("no answer in %d s, but \"%s\"", PATIENCE_S, out->data);
        if (now <= 0)
            return;
        strbuf_add(out, bytes, (size_t)now);
    }
}

void client_read(int fd, struct strbuf *out)
{
    read_some(fd, out, false);
}

void client_read_end(int fd, struct strbuf *out)
{
    read_some(fd, out, true);
}

void client_ask(int fd, const char *text, struct strbuf *out)
{
    client_send(fd, text);
    client_read(fd, out);
}

void client_ask_end(const struct site *site, const char *text, struct strbuf *out)
{
    const int fd = client_open(site);

    client_send(fd, text);
    client_read_end(fd, out);
}
