/*
 * Handles a bind, from the call to the outcome of its Binding: reserve, send, confirm or release.
 * Called by writer.c for messages of the webhooks (BIND) and of the outbox (FETCHED, OUTCOME). The
 * version in a Binding is on disk, with the reservation, before the Binding is sent (docs/why/012).
 * Each call is either answered here or joins a bind in flight and gets its outcome. In order:
 * sending and undoing, evaluation, binds whose pod a GET had to fetch, outcomes.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/map.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/sign/keyring.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

#define BOUND_ALREADY "changed: the pod is bound to node %s already"

void writer_refuse_bind(struct bind_call *bind, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bind->reply.answer(bind->reply.to, text);
    bind->reply.to = NULL;
}

/* Binds a pod that requests 0, without a reservation. */
static void send_plain_binding(struct writer *writer, struct bind_call *bind, uint64_t version)
{
    const struct node *node = ledger_node(writer->ledger, text_of(bind->args.node));
    struct err err;

    must(node != NULL);
    const struct allocation_facts nothing = {.uid = bind->args.uid,
                                             .namespace = bind->args.namespace,
                                             .name = bind->args.pod,
                                             .node = node->name,
                                             .node_uid = node->uid,
                                             .origin = ORIGIN_ADOPTED};
    struct allocation *allocation = allocation_new(&nothing);
    const struct dispatch how = {version, bind->deadline_ms, SENDING_FIRST, NULL};
    const int rc = writer_queue_binding(writer, allocation, how, &err);
    must(rc == 0); /* without shares it cannot be too large */
    allocation_unref(allocation);
    inflight_join(inflight_begin(writer, bind->args.uid, node->name, bind->deadline_ms), bind);
}

/* Refuses a bind whose Binding cannot be encoded; releases the grant unless it was sent before. */
static bool binds_take_back(struct writer *writer, struct bind_call *bind,
                            enum outbox_sending sending, const struct err *err)
{
    must(err->code != ERR_NONE);

    const struct command command = {.kind = COMMAND_RELEASE,
                                    .at_ms = writer->wall_ms,
                                    .uid = bind->args.uid,
                                    .why = "annotation"};
    writer_refuse_bind(bind, "%s", err->text);
    return sending != SENDING_FIRST || writer_run(writer, &command);
}

/* Queues the Binding for after the COMMIT; the call waits for its outcome. */
static bool send_binding(struct writer *writer, struct bind_call *bind,
                         const struct allocation *allocation, const struct request *request,
                         enum outbox_sending sending)
{
    must(allocation->facts.state != STATE_RELEASED);

    const struct dispatch how = {allocation->facts.version, bind->deadline_ms, sending, request};
    struct err err;

    if (writer_queue_binding(writer, allocation, how, &err) < 0)
        return binds_take_back(writer, bind, sending, &err);
    inflight_join(
        inflight_begin(writer, allocation->facts.uid, allocation->facts.node, bind->deadline_ms),
        bind);
    return true;
}

bool writer_release_void(struct writer *writer, const struct pod_record *record)
{
    struct command command[RECONCILE_MAX];

    /* The outcome of a Binding in flight decides. */
    if (pod_record_is_bound(record) ||
        map_find(&writer->binds.inflight, text_of(pod_record_uid(record))) != NULL)
        return true;
    const size_t count = reconcile_unbound(writer->ledger, pod_record_uid(record), record->version,
                                           writer->wall_ms, command);
    return writer_run_all(writer, command, count);
}

/*
 * For a reservation that is void (writer_is_void()). If its place still fits the pod's present
 * request, the reservation continues under the new version and is sent; else it is released and the
 * pod is evaluated again. Returns true if the bind was answered or sent.
 */
static bool evaluate_again(struct writer *writer, struct bind_call *bind,
                           const struct pod_record *record, const struct request *request,
                           bool *whole)
{
    must(!pod_record_is_bound(record) && request_asks(request));

    const struct command command = {.kind = COMMAND_VERSION,
                                    .at_ms = writer->wall_ms,
                                    .uid = pod_record_uid(record),
                                    .node = bind->args.node,
                                    .request = request,
                                    .version = record->version};
    const struct change *change;
    enum verdict verdict;

    switch (batch_run(&writer->batch, &command, &verdict, &change, NULL)) {
    case BATCH_LOST:
        *whole = false;
        return true;
    case BATCH_CONTRADICTED:
        writer_refuse_bind(bind, "%s", safe_mode_why(writer->app));
        return true;
    case BATCH_DONE:
        break;
    }
    if (verdict == VERDICT_OK) {
        *whole = send_binding(writer, bind, change->after, request, SENDING_FIRST);
        return true;
    }
    *whole = writer_release_void(writer, record);
    return !*whole;
}

bool writer_is_void(const struct allocation *held, const struct pod_record *record)
{
    must(pod_record_uid(record)[0] != '\0');
    return held != NULL && held->facts.state == STATE_RESERVED && held->facts.version > 0 &&
           !pod_record_is_bound(record) && record->version > held->facts.version;
}

/*
 * Evaluates the request with the present ledger. filter may have used an older snapshot, so the
 * bind may be refused although filter offered the node.
 */
static bool binds_reserve(struct writer *writer, struct bind_call *bind,
                          const struct pod_record *record, const struct request *request)
{
    must(request_asks(request));

    const struct command command = {.kind = COMMAND_RESERVE,
                                    .at_ms = writer->wall_ms,
                                    .uid = pod_record_uid(record),
                                    .namespace = pod_record_namespace(record),
                                    .name = pod_record_name(record),
                                    .node = bind->args.node,
                                    .request = request,
                                    .version = record->version,
                                    .created_ms = record->created_ms};
    const struct change *change;
    struct change answer;
    enum verdict verdict;
    struct refusal refusal;
    bool whole = true;

    if (writer_is_void(ledger_find(writer->ledger, text_of(pod_record_uid(record))), record) &&
        evaluate_again(writer, bind, record, request, &whole))
        return whole;
    switch (batch_run(&writer->batch, &command, &verdict, &change, &answer)) {
    case BATCH_LOST:
        return false;
    case BATCH_CONTRADICTED:
        writer_refuse_bind(bind, "%s", safe_mode_why(writer->app));
        return true;
    case BATCH_DONE:
        break;
    }
    switch (verdict) {
    case VERDICT_OK:
        return send_binding(writer, bind, change->after, request, SENDING_FIRST);
    /* An earlier bind holds the reservation, with an unknown outcome: send the same bytes again. */
    case VERDICT_SAME:
        return send_binding(writer, bind, answer.held, request, SENDING_AGAIN);
    case VERDICT_ELSEWHERE:
        app_count_refusal(REASON_ELSEWHERE);
        writer_refuse_bind(bind, "elsewhere: the pod holds a reservation on node %s",
                           answer.held->facts.node->text);
        return true;
    case VERDICT_REFUSED:
        app_count_refusal(answer.reason);
        policy_refuse(ledger_policy_context(writer->ledger),
                      (struct cause){answer.reason, answer.rule}, request, &refusal);
        writer_refuse_bind(bind, "%s: %s", reason_name(answer.reason), refusal.text);
        return true;
    case VERDICT_UNKNOWN:
        break;
    }
    must_not_reach("reserve is never answered unknown");
}

/*
 * Handles binds that need no placement. Returns true if the bind was answered or waits for a
 * Binding in flight. The order matters: the pod's state (a bind in flight, a node) is checked
 * before its request, so that a repeated bind gets the outcome of the first.
 */
static bool bind_without_placing(struct writer *writer, struct bind_call *bind,
                                 const struct pod_record *record)
{
    must(strcmp(pod_record_uid(record), bind->args.uid) == 0);

    const struct extender_bind *args = &bind->args;
    const struct allocation *held = ledger_find(writer->ledger, text_of(args->uid));
    struct inflight_bind *bind_inflight = map_find(&writer->binds.inflight, text_of(args->uid));

    /* Comes first, because the pod cache has no name for such a pod. */
    if (record->verdict == REQUEST_NOT_OURS) {
        writer_refuse_bind(bind, "not_ours: the pod does not name %s",
                           writer->app->settings->resource);
    } else if (strcmp(pod_record_namespace(record), args->namespace) != 0 ||
               strcmp(pod_record_name(record), args->pod) != 0) {
        writer_refuse_bind(bind, "unknown_pod: uid %s is not the uid of %s/%s", args->uid,
                           args->namespace, args->pod);
    } else if (bind_inflight != NULL && strcmp(bind_inflight->node->text, args->node) != 0) {
        writer_refuse_bind(bind, "elsewhere: the pod is being bound to node %s",
                           bind_inflight->node->text);
    } else if (bind_inflight != NULL) {
        inflight_join(bind_inflight, bind);
    } else if (held != NULL && held->facts.listed_unbound) {
        writer_refuse_bind(bind, LISTED_UNBOUND, held->facts.node->text);
    } else if (pod_record_is_bound(record) && strcmp(pod_record_node(record), args->node) != 0) {
        writer_refuse_bind(bind, BOUND_ALREADY, pod_record_node(record));
    } else if ((held != NULL && held->facts.state == STATE_BOUND &&
                text_is(atom_text(held->facts.node), args->node)) ||
               (held == NULL && pod_record_is_bound(record))) {
        bind->reply.answer(bind->reply.to, NULL); /* confirmed by the API server */
        bind->reply.to = NULL;
    } else if (record->verdict == REQUEST_REFUSED) {
        writer_refuse_bind(bind, "%s", pod_record_refusal(record));
    } else if (ledger_node(writer->ledger, text_of(args->node)) == NULL) {
        app_count_refusal(REASON_UNKNOWN_NODE);
        writer_refuse_bind(bind, "unknown_node: there is no node %s", args->node);
    } else if (record->version == 0) {
        writer_refuse_bind(bind,
                           "not ready: the pod's resourceVersion is no number to judge it by");
    } else {
        return false;
    }
    return true;
}

/* Refuses a bind for which the GET has found no pod. */
static void refuse_unknown(struct bind_call *bind, const struct fetched_pod *fetched)
{
    const struct extender_bind *args = &bind->args;

    if (!fetched->found && fetched->reason == REASON_NONE)
        writer_refuse_bind(bind, "not ready: the API server could not be asked for pod %s/%s: %s",
                           args->namespace, args->pod, fetched->text);
    else
        writer_refuse_bind(
            bind, "unknown_pod: %s/%s with uid %s: %s", args->namespace, args->pod, args->uid,
            fetched->found ? "it has ended, or another uid has its name" : fetched->text);
}

/* For a record without its request: returns true if the GET shows the record's version. */
static bool has_request_of(const struct fetched_pod *fetched, const struct pod_record *record)
{
    must(pod_record_asks(record) && pod_record_request(record) == NULL);
    return fetched->found && strcmp(fetched->pod.uid, pod_record_uid(record)) == 0 &&
           version_number(fetched->pod.resource_version) == record->version;
}

/*
 * Reserves by the request in the GET, for a pod whose request did not fit into the pod cache
 * (docs/why/014). Request and record must have the same version, which the Binding names.
 */
static bool reserve_as_fetched(struct writer *writer, struct bind_call *bind,
                               const struct fetched_pod *fetched, const struct pod_record *record,
                               struct arena *arena)
{
    if (has_request_of(fetched, record))
        return binds_reserve(writer, bind, record,
                             writer_request_of(writer, &fetched->pod, record, arena));
    if (!fetched->found && fetched->reason == REASON_NONE)
        refuse_unknown(bind, fetched);
    else
        writer_refuse_bind(bind, "changed: the pod was written to meanwhile");
    return true;
}

/* Returns true if the node's agent would reject any allocation: the first key is not published. */
static bool lacks_key(const struct writer *writer, const char *node_name)
{
    const struct node *node = ledger_node(writer->ledger, text_of(node_name));

    must(node != NULL);
    return node->agent && writer->app->keyring != NULL && !keyring_may_sign(writer->app->keyring);
}

/* fetched: result of a GET; NULL if there was none yet. */
static bool bind_pod(struct writer *writer, struct bind_call *bind,
                     const struct fetched_pod *fetched, struct arena *arena)
{
    const char *why;

    if (!app_ready(writer->app, &why)) {
        writer_refuse_bind(bind, "not ready: %s", why);
        return true;
    }
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, bind->args.uid);
    /*
     * No record: kube-scheduler's watch may be ahead of ours. No request: the pod cache had no
     * room. Either way the pod is fetched by one GET, whose result comes back as a message.
     */
    const bool forgotten =
        record == NULL || (pod_record_asks(record) && pod_record_request(record) == NULL);
    if (forgotten && fetched == NULL) {
        outbox_fetch(writer->app->outbox, bind);
        return true;
    }
    if (record == NULL) {
        refuse_unknown(bind, fetched);
        return true;
    }
    if (bind_without_placing(writer, bind, record))
        return true;
    /* Before the reservation, which would hold room without being sent. */
    if (outbox_bytes(writer->app->outbox) >= OUTBOX_BYTES_MAX) {
        writer_refuse_bind(bind, "not ready: too many Bindings wait to be sent");
        return true;
    }
    if (record->verdict == REQUEST_OK && lacks_key(writer, bind->args.node)) {
        writer_refuse_bind(
            bind, "not ready: the node has an agent, and the key that signs allocations is "
                  "not published yet (milligpuctl doctor)");
        return true;
    }
    if (record->verdict == REQUEST_ZERO) {
        send_plain_binding(writer, bind, record->version);
        return true;
    }
    return forgotten ? reserve_as_fetched(writer, bind, fetched, record, arena)
                     : binds_reserve(writer, bind, record, pod_record_request(record));
}

bool writer_handle_bind(struct writer *writer, struct bind_call *bind, struct arena *arena)
{
    return bind_pod(writer, bind, NULL, arena);
}

void writer_note_version(struct writer *writer, const struct pod *pod)
{
    const uint64_t version = version_number(pod->resource_version);

    must(pod->uid[0] != '\0');
    if (version <= VERSION_MAX && version > writer->pod_list.last_seen_version)
        writer->pod_list.last_seen_version = version;
}

/*
 * Returns true if the result of the GET must be stored: the watch has not shown the pod yet, or its
 * request did not fit into the pod cache.
 */
static bool is_yet_to_come(const struct writer *writer, const struct pod *fetched)
{
    const uint64_t version = version_number(fetched->resource_version);
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, fetched->uid);

    must(fetched->uid[0] != '\0');
    if (record != NULL)
        return pod_record_asks(record) && pod_record_request(record) == NULL;
    return version == 0 || version > writer->pod_list.last_seen_version;
}

/* Puts the pod into the pod cache, which bind_pod() reads. */
bool writer_handle_fetched(struct writer *writer, struct fetched_pod *fetched, struct arena *arena)
{
    must(fetched->bind.reply.to != NULL);

    if (fetched->found && strcmp(fetched->pod.uid, fetched->bind.args.uid) == 0 &&
        !pod_ended(&fetched->pod) && is_yet_to_come(writer, &fetched->pod))
        (void)pod_cache_put_fetched(writer->app->pod_cache, &fetched->pod,
                                    &writer->app->rules.request_rules);
    return bind_pod(writer, &fetched->bind, fetched, arena);
}

/* Rebuilds a waiting call of this bind. */
static struct bind_call bind_again(const struct inflight_bind *bind_inflight, size_t at,
                                   const struct pod *pod)
{
    must(at < bind_inflight->n_replies && strcmp(bind_inflight->uid, pod->uid) == 0);
    return (struct bind_call){.args = {.uid = pod->uid,
                                       .namespace = pod->namespace,
                                       .pod = pod->name,
                                       .node = bind_inflight->node->text},
                              .deadline_ms = bind_inflight->deadline_ms,
                              .reply = bind_inflight->reply[at]};
}

/* Returns false if the batch is lost; the call has been answered then. */
static bool try_again(struct writer *writer, struct bind_call *bind)
{
    struct arena arena;
    bool whole = true;

    arena_init(&arena);
    if (writer->batch.lost)
        whole = false;
    else if (writer_now_ms(writer) >= bind->deadline_ms)
        writer_refuse_bind(bind, "changed: the pod was written to again and again meanwhile");
    else
        whole = writer_handle_bind(writer, bind, &arena);
    if (bind->reply.to != NULL)
        writer_refuse_bind(bind, "the ledger cannot be written: %.400s", writer->batch.err.text);
    arena_done(&arena);
    return whole;
}

/*
 * For a pod that is unbound in a later version than the Binding named, so that no Binding can take
 * effect. Evaluates waiting calls again with the pod's present request; without any, the
 * reservation is void.
 */
static bool handle_moved(struct writer *writer, const struct binding_outcome *outcome)
{
    struct inflight_bind *bind_inflight = map_take(&writer->binds.inflight, text_of(outcome->uid));
    bool whole = true;

    must(outcome->result == OUTCOME_MOVED && outcome->pod.node[0] == '\0');
    /* Not stored if the watch has already shown that the pod is gone. */
    if (!pod_ended(&outcome->pod) && pod_cache_find(writer->app->pod_cache, outcome->uid) != NULL)
        (void)pod_cache_put_fetched(writer->app->pod_cache, &outcome->pod,
                                    &writer->app->rules.request_rules);
    for (size_t i = 0; bind_inflight != NULL && i < bind_inflight->n_replies; i++) {
        struct bind_call bind = bind_again(bind_inflight, i, &outcome->pod);
        whole = try_again(writer, &bind) && whole;
    }
    if (bind_inflight != NULL)
        inflight_free(bind_inflight);
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, outcome->uid);
    return whole && (record == NULL || writer_release_void(writer, record));
}

/*
 * Writes a text with the version that was sent. kube-scheduler writes a text that differs from the
 * previous one into the pod's condition, which gives the pod a new version: the evidence needed.
 */
static void say_doubt(const struct binding_outcome *outcome, char *out, size_t bytes)
{
    must(outcome->result == OUTCOME_UNKNOWN);
    if (outcome->version == 0)
        (void)snprintf(out, bytes, "in doubt: %s; the pod keeps its reservation", outcome->text);
    else
        (void)snprintf(out, bytes,
                       "in doubt: the Binding of version %llu: %.400s; the pod keeps its "
                       "reservation",
                       (unsigned long long)outcome->version, outcome->text);
}

/* For a pod that the watch has shown bound meanwhile, by this Binding or another one. */
static void shown_meanwhile(struct writer *writer, const struct allocation *held,
                            const struct inflight_bind *bind_inflight)
{
    const char *node = held->facts.node->text;
    char text[ERR_TEXT_MAX];

    must(held->facts.state == STATE_BOUND);
    (void)snprintf(text, sizeof text, BOUND_ALREADY, node);
    const bool there = bind_inflight == NULL || strcmp(bind_inflight->node->text, node) == 0;
    replies_add(writer, held->facts.uid, there ? NULL : text);
}

bool writer_handle_outcome(struct writer *writer, const struct binding_outcome *outcome)
{
    must(outcome->uid != NULL);
    must(outcome->result == OUTCOME_BOUND || outcome->text != NULL);

    const struct allocation *held = ledger_find(writer->ledger, text_of(outcome->uid));
    const struct inflight_bind *bind_inflight =
        map_find(&writer->binds.inflight, text_of(outcome->uid));
    const bool asked = bind_inflight != NULL && bind_inflight->is_query;
    struct command command = {.at_ms = writer->wall_ms, .uid = outcome->uid};
    char text[ERR_TEXT_MAX];

    /* MOVED may reserve again; all other outcomes end the bind. */
    if (outcome->result == OUTCOME_MOVED)
        return handle_moved(writer, outcome);
    switch (outcome->result) {
    case OUTCOME_BOUND:
        command.kind = COMMAND_CONFIRM;
        replies_add(writer, outcome->uid, NULL);
        break;
    /* The journal distinguishes a refused Binding from a GET about an old doubt. */
    case OUTCOME_VOID:
        command.kind = COMMAND_RELEASE;
        command.why = asked ? "unconfirmed" : reason_name(outcome->reason);
        (void)snprintf(text, sizeof text, "%s: %s", reason_name(outcome->reason), outcome->text);
        replies_add(writer, outcome->uid, text);
        break;
    case OUTCOME_UNKNOWN:
        if (held != NULL && held->facts.state == STATE_BOUND) {
            shown_meanwhile(writer, held, bind_inflight);
            return true;
        }
        command.kind = COMMAND_DOUBT;
        say_doubt(outcome, text, sizeof text);
        replies_add(writer, outcome->uid, text);
        break;
    case OUTCOME_MOVED:
        must_not_reach("it was handled");
    }
    if (held == NULL || held->facts.state != STATE_RESERVED)
        return true; /* the watch was first, or the pod requested 0 */
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, outcome->uid);
    if (outcome->result == OUTCOME_UNKNOWN && record != NULL && writer_is_void(held, record)) {
        command.kind = COMMAND_RELEASE; /* by evidence that the watch has shown */
        command.why = "unbound";
    }
    return writer_run(writer, &command);
}
