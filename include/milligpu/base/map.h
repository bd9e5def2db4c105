/*
 * map - text to a pointer; open addressing, seeded hash.
 *
 * A full map doubles, and its entries move a few at a time, so that no single change waits for all
 * of them (moving 49,152 entries at once takes some milliseconds). Meanwhile both tables are
 * searched.
 *
 * Keys are borrowed: they must live as long as their entry (usually they are a member of the
 * value). The order of iteration is arbitrary. Not thread-safe.
 */
#ifndef MILLIGPU_MAP_H
#define MILLIGPU_MAP_H

#include "milligpu/base/text.h"

struct map_entry {
    struct text key;
    uint32_t hash;
    void *value; /* NULL: the slot is free */
};

enum { MAP_MOVES = 8 }; /* slots of the old table that one change moves */

struct map {
    struct map_entry *entry;
    size_t slots;          /* a power of two, or 0 */
    size_t count;          /* in both tables */
    struct map_entry *old; /* NULL: all entries have moved */
    size_t old_slots;
    size_t moved; /* slots of the old table below this are free */
};

void map_init(struct map *map);
void map_done(struct map *map); /* values are the caller's */

void *map_find(const struct map *map, struct text key);
/* returns the previous value */
void *map_put(struct map *map, struct text key, void *value);
void *map_take(struct map *map, struct text key); /* removes and returns it, or NULL */

/*
 * Calls keep() once for each value and removes those for which it returns false; keep() may free
 * these. Returns how many were removed.
 */
size_t map_retain(struct map *map, void *user, bool (*keep)(void *user, void *value));

/* *at starts at 0; NULL at the end. The map must not change meanwhile. */
void *map_next(const struct map *map, size_t *at);

#endif
