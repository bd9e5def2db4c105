/* Parses integers as kube-scheduler does. Called by node_demands.c and taint.c. */
#include "integer.h"

bool integer_parse(struct text text, int64_t *out)
{
    const bool negative = text_starts(text, "-");
    const size_t sign = negative || text_starts(text, "+") ? 1 : 0;
    uint64_t value = 0;

    must(out != NULL);
    if (text.len == sign)
        return false;
    for (size_t i = sign; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        const uint64_t digit = (uint64_t)(text.at[i] - '0');
        if (value > ((uint64_t)INT64_MAX + negative - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    must(value <= (uint64_t)INT64_MAX + negative);
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}
