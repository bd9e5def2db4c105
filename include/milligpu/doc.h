/*
 * doc - a document that can be changed: the tree behind kubeconfigs, cluster files and stored
 * objects.
 *
 * Read from JSON or YAML, searched, merged, written as JSON.  Everything lives in one arena and
 * ends with it.  A number keeps its digits as they were written.  Every value knows its line, so
 * that an error can name it.
 *
 * Invariants:
 *   1. A value is in at most one parent; what is to be in a second is copied.
 *   2. Keys of an object are distinct.
 *   3. Depth is at most JSON_DEPTH_MAX.
 *
 * Pure.
 */
#ifndef MILLIGPU_DOC_H
#define MILLIGPU_DOC_H

#include "milligpu/arena.h"
#include "milligpu/err.h"
#include "milligpu/strbuf.h"

enum doc_kind { DOC_NULL, DOC_BOOL, DOC_NUMBER, DOC_STRING, DOC_ARRAY, DOC_OBJECT };

struct doc {
    enum doc_kind kind;
    uint32_t line;    /* from 1; 0: made here */
    uint32_t count;   /* of children */
    struct text key;  /* in an object */
    struct text text; /* of a scalar; terminated, and it may hold a NUL: Kubernetes takes any */
    struct doc *first;
    struct doc *last;
    struct doc *next;
};

/* root names the document in errors: "body", "cluster.json". */
int doc_parse_json(struct text bytes, const char *root, struct arena *arena, struct doc **out,
                   struct err *err) MUST_USE;
/* An array of the documents of a stream.  Aliases are refused. */
int doc_parse_yaml(struct text bytes, struct arena *arena, struct doc **out,
                   struct err *err) MUST_USE;

/* NULL for doc NULL, doc no object, or no such key; a null counts as absent. */
struct doc *doc_get(const struct doc *doc, const char *key);
/* Dotted: "metadata.name". */
struct doc *doc_at(const struct doc *doc, const char *path);
/* "" where there is no string, or one with a NUL. */
const char *doc_str(const struct doc *doc, const char *path);
bool doc_has_nul(const struct doc *doc);

struct doc *doc_new(struct arena *arena, enum doc_kind kind) MUST_USE;
struct doc *doc_new_str(struct arena *arena, struct text text) MUST_USE;
struct doc *doc_new_int(struct arena *arena, int64_t number) MUST_USE;
struct doc *doc_copy(struct arena *arena, const struct doc *doc) MUST_USE;

/* Replaces what has that key.  value has no parent. */
void doc_set(struct arena *arena, struct doc *object, struct text key, struct doc *value);
void doc_set_str(struct arena *arena, struct doc *object, const char *key, const char *value);
void doc_remove(struct doc *object, const char *key);
void doc_append(struct doc *array, struct doc *value);
/* The object at key, made if it is absent or something else. */
struct doc *doc_object(struct arena *arena, struct doc *object, const char *key);

/* RFC 7396 onto an object; patch is copied. */
void doc_merge(struct arena *arena, struct doc *target, const struct doc *patch);
bool doc_equal(const struct doc *a, const struct doc *b);
void doc_write(struct strbuf *out, const struct doc *doc);

const char *doc_kind_name(enum doc_kind kind); /* "an object" */

#endif
