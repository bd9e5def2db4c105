/*
 * The HTTP client of milligpuctl, with libcurl. Called by ctl.c, selector.c, lab/play and commands
 * that download, in the only thread. One easy handle is reused, and with it the connection. Limits:
 * 5 s to connect, 60 s and 512 MiB for an answer; a download has a timeout between bytes only.
 * Every failure becomes one err: of libcurl in client_explain(), of the server in client_problem().
 */
#include "client.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

enum {
    CONNECT_MS_MAX = 5000,
    ANSWER_MS_MAX = 60000,
    SILENCE_S_MAX = 30, /* between bytes of a download, whose total time is not limited */
    /* the same on a Unix socket: the server copies a large ledger before it sends the first byte */
    SOCKET_SILENCE_S_MAX = 600,
    ANSWER_BYTES_MAX = 512 * 1024 * 1024,
    PAGES_MAX = 10000, /* limits a server that repeats a `continue` for ever */
};

struct client {
    CURL *curl;
    struct strbuf body;
    FILE *file; /* destination of the body of a successful answer; NULL for memory */
    bool too_large;
    char error[CURL_ERROR_SIZE];
};

/* --- addresses --- */

/* Escapes more than RFC 3986 requires (also "/"), so that it serves for paths and queries. */
void url_escape(struct strbuf *out, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if ((byte < 0x80 && isalnum(byte)) || strchr("-._~", byte) != NULL) {
            strbuf_char(out, *text);
            continue;
        }
        strbuf_char(out, '%');
        strbuf_char(out, digits[byte >> 4]);
        strbuf_char(out, digits[byte & 15]);
    }
}

void url_query(struct strbuf *path, const char *key, const char *value)
{
    must(path->len > 0);
    if (value == NULL)
        return;
    strbuf_char(path, strchr(path->data, '?') != NULL ? '&' : '?');
    strbuf_str(path, key);
    strbuf_char(path, '=');
    url_escape(path, value);
}

/* The path of "unix:PATH"; NULL for another address. */
static const char *socket_of(const char *base)
{
    static const char prefix[] = "unix:";

    must(base != NULL);
    return strncmp(base, prefix, strlen(prefix)) == 0 ? base + strlen(prefix) : NULL;
}

/*
 * The default scheme is http, since the admin listener has no TLS. On a Unix socket, the host is
 * only for the header Host.
 */
static void make_url(struct strbuf *out, const struct client_request *call)
{
    struct text base = text_of(socket_of(call->base) != NULL ? "localhost" : call->base);

    must(call->path[0] == '/');
    while (base.len > 0 && base.at[base.len - 1] == '/')
        base.len--;
    if (!text_starts(base, "http://") && !text_starts(base, "https://"))
        strbuf_str(out, "http://");
    strbuf_text(out, base);
    strbuf_str(out, call->path);
}

/* --- one call --- */

static bool is_good(long status)
{
    must(status >= 0);
    return status >= 200 && status < 300;
}

/*
 * libcurl's write callback. Only a successful answer goes into the file: the body of a refusal is a
 * problem document, which the caller parses. A return value other than length aborts the transfer.
 */
static size_t take_bytes(char *bytes, size_t size, size_t count, void *user)
{
    struct client *client = user;
    const size_t length = size * count;
    long status = 0;

    must(size == 1);
    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status); /* 0 if unknown */
    if (client->file != NULL && is_good(status))
        return fwrite(bytes, 1, length, client->file);
    if (client->body.len + length > ANSWER_BYTES_MAX) {
        client->too_large = true;
        return 0;
    }
    strbuf_add(&client->body, bytes, length);
    return length;
}

struct client *client_new(void)
{
    struct client *client = xcalloc(1, sizeof *client);

    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    client->curl = curl_easy_init();
    must(client->curl != NULL);
    strbuf_init(&client->body);
    return client;
}

void client_free(struct client *client)
{
    must(client->curl != NULL);
    curl_easy_cleanup(client->curl);
    curl_global_cleanup();
    strbuf_done(&client->body);
    xfree(client);
}

/* Options that cannot fail for these values. */
#define SET(client, option, value)                                                                 \
    must(curl_easy_setopt((client)->curl, (option), (value)) == CURLE_OK)

/*
 * curl_easy_reset() keeps the connection and drops the options of the previous call. No proxy: the
 * server is on loopback or behind a port-forward, for which http_proxy is not intended.
 */
static void client_prepare(struct client *client, const char *url,
                           const struct client_request *call)
{
    must(url[0] != '\0');
    curl_easy_reset(client->curl);
    strbuf_reset(&client->body);
    client->error[0] = '\0';
    client->too_large = false;
    const char *socket = socket_of(call->base);
    SET(client, CURLOPT_URL, url);
    SET(client, CURLOPT_UNIX_SOCKET_PATH, socket);
    SET(client, CURLOPT_PROXY, "");
    SET(client, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(client, CURLOPT_USERAGENT, "milligpuctl");
    SET(client, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS_MAX);
    if (client->file != NULL) {
        SET(client, CURLOPT_LOW_SPEED_LIMIT, 1L);
        SET(client, CURLOPT_LOW_SPEED_TIME,
            (long)(socket != NULL ? SOCKET_SILENCE_S_MAX : SILENCE_S_MAX));
    } else {
        SET(client, CURLOPT_TIMEOUT_MS, (long)ANSWER_MS_MAX);
    }
    SET(client, CURLOPT_ERRORBUFFER, client->error);
    SET(client, CURLOPT_WRITEFUNCTION, take_bytes);
    SET(client, CURLOPT_WRITEDATA, client);
    if (call->body.at != NULL) {
        SET(client, CURLOPT_POST, 1L);
        SET(client, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
        SET(client, CURLOPT_POSTFIELDS, call->body.at);
    }
    SET(client, CURLOPT_CUSTOMREQUEST, call->method);
}

/* Our own reasons take precedence: libcurl's text for an aborted write does not help. */
static int client_explain(const struct client *client, CURLcode code, const char *base,
                          struct err *err)
{
    const char *why = client->error[0] != '\0' ? client->error : curl_easy_strerror(code);

    must(code != CURLE_OK);
    if (client->too_large)
        return err_set(err, ERR_TOO_LARGE, "the answer of %.200s is larger than %d MiB", base,
                       ANSWER_BYTES_MAX / 1048576);
    if (code == CURLE_WRITE_ERROR)
        return err_set(err, ERR_IO, "cannot write the file: %m");
    if (code == CURLE_OPERATION_TIMEDOUT)
        return err_set(err, ERR_TIMEOUT, "%.200s did not answer in time (%.120s)", base, why);
    const bool relative = socket_of(base) != NULL && socket_of(base)[0] != '/';
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL || relative)
        return err_set(err, ERR_INVALID,
                       "%.200s is not an address: write HOST:PORT, http://HOST:PORT or unix:/PATH",
                       base);
    return err_set(err, ERR_UNAVAILABLE,
                   "cannot reach milligpud at %.200s (%.120s): is it running there?", base, why);
}

/*
 * Returns 0 for an answer of any status. Always sends Content-Type, because listeners refuse bodies
 * of another type; without a body it has no effect.
 */
static int client_perform(struct client *client, const struct client_request *call,
                          long *out_status, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf url;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");

    must(headers != NULL);
    headers = curl_slist_append(headers, "Expect:"); /* sends the body without waiting for 100 */
    must(headers != NULL);
    strbuf_init(&url);
    make_url(&url, call);
    client_prepare(client, url.data, call);
    SET(client, CURLOPT_HTTPHEADER, headers);
    const CURLcode code = curl_easy_perform(client->curl);
    const int status = code == CURLE_OK ? 0 : client_explain(client, code, call->base, err);
    *out_status = 0;
    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, out_status); /* 0 if unknown */
    curl_slist_free_all(headers);
    return status;
}

static enum err_code client_code_of(long status)
{
    must(status >= 0);
    switch (status) {
    case 400:
        return ERR_INVALID;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_CONFLICT;
    case 503:
        return ERR_UNAVAILABLE;
    default:
        return ERR_INTERNAL;
    }
}

/*
 * `detail` is a sentence for people (RFC 9457). An answer without it is not from milligpud's REST,
 * so the address is probably wrong.
 */
int client_problem(long status, struct text body, struct err *err)
{
    struct arena arena;
    struct document *problem = NULL;
    struct err ignored;

    arena_init(&arena);
    const bool json = document_parse_json(body, "problem", &arena, &problem, &ignored) == 0;
    const char *detail = json ? document_shown(problem, "detail") : "";
    if (detail[0] == '\0' && json)
        detail = document_shown(problem, "title");
    const int found = detail[0] != '\0'
                          ? err_set(err, client_code_of(status), "%.450s", detail)
                          : err_set(err, client_code_of(status),
                                    "the answer was HTTP status %ld without a reason: is this the "
                                    "right listener?",
                                    status);
    must(found < 0);
    arena_done(&arena);
    return found;
}

int client_call(struct client *client, const struct client_request *call, struct arena *arena,
                struct document **out, struct err *err)
{
    long status;

    must(client->file == NULL);
    if (client_perform(client, call, &status, err) < 0)
        return err_same(err);
    const struct text body = {client->body.data, client->body.len};
    if (!is_good(status))
        return client_problem(status, body, err);
    if (document_parse_json(body, "answer", arena, out, err) < 0)
        return err_wrap(err, "%.200s%.200s", call->base, call->path);
    return 0;
}

/* --- lists --- */

/*
 * Moves the page's items to the list. Other members are about the whole list; those of the last
 * page are kept.
 */
static void take_page(const struct document *page, struct arena *arena, struct document *list)
{
    const struct document *found = document_get(page, "items");
    struct document *items = document_get(list, "items");

    must(items->kind == DOCUMENT_ARRAY);
    /* The page's own array is not used again, so its items can get another parent. */
    for (struct document *item = found->first, *next; item != NULL; item = next) {
        next = item->next;
        item->next = NULL;
        document_append(items, item);
    }
    document_each (member, page)
        if (!text_is(member->key, "items") && !text_is(member->key, "continue"))
            document_set(arena, list, member->key, document_copy(arena, member));
}

/*
 * next: the `continue` of the previous page; "" for the first one. path can have a query.
 * limit=1000, the server's maximum, minimizes round trips.
 */
static int get_page(struct client *client, const struct client_request *list, const char *next,
                    struct arena *arena, struct document **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf target;
    struct client_request call = *list;

    must(list->path[0] == '/');
    strbuf_init(&target);
    strbuf_str(&target, list->path);
    url_query(&target, "limit", "1000");
    url_query(&target, "continue", next[0] != '\0' ? next : NULL);
    call.path = target.data;
    if (client_call(client, &call, arena, out, err) < 0)
        return err_same(err);
    const struct document *items = document_get(*out, "items");
    if (items == NULL || items->kind != DOCUMENT_ARRAY)
        return err_set(err, ERR_INTERNAL, "the answer to %.200s is not a list: is this milligpud?",
                       list->path);
    return 0;
}

int client_list(struct client *client, const char *base, const char *path, struct arena *arena,
                struct document **out, struct err *err)
{
    const struct client_request call = {.base = base, .method = "GET", .path = path};
    struct document *list = document_new(arena, DOCUMENT_OBJECT);
    const char *next = "";

    document_set(arena, list, TEXT("items"), document_new(arena, DOCUMENT_ARRAY));
    for (int page = 0; page < PAGES_MAX; page++) {
        struct document *answer = NULL;
        if (get_page(client, &call, next, arena, &answer, err) < 0)
            return err_same(err);
        next = document_str(answer, "continue");
        take_page(answer, arena, list);
        if (next[0] == '\0') {
            *out = list;
            return 0;
        }
    }
    return err_set(err, ERR_TOO_LARGE, "%.200s has more than %d pages", path, PAGES_MAX);
}

int client_each(struct client *client, const char *base, const struct client_each *list,
                struct err *err)
{
    const struct client_request call = {.base = base, .method = "GET", .path = list->path};
    CLEANUP(strbuf_done) struct strbuf next; /* outlives its page */
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    strbuf_init(&next);
    for (int page = 0; page < PAGES_MAX; page++) {
        struct document *answer = NULL;
        arena_reset(&arena);
        if (get_page(client, &call, next.data, &arena, &answer, err) < 0)
            return err_same(err);
        document_each (item, document_get(answer, "items"))
            if (list->each(list->user, item, err) < 0)
                return err_same(err);
        strbuf_reset(&next);
        strbuf_str(&next, document_str(answer, "continue"));
        if (next.len == 0)
            return 0;
    }
    return err_set(err, ERR_TOO_LARGE, "%.200s has more than %d pages", list->path, PAGES_MAX);
}

/* After a failure, file has a part of the answer or nothing; the caller removes it. */
int client_download(struct client *client, const char *base, const char *path, FILE *file,
                    struct err *err)
{
    const struct client_request call = {.base = base, .method = "GET", .path = path};
    long status = 0;

    must(client->file == NULL);
    client->file = file;
    int result = client_perform(client, &call, &status, err);
    client->file = NULL;
    if (result == 0 && !is_good(status))
        result = client_problem(status, (struct text){client->body.data, client->body.len}, err);
    return result;
}

/* --- a stream of events --- */

struct client_stream {
    CURL *curl;
    CURLM *multi;
    bool line_begins; /* the next byte is the first of its line */
    bool news;
};

/* Counts an event by its line "event:"; ignores its other lines, comments and blank lines. */
/* NOLINTNEXTLINE(readability-non-const-parameter): curl gives the form */
static size_t stream_bytes(char *bytes, size_t size, size_t count, void *user)
{
    struct client_stream *stream = user;
    long status = 0;

    must(size == 1);
    (void)curl_easy_getinfo(stream->curl, CURLINFO_RESPONSE_CODE, &status);
    for (size_t i = 0; i < count; i++) {
        stream->news = stream->news || (stream->line_begins && bytes[i] == 'e' && is_good(status));
        stream->line_begins = bytes[i] == '\n';
    }
    return count;
}

struct client_stream *client_stream_new(const struct client_request *call)
{
    CLEANUP(strbuf_done) struct strbuf url;
    struct client_stream *stream = xcalloc(1, sizeof *stream);

    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    stream->curl = curl_easy_init();
    stream->multi = curl_multi_init();
    must(stream->curl != NULL && stream->multi != NULL);
    stream->line_begins = true;
    strbuf_init(&url);
    make_url(&url, call);
    SET(stream, CURLOPT_URL, url.data);
    SET(stream, CURLOPT_UNIX_SOCKET_PATH, socket_of(call->base));
    SET(stream, CURLOPT_PROXY, "");
    SET(stream, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(stream, CURLOPT_USERAGENT, "milligpuctl");
    SET(stream, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS_MAX);
    /* The server sends a comment every 15 s, so silence means a dead peer. */
    SET(stream, CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(stream, CURLOPT_LOW_SPEED_TIME, (long)(2 * SILENCE_S_MAX));
    SET(stream, CURLOPT_WRITEFUNCTION, stream_bytes);
    SET(stream, CURLOPT_WRITEDATA, stream);
    must(curl_multi_add_handle(stream->multi, stream->curl) == CURLM_OK);
    return stream;
}

void client_stream_free(struct client_stream *stream)
{
    if (stream == NULL)
        return;
    must(curl_multi_remove_handle(stream->multi, stream->curl) == CURLM_OK);
    must(curl_multi_cleanup(stream->multi) == CURLM_OK);
    curl_easy_cleanup(stream->curl);
    curl_global_cleanup();
    xfree(stream);
}

enum client_news client_stream_wait(struct client_stream *stream, int wait_ms, long *out_status)
{
    const int64_t until = clock_ns() + (int64_t)wait_ms * 1000000;
    int running = 0;

    must(wait_ms > 0);
    for (;;) {
        const bool fine = curl_multi_perform(stream->multi, &running) == CURLM_OK;
        *out_status = 0;
        (void)curl_easy_getinfo(stream->curl, CURLINFO_RESPONSE_CODE, out_status);
        if (!fine || running == 0)
            return CLIENT_OVER;
        if (stream->news) {
            stream->news = false;
            return CLIENT_NEWS;
        }
        const int64_t left_ms = (until - clock_ns()) / 1000000;
        if (left_ms <= 0)
            return CLIENT_QUIET;
        (void)curl_multi_poll(stream->multi, NULL, 0, (int)left_ms, NULL);
    }
}
