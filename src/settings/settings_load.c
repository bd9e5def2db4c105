/*
 * Loads a set from defaults, file, environment and flags, in ascending precedence; the first error
 * ends the load. Called by main() of a program at the start, and by daemon.c at SIGHUP.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "settings_internal.h"

DEFINE_FREEP(struct settings_set, settings_free);

/* --- flags --- */

/* A walk over the command line; there are two, see settings_load_all(). */
struct flags {
    const struct settings_program *program;
    const struct settings_input *input;
    int at;
    int action;
    struct err *err;
};

struct flag {
    const struct setting_info *info;
    const char *text; /* NULL: the next argument, or true */
    bool no;          /* --no-advertise */
};

/* NULL at the end of the command line. */
static const char *next_argument(const struct flags *in)
{
    return in->at + 1 < in->input->argc ? in->input->argv[in->at + 1] : NULL;
}

static bool is_former(const struct settings_command *command, const char *flag)
{
    must(flag != NULL);
    return command->former != NULL && strcmp(flag, command->former) == 0;
}

/* --help and --version override other actions, because they work without a readable file. */
static bool take_action(struct flags *in, struct settings_set *set)
{
    const struct settings_command *command = in->program->command;
    const char *arg = in->input->argv[in->at];
    const struct settings_command *end = command + in->program->n_commands;

    must(arg != NULL);
    while (command < end && strcmp(arg, command->flag) != 0 && !is_former(command, arg))
        command++;
    if (command == end)
        return false;
    if (is_former(command, arg))
        set->renamed = command;
    if (in->action != SETTINGS_HELP && in->action != SETTINGS_VERSION)
        in->action = command->action;
    if (command->value != NULL) {
        const char *value = next_argument(in);
        *(const char **)((char *)set->values + command->value_offset) = value != NULL ? value : "";
        in->at += value != NULL;
    }
    return true;
}

/* Suggests the nearest flag. The argument is truncated and escaped for the terminal. */
static int unknown_flag(struct flags *in, const char *arg, struct text name)
{
    const struct setting_info *nearest = setting_nearest(in->program, name);
    char flag[80] = "";
    char shown[80];

    text_clip(in->program->terse && name.len > 0 ? (struct text){arg, name.len + 2} : text_of(arg),
              shown, sizeof shown);
    if (in->program->terse)
        return err_set(in->err, ERR_INVALID, "%s is no flag", shown);
    if (arg[0] != '-' || name.len == 0)
        return err_set(in->err, ERR_INVALID,
                       "\"%s\" is not a flag; settings are --name VALUE (see --help)", shown);
    if (nearest != NULL)
        setting_flag(nearest, flag, sizeof flag);
    return err_set(in->err, ERR_INVALID, "%s: unknown flag%s%s%s", shown,
                   nearest != NULL ? "; did you mean " : "", flag,
                   nearest != NULL ? "?" : " (see --help)");
}

/* "--name", "--name=text", "--no-name". */
static int parse_flag(struct flags *in, struct flag *out)
{
    const char *arg = in->input->argv[in->at];
    struct text name = {NULL, 0};

    must(arg != NULL);
    *out = (struct flag){0};
    if (strncmp(arg, "--", 2) == 0) {
        const char *equals = strchr(arg, '=');
        name =
            (struct text){arg + 2, equals != NULL ? (size_t)(equals - arg - 2) : strlen(arg) - 2};
        out->text = equals != NULL ? equals + 1 : NULL;
        out->info = setting_find(in->program, name, '-');
    }
    /* After the exact match, so that a setting named "no-..." keeps its flag. */
    if (out->info == NULL && text_starts(name, "no-") && out->text == NULL) {
        const struct text rest = {name.at + 3, name.len - 3};
        out->info = setting_find(in->program, rest, '-');
        out->no = true;
        if (out->info != NULL && out->info->type != SETTING_TYPE_BOOL)
            out->info = NULL;
    }
    if (out->info == NULL)
        return unknown_flag(in, arg, name.at != NULL ? name : TEXT(""));
    return 0;
}

/* An argument that begins with "--" is the next flag: a missing value must not swallow it. */
static int flag_text(struct flags *in, struct flag *flag)
{
    const char *arg = in->input->argv[in->at];
    const char *next = next_argument(in);

    must(flag->info != NULL);
    if (flag->text != NULL)
        return 0;
    if (flag->info->type == SETTING_TYPE_BOOL) {
        flag->text = flag->no ? "false" : "true";
        return 0;
    }
    must(!flag->no);
    if (next == NULL || strncmp(next, "--", 2) == 0)
        return in->program->terse ? err_set(in->err, ERR_INVALID, "%s needs a value", arg)
                                  : err_set(in->err, ERR_INVALID, "%s needs a value: %s %s", arg,
                                            arg, setting_word(flag->info));
    flag->text = next;
    in->at++;
    return 0;
}

/* Puts each flag into set; only_config: only the actions and the flag that names the file. */
static int read_flags(struct flags *in, struct settings_set *set, bool only_config)
{
    must(in->input->argc >= 0);
    for (in->at = 1; in->at < in->input->argc; in->at++) {
        struct flag flag;
        char place[80];

        if (take_action(in, set))
            continue;
        int rc = parse_flag(in, &flag);
        if (rc == 0)
            rc = flag_text(in, &flag);
        if (rc < 0)
            return rc;
        if (only_config && flag.info != in->program->config)
            continue;
        /* Errors show the flag's full name, without value or "no-". */
        setting_flag(flag.info, place, sizeof place);
        rc = setting_put(set, flag.info, SETTING_FLAG, flag.text, place, in->err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- environment --- */

/* NULL if unset; of several equal names the last one counts, as in a shell. */
static const char *find_variable(char *const *envp, const char *name)
{
    const size_t len = strlen(name);
    const char *found = NULL;

    must(len > 0);
    for (; envp != NULL && *envp != NULL; envp++)
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
            found = *envp + len + 1;
    return found;
}

/* An empty variable counts as set: an empty text, or an error for a number. */
static int read_variable(struct settings_set *set, const struct setting_info *info,
                         char *const *envp, struct err *err)
{
    char name[80];

    setting_variable(set->program, info, name, sizeof name);
    const char *text = find_variable(envp, name);
    if (text == NULL)
        return 0;
    return setting_put(set, info, SETTING_ENVIRONMENT, text, name, err);
}

static int unknown_variable(const struct settings_program *program, struct text name,
                            const char *meant, struct err *err)
{
    char shown[100];

    text_clip(name, shown, sizeof shown);
    if (program->terse)
        return err_set(err, ERR_INVALID, "%s is no setting", shown);
    return err_set(err, ERR_INVALID, "%s: unknown variable; did you mean %s?", shown, meant);
}

/*
 * Refuses a variable that looks like a mistyped setting; with owns_prefix, any unknown variable.
 * Others set MILLIGPU_... as well: kubelet for a Service of this name, and builds.
 */
static int refuse_slips(const struct settings_program *program, char *const *envp, struct err *err)
{
    must(err != NULL);
    for (; envp != NULL && *envp != NULL; envp++) {
        const struct text name = {*envp, strcspn(*envp, "=")};
        const size_t skip = strlen(program->prefix);
        char meant[80] = "";
        if (!text_starts(name, program->prefix))
            continue;
        const struct setting_info *nearest =
            setting_nearest(program, (struct text){name.at + skip, name.len - skip});
        if (nearest == NULL && !program->owns_prefix)
            continue;
        if (nearest != NULL)
            setting_variable(program, nearest, meant, sizeof meant);
        if (!text_is(name, meant))
            return unknown_variable(program, name, meant, err);
    }
    return 0;
}

/* Known variables first, so that an invalid value is reported before a mistyped name. */
static int read_environment(struct settings_set *set, char *const *envp, struct err *err)
{
    must(set != NULL);
    for (size_t id = 0; id < set->program->settings; id++) {
        const int rc = read_variable(set, &set->program->info[id], envp, err);
        if (rc < 0)
            return rc;
    }
    return refuse_slips(set->program, envp, err);
}

/* --- load --- */

/*
 * Reads the flags twice: first for file and actions, then after file and environment. --help and
 * --version return before any file is read.
 */
static int settings_load_all(struct flags *flags, struct settings_set *set)
{
    /* A separate set for the file's name: the file must be read before environment and flags. */
    CLEANUP(settings_freep) struct settings_set *named = settings_defaults(flags->program);
    const struct setting_info *config = flags->program->config;
    char *const *envp = flags->input->envp;
    int rc = read_variable(named, config, envp, flags->err);

    must(flags->action == SETTINGS_RUN);
    if (rc == 0)
        rc = read_flags(flags, named, true);
    if (rc < 0 || flags->action == SETTINGS_HELP || flags->action == SETTINGS_VERSION)
        return rc;
    const char *file = named->slot[config - flags->program->info].text;
    if (file[0] != '\0')
        rc = settings_read_file(set, file, flags->err);
    if (rc == 0)
        rc = read_environment(set, envp, flags->err);
    if (rc == 0)
        rc = read_flags(flags, set, false);
    if (rc == 0 && (flags->action != SETTINGS_PRINT || !flags->program->prints_unchecked))
        rc = flags->program->check(set, flags->err);
    return rc;
}

int settings_table_load(const struct settings_program *program, const struct settings_input *input,
                        struct settings_set **out, int *out_action, struct err *err)
{
    CLEANUP(settings_freep) struct settings_set *set = settings_defaults(program);
    struct flags flags = {.program = program, .input = input, .action = SETTINGS_RUN, .err = err};

    const int rc = settings_load_all(&flags, set);
    if (rc < 0)
        return rc;
    *out = STEAL(set);
    *out_action = flags.action;
    return 0;
}
