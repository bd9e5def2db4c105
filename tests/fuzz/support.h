/*
 * support - what fuzz targets share: pieces of an input, memory that is bounded, a second reader.
 *
 * The second reader is jansson.  Where it and ours are known to differ, second_read() says that it
 * cannot judge; every other disagreement is a finding.
 */
#ifndef MILLIGPU_TESTS_FUZZ_SUPPORT_H
#define MILLIGPU_TESTS_FUZZ_SUPPORT_H

#include <jansson.h>

#include "milligpu/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input cut up as the fuzzer likes. */
struct pieces {
    const char *at;
    size_t left;
};
struct pieces pieces_of(const uint8_t *data, size_t size);
uint8_t pieces_byte(struct pieces *pieces); /* 0 at the end */
/* Up to the separator, which is left out; the rest if it does not come. */
struct text pieces_until(struct pieces *pieces, char separator);
struct text pieces_take(struct pieces *pieces, size_t bytes); /* fewer at the end */
struct text pieces_rest(struct pieces *pieces);
/*
 * Changes of bytes as long as there are any: each a place of place_bytes, a length of one byte, the
 * bytes to write there; a length of 0 cuts off.  Returns what of len is left.
 */
size_t pieces_change(struct pieces *pieces, unsigned place_bytes, char *bytes, size_t len);

/* Bytes on the heap now; 0 where no sanitizer counts them. */
size_t heap_bytes(void);
/* What was taken since then is in proportion to what was sent. */
void heap_is_bounded(size_t before, size_t input);

/* Neither a value nor refused: it cannot judge these bytes. */
struct second {
    json_t *value;
    bool refused;
};
struct second second_read(struct text bytes);

/* As Go finds a field: exactly, else without regard to case; NULL for null. */
json_t *second_field(json_t *object, const char *key);
/* "a.b.c"; NULL if any of them is missing, null, or no object. */
json_t *second_at(json_t *object, const char *path);
/* The string there is this one; a missing one is "". */
bool second_says(json_t *string, const char *text);

#endif
