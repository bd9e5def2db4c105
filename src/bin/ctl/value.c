/*
 * A JSON document as a tree, for milligpuctl.  Called by the commands, the client and the manifest
 * reader.  A tree lives in one arena, and a value has at most one parent.
 */
#include "value.h"

#include <stdio.h>
#include <string.h>

struct value *value_new(struct arena *arena, enum value_kind kind)
{
    struct value *value = arena_alloc(arena, sizeof *value);

    must(kind <= VALUE_OBJECT);
    value->kind = kind;
    value->text = TEXT("");
    value->shown = "";
    value->key = TEXT("");
    return value;
}

static void add_child(struct value *parent, struct value *child)
{
    must(child->next == NULL);
    must(parent->kind == VALUE_ARRAY || parent->kind == VALUE_OBJECT);
    if (parent->last != NULL)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

static struct text keep(struct arena *arena, struct text text)
{
    must(text.at != NULL || text.len == 0);
    return (struct text){arena_copy(arena, text), text.len};
}

/* What comes from elsewhere may hold anything, and a terminal would obey it. */
static const char *show(struct arena *arena, struct text kept)
{
    CLEANUP(strbuf_done) struct strbuf shown;

    must(kept.at[kept.len] == '\0');
    strbuf_init(&shown);
    strbuf_shown(&shown, kept);
    const struct text text = {shown.data, shown.len};
    return text_eq(text, kept) ? kept.at : arena_copy(arena, text);
}

struct value *value_new_string(struct arena *arena, struct text text)
{
    struct value *value = value_new(arena, VALUE_STRING);

    value->text = keep(arena, text);
    value->shown = show(arena, value->text);
    return value;
}

/* --- reading --- */

static struct value *read_value(struct json_reader *in);

static struct value *read_object(struct json_reader *in)
{
    struct value *object = value_new(in->arena, VALUE_OBJECT);
    struct text key;

    must(in->arena != NULL);
    (void)json_read_object(in); /* an error sticks to the reader */
    while (json_read_key(in, &key)) {
        struct value *child = read_value(in);
        child->key = keep(in->arena, key);
        add_child(object, child);
    }
    return object;
}

static struct value *read_array(struct json_reader *in)
{
    struct value *array = value_new(in->arena, VALUE_ARRAY);

    must(in->arena != NULL);
    (void)json_read_array(in); /* an error sticks to the reader */
    while (json_read_element(in))
        add_child(array, read_value(in));
    return array;
}

static struct value *read_scalar(struct json_reader *in, enum value_kind kind)
{
    struct text text;

    must(kind < VALUE_ARRAY);
    const bool good = kind == VALUE_STRING ? json_read_string(in, &text) : json_read_raw(in, &text);
    if (good && kind == VALUE_STRING)
        return value_new_string(in->arena, text);
    struct value *value = value_new(in->arena, kind);
    if (good)
        value->text = keep(in->arena, text);
    return value;
}

/* Recursion ends at JSON_DEPTH_MAX: there the reader fails. */
static struct value *read_value(struct json_reader *in)
{
    must(in->depth <= JSON_DEPTH_MAX);
    switch (json_read_peek(in)) {
    case JSON_TYPE_OBJECT:
        return read_object(in);
    case JSON_TYPE_ARRAY:
        return read_array(in);
    case JSON_TYPE_STRING:
        return read_scalar(in, VALUE_STRING);
    case JSON_TYPE_NUMBER:
        return read_scalar(in, VALUE_NUMBER);
    case JSON_TYPE_TRUE:
    case JSON_TYPE_FALSE:
        return read_scalar(in, VALUE_BOOL);
    case JSON_TYPE_NULL:
    case JSON_TYPE_END:
    case JSON_TYPE_BAD:
        break;
    }
    return read_scalar(in, VALUE_NULL);
}

int value_parse_json(struct text bytes, const char *root, struct arena *arena, struct value **out,
                     struct err *err)
{
    struct json_reader in;

    must(root != NULL);
    json_reader_init(&in, bytes, root, arena, err);
    struct value *value = read_value(&in);
    const int status = json_reader_finish(&in);
    if (status == 0)
        *out = value;
    return status;
}

/* --- looking --- */

static struct value *find(const struct value *value, struct text key)
{
    must(key.at != NULL);
    if (value == NULL || value->kind != VALUE_OBJECT)
        return NULL;
    for (struct value *child = value->first; child != NULL; child = child->next)
        if (text_eq(child->key, key))
            return child;
    return NULL;
}

static const struct value *present(const struct value *value)
{
    must(value == NULL || value->kind <= VALUE_OBJECT);
    return value != NULL && value->kind != VALUE_NULL ? value : NULL;
}

const struct value *value_get(const struct value *value, const char *key)
{
    must(key != NULL);
    return present(find(value, text_of(key)));
}

const struct value *value_at(const struct value *value, const char *path)
{
    struct text rest = text_of(path);
    struct text key;

    must(rest.len > 0);
    while (value != NULL && text_cut(&rest, '.', &key))
        value = find(value, key);
    return present(value);
}

const char *value_str(const struct value *value, const char *path)
{
    const struct value *found = value_at(value, path);

    must(found == NULL || found->shown != NULL);
    return found != NULL ? found->shown : "";
}

int64_t value_int(const struct value *value, const char *path)
{
    const struct value *found = value_at(value, path);

    must(found == NULL || found->text.at != NULL);
    if (found == NULL || found->kind != VALUE_NUMBER)
        return 0;
    return (int64_t)strtoll(found->text.at, NULL, 10); /* saturates */
}

bool value_true(const struct value *value, const char *path)
{
    const struct value *found = value_at(value, path);

    must(found == NULL || found->text.at != NULL);
    return found != NULL && found->kind == VALUE_BOOL && text_is(found->text, "true");
}

/* --- changing --- */

void value_append(struct value *array, struct value *take_item)
{
    must(array->kind == VALUE_ARRAY);
    add_child(array, take_item);
}

void value_remove(struct value *object, const char *key)
{
    struct value *before = NULL;

    must(object->kind == VALUE_OBJECT);
    for (struct value *child = object->first; child != NULL; before = child, child = child->next) {
        if (!text_is(child->key, key))
            continue;
        if (before != NULL)
            before->next = child->next;
        else
            object->first = child->next;
        if (object->last == child)
            object->last = before;
        object->count--;
        return;
    }
}

void value_set(struct arena *arena, struct value *object, const char *key, struct value *take_value)
{
    must(object->kind == VALUE_OBJECT);
    must(take_value != NULL);
    value_remove(object, key);
    take_value->key = keep(arena, text_of(key));
    add_child(object, take_value);
}

void value_set_str(struct arena *arena, struct value *object, const char *key, const char *text)
{
    must(text != NULL);
    value_set(arena, object, key, value_new_string(arena, text_of(text)));
}

/* --- writing --- */

enum { ON_ONE_LINE = -1 };

static void new_line(struct strbuf *out, int level)
{
    must(level >= ON_ONE_LINE);
    if (level == ON_ONE_LINE)
        return;
    strbuf_char(out, '\n');
    for (int i = 0; i < level; i++)
        strbuf_str(out, "  ");
}

static void write_value(struct strbuf *out, const struct value *value, int level);

static void write_children(struct strbuf *out, const struct value *value, int level)
{
    const bool object = value->kind == VALUE_OBJECT;
    const int inner = level == ON_ONE_LINE ? ON_ONE_LINE : level + 1;

    must(object || value->kind == VALUE_ARRAY);
    strbuf_char(out, object ? '{' : '[');
    value_each(child, value)
    {
        new_line(out, inner);
        if (object) {
            strbuf_json(out, child->key);
            strbuf_str(out, level == ON_ONE_LINE ? ":" : ": ");
        }
        write_value(out, child, inner);
        if (child->next != NULL)
            strbuf_char(out, ',');
    }
    if (value->count > 0)
        new_line(out, level);
    strbuf_char(out, object ? '}' : ']');
}

static void write_value(struct strbuf *out, const struct value *value, int level)
{
    must(level <= JSON_DEPTH_MAX + 1);
    if (value->kind == VALUE_ARRAY || value->kind == VALUE_OBJECT)
        write_children(out, value, level);
    else if (value->kind == VALUE_STRING)
        strbuf_json(out, value->text);
    else if (value->kind == VALUE_NULL)
        strbuf_str(out, "null");
    else
        strbuf_text(out, value->text);
}

void value_write_json(struct strbuf *out, const struct value *value)
{
    must(value != NULL);
    write_value(out, value, ON_ONE_LINE);
}

void value_write_pretty(struct strbuf *out, const struct value *value)
{
    must(value != NULL);
    write_value(out, value, 0);
    strbuf_char(out, '\n');
}
