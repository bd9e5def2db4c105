#include <string.h>

#include "web/web_inside.h"

/*
 * Whether two readers could see different requests in the same bytes.
 *
 * libmicrohttpd 0.9.75, at its strictest, wants a Host and a path without blanks.  It takes a blank
 * before the colon for a part of the name, the first of two headers, and any Transfer-Encoding; of
 * a line that is folded it hangs the rest onto the *name*, and an unknown expectation it passes
 * over.  All of that is judged here, before a byte of the body is read, and a request that is
 * refused at its headers is the last one of its connection.  The library does not show us lines
 * that end without a CR (HTTP allows them), a header without a name, and what follows a NUL.
 */

enum judged { HOST, LENGTH, ENCODING, EXPECT, JUDGED };

static const char *const judged_names[JUDGED] = {"Host", "Content-Length", "Transfer-Encoding",
                                                 "Expect"};

struct headers {
    size_t count[JUDGED];
    const char *value[JUDGED]; /* the first; NULL: there is none */
    bool expects_more;         /* than 100-continue */
    const char *broken;        /* what is wrong with one of them; NULL: nothing */
};

static bool refuse(struct web_call *call, int status, const char *why)
{
    must(status >= 400 && why != NULL);
    call->refuse = status;
    call->refuse_why = why;
    return false;
}

/* --- what the headers say --- */

static bool is_token(const char *name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    must(name != NULL);
    if (*name == '\0')
        return false;
    for (; *name != '\0'; name++) {
        const bool letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z');
        if (!letter && !(*name >= '0' && *name <= '9') && strchr(others, *name) == NULL)
            return false;
    }
    return true;
}

static bool is_printable(const char *value)
{
    must(value != NULL);
    for (; *value != '\0'; value++) {
        const unsigned char byte = (unsigned char)*value;
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return false;
    }
    return true;
}

/* "Content-Length45": the length stood on a line of its own (above). */
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

static enum MHD_Result read_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct headers *headers = cls;

    must(kind == MHD_HEADER_KIND && name != NULL);
    if (value == NULL)
        value = "";
    if (!is_token(name))
        headers->broken = "the name of a header is no token: no blank stands before the colon, "
                          "and no header goes on in the next line";
    else if (is_folded(name))
        headers->broken = "a header that says where the body ends goes on in the next line";
    else if (!is_printable(value))
        headers->broken = "a control character in a header";
    for (size_t i = 0; i < JUDGED; i++) {
        if (strcasecmp(name, judged_names[i]) != 0)
            continue;
        if (headers->count[i]++ == 0)
            headers->value[i] = value;
        if (i == EXPECT && strcasecmp(value, "100-continue") != 0)
            headers->expects_more = true;
    }
    return MHD_YES;
}

/* --- where it ends --- */

static bool judge_framing(struct web_call *call, const struct headers *headers, bool old)
{
    const size_t *count = headers->count;

    must(call->refuse == 0);
    if (headers->broken != NULL)
        return refuse(call, 400, headers->broken);
    if (count[HOST] > 1)
        return refuse(call, 400, "more than one Host");
    if (count[LENGTH] > 1)
        return refuse(call, 400, "more than one Content-Length");
    if (count[ENCODING] > 1)
        return refuse(call, 400, "more than one Transfer-Encoding");
    if (count[LENGTH] > 0 && count[ENCODING] > 0)
        return refuse(call, 400, "Content-Length beside Transfer-Encoding");
    if (count[ENCODING] > 0 && old)
        return refuse(call, 400, "Transfer-Encoding in HTTP/1.0, which has none");
    if (count[ENCODING] > 0 && strcasecmp(headers->value[ENCODING], "chunked") != 0)
        return refuse(call, 501, "the only Transfer-Encoding here is chunked");
    if (headers->expects_more)
        return refuse(call, 417, "the only expectation that is met here is 100-continue");
    return true;
}

bool judge_headers(struct web_call *call, const char *version)
{
    const bool old = strcmp(version, "HTTP/1.0") == 0;
    struct headers headers = {0};

    must(call->method != NULL && call->path != NULL);
    if (call->refuse != 0)
        return false; /* by its path */
    if (!old && strcmp(version, "HTTP/1.1") != 0)
        return refuse(call, 505, "this server speaks HTTP/1.1");
    (void)MHD_get_connection_values(call->peer, MHD_HEADER_KIND, read_header, &headers);
    return judge_framing(call, &headers, old);
}
