/*
 * filter - which nodes fit a request, and in what order.
 *
 *   names --> node --> place_search --> rank --> the best so many, best first
 *                  \-> reason, name by name, if none fits
 *
 * Invariants:
 *   1. Whether a node fits is a function of snapshot and request alone: tentative placements and
 *      the shortlist change the order and the length of the list only.
 *   2. Same question, same answer (I5); the order is that of place.h, and a name that comes twice
 *      stands in the order of the question.
 *
 * Pure: no I/O, no lock, no clock.  Any thread that holds the snapshot.
 */
#ifndef MILLIGPU_FILTER_H
#define MILLIGPU_FILTER_H

#include "milligpu/ledger.h"
#include "milligpu/place.h"

/* A pod that was offered a list and is not yet bound: its best place, for ranking only. */
struct tentative {
    const struct atom *node;
    const struct atom *gpu;
    uint32_t milli;
};

struct filter_question {
    const struct snapshot *snapshot;
    const struct request *request;
    struct text uid;
    uint32_t names;
    const struct text *name;
    const uint32_t *hash; /* per name its text_hash(); NULL: not known */
    const struct node *const
        *node;          /* NULL, or per name NULL or a node made from a full Node object:
                                       looked at for names that the ledger does not know */
    uint32_t shortlist; /* at most so many; 0: all */
    uint32_t tentatives;
    const struct tentative *tentative;
};

struct candidate {
    uint32_t name; /* index into the question's names */
    const struct node *node;
    bool behind;      /* the tentative placements fill the node: behind all where they leave room */
    struct rank rank; /* few bytes: thousands of names are ranked, few are placed */
    const struct placement *placement; /* where; of the best candidate only, NULL for the others.
                                          Without parts if RESERVED: held tells */
};

enum filter_verdict {
    FILTER_FITS,
    FILTER_NONE,           /* reason[] says why, name by name */
    FILTER_RESERVED,       /* this uid holds a reservation: only its node, candidates == 1 */
    FILTER_HELD_ELSEWHERE, /* ... and that node is not among the names: an Error */
};

struct filter_answer {
    enum filter_verdict verdict;
    uint32_t fitting;    /* how many fit, before the shortlist */
    uint32_t candidates; /* best first */
    struct candidate *candidate;
    uint64_t steps;                /* of all searches */
    enum reason *reason;           /* per name */
    const struct allocation *held; /* RESERVED, HELD_ELSEWHERE; borrowed from the snapshot */
};

/* The answer lives in arena.  The request is valid (REQUEST_OK). */
void filter_ask(const struct filter_question *question, struct arena *arena,
                struct filter_answer *out);

/*
 * Scores for prioritize, 0 .. 10, in the order of names: the best alone gets 10, the others
 * 0 .. 9 by rank, evenly spread; a name that does not fit gets 0.
 */
void filter_score(const struct filter_question *question, struct arena *arena, uint8_t *score);

/*
 * Would the pod be taken on node if these pods were gone?  (preempt, design 4)  held: its own
 * reservation, NULL if it has none; what has one goes there and nowhere else.
 */
enum reason preempt_ask(const struct node *node, const struct request *request,
                        const struct allocation *held, const struct text *victims,
                        uint32_t count) MUST_USE;

/*
 * Why not, for people, with the numbers of the moment: "room: not enough milli or MiB left in one
 * piece; largest free piece 220 milli, 640 milli free on 4 of 8 GPUs, 1 cordoned".
 */
void filter_explain(const struct node *node, const struct request *request, char *out,
                    size_t bytes);

/*
 * Refusals for the answer of FILTER_NONE, else nothing: up to names_max nodes one entry each;
 * beyond, one per distinct text under the first such name, saying that it speaks for all of them.
 * Calls emit in the order of names; the text is valid during the call.
 */
extern const char FILTER_SPEAKS_FOR_ALL[];
void filter_refusals(const struct filter_question *question, const struct filter_answer *answer,
                     uint32_t names_max, void *user,
                     void (*emit)(void *user, struct text name, const char *text));

#endif
