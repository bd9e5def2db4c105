/*
 * judges - what the policies fgd and rollout remember of nodes, for the threads of the webhooks.
 *
 *   question --judges_take()--> judge --filter_ask()--> --judges_give()--> pool
 *
 * A judge belongs to one question at a time (policy.h). The pool makes one when a question comes
 * while all others are taken, so there are no more than questions that ran at once: two, as many as
 * the webhooks have threads, and JUDGES_MAX at most. Under a policy that needs no workload there is
 * none. A judge that was not needed for JUDGES_UNUSED questions is freed.
 *
 * Memory: at most JUDGES_MAX x JUDGE_BYTES_MAX = 192 MiB, and the nodes that a judge remembers,
 * which stay in memory when the ledger has newer ones. One judge of 1,213 nodes and 100 different
 * requests takes 8 MiB.
 */
#ifndef MILLIGPU_JUDGES_H
#define MILLIGPU_JUDGES_H

#include "milligpu/core/rank/policy.h"

enum { JUDGES_MAX = 4, JUDGES_UNUSED = 1024 };

struct judges;

/* max: 1 .. JUDGES_MAX */
struct judges *judges_new(uint32_t max) MUST_USE;
void judges_free(struct judges *judges); /* NULL is fine; all judges were given back */

/*
 * A judge for a question about this snapshot, of those that are free the one that was used last.
 * Never waits. NULL, and nothing will be remembered: the snapshot's policy needs none, or all are
 * taken.
 */
struct judge *judges_take(struct judges *judges, const struct snapshot *snapshot) MUST_USE;
/* Counts what the question has done (milligpu_judged_nodes_total). NULL is fine. */
void judges_give(struct judges *judges, struct judge *judge);

/* Of all judges, as of when each was given back. */
size_t judges_bytes(struct judges *judges);

#endif
