/*
 * model - what the cluster is: Nodes and Pods as the API server has them, and what was granted.
 *
 * Filled from the effects of requests alone. For a pod bound by our Binding it keeps the annotation
 * of that moment for good: later edits change nothing.
 */
#ifndef MILLIGPU_TESTS_SIM_MODEL_H
#define MILLIGPU_TESTS_SIM_MODEL_H

#include <jansson.h>

#include "milligpu/base/base.h"

enum {
    MODEL_NAME = 24,
    MODEL_ID = 64,
    MODEL_NODES = 8,
    MODEL_GPUS = 8,
    MODEL_PODS = 512, /* over the whole run */
    MODEL_NAMES = 64, /* pod names; they are reused with other uids */
    MODEL_WANTS = 4,
    MODEL_SHARES = 16,
    MODEL_VERSIONS = 1024,
    MODEL_HOLDER = MODEL_ID + 4, /* pod:UID */
    MODEL_COPIES = 64,
};

#define MODEL_ANY UINT32_MAX /* of nodes, as bits */

/* --- what pods request --- */

struct model_want {
    const char *container;
    enum { WANT_APP, WANT_INIT, WANT_SIDECAR } kind;
    uint32_t milli;
    uint32_t count; /* GPUs to spread it over; 0: not given */
};

/* How the GPUs of each container must lie. */
enum model_lie { LIE_ANYWHERE, LIE_ON_NUMA, LIE_LINKED };

struct shape {
    const char *word;
    uint32_t n_wants;
    struct model_want want[MODEL_WANTS];
    bool grantable;      /* a request that may be granted somewhere */
    bool ours;           /* names the resource */
    const char *model;   /* gpu-model */
    const char *memory;  /* gpu-memory */
    uint32_t memory_mib; /* the same as a number */
    uint32_t whole;      /* GPUs of the other resource */
    bool apart;          /* requested by a container that requests nothing else */
    const char *topology;
    enum model_lie lie; /* what that demands */
};

extern const struct shape model_shape[];
extern const uint32_t model_shapes;
/* For nodes that tell which GPUs lie together. */
extern const struct shape model_lying[];
extern const uint32_t model_lyings;
/* With a memory for which the share may be raised, and the same without one. */
extern const struct shape model_raising[];
extern const uint32_t model_raisings;
/* More than any node has: for pods that name their node themselves. */
extern const struct shape model_squatter[];
extern const uint32_t model_squatters;

/* --- nodes --- */

struct model_gpu {
    char id[MODEL_ID];
    char alias[MODEL_ID];
    const char *model;
    uint32_t index;
    uint32_t milli;
    uint32_t mib;
    bool ill;
    bool missing;   /* not in the inventory at the moment */
    bool copy;      /* the UUID belongs to another node */
    uint32_t numa;  /* its NUMA node + 1; 0: not known */
    uint32_t names; /* bits: GPUs of the node that it names as linked with it, by position */
    /* Known from an agent only. */
    char held[MODEL_HOLDER]; /* by whom it is held whole; "": by nobody */
    const char *health;      /* the word, if it is ill */
    const char *reason;      /* why it is ill; NULL: not known */
    int64_t since_ms;        /* and since when, UTC */
};

enum model_source { MODEL_ANNOTATED, MODEL_COUNTED, MODEL_LABELLED };

/* A node as it was from one resourceVersion on. */
struct model_version {
    uint64_t version;
    bool there;
    bool cordoned;
    bool agent;    /* it has the annotation of one */
    bool odd;      /* its GPUs could not be read */
    bool stripped; /* somebody deleted what its agent wrote: its GPUs stay, and take no share */
    bool unschedulable;
    bool not_ready;
    uint32_t taints; /* bits, as sim_taints.c numbers them */
    uint32_t n_gpus;
    struct model_gpu gpu[MODEL_GPUS];
};

struct model_node {
    char name[MODEL_NAME];
    enum model_source source;
    struct model_version is;
    bool odd;                /* what it says of its GPUs cannot be read: all count as missing */
    bool was_odd;            /* at some time */
    bool by_agent;           /* an agent alone writes its GPUs, while it is installed */
    bool hidden[MODEL_GPUS]; /* which of them would be missing otherwise */
    uint32_t versions;
    struct model_version *was; /* ascending; the last one is the current state */
};

/* --- pods --- */

struct model_share {
    uint32_t want; /* of the shape */
    char gpu[MODEL_ID];
    uint32_t milli;
    uint32_t asked; /* differs from milli where it was raised */
    uint32_t mib;
};

/* The daemon's settings for requests. */
struct sim_policy {
    uint32_t min_milli; /* 0: not given */
    uint32_t step_milli;
    uint32_t refusal_names;
    const char *order; /* setting policy */
};

struct model_pod {
    const struct shape *shape;
    uint32_t name;
    char uid[MODEL_ID];
    char node[MODEL_NAME]; /* "" while unbound */
    uint64_t version;      /* of the current object */
    uint32_t condition;    /* hash of what a scheduler last wrote into it; 0: nothing */
    bool there;
    bool ended;
    bool terminating;
    bool ours;                /* our Binding bound it */
    bool answered;            /* a bind of it was answered with success */
    bool strange;             /* somebody else wrote our annotation on it */
    bool makes_up;            /* that annotation named GPUs that nobody has, one for each part */
    bool asked;               /* a bind was requested */
    bool hesitates;           /* somebody is about to write another demand into it */
    bool edited;              /* it did not always request what it requests now */
    bool unlike;              /* its annotations request something else than when it was bound */
    uint64_t edited_version;  /* since which it requests what it requests now */
    bool needs_agent;         /* our Binding says that no container starts without it */
    char signed_by[17];       /* the id of the key of that signature; "": nobody signed */
    bool told_nvlink;         /* a rule demanded linked GPUs when it was granted its shares */
    uint64_t asked_version;   /* the writer's of nodes then; of a foreign pod: when it came */
    uint64_t asked_pods;      /* and its version of pods */
    uint64_t bound_version;   /* of the object, when it was bound */
    struct sim_policy policy; /* when a bind was requested while it held nothing */
    int64_t created_ms;
    int64_t bound_ms;
    int64_t bound_forward_ms; /* steps of the clock until then */
    int64_t kubelet_ms;       /* time of its next event; 0: none */
    uint32_t tolerates;       /* bits: taints */
    uint32_t accepts;         /* bits: nodes that another extender agrees to */
    uint32_t schedulers;      /* bits: schedulers that are responsible for it */
    uint32_t n_shares;
    struct model_share share[MODEL_SHARES]; /* ours: as granted */
};

/* A UUID that another node has shown, too. */
struct model_copied {
    char id[MODEL_ID];
    uint32_t owner; /* the node it was copied from */
    bool known;     /* milligpud knew it as that node's, which has existed ever since */
};

struct model {
    uint32_t copies;
    struct model_copied copied[MODEL_COPIES];
    uint32_t n_nodes;
    struct model_node node[MODEL_NODES];
    uint32_t n_pods;
    struct model_pod pod[MODEL_PODS];
    uint32_t current[MODEL_NAMES]; /* index + 1 of the pod that has the name now or had it last */
};

struct sim;
struct sim_effect;

void model_done(struct model *model);
/* The observer of sim_api. */
void model_effect(struct sim *sim, const struct sim_effect *effect);
/* A node's new state, which the API server has accepted as of version. */
void model_node_is(struct sim *sim, struct model_node *node, uint64_t version);

/* The current object; NULL if it is gone. Owned. */
json_t *model_fetch(const struct sim *sim, const char *path);

struct model_pod *model_find(struct model *model, const char *uid);
struct model_node *model_node(struct model *model, const char *name);

static inline bool model_alive(const struct model_pod *pod)
{
    return pod->there && !pod->ended;
}

/* The first version of the node, as an index, that the writer may have decided by. */
uint32_t model_first_known(const struct model_node *node, uint64_t version);

/* The number of equal parts of the request. */
uint32_t model_parts(const struct model_want *want);
/* The peak of the pod on one GPU over its life. */
uint32_t model_charge(const struct model_pod *pod, const char *gpu);
/* The same of whatever each of its wants takes there. */
uint32_t model_peak_of(const struct shape *shape, const uint32_t amount[MODEL_WANTS]);
/* Its whole request, as if everything were on one GPU. */
uint32_t model_peak(const struct shape *shape);

#endif
