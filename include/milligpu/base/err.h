/*
 * err - a runtime error (not a bug): something outside failed, or the input is wrong.
 *
 * It is on the caller's stack and never allocates. 0 is success, negative is failure; err is
 * written only on failure and is never NULL. Each layer adds the noun that its caller knows, once:
 * "bind default/web-0: ...".
 */
#ifndef MILLIGPU_ERR_H
#define MILLIGPU_ERR_H

#include "milligpu/base/base.h"

/* code, word in logs and answers, HTTP status on the admin port, whether a retry may help */
#define ERR_TABLE(X)                                                                               \
    X(ERR_INVALID, "invalid", 400, false) /* the input cannot be right */                          \
    X(ERR_UNAUTHORIZED, "unauthorized", 401, false)                                                \
    X(ERR_FORBIDDEN, "forbidden", 403, false)                                                      \
    X(ERR_NOT_FOUND, "not_found", 404, false)                                                      \
    X(ERR_CONFLICT, "conflict", 409, false)                                                        \
    X(ERR_GONE, "gone", 410, false)           /* the resourceVersion was compacted */              \
    X(ERR_TOO_LARGE, "too_large", 413, false) /* exceeds one of limits.h */                        \
    X(ERR_BUSY, "busy", 429, true)                                                                 \
    X(ERR_INTERNAL, "internal", 500, false)                                                        \
    X(ERR_UNAVAILABLE, "unavailable", 503, true) /* not ready, or no answer */                     \
    X(ERR_TIMEOUT, "timeout", 504, true)                                                           \
    X(ERR_IO, "io", 500, true)            /* a disk or network operation failed */                 \
    X(ERR_FULL, "full", 507, true)        /* disk full */                                          \
    X(ERR_CORRUPT, "corrupt", 500, false) /* the database contradicts itself */                    \
    X(ERR_FOREIGN, "foreign", 500, false) /* not a ledger, or the ledger of another cluster */     \
    X(ERR_NEWER, "newer", 500, false)     /* written by a newer milligpu */

enum err_code {
    ERR_NONE,
#define X(code, word, status, again) code,
    ERR_TABLE(X)
#undef X
        ERR_CODES
};

enum { ERR_TEXT_MAX = 512 };

struct err {
    enum err_code code;
    char text[ERR_TEXT_MAX];
};

/* Sets code and text; returns -code. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "fmt: " in front of the text; returns -code. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The return value of the call that set err. */
UNUSED static inline int err_same(const struct err *err)
{
    must(err->code != ERR_NONE);
    return -(int)err->code;
}

const char *err_name(enum err_code code);
int err_status(enum err_code code);
bool err_retry(enum err_code code);

#endif
