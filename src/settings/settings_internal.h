/*
 * settings_internal - what the parts of settings share. Of any program: settings_table.c is names
 * and values, settings_set.c the set, settings_load.c reads flags and environment, settings_yaml.c
 * the file. Of milligpud: settings.c is its table and the rules between its settings,
 * settings_print.c its --help.
 */
#ifndef MILLIGPU_SETTINGS_SETTINGS_INTERNAL_H
#define MILLIGPU_SETTINGS_SETTINGS_INTERNAL_H

#include "milligpu/settings/settings.h"

enum { PLACE_BYTES = 300, SETTING_BYTES_MAX = 4096 };

/* The value as text and where it came from, for messages and --print-config. */
struct setting_slot {
    char *text;
    char *place; /* "config.yaml:12", "MILLIGPU_WAKE", "--wake"; NULL: the default */
    /* ranks: a later source replaces an earlier one, never the reverse */
    enum setting_source source;
};

struct settings_set {
    const struct settings_program *program;
    void *values;                           /* the program's struct; texts belong to the slots */
    const struct settings_command *renamed; /* was given by its former flag; NULL: none */
    struct setting_slot slot[];
};

extern const struct settings_program milligpud_settings;

/* NULL if there is none. dash: names are written as in flags. */
const struct setting_info *setting_find(const struct settings_program *program, struct text name,
                                        char dash);
/* The one that was probably meant, or NULL. */
const struct setting_info *setting_nearest(const struct settings_program *program,
                                           struct text name);
/* "N", "FILE", "true|false": the argument of the flag. */
const char *setting_word(const struct setting_info *info);
/* open, "1..64 threads" or the words, close; or nothing. */
void setting_range(struct strbuf *out, const struct setting_info *info, const char *open,
                   const char *close);
/* The title of the group of milligpud that begins with this setting; NULL: none does. */
const char *setting_group(size_t id);
/* "MILLIGPU_WEBHOOK_CERT" */
void setting_variable(const struct settings_program *program, const struct setting_info *info,
                      char *out, size_t bytes);

struct settings_set *settings_defaults(const struct settings_program *program) MUST_USE;
/* Checks the text and stores it; err names place and setting. */
int setting_put(struct settings_set *set, const struct setting_info *info,
                enum setting_source source, const char *text, const char *place,
                struct err *err) MUST_USE;
int settings_read_file(struct settings_set *set, const char *file, struct err *err) MUST_USE;
/* Checks the rules between settings of milligpud. */
int settings_cross_check(const struct settings_set *set, struct err *err) MUST_USE;

#endif
