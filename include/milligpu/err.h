/*
 * err - an accident: the world failed, or somebody sent us nonsense.
 *
 * Lives on the caller's stack, never allocates.  0 is success, negative is
 * failure; err is written only on failure and is never NULL.  Each layer border
 * wraps once and adds the noun its caller knows: "bind default/web-0: ...".
 */
#ifndef MILLIGPU_ERR_H
#define MILLIGPU_ERR_H

#include "milligpu/base.h"

/* code, word in logs and answers, HTTP status on the admin port, may be tried again */
#define ERR_TABLE(X)                                                                               \
    X(ERR_INVALID, "invalid", 400, false) /* what was sent cannot be right */                      \
    X(ERR_UNAUTHORIZED, "unauthorized", 401, false)                                                \
    X(ERR_FORBIDDEN, "forbidden", 403, false)                                                      \
    X(ERR_NOT_FOUND, "not_found", 404, false)                                                      \
    X(ERR_CONFLICT, "conflict", 409, false)                                                        \
    X(ERR_GONE, "gone", 410, false)           /* that resourceVersion is compacted */              \
    X(ERR_TOO_LARGE, "too_large", 413, false) /* passes one of limits.h */                         \
    X(ERR_BUSY, "busy", 429, true)                                                                 \
    X(ERR_INTERNAL, "internal", 500, false)                                                        \
    X(ERR_UNAVAILABLE, "unavailable", 503, true) /* not ready, or the other side is down */        \
    X(ERR_TIMEOUT, "timeout", 504, true)                                                           \
    X(ERR_IO, "io", 500, true)            /* disk or network failed */                             \
    X(ERR_FULL, "full", 507, true)        /* disk full */                                          \
    X(ERR_CORRUPT, "corrupt", 500, false) /* the database contradicts itself */                    \
    X(ERR_FOREIGN, "foreign", 500, false) /* not our file, or another cluster's */                 \
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

/* Write code and text; returns -code. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Put "fmt: " before the text that is there; returns -code. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* What the call that wrote err has returned. */
UNUSED static inline int err_same(const struct err *err)
{
    must(err->code != ERR_NONE);
    return -(int)err->code;
}

const char *err_name(enum err_code code);
int err_status(enum err_code code);
bool err_retry(enum err_code code);

#endif
