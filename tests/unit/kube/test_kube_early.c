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

struct fixture {
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
static void converse(struct fixture *fixture, gnutls_session_t session)
{
    static const char no_window[] = {0, 4, 0, 0, 0, 0};
    unsigned char head[FRAME_HEAD_BYTES];
    unsigned char rest[1024];

    if (!take(session, rest, PREFACE_BYTES))
        return;
    give(session, FRAME_SETTINGS, 0, 0,
         (struct text){no_window, fixture->second != NULL ? sizeof no_window : 0});
    while (take(session, head, sizeof head)) {
        const size_t bytes = (size_t)head[1] << 8 | head[2];
        const unsigned stream = head[8];
        assert_true(bytes <= sizeof rest);
        if (bytes > 0 && !take(session, rest, bytes))
            return;
        if (head[3] == FRAME_SETTINGS && head[4] != FLAG_ACK)
            give(session, FRAME_SETTINGS, FLAG_ACK, 0, TEXT(""));
        if (head[3] == FRAME_DATA && (head[4] & FLAG_END) != 0) {
            atomic_fetch_add(&fixture->copies, 1);
            return;
        }
        if (head[3] != FRAME_HEADERS || (stream > 1 && fixture->second == NULL))
            continue;
        give(session, FRAME_HEADERS, FLAG_END | FLAG_END_HEADERS, stream,
             text_of(stream == 1 ? HEAD_200 : fixture->second));
        if (stream > 1)
            give(session, FRAME_RST, 0, stream, (struct text){"\0\0\0\0", 4}); /* no error */
    }
}

static void serve_one(struct fixture *fixture, int fd)
{
    static const gnutls_datum_t h2 = {(unsigned char *)(uintptr_t) "h2", 2};
    static const struct linger abruptly = {1, 0};
    gnutls_session_t session;

    assert_int_equal(gnutls_init(&session, GNUTLS_SERVER), 0);
    assert_int_equal(gnutls_set_default_priority(session), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, fixture->credentials),
                     0);
    assert_int_equal(gnutls_alpn_set_protocols(session, &h2, 1, 0), 0);
    gnutls_transport_set_int(session, fd);
    if (gnutls_handshake(session) == 0)
        converse(fixture, session);
    if (fixture->abruptly) /* a reset, not an orderly end */
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &abruptly, sizeof abruptly);
    gnutls_deinit(session);
    (void)close(fd);
}

static void *serve(void *arg)
{
    struct fixture *fixture = arg;
    int fd;

    while ((fd = accept(fixture->listener, NULL, NULL)) >= 0)
        serve_one(fixture, fd);
    return NULL;
}

static void start_server(struct fixture *fixture)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;

    assert_int_equal(gnutls_certificate_allocate_credentials(&fixture->credentials), 0);
    assert_int_equal(gnutls_certificate_set_x509_key_file(
                         fixture->credentials, client_at(&fixture->client, "server.crt"),
                         client_at(&fixture->client, "server.key"), GNUTLS_X509_FMT_PEM),
                     0);
    fixture->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fixture->listener, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(getsockname(fixture->listener, (struct sockaddr *)&here, &len), 0);
    assert_int_equal(listen(fixture->listener, 8), 0);
    fixture->port = ntohs(here.sin_port);
    assert_int_equal(pthread_create(&fixture->server, NULL, serve, fixture), 0);
}

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);

    client_init(&fixture->client);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    client_close(&fixture->client);
    (void)shutdown(fixture->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(fixture->server, NULL), 0);
    (void)close(fixture->listener);
    gnutls_certificate_free_credentials(fixture->credentials);
    client_remove(&fixture->client);
    xfree(fixture);
    return 0;
}

/* ---- requests ---- */

/* One connection, on which the client has heard that it may send no body. */
static void ask(struct fixture *fixture, const char *answer, unsigned many)
{
    fixture->second = answer;
    start_server(fixture);
    client_connect(&fixture->client, fixture->port);
    client_begin(&fixture->client, 1, "", TIMEOUT_MS);
    client_until(&fixture->client, 1);
    assert_int_equal(fixture->client.done, 1);
    for (uint64_t id = 2; id <= many + 1; id++)
        client_begin(&fixture->client, id, "{\"kind\":\"Binding\"}", TIMEOUT_MS);
    client_until(&fixture->client, many + 1);
}

/* What libcurl heard of an answer it keeps to itself, now and then; but nothing was asked yet. */
static void a_refusal_at_the_head_is_heard_or_nothing_was_sent(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, HEAD_429, MANY);
    assert_int_equal(fixture->client.failed, fixture->client.unsent);
}

/* Nobody takes what he has not heard. */
static void a_success_at_the_head_is_none(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, HEAD_201, MANY);
    assert_int_equal(fixture->client.failed, MANY);
}

static void is_sent_once(struct fixture *fixture, bool abruptly)
{
    fixture->abruptly = abruptly;
    ask(fixture, NULL, 1);
    assert_int_equal(fixture->client.failed, 1);
    assert_int_equal(fixture->client.unsent, 0);
    assert_int_equal(atomic_load(&fixture->copies), 1);
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
