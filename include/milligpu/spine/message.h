/*
 * message - what the writer receives, through one bounded queue.
 *
 * A message owns everything that it points to through its arena; message_free() frees it.
 */
#ifndef MILLIGPU_MESSAGE_H
#define MILLIGPU_MESSAGE_H

#include "milligpu/base/arena.h"
#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/pod.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/wire/extender/wire_extender.h"

enum message_kind {
    MESSAGE_BIND,
    MESSAGE_FETCHED, /* the pod of a bind, fetched by GET */
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
    MESSAGE_POLICY, /* these rules decide from now on */
    MESSAGE_OVER,   /* a container held more memory than its share */
};

enum bind_outcome {
    OUTCOME_BOUND,
    OUTCOME_VOID,    /* certainly not bound, now and in future: release it */
    OUTCOME_UNKNOWN, /* may still take effect: in doubt */
    /* the pod is unbound in a later version (pod): no Binding that was sent can take effect */
    OUTCOME_MOVED,
};

/* The HTTP call that waits for the outcome of a bind; to is NULL if none does. */
struct bind_reply {
    /* error NULL: bound. Exactly once, from any thread */
    void (*answer)(void *to, const char *error);
    void *to;
};

/* A call of the bind webhook. */
struct bind_call {
    struct extender_bind args;
    int64_t deadline_ms; /* monotonic */
    struct bind_reply reply;
};

/* What became of the GET of a pod that is to be bound. */
struct fetched_pod {
    struct bind_call bind; /* the call that needs the pod */
    bool found;
    struct pod pod;     /* found */
    enum reason reason; /* not found: NONE if the API server could not be asked */
    const char *text;   /* not found: the reason, for people */
};

/* What became of a Binding. */
struct binding_outcome {
    const char *uid;
    enum bind_outcome result;
    uint64_t version;   /* the pod's version in the Binding; 0: none */
    enum reason reason; /* VOID */
    const char *text;   /* the reason, for people; BOUND: NULL */
    struct pod pod;     /* MOVED: as it is now */
};

struct pod_list_end {
    uint64_t version; /* of the list's snapshot */
    bool after_grace; /* the list began after a new ledger's wait */
};

/* What the agent of a node says of one container; it says so once for each time. */
struct over_memory {
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    const char *container;
    const char *gpu;
    const char *how; /* "seen" or "killed" */
    uint32_t mib;
    uint32_t peak_mib; /* 0: not known */
};

struct message {
    enum message_kind kind;
    struct arena arena;
    union {
        struct bind_call bind;           /* BIND */
        struct fetched_pod fetched;      /* FETCHED */
        struct binding_outcome outcome;  /* OUTCOME */
        int64_t asked_ms;                /* PODS_BEGIN: when the list was asked for; monotonic */
        struct pod_list_end pods_end;    /* PODS_END */
        struct pod pod;                  /* POD, POD_LISTED, POD_DELETED */
        struct node_facts node;          /* NODE, NODE_LISTED, NODE_DELETED */
        const struct rulebook *rulebook; /* POLICY: a reference of the message */
        struct over_memory over;         /* OVER */
    };
};

struct message *message_new(enum message_kind kind) MUST_USE;
/* The call in it must have been answered or moved. */
void message_free(struct message *message);
/* For shutdown: the listener itself answers the call, if there is one. */
void message_abandon(struct message *take_message);
/* The call in this message; NULL: there is none. */
struct bind_call *message_bind_call(struct message *message);
/* Its size in memory. */
size_t message_bytes(const struct message *message);

#endif
