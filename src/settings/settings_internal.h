/*
 * settings_internal - shared by the parts of settings.
 *
 * For any program: settings_table.c checks names and values, settings_set.c holds the set,
 * settings_load.c reads flags and environment, settings_yaml.c the file. For milligpud: settings.c
 * has the table and the rules between settings, settings_print.c prints --help.
 */
#ifndef MILLIGPU_SETTINGS_SETTINGS_INTERNAL_H
#define MILLIGPU_SETTINGS_SETTINGS_INTERNAL_H

#include "milligpu/settings/settings.h"

enum { PLACE_BYTES = 300, SETTING_BYTES_MAX = 4096 };

/* A value as text with its origin, for messages and --print-config. */
struct setting_slot {
    char *text;   /* owned */
    char *origin; /* owned: "config.yaml:12", "MILLIGPU_WAKE", "--wake"; NULL: the default */
    enum setting_source source; /* replaced only by an equal or later source */
};

struct settings_set {
    const struct settings_program *program;
    void *values;                           /* the program's struct; texts belong to the slots */
    const struct settings_command *renamed; /* given by its deprecated flag; NULL: none */
    struct setting_slot slot[];
};

extern const struct settings_program milligpud_settings;

/* Finds a setting by its exact name, in which dash ('_' or '-') separates words. NULL: none. */
const struct setting_info *setting_find(const struct settings_program *program, struct text name,
                                        char dash);
/* Suggests a setting for a mistyped name. NULL: none is near. */
const struct setting_info *setting_nearest(const struct settings_program *program,
                                           struct text name);
/* The argument of the flag in --help: "N", "FILE", "true|false". */
const char *setting_word(const struct setting_info *info);
/* Writes open, "1..64 threads" or the valid words, close; nothing for other types. */
void setting_range(struct strbuf *out, const struct setting_info *info, const char *open,
                   const char *close);
/* Title of milligpud's group that begins with this setting; NULL: none does. */
const char *setting_group(size_t id);
/* Writes "MILLIGPU_WEBHOOK_CERT". */
void setting_variable(const struct settings_program *program, const struct setting_info *info,
                      char *out, size_t bytes);

struct settings_set *settings_defaults(const struct settings_program *program) MUST_USE;
/* Checks and stores a value; err names place and setting. */
int setting_put(struct settings_set *set, const struct setting_info *info,
                enum setting_source source, const char *text, const char *place,
                struct err *err) MUST_USE;
int settings_read_file(struct settings_set *set, const char *file, struct err *err) MUST_USE;
/* Checks the rules between settings of milligpud. */
int settings_cross_check(const struct settings_set *set, struct err *err) MUST_USE;

#endif
