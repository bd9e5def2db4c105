/*
 * When containers of a pod held more memory than their shares: entries of the journal, which has no
 * index for them, since they are rare and change nothing. Called by REST on admin threads, over a
 * connection that only reads. Numbers and times of entries ascend together, so the entries of a
 * time are found by halving, and the rest is not read.
 */
#include "store/store_internal.h"

/* How far the wall clock may have been set back, and nothing is missed. */
static const int64_t clock_slack_ms = INT64_C(60) * 60 * 1000;

/* The first entry that has this number or a greater one; *out_seq 0: there is none. */
static int overs_entry(sqlite3_stmt *stmt, int64_t seq, int64_t *out_seq, int64_t *out_at,
                       struct err *err)
{
    must(sqlite3_reset(stmt) == SQLITE_OK);
    must(sqlite3_bind_int64(stmt, 1, seq) == SQLITE_OK);
    *out_seq = 0;
    int more = db_step(stmt, err);
    if (more > 0) {
        struct row row = row_start(stmt);
        *out_seq = row_number(&row, 1, INT64_MAX);
        *out_at = row_number(&row, INT64_MIN, INT64_MAX);
        more = row_check(&row, "journal", err);
    }
    return more < 0 ? more : 0;
}

/* The first entry from low on, and before high, that is of this time or later; high: none is. */
static int overs_first(sqlite3_stmt *stmt, int64_t low, int64_t high, int64_t ms, int64_t *out,
                       struct err *err)
{
    int failed = 0;

    must(low <= high);
    while (failed == 0 && low < high) {
        const int64_t middle = low + (high - low) / 2;
        int64_t seq = 0;
        int64_t at = 0;
        failed = overs_entry(stmt, middle, &seq, &at, err);
        if (failed == 0 && seq >= low && seq < high && at < ms)
            low = seq + 1;
        else
            high = middle;
    }
    *out = low;
    return failed;
}

/* From *out_low on, and before *out_high. */
static int overs_span(sqlite3 *db, const struct store_overs_query *query, int64_t *out_low,
                      int64_t *out_high, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;
    const int64_t from_ms =
        query->from_ms > INT64_MIN + clock_slack_ms ? query->from_ms - clock_slack_ms : INT64_MIN;
    const int64_t until_ms =
        query->until_ms < INT64_MAX - clock_slack_ms ? query->until_ms + clock_slack_ms : INT64_MAX;
    int64_t oldest = 0;
    int64_t newest = 0;

    int failed = db_number(db, "SELECT coalesce(min(seq), 0) FROM journal", &oldest, err);
    if (failed == 0)
        failed = db_number(db, "SELECT coalesce(max(seq), 0) FROM journal", &newest, err);
    if (failed == 0)
        failed = db_prepare(db, "SELECT seq, at FROM journal WHERE seq >= ? ORDER BY seq LIMIT 1",
                            &stmt, err);
    if (failed == 0)
        failed = overs_first(stmt, oldest, newest + 1, from_ms, out_low, err);
    if (failed == 0)
        failed = overs_first(stmt, *out_low, newest + 1, until_ms, out_high, err);
    return failed;
}

static int overs_give(sqlite3_stmt *stmt, void *user,
                      void (*each)(void *user, const struct history_over *over), struct err *err)
{
    struct row row = row_start(stmt);
    struct history_over out = {.at_ms = row_number(&row, INT64_MIN, INT64_MAX)};

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

/* kind is the first member (state_command()), so few entries have to be read as JSON. */
static const char overs_sql[] =
    "SELECT at, coalesce(json_extract(command, '$.uid'), ''),"
    " coalesce(json_extract(command, '$.container'), ''),"
    " coalesce(json_extract(command, '$.gpu'), ''), coalesce(json_extract(command, '$.why'), ''),"
    " coalesce(json_extract(command, '$.mib'), 0), coalesce(json_extract(command, '$.peak_mib'), 0)"
    " FROM journal WHERE seq >= ?1 AND seq < ?2"
    " AND iif(substr(command, 1, 14) = '{\"kind\":\"over\"' AND json_valid(command),"
    " json_extract(command, '$.namespace') = ?3 AND json_extract(command, '$.name') = ?4, 0)"
    " ORDER BY seq DESC";

static int overs_run(sqlite3 *db, const struct store_overs_query *query, void *user,
                     void (*each)(void *user, const struct history_over *over), struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;
    int64_t low = 0;
    int64_t high = 0;

    int more = overs_span(db, query, &low, &high, err);
    if (more == 0)
        more = db_prepare(db, overs_sql, &stmt, err);
    if (more < 0)
        return more;
    must(sqlite3_bind_int64(stmt, 1, low) == SQLITE_OK);
    must(sqlite3_bind_int64(stmt, 2, high) == SQLITE_OK);
    must(sqlite3_bind_text(stmt, 3, query->namespace, -1, SQLITE_STATIC) == SQLITE_OK);
    must(sqlite3_bind_text(stmt, 4, query->pod, -1, SQLITE_STATIC) == SQLITE_OK);
    while ((more = db_step(stmt, err)) > 0)
        if ((more = overs_give(stmt, user, each, err)) < 0)
            break;
    must(more <= 0);
    return more;
}

int store_overs(struct store *store, const struct store_overs_query *query, void *user,
                void (*each)(void *user, const struct history_over *over), struct err *err)
{
    struct reader reader;

    must(query->namespace != NULL);
    must(query->pod != NULL);
    int failed = reader_open(store, &reader, err);
    if (failed != 0)
        return err_wrap(err, "journal");
    /* One moment for both halves; in memory nobody else has the connection now. */
    failed = store->memory ? 0 : db_exec(reader.db, "BEGIN", err);
    if (failed == 0)
        failed = overs_run(reader.db, query, user, each, err);
    reader_done(&reader);
    return failed != 0 ? err_wrap(err, "journal") : 0;
}
