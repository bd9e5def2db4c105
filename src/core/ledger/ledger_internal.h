/*
 * ledger_internal - what the parts of the ledger share.
 *
 *   ledger.c          the state: apply, undo, look up, publish
 *   ledger_decide.c   what a command would change
 *   ledger_draft.c    the next object of a node
 *   ledger_adopt.c    where a pod goes that was bound without us
 *   ledger_believe.c  which annotations are believed
 *   ledger_restore.c  rows of a database, judged
 *   ledger_policy_context.c  the policy of grants, and what it knows of the cluster
 *   ledger_assert.c   every invariant, recomputed
 */
#ifndef MILLIGPU_CORE_LEDGER_INTERNAL_H
#define MILLIGPU_CORE_LEDGER_INTERNAL_H

#include "milligpu/core/ledger/ledger.h"

#include "core/rank/policy_internal.h"

enum { SLOT_NONE = UINT32_MAX };

/* A missing GPU of a restored node: it waits for the allocations that hold it. */
struct kept_gpu {
    const struct atom *node;
    struct gpu gpu;
};

/* The nodes that show a UUID owned by another node, in the order in which they came to show it. */
struct duplicate_owners {
    const struct atom *id;
    uint32_t *slot;
    size_t count;
    size_t capacity;
};

/*
 * Owned by the writer's thread, without a lock (docs/why/001-one-writer.md). The maps borrow their
 * keys from atoms that nodes hold or, for uids, from the allocation that the entry leads to.
 */
struct ledger {
    struct names *names;
    struct book **book;
    uint32_t books;
    size_t book_capacity;
    uint32_t places;     /* number of slots ever taken: all below it */
    uint32_t *free_slot; /* those of them that are free; taken last in, first out */
    size_t n_free_slots;
    size_t free_slot_capacity;
    struct map slots;  /* node name: slot + 1 */
    struct map live;   /* pod uid: allocation, counted */
    struct map open;   /* pod uid: reserved allocation, borrowed from live */
    struct map owners; /* real GPU id: slot + 1 of the one node that may grant it */
    struct map
        duplicate_owners; /* real GPU id: struct duplicate owners, owned; no entry without a slot */
    uint32_t duplicates;  /* GPUs with that flag, over all nodes */
    /*
     * Ids that several nodes show, and whose owner or duplicate owners changed since they were last
     * checked; references.
     */
    const struct atom **undecided_ids;
    size_t n_undecided;
    size_t undecided_capacity;
    bool room_came; /* since the last publication that held nothing back */
    /* Of the last publication, and of the last one that showed new room. */
    uint64_t generation;
    uint64_t capacity_generation;
    struct slot_index *index;      /* of names, perhaps including some that have left */
    struct slot_index *open_index; /* of uids of reservations, perhaps including ended ones */
    uint64_t indexed;              /* entries ever made, in all of them */
    struct kept_gpu *kept;
    uint32_t n_kept;
    size_t kept_capacity;
    const struct policy_context *context;  /* NULL: binpack */
    rule_set reserving;                    /* rules of the policy context that keep idle hosts */
    const struct tolerations *tolerations; /* of known pods, borrowed; NULL: none */
    struct supply supply;                  /* only where the policy context has prices */
    struct kinds *kinds;                   /* of the policy context's workload; NULL: no prices */
    uint32_t grants;                       /* since the prices were calculated */
};

/* Small numbers as map values, which must not be NULL. */
static inline void *slot_value(uint32_t slot)
{
    return (void *)((uintptr_t)slot + 1); /* NOLINT(performance-no-int-to-ptr) */
}

static inline uint32_t value_slot(const void *value)
{
    return value == NULL ? SLOT_NONE : (uint32_t)((uintptr_t)value - 1);
}

/* SLOT_NONE if there is no such node. */
uint32_t ledger_slot(const struct ledger *ledger, struct text name);
/* NULL also for a slot that was never taken. */
const struct node *ledger_at(const struct ledger *ledger, uint32_t slot);
uint32_t ledger_free_slot(const struct ledger *ledger);

/*
 * ledger_policy_context.c: a new policy context, without nodes at first; their supply; prices for
 * it.
 */
void ledger_start_prices(struct ledger *ledger, const struct policy_context *context);
void ledger_swap_supply(struct ledger *ledger, const struct node *from, const struct node *to);
void ledger_set_prices(struct ledger *ledger);
/* A pod was granted what it asked for. */
void ledger_count_grant(struct ledger *ledger);
/* place_find() by the ledger's policy, and by the rules in request->rules. */
struct cause ledger_place(const struct ledger *ledger, const struct node *node,
                          const struct request *request, struct placement *out) MUST_USE;

/*
 * The next version of a node, under construction. gpu[] holds the GPUs that the node shows and,
 * flagged absent, those that it does not show: of the latter node_new() keeps the ones that a
 * charge names.
 */
struct draft {
    struct node_build build;
    uint32_t slot;
    const struct node *old;                  /* NULL: the node is new */
    struct gpu *gpu;                         /* room for every GPU that may be added */
    struct gpu_note note[GPUS_PER_NODE_MAX]; /* build.note, of a new inventory */
    uint32_t gpus;
    uint32_t capacity;
    const struct labels *labels; /* a reference of its own */
    const struct taints *taints; /* as labels */
    bool moved;   /* indexes are unreliable: an index that a pod holds means another GPU */
    bool another; /* the Node object was replaced: what the former one owned lapses */
    const struct inventory
        *first_owner; /* or NULL: what it shows and nobody holds here is given up */
};

/* Copies all of old, with room for more GPUs. If old is NULL: gone and empty. */
void draft_init(struct draft *draft, const struct node *old, uint32_t slot, uint32_t more);
void draft_done(struct draft *draft);
void draft_forget_gpus(struct draft *draft);
/* Replaces everything that a Node object says. */
void draft_inventory(struct draft *draft, struct ledger *ledger, const struct inventory *inventory);
/* Does the node's agent vouch for it? */
void draft_vouch(struct draft *draft, enum vouch vouch, int64_t at_ms);
/* A GPU that the node does not show and a pod names; its flags say whose it is. */
void draft_absent(struct draft *draft, const struct gpu *gpu);
/*
 * Sets or clears GPU_DUPLICATE and GPU_CONTESTED of the GPUs shown, by the current owners. What
 * elder shows (NULL: nothing) and nobody holds here is given up.
 */
void draft_assign_owner(struct draft *draft, const struct ledger *ledger,
                        const struct inventory *first_owner);
/* With before replaced by after (NULL: added, removed); count 1. NULL: gone and empty. */
struct node *draft_node(struct draft *draft, const struct allocation *before,
                        const struct allocation *after, int64_t at_ms) MUST_USE;

/*
 * Equal in all that a Node object decides and the store keeps; since_ms and the charges are
 * ignored, and so are labels, taints, agent, vouch, host and notes.
 */
bool node_alike(const struct node *a, const struct node *b);
/* Is the same said of the same GPUs? */
bool node_notes_alike(const struct node *a, const struct node *b);
bool node_plugins_alike(const struct node *a, const struct node *b);

/* Where an observed pod goes. NULL if there is nothing to count. Fills *draft's absent GPUs. */
struct allocation *adopt_place(struct ledger *ledger, struct draft *draft,
                               const struct command *command) MUST_USE;
/* ledger_believe.c: is the annotation well-formed, and does it match the spec? */
bool adopt_believes(const struct pod *pod, const struct request *request);
/* Would ADOPT count anything? */
bool adopt_counts(const struct pod *pod, const struct request *request);
/* Does the pod's annotation differ from the allocation? */
bool adopt_differs(const struct node *node, const struct allocation_facts *facts,
                   const struct pod *pod);

#endif
