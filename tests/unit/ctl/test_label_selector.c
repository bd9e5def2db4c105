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

TEST(label_selector__chooses_like_kubectl)
{
    static const char labels[] = "{\"zone\":\"a\",\"rank\":\"7\",\"old\":\"\",\"x.io/gpu\":\"T4\"}";
    static const struct {
        const char *selector;
        bool chooses;
    } row[] = {
        {"zone=a", true},
        {"zone==a", true},
        {" zone = a ", true},
        {"zone=b", false},
        {"zone!=a", false},
        {"zone!=b", true},
        {"none!=b", true}, /* without the label it is not b */
        {"none=b", false},
        {"zone", true},
        {"none", false},
        {"!zone", false},
        {"! none", true},
        {"old=", true},
        {"zone=", false},
        {"zone in (a)", true},
        {"zone in (b, a)", true},
        {"zone in(b,c)", false},
        {"none in (a)", false},
        {"zone notin (b,c)", true},
        {"zone notin (a,c)", false},
        {"none notin (a)", true},
        {"old in (,a)", true},
        {"rank>6", true},
        {"rank>7", false},
        {"rank<8", true},
        {"rank<7", false},
        {"zone>6", false},
        {"none<6", false},
        {"x.io/gpu=T4", true},
        {"in=a", false},
        {"zone=a,rank=7", true},
        {"zone=a,rank=8", false},
        {"zone in (a,b),!none,x.io/gpu!=L4,old", true},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        if (chooses(row[i].selector, labels) != row[i].chooses)
            fail_msg("%s: expected %d", row[i].selector, row[i].chooses);
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
