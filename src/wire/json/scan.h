/*
 * scan - the tokens of JSON: strings and numbers, bytes only.
 *
 * Knows nothing of readers and paths. Takes eight bytes at a time where nothing special occurs,
 * which is nearly everywhere.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_SCAN_H
#define MILLIGPU_WIRE_SCAN_H

#include <string.h>

#include "milligpu/base/text.h"

/* The high bit of each byte that is not plain; exact up to and including the lowest such byte. */
static inline uint64_t scan_not_plain(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101U;
    const uint64_t quote = word ^ (ones * '"');
    const uint64_t backslash = word ^ (ones * '\\');
    return (word | (word - ones * 0x20) | (quote - ones) | (backslash - ones)) & (ones << 7);
}

static inline bool scan_is_plain(char c)
{
    const unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

/* The first byte that is not plain (a control character, '"', '\\', or beyond ASCII), or end. */
static inline const char *scan_plain(const char *at, const char *end)
{
    must(at <= end);

    while ((size_t)(end - at) >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        const uint64_t found = scan_not_plain(word);
        if (found != 0)
            return at + (__builtin_ctzll(found) >> 3);
        at += sizeof word;
    }
    while (at < end && scan_is_plain(*at))
        at++;
    return at;
}

/*
 * From after the opening quote to the closing one, with everything between checked. NULL if the
 * string is invalid: *out_fault says how and *out_at where.
 */
struct scan_string {
    /* at the closing quote; NULL: invalid */
    const char *close;
    /* scan_unescape() must be applied; scan_shape() never sets it */
    bool escaped;
    /* constant text; set only if close is NULL */
    const char *fault;
    const char *fault_at;
};
struct scan_string scan_string(const char *at, const char *end);

/*
 * The same for a string whose value nobody uses: its grammar only. Invalid UTF-8 and half a
 * surrogate pair are accepted then, as in Go, which reads U+FFFD for them; the API server writes
 * both in managedFields.
 */
struct scan_string scan_shape(const char *at, const char *end);

/* Writes a checked string without its escapes; out has room for raw.len. Returns the length. */
size_t scan_unescape(struct text raw, char *out);

/* The end of the number at this byte, NULL if there is none. */
const char *scan_number(const char *at, const char *end);

enum scan_whole { SCAN_WHOLE, SCAN_FRACTION, SCAN_RANGE };

/* The value of a checked number; *out is written only on SCAN_WHOLE. */
enum scan_whole scan_i64(struct text number, int64_t *out);

#endif
