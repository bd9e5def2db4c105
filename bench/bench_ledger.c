/*
 * bench_ledger - how many bytes the life of one pod leaves in the ledger, and how long a volume of
 * 1 GiB remembers 50,000 pods a day.
 *
 * Pods are reserved, bound and released, one batch each, with names as Deployments and clouds give
 * them. The pages of each table and index are those that SQLite counts (dbstat). Then the history
 * is packed, as it is near the limit.
 */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "cluster.h"
#include "measure.h"
#include "store/store_internal.h"

enum { PODS_A_DAY = 50000, CONTAINERS_MANY = 128, NAME_SIZE = 64 };

struct life {
    const char *kind;
    uint32_t containers;
    uint32_t pods;
};

static void run_command(struct ledger *ledger, const struct store_ops *ops,
                        const struct command *command)
{
    struct change change;
    struct err err;

    must(ledger_decide(ledger, command, &change) == VERDICT_OK);
    must(ops->write(ops->ctx, command, &change, &err) == STORE_OK);
    ledger_apply(ledger, &change);
    change_done(&change);
}

static void live_once(struct ledger *ledger, const struct store_ops *ops,
                      const struct request *request, uint32_t number)
{
    char uid[NAME_SIZE], name[NAME_SIZE], node[NODE_NAME_BYTES];
    struct err err;

    cluster_node_name(0, node);
    (void)snprintf(uid, sizeof uid, "ca4ab6af-e853-434d-b295-%012x", number);
    (void)snprintf(name, sizeof name, "inference-server-7d9c8b6f5-%05x", number);
    struct command command = {.kind = COMMAND_RESERVE,
                              .at_ms = INT64_C(1793491200000) + (int64_t)number * 1700,
                              .uid = uid,
                              .namespace = "team-search",
                              .name = name,
                              .node = node,
                              .request = request,
                              .version = 81234567 + number};
    must(ops->begin(ops->ctx, &err) == 0);
    run_command(ledger, ops, &command);
    command = (struct command){.kind = COMMAND_CONFIRM, .at_ms = command.at_ms + 50, .uid = uid};
    run_command(ledger, ops, &command);
    command.kind = COMMAND_RELEASE;
    command.at_ms += 600000;
    command.why = "deleted";
    run_command(ledger, ops, &command);
    must(ops->commit(ops->ctx, &err) == 0);
    must(ops->maintain(ops->ctx, command.at_ms, &err) == 0);
}

static void live_all(const char *path, const struct life *life)
{
    struct want want[CONTAINERS_MANY];
    char container[CONTAINERS_MANY][NAME_SIZE];
    struct request request = {.n_wants = life->containers, .want = want};
    struct store *store = cluster_store(path, false);
    struct ledger *ledger = NULL;
    struct store_ops ops;
    struct err err;

    for (uint32_t i = 0; i < life->containers; i++) {
        (void)snprintf(container[i], sizeof container[i], "worker-%u", i);
        want[i] = (struct want){.container = container[i],
                                .kind = CONTAINER_APP,
                                .parts = 1,
                                .milli = life->containers == 1 ? 300 : 10};
    }
    store_ops(store, &ops);
    must(ops.begin(ops.ctx, &err) == 0);
    cluster_write_to(&ops);
    ledger = cluster_ledger(1);
    cluster_write_to(NULL);
    must(ops.commit(ops.ctx, &err) == 0);
    for (uint32_t i = 0; i < life->pods; i++)
        live_once(ledger, &ops, &request, i);
    ledger_free(ledger);
    store_close(store);
}

static double pages_of(sqlite3 *db, const char *where)
{
    sqlite3_stmt *stmt = NULL;
    char sql[256];

    (void)snprintf(sql, sizeof sql, "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE %s", where);
    must(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK);
    must(sqlite3_step(stmt) == SQLITE_ROW);
    const double bytes = (double)sqlite3_column_int64(stmt, 0);
    must(sqlite3_finalize(stmt) == SQLITE_OK);
    return bytes;
}

static void say_of(const struct life *life, const char *what, double value, const char *unit)
{
    char name[128];

    (void)snprintf(name, sizeof name, "ledger.%s.%s", life->kind, what);
    say(name, value, unit);
}

/* Near the limit the journal has a quarter of it, the history what is left below 20 MiB of it. */
static void say_days(const struct life *life, const char *what, double limit_mib, double bytes)
{
    say_of(life, what, (limit_mib * 3 / 4 - 20) * 1048576 / bytes / PODS_A_DAY, "days");
}

/* The rest is less than half a piece. */
static double pack_all(const char *path)
{
    struct store *store = cluster_store(path, false);
    sqlite3 *db = NULL;
    struct err err;
    int64_t packed = 0;
    int rows = 0;

    do {
        must(db_exec(store->db, "BEGIN IMMEDIATE", &err) == 0);
        must(packs_add(store, &rows, &err) == 0);
        must(db_exec(store->db, "COMMIT", &err) == 0);
        packed += rows;
    } while (rows > 0);
    store_close(store);
    must(packed > 0);
    must(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    const double bytes = pages_of(db, "name LIKE 'pack%'");
    must(sqlite3_close(db) == SQLITE_OK);
    return bytes / (double)packed;
}

static void measure(const char *below, const struct life *life)
{
    char folder[256], path[300];
    sqlite3 *db = NULL;

    folder_make(below, folder, sizeof folder);
    (void)snprintf(path, sizeof path, "%s/ledger.db", folder);
    live_all(path, life);
    must(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    const double history = pages_of(db, "name IN ('allocation', 'share', 'charge', 'charge_gpu')"
                                        " OR name LIKE 'allocation!_p%' ESCAPE '!'") /
                           life->pods;
    const double journal = pages_of(db, "name LIKE 'journal%'") / life->pods;
    must(sqlite3_close(db) == SQLITE_OK);
    const double packed = pack_all(path);
    folder_drop(folder);
    say_of(life, "history_per_pod", history, "bytes");
    say_of(life, "packed_history_per_pod", packed, "bytes");
    say_of(life, "journal_per_pod", journal, "bytes");
    say_days(life, "days_of_history_in_30_percent_of_1_GiB", 1024 * 0.3, packed);
    say_days(life, "days_of_history_in_1_GiB", 1024, packed);
}

int main(int argc, char **argv)
{
    struct options options;

    if (!options_read(argc, argv, &options))
        return 2;
    measure(options.folder, &(struct life){"1_container", 1, options.quick ? 2000 : 10000});
    measure(options.folder,
            &(struct life){"128_containers", CONTAINERS_MANY, options.quick ? 50 : 500});
    return 0;
}
