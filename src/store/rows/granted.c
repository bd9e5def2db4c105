/*
 * Sums grants over time, for chargeback: live and released allocations, added up by SQLite. Called
 * by REST on admin threads, over a read-only connection. Charges that ended before the queried time
 * are not read: indexes find released allocations by their end, and packs by their latest end. One
 * condition for live and released ones would have SQLite read every charge.
 */
#include "store/store_internal.h"

/*
 * The life of each charge between ?1 and ?2, in whole seconds, so that no sum of milli exceeds 63
 * bits. A negative life (the wall clock was set back) counts as 0.
 */
static const char granted_sql[] =
    "SELECT namespace, model, count(DISTINCT uid), sum(milli * (ms / 1000)),"
    " sum(mib * (ms / 1000)) FROM"
    " (SELECT namespace, uid, milli, mib, coalesce((SELECT g.model FROM gpu AS g"
    "   WHERE g.node = l.node AND (g.id = l.gpu OR g.alias = l.gpu) LIMIT 1), '') AS model,"
    "   max(0, min(?2, until_ms) - max(?1, bound_ms)) AS ms FROM"
    "  (SELECT a.namespace, a.uid, a.node, c.gpu, c.milli, c.mib, a.bound_ms,"
    "    a.released_ms AS until_ms FROM allocation AS a INDEXED BY allocation_past"
    "   CROSS JOIN charge AS c ON c.allocation = a.id"
    "   WHERE a.bytes > 0 AND a.released_ms > ?1 AND a.bound_ms > 0"
    "   UNION ALL SELECT a.namespace, a.uid, a.node, c.gpu, c.milli, c.mib, a.bound_ms, ?2"
    "   FROM allocation AS a INDEXED BY allocation_live"
    "   CROSS JOIN charge AS c ON c.allocation = a.id WHERE a.bytes = 0 AND a.bound_ms > 0"
    "   UNION ALL SELECT u.namespace, u.uid, u.node, u.gpu, u.milli, u.mib, u.bound_ms,"
    "    u.released_ms FROM pack AS p JOIN unpack AS u ON u.body = p.body"
    "   WHERE p.ended_ms > ?1 AND u.released_ms > ?1 AND u.bound_ms > 0 AND u.gpu <> '') AS l)"
    " GROUP BY namespace, model HAVING sum(ms) > 0 ORDER BY namespace, model";

static int granted_give(sqlite3_stmt *stmt, void *user,
                        void (*each)(void *user, const struct store_granted *row), struct err *err)
{
    struct row row = row_start(stmt);
    struct store_granted out = {.namespace = row_text(&row), .model = row_text(&row)};

    must(each != NULL);
    out.pods = (uint64_t)row_number(&row, 1, INT64_MAX);
    out.milli_s = (uint64_t)row_number(&row, 0, INT64_MAX);
    out.mib_s = (uint64_t)row_number(&row, 0, INT64_MAX);
    const int failed = row_check(&row, "allocation", err);
    if (failed == 0)
        each(user, &out);
    return failed;
}

static int granted_run(sqlite3 *db, int64_t since_ms, int64_t now_ms, void *user,
                       void (*each)(void *user, const struct store_granted *row), struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    int more = db_prepare(db, granted_sql, &stmt, err);
    if (more < 0)
        return more;
    must(sqlite3_bind_int64(stmt, 1, since_ms) == SQLITE_OK);
    must(sqlite3_bind_int64(stmt, 2, now_ms) == SQLITE_OK);
    while ((more = db_step(stmt, err)) > 0)
        if ((more = granted_give(stmt, user, each, err)) < 0)
            break;
    must(more <= 0);
    return more;
}

int store_granted(struct store *store, int64_t since_ms, int64_t now_ms, void *user,
                  void (*each)(void *user, const struct store_granted *row), struct err *err)
{
    struct reader reader;

    must(each != NULL);
    int failed = reader_open(store, &reader, err);
    if (failed == 0) {
        failed = granted_run(reader.db, since_ms, now_ms, user, each, err);
        reader_done(&reader);
    }
    return failed != 0 ? err_wrap(err, "history") : 0;
}
