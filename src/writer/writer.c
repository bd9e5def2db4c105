#include "milligpu/writer.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "milligpu/alloc.h"
#include "milligpu/hints.h"
#include "milligpu/log.h"
#include "milligpu/map.h"
#include "milligpu/message.h"
#include "milligpu/metric.h"
#include "milligpu/outbox.h"
#include "milligpu/pod_cache.h"
#include "milligpu/quantity.h"
#include "milligpu/reconcile.h"
#include "milligpu/verifier.h"
#include "milligpu/webhooks.h"

#include "writer/batch.h"
#include "writer/drift_watch.h"
#include "writer/wallclock.h"

enum {
    DOUBT_ASK_MS = 30000, /* pause between two GETs about a doubt that nothing else tells of */
    DOUBT_OLD_MS = 90000, /* of a reservation without a version: the API server gives up on a
                               request after 60 s */
    ASK_MS = 10000,       /* for the GET */
    RETRY_MS = 250,       /* between two tries of a lost batch */
    KEEP_MAX = 2048, /* of the cluster's news while the disk is broken; the informer waits then */
    TICK_MS = 1000,
    CLOCK_STEP_MS = 1000, /* the wall clock may jitter by so much */
};

/* A Binding on its way, and who waits for its outcome. */
struct inflight_bind {
    char *uid;
    const struct atom *node;
    struct bind_reply *reply;
    size_t replies;
    size_t capacity;
    int64_t deadline_ms; /* of the bind that began it */
    bool asks;           /* nothing is sent: the API server is asked about an old doubt */
};

/* The outcome of a Binding, to be answered after the batch. */
struct pending_reply {
    char *uid;
    char *error; /* NULL: bound */
};

/* A reservation that nobody is sending: since when. */
struct doubt {
    char *uid;
    int64_t since_ms;
    uint64_t mark;
};

/* What happens once the batch is on disk. */
struct post_commit_action {
    enum { ACTION_BIND, ACTION_ADVERTISE } kind;
    char *uid; /* BIND; the node's name for ADVERTISE */
    char *namespace;
    char *name;
    char *node;
    struct strbuf body;
    uint64_t version;
    int64_t deadline_ms;
    enum outbox_sending sending;
    uint32_t milli;
};

struct writer {
    struct app *app;
    struct ledger *ledger;
    struct batch batch;
    struct drift_watch *drift;
    struct map inflight;
    struct map doubts;
    struct post_commit_action *action;
    size_t actions;
    size_t action_capacity;
    struct pending_reply *reply;
    size_t replies;
    size_t reply_capacity;
    struct message **kept; /* of a lost batch, to be tried again; and what a batch left over */
    size_t keeps;
    size_t keep_capacity;
    size_t keep_bytes;
    int64_t retry_ms;
    bool writes;       /* something was written since the last batch that was lost */
    struct arena list; /* what is kept of a list until its end: copies, since a listed object
                                as it came is ten times as large */
    const struct pod **listed;
    size_t lists;
    size_t list_capacity;
    bool listing;
    int64_t listed_ms;   /* when that list was asked for */
    uint64_t epoch;      /* of pod lists */
    uint64_t heard;      /* the version of a pod up to which the watch has told everything */
    uint64_t node_epoch; /* of node lists */
    struct map nodes_seen;
    struct map ages;  /* while the ledger is new: node name to its creationTimestamp */
    bool pods_ended;  /* this batch ends a list */
    bool after_grace; /* which began after a new ledger's wait */
    int64_t start_ms;
    bool granted_before; /* a pod has an annotation of ours */
    bool may_own;        /* the ledger: nothing is waited for any more */
    int64_t claim_ms;    /* not before then, since it failed */
    bool nodes_ended;
    bool was_ready;
    int64_t tick_ms;
    int64_t wall_ms;
    struct wallclock wallclock;
    struct wallclock looked; /* as it was before this batch */
    bool watches_clock;      /* since the first batch */
    uint64_t mark;
    uint32_t audit_place;
};

struct writer *writer_new(struct app *app)
{
    struct writer *writer = xcalloc(1, sizeof *writer);

    must(app->queue != NULL && app->view != NULL && app->outbox != NULL);
    writer->app = app;
    writer->ledger = ledger_new();
    batch_init(&writer->batch, app, writer->ledger);
    arena_init(&writer->list);
    writer->drift = drift_watch_new(app);
    map_init(&writer->inflight);
    map_init(&writer->doubts);
    map_init(&writer->nodes_seen);
    map_init(&writer->ages);
    writer->wall_ms = app->clock.wall_ms(app->clock.ctx);
    writer->epoch = 1;
    writer->start_ms = app->clock.now_ms(app->clock.ctx);
    return writer;
}

static void action_done(struct post_commit_action *action)
{
    must(action->uid != NULL);

    xfree(action->uid);
    xfree(action->namespace);
    xfree(action->name);
    xfree(action->node);
    strbuf_done(&action->body);
}

static void inflight_free(struct inflight_bind *bind_inflight)
{
    must(bind_inflight->uid != NULL);

    xfree(bind_inflight->uid);
    xfree(bind_inflight->reply);
    xfree(bind_inflight);
}

static void doubt_free(struct doubt *doubt)
{
    must(doubt->uid != NULL);

    xfree(doubt->uid);
    xfree(doubt);
}

/* Calls that still wait are answered by the listener when it stops. */
static void forget(struct message *message)
{
    must(message != NULL);

    message->reply.to = NULL;
    message_free(message);
}

static void drop_replies(struct writer *writer)
{
    must(writer->replies <= writer->reply_capacity);

    for (size_t i = 0; i < writer->replies; i++) {
        xfree(writer->reply[i].uid);
        xfree(writer->reply[i].error);
    }
    writer->replies = 0;
}

void writer_free(struct writer *writer)
{
    if (writer == NULL)
        return;
    struct inflight_bind *bind_inflight;
    for (size_t at = 0; (bind_inflight = map_next(&writer->inflight, &at)) != NULL;)
        inflight_free(bind_inflight);
    struct doubt *doubt;
    for (size_t at = 0; (doubt = map_next(&writer->doubts, &at)) != NULL;)
        doubt_free(doubt);
    for (size_t i = 0; i < writer->actions; i++)
        action_done(&writer->action[i]);
    for (size_t i = 0; i < writer->keeps; i++)
        forget(writer->kept[i]);
    arena_done(&writer->list);
    drop_replies(writer);
    xfree(writer->reply);
    xfree(writer->action);
    xfree(writer->kept);
    xfree(writer->listed);
    map_done(&writer->inflight);
    map_done(&writer->doubts);
    map_done(&writer->nodes_seen);
    map_done(&writer->ages);
    drift_watch_free(writer->drift);
    batch_done(&writer->batch);
    ledger_free(writer->ledger);
    xfree(writer);
}

int writer_load(struct writer *writer, struct err *err)
{
    must(writer->app->store != NULL);

    const int rc = store_load(writer->app->store, writer->ledger, err);
    if (rc < 0)
        return rc;
    batch_publish(writer->app, writer->ledger);
    return 0;
}

bool writer_idle(const struct writer *writer)
{
    return writer->inflight.count == 0 && writer->keeps == 0;
}

void writer_tables(const struct writer *writer, struct writer_tables *out)
{
    must(out != NULL);
    *out = (struct writer_tables){.inflight = writer->inflight.count,
                                  .doubts = writer->doubts.count,
                                  .kept = writer->keeps,
                                  .listed = writer->lists,
                                  .nodes_seen = writer->nodes_seen.count,
                                  .drifts = drift_watch_told(writer->drift),
                                  .names = names_count(ledger_names(writer->ledger))};
}

static int64_t now_ms(const struct writer *writer)
{
    return writer->app->clock.now_ms(writer->app->clock.ctx);
}

/* --- commands --- */

/* False if the batch is lost; a contradiction is logged, counted and passed over. */
static bool run(struct writer *writer, const struct command *command)
{
    must(command->at_ms != 0);
    must(!writer->batch.lost);

    const struct change *change;
    enum verdict verdict;

    return batch_run(&writer->batch, command, &verdict, &change, NULL) != BATCH_LOST;
}

static bool run_all(struct writer *writer, const struct command *command, size_t count)
{
    must(count <= RECONCILE_MAX);

    for (size_t i = 0; i < count; i++)
        if (!run(writer, &command[i]))
            return false;
    return true;
}

/* Whatever made an owner let go of a UUID: a node, or the last pod that held it there. */
static bool heal_duplicates(struct writer *writer)
{
    must(!writer->batch.lost);

    const struct node *node;

    /* One pass over what there is; a node that stays a duplicate of another is not offered
       twice. */
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++) {
        node = ledger_stale_duplicate(writer->ledger);
        if (node == NULL)
            return true;
        const struct command command = {
            .kind = COMMAND_NODE, .at_ms = writer->wall_ms, .node = node->name->text};
        if (!run(writer, &command))
            return false;
    }
    return true;
}

/* --- binds --- */

static struct inflight_bind *inflight_begin(struct writer *writer, const char *uid,
                                            const struct atom *node, int64_t deadline_ms)
{
    must(uid[0] != '\0');

    struct inflight_bind *bind_inflight = xcalloc(1, sizeof *bind_inflight);

    bind_inflight->uid = xstrdup(uid);
    bind_inflight->node = node;
    bind_inflight->deadline_ms = deadline_ms;
    must(map_put(&writer->inflight, text_of(bind_inflight->uid), bind_inflight) == NULL);
    struct doubt *doubt = map_take(&writer->doubts, text_of(uid));
    if (doubt != NULL)
        doubt_free(doubt);
    return bind_inflight;
}

static void inflight_join(struct inflight_bind *bind_inflight, struct message *message)
{
    must(message->reply.to != NULL);
    bind_inflight->reply = xgrow(bind_inflight->reply, bind_inflight->replies,
                                 &bind_inflight->capacity, sizeof *bind_inflight->reply);
    bind_inflight->reply[bind_inflight->replies++] = message->reply;
    message->reply.to = NULL;
}

static void inflight_end(struct writer *writer, const char *uid, const char *error)
{
    must(uid != NULL);

    struct inflight_bind *bind_inflight = map_take(&writer->inflight, text_of(uid));

    if (bind_inflight == NULL)
        return;
    for (size_t i = 0; i < bind_inflight->replies; i++)
        bind_inflight->reply[i].answer(bind_inflight->reply[i].to, error);
    inflight_free(bind_inflight);
}

static void refuse_bind(struct message *message, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void refuse_bind(struct message *message, const char *fmt, ...)
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

static struct post_commit_action *add_action(struct writer *writer)
{
    must(writer->actions <=
         BATCH_MAX + writer->lists + writer->nodes_seen.count + writer->inflight.count);

    writer->action =
        xgrow(writer->action, writer->actions, &writer->action_capacity, sizeof *writer->action);
    struct post_commit_action *action = &writer->action[writer->actions++];
    *action = (struct post_commit_action){0};
    strbuf_init(&action->body);
    return action;
}

/* How a Binding goes out. */
struct dispatch {
    uint64_t version; /* of the pod that was judged; 0: none, of an older ledger's reservation */
    int64_t deadline_ms;
    enum outbox_sending sending;
};

/* Queue the Binding of an allocation for when the batch is on disk. */
static int queue_binding(struct writer *writer, const struct allocation *allocation,
                         struct dispatch how, struct err *err)
{
    const struct node *node = ledger_node(writer->ledger, atom_text(allocation->is.node));
    struct post_commit_action *action = add_action(writer);

    must(node != NULL);
    action->kind = ACTION_BIND;
    action->uid = xstrdup(allocation->is.uid);
    action->namespace = xstrdup(allocation->is.namespace);
    action->name = xstrdup(allocation->is.name);
    action->node = xstrdup(allocation->is.node->text);
    action->version = how.version;
    action->deadline_ms = how.deadline_ms;
    action->sending = how.sending;
    const int rc = binding_encode(&action->body, allocation, node, how.version, err);
    if (rc < 0) {
        action_done(action);
        writer->actions--;
    }
    return rc;
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
    const int rc = queue_binding(writer, allocation, how, &err);
    must(rc == 0); /* nothing in it can be too much */
    allocation_unref(allocation);
    inflight_join(inflight_begin(writer, message->bind.uid, node->name, message->deadline_ms),
                  message);
}

/* Undo a grant whose Binding cannot be written; not one that was sent before. */
static bool take_back(struct writer *writer, struct message *message, enum outbox_sending sending,
                      const struct err *err)
{
    must(err->code != ERR_NONE);

    const struct command command = {.kind = COMMAND_RELEASE,
                                    .at_ms = writer->wall_ms,
                                    .uid = message->bind.uid,
                                    .why = "annotation"};
    refuse_bind(message, "%s", err->text);
    return sending != SENDING_FIRST || run(writer, &command);
}

static bool send_binding(struct writer *writer, struct message *message,
                         const struct allocation *allocation, enum outbox_sending sending)
{
    must(allocation->is.state != STATE_RELEASED);

    const struct dispatch how = {allocation->is.version, message->deadline_ms, sending};
    struct err err;

    if (queue_binding(writer, allocation, how, &err) < 0)
        return take_back(writer, message, sending, &err);
    inflight_join(
        inflight_begin(writer, allocation->is.uid, allocation->is.node, message->deadline_ms),
        message);
    return true;
}

/* Nothing of it is on its way that could land: it is free again.  Its pod has moved on unbound. */
static bool end_void(struct writer *writer, const struct pod_record *record)
{
    must(record != NULL);

    struct command command[RECONCILE_MAX];

    if (record->node[0] != '\0' || map_find(&writer->inflight, text_of(record->uid)) != NULL)
        return true;
    const size_t count =
        reconcile_unbound(writer->ledger, record->uid, record->version, writer->wall_ms, command);
    return run_all(writer, command, count);
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
        refuse_bind(message, "%s", safe_mode_why(writer->app));
        return true;
    case BATCH_DONE:
        break;
    }
    if (verdict == VERDICT_OK) {
        *whole = send_binding(writer, message, change->after, SENDING_FIRST);
        return true;
    }
    *whole = end_void(writer, record);
    return !*whole;
}

/* A reservation of which nothing that was sent can land any more. */
static bool is_void(const struct allocation *held, const struct pod_record *record)
{
    must(record->uid != NULL);
    return held != NULL && held->is.state == STATE_RESERVED && held->is.version > 0 &&
           record->node[0] == '\0' && record->version > held->is.version;
}

static bool reserve(struct writer *writer, struct message *message, const struct pod_record *record,
                    const struct request *request)
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

    if (is_void(ledger_find(writer->ledger, text_of(record->uid)), record) &&
        judged_again(writer, message, record, request, &whole))
        return whole;
    switch (batch_run(&writer->batch, &command, &verdict, &change, &answer)) {
    case BATCH_LOST:
        return false;
    case BATCH_CONTRADICTED:
        refuse_bind(message, "%s", safe_mode_why(writer->app));
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
        refuse_bind(message, "elsewhere: the pod holds a reservation on node %s",
                    answer.held->is.node->text);
        return true;
    case VERDICT_REFUSED:
        app_count_refusal(answer.reason);
        request_refuse(request, answer.reason, &refusal);
        refuse_bind(message, "%s: %s", reason_name(answer.reason), refusal.text);
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
        refuse_bind(message, "not_ours: the pod does not name %s", writer->app->settings->resource);
    } else if (strcmp(record->namespace, bind->namespace) != 0 ||
               strcmp(record->name, bind->pod) != 0) {
        refuse_bind(message, "unknown_pod: uid %s is not the uid of %s/%s", bind->uid,
                    bind->namespace, bind->pod);
    } else if (bind_inflight != NULL && strcmp(bind_inflight->node->text, bind->node) != 0) {
        refuse_bind(message, "elsewhere: the pod is being bound to node %s",
                    bind_inflight->node->text);
    } else if (bind_inflight != NULL) {
        inflight_join(bind_inflight, message);
    } else if (record->node[0] != '\0' && strcmp(record->node, bind->node) != 0) {
        refuse_bind(message, "changed: the pod is bound to node %s already", record->node);
    } else if ((held != NULL && held->is.state == STATE_BOUND &&
                text_is(atom_text(held->is.node), bind->node)) ||
               (held == NULL && record->node[0] != '\0')) {
        message->reply.answer(message->reply.to, NULL); /* the API server has said so */
        message->reply.to = NULL;
    } else if (record->verdict == REQUEST_REFUSED) {
        refuse_bind(message, "%s", record->refusal);
    } else if (ledger_node(writer->ledger, text_of(bind->node)) == NULL) {
        app_count_refusal(REASON_UNKNOWN_NODE);
        refuse_bind(message, "unknown_node: there is no node %s", bind->node);
    } else if (record->version == 0) {
        refuse_bind(message, "not ready: the pod's resourceVersion is no number to judge it by");
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
        refuse_bind(fetched, "not ready: the API server could not be asked for pod %s/%s: %s",
                    bind->namespace, bind->pod, fetched->text);
    else
        refuse_bind(fetched, "unknown_pod: %s/%s with uid %s: %s", bind->namespace, bind->pod,
                    bind->uid,
                    fetched->found ? "it has ended, or another uid has its name" : fetched->text);
}

/* What the table had no room for stands in the pod itself. */
static const struct request *request_of(const struct writer *writer, const struct pod *pod,
                                        const struct pod_record *record, struct arena *arena)
{
    const struct request_rules *rules = &writer->app->request_rules;
    struct refusal refusal;

    if (record == NULL || record->request != NULL || !pod_record_asks(record))
        return record != NULL ? record->request : NULL;
    struct request *request = arena_alloc(arena, sizeof *request);
    const enum request_verdict verdict =
        pod->node[0] != '\0' ? request_parse_bound(pod, rules, arena, request, &refusal)
                             : request_parse(pod, rules, arena, request, &refusal);
    must(verdict == record->verdict);
    return request;
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
        return reserve(writer, bind, record, request_of(writer, &bind->pod, record, &bind->arena));
    if (!bind->found && bind->reason == REASON_NONE)
        refuse_unknown(bind);
    else
        refuse_bind(bind, "changed: the pod was written to meanwhile");
    return true;
}

/* The message may go on to the outbox: then *message is NULL. */
static bool handle_bind(struct writer *writer, struct message **message)
{
    must((*message)->kind == MESSAGE_BIND || (*message)->kind == MESSAGE_FETCHED);
    must((*message)->reply.to != NULL);

    struct message *bind = *message;
    const char *why;

    if (!app_ready(writer->app, &why)) {
        refuse_bind(bind, "not ready: %s", why);
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
        refuse_bind(bind, "not ready: too many Bindings wait to be sent");
        return true;
    }
    if (record->verdict == REQUEST_ZERO) {
        send_plain_binding(writer, bind, record->version);
        return true;
    }
    return forgotten ? reserve_as_told(writer, bind, record)
                     : reserve(writer, bind, record, record->request);
}

/* In order: whoever is not in the table in a version before this one has gone. */
static void hear(struct writer *writer, const struct pod *pod)
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

static bool handle_fetched(struct writer *writer, struct message **message)
{
    must((*message)->kind == MESSAGE_FETCHED);
    must((*message)->reply.to != NULL);

    const struct message *fetched = *message;

    if (fetched->found && strcmp(fetched->pod.uid, fetched->bind.uid) == 0 &&
        !pod_ended(&fetched->pod) && is_yet_to_come(writer, &fetched->pod))
        (void)pod_cache_put_fetched(writer->app->pod_cache, &fetched->pod,
                                    &writer->app->request_rules);
    return handle_bind(writer, message);
}

static void land(struct writer *writer, const char *uid, const char *error)
{
    writer->reply =
        xgrow(writer->reply, writer->replies, &writer->reply_capacity, sizeof *writer->reply);
    must(uid[0] != '\0');
    writer->reply[writer->replies++] =
        (struct pending_reply){xstrdup(uid), error != NULL ? xstrdup(error) : NULL};
}

/*
 * The reservation is on disk since before the POST, so success is answered whatever became of
 * the batch that confirms it; but after the batch, so that whoever asks next sees the pod bound,
 * its share free again, or the doubt.
 */
static void send_replies(struct writer *writer)
{
    must(!writer->batch.open);

    for (size_t i = 0; i < writer->replies; i++)
        inflight_end(writer, writer->reply[i].uid, writer->reply[i].error);
    drop_replies(writer);
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
    else if (now_ms(writer) >= take_bind->deadline_ms)
        refuse_bind(take_bind, "changed: the pod was written to again and again meanwhile");
    else
        whole = handle_bind(writer, &take_bind);
    if (take_bind != NULL && take_bind->reply.to != NULL)
        refuse_bind(take_bind, "the ledger cannot be written: %.400s", writer->batch.err.text);
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
    return whole && (record == NULL || end_void(writer, record));
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

static bool handle_outcome(struct writer *writer, const struct message *message)
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
        land(writer, message->uid, NULL);
        break;
    case OUTCOME_VOID:
        command.kind = COMMAND_RELEASE;
        command.why = asked ? "unconfirmed" : reason_name(message->reason);
        (void)snprintf(text, sizeof text, "%s: %s", reason_name(message->reason), message->text);
        land(writer, message->uid, text);
        break;
    case OUTCOME_UNKNOWN:
        if (held != NULL && held->is.state == STATE_BOUND) {
            land(writer, message->uid, NULL); /* the watch has shown it meanwhile */
            return true;
        }
        command.kind = COMMAND_DOUBT;
        say_doubt(message, text, sizeof text);
        land(writer, message->uid, text);
        break;
    case OUTCOME_MOVED:
        must_not_reach("it was handled");
    }
    if (held == NULL || held->is.state != STATE_RESERVED)
        return true; /* the watch was quicker, or there was nothing to reserve */
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, message->uid);
    if (message->outcome == OUTCOME_UNKNOWN && record != NULL && is_void(held, record)) {
        command.kind = COMMAND_RELEASE; /* and the watch has shown that, too */
        command.why = "unbound";
    }
    return run(writer, &command);
}

/* --- pods --- */

static bool reconcile(struct writer *writer, const struct pod *pod)
{
    must(pod->uid[0] != '\0');
    must(!writer->batch.lost);

    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);
    struct command command[RECONCILE_MAX];

    CLEANUP(arena_done) struct arena arena;
    arena_init(&arena);
    const struct request *request = request_of(writer, pod, record, &arena);
    const size_t count = reconcile_pod(writer->ledger, pod, request, writer->wall_ms, command);
    if (!run_all(writer, command, count))
        return false;
    const struct allocation *held = ledger_find(writer->ledger, text_of(pod->uid));
    if (held != NULL && record != NULL && record->told == NULL && reconcile_lacks(held, request))
        pod_cache_remember(writer->app->pod_cache, pod);
    return true;
}

static bool gone(struct writer *writer, const char *uid)
{
    must(uid[0] != '\0');

    struct command command[RECONCILE_MAX];

    const size_t count = reconcile_gone(writer->ledger, uid, writer->wall_ms, command);
    return run_all(writer, command, count);
}

static bool handle_pod(struct writer *writer, const struct pod *pod)
{
    must(pod->uid[0] != '\0');
    writer->granted_before |= pod->annotation != NOTE_NONE && pod->node[0] != '\0';
    if (pod_ended(pod)) {
        pod_cache_remove(writer->app->pod_cache, pod->uid);
        hints_resolved(writer->app->hints, text_of(pod->uid));
        return reconcile(writer, pod);
    }
    if (!pod_cache_put(writer->app->pod_cache, pod, &writer->app->request_rules, writer->epoch))
        return true; /* old news */
    if (!pod->ours && pod->whole_gpus == 0 &&
        ledger_find(writer->ledger, text_of(pod->uid)) == NULL)
        return true;
    if (pod->node[0] != '\0')
        hints_resolved(writer->app->hints, text_of(pod->uid));
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);
    must(record != NULL);
    return reconcile(writer, pod) && end_void(writer, record);
}

static bool handle_pod_deleted(struct writer *writer, const struct pod *pod)
{
    must(pod->uid[0] != '\0');

    pod_cache_remove(writer->app->pod_cache, pod->uid);
    hints_resolved(writer->app->hints, text_of(pod->uid));
    return pod_ended(pod) ? reconcile(writer, pod) : gone(writer, pod->uid);
}

static void drop_list(struct writer *writer)
{
    must(writer->listing || writer->lists == 0);
    arena_done(&writer->list);
    arena_init(&writer->list);
    writer->lists = 0;
    writer->listing = false;
}

static void begin_list(struct writer *writer, int64_t asked_ms)
{
    must(writer->epoch < UINT64_MAX);

    drop_list(writer);
    writer->listed_ms = asked_ms;
    writer->listing = true;
    writer->epoch++;
}

static void keep_listed(struct writer *writer, const struct pod *pod)
{
    must(writer->listing);

    writer->listed = xgrow(writer->listed, writer->lists, &writer->list_capacity, sizeof(void *));
    writer->listed[writer->lists++] = pod_keep(pod, &writer->list);
}

/*
 * Only bound pods that the ledger does not know have to wait for the end of the list: in which
 * order they are believed or adopted matters.  In a restart on the old ledger there are none.
 */
static bool waits_for_order(const struct writer *writer, const struct pod *pod)
{
    return !pod_ended(pod) && pod->node[0] != '\0' && (pod->ours || pod->whole_gpus > 0) &&
           ledger_find(writer->ledger, text_of(pod->uid)) == NULL;
}

static bool handle_listed(struct writer *writer, const struct pod *pod)
{
    must(pod->uid[0] != '\0');

    if (!waits_for_order(writer, pod))
        return handle_pod(writer, pod);
    keep_listed(writer, pod);
    return true;
}

static int by_order(const void *a, const void *b, void *ledger)
{
    must(a != NULL && b != NULL && ledger != NULL);

    const struct pod *const *left = a;
    const struct pod *const *right = b;

    return reconcile_order(ledger, *left, *right);
}

static void pod_swept(void *user, const struct pod_record *record)
{
    must(record->uid != NULL);

    struct writer *writer = user;

    hints_resolved(writer->app->hints, text_of(record->uid));
}

/* The pod cache, as hints ask for it. */
static enum hints_pod look_at_pod(void *user, struct text uid)
{
    const struct writer *writer = user;

    switch (pod_cache_look(writer->app->pod_cache, uid)) {
    case PODS_UNKNOWN:
        return HINTS_POD_UNKNOWN;
    case PODS_UNBOUND:
        return HINTS_POD_UNBOUND;
    case PODS_BOUND:
        return HINTS_POD_BOUND;
    }
    must_not_reach("every state is listed");
}

/*
 * Allocations whose pod no list shows, a Binding on its way or not: nobody tells of it again.  A
 * list that is older than the version that was judged says nothing of that pod.
 */
static bool release_orphans(struct writer *writer, uint64_t list_version)
{
    must(!writer->batch.lost);

    const struct allocation *allocation;
    const char **orphan = NULL;
    size_t orphans = 0;
    size_t capacity = 0;
    bool whole = true;

    for (size_t at = 0; (allocation = ledger_next(writer->ledger, &at)) != NULL;) {
        if (pod_cache_find(writer->app->pod_cache, allocation->is.uid) != NULL ||
            allocation->is.version > list_version)
            continue;
        orphan = xgrow(orphan, orphans, &capacity, sizeof *orphan);
        orphan[orphans++] = xstrdup(allocation->is.uid);
    }
    for (size_t i = 0; i < orphans; i++) {
        char *uid = (char *)(uintptr_t)orphan[i];
        whole = whole && gone(writer, uid);
        xfree(uid);
    }
    xfree(orphan);
    return whole;
}

/* This node holds what another may grant: that one gives it up, as to an elder. */
static bool keep_what_is_held(struct writer *writer, const struct node *node)
{
    bool whole = true;

    for (uint32_t i = 0; i < node->gpus && whole; i++) {
        const struct gpu *gpu = &node->gpu[i];
        /* What it does not show an annotation alone says of it. */
        if ((gpu->flags & (GPU_DUPLICATE | GPU_ABSENT)) != GPU_DUPLICATE || gpu->charges == 0)
            continue;
        const struct node *owner = ledger_owner(writer->ledger, atom_text(gpu->id));
        if (owner == NULL)
            continue;
        must(owner != node);
        struct gpu_facts held = {.id = gpu->id->text};
        const struct inventory elder = {.gpus = 1, .gpu = &held};
        const struct command command = {.kind = COMMAND_NODE,
                                        .at_ms = writer->wall_ms,
                                        .node = owner->name->text,
                                        .elder = &elder};
        whole = run(writer, &command);
    }
    return whole;
}

/*
 * Of two nodes that show one UUID the older goes on where a ledger begins, as give_way() has it;
 * but not when pods hold it on the other: whoever granted before took it for that one's own.
 */
static bool holders_go_on(struct writer *writer)
{
    const struct node *node;
    bool whole = true;

    must(!writer->batch.lost);
    if (!atomic_load(&writer->app->new_ledger))
        return true;
    for (size_t at = 0; whole && (node = ledger_next_node(writer->ledger, &at)) != NULL;)
        whole = keep_what_is_held(writer, node);
    return whole && heal_duplicates(writer);
}

/*
 * Once a list, not for one event: all pods and all allocations are gone through, in one batch,
 * since nothing is known to be gone before all of the list is known.  With 49,568 pods that is
 * 18 ms after a list of 197 ms (bench/README.md); where the ledger is new and each pod is believed
 * or adopted here it is seconds, and nothing is granted before.
 */
static bool end_list(struct writer *writer, const struct message *end)
{
    must(writer->listing || writer->lists == 0);

    if (!writer->listing)
        return true;
    if (writer->lists > 0)
        qsort_r(writer->listed, writer->lists, sizeof(void *), by_order, writer->ledger);
    for (size_t i = 0; i < writer->lists; i++)
        if (!handle_pod(writer, writer->listed[i]))
            return false;
    pod_cache_remove_stale(writer->app->pod_cache,
                           (struct pod_cache_list){writer->epoch, end->version}, writer, pod_swept);
    hints_listed(writer->app->hints, writer->listed_ms, writer, look_at_pod);
    if (!release_orphans(writer, end->version) || !holders_go_on(writer))
        return false;
    writer->pods_ended = true;
    writer->after_grace = end->after_grace;
    return true;
}

/* --- nodes --- */

/*
 * What the node has, and never less than what runs there: kubelet, when it starts again, ends pods
 * until they ask no more than the capacity.  What is too much is lowered with a later event of the
 * node (kubelet writes one each five minutes), when pods have gone.
 */
static void want_advertised(struct writer *writer, const struct inventory *inventory,
                            const struct node_facts *facts)
{
    must(inventory->advertise_milli <= GPUS_PER_NODE_MAX * GPU_MILLI);

    if (inventory->advertise_milli == 0)
        return;
    const struct node *node = ledger_node(writer->ledger, text_of(facts->name));
    const uint64_t held = node != NULL ? node_held_milli(node) : 0;
    const uint64_t wanted = held > inventory->advertise_milli ? held : inventory->advertise_milli;
    int64_t shown;
    if (facts->capacity_milli != NULL &&
        quantity_parse(text_of(facts->capacity_milli), 0, &shown) == QUANTITY_OK &&
        shown == (int64_t)wanted)
        return;
    struct post_commit_action *action = add_action(writer);
    action->kind = ACTION_ADVERTISE;
    action->uid = xstrdup(facts->name);
    action->milli = wanted < UINT32_MAX ? (uint32_t)wanted : UINT32_MAX;
}

/* Pods there that found too few GPUs, as they were told: now there may be more. */
static bool place_the_unplaced(struct writer *writer, const char *name)
{
    const struct node *node = ledger_node(writer->ledger, text_of(name));
    const struct pod **told;
    size_t count = 0;
    bool whole = true;

    if (node == NULL || node->allocations == 0)
        return true;
    told = xcalloc(node->allocations, sizeof *told);
    for (uint32_t i = 0; i < node->allocations; i++) {
        const struct allocation_facts *is = &node->allocation[i]->is;
        const struct pod_record *record =
            is->presumed ? pod_cache_find(writer->app->pod_cache, is->uid) : NULL;
        if (record != NULL && record->told != NULL)
            told[count++] = record->told;
        if (record != NULL && record->untold)
            atomic_store(&writer->app->list_again, true);
    }
    must(count <= node->allocations);
    for (size_t i = 0; i < count && whole; i++)
        whole = reconcile(writer, told[i]);
    xfree(told);
    return whole;
}

/* What has no time is younger than all that have one; of equal age the first by name is older. */
static bool is_older(const struct writer *writer, const struct node_facts *facts,
                     const struct node *than)
{
    const int64_t age = (int64_t)(intptr_t)map_find(&writer->ages, atom_text(than->name));

    must(strcmp(facts->name, than->name->text) != 0);
    if (facts->created_ms == age)
        return strcmp(facts->name, than->name->text) < 0;
    return facts->created_ms != 0 && (age == 0 || facts->created_ms < age);
}

/*
 * The first to show a UUID goes on.  Where the ledger is new nobody knows who that was, and the
 * order of the list says nothing: then it is the Node that is older, which nobody can choose.
 */
static bool give_way(struct writer *writer, const struct node_facts *facts,
                     const struct inventory *inventory)
{
    bool whole = true;

    must(facts->name[0] != '\0');
    if (!atomic_load(&writer->app->new_ledger))
        return true;
    for (uint32_t i = 0; i < inventory->gpus && whole; i++) {
        const struct node *node = ledger_owner(writer->ledger, text_of(inventory->gpu[i].id));
        if (node == NULL || text_is(atom_text(node->name), facts->name) ||
            !is_older(writer, facts, node))
            continue;
        const struct command command = {.kind = COMMAND_NODE,
                                        .at_ms = writer->wall_ms,
                                        .node = node->name->text,
                                        .elder = inventory};
        whole = run(writer, &command);
    }
    return whole;
}

static bool handle_node(struct writer *writer, const struct node_facts *facts)
{
    must(facts->name[0] != '\0');

    struct arena arena;
    struct inventory inventory;

    arena_init(&arena);
    inventory_parse(facts, &writer->app->inventory_rules, &arena, &inventory);
    const struct command command = {.kind = COMMAND_NODE,
                                    .at_ms = writer->wall_ms,
                                    .node = facts->name,
                                    .inventory = &inventory};
    const bool whole = give_way(writer, facts, &inventory) && run(writer, &command) &&
                       heal_duplicates(writer) && place_the_unplaced(writer, facts->name);
    if (whole)
        want_advertised(writer, &inventory, facts);
    arena_done(&arena);
    const struct node *node = ledger_node(writer->ledger, text_of(facts->name));
    if (node != NULL)
        (void)map_put(&writer->nodes_seen, atom_text(node->name),
                      (void *)(uintptr_t)writer->node_epoch);
    if (node != NULL && atomic_load(&writer->app->new_ledger) && facts->created_ms != 0)
        (void)map_put(&writer->ages, atom_text(node->name), (void *)(intptr_t)facts->created_ms);
    return whole;
}

static bool node_gone(struct writer *writer, const char *name)
{
    must(name[0] != '\0');

    const struct command command = {
        .kind = COMMAND_NODE_GONE, .at_ms = writer->wall_ms, .node = name};

    (void)map_take(&writer->nodes_seen, text_of(name));
    return run(writer, &command);
}

/* Once a list: with 15,000 nodes 4 ms. */
static bool end_nodes(struct writer *writer)
{
    must(!writer->batch.lost);

    const struct atom **lost = NULL;
    size_t count = 0;
    size_t capacity = 0;
    const struct node *node;
    bool whole = true;

    for (size_t at = 0; (node = ledger_next_node(writer->ledger, &at)) != NULL;) {
        const void *seen = map_find(&writer->nodes_seen, atom_text(node->name));
        if ((uintptr_t)seen == writer->node_epoch || node->gone)
            continue;
        lost = xgrow(lost, count, &capacity, sizeof *lost);
        lost[count++] = node->name;
    }
    for (size_t i = 0; i < count && whole; i++)
        whole = node_gone(writer, lost[i]->text);
    xfree(lost);
    writer->nodes_ended = whole;
    return whole;
}

/* --- one batch --- */

/* False if the batch is lost.  *message is NULL afterwards if it was handed on. */
static bool handle(struct writer *writer, struct message **message)
{
    struct message *is = *message;

    switch (is->kind) {
    case MESSAGE_BIND:
        return handle_bind(writer, message);
    case MESSAGE_FETCHED:
        return handle_fetched(writer, message);
    case MESSAGE_OUTCOME:
        return handle_outcome(writer, is);
    case MESSAGE_PODS_BEGIN:
        begin_list(writer, is->asked_ms);
        return true;
    case MESSAGE_POD_LISTED:
        return handle_listed(writer, &is->pod);
    case MESSAGE_PODS_END:
        return end_list(writer, is);
    case MESSAGE_PODS_FAILED:
        drop_list(writer);
        return true;
    case MESSAGE_POD:
        hear(writer, &is->pod);
        return handle_pod(writer, &is->pod);
    case MESSAGE_POD_DELETED:
        hear(writer, &is->pod);
        return handle_pod_deleted(writer, &is->pod);
    case MESSAGE_NODES_BEGIN:
        writer->node_epoch++;
        return true;
    case MESSAGE_NODE_LISTED:
    case MESSAGE_NODE:
        return handle_node(writer, &is->node);
    case MESSAGE_NODES_END:
        return end_nodes(writer);
    case MESSAGE_NODES_FAILED:
        return true;
    case MESSAGE_NODE_DELETED:
        return node_gone(writer, is->node.name);
    }
    must_not_reach("every kind is listed");
}

static void run_actions(struct writer *writer)
{
    must(!writer->batch.open);

    for (size_t i = 0; i < writer->actions; i++) {
        struct post_commit_action *action = &writer->action[i];
        if (action->kind == ACTION_BIND) {
            const struct outbox_binding binding = {.uid = action->uid,
                                                   .namespace = action->namespace,
                                                   .name = action->name,
                                                   .node = action->node,
                                                   .body = {action->body.data, action->body.len},
                                                   .version = action->version,
                                                   .deadline_ms = action->deadline_ms,
                                                   .sending = action->sending};
            outbox_bind(writer->app->outbox, &binding);
        } else {
            outbox_advertise(writer->app->outbox, action->uid, action->milli);
        }
        action_done(action);
    }
    writer->actions = 0;
}

/* Nothing of it happened: no Binding goes out, whoever waits for one hears why. */
static void act_lost(struct writer *writer)
{
    must(!writer->batch.open);

    char text[ERR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "the ledger cannot be written: %.400s",
                   writer->batch.err.text);
    for (size_t i = 0; i < writer->actions; i++) {
        if (writer->action[i].kind == ACTION_BIND)
            inflight_end(writer, writer->action[i].uid, text);
        action_done(&writer->action[i]);
    }
    writer->actions = 0;
}

/* Nodes on which this batch made room, as they are now; the caller frees the array. */
static const struct node **roomier(const struct writer *writer, size_t *out_count)
{
    const struct node **node = xcalloc(writer->batch.changes + 1, sizeof *node);

    *out_count = 0;
    for (size_t i = 0; i < writer->batch.changes; i++) {
        const struct change *change = writer->batch.change[i];
        if (!change_gives_room(change) || change->node_after == NULL)
            continue;
        const struct node *now = ledger_node(writer->ledger, atom_text(change->node_after->name));
        if (now != NULL && (*out_count == 0 || node[*out_count - 1] != now))
            node[(*out_count)++] = now;
    }
    must(*out_count <= writer->batch.changes);
    return node;
}

static void wake(struct writer *writer, const struct atom *node)
{
    must(writer->app->outbox != NULL);
    outbox_wake(writer->app->outbox, hints_waiting(writer->app->hints),
                node != NULL ? node->text : NULL);
}

/* Room came free: does it help anybody who waits? */
static void wake_if_it_helps(struct writer *writer)
{
    must(!writer->batch.open);

    size_t count;
    const struct node **node = roomier(writer, &count);

    if (count > 0)
        app_between(writer->app, BETWEEN_ROOM_AND_WAKE_UP);
    if (hints_would_fit(writer->app->hints, now_ms(writer), node, count))
        wake(writer, node[0]->name);
    xfree(node);
}

/* Any will do for those who can be woken by a node only. */
static const struct atom *some_node(const struct writer *writer)
{
    size_t at = 0;
    const struct node *node = ledger_next_node(writer->ledger, &at);

    must(node == NULL || node->name != NULL);
    return node != NULL ? node->name : NULL;
}

/* Whoever was offered nodes a second ago and not bound: on a quiet cluster nobody else would have
   kube-scheduler ask again. */
static void wake_for_the_late(struct writer *writer)
{
    const struct atom *node;

    must(!writer->batch.open);
    if (hints_late(writer->app->hints, now_ms(writer), view_capacity_generation(writer->app->view),
                   &node))
        wake(writer, node != NULL ? node : some_node(writer));
}

/* A message of a lost batch.  A bind is answered: then false; what was told is worth keeping. */
static bool worth_keeping(struct writer *writer, struct message *message)
{
    must(writer->batch.err.code != ERR_NONE);
    if (message->reply.to != NULL)
        refuse_bind(message, "the ledger cannot be written: %.400s", writer->batch.err.text);
    if (message->kind != MESSAGE_BIND && message->kind != MESSAGE_FETCHED)
        return true;
    message_free(message);
    return false;
}

/* In front: it was taken from there, or there was nothing, or it holds no news. */
static void keep_first(struct writer *writer, struct message **message, size_t count)
{
    must(count <= BATCH_MAX);

    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        writer->kept =
            xgrow(writer->kept, writer->keeps + i, &writer->keep_capacity, sizeof(void *));
    for (size_t i = 0; i < count; i++)
        writer->keep_bytes += message_bytes(message[i]);
    memmove(writer->kept + count, writer->kept, writer->keeps * sizeof(void *));
    memcpy(writer->kept, message, count * sizeof(void *));
    writer->keeps += count;
}

/* Behind the end of a list: it is taken again at once. */
static void leave_over(struct writer *writer, struct message **message, size_t count)
{
    must(count == 0 || writer->pods_ended || writer->nodes_ended);

    keep_first(writer, message, count);
    if (count > 0)
        writer->retry_ms = 0;
}

static void batch_lost(struct writer *writer, struct message **message, size_t count)
{
    must(count <= BATCH_MAX);
    must(writer->batch.lost || writer->batch.err.code != ERR_NONE);

    if (!atomic_exchange(&writer->app->disk_broken, true))
        log_write(LOG_ERROR, "the ledger cannot be written: granting stops until it can",
                  log_str("error", writer->batch.err.text));
    act_lost(writer);
    wallclock_look_again(&writer->wallclock, &writer->looked);
    writer->writes = false;
    size_t keeps = 0;
    for (size_t i = 0; i < count; i++)
        if (message[i] != NULL && worth_keeping(writer, message[i]))
            message[keeps++] = message[i];
    keep_first(writer, message, keeps);
    writer->retry_ms = now_ms(writer) + RETRY_MS;
}

/*
 * A milligpud before, whose ledger is lost, may have granted what no list shows yet: a Binding that
 * it sent can land for a minute after its end.  So where one was (its wake-up object exists, or a
 * pod carries a grant) a new ledger waits, and then needs a list that began after the wait.  It is
 * claimed at the end of that, so that who is killed meanwhile waits again.
 */
static void pods_are_in(struct writer *writer)
{
    struct app *app = writer->app;

    must(writer->pods_ended);
    if (!atomic_load(&app->new_ledger)) {
        atomic_store(&app->pods_synced, true);
    } else if (app->grace_ms == 0 || writer->after_grace ||
               (!writer->granted_before && !atomic_load(&app->wake_object_existed))) {
        writer->may_own = true;
    } else if (atomic_exchange(&app->grace_ends_ms, writer->start_ms + app->grace_ms) == 0) {
        log_write(
            LOG_WARN,
            "the ledger is new, and a milligpud granted here before: nothing is granted while "
            "a Binding of it may be on its way",
            log_i64("ms", app->grace_ms));
    }
}

static void claim_ledger(struct writer *writer)
{
    struct app *app = writer->app;
    struct err err;

    must(!writer->batch.open);
    if (!writer->may_own || now_ms(writer) < writer->claim_ms)
        return;
    if (store_set_cluster(app->store, app->cluster, &err) < 0) {
        log_write(LOG_ERROR, "the ledger cannot be claimed", log_str("error", err.text));
        atomic_store(&app->disk_broken, true);
        writer->claim_ms = now_ms(writer) + RETRY_MS;
        return;
    }
    writer->may_own = false;
    map_done(&writer->ages);
    map_init(&writer->ages);
    atomic_store(&app->new_ledger, false);
    atomic_store(&app->grace_ends_ms, 0);
    atomic_store(&app->pods_synced, true);
}

static void batch_kept(struct writer *writer, struct message **message, size_t count)
{
    must(count <= BATCH_MAX);
    must(!writer->batch.open);

    writer->writes = writer->writes || writer->batch.changes > 0;
    /* What is kept may be about the very pods that would be granted. */
    if (writer->writes && writer->keeps == 0 && atomic_exchange(&writer->app->disk_broken, false))
        log_plain(LOG_WARN, "the ledger can be written again");
    if (writer->nodes_ended)
        atomic_store(&writer->app->nodes_synced, true);
    if (writer->pods_ended) {
        drop_list(writer);
        pods_are_in(writer);
    }
    run_actions(writer);
    wake_if_it_helps(writer);
    for (size_t i = 0; i < count; i++)
        message_free(message[i]);
}

/*
 * The watch can be behind by any time: a GET tells.  Until something does the reservation stays.
 * Of a reservation without a version (an older ledger's) no Binding can land any more by now, but
 * one may have.
 */
static void ask_about(struct writer *writer, const struct allocation *allocation, int64_t now)
{
    must(allocation->is.state == STATE_RESERVED);

    struct err err;

    const struct dispatch how = {allocation->is.version, now + ASK_MS, SENDING_NOTHING};
    /* What could be written once can be written again; else the next doubt tries. */
    if (queue_binding(writer, allocation, how, &err) == 0)
        inflight_begin(writer, allocation->is.uid, allocation->is.node, now + ASK_MS)->asks = true;
}

static bool expire_doubt(struct writer *writer, const struct allocation *allocation, int64_t now)
{
    must(allocation->is.state == STATE_RESERVED);

    struct doubt *doubt = map_find(&writer->doubts, text_of(allocation->is.uid));
    const struct command command = {
        .kind = COMMAND_DOUBT, .at_ms = writer->wall_ms, .uid = allocation->is.uid};

    if (doubt == NULL) {
        doubt = xcalloc(1, sizeof *doubt);
        doubt->uid = xstrdup(allocation->is.uid);
        doubt->since_ms = now;
        (void)map_put(&writer->doubts, text_of(doubt->uid), doubt);
    }
    must(now >= doubt->since_ms);
    doubt->mark = writer->mark;
    if (now - doubt->since_ms >= (allocation->is.version > 0 ? DOUBT_ASK_MS : DOUBT_OLD_MS))
        ask_about(writer, allocation, now);
    return allocation->is.in_doubt || run(writer, &command);
}

static bool tick_doubt(struct writer *writer, const struct allocation *allocation, int64_t now)
{
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, allocation->is.uid);

    must(now >= 0);
    return record != NULL && is_void(allocation, record) ? end_void(writer, record)
                                                         : expire_doubt(writer, allocation, now);
}

static bool doubt_lives(void *user, void *value)
{
    const struct writer *writer = user;
    struct doubt *doubt = value;

    must(doubt->mark <= writer->mark);
    if (doubt->mark == writer->mark)
        return true;
    doubt_free(doubt);
    return false;
}

/* Reservations that nobody is sending, counted; the caller frees the array. */
static const struct allocation **open_reservations(const struct writer *writer, size_t *out_count)
{
    const struct allocation **open = NULL;
    const struct allocation *allocation;
    size_t capacity = 0;

    *out_count = 0;
    for (size_t at = 0; (allocation = ledger_next_open(writer->ledger, &at)) != NULL;) {
        must(allocation->is.state == STATE_RESERVED);
        if (map_find(&writer->inflight, text_of(allocation->is.uid)) != NULL)
            continue;
        open = xgrow(open, *out_count, &capacity, sizeof *open);
        open[(*out_count)++] = allocation_ref(allocation);
    }
    return open;
}

/*
 * Reservations that nobody sends: in doubt.  Evidence ends them; time only says when to ask.  Once
 * a second it looks at all reservations, not at the cluster (bench/README.md has what that costs).
 */
static bool tick_doubts(struct writer *writer, int64_t now)
{
    size_t count;
    bool whole = true;

    must(!writer->batch.lost);
    const struct allocation **open = open_reservations(writer, &count);
    writer->mark++;
    for (size_t i = 0; i < count; i++) {
        whole = whole && tick_doubt(writer, open[i], now);
        allocation_unref(open[i]);
    }
    xfree(open);
    if (whole)
        (void)map_sweep(&writer->doubts, writer, doubt_lives);
    return whole;
}

/* The newest entry of the journal says where the wall clock was when the one before us ended. */
static void watch_clock(struct writer *writer)
{
    int64_t last_ms = 0;
    int64_t stepped_ms = 0;
    struct err err;

    must(!writer->watches_clock);
    if (store_clock(writer->app->store, &last_ms, &stepped_ms, &err) < 0) {
        log_write(LOG_WARN, "the ledger's last time cannot be read", log_str("error", err.text));
        stepped_ms = 1; /* it may have stepped: nothing is dropped for an hour */
    }
    wallclock_start(&writer->wallclock, writer->app->clock.wall_ms(writer->app->clock.ctx),
                    now_ms(writer), last_ms, stepped_ms);
    writer->watches_clock = true;
}

/* A step back, however small, and one beyond a day are in the journal; else so time goes. */
static bool note_clock(struct writer *writer)
{
    must(!writer->batch.open);

    if (!writer->watches_clock)
        watch_clock(writer);
    writer->looked = writer->wallclock;
    const int64_t last = writer->wallclock.wall_ms;
    const int64_t wall = writer->app->clock.wall_ms(writer->app->clock.ctx);
    const int64_t expected = wallclock_look(&writer->wallclock, wall, now_ms(writer));
    const bool ahead = wall - expected > STORE_CLOCK_STEP_MS;

    writer->wall_ms = wall;
    store_doubt_clock(writer->app->store, wallclock_is_doubted(&writer->wallclock));
    if (!ahead && wall >= last - CLOCK_STEP_MS)
        return true;
    const int64_t before = ahead ? expected : last;
    log_write(LOG_WARN,
              ahead ? "more than a day went by at once on the wall clock: nothing is dropped "
                      "from the history until it has gone on for an hour"
                    : "the wall clock stepped back",
              log_i64("by_ms", ahead ? wall - before : before - wall));
    const struct command command = {.kind = COMMAND_CLOCK, .at_ms = wall, .clock_from_ms = before};
    return run(writer, &command);
}

/*
 * While the disk is broken binds are refused unseen, so somebody has to probe_write: a journal row.
 */
static bool probe_write(struct writer *writer)
{
    must(!writer->batch.lost);

    const struct command command = {
        .kind = COMMAND_CLOCK, .at_ms = writer->wall_ms, .clock_from_ms = writer->wall_ms};

    return !atomic_load(&writer->app->disk_broken) || run(writer, &command);
}

/* Once a second: time does things, too. */
static bool tick(struct writer *writer)
{
    must(!writer->batch.lost);

    const int64_t now = now_ms(writer);

    if (now < writer->tick_ms)
        return true;
    writer->tick_ms = now + TICK_MS;
    if (!atomic_load(&writer->app->safe_mode))
        verifier_memory(writer->app, writer->ledger, &writer->audit_place);
    hints_tend(writer->app->hints, now, writer, look_at_pod);
    return probe_write(writer) && tick_doubts(writer, now);
}

static void after_batch(struct writer *writer)
{
    must(!writer->batch.open && writer->batch.changes == 0);

    struct err err;

    claim_ledger(writer);
    const bool ready = app_ready(writer->app, NULL);
    if (ready && !writer->was_ready) {
        log_plain(LOG_INFO, "ready");
        wake(writer, some_node(writer));
    }
    writer->was_ready = ready;
    wake_for_the_late(writer);
    audit_meet(writer->app->verifier);
    /* A file that contradicts itself is kept as it is. */
    if (!atomic_load(&writer->app->safe_mode) &&
        writer->app->store_ops.maintain(writer->app->store_ops.ctx, writer->wall_ms, &err) < 0)
        log_write(LOG_WARN, "housekeeping of the ledger failed", log_str("error", err.text));
    drift_watch_step(writer->drift, now_ms(writer), writer->wall_ms);
}

/* Does it tell of the cluster?  Then its place among the others matters. */
static bool is_news(const struct message *message)
{
    return message->kind != MESSAGE_BIND && message->kind != MESSAGE_FETCHED &&
           message->kind != MESSAGE_OUTCOME;
}

/* While older news is kept, newer news goes behind it; returns how many are left. */
static size_t put_behind(struct writer *writer, struct message **message, size_t count)
{
    must(writer->keeps > 0 && count <= BATCH_MAX);

    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_news(message[i])) {
            message[left++] = message[i];
            continue;
        }
        writer->kept = xgrow(writer->kept, writer->keeps, &writer->keep_capacity, sizeof(void *));
        writer->kept[writer->keeps++] = message[i];
        writer->keep_bytes += message_bytes(message[i]);
    }
    return left;
}

static size_t take_kept(struct writer *writer, struct message **message)
{
    must(writer->keeps > 0);

    const size_t count = writer->keeps < BATCH_MAX ? writer->keeps : BATCH_MAX;

    memcpy(message, writer->kept, count * sizeof *message);
    for (size_t i = 0; i < count; i++)
        writer->keep_bytes -= message_bytes(message[i]);
    memmove(writer->kept, writer->kept + count, (writer->keeps - count) * sizeof *message);
    writer->keeps -= count;
    return count;
}

static void pause_ms(int64_t ms)
{
    must(ms >= 0 && ms <= RETRY_MS);

    const struct timespec pause = {.tv_nsec = ms * 1000000};

    (void)nanosleep(&pause, NULL);
}

/* What was kept comes first and alone: order among the cluster's news matters. */
static size_t collect(struct writer *writer, struct message **message, int64_t wait_ms)
{
    must(wait_ms >= 0);

    struct queue *queue = writer->app->queue;

    if (writer->keeps == 0)
        return queue_take(queue, (void **)message, BATCH_MAX, wait_ms);
    const int64_t left = writer->retry_ms - now_ms(writer);
    if (left <= 0)
        return take_kept(writer, message);
    const int64_t wait = left < wait_ms ? left : wait_ms;
    if (writer->keeps >= KEEP_MAX || writer->keep_bytes >= NEWS_BYTES_MAX) {
        pause_ms(wait);
        return 0;
    }
    return put_behind(writer, message, queue_take(queue, (void **)message, BATCH_MAX, wait));
}

size_t writer_step(struct writer *writer, int64_t wait_ms)
{
    must(wait_ms >= 0);
    must(writer->actions == 0);

    struct message *message[BATCH_MAX];

    const size_t taken = collect(writer, message, wait_ms);
    const uint64_t epoch = writer->epoch;
    size_t count = 0;
    writer->pods_ended = writer->nodes_ended = false;
    bool whole = note_clock(writer);
    /* The end of a list ends the batch: the next list begins when this one is on disk. */
    while (count < taken && whole && !writer->pods_ended && !writer->nodes_ended)
        whole = handle(writer, &message[count++]);
    whole = whole && tick(writer) && heal_duplicates(writer);
    must(whole || writer->batch.lost);
    if (batch_end(&writer->batch)) {
        leave_over(writer, message + count, taken - count);
        batch_kept(writer, message, count);
    } else {
        batch_lost(writer, message, taken);
        writer->epoch = epoch; /* tried again, a list is the same one: it spares whom it spared */
    }
    send_replies(writer);
    batch_reset(&writer->batch);
    if (writer->pods_ended || writer->nodes_ended)
        (void)malloc_trim(0); /* a list takes many times what stays of it; in the 18 ms above */
    after_batch(writer);
    return taken;
}
