/*
 * Binds in flight, by pod uid, and replies that wait for the end of the batch. writer_binds.c adds
 * them; writer.c sends the replies.
 */
#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/spine/message.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

void inflight_free(struct inflight_bind *bind_inflight)
{
    must(bind_inflight->uid != NULL);

    xfree(bind_inflight->uid);
    atom_unref(bind_inflight->node);
    xfree(bind_inflight->reply);
    xfree(bind_inflight);
}

void doubt_free(struct doubt *doubt)
{
    must(doubt->uid != NULL);

    xfree(doubt->uid);
    xfree(doubt);
}

void replies_drop(struct writer *writer)
{
    must(writer->after_commit.n_replies <= writer->after_commit.reply_capacity);

    for (size_t i = 0; i < writer->after_commit.n_replies; i++) {
        xfree(writer->after_commit.reply[i].uid);
        xfree(writer->after_commit.reply[i].error);
    }
    writer->after_commit.n_replies = 0;
}

/*
 * A pod has at most one bind in flight. Its doubt ends here, because there will be a new outcome.
 */
struct inflight_bind *inflight_begin(struct writer *writer, const char *uid,
                                     const struct atom *node, int64_t deadline_ms)
{
    must(uid[0] != '\0');

    struct inflight_bind *bind_inflight = xcalloc(1, sizeof *bind_inflight);

    bind_inflight->uid = xstrdup(uid);
    bind_inflight->node = atom_ref(node);
    bind_inflight->deadline_ms = deadline_ms;
    must(map_put(&writer->binds.inflight, text_of(bind_inflight->uid), bind_inflight) == NULL);
    struct doubt *doubt = map_take(&writer->binds.doubts, text_of(uid));
    if (doubt != NULL)
        doubt_free(doubt);
    return bind_inflight;
}

void inflight_join(struct inflight_bind *bind_inflight, struct bind_call *bind)
{
    must(bind->reply.to != NULL);
    bind_inflight->reply = xgrow(bind_inflight->reply, bind_inflight->n_replies,
                                 &bind_inflight->capacity, sizeof *bind_inflight->reply);
    bind_inflight->reply[bind_inflight->n_replies++] = bind->reply;
    bind->reply.to = NULL;
}

static void answer_all(struct inflight_bind *bind_inflight, const char *error)
{
    must(bind_inflight->uid != NULL);

    for (size_t i = 0; i < bind_inflight->n_replies; i++)
        bind_inflight->reply[i].answer(bind_inflight->reply[i].to, error);
    bind_inflight->n_replies = 0;
}

void inflight_answer(struct writer *writer, const char *uid, const char *error)
{
    struct inflight_bind *bind_inflight = map_find(&writer->binds.inflight, text_of(uid));

    if (bind_inflight != NULL)
        answer_all(bind_inflight, error);
}

/*
 * Answers all calls that wait for this pod, with the same outcome. There may be no bind in flight:
 * an outcome is delivered again after a lost batch.
 */
void inflight_end(struct writer *writer, const char *uid, const char *error)
{
    must(uid != NULL);

    struct inflight_bind *bind_inflight = map_take(&writer->binds.inflight, text_of(uid));

    if (bind_inflight == NULL)
        return;
    answer_all(bind_inflight, error);
    inflight_free(bind_inflight);
}

/* Copies the texts, whose message is freed before they are sent. */
void replies_add(struct writer *writer, const char *uid, const char *error)
{
    writer->after_commit.reply =
        xgrow(writer->after_commit.reply, writer->after_commit.n_replies,
              &writer->after_commit.reply_capacity, sizeof *writer->after_commit.reply);
    must(uid[0] != '\0');
    writer->after_commit.reply[writer->after_commit.n_replies++] =
        (struct pending_reply){xstrdup(uid), error != NULL ? xstrdup(error) : NULL};
}

void replies_send(struct writer *writer)
{
    must(!writer->batch.open);

    for (size_t i = 0; i < writer->after_commit.n_replies; i++)
        inflight_end(writer, writer->after_commit.reply[i].uid,
                     writer->after_commit.reply[i].error);
    replies_drop(writer);
}
