/*
 * Reads label selectors where no API server does: of a cluster file. Called by selector.c, in the
 * only thread. The text comes from the command line.
 */
#include "labels.h"

#include <string.h>

struct label_reader {
    const char *at;
    const char *all; /* the whole selector, for errors */
    struct arena *arena;
    struct err *err;
};

static void skip_blanks(struct label_reader *in)
{
    in->at += strspn(in->at, " \t");
}

/* Always -1, for `return`. */
static int labels_fail(const struct label_reader *in, const char *right)
{
    return err_set(in->err, ERR_INVALID, "--selector %.100s: %s at \"%.40s\"", in->all, right,
                   in->at);
}

/* Keys and values; the API server checks their form more closely when labels are written. */
static const char *label_word(struct label_reader *in)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";

    skip_blanks(in);
    const size_t bytes = strspn(in->at, letters);
    const char *word = arena_copy(in->arena, (struct text){in->at, bytes});
    in->at += bytes;
    skip_blanks(in);
    return word;
}

static bool label_take(struct label_reader *in, const char *sign)
{
    const size_t bytes = strlen(sign);
    must(bytes > 0);
    if (strncmp(in->at, sign, bytes) != 0)
        return false;
    in->at += bytes;
    return true;
}

static void label_add_value(struct label_reader *in, struct doc *values)
{
    doc_append(values, doc_new_str(in->arena, text_of(label_word(in))));
}

/* "(a,b)" */
static int label_values(struct label_reader *in, struct doc *values)
{
    skip_blanks(in);
    if (!label_take(in, "("))
        return labels_fail(in, "values in parentheses are expected");
    do {
        label_add_value(in, values);
    } while (label_take(in, ","));
    return label_take(in, ")") ? 0 : labels_fail(in, "a comma or a parenthesis is expected");
}

/* What follows a key: the operator, and its values. */
static int label_operator(struct label_reader *in, struct doc *rule, struct doc *values)
{
    static const struct {
        const char *sign;
        const char *name;
    } signs[] = {{"==", "In"}, {"=", "In"}, {"!=", "NotIn"}, {">", "Gt"}, {"<", "Lt"}};
    const char *name = "Exists";

    for (size_t i = 0; i < ARRAY_LEN(signs) && values->count == 0; i++) {
        if (!label_take(in, signs[i].sign))
            continue;
        name = signs[i].name;
        label_add_value(in, values);
    }
    if (values->count == 0 && *in->at != ',' && *in->at != '\0') {
        const char *word = label_word(in);
        const bool is_in = strcmp(word, "in") == 0;
        if (!is_in && strcmp(word, "notin") != 0)
            return labels_fail(in, "one of = == != > < in notin is expected");
        name = is_in ? "In" : "NotIn";
        if (label_values(in, values) < 0)
            return err_same(in->err);
    }
    doc_set_str(in->arena, rule, "operator", name);
    return 0;
}

static int label_rule(struct label_reader *in, struct doc *rules)
{
    struct doc *rule = doc_new(in->arena, DOC_OBJECT);
    struct doc *values = doc_new(in->arena, DOC_ARRAY);

    skip_blanks(in);
    const bool absent = label_take(in, "!");
    const char *key = label_word(in);
    if (key[0] == '\0')
        return labels_fail(in, "a label's key is expected");
    doc_set_str(in->arena, rule, "key", key);
    if (absent)
        doc_set_str(in->arena, rule, "operator", "DoesNotExist");
    else if (label_operator(in, rule, values) < 0)
        return err_same(in->err);
    doc_set(in->arena, rule, TEXT("values"), values);
    doc_append(rules, rule);
    return 0;
}

int labels_read(const char *selector, struct arena *arena, struct doc **out, struct err *err)
{
    struct label_reader in = {.at = selector, .all = selector, .arena = arena, .err = err};

    must(selector != NULL);
    *out = doc_new(arena, DOC_ARRAY);
    do {
        if (label_rule(&in, *out) < 0)
            return err_same(err);
        skip_blanks(&in);
    } while (label_take(&in, ","));
    return *in.at == '\0' ? 0 : labels_fail(&in, "a comma is expected");
}
