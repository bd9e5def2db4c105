/*
 * arena - memory that is given back all at once.
 *
 * One per request or per decoded object.  arena_reset() keeps the largest chunk, so a
 * thread that reuses its arena soon stops calling malloc.  Not thread-safe.
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
void arena_done(struct arena *arena);
void arena_reset(struct arena *arena);

void *arena_alloc(struct arena *arena, size_t bytes) MUST_USE; /* zeroed, aligned for anything */
void *arena_array(struct arena *arena, size_t count, size_t bytes) MUST_USE;
char *arena_copy(struct arena *arena, struct text text) MUST_USE; /* terminated */
char *arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_USE;

#endif
