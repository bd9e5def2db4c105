#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/hints.h"
#include "milligpu/map.h"
#include "milligpu/message.h"
#include "milligpu/outbox.h"
#include "milligpu/pod_cache.h"
#include "milligpu/reconcile.h"
#include "milligpu/writer.h"

#include "writer/writer_internal.h"

/*
 * Binds, from the request to the outcome of its Binding: reserve, send, confirm or release.  Called
 * by writer.c for messages of the webhooks (BIND) and the outbox (FETCHED, OUTCOME).  A reservation
 * is on disk, with the version that its Binding names, before that Binding is sent.
 */

void writer_refuse_bind(struct message *message, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    must(message->reply.to != NULL);
    message->reply.answer(message->reply.to, text);
    message->reply.to = NULL;
}

/* A pod that asks for 0: bound, with nothing to write down. */
static void send_plain_binding(struct writer *writer, struct message *message, uint64_t version)
{
    const struct node *node = ledger_node(writer->ledger, text_of(message->bind.node));
    struct err err;

    must(node != NULL);
    const struct allocation_facts nothing = {.uid = message->bind.uid,
                                             .namespace = message->bind.namespace,
                                             .name = message->bind.pod,
                                             .node = node->name,
                                             .node_uid = node->uid,
                                             .origin = ORIGIN_OBSERVED};
    struct allocation *allocation = allocation_new(&nothing);
    const struct dispatch how = {version, message->deadline_ms, SENDING_FIRST};
    const int rc = writer_queue_binding(writer, allocation, how, &err);
    must(rc == 0); /* nothing in it can be too much */
    allocation_unref(allocation);
    inflight_join(inflight_begin(writer, message->bind.uid, node->name, message->deadline_ms),
                  message);
}

/* Undo a grant whose Binding cannot be written; not one that was sent before. */
static bool binds_take_back(struct writer *writer, struct message *message,
                            enum outbox_sending sending, const struct err *err)
{
    must(err->code != ERR_NONE);

    const struct command command = {.kind = COMMAND_RELEASE,
                                    .at_ms = writer->wall_ms,
                                    .uid = message->bind.uid,
                                    .why = "annotation"};
    writer_refuse_bind(message, "%s", err->text);
    return sending != SENDING_FIRST || writer_run(writer, &command);
}

static bool send_binding(struct writer *writer, struct message *message,
                         const struct allocation *allocation, enum outbox_sending sending)
{
    must(allocation->is.state != STATE_RELEASED);

    const struct dispatch how = {allocation->is.version, message->deadline_ms, sending};
    struct err err;

    if (writer_queue_binding(writer, allocation, how, &err) < 0)
        return binds_take_back(writer, message, sending, &err);
    inflight_join(
        inflight_begin(writer, allocation->is.uid, allocation->is.node, message->deadline_ms),
        message);
    return true;
}

bool writer_release_void(struct writer *writer, const struct pod_record *record)
{
    must(record != NULL);

    struct command command[RECONCILE_MAX];

    if (record->node[0] != '\0' || map_find(&writer->inflight, text_of(record->uid)) != NULL)
        return true;
    const size_t count =
        reconcile_unbound(writer->ledger, record->uid, record->version, writer->wall_ms, command);
    return writer_run_all(writer, command, count);
}

/*
 * The pod of this reservation was seen unbound in a later version than any Binding of it names.
 * The same place for what it asks now, in its new version; else it is void, and judged anew.
 * True if the bind was answered, or is on its way again.
 */
static bool judged_again(struct writer *writer, struct message *message,
                         const struct pod_record *record, const struct request *request,
                         bool *whole)
{
    must(record->node[0] == '\0' && request_asks(request));

    const struct command command = {.kind = COMMAND_VERSION,
                                    .at_ms = writer->wall_ms,
                                    .uid = record->uid,
                                    .node = message->bind.node,
                                    .request = request,
                                    .version = record->version};
    const struct change *change;
    enum verdict verdict;

    switch (batch_run(&writer->batch, &command, &verdict, &change, NULL)) {
    case BATCH_LOST:
        *whole = false;
        return true;
    case BATCH_CONTRADICTED:
        writer_refuse_bind(message, "%s", safe_mode_why(writer->app));
        return true;
    case BATCH_DONE:
        break;
    }
    if (verdict == VERDICT_OK) {
        *whole = send_binding(writer, message, change->after, SENDING_FIRST);
        return true;
    }
    *whole = writer_release_void(writer, record);
    return !*whole;
}

bool writer_is_void(const struct allocation *held, const struct pod_record *record)
{
    must(record->uid != NULL);
    return held != NULL && held->is.state == STATE_RESERVED && held->is.version > 0 &&
           record->node[0] == '\0' && record->version > held->is.version;
}

static bool binds_reserve(struct writer *writer, struct message *message,
                          const struct pod_record *record, const struct request *request)
{
    must(request_asks(request));
    must(message->reply.to != NULL);

    const struct command command = {.kind = COMMAND_RESERVE,
                                    .at_ms = writer->wall_ms,
                                    .uid = record->uid,
                                    .namespace = record->namespace,
                                    .name = record->name,
                                    .node = message->bind.node,
                                    .request = request,
                                    .version = record->version};
    const struct change *change;
    struct change answer;
    enum verdict verdict;
    struct refusal refusal;
    bool whole = true;

    if (writer_is_void(ledger_find(writer->ledger, text_of(record->uid)), record) &&
        judged_again(writer, message, record, request, &whole))
        return whole;
    switch (batch_run(&writer->batch, &command, &verdict, &change, &answer)) {
    case BATCH_LOST:
        return false;
    case BATCH_CONTRADICTED:
        writer_refuse_bind(message, "%s", safe_mode_why(writer->app));
        return true;
    case BATCH_DONE:
        break;
    }
    switch (verdict) {
    case VERDICT_OK:
        return send_binding(writer, message, change->after, SENDING_FIRST);
    case VERDICT_SAME:
        return send_binding(writer, message, answer.held, SENDING_AGAIN);
    case VERDICT_ELSEWHERE:
        app_count_refusal(REASON_ELSEWHERE);
        writer_refuse_bind(message, "elsewhere: the pod holds a reservation on node %s",
                           answer.held->is.node->text);
        return true;
    case VERDICT_REFUSED:
        app_count_refusal(answer.reason);
        request_refuse(request, answer.reason, &refusal);
        writer_refuse_bind(message, "%s: %s", reason_name(answer.reason), refusal.text);
        return true;
    case VERDICT_UNKNOWN:
        break;
    }
    must_not_reach("reserve is never answered unknown");
}

/* Everything that can be said without asking the ledger for room. True if the bind was
   answered. */
static bool bind_without_placing(struct writer *writer, struct message *message,
                                 const struct pod_record *record)
{
    must(strcmp(record->uid, message->bind.uid) == 0);
    must(message->reply.to != NULL);

    const struct extender_bind *bind = &message->bind;
    const struct allocation *held = ledger_find(writer->ledger, text_of(bind->uid));
    struct inflight_bind *bind_inflight = map_find(&writer->inflight, text_of(bind->uid));

    /* Of such a pod the table knows no name. */
    if (record->verdict == REQUEST_NOT_OURS) {
        writer_refuse_bind(message, "not_ours: the pod does not name %s",
                           writer->app->settings->resource);
    } else if (strcmp(record->namespace, bind->namespace) != 0 ||
               strcmp(record->name, bind->pod) != 0) {
        writer_refuse_bind(message, "unknown_pod: uid %s is not the uid of %s/%s", bind->uid,
                           bind->namespace, bind->pod);
    } else if (bind_inflight != NULL && strcmp(bind_inflight->node->text, bind->node) != 0) {
        writer_refuse_bind(message, "elsewhere: the pod is being bound to node %s",
                           bind_inflight->node->text);
    } else if (bind_inflight != NULL) {
        inflight_join(bind_inflight, message);
    } else if (record->node[0] != '\0' && strcmp(record->node, bind->node) != 0) {
        writer_refuse_bind(message, "changed: the pod is bound to node %s already", record->node);
    } else if ((held != NULL && held->is.state == STATE_BOUND &&
                text_is(atom_text(held->is.node), bind->node)) ||
               (held == NULL && record->node[0] != '\0')) {
        message->reply.answer(message->reply.to, NULL); /* the API server has said so */
        message->reply.to = NULL;
    } else if (record->verdict == REQUEST_REFUSED) {
        writer_refuse_bind(message, "%s", record->refusal);
    } else if (ledger_node(writer->ledger, text_of(bind->node)) == NULL) {
        app_count_refusal(REASON_UNKNOWN_NODE);
        writer_refuse_bind(message, "unknown_node: there is no node %s", bind->node);
    } else if (record->version == 0) {
        writer_refuse_bind(message,
                           "not ready: the pod's resourceVersion is no number to judge it by");
    } else {
        return false;
    }
    return true;
}

/* A GET has been made, and there is no pod to bind. */
static void refuse_unknown(struct message *fetched)
{
    const struct extender_bind *bind = &fetched->bind;

    must(fetched->kind == MESSAGE_FETCHED);
    if (!fetched->found && fetched->reason == REASON_NONE)
        writer_refuse_bind(fetched,
                           "not ready: the API server could not be asked for pod %s/%s: %s",
                           bind->namespace, bind->pod, fetched->text);
    else
        writer_refuse_bind(
            fetched, "unknown_pod: %s/%s with uid %s: %s", bind->namespace, bind->pod, bind->uid,
            fetched->found ? "it has ended, or another uid has its name" : fetched->text);
}

/* The table had no room for what the pod asks: is this the pod of just that version? */
static bool tells_request(const struct message *bind, const struct pod_record *record)
{
    must(pod_record_asks(record) && record->request == NULL);
    return bind->kind == MESSAGE_FETCHED && bind->found &&
           strcmp(bind->pod.uid, record->uid) == 0 &&
           version_number(bind->pod.resource_version) == record->version;
}

static bool reserve_as_told(struct writer *writer, struct message *bind,
                            const struct pod_record *record)
{
    must(bind->kind == MESSAGE_FETCHED);
    if (tells_request(bind, record))
        return binds_reserve(writer, bind, record,
                             writer_request_of(writer, &bind->pod, record, &bind->arena));
    if (!bind->found && bind->reason == REASON_NONE)
        refuse_unknown(bind);
    else
        writer_refuse_bind(bind, "changed: the pod was written to meanwhile");
    return true;
}

bool writer_handle_bind(struct writer *writer, struct message **message)
{
    must((*message)->kind == MESSAGE_BIND || (*message)->kind == MESSAGE_FETCHED);
    must((*message)->reply.to != NULL);

    struct message *bind = *message;
    const char *why;

    if (!app_ready(writer->app, &why)) {
        writer_refuse_bind(bind, "not ready: %s", why);
        return true;
    }
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, bind->bind.uid);
    const bool forgotten = record == NULL || (pod_record_asks(record) && record->request == NULL);
    if (forgotten && bind->kind == MESSAGE_BIND) {
        *message = NULL;
        outbox_fetch(writer->app->outbox, bind);
        return true;
    }
    if (record == NULL) {
        refuse_unknown(bind);
        return true;
    }
    if (bind_without_placing(writer, bind, record))
        return true;
    if (outbox_bytes(writer->app->outbox) >= OUTBOX_BYTES_MAX) {
        writer_refuse_bind(bind, "not ready: too many Bindings wait to be sent");
        return true;
    }
    if (record->verdict == REQUEST_ZERO) {
        send_plain_binding(writer, bind, record->version);
        return true;
    }
    return forgotten ? reserve_as_told(writer, bind, record)
                     : binds_reserve(writer, bind, record, record->request);
}

void writer_hear_version(struct writer *writer, const struct pod *pod)
{
    const uint64_t version = version_number(pod->resource_version);

    must(pod->uid[0] != '\0');
    if (version <= VERSION_MAX && version > writer->heard)
        writer->heard = version;
}

/*
 * The watch has not told of it yet, and will.  Whom it has told of is judged by what it told, but
 * for one of whom the table had no room for what it asks.
 */
static bool is_yet_to_come(const struct writer *writer, const struct pod *fetched)
{
    const uint64_t version = version_number(fetched->resource_version);
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, fetched->uid);

    must(fetched->uid[0] != '\0');
    if (record != NULL)
        return pod_record_asks(record) && record->request == NULL;
    return version == 0 || version > writer->heard;
}

bool writer_handle_fetched(struct writer *writer, struct message **message)
{
    must((*message)->kind == MESSAGE_FETCHED);
    must((*message)->reply.to != NULL);

    const struct message *fetched = *message;

    if (fetched->found && strcmp(fetched->pod.uid, fetched->bind.uid) == 0 &&
        !pod_ended(&fetched->pod) && is_yet_to_come(writer, &fetched->pod))
        (void)pod_cache_put_fetched(writer->app->pod_cache, &fetched->pod,
                                    &writer->app->request_rules);
    return writer_handle_bind(writer, message);
}

/* Another HTTP call that waits for this bind asks once more, as it did. */
static struct message *bind_again(const struct inflight_bind *bind_inflight, size_t at,
                                  const struct pod *pod)
{
    struct message *bind = message_new(MESSAGE_BIND);

    must(at < bind_inflight->replies && strcmp(bind_inflight->uid, pod->uid) == 0);
    bind->bind.uid = arena_copy(&bind->arena, text_of(pod->uid));
    bind->bind.namespace = arena_copy(&bind->arena, text_of(pod->namespace));
    bind->bind.pod = arena_copy(&bind->arena, text_of(pod->name));
    bind->bind.node = arena_copy(&bind->arena, atom_text(bind_inflight->node));
    bind->deadline_ms = bind_inflight->deadline_ms;
    bind->reply = bind_inflight->reply[at];
    return bind;
}

/* False if the batch is lost; the call is answered then. */
static bool try_again(struct writer *writer, struct message *take_bind)
{
    bool whole = true;

    must(take_bind->kind == MESSAGE_BIND && take_bind->reply.to != NULL);
    if (writer->batch.lost)
        whole = false;
    else if (writer_now_ms(writer) >= take_bind->deadline_ms)
        writer_refuse_bind(take_bind, "changed: the pod was written to again and again meanwhile");
    else
        whole = writer_handle_bind(writer, &take_bind);
    if (take_bind != NULL && take_bind->reply.to != NULL)
        writer_refuse_bind(take_bind, "the ledger cannot be written: %.400s",
                           writer->batch.err.text);
    if (take_bind != NULL)
        message_free(take_bind);
    return whole;
}

/*
 * The pod is unbound in a later version than the Binding named: nothing that was sent can land.
 * Who waits is judged again by what the pod asks now; if nobody does, the reservation is void.
 */
static bool handle_moved(struct writer *writer, const struct message *message)
{
    struct inflight_bind *bind_inflight = map_take(&writer->inflight, text_of(message->uid));
    bool whole = true;

    must(message->outcome == OUTCOME_MOVED && message->pod.node[0] == '\0');
    /* Whom the watch has shown to be gone the GET does not bring back. */
    if (!pod_ended(&message->pod) && pod_cache_find(writer->app->pod_cache, message->uid) != NULL)
        (void)pod_cache_put_fetched(writer->app->pod_cache, &message->pod,
                                    &writer->app->request_rules);
    for (size_t i = 0; bind_inflight != NULL && i < bind_inflight->replies; i++)
        whole = try_again(writer, bind_again(bind_inflight, i, &message->pod)) && whole;
    if (bind_inflight != NULL)
        inflight_free(bind_inflight);
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, message->uid);
    return whole && (record == NULL || writer_release_void(writer, record));
}

/*
 * It names the version that was sent: kube-scheduler writes the text into the pod's condition, if
 * it is another one than before, and by that write the pod moves on: evidence comes by itself.
 */
static void say_doubt(const struct message *message, char *out, size_t bytes)
{
    must(message->outcome == OUTCOME_UNKNOWN);
    if (message->version == 0)
        (void)snprintf(out, bytes, "in doubt: %s; the pod keeps its reservation", message->text);
    else
        (void)snprintf(out, bytes,
                       "in doubt: the Binding of version %llu: %.400s; the pod keeps its "
                       "reservation",
                       (unsigned long long)message->version, message->text);
}

bool writer_handle_outcome(struct writer *writer, const struct message *message)
{
    must(message->uid != NULL);
    must(message->outcome == OUTCOME_BOUND || message->text != NULL);

    const struct allocation *held = ledger_find(writer->ledger, text_of(message->uid));
    const struct inflight_bind *bind_inflight = map_find(&writer->inflight, text_of(message->uid));
    const bool asked = bind_inflight != NULL && bind_inflight->asks;
    struct command command = {.at_ms = writer->wall_ms, .uid = message->uid};
    char text[ERR_TEXT_MAX];

    if (message->outcome == OUTCOME_MOVED)
        return handle_moved(writer, message);
    switch (message->outcome) {
    case OUTCOME_BOUND:
        command.kind = COMMAND_CONFIRM;
        hints_resolved(writer->app->hints, text_of(message->uid));
        replies_add(writer, message->uid, NULL);
        break;
    case OUTCOME_VOID:
        command.kind = COMMAND_RELEASE;
        command.why = asked ? "unconfirmed" : reason_name(message->reason);
        (void)snprintf(text, sizeof text, "%s: %s", reason_name(message->reason), message->text);
        replies_add(writer, message->uid, text);
        break;
    case OUTCOME_UNKNOWN:
        if (held != NULL && held->is.state == STATE_BOUND) {
            replies_add(writer, message->uid, NULL); /* the watch has shown it meanwhile */
            return true;
        }
        command.kind = COMMAND_DOUBT;
        say_doubt(message, text, sizeof text);
        replies_add(writer, message->uid, text);
        break;
    case OUTCOME_MOVED:
        must_not_reach("it was handled");
    }
    if (held == NULL || held->is.state != STATE_RESERVED)
        return true; /* the watch was quicker, or there was nothing to reserve */
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, message->uid);
    if (message->outcome == OUTCOME_UNKNOWN && record != NULL && writer_is_void(held, record)) {
        command.kind = COMMAND_RELEASE; /* and the watch has shown that, too */
        command.why = "unbound";
    }
    return writer_run(writer, &command);
}
