/*
 * request_classes - the distinct requests of waiting pods, counted.
 *
 * A full cluster has thousands of waiting pods and a handful of different requests. Equal requests
 * fit alike, so the cost of a freed GPU depends on the number of request classes, not of pods.
 *
 *   pod --holds--> request class <--waits for-- pod    freed with its last holder
 *
 * All request classes together take at most REQUEST_CLASSES_BYTES_MAX, however many pods there are
 * and whatever they ask for. Large request classes get at most half of that, so that requests for a
 * share of a GPU are still remembered when many others ask for as much as a pod can.
 *
 * Not thread-safe: the owner has the lock. A holder of a request class may read its request without
 * it.
 */
#ifndef MILLIGPU_REQUEST_CLASSES_H
#define MILLIGPU_REQUEST_CLASSES_H

#include "milligpu/core/facts/request.h"

enum {
    REQUEST_CLASS_BUCKETS = 4096,
    REQUEST_CLASSES_BYTES_MAX =
        4 * 1024 * 1024, /* a typical request takes 120 bytes, the largest 15,000 */
    REQUEST_CLASS_SMALL_BYTES = 512,
};

struct request_class {
    struct request *request;
    uint32_t bytes; /* of the memory that it takes */
    uint32_t hash;
    uint32_t holders;
    uint32_t waiting;             /* holders that wait for capacity */
    struct request_class *next;   /* in its bucket */
    struct request_class *before; /* among the request classes that have waiters */
    struct request_class *behind;
};

struct request_classes {
    struct request_class *bucket[REQUEST_CLASS_BUCKETS];
    struct request_class *waited; /* the first request class that has waiters; NULL: none */
    size_t bytes;                 /* bytes of all of them, */
    size_t large_bytes;           /* and of the large ones among them */
};

/*
 * Finds or creates the request class of this request, names of containers and host included, and
 * adds a reference: who holds it has the very request that it gave. NULL: no room.
 */
struct request_class *request_classes_hold(struct request_classes *request_classes,
                                           const struct request *request) MUST_USE;
void request_classes_let_go(struct request_classes *request_classes,
                            struct request_class *request_class);

/* One pod more, or one fewer, of those that hold it waits for capacity. */
void request_classes_wait(struct request_classes *request_classes,
                          struct request_class *request_class);
void request_classes_unwait(struct request_classes *request_classes,
                            struct request_class *request_class);

/* Adds a reference to up to most of the request classes that have waiters; returns how many. */
size_t request_classes_waiting(struct request_classes *request_classes, struct request_class **out,
                               size_t most);

#endif
