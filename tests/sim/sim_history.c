/*
 * history - who held what is known for as long as retention says, whatever the clock said.
 *
 * A wall clock that is more than a day ahead for a moment deletes nothing. Smaller steps are
 * believed; so the test covers what was bound less than a day ago even if they were right. Where
 * the ledger may take little, history goes by bytes, and sim_tables.c judges that.
 */
#include <sqlite3.h>

#include "sim_run.h"
#include "store/store_internal.h"

static const int64_t KEPT_MS =
    INT64_C(23) * 3600 * 1000; /* part of a day; the clock goes back, too */

static bool is_young(const struct sim *sim, const struct model_pod *pod)
{
    return sim->now_ms - pod->bound_ms + sim->forward_ms - pod->bound_forward_ms < KEPT_MS;
}

static uint32_t rows_of(const struct sim *sim, sqlite3_stmt *stmt, const char *uid)
{
    (void)sqlite3_bind_text(stmt, 1, uid, -1, SQLITE_STATIC);
    if (sqlite3_step(stmt) != SQLITE_ROW)
        sim_violation(sim, "the history cannot be read");
    const uint32_t rows = (uint32_t)sqlite3_column_int(stmt, 0);
    (void)sqlite3_reset(stmt);
    return rows;
}

void oracle_history(struct sim *sim)
{
    sqlite3_stmt *stmt = NULL;

    if (sim->rules.loses || sim->rules.scarce)
        return;
    if (sqlite3_prepare_v2(sim->daemon.app.store->db,
                           "SELECT count(*) FROM allocation WHERE uid = ? AND state = 'released'",
                           -1, &stmt, NULL) != SQLITE_OK)
        sim_violation(sim, "the history cannot be asked");
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!pod->ours || pod->n_shares == 0 || model_alive(pod) || !is_young(sim, pod))
            continue;
        if (rows_of(sim, stmt, pod->uid) == 0)
            sim_violation(sim, "p%u was bound %lld s ago, and the history has nothing of it",
                          pod->name, (long long)(sim->now_ms - pod->bound_ms) / 1000);
        sim_met(sim->years ? "history/kept_over_years" : "history/kept");
    }
    (void)sqlite3_finalize(stmt);
}
