/*
 * Opens the SQLite connections of the store, runs their statements, and maps SQLite's codes to
 * ours. Called by all parts of the store, in the thread that owns the connection: connections are
 * opened without a mutex, and there is no lock here. The content of a file is untrusted input:
 * configuration and limits make it harmless, and every column is checked as it is read. In order:
 * codes, opening, running, parameters, columns.
 */
#include "db.h"

#include <pthread.h>
#include <string.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/base/text.h"

/* BUSY_MS: timeout of a statement for a lock of another process or reader. */
enum { BUSY_MS = 2000, VALUE_BYTES_MAX = 4 << 20, SQL_BYTES_MAX = 64 << 10 };

/*
 * Callers act on the code: CONFLICT refuses one change and the batch goes on, CORRUPT may move the
 * file aside at start, anything else loses the batch.
 */
static enum err_code db_code_of(int rc)
{
    must(rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE);
    switch (rc & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
        return ERR_CONFLICT;
    case SQLITE_FULL:
        return ERR_FULL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_SCHEMA:
        return ERR_CORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_BUSY;
    case SQLITE_IOERR:
        /* A page beyond the end of the file: the file is truncated, the disk works. */
        return rc == SQLITE_IOERR_SHORT_READ ? ERR_CORRUPT : ERR_IO;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_NOMEM:
    case SQLITE_PROTOCOL:
        return ERR_IO;
    case SQLITE_INTERRUPT:
        return ERR_UNAVAILABLE; /* interrupted by the caller */
    default:
        return ERR_INTERNAL;
    }
}

const char *db_name(sqlite3 *db)
{
    must(db != NULL);
    const char *file = sqlite3_db_filename(db, "main");
    return file == NULL || file[0] == '\0' ? "the ledger in memory" : file;
}

int db_fail(sqlite3 *db, int rc, struct err *err, const char *doing)
{
    must(rc != SQLITE_OK);
    must(doing != NULL);

    const char *file = db_name(db);
    /* The connection's message is that of its last failure, which may be another one. */
    const char *why =
        (sqlite3_errcode(db) & 0xff) == (rc & 0xff) ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    return err_set(err, db_code_of(rc), "%s: %s: %s (SQLite %d)", file, doing, why, rc);
}

/*
 * The file is untrusted. Triggers stay on, because the schema enforces I1 with them; views,
 * extensions and, in a schema, functions with side effects are off.
 */
static int db_config(sqlite3 *db, struct err *err)
{
    must(db != NULL);
    static const struct {
        int what;
        int value;
    } switches[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 1},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 1},
        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},
        /* Only store_close() checkpoints on close: a refused file must not change. */
        {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1},
        /*
         * No query plan depends on bound values. Without this, SQLite recompiles statements that
         * use a partial index in every run.
         */
        {SQLITE_DBCONFIG_ENABLE_QPSG, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(switches); i++) {
        const int rc = sqlite3_db_config(db, switches[i].what, switches[i].value, NULL);
        if (rc != SQLITE_OK)
            return db_fail(db, rc, err, "configure");
    }
    const int rc = unpack_table_add(db);
    return rc == SQLITE_OK ? 0 : db_fail(db, rc, err, "the table unpack");
}

/* Limits for a crafted file's use of memory and time; far above our own statements. */
static void db_limits(sqlite3 *db)
{
    static_assert(SQL_BYTES_MAX < VALUE_BYTES_MAX, "a statement is a value, too");
    static const struct {
        int what;
        int most;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX},
        {SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX},
        {SQLITE_LIMIT_COLUMN, 64},
        {SQLITE_LIMIT_EXPR_DEPTH, 64},
        {SQLITE_LIMIT_COMPOUND_SELECT, 8},
        {SQLITE_LIMIT_VDBE_OP, 100000},
        {SQLITE_LIMIT_FUNCTION_ARG, 16}, /* json_remove() with STATE_STEP_PATHS */
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 64},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 8},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        (void)sqlite3_limit(db, limits[i].what, limits[i].most); /* returns the former one */
}

/* Writes "file:PATH?immutable=1" with the path escaped for SQLite. */
static void put_uri(struct strbuf *out, const char *path)
{
    must(path[0] != '\0');
    strbuf_str(out, path[0] == '/' ? "file://" : "file:");
    for (const char *at = path; *at != '\0'; at++)
        if (*at == '%' || *at == '?' || *at == '#')
            strbuf_printf(out, "%%%02x", (unsigned)*at);
        else
            strbuf_char(out, *at);
    strbuf_str(out, "?immutable=1");
}

/*
 * DB_READ opens for writing, too, because a reader of a write-ahead log writes to its shared
 * memory; query_only in db_open() prevents other writes.
 */
static int open_by_mode(const char *path, enum db_mode mode, sqlite3 **out)
{
    /* No mutex: each connection has one user at a time (store_internal.h). */
    static const int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    CLEANUP(strbuf_done) struct strbuf uri;

    must(path != NULL && path[0] != '\0');
    strbuf_init(&uri);
    switch (mode) {
    case DB_CREATE:
        return sqlite3_open_v2(path, out, flags | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                               log_vfs());
    case DB_READ:
        return sqlite3_open_v2(path, out, flags | SQLITE_OPEN_READWRITE, NULL);
    case DB_BESIDE:
        return sqlite3_open_v2(path, out, flags | SQLITE_OPEN_READONLY, NULL);
    case DB_LOG:
        return sqlite3_open_v2(path, out, flags | SQLITE_OPEN_READONLY, "unix-none");
    case DB_STILL:
        put_uri(&uri, path);
        return sqlite3_open_v2(uri.data, out, flags | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    }
    must_not_reach("every mode is listed");
}

/*
 * The pages that a connection keeps. The writer's are touched by each batch; readers come and go,
 * mostly beside the writer, and each reads the file once.
 */
static int cache_pages(sqlite3 *db, enum db_mode mode, struct err *err)
{
    return db_exec(db, mode == DB_CREATE ? "PRAGMA cache_size=-4000" : "PRAGMA cache_size=-2000",
                   err);
}

/*
 * Disables SQLite's memory statistics, which nobody uses and which take a global lock twice per
 * allocation. Without effect, and harmless, once SQLite is initialized.
 */
static void count_no_memory(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int db_open(const char *path, enum db_mode mode, sqlite3 **out, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sqlite3 *db = NULL;

    must(pthread_once(&once, count_no_memory) == 0);
    const int rc = open_by_mode(path, mode, &db);
    must(db != NULL); /* otherwise out of memory */
    int failed = rc == SQLITE_OK ? db_config(db, err)
                                 : err_set(err, ERR_IO, "%s: %s", path, sqlite3_errmsg(db));
    db_limits(db);
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    /* Index of the log in our own memory: nobody else uses the file. Set before any read. */
    if (failed == 0 && mode == DB_LOG)
        failed = db_exec(db, "PRAGMA locking_mode=EXCLUSIVE", err);
    /*
     * synchronous=FULL: each COMMIT syncs the log (I4). No automatic checkpoint: it would delay a
     * COMMIT for which binds wait; maintain.c runs it between batches.
     */
    if (failed == 0)
        failed = db_exec(db,
                         "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA synchronous=FULL;"
                         "PRAGMA temp_store=MEMORY; PRAGMA secure_delete=OFF;"
                         "PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit=16777216",
                         err);
    if (failed == 0)
        failed = cache_pages(db, mode, err);
    if (failed == 0 && mode != DB_CREATE)
        failed = db_exec(db, "PRAGMA query_only=ON", err);
    if (failed != 0) {
        db_close(db);
        return failed;
    }
    *out = db;
    return 0;
}

void db_close(sqlite3 *db)
{
    if (db == NULL)
        return;
    sqlite3_stmt *stmt;
    while ((stmt = sqlite3_next_stmt(db, NULL)) != NULL)
        (void)sqlite3_finalize(stmt); /* repeats an error that was already handled */
    must(sqlite3_close(db) == SQLITE_OK);
}

int db_exec(sqlite3 *db, const char *sql, struct err *err)
{
    must(sql != NULL);
    const int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        return 0;

    char doing[64];
    text_clip(text_of(sql), doing, sizeof doing);
    return db_fail(db, rc, err, doing);
}

void db_rollback(sqlite3 *db)
{
    /* After a full disk or an I/O error SQLite may have rolled back already. */
    if (sqlite3_get_autocommit(db) == 0)
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL,
                           NULL); /* the transaction ends even if this fails */
    must(sqlite3_get_autocommit(db) != 0);
}

int db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, struct err *err)
{
    const int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    must((rc == SQLITE_OK) == (*out != NULL));
    return rc == SQLITE_OK ? 0 : db_fail(db, rc, err, "prepare");
}

int db_step(sqlite3_stmt *stmt, struct err *err)
{
    must(stmt != NULL);
    const int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;

    char doing[64];
    text_clip(text_of(sqlite3_sql(stmt)), doing, sizeof doing);
    return db_fail(sqlite3_db_handle(stmt), rc, err, doing);
}

int db_run(sqlite3_stmt *stmt, struct err *err)
{
    must(stmt != NULL);
    int more;
    do
        more = db_step(stmt, err);
    while (more > 0);
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more;
}

int db_ask(sqlite3_stmt *stmt, int64_t *out, struct err *err)
{
    const int more = db_step(stmt, err);

    must(more != 0);
    if (more > 0)
        *out = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more < 0 ? more : 0;
}

int db_bytes(sqlite3 *db, int64_t *out, struct err *err)
{
    must(db != NULL);
    return db_number(db, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                     out, err);
}

int db_number(sqlite3 *db, const char *sql, int64_t *out, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    int failed = db_prepare(db, sql, &stmt, err);
    if (failed != 0)
        return failed;
    failed = db_step(stmt, err);
    if (failed == 0)
        return db_fail(db, SQLITE_CORRUPT, err, sql);
    if (failed < 0)
        return failed;
    must(sqlite3_column_count(stmt) == 1);
    *out = sqlite3_column_int64(stmt, 0);
    return 0;
}

int db_sentence(sqlite3 *db, const char *sql, char *out, size_t bytes, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    must(bytes > 0);
    int more = db_prepare(db, sql, &stmt, err);
    if (more == 0)
        more = db_step(stmt, err);
    if (more < 0)
        return more;
    out[0] = '\0';
    if (more > 0) {
        /* A row is a violation even if its text is NULL. */
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        text_clip(text_of(text != NULL ? text : "?"), out, bytes);
    }
    return 0;
}

struct bind bind_start(sqlite3_stmt *stmt)
{
    must(stmt != NULL);
    must(!sqlite3_stmt_busy(stmt)); /* each run ends with a reset */
    return (struct bind){.stmt = stmt};
}

/*
 * Keeps the first error (too long, no memory) for bind_run(), so that callers need not check each
 * parameter. RANGE and MISUSE are bugs.
 */
static void db_bound(struct bind *bind, int rc)
{
    must(rc != SQLITE_RANGE && rc != SQLITE_MISUSE);
    if (bind->rc == SQLITE_OK)
        bind->rc = rc;
}

/* SQLITE_STATIC: SQLite borrows the text until the end of the run. */
void bind_text(struct bind *bind, const char *text)
{
    db_bound(bind, sqlite3_bind_text(bind->stmt, ++bind->at, text, -1, SQLITE_STATIC));
}

void bind_number(struct bind *bind, int64_t number)
{
    db_bound(bind, sqlite3_bind_int64(bind->stmt, ++bind->at, number));
}

void bind_bytes(struct bind *bind, struct text bytes)
{
    must(bytes.at != NULL);
    db_bound(bind, sqlite3_bind_blob64(bind->stmt, ++bind->at, bytes.at, bytes.len, SQLITE_STATIC));
}

int bind_run(const struct bind *bind, int *out_changed, struct err *err)
{
    /* An unbound parameter would keep its value from the previous run. */
    must(bind->at == sqlite3_bind_parameter_count(bind->stmt));

    sqlite3 *db = sqlite3_db_handle(bind->stmt);
    if (bind->rc != SQLITE_OK)
        return db_fail(db, bind->rc, err, "bind");
    const int failed = db_run(bind->stmt, err);
    if (failed == 0 && out_changed != NULL)
        *out_changed = sqlite3_changes(db);
    return failed;
}

struct row row_start(sqlite3_stmt *stmt)
{
    must(sqlite3_data_count(stmt) > 0);
    return (struct row){.stmt = stmt};
}

/* Records the first fault; reading goes on, so that callers check once for each row. */
static void db_blame(struct row *row)
{
    if (row->fault == NULL)
        row->fault = sqlite3_column_name(row->stmt, row->at);
    must(row->fault != NULL);
}

const char *row_text_or_null(struct row *row)
{
    must(row->at < sqlite3_data_count(row->stmt));

    const char *text = NULL;
    /* A value has one owner here, the thread of the connection: cheaper than three columns. */
    sqlite3_value *value = sqlite3_column_value(row->stmt, row->at);
    const int type = sqlite3_value_type(value);
    if (type == SQLITE_TEXT) {
        text = (const char *)sqlite3_value_text(value);
        /* Two stored names that differ after a NUL would read as one. */
        if (text == NULL || strlen(text) != (size_t)sqlite3_value_bytes(value))
            db_blame(row);
    } else if (type != SQLITE_NULL) {
        db_blame(row);
    }
    row->at++;
    return text;
}

/* Names the column that has been passed. */
static void blame_last(struct row *row)
{
    must(row->at > 0);
    row->at--;
    db_blame(row);
    row->at++;
}

const char *row_text(struct row *row)
{
    must(row->stmt != NULL);
    const char *text = row_text_or_null(row);
    if (text != NULL)
        return text;
    blame_last(row);
    return "";
}

const char *row_name(struct row *row)
{
    const char *name = row_text(row);
    must(row->at > 0);
    if (name[0] == '\0')
        blame_last(row);
    return name;
}

int64_t row_number(struct row *row, int64_t least, int64_t most)
{
    must(row->at < sqlite3_data_count(row->stmt));
    must(least <= most);

    sqlite3_value *value = sqlite3_column_value(row->stmt, row->at);
    int64_t number = sqlite3_value_int64(value);
    if (sqlite3_value_type(value) != SQLITE_INTEGER || number < least || number > most) {
        db_blame(row);
        number = least;
    }
    row->at++;
    return number;
}

struct text row_bytes(struct row *row)
{
    must(row->at < sqlite3_data_count(row->stmt));

    const bool is_blob = sqlite3_column_type(row->stmt, row->at) == SQLITE_BLOB;
    const char *at = is_blob ? sqlite3_column_blob(row->stmt, row->at) : NULL;
    struct text bytes = {"", 0};
    /* NULL also for an empty BLOB. */
    if (at != NULL)
        bytes = (struct text){at, (size_t)sqlite3_column_bytes(row->stmt, row->at)};
    else
        db_blame(row);
    row->at++;
    return bytes;
}

/* Returns 0 and sets fault for an unknown word: call row_check() before using the result. */
int row_word(struct row *row, const char *const *words, size_t count)
{
    must(count > 0);
    const char *text = row_text(row);
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0)
            return (int)i;
    blame_last(row);
    return 0;
}

int row_check(const struct row *row, const char *table, struct err *err)
{
    /* Every column must have been read, so that every value is checked. */
    must(row->at == sqlite3_data_count(row->stmt));
    if (row->fault == NULL)
        return 0;
    return err_set(err, ERR_CORRUPT,
                   "%s: table %s: column %s has a value that milligpu never writes",
                   db_name(sqlite3_db_handle(row->stmt)), table, row->fault);
}
