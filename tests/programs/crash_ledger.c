/*
 * crash_ledger - judges ledger files for tests/crash, and migrates one, to be killed half-way.
 *
 *   crash_ledger verify           prints the version that the daemon writes; then a line each way:
 *                                "VERSION FILE" -> "ok", or what is wrong
 *   crash_ledger migrate FILE    from this version to a made-up next one
 *
 * Judging opens the file as the daemon would, so use it on copies, but it never migrates: a file of
 * a version other than the given one is wrong. What the daemon writes already has the newest
 * version, so the migration that is killed half-way is a made-up one.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/valid.h"

/* As a real migration would do: one more table, filled from existing rows. */
#define MORE_TABLE                                                                                 \
    "CREATE TABLE extra (allocation INTEGER PRIMARY KEY, uid TEXT NOT NULL, held INTEGER NOT "     \
    "NULL) STRICT; CREATE INDEX extra_uid ON extra (uid);"
#define MORE_ROWS                                                                                  \
    "INSERT INTO extra SELECT id, uid,"                                                            \
    " (SELECT coalesce(sum(milli), 0) FROM charge WHERE allocation = id) FROM allocation;"

/* Static, because the store keeps a pointer to it while it is open. */
static const struct store_schema *next_schema(void)
{
    static struct store_migration step = {.sql = MORE_TABLE MORE_ROWS};
    static struct store_schema next = {.migration = &step, .n_migrations = 1};
    static char sql[32768];

    const int length = snprintf(sql, sizeof sql, "%s%s", store_schema.sql, MORE_TABLE);
    must(length > 0 && (size_t)length < sizeof sql);
    step.from = store_schema.version;
    next.version = step.from + 1;
    next.sql = sql;
    return &next;
}

/*
 * The store's verification, which replays the journal too; then what it loads must pass the
 * ledger's own.
 */
static int check(unsigned version, const char *file, struct err *err)
{
    const struct store_rules rules = {.path = file};
    struct store_schema schema = version == store_schema.version ? store_schema : *next_schema();
    struct store *store = NULL;

    if (version != schema.version)
        return err_set(err, ERR_INVALID, "no version %u is known here", version);
    schema.n_migrations = 0;
    struct ledger *ledger = ledger_new();
    int failed = store_open_as(&rules, &schema, &store, err);
    if (failed == 0)
        failed = store_verify(store, err);
    if (failed == 0)
        failed = store_load(store, ledger, err);
    if (failed == 0)
        ledger_assert_valid(ledger);
    ledger_free(ledger);
    store_close(store);
    return failed;
}

static int serve(void)
{
    char line[4200];
    char file[4096];
    unsigned version;
    struct err err;

    (void)printf("%u\n", store_schema.version);
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%u %4095s", &version, file) != 2)
            return 2;
        const int failed = check(version, file, &err);
        (void)printf("%s\n", failed == 0 ? "ok" : err.text);
        (void)fflush(stdout);
    }
    return 0;
}

static int migrate(const char *file)
{
    const struct store_rules rules = {.path = file};
    struct store *store = NULL;
    struct err err;

    if (store_open_as(&rules, next_schema(), &store, &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    store_close(store);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "verify") == 0)
        return serve();
    if (argc == 3 && strcmp(argv[1], "migrate") == 0)
        return migrate(argv[2]);
    (void)fprintf(stderr, "crash_ledger: see the head of its source\n");
    return 2;
}
