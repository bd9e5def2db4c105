#include "store/store_internal.h"

static int verify_file_version(const char *path, int64_t version, struct err *err)
{
    must(version <= (int64_t)store_schema.version);
    if (version == (int64_t)store_schema.version)
        return 0;
    return err_set(err, ERR_INVALID,
                   "%s: version %lld of a ledger; this milligpuctl checks version %u: start the "
                   "milligpud of this version on it, which copies it and takes it to %u, or "
                   "check it with the milligpuctl that came with the older milligpud",
                   path, (long long)version, store_schema.version, store_schema.version);
}

typedef void each_check(void *user, enum store_check check, const char *wrong);

/*
 * CORRUPT and INTERNAL are findings: the next check still runs. Any other code ends the
 * verification.
 */
static int run_checks(sqlite3 *db, void *user, each_check *each, struct err *err)
{
    for (unsigned i = 0; i < STORE_CHECKS; i++) {
        const enum store_check which = (enum store_check)i;
        const int failed = check_one(db, &store_schema, which, err);
        must(failed <= 0);
        if (failed != 0 && err->code != ERR_CORRUPT && err->code != ERR_INTERNAL)
            return failed;
        each(user, which, failed != 0 ? err->text : NULL);
    }
    return 0;
}

int store_verify_file(const char *path, void *user, each_check *each, struct err *err)
{
    struct quiet_file file;
    int64_t version = 0;
    struct err later;

    must(path != NULL && each != NULL);
    int failed = quiet_open(path, &file, &version, err);
    if (failed == 0)
        failed = verify_file_version(path, version, err);
    const bool damaged = failed == -(int)ERR_CORRUPT;
    if (failed == 0)
        failed = run_checks(file.db, user, each, err);
    if (quiet_close(&file, &later) < 0 && failed == 0)
        failed = err_set(err, later.code, "%s", later.text);
    if (!damaged)
        return failed;
    /* Too damaged to even say whose it is. */
    each(user, CHECK_PAGES, err->text);
    return 0;
}
