/*
 * map - text to a pointer; open addressing, seeded hash.
 *
 * A map that is full doubles, and its entries move a few with each change: no single one waits for
 * all of them (at once, 49,152 entries are some milliseconds).  Until then both tables are looked
 * into.
 *
 * Keys are borrowed: they must live as long as their entry (usually they are a member
 * of the value).  Iteration order means nothing.  Not thread-safe.
 */
#ifndef MILLIGPU_MAP_H
#define MILLIGPU_MAP_H

#include "milligpu/text.h"

struct map_entry {
    struct text key;
    uint32_t hash;
    void *value; /* NULL: the slot is free */
};

enum { MAP_MOVES = 8 }; /* slots of the old table that one change looks at */

struct map {
    struct map_entry *entry;
    size_t slots;          /* a power of two, or 0 */
    size_t count;          /* in both tables */
    struct map_entry *old; /* NULL: all have moved */
    size_t old_slots;
    size_t moved; /* of the old table, all slots below are free */
};

void map_init(struct map *map);
void map_done(struct map *map); /* values are the caller's */

void *map_find(const struct map *map, struct text key);
void *map_put(struct map *map, struct text key, void *value); /* returns what was there before */
void *map_take(struct map *map, struct text key);             /* removes and returns it, or NULL */

/*
 * Asks about each value once, and takes out those that are not to be kept; keep() may free these.
 * Returns how many went.
 */
size_t map_retain(struct map *map, void *user, bool (*keep)(void *user, void *value));

/* *at starts at 0; NULL at the end.  The map must not change meanwhile. */
void *map_next(const struct map *map, size_t *at);

#endif
