/*
 * known_demands - what known pods demand of their nodes, each distinct one once, and what they
 * tolerate.
 *
 *   pod --holds--> kept demands --count--> tolerations of all pods (tolerations.h)
 *
 * All kept demands take at most DEMANDS_BYTES_MAX, and large ones at most half of that, so that
 * usual ones are still kept beside them. What is not kept is not known: such a pod may use no node
 * (UNUSABLE_UNKNOWN), and what it tolerates does not count.
 *
 * Not thread-safe: the owner has the lock.
 */
#ifndef MILLIGPU_KNOWN_DEMANDS_H
#define MILLIGPU_KNOWN_DEMANDS_H

#include "milligpu/base/map.h"
#include "milligpu/core/facts/tolerations.h"

enum {
    DEMANDS_BYTES_MAX = 4 * 1024 * 1024, /* those of a usual pod take 500 bytes */
    DEMANDS_SMALL_BYTES = 4096,
};

struct kept_demands {
    const struct node_demands *demands;
    size_t bytes; /* of all that it takes */
    uint64_t holders;
    char *key; /* node_demands_key() */
    size_t key_bytes;
    struct arena *memory;            /* of is */
    struct known_toleration **known; /* one for each toleration; NULL: it is not counted */
};

struct known_demands {
    struct map by_key;
    size_t bytes;
    size_t large_bytes; /* of the large ones among them */
    struct tolerations *tolerations;
};

void known_demands_init(struct known_demands *known);
void known_demands_done(struct known_demands *known); /* nobody holds any */

/* Finds or creates equal ones, and adds a reference. NULL: no room. */
struct kept_demands *known_demands_hold(struct known_demands *known,
                                        const struct node_demands *demands) MUST_USE;
void known_demands_let_go(struct known_demands *known, struct kept_demands *kept);

#endif
