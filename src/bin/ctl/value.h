/*
 * value - a JSON or YAML document as a tree, to be looked at, changed a little, and written again.
 *
 * Everything lives in one arena.  A number keeps its digits as they were written.  Looking for
 * what is not there gives NULL, "" or 0, so that a view need not ask twice.
 *
 * Invariants:
 *   1. A value is in at most one parent.
 *   2. Depth is at most JSON_DEPTH_MAX, in both notations.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_VALUE_H
#define MILLIGPU_CTL_VALUE_H

#include "milligpu/json.h"

enum value_kind { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_STRING, VALUE_ARRAY, VALUE_OBJECT };

struct value {
    enum value_kind kind;
    uint32_t count;    /* of children */
    struct text key;   /* in an object; terminated */
    struct text text;  /* of a scalar, as it was written; terminated */
    const char *shown; /* of a string: for people (text_show), mostly text itself; else "" */
    struct value *first;
    struct value *last;
    struct value *next;
};

/* clang-format off */
#define value_each(item, parent)                                                                   \
    for (const struct value *item /* NOLINT(bugprone-macro-parentheses) */ =                      \
             (parent) != NULL ? (parent)->first : NULL;                                            \
         (item) != NULL; (item) = (item)->next)
/* clang-format on */

/* root names the document in errors. */
int value_parse_json(struct text bytes, const char *root, struct arena *arena, struct value **out,
                     struct err *err) MUST_USE;
/* An array of the documents of a stream; JSON is YAML, too.  Aliases are refused. */
int value_parse_yaml(struct text bytes, struct arena *arena, struct value **out,
                     struct err *err) MUST_USE;

/* Dotted: "metadata.name".  A null counts as absent. */
const struct value *value_at(const struct value *value, const char *path);
const struct value *value_get(const struct value *value, const char *key); /* key may have dots */
const char *value_str(const struct value *value, const char *path);        /* as it is shown */
int64_t value_int(const struct value *value, const char *path);
bool value_true(const struct value *value, const char *path);

struct value *value_new(struct arena *arena, enum value_kind kind) MUST_USE;
struct value *value_new_string(struct arena *arena, struct text text) MUST_USE;
void value_append(struct value *array, struct value *take_item);
/* Replaces what has that key. */
void value_set(struct arena *arena, struct value *object, const char *key,
               struct value *take_value);
void value_set_str(struct arena *arena, struct value *object, const char *key, const char *text);
void value_remove(struct value *object, const char *key);

void value_write_json(struct strbuf *out, const struct value *value);   /* on one line */
void value_write_pretty(struct strbuf *out, const struct value *value); /* 2 blanks a level */
void value_write_yaml(struct strbuf *out, const struct value *value);

/* What the call that wrote err has returned. */
UNUSED static inline int same_err(const struct err *err)
{
    must(err->code != ERR_NONE);
    return -(int)err->code;
}

/* What a plain YAML scalar is: null, bool, number or string. */
enum value_kind value_plain_kind(struct text text);

#endif
