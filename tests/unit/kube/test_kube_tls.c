#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/base64.h"
#include "milligpu/run/file.h"

#include "kube/config.h"
#include "support/certificate.h"
#include "support/fake_api.h"
#include "support/test.h"

/* Made once by the openssl program, in a folder that is removed at the end. */
static char folder[64];

static const char *at(const char *name)
{
    static char path[4][128];
    static unsigned turn;
    char *out = path[turn++ % ARRAY_LEN(path)];
    (void)snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static char *text_at(const char *name)
{
    struct err err;
    char *text;
    size_t len;
    if (file_read(at(name), 1 << 20, &text, &len, &err) < 0)
        fail_msg("%s", err.text);
    return text;
}

static void write_at(const char *name, const char *text)
{
    FILE *file = fopen(at(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void copy_at(const char *from, const char *to)
{
    char *text = text_at(from);
    write_at(to, text);
    xfree(text);
}

static int make_all(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(folder, sizeof folder, "/tmp/milligpu-tls-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_true(certificate_make(folder, "ca", NULL));
    assert_true(certificate_make(folder, "other-ca", NULL));
    assert_true(certificate_make(folder, "server", "ca"));
    assert_true(certificate_make(folder, "client", "ca"));
    assert_true(certificate_make(folder, "stranger", "other-ca"));
    return 0;
}

static int remove_all(void **state)
{
    static const char *const name[] = {"ca",       "other-ca", "server", "client",
                                       "stranger", "mine",     "used"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(name); i++) {
        char file[64];
        (void)snprintf(file, sizeof file, "%s.crt", name[i]);
        (void)unlink(at(file));
        (void)snprintf(file, sizeof file, "%s.key", name[i]);
        (void)unlink(at(file));
    }
    certificate_tidy(folder);
    return rmdir(folder);
}

struct fixture {
    bool by_frames; /* kube_calls_new(); the server speaks HTTP/1.1 only */
    struct fake_apiserver *fake;
    struct fake_api *api;
    struct kube_config *config;
    struct kube_ops ops;
    struct strbuf text;
    struct err err;
};

static void serve(struct fixture *fixture, const char *client_ca)
{
    CLEANUP(xfreep) char *cert = text_at("server.crt");
    CLEANUP(xfreep) char *key = text_at("server.key");
    CLEANUP(xfreep) char *ca = client_ca != NULL ? text_at(client_ca) : NULL;
    const struct fake_tls tls = {cert, key, ca};

    *fixture = (struct fixture){.by_frames = fixture->by_frames, .fake = fake_apiserver_new("tls")};
    fixture->api = fake_api_new(fixture->fake, &tls);
    strbuf_init(&fixture->text);
}

static void hang_up(struct fixture *fixture)
{
    if (fixture->config == NULL)
        return;
    fixture->ops.free(fixture->ops.ctx);
    kube_config_free(fixture->config);
    fixture->config = NULL;
}

static void finish(struct fixture *fixture)
{
    hang_up(fixture);
    fake_api_free(fixture->api);
    fake_apiserver_free(fixture->fake);
    strbuf_done(&fixture->text);
}

static void connect_as(struct fixture *fixture, const char *cluster, const char *user)
{
    struct strbuf text;

    hang_up(fixture);
    strbuf_init(&text);
    strbuf_printf(
        &text,
        "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
        "clusters: [{name: x, cluster: {server: \"%s\", %s}}]\nusers: [{name: x, user: {%s}}]\n",
        fake_api_url(fixture->api), cluster, user);
    if (kube_config_parse((struct text){text.data, text.len}, at("config"), NULL, &fixture->config,
                          &fixture->err) < 0)
        fail_msg("%s", fixture->err.text);
    strbuf_done(&text);
    assert_int_equal(fixture->by_frames
                         ? kube_calls_new(fixture->config, &fixture->ops, &fixture->err)
                         : kube_curl_new(fixture->config, &fixture->ops, &fixture->err),
                     0);
}

static int get(struct fixture *fixture)
{
    static const struct kube_request request = {
        .id = 1, .method = "GET", .path = "/version", .body = {"", 0}, .timeout_ms = 10000};
    return kube_fetch(&fixture->ops, &request, &fixture->text, &fixture->err);
}

static int set_up_with(void **state, const char *client_ca, bool by_frames)
{
    static struct fixture fixture;

    fixture.by_frames = by_frames;
    serve(&fixture, client_ca);
    *state = &fixture;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, NULL, false);
}

static int set_up_frames(void **state)
{
    return set_up_with(state, NULL, true);
}

static int set_up_for_certificates(void **state)
{
    return set_up_with(state, "ca.crt", false);
}

static int set_up_for_certificates_frames(void **state)
{
    return set_up_with(state, "ca.crt", true);
}

static int tear_down(void **state)
{
    finish(*state);
    return 0;
}

#define SERVER_TEST(name)                                                                          \
    TEST_TWICE(name, struct fixture *fixture, set_up, _by_frames, set_up_frames, tear_down)

/* The server demands a client's certificate of its CA. */
#define CLIENT_TEST(name)                                                                          \
    TEST_TWICE(name, struct fixture *fixture, set_up_for_certificates, _by_frames,                 \
               set_up_for_certificates_frames, tear_down)

/* ---- the server's certificate ---- */

SERVER_TEST(server_certificate__is_verified_by_ca_and_name)
{
    static const struct {
        const char *cluster;
        int status;
    } row[] = {
        {"certificate-authority: ca.crt", 200},
        {"certificate-authority: other-ca.crt", -ERR_UNAUTHORIZED},
        {"disable-compression: true", -ERR_UNAUTHORIZED}, /* the CAs of the system */
        {"insecure-skip-tls-verify: true", 200},
        {"certificate-authority: ca.crt, tls-server-name: kube.test", 200},
        {"certificate-authority: ca.crt, tls-server-name: evil.test", -ERR_UNAUTHORIZED},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const unsigned seen = fake_api_seen(fixture->api, "");
        connect_as(fixture, row[i].cluster, "token: t");
        assert_int_equal(get(fixture), row[i].status);
        if (row[i].status < 0) {
            assert_non_null(strstr(fixture->err.text, "certificate"));
            assert_int_equal(fake_api_seen(fixture->api, ""), seen); /* nothing is sent */
        }
    }
}

SERVER_TEST(server_certificate__is_verified_by_ca_data)
{
    CLEANUP(xfreep) char *pem = text_at("ca.crt");
    CLEANUP(xfreep) char *data = base64_encode(text_of(pem));
    CLEANUP(strbuf_done) struct strbuf cluster;

    strbuf_init(&cluster);
    strbuf_printf(&cluster, "certificate-authority-data: %s", data);
    connect_as(fixture, cluster.data, "token: t");
    assert_int_equal(get(fixture), 200);
}

SERVER_TEST(server_certificate__is_verified_by_a_renewed_ca_after_a_failure)
{
    copy_at("other-ca.crt", "used.crt");
    connect_as(fixture, "certificate-authority: used.crt", "token: t");
    assert_int_equal(get(fixture), -ERR_UNAUTHORIZED);
    copy_at("ca.crt", "used.crt");
    assert_int_equal(get(fixture), 200);
}

SERVER_TEST(ca_file__without_a_certificate_is_an_error)
{
    write_at("used.crt", "not a certificate\n");
    connect_as(fixture, "certificate-authority: used.crt", "token: t");
    assert_true(get(fixture) < 0);
    assert_int_equal(fake_api_seen(fixture->api, ""), 0);
}

/* ---- ours ---- */

CLIENT_TEST(client_certificate__is_demanded_by_the_server)
{
    connect_as(fixture, "certificate-authority: ca.crt",
               "client-certificate: client.crt, client-key: client.key");
    assert_int_equal(get(fixture), 200);
    connect_as(fixture, "certificate-authority: ca.crt", "token: t");
    assert_int_not_equal(get(fixture), 200);
    connect_as(fixture, "certificate-authority: ca.crt",
               "client-certificate: stranger.crt, client-key: stranger.key");
    assert_int_not_equal(get(fixture), 200);
}

CLIENT_TEST(client_certificate__renewed_gets_a_new_connection)
{
    copy_at("stranger.crt", "mine.crt");
    copy_at("stranger.key", "mine.key");
    connect_as(fixture, "certificate-authority: ca.crt",
               "client-certificate: mine.crt, client-key: mine.key");
    assert_int_equal(get(fixture), 401);
    copy_at("client.crt", "mine.crt");
    copy_at("client.key", "mine.key");
    assert_int_equal(get(fixture), 200);
}

CLIENT_TEST(client_certificate__with_the_key_of_another_is_an_error)
{
    connect_as(fixture, "certificate-authority: ca.crt",
               "client-certificate: client.crt, client-key: server.key");
    assert_true(get(fixture) < 0);
    assert_int_equal(fake_api_seen(fixture->api, ""), 0);
}

TEST_GROUP(make_all, remove_all)
