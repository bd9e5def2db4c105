/*
 * scan - scanner for JSON tokens: strings and numbers.
 *
 * Independent of readers and paths. Skips plain bytes, which are nearly all, eight at a time.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_SCAN_H
#define MILLIGPU_WIRE_SCAN_H

#include <string.h>

#include "milligpu/base/text.h"

/* Sets the high bit of each byte that is not plain; exact up to the lowest such byte. */
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

/* Returns the first byte that is not plain (control, '"', '\\', or non-ASCII), or end. */
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

/* Result of checking a string from behind the opening quote. */
struct scan_string {
    const char *close; /* the closing quote; NULL if the string is invalid */
    bool escaped;      /* needs scan_unescape(); scan_shape() never sets it */
    /* Set only if close is NULL. */
    const char *fault; /* constant text */
    const char *fault_at;
};
struct scan_string scan_string(const char *at, const char *end);

/*
 * Checks only the grammar of a string, for an unused value. Invalid UTF-8 and half a surrogate pair
 * are accepted, as in Go, which reads them as U+FFFD; the API server writes both in managedFields.
 */
struct scan_string scan_shape(const char *at, const char *end);

/*
 * Returns the end of the value that begins here, NULL if there is none or its nesting is deeper
 * than SCAN_DEPTH_MAX. Spaces may precede it; strings are checked by their shape only.
 */
enum { SCAN_DEPTH_MAX = 64 };
const char *scan_value(const char *at, const char *end);

/*
 * Decodes a checked string; out has room for raw.len bytes, all of which may change. Returns the
 * length.
 */
size_t scan_unescape(struct text raw, char *out);

/* Returns the end of the number at this byte, NULL if there is none. */
const char *scan_number(const char *at, const char *end);

enum scan_whole { SCAN_WHOLE, SCAN_FRACTION, SCAN_RANGE };

/* Converts a checked number; *out is set only on SCAN_WHOLE. */
enum scan_whole scan_i64(struct text number, int64_t *out);

#endif
