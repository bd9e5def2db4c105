/*
 * usage - agents report what the shares of their nodes use, and some of them lie.
 *
 * In some of the runs with agents these have a key, and their reports reach milligpud's own handler
 * as HTTP calls: in time, late, twice, signed for another node, cut off, of pods that have ended or
 * run elsewhere, with absurd amounts, of containers that change between too much memory and enough.
 * Some reports come in the middle of something. Now and then an hour passes in which shares are
 * idle.
 *
 * Judged is what each call is answered; that no report changes the snapshot; how many entries of
 * the journal one node may cause; that no second of a granted share is counted twice; and which
 * shares are stored as idle. When all is quiet a Node that is gone is unknown, and the others are
 * taken at their word.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/admin/usage/reports.h"
#include "milligpu/base/alloc.h"
#include "milligpu/usage/usage_table.h"
#include "milligpu/wire/usage/usage_report.h"

#include "sim_run.h"
#include "store/store_internal.h"
#include "support/disk.h"

enum {
    OVER_EVENTS_A_MINUTE = 60, /* entries of the journal that one node may cause (reports.c) */
    FLAPS = 64,
    ROUNDS = 6, /* of reports, each with ROUND_MS since the last: an hour and more */
    ROUND_MS = 13 * 60 * 1000,
    LONGER_MS = 200000,
    MINUTE_MS = 60000,
};

enum amounts { AMOUNTS_IDLE, AMOUNTS_BUSY, AMOUNTS_ABSURD, AMOUNTS_OVER };

/* --- reports --- */

static json_t *gpu_of(const struct model_share *share, enum amounts amounts, struct draw *draw)
{
    const bool absurd = amounts == AMOUNTS_ABSURD;
    const int milli = amounts == AMOUNTS_IDLE ? (int)draw_below(draw, 10)
                      : absurd                ? 1000
                               : (int)draw_between(draw, 10, share->milli > 10 ? share->milli : 10);
    const int mib = absurd ? INT32_MAX : (int)draw_below(draw, share->mib + 1);

    return json_pack("{s:s,s:i,s:i,s:i}", "gpu", share->gpu, "milli", milli, "mib", mib, "peakMib",
                     amounts == AMOUNTS_OVER ? (int)share->mib + 1 : mib);
}

static json_t *pod_of(const struct model_pod *pod, enum amounts amounts, struct draw *draw)
{
    json_t *containers = json_array();

    for (uint32_t w = 0; w < pod->shape->n_wants; w++) {
        json_t *gpus = json_array();
        for (uint32_t i = 0; i < pod->n_shares; i++)
            if (pod->share[i].want == w)
                json_array_append_new(gpus, gpu_of(&pod->share[i], amounts, draw));
        json_t *container =
            json_pack("{s:s,s:o}", "name", pod->shape->want[w].container, "gpus", gpus);
        if (amounts == AMOUNTS_OVER)
            json_object_set_new(container, "over",
                                json_string(draw_chance(draw, 500) ? "seen" : "killed"));
        json_array_append_new(containers, container);
    }
    return json_pack("{s:s,s:o}", "uid", pod->uid, "containers", containers);
}

/* An agent that lies tells of whatever pods there ever were. */
static bool tells_of(const struct model_node *node, const struct model_pod *pod,
                     enum amounts amounts, struct draw *draw)
{
    if (pod->n_shares == 0)
        return false;
    return (model_alive(pod) && strcmp(pod->node, node->name) == 0) ||
           (amounts == AMOUNTS_ABSURD && draw_chance(draw, 100));
}

static char *report_of(struct sim *sim, const struct model_node *node, enum amounts amounts,
                       struct draw *draw)
{
    json_t *pods = json_array();

    for (uint32_t i = 0; i < sim->model.n_pods && json_array_size(pods) < USAGE_PODS_MAX; i++)
        if (tells_of(node, &sim->model.pod[i], amounts, draw))
            json_array_append_new(pods, pod_of(&sim->model.pod[i], amounts, draw));
    json_t *report = json_pack("{s:i,s:s,s:I,s:i,s:o}", "v", 1, "node", node->name, "number",
                               (json_int_t)++sim->usage.number, "seconds",
                               amounts == AMOUNTS_ABSURD ? USAGE_SECONDS_MAX : 300, "pods", pods);
    char *text = json_dumps(report, JSON_COMPACT);
    json_decref(report);
    return text;
}

/* --- calls --- */

static void count_answer(const struct sim *sim, const struct http_call *call)
{
    static const struct {
        int status;
        const char *word;
    } known[] = {{204, "taken"},   {400, "malformed"}, {401, "unsigned"},
                 {404, "no_node"}, {409, "replayed"},  {503, "unready"}};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (call->status == known[i].status) {
            sim_met("usage/%s", known[i].word);
            return;
        }
    sim_violation(sim, "a report of usage is answered with %d: %.200s", call->status,
                  call->answer.len > 0 ? call->answer.data : "");
}

/* 0: milligpud is down. */
static int post(struct sim *sim, const char *signed_for, const char *body)
{
    char signature[SIGNATURE_TEXT_BYTES];
    const struct signed_facts facts = {
        .node = text_of(signed_for), .bytes = text_of(body), .kind = SIGNED_USAGE};
    struct http_call call;
    struct err err;

    if (!sim->daemon.up || disk_is_cut())
        return 0;
    if (signing_sign(sim->usage.key, &facts, signature, &err) < 0)
        sim_violation(sim, "an agent cannot sign: %s", err.text);
    const struct snapshot *before = daemon_view(sim);
    http_call_init(&call, USAGE_PATH);
    call.body = facts.bytes;
    call.signature = signature;
    sim->operations++;
    reports_handle(sim->usage.reports, &call);
    count_answer(sim, &call);
    const int status = call.status;
    if (status >= 400)
        sim_say(sim, "a report of usage is refused: %.200s", call.answer.data);
    http_call_done(&call);
    const struct snapshot *after = daemon_view(sim);
    if (before != after)
        sim_violation(sim, "a report of usage has changed the snapshot");
    snapshot_unref(before);
    snapshot_unref(after);
    return status;
}

/* A report as it should be, with a number that is new. */
static int report(struct sim *sim, const struct model_node *node, enum amounts amounts,
                  struct draw *draw)
{
    char *body = report_of(sim, node, amounts, draw);
    const int status = post(sim, node->name, body);

    if (status == 400 || status == 409)
        sim_violation(sim, "a new report of %s is answered with %d", node->name, status);
    if (status == 204 && post(sim, node->name, body) != 409)
        sim_violation(sim, "a report of %s is taken twice", node->name);
    if (draw_chance(draw, 300) && strlen(body) < sizeof sim->usage.late) {
        (void)snprintf(sim->usage.late, sizeof sim->usage.late, "%s", body);
        sim->usage.late_node = node;
    }
    free(body);
    return status;
}

/* It was sent before, with or without success: another process may take it. */
static void send_late(struct sim *sim)
{
    if (sim->usage.late_node != NULL)
        (void)post(sim, sim->usage.late_node->name, sim->usage.late);
}

static void send_forged(struct sim *sim, const struct model_node *node, struct draw *draw)
{
    char *body = report_of(sim, node, AMOUNTS_BUSY, draw);

    if (post(sim, "elsewhere", body) == 204)
        sim_violation(sim, "a report of %s is taken that is signed for another node", node->name);
    const size_t cut = 1 + draw_below(draw, (uint32_t)strlen(body) - 1);
    body[cut] = '\0';
    const int status = post(sim, node->name, body);
    if (status != 0 && status != 400)
        sim_violation(sim, "a report that is cut off is answered with %d", status);
    free(body);
}

static void send_flaps(struct sim *sim, const struct model_node *node, struct draw *draw)
{
    for (int i = 0; i < FLAPS; i++) {
        (void)report(sim, node, AMOUNTS_OVER, draw);
        (void)report(sim, node, AMOUNTS_BUSY, draw);
    }
    sim_say(sim, "the agent of %s tells of too much memory again and again", node->name);
}

/* Pods go on running meanwhile. Sometimes milligpud dies then, and the next one goes on. */
static void idle_hour(struct sim *sim, struct draw *draw)
{
    if (sim->clock_heals_ms != 0)
        return;
    sim_say(sim, "an hour passes, and shares are idle");
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        if (sim->model.pod[i].kubelet_ms != 0 && sim->model.pod[i].node[0] != '\0')
            sim->model.pod[i].kubelet_ms += LONGER_MS;
    sim->usage.idles = true;
    for (int round = 0; round < ROUNDS; round++) {
        sim->wall_ms += ROUND_MS;
        sim->forward_ms += ROUND_MS;
        sim_pass(sim, 1500);
        for (uint32_t n = 0; n < sim->model.n_nodes; n++)
            (void)report(sim, &sim->model.node[n], AMOUNTS_IDLE, draw);
    }
    sim_pass(sim, MINUTE_MS);
    sim->usage.idles = false;
    sim->daemon.doomed = sim->daemon.up && sim->rules.crash_per_mille > 0 && draw_chance(draw, 400);
}

static void send_any(struct sim *sim, struct draw *draw)
{
    const struct model_node *node = &sim->model.node[draw_below(draw, sim->model.n_nodes)];

    switch (draw_below(draw, 8)) {
    case 0:
        send_late(sim);
        break;
    case 1:
        send_forged(sim, node, draw);
        break;
    case 2:
        (void)report(sim, node, AMOUNTS_ABSURD, draw);
        break;
    case 3:
        (void)report(sim, node, AMOUNTS_OVER, draw);
        break;
    case 4:
        (void)report(sim, node, AMOUNTS_IDLE, draw);
        break;
    default:
        (void)report(sim, node, AMOUNTS_BUSY, draw);
    }
}

bool usage_trouble(struct sim *sim, uint32_t step)
{
    struct draw draw = {.state = sim->seed * 0xD1B54A32D192ED03U + step};

    if (!sim->rules.reports || !draw_chance(&draw, 300))
        return false;
    const uint32_t dice = draw_below(&draw, 1000);
    if (dice < 30)
        idle_hour(sim, &draw);
    else if (dice < 70)
        send_flaps(sim, &sim->model.node[draw_below(&draw, sim->model.n_nodes)], &draw);
    else
        send_any(sim, &draw);
    return dice < 30 && !sim->daemon.doomed;
}

void usage_between(struct sim *sim)
{
    if (sim->rules.reports && !sim_is_still(sim) && !sim->usage.idles &&
        draw_chance(&sim->usage.draw, 50))
        send_any(sim, &sim->usage.draw);
}

/* --- begin, end --- */

void usage_begin(struct sim *sim, const char *folder)
{
    struct err err;

    sim->usage.begin_ms = sim->now_ms;
    sim->usage.draw.state = sim->seed ^ 0x05A6ED;
    (void)snprintf(sim->usage.file, sizeof sim->usage.file, "%s/agent.key", folder);
    (void)unlink(sim->usage.file);
    if (signing_key_open(sim->usage.file, &sim->usage.key, &err) < 0)
        sim_violation(sim, "no key for the agents: %s", err.text);
}

void usage_end(struct sim *sim)
{
    if (sim->usage.key == NULL)
        return;
    signing_key_free(sim->usage.key);
    (void)unlink(sim->usage.file);
}

/* The annotation that an agent writes to its Node. */
void usage_agent(const struct sim *sim, char out[SIM_AGENT_BYTES])
{
    if (sim->rules.reports)
        (void)snprintf(out, SIM_AGENT_BYTES, "{\"v\":1,\"runtime\":\"sim\",\"key\":\"%s\"}",
                       signing_key_public(sim->usage.key));
    else
        (void)snprintf(out, SIM_AGENT_BYTES, "{\"v\":1,\"runtime\":\"sim\"}");
}

void usage_boot(struct sim *sim)
{
    must(sim->usage.reports == NULL);
    memset(sim->usage.over, 0, sizeof sim->usage.over);
    memset(sim->usage.over_open, 0, sizeof sim->usage.over_open);
    sim->usage.boot_ms = sim->now_ms;
    if (sim->rules.reports)
        sim->usage.reports = reports_new(&sim->daemon.app);
}

void usage_stop(struct sim *sim)
{
    reports_free(STEAL(sim->usage.reports));
}

/* --- what is written --- */

void usage_written(struct sim *sim, const struct command *command, const struct change *change)
{
    if (command->kind != COMMAND_OVER)
        return;
    const struct model_node *node = model_node(&sim->model, command->node);
    const int64_t minutes = 1 + (sim->now_ms - sim->usage.boot_ms) / MINUTE_MS;
    if (node == NULL || !sim->rules.reports)
        sim_violation(sim, "%s is said to have too much memory, and nobody reported it",
                      command->name);
    if (change->after != NULL || change->node_after != NULL || change->before != NULL)
        sim_violation(sim, "a report of usage has changed what %s holds", command->name);
    const size_t at = (size_t)(node - sim->model.node);
    const uint32_t count = sim->usage.over[at] + ++sim->usage.over_open[at];
    if (count > minutes * OVER_EVENTS_A_MINUTE)
        sim_violation(sim, "%s has caused %u entries of the journal within %lld minutes",
                      node->name, count, (long long)minutes);
    if (count == minutes * OVER_EVENTS_A_MINUTE)
        sim_met("usage/silenced");
    sim_met("usage/over");
}

/* The rows of a lost batch are written again. */
void usage_batch_ended(struct sim *sim, bool committed)
{
    for (size_t i = 0; i < MODEL_NODES; i++) {
        sim->usage.over[i] += committed ? sim->usage.over_open[i] : 0;
        sim->usage.over_open[i] = 0;
    }
}

static int64_t number_in(const struct sim *sim, const char *sql)
{
    sqlite3 *db = sim->daemon.app.store->db;
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW)
        sim_violation(sim, "%s: %s", sql, sqlite3_errmsg(db));
    const int64_t number = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return number;
}

/*
 * A GPU is granted once at most, and each second counts once, however often it is reported. Rows of
 * an hour are one for each model of the namespace.
 */
static void oracle_sums(const struct sim *sim)
{
    const int64_t counted = number_in(sim, "SELECT coalesce(sum(of_milli_s), 0) FROM measured");
    const int64_t rows =
        number_in(sim, "SELECT coalesce(max(rows), 0) FROM"
                       " (SELECT count(*) AS rows FROM measured GROUP BY hour_ms)");
    int64_t gpus = 0;

    for (uint32_t n = 0; n < sim->model.n_nodes; n++)
        gpus += sim->model.node[n].by_agent ? sim->model.node[n].is.n_gpus : 0;
    if (counted > gpus * (sim->now_ms -
                          sim->usage.begin_ms)) /* in thousandths of a GPU times seconds, and ms */
        sim_violation(sim, "%lld milli s are measured of %lld GPUs", (long long)counted,
                      (long long)gpus);
    if (rows > SIM_PRICES + 1)
        sim_violation(sim, "an hour has %lld rows of what was measured", (long long)rows);
    if (counted > 0)
        sim_met("usage/measured");
}

static void oracle_idle_share(void *user, const struct store_idle *idle)
{
    struct sim *sim = user;
    const struct model_pod *pod = model_find(&sim->model, idle->uid);
    bool has = false;

    for (uint32_t i = 0; pod != NULL && i < pod->n_shares; i++)
        has = has || (strcmp(pod->share[i].gpu, idle->gpu) == 0 &&
                      strcmp(pod->shape->want[pod->share[i].want].container, idle->container) == 0);
    if (!has || !model_alive(pod) || strcmp(pod->node, idle->node) != 0)
        sim_violation(sim, "%s is stored as idle on GPU %s of %s, and has no share there",
                      idle->uid, idle->gpu, idle->node);
    if (idle->since_ms > sim->wall_ms)
        sim_violation(sim, "p%u is stored as idle from a time on that is yet to come", pod->name);
    sim_met("usage/idle");
}

/* The file is what milligpud has just loaded. */
static void oracle_idle_known(void *user, const struct store_idle *idle)
{
    const struct sim *sim = user;
    const struct snapshot *snapshot = daemon_view(sim);
    const struct node *node = snapshot_node(snapshot, text_of(idle->node));
    const struct allocation *held = node != NULL ? node_allocation(node, text_of(idle->uid)) : NULL;

    if (held == NULL || held->facts.state != STATE_BOUND)
        sim_violation(sim, "%s is stored as idle on %s, and is not bound there", idle->uid,
                      idle->node);
    snapshot_unref(snapshot);
    sim_met("usage/idle_at_start");
}

static void load_idle(struct sim *sim, void (*each)(void *, const struct store_idle *))
{
    int64_t reported_ms = 0;
    struct err err;

    if (store_idle(sim->daemon.app.store, &reported_ms, sim, each, &err) < 0)
        sim_violation(sim, "the idle shares cannot be loaded: %s", err.text);
}

void usage_loaded(struct sim *sim)
{
    if (sim->rules.reports && sim->daemon.disk_heals_ms == 0)
        load_idle(sim, oracle_idle_known);
}

static void oracle_word(struct sim *sim, const struct model_node *node, struct draw *draw)
{
    char key[PUBLIC_KEY_TEXT_BYTES];
    const int expected = !node->is.there ? 404 : node->is.agent ? 204 : 401;

    if (!node->is.there && usage_table_key(sim->daemon.app.usage_table, text_of(node->name), key))
        sim_violation(sim, "%s is gone, and its agent is still known", node->name);
    if (node->was_odd)
        return; /* what could not be read may have hidden the key */
    const int status = report(sim, node, AMOUNTS_BUSY, draw);
    if (status != expected)
        sim_violation(sim, "all is quiet, and a report of %s is answered with %d instead of %d",
                      node->name, status, expected);
}

void oracle_usage(struct sim *sim)
{
    struct draw draw = {.state = sim->seed ^ (uint64_t)sim->now_ms << 20};

    if (!sim->rules.reports)
        return;
    oracle_sums(sim);
    load_idle(sim, oracle_idle_share);
    for (uint32_t n = 0; n < sim->model.n_nodes; n++)
        oracle_word(sim, &sim->model.node[n], &draw);
    sim_met("usage/quiet");
}
