/*
 * message - what reaches the writer, through one bounded queue.
 *
 * A message owns everything it points to through its arena; message_free() drops it.
 */
#ifndef MILLIGPU_MESSAGE_H
#define MILLIGPU_MESSAGE_H

#include "milligpu/arena.h"
#include "milligpu/inventory.h"
#include "milligpu/pod.h"
#include "milligpu/wire_extender.h"

enum message_kind {
    MESSAGE_BIND,
    MESSAGE_FETCHED, /* the pod of a bind, by GET */
    MESSAGE_OUTCOME, /* of a Binding */
    MESSAGE_PODS_BEGIN,
    MESSAGE_POD_LISTED,
    MESSAGE_PODS_END,
    MESSAGE_PODS_FAILED,
    MESSAGE_POD,
    MESSAGE_POD_DELETED,
    MESSAGE_NODES_BEGIN,
    MESSAGE_NODE_LISTED,
    MESSAGE_NODES_END,
    MESSAGE_NODES_FAILED,
    MESSAGE_NODE,
    MESSAGE_NODE_DELETED,
};

enum bind_outcome {
    OUTCOME_BOUND,
    OUTCOME_VOID,    /* certainly not, and never will be: release */
    OUTCOME_UNKNOWN, /* may yet land: in doubt */
    OUTCOME_MOVED,   /* the pod is unbound in a later version (pod): none that was sent can land */
};

/* Who waits for the outcome of a bind; to NULL: nobody any more. */
struct bind_reply {
    void (*answer)(void *to, const char *error); /* error NULL: bound.  Once, from any thread */
    void *to;
};

struct message {
    enum message_kind kind;
    struct arena arena;
    struct extender_bind bind; /* BIND, FETCHED */
    struct bind_reply reply;   /* BIND, FETCHED */
    int64_t deadline_ms;       /* BIND, FETCHED: monotonic */
    struct pod pod;            /* POD*, FETCHED (found), OUTCOME MOVED */
    struct node_facts node;    /* NODE* */
    int64_t asked_ms;          /* PODS_BEGIN: when the list was asked for; monotonic */
    uint64_t version; /* PODS_END: of the list's snapshot; OUTCOME: that was sent; 0: none */
    bool after_grace; /* PODS_END: of a list that began after a new ledger's wait */
    bool found;       /* FETCHED */
    const char *uid;  /* OUTCOME */
    enum bind_outcome outcome; /* OUTCOME */
    enum reason reason;        /* OUTCOME VOID; FETCHED, not found: NONE if nobody could say */
    const char *text; /* OUTCOME, FETCHED: what happened, for people; NULL: nothing to say */
};

struct message *message_new(enum message_kind kind) MUST_USE;
void message_free(struct message *message);
/* That it takes. */
size_t message_bytes(const struct message *message);

#endif
