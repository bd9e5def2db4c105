/*
 * err - a runtime error (not a bug): something outside failed, or the input is wrong.
 *
 * It lives on the caller's stack and never allocates. Functions return 0 on success and a negative
 * value on failure; they write err only on failure, and err is never NULL. Each layer prepends the
 * object that it works on, once: "bind default/web-0: ...".
 */
#ifndef MILLIGPU_ERR_H
#define MILLIGPU_ERR_H

#include "milligpu/base/base.h"

/* code, HTTP status on the admin port */
#define ERR_TABLE(X)                                                                               \
    X(ERR_INVALID, 400) /* the input cannot be right */                                            \
    X(ERR_UNAUTHORIZED, 401)                                                                       \
    X(ERR_FORBIDDEN, 403)                                                                          \
    X(ERR_NOT_FOUND, 404)                                                                          \
    X(ERR_CONFLICT, 409)                                                                           \
    X(ERR_GONE, 410)      /* the resourceVersion was compacted */                                  \
    X(ERR_TOO_LARGE, 413) /* exceeds one of limits.h */                                            \
    X(ERR_BUSY, 429)                                                                               \
    X(ERR_INTERNAL, 500)                                                                           \
    X(ERR_UNAVAILABLE, 503) /* not ready, or no answer */                                          \
    X(ERR_TIMEOUT, 504)                                                                            \
    X(ERR_IO, 500)      /* a disk or network operation failed */                                   \
    X(ERR_FULL, 507)    /* disk full */                                                            \
    X(ERR_CORRUPT, 500) /* the database contradicts itself */                                      \
    X(ERR_FOREIGN, 500) /* not a ledger, or the ledger of another cluster */                       \
    X(ERR_NEWER, 500)   /* written by a newer milligpu */

enum err_code {
    ERR_NONE,
#define X(code, status) code,
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

/* Prepends "fmt: " to the text; returns -code. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Returns -code, as the call that set err did. */
UNUSED static inline int err_same(const struct err *err)
{
    must(err->code != ERR_NONE);
    return -(int)err->code;
}

int err_status(enum err_code code);

#endif
