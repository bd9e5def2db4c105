/*
 * Turns the objects of two reflectors, nodes before pods, into messages to the writer, except
 * heartbeats of Nodes (node_digests.h). daemon.c steps it on the informer thread and passes the
 * answers of kube_ops; all of it belongs to that thread. An object that can be read only in part is
 * marked and never dropped: GPUs that are not counted would be granted again (docs/why/011). If
 * even its name cannot be read, the reflector gets an error and lists again. In order: messages,
 * the reflector's callbacks, opening, additional lists, steps.
 */
#include "milligpu/sync/informer.h"

#include "milligpu/base/alloc.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/key_publisher.h"
#include "milligpu/sync/node_digests.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/usage/usage_table.h"

enum {
    PAGE_ITEMS = 500,
    WATCH_MS = 300000, /* jittered by the reflector, as client-go does */
    /* timeout of a silent watch; bookmarks arrive about once a minute, on 1.31 sometimes never */
    SILENCE_MS = 90000,
    LIST_TIMEOUT_MS = 60000,
    /* share of the queue, in messages: binds need room */
    QUEUE_SHARE = 1024,
    /* share in bytes: as many pods take that much, and a node takes 13 KiB */
    QUEUE_BYTES = 5 * 1024 * 1024,
    SCRATCH_KEEP_BYTES = 64 * 1024,
    REPORTED_MAX = 1024,
    LIST_AGAIN_MS = 60000,
};

/* Excludes ended pods, which hold nothing: the end of a pod arrives as its deletion. */
static const char live_pods[] =
    "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";

/* An object's bytes, or those of a page from the object on. */
struct object_source {
    struct text text;
    bool is_first; /* the end of the object is not known; source_take() cuts text to it */
};

/* One resource, and the kinds of its messages. */
struct stream {
    struct informer *informer;
    const char *resource;
    struct reflector *reflector;
    int (*decode)(struct stream *stream, struct message *message, struct object_source *source,
                  struct err *err);
    enum message_kind begin;
    enum message_kind listed;
    enum message_kind end;
    enum message_kind failed;
    enum message_kind changed;
    enum message_kind deleted;
    atomic_int_fast64_t *last_seen_ms;
    uint64_t watches;                /* number of watches already in the metric */
    uint32_t reported[REPORTED_MAX]; /* hashes of logged complaints, by hash; the latest stay */
    bool after_grace;                /* the list began after a new ledger's grace period */
    /* of the last line of the watch, if it has one */
    bool has_digest;
    struct node_digest digest;
};

struct informer {
    struct app *app;
    const struct kube_ops *ops;
    struct stream nodes;
    struct stream pods;
    struct arena scratch;  /* for one pod while it is decoded */
    int64_t list_again_ms; /* earliest time of the next additional list, monotonic */
    uint32_t lists_again;
};

/*
 * Blocks while the informer's share of the queue is full: the thread then stops reading from the
 * API server, and the rest of the queue stays free for binds. Returns false if the daemon is
 * stopping, and the message was dropped.
 */
static bool informer_put(struct stream *stream, struct message *take_message)
{
    must(take_message != NULL);

    const struct queue_share share = {QUEUE_SHARE, QUEUE_BYTES};
    const size_t bytes = message_bytes(take_message);

    if (queue_put_below(stream->informer->app->queue, take_message, bytes, share))
        return true;
    message_free(take_message);
    return false;
}

/* bytes: the length of the object; 0: it cannot be decoded without its end. */
static int source_take(struct object_source *source, size_t bytes, struct err *err)
{
    must(bytes <= source->text.len);
    if (bytes == 0)
        return err_set(err, ERR_INVALID, "the end of the object must be found first");
    source->text.len = bytes;
    return 0;
}

/*
 * Logs a partly unreadable object, which is counted all the same. Once per object, because a user
 * may write it again and again.
 */
static void informer_complain(struct stream *stream, const char *uid, const char *name,
                              const char *unreadable)
{
    const uint32_t hash = text_hash(text_of(uid)) * 31 + text_hash(text_of(unreadable));
    uint32_t *slot = &stream->reported[hash % REPORTED_MAX];

    must(unreadable[0] != '\0');
    metric_add(M_UNREADABLE, LABEL_VALUES(stream->resource), 1);
    if (*slot == hash)
        return;
    *slot = hash;
    log_write(LOG_WARN, "an object can be read only in part", log_str("resource", stream->resource),
              log_str("name", name), log_str("error", unreadable));
}

/* The queue holds only the decoded part of the object, which may be a thousand times as large. */
static int decode_pod(struct stream *stream, struct message *message, struct object_source *source,
                      struct err *err)
{
    const struct wire_rules *rules = &stream->informer->app->rules.wire_rules;
    struct arena *scratch = &stream->informer->scratch;
    struct pod pod;
    int rc;

    if (source->is_first)
        rc = source_take(source, pod_decode_first(source->text, rules, scratch, &pod), err);
    else
        rc = pod_decode(source->text, rules, scratch, &pod, err);
    if (rc == 0) {
        pod_cache_check_signature(stream->informer->app->pod_cache, &pod); /* not by the writer */
        message->pod = *pod_keep(&pod, &message->arena);
    }
    if (rc == 0 && pod.ours && pod.unreadable != NULL)
        informer_complain(stream, pod.uid, pod.name, pod.unreadable);
    if (source->text.len > SCRATCH_KEEP_BYTES)
        arena_done(scratch);
    else
        arena_reset(scratch);
    return rc;
}

/* All texts of the facts are in the arena: none points into the object. */
static int decode_node(struct stream *stream, struct message *message, struct object_source *source,
                       struct err *err)
{
    const struct wire_rules *rules = &stream->informer->app->rules.wire_rules;
    struct node_facts *node = &message->node;
    int rc;

    if (source->is_first)
        rc =
            source_take(source, node_decode_first(source->text, rules, &message->arena, node), err);
    else
        rc = node_decode(source->text, rules, &message->arena, node, err);
    if (rc == 0 && node->unreadable != NULL)
        informer_complain(stream, node->uid, node->name, node->unreadable);
    return rc;
}

/*
 * The keys of agents bypass the ledger: no grant depends on them. A digest (NULL: none) is
 * remembered before the message is put, so that what its handling changes is forgotten later; else
 * that of an earlier event is forgotten. A Node that can be read only in part is not remembered:
 * each of its events is counted.
 */
static void note_node(const struct stream *stream, const struct message *message,
                      const struct node_digest *digest)
{
    const struct app *app = stream->informer->app;
    const struct node_facts *node = &message->node;

    if (message->kind == stream->deleted)
        usage_table_node_gone(app->usage_table, node->name);
    else
        usage_table_node(app->usage_table, node->name, node->agent_key);
    if (digest != NULL && node->unreadable == NULL)
        node_digests_remember(app->node_digests, digest);
    else
        node_digests_forget(app->node_digests, text_of(node->name));
}

/*
 * source is borrowed from the reflector for the call, so the message holds copies. digest: of a
 * Node, to be remembered; or NULL.
 */
static int send_source(struct stream *stream, enum message_kind kind, struct object_source *source,
                       const struct node_digest *digest, struct err *err)
{
    struct message *message = message_new(kind);
    must(source->text.len > 0);
    const int rc = stream->decode(stream, message, source, err);

    if (rc < 0) {
        message_free(message);
        return rc;
    }
    if (stream == &stream->informer->nodes)
        note_node(stream, message, digest);
    if (!informer_put(stream, message))
        node_digests_clear(stream->informer->app->node_digests);
    return rc;
}

static int send_object(struct stream *stream, enum message_kind kind, struct text object,
                       const struct node_digest *digest, struct err *err)
{
    struct object_source source = {.text = object};
    return send_source(stream, kind, &source, digest, err);
}

/* asked_ms is the time of the request: the list contains everything that happened before. */
static void list_begin(void *user)
{
    struct stream *stream = user;
    struct message *message = message_new(stream->begin);
    struct reflector_stats stats;

    must(stream->reflector != NULL);
    reflector_stats(stream->reflector, &stats);
    if (stream->begin == MESSAGE_PODS_BEGIN) {
        message->asked_ms = stats.asked_ms;
    } else {
        usage_table_list_begin(stream->informer->app->usage_table);
        node_digests_clear(stream->informer->app->node_digests);
    }
    (void)informer_put(stream, message);
}

static int informer_listed(void *user, struct text object, struct err *err)
{
    must(object.at != NULL);

    struct stream *stream = user;
    return send_object(stream, stream->listed, object, NULL, err);
}

static size_t informer_listed_first(void *user, struct text rest)
{
    struct stream *stream = user;
    struct object_source source = {.text = rest, .is_first = true};
    struct err ignored; /* informer_listed() will say it */

    if (send_source(stream, stream->listed, &source, NULL, &ignored) < 0)
        return 0;
    must(source.text.len > 0);
    return source.text.len;
}

/* Passes the version of the snapshot, by which the writer judges pods missing from the list. */
static void list_end(void *user, const char *resource_version)
{
    struct stream *stream = user;
    struct message *message = message_new(stream->end);

    must(resource_version != NULL);
    if (stream->end == MESSAGE_PODS_END)
        message->pods_end =
            (struct pod_list_end){version_number(resource_version), stream->after_grace};
    else
        usage_table_list_end(stream->informer->app->usage_table);
    (void)informer_put(stream, message);
}

static void list_failed(void *user)
{
    struct stream *stream = user;
    (void)informer_put(stream, message_new(stream->failed));
}

/*
 * With advertised capacity (setting advertise) each event counts: a write that failed is retried,
 * and a capacity that was raised for pods is lowered, by the next event of the Node.
 */
static bool may_repeat(const struct stream *stream)
{
    const struct informer *informer = stream->informer;

    return stream == &informer->nodes && !informer->app->rules.inventory_rules.advertise;
}

/* Drops a heartbeat of a Node that changes nothing (node_digests.h) before it is decoded. */
static bool informer_repeats(void *user, struct text line, struct arena *arena,
                             const char **out_version)
{
    struct stream *stream = user;
    struct node_digests *digests = stream->informer->app->node_digests;

    stream->has_digest =
        may_repeat(stream) && node_digest(line, node_digests_key(digests), arena, &stream->digest);
    if (!stream->has_digest || !node_digests_has(digests, &stream->digest))
        return false;
    *out_version = stream->digest.version;
    return true;
}

static int informer_changed(void *user, struct text object, struct err *err)
{
    struct stream *stream = user;
    const struct node_digest *digest = stream->has_digest ? &stream->digest : NULL;

    return send_object(stream, stream->changed, object, digest, err);
}

static int informer_deleted(void *user, struct text object, struct err *err)
{
    struct stream *stream = user;
    return send_object(stream, stream->deleted, object, NULL, err);
}

static void informer_trouble(void *user, const struct err *err)
{
    must(err->code != ERR_NONE);

    struct stream *stream = user;
    struct app *app = stream->informer->app;

    atomic_store(&app->watch.api_error_ms, app->clock.now_ms(app->clock.ctx));
    log_write(LOG_WARN, "a list or watch failed", log_str("resource", stream->resource),
              log_str("error", err->text));
}

/* Each reflector has its own 2^32 ids, so late answers to a freed one are ignored. */
static void open_stream(struct stream *stream, const struct kube_ops *ops, const char *path,
                        const char *selector, uint64_t id_base)
{
    must(path[0] == '/');
    must(stream->decode != NULL);

    struct app *app = stream->informer->app;
    const struct reflector_rules rules = {
        .path = path,
        .selector = selector,
        .page = PAGE_ITEMS,
        .watch_ms = WATCH_MS,
        .silence_ms = SILENCE_MS,
        .list_timeout_ms = LIST_TIMEOUT_MS,
        .seed = (uint64_t)app->clock.wall_ms(app->clock.ctx) ^ id_base,
        .id_base = id_base,
    };
    const struct reflector_sink sink = {
        .user = stream,
        .list_begin = list_begin,
        .listed = informer_listed,
        .listed_first = informer_listed_first,
        .list_end = list_end,
        .list_failed = list_failed,
        .changed = informer_changed,
        .deleted = informer_deleted,
        .trouble = informer_trouble,
        .repeats = informer_repeats,
    };

    stream->reflector = reflector_new(&rules, ops, &sink);
}

static void open_pods(struct informer *informer, uint64_t id_base)
{
    must(informer->pods.reflector == NULL);
    open_stream(&informer->pods, informer->ops, "/api/v1/pods", live_pods, id_base);
}

struct informer *informer_new(struct app *app, const struct kube_ops *ops)
{
    must(app->queue != NULL && ops->start != NULL);

    struct informer *informer = xcalloc(1, sizeof *informer);

    informer->app = app;
    informer->ops = ops;
    arena_init(&informer->scratch);
    informer->nodes = (struct stream){
        .informer = informer,
        .resource = "nodes",
        .decode = decode_node,
        .begin = MESSAGE_NODES_BEGIN,
        .listed = MESSAGE_NODE_LISTED,
        .end = MESSAGE_NODES_END,
        .failed = MESSAGE_NODES_FAILED,
        .changed = MESSAGE_NODE,
        .deleted = MESSAGE_NODE_DELETED,
        .last_seen_ms = &app->watch.nodes_seen_ms,
    };
    informer->pods = (struct stream){
        .informer = informer,
        .resource = "pods",
        .decode = decode_pod,
        .begin = MESSAGE_PODS_BEGIN,
        .listed = MESSAGE_POD_LISTED,
        .end = MESSAGE_PODS_END,
        .failed = MESSAGE_PODS_FAILED,
        .changed = MESSAGE_POD,
        .deleted = MESSAGE_POD_DELETED,
        .last_seen_ms = &app->watch.pods_seen_ms,
    };
    open_stream(&informer->nodes, ops, "/api/v1/nodes", NULL, (uint64_t)1 << 32);
    open_pods(informer, (uint64_t)2 << 32);
    return informer;
}

void informer_free(struct informer *informer)
{
    if (informer == NULL)
        return;
    reflector_free(informer->nodes.reflector);
    reflector_free(informer->pods.reflector);
    arena_done(&informer->scratch);
    xfree(informer);
}

/*
 * Counts restarts of the watch; the first watch of a reflector is none. A new reflector has seen
 * nothing yet, and the former one had.
 */
static void note_stats(struct stream *stream)
{
    struct reflector_stats stats;

    reflector_stats(stream->reflector, &stats);
    if (stats.last_seen_ms > 0)
        atomic_store(stream->last_seen_ms, stats.last_seen_ms);
    const uint64_t first = stream->watches == 0 && stats.watches > 0;
    if (stats.watches > stream->watches + first)
        metric_add(M_WATCH_RESTARTS, LABEL_VALUES(stream->resource),
                   stats.watches - stream->watches - first);
    stream->watches = stats.watches;
}

/*
 * At the end of a new ledger's grace period: begins a list, which contains the Bindings that may
 * have been in flight before. Returns the ms until then; INT64_MAX if there is nothing to wait for.
 */
static int64_t list_again_after_grace(struct informer *informer, int64_t now_ms)
{
    const int64_t grace_ends_ms = atomic_load(&informer->app->grace.grace_ends_ms);

    must(now_ms >= 0);
    if (grace_ends_ms == 0 || informer->pods.after_grace)
        return INT64_MAX;
    if (now_ms < grace_ends_ms)
        return grace_ends_ms - now_ms;
    reflector_free(informer->pods.reflector);
    informer->pods.reflector = NULL;
    informer->pods.watches = 0;
    informer->pods.after_grace = true;
    open_pods(informer, (uint64_t)4 << 32); /* 3 is used by cluster_identity.c */
    return INT64_MAX;
}

/*
 * Begins a list when one is needed (app.h, list_again); at most one per LIST_AGAIN_MS. Returns the
 * ms until then; INT64_MAX if none is needed.
 */
static int64_t list_again_when_needed(struct informer *informer, int64_t now_ms)
{
    struct reflector_stats stats;

    must(now_ms >= 0);
    if (!atomic_load(&informer->app->watch.list_again))
        return INT64_MAX;
    reflector_stats(informer->pods.reflector, &stats);
    if (!stats.synced)
        return INT64_MAX; /* a list is in progress */
    if (now_ms < informer->list_again_ms)
        return informer->list_again_ms - now_ms;
    atomic_store(&informer->app->watch.list_again, false);
    informer->list_again_ms = now_ms + LIST_AGAIN_MS;
    reflector_free(informer->pods.reflector);
    informer->pods.reflector = NULL;
    informer->pods.watches = 0;
    /* 1 to 5 are used by others */
    open_pods(informer, (uint64_t)(6 + informer->lists_again++) << 32);
    return INT64_MAX;
}

/* Pods are listed after the nodes, and with a new ledger after the keys that verify allocations. */
static bool pods_may_come(const struct informer *informer)
{
    const struct app *app = informer->app;
    struct reflector_stats nodes;

    reflector_stats(informer->nodes.reflector, &nodes);
    return nodes.synced && (!atomic_load(&app->grace.new_ledger) || app->key_publisher == NULL ||
                            key_publisher_has_looked(app->key_publisher));
}

int64_t informer_step(struct informer *informer, int64_t now_ms)
{
    must(now_ms >= 0);

    int64_t wait = reflector_step(informer->nodes.reflector, now_ms);

    note_stats(&informer->nodes);
    if (pods_may_come(informer)) {
        const int64_t grace = list_again_after_grace(informer, now_ms);
        wait = grace < wait ? grace : wait;
        const int64_t again = list_again_when_needed(informer, now_ms);
        wait = again < wait ? again : wait;
        const int64_t pods = reflector_step(informer->pods.reflector, now_ms);
        wait = pods < wait ? pods : wait;
        note_stats(&informer->pods);
    }
    return wait;
}

void informer_answer(struct informer *informer, int64_t now_ms, const struct kube_answer *answer)
{
    must(answer->id != 0);

    if (!reflector_answer(informer->nodes.reflector, now_ms, answer))
        (void)reflector_answer(informer->pods.reflector, now_ms, answer);
}
