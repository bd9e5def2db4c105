/*
 * ledger_internal - what the parts of the ledger share.
 *
 *   ledger.c          the state: apply, undo, look up, publish
 *   ledger_decide.c   what a command would change
 *   ledger_draft.c    the next object of a node
 *   ledger_adopt.c    where a pod goes that was bound without us
 *   ledger_believe.c  which annotations are believed
 *   ledger_restore.c  rows of a database, judged
 *   ledger_assert.c   every invariant, recomputed
 */
#ifndef MILLIGPU_CORE_LEDGER_INTERNAL_H
#define MILLIGPU_CORE_LEDGER_INTERNAL_H

#include "milligpu/ledger.h"

enum { SLOT_NONE = UINT32_MAX };

/* A missing GPU of a restored node: it waits for the allocations that hold it. */
struct kept_gpu {
    const struct atom *node;
    struct gpu gpu;
};

/* The nodes that show a UUID which is another's, in the order in which they came to show it. */
struct rivals {
    const struct atom *id;
    uint32_t *slot;
    size_t count;
    size_t capacity;
};

struct ledger {
    struct names *names;
    struct book **book;
    uint32_t books;
    size_t book_capacity;
    uint32_t places;     /* slots that were ever taken: all below */
    uint32_t *free_slot; /* of those, the free ones: the last is taken first */
    size_t frees;
    size_t free_capacity;
    struct map slots;    /* node name: slot + 1 */
    struct map live;     /* pod uid: allocation, counted */
    struct map open;     /* pod uid: allocation that is reserved, borrowed from live */
    struct map owners;   /* real GPU id: slot + 1 of the one node that may grant it */
    struct map rivals;   /* real GPU id: struct rivals, owned; none without a slot */
    uint32_t duplicates; /* GPUs with that flag, over all nodes */
    /* Ids that several nodes show, and whose owner or rivals changed since they were looked at. */
    const struct atom **undecided_ids;
    size_t undecided_count;
    size_t undecided_capacity;
    bool room_came; /* since the last publication that held nothing back */
    uint64_t generation;
    uint64_t capacity_generation;
    struct slot_index *index;      /* of names, and maybe of some that have left */
    struct slot_index *open_index; /* of the uids of reservations, and maybe of some that ended */
    uint64_t indexed;              /* entries that were ever made, in all of them */
    struct kept_gpu *kept;
    uint32_t kepts;
    size_t kept_capacity;
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
 * The next object of a node, in the making.  gpu[] holds what the node shows and, flagged absent,
 * what it does not: node_new() keeps of those what a charge names.
 */
struct draft {
    struct node_build build;
    uint32_t slot;
    const struct node *old; /* NULL: the node is new */
    struct gpu *gpu;        /* room for every GPU that can end up here */
    uint32_t gpus;
    uint32_t capacity;
    bool moved;   /* indexes say nothing: a GPU whose index a pod holds shows another one now */
    bool another; /* the Node object is another one than before: what that one claimed lapses */
    const struct inventory *elder; /* what it shows is claimed here no more; NULL */
};

/* All as old is, with room for more GPUs.  Old may be NULL: gone and empty then. */
void draft_init(struct draft *draft, const struct node *old, uint32_t slot, uint32_t more);
void draft_done(struct draft *draft);
void draft_forget_gpus(struct draft *draft);
/* Replace all that a Node object says. */
void draft_inventory(struct draft *draft, struct ledger *ledger, const struct inventory *inventory);
/* A GPU that the node does not show and a pod names; whose it is its flags say. */
void draft_absent(struct draft *draft, const struct gpu *gpu);
/*
 * Set or clear GPU_DUPLICATE and GPU_CONTESTED of what is shown, by who owns what now.  What elder
 * shows (NULL: nothing) and nobody holds here is given up.
 */
void draft_assign_owner(struct draft *draft, const struct ledger *ledger,
                        const struct inventory *elder);
/* With before replaced by after (NULL: added, removed); count 1.  NULL: gone and empty. */
struct node *draft_node(struct draft *draft, const struct allocation *before,
                        const struct allocation *after, int64_t at_ms) MUST_USE;

/* Alike in all that a Node object decides; since_ms and what is charged are left out. */
bool node_alike(const struct node *a, const struct node *b);

/* Where an observed pod goes.  Nothing to count: NULL.  Fills *draft's absent GPUs. */
struct allocation *adopt_place(struct ledger *ledger, struct draft *draft,
                               const struct command *command) MUST_USE;
/* ledger_believe.c: is the annotation well-formed and equal to what the spec asks? */
bool adopt_believes(const struct pod *pod, const struct request *request);
/* Would ADOPT count anything? */
bool adopt_counts(const struct pod *pod, const struct request *request);
/* Is what the pod's annotation says something else than what the allocation has? */
bool adopt_differs(const struct node *node, const struct allocation_facts *is,
                   const struct pod *pod);

#endif
