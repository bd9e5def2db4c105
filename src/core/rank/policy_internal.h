/*
 * policy_internal - what the files of policy share.
 *
 *   workload.c        classes, typical shapes, sequences
 *   remaining.c            what a node has left, as fgd and rollout look at it
 *   sigmoid.c         whole scores of a difference
 *   policy_kind.c     the table of the policies
 *   policy_fgd.c      fragmentation of a node
 *   fragment.c        the same for each GPU, for people
 *   policy_rollout.c  idle GPU that a node is expected to end with
 *   scarcity.c        places for pods of several GPUs, and their prices
 *   policy_context.c         policy contexts
 *   policy.c          the rules: best placement of a node, order of nodes
 *   score.c        fgd and rollout: the placements of a node, one by one (score_cache.h)
 *   score_cache.c           what was judged before
 */
#ifndef MILLIGPU_CORE_POLICY_INTERNAL_H
#define MILLIGPU_CORE_POLICY_INTERNAL_H

#include "milligpu/core/rank/policy.h"

/*
 * GPUs that are alike for every class: which classes may lie there at all, by model, size and
 * memory.
 */
struct gpu_kind {
    const struct atom *model; /* in struct kinds: a reference */
    uint32_t milli;
    uint32_t mib;
    uint64_t allowed_classes[WORKLOAD_WORDS]; /* bit c: a part of class c may lie here */
};

/* Fills takes[] for the model, milli and mib that are set. */
void gpu_kind_make(const struct workload *workload, struct gpu_kind *kind);

static inline bool gpu_kind_takes(const struct gpu_kind *kind, uint32_t class)
{
    return (kind->allowed_classes[class / 64] >> class % 64 & 1) != 0;
}

/*
 * What is left on the GPUs of a node that take shares, and of its host. A host amount that is not
 * known is HOST_UNKNOWN and never runs out.
 */
struct remaining {
    struct host host;
    uint32_t gpus;
    uint32_t free_milli;  /* of all these GPUs */
    uint32_t total_milli; /* that they have, used or not */
    uint16_t free[GPUS_PER_NODE_MAX];
    uint8_t kind[GPUS_PER_NODE_MAX]; /* index into kinds */
    uint8_t gpu[GPUS_PER_NODE_MAX];  /* index into room.gpu */
    const struct gpu_kind *kinds;    /* borrowed */
};

/* May a part of this shape lie on the GPU with this place in the rest? */
static inline bool remaining_takes(const struct remaining *remaining, uint32_t at,
                                   const struct workload_typical *shape)
{
    return remaining->free[at] >= shape->milli &&
           gpu_kind_takes(&remaining->kinds[remaining->kind[at]], shape->class);
}

/* The kinds of one workload, each made once. A room may have at most GPUS_PER_NODE_MAX of them. */
enum { KINDS_MAX = 4 * GPUS_PER_NODE_MAX };
struct kinds {
    const struct workload *workload;
    uint32_t count;
    struct gpu_kind kind[KINDS_MAX];
};

void kinds_init(struct kinds *kinds, const struct workload *workload);
void kinds_done(struct kinds *kinds);
/* For CLEANUP(kinds_freep): kinds from xmalloc(), or NULL. */
void kinds_freep(struct kinds **kinds);

/* If the kinds are full, they are forgotten first: indexes of earlier rests are then void. */
void remaining_of(const struct room *room, struct kinds *kinds, struct remaining *out);

/*
 * Takes what the pod of this request takes on each GPU of its placement, and on the host. A part on
 * a GPU that is not in the rest is a bug.
 */
void remaining_take(struct remaining *remaining, const struct request *request,
                    const struct placement *placement);

/* What is left of it, at least nothing; an unknown amount stays unknown. */
static inline uint32_t host_less(uint32_t free, uint32_t amount)
{
    if (free == HOST_UNKNOWN)
        return free;
    return amount < free ? free - amount : 0;
}

/*
 * A policy, as functions: either the numbers of a placement decide, or what it leaves of the node.
 * The rules are those of policy.h.
 */
struct policy {
    const char *name;
    const char *help;
    bool shuffles;            /* rule 4: nodes in node order, not by name */
    enum place_choice choice; /* by numbers: which of the placements of a node */
    /* By numbers: writes key[] of a rank without keys. NULL: the first placement is the best. */
    void (*keys)(struct rank *rank);
    /*
     * By what is left: how much of it is wasted. *work grows by what it took, in ns or so, always
     * the same. NULL: numbers decide. cache may be NULL.
     */
    uint64_t (*waste)(struct score_cache *cache, const struct workload *workload,
                      const struct remaining *remaining, uint64_t *work);
    /* Merit without prices of a placement that lowers the waste by so much, and leaves this. */
    int64_t (*score)(const struct workload *workload, int64_t by, const struct remaining *after);
    bool prices_places; /* a placement pays for the places of scarce classes that it takes */
};

#define X(code, word, served) extern const struct policy policy_##word;
POLICY_TABLE(X)
#undef X
extern const struct policy *const policy_table[POLICIES]; /* policy_kind.c */

static inline const struct policy *policy_of(enum policy_kind kind)
{
    must((size_t)kind < POLICIES);
    return policy_table[kind];
}

/* Rule 4 of the policy; 0: by name alone. */
uint32_t policy_node_order(const struct policy_context *context, const struct policy *policy,
                           const struct atom *name);

/* floor(100 sigmoid(by / of / 1000)), 0 .. 99. |by| <= 2^40, 0 < of <= 2^24. */
uint32_t sigmoid_score(int64_t by, uint64_t of);

/* Thousandths of that, and 0 if of is 0: an empty workload has an opinion about nothing. */
static inline int64_t sigmoid_merit(int64_t by, uint64_t of)
{
    return of == 0 ? 0 : 1000 * (int64_t)sigmoid_score(by, of);
}

/* policy_fgd.c: F(rest) in milli, times workload->typical_count. */
uint64_t fgd_fragment(const struct workload *workload, const struct remaining *remaining);
/* fragment.c: the same for each GPU of the rest. */
void fragments_of_remaining(const struct workload *workload, const struct remaining *remaining,
                            uint64_t sum[GPUS_PER_NODE_MAX]);

/*
 * policy_rollout.c: W(rest) in milli, times WORKLOAD_SEQUENCES: the free milli that are left when
 * the pods of each sequence have come, those that fit, each part on the tightest GPU. Every pod
 * also takes its CPU and memory. *work grows by what it took, in ns or so, always the same.
 */
uint64_t rollout_idle(const struct workload *workload, const struct remaining *remaining,
                      uint64_t *work);

/*
 * scarcity.c: how many pods of each scarce class fit on the rest, counted as: GPUs with room for a
 * part, divided by the parts; CPU and memory divided by the pod's.
 */
struct class_capacity {
    uint16_t count[WORKLOAD_SCARCE_MAX];
};
void class_capacity_of(const struct workload *workload, const struct remaining *remaining,
                       struct class_capacity *out);

/* The whole cluster. */
struct supply {
    uint64_t slots[WORKLOAD_SCARCE_MAX];
    uint64_t free_milli; /* on GPUs that take shares */
    uint32_t nodes;      /* with GPUs */
};
/* Fills price[0 .. scarces - 1]; the formula is in policy.h. */
void scarcity_prices(const struct workload *workload, const struct supply *supply, int64_t *price);

#endif
