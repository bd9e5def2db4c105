/*
 * Stores the idle times of shares. The writer writes them together with measured usage
 * (store_ops.measure), and reads them once, at the start, over its own connection. In order:
 * writing, reading.
 */
#include "store/store_internal.h"

/* --- writing --- */

static int idle_drop_node(struct store *store, const char *node, struct err *err)
{
    struct bind bind = bind_start(store->stmt[ST_IDLE_DROP_NODE]);

    bind_text(&bind, node);
    return bind_run(&bind, NULL, err);
}

static int idle_put(struct store *store, const struct store_idle *idle, struct err *err)
{
    struct bind bind = bind_start(store->stmt[idle->since_ms > 0 ? ST_IDLE_SET : ST_IDLE_DROP]);
    int changed = 0;

    must(idle->since_ms >= 0);
    if (idle->since_ms > 0)
        bind_number(&bind, idle->since_ms);
    bind_text(&bind, idle->uid);
    bind_text(&bind, idle->container);
    bind_text(&bind, idle->gpu);
    const int failed = bind_run(&bind, &changed, err);
    must(failed != 0 || changed <= 1);
    return failed;
}

/* Nodes first: entries of their shares are newer. */
int idle_write(struct store *store, const struct store_chunk *chunk, struct err *err)
{
    int failed = 0;

    must(store->in_batch);
    for (uint32_t i = 0; failed == 0 && i < chunk->n_idle; i++)
        if (chunk->idle[i].uid[0] == '\0')
            failed = idle_drop_node(store, chunk->idle[i].node, err);
    for (uint32_t i = 0; failed == 0 && i < chunk->n_idle; i++)
        if (chunk->idle[i].uid[0] != '\0')
            failed = idle_put(store, &chunk->idle[i], err);
    if (failed != 0 || chunk->reported_ms == 0)
        return failed;
    struct bind bind = bind_start(store->stmt[ST_REPORTED_SET]);
    bind_number(&bind, chunk->reported_ms);
    return bind_run(&bind, NULL, err);
}

/* --- reading --- */

static int idle_read_reported(struct store *store, int64_t *out_reported_ms, struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[ST_REPORTED];
    const int more = db_step(stmt, err);

    must(more != 0); /* a SELECT of one value always returns a row */
    if (more > 0)
        *out_reported_ms = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    if (more > 0 && *out_reported_ms < 0)
        return err_set(err, ERR_CORRUPT,
                       "table reported: until_ms: a time after 1970 would be right");
    return more < 0 ? more : 0;
}

static int idle_give(sqlite3_stmt *stmt, void *user,
                     void (*each)(void *user, const struct store_idle *idle), struct err *err)
{
    struct row row = row_start(stmt);
    struct store_idle idle = {.node = row_text(&row)};

    idle.uid = row_text(&row);
    idle.container = row_text(&row);
    idle.gpu = row_text(&row);
    idle.since_ms = row_number(&row, 1, INT64_MAX);
    const int failed = row_check(&row, "idle", err);
    if (failed == 0)
        each(user, &idle);
    return failed;
}

static int idle_read(struct store *store, int64_t *out_reported_ms, void *user,
                     void (*each)(void *user, const struct store_idle *idle), struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[ST_IDLE];

    int more = idle_read_reported(store, out_reported_ms, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0)
        more = idle_give(stmt, user, each, err);
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more;
}

int store_idle(struct store *store, int64_t *out_reported_ms, void *user,
               void (*each)(void *user, const struct store_idle *idle), struct err *err)
{
    must(!store->in_batch);
    *out_reported_ms = 0;
    must(sole_thread_admits(&store->writer));
    store_lock(store);
    const int failed = idle_read(store, out_reported_ms, user, each, err);
    store_unlock(store);
    return failed != 0 ? err_wrap(err, "%s: the idle shares", store->path) : 0;
}
