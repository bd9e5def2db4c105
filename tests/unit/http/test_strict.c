/*
 * A request that two readers of HTTP could read differently is refused, and the connection ends
 * with it: bytes behind it are never read as the next request. The tests send raw bytes, because a
 * client library would correct them.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/run/clock.h"

#include "support/patience.h"
#include "support/test.h"
#include "support_visit.h"

#define POST "POST /echo HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
/* A whole request, 45 bytes long, as the body of another. */
#define NEXT       "GET /hello HTTP/1.1\r\nHost: localhost:8080\r\n\r\n"
#define NEXT_BYTES "45"

static_assert(sizeof NEXT - 1 == 45, "as NEXT_BYTES says");

static size_t answers(void)
{
    size_t count = 0;

    for (const char *at = answer.data; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
        count++;
    return count;
}

/*
 * Reads all answers until the other side ends the connection, for which it must not wait until the
 * limit of a request.
 */
static void ask_to_the_end(const char *request)
{
    const int64_t start = clock_ns();
    client_ask_end(&site, request, &answer);
    if (clock_ns() - start > PATIENCE_S * INT64_C(1000000000))
        fail_msg("only after %d ms: \"%s\"", (int)((clock_ns() - start) / 1000000), request);
}

static void assert_refused(int status, const char *request)
{
    char line[32];

    ask_to_the_end(request);
    (void)snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (strncmp(answer.data, line, strlen(line)) != 0)
        fail_msg("not %d: \"%s\" to \"%s\"", status, answer.data, request);
    if (answers() != 1)
        fail_msg("more than one answer: \"%s\" to \"%s\"", answer.data, request);
    if (strcasestr(answer.data, "\r\nConnection: close\r\n") == NULL)
        fail_msg("it does not say that it ends: \"%s\" to \"%s\"", answer.data, request);
    if (atomic_load(&site.handled) != 0)
        fail_msg("a handler saw something of \"%s\"", request);
}

static const struct {
    int status;
    const char *request;
} ambiguous[] = {
    /* a blank before the colon */
    {400, POST "Content-Length : " NEXT_BYTES "\r\n\r\n" NEXT},
    {400, POST "Content-Length\t: " NEXT_BYTES "\r\n\r\n" NEXT},
    {400, POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n" HOST "X-Any : 1\r\n\r\n" NEXT},
    /* a header name that is no token */
    {400, "GET /hello HTTP/1.1\r\n" HOST "X Any: 1\r\n\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n" HOST "X(Any): 1\r\n\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n" HOST "X\x01: 1\r\n\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n X-Any: 1\r\n" HOST "\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n" HOST "X-\xc3\xa4: 1\r\n\r\n" NEXT},
    /* a control character in a value */
    {400, "GET /hello HTTP/1.1\r\n" HOST "X-Any: a\x01z\r\n\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n" HOST "X-Any: a\x7fz\r\n\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n" HOST "X-Any: a\rContent-Length: 5\r\n\r\n" NEXT},
    /* a folded header */
    {400, POST "Content-Length:\r\n " NEXT_BYTES "\r\n\r\n" NEXT},
    {400, POST "X-Any: a\r\n Content-Length: " NEXT_BYTES "\r\n\r\n" NEXT},
    {400, POST "Transfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n" NEXT},
    /* two hosts */
    {400, "GET /hello HTTP/1.1\r\n" HOST "Host: evil.example\r\n\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\nHost: evil.example\r\n" HOST "\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n" HOST HOST "\r\n" NEXT},
    {400, "GET /hello HTTP/1.1\r\n" HOST "host: localhost\r\n\r\n" NEXT},
    {400, POST "Content-Length: " NEXT_BYTES "\r\n" HOST "\r\n" NEXT},
    /* two lengths */
    {400, POST "Content-Length: 0\r\nContent-Length: " NEXT_BYTES "\r\n\r\n" NEXT},
    {400, POST "Content-Length: " NEXT_BYTES "\r\nContent-Length: 0\r\n\r\n" NEXT},
    {400, POST "Content-Length: " NEXT_BYTES "\r\ncontent-length: " NEXT_BYTES "\r\n\r\n" NEXT},
    /* a length and an encoding */
    {400, POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" NEXT},
    {400, POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT},
    {400, POST "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT},
    /* an unknown encoding */
    {501, POST "Transfer-Encoding: gzip\r\n\r\n" NEXT},
    {501, POST "Transfer-Encoding: identity\r\n\r\n" NEXT},
    {501, POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" NEXT},
    {501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" NEXT},
    {501, POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" NEXT},
    {501, POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" NEXT},
    {501, POST "Transfer-Encoding:\r\n\r\n" NEXT},
    {501, POST "Transfer-Encoding: gzip\r\n\r\n"},
    /* two encodings */
    {400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT},
    {400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" NEXT},
    /* an encoding in HTTP/1.0 */
    {400, "POST /echo HTTP/1.0\r\n" HOST
          "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT},
    /* an unknown expectation */
    {417, POST "Content-Length: " NEXT_BYTES "\r\nExpect: bogus\r\n\r\n" NEXT},
    {417, POST "Content-Length: " NEXT_BYTES "\r\nExpect: 100-continue, bogus\r\n\r\n" NEXT},
    {417, POST "Content-Length: " NEXT_BYTES "\r\nExpect:\r\n\r\n" NEXT},
    {417, "GET /hello HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n\r\n" NEXT},
    {417,
     POST "Content-Length: " NEXT_BYTES "\r\nExpect: 100-continue\r\nExpect: bogus\r\n\r\n" NEXT},
    /* another version of HTTP */
    {505, "GET /hello HTTP/1.2\r\n" HOST "\r\n" NEXT},
    {505, "GET /hello HTTP/2.0\r\n" HOST "\r\n" NEXT},
};

SITE_TEST(ambiguous_request__is_refused_and_ends_the_connection)
{
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(ambiguous); i++) {
        assert_refused(ambiguous[i].status, ambiguous[i].request);
        assert_int_equal(atomic_load(&site.refused), i + 1);
        assert_int_equal(atomic_load(&site.last_status), ambiguous[i].status);
    }
}

/* Refusals by the library itself: it may send them twice, or not at all. */
SITE_TEST(refused_request__is_followed_by_no_other)
{
    static const char *const requests[] = {
        POST "Content-Length: +" NEXT_BYTES "\r\n\r\n" NEXT,
        POST "Content-Length: -1\r\n\r\n" NEXT,
        POST "Content-Length: 0x2d\r\n\r\n" NEXT,
        POST "Content-Length: 4 5\r\n\r\n" NEXT,
        POST "Content-Length:\r\n\r\n" NEXT,
        POST "Content-Length: " NEXT_BYTES ";\r\n\r\n" NEXT,
        POST "Content-Length: " NEXT_BYTES ", " NEXT_BYTES "\r\n\r\n" NEXT,
        "GET /hello HTTP/1.1\r\n" HOST "Content-Length: none\r\n\r\n" NEXT,
        "GET /hello HTTP/1.1\r\n" HOST "no colon\r\n\r\n" NEXT,
        "GET /hello HTTP/1.1\r\nHost : localhost\r\n\r\n" NEXT,
        "GET /hello HTTP/1.1\r\nHost:\r\n localhost\r\n\r\n" NEXT,
        "GET /hello\r\n" HOST "\r\n" NEXT,
        "GET /hello x HTTP/1.1\r\n" HOST "\r\n" NEXT,
        POST "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" NEXT,
        POST "Transfer-Encoding: chunked\r\n\r\n+0\r\n" NEXT,
        POST "Transfer-Encoding: chunked\r\n\r\n-1\r\n" NEXT,
        POST "Transfer-Encoding: chunked\r\n\r\n 5\r\n" NEXT,
        POST "Transfer-Encoding: chunked\r\n\r\n\r\n" NEXT,
        POST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n" NEXT,
        POST "Transfer-Encoding: chunked\r\n\r\n1\r\n{no end\r\n0\r\n\r\n" NEXT,
    };
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        ask_to_the_end(requests[i]);
        if (strstr(answer.data, "HTTP/1.1 2") != NULL || atomic_load(&site.handled) != 0)
            fail_msg("\"%s\" to \"%s\"", answer.data, requests[i]);
    }
}

SITE_TEST(usual_request__is_taken)
{
    static const char *const requests[] = {
        POST "Content-Length: " NEXT_BYTES "\r\n\r\n" NEXT,
        POST "Content-Length:" NEXT_BYTES "\r\n\r\n" NEXT,
        POST "Content-Length: \t" NEXT_BYTES "\r\n\r\n" NEXT,
        POST "Transfer-Encoding: chunked\r\n\r\n2d\r\n" NEXT "\r\n0\r\n\r\n",
        POST "transfer-encoding: Chunked\r\n\r\n2D;a=b\r\n" NEXT "\r\n0\r\nX-Trailer: 1\r\n\r\n",
        POST "Content-Length: " NEXT_BYTES "\r\nX-Any: \"a\tb\" \xc3\xa4\r\nX-Any: 2\r\n\r\n" NEXT,
    };
    site_start(&site);
    const int fd = client_open(&site);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        client_ask(fd, requests[i], &answer);
        if (strncmp(answer.data, "HTTP/1.1 200 ", 13) != 0 || strstr(answer.data, NEXT) == NULL)
            fail_msg("\"%s\" to \"%s\"", answer.data, requests[i]);
    }
    assert_int_equal(atomic_load(&site.handled), ARRAY_LEN(requests));
    assert_int_equal(atomic_load(&site.refused), 0);
}

SITE_TEST(expect_continue__is_answered_100)
{
    site_start(&site);
    ask_to_the_end(POST "Content-Length: " NEXT_BYTES
                        "\r\nExpect: 100-Continue\r\nConnection: close\r\n\r\n" NEXT);
    assert_int_equal(strncmp(answer.data, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ", 38), 0);
    assert_non_null(strstr(answer.data, NEXT));
}

TEST_GROUP(test_ignore_sigpipe, NULL)
