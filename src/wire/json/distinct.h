/*
 * distinct - does every name occur only once?
 *
 * kube-scheduler never sends a name twice; another sender that does is told which one. Linear: the
 * hash is seeded, so no choice of names makes it slow.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_DISTINCT_H
#define MILLIGPU_WIRE_DISTINCT_H

#include "milligpu/base/arena.h"

/*
 * True if no two of count names are equal; else *out_second is the later of the two. hash[i]
 * becomes text_hash(name[i]) either way, for the names that were examined.
 */
bool distinct_names(struct arena *arena, const struct text *name, uint32_t count, uint32_t *hash,
                    uint32_t *out_second);

#endif
