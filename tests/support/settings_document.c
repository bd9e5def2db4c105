#include "support/settings_document.h"

#include "settings/settings_internal.h"
#include "support/document.h"

static void markdown_row(struct strbuf *out, const struct setting_info *info)
{
    static const char *const types[] = {"text", "file", "address", "word", "true/false", "number"};

    must(info->type < ARRAY_LEN(types));
    strbuf_printf(out, "| `%s` | %s", info->name, types[info->type]);
    setting_range(out, info, ": ", "");
    if (info->fallback[0] != '\0')
        strbuf_printf(out, " | `%s` |", info->fallback);
    else
        strbuf_str(out, " | |");
    strbuf_printf(out, " %s | %s |\n", info->reload ? "yes" : "", info->help);
}

void settings_markdown(struct strbuf *out)
{
    must(out != NULL);
    strbuf_str(
        out,
        "# Settings of milligpud\n\n"
        "<!-- Written by UPDATE=1 build/dev/tests/unit.settings.settings; do not edit. -->\n\n"
        "A setting is a flag (`--webhook-listen 127.0.0.1:8910`), a variable\n"
        "(`MILLIGPU_WEBHOOK_LISTEN`) or a key of the YAML file that `--config` names\n"
        "(`webhook_listen: 127.0.0.1:8910`). A flag beats the variable, which beats the\n"
        "file, which beats the default. `milligpud --check-config` reports errors with\n"
        "file and line; `milligpud --print-config` prints the effective settings and sources.\n"
        "SIGHUP reads the file again; settings without \"yes\" under reload need a restart.\n");
    for (size_t id = 0; id < SETTINGS; id++) {
        if (setting_group(id) != NULL)
            strbuf_printf(out,
                          "\n## %s\n\n"
                          "| setting | type | default | reload | meaning |\n"
                          "|---|---|---|---|---|\n",
                          setting_group(id));
        markdown_row(out, &milligpud_settings.info[id]);
    }
}

static void man_setting(struct strbuf *out, const struct setting_info *info)
{
    char flag[80];

    setting_flag(info, flag, sizeof flag);
    strbuf_str(out, ".TP\n.B ");
    strbuf_roff(out, flag);
    if (info->type != SETTING_TYPE_BOOL)
        strbuf_printf(out, " \\fI%s\\fR", setting_word(info));
    strbuf_char(out, '\n');
    strbuf_roff(out, info->help);
    setting_range(out, info, " [", "]");
    if (info->fallback[0] != '\0') {
        strbuf_str(out, " (default ");
        strbuf_roff(out, info->fallback);
        strbuf_char(out, ')');
    }
    strbuf_char(out, '\n');
}

/* strbuf_roff() escapes what comes from settings.def; the constant parts are roff already. */
void settings_man(struct strbuf *out)
{
    strbuf_str(
        out, ".\\\" Written by UPDATE=1 unit.settings.settings from settings.def.\n"
             ".TH MILLIGPUD 8\n"
             ".SH NAME\n"
             "milligpud \\- a kube\\-scheduler extender that places pods on fractions of GPUs\n"
             ".SH SYNOPSIS\n"
             ".B milligpud\n.RI [ OPTIONS ]\n"
             ".SH DESCRIPTION\n"
             "milligpud is a scheduler extender. It answers filter, prioritize, bind and preempt\n"
             "from a ledger of fractional GPUs, which it keeps in SQLite and reconciles with the\n"
             "API server.\n"
             ".SH OPTIONS\n"
             "Each setting is also a key of the YAML file that\n.B \\-\\-config\nnames "
             "(webhook_listen) and a variable (MILLIGPU_WEBHOOK_LISTEN).\n"
             "A flag beats the variable, which beats the file, which beats the default.\n");
    for (size_t id = 0; id < SETTINGS; id++) {
        if (setting_group(id) != NULL)
            strbuf_printf(out, ".SS %s\n", setting_group(id));
        man_setting(out, &milligpud_settings.info[id]);
    }
    strbuf_str(out,
               ".SS Other options\n.TP\n.B \\-\\-help\nlist the options\n"
               ".TP\n.B \\-\\-version\nprint version and commit\n"
               ".TP\n.B \\-\\-check\\-config\nread the settings, report errors, and exit\n"
               ".TP\n.B \\-\\-print\\-config\nprint the effective settings as a file for "
               "\\-\\-config\n"
               ".SH SIGNALS\n"
               "SIGTERM ends milligpud after the binds in flight. SIGHUP reads the settings and\n"
               "certificates again.\n"
               ".SH SEE ALSO\n.BR milligpuctl (1)\n");
}
