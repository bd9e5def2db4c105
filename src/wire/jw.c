#include "milligpu/jr.h"

#include "wire/scan.h"

void jw_init(struct jw *jw, struct strbuf *out)
{
    must(out != NULL);
    *jw = (struct jw){.out = out};
}

/* Before each value: the comma that the one before it left to us. */
static void value(struct jw *jw)
{
    must(jw->out != NULL);
    if (jw->comma)
        strbuf_char(jw->out, ',');
    jw->comma = true;
}

/* Names are short and plain: one step instead of three. */
static void quoted(struct strbuf *out, struct text text)
{
    char whole[NAME_BYTES_MAX + 2];
    must(text.at != NULL || text.len == 0);

    const char *end = text.at + text.len;
    if (text.len == 0 || text.len > NAME_BYTES_MAX || scan_plain(text.at, end) != end) {
        strbuf_json(out, text);
        return;
    }
    whole[0] = '"';
    memcpy(whole + 1, text.at, text.len);
    whole[text.len + 1] = '"';
    strbuf_add(out, whole, text.len + 2);
}

static void open_level(struct jw *jw, char bracket)
{
    must(bracket == '{' || bracket == '[');

    value(jw);
    strbuf_char(jw->out, bracket);
    jw->comma = false;
}

static void close_level(struct jw *jw, char bracket)
{
    must(bracket == '}' || bracket == ']');
    must(jw->out->len > 0);
    strbuf_char(jw->out, bracket);
    jw->comma = true;
}

void jw_object(struct jw *jw)
{
    open_level(jw, '{');
}

void jw_object_end(struct jw *jw)
{
    close_level(jw, '}');
}

void jw_array(struct jw *jw)
{
    open_level(jw, '[');
}

void jw_array_end(struct jw *jw)
{
    close_level(jw, ']');
}

void jw_key_text(struct jw *jw, struct text key)
{
    must(key.at != NULL || key.len == 0);

    value(jw);
    quoted(jw->out, key);
    strbuf_char(jw->out, ':');
    jw->comma = false;
}

void jw_key(struct jw *jw, const char *key)
{
    must(key != NULL);
    jw_key_text(jw, text_of(key));
}

void jw_text(struct jw *jw, struct text text)
{
    must(jw != NULL);

    value(jw);
    quoted(jw->out, text);
}

void jw_str(struct jw *jw, const char *text)
{
    must(text != NULL);
    jw_text(jw, text_of(text));
}

void jw_u64(struct jw *jw, uint64_t number)
{
    must(jw != NULL);

    value(jw);
    strbuf_u64(jw->out, number);
}

void jw_i64(struct jw *jw, int64_t number)
{
    must(jw != NULL);

    value(jw);
    if (number < 0)
        strbuf_char(jw->out, '-');
    strbuf_u64(jw->out, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

void jw_bool(struct jw *jw, bool flag)
{
    must(jw != NULL);

    value(jw);
    strbuf_str(jw->out, flag ? "true" : "false");
}

void jw_null(struct jw *jw)
{
    must(jw != NULL);

    value(jw);
    strbuf_str(jw->out, "null");
}

void jw_raw(struct jw *jw, struct text json)
{
    must(json.at != NULL);
    must(json.len > 0);
    value(jw);
    strbuf_text(jw->out, json);
}
