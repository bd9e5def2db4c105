/* Splits and joins mux frames. Called by nri.c in the agent's main thread. */
#include "mux.h"

#include <string.h>

#include "milligpu/nri/nri.h"

#include "ttrpc.h"

uint32_t mux_u32(const void *at)
{
    const uint8_t *byte = at;
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

void mux_put_u32(struct strbuf *out, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        strbuf_char(out, (char)(number >> shift & 0xff));
}

static struct text take(struct text *rest, size_t most)
{
    const struct text taken = text_first(*rest, most);
    rest->at += taken.len;
    rest->len -= taken.len;
    return taken;
}

/* Parses the header of a frame. A frame of the runtime has at most one whole message. */
static int read_head(struct mux *mux, struct err *err)
{
    enum { FRAME_MAX = TTRPC_HEAD + NRI_MESSAGE_MAX };

    mux->connection = mux_u32(mux->head);
    mux->left = mux_u32(mux->head + 4);
    if (mux->left > FRAME_MAX)
        return err_set(err, ERR_INVALID, "a frame of %u bytes: this is no NRI", mux->left);
    return 0;
}

int mux_next(struct mux *mux, struct text *rest, struct mux_piece *out, struct err *err)
{
    while (rest->len > 0) {
        if (mux->head_len == MUX_HEAD && mux->left == 0)
            mux->head_len = 0;
        if (mux->head_len == MUX_HEAD) {
            *out = (struct mux_piece){mux->connection, take(rest, mux->left)};
            must(out->bytes.len > 0);
            mux->left -= (uint32_t)out->bytes.len;
            return 1;
        }
        const struct text head = take(rest, MUX_HEAD - mux->head_len);
        memcpy(mux->head + mux->head_len, head.at, head.len);
        mux->head_len += head.len;
        if (mux->head_len == MUX_HEAD && read_head(mux, err) < 0)
            return err_same(err);
    }
    return 0;
}

void mux_put(struct strbuf *out, enum mux_connection connection, struct text message)
{
    must(message.len > 0);

    while (message.len > 0) {
        const struct text payload = take(&message, NRI_FRAME_MAX);
        mux_put_u32(out, connection);
        mux_put_u32(out, (uint32_t)payload.len);
        strbuf_text(out, payload);
    }
}
