/*
 * outbox - sends Bindings, GETs, wake-ups, Events and advertised capacity to the API server.
 *
 * A step function over kube_ops. Jobs come from the writer (any thread may add them); results go
 * back as messages. flow schedules the jobs; a bounded number is in flight. A Binding is resent
 * byte for byte until there is a definite answer or its deadline passes, but never while an earlier
 * attempt may still be answered. Retries use exponential backoff, at least Retry-After, and a
 * shared retry budget.
 *
 *   POSTED --201--> BOUND      --404, 400, 403--> VOID       --409--> GET
 *      \--429, 5xx, no answer--> back off --> POSTED          \--deadline--> UNKNOWN
 *
 *   GET --> on our node: BOUND;  on another node, another uid, no pod: VOID
 *       --> unbound, in a later version than the Binding named: MOVED. The writer, not the outbox,
 *           evaluates the pod again, and records the new version before a new Binding is sent.
 *       --> unbound, in no later version: this copy had no effect, as after a 403
 *
 * VOID: no Binding of this reservation has taken effect or ever will. A POST that fails while
 * another copy may still be in flight (of this call or an earlier one) is therefore UNKNOWN (after
 * a 404, a GET asks first). No timeout can make it certain.
 */
#ifndef MILLIGPU_OUTBOX_H
#define MILLIGPU_OUTBOX_H

#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"
#include "milligpu/spine/message.h"
#include "milligpu/wire/kube/wire_kube.h"

struct message;

struct outbox_rules {
    const struct kube_ops *ops;
    const struct wire_rules *wire;
    const char *wake;      /* "object", "node", "off" */
    const char *namespace; /* namespace of the wake-up object */
    const char *instance;  /* reporting instance of Events */
    const char *resource;  /* the resource to advertise */
    void *user;
    void (*result)(void *user, struct message *take_message);
};

struct outbox;

struct outbox *outbox_new(const struct outbox_rules *rules) MUST_USE;
void outbox_free(struct outbox *outbox);

enum outbox_sending {
    SENDING_FIRST,
    SENDING_AGAIN,   /* may have been sent by an earlier call, perhaps before a restart */
    SENDING_NOTHING, /* only a GET for the outcome */
};

struct outbox_binding {
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    struct text body;
    /* resourceVersion of the pod in body; 0: none (a reservation of an older ledger) */
    uint64_t version;
    int64_t deadline_ms; /* monotonic */
    enum outbox_sending sending;
};

/*
 * Any thread. Arguments are copied; outbox_fetch() takes over the reply of the bind and returns it
 * with MESSAGE_FETCHED.
 */
void outbox_bind(struct outbox *outbox, const struct outbox_binding *binding);
void outbox_fetch(struct outbox *outbox, struct bind_call *bind);
void outbox_event(struct outbox *outbox, const struct kube_event_facts *facts);
void outbox_advertise(struct outbox *outbox, const char *node, uint32_t milli);
/*
 * Requests a wake-up. The minimum interval between wake-ups grows with the number of waiting pods.
 * node: the Node to patch under wake=node, or NULL.
 */
void outbox_wake(struct outbox *outbox, size_t waiting, const char *node);

/*
 * Starts the calls that are due and returns the ms until the next step is needed. Then call
 * kube_ops.poll with outbox_answer.
 */
int64_t outbox_step(struct outbox *outbox, int64_t now_ms, int64_t wall_ms);
void outbox_answer(struct outbox *outbox, int64_t now_ms, const struct kube_answer *answer);

/*
 * Number and size of the Bindings without an outcome. Above OUTBOX_BYTES_MAX the writer creates no
 * more: the Binding of a pod with many shares can have 100 KiB.
 */
enum { OUTBOX_BYTES_MAX = 64 * 1024 * 1024 };
size_t outbox_open(struct outbox *outbox);
size_t outbox_bytes(struct outbox *outbox);

struct outbox_stats {
    uint64_t wake_ups;
    uint64_t wake_failures;
    bool wake_failing; /* the last wake-up failed */
    char wake_error[256];
};
void outbox_stats(struct outbox *outbox, struct outbox_stats *out);

#endif
