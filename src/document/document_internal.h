/*
 * document_internal - what the parts of a document share.
 *
 * document.c is the tree and JSON, document_yaml.c is YAML, document_rewrite.c changes a text of
 * YAML, document_file.c chooses between JSON and YAML.
 */
#ifndef MILLIGPU_DOC_DOCUMENT_INTERNAL_H
#define MILLIGPU_DOC_DOCUMENT_INTERNAL_H

#include "milligpu/document/document.h"

/* The place of the byte at this offset. */
struct doc_mark doc_mark_of(struct text bytes, size_t at);

/* doc_parse_json(), but the place of an error is also out_fault. */
int doc_json_parse(struct text bytes, const char *root, struct arena *arena, struct doc **out,
                   struct doc_mark *out_fault, struct err *err) MUST_USE;

#endif
