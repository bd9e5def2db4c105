/*
 * mux - frames that share one byte stream among connections, in both directions.
 *
 *     | connection, u32 | bytes, u32 | payload |        big endian
 *
 * Nothing is negotiated: a connection is a number that both sides know. A frame border means
 * nothing to a reader. To the runtime's reader it means two things, which mux_put() observes: it
 * receives a frame into a buffer of NRI_FRAME_MAX bytes and gives up on a longer one, and it looks
 * for the head of a message at the start of a frame.
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

/* Where the reader is in the stream; all zero at its start. */
struct mux {
    uint8_t head[MUX_HEAD];
    size_t head_len; /* MUX_HEAD: inside the payload of a frame */
    uint32_t connection;
    uint32_t left;
};

struct mux_piece {
    uint32_t connection; /* any number */
    struct text bytes;   /* never empty; borrowed from what was read */
};

/* The next piece of a payload in *rest: 1, or 0 if rest is used up. Negative: no frame. */
int mux_next(struct mux *mux, struct text *rest, struct mux_piece *out, struct err *err) MUST_USE;

/* A message in as many frames as it needs. */
void mux_put(struct strbuf *out, enum mux_connection connection, struct text message);

uint32_t mux_u32(const void *at);
void mux_put_u32(struct strbuf *out, uint32_t number);

#endif
