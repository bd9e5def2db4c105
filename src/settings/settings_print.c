/* Prints --help of milligpud from the table. Called by main(). */
#include <stdio.h>
#include <string.h>

#include "settings_internal.h"

/* The table's rows in order: the title of each group, NULL for each setting. */
static const char *const titles[] = {
#define SETTING(id, type, fallback, low, high, reload, unit, help) NULL,
#define SETTING_GROUP(title)                                       title,
#include "milligpu/settings/settings.def"
#undef SETTING
};

const char *setting_group(size_t id)
{
    size_t at = 0;

    must(id < SETTINGS);
    for (size_t settings = 0; settings < id; at++)
        settings += titles[at] == NULL;
    must(at < ARRAY_LEN(titles));
    return titles[at];
}

void setting_range(struct strbuf *out, const struct setting_info *info, const char *open,
                   const char *close)
{
    must(open != NULL && close != NULL);
    if (info->type == SETTING_TYPE_NUMBER)
        strbuf_printf(out, "%s%u..%u %s%s", open, info->low, info->high, info->unit, close);
    else if (info->type == SETTING_TYPE_CHOICE)
        strbuf_printf(out, "%s%s%s", open, info->unit, close);
}

static void help_line(struct strbuf *out, const struct setting_info *info)
{
    char flag[80];
    char usage[120];

    must(info->help[0] != '\0');
    setting_flag(info, flag, sizeof flag);
    (void)snprintf(usage, sizeof usage, "%s%s%s", flag, info->type == SETTING_TYPE_BOOL ? "" : " ",
                   info->type == SETTING_TYPE_BOOL ? "" : setting_word(info));
    strbuf_printf(out, "  %-28s  %s", usage, info->help);
    setting_range(out, info, " [", "]");
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
    for (size_t id = 0; id < SETTINGS; id++) {
        if (setting_group(id) != NULL)
            strbuf_printf(out, "\n%s:\n", setting_group(id));
        help_line(out, &milligpud_settings.info[id]);
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
