/*
 * strbuf - a growable string buffer.
 *
 * Always NUL-terminated; data is never NULL, even when empty. strbuf_reset() keeps the memory for
 * reuse.
 */
#ifndef MILLIGPU_STRBUF_H
#define MILLIGPU_STRBUF_H

#include "milligpu/base/text.h"

struct strbuf {
    char *data;
    size_t len;
    size_t capacity;
};

void strbuf_init(struct strbuf *buf);
void strbuf_done(struct strbuf *buf);
void strbuf_reset(struct strbuf *buf);
char *strbuf_steal(struct strbuf *buf) MUST_USE; /* the caller's to xfree(); empties buf */

void strbuf_reserve(struct strbuf *buf, size_t capacity); /* minimum, with terminator */
void strbuf_add(struct strbuf *buf, const void *bytes, size_t len);
char *strbuf_room(struct strbuf *buf, size_t len); /* appends bytes, to be set by the caller */
void strbuf_char(struct strbuf *buf, char c);
void strbuf_str(struct strbuf *buf, const char *text);
void strbuf_text(struct strbuf *buf, struct text text);
void strbuf_u64(struct strbuf *buf, uint64_t number);
void strbuf_printf(struct strbuf *buf, const char *fmt, ...) PRINTF_LIKE(2, 3);
void strbuf_cut(struct strbuf *buf, size_t from, size_t bytes); /* removes a range */

/*
 * Appends a quoted JSON string: invalid UTF-8 becomes U+FFFD, and odd characters (text.h) are
 * escaped.
 */
void strbuf_json(struct strbuf *buf, struct text text);

/* Appends untrusted text for display: odd characters are shown as by text_show(). */
void strbuf_shown(struct strbuf *buf, struct text text);

#endif
