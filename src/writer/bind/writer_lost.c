/*
 * Handles lost batches, for writer.c. Binds are answered with an error. Messages about the cluster
 * are kept in order and handled before newer ones, because a watch reports each event once.
 * disk_broken stays set, and milligpud is not ready, until a write has succeeded and no message is
 * kept (batch_kept()).
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/log.h"
#include "milligpu/spine/message.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

enum {
    RETRY_MS = 250, /* pause between tries of a lost batch */
};

/*
 * Returns true if a message of a lost batch must be kept because the watch does not repeat it. A
 * bind is answered and freed instead.
 */
static bool worth_keeping(struct writer *writer, struct message *message)
{
    must(writer->batch.err.code != ERR_NONE);

    struct bind_call *bind = message_bind_call(message);
    if (bind == NULL)
        return true;
    /* Without a reply the call waits for a Binding: of this batch (dropped) or an earlier one. */
    if (bind->reply.to != NULL)
        writer_refuse_bind(bind, "the ledger cannot be written: %.400s", writer->batch.err.text);
    message_free(message);
    return false;
}

/* Prepends messages: they were taken from there, or none is kept, or their order is irrelevant. */
static void keep_first(struct writer *writer, struct message **message, size_t count)
{
    must(count <= BATCH_MAX);

    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        writer->lost.kept = xgrow(writer->lost.kept, writer->lost.n_kept + i,
                                  &writer->lost.kept_capacity, sizeof(void *));
    for (size_t i = 0; i < count; i++)
        writer->lost.kept_bytes += message_bytes(message[i]);
    memmove(writer->lost.kept + count, writer->lost.kept, writer->lost.n_kept * sizeof(void *));
    memcpy(writer->lost.kept, message, count * sizeof(void *));
    writer->lost.n_kept += count;
}

void writer_leave_over(struct writer *writer, struct message **message, size_t count)
{
    must(count == 0 || writer->pod_list.pods_ended || writer->node_list.nodes_ended ||
         writer->policy.rules_change);

    keep_first(writer, message, count);
    /* No failure: the next step handles them without a pause. */
    if (count > 0)
        writer->lost.retry_ms = 0;
}

void writer_batch_lost(struct writer *writer, struct message **message, size_t count)
{
    must(count <= BATCH_MAX);
    must(writer->batch.lost || writer->batch.err.code != ERR_NONE);

    if (!atomic_exchange(&writer->app->health.disk_broken, true))
        log_write(LOG_ERROR, "the ledger cannot be written: granting stops until it can",
                  log_str("error", writer->batch.err.text));
    writer_drop_actions(writer);
    /* The journal row about a step of the clock was lost with the batch. */
    wallclock_look_again(&writer->clock.wallclock, &writer->clock.looked);
    writer->lost.is_writing = false;
    /* The verdicts of nodes were undone, but the state of agents was not. */
    writer->vouching.agents_unsure = true;
    size_t keeps = 0;
    for (size_t i = 0; i < count; i++)
        if (worth_keeping(writer, message[i]))
            message[keeps++] = message[i];
    keep_first(writer, message, keeps);
    writer->lost.retry_ms = writer_now_ms(writer) + RETRY_MS;
}

/*
 * Returns true for messages about the cluster, whose order matters. Binds and outcomes are handled
 * at once: binds are refused meanwhile, and an outcome concerns only its own reservation.
 */
static bool is_news(struct message *message)
{
    return message_bind_call(message) == NULL && message->kind != MESSAGE_OUTCOME;
}

size_t writer_put_behind(struct writer *writer, struct message **message, size_t count)
{
    must(writer->lost.n_kept > 0 && count <= BATCH_MAX);

    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_news(message[i])) {
            message[left++] = message[i];
            continue;
        }
        writer->lost.kept = xgrow(writer->lost.kept, writer->lost.n_kept,
                                  &writer->lost.kept_capacity, sizeof(void *));
        writer->lost.kept[writer->lost.n_kept++] = message[i];
        writer->lost.kept_bytes += message_bytes(message[i]);
    }
    return left;
}

size_t writer_take_kept(struct writer *writer, struct message **message)
{
    must(writer->lost.n_kept > 0);

    const size_t count = writer->lost.n_kept < BATCH_MAX ? writer->lost.n_kept : BATCH_MAX;

    memcpy(message, writer->lost.kept, count * sizeof *message);
    for (size_t i = 0; i < count; i++)
        writer->lost.kept_bytes -= message_bytes(message[i]);
    memmove(writer->lost.kept, writer->lost.kept + count,
            (writer->lost.n_kept - count) * sizeof *message);
    writer->lost.n_kept -= count;
    return count;
}
