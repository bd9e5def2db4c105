/*
 * arena - memory that is freed all at once.
 *
 * Use one per request or per decoded object. arena_reset() keeps the largest chunk, so a thread
 * that reuses its arena soon stops calling malloc. arena_trim() also frees that chunk if it is
 * larger than the given size. Not thread-safe.
 */
#ifndef MILLIGPU_ARENA_H
#define MILLIGPU_ARENA_H

#include "milligpu/base/text.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *chunk;
    size_t used; /* bytes used of the newest chunk */
};

void arena_init(struct arena *arena);
/* The first chunk has this size. */
void arena_init_of(struct arena *arena, size_t bytes);
void arena_done(struct arena *arena);
void arena_reset(struct arena *arena);
/* Resets, and frees every chunk larger than keep_max. */
void arena_trim(struct arena *arena, size_t keep_max);
size_t arena_bytes(const struct arena *arena); /* bytes allocated, unused ones included */
size_t arena_used(const struct arena *arena);  /* bytes handed out, or a little more */

/* Zeroed, aligned for any type. */
void *arena_alloc(struct arena *arena, size_t bytes) MUST_USE;
void *arena_array(struct arena *arena, size_t count, size_t bytes) MUST_USE;
char *arena_copy(struct arena *arena, struct text text) MUST_USE; /* terminated */
char *arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_USE;

#endif
