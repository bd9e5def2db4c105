#include "support.h"

static void commas_and_quotes_come_by_themselves(void **state)
{
    struct bench *bench = *state;
    struct jw jw;
    jw_init(&jw, &bench->out);
    jw_object(&jw);
    jw_key(&jw, "a");
    jw_array(&jw);
    jw_u64(&jw, UINT64_MAX);
    jw_i64(&jw, INT64_MIN);
    jw_i64(&jw, 0);
    jw_bool(&jw, true);
    jw_bool(&jw, false);
    jw_null(&jw);
    jw_array(&jw);
    jw_array_end(&jw);
    jw_object(&jw);
    jw_object_end(&jw);
    jw_array_end(&jw);
    jw_key_text(&jw, TEXT("b\"c"));
    jw_raw(&jw, TEXT("{\"x\" : 1}"));
    jw_key(&jw, "d");
    jw_str(&jw, "");
    jw_object_end(&jw);
    assert_string_equal(bench->out.data,
                        "{\"a\":[18446744073709551615,-9223372036854775808,0,true,false,null,[],{}]"
                        ",\"b\\\"c\":{\"x\" : 1},\"d\":\"\"}");
}

static void what_is_written_is_read_back(void **state)
{
    static const struct text value[] = {
        TEXT(""),
        TEXT("plain"),
        TEXT("\"\\/\b\f\n\r\t\x01\x1F\x7F"),
        TEXT("12345678\"12345678\\"),
        TEXT("\xC3\xA9 \xF0\x9F\x98\x80 <&>"),
        TEXT("a\0b"),
    };
    struct bench *bench = *state;
    for (size_t i = 0; i < ARRAY_LEN(value); i++) {
        struct jw jw;
        struct jr in;
        struct text out;
        strbuf_reset(&bench->out);
        jw_init(&jw, &bench->out);
        jw_text(&jw, value[i]);
        jr_init(&in, exact(bench, (struct text){bench->out.data, bench->out.len}), "x",
                &bench->arena, &bench->err);
        assert_true(jr_string(&in, &out));
        assert_int_equal(jr_finish(&in), 0);
        assert_true(text_eq(out, value[i]));
    }
}

static void bytes_that_are_not_utf8_are_not_handed_on(void **state)
{
    struct bench *bench = *state;
    struct jw jw;
    jw_init(&jw, &bench->out);
    jw_text(&jw, TEXT("a\xFFz"));
    assert_string_equal(bench->out.data, "\"a\xEF\xBF\xBDz\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(commas_and_quotes_come_by_themselves),
        bench_test(what_is_written_is_read_back),
        bench_test(bytes_that_are_not_utf8_are_not_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
