/*
 * Checks the headers of a request: its sender, and whether two readers could interpret the same
 * bytes differently (request smuggling). Called by http_call.c in the connection's thread.
 *
 * libmicrohttpd 0.9.75 in its strictest mode requires a Host and a path without spaces. But it
 * takes a space before the colon as a part of the name, uses the first of two equal headers,
 * accepts any Transfer-Encoding, appends the continuation of a folded line to the *name*, and
 * ignores an unknown expectation. These are checked here, before a byte of the body is read; a
 * request that is refused by its headers is the last one of its connection.
 * docs/why/013-what-the-listeners-refuse.md lists cases that the library does not show us.
 */
#include <stdio.h>
#include <string.h>

#include "http_internal.h"

enum header_verdict { HOST, LENGTH, ENCODING, EXPECT, ORIGIN, TYPE, JUDGED };

static const char *const checked_names[JUDGED] = {"Host",   "Content-Length", "Transfer-Encoding",
                                                  "Expect", "Origin",         "Content-Type"};

struct headers {
    size_t count[JUDGED];
    const char *value[JUDGED]; /* first value of each; NULL if absent */
    bool expects_more;         /* an expectation other than 100-continue */
    const char *broken;        /* problem of a header; NULL if none */
};

static bool headers_refuse(struct http_call *call, int status, const char *why)
{
    must(status >= 400 && why != NULL);
    call->refuse = status;
    call->refuse_why = why;
    return false;
}

/* --- reading the headers --- */

/* RFC 9110: a name contains no space and no control character. */
static bool is_token(const char *name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    if (*name == '\0')
        return false;
    for (; *name != '\0'; name++) {
        const bool letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z');
        if (!letter && !(*name >= '0' && *name <= '9') && strchr(others, *name) == NULL)
            return false;
    }
    return true;
}

static bool headers_is_printable(const char *value)
{
    for (; *value != '\0'; value++) {
        const unsigned char byte = (unsigned char)*value;
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return false;
    }
    return true;
}

/* Detects a folded line by its name, such as "Content-Length45" (see above). */
static bool is_folded(const char *name)
{
    static const char *const framing[] = {"Content-Length", "Transfer-Encoding"};

    for (size_t i = 0; i < ARRAY_LEN(framing); i++) {
        const size_t len = strlen(framing[i]);
        must(len > 0);
        if (strncasecmp(name, framing[i], len) == 0 && name[len] != '\0')
            return true;
    }
    return false;
}

/* Called for each header line. Only the last problem is kept: one is enough to refuse. */
static enum MHD_Result read_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct headers *headers = cls;

    must(kind == MHD_HEADER_KIND && name != NULL);
    if (value == NULL)
        value = "";
    if (!is_token(name))
        headers->broken =
            "the name of a header is not a token: there must be no blank before the colon, "
            "and no header goes on in the next line";
    else if (is_folded(name))
        headers->broken = "a header that says where the body ends goes on in the next line";
    else if (!headers_is_printable(value))
        headers->broken = "a control character in a header";
    for (size_t i = 0; i < JUDGED; i++) {
        if (strcasecmp(name, checked_names[i]) != 0)
            continue;
        if (headers->count[i]++ == 0)
            headers->value[i] = value;
        if (i == EXPECT && strcasecmp(value, "100-continue") != 0)
            headers->expects_more = true;
    }
    return MHD_YES;
}

/* --- where the body ends --- */

/* The end of the body must be unambiguous: the next request begins there. */
static bool check_framing(struct http_call *call, const struct headers *headers, bool old)
{
    const size_t *count = headers->count;

    must(call->refuse == 0);
    if (headers->broken != NULL)
        return headers_refuse(call, 400, headers->broken);
    if (count[HOST] > 1)
        return headers_refuse(call, 400, "more than one Host");
    if (count[LENGTH] > 1)
        return headers_refuse(call, 400, "more than one Content-Length");
    if (count[ENCODING] > 1)
        return headers_refuse(call, 400, "more than one Transfer-Encoding");
    if (count[LENGTH] > 0 && count[ENCODING] > 0)
        return headers_refuse(call, 400, "Content-Length beside Transfer-Encoding");
    if (count[ENCODING] > 0 && old)
        return headers_refuse(call, 400, "Transfer-Encoding in HTTP/1.0, which has none");
    if (count[ENCODING] > 0 && strcasecmp(headers->value[ENCODING], "chunked") != 0)
        return headers_refuse(call, 501, "the only Transfer-Encoding here is chunked");
    if (headers->expects_more)
        return headers_refuse(call, 417, "the only expectation that is met here is 100-continue");
    return true;
}

/* --- who sends it --- */

static bool all_digits(struct text text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    return text.len > 0;
}

/* Returns Host without its port; empty if invalid. */
static struct text name_of(const char *host)
{
    const char *bracket = strchr(host, ']');
    const char *colon = strchr(bracket != NULL ? bracket : host, ':');

    must(host != NULL);
    if (colon != NULL && !all_digits(text_of(colon + 1)))
        return TEXT("");
    return (struct text){host, colon != NULL ? (size_t)(colon - host) : strlen(host)};
}

/* The parser requires a port, so one (0) is added. */
static bool headers_is_loopback(struct text name)
{
    char address[80];

    must(name.len == 0 || name.at != NULL);
    if (name.len == strlen("localhost") && strncasecmp(name.at, "localhost", name.len) == 0)
        return true;
    if (name.len == 0 || name.len > 60)
        return false;
    (void)snprintf(address, sizeof address, "%.*s:0", TEXT_ARG(name));
    return http_address_is_loopback(address);
}

/* True for a loopback name or a name of the list (comma-separated), with or without a port. */
static bool headers_is_known(const char *host, const char *more)
{
    const struct text name = name_of(host);
    struct text rest = text_of(more);
    struct text listed;

    if (headers_is_loopback(name))
        return true;
    must(rest.len == 0 || rest.at != NULL);
    while (name.len > 0 && text_cut(&rest, ',', &listed)) {
        listed = text_trim(listed);
        if (listed.len == name.len && strncasecmp(listed.at, name.at, name.len) == 0)
            return true;
    }
    return false;
}

/* Refuses browser pages, which send Origin, and foreign Host names (DNS rebinding to loopback). */
static bool check_sender(struct http_call *call, const struct headers *headers)
{
    const struct http_rules *rules = &call->http->rules;

    const char *nameless = names_refuse((const struct connection *)call);

    must(call->refuse == 0);
    if (nameless != NULL)
        return headers_refuse(call, 403, nameless);
    if (headers->count[ORIGIN] > 0)
        return headers_refuse(call, 403, "Origin: pages in browsers are not served");
    if (rules->known_hosts_only && headers->count[HOST] > 0 &&
        !headers_is_known(headers->value[HOST], rules->hosts))
        return headers_refuse(
            call, 403,
            "the Host header is not a loopback name of this machine: use localhost or "
            "127.0.0.1, or add it to webhook_hosts or admin_hosts");
    return true;
}

/* --- the body --- */

/* Accepts parameters: "application/json; charset=utf-8". */
static bool is_json(const char *type)
{
    static const char json[] = "application/json";

    if (type == NULL || strncasecmp(type, json, sizeof json - 1) != 0)
        return false;
    type += sizeof json - 1;
    type += strspn(type, " \t");
    return *type == '\0' || *type == ';';
}

/* Runs before libmicrohttpd sends 100 Continue, so a client that expects it sends no body. */
static bool check_body(struct http_call *call, const struct headers *headers)
{
    const struct http_rules *rules = &call->http->rules;
    const char *length = headers->value[LENGTH];
    /* libmicrohttpd has refused other texts than numbers; an overflow is too large, too. */
    const unsigned long long bytes = length != NULL ? strtoull(length, NULL, 10) : 0;

    must(call->refuse == 0);
    call->body_bytes = length != NULL ? (size_t)bytes : rules->body_bytes_max;
    if (headers->count[ENCODING] == 0 && bytes == 0)
        return true;
    if (rules->takes_body == NULL || !rules->takes_body(rules->user, call->method, call->path)) {
        call->unread = true;
        return true;
    }
    if (bytes > rules->body_bytes_max)
        return headers_refuse(call, 413, body_too_large);
    if (headers->count[TYPE] != 1 || !is_json(headers->value[TYPE]))
        return headers_refuse(call, 415, "the Content-Type of a body is application/json");
    if (!body_has_room(call, (size_t)bytes))
        return headers_refuse(call, 503, body_no_room);
    return true;
}

/* Checks the framing, then the sender, then the body. */
bool check_headers(struct http_call *call, const char *version)
{
    const bool old = strcmp(version, "HTTP/1.0") == 0;
    struct headers headers = {0};

    must(call->method != NULL && call->path != NULL);
    if (call->refuse != 0)
        return false; /* refused by its path */
    if (!old && strcmp(version, "HTTP/1.1") != 0)
        return headers_refuse(call, 505, "this server speaks HTTP/1.1");
    (void)MHD_get_connection_values(call->peer, MHD_HEADER_KIND, read_header, &headers);
    return check_framing(call, &headers, old) && check_sender(call, &headers) &&
           check_body(call, &headers);
}
