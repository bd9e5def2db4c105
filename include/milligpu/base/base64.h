/*
 * base64 - bytes as letters, RFC 4648 section 4.
 *
 * Pure.
 */
#ifndef MILLIGPU_BASE64_H
#define MILLIGPU_BASE64_H

#include "milligpu/base/text.h"

/*
 * NULL if it is not base64. White space anywhere and missing padding are accepted. The result is
 * terminated and belongs to the caller (xfree).
 */
char *base64_decode(const char *text, size_t *out_len) MUST_USE;

/* On one line, with padding; terminated, and the caller's (xfree). */
char *base64_encode(struct text bytes) MUST_USE;

#endif
