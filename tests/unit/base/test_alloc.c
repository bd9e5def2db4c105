#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "support/aborts.h"
#include "support/test.h"

struct wanted {
    size_t items, size;
};

static void reallocate(void *user)
{
    const struct wanted *wanted = user;
    xfree(xrealloc(NULL, wanted->items, wanted->size));
}

static void allocate(void *user)
{
    const struct wanted *wanted = user;
    xfree(xcalloc(wanted->items, wanted->size));
}

TEST(xmalloc__aborts_on_impossible_sizes)
{
    assert_true(aborts(reallocate, &(struct wanted){SIZE_MAX / 2 + 2, 2})); /* wraps around */
    assert_true(aborts(allocate, &(struct wanted){SIZE_MAX / 2, 1}));
    assert_false(aborts(allocate, &(struct wanted){1, 1}));
}

TEST(xmalloc__returns_a_pointer_for_zero_bytes)
{
    void *none = xmalloc(0);
    assert_non_null(none);
    xfree(none);
    none = xcalloc(0, 8);
    assert_non_null(none);
    xfree(none);
    xfree(NULL);
}

TEST(xcalloc__is_zero_and_xstrdup_copies)
{
    const unsigned char zero[64] = {0};
    CLEANUP(xfreep) unsigned char *memory = xcalloc(8, 8);
    assert_memory_equal(memory, zero, sizeof zero);
    char text[] = "a text";
    CLEANUP(xfreep) char *copy = xstrdup(text);
    text[0] = 'b';
    assert_string_equal(copy, "a text");
}

TEST(xgrow__keeps_the_items)
{
    size_t *items = NULL;
    size_t capacity = 0;
    size_t moves = 0;
    for (size_t i = 0; i < 1000; i++) {
        const size_t before = capacity;
        items = xgrow(items, i, &capacity, sizeof *items);
        moves += before != capacity;
        assert_true(capacity > i);
        items[i] = i;
    }
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    assert_true(moves < 10);
    xfree(items);
}
