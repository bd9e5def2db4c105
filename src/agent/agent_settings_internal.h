/*
 * agent_settings_internal - the table of milligpu-node's settings, and help texts of one setting.
 */
#ifndef MILLIGPU_AGENT_AGENT_SETTINGS_INTERNAL_H
#define MILLIGPU_AGENT_AGENT_SETTINGS_INTERNAL_H

#include "milligpu/agent/agent_settings.h"

extern const struct settings_program milligpu_node_settings;

/* The placeholder of the flag's argument: "N" or "TEXT". */
const char *agent_setting_word(const struct setting_info *setting);
/* Appends the allowed values: " (1 to 64 threads)", " (one of: off on)", or nothing. */
void agent_setting_bounds(struct strbuf *out, const struct setting_info *setting);

#endif
