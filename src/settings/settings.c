/*
 * The set of settings from defaults, file, environment and flags, and the rules between settings.
 * Called by main() at the start, by daemon.c at SIGHUP, both on the main thread, and by milligpuctl
 * check-config. A set never changes once it is loaded, so all threads read it without a lock;
 * SIGHUP loads another, and settings that cannot change are kept from the old one. Sources come in
 * ascending rank, the rules between settings last; the first error ends the load and names its
 * place.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/http.h"
#include "milligpu/limits.h"

#include "settings/settings_internal.h"

/* --- the set --- */

void settings_free(struct settings_set *set)
{
    if (set == NULL)
        return;
    for (int id = 0; id < SETTINGS; id++) {
        xfree(set->slot[id].text);
        xfree(set->slot[id].place);
    }
    xfree(set);
}

DEFINE_FREEP(struct settings_set, settings_free);

void settings_keep(struct settings_set *set, const struct settings_set *from, enum setting_id id)
{
    const struct setting_slot *slot = &from->slot[id];
    struct err err;

    must(set != from);
    /* the setting that is kept may have a lower rank than the one it replaces */
    set->slot[id].source = SETTING_DEFAULT;
    /* It was checked when it was loaded. */
    must(setting_put(set, id, slot->source, slot->text, slot->place, &err) == 0);
}

const struct settings *settings_get(const struct settings_set *set)
{
    return &set->values;
}

enum setting_source settings_source(const struct settings_set *set, enum setting_id id)
{
    must((size_t)id < SETTINGS);
    return set->slot[id].source;
}

/* --- flags --- */

/* The command line while it is walked; twice, see settings_load_all(). */
struct flags {
    int argc;
    char *const *argv;
    int at;
    enum settings_action action;
    struct err *err;
};

struct flag {
    enum setting_id id;
    const char *text; /* NULL: the next argument, or true */
    bool no;          /* --no-advertise */
};

/* --help and --version win over the other actions: they need no file that can be read. */
static bool take_action(const char *arg, enum settings_action *action)
{
    static const struct {
        const char *flag;
        enum settings_action action;
    } actions[] = {
        {"-h", SETTINGS_HELP},
        {"--help", SETTINGS_HELP},
        {"--version", SETTINGS_VERSION},
        {"--check-config", SETTINGS_CHECK},
        {"--print-config", SETTINGS_PRINT},
    };

    must(arg != NULL);
    for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
        if (strcmp(arg, actions[i].flag) != 0)
            continue;
        /* these need nothing else */
        if (*action != SETTINGS_HELP && *action != SETTINGS_VERSION)
            *action = actions[i].action;
        return true;
    }
    return false;
}

/* Names the nearest known flag. The argument is clipped and escaped: it goes to a terminal. */
static int unknown_flag(struct flags *in, const char *arg, struct text name)
{
    const char *nearest = setting_nearest(name);
    char flag[80] = "";
    char shown[80];

    text_clip(text_of(arg), shown, sizeof shown);
    if (arg[0] != '-' || name.len == 0)
        return err_set(in->err, ERR_INVALID,
                       "\"%s\" is not a flag; settings are --name VALUE (see --help)", shown);
    if (nearest != NULL)
        setting_flag(setting_find(text_of(nearest), '_'), flag, sizeof flag);
    return err_set(in->err, ERR_INVALID, "%s: unknown flag%s%s%s", shown,
                   nearest != NULL ? "; did you mean " : "", flag,
                   nearest != NULL ? "?" : " (see --help)");
}

/* "--name", "--name=text", "--no-name". */
static int parse_flag(struct flags *in, struct flag *out)
{
    const char *arg = in->argv[in->at];
    struct text name = {NULL, 0};

    must(arg != NULL);
    *out = (struct flag){.id = SETTINGS};
    if (strncmp(arg, "--", 2) == 0) {
        const char *equals = strchr(arg, '=');
        name =
            (struct text){arg + 2, equals != NULL ? (size_t)(equals - arg - 2) : strlen(arg) - 2};
        out->text = equals != NULL ? equals + 1 : NULL;
        out->id = setting_find(name, '-');
    }
    /* Tried second, so that a setting whose name begins with "no-" would keep its flag. */
    if (out->id == SETTINGS && text_starts(name, "no-") && out->text == NULL) {
        const struct text rest = {name.at + 3, name.len - 3};
        out->id = setting_find(rest, '-');
        out->no = true;
        if (out->id != SETTINGS && setting_info(out->id)->type != SETTING_TYPE_BOOL)
            out->id = SETTINGS;
    }
    if (out->id == SETTINGS)
        return unknown_flag(in, arg, name.at != NULL ? name : TEXT(""));
    return 0;
}

/*
 * What begins with "--" is the next flag, not a value: a forgotten value must not swallow a flag.
 */
static int flag_text(struct flags *in, struct flag *flag)
{
    const char *arg = in->argv[in->at];

    if (flag->text != NULL)
        return 0;
    if (setting_info(flag->id)->type == SETTING_TYPE_BOOL) {
        flag->text = flag->no ? "false" : "true";
        return 0;
    }
    must(!flag->no);
    if (in->at + 1 >= in->argc || strncmp(in->argv[in->at + 1], "--", 2) == 0)
        return err_set(in->err, ERR_INVALID, "%s needs a value: %s %s", arg, arg,
                       setting_word(flag->id));
    flag->text = in->argv[++in->at];
    return 0;
}

/* Puts each flag into set; with only_config, only the one that names the file, and the actions. */
static int read_flags(struct flags *in, struct settings_set *set, bool only_config)
{
    must(in->argc >= 0);
    for (in->at = 1; in->at < in->argc; in->at++) {
        struct flag flag;
        char place[80];

        if (take_action(in->argv[in->at], &in->action))
            continue;
        int rc = parse_flag(in, &flag);
        if (rc == 0)
            rc = flag_text(in, &flag);
        if (rc < 0)
            return rc;
        if (only_config && flag.id != SETTING_config)
            continue;
        /* The place in errors is the flag's full name, however it was written. */
        setting_flag(flag.id, place, sizeof place);
        rc = setting_put(set, flag.id, SETTING_FLAG, flag.text, place, in->err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- environment --- */

/* NULL if it is not set; the last of several counts, as in a shell. */
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

/* An empty variable is a value: it sets an empty text, and is an error for a number. */
static int read_variable(struct settings_set *set, enum setting_id id, char *const *envp,
                         struct err *err)
{
    char name[80];

    setting_variable(id, name, sizeof name);
    const char *text = find_variable(envp, name);
    if (text == NULL)
        return 0;
    must(set->slot[id].source <= SETTING_ENVIRONMENT);
    return setting_put(set, id, SETTING_ENVIRONMENT, text, name, err);
}

/*
 * Other programs set MILLIGPU_... as well: kubelet for a Service of this name, and builds. So only
 * a variable that looks like a mistyped setting is refused.
 */
static int refuse_slips(char *const *envp, struct err *err)
{
    static const char prefix[] = "MILLIGPU_";

    must(err != NULL);
    for (; envp != NULL && *envp != NULL; envp++) {
        if (strncmp(*envp, prefix, sizeof prefix - 1) != 0)
            continue;
        const char *name = *envp + sizeof prefix - 1;
        const struct text text = {name, strcspn(name, "=")};
        const char *nearest = setting_nearest(text);
        char meant[80];
        if (nearest == NULL)
            continue;
        setting_variable(setting_find(text_of(nearest), '_'), meant, sizeof meant);
        if (strncmp(*envp, meant, strlen(meant)) != 0 || text.len != strlen(nearest))
            return err_set(err, ERR_INVALID, "MILLIGPU_%.*s: unknown variable; did you mean %s?",
                           (int)(text.len < 80 ? text.len : 80), name, meant);
    }
    return 0;
}

/* Known variables first: a bad value is reported before a mistyped name. */
static int read_environment(struct settings_set *set, char *const *envp, struct err *err)
{
    must(set != NULL);
    for (int id = 0; id < SETTINGS; id++) {
        if (id == SETTING_config)
            continue; /* read before the file */
        const int rc = read_variable(set, (enum setting_id)id, envp, err);
        if (rc < 0)
            return rc;
    }
    return refuse_slips(envp, err);
}

/* --- rules between settings --- */

struct setting_rule {
    const struct settings_set *set;
    const struct settings *values;
    struct err *err;
};

static bool settings_is_set(const char *text)
{
    return text[0] != '\0';
}

/*
 * "config.yaml:3: admin_listen: what". Most rules concern two settings; the one to change is named.
 */
static int settings_broken(const struct setting_rule *rule, enum setting_id id, const char *what)
{
    const struct setting_slot *slot = &rule->set->slot[id];

    must(what != NULL);
    return err_set(rule->err, ERR_INVALID, "%s: %s: %s",
                   slot->place != NULL ? slot->place : "default", settings_name(id), what);
}

/* Half a TLS configuration would listen without TLS, or accept everybody: it is refused. */
static int check_tls(const struct setting_rule *rule)
{
    const struct settings *is = rule->values;

    if (settings_is_set(is->webhook_cert) && !settings_is_set(is->webhook_key))
        return settings_broken(rule, SETTING_webhook_cert, "needs webhook_key, too");
    if (settings_is_set(is->webhook_key) && !settings_is_set(is->webhook_cert))
        return settings_broken(rule, SETTING_webhook_key, "needs webhook_cert, too");
    if (settings_is_set(is->webhook_client_ca) && !settings_is_set(is->webhook_cert))
        return settings_broken(
            rule, SETTING_webhook_client_ca,
            "needs webhook_cert and webhook_key, too: without TLS no certificate is asked");
    return 0;
}

/* Reports are signed, and nobody who listens in may read what the pods of a cluster do. */
static int check_reports(const struct setting_rule *rule)
{
    const struct settings *is = rule->values;
    const bool listens = settings_is_set(is->report_listen);

    if (settings_is_set(is->report_cert) && !settings_is_set(is->report_key))
        return settings_broken(rule, SETTING_report_cert, "needs report_key, too");
    if (settings_is_set(is->report_key) && !settings_is_set(is->report_cert))
        return settings_broken(rule, SETTING_report_key, "needs report_cert, too");
    if (settings_is_set(is->report_cert) && !listens)
        return settings_broken(rule, SETTING_report_cert,
                               "needs report_listen, too, such as 0.0.0.0:8914");
    if (listens && !settings_is_set(is->report_cert) &&
        !http_address_is_loopback(is->report_listen))
        return settings_broken(rule, SETTING_report_listen,
                               "is not a loopback address, and reports name pods: set report_cert "
                               "and report_key");
    return 0;
}

/*
 * Both listeners trust callers on loopback (docs/why/013-what-the-listeners-refuse.md). Off
 * loopback, only a client certificate tells kube-scheduler from others, or the operator says that
 * something else does.
 */
static int check_listeners(const struct setting_rule *rule)
{
    const struct settings *is = rule->values;

    if (!settings_is_set(is->webhook_listen))
        return settings_broken(rule, SETTING_webhook_listen, "cannot be off: write 127.0.0.1:8910");
    if (!settings_is_set(is->admin_listen))
        return settings_broken(rule, SETTING_admin_listen, "cannot be off: write 127.0.0.1:8911");
    if (!http_address_is_loopback(is->admin_listen))
        return settings_broken(
            rule, SETTING_admin_listen,
            "must be a loopback address such as 127.0.0.1:8911, because it does not authenticate "
            "anybody; probe_listen is for others");
    if (http_address_is_loopback(is->webhook_listen) || settings_is_set(is->webhook_client_ca) ||
        is->insecure_webhooks)
        return 0;
    return settings_broken(
        rule, SETTING_webhook_listen,
        "is not a loopback address, and anyone who can reach it can bind pods with milligpud's "
        "rights: set webhook_cert, webhook_key and webhook_client_ca, or insecure_webhooks");
}

/* A path that cannot be bound is refused by --check-config, and not only at the start. */
static int check_socket(const struct setting_rule *rule)
{
    const char *path = rule->values->admin_socket;
    struct err why;

    must(path != NULL);
    if (!settings_is_set(path) || http_socket_check(path, &why) == 0)
        return 0;
    return settings_broken(rule, SETTING_admin_socket, why.text);
}

/* "milligpu.local", "10.0.0.7", "[fd00::1]": a name as in Host, without the port. */
static bool is_host(struct text name)
{
    const bool bracketed = name.len > 2 && name.at[0] == '[' && name.at[name.len - 1] == ']';

    must(name.len == 0 || name.at != NULL);
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.at[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool named = letter || (c >= '0' && c <= '9') || c == '.' || c == '-';
        if (!named && !(bracketed && (c == ':' || i == 0 || i == name.len - 1)))
            return false;
    }
    return name.len > 0 && name.len <= 253;
}

/* An empty setting is no list; an empty piece of a list is an error. */
static int check_hosts(const struct setting_rule *rule, enum setting_id id, const char *hosts)
{
    struct text rest = text_of(hosts);
    struct text name;

    must(hosts != NULL);
    while (settings_is_set(hosts) && text_cut(&rest, ',', &name))
        if (!is_host(text_trim(name)))
            return settings_broken(rule, id,
                                   "must be names or addresses without ports, between commas, like "
                                   "milligpu.local,10.0.0.7,[fd00::7]");
    return 0;
}

/* A name as certificates show it. */
static int check_client_names(const struct setting_rule *rule)
{
    const char *names = rule->values->webhook_client_names;
    struct text rest = text_of(names);
    struct text name;

    must(names != NULL);
    /* Names without a CA would look like protection and be none. */
    if (settings_is_set(names) && !settings_is_set(rule->values->webhook_client_ca))
        return settings_broken(
            rule, SETTING_webhook_client_names,
            "needs webhook_client_ca, too: without it no certificate is requested");
    while (settings_is_set(names) && text_cut(&rest, ',', &name))
        if (text_trim(name).len == 0)
            return settings_broken(
                rule, SETTING_webhook_client_names,
                "must be names between commas, like kube-scheduler,second-scheduler");
    return 0;
}

/* A smaller limit would leave trimming too little margin to keep pace with grants. */
static int check_ledger_size(const struct setting_rule *rule)
{
    const uint32_t bytes = rule->values->ledger_max_bytes;

    must(rule->set != NULL);
    return bytes > 0 && bytes < LEDGER_BYTES_MIN
               ? settings_broken(rule, SETTING_ledger_max_bytes,
                                 "must be at least 67108864 (64 MiB), or 0 for three tenths of the "
                                 "volume")
               : 0;
}

/* A standalone daemon must never reach a cluster: its ledger describes a file. */
static int check_cluster(const struct setting_rule *rule)
{
    const struct settings *is = rule->values;

    if (!settings_is_set(is->standalone))
        return 0;
    if (settings_is_set(is->kubeconfig))
        return settings_broken(
            rule, SETTING_standalone,
            "runs on a cluster file and excludes kubeconfig: leave one of them out");
    if (settings_is_set(is->context))
        return settings_broken(rule, SETTING_context,
                               "is of a kubeconfig, which standalone excludes");
    return 0;
}

/*
 * "nvidia.com/vgpu": a valid name of an extended resource in Kubernetes. 317 bytes are a domain of
 * at most 253, a slash and a name of at most 63.
 */
static bool is_resource(const char *name)
{
    const char *slash = strchr(name, '/');

    must(name != NULL);
    if (slash == NULL || slash == name || slash[1] == '\0' || strlen(name) > 317)
        return false;
    for (const char *at = name; *at != '\0'; at++) {
        const bool letter = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') ||
                            *at == '-' || *at == '.' || at == slash;
        if (!letter && !(at > slash && ((*at >= 'A' && *at <= 'Z') || *at == '_')))
            return false;
    }
    return true;
}

/*
 * base_path is compared with the path of each request byte by byte, so it must be written as
 * kube-scheduler sends it.
 */
static int settings_check_names(const struct setting_rule *rule)
{
    const struct settings *is = rule->values;
    const size_t length = strlen(is->base_path);

    must(is->resource != NULL && is->whole_resource != NULL);
    if (is->base_path[0] != '/' || length < 2 || is->base_path[length - 1] == '/')
        return settings_broken(rule, SETTING_base_path,
                               "must begin with '/' and not end with one, like /scheduler");
    if (strpbrk(is->base_path, "?#% ") != NULL)
        return settings_broken(
            rule, SETTING_base_path,
            "must be a plain path without '?', '#', '%' and blanks, like /scheduler");
    if (!is_resource(is->resource))
        return settings_broken(rule, SETTING_resource,
                               "must be a resource name like nvidia.com/vgpu");
    if (!is_resource(is->whole_resource))
        return settings_broken(rule, SETTING_whole_resource,
                               "must be a resource name like nvidia.com/gpu");
    if (strcmp(is->resource, is->whole_resource) == 0)
        return settings_broken(rule, SETTING_whole_resource, "must be another than resource");
    if (!settings_is_set(is->ledger))
        return settings_broken(rule, SETTING_ledger, "must name a file");
    return 0;
}

/* A key, '=' and a value, with the characters that labels have. */
static bool is_label(const char *text)
{
    const char *equals = strchr(text, '=');
    size_t slashes = 0;

    if (equals == NULL || equals == text || strlen(text) > 381)
        return false;
    for (const char *at = text; *at != '\0'; at++) {
        const bool plain = isalnum((unsigned char)*at) || strchr("-._", *at) != NULL;
        slashes += *at == '/';
        if (!plain && at != equals && !(*at == '/' && at < equals))
            return false;
    }
    return slashes <= 1;
}

static int check_agents(const struct setting_rule *rule)
{
    const struct settings *is = rule->values;

    must(is->agent_nodes != NULL && is->agent_label != NULL);
    if (settings_is_set(is->agent_nodes) && !is_label(is->agent_nodes))
        return settings_broken(rule, SETTING_agent_nodes,
                               "must be one label like nvidia.com/gpu.present=true, or empty");
    if (!is_label(is->agent_label))
        return settings_broken(rule, SETTING_agent_label,
                               "must be one label like app.kubernetes.io/component=node");
    return 0;
}

int settings_cross_check(const struct settings_set *set, struct err *err)
{
    const struct setting_rule rule = {set, &set->values, err};

    must(err != NULL);
    int rc = check_cluster(&rule);
    if (rc == 0)
        rc = check_ledger_size(&rule);
    if (rc == 0)
        rc = check_agents(&rule);
    if (rc == 0)
        rc = check_tls(&rule);
    if (rc == 0)
        rc = check_reports(&rule);
    if (rc == 0)
        rc = check_listeners(&rule);
    if (rc == 0)
        rc = check_socket(&rule);
    if (rc == 0)
        rc = check_hosts(&rule, SETTING_webhook_hosts, set->values.webhook_hosts);
    if (rc == 0)
        rc = check_hosts(&rule, SETTING_admin_hosts, set->values.admin_hosts);
    if (rc == 0)
        rc = check_client_names(&rule);
    if (rc == 0)
        rc = settings_check_names(&rule);
    return rc;
}

/* --- load --- */

/*
 * The flags are read twice: first for the file and the actions, then at their rank. --help and
 * --version return before any file is read.
 */
static int settings_load_all(struct flags *flags, char *const *envp, struct settings_set *set)
{
    /* The file has a low rank but must be known first: a separate set finds it. */
    CLEANUP(settings_freep) struct settings_set *named = settings_defaults();
    int rc = read_variable(named, SETTING_config, envp, flags->err);

    must(flags->action == SETTINGS_RUN);
    if (rc == 0)
        rc = read_flags(flags, named, true);
    if (rc < 0 || flags->action == SETTINGS_HELP || flags->action == SETTINGS_VERSION)
        return rc;
    if (settings_is_set(named->values.config))
        rc = settings_read_file(set, named->values.config, flags->err);
    if (rc == 0)
        rc = read_variable(set, SETTING_config, envp, flags->err);
    if (rc == 0)
        rc = read_environment(set, envp, flags->err);
    if (rc == 0)
        rc = read_flags(flags, set, false);
    if (rc == 0)
        rc = settings_cross_check(set, flags->err);
    return rc;
}

/* *out is written only on success: at SIGHUP the old set stays in use. */
int settings_load(int argc, char *const *argv, char *const *envp, struct settings_set **out,
                  enum settings_action *out_action, struct err *err)
{
    CLEANUP(settings_freep) struct settings_set *set = settings_defaults();
    struct flags flags = {.argc = argc, .argv = argv, .err = err};

    const int rc = settings_load_all(&flags, envp, set);
    if (rc < 0)
        return rc;
    *out = STEAL(set);
    *out_action = flags.action;
    return 0;
}

/* Without environment and flags: a rule that needs one of them fails here. */
int settings_check_file(const char *file, struct settings_set **out, struct err *err)
{
    CLEANUP(settings_freep) struct settings_set *set = settings_defaults();

    must(file != NULL);
    int rc = settings_read_file(set, file, err);
    if (rc == 0)
        rc = settings_cross_check(set, err);
    if (rc == 0 && out != NULL)
        *out = STEAL(set);
    return rc;
}
