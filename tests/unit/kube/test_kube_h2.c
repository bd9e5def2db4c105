/*
 * kube_curl against a server that speaks HTTP/2: nghttpd of Debian's nghttp2-server, over TLS. It
 * answers with files of a folder, and stops answering while a signal stops it.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"

#include "support/patience.h"
#include "support/test.h"
#include "support_client.h"

enum { MANY = 1000, ANSWER_BYTES = 200 };

struct fixture {
    struct client client;
    pid_t server;
    unsigned port;
    int64_t connections; /* before the test */
};

static void sum_up(void *user, const char *labels, int64_t value)
{
    (void)labels;
    *(int64_t *)user += value;
}

static unsigned connections(const struct fixture *fixture)
{
    int64_t sum = 0;

    metric_each(M_API_CONNECTIONS, &sum, sum_up);
    return (unsigned)(sum - fixture->connections);
}

/* ---- the server ---- */

static unsigned free_port(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
    (void)close(fd);
    return ntohs(here.sin_port);
}

static bool answers(unsigned port)
{
    const struct sockaddr_in there = {.sin_family = AF_INET,
                                      .sin_addr = {htonl(INADDR_LOOPBACK)},
                                      .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool connected = connect(fd, (const struct sockaddr *)&there, sizeof there) == 0;

    (void)close(fd);
    return connected;
}

static void start_server(struct fixture *fixture, const char *streams)
{
    char port[16], root[96], key[128], crt[128];
    posix_spawn_file_actions_t files;

    fixture->port = free_port();
    (void)snprintf(port, sizeof port, "%u", fixture->port);
    (void)snprintf(root, sizeof root, "--htdocs=%s/www", fixture->client.folder);
    (void)snprintf(key, sizeof key, "%s/server.key", fixture->client.folder);
    (void)snprintf(crt, sizeof crt, "%s/server.crt", fixture->client.folder);
    const char *const args[] = {
        "nghttpd", "--address=127.0.0.1", "--echo-upload", streams, root, port, key, crt, NULL};
    union {
        const char *const *given;
        char *const *wanted;
    } argv = {args};
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    char *const env[] = {path, NULL};
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    assert_int_equal(setenv("PATH", path + 5, 1), 0); /* where Debian puts it */
    assert_int_equal(posix_spawnp(&fixture->server, "nghttpd", &files, NULL, argv.wanted, env), 0);
    (void)posix_spawn_file_actions_destroy(&files);
    int64_t until_ms = 0;
    while (!answers(fixture->port))
        assert_true(patience_left(&until_ms));
}

static int set_up_with(void **state, const char *streams, bool by_frames)
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
    start_server(fixture, streams);
    client_connect(&fixture->client, fixture->port);
    fixture->connections = connections(fixture);
    *state = fixture;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, "--max-concurrent-streams=250", false);
}

static int set_up_frames(void **state)
{
    return set_up_with(state, "--max-concurrent-streams=250", true);
}

static int set_up_few_streams(void **state)
{
    return set_up_with(state, "--max-concurrent-streams=10", false);
}

static int set_up_few_streams_frames(void **state)
{
    return set_up_with(state, "--max-concurrent-streams=10", true);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    int status;

    client_close(&fixture->client);
    assert_int_equal(kill(fixture->server, SIGKILL), 0);
    assert_int_equal(waitpid(fixture->server, &status, 0), fixture->server);
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
    assert_int_equal(kill(fixture->server, SIGSTOP), 0);
    for (uint64_t id = 2; id <= 11; id++)
        client_begin(&fixture->client, id, "{\"kind\":\"Binding\"}", 400);
    client_until(&fixture->client, 11);
    assert_int_equal(fixture->client.failed, 10);
    assert_int_equal(fixture->client.unsent, 0);
}

FIXTURE_TEST(http2__connects_anew_after_a_silence)
{
    client_ask(&fixture->client, 1, "", 20000);
    assert_int_equal(kill(fixture->server, SIGSTOP), 0);
    client_ask(&fixture->client, 2, "", 300);
    assert_int_equal(fixture->client.failed, 1);
    assert_int_equal(kill(fixture->server, SIGCONT), 0);
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
    assert_int_equal(kill(fixture->server, SIGSTOP), 0);
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
