/*
 * key_publisher - publishes this milligpud's public keys for the agents and rotates the keys.
 *
 *   PATCH configmaps/milligpu-keys --200--> published       --404--> POST --201--> published
 *      \--anything else--> retry                                     \--409, else--> retry
 *
 * The ConfigMap is in the agents' namespace, or else in that of the wake-up object, and has one
 * entry per key (signing.h, keyring.h); entries of other milligpuds are left alone. Our keys are
 * written again twice per key_wait_s, in case they were deleted; the answer contains the annotation
 * with which an operator requests the replacement of a key (annotations.h).
 *
 * A retiring key is removed when it has not signed for KEY_RETIRE_WAITS times key_wait_s, a
 * complete and fresh list of pods shows none that needs it (struct key_pods), and no reservation is
 * in doubt (its Binding may still give a pod that signature). Pods are listed again to verify
 * signatures, at most once an hour, if some name it and none is known to be good. An operator can
 * revoke it earlier with an annotation of the ConfigMap (annotations.h), which takes effect once
 * the key signs no more. A late request may publish a removed key again; it stays, but has no
 * private key any more.
 *
 * One lock guards the facts; everything else belongs to the informer's thread.
 */
#ifndef MILLIGPU_KEY_PUBLISHER_H
#define MILLIGPU_KEY_PUBLISHER_H

#include "milligpu/kube/kube.h"
#include "milligpu/sign/keyring.h"
#include "milligpu/spine/app.h"

struct key_publisher;

/* Returns the setting keys_namespace, or else the namespace of the wake-up object. Any thread. */
const char *keys_namespace(const struct app *app);

/* app->keyring must not be NULL. ops belong to the informer's thread. */
struct key_publisher *key_publisher_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void key_publisher_free(struct key_publisher *publisher); /* NULL is fine */

/* Informer's thread. Starts the request that is due; returns the ms until the next step. */
int64_t key_publisher_step(struct key_publisher *publisher, int64_t now_ms);
/*
 * True once the ConfigMap's keys were read, it was found missing, or three tries failed. An empty
 * ledger lists no pods before: signatures of those keys are its only evidence of allocations.
 */
bool key_publisher_has_looked(const struct key_publisher *publisher);
/* Returns false if the answer's id is not ours. */
bool key_publisher_answer(struct key_publisher *publisher, int64_t now_ms,
                          const struct kube_answer *answer);

enum { OTHER_KEYS_MAX = 64 };
struct key_facts {
    bool published;    /* at least once since the start */
    char error[256];   /* error of the last try to publish; "" if none */
    char trouble[256]; /* error of the last change of keys; "" if none */
    /* ids of the ConfigMap's keys that are not in the keyring; the first OTHER_KEYS_MAX */
    size_t n_others;
    char other[OTHER_KEYS_MAX][KEY_ID_BYTES];
};

/*
 * Number of pods that an agent restarts only while this public key is published: bound, allocated
 * on that node by the ledger, and with a signature of this key over uid, node and allocation.
 */
struct key_pods {
    uint64_t number; /* key_number() of its id */
    size_t good;     /* signature made by this process, or verified */
    size_t needing;  /* good, or not verified (pod_cache_check_signature()) */
    size_t naming;   /* key named, signature good or bad; the only count for keys of others */
};
/* Sets the counts (0 without a snapshot). Visits every allocation. Any thread. */
void key_pods_count(const struct app *app, struct key_pods *pods, size_t count);

/* Any thread. */
void key_publisher_facts(struct key_publisher *publisher, struct key_facts *out);

/* The keyring's keys, facts.other, and the pods that need each of them. */
struct all_keys {
    struct key_facts facts;
    struct key_entry key[KEYRING_MAX];
    size_t count;                                       /* entries of key[] */
    struct key_pods pods[KEYRING_MAX + OTHER_KEYS_MAX]; /* for key[], then for facts.other[] */
};
/* app->keyring must not be NULL. Any thread. */
void all_keys_read(const struct app *app, struct all_keys *out);

#endif
