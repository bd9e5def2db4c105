/*
 * score_caches - a pool of score caches for the webhook threads.
 *
 *   call --score_caches_take()--> score cache --filter_ask()--> --score_caches_give()--> pool
 *
 * A score cache belongs to one call at a time (policy.h). The pool makes a new one only when all
 * others are taken, so it holds as many as calls ever ran at once: by default two, the number of
 * webhook threads, and never more than SCORE_CACHES_MAX; further calls run without one. A score
 * cache that SCORE_CACHES_UNUSED calls did not need is freed.
 *
 * Memory: at most SCORE_CACHES_MAX x SCORE_CACHE_BYTES_MAX = 192 MiB, plus the nodes that score
 * caches refer to, even after the ledger has replaced them. One score cache of 1,213 nodes and 100
 * different requests takes 8 MiB.
 */
#ifndef MILLIGPU_SCORE_CACHES_H
#define MILLIGPU_SCORE_CACHES_H

#include "milligpu/core/rank/policy.h"

enum { SCORE_CACHES_MAX = 4, SCORE_CACHES_UNUSED = 1024 };

struct score_caches;

/* max: 1 .. SCORE_CACHES_MAX */
struct score_caches *score_caches_new(uint32_t max) MUST_USE;
/* NULL is fine. All score caches must have been given back. */
void score_caches_free(struct score_caches *score_caches);

/* Takes the most recently used free score cache. Returns NULL if all are taken. Never waits. */
struct score_cache *score_caches_take(struct score_caches *score_caches) MUST_USE;
/* Also counts the nodes that the call scored (milligpu_judged_nodes_total). NULL is fine. */
void score_caches_give(struct score_caches *score_caches, struct score_cache *cache);

/* Total size of all score caches, each as of its last return to the pool. */
size_t score_caches_bytes(struct score_caches *score_caches);

#endif
