/*
 * outbox_internal - types and functions shared by the files of the outbox.
 *
 *   outbox_calls.c  the inbox, slots, and pauses between tries
 *   outbox_bind.c   Bindings and GETs: the outcome of each answer
 *   outbox_wake.c   wake-ups, Events and advertised capacity
 *   outbox.c        the step: sending, answers, deadlines
 *
 * outbox_put() and the fields under the lock are for any thread; all else belongs to the outbox
 * thread.
 */
#ifndef MILLIGPU_SYNC_OUTBOX_INTERNAL_H
#define MILLIGPU_SYNC_OUTBOX_INTERNAL_H

#include "milligpu/kube/kube.h"
#include "milligpu/run/mutex.h"
#include "milligpu/sync/outbox.h"

#include "flow.h"

/* Kinds of calls, with the metric's label. */
#define CALL_TABLE(X)                                                                              \
    X(CALL_BIND, "bind")                                                                           \
    X(CALL_CHECK, "check") /* GET after a 409 */                                                   \
    X(CALL_FETCH, "fetch") /* GET of a pod that the watch has not shown */                         \
    X(CALL_EVENT, "event")                                                                         \
    X(CALL_ADVERTISE, "advertise")                                                                 \
    X(CALL_WAKE_UP, "wake_up")                                                                     \
    X(CALL_CREATE_WAKE_OBJECT, "create_wake_object") /* POST after a 404 */

enum call_kind {
#define X(code, word) code,
    CALL_TABLE(X)
#undef X
};

/*
 * Owned by the thread that creates it until outbox_put(), then by the outbox thread; the lock
 * guards next.
 */
struct outbox_call {
    enum call_kind kind;
    struct ticket ticket;
    uint64_t id;              /* slot in the low bits, serial number of the try above */
    const char *namespace;    /* BIND, CHECK, FETCH; else NULL */
    int64_t deadline_ms;      /* monotonic; 0: none, and SIDE_TIMEOUT_MS per try */
    struct message *fetched;  /* FETCH: the result so far, owned */
    struct outbox_call *next; /* in the inbox */
    struct arena arena;       /* owner of every string below */
    /* The request, the same for each try. */
    struct {
        const char *method;
        const char *path;
        const char *content_type;
        struct text body;
    } request;
    /* BIND, CHECK: the Binding. */
    struct {
        const char *uid;
        const char *node;
        const char *pod_path;
        uint64_t version;
        size_t bytes;    /* size of the call */
        bool maybe_sent; /* a copy sent by this or an earlier process may still take effect */
        bool is_query;   /* no Binding is sent, only a GET */
    } binding;
    struct {
        uint32_t tries;
        bool flying;
        char last_error[256];
    } try;
    /* The answer to the last try, as received so far. */
    struct {
        int status;
        int64_t retry_after_s;
        struct strbuf answer;
        bool too_long; /* over EVENT_BYTES_MAX, so it is discarded */
    } response;
};

struct outbox {
    struct outbox_rules rules;
    /* guards the fields below, up to stats */
    struct mutex lock;
    struct outbox_call *inbox;
    struct outbox_call **inbox_end;
    size_t open_bindings;
    size_t binding_bytes; /* size of the open Bindings */
    size_t side_calls;
    bool wake_wanted;
    size_t wake_waiting;
    char wake_node[NAME_BYTES_MAX + 1];
    struct outbox_stats stats;
    /* The fields below belong to the outbox thread. */
    struct flow *flow;
    struct outbox_call **call; /* by slot */
    size_t n_calls;
    size_t capacity;
    size_t *spare; /* free slots */
    size_t n_spare;
    size_t spare_capacity;
    uint64_t serial; /* number of tries; its 44 bits in an id never wrap */
    bool waking;
    uint32_t wake_tries; /* failures since the last success */
    int64_t wake_not_before_ms;
};

/* outbox_calls.c */

struct outbox_call *outbox_call_new(enum call_kind kind, const char *method) MUST_USE;
/* Copies text into the arena. */
struct text outbox_keep(struct arena *arena, struct text text);
/* Puts the call into the inbox, which takes ownership. Any thread. */
void outbox_put(struct outbox *outbox, struct outbox_call *call);
/* Queues all calls of the inbox. The lock is held only to detach the list. */
void outbox_empty_inbox(struct outbox *outbox, int64_t now_ms);
/* Gives the call a slot and queues its ticket. */
void outbox_line_up(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* Ends any call: releases its slot, ticket and counts, and frees it. */
void outbox_drop_call(struct outbox *outbox, struct outbox_call *call);
/* Gives the try a new id, so that late answers to earlier tries find no call. */
void outbox_begin_try(struct outbox *outbox, struct outbox_call *call);
/* Returns the call in flight with this id; NULL if cancelled or answered. */
struct outbox_call *outbox_call_of(const struct outbox *outbox, uint64_t id);
/* Requeues the same request after a failed try, with backoff. */
void outbox_retry(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* Requeues the call at once with its next request. */
void outbox_goes_on(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* Sets the last error to the status and its message. */
void outbox_note_status(struct outbox_call *call);
/* Returns true for transient errors: the same request may succeed later. */
static inline bool outbox_passing(int status)
{
    return status == 429 || status >= 500;
}

/* outbox_bind.c: BIND, CHECK and FETCH */

void outbox_bind_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* Ends a try without an answer. unsent: certainly not sent, according to the transport. */
void outbox_bind_failed(struct outbox *outbox, struct outbox_call *call, int64_t now_ms,
                        bool unsent);
/* Ends a call whose deadline has passed, in flight or before the next try. */
void outbox_give_up(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);

/* outbox_wake.c: all other calls */

void outbox_side_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
void outbox_side_failed(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* Sends a wake-up if one is requested and due. */
void outbox_begin_wake_up(struct outbox *outbox, int64_t now_ms, int64_t wall_ms);
/* Returns the ms until the next wake-up is due; at most wait_ms. */
int64_t outbox_wait_for_wake_up(struct outbox *outbox, int64_t now_ms, int64_t wait_ms);

#endif
