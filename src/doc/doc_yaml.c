/*
 * YAML to documents, by libyaml's events.  Called by the readers of kubeconfigs and cluster files.
 * Depth is bounded, and aliases are refused.
 */
#include <string.h>

#include <yaml.h>

#include "milligpu/doc.h"
#include "milligpu/limits.h"
#include "milligpu/map.h"

/*
 * libyaml's events, by hand: its documents resolve aliases, and ten lines of those can
 * describe more memory than there is.
 */
struct loading {
    yaml_parser_t parser;
    struct arena *arena;
    struct err *err;
    uint32_t depth;
};

static uint32_t line_of(yaml_mark_t mark)
{
    return mark.line < UINT32_MAX ? (uint32_t)mark.line + 1 : UINT32_MAX;
}

static int syntax(struct loading *in)
{
    must(in->depth <= JSON_DEPTH_MAX);
    const yaml_parser_t *parser = &in->parser;
    const char *problem = parser->problem != NULL ? parser->problem : "not YAML";

    if (parser->error == YAML_READER_ERROR)
        return err_set(in->err, ERR_INVALID, "byte %zu: %s", parser->problem_offset, problem);
    return err_set(in->err, ERR_INVALID, "line %u: %s%s%s", line_of(parser->problem_mark), problem,
                   parser->context != NULL ? ", " : "",
                   parser->context != NULL ? parser->context : "");
}

static int next_event(struct loading *in, yaml_event_t *out)
{
    must(in->depth <= JSON_DEPTH_MAX);
    if (!yaml_parser_parse(&in->parser, out))
        return syntax(in);
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

static size_t digits(const char *at)
{
    return strspn(at, "0123456789");
}

/* A JSON number as it stands; all else that YAML calls a number stays text. */
static bool is_number(struct text text)
{
    must(text.at != NULL);
    const char *at = text.at;

    if (strlen(at) != text.len)
        return false;
    at += *at == '-';
    const size_t whole = digits(at);
    if (whole == 0 || (whole > 1 && *at == '0'))
        return false;
    at += whole;
    if (*at == '.') {
        if (digits(at + 1) == 0)
            return false;
        at += 1 + digits(at + 1);
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        if (digits(at) == 0)
            return false;
        at += digits(at);
    }
    return *at == '\0';
}

static enum doc_kind resolve(struct text text)
{
    must(text.at != NULL);
    static const char *const nothing[] = {"", "~", "null", "Null", "NULL"};
    static const char *const yes_no[] = {"true", "false"};

    if (one_of(text, nothing, ARRAY_LEN(nothing)))
        return DOC_NULL;
    if (one_of(text, yes_no, ARRAY_LEN(yes_no)))
        return DOC_BOOL;
    return is_number(text) ? DOC_NUMBER : DOC_STRING;
}

static int load_scalar(struct loading *in, const yaml_event_t *event, struct doc **out)
{
    const char *bytes = (const char *)event->data.scalar.value;
    const struct text text = {bytes, event->data.scalar.length};

    must(event->type == YAML_SCALAR_EVENT);
    *out = doc_new_str(in->arena, text);
    if (event->data.scalar.plain_implicit)
        (*out)->kind = resolve((*out)->text);
    return 0;
}

static int load_value(struct loading *in, const yaml_event_t *event, struct doc **out);

static int load_items(struct loading *in, struct doc *array)
{
    must(in->depth <= JSON_DEPTH_MAX);
    for (;;) {
        yaml_event_t event;
        const int got = next_event(in, &event);
        if (got < 0)
            return got;
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            return 0;
        }
        struct doc *value = NULL;
        const int rc = load_value(in, &event, &value);
        yaml_event_delete(&event);
        if (rc < 0)
            return rc;
        doc_append(array, value);
    }
}

static int load_key(struct loading *in, const yaml_event_t *event, struct map *seen,
                    struct text *out)
{
    must(in->depth <= JSON_DEPTH_MAX);
    const uint32_t line = line_of(event->start_mark);

    if (event->type != YAML_SCALAR_EVENT)
        return err_set(in->err, ERR_INVALID, "line %u: a key must be a plain word", line);
    const struct text raw = {(const char *)event->data.scalar.value, event->data.scalar.length};
    const struct text key = {arena_copy(in->arena, raw), raw.len};
    if (map_find(seen, key) != NULL)
        return err_set(in->err, ERR_INVALID, "line %u: the key \"%.*s\" is there twice", line,
                       TEXT_ARG(key));
    *out = key;
    return 0;
}

static int load_pair(struct loading *in, const yaml_event_t *key_event, struct map *seen,
                     struct doc *object)
{
    must(in->depth <= JSON_DEPTH_MAX);
    struct text key;
    struct doc *value = NULL;
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
    doc_append(object, value);
    map_put(seen, key, value);
    return 0;
}

static int load_pairs(struct loading *in, struct doc *object)
{
    must(in->depth <= JSON_DEPTH_MAX);
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
            rc = load_pair(in, &event, &seen, object);
        yaml_event_delete(&event);
    }
    map_done(&seen);
    return rc;
}

static int load_value(struct loading *in, const yaml_event_t *event, struct doc **out)
{
    must(in->depth <= JSON_DEPTH_MAX);
    const uint32_t line = line_of(event->start_mark);
    struct doc *doc = NULL;
    int rc;

    if (event->type == YAML_ALIAS_EVENT)
        return err_set(in->err, ERR_INVALID,
                       "line %u: the alias *%s: aliases are not read, write the value out", line,
                       (const char *)event->data.alias.anchor);
    if (in->depth == JSON_DEPTH_MAX)
        return err_set(in->err, ERR_TOO_LARGE, "line %u: nested deeper than %d", line,
                       JSON_DEPTH_MAX);
    in->depth++;
    if (event->type == YAML_SEQUENCE_START_EVENT) {
        doc = doc_new(in->arena, DOC_ARRAY);
        rc = load_items(in, doc);
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        doc = doc_new(in->arena, DOC_OBJECT);
        rc = load_pairs(in, doc);
    } else {
        rc = load_scalar(in, event, &doc);
    }
    in->depth--;
    if (rc < 0)
        return rc;
    must(doc != NULL);
    doc->line = line;
    *out = doc;
    return 0;
}

/* Start and end of stream and documents carry nothing. */
static int load_stream(struct loading *in, struct doc *documents)
{
    must(in->depth <= JSON_DEPTH_MAX);
    for (bool more = true; more;) {
        yaml_event_t event;
        int rc = next_event(in, &event);
        if (rc < 0)
            return rc;
        more = event.type != YAML_STREAM_END_EVENT;
        if (event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_START_EVENT &&
            event.type != YAML_DOCUMENT_END_EVENT && more) {
            struct doc *value = NULL;
            rc = load_value(in, &event, &value);
            if (rc == 0)
                doc_append(documents, value);
        }
        yaml_event_delete(&event);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int doc_parse_yaml(struct text bytes, struct arena *arena, struct doc **out, struct err *err)
{
    struct loading in = {.arena = arena, .err = err};
    struct doc *documents = doc_new(arena, DOC_ARRAY);

    must(bytes.at != NULL);
    if (!yaml_parser_initialize(&in.parser))
        return err_set(err, ERR_INTERNAL, "no memory for a YAML parser");
    yaml_parser_set_input_string(&in.parser, (const unsigned char *)bytes.at, bytes.len);
    const int rc = load_stream(&in, documents);
    yaml_parser_delete(&in.parser);
    must(rc < 0 || in.depth == 0);
    if (rc == 0)
        *out = documents;
    return rc;
}
