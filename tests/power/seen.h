/*
 * seen - a set of hashes, with what was found for each.
 */
#ifndef MILLIGPU_TESTS_POWER_SEEN_H
#define MILLIGPU_TESTS_POWER_SEEN_H

#include "milligpu/base.h"

struct seen {
    uint64_t *hash; /* 0: free */
    uint32_t *found;
    size_t count;
    size_t room; /* a power of two */
};

void seen_init(struct seen *seen);
void seen_done(struct seen *seen);
bool seen_find(const struct seen *seen, uint64_t hash, uint32_t *out);
void seen_put(struct seen *seen, uint64_t hash, uint32_t found);

#endif
