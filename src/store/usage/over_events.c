/*
 * Reads from the journal when containers of a pod used more memory than their shares (there is an
 * index of these entries). Called by REST on admin threads, over a read-only connection.
 */
#include "store/store_internal.h"

static int over_events_give(sqlite3_stmt *stmt, void *user,
                            void (*each)(void *user, const struct history_over_event *over),
                            struct err *err)
{
    struct row row = row_start(stmt);
    struct history_over_event out = {.at_ms = row_number(&row, INT64_MIN, INT64_MAX)};

    must(each != NULL);
    out.uid = row_text(&row);
    out.container = row_text(&row);
    out.gpu = row_text(&row);
    out.how = row_text(&row);
    out.mib = (uint32_t)row_number(&row, 0, UINT32_MAX);
    out.peak_mib = (uint32_t)row_number(&row, 0, UINT32_MAX);
    const int failed = row_check(&row, "journal", err);
    if (failed == 0)
        each(user, &out);
    return failed;
}

static const char over_events_sql[] =
    "SELECT at, coalesce(json_extract(command, '$.uid'), ''),"
    " coalesce(json_extract(command, '$.container'), ''),"
    " coalesce(json_extract(command, '$.gpu'), ''), coalesce(json_extract(command, '$.why'), ''),"
    " coalesce(json_extract(command, '$.mib'), 0), coalesce(json_extract(command, '$.peak_mib'), 0)"
    " FROM journal INDEXED BY journal_over WHERE substr(command, 1, 14) = '{\"kind\":\"over\"'"
    " AND iif(json_valid(command),"
    " json_extract(command, '$.namespace') = ?1 AND json_extract(command, '$.name') = ?2, 0)"
    " ORDER BY seq DESC";

static int over_events_run(sqlite3 *db, const struct store_over_events_query *query, void *user,
                           void (*each)(void *user, const struct history_over_event *over),
                           struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    int more = db_prepare(db, over_events_sql, &stmt, err);
    if (more < 0)
        return more;
    must(sqlite3_bind_text(stmt, 1, query->namespace, -1, SQLITE_STATIC) == SQLITE_OK);
    must(sqlite3_bind_text(stmt, 2, query->pod, -1, SQLITE_STATIC) == SQLITE_OK);
    while ((more = db_step(stmt, err)) > 0)
        if ((more = over_events_give(stmt, user, each, err)) < 0)
            break;
    must(more <= 0);
    return more;
}

int store_over_events(struct store *store, const struct store_over_events_query *query, void *user,
                      void (*each)(void *user, const struct history_over_event *over),
                      struct err *err)
{
    struct reader reader;

    must(query->namespace != NULL);
    must(query->pod != NULL);
    int failed = reader_open(store, &reader, err);
    if (failed != 0)
        return err_wrap(err, "journal");
    failed = over_events_run(reader.db, query, user, each, err);
    reader_done(&reader);
    return failed != 0 ? err_wrap(err, "journal") : 0;
}
