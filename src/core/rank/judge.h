/*
 * judge - fgd and rollout: the placements of a node, appraised one by one, and what is remembered.
 *
 *   room --> rest --take a placement--> rest --> fragment or idle GPU --> score --> merit
 *              \------------------------/  remembered by what is left (idle GPU)
 *    \--------------------------------------------------------------------------/  and by node
 *
 * appraise.c judges; judge.c remembers. A merit consists of a part that depends on the node alone,
 * and of the prices of the places that the placement takes, which change now and then: so both are
 * remembered apart. For each node the best of every distinct loss of places is kept. What GPU
 * models cost is another price (rank.price), which does not change.
 */
#ifndef MILLIGPU_CORE_JUDGE_H
#define MILLIGPU_CORE_JUDGE_H

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
struct appraisal {
    int64_t base; /* merit without prices */
    struct loss loss;
};

/* A node for one request: enough for every price. */
enum { APPRAISALS_MAX = 2 };
struct appraisals {
    enum reason why; /* REASON_NONE: it fits */
    bool exact;
    enum apart apart; /* rule b */
    bool more;        /* there are more distinct losses than fit in here: not to be remembered */
    uint32_t price;   /* the level of the placements, as in a rank */
    uint32_t raised_milli;
    uint32_t judged; /* placements */
    uint64_t work;   /* in ns or so; what is remembered counts like what is made */
    uint32_t count;
    struct appraisal best[APPRAISALS_MAX];
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

/* policy_judge_room() for fgd and rollout; plan->rule is that of the node. */
enum reason appraise_room(const struct policy_question *question, struct plan *plan,
                          const struct room *room, struct appraisals *out, struct rank *out_rank,
                          struct placement *out_placement) MUST_USE;

/* scarcity.c: what the prices of the outlook make of a loss. */
int64_t loss_price(const struct outlook *outlook, const struct loss *loss);

/* What is remembered of one request, by policy_begin(). */

/* The kinds of the judge's workload. */
struct kinds *judge_kinds(struct judge *judge);

/*
 * The result for the question's node and the request of policy_begin(). False: it is not known. A
 * node is known again only as the same object in the same slot.
 */
bool judge_find(const struct policy_question *question, enum reason *out_why, struct rank *out);
void judge_keep(const struct policy_question *question, const struct appraisals *appraisals);

/* rollout_idle(), remembered, its work as well; judge may be NULL. */
uint64_t judge_idle(struct judge *judge, const struct workload *workload, const struct rest *rest,
                    uint64_t *work);

#endif
