/*
 * Who held what, and when: live and released allocations, one row for each charge. Called by REST
 * on admin threads, over a connection that only reads. The query contains only the conditions that
 * are asked for, so that SQLite can use the index of each. The number of a row is also the token
 * from which the next page continues, so it must never change.
 */
#include "store/store_internal.h"

/* The number of a row: its allocation's, and the position of its charge. */
enum { ROW_BITS = 10 };
static_assert(PARTS_MAX <= 1 << ROW_BITS, "every charge has a number");

#define HISTORY_COLUMNS                                                                            \
    "SELECT (a.id << 10) | coalesce(c.at, 0), a.uid, a.namespace, a.name, a.node, a.node_uid,"     \
    " coalesce(c.gpu, ''), a.state, coalesce(c.milli, a.unplaced_milli), coalesce(c.mib, 0),"      \
    " a.reserved_ms, a.bound_ms, a.released_ms"

static void history_build(struct strbuf *sql, const struct store_history_query *query)
{
    static_assert(ROW_BITS == 10, "HISTORY_COLUMNS says so");

    strbuf_str(sql, HISTORY_COLUMNS);
    /*
     * With a GPU the charges lead, by their index. Without, LEFT JOIN keeps pods that hold nothing
     * of a known GPU.
     */
    strbuf_str(sql, query->gpu != NULL
                        ? " FROM charge AS c JOIN allocation AS a ON a.id = c.allocation"
                        : " FROM allocation AS a LEFT JOIN charge AS c ON c.allocation = a.id");
    /* The first condition follows from the second, but only the first can use the primary key. */
    strbuf_str(sql, " WHERE a.id <= ?1 >> 10 AND ((a.id << 10) | coalesce(c.at, 0)) < ?1");
    /* A GPU has an id and an alias; a row has the name that was known at the time. */
    if (query->gpu != NULL)
        strbuf_str(sql, " AND c.gpu IN (SELECT ?2 UNION SELECT id FROM gpu WHERE alias = ?2"
                        " UNION SELECT alias FROM gpu WHERE id = ?2 AND alias IS NOT NULL)");
    if (query->node != NULL)
        strbuf_str(sql, " AND a.node = ?3");
    if (query->namespace != NULL)
        strbuf_str(sql, " AND a.namespace = ?4");
    if (query->pod != NULL)
        strbuf_str(sql, " AND a.name = ?5");
    /* An adopted allocation was never reserved: it begins when it was bound. */
    if (query->at_ms != 0)
        strbuf_str(sql, " AND iif(a.reserved_ms <> 0, a.reserved_ms, a.bound_ms) <= ?6"
                        " AND (a.state <> 'released' OR a.released_ms > ?6)");
    strbuf_str(sql, " ORDER BY a.id DESC, coalesce(c.at, 0) DESC LIMIT ?7");
    must(sql->len > 0);
}

static int history_ask(sqlite3_stmt *stmt, const struct store_history_query *query, struct err *err)
{
    const int64_t before =
        query->before == 0 || query->before > INT64_MAX ? INT64_MAX : (int64_t)query->before;
    const int64_t limit = query->limit == 0 ? -1 : (int64_t)query->limit;
    const int rcs[] = {
        sqlite3_bind_int64(stmt, 1, before),
        sqlite3_bind_text(stmt, 2, query->gpu, -1, SQLITE_STATIC),
        sqlite3_bind_text(stmt, 3, query->node, -1, SQLITE_STATIC),
        sqlite3_bind_text(stmt, 4, query->namespace, -1, SQLITE_STATIC),
        sqlite3_bind_text(stmt, 5, query->pod, -1, SQLITE_STATIC),
        sqlite3_bind_int64(stmt, 6, query->at_ms),
        sqlite3_bind_int64(stmt, 7, limit),
    };
    /* SQLite also counts the parameters between those that are used. */
    for (size_t i = 0; i < ARRAY_LEN(rcs); i++)
        if (rcs[i] == SQLITE_TOOBIG)
            return err_set(err, ERR_INVALID, "history: a name that is too long for any");
        else
            must(rcs[i] == SQLITE_OK);
    return 0;
}

/* The texts are SQLite's until the next step: each() copies what it keeps. */
static int history_give(sqlite3_stmt *stmt, void *user,
                        void (*each)(void *user, const struct history_row *row), struct err *err)
{
    struct row row = row_start(stmt);
    struct history_row out = {.row = (uint64_t)row_number(&row, 0, INT64_MAX)};

    must(each != NULL);
    out.uid = row_text(&row);
    out.namespace = row_text(&row);
    out.name = row_text(&row);
    out.node = row_text(&row);
    out.node_uid = row_text(&row);
    out.gpu = row_text(&row);
    out.state = row_text(&row);
    out.milli = (uint32_t)row_number(&row, 0, UINT32_MAX);
    out.mib = (uint32_t)row_number(&row, 0, UINT32_MAX);
    out.reserved_ms = row_number(&row, INT64_MIN, INT64_MAX);
    out.bound_ms = row_number(&row, INT64_MIN, INT64_MAX);
    out.released_ms = row_number(&row, INT64_MIN, INT64_MAX);
    const int failed = row_check(&row, "allocation", err);
    if (failed == 0)
        each(user, &out);
    return failed;
}

static int history_run(sqlite3 *db, const struct store_history_query *query, void *user,
                       void (*each)(void *user, const struct history_row *row), struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;
    struct strbuf sql;

    strbuf_init(&sql);
    history_build(&sql, query);
    int more = db_prepare(db, sql.data, &stmt, err);
    strbuf_done(&sql);
    if (more == 0)
        more = history_ask(stmt, query, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0)
        more = history_give(stmt, user, each, err);
    must(more <= 0);
    return more;
}

int store_history(struct store *store, const struct store_history_query *query, void *user,
                  void (*row)(void *user, const struct history_row *row), struct err *err)
{
    struct reader reader;

    must(query != NULL);
    int failed = reader_open(store, &reader, err);
    if (failed == 0) {
        failed = history_run(reader.db, query, user, row, err);
        reader_done(&reader);
    }
    return failed != 0 ? err_wrap(err, "history") : 0;
}
