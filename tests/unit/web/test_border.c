/*
 * Who may ask.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support.h"

#define HOST "Host: localhost\r\n"
#define JSON "Content-Type: application/json\r\n"

static struct site site;
static struct strbuf answer;

static int set_up(void **state)
{
    (void)state;
    site_init(&site);
    strbuf_init(&answer);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    site_stop(&site);
    strbuf_done(&answer);
    return 0;
}

static int status_of(const char *request)
{
    const int fd = client_open(&site);
    int status = 0;

    assert_true(fd >= 0);
    client_ask(fd, request, &answer);
    (void)close(fd);
    if (sscanf(answer.data, "HTTP/1.1 %d ", &status) != 1)
        fail_msg("\"%s\" to \"%s\"", answer.data, request);
    return status;
}

static void assert_host(const char *host, int status)
{
    char request[200];

    (void)snprintf(request, sizeof request, "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    print_message("Host: %s\n", host);
    assert_int_equal(status_of(request), status);
}

static void hosts_that_nobody_named_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        int status;
    } cases[] = {
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
    site.rules.known_hosts_only = true;
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_host(cases[i].host, cases[i].status);
}

static void a_setting_adds_hosts(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        int status;
    } cases[] = {
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
    site.rules.known_hosts_only = true;
    site.rules.hosts = "milligpu.local, 10.0.0.7 ,[fd00::7]";
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_host(cases[i].host, cases[i].status);
}

static void pages_in_browsers_are_refused(void **state)
{
    (void)state;
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

static void a_body_is_json(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {"Content-Type: application/json\r\n", 200},
        {"content-type: Application/JSON;charset=utf-8\r\n", 200},
        {"Content-Type: application/json ; charset=utf-8\r\n", 200},
        {"", 415}, /* a form of a page may leave it out */
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
    /* What has no body need not say what it is. */
    assert_int_equal(status_of("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"), 200);
    assert_int_equal(status_of("GET /hello HTTP/1.1\r\n" HOST "\r\n"), 200);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(hosts_that_nobody_named_are_refused),
        TEST(a_setting_adds_hosts),
        TEST(pages_in_browsers_are_refused),
        TEST(a_body_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
