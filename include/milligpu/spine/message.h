/*
 * message - the input of the writer, through one bounded queue.
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
    MESSAGE_POLICY, /* a new rulebook */
    MESSAGE_OVER,   /* a container used more memory than its share */
};

enum bind_outcome {
    OUTCOME_BOUND,
    OUTCOME_VOID,    /* not bound, and no Binding can still take effect: release */
    OUTCOME_UNKNOWN, /* the Binding may still take effect: in doubt */
    /* the pod is unbound in a later version (pod): no sent Binding can take effect */
    OUTCOME_MOVED,
};

/* The HTTP call that waits for the outcome of a bind. */
struct bind_reply {
    /* Called exactly once, from any thread. error NULL: bound. */
    void (*answer)(void *to, const char *error);
    void *to; /* NULL: no call waits */
};

/* A call of the bind webhook. */
struct bind_call {
    struct extender_bind args;
    int64_t deadline_ms; /* monotonic */
    struct bind_reply reply;
};

/* Result of the GET of a pod that is to be bound. */
struct fetched_pod {
    struct bind_call bind; /* the call that needs the pod */
    bool found;
    struct pod pod;     /* set if found */
    enum reason reason; /* if not found; NONE: the API server did not answer */
    const char *text;   /* reason for people, if not found */
};

/* Outcome of a Binding. */
struct binding_outcome {
    const char *uid;
    enum bind_outcome result;
    uint64_t version;   /* the pod's version in the Binding; 0: none */
    enum reason reason; /* VOID */
    const char *text;   /* reason for people; NULL for BOUND */
    struct pod pod;     /* MOVED: the current version */
};

struct pod_list_end {
    uint64_t version; /* resourceVersion of the list */
    bool after_grace; /* the list began after the grace period of a new ledger */
};

/* An agent's report that one container exceeded its memory, once per occurrence. */
struct over_memory {
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    const char *container;
    const char *gpu;
    const char *how;   /* "seen" or "killed" */
    uint32_t mib;      /* memory of the share */
    uint32_t peak_mib; /* 0: not known */
};

struct message {
    enum message_kind kind;
    struct arena arena;
    union {
        struct bind_call bind;           /* BIND */
        struct fetched_pod fetched;      /* FETCHED */
        struct binding_outcome outcome;  /* OUTCOME */
        int64_t asked_ms;                /* PODS_BEGIN: monotonic time of the list's request */
        struct pod_list_end pods_end;    /* PODS_END */
        struct pod pod;                  /* POD, POD_LISTED, POD_DELETED */
        struct node_facts node;          /* NODE, NODE_LISTED, NODE_DELETED */
        const struct rulebook *rulebook; /* POLICY: a reference of the message */
        struct over_memory over;         /* OVER */
    };
};

struct message *message_new(enum message_kind kind) MUST_USE;
/* NULL is fine. A call in the message must have been answered or moved. */
void message_free(struct message *message);
/* For shutdown: frees the message; the listener answers a call in it. */
void message_abandon(struct message *take_message);
/* The call in this message; NULL: none. */
struct bind_call *message_bind_call(struct message *message);
/* Memory in use. */
size_t message_bytes(const struct message *message);

#endif
