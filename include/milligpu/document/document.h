/*
 * document - a mutable tree of JSON or YAML values: kubeconfigs, cluster files, stored objects, and
 * everything that milligpuctl reads and shows.
 *
 * It is read from JSON or YAML, searched, merged, and written as JSON or YAML. A tree lives in one
 * arena and is freed with it. Numbers keep their digits as written. Every value has its place in
 * the input, for errors. A lookup that finds nothing returns NULL, "", 0 or false, so callers need
 * not check first.
 *
 * Invariants:
 *   1. A value has at most one parent; copy it to put it into a second one.
 *   2. Keys of an object are distinct.
 *   3. Depth is at most JSON_DEPTH_MAX.
 *
 * Pure.
 */
#ifndef MILLIGPU_DOCUMENT_H
#define MILLIGPU_DOCUMENT_H

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

enum document_kind {
    DOCUMENT_NULL,
    DOCUMENT_BOOL,
    DOCUMENT_NUMBER,
    DOCUMENT_STRING,
    DOCUMENT_ARRAY,
    DOCUMENT_OBJECT
};

/* A place in the input. */
struct document_mark {
    uint32_t line;   /* from 1; 0 if created by the program */
    uint32_t column; /* from 1, in characters */
};

struct document {
    enum document_kind kind;
    uint32_t count; /* number of children */
    struct document_mark at;
    /* Place of the key, if the parent is an object; start of a YAML document. */
    struct document_mark key_at;
    struct text key; /* the key, if the parent is an object */
    /* Value of a scalar, NUL-terminated; may contain a NUL: Kubernetes accepts any character. */
    struct text text;
    /* Printable form (text_show) of a string, usually text.at; word as written of a YAML bool. */
    const char *shown;
    struct document *first;
    struct document *last;
    struct document *next;
};

/* clang-format off */
#define document_each(item, parent)                                                                \
    for (const struct document *item /* NOLINT(bugprone-macro-parentheses) */ =                    \
             (parent) != NULL ? (parent)->first : NULL;                                            \
         (item) != NULL; (item) = (item)->next)
/* clang-format on */

/* root names the document in errors: "body", "cluster.json". */
int document_parse_json(struct text bytes, const char *root, struct arena *arena,
                        struct document **out, struct err *err) MUST_USE;
/*
 * *out is an array of the stream's documents. Aliases are refused. A plain word is null or a bool
 * if kubectl reads it as one (`yes` is true), and a number only if it is also a number in JSON.
 */
int document_parse_yaml(struct text bytes, struct arena *arena, struct document **out,
                        struct err *err) MUST_USE;

/* Reason and place of a YAML error. */
struct document_fault {
    enum document_fault_kind {
        DOCUMENT_FAULT_OTHER,
        DOCUMENT_FAULT_SYNTAX, /* not YAML */
        DOCUMENT_FAULT_KEY,    /* a key that is not a scalar */
        DOCUMENT_FAULT_TWICE,  /* a duplicate key of a mapping */
        DOCUMENT_FAULT_ALIAS,
    } kind;
    struct document_mark at;
    struct text key;            /* TWICE: the key; ALIAS: the last key before it, or "" */
    struct document_mark first; /* TWICE: place of the first occurrence */
};

/* Like document_parse_yaml(), but the place of an error is in *out_fault, not in its text. */
int document_yaml_parse(struct text bytes, struct arena *arena, struct document **out,
                        struct document_fault *out_fault, struct err *err) MUST_USE;
/*
 * Parses JSON if the bytes begin with '{', else YAML. *out is an array of the file's documents. The
 * text of an error begins with the place: "policy.yaml:3:5: ".
 */
int document_parse_file(struct text bytes, const char *file, struct arena *arena,
                        struct document **out, struct err *err) MUST_USE;

/*
 * Writes the path to a value of the tree, such as "rules[1].nodes["a.b/c"]"; nothing for the root.
 */
void document_write_path(struct strbuf *out, const struct document *root,
                         const struct document *value);

/* Returns NULL if document is NULL, is no object, or has no such key; null counts as absent. */
struct document *document_get(const struct document *document, const char *key);
/* Like document_get(), with a path: "metadata.name". */
struct document *document_at(const struct document *document, const char *path);
/* Returns "" if the value is not a string, or contains a NUL. */
const char *document_str(const struct document *document, const char *path);
/* Returns a string in its printable form: no NUL, no control characters. */
const char *document_shown(const struct document *document, const char *path);
/* Returns the integer part, saturated to 64 bits. */
int64_t document_int(const struct document *document, const char *path);
bool document_true(const struct document *document, const char *path);
bool document_has_nul(const struct document *document);

struct document *document_new(struct arena *arena, enum document_kind kind) MUST_USE;
struct document *document_new_str(struct arena *arena, struct text text) MUST_USE;
struct document *document_new_int(struct arena *arena, int64_t number) MUST_USE;
struct document *document_copy(struct arena *arena, const struct document *document) MUST_USE;

/* Sets or replaces the value of key; value must have no parent. */
void document_set(struct arena *arena, struct document *object, struct text key,
                  struct document *value);
void document_set_str(struct arena *arena, struct document *object, const char *key,
                      const char *value);
void document_remove(struct document *object, const char *key);
void document_append(struct document *array, struct document *value);
/* Returns the object at key; creates it if it is absent or not an object. */
struct document *document_object(struct arena *arena, struct document *object, const char *key);

/* Applies an RFC 7396 merge patch to an object; patch is copied. */
void document_merge(struct arena *arena, struct document *target, const struct document *patch);
bool document_equal(const struct document *a, const struct document *b);
void document_write(struct strbuf *out, const struct document *document); /* JSON on one line */
/* JSON, indented by 2 spaces per level */
void document_write_pretty(struct strbuf *out, const struct document *document);
void document_write_yaml(struct strbuf *out, const struct document *document);
/*
 * Edits YAML in place: bytes were parsed into before by document_parse_yaml(), and out gets them
 * with the members changed that differ in after; all other bytes stay, with the comments. A comment
 * behind a removed member goes with it. before and after are arrays of documents. The result parses
 * to after. Returns false and leaves out unchanged if the text cannot be edited (for example a
 * changed value is an anchor or has several lines): use document_write_yaml() then.
 */
bool document_rewrite_yaml(struct text bytes, const struct document *before,
                           const struct document *after, struct arena *arena,
                           struct strbuf *out) MUST_USE;

/* Returns the kind with its article: "an object". */
const char *document_kind_name(enum document_kind kind);

#endif
