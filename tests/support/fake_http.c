#include "support/fake_http.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/arena.h"
#include "milligpu/wire/usage/usage_report.h"

void http_call_init(struct http_call *call, const char *path)
{
    *call = (struct http_call){
        .method = "POST", .path = path, .query = "", .content_type = "application/json"};
    strbuf_init(&call->answer);
}

void http_call_done(struct http_call *call)
{
    strbuf_done(&call->answer);
    if (call->streams)
        strbuf_done(&call->stream.text);
}

const char *http_method(const struct http_call *call)
{
    return call->method;
}

const char *http_path(const struct http_call *call)
{
    return call->path;
}

const char *http_header(struct http_call *call, const char *name)
{
    if (strcmp(name, USAGE_HEADER) == 0)
        return call->signature;
    return strcmp(name, "Content-Type") == 0 ? call->content_type : NULL;
}

struct text http_body(const struct http_call *call)
{
    return call->body;
}

bool http_over_socket(const struct http_call *call)
{
    must(call != NULL);
    return false;
}

bool http_body_unread(const struct http_call *call)
{
    return call->unread;
}

uint64_t http_id(const struct http_call *call)
{
    must(call->status == 0);
    return 1;
}

int64_t http_began_ns(const struct http_call *call)
{
    must(call->status == 0);
    return call->began_ns;
}

void http_set_header(struct http_call *call, const char *name, const char *value)
{
    must(call->status == 0 && name[0] != '\0' && value != NULL);
}

/* "%41+b" as a server decodes it; a NUL would end the value there. */
static const char *decoded(struct arena *arena, struct text raw)
{
    char *out = arena_alloc(arena, raw.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        unsigned byte = (unsigned char)raw.at[i];
        char hex[3] = "";
        if (byte == '%' && i + 2 < raw.len) {
            memcpy(hex, raw.at + i + 1, 2);
            char *end;
            byte = (unsigned)strtoul(hex, &end, 16);
            i += end == hex + 2 ? 2 : 0;
        }
        out[len++] = byte == '+' ? ' ' : (char)byte;
    }
    return out;
}

void http_query_each(struct http_call *call, void *user,
                     void (*name)(void *user, const char *name, const char *value))
{
    struct text rest = text_of(call->query);
    struct text pair;
    struct arena arena;
    arena_init(&arena);
    while (text_cut(&rest, '&', &pair)) {
        struct text key;
        if (pair.len > 0 && text_cut(&pair, '=', &key))
            name(user, decoded(&arena, key), decoded(&arena, pair));
    }
    arena_done(&arena);
}

/* Takes over the memory, like the real one. */
void http_answer(struct http_call *call, int status, const char *type, struct strbuf *take_body)
{
    must(call->status == 0 && status >= 200); /* exactly once */
    strbuf_done(&call->answer);
    call->answer = *take_body;
    strbuf_init(take_body);
    call->type = type;
    call->status = status;
    if (call->answered != NULL)
        call->answered(call);
}

struct http_stream *http_answer_stream(struct http_call *call, int status, const char *type)
{
    must(call->status == 0 && status >= 200); /* exactly once */
    strbuf_init(&call->stream.text);
    call->streams = true;
    call->type = type;
    call->status = status;
    return &call->stream;
}

void http_stream_put(struct http_stream *stream, struct text text)
{
    must(!atomic_load(&stream->ended));
    strbuf_text(&stream->text, text);
    atomic_fetch_add(&stream->puts, 1);
}

bool http_stream_waits(struct http_stream *stream, size_t *out_bytes)
{
    must(!atomic_load(&stream->ended));
    *out_bytes = atomic_load(&stream->lazy) ? stream->text.len : 0;
    return true;
}

void http_stream_end(struct http_stream *stream)
{
    must(!atomic_load(&stream->ended));
    atomic_store(&stream->ended, true);
}

void http_answer_file(struct http_call *call, int status, const char *type, int take_fd)
{
    struct strbuf body;
    char bytes[4096];
    ssize_t got;

    strbuf_init(&body);
    while ((got = read(take_fd, bytes, sizeof bytes)) > 0)
        strbuf_add(&body, bytes, (size_t)got);
    must(got == 0 && close(take_fd) == 0);
    http_answer(call, status, type, &body);
}
