/*
 * A ledger whose pages are well-formed and whose rows say anything: our own verification must find
 * what no SQLite check sees.
 *
 * Input: edits of a good ledger, made without its triggers and checks: one byte each for what to
 * do, the column (which also chooses the table), the row and the value; a text takes the bytes up
 * to the end of the line.
 */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "support_ledger.h"

enum { COLUMNS_MAX = 128, EDITS_MAX = 8 };

/* The columns that can be edited: read once from the good ledger. */
static struct column {
    char table[32];
    char name[32];
} columns[COLUMNS_MAX];
static size_t column_count;

static sqlite3 *open_raw(void)
{
    sqlite3 *db = NULL;
    must(sqlite3_open(ledger_path(), &db) == SQLITE_OK);
    must(sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL) == SQLITE_OK);
    must(sqlite3_exec(db,
                      "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;"
                      "PRAGMA ignore_check_constraints=ON",
                      NULL, NULL, NULL) == SQLITE_OK);
    return db;
}

static void read_columns(sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    must(sqlite3_prepare_v2(db,
                            "SELECT s.name, c.name FROM sqlite_schema AS s,"
                            " pragma_table_info(s.name) AS c WHERE s.type = 'table' ORDER BY 1, 2",
                            -1, &stmt, NULL) == SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        must(column_count < COLUMNS_MAX);
        struct column *column = &columns[column_count++];
        (void)snprintf(column->table, sizeof column->table, "%s",
                       (const char *)sqlite3_column_text(stmt, 0));
        (void)snprintf(column->name, sizeof column->name, "%s",
                       (const char *)sqlite3_column_text(stmt, 1));
    }
    must(sqlite3_finalize(stmt) == SQLITE_OK && column_count > 0);
}

static void bind_value(sqlite3_stmt *stmt, struct pieces *pieces)
{
    static const int64_t numbers[] = {
        0,     1,     2,  3,   -1,         499,        512,       1000,      1001,         32768,
        65535, 65536, 50, 300, 4294967295, 4294967296, INT64_MAX, INT64_MIN, 1700000009000};
    const uint8_t which = pieces_byte(pieces);
    if (which == 'n') {
        must(sqlite3_bind_null(stmt, 1) == SQLITE_OK);
    } else if (which == 't') {
        const struct text text = pieces_until(pieces, '\n');
        must(sqlite3_bind_text(stmt, 1, text.at, (int)text.len, SQLITE_TRANSIENT) == SQLITE_OK);
    } else {
        must(sqlite3_bind_int64(stmt, 1, numbers[which % ARRAY_LEN(numbers)]) == SQLITE_OK);
    }
}

/* A row is identified by its value in that column: all rows that share it change together. */
static void edit(sqlite3 *db, struct pieces *pieces)
{
    char sql[400];
    const uint8_t how = pieces_byte(pieces);
    const struct column *column = &columns[pieces_byte(pieces) % column_count];
    const unsigned row = pieces_byte(pieces) % 16;
    const struct column *from = &columns[pieces_byte(pieces) % column_count];
    sqlite3_stmt *stmt = NULL;
    if (how == 'd')
        (void)snprintf(sql, sizeof sql,
                       "DELETE FROM %s WHERE %s IS (SELECT %s FROM %s LIMIT 1 OFFSET %u)",
                       column->table, column->name, column->name, column->table, row);
    else if (how == 'c')
        (void)snprintf(sql, sizeof sql,
                       "UPDATE %s SET %s = (SELECT %s FROM %s LIMIT 1 OFFSET %u)"
                       " WHERE %s IS (SELECT %s FROM %s LIMIT 1 OFFSET 0)",
                       column->table, column->name, from->name, from->table, row, column->name,
                       column->name, column->table);
    else
        (void)snprintf(sql, sizeof sql,
                       "UPDATE %s SET %s = ?1 WHERE %s IS (SELECT %s FROM %s LIMIT 1 OFFSET %u)",
                       column->table, column->name, column->name, column->name, column->table, row);
    /* A generated column cannot be set, and STRICT refuses another type: nothing is edited then. */
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK) {
        if (how != 'd' && how != 'c')
            bind_value(stmt, pieces);
        (void)sqlite3_step(stmt);
    }
    (void)sqlite3_finalize(stmt); /* returns the error of the step again */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    ledger_put(ledger_template());
    sqlite3 *db = open_raw();
    if (column_count == 0)
        read_columns(db);
    must(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK);
    for (int i = 0; i < EDITS_MAX && pieces.left > 0; i++)
        edit(db, &pieces);
    must(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK);
    must(sqlite3_close(db) == SQLITE_OK);
    ledger_use(ledger_thorough((struct text){(const char *)data, size}));
    return 0;
}
