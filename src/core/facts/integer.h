/*
 * integer - integers in labels and taints.
 *
 * Pure.
 */
#ifndef MILLIGPU_CORE_INTEGER_H
#define MILLIGPU_CORE_INTEGER_H

#include "milligpu/base/text.h"

/* Accepts the format of Go's ParseInt: optional sign, digits, 64 bits. */
bool integer_parse(struct text text, int64_t *out);

#endif
