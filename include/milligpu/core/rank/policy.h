/*
 * policy - the order of placements: which GPUs of a node a pod gets, and which node is best.
 *
 * A policy is a total order of (node, placement); it never decides whether a pod fits. The keys of
 * a placement are compared in turn, smaller is better, and the first that differs decides:
 *
 *              firstfit   binpack         spread           fgd          rollout
 *   rule 1     -          charge          charge           100 - score  merit, see below
 *   rule 2     -          milli left      most milli left  -            -
 *   rule 3     -          free on node    most free        -            -
 *   rule 4     node order name            name             node order   node order
 *   rule 5     the first GPUs, in the order of wants and parts (place.h): a node is searched in
 *              this order, and of equal placements the first stays
 *
 * Under every policy, before these:
 *
 *   behind     nodes filled by offers come after all others (filter.h)
 *   unscored   nodes after WORK_MAX come after the scored ones, see below
 *   rule a     the price of the dearest GPU used (rulebook.h); 0 without a price
 *   rule b     how far apart the GPUs of a want lie (place.h)
 *   rule c     nodes under the policy of the document before those under the policy of a rule, and
 *              these in the order of the rules that name a policy first
 *
 * A node is searched with the GPUs up to the lowest price at which the request fits, and among
 * these at the nearest distance at which it fits; the policy judges the remaining placements.
 *
 * Node order: a fixed pseudo-random order, by hash of seed and name, and then by name. Charge,
 * left and free are those of place.h. policy/README.md contains the same rules with the same
 * numbers.
 *
 * fgd: score = floor(100 sigmoid(d / 1000)), where d is the decrease, in milli, of the node's
 * fragmentation: the expectation, over the typical shapes of the workload, of the free milli that
 * a pod of this shape could not use. Source: Weng et al., "Beware of Fragmentation",
 * USENIX ATC 2023, and its simulator, whose scores are integers.
 *
 * rollout: d is the decrease, in milli, of the idle GPU capacity that the node is expected to end
 * with when random pods of the workload fill it. Merit, in thousandths of a score:
 *   1000 floor(100 sigmoid(d / 1000)) - 300 (free share of the node's GPUs, afterwards)
 *     - price of each pod of several GPUs for which the placement takes the room
 * rule 1 compares the negated merit. The prices belong to the policy context: 7500 x GPUs x rho^2
 * for a class c of several GPUs, where
 *   rho = min(1, (expected pods of c in the free room + stock) / pods of c that all nodes can take)
 * and stock = max(1, nodes / 120). A pod does not pay for its own class's first place.
 *
 * At most LAYOUTS_MAX placements of a node are judged one by one (fgd and rollout; spread, if
 * several containers request GPUs). After WORK_MAX units of work for one question, the remaining
 * nodes rank behind, by binpack. A unit takes at most about a microsecond: work counts the items
 * that are judged (steps of the enumeration, GPUs, shapes, pods of the sequences), each with a
 * measured weight, whether the result is cached or not. A question about several containers also
 * pays for the search on each name, in advance. So neither limit depends on the state of a cache.
 *
 * No floating point: the thresholds of the sigmoid are integers. A score cache belongs to its
 * caller and never changes an answer.
 */
#ifndef MILLIGPU_POLICY_H
#define MILLIGPU_POLICY_H

#include "milligpu/core/node/snapshot.h"
#include "milligpu/core/place/place.h"
#include "milligpu/core/rules/policy_context.h"

enum {
    LAYOUTS_MAX = 64,       /* judged placements of one node */
    WORK_MAX = 220000,      /* units of one question */
    NODE_WORK_MAX = 0xFFFF, /* limit for one node */
    SEARCH_WORK = 8,        /* for each name, if several containers request GPUs */
    PRICE_EVERY = 20,       /* grants between two calculations of the prices */
    STOCK_NODES = 120,
    FREE_SHARE_COST = 300, /* in units of merit, for a node that is entirely free */
    SCARCE_COST = 7500,    /* in units of merit, for each GPU of a class that has become scarce */
};

/*
 * Cached scores. Used by one caller at a time. Holds at most SCORE_CACHE_BYTES_MAX, and a reference
 * to each cached node.
 */
enum { SCORE_CACHE_BYTES_MAX = 48 << 20 };
struct score_cache;
struct score_cache *score_cache_new(void) MUST_USE;
void score_cache_free(struct score_cache *cache); /* NULL is allowed */

struct score_cache_counts {
    uint64_t found; /* nodes with a cached judgement */
    uint64_t made;  /* nodes that were judged */
    /* The same for idle capacity that a node may end with (rollout). */
    uint64_t idle_found;
    uint64_t idle_made;
    size_t bytes;
};
struct score_cache_counts score_cache_counts(const struct score_cache *cache);

/* One node of a question. */
struct policy_question {
    const struct policy_context *context; /* NULL: binpack */
    struct score_cache *cache;            /* NULL: no caching */
    const struct node *node;
    /*
     * Slot of the node in the snapshot (snapshot_nodes()); SNAPSHOT_NO_SLOT: neither the node's
     * judgement nor its names are cached.
     */
    uint32_t slot;
    bool is_unscored; /* WORK_MAX is exceeded: ranked by binpack, behind the others */
};

/* Prepares the score cache for this request; call before the first node of a question. */
void policy_begin(struct score_cache *cache, const struct snapshot *snapshot,
                  const struct request *request);
/* Is this node's judgement cached? cache may be NULL. */
bool score_cache_has(const struct score_cache *cache, const struct node *node, uint32_t slot);

/*
 * place_evaluate(), but the best placement is the policy's. A request for no GPU fits everywhere.
 */
enum reason policy_score(const struct policy_question *question, struct plan *plan,
                         struct rank *out) MUST_USE;

/*
 * policy_score() in another room than the node's own, without caching; with out_placement (may be
 * NULL) also place_find().
 */
enum reason policy_score_room(const struct policy_question *question, struct plan *plan,
                              const struct room *room, struct rank *out,
                              struct placement *out_placement) MUST_USE;

/*
 * A text for people: "policy rule 1 (big): keeps 2 idle hosts for pods of several GPUs, and 1 is
 * idle". rule: that of REASON_RESERVE. Contains current numbers, so kube-scheduler never gets it.
 */
void policy_say_reserve(const struct policy_context *context, uint32_t rule, struct strbuf *out);
/* request_refuse(), but REASON_RULE names the rule. context: of the snapshot that refused. */
void policy_refuse(const struct policy_context *context, struct cause cause,
                   const struct request *request, struct refusal *out);
/*
 * The order of candidates, by all rules: negative if a is better, else positive. Both ranks come
 * from policy_score(). Two candidates on one node must differ in turn.
 */
int order_cmp(const struct rank *a, const struct rank *b);

#endif
