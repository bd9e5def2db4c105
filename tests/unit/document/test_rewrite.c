#include <stdio.h>
#include <string.h>

#include "milligpu/document/document.h"

#include "support/test.h"

static struct arena arena;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, NULL, reset)
static struct err err;

/* Applies an RFC 7396 patch to the first document; NULL: the text cannot be changed in place. */
static const char *rewritten(const char *text, const char *patch)
{
    CLEANUP(strbuf_done) struct strbuf out;
    struct document *before;
    struct document *change;

    strbuf_init(&out);
    if (document_parse_yaml(text_of(text), &arena, &before, &err) < 0 ||
        document_parse_json(text_of(patch), "patch", &arena, &change, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    struct document *after = document_copy(&arena, before);
    document_merge(&arena, after->first, change);
    if (!document_rewrite_yaml(text_of(text), before, after, &arena, &out))
        return NULL;
    return arena_copy(&arena, (struct text){out.data, out.len});
}

struct sample {
    const char *text;
    const char *patch;
    const char *expected; /* NULL: false */
};

static void check_samples(const struct sample *sample, size_t samples)
{
    for (size_t i = 0; i < samples; i++) {
        const char *out = rewritten(sample[i].text, sample[i].patch);
        if (sample[i].expected == NULL && out != NULL)
            fail_msg("%s: became\n%s", sample[i].text, out);
        if (sample[i].expected == NULL)
            continue;
        if (out == NULL)
            fail_msg("cannot be changed:\n%s", sample[i].text);
        assert_string_equal(out, sample[i].expected);
    }
}

FIXTURE_TEST(rewrite__adds_and_removes_lines_of_a_block_mapping)
{
    static const struct sample samples[] = {
        /* new members stand where the first removed one stood */
        {"# head\nlimits:\n  cpu: 1   # kept\n  old/one: 2 # goes\n  # stays\n  old/two: '3'\n"
         "  memory: 1Gi\ntail: yes # b\n",
         "{\"limits\":{\"old/one\":null,\"old/two\":null,\"new/one\":300}}",
         "# head\nlimits:\n  cpu: 1   # kept\n  new/one: 300\n  # stays\n  memory: 1Gi\n"
         "tail: yes # b\n"},
        /* nothing was removed: behind the last member */
        {"a:\n    first: 1\n    second: {x: [1, 2]} # c\n\n# end\n",
         "{\"a\":{\"third.of/all\":\"x\"}}",
         "a:\n    first: 1\n    second: {x: [1, 2]} # c\n    third.of/all: \"x\"\n\n# end\n"},
        /* a last member of several lines: before the first that begins its line */
        {"a: 1\nb: >\n  folded\n  text\n", "{\"inserted\":{\"deeper\":{\"key.of/it\":1}}}",
         "inserted:\n  deeper:\n    key.of/it: 1\na: 1\nb: >\n  folded\n  text\n"},
        /* without a break at the end, and with those of Windows */
        {"a: 1", "{\"second\":2}", "a: 1\nsecond: 2\n"},
        {"a: 1\r\nb:\r\n  c: 2\r\n", "{\"a\":null,\"b\":{\"second\":3}}",
         "b:\r\n  c: 2\r\n  second: 3\r\n"},
        /* a whole tree of lines is removed; of a mapping without members {} is left */
        {"a:\n  b:\n    c: 1\n    # with it\n    d: [1]\n  e: 2\n", "{\"a\":{\"b\":null}}",
         "a:\n  e: 2\n"},
        {"a:\n  b:\n    c: 1\n  e: 2\n", "{\"a\":{\"b\":{\"c\":null}}}",
         "a:\n  b:\n    {}\n  e: 2\n"},
        /* a value that was left out */
        {"a:\nb: 1\n", "{\"a\":{\"second\":{\"x\":1}}}", "a: {second: {\"x\": 1}}\nb: 1\n"},
        {"a: old # why\nb: \"x\"\n", "{\"a\":5,\"b\":true}", "a: 5 # why\nb: true\n"},
        /* a key that another reader takes for a bool */
        {"abc: 1\n", "{\"on\":1,\"odd key\":2,\"9lives.x\":3}",
         "abc: 1\n\"on\": 1\n\"odd key\": 2\n\"9lives.x\": 3\n"},
        /* characters of several bytes before the place, a byte order mark */
        {"\xEF\xBB\xBF\"\xC3\xA4\xE2\x82\xAC\": {b: 1}\nc: 2\n",
         "{\"\xC3\xA4\xE2\x82\xAC\":{\"b\":3},\"c\":null}",
         "\xEF\xBB\xBF\"\xC3\xA4\xE2\x82\xAC\": {b: 3}\n"},
        {"---\na: 1\n...\n---\na: 1\n", "{\"a\":2}", "---\na: 2\n...\n---\na: 1\n"},
    };

    check_samples(samples, ARRAY_LEN(samples));
}

FIXTURE_TEST(rewrite__rewrites_a_flow_mapping)
{
    static const struct sample samples[] = {
        {"limits: {cpu: 1, old/one: 2, 'x': \"y\"} # c\n",
         "{\"limits\":{\"old/one\":null,\"new/one\":300}}",
         "limits: {cpu: 1, 'x': \"y\", new/one: 300} # c\n"},
        {"a: {b: [1, {c: 'x', d: 2}], e: 1}\n", "{\"a\":{\"b\":[1,{\"c\":\"x\",\"d\":3}]}}",
         "a: {b: [1, {c: 'x', d: 3}], e: 1}\n"},
        {"a: {b: [1, 2], e: 1}\n", "{\"a\":{\"b\":[1]}}", "a: {b: [1], e: 1}\n"},
        {"a: {}\n", "{\"a\":{\"limits\":{\"new/one\":1}}}", "a: {limits: {new/one: 1}}\n"},
        {"a: [{b: {c: 1}}, {b: 2}]\n", "{\"a\":[{\"b\":{\"c\":1}},{\"b\":3}]}",
         "a: [{b: {c: 1}}, {b: 3}]\n"},
        {"a: {b: {c: 1, d: [1,2]}, e: 5,}\n", "{\"a\":{\"b\":{\"c\":2}}}",
         "a: {b: {c: 2, d: [1,2]}, e: 5}\n"},
        {"a: {\n  b: 1,\n  c: 2 }\nd: 1\n", "{\"a\":{\"b\":null}}", "a: {c: 2}\nd: 1\n"},
        {"{\"a\": {\"b\": 1}, \"c\": [ 1 ]}\n", "{\"a\":{\"b\":2}}",
         "{\"a\": {\"b\": 2}, \"c\": [ 1 ]}\n"},
    };

    check_samples(samples, ARRAY_LEN(samples));
}

FIXTURE_TEST(rewrite__refuses_values_it_cannot_change_in_place)
{
    static const struct sample samples[] = {
        {"a: \"x\\ty\"\n", "{\"a\":1}", NULL},                     /* an escape */
        {"a: 'it''s'\n", "{\"a\":1}", NULL},                       /* the same in single quotes */
        {"a: |\n  1\n  2\nb: 1\n", "{\"a\":null}", NULL},          /* several lines */
        {"a: !!str 1\n", "{\"a\":2}", NULL},                       /* a tag */
        {"a: &x\n  b: 1\n  c: 2\n", "{\"a\":{\"b\":null}}", NULL}, /* an anchor */
        {"? a\n: 1\n? b\n: 2\n", "{\"a\":null}", NULL},            /* a key of its own line */
        {"a: {b: 1, # comment\n  c: 2}\n", "{\"a\":{\"b\":3}}", NULL}, /* it would be lost */
        {"a: yes\n", "{\"a\":1}", NULL}, /* the tree has another word */
    };

    check_samples(samples, ARRAY_LEN(samples));
}

/* The first key of an item stands behind its dash. */
FIXTURE_TEST(rewrite__keeps_the_first_line_of_an_item)
{
    CLEANUP(strbuf_done) struct strbuf out;
    struct document *before;

    strbuf_init(&out);
    const struct text text = TEXT("- a: 1\n  b: 2\n");
    assert_int_equal(document_parse_yaml(text, &arena, &before, &err), 0);
    struct document *after = document_copy(&arena, before);
    document_remove(after->first->first, "a");
    assert_false(document_rewrite_yaml(text, before, after, &arena, &out));
    after = document_copy(&arena, before);
    document_remove(after->first->first, "b");
    document_set(&arena, after->first->first, TEXT("second"), document_new_int(&arena, 3));
    assert_true(document_rewrite_yaml(text, before, after, &arena, &out));
    assert_string_equal(out.data, "- a: 1\n  second: 3\n");
    after = document_copy(&arena, before);
    document_append(after->first, document_new_int(&arena, 3)); /* items do not come and go */
    strbuf_reset(&out);
    assert_false(document_rewrite_yaml(text, before, after, &arena, &out));
    assert_int_equal(out.len, 0);
}

/* A column is found by walking to it: far out, the whole document is cheaper. */
FIXTURE_TEST(rewrite__refuses_very_long_lines)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    strbuf_str(&text, "{x: \"");
    for (int i = 0; i < 5000; i++)
        strbuf_char(&text, 'x');
    strbuf_str(&text, "\", a: 1}");
    assert_null(rewritten(text.data, "{\"a\":2}"));
    assert_null(rewritten(text.data, "{\"x\":2}"));
}

/* 10 MiB of keys, all the same: linear, or this test would not end. */
FIXTURE_TEST(rewrite__is_linear_in_the_number_of_keys)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    for (int i = 0; i < 300000; i++)
        strbuf_printf(&text, "k%d: 1\n", i);
    const char *out = rewritten(text.data, "{\"k7\":2}");
    assert_non_null(out);
    assert_int_equal(strlen(out), text.len);
    assert_non_null(strstr(out, "\nk7: 2\nk8: 1\n"));
}

static int group_set_up(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int group_tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

TEST_GROUP(group_set_up, group_tear_down)
