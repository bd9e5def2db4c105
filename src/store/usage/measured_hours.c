/*
 * The hourly sums of measured usage. The writer adds to them over its connection
 * (store_ops.measure); REST reads them on admin threads, over a read-only connection. In order:
 * adding, reading.
 */
#include "store/store_internal.h"

/* --- adding --- */

/* *out_changed: 0 if ST_MEASURED_SET finds no row. */
static int measured_put(struct store *store, enum statement statement,
                        const struct store_measured *row, int *out_changed, struct err *err)
{
    struct bind bind = bind_start(store->stmt[statement]);

    must(row->hour_ms % STORE_HOUR_MS == 0);
    bind_number(&bind, (int64_t)row->milli_s);
    bind_number(&bind, (int64_t)row->of_milli_s);
    bind_number(&bind, (int64_t)row->mib_s);
    bind_number(&bind, (int64_t)row->of_mib_s);
    bind_number(&bind, row->hour_ms);
    bind_text(&bind, row->namespace);
    bind_text(&bind, row->model);
    const int failed = bind_run(&bind, out_changed, err);
    must(failed != 0 || *out_changed <= 1);
    return failed;
}

static int measured_rows(struct store *store, int64_t hour_ms, int64_t *out_rows, struct err *err)
{
    struct bind bind = bind_start(store->stmt[ST_MEASURED_ROWS]);

    bind_number(&bind, hour_ms);
    must(bind.rc == SQLITE_OK);
    return db_ask(bind.stmt, out_rows, err);
}

/* Beyond STORE_MEASURED_ROWS_MAX rows of an hour, adds to the row with namespace and model "". */
static int measured_add(struct store *store, const struct store_measured *row, struct err *err)
{
    struct store_measured to = *row;
    int64_t rows = 0;
    int changed = 0;

    int failed = measured_put(store, ST_MEASURED_SET, &to, &changed, err);
    if (failed != 0 || changed == 1)
        return failed;
    failed = measured_rows(store, to.hour_ms, &rows, err);
    if (failed == 0 && rows >= STORE_MEASURED_ROWS_MAX) {
        to.namespace = to.model = "";
        failed = measured_put(store, ST_MEASURED_SET, &to, &changed, err);
    }
    if (failed == 0 && changed == 0)
        failed = measured_put(store, ST_MEASURED_ADD, &to, &changed, err);
    return failed;
}

int measured_write(struct store *store, const struct store_measured *row, uint32_t rows,
                   struct err *err)
{
    int failed = 0;

    must(store->in_batch);
    for (uint32_t i = 0; failed == 0 && i < rows; i++)
        failed = measured_add(store, &row[i], err);
    return failed;
}

/* --- reading --- */

/* Sums from ?1 to ?2. Of the hour that contains ?1, ?3 of ?4 seconds count. */
static const char measured_sql[] =
    "SELECT namespace, model, sum(iif(hour_ms < ?1, milli_s * ?3 / ?4, milli_s)),"
    " sum(iif(hour_ms < ?1, of_milli_s * ?3 / ?4, of_milli_s)),"
    " sum(iif(hour_ms < ?1, mib_s * ?3 / ?4, mib_s)),"
    " sum(iif(hour_ms < ?1, of_mib_s * ?3 / ?4, of_mib_s))"
    " FROM measured WHERE hour_ms > ?1 - 3600000 AND hour_ms <= ?2"
    " GROUP BY namespace, model ORDER BY namespace, model";

/* The hour that contains now_ms ends at now_ms. */
static int measured_ask(sqlite3 *db, int64_t since_ms, int64_t now_ms, sqlite3_stmt **out,
                        struct err *err)
{
    const int64_t hour_ms = since_ms - since_ms % STORE_HOUR_MS;
    const int64_t end_ms = now_ms < hour_ms + STORE_HOUR_MS ? now_ms : hour_ms + STORE_HOUR_MS;
    const int64_t cut_s = (end_ms - hour_ms) / 1000;

    must(0 <= since_ms && since_ms <= now_ms);
    const int failed = db_prepare(db, measured_sql, out, err);
    if (failed != 0)
        return failed;
    must(sqlite3_bind_int64(*out, 1, since_ms) == SQLITE_OK);
    must(sqlite3_bind_int64(*out, 2, now_ms) == SQLITE_OK);
    must(sqlite3_bind_int64(*out, 3, (end_ms - since_ms) / 1000) == SQLITE_OK);
    must(sqlite3_bind_int64(*out, 4, cut_s > 0 ? cut_s : 1) == SQLITE_OK);
    return 0;
}

static int measured_give(sqlite3_stmt *stmt, void *user,
                         void (*each)(void *user, const struct store_measured *row),
                         struct err *err)
{
    struct row row = row_start(stmt);
    struct store_measured out = {.namespace = row_text(&row), .model = row_text(&row)};

    must(each != NULL);
    out.milli_s = (uint64_t)row_number(&row, 0, INT64_MAX);
    out.of_milli_s = (uint64_t)row_number(&row, 0, INT64_MAX);
    out.mib_s = (uint64_t)row_number(&row, 0, INT64_MAX);
    out.of_mib_s = (uint64_t)row_number(&row, 0, INT64_MAX);
    const int failed = row_check(&row, "measured", err);
    if (failed == 0)
        each(user, &out);
    return failed;
}

int store_measured(struct store *store, int64_t since_ms, int64_t now_ms, void *user,
                   void (*each)(void *user, const struct store_measured *row), struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;
    struct reader reader;

    int more = reader_open(store, &reader, err);
    if (more != 0)
        return err_wrap(err, "history");
    more = measured_ask(reader.db, since_ms, now_ms, &stmt, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0)
        more = measured_give(stmt, user, each, err);
    (void)sqlite3_finalize(STEAL(stmt)); /* before its connection closes */
    reader_done(&reader);
    return more != 0 ? err_wrap(err, "history") : 0;
}
