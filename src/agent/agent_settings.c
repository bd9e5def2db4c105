/*
 * Defines and checks the settings of milligpu-node, and writes its --help. Called by main() before
 * anything else.
 */
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#include "milligpu/base/text.h"

#include "agent/gpu/cdi.h"
#include "agent_settings_internal.h"

static const struct setting_info settings[] = {
#define SETTING(id, type, value, low, high, unit, help)                                            \
    {#id, value, unit, help, offsetof(struct agent_settings, id), SETTING_TYPE_##type,             \
     low, high,  false},
#include "milligpu/agent/agent_settings.def"
#undef SETTING
};

enum agent_setting {
#define SETTING(id, type, value, low, high, unit, help) AGENT_SETTING_##id,
#include "milligpu/agent/agent_settings.def"
#undef SETTING
};

/* The agent appends names of files, all shorter than the rest of driver_release.c's PATH_BYTES. */
enum { STATE_DIR_BYTES_MAX = 400 };

static const char PREFIX[] = "MILLIGPU_NODE_";
static const char NAME_LETTERS[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";

static const struct settings_command actions[] = {
    {"--help", AGENT_HELP, "show this", NULL, 0, NULL},
    {"--version", AGENT_VERSION, "show the version", NULL, 0, NULL},
    {"--check-config", AGENT_CHECK, "check the settings, report errors, then exit", NULL, 0, NULL},
    {"--print-config", AGENT_PRINT, "show the settings that would be used", NULL, 0, NULL},
    {"--uninstall", AGENT_UNINSTALL,
     "mark the agent of the Node as uninstalled, then exit: its pods need no agent any more", NULL,
     0, NULL},
    {"--clear-fault", AGENT_CLEAR_FAULT,
     "make the running agent (same --state-dir) count this GPU as healthy again despite XIDs and "
     "memory errors, then exit",
     "GPU", offsetof(struct agent_settings, gpu), "--forgive"},
    {"--release-driver", AGENT_RELEASE_DRIVER,
     "make the running agent (same --state-dir) release the NVIDIA driver, so that its "
     "kernel modules can be unloaded; exits when done",
     NULL, 0, NULL},
    {"--take-driver", AGENT_TAKE_DRIVER, "make it open the driver again, then exit", NULL, 0, NULL},
    {"--prepare-mps", AGENT_PREPARE_MPS,
     "mount a tmpfs at --mps-shm, unless there is one, then exit: before the agent starts", NULL, 0,
     NULL},
};

static const char *text_at(const struct settings_set *set, enum agent_setting id)
{
    return *(const char *const *)((const char *)settings_values(set) + settings[id].offset);
}

static int agent_broken(const struct settings_set *set, enum agent_setting id, const char *what,
                        struct err *err)
{
    (void)err_set(err, ERR_INVALID, "\"%.100s\" %s", text_at(set, id), what);
    return settings_blame(set, id, err);
}

static int check_path(const struct settings_set *set, enum agent_setting id, const char *what,
                      size_t max, struct err *err)
{
    if (strlen(text_at(set, id)) <= max)
        return 0;
    (void)err_set(err, ERR_INVALID, "%s path has at most %zu bytes", what, max);
    return settings_blame(set, id, err);
}

/* Limits of the agent: number of CDI folders, length of its folder's and the socket's path. */
static int check_lengths(const struct settings_set *set, struct err *err)
{
    const size_t socket_max = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
    struct text rest = text_of(text_at(set, AGENT_SETTING_cdi_dirs));
    struct text one;
    size_t folders = 0;

    while (text_cut(&rest, ',', &one))
        folders++;
    if (folders > CDI_FOLDERS_MAX) {
        (void)err_set(err, ERR_INVALID, "more than %d folders", CDI_FOLDERS_MAX);
        return settings_blame(set, AGENT_SETTING_cdi_dirs, err);
    }
    if (check_path(set, AGENT_SETTING_state_dir, "this folder's", STATE_DIR_BYTES_MAX, err) < 0)
        return err_same(err);
    return check_path(set, AGENT_SETTING_nri_socket, "a socket's", socket_max, err);
}

static int check(const struct settings_set *set, struct err *err)
{
    static const enum agent_setting needed[] = {AGENT_SETTING_node,      AGENT_SETTING_nri_socket,
                                                AGENT_SETTING_state_dir, AGENT_SETTING_keys_dir,
                                                AGENT_SETTING_cdi_dirs,  AGENT_SETTING_mps_control};
    const struct agent_settings *values = settings_values(set);
    char flag[80];

    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        setting_flag(&settings[needed[i]], flag, sizeof flag);
        if (text_at(set, needed[i])[0] == '\0')
            return err_set(err, ERR_INVALID, "%s is not set", flag);
    }
    /* The name becomes part of a URL path and of signed data. */
    if (values->node[strspn(values->node, NAME_LETTERS)] != '\0')
        return agent_broken(set, AGENT_SETTING_node, "is no name of a Node", err);
    if (values->mps_dir[0] != '/')
        return agent_broken(set, AGENT_SETTING_mps_dir, "does not begin with /", err);
    if (values->mps_shm[0] != '/')
        return agent_broken(set, AGENT_SETTING_mps_shm, "does not begin with /", err);
    if (strcmp(values->mps, "off") != 0 && values->nvml[0] == '\0') {
        (void)err_set(err, ERR_INVALID,
                      "needs NVML, which tells the GPUs of the node, and --nvml is empty");
        return settings_blame(set, AGENT_SETTING_mps, err);
    }
    return check_lengths(set, err);
}

const struct settings_program milligpu_node_settings = {
    .info = settings,
    .settings = ARRAY_LEN(settings),
    .command = actions,
    .n_commands = ARRAY_LEN(actions),
    .prefix = PREFIX,
    .config = &settings[AGENT_SETTING_config],
    .bytes = sizeof(struct agent_settings),
    .check = check,
    .prints_unchecked = true,
    .owns_prefix = true,
    .terse = true,
};

int agent_settings_load(int argc, char *const *argv, char *const *envp, struct settings_set **out,
                        enum agent_action *out_action, struct err *err)
{
    const struct settings_input input = {argc, argv, envp};
    int action = AGENT_RUN;

    const int rc = settings_table_load(&milligpu_node_settings, &input, out, &action, err);
    *out_action = (enum agent_action)action;
    return rc;
}

const char *agent_setting_word(const struct setting_info *setting)
{
    return setting->type == SETTING_TYPE_NUMBER ? "N" : "TEXT";
}

void agent_setting_bounds(struct strbuf *out, const struct setting_info *setting)
{
    if (setting->type == SETTING_TYPE_CHOICE)
        strbuf_printf(out, " (one of: %s)", setting->unit);
    if (setting->type == SETTING_TYPE_NUMBER)
        strbuf_printf(out, " (%u to %u %s)", setting->low, setting->high, setting->unit);
}

void agent_settings_help(struct strbuf *out)
{
    strbuf_str(out, "milligpu-node - gives the containers of one node the GPUs of their pods' "
                    "allocations.\n\nusage: milligpu-node --node NAME [FLAG...]\n\n");
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        const struct setting_info *setting = &settings[i];
        char flag[80];
        setting_flag(setting, flag, sizeof flag);
        strbuf_printf(out, "  %s %s\n        %s", flag, agent_setting_word(setting), setting->help);
        agent_setting_bounds(out, setting);
        strbuf_printf(out, "; default: %s\n",
                      setting->fallback[0] != '\0' ? setting->fallback : "none");
    }
    strbuf_char(out, '\n');
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        strbuf_printf(out, "  %s%s%s\n        %s\n", actions[i].flag,
                      actions[i].value != NULL ? " " : "",
                      actions[i].value != NULL ? actions[i].value : "", actions[i].help);
    strbuf_printf(out,
                  "\nEach flag is also a variable: --nri-socket is %sNRI_SOCKET. Flags win.\n"
                  "Each but --config is also a key of the file that --config names: nri_socket.\n"
                  "A variable beats the file.\n",
                  PREFIX);
}
