/*
 * text - a borrowed piece of bytes: where it starts and how long it is.
 *
 * Not terminated, may hold anything.  Lives as long as the bytes it points into.
 */
#ifndef MILLIGPU_TEXT_H
#define MILLIGPU_TEXT_H

#include "milligpu/base.h"

struct text {
    const char *at;
    size_t len;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})
/* For printf("%.*s"). */
#define TEXT_ARG(t) (int)(t).len, (t).at

struct text text_of(const char *terminated); /* NULL gives the empty text */
/* Copy text, its end included, to *at and move *at behind it: for strings in one block. */
const char *text_lay(char **at, const char *terminated);
bool text_is(struct text text, const char *terminated);
bool text_eq(struct text a, struct text b);
bool text_starts(struct text text, const char *prefix);

/* Without the blanks at both ends. */
struct text text_trim(struct text text);

/* The piece before the first separator; *rest goes behind it.  False at the end of rest. */
bool text_cut(struct text *rest, char separator, struct text *out);

/* Copy, terminated; what does not fit ends in "..." and not inside a UTF-8 sequence. */
void text_clip(struct text text, char *out, size_t bytes);

/* Seeded, not for keeping on disk. */
uint32_t text_hash(struct text text);

/* Once, before the first hash and the first thread; else every run hashes alike. */
void text_seed(uint64_t seed);

/*
 * Does text match the glob, without regard to ASCII case?  '*' and '?' only; linear in
 * practice and never worse than |glob| x |text|.
 */
bool text_glob(struct text glob, struct text text);

#endif
