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

void map_done(struct map *map)
{
    must(map->entry != NULL || map->slots == 0);
    xfree(map->entry);
    xfree(map->old);
    map_init(map);
}

static struct text map_key(const struct map_entry *entry)
{
    return (struct text){entry->key, entry->key_len};
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
static struct map_entry *map_slot_of(struct map_entry *table, size_t slots, struct text key,
                                     uint32_t hash)
{
    must(slots > 0 && slots <= SLOTS_MAX);

    size_t at = map_home(hash, slots);
    while (table[at].value != NULL) {
        const struct map_entry *entry = &table[at];
        if (entry->hash == hash && text_eq(map_key(entry), key))
            break;
        at = map_next_slot(at, slots);
    }
    return &table[at];
}

/* The number of slots from one slot to another, around the end of the table. */
static size_t map_distance(size_t from, size_t to, size_t slots)
{
    return to >= from ? to - from : to + slots - from;
}

/* Backward-shift deletion, so that no search ends before a displaced key. */
static void close_gap(struct map_entry *table, size_t slots, size_t gap)
{
    must(gap < slots);

    for (size_t at = map_next_slot(gap, slots); table[at].value != NULL;
         at = map_next_slot(at, slots)) {
        const size_t home = map_home(table[at].hash, slots);
        /* May move into the gap unless its home lies between the gap and its slot. */
        if (map_distance(home, at, slots) < map_distance(gap, at, slots))
            continue;
        table[gap] = table[at];
        gap = at;
    }
    table[gap] = (struct map_entry){0};
}

/* Moves entries from the old table, in slot order, because gaps close from behind. */
static void map_move(struct map *map, size_t slots)
{
    if (map->old == NULL)
        return;
    for (size_t i = 0; i < slots && map->moved < map->old_slots; i++) {
        const struct map_entry moving = map->old[map->moved];
        if (moving.value == NULL) {
            map->moved++;
            continue;
        }
        close_gap(map->old, map->old_slots, map->moved);
        *map_slot_of(map->entry, map->slots, map_key(&moving), moving.hash) = moving;
    }
    if (map->moved < map->old_slots)
        return;
    xfree(map->old);
    map->old = NULL;
    map->old_slots = map->moved = 0;
}

static void map_move_some(struct map *map)
{
    map_move(map, MAP_MOVES);
}

static void move_all(struct map *map)
{
    map_move(map, SIZE_MAX);
    must(map->old == NULL && map->moved == 0);
}

void map_settle(struct map *map, size_t slots)
{
    must(slots > 0);
    map_move(map, slots);
    must(map->old == NULL || map->moved < map->old_slots);
}

/* Called when the table is three quarters full; the only allocation. */
static void map_grow(struct map *map)
{
    must(map->slots <= SLOTS_MAX / 2);

    /* A no-op normally: n slots are moved within n / 4 changes, and 3 / 8 n fill the new table. */
    move_all(map);
    map->old = map->entry;
    map->old_slots = map->slots;
    map->slots = map->slots > 0 ? map->slots + map->slots / 2 : SLOTS_MIN;
    map->entry = xcalloc(map->slots, sizeof *map->entry);
    must(map->slots > map->count);
}

/* Removes the key from the old table; returns its value, or NULL if not found. */
static void *take_old(struct map *map, struct text key, uint32_t hash)
{
    if (map->old == NULL)
        return NULL;
    const struct map_entry *entry = map_slot_of(map->old, map->old_slots, key, hash);
    void *value = entry->value;
    must(value == NULL || (size_t)(entry - map->old) >= map->moved);
    if (value != NULL)
        close_gap(map->old, map->old_slots, (size_t)(entry - map->old));
    return value;
}

void *map_find(const struct map *map, struct text key)
{
    must(map->count == 0 || map->entry != NULL);
    if (map->count == 0)
        return NULL;
    const uint32_t hash = text_hash(key);
    void *value = map_slot_of(map->entry, map->slots, key, hash)->value;
    /* Entries not moved yet are in the old table. */
    if (value == NULL && map->old != NULL)
        value = map_slot_of(map->old, map->old_slots, key, hash)->value;
    return value;
}

void *map_put(struct map *map, struct text key, void *value)
{
    must(value != NULL);
    must(key.len <= UINT32_MAX);

    map_move_some(map);
    if ((map->count + 1) * 4 > map->slots * 3)
        map_grow(map);
    const uint32_t hash = text_hash(key);
    struct map_entry *entry = map_slot_of(map->entry, map->slots, key, hash);
    void *before = entry->value != NULL ? entry->value : take_old(map, key, hash);
    if (before == NULL)
        map->count++;
    /* Replaces the key too: the old one may be a member of the old value. */
    must(map->count < map->slots);
    *entry = (struct map_entry){key.at, (uint32_t)key.len, hash, value};
    return before;
}

/* Moves some entries as well, so that a map that only shrinks also frees its old table. */
void *map_take(struct map *map, struct text key)
{
    if (map->count == 0)
        return NULL;
    map_move_some(map);
    const uint32_t hash = text_hash(key);
    struct map_entry *entry = map_slot_of(map->entry, map->slots, key, hash);
    void *value = entry->value;
    if (value != NULL)
        close_gap(map->entry, map->slots, (size_t)(entry - map->entry));
    else
        value = take_old(map, key, hash);
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
    while (map->entry[free_slot].value != NULL)
        free_slot++;
    for (size_t at = map_next_slot(free_slot, map->slots); at != free_slot;
         at = map_next_slot(at, map->slots)) {
        while (map->entry[at].value != NULL && !keep(user, map->entry[at].value)) {
            map->count--;
            close_gap(map->entry, map->slots, at);
        }
    }
    must(map->count <= before);
    return before - map->count;
}

void *map_next(const struct map *map, size_t *at)
{
    while (*at < map->slots + map->old_slots) {
        const size_t slot = (*at)++;
        void *value =
            slot < map->slots ? map->entry[slot].value : map->old[slot - map->slots].value;
        if (value != NULL)
            return value;
    }
    return NULL;
}
