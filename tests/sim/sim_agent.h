/*
 * sim_agent - nodes with agents: what is true there, what the agent has read and written of it, and
 * what the node does with its pods.
 *
 *     truth ---reading---> agent ---late, lost, again---> Node ---watch---> milligpud
 *       ^                    | refuses who comes second
 *       +---- kubelet gives whole GPUs and starts containers
 *
 * Everything is drawn from a generator of its own, so that a run without agents is the run that it
 * was before there were any. The model (sim_model.h) knows what the Node says, and the oracle
 * judges by that alone (sim_held.c); the truth decides what agents will say.
 */
#ifndef MILLIGPU_TESTS_SIM_AGENT_H
#define MILLIGPU_TESTS_SIM_AGENT_H

#include "sim_model.h"
#include "sim_vouch.h"

enum { AGENT_CALLS_MAX = 4 };

/* A GPU as it is. */
struct true_gpu {
    uint32_t index;
    uint32_t ill; /* 0: it is well; else one of a few ways to be ill */
    int64_t since_ms;
    bool gone;    /* fell off the bus */
    bool process; /* somebody outside of the cluster uses it */
    uint32_t
        claims; /* the place + 1 of a pod that says by a variable that it has the GPU; 0: none */
};

/* An agent's statements about its node. */
struct agent_words {
    bool gpus; /* it has read them; else only that it is there */
    struct vouch_claim claim;
    struct model_gpu gpu[MODEL_GPUS];
};

/* A write that the API server takes when it is due. */
struct agent_call {
    int64_t due_ms; /* 0: none */
    struct agent_words words;
};

struct sim_agent {
    bool installed;
    bool up;
    bool by_variable; /* the device plugin there gives GPUs by a variable, not by CDI */
    int64_t boot_ms;  /* when it comes up while it is down */
    int64_t read_ms;  /* its next reading of the GPUs */
    int64_t look_ms;  /* when it next looks whether there is something to write */
    int64_t again_ms; /* when it writes even what is the same */
    int64_t busy_ms;  /* it waits for the answer to a write until then; 0: it does not */
    int64_t wait_ms;  /* after failed writes */
    bool fails;       /* that write has failed for it */
    bool has_read;
    uint32_t known; /* bits: GPUs that it has seen since it is up */
    bool has_sent;
    struct agent_words sending;
    struct agent_words sent; /* what the API server took last, as far as it knows */
    struct agent_call call[AGENT_CALLS_MAX];
    struct true_gpu gpu[MODEL_GPUS];
    struct true_gpu read[MODEL_GPUS]; /* as it was at its last reading */
};

/* A pod on such a node. */
struct sim_stay {
    int64_t due_ms; /* when the node next does something about it; 0: never */
    bool here;
    bool admitted;
    bool runs;      /* its container was made: its GPUs are taken until its sandbox ends */
    bool ends;      /* its sandbox ends when that is due */
    uint32_t whole; /* bits: GPUs that kubelet gave it, by position */
};

struct sim;

/* agent */
void agent_begin(struct sim *sim, struct model_node *node);      /* before its Node is created */
void agent_node_comes(struct sim *sim, struct model_node *node); /* the same, again */
void agent_node_goes(struct sim *sim, const struct model_node *node);
void agent_looks(struct sim *sim, const struct model_node *node); /* containers came or went */
void agent_stops(struct sim *sim, const struct model_node *node, int64_t down_ms);
void agent_shows_nothing(struct model_node *node); /* its words are gone from the Node */
bool agent_serves(const struct sim *sim, const struct model_node *node);
void agents_trouble(struct sim *sim, uint32_t step);
void agents_turn(struct sim *sim);
int64_t agents_next(const struct sim *sim);

/* stay */
void stay_begins(struct sim *sim, struct model_pod *pod); /* it was bound */
void stay_reboots(struct sim *sim, const struct model_node *node);
void stay_turn(struct sim *sim);
int64_t stay_next(const struct sim *sim);
/* The pod that has the GPU whole by kubelet and runs; NULL: none. */
const struct model_pod *stay_holder(const struct sim *sim, const struct model_node *node,
                                    uint32_t gpu);

#endif
