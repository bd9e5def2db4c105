/*
 * quantity - Kubernetes quantities: "300", "1k", "3e2", "1500m", "40Gi".
 *
 * The full grammar: sign, digits with an optional point, then one of n u m k M G T P E,
 * Ki Mi Gi Ti Pi Ei, or a decimal exponent e/E. quantity_parse() never rounds: an inexact value is
 * an error. Pure.
 */
#ifndef MILLIGPU_QUANTITY_H
#define MILLIGPU_QUANTITY_H

#include "milligpu/base/text.h"

enum quantity_verdict {
    QUANTITY_OK,
    QUANTITY_SYNTAX,   /* not a quantity */
    QUANTITY_FRACTION, /* not a whole number of units */
    QUANTITY_RANGE,    /* beyond 63 bits */
};

/*
 * Sets *out, only on QUANTITY_OK, to the value in units of 10^-decimals: 0 counts wholes, 3 counts
 * thousandths (CPU).
 */
enum quantity_verdict quantity_parse(struct text text, unsigned decimals, int64_t *out) MUST_USE;

/* As quantity_parse(), but rounds up, as kube-scheduler does (CPU, memory). */
enum quantity_verdict quantity_ceil(struct text text, unsigned decimals, int64_t *out) MUST_USE;

#endif
