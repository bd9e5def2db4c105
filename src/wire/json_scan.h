/*
 * json_scan - the tokens of JSON: strings and numbers, bytes only.
 *
 * Knows nothing of readers and paths.  Eight bytes at a time where nothing happens, which is
 * nearly everywhere.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_JSON_SCAN_H
#define MILLIGPU_WIRE_JSON_SCAN_H

#include "milligpu/text.h"

/* The first byte that is not plain: a control character, '"', '\\', or beyond ASCII; or end. */
const char *scan_plain(const char *at, const char *end);

/*
 * From behind the opening quote to the closing one, everything between checked.  NULL if the
 * string is broken: *out_fault says how and *out_at where.
 */
struct scan_string {
    const char *close;
    bool escaped;
    const char *fault;
    const char *fault_at;
};
struct scan_string scan_string(const char *at, const char *end);

/* Write a checked string without its escapes; out has room for raw.len.  Returns the length. */
size_t scan_unescape(struct text raw, char *out);

/* The end of the number that starts at, NULL if there is none. */
const char *scan_number(const char *at, const char *end);

enum scan_whole { SCAN_WHOLE, SCAN_FRACTION, SCAN_RANGE };

/* The value of a checked number; *out is written only on SCAN_WHOLE. */
enum scan_whole scan_i64(struct text number, int64_t *out);

#endif
