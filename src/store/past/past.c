/*
 * Counts the history of each namespace in bytes when an allocation is released, and trims it when
 * the ledger comes near its limit. A trigger of the schema subtracts deleted rows. Packed history
 * (packs.c) counts by the size of its packs. Called by write.c and trim.c in the writer;
 * store_reach() by any thread.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

/* Size of a row in table and indexes, without texts; the same numbers as in from_6.sql. */
enum { ALLOCATION_BYTES = 120, SHARE_BYTES = 30, CHARGE_BYTES = 45 };

int64_t past_bytes_of(const struct allocation *allocation)
{
    const struct allocation_facts *facts = &allocation->facts;
    size_t bytes = ALLOCATION_BYTES + strlen(facts->uid) + 3 * strlen(facts->namespace) +
                   2 * strlen(facts->name) + facts->node->len + facts->node_uid->len;

    for (uint32_t i = 0; i < facts->n_shares; i++)
        bytes += SHARE_BYTES + strlen(facts->share[i].container) + facts->share[i].gpu->len;
    for (uint32_t i = 0; i < allocation->n_charges; i++)
        bytes +=
            CHARGE_BYTES + 2 * (size_t)allocation_charge(allocation, i).gpu->len + facts->node->len;
    must(bytes > 0 && bytes < INT64_MAX);
    return (int64_t)bytes;
}

static int past_put(struct store *store, enum statement statement, const char *namespace,
                    int64_t bytes, int *out_changed, struct err *err)
{
    struct bind bind = bind_start(store->stmt[statement]);

    must(bytes > 0);
    bind_number(&bind, bytes);
    bind_text(&bind, namespace);
    return bind_run(&bind, out_changed, err);
}

int past_count(struct store *store, const char *namespace, int64_t bytes, bool *out_is_other,
               struct err *err)
{
    int64_t names = 0;
    int changed = 0;

    must(store->in_batch);
    *out_is_other = false;
    int failed = past_put(store, ST_PAST_COUNT, namespace, bytes, &changed, err);
    if (failed != 0 || changed == 1)
        return failed;
    failed = db_ask(store->stmt[ST_PAST_NAMES], &names, err);
    if (failed != 0)
        return failed;
    if (names < PAST_NAMES_MAX)
        return past_put(store, ST_PAST_ADD, namespace, bytes, &changed, err);
    *out_is_other = true;
    failed = past_put(store, ST_PAST_COUNT, "", bytes, &changed, err);
    return failed == 0 && changed == 0 ? past_put(store, ST_PAST_ADD, "", bytes, &changed, err)
                                       : failed;
}

int past_find_most(struct store *store, enum statement statement, struct past_most *out,
                   struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[statement];

    must(statement == ST_PAST_MOST || statement == ST_HISTORY_MOST);
    *out = (struct past_most){.namespace = NULL};
    int more = db_step(stmt, err);
    if (more > 0) {
        struct row row = row_start(stmt);
        out->namespace = xstrdup(row_text(&row));
        out->rows = row_number(&row, 0, INT64_MAX);
        out->bytes = row_number(&row, 0, INT64_MAX);
        const int64_t each = out->rows > 0 ? out->bytes / out->rows : 0;
        out->piece = store->limits.piece / (each + 1) + 1;
        more = row_check(&row, "past", err);
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more < 0 ? more : 0;
}

static int past_trim_rows(struct store *store, const struct past_most *most, int *out_rows,
                          struct err *err)
{
    struct bind bind = bind_start(store->stmt[ST_PAST_TRIM]);

    must(most->piece > 0);
    bind_text(&bind, most->namespace);
    bind_number(&bind, most->piece < store->limits.fold ? most->piece : store->limits.fold);
    return bind_run(&bind, out_rows, err);
}

/* Packs first, because they are older than rows. */
int past_trim(struct store *store, int *out_rows, struct err *err)
{
    struct past_most most;

    must(!store->in_batch);
    *out_rows = 0;
    int failed = past_find_most(store, ST_HISTORY_MOST, &most, err);
    CLEANUP(xfreep) char *namespace = most.namespace;
    if (failed != 0 || namespace == NULL)
        return failed;
    struct bind bind = bind_start(store->stmt[ST_PACK_TRIM]);
    bind_text(&bind, namespace);
    failed = bind_run(&bind, out_rows, err);
    return failed == 0 && *out_rows == 0 ? past_trim_rows(store, &most, out_rows, err) : failed;
}

/* One statement, so that the result is consistent. */
static const char reach_sql[] =
    "WITH of(namespace, bytes) AS (SELECT namespace, sum(bytes) FROM " HISTORY_PARTS
    " GROUP BY namespace) "
    "SELECT coalesce((SELECT min(ms) FROM (SELECT min(released_ms) AS ms FROM allocation"
    " WHERE bytes > 0 UNION ALL SELECT min(oldest_ms) FROM pack)), 0),"
    " coalesce(sum(bytes), 0), coalesce(max(bytes), 0),"
    " coalesce((SELECT namespace FROM of ORDER BY bytes DESC LIMIT 1), '') FROM of";

static int reach_read(sqlite3 *db, struct store_reach *out, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    int more = db_prepare(db, reach_sql, &stmt, err);
    if (more == 0)
        more = db_step(stmt, err);
    if (more < 0)
        return more;
    must(more == 1);
    struct row row = row_start(stmt);
    out->oldest_ms = row_number(&row, INT64_MIN, INT64_MAX);
    out->bytes = row_number(&row, 0, INT64_MAX);
    out->most_bytes = row_number(&row, 0, INT64_MAX);
    text_clip(text_of(row_text(&row)), out->most, sizeof out->most);
    return row_check(&row, "past", err);
}

int store_reach(struct store *store, struct store_reach *out, struct err *err)
{
    struct reader reader;

    must(out != NULL);
    int failed = reader_open(store, &reader, err);
    if (failed == 0) {
        failed = reach_read(reader.db, out, err);
        reader_done(&reader);
    }
    return failed != 0 ? err_wrap(err, "history") : 0;
}
