/*
 * The step of the outbox: what goes, what has been answered, and what is too late. A call is sent
 * again only when no earlier try can still be answered. What an answer means is decided in
 * outbox_bind.c and outbox_wake.c. In order: answers, tries, the step.
 */
#include <stdio.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"

#include "outbox_internal.h"

enum {
    SIDE_TIMEOUT_MS = 10000,
    /*
     * before the deadline: the transport gives up this much earlier, because it knows whether
     * anything was sent
     */
    TRANSPORT_PART = 16,
    IDLE_MS = 60 * 1000, /* a new job wakes */
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

/* What passes is reported to flow with its retry, in outbox_retry(). */
static void outbox_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->try.flying);

    outbox_count_call(call, call->response.status);
    if (call->ticket.lane == LANE_BIND && !outbox_passing(call->response.status))
        flow_heard(outbox->flow, now_ms, FLOW_ANSWERED);
    if (call->ticket.lane == LANE_BIND)
        outbox_bind_answered(outbox, call, now_ms);
    else
        outbox_side_answered(outbox, call, now_ms);
}

/* No answer. Only the transport can say that a POST was certainly not sent. */
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

/* Everything or nothing: with a part missing it is another object. */
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

/* A try may take all the time that is left, less what TRANSPORT_PART says. */
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
        /* It was not even taken: the same as a connection that was refused. */
        const struct kube_answer refused = {
            .id = call->id, .piece = KUBE_FAILED, .unsent = true, .err = &err};
        outbox_failed(outbox, call, now_ms, &refused);
    }
}

/* Calls whose time is up, in flight or waiting. */
static void give_up_late(struct outbox *outbox, int64_t now_ms)
{
    struct ticket *ticket;

    while ((ticket = flow_late(outbox->flow, now_ms)) != NULL) {
        struct outbox_call *call = ticket->owner;
        must(call->deadline_ms > 0);
        if (call->try.flying) {
            outbox->rules.ops->cancel(outbox->rules.ops->ctx, call->id);
            flow_heard(outbox->flow, now_ms, FLOW_SILENT);
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
    /* Before flow_next(): nothing goes whose time is up. */
    give_up_late(outbox, now_ms);
    while ((ticket = flow_next(outbox->flow, now_ms)) != NULL)
        send_call(outbox, ticket->owner, now_ms);
    outbox_show(outbox);
    return outbox_wait_for_wake_up(outbox, now_ms, flow_wait_ms(outbox->flow, now_ms, IDLE_MS));
}
