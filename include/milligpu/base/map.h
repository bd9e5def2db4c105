/*
 * map - a hash map from text to pointers; open addressing, seeded hash.
 *
 * A full map grows by a half and rehashes incrementally, so that no single change pays for all
 * entries (moving 49,152 entries at once takes some milliseconds). Until then, look-ups search both
 * tables.
 *
 * Keys are borrowed and must outlive their entry. A map of values that contain their keys needs
 * half of the memory: it gets a function that returns the key of a value. The order of iteration is
 * that of the hashes: filling another map in it makes long probes there. Not thread-safe.
 */
#ifndef MILLIGPU_MAP_H
#define MILLIGPU_MAP_H

#include "milligpu/base/text.h"

/*
 * Two slots, in 12 bytes each instead of 16: the maps of a large cluster have 300,000 slots. The
 * pointers are aligned, since a leak checker looks for pointers at such addresses only.
 */
struct map_pair {
    void *value[2]; /* NULL: free slot */
    uint32_t hash[2];
};

struct map_pair_of_keys {
    const char *at[2];
    uint32_t len[2];
};

/* One block: the pairs, then the keys. */
struct map_table {
    struct map_pair *pair;        /* NULL: no table */
    struct map_pair_of_keys *key; /* of each pair; NULL: values contain their keys */
    size_t slots;                 /* even */
};

enum { MAP_MOVES = 8 }; /* slots of the old table moved per change */

/* The key in a value. It must not change while the value is in the map. */
typedef struct text map_key_of(const void *value);

struct map {
    map_key_of *key_of; /* NULL: the tables have the keys */
    struct map_table now;
    struct map_table old; /* being rehashed */
    size_t count;         /* entries in both tables */
    size_t moved;         /* the slots of old below this one are free */
};

void map_init(struct map *map);
/* A map of values that contain their keys. */
void map_init_keyed(struct map *map, map_key_of *key_of);
void map_done(struct map *map); /* does not free the values */

void *map_find(const struct map *map, struct text key);
/* Returns the previous value or NULL. key: that of the value, if it contains one. */
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
