#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/tolerations.h"

#include "support/test.h"

static const struct taint taint = {"k", "v", EFFECT_NO_SCHEDULE};
static const struct toleration equal = {"k", "v", TOLERATE_EQUAL, EFFECT_ANY};

TEST(tolerations__count_equal_ones_together)
{
    struct tolerations *known = tolerations_new();
    const uint64_t before = tolerations_version(known);

    assert_false(tolerations_cover(known, &taint));
    struct known_toleration *first = tolerations_add(known, &equal);
    const uint64_t one = tolerations_version(known);
    assert_true(one != before);
    assert_ptr_equal(tolerations_add(known, &equal), first);
    assert_int_equal(tolerations_version(known), one);
    assert_true(tolerations_cover(known, &taint));
    tolerations_drop(known, first);
    assert_int_equal(tolerations_version(known), one);
    assert_true(tolerations_cover(known, &taint));
    tolerations_drop(known, first);
    assert_true(tolerations_version(known) != one && tolerations_version(known) != before);
    assert_false(tolerations_cover(known, &taint));
    tolerations_free(known);
    tolerations_free(NULL);
}

TEST(tolerations__differ_in_every_field)
{
    const struct toleration other[] = {{"l", "v", TOLERATE_EQUAL, EFFECT_ANY},
                                       {"k", "w", TOLERATE_EQUAL, EFFECT_ANY},
                                       {"k", "v", TOLERATE_EXISTS, EFFECT_ANY},
                                       {"k", "v", TOLERATE_EQUAL, EFFECT_NO_EXECUTE}};
    struct tolerations *known = tolerations_new();
    struct known_toleration *held[ARRAY_LEN(other)];
    struct known_toleration *first = tolerations_add(known, &equal);

    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        held[i] = tolerations_add(known, &other[i]);
        assert_ptr_not_equal(held[i], first);
    }
    tolerations_drop(known, held[2]);
    tolerations_drop(known, first);
    assert_false(tolerations_cover(known, &taint));
    assert_ptr_equal(tolerations_add(known, &other[1]), held[1]);
    tolerations_free(known);
}

/* A tenant with thousands of tolerations only loses the last ones. */
TEST(tolerations__beyond_the_limit_are_ignored)
{
    struct tolerations *known = tolerations_new();
    struct known_toleration *last = NULL;
    char key[16];

    for (int i = 0; i < TOLERATIONS_MAX; i++) {
        (void)snprintf(key, sizeof key, "key-%d", i);
        const struct toleration one = {key, "", TOLERATE_EXISTS, EFFECT_ANY};
        last = tolerations_add(known, &one);
        assert_non_null(last);
    }
    assert_null(tolerations_add(known, &equal));
    assert_false(tolerations_cover(known, &taint));
    const struct toleration again = {key, "", TOLERATE_EXISTS, EFFECT_ANY};
    assert_ptr_equal(tolerations_add(known, &again), last);
    tolerations_drop(known, last);
    tolerations_drop(known, last);
    assert_non_null(tolerations_add(known, &equal));
    assert_true(tolerations_cover(known, &taint));
    tolerations_free(known);
}

TEST(tolerations__of_too_many_bytes_are_ignored)
{
    struct tolerations *known = tolerations_new();
    char *key = xcalloc(TOLERATION_BYTES_MAX + 1, 1);
    const struct toleration one = {key, "", TOLERATE_EXISTS, EFFECT_ANY};

    memset(key, 'k', TOLERATION_BYTES_MAX - 2);
    assert_non_null(tolerations_add(known, &one));
    key[TOLERATION_BYTES_MAX - 2] = 'k';
    assert_null(tolerations_add(known, &one));
    tolerations_free(known);
    xfree(key);
}
