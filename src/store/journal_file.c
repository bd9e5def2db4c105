/*
 * Reads the journal of a ledger file from end to end, with the state before its first entry. Called
 * by milligpuctl. Tables meta, baseline and journal are the same in every version of the schema, so
 * an older file needs no migration. The journal is checked first: a gap, or an entry that is no
 * JSON, would make another past of it.
 */
#include "milligpu/journal_file.h"

#include "store/store_internal.h"

/*
 * The numbers of meta and journal that the reader needs first. The journal begins with the first
 * entry about the cluster: that of the policy comes before any node is known.
 */
static int journal_file_span(sqlite3 *db, const char *path, struct journal_span *out,
                             struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    int more = db_prepare(db,
                          "SELECT count(*), coalesce((SELECT at FROM journal"
                          " WHERE json_extract(command, '$.kind') IS NOT 'policy'"
                          " ORDER BY seq LIMIT 1), 0),"
                          " coalesce((SELECT at FROM journal ORDER BY seq DESC LIMIT 1), 0),"
                          " coalesce(sum(at - json_extract(command, '$.clock_from_ms'))"
                          " FILTER (WHERE json_extract(command, '$.kind') = 'clock'), 0),"
                          " (SELECT folded FROM meta) FROM journal",
                          &stmt, err);
    if (more == 0)
        more = db_step(stmt, err);
    if (more < 0)
        return more;
    must(more == 1);
    struct row row = row_start(stmt);
    const int64_t entries = row_number(&row, 0, INT64_MAX);
    out->oldest_ms = row_number(&row, INT64_MIN, INT64_MAX);
    out->newest_ms = row_number(&row, INT64_MIN, INT64_MAX);
    out->set_ms = row_number(&row, INT64_MIN, INT64_MAX);
    out->folded = (uint64_t)row_number(&row, 0, INT64_MAX);
    more = row_check(&row, "journal", err);
    if (more == 0 && entries == 0)
        more =
            err_set(err, ERR_INVALID, "%s: its journal is empty: nothing has happened yet", path);
    return more;
}

/* Keys are "node/..." and "allocation/...", so falling order has the nodes first. */
static int journal_file_objects(sqlite3 *db, const struct journal_file_reader *reader,
                                struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    must(reader->object != NULL);
    int more = db_prepare(db,
                          "SELECT key LIKE 'node/%', state FROM baseline WHERE json_valid(state)"
                          " ORDER BY key DESC",
                          &stmt, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        const bool is_node = row_number(&row, 0, 1) != 0;
        const char *state = row_text(&row);
        more = row_check(&row, "baseline", err);
        if (more == 0)
            more = reader->object(reader->user, is_node, state, err);
    }
    return more;
}

static int journal_file_entries(sqlite3 *db, const struct journal_file_reader *reader,
                                struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    must(reader->entry != NULL);
    int more = db_prepare(db,
                          "SELECT seq, at, coalesce(json_extract(command, '$.kind'), ''), command,"
                          " result FROM journal ORDER BY seq",
                          &stmt, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        struct journal_row out = {.seq = (uint64_t)row_number(&row, 0, INT64_MAX)};
        out.at_ms = row_number(&row, INT64_MIN, INT64_MAX);
        out.kind = row_text(&row);
        out.command = row_text(&row);
        out.result = row_text(&row);
        more = row_check(&row, "journal", err);
        if (more == 0)
            more = reader->entry(reader->user, &out, err);
    }
    return more;
}

int store_journal_file(const char *path, const struct journal_file_reader *reader, struct err *err)
{
    struct quiet_file file;
    struct journal_span span;
    int64_t version = 0;
    struct err later;

    must(path != NULL && reader->span != NULL);
    int failed = quiet_open(path, &file, &version, err);
    if (failed == 0)
        failed = check_one(file.db, &store_schema, CHECK_JOURNAL, err);
    if (failed == 0)
        failed = journal_file_span(file.db, path, &span, err);
    if (failed == 0)
        failed = reader->span(reader->user, &span, err);
    if (failed == 0)
        failed = journal_file_objects(file.db, reader, err);
    if (failed == 0)
        failed = journal_file_entries(file.db, reader, err);
    if (quiet_close(&file, &later) < 0 && failed == 0)
        failed = err_set(err, later.code, "%s", later.text);
    return failed;
}
