/*
 * Parses Kubernetes quantities exactly. Called for every amount in a pod or a Node. Tenants write
 * these texts with any number of digits and any exponent, so parsing takes linear time and does not
 * allocate.
 */
#include "milligpu/core/facts/quantity.h"

#include <string.h>

/*
 * A quantity is digits x 10^exponent x 2^binary, where digits is a decimal number of any length. No
 * big numbers are needed: only the integer part must fit into a word, and the fraction is divided
 * digit by digit from the right.
 */
struct parsed {
    bool negative;
    struct text whole;    /* before the point */
    struct text fraction; /* after it */
    int64_t exponent;
    unsigned binary;
};

/* Far more than the length of any text: with such an exponent the digits do not matter. */
static const int64_t EXPONENT_MAX = (int64_t)1 << 50;

enum { DIGITS_MAX = 19 }; /* digits of 2^63 - 1 */
static_assert(INT64_MAX / 1000000000000000000 == 9, "DIGITS_MAX is one more than its zeros");

__extension__ typedef unsigned __int128 wide_uint;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct text take_digits(struct text *rest)
{
    struct text digits = {rest->at, 0};
    while (digits.len < rest->len && is_digit(rest->at[digits.len]))
        digits.len++;
    must(digits.len <= rest->len);
    must(digits.len == rest->len || !is_digit(rest->at[digits.len]));
    rest->at += digits.len;
    rest->len -= digits.len;
    return digits;
}

/* Skips a sign and sets *negative; without a sign, *negative is unchanged. */
static void take_sign(struct text *rest, bool *negative)
{
    must(rest->len > 0);
    if (rest->at[0] != '+' && rest->at[0] != '-')
        return;
    *negative = rest->at[0] == '-';
    rest->at++;
    rest->len--;
}

/* Saturates at EXPONENT_MAX. */
static bool parse_exponent(struct text text, int64_t *out)
{
    must(text.len > 0);

    bool negative = false;
    take_sign(&text, &negative);
    if (text.len == 0)
        return false;
    int64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.at[i]))
            return false;
        value = value * 10 + (text.at[i] - '0');
        if (value > EXPONENT_MAX)
            value = EXPONENT_MAX;
    }
    must(value >= 0 && value <= EXPONENT_MAX);
    *out = negative ? -value : value;
    return true;
}

/* "E" alone is a suffix; with more text it begins an exponent. */
static bool parse_suffix(struct text text, struct parsed *out)
{
    static const struct {
        char letter;
        int64_t exponent;
    } decimal[] = {{'n', -9}, {'u', -6}, {'m', -3}, {'k', 3}, {'M', 6},
                   {'G', 9},  {'T', 12}, {'P', 15}, {'E', 18}};
    static const char binary[] = "KMGTPE";

    must(out->exponent == 0);
    must(out->binary == 0);

    if (text.len == 0)
        return true;
    if (text.len == 1) {
        for (size_t i = 0; i < ARRAY_LEN(decimal); i++)
            if (decimal[i].letter == text.at[0]) {
                out->exponent = decimal[i].exponent;
                return true;
            }
        return false;
    }
    if (text.len == 2 && text.at[1] == 'i') {
        const char *found = memchr(binary, text.at[0], sizeof binary - 1);
        if (found == NULL)
            return false;
        out->binary = 10 * (unsigned)(found - binary + 1);
        must(out->binary <= 60);
        return true;
    }
    if (text.at[0] != 'e' && text.at[0] != 'E')
        return false;
    return parse_exponent((struct text){text.at + 1, text.len - 1}, &out->exponent);
}

static bool quantity_parse_parts(struct text text, struct parsed *out)
{
    must(text.at != NULL || text.len == 0);

    *out = (struct parsed){0};
    if (text.len == 0)
        return false;
    take_sign(&text, &out->negative);
    out->whole = take_digits(&text);
    if (text.len > 0 && text.at[0] == '.') {
        text.at++;
        text.len--;
        out->fraction = take_digits(&text);
    }
    if (out->whole.len + out->fraction.len == 0)
        return false;
    must(out->whole.len == 0 || is_digit(out->whole.at[0]));
    return parse_suffix(text, out);
}

/* Digit i of whole followed by fraction. */
static unsigned quantity_digit(const struct parsed *parsed, size_t i)
{
    must(i < parsed->whole.len + parsed->fraction.len);

    const char c =
        i < parsed->whole.len ? parsed->whole.at[i] : parsed->fraction.at[i - parsed->whole.len];
    must(is_digit(c));
    return (unsigned)(c - '0');
}

/* All digits as one number x 10^exponent, without leading zeros. */
struct significant {
    size_t first;
    size_t end; /* equal to first if the value is 0 */
    int64_t exponent;
};

static struct significant significant_of(const struct parsed *parsed, unsigned decimals)
{
    struct significant s = {.end = parsed->whole.len + parsed->fraction.len};
    while (s.first < s.end && quantity_digit(parsed, s.first) == 0)
        s.first++;
    must(s.first <= s.end);
    must(parsed->exponent >= -EXPONENT_MAX && parsed->exponent <= EXPONENT_MAX);
    s.exponent = parsed->exponent + (int64_t)decimals - (int64_t)parsed->fraction.len;
    return s;
}

/*
 * The fraction x 2^binary, rounded down; sets *inexact if digits are lost. Rounding down at every
 * step is exact: floor((a + floor(y)) / 10) = floor((a + y) / 10).
 */
static uint64_t behind_point(const struct parsed *parsed, struct significant s, size_t from,
                             bool *inexact)
{
    must(from >= s.first && from <= s.end);
    must(s.exponent < 0);

    uint64_t value = 0; /* below 10 x 2^60 */
    must(parsed->binary <= 60);
    must(!*inexact);

    for (size_t i = s.end; i > from; i--) {
        value += (uint64_t)quantity_digit(parsed, i - 1) << parsed->binary;
        *inexact |= value % 10 != 0;
        value /= 10;
    }
    /* Zeros between the point and the first digit: 0.001 */
    for (int64_t zeros = -s.exponent - (int64_t)(s.end - from); zeros > 0 && value > 0; zeros--) {
        *inexact |= value % 10 != 0;
        value /= 10;
    }
    return value;
}

/* The absolute value, rounded down; sets *inexact. Returns false if it is too large. */
static bool quantity_magnitude(const struct parsed *parsed, struct significant s, uint64_t *out,
                               bool *inexact)
{
    const int64_t count = (int64_t)(s.end - s.first);
    const int64_t before = count + s.exponent; /* digits before the point */
    must(count > 0);
    must(!*inexact);
    if (before > DIGITS_MAX)
        return false;

    /* 19 digits are below 2^64, and x 2^60 fits into 128 bits. */
    wide_uint value = 0;
    must(s.exponent < DIGITS_MAX);
    for (int64_t i = 0; i < before; i++)
        value = value * 10 + (i < count ? quantity_digit(parsed, s.first + (size_t)i) : 0);
    value <<= parsed->binary;
    if (s.exponent < 0)
        value += behind_point(parsed, s, s.first + (size_t)(before > 0 ? before : 0), inexact);
    if (value > INT64_MAX)
        return false;
    must(value >> 63 == 0);
    *out = (uint64_t)value;
    return true;
}

static enum quantity_verdict quantity_evaluate(struct text text, unsigned decimals, bool round,
                                               int64_t *out)
{
    must(text.at != NULL || text.len == 0);
    must(decimals <= 18);
    must(out != NULL);

    struct parsed parsed;
    if (!quantity_parse_parts(text, &parsed))
        return QUANTITY_SYNTAX;
    const struct significant s = significant_of(&parsed, decimals);
    uint64_t value = 0;
    bool inexact = false;
    if (s.first < s.end && !quantity_magnitude(&parsed, s, &value, &inexact))
        return QUANTITY_RANGE;
    if (inexact && !round)
        return QUANTITY_FRACTION;
    if (inexact && value == INT64_MAX)
        return QUANTITY_RANGE;
    if (inexact)
        value++; /* away from zero, as Kubernetes rounds, also below zero */
    must(value <= INT64_MAX);
    *out = parsed.negative ? -(int64_t)value : (int64_t)value;
    return QUANTITY_OK;
}

enum quantity_verdict quantity_parse(struct text text, unsigned decimals, int64_t *out)
{
    return quantity_evaluate(text, decimals, false, out);
}

enum quantity_verdict quantity_ceil(struct text text, unsigned decimals, int64_t *out)
{
    return quantity_evaluate(text, decimals, true, out);
}
