/*
 * text - a borrowed piece of bytes: where it starts and how long it is.
 *
 * Not terminated, may contain any byte. Lives as long as the bytes it points into.
 */
#ifndef MILLIGPU_TEXT_H
#define MILLIGPU_TEXT_H

#include "milligpu/base/base.h"

struct text {
    const char *at;
    size_t len;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})
/* For printf("%.*s"). */
#define TEXT_ARG(t) (int)(t).len, (t).at

struct text text_of(const char *terminated); /* NULL gives the empty text */
/* Copies text with its terminator to *at and moves *at behind it: for strings in one block. */
const char *text_lay(char **at, const char *terminated);
bool text_is(struct text text, const char *terminated);
bool text_eq(struct text a, struct text b);
bool text_starts(struct text text, const char *prefix);
bool text_ends(struct text text, const char *suffix);

/* Without the blanks at both ends. */
struct text text_first(struct text text, size_t most); /* its first bytes, at most this many */
struct text text_trim(struct text text);

/*
 * Takes the piece before the first separator; *rest then begins behind it. False at the end of
 * rest.
 */
bool text_cut(struct text *rest, char separator, struct text *out);

/* The length of the UTF-8 sequence at this place; 0: there is none. */
size_t text_sequence(struct text text, size_t at);

/*
 * Text from others, for people. A character is odd if a terminal interprets it, or if it turns,
 * hides or joins the characters around it: control characters, bidirectional marks, overrides and
 * isolates, characters without width, line separators. It is shown as JSON would write it, \u202e.
 *
 * text_odd: the code point of the character at this place if it is odd, else -1; bytes is its
 * length (text_sequence).
 * text_show: what a person may see of the character at this place, terminated; invalid UTF-8
 * becomes U+FFFD. Returns how many bytes of text that was.
 */
enum { TEXT_SHOWN_MAX = 7 };
int32_t text_odd(struct text text, size_t at, size_t bytes);
size_t text_show(struct text text, size_t at, char out[TEXT_SHOWN_MAX]);

/*
 * A terminated copy for people: odd characters are shown escaped, and a text that does not fit ends
 * in "...", never inside a character.
 */
void text_clip(struct text text, char *out, size_t bytes);

/* With the seed of this process: do not store it on disk. */
uint32_t text_hash(struct text text);
/* The same in every process (of one byte order). */
uint32_t text_hash_by(struct text text, uint64_t seed);

/*
 * Call it once, before the first hash and the first thread; otherwise every run has the same
 * hashes.
 */
void text_seed(uint64_t seed);

/* ASCII only, whatever the locale is. */
char text_lower(char c);

/*
 * Does text match the glob, ignoring ASCII case? Only '*' and '?' are special. Linear in practice
 * and never worse than |glob| x |text|.
 */
bool text_glob(struct text glob, struct text text);

/*
 * How many letters to add, drop or change to turn a into b (Levenshtein). b: at most
 * TEXT_DISTANCE_MAX bytes.
 */
enum { TEXT_DISTANCE_MAX = 64 };
size_t text_distance(struct text a, struct text b);

/*
 * The same for names as people write them: '_' and '.' count as '-', and case is ignored. b is
 * written in small letters and '-'. TEXT_FAR if it takes more than most; then it costs little.
 */
enum { TEXT_SLIPS_MAX = 8 };
static const size_t TEXT_FAR = SIZE_MAX;
size_t text_slips(struct text a, struct text b, size_t most); /* most: at most TEXT_SLIPS_MAX */

#endif
