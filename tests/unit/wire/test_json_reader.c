#include "support.h"
#include "wire/json/scan.h"

static void start(struct fixture *fixture, struct json_reader *in, struct text bytes)
{
    json_reader_init(in, exact(fixture, bytes), "body", &fixture->arena, &fixture->err);
}

static int skip_all(struct fixture *fixture, struct text bytes)
{
    struct json_reader in;
    start(fixture, &in, bytes);
    (void)json_read_skip(&in);
    return json_reader_finish(&in);
}

WIRE_TEST(skip__takes_each_kind_of_value_with_any_space)
{
    static const char *const good[] = {
        "null",
        "true",
        " false ",
        "\t\r\n0\n",
        "-0",
        "12.5e-3",
        "1E+400",
        "\"\"",
        "\"plain\"",
        "{}",
        "[ ]",
        "[1,[2,[3,{}]],\"x\",null]",
        "{\"a\":{\"b\":[{\"c\":1}]},\"\":2 , \"d\" : [ ] }",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\ud83d\\ude00\"",
        "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xEF\xBF\xBF \xF4\x8F\xBF\xBF\"",
        "\"\x7F\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (skip_all(fixture, text_of(good[i])) != 0)
            fail_msg("%s: %s", good[i], fixture->err.text);
}

/* Reads a value token by token, as a decoder does. */
static void walk(struct json_reader *in)
{
    struct text text;
    bool flag;

    switch (json_read_peek(in)) {
    case JSON_TYPE_OBJECT:
        (void)json_read_object(in);
        while (json_read_key(in, &text))
            walk(in);
        break;
    case JSON_TYPE_ARRAY:
        (void)json_read_array(in);
        while (json_read_element(in))
            walk(in);
        break;
    case JSON_TYPE_STRING:
        (void)json_read_string(in, &text);
        break;
    case JSON_TYPE_TRUE:
    case JSON_TYPE_FALSE:
        (void)json_read_bool(in, &flag);
        break;
    default:
        (void)json_read_skip(in);
    }
}

/* Each byte of a document, replaced by others, and each of its beginnings. */
WIRE_TEST(skip__accepts_what_the_reader_accepts)
{
    static const char document[] = " {\"a\" : [1, -2.5e3,true ,{}, [ ],[[\"x\\\"y\\\\\"]]],"
                                   "\"longer than eight\":{\"b\":null,\"c\":[{\"d\":false}]}}\n";
    static const char others[] = "{}[]\",:\\ 0-.etn\t\x01";
    char changed[sizeof document];
    struct json_reader in;
    size_t accepted = 0;

    for (size_t at = 0; at + 1 < sizeof document; at++)
        for (size_t i = 0; i < sizeof others; i++) {
            const bool cut = others[i] == '\0';
            memcpy(changed, document, sizeof document);
            changed[at] = others[i];
            const struct text text = {changed, cut ? at : sizeof document - 1};
            start(fixture, &in, text);
            walk(&in);
            const bool good = json_reader_finish(&in) == 0;
            accepted += good;
            if ((skip_all(fixture, text) == 0) != good)
                fail_msg("%.*s", (int)text.len, text.at);
        }
    assert_true(accepted > sizeof document);
}

/* Deeper than scan_value() goes, and deeper than levels have paths. */
WIRE_TEST(skip__goes_as_deep_as_the_limit)
{
    static const uint32_t depth[] = {SCAN_DEPTH_MAX - 1, SCAN_DEPTH_MAX, SCAN_DEPTH_MAX + 1,
                                     JSON_DEPTH_MAX, JSON_DEPTH_MAX + 1};

    for (size_t i = 0; i < ARRAY_LEN(depth); i++) {
        char nested[2 * (JSON_DEPTH_MAX + 1)];
        memset(nested, '[', depth[i]);
        memset(nested + depth[i], ']', depth[i]);
        assert_int_equal(skip_all(fixture, (struct text){nested, 2 * depth[i]}), 0);
        assert_true(skip_all(fixture, (struct text){nested, 2 * depth[i] - 1}) < 0);
        nested[2 * depth[i] - 1] = '}';
        assert_true(skip_all(fixture, (struct text){nested, 2 * depth[i]}) < 0);
    }
}

WIRE_TEST(skip__refuses_malformed_json_and_names_the_place)
{
    static const struct wire_case bad[] = {
        {"", "expected a value, found the end"},
        {"   ", "found the end at byte 3"},
        {"x", "found 'x' at byte 0"},
        {"\xEF\xBB\xBF{}", "found byte 0xef at byte 0"},
        {"nul", "expected a value"},
        {"True", "found 'T'"},
        {"{", "expected a key in quotes, found the end at byte 1"},
        {"[", "body[0]: expected a value, found the end"},
        {"[1", "found the end"},
        {"[1 2]", "expected ',' or ']', found a number at byte 3"},
        {"[1,]", "body[1]: expected a value, found ']'"},
        {"[,1]", "body[0]: expected a value, found ','"},
        {"{\"a\":1,}", "expected a key in quotes, found '}'"},
        {"{\"a\" 1}", "body.a: expected ':', found a number"},
        {"{\"a\":}", "body.a: expected a value, found '}'"},
        {"{a:1}", "expected a key in quotes, found 'a'"},
        {"{1:1}", "expected a key in quotes, found a number"},
        {"{\"a\":1 \"b\":2}", "expected ',' or '}', found a string"},
        {"[1}", "expected ',' or ']', found '}'"},
        {"{\"a\":1]", "expected ',' or '}', found ']'"},
        {"'a'", "found ''' at byte 0"},
        {"{} {}", "2 bytes after the value, at byte 3"},
        {"1 x", "1 bytes after the value"},
        {"// c\n1", "found '/'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(skip_all(fixture, text_of(bad[i].bytes)), -ERR_INVALID);
        assert_says(fixture, bad[i].says);
    }
}

WIRE_TEST(number__follows_the_grammar)
{
    static const char *const bad[] = {"01",  "-",        "+1", ".5",  "1.",  "1e",
                                      "1e+", "-a",       "00", "0x1", "-01", "1.e1",
                                      "NaN", "Infinity", "1f", "1_0", "--1", "1e1.5"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (skip_all(fixture, text_of(bad[i])) == 0)
            fail_msg("%s was taken", bad[i]);
}

static int read_all(struct fixture *fixture, struct text bytes)
{
    struct json_reader in;
    struct text text;
    start(fixture, &in, bytes);
    (void)json_read_string(&in, &text);
    return json_reader_finish(&in);
}

WIRE_TEST(string__that_is_broken_is_refused)
{
    static const struct {
        struct text bytes;
        const char *says;
    } bad[] = {
        {TEXT("\"abc"), "a string that does not end"},
        {TEXT("\"a\\"), "starts no valid escape"},
        {TEXT("\"a\\\""), "does not end"},
        {TEXT("\"a\0b\""), "control character"},
        {TEXT("\"a\nb\""), "control character"},
        {TEXT("\"\x1F\""), "control character"},
        {TEXT("\"1234567\t\""), "at byte 8"},
        {TEXT("\"\\x41\""), "starts no valid escape"},
        {TEXT("\"\\u12\""), "starts no valid escape"},
        {TEXT("\"\\u12g4\""), "starts no valid escape"},
        {TEXT("\"\\ud800\""), "starts no valid escape"},
        {TEXT("\"\\udc00\""), "starts no valid escape"},
        {TEXT("\"\\ud800\\u0041\""), "starts no valid escape"},
        {TEXT("\"\\ud800\\ud800\""), "starts no valid escape"},
        {TEXT("\"\\ud83d\\ude0"), "starts no valid escape"},
        {TEXT("\"\x80\""), "not UTF-8, at byte 1"},
        {TEXT("\"\xC0\x80\""), "not UTF-8"},
        {TEXT("\"\xC1\xBF\""), "not UTF-8"},
        {TEXT("\"\xC3\""), "not UTF-8"},
        {TEXT("\"\xC3"), "not UTF-8"},
        {TEXT("\"\xE0\x80\x80\""), "not UTF-8"},
        {TEXT("\"\xE0\x9F\xBF\""), "not UTF-8"},
        {TEXT("\"\xED\xA0\x80\""), "not UTF-8"},
        {TEXT("\"\xF0\x8F\xBF\xBF\""), "not UTF-8"},
        {TEXT("\"\xF4\x90\x80\x80\""), "not UTF-8"},
        {TEXT("\"\xF5\x80\x80\x80\""), "not UTF-8"},
        {TEXT("\"\xFF\""), "not UTF-8"},
        {TEXT("\"\xE2\x82"), "not UTF-8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(read_all(fixture, bad[i].bytes), -ERR_INVALID);
        assert_says(fixture, bad[i].says);
    }
}

/* As in Go: a value that is skipped must follow the grammar only. */
WIRE_TEST(skipped_string__needs_no_meaning)
{
    static const char *const good[] = {
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\x80\"",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "\"\xFF\"",
        "{\"f:\\ud800\":{\"\xFF\":{}}}",
    };
    static const char *const bad[] = {
        "\"abc", "\"a\\", "\"a\nb\"", "\"\x1F\"", "\"\\x41\"", "\"\\u12\"", "\"\\u12g4\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (skip_all(fixture, text_of(good[i])) != 0)
            fail_msg("%s: %s", good[i], fixture->err.text);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (skip_all(fixture, text_of(bad[i])) == 0)
            fail_msg("%s was taken", bad[i]);
}

WIRE_TEST(string__with_a_bad_byte_is_refused_wherever_it_stands)
{
    static const char odd[] = {'"', '\\', '\x01', '\x1F', '\x80', '\xFF', '\0'};
    for (size_t o = 0; o < ARRAY_LEN(odd); o++)
        for (size_t at = 1; at < 40; at++) {
            char bytes[42];
            memset(bytes, 'z', sizeof bytes);
            bytes[0] = '"';
            bytes[sizeof bytes - 1] = '"';
            bytes[at] = odd[o];
            if (read_all(fixture, (struct text){bytes, sizeof bytes}) == 0)
                fail_msg("byte 0x%02x at %zu was taken", (unsigned char)odd[o], at);
        }
}

WIRE_TEST(depth__is_bounded)
{
    enum { FAR = 4 * 1000 * 1000 };
    struct json_reader in;
    char bytes[JSON_DEPTH_MAX + 1];
    memset(bytes, '[', sizeof bytes);
    start(fixture, &in, (struct text){bytes, sizeof bytes});
    while (json_read_array(&in) && json_read_element(&in))
        assert_true(in.depth <= JSON_DEPTH_MAX);
    assert_int_equal(json_reader_finish(&in), -ERR_TOO_LARGE);
    assert_says(fixture, "deeper than 96 levels (JSON_DEPTH_MAX)");

    char *many = malloc(FAR);
    memset(many, '[', FAR);
    assert_int_equal(skip_all(fixture, (struct text){many, FAR}), -ERR_TOO_LARGE);
    free(many);
}

static struct text one_string(struct fixture *fixture, struct text bytes)
{
    struct json_reader in;
    struct text out = TEXT("?");
    start(fixture, &in, bytes);
    (void)json_read_string(&in, &out);
    if (json_reader_finish(&in) != 0)
        fail_msg("%s", fixture->err.text);
    return out;
}

WIRE_TEST(string__is_borrowed_without_escapes_and_decoded_with_them)
{
    struct json_reader in;
    struct text out;
    start(fixture, &in, TEXT("\"gpu-node-0001.example\""));
    assert_true(json_read_string(&in, &out));
    assert_true(out.at == in.begin + 1);
    assert_true(text_is(out, "gpu-node-0001.example"));

    assert_true(text_is(one_string(fixture, TEXT("\"\\u003ca\\u003e \\u0026 b\"")), "<a> & b"));
    assert_true(
        text_is(one_string(fixture, TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")), "\"\\/\b\f\n\r\t"));
    assert_true(text_is(one_string(fixture, TEXT("\"\\u00e9\\u20AC\\ud83d\\ude00\"")),
                        "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
    assert_true(
        text_is(one_string(fixture, TEXT("\"\\u2028x\\uffff\"")), "\xE2\x80\xA8x\xEF\xBF\xBF"));
    assert_true(text_eq(one_string(fixture, TEXT("\"a\\u0000b\"")), TEXT("a\0b")));
}

WIRE_TEST(cstring__has_no_inner_nul)
{
    struct json_reader in;
    const char *out;
    start(fixture, &in, TEXT("\"abc\""));
    assert_true(json_read_cstring(&in, &out));
    assert_string_equal(out, "abc");
    start(fixture, &in, TEXT("\"a\\u0062c\""));
    assert_true(json_read_cstring(&in, &out));
    assert_string_equal(out, "abc");
    start(fixture, &in, TEXT("\"a\\u0000\""));
    assert_false(json_read_cstring(&in, &out));
    assert_int_equal(json_reader_finish(&in), -ERR_INVALID);
    assert_says(fixture, "body: must not hold a NUL");
}

WIRE_TEST(name__is_not_empty_and_not_longer_than_its_limit)
{
    struct json_reader in;
    struct text out;
    start(fixture, &in, TEXT("\"abc\""));
    assert_true(json_read_name(&in, 3, &out));
    start(fixture, &in, TEXT("\"abcd\""));
    assert_false(json_read_name(&in, 3, &out));
    assert_int_equal(json_reader_finish(&in), -ERR_TOO_LARGE);
    assert_says(fixture, "has 4 bytes, more than 3");
    start(fixture, &in, TEXT("\"\""));
    assert_false(json_read_name(&in, 3, &out));
    assert_says(fixture, "must not be empty");
    start(fixture, &in, TEXT("\"\\u0000\""));
    assert_false(json_read_name(&in, 3, &out));
    assert_says(fixture, "NUL");
}

WIRE_TEST(whole_number__is_exact)
{
    static const struct {
        const char *bytes;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"0.0", 0},
        {"0e400", 0},
        {"0e999999999999999999999", 0},
        {"300", 300},
        {"3e2", 300},
        {"3E+2", 300},
        {"300.000", 300},
        {"30000e-2", 300},
        {"0.3e3", 300},
        {"0.0003e6", 300},
        {"-7", -7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"92233720368547758070e-1", INT64_MAX},
        {"9.223372036854775807e18", INT64_MAX},
        {"1.00000000000000000000000000000000000000000", 1},
        {"100000000000000000000000000000e-29", 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct json_reader in;
        int64_t out = -1;
        start(fixture, &in, text_of(good[i].bytes));
        (void)json_read_i64(&in, &out);
        if (json_reader_finish(&in) != 0 || out != good[i].value)
            fail_msg("%s became %lld", good[i].bytes, (long long)out);
    }
}

WIRE_TEST(whole_number__with_a_fraction_or_too_large_is_refused)
{
    static const struct wire_case bad[] = {
        {"0.5", "body: is 0.5, but must be a whole number"},
        {"1e-1", "whole number"},
        {"1e-999999999999999999", "whole number"},
        {"123456789012345678901234567890.5", "whole number"},
        {"1e400", "is 1e400, beyond what 63 bits can hold"},
        {"9223372036854775808", "63 bits"},
        {"-9223372036854775809", "63 bits"},
        {"18446744073709551616", "63 bits"},
        {"99999999999999999999999999999999", "63 bits"},
        {"1e99999999999999999999999", "63 bits"},
        {"\"1\"", "expected a whole number, found a string"},
        {"null", "expected a whole number, found 'n'"},
        {"01", "after the value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct json_reader in;
        int64_t out = 77;
        start(fixture, &in, text_of(bad[i].bytes));
        (void)json_read_i64(&in, &out);
        if (json_reader_finish(&in) == 0)
            fail_msg("%s became %lld", bad[i].bytes, (long long)out);
        if (strcmp(bad[i].bytes, "01") != 0)
            assert_says(fixture, bad[i].says);
    }
}

WIRE_TEST(wrong_type__is_reported_with_path_and_expectation)
{
    struct json_reader in;
    struct text key;
    struct text value;
    bool flag;
    start(fixture, &in, TEXT("{\"a\":[0,{\"b.c/d\":1}]}"));
    assert_true(json_read_object(&in));
    assert_true(json_read_key(&in, &key));
    assert_true(json_read_array(&in));
    assert_true(json_read_element(&in));
    assert_true(json_read_skip(&in));
    assert_true(json_read_element(&in));
    assert_true(json_read_object(&in));
    assert_true(json_read_key(&in, &key));
    assert_false(json_read_string(&in, &value));
    assert_says(fixture, "body.a[1][\"b.c/d\"]: expected a string, found a number at byte 17");

    start(fixture, &in, TEXT("1"));
    assert_false(json_read_bool(&in, &flag));
    assert_says(fixture, "expected true or false, found a number");
    start(fixture, &in, TEXT("[]"));
    assert_false(json_read_object(&in));
    assert_says(fixture, "expected an object, found an array");
    start(fixture, &in, TEXT("{}"));
    assert_false(json_read_array(&in));
    assert_says(fixture, "expected an array, found an object");
}

WIRE_TEST(first_error__sticks)
{
    struct json_reader in;
    struct text text;
    int64_t number;
    bool flag;
    const char *string;
    start(fixture, &in, TEXT("[1,2]"));
    assert_false(json_read_object(&in));
    char first[ERR_TEXT_MAX];
    memcpy(first, fixture->err.text, sizeof first);

    assert_int_equal(json_read_peek(&in), JSON_TYPE_BAD);
    assert_false(json_read_array(&in));
    assert_false(json_read_string(&in, &text));
    assert_false(json_read_cstring(&in, &string));
    assert_false(json_read_i64(&in, &number));
    assert_false(json_read_bool(&in, &flag));
    assert_false(json_read_null(&in));
    assert_false(json_read_skip(&in));
    assert_false(json_read_raw(&in, &text));
    json_reader_fail(&in, "another");
    assert_int_equal(json_reader_finish(&in), -ERR_INVALID);
    assert_string_equal(fixture->err.text, first);
}

/* The length counts from the begin, with the spaces there, and not those behind. */
WIRE_TEST(stop__gives_the_length_of_a_value_before_others)
{
    struct json_reader in;
    struct json_reader list;
    struct text text;
    start(fixture, &in, TEXT(" {\"a\":[1]} ,2]"));
    assert_true(json_read_skip(&in));
    assert_int_equal(json_reader_stop(&in), 10);
    start(fixture, &in, TEXT("[1}"));
    assert_false(json_read_skip(&in));
    assert_int_equal(json_reader_stop(&in), 0);

    start(fixture, &list, TEXT("[{\"a\":1},\"b\"]"));
    assert_true(json_read_array(&list));
    assert_true(json_read_element(&list));
    json_read_past(&list, 7);
    assert_true(json_read_element(&list));
    assert_true(json_read_string(&list, &text));
    assert_true(text_is(text, "b"));
    assert_false(json_read_element(&list));
    assert_int_equal(json_reader_finish(&list), 0);
}

WIRE_TEST(raw__gives_the_bytes_of_one_value)
{
    struct json_reader in;
    struct text raw;
    start(fixture, &in, TEXT("  {\"a\": [1, 2]} \n{\"b\":0}"));
    assert_true(json_read_raw(&in, &raw));
    assert_true(text_is(raw, "{\"a\": [1, 2]}"));
}

WIRE_TEST(null__is_taken_only_where_it_is_whole)
{
    struct json_reader in;
    start(fixture, &in, TEXT("null"));
    assert_true(json_read_null(&in));
    assert_int_equal(json_reader_finish(&in), 0);
    start(fixture, &in, TEXT("nil"));
    assert_false(json_read_null(&in));
    assert_int_equal(json_reader_finish(&in), -ERR_INVALID);
    start(fixture, &in, TEXT("0"));
    assert_false(json_read_null(&in));
    assert_true(json_read_skip(&in));
}

WIRE_TEST(string_list__is_the_same_in_any_spelling)
{
    static const char *const good[] = {"[\"a\",\"b\",\"c\"]", " [ \"a\" , \"b\" ,\"c\" ] ",
                                       "[\"\\u0061\",\"\\u0062\",\"c\"]"};
    static const char *const bad[] = {
        "[\"a\",\"b\" \"c\"]", "[\"a\",\"b\",]",   "[,\"a\"]",
        "[\"a\",\"b",          "[\"a\",",          "[\"a\"",
        "[\"a\",1]",           "[\"a\",\"\x01\"]", "[\"a\",\"\xFF\"]"};
    struct text out;
    struct json_reader in;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        start(fixture, &in, text_of(good[i]));
        assert_true(json_read_array(&in));
        for (char c = 'a'; c <= 'c'; c++) {
            assert_true(json_read_string_element(&in, &out));
            assert_true(out.len == 1 && out.at[0] == c);
        }
        assert_false(json_read_string_element(&in, &out));
        assert_int_equal(json_reader_finish(&in), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        start(fixture, &in, text_of(bad[i]));
        assert_true(json_read_array(&in));
        while (json_read_string_element(&in, &out))
            ;
        assert_int_equal(json_reader_finish(&in), -ERR_INVALID);
    }
}

static const char *const keys[] = {"name", "UID"};

static int read_fields(struct fixture *fixture, const char *bytes, struct text value[2])
{
    struct json_read_fields fields = JSON_FIELDS(keys);
    struct json_reader in;
    int key;
    value[0] = value[1] = TEXT("-");
    start(fixture, &in, text_of(bytes));
    if (json_read_object(&in))
        while (json_read_field(&in, &fields, &key))
            (void)json_read_string(&in, &value[key]);
    return json_reader_finish(&in);
}

WIRE_TEST(fields__come_in_any_order_and_case_and_null_is_none)
{
    struct text value[2];
    assert_int_equal(
        read_fields(fixture, "{\"UID\":\"u\",\"x\":{\"name\":[]},\"name\":\"n\"}", value), 0);
    assert_true(text_is(value[0], "n") && text_is(value[1], "u"));
    assert_int_equal(read_fields(fixture, "{\"uid\":\"u\",\"NAME\":\"n\"}", value), 0);
    assert_true(text_is(value[0], "n") && text_is(value[1], "u"));
    assert_int_equal(read_fields(fixture, "{\"\\u0055ID\":\"u\",\"name\":null}", value), 0);
    assert_true(text_is(value[0], "-") && text_is(value[1], "u"));
    assert_int_equal(read_fields(fixture, "{\"nam\":1,\"names\":2,\"\":3}", value), 0);
    assert_true(text_is(value[0], "-") && text_is(value[1], "-"));
}

WIRE_TEST(fields__may_come_once)
{
    struct text value[2];
    assert_int_equal(read_fields(fixture, "{\"name\":\"a\",\"name\":\"a\"}", value), -ERR_INVALID);
    assert_says(fixture, "body.name: comes twice");
    assert_int_equal(read_fields(fixture, "{\"uid\":\"a\",\"UID\":\"a\"}", value), -ERR_INVALID);
    assert_says(fixture, "body.UID: comes twice");
    assert_int_equal(read_fields(fixture, "{\"name\":null,\"name\":\"a\"}", value), -ERR_INVALID);
    assert_int_equal(read_fields(fixture, "{\"x\":1,\"x\":2}", value), 0);
}

WIRE_TEST(path__is_short_and_printable)
{
    enum { LONG = 2000 };
    char bytes[LONG + 64];
    int at = snprintf(bytes, sizeof bytes, "{\"a\\n\\u0007%%s%%n\":{\"");
    memset(bytes + at, 'k', LONG);
    at += LONG;
    at += snprintf(bytes + at, sizeof bytes - (size_t)at, "\":!}}");
    struct json_reader in;
    struct text key;
    start(fixture, &in, (struct text){bytes, (size_t)at});
    assert_true(json_read_object(&in) && json_read_key(&in, &key));
    assert_true(json_read_object(&in) && json_read_key(&in, &key));
    assert_false(json_read_skip(&in));
    assert_says(fixture, "body[\"a??%s%n\"].kkkkk");
    assert_says(fixture, "kkk...: expected a value, found '!'");
    assert_true(strlen(fixture->err.text) < 200);
}

/* {"a":[{"a":[ ... ]}]}, with something beside each level. */
static void nest(struct strbuf *out, int deep)
{
    strbuf_reset(out);
    for (int i = 0; i < deep; i++)
        strbuf_str(out, i % 2 == 0 ? "{\"x\" : {} , \"a\":" : "[ 1, [ ] ,\"\\\"\", ");
    strbuf_str(out, "null");
    for (int i = deep; i-- > 0;)
        strbuf_str(out, i % 2 == 0 ? ", \"z\":-1e3 }" : " , true ]");
}

WIRE_TEST(skip__checks_deep_nesting)
{
    static const int depths[] = {0, 1, 2, 95, 96, 97, 98, 160, 161, 5000, JSON_SKIP_DEPTH_MAX};
    struct strbuf text;
    strbuf_init(&text);
    for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
        nest(&text, depths[i]);
        const struct text whole = {text.data, text.len};
        if (skip_all(fixture, whole) != 0)
            fail_msg("%d: %s", depths[i], fixture->err.text);
        for (size_t cut = 1; cut < 40 && cut < whole.len && depths[i] > 0; cut++)
            assert_int_equal(skip_all(fixture, (struct text){text.data, text.len - cut}),
                             -ERR_INVALID);
    }
    nest(&text, 200);
    for (size_t at = 0; at < text.len; at++) {
        static const char wrong[] = "}],:\"x";
        const char was = text.data[at];
        for (size_t i = 0; i < sizeof wrong - 1; i++) {
            text.data[at] = wrong[i];
            struct json_reader in;
            json_reader_init(&in, (struct text){text.data, text.len}, "body", &fixture->arena,
                             &fixture->err);
            (void)json_read_skip(&in);
            const bool good = json_reader_finish(&in) == 0;
            if (good && was != wrong[i] && was != 'x' && was != 'a' && was != 'z' && was != '"')
                fail_msg("%c for %c at %zu was taken", wrong[i], was, at);
        }
        text.data[at] = was;
    }
    nest(&text, JSON_DEPTH_MAX + JSON_SKIP_DEPTH_MAX + 1);
    assert_int_equal(skip_all(fixture, (struct text){text.data, text.len}), -ERR_TOO_LARGE);
    assert_says(fixture, "deeper than 10240 levels (JSON_SKIP_DEPTH_MAX)");
    strbuf_done(&text);
}

WIRE_TEST(retreat__goes_on_behind_a_failed_value)
{
    struct json_reader in;
    const char *text = NULL;
    start(fixture, &in, TEXT("[{\"a\":[1,{\"b\":\"\\u0000\"}],\"c\":2}, \"next\"]"));
    assert_true(json_read_array(&in) && json_read_element(&in));
    const struct json_reader_mark mark = json_reader_mark(&in);
    assert_true(json_read_object(&in));
    struct text key;
    assert_true(json_read_key(&in, &key) && json_read_array(&in) && json_read_element(&in) &&
                json_read_skip(&in));
    assert_true(json_read_element(&in) && json_read_object(&in) && json_read_key(&in, &key));
    assert_false(json_read_cstring(&in, &text));
    assert_says(fixture, "body[0].a[1].b: must not hold a NUL");
    assert_true(json_reader_retreat(&in, mark));
    assert_true(json_read_element(&in) && json_read_cstring(&in, &text));
    assert_string_equal(text, "next");
    assert_false(json_read_element(&in));
    assert_int_equal(json_reader_finish(&in), 0);

    start(fixture, &in, TEXT("[{\"a\":7,]"));
    assert_true(json_read_array(&in) && json_read_element(&in));
    const struct json_reader_mark broken = json_reader_mark(&in);
    assert_false(json_read_cstring(&in, &text));
    assert_false(json_reader_retreat(&in, broken));
    assert_int_equal(json_reader_finish(&in), -ERR_INVALID);
    assert_says(fixture, "expected a key in quotes");
}
