/*
 * score_cache - the placements of a node, scored one by one (fgd and rollout), and the judgements
 * of all policies, cached.
 *
 *   room --> remaining --take a placement--> remaining --> fragment or idle GPU --> score --> merit
 *              \-----------------------------/  cached by remaining capacity (idle GPU)
 *    \---------------------------------------------------------------------------/  and by node
 *
 * score.c scores; score_cache.c caches. A merit consists of a part that depends on the node alone,
 * and of the prices of the places that the placement uses up, which change from time to time: so
 * both are cached separately. For each node the best of every distinct loss of places is kept.
 * Prices of GPU models (rank.price) are unrelated and do not change. Of the policies that judge by
 * numbers, these numbers are kept.
 */
#ifndef MILLIGPU_CORE_SCORE_CACHE_H
#define MILLIGPU_CORE_SCORE_CACHE_H

#include "policy_internal.h"

/*
 * Work is counted in ns, measured with branch prediction defeated; WORK_UNIT ns are one unit of
 * policy.h.
 */
enum { WORK_UNIT = 1000, LAYOUT_WORK = 100, STEP_WORK = 8 };
static_assert(SEARCH_WORK * WORK_UNIT <= STEP_WORK * PLACE_STEPS_MAX,
              "what is paid in advance is one search");

/* Decrease of the places of each scarce class. */
struct loss {
    uint8_t count[WORKLOAD_SCARCE_MAX];
};

/* The best placement of one loss. */
struct placement_score {
    int64_t base; /* merit without prices */
    struct loss loss;
};

/* The judgement of a node for one request, sufficient for any prices. */
enum { SCORES_MAX = 2 };
struct placement_scores {
    const struct policy *policy; /* which judged the node */
    enum reason why;             /* REASON_NONE: it fits */
    bool exact;
    enum distance distance; /* rule b */
    bool more;              /* more distinct losses than best[] holds: not to be cached */
    /* The level of the placements, as in struct rank. */
    uint32_t price;
    uint32_t raised_milli;
    uint32_t judged; /* number of placements */
    uint64_t work;   /* about in ns; the same for cached results */
    uint32_t count;  /* 0 unless fgd or rollout judged the node */
    struct placement_score best[SCORES_MAX];
    /* The numbers by which other policies judged it. */
    uint32_t left_milli;
    uint32_t free_milli;
};

/* Converts ns to units of policy.h, at most NODE_WORK_MAX. */
static inline uint32_t work_of(uint64_t work)
{
    const uint64_t units = (work + WORK_UNIT - 1) / WORK_UNIT;
    return units < NODE_WORK_MAX ? (uint32_t)units : NODE_WORK_MAX;
}

/* Work to write a placement and to subtract it from this many GPUs, in ns. */
static inline uint64_t layout_work(uint32_t gpus, const struct request *request,
                                   const struct placement *placement)
{
    return LAYOUT_WORK + (uint64_t)gpus * (placement->n_parts + 5 * request->n_wants);
}

/* policy_score_room() for fgd and rollout; plan->rule is that of the node. */
enum reason score_room(const struct policy_question *question, struct plan *plan,
                       const struct room *room, struct placement_scores *out, struct rank *out_rank,
                       struct placement *out_placement) MUST_USE;

/*
 * scarcity.c: the places of a node for pods of each scarce class (class_capacity_of()), before and
 * after a placement of one request.
 */
struct places {
    uint8_t count[WORKLOAD_SCARCE_MAX];
    uint8_t able[WORKLOAD_SCARCE_MAX]; /* GPUs with room for a part */
    uint8_t left[WORKLOAD_SCARCE_MAX]; /* count without the CPU and memory of the request */
};
/* asked: CPU and memory of the request. Sets the first n_scarce of each. */
void places_of(const struct workload *workload, const struct remaining *before,
               const struct host *asked, struct places *out);
/* Sets the first n_scarce counts of *out. Looks only at the GPUs on which the request lies. */
void places_lost(const struct workload *workload, const struct places *places,
                 const struct remaining *before, const struct remaining *after, struct loss *out);

/* The price of a loss in the policy context. */
int64_t loss_price(const struct policy_context *context, const struct loss *loss);

/*
 * The cache of one request, set by policy_begin()
 */

/* The GPU kinds of the score cache's workload. */
struct kinds *score_cache_kinds(struct score_cache *cache);

/* The results of score_cache_find() for several nodes, in part and not counted. */
void score_cache_briefs(const struct score_cache *cache, uint32_t count,
                        const struct node *const *node, const uint32_t *slot,
                        struct policy_brief *out);
/* Counts cached results that were used. */
void score_cache_count(struct score_cache *cache, uint32_t count);

/*
 * Returns the cached result for the question's node, without what is taken from it (NULL: nothing),
 * and the request of policy_begin(). False: not cached. The key is the node object in its slot.
 */
bool score_cache_find(const struct policy_question *question, const struct taken *taken,
                      enum reason *out_why, struct rank *out);
void score_cache_keep(const struct policy_question *question, const struct taken *taken,
                      const struct placement_scores *scores);

/* rollout_idle() with caching, including its work; cache may be NULL. */
uint64_t score_cache_idle(struct score_cache *cache, const struct workload *workload,
                          const struct remaining *remaining, uint64_t *work);

#endif
