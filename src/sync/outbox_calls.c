/*
 * The calls of the outbox: the inbox, slots, and pauses between tries. Any thread adds calls to the
 * inbox, under the lock; the outbox thread owns everything else. A call has one slot and one ticket
 * until outbox_drop_call(); each try has its own id.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"

#include "outbox_internal.h"

enum {
    RETRY_MS = 50, /* first pause; doubles */
    RETRY_MAX_MS = 1000,
    SLOT_BITS = 20,
};

struct outbox *outbox_new(const struct outbox_rules *rules)
{
    struct outbox *outbox = xcalloc(1, sizeof *outbox);

    must(rules->ops != NULL && rules->result != NULL);
    outbox->rules = *rules;
    outbox->flow = flow_new();
    mutex_init(&outbox->lock);
    outbox->inbox_end = &outbox->inbox;
    return outbox;
}

struct outbox_call *outbox_call_new(enum call_kind kind, const char *method)
{
    must(method[0] != '\0');

    struct outbox_call *call = xcalloc(1, sizeof *call);

    call->kind = kind;
    call->request.method = method;
    arena_init(&call->arena);
    strbuf_init(&call->response.answer);
    return call;
}

static void outbox_call_free(struct outbox_call *call)
{
    must(call->fetched == NULL);
    strbuf_done(&call->response.answer);
    arena_done(&call->arena);
    xfree(call);
}

/* The listener answers waiting HTTP calls when it stops. */
static void call_abandon(struct outbox_call *call)
{
    must(!call->try.flying || call->id != 0);

    if (call->fetched != NULL)
        message_abandon(STEAL(call->fetched));
    outbox_call_free(call);
}

void outbox_free(struct outbox *outbox)
{
    if (outbox == NULL)
        return;
    for (size_t i = 0; i < outbox->n_calls; i++) {
        if (outbox->call[i] == NULL)
            continue;
        if (outbox->call[i]->try.flying)
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
    mutex_done(&outbox->lock);
    xfree(outbox);
}

/* --- jobs from other threads --- */

void outbox_put(struct outbox *outbox, struct outbox_call *call)
{
    must(call->request.path != NULL && call->next == NULL);
    mutex_lock(&outbox->lock);
    const bool alone = outbox->inbox == NULL; /* else the thread has been woken already */
    *outbox->inbox_end = call;
    outbox->inbox_end = &call->next;
    /* A Binding, sent or queried, counts from here until its outcome is known. */
    if (call->kind == CALL_BIND || call->kind == CALL_CHECK) {
        call->binding.bytes = sizeof *call + arena_bytes(&call->arena);
        outbox->open_bindings++;
        outbox->binding_bytes += call->binding.bytes;
    }
    mutex_unlock(&outbox->lock);
    if (alone)
        outbox->rules.ops->wake(outbox->rules.ops->ctx);
}

struct text outbox_keep(struct arena *arena, struct text text)
{
    return (struct text){arena_copy(arena, text), text.len};
}

size_t outbox_bytes(struct outbox *outbox)
{
    mutex_lock(&outbox->lock);
    const size_t bytes = outbox->binding_bytes;
    must(outbox->open_bindings > 0 || bytes == 0);
    mutex_unlock(&outbox->lock);
    return bytes;
}

size_t outbox_open(struct outbox *outbox)
{
    mutex_lock(&outbox->lock);
    const size_t open = outbox->open_bindings;
    mutex_unlock(&outbox->lock);
    return open;
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

/* Slots are reused: there are as many as calls were ever open at once. */
static void take_slot(struct outbox *outbox, struct outbox_call *call)
{
    size_t slot = outbox->n_calls;

    must(outbox->n_spare <= outbox->n_calls);
    if (outbox->n_spare > 0) {
        slot = outbox->spare[--outbox->n_spare];
    } else {
        outbox->call = xgrow(outbox->call, outbox->n_calls, &outbox->capacity, sizeof(void *));
        outbox->n_calls++;
    }
    must(slot < (size_t)1 << SLOT_BITS);
    outbox->call[slot] = call;
    call->id = slot;
}

void outbox_line_up(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->next == NULL && !call->try.flying);

    take_slot(outbox, call);
    call->ticket = (struct ticket){.owner = call,
                                   .lane = lane_of(call->kind),
                                   .namespace = call->namespace != NULL ? call->namespace : "",
                                   .deadline_ms = call->deadline_ms};
    flow_line_up(outbox->flow, &call->ticket, now_ms);
}

static size_t slot_of(uint64_t id)
{
    return id & (((size_t)1 << SLOT_BITS) - 1);
}

void outbox_begin_try(struct outbox *outbox, struct outbox_call *call)
{
    must(!call->try.flying);
    call->id = ++outbox->serial << SLOT_BITS | slot_of(call->id);
    call->try.tries++;
    call->response.status = 0;
    call->response.retry_after_s = 0;
    strbuf_reset(&call->response.answer);
    call->response.too_long = false;
    call->try.flying = true;
}

struct outbox_call *outbox_call_of(const struct outbox *outbox, uint64_t id)
{
    const size_t slot = slot_of(id);
    struct outbox_call *call = slot < outbox->n_calls ? outbox->call[slot] : NULL;

    return call != NULL && call->id == id && call->try.flying ? call : NULL;
}

void outbox_drop_call(struct outbox *outbox, struct outbox_call *call)
{
    const size_t slot = slot_of(call->id);

    must(outbox->call[slot] == call);
    flow_leave(outbox->flow, &call->ticket);
    outbox->call[slot] = NULL;
    outbox->spare =
        xgrow(outbox->spare, outbox->n_spare, &outbox->spare_capacity, sizeof *outbox->spare);
    outbox->spare[outbox->n_spare++] = slot;
    mutex_lock(&outbox->lock);
    if (call->kind == CALL_EVENT || call->kind == CALL_ADVERTISE)
        outbox->side_calls--;
    if (call->kind == CALL_BIND || call->kind == CALL_CHECK) {
        must(outbox->open_bindings > 0 && outbox->binding_bytes >= call->binding.bytes);
        outbox->open_bindings--;
        outbox->binding_bytes -= call->binding.bytes;
    }
    mutex_unlock(&outbox->lock);
    outbox_call_free(call);
}

/* RETRY_MS, doubled with each try, at most RETRY_MAX_MS. */
static int64_t pause_of(const struct outbox_call *call)
{
    int64_t pause = RETRY_MS;

    must(call->try.tries > 0);
    for (uint32_t i = 1; i < call->try.tries && pause < RETRY_MAX_MS; i++)
        pause *= 2;
    return pause < RETRY_MAX_MS ? pause : RETRY_MAX_MS;
}

void outbox_retry(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    const bool is_busy = call->response.status == 429 || call->response.retry_after_s > 0;
    const int64_t least_ms = call->response.retry_after_s * 1000;
    const int64_t pause_ms = pause_of(call);

    must(call->try.flying && least_ms >= 0);
    flow_take_news(outbox->flow, now_ms, is_busy ? FLOW_BUSY : FLOW_SILENT);
    if (least_ms > 0)
        flow_shut(outbox->flow, now_ms, now_ms + least_ms);
    metric_add(M_API_RETRIES, NULL, 1);
    call->try.flying = false;
    /* A retry that the server requested does not use the retry budget. */
    flow_again(outbox->flow, &call->ticket, now_ms,
               now_ms + (pause_ms > least_ms ? pause_ms : least_ms), !is_busy);
}

void outbox_goes_on(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->try.flying);
    call->try.flying = false;
    flow_again(outbox->flow, &call->ticket, now_ms, now_ms, false);
}

void outbox_note_status(struct outbox_call *call)
{
    struct arena arena;
    struct status status;

    arena_init(&arena);
    status_decode((struct text){call->response.answer.data, call->response.answer.len}, &arena,
                  &status);
    (void)snprintf(call->try.last_error, sizeof call->try.last_error, "HTTP %d: %s",
                   call->response.status, status.message);
    arena_done(&arena);
}

void outbox_empty_inbox(struct outbox *outbox, int64_t now_ms)
{
    mutex_lock(&outbox->lock);
    must(outbox->inbox_end != NULL);
    struct outbox_call *call = outbox->inbox;
    outbox->inbox = NULL;
    outbox->inbox_end = &outbox->inbox;
    mutex_unlock(&outbox->lock);
    while (call != NULL) {
        struct outbox_call *next = call->next;
        call->next = NULL;
        outbox_line_up(outbox, call, now_ms);
        call = next;
    }
}
