/*
 * outbox - what goes out to the API server: Bindings, GETs, the wake-up object, Events, advertised
 * capacity.
 *
 * A step function over kube_ops.  Jobs come from the writer (any thread may put them); results
 * go back as messages.  Which of them goes when is flow's to say: a bounded number is in flight.
 * A Binding is sent again, the same bytes, until there is a definite answer or its deadline
 * passes; but never while an earlier try may still be answered, and a second try waits: longer
 * each time, as long as Retry-After says, and for the budget of all retries.
 *
 *   POSTED --201--> BOUND      --404, 400, 403--> VOID       --409--> GET
 *      \--429, 5xx, no answer--> wait --> POSTED              \--deadline--> UNKNOWN
 *
 *   GET --> on our node: BOUND;  elsewhere, another uid, not there: VOID
 *       --> unbound in a later version than the Binding named: MOVED.  The outbox never judges: the
 *           writer does, and writes the new version down before it is sent.
 *       --> unbound in that version: what the 409 says of this copy alone, as a 403
 *
 * VOID says that no Binding of this reservation has landed or will.  So while another copy may
 * still be on its way, sent by this call or an earlier one, a POST that fails is UNKNOWN (a 404
 * asks by a GET first).  No time makes it certain.
 */
#ifndef MILLIGPU_OUTBOX_H
#define MILLIGPU_OUTBOX_H

#include "milligpu/kube.h"
#include "milligpu/message.h"
#include "milligpu/strbuf.h"
#include "milligpu/wire_kube.h"

struct message;

struct outbox_rules {
    const struct kube_ops *ops;
    const struct wire_rules *wire;
    const char *wake;      /* "object", "node", "off" */
    const char *namespace; /* of the wake-up object */
    const char *instance;  /* who reports Events */
    const char *resource;  /* advertised */
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
    /* of the pod, that body names; 0: none (a reservation of an older ledger) */
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
