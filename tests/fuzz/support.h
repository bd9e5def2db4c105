/*
 * support - shared by fuzz targets: pieces of an input, bounded memory, a second reader.
 *
 * The second reader is jansson. Where it and ours are known to differ, second_read() says that it
 * cannot judge; every other disagreement is a finding.
 */
#ifndef MILLIGPU_TESTS_FUZZ_SUPPORT_H
#define MILLIGPU_TESTS_FUZZ_SUPPORT_H

#include <jansson.h>

#include "milligpu/base/text.h"

#include "support/scoped.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input, cut up as the fuzzer chooses. */
struct pieces {
    const char *at;
    size_t left;
};
struct pieces pieces_of(const uint8_t *data, size_t size);
uint8_t pieces_byte(struct pieces *pieces); /* 0 at the end */
/* The bytes before the separator, which is consumed; the rest if there is no separator. */
struct text pieces_until(struct pieces *pieces, char separator);
struct text pieces_take(struct pieces *pieces, size_t bytes); /* fewer at the end */
struct text pieces_rest(struct pieces *pieces);
/*
 * Changes bytes as long as the input lasts. A change is a place of place_bytes, a length of one
 * byte, and the bytes to write there; a length of 0 truncates. Returns the remaining length.
 */
size_t pieces_change(struct pieces *pieces, unsigned place_bytes, char *bytes, size_t len);

/* Bytes in use on the heap; 0 if no sanitizer counts them. */
size_t heap_bytes(void);
/* The memory taken since then is in proportion to the size of the input. */
void heap_is_bounded(size_t before, size_t input);

/* Neither a value nor refused: jansson cannot judge these bytes. */
struct second {
    json_t *value;
    bool refused;
};
struct second second_read(struct text bytes);

/* Finds a field as Go does: exactly, else ignoring case; NULL for null. */
json_t *second_field(json_t *object, const char *key);
/* "a.b.c"; NULL if any part is missing, null, or not an object. */
json_t *second_at(json_t *object, const char *path);
/* True if the string is this text; a missing string counts as "". */
bool second_says(json_t *string, const char *text);

#endif
