#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"

#include "store/store_inside.h"

extern const char store_schema_sql[];

const struct store_schema store_schema = {.version = 1, .sql = store_schema_sql};

/* A statement without comments and blanks: what it says, not how it looks. */
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

static int describe(sqlite3 *db, struct strbuf *out, struct err *err)
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

/* What a new file of this schema would have. */
static int describe_fresh(const struct store_schema *schema, struct strbuf *out, struct err *err)
{
    CLEANUP(db_closep) sqlite3 *db = NULL;

    int failed = db_open(":memory:", DB_CREATE, &db, err);
    if (failed == 0)
        failed = db_exec(db, schema->sql, err);
    if (failed == 0)
        failed = describe(db, out, err);
    must(failed != 0 || out->len > 0);
    return failed;
}

/* A table, a trigger, a check more or less, and nothing that this program promises holds. */
int schema_check(sqlite3 *db, const struct store_schema *schema, struct err *err)
{
    must(db != NULL);
    struct strbuf is, should;

    strbuf_init(&is);
    strbuf_init(&should);
    int failed = describe(db, &is, err);
    if (failed == 0)
        failed = describe_fresh(schema, &should, err);
    if (failed == 0 && strcmp(is.data, should.data) != 0)
        failed = err_set(err, ERR_CORRUPT,
                         "%s: the ledger is corrupt: its tables are not those of version %u",
                         sqlite3_db_filename(db, "main"), schema->version);
    strbuf_done(&is);
    strbuf_done(&should);
    return failed;
}

static int set_version(sqlite3 *db, uint32_t version, struct err *err)
{
    char sql[96];
    const int length = snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%u",
                                STORE_APPLICATION_ID, version);
    must(length > 0 && (size_t)length < sizeof sql);
    return db_exec(db, sql, err);
}

static int fill(const struct store *store, struct err *err)
{
    char meta[96];
    const int length = snprintf(meta, sizeof meta,
                                "INSERT INTO meta (one, created_ms, folded) VALUES (1, %lld, 0)",
                                (long long)file_wall_ms());
    must(length > 0 && (size_t)length < sizeof meta);

    int failed = db_exec(store->db, store->schema->sql, err);
    if (failed == 0)
        failed = db_exec(store->db, meta, err);
    if (failed == 0)
        failed = set_version(store->db, store->schema->version, err);
    if (failed == 0)
        failed = db_exec(store->db, "COMMIT", err);
    return failed;
}

static int create(const struct store *store, struct err *err)
{
    must(sqlite3_get_autocommit(store->db) != 0);
    int failed = db_exec(store->db, "BEGIN EXCLUSIVE", err);
    if (failed == 0)
        failed = fill(store, err);
    if (failed != 0)
        db_rollback(store->db);
    if (failed == 0 && !store->memory)
        failed = file_sync_folder(store->path, err);
    return failed;
}

static const struct store_migration *step_from(const struct store_schema *schema, int64_t version)
{
    for (size_t i = 0; i < schema->migrations; i++)
        if (schema->migration[i].from == version)
            return &schema->migration[i];
    return NULL;
}

static int migrate_inside(const struct store *store, const struct store_migration *step,
                          struct err *err)
{
    must(sqlite3_get_autocommit(store->db) == 0);
    char orphan[128];

    int failed = db_exec(store->db, step->sql, err);
    if (failed == 0)
        failed = db_sentence(store->db, "SELECT \"table\" FROM pragma_foreign_key_check", orphan,
                             sizeof orphan, err);
    if (failed == 0 && orphan[0] != '\0')
        failed = err_set(err, ERR_INTERNAL, "%s: the new version leaves orphans in table %s",
                         store->path, orphan);
    if (failed == 0)
        failed = set_version(store->db, step->from + 1, err);
    if (failed == 0)
        failed = db_exec(store->db, "COMMIT", err);
    return failed;
}

/* In one transaction: whoever dies in the middle finds the old version. */
static int migrate_step(const struct store *store, const struct store_migration *step,
                        struct err *err)
{
    char word[32];
    const int length = snprintf(word, sizeof word, "v%u", step->from);
    must(length > 0 && (size_t)length < sizeof word);

    CLEANUP(xfreep) char *copy = store->memory ? NULL : file_free_name(store->path, word);
    int failed = copy != NULL ? backup_to(store->db, copy, err) : 0;
    /* Tables that are replaced are dropped, which must not reach those that refer to them. */
    if (failed == 0)
        failed = db_exec(store->db, "PRAGMA foreign_keys=OFF; BEGIN IMMEDIATE", err);
    if (failed == 0)
        failed = migrate_inside(store, step, err);
    if (failed != 0)
        db_rollback(store->db);
    if (failed == 0)
        failed = db_exec(store->db, "PRAGMA foreign_keys=ON", err);
    if (failed != 0)
        return err_wrap(err, "migrate from version %u", step->from);
    store_notice(store, "%s: migrated from version %u to %u; a copy of before is %s", store->path,
                 step->from, step->from + 1, copy != NULL ? copy : "not needed");
    return 0;
}

static int migrate(const struct store *store, int64_t version, struct err *err)
{
    while (version < store->schema->version) {
        const struct store_migration *step = step_from(store->schema, version);
        if (step == NULL)
            return err_set(err, ERR_CORRUPT, "%s: version %lld of a ledger, which never was",
                           store->path, (long long)version);
        const int failed = migrate_step(store, step, err);
        if (failed != 0)
            return failed;
        version++;
    }
    must(version == store->schema->version);
    return 0;
}

int schema_identify(sqlite3 *db, const struct store_schema *schema, bool *out_blank,
                    int64_t *out_version, struct err *err)
{
    const char *path = sqlite3_db_filename(db, "main");
    int64_t id, things;

    must(schema->version > 0);
    int failed = db_number(db, "PRAGMA application_id", &id, err);
    if (failed == 0)
        failed = db_number(db, "PRAGMA user_version", out_version, err);
    if (failed == 0)
        failed = db_number(db, "SELECT count(*) FROM sqlite_schema", &things, err);
    if (failed != 0)
        return failed;

    /* An end between the first byte and the first COMMIT leaves an empty database. */
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

int schema_settle(struct store *store, struct err *err)
{
    bool blank = false;
    int64_t version = 0;

    must(store->db != NULL);
    int failed = schema_identify(store->db, store->schema, &blank, &version, err);
    if (failed == 0 && !blank && !store->memory)
        failed = log_rewrite(store->path, err);
    if (failed == 0 && !blank)
        failed = check_file(store->db, false, err);
    if (failed == 0)
        failed = use_wal(store, err);
    if (failed == 0)
        failed = blank ? create(store, err) : migrate(store, version, err);
    if (failed == 0)
        failed = schema_check(store->db, store->schema, err);
    if (failed == 0)
        failed = check_live(store->db, err);
    return failed;
}
