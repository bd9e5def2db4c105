/*
 * reflector - one resource: listed, then watched forever.
 *
 *   LISTING --last page--> WATCHING --stream ends--> WATCHING (from the last resourceVersion)
 *      ^                       |  410 in either shape, or resourceVersion going back
 *      \------- backoff -------/
 *
 * A step function over kube_ops: no thread, no clock of its own, so the simulator can run it. Pages
 * are decoded item by item; an event may be cut anywhere in the stream.
 *
 * Promises to the sink: list_begin, then every object once through listed(), then list_end;
 * changed() and deleted() come only after a list_end. Events may repeat. An object that the sink
 * rejects counts as not seen: a list with such an item fails, so list_end comes only after a list
 * without one, and after such an event everything is listed again.
 */
#ifndef MILLIGPU_REFLECTOR_H
#define MILLIGPU_REFLECTOR_H

#include "milligpu/kube/kube.h"

struct reflector_sink {
    void *user;
    void (*list_begin)(void *user);
    /* These three return 0, or negative with err set if the object cannot be identified. */
    int (*listed)(void *user, struct text object, struct err *err);
    void (*list_end)(void *user, const char *resource_version); /* of the snapshot */
    /* a list that began will not end; another one begins later */
    void (*list_failed)(void *user);
    int (*changed)(void *user, struct text object, struct err *err);
    int (*deleted)(void *user, struct text object, struct err *err); /* its last state */
    /* Something to log: an error, and what is done about it. */
    void (*trouble)(void *user, const struct err *err);
};

struct reflector_rules {
    const char *path;     /* "/api/v1/pods" */
    const char *selector; /* query part, URL-encoded: "fieldSelector=..."; NULL: none */
    uint32_t page;        /* items per page, 500 */
    int64_t watch_ms;     /* length of a watch; jittered by seed */
    /* a watch without a byte for this long is started again from where it was; no error */
    int64_t silence_ms;
    int64_t list_timeout_ms; /* of one page */
    uint64_t seed;
    uint64_t id_base; /* request ids are id_base + n, n < 2^32 */
};

struct reflector;

struct reflector *reflector_new(const struct reflector_rules *rules, const struct kube_ops *ops,
                                const struct reflector_sink *sink) MUST_USE;
void reflector_free(struct reflector *reflector); /* cancels what is in flight */

/* Starts what is due and returns how long it may be left alone, in ms. */
int64_t reflector_step(struct reflector *reflector, int64_t now_ms);

/* Handles an answer; false if the id is not ours. */
bool reflector_answer(struct reflector *reflector, int64_t now_ms,
                      const struct kube_answer *answer);

struct reflector_stats {
    bool synced;          /* a list is complete */
    int64_t last_seen_ms; /* monotonic, of the last 200, item, event or bookmark */
    /* when the last list to begin was requested: its data are not older */
    int64_t asked_ms;
    uint64_t lists;
    uint64_t watches; /* started */
    uint64_t events;
    uint64_t failures;
};
void reflector_stats(const struct reflector *reflector, struct reflector_stats *out);

#endif
