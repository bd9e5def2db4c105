/*
 * node - one node: its GPUs, which pods hold what on them, what is left.
 *
 *      inventory (what the Node object shows)      allocations (what its pods hold)
 *                      \                              /
 *                       node_new(): recomputed from scratch
 *                                    |
 *   GPU 0 [bound......|reserved..|......free......] milli        immutable, reference-counted
 *
 * Every change of a node makes a new node object; nothing is added or subtracted in place, so no
 * sum can become wrong over time. At 8 GPUs and 30 pods that takes about a microsecond.
 *
 * Invariants (7: node_holds_names(); the others: node_check()):
 *   1. used_milli, reserved_milli and used_mib of a GPU are the sums over the charges that name it
 *      by id or by alias; used + reserved <= milli unless some charge there is observed, or the
 *      GPU shrank.
 *   2. A GPU that is charged never disappears: it stays, flagged absent.
 *   3. GPUs are in ascending order of (absent, index, id); ids are distinct.
 *   4. A node that is gone owns no UUID through owned_id; owned_id is in ascending order and
 *      contains no GPU of the node.
 *   5. Peers are peers of each other, and are among the first GPUS_PER_NODE_MAX GPUs.
 *   6. note[] names present GPUs, each once. GPU_HELD is set where it says by whom they are held,
 *      except where a variable alone says so and its pod asks for no whole GPUs. unnamed_gpus
 *      counts what pods hold of the other resource beyond the GPUs that are named for them.
 *   7. names holds name, uid, problem_text, the names of the GPUs and owned_id, and nothing else.
 *   8. While pods hold a made-up id that no GPU here has as id or alias, each GPU that could be
 *      meant is flagged unsure.
 */
#ifndef MILLIGPU_NODE_H
#define MILLIGPU_NODE_H

#include "milligpu/base/err.h"
#include "milligpu/core/facts/agents.h"
#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/labels.h"
#include "milligpu/core/facts/rule_set.h"
#include "milligpu/core/node/allocation.h"

struct rulebook; /* rulebook.h */

enum gpu_flag {
    GPU_ABSENT = 1 << 0, /* charged, but not in the inventory */
    GPU_UNHEALTHY = 1 << 1,
    GPU_CORDONED = 1 << 2,
    /* another node owns this UUID, or it is absent and only annotations name it: no grants */
    GPU_DUPLICATE = 1 << 3,
    GPU_OVER = 1 << 4, /* charged beyond its milli or MiB: no grants, drift */
    /* this node owns the UUID, and another node shows it too: drift; recomputed, never stored */
    GPU_CONTESTED = 1 << 5,
    /* indexes moved, and an index that a pod holds may mean this GPU: no grants; recomputed */
    GPU_UNSURE = 1 << 6,
    /* something else than shares of ours holds it whole: no grants; recomputed, never stored */
    GPU_HELD = 1 << 7,
};

/* What a Node says of a GPU and no store keeps (inventory.h). One of the two, or both. */
struct gpu_note {
    const struct atom *gpu;
    const char *held; /* who holds it whole, a word of hold_kind(); NULL: nobody */
    const char *ill;  /* why it is unhealthy, and since when; NULL: it is not, or nobody says */
};

struct gpu {
    const struct atom *id;
    /*
     * If id is a UUID: "<node>/gpu-<index>". If id is "<node>/gpu-<index>": the UUID by which pods
     * hold this GPU, because their annotations name it so, until the last of them is gone. NULL: no
     * second name (for a UUID: indexes moved, and the one that it had is not known).
     */
    const struct atom *alias;
    const struct atom *model; /* never NULL; empty when not known */
    uint32_t milli;
    uint32_t mib;
    uint32_t used_milli;     /* bound and observed */
    uint32_t reserved_milli; /* reserved, not bound yet */
    uint32_t used_mib;       /* both */
    uint16_t index;
    uint16_t charges; /* pods that hold a share of it */
    int16_t numa;     /* -1: not known */
    uint16_t flags;   /* enum gpu_flag */
    uint64_t peers;   /* bit i: NVLink joins it with GPU i of the node; never with itself */
};

struct node {
    atomic_uint refs;
    /* First what a question reads of every node: in a large cluster it waits for memory. */
    uint32_t gpus;
    const struct atom *name;
    rule_set rules; /* of the policy that match the labels (rulebook.h) */
    struct gpu *gpu;
    uint32_t free_milli; /* of GPUs that take new shares */
    const struct atom *uid;
    enum inventory_source source;
    enum inventory_problem problem;
    const struct atom *problem_text; /* or what the node says that means nothing (inventory.h) */
    bool gone;                       /* the Node object is gone; pods still hold its GPUs */
    bool agent;                      /* its Bindings name milligpu-node (inventory.h); not stored */
    struct plugin_report plugin;     /* NONE, UP or DOWN; not stored, either */
    enum vouch vouch;                /* agents.h; not stored, as is the next */
    int64_t vouch_ms;                /* when vouch last changed */
    uint32_t held_gpus;              /* whole GPUs of the other resource that pods hold */
    uint32_t unnamed_gpus;   /* of them, those of which nobody says which they are: no new shares */
    uint32_t unplaced_milli; /* observed, not assigned to a GPU: no new shares */
    bool host_known;         /* else nothing is known of host */
    struct host host;        /* what its pods leave of CPU and memory (ledger_set_host()) */
    const struct labels *labels;    /* a reference; NULL: none, or not shown yet */
    const struct taints *taints;    /* a reference; NULL: it says nothing; not stored, like agent */
    struct unusable_cause unusable; /* for sums and the reserve (taints_close()); not stored */
    int64_t since_ms;               /* when problem, gone, or the GPUs' flags last changed */
    uint32_t allocations;
    uint32_t owned_ids;
    const struct allocation **allocation; /* references; ascending uid */
    const struct atom **owned_id;         /* UUIDs that this Node owns and does not show now */
    uint32_t notes;
    struct gpu_note *note;        /* not stored, like agent */
    const struct name_set *names; /* a reference: holds every atom above but those of the others */
};

/*
 * What to build a node from: the inventory as atoms. A GPU flagged ABSENT is kept while it is
 * charged, and is dropped for one that is present under the same id or alias. A charge whose GPU is
 * not listed here adds an absent GPU of 0 milli, because its size is not known.
 */
struct node_build {
    const struct atom *name;
    const struct atom *uid;
    enum inventory_source source;
    enum inventory_problem problem;
    const struct atom *problem_text;
    bool gone;
    bool agent;
    struct plugin_report plugin;
    enum vouch vouch;
    int64_t vouch_ms;
    bool host_known;
    struct host host;
    const struct labels *labels;    /* the node takes a reference of its own */
    const struct taints *taints;    /* as labels */
    struct unusable_cause unusable; /* its taint is one of taints, or constant */
    rule_set rules;
    int64_t since_ms;
    uint32_t gpus;
    /*
     * all fields but the sums of charges; any flag except OVER and UNSURE; peers by the order here
     */
    const struct gpu *gpu;
    uint32_t allocations;
    const struct allocation *const *allocation;
    /* of the ids that are no GPU of the node, at most GPUS_PER_NODE_MAX are kept */
    uint32_t owned_ids;
    const struct atom *const *owned_id; /* ascending */
    /* of distinct GPUs; those of GPUs that are not there are left out; copied */
    uint32_t notes;
    const struct gpu_note *note;
    /* of the version before, to be shared if no name comes or goes; NULL: none */
    const struct name_set *names;
};

struct node *node_new(const struct node_build *build) MUST_USE;

/* The same node with one allocation replaced: before NULL adds, after NULL removes. */
struct node *node_with(const struct node *node, const struct allocation *before,
                       const struct allocation *after) MUST_USE;

/* The same node, of which its pods leave this much CPU and memory. */
struct node *node_with_host(const struct node *node, const struct host *host) MUST_USE;

/* The same node, whose labels match these rules. */
struct node *node_with_rules(const struct node *node, rule_set rules) MUST_USE;

/* The same node, unusable for this reason. */
struct node *node_with_unusable(const struct node *node, struct unusable_cause unusable) MUST_USE;

/* Why a pod with these demands may not use the node. demands NULL: they are not known. */
struct unusable_cause node_bar(const struct node *node, const struct node_demands *demands);

const struct node *node_ref(const struct node *node);
void node_unref(const struct node *node); /* NULL is fine */

const struct gpu *node_gpu(const struct node *node, struct text id); /* by id or alias; or NULL */
const struct allocation *node_allocation(const struct node *node, struct text uid);
const struct gpu_note *node_note_of(const struct node *node, const struct gpu *gpu); /* or NULL */

static inline uint32_t gpu_free(const struct gpu *gpu)
{
    const uint64_t taken = (uint64_t)gpu->used_milli + gpu->reserved_milli;
    return taken < gpu->milli ? gpu->milli - (uint32_t)taken : 0;
}

/* Why this GPU takes no new shares; REASON_NONE if it does. */
enum reason gpu_closed(const struct gpu *gpu);

/*
 * Why no GPU of this node takes new shares: REASON_NO_GPU, REASON_MIXED, REASON_UNPLACED,
 * REASON_PLUGIN or REASON_AGENT; or REASON_NONE.
 */
enum reason node_closed(const struct node *node);

/*
 * Is the agent missing that should vouch for GPUs of this node? Not if it was told to leave, and
 * not if the node has no GPUs or others hand them out.
 */
bool node_misses_agent(const struct node *node);

/* Does its node show it, and report it unhealthy? A GPU that is absent is that, and not sick. */
bool gpu_reported_unhealthy(const struct gpu *gpu);

/*
 * Is the id a real one (not made up by us)? Such a GPU may appear on another node, and then only
 * one of the two may grant it.
 */
bool gpu_id_is_real(const struct atom *id, struct text node);
/* The index in a made-up id; 0 if it has none, or one that exceeds 16 bits. */
uint32_t gpu_id_index(struct text id);

/* Bytewise: the order of names (place.h, rule 4) and of ids. */
int atom_cmp(const struct atom *a, const struct atom *b);

/*
 * An empty node, from a Node object that the ledger does not know (an autoscaler's template). Its
 * atoms belong to the given table. book: whose rules may match it; NULL: none.
 */
struct node *node_from_inventory(const struct inventory *inventory, const struct rulebook *book,
                                 struct names *names) MUST_USE;

/* Could a pod of several GPUs have the node for itself? Not where kube-scheduler places nobody. */
bool node_is_idle(const struct node *node);

/* Does any pod hold a share here, placed or not? */
bool node_has_shares(const struct node *node);

/* Everything that pods hold here, placed or not, including what they hold on GPUs that are gone. */
uint64_t node_held_milli(const struct node *node);

/* Invariant 7. Readers of a snapshot rely on it, because they count no names. */
bool node_holds_names(const struct node *node);

/* Recomputes all the others: an error names the first that is broken, with node, GPU or pod. */
int node_check(const struct node *node, struct err *err) MUST_USE;

#endif
