/*
 * wire - the fields of a protobuf message, one after another.
 *
 *     struct wire wire = wire_of(message);
 *     while (wire_next(&wire, &field))
 *         if (field.number == 3)
 *             name = wire_text(&wire, &field);
 *     if (wire.broken) ...
 *
 * Nothing is stored: a field that the caller does not look at costs no memory, however many there
 * are. Texts point into the message.
 *
 * Pure.
 */
#ifndef MILLIGPU_NRI_WIRE_H
#define MILLIGPU_NRI_WIRE_H

#include "milligpu/base/text.h"

/* Groups, which proto3 does not have, are no fields. */
enum wire_type { WIRE_NUMBER = 0, WIRE_FIXED64 = 1, WIRE_TEXT = 2, WIRE_FIXED32 = 5 };

struct wire {
    struct text rest;
    bool broken; /* these bytes are no message, or a field has another type than the caller reads */
};

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;   /* WIRE_NUMBER */
    struct text text; /* WIRE_TEXT: a text, bytes, or a message */
};

struct wire wire_of(struct text message);

/* False at the end of the message, and where it is broken. */
bool wire_next(struct wire *wire, struct wire_field *out);

/* The value of a field; of another type, the message is broken, and the value empty. */
struct text wire_text(struct wire *wire, const struct wire_field *field);
uint64_t wire_number(struct wire *wire, const struct wire_field *field);

#endif
