/*
 * node - one node: its GPUs, who holds what on them, what is left.
 *
 *      inventory (what the Node object shows)      allocations (who lives there)
 *                      \                              /
 *                       node_new(): recomputed from nothing
 *                                    |
 *   GPU 0 [bound......|reserved..|......free......] milli        immutable, counted
 *
 * Every change of a node makes a new node object; nothing is added or subtracted in
 * place, so nothing can drift.  At 8 GPUs and 30 pods that is about a microsecond.
 *
 * Invariants (node_check):
 *   1. used_milli, reserved_milli and used_mib of a GPU are the sums over the charges that name it
 *      by id or by alias; used + reserved <= milli unless some charge there is observed, or the
 *      GPU shrank.
 *   2. A GPU that is charged never disappears: it stays, absent.
 *   3. GPUs are in ascending order of (absent, index, id); ids are distinct.
 *   4. A node that is gone claims nothing; claims are in ascending order, and none is a GPU here.
 *   5. While pods hold a made-up name that no GPU here goes by, each that could be it is unsure.
 */
#ifndef MILLIGPU_NODE_H
#define MILLIGPU_NODE_H

#include "milligpu/allocation.h"
#include "milligpu/err.h"
#include "milligpu/inventory.h"

enum gpu_flag {
    GPU_ABSENT = 1 << 0, /* charged, but not in the inventory */
    GPU_UNHEALTHY = 1 << 1,
    GPU_CORDONED = 1 << 2,
    GPU_DUPLICATE = 1 << 3, /* the UUID is not this node's: another showed it first, or, of an
                               absent one, none but an annotation names it.  No grants here */
    GPU_OVER = 1 << 4,      /* charged beyond its milli or MiB: no grants, drift */
    GPU_CONTESTED = 1 << 5, /* another node shows this UUID, too; this one was the first: drift.
                               Not kept by the store: the ledger finds it anew */
    GPU_UNSURE = 1 << 6,    /* indexes moved, and a pod holds an index: maybe this GPU.  No
                               grants; counted anew with each change of the node */
};

struct gpu {
    const struct atom *id;
    const struct atom
        *alias; /* "<node>/gpu-<index>"; where that is the id, the UUID by which a pod's
                                 annotation knows the index; NULL: it has no second name (a UUID:
                                 indexes moved, and which index it was is not known) */
    const struct atom *model; /* never NULL; empty when not known */
    uint32_t milli;
    uint32_t mib;
    uint32_t used_milli;     /* bound and observed */
    uint32_t reserved_milli; /* reserved, not bound yet */
    uint32_t used_mib;       /* both */
    uint16_t index;
    uint16_t charges; /* pods that hold a part of it */
    int16_t numa;
    uint16_t flags; /* enum gpu_flag */
};

struct node {
    atomic_uint refs;
    const struct atom *name;
    const struct atom *uid;
    enum inventory_source source;
    enum inventory_problem problem;
    const struct atom *problem_text;
    bool gone;               /* the Node object is gone; pods still hold its GPUs */
    uint32_t held_gpus;      /* whole GPUs held by pods of another resource: mixed if also shares */
    uint32_t unplaced_milli; /* observed, no GPU named: no new shares */
    uint32_t free_milli;     /* of GPUs that take new shares */
    int64_t since_ms;        /* when problem, gone, or the GPUs' flags last changed */
    uint32_t gpus;
    uint32_t allocations;
    uint32_t owned_ids;
    struct gpu *gpu;
    const struct allocation **allocation; /* counted; ascending uid */
    const struct atom **owned_id; /* UUIDs that this Node showed first and does not show now */
};

/*
 * What to build a node from: the inventory as atoms.  A GPU flagged ABSENT is kept while it is
 * charged, and yields to one that is there under the same id or alias.  A charge whose GPU is not
 * named here makes an absent GPU of 0 milli: its size is not known.
 */
struct node_build {
    const struct atom *name;
    const struct atom *uid;
    enum inventory_source source;
    enum inventory_problem problem;
    const struct atom *problem_text;
    bool gone;
    int64_t since_ms;
    uint32_t gpus;
    /* everything except what is counted; any flag except OVER and UNSURE */
    const struct gpu *gpu;
    uint32_t allocations;
    const struct allocation *const *allocation;
    uint32_t
        /* at most GPUS_PER_NODE_MAX ids that are no GPU of the node are kept */
        owned_ids;
    const struct atom *const *owned_id; /* ascending */
};

struct node *node_new(const struct node_build *build) MUST_USE;

/* The same node with one allocation replaced: before NULL adds, after NULL removes. */
struct node *node_with(const struct node *node, const struct allocation *before,
                       const struct allocation *after) MUST_USE;

const struct node *node_ref(const struct node *node);
void node_unref(const struct node *node); /* NULL is fine */

const struct gpu *node_gpu(const struct node *node, struct text id); /* by id or alias; NULL */
const struct allocation *node_allocation(const struct node *node, struct text uid);

static inline uint32_t gpu_free(const struct gpu *gpu)
{
    const uint64_t taken = (uint64_t)gpu->used_milli + gpu->reserved_milli;
    return taken < gpu->milli ? gpu->milli - (uint32_t)taken : 0;
}

/* Why this GPU takes no new shares; REASON_NONE if it does. */
enum reason gpu_closed(const struct gpu *gpu);

/*
 * Why no GPU of this node takes any: REASON_NO_GPU, REASON_MIXED, REASON_UNPLACED; or REASON_NONE.
 */
enum reason node_closed(const struct node *node);

/*
 * Is the id a real one (not made up by us)? Such a GPU may appear on another node, and then only
 * one of the two may grant it.
 */
bool gpu_id_is_real(const struct atom *id, struct text node);
/* The index in a made-up id; 0 if there is none that a GPU can have (16 bits). */
uint32_t gpu_id_index(struct text id);

/* Bytewise: the order of names (place.h, rule 4) and of ids. */
int atom_cmp(const struct atom *a, const struct atom *b);

/*
 * An empty node, from a Node object that the ledger does not know (an autoscaler's template). Its
 * atoms belong to the given table.
 */
struct node *node_from_inventory(const struct inventory *inventory, struct names *names) MUST_USE;

/* Does any pod hold a share here, placed or not? */
bool node_has_shares(const struct node *node);

/* Everything that pods hold here, placed or not, including GPUs that are gone. */
uint64_t node_held_milli(const struct node *node);

/* Recomputes every invariant: an error names the first that is broken, with node, GPU or pod. */
int node_check(const struct node *node, struct err *err) MUST_USE;
/* The same, but aborts. */
void node_assert_valid(const struct node *node);

#endif
