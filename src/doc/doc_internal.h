/*
 * doc_internal - what the parts of doc share: doc.c is the tree and JSON, doc_yaml.c is YAML,
 * doc_rewrite.c changes a text of YAML, doc_file.c chooses between JSON and YAML.
 */
#ifndef MILLIGPU_DOC_DOC_INTERNAL_H
#define MILLIGPU_DOC_DOC_INTERNAL_H

#include "milligpu/doc.h"

/* Moves the place behind the byte. */
void doc_mark_pass(struct doc_mark *mark, char byte);
/* The place of the byte at this offset. */
struct doc_mark doc_mark_of(struct text bytes, size_t at);

/* doc_parse_json(), but the place of an error is also out_fault. */
int doc_json_parse(struct text bytes, const char *root, struct arena *arena, struct doc **out,
                   struct doc_mark *out_fault, struct err *err) MUST_USE;

#endif
