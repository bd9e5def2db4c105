/*
 * labels - the labels of a Node, for the rules of a policy document (rulebook.h).
 *
 * Immutable and reference-counted: the versions of a node share them. In memory only, since the
 * first list shows them again.
 */
#ifndef MILLIGPU_LABELS_H
#define MILLIGPU_LABELS_H

#include <stdatomic.h>

#include "milligpu/core/facts/names.h"

/* As read, terminated; or what a rule demands, where the value is a glob. */
struct label {
    const char *key;
    const char *value;
};

struct labels {
    atomic_uint refs;
    uint32_t count;
    const struct atom *text[]; /* references; "key=value", in the order of the Node */
};

/* One reference. NULL if there are none. */
const struct labels *labels_new(const struct label *label, uint32_t count,
                                struct names *names) MUST_USE;
const struct labels *labels_ref(const struct labels *labels); /* NULL is fine */
void labels_unref(const struct labels *labels);               /* NULL is fine */
bool labels_eq(const struct labels *a, const struct labels *b);
/* The value of this key; false: there is no such label. */
bool labels_find(const struct labels *labels, const char *key, struct text *out);
/* Is the key there, with a value that the glob matches? */
bool labels_match(const struct labels *labels, const struct label *demand);

#endif
