/*
 * tolerations - a counted set of the tolerations of all pods that wait for or hold shares.
 *
 * A taint that none of them tolerates closes its nodes in sums and for the reserve
 * (node_filter.h). Tenants write tolerations, so the set has at most TOLERATIONS_MAX, each of at
 * most TOLERATION_BYTES_MAX; others are ignored. That is conservative: a host is not counted as
 * reserve, and room is shown as closed.
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
 * Counts the toleration of one more pod. Returns a handle for tolerations_drop(); NULL: not
 * counted.
 */
struct known_toleration *tolerations_add(struct tolerations *tolerations,
                                         const struct toleration *toleration) MUST_USE;
void tolerations_drop(struct tolerations *tolerations, struct known_toleration *known);

/* A version number, new whenever the set of tolerated taints may have changed. */
uint64_t tolerations_version(const struct tolerations *tolerations);

bool tolerations_cover(const struct tolerations *tolerations, const struct taint *taint);

#endif
