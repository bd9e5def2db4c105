/*
 * keyring - the keys with which this milligpud signs: each from its first day to its last pod.
 *
 *    next --published for wait_ms--> signing --the next one signs--> retiring --> forgotten
 *
 * At most one key signs, and none before it was published: nobody would believe it. A next key
 * waits, since what agents mount lags behind the ConfigMap; a key that has no predecessor to sign
 * meanwhile (the first, or one whose file somebody has put there) signs once it is published.
 * Of a retiring key only the public half is left, for the pods that were bound by it.
 *
 *     FILE          the private key that signs (key_file.h)
 *     FILE.next     the private key that will
 *     FILE.keys     a line for each key that is published or has signed: state, id, public key and
 *                   since when, in milliseconds UTC
 *
 * Signatures verify against these keys and against foreign keys of the ConfigMap: the keys of a
 * milligpud that lost its volume remain only there.
 *
 * A next key that has been published waits anew after a restart: no clock says how long ago that
 * was. One thread changes the keyring; any thread may sign and read. One lock.
 */
#ifndef MILLIGPU_KEYRING_H
#define MILLIGPU_KEYRING_H

#include "milligpu/sign/signing.h"

enum {
    KEYRING_MAX = 16,    /* keys at once; beyond, none is replaced */
    KEYRING_SPARE = 4,   /* with less room, doctor warns */
    KEYRING_OTHERS = 64, /* keys of the ConfigMap that are known; more are passed over */
    KEY_RETIRE_WAITS = 5 /* a retiring key stays for so many times wait_ms at least */
};

enum key_state { KEY_NEXT, KEY_SIGNING, KEY_RETIRING };
const char *key_state_name(enum key_state state); /* "next", "signing", "retiring" */

struct key_entry {
    char id[KEY_ID_BYTES];
    char key[PUBLIC_KEY_TEXT_BYTES]; /* public */
    enum key_state state;
    bool published;   /* once at least */
    int64_t since_ms; /* UTC; in this state */
    int64_t due_ms;   /* monotonic; next: when it signs; retiring: when it may go; else 0 */
};

struct keyring;

struct keyring_rules {
    const char *file; /* FILE */
    int64_t wait_ms;  /* between publishing a next key and signing with it */
};
struct key_times {
    int64_t now_ms;  /* monotonic */
    int64_t wall_ms; /* UTC */
};
/* Reads the three files, and makes the key if there is none. */
int keyring_open(const struct keyring_rules *rules, struct key_times now, struct keyring **out,
                 struct err *err) MUST_USE;
/* Would that succeed? */
int keyring_check(const char *file, struct err *err) MUST_USE;
void keyring_free(struct keyring *keyring); /* NULL is fine */

/* Any thread. */

/* May a key sign? Once true, it stays so. */
bool keyring_may_sign(struct keyring *keyring);
/* keyring_may_sign() was true. */
int keyring_sign(struct keyring *keyring, const struct signed_facts *what,
                 char out[SIGNATURE_TEXT_BYTES], struct err *err) MUST_USE;
/* Did one of these keys, or one that was learned, sign exactly this? False for rubbish, too. */
bool keyring_has_signed(struct keyring *keyring, struct text signature,
                        const struct signed_facts *what);
/* The public keys that the ConfigMap shows now, ours or not; those of before are forgotten. */
void keyring_learn(struct keyring *keyring, const char *const *key, size_t count);
/* All keys: the one that signs, or will sign without waiting, is the first. Returns how many. */
size_t keyring_list(struct keyring *keyring, struct key_entry out[KEYRING_MAX]);

/* The thread that changes it. Each is on disk before it returns, or has changed nothing. */

/* Makes a next key. ERR_CONFLICT: none signs yet, or there is a next one, or KEYRING_MAX keys. */
int keyring_replace(struct keyring *keyring, struct key_times now, struct err *err) MUST_USE;
/* These keys were published. */
int keyring_published(struct keyring *keyring, const struct key_entry *key, size_t count,
                      struct key_times now, struct err *err) MUST_USE;
/* Lets the next key sign if it is time. */
int keyring_step(struct keyring *keyring, struct key_times now, struct err *err) MUST_USE;
/* No pod needs this retiring key any more, and it is not published any more. */
int keyring_forget(struct keyring *keyring, const char *id, struct err *err) MUST_USE;

#endif
