#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "support.h"
#include "support/patience.h"
#include "support/test.h"

#define TLS_1_2 "NORMAL:-VERS-ALL:+VERS-TLS1.2"
#define GET     "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"

struct identity {
    gnutls_x509_crt_t cert;
    gnutls_x509_privkey_t key;
};

static struct site site;
static char folder[] = "/tmp/milligpu-tls-XXXXXX";
static struct identity ca, other_ca, server, server2, scheduler, stranger, no_client, second, cut;
static int serial;
static const char *const versions[] = {"NORMAL", TLS_1_2};

/* --- certificates --- */

static time_t now(void)
{
    struct timespec at;

    must(clock_gettime(CLOCK_REALTIME, &at) == 0);
    return at.tv_sec;
}

static void make_of(struct identity *out, struct text name, const struct identity *issuer,
                    const char *purpose)
{
    unsigned char number[] = {1, 0};

    number[1] = (unsigned char)++serial;
    must(gnutls_x509_privkey_init(&out->key) == 0);
    must(gnutls_x509_privkey_generate(out->key, GNUTLS_PK_ECDSA,
                                      GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) == 0);
    must(gnutls_x509_crt_init(&out->cert) == 0);
    must(gnutls_x509_crt_set_version(out->cert, 3) == 0);
    must(gnutls_x509_crt_set_serial(out->cert, number, sizeof number) == 0);
    must(gnutls_x509_crt_set_activation_time(out->cert, now() - 3600) == 0);
    must(gnutls_x509_crt_set_expiration_time(out->cert, now() + 3600) == 0);
    must(gnutls_x509_crt_set_dn_by_oid(out->cert, GNUTLS_OID_X520_COMMON_NAME, 0, name.at,
                                       (unsigned)name.len) == 0);
    must(gnutls_x509_crt_set_key(out->cert, out->key) == 0);
    must(gnutls_x509_crt_set_basic_constraints(out->cert, issuer == NULL, -1) == 0);
    if (purpose != NULL)
        must(gnutls_x509_crt_set_key_purpose_oid(out->cert, purpose, 0) == 0);
    if (issuer == NULL)
        issuer = out;
    must(gnutls_x509_crt_sign2(out->cert, issuer->cert, issuer->key, GNUTLS_DIG_SHA256, 0) == 0);
}

static void make(struct identity *out, const char *name, const struct identity *issuer,
                 const char *purpose)
{
    make_of(out, text_of(name), issuer, purpose);
}

static void sign(struct identity *identity, const struct identity *issuer)
{
    must(gnutls_x509_crt_sign2(identity->cert, issuer->cert, issuer->key, GNUTLS_DIG_SHA256, 0) ==
         0);
}

static void name_also(struct identity *identity, const char *dns, const struct identity *issuer)
{
    must(gnutls_x509_crt_set_subject_alt_name(identity->cert, GNUTLS_SAN_DNSNAME, dns,
                                              (unsigned)strlen(dns), GNUTLS_FSAN_APPEND) == 0);
    sign(identity, issuer);
}

static void drop(struct identity *identity)
{
    gnutls_x509_crt_deinit(identity->cert);
    gnutls_x509_privkey_deinit(identity->key);
}

static const char *path_of(const char *name)
{
    static char path[4][64];
    static size_t at;

    at = (at + 1) % ARRAY_LEN(path);
    (void)snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
    return path[at];
}

static void write_file(const char *name, const void *bytes, size_t count)
{
    FILE *file = fopen(path_of(name), "we");
    must(file != NULL);
    must(fwrite(bytes, 1, count, file) == count);
    must(fclose(file) == 0);
}

static void write_identity(const struct identity *from, const char *cert, const char *key)
{
    gnutls_datum_t pem;

    must(gnutls_x509_crt_export2(from->cert, GNUTLS_X509_FMT_PEM, &pem) == 0);
    write_file(cert, pem.data, pem.size);
    gnutls_free(pem.data);
    if (key == NULL)
        return;
    must(gnutls_x509_privkey_export2(from->key, GNUTLS_X509_FMT_PEM, &pem) == 0);
    write_file(key, pem.data, pem.size);
    gnutls_free(pem.data);
}

/* --- a client --- */

struct tls_client {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

/* Returns 0 or the error of GnuTLS. */
static int tls_open(struct tls_client *client, const struct identity *self, const char *version)
{
    gnutls_x509_crt_t trusted[] = {ca.cert};
    struct identity own = self != NULL ? *self : (struct identity){0};

    client->fd = client_open(&site);
    must(client->fd >= 0);
    must(gnutls_certificate_allocate_credentials(&client->credentials) == 0);
    must(gnutls_certificate_set_x509_trust(client->credentials, trusted, 1) == 1);
    if (self != NULL)
        must(gnutls_certificate_set_x509_key(client->credentials, &own.cert, 1, own.key) >= 0);
    must(gnutls_init(&client->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) == 0);
    must(gnutls_priority_set_direct(client->session, version, NULL) == 0);
    must(gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials) == 0);
    gnutls_session_set_verify_cert(client->session, NULL, 0);
    gnutls_transport_set_int(client->session, client->fd);
    gnutls_handshake_set_timeout(client->session, PATIENCE_MS);
    int rc;
    do
        rc = gnutls_handshake(client->session);
    while (rc < 0 && gnutls_error_is_fatal(rc) == 0);
    return rc;
}

static void tls_close(struct tls_client *client)
{
    gnutls_deinit(client->session);
    gnutls_certificate_free_credentials(client->credentials);
    client_close(client->fd);
}

/* Asks, and reads until end has come; false: it did not come. */
static bool tls_ask(struct tls_client *client, const char *end, char *got, size_t bytes)
{
    size_t len = 0;

    got[0] = '\0';
    if (gnutls_record_send(client->session, GET, strlen(GET)) != (ssize_t)strlen(GET))
        return false;
    while (strstr(got, end) == NULL && len < bytes - 1) {
        const ssize_t now = gnutls_record_recv(client->session, got + len, bytes - 1 - len);
        if (now == GNUTLS_E_AGAIN || now == GNUTLS_E_INTERRUPTED)
            continue;
        if (now <= 0)
            return false;
        len += (size_t)now;
        got[len] = '\0';
    }
    return strstr(got, end) != NULL;
}

/* True if the answer is hello. */
static bool tls_hello(struct tls_client *client)
{
    char got[4096];

    return tls_ask(client, "\r\n\r\nhello", got, sizeof got) &&
           strncmp(got, "HTTP/1.1 200 ", 13) == 0;
}

/* In TLS 1.3 the client learns only by reading that its certificate was not accepted. */
static bool gets_hello(const struct identity *self, const char *version)
{
    struct tls_client client;
    const bool well = tls_open(&client, self, version) == 0 && tls_hello(&client);

    tls_close(&client);
    return well;
}

static int serial_seen(struct tls_client *client)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(client->session, &count);
    gnutls_x509_crt_t cert;
    unsigned char number[20];
    size_t bytes = sizeof number;

    must(chain != NULL && count > 0);
    must(gnutls_x509_crt_init(&cert) == 0);
    must(gnutls_x509_crt_import(cert, &chain[0], GNUTLS_X509_FMT_DER) == 0);
    must(gnutls_x509_crt_get_serial(cert, number, &bytes) == 0);
    gnutls_x509_crt_deinit(cert);
    return number[bytes - 1];
}

static int serial_of(const struct identity *identity)
{
    unsigned char number[20];
    size_t bytes = sizeof number;

    must(gnutls_x509_crt_get_serial(identity->cert, number, &bytes) == 0);
    return number[bytes - 1];
}

/*
 * While many connections are still being closed there is no room for another one (docs/why/015): a
 * client tries again.
 */
static bool opens_at_last(struct tls_client *client, const struct identity *self)
{
    bool open = tls_open(client, self, "NORMAL") == 0;

    int64_t until_ms = 0;
    while (!open && patience_left(&until_ms)) {
        tls_close(client);
        open = tls_open(client, self, "NORMAL") == 0;
    }
    return open;
}

/* --- tests --- */

static char cert_file[64], key_file[64], ca_file[64];

static int set_up(void **state)
{
    (void)state;
    site_init(&site);
    write_identity(&server, "cert.pem", "key.pem");
    write_identity(&ca, "ca.pem", NULL);
    (void)snprintf(cert_file, sizeof cert_file, "%s", path_of("cert.pem"));
    (void)snprintf(key_file, sizeof key_file, "%s", path_of("key.pem"));
    (void)snprintf(ca_file, sizeof ca_file, "%s", path_of("ca.pem"));
    site.rules.cert_file = cert_file;
    site.rules.key_file = key_file;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client_close_all();
    site_stop(&site);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

FIXTURE_TEST(tls__serves_without_a_client_certificate)
{
    site_start(&site);
    assert_true(gets_hello(NULL, "NORMAL"));
    assert_true(gets_hello(&scheduler, "NORMAL"));
    assert_true(gets_hello(NULL, TLS_1_2));
    struct tls_client client;
    assert_int_equal(tls_open(&client, NULL, "NORMAL"), 0);
    for (int i = 0; i < 5; i++)
        assert_true(tls_hello(&client));
    tls_close(&client);
    assert_int_equal(atomic_load(&site.refused), 0);
}

FIXTURE_TEST(tls__refuses_versions_before_1_2)
{
    site_start(&site);
    assert_false(gets_hello(NULL, "NORMAL:-VERS-ALL:+VERS-TLS1.1:%COMPAT"));
    assert_false(gets_hello(NULL, "NORMAL:-VERS-ALL:+VERS-TLS1.0:%COMPAT"));
    assert_true(site_await(&site.refused, 2));
    assert_int_equal(atomic_load(&site.last_status), 0);
    assert_true(gets_hello(NULL, "NORMAL"));
}

FIXTURE_TEST(client_ca__admits_only_its_own_clients)
{
    site.rules.client_ca_file = ca_file;
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        assert_true(gets_hello(&scheduler, versions[i]));
        assert_false(gets_hello(NULL, versions[i]));
        assert_false(gets_hello(&stranger, versions[i]));
        assert_false(gets_hello(&no_client, versions[i]));
    }
    assert_int_equal(atomic_load(&site.handled), 2);
    assert_true(site_await(&site.refused, 6));
    assert_int_equal(atomic_load(&site.last_status), 0);
}

/* Names separated by blanks; NULL: any certificate will do. */
static const char *admitted;

static bool admits(void *user, const char *name)
{
    struct text rest = text_of(admitted != NULL ? admitted : "");
    struct text word;

    (void)user;
    if (admitted == NULL)
        return true;
    while (text_cut(&rest, ' ', &word))
        if (name[0] != '\0' && text_is(word, name))
            return true;
    return false;
}

static void start_with_names(const char *names)
{
    admitted = names;
    site.rules.client_ca_file = ca_file;
    site.rules.admits = admits;
    site_start(&site);
}

static void refused_for_its_name(const struct identity *self, const char *shown)
{
    char got[4096];

    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        struct tls_client client;
        assert_int_equal(tls_open(&client, self, versions[i]), 0);
        assert_true(tls_ask(&client, "lists none of these", got, sizeof got));
        assert_int_equal(strncmp(got, "HTTP/1.1 403 ", 13), 0);
        assert_non_null(strstr(got, shown));
        assert_non_null(strstr(got, "webhook_client_names"));
        tls_close(&client);
    }
}

FIXTURE_TEST(client_name__that_is_not_admitted_gets_403_with_the_names_shown)
{
    start_with_names("kube-scheduler");
    assert_true(gets_hello(&scheduler, "NORMAL"));
    assert_true(gets_hello(&scheduler, TLS_1_2));
    const int handled = atomic_load(&site.handled);
    refused_for_its_name(&second, "shows CN second-scheduler, DNS second.example, DNS b.example,");
    assert_int_equal(atomic_load(&site.handled), handled);
    assert_int_equal(atomic_load(&site.last_status), 403);
    admitted = "kube-scheduler.example kube-schedule Kube-Scheduler kube-scheduler2";
    refused_for_its_name(&scheduler, "shows CN kube-scheduler,");
    assert_false(gets_hello(&stranger, "NORMAL")); /* no name helps a client of another CA */
}

FIXTURE_TEST(client_name__may_be_any_of_the_certificate)
{
    static const char *const one[] = {"second-scheduler", "second.example", "b.example",
                                      "kube-scheduler b.example"};
    start_with_names(NULL);
    for (size_t i = 0; i < ARRAY_LEN(one); i++) {
        admitted = one[i];
        assert_true(gets_hello(&second, "NORMAL"));
    }
}

/*
 * The name is "kube-scheduler", a NUL and more, so it is not the name that a C string would show.
 */
FIXTURE_TEST(client_name__with_a_nul_matches_none)
{
    start_with_names("kube-scheduler");
    refused_for_its_name(&cut, "shows CN #"); /* GnuTLS writes such a name in hexadecimal */
}

FIXTURE_TEST(client_name__is_not_checked_without_a_setting)
{
    start_with_names(NULL);
    assert_true(gets_hello(&scheduler, "NORMAL"));
    assert_true(gets_hello(&second, "NORMAL"));
    assert_true(gets_hello(&cut, "NORMAL"));
    assert_false(gets_hello(&stranger, "NORMAL"));
    assert_false(gets_hello(NULL, "NORMAL"));
}

FIXTURE_TEST(client_names__that_change_apply_to_new_connections)
{
    struct tls_client before;
    start_with_names("kube-scheduler");
    assert_int_equal(tls_open(&before, &scheduler, "NORMAL"), 0);
    assert_true(tls_hello(&before));
    admitted = "second-scheduler";
    assert_true(tls_hello(&before));
    assert_true(gets_hello(&second, "NORMAL"));
    refused_for_its_name(&scheduler, "shows CN kube-scheduler,");
    tls_close(&before);
}

FIXTURE_TEST(tls__refuses_plain_http)
{
    CLEANUP(strbuf_done) struct strbuf answer;
    strbuf_init(&answer);
    site_start(&site);
    client_ask_end(&site, GET, &answer);
    assert_null(strstr(answer.data, "hello"));
    assert_true(site_await(&site.refused, 1));
    assert_int_equal(atomic_load(&site.handled), 0);
    assert_true(gets_hello(NULL, "NORMAL"));
}

FIXTURE_TEST(tls__cuts_off_an_unfinished_handshake)
{
    CLEANUP(strbuf_done) struct strbuf answer;
    strbuf_init(&answer);
    site.rules.request_ms = 100;
    site_start(&site);
    client_ask_end(&site, "\x16\x03\x01\x02", &answer);
    assert_int_equal(answer.len, 0);
    assert_true(site_await(&site.refused, 1));
}

FIXTURE_TEST(client_certificate__outlives_connections_without_one)
{
    struct tls_client known[2];
    struct tls_client third;
    int fd[200];
    site.rules.client_ca_file = ca_file;
    site.rules.connections = 2;
    site.rules.strangers = 4;
    site.rules.strangers_each = 4;
    site_start(&site);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tls_open(&known[i], &scheduler, versions[i]), 0);
        assert_true(tls_hello(&known[i])); /* in TLS 1.3 the client is done before the server */
    }
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        fd[i] = client_open(&site);
        client_send(fd[i], i % 2 == 0 ? "" : "\x16\x03\x01\x02");
    }
    for (size_t i = 0; i < 2; i++)
        assert_true(tls_hello(&known[i]));
    /*
     * Another client with a certificate displaces the longest idle one, and gets past all
     * unauthenticated ones.
     */
    assert_true(opens_at_last(&third, &scheduler));
    assert_true(tls_hello(&third));
    assert_true(tls_hello(&known[1]));
    assert_false(tls_hello(&known[0]));
    for (size_t i = 0; i < 2; i++)
        tls_close(&known[i]);
    tls_close(&third);
}

/* Go opens connections that it does not need yet, and keeps them for later. */
FIXTURE_TEST(client_certificate__may_be_idle_after_the_handshake)
{
    struct tls_client client;
    site.rules.client_ca_file = ca_file;
    site.rules.first_ms = 100;
    site.rules.request_ms = 100;
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        assert_int_equal(tls_open(&client, &scheduler, versions[i]), 0);
        sleep_ms(1000);
        assert_true(tls_hello(&client));
        tls_close(&client);
    }
    assert_int_equal(atomic_load(&site.refused), 0);
}

FIXTURE_TEST(reload__gives_new_connections_the_new_certificate)
{
    struct tls_client before;
    struct tls_client after;
    struct err err;
    site_start(&site);
    assert_false(http_files_changed(site.http));
    assert_int_equal(tls_open(&before, NULL, "NORMAL"), 0);
    assert_int_equal(serial_seen(&before), serial_of(&server));
    write_identity(&server2, "cert.pem", "key.pem");
    assert_true(http_files_changed(site.http));
    assert_int_equal(http_reload(site.http, &err), 0);
    assert_false(http_files_changed(site.http));
    assert_int_equal(tls_open(&after, NULL, "NORMAL"), 0);
    assert_int_equal(serial_seen(&after), serial_of(&server2));
    assert_true(tls_hello(&before));
    assert_true(tls_hello(&after));
    tls_close(&before);
    tls_close(&after);
}

/* The end of the chain is that of its first certificate to end, wherever it stands. */
FIXTURE_TEST(certificate_end__is_that_of_the_first_to_end_in_the_chain)
{
    struct identity issuer;
    struct identity leaf;
    gnutls_datum_t pem[2];
    struct strbuf chain;
    struct err err;

    make(&issuer, "issuer", NULL, NULL);
    make(&leaf, "leaf", &issuer, GNUTLS_KP_TLS_WWW_SERVER);
    site_start(&site);
    assert_int_equal(http_certificate_ends_s(site.http),
                     gnutls_x509_crt_get_expiration_time(server.cert));
    for (int issuer_first = 0; issuer_first < 2; issuer_first++) {
        const int64_t soon = now() + 600;
        const int64_t late = now() + 7200;
        must(gnutls_x509_crt_set_expiration_time(leaf.cert, issuer_first ? late : soon) == 0);
        must(gnutls_x509_crt_set_expiration_time(issuer.cert, issuer_first ? soon : late) == 0);
        sign(&issuer, &issuer);
        sign(&leaf, &issuer);
        write_identity(&leaf, "cert.pem", "key.pem");
        must(gnutls_x509_crt_export2(leaf.cert, GNUTLS_X509_FMT_PEM, &pem[0]) == 0);
        must(gnutls_x509_crt_export2(issuer.cert, GNUTLS_X509_FMT_PEM, &pem[1]) == 0);
        strbuf_init(&chain);
        strbuf_printf(&chain, "%s%s", (char *)pem[0].data, (char *)pem[1].data);
        write_file("cert.pem", chain.data, chain.len);
        assert_int_equal(http_reload(site.http, &err), 0);
        assert_int_equal(http_certificate_ends_s(site.http), soon);
        strbuf_done(&chain);
        gnutls_free(pem[0].data);
        gnutls_free(pem[1].data);
    }
    write_file("cert.pem", "nonsense", 8);
    assert_true(http_reload(site.http, &err) < 0);
    assert_true(http_certificate_ends_s(site.http) > now()); /* of the one in use */
    drop(&issuer);
    drop(&leaf);
}

FIXTURE_TEST(reload__checks_new_connections_against_the_new_ca)
{
    struct err err;
    site.rules.client_ca_file = ca_file;
    site_start(&site);
    assert_true(gets_hello(&scheduler, "NORMAL"));
    assert_false(gets_hello(&stranger, "NORMAL"));
    write_identity(&other_ca, "ca.pem", NULL);
    assert_true(http_files_changed(site.http)); /* the daemon checks this */
    assert_int_equal(http_reload(site.http, &err), 0);
    assert_false(gets_hello(&scheduler, "NORMAL"));
    assert_true(gets_hello(&stranger, "NORMAL"));
}

FIXTURE_TEST(reload__keeps_the_old_files_when_new_ones_do_not_load)
{
    struct err err;
    site.rules.client_ca_file = ca_file;
    site_start(&site);
    write_identity(&server2, "cert.pem", NULL); /* the key is still the old one */
    assert_true(http_reload(site.http, &err) < 0);
    assert_non_null(strstr(err.text, "cert.pem"));
    assert_non_null(strstr(err.text, "key.pem"));
    assert_false(http_files_changed(site.http)); /* one attempt is enough */
    assert_true(gets_hello(&scheduler, "NORMAL"));
    write_file("cert.pem", "nonsense", 8);
    assert_true(http_reload(site.http, &err) < 0);
    assert_true(unlink(path_of("cert.pem")) == 0);
    assert_true(http_files_changed(site.http));
    assert_true(http_reload(site.http, &err) < 0);
    assert_non_null(strstr(err.text, "No such file"));
    write_identity(&server, "cert.pem", NULL);
    write_file("ca.pem", "", 0);
    assert_true(http_reload(site.http, &err) < 0);
    assert_non_null(strstr(err.text, "ca.pem"));
    assert_true(gets_hello(&scheduler, "NORMAL"));
    assert_false(gets_hello(&stranger, "NORMAL"));
}

FIXTURE_TEST(start__names_a_certificate_that_does_not_load)
{
    struct err err;
    site.rules.cert_file = "/nowhere/cert.pem";
    assert_true(http_start(&site.rules, &site.http, &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/cert.pem"));
    assert_non_null(strstr(err.text, "No such file"));
    site.rules.cert_file = cert_file;
    site.rules.client_ca_file = key_file;
    site.rules.connections = 1;
    assert_true(http_start(&site.rules, &site.http, &err) < 0);
    assert_non_null(strstr(err.text, "no certificate"));
    assert_null(site.http);
}

FIXTURE_TEST(stop__answers_held_calls_over_tls)
{
    static const char hold[] = "GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct tls_client client;
    char got[1024] = "";
    site_start(&site);
    assert_int_equal(tls_open(&client, NULL, "NORMAL"), 0);
    assert_int_equal(gnutls_record_send(client.session, hold, strlen(hold)), strlen(hold));
    assert_true(site_await_held(&site, 1));
    site_stop(&site);
    ssize_t len;
    do
        len = gnutls_record_recv(client.session, got, sizeof got - 1);
    while (len == GNUTLS_E_AGAIN || len == GNUTLS_E_INTERRUPTED);
    assert_true(len > 0);
    assert_int_equal(strncmp(got, "HTTP/1.1 503 ", 13), 0);
    tls_close(&client);
}

static int make_all(void **state)
{
    assert_int_equal(test_ignore_sigpipe(state), 0);
    must(mkdtemp(folder) != NULL);
    make(&ca, "our CA", NULL, NULL);
    make(&other_ca, "another CA", NULL, NULL);
    make(&server, "milligpud", &ca, GNUTLS_KP_TLS_WWW_SERVER);
    make(&server2, "milligpud", &ca, GNUTLS_KP_TLS_WWW_SERVER);
    make(&scheduler, "kube-scheduler", &ca, GNUTLS_KP_TLS_WWW_CLIENT);
    make(&stranger, "stranger", &other_ca, GNUTLS_KP_TLS_WWW_CLIENT);
    make(&no_client, "a server", &ca, GNUTLS_KP_TLS_WWW_SERVER);
    make(&second, "second-scheduler", &ca, GNUTLS_KP_TLS_WWW_CLIENT);
    name_also(&second, "second.example", &ca);
    name_also(&second, "b.example", &ca);
    make_of(&cut, TEXT("kube-scheduler\0.example"), &ca, GNUTLS_KP_TLS_WWW_CLIENT);
    return 0;
}

static int drop_all(void **state)
{
    (void)state;
    static const char *const files[] = {"cert.pem", "key.pem", "ca.pem"};
    struct identity *all[] = {&ca,       &other_ca,  &server, &server2, &scheduler,
                              &stranger, &no_client, &second, &cut};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        drop(all[i]);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        (void)unlink(path_of(files[i]));
    return rmdir(folder);
}

TEST_GROUP(make_all, drop_all)
