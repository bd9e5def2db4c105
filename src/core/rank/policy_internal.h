/*
 * policy_internal - shared by the files of policy, and by ledger_internal.h.
 *
 *   remaining.c       free capacity of a node, as fgd and rollout use it
 *   sigmoid.c         integer scores of a difference
 *   policy_kind.c     the table of the policies
 *   policy_fgd.c      fragmentation of a node
 *   fragment.c        the same for each GPU, for people
 *   policy_rollout.c  idle GPU capacity that a node is expected to end with
 *   scarcity.c        places for pods of several GPUs, and their prices
 *   policy.c          the rules: best placement of a node, order of nodes
 *   score.c           fgd and rollout: the placements of a node, one by one (score_cache.h)
 *   score_cache.c     cached scores
 */
#ifndef MILLIGPU_CORE_POLICY_INTERNAL_H
#define MILLIGPU_CORE_POLICY_INTERNAL_H

#include "milligpu/core/rank/policy.h"

/* GPUs that every class treats alike: the classes that may lie there, by model, size and memory. */
struct gpu_kind {
    const struct atom *model; /* a reference if part of struct kinds */
    uint32_t milli;
    uint32_t mib;
    uint64_t allowed_classes[WORKLOAD_WORDS]; /* bit c: a part of class c may lie here */
};

/* Fills allowed_classes[] from the model, milli and mib that are set. */
void gpu_kind_make(const struct workload *workload, struct gpu_kind *kind);

static inline bool gpu_kind_takes(const struct gpu_kind *kind, uint32_t class)
{
    return (kind->allowed_classes[class / 64] >> class % 64 & 1) != 0;
}

/*
 * Free capacity of a node: its open GPUs, and its host. An unknown host amount is HOST_UNKNOWN and
 * never runs out.
 */
struct remaining {
    struct host host;
    uint32_t n_gpus;
    uint32_t free_milli;  /* total of these GPUs */
    uint32_t total_milli; /* capacity of these GPUs, used or not */
    uint16_t free[GPUS_PER_NODE_MAX];
    uint8_t kind[GPUS_PER_NODE_MAX]; /* index into kinds */
    uint8_t gpu[GPUS_PER_NODE_MAX];  /* index into room.gpu */
    const struct gpu_kind *kinds;    /* borrowed */
};

/* Can a part of this shape lie on the GPU at this index? */
static inline bool remaining_takes(const struct remaining *remaining, uint32_t at,
                                   const struct workload_typical *shape)
{
    return remaining->free[at] >= shape->milli &&
           gpu_kind_takes(&remaining->kinds[remaining->kind[at]], shape->class);
}

/*
 * The GPU kinds seen with one workload, each computed once. A room has at most GPUS_PER_NODE_MAX of
 * them.
 */
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

/* Clears the kinds first if they are full: then indexes in earlier results are void. */
void remaining_of(const struct room *room, struct kinds *kinds, struct remaining *out);

/*
 * Subtracts the charges of a placement on each of its GPUs, and the pod's CPU and memory. Each GPU
 * of the placement must be part of remaining.
 */
void remaining_take(struct remaining *remaining, const struct request *request,
                    const struct placement *placement);

/* free - amount, at least 0; HOST_UNKNOWN stays. */
static inline uint32_t host_less(uint32_t free, uint32_t amount)
{
    if (free == HOST_UNKNOWN)
        return free;
    return amount < free ? free - amount : 0;
}

/*
 * A policy judges either the numbers of a placement (fit), or by functions the remaining capacity
 * of the node (waste and score). The rules are in policy.h.
 */
struct policy {
    const char *name;
    const char *help;
    bool shuffles;            /* rule 4: nodes in node order, not by name */
    enum place_choice choice; /* policies without waste: preferred placement of a node */
    /* Rules 2 and 3: less comes first (1) or more (-1). 0: no rules 1 to 3, the first is best. */
    int8_t fit;
    /*
     * The wasted part of the remaining capacity. Adds the cost to *work, about in ns and
     * deterministic. cache may be NULL. NULL: the policy uses numbers.
     */
    uint64_t (*waste)(struct score_cache *cache, const struct workload *workload,
                      const struct remaining *remaining, uint64_t *work);
    /* Merit, without prices, of a placement that lowers the waste by `by` and leaves `after`. */
    int64_t (*score)(const struct workload *workload, int64_t by, const struct remaining *after);
    bool prices_places; /* a placement pays for the places of scarce classes that it uses up */
};

/* Sets the keys of rules 1 to 3, for a policy that judges by numbers. */
static inline void policy_keys(const struct policy *policy, uint32_t charge_milli,
                               uint32_t left_milli, uint32_t free_milli, int64_t key[3])
{
    must_debug(policy->waste == NULL);
    must_debug(charge_milli > 0 || left_milli == 0);
    key[0] = policy->fit != 0 ? charge_milli : 0;
    key[1] = (int64_t)policy->fit * left_milli;
    key[2] = (int64_t)policy->fit * free_milli;
}

#define X(code, word, served) extern const struct policy policy_##word;
POLICY_TABLE(X)
#undef X
extern const struct policy *const policy_table[POLICIES]; /* policy_kind.c */

static inline const struct policy *policy_of(enum policy_kind kind)
{
    must((size_t)kind < POLICIES);
    return policy_table[kind];
}

/* Key of rule 4 for a node; 0: by name alone. */
uint32_t policy_node_order(const struct policy_context *context, const struct policy *policy,
                           const struct atom *name);

/* floor(100 sigmoid(by / of / 1000)), 0 .. 99. |by| <= 2^40, 0 < of <= 2^24. */
uint32_t sigmoid_score(int64_t by, uint64_t of);

/* The same in thousandths; 0 if `of` is 0 (an empty workload). */
static inline int64_t sigmoid_merit(int64_t by, uint64_t of)
{
    return of == 0 ? 0 : 1000 * (int64_t)sigmoid_score(by, of);
}

/* policy_fgd.c: F(remaining) in milli, times workload->typical_count. */
uint64_t fgd_fragment(const struct workload *workload, const struct remaining *remaining);
/* fragment.c: the same for each GPU. */
void fragments_of_remaining(const struct workload *workload, const struct remaining *remaining,
                            uint64_t sum[GPUS_PER_NODE_MAX]);

/*
 * policy_rollout.c: W(remaining) in milli, times WORKLOAD_SEQUENCES: the free milli left after the
 * pods of each sequence that fit, each part on the tightest GPU. Pods also use CPU and memory. Adds
 * the cost to *work, about in ns and deterministic.
 */
uint64_t rollout_idle(const struct workload *workload, const struct remaining *remaining,
                      uint64_t *work);

/*
 * scarcity.c: number of pods of each scarce class that fit: GPUs with room for a part, divided by
 * the parts; limited by CPU and memory, divided by the pod's.
 */
struct class_capacity {
    uint16_t count[WORKLOAD_SCARCE_MAX];
};
void class_capacity_of(const struct workload *workload, const struct remaining *remaining,
                       struct class_capacity *out);

/* Totals of the whole cluster. */
struct supply {
    uint64_t slots[WORKLOAD_SCARCE_MAX];
    uint64_t free_milli; /* on open GPUs */
    uint32_t nodes;      /* number of nodes with GPUs */
};
/* Sets price[0 .. n_scarce - 1] by the formula in policy.h. */
void scarcity_prices(const struct workload *workload, const struct supply *supply, int64_t *price);

#endif
