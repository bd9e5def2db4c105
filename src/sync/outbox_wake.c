/*
 * Wake-ups, Events and advertised capacity, on the outbox thread. A failed wake-up is retried,
 * because pods still wait for it; Events and advertised capacity are sent once.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"

#include "outbox_internal.h"

enum {
    WAKE_PAUSE_MS = 250,
    WAKE_PER_POD_MS = 10,
    WAKE_PAUSE_MAX_MS = 1000,
    WAKE_RETRY_MS = 1000, /* after the first failure; doubles, less a jitter of up to a quarter */
    WAKE_RETRY_MAX_MS = 4000,
    /* limit of queued Events and advertisements; more are dropped and counted */
    SIDE_CALLS_MAX = 256,
};

/* --- jobs from other threads --- */

/* Counts one more Event or advertisement; false if there are too many, and it must be dropped. */
static bool side_call_begins(struct outbox *outbox)
{
    mutex_lock(&outbox->lock);
    must(outbox->side_calls <= SIDE_CALLS_MAX);
    const bool room = outbox->side_calls < SIDE_CALLS_MAX;
    if (room)
        outbox->side_calls++;
    mutex_unlock(&outbox->lock);
    return room;
}

/* Copies body into the call and frees it. */
static void side_call_says(struct outbox_call *call, const char *content_type, struct strbuf *body)
{
    must(body->len > 0);
    call->request.content_type = content_type;
    call->request.body = outbox_keep(&call->arena, (struct text){body->data, body->len});
    strbuf_done(body);
}

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
    call->request.path =
        arena_printf(&call->arena, "/apis/events.k8s.io/v1/namespaces/%s/events", facts->namespace);
    side_call_says(call, "application/json", &body);
    outbox_put(outbox, call);
}

void outbox_advertise(struct outbox *outbox, const char *node, uint32_t milli)
{
    must(node[0] != '\0' && milli > 0);

    struct strbuf body;

    if (!side_call_begins(outbox))
        return; /* retried by the node's next event */
    struct outbox_call *call = outbox_call_new(CALL_ADVERTISE, "PATCH");
    strbuf_init(&body);
    advertise_patch(&body, outbox->rules.resource, milli);
    call->request.path = arena_printf(&call->arena, "/api/v1/nodes/%s/status", node);
    side_call_says(call, "application/merge-patch+json", &body);
    outbox_put(outbox, call);
}

/* Requests are merged while one is pending: a wake-up is for all pods. */
void outbox_wake(struct outbox *outbox, size_t waiting, const char *node)
{
    if (strcmp(outbox->rules.wake, "off") == 0)
        return;
    mutex_lock(&outbox->lock);
    outbox->wake_wanted = true;
    outbox->wake_waiting = waiting;
    if (node != NULL)
        (void)snprintf(outbox->wake_node, sizeof outbox->wake_node, "%s", node);
    mutex_unlock(&outbox->lock);
    outbox->rules.ops->wake(outbox->rules.ops->ctx);
}

void outbox_stats(struct outbox *outbox, struct outbox_stats *out)
{
    mutex_lock(&outbox->lock);
    *out = outbox->stats;
    mutex_unlock(&outbox->lock);
}

/* --- the thread that steps --- */

/* Interval between wake-ups: each makes kube-scheduler ask about all waiting pods. */
static int64_t wake_pause_ms(size_t waiting)
{
    const int64_t most = WAKE_PAUSE_MAX_MS / WAKE_PER_POD_MS;
    const int64_t stretch =
        waiting < (size_t)most ? (int64_t)waiting * WAKE_PER_POD_MS : (int64_t)WAKE_PAUSE_MAX_MS;

    must(stretch >= 0 && stretch <= WAKE_PAUSE_MAX_MS);
    return stretch > WAKE_PAUSE_MS ? stretch : WAKE_PAUSE_MS;
}

/* Pause after a failure; it bounds the delay of waiting pods once wake-ups succeed again. */
static int64_t wake_retry_ms(const struct outbox *outbox) REQUIRES(outbox->lock)
{
    /* Jitter from the count of failures, not from a clock, so that a simulation is repeatable. */
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

/* After a failure the wake-up is requested again: its pods still wait. */
static void wake_ends(struct outbox *outbox, struct outbox_call *call, bool woke, int64_t now_ms)
{
    must(outbox->waking);

    metric_add(M_WAKE_UPS, LABEL_VALUES(woke ? "ok" : "failed"), 1);
    outbox->waking = false;
    mutex_lock(&outbox->lock);
    outbox->stats.wake_failing = !woke;
    if (woke) {
        outbox->stats.wake_ups++;
        outbox->wake_tries = 0;
        outbox->wake_not_before_ms = now_ms + wake_pause_ms(outbox->wake_waiting);
    } else {
        outbox->stats.wake_failures++;
        (void)snprintf(outbox->stats.wake_error, sizeof outbox->stats.wake_error, "%s",
                       call->try.last_error);
        outbox->wake_tries++;
        outbox->wake_wanted = true;
        outbox->wake_not_before_ms = now_ms + wake_retry_ms(outbox);
    }
    mutex_unlock(&outbox->lock);
    outbox_drop_call(outbox, call);
}

/* Recreates a deleted wake-up object, which is a wake-up in itself. */
static void outbox_create_wake_object(struct outbox *outbox, struct outbox_call *call,
                                      int64_t now_ms)
{
    must(call->kind == CALL_WAKE_UP);

    struct strbuf body;

    strbuf_init(&body);
    wake_object_encode(&body, outbox->rules.namespace);
    call->kind = CALL_CREATE_WAKE_OBJECT;
    call->request.method = "POST";
    call->request.path = wake_objects_path(&call->arena, outbox->rules.namespace);
    side_call_says(call, "application/json", &body);
    outbox_goes_on(outbox, call, now_ms);
}

/* Events and advertised capacity are not retried: no grant depends on them. */
void outbox_side_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->kind != CALL_BIND && call->kind != CALL_CHECK);

    /* 409: the Event was sent before a restart; its name is derived from its subject. */
    const bool good = (call->response.status >= 200 && call->response.status < 300) ||
                      (call->kind == CALL_EVENT && call->response.status == 409);

    if (!good)
        outbox_note_status(call);
    if (!good && call->response.retry_after_s > 0)
        flow_shut(outbox->flow, now_ms, now_ms + call->response.retry_after_s * 1000);
    if (call->kind == CALL_WAKE_UP && call->response.status == 404 &&
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
    outbox_drop_call(outbox, call);
}

void outbox_side_failed(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->try.flying);

    if (call->kind == CALL_WAKE_UP || call->kind == CALL_CREATE_WAKE_OBJECT) {
        wake_ends(outbox, call, false, now_ms);
        return;
    }
    if (call->kind == CALL_EVENT)
        metric_add(M_EVENTS, LABEL_VALUES("failed"), 1);
    outbox_drop_call(outbox, call);
}

/* Under wake=node a wake-up waits until some caller has named a node. */
static bool can_wake(const struct outbox *outbox) REQUIRES(outbox->lock)
{
    must(outbox->rules.wake != NULL);
    return outbox->wake_wanted && !outbox->waking &&
           (strcmp(outbox->rules.wake, "node") != 0 || outbox->wake_node[0] != '\0');
}

/* Number and time make each patch a change: a patch without changes causes no watch event. */
void outbox_begin_wake_up(struct outbox *outbox, int64_t now_ms, int64_t wall_ms)
{
    must(now_ms >= 0);

    const bool node = strcmp(outbox->rules.wake, "node") == 0;
    char name[NAME_BYTES_MAX + 1];
    struct strbuf body;

    mutex_lock(&outbox->lock);
    const bool due = can_wake(outbox) && now_ms >= outbox->wake_not_before_ms;
    if (due)
        outbox->wake_wanted = false;
    const uint64_t wake_up = outbox->stats.wake_ups + outbox->stats.wake_failures + 1;
    (void)snprintf(name, sizeof name, "%s", outbox->wake_node);
    mutex_unlock(&outbox->lock);
    if (!due)
        return;
    struct outbox_call *call = outbox_call_new(CALL_WAKE_UP, "PATCH");
    strbuf_init(&body);
    if (node) {
        call->request.path = arena_printf(&call->arena, "/api/v1/nodes/%s", name);
        node_wake_patch(&body, wake_up, wall_ms);
    } else {
        call->request.path = arena_printf(&call->arena, "%s/%s",
                                          wake_objects_path(&call->arena, outbox->rules.namespace),
                                          WAKE_OBJECT_NAME);
        wake_object_patch(&body, wake_up, wall_ms);
    }
    side_call_says(call, "application/merge-patch+json", &body);
    outbox->waking = true;
    outbox_line_up(outbox, call, now_ms);
}

int64_t outbox_wait_for_wake_up(struct outbox *outbox, int64_t now_ms, int64_t wait_ms)
{
    must(now_ms >= 0 && wait_ms >= 0);
    mutex_lock(&outbox->lock);
    if (can_wake(outbox)) {
        const int64_t due_ms = outbox->wake_not_before_ms > now_ms
                                   ? outbox->wake_not_before_ms - now_ms
                                   : WAKE_PAUSE_MS;
        wait_ms = due_ms < wait_ms ? due_ms : wait_ms;
    }
    mutex_unlock(&outbox->lock);
    return wait_ms;
}
