/*
 * defrag - which pods to move so that the workload can use more of what is free.
 *
 *   snapshot --> nodes with free milli --> candidates: pods on nodes with fragments
 *                      ^                        |
 *                      |                  for each: where would it go, were it gone? gain?
 *                      \--- the best move --------/      ... until nothing is gained
 *
 * A plan for people: nothing here moves a pod. A move means that the pod is evicted and created
 * anew, so its old place is free when the new one is chosen, and the new one is chosen by the
 * functions that answer filter and bind: the best node by policy_score_room() and order_cmp(), and
 * on it the placement of the policy. Each move is planned on the nodes as the former moves leave
 * them, so the moves fit in this order.
 *
 * The gain of a move is by how many milli it lowers the fragments (fragment.h) of the two nodes.
 * Moves never change what is free altogether, so that is also by how much more the workload can
 * use. Of all candidates the one with the largest gain moves next; of equals the one that holds
 * less, then the one that comes first.
 *
 * Candidates are live pods that milligpu granted and that are bound: not reserved, adopted, in
 * doubt, terminating, or with another annotation than the ledger's. They come from the nodes with
 * the most fragments first, at most DEFRAG_PODS_MAX pods that ask for at most DEFRAG_REQUESTS_MAX
 * different things. A pod moves once. A node that is known to lack CPU or memory for the pod is
 * left out, because kube-scheduler would refuse it there.
 *
 * Pure. The search is bounded in steps, not in time, so the same question gets the same answer. A
 * step takes a microsecond or some: a node that is judged for a request, 16 steps of its search
 * (place.h), a placement that the policy judges, or a node whose fragments are measured.
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
    const struct snapshot *snapshot; /* it must outlive the plan */
    uint32_t moves;                  /* at most; 1 .. DEFRAG_MOVES_MAX */
    uint32_t min_gain_milli;         /* of each move; at least 1 */
    uint32_t steps;                  /* DEFRAG_STEPS_MAX except in tests */
    void *user;
    /*
     * What this pod asks for; NULL: not known, or it is not to move. Borrowed until the next call.
     */
    const struct request *(*request_of)(void *user, const struct allocation *pod);
};

struct defrag_move {
    const struct allocation *from; /* of the snapshot */
    const struct allocation *to;   /* the same pod on its new node and GPUs; a reference */
    const struct node *from_node;  /* as the former moves leave it; a reference */
    const struct node *to_node;    /* with the pod; a reference */
    uint32_t gain_milli;
};

/* One of the commonest shapes of the workload, and how many such pods fit. */
struct defrag_shape {
    const struct workload_class *class; /* of the snapshot's workload */
    uint64_t before;
    uint64_t after; /* all moves */
};

struct defrag_plan {
    uint64_t free_milli; /* that takes new shares; the moves do not change it */
    uint64_t fragment_milli;
    uint64_t fragment_milli_after;
    uint32_t moves;
    struct defrag_move move[DEFRAG_MOVES_MAX];
    uint32_t shapes;
    struct defrag_shape shape[DEFRAG_SHAPES];
    uint32_t pods;  /* candidates */
    uint32_t steps; /* that the search took */
    bool learned;   /* false: the snapshot knows no workload, so nothing is a fragment */
    bool cut_short; /* by steps: there may be better moves, or more */
    bool left_out;  /* there are more candidates than were looked at */
};

/* Free it with defrag_plan_free(). */
struct defrag_plan *defrag_plan_new(const struct defrag_question *question) MUST_USE;
void defrag_plan_free(struct defrag_plan *plan); /* NULL is fine */
static inline void defrag_plan_freep(struct defrag_plan **plan)
{
    defrag_plan_free(*plan);
}

#endif
