/*
 * base64 - base64 encoding and decoding, RFC 4648 section 4.
 *
 * Pure.
 */
#ifndef MILLIGPU_BASE64_H
#define MILLIGPU_BASE64_H

#include "milligpu/base/text.h"

/*
 * Returns the decoded bytes, NUL-terminated and owned by the caller (xfree), or NULL if text is not
 * base64. White space and missing padding are accepted.
 */
char *base64_decode(const char *text, size_t *out_len) MUST_USE;

/* Returns one line with padding, NUL-terminated and owned by the caller (xfree). */
char *base64_encode(struct text bytes) MUST_USE;

#endif
