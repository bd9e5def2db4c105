#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/map.h"

#include "support/test.h"

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33) % below;
}

static int set_up(void **state)
{
    static struct map map;

    map_init(&map);
    *state = &map;
    return 0;
}

static int tear_down(void **state)
{
    map_done(*state);
    return 0;
}

#define MAP_TEST(name) TEST_WITH(name, struct map *map, set_up, tear_down)

static size_t count_entries(const struct map *map)
{
    size_t count = 0;
    for (size_t at = 0; map_next(map, &at) != NULL;)
        count++;
    return count;
}

static_assert(sizeof(struct map_pair) == 24 && sizeof(struct map_pair_of_keys) == 24,
              "a large cluster has 300,000 slots");
static_assert(offsetof(struct map_pair, value) % sizeof(void *) == 0 &&
                  _Alignof(struct map_pair) == _Alignof(void *),
              "a leak checker reads only aligned pointers");

MAP_TEST(map__finds_nothing_when_empty)
{
    size_t at = 0;
    assert_null(map_find(map, TEXT("a")));
    assert_null(map_take(map, TEXT("a")));
    assert_null(map_next(map, &at));
    map_done(map);
}

MAP_TEST(map_put__returns_the_old_value_and_keeps_the_new_key)
{
    int one = 1;
    int two = 2;
    char first[] = "key";
    char second[] = "key";
    assert_null(map_put(map, text_of(first), &one));
    assert_ptr_equal(map_put(map, text_of(second), &two), &one);
    first[0] = 'x'; /* the first key is no longer used */
    assert_ptr_equal(map_find(map, TEXT("key")), &two);
    assert_int_equal(map->count, 1);
    assert_ptr_equal(map_take(map, TEXT("key")), &two);
    assert_null(map_find(map, TEXT("key")));
}

MAP_TEST(map__accepts_empty_keys_and_nul_bytes)
{
    int value[3] = {0};
    assert_null(map_put(map, TEXT(""), &value[0]));
    assert_null(map_put(map, TEXT("\0"), &value[1]));
    assert_null(map_put(map, TEXT("\0\0"), &value[2]));
    assert_ptr_equal(map_find(map, (struct text){0}), &value[0]);
    assert_ptr_equal(map_find(map, TEXT("\0")), &value[1]);
    assert_ptr_equal(map_find(map, TEXT("\0\0")), &value[2]);
}

enum { KEYS = 300 };

struct item {
    char key[16];
    bool in;
};

static void agree(const struct map *map, struct item *item)
{
    size_t count = 0;
    size_t seen = 0;
    size_t at = 0;
    for (size_t i = 0; i < KEYS; i++) {
        count += item[i].in;
        assert_ptr_equal(map_find(map, text_of(item[i].key)), item[i].in ? &item[i] : NULL);
    }
    assert_int_equal(map->count, count);
    for (const struct item *next = map_next(map, &at); next != NULL; next = map_next(map, &at)) {
        assert_true(next->in);
        seen++;
    }
    assert_int_equal(seen, count);
}

static struct text key_of_item(const void *value)
{
    const struct item *item = value;
    return text_of(item->key);
}

/* In waves, so that the map gets both full and empty. */
static void walk(struct map *map, struct item *item)
{
    const char *env = getenv("MAP_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 11;
    print_message("MAP_SEED=%llu\n", (unsigned long long)seed);

    for (size_t i = 0; i < KEYS; i++)
        (void)snprintf(item[i].key, sizeof item[i].key, "pod-%zu", i);
    for (int i = 0; i < 60000; i++) {
        struct item *one = &item[draw(&seed, KEYS)];
        const bool put = draw(&seed, 10) < (i / 5000 % 2 == 0 ? 8U : 2U);
        void *before =
            put ? map_put(map, text_of(one->key), one) : map_take(map, text_of(one->key));
        assert_ptr_equal(before, one->in ? one : NULL);
        one->in = put;
        if (i % 64 == 0)
            agree(map, item);
    }
    agree(map, item);
}

MAP_TEST(map__agrees_with_a_plain_one_on_a_random_walk)
{
    static struct item item[KEYS];

    walk(map, item);
}

MAP_TEST(map_of_values_with_keys__agrees_with_a_plain_one_on_a_random_walk)
{
    static struct item item[KEYS];

    map_init_keyed(map, key_of_item);
    walk(map, item);
    assert_null(map->now.key); /* half of the memory */
}

MAP_TEST(map_of_values_with_keys__finds_a_value_that_replaced_another)
{
    struct item first = {.key = "key"};
    struct item second = {.key = "key"};

    map_init_keyed(map, key_of_item);
    assert_null(map_put(map, TEXT("key"), &first));
    assert_ptr_equal(map_put(map, TEXT("key"), &second), &first);
    first.key[0] = 'x'; /* it is no longer used */
    assert_ptr_equal(map_find(map, TEXT("key")), &second);
    assert_ptr_equal(map_take(map, TEXT("key")), &second);
    assert_int_equal(map->count, 0);
    map_done(map);
    assert_null(map_put(map, TEXT("key"), &second)); /* it still knows where keys are */
    assert_null(map->now.key);
}

struct counted {
    char key[16];
    size_t number;
    bool held;
};

struct asked {
    int of[4000];
    int asks;
    uint64_t seed;
    uint32_t of_ten; /* how many of ten are removed */
};

static bool keep_some(void *user, void *value)
{
    struct asked *asked = user;
    struct counted *item = value;
    asked->asks++;
    asked->of[item->number]++;
    item->held = draw(&asked->seed, 10) >= asked->of_ten;
    return item->held;
}

/* One change moves a bounded number of old slots, whatever the size. */
MAP_TEST(map__moves_a_few_entries_per_change_while_growing)
{
    static struct counted item[4000];
    uint64_t seed = 11;
    size_t in = 0;
    unsigned moving = 0;
    for (size_t i = 0; i < ARRAY_LEN(item); i++) {
        (void)snprintf(item[i].key, sizeof item[i].key, "%zu", i);
        item[i].number = i;
        item[i].held = false;
    }
    for (size_t i = 0; i < ARRAY_LEN(item); i++) {
        const size_t slots = map->now.slots;
        const size_t moved = map->moved;
        assert_null(map_put(map, text_of(item[i].key), &item[i]));
        item[i].held = true;
        in++;
        if (map->old.pair != NULL && map->now.slots == slots) {
            assert_in_range(map->moved, moved, moved + MAP_MOVES);
            moving++;
        }
        struct counted *any = &item[draw(&seed, (uint32_t)(i + 1))];
        assert_ptr_equal(map_find(map, text_of(any->key)), any->held ? any : NULL);
        if (i % 3 == 0) {
            assert_ptr_equal(map_take(map, text_of(any->key)), any->held ? any : NULL);
            in -= any->held;
            any->held = false;
        } else if (any->held) {
            assert_ptr_equal(map_put(map, text_of(any->key), any), any);
        }
        assert_int_equal(map->count, in);
    }
    assert_int_equal(map->now.slots, 4794);
    assert_true(moving > 100);
    assert_int_equal(count_entries(map), in);
}

/* A put would otherwise move all that is left. */
MAP_TEST(map__has_moved_all_entries_before_it_grows_again)
{
    static struct counted item[4000];
    unsigned grown = 0;
    for (size_t i = 0; i < ARRAY_LEN(item); i++) {
        const size_t slots = map->now.slots;
        const bool moving = map->old.pair != NULL;
        (void)snprintf(item[i].key, sizeof item[i].key, "%zu", i);
        assert_null(map_put(map, text_of(item[i].key), &item[i]));
        if (map->now.slots == slots)
            continue;
        assert_false(moving);
        grown++;
    }
    assert_in_range(map->now.slots, ARRAY_LEN(item) * 4 / 3, ARRAY_LEN(item) * 2);
    assert_true(grown > 10);
}

/* While entries move, look-ups and iteration still find everything exactly once. */
MAP_TEST(map__finds_every_entry_while_moving)
{
    enum { FULL = 710 }; /* one more than 946 slots hold */
    static struct counted item[FULL];
    for (size_t i = 0; i < FULL; i++) {
        (void)snprintf(item[i].key, sizeof item[i].key, "%zu", i);
        assert_null(map_put(map, text_of(item[i].key), &item[i]));
    }
    assert_non_null(map->old.pair);
    for (size_t i = 0; map->old.pair != NULL && i < FULL; i++) {
        assert_int_equal(count_entries(map), FULL);
        for (size_t k = 0; k < FULL; k++)
            assert_ptr_equal(map_find(map, text_of(item[k].key)), &item[k]);
        assert_ptr_equal(map_put(map, text_of(item[i].key), &item[i]), &item[i]);
    }
    assert_null(map->old.pair);
    assert_int_equal(map->count, FULL);
}

MAP_TEST(map_settle__ends_a_rehash_without_changes)
{
    enum { FULL = 710, SLOTS = 100 }; /* one more than 946 slots hold */
    static struct counted item[FULL];
    unsigned turns = 0;

    map_settle(map, SLOTS); /* an empty table */
    assert_null(map->old.pair);
    for (size_t i = 0; i < FULL; i++) {
        (void)snprintf(item[i].key, sizeof item[i].key, "%zu", i);
        assert_null(map_put(map, text_of(item[i].key), &item[i]));
    }
    while (map->old.pair != NULL) {
        const size_t moved = map->moved;
        map_settle(map, SLOTS);
        assert_true(map->old.pair == NULL || (map->moved > moved && map->moved <= moved + SLOTS));
        assert_int_equal(count_entries(map), FULL);
        turns++;
    }
    /* Each slot is passed once, and once more if it had an entry. */
    assert_in_range(turns, 946 / SLOTS, (946 + FULL) / SLOTS + 1);
    map_settle(map, SIZE_MAX);
    assert_null(map->old.pair);
    for (size_t i = 0; i < FULL; i++)
        assert_ptr_equal(map_find(map, text_of(item[i].key)), &item[i]);
    assert_int_equal(map->now.slots, 1420);
}

TEST(map_retain__visits_each_value_once)
{
    static struct counted item[4000];
    static struct asked asked;
    for (uint32_t round = 0; round <= 10; round++) {
        struct map map;
        size_t kept = 0;
        map_init(&map);
        assert_int_equal(map_retain(&map, &asked, keep_some), 0);
        asked = (struct asked){.seed = round, .of_ten = round};
        for (size_t i = 0; i < ARRAY_LEN(item); i++) {
            item[i].number = i;
            const int len = snprintf(item[i].key, sizeof item[i].key, "%zu/%u", i, round);
            assert_null(map_put(&map, (struct text){item[i].key, (size_t)len}, &item[i]));
        }
        const size_t went = map_retain(&map, &asked, keep_some);
        assert_int_equal(asked.asks, ARRAY_LEN(item));
        for (size_t i = 0; i < ARRAY_LEN(item); i++) {
            assert_int_equal(asked.of[i], 1);
            assert_ptr_equal(map_find(&map, text_of(item[i].key)), item[i].held ? &item[i] : NULL);
            kept += item[i].held;
        }
        assert_int_equal(map.count, kept);
        assert_int_equal(went, ARRAY_LEN(item) - kept);
        map_done(&map);
    }
}
