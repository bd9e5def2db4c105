/*
 * db - SQLite, configured for a ledger.
 *
 * Opens every connection: defensive mode, untrusted schema, no extensions, lowered limits, no mmap
 * (an I/O error must be an error, not a signal), synchronous=FULL.
 *
 * Functions return 0, or negative with err. A violated constraint is ERR_CONFLICT: the statement
 * did nothing and the transaction goes on.
 */
#ifndef MILLIGPU_STORE_DB_H
#define MILLIGPU_STORE_DB_H

#include <sqlite3.h>

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

enum db_mode {
    DB_CREATE, /* the writer: creates the file if it does not exist */
    DB_READ,   /* a reader next to the writer: query_only */
    /* Read-only, for a file that we must not change; quiet_file.c selects the mode. */
    DB_BESIDE, /* a daemon has the file open */
    DB_STILL,  /* nobody does, and there is no log: immutable */
    DB_LOG,    /* nobody does, and there is a log: no locks */
};

int db_open(const char *path, enum db_mode mode, sqlite3 **out, struct err *err) MUST_USE;
/* log_vfs.c: the name of the VFS of the writer, which gathers the writes of the log. */
const char *log_vfs(void) MUST_USE;
/* unpack_table.c: adds the virtual table that reads packs; returns SQLite's code. */
int unpack_table_add(sqlite3 *db) MUST_USE;
void db_close(sqlite3 *db); /* finalises the remaining statements; NULL is fine */

/* Path of the file, for messages; valid as long as the connection. */
const char *db_name(sqlite3 *db);

/* Sets err from SQLite's result code rc and its message; returns -code. */
int db_fail(sqlite3 *db, int rc, struct err *err, const char *doing);

int db_exec(sqlite3 *db, const char *sql, struct err *err) MUST_USE;
int db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, struct err *err) MUST_USE;

/* Rolls back the open transaction, if there is one. */
void db_rollback(sqlite3 *db);

/* Reads the first column of the first row as a number; no row is ERR_CORRUPT. */
int db_number(sqlite3 *db, const char *sql, int64_t *out, struct err *err) MUST_USE;

/* Reads the first row's text, or "" if there is no row: for checks that select violations. */
int db_sentence(sqlite3 *db, const char *sql, char *out, size_t bytes, struct err *err) MUST_USE;

/* Returns 1 for a row, 0 at the end, negative on error. */
int db_step(sqlite3_stmt *stmt, struct err *err) MUST_USE;

/* Runs a statement to its end and resets it. */
int db_run(sqlite3_stmt *stmt, struct err *err) MUST_USE;

/* Reads the number in the only row of a statement, such as count(*), and resets it. */
int db_ask(sqlite3_stmt *stmt, int64_t *out, struct err *err) MUST_USE;

/* Size of all pages, in bytes. */
int db_bytes(sqlite3 *db, int64_t *out, struct err *err) MUST_USE;

/* Binds the parameters of a statement in order. Texts must outlive the run. */
struct bind {
    sqlite3_stmt *stmt;
    int at; /* number of bound parameters */
    int rc; /* SQLite's code of the first error */
};
struct bind bind_start(sqlite3_stmt *stmt);
void bind_text(struct bind *bind, const char *text); /* NULL is NULL */
void bind_number(struct bind *bind, int64_t number);
void bind_bytes(struct bind *bind, struct text bytes); /* a BLOB, never NULL */

/* db_run(), then the number of rows that it changed. */
int bind_run(const struct bind *bind, int *out_changed, struct err *err) MUST_USE;

/*
 * Reads the columns of a row in order. The file is untrusted input: an invalid value sets fault and
 * reads as empty or as the minimum.
 */
struct row {
    sqlite3_stmt *stmt;
    int at;            /* index of the next column */
    const char *fault; /* name of the first invalid column; NULL: none */
};
struct row row_start(sqlite3_stmt *stmt);
const char *row_text(struct row *row); /* valid until the next step */
const char *row_text_or_null(struct row *row);
const char *row_name(struct row *row); /* a text that is not empty */
int64_t row_number(struct row *row, int64_t least, int64_t most);
struct text row_bytes(struct row *row); /* a BLOB, valid until the next step */
int row_word(struct row *row, const char *const *words, size_t count); /* the index in words */
int row_check(const struct row *row, const char *table, struct err *err) MUST_USE;

UNUSED static inline void stmt_donep(sqlite3_stmt **at)
{
    (void)sqlite3_finalize(*at); /* repeats an error that was already handled */
    *at = NULL;
}

UNUSED static inline void db_closep(sqlite3 **at)
{
    db_close(*at);
    *at = NULL;
}

#endif
