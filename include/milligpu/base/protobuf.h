/*
 * protobuf - iterates over the fields of a message in protobuf's wire format.
 *
 *     struct protobuf in = protobuf_of(message);
 *     while (protobuf_next(&in, &field))
 *         if (field.number == 3)
 *             name = protobuf_text(&in, &field);
 *     if (in.broken) ...
 *
 * Nothing is stored: skipped fields cost no memory, in any number. Texts point into the message.
 *
 * Pure.
 */
#ifndef MILLIGPU_PROTOBUF_H
#define MILLIGPU_PROTOBUF_H

#include "milligpu/base/text.h"

/* Groups, which proto3 does not have, are malformed. */
enum protobuf_type {
    PROTOBUF_NUMBER = 0,
    PROTOBUF_FIXED64 = 1,
    PROTOBUF_TEXT = 2,
    PROTOBUF_FIXED32 = 5
};

struct protobuf {
    struct text rest;
    bool broken; /* malformed, or a field's type differs from the one that the caller reads */
};

struct protobuf_field {
    uint32_t number;
    enum protobuf_type type;
    uint64_t value;   /* with PROTOBUF_NUMBER */
    struct text text; /* with PROTOBUF_TEXT: a text, bytes, or a message */
};

struct protobuf protobuf_of(struct text message);

/* Reads the next field. False at the end of the message, or if it is malformed. */
bool protobuf_next(struct protobuf *in, struct protobuf_field *out);

/* The value of a field; empty or 0, and in->broken is set, if it has another type. */
struct text protobuf_text(struct protobuf *in, const struct protobuf_field *field);
uint64_t protobuf_number(struct protobuf *in, const struct protobuf_field *field);

#endif
