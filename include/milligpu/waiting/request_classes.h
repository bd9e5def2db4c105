/*
 * request_classes - the distinct requests of waiting pods, counted.
 *
 * A full cluster has thousands of waiting pods and a handful of different requests. Equal requests
 * fit alike, so the cost of a freed GPU depends on the number of request classes, not of pods.
 *
 *   pod --holds--> request class <--waits for-- pod    freed with its last holder
 *
 * Limit of all request classes together: REQUEST_CLASSES_BYTES_MAX. Large ones get at most half of
 * it, so that requests for a share of a GPU still fit beside many of the largest requests.
 *
 * Not thread-safe: the owner has the lock. A holder of a request class may read its request without
 * the lock.
 */
#ifndef MILLIGPU_REQUEST_CLASSES_H
#define MILLIGPU_REQUEST_CLASSES_H

#include "milligpu/core/facts/request.h"

enum {
    REQUEST_CLASS_BUCKETS = 4096,
    REQUEST_CLASSES_BYTES_MAX =
        4 * 1024 * 1024,             /* a typical request takes 120 bytes, the largest 15,000 */
    REQUEST_CLASS_SMALL_BYTES = 512, /* request classes above this size are large */
};

struct request_class {
    struct request *request; /* owned */
    uint32_t bytes;          /* memory in use */
    uint32_t hash;
    uint32_t holders;           /* reference count */
    uint32_t waiting;           /* holders that wait for capacity */
    struct request_class *next; /* in the bucket's chain */
    /* The list of request classes with waiters. */
    struct request_class *before;
    struct request_class *behind;
};

struct request_classes {
    struct request_class *bucket[REQUEST_CLASS_BUCKETS];
    struct request_class *waited; /* head of the list of request classes with waiters */
    size_t bytes;                 /* size of all request classes */
    size_t large_bytes;           /* size of the large ones */
};

/*
 * Finds or creates the class of this request and adds a reference. Container names and host are
 * compared, too, so the class has exactly this request. NULL: no room.
 */
struct request_class *request_classes_hold(struct request_classes *request_classes,
                                           const struct request *request) MUST_USE;
void request_classes_let_go(struct request_classes *request_classes,
                            struct request_class *request_class);

/* One more, or one fewer, holder waits for capacity. */
void request_classes_wait(struct request_classes *request_classes,
                          struct request_class *request_class);
void request_classes_unwait(struct request_classes *request_classes,
                            struct request_class *request_class);

/* Adds a reference to up to most request classes with waiters; returns the count. */
size_t request_classes_waiting(struct request_classes *request_classes, struct request_class **out,
                               size_t most);

#endif
