/*
 * names - each name once: nodes, GPU ids, models.
 *
 *   table --1--> atom <--1-- name_set (nodes), allocation, labels, ...
 *
 * Atoms are compared by address and counted. The table holds one reference to each of its atoms;
 * every structure that keeps an atom beyond the current call holds another. Nodes, allocations and
 * labels hold theirs from birth to death, so a reader that holds a snapshot may read every name in
 * it without counting.
 *
 * names_sweep() removes atoms that only the table holds. An atom that anyone holds stays in the
 * table, so equal texts have equal addresses. Interning a name again before a sweep revives it.
 *
 * A table has one owner, and only its owner interns and sweeps: the writer for the ledger's table,
 * others for tables of their own that live as long as one question and are never swept. Any thread
 * may read an atom that is held, count it once more, and let it go.
 *
 * The reasons are in docs/why/014-tables-have-bounds-in-bytes.md.
 */
#ifndef MILLIGPU_NAMES_H
#define MILLIGPU_NAMES_H

#include <stdatomic.h>

#include "milligpu/base/text.h"

struct atom {
    struct atom *next; /* the table's */
    atomic_uint refs;  /* 0: a constant of the program, never counted */
    uint32_t hash;
    uint32_t len;
    char text[];
};

/* Another reference, to an atom that somebody holds or that was just interned. NULL is fine. */
const struct atom *atom_ref(const struct atom *atom);
void atom_unref(const struct atom *atom); /* NULL is fine */

struct names;

struct names *names_new(void) MUST_USE;
/* Atoms that others still hold live on until the last reference is gone. */
void names_free(struct names *names);

/* Borrowed from the table: it lives until the next sweep unless somebody holds it by then. */
const struct atom *names_intern(struct names *names, struct text text) MUST_USE;
/* NULL if the name is unknown */
const struct atom *names_find(const struct names *names, struct text text);

/* So many references to names have gone, or will when readers are done: sweeping is worthwhile. */
void names_let_go(struct names *names, size_t count);

/*
 * Frees some of the names that only the table holds. It looks at a few places for each name that
 * was added or let go since the last sweep, and at `more` places beyond these; never at more than
 * the table has. If every name that lost its last reference was reported to names_let_go(), names
 * without holders are at most as many as names with holders, plus a constant.
 */
void names_sweep(struct names *names, size_t more);

size_t names_count(const struct names *names);
/* Bytes of the table and its atoms, without the allocator's overhead. */
size_t names_bytes(const struct names *names);

/*
 * References to the names of one object, in its order. Versions of an object whose names are equal
 * share one set, so that a new version costs one count.
 */
struct name_set {
    atomic_uint refs;
    uint32_t count;
    const struct atom *name[];
};

/* Room for so many names; it holds nothing until name_set_hold(). */
struct name_set *name_set_new(uint32_t most) MUST_USE;
/* Appends a name unless it equals the last one. NULL is fine. */
void name_set_add(struct name_set *set, const struct atom *name);
/*
 * Takes the set. Returns a reference: to former if it has the same names, else to the set, which
 * then holds its names. former may be NULL.
 */
const struct name_set *name_set_hold(struct name_set *take_set, const struct name_set *former);
void name_set_unref(const struct name_set *set);

static inline struct text atom_text(const struct atom *atom)
{
    return (struct text){atom->text, atom->len};
}

#endif
