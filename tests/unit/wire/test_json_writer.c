#include "support.h"

WIRE_TEST(writer__adds_commas_and_quotes)
{
    struct json_writer json;
    json_writer_init(&json, &fixture->out);
    json_write_object(&json);
    json_write_key(&json, "a");
    json_write_array(&json);
    json_write_u64(&json, UINT64_MAX);
    json_write_i64(&json, INT64_MIN);
    json_write_i64(&json, 0);
    json_write_bool(&json, true);
    json_write_bool(&json, false);
    json_write_null(&json);
    json_write_array(&json);
    json_write_array_end(&json);
    json_write_object(&json);
    json_write_object_end(&json);
    json_write_array_end(&json);
    json_write_key_text(&json, TEXT("b\"c"));
    json_write_raw(&json, TEXT("{\"x\" : 1}"));
    json_write_key(&json, "d");
    json_write_str(&json, "");
    json_write_object_end(&json);
    assert_string_equal(fixture->out.data,
                        "{\"a\":[18446744073709551615,-9223372036854775808,0,true,false,null,[],{}]"
                        ",\"b\\\"c\":{\"x\" : 1},\"d\":\"\"}");
}

WIRE_TEST(writer__text_is_read_back)
{
    static const struct text value[] = {
        TEXT(""),
        TEXT("plain"),
        TEXT("\"\\/\b\f\n\r\t\x01\x1F\x7F"),
        TEXT("12345678\"12345678\\"),
        TEXT("\xC3\xA9 \xF0\x9F\x98\x80 <&>"),
        TEXT("a\0b"),
    };
    for (size_t i = 0; i < ARRAY_LEN(value); i++) {
        struct json_writer json;
        struct json_reader in;
        struct text out;
        strbuf_reset(&fixture->out);
        json_writer_init(&json, &fixture->out);
        json_write_text(&json, value[i]);
        json_reader_init(&in, exact(fixture, (struct text){fixture->out.data, fixture->out.len}),
                         "x", &fixture->arena, &fixture->err);
        assert_true(json_read_string(&in, &out));
        assert_int_equal(json_reader_finish(&in), 0);
        assert_true(text_eq(out, value[i]));
    }
}

WIRE_TEST(writer__replaces_bytes_that_are_not_utf8)
{
    struct json_writer json;
    json_writer_init(&json, &fixture->out);
    json_write_text(&json, TEXT("a\xFFz"));
    assert_string_equal(fixture->out.data, "\"a\xEF\xBF\xBDz\"");
}
