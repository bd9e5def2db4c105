/*
 * ETags: whether a client has the answer already. Called in an admin thread: api_tag() by handlers,
 * the rest by the router.
 *
 * A tag is of this start of the daemon, of the snapshot's generation and of what was asked. Every
 * published snapshot has a generation of its own and never changes, so within one start equal tags
 * mean equal bytes, and the tag is a strong one. The ledger may be another after a restart, hence
 * the random number of the start. What an answer shows besides the snapshot goes into the tag, too
 * (more). A list from another source (history, waiting pods, settings, doctor) has no tag.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/http/http.h"

#include "api_internal.h"

/* Route, places and parameters: a tag of one list must not match another one. */
static uint32_t etag_asked(const struct api_call *call)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    strbuf_str(&text, call->route->name);
    for (size_t i = 0; i < API_PLACES_MAX; i++)
        strbuf_printf(&text, "/%s", call->place[i] != NULL ? call->place[i] : "");
    for (int i = 0; i < PARAMETERS; i++)
        if (call->value[i] != NULL)
            strbuf_printf(&text, "&%d=%s", i, call->value[i]);
    must(text.len > 0);
    return text_hash((struct text){text.data, text.len});
}

/*
 * Is the tag in the list of If-None-Match? RFC 9110 wants the weak comparison here, so the mark W/
 * of a tag is ignored. A list that cannot be read ends where it is wrong: then the answer is whole.
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
    must(api_answer(call->route, 304) != NULL); /* as it is documented */
    must(call->status == 200 && call->etag == NULL);
    call->etag = arena_printf(&call->arena, "\"%016llx-%llx-%x%s\"",
                              (unsigned long long)call->app->instance.start_id,
                              (unsigned long long)generation, (unsigned)etag_asked(call), more);
}

/*
 * The body is made all the same: a 304 may only show the Content-Length that a 200 would have, and
 * libmicrohttpd always shows one. What is saved is the way to the client, and its reading.
 */
void api_etag_answer(struct api_call *call)
{
    const bool tagged = call->etag != NULL && call->status == 200;
    const char *known = tagged ? http_header(call->http, "If-None-Match") : NULL;

    must(call->status >= 200);
    /* An old answer is never used again without asking: the truth may have changed. */
    http_set_header(call->http, "Cache-Control", tagged ? "no-cache" : "no-store");
    if (!tagged)
        return;
    http_set_header(call->http, "ETag", call->etag);
    if (known == NULL || !api_etag_listed(known, call->etag))
        return;
    call->status = 304;
    call->type = NULL;
}
