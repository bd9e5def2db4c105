/*
 * wire - iterates over the fields of a protobuf message.
 *
 *     struct wire wire = wire_of(message);
 *     while (wire_next(&wire, &field))
 *         if (field.number == 3)
 *             name = wire_text(&wire, &field);
 *     if (wire.broken) ...
 *
 * Nothing is stored: skipped fields cost no memory, in any number. Texts point into the message.
 *
 * Pure.
 */
#ifndef MILLIGPU_NRI_WIRE_H
#define MILLIGPU_NRI_WIRE_H

#include "milligpu/base/text.h"

/* Groups, which proto3 does not have, are malformed. */
enum wire_type { WIRE_NUMBER = 0, WIRE_FIXED64 = 1, WIRE_TEXT = 2, WIRE_FIXED32 = 5 };

struct wire {
    struct text rest;
    bool broken; /* malformed, or a field's type differs from the one that the caller reads */
};

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;   /* with WIRE_NUMBER */
    struct text text; /* with WIRE_TEXT: a text, bytes, or a message */
};

struct wire wire_of(struct text message);

/* Reads the next field. False at the end of the message, or if it is malformed. */
bool wire_next(struct wire *wire, struct wire_field *out);

/* The value of a field; empty or 0, and wire->broken is set, if it has another type. */
struct text wire_text(struct wire *wire, const struct wire_field *field);
uint64_t wire_number(struct wire *wire, const struct wire_field *field);

#endif
