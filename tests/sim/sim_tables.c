/*
 * tables - the length of everything that the daemon keeps: nothing grows with what is gone, and
 * what tenants can fill has a bound in bytes.
 */
#include <sqlite3.h>

#include "milligpu/base/map.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/request_classes.h"
#include "milligpu/waiting/waiting_pods.h"

#include "sim_run.h"
#include "store/store_internal.h"

enum {
    NAMES_A_GPU = 3, /* id, made-up id, model */
    NAMES_OTHER = 16,
    REMEMBERED =
        2 * 2 * 64, /* of a node that both score caches remember, with two pods of 64 GPUs each */
};

/* The pods that it remembers to have been asked about. */
static void oracle_hints(const struct sim *sim)
{
    struct arena arena;
    struct waiting waiting;

    arena_init(&arena);
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (model_alive(pod) && pod->node[0] == '\0')
            continue;
        if (waiting_pods_find(sim->daemon.app.waiting_pods, text_of(pod->uid), &arena, &waiting))
            sim_violation(sim, "p%u is %s, and is still remembered as one that waits", pod->name,
                          model_alive(pod) ? "bound" : "gone");
    }
    arena_done(&arena);
}

static void oracle_pods(const struct sim *sim)
{
    size_t alive = sim->rules.idle_pods;

    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        alive += model_alive(&sim->model.pod[i]) ? 1 : 0;
    alive += vouched_pods(sim);
    const size_t known = pod_cache_count(sim->daemon.app.pod_cache);
    if (known > alive)
        sim_violation(sim, "%zu pods are known, %zu live", known, alive);
}

/* Whatever was requested: the tables that tenants can fill. */
static void oracle_bytes(const struct sim *sim)
{
    const struct waiting_pods_bytes waiting_pods = waiting_pods_bytes(sim->daemon.app.waiting_pods);
    const struct pod_cache_bytes pods = pod_cache_bytes(sim->daemon.app.pod_cache);
    const struct {
        const char *name;
        size_t bytes;
        size_t most;
    } table[] = {{"askers", waiting_pods.waiting_pods, WAITING_PODS_BYTES_MAX},
                 {"wishes", waiting_pods.request_classes, REQUEST_CLASSES_BYTES_MAX},
                 {"refusals", waiting_pods.refusals, REFUSALS_BYTES_MAX},
                 {"requests", pods.requests, REQUEST_CLASSES_BYTES_MAX},
                 {"told", pods.seen, REMEMBERED_BYTES_MAX},
                 {"demands", pods.demands, DEMANDS_BYTES_MAX}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].bytes > table[i].most)
            sim_violation(sim, "the table of %s takes %zu bytes, at most %zu are its own",
                          table[i].name, table[i].bytes, table[i].most);
    if (waiting_pods_count(sim->daemon.app.waiting_pods) == 0 && waiting_pods.waiting_pods == 0 &&
        waiting_pods.request_classes > 0)
        sim_violation(sim, "nobody is remembered, and wishes take %zu bytes",
                      waiting_pods.request_classes);
    if (pod_cache_count(sim->daemon.app.pod_cache) == 0 && pods.requests + pods.seen > 0)
        sim_violation(sim, "no pod is known, and requests take %zu bytes, what was told %zu",
                      pods.requests, pods.seen);
}

static void count_drift(void *user, const struct drift *drift)
{
    size_t *count = user;

    (void)drift;
    ++*count;
}

static size_t drift_in(const struct snapshot *snapshot)
{
    const struct node *node;
    uint32_t at = 0;
    size_t count = 0;

    while ((node = snapshot_next(snapshot, &at)) != NULL)
        drift_of(node, &count, count_drift);
    return count;
}

/* Repaired drift is forgotten, once. */
static void oracle_drift(const struct sim *sim, const struct writer_tables *is)
{
    const struct snapshot *snapshot = daemon_view(sim);
    const size_t drifts = drift_in(snapshot);

    snapshot_unref(snapshot);
    if (is->drifts != drifts)
        sim_violation(sim, "%zu drifts are told of, there are %zu", is->drifts, drifts);
}

static bool has_packs(const struct sim *sim, sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(db, "SELECT 1 FROM pack", -1, &stmt, NULL) != SQLITE_OK)
        sim_violation(sim, "the packs cannot be asked");
    const bool has = sqlite3_step(stmt) == SQLITE_ROW;
    (void)sqlite3_finalize(stmt);
    return has;
}

/* Near its limit the ledger keeps live rows only, unless a reader holds its log. */
static void oracle_room(const struct sim *sim)
{
    const struct store *store = sim->daemon.app.store;
    const int64_t used = atomic_load(&store->used_bytes);

    if (atomic_load(&store->trimmed_ms) > 0)
        sim_met("ledger/trimmed");
    if (has_packs(sim, store->db))
        sim_met("ledger/packed");
    if (used > store->limits.trim_at && store->wal_pages < store->limits.wal_hard &&
        atomic_load(&store->journal_rows) > 0)
        sim_violation(
            sim,
            "the ledger takes %lld bytes, more than %lld, and has %llu entries that could "
            "go",
            (long long)used, (long long)store->limits.trim_at,
            (unsigned long long)atomic_load(&store->journal_rows));
}

/* No statement is left over, and none is in the middle: it would block every checkpoint. */
static void oracle_store(const struct sim *sim)
{
    const struct store *store = sim->daemon.app.store;
    uint32_t statements = 0;

    for (sqlite3_stmt *stmt = sqlite3_next_stmt(store->db, NULL); stmt != NULL;
         stmt = sqlite3_next_stmt(store->db, stmt)) {
        statements++;
        if (sqlite3_stmt_busy(stmt))
            sim_violation(sim, "all is quiet, and this still runs: %s", sqlite3_sql(stmt));
    }
    if (statements > ARRAY_LEN(store->stmt))
        sim_violation(sim, "%u statements are open, the store has %zu", statements,
                      ARRAY_LEN(store->stmt));
    if (!sqlite3_get_autocommit(store->db))
        sim_violation(sim, "all is quiet, and a transaction is open");
}

static void shown_name(struct map *shown, const struct atom *name)
{
    if (name != NULL)
        (void)map_put(shown, atom_text(name), shown);
}

static void shown_names(struct map *shown, const struct node *node)
{
    shown_name(shown, node->name);
    shown_name(shown, node->uid);
    shown_name(shown, node->problem_text);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        shown_name(shown, node->gpu[i].id);
        shown_name(shown, node->gpu[i].alias);
        shown_name(shown, node->gpu[i].model);
    }
    for (uint32_t i = 0; i < node->n_owned_ids; i++)
        shown_name(shown, node->owned_id[i]);
    for (uint32_t i = 0; node->labels != NULL && i < node->labels->count; i++)
        shown_name(shown, node->labels->text[i]);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        shown_name(shown, allocation->facts.node);
        shown_name(shown, allocation->facts.node_uid);
        for (uint32_t k = 0; k < allocation->facts.n_shares; k++)
            shown_name(shown, allocation->facts.share[k].gpu);
    }
}

/*
 * A score cache remembers a node as it was last judged: with the GPUs that were made up for pods
 * that somebody else bound there.
 */
static size_t remembered_names(const struct sim *sim)
{
    const size_t most = (size_t)sim->model.n_nodes * REMEMBERED;
    size_t names = 0;

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        for (uint32_t w = 0; !pod->ours && pod->node[0] != '\0' && w < pod->shape->n_wants; w++)
            names += model_parts(&pod->shape->want[w]);
    }
    return names < most ? names : most;
}

/*
 * The writer has swept since everything became quiet. Beside what the snapshot shows, score caches
 * and the table of waiting pods may hold names that nodes had before; what a pod made up is gone
 * with the pod, or with what a score cache remembers.
 */
static void oracle_names(const struct sim *sim, const struct writer_tables *is)
{
    const struct snapshot *snapshot = daemon_view(sim);
    const struct node *node;
    struct map shown;
    uint32_t at = 0;

    map_init(&shown);
    while ((node = snapshot_next(snapshot, &at)) != NULL)
        shown_names(&shown, node);
    const size_t before = (size_t)sim->model.n_nodes * (3 + MODEL_GPUS * NAMES_A_GPU) +
                          NAMES_OTHER + remembered_names(sim);
    const size_t most = shown.count + before;
    if (is->names > most)
        sim_violation(sim, "%zu names are kept, nodes and pods have %zu, and had at most %zu more",
                      is->names, shown.count, before);
    if (is->names < shown.count)
        sim_violation(sim, "%zu names are kept of %zu that are shown", is->names, shown.count);
    map_done(&shown);
    snapshot_unref(snapshot);
    sim_met("tables/names");
}

static void oracle_writer(const struct sim *sim)
{
    struct writer_tables is;

    writer_tables(sim->daemon.parts.writer, &is);
    const struct snapshot *snapshot = daemon_view(sim);
    const size_t open = snapshot->n_opens; /* without evidence a doubt stays */
    snapshot_unref(snapshot);
    if (is.doubts > open || is.inflight + is.n_kept + is.n_put_off + is.n_listed > 0)
        sim_violation(sim,
                      "all is quiet, and the writer keeps %zu flights, %zu doubts, %zu news, "
                      "%zu put off, %zu listed",
                      is.inflight, is.doubts, is.n_kept, is.n_put_off, is.n_listed);
    oracle_drift(sim, &is);
    if (is.nodes_seen > sim->model.n_nodes)
        sim_violation(sim, "%zu nodes are known, %u were there ever", is.nodes_seen,
                      sim->model.n_nodes);
    const size_t hosts = is.nodes_seen + pod_cache_count(sim->daemon.app.pod_cache);
    if (is.host_sums > hosts)
        sim_violation(sim, "sums of %zu hosts are kept, of at most %zu", is.host_sums, hosts);
    oracle_names(sim, &is);
    if (is.agents < vouched_least(sim) || is.agents > vouched_most(sim))
        sim_violation(sim, "%zu nodes are in the table of agents, it should be %zu to %zu",
                      is.agents, vouched_least(sim), vouched_most(sim));
}

void oracle_tables(struct sim *sim)
{
    oracle_hints(sim);
    oracle_pods(sim);
    oracle_bytes(sim);
    oracle_writer(sim);
    oracle_store(sim);
    oracle_room(sim);
    if (outbox_open(sim->daemon.app.outbox) > 0)
        sim_violation(sim, "all is quiet, and a Binding is open");
    sim_met("tables");
}
