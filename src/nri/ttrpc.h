/*
 * ttrpc - splits the bytes of one connection into messages.
 *
 *     | bytes of data, u32 | stream, u32 | type, u8 | flags, u8 | data |        big endian
 *
 * A call is one request and one response with the same stream number; the caller counts 1, 3, 5.
 * Data is a protobuf message (codec.h).
 *
 * Invariant: a reader holds at most one message, and its memory is proportional to the bytes
 * received, not to the announced length.
 *
 * Pure.
 */
#ifndef MILLIGPU_NRI_TTRPC_H
#define MILLIGPU_NRI_TTRPC_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

enum { TTRPC_HEAD = 10 };

enum ttrpc_type { TTRPC_REQUEST = 1, TTRPC_RESPONSE = 2 };

/* Flag of a request whose stream has more messages; none of our methods has such a stream. */
enum { TTRPC_REMOTE_OPEN = 2 };

/* The gRPC codes of our answers. */
enum ttrpc_code {
    TTRPC_OK = 0,
    TTRPC_UNKNOWN = 2, /* refused by the handler */
    TTRPC_INVALID_ARGUMENT = 3,
    TTRPC_RESOURCE_EXHAUSTED = 8,
    TTRPC_FAILED_PRECONDITION = 9,
    TTRPC_UNIMPLEMENTED = 12,
};

struct ttrpc_message {
    uint32_t stream;
    uint8_t type; /* enum ttrpc_type; not validated when received */
    uint8_t flags;
    struct text data;
};

struct ttrpc {
    struct strbuf buf; /* header and data received of the current message */
    bool complete;     /* the message was returned by ttrpc_next() */
};

void ttrpc_init(struct ttrpc *ttrpc);
void ttrpc_done(struct ttrpc *ttrpc);

/*
 * Consumes *rest up to the end of the next message. Returns 1 and sets *out (valid until the next
 * call), 0 at the end of the input, negative if it is longer than NRI_MESSAGE_MAX.
 */
int ttrpc_next(struct ttrpc *ttrpc, struct text *rest, struct ttrpc_message *out,
               struct err *err) MUST_USE;

/* Appends a message. */
void ttrpc_put(struct strbuf *out, const struct ttrpc_message *message);

#endif
