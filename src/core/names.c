#include "milligpu/names.h"

#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/arena.h"

/* Open addressing.  An atom knows its hash, so a slot needs to be no more than where it is. */
struct names {
    const struct atom **slot; /* NULL: free */
    size_t slots;             /* a power of two, at most two thirds of them taken */
    size_t count;
    struct arena arena; /* never reset: atoms live as long as the table */
};

enum { SLOTS_MIN = 64 };

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
    arena_done(&names->arena);
    xfree(names);
}

/* Where the text stands, or the free slot where it would. */
static const struct atom **slot_of(const struct names *names, struct text text, uint32_t hash)
{
    const size_t mask = names->slots - 1;
    size_t at = hash & mask;

    must(names->count < names->slots);
    must((names->slots & mask) == 0);
    while (names->slot[at] != NULL &&
           (names->slot[at]->hash != hash || !text_eq(atom_text(names->slot[at]), text)))
        at = (at + 1) & mask;
    return &names->slot[at];
}

const struct atom *names_find(const struct names *names, struct text text)
{
    must(names != NULL);

    const struct atom *atom = *slot_of(names, text, text_hash(text));
    must(atom == NULL || atom->len == text.len);
    return atom;
}

static void make_room(struct names *names)
{
    const struct names old = *names;

    if (3 * (names->count + 1) <= 2 * names->slots)
        return;
    names->slots *= 2;
    names->slot = xcalloc(names->slots, sizeof *names->slot);
    for (size_t i = 0; i < old.slots; i++)
        if (old.slot[i] != NULL)
            *slot_of(names, atom_text(old.slot[i]), old.slot[i]->hash) = old.slot[i];
    xfree((void *)(uintptr_t)old.slot);
    must(names->slots > old.slots);
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
    make_room(names);
    must(3 * (names->count + 1) <= 2 * names->slots);
    *slot_of(names, atom_text(atom), atom->hash) = atom;
    names->count++;
    must(atom->text[atom->len] == '\0');
    return atom;
}
