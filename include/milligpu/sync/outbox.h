/*
 * outbox - what is sent to the API server: Bindings, GETs, the wake-up object, Events, advertised
 * capacity.
 *
 * A step function over kube_ops. Jobs come from the writer (any thread may add them); results go
 * back as messages. flow decides which job is sent when; a bounded number is in flight. A Binding
 * is sent again, byte for byte, until there is a definite answer or its deadline passes, but never
 * while an earlier attempt may still be answered. Each further attempt waits: longer every time, at
 * least as long as Retry-After says, and until the shared retry budget allows it.
 *
 *   POSTED --201--> BOUND      --404, 400, 403--> VOID       --409--> GET
 *      \--429, 5xx, no answer--> wait --> POSTED              \--deadline--> UNKNOWN
 *
 *   GET --> on our node: BOUND;  on another node, another uid, no pod: VOID
 *       --> unbound, in a later version than the Binding named: MOVED. The writer, not the outbox,
 *           evaluates the pod again, and records the new version before a new Binding is sent.
 *       --> unbound, in no later version: this copy had no effect, as after a 403
 *
 * VOID says that no Binding of this reservation has taken effect or ever will. So while another
 * copy may still be on its way, sent by this call or an earlier one, a POST that fails is UNKNOWN
 * (after a 404, a GET asks first). No amount of waiting makes it certain.
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
    const char *namespace; /* of the wake-up object */
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
    SENDING_AGAIN,   /* an earlier call may have sent it, perhaps before a restart */
    SENDING_NOTHING, /* only find out the outcome, with a GET */
};

struct outbox_binding {
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    struct text body;
    /* resourceVersion of the pod, which body names; 0: none (a reservation of an older ledger) */
    uint64_t version;
    int64_t deadline_ms; /* monotonic */
    enum outbox_sending sending;
};

/*
 * All of these copy their arguments; any thread. outbox_fetch() takes over the reply of the bind
 * and returns it with MESSAGE_FETCHED.
 */
void outbox_bind(struct outbox *outbox, const struct outbox_binding *binding);
void outbox_fetch(struct outbox *outbox, struct bind_call *bind);
void outbox_event(struct outbox *outbox, const struct kube_event_facts *facts);
void outbox_advertise(struct outbox *outbox, const char *node, uint32_t milli);
/*
 * Requests a wake-up. The more pods wait, the longer the pause between two wake-ups. node: for
 * wake=node, may be NULL.
 */
void outbox_wake(struct outbox *outbox, size_t waiting, const char *node);

/*
 * Starts what is due and returns how long it may be left alone, in ms. Then call kube_ops.poll with
 * outbox_answer.
 */
int64_t outbox_step(struct outbox *outbox, int64_t now_ms, int64_t wall_ms);
void outbox_answer(struct outbox *outbox, int64_t now_ms, const struct kube_answer *answer);

/*
 * The Bindings whose outcome is open, and their size. Above OUTBOX_BYTES_MAX the writer creates no
 * more of them: the Binding of a pod with many shares can have 100 KiB.
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
