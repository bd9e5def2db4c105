/*
 * Stores the memories of agents.h. Called in the writer, over its connection: store_ops.remember
 * writes changed ones, store_agents() reads all once at start. The file is untrusted input: an
 * invalid row is skipped and reported, and the result is never less strict than that of an empty
 * table. In order: writing, reading.
 */
#include <string.h>

#include "store/store_internal.h"

/* --- writing --- */

static int agents_kept_put(struct store *store, const struct agent_memory *memory, struct err *err)
{
    const bool is_kept = memory->named_gpus || memory->vouched;
    struct bind bind = bind_start(store->stmt[is_kept ? ST_AGENT_SET : ST_AGENT_DROP]);

    must(memory->node[0] != '\0');
    bind_text(&bind, memory->node);
    if (is_kept) {
        bind_text(&bind, memory->uid);
        bind_number(&bind, memory->named_gpus);
        bind_number(&bind, memory->vouched);
    }
    const int failed = bind_run(&bind, NULL, err);
    return failed != 0 ? err_wrap(err, "the agent of node %s", memory->node) : 0;
}

int agents_kept_write(struct store *store, const struct agents *agents, size_t max,
                      size_t *out_count, struct err *err)
{
    struct agent_memory memory;
    size_t at = 0;
    int failed = 0;

    must(store->in_batch);
    must(max > 0);
    *out_count = 0;
    if (agents_seen(agents))
        failed = db_run(store->stmt[ST_AGENTS_SEEN], err);
    while (failed == 0 && *out_count < max && agents_next_changed(agents, &at, &memory)) {
        failed = agents_kept_put(store, &memory, err);
        ++*out_count;
    }
    return failed;
}

/* --- reading --- */

static int agents_kept_read_seen(struct store *store, struct agents *agents, struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[ST_HAS_AGENTS];
    int more = db_step(stmt, err);

    must(more != 0); /* max() always returns a row */
    if (more > 0) {
        struct row row = row_start(stmt);
        const bool has_agents = row_number(&row, 0, 1) != 0;
        more = 0;
        if (row.fault != NULL)
            more = err_set(err, ERR_CORRUPT, "table meta: has_agents: 0 or 1 would be right");
        else if (has_agents)
            agents_remember_seen(agents);
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more;
}

static int agents_kept_take(sqlite3_stmt *stmt, struct agents *agents, struct err *err)
{
    struct row row = row_start(stmt);
    struct agent_memory memory = {.node = row_text(&row)};
    const size_t bytes = strlen(memory.node);

    must(sqlite3_column_count(stmt) == 4);
    if (row.fault != NULL || bytes == 0 || bytes > NAME_BYTES_MAX)
        return err_set(err, ERR_CORRUPT, "node: a name of 1 to %d bytes would be right",
                       NAME_BYTES_MAX);
    memory.uid = row_text(&row);
    if (row.fault != NULL)
        return err_set(err, ERR_CORRUPT, "node %s: uid: a text would be right", memory.node);
    memory.named_gpus = row_number(&row, 0, 1) != 0;
    memory.vouched = row_number(&row, 0, 1) != 0;
    if (row.fault != NULL)
        return err_set(err, ERR_CORRUPT, "node %s: %s: 0 or 1 would be right", memory.node,
                       row.fault);
    if (!memory.named_gpus && !memory.vouched)
        return err_set(err, ERR_CORRUPT,
                       "node %s: named_gpus and vouched are 0: 1 would be right in one of them",
                       memory.node);
    agents_remember(agents, &memory);
    return 0;
}

/* Continues after an invalid row; err reports the first one. */
static int agents_kept_read_rows(struct store *store, struct agents *agents, struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[ST_AGENTS];
    struct err later;
    int failed = 0;
    int more;

    must(!store->in_batch);
    while ((more = db_step(stmt, failed == 0 ? err : &later)) > 0) {
        const int wrong = agents_kept_take(stmt, agents, failed == 0 ? err : &later);
        failed = failed != 0 ? failed : wrong;
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return failed != 0 ? failed : more;
}

int store_agents(struct store *store, struct agents *agents, struct err *err)
{
    struct err later;

    must(agents_count(agents) == 0);
    must(sole_thread_admits(&store->writer));
    store_lock(store);
    int failed = agents_kept_read_seen(store, agents, err);
    const int wrong = agents_kept_read_rows(store, agents, failed == 0 ? err : &later);
    store_unlock(store);
    failed = failed != 0 ? failed : wrong;
    if (failed == 0)
        return 0;
    agents_remember_seen(agents);
    return err_wrap(err, "%s: what is remembered of agents", store->path);
}
