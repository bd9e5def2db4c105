/*
 * place - which GPUs of a node a request gets, and which node is best.
 *
 * The order is total; the first rule that tells two placements apart decides:
 *   a. smaller price of the dearest GPU that is touched (rulebook.h; 0 where nothing has a price)
 *   b. nearer: the GPUs of each want are all linked by NVLink (or are one GPU), then all on one
 *      NUMA node, then anywhere; of several wants the one counts that lies farthest apart. Where a
 *      node tells neither, its GPUs lie anywhere.
 *   1. smaller charge altogether (only init containers can make a difference here)
 *   2. tighter fit: fewer milli left on the GPUs that are touched
 *   3. fuller node: fewer free milli on the node
 *   4. node name, bytewise
 *   5. GPUs in the order of the wants and parts, by position in the node
 * Two different placements never tie. policy/README.md contains the same rules with the same
 * numbers.
 *
 * A request of one container is placed exactly: if a placement exists, it is found, and it is the
 * best by the rules. A request of several containers is placed exactly if PLACE_STEPS_MAX steps of
 * search are enough. If not, the answer is the best placement found, never worse than the greedy
 * one (largest part first, each where it costs least), and placement.exact is false; if none was
 * found, it is REASON_UNSEARCHED. The limit counts steps, not time, and is the same for each node,
 * for every caller and for any number of nodes, so a later evaluation finds what an earlier one
 * found. More steps never make an answer worse.
 *
 * Rule a is searched tier by tier: at first only with the cheapest GPUs of the node, then also with
 * the next dearer ones, and so on. It never decides whether a request fits.
 *
 * Where the policy says "memory: raise", a share that comes with less memory than was asked for is
 * raised instead of refused: all shares of the pod to the same amount, the smallest with which the
 * pod fits (within the tier).
 *
 * Rule b is searched distance by distance, each with as many steps. For one container it is exact
 * wherever links form islands, in which each GPU is linked with each, as NVLink switches make them;
 * where they are irregular, the steps may end first, and exact is false. A demand (plan.topology)
 * leaves out what lies farther apart.
 *
 * Whole GPUs of the other resource (request.whole) are placed on no GPU: kube-scheduler counts
 * them. They do not fit on a node where a pod holds shares. If the pod itself also asks for shares,
 * each whole GPU needs a GPU that the shares do not touch; so within a node, fewer touched GPUs
 * then come before rule 1.
 *
 *     request --> plan --\
 *                         >-- shape --> walk over what differs --> the cheapest --> by rule 5
 *     node ----> room ---/    (equal GPUs, equal containers, equal shapes: once)
 *
 * Pure. filter, bind, preempt, adoption and the wake-up check all end in the same search, whichever
 * of the functions below they call. Any thread; a room, a placement and a plan take 2 to 4 KiB each
 * and are meant for the stack.
 */
#ifndef MILLIGPU_PLACE_H
#define MILLIGPU_PLACE_H

#include "milligpu/core/node/node.h"
#include "milligpu/core/rules/rulebook.h"

struct policy_context; /* policy.h */

/*
 * What is left on one GPU for this evaluation: preempt adds capacity, offers take
 * some.
 */
struct gpu_room {
    uint32_t milli; /* of the GPU */
    uint32_t mib;
    uint32_t free_milli;
    uint32_t free_mib;
    enum reason closed; /* REASON_NONE: takes shares */
    uint32_t socket;    /* its NUMA node + 1; 0: not known */
    const struct atom *model;
    uint64_t peers; /* bit i: NVLink joins it with room.gpu[i] */
};

struct room {
    enum reason closed;  /* the whole node, as node_closed() says */
    bool shared;         /* a pod has shares here: whole GPUs do not fit */
    bool host_known;     /* else nothing is known of host */
    struct host host;    /* what the pods here leave of CPU and memory */
    rule_set rules;      /* of the policy that match the node */
    bool idle;           /* nobody is here, and a pod of several GPUs could be */
    bool is_leaving;     /* idle now, and the node is not: victims leave */
    uint32_t free_milli; /* rule 3 */
    uint32_t gpus;
    struct gpu_room gpu[GPUS_PER_NODE_MAX];
};

struct part {
    uint16_t want; /* index into request.want */
    uint16_t gpu;  /* index into node.gpu */
};

/* Rule b. */
enum distance { DISTANCE_LINKED, DISTANCE_NUMA, DISTANCE_ANYWHERE };

struct placement {
    bool exact;             /* searched to the end: none is better */
    uint32_t price;         /* rule a */
    enum distance distance; /* rule b */
    uint32_t raised_milli;  /* smaller shares are raised to this; 0: none is (place_level.c) */
    uint32_t charge_milli;  /* rule 1 */
    uint32_t left_milli;    /* rule 2 */
    uint32_t free_milli;    /* rule 3 */
    uint32_t parts;         /* ordered by want, then gpu */
    struct part part[PARTS_MAX];
};

/* The free capacity of a node. */
void room_of(const struct node *node, struct room *out);

/* The capacity if these allocations of the node were gone (the victims of a preemption). */
void room_without(const struct node *node, const struct text *uids, uint32_t count,
                  struct room *out);

/* Sets milli of one GPU aside; setting aside more than is free leaves 0. */
void room_take(struct room *room, uint32_t gpu, uint32_t milli);

/* Wants that are searched together: of the same kind, with parts of the same size and number. */
struct plan_row {
    enum container_kind kind;
    uint32_t milli; /* of each part */
    uint32_t parts; /* of each want */
    uint32_t wants; /* number of equal wants, so the most of their parts on one GPU */
};

/* The wants in the order of the search, row by row. */
struct plan_rows {
    uint32_t count;
    struct plan_row row[CONTAINERS_MAX];
    uint16_t want[CONTAINERS_MAX]; /* index into request.want */
};

enum { PLAN_MODELS = 64 };

/* What is known of a model so far. */
struct plan_model {
    const struct atom *model; /* NULL: free */
    bool can_take;
    bool named;               /* named_price is known */
    struct named_price price; /* rulebook_named_price() */
};

/* Which GPUs a request of one want gets, of those that fit. */
enum place_choice { PLACE_TIGHTEST, PLACE_LOOSEST, PLACE_FIRST };

/*
 * A request prepared for many rooms. It caches which models match, so it belongs to one thread, and
 * lives no longer than its request and the rooms.
 */
struct plan {
    const struct request *request;
    enum place_choice choice; /* of one want, which GPUs; PLACE_TIGHTEST unless a policy differs */
    enum topology topology;   /* the request's, unless a rule demands more */
    uint32_t steps;           /* of one search; PLACE_STEPS_MAX except in tests */
    uint32_t walked;          /* steps that the last place_each() took */
    uint32_t most_parts;      /* of one want */
    bool several;             /* request_is_of_several() */
    uint32_t running_milli;   /* of all parts that run at once */
    bool mixed_lives;         /* sidecars run beside init containers: their order matters */
    struct shapes *shapes;    /* NULL: each room is searched again */
    const struct policy_context *context; /* whose rules apply; NULL: none */
    rule_set rules;                       /* that hold, and match the pod */
    const struct rule *rule; /* the winner in the room that was judged last; NULL: none */
    bool priced;             /* models have prices: rule a */
    /* the level at which the room that was judged last was searched (place_level.c) */
    uint64_t usable;       /* a gpu_set of the room: the others may not be used */
    uint32_t price;        /* of the dearest of them; 0 if nothing has a price, or nothing fits */
    uint32_t raised_milli; /* smaller shares are raised to this; 0: as asked */
    struct plan_rows rows;
    struct plan_model model[PLAN_MODELS];
    struct {
        const struct rule *rule; /* the one that was asked last, and about what */
        const struct atom *model;
        bool can_take;
    } allowed;
};

/*
 * policy context: the rules of its policy decide, too, with request->rules (rulebook.h); NULL: none
 * do, as for what runs already. It is borrowed.
 */
void plan_init(struct plan *out, const struct request *request,
               const struct policy_context *context);

/*
 * From now on this rule (NULL: none) is the one that won, as place_evaluate() finds it by itself.
 */
void plan_obey(struct plan *plan, const struct rule *rule);
/* The reason that place_evaluate() gave last, or policy_score(), with its rule. */
struct cause plan_cause(const struct plan *plan, enum reason why);
/* The rule that wins on a node which these rules match (node.rules); NULL: there is none. */
const struct rule *plan_rule(const struct plan *plan, rule_set of_node);
/* Are shares raised for their memory in the room that was judged last? */
bool plan_raises(const struct plan *plan);
/* Does it depend on other nodes whether the rule lets this pod in (struct rule, reserve)? */
bool plan_reserve_matters(const struct plan *plan, const struct rule *rule);

/* From now on equal rooms are searched once; arena must outlive the plan. */
void plan_remember(struct plan *plan, struct arena *arena);

/* Where a placement stands in the order of policy.h, without the placement itself. */
struct rank {
    bool exact;
    bool behind;            /* filter.h: offers fill the node */
    bool is_unscored;       /* policy.h: ranked by binpack, behind what was judged */
    uint32_t price;         /* rule a */
    uint32_t raised_milli;  /* as in a placement */
    enum distance distance; /* rule b */
    uint32_t charge_milli;  /* rule 1 */
    uint32_t left_milli;    /* rule 2 */
    uint32_t free_milli;    /* rule 3 */
    uint32_t steps;         /* that the search took; 0: an equal room was searched before */
    /* what a policy judged, whether it was remembered or not: placements, and their work */
    uint32_t judged;
    uint32_t work;
    uint32_t pool;           /* policy.h, rule c */
    uint32_t order;          /* policy.h, rule 4: of nodes; equals go by name */
    uint32_t turn;           /* policy.h, rule 5: of candidates on one node */
    int64_t key[3];          /* policy.h, rules 1 to 3 */
    const struct atom *node; /* borrowed name; policy_score() sets it, place_evaluate() does not */
};

/* Does it fit, and how well? *out is always set. */
enum reason place_evaluate(struct plan *plan, const struct room *room, struct rank *out) MUST_USE;

/*
 * The same, and where. REASON_NONE and *out (without parts if the request has no wants), or the
 * reason. The result is that of place_evaluate(), and *out contains the numbers of the rank.
 */
enum reason place_find(struct plan *plan, const struct room *room, struct rank *out_rank,
                       struct placement *out) MUST_USE;

/*
 * Where as well, but not by rule 5: *out is a placement of this rank, always the same one. That
 * takes one search where place_find() takes two.
 */
enum reason place_any(struct plan *plan, const struct room *room, struct rank *out_rank,
                      struct placement *out) MUST_USE;

/*
 * Why the node refuses a request whose shares lie on so many of its GPUs, whichever they are;
 * REASON_NONE: it does not. place_evaluate() gives the same reasons.
 */
enum reason place_weigh_node(const struct room *room, const struct request *request,
                             uint32_t touched) MUST_USE;

/*
 * Visits every distinct placement once, while steps last; by rule b only those that lie as near as
 * the nearest, and then each want of several parts is a row. Two placements are the same if they
 * put the same number of parts of each row on each GPU, or would after swapping GPUs that are equal
 * in room, model and links; which one of these is visited is deterministic. visit returns false to
 * stop; the placements that it gets have exact = false. The request must have wants; one that is
 * too large to walk over (more than PLACE_STEPS_MAX rows x GPUs) is out of steps at once. If prices
 * or raised shares matter, place_evaluate() or place_find() must have found a place in this room
 * last: only the GPUs and the amounts are visited with which it did.
 */
enum place_end { PLACE_ALL, PLACE_STOPPED, PLACE_OUT_OF_STEPS };
typedef bool place_visit(void *user, const struct placement *placement);
enum place_end place_each(struct plan *plan, const struct room *room, uint32_t steps, void *user,
                          place_visit *visit) MUST_USE;

/* What a part of this want takes, which may be more than was asked for. */
static inline uint32_t placement_milli(const struct placement *placement, const struct want *want)
{
    return want->milli > placement->raised_milli ? want->milli : placement->raised_milli;
}

/* The shares of a placement; share must have space for placement->parts. */
void place_shares(const struct placement *placement, const struct request *request,
                  const struct node *node, struct share *share);

#endif
