#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "kube/config.h"
#include "support/test.h"

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
    static const char *const name[] = {"config", "token", "ca.crt", "namespace"};
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

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

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

/* A kubeconfig of this text, in the folder. Returns when its token was read. */
static int64_t load(struct fixture *fixture, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s", put(fixture, "config", text));
    assert_int_equal(kube_config_load(path, NULL, &fixture->config, &fixture->err), 0);
    return fixture->config->token.read_ms;
}

static int in_cluster(struct fixture *fixture, const char *host, const char *port)
{
    return kube_config_in_cluster(fixture->folder, host, port, &fixture->config, &fixture->err);
}

static int take(struct fixture *fixture, int64_t now_ms)
{
    kube_auth_done(&fixture->auth);
    return kube_auth_take(fixture->config, now_ms, &fixture->auth, &fixture->err);
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

FIXTURE_TEST(context__is_the_current_one)
{
    assert_int_equal(parse(fixture, "preferences: {}\n" HEAD CLUSTER USER "    token: abc\n"), 0);
    assert_string_equal(kube_config_server(fixture->config), "https://10.0.0.1:6443");
    assert_string_equal(kube_config_namespace(fixture->config), "space");
    assert_int_equal(take(fixture, 0), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer abc");
    assert_null(fixture->auth.ca);
    assert_null(fixture->auth.cert);
}

FIXTURE_TEST(context__can_be_named)
{
    const struct text text =
        TEXT("contexts:\n- name: a\n  context: {cluster: x}\n- name: b\n"
             "  context: {cluster: z}\nclusters:\n- name: x\n  cluster: {server: "
             "\"http://x\"}\n- name: z\n  cluster: {server: \"http://z\"}\n");

    assert_int_equal(kube_config_parse(text, "f", "b", &fixture->config, &fixture->err), 0);
    assert_string_equal(kube_config_server(fixture->config), "http://z");
    assert_string_equal(kube_config_namespace(fixture->config), "");
    assert_int_equal(take(fixture, 0), 0);
    assert_null(fixture->auth.header);
    kube_config_free(fixture->config);
    fixture->config = NULL;
    assert_true(kube_config_parse(text, "f", "z", &fixture->config, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.text, "contexts: there is none with the name \"z\""));
}

FIXTURE_TEST(kubeconfig__may_be_json)
{
    assert_int_equal(parse(fixture,
                           "{\"current-context\":\"a\",\"contexts\":[{\"name\":\"a\",\"context\":{"
                           "\"cluster\":\"c\"}}],\"clusters\":[{\"name\":\"c\",\"cluster\":{"
                           "\"server\":\"https://h\"}}]}"),
                     0);
    assert_string_equal(kube_config_server(fixture->config), "https://h");
}

FIXTURE_TEST(kubeconfig__data_is_decoded)
{
    assert_int_equal(parse(fixture, HEAD CLUSTER "    certificate-authority-data: Q0EgUEVN\n" USER
                                                 "    client-certificate-data: Q0VSVA==\n"
                                                 "    client-key-data: S0VZ\n"),
                     0);
    assert_int_equal(take(fixture, 0), 0);
    assert_string_equal(fixture->auth.ca, "CA PEM");
    assert_string_equal(fixture->auth.cert, "CERT");
    assert_string_equal(fixture->auth.key, "KEY");
    assert_null(fixture->auth.header);
}

FIXTURE_TEST(kubeconfig__user_and_password_are_basic_authentication)
{
    assert_int_equal(
        parse(fixture, HEAD CLUSTER USER "    username: admin\n    password: s3:cret\n"), 0);
    assert_int_equal(take(fixture, 0), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Basic YWRtaW46czM6Y3JldA==");
}

FIXTURE_TEST(kubeconfig__paths_are_relative_and_files_are_read_again)
{
    (void)put(fixture, "token", "first\n");
    (void)put(fixture, "ca.crt", "CA 1\n");
    const int64_t now_ms =
        load(fixture, HEAD CLUSTER "    certificate-authority: ca.crt\n" USER
                                   "    tokenFile: token\n    token: not-this\n");
    assert_int_equal(take(fixture, now_ms), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer first");
    assert_string_equal(fixture->auth.ca, "CA 1");
    (void)put(fixture, "token", "second");
    (void)put(fixture, "ca.crt", "CA 2");
    assert_int_equal(take(fixture, now_ms + 59999), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer first");
    assert_int_equal(take(fixture, now_ms + 60000), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer second");
    assert_string_equal(fixture->auth.ca, "CA 2");
}

FIXTURE_TEST(token_file__is_read_again_after_a_refusal)
{
    (void)put(fixture, "token", "first");
    const int64_t now_ms = load(fixture, HEAD CLUSTER USER "    tokenFile: token\n");
    assert_int_equal(take(fixture, now_ms), 0);
    (void)put(fixture, "token", "second");
    assert_true(kube_auth_refuse(fixture->config, now_ms));
    assert_int_equal(take(fixture, now_ms), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer second");
}

FIXTURE_TEST(token_file__keeps_the_old_token_while_it_is_replaced)
{
    (void)put(fixture, "token", "first");
    const int64_t now_ms = load(fixture, HEAD CLUSTER USER "    tokenFile: token\n");
    (void)put(fixture, "token", "");
    assert_int_equal(take(fixture, now_ms + 100000), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer first");
    (void)put(fixture, "token", "second");
    assert_int_equal(take(fixture, now_ms + 100000), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer second");
}

FIXTURE_TEST(token__that_is_static_cannot_be_renewed)
{
    assert_int_equal(parse(fixture, HEAD CLUSTER USER "    token: abc\n"), 0);
    assert_false(kube_auth_refuse(fixture->config, 0));
}

FIXTURE_TEST(kubeconfig__error_names_key_and_line)
{
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
    refuses(fixture, HEAD "x: &x [1]\ny: *x\n", "alias");
    refuses(fixture, "a: [", "line 2: did not find");
    refuses(fixture, "\x01", "control characters");
}

/* milligpud executes no program: the refusal says what to do instead. */
FIXTURE_TEST(kubeconfig__credential_plugin_is_refused_with_advice)
{
    refuses(fixture,
            HEAD CLUSTER USER
            "    token: abc\n"
            "    exec: {apiVersion: client.authentication.k8s.io/v1, command: x}\n",
            "line 15: users[0].user.exec: credential plugins are not supported: run \"kubectl "
            "proxy\" and name the server http://127.0.0.1:8001 without a user, or use tokenFile or "
            "a client certificate");
    refuses(fixture, HEAD CLUSTER USER "    exec: 7\n", "users[0].user.exec: credential plugins");
    /* Another context does not matter. */
    assert_int_equal(parse(fixture, HEAD CLUSTER USER "    token: abc\n- name: v\n"
                                                      "  user: {exec: {command: x}}\n"),
                     0);
}

FIXTURE_TEST(kubeconfig__missing_files_are_named)
{
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

FIXTURE_TEST(in_cluster__uses_the_files_of_the_pod)
{
    (void)put(fixture, "token", "tok\n");
    (void)put(fixture, "ca.crt", "CA");
    (void)put(fixture, "namespace", "milligpu\n");
    assert_int_equal(in_cluster(fixture, "10.0.0.1", "443"), 0);
    assert_string_equal(kube_config_server(fixture->config), "https://10.0.0.1:443");
    assert_string_equal(kube_config_namespace(fixture->config), "milligpu");
    assert_int_equal(take(fixture, fixture->config->token.read_ms), 0);
    assert_string_equal(fixture->auth.header, "Authorization: Bearer tok");
    assert_string_equal(fixture->auth.ca, "CA");
}

FIXTURE_TEST(in_cluster__puts_brackets_round_an_ipv6_address)
{
    (void)put(fixture, "token", "tok");
    (void)put(fixture, "ca.crt", "CA");
    assert_int_equal(in_cluster(fixture, "fd00::1", "443"), 0);
    assert_string_equal(kube_config_server(fixture->config), "https://[fd00::1]:443");
    assert_string_equal(kube_config_namespace(fixture->config), "");
}

FIXTURE_TEST(in_cluster__error_outside_of_a_cluster_names_kubeconfig)
{
    assert_true(in_cluster(fixture, NULL, "443") < 0);
    assert_non_null(strstr(fixture->err.text, "name a kubeconfig"));
    assert_true(in_cluster(fixture, "h", "1") < 0);
    assert_non_null(strstr(fixture->err.text, "No such file"));
}
