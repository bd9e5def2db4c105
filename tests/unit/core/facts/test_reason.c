#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/core/facts/reason.h"

#include "support/test.h"

TEST(reason__has_a_unique_name_and_a_help)
{
    for (int a = REASON_NONE; a < REASONS; a++) {
        const char *name = reason_name((enum reason)a);
        assert_true(strlen(name) > 0 && strlen(reason_help((enum reason)a)) > 0);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        for (int b = REASON_NONE; b < a; b++)
            assert_string_not_equal(name, reason_name((enum reason)b));
    }
    assert_string_equal(reason_name(REASON_NONE), "fits");
    assert_string_equal(reason_name(REASON_ROOM), "room");
}

TEST(reason_class__is_in_order_of_precedence)
{
    for (int a = REASON_NONE + 2; a < REASONS; a++)
        assert_true(reason_class((enum reason)a) >= reason_class((enum reason)(a - 1)));
    assert_int_equal(reason_class(REASON_AMOUNT), REASON_CLASS_REQUEST);
    assert_int_equal(reason_class(REASON_SMALL), REASON_CLASS_KIND);
    assert_int_equal(reason_class(REASON_CORDONED), REASON_CLASS_MOMENT);
    assert_int_equal(reason_class(REASON_ELSEWHERE), REASON_CLASS_STATE);
}
