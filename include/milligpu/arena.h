/*
 * arena - memory that is given back all at once.
 *
 * One per request or per decoded object.  arena_reset() keeps the largest chunk, so a
 * thread that reuses its arena soon stops calling malloc; arena_trim() gives that back, too, where
 * it is larger than what is worth keeping.  Not thread-safe.
 */
#ifndef MILLIGPU_ARENA_H
#define MILLIGPU_ARENA_H

#include "milligpu/text.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *chunk;
    size_t used; /* of the newest chunk */
};

void arena_init(struct arena *arena);
void arena_init_of(struct arena *arena, size_t bytes); /* with a first chunk of just that */
void arena_done(struct arena *arena);
void arena_reset(struct arena *arena);
void arena_trim(struct arena *arena, size_t keep_max); /* a reset; keeps no larger chunk */
size_t arena_bytes(const struct arena *arena);         /* of memory that it has now */
size_t arena_used(const struct arena *arena);          /* of that, at least what was given out */

void *arena_alloc(struct arena *arena, size_t bytes) MUST_USE; /* zeroed, aligned for anything */
void *arena_array(struct arena *arena, size_t count, size_t bytes) MUST_USE;
char *arena_copy(struct arena *arena, struct text text) MUST_USE; /* terminated */
char *arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_USE;

#endif
