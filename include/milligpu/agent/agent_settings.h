/*
 * agent_settings - the settings of milligpu-node, each defined once in agent_settings.def and read
 * by settings_table.h.
 */
#ifndef MILLIGPU_AGENT_SETTINGS_H
#define MILLIGPU_AGENT_SETTINGS_H

#include "milligpu/settings/settings_table.h"

/* The settings_values() of a set from agent_settings_load(). */
struct agent_settings {
#define SETTING(id, type, value, low, high, unit, help) SETTING_FIELD_##type(id)
#include "milligpu/agent/agent_settings.def"
#undef SETTING
    const char *gpu; /* UUID, with AGENT_CLEAR_FAULT */
};

enum agent_action {
    AGENT_RUN = SETTINGS_RUN,
    AGENT_HELP = SETTINGS_HELP,
    AGENT_VERSION = SETTINGS_VERSION,
    AGENT_CHECK = SETTINGS_CHECK,
    AGENT_PRINT = SETTINGS_PRINT,
    AGENT_UNINSTALL,
    AGENT_CLEAR_FAULT,
    AGENT_RELEASE_DRIVER,
    AGENT_TAKE_DRIVER,
    AGENT_PREPARE_MPS,
};

/* Like settings_table_load(). */
int agent_settings_load(int argc, char *const *argv, char *const *envp, struct settings_set **out,
                        enum agent_action *out_action, struct err *err) MUST_USE;
void agent_settings_help(struct strbuf *out);

#endif
