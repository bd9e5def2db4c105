/*
 * document - a document that can be changed: the tree behind kubeconfigs, cluster files, stored
 * objects, and everything that milligpuctl reads and shows.
 *
 * It is read from JSON or YAML, searched, merged, and written as JSON or YAML. Everything is in one
 * arena and is freed with it. A number keeps its digits as they were written. Every value knows its
 * place, so that an error can name it. A lookup that finds nothing returns NULL, "", 0 or false, so
 * that callers need not check first.
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
    uint32_t line;   /* from 1; 0: created by the program */
    uint32_t column; /* in characters, from 1 */
};

struct document {
    enum document_kind kind;
    uint32_t count; /* number of children */
    struct document_mark at;
    /* where its key is, if the parent is an object; of a document of YAML: where it begins */
    struct document_mark key_at;
    struct text key; /* the key, if the parent is an object */
    /*
     * of a scalar; terminated, and it may contain a NUL, because Kubernetes accepts any character
     */
    struct text text;
    /*
     * of a string: the form for people (text_show), usually text itself; of a bool of YAML: its
     * word as written
     */
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
 * Returns an array of the stream's documents. Aliases are refused. A plain word is null or a bool
 * if kubectl reads it as one (`yes` is true), and a number only if it is also a number in JSON.
 */
int document_parse_yaml(struct text bytes, struct arena *arena, struct document **out,
                        struct err *err) MUST_USE;

/* Why a text is no YAML that is read, and where. */
struct document_fault {
    enum document_fault_kind {
        DOCUMENT_FAULT_OTHER,
        DOCUMENT_FAULT_SYNTAX, /* not YAML */
        DOCUMENT_FAULT_KEY,    /* a key that is not a scalar */
        DOCUMENT_FAULT_TWICE,  /* a key of the same mapping again */
        DOCUMENT_FAULT_ALIAS,
    } kind;
    struct document_mark at;
    struct text key;            /* TWICE: this key; ALIAS: the last key before it, or "" */
    struct document_mark first; /* TWICE: where the key is first */
};

/* document_parse_yaml(), but the text of an error has no place: out_fault is it. */
int document_yaml_parse(struct text bytes, struct arena *arena, struct document **out,
                        struct document_fault *out_fault, struct err *err) MUST_USE;
/*
 * A file that people write: JSON if it begins with '{', else YAML. Returns an array of its
 * documents. The text of an error begins with the place: "policy.yaml:3:5: ".
 */
int document_parse_file(struct text bytes, const char *file, struct arena *arena,
                        struct document **out, struct err *err) MUST_USE;

/*
 * Writes the path that leads to a value of the tree: "rules[1].nodes["a.b/c"]"; nothing for the
 * root.
 */
void document_write_path(struct strbuf *out, const struct document *root,
                         const struct document *value);

/* NULL if doc is NULL or not an object, or has no such key; null counts as absent. */
struct document *document_get(const struct document *document, const char *key);
/* The same with a path: "metadata.name". */
struct document *document_at(const struct document *document, const char *path);
/* "" if it is not a string, or contains a NUL. */
const char *document_str(const struct document *document, const char *path);
/* The same for people: it contains no NUL, and nothing that a terminal would interpret. */
const char *document_shown(const struct document *document, const char *path);
/* The integer part, limited to 64 bits. */
int64_t document_int(const struct document *document, const char *path);
bool document_true(const struct document *document, const char *path);
bool document_has_nul(const struct document *document);

struct document *document_new(struct arena *arena, enum document_kind kind) MUST_USE;
struct document *document_new_str(struct arena *arena, struct text text) MUST_USE;
struct document *document_new_int(struct arena *arena, int64_t number) MUST_USE;
struct document *document_copy(struct arena *arena, const struct document *document) MUST_USE;

/* Replaces the value of key. value has no parent. */
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
/* JSON, indented by 2 blanks per level */
void document_write_pretty(struct strbuf *out, const struct document *document);
void document_write_yaml(struct strbuf *out, const struct document *document);
/*
 * Writes after into the text from which before was read by document_parse_yaml(): only members that
 * differ are written anew, everything else stays byte for byte, comments included. A comment behind
 * a removed member goes with it. Both are arrays of documents. Returns false, and leaves out as it
 * is, if the text cannot be changed in this way, as where a changed value is an anchor or takes
 * several lines; then document_write_yaml() writes it. What was written, read again, is after.
 */
bool document_rewrite_yaml(struct text bytes, const struct document *before,
                           const struct document *after, struct arena *arena,
                           struct strbuf *out) MUST_USE;

/* the kind with its article: "an object" */
const char *document_kind_name(enum document_kind kind);

#endif
