/*
 * wishes - the distinct requests of waiting pods, counted.
 *
 * A full cluster has thousands of waiting pods and a handful of different requests. Equal requests
 * fit alike, so the cost of a freed GPU depends on the number of wishes, not of pods.
 *
 *   asker --holds--> wish <--waits for-- asker       a wish is freed with its last holder
 *
 * All wishes together take at most WISHES_BYTES_MAX, however many pods there are and whatever they
 * ask for. Large wishes get at most half of that, so that requests for a share of a GPU are still
 * remembered when many others ask for as much as a pod can.
 *
 * Not thread-safe: the owner has the lock. A holder of a wish may read its request without it.
 */
#ifndef MILLIGPU_WISHES_H
#define MILLIGPU_WISHES_H

#include "milligpu/core/facts/request.h"

enum {
    WISH_BUCKETS = 4096,
    WISHES_BYTES_MAX = 4 * 1024 * 1024, /* a typical request takes 120 bytes, the largest 15,000 */
    WISH_SMALL_BYTES = 512,
};

struct wish {
    struct request *request;
    uint32_t bytes; /* of the memory that it takes */
    uint32_t hash;
    uint32_t holders;
    uint32_t waiting;    /* holders that wait for capacity */
    struct wish *next;   /* in its bucket */
    struct wish *before; /* among the wishes that have waiters */
    struct wish *behind;
};

struct wishes {
    struct wish *bucket[WISH_BUCKETS];
    struct wish *waited; /* the first wish that has waiters; NULL: none */
    size_t bytes;        /* bytes of all of them, */
    size_t large_bytes;  /* and of the large ones among them */
};

/*
 * Finds or creates the wish of this request, names of containers and host included, and adds a
 * reference: who holds it has the very request that it gave. NULL: no room.
 */
struct wish *wishes_hold(struct wishes *wishes, const struct request *request) MUST_USE;
void wishes_let_go(struct wishes *wishes, struct wish *wish);

/* One pod more, or one fewer, of those that hold it waits for capacity. */
void wishes_wait(struct wishes *wishes, struct wish *wish);
void wishes_rest(struct wishes *wishes, struct wish *wish);

/* Adds a reference to up to most of the wishes that have waiters; returns how many. */
size_t wishes_waited(struct wishes *wishes, struct wish **out, size_t most);

#endif
