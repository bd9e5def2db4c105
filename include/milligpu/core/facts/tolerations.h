/*
 * tolerations - the distinct tolerations of the pods that wait for shares or hold them, counted.
 *
 * A taint that none of them tolerates closes its nodes in sums and for the reserve
 * (node_filter.h). Tenants write tolerations, so at most TOLERATIONS_MAX are counted, each of at
 * most TOLERATION_BYTES_MAX: what does not fit tolerates nothing here. That errs to the safe side:
 * a host is not taken for a reserve, and room is shown as closed.
 *
 * Not thread-safe.
 */
#ifndef MILLIGPU_TOLERATIONS_H
#define MILLIGPU_TOLERATIONS_H

#include "milligpu/core/facts/node_filter.h"

enum { TOLERATIONS_MAX = 256, TOLERATION_BYTES_MAX = 1024 };

struct tolerations;

struct tolerations *tolerations_new(void) MUST_USE;
void tolerations_free(struct tolerations *tolerations); /* NULL is fine */

/*
 * One pod more has this toleration. Returns what tolerations_drop() takes; NULL: it is not counted.
 */
struct known_toleration *tolerations_add(struct tolerations *tolerations,
                                         const struct toleration *toleration) MUST_USE;
void tolerations_drop(struct tolerations *tolerations, struct known_toleration *known);

/* Differs from every earlier number if other taints may be tolerated now. */
uint64_t tolerations_version(const struct tolerations *tolerations);

bool tolerations_cover(const struct tolerations *tolerations, const struct taint *taint);

#endif
