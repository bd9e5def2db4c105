/*
 * The virtual table "unpack": the rows of one pack of the history, for SQL. Every connection has it
 * (db.c); the schema of a file cannot refer to it.
 *
 *   SELECT u.name, u.gpu FROM pack AS p JOIN unpack AS u ON u.body = p.body WHERE p.id = 7
 *
 * Each charge has a row. An allocation without charges has one, with at 0, gpu '' and its
 * unplaced_milli as milli. An invalid pack ends the statement with SQLITE_CORRUPT.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "pack.h"
#include "store/db.h"

static const char unpack_sql[] =
    "CREATE TABLE unpack (id INTEGER, uid TEXT, namespace TEXT, name TEXT, node TEXT,"
    " node_uid TEXT, reserved_ms INTEGER, bound_ms INTEGER, released_ms INTEGER, at INTEGER,"
    " gpu TEXT, milli INTEGER, mib INTEGER, body BLOB HIDDEN)";

/* In the order of unpack_sql. */
enum unpack_column {
    UNPACK_ID,
    UNPACK_UID,
    UNPACK_NAMESPACE,
    UNPACK_NAME,
    UNPACK_NODE,
    UNPACK_NODE_UID,
    UNPACK_RESERVED_MS,
    UNPACK_BOUND_MS,
    UNPACK_RELEASED_MS,
    UNPACK_AT,
    UNPACK_GPU,
    UNPACK_MILLI,
    UNPACK_MIB,
    UNPACK_BODY,
};

struct unpack_cursor {
    sqlite3_vtab_cursor base; /* must be the first member: SQLite has a pointer to it */
    struct strbuf body;
    struct unpacker unpacker;
    uint32_t charge; /* index in the current allocation */
    sqlite3_int64 row;
    bool has_row; /* false at the end, and after a fault */
};

static int unpack_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                          sqlite3_vtab **out, char **out_error)
{
    must(aux == NULL && argc > 0 && argv != NULL && out_error != NULL);
    const int rc = sqlite3_declare_vtab(db, unpack_sql);
    if (rc != SQLITE_OK)
        return rc;
    /* Not usable in views and triggers of a file. */
    must(sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY) == SQLITE_OK);
    *out = xcalloc(1, sizeof **out);
    return SQLITE_OK;
}

static int unpack_disconnect(sqlite3_vtab *table)
{
    must(table != NULL);
    xfree(table);
    return SQLITE_OK;
}

/* Refuses a plan without the body, so that SQLite chooses another order of the join. */
static int unpack_best_index(sqlite3_vtab *table, sqlite3_index_info *index)
{
    must(table != NULL);
    for (int i = 0; i < index->nConstraint; i++) {
        if (index->aConstraint[i].iColumn != UNPACK_BODY || !index->aConstraint[i].usable ||
            index->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        index->aConstraintUsage[i].argvIndex = 1;
        index->aConstraintUsage[i].omit = 1;
        index->estimatedCost = 1000;
        index->estimatedRows = 1000;
        return SQLITE_OK;
    }
    return SQLITE_CONSTRAINT;
}

static int unpack_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    struct unpack_cursor *cursor = xcalloc(1, sizeof *cursor);

    must(table != NULL);
    strbuf_init(&cursor->body);
    unpacker_init(&cursor->unpacker);
    *out = &cursor->base;
    return SQLITE_OK;
}

static struct unpack_cursor *unpack_cursor_of(sqlite3_vtab_cursor *base)
{
    static_assert(offsetof(struct unpack_cursor, base) == 0, "SQLite knows the first member");
    must(base != NULL);
    return (struct unpack_cursor *)base;
}

static int unpack_close(sqlite3_vtab_cursor *base)
{
    struct unpack_cursor *cursor = unpack_cursor_of(base);

    unpacker_done(&cursor->unpacker);
    strbuf_done(&cursor->body);
    xfree(cursor);
    return SQLITE_OK;
}

static int unpack_fail_with(struct unpack_cursor *cursor, const struct err *err)
{
    sqlite3_vtab *table = cursor->base.pVtab;

    must(err->text[0] != '\0');
    cursor->has_row = false;
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = sqlite3_mprintf("%s", err->text);
    return SQLITE_CORRUPT_VTAB;
}

static int unpack_take(struct unpack_cursor *cursor)
{
    struct err err;
    const int more = unpacker_next(&cursor->unpacker, &err);

    must(more <= 1);
    cursor->charge = 0;
    cursor->has_row = more > 0;
    return more < 0 ? unpack_fail_with(cursor, &err) : SQLITE_OK;
}

static int unpack_filter(sqlite3_vtab_cursor *base, int plan, const char *name, int argc,
                         sqlite3_value **argv)
{
    struct unpack_cursor *cursor = unpack_cursor_of(base);
    struct err err;

    must(plan == 0 && name == NULL && argc == 1);
    /* A copy, because SQLite's bytes are valid only until the next step. */
    strbuf_reset(&cursor->body);
    const void *bytes = sqlite3_value_blob(argv[0]);
    if (bytes != NULL)
        strbuf_add(&cursor->body, bytes, (size_t)sqlite3_value_bytes(argv[0]));
    cursor->row = 0;
    const struct text body = {cursor->body.data, cursor->body.len};
    if (unpacker_open(&cursor->unpacker, body, &err) < 0)
        return unpack_fail_with(cursor, &err);
    return unpack_take(cursor);
}

static int unpack_next(sqlite3_vtab_cursor *base)
{
    struct unpack_cursor *cursor = unpack_cursor_of(base);

    must(cursor->has_row);
    cursor->row++;
    if (++cursor->charge < cursor->unpacker.packed.n_charges)
        return SQLITE_OK;
    return unpack_take(cursor);
}

static int unpack_eof(sqlite3_vtab_cursor *base)
{
    return !unpack_cursor_of(base)->has_row;
}

static void unpack_say_text(sqlite3_context *context, const char *text)
{
    must(text != NULL);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void unpack_say_charge(sqlite3_context *context, const struct unpack_cursor *cursor,
                              enum unpack_column column)
{
    const struct packed *packed = &cursor->unpacker.packed;
    static const struct packed_charge none = {.gpu = ""};
    const struct packed_charge *charge =
        packed->n_charges > 0 ? &packed->charge[cursor->charge] : &none;

    must(packed->n_charges == 0 || cursor->charge < packed->n_charges);
    if (column == UNPACK_AT)
        sqlite3_result_int64(context, charge->at);
    else if (column == UNPACK_GPU)
        unpack_say_text(context, charge->gpu);
    else if (column == UNPACK_MILLI)
        sqlite3_result_int64(context,
                             packed->n_charges > 0 ? charge->milli : packed->unplaced_milli);
    else
        sqlite3_result_int64(context, charge->mib);
}

static int unpack_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int number)
{
    const struct unpack_cursor *cursor = unpack_cursor_of(base);
    const struct packed *packed = &cursor->unpacker.packed;
    const enum unpack_column column = (enum unpack_column)number;

    must(cursor->has_row);
    switch (column) {
    case UNPACK_ID:
        sqlite3_result_int64(context, packed->id);
        break;
    case UNPACK_UID:
        unpack_say_text(context, packed->uid);
        break;
    case UNPACK_NAMESPACE:
        unpack_say_text(context, packed->namespace);
        break;
    case UNPACK_NAME:
        unpack_say_text(context, packed->name);
        break;
    case UNPACK_NODE:
        unpack_say_text(context, packed->node);
        break;
    case UNPACK_NODE_UID:
        unpack_say_text(context, packed->node_uid);
        break;
    case UNPACK_RESERVED_MS:
        sqlite3_result_int64(context, packed->reserved_ms);
        break;
    case UNPACK_BOUND_MS:
        sqlite3_result_int64(context, packed->bound_ms);
        break;
    case UNPACK_RELEASED_MS:
        sqlite3_result_int64(context, packed->released_ms);
        break;
    case UNPACK_AT:
    case UNPACK_GPU:
    case UNPACK_MILLI:
    case UNPACK_MIB:
        unpack_say_charge(context, cursor, column);
        break;
    case UNPACK_BODY:
        sqlite3_result_blob64(context, cursor->body.data, cursor->body.len, SQLITE_TRANSIENT);
        break;
    }
    return SQLITE_OK;
}

static int unpack_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = unpack_cursor_of(base)->row;
    must(*out >= 0);
    return SQLITE_OK;
}

/* Eponymous-only (no xCreate): exists without CREATE VIRTUAL TABLE, under this name only. */
static const sqlite3_module unpack_module = {
    .iVersion = 1,
    .xConnect = unpack_connect,
    .xBestIndex = unpack_best_index,
    .xDisconnect = unpack_disconnect,
    .xOpen = unpack_open,
    .xClose = unpack_close,
    .xFilter = unpack_filter,
    .xNext = unpack_next,
    .xEof = unpack_eof,
    .xColumn = unpack_column,
    .xRowid = unpack_rowid,
};

int unpack_table_add(sqlite3 *db)
{
    must(db != NULL);
    return sqlite3_create_module_v2(db, "unpack", &unpack_module, NULL, NULL);
}
