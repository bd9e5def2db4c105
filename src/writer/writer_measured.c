/*
 * What agents measured goes to disk once in a minute, and at the end: sums that the report listener
 * adds up (measured_sums.h). Called by writer.c between two batches. A chunk at a time, so that no
 * bind waits for more than one; what could not be stored is added again, for the next time.
 */
#include "milligpu/log.h"
#include "milligpu/measured_sums.h"
#include "milligpu/metric.h"
#include "milligpu/usage_book.h"

#include "writer/writer_internal.h"

enum {
    STORE_MEASURED_MS = 60000,
    CHUNK_ROWS = 256,
    /* at the end; what the listener may add meanwhile is not waited for */
    CHUNKS_MAX = (MEASURED_SUMS_MAX + MEASURED_SUMS_HOURS_MAX) / CHUNK_ROWS + 1,
};

/* A file that contradicts itself is not changed, nor one that may be another cluster's. */
static bool may_store(const struct writer *writer)
{
    must(!writer->batch.open);
    return !atomic_load(&writer->app->safe_mode) && atomic_load(&writer->app->identified) &&
           !atomic_load(&writer->app->new_ledger);
}

/* True: a whole chunk was stored, so there may be more. */
static bool store_chunk(struct writer *writer)
{
    const struct store_ops *ops = &writer->app->store_ops;
    struct measured_sums *sums = usage_book_sums(writer->app->usage_book);
    struct store_measured row[CHUNK_ROWS];
    CLEANUP(arena_done) struct arena arena;
    uint32_t dropped = 0;
    struct err err;

    arena_init(&arena);
    const uint32_t rows = measured_sums_take(sums, row, CHUNK_ROWS, &arena);
    if (rows == 0 || ops->measure(ops->ctx, row, rows, &err) == 0)
        return rows == CHUNK_ROWS;
    for (uint32_t i = 0; i < rows; i++)
        dropped += !measured_sums_add(sums, &row[i]);
    metric_add(M_MEASURED_DROPPED, NULL, dropped);
    log_write(LOG_WARN, "what was measured could not be stored, and is kept for the next time",
              log_str("error", err.text));
    return false;
}

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

void writer_store_measured(struct writer *writer)
{
    for (int i = 0; i < CHUNKS_MAX && may_store(writer); i++)
        if (!store_chunk(writer))
            return;
}

void writer_store_measured_now_and_then(struct writer *writer)
{
    const int64_t now_ms = writer_now_ms(writer);

    if (now_ms >= writer->store_measured_ms && may_store(writer) && !store_chunk(writer))
        writer->store_measured_ms = now_ms + STORE_MEASURED_MS;
}
