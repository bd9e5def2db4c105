/*
 * db - SQLite, as carefully as a ledger needs it.
 *
 * Every connection is opened here: defensive, nothing trusted in the file, no extensions, limits
 * lowered, no mmap (an I/O error must be an error, not a signal), synchronous=FULL.
 *
 * Functions return 0, or negative with err.  A constraint that was violated is ERR_CONFLICT: the
 * statement did nothing and the transaction stands.
 */
#ifndef MILLIGPU_STORE_DB_H
#define MILLIGPU_STORE_DB_H

#include <sqlite3.h>

#include "milligpu/err.h"

enum db_mode {
    DB_CREATE, /* the writer: makes the file if need be */
    DB_READ,   /* a reader beside the writer: query_only */
    /* Of a file that is not ours to change; verify_file.c says which when. */
    DB_BESIDE,
    DB_STILL,
    DB_LOG,
};

int db_open(const char *path, enum db_mode mode, sqlite3 **out, struct err *err) MUST_USE;
void db_close(sqlite3 *db); /* finalises what is left; NULL is fine */

/* What rc means, with SQLite's own words; returns -code. */
int db_fail(sqlite3 *db, int rc, struct err *err, const char *doing);

int db_exec(sqlite3 *db, const char *sql, struct err *err) MUST_USE;
int db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, struct err *err) MUST_USE;

/* If a transaction is open it is not afterwards. */
void db_rollback(sqlite3 *db);

/* The first column of the first row as a number; no row is ERR_CORRUPT. */
int db_number(sqlite3 *db, const char *sql, int64_t *out, struct err *err) MUST_USE;

/* The first row's text, or "" if there is no row: for checks that select what is wrong. */
int db_sentence(sqlite3 *db, const char *sql, char *out, size_t bytes, struct err *err) MUST_USE;

/* 1: there is a row, 0: the end, negative: failed. */
int db_step(sqlite3_stmt *stmt, struct err *err) MUST_USE;

/* Run to the end and make it ready for the next time. */
int db_run(sqlite3_stmt *stmt, struct err *err) MUST_USE;

/* A statement, its parameters bound one after the other.  The texts must outlive the run. */
struct bind {
    sqlite3_stmt *stmt;
    int at;
    int rc; /* of the first that failed */
};
struct bind bind_start(sqlite3_stmt *stmt);
void bind_text(struct bind *bind, const char *text); /* NULL is NULL */
void bind_number(struct bind *bind, int64_t number);

/* db_run() of it, and how many rows it changed. */
int bind_run(const struct bind *bind, int *out_changed, struct err *err) MUST_USE;

/*
 * A row, its columns taken one after the other.  The file is outside input: what is not as it must
 * be is remembered in fault and reads as empty or 0.
 */
struct row {
    sqlite3_stmt *stmt;
    int at;
    const char *fault; /* name of the first column that is wrong */
};
struct row row_start(sqlite3_stmt *stmt);
const char *row_text(struct row *row); /* until the next step */
const char *row_text_or_null(struct row *row);
int64_t row_number(struct row *row, int64_t least, int64_t most);
int row_word(struct row *row, const char *const *words, size_t count); /* its place in words */
int row_check(const struct row *row, const char *table, struct err *err) MUST_USE;

UNUSED static inline void stmt_donep(sqlite3_stmt **at)
{
    (void)sqlite3_finalize(*at); /* repeats an error that was seen already */
    *at = NULL;
}

UNUSED static inline void db_closep(sqlite3 **at)
{
    db_close(*at);
    *at = NULL;
}

#endif
