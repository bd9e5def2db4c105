/* Reads and writes ttrpc messages. Called by nri.c in the agent's main thread. */
#include "ttrpc.h"

#include "milligpu/nri/nri.h"

#include "mux.h"

/* Bytes of the buffer kept between messages: enough for a container, not for a list of all. */
enum { KEEP_MAX = 64 * 1024 };

void ttrpc_init(struct ttrpc *ttrpc)
{
    *ttrpc = (struct ttrpc){.complete = false};
    strbuf_init(&ttrpc->buf);
}

void ttrpc_done(struct ttrpc *ttrpc)
{
    strbuf_done(&ttrpc->buf);
}

static void begin(struct ttrpc *ttrpc)
{
    ttrpc->complete = false;
    if (ttrpc->buf.capacity > KEEP_MAX) {
        strbuf_done(&ttrpc->buf);
        strbuf_init(&ttrpc->buf);
    }
    strbuf_reset(&ttrpc->buf);
}

/* Moves bytes from *rest until the message has this many; false if *rest has too few. */
static bool fill(struct ttrpc *ttrpc, size_t bytes, struct text *rest)
{
    if (ttrpc->buf.len >= bytes)
        return true;
    const struct text taken = text_first(*rest, bytes - ttrpc->buf.len);
    strbuf_text(&ttrpc->buf, taken);
    rest->at += taken.len;
    rest->len -= taken.len;
    must(ttrpc->buf.len <= bytes);
    return ttrpc->buf.len == bytes;
}

int ttrpc_next(struct ttrpc *ttrpc, struct text *rest, struct ttrpc_message *out, struct err *err)
{
    if (ttrpc->complete)
        begin(ttrpc);
    if (!fill(ttrpc, TTRPC_HEAD, rest))
        return 0;
    const uint32_t bytes = mux_u32(ttrpc->buf.data);
    if (bytes > NRI_MESSAGE_MAX)
        return err_set(err, ERR_TOO_LARGE, "a message of %u bytes; %d are allowed", bytes,
                       NRI_MESSAGE_MAX);
    if (!fill(ttrpc, TTRPC_HEAD + (size_t)bytes, rest))
        return 0;
    const char *head = ttrpc->buf.data;
    *out = (struct ttrpc_message){.stream = mux_u32(head + 4),
                                  .type = (uint8_t)head[8],
                                  .flags = (uint8_t)head[9],
                                  .data = {head + TTRPC_HEAD, bytes}};
    ttrpc->complete = true;
    return 1;
}

void ttrpc_put(struct strbuf *out, const struct ttrpc_message *message)
{
    must(message->data.len <= NRI_MESSAGE_MAX);

    mux_put_u32(out, (uint32_t)message->data.len);
    mux_put_u32(out, message->stream);
    strbuf_char(out, (char)message->type);
    strbuf_char(out, (char)message->flags);
    strbuf_text(out, message->data);
}
