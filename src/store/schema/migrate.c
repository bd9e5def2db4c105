/*
 * Migrates a ledger to the current version: makes a copy, then runs all steps in one transaction,
 * and checks that the result has exactly the tables of that version. Forward only. After a crash or
 * a failed check the file is unchanged, and the next start begins with a copy again. Called by
 * schema_prepare.c at start, and in memory by verify_file.c.
 */
#include <stdio.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

static const struct store_migration *step_from(const struct store_schema *schema, int64_t version)
{
    for (size_t i = 0; i < schema->n_migrations; i++)
        if (schema->migration[i].from == version)
            return &schema->migration[i];
    return NULL;
}

/* Off, it opens sqlite_schema to a step of ours, whose result is compared as that of any step. */
static void set_defensive(sqlite3 *db, bool on)
{
    int is = -1;

    must(sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, (int)on, &is) == SQLITE_OK);
    must(is == (int)on);
}

static int migrate_step(const struct store *store, const struct store_migration *step,
                        struct err *err)
{
    must(sqlite3_get_autocommit(store->db) == 0);
    char orphan[128];

    if (step->edits_schema)
        set_defensive(store->db, false);
    int failed = db_exec(store->db, step->sql, err);
    set_defensive(store->db, true);
    /* It names a table, index or trigger that is missing here, or is there already. */
    if (failed != 0 && (sqlite3_errcode(store->db) & 0xff) == SQLITE_ERROR)
        failed = schema_is_other(store->db, store->schema, sqlite3_errmsg(store->db), err);
    /* foreign_keys is off here, so dangling references must be searched for. */
    if (failed == 0)
        failed = db_sentence(store->db, "SELECT \"table\" FROM pragma_foreign_key_check", orphan,
                             sizeof orphan, err);
    if (failed == 0 && orphan[0] != '\0')
        failed = err_set(err, ERR_INTERNAL, "%s: the new version leaves orphans in table %s",
                         store->path, orphan);
    return failed;
}

static int migrate_inside(const struct store *store, int64_t version, struct err *err)
{
    int failed = 0;

    must(version < store->schema->version);
    for (; failed == 0 && version < store->schema->version; version++) {
        const struct store_migration *step = step_from(store->schema, version);
        must(step != NULL);
        failed = migrate_step(store, step, err);
    }
    if (failed == 0)
        failed = schema_set_version(store->db, store->schema->version, err);
    /* Before the COMMIT: a failure leaves the older ledger unchanged. */
    if (failed == 0)
        failed = schema_check(store->db, store->schema, err);
    if (failed == 0)
        failed = db_exec(store->db, "COMMIT", err);
    return failed;
}

static int migrate_from(const struct store *store, uint32_t version, struct err *err)
{
    char word[32];
    const int length = snprintf(word, sizeof word, "v%u", version);
    must(length > 0 && (size_t)length < sizeof word);

    CLEANUP(xfreep) char *copy = store->memory ? NULL : file_free_name(store->path, word);
    /* Twice the file: the copy, and a log that may contain every page. */
    int failed = copy != NULL ? space_for_copy(store->path, 2 * file_bytes(store->path, ""),
                                               "a migration, with the copy before it,", err)
                              : 0;
    if (failed == 0 && copy != NULL)
        failed = backup_to(store->db, copy, err);
    /* Off, because dropping a replaced table must not affect the tables that refer to it. */
    if (failed == 0)
        failed = db_exec(store->db, "PRAGMA foreign_keys=OFF; BEGIN IMMEDIATE", err);
    if (failed == 0)
        failed = migrate_inside(store, version, err);
    if (failed != 0)
        db_rollback(store->db);
    if (failed == 0)
        failed = db_exec(store->db, "PRAGMA foreign_keys=ON", err);
    if (failed != 0)
        return err_wrap(err, "migrate from version %u", version);
    store_notice(store, "%s: migrated from version %u to %u; the backup is %s", store->path,
                 version, store->schema->version, copy != NULL ? copy : "not needed");
    return 0;
}

int migrate_forward(const struct store *store, int64_t version, struct err *err)
{
    for (int64_t from = version; from < store->schema->version; from++)
        if (step_from(store->schema, from) == NULL)
            return err_set(err, ERR_CORRUPT, "%s: version %lld of a ledger, which never existed",
                           store->path, (long long)version);
    return version < store->schema->version ? migrate_from(store, (uint32_t)version, err) : 0;
}

/* `from` is in a read transaction, so the copy is consistent. */
int migrate_in_memory(sqlite3 *from, const char *path, int64_t version, sqlite3 **out,
                      struct err *err)
{
    must(from != NULL && out != NULL);
    struct store trial = {.schema = &store_schema, .path = xstrdup(path), .memory = true};

    int failed = db_open(":memory:", DB_CREATE, &trial.db, err);
    if (failed == 0)
        failed = backup_pages(from, trial.db, err);
    if (failed == 0)
        failed = migrate_forward(&trial, version, err);
    *out = trial.db;
    xfree(trial.path);
    return failed;
}
