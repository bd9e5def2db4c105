/*
 * A hash table of interned names: pointers to atoms, which contain their hashes; linear probing, at
 * most three quarters full, without tombstones: a removal closes its gap. In a large table each
 * atom that is read misses the cache. So the low bits of a pointer, which are zero by its
 * alignment, hold as many bits of the hash, and a look-up leaves most of the other atoms unread.
 * The home of a name is hash * slots / 2^32, so that slots can be any number, and tables of any
 * size have their names in about the same order.
 *
 * The table grows by a half, shrinks by a third, and rehashes incrementally: moving all names of a
 * large cluster at once would block the writer's batch for milliseconds. Meanwhile there are two
 * tables, and each name is in one of them only. New names and sweeps move the names of the old
 * table, which gets no others, in slot order.
 *
 * Called by the owner of the table; references are counted in any thread. Parts: references,
 * tables, growing and shrinking, sweeping, sets.
 */
#include "milligpu/core/facts/names.h"

#include <string.h>

#include "milligpu/base/alloc.h"

enum {
    SLOTS_MIN = 64, /* of an empty table */
    MOVES = 8,      /* slots of the old table moved per new name */
    SWEEP_EACH = 4, /* looks per name added or released */
    LOOK_SLOTS = 8, /* a look ends with a name, or after this many free slots */
    TAGS = 16,      /* values of the bits of a hash in a slot */
};

static_assert(_Alignof(max_align_t) % TAGS == 0, "malloc() leaves these bits zero");
static_assert(sizeof(struct atom) >= TAGS, "leak checkers find an atom by a pointer into it");

static const size_t SLOTS_MAX = (size_t)1 << 32; /* hashes have 32 bits */

struct name_table {
    char **slot; /* an atom and its tag; NULL: no table; an element: a free slot */
    size_t slots;
};

/* A sweep that leaves a single table leaves it at least a third full, unless it is the smallest. */
struct names {
    struct name_table now;
    struct name_table old; /* being rehashed */
    size_t moved;          /* the slots of old below this one are free */
    size_t count;          /* names in both tables */
    size_t bytes;          /* of the atoms */
    size_t due;            /* names added or released since the last sweep */
    size_t next_slot;      /* of now: first slot of the next sweep */
};

/*
 * References
 */

/* Only the count of an atom is mutable. */
static atomic_uint *atom_refs_of(const struct atom *atom)
{
    must(atom != NULL);
    return (atomic_uint *)(uintptr_t)&atom->refs;
}

/* Constants are not counted: they may be in read-only memory. */
static bool is_constant(const struct atom *atom)
{
    return atomic_load_explicit(atom_refs_of(atom), memory_order_relaxed) == 0;
}

const struct atom *atom_ref(const struct atom *atom)
{
    if (atom == NULL || is_constant(atom))
        return atom;
    const unsigned before = atomic_fetch_add_explicit(atom_refs_of(atom), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    return atom;
}

void atom_unref(const struct atom *atom)
{
    if (atom == NULL || is_constant(atom))
        return;
    const unsigned before = atomic_fetch_sub_explicit(atom_refs_of(atom), 1, memory_order_acq_rel);
    must(before > 0);
    if (before == 1)
        xfree((void *)(uintptr_t)atom);
}

uint32_t atom_mark(const struct atom *atom)
{
    must(atom != NULL);
    must(!is_constant(atom) || atom->mark == 0);
    return atom->mark;
}

void atom_set_mark(const struct atom *atom, uint32_t mark)
{
    must(!is_constant(atom));
    must(mark <= ATOM_MARK_MAX);
    ((struct atom *)(uintptr_t)atom)->mark = mark & ATOM_MARK_MAX;
}

static size_t atom_bytes(size_t len)
{
    must(len <= UINT32_MAX);
    return offsetof(struct atom, text) + len + 1;
}

/* Acquire: synchronizes with former holders before the memory is freed. */
static bool is_unheld(const struct atom *atom)
{
    const unsigned refs = atomic_load_explicit(atom_refs_of(atom), memory_order_acquire);
    must(refs > 0);
    must(atom->text[atom->len] == '\0');
    return refs == 1;
}

/*
 * Tables
 */

/* The tag does not overlap with the bits that decide about the home of a name. */
static char *tagged(struct atom *atom)
{
    must(atom != NULL);
    must((uintptr_t)atom % TAGS == 0);
    return (char *)atom + atom->hash % TAGS;
}

static struct atom *untagged(char *slot)
{
    char *atom = slot == NULL ? NULL : slot - (uintptr_t)slot % TAGS;

    must((atom == NULL) == (slot == NULL));
    must((uintptr_t)atom % TAGS == 0);
    return (struct atom *)(void *)atom;
}

static struct name_table table_new(size_t slots)
{
    must(slots >= SLOTS_MIN);
    must(slots <= SLOTS_MAX);
    return (struct name_table){.slot = xcalloc(slots, sizeof(char *)), .slots = slots};
}

static size_t home_of(uint32_t hash, size_t slots)
{
    must(slots >= SLOTS_MIN);
    must(slots <= SLOTS_MAX);
    return (size_t)((uint64_t)hash * slots >> 32);
}

static size_t next_slot(size_t at, size_t slots)
{
    return at + 1 < slots ? at + 1 : 0;
}

/* Searches from this slot to the next free one. */
static struct atom *table_find(const struct name_table *table, size_t at, struct text text,
                               uint32_t hash)
{
    char *slot;

    must(at < table->slots);
    must(text.at != NULL || text.len == 0);
    for (; (slot = table->slot[at]) != NULL; at = next_slot(at, table->slots)) {
        if ((uintptr_t)slot % TAGS != hash % TAGS)
            continue;
        struct atom *atom = untagged(slot);
        if (atom->hash == hash && text_eq(atom_text(atom), text))
            return atom;
    }
    return NULL;
}

static void table_push(struct name_table *table, struct atom *atom)
{
    size_t at = home_of(atom->hash, table->slots);

    must(atom->refs > 0);
    while (table->slot[at] != NULL)
        at = next_slot(at, table->slots);
    table->slot[at] = tagged(atom);
    must(at < table->slots);
}

/* Backward-shift deletion, so that no search ends before a displaced name. */
static void close_gap(struct name_table *table, size_t gap)
{
    const size_t slots = table->slots;
    const struct atom *atom;

    must(gap < slots);
    must(table->slot[gap] != NULL);
    for (size_t at = next_slot(gap, slots); (atom = untagged(table->slot[at])) != NULL;
         at = next_slot(at, slots)) {
        /*
         * May move into the gap unless its home lies between the gap and its slot. A distance
         * around the end of the table is a huge number here, which leaves the order as it is.
         */
        if (at - home_of(atom->hash, slots) < at - gap)
            continue;
        table->slot[gap] = table->slot[at];
        gap = at;
    }
    table->slot[gap] = NULL;
}

static void table_free(const struct name_table *table)
{
    must(table->slot != NULL || table->slots == 0);
    must(table->slots <= SLOTS_MAX);
    for (size_t i = 0; i < table->slots; i++)
        atom_unref(untagged(table->slot[i]));
    xfree(table->slot);
}

struct names *names_new(void)
{
    struct names *names = xmalloc(sizeof *names);
    *names = (struct names){.now = table_new(SLOTS_MIN)};
    must(names->count == 0);
    must(names->old.slots == 0);
    return names;
}

void names_free(struct names *names)
{
    if (names == NULL)
        return;
    must(names->count < names->now.slots);
    must(names->moved < names->old.slots || names->old.slots == 0);
    table_free(&names->now);
    table_free(&names->old);
    xfree(names);
}

static struct atom *names_look_up(const struct names *names, struct text text, uint32_t hash)
{
    struct atom *atom = table_find(&names->now, home_of(hash, names->now.slots), text, hash);

    must(names->now.slots > 0);
    if (atom != NULL || names->old.slot == NULL)
        return atom;
    must(names->moved < names->old.slots);
    /*
     * A name whose home was emptied can only be in the slots from `moved` to the next free one.
     * None is beyond the end of the table: those slots were moved first.
     */
    const size_t home = home_of(hash, names->old.slots);
    return table_find(&names->old, home > names->moved ? home : names->moved, text, hash);
}

const struct atom *names_find(const struct names *names, struct text text)
{
    must(names != NULL);
    must(text.at != NULL || text.len == 0);
    return names_look_up(names, text, text_hash(text));
}

/*
 * Growing and shrinking
 */

/* Empties the next slot of the old table, which ends with its last slot. NULL: it was free. */
static struct atom *names_take_old(struct names *names)
{
    must(names->moved < names->old.slots);
    must(names->old.slots <= SLOTS_MAX);

    struct atom *atom = untagged(names->old.slot[names->moved]);
    names->old.slot[names->moved++] = NULL;
    if (names->moved == names->old.slots) {
        xfree(names->old.slot);
        names->old = (struct name_table){0};
        names->moved = 0;
    }
    return atom;
}

static void names_move(struct names *names, size_t slots)
{
    must(slots > 0);
    for (; slots > 0 && names->old.slot != NULL; slots--) {
        struct atom *atom = names_take_old(names);
        if (atom != NULL)
            table_push(&names->now, atom);
    }
    must(names->count < names->now.slots);
}

/*
 * Replaces the table by one with this many slots. The former rehash has always ended: n slots are
 * moved within n / 8 new names; after growing from n slots 3 / 8 n of them fill the table, after
 * shrinking n / 6.
 */
static void names_rehash(struct names *names, size_t slots)
{
    must(names->old.slot == NULL && names->moved == 0);
    must(names->count * 4 <= slots * 3);
    names->old = names->now;
    names->now = table_new(slots);
    /* The next sweep goes on with about the same names. */
    names->next_slot = names->next_slot * slots / names->old.slots;
    /* Moves the names before the first free slot: homes of some may be at the end of the table. */
    for (struct atom *atom; (atom = names_take_old(names)) != NULL;)
        table_push(&names->now, atom);
}

void names_reserve(struct names *names, size_t count)
{
    const size_t slots = (count * 4 + 2) / 3;

    must(names != NULL);
    must(count <= SLOTS_MAX / 2);
    if (slots <= names->now.slots)
        return;
    names_move(names, SIZE_MAX);
    names_rehash(names, slots);
    names_move(names, SIZE_MAX);
    must(count * 4 <= names->now.slots * 3);
}

/* Begins to shrink a table that is mostly empty, unless it is being rehashed. */
static void names_shrink(struct names *names)
{
    const size_t fewer = names->now.slots - names->now.slots / 3;

    must(names->now.slots >= SLOTS_MIN);
    if (names->old.slot == NULL && names->now.slots > SLOTS_MIN &&
        names->count * 3 < names->now.slots)
        names_rehash(names, fewer > SLOTS_MIN ? fewer : SLOTS_MIN);
    must(names->count < names->now.slots);
}

static void names_add(struct names *names, struct atom *atom)
{
    must(atom->refs == 1);
    names_move(names, MOVES);
    if ((names->count + 1) * 4 > names->now.slots * 3)
        names_rehash(names, names->now.slots + names->now.slots / 2);
    table_push(&names->now, atom);
    names->count++;
    names->bytes += atom_bytes(atom->len);
    names->due++;
    must(names->count < names->now.slots);
}

const struct atom *names_intern(struct names *names, struct text text)
{
    must(names != NULL);
    must(text.at != NULL || text.len == 0);

    const uint32_t hash = text_hash(text);
    const struct atom *known = names_look_up(names, text, hash);
    if (known != NULL)
        return known;

    struct atom *atom = xmalloc(atom_bytes(text.len));
    atomic_init(&atom->refs, 1);
    atom->hash = hash;
    atom->len = (uint32_t)text.len;
    atom->mark = 0;
    if (text.len > 0)
        memcpy(atom->text, text.at, text.len);
    atom->text[text.len] = '\0';
    names_add(names, atom);
    return atom;
}

/*
 * Sweeping
 */

void names_let_go(struct names *names, size_t count)
{
    must(names != NULL);
    must(names->due <= SIZE_MAX / 16 && count <= UINT32_MAX);
    names->due += count;
}

/* Frees a name that is in no table any more. */
static void names_drop(struct names *names, struct atom *atom)
{
    must(names->count > 0 && atom->mark == 0);
    must(names->bytes >= atom_bytes(atom->len));
    names->count--;
    names->bytes -= atom_bytes(atom->len);
    atom_unref(atom);
}

/* Frees the name in the next slot of the old table, or moves it. Returns false if it was free. */
static bool sweep_old(struct names *names)
{
    struct atom *atom = names_take_old(names);

    must(names->now.slots > 0);
    if (atom == NULL)
        return false;
    if (is_unheld(atom))
        names_drop(names, atom);
    else
        table_push(&names->now, atom);
    must(names->count < names->now.slots);
    return true;
}

/* Frees the name in the next slot; no name is passed over when others move up. */
static bool sweep_now(struct names *names)
{
    const size_t at = names->next_slot;
    struct atom *atom;
    bool found = false;

    must(names->old.slot == NULL);
    must(at < names->now.slots);
    while ((atom = untagged(names->now.slot[at])) != NULL) {
        found = true;
        if (!is_unheld(atom))
            break;
        close_gap(&names->now, at);
        names_drop(names, atom);
    }
    names->next_slot = next_slot(at, names->now.slots);
    return found;
}

void names_sweep(struct names *names, size_t more)
{
    must(names != NULL);
    must(names->due <= SIZE_MAX / 8 && more <= SIZE_MAX / 4);

    size_t slots = names->now.slots + names->old.slots - names->moved;
    size_t looks = SWEEP_EACH * names->due + more;
    names->due = 0;
    for (; looks > 0 && slots > 0; looks--) {
        bool found = false;
        for (size_t i = 0; i < LOOK_SLOTS && slots > 0 && !found; i++, slots--)
            found = names->old.slot != NULL ? sweep_old(names) : sweep_now(names);
    }
    names_shrink(names);
    must(names->count < names->now.slots);
}

size_t names_count(const struct names *names)
{
    must(names != NULL);
    must(names->count < names->now.slots);
    return names->count;
}

size_t names_bytes(const struct names *names)
{
    must(names != NULL);
    must(names->count < names->now.slots);
    return sizeof *names + (names->now.slots + names->old.slots) * sizeof(char *) + names->bytes;
}

/*
 * Sets
 */

static atomic_uint *name_set_refs_of(const struct name_set *set)
{
    must(set != NULL);
    return (atomic_uint *)(uintptr_t)&set->refs;
}

struct name_set *name_set_new(uint32_t most)
{
    struct name_set *set = xmalloc(sizeof *set + most * sizeof set->name[0]);
    atomic_init(&set->refs, 1);
    set->count = 0;
    must(most > 0);
    must((uintptr_t)set->name % _Alignof(const struct atom *) == 0);
    return set;
}

void name_set_add(struct name_set *set, const struct atom *name)
{
    must(set->refs == 1);
    must(set->count < UINT32_MAX);
    if (name != NULL && (set->count == 0 || set->name[set->count - 1] != name))
        set->name[set->count++] = name;
}

const struct name_set *name_set_hold(struct name_set *take_set, const struct name_set *former)
{
    const size_t bytes = take_set->count * sizeof(struct atom *);

    must(take_set->refs == 1);
    must(take_set->count > 0);
    if (former != NULL && former->count == take_set->count &&
        memcmp(former->name, take_set->name, bytes) == 0) {
        xfree(take_set);
        const unsigned before =
            atomic_fetch_add_explicit(name_set_refs_of(former), 1, memory_order_relaxed);
        must(before > 0 && before < UINT32_MAX);
        return former;
    }
    for (uint32_t i = 0; i < take_set->count; i++)
        (void)atom_ref(take_set->name[i]);
    return xrealloc(take_set, sizeof *take_set + bytes, 1);
}

void name_set_unref(const struct name_set *set)
{
    must(set->count > 0); /* first: without our reference, another thread may free it */
    const unsigned before =
        atomic_fetch_sub_explicit(name_set_refs_of(set), 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1)
        return;
    for (uint32_t i = 0; i < set->count; i++)
        atom_unref(set->name[i]);
    xfree((void *)(uintptr_t)set);
}
