/*
 * A set of settings: each value as text with its source, and the program's struct. A loaded set is
 * immutable, so all threads read it without a lock; SIGHUP loads a new set and copies settings that
 * need a restart from the old one.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "settings_internal.h"

/* An invalid default is a bug in the table and aborts. */
struct settings_set *settings_defaults(const struct settings_program *program)
{
    struct settings_set *set = xcalloc(1, sizeof *set + program->settings * sizeof set->slot[0]);
    struct err err;

    set->program = program;
    set->values = xcalloc(1, program->bytes);
    for (const struct setting_info *info = program->info; info < program->info + program->settings;
         info++) {
        const int rc = setting_put(set, info, SETTING_DEFAULT, info->fallback, "default", &err);
        must(rc == 0);
    }
    return set;
}

void settings_free(struct settings_set *set)
{
    if (set == NULL)
        return;
    for (size_t id = 0; id < set->program->settings; id++) {
        xfree(set->slot[id].text);
        xfree(set->slot[id].origin);
    }
    xfree(set->values);
    xfree(set);
}

void settings_keep(struct settings_set *set, const struct settings_set *from, size_t id)
{
    const struct setting_slot *slot = &from->slot[id];
    struct err err;

    must(set != from && set->program == from->program);
    /* allows a source of lower precedence than the replaced one */
    set->slot[id].source = SETTING_DEFAULT;
    /* Cannot fail: the text was checked when the other set was loaded. */
    must(setting_put(set, &set->program->info[id], slot->source, slot->text, slot->origin, &err) ==
         0);
}

const struct settings_command *settings_renamed(const struct settings_set *set)
{
    return set->renamed;
}

const void *settings_values(const struct settings_set *set)
{
    return set->values;
}

int settings_blame(const struct settings_set *set, size_t id, struct err *err)
{
    const struct setting_slot *slot = &set->slot[id];
    char flag[80];

    must(id < set->program->settings);
    if (slot->source == SETTING_YAML || !set->program->terse)
        return err_wrap(err, "%s: %s", slot->origin != NULL ? slot->origin : "default",
                        set->program->info[id].name);
    setting_flag(&set->program->info[id], flag, sizeof flag);
    return err_wrap(err, "%s", flag);
}

enum setting_source settings_source(const struct settings_set *set, size_t id)
{
    must(id < set->program->settings);
    return set->slot[id].source;
}

const char *settings_source_name(enum setting_source source)
{
    static const char *const names[] = {"default", "file", "environment", "flag"};

    must((size_t)source < ARRAY_LEN(names));
    return names[source];
}

/*
 * Numbers and bools are not quoted, so other YAML tools see their type. Words are quoted, because
 * many YAML readers take a bare "off" as a boolean.
 */
static void add_value(struct strbuf *out, const struct settings_set *set, size_t id)
{
    const enum setting_type type = set->program->info[id].type;

    must(id < set->program->settings);
    if (type == SETTING_TYPE_BOOL || type == SETTING_TYPE_NUMBER)
        strbuf_str(out, set->slot[id].text);
    else
        strbuf_json(out, text_of(set->slot[id].text));
}

/* daemon.c compares these texts to find the settings that changed at SIGHUP. */
void settings_value(const struct settings_set *set, size_t id, char *out, size_t bytes)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(bytes > 0);
    strbuf_init(&text);
    add_value(&text, set, id);
    text_clip((struct text){text.data, text.len}, out, bytes);
}

void settings_print(struct strbuf *out, const struct settings_set *set)
{
    for (size_t id = 0; id < set->program->settings; id++) {
        const char *place = set->slot[id].origin;
        if (&set->program->info[id] == set->program->config)
            continue; /* not allowed in a file */
        strbuf_printf(out, "%s: ", set->program->info[id].name);
        add_value(out, set, id);
        /* A newline in a file name would end the comment. */
        if (place != NULL && strchr(place, '\n') == NULL)
            strbuf_printf(out, " # %s", place);
        strbuf_char(out, '\n');
    }
}
