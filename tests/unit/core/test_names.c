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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_text_is_the_same_atom),
        cmocka_unit_test(the_empty_text_and_bytes_of_zero_are_names_too),
        cmocka_unit_test(atoms_stay_where_they_are_while_the_table_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
