/*
 * names - a table of interned names (atoms): nodes, GPU ids, models.
 *
 *   table --1--> atom <--1-- name_set (nodes), allocation, labels, ...
 *
 * Atoms are reference-counted and compared by address. The table holds one reference to each of its
 * atoms; every structure that keeps an atom beyond the current call holds another. Nodes,
 * allocations and labels hold theirs for their lifetime, so the holder of a snapshot may read every
 * name in it without a reference of its own.
 *
 * names_sweep() removes atoms that only the table references. A referenced atom stays in the table,
 * so equal texts have equal addresses. Interning a name again before a sweep revives it.
 *
 * Only the owner of a table interns and sweeps: the writer for the ledger's table; other threads
 * use private tables, which last for one request and are never swept. Any thread may read,
 * reference and release an atom that is referenced.
 *
 * Rationale: docs/why/014-tables-have-bounds-in-bytes.md.
 */
#ifndef MILLIGPU_NAMES_H
#define MILLIGPU_NAMES_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "milligpu/base/text.h"

/*
 * Text begins in the byte that the mark leaves: the atom of a GPU's UUID, 40 characters, takes 56
 * bytes, which malloc() makes 64.
 */
struct atom {
    atomic_uint refs; /* 0: a static constant, never counted */
    uint32_t hash;
    uint32_t len;
    uint32_t mark : 24; /* atom_mark() */
    char text[];
};

static_assert(offsetof(struct atom, text) == 15, "a UUID's atom fits a block of 64 bytes");

enum { ATOM_MARK_MAX = (1 << 24) - 1 };

/* Adds a reference to an atom that is referenced or was just interned. NULL is fine. */
const struct atom *atom_ref(const struct atom *atom);
void atom_unref(const struct atom *atom); /* NULL is fine */

/*
 * A number that the owner of the table keeps with a name, instead of a map by name; 0: none. At
 * most ATOM_MARK_MAX: the ledger's marks number its Nodes, which are at most NODES_MAX. Only the
 * owner of the table reads and writes it. A marked atom must be referenced: no sweep frees it.
 */
uint32_t atom_mark(const struct atom *atom);
void atom_set_mark(const struct atom *atom, uint32_t mark);

struct names;

struct names *names_new(void) MUST_USE;
/* Atoms that are still referenced live on until their last reference is released. */
void names_free(struct names *names);

/* Returns an atom borrowed from the table: valid until the next sweep unless referenced. */
const struct atom *names_intern(struct names *names, struct text text) MUST_USE;
/*
 * Makes room for this many names in all, so that the table does not grow meanwhile. Moves all names
 * at once: best called while they are few. Sweeps take back what is not used.
 */
void names_reserve(struct names *names, size_t count);
/* Returns NULL if the name is unknown. */
const struct atom *names_find(const struct names *names, struct text text);

/* Reports references that were released, or will be when readers finish, to schedule sweeps. */
void names_let_go(struct names *names, size_t count);

/*
 * Frees some of the names that only the table references. Looks at a few names for each name added
 * or reported by names_let_go() since the last sweep, and at `more` names; at most at the whole
 * table. If every lost last reference was reported, unreferenced names never outnumber referenced
 * names by more than a constant.
 */
void names_sweep(struct names *names, size_t more);

size_t names_count(const struct names *names);
/*
 * Bytes of the table and its atoms, excluding the allocator's overhead. A third to three quarters
 * of the table's slots are used, each of 8 bytes; while it grows or shrinks there are two tables.
 */
size_t names_bytes(const struct names *names);

/*
 * References to the names of one object, in its order. Versions of an object with equal names share
 * one set, so that a new version takes only one reference.
 */
struct name_set {
    atomic_uint refs;
    uint32_t count;
    const struct atom *name[];
};

/* A set with room for `most` names; takes no references before name_set_hold(). */
struct name_set *name_set_new(uint32_t most) MUST_USE;
/* Appends a name unless it equals the last one. NULL is fine. */
void name_set_add(struct name_set *set, const struct atom *name);
/*
 * Takes ownership of the set. Returns a reference to former if it has the same names, else to the
 * set, after referencing its names. former may be NULL.
 */
const struct name_set *name_set_hold(struct name_set *take_set, const struct name_set *former);
void name_set_unref(const struct name_set *set);

static inline struct text atom_text(const struct atom *atom)
{
    return (struct text){atom->text, atom->len};
}

#endif
