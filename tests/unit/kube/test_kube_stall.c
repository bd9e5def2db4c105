/*
 * kube_curl against an HTTP/2 server whose answer ends where libcurl's buffer is full: libcurl 7.88
 * then sees that end only with the next frame, no matter of which answer.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "support/test.h"
#include "support_h2.h"

enum {
    TIMEOUT_MS = 10000,
    DATA_BYTES = 10 * 1000, /* more than libcurl's buffer, in one TLS record */
    WATCH = 1,              /* the first request */
};

struct fixture {
    struct h2_pair pair;
    bool watched;          /* the first request is a watch; its answer begins but never ends */
    unsigned silent_after; /* requests; 0: it answers them all */
    atomic_uint requests;
};

/* ---- the server ---- */

static void answer(struct fixture *fixture, gnutls_session_t session, unsigned stream)
{
    static char data[DATA_BYTES];
    const unsigned nth = atomic_fetch_add(&fixture->requests, 1) + 1;
    struct h2_frames frames = {.len = 0};

    if (fixture->silent_after > 0 && nth > fixture->silent_after)
        return;
    memset(data, 'v', sizeof data);
    h2_frame(&frames, FRAME_HEADERS, FLAG_END_HEADERS, stream, text_of(HEAD_200));
    if (!fixture->watched || nth != WATCH)
        h2_frame(&frames, FRAME_DATA, FLAG_END, stream, (struct text){data, sizeof data});
    h2_send_frames(session, &frames);
}

static bool take(void *user, gnutls_session_t session, const struct h2_head *head)
{
    if (head->type == FRAME_HEADERS)
        answer(user, session, head->stream);
    return true;
}

static void converse(void *user, gnutls_session_t session)
{
    h2_take_frames(session, TEXT(""), user, take);
}

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);

    client_init(&fixture->pair.client);
    fixture->pair.server.converse = converse;
    fixture->pair.server.user = fixture;
    h2_start(&fixture->pair.server, &fixture->pair.client);
    client_connect(&fixture->pair.client, fixture->pair.server.port);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    h2_pair_done(&fixture->pair);
    xfree(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

/* ---- tests ---- */

FIXTURE_TEST(answer_end__is_seen_without_a_following_frame)
{
    client_get(&fixture->pair.client, 1, "/api/v1/pods?limit=500", TIMEOUT_MS);
    client_until(&fixture->pair.client, 1);
    assert_int_equal(fixture->pair.client.done, 1);
    assert_int_equal(fixture->pair.client.text.len, DATA_BYTES); /* nothing of another answer */
}

FIXTURE_TEST(answer_end__is_seen_beside_an_idle_watch)
{
    fixture->watched = true;
    client_get(&fixture->pair.client, 1, "/api/v1/nodes?watch=1", TIMEOUT_MS);
    while (fixture->pair.client.status == 0)
        client_poll(&fixture->pair.client, 10);
    for (uint64_t id = 2; id <= 5; id++) {
        client_get(&fixture->pair.client, id, "/api/v1/pods?limit=500", TIMEOUT_MS);
        client_until(&fixture->pair.client, (unsigned)id - 1);
    }
    assert_int_equal(fixture->pair.client.done, 4);
    assert_int_equal(fixture->pair.client.text.len, 4 * DATA_BYTES);
}

FIXTURE_TEST(idle_watch__is_left_alone)
{
    fixture->watched = true;
    client_get(&fixture->pair.client, 1, "/api/v1/nodes?watch=1", 600);
    client_until(&fixture->pair.client, 1);
    assert_int_equal(fixture->pair.client.failed, 1); /* it timed out */
    assert_int_equal(atomic_load(&fixture->requests), 1);
}

/* One extra request for each silence of any length. */
FIXTURE_TEST(stalled_server__is_asked_once_more)
{
    fixture->silent_after = 1;
    client_get(&fixture->pair.client, 1, "/api/v1/pods?limit=500", 1000);
    client_until(&fixture->pair.client, 1);
    assert_int_equal(fixture->pair.client.failed, 1);
    assert_int_equal(fixture->pair.client.unsent, 0);
    assert_int_equal(atomic_load(&fixture->requests), 2);
}
