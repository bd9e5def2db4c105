/*
 * bench_events - what one event of each kind costs the writer's thread, at three cluster sizes.
 *
 * The writer with the real store on a file, half of all milli held, the pod cache filled; no other
 * thread. One message is put into the queue, and the CPU time of one writer_step() is taken. That
 * covers everything that follows from the message: deciding, writing, committing, publishing and
 * checking; "own" is the same without the store. The clock stands still unless time itself is the
 * event. As a reference from the same run, rows are inserted into a separate table on the same
 * disk, each with a commit of its own.
 */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/spine/message.h"
#include "milligpu/store/store.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/writer/writer.h"

#include "cluster.h"
#include "half_full.h"
#include "measure.h"
#include "messages.h"
#include "standstill.h"
#include "webhook_fixture.h"

enum {
    EVENTS = 200,     /* of each kind */
    MORE = 100,       /* rows of the reference table */
    FAR_NODE = 20000, /* node numbers beyond those of any cluster here */
    LOOK_MS = 2000,
    PUT_OFF_MS = 10,
    TICK_MS = 1000,
    STEPS_MAX = 100000,
    BATCH_OF = 128,
};

struct bench_daemon {
    struct webhook_fixture fixture;
    struct store *store;
    struct kube_ops nowhere;
    uint32_t nodes;
    uint32_t pods; /* bound pods in the cluster */
    uint32_t next_pod;
    uint64_t seed;
    bool refused; /* the last bind that was answered */
    struct store_ops real_store;
    int64_t store_ns; /* CPU in the store since the last event began */
};

/* --- the store's part of the time --- */

static int timed_begin(void *ctx, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    const int64_t before = cpu_ns();
    const int rc = daemon->real_store.begin(daemon->real_store.ctx, err);

    daemon->store_ns += cpu_ns() - before;
    return rc;
}

static enum store_outcome timed_write(void *ctx, const struct command *command,
                                      const struct change *change, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    const int64_t before = cpu_ns();
    const enum store_outcome outcome =
        daemon->real_store.write(daemon->real_store.ctx, command, change, err);

    daemon->store_ns += cpu_ns() - before;
    return outcome;
}

static int timed_commit(void *ctx, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    const int64_t before = cpu_ns();
    const int rc = daemon->real_store.commit(daemon->real_store.ctx, err);

    daemon->store_ns += cpu_ns() - before;
    return rc;
}

static void timed_rollback(void *ctx)
{
    struct bench_daemon *daemon = ctx;
    daemon->real_store.rollback(daemon->real_store.ctx);
}

static int timed_maintain(void *ctx, int64_t wall_ms, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    const int64_t before = cpu_ns();
    const int rc = daemon->real_store.maintain(daemon->real_store.ctx, wall_ms, err);

    daemon->store_ns += cpu_ns() - before;
    return rc;
}

static int timed_learn(void *ctx, const struct tally *tally, int64_t until_ms, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    const int64_t before = cpu_ns();
    const int rc = daemon->real_store.learn(daemon->real_store.ctx, tally, until_ms, err);

    daemon->store_ns += cpu_ns() - before;
    return rc;
}

static int timed_measure(void *ctx, const struct store_chunk *chunk, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    const int64_t before = cpu_ns();
    const int rc = daemon->real_store.measure(daemon->real_store.ctx, chunk, err);

    daemon->store_ns += cpu_ns() - before;
    return rc;
}

static int timed_keep_policy(void *ctx, const struct store_policy *policy, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    const int64_t before = cpu_ns();
    const int rc = daemon->real_store.keep_policy(daemon->real_store.ctx, policy, err);

    daemon->store_ns += cpu_ns() - before;
    return rc;
}

static int timed_remember(void *ctx, const struct agents *agents, size_t max, size_t *out_count,
                          struct err *err)
{
    struct bench_daemon *daemon = ctx;
    const int64_t before = cpu_ns();
    const int rc = daemon->real_store.remember(daemon->real_store.ctx, agents, max, out_count, err);

    daemon->store_ns += cpu_ns() - before;
    return rc;
}

static void bind_answered(void *to, const char *error)
{
    struct bench_daemon *daemon = to;

    daemon->refused = error != NULL;
}

/* --- set-up and tear-down --- */

static void bench_daemon_start(struct bench_daemon *daemon, const char *folder, uint32_t nodes)
{
    struct app *app = &daemon->fixture.app;
    char path[4096];
    struct err err;

    *daemon = (struct bench_daemon){.nodes = nodes, .seed = 7};
    standstill_ms = 1000;
    must((size_t)snprintf(path, sizeof path, "%s/%u.db", folder, nodes) < sizeof path);
    daemon->store = cluster_store(path, false);
    store_ops(daemon->store, &daemon->real_store);
    daemon->nowhere = standstill_server();
    const struct app_edges edges = {.clock = standstill_clock(),
                                    .store = daemon->store,
                                    .store_ops = {.ctx = daemon,
                                                  .begin = timed_begin,
                                                  .write = timed_write,
                                                  .commit = timed_commit,
                                                  .rollback = timed_rollback,
                                                  .maintain = timed_maintain,
                                                  .learn = timed_learn,
                                                  .measure = timed_measure,
                                                  .keep_policy = timed_keep_policy,
                                                  .remember = timed_remember},
                                    .watch = &daemon->nowhere,
                                    .calls = &daemon->nowhere};
    webhook_fixture_init(&daemon->fixture, &edges);
    daemon->fixture.settings.events = false;
    daemon->pods = half_full(&daemon->fixture.app, nodes);
    must(writer_load(daemon->fixture.parts.writer, &err) == 0);
    must(queue_put(app->queue, message_new(MESSAGE_NODES_BEGIN)));
    (void)writer_step(daemon->fixture.parts.writer, 0);
}

static void bench_daemon_stop(struct bench_daemon *daemon)
{
    webhook_fixture_done(&daemon->fixture);
    store_close(daemon->store);
}

/* --- one event --- */

static int64_t step(struct bench_daemon *daemon)
{
    daemon->store_ns = 0;
    const int64_t before = cpu_ns();
    (void)writer_step(daemon->fixture.parts.writer, 0);
    return cpu_ns() - before;
}

static int64_t take(struct bench_daemon *daemon, struct message *take_message)
{
    must(queue_put(daemon->fixture.app.queue, take_message));
    return step(daemon);
}

/* The writer puts it off, and no batch comes in which it could ride. */
static int64_t take_alone(struct bench_daemon *daemon, struct message *take_message)
{
    const int64_t spent = take(daemon, take_message);

    standstill_ms += PUT_OFF_MS;
    return spent + step(daemon);
}

/* Step until nothing is left to check; returns the CPU time that this took. */
static int64_t bench_wait_until_quiet(struct bench_daemon *daemon)
{
    int64_t spent = 0;
    uint32_t quiet = 0;

    standstill_ms += LOOK_MS;
    for (uint32_t i = 0; quiet < 3 && i < STEPS_MAX; i++) {
        const int64_t cost = step(daemon);
        quiet = cost < 200000 ? quiet + 1 : 0;
        spent += cost;
    }
    return spent;
}

static struct message *bind_message(struct bench_daemon *daemon, uint32_t pod, uint32_t node)
{
    const struct bind_reply reply = {bind_answered, daemon};
    return message_of_bind(pod, node, standstill_ms, reply);
}

/* --- the kinds of event --- */

enum kind {
    POD_ADDED,
    POD_CHANGED,
    BIND,
    OUTCOME,
    POD_BOUND,
    POD_ENDED,
    DOUBT,
    DOUBT_ENDED,
    POD_DELETED,
    STRANGER_BOUND,
    NODE_SAME,
    NODE_CHANGED,
    NODE_ADDED,
    NODE_GONE,
    DRIFT_APPEARS,
    DRIFT_HEALS,
    TICK,
    NOTHING,
    KINDS,
};

static const char *const kind_names[KINDS] = {
    "pod_added",     "pod_changed", "bind",          "outcome_bound",  "pod_bound", "pod_ended",
    "outcome_doubt", "doubt_ended", "pod_deleted",   "stranger_bound", "node_same", "node_changed",
    "node_added",    "node_gone",   "drift_appears", "drift_heals",    "tick",      "idle_step",
};

struct costs {
    struct series of[KINDS];
    struct series own[KINDS]; /* without the store */
};

static void note(struct bench_daemon *daemon, struct costs *costs, enum kind kind, int64_t spent)
{
    series_add(&costs->of[kind], spent);
    series_add(&costs->own[kind], spent - daemon->store_ns);
}

/* A pod from its creation to its end. */
static void live(struct bench_daemon *daemon, struct costs *costs)
{
    const uint32_t pod = daemon->pods + daemon->next_pod++;
    const uint32_t node = draw(&daemon->seed, daemon->nodes);
    char host[NODE_NAME_BYTES];

    cluster_node_name(node, host);
    note(daemon, costs, POD_ADDED, take(daemon, message_of_pod(MESSAGE_POD, pod, "", "10")));
    note(daemon, costs, POD_CHANGED, take(daemon, message_of_pod(MESSAGE_POD, pod, "", "10")));
    daemon->refused = false;
    const int64_t bind = take(daemon, bind_message(daemon, pod, node));
    if (daemon->refused) {
        (void)take(daemon, message_of_pod(MESSAGE_POD_DELETED, pod, "", "10"));
        return; /* the node is full */
    }
    note(daemon, costs, BIND, bind);
    if (daemon->next_pod % 2 == 0) {
        note(daemon, costs, OUTCOME, take_alone(daemon, message_of_outcome(pod, OUTCOME_BOUND)));
        note(daemon, costs, POD_BOUND, take(daemon, message_of_pod(MESSAGE_POD, pod, host, "10")));
        struct message *ended = message_of_pod(MESSAGE_POD, pod, host, "10");
        ended->pod.phase = POD_SUCCEEDED;
        note(daemon, costs, POD_ENDED, take(daemon, ended));
    } else {
        note(daemon, costs, DOUBT, take(daemon, message_of_outcome(pod, OUTCOME_UNKNOWN)));
        note(daemon, costs, DOUBT_ENDED,
             take_alone(daemon, message_of_pod(MESSAGE_POD, pod, host, "10")));
        note(daemon, costs, POD_DELETED,
             take(daemon, message_of_pod(MESSAGE_POD_DELETED, pod, host, "10")));
    }
}

static void live_behind_our_back(struct bench_daemon *daemon, struct costs *costs)
{
    const uint32_t pod = daemon->pods + daemon->next_pod++;
    char host[NODE_NAME_BYTES];

    cluster_node_name(draw(&daemon->seed, daemon->nodes), host);
    note(daemon, costs, STRANGER_BOUND, take(daemon, message_of_pod(MESSAGE_POD, pod, host, "10")));
    standstill_ms += LOOK_MS;
    note(daemon, costs, DRIFT_APPEARS, step(daemon));
    (void)take(daemon, message_of_pod(MESSAGE_POD_DELETED, pod, host, "10"));
    standstill_ms += LOOK_MS;
    note(daemon, costs, DRIFT_HEALS, step(daemon));
}

static void node_events(struct bench_daemon *daemon, struct costs *costs)
{
    const uint32_t node = draw(&daemon->seed, daemon->nodes);
    const uint32_t far = FAR_NODE + draw(&daemon->seed, FAR_NODE);

    note(daemon, costs, NODE_SAME, take(daemon, message_of_node(MESSAGE_NODE, node, NULL)));
    note(daemon, costs, NODE_CHANGED, take(daemon, message_of_node(MESSAGE_NODE, node, "all")));
    (void)take(daemon, message_of_node(MESSAGE_NODE, node, NULL));
    note(daemon, costs, NODE_ADDED, take(daemon, message_of_node(MESSAGE_NODE, far, NULL)));
    note(daemon, costs, NODE_GONE, take(daemon, message_of_node(MESSAGE_NODE_DELETED, far, NULL)));
}

/* A second without messages: the cost of the tick, and of a step with nothing due. */
static void time_passes(struct bench_daemon *daemon, struct costs *costs)
{
    daemon->fixture.settings.verify_interval_s = 3600; /* each tick verifies a part of memory */
    (void)bench_wait_until_quiet(daemon);
    standstill_ms += TICK_MS;
    note(daemon, costs, TICK, step(daemon));
    note(daemon, costs, NOTHING, step(daemon));
    daemon->fixture.settings.verify_interval_s = 0;
}

/* --- a thousand reservations in doubt: the tick checks each --- */

static void doubts_of_many(struct bench_daemon *daemon, uint32_t count)
{
    char name[96];
    struct series series;

    series_init(&series);
    const uint32_t first = daemon->pods + daemon->next_pod;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t pod = daemon->pods + daemon->next_pod++;
        (void)take(daemon, message_of_pod(MESSAGE_POD, pod, "", "1"));
        (void)take(daemon, bind_message(daemon, pod, draw(&daemon->seed, daemon->nodes)));
        (void)take(daemon, message_of_outcome(pod, OUTCOME_UNKNOWN));
    }
    for (uint32_t i = 0; i < 10; i++) {
        standstill_ms += TICK_MS;
        (void)step(daemon); /* this step may check for drift */
        standstill_ms += TICK_MS;
        series_add(&series, step(daemon));
    }
    (void)snprintf(name, sizeof name, "events.%u_nodes.tick_of_%u_doubts", daemon->nodes, count);
    series_say(&series, name);
    series_done(&series);
    for (uint32_t i = 0; i < count; i++)
        (void)take(daemon, message_of_pod(MESSAGE_POD_DELETED, first + i, "", "1"));
}

/* --- all nodes at once: nine drifts on each node appear and heal together --- */

static void all_nodes(struct bench_daemon *daemon, bool here)
{
    for (uint32_t i = 0; i < daemon->nodes; i++) {
        must(queue_put(daemon->fixture.app.queue,
                       message_of_node(here ? MESSAGE_NODE : MESSAGE_NODE_DELETED, i, NULL)));
        if (i % BATCH_OF == BATCH_OF - 1 || i + 1 == daemon->nodes)
            (void)step(daemon);
    }
}

static void storm(struct bench_daemon *daemon)
{
    char name[96];

    (void)bench_wait_until_quiet(daemon);
    all_nodes(daemon, false);
    const int64_t came = bench_wait_until_quiet(daemon);
    all_nodes(daemon, true);
    const int64_t went = bench_wait_until_quiet(daemon);
    (void)snprintf(name, sizeof name, "events.%u_nodes.all_drift_appears", daemon->nodes);
    say(name, (double)came / 1e6, "ms");
    (void)snprintf(name, sizeof name, "events.%u_nodes.all_drift_heals", daemon->nodes);
    say(name, (double)went / 1e6, "ms");
}

/* --- a list of objects already known: the cost of its end, and of the whole list --- */

static void list_anew(struct bench_daemon *daemon)
{
    const struct snapshot *snapshot = view_take(daemon->fixture.app.view);
    const struct node *node;
    char name[96];

    (void)bench_wait_until_quiet(daemon);
    int64_t spent = take(daemon, message_new(MESSAGE_PODS_BEGIN));
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_allocations; i++)
            spent += take(daemon, message_of_listed(node->allocation[i], node));
    snapshot_unref(snapshot);
    const int64_t end = take(daemon, message_new(MESSAGE_PODS_END));
    (void)snprintf(name, sizeof name, "events.%u_nodes.pods_listed", daemon->nodes);
    say(name, (double)spent / 1e6, "ms");
    (void)snprintf(name, sizeof name, "events.%u_nodes.pods_list_ends", daemon->nodes);
    say(name, (double)end / 1e6, "ms");
    (void)take(daemon, message_new(MESSAGE_NODES_BEGIN));
    for (uint32_t i = 0; i < daemon->nodes; i++)
        (void)take(daemon, message_of_node(MESSAGE_NODE_LISTED, i, NULL));
    (void)snprintf(name, sizeof name, "events.%u_nodes.nodes_list_ends", daemon->nodes);
    say(name, (double)take(daemon, message_new(MESSAGE_NODES_END)) / 1e6, "ms");
}

static void measure(const char *folder, uint32_t nodes, uint32_t events)
{
    struct costs costs;
    struct bench_daemon daemon;
    char name[96];

    bench_daemon_start(&daemon, folder, nodes);
    for (size_t i = 0; i < KINDS; i++) {
        series_init(&costs.of[i]);
        series_init(&costs.own[i]);
    }
    (void)bench_wait_until_quiet(&daemon);
    for (uint32_t i = 0; i < events; i++) {
        live(&daemon, &costs);
        node_events(&daemon, &costs);
    }
    must(costs.of[BIND].count > events / 2);
    for (uint32_t i = 0; i < events; i++)
        live_behind_our_back(&daemon, &costs);
    for (uint32_t i = 0; i < events / 4; i++)
        time_passes(&daemon, &costs);
    for (size_t i = 0; i < KINDS; i++) {
        (void)snprintf(name, sizeof name, "events.%u_nodes.%s", nodes, kind_names[i]);
        series_say(&costs.of[i], name);
        (void)snprintf(name, sizeof name, "events.%u_nodes.%s.own", nodes, kind_names[i]);
        series_say(&costs.own[i], name);
        series_done(&costs.of[i]);
        series_done(&costs.own[i]);
    }
    doubts_of_many(&daemon, 1000);
    list_anew(&daemon);
    storm(&daemon);
    bench_daemon_stop(&daemon);
}

/* --- the reference --- */

static void row(sqlite3_stmt *insert, int64_t number)
{
    must(sqlite3_bind_int64(insert, 1, number) == SQLITE_OK);
    must(sqlite3_step(insert) == SQLITE_DONE);
    must(sqlite3_reset(insert) == SQLITE_OK);
}

static void reference(const char *folder, const char *name)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;
    struct series series;
    char path[4096];

    must((size_t)snprintf(path, sizeof path, "%s/reference.db", folder) < sizeof path);
    must(sqlite3_open(path, &db) == SQLITE_OK);
    must(sqlite3_exec(db,
                      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                      "CREATE TABLE IF NOT EXISTS t(x INTEGER)",
                      NULL, NULL, NULL) == SQLITE_OK);
    must(sqlite3_prepare_v2(db, "INSERT INTO t VALUES (?1)", -1, &insert, NULL) == SQLITE_OK);
    series_init(&series);
    for (int64_t i = 0; i < MORE; i++) {
        const int64_t before = cpu_ns();
        row(insert, i);
        series_add(&series, cpu_ns() - before);
    }
    series_say(&series, name);
    series_done(&series);
    must(sqlite3_finalize(insert) == SQLITE_OK);
    must(sqlite3_close(db) == SQLITE_OK);
}

int main(int argc, char **argv)
{
    static const uint32_t nodes[] = {100, 1000, 15000};
    struct options options;
    char folder[4096];

    if (!options_read(argc, argv, &options))
        return 2;
    folder_make(options.folder, folder, sizeof folder);
    reference(folder, "events.reference.row_before");
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
        measure(folder, nodes[i], options.quick ? EVENTS / 4 : EVENTS);
    reference(folder, "events.reference.row_after");
    folder_drop(folder);
    return 0;
}
