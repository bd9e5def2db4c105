/*
 * ledger_internal - shared by the files of the ledger.
 *
 *   ledger.c          the state: apply, undo, look up, publish
 *   ledger_decide.c   the changes of a command
 *   ledger_draft.c    the next version of a node
 *   ledger_adopt.c    shares of pods bound without us
 *   ledger_believe.c  which annotations are believed
 *   ledger_restore.c  validates and restores rows of a database
 *   ledger_policy_context.c  the policy of grants, and its totals over the cluster
 *   ledger_assert.c   recomputes every invariant
 */
#ifndef MILLIGPU_CORE_LEDGER_INTERNAL_H
#define MILLIGPU_CORE_LEDGER_INTERNAL_H

#include "milligpu/core/ledger/ledger.h"

#include "core/rank/policy_internal.h"

enum { SLOT_NONE = UINT32_MAX };

/* An absent GPU of a restored node, kept until the allocations that hold it are restored. */
struct kept_gpu {
    uint32_t slot; /* of the node */
    struct gpu gpu;
};

/* The nodes that show a UUID owned by another node, in the order of their first showing. */
struct duplicate_nodes {
    const struct atom *id;
    uint32_t *slot;
    size_t count;
    size_t capacity;
};

/*
 * Owned by the writer thread, without a lock (docs/why/001-one-writer.md). The maps borrow their
 * keys from atoms held by nodes or, for uids, from the allocation of the entry.
 */
struct ledger {
    struct names *names;
    struct book **book;
    uint32_t n_books;
    size_t book_capacity;
    uint32_t places;     /* number of slots ever used; all slots are below it */
    uint32_t *free_slot; /* unused slots below places; a stack */
    size_t n_free_slots;
    size_t free_slot_capacity;
    struct map slots; /* slot + 1, by node name */
    struct map live;  /* allocation (a reference), by pod uid */
    struct map open;  /* open allocation (allocation_is_open()), borrowed from live, by pod uid */
    /* real GPU ids with an owner; the mark of the atom is slot + 1 of the node that may grant it */
    size_t n_owners;
    /* struct duplicate_nodes (owned), by real GPU id; never an empty one */
    struct map duplicate_nodes;
    uint32_t duplicates; /* GPUs with GPU_DUPLICATE on all nodes */
    /*
     * Ids shown by several nodes whose owner or duplicate owners changed since the last check;
     * references.
     */
    const struct atom **undecided_ids;
    size_t n_undecided;
    size_t undecided_capacity;
    bool room_came; /* room was added since the last publication without held back changes */
    /* Generation of the last publication, and of the last one with new room. */
    uint64_t generation;
    uint64_t capacity_generation;
    struct slot_index *index;      /* by node name; may contain removed nodes */
    struct slot_index *open_index; /* by uid of open allocations; may contain ended ones */
    uint64_t indexed;              /* entries ever added to any index */
    struct kept_gpu *kept;         /* by slot, ascending: as the nodes were restored */
    uint32_t n_kept;
    size_t kept_capacity;
    const struct policy_context *context;  /* a reference; NULL: binpack */
    rule_set reserving;                    /* rules of the context with a reserve */
    const struct tolerations *tolerations; /* of known pods, borrowed; NULL: none */
    struct supply supply;                  /* valid only if the context has prices */
    struct kinds *kinds;                   /* of the context's workload, owned; NULL: no prices */
    uint32_t grants;                       /* grants since the last calculation of prices */
    struct score_cache *scores; /* for ledger_place(), owned; NULL: the context needs no workload */
};

static_assert((int)NODES_MAX <= (int)ATOM_MARK_MAX, "a mark is the slot of a node + 1");

/* The slot of the node that may grant the GPU with this id; SLOT_NONE: no node may. */
static inline uint32_t owner_slot(const struct atom *id)
{
    return atom_mark(id) - 1;
}

/* A slot as a map value, which must not be NULL. */
static inline void *slot_value(uint32_t slot)
{
    return (void *)((uintptr_t)slot + 1); /* NOLINT(performance-no-int-to-ptr) */
}

static inline uint32_t value_slot(const void *value)
{
    return value == NULL ? SLOT_NONE : (uint32_t)((uintptr_t)value - 1);
}

/* SLOT_NONE: no such node. */
uint32_t ledger_slot(const struct ledger *ledger, struct text name);
/* NULL: the slot is free or was never used. */
const struct node *ledger_at(const struct ledger *ledger, uint32_t slot);
uint32_t ledger_free_slot(const struct ledger *ledger);
/* ledger_apply() of a row of a database: it gives no room, and is no grant. */
void ledger_put_row(struct ledger *ledger, const struct change *change);

/*
 * ledger_policy_context.c: sets the context, with an empty supply; replaces a node in the supply
 * and in the idle host counts; calculates the prices.
 */
void ledger_start_prices(struct ledger *ledger, const struct policy_context *context);
void ledger_swap_supply(struct ledger *ledger, const struct node *from, const struct node *to);
void ledger_set_prices(struct ledger *ledger);
/* Counts a grant; recalculates the prices after every PRICE_EVERY grants. */
void ledger_count_grant(struct ledger *ledger);
/* place_find() under the ledger's policy and request->rules. */
struct cause ledger_place(const struct ledger *ledger, const struct node *node,
                          const struct request *request, struct placement *out) MUST_USE;

enum { DRAFT_GPUS_FEW = 32 }; /* of a node of 16 and its new inventory */

/*
 * The next version of a node, under construction. gpu[] holds the GPUs shown by the node and absent
 * ones (flagged), of which node_new() keeps those with a charge. Never copied: gpu may be few.
 */
struct draft {
    struct node_build build;
    uint32_t slot;
    const struct node *old;         /* NULL: the node is new */
    struct gpu *gpu;                /* few, or owned; capacity for every GPU that may be added */
    struct gpu few[DRAFT_GPUS_FEW]; /* storage of gpu for most nodes */
    struct gpu_note note[GPUS_PER_NODE_MAX]; /* storage of build.note for a new inventory */
    uint32_t n_gpus;
    uint32_t capacity;
    const struct labels *labels; /* a reference */
    const struct taints *taints; /* a reference */
    bool moved;   /* indexes are unreliable: an index held by a pod refers to another GPU */
    bool another; /* the Node object was replaced: claims of the former one lapse */
    /* UUIDs in this inventory that no pod holds here are given up; borrowed; NULL: none */
    const struct inventory *first_owner;
};

/* Copies old, with capacity for `more` GPUs. old NULL: a gone and empty node. */
void draft_init(struct draft *draft, const struct node *old, uint32_t slot, uint32_t more);
void draft_done(struct draft *draft);
void draft_forget_gpus(struct draft *draft);
/* Replaces all facts of the Node object. */
void draft_inventory(struct draft *draft, struct ledger *ledger, const struct inventory *inventory);
/* Sets whether the node's agent vouches for its GPUs. */
void draft_vouch(struct draft *draft, enum vouch vouch, int64_t at_ms);
/* Adds a GPU that a pod names and the node does not show; keeps its GPU_DUPLICATE flag. */
void draft_absent(struct draft *draft, const struct gpu *gpu);
/*
 * Sets or clears GPU_DUPLICATE and GPU_CONTESTED of the GPUs shown, by the current owners. UUIDs in
 * first_owner (may be NULL) that no pod holds here are given up.
 */
void draft_assign_owner(struct draft *draft, const struct ledger *ledger,
                        const struct inventory *first_owner);
/*
 * The new node, one reference, with before replaced by after (NULL: added, removed). NULL: gone and
 * empty.
 */
struct node *draft_node(struct draft *draft, const struct allocation *before,
                        const struct allocation *after, int64_t at_ms) MUST_USE;

/*
 * Equal in all stored facts of a Node object; ignores since_ms, charges, labels, taints, agent,
 * vouch, host and notes.
 */
bool node_alike(const struct node *a, const struct node *b);
/* Equal notes for the same GPUs. */
bool node_notes_alike(const struct node *a, const struct node *b);
bool node_plugins_alike(const struct node *a, const struct node *b);

/*
 * The allocation of an observed pod; NULL if there is nothing to count. Adds absent GPUs to *draft.
 */
struct allocation *adopt_place(struct ledger *ledger, struct draft *draft,
                               const struct command *command) MUST_USE;
/* ledger_believe.c: is the annotation well-formed, and does it match the spec? */
bool adopt_believes(const struct pod *pod, const struct request *request);
/* Does the pod hold anything that ADOPT counts? */
bool adopt_counts(const struct pod *pod, const struct request *request);
/* Does the pod's annotation differ from the allocation? */
bool adopt_differs(const struct node *node, const struct allocation_facts *facts,
                   const struct pod *pod);

#endif
