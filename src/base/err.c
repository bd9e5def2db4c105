/*
 * Formats error texts and maps codes to HTTP statuses. Called everywhere, from any thread; never
 * allocates.
 */
#include "milligpu/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/text.h"

/* Longer than any text, so that a truncation is detected. */
enum { ROOM = 2 * ERR_TEXT_MAX };

/*
 * Returns the length of the text in out. A longer text is truncated, and marked later by
 * text_clip().
 */
__attribute__((format(printf, 2, 0))) static size_t format(char *out, const char *fmt, va_list args)
{
    const int need = vsnprintf(out, ROOM, fmt, args);
    must(need >= 0);
    return need < ROOM ? (size_t)need : ROOM - 1;
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    must(code > ERR_NONE && code < ERR_CODES);

    char text[ROOM];
    va_list args;
    va_start(args, fmt);
    const size_t len = format(text, fmt, args);
    va_end(args);
    text_clip((struct text){text, len}, err->text, sizeof err->text);
    err->code = code;
    return -(int)code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    must(err->code > ERR_NONE && err->code < ERR_CODES);

    char text[ROOM + 2 + ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    const size_t noun = format(text, fmt, args);
    va_end(args);

    /* Built in a separate buffer: err->text is both source and destination. */
    const size_t old = strlen(err->text);
    memcpy(text + noun, ": ", 2);
    memcpy(text + noun + 2, err->text, old);
    text_clip((struct text){text, noun + 2 + old}, err->text, sizeof err->text);
    return -(int)err->code;
}

int err_status(enum err_code code)
{
    static const int row[] = {[ERR_NONE] = 200,
#define X(name, http) [name] = (http),
                              ERR_TABLE(X)
#undef X
    };
    static_assert(ARRAY_LEN(row) == ERR_CODES, "a code without a row");

    must((unsigned)code < ERR_CODES);
    return row[code];
}
