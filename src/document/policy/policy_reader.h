/*
 * policy_reader - types and functions that the readers of policy documents share.
 *
 * policy_document.c reads the keys of the whole document, policy_rules.c the rules, policy_values.c
 * single values; policy_shadow.c finds rules that never match.
 */
#ifndef MILLIGPU_DOCUMENT_POLICY_READER_H
#define MILLIGPU_DOCUMENT_POLICY_READER_H

#include "milligpu/core/rules/window.h"
#include "milligpu/document/document.h"
#include "milligpu/document/policy/policy_document.h"

struct policy_reader {
    const char *file;
    const struct policy_edges *edges;
    const struct document *root;
    struct rulebook *book;
    struct strbuf *warnings;
    struct err *err;
};

/* One key of an object; into is passed through from policy_read_keys(). */
struct policy_key {
    const char *name;
    int (*read)(struct policy_reader *in, const struct document *value, void *into);
    bool required;
};

struct policy_keys {
    const struct policy_key *key;
    size_t n_keys;
    const char *what; /* name of the object in errors: "a rule" */
};

/*
 * Sets an error for a value: place and path, then the text, which has the problem and the valid
 * values. `in` is evaluated more than once.
 */
#define policy_wrong(in, value, ...)                                                               \
    ((void)err_set((in)->err, ERR_INVALID, __VA_ARGS__),                                           \
     policy_wrong_at((in), (value), (value)->at))
/* Prepends place and path to the text of in->err, which is set. */
int policy_wrong_at(struct policy_reader *in, const struct document *value,
                    struct document_mark at);
void policy_warn(struct policy_reader *in, const struct document *value, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Calls the function of each key that is present, in the order of the table. */
int policy_read_keys(struct policy_reader *in, const struct document *object,
                     const struct policy_keys *keys, void *into) MUST_USE;

struct policy_range {
    uint32_t low;
    uint32_t high;
};
int policy_read_number(struct policy_reader *in, const struct document *value,
                       struct policy_range range, uint32_t *out) MUST_USE;
int policy_read_bool(struct policy_reader *in, const struct document *value, bool *out) MUST_USE;
/* *out is borrowed: not empty, at most max bytes, printable. */
int policy_read_text(struct policy_reader *in, const struct document *value, size_t max,
                     struct text *out) MUST_USE;
/* *out is the index of the word. */
int policy_read_word(struct policy_reader *in, const struct document *value,
                     const char *const *words, size_t count, size_t *out) MUST_USE;
/* True if the policy is a baseline that policy_served() replaces. */
static inline bool policy_is_replaced(const struct policy_edges *edges, enum policy_kind kind)
{
    return !edges->baselines && policy_served(kind) != kind;
}

/* Format with two arguments: the name, and the name of the policy that replaces it. */
#define POLICY_REPLACED                                                                            \
    "%s is only a baseline of milligpuctl simulate: milligpud orders by %s instead, and its next " \
    "version refuses the name"
int policy_read_kind(struct policy_reader *in, const struct document *value,
                     enum policy_kind *out) MUST_USE;
/* Reads "memory": filter or raise. */
int policy_read_memory(struct policy_reader *in, const struct document *value,
                       enum memory_mode *out) MUST_USE;
/* Checks a list of 1 to max entries. */
int policy_check_list(struct policy_reader *in, const struct document *list, uint32_t max) MUST_USE;
/* *out is a glob as returned by model_bare(), in the arena of the rulebook. */
int policy_read_model(struct policy_reader *in, struct text text, const struct document *value,
                      const char **out) MUST_USE;
/* Reads a list of such globs. */
int policy_read_models(struct policy_reader *in, const struct document *list, uint32_t max,
                       const char ***out) MUST_USE;
/* Checks that the texts are distinct, ignoring case. */
int policy_check_distinct(struct policy_reader *in, const struct document *list) MUST_USE;

int policy_read_rules(struct policy_reader *in, const struct document *list, void *unused) MUST_USE;

/* True if wide certainly matches every text that narrow matches. */
bool glob_covers(struct text wide, struct text narrow);
/* Writes a warning for each rule that can never match; list is the rules as written. */
void policy_warn_shadows(struct policy_reader *in, const struct document *list);

#endif
