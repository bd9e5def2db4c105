/*
 * made_protobuf - messages as the API server writes them, by hand (kube_protobuf.h).
 */
#ifndef MILLIGPU_TESTS_MADE_PROTOBUF_H
#define MILLIGPU_TESTS_MADE_PROTOBUF_H

#include "milligpu/base/strbuf.h"

/* The bytes made so far, borrowed. */
struct text made_bytes(const struct strbuf *made);

/* Append one field of a message. */
void made_text(struct strbuf *out, uint32_t number, struct text bytes);
void made_number(struct strbuf *out, uint32_t number, int64_t value);
void made_entry(struct strbuf *out, uint32_t number, const char *key, const char *value);

/* Appends a body: an envelope of this kind around the message. */
void made_body(struct strbuf *out, const char *kind, struct text message);
/* Appends the frame of a watch event. */
void made_frame(struct strbuf *out, const char *type, struct text body);

/* Appends the message of a Pod, a Node or a list with this metadata. */
void made_object(struct strbuf *out, const char *name, const char *version);

#endif
