/*
 * distinct - finds a duplicate in a list of names.
 *
 * kube-scheduler sends none; for other senders the error names the duplicate. Linear time: the hash
 * is seeded, so chosen names cannot collide.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_DISTINCT_H
#define MILLIGPU_WIRE_DISTINCT_H

#include "milligpu/base/arena.h"

/*
 * Returns true if the names are distinct; else *out_second is the index of the later of two equal
 * names. Sets hash[i] to text_hash(name[i]) for each examined name.
 */
bool distinct_names(struct arena *arena, const struct text *name, uint32_t count, uint32_t *hash,
                    uint32_t *out_second);

#endif
