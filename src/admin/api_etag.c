/*
 * ETags, with which a client avoids fetching an answer again. Called in an admin thread: api_tag()
 * by handlers, the rest by the router.
 *
 * A tag consists of the number of this start, the generation of the snapshot, a hash of the
 * question, and content that is not from the snapshot (more). Each published snapshot is immutable
 * and has its own generation, so within one start equal tags mean equal bytes: the tag is a strong
 * one. The ledger can be another after a restart, hence the random number of the start. Lists from
 * other sources (history, waiting pods, settings, doctor) have no tag.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/http/http.h"

#include "api_internal.h"

/* The hash of route, path and parameters: the tag of one list must not match another list. */
static uint32_t etag_asked(const struct api_call *call)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    strbuf_str(&text, call->route->name);
    for (size_t i = 0; i < API_PLACES_MAX; i++)
        strbuf_printf(&text, "/%s", call->segment[i] != NULL ? call->segment[i] : "");
    for (int i = 0; i < PARAMETERS; i++)
        if (call->value[i] != NULL)
            strbuf_printf(&text, "&%d=%s", i, call->value[i]);
    must(text.len > 0);
    return text_hash((struct text){text.data, text.len});
}

/*
 * True if the tag is in the list of If-None-Match. RFC 9110 requires weak comparison, so the prefix
 * W/ is ignored. An invalid list ends at its first error, and the answer is then sent in full.
 */
static bool api_etag_listed(const char *list, const char *tag)
{
    const size_t len = strlen(tag);

    must(len > 2 && tag[0] == '"');
    for (;;) {
        list += strspn(list, " \t,");
        if (*list == '*')
            return true;
        if (strncmp(list, "W/", 2) == 0)
            list += 2;
        const char *end = *list == '"' ? strchr(list + 1, '"') : NULL;
        if (end == NULL)
            return false;
        if ((size_t)(end + 1 - list) == len && memcmp(list, tag, len) == 0)
            return true;
        list = end + 1;
    }
}

void api_tag(struct api_call *call, uint64_t generation, const char *more)
{
    must(api_answer(call->route, 304) != NULL); /* documented in routes.def */
    must(call->status == 200 && call->etag == NULL);
    call->etag = arena_printf(&call->arena, "\"%016llx-%llx-%x%s\"",
                              (unsigned long long)call->app->instance.start_id,
                              (unsigned long long)generation, (unsigned)etag_asked(call), more);
}

/*
 * The body is made also for 304: that answer must have the Content-Length of the 200, and
 * libmicrohttpd always sends one. An ETag saves transfer and parsing.
 */
void api_etag_answer(struct api_call *call)
{
    const bool tagged = call->etag != NULL && call->status == 200;
    const char *known = tagged ? http_header(call->http, "If-None-Match") : NULL;

    must(call->status >= 200);
    /* Clients must revalidate every answer, since the state possibly changed. */
    http_set_header(call->http, "Cache-Control", tagged ? "no-cache" : "no-store");
    if (!tagged)
        return;
    http_set_header(call->http, "ETag", call->etag);
    if (known == NULL || !api_etag_listed(known, call->etag))
        return;
    call->status = 304;
    call->type = NULL;
}
