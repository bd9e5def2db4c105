/*
 * Signs and verifies allocations and reports, by Ed25519 of GnuTLS. The writer signs before its
 * COMMIT, and the agent verifies in its only thread; reports go the other way. Keys and signatures
 * from outside are untrusted: invalid ones do not verify, and are no error. Base64 is accepted only
 * in canonical form, so that a changed byte is a changed key. In order: words and bytes, the key,
 * signing, verifying. key_file.c has the file of a key.
 */
#include "milligpu/sign/signing.h"

#include <stdio.h>
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/base64.h"
#include "milligpu/base/strbuf.h"

#include "key_file.h"

enum {
    PUBLIC_BYTES = 32,
    SIGNATURE_BYTES = 64,
    SIGNATURE_DIGITS = 88, /* base64 of these bytes */
    SHA256_BYTES = 32,
    ID_DIGITS = KEY_ID_BYTES - 1,
};

static const char version[] = "v1:";

static_assert(sizeof version - 1 + ID_DIGITS + 1 + SIGNATURE_DIGITS + 1 == SIGNATURE_TEXT_BYTES,
              "v1:KEYID:BASE64 and the terminator");

struct signing_key {
    gnutls_privkey_t key;
    char id[KEY_ID_BYTES];
    char public_text[PUBLIC_KEY_TEXT_BYTES];
};

static gnutls_datum_t datum_of(struct text text)
{
    must(text.len <= UINT_MAX);
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)text.at, (unsigned)text.len};
}

/* Writes canonical base64, terminated; out_bytes is the exact size. */
static void sign_encode(const unsigned char *bytes, size_t len, char *out, size_t out_bytes)
{
    CLEANUP(xfreep) char *text = base64_encode((struct text){(const char *)bytes, len});

    must(strlen(text) + 1 == out_bytes);
    memcpy(out, text, out_bytes);
}

/* Decodes canonical base64; false unless it is exactly bytes long. */
static bool sign_decode(struct text text, unsigned char *out, size_t bytes)
{
    char digits[SIGNATURE_DIGITS + 1];
    size_t len = 0;

    must((bytes + 2) / 3 * 4 < sizeof digits);
    if (text.len != (bytes + 2) / 3 * 4)
        return false;
    memcpy(digits, text.at, text.len);
    digits[text.len] = '\0';
    CLEANUP(xfreep) char *decoded = base64_decode(digits, &len);
    if (decoded == NULL || len != bytes)
        return false;
    CLEANUP(xfreep) char *again = base64_encode((struct text){decoded, len});
    memcpy(out, decoded, bytes);
    return memcmp(again, text.at, text.len) == 0;
}

static void id_of(const unsigned char public_key[PUBLIC_BYTES], char out[KEY_ID_BYTES])
{
    unsigned char hash[SHA256_BYTES];

    must(gnutls_hash_fast(GNUTLS_DIG_SHA256, public_key, PUBLIC_BYTES, hash) == 0);
    for (size_t i = 0; i < ID_DIGITS / 2; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", (unsigned)hash[i]);
}

/* uid and node must contain no NUL, so that the signed parts are unambiguous. */
static bool can_be_signed(const struct signed_facts *what)
{
    must(what->uid.at != NULL || what->uid.len == 0);
    must(what->node.at != NULL || what->node.len == 0);
    return (what->uid.len == 0 || memchr(what->uid.at, 0, what->uid.len) == NULL) &&
           (what->node.len == 0 || memchr(what->node.at, 0, what->node.len) == NULL);
}

static void write_signed(struct strbuf *out, const struct signed_facts *what)
{
    /* In the order of enum signed_kind. */
    static const char *const domain[] = {"milligpu.io/allocation/v1", "milligpu.io/usage/v1"};

    must(can_be_signed(what) && (size_t)what->kind < ARRAY_LEN(domain));
    strbuf_str(out, domain[what->kind]);
    strbuf_char(out, '\0');
    if (what->kind == SIGNED_ALLOCATION) {
        strbuf_text(out, what->uid);
        strbuf_char(out, '\0');
    }
    strbuf_text(out, what->node);
    strbuf_char(out, '\0');
    strbuf_text(out, what->bytes);
}

/* --- the key --- */

/* Sets the public key and the id. */
static int take_public(struct signing_key *key, gnutls_x509_privkey_t from, struct err *err)
{
    unsigned char bytes[PUBLIC_BYTES];
    gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
    gnutls_datum_t x = {NULL, 0};
    gnutls_datum_t y = {NULL, 0};
    gnutls_datum_t secret = {NULL, 0};

    must(key->id[0] == '\0');
    const int rc = gnutls_x509_privkey_export_ecc_raw(from, &curve, &x, &y, &secret);
    const bool good = rc == 0 && curve == GNUTLS_ECC_CURVE_ED25519 && x.size == sizeof bytes;
    if (good)
        memcpy(bytes, x.data, sizeof bytes);
    if (secret.data != NULL)
        gnutls_memset(secret.data, 0, secret.size);
    gnutls_free(x.data);
    gnutls_free(y.data);
    gnutls_free(secret.data);
    if (!good)
        return err_set(err, ERR_INVALID, "is a key of another kind: it must be one of Ed25519");
    id_of(bytes, key->id);
    sign_encode(bytes, sizeof bytes, key->public_text, sizeof key->public_text);
    return 0;
}

static int take_private(struct signing_key *key, struct text pem, struct err *err)
{
    const gnutls_datum_t data = datum_of(pem);
    gnutls_x509_privkey_t read = NULL;

    must(key->key == NULL);
    if (gnutls_x509_privkey_init(&read) < 0)
        return err_set(err, ERR_INTERNAL, "cannot be read: GnuTLS has no memory");
    int rc =
        gnutls_x509_privkey_import_pkcs8(read, &data, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN);
    if (rc < 0)
        rc = err_set(err, ERR_INVALID, "is no private key (PKCS#8, PEM): %s", gnutls_strerror(rc));
    else
        rc = take_public(key, read, err);
    if (rc == 0 && (gnutls_privkey_init(&key->key) < 0 ||
                    gnutls_privkey_import_x509(key->key, read, GNUTLS_PRIVKEY_IMPORT_COPY) < 0))
        rc = err_set(err, ERR_INTERNAL, "cannot be used: GnuTLS refuses it");
    gnutls_x509_privkey_deinit(read);
    return rc;
}

/* Returns ERR_NOT_FOUND if there is no file. */
static int key_load(const char *file, struct signing_key **out, struct err *err)
{
    struct strbuf pem;

    must(file[0] != '\0');
    strbuf_init(&pem);
    strbuf_reserve(&pem, KEY_FILE_BYTES_MAX); /* growing would leave copies of the key in memory */
    struct signing_key *key = xcalloc(1, sizeof *key);
    int rc = key_file_read(file, &pem, err);
    if (rc == 0 && (rc = take_private(key, (struct text){pem.data, pem.len}, err)) < 0)
        rc = err_wrap(err, "signing key %s", file);
    gnutls_memset(pem.data, 0, pem.len);
    strbuf_done(&pem);
    if (rc < 0)
        signing_key_free(STEAL(key));
    else
        *out = key;
    return rc;
}

int signing_key_open(const char *file, struct signing_key **out, struct err *err)
{
    int rc = key_load(file, out, err);

    must(rc <= 0);
    if (rc == -(int)ERR_NOT_FOUND && (rc = key_file_make(file, err)) == 0)
        rc = key_load(file, out, err);
    return rc;
}

int signing_key_check(const char *file, struct err *err)
{
    struct signing_key *key = NULL;
    const int rc = key_load(file, &key, err);

    must(rc < 0 || key != NULL);
    signing_key_free(key);
    return rc == -(int)ERR_NOT_FOUND ? 0 : rc;
}

void signing_key_free(struct signing_key *key)
{
    if (key == NULL)
        return;
    if (key->key != NULL)
        gnutls_privkey_deinit(key->key);
    xfree(key);
}

const char *signing_key_id(const struct signing_key *key)
{
    must(strlen(key->id) == ID_DIGITS);
    return key->id;
}

const char *signing_key_public(const struct signing_key *key)
{
    must(strlen(key->public_text) == PUBLIC_KEY_TEXT_BYTES - 1);
    return key->public_text;
}

/* --- signing and verifying --- */

int signing_sign(const struct signing_key *key, const struct signed_facts *what,
                 char out[SIGNATURE_TEXT_BYTES], struct err *err)
{
    gnutls_datum_t signature = {NULL, 0};
    struct strbuf bytes;

    must(key != NULL && what->bytes.len > 0);
    strbuf_init(&bytes);
    write_signed(&bytes, what);
    const gnutls_datum_t data = datum_of((struct text){bytes.data, bytes.len});
    const int rc =
        gnutls_privkey_sign_data2(key->key, GNUTLS_SIGN_EDDSA_ED25519, 0, &data, &signature);
    strbuf_done(&bytes);
    if (rc < 0)
        return err_set(err, ERR_INTERNAL, "nothing can be signed: %s", gnutls_strerror(rc));
    must(signature.size == SIGNATURE_BYTES);
    const size_t head = (size_t)snprintf(out, SIGNATURE_TEXT_BYTES, "%s%s:", version, key->id);
    sign_encode(signature.data, signature.size, out + head, SIGNATURE_TEXT_BYTES - head);
    gnutls_free(signature.data);
    return 0;
}

bool signature_key_id(struct text signature, char out[KEY_ID_BYTES])
{
    static const size_t head = sizeof version - 1;

    if (signature.len != SIGNATURE_TEXT_BYTES - 1 || !text_starts(signature, version) ||
        signature.at[head + ID_DIGITS] != ':')
        return false;
    for (size_t i = 0; i < ID_DIGITS; i++) {
        const char c = signature.at[head + i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
    }
    memcpy(out, signature.at + head, ID_DIGITS);
    out[ID_DIGITS] = '\0';
    must(strlen(out) == ID_DIGITS);
    return true;
}

bool public_key_has_id(struct text key, const char *id)
{
    unsigned char bytes[PUBLIC_BYTES];
    char own[KEY_ID_BYTES];

    must(id != NULL);
    if (!sign_decode(key, bytes, sizeof bytes))
        return false;
    id_of(bytes, own);
    return strcmp(own, id) == 0;
}

void signed_digest(struct text signature, const struct signed_facts *what,
                   unsigned char out[SIGNED_DIGEST_BYTES])
{
    struct strbuf bytes;

    static_assert((int)SIGNED_DIGEST_BYTES == (int)SHA256_BYTES, "the digest is that of SHA-256");
    must(memchr(signature.at, 0, signature.len) == NULL);
    strbuf_init(&bytes);
    strbuf_text(&bytes, signature);
    strbuf_char(&bytes, '\0');
    write_signed(&bytes, what);
    must(gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes.data, bytes.len, out) == 0);
    strbuf_done(&bytes);
}

static bool verifies(const unsigned char key[PUBLIC_BYTES],
                     const unsigned char signature[SIGNATURE_BYTES],
                     const struct signed_facts *what)
{
    const gnutls_datum_t x = {(unsigned char *)(uintptr_t)key, PUBLIC_BYTES};
    const gnutls_datum_t by = {(unsigned char *)(uintptr_t)signature, SIGNATURE_BYTES};
    gnutls_pubkey_t public_key = NULL;
    struct strbuf bytes;

    must(key != NULL && signature != NULL);
    if (gnutls_pubkey_init(&public_key) < 0)
        return false;
    strbuf_init(&bytes);
    write_signed(&bytes, what);
    const gnutls_datum_t data = datum_of((struct text){bytes.data, bytes.len});
    const bool good =
        gnutls_pubkey_import_ecc_raw(public_key, GNUTLS_ECC_CURVE_ED25519, &x, NULL) == 0 &&
        gnutls_pubkey_verify_data2(public_key, GNUTLS_SIGN_EDDSA_ED25519, 0, &data, &by) >= 0;
    strbuf_done(&bytes);
    gnutls_pubkey_deinit(public_key);
    return good;
}

/* The id in the signature must be the key's: the id itself is not signed. */
bool signature_is_good(struct text key, struct text signature, const struct signed_facts *what)
{
    unsigned char public_bytes[PUBLIC_BYTES];
    unsigned char bytes[SIGNATURE_BYTES];
    char id[KEY_ID_BYTES];

    must(what != NULL);
    if (!can_be_signed(what) || !signature_key_id(signature, id) || !public_key_has_id(key, id) ||
        !sign_decode(key, public_bytes, sizeof public_bytes))
        return false;
    const size_t head = sizeof version - 1 + ID_DIGITS + 1;
    const struct text rest = {signature.at + head, signature.len - head};
    return sign_decode(rest, bytes, sizeof bytes) && verifies(public_bytes, bytes, what);
}
