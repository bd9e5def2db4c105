/*
 * keyring - the signing keys of this milligpud, and their rotation.
 *
 *    next --published for wait_ms--> signing --the next one signs--> retiring --> forgotten
 *
 * At most one key signs, and none before its publication: agents would reject it. A next key waits,
 * because the agents' mounts lag behind the ConfigMap; a key without a predecessor (the first, or
 * one whose file an operator has replaced) signs as soon as it is published. A retiring key has
 * only its public half left, for the pods that were bound with it.
 *
 *     FILE          the private key that signs (key_file.h)
 *     FILE.next     the private key that signs next
 *     FILE.keys     a line for each key that is published or has signed: state, id, public key and
 *                   time of the last change of state, in milliseconds UTC
 *
 * Signatures verify against these keys and against foreign keys of the ConfigMap: the keys of a
 * milligpud that lost its volume remain only there.
 *
 * The wait of a published next key begins again after a restart, because it uses the monotonic
 * clock. One thread changes the keyring; any thread may sign and read. One lock.
 */
#ifndef MILLIGPU_KEYRING_H
#define MILLIGPU_KEYRING_H

#include "milligpu/sign/signing.h"

enum {
    KEYRING_MAX = 16,    /* maximum number of keys; at the limit none can be replaced */
    KEYRING_SPARE = 4,   /* doctor warns below this many free places */
    KEYRING_OTHERS = 64, /* maximum number of keys from the ConfigMap; others are ignored */
    KEY_RETIRE_WAITS = 5 /* minimum time that a key is retiring, in multiples of wait_ms */
};

enum key_state { KEY_NEXT, KEY_SIGNING, KEY_RETIRING };
const char *key_state_name(enum key_state state); /* "next", "signing", "retiring" */

struct key_entry {
    char id[KEY_ID_BYTES];
    char key[PUBLIC_KEY_TEXT_BYTES]; /* public */
    enum key_state state;
    bool published;   /* published at least once; by this process, if KEY_NEXT */
    int64_t since_ms; /* UTC time of the last change of state */
    int64_t due_ms; /* monotonic time to start signing (next) or be forgotten (retiring), else 0 */
};

struct keyring;

struct keyring_rules {
    const char *file; /* FILE */
    int64_t wait_ms;  /* time between the publication of a next key and its first signature */
};
struct key_times {
    int64_t now_ms;  /* monotonic */
    int64_t wall_ms; /* UTC */
};
/* Reads the three files; creates the key if there is none. */
int keyring_open(const struct keyring_rules *rules, struct key_times now, struct keyring **out,
                 struct err *err) MUST_USE;
/* Checks the files like keyring_open(), and creates none. */
int keyring_check(const char *file, struct err *err) MUST_USE;
void keyring_free(struct keyring *keyring); /* NULL is fine */

/* Any thread. */

/* True if a key is signing; stays true once it is. */
bool keyring_may_sign(struct keyring *keyring);
/* Call it only after keyring_may_sign() was true. */
int keyring_sign(struct keyring *keyring, const struct signed_facts *what,
                 char out[SIGNATURE_TEXT_BYTES], struct err *err) MUST_USE;
/* True if one of these keys, or a learned one, signed exactly this; false for invalid input. */
bool keyring_has_signed(struct keyring *keyring, struct text signature,
                        const struct signed_facts *what);
/* Replaces the learned keys by the public keys of the ConfigMap, ours among them. */
void keyring_learn(struct keyring *keyring, const char *const *key, size_t count);
/* Copies all keys and returns their number. The first one signs, or will without waiting. */
size_t keyring_list(struct keyring *keyring, struct key_entry out[KEYRING_MAX]);

/* Only the thread that changes the keyring. A change is on disk on success, else not made. */

/* Creates a next key. ERR_CONFLICT if none signs yet, a next key exists, or at KEYRING_MAX keys. */
int keyring_replace(struct keyring *keyring, struct key_times now, struct err *err) MUST_USE;
/* Records that these keys were published. */
int keyring_published(struct keyring *keyring, const struct key_entry *key, size_t count,
                      struct key_times now, struct err *err) MUST_USE;
/* Makes the next key the signing one if it is due. */
int keyring_step(struct keyring *keyring, struct key_times now, struct err *err) MUST_USE;
/* Removes a retiring key that no pod needs and that is not published any more. */
int keyring_forget(struct keyring *keyring, const char *id, struct err *err) MUST_USE;

#endif
