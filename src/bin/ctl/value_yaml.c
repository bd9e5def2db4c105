/*
 * YAML to value and back, for milligpuctl.  Called by the manifest reader and by the output format
 * yaml.  Depth is bounded as for JSON.
 */
#include <string.h>
#include <strings.h>

#include <yaml.h>

#include "value.h"

/* --- plain scalars --- */

static bool is_word(struct text text, const char *words)
{
    struct text rest = text_of(words);
    struct text word;

    must(rest.len > 0);
    while (text_cut(&rest, ' ', &word))
        if (text_eq(word, text))
            return true;
    return false;
}

static size_t digits(struct text text, size_t from)
{
    size_t at = from;

    must(from <= text.len);
    while (at < text.len && text.at[at] >= '0' && text.at[at] <= '9')
        at++;
    return at - from;
}

/* JSON's grammar of numbers: what both notations agree on. */
static bool is_number(struct text text)
{
    size_t at = text.len > 0 && text.at[0] == '-' ? 1 : 0;
    const size_t whole = digits(text, at);

    must(at <= text.len);
    if (whole == 0 || (whole > 1 && text.at[at] == '0'))
        return false;
    at += whole;
    if (at < text.len && text.at[at] == '.') {
        const size_t part = digits(text, at + 1);
        if (part == 0)
            return false;
        at += 1 + part;
    }
    if (at < text.len && (text.at[at] == 'e' || text.at[at] == 'E')) {
        at++;
        if (at < text.len && (text.at[at] == '+' || text.at[at] == '-'))
            at++;
        const size_t power = digits(text, at);
        if (power == 0)
            return false;
        at += power;
    }
    return at == text.len;
}

enum value_kind value_plain_kind(struct text text)
{
    must(text.at != NULL || text.len == 0);
    if (text.len == 0 || is_word(text, "~ null Null NULL"))
        return VALUE_NULL;
    if (is_word(text, "true True TRUE false False FALSE"))
        return VALUE_BOOL;
    return is_number(text) ? VALUE_NUMBER : VALUE_STRING;
}

/* --- reading --- */

struct reader {
    yaml_parser_t parser;
    struct arena *arena;
    struct err *err;
};

static int wrong(struct reader *reader, const yaml_mark_t *mark, const char *what)
{
    must(what != NULL);
    return err_set(reader->err, ERR_INVALID, "line %zu: %s", mark->line + 1, what);
}

static int next_event(struct reader *reader, yaml_event_t *event)
{
    const yaml_parser_t *parser = &reader->parser;

    if (yaml_parser_parse(&reader->parser, event))
        return 0;
    must(parser->error != YAML_NO_ERROR);
    return err_set(reader->err, ERR_INVALID, "line %zu: %s", parser->problem_mark.line + 1,
                   parser->problem != NULL ? parser->problem : "this is not YAML");
}

static struct value *make_scalar(struct reader *reader, const yaml_event_t *event)
{
    const struct text text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    const bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const enum value_kind kind = plain ? value_plain_kind(text) : VALUE_STRING;

    must(event->type == YAML_SCALAR_EVENT);
    if (kind == VALUE_STRING)
        return value_new_string(reader->arena, text);
    struct value *value = value_new(reader->arena, kind);
    value->text = (struct text){arena_copy(reader->arena, text), text.len};
    if (value->kind == VALUE_BOOL)
        value->text = text.at[0] == 't' || text.at[0] == 'T' ? TEXT("true") : TEXT("false");
    return value;
}

static int read_node(struct reader *reader, yaml_event_t *event, int depth, struct value **out);

static int read_key(struct reader *reader, const yaml_event_t *event, const struct value *object,
                    struct text *out)
{
    must(object->kind == VALUE_OBJECT);
    if (event->type != YAML_SCALAR_EVENT)
        return wrong(reader, &event->start_mark, "a key is a plain word here");

    const struct text key = {(const char *)event->data.scalar.value, event->data.scalar.length};
    value_each(child, object) if (text_eq(child->key, key)) return wrong(reader, &event->start_mark,
                                                                         "this key is there twice");
    *out = (struct text){arena_copy(reader->arena, key), key.len};
    return 0;
}

/* One member of the collection; *event is its first.  Keys come before their values. */
static int read_member(struct reader *reader, yaml_event_t *event, int depth, struct value *into)
{
    struct text key = TEXT("");
    struct value *child;
    int status = 0;

    must(into->kind == VALUE_ARRAY || into->kind == VALUE_OBJECT);
    if (into->kind == VALUE_OBJECT) {
        status = read_key(reader, event, into, &key);
        yaml_event_delete(event);
        if (status == 0)
            status = next_event(reader, event);
        if (status < 0) {
            event->type = YAML_NO_EVENT;
            return status;
        }
    }
    status = read_node(reader, event, depth + 1, &child);
    if (status < 0)
        return status;
    if (into->kind == VALUE_ARRAY)
        value_append(into, child);
    else
        value_set(reader->arena, into, key.at, child);
    return 0;
}

static int read_collection(struct reader *reader, int depth, struct value *into)
{
    const yaml_event_type_t end =
        into->kind == VALUE_ARRAY ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT;

    must(depth >= 0);
    for (;;) {
        yaml_event_t event = {0};
        int status = next_event(reader, &event);
        if (status < 0)
            return status;
        if (event.type == end) {
            yaml_event_delete(&event);
            return 0;
        }
        status = depth >= JSON_DEPTH_MAX ? wrong(reader, &event.start_mark, "nested too deep")
                                         : read_member(reader, &event, depth, into);
        yaml_event_delete(&event);
        if (status < 0)
            return status;
    }
}

/* *event begins the node; it is the caller's to delete. */
static int read_node(struct reader *reader, yaml_event_t *event, int depth, struct value **out)
{
    must(depth <= JSON_DEPTH_MAX);
    if (event->type == YAML_SCALAR_EVENT) {
        *out = make_scalar(reader, event);
        return 0;
    }
    if (event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT) {
        const bool array = event->type == YAML_SEQUENCE_START_EVENT;
        *out = value_new(reader->arena, array ? VALUE_ARRAY : VALUE_OBJECT);
        return read_collection(reader, depth, *out);
    }
    return wrong(reader, &event->start_mark,
                 "aliases (*name) are not understood: write the value itself");
}

/* 1: go on.  0: the end of the stream. */
static int read_step(struct reader *reader, struct value *documents)
{
    yaml_event_t event = {0};
    struct value *document = NULL;
    int status = next_event(reader, &event);

    must(documents->kind == VALUE_ARRAY);
    if (status < 0)
        return status;
    const yaml_event_type_t type = event.type;
    if (type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT &&
        type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT) {
        status = read_node(reader, &event, 0, &document);
        if (status == 0)
            value_append(documents, document);
    }
    yaml_event_delete(&event);
    return status < 0 ? status : type != YAML_STREAM_END_EVENT;
}

int value_parse_yaml(struct text bytes, struct arena *arena, struct value **out, struct err *err)
{
    struct reader reader = {.arena = arena, .err = err};
    struct value *documents = value_new(arena, VALUE_ARRAY);
    int status;

    must(yaml_parser_initialize(&reader.parser) != 0); /* fails without memory only */
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)bytes.at, bytes.len);
    do {
        status = read_step(&reader, documents);
    } while (status > 0);
    yaml_parser_delete(&reader.parser);
    if (status == 0)
        *out = documents;
    return status;
}

/* --- writing --- */

static int append_bytes(void *user, unsigned char *bytes, size_t count)
{
    must(user != NULL);
    strbuf_add(user, bytes, count);
    return 1;
}

/* An emitter fails on what is no UTF-8 and without memory; values here were checked when read. */
static void emit(yaml_emitter_t *emitter, yaml_event_t *event, int made)
{
    must(made != 0);
    must(yaml_emitter_emit(emitter, event) != 0);
}

static void emit_scalar(yaml_emitter_t *emitter, struct text text, bool string)
{
    yaml_event_t event;
    yaml_char_t *bytes;

    /* To older readers yes and no are bools, 0x1f and 12:30 numbers, 2026-01-02 is a time. */
    const bool quote = string && (value_plain_kind(text) != VALUE_STRING ||
                                  strchr("0123456789.+-", text.at[0]) != NULL ||
                                  is_word(text, "yes no on off Yes No On Off y n Y N"));
    must(text.len <= INT32_MAX);
    memcpy(&bytes, &text.at, sizeof bytes); /* libyaml copies, but wants it without const */
    emit(emitter, &event,
         yaml_scalar_event_initialize(&event, NULL, NULL, bytes, (int)text.len, 1, 1,
                                      quote ? YAML_DOUBLE_QUOTED_SCALAR_STYLE
                                            : YAML_ANY_SCALAR_STYLE));
}

static void emit_value(yaml_emitter_t *emitter, const struct value *value, int depth)
{
    yaml_event_t event;

    must(depth <= JSON_DEPTH_MAX + 1);
    if (value->kind == VALUE_ARRAY) {
        emit(emitter, &event,
             yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_ANY_SEQUENCE_STYLE));
        value_each(child, value) emit_value(emitter, child, depth + 1);
        emit(emitter, &event, yaml_sequence_end_event_initialize(&event));
    } else if (value->kind == VALUE_OBJECT) {
        emit(emitter, &event,
             yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_ANY_MAPPING_STYLE));
        value_each(child, value)
        {
            emit_scalar(emitter, child->key, true);
            emit_value(emitter, child, depth + 1);
        }
        emit(emitter, &event, yaml_mapping_end_event_initialize(&event));
    } else if (value->kind == VALUE_NULL) {
        emit_scalar(emitter, TEXT("null"), false);
    } else {
        emit_scalar(emitter, value->text, value->kind == VALUE_STRING);
    }
}

static void write_document(struct strbuf *out, const struct value *value, bool unicode)
{
    yaml_emitter_t emitter;
    yaml_event_t event;

    must(value != NULL);
    must(yaml_emitter_initialize(&emitter) != 0); /* fails without memory only */
    yaml_emitter_set_output(&emitter, append_bytes, out);
    yaml_emitter_set_unicode(&emitter, unicode);
    yaml_emitter_set_width(&emitter, -1);
    emit(&emitter, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
    emit(&emitter, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
    emit_value(&emitter, value, 0);
    emit(&emitter, &event, yaml_document_end_event_initialize(&event, 1));
    emit(&emitter, &event, yaml_stream_end_event_initialize(&event));
    yaml_emitter_delete(&emitter);
}

/* Is anything in it that a terminal would obey, but for the ends of lines? */
static bool is_odd(struct text text)
{
    for (size_t at = 0; at < text.len;) {
        const size_t bytes = text_sequence(text, at);
        must(bytes > 0);
        if (text.at[at] != '\n' && text_odd(text, at, bytes) >= 0)
            return true;
        at += bytes;
    }
    return false;
}

/* libyaml takes what turns text around for printable: then all that is not ASCII is escaped. */
void value_write_yaml(struct strbuf *out, const struct value *value)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    write_document(&text, value, true);
    if (is_odd((struct text){text.data, text.len})) {
        strbuf_reset(&text);
        write_document(&text, value, false);
    }
    strbuf_text(out, (struct text){text.data, text.len});
}
