/*
 * settings_internal - what the parts of settings share. settings.c is the set: flags, environment,
 * rules between settings. settings_table.c is the table: types, values, suggestions for mistyped
 * names. settings_yaml.c reads the file. settings_print.c writes --help, --print-config,
 * docs/CONFIG.md and the manual page.
 */
#ifndef MILLIGPU_SETTINGS_SETTINGS_INTERNAL_H
#define MILLIGPU_SETTINGS_SETTINGS_INTERNAL_H

#include "milligpu/settings.h"

enum { PLACE_BYTES = 300, SETTING_BYTES_MAX = 4096 };

enum setting_type {
    SETTING_TYPE_TEXT,
    SETTING_TYPE_FILE,
    SETTING_TYPE_ADDRESS,
    SETTING_TYPE_CHOICE,
    SETTING_TYPE_BOOL,
    SETTING_TYPE_NUMBER,
};

/* One line of settings.def; constant. */
struct setting_info {
    const char *name;
    const char *fallback;
    const char *unit; /* CHOICE: its words */
    const char *help;
    size_t offset; /* in struct settings */
    enum setting_type type;
    /* NUMBER: both bounds are allowed values; 0 for other types */
    uint32_t low;
    uint32_t high;
    /* takes effect at SIGHUP, without a restart */
    bool reload;
};

/* The value as text and where it came from, for messages and --print-config. */
struct setting_slot {
    char *text;
    char *place; /* "config.yaml:12", "MILLIGPU_WAKE", "--wake"; NULL: the default */
    /* ranks: a later source replaces an earlier one, never the reverse */
    enum setting_source source;
};

struct settings_set {
    struct settings values; /* texts belong to the slots */
    struct setting_slot slot[SETTINGS];
};

const struct setting_info *setting_info(enum setting_id id);
/* The title of the group that begins with this setting; NULL: none does. Constant. */
const char *setting_group(enum setting_id id);
/* SETTINGS if there is none. dash: names are written as in flags. */
enum setting_id setting_find(struct text name, char dash);
/* The known name that was probably meant, or NULL; dash as above. */
const char *setting_nearest(struct text name);
/* "N", "FILE", "true|false": the argument of the flag. */
const char *setting_word(enum setting_id id);
void setting_flag(enum setting_id id, char *out, size_t bytes);     /* "--webhook-cert" */
void setting_variable(enum setting_id id, char *out, size_t bytes); /* "MILLIGPU_WEBHOOK_CERT" */

struct settings_set *settings_defaults(void) MUST_USE;
/* Checks the text and stores it; err names place and setting. */
int setting_put(struct settings_set *set, enum setting_id id, enum setting_source source,
                const char *text, const char *place, struct err *err) MUST_USE;
int settings_read_file(struct settings_set *set, const char *file, struct err *err) MUST_USE;
/* Checks the rules between settings. */
int settings_cross_check(const struct settings_set *set, struct err *err) MUST_USE;

#endif
