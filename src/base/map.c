/*
 * Linear probing in a table of at most three quarters, without tombstones: a removal closes its
 * gap. While a table grows there are two, and a key is in one of them only. Tables never shrink.
 */
#include "milligpu/base/map.h"

#include "milligpu/base/alloc.h"

enum { SLOTS_MIN = 16 };

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

/* The slot that holds key, or the free slot where it belongs. */
static struct map_entry *map_slot_of(struct map_entry *table, size_t slots, struct text key,
                                     uint32_t hash)
{
    must(slots > 0);
    must((slots & (slots - 1)) == 0);

    size_t at = hash & (slots - 1);
    while (table[at].value != NULL) {
        const struct map_entry *entry = &table[at];
        if (entry->hash == hash && text_eq(entry->key, key))
            break;
        at = (at + 1) & (slots - 1);
    }
    return &table[at];
}

/* Close the gap, so that no search ends before a key that was pushed past it. */
static void close_gap(struct map_entry *table, size_t slots, size_t gap)
{
    const size_t mask = slots - 1;
    must(gap <= mask);

    for (size_t at = (gap + 1) & mask; table[at].value != NULL; at = (at + 1) & mask) {
        const size_t home = table[at].hash & mask;
        /* It may move only if its home is not between the gap and its slot. */
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        table[gap] = table[at];
        gap = at;
    }
    table[gap] = (struct map_entry){0};
}

/* Move a few over from the old table, in its order: closing a gap there pulls from behind. */
static void map_move_some(struct map *map)
{
    if (map->old == NULL)
        return;
    for (size_t i = 0; i < MAP_MOVES && map->moved < map->old_slots; i++) {
        const struct map_entry moving = map->old[map->moved];
        if (moving.value == NULL) {
            map->moved++;
            continue;
        }
        close_gap(map->old, map->old_slots, map->moved);
        *map_slot_of(map->entry, map->slots, moving.key, moving.hash) = moving;
    }
    if (map->moved < map->old_slots)
        return;
    xfree(map->old);
    map->old = NULL;
    map->old_slots = map->moved = 0;
}

static void move_all(struct map *map)
{
    while (map->old != NULL)
        map_move_some(map);
    must(map->moved == 0);
}

/* Called when the table is full to three quarters; only this allocates. */
static void map_grow(struct map *map)
{
    must(map->slots <= SIZE_MAX / 4);

    move_all(map); /* all moved long ago: it takes an eighth of the changes that fill the table */
    map->old = map->entry;
    map->old_slots = map->slots;
    map->slots = map->slots > 0 ? map->slots * 2 : SLOTS_MIN;
    map->entry = xcalloc(map->slots, sizeof *map->entry);
    must(map->slots > map->count);
}

/* Remove the key from the old table if it is still there; NULL if it is not. */
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
    /* What has not moved yet is in the old table. */
    if (value == NULL && map->old != NULL)
        value = map_slot_of(map->old, map->old_slots, key, hash)->value;
    return value;
}

void *map_put(struct map *map, struct text key, void *value)
{
    must(value != NULL);

    map_move_some(map);
    if ((map->count + 1) * 4 > map->slots * 3)
        map_grow(map);
    const uint32_t hash = text_hash(key);
    struct map_entry *entry = map_slot_of(map->entry, map->slots, key, hash);
    void *before = entry->value != NULL ? entry->value : take_old(map, key, hash);
    if (before == NULL)
        map->count++;
    /* The key, too: the old one may be a member of the value that is removed. */
    must(map->count < map->slots);
    *entry = (struct map_entry){key, hash, value};
    return before;
}

/* Moves some entries, too, so that a map that only shrinks also gets rid of its old table. */
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
    /* The pass below needs one table, and costs as much as moving all. */
    move_all(map);
    /* Closing a gap behind a free slot never pulls anything over the position reached. */
    while (map->entry[free_slot].value != NULL)
        free_slot++;
    for (size_t i = 1; i < map->slots; i++) {
        const size_t at = (free_slot + i) & (map->slots - 1);
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
