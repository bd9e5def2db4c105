#include <stdio.h>
#include <string.h>

#include "milligpu/document/document.h"

#include "support/test.h"

static struct arena arena;
static struct err err;

static struct document *json(const char *text)
{
    struct document *value;
    if (document_parse_json(text_of(text), "document", &arena, &value, &err) < 0)
        fail_msg("%s", err.text);
    return value;
}

static struct document *yaml(const char *text)
{
    struct document *value;
    if (document_parse_yaml(text_of(text), &arena, &value, &err) < 0)
        fail_msg("%s", err.text);
    return value;
}

static void assert_json(const struct document *value, const char *want)
{
    CLEANUP(strbuf_done) struct strbuf out;
    strbuf_init(&out);
    document_write(&out, value);
    assert_string_equal(out.data, want);
}

static int begin(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

FIXTURE_TEST(json__is_written_as_it_was_read)
{
    static const char text[] =
        "{\"a\":[1,-2.50,1e9,true,false,null,\"x\\\"\\n\"],\"b\":{},\"c\":[],\"\":\"\"}";
    assert_json(json(text), text);
    assert_json(json("17"), "17");
    assert_json(json("\"\""), "\"\"");
}

FIXTURE_TEST(json__has_one_line_per_member_when_pretty)
{
    CLEANUP(strbuf_done) struct strbuf out;
    strbuf_init(&out);
    document_write_pretty(&out, json("{\"a\":[1,{\"b\":2}],\"c\":[],\"d\":{}}"));
    assert_string_equal(out.data, "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n"
                                  "  \"c\": [],\n  \"d\": {}\n}\n");
}

FIXTURE_TEST(json_error__names_the_document)
{
    static const char *const bad[] = {"",      "{",          "[1,]",     "{\"a\"}", "nul",
                                      "1 2",   "{\"a\":1,}", "\"\xff\"", "'a'",     "[1",
                                      "{1:2}", "01",         "\"\x01\"", "+1",      "\"\\ud800\""};
    struct document *value;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        err.text[0] = '\0';
        assert_true(document_parse_json(text_of(bad[i]), "document", &arena, &value, &err) < 0);
        assert_non_null(strstr(err.text, "document"));
    }
}

FIXTURE_TEST(nesting__is_limited_in_json_and_yaml)
{
    char text[100001];
    struct document *value;
    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_true(document_parse_json(text_of(text), "document", &arena, &value, &err) < 0);
    text[1000] = '\0';
    assert_true(document_parse_yaml(text_of(text), &arena, &value, &err) < 0);
}

FIXTURE_TEST(document__reads_missing_members_as_empty)
{
    const struct document *value =
        json("{\"a\":{\"b\":\"x\",\"n\":7,\"t\":true,\"z\":null},\"x.y\":1}");
    assert_string_equal(document_shown(value, "a.b"), "x");
    assert_string_equal(document_str(value, "a.b"), "x");
    assert_int_equal(document_int(value, "a.n"), 7);
    assert_true(document_true(value, "a.t"));
    assert_null(document_at(value, "a.z"));
    assert_null(document_at(value, "a.b.c"));
    assert_null(document_at(NULL, "a"));
    assert_string_equal(document_shown(value, "a.n"), "");
    assert_string_equal(document_str(value, "a.n"), "");
    assert_int_equal(document_int(value, "a.b"), 0);
    assert_false(document_true(value, "a.b"));
    assert_non_null(document_get(value, "x.y"));
}

FIXTURE_TEST(object__is_changed_in_place)
{
    struct document *value = json("{\"a\":1,\"b\":2,\"c\":3}");
    document_set_str(&arena, value, "b", "two");
    assert_json(value, "{\"a\":1,\"b\":\"two\",\"c\":3}");
    document_remove(value, "a");
    document_remove(value, "b");
    document_remove(value, "nobody");
    assert_json(value, "{\"c\":3}");
    document_remove(value, "c");
    document_set_str(&arena, value, "d", "");
    assert_json(value, "{\"d\":\"\"}");
}

FIXTURE_TEST(yaml__becomes_an_array_of_documents)
{
    assert_json(yaml("a: 1\n---\n- x\n- {y: [2]}\n---\n"), "[{\"a\":1},[\"x\",{\"y\":[2]}],null]");
    assert_json(yaml(""), "[]");
    assert_json(yaml("# only a word\n"), "[]");
    assert_json(yaml("{\"a\": [1, \"b\"]}"), "[{\"a\":[1,\"b\"]}]");
}

/* As in go-yaml v2, with which kubectl reads (sigs.k8s.io/yaml: goyaml.v2/resolve.go). */
FIXTURE_TEST(yaml__reads_bools_and_nulls_as_kubectl_does)
{
    static const struct {
        const char *words;
        const char *json;
    } cases[] = {
        {"[true, True, TRUE]", "[true,true,true]"},
        {"[yes, Yes, YES, y, Y]", "[true,true,true,true,true]"},
        {"[on, On, ON]", "[true,true,true]"},
        {"[false, False, FALSE]", "[false,false,false]"},
        {"[no, No, NO, n, N]", "[false,false,false,false,false]"},
        {"[off, Off, OFF]", "[false,false,false]"},
        {"[~, null, Null, NULL, ]", "[null,null,null,null]"},
        {"[tRUE, yES, oN, nULL, none, truee, 't', f]",
         "[\"tRUE\",\"yES\",\"oN\",\"nULL\",\"none\",\"truee\",\"t\",\"f\"]"},
        {"[\"True\", 'yes', '', \"~\"]", "[\"True\",\"yes\",\"\",\"~\"]"},
        {"[!!str True, !!str 3, !other 3, !!binary 3]", "[\"True\",\"3\",\"3\",\"3\"]"},
        {"[!!bool yes, !!int 3, !!float 3.5, !!null ~]", "[true,3,3.5,null]"},
        {"[!!bool \"yes\", !!int '3']", "[true,3]"},
        {"{yes: no}", "{\"yes\":false}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_json(yaml(cases[i].words)->first, cases[i].json);
}

FIXTURE_TEST(yaml__reads_json_numbers_only_as_numbers)
{
    assert_json(yaml("[300, -1.5e3, 007, 0x1f, 1., .5, 1_000, +1, '', \"1\", 300m]"),
                "[[300,-1.5e3,\"007\",\"0x1f\",\"1.\",\".5\",\"1_000\",\"+1\",\"\",\"1\","
                "\"300m\"]]");
    assert_json(yaml("a:\nb: |\n  x\n  y\n"), "[{\"a\":null,\"b\":\"x\\ny\\n\"}]");
}

FIXTURE_TEST(yaml_error__names_the_line)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"a: [1\nb: 2\n", "line 2"},     {"a: 1\na: 2\n", "line 2"},
        {"a: &x 1\nb: *x\n", "aliases"}, {"? [1]\n: 2\n", "line 1"},
        {"a: b: c\n", "line 1"},         {"a: \"\xff\"\n", "line 1"},
        {"\t- a\n", "line 1"},           {"a: {b: {c: 1, c: 2}}\n", "twice"},
        {"\n- !!int x\n", "line 2"},     {"!!bool 3", "\"3\" is tagged !!bool"},
    };
    struct document *value;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(document_parse_yaml(text_of(bad[i].text), &arena, &value, &err) < 0);
        if (strstr(err.text, bad[i].says) == NULL)
            fail_msg("%s: %s", bad[i].text, err.text);
    }
}

FIXTURE_TEST(yaml_fault__has_a_kind_and_a_place)
{
    static const struct {
        const char *text;
        enum document_fault_kind kind;
        struct document_mark at;
        const char *key;
        uint32_t first;
    } bad[] = {
        {"a: 1\nb: \"x\n", DOCUMENT_FAULT_SYNTAX, {3, 1}, "b", 0},
        {"\xff", DOCUMENT_FAULT_SYNTAX, {1, 1}, "", 0},
        {"? [1]\n: 2\n", DOCUMENT_FAULT_KEY, {1, 3}, "", 0},
        {"\na: 1\nb: {a: 2}\n a: 3\n", DOCUMENT_FAULT_SYNTAX, {4, 2}, "a", 0},
        {"\na: 1\nb: {c: 2}\na: 3\n", DOCUMENT_FAULT_TWICE, {4, 1}, "a", 2},
        {"a: &x 1\nb: [1, *x]\n", DOCUMENT_FAULT_ALIAS, {2, 8}, "b", 0},
        {"- &x 1\n- *x\n", DOCUMENT_FAULT_ALIAS, {2, 3}, "", 0},
        {"a: !!int x\n", DOCUMENT_FAULT_OTHER, {1, 4}, "a", 0},
    };
    struct document *value;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct document_fault fault;
        print_message("%s\n", bad[i].text);
        assert_true(document_yaml_parse(text_of(bad[i].text), &arena, &value, &fault, &err) < 0);
        assert_int_equal(fault.kind, bad[i].kind);
        assert_int_equal(fault.at.line, bad[i].at.line);
        assert_int_equal(fault.at.column, bad[i].at.column);
        assert_true(text_is(fault.key, bad[i].key));
        assert_int_equal(fault.first.line, bad[i].first);
    }
}

FIXTURE_TEST(yaml__keeps_the_place_of_documents_and_the_word_of_bools)
{
    const struct document *documents = yaml("# a comment\na: off\n---\n\nb: true\n");
    assert_int_equal(documents->first->key_at.line, 2);
    assert_int_equal(documents->last->key_at.line, 3);
    assert_int_equal(documents->last->at.line, 5);
    assert_string_equal(document_get(documents->first, "a")->shown, "off");
    assert_string_equal(document_get(documents->last, "b")->shown, "true");
}

static struct document *file(const char *text)
{
    struct document *value;
    if (document_parse_file(text_of(text), "x", &arena, &value, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(value->kind, DOCUMENT_ARRAY);
    return value;
}

static void assert_places(const struct document *root)
{
    const struct document *b = document_get(root, "b");
    const struct document *c = b->last;
    assert_int_equal(root->first->key_at.line, 1);
    assert_int_equal(root->first->key_at.column, 2);
    assert_int_equal(root->first->at.column, 7);
    assert_int_equal(b->key_at.line, 2);
    assert_int_equal(b->key_at.column, 3);
    assert_int_equal(b->at.line, 2);
    assert_int_equal(b->at.column, 8);
    assert_int_equal(c->at.line, 2);
    assert_int_equal(c->at.column, 18); /* a character of two bytes is before it */
    assert_int_equal(c->first->key_at.column, 19);
    assert_int_equal(c->first->at.line, 3);
    assert_int_equal(c->first->at.column, 1);
}

FIXTURE_TEST(mark__is_the_place_of_a_value_and_its_key)
{
    static const char text[] = "{\"a\": 1,\n  \"b\": [\"x\xc3\xa4\", 2, {\"c\":\n4}]}\n";
    struct document *yaml_root = yaml(text)->first;
    assert_places(json(text));
    assert_places(yaml_root);
    assert_places(document_copy(&arena, yaml_root));
    assert_int_equal(json("{\"\\u0061\": 1,  \"\\u0062\": 2}")->last->key_at.column, 16);
}

FIXTURE_TEST(file__is_json_if_it_begins_with_a_brace)
{
    assert_json(file(" \n{\"a\": \"\\ud83d\\ude00\"}"), "[{\"a\":\"\xf0\x9f\x98\x80\"}]");
    assert_json(file("a: 1\n---\nb: 2\n"), "[{\"a\":1},{\"b\":2}]");
    assert_json(file(""), "[]");
}

FIXTURE_TEST(file_error__names_the_place)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"a: 1\n  b: 2\n", "x:2:4: mapping values are not allowed in this context"},
        {"a: 1\na: 2\n", "x:2:1: the key \"a\" is there twice"},
        {"a: 1\nb: \"\xff\"\n", "x:2:5: invalid leading UTF-8 octet"},
        {"{\"a\": 1,\n \"b\": ]}", "x:2:7: JSON.b: "},
        {"{\"a\": 1,\n \"a\": 2}", "x:2:6: JSON.a: the key \"a\" is there twice"},
    };
    struct document *value;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(document_parse_file(text_of(bad[i].text), "x", &arena, &value, &err) < 0);
        if (strncmp(err.text, bad[i].says, strlen(bad[i].says)) != 0)
            fail_msg("%s: %s", bad[i].text, err.text);
    }
}

FIXTURE_TEST(path__leads_to_a_value)
{
    CLEANUP(strbuf_done) struct strbuf out;
    struct document *root = json("{\"a\": [1, {\"b\": {\"c\": 1}}], \"d\": 2}");
    strbuf_init(&out);
    document_write_path(&out, root, root);
    assert_string_equal(out.data, "");
    document_write_path(&out, root, document_at(document_get(root, "a")->last, "b.c"));
    strbuf_char(&out, ' ');
    document_write_path(&out, root, document_get(root, "d"));
    assert_string_equal(out.data, "a[1].b.c d");
    root = json("{\"a.b/c\": {\"\": 1, \"d_E-1\": 2}}");
    strbuf_reset(&out);
    document_write_path(&out, root, root->first->first);
    document_write_path(&out, root, root->first->last);
    assert_string_equal(out.data, "[\"a.b/c\"][\"\"][\"a.b/c\"].d_E-1");
}

FIXTURE_TEST(yaml__reads_back_what_was_written)
{
    static const char text[] =
        "{\"a\":[\"true\",\"300\",\"~\",\"\",\"null\",\"yes\",\"2026-01-02T03:04:05Z\",\" x \","
        "\"a: b\",\"#c\",\"line\\nline\",\"-\",\"\xc3\xa4\"],"
        "\"b\":{\"c\":true,\"d\":null,\"e\":-1.5},"
        "\"f\":[],\"g\":{},\"1\":2}";
    CLEANUP(strbuf_done) struct strbuf out;
    strbuf_init(&out);
    document_write_yaml(&out, json(text));
    assert_json(yaml(out.data)->first, text);
    assert_non_null(strstr(out.data, "\"2026-01-02T03:04:05Z\""));
    assert_non_null(strstr(out.data, "\"yes\""));
}

FIXTURE_TEST(control_characters__are_escaped_and_kept)
{
    static const char text[] = "{\"a\":\"\\u001b[31m\\u202e\xc3\xa4\"}";
    const struct document *value = json(text);
    CLEANUP(strbuf_done) struct strbuf out;
    assert_string_equal(document_shown(value, "a"), "\\u001b[31m\\u202e\xc3\xa4");
    assert_string_equal(document_at(value, "a")->text.at, "\x1b[31m\xe2\x80\xae\xc3\xa4");
    strbuf_init(&out);
    document_write(&out, value);
    assert_string_equal(out.data, text);
    strbuf_reset(&out);
    document_write_yaml(&out, value);
    assert_null(strchr(out.data, '\x1b'));
    assert_null(strstr(out.data, "\xe2\x80\xae"));
    assert_json(yaml(out.data)->first, text);
}

FIXTURE_TEST(nul__is_shown_but_not_a_c_string)
{
    const struct document *value = json("{\"a\":\"x\\u0000y\"}");
    assert_string_equal(document_shown(value, "a"), "x\\u0000y");
    assert_string_equal(document_str(value, "a"), "");
}

FIXTURE_TEST(int__truncates_and_saturates)
{
    const struct document *value = json("{\"a\":-2.9,\"b\":99999999999999999999,\"c\":7}");
    assert_int_equal(document_int(value, "a"), -2);
    assert_true(document_int(value, "b") == INT64_MAX);
    assert_int_equal(document_int(value, "c"), 7);
}

/* Such as a file name that one of our answers quotes. */
FIXTURE_TEST(invalid_utf8__is_replaced_when_written)
{
    struct document *value = document_new(&arena, DOCUMENT_OBJECT);
    CLEANUP(strbuf_done) struct strbuf out;
    document_set_str(&arena, value, "a", "/x\xff");
    assert_string_equal(document_shown(value, "a"), "/x\xef\xbf\xbd");
    strbuf_init(&out);
    document_write_yaml(&out, value);
    assert_json(yaml(out.data)->first, "{\"a\":\"/x\xef\xbf\xbd\"}");
}
