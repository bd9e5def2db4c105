/*
 * doc - a document that can be changed: the tree behind kubeconfigs, cluster files, stored objects,
 * and all that milligpuctl reads and shows.
 *
 * Read from JSON or YAML, searched, merged, written as JSON or YAML.  Everything lives in one arena
 * and ends with it.  A number keeps its digits as they were written.  Every value knows its line,
 * so that an error can name it.  Looking for what is not there gives NULL, "", 0 or false, so that
 * a view need not ask twice.
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
    uint32_t line;     /* from 1; 0: made here */
    uint32_t count;    /* of children */
    struct text key;   /* in an object */
    struct text text;  /* of a scalar; terminated, and it may hold a NUL: Kubernetes takes any */
    const char *shown; /* of a string: for people (text_show), mostly text itself */
    struct doc *first;
    struct doc *last;
    struct doc *next;
};

/* clang-format off */
#define doc_each(item, parent)                                                                     \
    for (const struct doc *item /* NOLINT(bugprone-macro-parentheses) */ =                        \
             (parent) != NULL ? (parent)->first : NULL;                                            \
         (item) != NULL; (item) = (item)->next)
/* clang-format on */

/* root names the document in errors: "body", "cluster.json". */
int doc_parse_json(struct text bytes, const char *root, struct arena *arena, struct doc **out,
                   struct err *err) MUST_USE;
/*
 * An array of the documents of a stream.  Aliases are refused.  A plain word is null or a bool if
 * it is to kubectl, so `yes` is true; only what is a number in JSON, too, is a number.
 */
int doc_parse_yaml(struct text bytes, struct arena *arena, struct doc **out,
                   struct err *err) MUST_USE;

/* NULL for doc NULL, doc no object, or no such key; a null counts as absent. */
struct doc *doc_get(const struct doc *doc, const char *key);
/* Dotted: "metadata.name". */
struct doc *doc_at(const struct doc *doc, const char *path);
/* "" where there is no string, or one with a NUL. */
const char *doc_str(const struct doc *doc, const char *path);
/* The same for people: nothing in it that a terminal would obey, a NUL neither. */
const char *doc_shown(const struct doc *doc, const char *path);
/* Its whole part, at most what 64 bits hold. */
int64_t doc_int(const struct doc *doc, const char *path);
bool doc_true(const struct doc *doc, const char *path);
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
void doc_write(struct strbuf *out, const struct doc *doc);        /* JSON on one line */
void doc_write_pretty(struct strbuf *out, const struct doc *doc); /* JSON, 2 blanks a level */
void doc_write_yaml(struct strbuf *out, const struct doc *doc);

const char *doc_kind_name(enum doc_kind kind); /* "an object" */

#endif
