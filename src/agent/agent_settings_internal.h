/*
 * agent_settings_internal - the table of milligpu-node's settings, and one of them for people.
 */
#ifndef MILLIGPU_AGENT_AGENT_SETTINGS_INTERNAL_H
#define MILLIGPU_AGENT_AGENT_SETTINGS_INTERNAL_H

#include "milligpu/agent/agent_settings.h"

extern const struct settings_program milligpu_node_settings;

/* "N", "TEXT": the argument of the flag. */
const char *agent_setting_word(const struct setting_info *setting);
/* " (1 to 64 threads)", " (one of: off on)", or nothing. */
void agent_setting_bounds(struct strbuf *out, const struct setting_info *setting);

#endif
