/*
 * daemon - milligpud's own parts in one thread: writer, informer, outbox, webhooks, store.
 *
 * Where daemon.c has threads, this takes turns in an order that is drawn. The process can end
 * between any two turns, and in the middle of a write: then its later answers are
 * dropped.
 */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/daemon/assembly.h"
#include "milligpu/kube/kube.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "sim_run.h"
#include "store/store_internal.h"
#include "support/disk.h"

enum { RETRY_BOOT_MS = 1000, TICK_MS = 1000, TURNS_MAX = 12 };

/* --- in the middle of something --- */

static void others(struct sim *sim, const char *where)
{
    if (disk_is_cut())
        return; /* a process that is already dead */
    sim_met("between/%s", where);
    sim_interleave(sim);
}

static void yield(void *ctx, enum yield where)
{
    static const char *const word[] = {
        [YIELD_AFTER_SNAPSHOT] = "snapshot_and_judgement",
        [YIELD_AFTER_REFUSAL] = "record_and_reading",
        [YIELD_AFTER_GENERATION] = "reading_and_answer",
        [YIELD_AFTER_PUBLISH] = "room_and_wake_up",
    };

    others(ctx, word[where]);
}

/* --- the store, counted --- */

static enum store_outcome count_write(void *ctx, const struct command *command,
                                      const struct change *change, struct err *err)
{
    struct sim *sim = ctx;
    const enum store_outcome outcome =
        sim->daemon.store.write(sim->daemon.store.ctx, command, change, err);

    if (outcome == STORE_OK) {
        /* A window opens by the clock. */
        sim->daemon.writes += command->kind != COMMAND_POLICY;
        sim_met("command/%s", command_name(command->kind));
        rules_written(sim, command, change);
        reserve_written(sim, command, change);
        if (command->kind == COMMAND_RESERVE || command->kind == COMMAND_VERSION)
            vouched_reserved(sim, change->after);
        if (command->kind == COMMAND_RESERVE)
            oracle_reserved(sim, command, change);
        raise_written(sim, command, change);
        usage_written(sim, command, change);
    }
    return outcome;
}

static int count_begin(void *ctx, struct err *err)
{
    struct sim *sim = ctx;
    return sim->daemon.store.begin(sim->daemon.store.ctx, err);
}

static int count_commit(void *ctx, struct err *err)
{
    struct sim *sim = ctx;

    if (!disk_is_cut())
        oracle_uncommitted(sim);
    sim->daemon.uncommitted = true;
    others(sim, "publish_and_commit");
    const int failed = sim->daemon.store.commit(sim->daemon.store.ctx, err);
    if (failed == 0) {
        rules_committed(sim);
        reserve_committed(sim);
        usage_batch_ended(sim, true);
    }
    others(sim, "commit_and_room");
    return failed;
}

static void count_rollback(void *ctx)
{
    struct sim *sim = ctx;
    sim->daemon.store.rollback(sim->daemon.store.ctx);
    rules_lost(sim);
    reserve_lost(sim);
    usage_batch_ended(sim, false);
}

static int count_maintain(void *ctx, int64_t now_ms, struct err *err)
{
    struct sim *sim = ctx;
    return sim->daemon.store.maintain(sim->daemon.store.ctx, now_ms, err);
}

static int count_learn(void *ctx, const struct tally *tally, int64_t until_ms, struct err *err)
{
    struct sim *sim = ctx;
    const int failed = sim->daemon.store.learn(sim->daemon.store.ctx, tally, until_ms, err);

    learned_written(sim, tally, failed == 0);
    return failed;
}

static int count_measure(void *ctx, const struct store_chunk *chunk, struct err *err)
{
    struct sim *sim = ctx;
    return sim->daemon.store.measure(sim->daemon.store.ctx, chunk, err);
}

static int count_keep_policy(void *ctx, const struct store_policy *policy, struct err *err)
{
    struct sim *sim = ctx;
    return sim->daemon.store.keep_policy(sim->daemon.store.ctx, policy, err);
}

static int count_remember(void *ctx, const struct agents *agents, size_t max, size_t *out_count,
                          struct err *err)
{
    struct sim *sim = ctx;
    const int failed =
        sim->daemon.store.remember(sim->daemon.store.ctx, agents, max, out_count, err);

    vouched_stored(sim, agents, failed == 0 ? *out_count : 0, failed == 0 && !disk_is_cut());
    return failed;
}

/* --- start --- */

static int64_t now_of(void *ctx)
{
    return ((struct sim *)ctx)->now_ms;
}

static int64_t wall_of(void *ctx)
{
    return ((struct sim *)ctx)->wall_ms;
}

static void fill_settings(const struct sim *sim, struct settings *settings)
{
    static const char *const required[] = {[REQUIRE_WHERE_SELECTED] = "where-selected",
                                           [REQUIRE_ALWAYS] = "always",
                                           [REQUIRE_NEVER] = "never"};

    *settings = (struct settings){.resource = "nvidia.com/vgpu",
                                  .whole_resource = "nvidia.com/gpu",
                                  .base_path = "/scheduler",
                                  .policy = sim->policy.order,
                                  .shortlist = sim->rules.shortlist,
                                  .refusal_names = sim->policy.refusal_names,
                                  .min_milli = sim->policy.min_milli,
                                  .step_milli = sim->policy.step_milli,
                                  .http_timeout_ms = 5000,
                                  .inventory_from_labels = true,
                                  .plugin = "auto",
                                  .events = true,
                                  .require_agent = required[sim->rules.required],
                                  .agent_nodes = "nvidia.com/gpu.present=true",
                                  .agents = sim->rules.by_annotation ? "annotation" : "pods",
                                  .agent_label = "app.kubernetes.io/component=node",
                                  .wake = "object",
                                  .keys_namespace = "",
                                  .key_wait_s = (uint32_t)(sim->keys.wait_ms / 1000),
                                  .namespace = "ns"};
}

static void open_parts(struct sim *sim)
{
    struct sim_daemon *daemon = &sim->daemon;

    keys_boot(sim);
    struct rulebook *book = rules_document(sim);
    const struct app_edges edges = {.clock = {.ctx = sim, .now_ms = now_of, .wall_ms = wall_of},
                                    .yield = {.ctx = sim, .at = yield},
                                    .store = daemon->app.store,
                                    .rulebook = book,
                                    .store_ops = {.ctx = sim,
                                                  .begin = count_begin,
                                                  .write = count_write,
                                                  .commit = count_commit,
                                                  .rollback = count_rollback,
                                                  .maintain = count_maintain,
                                                  .learn = count_learn,
                                                  .measure = count_measure,
                                                  .keep_policy = count_keep_policy,
                                                  .remember = count_remember},
                                    .watch = &daemon->watch_ops,
                                    .calls = &daemon->call_ops,
                                    .grace_ms = 90000,
                                    .wake_namespace = daemon->settings.namespace,
                                    .keyring = sim->keys.keyring,
                                    .instance = "sim"};

    app_open(&daemon->app, &daemon->settings, &edges, &daemon->parts);
    rulebook_unref(book);
    keys_start(sim);
    usage_boot(sim);
}

/*
 * Checkpoints and retention as often as fits into minutes. Empty tables take 152 KiB, and the
 * history of a run a bit more than that.
 */
static void small_limits(struct store *store, bool scarce)
{
    store->limits.wal_soft = 24;
    store->limits.wal_hard = 96;
    store->limits.wal_max = 4096;
    store->limits.fold = 40;
    store->limits.retain_ms = 20000;
    if (!scarce)
        return;
    store->limits.trim_at = 200 << 10;
    store->limits.go_at = 560 << 10;
    store->limits.stop_at = 600 << 10;
    store->limits.max_bytes = 640 << 10;
    store->limits.piece = 8 << 10;
}

static int open_store(struct sim *sim, struct err *err)
{
    const struct store_rules rules = {.path = sim->ledger, .retention_days = 1};
    const int failed = store_open(&rules, &sim->daemon.app.store, err);

    if (failed == 0) {
        small_limits(sim->daemon.app.store, sim->rules.scarce);
        store_ops(sim->daemon.app.store, &sim->daemon.store);
    }
    return failed;
}

static void close_parts(struct sim *sim)
{
    struct sim_daemon *daemon = &sim->daemon;
    struct app *app = &daemon->app;

    usage_stop(sim);
    app_close(app, &daemon->parts);
    keys_stop(sim);
    daemon->watch_ops.free(daemon->watch_ops.ctx);
    daemon->call_ops.free(daemon->call_ops.ctx);
    sim_api_gone(sim->api);
    daemon->up = daemon->doomed = daemon->uncommitted = false;
    snapshot_unref(daemon->seen);
    daemon->seen = NULL;
    for (size_t i = 0; i < SIM_CALLS; i++)
        if (sim->call[i].given) {
            sim->call[i].given = false;
            sim->call[i].lost = true;
        }
}

static void boot_failed(struct sim *sim, const struct err *err)
{
    if (!disk_is_cut() && sim->daemon.disk_heals_ms == 0)
        sim_violation(sim, "the ledger does not open: %s", err->text);
    sim_say(sim, "milligpud does not start: %s", err->text);
    sim_met("boot/refused");
    if (disk_is_cut())
        disk_restart(DISK_KEEPS_ALL, 0);
    sim->daemon.boot_ms = sim->now_ms + RETRY_BOOT_MS;
}

void daemon_boot(struct sim *sim)
{
    struct sim_daemon *daemon = &sim->daemon;
    struct app *app = &daemon->app;
    struct err err;

    must(!daemon->up);
    memset(app, 0, sizeof *app);
    if (open_store(sim, &err) < 0) {
        boot_failed(sim, &err);
        return;
    }
    policy_draw(sim);
    if (sim->n_books == 0 || draw_chance(&sim->draw, 200))
        rules_draw(sim, &sim->draw);
    rules_lost(sim);
    fill_settings(sim, &daemon->settings);
    sim_api_ops(sim->api, &daemon->watch_ops, &daemon->call_ops);
    open_parts(sim);
    daemon->up = true;
    daemon->told_nodes = daemon->applied_nodes = 0;
    daemon->told_pods = daemon->applied_pods = 0;
    daemon->next_ms = sim->now_ms;
    const int failed = writer_load(daemon->parts.writer, &err);
    if (failed < 0 || disk_is_cut()) {
        close_parts(sim);
        store_close(app->store);
        boot_failed(sim, &err);
        return;
    }
    sim_met("boot");
    sim_say(sim, "milligpud is up");
    wakes_booted(sim);
    oracle_snapshot(sim);
    reserve_loaded(sim);
    learned_loaded(sim);
    usage_loaded(sim);
    vouched_loaded(sim);
}

/* --- end --- */

/* Messages that ride in the writer's next batch. */
static size_t put_off(const struct sim_daemon *daemon)
{
    struct writer_tables is;

    writer_tables(daemon->parts.writer, &is);
    return is.n_put_off;
}

void daemon_kill(struct sim *sim)
{
    struct draw *draw = &sim->draw;
    enum disk_loss loss = DISK_KEEPS_ALL;

    must(sim->daemon.up);
    sim_met(disk_is_cut() ? "kill/in_a_write" : "kill/between");
    /* Binds that were answered, and not yet written as bound. */
    if (atomic_load(&sim->daemon.app.identified) && put_off(&sim->daemon) > 0)
        sim_met("kill/put_off");
    disk_cut();
    close_parts(sim);
    store_close(sim->daemon.app.store);
    if (sim->rules.power)
        loss = draw_chance(draw, 500) ? DISK_KEEPS_SOME : DISK_KEEPS_NONE;
    const uint64_t seed = draw_next(draw);
    disk_restart(loss, seed);
    sim->daemon.disk_heals_ms = 0;
    static const char *const word[] = {"all", "none", "some"};
    sim_met("disk/keeps_%s", word[loss]);
    sim_say(sim, "milligpud is killed; the disk keeps %s", word[loss]);
    sim->daemon.boot_ms = sim->now_ms + draw_between(draw, 10, 5000);
}

void daemon_lose_ledger(struct sim *sim)
{
    raise_before_loss(sim);
    daemon_kill(sim);
    /* The new one knows no versions: only there is a late Binding bounded (docs/TRUST.md). */
    sim_api_late_within(sim->api, 60000);
    disk_clear();
    keys_lose(sim);
    learned_lost(sim);
    vouched_lost(sim);
    sim->daemon.rebuilds = true;
    sim_met("ledger/lost");
    sim_say(sim, "the ledger is lost");
}

void daemon_stop(struct sim *sim)
{
    must(sim->daemon.up);
    close_parts(sim);
    store_close(sim->daemon.app.store);
    if (disk_is_cut())
        disk_restart(DISK_KEEPS_ALL, 0);
    sim_met("stop");
    sim_say(sim, "milligpud stops");
    sim->daemon.boot_ms = sim->now_ms + draw_between(&sim->draw, 10, 5000);
}

/* --- turns --- */

static void to_claim(void *user, const struct kube_answer *answer)
{
    struct sim *sim = user;
    cluster_identity_answer(sim->daemon.parts.identity, sim->now_ms, answer);
}

static void to_informer(void *user, const struct kube_answer *answer)
{
    struct sim *sim = user;
    informer_answer(sim->daemon.parts.informer, sim->now_ms, answer);
}

static void to_outbox(void *user, const struct kube_answer *answer)
{
    struct sim *sim = user;
    outbox_answer(sim->daemon.app.outbox, sim->now_ms, answer);
}

static void sooner(struct sim *sim, int64_t wait_ms)
{
    if (wait_ms < 1)
        wait_ms = 1;
    if (sim->now_ms + wait_ms < sim->daemon.next_ms)
        sim->daemon.next_ms = sim->now_ms + wait_ms;
}

static void turn_of_watcher(struct sim *sim)
{
    struct sim_daemon *daemon = &sim->daemon;
    struct err err;

    if (!cluster_identity_done(daemon->parts.identity)) {
        sooner(sim, cluster_identity_step(daemon->parts.identity, sim->now_ms));
        daemon->watch_ops.poll(daemon->watch_ops.ctx, 0, sim, to_claim);
        if (cluster_identity_refused(daemon->parts.identity, &err) && !disk_is_cut())
            sim_violation(sim, "the ledger is said to be another cluster's: %s", err.text);
        return;
    }
    sooner(sim, informer_step(daemon->parts.informer, sim->now_ms));
    daemon->watch_ops.poll(daemon->watch_ops.ctx, 0, sim, to_informer);
    keys_turn(sim);
}

/* A batch that was lost is kept, to be tried again. */
static bool has_applied_all(const struct sim_daemon *daemon)
{
    struct writer_tables is;

    writer_tables(daemon->parts.writer, &is);
    return queue_depth(daemon->app.queue) == 0 && is.n_kept + is.n_put_off == 0;
}

static void judge_vouched(struct sim *sim)
{
    const struct snapshot *snapshot = daemon_view(sim);

    oracle_vouched(sim, snapshot);
    snapshot_unref(snapshot);
}

static void turn_of_writer(struct sim *sim)
{
    struct sim_daemon *daemon = &sim->daemon;

    if (!atomic_load(&daemon->app.identified))
        return;
    const size_t before = put_off(daemon);
    const size_t handled = writer_step(daemon->parts.writer, 0);
    if (handled > 0)
        sooner(sim, 1);
    if (put_off(daemon) > 0)
        sooner(sim, 3);
    if (before > 0 && handled > 0)
        sim_met(handled > before ? "put_off/rides" : "put_off/alone");
    daemon->uncommitted = false;
    if (!disk_is_cut() && has_applied_all(daemon) && daemon_ready(sim)) {
        daemon->applied_nodes = daemon->told_nodes;
        daemon->applied_pods = daemon->told_pods;
        judge_vouched(sim);
    }
    if (atomic_load(&daemon->app.grace.grace_ends_ms) != 0)
        sim_met("ledger/waits_grace_period");
    if (daemon_ready(sim))
        daemon->rebuilds = false;
    wakes_turn(sim);
    if (!disk_is_cut())
        oracle_snapshot(sim);
}

static void turn_of_outbox(struct sim *sim)
{
    struct sim_daemon *daemon = &sim->daemon;

    sim_api_awake(sim->api);
    sooner(sim, outbox_step(daemon->app.outbox, sim->now_ms, sim->wall_ms));
    daemon->call_ops.poll(daemon->call_ops.ctx, 0, sim, to_outbox);
}

static void take_turn(struct sim *sim, enum turn whose)
{
    static void (*const turn[])(struct sim *) = {[TURN_WATCHER] = turn_of_watcher,
                                                 [TURN_WRITER] = turn_of_writer,
                                                 [TURN_OUTBOX] = turn_of_outbox};

    if (sim->daemon.turning[whose] || disk_is_cut())
        return;
    sim->daemon.turning[whose] = true;
    turn[whose](sim);
    sim->daemon.turning[whose] = false;
}

void daemon_turn(struct sim *sim)
{
    take_turn(sim, (enum turn)draw_below(&sim->draw, TURNS));
}

void daemon_hears(struct sim *sim)
{
    take_turn(sim, TURN_WATCHER);
    take_turn(sim, TURN_OUTBOX);
    take_turn(sim, TURN_WRITER);
}

void daemon_step(struct sim *sim)
{
    struct sim_daemon *daemon = &sim->daemon;

    if (!daemon->up) {
        if (sim->now_ms >= daemon->boot_ms)
            daemon_boot(sim);
        return;
    }
    if (daemon->doomed) {
        daemon_kill(sim);
        return;
    }
    daemon->next_ms = sim->now_ms + TICK_MS;
    const uint32_t turns = 3 + draw_below(&sim->draw, TURNS_MAX);
    for (uint32_t i = 0; i < turns && !disk_is_cut(); i++)
        daemon_turn(sim);
    if (disk_is_cut())
        daemon_kill(sim);
    else if (queue_depth(daemon->app.queue) > 0 || sim_api_woken(sim->api))
        sooner(sim, 1);
}

/* --- what others see --- */

static void hear(struct http_call *http)
{
    struct sim_call *call = http->user;

    call->given = false;
    if (!disk_is_cut())
        return;
    call->lost = true; /* sent by a process that was already dead */
    http->status = 0;
    strbuf_reset(&http->answer);
}

bool daemon_call(struct sim *sim, struct sim_call *call)
{
    if (!sim->daemon.up || disk_is_cut())
        return false;
    sim->operations++;
    call->sent = call->given = true;
    call->http.body = (struct text){call->body.data, call->body.len};
    call->http.user = call;
    call->http.answered = hear;
    webhooks_handle(sim->daemon.parts.webhooks, &call->http);
    if (sim->daemon.next_ms > sim->now_ms + 1)
        sim->daemon.next_ms = sim->now_ms + 1;
    return true;
}

const struct snapshot *daemon_view(const struct sim *sim)
{
    return sim->daemon.up ? view_take(sim->daemon.app.view) : NULL;
}

bool daemon_ready(const struct sim *sim)
{
    return sim->daemon.up && app_ready(&sim->daemon.app, NULL);
}
