/*
 * score_cache - fgd and rollout: the placements of a node, scored one by one, and what is
 * remembered.
 *
 *   room --> rest --take a placement--> rest --> fragment or idle GPU --> score --> merit
 *              \------------------------/  remembered by what is left (idle GPU)
 *    \--------------------------------------------------------------------------/  and by node
 *
 * score.c judges; score_cache.c remembers. A merit consists of a part that depends on the node
 * alone, and of the prices of the places that the placement takes, which change now and then: so
 * both are remembered apart. For each node the best of every distinct loss of places is kept. What
 * GPU models cost is another price (rank.price), which does not change.
 */
#ifndef MILLIGPU_CORE_SCORE_CACHE_H
#define MILLIGPU_CORE_SCORE_CACHE_H

#include "policy_internal.h"

/*
 * Work is counted in ns, as they were measured where the processor can foresee nothing; WORK_UNIT
 * of them are a unit of policy.h.
 */
enum { WORK_UNIT = 1000, LAYOUT_WORK = 100, STEP_WORK = 8 };
static_assert(SEARCH_WORK * WORK_UNIT <= STEP_WORK * PLACE_STEPS_MAX,
              "what is paid in advance is one search");

/* By how many the places of each scarce class become fewer. */
struct loss {
    uint8_t count[WORKLOAD_SCARCE_MAX];
};

/* The best placement of one loss. */
struct placement_score {
    int64_t base; /* merit without prices */
    struct loss loss;
};

/* A node for one request: enough for every price. */
enum { SCORES_MAX = 2 };
struct placement_scores {
    enum reason why; /* REASON_NONE: it fits */
    bool exact;
    enum distance distance; /* rule b */
    bool more;      /* there are more distinct losses than fit in here: not to be remembered */
    uint32_t price; /* the level of the placements, as in a rank */
    uint32_t raised_milli;
    uint32_t judged; /* placements */
    uint64_t work;   /* in ns or so; what is remembered counts like what is made */
    uint32_t count;
    struct placement_score best[SCORES_MAX];
};

/* What was counted, in the units of policy.h, at most NODE_WORK_MAX. */
static inline uint32_t work_of(uint64_t work)
{
    const uint64_t units = (work + WORK_UNIT - 1) / WORK_UNIT;
    return units < NODE_WORK_MAX ? (uint32_t)units : NODE_WORK_MAX;
}

/* Writing a placement down, and taking it from this many GPUs. */
static inline uint64_t layout_work(uint32_t gpus, const struct request *request,
                                   const struct placement *placement)
{
    return LAYOUT_WORK + (uint64_t)gpus * (placement->parts + 5 * request->wants);
}

/* policy_score_room() for fgd and rollout; plan->rule is that of the node. */
enum reason score_room(const struct policy_question *question, struct plan *plan,
                       const struct room *room, struct placement_scores *out, struct rank *out_rank,
                       struct placement *out_placement) MUST_USE;

/* scarcity.c: what the prices of the policy context make of a loss. */
int64_t loss_price(const struct policy_context *context, const struct loss *loss);

/* What is remembered of one request, by policy_begin(). */

/* The kinds of the score cache's workload. */
struct kinds *score_cache_kinds(struct score_cache *cache);

/*
 * The result for the question's node and the request of policy_begin(). False: it is not known. A
 * node is known again only as the same object in the same slot.
 */
bool score_cache_find(const struct policy_question *question, enum reason *out_why,
                      struct rank *out);
void score_cache_keep(const struct policy_question *question,
                      const struct placement_scores *scores);

/* rollout_idle(), remembered, its work as well; cache may be NULL. */
uint64_t score_cache_idle(struct score_cache *cache, const struct workload *workload,
                          const struct remaining *remaining, uint64_t *work);

#endif
