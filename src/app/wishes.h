/*
 * wishes - the distinct requests of those that wait, counted.
 *
 * A full cluster has thousands of waiting pods and a handful of different requests: whoever asks
 * the same fits alike, so what a freed GPU costs is the number of wishes, not of pods.
 *
 *   asker --holds--> wish <--waits for-- asker       a wish leaves with the last that holds it
 *
 * Not thread-safe: the lock is that of hints.  Who holds a wish may read its request without it.
 */
#ifndef MILLIGPU_WISHES_H
#define MILLIGPU_WISHES_H

#include "milligpu/request.h"

enum { WISH_BUCKETS = 1024 };

struct wish {
    struct request *request;
    uint32_t hash;
    uint32_t holders;
    uint32_t waiting;    /* of those, who wait for room */
    struct wish *next;   /* in its bucket */
    struct wish *before; /* among those that are waited for */
    struct wish *behind;
};

struct wishes {
    struct wish *bucket[WISH_BUCKETS];
    struct wish *waited; /* for, by somebody */
};

/* The wish of this request, held once more. */
struct wish *wishes_hold(struct wishes *wishes, const struct request *request) MUST_USE;
void wishes_let_go(struct wishes *wishes, struct wish *wish);

/* One more, or one fewer, of those that hold it waits for room. */
void wishes_wait(struct wishes *wishes, struct wish *wish);
void wishes_rest(struct wishes *wishes, struct wish *wish);

/* Hold up to most of the wishes that somebody waits for; returns how many. */
size_t wishes_waited(struct wishes *wishes, struct wish **out, size_t most);

#endif
