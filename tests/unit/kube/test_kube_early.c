/*
 * kube_curl against an HTTP/2 server that answers before it has received the whole request, as
 * kube-apiserver does under too many requests (429 at the head of a Binding, the rest is ignored),
 * and against one that receives all of it and closes. The server is our own: one thread that sends
 * a few bytes.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "milligpu/base/alloc.h"

#include "support/test.h"
#include "support_h2.h"

enum { MANY = 100, TIMEOUT_MS = 20000 };

struct fixture {
    struct h2_pair pair;
    /*
     * The answer to every stream but the first, given at its head; no client may send a body. NULL:
     * the server takes the body and closes.
     */
    const char *second;
    atomic_uint copies; /* bodies that the server took */
};

/* ---- the server ---- */

/* Answers a stream at its head. */
static bool take(void *user, gnutls_session_t session, const struct h2_head *head)
{
    struct fixture *fixture = user;

    if (head->type == FRAME_DATA && (head->flags & FLAG_END) != 0) {
        atomic_fetch_add(&fixture->copies, 1);
        return false;
    }
    if (head->type != FRAME_HEADERS || (head->stream > 1 && fixture->second == NULL))
        return true;
    h2_give(session, FRAME_HEADERS, FLAG_END | FLAG_END_HEADERS, head->stream,
            text_of(head->stream == 1 ? HEAD_200 : fixture->second));
    if (head->stream > 1)
        h2_give(session, FRAME_RST, 0, head->stream, (struct text){"\0\0\0\0", 4}); /* no error */
    return true;
}

static void converse(void *user, gnutls_session_t session)
{
    static const char no_window[] = {0, 4, 0, 0, 0, 0};
    const struct fixture *fixture = user;
    const size_t bytes = fixture->second != NULL ? sizeof no_window : 0;

    h2_take_frames(session, (struct text){no_window, bytes}, user, take);
}

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);

    client_init(&fixture->pair.client);
    *state = fixture;
    return 0;
}

static int set_up_frames(void **state)
{
    (void)set_up(state);
    struct fixture *fixture = *state;
    fixture->pair.client.by_frames = true;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    h2_pair_done(&fixture->pair);
    xfree(fixture);
    return 0;
}

#define FRAMES_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up_frames, tear_down)

/* By libcurl, and by frames of ours. */
#define FIXTURE_TEST(name)                                                                         \
    TEST_TWICE(name, struct fixture *fixture, set_up, _by_frames, set_up_frames, tear_down)

/* ---- requests ---- */

/* One connection; with an answer, the client's window for a body is 0. */
static void ask(struct fixture *fixture, const char *answer, unsigned many)
{
    fixture->second = answer;
    fixture->pair.server.converse = converse;
    fixture->pair.server.user = fixture;
    h2_start(&fixture->pair.server, &fixture->pair.client);
    client_connect(&fixture->pair.client, fixture->pair.server.port);
    client_begin(&fixture->pair.client, 1, "", TIMEOUT_MS);
    client_until(&fixture->pair.client, 1);
    assert_int_equal(fixture->pair.client.done, 1);
    for (uint64_t id = 2; id <= many + 1; id++)
        client_begin(&fixture->pair.client, id, "{\"kind\":\"Binding\"}", TIMEOUT_MS);
    client_until(&fixture->pair.client, many + 1);
}

/*
 * libcurl sometimes does not report an answer that it received; but then no body has been sent.
 */
FIXTURE_TEST(early_refusal__is_reported_or_nothing_was_sent)
{
    ask(fixture, HEAD_429, MANY);
    assert_int_equal(fixture->pair.client.failed, fixture->pair.client.unsent);
}

FRAMES_TEST(early_refusal__is_reported_by_frames)
{
    ask(fixture, HEAD_429, MANY);
    assert_int_equal(fixture->pair.client.done, 1 + MANY);
    assert_int_equal(fixture->pair.client.status, 429);
}

/* A server cannot accept a body that it has not received. */
FIXTURE_TEST(early_success__is_a_failure)
{
    ask(fixture, HEAD_201, MANY);
    assert_int_equal(fixture->pair.client.failed, MANY);
}

/* libcurl would retry on a new connection where the old one has already served a request. */
FIXTURE_TEST(request__sent_whole_is_sent_once_and_not_reported_unsent)
{
    for (int abruptly = 0; abruptly < 2; abruptly++) {
        atomic_store(&fixture->copies, 0);
        fixture->pair.server.abruptly = abruptly != 0;
        ask(fixture, NULL, 1);
        assert_int_equal(fixture->pair.client.failed, 1);
        assert_int_equal(fixture->pair.client.unsent, 0);
        assert_int_equal(atomic_load(&fixture->copies), 1);
        if (abruptly == 0) {
            h2_pair_done(&fixture->pair);
            client_init(&fixture->pair.client);
        }
    }
}
