/*
 * Reads the settings file: one YAML mapping with one value per key. Called by settings_load.c at
 * the start and at SIGHUP, and for check-config. Every error names file and line.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/arena.h"
#include "milligpu/document/document.h"
#include "milligpu/run/file.h"

#include "settings_internal.h"

/* A settings file has a few KiB; a file above this limit is probably another one. */
enum { FILE_BYTES_MAX = 1024 * 1024 };

struct settings_reading {
    const char *file;
    struct settings_set *set;
    struct err *err;
};

/* Sets "config.yaml:3: " and the text as the error. Evaluates `in` more than once. */
#define settings_fault(in, mark, ...)                                                              \
    ((void)err_set((in)->err, ERR_INVALID, __VA_ARGS__),                                           \
     err_wrap((in)->err, "%s:%u", (in)->file, (mark).line))

/* Refuses a duplicate key: YAML readers disagree on which one counts. */
static int settings_not_read(const struct settings_reading *in, const struct document_fault *fault)
{
    char key[80];

    text_clip(fault->key, key, sizeof key);
    switch (fault->kind) {
    case DOCUMENT_FAULT_KEY:
        return settings_fault(in, fault->at, "a key that is not a name");
    case DOCUMENT_FAULT_TWICE:
        return settings_fault(in, fault->at, "%s is set a second time, first in line %u", key,
                              fault->first.line);
    case DOCUMENT_FAULT_ALIAS:
        if (fault->key.len == 0)
            break;
        return settings_fault(in, fault->at, "%s: an alias where a value should be", key);
    case DOCUMENT_FAULT_SYNTAX:
        (void)err_wrap(in->err, "not YAML");
        break;
    case DOCUMENT_FAULT_OTHER:
        break;
    }
    return err_wrap(in->err, "%s:%u", in->file, fault->at.line);
}

/*
 * The fault of anything but a single value; NULL: none. A key without a value is refused: it
 * may be a forgotten value or mean the default.
 */
static const char *not_a_value(const struct document *value)
{
    if (value->kind == DOCUMENT_ARRAY)
        return "a list where one value should be";
    if (value->kind == DOCUMENT_OBJECT)
        return "a nested mapping where one value should be";
    if (value->kind == DOCUMENT_NULL)
        return "no value: leave the line out for the default, write \"\" for empty";
    /* "\0" in double quotes: the rest would be lost. */
    if (document_has_nul(value))
        return "a NUL inside the value";
    return NULL;
}

static int yaml_unknown(const struct settings_reading *in, const struct document *value)
{
    const struct setting_info *nearest = setting_nearest(in->set->program, value->key);
    char shown[80];

    text_clip(value->key, shown, sizeof shown);
    return settings_fault(in, value->key_at, "no setting is called \"%s\"%s%s%s", shown,
                          nearest != NULL ? "; did you mean " : "",
                          nearest != NULL ? nearest->name : "",
                          nearest != NULL ? "?" : " (see --help)");
}

/* Uses the text as written: setting_put() converts it, not the YAML parser. */
static int take_value(const struct settings_reading *in, const struct document *value)
{
    const struct settings_program *program = in->set->program;
    const struct setting_info *info = setting_find(program, value->key, '_');
    const char *fault = not_a_value(value);
    char place[PLACE_BYTES];

    if (info == NULL)
        return yaml_unknown(in, value);
    if (info == program->config)
        return settings_fault(in, value->key_at,
                              "%s: a settings file cannot name another; leave the line out",
                              info->name);
    if (fault != NULL)
        return settings_fault(in, value->at, "%s: %s", info->name, fault);
    (void)snprintf(place, sizeof place, "%s:%u", in->file, value->at.line);
    return setting_put(in->set, info, SETTING_YAML,
                       value->kind == DOCUMENT_BOOL ? value->shown : value->text.at, place,
                       in->err);
}

/* A file that is empty or has only comments contains no document and sets nothing. */
static int take_documents(const struct settings_reading *in, const struct document *documents)
{
    const struct document *first = documents->first;

    if (first == NULL)
        return 0;
    if (first->kind != DOCUMENT_OBJECT)
        return settings_fault(in, first->at,
                              "not a mapping: write lines like \"log_level: debug\"");
    document_each (value, first) {
        const int rc = take_value(in, value);
        if (rc < 0)
            return rc;
    }
    if (first->next != NULL)
        return settings_fault(in, first->next->key_at, "a second document; settings are one");
    return 0;
}

int settings_read_file(struct settings_set *set, const char *file, struct err *err)
{
    const struct settings_reading in = {.file = file, .set = set, .err = err};
    CLEANUP(arena_done) struct arena arena;
    CLEANUP(xfreep) char *bytes = NULL;
    struct document *documents = NULL;
    struct document_fault fault = {0};
    size_t len = 0;

    arena_init(&arena);
    int rc = file_read(file, FILE_BYTES_MAX, &bytes, &len, err);
    if (rc == -ERR_TOO_LARGE)
        return err_set(err, ERR_TOO_LARGE, "%s is larger than 1 MiB: is it a settings file?", file);
    if (rc < 0) {
        err->code = ERR_IO;
        return err_same(err);
    }
    rc = document_yaml_parse((struct text){bytes, len}, &arena, &documents, &fault, err);
    return rc < 0 ? settings_not_read(&in, &fault) : take_documents(&in, documents);
}
