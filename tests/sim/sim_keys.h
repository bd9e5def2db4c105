/*
 * sim_keys - the keys of allocations: the files beside the ledger, the ConfigMap that milligpud
 * writes, and what the agents know of it.
 *
 *     operator --replace-key--> ConfigMap <--faulty network--> milligpud (keyring, key_publisher)
 *                                   | after a while that is less than key_wait_s
 *                                   v
 *                             an agent's mount, in which it looks for each new pod
 *
 * The ConfigMap lives in an API server of its own, behind a network of its own, and everything here
 * is drawn from a generator of its own: a run in which no key is replaced is the same run.
 */
#ifndef MILLIGPU_TESTS_SIM_KEYS_H
#define MILLIGPU_TESTS_SIM_KEYS_H

#include "milligpu/kube/kube.h"
#include "milligpu/sign/signing.h"

#include "sim_model.h"

enum { SIM_KEYS = 64 };

/* A key as the ConfigMap has, or had, it. */
struct sim_key {
    char id[KEY_ID_BYTES];
    char text[PUBLIC_KEY_TEXT_BYTES];
    int64_t from_ms;
    int64_t until_ms; /* INT64_MAX: it is there */
    bool alone;       /* the files were lost before: no key of before could sign meanwhile */
    bool back;        /* a late request brought it back after it was taken away */
    bool revoked;     /* an operator said so, when it signed no more */
};

struct fake_apiserver;
struct key_publisher;
struct keyring;
struct sim_api;

struct sim_keys {
    struct keyring *keyring; /* milligpud's, while it is up */
    struct key_publisher *publisher;
    struct fake_apiserver *fake;
    struct sim_api *api;
    struct kube_ops ops;
    struct kube_ops other_ops; /* of no use here */
    char file[300];
    int64_t wait_ms;             /* the setting key_wait_s */
    bool lost;                   /* the files, once at least */
    char alone[KEY_ID_BYTES];    /* the key that was made then */
    int64_t lag_ms[MODEL_NODES]; /* how far the mount there is behind */
    uint32_t n_keys;
    struct sim_key key[SIM_KEYS];
};

struct sim;
struct sim_effect;

void keys_begin(struct sim *sim, const char *folder);
void keys_end(struct sim *sim);
void keys_boot(struct sim *sim);  /* the files are read: before milligpud's parts are made */
void keys_start(struct sim *sim); /* they were made */
void keys_stop(struct sim *sim);  /* the process is gone */
void keys_turn(struct sim *sim);  /* of the thread that watches */
void keys_now(struct sim *sim);   /* time has passed */
void keys_calm(struct sim *sim);
void keys_lose(struct sim *sim); /* with the ledger, perhaps */
void keys_trouble(struct sim *sim, uint32_t step);
/* A container of the pod is made: does the agent of its node believe its allocation? */
bool keys_believes(struct sim *sim, const struct model_node *node, const struct model_pod *pod);
/* Its Binding takes effect. */
void oracle_key(struct sim *sim, struct model_pod *pod, const char *signature,
                const char *allocation);
/* Does no operator doubt the key that signed for it? */
bool keys_vouch(const struct sim *sim, const struct model_pod *pod);
/* All is quiet: what proves an allocation, and what does no more. */
void oracle_proofs(struct sim *sim);
/* No pod is left: nor is any key but the one that signs. */
void oracle_keys_gone(struct sim *sim);

#endif
