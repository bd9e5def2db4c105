/*
 * Each name once, in a table that grows a few slots at a time: to move all names of a large cluster
 * at once would keep the writer from its batch for milliseconds.
 */
#include "milligpu/names.h"

#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/arena.h"

/* Open addressing. An atom contains its hash, so a slot only needs a pointer. */
struct names {
    const struct atom **slot; /* NULL: free */
    size_t slots;             /* a power of two; at most two thirds of the slots are taken */
    const struct atom **old;  /* the former table of half the size until all have moved, or NULL */
    size_t moved;             /* slots of the former table that have moved */
    size_t count;
    struct arena arena; /* never reset: atoms live as long as the table */
};

enum { SLOTS_MIN = 64, MOVES = 8 }; /* slots of the former table that each new name moves */

struct names *names_new(void)
{
    struct names *names = xmalloc(sizeof *names);
    *names = (struct names){.slot = xcalloc(SLOTS_MIN, sizeof *names->slot), .slots = SLOTS_MIN};
    arena_init(&names->arena);
    must(names->count == 0);
    return names;
}

void names_free(struct names *names)
{
    if (names == NULL)
        return;
    must(names->count == 0 || names->arena.chunk != NULL);
    xfree((void *)(uintptr_t)names->slot);
    xfree((void *)(uintptr_t)names->old);
    arena_done(&names->arena);
    xfree(names);
}

/* The slot of the text, or the free slot where it would go. */
static const struct atom **names_slot_of(const struct atom **table, size_t slots, struct text text,
                                         uint32_t hash)
{
    const size_t mask = slots - 1;
    size_t at = hash & mask;

    must(table != NULL);
    must((slots & mask) == 0);
    while (table[at] != NULL && (table[at]->hash != hash || !text_eq(atom_text(table[at]), text)))
        at = (at + 1) & mask;
    return &table[at];
}

const struct atom *names_find(const struct names *names, struct text text)
{
    must(names != NULL);

    const uint32_t hash = text_hash(text);
    const struct atom *atom = *names_slot_of(names->slot, names->slots, text, hash);
    /* A name that has not moved yet is in the former table only. */
    if (atom == NULL && names->old != NULL)
        atom = *names_slot_of(names->old, names->slots / 2, text, hash);
    must(atom == NULL || atom->len == text.len);
    return atom;
}

/* Names are never removed, so a name that has moved may be in both tables. */
static void names_move_some(struct names *names)
{
    const size_t old_slots = names->slots / 2;

    if (names->old == NULL)
        return;
    for (size_t i = 0; i < MOVES && names->moved < old_slots; i++) {
        const struct atom *atom = names->old[names->moved++];
        if (atom != NULL)
            *names_slot_of(names->slot, names->slots, atom_text(atom), atom->hash) = atom;
    }
    must(names->moved <= old_slots);
    if (names->moved < old_slots)
        return;
    xfree((void *)(uintptr_t)names->old);
    names->old = NULL;
}

/* Double the table; each new name then moves a few of the old ones. */
static void names_make_room(struct names *names)
{
    names_move_some(names);
    if (3 * (names->count + 1) <= 2 * names->slots)
        return;
    must(names->old == NULL); /* moving takes fewer new names than filling */
    names->old = names->slot;
    names->moved = 0;
    names->slots *= 2;
    names->slot = xcalloc(names->slots, sizeof *names->slot);
    must(names->count < names->slots);
}

const struct atom *names_intern(struct names *names, struct text text)
{
    must(names != NULL);
    must(text.len <= UINT32_MAX);

    const struct atom *known = names_find(names, text);
    if (known != NULL)
        return known;

    struct atom *atom = arena_alloc(&names->arena, sizeof *atom + text.len + 1);
    atom->hash = text_hash(text);
    atom->len = (uint32_t)text.len;
    if (text.len > 0)
        memcpy(atom->text, text.at, text.len);
    names_make_room(names);
    must(3 * (names->count + 1) <= 2 * names->slots);
    /* Not before names_make_room(), which may replace the table. */
    *names_slot_of(names->slot, names->slots, atom_text(atom), atom->hash) = atom;
    names->count++;
    must(atom->text[atom->len] == '\0');
    return atom;
}

size_t names_count(const struct names *names)
{
    must(names != NULL);
    return names->count;
}
