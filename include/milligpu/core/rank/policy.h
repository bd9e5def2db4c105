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
 *   unscored   nodes beyond the limit of work come after the scored ones, see below
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
 * several containers request GPUs). After policy_work_max() units of work for one question, the
 * remaining nodes rank behind, by binpack. That limit grows with the names of the question, so a
 * small cluster does not wait as long as a large one. A unit takes about a microsecond: work counts
 * the items that are judged (steps of the enumeration, GPUs, shapes, pods of the sequences), each
 * with a measured weight, whether the result is cached or not. A question about several containers
 * also pays for one search on each name, in advance, and for further ones, with cheaper GPUs (rule
 * a) or beside offers, when they are done. On the remaining nodes there are none: rule a compares
 * the dearest open GPU, and all that have offers are behind. So neither limit depends on the state
 * of a cache.
 *
 * No floating point: the thresholds of the sigmoid are integers. A score cache belongs to its
 * caller and never changes an answer. Judgements of every policy are cached, except those without a
 * policy context, of several containers, under a reserve, and beyond the limit of work.
 */
#ifndef MILLIGPU_POLICY_H
#define MILLIGPU_POLICY_H

#include "milligpu/core/node/snapshot.h"
#include "milligpu/core/place/place.h"
#include "milligpu/core/rules/policy_context.h"

enum {
    LAYOUTS_MAX = 64, /* judged placements of one node */
    WORK_MIN = 17500, /* units of a question of up to WORK_NAMES names */
    WORK_NAMES = 1000,
    WORK_OF_NAME = 9,       /* more units for each further name */
    WORK_MAX = 220000,      /* units of any question */
    NODE_WORK_MAX = 0xFFFF, /* limit for one node */
    SEARCH_WORK = 8,        /* for each name, if several containers request GPUs */
    PRICE_EVERY = 20,       /* grants between two calculations of the prices */
    STOCK_NODES = 120,
    FREE_SHARE_COST = 300, /* in units of merit, for a node that is entirely free */
    SCARCE_COST = 7500,    /* in units of merit, for each GPU of a class that has become scarce */
};

static_assert((uint64_t)WORK_NAMES * SEARCH_WORK < WORK_MIN && WORK_OF_NAME > SEARCH_WORK,
              "the search for several containers leaves work for scores");

/* The units of this many steps of a search. */
uint32_t policy_steps_work(uint32_t steps);

/* The limit of work for a question about this many names. */
static inline uint64_t policy_work_max(uint32_t names)
{
    const uint64_t further = names > WORK_NAMES ? names - WORK_NAMES : 0;
    const uint64_t units = WORK_MIN + further * WORK_OF_NAME;

    return units < WORK_MAX ? units : WORK_MAX;
}

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
    const struct policy_context *context; /* NULL: binpack, without caching */
    struct score_cache *cache;            /* NULL: no caching */
    const struct node *node;
    /*
     * Slot of the node in the snapshot (snapshot_nodes()); SNAPSHOT_NO_SLOT: neither the node's
     * judgement nor its names are cached.
     */
    uint32_t slot;
    bool is_unscored; /* the work is used up: ranked by binpack, behind the others */
};

/*
 * The first rules of the order as numbers that are compared in turn: smaller is better. If all are
 * equal, order_cmp() decides.
 */
struct order_head {
    uint64_t level; /* behind, unscored and rules a to c */
    uint64_t key;   /* rule 1 */
    uint64_t rest;  /* rules 2 and 3, and most bits of rule 4 */
};

enum { ORDER_KEY_MAX = GPUS_PER_NODE_MAX * GPU_MILLI, ORDER_KEY_BITS = 17 };
static_assert(ORDER_KEY_MAX < 1 << (ORDER_KEY_BITS - 1), "keys of either sign fit");

/* key: of rules 1 to 3; those of rules 2 and 3 are from -ORDER_KEY_MAX to ORDER_KEY_MAX. */
static inline struct order_head order_head_with(uint64_t level, const int64_t key[3],
                                                uint32_t order)
{
    const int64_t zero = 1 << (ORDER_KEY_BITS - 1); /* so that negative keys come first */

    must_debug(key[1] >= -ORDER_KEY_MAX && key[1] <= ORDER_KEY_MAX);
    must_debug(key[2] >= -ORDER_KEY_MAX && key[2] <= ORDER_KEY_MAX);
    const uint64_t keys = (uint64_t)(zero + key[1]) << ORDER_KEY_BITS | (uint64_t)(zero + key[2]);
    return (struct order_head){level, (uint64_t)key[0] ^ UINT64_C(1) << 63,
                               keys << (64 - 2 * ORDER_KEY_BITS) |
                                   order >> (2 * ORDER_KEY_BITS - 32)};
}

static inline struct order_head order_head_of(const struct rank *rank)
{
    must(rank->pool < 1U << 28 && rank->distance <= DISTANCE_ANYWHERE);
    return order_head_with((uint64_t)rank->behind << 63 | (uint64_t)rank->is_unscored << 62 |
                               (uint64_t)rank->price << 30 | (uint64_t)rank->distance << 28 |
                               rank->pool,
                           rank->key, rank->order);
}

static inline int order_head_cmp(const struct order_head *a, const struct order_head *b)
{
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rest == b->rest ? 0 : a->rest < b->rest ? -1 : 1;
}

/* Prepares the score cache for this request; call before the first node of a question. */
void policy_begin(struct score_cache *cache, const struct snapshot *snapshot,
                  const struct request *request);
/*
 * The same without a snapshot, for policy_score_room() under this context: of the scores, only what
 * depends on the remaining capacity alone is cached. cache: NULL, or one that policy_begin() never
 * had.
 */
void policy_begin_rooms(struct score_cache *cache, const struct policy_context *context);

/*
 * place_evaluate(), but the best placement is the policy's. A request for no GPU fits everywhere.
 */
enum reason policy_score(const struct policy_question *question, struct plan *plan,
                         struct rank *out) MUST_USE;
/* The same in the node's room without these shares. */
enum reason policy_score_beside(const struct policy_question *question, struct plan *plan,
                                const struct taken *taken, struct rank *out) MUST_USE;

/*
 * The part of a cached judgement that shows whether a node refuses, or comes behind others, at a
 * fraction of the cost of policy_score().
 */
struct policy_brief {
    bool known;      /* cached; else the others are unset */
    enum reason why; /* unless REASON_NONE, the others are unset */
    uint32_t order;
    uint32_t work;
    struct order_head head;
};
/*
 * Sets out[] for the nodes in these slots; a node may be NULL. For the request and the context of
 * policy_begin(); plan: of this request. cache may be NULL.
 */
void policy_recall(const struct score_cache *cache, const struct plan *plan, uint32_t count,
                   const struct node *const *node, const uint32_t *slot, struct policy_brief *out);
/* Counts the cached judgements that replaced a call of policy_score(). */
void policy_recalled(struct score_cache *cache, uint32_t count);
/* Is this node behind a rank, whose head is given, too? */
bool policy_is_behind(const struct policy_brief *brief, const struct node *node,
                      const struct order_head *worst_head, const struct rank *worst);

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
