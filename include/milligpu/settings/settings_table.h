/*
 * settings_table - loads the settings of a program, defined once in its table.
 *
 * Precedence, ascending: default, YAML file, environment, flag. Every fault, including an unknown
 * key, is an error that names the place (file and line, variable, flag), the setting, and the valid
 * values. milligpud and milligpu-node pass their tables (settings.h, agent_settings.h).
 */
#ifndef MILLIGPU_SETTINGS_TABLE_H
#define MILLIGPU_SETTINGS_TABLE_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

/* The fields of a program's struct. */
#define SETTING_FIELD_TEXT(id)    const char *id;
#define SETTING_FIELD_FILE(id)    const char *id;
#define SETTING_FIELD_ADDRESS(id) const char *id;
#define SETTING_FIELD_CHOICE(id)  const char *id;
#define SETTING_FIELD_BOOL(id)    bool id;
#define SETTING_FIELD_NUMBER(id)  uint32_t id;

enum setting_source { SETTING_DEFAULT, SETTING_YAML, SETTING_ENVIRONMENT, SETTING_FLAG };

enum setting_type {
    SETTING_TYPE_TEXT,
    SETTING_TYPE_FILE,
    SETTING_TYPE_ADDRESS,
    SETTING_TYPE_CHOICE,
    SETTING_TYPE_BOOL,
    SETTING_TYPE_NUMBER,
};

/* One row of the table; constant. */
struct setting_info {
    const char *name;     /* key in the file; flag and variable derive from it */
    const char *fallback; /* default */
    const char *unit;     /* CHOICE: the valid words, separated by blanks */
    const char *help;
    size_t offset; /* in the program's struct */
    enum setting_type type;
    /* NUMBER: inclusive bounds; 0 for other types. */
    uint32_t low;
    uint32_t high;
    bool reload; /* takes effect at SIGHUP, without a restart */
};

/* A program may define further actions after these. */
enum settings_action {
    SETTINGS_RUN,
    SETTINGS_HELP,
    SETTINGS_VERSION,
    SETTINGS_CHECK,
    SETTINGS_PRINT
};

/* Values with their sources. Strings live as long as the set; arguments of actions are borrowed. */
struct settings_set;

/* A flag that selects an action. */
struct settings_command {
    const char *flag;
    int action;
    const char *help;
    const char *value; /* name of its argument in --help; NULL: no argument */
    size_t
        value_offset;   /* of a const char * in the program's struct: the argument, "" if missing */
    const char *former; /* deprecated flag, accepted until the next version; NULL: none */
};

/* The settings of a program; constant. */
struct settings_program {
    const struct setting_info *info; /* the table */
    size_t settings;                 /* rows of info */
    const struct settings_command *command;
    size_t n_commands;
    const char *prefix;                /* of variables: "MILLIGPU_" */
    const struct setting_info *config; /* the setting that names the YAML file */
    size_t bytes;                      /* size of the program's struct */
    /* Checks rules between settings, after each value passed its own check. */
    int (*check)(const struct settings_set *set, struct err *err);
    /* --print-config prints settings even if they break a rule of check() */
    bool prints_unchecked;
    /* every unknown variable with the prefix is an error, not only a probable typo */
    bool owns_prefix;
    /* short error texts for flags and variables (milligpu-node) */
    bool terse;
};

/* The arguments of main(). */
struct settings_input {
    int argc;
    char *const *argv;
    char *const *envp; /* "NAME=value", terminated by NULL; may be NULL */
};

/*
 * Reads flags, environment, and the file that they name. *out (owned by the caller) and *out_action
 * are set only on success. SETTINGS_HELP and SETTINGS_VERSION override other actions and read no
 * file.
 */
int settings_table_load(const struct settings_program *program, const struct settings_input *input,
                        struct settings_set **out, int *out_action, struct err *err) MUST_USE;
void settings_free(struct settings_set *set);

/* Copies a setting with its source from another set: for settings that need a restart. */
void settings_keep(struct settings_set *set, const struct settings_set *from, size_t id);

/* For check(): prefixes err, the fault of this setting, with the setting's place. Returns -code. */
int settings_blame(const struct settings_set *set, size_t id, struct err *err);

/* The action that was given by its deprecated flag, for a warning; NULL: none. */
const struct settings_command *settings_renamed(const struct settings_set *set);

/* The program's struct; belongs to the set. */
const void *settings_values(const struct settings_set *set);
enum setting_source settings_source(const struct settings_set *set, size_t id);
const char *settings_source_name(enum setting_source source);
/* The value as text, as in the YAML file. */
void settings_value(const struct settings_set *set, size_t id, char *out, size_t bytes);
/* --print-config: a YAML file that loads. */
void settings_print(struct strbuf *out, const struct settings_set *set);

/* Writes "--webhook-cert"; 80 bytes are enough. */
void setting_flag(const struct setting_info *info, char *out, size_t bytes);

#endif
