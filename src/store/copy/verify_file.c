/*
 * Verifies a ledger file for milligpuctl. The checks are for the tables of this version: an older
 * file is migrated in memory and the result checked.
 */
#include "store/store_internal.h"

typedef void each_check(void *user, enum store_check check, const char *wrong);

/* CORRUPT and INTERNAL are findings, after which the next check runs. Other codes end the run. */
static int run_checks(sqlite3 *db, enum store_check from, void *user, each_check *each,
                      struct err *err)
{
    for (unsigned i = from; i < STORE_CHECKS; i++) {
        const enum store_check which = (enum store_check)i;
        const int failed = check_one(db, &store_schema, which, err);
        must(failed <= 0);
        if (failed != 0 && err->code != ERR_CORRUPT && err->code != ERR_INTERNAL)
            return failed;
        each(user, which, failed != 0 ? err->text : NULL);
    }
    return 0;
}

/* Checks the pages of the file itself. Rows that cannot be migrated are a finding. */
static int run_checks_of_older(sqlite3 *db, const char *path, int64_t version, void *user,
                               each_check *each, struct err *err)
{
    CLEANUP(db_closep) sqlite3 *migrated = NULL;

    must(version < (int64_t)store_schema.version);
    if (check_one(db, &store_schema, CHECK_PAGES, err) != 0) {
        if (err->code != ERR_CORRUPT && err->code != ERR_INTERNAL)
            return err_same(err);
        each(user, CHECK_PAGES, err->text);
        return 0;
    }
    each(user, CHECK_PAGES, NULL);
    if (migrate_in_memory(db, path, version, &migrated, err) == 0)
        return run_checks(migrated, CHECK_PAGES + 1, user, each, err);
    if (err->code != ERR_CORRUPT && err->code != ERR_INTERNAL && err->code != ERR_CONFLICT)
        return err_same(err);
    each(user, CHECK_TABLES, err->text);
    return 0;
}

int store_verify_file(const char *path, void *user, each_check *each, struct err *err)
{
    struct quiet_file file;
    int64_t version = 0;
    struct err later;

    must(path != NULL && each != NULL);
    int failed = quiet_open(path, &file, &version, err);
    const bool damaged = failed == -(int)ERR_CORRUPT;
    if (failed == 0 && version < (int64_t)store_schema.version)
        failed = run_checks_of_older(file.db, path, version, user, each, err);
    else if (failed == 0)
        failed = run_checks(file.db, CHECK_PAGES, user, each, err);
    if (quiet_close(&file, &later) < 0 && failed == 0)
        failed = err_set(err, later.code, "%s", later.text);
    if (!damaged)
        return failed;
    /* Too damaged to be identified. */
    each(user, CHECK_PAGES, err->text);
    return 0;
}
