/*
 * kube_calls_new() against an HTTP/2 server that answers as its test says: what a request contains,
 * and what counts as unsent when a stream or a connection ends early.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "support/patience.h"
#include "support/test.h"
#include "support_h2.h"

enum { TIMEOUT_MS = 20000 };

#define HEAD_401                                                                                   \
    "\x08\x03"                                                                                     \
    "401"
#define HEAD_103                                                                                   \
    "\x08\x03"                                                                                     \
    "103"

struct fixture;

/* The answer to a stream, when the request is complete. False: the connection ends. */
typedef bool answer_stream(struct fixture *fixture, gnutls_session_t session, unsigned stream);

struct fixture {
    struct h2_pair pair;
    struct text settings; /* the server's */
    answer_stream *answer;
    atomic_uint connections;
    atomic_uint streams;   /* complete requests */
    atomic_uint resets;    /* RST_STREAM of the client */
    atomic_bool released;  /* the server may go on */
    struct strbuf headers; /* of the last request, a line each; the server's */
    nghttp2_hd_inflater *inflater;
    int64_t sockets; /* before the test */
};

/* ---- the server ---- */

static void read_headers(struct fixture *fixture, struct text payload)
{
    const uint8_t *at = (const uint8_t *)payload.at;
    size_t left = payload.len;
    nghttp2_nv nv;
    int flags = 0;

    strbuf_reset(&fixture->headers);
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        const ssize_t read = nghttp2_hd_inflate_hd2(fixture->inflater, &nv, &flags, at, left, 1);
        assert_true(read >= 0);
        at += read;
        left -= (size_t)read;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
            strbuf_printf(&fixture->headers, "%.*s=%.*s\n", (int)nv.namelen, (const char *)nv.name,
                          (int)nv.valuelen, (const char *)nv.value);
    }
    assert_int_equal(nghttp2_hd_inflate_end_headers(fixture->inflater), 0);
}

static bool take(void *user, gnutls_session_t session, const struct h2_head *head)
{
    struct fixture *fixture = user;

    if (head->type == FRAME_HEADERS)
        read_headers(fixture, head->payload);
    if (head->type == FRAME_RST)
        atomic_fetch_add(&fixture->resets, 1);
    if ((head->type != FRAME_HEADERS && head->type != FRAME_DATA) || (head->flags & FLAG_END) == 0)
        return true;
    atomic_fetch_add(&fixture->streams, 1);
    return fixture->answer(fixture, session, head->stream);
}

static void converse(void *user, gnutls_session_t session)
{
    struct fixture *fixture = user;

    atomic_fetch_add(&fixture->connections, 1);
    assert_int_equal(nghttp2_hd_inflate_new(&fixture->inflater), 0);
    h2_take_frames(session, fixture->settings, fixture, take);
    nghttp2_hd_inflate_del(fixture->inflater);
}

static void give_head(gnutls_session_t session, unsigned stream, const char *head, unsigned flags)
{
    h2_give(session, FRAME_HEADERS, FLAG_END_HEADERS | flags, stream, text_of(head));
}

static bool say_ok(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    (void)fixture;
    give_head(session, stream, HEAD_201, 0);
    h2_give(session, FRAME_DATA, FLAG_END, stream, TEXT("yes"));
    return true;
}

/* ---- the fixture ---- */

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);

    strbuf_init(&fixture->headers);
    fixture->pair.client.by_frames = true;
    client_init(&fixture->pair.client);
    fixture->pair.server.converse = converse;
    fixture->pair.server.user = fixture;
    fixture->answer = say_ok;
    h2_start(&fixture->pair.server, &fixture->pair.client);
    fixture->sockets = client_sockets();
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    (void)unlink(client_at(&fixture->pair.client, "token"));
    h2_pair_done(&fixture->pair);
    strbuf_done(&fixture->headers);
    xfree(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

static struct client *connected(struct fixture *fixture)
{
    client_connect(&fixture->pair.client, fixture->pair.server.port);
    return &fixture->pair.client;
}

/* One POST, which the server has answered so. */
static struct client *asked(struct fixture *fixture, answer_stream *answer)
{
    fixture->answer = answer;
    struct client *client = connected(fixture);
    client_ask(client, 1, "{}", TIMEOUT_MS);
    return client;
}

static void expect_header(const struct fixture *fixture, const char *line)
{
    if (strstr(fixture->headers.data, line) == NULL)
        fail_msg("no \"%s\" in:\n%s", line, fixture->headers.data);
}

/* ---- a request and its answer ---- */

FIXTURE_TEST(request__has_the_headers_that_a_server_needs)
{
    fixture->pair.client.path = "/k8s/clusters/one";
    struct client *client = connected(fixture);
    char authority[64];

    client_ask(client, 1, "{\"kind\":\"Binding\"}", TIMEOUT_MS);
    assert_int_equal(client->status, 201);
    assert_string_equal(client->text.data, "yes");
    (void)snprintf(authority, sizeof authority, ":authority=127.0.0.1:%u\n",
                   fixture->pair.server.port);
    expect_header(fixture, ":method=POST\n");
    expect_header(fixture, ":scheme=https\n");
    expect_header(fixture, authority);
    expect_header(fixture, ":path=/k8s/clusters/one/version\n");
    expect_header(fixture, "accept=application/json\n");
    expect_header(fixture, "user-agent=milligpu\n");
    expect_header(fixture, "authorization=Bearer t\n");
    expect_header(fixture, "content-type=application/json\n");
    expect_header(fixture, "content-length=18\n");
}

FIXTURE_TEST(request__without_a_body_says_nothing_of_one)
{
    struct client *client = connected(fixture);

    client_ask(client, 1, "", TIMEOUT_MS);
    assert_int_equal(client->done, 1);
    expect_header(fixture, ":method=GET\n");
    assert_null(strstr(fixture->headers.data, "content-"));
}

FIXTURE_TEST(request__may_have_a_header_of_its_own)
{
    struct client *client = connected(fixture);
    const struct kube_request request = {.id = 1,
                                         .method = "GET",
                                         .path = "/version",
                                         .header = "X-Report-Key: some value",
                                         .timeout_ms = TIMEOUT_MS};
    struct err err;

    assert_int_equal(client->ops.start(client->ops.ctx, &request, &err), 0);
    client_until(client, 1);
    expect_header(fixture, "x-report-key=some value\n");
}

static bool say_too_many(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    (void)fixture;
    give_head(session, stream, HEAD_103, 0);
    give_head(session, stream, HEAD_429, FLAG_END);
    return true;
}

FIXTURE_TEST(answer__has_one_head_with_retry_after)
{
    struct client *client = asked(fixture, say_too_many);

    assert_int_equal(client->done, 1);
    assert_int_equal(client->heads, 1);
    assert_int_equal(client->status, 429);
    assert_int_equal(client->retry_after_s, 1);
}

static bool say_with_a_trailer(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    static const char trailer[] = "\x0f\x26\x01"
                                  "7"; /* retry-after: 7 */
    (void)fixture;
    give_head(session, stream, HEAD_200, 0);
    h2_give(session, FRAME_DATA, 0, stream, TEXT("yes"));
    give_head(session, stream, trailer, FLAG_END);
    return true;
}

FIXTURE_TEST(answer__ends_with_a_trailer_that_does_not_count)
{
    struct client *client = asked(fixture, say_with_a_trailer);

    assert_int_equal(client->done, 1);
    assert_int_equal(client->heads, 1);
    assert_int_equal(client->status, 200);
    assert_int_equal(client->retry_after_s, 0);
}

static bool say_401_once(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    if (atomic_load(&fixture->streams) > 1)
        return say_ok(fixture, session, stream);
    FILE *file = fopen(client_at(&fixture->pair.client, "token"), "w");
    assert_non_null(file);
    assert_true(fputs("renewed", file) >= 0);
    assert_int_equal(fclose(file), 0);
    give_head(session, stream, HEAD_401, 0);
    h2_give(session, FRAME_DATA, FLAG_END, stream, TEXT("no"));
    return true;
}

FIXTURE_TEST(refused_token__is_read_again_and_the_call_repeated)
{
    FILE *file = fopen(client_at(&fixture->pair.client, "token"), "w");
    assert_non_null(file);
    assert_true(fputs("old", file) >= 0);
    assert_int_equal(fclose(file), 0);
    fixture->pair.client.user = "tokenFile: token";
    struct client *client = asked(fixture, say_401_once);

    assert_int_equal(client->status, 201);
    assert_int_equal(client->heads, 1);
    assert_string_equal(client->text.data, "yes");
    expect_header(fixture, "authorization=Bearer renewed\n");
    assert_int_equal(atomic_load(&fixture->connections), 1);
}

/* ---- ends without an answer ---- */

static bool reset_as(gnutls_session_t session, unsigned stream, char code)
{
    const char payload[] = {0, 0, 0, code};

    h2_give(session, FRAME_RST, 0, stream, (struct text){payload, sizeof payload});
    return true;
}

static bool refuse_stream(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    (void)fixture;
    return reset_as(session, stream, NGHTTP2_REFUSED_STREAM);
}

static bool break_stream(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    (void)fixture;
    return reset_as(session, stream, NGHTTP2_INTERNAL_ERROR);
}

/* A proxy may have passed the request on before. */
FIXTURE_TEST(refused_stream__is_not_reported_unsent)
{
    struct client *client = asked(fixture, refuse_stream);

    assert_int_equal(client->failed, 1);
    assert_int_equal(client->unsent, 0);
}

FIXTURE_TEST(broken_stream__is_not_reported_unsent)
{
    struct client *client = asked(fixture, break_stream);

    assert_int_equal(client->failed, 1);
    assert_int_equal(client->unsent, 0);
    fixture->answer = say_ok;
    client_ask(client, 2, "{}", TIMEOUT_MS);
    assert_int_equal(client->done, 1);
    assert_int_equal(atomic_load(&fixture->connections), 1);
}

static bool refuse_after_head(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    (void)fixture;
    give_head(session, stream, HEAD_201, 0);
    return reset_as(session, stream, NGHTTP2_REFUSED_STREAM);
}

FIXTURE_TEST(stream_refused_after_a_head__is_not_reported_unsent)
{
    struct client *client = asked(fixture, refuse_after_head);

    assert_int_equal(client->failed, 1);
    assert_int_equal(client->unsent, 0);
}

static bool say_no_status(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    static const char head[] = "\x08\x03"
                               "099";
    (void)fixture;
    give_head(session, stream, head, 0);
    h2_give(session, FRAME_DATA, FLAG_END, stream, TEXT("yes"));
    return true;
}

FIXTURE_TEST(status_below_100__fails_its_call)
{
    struct client *client = asked(fixture, say_no_status);

    assert_int_equal(client->failed, 1);
    assert_int_equal(client->unsent, 0);
    assert_int_equal(client->text.len, 0);
}

static void wait_for_release(struct fixture *fixture)
{
    int64_t until_ms = 0;

    while (!atomic_load(&fixture->released))
        assert_true(patience_left(&until_ms));
}

/* Streams after the last one of a GOAWAY were not processed; the others go on. */
static bool go_away(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    static const char payload[] = {0, 0, 0, 1, 0, 0, 0, 0};

    if (atomic_load(&fixture->connections) > 1)
        return say_ok(fixture, session, stream);
    if (atomic_load(&fixture->streams) < 3)
        return true;
    h2_give(session, FRAME_GOAWAY, 0, 0, (struct text){payload, sizeof payload});
    wait_for_release(fixture);
    return say_ok(fixture, session, 1);
}

FIXTURE_TEST(goaway__leaves_one_stream_its_answer_and_reports_the_others_unsent)
{
    fixture->answer = go_away;
    struct client *client = connected(fixture);

    for (uint64_t id = 1; id <= 3; id++)
        client_begin(client, id, "{}", TIMEOUT_MS);
    client_until(client, 2);
    assert_int_equal(client->unsent, 2);
    client_begin(client, 4, "{}", TIMEOUT_MS); /* while a stream is open */
    for (int i = 0; i < 600 && client_sockets() - fixture->sockets < 2; i++)
        client_poll(client, 50);
    assert_int_equal(client_sockets() - fixture->sockets, 2); /* it does not wait for that stream */
    atomic_store(&fixture->released, true);
    client_until(client, 4);
    assert_int_equal(client->done, 2);
    assert_int_equal(client->failed, 2);
    assert_int_equal(atomic_load(&fixture->connections), 2); /* the second is libcurl's */
}

static bool hang_up(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    (void)session, (void)stream;
    return atomic_load(&fixture->connections) > 1 ? say_ok(fixture, session, stream) : false;
}

FIXTURE_TEST(closed_connection__is_replaced_for_the_next_call)
{
    struct client *client = asked(fixture, hang_up);

    assert_int_equal(client->failed, 1);
    assert_int_equal(client->unsent, 0);
    client_ask(client, 2, "{}", TIMEOUT_MS);
    assert_int_equal(client->done, 1);
    assert_int_equal(client_sockets() - fixture->sockets, 2);
}

static bool keep_silent(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    (void)fixture, (void)session, (void)stream;
    return true;
}

static void poll_until_reset(struct fixture *fixture)
{
    for (int i = 0; i < 600 && atomic_load(&fixture->resets) == 0; i++)
        client_poll(&fixture->pair.client, 50);
    assert_int_equal(atomic_load(&fixture->resets), 1);
}

FIXTURE_TEST(cancelled_call__resets_its_stream)
{
    fixture->answer = keep_silent;
    struct client *client = connected(fixture);

    client_begin(client, 1, "{}", TIMEOUT_MS);
    for (int i = 0; i < 600 && atomic_load(&fixture->streams) == 0; i++)
        client_poll(client, 50);
    client->ops.cancel(client->ops.ctx, 1);
    poll_until_reset(fixture);
    assert_int_equal(client->done + client->failed, 0);
}

static bool answer_the_second(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    return stream == 1 || say_ok(fixture, session, stream);
}

FIXTURE_TEST(cancelled_call__makes_room_for_a_waiting_one_at_once)
{
    static const char one_stream[] = {0, 3, 0, 0, 0, 1};
    fixture->answer = answer_the_second;
    fixture->settings = (struct text){one_stream, sizeof one_stream};
    struct client *client = connected(fixture);

    client_begin(client, 1, "{}", 2 * TIMEOUT_MS);
    for (int i = 0; i < 600 && atomic_load(&fixture->streams) == 0; i++)
        client_poll(client, 50);
    (void)sleep(4); /* no limit of the connection is left that could end a poll */
    client_begin(client, 2, "{}", TIMEOUT_MS);
    client_poll(client, 0);
    client->ops.cancel(client->ops.ctx, 1);
    while (client->done + client->failed == 0)
        client_poll(client, 2 * TIMEOUT_MS); /* no poll ends by itself before the deadline */
    assert_int_equal(client->done, 1);
}

/* ---- servers of another kind ---- */

FIXTURE_TEST(missing_server__fails_each_call_unsent)
{
    fixture->pair.client.by_frames = true;
    struct client *client = &fixture->pair.client;
    const unsigned port = fixture->pair.server.port;

    h2_stop(&fixture->pair.server); /* nobody listens */
    client_connect(client, port);
    for (unsigned round = 1; round <= 2; round++) {
        client_begin(client, 2 * round - 1, "{}", TIMEOUT_MS);
        client_begin(client, 2 * round, "", TIMEOUT_MS);
        client_until(client, 2 * round);
        assert_int_equal(client->unsent, 2 * round);
    }
    h2_start(&fixture->pair.server, client);
}

/* A server whose queue is full: connections to it remain in the making. */
struct full_server {
    int listener;
    int waiting[4];
    unsigned port;
};

static void fill(struct full_server *full)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;

    full->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(full->listener, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(getsockname(full->listener, (struct sockaddr *)&here, &len), 0);
    assert_int_equal(listen(full->listener, 0), 0);
    full->port = ntohs(here.sin_port);
    for (size_t i = 0; i < ARRAY_LEN(full->waiting); i++) {
        full->waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(full->waiting[i], (struct sockaddr *)&here, sizeof here);
    }
}

static void empty(const struct full_server *full)
{
    for (size_t i = 0; i < ARRAY_LEN(full->waiting); i++)
        (void)close(full->waiting[i]);
    (void)close(full->listener);
}

FIXTURE_TEST(socket_that_never_connected__leaves_its_number_to_others)
{
    struct client *client = &fixture->pair.client;
    struct full_server full;
    int pair[8][2];
    char byte = 'b';

    fill(&full);
    client->by_frames = false;
    client_connect(client, full.port);
    client_ask(client, 1, "", 200);
    for (size_t i = 0; i < ARRAY_LEN(pair); i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]), 0);
    client_ask(client, 2, "", 200); /* cuts all connections */
    assert_int_equal(client->unsent, 2);
    for (size_t i = 0; i < ARRAY_LEN(pair); i++) {
        assert_int_equal(write(pair[i][0], &byte, 1), 1);
        assert_int_equal(read(pair[i][1], &byte, 1), 1);
        assert_int_equal(write(pair[i][1], &byte, 1), 1);
        (void)close(pair[i][0]);
        (void)close(pair[i][1]);
    }
    empty(&full);
}

FIXTURE_TEST(end__may_come_while_a_connection_is_made)
{
    struct client *client = &fixture->pair.client;
    struct full_server full;

    fill(&full);
    client_connect(client, full.port);
    client_begin(client, 1, "{}", TIMEOUT_MS);
    client_poll(client, 10);
    empty(&full); /* the client ends with the fixture */
}

/* Answers the second connection as HTTP/1.1, and says nothing on the first one. */
static void converse_http1(void *user, gnutls_session_t session)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold";
    struct fixture *fixture = user;
    unsigned char bytes[1024];

    if (atomic_fetch_add(&fixture->connections, 1) > 0)
        while (gnutls_record_recv(session, bytes, sizeof bytes) > 0)
            (void)gnutls_record_send(session, answer, sizeof answer - 1);
    else
        while (gnutls_record_recv(session, bytes, sizeof bytes) > 0)
            continue;
}

FIXTURE_TEST(server_without_settings__is_asked_by_http1)
{
    fixture->pair.server.converse = converse_http1;
    fixture->pair.server.http1 = true;
    struct client *client = connected(fixture);

    client_ask(client, 1, "", TIMEOUT_MS);
    assert_int_equal(client->done, 1);
    assert_string_equal(client->text.data, "old");
    client_ask(client, 2, "", TIMEOUT_MS);
    assert_int_equal(client->done, 2);
    assert_int_equal(atomic_load(&fixture->connections), 2); /* HTTP/2 is not tried each time */
}

/* So many calls wait that the limit passes within a turn. */
FIXTURE_TEST(server_without_settings__may_be_given_up_in_the_midst_of_a_turn)
{
    enum { CALLS = 5000 };
    fixture->pair.server.converse = converse_http1;
    fixture->pair.server.http1 = true;
    struct client *client = connected(fixture);

    for (uint64_t id = 1; id <= CALLS; id++)
        client_begin(client, id, "", TIMEOUT_MS);
    while (client->done + client->failed == 0)
        client_poll(client, 0);
    assert_int_equal(client->failed, 0);
}
