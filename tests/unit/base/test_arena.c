#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/arena.h"

#include "support/test.h"

static int set_up(void **state)
{
    static struct arena arena;

    arena_init(&arena);
    *state = &arena;
    return 0;
}

static int tear_down(void **state)
{
    arena_done(*state);
    return 0;
}

#define ARENA_TEST(name) TEST_WITH(name, struct arena *arena, set_up, tear_down)

ARENA_TEST(arena_alloc__is_zero_and_aligned_also_when_reused)
{
    static const unsigned char zero[257] = {0};
    for (int round = 0; round < 3; round++) {
        for (size_t bytes = 0; bytes < sizeof zero; bytes++) {
            unsigned char *memory = arena_alloc(arena, bytes);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
            assert_memory_equal(memory, zero, bytes);
            memset(memory, 0xAA, bytes);
        }
        arena_reset(arena);
    }
}

ARENA_TEST(arena_array__returns_pieces_that_do_not_overlap)
{
    enum { PIECES = 2000 };
    static unsigned char *piece[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        piece[i] = arena_array(arena, i % 97, 3);
        memset(piece[i], (int)(i & 0xFF), i % 97 * 3);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t k = 0; k < i % 97 * 3; k++)
            assert_int_equal(piece[i][k], i & 0xFF);
}

ARENA_TEST(arena_reset__keeps_the_largest_chunk)
{
    enum { LARGE = 3 * 1024 * 1024 };
    assert_non_null(arena_alloc(arena, 10));
    void *large = arena_alloc(arena, LARGE);
    assert_non_null(arena_alloc(arena, 1024)); /* in a newer, smaller chunk */
    arena_reset(arena);
    assert_ptr_equal(arena_alloc(arena, LARGE), large);
}

TEST(arena_done__accepts_an_empty_arena)
{
    struct arena arena;
    arena_init(&arena);
    arena_reset(&arena);
    arena_done(&arena);
    arena_done(&arena);
}

ARENA_TEST(arena_trim__frees_chunks_above_its_limit)
{
    assert_int_equal(arena_bytes(arena), 0);
    assert_non_null(arena_copy(arena, (struct text){"abc", 3}));
    arena_trim(arena, 65536);
    const size_t small = arena_bytes(arena);
    assert_true(small > 0 && small <= 65536);
    memset(arena_alloc(arena, 1000000), 'x', 1000000);
    assert_true(arena_bytes(arena) > 1000000);
    arena_trim(arena, 65536);
    assert_int_equal(arena_bytes(arena), 0);
}

TEST(arena_init_of__allocates_one_chunk_of_the_given_size)
{
    struct arena loose;
    struct arena tight;
    arena_init(&loose);
    for (int i = 0; i < 1000; i++)
        assert_non_null(arena_printf(&loose, "%0*d", i % 100, i));
    arena_init_of(&tight, arena_used(&loose));
    const size_t bytes = arena_bytes(&tight);
    for (int i = 0; i < 1000; i++)
        assert_non_null(arena_printf(&tight, "%0*d", i % 100, i));
    assert_int_equal(arena_bytes(&tight), bytes);
    assert_true(bytes < arena_bytes(&loose));
    arena_done(&loose);
    assert_int_equal(arena_used(&loose), 0);
    arena_done(&tight);
}

ARENA_TEST(arena_copy__is_terminated_like_arena_printf)
{
    for (int round = 0; round < 2; round++) {
        const char *copy = arena_copy(arena, (struct text){"abcdef", 3});
        assert_string_equal(copy, "abc");
        assert_string_equal(arena_copy(arena, (struct text){0}), "");
        assert_string_equal(arena_printf(arena, "%s/gpu-%u", "n", 7U), "n/gpu-7");
        assert_string_equal(arena_printf(arena, "%s", ""), "");
        const char *wide = arena_printf(arena, "%*d", 100000, 5);
        assert_int_equal(strlen(wide), 100000);
        assert_int_equal(wide[99999], '5');
        arena_reset(arena);
    }
}
