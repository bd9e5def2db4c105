/*
 * settings_table - the settings of a program, each defined once in its table.
 *
 * Later sources win: default, YAML file, environment, flag. Anything wrong, including an unknown
 * key, is an error that names the place (file and line, variable, flag), the setting, and what
 * would be right. milligpud and milligpu-node hand in their tables (settings.h, agent_settings.h).
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

/* One line of the table; constant. */
struct setting_info {
    const char *name; /* the key in the file; flag and variable are made from it */
    const char *fallback;
    const char *unit; /* CHOICE: its words */
    const char *help;
    size_t offset; /* in the program's struct */
    enum setting_type type;
    /* NUMBER: both bounds are allowed values; 0 for other types */
    uint32_t low;
    uint32_t high;
    /* takes effect at SIGHUP, without a restart */
    bool reload;
};

/* A program may have actions of its own, behind these. */
enum settings_action {
    SETTINGS_RUN,
    SETTINGS_HELP,
    SETTINGS_VERSION,
    SETTINGS_CHECK,
    SETTINGS_PRINT
};

/* Settings with the source of each; strings live as long as the set, arguments are borrowed. */
struct settings_set;

/* A flag that chooses an action. */
struct settings_command {
    const char *flag;
    int action;
    const char *help;
    const char *value;   /* the word for its argument in --help; NULL: it takes none */
    size_t value_offset; /* const char * in the program's struct: the argument, "" if missing */
    const char *former;  /* the flag of earlier versions, accepted until the next; NULL: none */
};

/* What a program hands in; constant. */
struct settings_program {
    const struct setting_info *info;
    size_t settings;
    const struct settings_command *command;
    size_t commands;
    const char *prefix;                /* of variables: "MILLIGPU_" */
    const struct setting_info *config; /* names the file */
    size_t bytes;                      /* of the program's struct */
    /* Checks the rules between settings; each value is right by itself. */
    int (*check)(const struct settings_set *set, struct err *err);
    /* --print-config also shows settings that break such a rule. */
    bool prints_unchecked;
    /* Every variable with the prefix is a setting: others are errors, not only slips. */
    bool owns_prefix;
    /* The errors of flags and variables are milligpu-node's short ones. */
    bool terse;
};

/* What a program is started with. */
struct settings_input {
    int argc;
    char *const *argv;
    char *const *envp; /* "NAME=value", terminated by NULL; may be NULL */
};

/*
 * Reads flags, environment, and the file they name. *out and *out_action are written only on
 * success; the caller frees *out. SETTINGS_HELP and SETTINGS_VERSION win over other actions, and
 * need no file that can be read.
 */
int settings_table_load(const struct settings_program *program, const struct settings_input *input,
                        struct settings_set **out, int *out_action, struct err *err) MUST_USE;
void settings_free(struct settings_set *set);

/*
 * Takes over one setting from another set, with its source: it cannot change while the daemon runs.
 */
void settings_keep(struct settings_set *set, const struct settings_set *from, size_t id);

/* For check(): err says what is wrong with this setting. Puts its place before; returns -code. */
int settings_blame(const struct settings_set *set, size_t id, struct err *err);

/* The action that was given by its former flag, to be noted for people; NULL: none. */
const struct settings_command *settings_renamed(const struct settings_set *set);

/* The program's struct; belongs to the set. */
const void *settings_values(const struct settings_set *set);
enum setting_source settings_source(const struct settings_set *set, size_t id);
const char *settings_source_name(enum setting_source source);
/* The value as text, as in the YAML file. */
void settings_value(const struct settings_set *set, size_t id, char *out, size_t bytes);
/* --print-config: a YAML file that loads. */
void settings_print(struct strbuf *out, const struct settings_set *set);

/* "--webhook-cert"; 80 bytes are enough. */
void setting_flag(const struct setting_info *info, char *out, size_t bytes);

#endif
