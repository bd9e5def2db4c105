/*
 * SipHash with one round for each word and three at the end, as in the hash tables of Python and
 * Rust. Called by the informer's thread for each watch event of a Node, and by the writer's for
 * names. Words are little-endian, as in the reference.
 */
#include "milligpu/base/siphash.h"

#include <string.h>

static inline uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

void siphash_init(struct siphash *hash, const struct siphash_key *key)
{
    *hash = (struct siphash){
        .v = {key->word[0] ^ 0x736f6d6570736575U, key->word[1] ^ 0x646f72616e646f6dU,
              key->word[0] ^ 0x6c7967656e657261U, key->word[1] ^ 0x7465646279746573U}};
}

/* Adds the byte to the rest, and the rest once it is a word. */
static void sip_byte(struct siphash *hash, unsigned char byte)
{
    hash->rest |= (uint64_t)byte << (hash->len % 8 * 8);
    hash->len++;
    if (hash->len % 8 != 0)
        return;
    sip_word(hash->v, hash->rest);
    hash->rest = 0;
}

/* Words are shifted by the rest, unless it is empty: few pieces begin at a word. */
void siphash_add(struct siphash *hash, struct text piece)
{
    const unsigned shift = hash->len % 8 * 8;
    size_t at = 0;

    must(piece.at != NULL || piece.len == 0);
    /* A local state, which stays in registers. */
    uint64_t v[4] = {hash->v[0], hash->v[1], hash->v[2], hash->v[3]};
    uint64_t rest = hash->rest;
    for (; piece.len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, piece.at + at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        sip_word(v, rest | word << shift);
        rest = shift > 0 ? word >> (64 - shift) : 0;
    }
    memcpy(hash->v, v, sizeof v);
    hash->rest = rest;
    hash->len += at;
    for (; at < piece.len; at++)
        sip_byte(hash, (unsigned char)piece.at[at]);
}

uint64_t siphash_end(struct siphash *hash)
{
    sip_word(hash->v, hash->rest | hash->len << 56);
    hash->v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++)
        sip_round(hash->v);
    return hash->v[0] ^ hash->v[1] ^ hash->v[2] ^ hash->v[3];
}
