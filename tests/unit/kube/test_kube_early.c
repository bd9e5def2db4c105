/*
 * kube_curl against an HTTP/2 server that answers before it has heard the whole question, as
 * kube-apiserver does when it has too many: 429 at the head of a Binding, and the rest of no
 * interest; and against one that hears all of it, and is gone.  The server is ours, of one thread
 * and a dozen bytes.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <gnutls/gnutls.h>

#include "milligpu/alloc.h"
#include "milligpu/clock.h"

#include "kube/config.h"
#include "support_tls.h"

enum { MANY = 100, TURN_MS = 100, PREFACE_BYTES = 24, FRAME_HEAD_BYTES = 9 };
enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RST = 3, FRAME_SETTINGS = 4 };
enum { FLAG_ACK = 1, FLAG_END = 1, FLAG_END_HEADERS = 4 };

/* HPACK: ":status: 200"; ":status: 429", "retry-after: 1"; ":status: 201" */
#define HEAD_200 "\x88"
#define HEAD_429                                                                                   \
    "\x08\x03"                                                                                     \
    "429\x0f\x26\x01"                                                                              \
    "1"
#define HEAD_201                                                                                   \
    "\x08\x03"                                                                                     \
    "201"

static const int64_t patience_ns = 30 * (int64_t)1000000000;

struct bench {
    char folder[64];
    int listener;
    unsigned port;
    pthread_t server;
    gnutls_certificate_credentials_t credentials;
    /* How every stream but the first is answered, at its head, and it lets nobody send a body;
       NULL: it takes the body, and hangs up. */
    const char *second;
    bool abruptly;
    atomic_uint copies; /* bodies that it took */
    struct kube_config *config;
    struct kube_ops ops;
    unsigned done;
    unsigned failed;
    unsigned unsent;
    int status;
    int64_t retry_after_s;
};

static const char *at(const struct bench *bench, const char *name)
{
    static char path[2][128];
    static unsigned turn;
    char *out = path[turn++ % 2];
    (void)snprintf(out, sizeof path[0], "%s/%s", bench->folder, name);
    return out;
}

/* ---- the server ---- */

static bool take(gnutls_session_t session, unsigned char *out, size_t count)
{
    while (count > 0) {
        const ssize_t got = gnutls_record_recv(session, out, count);
        if (got <= 0)
            return false;
        out += got;
        count -= (size_t)got;
    }
    return true;
}

static void give(gnutls_session_t session, unsigned type, unsigned flags, unsigned stream,
                 struct text payload)
{
    unsigned char frame[64] = {
        0, 0, (unsigned char)payload.len, (unsigned char)type, (unsigned char)flags, 0,
        0, 0, (unsigned char)stream};
    const size_t bytes = FRAME_HEAD_BYTES + payload.len;

    assert_true(bytes <= sizeof frame && stream <= UINT8_MAX);
    if (payload.len > 0)
        memcpy(frame + FRAME_HEAD_BYTES, payload.at, payload.len);
    (void)gnutls_record_send(session, frame, bytes); /* who has gone has heard enough */
}

/* Until the other end has enough: each stream is answered at its head. */
static void converse(struct bench *bench, gnutls_session_t session)
{
    static const char no_window[] = {0, 4, 0, 0, 0, 0};
    unsigned char head[FRAME_HEAD_BYTES];
    unsigned char rest[1024];

    if (!take(session, rest, PREFACE_BYTES))
        return;
    give(session, FRAME_SETTINGS, 0, 0,
         (struct text){no_window, bench->second != NULL ? sizeof no_window : 0});
    while (take(session, head, sizeof head)) {
        const size_t bytes = (size_t)head[1] << 8 | head[2];
        const unsigned stream = head[8];
        assert_true(bytes <= sizeof rest);
        if (bytes > 0 && !take(session, rest, bytes))
            return;
        if (head[3] == FRAME_SETTINGS && head[4] != FLAG_ACK)
            give(session, FRAME_SETTINGS, FLAG_ACK, 0, TEXT(""));
        if (head[3] == FRAME_DATA && (head[4] & FLAG_END) != 0) {
            atomic_fetch_add(&bench->copies, 1);
            return;
        }
        if (head[3] != FRAME_HEADERS || (stream > 1 && bench->second == NULL))
            continue;
        give(session, FRAME_HEADERS, FLAG_END | FLAG_END_HEADERS, stream,
             text_of(stream == 1 ? HEAD_200 : bench->second));
        if (stream > 1)
            give(session, FRAME_RST, 0, stream, (struct text){"\0\0\0\0", 4}); /* no error */
    }
}

static void serve_one(struct bench *bench, int fd)
{
    static const gnutls_datum_t h2 = {(unsigned char *)(uintptr_t) "h2", 2};
    static const struct linger abruptly = {1, 0};
    gnutls_session_t session;

    assert_int_equal(gnutls_init(&session, GNUTLS_SERVER), 0);
    assert_int_equal(gnutls_set_default_priority(session), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, bench->credentials),
                     0);
    assert_int_equal(gnutls_alpn_set_protocols(session, &h2, 1, 0), 0);
    gnutls_transport_set_int(session, fd);
    if (gnutls_handshake(session) == 0)
        converse(bench, session);
    if (bench->abruptly) /* a reset, not an orderly end */
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &abruptly, sizeof abruptly);
    gnutls_deinit(session);
    (void)close(fd);
}

static void *serve(void *arg)
{
    struct bench *bench = arg;
    int fd;

    while ((fd = accept(bench->listener, NULL, NULL)) >= 0)
        serve_one(bench, fd);
    return NULL;
}

static void start_server(struct bench *bench)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;

    assert_int_equal(gnutls_certificate_allocate_credentials(&bench->credentials), 0);
    assert_int_equal(
        gnutls_certificate_set_x509_key_file(bench->credentials, at(bench, "server.crt"),
                                             at(bench, "server.key"), GNUTLS_X509_FMT_PEM),
        0);
    bench->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(bench->listener, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(getsockname(bench->listener, (struct sockaddr *)&here, &len), 0);
    assert_int_equal(listen(bench->listener, 8), 0);
    bench->port = ntohs(here.sin_port);
    assert_int_equal(pthread_create(&bench->server, NULL, serve, bench), 0);
}

static void connect_to(struct bench *bench)
{
    struct strbuf text;
    struct err err;

    strbuf_init(&text);
    strbuf_printf(&text,
                  "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
                  "clusters: [{name: x, cluster: {server: \"https://127.0.0.1:%u\","
                  " certificate-authority: ca.crt}}]\nusers: [{name: x, user: {token: t}}]\n",
                  bench->port);
    if (kube_config_parse((struct text){text.data, text.len}, at(bench, "config"), NULL,
                          &bench->config, &err) < 0)
        fail_msg("%s", err.text);
    strbuf_done(&text);
    assert_int_equal(kube_curl_new(bench->config, &bench->ops, &err), 0);
}

static int set_up(void **state)
{
    struct bench *bench = xcalloc(1, sizeof *bench);

    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(bench->folder, sizeof bench->folder, "/tmp/milligpu-early-XXXXXX");
    assert_non_null(mkdtemp(bench->folder));
    tls_certificate(bench->folder, "ca", NULL);
    tls_certificate(bench->folder, "server", "ca");
    tls_tidy(bench->folder);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const name[] = {"ca.crt", "ca.key", "server.crt", "server.key", NULL};
    struct bench *bench = *state;

    bench->ops.free(bench->ops.ctx);
    kube_config_free(bench->config);
    (void)shutdown(bench->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(bench->server, NULL), 0);
    (void)close(bench->listener);
    gnutls_certificate_free_credentials(bench->credentials);
    for (size_t i = 0; name[i] != NULL; i++)
        (void)unlink(at(bench, name[i]));
    assert_int_equal(rmdir(bench->folder), 0);
    xfree(bench);
    return 0;
}

/* ---- requests ---- */

static void hear(void *user, const struct kube_answer *answer)
{
    struct bench *bench = user;

    bench->status = answer->status;
    bench->retry_after_s = answer->retry_after_s;
    bench->done += answer->piece == KUBE_DONE;
    bench->failed += answer->piece == KUBE_FAILED;
    bench->unsent += answer->piece == KUBE_FAILED && answer->unsent;
}

static void begin(struct bench *bench, uint64_t id, const char *body)
{
    const bool post = body[0] != '\0';
    const struct kube_request request = {.id = id,
                                         .method = post ? "POST" : "GET",
                                         .path = "/version",
                                         .content_type = post ? "application/json" : NULL,
                                         .body = text_of(body),
                                         .timeout_ms = 20000};
    struct err err;

    if (bench->ops.start(bench->ops.ctx, &request, &err) != 0)
        fail_msg("%s", err.text);
}

static void until(struct bench *bench, unsigned ended)
{
    const int64_t until_ns = clock_ns() + patience_ns;

    while (bench->done + bench->failed < ended && clock_ns() < until_ns)
        bench->ops.poll(bench->ops.ctx, TURN_MS, bench, hear);
    assert_int_equal(bench->done + bench->failed, ended);
}

/* One connection, on which the client has heard that it may send no body. */
static void ask(struct bench *bench, const char *answer, unsigned many)
{
    bench->second = answer;
    start_server(bench);
    connect_to(bench);
    begin(bench, 1, "");
    until(bench, 1);
    assert_int_equal(bench->done, 1);
    for (uint64_t id = 2; id <= many + 1; id++)
        begin(bench, id, "{\"kind\":\"Binding\"}");
    until(bench, many + 1);
}

/* What libcurl heard of an answer it keeps to itself, now and then; but nothing was asked yet. */
static void a_refusal_at_the_head_is_heard_or_nothing_was_sent(void **state)
{
    struct bench *bench = *state;

    ask(bench, HEAD_429, MANY);
    assert_int_equal(bench->failed, bench->unsent);
}

/* Nobody takes what he has not heard. */
static void a_success_at_the_head_is_none(void **state)
{
    struct bench *bench = *state;

    ask(bench, HEAD_201, MANY);
    assert_int_equal(bench->failed, MANY);
}

static void is_sent_once(struct bench *bench, bool abruptly)
{
    bench->abruptly = abruptly;
    ask(bench, NULL, 1);
    assert_int_equal(bench->failed, 1);
    assert_int_equal(bench->unsent, 0);
    assert_int_equal(atomic_load(&bench->copies), 1);
}

/* libcurl begins again on a new connection if the one before has served it once. */
static void what_was_sent_whole_is_not_sent_again_behind_our_back(void **state)
{
    is_sent_once(*state, true);
}

static void what_was_sent_whole_is_not_called_unsent(void **state)
{
    is_sent_once(*state, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_refusal_at_the_head_is_heard_or_nothing_was_sent),
        TEST(a_success_at_the_head_is_none),
        TEST(what_was_sent_whole_is_not_sent_again_behind_our_back),
        TEST(what_was_sent_whole_is_not_called_unsent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
