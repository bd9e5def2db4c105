/*
 * key_publisher - tells the agents which public keys this milligpud signs with (signing.h), and
 * leads its keys from one state to the next (keyring.h).
 *
 *   PATCH configmaps/milligpu-keys --200--> published       --404--> POST --201--> published
 *      \--anything else--> again, later                              \--409, else--> again, later
 *
 * The ConfigMap is in the namespace of the agents, else in that of the wake-up object, and has one
 * entry for each key: those of other milligpuds stay. All of ours are written again twice in
 * key_wait_s, in case somebody deleted them; the answer shows the annotation by which an operator
 * has a key replaced (annotations.h).
 *
 * A retiring key is taken away when it has not signed for KEY_RETIRE_WAITS times key_wait_s, no
 * running pod needs it (struct key_pods) by a list of pods that is complete and fresh, and no
 * reservation is in doubt, whose Binding may still give a pod that signature. Otherwise it stays.
 * An operator can revoke it before: an annotation of the ConfigMap names it (annotations.h), which
 * has an effect once the key does not sign any more.
 * A request that takes effect late may bring it back: it stays, and nobody can sign with it.
 *
 * One lock for the facts; everything else belongs to the informer's thread.
 */
#ifndef MILLIGPU_KEY_PUBLISHER_H
#define MILLIGPU_KEY_PUBLISHER_H

#include "milligpu/kube/kube.h"
#include "milligpu/sign/keyring.h"
#include "milligpu/spine/app.h"

struct key_publisher;

/* The setting keys_namespace, else the namespace of the wake-up object. Any thread. */
const char *keys_namespace(const struct app *app);

/* app->keyring is not NULL. ops belong to the informer's thread. */
struct key_publisher *key_publisher_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void key_publisher_free(struct key_publisher *publisher); /* NULL is fine */

/* For the informer's thread: starts what is due; returns how long it may be left alone, in ms. */
int64_t key_publisher_step(struct key_publisher *publisher, int64_t now_ms);
/*
 * Are the keys of the ConfigMap known, or is there none, or did three tries fail? Before that, a
 * ledger that begins lists no pods: what those keys signed is all that says who holds what.
 */
bool key_publisher_has_looked(const struct key_publisher *publisher);
/* False if the id is not ours. */
bool key_publisher_answer(struct key_publisher *publisher, int64_t now_ms,
                          const struct kube_answer *answer);

enum { OTHER_KEYS_MAX = 64 };
struct key_facts {
    bool published;    /* once at least, since the start */
    char error[256];   /* of the last try to publish; "": it succeeded, or there was none yet */
    char trouble[256]; /* why keys cannot change; "": they can */
    /* ids of keys in the ConfigMap that are not in the keyring; the first OTHER_KEYS_MAX */
    size_t n_others;
    char other[OTHER_KEYS_MAX][KEY_ID_BYTES];
};

/*
 * Pods that an agent starts again only while this public key is published: bound, with a row of
 * the ledger on that node, and a signature of this key over uid, node and allocation.
 */
struct key_pods {
    uint64_t number; /* key_number() of its id */
    size_t verified;
    size_t naming; /* the same, whose signature may be bad; all that is known of other keys */
};
/* Sets verified and naming; 0 without a snapshot. Looks up each allocation. Any thread. */
void key_pods_count(const struct app *app, struct key_pods *of, size_t count);

/* Any thread. */
void key_publisher_facts(struct key_publisher *publisher, struct key_facts *out);

/* All keys: those of the keyring, then facts.other; and the pods that need each. */
struct all_keys {
    struct key_facts facts;
    struct key_entry key[KEYRING_MAX];
    size_t count;                                     /* of key[] */
    struct key_pods of[KEYRING_MAX + OTHER_KEYS_MAX]; /* of key[], then of facts.other[] */
};
/* There is a keyring. Any thread. */
void all_keys_read(const struct app *app, struct all_keys *out);

#endif
