/*
 * Which requests are accepted, and how much memory they get.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "milligpu/base/alloc.h"

#include "support/patience.h"
#include "support/test.h"
#include "support_visit.h"

#define JSON "Content-Type: application/json\r\n"

enum { PEERS = 24, BODY = 64 * 1024, BODIES = 512 * 1024 };

static int status_of(const char *request)
{
    int status = 0;

    ask_once(request);
    if (sscanf(answer.data, "HTTP/1.1 %d ", &status) != 1)
        fail_msg("\"%s\" to \"%s\"", answer.data, request);
    return status;
}

struct host_case {
    const char *host;
    int status;
};

static void assert_hosts(const struct host_case *cases, size_t count)
{
    char request[200];

    site.rules.known_hosts_only = true;
    site_start(&site);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(request, sizeof request, "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n",
                       cases[i].host);
        print_message("Host: %s\n", cases[i].host);
        assert_int_equal(status_of(request), cases[i].status);
    }
}

SITE_TEST(host_header__must_be_a_loopback_name)
{
    static const struct host_case cases[] = {
        {"localhost", 200},
        {"localhost:8911", 200},
        {"LocalHost:1", 200},
        {"127.0.0.1", 200},
        {"127.9.9.9:80", 200},
        {"[::1]", 200},
        {"[::1]:8911", 200},
        {"evil.example", 403},
        {"evil.example:8911", 403},
        {"127.0.0.1.evil.x", 403},
        {"10.0.0.1:8911", 403},
        {"localhost.evil.example", 403},
        {"localhost:80@evil.example", 403},
        {"localhost:", 403},
        {"[fe80::1]", 403},
        {"[::1", 403},
        {"localhostx", 403},
        {"", 403},
    };
    assert_hosts(cases, ARRAY_LEN(cases));
}

SITE_TEST(host_header__may_be_one_of_the_setting)
{
    static const struct host_case cases[] = {
        {"milligpu.local", 200},
        {"MilliGPU.local:8910", 200},
        {"10.0.0.7:1", 200},
        {"[fd00::7]", 200},
        {"[fd00::7]:8910", 200},
        {"localhost", 200},
        {"milligpu", 403},
        {"local", 403},
        {"milligpu.local.x", 403},
        {"milligpu.local,10.0.0.7", 403},
        {"10.0.0.77", 403},
        {"[fd00::7]x", 403},
        {"", 403},
    };
    site.rules.hosts = "milligpu.local, 10.0.0.7 ,[fd00::7]";
    assert_hosts(cases, ARRAY_LEN(cases));
}

SITE_TEST(browser_request__is_refused)
{
    static const char *const origins[] = {"http://evil.example", "null", "http://localhost", ""};
    static const char *const requests[] = {
        "GET /hello HTTP/1.1\r\n" HOST "Origin: %s\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\nOrigin: %s\r\n\r\n{}",
        "OPTIONS /echo HTTP/1.1\r\n" HOST "Origin: %s\r\nAccess-Control-Request-Method: POST\r\n"
        "\r\n",
    };
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(origins) * ARRAY_LEN(requests); i++) {
        char request[300];
        const char *form = requests[i % ARRAY_LEN(requests)];
        const char *mark = strstr(form, "%s");
        (void)snprintf(request, sizeof request, "%.*s%s%s", (int)(mark - form), form,
                       origins[i / ARRAY_LEN(requests)], mark + 2);
        assert_int_equal(status_of(request), 403);
        assert_null(strcasestr(answer.data, "Access-Control-Allow"));
    }
    assert_int_equal(atomic_load(&site.handled), 0);
}

SITE_TEST(body__must_be_json)
{
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {"Content-Type: application/json\r\n", 200},
        {"content-type: Application/JSON;charset=utf-8\r\n", 200},
        {"Content-Type: application/json ; charset=utf-8\r\n", 200},
        {"", 415}, /* a form on a web page may omit it */
        {"Content-Type:\r\n", 415},
        {"Content-Type: text/plain\r\n", 415},
        {"Content-Type: application/x-www-form-urlencoded\r\n", 415},
        {"Content-Type: multipart/form-data; boundary=application/json\r\n", 415},
        {"Content-Type: application/jsonx\r\n", 415},
        {"Content-Type: application/json-patch+json\r\n", 415},
        {"Content-Type: text/plain; application/json\r\n", 415},
        {"Content-Type: application/json\r\nContent-Type: text/plain\r\n", 415},
    };
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char request[300];
        print_message("%s\n", cases[i].header);
        (void)snprintf(request, sizeof request,
                       "POST /echo HTTP/1.1\r\n" HOST "%sContent-Length: 2\r\n\r\n{}",
                       cases[i].header);
        assert_int_equal(status_of(request), cases[i].status);
        (void)snprintf(request, sizeof request,
                       "POST /echo HTTP/1.1\r\n" HOST "%sTransfer-Encoding: chunked\r\n\r\n2\r\n{}"
                       "\r\n0\r\n\r\n",
                       cases[i].header);
        assert_int_equal(status_of(request), cases[i].status);
    }
    /* A request without a body need not name a content type. */
    assert_int_equal(status_of("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"), 200);
    assert_int_equal(status_of("GET /hello HTTP/1.1\r\n" HOST "\r\n"), 200);
}

/* The handler answers with the error, and the connection ends with its body unread. */
SITE_TEST(body__that_the_handler_does_not_take_is_not_read)
{
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"POST /hello HTTP/1.1\r\n" HOST JSON "Content-Length: 99\r\n\r\n{", 413},
        {"GET /hello HTTP/1.1\r\n" HOST JSON "Content-Length: 1000000000\r\n\r\n{", 413},
        {"GET /hello HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\n{", 413},
        {"GET /hello HTTP/1.1\r\n" HOST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", 413},
        {"PUT /nowhere HTTP/1.1\r\n" HOST JSON "Content-Length: 99\r\n\r\n{", 404},
    };
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const int fd = client_open(&site);
        print_message("%s\n", cases[i].request);
        client_send(fd, cases[i].request);
        client_read_end(fd, &answer);
        assert_status(cases[i].status);
        assert_contains("\r\nConnection: close\r\n");
        assert_int_equal(http_body_bytes(site.http), 0);
    }
}

/* All PEERS connections send a body that does not come to its end. */
static void open_all(int fd[PEERS], const char *head, size_t bytes)
{
    CLEANUP(strbuf_done) struct strbuf request;

    strbuf_init(&request);
    strbuf_str(&request, head);
    for (size_t i = 0; i < bytes; i++)
        strbuf_char(&request, 'x');
    for (size_t i = 0; i < PEERS; i++) {
        fd[i] = client_open(&site);
        assert_true(fd[i] >= 0);
        client_send(fd[i], request.data);
    }
}

static void close_all(const int fd[PEERS])
{
    for (size_t i = 0; i < PEERS; i++)
        client_close(fd[i]);
}

/* The largest count seen after the last byte is sent. */
static size_t most_bytes(size_t until)
{
    size_t most = 0;

    for (int i = 0; i < 100 && most < until; i++) {
        const size_t now = http_body_bytes(site.http);
        most = now > most ? now : most;
        sleep_ms(5);
    }
    return most;
}

SITE_TEST(listener__without_bodies_holds_none)
{
    int fd[PEERS];
    site.rules.takes_body = NULL;
    site.rules.body_bytes_max = 0;
    site.rules.bodies_bytes_max = 0;
    site_start(&site);
    open_all(fd, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 1000000\r\n\r\n", BODY);
    assert_int_equal(most_bytes(1), 0);
    close_all(fd);
    open_all(fd, "POST /echo HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: chunked\r\n\r\n10000\r\n",
             BODY);
    assert_int_equal(most_bytes(1), 0);
    close_all(fd);
}

static bool is_continued(const char *request)
{
    static const char start[] = "HTTP/1.1 100 ";
    char got[sizeof start] = "";
    const int fd = client_open(&site);

    client_send(fd, request);
    (void)recv(fd, got, sizeof start - 1, MSG_WAITALL);
    client_close(fd);
    return strcmp(got, start) == 0;
}

SITE_TEST(body_memory__has_a_bound_for_all)
{
    static const char expecting[] =
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 99999\r\nExpect: 100-continue\r\n\r\n";
    static const char *const heads[] = {
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 99999\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: chunked\r\n\r\n1869f\r\n",
    };
    site.rules.bodies_bytes_max = BODIES;
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        int fd[PEERS]; /* 24 times 64 KiB is three times the bound */
        open_all(fd, heads[i], BODY);
        int64_t until_ms = 0;
        while (is_continued(expecting) && patience_left(&until_ms)) /* bodies still arrive */
            continue;
        const size_t most = most_bytes(BODIES + 1);
        assert_in_range(most, BODIES / 2, BODIES);
        /* A body for which there is no room is refused before a byte of it is sent. */
        assert_int_equal(status_of(expecting), 503);
        assert_contains("\r\nRetry-After: 1\r\n");
        assert_int_equal(atomic_load(&site.last_status), 503);
        /* Requests without a body are still served. */
        assert_int_equal(status_of("GET /hello HTTP/1.1\r\n" HOST "\r\n"), 200);
        close_all(fd);
        until_ms = 0;
        while (http_body_bytes(site.http) > 0 && patience_left(&until_ms))
            continue;
        assert_int_equal(http_body_bytes(site.http), 0);
    }
    assert_int_equal(status_of("POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n{}"),
                     200);
}

SITE_TEST(body__beyond_the_memory_is_answered_when_it_ends)
{
    int fd[PEERS];
    int served = 0;
    int refused = 0;
    site.rules.bodies_bytes_max = BODIES;
    site_start(&site);
    open_all(fd, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 65536\r\n\r\n", BODY - 1);
    sleep_ms(200); /* by then each body has met the bound or never will */
    for (size_t i = 0; i < PEERS; i++) {
        client_ask(fd[i], "x", &answer);
        served += strncmp(answer.data, "HTTP/1.1 200 ", 13) == 0;
        refused += strncmp(answer.data, "HTTP/1.1 503 ", 13) == 0;
        if (strncmp(answer.data, "HTTP/1.1 503 ", 13) == 0)
            assert_contains("\r\nRetry-After: 1\r\n");
    }
    assert_int_equal(served + refused, PEERS);
    assert_in_range(served, 1, BODIES / BODY);
    close_all(fd);
}

SITE_TEST(body_memory__counts_buffers_kept_for_the_next_body)
{
    int fd[PEERS];
    site.rules.bodies_bytes_max = BODIES;
    site_start(&site);
    open_all(fd, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 1\r\n\r\n", 1);
    CLEANUP(xfreep) char *request = post_text(BODY, BODY);
    for (size_t i = 0; i < PEERS; i++) {
        client_read(fd[i], &answer);
        client_ask(fd[i], request, &answer); /* one after another: there is room */
        assert_status(200);
    }
    sleep_ms(50);
    assert_in_range(http_body_bytes(site.http), 1, BODIES / 2);
    close_all(fd);
}

TEST_GROUP(test_ignore_sigpipe, NULL)
