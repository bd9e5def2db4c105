#include <stdint.h>
#include <string.h>

#include "ctl/label_selector.h"
#include "support/test.h"

static struct arena arena;

static int set_up(void **state __attribute__((unused)))
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state __attribute__((unused)))
{
    arena_done(&arena);
    return 0;
}

static bool chooses(const char *selector, const char *labels)
{
    struct document *rules;
    struct document *have = NULL;
    struct err err;

    if (label_selector_read(selector, &arena, &rules, &err) < 0)
        fail_msg("%s: %s", selector, err.text);
    if (labels != NULL)
        assert_int_equal(document_parse_json(text_of(labels), "labels", &arena, &have, &err), 0);
    return label_selector_holds(rules, have);
}

/* Without the label, none != b and none notin (a) hold. */
TEST(label_selector__chooses_like_kubectl)
{
    static const char labels[] = "{\"zone\":\"a\",\"rank\":\"7\",\"old\":\"\",\"x.io/gpu\":\"T4\"}";
    static const char *const holds[] = {"zone=a",           "zone==a",
                                        " zone = a ",       "zone!=b",
                                        "none!=b",          "zone",
                                        "! none",           "old=",
                                        "zone in (a)",      "zone in (b, a)",
                                        "zone notin (b,c)", "none notin (a)",
                                        "old in (,a)",      "rank>6",
                                        "rank<8",           "x.io/gpu=T4",
                                        "zone=a,rank=7",    "zone in (a,b),!none,x.io/gpu!=L4,old"};
    static const char *const fails[] = {
        "zone=b",       "zone!=a",     "none=b",           "none",   "!zone",  "zone=",
        "zone in(b,c)", "none in (a)", "zone notin (a,c)", "rank>7", "rank<7", "zone>6",
        "none<6",       "in=a",        "zone=a,rank=8"};

    for (size_t i = 0; i < ARRAY_LEN(holds); i++)
        if (!chooses(holds[i], labels))
            fail_msg("%s does not hold", holds[i]);
    for (size_t i = 0; i < ARRAY_LEN(fails); i++)
        if (chooses(fails[i], labels))
            fail_msg("%s holds", fails[i]);
    assert_true(chooses("!zone", NULL));
    assert_false(chooses("zone", NULL));
}

TEST(label_selector__quotes_an_invalid_selector)
{
    static const struct {
        const char *selector;
        const char *says;
    } row[] = {
        {"", "a label's key is expected at \"\""},
        {"=a", "a label's key is expected at \"=a\""},
        {"a,", "a label's key is expected at \"\""},
        {"!", "a label's key is expected"},
        {"a b", "one of = == != > < in notin is expected"},
        {"a=b c", "a comma is expected at \"c\""},
        {"a=b=c", "a comma is expected at \"=c\""},
        {"a in b", "values in parentheses are expected at \"b\""},
        {"a in (b", "a comma or a parenthesis is expected at \"\""},
        {"a in (b c)", "a comma or a parenthesis is expected at \"c)\""},
        {"a~b", "one of = == != > < in notin is expected at \"~b\""},
        {"!a=b", "a comma is expected at \"=b\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct document *rules;
        struct err err;
        assert_true(label_selector_read(row[i].selector, &arena, &rules, &err) < 0);
        if (strstr(err.text, row[i].says) == NULL)
            fail_msg("\"%s\": %s", row[i].selector, err.text);
    }
}

TEST_GROUP(set_up, tear_down)
