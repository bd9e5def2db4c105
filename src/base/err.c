#include "milligpu/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct err_row {
    const char *word;
    int status;
    bool again;
};

static const struct err_row *row_of(enum err_code code)
{
    static const struct err_row row[] = {[ERR_NONE] = {"ok", 200, false},
#define X(name, text, http, may) [name] = {text, http, may},
                                         ERR_TABLE(X)
#undef X
    };
    static_assert(ARRAY_LEN(row) == ERR_CODES, "a code without a row");

    must((unsigned)code < ERR_CODES);
    return &row[code];
}

/* A text that was cut says so, and is not cut inside a UTF-8 sequence. */
static void mark_cut(char *text, size_t bytes)
{
    static const char mark[] = "...";
    must(bytes > sizeof mark);

    size_t at = bytes - sizeof mark;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
        at--;
    memcpy(text + at, mark, sizeof mark);
}

__attribute__((format(printf, 3, 0))) static void format_into(char *out, size_t bytes,
                                                              const char *fmt, va_list args)
{
    const int need = vsnprintf(out, bytes, fmt, args);
    must(need >= 0);
    if ((size_t)need >= bytes)
        mark_cut(out, bytes);
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    must(err != NULL);
    must(code > ERR_NONE && code < ERR_CODES);

    va_list args;
    va_start(args, fmt);
    format_into(err->text, sizeof err->text, fmt, args);
    va_end(args);
    err->code = code;
    return -(int)code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    must(err != NULL);
    must(err->code > ERR_NONE && err->code < ERR_CODES);

    char text[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    format_into(text, sizeof text, fmt, args);
    va_end(args);

    const size_t noun = strlen(text);
    must(noun < sizeof text);
    const size_t old = strlen(err->text);
    const size_t room = sizeof text - noun - 1;
    const size_t colon = room < 2 ? room : 2;
    memcpy(text + noun, ": ", colon);
    const size_t kept = old < room - colon ? old : room - colon;
    memcpy(text + noun + colon, err->text, kept);
    text[noun + colon + kept] = '\0';
    if (kept < old)
        mark_cut(text, sizeof text);

    memcpy(err->text, text, sizeof text);
    return -(int)err->code;
}

const char *err_name(enum err_code code)
{
    return row_of(code)->word;
}

int err_status(enum err_code code)
{
    return row_of(code)->status;
}

bool err_retry(enum err_code code)
{
    return row_of(code)->again;
}
