/*
 * settings - every setting, defined once.
 *
 * Later sources win: default, YAML file, environment, flag. Anything wrong, including an unknown
 * key, is an error that names the place (file and line, variable, flag), the setting, and what
 * would be right.
 */
#ifndef MILLIGPU_SETTINGS_H
#define MILLIGPU_SETTINGS_H

#include "milligpu/err.h"
#include "milligpu/strbuf.h"

#define SETTING_FIELD_TEXT(id)    const char *id;
#define SETTING_FIELD_FILE(id)    const char *id;
#define SETTING_FIELD_ADDRESS(id) const char *id;
#define SETTING_FIELD_CHOICE(id)  const char *id;
#define SETTING_FIELD_BOOL(id)    bool id;
#define SETTING_FIELD_NUMBER(id)  uint32_t id;

enum setting_source { SETTING_DEFAULT, SETTING_YAML, SETTING_ENVIRONMENT, SETTING_FLAG };

struct settings {
#define SETTING(id, type, fallback, low, high, reload, unit, help) SETTING_FIELD_##type(id)
#include "milligpu/settings.def"
#undef SETTING
};

enum setting_id {
#define SETTING(id, type, fallback, low, high, reload, unit, help) SETTING_##id,
#include "milligpu/settings.def"
#undef SETTING
    SETTINGS
};

/* Settings with the source of each; strings live as long as the set. */
struct settings_set;

enum settings_action {
    SETTINGS_RUN,
    SETTINGS_HELP,
    SETTINGS_VERSION,
    SETTINGS_CHECK,
    SETTINGS_PRINT
};

/* Flags, environment (envp, "NAME=value" terminated by NULL), and the file they name. */
int settings_load(int argc, char *const *argv, char *const *envp, struct settings_set **out,
                  enum settings_action *out_action, struct err *err) MUST_USE;
/* Reads one YAML file: for `milligpuctl check-config`. out may be NULL. */
int settings_check_file(const char *file, struct settings_set **out, struct err *err) MUST_USE;
void settings_free(struct settings_set *set);

/*
 * Takes over one setting from another set, with its source: it cannot change while the daemon runs.
 */
void settings_keep(struct settings_set *set, const struct settings_set *from, enum setting_id id);

const struct settings *settings_get(const struct settings_set *set);
enum setting_source settings_source(const struct settings_set *set, enum setting_id id);
const char *settings_name(enum setting_id id);
const char *settings_source_name(enum setting_source source);
bool settings_reloadable(enum setting_id id);
/* The value as text, as in the YAML file. */
void settings_value(const struct settings_set *set, enum setting_id id, char *out, size_t bytes);

void settings_help(struct strbuf *out); /* --help */
/* --print-config: a YAML file that loads. */
void settings_print(struct strbuf *out, const struct settings_set *set);
void settings_markdown(struct strbuf *out); /* docs/CONFIG.md */
void settings_man(struct strbuf *out);      /* docs/man/milligpud.8 */

#endif
