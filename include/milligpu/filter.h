/*
 * filter - which nodes fit a request, and in what order.
 *
 * Whether a node fits is a function of snapshot and request alone.  Hints change order and length of the
 * list only.  No I/O, no lock, no clock.
 */
#ifndef MILLIGPU_FILTER_H
#define MILLIGPU_FILTER_H

#include "milligpu/ledger.h"

/* A pod that was offered a list and is not yet bound: its best place, for ranking only. */
struct ghost {
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
    const struct node *const *node; /* NULL, or per name a node made from a full Node object for names
                                       that the ledger does not know; entries may be NULL */
    uint32_t shortlist;             /* at most so many; 0: all */
    uint32_t ghosts;
    const struct ghost *ghost;
};

struct candidate {
    uint32_t name; /* index into the question's names */
    const struct node *node;
    struct placement placement; /* rules 1 to 3, and where */
};

enum filter_verdict {
    FILTER_FITS,
    FILTER_NONE,     /* reason[] says why, name by name */
    FILTER_RESERVED, /* this uid holds a reservation: only its node, candidates == 1 */
    FILTER_HELD_ELSEWHERE, /* ... and that node is not among the names: an Error */
};

struct filter_answer {
    enum filter_verdict verdict;
    uint32_t fitting;    /* how many fit, before the shortlist */
    uint32_t candidates; /* best first */
    struct candidate *candidate;
    enum reason *reason; /* per name */
    const struct allocation *held; /* RESERVED, HELD_ELSEWHERE; borrowed from the snapshot */
};

/* The answer lives in arena.  The request is valid (REQUEST_OK). */
void filter_ask(const struct filter_question *question, struct arena *arena,
                struct filter_answer *out);

/*
 * Scores for prioritize, 0 .. 10, in the order of names: the best alone gets 10, the others 0 .. 9 by rank,
 * evenly spread; a name that does not fit gets 0.
 */
void filter_score(const struct filter_question *question, struct arena *arena, uint8_t *score);

/* Would the request fit on node if these pods were gone?  (preempt, design 4) */
enum reason preempt_ask(const struct node *node, const struct request *request,
                        const struct text *victims, uint32_t count) MUST_USE;

/* Why not, for people, with the numbers of the moment: "largest free piece 220 milli; 640 free on 4 GPUs". */
void filter_explain(const struct node *node, const struct request *request, char *out,
                    size_t bytes);

/*
 * Group refusals for the answer (design 4): up to names_max nodes one entry each; beyond, one per
 * distinct text, spoken for by the first such name.  Calls emit in the order of names.
 */
void filter_refusals(const struct filter_question *question, const struct filter_answer *answer,
                     uint32_t names_max, void *user,
                     void (*emit)(void *user, struct text name, const char *text));

#endif
