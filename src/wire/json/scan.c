/*
 * Scans JSON tokens as RFC 8259 defines them: strings first, then numbers, then whole values.
 * Called by json_reader.c, which turns a fault into an error with a path. Reads no byte beyond the
 * end of its input and allocates nothing. scan_string(), scan_shape() and scan_value() check;
 * scan_unescape() and scan_i64() convert checked input only. Each is linear in its input.
 */
#include "scan.h"

#include <string.h>

/*
 * Returns the length of the UTF-8 sequence at this byte; 0 if it is truncated, overlong, a
 * surrogate, or above U+10FFFF.
 */
static size_t utf8_bytes(const char *at, const char *end)
{
    must(at < end);

    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    /* C0 and C1 only begin overlong sequences; F5 and above are beyond U+10FFFF. */
    const unsigned char lead = (unsigned char)*at;
    must(lead >= 0x80);

    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if ((size_t)(end - at) < bytes)
        return 0;
    uint32_t code = lead & (0x7FU >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        const unsigned char byte = (unsigned char)at[i];
        if ((byte & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (byte & 0x3F);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code >= least[bytes] && code <= 0x10FFFF && !surrogate ? bytes : 0;
}

/* Returns -1 for a byte that is no digit. Accepts both cases, as RFC 8259 does. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Returns the 16 bits of the "\uXXXX" at this byte, -1 if there is none. */
static int32_t unicode_escape(const char *at, const char *end)
{
    must(at <= end);

    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    int32_t unit = 0;
    for (int i = 2; i < 6; i++) {
        const int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    must(unit >= 0 && unit <= 0xFFFF);
    return unit;
}

static bool is_lead(int32_t unit)
{
    must(unit <= 0xFFFF);

    return unit >= 0xD800 && unit <= 0xDBFF;
}

/* True for the second half of a surrogate pair; false for unicode_escape()'s -1. */
static bool is_trail(int32_t unit)
{
    must(unit <= 0xFFFF);

    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* Returns the byte for a backslash and this letter, 0 if there is none. */
static char simple_escape(char letter)
{
    static const char pairs[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    for (size_t i = 0; i + 1 < sizeof pairs; i += 2)
        if (pairs[i] == letter)
            return pairs[i + 1];
    return 0;
}

/* JSON in annotations has a \" around each word, and hardly another escape. */
static bool is_quote(const char *at, const char *end)
{
    must(at <= end);
    return end - at >= 2 && at[0] == '\\' && at[1] == '"';
}

/* Returns the length of the escape at this byte, 0 if invalid; a surrogate pair is one escape. */
static size_t escape_bytes(const char *at, const char *end)
{
    must(*at == '\\');

    if (end - at >= 2 && simple_escape(at[1]) != 0)
        return 2;
    /* An unpaired surrogate is no character and has no UTF-8. */
    const int32_t unit = unicode_escape(at, end);
    if (unit < 0 || is_trail(unit))
        return 0;
    if (!is_lead(unit))
        return 6;
    return is_trail(unicode_escape(at + 6, end)) ? 12 : 0;
}

/* fault is a constant; the reader adds path and position. */
static struct scan_string scan_broken(const char *fault, const char *at)
{
    must(fault != NULL && at != NULL);

    return (struct scan_string){.fault = fault, .fault_at = at};
}

/* scan_plain() skips nearly all bytes; the loop handles the others. */
struct scan_string scan_string(const char *at, const char *end)
{
    must(at <= end);

    bool escaped = false;
    for (;;) {
        size_t bytes;
        at = scan_plain(at, end);
        if (at == end)
            return scan_broken("a string that does not end", at);
        if (*at == '"')
            return (struct scan_string){.close = at, .escaped = escaped};
        if ((unsigned char)*at < 0x20)
            return scan_broken("a control character in a string (write it as an escape)", at);
        if (*at == '\\') {
            escaped = true;
            bytes = is_quote(at, end) ? 2 : escape_bytes(at, end);
            if (bytes == 0)
                return scan_broken("a \\ that starts no valid escape in a string", at);
        } else {
            bytes = utf8_bytes(at, end);
            if (bytes == 0)
                return scan_broken("a string that is not UTF-8", at);
        }
        at += bytes;
    }
}

/* code is no surrogate: the caller has joined pairs, and escape_bytes() has refused halves. */
static size_t put_utf8(uint32_t code, char *out)
{
    must(code <= 0x10FFFF);

    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/*
 * scan_string() has checked the escape, so a must that fails here is a bug. No escape becomes
 * longer: 6 bytes give at most 3, and 12 give 4.
 */
static size_t put_escape(const char *at, const char *end, char *out)
{
    must(at[0] == '\\');
    must(at + 1 < end);

    if (at[1] != 'u') {
        out[0] = simple_escape(at[1]);
        return 1;
    }
    const int32_t unit = unicode_escape(at, end);
    must(unit >= 0);
    if (!is_lead(unit))
        return put_utf8((uint32_t)unit, out);
    const int32_t trail = unicode_escape(at + 6, end);
    must(is_trail(trail));
    return put_utf8(0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(trail - 0xDC00), out);
}

/*
 * Returns the length of the escape at this byte by its grammar alone, 0 if invalid. Half a
 * surrogate pair passes: Go reads it as U+FFFD, and the API server may store it.
 */
static size_t escape_shape(const char *at, const char *end)
{
    must(*at == '\\');

    if (end - at >= 2 && simple_escape(at[1]) != 0)
        return 2;
    return unicode_escape(at, end) >= 0 ? 6 : 0;
}

/*
 * Common faults have the same text as in scan_string(): a refusal must not depend on whether a
 * value is used.
 */
struct scan_string scan_shape(const char *at, const char *end)
{
    must(at <= end);

    for (;;) {
        at = scan_plain(at, end);
        if (is_quote(at, end)) {
            at += 2;
            continue;
        }
        if (at == end)
            return scan_broken("a string that does not end", at);
        if (*at == '"')
            return (struct scan_string){.close = at};
        if ((unsigned char)*at < 0x20)
            return scan_broken("a control character in a string (write it as an escape)", at);
        const size_t bytes = *at == '\\' ? escape_shape(at, end) : 1;
        if (bytes == 0)
            return scan_broken("a \\ that starts no valid escape in a string", at);
        at += bytes;
    }
}

/*
 * Copies the bytes up to the next backslash, or to the end; returns their number. Copies by words,
 * and so some bytes behind it, which the next ones overwrite: the runs of JSON in a string are
 * short, and out has room for all that is left.
 */
static size_t copy_run(const char *at, const char *end, char *out)
{
    const uint64_t ones = 0x0101010101010101U;
    const char *begin = at;

    must(at <= end);
    while ((size_t)(end - at) >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        memcpy(out + (at - begin), &word, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        const uint64_t rest = word ^ (ones * '\\');
        const uint64_t found = (rest - ones) & ~rest & (ones << 7);
        if (found != 0)
            return (size_t)(at - begin) + (size_t)(__builtin_ctzll(found) >> 3);
        at += sizeof word;
    }
    for (; at < end && *at != '\\'; at++)
        out[at - begin] = *at;
    return (size_t)(at - begin);
}

size_t scan_unescape(struct text raw, char *out)
{
    must(raw.at != NULL);
    must(out != NULL);

    const char *at = raw.at;
    const char *end = raw.at + raw.len;
    size_t len = 0;
    while (at < end) {
        const size_t run = copy_run(at, end, out + len);
        len += run;
        at += run;
        if (is_quote(at, end)) {
            out[len++] = '"';
            at += 2;
        } else if (at < end) {
            len += put_escape(at, end, out + len);
            at += escape_bytes(at, end);
        }
    }
    must(len <= raw.len);
    return len;
}

static const char *scan_digits(const char *at, const char *end)
{
    must(at <= end);

    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

const char *scan_number(const char *at, const char *end)
{
    must(at < end);

    if (*at == '-')
        at++;
    const char *whole = at;
    at = scan_digits(at, end);
    if (at == whole || (*whole == '0' && at - whole > 1))
        return NULL;
    if (at < end && *at == '.') {
        const char *fraction = ++at;
        at = scan_digits(at, end);
        if (at == fraction)
            return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        const char *exponent = at;
        at = scan_digits(at, end);
        if (at == exponent)
            return NULL;
    }
    return at;
}

static inline const char *scan_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

/* Most strings are plain, so their end is found here. NULL if invalid. */
static inline const char *behind_string(const char *at, const char *end)
{
    must(*at == '"');

    const char *close = scan_plain(at + 1, end);
    if (close == end || *close != '"')
        close = scan_shape(close, end).close;
    return close != NULL ? close + 1 : NULL;
}

/* Returns the byte behind a key and its colon, NULL if there is none. */
static inline const char *behind_key(const char *at, const char *end)
{
    at = scan_space(at, end);
    if (at == end || *at != '"')
        return NULL;
    at = behind_string(at, end);
    if (at == NULL)
        return NULL;
    at = scan_space(at, end);
    return at < end && *at == ':' ? at + 1 : NULL;
}

/* Returns the byte behind a string, number, bool or null; NULL if there is none. */
static inline const char *behind_scalar(const char *at, const char *end)
{
    static const struct {
        char first;
        char word[6];
    } literal[] = {{'t', "true"}, {'f', "false"}, {'n', "null"}};

    if (*at == '"')
        return behind_string(at, end);
    for (size_t i = 0; i < sizeof literal / sizeof literal[0]; i++) {
        const size_t len = strlen(literal[i].word);
        if (*at == literal[i].first)
            return (size_t)(end - at) >= len && memcmp(at, literal[i].word, len) == 0 ? at + len
                                                                                      : NULL;
    }
    return scan_number(at, end);
}

/* The open levels of a value: one bit each. */
struct scan_levels {
    uint32_t depth;
    uint64_t arrays; /* the innermost in the lowest bit */
};

/*
 * After a value, closes levels and returns the begin of the next value; with depth 0 the end. NULL
 * if there is none.
 */
static inline const char *next_value(const char *at, const char *end, struct scan_levels *levels)
{
    while (levels->depth > 0) {
        const bool array = (levels->arrays & 1) != 0;
        at = scan_space(at, end);
        if (at == end)
            return NULL;
        if (*at == ',')
            return array ? at + 1 : behind_key(at + 1, end);
        if (*at != (array ? ']' : '}'))
            return NULL;
        at++;
        levels->depth--;
        levels->arrays >>= 1;
    }
    return at;
}

/* Enters an object or array, and returns the begin of its first value, or what follows it. */
static inline const char *first_value(const char *at, const char *end, struct scan_levels *levels)
{
    const bool array = *at == '[';

    if (levels->depth == SCAN_DEPTH_MAX)
        return NULL;
    at = scan_space(at + 1, end);
    if (at < end && *at == (array ? ']' : '}'))
        return next_value(at + 1, end, levels);
    levels->depth++;
    levels->arrays = levels->arrays << 1 | array;
    return array ? at : behind_key(at, end);
}

const char *scan_value(const char *at, const char *end)
{
    struct scan_levels levels = {0};

    must(at <= end);
    do {
        at = scan_space(at, end);
        if (at == end)
            return NULL;
        if (*at == '{' || *at == '[') {
            at = first_value(at, end, &levels);
        } else {
            at = behind_scalar(at, end);
            at = at != NULL ? next_value(at, end, &levels) : NULL;
        }
    } while (at != NULL && levels.depth > 0);
    return at;
}

/* mantissa x 10^scale; trailing zeros are in scale, so that 1e400 equals 10...0. */
struct decimal {
    uint64_t mantissa;
    int64_t scale;
    bool range; /* the mantissa overflowed 64 bits, and is meaningless */
};

/*
 * Zeros only raise the scale until another digit follows, so 3000000000000000000000e-21 is 3
 * although its digits overflow 64 bits.
 */
static void add_digit(struct decimal *d, char c)
{
    const uint64_t digit = (uint64_t)(c - '0');
    must(digit <= 9);

    /* An overflowed mantissa may have wrapped to 0: its zeros count. */
    if (d->mantissa == 0 && digit == 0 && !d->range)
        return;
    d->scale++;
    if (digit == 0)
        return;
    for (; d->scale > 0; d->scale--)
        d->range |= __builtin_mul_overflow(d->mantissa, 10, &d->mantissa);
    d->range |= __builtin_add_overflow(d->mantissa, digit, &d->mantissa);
}

/* Returns the exponent, clamped far beyond the range of 64-bit results. */
static int64_t scan_exponent(const char *at, const char *end)
{
    must(at <= end);

    enum { FAR = 1 << 30 };
    const bool negative = at < end && *at == '-';
    int64_t value = 0;
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    for (; at < end; at++)
        value = value < FAR ? value * 10 + (*at - '0') : FAR;
    return negative ? -value : value;
}

/* scan_number() has checked the number, so only an exponent can follow the digits. */
static struct decimal decimal_of(const char *at, const char *end)
{
    must(at <= end);

    struct decimal d = {0};
    int64_t fraction = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        add_digit(&d, *at);
    if (at < end && *at == '.')
        for (at++; at < end && *at >= '0' && *at <= '9'; at++, fraction++)
            add_digit(&d, *at);
    if (at < end)
        d.scale += scan_exponent(at + 1, end);
    d.scale -= fraction;
    return d;
}

/* No floating point: 300.0, 3e2 and 2^53 + 1 are exact. */
enum scan_whole scan_i64(struct text number, int64_t *out)
{
    must(number.len > 0);

    const bool negative = number.at[0] == '-';
    struct decimal d = decimal_of(number.at + (negative ? 1 : 0), number.at + number.len);
    if (d.mantissa == 0 && !d.range) {
        *out = 0;
        return SCAN_WHOLE;
    }
    /* The mantissa does not end in a zero, so a negative scale leaves a fraction. */
    if (d.range)
        return d.scale < 0 ? SCAN_FRACTION : SCAN_RANGE;
    /* The mantissa does not end in a zero, so the first step decides. */
    for (; d.scale < 0; d.scale++) {
        if (d.mantissa % 10 != 0)
            return SCAN_FRACTION;
        d.mantissa /= 10;
    }
    /* Ends after at most 19 multiplications, whatever the exponent. */
    for (; d.scale > 0; d.scale--)
        if (__builtin_mul_overflow(d.mantissa, 10, &d.mantissa))
            return SCAN_RANGE;
    if (d.mantissa > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return SCAN_RANGE;
    *out = (int64_t)(negative ? -d.mantissa : d.mantissa);
    return SCAN_WHOLE;
}
