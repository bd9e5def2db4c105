/*
 * Messages put off: those whose batch would only write that a reserved pod is bound. No call waits
 * for that COMMIT: a call is answered as soon as the outcome of its Binding is known to be BOUND,
 * because the reservation is on disk and the cluster has the pod on its node (docs/TRUST.md). So
 * they ride in the next batch, and make one of their own only if none comes for PUT_OFF_MS. They
 * are not handled meanwhile, as if they were still in the queue: memory, disk and readers agree.
 * Their order stays, and every bind is decided after them. Called by writer.c.
 */
#include <string.h>

#include "milligpu/spine/message.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

enum {
    PUT_OFF_MS = 10, /* by so much at most the disk is late */
    /* beyond it, and beyond BATCH_MAX messages, they are handled at once */
    PUT_OFF_BYTES_MAX = 4 * 1024 * 1024,
};

void writer_answer_bound(struct writer *writer, struct message **message, size_t count)
{
    must(count <= BATCH_MAX);

    for (size_t i = 0; i < count; i++) {
        if (message[i]->kind != MESSAGE_OUTCOME || message[i]->outcome.result != OUTCOME_BOUND)
            continue;
        waiting_pods_resolved(writer->app->waiting_pods, text_of(message[i]->outcome.uid));
        inflight_answer(writer, message[i]->outcome.uid, NULL);
    }
}

/* Returns true for a message for which no call waits, and which frees no room of a pod's end. */
static bool can_wait(const struct message *message)
{
    switch (message->kind) {
    case MESSAGE_OUTCOME:
        return message->outcome.result == OUTCOME_BOUND;
    case MESSAGE_POD:
        return !pod_ended(&message->pod);
    default:
        return false;
    }
}

/* Returns true for a message that would write that a reserved pod is bound. */
static bool confirms(const struct writer *writer, const struct message *message)
{
    must(can_wait(message));

    const bool is_outcome = message->kind == MESSAGE_OUTCOME;
    const char *uid = is_outcome ? message->outcome.uid : message->pod.uid;
    const struct allocation *held = ledger_find(writer->ledger, text_of(uid));

    return held != NULL && held->facts.state == STATE_RESERVED &&
           (is_outcome || text_is(atom_text(held->facts.node), message->pod.node));
}

/* Judges new messages; earlier ones were judged when they came. */
static bool all_can_wait(struct writer *writer, struct message **message, size_t count)
{
    bool found = writer->put_off.count > 0;

    for (size_t i = 0; i < count; i++) {
        if (!can_wait(message[i]))
            return false;
        found = found || confirms(writer, message[i]);
        writer->put_off.bytes += message_bytes(message[i]);
    }
    return found;
}

int64_t writer_put_off_wait(const struct writer *writer, int64_t wait_ms)
{
    const int64_t left = writer->put_off.until_ms - writer_now_ms(writer);

    must(wait_ms >= 0);
    if (writer->put_off.count == 0 || left >= wait_ms)
        return wait_ms;
    return left > 0 ? left : 0;
}

size_t writer_take_put_off(struct writer *writer, struct message **message)
{
    must(writer->put_off.count < BATCH_MAX);

    memcpy(message, writer->put_off.message, writer->put_off.count * sizeof *message);
    return writer->put_off.count;
}

static bool is_over(const struct writer *writer)
{
    return writer->put_off.count > 0 && writer_now_ms(writer) >= writer->put_off.until_ms;
}

bool writer_put_off(struct writer *writer, struct message **message, size_t count, bool step_is_due)
{
    const size_t earlier = writer->put_off.count;

    must(count <= BATCH_MAX && count >= earlier);
    must(writer->lost.n_kept == 0);
    if (count == BATCH_MAX || step_is_due || is_over(writer) ||
        !all_can_wait(writer, message + earlier, count - earlier) ||
        writer->put_off.bytes > PUT_OFF_BYTES_MAX) {
        writer->put_off.count = writer->put_off.bytes = 0;
        return false;
    }
    if (earlier == 0)
        writer->put_off.until_ms = writer_now_ms(writer) + PUT_OFF_MS;
    memcpy(writer->put_off.message + earlier, message + earlier,
           (count - earlier) * sizeof *message);
    writer->put_off.count = count;
    return true;
}

void writer_stop_put_off(struct writer *writer)
{
    for (size_t i = 0; i < writer->put_off.count; i++)
        message_abandon(writer->put_off.message[i]);
    writer->put_off.count = 0;
}
