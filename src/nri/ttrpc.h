/*
 * ttrpc - the messages of one connection, cut out of its bytes.
 *
 *     | bytes of data, u32 | stream, u32 | type, u8 | flags, u8 | data |        big endian
 *
 * A call is one request and one response with the same stream number; the caller counts 1, 3, 5.
 * Data is a message of protobuf (codec.h).
 *
 * Invariant: a reader holds at most one message, and memory in proportion to the bytes that came,
 * whatever length was announced.
 *
 * Pure.
 */
#ifndef MILLIGPU_NRI_TTRPC_H
#define MILLIGPU_NRI_TTRPC_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

enum { TTRPC_HEAD = 10 };

enum ttrpc_type { TTRPC_REQUEST = 1, TTRPC_RESPONSE = 2 };

/* Of a request: more messages of its stream follow. No method of ours has such a stream. */
enum { TTRPC_REMOTE_OPEN = 2 };

/* The codes of gRPC, as far as we answer them. */
enum ttrpc_code {
    TTRPC_OK = 0,
    TTRPC_UNKNOWN = 2, /* the handler said no */
    TTRPC_INVALID_ARGUMENT = 3,
    TTRPC_RESOURCE_EXHAUSTED = 8,
    TTRPC_FAILED_PRECONDITION = 9,
    TTRPC_UNIMPLEMENTED = 12,
};

struct ttrpc_message {
    uint32_t stream;
    uint8_t type; /* any, from others */
    uint8_t flags;
    struct text data;
};

struct ttrpc {
    struct strbuf buf; /* head and data of the message that is coming */
    bool complete;     /* and was handed out */
};

void ttrpc_init(struct ttrpc *ttrpc);
void ttrpc_done(struct ttrpc *ttrpc);

/*
 * The next message that ends in *rest: 1, and it is borrowed until the next call. 0: rest is used
 * up. Negative: longer than NRI_MESSAGE_MAX.
 */
int ttrpc_next(struct ttrpc *ttrpc, struct text *rest, struct ttrpc_message *out,
               struct err *err) MUST_USE;

void ttrpc_put(struct strbuf *out, const struct ttrpc_message *message);

#endif
