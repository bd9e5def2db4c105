/*
 * labels - the labels of a Node, for the rules of a policy document (rulebook.h).
 *
 * Immutable and reference-counted: the versions of a node share them. In memory only: the first
 * list after a restart shows them again.
 */
#ifndef MILLIGPU_LABELS_H
#define MILLIGPU_LABELS_H

#include <stdatomic.h>

#include "milligpu/core/facts/names.h"

/* A label of a Node, NUL-terminated; or a demand of a rule, with a glob as its value. */
struct label {
    const char *key;
    const char *value;
};

struct labels {
    atomic_uint refs;
    uint32_t count;
    const struct atom *text[]; /* references; "key=value", in the order of the Node */
};

/* Returns one reference; NULL if count is 0. */
const struct labels *labels_new(const struct label *label, uint32_t count,
                                struct names *names) MUST_USE;
const struct labels *labels_ref(const struct labels *labels); /* NULL is fine */
void labels_unref(const struct labels *labels);               /* NULL is fine */
bool labels_eq(const struct labels *a, const struct labels *b);
/* Sets *out to the value of the key; returns false if there is no such label. */
bool labels_find(const struct labels *labels, const char *key, struct text *out);
/* Is there a label with this key and a value that matches the glob? */
bool labels_match(const struct labels *labels, const struct label *demand);

#endif
