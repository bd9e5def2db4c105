/*
 * Stores the policy document in force, byte for byte. The writer writes it after it has put the
 * document in force (store_ops.keep_policy). The main thread reads it if the document's file cannot
 * be read at the start, before it opens the ledger, because a start that fails changes nothing. The
 * store does not interpret the bytes.
 */
#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

int kept_policy_write(struct store *store, const struct store_policy *policy, struct err *err)
{
    must(store->in_batch);
    if (policy == NULL)
        return db_run(store->stmt[ST_POLICY_DROP], err);
    must(policy->document.len > 0 && policy->document.len <= STORE_POLICY_BYTES_MAX);
    struct bind bind = bind_start(store->stmt[ST_POLICY_SET]);
    bind_text(&bind, policy->name);
    bind_bytes(&bind, policy->document);
    bind_number(&bind, policy->read_ms);
    return bind_run(&bind, NULL, err);
}

/* At most one row: its key is always 1. */
static int kept_policy_read(sqlite3_stmt *stmt, struct arena *arena, struct store_policy *out,
                            struct err *err)
{
    struct row row = row_start(stmt);
    const char *name = row_text(&row);
    const struct text document = row_bytes(&row);
    const int64_t read_ms = row_number(&row, INT64_MIN, INT64_MAX);
    const int failed = row_check(&row, "policy", err);

    if (failed != 0)
        return failed;
    if (name[0] == '\0' || document.len > STORE_POLICY_BYTES_MAX)
        return err_set(
            err, ERR_CORRUPT,
            "%s: table policy: a name, and a document of at most %d bytes would be right",
            db_name(sqlite3_db_handle(stmt)), STORE_POLICY_BYTES_MAX);
    *out = (struct store_policy){.name = arena_copy(arena, text_of(name)),
                                 .document = {arena_copy(arena, document), document.len},
                                 .read_ms = read_ms};
    return 0;
}

/* The table does not exist before version 6. */
static int kept_policy_find(struct quiet_file *file, struct arena *arena, struct store_policy *out,
                            struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;
    int64_t tables = 0;

    int more = db_number(file->db, "SELECT count(*) FROM sqlite_schema WHERE name = 'policy'",
                         &tables, err);
    if (more != 0 || tables == 0)
        return more;
    more = db_prepare(file->db, "SELECT name, document, read_ms FROM policy", &stmt, err);
    if (more == 0)
        more = db_step(stmt, err);
    return more > 0 ? kept_policy_read(stmt, arena, out, err) : more;
}

static int kept_policy_look(const char *path, struct arena *arena, struct store_policy *out,
                            struct err *err)
{
    struct quiet_file file;
    int64_t version = 0;
    struct err later;

    must(path[0] == '/');
    int failed = quiet_open(path, &file, &version, err);
    if (failed == 0)
        failed = kept_policy_find(&file, arena, out, err);
    if (quiet_close(&file, &later) < 0 && failed == 0)
        failed = err_set(err, later.code, "%s", later.text);
    return failed;
}

int store_kept_policy(const char *path, struct arena *arena, struct store_policy *out,
                      struct err *err)
{
    CLEANUP(xfreep) char *full = NULL;

    *out = (struct store_policy){.name = NULL};
    int failed = file_find(path, &full, err);
    if (failed == 0)
        failed = kept_policy_look(full, arena, out, err);
    if (failed == -(int)ERR_NOT_FOUND)
        return 0;
    if (failed != 0)
        *out = (struct store_policy){.name = NULL};
    return failed;
}
