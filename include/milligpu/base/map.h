/*
 * map - a hash map from text to pointers; open addressing, seeded hash.
 *
 * A full map grows by a half and rehashes incrementally, so that no single change pays for all
 * entries (moving 49,152 entries at once takes some milliseconds). Until then, look-ups search both
 * tables.
 *
 * Keys are borrowed and must outlive their entry (usually they are a member of the value). The
 * order of iteration is that of the hashes: filling another map in it makes long probes there. Not
 * thread-safe.
 */
#ifndef MILLIGPU_MAP_H
#define MILLIGPU_MAP_H

#include "milligpu/base/text.h"

/* 24 bytes: the maps of a large cluster have 300,000 slots. */
struct map_entry {
    const char *key; /* of key_len bytes */
    uint32_t key_len;
    uint32_t hash;
    void *value; /* NULL: free slot */
};

enum { MAP_MOVES = 8 }; /* slots of the old table moved per change */

struct map {
    struct map_entry *entry;
    size_t slots;
    size_t count;          /* entries in both tables */
    struct map_entry *old; /* table being rehashed; NULL: none */
    size_t old_slots;
    size_t moved; /* the slots of old below this one are free */
};

void map_init(struct map *map);
void map_done(struct map *map); /* does not free the values */

void *map_find(const struct map *map, struct text key);
/* Returns the previous value or NULL. */
void *map_put(struct map *map, struct text key, void *value);
void *map_take(struct map *map, struct text key); /* returns the value; NULL: not found */

/*
 * Calls keep() once for each value and removes the value if keep() returns false; keep() may free
 * such a value. Returns the number of removed values.
 */
size_t map_retain(struct map *map, void *user, bool (*keep)(void *user, void *value));

/*
 * Goes on with a rehash that no change goes on with any more, by at most this many slots; the old
 * table is freed at its end.
 */
void map_settle(struct map *map, size_t slots);

/* Start with *at = 0; returns NULL at the end. The map must not change meanwhile. */
void *map_next(const struct map *map, size_t *at);

#endif
