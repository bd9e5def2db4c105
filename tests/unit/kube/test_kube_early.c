/*
 * kube_curl against an HTTP/2 server that answers before it has heard the whole question, as
 * kube-apiserver does when it has too many: 429 at the head of a Binding, and the rest of no
 * interest; and against one that hears all of it, and is gone.  The server is ours, of one thread
 * and a dozen bytes.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <gnutls/gnutls.h>

#include "milligpu/alloc.h"

#include "support_client.h"

enum { MANY = 100, TIMEOUT_MS = 20000, PREFACE_BYTES = 24, FRAME_HEAD_BYTES = 9 };
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

struct bench {
    struct client client;
    int listener;
    unsigned port;
    pthread_t server;
    gnutls_certificate_credentials_t credentials;
    /* How every stream but the first is answered, at its head, and it lets nobody send a body;
       NULL: it takes the body, and hangs up. */
    const char *second;
    bool abruptly;
    atomic_uint copies; /* bodies that it took */
};

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
    assert_int_equal(gnutls_certificate_set_x509_key_file(
                         bench->credentials, client_at(&bench->client, "server.crt"),
                         client_at(&bench->client, "server.key"), GNUTLS_X509_FMT_PEM),
                     0);
    bench->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(bench->listener, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(getsockname(bench->listener, (struct sockaddr *)&here, &len), 0);
    assert_int_equal(listen(bench->listener, 8), 0);
    bench->port = ntohs(here.sin_port);
    assert_int_equal(pthread_create(&bench->server, NULL, serve, bench), 0);
}

static int set_up(void **state)
{
    struct bench *bench = xcalloc(1, sizeof *bench);

    client_init(&bench->client);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;

    client_close(&bench->client);
    (void)shutdown(bench->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(bench->server, NULL), 0);
    (void)close(bench->listener);
    gnutls_certificate_free_credentials(bench->credentials);
    client_remove(&bench->client);
    xfree(bench);
    return 0;
}

/* ---- requests ---- */

/* One connection, on which the client has heard that it may send no body. */
static void ask(struct bench *bench, const char *answer, unsigned many)
{
    bench->second = answer;
    start_server(bench);
    client_connect(&bench->client, bench->port);
    client_begin(&bench->client, 1, "", TIMEOUT_MS);
    client_until(&bench->client, 1);
    assert_int_equal(bench->client.done, 1);
    for (uint64_t id = 2; id <= many + 1; id++)
        client_begin(&bench->client, id, "{\"kind\":\"Binding\"}", TIMEOUT_MS);
    client_until(&bench->client, many + 1);
}

/* What libcurl heard of an answer it keeps to itself, now and then; but nothing was asked yet. */
static void a_refusal_at_the_head_is_heard_or_nothing_was_sent(void **state)
{
    struct bench *bench = *state;

    ask(bench, HEAD_429, MANY);
    assert_int_equal(bench->client.failed, bench->client.unsent);
}

/* Nobody takes what he has not heard. */
static void a_success_at_the_head_is_none(void **state)
{
    struct bench *bench = *state;

    ask(bench, HEAD_201, MANY);
    assert_int_equal(bench->client.failed, MANY);
}

static void is_sent_once(struct bench *bench, bool abruptly)
{
    bench->abruptly = abruptly;
    ask(bench, NULL, 1);
    assert_int_equal(bench->client.failed, 1);
    assert_int_equal(bench->client.unsent, 0);
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
