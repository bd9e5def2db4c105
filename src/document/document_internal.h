/*
 * document_internal - functions that the parts of document share.
 *
 * document.c is the tree and JSON, document_yaml.c is YAML, document_rewrite.c changes a text of
 * YAML, document_file.c chooses between JSON and YAML.
 */
#ifndef MILLIGPU_DOCUMENT_DOCUMENT_INTERNAL_H
#define MILLIGPU_DOCUMENT_DOCUMENT_INTERNAL_H

#include "milligpu/document/document.h"

/* Returns the place of the byte at this offset. */
struct document_mark document_mark_of(struct text bytes, size_t at);

/* Like document_parse_json(), and *out_fault is the place of an error. */
int document_json_parse(struct text bytes, const char *root, struct arena *arena,
                        struct document **out, struct document_mark *out_fault,
                        struct err *err) MUST_USE;

#endif
