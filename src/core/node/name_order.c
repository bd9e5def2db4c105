/*
 * Implements the guesses of names: for each slot of the ledger, the slot whose name came next in
 * some earlier list. Called by the decoder of filter, on the thread of the call. A repeated name is
 * noticed by the number of the list that is kept for each slot.
 */
#include "milligpu/core/node/name_order.h"

#include <string.h>

#include "milligpu/base/alloc.h"

#include "snapshot_internal.h"

struct name_order {
    const struct snapshot *snapshot; /* of the current list, borrowed */
    uint32_t slots;
    uint32_t *next; /* by slot: the slot that came next */
    uint16_t *list; /* by slot: the list in which it came last; 0: none of those numbered since */
    uint16_t now;   /* number of the current list; 0: none */
    uint32_t at;    /* slot of the last name; SNAPSHOT_NO_SLOT: none, or not in the ledger */
    uint32_t names; /* of the current list, so far */
    uint32_t former;
    uint32_t guessed; /* guesses made at once the last time */
    uint32_t came;    /* as many of them were right */
};

struct name_order *name_order_new(void)
{
    struct name_order *order = xcalloc(1, sizeof *order);

    must(order->slots == 0 && order->now == 0);
    must(order->next == NULL);
    return order;
}

void name_order_free(struct name_order *order)
{
    if (order == NULL)
        return;
    must(order->slots == 0 || order->next != NULL);
    must(order->slots == 0 || order->list != NULL);
    xfree(order->next);
    xfree(order->list);
    xfree(order);
}

size_t name_order_bytes(const struct name_order *order)
{
    const size_t bytes = sizeof *order + order->slots * (sizeof *order->next + sizeof *order->list);

    must(order->slots % BOOK_NODES == 0);
    must(bytes <= NAME_ORDER_BYTES_MAX);
    return bytes;
}

/* A new slot is followed by the next one: nodes are often listed in the order they were added. */
static void name_order_grow(struct name_order *order, uint32_t slots)
{
    must(slots > order->slots);
    must(slots % BOOK_NODES == 0);
    order->next = xrealloc(order->next, slots, sizeof *order->next);
    order->list = xrealloc(order->list, slots, sizeof *order->list);
    for (uint32_t slot = order->slots; slot < slots; slot++) {
        order->next[slot] = slot + 1;
        order->list[slot] = 0;
    }
    order->slots = slots;
}

void name_order_begin(struct name_order *order, const struct snapshot *snapshot)
{
    must(snapshot != NULL);
    if (snapshot->slots > order->slots)
        name_order_grow(order, snapshot->slots);
    if (++order->now == 0) { /* numbers start again */
        memset(order->list, 0, order->slots * sizeof *order->list);
        order->now = 1;
    }
    must(order->slots >= snapshot->slots);
    order->snapshot = snapshot;
    order->former = order->names;
    order->names = 0;
    order->at = SNAPSHOT_NO_SLOT;
}

uint32_t name_order_former(const struct name_order *order)
{
    must(order->now > 0);
    return order->former;
}

/* Twice as many as last time if all of those came, else one. */
static uint32_t guesses_of(const struct name_order *order)
{
    const bool all_came = order->guessed > 0 && order->came == order->guessed;
    const uint32_t most = all_came ? 2 * order->guessed : 1;

    must(order->guessed <= NAME_GUESSES);
    must(order->came <= order->guessed);
    return most < NAME_GUESSES ? most : NAME_GUESSES;
}

/* Fetches in steps that depend on each other, as snapshot_nodes() does. */
static uint32_t fetch_guesses(const struct snapshot *snapshot, struct known_node *guess,
                              uint32_t count)
{
    const struct node *const *place[NAME_GUESSES];
    uint32_t found = 0;

    must(count <= NAME_GUESSES);
    for (uint32_t i = 0; i < count; i++) {
        place[i] = &slot_page(snapshot->book, guess[i].slot)->node[guess[i].slot % PAGE_NODES];
        __builtin_prefetch(place[i]);
    }
    for (; found < count && *place[found] != NULL; found++) {
        guess[found].node = *place[found];
        __builtin_prefetch(guess[found].node); /* usually one cache line, else two */
        __builtin_prefetch(&guess[found].node->free_milli);
    }
    for (uint32_t i = 0; i < found; i++)
        __builtin_prefetch(guess[i].node->name);
    must(found <= count);
    return found;
}

uint32_t name_order_guess(struct name_order *order, struct known_node guess[NAME_GUESSES])
{
    const uint32_t most = guesses_of(order);
    uint32_t count = 0;
    uint32_t slot = order->at;

    must(order->now > 0);
    while (count < most && slot != SNAPSHOT_NO_SLOT) {
        slot = order->next[slot];
        if (slot >= order->snapshot->slots)
            break;
        guess[count++].slot = slot;
    }
    order->guessed = fetch_guesses(order->snapshot, guess, count);
    order->came = 0;
    must(order->guessed <= most);
    return order->guessed;
}

/* Returns false if the slot's name came in this list before. */
static inline bool name_order_note(struct name_order *order, uint32_t slot)
{
    must(slot < order->slots);
    const bool again = order->list[slot] == order->now;
    order->list[slot] = order->now;
    return !again;
}

bool name_order_came(struct name_order *order, const struct known_node *guess, uint32_t count)
{
    bool distinct = true;

    must(guess != NULL);
    must(count <= order->guessed);
    for (uint32_t i = 0; i < count; i++)
        distinct &= name_order_note(order, guess[i].slot);
    if (count > 0)
        order->at = guess[count - 1].slot;
    order->names += count;
    order->came = count;
    return distinct;
}

/* An unknown name may be a second one: nothing is remembered of it. */
bool name_order_other(struct name_order *order, struct text name, uint32_t hash,
                      struct known_node *out)
{
    must(order->now > 0);
    snapshot_nodes(order->snapshot, 1, &name, &hash, &out->node, &out->slot);
    must((out->node == NULL) == (out->slot == SNAPSHOT_NO_SLOT));
    if (out->node != NULL && order->at != SNAPSHOT_NO_SLOT)
        order->next[order->at] = out->slot;
    order->at = out->slot;
    order->names++;
    order->came = 0; /* so the next guess is one */
    return out->node != NULL && name_order_note(order, out->slot);
}
