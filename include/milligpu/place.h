/*
 * place - which GPUs of a node a request gets, and which node is best.
 *
 * The order is total; of two placements the first rule that tells them apart decides:
 *   1. smaller charge altogether (only init containers can make a difference here)
 *   2. tighter hole: fewer milli left on the GPUs that are touched
 *   3. fuller node: fewer free milli on the node
 *   4. node name, bytewise
 *   5. GPUs in the order of the wants and parts, by position in the node
 * Two different placements never tie.  The same rules stand, with the same numbers, in
 * policy/README.md.
 *
 * A request of up to EXACT_WANTS_MAX containers is placed exactly: if any placement exists one is
 * found, and it is the best by the rules.  (Dynamic programming over the GPUs: the state is how
 * many parts of each want are placed.)  Beyond, or where the states would exceed
 * EXACT_STATES_MAX, greedily, largest part first, and placement.exact is false.
 *
 * Whole GPUs of the other resource (request.whole) are placed on no GPU: kube-scheduler counts
 * them.  They have no place where shares live, and beside shares of the same pod each needs a GPU
 * more: inside a node fewer touched GPUs then come before rule 1.
 *
 * Pure: filter, bind, preempt and adoption all ask this one function.  Any thread; a room and a
 * placement are some 2 KiB each, at home on the stack.
 */
#ifndef MILLIGPU_PLACE_H
#define MILLIGPU_PLACE_H

#include "milligpu/node.h"

/* What is left on one GPU, as the question sees it (preempt adds room, ranking hints take some). */
struct gpu_room {
    uint32_t milli; /* of the GPU */
    uint32_t mib;
    uint32_t free_milli;
    uint32_t free_mib;
    enum reason closed; /* REASON_NONE: takes shares */
    const struct atom *model;
};

struct room {
    enum reason closed;  /* the whole node: REASON_NO_GPU, REASON_MIXED, REASON_UNPLACED, or none */
    bool shared;         /* a pod has shares here: whole GPUs have no place */
    uint32_t free_milli; /* rule 3 */
    uint32_t gpus;
    struct gpu_room gpu[GPUS_PER_NODE_MAX];
};

struct part {
    uint16_t want; /* index into request.want */
    uint16_t gpu;  /* index into node.gpu */
};

struct placement {
    bool exact;
    uint32_t charge_milli; /* rule 1 */
    uint32_t left_milli;   /* rule 2 */
    uint32_t free_milli;   /* rule 3 */
    uint32_t parts;        /* ordered by want, then gpu */
    struct part part[PARTS_MAX];
};

/* What node offers now. */
void room_of(const struct node *node, struct room *out);

/* The room if these allocations of the node were gone (preemption's victims). */
void room_without(const struct node *node, const struct text *uids, uint32_t count,
                  struct room *out);

/* Set milli of one GPU aside; more than is free leaves 0. */
void room_take(struct room *room, uint32_t gpu, uint32_t milli);

/* REASON_NONE and *out (without parts where the request has no wants), or why not. */
enum reason place_search(const struct room *room, const struct request *request,
                         struct placement *out) MUST_USE;

/* The shares of a placement; share must have room for placement->parts. */
void place_shares(const struct placement *placement, const struct request *request,
                  const struct node *node, struct share *share);

/* Rules 1 to 5; negative if a is better, 0 only for the same placement. */
int placement_cmp(const struct placement *a, const struct atom *node_a, const struct placement *b,
                  const struct atom *node_b);

#endif
