/*
 * signing - Ed25519 signatures over allocations and usage reports.
 *
 * milligpud signs the allocations that it binds, and agents accept no others. An agent signs its
 * reports, and milligpud accepts no others. The signed bytes are
 *
 *     "milligpu.io/allocation/v1" NUL uid NUL node NUL annotation
 *     "milligpu.io/usage/v1" NUL node NUL body
 *
 * with the exact bytes of the annotation milligpu.io/allocation, or of the report's body. uid, node
 * and domain contain no NUL, so different facts have different bytes, and a signature of one kind
 * is invalid for the other. Ed25519 is deterministic (RFC 8032): signing again gives the same text.
 *
 * A signature, the annotation milligpu.io/signature or the header Milligpu-Signature, is one word:
 *
 *     v1:KEYID:BASE64          KEYID: the first 16 hexadecimal digits of SHA-256 of the public key
 *
 * A public key is the base64 of its 32 bytes. Any thread; keys are immutable.
 */
#ifndef MILLIGPU_SIGNING_H
#define MILLIGPU_SIGNING_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

enum {
    /* Sizes of texts, with the terminator. */
    KEY_ID_BYTES = 16 + 1,
    PUBLIC_KEY_TEXT_BYTES = 44 + 1, /* base64 of 32 bytes */
    SIGNATURE_TEXT_BYTES = 3 + 16 + 1 + 88 + 1,
};

enum signed_kind { SIGNED_ALLOCATION, SIGNED_USAGE };

/* The signed facts. uid and node contain no NUL. */
struct signed_facts {
    struct text uid; /* the pod's; not signed for SIGNED_USAGE */
    struct text node;
    struct text bytes; /* the annotation, or the body */
    enum signed_kind kind;
};

struct signing_key;

/*
 * Reads the private key from a file, or creates one: mode 0600, on disk before this returns. Fails
 * if the file is no key, or is readable by others.
 */
int signing_key_open(const char *file, struct signing_key **out, struct err *err) MUST_USE;
/* Checks the file like signing_key_open(); a missing file is fine. */
int signing_key_check(const char *file, struct err *err) MUST_USE;
void signing_key_free(struct signing_key *key); /* NULL is fine */
const char *signing_key_id(const struct signing_key *key);
const char *signing_key_public(const struct signing_key *key);

int signing_sign(const struct signing_key *key, const struct signed_facts *what,
                 char out[SIGNATURE_TEXT_BYTES], struct err *err) MUST_USE;

/* Copies the key id of a signature; false if the text is not a signature. */
bool signature_key_id(struct text signature, char out[KEY_ID_BYTES]);

/* True if id is the id of key (base64). */
bool public_key_has_id(struct text key, const char *id);

/* SHA-256 of a signature and of its facts, to cache the result of its verification by one key. */
enum { SIGNED_DIGEST_BYTES = 32 };
void signed_digest(struct text signature, const struct signed_facts *what,
                   unsigned char out[SIGNED_DIGEST_BYTES]);

/* True if the signature over exactly this verifies with key (base64); false for invalid input. */
bool signature_is_good(struct text key, struct text signature, const struct signed_facts *what);

#endif
