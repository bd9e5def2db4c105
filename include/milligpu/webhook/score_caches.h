/*
 * score_caches - what the policies fgd and rollout remember of nodes, for the threads of the
 * webhooks.
 *
 *   question --score_caches_take()--> judge --filter_ask()--> --score_caches_give()--> pool
 *
 * A score cache belongs to one question at a time (policy.h). The pool makes one when a question
 * comes while all others are taken, so there are no more than questions that ran at once: two, as
 * many as the webhooks have threads, and SCORE_CACHES_MAX at most. Under a policy that needs no
 * workload there is none. A score cache that was not needed for SCORE_CACHES_UNUSED questions is
 * freed.
 *
 * Memory: at most SCORE_CACHES_MAX x SCORE_CACHE_BYTES_MAX = 192 MiB, and the nodes that a score
 * cache remembers, which stay in memory when the ledger has newer ones. One score cache of 1,213
 * nodes and 100 different requests takes 8 MiB.
 */
#ifndef MILLIGPU_SCORE_CACHES_H
#define MILLIGPU_SCORE_CACHES_H

#include "milligpu/core/rank/policy.h"

enum { SCORE_CACHES_MAX = 4, SCORE_CACHES_UNUSED = 1024 };

struct score_caches;

/* max: 1 .. SCORE_CACHES_MAX */
struct score_caches *score_caches_new(uint32_t max) MUST_USE;
void score_caches_free(
    struct score_caches *score_caches); /* NULL is fine; all score caches were given back */

/*
 * A score cache for a question about this snapshot, of those that are free the one that was used
 * last. Never waits. NULL, and nothing will be remembered: the snapshot's policy needs none, or all
 * are taken.
 */
struct score_cache *score_caches_take(struct score_caches *score_caches,
                                      const struct snapshot *snapshot) MUST_USE;
/* Counts what the question has done (milligpu_judged_nodes_total). NULL is fine. */
void score_caches_give(struct score_caches *score_caches, struct score_cache *cache);

/* Of all score caches, as of when each was given back. */
size_t score_caches_bytes(struct score_caches *score_caches);

#endif
