#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/err.h"

#include "support/test.h"

TEST(err_set__writes_code_and_text)
{
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_NOT_FOUND, "node %s", "n-1"), -(int)ERR_NOT_FOUND);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.text, "node n-1");
}

TEST(err_wrap__prefixes_the_noun_and_keeps_the_code)
{
    struct err err = {0};
    (void)err_set(&err, ERR_IO, "read: short");
    assert_int_equal(err_wrap(&err, "bind %s/%s", "default", "web-0"), -(int)ERR_IO);
    assert_string_equal(err.text, "bind default/web-0: read: short");
    assert_int_equal(err_wrap(&err, "again"), -(int)ERR_IO);
    assert_string_equal(err.text, "again: bind default/web-0: read: short");
}

TEST(err__ends_in_dots_when_cut)
{
    char longest[ERR_TEXT_MAX];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    struct err err = {0};

    (void)err_set(&err, ERR_INVALID, "%s", longest);
    assert_string_equal(err.text, longest); /* fits to the last byte */
    (void)err_set(&err, ERR_INVALID, "%s%s%s", longest, longest, longest);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
    assert_string_equal(err.text + ERR_TEXT_MAX - 5, "x...");

    (void)err_set(&err, ERR_INVALID, "tail");
    (void)err_wrap(&err, "%s", longest);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
    assert_string_equal(err.text + ERR_TEXT_MAX - 5, "x...");

    (void)err_set(&err, ERR_INVALID, "%s", longest);
    (void)err_wrap(&err, "noun");
    assert_memory_equal(err.text, "noun: xxx", 9);
    assert_string_equal(err.text + ERR_TEXT_MAX - 5, "x...");
}

TEST(err__is_not_cut_inside_a_character)
{
    struct err err = {0};
    char text[ERR_TEXT_MAX + 8];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        (void)err_set(&err, ERR_INVALID, "%s", text);
        const char *dots = strstr(err.text, "...");
        assert_non_null(dots);
        assert_string_equal(dots - 3, "\xE2\x82\xAC...");
    }
}

TEST(err_status__covers_every_code)
{
    for (int code = ERR_NONE; code < ERR_CODES; code++)
        assert_in_range(err_status((enum err_code)code), 200, 599);
    assert_int_equal(err_status(ERR_CONFLICT), 409);
}
