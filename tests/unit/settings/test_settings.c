#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/settings/settings.h"

#include "support/count_of.h"
#include "support/document.h"
#include "support/settings_document.h"
#include "support/test.h"

static char file[] = "/tmp/milligpu-settings-XXXXXX";
static struct settings_set *set;
static enum settings_action action;
static struct err err;

static void write_bytes(const void *bytes, size_t count)
{
    FILE *out = fopen(file, "we");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, count, out), count);
    assert_int_equal(fclose(out), 0);
}

static void write_file(const char *text)
{
    write_bytes(text, strlen(text));
}

#define ARGS(...) ((char *[]){(char[]){"milligpud"}, __VA_ARGS__ __VA_OPT__(, ) NULL})

static int load_all(char *const *argv, char *const *envp)
{
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    settings_free(set);
    set = NULL;
    return settings_load(argc, argv, envp, &set, &action, &err);
}

/* Words are separated by blanks; a word with '=' and no leading dash is a variable. */
static int load(const char *line)
{
    char words[2000];
    char *argv[40] = {(char[]){"milligpud"}};
    char *envp[40] = {NULL};
    int args = 1;
    int variables = 0;
    char *save = NULL;

    assert_true(strlen(line) < sizeof words);
    memcpy(words, line, strlen(line) + 1);
    for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        assert_true(args < 39 && variables < 39);
        if (word[0] != '-' && strchr(word, '=') != NULL)
            envp[variables++] = word;
        else
            argv[args++] = word;
    }
    return load_all(argv, envp);
}

static void assert_says(const char *part)
{
    if (strstr(err.text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

static void loads(const char *line)
{
    if (load(line) < 0)
        fail_msg("%s: %s", line, err.text);
}

static void loads_file(void)
{
    char line[100];

    (void)snprintf(line, sizeof line, "--config %s", file);
    loads(line);
}

static void refuses(const char *line, const char *says)
{
    print_message("%s\n", line);
    assert_true(load(line) < 0);
    assert_null(set);
    assert_says(says);
}

static void file_refuses(const char *text, const char *line, const char *says)
{
    char place[80];
    print_message("%s\n", text);
    write_file(text);
    assert_true(settings_check_file(file, NULL, &err) < 0);
    (void)snprintf(place, sizeof place, "%s:%s: ", file, line);
    assert_says(place);
    assert_says(says);
}

static int tear_down(void **state)
{
    (void)state;
    settings_free(set);
    set = NULL;
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, NULL, tear_down)

/* --- tests --- */

FIXTURE_TEST(settings__have_defaults)
{
    loads("");
    const struct settings *settings = settings_get(set);
    assert_int_equal(action, SETTINGS_RUN);
    assert_string_equal(settings->webhook_listen, "127.0.0.1:8910");
    assert_string_equal(settings->admin_listen, "127.0.0.1:8911");
    assert_string_equal(settings->resource, "nvidia.com/vgpu");
    assert_string_equal(settings->probe_listen, "");
    assert_int_equal(settings->webhook_threads, 2);
    assert_false(settings->advertise);
    assert_true(settings->events);
    for (int id = 0; id < SETTINGS; id++)
        assert_int_equal(settings_source(set, (enum setting_id)id), SETTING_DEFAULT);
    assert_int_equal(load_all(ARGS(), NULL), 0);
}

FIXTURE_TEST(flags__have_several_forms)
{
    loads("--webhook-threads 8 --shortlist=0 --advertise --no-events --wake=off "
          "--inventory-from-labels=false --insecure-webhooks=true --context= --namespace gpu "
          "--webhook-listen [::]:1 --probe-listen 0.0.0.0:9 --ledger=a=b");
    const struct settings *settings = settings_get(set);
    assert_int_equal(settings->webhook_threads, 8);
    assert_int_equal(settings->shortlist, 0);
    assert_true(settings->advertise);
    assert_false(settings->events);
    assert_false(settings->inventory_from_labels);
    assert_true(settings->insecure_webhooks);
    assert_string_equal(settings->wake, "off");
    assert_string_equal(settings->context, "");
    assert_string_equal(settings->namespace, "gpu");
    assert_string_equal(settings->webhook_listen, "[::]:1");
    assert_string_equal(settings->ledger, "a=b");
    assert_int_equal(settings_source(set, SETTING_wake), SETTING_FLAG);
    assert_int_equal(settings_source(set, SETTING_resource), SETTING_DEFAULT);
    loads("--shortlist 1 --shortlist 2 --advertise --no-advertise");
    assert_int_equal(settings_get(set)->shortlist, 2);
    assert_false(settings_get(set)->advertise);
}

FIXTURE_TEST(settings__prefer_later_sources)
{
    char line[200];
    write_file("# comment\nshortlist: 1\nwebhook_threads: 1\nretention_days: 1\n");
    (void)snprintf(line, sizeof line,
                   "--config %s MILLIGPU_SHORTLIST=2 MILLIGPU_WEBHOOK_THREADS=2 --shortlist 3",
                   file);
    loads(line);
    assert_int_equal(settings_get(set)->shortlist, 3);
    assert_int_equal(settings_get(set)->webhook_threads, 2);
    assert_int_equal(settings_get(set)->retention_days, 1);
    assert_int_equal(settings_source(set, SETTING_shortlist), SETTING_FLAG);
    assert_int_equal(settings_source(set, SETTING_webhook_threads), SETTING_ENVIRONMENT);
    assert_int_equal(settings_source(set, SETTING_retention_days), SETTING_YAML);
    assert_string_equal(settings_source_name(SETTING_YAML), "file");
    assert_string_equal(settings_get(set)->config, file);
    (void)snprintf(line, sizeof line, "MILLIGPU_CONFIG=%s", file);
    loads(line);
    assert_int_equal(settings_get(set)->shortlist, 1);
    (void)snprintf(line, sizeof line, "MILLIGPU_CONFIG=/nowhere --config=%s", file);
    loads(line);
    assert_int_equal(settings_get(set)->shortlist, 1);
}

FIXTURE_TEST(actions__are_found_among_the_flags)
{
    loads("--check-config");
    assert_int_equal(action, SETTINGS_CHECK);
    loads("--shortlist 4 --print-config");
    assert_int_equal(action, SETTINGS_PRINT);
    assert_int_equal(settings_get(set)->shortlist, 4);
    loads("--version");
    assert_int_equal(action, SETTINGS_VERSION);
    /* Help is given whatever else is wrong. */
    loads("--config /nowhere --admin-listen 0.0.0.0:1 MILLIGPU_WAKE=x --help");
    assert_int_equal(action, SETTINGS_HELP);
    loads("-h --check-config");
    assert_int_equal(action, SETTINGS_HELP);
}

FIXTURE_TEST(flags__are_named_when_wrong)
{
    refuses("--webook-listen 1", "--webook-listen: unknown flag; did you mean --webhook-listen");
    refuses("--webhook_listen 1", "did you mean --webhook-listen?");
    refuses("--frobnicate", "--frobnicate: unknown flag (see --help)");
    refuses("--no-frobnicate", "unknown flag");
    refuses("--no-wake", "unknown flag");
    refuses("--no-events=true", "unknown flag");
    refuses("wake", "\"wake\" is not a flag");
    refuses("--", "is not a flag");
    refuses("-wake object", "\"-wake\" is not a flag");
    refuses("--=x", "is not a flag");
    refuses("--wake", "--wake needs a value: --wake WORD");
    refuses("--ledger --advertise", "--ledger needs a value: --ledger FILE");
    refuses("--webhook-threads", "--webhook-threads N");
    refuses("--advertise maybe", "\"maybe\" is not a flag");
}

FIXTURE_TEST(values__are_named_with_the_allowed_ones_when_wrong)
{
    refuses("--webhook-threads many",
            "--webhook-threads: webhook_threads: \"many\" is not a whole number from 1 to 64 (thr");
    refuses("--webhook-threads 0", "from 1 to 64");
    refuses("--webhook-threads 65", "from 1 to 64");
    refuses("--webhook-threads -1", "from 1 to 64");
    refuses("--webhook-threads 1.5", "from 1 to 64");
    refuses("--webhook-threads 2x", "from 1 to 64");
    refuses("--webhook-threads=", "from 1 to 64");
    refuses("--webhook-threads 4294967297", "from 1 to 64");
    refuses("--webhook-threads 99999999999999999999999999", "from 1 to 64");
    refuses("--advertise=yes", "\"yes\" is not true or false");
    refuses("--events=", "is not true or false");
    refuses("--wake gong", "wake: \"gong\" is not one of: object node off");
    refuses("--wake=", "is not one of");
    refuses("--log-level INFO", "debug info warn error");
    refuses("--webhook-listen 8910", "--webhook-listen: webhook_listen: \"8910\" has no port");
    refuses("--probe-listen 127.0.0.1:x", "0 to 65535");
    refuses("--webhook-hosts milligpu.local:8910", "--webhook-hosts: webhook_hosts: must be names");
    refuses("--webhook-hosts a,,b", "without ports");
    refuses("--webhook-hosts=a,", "without ports");
    refuses("--admin-hosts http://a", "admin_hosts: must be names or addresses without ports");
    refuses("--admin-hosts *", "admin_hosts");
    refuses("--admin-hosts fd00::7", "[fd00::7]");
    refuses("MILLIGPU_ADMIN_HOSTS=[]", "MILLIGPU_ADMIN_HOSTS: admin_hosts");
    loads("--webhook-hosts milligpu.local,10.0.0.7,[fd00::7] MILLIGPU_ADMIN_HOSTS=a-b.c");
    refuses("MILLIGPU_WAKE=gong", "MILLIGPU_WAKE: wake: \"gong\" is not one of");
    refuses("MILLIGPU_SHORTLIST=-1", "MILLIGPU_SHORTLIST: shortlist:");
    assert_true(load_all(ARGS((char[]){"--ledger=a\nb"}), NULL) < 0);
    assert_says("control character");
    assert_true(load_all(ARGS((char[]){"--ledger=a\xff"}), NULL) < 0);
    assert_says("not UTF-8");
    CLEANUP(xfreep) char *longer = xmalloc(6000);
    memset(longer, 'x', 5999);
    longer[5999] = '\0';
    assert_true(load_all(ARGS((char[]){"--ledger"}, longer), NULL) < 0);
    assert_says("longer than 4096");
}

FIXTURE_TEST(variables__are_named_when_misspelled)
{
    refuses("MILLIGPU_WEBHOOK_LISTN=x", "MILLIGPU_WEBHOOK_LISTN: unknown variable; did "
                                        "you mean MILLIGPU_WEBHOOK_LISTEN?");
    refuses("MILLIGPU_wake=off", "did you mean MILLIGPU_WAKE?");
    /* Variables that kubelet sets for a Service of our name, and that a build leaves behind. */
    loads("MILLIGPU_PORT=tcp://10.0.0.1:8910 MILLIGPU_SERVICE_HOST=10.0.0.1 "
          "MILLIGPU_SERVICE_PORT_WEBHOOK=8910 MILLIGPU_PORT_8910_TCP_ADDR=10.0.0.1 "
          "MILLIGPU_SOURCE_DIR=/x MILLIGPU_BUILD_DIR=/x MILLIGPU_BIN_DIR=/x MILLIGPU_=1 "
          "OTHER=1 MILLIGPU_SANITIZE=address");
}

FIXTURE_TEST(file__is_read_whole)
{
    write_file("---\n"
               "# where\n"
               "webhook_listen: 127.0.0.1:0\n"
               "admin_listen: \"[::1]:0\"\n"
               "ledger: 'it''s here'\n"
               "wake: off\n"
               "advertise: true\n"
               "webhook_threads: \"3\"\n"
               "namespace: \"null\"\n"
               "context: \"\"\n"
               "...\n");
    loads_file();
    const struct settings *settings = settings_get(set);
    assert_string_equal(settings->admin_listen, "[::1]:0");
    assert_string_equal(settings->ledger, "it's here");
    assert_string_equal(settings->wake, "off");
    assert_true(settings->advertise);
    assert_int_equal(settings->webhook_threads, 3);
    assert_string_equal(settings->namespace, "null");
    assert_string_equal(settings->context, "");
    write_file("");
    loads_file();
    write_file("# nothing\n");
    loads_file();
    write_file("{wake: node, shortlist: 7}");
    loads_file();
    assert_int_equal(settings_get(set)->shortlist, 7);
}

FIXTURE_TEST(file__is_named_with_the_line_of_its_mistake)
{
    file_refuses("wake: object\nwebhook_listn: x\n", "2",
                 "no setting is called \"webhook_listn\"; did you mean webhook_listen?");
    file_refuses("webhook-listen: x\n", "1", "did you mean webhook_listen?");
    file_refuses("frobnicate: 1\n", "1", "no setting is called \"frobnicate\" (see --help)");
    file_refuses("wake: object\n\nwake: off\n", "3", "wake is set a second time, first in line 1");
    file_refuses("wake: [object]\n", "1", "wake: a list where one value should be");
    file_refuses("wake:\n  object: 1\n", "2", "wake: a nested mapping");
    file_refuses("ledger: &a x\nwake: *a\n", "2", "wake: an alias");
    file_refuses("shortlist: 1\nwake:\n", "2", "wake: no value");
    file_refuses("wake: ~\n", "1", "no value");
    file_refuses("ledger: \"a\\0b\"\n", "1", "NUL");
    file_refuses("shortlist: many\n", "1",
                 "shortlist: \"many\" is not a whole number from 0 to 65536");
    file_refuses("advertise: yes\n", "1", "is not true or false");
    file_refuses("log_level: loud\n", "1", "debug info warn error");
    file_refuses("admin_listen: 8911\n", "1", "127.0.0.1:8910 or [::1]:0");
    file_refuses("config: other.yaml\n", "1", "cannot name another");
    file_refuses("- wake\n", "1", "not a mapping");
    file_refuses("wake\n", "1", "not a mapping");
    file_refuses("wake: object\n---\nwake: off\n", "2", "a second document");
    file_refuses("? [a]\n: b\n", "1", "a key that is not a name");
    file_refuses("wake: \"object\n", "2", "not YAML");
    file_refuses("wake: object\n\tledger: x\n", "2", "not YAML");
    file_refuses("{wake: object\n", "2", "not YAML");
    file_refuses("wake: \"a\xff\"\n", "1", "not YAML");
    file_refuses("wake: !!int x\n", "1", "\"x\" is tagged !!int, but is a string");
    file_refuses("- &a x\n- *a\n", "2", ": the alias *a: aliases are not read");
    file_refuses("<<: {wake: object}\n", "1", "no setting is called \"<<\"");
}

FIXTURE_TEST(file__is_refused_if_it_is_not_a_regular_text)
{
    assert_int_equal(settings_check_file("/nowhere/milligpu.yaml", NULL, &err), -ERR_IO);
    assert_says("/nowhere/milligpu.yaml: No such file or directory");
    assert_int_equal(settings_check_file("/tmp", NULL, &err), -ERR_IO);
    assert_says("/tmp: Is a directory");
    write_bytes("wake: b\xff\xfe\n", 10);
    assert_true(settings_check_file(file, NULL, &err) < 0);
    assert_says(file);
    CLEANUP(xfreep) char *large = xmalloc(2 << 20);
    memset(large, '#', 2 << 20);
    write_bytes(large, 2 << 20);
    assert_int_equal(settings_check_file(file, NULL, &err), -ERR_TOO_LARGE);
    refuses("--config /nowhere/x.yaml", "/nowhere/x.yaml: No such file");
    refuses("MILLIGPU_CONFIG=/nowhere/x.yaml", "/nowhere/x.yaml: No such file");
}

FIXTURE_TEST(settings__are_refused_when_they_contradict)
{
    refuses("--webhook-cert a", "--webhook-cert: webhook_cert: needs webhook_key");
    refuses("MILLIGPU_WEBHOOK_KEY=a", "MILLIGPU_WEBHOOK_KEY: webhook_key: needs webhook_cert");
    refuses("--webhook-client-ca a", "webhook_client_ca: needs webhook_cert");
    refuses("--report-cert a", "--report-cert: report_cert: needs report_key");
    refuses("MILLIGPU_REPORT_KEY=a", "MILLIGPU_REPORT_KEY: report_key: needs report_cert");
    refuses("--report-cert a --report-key b", "report_cert: needs report_listen");
    refuses("--report-listen 0.0.0.0:1", "report_listen: is not a loopback address");
    refuses("--admin-socket run/admin.sock",
            "--admin-socket: admin_socket: \"run/admin.sock\" is not");
    loads("--admin-socket /run/milligpu/admin.sock");
    refuses("--webhook-client-names a", "webhook_client_names: needs webhook_client_ca");
    refuses("--webhook-listen 0.0.0.0:8910", "insecure_webhooks");
    refuses("--webhook-listen 0.0.0.0:8910 --webhook-cert a --webhook-key b", "webhook_client_ca");
    loads("--webhook-listen 0.0.0.0:8910 --insecure-webhooks");
    loads("--webhook-listen 0.0.0.0:8910 --webhook-cert a --webhook-key b --webhook-client-ca c");
    loads("--webhook-cert a --webhook-key b --webhook-client-ca c --webhook-client-names d,e.f");
    refuses("--webhook-cert a --webhook-key b --webhook-client-ca c --webhook-client-names d,,e",
            "webhook_client_names: must be names between commas");
    refuses("--webhook-listen=", "cannot be off");
    refuses("--admin-listen=", "cannot be off");
    refuses("--admin-listen 0.0.0.0:8911 --print-config", "must be a loopback address");
    refuses("--admin-listen 0.0.0.0:8911", "admin_listen: must be a loopback address");
    refuses("--admin-listen [::]:8911", "must be a loopback address");
    loads("--admin-listen localhost:1 --probe-listen 0.0.0.0:8912");
    refuses("--standalone c.json --kubeconfig k", "excludes kubeconfig");
    refuses("--standalone c.json --context k", "which standalone excludes");
    loads("--standalone c.json");
    refuses("--base-path scheduler", "must begin with '/'");
    refuses("--base-path=", "must begin with '/'");
    refuses("--base-path /", "must begin with '/'");
    refuses("--base-path /a/", "not end with one");
    refuses("--base-path /a?b", "plain path");
    loads("--base-path /a/b");
    refuses("--resource vgpu", "resource: must be a resource name like nvidia.com/vgpu");
    refuses("--resource a/b/c", "must be a resource name");
    refuses("--resource Nvidia.com/vgpu", "must be a resource name");
    refuses("--whole-resource nvidia.com/", "must be a resource name");
    refuses("--resource nvidia.com/gpu", "must be another than resource");
    refuses("--ledger=", "must name a file");
    write_file("wake: object\nadmin_listen: 10.0.0.1:1\n");
    assert_true(settings_check_file(file, NULL, &err) < 0);
    assert_says(":2: admin_listen: must be a loopback address");
}

FIXTURE_TEST(label_settings__are_one_label_each)
{
    static const char *const wrong[] = {"=",     "=b",      "a",   "a=b,c=d", "a=b=c",
                                        "a=b/c", "a/b/c=d", "a=*", "a!=b"};
    char arguments[512];
    char label[400];

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        for (int nodes = 0; nodes <= 1; nodes++) {
            const char *name = nodes ? "agent-nodes" : "agent-label";
            (void)snprintf(arguments, sizeof arguments, "--%s=%s", name, wrong[i]);
            refuses(arguments, "must be one label like ");
        }
    loads("--agent-nodes=");
    refuses("--agent-label=", "agent_label: must be one label like ");
    loads("--agent-nodes=a.b-c_D/e9=F_-.0 --agent-label=a=");
    for (size_t len = 381; len <= 382; len++) {
        memset(label, 'x', sizeof label);
        label[63] = '=';
        label[len] = '\0';
        (void)snprintf(arguments, sizeof arguments, "--agent-nodes=%s", label);
        if (len == 381)
            loads(arguments);
        else
            refuses(arguments, "agent_nodes: must be one label like ");
    }
    loads("--require-agent=always --agents=annotation");
    refuses("--require-agent=maybe", "require_agent");
    refuses("--agents=systemd", "agents");
}

FIXTURE_TEST(printed_settings__load_again)
{
    CLEANUP(strbuf_done) struct strbuf first;
    CLEANUP(strbuf_done) struct strbuf second;
    strbuf_init(&first);
    strbuf_init(&second);
    assert_int_equal(
        load_all(ARGS((char[]){"--ledger"}, (char[]){"a \"b\" \\ # \xc3\xa4: c"},
                      (char[]){"--wake=off"}, (char[]){"--namespace=~"}, (char[]){"--context"},
                      (char[]){"- true"}, (char[]){"--advertise"}, (char[]){"--shortlist=5"}),
                 NULL),
        0);
    settings_print(&first, set);
    struct settings_set *before = STEAL(set);
    write_file(first.data);
    loads_file();
    for (int id = 0; id < SETTINGS; id++) {
        char was[200];
        char is[200];
        if (id == SETTING_config)
            continue;
        settings_value(before, (enum setting_id)id, was, sizeof was);
        settings_value(set, (enum setting_id)id, is, sizeof is);
        assert_string_equal(was, is);
    }
    assert_string_equal(settings_get(set)->ledger, settings_get(before)->ledger);
    settings_free(before);
    settings_print(&second, set);
    assert_non_null(strstr(second.data, "shortlist: 5 # /tmp/milligpu-settings-"));
    assert_non_null(strstr(first.data, "shortlist: 5 # --shortlist\n"));
    assert_non_null(strstr(first.data, "wake: \"off\" # --wake\n"));
}

FIXTURE_TEST(values__are_clipped_to_the_buffer)
{
    char room[8];
    loads("--ledger /a/long/path/to/it");
    settings_value(set, SETTING_ledger, room, sizeof room);
    assert_string_equal(room, "\"/a/...");
    settings_value(set, SETTING_shortlist, room, sizeof room);
    assert_string_equal(room, "16");
    assert_string_equal(settings_name(SETTING_shortlist), "shortlist");
    assert_true(settings_reloadable(SETTING_shortlist));
    assert_false(settings_reloadable(SETTING_ledger));
}

FIXTURE_TEST(help__has_one_line_per_setting)
{
    CLEANUP(strbuf_done) struct strbuf help;
    strbuf_init(&help);
    settings_help(&help);
    for (int id = 0; id < SETTINGS; id++) {
        char flag[80];
        (void)snprintf(flag, sizeof flag, "\n  --%s", settings_name((enum setting_id)id));
        for (char *at = flag; *at != '\0'; at++)
            if (*at == '_')
                *at = '-';
        const char *line = strstr(help.data, flag);
        assert_non_null(line);
        assert_true(strcspn(line + 1, "\n") < 180);
    }
    assert_non_null(strstr(help.data, "[1..64 threads] (default 2)\n"));
    assert_non_null(strstr(help.data, "[refuse rebuild] (default refuse)\n"));
    assert_non_null(strstr(help.data, "--print-config"));
    assert_null(strstr(help.data, "--advertise true"));
}

FIXTURE_TEST(groups__stand_above_their_first_setting)
{
    CLEANUP(strbuf_done) struct strbuf help;
    CLEANUP(strbuf_done) struct strbuf page;
    CLEANUP(strbuf_done) struct strbuf manual;
    strbuf_init(&help);
    strbuf_init(&page);
    strbuf_init(&manual);
    settings_help(&help);
    settings_markdown(&page);
    settings_man(&manual);
    assert_non_null(strstr(help.data, "\n\nThe cluster:\n  --config "));
    assert_non_null(strstr(help.data, "\n\nThe ledger:\n  --ledger "));
    assert_non_null(strstr(help.data, "\n\nSigning:\n  --keys-namespace "));
    assert_null(strstr(help.data, ":\n  --kubeconfig "));
    const size_t groups = count_of(help.data, ":\n  --");
    assert_in_range(groups, 4, SETTINGS / 4);
    assert_int_equal(count_of(page.data, "\n## "), groups);
    assert_int_equal(count_of(manual.data, "\n.SS "), groups + 1); /* --help and the like */
}

FIXTURE_TEST(manifests__have_valid_files)
{
    static const char *const files[] = {"manifests/base/config.yaml",
                                        "manifests/overlays/default-scheduler/config.yaml"};
    const char *source = getenv("MILLIGPU_SOURCE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", source != NULL ? source : ".", files[i]);
        if (settings_check_file(path, NULL, &err) < 0)
            fail_msg("%s", err.text);
    }
}

FIXTURE_TEST(documents__equal_the_table)
{
    document_equals("docs/CONFIG.md", settings_markdown);
    document_equals("docs/man/milligpud.8", settings_man);
}

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(file);
    must(fd >= 0);
    return close(fd);
}

static int drop_file(void **state)
{
    (void)state;
    return unlink(file);
}

TEST_GROUP(make_file, drop_file)
