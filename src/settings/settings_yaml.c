/*
 * The settings file: one YAML mapping with one value per key, read by libyaml's events. Called by
 * settings.c at the start and at SIGHUP, and for check-config. Every event is deleted before the
 * next one is parsed; every error names file and line.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "milligpu/alloc.h"

#include "settings/settings_internal.h"

/* A settings file has a few KiB; a larger one is probably another file. */
enum { FILE_BYTES_MAX = 1024 * 1024 };

struct settings_reading {
    yaml_parser_t parser;
    const char *file;
    struct settings_set *set;
    size_t line[SETTINGS]; /* the line where each was set; 0: not yet */
    struct err *err;
};

/* libyaml counts lines from 0. */
static size_t yaml_line_of(const yaml_event_t *event)
{
    must(event->start_mark.line < SIZE_MAX);
    return event->start_mark.line + 1;
}

/* On failure there is no event to delete. An error in the encoding has an offset but no line. */
static int yaml_next(struct settings_reading *in, yaml_event_t *out)
{
    if (yaml_parser_parse(&in->parser, out) == 1)
        return 0;
    must(in->parser.error != YAML_NO_ERROR);
    const size_t line = in->parser.problem_mark.line + 1;
    if (in->parser.error == YAML_READER_ERROR)
        return err_set(in->err, ERR_INVALID, "%s: byte %zu: %s", in->file,
                       in->parser.problem_offset, in->parser.problem);
    return err_set(in->err, ERR_INVALID, "%s:%zu: not YAML: %s", in->file, line,
                   in->parser.problem != NULL ? in->parser.problem : "it ends too early");
}

/*
 * A text for what is there instead of one value: NULL if it is one. A key without a value is
 * refused: it may be a forgotten value as well as a wish for the default.
 */
static const char *not_a_value(const yaml_event_t *event)
{
    static const char *const nothing[] = {"", "~", "null", "Null", "NULL"};

    must(event->type != YAML_NO_EVENT);
    if (event->type == YAML_SEQUENCE_START_EVENT)
        return "a list where one value should be";
    if (event->type == YAML_MAPPING_START_EVENT)
        return "a nested mapping where one value should be";
    if (event->type == YAML_ALIAS_EVENT)
        return "an alias where a value should be";
    if (event->type != YAML_SCALAR_EVENT)
        return "no value";
    const char *text = (const char *)event->data.scalar.value;
    /* "\0" in double quotes; what follows it would be cut off. */
    if (strlen(text) != event->data.scalar.length)
        return "a NUL inside the value";
    if (event->data.scalar.plain_implicit)
        for (size_t i = 0; i < ARRAY_LEN(nothing); i++)
            if (strcmp(text, nothing[i]) == 0)
                return "no value: leave the line out for the default, write \"\" for empty";
    return NULL;
}

static int yaml_unknown(const struct settings_reading *in, const yaml_event_t *key,
                        struct text name)
{
    const char *nearest = setting_nearest(name);
    char shown[80];

    must(key->type == YAML_SCALAR_EVENT);
    text_clip(name, shown, sizeof shown);
    return err_set(in->err, ERR_INVALID, "%s:%zu: no setting is called \"%s\"%s%s%s", in->file,
                   yaml_line_of(key), shown, nearest != NULL ? "; did you mean " : "",
                   nearest != NULL ? nearest : "", nearest != NULL ? "?" : " (see --help)");
}

/* A key that comes twice is refused: YAML readers disagree on which one counts. */
static int judge_key(const struct settings_reading *in, const yaml_event_t *key,
                     enum setting_id *out)
{
    if (key->type != YAML_SCALAR_EVENT)
        return err_set(in->err, ERR_INVALID, "%s:%zu: a key that is not a name", in->file,
                       yaml_line_of(key));
    const struct text name = {(const char *)key->data.scalar.value, key->data.scalar.length};
    const enum setting_id id = setting_find(name, '_');
    if (id == SETTINGS)
        return yaml_unknown(in, key, name);
    must(id < SETTINGS);
    if (id == SETTING_config)
        return err_set(in->err, ERR_INVALID,
                       "%s:%zu: config: a settings file cannot name another; leave the line out",
                       in->file, yaml_line_of(key));
    if (in->line[id] != 0)
        return err_set(in->err, ERR_INVALID, "%s:%zu: %s is set a second time, first in line %zu",
                       in->file, yaml_line_of(key), settings_name(id), in->line[id]);
    *out = id;
    return 0;
}

/* The text is used as written: setting_put() gives it its type, not YAML. */
static int take_value(struct settings_reading *in, enum setting_id id, const yaml_event_t *value)
{
    const char *fault = not_a_value(value);
    char place[PLACE_BYTES];

    must(id < SETTINGS);
    if (fault != NULL)
        return err_set(in->err, ERR_INVALID, "%s:%zu: %s: %s", in->file, yaml_line_of(value),
                       settings_name(id), fault);
    (void)snprintf(place, sizeof place, "%s:%zu", in->file, yaml_line_of(value));
    return setting_put(in->set, id, SETTING_YAML, (const char *)value->data.scalar.value, place,
                       in->err);
}

/* One key with its value; *out_more is false at the end of the mapping. */
static int read_pair(struct settings_reading *in, bool *out_more)
{
    yaml_event_t event;
    enum setting_id id = SETTINGS;

    int rc = yaml_next(in, &event);
    if (rc < 0)
        return rc;
    *out_more = event.type != YAML_MAPPING_END_EVENT;
    rc = *out_more ? judge_key(in, &event, &id) : 0;
    const size_t line = yaml_line_of(&event);
    yaml_event_delete(&event);
    if (rc < 0 || !*out_more)
        return rc;
    must(id < SETTINGS);
    in->line[id] = line;
    rc = yaml_next(in, &event);
    if (rc < 0)
        return rc;
    rc = take_value(in, id, &event);
    yaml_event_delete(&event);
    return rc;
}

static int read_mapping(struct settings_reading *in)
{
    bool more = true;

    must(in->set != NULL);
    while (more) {
        const int rc = read_pair(in, &more);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/*
 * An empty file contains no document; nor does one with comments only. Both are valid and set
 * nothing. line is that of the event, for errors.
 */
static int read_document(struct settings_reading *in, yaml_event_type_t type, size_t line,
                         bool first)
{
    must(line > 0);
    if (type == YAML_DOCUMENT_START_EVENT && !first)
        return err_set(in->err, ERR_INVALID, "%s:%zu: a second document; settings are one",
                       in->file, line);
    if (type == YAML_MAPPING_START_EVENT)
        return read_mapping(in);
    if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT || type == YAML_ALIAS_EVENT)
        return err_set(in->err, ERR_INVALID,
                       "%s:%zu: not a mapping: write lines like \"log_level: debug\"", in->file,
                       line);
    return 0;
}

/* Events that carry no data pass read_document() without effect. */
static int read_stream(struct settings_reading *in)
{
    yaml_event_type_t type = YAML_NO_EVENT;
    bool first = true;

    must(in->file != NULL);
    while (type != YAML_STREAM_END_EVENT) {
        yaml_event_t event;
        int rc = yaml_next(in, &event);
        if (rc < 0)
            return rc;
        type = event.type;
        const size_t line = yaml_line_of(&event);
        yaml_event_delete(&event);
        rc = read_document(in, type, line, first);
        if (rc < 0)
            return rc;
        first = first && type != YAML_DOCUMENT_START_EVENT;
    }
    return 0;
}

/*
 * Opening a directory succeeds and reading it fails, so both are checked. The bound is checked
 * after each 4 KiB, so that a device or a growing file ends, too.
 */
static int read_bytes(const char *file, struct strbuf *out, struct err *err)
{
    char bytes[4096];
    size_t now;

    must(file != NULL);
    FILE *stream = fopen(file, "re");
    if (stream == NULL)
        return err_set(err, ERR_IO, "%s: %s", file, strerrordesc_np(errno));
    while ((now = fread(bytes, 1, sizeof bytes, stream)) > 0 && out->len <= FILE_BYTES_MAX)
        strbuf_add(out, bytes, now);
    const int failed = ferror(stream) ? errno : 0;
    (void)fclose(stream);
    if (failed != 0)
        return err_set(err, ERR_IO, "%s: %s", file, strerrordesc_np(failed));
    if (out->len > FILE_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE, "%s is larger than 1 MiB: is it a settings file?", file);
    return 0;
}

int settings_read_file(struct settings_set *set, const char *file, struct err *err)
{
    struct settings_reading in = {.file = file, .set = set, .err = err};
    CLEANUP(strbuf_done) struct strbuf bytes;

    strbuf_init(&bytes);
    int rc = read_bytes(file, &bytes, err);
    if (rc < 0)
        return rc;
    must(yaml_parser_initialize(&in.parser) == 1);
    yaml_parser_set_input_string(&in.parser, (const unsigned char *)bytes.data, bytes.len);
    rc = read_stream(&in);
    yaml_parser_delete(&in.parser);
    return rc;
}
