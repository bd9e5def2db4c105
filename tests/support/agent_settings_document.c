#include "support/agent_settings_document.h"

#include "agent/agent_settings_internal.h"
#include "support/document.h"

void agent_settings_markdown(struct strbuf *out)
{
    strbuf_str(out, "| flag | default | meaning |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < milligpu_node_settings.settings; i++) {
        char flag[80];
        setting_flag(&milligpu_node_settings.info[i], flag, sizeof flag);
        strbuf_printf(out, "| `%s` | %s | %s", flag, milligpu_node_settings.info[i].fallback,
                      milligpu_node_settings.info[i].help);
        agent_setting_bounds(out, &milligpu_node_settings.info[i]);
        strbuf_str(out, " |\n");
    }
}

/* ".B --flag WORD" and the sentence below it; the line does not end. */
static void man_flag(struct strbuf *out, const char *flag, const char *word, const char *help)
{
    strbuf_str(out, ".TP\n.B ");
    strbuf_roff(out, flag);
    if (word != NULL)
        strbuf_printf(out, " \\fI%s\\fR", word);
    strbuf_char(out, '\n');
    strbuf_roff(out, help);
}

static void man_setting(struct strbuf *out, const struct setting_info *setting)
{
    char flag[80];

    setting_flag(setting, flag, sizeof flag);
    man_flag(out, flag, agent_setting_word(setting), setting->help);
    agent_setting_bounds(out, setting);
    if (setting->fallback[0] != '\0') {
        strbuf_str(out, " (default ");
        strbuf_roff(out, setting->fallback);
        strbuf_char(out, ')');
    }
    strbuf_char(out, '\n');
}

/* strbuf_roff() escapes what comes from the tables; the constant parts are roff already. */
void agent_settings_man(struct strbuf *out)
{
    strbuf_str(out,
               ".\\\" Written by UPDATE=1 unit.agent.agent_settings from agent_settings.def.\n"
               ".TH MILLIGPU\\-NODE 8\n"
               ".SH NAME\n"
               "milligpu\\-node \\- gives the containers of one node the GPUs of their shares\n"
               ".SH SYNOPSIS\n"
               ".B milligpu\\-node \\-\\-node\n.I NAME\n.RI [ OPTIONS ]\n"
               ".SH DESCRIPTION\n"
               "milligpu\\-node is the agent of one node. It is a plugin of the container\n"
               "runtime, which asks it about each container. It gives the containers of a pod\n"
               "the GPUs of the allocation that milligpud signed, and no others.\n"
               ".SH OPTIONS\n"
               "Each option is also a variable: \\-\\-nri\\-socket is\n"
               "MILLIGPU_NODE_NRI_SOCKET. An option beats the variable. Each but\n"
               "\\-\\-config is also a key of the YAML file that \\-\\-config names\n"
               "(nri_socket), which the variable beats.\n");
    for (size_t i = 0; i < milligpu_node_settings.settings; i++)
        man_setting(out, &milligpu_node_settings.info[i]);
    for (size_t i = 0; i < milligpu_node_settings.n_commands; i++) {
        man_flag(out, milligpu_node_settings.command[i].flag,
                 milligpu_node_settings.command[i].value, milligpu_node_settings.command[i].help);
        strbuf_char(out, '\n');
    }
    strbuf_str(out,
               ".SH EXIT STATUS\n"
               "2 if an option, a variable or the settings file is wrong, 1 if the agent failed.\n"
               ".SH SEE ALSO\n.BR milligpud (8),\n.BR milligpuctl (1)\n");
}
