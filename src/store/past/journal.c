/*
 * Reads the journal for followers: entries after a number, oldest first. Called by the thread that
 * feeds streams and by admin threads, over a read-only connection.
 */
#include "store/store_internal.h"

uint64_t store_newest(const struct store *store)
{
    return atomic_load(&store->seq_stable);
}

static int journal_give(sqlite3_stmt *stmt, const struct store_journal_query *query, bool *out_more,
                        struct err *err)
{
    struct row row = row_start(stmt);
    struct journal_row out = {.seq = (uint64_t)row_number(&row, 0, INT64_MAX)};

    must(query->each != NULL);
    out.at_ms = row_number(&row, INT64_MIN, INT64_MAX);
    out.kind = row_text(&row);
    out.command = row_text(&row);
    out.result = row_text(&row);
    const int failed = row_check(&row, "journal", err);
    *out_more = failed == 0 && query->each(query->user, &out);
    return failed;
}

/* In one transaction, so that no round of retention runs between the two reads. */
static int journal_read(sqlite3 *db, const struct store_journal_query *query, uint64_t *out_folded,
                        struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;
    bool more = true;
    int64_t folded = 0;

    must(query->after <= INT64_MAX && query->limit > 0);
    int rc = db_number(db, "SELECT folded FROM meta", &folded, err);
    *out_folded = folded > 0 ? (uint64_t)folded : 0;
    if (rc == 0)
        rc = db_prepare(db,
                        "SELECT seq, at, coalesce(json_extract(command, '$.kind'), ''), command,"
                        " result FROM journal WHERE seq > ?1 AND json_valid(command)"
                        " AND json_valid(result) ORDER BY seq LIMIT ?2",
                        &stmt, err);
    if (rc == 0) {
        must(sqlite3_bind_int64(stmt, 1, (int64_t)query->after) == SQLITE_OK);
        must(sqlite3_bind_int64(stmt, 2, query->limit) == SQLITE_OK);
    }
    while (rc == 0 && more && (rc = db_step(stmt, err)) > 0)
        rc = journal_give(stmt, query, &more, err);
    must(rc <= 0);
    return rc;
}

int store_journal(struct store *store, const struct store_journal_query *query,
                  uint64_t *out_folded, struct err *err)
{
    struct reader reader;

    int failed = reader_open(store, &reader, err);
    if (failed != 0)
        return err_wrap(err, "journal");
    /* In memory the locked connection needs no transaction. */
    failed = store->memory ? 0 : db_exec(reader.db, "BEGIN", err);
    if (failed == 0)
        failed = journal_read(reader.db, query, out_folded, err);
    reader_done(&reader);
    return failed != 0 ? err_wrap(err, "journal") : 0;
}
