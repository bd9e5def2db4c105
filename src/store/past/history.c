/*
 * The history of GPUs: live and released allocations, one row for each charge. Called by REST on
 * admin threads, over a read-only connection. The query contains only the requested conditions, so
 * that SQLite can use the index of each. The number of a row is also the token of the next page, so
 * it must never change, not even when the row is packed (packs.c). In order: a page in memory, SQL,
 * reading rows, reading packs.
 */
#include <stdlib.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

/* A row number is an allocation's id, shifted by ROW_BITS, plus the position of the charge. */
enum { ROW_BITS = 10 };
static_assert(PARTS_MAX <= 1 << ROW_BITS, "every charge has a number");
static_assert(HISTORY_ID_MAX < INT64_MAX >> ROW_BITS, "every allocation has a number");

/* --- a page in memory: the newest rows of tables and packs --- */

enum { PAGE_ROWS = 4096 };

struct found_row {
    struct history_row row; /* its texts are in texts */
    char texts[];
};

struct newest {
    struct found_row **found;
    size_t count;
    size_t capacity;
    size_t limit; /* maximum of count after newest_settle() */
};

static void newest_add(struct newest *newest, const struct history_row *row)
{
    const char *const texts[] = {row->uid,      row->namespace, row->name, row->node,
                                 row->node_uid, row->gpu,       row->state};
    size_t bytes = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        bytes += text_of(texts[i]).len + 1;
    struct found_row *found = xmalloc(sizeof *found + bytes);
    char *at = found->texts;
    found->row = *row;
    found->row.uid = text_lay(&at, row->uid);
    found->row.namespace = text_lay(&at, row->namespace);
    found->row.name = text_lay(&at, row->name);
    found->row.node = text_lay(&at, row->node);
    found->row.node_uid = text_lay(&at, row->node_uid);
    found->row.gpu = text_lay(&at, row->gpu);
    found->row.state = text_lay(&at, row->state);
    must(at == found->texts + bytes);
    newest->found = xgrow(newest->found, newest->count, &newest->capacity, sizeof *newest->found);
    newest->found[newest->count++] = found;
}

static void newest_cut(struct newest *newest, size_t count)
{
    must(count <= newest->count);
    while (newest->count > count)
        xfree(newest->found[--newest->count]);
}

static int newest_first(const void *a, const void *b)
{
    const struct found_row *const *left = a;
    const struct found_row *const *right = b;

    must(*left != NULL && *right != NULL);
    return ((*left)->row.row < (*right)->row.row) - ((*left)->row.row > (*right)->row.row);
}

/* Keeps the newest rows, without duplicates, which a corrupt ledger may have. */
static void newest_settle(struct newest *newest)
{
    size_t kept = 0;

    must(newest->limit > 0);
    if (newest->count == 0)
        return;
    qsort(newest->found, newest->count, sizeof(struct found_row *), newest_first);
    for (size_t i = 1; i < newest->count; i++) {
        if (newest->found[i]->row.row == newest->found[kept]->row.row)
            xfree(newest->found[i]);
        else
            newest->found[++kept] = newest->found[i];
    }
    newest->count = kept + 1;
    if (newest->count > newest->limit)
        newest_cut(newest, newest->limit);
}

/* Oldest row number of a full page, which only newer rows can enter; 0: not full. */
static uint64_t newest_floor(const struct newest *newest)
{
    must(newest->count <= newest->limit);
    return newest->count == newest->limit ? newest->found[newest->count - 1]->row.row : 0;
}

static void newest_done(struct newest *newest)
{
    newest_cut(newest, 0);
    must(newest->count == 0);
    xfree(newest->found);
    newest->found = NULL;
}

/* --- SQL --- */

static const char rows_sql[] =
    "SELECT (a.id << 10) | coalesce(c.at, 0), a.uid, a.namespace, a.name, a.node, a.node_uid,"
    " coalesce(c.gpu, ''), a.state, coalesce(c.milli, a.unplaced_milli), coalesce(c.mib, 0),"
    " a.reserved_ms, a.bound_ms, a.released_ms";

/* The first condition is redundant, but only it can use the primary key. */
static const char rows_where_sql[] =
    " WHERE a.id <= ?1 >> 10 AND ((a.id << 10) | coalesce(c.at, 0)) < ?1";

/* The rows of one pack, which has no index. A parameter of NULL or 0 is no condition. */
static const char pack_sql[] =
    "SELECT (a.id << 10) | a.at, a.uid, a.namespace, a.name, a.node, a.node_uid, a.gpu,"
    " 'released', a.milli, a.mib, a.reserved_ms, a.bound_ms, a.released_ms"
    " FROM pack AS p JOIN unpack AS a ON a.body = p.body"
    " WHERE p.id = ?8 AND ((a.id << 10) | a.at) < ?1 AND ((a.id << 10) | a.at) > ?9"
    " AND (?2 IS NULL OR a.gpu IN (SELECT ?2 UNION SELECT id FROM gpu WHERE alias = ?2"
    " UNION SELECT alias FROM gpu WHERE id = ?2))"
    " AND (?3 IS NULL OR a.node = ?3) AND (?4 IS NULL OR a.namespace = ?4)"
    " AND (?5 IS NULL OR a.name = ?5)"
    " AND (?6 = 0 OR (iif(a.reserved_ms <> 0, a.reserved_ms, a.bound_ms) <= ?6"
    " AND a.released_ms > ?6)) ORDER BY 1 DESC LIMIT ?7";

/* The packs that may contain matching rows. */
static const char packs_sql[] =
    "SELECT id, last FROM pack WHERE first <= ?1 >> 10 AND (?4 IS NULL OR past_of IN (?4, ''))"
    " AND (?6 = 0 OR (began_ms <= ?6 AND ended_ms > ?6)) ORDER BY last DESC";

/* The charges that a query begins with. */
enum history_part { PART_ALL, PART_LIVE, PART_ENDED };

/*
 * With a GPU, begins with the charges: of ended ones its index has the GPU, and the live ones, of
 * which there are few, are all read. Without, LEFT JOIN includes pods without a known GPU.
 */
static const char *const part_sql[] = {
    [PART_ALL] = " FROM allocation AS a LEFT JOIN charge AS c ON c.allocation = a.id",
    [PART_LIVE] = " FROM charge AS c INDEXED BY charge_live"
                  " CROSS JOIN allocation AS a ON a.id = c.allocation AND c.live = 1",
    [PART_ENDED] = " FROM charge AS c INDEXED BY charge_gpu"
                   " CROSS JOIN allocation AS a ON a.id = c.allocation AND c.live = 0",
};

static void history_build(struct strbuf *sql, const struct store_history_query *query,
                          enum history_part part)
{
    static_assert(ROW_BITS == 10, "rows_sql and pack_sql say so");

    strbuf_str(sql, rows_sql);
    strbuf_str(sql, part_sql[part]);
    strbuf_str(sql, rows_where_sql);
    /* Matches id and alias of the GPU: a row has the name that was known at the time. */
    if (query->gpu != NULL)
        strbuf_str(sql, " AND c.gpu IN (SELECT ?2 UNION SELECT id FROM gpu WHERE alias = ?2"
                        " UNION SELECT alias FROM gpu WHERE id = ?2 AND alias IS NOT NULL)");
    if (query->node != NULL)
        strbuf_str(sql, " AND a.node = ?3");
    if (query->namespace != NULL)
        strbuf_str(sql, " AND a.namespace = ?4");
    if (query->pod != NULL)
        strbuf_str(sql, " AND a.name = ?5");
    /* An adopted allocation was never reserved and begins when it is bound. */
    if (query->at_ms != 0)
        strbuf_str(sql, " AND iif(a.reserved_ms <> 0, a.reserved_ms, a.bound_ms) <= ?6"
                        " AND (a.state <> 'released' OR a.released_ms > ?6)");
    strbuf_str(sql, " ORDER BY a.id DESC, coalesce(c.at, 0) DESC LIMIT ?7");
    must(sql->len > 0);
}

/* Binds all parameters up to the highest used one; SQLite refuses higher ones. */
static int history_bind(sqlite3_stmt *stmt, const struct store_history_query *query, size_t limit,
                        struct err *err)
{
    const int rcs[] = {
        sqlite3_bind_int64(stmt, 1, (int64_t)query->before),
        sqlite3_bind_text(stmt, 2, query->gpu, -1, SQLITE_STATIC),
        sqlite3_bind_text(stmt, 3, query->node, -1, SQLITE_STATIC),
        sqlite3_bind_text(stmt, 4, query->namespace, -1, SQLITE_STATIC),
        sqlite3_bind_text(stmt, 5, query->pod, -1, SQLITE_STATIC),
        sqlite3_bind_int64(stmt, 6, query->at_ms),
        sqlite3_bind_int64(stmt, 7, (int64_t)limit),
    };
    const size_t parameters = (size_t)sqlite3_bind_parameter_count(stmt);

    for (size_t i = 0; i < ARRAY_LEN(rcs) && i < parameters; i++)
        if (rcs[i] == SQLITE_TOOBIG)
            return err_set(err, ERR_INVALID, "history: a name that is too long for any");
        else
            must(rcs[i] == SQLITE_OK);
    return 0;
}

/* --- reading rows --- */

/* Texts are valid until the next step; newest_add() copies them. */
static int history_take(sqlite3_stmt *stmt, struct newest *newest, struct err *err)
{
    struct row row = row_start(stmt);
    struct history_row out = {.row = (uint64_t)row_number(&row, 0, INT64_MAX)};

    must(sqlite3_column_count(stmt) == 13);
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
        newest_add(newest, &out);
    return failed;
}

static int history_take_all(sqlite3_stmt *stmt, struct newest *newest, struct err *err)
{
    int more;

    must(newest->limit > 0);
    while ((more = db_step(stmt, err)) > 0)
        if ((more = history_take(stmt, newest, err)) < 0)
            break;
    newest_settle(newest);
    return more;
}

static int history_read_part(sqlite3 *db, const struct store_history_query *query,
                             enum history_part part, struct newest *newest, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;
    CLEANUP(strbuf_done) struct strbuf sql;

    must((part == PART_ALL) == (query->gpu == NULL));
    strbuf_init(&sql);
    history_build(&sql, query, part);
    int failed = db_prepare(db, sql.data, &stmt, err);
    if (failed == 0)
        failed = history_bind(stmt, query, newest->limit, err);
    return failed == 0 ? history_take_all(stmt, newest, err) : failed;
}

static int history_read_rows(sqlite3 *db, const struct store_history_query *query,
                             struct newest *newest, struct err *err)
{
    must(newest->count == 0);
    if (query->gpu == NULL)
        return history_read_part(db, query, PART_ALL, newest, err);
    const int failed = history_read_part(db, query, PART_LIVE, newest, err);
    return failed == 0 ? history_read_part(db, query, PART_ENDED, newest, err) : failed;
}

/* --- reading packs --- */

static int history_read_pack(sqlite3_stmt *stmt, int64_t id, struct newest *newest, struct err *err)
{
    must(sqlite3_bind_int64(stmt, 8, id) == SQLITE_OK);
    must(sqlite3_bind_int64(stmt, 9, (int64_t)newest_floor(newest)) == SQLITE_OK);
    const int failed = history_take_all(stmt, newest, err);
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return failed;
}

/* Newest pack first: ends when the page is full of rows that are newer than the next pack. */
static int history_each_pack(sqlite3_stmt *packs, sqlite3_stmt *pack, struct newest *newest,
                             struct err *err)
{
    int more;

    while ((more = db_step(packs, err)) > 0) {
        struct row row = row_start(packs);
        const int64_t id = row_number(&row, INT64_MIN, INT64_MAX);
        const int64_t last = row_number(&row, 1, INT64_MAX >> ROW_BITS);
        more = row_check(&row, "pack", err);
        if (more == 0 && newest_floor(newest) >> ROW_BITS > (uint64_t)last)
            return 0;
        if (more == 0)
            more = history_read_pack(pack, id, newest, err);
        if (more < 0)
            break;
    }
    must(more <= 0);
    return more;
}

static int history_read_packs(sqlite3 *db, const struct store_history_query *query,
                              struct newest *newest, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *packs = NULL;
    CLEANUP(stmt_donep) sqlite3_stmt *pack = NULL;

    must(newest->count <= newest->limit);
    int failed = db_prepare(db, packs_sql, &packs, err);
    if (failed == 0)
        failed = db_prepare(db, pack_sql, &pack, err);
    if (failed == 0)
        failed = history_bind(packs, query, newest->limit, err);
    if (failed == 0)
        failed = history_bind(pack, query, newest->limit, err);
    return failed == 0 ? history_each_pack(packs, pack, newest, err) : failed;
}

/* Reads a page and sets query->before for the next one; 0: no next page. */
static int history_page(sqlite3 *db, struct store_history_query *query, size_t limit, void *user,
                        void (*each)(void *user, const struct history_row *row), struct err *err)
{
    struct newest newest = {.limit = limit};

    must(limit > 0);
    int failed = history_read_rows(db, query, &newest, err);
    if (failed == 0)
        failed = history_read_packs(db, query, &newest, err);
    for (size_t i = 0; failed == 0 && i < newest.count; i++)
        each(user, &newest.found[i]->row);
    query->before = failed == 0 ? newest_floor(&newest) : 0;
    newest_done(&newest);
    return failed;
}

static int history_run(sqlite3 *db, const struct store_history_query *query, void *user,
                       void (*each)(void *user, const struct history_row *row), struct err *err)
{
    struct store_history_query next = *query;
    int failed;

    if (query->before == 0 || query->before > INT64_MAX)
        next.before = INT64_MAX;
    must(next.before > 0);
    do
        failed =
            history_page(db, &next, query->limit > 0 ? query->limit : PAGE_ROWS, user, each, err);
    while (failed == 0 && query->limit == 0 && next.before > 0);
    return failed;
}

/* In one transaction, because the writer may pack rows meanwhile. */
int store_history(struct store *store, const struct store_history_query *query, void *user,
                  void (*row)(void *user, const struct history_row *row), struct err *err)
{
    struct reader reader;

    must(query != NULL);
    int failed = reader_open(store, &reader, err);
    if (failed == 0) {
        failed = db_exec(reader.db, "BEGIN", err);
        if (failed == 0)
            failed = history_run(reader.db, query, user, row, err);
        db_rollback(reader.db);
        reader_done(&reader);
    }
    return failed != 0 ? err_wrap(err, "history") : 0;
}
