/*
 * A hash table with linear probing, at most three quarters full, without tombstones: a removal
 * closes its gap. It grows by a half: doubled tables of a large cluster would be mostly empty. The
 * home of a key is hash * slots / 2^32, so that slots can be any number. During a rehash there are
 * two tables, and each key is in one of them only. Tables never shrink.
 */
#include "milligpu/base/map.h"

#include "milligpu/base/alloc.h"

enum { SLOTS_MIN = 16 };

static const size_t SLOTS_MAX = (size_t)1 << 32; /* hashes have 32 bits */

void map_init(struct map *map)
{
    *map = (struct map){0};
}

void map_init_keyed(struct map *map, map_key_of *key_of)
{
    must(key_of != NULL);
    *map = (struct map){.key_of = key_of};
}

void map_done(struct map *map)
{
    must(map->now.pair != NULL || map->now.slots == 0);
    xfree(map->now.pair);
    xfree(map->old.pair);
    *map = (struct map){.key_of = map->key_of};
}

static struct map_table table_new(size_t slots, bool has_keys)
{
    const size_t pairs = (slots + 1) / 2;
    const size_t bytes = sizeof(struct map_pair) + (has_keys ? sizeof(struct map_pair_of_keys) : 0);
    struct map_table table = {.pair = xcalloc(pairs, bytes), .slots = 2 * pairs};

    if (has_keys)
        table.key = (struct map_pair_of_keys *)(table.pair + pairs);
    return table;
}

static void *value_at(const struct map_table *table, size_t at)
{
    return table->pair[at / 2].value[at % 2];
}

static uint32_t hash_at(const struct map_table *table, size_t at)
{
    return table->pair[at / 2].hash[at % 2];
}

static void set_slot(struct map_table *table, size_t at, void *value, uint32_t hash)
{
    table->pair[at / 2].value[at % 2] = value;
    table->pair[at / 2].hash[at % 2] = hash;
}

/* The key that the table has of a slot. */
static struct text stored_key(const struct map_table *table, size_t at)
{
    return (struct text){table->key[at / 2].at[at % 2], table->key[at / 2].len[at % 2]};
}

static void store_key(struct map_table *table, size_t at, struct text key)
{
    table->key[at / 2].at[at % 2] = key.at;
    table->key[at / 2].len[at % 2] = (uint32_t)key.len;
}

static bool slot_has_key(const struct map *map, const struct map_table *table, size_t at,
                         struct text key)
{
    return text_eq(table->key != NULL ? stored_key(table, at) : map->key_of(value_at(table, at)),
                   key);
}

/* Moves an entry to a free slot, maybe of another table of the map. */
static void move_entry(struct map_table *to, size_t to_at, struct map_table *from, size_t from_at)
{
    set_slot(to, to_at, value_at(from, from_at), hash_at(from, from_at));
    if (to->key != NULL)
        store_key(to, to_at, stored_key(from, from_at));
}

static size_t map_home(uint32_t hash, size_t slots)
{
    return (size_t)((uint64_t)hash * slots >> 32);
}

static size_t map_next_slot(size_t at, size_t slots)
{
    return at + 1 < slots ? at + 1 : 0;
}

/* Returns the slot of key, or the free slot for it. */
static size_t map_slot_of(const struct map *map, const struct map_table *table, struct text key,
                          uint32_t hash)
{
    must(table->slots > 0 && table->slots <= SLOTS_MAX);

    size_t at = map_home(hash, table->slots);
    while (value_at(table, at) != NULL) {
        if (hash_at(table, at) == hash && slot_has_key(map, table, at, key))
            break;
        at = map_next_slot(at, table->slots);
    }
    return at;
}

/* Returns the free slot for a key that the table does not have. */
static size_t free_slot_for(const struct map_table *table, uint32_t hash)
{
    must(table->slots > 0 && table->slots <= SLOTS_MAX);

    size_t at = map_home(hash, table->slots);
    while (value_at(table, at) != NULL)
        at = map_next_slot(at, table->slots);
    return at;
}

/* The number of slots from one slot to another, around the end of the table. */
static size_t map_distance(size_t from, size_t to, size_t slots)
{
    return to >= from ? to - from : to + slots - from;
}

/* Backward-shift deletion, so that no search ends before a displaced key. */
static void close_gap(struct map_table *table, size_t gap)
{
    const size_t slots = table->slots;

    must(gap < slots);
    for (size_t at = map_next_slot(gap, slots); value_at(table, at) != NULL;
         at = map_next_slot(at, slots)) {
        const size_t home = map_home(hash_at(table, at), slots);
        /* May move into the gap unless its home lies between the gap and its slot. */
        if (map_distance(home, at, slots) < map_distance(gap, at, slots))
            continue;
        move_entry(table, gap, table, at);
        gap = at;
    }
    set_slot(table, gap, NULL, 0);
}

/* Moves entries from the old table, in slot order, because gaps close from behind. */
static void map_move(struct map *map, size_t slots)
{
    if (map->old.pair == NULL)
        return;
    for (size_t i = 0; i < slots && map->moved < map->old.slots; i++) {
        if (value_at(&map->old, map->moved) == NULL) {
            map->moved++;
            continue;
        }
        move_entry(&map->now, free_slot_for(&map->now, hash_at(&map->old, map->moved)), &map->old,
                   map->moved);
        close_gap(&map->old, map->moved);
    }
    if (map->moved < map->old.slots)
        return;
    xfree(map->old.pair);
    map->old = (struct map_table){0};
    map->moved = 0;
}

static void map_move_some(struct map *map)
{
    map_move(map, MAP_MOVES);
}

static void move_all(struct map *map)
{
    map_move(map, SIZE_MAX);
    must(map->old.pair == NULL && map->moved == 0);
}

void map_settle(struct map *map, size_t slots)
{
    must(slots > 0);
    map_move(map, slots);
    must(map->old.pair == NULL || map->moved < map->old.slots);
}

/* Called when the table is three quarters full; the only allocation. */
static void map_grow(struct map *map)
{
    const size_t slots = map->now.slots;

    must(slots <= SLOTS_MAX / 2);
    /* A no-op normally: n slots are moved within n / 4 changes, and 3 / 8 n fill the new table. */
    move_all(map);
    map->old = map->now;
    map->now = table_new(slots > 0 ? slots + slots / 2 : SLOTS_MIN, map->key_of == NULL);
    must(map->now.slots > map->count);
}

/* Removes the key from the table; returns its value, or NULL if not found. */
static void *take_from(const struct map *map, struct map_table *table, struct text key,
                       uint32_t hash)
{
    if (table->pair == NULL)
        return NULL;
    const size_t at = map_slot_of(map, table, key, hash);
    void *value = value_at(table, at);
    if (value != NULL)
        close_gap(table, at);
    return value;
}

void *map_find(const struct map *map, struct text key)
{
    must(map->count == 0 || map->now.pair != NULL);
    if (map->count == 0)
        return NULL;
    const uint32_t hash = text_hash(key);
    void *value = value_at(&map->now, map_slot_of(map, &map->now, key, hash));
    /* Entries not moved yet are in the old table. */
    if (value == NULL && map->old.pair != NULL)
        value = value_at(&map->old, map_slot_of(map, &map->old, key, hash));
    return value;
}

void *map_put(struct map *map, struct text key, void *value)
{
    must(value != NULL);
    must(key.len <= UINT32_MAX);
    must(map->key_of == NULL || text_eq(map->key_of(value), key));

    map_move_some(map);
    if ((map->count + 1) * 4 > map->now.slots * 3)
        map_grow(map);
    const uint32_t hash = text_hash(key);
    const size_t at = map_slot_of(map, &map->now, key, hash);
    void *before = value_at(&map->now, at);
    if (before == NULL)
        before = take_from(map, &map->old, key, hash);
    if (before == NULL)
        map->count++;
    must(map->count < map->now.slots);
    set_slot(&map->now, at, value, hash);
    /* Replaces the key too: the old one may be a member of the old value. */
    if (map->now.key != NULL)
        store_key(&map->now, at, key);
    return before;
}

/* Moves some entries as well, so that a map that only shrinks also frees its old table. */
void *map_take(struct map *map, struct text key)
{
    if (map->count == 0)
        return NULL;
    map_move_some(map);
    const uint32_t hash = text_hash(key);
    void *value = take_from(map, &map->now, key, hash);
    if (value == NULL)
        value = take_from(map, &map->old, key, hash);
    must(map->count > 0);
    if (value != NULL)
        map->count--;
    return value;
}

size_t map_retain(struct map *map, void *user, bool (*keep)(void *user, void *value))
{
    const size_t before = map->count;
    size_t free_slot = 0;

    must(keep != NULL);
    if (map->count == 0)
        return 0;
    /* The pass below needs a single table, and costs as much as moving all entries. */
    move_all(map);
    /* Starts after a free slot: then closing a gap never moves an entry to a visited slot. */
    struct map_table *table = &map->now;
    while (value_at(table, free_slot) != NULL)
        free_slot++;
    for (size_t at = map_next_slot(free_slot, table->slots); at != free_slot;
         at = map_next_slot(at, table->slots)) {
        while (value_at(table, at) != NULL && !keep(user, value_at(table, at))) {
            map->count--;
            close_gap(table, at);
        }
    }
    must(map->count <= before);
    return before - map->count;
}

void *map_next(const struct map *map, size_t *at)
{
    while (*at < map->now.slots + map->old.slots) {
        const size_t slot = (*at)++;
        void *value = slot < map->now.slots ? value_at(&map->now, slot)
                                            : value_at(&map->old, slot - map->now.slots);
        if (value != NULL)
            return value;
    }
    return NULL;
}
