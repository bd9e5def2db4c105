/*
 * node - one node: its GPUs, the charges of its pods, and the free room.
 *
 *      inventory (what the Node object shows)      allocations (what its pods hold)
 *                      \                              /
 *                       node_new(): recomputed from scratch
 *                                    |
 *   GPU 0 [bound......|reserved..|......free......] milli        immutable, reference-counted
 *
 * Every change of a node makes a new node object; sums are never updated in place, so they cannot
 * drift. With 8 GPUs and 30 pods this takes about a microsecond.
 *
 * Invariants (7: node_holds_names(); the others: node_check()):
 *   1. used_milli, reserved_milli and used_mib of a GPU are the sums over the charges that name it
 *      by id or by alias; used + reserved <= milli unless some charge there is adopted, or the GPU
 *      shrank.
 *   2. A GPU that is charged never disappears: it stays, flagged absent.
 *   3. GPUs are in ascending order of (absent, index, id); ids are distinct.
 *   4. owned_id is ascending, contains no GPU of the node, and is empty if the node is gone.
 *   5. Peers are peers of each other, and are among the first GPUS_PER_NODE_MAX GPUs.
 *   6. note[] names present GPUs, each once. GPU_HELD is set if a note names a holder, except for a
 *      HOLD_VARIABLE whose pod requests no whole GPUs. unnamed_gpus counts the whole GPUs of the
 *      other resource that pods hold beyond the GPUs noted for them.
 *   7. names holds name, uid, problem_text, the atoms of the GPUs and owned_id, and nothing else.
 *   8. While pods hold a made-up id that no GPU has as id or alias, each GPU that it could mean is
 *      flagged unsure.
 *   9. An alias "<node>/gpu-<index>" is a number, any other an atom (struct gpu).
 */
#ifndef MILLIGPU_NODE_H
#define MILLIGPU_NODE_H

#include "milligpu/base/err.h"
#include "milligpu/base/limits.h"
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
    /* the UUID is owned by another node, or absent and named by annotations only: no grants */
    GPU_DUPLICATE = 1 << 3,
    GPU_OVER = 1 << 4, /* charged beyond its milli or MiB: no grants, drift */
    /* owned by this node, but another node shows the UUID too: drift; recomputed, never stored */
    GPU_CONTESTED = 1 << 5,
    /* indexes moved, and a pod may hold this GPU by its index: no grants; recomputed */
    GPU_UNSURE = 1 << 6,
    /* held whole by something other than our shares: no grants; recomputed, never stored */
    GPU_HELD = 1 << 7,
};

/* Holder and fault of a GPU from the Node (inventory.h), at least one set; never stored. */
struct gpu_note {
    const struct atom *gpu;
    const char *held; /* holder of the whole GPU, a word of hold_kind(); NULL: none */
    const char *ill;  /* why and since when it is unhealthy; NULL: healthy, or no reason given */
};

struct gpu {
    const struct atom *id;
    /*
     * The second name, one name per GPU. For a UUID as id: "<node>/gpu-<index>"; none if indexes
     * moved and the former one is unknown. For "<node>/gpu-<index>" as id: the UUID in the
     * annotations of pods that hold this GPU, until the last of them is gone.
     *
     * "<node>/gpu-<n>" is not interned: alias_number is n + 1. Any other is alias. NULL and 0:
     * none. Read and set it by the functions below, of gpu_alias.c.
     */
    const struct atom *alias;
    const struct atom *model; /* never NULL; empty: unknown */
    uint32_t milli;
    uint32_t mib;
    uint32_t used_milli;     /* of bound pods, adopted ones included */
    uint32_t reserved_milli; /* of pods not bound yet */
    uint32_t used_mib;       /* of bound and reserved pods */
    uint16_t index;
    uint16_t charges; /* pods that hold a share of it */
    int16_t numa;     /* NUMA node; -1: unknown */
    uint16_t flags;   /* enum gpu_flag */
    uint32_t alias_number;
    uint64_t peers; /* bit i: linked by NVLink to GPU i of the node; never to itself */
};

struct node {
    atomic_uint refs;
    /* Fields that each filter call reads come first: large clusters are bound by memory latency. */
    uint32_t n_gpus;
    const struct atom *name;
    rule_set rules; /* rules of the policy that match the labels (rulebook.h) */
    struct gpu *gpu;
    uint32_t free_milli; /* of GPUs that take new shares */
    const struct atom *uid;
    enum inventory_source source;
    enum inventory_problem problem;
    const struct atom *problem_text; /* as in struct inventory */
    bool gone;                       /* the Node object is gone; pods still hold its GPUs */
    bool agent;                      /* its Bindings name milligpu-node (inventory.h); not stored */
    struct plugin_report plugin;     /* NONE, UP or DOWN; not stored */
    enum vouch vouch;                /* agents.h; not stored */
    int64_t vouch_ms;                /* UTC time of the last change of vouch; not stored */
    uint32_t held_gpus;              /* whole GPUs of the other resource held by pods */
    uint32_t unnamed_gpus;           /* unidentified GPUs among held_gpus; if any, no new shares */
    uint32_t unplaced_milli;         /* adopted, not assigned to a GPU; if any, no new shares */
    bool host_known;                 /* false: host is unknown */
    struct host host;                /* free CPU and memory (ledger_set_host()) */
    const struct labels *labels;     /* a reference; NULL: none, or not shown yet */
    const struct taints *taints;     /* a reference; NULL: none; not stored */
    struct unusable_cause unusable;  /* for sums and the reserve (taints_close()); not stored */
    int64_t since_ms;                /* UTC time of the last change of problem, gone or GPU flags */
    uint32_t n_allocations;
    uint32_t n_owned_ids;
    const struct allocation **allocation; /* references; ascending uid */
    const struct atom **owned_id;         /* UUIDs that this Node owns and does not show now */
    uint32_t n_notes;
    struct gpu_note *note;        /* not stored */
    const struct name_set *names; /* a reference; holds the atoms above (invariant 7) */
};

/*
 * The input of node_new(): the inventory as atoms. A GPU flagged ABSENT is kept while it is
 * charged, and replaced by a present GPU with the same id or alias. A charge on a GPU that is not
 * listed adds an absent GPU of 0 milli, because its size is unknown.
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
    const struct labels *labels;    /* borrowed: the node takes its own reference */
    const struct taints *taints;    /* borrowed: the node takes its own reference */
    struct unusable_cause unusable; /* its taint is one of taints, or constant */
    rule_set rules;
    int64_t since_ms;
    uint32_t n_gpus;
    /* without the sums of charges and the flags OVER and UNSURE; peers refer to this order */
    const struct gpu *gpu;
    uint32_t n_allocations;
    const struct allocation *const *allocation;
    /* ids that are no GPU of the node; at most GPUS_PER_NODE_MAX are kept */
    uint32_t n_owned_ids;
    const struct atom *const *owned_id; /* ascending */
    /* of distinct GPUs; copied, except notes of GPUs that are not present */
    uint32_t n_notes;
    const struct gpu_note *note;
    /* of the previous version, shared if no name changes; borrowed; NULL: none */
    const struct name_set *names;
};

struct node *node_new(const struct node_build *build) MUST_USE;

/* The node with one allocation replaced: before NULL adds, after NULL removes. */
struct node *node_with(const struct node *node, const struct allocation *before,
                       const struct allocation *after) MUST_USE;

/* The node with this free CPU and memory. */
struct node *node_with_host(const struct node *node, const struct host *host) MUST_USE;

/* The node with these matching rules. */
struct node *node_with_rules(const struct node *node, rule_set rules) MUST_USE;

/* The node with this cause of being unusable. */
struct node *node_with_unusable(const struct node *node, struct unusable_cause unusable) MUST_USE;

/* Why a pod with these demands cannot use the node. demands NULL: unknown. */
struct unusable_cause node_bar(const struct node *node, const struct node_demands *demands);

const struct node *node_ref(const struct node *node);
void node_unref(const struct node *node); /* NULL is fine */

/*
 * The GPU with this id, or else the one with this alias; NULL: none. gpu_of_charge() compares ids
 * by address. gpu_of_text() compares texts, because a name may be from outside.
 */
const struct gpu *gpu_of_charge(const struct gpu *gpu, uint32_t gpus, const struct atom *node,
                                const struct atom *name);
const struct gpu *gpu_of_text(const struct gpu *gpu, uint32_t gpus, const struct atom *node,
                              struct text name);
const struct gpu *node_gpu(const struct node *node, struct text id); /* as gpu_of_text() */
const struct allocation *node_allocation(const struct node *node, struct text uid);
const struct gpu_note *node_note_of(const struct node *node, const struct gpu *gpu); /* or NULL */

/* The first GPUs: absent ones come last, and those beyond the limit take no shares. */
static inline uint32_t node_room_gpus(const struct node *node)
{
    return node->n_gpus < GPUS_PER_NODE_MAX ? node->n_gpus : GPUS_PER_NODE_MAX;
}

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
 * Does the node lack a vouching agent? False while its agent is leaving, and if it has no GPUs or
 * is excluded.
 */
bool node_misses_agent(const struct node *node);

/* Is it present and reported unhealthy? An absent GPU does not count. */
bool gpu_reported_unhealthy(const struct gpu *gpu);

/*
 * Is the id a real one, not made up by us? A GPU with a real id may appear on two nodes; then only
 * one of them may grant it.
 */
bool gpu_id_is_real(const struct atom *id, struct text node);
/* Returns the index in a made-up id; 0 if there is none, or it exceeds 16 bits. */
uint32_t gpu_id_index(struct text id);

/* Room for "<node>/gpu-65535" with its NUL. */
enum { GPU_ALIAS_BYTES = NAME_BYTES_MAX + sizeof "/gpu-65535" };

static inline bool gpu_has_alias(const struct gpu *gpu)
{
    return gpu->alias != NULL || gpu->alias_number > 0;
}

/* Have two GPUs of one node the same alias, or none? */
static inline bool gpu_alias_same(const struct gpu *a, const struct gpu *b)
{
    return a->alias == b->alias && a->alias_number == b->alias_number;
}

/* The alias of a GPU of this node, made in the buffer or borrowed from the GPU; NULL: none. */
const char *gpu_alias(const struct gpu *gpu, const struct atom *node, char buffer[GPU_ALIAS_BYTES]);
/* Interns the alias only if it is not "<node>/gpu-<index>". */
void gpu_set_alias(struct gpu *gpu, const struct atom *node, struct text alias,
                   struct names *names);
void gpu_copy_alias(struct gpu *to, const struct gpu *from); /* from a GPU of the same node */
void gpu_drop_alias(struct gpu *gpu);
/* Is it a number if it can be one, and not both (invariant 9)? */
bool gpu_alias_sound(const struct gpu *gpu, const struct atom *node);
/* The alias_number for this name; 0: the name is not "<node>/gpu-<index>", exactly as written. */
uint32_t gpu_alias_number(const struct atom *node, struct text name);

/* Most names are UUIDs, and nearly all of these have another length than an alias of the node. */
static inline bool gpu_alias_is(const struct gpu *gpu, const struct atom *node, struct text name)
{
    if (gpu->alias_number > 0)
        return name.len - node->len - sizeof "/gpu-" < 5 &&
               gpu_alias_number(node, name) == gpu->alias_number;
    return gpu->alias != NULL && text_eq(atom_text(gpu->alias), name);
}

/* Bytewise: the order of names (place.h, rule 4) and of ids. */
int atom_cmp(const struct atom *a, const struct atom *b);

/*
 * Returns an empty node for a Node object outside the ledger (an autoscaler's template). Its atoms
 * are from the given table. book: rules to match; NULL: none.
 */
struct node *node_from_inventory(const struct inventory *inventory, const struct rulebook *book,
                                 struct names *names) MUST_USE;

/* Could a pod of several GPUs have the node for itself? False if the node is unusable. */
bool node_is_idle(const struct node *node);

/* Does any pod hold a share here, placed or not? */
bool node_has_shares(const struct node *node);

/* The milli held by pods here, unplaced amounts and absent GPUs included. */
uint64_t node_held_milli(const struct node *node);

/* Checks invariant 7, on which snapshot readers rely: they take no references to names. */
bool node_holds_names(const struct node *node);

/* Checks all other invariants: an error names the first violation, with node, GPU or pod. */
int node_check(const struct node *node, struct err *err) MUST_USE;

#endif
