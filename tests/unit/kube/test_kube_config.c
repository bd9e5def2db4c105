#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "milligpu/alloc.h"

#include "kube/config.h"
#include "support/patience.h"

/* A folder of its own for each test. */
struct fixture {
    char folder[64];
    char path[128];
    struct kube_config *config;
    struct err err;
    struct auth auth;
};

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);
    (void)snprintf(fixture->folder, sizeof fixture->folder, "/tmp/milligpu-config-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    static const char *const name[] = {"config", "token", "ca.crt", "namespace",
                                       "plugin", "count", "cert",   "key"};
    kube_config_free(fixture->config);
    kube_auth_done(&fixture->auth);
    for (size_t i = 0; i < ARRAY_LEN(name); i++) {
        (void)snprintf(fixture->path, sizeof fixture->path, "%s/%s", fixture->folder, name[i]);
        (void)unlink(fixture->path);
    }
    assert_int_equal(rmdir(fixture->folder), 0);
    xfree(fixture);
    return 0;
}

static const char *put(struct fixture *fixture, const char *name, const char *text)
{
    (void)snprintf(fixture->path, sizeof fixture->path, "%s/%s", fixture->folder, name);
    FILE *file = fopen(fixture->path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return fixture->path;
}

static int parse(struct fixture *fixture, const char *text)
{
    kube_config_free(fixture->config);
    fixture->config = NULL;
    return kube_config_parse(text_of(text), "kubeconfig", NULL, &fixture->config, &fixture->err);
}

static enum auth_verdict take(struct fixture *fixture, int64_t now_ms)
{
    kube_auth_done(&fixture->auth);
    return kube_auth_take(fixture->config, now_ms, &fixture->auth, &fixture->err);
}

/* A plugin runs in a thread of its own: asks until it has ended. */
static enum auth_verdict take_patiently(struct fixture *fixture, int64_t now_ms)
{
    enum auth_verdict verdict = take(fixture, now_ms);
    int64_t until_ms = 0;
    while (verdict == AUTH_WAIT && patience_left(&until_ms))
        verdict = take(fixture, now_ms);
    return verdict;
}

static void refuses(struct fixture *fixture, const char *text, const char *why)
{
    if (parse(fixture, text) >= 0)
        fail_msg("accepted: %s", text);
    if (strstr(fixture->err.text, why) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", why, fixture->err.text);
    assert_non_null(strstr(fixture->err.text, "kubeconfig: "));
}

#define HEAD                                                                                       \
    "apiVersion: v1\nkind: Config\ncurrent-context: here\n"                                        \
    "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: space}\n"
#define CLUSTER "clusters:\n- name: c\n  cluster:\n    server: https://10.0.0.1:6443/\n"
#define USER    "users:\n- name: u\n  user:\n"

/* ---- kubeconfig ---- */

static void the_current_context_is_used(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(parse(fixture, "preferences: {}\n" HEAD CLUSTER USER "    token: abc\n"), 0);
    assert_string_equal(kube_config_server(fixture->config), "https://10.0.0.1:6443");
    assert_string_equal(kube_config_namespace(fixture->config), "space");
    assert_int_equal(take(fixture, 0), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer abc");
    assert_null(fixture->auth.ca);
    assert_null(fixture->auth.cert);
}

static void another_context_can_be_named(void **state)
{
    struct fixture *fixture = *state;
    const struct text text =
        TEXT("contexts:\n- name: a\n  context: {cluster: x}\n- name: b\n"
             "  context: {cluster: z}\nclusters:\n- name: x\n  cluster: {server: "
             "\"http://x\"}\n- name: z\n  cluster: {server: \"http://z\"}\n");

    assert_int_equal(kube_config_parse(text, "f", "b", &fixture->config, &fixture->err), 0);
    assert_string_equal(kube_config_server(fixture->config), "http://z");
    assert_string_equal(kube_config_namespace(fixture->config), "");
    assert_int_equal(take(fixture, 0), AUTH_READY);
    assert_null(fixture->auth.header);
    kube_config_free(fixture->config);
    fixture->config = NULL;
    assert_true(kube_config_parse(text, "f", "z", &fixture->config, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.text, "contexts: there is none with the name \"z\""));
}

static void json_is_a_kubeconfig_too(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(parse(fixture,
                           "{\"current-context\":\"a\",\"contexts\":[{\"name\":\"a\",\"context\":{"
                           "\"cluster\":\"c\"}}],\"clusters\":[{\"name\":\"c\",\"cluster\":{"
                           "\"server\":\"https://h\"}}]}"),
                     0);
    assert_string_equal(kube_config_server(fixture->config), "https://h");
}

static void data_is_decoded_and_names_a_certificate(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(parse(fixture, HEAD CLUSTER "    certificate-authority-data: Q0EgUEVN\n" USER
                                                 "    client-certificate-data: Q0VSVA==\n"
                                                 "    client-key-data: S0VZ\n"),
                     0);
    assert_int_equal(take(fixture, 0), AUTH_READY);
    assert_string_equal(fixture->auth.ca, "CA PEM");
    assert_string_equal(fixture->auth.cert, "CERT");
    assert_string_equal(fixture->auth.key, "KEY");
    assert_null(fixture->auth.header);
}

static void a_user_and_a_password_are_basic_authentication(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(
        parse(fixture, HEAD CLUSTER USER "    username: admin\n    password: s3:cret\n"), 0);
    assert_int_equal(take(fixture, 0), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Basic YWRtaW46czM6Y3JldA==");
}

static void paths_are_relative_to_the_file_and_files_are_read_again(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    (void)put(fixture, "token", "first\n");
    (void)put(fixture, "ca.crt", "CA 1\n");
    (void)snprintf(path, sizeof path, "%s",
                   put(fixture, "config",
                       HEAD CLUSTER "    certificate-authority: ca.crt\n" USER
                                    "    tokenFile: token\n"
                                    "    token: not-this\n"));
    assert_int_equal(kube_config_load(path, NULL, &fixture->config, &fixture->err), 0);
    const int64_t now_ms = fixture->config->token.read_ms;
    assert_int_equal(take(fixture, now_ms), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer first");
    assert_string_equal(fixture->auth.ca, "CA 1");
    (void)put(fixture, "token", "second");
    (void)put(fixture, "ca.crt", "CA 2");
    assert_int_equal(take(fixture, now_ms + 59999), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer first");
    assert_int_equal(take(fixture, now_ms + 60000), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer second");
    assert_string_equal(fixture->auth.ca, "CA 2");
}

static void a_refused_token_is_read_again_at_once(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    (void)put(fixture, "token", "first");
    (void)snprintf(path, sizeof path, "%s",
                   put(fixture, "config", HEAD CLUSTER USER "    tokenFile: token\n"));
    assert_int_equal(kube_config_load(path, NULL, &fixture->config, &fixture->err), 0);
    const int64_t now_ms = fixture->config->token.read_ms;
    assert_int_equal(take(fixture, now_ms), AUTH_READY);
    (void)put(fixture, "token", "second");
    assert_true(kube_auth_refuse(fixture->config, fixture->auth.generation, now_ms));
    assert_int_equal(take(fixture, now_ms), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer second");
}

static void a_file_that_is_being_replaced_leaves_the_old_one_in_use(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    (void)put(fixture, "token", "first");
    (void)snprintf(path, sizeof path, "%s",
                   put(fixture, "config", HEAD CLUSTER USER "    tokenFile: token\n"));
    assert_int_equal(kube_config_load(path, NULL, &fixture->config, &fixture->err), 0);
    const int64_t now_ms = fixture->config->token.read_ms;
    (void)put(fixture, "token", "");
    assert_int_equal(take(fixture, now_ms + 100000), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer first");
    (void)put(fixture, "token", "second");
    assert_int_equal(take(fixture, now_ms + 100000), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer second");
}

static void a_static_token_cannot_be_renewed(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(parse(fixture, HEAD CLUSTER USER "    token: abc\n"), 0);
    assert_false(kube_auth_refuse(fixture->config, 0, 0));
}

static void mistakes_are_named_with_key_and_line(void **state)
{
    struct fixture *fixture = *state;

    refuses(fixture, "", "expected one kubeconfig, found nothing");
    refuses(fixture, "hello", "expected one kubeconfig, found a string");
    refuses(fixture, "a: 1\n---\nb: 2\n", "several documents");
    refuses(fixture, "{}", "current-context: is not set");
    refuses(fixture, "kind: Pod\ncurrent-context: a\n", "line 1: kind: expected \"Config\"");
    refuses(fixture, "current-context: [x]\n", "line 1: current-context: expected a string");
    refuses(fixture, "current-context: \"a\\0b\"\n",
            "line 1: current-context: must not hold a NUL");
    refuses(fixture, "current-context: here\n", "contexts: there is none with the name \"here\"");
    refuses(fixture, "current-context: a\ncontexts: {a: b}\n",
            "line 2: contexts: expected an array");
    refuses(fixture, "current-context: a\ncontexts: [7]\n", "contexts[0]: expected an object");
    refuses(fixture, "current-context: a\ncontexts:\n- name: a\n", "contexts[0].context");
    refuses(fixture, "current-context: a\ncontexts:\n- name: a\n  context: {}\n",
            "contexts[0].context.cluster: expected the name of a cluster");
    refuses(fixture, HEAD, "clusters: there is none with the name \"c\"");
    refuses(fixture, HEAD "clusters:\n- name: c\n  cluster: {server: 7}\n",
            "line 9: clusters[0].cluster.server: expected a string, found a number");
    refuses(fixture, HEAD "clusters:\n- name: c\n  cluster: {}\n",
            "cluster.server: expected the address");
    refuses(fixture, HEAD "clusters:\n- name: c\n  cluster: {server: ftp://x}\n",
            "expected https://");
    refuses(fixture, HEAD "clusters:\n- name: c\n  cluster: {server: \"https://u:p@x\"}\n",
            "without user");
    refuses(fixture, HEAD CLUSTER "    insecure-skip-tls-verify: \"yes\"\n",
            "insecure-skip-tls-verify: expected true or false, found a string");
    refuses(fixture, HEAD CLUSTER "    certificate-authority-data: \"%%\"\n",
            "certificate-authority-data: is not base64");
    refuses(fixture, HEAD CLUSTER, "users: there is none with the name \"u\"");
    refuses(fixture, HEAD CLUSTER USER "    token: 123\n",
            "users[0].user.token: expected a string");
    refuses(fixture, HEAD CLUSTER USER "    token: \"a\\nb\"\n", "token: a line break inside");
    refuses(fixture, HEAD CLUSTER USER "    client-certificate: x\n", "user.client-key: a client");
    refuses(fixture, HEAD CLUSTER USER "    auth-provider: {name: gcp}\n",
            "removed from Kubernetes");
    refuses(fixture, HEAD CLUSTER USER "    as: root\n", "impersonation is not supported");
    refuses(fixture, HEAD CLUSTER USER "    token: a\n    token: b\n",
            "the key \"token\" is there twice");
    refuses(fixture, HEAD "server: https://x\n", "line 7: server: unknown key; known are");
    refuses(fixture, HEAD "clusters:\n- name: c\n  cluster: {sever: \"https://x\"}\n",
            "line 9: clusters[0].cluster.sever: unknown key; known are server");
    refuses(fixture, HEAD CLUSTER USER "    tokn: abc\n", "users[0].user.tokn: unknown key");
    refuses(fixture, HEAD CLUSTER USER "    exec: {comand: x}\n", "exec.comand: unknown key");
    refuses(fixture, HEAD "x: &x [1]\ny: *x\n", "alias");
    refuses(fixture, "a: [", "line 2: did not find");
    refuses(fixture, "\x01", "control characters");
}

static void files_that_are_missing_are_named(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    assert_true(kube_config_load("/nowhere/config", NULL, &fixture->config, &fixture->err) < 0);
    assert_int_equal(fixture->err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(fixture->err.text, "/nowhere/config: No such file"));
    (void)snprintf(path, sizeof path, "%s",
                   put(fixture, "config", HEAD CLUSTER USER "    tokenFile: gone\n"));
    assert_true(kube_config_load(path, NULL, &fixture->config, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.text, "/gone: No such file"));
    assert_null(fixture->config);
}

/* ---- in a cluster ---- */

static void a_pod_finds_its_cluster(void **state)
{
    struct fixture *fixture = *state;

    (void)put(fixture, "token", "tok\n");
    (void)put(fixture, "ca.crt", "CA");
    (void)put(fixture, "namespace", "milligpu\n");
    assert_int_equal(
        kube_config_in_cluster(fixture->folder, "10.0.0.1", "443", &fixture->config, &fixture->err),
        0);
    assert_string_equal(kube_config_server(fixture->config), "https://10.0.0.1:443");
    assert_string_equal(kube_config_namespace(fixture->config), "milligpu");
    assert_int_equal(take(fixture, fixture->config->token.read_ms), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer tok");
    assert_string_equal(fixture->auth.ca, "CA");
}

static void an_ipv6_address_gets_its_brackets(void **state)
{
    struct fixture *fixture = *state;

    (void)put(fixture, "token", "tok");
    (void)put(fixture, "ca.crt", "CA");
    assert_int_equal(
        kube_config_in_cluster(fixture->folder, "fd00::1", "443", &fixture->config, &fixture->err),
        0);
    assert_string_equal(kube_config_server(fixture->config), "https://[fd00::1]:443");
    assert_string_equal(kube_config_namespace(fixture->config), "");
}

static void outside_of_a_cluster_it_says_so(void **state)
{
    struct fixture *fixture = *state;

    assert_true(
        kube_config_in_cluster(fixture->folder, NULL, "443", &fixture->config, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.text, "name a kubeconfig"));
    assert_true(kube_config_in_cluster(fixture->folder, "h", "1", &fixture->config, &fixture->err) <
                0);
    assert_non_null(strstr(fixture->err.text, "No such file"));
}

/* ---- exec plugins ---- */

#define ANSWER(status)                                                                             \
    "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","             \
    "\"status\":{" status "}}"

static int load_plugin(struct fixture *fixture, const char *script, const char *more)
{
    char text[1024];
    char path[128];

    (void)put(fixture, "plugin", script);
    assert_int_equal(chmod(fixture->path, 0755), 0);
    (void)snprintf(text, sizeof text,
                   HEAD CLUSTER USER
                   "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n"
                   "      command: ./plugin\n%s",
                   more);
    (void)snprintf(path, sizeof path, "%s", put(fixture, "config", text));
    kube_config_free(fixture->config);
    fixture->config = NULL;
    return kube_config_load(path, NULL, &fixture->config, &fixture->err);
}

static void a_plugin_gives_a_token(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(
        load_plugin(fixture,
                    "#!/bin/sh\n"
                    "case $KUBERNETES_EXEC_INFO in *'\"interactive\":false'*) ;; *) exit 3;; esac\n"
                    "echo noise >&2\n"
                    "echo '" ANSWER("\"token\":\"'$1-$WHO'\"") "'\n",
                    "      args: [one]\n      env: [{name: WHO, value: me}]\n"),
        0);
    assert_int_equal(take_patiently(fixture, 1000), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer one-me");
}

static void a_plugin_gives_a_certificate(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(
        load_plugin(fixture,
                    "#!/bin/sh\necho '" ANSWER(
                        "\"clientCertificateData\":\"CERT\",\"clientKeyData\":\"KEY\"") "'\n",
                    ""),
        0);
    assert_int_equal(take_patiently(fixture, 1000), AUTH_READY);
    assert_null(fixture->auth.header);
    assert_string_equal(fixture->auth.cert, "CERT");
    assert_string_equal(fixture->auth.key, "KEY");
}

static void a_plugin_is_told_the_cluster_if_it_asks(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(
        load_plugin(fixture,
                    "#!/bin/sh\n"
                    "case $KUBERNETES_EXEC_INFO in *'\"server\":\"https://10.0.0.1:6443\"'*) ;; *) "
                    "exit 3;; esac\n"
                    "echo '" ANSWER("\"token\":\"t\"") "'\n",
                    "      provideClusterInfo: true\n"),
        0);
    assert_int_equal(take_patiently(fixture, 1000), AUTH_READY);
}

static void a_plugin_runs_again_when_its_token_ends_or_is_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char script[] =
        "#!/bin/sh\ncd \"${0%/*}\"; echo x >>count\n"
        "echo '" ANSWER("\"token\":\"'$(wc -l <count)'\",\"expirationTimestamp\":\"'$1'\"") "'\n";

    assert_int_equal(load_plugin(fixture, script, "      args: [\"2099-01-01T00:00:00Z\"]\n"), 0);
    assert_int_equal(take_patiently(fixture, 1000), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer 1");
    assert_int_equal(take(fixture, 1001), AUTH_READY);
    assert_true(kube_auth_refuse(fixture->config, fixture->auth.generation, 1002));
    assert_int_equal(take_patiently(fixture, 1003), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer 2");
    /* A late refusal of the first token changes nothing. */
    assert_true(kube_auth_refuse(fixture->config, fixture->auth.generation - 1, 1004));
    assert_int_equal(take(fixture, 1005), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer 2");
    assert_int_equal(load_plugin(fixture, script, "      args: [\"2001-01-01T00:00:00Z\"]\n"), 0);
    assert_int_equal(take(fixture, 1000), AUTH_WAIT);
}

static void a_credential_is_used_to_its_end_while_the_next_one_is_made(void **state)
{
    struct fixture *fixture = *state;
    static const char script[] =
        "#!/bin/sh\ncd \"${0%/*}\"; echo x >>count\n"
        "[ $(wc -l <count) = 1 ] || exec sleep 60\n"
        "echo '" ANSWER("\"token\":\"1\",\"expirationTimestamp\":\"'$(date -u -d +8seconds "
                        "+%FT%TZ)'\"") "'\n";

    assert_int_equal(load_plugin(fixture, script, ""), 0);
    assert_int_equal(take_patiently(fixture, 1000), AUTH_READY);
    assert_int_equal(take(fixture, 1001), AUTH_READY); /* the second run has begun, and hangs */
    assert_int_equal(take(fixture, 1002), AUTH_READY);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer 1");
}

static void a_plugin_that_fails_is_quoted(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *script;
        const char *why;
    } row[] = {
        {"#!/bin/sh\necho 'please log in' >&2; exit 7\n", "ended with status 7: please log in"},
        {"#!/bin/sh\nkill -9 $$\n", "ended with signal 9"},
        {"#!/bin/sh\necho nonsense\n", "ExecCredential"},
        {"#!/bin/sh\necho '{\"kind\":\"Pod\"}'\n", "kind: expected \"ExecCredential\""},
        {"#!/bin/sh\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":\"x\"}'\n",
         "apiVersion: expected"},
        {"#!/bin/sh\necho '" ANSWER("") "'\n", "status: expected a token"},
        {"#!/bin/sh\necho '" ANSWER("\"clientKeyData\":\"k\"") "'\n", "status: expected a token"},
        {"#!/bin/sh\necho '" ANSWER("\"token\":\"t\",\"expirationTimestamp\":\"soon\"") "'\n",
         "is not a time"},
        {"#!/bin/sh\nexec yes\n", "more than"},
        {"#!/no/such/shell\n", "No such file"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        assert_int_equal(load_plugin(fixture, row[i].script, ""), 0);
        const enum auth_verdict verdict = take_patiently(fixture, fixture->config->token.read_ms);
        assert_int_equal(verdict, AUTH_FAILED);
        if (strstr(fixture->err.text, row[i].why) == NULL)
            fail_msg("expected \"%s\", got \"%s\"", row[i].why, fixture->err.text);
        assert_non_null(strstr(fixture->err.text, "exec plugin ./plugin"));
    }
}

static void a_plugin_that_hangs_does_not_hold_up_the_end(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(load_plugin(fixture, "#!/bin/sh\nexec sleep 60\n", ""), 0);
    assert_int_equal(take(fixture, 1000), AUTH_WAIT);
    assert_int_equal(take(fixture, 1001), AUTH_WAIT);
}

static void a_plugin_that_closes_its_pipes_and_lingers_does_not_hold_up_the_end(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(load_plugin(fixture, "#!/bin/sh\nexec sleep 600 >&- 2>&-\n", ""), 0);
    assert_int_equal(take(fixture, 1000), AUTH_WAIT);
    /* Long enough for the plugin to have closed its output. */
    (void)poll(NULL, 0, 200);
    assert_int_equal(take(fixture, 1001), AUTH_WAIT);
    (void)alarm(PATIENCE_S);
    kube_config_free(fixture->config);
    fixture->config = NULL;
    (void)alarm(0);
}

static void wrong_plugins_are_named(void **state)
{
    struct fixture *fixture = *state;

    refuses(fixture, HEAD CLUSTER USER "    exec: {command: x}\n",
            "user.exec.apiVersion: expected");
    refuses(fixture, HEAD CLUSTER USER "    exec: {apiVersion: client.authentication.k8s.io/v1}\n",
            "user.exec.command: expected the program");
    refuses(fixture,
            HEAD CLUSTER USER "    exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
                              "interactiveMode: Always}\n",
            "nobody can answer");
    refuses(fixture,
            HEAD CLUSTER USER "    exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
                              "args: [1]}\n",
            "user.exec.args: expected a string, found a number");
    refuses(fixture,
            HEAD CLUSTER USER "    exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
                              "env: [{value: a}]}\n",
            "expected a list of name and value");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_current_context_is_used),
        TEST(another_context_can_be_named),
        TEST(json_is_a_kubeconfig_too),
        TEST(data_is_decoded_and_names_a_certificate),
        TEST(a_user_and_a_password_are_basic_authentication),
        TEST(paths_are_relative_to_the_file_and_files_are_read_again),
        TEST(a_refused_token_is_read_again_at_once),
        TEST(a_file_that_is_being_replaced_leaves_the_old_one_in_use),
        TEST(a_static_token_cannot_be_renewed),
        TEST(mistakes_are_named_with_key_and_line),
        TEST(files_that_are_missing_are_named),
        TEST(a_pod_finds_its_cluster),
        TEST(an_ipv6_address_gets_its_brackets),
        TEST(outside_of_a_cluster_it_says_so),
        TEST(a_plugin_gives_a_token),
        TEST(a_plugin_gives_a_certificate),
        TEST(a_plugin_is_told_the_cluster_if_it_asks),
        TEST(a_plugin_runs_again_when_its_token_ends_or_is_refused),
        TEST(a_credential_is_used_to_its_end_while_the_next_one_is_made),
        TEST(a_plugin_that_fails_is_quoted),
        TEST(a_plugin_that_hangs_does_not_hold_up_the_end),
        TEST(a_plugin_that_closes_its_pipes_and_lingers_does_not_hold_up_the_end),
        TEST(wrong_plugins_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
