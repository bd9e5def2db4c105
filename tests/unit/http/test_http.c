#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

#include "support/patience.h"
#include "support/test.h"
#include "support_visit.h"

static const int64_t patience_ns = PATIENCE_S * INT64_C(1000000000);

SITE_TEST(connection__serves_many_requests)
{
    site_start(&site);
    const int fd = client_open(&site);
    for (int i = 0; i < 20; i++) {
        client_ask(fd, "GET /hello HTTP/1.1\r\n" HEAD, &answer);
        assert_status(200);
        assert_contains("\r\nContent-Length: 5\r\n");
        assert_contains("\r\n\r\nhello");
        assert_null(strcasestr(answer.data, "Connection: close"));
        client_ask(fd, "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD "abc", &answer);
        assert_status(200);
        assert_contains("\r\n\r\nabc");
    }
    assert_int_equal(atomic_load(&site.handled), 40);
    assert_int_equal(http_pending(site.http), 0);
}

SITE_TEST(pipelined_requests__are_answered_in_order)
{
    site_start(&site);
    client_ask_end(&site,
                   "POST /later HTTP/1.1\r\nContent-Length: 1\r\n" HEAD "1"
                   "POST /echo HTTP/1.1\r\nContent-Length: 1\r\n" HEAD "2"
                   "GET /hello HTTP/1.1\r\nConnection: close\r\n" HEAD,
                   &answer);
    const char *one = strstr(answer.data, "\r\n\r\n1");
    const char *two = strstr(answer.data, "\r\n\r\n2");
    const char *three = strstr(answer.data, "\r\n\r\nhello");
    assert_non_null(one);
    assert_non_null(two);
    assert_non_null(three);
    assert_true(one < two && two < three);
}

SITE_TEST(handler__gets_the_request_decoded)
{
    site_start(&site);
    ask_once("GET /about/n%20%2Fx?a=1%262&b&c= HTTP/1.1\r\nX-Test: yes\r\n" HEAD);
    assert_status(203);
    assert_contains("\r\n\r\nGET /about/n /x test=yes [a=1&2][b=][c=]");
    assert_contains("\r\nX-Answer: 42\r\n");
    assert_null(strcasestr(answer.data, "\r\nX-Injected"));
    ask_once("DELETE /about?b HTTP/1.1\r\n" HEAD);
    assert_contains("DELETE /about test=(none) [b=]");
    ask_once("GET /about?a HTTP/1.1\r\n" HEAD);
    assert_contains("GET /about test=(none) [a=]");
}

SITE_TEST(answer__without_a_body_has_a_length)
{
    site_start(&site);
    const int fd = client_open(&site);
    client_ask(fd, "GET /nowhere HTTP/1.1\r\n" HEAD, &answer);
    assert_status(404);
    assert_contains("\r\nContent-Length: 0\r\n");
    client_send(fd, "HEAD /hello HTTP/1.1\r\nConnection: close\r\n" HEAD);
    client_read_end(fd, &answer);
    assert_status(200);
    assert_contains("\r\nContent-Length: 5\r\n");
    assert_null(strstr(answer.data, "hello"));
}

SITE_TEST(body__arrives_whole_in_any_pieces)
{
    site.rules.body_bytes_max = 1000000;
    site_start(&site);
    CLEANUP(strbuf_done) struct strbuf request;
    strbuf_init(&request);
    const int fd = client_open(&site);
    for (size_t size = 1; size <= 1000000; size = size * 10 - (size == 100000 ? 0 : 1) + 1) {
        strbuf_reset(&request);
        strbuf_printf(&request, "POST /echo HTTP/1.1\r\nContent-Length: %zu\r\n" HEAD, size);
        for (size_t i = 0; i < size; i++)
            strbuf_char(&request, (char)('a' + i % 23));
        client_ask(fd, request.data, &answer);
        assert_status(200);
        const char *body = strstr(answer.data, "\r\n\r\n") + 4;
        assert_int_equal(strlen(body), size);
        for (size_t i = 0; i < size; i++)
            if (body[i] != (char)('a' + i % 23))
                fail_msg("byte %zu of %zu is another", i, size);
    }
    client_ask(fd,
               "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD
               "3\r\nabc\r\n5\r\ndefgh\r\n0\r\n\r\n",
               &answer);
    assert_contains("\r\n\r\nabcdefgh");
}

SITE_TEST(large_body__is_refused_before_it_is_read)
{
    site_start(&site);
    client_ask_end(&site, "POST /echo HTTP/1.1\r\nContent-Length: 100001\r\n" HEAD, &answer);
    assert_status(413);
    assert_contains("application/problem+json");
    assert_contains("\"status\":413");
    ask_once("POST /echo HTTP/1.1\r\nContent-Length: 104857600\r\nExpect: 100-continue\r\n" HEAD);
    assert_status(413);
    assert_int_equal(atomic_load(&site.handled), 0);
    assert_int_equal(atomic_load(&site.refused), 2);
    assert_int_equal(atomic_load(&site.last_status), 413);
}

SITE_TEST(chunked_body__is_counted_while_it_is_read)
{
    site_start(&site);
    CLEANUP(strbuf_done) struct strbuf chunk;
    strbuf_init(&chunk);
    strbuf_str(&chunk, "1000\r\n");
    for (int i = 0; i < 4096; i++)
        strbuf_char(&chunk, 'x');
    strbuf_str(&chunk, "\r\n");
    const int fd = client_open(&site);
    client_send(fd, "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD);
    for (int i = 0; i < 25; i++)
        client_send(fd, chunk.data);
    client_ask(fd, "0\r\n\r\n", &answer);
    assert_status(413);
    /* Up to the limit is fine, and the connection is still good. */
    client_send(fd, "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD);
    for (int i = 0; i < 24; i++)
        client_send(fd, chunk.data);
    client_ask(fd, "0\r\n\r\n", &answer);
    assert_status(200);
    assert_int_equal(atomic_load(&site.handled), 1);
}

SITE_TEST(malformed_request__is_answered_400)
{
    static const char *const requests[] = {
        "GET /a%00b HTTP/1.1\r\n" HEAD,
        "GET /?a=%00 HTTP/1.1\r\n" HEAD,
        "GET hello HTTP/1.1\r\n" HEAD,
        "OPTIONS * HTTP/1.1\r\n" HEAD,
        "GET /hello HTTP/1.1\r\n\r\n", /* no Host */
        "POST /echo HTTP/1.1\r\nContent-Length: -1\r\n" HEAD,
        "POST /echo HTTP/1.1\r\nContent-Length: abc\r\n" HEAD,
    };
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        ask_once(requests[i]);
        assert_status(400);
        assert_true(site_await(&site.refused, (int)i + 1));
        assert_int_equal(atomic_load(&site.last_status), 400);
    }
    assert_int_equal(atomic_load(&site.handled), 0);
}

SITE_TEST(endless_headers__are_refused)
{
    site_start(&site);
    CLEANUP(strbuf_done) struct strbuf request;
    strbuf_init(&request);
    strbuf_str(&request, "GET /hello HTTP/1.1\r\nX-Long: ");
    for (int i = 0; i < 70000; i++)
        strbuf_char(&request, 'x');
    strbuf_str(&request, "\r\n" HEAD);
    ask_once(request.data);
    if (answer.len > 0)
        assert_status(431);
    assert_true(site_await(&site.refused, 1));
    strbuf_reset(&request);
    strbuf_str(&request, "GET /");
    for (int i = 0; i < 70000; i++)
        strbuf_char(&request, 'x');
    strbuf_str(&request, " HTTP/1.1\r\n" HEAD);
    ask_once(request.data);
    if (answer.len > 0)
        assert_status(414);
    assert_int_equal(atomic_load(&site.handled), 0);
    ask_once("GET /hello HTTP/1.1\r\n" HEAD);
    assert_status(200);
}

SITE_TEST(noise__does_no_harm)
{
    static const char *const noise[] = {
        "\r\n\r\n\r\n", "\x16\x03\x01\x02",       "GET",
        "}{\n\n",       "GET / HTTP/9.9\r\n\r\n", "POST /echo HTTP/1.1\r\n"};
    site.rules.request_ms = 300; /* an incomplete request ends by timeout */
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(noise); i++) {
        const int fd = client_open(&site);
        client_send(fd, noise[i]);
        (void)shutdown(fd, SHUT_WR);
        client_read_end(fd, &answer);
    }
    ask_once("GET /hello HTTP/1.1\r\n" HEAD);
    assert_status(200);
}

/* True if the server ended the connection before the client was done. */
static bool drip(int fd, const char *text, int64_t each_ms)
{
    char byte;

    for (; *text != '\0'; text++) {
        if (send(fd, text, 1, MSG_NOSIGNAL) != 1)
            return true;
        sleep_ms(each_ms);
        if (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0)
            return true;
    }
    return false;
}

SITE_TEST(slow_body__is_cut_off)
{
    site.rules.request_ms = 200;
    site_start(&site);
    const int fd = client_open(&site);
    client_send(fd, "POST /echo HTTP/1.1\r\nContent-Length: 100\r\n" HEAD);
    assert_true(
        drip(fd, "0123456789012345678901234567890123456789012345678901234567890123456789", 20));
    client_read_end(fd, &answer);
    assert_status(408);
    assert_int_equal(atomic_load(&site.handled), 0);
    assert_true(site_await(&site.refused, 1));
    assert_int_equal(atomic_load(&site.last_status), 408);
}

SITE_TEST(slow_headers__are_cut_off)
{
    site.rules.request_ms = 200;
    site_start(&site);
    for (int round = 0; round < 2; round++) {
        const int fd = client_open(&site);
        if (round == 1) { /* not the first request on its connection */
            client_ask(fd, "GET /hello HTTP/1.1\r\n" HEAD, &answer);
            assert_status(200);
        }
        assert_true(
            drip(fd, "GET /hello HTTP/1.1\r\nX-Some-Header: 1234567890123456789012345", 20));
        client_read_end(fd, &answer);
        assert_status(408);
    }
    assert_true(site_await(&site.refused, 2));
}

SITE_TEST(unfinished_request__is_cut_off)
{
    static const char *const parts[] = {"G", "GET /hello HTTP/1.1\r\n",
                                        "POST /echo HTTP/1.1\r\nContent-Length: 9\r\n" HEAD "123"};
    site.rules.request_ms = 100;
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        client_ask_end(&site, parts[i], &answer);
        assert_status(408);
    }
}

SITE_TEST(idle_connection__outlives_the_limit_of_a_request)
{
    site.rules.request_ms = 300;
    site_start(&site);
    const int fd = client_open(&site);
    for (int i = 0; i < 3; i++) {
        sleep_ms(400);
        client_ask(fd, "GET /hello HTTP/1.1\r\n" HEAD, &answer);
        assert_status(200);
    }
    /* A slow answer is not a slow request. */
    client_send(fd, "GET /hold HTTP/1.1\r\n" HEAD);
    assert_true(site_await_held(&site, 1));
    sleep_ms(400);
    site_release(&site);
    client_read(fd, &answer);
    assert_status(200);
}

SITE_TEST(idle_connection__ends_after_its_time)
{
    site.rules.idle_ms = 1000;
    site_start(&site);
    const int fd = client_open(&site);
    const int64_t start = clock_ns(); /* it is idle later than this */
    client_ask(fd, "GET /hello HTTP/1.1\r\n" HEAD, &answer);
    client_read_end(fd, &answer);
    assert_int_equal(answer.len, 0);
    assert_true(clock_ns() - start >= 1000000000);
}

SITE_TEST(untaken_answer__is_cut_off)
{
    site.rules.request_ms = 50;
    site.rules.body_bytes_max = 32 * 1024 * 1024;
    site_start(&site);
    CLEANUP(xfreep) char *request = post_text(16 << 20, 16 << 20);
    const int fd = client_open(&site);
    client_send(fd, request);
    sleep_ms(1500);
    client_read_end(fd, &answer); /* the bytes in the socket, then the end */
    assert_true(answer.len < 16 << 20);
}

/* A backup is as large as the ledger. */
SITE_TEST(file_answer__is_sent_without_being_held_in_memory)
{
    enum { FILE_BYTES = 64 << 20 };
    char *bytes = xmalloc(1 << 20);
    site_start(&site);
    const int file = memfd_create("answer", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, FILE_BYTES), 0);
    assert_int_equal(pwrite(file, "end", 3, FILE_BYTES - 3), 3);
    atomic_store(&site.file, dup(file));
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    const int fd = client_open(&site);
    client_send(fd, "GET /file HTTP/1.1\r\nConnection: close\r\n" HEAD);
    size_t got = 0;
    char last = '\0';
    for (ssize_t count; (count = recv(fd, bytes, 1 << 20, 0)) > 0; got += (size_t)count) {
        if (got == 0)
            strbuf_text(&answer, (struct text){bytes, (size_t)count < 200 ? (size_t)count : 200});
        last = bytes[count - 1];
        assert_true(mallinfo2().uordblks + mallinfo2().hblkhd < before + (4 << 20));
    }
    assert_status(200);
    assert_contains("\r\nContent-Length: 67108864\r\n");
    assert_true(got > FILE_BYTES && last == 'd');
    (void)close(file);
    xfree(bytes);
}

SITE_TEST(answer__may_come_later_from_another_thread)
{
    site_start(&site);
    const int fd = client_open(&site);
    for (int i = 0; i < 3; i++) {
        client_ask(fd, "POST /later HTTP/1.1\r\nContent-Length: 4\r\n" HEAD "body", &answer);
        assert_status(200);
        assert_contains("\r\nX-Late: yes\r\n");
        assert_contains("\r\n\r\nbody");
        sleep_ms(1);
    }
}

SITE_TEST(held_calls__block_no_other_and_are_answered)
{
    int fd[32];
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        fd[i] = client_open(&site);
        client_send(fd[i], "GET /hold HTTP/1.1\r\n" HEAD);
    }
    assert_true(site_await_held(&site, ARRAY_LEN(fd)));
    assert_int_equal(http_pending(site.http), ARRAY_LEN(fd));
    ask_once("GET /hello HTTP/1.1\r\n" HEAD); /* held requests block no other */
    assert_status(200);
    site_release(&site);
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        client_read(fd[i], &answer);
        assert_contains("\r\n\r\nreleased");
    }
    assert_int_equal(http_pending(site.http), 0);
}

SITE_TEST(answer__may_race_with_the_end_of_the_handler)
{
    site_start(&site);
    const int fd = client_open(&site);
    for (int i = 0; i < 2000; i++) {
        client_ask(fd, "GET /race HTTP/1.1\r\n" HEAD, &answer);
        assert_status(200);
        assert_contains("\r\n\r\n/race");
    }
}

SITE_TEST(lost_peer__before_its_answer_does_no_harm)
{
    const struct linger hard = {.l_onoff = 1};
    site_start(&site);
    for (int i = 0; i < 8; i++) {
        const int fd = client_open(&site);
        client_send(fd, "GET /hold HTTP/1.1\r\n" HEAD);
        assert_true(site_await_held(&site, (size_t)i + 1));
        if (i % 2 == 0) /* a reset, otherwise an orderly close */
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        client_close(fd);
    }
    sleep_ms(50);
    site_release(&site);
    assert_int_equal(http_pending(site.http), 0);
    ask_once("GET /hello HTTP/1.1\r\n" HEAD);
    assert_status(200);
}

SITE_TEST(lost_peer__within_its_request_is_forgotten)
{
    site_start(&site);
    for (int i = 0; i < 20; i++) {
        const int fd = client_open(&site);
        client_send(fd, "POST /echo HTTP/1.1\r\nContent-Length: 9\r\n" HEAD "123");
        client_close(fd);
    }
    ask_once("GET /hello HTTP/1.1\r\n" HEAD);
    assert_status(200);
    assert_int_equal(atomic_load(&site.handled), 1);
}

SITE_TEST(stop__answers_the_held_calls)
{
    int fd[10];
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        fd[i] = client_open(&site);
        client_send(fd[i], "GET /hold HTTP/1.1\r\n" HEAD);
    }
    assert_true(site_await_held(&site, ARRAY_LEN(fd)));
    const int idle = client_open(&site);
    client_send(idle, "POST /echo HTTP/1.1\r\nContent-Length: 9\r\n" HEAD "123");
    const int64_t start = clock_ns();
    site_stop(&site);
    assert_true(clock_ns() - start < patience_ns); /* far less than the limit of the idle */
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        client_read_end(fd[i], &answer);
        assert_status(503);
        assert_contains("Connection: close");
    }
    client_read_end(idle, &answer);
    assert_int_equal(answer.len, 0);
}

SITE_TEST(stop__does_not_wait_for_a_slow_client)
{
    site.rules.body_bytes_max = 32 * 1024 * 1024;
    site_start(&site);
    CLEANUP(xfreep) char *request = post_text(16 << 20, 16 << 20);
    const int fd = client_open(&site);
    client_send(fd, request);
    assert_true(site_await(&site.handled, 1));
    const int64_t start = clock_ns();
    site_stop(&site);
    assert_true(clock_ns() - start < patience_ns);
    http_stop(NULL);
}

SITE_TEST(quiesce__serves_open_connections_and_refuses_new_ones)
{
    site_start(&site);
    const int fd = client_open(&site);
    client_ask(fd, "GET /hello HTTP/1.1\r\n" HEAD, &answer);
    assert_status(200);
    const int asleep = client_open(&site);
    client_send(asleep, "GET /hold HTTP/1.1\r\n" HEAD);
    assert_true(site_await_held(&site, 1));
    http_quiesce(site.http);
    http_quiesce(site.http);
    const int late = client_open(&site);
    assert_true(late >= 0);
    client_read_end(late, &answer);
    assert_int_equal(answer.len, 0);
    client_send(fd, "GET /hello HTTP/1.1\r\n" HEAD);
    client_read_end(fd, &answer);
    assert_status(200);
    assert_contains("\r\nConnection: close\r\n");
    assert_contains("\r\n\r\nhello");
    site_release(&site);
    client_read_end(asleep, &answer);
    assert_status(200);
}

SITE_TEST(listener__takes_ipv6)
{
    site.rules.listen = "[::1]:0";
    struct err err;
    if (http_start(&site.rules, &site.http, &err) < 0) {
        print_message("no IPv6 here: %s\n", err.text);
        skip();
    }
    http_stop(STEAL(site.http));
    site_start(&site);
    ask_once("GET /hello HTTP/1.1\r\n" HEAD);
    assert_status(200);
}

SITE_TEST(listener__on_a_used_port_is_a_clear_error)
{
    struct site other;
    struct err err;
    char address[40];
    site_start(&site);
    site_init(&other);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)http_port(site.http));
    other.rules.listen = address;
    assert_int_equal(http_start(&other.rules, &other.http, &err), -ERR_CONFLICT);
    assert_non_null(strstr(err.text, address));
    assert_non_null(strstr(err.text, "in use"));
    other.rules.listen = "198.51.100.7:0";
    assert_true(http_start(&other.rules, &other.http, &err) < 0);
    assert_non_null(strstr(err.text, "not an address of this machine"));
    other.rules.listen = "nonsense";
    assert_int_equal(http_start(&other.rules, &other.http, &err), -ERR_INVALID);
    assert_null(other.http);
}

SITE_TEST(listener__has_limits_of_its_own)
{
    struct site other;
    site_start(&site);
    site_init(&other);
    other.rules.threads = 1;
    other.rules.strangers = 1;
    site_start(&other);
    assert_true(http_port(site.http) != http_port(other.http));
    assert_int_equal(http_reload(site.http, &(struct err){0}), 0);
    assert_false(http_files_changed(site.http));
    site_stop(&other);
    ask_once("GET /hello HTTP/1.1\r\n" HEAD);
    assert_status(200);
}

TEST_GROUP(test_ignore_sigpipe, NULL)
