/*
 * The step of the outbox, on its thread: sends calls, dispatches answers to outbox_bind.c and
 * outbox_wake.c, and ends calls whose deadline has passed. A call is resent only when no earlier
 * try can still be answered. In order: answers, tries, the step.
 */
#include <stdio.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"

#include "outbox_internal.h"

enum {
    SIDE_TIMEOUT_MS = 10000,
    /*
     * the transport's timeout ends this fraction before the deadline, because only the transport
     * can report whether anything was sent
     */
    TRANSPORT_PART = 16,
    IDLE_MS = 60 * 1000, /* new jobs wake the thread */
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

static void outbox_count_call(const struct outbox_call *call, int status)
{
    char code[16];

    (void)snprintf(code, sizeof code, "%d", status);
    metric_add(M_API_REQUESTS, LABEL_VALUES(call_word(call->kind), code), 1);
}

/* Transient errors are reported to flow by outbox_retry(). */
static void outbox_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->try.flying);

    outbox_count_call(call, call->response.status);
    if (call->ticket.lane == LANE_BIND && !outbox_passing(call->response.status))
        flow_take_news(outbox->flow, now_ms, FLOW_ANSWERED);
    if (call->ticket.lane == LANE_BIND)
        outbox_bind_answered(outbox, call, now_ms);
    else
        outbox_side_answered(outbox, call, now_ms);
}

/* Handles a try without an answer. Only the transport can tell that a POST was never sent. */
static void outbox_failed(struct outbox *outbox, struct outbox_call *call, int64_t now_ms,
                          const struct kube_answer *answer)
{
    must(call->try.flying && answer->err != NULL);

    outbox_count_call(call, 0);
    (void)snprintf(call->try.last_error, sizeof call->try.last_error, "%.250s", answer->err->text);
    if (call->ticket.lane == LANE_BIND)
        outbox_bind_failed(outbox, call, now_ms, answer->unsent);
    else
        outbox_side_failed(outbox, call, now_ms);
}

/* Discards an answer that is too long: a truncated object would be another object. */
static void keep_answer(struct outbox_call *call, struct text data)
{
    must(call->try.flying);
    if (call->response.answer.len + data.len > EVENT_BYTES_MAX)
        call->response.too_long = true;
    if (call->response.too_long)
        strbuf_reset(&call->response.answer);
    else
        strbuf_text(&call->response.answer, data);
}

void outbox_answer(struct outbox *outbox, int64_t now_ms, const struct kube_answer *answer)
{
    struct outbox_call *call = outbox_call_of(outbox, answer->id);

    if (call == NULL)
        return;
    switch (answer->piece) {
    case KUBE_HEAD:
        call->response.status = answer->status;
        call->response.retry_after_s = answer->retry_after_s;
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

/* The try's timeout is the time left until the deadline, less TRANSPORT_PART. */
static void send_call(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    const int64_t left =
        call->deadline_ms > 0 ? call->deadline_ms - now_ms : (int64_t)SIDE_TIMEOUT_MS;
    struct err err;

    must(left > 0);

    outbox_begin_try(outbox, call);
    const struct kube_request request = {
        .id = call->id,
        .method = call->request.method,
        .path = call->request.path,
        .content_type = call->request.content_type,
        .body = call->request.body,
        .timeout_ms = left - left / TRANSPORT_PART,
    };
    if (outbox->rules.ops->start(outbox->rules.ops->ctx, &request, &err) < 0) {
        /* Never sent, like a refused connection. */
        const struct kube_answer refused = {
            .id = call->id, .piece = KUBE_FAILED, .unsent = true, .err = &err};
        outbox_failed(outbox, call, now_ms, &refused);
    }
}

/* Ends calls whose deadline has passed, in flight or waiting. */
static void give_up_late(struct outbox *outbox, int64_t now_ms)
{
    struct ticket *ticket;

    while ((ticket = flow_late(outbox->flow, now_ms)) != NULL) {
        struct outbox_call *call = ticket->owner;
        must(call->deadline_ms > 0);
        if (call->try.flying) {
            outbox->rules.ops->cancel(outbox->rules.ops->ctx, call->id);
            flow_take_news(outbox->flow, now_ms, FLOW_SILENT);
        }
        outbox_give_up(outbox, call, now_ms);
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
    outbox_empty_inbox(outbox, now_ms);
    outbox_begin_wake_up(outbox, now_ms, wall_ms);
    /* Before flow_next(), so that no call is sent too late. */
    give_up_late(outbox, now_ms);
    while ((ticket = flow_next(outbox->flow, now_ms)) != NULL)
        send_call(outbox, ticket->owner, now_ms);
    outbox_show(outbox);
    return outbox_wait_for_wake_up(outbox, now_ms, flow_wait_ms(outbox->flow, now_ms, IDLE_MS));
}
