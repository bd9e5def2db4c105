#include "milligpu/map.h"

#include "milligpu/alloc.h"

enum { SLOTS_MIN = 16 };

void map_init(struct map *map)
{
    must(map != NULL);
    *map = (struct map){0};
}

void map_done(struct map *map)
{
    must(map->entry != NULL || map->slots == 0);
    xfree(map->entry);
    map_init(map);
}

/* The slot that holds key, or the free one where it belongs. */
static struct map_entry *slot_of(const struct map *map, struct text key, uint32_t hash)
{
    must(map->slots > map->count);
    must((map->slots & (map->slots - 1)) == 0);

    size_t at = hash & (map->slots - 1);
    while (map->entry[at].value != NULL) {
        const struct map_entry *entry = &map->entry[at];
        if (entry->hash == hash && text_eq(entry->key, key))
            break;
        at = (at + 1) & (map->slots - 1);
    }
    return &map->entry[at];
}

static void grow(struct map *map)
{
    const struct map old = *map;
    must(old.slots <= SIZE_MAX / 4);

    map->slots = old.slots > 0 ? old.slots * 2 : SLOTS_MIN;
    map->entry = xcalloc(map->slots, sizeof *map->entry);
    for (size_t i = 0; i < old.slots; i++) {
        const struct map_entry *entry = &old.entry[i];
        if (entry->value != NULL)
            *slot_of(map, entry->key, entry->hash) = *entry;
    }
    must(map->slots > map->count);
    xfree(old.entry);
}

void *map_find(const struct map *map, struct text key)
{
    must(map->count == 0 || map->entry != NULL);
    if (map->count == 0)
        return NULL;
    return slot_of(map, key, text_hash(key))->value;
}

void *map_put(struct map *map, struct text key, void *value)
{
    must(value != NULL);

    if ((map->count + 1) * 4 > map->slots * 3)
        grow(map);
    const uint32_t hash = text_hash(key);
    struct map_entry *entry = slot_of(map, key, hash);
    void *before = entry->value;
    if (before == NULL)
        map->count++;
    /* The key too: the old one may be a member of the value that goes. */
    must(map->count < map->slots);
    *entry = (struct map_entry){key, hash, value};
    return before;
}

/* Close the gap, so that no search stops short of what was pushed past it. */
static void close_gap(struct map *map, size_t gap)
{
    const size_t mask = map->slots - 1;
    must(gap <= mask);

    for (size_t at = (gap + 1) & mask; map->entry[at].value != NULL; at = (at + 1) & mask) {
        const size_t home = map->entry[at].hash & mask;
        /* It may move only if its home is not between the gap and where it is. */
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        map->entry[gap] = map->entry[at];
        gap = at;
    }
    map->entry[gap] = (struct map_entry){0};
}

void *map_take(struct map *map, struct text key)
{
    if (map->count == 0)
        return NULL;
    struct map_entry *entry = slot_of(map, key, text_hash(key));
    void *value = entry->value;
    if (value == NULL)
        return NULL;
    must(map->count > 0);
    map->count--;
    close_gap(map, (size_t)(entry - map->entry));
    return value;
}

size_t map_sweep(struct map *map, void *user, bool (*keep)(void *user, void *value))
{
    const size_t mask = map->slots - 1;
    const size_t before = map->count;
    size_t free_slot = 0;

    must(keep != NULL);
    if (map->count == 0)
        return 0;
    /* From behind a free slot no gap that is closed pulls anything over where we were. */
    while (map->entry[free_slot].value != NULL)
        free_slot++;
    for (size_t i = 1; i < map->slots; i++) {
        const size_t at = (free_slot + i) & mask;
        while (map->entry[at].value != NULL && !keep(user, map->entry[at].value)) {
            map->count--;
            close_gap(map, at);
        }
    }
    must(map->count <= before);
    return before - map->count;
}

void *map_next(const struct map *map, size_t *at)
{
    must(at != NULL);

    while (*at < map->slots) {
        void *value = map->entry[(*at)++].value;
        if (value != NULL)
            return value;
    }
    return NULL;
}
