#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/names.h"

static void the_same_text_is_the_same_atom(void **state)
{
    (void)state;
    struct names *names = names_new();
    char text[] = "node-1";
    const struct atom *one = names_intern(names, text_of(text));
    text[0] = 'x'; /* the atom has its own bytes */
    assert_ptr_equal(names_intern(names, TEXT("node-1")), one);
    assert_ptr_equal(names_find(names, TEXT("node-1")), one);
    assert_string_equal(one->text, "node-1");
    assert_int_equal(one->len, 6);
    assert_int_equal(one->hash, text_hash(TEXT("node-1")));
    assert_true(text_is(atom_text(one), "node-1"));
    assert_null(names_find(names, TEXT("node-2")));
    assert_int_equal(names_count(names), 1);
    assert_null(names_find(names, TEXT("xode-1")));
    names_free(names);
}

static void the_empty_text_and_bytes_of_zero_are_names_too(void **state)
{
    (void)state;
    struct names *names = names_new();
    assert_null(names_find(names, TEXT("")));
    const struct atom *empty = names_intern(names, (struct text){0});
    assert_ptr_equal(names_intern(names, TEXT("")), empty);
    assert_int_equal(empty->len, 0);
    assert_string_equal(empty->text, "");
    assert_ptr_not_equal(names_intern(names, TEXT("\0")), empty);
    names_free(names);
}

static void atoms_stay_where_they_are_while_the_table_grows(void **state)
{
    (void)state;
    enum { NAMES = 20000 };
    static const struct atom *atom[NAMES];
    char text[32];
    struct names *names = names_new();
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(text, sizeof text, "GPU-%08x", (unsigned)i);
        atom[i] = names_intern(names, text_of(text));
    }
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(text, sizeof text, "GPU-%08x", (unsigned)i);
        assert_ptr_equal(names_find(names, text_of(text)), atom[i]);
        assert_string_equal(atom[i]->text, text);
    }
    names_free(names);
    names_free(NULL);
}

static struct text numbered(char text[16], uint64_t number)
{
    (void)snprintf(text, 16, "%u", (unsigned)number);
    return text_of(text);
}

static int by_hash(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void two_names_of_one_hash_are_two_names(void **state)
{
    (void)state;
    enum { NUMBERS = 1 << 18 }; /* so many that some are sure to share a hash */
    static uint64_t hashed[NUMBERS];
    char text[2][16];
    for (uint64_t i = 0; i < NUMBERS; i++)
        hashed[i] = (uint64_t)text_hash(numbered(text[0], i)) << 32 | i;
    qsort(hashed, NUMBERS, sizeof hashed[0], by_hash);
    size_t at = 1;
    while (at < NUMBERS && hashed[at] >> 32 != hashed[at - 1] >> 32)
        at++;
    assert_true(at < NUMBERS);

    struct names *names = names_new();
    const struct atom *one = names_intern(names, numbered(text[0], (uint32_t)hashed[at - 1]));
    assert_null(names_find(names, numbered(text[1], (uint32_t)hashed[at])));
    const struct atom *other = names_intern(names, text_of(text[1]));
    assert_int_equal(other->hash, one->hash);
    assert_ptr_equal(names_find(names, text_of(text[0])), one);
    assert_ptr_equal(names_find(names, text_of(text[1])), other);
    assert_string_equal(other->text, text[1]);
    names_free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_text_is_the_same_atom),
        cmocka_unit_test(the_empty_text_and_bytes_of_zero_are_names_too),
        cmocka_unit_test(two_names_of_one_hash_are_two_names),
        cmocka_unit_test(atoms_stay_where_they_are_while_the_table_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
