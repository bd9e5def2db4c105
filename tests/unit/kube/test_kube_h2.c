/*
 * kube_curl against a server that speaks HTTP/2: nghttpd of Debian's nghttp2-server, over TLS. It
 * answers with files of a folder, and stops answering while a signal stops it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "support/nghttpd.h"
#include "support/patience.h"
#include "support/test.h"
#include "support_client.h"

enum { MANY = 1000, ANSWER_BYTES = 200 };

struct fixture {
    struct client client;
    struct nghttpd server;
    int64_t connections; /* before the test */
};

static unsigned connections(const struct fixture *fixture)
{
    return (unsigned)(client_sockets() - fixture->connections);
}

static int set_up_with(void **state, unsigned streams, bool by_frames)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);
    char answer[ANSWER_BYTES + 1];

    fixture->client.by_frames = by_frames;
    client_init(&fixture->client);
    assert_int_equal(mkdir(client_at(&fixture->client, "www"), 0700), 0);
    FILE *file = fopen(client_at(&fixture->client, "www/version"), "w");
    assert_non_null(file);
    memset(answer, 'v', ANSWER_BYTES);
    answer[ANSWER_BYTES] = '\0';
    assert_true(fputs(answer, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_true(nghttpd_start(&fixture->server, fixture->client.folder,
                              client_at(&fixture->client, "www"), streams));
    client_connect(&fixture->client, fixture->server.port);
    fixture->connections = client_sockets();
    *state = fixture;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, 250, false);
}

static int set_up_frames(void **state)
{
    return set_up_with(state, 250, true);
}

static int set_up_few_streams(void **state)
{
    return set_up_with(state, 10, false);
}

static int set_up_few_streams_frames(void **state)
{
    return set_up_with(state, 10, true);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    client_close(&fixture->client);
    nghttpd_kill(&fixture->server);
    (void)unlink(client_at(&fixture->client, "www/version"));
    (void)rmdir(client_at(&fixture->client, "www"));
    client_remove(&fixture->client);
    xfree(fixture);
    return 0;
}

#define FEW_STREAMS_TEST(name)                                                                     \
    TEST_WITH(name, struct fixture *fixture, set_up_few_streams, tear_down)
#define FEW_STREAMS_FRAMES_TEST(name)                                                              \
    TEST_WITH(name, struct fixture *fixture, set_up_few_streams_frames, tear_down)

/* By libcurl, and by frames of ours. */
#define FIXTURE_TEST(name)                                                                         \
    TEST_TWICE(name, struct fixture *fixture, set_up, _by_frames, set_up_frames, tear_down)

/* ---- tests ---- */

FIXTURE_TEST(http2__takes_few_connections_for_a_thousand_requests)
{
    for (uint64_t id = 1; id <= MANY; id++)
        client_begin(&fixture->client, id, "", 20000);
    client_until(&fixture->client, MANY);
    assert_int_equal(fixture->client.done, MANY);
    assert_int_equal(fixture->client.text.len, MANY * ANSWER_BYTES);
    /* The server allows fewer streams than that per connection: more connections, but few. */
    assert_in_range(connections(fixture), 1, 16);
}

FIXTURE_TEST(http2__takes_one_connection_for_a_hundred_at_a_time)
{
    for (unsigned round = 0; round < 10; round++) {
        for (uint64_t id = 1; id <= 100; id++)
            client_begin(&fixture->client, id, "", 20000);
        client_until(&fixture->client, (round + 1) * 100);
    }
    assert_int_equal(fixture->client.done, 1000);
    assert_int_equal(connections(fixture), 1);
}

FIXTURE_TEST(http2__bodies_arrive_whole)
{
    struct strbuf body;

    strbuf_init(&body);
    for (int i = 0; i < 5000; i++)
        strbuf_printf(&body, "%d,", i);
    client_ask(&fixture->client, 1, body.data, 20000);
    assert_int_equal(fixture->client.done, 1);
    assert_int_equal(fixture->client.text.len, body.len);
    assert_memory_equal(fixture->client.text.data, body.data, body.len);
    client_ask(&fixture->client, 2, "{\"small\":1}", 20000);
    assert_int_equal(fixture->client.text.len, body.len + 11);
    strbuf_done(&body);
}

FIXTURE_TEST(http2__handle_that_posted_can_get)
{
    for (uint64_t id = 1; id <= 20; id++) {
        client_ask(&fixture->client, id, id % 2 == 0 ? "{}" : "", 20000);
        assert_int_equal(fixture->client.status, 200);
    }
    assert_int_equal(fixture->client.text.len, 10 * 2 + 10 * ANSWER_BYTES);
    assert_int_equal(connections(fixture), 1);
}

FIXTURE_TEST(http2__request_to_a_silent_server_is_not_reported_unsent)
{
    client_ask(&fixture->client, 1, "", 20000);
    assert_int_equal(kill(fixture->server.pid, SIGSTOP), 0);
    for (uint64_t id = 2; id <= 11; id++)
        client_begin(&fixture->client, id, "{\"kind\":\"Binding\"}", 400);
    client_until(&fixture->client, 11);
    assert_int_equal(fixture->client.failed, 10);
    assert_int_equal(fixture->client.unsent, 0);
}

FIXTURE_TEST(http2__connects_anew_after_a_silence)
{
    client_ask(&fixture->client, 1, "", 20000);
    assert_int_equal(kill(fixture->server.pid, SIGSTOP), 0);
    client_ask(&fixture->client, 2, "", 300);
    assert_int_equal(fixture->client.failed, 1);
    assert_int_equal(kill(fixture->server.pid, SIGCONT), 0);
    client_ask(&fixture->client, 3, "", 20000);
    assert_int_equal(fixture->client.done, 2);
    assert_int_equal(connections(fixture), 2);
}

FEW_STREAMS_TEST(http2__takes_more_connections_where_streams_are_few)
{
    for (unsigned round = 0; round < 5; round++) {
        for (uint64_t id = 1; id <= 200; id++)
            client_begin(&fixture->client, id, "", 20000);
        client_until(&fixture->client, (round + 1) * 200);
    }
    assert_int_equal(fixture->client.done, 1000);
    /* Sixteen at once; now and then an idle one gives way. */
    assert_in_range(connections(fixture), 1, 50);
}

FEW_STREAMS_FRAMES_TEST(http2__request_waits_on_one_connection_where_streams_are_few)
{
    for (uint64_t id = 1; id <= 200; id++)
        client_begin(&fixture->client, id, id % 2 == 0 ? "{}" : "", 20000);
    client_until(&fixture->client, 200);
    assert_int_equal(fixture->client.done, 200);
    assert_int_equal(connections(fixture), 1);
}

FEW_STREAMS_FRAMES_TEST(http2__request_without_a_stream_is_reported_unsent)
{
    client_ask(&fixture->client, 1, "", 20000);
    assert_int_equal(kill(fixture->server.pid, SIGSTOP), 0);
    for (uint64_t id = 2; id <= 41; id++)
        client_begin(&fixture->client, id, "{\"kind\":\"Binding\"}", 400);
    client_until(&fixture->client, 41);
    assert_int_equal(fixture->client.failed, 40);
    assert_int_equal(fixture->client.unsent, 30);
}

FIXTURE_TEST(http2__cancelled_request_leaves_the_others_alone)
{
    client_ask(&fixture->client, 1000, "", 20000);
    for (uint64_t id = 1; id <= 100; id++)
        client_begin(&fixture->client, id, "", 20000);
    client_poll(&fixture->client, 0);
    const unsigned early = fixture->client.done;
    for (uint64_t id = 1; id <= 100; id += 2)
        fixture->client.ops.cancel(fixture->client.ops.ctx, id);
    int64_t until_ms = 0;
    while (fixture->client.done < 51 && patience_left(&until_ms))
        client_poll(&fixture->client, 50);
    for (int i = 0; i < 5; i++) /* no other request is answered */
        client_poll(&fixture->client, 50);
    assert_in_range(fixture->client.done, 51, early + 50);
    assert_int_equal(fixture->client.failed, 0);
    assert_int_equal(connections(fixture), 1);
}
