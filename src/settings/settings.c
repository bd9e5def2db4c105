/*
 * The table of milligpud's settings, and the rules between settings, checked at the end of a load:
 * the first broken one fails it. Called by main() at the start, by daemon.c at SIGHUP, both on the
 * main thread, and by milligpuctl check-config.
 */
#include <ctype.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/limits.h"
#include "milligpu/http/http.h"

#include "settings_internal.h"

DEFINE_FREEP(struct settings_set, settings_free);

static const struct setting_info infos[] = {
#define SETTING(id, type, fallback, low, high, reload, unit, help)                                 \
    {#id, fallback, unit,  help, offsetof(struct settings, id), SETTING_TYPE_##type,               \
     low, high,     reload},
#include "milligpu/settings/settings.def"
#undef SETTING
};

static_assert(ARRAY_LEN(infos) == SETTINGS, "one row for each setting");

static const struct settings_command commands[] = {
    {.flag = "-h", .action = SETTINGS_HELP},
    {.flag = "--help", .action = SETTINGS_HELP},
    {.flag = "--version", .action = SETTINGS_VERSION},
    {.flag = "--check-config", .action = SETTINGS_CHECK},
    {.flag = "--print-config", .action = SETTINGS_PRINT},
};

const struct settings_program milligpud_settings = {
    .info = infos,
    .settings = SETTINGS,
    .command = commands,
    .n_commands = ARRAY_LEN(commands),
    .prefix = "MILLIGPU_",
    .config = &infos[SETTING_config],
    .bytes = sizeof(struct settings),
    .check = settings_cross_check,
};

const struct settings *settings_get(const struct settings_set *set)
{
    must(set->program == &milligpud_settings);
    return set->values;
}

const char *settings_name(enum setting_id id)
{
    must((size_t)id < SETTINGS);
    return infos[id].name;
}

bool settings_reloadable(enum setting_id id)
{
    must((size_t)id < SETTINGS);
    return infos[id].reload;
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

/* "config.yaml:3: admin_listen: what". id: the setting to change, if a rule concerns several. */
static int settings_broken(const struct setting_rule *rule, enum setting_id id, const char *what)
{
    must(what != NULL);
    (void)err_set(rule->err, ERR_INVALID, "%s", what);
    return settings_blame(rule->set, id, rule->err);
}

/* Refuses half a TLS configuration, which would listen without TLS, or accept any client. */
static int check_tls(const struct setting_rule *rule)
{
    const struct settings *settings = rule->values;

    if (settings_is_set(settings->webhook_cert) && !settings_is_set(settings->webhook_key))
        return settings_broken(rule, SETTING_webhook_cert, "needs webhook_key, too");
    if (settings_is_set(settings->webhook_key) && !settings_is_set(settings->webhook_cert))
        return settings_broken(rule, SETTING_webhook_key, "needs webhook_cert, too");
    if (settings_is_set(settings->webhook_client_ca) && !settings_is_set(settings->webhook_cert))
        return settings_broken(
            rule, SETTING_webhook_client_ca,
            "needs webhook_cert and webhook_key, too: without TLS no certificate is asked");
    return 0;
}

/* Requires TLS off loopback: reports are signed but not encrypted, and they name pods. */
static int check_reports(const struct setting_rule *rule)
{
    const struct settings *settings = rule->values;
    const bool listens = settings_is_set(settings->report_listen);

    if (settings_is_set(settings->report_cert) && !settings_is_set(settings->report_key))
        return settings_broken(rule, SETTING_report_cert, "needs report_key, too");
    if (settings_is_set(settings->report_key) && !settings_is_set(settings->report_cert))
        return settings_broken(rule, SETTING_report_key, "needs report_cert, too");
    if (settings_is_set(settings->report_cert) && !listens)
        return settings_broken(rule, SETTING_report_cert,
                               "needs report_listen, too, such as 0.0.0.0:8914");
    if (listens && !settings_is_set(settings->report_cert) &&
        !http_address_is_loopback(settings->report_listen))
        return settings_broken(rule, SETTING_report_listen,
                               "is not a loopback address, and reports name pods: set report_cert "
                               "and report_key");
    return 0;
}

/*
 * Both listeners trust callers on loopback (docs/why/013-what-the-listeners-refuse.md). Off
 * loopback, kube-scheduler must authenticate by a client certificate, unless the operator declares
 * other protection (insecure_webhooks).
 */
static int check_listeners(const struct setting_rule *rule)
{
    const struct settings *settings = rule->values;

    if (!settings_is_set(settings->webhook_listen))
        return settings_broken(rule, SETTING_webhook_listen, "cannot be off: write 127.0.0.1:8910");
    if (!settings_is_set(settings->admin_listen))
        return settings_broken(rule, SETTING_admin_listen, "cannot be off: write 127.0.0.1:8911");
    if (!http_address_is_loopback(settings->admin_listen))
        return settings_broken(
            rule, SETTING_admin_listen,
            "must be a loopback address such as 127.0.0.1:8911, because it does not authenticate "
            "anybody; probe_listen is for others");
    if (http_address_is_loopback(settings->webhook_listen) ||
        settings_is_set(settings->webhook_client_ca) || settings->insecure_webhooks)
        return 0;
    return settings_broken(
        rule, SETTING_webhook_listen,
        "is not a loopback address, and anyone who can reach it can bind pods with milligpud's "
        "rights: set webhook_cert, webhook_key and webhook_client_ca, or insecure_webhooks");
}

/* --check-config, too, refuses a path that cannot be bound. */
static int check_socket(const struct setting_rule *rule)
{
    const char *path = rule->values->admin_socket;
    struct err why;

    must(path != NULL);
    if (!settings_is_set(path) || http_socket_check(path, &why) == 0)
        return 0;
    return settings_broken(rule, SETTING_admin_socket, why.text);
}

/* A Host header without port: "milligpu.local", "10.0.0.7", "[fd00::1]". */
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

/* An empty setting is an empty list; an empty element is an error. */
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

static int check_client_names(const struct setting_rule *rule)
{
    const char *names = rule->values->webhook_client_names;
    struct text rest = text_of(names);
    struct text name;

    must(names != NULL);
    /* Names without a CA would give a false sense of protection. */
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

/* With a smaller limit, trimming could not keep pace with grants. */
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

/* A standalone daemon must never access a cluster: its ledger describes a cluster file. */
static int check_cluster(const struct setting_rule *rule)
{
    const struct settings *settings = rule->values;

    if (!settings_is_set(settings->standalone))
        return 0;
    if (settings_is_set(settings->kubeconfig))
        return settings_broken(
            rule, SETTING_standalone,
            "runs on a cluster file and excludes kubeconfig: leave one of them out");
    if (settings_is_set(settings->context))
        return settings_broken(rule, SETTING_context,
                               "is of a kubeconfig, which standalone excludes");
    return 0;
}

/*
 * Name of an extended resource in Kubernetes, such as "nvidia.com/vgpu". 317 bytes: a domain of at
 * most 253, a slash, and a name of at most 63.
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

/* base_path must equal kube-scheduler's request path byte for byte: no encoding, no query. */
static int settings_check_names(const struct setting_rule *rule)
{
    const struct settings *settings = rule->values;
    const size_t length = strlen(settings->base_path);

    must(settings->resource != NULL && settings->whole_resource != NULL);
    if (settings->base_path[0] != '/' || length < 2 || settings->base_path[length - 1] == '/')
        return settings_broken(rule, SETTING_base_path,
                               "must begin with '/' and not end with one, like /scheduler");
    if (strpbrk(settings->base_path, "?#% ") != NULL)
        return settings_broken(
            rule, SETTING_base_path,
            "must be a plain path without '?', '#', '%' and blanks, like /scheduler");
    if (!is_resource(settings->resource))
        return settings_broken(rule, SETTING_resource,
                               "must be a resource name like nvidia.com/vgpu");
    if (!is_resource(settings->whole_resource))
        return settings_broken(rule, SETTING_whole_resource,
                               "must be a resource name like nvidia.com/gpu");
    if (strcmp(settings->resource, settings->whole_resource) == 0)
        return settings_broken(rule, SETTING_whole_resource, "must be another than resource");
    if (!settings_is_set(settings->ledger))
        return settings_broken(rule, SETTING_ledger, "must name a file");
    return 0;
}

/* "key=value" with the characters of labels; 381 bytes: a key of 317, '=' and a value of 63. */
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
    const struct settings *settings = rule->values;

    must(settings->agent_nodes != NULL && settings->agent_label != NULL);
    if (settings_is_set(settings->agent_nodes) && !is_label(settings->agent_nodes))
        return settings_broken(rule, SETTING_agent_nodes,
                               "must be one label like nvidia.com/gpu.present=true, or empty");
    if (!is_label(settings->agent_label))
        return settings_broken(rule, SETTING_agent_label,
                               "must be one label like app.kubernetes.io/component=node");
    return 0;
}

int settings_cross_check(const struct settings_set *set, struct err *err)
{
    const struct setting_rule rule = {set, settings_get(set), err};

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
        rc = check_hosts(&rule, SETTING_webhook_hosts, rule.values->webhook_hosts);
    if (rc == 0)
        rc = check_hosts(&rule, SETTING_admin_hosts, rule.values->admin_hosts);
    if (rc == 0)
        rc = check_client_names(&rule);
    if (rc == 0)
        rc = settings_check_names(&rule);
    return rc;
}

/* --- load --- */

/* *out is set only on success: after a failed SIGHUP the old set stays in use. */
int settings_load(int argc, char *const *argv, char *const *envp, struct settings_set **out,
                  enum settings_action *out_action, struct err *err)
{
    const struct settings_input input = {argc, argv, envp};
    int action = SETTINGS_RUN;

    const int rc = settings_table_load(&milligpud_settings, &input, out, &action, err);
    *out_action = (enum settings_action)action;
    return rc;
}

/* Ignores environment and flags: a rule that depends on one of them fails here. */
int settings_check_file(const char *file, struct settings_set **out, struct err *err)
{
    CLEANUP(settings_freep) struct settings_set *set = settings_defaults(&milligpud_settings);

    must(file != NULL);
    int rc = settings_read_file(set, file, err);
    if (rc == 0)
        rc = settings_cross_check(set, err);
    if (rc == 0 && out != NULL)
        *out = STEAL(set);
    return rc;
}
