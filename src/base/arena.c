/*
 * A list of chunks, newest first; only the newest is filled. Chunks never move or grow, so
 * addresses stay valid until the arena is reset or released.
 */
#include "milligpu/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

enum { CHUNK_MIN = 4096, CHUNK_DOUBLING_MAX = 1024 * 1024, ALIGNMENT = _Alignof(max_align_t) };

struct arena_chunk {
    struct arena_chunk *older;
    size_t bytes;
    _Alignas(max_align_t) char data[];
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

static void free_chunks(struct arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct arena_chunk *older = chunk->older;
        xfree(chunk);
        chunk = older;
    }
}

void arena_done(struct arena *arena)
{
    must(arena->chunk != NULL || arena->used == 0);
    free_chunks(arena->chunk);
    arena_init(arena);
}

/* Keeps the largest chunk, so that after a few uses one chunk is enough. */
void arena_reset(struct arena *arena)
{
    must(arena->chunk != NULL || arena->used == 0);

    struct arena_chunk **largest = &arena->chunk;
    for (struct arena_chunk **at = &arena->chunk; *at != NULL; at = &(*at)->older)
        if ((*at)->bytes > (*largest)->bytes)
            largest = at;

    struct arena_chunk *kept = *largest;
    if (kept != NULL) {
        *largest = kept->older;
        kept->older = NULL;
        free_chunks(arena->chunk);
    }
    must(kept == NULL || kept->older == NULL);
    arena->chunk = kept;
    arena->used = 0;
}

void arena_trim(struct arena *arena, size_t keep_max)
{
    arena_reset(arena);
    if (arena->chunk != NULL && arena->chunk->bytes > keep_max)
        arena_done(arena);
    must(arena_bytes(arena) <= keep_max + sizeof(struct arena_chunk));
}

size_t arena_bytes(const struct arena *arena)
{
    size_t bytes = 0;

    for (const struct arena_chunk *chunk = arena->chunk; chunk != NULL; chunk = chunk->older)
        bytes += sizeof *chunk + chunk->bytes;
    return bytes;
}

/* The rest of the previous chunk stays unused. Memory is zeroed in arena_alloc(). */
static void push_chunk(struct arena *arena, size_t bytes)
{
    struct arena_chunk *chunk = xmalloc(sizeof *chunk + bytes);

    chunk->older = arena->chunk;
    chunk->bytes = bytes;
    arena->chunk = chunk;
    arena->used = 0;
}

/* Doubling keeps the number of chunks small; beyond a limit it would only waste memory. */
static void add_chunk(struct arena *arena, size_t need)
{
    size_t bytes = arena->chunk != NULL ? arena->chunk->bytes * 2 : CHUNK_MIN;
    if (bytes > CHUNK_DOUBLING_MAX)
        bytes = CHUNK_DOUBLING_MAX;
    if (bytes < need)
        bytes = need;
    must(bytes >= need);

    push_chunk(arena, bytes);
}

void arena_init_of(struct arena *arena, size_t bytes)
{
    arena_init(arena);
    push_chunk(arena, bytes);
}

size_t arena_used(const struct arena *arena)
{
    must(arena->chunk != NULL || arena->used == 0);
    if (arena->chunk == NULL)
        return 0;
    return arena_bytes(arena) - arena->chunk->bytes + arena->used;
}

/* Not zeroed. */
static char *arena_take(struct arena *arena, size_t need)
{
    must(need % ALIGNMENT == 0);

    if (arena->chunk == NULL || need > arena->chunk->bytes - arena->used)
        add_chunk(arena, need);

    char *memory = arena->chunk->data + arena->used;
    arena->used += need;
    must(arena->used <= arena->chunk->bytes);
    return memory;
}

static size_t arena_round(size_t bytes)
{
    must(bytes <= SIZE_MAX / 4);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    const size_t need = arena_round(bytes);
    char *memory = arena_take(arena, need);

    /* A reused chunk contains old data. */
    memset(memory, 0, need);
    return memory;
}

void *arena_array(struct arena *arena, size_t count, size_t bytes)
{
    size_t all;
    must(!__builtin_mul_overflow(count, bytes, &all));
    return arena_alloc(arena, all);
}

/* Zeroes only the last bytes, with the terminator among them: the text fills the others. */
char *arena_copy(struct arena *arena, struct text text)
{
    must(text.at != NULL || text.len == 0);

    const size_t need = arena_round(text.len + 1);
    char *copy = arena_take(arena, need);
    memset(copy + need - ALIGNMENT, 0, ALIGNMENT);
    if (text.len > 0)
        memcpy(copy, text.at, text.len);
    return copy;
}

/* Formats twice, first to get the length. */
char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    must(len >= 0);

    char *out = arena_alloc(arena, (size_t)len + 1);
    va_start(args, fmt);
    const int written = vsnprintf(out, (size_t)len + 1, fmt, args);
    va_end(args);
    must(written == len);
    return out;
}
