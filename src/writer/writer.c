/*
 * The writer's loop. The daemon's writer thread calls writer_step() once the cluster is identified;
 * the simulator calls it one step at a time. A step takes up to BATCH_MAX messages and handles all
 * within one transaction; then come the tick, COMMIT, post-commit actions, wake-ups and replies,
 * and last the work between two transactions (after_batch()). Memory and disk agree after each
 * step, even after a failure. No message about the cluster is dropped: a lost batch keeps its
 * messages (writer_lost.c). A bind is answered exactly once; that a pod is bound is answered before
 * it is written, and written with the next batch (writer_put_off.c).
 */
#include "milligpu/writer/writer.h"

#include <malloc.h>
#include <time.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/run/log.h"
#include "milligpu/run/wakeup.h"
#include "milligpu/selfcheck/verifier.h"
#include "milligpu/spine/commits.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/host_sums.h"
#include "milligpu/waiting/waiting_pods.h"

#include "writer_internal.h"

enum {
    RETRY_MS = 250, /* pause between tries of a lost batch */
    /* limit of messages kept while the disk is broken; beyond it the informer blocks */
    KEEP_MAX = 2048,
    TICK_MS = 1000,
    CLOCK_STEP_MS = 1000, /* tolerated jitter of the wall clock */
    SETTLE_SLOTS = 4096,  /* of each table in a step without messages: less than a millisecond */
};

struct writer *writer_new(struct app *app)
{
    struct writer *writer = xcalloc(1, sizeof *writer);

    must(app->queue != NULL && app->view != NULL && app->outbox != NULL);
    writer->app = app;
    writer->ledger = ledger_new();
    batch_init(&writer->batch, app, writer->ledger);
    writer_begin_policy(writer);
    writer_begin_to_learn(writer);
    arena_init(&writer->pod_list.list);
    writer->drift = drift_watch_new(app);
    writer->host_sums = host_sums_new();
    writer->vouching.agents = agents_new(&app->rules.agents_rules);
    map_init(&writer->binds.inflight);
    map_init(&writer->binds.doubts);
    map_init(&writer->pod_list.bound_since);
    map_init(&writer->node_list.nodes_seen);
    map_init(&writer->node_list.ages);
    writer->wall_ms = app->clock.wall_ms(app->clock.ctx);
    /* In a pod record, epoch 0 means that only a GET has shown the pod. */
    writer->pod_list.epoch = 1;
    writer->new_ledger.start_ms = app->clock.now_ms(app->clock.ctx);
    waiting_pods_set_look(app->waiting_pods, writer, writer_pod_state);
    return writer;
}

void writer_free(struct writer *writer)
{
    if (writer == NULL)
        return;
    waiting_pods_set_look(writer->app->waiting_pods, NULL, NULL);
    struct inflight_bind *bind_inflight;
    /*
     * Waiting calls are not answered here: the listener answers them with 503 (http_stop()).
     */
    for (size_t at = 0; (bind_inflight = map_next(&writer->binds.inflight, &at)) != NULL;)
        inflight_free(bind_inflight);
    struct doubt *doubt;
    for (size_t at = 0; (doubt = map_next(&writer->binds.doubts, &at)) != NULL;)
        doubt_free(doubt);
    for (size_t i = 0; i < writer->after_commit.n_actions; i++)
        writer_action_done(&writer->after_commit.action[i]);
    for (size_t i = 0; i < writer->lost.n_kept; i++)
        message_abandon(writer->lost.kept[i]);
    writer_stop_put_off(writer);
    arena_done(&writer->pod_list.list);
    replies_drop(writer);
    xfree(writer->after_commit.reply);
    xfree(writer->after_commit.action);
    xfree(writer->lost.kept);
    xfree(writer->pod_list.listed);
    map_done(&writer->binds.inflight);
    writer_stop_bound(writer);
    map_done(&writer->binds.doubts);
    writer_done_seen(&writer->node_list.nodes_seen);
    writer_done_seen(&writer->node_list.ages);
    drift_watch_free(writer->drift);
    tally_free(writer->learning.tally);
    writer_end_policy(writer);
    writer_stop_hosts(writer);
    host_sums_free(writer->host_sums);
    agents_free(writer->vouching.agents);
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
    writer_load_learned(writer);
    writer_load_agents(writer);
    writer_load_idle(writer);
    batch_publish(writer->app, writer->ledger);
    commits_post(writer->app->commits, store_newest(writer->app->store));
    return 0;
}

void writer_tables(const struct writer *writer, struct writer_tables *out)
{
    must(sole_thread_admits(&writer->thread));
    *out = (struct writer_tables){.inflight = writer->binds.inflight.count,
                                  .doubts = writer->binds.doubts.count,
                                  .n_kept = writer->lost.n_kept,
                                  .n_put_off = writer->put_off.count,
                                  .n_listed = writer->pod_list.n_listed,
                                  .nodes_seen = writer->node_list.nodes_seen.count,
                                  .host_sums = host_sums_count(writer->host_sums),
                                  .agents = agents_count(writer->vouching.agents),
                                  .drifts = drift_watch_reported(writer->drift),
                                  .names = names_count(ledger_names(writer->ledger))};
}

/* Returns false if the batch is lost. */
static bool writer_handle(struct writer *writer, struct message *msg)
{
    switch (msg->kind) {
    case MESSAGE_BIND:
        return writer_handle_bind(writer, &msg->bind, &msg->arena);
    case MESSAGE_FETCHED:
        return writer_handle_fetched(writer, &msg->fetched, &msg->arena);
    case MESSAGE_OUTCOME:
        return writer_handle_outcome(writer, &msg->outcome);
    case MESSAGE_PODS_BEGIN:
        writer_begin_list(writer, msg->asked_ms);
        return true;
    case MESSAGE_POD_LISTED:
        return writer_handle_listed(writer, &msg->pod);
    case MESSAGE_PODS_END:
        return writer_end_list(writer, &msg->pods_end);
    case MESSAGE_PODS_FAILED:
        writer_drop_list(writer);
        return true;
    case MESSAGE_POD:
        writer_note_version(writer, &msg->pod);
        return writer_handle_pod(writer, &msg->pod);
    case MESSAGE_POD_DELETED:
        writer_note_version(writer, &msg->pod);
        return writer_handle_pod_deleted(writer, &msg->pod);
    case MESSAGE_NODES_BEGIN:
        writer->node_list.node_epoch++;
        agents_begin_nodes(writer->vouching.agents);
        return true;
    case MESSAGE_NODE_LISTED:
    case MESSAGE_NODE:
        return writer_handle_node(writer, &msg->node);
    case MESSAGE_NODES_END:
        return writer_end_nodes(writer);
    /* No node has been removed yet, and the next list begins a new epoch. */
    case MESSAGE_NODES_FAILED:
        return true;
    case MESSAGE_NODE_DELETED:
        return writer_node_gone(writer, msg->node.name);
    case MESSAGE_POLICY:
        writer_handle_policy(writer, msg->rulebook);
        return true;
    case MESSAGE_OVER:
        return writer_handle_over(writer, &msg->over);
    }
    must_not_reach("every kind is listed");
}

/*
 * Called when the batch is on disk and published. Only here a list makes milligpud ready and
 * Bindings are passed to the outbox.
 */
static void batch_kept(struct writer *writer, struct message **message, size_t count)
{
    must(count <= BATCH_MAX);
    must(!writer->batch.open);

    writer->lost.is_writing = writer->lost.is_writing || writer->batch.n_changes > 0;
    /* Not while messages are kept: they may concern pods that would be granted. */
    if (writer->lost.is_writing && writer->lost.n_kept == 0 &&
        atomic_exchange(&writer->app->health.disk_broken, false))
        log_plain(LOG_WARN, "the ledger can be written again");
    if (writer->node_list.nodes_ended)
        atomic_store(&writer->app->watch.nodes_synced, true);
    if (writer->pod_list.pods_ended) {
        writer_drop_list(writer);
        writer_pods_are_in(writer);
    }
    writer_run_actions(writer);
    writer_take_policy(writer);
    writer_wake_if_it_helps(writer);
    for (size_t i = 0; i < count; i++)
        message_free(message[i]);
}

/* The newest journal entry shows the wall clock at the end of the previous process. */
static void watch_clock(struct writer *writer)
{
    int64_t last_ms = 0;
    int64_t stepped_ms = 0;
    struct err err;

    must(!writer->clock.watches_clock);
    if (store_clock(writer->app->store, &last_ms, &stepped_ms, &err) < 0) {
        log_write(LOG_WARN, "the ledger's last time cannot be read", log_str("error", err.text));
        stepped_ms = 1; /* assume a step: nothing is deleted for an hour */
    }
    wallclock_start(&writer->clock.wallclock, writer->app->clock.wall_ms(writer->app->clock.ctx),
                    writer_now_ms(writer), last_ms, stepped_ms);
    writer->clock.watches_clock = true;
}

/*
 * Journals steps of the wall clock: back by more than CLOCK_STEP_MS, or forward by more than a day.
 */
static bool note_clock(struct writer *writer)
{
    must(!writer->batch.open);

    if (!writer->clock.watches_clock)
        watch_clock(writer);
    writer->clock.looked = writer->clock.wallclock;
    const int64_t last = writer->clock.wallclock.wall_ms;
    const int64_t wall = writer->app->clock.wall_ms(writer->app->clock.ctx);
    const int64_t expected = wallclock_look(&writer->clock.wallclock, wall, writer_now_ms(writer));
    const bool ahead = wall - expected > STORE_CLOCK_STEP_MS;

    /* All commands of this batch have the same time. */
    writer->wall_ms = wall;
    store_doubt_clock(writer->app->store, wallclock_is_doubted(&writer->clock.wallclock));
    if (!ahead && wall >= last - CLOCK_STEP_MS)
        return true;
    const int64_t before = ahead ? expected : last;
    log_write(LOG_WARN,
              ahead ? "more than a day went by at once on the wall clock: nothing is dropped "
                      "from the history until it has gone on for an hour"
                    : "the wall clock stepped back",
              log_i64("by_ms", ahead ? wall - before : before - wall));
    const struct command command = {.kind = COMMAND_CLOCK, .at_ms = wall, .clock_from_ms = before};
    return writer_run(writer, &command);
}

/* While the disk is broken, binds are refused at once, so this tries to write a journal row. */
static bool probe_write(struct writer *writer)
{
    must(!writer->batch.lost);

    const struct command command = {
        .kind = COMMAND_CLOCK, .at_ms = writer->wall_ms, .clock_from_ms = writer->wall_ms};

    return !atomic_load(&writer->app->health.disk_broken) || writer_run(writer, &command);
}

/* Work that depends on time, once a second. */
static bool writer_tick(struct writer *writer)
{
    must(!writer->batch.lost);

    const int64_t now = writer_now_ms(writer);

    if (now < writer->tick_ms)
        return true;
    writer->tick_ms = now + TICK_MS;
    if (!atomic_load(&writer->app->health.safe_mode))
        verifier_memory(writer->app, writer->ledger, &writer->verify_place);
    waiting_pods_maintain(writer->app->waiting_pods, now, writer, writer_pod_state);
    return probe_write(writer) && writer_check_doubts(writer, now);
}

/*
 * Work that is impossible within a transaction, such as claiming the ledger, pinning the verifier's
 * read transaction and housekeeping. Runs after lost batches, too.
 */
static void after_batch(struct writer *writer)
{
    must(!writer->batch.open && writer->batch.n_changes == 0);

    struct err err;

    writer_set_hosts(writer);
    writer_check_taints(writer);
    writer_own_ledger(writer);
    const bool ready = app_ready(writer->app, NULL);
    /* Pods that were turned away before milligpud was ready may fit. */
    if (ready && !writer->was_ready) {
        log_plain(LOG_INFO, "ready");
        if (writer->app->verifier != NULL)
            wakeup_signal(writer->app->verifier_wakeup);
        writer_wake(writer, writer_some_node(writer));
    }
    writer->was_ready = ready;
    if (ready)
        writer_match_rules(writer);
    writer_keep_policy(writer);
    writer_wake_for_the_late(writer);
    writer_use_what_was_learned(writer);
    writer_store_learned_now_and_then(writer);
    writer_store_agents(writer);
    writer_store_measured_now_and_then(writer);
    verifier_meet(writer->app->verifier);
    /* In safe mode the file stays unchanged. */
    if (!atomic_load(&writer->app->health.safe_mode) &&
        writer->app->store_ops.maintain(writer->app->store_ops.ctx, writer->wall_ms, &err) < 0)
        log_write(LOG_WARN, "housekeeping of the ledger failed", log_str("error", err.text));
    drift_watch_step(writer->drift, writer_now_ms(writer), writer->wall_ms);
}

/* Sleeps without reading the queue, so that it fills up and the informer blocks. */
static void writer_pause_ms(int64_t ms)
{
    must(ms >= 0 && ms <= RETRY_MS);

    const struct timespec pause = {.tv_nsec = ms * 1000000};

    (void)nanosleep(&pause, NULL);
}

/* Limits the wait to the next tick and other timed events. */
static int64_t writer_wait(const struct writer *writer, int64_t wait_ms)
{
    const int64_t now_ms = writer_now_ms(writer);
    const int64_t tick_ms = writer->tick_ms > now_ms ? writer->tick_ms - now_ms : 0;
    const int64_t late_ms = waiting_pods_late_in_ms(writer->app->waiting_pods, now_ms);

    must(wait_ms >= 0 && late_ms >= 0);
    wait_ms = tick_ms < wait_ms ? tick_ms : wait_ms;
    return writer_wait_for_rules(writer, late_ms < wait_ms ? late_ms : wait_ms);
}

static size_t take_new(struct writer *writer, struct message **message, size_t max, int64_t wait_ms)
{
    must(max > 0 && max <= BATCH_MAX);

    const size_t count = queue_take(writer->app->queue, (void **)message, max, wait_ms);

    writer_answer_bound(writer, message, count);
    return count;
}

/* Takes those that were put off first, and puts all off again if they can still wait. */
static size_t take_next(struct writer *writer, struct message **message, int64_t wait_ms)
{
    must(writer->lost.n_kept == 0);

    size_t count = writer_take_put_off(writer, message);

    count +=
        take_new(writer, message + count, BATCH_MAX - count, writer_put_off_wait(writer, wait_ms));
    const bool step_is_due = count > 0 && writer_wait(writer, 1) == 0;
    return writer_put_off(writer, message, count, step_is_due) ? 0 : count;
}

/* Takes kept messages first and alone: the order of messages about the cluster matters. */
static size_t writer_collect(struct writer *writer, struct message **message, int64_t wait_ms)
{
    must(wait_ms >= 0);

    if (writer->lost.n_kept == 0)
        return take_next(writer, message, wait_ms);
    /* A lost batch had all of them, and none is put off before it is written. */
    must(writer->put_off.count == 0);
    const int64_t left = writer->lost.retry_ms - writer_now_ms(writer);
    if (left <= 0)
        return writer_take_kept(writer, message);
    const int64_t wait = left < wait_ms ? left : wait_ms;
    if (writer->lost.n_kept >= KEEP_MAX || writer->lost.kept_bytes >= NEWS_BYTES_MAX) {
        writer_pause_ms(wait);
        return 0;
    }
    return writer_put_behind(writer, message, take_new(writer, message, BATCH_MAX, wait));
}

/*
 * The end of a list ends the batch, so that the next list begins after this one is on disk. So does
 * a change of rules: it is journaled before any decision under the new rules.
 */
static bool batch_is_full(const struct writer *writer)
{
    return writer->pod_list.pods_ended || writer->node_list.nodes_ended ||
           writer->policy.rules_change;
}

/* Finishes what the growth of tables left over, by this many slots of each. */
static void settle(struct writer *writer, size_t slots)
{
    ledger_settle(writer->ledger, slots);
    pod_cache_settle(writer->app->pod_cache, slots);
    host_sums_settle(writer->host_sums, slots);
    map_settle(&writer->node_list.nodes_seen, slots);
    map_settle(&writer->node_list.ages, slots);
}

static void handle_batch(struct writer *writer, struct message **message, size_t taken)
{
    must(taken <= BATCH_MAX);
    must(writer->after_commit.n_actions == 0);

    const uint64_t epoch = writer->pod_list.epoch;
    size_t count = 0;
    writer->pod_list.pods_ended = writer->node_list.nodes_ended = false;
    /* First, so that a step of the clock is journaled before the commands that follow it. */
    bool whole =
        note_clock(writer) && writer_note_policy(writer) && writer_check_unsure_agents(writer);
    while (count < taken && whole && !batch_is_full(writer))
        whole = writer_handle(writer, message[count++]);
    whole = whole && writer_tick(writer) && writer_heal_duplicates(writer);
    must(whole || writer->batch.lost);
    if (batch_end(&writer->batch)) {
        writer_leave_over(writer, message + count, taken - count);
        batch_kept(writer, message, count);
    } else {
        writer_batch_lost(writer, message, taken);
        /* the same list will be retried, with the same epoch */
        writer->pod_list.epoch = epoch;
    }
    /* After a lost batch, too: an outcome is valid even if its confirmation was not written. */
    replies_send(writer);
    batch_reset(&writer->batch);
    const bool list_ended = writer->pod_list.pods_ended || writer->node_list.nodes_ended;
    if (list_ended || taken == 0)
        settle(writer, list_ended ? SIZE_MAX : SETTLE_SLOTS);
    if (list_ended) {
        /* a list needs a multiple of the memory that stays; writer_end_list() has the time */
        store_release_memory(writer->app->store);
        (void)malloc_trim(0);
    }
    after_batch(writer);
    ledger_sweep(writer->ledger, taken == 0);
    atomic_store(&writer->app->names_bytes, names_bytes(ledger_names(writer->ledger)));
}

size_t writer_step(struct writer *writer, int64_t wait_ms)
{
    must(sole_thread_enter(&writer->thread));
    must(wait_ms >= 0);

    struct message *message[BATCH_MAX];

    const size_t taken = writer_collect(writer, message, writer_wait(writer, wait_ms));
    /* All wait, and nothing else is due: the next step does what this one would. */
    if (writer->put_off.count > 0)
        return 0;
    handle_batch(writer, message, taken);
    return taken;
}

/* The queue is left alone: a bind from it would be reserved, and nothing would send it. */
void writer_end(struct writer *writer)
{
    must(sole_thread_enter(&writer->thread));
    must(!writer->batch.open);

    struct message *message[BATCH_MAX];

    const size_t left = writer_take_put_off(writer, message);
    writer->put_off.count = 0;
    if (left > 0)
        handle_batch(writer, message, left);
    writer_store_learned(writer);
    writer_store_measured(writer);
}
