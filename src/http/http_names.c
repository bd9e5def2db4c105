/*
 * Checks the names in a client's certificate against the rules: the client CA alone does not
 * identify a client. Runs once per connection, in its thread, during the handshake.
 */
#include <string.h>

#include <gnutls/x509.h>

#include "milligpu/base/alloc.h"

#include "http_internal.h"

enum { NAME_BYTES = 256, NAMES_MAX = 64, SHOWN_BYTES = 256 };

/* State of checking one certificate. */
struct checked_names {
    const struct http_rules *rules;
    bool admitted;
    struct strbuf shown; /* printable list of the names */
};

/* A name that contains a NUL is never accepted. */
static void check_name(struct checked_names *names, const char *kind, const char *name,
                       size_t bytes)
{
    must(names->rules->admits != NULL && bytes <= NAME_BYTES);
    if (bytes == 0 || strlen(name) != bytes)
        return;
    names->admitted = names->admitted || names->rules->admits(names->rules->user, name);
    if (names->shown.len < SHOWN_BYTES)
        strbuf_printf(&names->shown, "%s%s %s", names->shown.len > 0 ? ", " : "", kind, name);
}

/* Checks the name with this number, or skips it if too long; false if there is none. */
static bool check_common(struct checked_names *names, gnutls_x509_crt_t cert, unsigned number)
{
    char name[NAME_BYTES + 1] = "";
    size_t bytes = NAME_BYTES;
    const int rc =
        gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, number, 0, name, &bytes);

    must(number < NAMES_MAX);
    if (rc == 0)
        check_name(names, "CN", name, bytes);
    return rc == 0 || rc == GNUTLS_E_SHORT_MEMORY_BUFFER;
}

/* Checks DNS names; other kinds (addresses, mail, URIs) are skipped. */
static bool check_alternative(struct checked_names *names, gnutls_x509_crt_t cert, unsigned number)
{
    char name[NAME_BYTES + 1] = "";
    size_t bytes = NAME_BYTES;
    const int rc = gnutls_x509_crt_get_subject_alt_name(cert, number, name, &bytes, NULL);

    must(number < NAMES_MAX);
    if (rc == GNUTLS_SAN_DNSNAME)
        check_name(names, "DNS", name, bytes);
    return rc >= 0 || rc == GNUTLS_E_SHORT_MEMORY_BUFFER;
}

/* Only the client's own certificate: the others of the chain are of CAs. */
static void check_all(struct checked_names *names, gnutls_session_t session)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    gnutls_x509_crt_t cert;

    must(chain != NULL && count > 0); /* the certificate has been verified */
    must(gnutls_x509_crt_init(&cert) == 0);
    if (gnutls_x509_crt_import(cert, &chain[0], GNUTLS_X509_FMT_DER) == 0) {
        for (unsigned i = 0; i < NAMES_MAX && check_common(names, cert, i); i++)
            continue;
        for (unsigned i = 0; i < NAMES_MAX && check_alternative(names, cert, i); i++)
            continue;
    }
    gnutls_x509_crt_deinit(cert);
}

/* The names are untrusted text: clipped for the log. */
static char *why_not(struct strbuf *shown)
{
    static const char none[] = "neither a CN nor a DNS name";
    char clipped[SHOWN_BYTES];
    struct strbuf why;

    strbuf_init(&why);
    text_clip((struct text){shown->data, shown->len}, clipped, sizeof clipped);
    strbuf_printf(&why,
                  "the client's certificate shows %s, and webhook_client_names lists none of these",
                  shown->len > 0 ? clipped : none);
    char *text = xstrdup(why.data);
    strbuf_done(&why);
    return text;
}

void names_check(struct connection *connection, gnutls_session_t session)
{
    struct checked_names names = {.rules = &connection->call.http->rules};

    must(!connection->named && connection->nameless_why == NULL);
    if (names.rules->admits == NULL || names.rules->admits(names.rules->user, "")) {
        connection->named = true;
        return;
    }
    strbuf_init(&names.shown);
    check_all(&names, session);
    connection->named = names.admitted;
    if (!names.admitted)
        connection->nameless_why = why_not(&names.shown);
    strbuf_done(&names.shown);
}

const char *names_refuse(const struct connection *connection)
{
    must(connection->call.http != NULL);
    if (connection->tls == NULL || !connection->tls->has_client_auth || connection->named)
        return NULL;
    return connection->nameless_why != NULL ? connection->nameless_why
                                            : "the client's certificate has not been checked";
}
