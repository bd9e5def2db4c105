/*
 * Reads single values of policy documents, and the keys of objects. Errors begin with the place and
 * the path of the value. Called only by the other files of the reader.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/core/facts/model.h"

#include "policy_reader.h"

/* --- what is wrong --- */

/* Appends "policy.yaml:7:10: rules[1].min"; the path of the root is empty. */
static void add_place(struct policy_reader *in, struct strbuf *out, const struct document *value,
                      struct document_mark at)
{
    must(at.line > 0);
    strbuf_shown(out, text_first(text_of(in->file), 200));
    strbuf_printf(out, ":%u:%u", at.line, at.column);
    if (value == in->root)
        return;
    strbuf_str(out, ": ");
    document_write_path(out, in->root, value);
}

int policy_wrong_at(struct policy_reader *in, const struct document *value, struct document_mark at)
{
    CLEANUP(strbuf_done) struct strbuf place;

    must(in->err->code != ERR_NONE);
    strbuf_init(&place);
    add_place(in, &place, value, at);
    return err_wrap(in->err, "%.300s", place.data);
}

void policy_warn(struct policy_reader *in, const struct document *value, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list arguments;

    va_start(arguments, fmt);
    (void)vsnprintf(text, sizeof text, fmt, arguments); /* may be truncated */
    va_end(arguments);
    must(text[0] != '\0');
    add_place(in, in->warnings, value, value->at);
    strbuf_printf(in->warnings, ": %s\n", text);
}

/* --- keys --- */

static const struct policy_key *key_of(const struct policy_keys *keys, struct text name)
{
    must(keys->n_keys > 0);
    for (size_t i = 0; i < keys->n_keys; i++)
        if (text_is(name, keys->key[i].name))
            return &keys->key[i];
    return NULL;
}

/* An edit distance of 1 is a typo in any word, 2 only in a long one. */
static const char *nearest_key(const struct policy_keys *keys, struct text name)
{
    const char *nearest = NULL;
    size_t best = 3;

    must(name.at != NULL);
    if (name.len > TEXT_DISTANCE_MAX)
        return NULL;
    for (size_t i = 0; i < keys->n_keys; i++) {
        const struct text known = text_of(keys->key[i].name);
        const size_t slips = text_distance(name, known);
        if (slips < best && 3 * slips <= known.len + 1) {
            best = slips;
            nearest = keys->key[i].name;
        }
    }
    return nearest;
}

static int unknown_key(struct policy_reader *in, const struct policy_keys *keys,
                       const struct document *value)
{
    CLEANUP(strbuf_done) struct strbuf known;
    const char *nearest = nearest_key(keys, value->key);

    strbuf_init(&known);
    must(keys->what[0] != '\0');
    for (size_t i = 0; i < keys->n_keys; i++)
        strbuf_printf(&known, "%s%s", i > 0 ? ", " : "", keys->key[i].name);
    if (nearest != NULL)
        (void)err_set(in->err, ERR_INVALID, "unknown key; did you mean %s?", nearest);
    else
        (void)err_set(in->err, ERR_INVALID, "unknown key; %s may have %s", keys->what, known.data);
    return policy_wrong_at(in, value, value->key_at);
}

static int check_keys(struct policy_reader *in, const struct document *object,
                      const struct policy_keys *keys)
{
    if (object->kind != DOCUMENT_OBJECT)
        return policy_wrong(in, object, "is %s; %s is a mapping of keys to values",
                            document_kind_name(object->kind), keys->what);
    document_each (value, object) {
        if (key_of(keys, value->key) == NULL)
            return unknown_key(in, keys, value);
        if (value->kind != DOCUMENT_NULL)
            continue;
        (void)err_set(in->err, ERR_INVALID, "has no value; write one, or remove the key");
        return policy_wrong_at(in, value, value->key_at);
    }
    for (size_t i = 0; i < keys->n_keys; i++)
        if (keys->key[i].required && document_get(object, keys->key[i].name) == NULL)
            return policy_wrong(in, object, "%s is missing; %s must have it", keys->key[i].name,
                                keys->what);
    return 0;
}

int policy_read_keys(struct policy_reader *in, const struct document *object,
                     const struct policy_keys *keys, void *into)
{
    if (check_keys(in, object, keys) < 0)
        return err_same(in->err);
    for (size_t i = 0; i < keys->n_keys; i++) {
        const struct document *value = document_get(object, keys->key[i].name);
        must(value != NULL || !keys->key[i].required);
        if (value != NULL && keys->key[i].read(in, value, into) < 0)
            return err_same(in->err);
    }
    return 0;
}

/* --- values --- */

int policy_read_number(struct policy_reader *in, const struct document *value,
                       struct policy_range range, uint32_t *out)
{
    const char *digits = value->text.at;
    uint64_t number = 0;

    must(range.low <= range.high);
    if (value->kind != DOCUMENT_NUMBER)
        return policy_wrong(in, value, "is %s; write a number, %u to %u",
                            document_kind_name(value->kind), range.low, range.high);
    if (digits[0] == '-')
        return policy_wrong(in, value, "%.40s is below %u; write %u to %u", digits, range.low,
                            range.low, range.high);
    const size_t count = strspn(digits, "0123456789");
    if (digits[count] != '\0')
        return policy_wrong(in, value, "%.40s is not a whole number; write %u to %u", digits,
                            range.low, range.high);
    for (size_t i = 0; i < count && number <= UINT32_MAX; i++)
        number = 10 * number + (uint64_t)(digits[i] - '0');
    if (number < range.low || number > range.high)
        return policy_wrong(in, value, "%.40s is %s %u; write %u to %u", digits,
                            number < range.low ? "below" : "above",
                            number < range.low ? range.low : range.high, range.low, range.high);
    *out = (uint32_t)number;
    return 0;
}

int policy_read_bool(struct policy_reader *in, const struct document *value, bool *out)
{
    if (value->kind != DOCUMENT_BOOL)
        return policy_wrong(in, value, "is %s; write true or false",
                            document_kind_name(value->kind));
    must(value->text.len > 0);
    *out = text_is(value->text, "true");
    return 0;
}

int policy_read_text(struct policy_reader *in, const struct document *value, size_t max,
                     struct text *out)
{
    must(max > 0);
    if (value->kind != DOCUMENT_STRING)
        return policy_wrong(
            in, value, "is %s; write a string%s", document_kind_name(value->kind),
            value->kind == DOCUMENT_BOOL || value->kind == DOCUMENT_NUMBER ? ", in quotes" : "");
    if (value->text.len == 0)
        return policy_wrong(in, value, "is empty; write a value");
    if (value->text.len > max)
        return policy_wrong(in, value, "is longer than %zu bytes", max);
    if (value->shown != value->text.at)
        return policy_wrong(in, value, "has characters that cannot be shown");
    *out = value->text;
    return 0;
}

int policy_read_word(struct policy_reader *in, const struct document *value,
                     const char *const *words, size_t count, size_t *out)
{
    CLEANUP(strbuf_done) struct strbuf known;

    must(count > 0);
    strbuf_init(&known);
    for (size_t i = 0; i < count; i++) {
        if (value->kind == DOCUMENT_STRING && text_is(value->text, words[i])) {
            *out = i;
            return 0;
        }
        strbuf_printf(&known, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", words[i]);
    }
    if (value->kind != DOCUMENT_STRING)
        return policy_wrong(in, value, "is %s; write %s", document_kind_name(value->kind),
                            known.data);
    return policy_wrong(in, value, "\"%.60s\" is unknown; write %s", value->shown, known.data);
}

int policy_read_kind(struct policy_reader *in, const struct document *value, enum policy_kind *out)
{
    const char *word[POLICIES];
    size_t words = 0;
    size_t at;

    if (value->kind == DOCUMENT_STRING && policy_of_name(value->text, out)) {
        const enum policy_kind named = *out;
        if (policy_is_replaced(in->edges, named)) {
            *out = policy_served(named);
            policy_warn(in, value, POLICY_REPLACED, policy_name(named), policy_name(*out));
        }
        return 0;
    }
    for (enum policy_kind kind = 0; kind < POLICIES; kind++)
        if (!policy_is_replaced(in->edges, kind))
            word[words++] = policy_name(kind);
    const int rc = policy_read_word(in, value, word, words, &at);
    must(rc < 0);
    return rc;
}

int policy_read_memory(struct policy_reader *in, const struct document *value,
                       enum memory_mode *out)
{
    static const char *const word[] = {"filter", "raise"};
    size_t at = 0;

    if (policy_read_word(in, value, word, ARRAY_LEN(word), &at) < 0)
        return err_same(in->err);
    must(at < ARRAY_LEN(word));
    *out = at == 0 ? MEMORY_FILTER : MEMORY_RAISE;
    return 0;
}

/* --- lists --- */

int policy_check_list(struct policy_reader *in, const struct document *list, uint32_t max)
{
    must(max > 0);
    if (list->kind != DOCUMENT_ARRAY)
        return policy_wrong(in, list, "is %s; write a list", document_kind_name(list->kind));
    if (list->count == 0)
        return policy_wrong(in, list, "is an empty list; write an entry, or remove the key");
    if (list->count > max)
        return policy_wrong(in, list, "has %u entries; at most %u are allowed", list->count, max);
    return 0;
}

static bool same_text(struct text a, struct text b)
{
    must(a.at != NULL && b.at != NULL);
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (text_lower(a.at[i]) != text_lower(b.at[i]))
            return false;
    return true;
}

int policy_check_distinct(struct policy_reader *in, const struct document *list)
{
    must(list->kind == DOCUMENT_ARRAY);
    document_each (value, list)
        for (const struct document *before = list->first; before != value; before = before->next)
            if (same_text(value->text, before->text))
                return policy_wrong(in, value, "%.60s is there twice", value->shown);
    return 0;
}

int policy_read_model(struct policy_reader *in, struct text text, const struct document *value,
                      const char **out)
{
    struct request one = {0};

    must(text.at != NULL);
    if (memchr(text.at, ',', text.len) != NULL)
        return policy_wrong(in, value, "contains a comma; write one model");
    const char *fault = request_read_models(text, &in->book->arena, &one);
    if (fault != NULL)
        return policy_wrong(in, value, "%s; write a model or a glob, such as A100*", fault);
    must(one.n_models == 1);
    *out = one.model[0];
    return 0;
}

int policy_read_models(struct policy_reader *in, const struct document *list, uint32_t max,
                       const char ***out)
{
    uint32_t count = 0;

    if (policy_check_list(in, list, max) < 0)
        return err_same(in->err);
    const char **model = arena_array(&in->book->arena, list->count, sizeof *model);
    document_each (value, list) {
        struct text text = {0};
        if (policy_read_text(in, value, MODEL_BYTES_MAX, &text) < 0 ||
            policy_read_model(in, text, value, &model[count++]) < 0)
            return err_same(in->err);
    }
    must(count == list->count);
    *out = model;
    return policy_check_distinct(in, list);
}
