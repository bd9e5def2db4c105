/*
 * text - a borrowed byte string: start and length.
 *
 * Not NUL-terminated; any byte is allowed. Valid as long as the bytes that it points into.
 */
#ifndef MILLIGPU_TEXT_H
#define MILLIGPU_TEXT_H

#include <string.h>

#include "milligpu/base/base.h"

struct text {
    const char *at;
    size_t len;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})
/* For printf("%.*s"). */
#define TEXT_ARG(t) (int)(t).len, (t).at

struct text text_of(const char *terminated); /* NULL gives the empty text */
/* Copies the string to *at and advances *at past its terminator: for strings in one block. */
const char *text_lay(char **at, const char *terminated);
bool text_eq(struct text a, struct text b);
/* Inline: the length of a literal is a constant, by which nearly all comparisons end. */
static inline bool text_is(struct text text, const char *terminated)
{
    const size_t len = terminated != NULL ? strlen(terminated) : 0;
    return text.len == len && (len == 0 || memcmp(text.at, terminated, len) == 0);
}
bool text_starts(struct text text, const char *prefix);
bool text_ends(struct text text, const char *suffix);

struct text text_first(struct text text, size_t most); /* its first bytes, at most this many */
struct text text_trim(struct text text);               /* without the blanks at both ends */

/*
 * Sets *out to the piece before the first separator, and *rest to the text after it. Returns false
 * at the end of rest.
 */
bool text_cut(struct text *rest, char separator, struct text *out);

/* Returns the length of the UTF-8 sequence at this offset; 0: invalid. */
size_t text_sequence(struct text text, size_t at);

/*
 * Untrusted text, for display. A character is odd if a terminal interprets it, or if it reorders,
 * hides or joins the characters around it: control characters, bidirectional marks, overrides and
 * isolates, zero-width characters, line separators. It is shown as a JSON escape, \u202e.
 *
 * text_odd() returns the code point of the character at this offset if it is odd, else -1; bytes is
 * its length (text_sequence).
 * text_show() sets out to the printable form of the character at this offset, NUL-terminated;
 * invalid UTF-8 becomes U+FFFD. Returns the number of bytes of text consumed.
 */
enum { TEXT_SHOWN_MAX = 7 };
int32_t text_odd(struct text text, size_t at, size_t bytes);
size_t text_show(struct text text, size_t at, char out[TEXT_SHOWN_MAX]);

/*
 * Copies text for display, NUL-terminated: odd characters are escaped, and a text that does not fit
 * is cut between characters and ends in "...".
 */
void text_clip(struct text text, char *out, size_t bytes);

/* Seeded per process: do not store it on disk. */
uint32_t text_hash(struct text text);
/* The same in every process of one byte order. */
uint32_t text_hash_by(struct text text, uint64_t seed);

/*
 * Call once, before the first hash and the first thread. Without a seed, every run has the same
 * hashes.
 */
void text_seed(uint64_t seed);

/* ASCII only, independent of the locale. */
char text_lower(char c);

/*
 * Does text match the glob, ignoring ASCII case? Only '*' and '?' are special. Linear in practice;
 * worst case |glob| x |text|.
 */
bool text_glob(struct text glob, struct text text);

/* Returns the Levenshtein distance of a and b. b: at most TEXT_DISTANCE_MAX bytes. */
enum { TEXT_DISTANCE_MAX = 64 };
size_t text_distance(struct text a, struct text b);

/*
 * Levenshtein distance of names: '_' and '.' count as '-', and case is ignored. b must be in lower
 * case with '-'. Returns TEXT_FAR, early, if the distance exceeds most.
 */
enum { TEXT_SLIPS_MAX = 8 };
static const size_t TEXT_FAR = SIZE_MAX;
size_t text_slips(struct text a, struct text b, size_t most); /* most: at most TEXT_SLIPS_MAX */

#endif
