/*
 * sim_vouch - pods of agents, and which nodes they vouch for.
 *
 *     agent --------claim-----------> Node --\
 *     kubelet --Ready, boot id------> pod, Node --watch--> milligpud --> struct node.vouch
 *     controllers --create, delete--> pod ---/
 *
 * The oracle's table holds each state of a Node and of the pods of agents on it, by
 * resourceVersion, as the API server answered when it was written. It knows which of those states
 * milligpud was shown, and judges them by itself.
 */
#ifndef MILLIGPU_TESTS_SIM_VOUCH_H
#define MILLIGPU_TESTS_SIM_VOUCH_H

#include "milligpu/core/facts/agents.h"

#include "sim_model.h"

enum { VOUCH_PODS = 4, VOUCH_WORD = 40 };

/* An agent's annotation about itself on its Node; "" if none. */
struct vouch_claim {
    char pod[MODEL_ID];
    char node[MODEL_ID];
    char boot[VOUCH_WORD];
    char leaving[VOUCH_WORD];
};

/* A pod of an agent. */
struct vouch_pod {
    bool there;
    bool ready;
    bool terminating;
    uint32_t number;
    char uid[MODEL_ID];
    int64_t tell_ms; /* when kubelet next writes whether it is Ready; 0: nothing to write */
    int64_t end_ms;  /* when it is deleted, or gone if it is terminating; 0: it stays */
};

/* A node of the cluster, in runs with such pods. */
struct sim_vouch {
    struct vouch_pod pod[VOUCH_PODS]; /* the first is its agent's */
    int64_t create_ms;                /* when its agent's pod is next created */
    bool selected;                    /* it has the label of nodes that need an agent */
    bool silent;                      /* an old agent, which names no pod, until it is replaced */
    bool stays;                       /* the agent goes on while its Node is made anew */
    bool counted;                     /* labels of its GPUs are there, too */
    uint32_t boot;                    /* of its machine */
    int64_t kubelet_ms;               /* when kubelet writes that; 0: it has */
    int64_t pause_ms;                 /* until then the agent is not Ready */
    int64_t leave_ms;                 /* until then it has let go of the GPUs */
    int64_t flap_ms;                  /* when Ready changes next; 0: it does not flap */
    int64_t flap_most_ms;             /* after which it changes again, at most */
    int64_t flaps_ms;                 /* until then */
    char node_uid[MODEL_ID];          /* as its agent knows it */
    struct vouch_claim claim;         /* of the agent's process that is running */
};

/* --- the oracle's table --- */

/* A Node from one resourceVersion on, as far as agents are concerned. */
struct vouch_word {
    uint64_t version;
    bool there;
    bool selected;
    bool named; /* the annotation is there */
    bool gpus;  /* GPUs are named */
    char uid[MODEL_ID];
    char boot[VOUCH_WORD];
    struct vouch_claim claim;
};

/* The pods of agents there. */
struct vouch_pods {
    uint64_t version;
    uint32_t pods;
    uint32_t serving;
    char uid[VOUCH_PODS][MODEL_ID];
    bool serves[VOUCH_PODS];
};

/* Facts that milligpud must remember of the Node with this uid. */
struct vouch_memory {
    char uid[MODEL_ID];
    bool named_gpus;
    bool vouched;
};

struct vouch_table {
    struct vouch_word *word; /* ascending */
    size_t n_words;
    size_t word_capacity;
    struct vouch_pods *pods;
    size_t changes;
    size_t pod_capacity;
    uint64_t judged;          /* version of the Node at the last judgement */
    struct vouch_memory sure; /* of this process */
    struct vouch_memory kept; /* of its store */
};

struct sim;
struct sim_agent;
struct draw;
struct allocation;
struct snapshot;

/* vouch: what happens */
void vouch_begin(struct sim *sim, struct model_node *node);
json_t *vouch_labels(const struct sim *sim, const struct model_node *node, json_t *take_labels);
json_t *vouch_status(const struct sim *sim, const struct model_node *node, json_t *take_status);
bool vouch_node_goes(struct sim *sim, const struct model_node *node); /* true: the agent stays */
bool vouch_can_start(const struct sim *sim, const struct model_node *node);
void vouch_starts(struct sim *sim, const struct model_node *node);
void vouch_says(const struct sim *sim, const struct model_node *node, struct vouch_claim *out);
void vouch_tells(const struct vouch_claim *claim, json_t *note); /* into the annotation */
void vouch_answered(struct sim *sim, const struct model_node *node);
void vouch_reboots(struct sim *sim, const struct model_node *node);
void vouch_leaves(struct sim *sim, const struct model_node *node); /* it is uninstalled */
bool vouch_trouble(struct sim *sim, struct model_node *node, struct draw *draw);
void vouch_turn(struct sim *sim, struct model_node *node);
int64_t vouch_next(const struct sim *sim, const struct model_node *node);
void vouch_calm(struct sim *sim); /* agents come back, and stay */

/* vouched: the oracle */
void vouched_node_is(struct sim *sim, const struct model_node *node, uint64_t version);
void vouched_pods_are(struct sim *sim, const struct model_node *node, uint64_t version);
void vouched_end(struct sim *sim);
void vouched_loaded(struct sim *sim); /* milligpud has started */
void vouched_lost(struct sim *sim);   /* with the ledger */
void vouched_stored(struct sim *sim, const struct agents *agents, size_t count, bool stored);
/* Does the Node, as it is, take new shares once milligpud knows that? */
int vouched_fit(const struct sim *sim, const struct model_node *node);    /* enum fit */
void vouched_reserved(struct sim *sim, const struct allocation *granted); /* by the writer */
void oracle_vouched(struct sim *sim, const struct snapshot *snapshot);
/* That its agent named its GPUs is stored, and stays so. */
bool vouched_is_kept(const struct sim *sim, const struct model_node *node);
size_t vouched_least(const struct sim *sim); /* entries of milligpud's table, when all is quiet */
size_t vouched_most(const struct sim *sim);
size_t vouched_pods(const struct sim *sim); /* pods of agents that live */

#endif
