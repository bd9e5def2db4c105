/* Encodes RFC 9457 error bodies. Called by HTTP servers in their threads. */
#include "milligpu/base/problem.h"

/*
 * RFC 9457 recommends the status phrase as the title of about:blank; an unlisted status gets the
 * title of its class.
 */
static const char *problem_title(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {
        {400, "bad request"},
        {401, "unauthorized"},
        {403, "forbidden"},
        {404, "not found"},
        {405, "method not allowed"},
        {409, "conflict"},
        {410, "gone"},
        {413, "too large"},
        {415, "unsupported media type"},
        {429, "too many requests"},
        {500, "internal error"},
        {503, "unavailable"},
        {504, "timeout"},
        {507, "disk full"},
    };

    must(status >= 400 && status < 600);
    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        if (titles[i].status == status)
            return titles[i].title;
    return status < 500 ? "bad request" : "internal error";
}

void problem_encode(struct strbuf *out, int status, const char *title, const char *detail)
{
    if (title == NULL)
        title = problem_title(status);
    strbuf_str(out, "{\"type\":\"about:blank\",\"title\":");
    strbuf_json(out, text_of(title));
    strbuf_printf(out, ",\"status\":%d,\"detail\":", status);
    strbuf_json(out, text_of(detail));
    strbuf_char(out, '}');
}
