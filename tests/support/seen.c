#include "support/seen.h"

#include <string.h>

#include "milligpu/base/alloc.h"

enum { FIRST_ROOM = 1024 };

static uint64_t mix(uint64_t a, uint64_t b)
{
    const __uint128_t product =
        (__uint128_t)(a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0xe7037ed1a0b428db));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
    const char *at = bytes;
    uint64_t hash = mix(seed, len);
    for (; len >= 16; at += 16, len -= 16) {
        uint64_t word[2];
        memcpy(word, at, 16);
        hash = mix(word[0] ^ hash, word[1]);
    }
    uint64_t rest[2] = {0, 0};
    if (len > 0)
        memcpy(rest, at, len);
    return mix(rest[0] ^ hash, rest[1] ^ UINT64_C(0x8ebc6af09c88c6e3));
}

void seen_init(struct seen *seen)
{
    *seen = (struct seen){.room = FIRST_ROOM};
    seen->hash = xcalloc(seen->room, sizeof *seen->hash);
    seen->found = xcalloc(seen->room, sizeof *seen->found);
}

void seen_done(struct seen *seen)
{
    xfree(seen->hash);
    xfree(seen->found);
}

static size_t place_of(const struct seen *seen, uint64_t hash)
{
    size_t at = (size_t)hash & (seen->room - 1);
    while (seen->hash[at] != 0 && seen->hash[at] != hash)
        at = (at + 1) & (seen->room - 1);
    return at;
}

bool seen_find(const struct seen *seen, uint64_t hash, uint32_t *out)
{
    const size_t at = place_of(seen, hash | (hash == 0));
    if (seen->hash[at] == 0)
        return false;
    *out = seen->found[at];
    return true;
}

static void grow(struct seen *seen)
{
    struct seen larger = {.room = 2 * seen->room, .count = seen->count};
    larger.hash = xcalloc(larger.room, sizeof *larger.hash);
    larger.found = xcalloc(larger.room, sizeof *larger.found);
    for (size_t i = 0; i < seen->room; i++) {
        if (seen->hash[i] == 0)
            continue;
        const size_t at = place_of(&larger, seen->hash[i]);
        larger.hash[at] = seen->hash[i];
        larger.found[at] = seen->found[i];
    }
    seen_done(seen);
    *seen = larger;
}

void seen_put(struct seen *seen, uint64_t hash, uint32_t found)
{
    hash |= hash == 0;
    if (2 * seen->count >= seen->room)
        grow(seen);
    const size_t at = place_of(seen, hash);
    seen->count += seen->hash[at] == 0;
    seen->hash[at] = hash;
    seen->found[at] = found;
}
