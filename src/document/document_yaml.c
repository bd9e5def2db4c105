/*
 * Reads and writes YAML by libyaml's events. Called by the readers of kubeconfigs, manifests and
 * cluster files, and by milligpuctl for its output. Depth is limited, and aliases are refused;
 * plain words are resolved as by kubectl (document_yaml_resolve). A function that gets an event
 * from libyaml deletes it on every path; functions that receive one by pointer do not. In order:
 * reading, writing.
 */
#include <string.h>

#include <yaml.h>

#include "milligpu/base/limits.h"
#include "milligpu/base/map.h"
#include "milligpu/document/document.h"

#include "document_internal.h"

/*
 * State of loading by events. libyaml's document API resolves aliases, and ten lines of these can
 * expand to more memory than there is.
 */
struct yaml_loading {
    yaml_parser_t parser;
    struct arena *arena;
    struct text bytes;
    struct document_fault fault;
    struct err *err;
    uint32_t depth; /* number of open values: the recursion depth of load_value() */
};

/* libyaml counts from 0. */
static uint32_t document_yaml_count(size_t from_0)
{
    return from_0 < UINT32_MAX ? (uint32_t)from_0 + 1 : UINT32_MAX;
}

static struct document_mark document_yaml_mark(yaml_mark_t mark)
{
    return (struct document_mark){document_yaml_count(mark.line), document_yaml_count(mark.column)};
}

/* Sets the error; its text has no place. */
#define document_yaml_fail(in, why, mark, ...)                                                     \
    ((in)->fault.kind = (why), (in)->fault.at = document_yaml_mark(mark),                          \
     err_set((in)->err, ERR_INVALID, __VA_ARGS__))

/* An error in the encoding has an offset but no mark. problem and context may be NULL. */
static int document_yaml_syntax(struct yaml_loading *in)
{
    must(in->depth <= JSON_DEPTH_MAX);
    const yaml_parser_t *parser = &in->parser;
    const char *problem = parser->problem != NULL ? parser->problem : "not YAML";

    if (parser->error == YAML_READER_ERROR) {
        in->fault.kind = DOCUMENT_FAULT_SYNTAX;
        in->fault.at = document_mark_of(in->bytes, parser->problem_offset);
        return err_set(in->err, ERR_INVALID, "%s", problem);
    }
    return document_yaml_fail(in, DOCUMENT_FAULT_SYNTAX, parser->problem_mark, "%s%s%s", problem,
                              parser->context != NULL ? ", " : "",
                              parser->context != NULL ? parser->context : "");
}

/* On failure *out is no event, and must not be deleted. */
static int next_event(struct yaml_loading *in, yaml_event_t *out)
{
    if (!yaml_parser_parse(&in->parser, out))
        return document_yaml_syntax(in);
    return 0;
}

static bool one_of(struct text text, const char *const *words, size_t count)
{
    must(text.at != NULL);
    for (size_t i = 0; i < count; i++)
        if (text_is(text, words[i]))
            return true;
    return false;
}

static size_t document_yaml_digits(const char *at)
{
    return strspn(at, "0123456789");
}

/*
 * True for a JSON number. Other YAML numbers, such as 0x1f and 1_000, become text, because the tree
 * is written as JSON.
 */
static bool is_number(struct text text)
{
    const char *at = text.at;

    /* A NUL inside would end the loop below early. */
    if (strlen(at) != text.len)
        return false;
    at += *at == '-';
    const size_t whole = document_yaml_digits(at);
    if (whole == 0 || (whole > 1 && *at == '0'))
        return false;
    at += whole;
    if (*at == '.') {
        if (document_yaml_digits(at + 1) == 0)
            return false;
        at += 1 + document_yaml_digits(at + 1);
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        if (document_yaml_digits(at) == 0)
            return false;
        at += document_yaml_digits(at);
    }
    return *at == '\0';
}

/*
 * Resolves a plain word as go-yaml v2 does (resolve.go), and so kubectl, which uses
 * sigs.k8s.io/yaml: null and the bools of YAML 1.1. For a bool *out is its word in JSON.
 */
static enum document_kind document_yaml_resolve(struct text text, struct text *out)
{
    static const char *const nothing[] = {"", "~", "null", "Null", "NULL"};
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "YES",
                                      "on",   "On",   "ON",   "y",   "Y"};
    static const char *const no[] = {"false", "False", "FALSE", "no", "No", "NO",
                                     "off",   "Off",   "OFF",   "n",  "N"};

    *out = text;
    /* The longest word below. */
    if (text.len > strlen("false"))
        return is_number(text) ? DOCUMENT_NUMBER : DOCUMENT_STRING;
    if (one_of(text, nothing, ARRAY_LEN(nothing)))
        return DOCUMENT_NULL;
    if (one_of(text, yes, ARRAY_LEN(yes))) {
        *out = TEXT("true");
        return DOCUMENT_BOOL;
    }
    if (one_of(text, no, ARRAY_LEN(no))) {
        *out = TEXT("false");
        return DOCUMENT_BOOL;
    }
    return is_number(text) ? DOCUMENT_NUMBER : DOCUMENT_STRING;
}

/*
 * A tag of a kind decides the kind, and the word must be of it; with any other tag it is text.
 */
static int load_tagged(struct yaml_loading *in, const yaml_event_t *event,
                       struct document *document)
{
    static const struct {
        const char *tag;
        enum document_kind kind;
    } known[] = {{YAML_NULL_TAG, DOCUMENT_NULL},
                 {YAML_BOOL_TAG, DOCUMENT_BOOL},
                 {YAML_INT_TAG, DOCUMENT_NUMBER},
                 {YAML_FLOAT_TAG, DOCUMENT_NUMBER}};
    const char *tag = (const char *)event->data.scalar.tag;

    must(document->kind == DOCUMENT_STRING);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(tag, known[i].tag) != 0)
            continue;
        document->kind = document_yaml_resolve(document->text, &document->text);
        if (document->kind != known[i].kind)
            return document_yaml_fail(in, DOCUMENT_FAULT_OTHER, event->start_mark,
                                      "\"%.100s\" is tagged !!%s, but is %s", document->shown,
                                      strrchr(tag, ':') + 1, document_kind_name(document->kind));
    }
    return 0;
}

static int load_scalar(struct yaml_loading *in, const yaml_event_t *event, struct document **out)
{
    const char *bytes = (const char *)event->data.scalar.value;
    const struct text text = {bytes, event->data.scalar.length};

    must(event->type == YAML_SCALAR_EVENT);
    *out = document_new_str(in->arena, text);
    /* Only a plain word without a tag is resolved; quoted text is a string. */
    if (event->data.scalar.plain_implicit)
        (*out)->kind = document_yaml_resolve((*out)->text, &(*out)->text);
    else if (event->data.scalar.tag != NULL)
        return load_tagged(in, event, *out);
    return 0;
}

static int load_value(struct yaml_loading *in, const yaml_event_t *event, struct document **out);

static int load_items(struct yaml_loading *in, struct document *array)
{
    for (;;) {
        yaml_event_t event;
        const int got = next_event(in, &event);
        if (got < 0)
            return got;
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            return 0;
        }
        struct document *value = NULL;
        const int rc = load_value(in, &event, &value);
        yaml_event_delete(&event);
        if (rc < 0)
            return rc;
        document_append(array, value);
    }
}

/* Copies a key: always text, even if it looks like a number or a bool. */
static int load_key(struct yaml_loading *in, const yaml_event_t *event, struct map *seen,
                    struct text *out)
{
    if (event->type != YAML_SCALAR_EVENT)
        return document_yaml_fail(in, DOCUMENT_FAULT_KEY, event->start_mark,
                                  "a key must be a plain word");
    const struct text raw = {(const char *)event->data.scalar.value, event->data.scalar.length};
    const struct text key = {arena_copy(in->arena, raw), raw.len};
    const struct document *first = map_find(seen, key);
    in->fault.key = key;
    if (first == NULL) {
        *out = key;
        return 0;
    }
    in->fault.first = first->key_at;
    return document_yaml_fail(in, DOCUMENT_FAULT_TWICE, event->start_mark,
                              "the key \"%.*s\" is there twice", TEXT_ARG(key));
}

/* The caller owns key_event; the value's event is deleted here, also on failure. */
static int document_yaml_load_pair(struct yaml_loading *in, const yaml_event_t *key_event,
                                   struct map *seen, struct document *object)
{
    struct text key = {0};
    struct document *value = NULL;
    yaml_event_t event;

    int rc = load_key(in, key_event, seen, &key);
    if (rc == 0)
        rc = next_event(in, &event);
    if (rc < 0)
        return rc;
    rc = load_value(in, &event, &value);
    yaml_event_delete(&event);
    if (rc < 0)
        return rc;
    value->key = key;
    value->key_at = document_yaml_mark(key_event->start_mark);
    document_append(object, value);
    map_put(seen, key, value);
    return 0;
}

/* Uses a hash map, so that a mapping with many keys takes linear time. */
static int load_pairs(struct yaml_loading *in, struct document *object)
{
    struct map seen;
    int rc = 0;

    map_init(&seen);
    for (bool more = true; more && rc == 0;) {
        yaml_event_t event;
        rc = next_event(in, &event);
        if (rc < 0)
            break;
        more = event.type != YAML_MAPPING_END_EVENT;
        if (more)
            rc = document_yaml_load_pair(in, &event, &seen, object);
        yaml_event_delete(&event);
    }
    map_done(&seen);
    return rc;
}

static int load_value(struct yaml_loading *in, const yaml_event_t *event, struct document **out)
{
    struct document *document = NULL;
    int rc;

    if (event->type == YAML_ALIAS_EVENT)
        return document_yaml_fail(in, DOCUMENT_FAULT_ALIAS, event->start_mark,
                                  "the alias *%s: aliases are not read, write the value out",
                                  (const char *)event->data.alias.anchor);
    /* Limits the recursion, one level per level of the input. */
    if (in->depth == JSON_DEPTH_MAX) {
        in->fault.at = document_yaml_mark(event->start_mark);
        return err_set(in->err, ERR_TOO_LARGE, "nested deeper than %d", JSON_DEPTH_MAX);
    }
    in->depth++;
    if (event->type == YAML_SEQUENCE_START_EVENT) {
        document = document_new(in->arena, DOCUMENT_ARRAY);
        rc = load_items(in, document);
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        document = document_new(in->arena, DOCUMENT_OBJECT);
        rc = load_pairs(in, document);
    } else {
        rc = load_scalar(in, event, &document);
    }
    in->depth--;
    if (rc < 0)
        return rc;
    document->at = document_yaml_mark(event->start_mark);
    *out = document;
    return 0;
}

/*
 * Start and end events have no data. An empty document between two "---" is a null.
 */
static int load_stream(struct yaml_loading *in, struct document *documents)
{
    struct document_mark begins = {0};

    for (bool more = true; more;) {
        yaml_event_t event;
        int rc = next_event(in, &event);
        if (rc < 0)
            return rc;
        more = event.type != YAML_STREAM_END_EVENT;
        if (event.type == YAML_DOCUMENT_START_EVENT)
            begins = document_yaml_mark(event.start_mark);
        if (event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_START_EVENT &&
            event.type != YAML_DOCUMENT_END_EVENT && more) {
            struct document *value = NULL;
            rc = load_value(in, &event, &value);
            must(rc < 0 || value != NULL);
            if (rc == 0) {
                value->key_at = begins;
                document_append(documents, value);
            }
        }
        yaml_event_delete(&event);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Sets *out only on success; frees the parser in both cases. */
int document_yaml_parse(struct text bytes, struct arena *arena, struct document **out,
                        struct document_fault *out_fault, struct err *err)
{
    struct yaml_loading in = {
        .arena = arena, .bytes = bytes, .fault = {.key = TEXT("")}, .err = err};
    struct document *documents = document_new(arena, DOCUMENT_ARRAY);

    must(bytes.at != NULL);
    if (!yaml_parser_initialize(&in.parser))
        return err_set(err, ERR_INTERNAL, "no memory for a YAML parser");
    yaml_parser_set_input_string(&in.parser, (const unsigned char *)bytes.at, bytes.len);
    const int rc = load_stream(&in, documents);
    yaml_parser_delete(&in.parser);
    must(rc < 0 || in.depth == 0);
    if (rc == 0)
        *out = documents;
    else
        *out_fault = in.fault;
    return rc;
}

int document_parse_yaml(struct text bytes, struct arena *arena, struct document **out,
                        struct err *err)
{
    struct document_fault fault = {0};

    must(arena != NULL);
    if (document_yaml_parse(bytes, arena, out, &fault, err) < 0)
        return err_wrap(err, "line %u", fault.at.line);
    return 0;
}

/* ---- writing ---- */

/* libyaml's write handler: returns 1 for success; a strbuf cannot fail. */
static int append_bytes(void *user, unsigned char *bytes, size_t count)
{
    must(user != NULL);
    strbuf_add(user, bytes, count);
    return 1;
}

/*
 * The emitter fails on invalid UTF-8, which emit_string() has excluded, and if out of memory. It
 * owns the event, so the caller must not delete it.
 */
static void document_yaml_emit(yaml_emitter_t *emitter, yaml_event_t *event, bool made)
{
    must(made);
    must(yaml_emitter_emit(emitter, event) != 0);
}

static bool needs_quotes(struct text text)
{
    struct text ignored;

    /* Other readers parse 0x1f and 12:30 as numbers and 2026-01-02 as a time. */
    return document_yaml_resolve(text, &ignored) != DOCUMENT_STRING ||
           strchr("0123456789.+-", text.at[0]) != NULL;
}

/* Returns false for invalid UTF-8, which libyaml checks when it copies the text. */
static bool document_yaml_scalar(yaml_event_t *event, struct text text, yaml_scalar_style_t style)
{
    yaml_char_t *bytes;

    must(text.len <= INT32_MAX);
    memcpy(&bytes, &text.at, sizeof bytes); /* drops const for libyaml, which copies the text */
    return yaml_scalar_event_initialize(event, NULL, NULL, bytes, (int)text.len, 1, 1, style) != 0;
}

/* Without needs_quotes() libyaml would choose a plain scalar for "true" or "012". */
static void emit_string(yaml_emitter_t *emitter, struct text text, const char *shown)
{
    const yaml_scalar_style_t style =
        needs_quotes(text) ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE;
    yaml_event_t event;

    /* Invalid UTF-8 may come from the caller, for example in the name of a file. */
    const bool made = document_yaml_scalar(&event, text, style) ||
                      document_yaml_scalar(&event, text_of(shown), style);
    document_yaml_emit(emitter, &event, made);
}

static void emit_value(yaml_emitter_t *emitter, const struct document *document)
{
    yaml_event_t event;

    must(document->text.at != NULL);
    switch (document->kind) {
    case DOCUMENT_NULL:
        document_yaml_emit(emitter, &event,
                           document_yaml_scalar(&event, TEXT("null"), YAML_PLAIN_SCALAR_STYLE));
        return;
    case DOCUMENT_BOOL:
    case DOCUMENT_NUMBER:
        document_yaml_emit(emitter, &event,
                           document_yaml_scalar(&event, document->text, YAML_PLAIN_SCALAR_STYLE));
        return;
    case DOCUMENT_STRING:
        emit_string(emitter, document->text, document->shown);
        return;
    case DOCUMENT_ARRAY:
        document_yaml_emit(
            emitter, &event,
            yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_ANY_SEQUENCE_STYLE));
        document_each (child, document)
            emit_value(emitter, child);
        document_yaml_emit(emitter, &event, yaml_sequence_end_event_initialize(&event));
        return;
    case DOCUMENT_OBJECT:
        document_yaml_emit(
            emitter, &event,
            yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_ANY_MAPPING_STYLE));
        document_each (child, document) {
            emit_string(emitter, child->key, "");
            emit_value(emitter, child);
        }
        document_yaml_emit(emitter, &event, yaml_mapping_end_event_initialize(&event));
    }
}

static void document_yaml_write_document(struct strbuf *out, const struct document *document,
                                         bool unicode)
{
    yaml_emitter_t emitter;
    yaml_event_t event;

    must(document != NULL);
    must(yaml_emitter_initialize(&emitter) != 0); /* fails only if out of memory */
    yaml_emitter_set_output(&emitter, append_bytes, out);
    yaml_emitter_set_unicode(&emitter, unicode);
    /* No folding: a long message stays searchable on one line. */
    yaml_emitter_set_width(&emitter, -1);
    document_yaml_emit(&emitter, &event,
                       yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
    document_yaml_emit(&emitter, &event,
                       yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
    emit_value(&emitter, document);
    document_yaml_emit(&emitter, &event, yaml_document_end_event_initialize(&event, 1));
    document_yaml_emit(&emitter, &event, yaml_stream_end_event_initialize(&event));
    yaml_emitter_delete(&emitter);
}

/* True if it contains characters that a terminal would interpret, apart from line ends. */
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

/*
 * libyaml treats bidirectional control characters as printable, so for odd text all non-ASCII
 * characters are escaped.
 */
void document_write_yaml(struct strbuf *out, const struct document *document)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    document_yaml_write_document(&text, document, true);
    if (is_odd((struct text){text.data, text.len})) {
        strbuf_reset(&text);
        document_yaml_write_document(&text, document, false);
    }
    strbuf_text(out, (struct text){text.data, text.len});
}
