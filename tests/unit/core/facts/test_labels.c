#include <string.h>

#include "milligpu/base/base.h"
#include "milligpu/core/facts/labels.h"

#include "support/atoms.h"
#include "support/test.h"

static const struct label shown[] = {
    {"pool", "training"},
    {"nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"},
    {"empty", ""},
    {"equation", "a=b"},
};

static bool match(const struct labels *labels, const char *key, const char *value)
{
    return labels_match(labels, &(struct label){key, value});
}

TEST(a_demand_is_a_key_and_a_glob)
{
    const struct labels *labels = labels_new(shown, ARRAY_LEN(shown), atoms);
    assert_true(match(labels, "pool", "training"));
    assert_true(match(labels, "pool", "train*"));
    assert_true(match(labels, "pool", "*"));
    assert_false(match(labels, "pool", "inference"));
    assert_false(match(labels, "pool", ""));
    assert_true(match(labels, "nvidia.com/gpu.product", "*A100*"));
    assert_true(match(labels, "empty", ""));
    assert_true(match(labels, "empty", "*"));
    assert_true(match(labels, "equation", "a=b"));
    labels_unref(labels);
}

TEST(a_key_is_compared_whole)
{
    const struct labels *labels = labels_new(shown, ARRAY_LEN(shown), atoms);
    assert_false(match(labels, "poo", "*"));
    assert_false(match(labels, "pools", "*"));
    assert_false(match(labels, "POOL", "*"));
    assert_false(match(labels, "training", "*"));
    labels_unref(labels);
}

TEST(a_value_is_found_by_its_whole_key)
{
    struct names *names = names_new();
    const struct label label[] = {{"pool", "a=b"}, {"pools", ""}};
    const struct labels *labels = labels_new(label, 2, names);
    struct text value;

    assert_true(labels_find(labels, "pool", &value));
    assert_true(text_is(value, "a=b"));
    assert_true(labels_find(labels, "pools", &value));
    assert_int_equal(value.len, 0);
    assert_false(labels_find(labels, "poo", &value));
    assert_false(labels_find(labels, "poolss", &value));
    assert_false(labels_find(labels, "pooly", &value));
    assert_false(labels_find(NULL, "pool", &value));
    labels_unref(labels);
    names_free(names);
}

TEST(no_labels_match_nothing)
{
    assert_null(labels_new(NULL, 0, atoms));
    assert_false(match(NULL, "pool", "*"));
    assert_null(labels_ref(NULL));
    labels_unref(NULL);
}

TEST(they_are_equal_if_they_say_the_same_in_the_same_order)
{
    const struct label other[] = {{"pool", "training"}, {"zone", "a"}};
    const struct label turned[] = {{"zone", "a"}, {"pool", "training"}};
    const struct label moved[] = {{"pool", "training"}, {"zone", "b"}};
    const struct labels *a = labels_new(other, 2, atoms);
    const struct labels *b = labels_new(other, 2, atoms);
    const struct labels *c = labels_new(turned, 2, atoms);
    const struct labels *d = labels_new(other, 1, atoms);
    const struct labels *e = labels_new(moved, 2, atoms);
    assert_true(labels_eq(a, a));
    assert_true(labels_eq(a, b));
    assert_false(labels_eq(a, c));
    assert_false(labels_eq(a, d));
    assert_false(labels_eq(a, e));
    assert_false(labels_eq(d, a));
    assert_false(labels_eq(a, NULL));
    assert_false(labels_eq(NULL, a));
    assert_true(labels_eq(NULL, NULL));
    labels_unref(a);
    labels_unref(b);
    labels_unref(c);
    labels_unref(d);
    labels_unref(e);
}

TEST(they_live_as_long_as_somebody_holds_them)
{
    const struct labels *labels = labels_new(shown, 1, atoms);
    assert_ptr_equal(labels_ref(labels), labels);
    labels_unref(labels);
    assert_true(match(labels, "pool", "training"));
    assert_string_equal(labels->text[0]->text, "pool=training");
    labels_unref(labels);
}

TEST(labels_hold_their_names)
{
    struct names *names = names_new();
    const struct labels *labels = labels_new(shown, ARRAY_LEN(shown), names);
    assert_ptr_equal(labels_ref(labels), labels);
    labels_unref(labels);
    names_sweep(names, SIZE_MAX / 4);
    assert_int_equal(names_count(names), ARRAY_LEN(shown));
    assert_true(match(labels, "pool", "training"));
    labels_unref(labels);
    names_sweep(names, SIZE_MAX / 4);
    assert_int_equal(names_count(names), 0);
    names_free(names);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
