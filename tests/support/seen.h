/*
 * seen - a set of hashes, with what was found for each: what is the same byte for byte need not be
 * looked at again.
 */
#ifndef MILLIGPU_TESTS_SEEN_H
#define MILLIGPU_TESTS_SEEN_H

#include "milligpu/base/base.h"

uint64_t hash_bytes(const void *bytes, size_t len, uint64_t seed);

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
