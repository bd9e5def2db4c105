/*
 * reflector - lists one resource, then watches it forever.
 *
 *   LISTING --last page--> WATCHING --stream ends--> WATCHING (from the last resourceVersion)
 *      ^                       |  410 in either shape, or resourceVersion going back
 *      \------- backoff -------/
 *
 * A step function over kube_ops, without a thread or a clock, so the simulator can run it. Pages
 * are decoded item by item, and the next page is requested before one is decoded, so that the
 * server makes it meanwhile. An event may be cut anywhere in the stream.
 *
 * The sink gets list_begin, then every object once through listed_first() or listed(), then
 * list_end; changed() and deleted() follow only after a list_end. Events may repeat. An object that
 * the sink rejects counts as not seen: a list with such an item fails, and such an event causes a
 * new list. The sink may recognize an event that repeats what it knows, before the event is
 * decoded.
 */
#ifndef MILLIGPU_REFLECTOR_H
#define MILLIGPU_REFLECTOR_H

#include "milligpu/kube/kube.h"

struct arena;

struct reflector_sink {
    void *user;
    /* listed, changed, deleted: 0, or negative with err set if object cannot be identified. */
    void (*list_begin)(void *user);
    int (*listed)(void *user, struct text object, struct err *err);
    /*
     * May be NULL. listed() of the object that rest begins with: returns its length. 0: nothing was
     * done, and listed() gets it.
     */
    size_t (*listed_first)(void *user, struct text rest);
    void (*list_end)(void *user, const char *resource_version); /* version of the list */
    /* The open list will not end; another one begins later. */
    void (*list_failed)(void *user);
    int (*changed)(void *user, struct text object, struct err *err);
    int (*deleted)(void *user, struct text object, struct err *err); /* last state of the object */
    /* Reports an error to log, with the reflector's reaction. */
    void (*trouble)(void *user, const struct err *err);
    /*
     * May be NULL. Called first with each line of a watch. Returns true if it is an event that the
     * sink needs not get, and sets the version of its object, in the arena.
     */
    bool (*repeats)(void *user, struct text line, struct arena *arena, const char **out_version);
};

struct reflector_rules {
    const char *path;     /* "/api/v1/pods" */
    const char *selector; /* query part, URL-encoded: "fieldSelector=..."; NULL if none */
    uint32_t page;        /* items per page, 500 */
    int64_t watch_ms;     /* length of a watch; jittered by seed */
    /* Timeout of a watch between bytes: it is restarted from its last version, without an error. */
    int64_t silence_ms;
    int64_t list_timeout_ms; /* timeout of one page */
    uint64_t seed;
    uint64_t id_base; /* request ids are id_base + n, n < 2^32 */
};

struct reflector;

struct reflector *reflector_new(const struct reflector_rules *rules, const struct kube_ops *ops,
                                const struct reflector_sink *sink) MUST_USE;
void reflector_free(struct reflector *reflector); /* cancels the request in flight */

/*
 * Starts due requests and decodes a page that waits. Returns the time until the next step, in ms.
 */
int64_t reflector_step(struct reflector *reflector, int64_t now_ms);

/* Handles an answer; false if its id is not of this reflector. */
bool reflector_answer(struct reflector *reflector, int64_t now_ms,
                      const struct kube_answer *answer);

struct reflector_stats {
    bool synced;          /* at least one list is complete */
    int64_t last_seen_ms; /* monotonic time of the last 200, item, event or bookmark */
    int64_t asked_ms;     /* monotonic time of the last list's first request; its data are as new */
    uint64_t lists;
    uint64_t watches; /* number of started watches */
    uint64_t events;
    uint64_t failures;
};
void reflector_stats(const struct reflector *reflector, struct reflector_stats *out);

#endif
