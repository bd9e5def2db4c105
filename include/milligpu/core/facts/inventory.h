/*
 * inventory - the GPUs that a Node object shows.
 *
 * Sources, best first: annotation milligpu.io/gpus; label nvidia.com/gpu.count (if we advertise, or
 * if inventory_from_labels is set and the node's status does not show our resource);
 * status.allocatable of our resource. Without UUIDs, ids are made up and stable: "<node>/gpu-<i>".
 *
 * A node is never an error: unusable values are left out, with a problem that drift shows. A value
 * that cannot be read says nothing about the GPUs: those that the node showed before stay, and take
 * no new shares until it can be read again.
 *
 * Sources that contradict each other: an agent that names its GPUs is believed rather than labels
 * about MIG and sharing, and rather than what the device plugin offers (it sees both on each GPU).
 * More whole GPUs in the node's status than there are GPUs are parts that somebody else hands out,
 * whoever names the GPUs; a node for virtual machines is none of ours.
 */
#ifndef MILLIGPU_INVENTORY_H
#define MILLIGPU_INVENTORY_H

#include "milligpu/base/arena.h"
#include "milligpu/base/limits.h"
#include "milligpu/core/facts/host.h"
#include "milligpu/core/facts/labels.h"
#include "milligpu/core/facts/node_filter.h"

/*
 * The annotation milligpu.io/agent about the agent that wrote it. NULL: it is silent there, or
 * cannot be read. An agent outside of pods names no pod, nor does an older agent.
 */
struct agent_claim {
    const char *pod;     /* uid of the agent's pod */
    const char *node;    /* uid of the Node object that it serves */
    const char *boot;    /* the boot id of its machine */
    const char *leaving; /* why it lets go of the GPUs */
};

/* The value of leaving with which the agent of a node has been uninstalled. */
#define AGENT_UNINSTALLED "uninstalled"

/* What wire decodes from a Node. Strings are terminated; NULL: absent. */
struct node_facts {
    const char *name;
    const char *uid;
    const char *resource_version;
    int64_t created_ms; /* creationTimestamp, UTC; 0: not known */
    struct node_taints taints;
    struct host host;           /* status.allocatable, rounded down; each is 0 if it is not known */
    const char *capacity_milli; /* status.capacity[resource], as written */
    const char *allocatable_milli; /* status.allocatable[resource] */
    /* The same of the resource of whole GPUs, which a device plugin offers. */
    const char *whole_capacity;
    const char *whole_allocatable;
    const char *whole_shared;  /* an amount of it and ".shared" other than 0: its name if sliced */
    const char *label_count;   /* nvidia.com/gpu.count */
    const char *label_product; /* nvidia.com/gpu.product */
    const char *label_memory;  /* nvidia.com/gpu.memory, MiB of one GPU */
    const char *label_mig;     /* nvidia.com/mig.strategy or a mig.* product: set if MIG */
    /* nvidia.com/gpu.sharing-strategy, .replicas or mps.capable: set if time-slicing or MPS */
    const char *label_sharing;
    const char *label_workload; /* nvidia.com/gpu.workload.config */
    bool plugin_paused;         /* labels of NVIDIA's operator say that it has stopped the plugin */
    uint32_t labels;            /* all of them, for the rules of a policy; borrowed like all else */
    const struct label *label;
    /*
     * annotation milligpu.io/cordon: "all" (also if it cannot be read) or ids, separated by commas
     */
    const char *cordon;
    bool agent;            /* annotation milligpu.io/agent, whatever its value */
    const char *agent_key; /* its member key, as written; NULL: none that can be read */
    struct agent_claim claim;
    const char *boot;       /* status.nodeInfo.bootID: of the machine on which kubelet runs */
    const char *gpus_error; /* why it is invalid: milligpu.io/gpus[0].milli: ... */
    uint32_t gpus;          /* in the annotation */
    struct gpu_facts *gpu;
    bool has_gpus; /* the annotation is present and well-formed, possibly empty */
    /* Which label, annotation or status field cannot be read, and why; NULL: all can be read. */
    const char *unreadable;
};

struct gpu_facts {
    const char *id;
    const char *alias; /* "<node>/gpu-<index>" when id is a UUID, else NULL */
    const char *model;
    uint32_t index;
    uint32_t milli;      /* 1 .. GPU_MILLI */
    uint32_t mib;        /* 0: not known; then shares have 0 MiB */
    int32_t numa;        /* -1: not known */
    uint32_t nvlinks;    /* at most GPUS_PER_NODE_MAX are kept */
    const char **nvlink; /* the GPUs that NVLink joins with this one, as written */
    bool nvlink_odd;     /* it was no list of texts; what could be read is above */
    uint64_t peers;      /* bit i: inventory.gpu[i], if either of the two names the other */
    const char *health;  /* as written, judged by HEALTH_WORDS; NULL: nothing said, so healthy */
    const char *reason;  /* why it is unhealthy, and since when (RFC 3339), as written; or NULL */
    const char *since;
    const char *held; /* as written, then as hold_kind() reads it; NULL: nobody holds it whole */
    const char *ill;  /* set by inventory_parse(): reason and since, if it is not healthy */
    bool healthy;     /* set by inventory_parse(), like cordoned and peers */
    bool cordoned;
};

/*
 * What a node may say of a GPU's health, in any case. Every other word closes the GPU, too, and is
 * a slip that drift shows.
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
 * Who holds a GPU whole, other than by shares of ours. The node's agent sees what NVIDIA's device
 * plugin, a DRA driver or a process took; so that GPU is closed, and not the whole node.
 *
 *     "pod:UID"      kubelet gave it to this pod
 *     "env:UID"      only a variable of this pod says so, which its author may have written: it
 *                    counts for a pod that asks for whole GPUs
 *     "process"      a process outside of Kubernetes
 *     "mig"          MIG cuts it up, and whoever hands out its parts has it
 *     "unknown"      somebody; also what inventory_parse() makes of any other word, a slip
 */
enum hold_kind { HOLD_POD, HOLD_VARIABLE, HOLD_PROCESS, HOLD_MIG, HOLD_UNKNOWN };

enum { HOLD_BYTES_MAX = UID_BYTES_MAX + 4 };

/* *out_uid: empty unless a pod is named. False: none of these words, and nothing is set. */
bool hold_kind(const char *word, enum hold_kind *out, struct text *out_uid);

enum inventory_source { SOURCE_NONE, SOURCE_ANNOTATION, SOURCE_LABEL, SOURCE_ALLOCATABLE };

/*
 * MIG, sharing, virtual machines and no source are how a node may be meant to be; the others are
 * faults that somebody must mend.
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

/* Does a device plugin belong on nodes with GPUs? The setting "plugin". */
enum plugin_rule {
    PLUGIN_AUTO,   /* where it was seen, or where NVIDIA's operator has stopped it */
    PLUGIN_EXPECT, /* on every one */
    PLUGIN_IGNORE  /* on none */
};

struct inventory_rules {
    bool advertise;
    bool from_labels; /* inventory_from_labels */
    enum plugin_rule plugin;
};

enum plugin_state {
    PLUGIN_NONE, /* no plugin is known, or an agent is believed instead */
    PLUGIN_ZERO, /* offers no GPU; DOWN if it was UP or DOWN before. Not the state of a node */
    PLUGIN_UP,   /* offers GPUs */
    PLUGIN_DOWN  /* offers no GPU, and should: no new shares */
};

/* Amounts of whole GPUs in the status, as a device plugin checks and offers them. */
struct plugin_report {
    enum plugin_state state;
    uint32_t offered; /* allocatable */
    uint32_t healthy; /* of those that it has, or that the node shows, if these are more */
};

struct inventory {
    const char *node;
    const char *uid;
    enum inventory_source source;
    enum inventory_problem problem; /* if there is a problem, gpus is 0 */
    /*
     * Names the field and the numbers; for drift, not for filter. Without a problem: what the node
     * says that means nothing although its GPUs can be used; mostly empty.
     */
    char problem_text[160];
    /* with a problem: the GPUs are unknown, so those known before stay, closed */
    bool silent;
    uint32_t gpus;
    struct gpu_facts *gpu; /* ascending index, distinct ids */
    uint32_t labels;
    const struct label *label;
    bool agent; /* milligpu-node runs there, and lets nobody have a GPU without it */
    struct plugin_report plugin; /* PLUGIN_NONE without GPUs */
    struct node_taints taints;
    /* with rules.advertise: the correct value of status.capacity; else 0 */
    uint32_t advertise_milli;
};

/* Evaluates a node. *out lives in arena and borrows from facts. */
void inventory_parse(const struct node_facts *facts, const struct inventory_rules *rules,
                     struct arena *arena, struct inventory *out);

/* The state that follows, given the previous state of the node's plugin. */
struct plugin_report plugin_judged(const struct plugin_report *shown, enum plugin_state before);

const char *inventory_problem_name(enum inventory_problem problem);

/* Does the node say that others hand out its GPUs, so that it is none of ours? */
static inline bool inventory_is_excluded(enum inventory_problem problem)
{
    return problem == PROBLEM_MIG || problem == PROBLEM_SHARING ||
           problem == PROBLEM_VIRTUAL_MACHINES;
}

const char *inventory_source_name(enum inventory_source source);

/* floor(mib_total x milli / milli_total): the memory of a share (design 2). */
uint32_t inventory_share_mib(uint32_t mib_total, uint32_t milli_total, uint32_t milli);

#endif
