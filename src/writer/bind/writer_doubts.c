/*
 * Doubts: open reservations without a Binding in flight, after a restart or an unknown outcome.
 * Called once a second by writer_tick(). Time never releases a reservation here; it only triggers a
 * GET (docs/why/012).
 */
#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

enum {
    /* pause between GETs about a doubt without other evidence */
    DOUBT_ASK_MS = 30000,
    /* same, without a version: longer than the API server's timeout of 60 s for a request */
    DOUBT_OLD_MS = 90000,
    ASK_MS = 10000, /* timeout of the GET */
};

/*
 * Sends a GET: the watch can lag by any time, but a GET shows the present. The reservation stays
 * until there is evidence. For one without a version (of an older ledger) no Binding can take
 * effect any more, but one may have done so.
 */
static void ask_about(struct writer *writer, const struct allocation *allocation, int64_t now)
{
    must(allocation->facts.state == STATE_RESERVED);

    struct err err;

    const struct dispatch how = {allocation->facts.version, now + ASK_MS, SENDING_NOTHING, NULL};
    /* The Binding could be encoded before, so this succeeds; otherwise the next round retries. */
    if (writer_queue_binding(writer, allocation, how, &err) == 0)
        inflight_begin(writer, allocation->facts.uid, allocation->facts.node, now + ASK_MS)
            ->is_query = true;
}

/*
 * Marks the reservation as in doubt, once, and sends a GET when the doubt is old enough. The GET
 * ends the entry (inflight_begin()), so after an inconclusive answer the time starts again.
 */
static bool expire_doubt(struct writer *writer, const struct allocation *allocation, int64_t now)
{
    must(allocation->facts.state == STATE_RESERVED);

    struct doubt *doubt = map_find(&writer->binds.doubts, text_of(allocation->facts.uid));
    const struct command command = {
        .kind = COMMAND_DOUBT, .at_ms = writer->wall_ms, .uid = allocation->facts.uid};

    if (doubt == NULL) {
        doubt = xcalloc(1, sizeof *doubt);
        doubt->uid = xstrdup(allocation->facts.uid);
        doubt->since_ms = now;
        (void)map_put(&writer->binds.doubts, text_of(doubt->uid), doubt);
    }
    must(now >= doubt->since_ms);
    doubt->mark = writer->binds.mark;
    if (now - doubt->since_ms >= (allocation->facts.version > 0 ? DOUBT_ASK_MS : DOUBT_OLD_MS))
        ask_about(writer, allocation, now);
    return allocation->facts.in_doubt || writer_run(writer, &command);
}

/* Uses evidence that the watch has already shown before sending a GET. */
static bool tick_doubt(struct writer *writer, const struct allocation *allocation, int64_t now)
{
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, allocation->facts.uid);

    must(now >= 0);
    return record != NULL && writer_is_void(allocation, record)
               ? writer_release_void(writer, record)
               : expire_doubt(writer, allocation, now);
}

/* For map_retain(): entries without this second's mark are no longer doubts. */
static bool doubt_lives(void *user, void *value)
{
    const struct writer *writer = user;
    struct doubt *doubt = value;

    must(doubt->mark <= writer->binds.mark);
    if (doubt->mark == writer->binds.mark)
        return true;
    doubt_free(doubt);
    return false;
}

/*
 * Returns the reservations without a Binding in flight, with a reference each, because handling one
 * changes the ledger during the loop; the caller frees the array.
 */
static const struct allocation **open_reservations(const struct writer *writer, size_t *out_count)
{
    const struct allocation **open = NULL;
    const struct allocation *allocation;
    size_t capacity = 0;

    *out_count = 0;
    for (size_t at = 0; (allocation = ledger_next_open(writer->ledger, &at)) != NULL;) {
        if (allocation->facts.state != STATE_RESERVED ||
            map_find(&writer->binds.inflight, text_of(allocation->facts.uid)) != NULL)
            continue;
        open = xgrow(open, *out_count, &capacity, sizeof *open);
        open[(*out_count)++] = allocation_ref(allocation);
    }
    return open;
}

bool writer_check_doubts(struct writer *writer, int64_t now)
{
    size_t count;
    bool whole = true;

    must(!writer->batch.lost);
    const struct allocation **open = open_reservations(writer, &count);
    writer->binds.mark++;
    for (size_t i = 0; i < count; i++) {
        whole = whole && tick_doubt(writer, open[i], now);
        allocation_unref(open[i]);
    }
    xfree(open);
    /* Not after a lost batch: unmarked doubts would lose their start time. */
    if (whole)
        (void)map_retain(&writer->binds.doubts, writer, doubt_lives);
    return whole;
}
