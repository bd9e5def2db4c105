/*
 * A growable string buffer. Data is always terminated and never NULL: an empty buffer without
 * memory points to a shared terminator, which is never freed.
 */
#include "milligpu/base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

/* The data of empty buffers; shared by all threads, never written. */
static char nothing[1];

void strbuf_init(struct strbuf *buf)
{
    *buf = (struct strbuf){.data = nothing};
}

void strbuf_done(struct strbuf *buf)
{
    must(buf->data != NULL && (buf->data == nothing) == (buf->capacity == 0));
    if (buf->data != nothing)
        xfree(buf->data);
    strbuf_init(buf);
}

void strbuf_reset(struct strbuf *buf)
{
    must(buf->data != NULL);

    buf->len = 0;
    if (buf->capacity > 0)
        buf->data[0] = '\0';
}

char *strbuf_steal(struct strbuf *buf)
{
    must(buf->data != NULL && buf->data[buf->len] == '\0');
    char *data = buf->capacity > 0 ? buf->data : xstrdup("");
    strbuf_init(buf);
    return data;
}

void strbuf_reserve(struct strbuf *buf, size_t capacity)
{
    must(capacity > buf->len && capacity < SIZE_MAX / 8);

    if (capacity <= buf->capacity)
        return;
    buf->data = xrealloc(buf->capacity > 0 ? buf->data : NULL, capacity, 1);
    buf->capacity = capacity;
    buf->data[buf->len] = '\0';
}

static void strbuf_grow(struct strbuf *buf, size_t more)
{
    must(more < SIZE_MAX / 8);
    must(buf->len < SIZE_MAX / 8);
    must(buf->capacity == 0 || buf->len < buf->capacity);

    const size_t need = buf->len + more + 1;
    const size_t capacity = buf->capacity > 0 ? buf->capacity * 2 : 64;
    strbuf_reserve(buf, capacity < need ? need : capacity);
}

/* Reserves room for more bytes and the terminator. Inline, because most appends are short. */
static inline void strbuf_make_room(struct strbuf *buf, size_t more)
{
    must(buf->len <= buf->capacity);
    if (more >= buf->capacity - buf->len)
        strbuf_grow(buf, more);
}

char *strbuf_room(struct strbuf *buf, size_t len)
{
    strbuf_make_room(buf, len);
    char *room = buf->data + buf->len;
    buf->len += len;
    buf->data[buf->len] = '\0';
    must(buf->len < buf->capacity);
    return room;
}

/* bytes must not point into buf: growing may move it. */
void strbuf_add(struct strbuf *buf, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    must(bytes != NULL);
    memcpy(strbuf_room(buf, len), bytes, len);
}

void strbuf_char(struct strbuf *buf, char c)
{
    strbuf_make_room(buf, 1);
    buf->data[buf->len++] = c;
    buf->data[buf->len] = '\0';
}

void strbuf_str(struct strbuf *buf, const char *text)
{
    must(text != NULL);
    strbuf_add(buf, text, strlen(text));
}

void strbuf_text(struct strbuf *buf, struct text text)
{
    strbuf_add(buf, text.at, text.len);
}

void strbuf_u64(struct strbuf *buf, uint64_t number)
{
    /* the length of the largest number */
    char digits[20];
    size_t at = sizeof digits;
    do {
        must(at > 0);
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    strbuf_add(buf, digits + at, sizeof digits - at);
}

void strbuf_printf(struct strbuf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    must(len >= 0);

    strbuf_make_room(buf, (size_t)len);
    va_start(args, fmt);
    const int written = vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, args);
    va_end(args);
    must(written == len);
    buf->len += (size_t)len;
}

void strbuf_cut(struct strbuf *buf, size_t from, size_t bytes)
{
    must(from <= buf->len);
    must(bytes <= buf->len - from);

    if (bytes == 0)
        return;
    memmove(buf->data + from, buf->data + from + bytes, buf->len - from - bytes);
    buf->len -= bytes;
    buf->data[buf->len] = '\0';
}

/*
 * As text_show(), with JSON's short escapes for further characters. Returns the number of bytes of
 * text consumed.
 */
static size_t strbuf_escape(struct strbuf *buf, struct text text, size_t at)
{
    static const char named[] = "\\\\\bb\ff"; /* the character, then its letter */
    char shown[TEXT_SHOWN_MAX];

    must(at < text.len);
    for (size_t i = 0; i + 1 < sizeof named; i += 2)
        if (named[i] == text.at[at]) {
            strbuf_add(buf, (char[]){'\\', named[i + 1]}, 2);
            return 1;
        }
    const size_t bytes = text_show(text, at, shown);
    strbuf_str(buf, shown);
    return bytes;
}

/*
 * Must the character be escaped? Odd characters must: a terminal that shows our JSON must not
 * interpret them.
 */
static bool is_escaped(struct text text, size_t at, size_t bytes)
{
    const unsigned char c = (unsigned char)text.at[at];

    return c < 0x20 || c == '\\' || (c >= 0x7f && text_odd(text, at, bytes) >= 0);
}

void strbuf_json(struct strbuf *buf, struct text text)
{
    must(text.at != NULL || text.len == 0);

    strbuf_char(buf, '"');
    size_t plain = 0; /* start of the current run of unescaped bytes */
    size_t at = 0;
    while (at < text.len) {
        const char c = text.at[at];
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\') { /* as nearly all are */
            at++;
            continue;
        }
        if (c == '"') { /* as in each annotation that is JSON: the quote begins the next run */
            strbuf_add(buf, text.at + plain, at - plain);
            strbuf_char(buf, '\\');
            plain = at++;
            continue;
        }
        const size_t bytes = text_sequence(text, at);
        if (bytes > 0 && !is_escaped(text, at, bytes)) {
            at += bytes;
            continue;
        }
        strbuf_add(buf, text.at + plain, at - plain);
        at += strbuf_escape(buf, text, at);
        plain = at;
    }
    strbuf_add(buf, text.at + plain, at - plain);
    strbuf_char(buf, '"');
}

void strbuf_shown(struct strbuf *buf, struct text text)
{
    char shown[TEXT_SHOWN_MAX];

    must(text.at != NULL || text.len == 0);
    for (size_t at = 0; at < text.len;) {
        at += text_show(text, at, shown);
        strbuf_str(buf, shown);
    }
}
