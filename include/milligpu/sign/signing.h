/*
 * signing - who may say which GPUs a pod gets, and what a node used: Ed25519.
 *
 * milligpud signs what it binds; the agent of the node believes no other allocation. The agent
 * signs what it reports; milligpud believes no other report. Signed are
 *
 *     "milligpu.io/allocation/v1" NUL uid NUL node NUL annotation
 *     "milligpu.io/usage/v1" NUL node NUL body
 *
 * with the exact bytes of the annotation milligpu.io/allocation, or of the body of the report. No
 * uid, name or first word contains a NUL, so no two things are signed by the same bytes, and none
 * of one kind is good for the other. Ed25519 is deterministic (RFC 8032): signing again gives the
 * same text.
 *
 * A signature, the annotation milligpu.io/signature or the header Milligpu-Signature, is one word:
 *
 *     v1:KEYID:BASE64          KEYID: the first 16 hexadecimal digits of SHA-256 of the public key
 *
 * A public key is the base64 of its 32 bytes. Any thread; a key is never changed.
 */
#ifndef MILLIGPU_SIGNING_H
#define MILLIGPU_SIGNING_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

enum {
    KEY_ID_BYTES = 16 + 1,          /* with the terminator, like the next two */
    PUBLIC_KEY_TEXT_BYTES = 44 + 1, /* base64 of 32 bytes */
    SIGNATURE_TEXT_BYTES = 3 + 16 + 1 + 88 + 1,
};

enum signed_kind { SIGNED_ALLOCATION, SIGNED_USAGE };

/* What is signed. uid and node without NUL. */
struct signed_facts {
    struct text uid; /* of the pod; a report of usage is about none, so it is not signed */
    struct text node;
    struct text bytes; /* the annotation, or the body */
    enum signed_kind kind;
};

struct signing_key;

/*
 * Reads the private key from a file, or makes one: mode 0600, on disk before this returns. A file
 * that is no key, or that others may read, is an error that says so.
 */
int signing_key_open(const char *file, struct signing_key **out, struct err *err) MUST_USE;
/* Would that succeed? A file that is missing is none yet, so it is fine. */
int signing_key_check(const char *file, struct err *err) MUST_USE;
void signing_key_free(struct signing_key *key); /* NULL is fine */
const char *signing_key_id(const struct signing_key *key);
const char *signing_key_public(const struct signing_key *key);

int signing_sign(const struct signing_key *key, const struct signed_facts *what,
                 char out[SIGNATURE_TEXT_BYTES], struct err *err) MUST_USE;

/* The id of the key that made a signature. False: this is no signature. */
bool signature_key_id(struct text signature, char out[KEY_ID_BYTES]);

/* Is key (base64) the key that its id says? */
bool public_key_has_id(struct text key, const char *id);

/* SHA-256 of a signature and of what it should cover: equal digests have one verdict by a key. */
enum { SIGNED_DIGEST_BYTES = 32 };
void signed_digest(struct text signature, const struct signed_facts *what,
                   unsigned char out[SIGNED_DIGEST_BYTES]);

/* Did the owner of this public key (base64) sign exactly this? False for rubbish, too. */
bool signature_is_good(struct text key, struct text signature, const struct signed_facts *what);

#endif
