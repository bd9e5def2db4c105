#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/core/facts/names.h"

#include "support/aborts.h"
#include "support/draw.h"
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

enum {
    ALL = 1 << 20, /* a sweep of the whole table */
    SHRINKS = 40,  /* such sweeps, until it shrinks no more */
    LEAST = 64,    /* slots of an empty table */
};

static void sweep_all(struct names *names)
{
    for (int i = 0; i < SHRINKS; i++)
        names_sweep(names, ALL);
}

/* Slots of the table, and of the one that it replaces; each name has 12 bytes. */
static size_t slots_of(const struct names *names)
{
    struct names *none = names_new();
    const size_t fixed = names_bytes(none) - LEAST * sizeof(void *);
    const size_t atoms = names_count(names) * (offsetof(struct atom, text) + 13);
    names_free(none);
    return (names_bytes(names) - fixed - atoms) / sizeof(void *);
}

NAMES_TEST(names_reserve__makes_room_once)
{
    intern_some(names, 0, 128);
    const size_t few = slots_of(names);
    names_reserve(names, 128);
    assert_int_equal(slots_of(names), few);
    names_reserve(names, 6000);
    const size_t many = slots_of(names);
    assert_int_equal(many, 8000); /* for three quarters of them, and in one table */
    names_reserve(names, 10);
    names_reserve(names, 6000);
    intern_some(names, 0, 6000);
    assert_int_equal(slots_of(names), many);
    assert_int_equal(names_count(names), 6000);
    assert_non_null(names_find(names, TEXT("GPU-00000000")));
    assert_non_null(names_find(names, TEXT("GPU-0000176f")));
    assert_null(names_find(names, TEXT("GPU-00001770")));
    /* Nobody keeps them, so sweeps free the names and the room. */
    sweep_all(names);
    assert_int_equal(names_count(names), 0);
    assert_int_equal(slots_of(names), LEAST);
}

/* While names move to a larger table, the rest of them is moved first. */
NAMES_TEST(names_reserve__finishes_a_rehash)
{
    intern_some(names, 0, 50);
    assert_int_equal(slots_of(names), 64 + 96);
    names_reserve(names, 72);
    assert_int_equal(slots_of(names), 64 + 96); /* there is room in the new table */
    names_reserve(names, 73);
    assert_int_equal(slots_of(names), 98);
    names_reserve(names, 75);
    assert_int_equal(slots_of(names), 100);
    intern_some(names, 0, 50);
    assert_int_equal(names_count(names), 50);
}

static const struct atom *hold(struct names *names, const char *word, uint64_t number)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%s-%u", word, (unsigned)number);
    return atom_ref(names_intern(names, text_of(text)));
}

NAMES_TEST(atom_mark__stays_with_its_name)
{
    const struct atom *one = names_intern(names, TEXT("GPU-1"));
    const struct atom *two = names_intern(names, TEXT("GPU-2"));

    assert_int_equal(atom_mark(one), 0);
    (void)atom_ref(one);
    (void)atom_ref(two);
    atom_set_mark(one, 7);
    atom_set_mark(two, ATOM_MARK_MAX);
    names_sweep(names, 1000);
    assert_int_equal(atom_mark(names_find(names, TEXT("GPU-1"))), 7);
    assert_int_equal(atom_mark(names_intern(names, TEXT("GPU-2"))), ATOM_MARK_MAX);
    atom_set_mark(one, 0);
    assert_int_equal(atom_mark(one), 0);
    assert_int_equal(atom_mark(two), ATOM_MARK_MAX);
    assert_int_equal(one->len, 5);
    assert_string_equal(one->text, "GPU-1");
    assert_string_equal(two->text, "GPU-2"); /* which begins right behind the mark */
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

static void mark_above_max(void *atom)
{
    atom_set_mark(atom, ATOM_MARK_MAX + 1);
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

NAMES_TEST(atom_mark__has_24_bits)
{
    assert_int_equal(ATOM_MARK_MAX, 0xffffff);
    assert_true(aborts(mark_above_max, (void *)(uintptr_t)hold(names, "GPU", 1)));
    atom_unref(names_find(names, TEXT("GPU-1")));
}

/* With what malloc() adds, a block of 64 bytes. */
NAMES_TEST(atom__of_a_uuid_takes_56_bytes)
{
    const size_t before = names_bytes(names);
    const struct atom *atom = names_intern(names, TEXT("GPU-9c4ca7d1-3ba9-1d39-8c7d-5f0b6a2e1f47"));
    assert_int_equal(atom->len, 40);
    assert_int_equal(names_bytes(names) - before, 56);
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

/* The slot in which a search for the name begins. */
static size_t home_of(struct text text, size_t slots)
{
    return (size_t)((uint64_t)text_hash(text) * slots >> 32);
}

/* Holds the next name, from *number on, that has this home in an empty table. */
static const struct atom *hold_at(struct names *names, size_t home, unsigned *number)
{
    char text[16];
    do
        (void)snprintf(text, sizeof text, "GPU-%08x", (*number)++);
    while (home_of(text_of(text), LEAST) != home);
    return atom_ref(names_intern(names, text_of(text)));
}

/* A look ends with a name, or after eight free slots. */
NAMES_TEST(sweep__looks_at_the_last_slot)
{
    static const size_t home[] = {0, 9, LEAST - 1};
    const struct atom *atom[ARRAY_LEN(home)];
    unsigned number = 0;

    for (size_t i = 0; i < ARRAY_LEN(home); i++)
        atom[i] = hold_at(names, home[i], &number);
    names_sweep(names, ALL); /* ends where it began */
    for (size_t i = 0; i < ARRAY_LEN(home); i++)
        atom_unref(atom[i]);
    names_sweep(names, 1); /* at slot 0 */
    assert_int_equal(names_count(names), 2);
    names_sweep(names, 1); /* 1 to 8 */
    assert_int_equal(names_count(names), 2);
    names_sweep(names, 1); /* 9 */
    assert_int_equal(names_count(names), 1);
    names_sweep(names, 6); /* 10 to 57 */
    assert_int_equal(names_count(names), 1);
    names_sweep(names, 1); /* 58 to 63 */
    assert_int_equal(names_count(names), 0);
}

/* It ends where it began, although it has looks left. */
NAMES_TEST(sweep__looks_at_each_slot_once)
{
    unsigned number = 0;

    names_sweep(names, 1); /* at the slots 0 to 7 */
    const struct atom *before = hold_at(names, 4, &number);
    const struct atom *after = hold_at(names, 12, &number);
    names_sweep(names, ALL);
    atom_unref(before);
    atom_unref(after);
    names_sweep(names, 1);
    assert_int_equal(names_count(names), 1);
    assert_true(names_find(names, atom_text(before)) == before);
}

/* All but the first of the names that share the last slot as their home follow at the other end. */
TEST(sweep__closes_gaps_around_the_end)
{
    enum { NAMES = 6 };
    const struct atom *atom[NAMES];
    for (unsigned held = 0; held < 1U << NAMES; held++) {
        struct names *names = names_new();
        unsigned number = 0;
        for (unsigned i = 0; i < NAMES; i++) /* the last ones have homes of their own */
            atom[i] = hold_at(names, i < 4 ? LEAST - 1 : i - 4, &number);
        for (unsigned i = 0; i < NAMES; i++)
            if ((held >> i & 1) == 0)
                atom_unref(atom[i]);
        names_sweep(names, ALL);
        assert_int_equal(names_count(names), __builtin_popcount(held));
        for (unsigned i = 0; i < NAMES; i++) {
            if ((held >> i & 1) == 0)
                continue;
            assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
            atom_unref(atom[i]);
        }
        names_sweep(names, ALL);
        assert_int_equal(names_count(names), 0);
        names_free(names);
    }
}

/* No name is in the way of another: the table has as many names as it takes before it grows. */
TEST(sweep__closes_gaps_anywhere)
{
    enum { NAMES = LEAST / 4 * 3 };
    const struct atom *atom[NAMES];
    for (uint64_t round = 0; round < 100; round++) {
        struct names *names = names_new();
        for (uint64_t i = 0; i < NAMES; i++)
            atom[i] = hold(names, "n", round * NAMES + i);
        for (uint64_t i = round % 3; i < NAMES; i += 3)
            atom_unref(atom[i]);
        names_sweep(names, ALL);
        assert_int_equal(names_count(names), NAMES - NAMES / 3);
        for (uint64_t i = 0; i < NAMES; i++) {
            if (i % 3 == round % 3)
                continue;
            assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
            atom_unref(atom[i]);
        }
        names_free(names);
    }
}

/* A table grows by a half when three quarters are used, and shrinks when a third is not. */
NAMES_TEST(bytes__follow_the_names)
{
    enum { NAMES = 1024, LEFT = 100, ATOM = 27 };
    static const struct atom *atom[NAMES];
    const size_t empty = names_bytes(names);

    assert_in_range(empty, LEAST * sizeof(void *) + 1, 2 * LEAST * sizeof(void *));
    assert_int_equal(empty % sizeof(void *), 0);
    for (uint64_t i = 0; i < NAMES; i++) { /* each of the same length */
        atom[i] = hold(names, "n", 1000000000 + i);
        assert_int_equal(offsetof(struct atom, text) + atom[i]->len + 1, ATOM + 1);
    }
    /* 64, 96, 144, 216, 324, 486, 729, 1093, 1639 */
    assert_int_equal(names_bytes(names) - empty,
                     NAMES * (ATOM + 1) + (1639 - LEAST) * sizeof(void *));
    for (uint64_t i = LEFT; i < NAMES; i++)
        atom_unref(atom[i]);
    sweep_all(names);
    assert_int_equal(names_count(names), LEFT);
    /* 1093, 729, 486, 324, 216 */
    assert_int_equal(names_bytes(names) - empty,
                     LEFT * (ATOM + 1) + (216 - LEAST) * sizeof(void *));
    for (uint64_t i = 0; i < LEFT; i++)
        atom_unref(atom[i]);
}

/* Eight slots of the old table are moved with each new name, and some more with the first. */
NAMES_TEST(growing__takes_as_many_names_as_an_eighth_of_the_slots)
{
    enum { MORE = 32 / 8 };
    static const unsigned slots[] = {64, 96, 144, 216, 324, 486, 729, 1093};

    for (size_t i = 0; i + 1 < ARRAY_LEN(slots); i++) {
        const unsigned full = slots[i] * 3 / 4;
        const unsigned moved = full + slots[i] / 8;
        intern_some(names, 0, full);
        assert_int_equal(slots_of(names), slots[i]);
        intern_some(names, 0, moved - MORE);
        intern_some(names, 0, full); /* known names move nothing */
        assert_int_equal(slots_of(names), slots[i] + slots[i + 1]);
        intern_some(names, 0, moved + 2);
        assert_int_equal(slots_of(names), slots[i + 1]);
    }
}

/* At each step of moving the names, around the end of the old table, too. */
TEST(growing__finds_names_in_both_tables)
{
    enum { NAMES = LEAST / 4 * 3, MORE = 10 };
    const struct atom *atom[NAMES + MORE];
    for (unsigned round = 0; round < 20; round++) {
        struct names *names = names_new();
        unsigned number = round << 16;
        for (unsigned i = 0; i < NAMES + MORE; i++) {
            atom[i] = i < 10 ? hold_at(names, LEAST - 1 - round % 3, &number)
                             : hold(names, "more", round * NAMES + i);
            for (unsigned j = 0; j <= i; j++)
                assert_ptr_equal(names_find(names, atom_text(atom[j])), atom[j]);
            assert_null(names_find(names, TEXT("none")));
        }
        for (unsigned i = 0; i < NAMES + MORE; i++) {
            assert_ptr_equal(names_intern(names, atom_text(atom[i])), atom[i]);
            atom_unref(atom[i]);
        }
        assert_int_equal(names_count(names), NAMES + MORE);
        names_free(names);
    }
}

/* Whether the sweep ends before, in or after the old table: nothing is lost or passed over. */
TEST(growing__goes_on_with_sweeps)
{
    enum { NAMES = LEAST / 4 * 3 + 1, LOOKS = 2 * LEAST };
    const struct atom *atom[NAMES];
    for (size_t looks = 0; looks < LOOKS; looks++) {
        struct names *names = names_new();
        for (uint64_t i = 0; i < NAMES; i++) {
            names_sweep(names, 0); /* so that the next one has four looks for the last name only */
            atom[i] = hold(names, "n", looks * NAMES + i);
        }
        for (uint64_t i = looks % 3; i < NAMES; i += 3)
            atom_unref(atom[i]);
        names_sweep(names, looks);
        assert_in_range(names_count(names), NAMES - (NAMES + 2) / 3, NAMES);
        for (uint64_t i = 0; i < NAMES; i++) {
            if (i % 3 != looks % 3)
                assert_ptr_equal(names_intern(names, atom_text(atom[i])), atom[i]);
        }
        names_sweep(names, ALL);
        for (uint64_t i = 0; i < NAMES; i++) {
            if (i % 3 == looks % 3)
                continue;
            assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
            atom_unref(atom[i]);
        }
        names_sweep(names, ALL);
        assert_int_equal(names_count(names), 0);
        names_free(names);
    }
}

/* Each look at the old table ends with a name, too. */
NAMES_TEST(growing__moves_one_name_with_each_look)
{
    enum { FULL = LEAST / 4 * 3 };
    const struct atom *atom[FULL + 1];
    unsigned number = 0;
    for (size_t i = 0; i < FULL; i++) /* in slots from 1 on, and in the last one */
        atom[i] = hold_at(names, i < FULL - 1 ? i + 1 : LEAST - 1, &number);
    names_sweep(names, 0);
    atom[FULL] = hold_at(names, 0, &number);
    names_sweep(names, FULL - 1 - 4); /* four more for the last name */
    assert_int_equal(slots_of(names), 64 + 96);
    names_sweep(names, 1); /* at free slots */
    assert_int_equal(slots_of(names), 64 + 96);
    names_sweep(names, 1);
    assert_int_equal(slots_of(names), 96);
    for (size_t i = 0; i <= FULL; i++)
        atom_unref(atom[i]);
}

/*
 * So that those in the last slots are looked at, however often the table changes; and the sweep of
 * a whole table in the midst of it ends where it began, too.
 */
NAMES_TEST(growing__leaves_a_sweep_where_it_is)
{
    enum { FULL = LEAST / 4 * 3, NAMES = FULL + 5 };
    const struct atom *atom[NAMES];
    unsigned number = 0;
    for (size_t i = 0; i < FULL; i++)
        atom[i] = hold_at(names, i < FULL - 1 ? i + 1 : LEAST - 1, &number);
    names_sweep(names, 0); /* ends where it began, at the first slot */
    names_sweep(names, 20);
    for (size_t i = FULL; i < NAMES; i++)
        atom[i] = hold_at(names, 0, &number);
    assert_int_equal(slots_of(names), 64 + 96);
    names_sweep(names, ALL);
    assert_int_equal(slots_of(names), 96);
    atom_unref(atom[10]);
    atom_unref(atom[20]);
    names_sweep(names, 3);
    assert_int_equal(names_count(names), NAMES - 1);
    assert_ptr_equal(names_find(names, atom_text(atom[10])), atom[10]);
    for (size_t i = 0; i < NAMES; i++) {
        if (i != 10 && i != 20)
            atom_unref(atom[i]);
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
    sweep_all(names);
    assert_int_equal(names_count(names), 0);
    assert_int_equal(names_bytes(names), empty);
}

/* As many as are referenced, at most, even if all are let go one after the other. */
NAMES_TEST(sweep__keeps_pace_with_names_that_go)
{
    enum { NAMES = 20000 };
    static const struct atom *atom[NAMES];
    for (uint64_t i = 0; i < NAMES; i++) {
        atom[i] = hold(names, "n", i);
        names_sweep(names, 0);
    }
    for (uint64_t i = 0; i < NAMES; i++) {
        atom_unref(atom[i]);
        names_let_go(names, 1);
        names_sweep(names, 0);
        assert_in_range(names_count(names), NAMES - i - 1, 2 * (NAMES - i - 1) + 64);
    }
}

/* In the midst of all of the table's sizes, too. */
NAMES_TEST(shrinking__loses_no_name)
{
    enum { NAMES = 3000 };
    static const struct atom *atom[NAMES];
    const size_t empty = names_bytes(names);
    for (uint64_t i = 0; i < NAMES; i++)
        atom[i] = hold(names, "n", i);
    for (uint64_t gone = 0; gone < NAMES; gone++) {
        atom_unref(atom[gone]);
        names_let_go(names, 1);
        names_sweep(names, gone % 3 == 0 ? 10 : 0);
        if (gone % 37 != 0)
            continue;
        for (uint64_t i = gone + 1; i < NAMES; i++)
            assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
    }
    sweep_all(names);
    assert_int_equal(names_count(names), 0);
    assert_int_equal(names_bytes(names), empty);
}

/* A table shrinks when less than a third is used, by a third, and with few looks at a time. */
NAMES_TEST(shrinking__begins_after_a_sweep)
{
    enum { NAMES = 73 }; /* one more than three quarters of 96 slots */
    const struct atom *atom[NAMES];
    unsigned number = 0;
    for (size_t i = 0; i < NAMES; i++)
        atom[i] = hold_at(names, i % LEAST, &number);
    names_sweep(names, 0);
    assert_int_equal(slots_of(names), 144);
    for (size_t i = 48; i < NAMES; i++)
        atom_unref(atom[i]);
    names_sweep(names, ALL);
    assert_int_equal(slots_of(names), 144);
    atom_unref(atom[47]);
    names_sweep(names, ALL);
    assert_int_equal(names_count(names), 47);
    assert_int_equal(slots_of(names), 144 + 96);
    names_sweep(names, 0);
    names_sweep(names, 10);
    assert_int_equal(slots_of(names), 144 + 96);
    for (size_t i = 0; i < 47; i++) {
        assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
        atom_unref(atom[i]);
    }
    names_sweep(names, ALL); /* of both tables */
    assert_int_equal(names_count(names), 0);
    assert_int_equal(slots_of(names), 96 + 64);
    names_sweep(names, ALL);
    assert_int_equal(slots_of(names), 64);
}

/* New names never fill the smaller table before those of the larger one are in it. */
TEST(shrinking__may_change_into_growing)
{
    enum { MOST = 400 };
    static const struct atom *atom[MOST];
    for (unsigned most = 49; most < MOST; most++) {
        struct names *names = names_new();
        names_reserve(names, most);
        const size_t slots = slots_of(names);
        const unsigned left = (unsigned)(slots - 1) / 3;
        for (unsigned i = 0; i < left; i++)
            atom[i] = hold(names, "GPU", 10000000 + i); /* 12 bytes */
        names_sweep(names, 0);
        assert_true(slots_of(names) > slots);
        intern_some(names, 0, most);
        assert_int_equal(names_count(names), left + most);
        for (unsigned i = 0; i < left; i++) {
            assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
            atom_unref(atom[i]);
        }
        names_free(names);
    }
}

/* Names that come, go and are swept at random, while the table grows and shrinks. */
NAMES_TEST(names__are_found_while_they_are_held)
{
    enum { NAMES = 600, STEPS = 60000, WAVE = 4000 };
    static const struct atom *atom[NAMES];
    uint64_t seed = 7;
    size_t held = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        const size_t i = draw_below(&seed, NAMES);
        const bool grows = step / WAVE % 2 == 0;
        if (atom[i] != NULL && draw_below(&seed, grows ? 8 : 2) == 0) {
            assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
            atom_unref(atom[i]);
            atom[i] = NULL;
            held--;
        } else if (atom[i] == NULL && draw_below(&seed, grows ? 2 : 8) == 0) {
            atom[i] = hold(names, "n", i + NAMES * (step / WAVE));
            held++;
        }
        if (draw_below(&seed, 8) == 0)
            names_sweep(names, draw_below(&seed, 20));
        if (step % 500 == 0) {
            names_sweep(names, ALL);
            assert_int_equal(names_count(names), held);
        }
    }
    for (size_t i = 0; i < NAMES; i++) {
        if (atom[i] != NULL)
            assert_ptr_equal(names_find(names, atom_text(atom[i])), atom[i]);
        atom_unref(atom[i]);
    }
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
