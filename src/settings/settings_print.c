/*
 * Settings as text: --help, --print-config, docs/CONFIG.md, the manual page. Called by main(),
 * daemon.c, the diagnostics and the test that keeps the documents equal to settings.def. All of
 * them walk the table in its order, so a new setting appears in each without further work.
 */
#include <stdio.h>
#include <string.h>

#include "settings/settings_internal.h"

/* In YAML, these must be written without quotes to keep their type for other tools. */
static bool print_is_bare(const struct setting_info *info)
{
    return info->type == SETTING_TYPE_BOOL || info->type == SETTING_TYPE_NUMBER;
}

/* Words are quoted as well, because many YAML readers take a bare "off" as a boolean. */
static void add_value(struct strbuf *out, enum setting_id id, const char *text)
{
    must(text != NULL);
    if (print_is_bare(setting_info(id)))
        strbuf_str(out, text);
    else
        strbuf_json(out, text_of(text));
}

/* " [1..64 threads]", " [refuse rebuild]", or nothing. */
static void add_range(struct strbuf *out, enum setting_id id, const char *open, const char *close)
{
    const struct setting_info *info = setting_info(id);

    must(open != NULL && close != NULL);
    if (info->type == SETTING_TYPE_NUMBER)
        strbuf_printf(out, "%s%u..%u %s%s", open, info->low, info->high, info->unit, close);
    else if (info->type == SETTING_TYPE_CHOICE)
        strbuf_printf(out, "%s%s%s", open, info->unit, close);
}

/* Comparable: daemon.c tells by these texts which settings changed at SIGHUP. */
void settings_value(const struct settings_set *set, enum setting_id id, char *out, size_t bytes)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(bytes > 0);
    strbuf_init(&text);
    add_value(&text, id, set->slot[id].text);
    text_clip((struct text){text.data, text.len}, out, bytes);
}

static void help_line(struct strbuf *out, enum setting_id id)
{
    const struct setting_info *info = setting_info(id);
    char flag[80];
    char usage[120];

    must(info->help[0] != '\0');
    setting_flag(id, flag, sizeof flag);
    (void)snprintf(usage, sizeof usage, "%s%s%s", flag, info->type == SETTING_TYPE_BOOL ? "" : " ",
                   info->type == SETTING_TYPE_BOOL ? "" : setting_word(id));
    strbuf_printf(out, "  %-28s  %s", usage, info->help);
    add_range(out, id, " [", "]");
    if (info->fallback[0] != '\0')
        strbuf_printf(out, " (default %s)", info->fallback);
    strbuf_char(out, '\n');
}

void settings_help(struct strbuf *out)
{
    must(out != NULL);
    strbuf_str(out,
               "milligpud - a kube-scheduler extender that places pods on fractions of GPUs\n\n"
               "usage: milligpud [--name VALUE]...\n");
    for (int id = 0; id < SETTINGS; id++) {
        if (setting_group((enum setting_id)id) != NULL)
            strbuf_printf(out, "\n%s:\n", setting_group((enum setting_id)id));
        help_line(out, (enum setting_id)id);
    }
    strbuf_str(
        out,
        "\n"
        "  --help                        print this help and exit\n"
        "  --version                     print version and commit and exit\n"
        "  --check-config                check the settings, report errors, and exit\n"
        "  --print-config                print the effective settings as a YAML file, and exit\n"
        "\n"
        "A flag may also be written --name=VALUE;\n"
        "a switch is --name, --name=false or --no-name.\n"
        "Each setting is also a key of the YAML file (webhook_listen) and a variable\n"
        "(MILLIGPU_WEBHOOK_LISTEN). A flag beats the variable, which beats the file.\n");
}

void settings_print(struct strbuf *out, const struct settings_set *set)
{
    for (int id = 0; id < SETTINGS; id++) {
        const struct setting_slot *slot = &set->slot[id];
        if (id == SETTING_config)
            continue; /* a file does not contain its own name */
        strbuf_printf(out, "%s: ", settings_name((enum setting_id)id));
        add_value(out, (enum setting_id)id, slot->text);
        /* The place may hold the name of a file, and a line end in it would end the comment. */
        if (slot->place != NULL && strchr(slot->place, '\n') == NULL)
            strbuf_printf(out, " # %s", slot->place);
        strbuf_char(out, '\n');
    }
}

static void markdown_row(struct strbuf *out, enum setting_id id)
{
    static const char *const types[] = {"text", "file", "address", "word", "true/false", "number"};
    const struct setting_info *info = setting_info(id);

    must(info->type < ARRAY_LEN(types));
    strbuf_printf(out, "| `%s` | %s", info->name, types[info->type]);
    add_range(out, id, ": ", "");
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
        "<!-- Written by UPDATE=1 build/dev/tests/unit.app.settings; do not edit. -->\n\n"
        "A setting is a flag (`--webhook-listen 127.0.0.1:8910`), a variable\n"
        "(`MILLIGPU_WEBHOOK_LISTEN`) or a key of the YAML file that `--config` names\n"
        "(`webhook_listen: 127.0.0.1:8910`). A flag beats the variable, which beats the\n"
        "file, which beats the default. `milligpud --check-config` reports errors with\n"
        "file and line; `milligpud --print-config` prints the effective settings and sources.\n"
        "SIGHUP reads the file again; settings without \"yes\" under reload need a restart.\n");
    for (int id = 0; id < SETTINGS; id++) {
        if (setting_group((enum setting_id)id) != NULL)
            strbuf_printf(out,
                          "\n## %s\n\n"
                          "| setting | type | default | reload | meaning |\n"
                          "|---|---|---|---|---|\n",
                          setting_group((enum setting_id)id));
        markdown_row(out, (enum setting_id)id);
    }
}

static void man_setting(struct strbuf *out, enum setting_id id)
{
    const struct setting_info *info = setting_info(id);
    char flag[80];

    setting_flag(id, flag, sizeof flag);
    strbuf_str(out, ".TP\n.B ");
    strbuf_roff(out, flag);
    if (info->type != SETTING_TYPE_BOOL)
        strbuf_printf(out, " \\fI%s\\fR", setting_word(id));
    strbuf_char(out, '\n');
    strbuf_roff(out, info->help);
    add_range(out, id, " [", "]");
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
        out, ".\\\" Written by UPDATE=1 unit.app.settings from settings.def.\n"
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
    for (int id = 0; id < SETTINGS; id++) {
        if (setting_group((enum setting_id)id) != NULL)
            strbuf_printf(out, ".SS %s\n", setting_group((enum setting_id)id));
        man_setting(out, (enum setting_id)id);
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
