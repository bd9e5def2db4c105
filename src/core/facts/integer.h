/*
 * integer - whole numbers in labels and taints.
 *
 * Pure.
 */
#ifndef MILLIGPU_CORE_INTEGER_H
#define MILLIGPU_CORE_INTEGER_H

#include "milligpu/base/text.h"

/* As Go's ParseInt: a sign, digits, 64 bits. */
bool integer_parse(struct text text, int64_t *out);

#endif
