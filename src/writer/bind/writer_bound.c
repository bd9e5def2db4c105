/*
 * Records rows that became bound since the last list of pods was requested. Called by
 * writer_commands.c after each command; read by writer_pods.c, because only a list that was
 * requested later can contradict a row. An entry ends with its row, or when such a list begins.
 */
#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

#include "writer/writer_internal.h"

/* The time at which a row became bound in this process. */
struct bound_since {
    char *uid;  /* owned; also the key in writer.pod_list.bound_since */
    int64_t ms; /* monotonic */
};

static void bound_since_free(struct bound_since *since)
{
    must(since->uid[0] != '\0');
    xfree(since->uid);
    xfree(since);
}

void writer_note_bound(struct writer *writer, const struct change *change, int64_t now_ms)
{
    const struct allocation *after = change->after;
    struct bound_since *since;

    must(change->verdict == VERDICT_OK);
    if (after == NULL ||
        (change->before != NULL && change->before->facts.state == after->facts.state))
        return;
    since = map_take(&writer->pod_list.bound_since, text_of(after->facts.uid));
    if (since != NULL)
        bound_since_free(since);
    if (after->facts.state != STATE_BOUND)
        return;
    since = xmalloc(sizeof *since);
    *since = (struct bound_since){.uid = xstrdup(after->facts.uid), .ms = now_ms};
    must(map_put(&writer->pod_list.bound_since, text_of(since->uid), since) == NULL);
}

/* For map_retain(). Within one millisecond the order is unknown, so the entry stays. */
static bool is_not_before(void *user, void *value)
{
    struct writer *writer = user;
    struct bound_since *since = value;

    must(since->ms >= 0);
    if (since->ms >= writer->pod_list.listed_ms)
        return true;
    bound_since_free(since);
    return false;
}

void writer_forget_bound(struct writer *writer)
{
    must(writer->pod_list.listing);
    (void)map_retain(&writer->pod_list.bound_since, writer, is_not_before);
}

void writer_stop_bound(struct writer *writer)
{
    struct bound_since *since;

    for (size_t at = 0; (since = map_next(&writer->pod_list.bound_since, &at)) != NULL;)
        bound_since_free(since);
    map_done(&writer->pod_list.bound_since);
}

bool writer_bound_lately(const struct writer *writer, const char *uid)
{
    must(uid[0] != '\0');
    return map_find(&writer->pod_list.bound_since, text_of(uid)) != NULL;
}
