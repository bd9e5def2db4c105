#include <string.h>

#include "milligpu/core/facts/node_filter.h"

#include "core/facts/integer.h"
#include "support/test.h"

static bool find(const void *ctx, const char *key, struct text *out)
{
    const struct label *label = ctx;

    for (; label->key != NULL; label++)
        if (strcmp(label->key, key) == 0) {
            *out = text_of(label->value);
            return true;
        }
    return false;
}

static const struct label labels[] = {{"pool", "a"}, {"size", "8"}, {"empty", ""}, {NULL, NULL}};

static bool matches(const struct node_demands *demands)
{
    return node_demands_match(demands, "n1", &(struct label_view){labels, find});
}

static int64_t number_of(const char *text)
{
    int64_t number = -77;

    return integer_parse(text_of(text), &number) ? number : -99;
}

TEST(integer_parse__agrees_with_go)
{
    assert_int_equal(number_of("0"), 0);
    assert_int_equal(number_of("+7"), 7);
    assert_int_equal(number_of("-7"), -7);
    assert_int_equal(number_of("007"), 7);
    assert_true(number_of("9223372036854775807") == INT64_MAX);
    assert_true(number_of("-9223372036854775808") == INT64_MIN);
    static const char *const none[] = {"",
                                       "+",
                                       "-",
                                       " 1",
                                       "1 ",
                                       "1.0",
                                       "0x1",
                                       "--1",
                                       "1:",
                                       "1/",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "92233720368547758070"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_int_equal(number_of(none[i]), -99);
}

TEST(node_rule_operator__is_known_by_its_word)
{
    assert_int_equal(node_rule_operator_of(TEXT("In")), RULE_IN);
    assert_int_equal(node_rule_operator_of(TEXT("NotIn")), RULE_NOT_IN);
    assert_int_equal(node_rule_operator_of(TEXT("Exists")), RULE_EXISTS);
    assert_int_equal(node_rule_operator_of(TEXT("DoesNotExist")), RULE_NOT_EXISTS);
    assert_int_equal(node_rule_operator_of(TEXT("Gt")), RULE_GT);
    assert_int_equal(node_rule_operator_of(TEXT("Lt")), RULE_LT);
    assert_int_equal(node_rule_operator_of(TEXT("")), RULE_OTHER);
    assert_int_equal(node_rule_operator_of(TEXT("in")), RULE_OTHER);
}

/* have: value of the label; NULL: no such label. */
static bool holds(enum node_rule_operator op, const char *value, const char *other,
                  const char *have)
{
    const char *const list[] = {value, other};
    const uint32_t values = (value != NULL ? 1U : 0) + (other != NULL ? 1U : 0);
    const struct node_rule rule = {"k", op, values, list};
    const struct text text = text_of(have);

    return node_rule_holds(&rule, have != NULL ? &text : NULL);
}

TEST(node_rule__holds_as_in_kube_scheduler)
{
    assert_true(holds(RULE_IN, "a", "b", "a"));
    assert_true(holds(RULE_IN, "a", "b", "b"));
    assert_false(holds(RULE_IN, "a", "b", "c"));
    assert_false(holds(RULE_IN, "a", "b", NULL));
    assert_false(holds(RULE_IN, NULL, NULL, "a"));
    assert_false(holds(RULE_NOT_IN, "a", "b", "b"));
    assert_true(holds(RULE_NOT_IN, "a", "b", "c"));
    assert_true(holds(RULE_NOT_IN, "a", "b", NULL));
    assert_true(holds(RULE_EXISTS, NULL, NULL, ""));
    assert_false(holds(RULE_EXISTS, NULL, NULL, NULL));
    assert_false(holds(RULE_NOT_EXISTS, NULL, NULL, "a"));
    assert_true(holds(RULE_NOT_EXISTS, NULL, NULL, NULL));
    assert_true(holds(RULE_GT, "7", NULL, "8"));
    assert_false(holds(RULE_GT, "8", NULL, "8"));
    assert_false(holds(RULE_GT, "9", NULL, "8"));
    assert_true(holds(RULE_LT, "9", NULL, "8"));
    assert_false(holds(RULE_LT, "8", NULL, "8"));
    assert_false(holds(RULE_LT, "7", NULL, "8"));
    assert_false(holds(RULE_GT, "7", NULL, NULL));
    assert_false(holds(RULE_GT, "7", NULL, "eight"));
    assert_false(holds(RULE_GT, "seven", NULL, "8"));
    assert_false(holds(RULE_GT, "7", "7", "8"));
    assert_false(holds(RULE_GT, NULL, NULL, "8"));
    assert_false(holds(RULE_OTHER, "a", NULL, "a"));
}

TEST(node_selector__demands_every_label)
{
    const struct label both[] = {{"pool", "a"}, {"empty", ""}};
    const struct label wrong[] = {{"pool", "a"}, {"size", "9"}};
    const struct label missing[] = {{"none", ""}};

    assert_true(matches(&(struct node_demands){0}));
    assert_true(matches(&(struct node_demands){.n_selectors = 2, .selector = both}));
    assert_false(matches(&(struct node_demands){.n_selectors = 2, .selector = wrong}));
    assert_false(matches(&(struct node_demands){.n_selectors = 1, .selector = missing}));
}

static const char *const a_value[] = {"a"};
static const char *const b_value[] = {"b"};
static const char *const n1_value[] = {"n1"};
static const struct node_rule in_a = {"pool", RULE_IN, 1, a_value};
static const struct node_rule in_b = {"pool", RULE_IN, 1, b_value};
static const struct node_rule has_size = {"size", RULE_EXISTS, 0, NULL};
static const struct node_rule is_n1 = {"metadata.name", RULE_IN, 1, n1_value};
static const struct node_rule not_n1 = {"metadata.name", RULE_NOT_IN, 1, n1_value};
static const struct node_rule other_field = {"metadata.uid", RULE_IN, 1, n1_value};

static bool matches_terms(const struct node_term *term, uint32_t terms)
{
    return matches(&(struct node_demands){.affine = true, .n_terms = terms, .term = term});
}

TEST(node_terms__match_by_one_term_with_all_its_rules)
{
    const struct node_rule both[] = {in_a, has_size};
    const struct node_rule half[] = {has_size, in_b};
    const struct node_term all = {2, both, 0, NULL};
    const struct node_term some = {2, half, 0, NULL};
    const struct node_term none = {0, NULL, 0, NULL};
    const struct node_term named = {1, &in_a, 1, &is_n1};
    const struct node_term unnamed = {1, &in_a, 1, &not_n1};
    const struct node_term by_name = {0, NULL, 1, &is_n1};
    const struct node_term by_other = {0, NULL, 1, &other_field};
    const struct node_rule turned[] = {in_b, has_size};
    const struct node_rule fields[] = {is_n1, not_n1};
    const struct node_term first_fails = {2, turned, 0, NULL};
    const struct node_term last_field_fails = {0, NULL, 2, fields};

    assert_true(matches_terms(&all, 1));
    assert_false(matches_terms(&some, 1));
    assert_false(matches_terms(&first_fails, 1));
    assert_false(matches_terms(&last_field_fails, 1));
    assert_false(matches_terms(&none, 1));
    assert_false(matches_terms(NULL, 0));
    assert_true(matches_terms(&named, 1));
    assert_false(matches_terms(&unnamed, 1));
    assert_true(matches_terms(&by_name, 1));
    assert_false(matches_terms(&by_other, 1));
    assert_true(matches_terms((struct node_term[]){some, none, by_name}, 3));
    assert_false(matches_terms((struct node_term[]){some, none, unnamed}, 3));
    const struct label wrong[] = {{"pool", "b"}}; /* the selector is demanded, too */
    assert_false(matches(&(struct node_demands){
        .n_selectors = 1, .selector = wrong, .affine = true, .n_terms = 1, .term = &all}));
}

static struct strbuf key_of(const struct node_demands *demands)
{
    struct strbuf key;

    strbuf_init(&key);
    node_demands_key(demands, &key);
    return key;
}

static bool is_same(const struct node_demands *a, const struct node_demands *b)
{
    CLEANUP(strbuf_done) struct strbuf left = key_of(a);
    CLEANUP(strbuf_done) struct strbuf right = key_of(b);

    return left.len == right.len && memcmp(left.data, right.data, left.len) == 0;
}

static const struct toleration tolerates[] = {{"k", "v", TOLERATE_EQUAL, EFFECT_NO_SCHEDULE}};
static const struct label selects[] = {{"pool", "a"}};
static const struct node_rule rules[] = {{"pool", RULE_IN, 1, a_value}};
static const struct node_term terms[] = {{1, rules, 1, &is_n1}};
static const struct node_demands full = {.n_tolerations = 1,
                                         .toleration = tolerates,
                                         .n_selectors = 1,
                                         .selector = selects,
                                         .affine = true,
                                         .n_terms = 1,
                                         .term = terms};

/* Each list has two members with texts of one byte. */
static const char *const two_values[] = {"a", "b"};
static const struct node_rule two_rules[] = {{"k", RULE_IN, 2, two_values},
                                             {"l", RULE_NOT_IN, 2, two_values}};
static const struct node_term two_terms[] = {{2, two_rules, 2, two_rules},
                                             {2, two_rules, 2, two_rules}};
static const struct node_demands twice = {
    .n_tolerations = 2,
    .toleration = (const struct toleration[]){{"k", "v", TOLERATE_EQUAL, EFFECT_NO_SCHEDULE},
                                              {"l", "w", TOLERATE_EQUAL, EFFECT_NO_EXECUTE}},
    .n_selectors = 2,
    .selector = (const struct label[]){{"k", "v"}, {"l", "w"}},
    .affine = true,
    .n_terms = 2,
    .term = two_terms};

TEST(node_demands_keep__copies_deeply)
{
    struct arena arena;

    arena_init(&arena);
    const struct node_demands *kept = node_demands_keep(&full, &arena);
    assert_true(is_same(kept, &full));
    assert_ptr_not_equal(kept->toleration[0].key, tolerates[0].key);
    assert_ptr_not_equal(kept->toleration[0].value, tolerates[0].value);
    assert_ptr_not_equal(kept->selector[0].key, selects[0].key);
    assert_ptr_not_equal(kept->selector[0].value, selects[0].value);
    assert_ptr_not_equal(kept->term[0].expression[0].key, rules[0].key);
    assert_ptr_not_equal(kept->term[0].expression[0].value[0], a_value[0]);
    assert_ptr_not_equal(kept->term[0].field[0].value[0], n1_value[0]);
    assert_true(matches(kept));
    struct node_demands odd = full;
    odd.unreadable = true;
    assert_true(node_demands_keep(&odd, &arena)->unreadable);
    assert_true(is_same(node_demands_keep(&twice, &arena), &twice));
    arena_done(&arena);
}

static uint32_t first_number(const struct strbuf *key)
{
    uint32_t number;

    memcpy(&number, key->data, sizeof number);
    return number;
}

/* In a key, a number takes 4 bytes, and a text 8 bytes of length and its bytes. */
TEST(node_demands_key__has_every_count_and_member)
{
    enum { TEXT_1 = 9, NUMBER = 4 };
    enum {
        RULE = TEXT_1 + 2 * NUMBER + 2 * TEXT_1,
        TERM = 2 * (NUMBER + 2 * RULE),
        LISTS = 2 * (2 * TEXT_1 + 2 * NUMBER) + 2 * 2 * TEXT_1 + 2 * TERM,
    };
    const struct node_demands none = {0};
    const struct node_demands unreadable = {.unreadable = true};
    const struct node_demands affine = {.affine = true};
    CLEANUP(strbuf_done) struct strbuf empty = key_of(&none);
    CLEANUP(strbuf_done) struct strbuf odd = key_of(&unreadable);
    CLEANUP(strbuf_done) struct strbuf bound = key_of(&affine);
    CLEANUP(strbuf_done) struct strbuf all = key_of(&twice);

    assert_int_equal(empty.len, 4 * NUMBER);
    assert_int_equal(first_number(&empty), 0);
    assert_int_equal(first_number(&odd), 1);
    assert_int_equal(first_number(&bound), 2);
    assert_int_equal(all.len, 4 * NUMBER + LISTS);
}

TEST(node_demands_key__differs_in_every_field)
{
    const struct toleration toleration[] = {{"l", "v", TOLERATE_EQUAL, EFFECT_NO_SCHEDULE},
                                            {"k", "w", TOLERATE_EQUAL, EFFECT_NO_SCHEDULE},
                                            {"k", "v", TOLERATE_EXISTS, EFFECT_NO_SCHEDULE},
                                            {"k", "v", TOLERATE_EQUAL, EFFECT_NO_EXECUTE}};
    const struct label selector[] = {{"pod", "a"}, {"pool", "b"}, {"poola", ""}};
    const struct node_rule rule[] = {in_b,
                                     {"poo", RULE_IN, 1, a_value},
                                     {"pool", RULE_NOT_IN, 1, a_value},
                                     {"pool", RULE_IN, 0, NULL}};

    const struct node_term swapped = {1, &is_n1, 1, rules}; /* a label rule as a field rule */
    struct node_demands
        others[ARRAY_LEN(toleration) + ARRAY_LEN(selector) + 2 * ARRAY_LEN(rule) + 5];
    struct node_term terms_of[2 * ARRAY_LEN(rule)];
    struct node_demands *other = others;

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        others[i] = full;
    for (size_t i = 0; i < ARRAY_LEN(toleration); i++)
        other++->toleration = &toleration[i];
    for (size_t i = 0; i < ARRAY_LEN(selector); i++)
        other++->selector = &selector[i];
    for (size_t i = 0; i < ARRAY_LEN(rule); i++) {
        terms_of[2 * i] = (struct node_term){1, &rule[i], 1, &is_n1};
        terms_of[2 * i + 1] = (struct node_term){1, rules, 1, &rule[i]};
        other++->term = &terms_of[2 * i];
        other++->term = &terms_of[2 * i + 1];
    }
    other++->unreadable = true;
    other++->n_terms = 0;
    other++->n_selectors = 0;
    other++->n_tolerations = 0;
    other++->term = &swapped;
    assert_ptr_equal(other, others + ARRAY_LEN(others));
    assert_true(is_same(&full, &full));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (is_same(&full, &others[i]))
            fail_msg("%zu is the same", i);
    struct node_demands affine = full;
    struct node_demands not_affine = full;
    affine.n_terms = not_affine.n_terms = 0;
    not_affine.affine = false;
    assert_false(is_same(&affine, &not_affine));
}
