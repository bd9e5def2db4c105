/*
 * Loads the certificates of a listener, and has the hooks that GnuTLS calls during a handshake.
 * tls_load() runs at start and at a reload, in the main thread; the hooks run in the connection's
 * own thread. A struct http_tls is immutable and reference-counted: each connection keeps the one
 * that it began with (W3).
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <gnutls/x509.h>

#include "milligpu/base/alloc.h"

#include "http_internal.h"

const char tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

static int read_file(const char *what, const char *file, gnutls_datum_t *out, struct err *err)
{
    must(file != NULL);
    errno = 0;
    const int rc = gnutls_load_file(file, out);
    if (rc < 0)
        return err_set(err, ERR_IO, "%s %s cannot be read: %s", what, file,
                       errno != 0 ? strerrordesc_np(errno) : gnutls_strerror(rc));
    return 0;
}

/* Loads from memory, so that the private key can be cleared; GnuTLS checks that both match. */
static int tls_load_pair(struct http_tls *tls, const struct http_rules *rules, struct err *err)
{
    gnutls_datum_t cert = {0};
    gnutls_datum_t key = {0};

    must(tls->credentials != NULL);
    int rc = read_file("certificate", rules->cert_file, &cert, err);
    if (rc == 0)
        rc = read_file("private key", rules->key_file, &key, err);
    if (rc == 0) {
        const int pair = gnutls_certificate_set_x509_key_mem2(tls->credentials, &cert, &key,
                                                              GNUTLS_X509_FMT_PEM, NULL, 0);
        if (pair < 0)
            rc = err_set(err, ERR_INVALID, "certificate %s with private key %s: %s (both are PEM)",
                         rules->cert_file, rules->key_file, gnutls_strerror(pair));
    }
    if (key.data != NULL)
        explicit_bzero(key.data, key.size);
    gnutls_free(cert.data);
    gnutls_free(key.data);
    return rc;
}

/* An unusable CA is an error: without a CA, any client would be accepted. */
static int load_ca(struct http_tls *tls, const char *file, struct err *err)
{
    gnutls_datum_t ca = {0};

    if (read_file("client CA", file, &ca, err) < 0)
        return -(int)err->code;
    const int found =
        gnutls_certificate_set_x509_trust_mem(tls->credentials, &ca, GNUTLS_X509_FMT_PEM);
    gnutls_free(ca.data);
    if (found <= 0)
        return err_set(err, ERR_INVALID, "client CA %s holds no certificate in PEM form", file);
    tls->has_client_auth = true;
    must(tls->credentials != NULL);
    return 0;
}

/* Returns the earliest expiry: clients refuse a chain with an expired certificate. */
static int64_t chain_ends_s(const struct http_tls *tls)
{
    gnutls_x509_crt_t *chain = NULL;
    unsigned count = 0;
    int64_t ends_s = INT64_MAX;

    must(gnutls_certificate_get_x509_crt(tls->credentials, 0, &chain, &count) == 0 && count > 0);
    for (unsigned i = 0; i < count; i++) {
        const int64_t at_s = gnutls_x509_crt_get_expiration_time(chain[i]);
        ends_s = at_s < ends_s ? at_s : ends_s;
        gnutls_x509_crt_deinit(chain[i]);
    }
    gnutls_free(chain);
    return ends_s;
}

int tls_load(const struct http_rules *rules, struct http_tls **out, struct err *err)
{
    must(rules->cert_file != NULL && rules->key_file != NULL);

    struct http_tls *tls = xcalloc(1, sizeof *tls);
    atomic_init(&tls->refs, 1);
    must(gnutls_certificate_allocate_credentials(&tls->credentials) == 0);
    int rc = tls_load_pair(tls, rules, err);
    if (rc == 0 && rules->client_ca_file != NULL)
        rc = load_ca(tls, rules->client_ca_file, err);
    if (rc < 0) {
        tls_unref(tls);
        return rc;
    }
    tls->ends_s = chain_ends_s(tls);
    *out = tls;
    return 0;
}

void tls_unref(struct http_tls *tls)
{
    if (tls == NULL)
        return;
    const unsigned before = atomic_fetch_sub(&tls->refs, 1);
    must(before > 0);
    if (before > 1)
        return;
    gnutls_certificate_free_credentials(tls->credentials);
    xfree(tls);
}

static struct connection *tls_behind(gnutls_session_t session)
{
    struct connection *connection = gnutls_session_get_ptr(session);

    must(connection != NULL && connection->tls != NULL);
    return connection;
}

/*
 * Called when the client's Finished message is verified: only now does its certificate prove its
 * identity. A known client without a place is refused during the handshake.
 */
static int note_finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                         const gnutls_datum_t *message)
{
    struct connection *connection = tls_behind(session);

    (void)type, (void)when, (void)message;
    if (incoming == 0)
        return 0;
    atomic_store(&connection->greeted, true);
    if (!connection->verified || admission_greeted(connection))
        return 0;
    atomic_fetch_add(&connection->call.http->dropped[HTTP_NO_PLACE], 1);
    return GNUTLS_E_USER_ERROR;
}

/*
 * The certificate must be signed by the CA, and be valid for clients (extended key usage). Names
 * are checked here, not for each request.
 */
static int check_client(gnutls_session_t session)
{
    static char client_purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)client_purpose};
    unsigned doubts = 0;

    must(tls_behind(session)->tls->has_client_auth);
    if (gnutls_certificate_verify_peers(session, &purpose, 1, &doubts) == 0 && doubts == 0) {
        tls_behind(session)->verified = true;
        names_check(tls_behind(session), session);
        return 0;
    }
    tls_behind(session)->doubted = true;
    return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

/* With a client CA, a certificate is required: without one the handshake fails. */
void tls_install(struct connection *connection, gnutls_session_t session)
{
    struct http_tls *tls = connection->tls;

    /* Replaces libmicrohttpd's pointer, which is only for pre-shared keys, which are not used. */
    gnutls_session_set_ptr(session, connection);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST,
                                       note_finished);
    must(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials) == 0);
    if (!tls->has_client_auth)
        return;
    gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_verify_function(session, check_client);
}

/* Device, inode, size and time identify a replaced file, also behind a changed link. */
static uint64_t tls_mix(uint64_t print, const char *file)
{
    struct stat at;

    if (file == NULL)
        return print;
    if (stat(file, &at) != 0)
        return print * 1099511628211U + 1;
    const uint64_t facts[] = {(uint64_t)at.st_dev, (uint64_t)at.st_ino, (uint64_t)at.st_size,
                              (uint64_t)at.st_mtim.tv_sec, (uint64_t)at.st_mtim.tv_nsec};
    for (size_t i = 0; i < ARRAY_LEN(facts); i++)
        print = (print ^ facts[i]) * 1099511628211U;
    return print;
}

uint64_t tls_files_print(const struct http_rules *rules)
{
    return tls_mix(tls_mix(tls_mix(14695981039346656037U, rules->cert_file), rules->key_file),
                   rules->client_ca_file);
}
