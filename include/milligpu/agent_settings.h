/*
 * agent_settings - the settings of milligpu-node, each defined once in agent_settings.def.
 *
 * Later sources win: default, environment, flag. Anything wrong, including an unknown flag or
 * variable of ours, is an error that names it and what would be right.
 */
#ifndef MILLIGPU_AGENT_SETTINGS_H
#define MILLIGPU_AGENT_SETTINGS_H

#include "milligpu/err.h"
#include "milligpu/strbuf.h"

#define AGENT_FIELD_TEXT(id)   const char *id;
#define AGENT_FIELD_CHOICE(id) const char *id;
#define AGENT_FIELD_NUMBER(id) int64_t id;

/* Texts are borrowed from argv and environ. */
struct agent_settings {
#define SETTING(id, type, value, low, high, unit, help) AGENT_FIELD_##type(id)
#include "milligpu/agent_settings.def"
#undef SETTING
    const char *gpu; /* with AGENT_FORGIVE */
};

enum agent_action {
    AGENT_RUN,
    AGENT_UNINSTALL,
    AGENT_FORGIVE,
    AGENT_RELEASE_DRIVER,
    AGENT_TAKE_DRIVER,
    AGENT_PREPARE_MPS,
    AGENT_HELP,
    AGENT_VERSION,
    AGENT_PRINT,
};

int agent_settings_load(int argc, char *const *argv, char *const *envp, struct agent_settings *out,
                        enum agent_action *out_action, struct err *err) MUST_USE;
void agent_settings_help(struct strbuf *out);
void agent_settings_markdown(struct strbuf *out); /* a table of docs/NODE_REFERENCE.md */
void agent_settings_man(struct strbuf *out);      /* docs/man/milligpu-node.8 */
void agent_settings_print(struct strbuf *out, const struct agent_settings *from);

#endif
