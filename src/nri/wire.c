/*
 * Parses protobuf's wire format. Called by codec.c for each message of the runtime, in the agent's
 * main thread.
 */
#include "wire.h"

enum { VARINT_BYTES_MAX = 10 };

struct wire wire_of(struct text message)
{
    must(message.at != NULL || message.len == 0);
    return (struct wire){.rest = message};
}

static bool take_varint(struct text *rest, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX && i < rest->len; i++) {
        const uint8_t byte = (uint8_t)rest->at[i];
        *out |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            rest->at += i + 1;
            rest->len -= i + 1;
            return true;
        }
    }
    return false;
}

static bool take_bytes(struct text *rest, uint64_t bytes, struct text *out)
{
    if (bytes > rest->len)
        return false;
    *out = text_first(*rest, (size_t)bytes);
    rest->at += bytes;
    rest->len -= (size_t)bytes;
    return true;
}

static bool take_value(struct text *rest, unsigned type, struct wire_field *out)
{
    uint64_t bytes = 0;

    switch (type) {
    case WIRE_NUMBER:
        return take_varint(rest, &out->value);
    case WIRE_FIXED64:
        return take_bytes(rest, 8, &out->text);
    case WIRE_TEXT:
        return take_varint(rest, &bytes) && take_bytes(rest, bytes, &out->text);
    case WIRE_FIXED32:
        return take_bytes(rest, 4, &out->text);
    default:
        return false;
    }
}

bool wire_next(struct wire *wire, struct wire_field *out)
{
    uint64_t tag = 0;

    if (wire->broken || wire->rest.len == 0)
        return false;
    *out = (struct wire_field){.text = TEXT("")};
    wire->broken = !take_varint(&wire->rest, &tag) || tag > UINT32_MAX || tag >> 3 == 0 ||
                   !take_value(&wire->rest, tag & 7, out);
    if (wire->broken)
        return false;
    out->number = (uint32_t)(tag >> 3);
    out->type = (enum wire_type)(tag & 7);
    return true;
}

struct text wire_text(struct wire *wire, const struct wire_field *field)
{
    if (field->type == WIRE_TEXT)
        return field->text;
    wire->broken = true;
    return TEXT("");
}

uint64_t wire_number(struct wire *wire, const struct wire_field *field)
{
    if (field->type == WIRE_NUMBER)
        return field->value;
    wire->broken = true;
    return 0;
}
