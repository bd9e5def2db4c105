/*
 * Allocates and frees the messages to the writer. Called by the HTTP threads, the informer, the
 * outbox and the main thread, which send them, and by the writer.
 */
#include "milligpu/spine/message.h"

#include "milligpu/base/alloc.h"

struct message *message_new(enum message_kind kind)
{
    must(kind <= MESSAGE_OVER);

    struct message *message = xcalloc(1, sizeof *message);

    message->kind = kind;
    arena_init(&message->arena);
    return message;
}

size_t message_bytes(const struct message *message)
{
    return sizeof *message + arena_bytes(&message->arena);
}

void message_free(struct message *message)
{
    if (message == NULL)
        return;
    const struct bind_call *call = message_bind_call(message);
    /* An unanswered call would keep its connection until kube-scheduler's timeout. */
    must(call == NULL || call->reply.to == NULL);
    if (message->kind == MESSAGE_POLICY)
        rulebook_unref(message->rulebook);
    arena_done(&message->arena);
    xfree(message);
}

void message_abandon(struct message *take_message)
{
    struct bind_call *call = message_bind_call(take_message);

    if (call != NULL)
        call->reply.to = NULL;
    message_free(take_message);
}

struct bind_call *message_bind_call(struct message *message)
{
    switch (message->kind) {
    case MESSAGE_BIND:
        return &message->bind;
    case MESSAGE_FETCHED:
        return &message->fetched.bind;
    default:
        return NULL;
    }
}
