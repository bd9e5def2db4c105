/*
 * Allocation that aborts when memory runs out or a size overflows. Called everywhere, from any
 * thread.
 */
#include "milligpu/base/alloc.h"

#include <string.h>

/* A larger amount is a bug of ours: sizes from input are limited before. */
static const size_t BYTES_MAX = SIZE_MAX / 4;

static void *alloc_got(void *memory)
{
    must(memory != NULL && "out of memory");
    return memory;
}

/* The only multiplication of sizes, with its overflow check. */
static size_t alloc_product(size_t count, size_t bytes)
{
    size_t all;
    must(!__builtin_mul_overflow(count, bytes, &all));
    must(all <= BYTES_MAX);
    return all > 0 ? all : 1; /* malloc(0) may be NULL */
}

void *xmalloc(size_t bytes)
{
    return alloc_got(malloc(alloc_product(1, bytes)));
}

void *xcalloc(size_t count, size_t bytes)
{
    return alloc_got(calloc(1, alloc_product(count, bytes)));
}

void *xrealloc(void *old, size_t count, size_t bytes)
{
    return alloc_got(realloc(old, alloc_product(count, bytes)));
}

char *xstrdup(const char *text)
{
    must(text != NULL);

    const size_t bytes = strlen(text) + 1;
    char *copy = xmalloc(bytes);
    memcpy(copy, text, bytes);
    return copy;
}

void xfree(void *memory)
{
    free(memory);
}

/* Doubling keeps the cost per element constant; arrays never shrink. */
void *xgrow(void *items, size_t count, size_t *capacity, size_t bytes)
{
    must(count <= *capacity);
    must(bytes > 0);

    if (count < *capacity)
        return items;
    *capacity = *capacity > 0 ? *capacity * 2 : 8;
    return xrealloc(items, *capacity, bytes);
}

void xfreep(void *pointer_to_pointer)
{
    freep(pointer_to_pointer);
}
