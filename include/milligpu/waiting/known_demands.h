/*
 * known_demands - the distinct node demands of known pods, and their tolerations.
 *
 *   pod --holds--> kept demands --count--> tolerations of all pods (tolerations.h)
 *
 * Limit of all demands together: DEMANDS_BYTES_MAX; large ones get at most half of it, so that
 * usual ones still fit. A pod whose demands do not fit can use no node (UNUSABLE_UNKNOWN), and its
 * tolerations do not count.
 *
 * Not thread-safe: the owner has the lock.
 */
#ifndef MILLIGPU_KNOWN_DEMANDS_H
#define MILLIGPU_KNOWN_DEMANDS_H

#include "milligpu/base/map.h"
#include "milligpu/core/facts/tolerations.h"

enum {
    DEMANDS_BYTES_MAX = 4 * 1024 * 1024, /* a typical pod's demands take 500 bytes */
    DEMANDS_SMALL_BYTES = 4096,          /* demands above this size are large */
};

struct kept_demands {
    const struct node_demands *demands; /* in memory */
    size_t bytes;                       /* total size, with key and arena */
    uint64_t holders;                   /* reference count */
    char *key;                          /* node_demands_key(); owned */
    size_t key_bytes;
    struct arena *memory;            /* owned; contains demands */
    struct known_toleration **known; /* for each toleration; NULL: not counted */
};

struct known_demands {
    struct map by_key; /* struct kept_demands, by key */
    size_t bytes;
    size_t large_bytes; /* size of the large ones */
    struct tolerations *tolerations;
};

void known_demands_init(struct known_demands *known);
void known_demands_done(struct known_demands *known); /* all references are released */

/* Finds or creates equal demands, and adds a reference. NULL: no room. */
struct kept_demands *known_demands_hold(struct known_demands *known,
                                        const struct node_demands *demands) MUST_USE;
void known_demands_let_go(struct known_demands *known, struct kept_demands *kept);

#endif
