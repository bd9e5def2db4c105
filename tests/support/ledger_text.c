#include "support/ledger_text.h"

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"

static sqlite3 *open_file(const char *file)
{
    sqlite3 *db = NULL;
    must(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    return db;
}

/* The first column of every row, through each(). */
static void for_each(sqlite3 *db, const char *sql, void *user,
                     void (*each)(void *user, const char *text))
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    must(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        each(user, (const char *)sqlite3_column_text(stmt, 0));
    must(rc == SQLITE_DONE);
    (void)sqlite3_finalize(stmt);
}

struct ledger_texts {
    sqlite3 *of; /* the table whose columns these are */
    sqlite3 *db;
    struct strbuf out;
    struct strbuf row; /* the expression that turns a row into text */
    struct strbuf order;
};

static void add_line(void *user, const char *text)
{
    struct ledger_texts *texts = user;
    strbuf_str(&texts->out, text);
    strbuf_char(&texts->out, '\n');
}

static void add_column(void *user, const char *name)
{
    struct ledger_texts *texts = user;
    strbuf_printf(&texts->row, " || ' %s=' || quote(\"%s\")", name, name);
    strbuf_printf(&texts->order, "%s\"%s\"", texts->order.len > 0 ? ", " : "", name);
}

static void add_table(void *user, const char *name)
{
    struct ledger_texts *texts = user;
    struct strbuf sql;

    strbuf_reset(&texts->row);
    strbuf_reset(&texts->order);
    strbuf_init(&sql);
    strbuf_printf(&sql,
                  "SELECT name FROM pragma_table_xinfo('%s') WHERE hidden = 0"
                  " AND NOT ('%s' = 'meta' AND name IN ('id', 'is_copy'))",
                  name, name);
    for_each(texts->of, sql.data, texts, add_column);
    strbuf_reset(&sql);
    strbuf_printf(&sql, "SELECT '%s'%s FROM %s ORDER BY %s", name, texts->row.data, name,
                  texts->order.data);
    for_each(texts->db, sql.data, texts, add_line);
    strbuf_done(&sql);
}

char *ledger_text(const char *file, const char *columns_of)
{
    struct ledger_texts texts = {.of = open_file(columns_of), .db = open_file(file)};

    strbuf_init(&texts.out);
    strbuf_init(&texts.row);
    strbuf_init(&texts.order);
    for_each(texts.of,
             "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%'"
             " ESCAPE '!' ORDER BY name",
             &texts, add_table);
    must(sqlite3_close(texts.of) == SQLITE_OK && sqlite3_close(texts.db) == SQLITE_OK);
    strbuf_done(&texts.row);
    strbuf_done(&texts.order);
    return strbuf_steal(&texts.out);
}
