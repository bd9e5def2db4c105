/*
 * Prepares an open file for use: identifies it, then creates or migrates the tables, and checks
 * them. Called by store.c at start, on the main thread.
 */
#include <stdio.h>
#include <string.h>

#include "store/store_internal.h"

/* Ends with the COMMIT, which turns the blank database into a ledger. */
static int schema_prepare_fill(const struct store *store, struct err *err)
{
    char meta[128];
    const int length = snprintf(meta, sizeof meta,
                                "INSERT INTO meta (one, created_ms, folded, id)"
                                " VALUES (1, %lld, 0, lower(hex(randomblob(16))))",
                                (long long)file_wall_ms());
    must(length > 0 && (size_t)length < sizeof meta);

    int failed = db_exec(store->db, store->schema->sql, err);
    if (failed == 0)
        failed = db_exec(store->db, meta, err);
    if (failed == 0)
        failed = schema_set_version(store->db, store->schema->version, err);
    if (failed == 0)
        failed = db_exec(store->db, "COMMIT", err);
    return failed;
}

/*
 * One transaction: a crash leaves a blank database, which the next start fills. Syncs the folder,
 * because the file is new.
 */
static int schema_prepare_create(const struct store *store, struct err *err)
{
    must(sqlite3_get_autocommit(store->db) != 0);
    int failed = db_exec(store->db, "BEGIN EXCLUSIVE", err);
    if (failed == 0)
        failed = schema_prepare_fill(store, err);
    if (failed != 0)
        db_rollback(store->db);
    if (failed == 0 && !store->memory)
        failed = file_sync_folder(store->path, err);
    return failed;
}

/* SQLite returns the mode in effect: another one means that locks or shared memory do not work. */
static int use_wal(const struct store *store, struct err *err)
{
    must(store->path != NULL);
    char mode[16];

    if (store->memory)
        return 0;
    int failed = db_sentence(store->db, "PRAGMA journal_mode=WAL", mode, sizeof mode, err);
    if (failed == 0 && strcmp(mode, "wal") != 0)
        failed = err_set(err, ERR_IO, "%s: SQLite cannot use a write-ahead log here (it says %s)",
                         store->path, mode);
    return failed;
}

/*
 * Only a file without pages takes a page size. A ledger that an older version created has pages of
 * 4 KiB for its life, as has one whose creation was cut off then.
 */
static int choose_page_bytes(const struct store *store, struct err *err)
{
    char sql[48];
    const int length = snprintf(sql, sizeof sql, "PRAGMA page_size=%d", STORE_PAGE_BYTES);

    must(length > 0 && (size_t)length < sizeof sql);
    return db_exec(store->db, sql, err);
}

/* A file to which nothing is written before the checks have ended. */
static bool may_check_beside(const struct store *store, int64_t version)
{
    char mode[16];
    struct err err; /* check_file() will say it */

    must(store->db != NULL);
    return store->checks_beside && !store->memory && version == store->schema->version &&
           db_sentence(store->db, "PRAGMA journal_mode", mode, sizeof mode, &err) == 0 &&
           strcmp(mode, "wal") == 0;
}

/* With the pages checked, or while they are. */
static int prepare_tables(struct store *store, bool blank, int64_t version, struct err *err)
{
    int failed = blank ? choose_page_bytes(store, err) : owner_may_migrate(store, version, err);
    if (failed == 0)
        failed = use_wal(store, err);
    if (failed == 0)
        failed = blank ? schema_prepare_create(store, err) : migrate_forward(store, version, err);
    if (failed == 0)
        failed = schema_check(store->db, store->schema, err);
    if (failed == 0)
        failed = check_live(store->db, &store->opened, err);
    return failed;
}

/*
 * In this order: the file is identified before the first write; the log is rewritten (wal.c) before
 * its content is used; SQLite's own checks come before a migration would copy damage; the owner is
 * checked before the migration; our checks come last, on the migrated tables. Where there is
 * nothing to migrate, SQLite's checks run beside ours, and what they find is said first.
 */
int schema_prepare(struct store *store, struct err *err)
{
    bool blank = false;
    bool is_beside = false;
    int64_t version = 0;
    struct check_beside beside;

    must(store->db != NULL && store->opened == NULL);
    int failed = schema_identify(store->db, store->schema, &blank, &version, err);
    if (failed == 0 && !blank && !store->memory)
        failed = log_rewrite(store->path, err);
    if (failed == 0 && !blank)
        is_beside = may_check_beside(store, version);
    if (failed == 0 && !blank)
        failed = is_beside ? check_beside_begin(&beside, store->db, err)
                           : check_file(store->db, false, err);
    if (failed != 0)
        return failed;
    failed = prepare_tables(store, blank, version, err);
    return is_beside ? check_beside_end(&beside, failed, err) : failed;
}
