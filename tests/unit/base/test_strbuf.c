#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"

#include "support/document.h"
#include "support/test.h"

static int set_up(void **state)
{
    static struct strbuf buf;

    strbuf_init(&buf);
    *state = &buf;
    return 0;
}

static int tear_down(void **state)
{
    strbuf_done(*state);
    return 0;
}

#define STRBUF_TEST(name) TEST_WITH(name, struct strbuf *buf, set_up, tear_down)

TEST(strbuf__is_a_string_when_empty)
{
    struct strbuf buf;
    strbuf_init(&buf);
    assert_string_equal(buf.data, "");
    strbuf_add(&buf, NULL, 0);
    strbuf_reset(&buf);
    assert_string_equal(buf.data, "");
    CLEANUP(xfreep) char *stolen = strbuf_steal(&buf);
    assert_string_equal(stolen, "");
    strbuf_done(&buf);
    strbuf_done(&buf);
}

STRBUF_TEST(strbuf__keeps_all_that_is_added)
{
    strbuf_str(buf, "a");
    strbuf_char(buf, 'b');
    strbuf_text(buf, (struct text){"cdef", 2});
    strbuf_u64(buf, 0);
    strbuf_u64(buf, UINT64_MAX);
    strbuf_printf(buf, "[%d|%s]", -5, "x");
    assert_string_equal(buf->data, "abcd018446744073709551615[-5|x]");
    assert_int_equal(buf->len, strlen(buf->data));
    strbuf_reset(buf);
    assert_string_equal(buf->data, "");
    assert_int_equal(buf->len, 0);
}

STRBUF_TEST(strbuf__grows_over_every_border)
{
    for (size_t i = 0; i < 5000; i++) {
        strbuf_char(buf, (char)('a' + i % 26));
        assert_int_equal(buf->data[buf->len], '\0');
        assert_true(buf->len < buf->capacity);
    }
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(buf->data[i], 'a' + i % 26);
    for (int width = 1; width < 300; width++) {
        struct strbuf one;
        strbuf_init(&one);
        strbuf_printf(&one, "%*d", width, 1);
        assert_int_equal(one.len, width);
        assert_int_equal(strlen(one.data), width);
        strbuf_done(&one);
    }
}

STRBUF_TEST(strbuf_steal__leaves_an_empty_buffer)
{
    strbuf_str(buf, "mine");
    CLEANUP(xfreep) char *stolen = strbuf_steal(buf);
    assert_string_equal(stolen, "mine");
    assert_string_equal(buf->data, "");
    assert_int_equal(buf->len, 0);
}

STRBUF_TEST(strbuf_cut__removes_from_the_middle)
{
    strbuf_cut(buf, 0, 0);
    strbuf_str(buf, "abcdef");
    strbuf_cut(buf, 2, 2);
    assert_string_equal(buf->data, "abef");
    strbuf_cut(buf, 4, 0);
    strbuf_cut(buf, 3, 1);
    assert_string_equal(buf->data, "abe");
    strbuf_cut(buf, 0, 3);
    assert_string_equal(buf->data, "");
}

STRBUF_TEST(strbuf_json__escapes_and_is_always_utf8)
{
#define ROW(text, json)                                                                            \
    {                                                                                              \
        TEXT(text), json                                                                           \
    }
#define BAD "\xEF\xBF\xBD"
    static const struct {
        struct text text;
        const char *json;
    } row[] = {
        ROW("", "\"\""),
        ROW("plain", "\"plain\""),
        ROW("a\"b\\c/d", "\"a\\\"b\\\\c/d\""),
        ROW("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""),
        ROW("\0\x01\x1f\x7f", "\"\\u0000\\u0001\\u001f\\u007f\""),
        ROW("a\xE2\x80\xAE"
            "b\xC2\x9B"
            "31m",
            "\"a\\u202eb\\u009b31m\""), /* bidi override, colour code */
        ROW("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80", "\"\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80\""),
        ROW("\x80", "\"" BAD "\""),
        ROW("a\xC3", "\"a" BAD "\""),
        ROW("a\xC3z", "\"a" BAD "z\""),
        ROW("\xC0\x80", "\"" BAD BAD "\""),              /* overlong */
        ROW("\xE0\x80\x80", "\"" BAD BAD BAD "\""),      /* overlong */
        ROW("\xED\xA0\x80", "\"" BAD BAD BAD "\""),      /* a surrogate */
        ROW("\xED\x9F\xBF", "\"\xED\x9F\xBF\""),         /* the last before the surrogates */
        ROW("\xF4\x8F\xBF\xBF", "\"\xF4\x8F\xBF\xBF\""), /* the last code point */
        ROW("\xF4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""),
        ROW("\xF0\x8F\xBF\xBF", "\"" BAD BAD BAD BAD "\""),
        ROW("\xF0\x9F\x98", "\"" BAD BAD BAD "\""),
        ROW("\xF5\xFF", "\"" BAD BAD "\""),
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        strbuf_reset(buf);
        strbuf_json(buf, row[i].text);
        assert_string_equal(buf->data, row[i].json);
    }
}

STRBUF_TEST(strbuf_roff__escapes_requests)
{
    static const struct {
        const char *text;
        const char *roff;
    } row[] = {
        {"plain", "plain"},          {"--node", "\\-\\-node"},
        {"a\\b", "a\\eb"},           {".SH no heading", "\\&.SH no heading"},
        {"'quoted'", "\\&'quoted'"}, {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        strbuf_reset(buf);
        strbuf_roff(buf, row[i].text);
        assert_string_equal(buf->data, row[i].roff);
    }
}
