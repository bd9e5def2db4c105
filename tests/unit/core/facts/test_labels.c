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

TEST(labels_match__takes_a_whole_key_and_a_glob)
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
    assert_false(match(labels, "poo", "*"));
    assert_false(match(labels, "pools", "*"));
    assert_false(match(labels, "POOL", "*"));
    assert_false(match(labels, "training", "*"));
    labels_unref(labels);
}

TEST(labels_find__needs_the_whole_key)
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

TEST(labels__may_be_none)
{
    assert_null(labels_new(NULL, 0, atoms));
    assert_false(match(NULL, "pool", "*"));
    assert_null(labels_ref(NULL));
    labels_unref(NULL);
}

TEST(labels__are_equal_with_the_same_labels_in_order)
{
    const struct label first[] = {{"pool", "training"}, {"zone", "a"}};
    const struct label turned[] = {{"zone", "a"}, {"pool", "training"}};
    const struct label moved[] = {{"pool", "training"}, {"zone", "b"}};
    const struct labels *one = labels_new(first, 2, atoms);
    const struct labels *same = labels_new(first, 2, atoms);
    const struct labels *other[] = {labels_new(turned, 2, atoms), labels_new(first, 1, atoms),
                                    labels_new(moved, 2, atoms), NULL};
    assert_true(labels_eq(one, one));
    assert_true(labels_eq(one, same));
    assert_true(labels_eq(NULL, NULL));
    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        assert_false(labels_eq(one, other[i]));
        assert_false(labels_eq(other[i], one));
        labels_unref(other[i]);
    }
    labels_unref(one);
    labels_unref(same);
}

TEST(labels__hold_their_names_while_referenced)
{
    struct names *names = names_new();
    const struct labels *labels = labels_new(shown, ARRAY_LEN(shown), names);
    assert_ptr_equal(labels_ref(labels), labels);
    labels_unref(labels);
    names_sweep(names, SIZE_MAX / 4);
    assert_int_equal(names_count(names), ARRAY_LEN(shown));
    assert_string_equal(labels->text[0]->text, "pool=training");
    assert_true(match(labels, "pool", "training"));
    labels_unref(labels);
    names_sweep(names, SIZE_MAX / 4);
    assert_int_equal(names_count(names), 0);
    names_free(names);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
