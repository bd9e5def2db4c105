/*
 * The JSON writer: adds commas and quotes. Called by all encoders; never fails, because a strbuf
 * grows or ends the process. Callers must close their objects: levels are not counted.
 */
#include "milligpu/wire/json/json.h"

#include "scan.h"

void json_writer_init(struct json_writer *json, struct strbuf *out)
{
    must(out != NULL);
    *json = (struct json_writer){.out = out};
}

/* Called before each value: writes the comma after the previous one. */
static void json_writer_value(struct json_writer *json)
{
    must(json->out != NULL);
    if (json->comma)
        strbuf_char(json->out, ',');
    json->comma = true;
}

/* DEL is plain for JSON, but odd for a terminal. */
static bool is_plain(struct text text)
{
    return text.len > 0 && scan_plain(text.at, text.at + text.len) == text.at + text.len &&
           memchr(text.at, 0x7f, text.len) == NULL;
}

/*
 * Writes a string, with a comma before it where one is due, and the colon of a key. Nearly all are
 * plain: one append.
 */
static void json_writer_quoted(struct json_writer *json, struct text text, bool is_key)
{
    must(text.at != NULL || text.len == 0);

    if (!is_plain(text)) {
        json_writer_value(json);
        strbuf_json(json->out, text);
        if (is_key)
            strbuf_char(json->out, ':');
        return;
    }
    char *at = strbuf_room(json->out, text.len + 2 + json->comma + is_key);
    *at = ',';
    at += json->comma;
    *at = '"';
    memcpy(at + 1, text.at, text.len);
    at[text.len + 1] = '"';
    if (is_key)
        at[text.len + 2] = ':';
}

/* A first element has no comma before it. */
static void open_level(struct json_writer *json, char bracket)
{
    must(bracket == '{' || bracket == '[');

    json_writer_value(json);
    strbuf_char(json->out, bracket);
    json->comma = false;
}

/* The closed object or array is a value of the outer level, so the next value needs a comma. */
static void close_level(struct json_writer *json, char bracket)
{
    must(bracket == '}' || bracket == ']');
    must(json->out->len > 0);
    strbuf_char(json->out, bracket);
    json->comma = true;
}

void json_write_object(struct json_writer *json)
{
    open_level(json, '{');
}

void json_write_object_end(struct json_writer *json)
{
    close_level(json, '}');
}

void json_write_array(struct json_writer *json)
{
    open_level(json, '[');
}

void json_write_array_end(struct json_writer *json)
{
    close_level(json, ']');
}

/* The value after the colon must not write a comma. */
void json_write_key_text(struct json_writer *json, struct text key)
{
    must(key.at != NULL || key.len == 0);

    json_writer_quoted(json, key, true);
    json->comma = false; /* the value behind it has none */
}

void json_write_key(struct json_writer *json, const char *key)
{
    must(key != NULL);
    json_write_key_text(json, text_of(key));
}

void json_write_text(struct json_writer *json, struct text text)
{
    json_writer_quoted(json, text, false);
    json->comma = true;
}

void json_write_str(struct json_writer *json, const char *text)
{
    must(text != NULL);
    json_write_text(json, text_of(text));
}

void json_write_member(struct json_writer *json, const char *key, const char *text)
{
    must(text != NULL);
    json_write_key(json, key);
    json_write_str(json, text);
}

void json_write_u64(struct json_writer *json, uint64_t number)
{
    json_writer_value(json);
    strbuf_u64(json->out, number);
}

/* Negated as unsigned, because -INT64_MIN overflows. */
void json_write_i64(struct json_writer *json, int64_t number)
{
    json_writer_value(json);
    if (number < 0)
        strbuf_char(json->out, '-');
    strbuf_u64(json->out, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

void json_write_bool(struct json_writer *json, bool flag)
{
    json_writer_value(json);
    strbuf_str(json->out, flag ? "true" : "false");
}

void json_write_null(struct json_writer *json)
{
    json_writer_value(json);
    strbuf_str(json->out, "null");
}

/* The bytes are trusted: checked by a json_reader, or literals of this program. */
void json_write_raw(struct json_writer *json, struct text literal)
{
    must(literal.at != NULL);
    must(literal.len > 0);
    json_writer_value(json);
    strbuf_text(json->out, literal);
}
