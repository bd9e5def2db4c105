/*
 * mux - frames that multiplex connections over one byte stream, in both directions.
 *
 *     | connection, u32 | bytes, u32 | payload |        big endian
 *
 * Nothing is negotiated: both sides use fixed connection numbers. Our reader ignores frame borders.
 * The runtime's reader has two limits, which mux_put() respects: it fails on a frame of more than
 * NRI_FRAME_MAX bytes, and expects the header of a message at the start of a frame.
 *
 * Pure.
 */
#ifndef MILLIGPU_NRI_MUX_H
#define MILLIGPU_NRI_MUX_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

enum { MUX_HEAD = 8 };

enum mux_connection {
    MUX_PLUGIN = 1,  /* the runtime calls us */
    MUX_RUNTIME = 2, /* we call the runtime */
};

/* The reader's state; all zero at the start of the stream. */
struct mux {
    uint8_t head[MUX_HEAD];
    size_t head_len; /* MUX_HEAD: inside the payload of a frame */
    uint32_t connection;
    uint32_t left; /* bytes of the payload not read yet */
};

struct mux_piece {
    uint32_t connection; /* any number */
    struct text bytes;   /* never empty; borrowed from the input */
};

/*
 * Consumes *rest up to the next piece of a payload. Returns 1 and sets *out, 0 at the end of the
 * input, negative on a malformed frame.
 */
int mux_next(struct mux *mux, struct text *rest, struct mux_piece *out, struct err *err) MUST_USE;

/* Appends a message, split into frames. */
void mux_put(struct strbuf *out, enum mux_connection connection, struct text message);

/* Big-endian numbers. */
uint32_t mux_u32(const void *at);
void mux_put_u32(struct strbuf *out, uint32_t number);

#endif
