/*
 * Parses protobuf's wire format. Called for each message of the container runtime, in the agent's
 * main thread, and for objects of the API server, on the informer thread.
 */
#include "milligpu/base/protobuf.h"

enum { VARINT_BYTES_MAX = 10 };

struct protobuf protobuf_of(struct text message)
{
    must(message.at != NULL || message.len == 0);
    return (struct protobuf){.rest = message};
}

/* Return the first byte behind what was read; NULL: malformed. */

static const char *long_varint(const char *at, const char *end, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX && at < end; i++) {
        const uint8_t byte = (uint8_t)*at++;
        *out |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            return at;
    }
    return NULL;
}

/* Most have one byte. */
static inline const char *varint(const char *at, const char *end, uint64_t *out)
{
    if (at < end && (uint8_t)*at < 0x80) {
        *out = (uint8_t)*at;
        return at + 1;
    }
    return long_varint(at, end, out);
}

static const char *bytes_of(const char *at, const char *end, uint64_t bytes, struct text *out)
{
    if (bytes > (size_t)(end - at))
        return NULL;
    *out = (struct text){at, (size_t)bytes};
    return at + bytes;
}

static const char *value(const char *at, const char *end, struct protobuf_field *out)
{
    uint64_t bytes;

    out->value = 0;
    out->text = TEXT("");
    switch (out->type) {
    case PROTOBUF_NUMBER:
        return varint(at, end, &out->value);
    case PROTOBUF_FIXED64:
        return bytes_of(at, end, 8, &out->text);
    case PROTOBUF_TEXT:
        at = varint(at, end, &bytes);
        return at != NULL ? bytes_of(at, end, bytes, &out->text) : NULL;
    case PROTOBUF_FIXED32:
        return bytes_of(at, end, 4, &out->text);
    default:
        return NULL;
    }
}

bool protobuf_next(struct protobuf *in, struct protobuf_field *out)
{
    uint64_t tag;

    if (in->broken || in->rest.len == 0)
        return false;
    const char *end = in->rest.at + in->rest.len;
    const char *at = varint(in->rest.at, end, &tag);
    in->broken = at == NULL || tag > UINT32_MAX || tag >> 3 == 0;
    if (in->broken)
        return false;
    out->number = (uint32_t)(tag >> 3);
    out->type = (enum protobuf_type)(tag & 7);
    at = value(at, end, out);
    in->broken = at == NULL;
    if (in->broken)
        return false;
    in->rest = (struct text){at, (size_t)(end - at)};
    return true;
}

struct text protobuf_text(struct protobuf *in, const struct protobuf_field *field)
{
    if (field->type == PROTOBUF_TEXT)
        return field->text;
    in->broken = true;
    return TEXT("");
}

uint64_t protobuf_number(struct protobuf *in, const struct protobuf_field *field)
{
    if (field->type == PROTOBUF_NUMBER)
        return field->value;
    in->broken = true;
    return 0;
}
