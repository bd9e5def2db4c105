/*
 * siphash - SipHash-1-3 (Aumasson, Bernstein 2012): a keyed hash of 64 bits. Nobody who does not
 * know the key, and sees no hash, can construct two inputs with one hash.
 *
 * Pure.
 */
#ifndef MILLIGPU_SIPHASH_H
#define MILLIGPU_SIPHASH_H

#include "milligpu/base/text.h"

struct siphash_key {
    uint64_t word[2];
};

/* The state of one hash. The pieces that are added count as one text. */
struct siphash {
    uint64_t v[4];
    uint64_t rest; /* the last bytes that are no whole word, in its low bytes */
    uint64_t len;  /* bytes added */
};

void siphash_init(struct siphash *hash, const struct siphash_key *key);
void siphash_add(struct siphash *hash, struct text piece);
uint64_t siphash_end(struct siphash *hash);

#endif
