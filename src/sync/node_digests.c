/*
 * The table of node_digests.h: open addressing, linear probing, at most three quarters full. A
 * forgotten Node keeps its slot, without a digest, until the table is built anew.
 */
#include "milligpu/sync/node_digests.h"

#include "milligpu/base/alloc.h"
#include "milligpu/run/mutex.h"

enum { SLOTS_MIN = 64, SLOTS_MAX = 2 * NODES_MAX };

/* name 0: free. bytes 0: forgotten. */
struct digest_slot {
    uint64_t name;
    uint64_t bytes;
};

struct node_digests {
    struct siphash_key key;
    struct mutex lock; /* guards everything below */
    struct digest_slot *slot;
    size_t slots; /* a power of two; 0 before the first Node */
    size_t taken; /* slots with a name */
    size_t live;  /* and with a digest; at most NODES_MAX */
};

struct node_digests *node_digests_new(const struct siphash_key *key)
{
    struct node_digests *digests = xcalloc(1, sizeof *digests);

    digests->key = *key;
    mutex_init(&digests->lock);
    return digests;
}

void node_digests_free(struct node_digests *digests)
{
    if (digests == NULL)
        return;
    xfree(digests->slot);
    mutex_done(&digests->lock);
    xfree(digests);
}

const struct siphash_key *node_digests_key(const struct node_digests *digests)
{
    return &digests->key;
}

/* Returns the slot of the name, or the free one for it. */
static struct digest_slot *slot_of(struct digest_slot *table, size_t slots, uint64_t name)
{
    must(name != 0);
    must(slots > 0 && (slots & (slots - 1)) == 0);

    size_t at = name & (slots - 1);
    while (table[at].name != 0 && table[at].name != name)
        at = (at + 1) & (slots - 1);
    return &table[at];
}

/*
 * Drops forgotten Nodes. The new table is at most three eighths full, or half full if it has
 * SLOTS_MAX, so the work is shared by many Nodes.
 */
static void rebuild(struct node_digests *digests) REQUIRES(digests->lock)
{
    struct digest_slot *old = digests->slot;
    const size_t old_slots = digests->slots;
    size_t slots = SLOTS_MIN;

    while (slots < SLOTS_MAX && digests->live * 8 >= slots * 3)
        slots *= 2;
    digests->slot = xcalloc(slots, sizeof *digests->slot);
    digests->slots = slots;
    digests->taken = digests->live;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].bytes != 0)
            *slot_of(digests->slot, slots, old[i].name) = old[i];
    xfree(old);
}

bool node_digests_has(struct node_digests *digests, const struct node_digest *digest)
{
    must(digest->name != 0 && digest->bytes != 0);

    mutex_lock(&digests->lock);
    const bool has = digests->slots > 0 &&
                     slot_of(digests->slot, digests->slots, digest->name)->bytes == digest->bytes;
    mutex_unlock(&digests->lock);
    return has;
}

void node_digests_remember(struct node_digests *digests, const struct node_digest *digest)
{
    must(digest->name != 0 && digest->bytes != 0);

    mutex_lock(&digests->lock);
    if ((digests->taken + 1) * 4 > digests->slots * 3)
        rebuild(digests);
    struct digest_slot *slot = slot_of(digests->slot, digests->slots, digest->name);
    if (slot->bytes != 0 || digests->live < NODES_MAX) {
        digests->taken += slot->name == 0;
        digests->live += slot->bytes == 0;
        *slot = (struct digest_slot){digest->name, digest->bytes};
    }
    must(digests->live <= digests->taken && digests->taken < digests->slots);
    mutex_unlock(&digests->lock);
}

void node_digests_forget(struct node_digests *digests, struct text name)
{
    const uint64_t hash = node_digest_name(name, &digests->key);

    mutex_lock(&digests->lock);
    if (digests->slots > 0) {
        struct digest_slot *slot = slot_of(digests->slot, digests->slots, hash);
        digests->live -= slot->bytes != 0;
        slot->bytes = 0;
    }
    mutex_unlock(&digests->lock);
}

void node_digests_clear(struct node_digests *digests)
{
    mutex_lock(&digests->lock);
    xfree(digests->slot);
    digests->slot = NULL;
    digests->slots = digests->taken = digests->live = 0;
    mutex_unlock(&digests->lock);
}
