/*
 * problem - an error as the body of an HTTP response (RFC 9457).
 */
#ifndef MILLIGPU_PROBLEM_H
#define MILLIGPU_PROBLEM_H

#include "milligpu/base/strbuf.h"

#define PROBLEM_TYPE "application/problem+json"

/* Appends to out. status: 400 to 599. title: NULL for the default of this status. */
void problem_encode(struct strbuf *out, int status, const char *title, const char *detail);

#endif
