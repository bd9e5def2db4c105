/*
 * place - which GPUs of a node a request gets, and which node is best.
 *
 * Placements are in a total order. The first rule by which two differ decides:
 *   a. lower price of the dearest GPU used (rulebook.h; 0 without a price)
 *   b. nearer: the GPUs of each want are all linked by NVLink (or are one GPU), then all on one
 *      NUMA node, then anywhere; the want that lies farthest apart counts. Without topology
 *      information about the node, GPUs lie anywhere.
 *   1. smaller total charge (differs only if there are init containers)
 *   2. tighter fit: fewer milli left on the GPUs used
 *   3. fuller node: fewer free milli on the node
 *   4. node name, bytewise
 *   5. GPUs in the order of the wants and parts, by position in the node
 * Two different placements never tie. policy/README.md contains the same rules with the same
 * numbers.
 *
 * A request of one container is placed exactly: if a placement exists, it is found, and it is the
 * best by the rules. A request of several containers is placed exactly if PLACE_STEPS_MAX search
 * steps are enough. If not, the answer is the best placement found, never worse than the greedy
 * one (largest part first, each where it costs least), and placement.exact is false; if none was
 * found, the answer is REASON_UNSEARCHED. The limit counts steps, not time, and is the same for
 * each node, every caller and any number of nodes, so a later evaluation finds the result of an
 * earlier one. More steps never make an answer worse.
 *
 * Rule a is searched tier by tier: first only the cheapest GPUs of the node, then also the next
 * dearer ones, and so on. It never decides whether a request fits.
 *
 * With "memory: raise" in the policy, a share with less memory than requested is raised instead of
 * refused: all shares of the pod to the same amount, the smallest with which the pod fits (within
 * the tier).
 *
 * Rule b is searched distance by distance, each with the same number of steps. For one container it
 * is exact if links form islands in which each GPU is linked with each (NVLink switches); with
 * irregular links the steps may run out first, and exact is false. A demand (plan.topology)
 * excludes placements that lie farther apart.
 *
 * Whole GPUs of the other resource (request.whole) are not assigned to GPUs: kube-scheduler counts
 * them. They do not fit on a node where a pod holds shares. If the pod itself also requests shares,
 * each whole GPU needs a GPU without these shares; so within a node, fewer GPUs used then come
 * before rule 1.
 *
 *     request --> plan --\
 *                         >-- shape --> walk over distinct layouts --> the cheapest --> by rule 5
 *     node ----> room ---/    (equal GPUs, equal containers, equal shapes: once)
 *
 * Pure. filter, bind, preempt, adoption and the wake-up check use the same search, through any of
 * the functions below. Any thread; a room, a placement and a plan take 2 to 4 KiB each and are
 * meant for the stack.
 */
#ifndef MILLIGPU_PLACE_H
#define MILLIGPU_PLACE_H

#include "milligpu/core/node/node.h"
#include "milligpu/core/rules/rulebook.h"

struct policy_context; /* policy_context.h */

/* Free capacity of one GPU for this evaluation: preempt adds capacity, offers reduce it. */
struct gpu_room {
    uint32_t milli; /* capacity of the GPU */
    uint32_t mib;
    uint32_t free_milli;
    uint32_t free_mib;
    enum reason closed; /* REASON_NONE: open for new shares */
    uint32_t socket;    /* NUMA node + 1; 0: unknown */
    const struct atom *model;
    uint64_t peers; /* bit i: linked by NVLink with room.gpu[i] */
};

struct room {
    enum reason closed;  /* node_closed() */
    bool shared;         /* a pod holds shares here: whole GPUs do not fit */
    bool host_known;     /* host is set */
    struct host host;    /* CPU and memory left by the pods here */
    rule_set rules;      /* policy rules that match the node */
    bool idle;           /* no pods, and suitable for a pod of several GPUs */
    bool is_leaving;     /* idle only because the victims leave */
    uint32_t free_milli; /* rule 3 */
    uint32_t n_gpus;
    struct gpu_room gpu[GPUS_PER_NODE_MAX];
};

struct part {
    uint16_t want; /* index into request.want */
    uint16_t gpu;  /* index into node.gpu */
};

/* Rule b. */
enum distance { DISTANCE_LINKED, DISTANCE_NUMA, DISTANCE_ANYWHERE };

struct placement {
    bool exact;             /* the search was complete: no placement is better */
    uint32_t price;         /* rule a */
    enum distance distance; /* rule b */
    uint32_t raised_milli;  /* smaller shares are raised to this; 0: not raised (place_level.c) */
    uint32_t charge_milli;  /* rule 1 */
    uint32_t left_milli;    /* rule 2 */
    uint32_t free_milli;    /* rule 3 */
    uint32_t n_parts;       /* ordered by want, then gpu */
    struct part part[PARTS_MAX];
};

/* Sets *out to the free capacity of a node. */
void room_of(const struct node *node, struct room *out);

/* The free capacity without these allocations of the node (the victims of a preemption). */
void room_without(const struct node *node, const struct text *uids, uint32_t count,
                  struct room *out);

/* Takes milli from one GPU, at most its free milli. */
void room_take(struct room *room, uint32_t gpu, uint32_t milli);

/* Shares of pods that may come to a node, by its GPUs in ascending order. Compared bytewise. */
enum { TAKEN_MAX = 16 };
struct taken {
    uint16_t count;            /* GPUs; what is behind is 0 */
    uint16_t milli[TAKEN_MAX]; /* the sum of the shares, at most GPU_MILLI */
    uint8_t gpu[TAKEN_MAX];    /* index into node.gpu */
};

/* Adds a share. One on a GPU beyond TAKEN_MAX of them is ignored: callers only rank by it. */
void taken_add(struct taken *taken, uint32_t gpu, uint32_t milli);

/* room_take() for each GPU. */
void room_take_all(struct room *room, const struct taken *taken);

/* Wants that are searched together: same kind, same size and number of parts. */
struct plan_row {
    enum container_kind kind;
    uint32_t milli; /* of each part */
    uint32_t parts; /* of each want */
    uint32_t wants; /* number of equal wants; also the maximum of their parts on one GPU */
};

/* The wants in search order, row by row. */
struct plan_rows {
    uint32_t count;
    struct plan_row row[CONTAINERS_MAX];
    uint16_t want[CONTAINERS_MAX]; /* index into request.want */
};

enum { PLAN_MODELS = 64 };

/* Cached answers about a GPU model. */
struct plan_model {
    const struct atom *model; /* NULL: free entry */
    bool can_take;
    bool named;               /* named_price is cached */
    struct named_price price; /* rulebook_known_price() */
};

/* Order in which a request of one want takes the GPUs that fit. */
enum place_choice { PLACE_TIGHTEST, PLACE_LOOSEST, PLACE_FIRST };

/*
 * A request prepared for many rooms. It caches which models match, so it belongs to one thread, and
 * lives no longer than its request and the rooms.
 */
struct plan {
    const struct request *request;
    enum place_choice choice;             /* for one want; PLACE_TIGHTEST unless a policy differs */
    enum topology topology;               /* the request's, or a rule's stricter demand */
    uint32_t steps;                       /* limit of one search; PLACE_STEPS_MAX except in tests */
    uint32_t walked;                      /* steps taken by the last place_each() */
    uint32_t most_parts;                  /* maximum parts of one want */
    bool several;                         /* request_is_of_several() */
    uint32_t running_milli;               /* total of all parts that run at once */
    bool mixed_lives;                     /* sidecars and init containers: their order matters */
    struct shapes *shapes;                /* results by shape; NULL: not cached */
    const struct policy_context *context; /* rules to apply, borrowed; NULL: none */
    rule_set rules;                       /* active rules that match the pod */
    const struct rule *rule;              /* winner in the room judged last; NULL: none */
    bool priced;                          /* models have prices (rule a) */
    bool skips_tiers;                     /* no search with cheaper GPUs only; set by policy.c */
    /* Search level of the room judged last (place_level.c). */
    uint64_t usable;       /* gpu_set of the room: GPUs that may be used */
    uint32_t price;        /* of the dearest usable GPU; 0 without prices or if nothing fits */
    uint32_t raised_milli; /* smaller shares are raised to this; 0: not raised */
    struct plan_rows rows;
    struct plan_model model[PLAN_MODELS];
    struct {
        /* The last look-up by rule and model, and its result. */
        const struct rule *rule;
        const struct atom *model;
        bool can_take;
    } allowed;
};

/*
 * context: borrowed; the rules of its policy that match request->rules (rulebook.h) apply. NULL: no
 * rules, as for pods that already run.
 */
void plan_init(struct plan *out, const struct request *request,
               const struct policy_context *context);

/* Sets the winning rule (NULL: none), as place_evaluate() does itself. */
void plan_obey(struct plan *plan, const struct rule *rule);
/* The last reason of place_evaluate() or policy_score(), with its rule. */
struct cause plan_cause(const struct plan *plan, enum reason why);
/*
 * The winning rule on a node that matches *of_node (node.rules); NULL: none. Reads *of_node only if
 * rules match the request, because the memory of a node is slow to fetch.
 */
const struct rule *plan_rule(const struct plan *plan, const rule_set *of_node);
/* Are shares raised to meet the memory request in the room judged last? */
bool plan_raises(const struct plan *plan);
/* Does the rule's reserve apply to this pod, so that admission depends on other nodes? */
bool plan_reserve_matters(const struct plan *plan, const struct rule *rule);

/* Caches results of equal rooms from now on; arena must outlive the plan. */
void plan_remember(struct plan *plan, struct arena *arena);

/* The position of a placement in the order of policy.h, without the placement itself. */
struct rank {
    bool exact;
    bool behind;            /* filter.h: offers fill the node */
    bool is_unscored;       /* policy.h: ranked by binpack, behind all judged nodes */
    uint32_t price;         /* rule a */
    uint32_t raised_milli;  /* as in a placement */
    enum distance distance; /* rule b */
    uint32_t charge_milli;  /* rule 1 */
    uint32_t left_milli;    /* rule 2 */
    uint32_t free_milli;    /* rule 3 */
    uint32_t steps;         /* of the search; 0: the result of an equal room was reused */
    /* Placements judged by a policy, cached or not, and their work in units of policy.h. */
    uint32_t judged;
    uint32_t work;
    uint32_t pool;           /* policy.h, rule c */
    uint32_t order;          /* policy.h, rule 4: of nodes; ties go by name */
    uint32_t turn;           /* policy.h, rule 5: of candidates on one node */
    int64_t key[3];          /* policy.h, rules 1 to 3 */
    const struct atom *node; /* borrowed name; set by policy_score() only */
};

/* Does the request fit, and how well? *out is always set. */
enum reason place_evaluate(struct plan *plan, const struct room *room, struct rank *out) MUST_USE;

/*
 * place_evaluate() that also returns the placement: REASON_NONE and *out (without parts if the
 * request has no wants), or the reason. *out contains the numbers of the rank.
 */
enum reason place_find(struct plan *plan, const struct room *room, struct rank *out_rank,
                       struct placement *out) MUST_USE;

/*
 * place_find() without rule 5: *out is a deterministic placement of this rank. Takes one search
 * instead of two.
 */
enum reason place_any(struct plan *plan, const struct room *room, struct rank *out_rank,
                      struct placement *out) MUST_USE;

/*
 * The reason why the node refuses a request whose shares use `touched` GPUs, whichever they are;
 * REASON_NONE: it does not. place_evaluate() gives the same reasons.
 */
enum reason place_weigh_node(const struct room *room, const struct request *request,
                             uint32_t touched) MUST_USE;

/*
 * Visits every distinct placement once, within a limit of steps. By rule b only placements at the
 * nearest distance are visited, and each want of several parts is then a row of its own. Two
 * placements are the same if they put the same number of parts of each row on each GPU, possibly
 * after swapping GPUs with equal room, model and links; the one visited is deterministic. visit
 * returns false to stop; its placements have exact = false. The request must have wants; one with
 * more than PLACE_STEPS_MAX rows x GPUs is out of steps at once. If prices or raised shares matter,
 * the last successful place_evaluate() or place_find() must have been in this room: only the GPUs
 * and amounts of its level are visited.
 */
enum place_end { PLACE_ALL, PLACE_STOPPED, PLACE_OUT_OF_STEPS };
typedef bool place_visit(void *user, const struct placement *placement);
enum place_end place_each(struct plan *plan, const struct room *room, uint32_t steps, void *user,
                          place_visit *visit) MUST_USE;

/* Milli of a part of this want, possibly raised. */
static inline uint32_t placement_milli(const struct placement *placement, const struct want *want)
{
    return want->milli > placement->raised_milli ? want->milli : placement->raised_milli;
}

/* Sets share[] to the shares of a placement; capacity at least placement->parts. */
void place_shares(const struct placement *placement, const struct request *request,
                  const struct node *node, struct share *share);

#endif
