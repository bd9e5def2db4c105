/*
 * outbox_internal - what the files of the outbox share.
 *
 *   outbox_calls.c  the inbox, slots, and pauses between tries
 *   outbox_bind.c   Bindings and GETs: what each answer means
 *   outbox_wake.c   wake-ups, Events and advertised capacity
 *   outbox.c        the step: what goes, what has been answered, what is too late
 *
 * outbox_put() and what is under the lock is for any thread; all else runs on the outbox thread.
 */
#ifndef MILLIGPU_SYNC_OUTBOX_INTERNAL_H
#define MILLIGPU_SYNC_OUTBOX_INTERNAL_H

#include "milligpu/kube/kube.h"
#include "milligpu/run/mutex.h"
#include "milligpu/sync/outbox.h"

#include "flow.h"

/* What a call is for; the word is the metric's label. */
#define CALL_TABLE(X)                                                                              \
    X(CALL_BIND, "bind")                                                                           \
    X(CALL_CHECK, "check") /* GET after a 409 */                                                   \
    X(CALL_FETCH, "fetch") /* GET of a pod that the watch has not shown */                         \
    X(CALL_EVENT, "event")                                                                         \
    X(CALL_ADVERTISE, "advertise")                                                                 \
    X(CALL_WAKE_UP, "wake_up")                                                                     \
    X(CALL_CREATE_WAKE_OBJECT, "create_wake_object") /* create it */

enum call_kind {
#define X(code, word) code,
    CALL_TABLE(X)
#undef X
};

/*
 * Until outbox_put() it belongs to the thread that makes it, and afterwards to the outbox thread;
 * the lock guards next.
 */
struct outbox_call {
    enum call_kind kind;
    struct ticket ticket;     /* where it stands */
    uint64_t id;              /* its slot; from the first try on, the serial of the try above it */
    const char *namespace;    /* BIND, CHECK, FETCH */
    int64_t deadline_ms;      /* monotonic; 0: none, and SIDE_TIMEOUT_MS for the try */
    struct message *fetched;  /* FETCH: the result, as far as it is known */
    struct outbox_call *next; /* inbox */
    struct arena arena;       /* every string below */
    /* What each try sends. */
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
        size_t bytes;    /* of the call */
        bool maybe_sent; /* a copy of it, sent by any process, may still take effect */
        bool is_query;   /* nothing is sent */
    } binding;
    /* The tries until now. */
    struct {
        uint32_t tries;
        bool flying;
        char last_error[256];
    } try;
    /* The answer to the last try, as far as it has arrived. */
    struct {
        int status;
        int64_t retry_after_s;
        struct strbuf answer;
        bool too_long; /* an answer has begun, so nothing of an earlier one is kept */
    } response;
};

struct outbox {
    struct outbox_rules rules;
    /* guards inbox, open_bindings, the wake-up request and stats */
    struct mutex lock;
    struct outbox_call *inbox;
    struct outbox_call **inbox_end;
    size_t open_bindings;
    size_t binding_bytes; /* of these */
    size_t side_calls;
    bool wake_wanted;
    size_t wake_waiting;
    char wake_node[NAME_BYTES_MAX + 1];
    struct outbox_stats stats;
    /* Owned by the thread that steps. */
    struct flow *flow;
    struct outbox_call **call; /* slots; the low bits of an id are its slot */
    size_t calls;
    size_t capacity;
    size_t *spare; /* slots that are free */
    size_t n_spare;
    size_t spare_capacity;
    uint64_t serial; /* never wraps: an id contains 44 bits of it */
    bool waking;
    uint32_t wake_tries; /* failures since the last success */
    int64_t wake_not_before_ms;
};

/* outbox_calls.c */

struct outbox_call *outbox_call_new(enum call_kind kind, const char *method) MUST_USE;
/* A copy in the arena. */
struct text outbox_keep(struct arena *arena, struct text text);
/* Into the inbox, which takes over the call. Any thread. */
void outbox_put(struct outbox *outbox, struct outbox_call *call);
/* Lines up all of it. The lock is held only to take the chain, so putting a job never waits. */
void outbox_empty_inbox(struct outbox *outbox, int64_t now_ms);
/* From now on it waits for its turn. */
void outbox_line_up(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* Every call ends here: slot, ticket and counts are given back together. */
void outbox_drop_call(struct outbox *outbox, struct outbox_call *call);
/* Each try has its own id, so a late answer to an earlier one finds no call. */
void outbox_begin_try(struct outbox *outbox, struct outbox_call *call);
/* The call in flight; NULL: cancelled, or answered. */
struct outbox_call *outbox_call_of(const struct outbox *outbox, uint64_t id);
/* After an attempt that has ended: the same again, later. */
void outbox_retry(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* The call continues at once with another request. */
void outbox_goes_on(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* The status and its message become the last error. */
void outbox_note_status(struct outbox_call *call);
/* Says nothing about the pod: the same request may succeed later. */
static inline bool outbox_passing(int status)
{
    return status == 429 || status >= 500;
}

/* outbox_bind.c: BIND, CHECK and FETCH */

void outbox_bind_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* No answer. unsent: the transport is certain that nothing was sent. */
void outbox_bind_failed(struct outbox *outbox, struct outbox_call *call, int64_t now_ms,
                        bool unsent);
/* The deadline has passed, in flight or before the next try. */
void outbox_give_up(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);

/* outbox_wake.c: all other calls */

void outbox_side_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
void outbox_side_failed(struct outbox *outbox, struct outbox_call *call, int64_t now_ms);
/* Sends a wake-up if one is wanted and due. */
void outbox_begin_wake_up(struct outbox *outbox, int64_t now_ms, int64_t wall_ms);
/* How long until the next wake-up is due; at most wait_ms. */
int64_t outbox_wait_for_wake_up(struct outbox *outbox, int64_t now_ms, int64_t wait_ms);

#endif
