/*
 * kube_curl against an HTTP/2 server that answers before it has received the whole request, as
 * kube-apiserver does under too many requests (429 at the head of a Binding, the rest is ignored),
 * and against one that receives all of it and closes. The server is our own: one thread that sends
 * a few bytes.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "support/test.h"
#include "support_h2.h"

enum { MANY = 100, TIMEOUT_MS = 20000 };

struct fixture {
    struct client client;
    struct h2_server server;
    /*
     * The answer to every stream but the first, given at its head; no client may send a body. NULL:
     * the server takes the body and closes.
     */
    const char *second;
    atomic_uint copies; /* bodies that the server took */
};

/* ---- the server ---- */

/* Answers each stream at its head until the other end closes. */
static void converse(void *user, gnutls_session_t session)
{
    static const char no_window[] = {0, 4, 0, 0, 0, 0};
    struct fixture *fixture = user;
    unsigned char head[FRAME_HEAD_BYTES];
    unsigned char rest[1024];

    if (!h2_take(session, rest, PREFACE_BYTES))
        return;
    h2_give(session, FRAME_SETTINGS, 0, 0,
            (struct text){no_window, fixture->second != NULL ? sizeof no_window : 0});
    while (h2_take(session, head, sizeof head)) {
        const size_t bytes = (size_t)head[1] << 8 | head[2];
        const unsigned stream = head[8];
        assert_true(bytes <= sizeof rest);
        if (bytes > 0 && !h2_take(session, rest, bytes))
            return;
        if (head[3] == FRAME_SETTINGS && head[4] != FLAG_ACK)
            h2_give(session, FRAME_SETTINGS, FLAG_ACK, 0, TEXT(""));
        if (head[3] == FRAME_DATA && (head[4] & FLAG_END) != 0) {
            atomic_fetch_add(&fixture->copies, 1);
            return;
        }
        if (head[3] != FRAME_HEADERS || (stream > 1 && fixture->second == NULL))
            continue;
        h2_give(session, FRAME_HEADERS, FLAG_END | FLAG_END_HEADERS, stream,
                text_of(stream == 1 ? HEAD_200 : fixture->second));
        if (stream > 1)
            h2_give(session, FRAME_RST, 0, stream, (struct text){"\0\0\0\0", 4}); /* no error */
    }
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
    h2_stop(&fixture->server);
    client_remove(&fixture->client);
    xfree(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

/* ---- requests ---- */

/* One connection; with an answer, the client has been told that it may send no body. */
static void ask(struct fixture *fixture, const char *answer, unsigned many)
{
    fixture->second = answer;
    fixture->server.converse = converse;
    fixture->server.user = fixture;
    h2_start(&fixture->server, &fixture->client);
    client_connect(&fixture->client, fixture->server.port);
    client_begin(&fixture->client, 1, "", TIMEOUT_MS);
    client_until(&fixture->client, 1);
    assert_int_equal(fixture->client.done, 1);
    for (uint64_t id = 2; id <= many + 1; id++)
        client_begin(&fixture->client, id, "{\"kind\":\"Binding\"}", TIMEOUT_MS);
    client_until(&fixture->client, many + 1);
}

/*
 * libcurl sometimes keeps to itself what it received of an answer; but then no body has been sent.
 */
FIXTURE_TEST(a_refusal_at_the_head_is_heard_or_nothing_was_sent)
{
    ask(fixture, HEAD_429, MANY);
    assert_int_equal(fixture->client.failed, fixture->client.unsent);
}

/* A server cannot accept what it has not received. */
FIXTURE_TEST(a_success_at_the_head_is_none)
{
    ask(fixture, HEAD_201, MANY);
    assert_int_equal(fixture->client.failed, MANY);
}

static void is_sent_once(struct fixture *fixture, bool abruptly)
{
    fixture->server.abruptly = abruptly;
    ask(fixture, NULL, 1);
    assert_int_equal(fixture->client.failed, 1);
    assert_int_equal(fixture->client.unsent, 0);
    assert_int_equal(atomic_load(&fixture->copies), 1);
}

/* libcurl retries on a new connection if the old one has already served a request. */
FIXTURE_TEST(what_was_sent_whole_is_not_sent_again_behind_our_back)
{
    is_sent_once(fixture, true);
}

FIXTURE_TEST(what_was_sent_whole_is_not_called_unsent)
{
    is_sent_once(fixture, false);
}
