/*
 * Whose file it is, and which version: application_id marks a ledger, user_version is its version,
 * and its tables, indexes and triggers must be exactly those that schema.sql would create. Called
 * at start, after each migration, and by every check.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

/* The build makes these from the .sql files beside this one. */
extern const char store_schema_sql[];
extern const char store_from_1_sql[];
extern const char store_from_2_sql[];
extern const char store_from_3_sql[];
extern const char store_from_4_sql[];
extern const char store_from_5_sql[];
extern const char store_from_6_sql[];
extern const char store_from_7_sql[];

/* For each released version the step to the next one. */
static const struct store_migration steps[] = {
    {.from = 1, .sql = store_from_1_sql}, {.from = 2, .sql = store_from_2_sql},
    {.from = 3, .sql = store_from_3_sql}, {.from = 4, .sql = store_from_4_sql},
    {.from = 5, .sql = store_from_5_sql}, {.from = 6, .sql = store_from_6_sql},
    {.from = 7, .sql = store_from_7_sql},
};

const struct store_schema store_schema = {.version = ARRAY_LEN(steps) + 1,
                                          .sql = store_schema_sql,
                                          .migration = steps,
                                          .migrations = ARRAY_LEN(steps)};

/* A statement without comments and blanks: its meaning, not its layout. */
static void add_bare(struct strbuf *out, const char *sql)
{
    must(sql != NULL);
    bool quoted = false;

    for (const char *at = sql; *at != '\0'; at++) {
        quoted ^= *at == '\'';
        if (!quoted && at[0] == '-' && at[1] == '-') {
            at += strcspn(at, "\n");
            at -= *at == '\0';
        } else if (quoted || !isspace((unsigned char)*at)) {
            strbuf_char(out, *at);
        }
    }
    strbuf_char(out, '\n');
}

static int schema_describe(sqlite3 *db, struct strbuf *out, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    int more = db_prepare(db,
                          "SELECT coalesce(sql, name) FROM sqlite_schema"
                          " WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type, name",
                          &stmt, err);
    while (more == 0) {
        more = db_step(stmt, err);
        if (more <= 0)
            return more;
        const char *sql = (const char *)sqlite3_column_text(stmt, 0);
        must(sql != NULL);
        add_bare(out, sql);
        more = 0;
    }
    return more;
}

/* What a new file with this schema would contain. */
static int describe_fresh(const struct store_schema *schema, struct strbuf *out, struct err *err)
{
    CLEANUP(db_closep) sqlite3 *db = NULL;

    int failed = db_open(":memory:", DB_CREATE, &db, err);
    if (failed == 0)
        failed = db_exec(db, schema->sql, err);
    if (failed == 0)
        failed = schema_describe(db, out, err);
    must(failed != 0 || out->len > 0);
    return failed;
}

/* One table, trigger or check more or less, and none of this program's promises holds. */
int schema_check(sqlite3 *db, const struct store_schema *schema, struct err *err)
{
    must(db != NULL);
    struct strbuf is, should;

    strbuf_init(&is);
    strbuf_init(&should);
    int failed = schema_describe(db, &is, err);
    if (failed == 0)
        failed = describe_fresh(schema, &should, err);
    if (failed == 0 && strcmp(is.data, should.data) != 0)
        failed = err_set(err, ERR_CORRUPT,
                         "%s: the ledger is corrupt: its tables are not those of version %u",
                         db_name(db), schema->version);
    strbuf_done(&is);
    strbuf_done(&should);
    return failed;
}

/* Both numbers are in the header of the file, so they belong to the open transaction. */
int schema_set_version(sqlite3 *db, uint32_t version, struct err *err)
{
    char sql[96];
    const int length = snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%u",
                                STORE_APPLICATION_ID, version);
    must(length > 0 && (size_t)length < sizeof sql);
    return db_exec(db, sql, err);
}

/* Before anything is written: the file may be another program's. */
int schema_identify(sqlite3 *db, const struct store_schema *schema, bool *out_blank,
                    int64_t *out_version, struct err *err)
{
    const char *path = db_name(db);
    int64_t id, things;

    must(schema->version > 0);
    int failed = db_number(db, "PRAGMA application_id", &id, err);
    if (failed == 0)
        failed = db_number(db, "PRAGMA user_version", out_version, err);
    if (failed == 0)
        failed = db_number(db, "SELECT count(*) FROM sqlite_schema", &things, err);
    if (failed != 0)
        return failed;

    /* A crash between the first byte and the first COMMIT leaves an empty database. */
    *out_blank = id == 0 && *out_version == 0 && things == 0;
    if (*out_blank)
        return 0;
    if (id != STORE_APPLICATION_ID)
        return err_set(err, ERR_FOREIGN,
                       "%s: a SQLite database, but not a milligpu ledger; name another file", path);
    if (*out_version > schema->version)
        return err_set(err, ERR_NEWER,
                       "%s: version %lld of a ledger, written by a newer milligpu; this one knows "
                       "%u: use the newer one, or the copy that it made before it migrated",
                       path, (long long)*out_version, schema->version);
    return 0;
}
