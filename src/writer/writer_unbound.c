#include "milligpu/alloc.h"
#include "milligpu/pod_cache.h"
#include "milligpu/reconcile.h"

#include "writer/writer_internal.h"

/*
 * Bound rows whose pods are listed unbound: etcd was restored to a moment before the Binding. Called
 * by writer_pods.c for lists, and by writer_commands.c after each command. An event or a list that
 * is older than the Binding shows the same, and versions repeat after a restore. So the evidence is
 * a complete list that was requested after the row became bound in this process, or before it.
 */

/* When a row became bound in this process. */
struct bound_since {
    char *uid; /* also the key in writer.bound_since */
    int64_t ms;
};

static void bound_since_free(struct bound_since *since)
{
    must(since->uid[0] != '\0');
    xfree(since->uid);
    xfree(since);
}

void writer_note_bound(struct writer *writer, const struct change *change)
{
    const struct allocation *after = change->after;
    struct bound_since *since;

    must(change->verdict == VERDICT_OK);
    if (after == NULL || (change->before != NULL && change->before->is.state == after->is.state))
        return;
    since = map_take(&writer->bound_since, text_of(after->is.uid));
    if (since != NULL)
        bound_since_free(since);
    if (after->is.state != STATE_BOUND)
        return;
    since = xmalloc(sizeof *since);
    *since = (struct bound_since){.uid = xstrdup(after->is.uid), .ms = writer_now_ms(writer)};
    must(map_put(&writer->bound_since, text_of(since->uid), since) == NULL);
}

/* Within one millisecond the order is not known. */
static bool is_not_before(void *user, void *value)
{
    struct writer *writer = user;
    struct bound_since *since = value;

    must(since->ms >= 0);
    if (since->ms >= writer->listed_ms)
        return true;
    bound_since_free(since);
    return false;
}

void writer_forget_bound(struct writer *writer)
{
    must(writer->listing);
    (void)map_retain(&writer->bound_since, writer, is_not_before);
}

void writer_stop_bound(struct writer *writer)
{
    struct bound_since *since;

    for (size_t at = 0; (since = map_next(&writer->bound_since, &at)) != NULL;)
        bound_since_free(since);
    map_done(&writer->bound_since);
}

bool writer_is_disputed(const struct writer *writer, const struct pod *pod)
{
    const struct allocation *held = ledger_find(writer->ledger, text_of(pod->uid));

    return held != NULL && held->is.state == STATE_BOUND && pod->node[0] == '\0' && !pod_ended(pod);
}

/* The cache goes back with the API server, or it would take what follows for outdated. */
static void forget_future(struct writer *writer, const struct pod *pod)
{
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);

    must(pod->node[0] == '\0');
    if (record != NULL && record->node[0] != '\0')
        pod_cache_remove(writer->app->pod_cache, pod->uid);
}

bool writer_mark_unbound(struct writer *writer, const struct pod *pod)
{
    struct command command[RECONCILE_MAX];

    must(!writer->batch.lost);
    if (!writer_is_disputed(writer, pod) ||
        map_find(&writer->bound_since, text_of(pod->uid)) != NULL)
        return true;
    forget_future(writer, pod);
    const size_t count = reconcile_listed_unbound(writer->ledger, pod, writer->wall_ms, command);
    return writer_run_all(writer, command, count);
}
