/* Limits of connections and bodies: admission, and the choice of those to close. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

#include "support/patience.h"
#include "support/test.h"
#include "support_visit.h"

#define HELLO "GET /hello HTTP/1.1\r\n" HEAD
#define HOLD  "GET /hold HTTP/1.1\r\n" HEAD

enum { KIB = 1024, MANY = 3000, MANY_STRANGERS = 200 };

static void asks(int fd)
{
    client_ask(fd, HELLO, &answer);
    assert_status(200);
}

/* From 127.0.0.host. */
static int open_from(unsigned host)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(http_port(site.http))};
    const struct timeval limit = {.tv_sec = PATIENCE_S};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
    must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    must(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return client_keep(fd);
}

static bool await_dropped(enum http_cause cause, int count)
{
    return site_await(&site.dropped[cause], count) && atomic_load(&site.dropped[cause]) == count;
}

/* True if the server closes it, with or without a last answer. */
static bool is_closed(int fd)
{
    char byte[200];
    ssize_t got;

    do
        got = recv(fd, byte, sizeof byte, 0);
    while (got > 0);
    return got == 0 || errno == ECONNRESET;
}

/* Asks until a new connection is served. */
static void await_place(void)
{
    int64_t until_ms = 0;

    do
        ask_once(HELLO);
    while (strncmp(answer.data, "HTTP/1.1 200 ", 13) != 0 && patience_left(&until_ms));
    assert_status(200);
}

/* Nothing has come from the other side, not even the end of the connection. */
static bool is_open(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

/* A single thread accepts them one by one; two threads may exceed the limit by one. */
static void few(uint32_t strangers)
{
    site.rules.threads = 1;
    site.rules.strangers = strangers;
    site.rules.strangers_each = strangers;
    site.rules.first_ms = 60000;
    site.rules.request_ms = 2000; /* drops are reported every 200 ms */
}

SITE_TEST(connection__idle_longest_is_closed_for_a_new_one)
{
    int fd[4];
    few(4);
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(fd); i++)
        fd[i] = open_from(1);
    asks(fd[1]); /* fd[2] and fd[3] are now idle longest */
    asks(fd[0]);
    const int fresh = open_from(1);
    asks(fresh);
    assert_true(is_closed(fd[2]));
    const int another = open_from(1);
    asks(another);
    assert_true(is_closed(fd[3]));
    asks(fd[0]);
    asks(fd[1]);
    asks(fresh);
    assert_true(await_dropped(HTTP_GAVE_WAY, 2));
}

SITE_TEST(connection__being_answered_is_never_closed_for_a_new_one)
{
    int fd[3];
    few(3);
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        fd[i] = open_from(1);
        client_send(fd[i], HOLD);
    }
    assert_true(site_await_held(&site, ARRAY_LEN(fd)));
    const int fresh = open_from(1);
    assert_true(is_closed(fresh));
    assert_true(await_dropped(HTTP_NO_PLACE, 1));
    site_release(&site);
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        client_read(fd[i], &answer);
        assert_status(200);
    }
    await_place(); /* the client has the answer before the server is done with the request */
}

/* A connection is closed by its own thread, which may be busy; new ones are served meanwhile. */
SITE_TEST(connection__is_served_before_closing_ones_are_gone)
{
    static int fd[2 * MANY_STRANGERS];
    few(MANY_STRANGERS);
    site.rules.threads = 2;
    site_start(&site);
    for (size_t i = 0; i < MANY_STRANGERS; i++)
        fd[i] = open_from(1);
    const int busy = open_from(1);
    client_send(busy, "GET /linger HTTP/1.1\r\n" HEAD);
    assert_true(site_await(&site.handled, 1));
    for (size_t i = MANY_STRANGERS; i < ARRAY_LEN(fd); i++)
        fd[i] = open_from(1);
    ask_once(HELLO);
    assert_status(200);
    atomic_store(&site.linger_ends, true);
    client_read(busy, &answer);
    assert_status(200);
}

SITE_TEST(connection__of_the_address_with_most_is_closed_for_a_new_one)
{
    int many[5];
    few(7);
    site_start(&site);
    const int oldest = open_from(2);
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = open_from(3);
    const int newest = open_from(9);
    for (size_t i = 0; i < 3; i++) {
        const int fresh = open_from(4 + (unsigned)i);
        asks(fresh);
        assert_true(is_closed(many[i]));
        client_close(fresh);
        /* A closed connection leaves a place, which is taken again. */
        sleep_ms(200); /* until the server has seen it: nothing shows it */
        many[i] = open_from(3);
    }
    asks(oldest);
    asks(newest);
    assert_true(await_dropped(HTTP_GAVE_WAY, 3));
}

SITE_TEST(address__has_a_limit_of_its_own)
{
    few(16);
    site.rules.strangers_each = 2;
    site_start(&site);
    const int other = open_from(2);
    const int first = open_from(1);
    const int second = open_from(1);
    const int third = open_from(1);
    assert_true(is_closed(first));
    asks(second);
    asks(third);
    asks(other);
    client_send(second, HOLD);
    client_send(third, HOLD);
    assert_true(site_await_held(&site, 2));
    const int fourth = open_from(1);
    assert_true(
        is_closed(fourth)); /* the others of its address are busy, and no other address gives way */
    asks(other);
    site_release(&site);
}

SITE_TEST(connection__with_a_finished_request_outlives_unauthenticated_ones)
{
    int strangers[10];
    few(2);
    site.rules.has_request_proof = true;
    site.rules.connections = 2;
    site_start(&site);
    const int first = open_from(1);
    const int second = open_from(1);
    asks(first);
    asks(second);
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
        strangers[i] = open_from(1);
    assert_true(is_closed(strangers[0]));
    assert_true(is_closed(strangers[7]));
    asks(first);
    asks(second);
    /* A newly authenticated client takes the place of the longest idle authenticated one. */
    asks(strangers[9]);
    assert_true(is_closed(first));
    asks(second);
    assert_true(await_dropped(HTTP_GAVE_WAY, 9));
}

SITE_TEST(connection__beyond_busy_authenticated_ones_gets_503)
{
    few(4);
    site.rules.has_request_proof = true;
    site.rules.connections = 1;
    site_start(&site);
    const int known = open_from(1);
    client_send(known, HOLD);
    assert_true(site_await_held(&site, 1));
    ask_once(HELLO);
    assert_status(503);
    assert_non_null(strstr(answer.data, "Retry-After"));
    assert_true(await_dropped(HTTP_NO_PLACE, 1));
    site_release(&site);
    client_read(known, &answer);
    assert_status(200);
    await_place();
    assert_true(is_closed(known));
}

SITE_TEST(connection__without_a_byte_is_closed_and_an_idle_one_is_not)
{
    few(8);
    site.rules.first_ms = 1000;
    site_start(&site);
    const int silent = open_from(1);
    const int slow = open_from(1);
    const int idle = open_from(1);
    client_send(slow, "G");
    asks(idle);
    assert_true(is_closed(silent));
    assert_true(await_dropped(HTTP_SILENT, 1));
    assert_true(is_open(slow));
    client_send(slow, "ET /hello HTTP/1.1\r\n" HEAD);
    client_read(slow, &answer);
    assert_status(200);
    asks(idle);
}

SITE_TEST(connection__with_an_unfinished_head_is_closed_for_a_new_one)
{
    int fd[2];
    few(2);
    site.rules.request_ms = 10000;
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        fd[i] = open_from(1);
        client_send(fd[i], "GET /hello HTTP/1.1\r\nX: ");
    }
    sleep_ms(500); /* until the heads have begun: nothing shows it */
    ask_once(HELLO);
    assert_status(200);
    client_read_end(fd[0], &answer);
    assert_status(503);
}

SITE_TEST(connection__with_an_untaken_answer_is_closed_for_a_new_one)
{
    const int small = 4096;
    few(1);
    site.rules.request_ms = 60000;
    site_start(&site);
    const int file = memfd_create("answer", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, 64 << 20), 0);
    atomic_store(&site.file, file);
    const int fd = open_from(1);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    client_send(fd, "GET /file HTTP/1.1\r\n" HEAD);
    assert_true(site_await(&site.handled, 1));
    await_place(); /* once the socket is full */
}

/* --- bodies --- */

static void send_part(int fd, size_t whole, size_t part)
{
    CLEANUP(xfreep) char *text = post_text(whole, part);

    client_send(fd, text);
}

static void whole(int fd, size_t bytes, int status)
{
    send_part(fd, bytes, bytes);
    client_read(fd, &answer);
    assert_status(status);
}

static bool await_bytes(size_t least)
{
    int64_t until_ms = 0;

    while (http_body_bytes(site.http) < least && patience_left(&until_ms))
        continue;
    return http_body_bytes(site.http) >= least;
}

SITE_TEST(slow_body__gives_its_memory_to_another)
{
    int slow[2];
    few(16);
    site.rules.request_ms = 10000;
    site.rules.body_bytes_max = 64 * KIB;
    site.rules.bodies_bytes_max = 128 * KIB;
    site_start(&site);
    const int64_t begun = clock_ns();
    for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
        slow[i] = open_from(1);
        send_part(slow[i], 60 * KIB, 50 * KIB);
        assert_true(await_bytes((i + 1) * 50 * KIB));
    }
    const int other = open_from(2);
    send_part(other, 40 * KIB, 40 * KIB);
    client_read(other, &answer);
    if (clock_ns() - begun < 1000000000) { /* they have not been slow for a second yet */
        assert_status(503);
        assert_true(is_closed(other));
    }
    client_close(other);
    sleep_ms(1100);
    const int another = open_from(2);
    whole(another, 40 * KIB, 200);
    client_read_end(slow[0], &answer);
    assert_status(503);
    assert_true(is_open(slow[1])); /* closing one was enough */
    assert_true(await_dropped(HTTP_BODY_SLOW, 1));
}

SITE_TEST(body_memory__is_never_all_taken_by_unauthenticated_clients)
{
    int slow[3];
    few(16);
    site.rules.request_ms = 10000;
    site.rules.has_request_proof = true;
    site.rules.connections = 4;
    site.rules.body_bytes_max = 64 * KIB;
    site.rules.bodies_bytes_max = 128 * KIB;
    site_start(&site);
    const int known = open_from(1);
    asks(known);
    const int64_t begun = clock_ns();
    for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
        slow[i] = open_from(1);
        send_part(slow[i], 31 * KIB, 30 * KIB);
        assert_true(await_bytes((i + 1) * 30 * KIB));
    }
    const int stranger = open_from(1);
    send_part(stranger, 20 * KIB, 20 * KIB);
    client_read(stranger, &answer);
    if (clock_ns() - begun < 1000000000)
        assert_status(503);
    whole(known, 20 * KIB, 200);
    sleep_ms(1100);
    whole(known, 60 * KIB, 200); /* slow bodies of unauthenticated clients give way first */
    assert_true(await_dropped(HTTP_BODY_SLOW, 1) ||
                atomic_load(&site.dropped[HTTP_BODY_SLOW]) == 2);
}

/* --- many --- */

SITE_TEST(request__is_answered_among_thousands)
{
    struct rlimit files;
    int fd[MANY];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    const rlim_t wanted = 2 * MANY + 200;
    if (files.rlim_max < wanted) {
        print_message("%d connections want %d open files here\n", MANY, (int)wanted);
        skip();
    }
    if (files.rlim_cur < wanted)
        files.rlim_cur = wanted;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    few(4096);
    site.rules.threads = 2;
    site.rules.request_ms = 10000;
    site.rules.strangers_each = 3072;
    site.rules.has_request_proof = true;
    site.rules.connections = 4096;
    site_start(&site);
    for (size_t i = 0; i < MANY; i++) {
        fd[i] = client_open(&site);
        assert_true(fd[i] >= 0);
        client_send(fd[i], "POST /later HTTP/1.1\r\nContent-Length: 1\r\n" HEAD "1");
    }
    for (size_t i = 0; i < MANY; i++) {
        client_read(fd[i], &answer);
        assert_status(200);
    }
    for (int cause = 0; cause < HTTP_CAUSES; cause++)
        assert_int_equal(atomic_load(&site.dropped[cause]), 0);
    int64_t until_ms = 0;

    while (http_pending(site.http) > 0 && patience_left(&until_ms))
        continue;
}

struct hammer {
    pthread_t thread;
    unsigned number;
    int answered;
};

/* Connects, sends something or nothing, waits or leaves. */
static void *hammer(void *arg)
{
    static const char *const says[] = {
        HELLO,
        "",
        "G",
        HOLD,
        "GET /nowhere HTTP/1.1\r\nX: ",
        HELLO HELLO,
        "POST /echo HTTP/1.1\r\nContent-Length: 9000\r\n" HEAD "abc",
        "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD "abc",
        "GET /nowhere HTTP/1.1\r\n" HEAD,
        "POST /later HTTP/1.1\r\nContent-Length: 3\r\n" HEAD "abc",
    };
    struct hammer *self = arg;
    int kept[8];
    char bytes[4096];

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        kept[i] = -1;
    for (unsigned i = 0; i < 400; i++) {
        int *fd = &kept[(i * 7 + self->number) % ARRAY_LEN(kept)];
        if (*fd >= 0 && recv(*fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            self->answered++;
        if (*fd >= 0)
            client_close(*fd);
        *fd = open_from(1 + (self->number + i) % 5);
        client_send(*fd, says[(i * 5 + self->number) % ARRAY_LEN(says)]);
        if (i % 16 == 0)
            sleep_ms(3);
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        client_close(kept[i]);
    return NULL;
}

SITE_TEST(connections__are_counted_right_as_they_come_and_go)
{
    struct hammer hammers[4] = {0};
    int answered = 0;
    few(12);
    site.rules.threads = 2;
    site.rules.strangers_each = 7;
    site.rules.has_request_proof = true;
    site.rules.connections = 6;
    site.rules.request_ms = 300;
    site.rules.bodies_bytes_max = 256 * KIB;
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(hammers); i++) {
        hammers[i].number = (unsigned)i;
        assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer, &hammers[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(hammers); i++) {
        while (pthread_tryjoin_np(hammers[i].thread, NULL) != 0) {
            site_release(&site);
            sleep_ms(1);
        }
        answered += hammers[i].answered;
    }
    assert_true(answered > 0);
    assert_true(site_await(&site.dropped[HTTP_GAVE_WAY], 1));
    /* The last connections may still wait in the backlog. */
    int64_t until_ms = 0;
    while (strncmp(answer.data, "HTTP/1.1 200 ", 13) != 0 && patience_left(&until_ms)) {
        site_release(&site);
        ask_once(HELLO);
    }
    assert_status(200);
    until_ms = 0;
    while (http_pending(site.http) > 0 && patience_left(&until_ms))
        site_release(&site);
    assert_int_equal(http_pending(site.http), 0);
    /* Stopping checks that everything that was counted was taken off again. */
}

SITE_TEST(connection__over_ipv6_is_counted)
{
    struct err err;
    few(2);
    site.rules.listen = "[::1]:0";
    if (http_start(&site.rules, &site.http, &err) < 0) {
        print_message("no IPv6 here: %s\n", err.text);
        skip();
    }
    http_stop(STEAL(site.http));
    site_start(&site);
    const int first = client_open(&site);
    const int second = client_open(&site);
    ask_once(HELLO);
    assert_status(200);
    assert_true(is_closed(first));
    asks(second);
}

TEST_GROUP(test_ignore_sigpipe, NULL)
