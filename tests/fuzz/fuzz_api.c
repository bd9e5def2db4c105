/*
 * Any call on the admin port is answered once: with what routes.def promises, or with a problem
 * that contains its status. A "continue" token that was handed out is accepted, and the ledger
 * survives.
 *
 * Input: "METHOD path?query", a newline, the Content-Type or nothing, a newline, the body.
 */
#include <string.h>

#include "support_app.h"

static char *word(struct arena *arena, struct text text)
{
    return arena_copy(arena, text);
}

static void check_problem(const struct http_call *call)
{
    const struct second second = second_read((struct text){call->answer.data, call->answer.len});
    must(strcmp(call->type, "application/problem+json") == 0);
    must(json_integer_value(json_object_get(second.value, "status")) == call->status);
    must(json_string_length(json_object_get(second.value, "title")) > 0);
    must(json_string_length(json_object_get(second.value, "detail")) > 0);
    json_decref(second.value);
}

static void serve(struct fuzz_app *fuzz, struct http_call *call)
{
    api_handle(&fuzz->app, call);
    must(call->status >= 200 && call->status < 600);
}

/* Ask for the next page, which must be a different one. */
static void go_on(struct fuzz_app *fuzz, const struct http_call *first, const char *token)
{
    struct http_call call;
    SCOPED_STRBUF(query);
    strbuf_printf(&query, "%s&continue=", first->query);
    for (; *token != '\0'; token++)
        strbuf_printf(&query, "%%%02X", (unsigned)(unsigned char)*token);
    if (strstr(first->query, "continue") == NULL && strchr(first->query, '%') == NULL) {
        http_call_init(&call, first->path);
        call.method = first->method;
        call.query = query.data;
        serve(fuzz, &call);
        must(call.status == 200);
        must(strcmp(call.answer.data, first->answer.data) != 0);
        http_call_done(&call);
    }
}

static void check_json(struct fuzz_app *fuzz, const struct http_call *call)
{
    const struct second second = second_read((struct text){call->answer.data, call->answer.len});
    must(!second.refused && json_is_object(second.value));
    json_t *token = json_object_get(second.value, "continue");
    json_t *items = json_object_get(second.value, "items");
    must(json_array_size(items) <= 1000);
    if (json_string_length(token) > 0)
        go_on(fuzz, call, json_string_value(token));
    json_decref(second.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    SCOPED_ARENA(arena);
    struct http_call call;
    struct text line = pieces_until(&pieces, '\n');
    const struct text type = pieces_until(&pieces, '\n');
    struct text method = TEXT("");
    struct text path = TEXT("");
    (void)text_cut(&line, ' ', &method);
    (void)text_cut(&line, '?', &path);
    const char *full = arena_printf(&arena, "/%.*s", TEXT_ARG(path));
    http_call_init(&call, full + (full[1] == '/'));
    call.method = word(&arena, method);
    call.body = pieces_rest(&pieces);
    call.query = line.at != NULL ? word(&arena, line) : "";
    call.content_type = type.len > 0 ? word(&arena, type) : NULL;
    const bool writes = strcmp(call.method, "POST") == 0 || strcmp(call.method, "DELETE") == 0;
    /* A backup writes a file, so the e2e tests cover it. */
    if (strstr(call.path, "backup") == NULL) {
        struct fuzz_app *fuzz = fuzz_app_take();
        serve(fuzz, &call);
        if (call.status >= 400 && strcmp(call.path, "/readyz") != 0)
            check_problem(&call);
        else if (strcmp(call.type, "application/json") == 0)
            check_json(fuzz, &call);
        if (writes && call.status < 300) {
            fuzz_app_run(fuzz);
            fuzz_app_close(fuzz);
            fuzz_app_spoil();
        }
    }
    http_call_done(&call);
    return 0;
}
