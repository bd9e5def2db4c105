#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/core/facts/names.h"

#include "support/aborts.h"
#include "support/test.h"

static int set_up(void **state)
{
    *state = names_new();
    return 0;
}

static int tear_down(void **state)
{
    names_free(*state);
    return 0;
}

#define NAMES_TEST(name) TEST_WITH(name, struct names *names, set_up, tear_down)

NAMES_TEST(names_intern__gives_one_atom_per_text)
{
    char text[] = "node-1";
    const struct atom *one = names_intern(names, text_of(text));
    text[0] = 'x'; /* the atom has its own bytes */
    assert_ptr_equal(names_intern(names, TEXT("node-1")), one);
    assert_ptr_equal(names_find(names, TEXT("node-1")), one);
    assert_string_equal(one->text, "node-1");
    assert_int_equal(one->len, 6);
    assert_int_equal(one->hash, text_hash(TEXT("node-1")));
    assert_true(text_is(atom_text(one), "node-1"));
    assert_null(names_find(names, TEXT("node-2")));
    assert_int_equal(names_count(names), 1);
    assert_null(names_find(names, TEXT("xode-1")));
    /* The empty text and bytes of zero are names, too. */
    assert_null(names_find(names, TEXT("")));
    const struct atom *empty = names_intern(names, (struct text){0});
    assert_ptr_equal(names_intern(names, TEXT("")), empty);
    assert_int_equal(empty->len, 0);
    assert_string_equal(empty->text, "");
    assert_ptr_not_equal(names_intern(names, TEXT("\0")), empty);
}

TEST(atoms__stay_in_place_while_the_table_grows)
{
    enum { NAMES = 20000 };
    static const struct atom *atom[NAMES];
    char text[32];
    struct names *names = names_new();
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(text, sizeof text, "GPU-%08x", (unsigned)i);
        atom[i] = names_intern(names, text_of(text));
    }
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(text, sizeof text, "GPU-%08x", (unsigned)i);
        assert_ptr_equal(names_find(names, text_of(text)), atom[i]);
        assert_string_equal(atom[i]->text, text);
    }
    names_free(names);
    names_free(NULL);
}

static void intern_some(struct names *names, unsigned from, unsigned to)
{
    char text[32];
    for (unsigned i = from; i < to; i++) {
        (void)snprintf(text, sizeof text, "GPU-%08x", i);
        assert_non_null(names_intern(names, text_of(text)));
    }
}

/* The names themselves are left out. */
static size_t table_bytes(const struct names *names)
{
    return names_bytes(names) - names_count(names) * (offsetof(struct atom, text) + 13);
}

NAMES_TEST(names_reserve__makes_room_once)
{
    intern_some(names, 0, 128); /* as many as there are buckets, in whole segments */
    const size_t small = table_bytes(names);
    names_reserve(names, 128);
    assert_int_equal(table_bytes(names), small);
    names_reserve(names, 5000);
    const size_t large = table_bytes(names);
    assert_true(large >= small + 4900 * sizeof(void *));
    names_reserve(names, 10);
    intern_some(names, 0, 5000);
    assert_int_equal(table_bytes(names), large);
    assert_int_equal(names_count(names), 5000);
    assert_non_null(names_find(names, TEXT("GPU-00000000")));
    assert_non_null(names_find(names, TEXT("GPU-00001387")));
    assert_null(names_find(names, TEXT("GPU-00001388")));
    /* Nobody keeps them, so sweeps free the names and the room. */
    for (int i = 0; i < 3; i++)
        names_sweep(names, 20000);
    assert_int_equal(names_count(names), 0);
    assert_true(table_bytes(names) < small);
}

NAMES_TEST(atom_mark__stays_with_its_name)
{
    const struct atom *one = names_intern(names, TEXT("GPU-1"));
    const struct atom *two = names_intern(names, TEXT("GPU-2"));

    assert_int_equal(atom_mark(one), 0);
    (void)atom_ref(one);
    (void)atom_ref(two);
    atom_set_mark(one, 7);
    atom_set_mark(two, UINT32_MAX);
    names_sweep(names, 1000);
    assert_int_equal(atom_mark(names_find(names, TEXT("GPU-1"))), 7);
    assert_int_equal(atom_mark(names_intern(names, TEXT("GPU-2"))), UINT32_MAX);
    atom_set_mark(one, 0);
    assert_int_equal(atom_mark(one), 0);
    assert_int_equal(atom_mark(two), UINT32_MAX);
    assert_int_equal(one->len, 5);
    assert_string_equal(one->text, "GPU-1");
    atom_unref(one);
    atom_set_mark(two, 0);
    atom_unref(two);
    /* A name that comes again begins without one. */
    names_sweep(names, 1000);
    assert_int_equal(names_count(names), 0);
    assert_int_equal(atom_mark(names_intern(names, TEXT("GPU-2"))), 0);
}

static void mark(void *atom)
{
    atom_set_mark(atom, 1);
}

static void read_mark(void *atom)
{
    (void)atom_mark(atom);
}

static void sweep(void *names)
{
    names_sweep(names, 1000);
}

TEST(atom_mark__of_a_constant_is_none)
{
    static struct atom constant, marked = {.mark = 1};

    assert_int_equal(atom_mark(&constant), 0);
    assert_true(aborts(read_mark, &marked));
    assert_true(aborts(mark, &constant));
}

/* Nobody would find the owner of the next name with this text. */
NAMES_TEST(names_sweep__frees_no_marked_name)
{
    atom_set_mark(names_intern(names, TEXT("GPU-1")), 1);
    assert_true(aborts(sweep, names));
}

static struct text numbered(char text[16], uint64_t number)
{
    (void)snprintf(text, 16, "%u", (unsigned)number);
    return text_of(text);
}

static int by_hash(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

NAMES_TEST(names__with_equal_hashes_are_separate)
{
    enum { NUMBERS = 1 << 18 }; /* enough for two of equal hash */
    static uint64_t hashed[NUMBERS];
    char text[2][16];
    for (uint64_t i = 0; i < NUMBERS; i++)
        hashed[i] = (uint64_t)text_hash(numbered(text[0], i)) << 32 | i;
    qsort(hashed, NUMBERS, sizeof hashed[0], by_hash);
    size_t at = 1;
    while (at < NUMBERS && hashed[at] >> 32 != hashed[at - 1] >> 32)
        at++;
    assert_true(at < NUMBERS);

    const struct atom *one = names_intern(names, numbered(text[0], (uint32_t)hashed[at - 1]));
    assert_null(names_find(names, numbered(text[1], (uint32_t)hashed[at])));
    const struct atom *other = names_intern(names, text_of(text[1]));
    assert_int_equal(other->hash, one->hash);
    assert_ptr_equal(names_find(names, text_of(text[0])), one);
    assert_ptr_equal(names_find(names, text_of(text[1])), other);
    assert_string_equal(other->text, text[1]);
}

enum { ALL = 1 << 20 }; /* a sweep of the whole table */

static const struct atom *hold(struct names *names, const char *word, uint64_t number)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%s-%u", word, (unsigned)number);
    return atom_ref(names_intern(names, text_of(text)));
}

NAMES_TEST(sweep__frees_names_without_references)
{
    const size_t empty = names_bytes(names);
    const struct atom *held = atom_ref(names_intern(names, TEXT("held")));
    assert_ptr_equal(atom_ref(held), held); /* twice */
    assert_non_null(names_intern(names, TEXT("loose")));
    assert_int_equal(names_bytes(names),
                     empty + 2 * offsetof(struct atom, text) + sizeof "held" + sizeof "loose");
    names_sweep(names, ALL);
    assert_int_equal(names_count(names), 1);
    assert_null(names_find(names, TEXT("loose")));
    assert_ptr_equal(names_intern(names, TEXT("held")), held);
    atom_unref(held);
    names_sweep(names, ALL);
    assert_ptr_equal(names_find(names, TEXT("held")), held);
    atom_unref(held);
    names_sweep(names, ALL);
    assert_int_equal(names_count(names), 0);
    assert_int_equal(names_bytes(names), empty);
    names_sweep(names, ALL);
}

/* A name that is interned again before the sweep is the same name. */
NAMES_TEST(sweep__spares_a_revived_name)
{
    const struct atom *atom = hold(names, "a", 1);
    atom_unref(atom);
    assert_ptr_equal(hold(names, "a", 1), atom);
    names_sweep(names, ALL);
    assert_ptr_equal(names_find(names, TEXT("a-1")), atom);
    atom_unref(atom);
}

/* An empty table has 64 places. */
NAMES_TEST(sweep__looks_at_the_last_place)
{
    char text[16];
    uint64_t number = 0;

    while (text_hash(numbered(text, number)) % 64 != 63)
        number++;
    assert_non_null(names_intern(names, text_of(text)));
    names_sweep(names, 64);
    assert_int_equal(names_count(names), 0);
}

/* 64 places are allocated together; there are as many as names, or at most twice as many. */
NAMES_TEST(bytes__follow_the_names)
{
    enum { NAMES = 1024, LEFT = 100, PART = 64 * sizeof(void *), ATOM = 36 };
    static const struct atom *atom[NAMES];
    const size_t empty = names_bytes(names);

    assert_int_equal(empty % sizeof(void *), 0);
    assert_true(empty > PART + 8 * sizeof(void *));
    for (uint64_t i = 0; i < NAMES; i++) { /* each of the same length */
        atom[i] = hold(names, "n", 1000000000 + i);
        assert_int_equal(offsetof(struct atom, text) + atom[i]->len + 1, ATOM + 1);
    }
    /* room for 16 parts, 8 more than at first */
    assert_int_equal(names_bytes(names) - empty,
                     NAMES * (ATOM + 1) + 15 * PART + 8 * sizeof(void *));
    for (uint64_t i = LEFT; i < NAMES; i++)
        atom_unref(atom[i]);
    for (int i = 0; i < 4; i++)
        names_sweep(names, ALL);
    assert_int_equal(names_count(names), LEFT);
    assert_int_equal(names_bytes(names) - empty, LEFT * (ATOM + 1) + 3 * PART);
    for (uint64_t i = 0; i < LEFT; i++)
        atom_unref(atom[i]);
}

/* Names in one bucket: the first, the last and the one between are unlinked alike. */
TEST(sweep__unlinks_names_anywhere_in_a_bucket)
{
    enum { NAMES = 60 }; /* many buckets of an empty table get several */
    const struct atom *atom[NAMES];
    for (uint64_t which = 0; which < 3; which++) {
        struct names *names = names_new();
        for (uint64_t i = 0; i < NAMES; i++)
            atom[i] = hold(names, "n", i);
        for (uint64_t i = which; i < NAMES; i += 3)
            atom_unref(atom[i]);
        names_sweep(names, ALL);
        assert_int_equal(names_count(names), NAMES - NAMES / 3);
        for (uint64_t i = 0; i < NAMES; i++) {
            if (i % 3 == which)
                continue;
            assert_ptr_equal(hold(names, "n", i), atom[i]);
            atom_unref(atom[i]);
            atom_unref(atom[i]);
        }
        names_free(names);
    }
}

NAMES_TEST(sweep__visits_a_constant_part_for_each_change)
{
    enum { NAMES = 4096 };
    static const struct atom *atom[NAMES];
    for (uint64_t i = 0; i < NAMES; i++)
        atom[i] = hold(names, "n", i);
    names_sweep(names, 0);
    for (uint64_t i = 0; i < NAMES; i++)
        atom_unref(atom[i]);
    names_sweep(names, 0); /* no change was reported since */
    assert_int_equal(names_count(names), NAMES);
    names_sweep(names, 100); /* one name for each bucket, about */
    assert_in_range(NAMES - names_count(names), 50, 200);
    size_t before = names_count(names);
    names_let_go(names, 100);
    names_sweep(names, 0);
    assert_in_range(before - names_count(names), 200, 800);
    before = names_count(names);
    names_sweep(names, 0);
    assert_int_equal(names_count(names), before);
    for (uint64_t i = 0; i < 100; i++) /* a new name counts as much as one that goes */
        atom_unref(hold(names, "new", i));
    names_sweep(names, 0);
    assert_in_range(before + 100 - names_count(names), 200, 800);
    names_let_go(names, NAMES);
    names_sweep(names, 0);
    assert_in_range(names_count(names), 0, NAMES / 8); /* names in buckets that it had passed */
}

/* At most twice the referenced names plus a constant, after any number of changes. */
NAMES_TEST(churn__names_and_bytes_stay_bounded)
{
    enum { HELD = 1000, ROUNDS = 100000 };
    static const struct atom *atom[HELD];
    const size_t empty = names_bytes(names);
    size_t most = 0;
    size_t bytes = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        const struct atom *old = atom[i % HELD];
        atom[i % HELD] = hold(names, "GPU", i);
        if (old != NULL) {
            atom_unref(old);
            names_let_go(names, 1);
        }
        if (i % 7 == 0)
            names_sweep(names, 0);
        most = names_count(names) > most ? names_count(names) : most;
        bytes = names_bytes(names) > bytes ? names_bytes(names) : bytes;
    }
    assert_in_range(most, HELD, 2 * HELD + 64);
    assert_in_range(bytes, 0, 200 * HELD);
    for (uint64_t i = 0; i < HELD; i++) {
        assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
        atom_unref(atom[i]);
    }
    for (int i = 0; i < 4; i++)
        names_sweep(names, ALL);
    assert_int_equal(names_count(names), 0);
    assert_int_equal(names_bytes(names), empty);
}

/* Buckets are divided and joined one by one, so every size between is tried. */
NAMES_TEST(shrinking__loses_no_name)
{
    enum { NAMES = 3000 };
    static const struct atom *atom[NAMES];
    for (uint64_t i = 0; i < NAMES; i++)
        atom[i] = hold(names, "n", i);
    const size_t full = names_bytes(names);
    for (uint64_t gone = 0; gone < NAMES; gone++) {
        atom_unref(atom[gone]);
        names_let_go(names, 1);
        names_sweep(names, gone % 3 == 0 ? ALL : 0);
        if (gone % 97 != 0)
            continue;
        for (uint64_t i = gone + 1; i < NAMES; i++)
            assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
    }
    names_sweep(names, ALL);
    assert_int_equal(names_count(names), 0);
    assert_true(names_bytes(names) < full / 50);
}

TEST(atoms__outlive_their_table_while_held)
{
    struct names *names = names_new();
    const struct atom *atom = hold(names, "node", 1);
    assert_non_null(names_intern(names, TEXT("loose")));
    names_free(names);
    assert_string_equal(atom->text, "node-1");
    assert_null(atom_ref(NULL));
    atom_unref(NULL);
    atom_unref(atom);
}

TEST(atoms__constants_are_not_counted)
{
    static const struct atom constant = {.len = 1, .text = "c"};
    assert_ptr_equal(atom_ref(&constant), &constant);
    assert_int_equal(constant.refs, 0);
    atom_unref(&constant);
    atom_unref(&constant);
    assert_int_equal(constant.refs, 0);
}

static struct name_set *set_of(const struct atom *const *atom, uint32_t count)
{
    struct name_set *set = name_set_new(count);
    for (uint32_t i = 0; i < count; i++)
        name_set_add(set, atom[i]);
    return set;
}

NAMES_TEST(sets__equal_names_are_held_once)
{
    const struct atom *a = names_intern(names, TEXT("a"));
    const struct atom *b = names_intern(names, TEXT("b"));
    const struct atom *list[] = {a, a, NULL, b};
    const struct name_set *set = name_set_hold(set_of(list, 4), NULL);
    assert_int_equal(set->count, 2);
    assert_ptr_equal(set->name[0], a);
    assert_ptr_equal(set->name[1], b);
    assert_int_equal(a->refs, 2);

    const struct name_set *again = name_set_hold(set_of(list, 4), set);
    assert_ptr_equal(again, set);
    const struct name_set *shorter = name_set_hold(set_of(list, 1), set);
    assert_ptr_not_equal(shorter, set);
    assert_int_equal(a->refs, 3);
    list[3] = names_intern(names, TEXT("c"));
    const struct name_set *other = name_set_hold(set_of(list, 4), set);
    assert_ptr_not_equal(other, set);
    name_set_unref(other);
    name_set_unref(shorter);
    names_sweep(names, ALL);
    assert_int_equal(names_count(names), 2);
    name_set_unref(set);
    names_sweep(names, ALL);
    assert_int_equal(names_count(names), 2);
    assert_string_equal(again->name[1]->text, "b");
    name_set_unref(again);
    names_sweep(names, ALL);
    assert_int_equal(names_count(names), 0);
}
