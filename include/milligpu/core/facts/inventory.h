/*
 * inventory - the GPUs that a Node object shows.
 *
 * Sources, best first: annotation milligpu.io/gpus; label nvidia.com/gpu.count (if we advertise, or
 * if inventory_from_labels is set and the node's status does not show our resource);
 * status.allocatable of our resource. Without UUIDs, ids are made up and stable: "<node>/gpu-<i>".
 *
 * Parsing a node never fails: unusable values are left out, with a problem that drift shows. After
 * an unreadable value, the GPUs that the node showed before stay, and take no new shares until the
 * value can be read again.
 *
 * Contradicting sources: an agent that lists its GPUs takes precedence over labels about MIG and
 * sharing, and over the amount that the device plugin offers (the agent sees both on each GPU). If
 * the status counts more whole GPUs than exist, another component hands out parts of them, with or
 * without an agent. Nodes for virtual machines are excluded.
 */
#ifndef MILLIGPU_INVENTORY_H
#define MILLIGPU_INVENTORY_H

#include "milligpu/base/arena.h"
#include "milligpu/base/limits.h"
#include "milligpu/core/facts/host.h"
#include "milligpu/core/facts/labels.h"
#include "milligpu/core/facts/node_filter.h"

/*
 * The identity of an agent in its annotation milligpu.io/agent. NULL: absent or unreadable. Older
 * agents and agents outside of pods name no pod.
 */
struct agent_claim {
    const char *pod;     /* uid of the agent's pod */
    const char *node;    /* uid of the Node object that it serves */
    const char *boot;    /* boot id of its machine */
    const char *leaving; /* why it releases the GPUs */
};

/* The value of leaving after the node's agent was uninstalled. */
#define AGENT_UNINSTALLED "uninstalled"

/* A Node as decoded by wire. Borrowed; strings are NUL-terminated; NULL: absent. */
struct node_facts {
    const char *name;
    const char *uid;
    const char *resource_version;
    int64_t created_ms; /* creationTimestamp, UTC; 0: unknown */
    struct node_taints taints;
    struct host host;              /* status.allocatable, rounded down; 0: unknown */
    const char *capacity_milli;    /* status.capacity[resource], as written */
    const char *allocatable_milli; /* status.allocatable[resource] */
    /* status.capacity and .allocatable of the whole-GPU resource of a device plugin, as written */
    const char *whole_capacity;
    const char *whole_allocatable;
    const char *whole_shared;  /* RESOURCE.shared of capacity or allocatable; 0 only if both are */
    const char *label_count;   /* nvidia.com/gpu.count */
    const char *label_product; /* nvidia.com/gpu.product */
    const char *label_memory;  /* nvidia.com/gpu.memory: MiB of one GPU */
    const char *label_mig;     /* nvidia.com/mig.strategy or a MIG product: set if MIG */
    /* nvidia.com/gpu.sharing-strategy, .replicas or mps.capable: set if time-slicing or MPS */
    const char *label_sharing;
    const char *label_workload; /* nvidia.com/gpu.workload.config */
    bool plugin_paused;         /* NVIDIA's operator stopped the device plugin, by its labels */
    uint32_t n_labels;          /* all labels, for the rules of a policy */
    const struct label *label;
    /* annotation milligpu.io/cordon: "all" (also if unreadable) or ids separated by commas */
    const char *cordon;
    bool agent;            /* annotation milligpu.io/agent is present, with any value */
    const char *agent_key; /* its member key, as written; NULL: absent or unreadable */
    struct agent_claim claim;
    const char *boot; /* status.nodeInfo.bootID: boot id of kubelet's machine */
    /* why annotation milligpu.io/gpus is invalid: "milligpu.io/gpus[0].milli: ..."; NULL: valid */
    const char *gpus_error;
    uint32_t n_gpus; /* in the annotation */
    struct gpu_facts *gpu;
    bool has_gpus; /* the annotation is present and well-formed, possibly empty */
    /* the unreadable label, annotation or status field, and why; NULL: none */
    const char *unreadable;
};

struct gpu_facts {
    const char *id;
    const char *alias; /* "<node>/gpu-<index>" when id is a UUID, else NULL */
    const char *model;
    uint32_t index;
    uint32_t milli;      /* 1 .. GPU_MILLI */
    uint32_t mib;        /* 0: unknown, and shares have 0 MiB */
    int32_t numa;        /* NUMA node; -1: unknown */
    uint32_t n_nvlinks;  /* at most GPUS_PER_NODE_MAX are kept */
    const char **nvlink; /* ids of the GPUs linked by NVLink, as written */
    bool nvlink_odd;     /* nvlink was no list of strings, or too long: incomplete */
    uint64_t peers;      /* set by inventory_parse(): bit i if this GPU or gpu[i] lists the other */
    const char *health;  /* one of HEALTH_WORDS, as written; NULL: unset, so healthy */
    const char *reason;  /* why it is unhealthy, as written; or NULL */
    const char *since;   /* since when it is unhealthy (RFC 3339), as written; or NULL */
    const char *held;    /* as written, then as hold_kind() reads it; NULL: not held whole */
    /* set by inventory_parse() */
    const char *ill; /* reason and since; NULL: healthy, or no reason given */
    bool healthy;
    bool cordoned;
};

/*
 * The words for a GPU's health, case-insensitive. Any other word also closes the GPU, and drift
 * shows it as a mistake.
 */
#define HEALTH_WORDS(X)                                                                            \
    X("healthy", true)                                                                             \
    X("ok", true)                                                                                  \
    X("good", true)                                                                                \
    X("ready", true)                                                                               \
    X("up", true)                                                                                  \
    X("unhealthy", false)                                                                          \
    X("bad", false)                                                                                \
    X("degraded", false)                                                                           \
    X("down", false)                                                                               \
    X("error", false)                                                                              \
    X("failed", false)                                                                             \
    X("lost", false)                                                                               \
    X("sick", false)                                                                               \
    X("unknown", false)

/*
 * The holder of a whole GPU, other than shares of ours. The node's agent sees the GPUs taken by
 * NVIDIA's device plugin, a DRA driver or a process, so that only these close, not the whole node.
 *
 *     "pod:UID"      kubelet assigned it to this pod
 *     "env:UID"      claimed only by an environment variable of this pod, possibly written by its
 *                    author: counts if the pod requests whole GPUs
 *     "process"      a process outside of Kubernetes
 *     "mig"          partitioned by MIG; its instances are handed out by another component
 *     "unknown"      an unknown holder; inventory_parse() maps any other word to it, a mistake
 */
enum hold_kind { HOLD_POD, HOLD_VARIABLE, HOLD_PROCESS, HOLD_MIG, HOLD_UNKNOWN };

enum { HOLD_BYTES_MAX = UID_BYTES_MAX + 4 };

/* *out_uid is empty unless a pod is named. Returns false, and sets nothing, for any other word. */
bool hold_kind(const char *word, enum hold_kind *out, struct text *out_uid);

enum inventory_source { SOURCE_NONE, SOURCE_ANNOTATION, SOURCE_LABEL, SOURCE_ALLOCATABLE };

/*
 * MIG, sharing, virtual machines and no source can be intended; the other problems are faults to be
 * repaired.
 */
#define INVENTORY_PROBLEMS(X)                                                                      \
    X(PROBLEM_NONE, "none", "")                                                                    \
    X(PROBLEM_MIG, "mig", "the node's labels say MIG")                                             \
    X(PROBLEM_SHARING, "sharing", "the node's labels say time-slicing or MPS")                     \
    X(PROBLEM_VIRTUAL_MACHINES, "virtual_machines", "the node's GPUs are for virtual machines")    \
    X(PROBLEM_NO_SOURCE, "no_source", "the node has GPUs, and nothing names those to share")       \
    X(PROBLEM_FOREIGN_UNITS, "foreign_units", "the amount is not in thousandths of the GPUs")      \
    X(PROBLEM_ANNOTATION, "annotation", "annotation milligpu.io/gpus cannot be read")              \
    X(PROBLEM_AMOUNT, "amount", "the amount in status.allocatable is no whole number")             \
    X(PROBLEM_LIMIT, "limit", "more than GPUS_PER_NODE_MAX GPUs")

enum inventory_problem {
#define X(code, word, text) code,
    INVENTORY_PROBLEMS(X)
#undef X
};

/* Is a device plugin expected on nodes with GPUs? The setting "plugin". */
enum plugin_rule {
    PLUGIN_AUTO,   /* where it was seen, or where NVIDIA's operator has stopped it */
    PLUGIN_EXPECT, /* on every node */
    PLUGIN_IGNORE  /* on no node */
};

struct inventory_rules {
    bool advertise;
    bool from_labels; /* inventory_from_labels */
    enum plugin_rule plugin;
};

enum plugin_state {
    PLUGIN_NONE, /* no plugin is known, or an agent takes precedence */
    PLUGIN_ZERO, /* offers no GPU; never stored in a node, plugin_judged() makes it NONE or DOWN */
    PLUGIN_UP,   /* offers GPUs */
    PLUGIN_DOWN  /* offers no GPU, but should: no new shares */
};

/* Whole GPUs in the node's status, as a device plugin checks and offers them. */
struct plugin_report {
    enum plugin_state state;
    uint32_t offered; /* allocatable */
    uint32_t healthy; /* of the plugin's GPUs, or of the node's if these are more */
};

struct inventory {
    const char *node;
    const char *uid;
    enum inventory_source source;
    enum inventory_problem problem; /* if there is a problem, gpus is 0 */
    /*
     * The field and the numbers; for drift, not for filter. Without a problem: ignored mistakes on
     * a node whose GPUs can be used; mostly empty.
     */
    char problem_text[160];
    /* with a problem: the GPUs are unknown, so the GPUs known before stay, closed */
    bool silent;
    uint32_t n_gpus;
    struct gpu_facts *gpu; /* ascending index, distinct ids */
    uint32_t n_labels;
    const struct label *label;
    bool agent; /* milligpu-node runs there, and no container gets a GPU without it */
    struct plugin_report plugin; /* PLUGIN_NONE without GPUs */
    struct node_taints taints;
    /* with rules.advertise: the correct value of status.capacity; else 0 */
    uint32_t advertise_milli;
};

/* *out lives in arena and borrows from facts. */
void inventory_parse(const struct node_facts *facts, const struct inventory_rules *rules,
                     struct arena *arena, struct inventory *out);

/* Resolves PLUGIN_ZERO by the previous state: NONE stays NONE, UP and DOWN become DOWN. */
struct plugin_report plugin_judged(const struct plugin_report *shown, enum plugin_state before);

const char *inventory_problem_name(enum inventory_problem problem);

/* Are the node's GPUs handed out by another component, so that we exclude the node? */
static inline bool inventory_is_excluded(enum inventory_problem problem)
{
    return problem == PROBLEM_MIG || problem == PROBLEM_SHARING ||
           problem == PROBLEM_VIRTUAL_MACHINES;
}

const char *inventory_source_name(enum inventory_source source);

/* floor(mib_total x milli / milli_total): the memory of a share. */
uint32_t inventory_share_mib(uint32_t mib_total, uint32_t milli_total, uint32_t milli);

#endif
