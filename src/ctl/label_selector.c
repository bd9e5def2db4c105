/*
 * Evaluates label selectors for a cluster file, where no API server does. Called by selector.c, and
 * by lab/cluster for the rules of a manifest, in the only thread. In order: rules in a document,
 * reading a selector.
 */
#include "label_selector.h"

#include <string.h>

#include "milligpu/base/alloc.h"

/* --- rules in a document --- */

enum node_rule_operator label_rule_operator(const struct document *rule)
{
    must(rule != NULL);
    return node_rule_operator_of(text_of(document_str(rule, "operator")));
}

struct node_rule label_rule_of(const struct document *rule, const char **values)
{
    struct node_rule out = {
        .key = document_str(rule, "key"), .op = label_rule_operator(rule), .value = values};

    must(values != NULL);
    document_each (value, document_get(rule, "values"))
        values[out.n_values++] = value->text.at;
    return out;
}

bool label_find(const void *ctx, const char *key, struct text *out)
{
    const struct document *labels = ctx;

    must(key != NULL);
    document_each (label, labels)
        if (text_is(label->key, key)) {
            *out = label->text;
            return true;
        }
    return false;
}

bool label_selector_holds(const struct document *rules, const struct document *labels)
{
    bool holds = true;

    document_each (rule, rules) {
        const struct document *values = document_get(rule, "values");
        CLEANUP(xfreep)
        const char **room =
            xcalloc((values != NULL ? values->count : 0) + (size_t)1, sizeof(char *));
        const struct node_rule read = label_rule_of(rule, room);
        struct text value;
        const bool there = label_find(labels, read.key, &value);
        must(read.key[0] != '\0');
        holds = holds && node_rule_holds(&read, there ? &value : NULL);
    }
    return holds;
}

/* --- reading a selector --- */

struct label_reader {
    const char *at;
    const char *all; /* whole selector, for errors */
    struct arena *arena;
    struct err *err;
};

static void skip_blanks(struct label_reader *in)
{
    in->at += strspn(in->at, " \t");
}

/* Always returns -1. */
static int labels_fail(const struct label_reader *in, const char *right)
{
    return err_set(in->err, ERR_INVALID, "--selector %.100s: %s at \"%.40s\"", in->all, right,
                   in->at);
}

/* Reads a key or value, less strictly than the API server does for labels. */
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

static void label_add_value(struct label_reader *in, struct document *values)
{
    document_append(values, document_new_str(in->arena, text_of(label_word(in))));
}

/* "(a,b)" */
static int label_values(struct label_reader *in, struct document *values)
{
    skip_blanks(in);
    if (!label_take(in, "("))
        return labels_fail(in, "values in parentheses are expected");
    do {
        label_add_value(in, values);
    } while (label_take(in, ","));
    return label_take(in, ")") ? 0 : labels_fail(in, "a comma or a parenthesis is expected");
}

/* Reads the operator after a key, and its values. */
static int label_operator(struct label_reader *in, struct document *rule, struct document *values)
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
    document_set_str(in->arena, rule, "operator", name);
    return 0;
}

static int label_rule(struct label_reader *in, struct document *rules)
{
    struct document *rule = document_new(in->arena, DOCUMENT_OBJECT);
    struct document *values = document_new(in->arena, DOCUMENT_ARRAY);

    skip_blanks(in);
    const bool absent = label_take(in, "!");
    const char *key = label_word(in);
    if (key[0] == '\0')
        return labels_fail(in, "a label's key is expected");
    document_set_str(in->arena, rule, "key", key);
    if (absent)
        document_set_str(in->arena, rule, "operator", "DoesNotExist");
    else if (label_operator(in, rule, values) < 0)
        return err_same(in->err);
    document_set(in->arena, rule, TEXT("values"), values);
    document_append(rules, rule);
    return 0;
}

int label_selector_read(const char *selector, struct arena *arena, struct document **out,
                        struct err *err)
{
    struct label_reader in = {.at = selector, .all = selector, .arena = arena, .err = err};

    must(selector != NULL);
    *out = document_new(arena, DOCUMENT_ARRAY);
    do {
        if (label_rule(&in, *out) < 0)
            return err_same(err);
        skip_blanks(&in);
    } while (label_take(&in, ","));
    return *in.at == '\0' ? 0 : labels_fail(&in, "a comma is expected");
}
