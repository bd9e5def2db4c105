#include "milligpu/message.h"

#include "milligpu/alloc.h"

struct message *message_new(enum message_kind kind)
{
    must(kind <= MESSAGE_NODE_DELETED);

    struct message *message = xcalloc(1, sizeof *message);

    message->kind = kind;
    arena_init(&message->arena);
    return message;
}

size_t message_bytes(const struct message *message)
{
    must(message != NULL);
    return sizeof *message + arena_bytes(&message->arena);
}

void message_free(struct message *message)
{
    if (message == NULL)
        return;
    must(message->reply.to == NULL); /* whoever takes a call answers it */
    arena_done(&message->arena);
    xfree(message);
}
