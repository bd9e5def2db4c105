/*
 * Finds a duplicate name by a hash table of indexes (open addressing). Called by the decoders; the
 * table lives in the arena of one call.
 */
#include "distinct.h"

#include "milligpu/base/limits.h"

/* A slot of a table that is at most half full; place is 1 + index of the name, 0 if free. */
struct distinct_slot {
    uint32_t hash;
    uint32_t position;
};

bool distinct_names(struct arena *arena, const struct text *name, uint32_t count, uint32_t *hash,
                    uint32_t *out_second)
{
    uint32_t slots = 16;
    must(count <= NODES_MAX);
    while (slots < count * 2)
        slots *= 2;
    struct distinct_slot *slot = arena_array(arena, slots, sizeof *slot);
    for (uint32_t i = 0; i < count; i++) {
        hash[i] = text_hash(name[i]);
        uint32_t at = hash[i] & (slots - 1);
        for (; slot[at].position != 0; at = (at + 1) & (slots - 1))
            /* Comparing hashes first avoids nearly all comparisons of names. */
            if (slot[at].hash == hash[i] && text_eq(name[slot[at].position - 1], name[i])) {
                *out_second = i;
                return false;
            }
        slot[at] = (struct distinct_slot){hash[i], i + 1};
    }
    return true;
}
