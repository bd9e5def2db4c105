/*
 * filter - which nodes fit a request, and in what order.
 *
 *   names --> node --> policy_score --> rank --> the shortlist, best first
 *                  \-> reason, name by name, if none fits
 *
 * Invariants:
 *   1. Whether a node fits is a function of snapshot and request alone: offers and the shortlist
 *      change only the order and length of the list.
 *   2. Same question, same answer (I5). The order is that of the snapshot's policy (policy.h); a
 *      name given twice is listed in the order of the question.
 *
 * Pure: no I/O, no lock, no clock. Any thread that holds the snapshot.
 */
#ifndef MILLIGPU_FILTER_H
#define MILLIGPU_FILTER_H

#include "milligpu/core/ledger/ledger.h"
#include "milligpu/core/rank/policy.h"

/*
 * The best place of a recent shortlist whose pod has no reservation yet; for ranking only. The
 * pointers are compared and never dereferenced: the names may have been freed.
 */
struct offer {
    const struct atom *node;
    const struct atom *gpu;
    uint32_t milli;
};

struct filter_question {
    const struct snapshot *snapshot;
    const struct request *request;
    struct text uid;
    uint32_t n_names;
    const struct text *name;
    const uint32_t *hash; /* text_hash() of each name; NULL: unknown */
    /* For each name, its node in known_in, a snapshot that the caller holds; NULL: unknown. */
    const struct known_node *known;
    const struct snapshot *known_in;
    /* For each name unknown to the ledger, a node built from its Node object; or NULL. */
    const struct node *const *node;
    uint32_t shortlist;        /* maximum length of the list; 0: no limit */
    struct score_cache *cache; /* cached judgements; NULL: no caching */
    uint32_t n_offers;
    const struct offer *offer; /* copied before the snapshot was taken */
};

struct candidate {
    uint32_t name; /* index into the question's names */
    uint32_t slot; /* slot in the snapshot, or SNAPSHOT_NO_SLOT */
    const struct node *node;
    /* Small, because thousands of names are ranked and few are placed. */
    struct rank rank;
    /* Placement of the best candidate only; without parts if RESERVED (see held). */
    const struct placement *placement;
};

enum filter_verdict {
    FILTER_FITS,
    FILTER_NONE,     /* cause[] has the reason for each name */
    FILTER_RESERVED, /* this uid has a reservation: its node is the only candidate */
    /* The node of the uid's reservation is not among the names: answer with an Error. */
    FILTER_HELD_ELSEWHERE,
    FILTER_LISTED_UNBOUND, /* bound in the ledger only: answer with an Error */
};

struct filter_answer {
    enum filter_verdict verdict;
    uint32_t fitting;      /* number of nodes that fit, before the shortlist */
    uint32_t n_candidates; /* best first */
    struct candidate *candidate;
    uint64_t steps;      /* search steps of all nodes */
    uint64_t work;       /* of all nodes, in units of policy.h; 0 with a reservation */
    struct cause *cause; /* by name; REASON_NONE: it fits */
    /* RESERVED, HELD_ELSEWHERE, LISTED_UNBOUND; borrowed from the snapshot */
    const struct allocation *held;
};

/*
 * Answers a filter call; the answer lives in arena. The request must be valid (REQUEST_OK), or
 * request no GPU: it then fits on every known node, and is only ranked.
 */
void filter_ask(const struct filter_question *question, struct arena *arena,
                struct filter_answer *out);

/*
 * Scores for prioritize, 0 .. 10, in the order of names: only the best node gets 10, the others 0
 * .. 9 evenly by rank; a name that does not fit gets 0.
 */
void filter_score(const struct filter_question *question, struct arena *arena, uint8_t *score);

/*
 * Does the pod fit on node without these victims (preempt)? held: its own reservation, NULL if
 * none; a pod with a reservation fits only there, one listed unbound nowhere.
 */
enum reason preempt_ask(const struct policy_context *context, const struct node *node,
                        const struct request *request, const struct allocation *held,
                        const struct text *victims, uint32_t count) MUST_USE;

/*
 * The reason for people, with current numbers: "room: not enough milli or MiB left in one piece;
 * largest free piece 220 milli, 640 milli free on 4 of 8 GPUs, 1 cordoned".
 */
void filter_explain(const struct policy_context *context, const struct node *node,
                    const struct request *request, char *out, size_t bytes);

/* The suffix of a refusal that stands for all nodes with the same text. */
extern const char FILTER_SPEAKS_FOR_ALL[];
/*
 * Calls emit with the refusals if the verdict is FILTER_NONE: one per node for up to names_max
 * nodes; beyond that, one per distinct text, at the first node with it, with
 * FILTER_SPEAKS_FOR_ALL. In the order of names; text is valid during the call.
 */
void filter_refusals(const struct filter_question *question, const struct filter_answer *answer,
                     uint32_t names_max, void *user,
                     void (*emit)(void *user, struct text name, const char *text));

#endif
