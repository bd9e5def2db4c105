#include "support/made_protobuf.h"

#include <string.h>

#include "support/scoped.h"

struct text made_bytes(const struct strbuf *made)
{
    return (struct text){made->data, made->len};
}

static void add_varint(struct strbuf *out, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        strbuf_char(out, (char)(number | 0x80));
    strbuf_char(out, (char)number);
}

void made_text(struct strbuf *out, uint32_t number, struct text bytes)
{
    add_varint(out, (uint64_t)number << 3 | 2);
    add_varint(out, bytes.len);
    strbuf_text(out, bytes);
}

void made_number(struct strbuf *out, uint32_t number, int64_t value)
{
    add_varint(out, (uint64_t)number << 3);
    add_varint(out, (uint64_t)value);
}

void made_entry(struct strbuf *out, uint32_t number, const char *key, const char *value)
{
    SCOPED_STRBUF(entry);

    made_text(&entry, 1, text_of(key));
    made_text(&entry, 2, text_of(value));
    made_text(out, number, made_bytes(&entry));
}

/* The last two fields are always empty. */
void made_body(struct strbuf *out, const char *kind, struct text message)
{
    SCOPED_STRBUF(type);

    made_text(&type, 1, TEXT("v1"));
    made_text(&type, 2, text_of(kind));
    strbuf_add(out, "k8s", 4);
    made_text(out, 1, made_bytes(&type));
    made_text(out, 2, message);
    made_text(out, 3, TEXT(""));
    made_text(out, 4, TEXT(""));
}

void made_frame(struct strbuf *out, const char *type, struct text body)
{
    SCOPED_STRBUF(event);
    SCOPED_STRBUF(raw);

    made_text(&raw, 1, body);
    made_text(&event, 1, text_of(type));
    made_text(&event, 2, made_bytes(&raw));
    for (int shift = 24; shift >= 0; shift -= 8)
        strbuf_char(out, (char)(event.len >> shift));
    strbuf_text(out, made_bytes(&event));
}

void made_object(struct strbuf *out, const char *name, const char *version)
{
    SCOPED_STRBUF(meta);

    made_text(&meta, 1, text_of(name));
    made_text(&meta, 3, TEXT(""));
    made_text(&meta, 6, text_of(version));
    made_text(out, 1, made_bytes(&meta));
}
