/*
 * names - each name once: nodes, GPU ids, models.
 *
 * Atoms are compared by address and live as long as their table, so snapshots may point to them
 * without references. Atoms are never freed: a cluster that shows a thousand new nodes of eight
 * GPUs a day costs half a megabyte a day.
 *
 * A table has one owner, and only its owner interns: the writer for the ledger's table, others for
 * tables of their own that live as long as one question. Any thread may read an atom.
 */
#ifndef MILLIGPU_NAMES_H
#define MILLIGPU_NAMES_H

#include "milligpu/text.h"

struct atom {
    uint32_t hash;
    uint32_t len;
    char text[];
};

struct names;

struct names *names_new(void) MUST_USE;
void names_free(struct names *names);

const struct atom *names_intern(struct names *names, struct text text) MUST_USE;
/* NULL if the name is unknown */
const struct atom *names_find(const struct names *names, struct text text);

size_t names_count(const struct names *names);

static inline struct text atom_text(const struct atom *atom)
{
    return (struct text){atom->text, atom->len};
}

#endif
