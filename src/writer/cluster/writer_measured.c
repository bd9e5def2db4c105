/*
 * Stores the agents' measurements once a minute and at the end: sums collected by the report
 * listener (measured_sums.h), and shares that became idle or busy (idle_changes.h). Called by
 * writer.c between two batches, one chunk at a time, so that no bind waits for more than one; data
 * that could not be stored is put back for the next time. In order: chunks, at the start, commands,
 * times.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/usage/idle_changes.h"
#include "milligpu/usage/measured_sums.h"
#include "milligpu/usage/usage_table.h"

#include "writer/writer_internal.h"

enum {
    STORE_MEASURED_MS = 60000,
    CHUNK_ROWS = 256,
    /* limit at the end, where the listener may still add data */
    CHUNKS_MAX = (IDLE_CHANGES_MAX + MEASURED_SUMS_MAX + MEASURED_SUMS_HOURS_MAX) / CHUNK_ROWS + 1,
};

/* --- chunks --- */

/* Returns false in safe mode, and while the ledger may belong to another cluster. */
static bool may_store(const struct writer *writer)
{
    must(!writer->batch.open);
    return !atomic_load(&writer->app->health.safe_mode) && atomic_load(&writer->app->identified) &&
           !atomic_load(&writer->app->grace.new_ledger);
}

/*
 * Returns true if a full chunk was stored, so that there may be more. The time of the last report
 * is read before the changes are taken and stored with the last of them, so that the store always
 * contains all changes up to the stored time.
 */
static bool store_chunk(struct writer *writer)
{
    const struct store_ops *ops = &writer->app->store_ops;
    struct usage_table *book = writer->app->usage_table;
    const int64_t reported_ms = usage_table_last(book);
    struct store_measured row[CHUNK_ROWS];
    struct store_idle idle[CHUNK_ROWS];
    struct store_chunk chunk = {.row = row, .idle = idle};
    CLEANUP(arena_done) struct arena arena;
    uint32_t dropped = 0;
    struct err err;

    arena_init(&arena);
    chunk.n_rows = measured_sums_take(usage_table_sums(book), row, CHUNK_ROWS, &arena);
    chunk.n_idle = idle_changes_take(usage_table_idle(book), idle, CHUNK_ROWS, &arena);
    if (chunk.n_idle < CHUNK_ROWS && reported_ms != writer->measuring.reported_ms)
        chunk.reported_ms = reported_ms;
    if (chunk.n_rows == 0 && chunk.n_idle == 0 && chunk.reported_ms == 0)
        return false;
    if (ops->measure(ops->ctx, &chunk, &err) == 0) {
        if (chunk.reported_ms > 0)
            writer->measuring.reported_ms = chunk.reported_ms;
        return chunk.n_rows == CHUNK_ROWS || chunk.n_idle == CHUNK_ROWS;
    }
    for (uint32_t i = 0; i < chunk.n_rows; i++)
        dropped += !measured_sums_add(usage_table_sums(book), &row[i]);
    idle_changes_put_back(usage_table_idle(book), idle, chunk.n_idle);
    metric_add(M_MEASURED_DROPPED, NULL, dropped);
    log_write(LOG_WARN, "could not store the measured usage; will be retried",
              log_str("error", err.text));
    return false;
}

/* --- at the start --- */

/* Collects the idle shares of one node while rows are loaded. */
struct idle_load {
    struct writer *writer;
    int64_t reported_ms;
    const struct atom *node; /* node of the shares, borrowed; NULL before the first */
    uint32_t shares;
    uint32_t capacity;
    struct measured_idle *idle;
};

static void resume_node(struct idle_load *load)
{
    const struct app *app = load->writer->app;

    if (load->shares > 0)
        usage_table_resume(app->usage_table, load->node->text,
                           measured_resume(ledger_node(load->writer->ledger, atom_text(load->node)),
                                           load->idle, load->shares, load->reported_ms,
                                           app->clock.wall_ms(app->clock.ctx)),
                           load->reported_ms);
    load->shares = 0;
}

static const struct share *share_of(const struct allocation *allocation,
                                    const struct store_idle *idle)
{
    for (uint32_t i = 0; allocation != NULL && i < allocation->facts.n_shares; i++) {
        const struct share *share = &allocation->facts.share[i];
        if (strcmp(share->container, idle->container) == 0 &&
            strcmp(share->gpu->text, idle->gpu) == 0)
            return share;
    }
    return NULL;
}

static void load_share(void *user, const struct store_idle *idle)
{
    struct idle_load *load = user;
    const struct allocation *allocation = ledger_find(load->writer->ledger, text_of(idle->uid));
    const struct share *share = share_of(allocation, idle);

    /* Only bound shares are stored, sorted by node, but the file is untrusted input. */
    if (share == NULL || allocation->facts.state != STATE_BOUND ||
        strcmp(allocation->facts.node->text, idle->node) != 0)
        return;
    if (load->node != allocation->facts.node)
        resume_node(load);
    load->node = allocation->facts.node;
    if (load->shares == load->capacity) {
        load->capacity = load->capacity > 0 ? 2 * load->capacity : 64;
        load->idle = xrealloc(load->idle, load->capacity, sizeof *load->idle);
    }
    load->idle[load->shares++] = (struct measured_idle){allocation, share, idle->since_ms};
}

void writer_load_idle(struct writer *writer)
{
    struct idle_load load = {.writer = writer};
    struct err err;

    must(!writer->batch.open);
    if (store_idle(writer->app->store, &load.reported_ms, &load, load_share, &err) < 0)
        log_write(LOG_WARN, "since when shares are idle begins anew", log_str("error", err.text));
    resume_node(&load);
    writer->measuring.reported_ms = load.reported_ms;
    xfree(load.idle);
}

/* --- commands --- */

bool writer_handle_over(struct writer *writer, const struct over_memory *over)
{
    const struct command command = {
        .kind = COMMAND_OVER,
        .at_ms = writer->wall_ms,
        .uid = over->uid,
        .namespace = over->namespace,
        .name = over->name,
        .node = over->node,
        .container = over->container,
        .gpu = over->gpu,
        .why = over->how,
        .mib = over->mib,
        .peak_mib = over->peak_mib,
    };

    return writer_run(writer, &command);
}

/* --- when --- */

void writer_store_measured(struct writer *writer)
{
    for (int i = 0; i < CHUNKS_MAX && may_store(writer); i++)
        if (!store_chunk(writer))
            return;
}

void writer_store_measured_now_and_then(struct writer *writer)
{
    const int64_t now_ms = writer_now_ms(writer);

    if (now_ms >= writer->measuring.store_measured_ms && may_store(writer) && !store_chunk(writer))
        writer->measuring.store_measured_ms = now_ms + STORE_MEASURED_MS;
}
