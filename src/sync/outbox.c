/*
 * Sends Bindings, GETs, wake-ups, Events and advertised capacity to the API server. Any thread adds
 * jobs to the inbox, under the lock; step and answer run on the outbox thread, which owns
 * everything else; outcomes go to the writer as messages. A call has one slot and one ticket until
 * drop_call(), and each try has an id of its own. A Binding is sent again only when no earlier try
 * can still be answered, and its outcome is VOID only if no copy of it can take effect: where that
 * is not certain it is UNKNOWN. In order: jobs, the outcomes of Bindings and GETs, wake-ups,
 * answers, the step.
 */
#include "milligpu/outbox.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/kube.h"
#include "milligpu/message.h"
#include "milligpu/metric.h"

#include "sync/flow.h"

enum {
    RETRY_MS = 50, /* first pause; doubles */
    RETRY_MAX_MS = 1000,
    SIDE_TIMEOUT_MS = 10000,
    /*
     * before the deadline: the transport gives up this much earlier, because it knows whether
     * anything was sent
     */
    TRANSPORT_PART = 16,
    WAKE_PAUSE_MS = 250,
    WAKE_PER_POD_MS = 10,
    WAKE_PAUSE_MAX_MS = 1000,
    WAKE_RETRY_MS = 1000, /* after the first failure; doubles, and up to a quarter less of it */
    WAKE_RETRY_MAX_MS = 4000,
    IDLE_MS = 60 * 1000, /* a new job wakes */
    /* Events and advertisements that wait; more are dropped and counted */
    SIDE_CALLS_MAX = 256,
};

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

static const char *call_word(enum call_kind kind)
{
    must(kind <= CALL_CREATE_WAKE_OBJECT);

    static const char *const words[] = {
#define X(code, word) word,
        CALL_TABLE(X)
#undef X
    };
    return words[kind];
}

struct outbox_call {
    enum call_kind kind;
    struct ticket ticket; /* where it stands */
    struct arena arena;   /* every string below */
    const char *method;
    const char *path;
    const char *content_type;
    struct text body;
    bool flying;
    bool maybe_sent; /* a copy of it, sent by any process, may still take effect */
    bool asks;       /* nothing is sent */
    uint64_t version;
    uint64_t id;  /* its slot; from the first try on, the serial of the try above it */
    size_t bytes; /* BIND, CHECK: its size */
    uint32_t tries;
    int64_t deadline_ms; /* monotonic; 0: none, and SIDE_TIMEOUT_MS for the try */
    int status;
    int64_t retry_after_s;
    struct strbuf answer;
    bool too_long;         /* an answer has begun, so nothing of an earlier one is kept */
    const char *namespace; /* BIND, CHECK, FETCH */
    const char *uid;       /* BIND, CHECK */
    const char *node;
    const char *pod_path;
    struct message *fetched; /* FETCH: the result, as far as it is known */
    char last_error[256];
    struct outbox_call *next; /* inbox */
};

struct outbox {
    struct outbox_rules rules;
    /* guards inbox, open_bindings, the wake-up request and stats */
    pthread_mutex_t lock;
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
    size_t spares;
    size_t spare_capacity;
    uint64_t serial; /* never wraps: an id contains 44 bits of it */
    bool waking;
    uint32_t wake_tries; /* failures since the last success */
    int64_t wake_not_before_ms;
};

enum { SLOT_BITS = 20 };

static void outbox_lock(struct outbox *outbox)
{
    must(pthread_mutex_lock(&outbox->lock) == 0);
}

static void outbox_unlock(struct outbox *outbox)
{
    must(pthread_mutex_unlock(&outbox->lock) == 0);
}

struct outbox *outbox_new(const struct outbox_rules *rules)
{
    struct outbox *outbox = xcalloc(1, sizeof *outbox);

    must(rules->ops != NULL && rules->result != NULL);
    outbox->rules = *rules;
    outbox->flow = flow_new();
    must(pthread_mutex_init(&outbox->lock, NULL) == 0);
    outbox->inbox_end = &outbox->inbox;
    return outbox;
}

static struct outbox_call *outbox_call_new(enum call_kind kind, const char *method)
{
    must(method[0] != '\0');

    struct outbox_call *call = xcalloc(1, sizeof *call);

    call->kind = kind;
    call->method = method;
    arena_init(&call->arena);
    strbuf_init(&call->answer);
    return call;
}

static void outbox_call_free(struct outbox_call *call)
{
    must(call->fetched == NULL);
    strbuf_done(&call->answer);
    arena_done(&call->arena);
    xfree(call);
}

/* An HTTP call that still waits is answered by the listener when it stops. */
static void call_abandon(struct outbox_call *call)
{
    must(!call->flying || call->id != 0);

    if (call->fetched != NULL)
        message_abandon(STEAL(call->fetched));
    outbox_call_free(call);
}

void outbox_free(struct outbox *outbox)
{
    if (outbox == NULL)
        return;
    for (size_t i = 0; i < outbox->calls; i++) {
        if (outbox->call[i] == NULL)
            continue;
        if (outbox->call[i]->flying)
            outbox->rules.ops->cancel(outbox->rules.ops->ctx, outbox->call[i]->id);
        call_abandon(outbox->call[i]);
    }
    while (outbox->inbox != NULL) {
        struct outbox_call *call = outbox->inbox;
        outbox->inbox = call->next;
        call_abandon(call);
    }
    flow_free(outbox->flow);
    xfree(outbox->spare);
    xfree(outbox->call);
    (void)pthread_mutex_destroy(&outbox->lock);
    xfree(outbox);
}

/* --- jobs from other threads --- */

static void outbox_put(struct outbox *outbox, struct outbox_call *call)
{
    must(call->path != NULL && call->next == NULL);
    outbox_lock(outbox);
    /* otherwise the thread has been woken already */
    const bool alone = outbox->inbox == NULL;
    *outbox->inbox_end = call;
    outbox->inbox_end = &call->next;
    /* A Binding counts from here until its outcome is known, whether it is sent or asked about. */
    if (call->kind == CALL_BIND || call->kind == CALL_CHECK) {
        call->bytes = sizeof *call + arena_bytes(&call->arena);
        outbox->open_bindings++;
        outbox->binding_bytes += call->bytes;
    }
    outbox_unlock(outbox);
    if (alone)
        outbox->rules.ops->wake(outbox->rules.ops->ctx);
}

/* Is there room for one more Event or advertisement? Only these may be dropped. */
static bool side_call_begins(struct outbox *outbox)
{
    outbox_lock(outbox);
    must(outbox->side_calls <= SIDE_CALLS_MAX);
    const bool room = outbox->side_calls < SIDE_CALLS_MAX;
    if (room)
        outbox->side_calls++;
    outbox_unlock(outbox);
    return room;
}

static struct text outbox_keep(struct arena *arena, struct text text)
{
    return (struct text){arena_copy(arena, text), text.len};
}

/* From now on the call asks for the outcome of the Binding. */
static void become_check(struct outbox_call *call)
{
    must(call->kind == CALL_BIND && call->pod_path != NULL);
    call->kind = CALL_CHECK;
    call->method = "GET";
    call->path = call->pod_path;
    call->content_type = NULL;
    call->body = (struct text){NULL, 0};
    call->tries = 0;
}

void outbox_bind(struct outbox *outbox, const struct outbox_binding *binding)
{
    struct outbox_call *call = outbox_call_new(CALL_BIND, "POST");

    must(binding->deadline_ms > 0 && binding->body.len > 0);
    call->pod_path = arena_printf(&call->arena, "/api/v1/namespaces/%s/pods/%s", binding->namespace,
                                  binding->name);
    call->path = arena_printf(&call->arena, "%s/binding", call->pod_path);
    call->content_type = "application/json";
    call->body = outbox_keep(&call->arena, binding->body);
    call->uid = arena_copy(&call->arena, text_of(binding->uid));
    call->node = arena_copy(&call->arena, text_of(binding->node));
    call->deadline_ms = binding->deadline_ms;
    call->version = binding->version;
    call->maybe_sent = binding->sending != SENDING_FIRST;
    call->asks = binding->sending == SENDING_NOTHING;
    call->namespace = arena_copy(&call->arena, text_of(binding->namespace));
    if (binding->sending == SENDING_NOTHING)
        become_check(call);
    outbox_put(outbox, call);
}

void outbox_fetch(struct outbox *outbox, struct bind_call *bind)
{
    must(bind->reply.to != NULL);

    const struct extender_bind *asks = &bind->asks;
    struct outbox_call *call = outbox_call_new(CALL_FETCH, "GET");
    struct message *fetched = message_new(MESSAGE_FETCHED);

    fetched->fetched.bind = (struct bind_call){
        .asks = {.uid = arena_copy(&fetched->arena, text_of(asks->uid)),
                 .namespace = arena_copy(&fetched->arena, text_of(asks->namespace)),
                 .pod = arena_copy(&fetched->arena, text_of(asks->pod)),
                 .node = arena_copy(&fetched->arena, text_of(asks->node))},
        .deadline_ms = bind->deadline_ms,
        .reply = bind->reply,
    };
    bind->reply.to = NULL;
    call->fetched = fetched;
    call->path =
        arena_printf(&call->arena, "/api/v1/namespaces/%s/pods/%s", asks->namespace, asks->pod);
    call->namespace = arena_copy(&call->arena, text_of(asks->namespace));
    call->deadline_ms = bind->deadline_ms;
    outbox_put(outbox, call);
}

/* Dropped when too many wait: no Event is worth memory without bound. */
void outbox_event(struct outbox *outbox, const struct kube_event_facts *facts)
{
    must(facts->namespace[0] != '\0');

    struct strbuf body;

    if (!side_call_begins(outbox)) {
        metric_add(M_EVENTS, LABEL_VALUES("dropped"), 1);
        return;
    }
    struct outbox_call *call = outbox_call_new(CALL_EVENT, "POST");
    strbuf_init(&body);
    event_encode(&body, facts);
    call->path =
        arena_printf(&call->arena, "/apis/events.k8s.io/v1/namespaces/%s/events", facts->namespace);
    call->content_type = "application/json";
    call->body = outbox_keep(&call->arena, (struct text){body.data, body.len});
    strbuf_done(&body);
    outbox_put(outbox, call);
}

void outbox_advertise(struct outbox *outbox, const char *node, uint32_t milli)
{
    must(node[0] != '\0' && milli > 0);

    struct strbuf body;

    if (!side_call_begins(outbox))
        return; /* the node's next event tries again */
    struct outbox_call *call = outbox_call_new(CALL_ADVERTISE, "PATCH");
    strbuf_init(&body);
    advertise_patch(&body, outbox->rules.resource, milli);
    call->path = arena_printf(&call->arena, "/api/v1/nodes/%s/status", node);
    call->content_type = "application/merge-patch+json";
    call->body = outbox_keep(&call->arena, (struct text){body.data, body.len});
    strbuf_done(&body);
    outbox_put(outbox, call);
}

/* Requests that come while one waits are one: a wake-up is for all pods. */
void outbox_wake(struct outbox *outbox, size_t waiting, const char *node)
{
    if (strcmp(outbox->rules.wake, "off") == 0)
        return;
    outbox_lock(outbox);
    outbox->wake_wanted = true;
    outbox->wake_waiting = waiting;
    if (node != NULL)
        (void)snprintf(outbox->wake_node, sizeof outbox->wake_node, "%s", node);
    outbox_unlock(outbox);
    outbox->rules.ops->wake(outbox->rules.ops->ctx);
}

size_t outbox_bytes(struct outbox *outbox)
{
    outbox_lock(outbox);
    const size_t bytes = outbox->binding_bytes;
    must(outbox->open_bindings > 0 || bytes == 0);
    outbox_unlock(outbox);
    return bytes;
}

size_t outbox_open(struct outbox *outbox)
{
    outbox_lock(outbox);
    const size_t open = outbox->open_bindings;
    outbox_unlock(outbox);
    return open;
}

void outbox_stats(struct outbox *outbox, struct outbox_stats *out)
{
    outbox_lock(outbox);
    *out = outbox->stats;
    outbox_unlock(outbox);
}

/* --- the thread that steps --- */

static enum flow_lane lane_of(enum call_kind kind)
{
    switch (kind) {
    case CALL_BIND:
    case CALL_CHECK:
    case CALL_FETCH:
        return LANE_BIND;
    case CALL_EVENT:
    case CALL_ADVERTISE:
        return LANE_SIDE;
    case CALL_WAKE_UP:
    case CALL_CREATE_WAKE_OBJECT:
        return LANE_WAKE;
    }
    must_not_reach("every kind is listed");
}

/* Slots are used again: there are as many as calls were ever open at once. */
static void take_slot(struct outbox *outbox, struct outbox_call *call)
{
    size_t slot = outbox->calls;

    must(outbox->spares <= outbox->calls);
    if (outbox->spares > 0) {
        slot = outbox->spare[--outbox->spares];
    } else {
        outbox->call = xgrow(outbox->call, outbox->calls, &outbox->capacity, sizeof(void *));
        outbox->calls++;
    }
    must(slot < (size_t)1 << SLOT_BITS);
    outbox->call[slot] = call;
    call->id = slot;
}

/* From now on it waits for its turn. */
static void line_up(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->next == NULL && !call->flying);

    take_slot(outbox, call);
    call->ticket = (struct ticket){.owner = call,
                                   .lane = lane_of(call->kind),
                                   .namespace = call->namespace != NULL ? call->namespace : "",
                                   .deadline_ms = call->deadline_ms};
    flow_line_up(outbox->flow, &call->ticket, now_ms);
}

/* Each try has its own, so a late answer to an earlier try finds no call. */
static uint64_t next_id(struct outbox *outbox, const struct outbox_call *call)
{
    const uint64_t slot = call->id & (((uint64_t)1 << SLOT_BITS) - 1);
    return ++outbox->serial << SLOT_BITS | slot;
}

/* Every call ends here: slot, ticket and counts are given back together. */
static void drop_call(struct outbox *outbox, struct outbox_call *call)
{
    const size_t slot = call->id & (((size_t)1 << SLOT_BITS) - 1);

    must(outbox->call[slot] == call);
    flow_leave(outbox->flow, &call->ticket);
    outbox->call[slot] = NULL;
    outbox->spare =
        xgrow(outbox->spare, outbox->spares, &outbox->spare_capacity, sizeof *outbox->spare);
    outbox->spare[outbox->spares++] = slot;
    outbox_lock(outbox);
    if (call->kind == CALL_EVENT || call->kind == CALL_ADVERTISE)
        outbox->side_calls--;
    if (call->kind == CALL_BIND || call->kind == CALL_CHECK) {
        must(outbox->open_bindings > 0 && outbox->binding_bytes >= call->bytes);
        outbox->open_bindings--;
        outbox->binding_bytes -= call->bytes;
    }
    outbox_unlock(outbox);
    outbox_call_free(call);
}

static void outbox_count_call(const struct outbox_call *call, int status)
{
    char code[16];

    (void)snprintf(code, sizeof code, "%d", status);
    metric_add(M_API_REQUESTS, LABEL_VALUES(call_word(call->kind), code), 1);
}

/* RETRY_MS, doubled with each try, at most RETRY_MAX_MS. */
static int64_t pause_of(const struct outbox_call *call)
{
    int64_t pause = RETRY_MS;

    must(call->tries > 0);
    for (uint32_t i = 1; i < call->tries && pause < RETRY_MAX_MS; i++)
        pause *= 2;
    return pause < RETRY_MAX_MS ? pause : RETRY_MAX_MS;
}

/* After an attempt that has ended: the same again, later. */
static void wait_before_retry(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    const bool told = call->status == 429 || call->retry_after_s > 0;
    const int64_t least_ms = call->retry_after_s * 1000;
    const int64_t pause_ms = pause_of(call);

    must(call->flying && least_ms >= 0);
    flow_heard(outbox->flow, now_ms, told ? FLOW_BUSY : FLOW_SILENT);
    if (least_ms > 0)
        flow_shut(outbox->flow, now_ms, now_ms + least_ms);
    metric_add(M_API_RETRIES, NULL, 1);
    call->flying = false;
    /* If the server itself asks us to come again, that does not use the retry budget. */
    flow_again(outbox->flow, &call->ticket, now_ms,
               now_ms + (pause_ms > least_ms ? pause_ms : least_ms), !told);
}

/* The call continues at once with another request. */
static void goes_on(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->flying);
    call->flying = false;
    flow_again(outbox->flow, &call->ticket, now_ms, now_ms, false);
}

static void start_check(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    become_check(call);
    goes_on(outbox, call, now_ms);
    must(!call->flying);
}

/* Copies its texts: the call is freed before the message goes to the writer. */
static struct message *outcome_of(const struct outbox_call *call, enum bind_outcome outcome,
                                  enum reason reason, const char *text)
{
    struct message *result = message_new(MESSAGE_OUTCOME);

    must(call->kind == CALL_BIND || call->kind == CALL_CHECK);
    must(outcome == OUTCOME_BOUND || text != NULL);
    result->outcome = (struct binding_outcome){
        .uid = arena_copy(&result->arena, text_of(call->uid)),
        .is = outcome,
        .version = call->version,
        .reason = reason,
        .text = text != NULL ? arena_copy(&result->arena, text_of(text)) : NULL,
    };
    return result;
}

static void bind_ends(struct outbox *outbox, struct outbox_call *call, enum bind_outcome outcome,
                      enum reason reason, const char *text)
{
    struct message *result = outcome_of(call, outcome, reason, text);

    must(outcome != OUTCOME_MOVED);
    drop_call(outbox, call);
    outbox->rules.result(outbox->rules.user, result);
}

/* The writer evaluates the pod as it is now. */
static void bind_moved(struct outbox *outbox, struct outbox_call *call, const struct pod *pod,
                       const char *text)
{
    struct message *result = outcome_of(call, OUTCOME_MOVED, REASON_CHANGED, text);

    must(strcmp(pod->uid, call->uid) == 0);
    result->outcome.pod = *pod_keep(pod, &result->arena);
    drop_call(outbox, call);
    outbox->rules.result(outbox->rules.user, result);
}

/* No pod: it does not exist, or the API server could not be asked. */
static void fetch_ends(struct outbox *outbox, struct outbox_call *call, enum reason reason,
                       const char *trouble)
{
    must(call->kind == CALL_FETCH && call->fetched != NULL);

    struct message *result = STEAL(call->fetched);
    struct fetched_pod *fetched = &result->fetched;

    fetched->found = false;
    fetched->reason = reason;
    fetched->text = trouble != NULL ? arena_copy(&result->arena, text_of(trouble)) : NULL;
    drop_call(outbox, call);
    outbox->rules.result(outbox->rules.user, result);
}

static void fetch_found(struct outbox *outbox, struct outbox_call *call)
{
    must(call->kind == CALL_FETCH && call->fetched != NULL);

    struct message *result = call->fetched;
    struct err err;
    /* The decoded pod points into it, so the message keeps it. */
    const struct text body =
        outbox_keep(&result->arena, (struct text){call->answer.data, call->answer.len});

    if (pod_decode(body, outbox->rules.wire, &result->arena, &result->fetched.pod, &err) < 0) {
        fetch_ends(outbox, call, REASON_NONE, err.text);
        return;
    }
    call->fetched = NULL;
    result->fetched.found = true;
    drop_call(outbox, call);
    outbox->rules.result(outbox->rules.user, result);
}

/* The deadline has passed: what does the last known state allow us to conclude? */
static void outbox_give_up(struct outbox *outbox, struct outbox_call *call)
{
    must(call->deadline_ms > 0);

    char text[400];

    if (call->kind == CALL_FETCH) {
        fetch_ends(outbox, call, REASON_NONE,
                   call->last_error[0] != '\0' ? call->last_error : "it did not answer");
        return;
    }
    must(call->kind == CALL_BIND || call->kind == CALL_CHECK);
    (void)snprintf(text, sizeof text, "the API server did not confirm in time%s%s",
                   call->last_error[0] != '\0' ? ": " : "", call->last_error);
    /* A 409 that was not followed by an answer proves nothing either. */
    if (call->maybe_sent || call->kind == CALL_CHECK)
        bind_ends(outbox, call, OUTCOME_UNKNOWN, REASON_NONE, text);
    else
        bind_ends(outbox, call, OUTCOME_VOID, REASON_CHANGED, text);
}

static void note_status(struct outbox_call *call)
{
    struct arena arena;
    struct status status;

    arena_init(&arena);
    status_decode((struct text){call->answer.data, call->answer.len}, &arena, &status);
    (void)snprintf(call->last_error, sizeof call->last_error, "HTTP %d: %s", call->status,
                   status.message);
    arena_done(&arena);
}

/* Says nothing about the pod: the same request may succeed later. */
static bool outbox_passing(int status)
{
    return status == 429 || status >= 500;
}

/* This copy has no effect. Only if no other copy was sent is the outcome for the pod known. */
static void outbox_refused(struct outbox *outbox, struct outbox_call *call, const char *text)
{
    must(text[0] != '\0');
    if (call->maybe_sent)
        bind_ends(outbox, call, OUTCOME_UNKNOWN, REASON_NONE, text);
    else
        bind_ends(outbox, call, OUTCOME_VOID, REASON_CHANGED, text);
}

static void bind_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->kind == CALL_BIND && call->flying);

    const int status = call->status;

    if (status == 201) {
        bind_ends(outbox, call, OUTCOME_BOUND, REASON_NONE, NULL);
        return;
    }
    note_status(call);
    if (status == 409 || (status == 404 && call->maybe_sent))
        /* a 404 means the same, or shows the outcome of another copy */
        start_check(outbox, call, now_ms);
    else if (status == 404)
        bind_ends(outbox, call, OUTCOME_VOID, REASON_UNKNOWN_POD, call->last_error);
    else if (outbox_passing(status) || (status >= 200 && status < 300)) {
        /*
         * Another 2xx comes from something in between: ask until the API server answers. Only a 429
         * is certain to be refused before it is processed.
         */
        call->maybe_sent = call->maybe_sent || status != 429;
        wait_before_retry(outbox, call, now_ms);
    } else
        outbox_refused(outbox, call, call->last_error);
}

/*
 * Unbound, but in which version? In a later one no Binding that was sent can take effect any more.
 */
static void outbox_check_unbound(struct outbox *outbox, struct outbox_call *call,
                                 const struct pod *pod)
{
    must(call->kind == CALL_CHECK && pod->node[0] == '\0');

    const uint64_t version = version_number(pod->resource_version);
    char text[400];

    (void)snprintf(text, sizeof text, "the pod is not bound%s%s",
                   call->last_error[0] != '\0' ? ": " : "", call->last_error);
    if (call->version == 0 && call->asks)
        /* reservation without a version: decided by time */
        bind_ends(outbox, call, OUTCOME_VOID, REASON_CHANGED, text);
    else if (call->version == 0 || version <= call->version)
        outbox_refused(outbox, call, text);
    else
        bind_moved(outbox, call, pod, text);
}

/*
 * After a 409: is the pod on the node of our Binding? Its annotation decides nothing, because users
 * who may write the pod may have changed it already; the reservation is what the pod holds, as it
 * is if the watch is faster.
 */
static void check_pod(struct outbox *outbox, struct outbox_call *call)
{
    must(call->kind == CALL_CHECK && call->node != NULL);

    struct arena arena;
    struct pod pod;
    struct err err;
    char text[400];

    arena_init(&arena);
    if (pod_decode((struct text){call->answer.data, call->answer.len}, outbox->rules.wire, &arena,
                   &pod, &err) < 0) {
        bind_ends(outbox, call, OUTCOME_UNKNOWN, REASON_NONE, err.text);
    } else if (strcmp(pod.uid, call->uid) != 0) {
        (void)snprintf(text, sizeof text, "the pod was replaced by one with uid %s", pod.uid);
        bind_ends(outbox, call, OUTCOME_VOID, REASON_CHANGED, text);
    } else if (pod.node[0] == '\0') {
        outbox_check_unbound(outbox, call, &pod);
    } else if (strcmp(pod.node, call->node) == 0) {
        bind_ends(outbox, call, OUTCOME_BOUND, REASON_NONE, NULL);
    } else {
        (void)snprintf(text, sizeof text, "the pod was bound to node %s without us", pod.node);
        bind_ends(outbox, call, OUTCOME_VOID, REASON_CHANGED, text);
    }
    arena_done(&arena);
}

/* A 404 to a check: the pod is gone, and every Binding that names its uid fails. */
static void get_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->kind == CALL_CHECK || call->kind == CALL_FETCH);

    const bool fetch = call->kind == CALL_FETCH;

    if (call->status == 200) {
        if (fetch)
            fetch_found(outbox, call);
        else
            check_pod(outbox, call);
        return;
    }
    note_status(call);
    if (outbox_passing(call->status))
        wait_before_retry(outbox, call, now_ms);
    else if (fetch && call->status == 404)
        fetch_ends(outbox, call, REASON_UNKNOWN_POD, "there is no such pod");
    else if (fetch)
        fetch_ends(outbox, call, REASON_NONE, call->last_error);
    else if (call->status == 404)
        bind_ends(outbox, call, OUTCOME_VOID, REASON_UNKNOWN_POD, call->last_error);
    else
        bind_ends(outbox, call, OUTCOME_UNKNOWN, REASON_NONE, call->last_error);
}

/* The pause between two wake-ups: each makes kube-scheduler ask about all waiting pods. */
static int64_t wake_pause_ms(size_t waiting)
{
    const int64_t most = WAKE_PAUSE_MAX_MS / WAKE_PER_POD_MS;
    const int64_t stretch =
        waiting < (size_t)most ? (int64_t)waiting * WAKE_PER_POD_MS : (int64_t)WAKE_PAUSE_MAX_MS;

    must(stretch >= 0 && stretch <= WAKE_PAUSE_MAX_MS);
    return stretch > WAKE_PAUSE_MS ? stretch : WAKE_PAUSE_MS;
}

/* After a failure. Once a wake-up succeeds, waiting pods are delayed no longer than that. */
static int64_t wake_retry_ms(const struct outbox *outbox)
{
    /* Drawn from the count of failures, not from a clock: a simulated run repeats. */
    const uint64_t failures = outbox->stats.wake_failures;
    const uint32_t draw = text_hash((struct text){(const char *)&failures, sizeof failures});
    int64_t pause_ms = WAKE_RETRY_MS;

    must(outbox->wake_tries > 0);
    for (uint32_t i = 1; i < outbox->wake_tries && pause_ms < WAKE_RETRY_MAX_MS; i++)
        pause_ms *= 2;
    if (pause_ms > WAKE_RETRY_MAX_MS)
        pause_ms = WAKE_RETRY_MAX_MS;
    return pause_ms - (int64_t)draw % (pause_ms / 4);
}

/* A failed one stays wanted: the pods that it is for still wait. */
static void wake_ends(struct outbox *outbox, struct outbox_call *call, bool woke, int64_t now_ms)
{
    must(outbox->waking);

    metric_add(M_WAKE_UPS, LABEL_VALUES(woke ? "ok" : "failed"), 1);
    outbox->waking = false;
    outbox_lock(outbox);
    outbox->stats.wake_failing = !woke;
    if (woke) {
        outbox->stats.wake_ups++;
        outbox->wake_tries = 0;
        outbox->wake_not_before_ms = now_ms + wake_pause_ms(outbox->wake_waiting);
    } else {
        outbox->stats.wake_failures++;
        (void)snprintf(outbox->stats.wake_error, sizeof outbox->stats.wake_error, "%s",
                       call->last_error);
        outbox->wake_tries++;
        outbox->wake_wanted = true;
        outbox->wake_not_before_ms = now_ms + wake_retry_ms(outbox);
    }
    outbox_unlock(outbox);
    drop_call(outbox, call);
}

/* The wake-up object was deleted; creating it again is a wake-up in itself. */
static void outbox_create_wake_object(struct outbox *outbox, struct outbox_call *call,
                                      int64_t now_ms)
{
    must(call->kind == CALL_WAKE_UP);

    struct strbuf body;

    strbuf_init(&body);
    wake_object_encode(&body, outbox->rules.namespace);
    call->kind = CALL_CREATE_WAKE_OBJECT;
    call->method = "POST";
    call->path = wake_objects_path(&call->arena, outbox->rules.namespace);
    call->content_type = "application/json";
    call->body = outbox_keep(&call->arena, (struct text){body.data, body.len});
    strbuf_done(&body);
    goes_on(outbox, call, now_ms);
}

/* Events and advertised capacity are sent once: what they lose costs no grant. */
static void side_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->kind != CALL_BIND && call->kind != CALL_CHECK);

    /* An Event that exists was sent before a restart: its name says what it is about. */
    const bool good = (call->status >= 200 && call->status < 300) ||
                      (call->kind == CALL_EVENT && call->status == 409);

    if (!good)
        note_status(call);
    if (!good && call->retry_after_s > 0)
        flow_shut(outbox->flow, now_ms, now_ms + call->retry_after_s * 1000);
    if (call->kind == CALL_WAKE_UP && call->status == 404 &&
        strcmp(outbox->rules.wake, "object") == 0) {
        outbox_create_wake_object(outbox, call, now_ms);
        return;
    }
    if (call->kind == CALL_WAKE_UP || call->kind == CALL_CREATE_WAKE_OBJECT) {
        wake_ends(outbox, call, good, now_ms);
        return;
    }
    if (call->kind == CALL_EVENT)
        metric_add(M_EVENTS, LABEL_VALUES(good ? "ok" : "failed"), 1);
    drop_call(outbox, call);
}

/* What passes is reported to flow with its retry, in wait_before_retry(). */
static void outbox_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->flying);

    outbox_count_call(call, call->status);
    if (lane_of(call->kind) == LANE_BIND && !outbox_passing(call->status))
        flow_heard(outbox->flow, now_ms, FLOW_ANSWERED);
    switch (call->kind) {
    case CALL_BIND:
        bind_answered(outbox, call, now_ms);
        return;
    case CALL_CHECK:
    case CALL_FETCH:
        get_answered(outbox, call, now_ms);
        return;
    case CALL_EVENT:
    case CALL_ADVERTISE:
    case CALL_WAKE_UP:
    case CALL_CREATE_WAKE_OBJECT:
        side_answered(outbox, call, now_ms);
        return;
    }
    must_not_reach("every kind is listed");
}

/* No answer. Only the transport can say that a POST was certainly not sent. */
static void outbox_failed(struct outbox *outbox, struct outbox_call *call, int64_t now_ms,
                          const struct kube_answer *answer)
{
    must(call->flying && answer->err != NULL);

    outbox_count_call(call, 0);
    (void)snprintf(call->last_error, sizeof call->last_error, "%.250s", answer->err->text);
    switch (call->kind) {
    case CALL_BIND:
        call->maybe_sent = call->maybe_sent || !answer->unsent;
        wait_before_retry(outbox, call, now_ms);
        return;
    case CALL_CHECK:
    case CALL_FETCH:
        wait_before_retry(outbox, call, now_ms);
        return;
    case CALL_WAKE_UP:
    case CALL_CREATE_WAKE_OBJECT:
        wake_ends(outbox, call, false, now_ms);
        return;
    case CALL_EVENT:
        metric_add(M_EVENTS, LABEL_VALUES("failed"), 1);
        drop_call(outbox, call);
        return;
    case CALL_ADVERTISE:
        drop_call(outbox, call);
        return;
    }
    must_not_reach("every kind is listed");
}

/* Everything or nothing: with a part missing it is another object. */
static void keep_answer(struct outbox_call *call, struct text data)
{
    must(call->flying);
    if (call->answer.len + data.len > EVENT_BYTES_MAX)
        call->too_long = true;
    if (call->too_long)
        strbuf_reset(&call->answer);
    else
        strbuf_text(&call->answer, data);
}

void outbox_answer(struct outbox *outbox, int64_t now_ms, const struct kube_answer *answer)
{
    const size_t slot = answer->id & (((size_t)1 << SLOT_BITS) - 1);
    struct outbox_call *call = slot < outbox->calls ? outbox->call[slot] : NULL;

    if (call == NULL || call->id != answer->id || !call->flying)
        return; /* cancelled, or the answer to another call */
    switch (answer->piece) {
    case KUBE_HEAD:
        call->status = answer->status;
        call->retry_after_s = answer->retry_after_s;
        return;
    case KUBE_DATA:
        keep_answer(call, answer->data);
        return;
    case KUBE_DONE:
        outbox_answered(outbox, call, now_ms);
        return;
    case KUBE_FAILED:
        outbox_failed(outbox, call, now_ms, answer);
        return;
    }
    must_not_reach("every piece is listed");
}

/* A try may take all the time that is left, less what TRANSPORT_PART says. */
static void send_call(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(!call->flying);
    const int64_t left =
        call->deadline_ms > 0 ? call->deadline_ms - now_ms : (int64_t)SIDE_TIMEOUT_MS;
    struct err err;

    must(left > 0);

    call->id = next_id(outbox, call);
    call->tries++;
    call->status = 0;
    call->retry_after_s = 0;
    strbuf_reset(&call->answer);
    call->too_long = false;
    const struct kube_request request = {
        .id = call->id,
        .method = call->method,
        .path = call->path,
        .content_type = call->content_type,
        .body = call->body,
        .timeout_ms = left - left / TRANSPORT_PART,
    };
    call->flying = true;
    if (outbox->rules.ops->start(outbox->rules.ops->ctx, &request, &err) < 0) {
        /* It was not even taken: the same as a connection that was refused. */
        const struct kube_answer refused = {
            .id = call->id, .piece = KUBE_FAILED, .unsent = true, .err = &err};
        outbox_failed(outbox, call, now_ms, &refused);
    }
}

/* With wake=node a node is needed; the next caller may name one. */
static bool can_wake(const struct outbox *outbox)
{
    must(outbox->rules.wake != NULL);
    return outbox->wake_wanted && !outbox->waking &&
           (strcmp(outbox->rules.wake, "node") != 0 || outbox->wake_node[0] != '\0');
}

/* Number and time make each patch a change: one that changes nothing makes no watch event. */
static void begin_wake_up(struct outbox *outbox, int64_t now_ms, int64_t wall_ms)
{
    must(now_ms >= 0);

    const bool node = strcmp(outbox->rules.wake, "node") == 0;
    char name[NAME_BYTES_MAX + 1];
    struct strbuf body;

    outbox_lock(outbox);
    const bool due = can_wake(outbox) && now_ms >= outbox->wake_not_before_ms;
    if (due)
        outbox->wake_wanted = false;
    const uint64_t wake_up = outbox->stats.wake_ups + outbox->stats.wake_failures + 1;
    (void)snprintf(name, sizeof name, "%s", outbox->wake_node);
    outbox_unlock(outbox);
    if (!due)
        return;
    struct outbox_call *call = outbox_call_new(CALL_WAKE_UP, "PATCH");
    strbuf_init(&body);
    if (node) {
        call->path = arena_printf(&call->arena, "/api/v1/nodes/%s", name);
        node_wake_patch(&body, wake_up, wall_ms);
    } else {
        call->path = arena_printf(&call->arena, "%s/%s",
                                  wake_objects_path(&call->arena, outbox->rules.namespace),
                                  WAKE_OBJECT_NAME);
        wake_object_patch(&body, wake_up, wall_ms);
    }
    call->content_type = "application/merge-patch+json";
    call->body = outbox_keep(&call->arena, (struct text){body.data, body.len});
    strbuf_done(&body);
    outbox->waking = true;
    line_up(outbox, call, now_ms);
}

/* The lock is held only to take the chain, so putting a job never waits for flow. */
static void empty_inbox(struct outbox *outbox, int64_t now_ms)
{
    outbox_lock(outbox);
    must(outbox->inbox_end != NULL);
    struct outbox_call *call = outbox->inbox;
    outbox->inbox = NULL;
    outbox->inbox_end = &outbox->inbox;
    outbox_unlock(outbox);
    while (call != NULL) {
        struct outbox_call *next = call->next;
        call->next = NULL;
        line_up(outbox, call, now_ms);
        call = next;
    }
}

static int64_t outbox_sooner(int64_t a, int64_t b)
{
    must(a >= 0 && b >= 0);

    return a < b ? a : b;
}

/* Calls whose time is up, in flight or waiting. */
static void give_up_late(struct outbox *outbox, int64_t now_ms)
{
    struct ticket *ticket;

    while ((ticket = flow_late(outbox->flow, now_ms)) != NULL) {
        struct outbox_call *call = ticket->owner;
        must(call->deadline_ms > 0);
        if (call->flying) {
            outbox->rules.ops->cancel(outbox->rules.ops->ctx, call->id);
            flow_heard(outbox->flow, now_ms, FLOW_SILENT);
            /* The API server may still apply what was cancelled here. */
            call->maybe_sent = true;
        }
        outbox_give_up(outbox, call);
    }
}

static void outbox_show(const struct outbox *outbox)
{
    const struct flow_stats stats = flow_stats(outbox->flow);

    must(stats.window > 0);
    metric_set(M_API_WAITING, NULL, (int64_t)stats.waiting);
    metric_set(M_API_IN_FLIGHT, NULL, (int64_t)stats.in_flight);
    metric_set(M_API_WINDOW, NULL, (int64_t)stats.window);
}

int64_t outbox_step(struct outbox *outbox, int64_t now_ms, int64_t wall_ms)
{
    struct ticket *ticket;

    must(now_ms >= 0 && wall_ms >= 0);
    empty_inbox(outbox, now_ms);
    begin_wake_up(outbox, now_ms, wall_ms);
    /* Before flow_next(): nothing goes whose time is up. */
    give_up_late(outbox, now_ms);
    while ((ticket = flow_next(outbox->flow, now_ms)) != NULL)
        send_call(outbox, ticket->owner, now_ms);
    outbox_show(outbox);
    int64_t wait = flow_wait_ms(outbox->flow, now_ms, IDLE_MS);
    outbox_lock(outbox);
    if (can_wake(outbox))
        wait = outbox_sooner(wait, outbox->wake_not_before_ms > now_ms
                                       ? outbox->wake_not_before_ms - now_ms
                                       : WAKE_PAUSE_MS);
    outbox_unlock(outbox);
    return wait;
}
