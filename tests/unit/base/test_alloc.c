#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "support/test.h"

/* True if the claim ends in abort(). */
static bool aborts(void (*claim)(void))
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)fclose(stderr);
        claim();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void ask_for_a_product_that_wraps(void)
{
    volatile size_t half = SIZE_MAX / 2 + 2;
    xfree(xrealloc(NULL, half, 2));
}

static void ask_for_more_than_there_can_be(void)
{
    volatile size_t much = SIZE_MAX / 2;
    xfree(xcalloc(much, 1));
}

static void ask_for_a_little(void)
{
    xfree(xmalloc(1));
}

TEST(xmalloc__aborts_on_impossible_sizes)
{
    assert_true(aborts(ask_for_a_product_that_wraps));
    assert_true(aborts(ask_for_more_than_there_can_be));
    assert_false(aborts(ask_for_a_little));
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
