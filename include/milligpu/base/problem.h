/*
 * problem - what went wrong, as the body of an HTTP answer (RFC 9457).
 */
#ifndef MILLIGPU_PROBLEM_H
#define MILLIGPU_PROBLEM_H

#include "milligpu/base/strbuf.h"

#define PROBLEM_TYPE "application/problem+json"

/* status: 400 to 599. title: NULL for the usual one of this status. Appends to out. */
void problem_encode(struct strbuf *out, int status, const char *title, const char *detail);

#endif
