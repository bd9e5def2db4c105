/*
 * policy - in what order placements are: which GPUs of a node a pod gets, and which node is best.
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
 *   behind     nodes that offers fill come after all others (filter.h)
 *   unjudged   nodes after WORK_MAX come after those that were judged, see below
 *   rule a     the price of the dearest GPU that is touched (rulebook.h); 0 where none has a price
 *   rule b     how far apart the GPUs of a want lie (place.h)
 *   rule c     nodes under the policy of the document before those under the policy of a rule, and
 *              these in the order of the rules that name a policy first
 *
 * A node is searched with the GPUs up to the lowest price at which the request fits, and among
 * these as near together as it fits; the policy judges the placements that are left.
 *
 * Node order: a fixed order that looks random, by hash of seed and name, and then by name. Charge,
 * left and free are those of place.h. policy/README.md contains the same rules with the same
 * numbers.
 *
 * fgd: score = floor(100 sigmoid(d / 1000)), where d is by how many milli the placement lowers the
 * fragmentation of the node: the expectation, over the typical shapes of the workload, of the free
 * milli that a pod of this shape could not use. Source: Weng et al., "Beware of Fragmentation",
 * USENIX ATC 2023, and its simulator, whose scores are whole numbers.
 *
 * rollout: d is by how many milli the placement lowers the idle GPU that the node is expected to
 * end with when random pods of the workload fill it. Merit, in thousandths of a score:
 *   1000 floor(100 sigmoid(d / 1000)) - 300 (free share of the node's GPUs, afterwards)
 *     - price of each pod of several GPUs for which the placement takes the room
 * rule 1 compares the negated merit. The prices belong to the policy context: 7500 x GPUs x rho^2
 * for a class c of several GPUs, where
 *   rho = min(1, (expected pods of c in the free room + stock) / pods of c that all nodes can take)
 * and stock = max(1, nodes / 120). A pod does not pay for its own class's first place.
 *
 * Where LAYOUTS_MAX placements of a node were judged one by one (fgd and rollout; spread, if
 * several containers ask), the rest of them is not judged; after WORK_MAX units of work for one
 * question, the other nodes rank behind, by binpack. A unit takes at most about a microsecond: work
 * counts what the judgements look at (steps of the enumeration, GPUs, shapes, pods of the
 * sequences), each with a weight that was measured, whether a cache knows the result or not. A
 * question about several containers also pays for the search on each name, in advance. So neither
 * limit depends on what a cache knows.
 *
 * No floating point: the thresholds of the sigmoid are whole numbers. A score cache is the caller's
 * cache, and never changes an answer.
 */
#ifndef MILLIGPU_POLICY_H
#define MILLIGPU_POLICY_H

#include "milligpu/core/node/snapshot.h"
#include "milligpu/core/place/place.h"
#include "milligpu/core/rules/policy_context.h"

enum {
    LAYOUTS_MAX = 64,       /* placements of one node that are judged */
    WORK_MAX = 220000,      /* units of one question */
    NODE_WORK_MAX = 0xFFFF, /* the most that one node counts for */
    SEARCH_WORK = 8,        /* of each name, where several containers ask */
    PRICE_EVERY = 20,       /* grants between two calculations of the prices */
    STOCK_NODES = 120,
    FREE_SHARE_COST = 300, /* of a merit, for a node that is all free */
    SCARCE_COST = 7500,    /* of a merit, for each GPU of a class that has become scarce */
};

/*
 * What was judged before, for one caller at a time: it belongs to the thread that uses it. It keeps
 * at most SCORE_CACHE_BYTES_MAX, and a reference to the nodes that it remembers.
 */
enum { SCORE_CACHE_BYTES_MAX = 48 << 20 };
struct score_cache;
struct score_cache *score_cache_new(void) MUST_USE;
void score_cache_free(struct score_cache *cache); /* NULL is fine */

struct score_cache_counts {
    uint64_t found;      /* nodes whose judgement was known */
    uint64_t made;       /* nodes that were judged */
    uint64_t idle_found; /* the same for what a node may have left (rollout) */
    uint64_t idle_made;
    size_t bytes;
};
struct score_cache_counts score_cache_counts(const struct score_cache *cache);

/* One node of a question. */
struct policy_question {
    const struct policy_context *context; /* NULL: binpack */
    struct score_cache *cache;            /* NULL: nothing is remembered */
    const struct node *node;
    /* in the snapshot (snapshot_nodes()); SNAPSHOT_NO_SLOT: not remembered, nor its names */
    uint32_t slot;
    bool is_unscored; /* the question's judgements are used up: by binpack, behind the others */
};

/*
 * Before the first node of a question: what the score cache remembers of this request from now on.
 */
void policy_begin(struct score_cache *cache, const struct snapshot *snapshot,
                  const struct request *request);
/* Is this node's judgement remembered? cache may be NULL. */
bool score_cache_has(const struct score_cache *cache, const struct node *node, uint32_t slot);

/*
 * Judges the placements on a node by the policy: place_evaluate(), but the best is the policy's. A
 * request that asks for no GPU fits everywhere.
 */
enum reason policy_score(const struct policy_question *question, struct plan *plan,
                         struct rank *out) MUST_USE;

/*
 * The same in another room than the node has by itself, and not remembered; or place_find() with
 * out_placement, which may be NULL.
 */
enum reason policy_score_room(const struct policy_question *question, struct plan *plan,
                              const struct room *room, struct rank *out,
                              struct placement *out_placement) MUST_USE;

/*
 * For people: "policy rule 1 (big): keeps 2 idle hosts for pods of several GPUs, and 1 is idle".
 * rule: of REASON_RESERVE. It has numbers of the moment, so kube-scheduler never gets it.
 */
void policy_say_reserve(const struct policy_context *context, uint32_t rule, struct strbuf *out);
/*
 * request_refuse(), but REASON_RULE names the rule. policy context: of the snapshot that refused.
 */
void policy_refuse(const struct policy_context *context, struct cause cause,
                   const struct request *request, struct refusal *out);
/*
 * The order of candidates, of all rules: negative if a is better, else positive. Both ranks are of
 * policy_score(). Two candidates on one node must differ in turn.
 */
int order_cmp(const struct rank *a, const struct rank *b);

#endif
