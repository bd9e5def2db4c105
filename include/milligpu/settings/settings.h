/*
 * settings - the settings of milligpud, defined in settings.def, loaded by settings_table.h.
 */
#ifndef MILLIGPU_SETTINGS_H
#define MILLIGPU_SETTINGS_H

#include "milligpu/settings/settings_table.h"

struct settings {
#define SETTING(id, type, fallback, low, high, reload, unit, help) SETTING_FIELD_##type(id)
#include "milligpu/settings/settings.def"
#undef SETTING
};

enum setting_id {
#define SETTING(id, type, fallback, low, high, reload, unit, help) SETTING_##id,
#include "milligpu/settings/settings.def"
#undef SETTING
    SETTINGS
};

/* settings_table_load() with the settings of milligpud. */
int settings_load(int argc, char *const *argv, char *const *envp, struct settings_set **out,
                  enum settings_action *out_action, struct err *err) MUST_USE;
/* Reads one YAML file: for `milligpuctl check-config`. out may be NULL. */
int settings_check_file(const char *file, struct settings_set **out, struct err *err) MUST_USE;

/* The values; belongs to the set. */
const struct settings *settings_get(const struct settings_set *set);
const char *settings_name(enum setting_id id);
bool settings_reloadable(enum setting_id id);

void settings_help(struct strbuf *out); /* --help */

#endif
