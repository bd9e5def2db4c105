/*
 * Reads the whole journal of a ledger file, with the state before its first entry. Called by
 * milligpuctl. Tables meta, baseline and journal are the same in every version of the schema, so an
 * older file needs no migration. The journal is checked first, because a gap, or an entry that is
 * not JSON, would change the replayed past.
 */
#include "milligpu/store/past/journal_file.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

#include "store/store_internal.h"

/* Skips policy entries for oldest_ms: the first one precedes the first node. */
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

/*
 * The constant parts of live allocations (state_kept()), which complete the results of steps: a
 * replay needs complete allocations.
 */
struct kept_parts {
    struct map by_uid;  /* char: the uid with its NUL, then the part */
    sqlite3_stmt *join; /* merges a result and a part */
};

static const char kept_join_sql[] = "SELECT json_set(?1, '$.allocation',"
                                    " json_patch(json_extract(?1, '$.allocation'), ?2))";

static void kept_forget(struct kept_parts *parts, const char *uid)
{
    must(uid != NULL);
    xfree(map_take(&parts->by_uid, text_of(uid)));
}

/* The map's key is the uid at the front of the value. */
static void kept_put(struct kept_parts *parts, const char *uid, const char *part)
{
    const size_t key = strlen(uid) + 1;
    const size_t bytes = strlen(part) + 1;

    kept_forget(parts, uid);
    char *kept = xmalloc(key + bytes);
    memcpy(kept, uid, key);
    memcpy(kept + key, part, bytes);
    must(map_put(&parts->by_uid, text_of(kept), kept) == NULL);
}

/* NULL: not in the baseline or the journal. */
static const char *kept_find(const struct kept_parts *parts, const char *uid)
{
    const char *kept = map_find(&parts->by_uid, text_of(uid));

    must(uid != NULL);
    return kept != NULL ? kept + strlen(uid) + 1 : NULL;
}

static void kept_done(struct kept_parts *parts)
{
    size_t at = 0;
    char *kept;

    while ((kept = map_next(&parts->by_uid, &at)) != NULL)
        xfree(kept);
    map_done(&parts->by_uid);
    (void)sqlite3_finalize(parts->join); /* repeats an error that was already handled */
}

/* Nodes first, by descending keys: "node/..." and "allocation/...". */
static int journal_file_objects(sqlite3 *db, const struct journal_file_reader *reader,
                                struct kept_parts *parts, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    must(reader->object != NULL);
    int more = db_prepare(db,
                          "SELECT key LIKE 'node/%', state, json_extract(state, '$.uid'),"
                          " iif(json_type(state, '$.shares') IS NOT NULL,"
                          " json_remove(state, " STATE_STEP_PATHS "), NULL)"
                          " FROM baseline WHERE json_valid(state) ORDER BY key DESC",
                          &stmt, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        const bool is_node = row_number(&row, 0, 1) != 0;
        const char *state = row_text(&row);
        const char *uid = row_text_or_null(&row);
        const char *kept = row_text_or_null(&row);
        more = row_check(&row, "baseline", err);
        if (more == 0 && uid != NULL && kept != NULL)
            kept_put(parts, uid, kept);
        if (more == 0)
            more = reader->object(reader->user, is_node, state, err);
    }
    return more;
}

/* Completes the allocation in out->result, which is then valid until the next run of join. */
static int journal_file_complete(struct kept_parts *parts, struct row *row, struct journal_row *out,
                                 struct err *err)
{
    const char *uid = row_text_or_null(row);
    const char *part = row_text_or_null(row);
    const bool ends = row_number(row, 0, 1) != 0;

    if (row->fault != NULL || uid == NULL)
        return 0;
    if (part != NULL && !ends)
        kept_put(parts, uid, part);
    const char *kept = part == NULL ? kept_find(parts, uid) : NULL;
    if (kept != NULL) {
        (void)sqlite3_reset(parts->join); /* repeats an error that was already handled */
        struct bind bind = bind_start(parts->join);
        bind_text(&bind, out->result);
        bind_text(&bind, kept);
        must(bind.rc == SQLITE_OK);
        const int more = db_step(parts->join, err);
        if (more < 0)
            return more;
        struct row joined = row_start(parts->join);
        out->result = row_text(&joined);
    }
    if (ends)
        kept_forget(parts, uid);
    return 0;
}

static int journal_file_entries(sqlite3 *db, const struct journal_file_reader *reader,
                                struct kept_parts *parts, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    must(reader->entry != NULL);
    int more = db_prepare(db,
                          "SELECT seq, at, coalesce(json_extract(command, '$.kind'), ''), command,"
                          " result, json_extract(result, '$.allocation.uid'),"
                          " iif(json_type(result, '$.allocation.shares') IS NOT NULL,"
                          " json_remove(json_extract(result, '$.allocation'), " STATE_STEP_PATHS
                          "), NULL), json_extract(result, '$.allocation.state') IS 'released'"
                          " FROM journal ORDER BY seq",
                          &stmt, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        struct journal_row out = {.seq = (uint64_t)row_number(&row, 0, INT64_MAX)};
        out.at_ms = row_number(&row, INT64_MIN, INT64_MAX);
        out.kind = row_text(&row);
        out.command = row_text(&row);
        out.result = row_text(&row);
        more = journal_file_complete(parts, &row, &out, err);
        if (more == 0)
            more = row_check(&row, "journal", err);
        if (more == 0)
            more = reader->entry(reader->user, &out, err);
    }
    return more;
}

static int journal_file_read(sqlite3 *db, const struct journal_file_reader *reader, struct err *err)
{
    struct kept_parts parts = {.join = NULL};

    must(db != NULL);
    map_init(&parts.by_uid);
    int failed = db_prepare(db, kept_join_sql, &parts.join, err);
    if (failed == 0)
        failed = journal_file_objects(db, reader, &parts, err);
    if (failed == 0)
        failed = journal_file_entries(db, reader, &parts, err);
    kept_done(&parts);
    return failed;
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
        failed = journal_file_read(file.db, reader, err);
    if (quiet_close(&file, &later) < 0 && failed == 0)
        failed = err_set(err, later.code, "%s", later.text);
    return failed;
}
