/*
 * Reads the settings of agent_settings.def. Called by main() before anything else.
 */
#include "milligpu/agent_settings.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "milligpu/text.h"

enum kind { KIND_TEXT, KIND_CHOICE, KIND_NUMBER };

#define KIND_OF_TEXT   KIND_TEXT
#define KIND_OF_CHOICE KIND_CHOICE
#define KIND_OF_NUMBER KIND_NUMBER

struct setting {
    const char *id;
    enum kind kind;
    size_t offset;
    const char *value; /* the default */
    int64_t low;
    int64_t high;
    const char *unit;
    const char *help;
};

static const struct setting settings[] = {
#define SETTING(id, type, value, low, high, unit, help)                                            \
    {#id, KIND_OF_##type, offsetof(struct agent_settings, id), value, low, high, unit, help},
#include "milligpu/agent_settings.def"
#undef SETTING
};

static const char PREFIX[] = "MILLIGPU_NODE_";
static const char NAME_LETTERS[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";

/* An id as a flag ("nri-socket") or as a variable ("NRI_SOCKET"): is it this name? */
static bool is_flag(const char *id, struct text name)
{
    if (strlen(id) != name.len)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] != (id[i] == '_' ? '-' : id[i]))
            return false;
    return true;
}

static bool is_variable(const char *id, struct text name)
{
    if (strlen(id) != name.len)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (text_lower(name.at[i]) != id[i] || (name.at[i] >= 'a' && name.at[i] <= 'z'))
            return false;
    return true;
}

static const struct setting *find(struct text name, bool (*is)(const char *id, struct text name))
{
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        if (is(settings[i].id, name))
            return &settings[i];
    return NULL;
}

static int set_number(const struct setting *setting, const char *where, const char *value,
                      int64_t *out, struct err *err)
{
    char *end = NULL;

    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number < setting->low ||
        number > setting->high)
        return err_set(err, ERR_INVALID, "%s: \"%.100s\" is no number from %lld to %lld", where,
                       value, (long long)setting->low, (long long)setting->high);
    *out = number;
    return 0;
}

static int set_choice(const struct setting *setting, const char *where, const char *value,
                      const char **out, struct err *err)
{
    struct text rest = text_of(setting->unit);
    struct text word;

    while (text_cut(&rest, ' ', &word))
        if (text_is(word, value)) {
            *out = value;
            return 0;
        }
    return err_set(err, ERR_INVALID, "%s: \"%.100s\" is none of: %s", where, value, setting->unit);
}

static int set(struct agent_settings *out, const struct setting *setting, const char *where,
               const char *value, struct err *err)
{
    void *field = (char *)out + setting->offset;

    switch (setting->kind) {
    case KIND_TEXT:
        *(const char **)field = value;
        return 0;
    case KIND_CHOICE:
        return set_choice(setting, where, value, field, err);
    case KIND_NUMBER:
        return set_number(setting, where, value, field, err);
    }
    must_not_reach("a setting has one of these kinds");
}

static int read_environment(char *const *envp, struct agent_settings *out, struct err *err)
{
    for (; *envp != NULL; envp++) {
        struct text rest = text_of(*envp);
        struct text name;
        if (!text_starts(rest, PREFIX) || !text_cut(&rest, '=', &name))
            continue;
        const struct text id = {name.at + strlen(PREFIX), name.len - strlen(PREFIX)};
        const struct setting *setting = find(id, is_variable);
        char where[100];
        text_clip(name, where, sizeof where);
        if (setting == NULL)
            return err_set(err, ERR_INVALID, "%s is no setting", where);
        if (set(out, setting, where, rest.at, err) < 0)
            return err_same(err);
    }
    return 0;
}

static const struct action {
    const char *flag;
    enum agent_action action;
    const char *value; /* what follows it; NULL: nothing */
    const char *help;
} actions[] = {
    {"--help", AGENT_HELP, NULL, "show this"},
    {"--version", AGENT_VERSION, NULL, "show the version"},
    {"--print-config", AGENT_PRINT, NULL, "show the settings that would be used"},
    {"--uninstall", AGENT_UNINSTALL, NULL,
     "write to the Node that its agent is uninstalled, then end: pods need none there any more"},
    {"--forgive", AGENT_FORGIVE, "GPU",
     "tell the agent that runs here (same --state-dir) that this GPU is healthy, whatever XIDs and "
     "memory errors it had, then end"},
    {"--release-driver", AGENT_RELEASE_DRIVER, NULL,
     "have the agent that runs here (same --state-dir) let go of the NVIDIA driver, so that its "
     "kernel modules can be unloaded; ends when it has"},
    {"--take-driver", AGENT_TAKE_DRIVER, NULL, "have it take the driver again, then end"},
    {"--prepare-mps", AGENT_PREPARE_MPS, NULL,
     "mount a tmpfs at --mps-shm, unless there is one, then end: before the agent starts"},
};

static bool is_action(char *const *argv, int *at, struct agent_settings *out,
                      enum agent_action *out_action)
{
    for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
        if (strcmp(argv[*at], actions[i].flag) != 0)
            continue;
        *out_action = actions[i].action;
        if (actions[i].value != NULL) {
            out->gpu = argv[*at + 1] != NULL ? argv[*at + 1] : "";
            *at += argv[*at + 1] != NULL;
        }
        return true;
    }
    return false;
}

/* One flag: "--id=value", or "--id" and its value in the next argument. */
static int read_flag(char *const *argv, int *at, struct agent_settings *out, struct err *err)
{
    struct text rest = text_of(argv[*at]);
    struct text name;
    char where[100];

    text_clip(rest, where, sizeof where);
    if (!text_starts(rest, "--"))
        return err_set(err, ERR_INVALID, "%s is no flag", where);
    (void)text_cut(&rest, '=', &name);
    text_clip(name, where, sizeof where);
    const bool joined = name.len < strlen(argv[*at]);
    const struct setting *setting = find((struct text){name.at + 2, name.len - 2}, is_flag);
    if (setting == NULL)
        return err_set(err, ERR_INVALID, "%s is no flag", where);
    if (joined)
        return set(out, setting, where, argv[*at] + name.len + 1, err);
    if (argv[*at + 1] == NULL)
        return err_set(err, ERR_INVALID, "%s needs a value", where);
    *at += 1;
    return set(out, setting, where, argv[*at], err);
}

static int check(const struct agent_settings *settings_read, struct err *err)
{
    static const struct {
        const char *flag;
        size_t offset;
    } needed[] = {
        {"node", offsetof(struct agent_settings, node)},
        {"nri-socket", offsetof(struct agent_settings, nri_socket)},
        {"state-dir", offsetof(struct agent_settings, state_dir)},
        {"keys-dir", offsetof(struct agent_settings, keys_dir)},
        {"cdi-dirs", offsetof(struct agent_settings, cdi_dirs)},
        {"mps-control", offsetof(struct agent_settings, mps_control)},
    };

    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (*(const char *const *)((const char *)settings_read + needed[i].offset) == NULL ||
            (*(const char *const *)((const char *)settings_read + needed[i].offset))[0] == '\0')
            return err_set(err, ERR_INVALID, "--%s is not set", needed[i].flag);
    /* It becomes part of a path and of what is signed. */
    if (settings_read->node[strspn(settings_read->node, NAME_LETTERS)] != '\0')
        return err_set(err, ERR_INVALID, "--node: \"%.100s\" is no name of a Node",
                       settings_read->node);
    if (settings_read->mps_dir[0] != '/')
        return err_set(err, ERR_INVALID, "--mps-dir: \"%.100s\" does not begin with /",
                       settings_read->mps_dir);
    if (settings_read->mps_shm[0] != '/')
        return err_set(err, ERR_INVALID, "--mps-shm: \"%.100s\" does not begin with /",
                       settings_read->mps_shm);
    if (strcmp(settings_read->mps, "off") != 0 && settings_read->nvml[0] == '\0')
        return err_set(err, ERR_INVALID,
                       "--mps: needs NVML, which tells the GPUs of the node, and --nvml is empty");
    return 0;
}

int agent_settings_load(int argc, char *const *argv, char *const *envp, struct agent_settings *out,
                        enum agent_action *out_action, struct err *err)
{
    *out = (struct agent_settings){0};
    *out_action = AGENT_RUN;
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        if (set(out, &settings[i], settings[i].id, settings[i].value, err) < 0)
            return err_same(err);
    if (read_environment(envp, out, err) < 0)
        return err_same(err);
    for (int i = 1; i < argc; i++)
        if (!is_action(argv, &i, out, out_action) && read_flag(argv, &i, out, err) < 0)
            return err_same(err);
    if (*out_action == AGENT_HELP || *out_action == AGENT_VERSION || *out_action == AGENT_PRINT)
        return 0;
    return check(out, err);
}

static void put_flag(struct strbuf *out, const char *id)
{
    strbuf_str(out, "--");
    for (const char *c = id; *c != '\0'; c++)
        strbuf_char(out, *c == '_' ? '-' : *c);
}

static void put_bounds(struct strbuf *out, const struct setting *setting)
{
    if (setting->kind == KIND_CHOICE)
        strbuf_printf(out, " (one of: %s)", setting->unit);
    if (setting->kind == KIND_NUMBER)
        strbuf_printf(out, " (%lld to %lld %s)", (long long)setting->low, (long long)setting->high,
                      setting->unit);
}

void agent_settings_markdown(struct strbuf *out)
{
    strbuf_str(out, "| flag | default | meaning |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        strbuf_str(out, "| `");
        put_flag(out, settings[i].id);
        strbuf_printf(out, "` | %s | %s", settings[i].value, settings[i].help);
        put_bounds(out, &settings[i]);
        strbuf_str(out, " |\n");
    }
}

void agent_settings_help(struct strbuf *out)
{
    strbuf_str(out, "milligpu-node - gives the containers of one node the GPUs of their pods' "
                    "allocations.\n\nusage: milligpu-node --node NAME [FLAG...]\n\n");
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        const struct setting *setting = &settings[i];
        strbuf_str(out, "  ");
        put_flag(out, setting->id);
        strbuf_printf(out, " %s\n        %s", setting->kind == KIND_NUMBER ? "N" : "TEXT",
                      setting->help);
        put_bounds(out, setting);
        strbuf_printf(out, "; default: %s\n", setting->value[0] != '\0' ? setting->value : "none");
    }
    strbuf_char(out, '\n');
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        strbuf_printf(out, "  %s%s%s\n        %s\n", actions[i].flag,
                      actions[i].value != NULL ? " " : "",
                      actions[i].value != NULL ? actions[i].value : "", actions[i].help);
    strbuf_printf(out, "\nEach flag is also a variable: --nri-socket is %sNRI_SOCKET. Flags win.\n",
                  PREFIX);
}

static void man_setting(struct strbuf *out, const struct setting *setting)
{
    strbuf_str(out, ".TP\n.B \\-\\-");
    for (const char *c = setting->id; *c != '\0'; c++)
        strbuf_str(out, *c == '_' ? "\\-" : (char[]){*c, '\0'});
    strbuf_printf(out, " \\fI%s\\fR\n", setting->kind == KIND_NUMBER ? "N" : "TEXT");
    strbuf_roff(out, setting->help);
    put_bounds(out, setting);
    if (setting->value[0] != '\0') {
        strbuf_str(out, " (default ");
        strbuf_roff(out, setting->value);
        strbuf_char(out, ')');
    }
    strbuf_char(out, '\n');
}

static void man_action(struct strbuf *out, const struct action *action)
{
    strbuf_str(out, ".TP\n.B ");
    strbuf_roff(out, action->flag);
    if (action->value != NULL)
        strbuf_printf(out, " \\fI%s\\fR", action->value);
    strbuf_char(out, '\n');
    strbuf_roff(out, action->help);
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
               "MILLIGPU_NODE_NRI_SOCKET. An option beats the variable.\n");
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        man_setting(out, &settings[i]);
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        man_action(out, &actions[i]);
    strbuf_str(out, ".SH EXIT STATUS\n"
                    "2 if an option or a variable is wrong, 1 if the agent failed.\n"
                    ".SH SEE ALSO\n.BR milligpud (8),\n.BR milligpuctl (1)\n");
}

void agent_settings_print(struct strbuf *out, const struct agent_settings *from)
{
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        const void *field = (const char *)from + settings[i].offset;
        strbuf_printf(out, "%s: ", settings[i].id);
        if (settings[i].kind == KIND_NUMBER)
            strbuf_printf(out, "%lld\n", (long long)*(const int64_t *)field);
        else
            strbuf_printf(out, "\"%s\"\n", *(const char *const *)field);
    }
}
