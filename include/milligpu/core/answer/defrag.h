/*
 * defrag - which pods to move so that the workload can use more of the free capacity.
 *
 *   snapshot --> nodes with free milli --> candidates: pods on nodes with fragments
 *                      ^                        |
 *                      |                  for each: its best place elsewhere, and the gain
 *                      \--- the best move --------/      ... until there is no gain
 *
 * A plan for people: nothing here moves a pod. To move a pod, it is evicted and created again, so
 * its old place is free when the new one is chosen, and the new one is chosen by the functions that
 * answer filter and bind: the best node by policy_score_room() and order_cmp(), and on it the
 * placement of the policy. Each move is planned on the nodes as they are after the previous moves,
 * so the moves fit in this order.
 *
 * The gain of a move is the decrease, in milli, of the fragments (fragment.h) of the two nodes.
 * Moves never change the total free capacity, so the usable capacity grows by the same amount. The
 * candidate with the largest gain moves next; of equals the one that holds less, then the first.
 *
 * Candidates are live pods that milligpu granted and that are bound: not reserved, adopted, in
 * doubt, terminating, or with another annotation than the ledger's. They come from the nodes with
 * the most fragments first, at most DEFRAG_PODS_MAX pods with at most DEFRAG_REQUESTS_MAX distinct
 * requests. A pod moves once. A node known to lack CPU or memory for the pod is skipped, because
 * kube-scheduler would refuse it there.
 *
 * Pure. The search is bounded in steps, not in time, so the same question gets the same answer. A
 * step takes a few microseconds at most: a node judged for a request, 16 steps of its search
 * (place.h), a placement judged by the policy, or a node whose fragments are measured.
 */
#ifndef MILLIGPU_DEFRAG_H
#define MILLIGPU_DEFRAG_H

#include "milligpu/core/node/snapshot.h"

enum {
    DEFRAG_MOVES_MAX = 100,
    DEFRAG_PODS_MAX = 4096,
    DEFRAG_REQUESTS_MAX = 64,
    DEFRAG_STEPS_MAX = 1 << 19,
    DEFRAG_SHAPES = 3,
};

struct defrag_question {
    const struct snapshot *snapshot; /* must outlive the plan */
    uint32_t moves;                  /* limit, 1 .. DEFRAG_MOVES_MAX */
    uint32_t min_gain_milli;         /* minimum for each move; at least 1 */
    uint32_t steps;                  /* limit of the search; DEFRAG_STEPS_MAX except in tests */
    void *user;
    /*
     * The request of this pod, borrowed until the next call; NULL: unknown, or the pod must not
     * move.
     */
    const struct request *(*request_of)(void *user, const struct allocation *pod);
};

struct defrag_move {
    const struct allocation *from; /* borrowed from the snapshot */
    const struct allocation *to;   /* the same pod on its new node and GPUs; a reference */
    const struct node *from_node;  /* after the previous moves; a reference */
    const struct node *to_node;    /* with the pod; a reference */
    uint32_t gain_milli;
};

/* One of the most frequent shapes of the workload, and how many such pods fit. */
struct defrag_shape {
    const struct workload_class *class; /* of the snapshot's workload */
    uint64_t before;
    uint64_t after; /* after all moves */
};

struct defrag_plan {
    uint64_t free_milli; /* open for new shares; the moves do not change it */
    uint64_t fragment_milli;
    uint64_t fragment_milli_after;
    uint32_t n_moves;
    struct defrag_move move[DEFRAG_MOVES_MAX];
    uint32_t n_shapes;
    struct defrag_shape shape[DEFRAG_SHAPES];
    uint32_t pods;  /* number of candidates */
    uint32_t steps; /* taken by the search */
    bool learned;   /* false: the snapshot has no workload, so there are no fragments */
    bool cut_short; /* the step limit was reached: better or more moves may exist */
    bool left_out;  /* some candidates were not examined */
};

/* Free it with defrag_plan_free(). */
struct defrag_plan *defrag_plan_new(const struct defrag_question *question) MUST_USE;
void defrag_plan_free(struct defrag_plan *plan); /* NULL is allowed */
static inline void defrag_plan_freep(struct defrag_plan **plan)
{
    defrag_plan_free(*plan);
}

#endif
