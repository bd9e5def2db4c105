#include "seen.h"

#include "milligpu/alloc.h"

enum { FIRST_ROOM = 1024 };

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
