/*
 * Document trees: JSON in and out, search, change, comparison. Called by milligpuctl, the fake API
 * server and the reader of kubeconfigs; the daemon's own decoders use the pull reader instead,
 * because a tree of a large list takes too much memory. A tree lives in one arena and belongs to
 * one thread. Recursion is bounded by JSON_DEPTH_MAX, which both parsers enforce. In order: values,
 * parsing, lookups, changes, writing.
 */
#include "milligpu/document/document.h"

#include <inttypes.h>
#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/base/map.h"
#include "milligpu/wire/json/json.h"

#include "document_internal.h"

/* Up to this many keys, comparing each with each is cheaper than hashing. */
enum { KEYS_FEW = 16 };
/* Limit of each key in a path, in bytes. */
enum { PATH_KEY_MAX = 64 };

const char *document_kind_name(enum document_kind kind)
{
    static const char *const name[] = {
        [DOCUMENT_NULL] = "null",       [DOCUMENT_BOOL] = "true or false",
        [DOCUMENT_NUMBER] = "a number", [DOCUMENT_STRING] = "a string",
        [DOCUMENT_ARRAY] = "an array",  [DOCUMENT_OBJECT] = "an object",
    };
    must((unsigned)kind < ARRAY_LEN(name));
    return name[kind];
}

/* Texts are "" and not NULL, so callers can print and compare without a check. */
struct document *document_new(struct arena *arena, enum document_kind kind)
{
    struct document *document = arena_alloc(arena, sizeof *document);
    document->kind = kind;
    document->text = TEXT("");
    document->shown = "";
    return document;
}

/*
 * Returns the printable form, because a terminal would interpret control characters of untrusted
 * text. Nearly all text is plain ASCII and is not copied.
 */
static const char *document_show(struct arena *arena, struct text kept)
{
    CLEANUP(strbuf_done) struct strbuf shown;
    size_t plain = 0;

    must(kept.at[kept.len] == '\0');
    strbuf_init(&shown);
    while (kept.at[plain] >= ' ' && kept.at[plain] <= '~')
        plain++;
    if (plain == kept.len)
        return kept.at;
    strbuf_shown(&shown, kept);
    const struct text text = {shown.data, shown.len};
    return text_eq(text, kept) ? kept.at : arena_copy(arena, text);
}

/* Copies the text, because the input may be freed before the tree. */
struct document *document_new_str(struct arena *arena, struct text text)
{
    struct document *document = document_new(arena, DOCUMENT_STRING);
    document->text = (struct text){arena_copy(arena, text), text.len};
    document->shown = document_show(arena, document->text);
    return document;
}

struct document *document_new_int(struct arena *arena, int64_t number)
{
    struct document *document = document_new(arena, DOCUMENT_NUMBER);
    document->text = text_of(arena_printf(arena, "%" PRId64, number));
    return document;
}

/*
 * Constant time by last. next of value must be NULL, or its siblings would follow.
 */
void document_append(struct document *array, struct document *value)
{
    must(array->kind == DOCUMENT_ARRAY || array->kind == DOCUMENT_OBJECT);
    must(value->next == NULL);

    if (array->last != NULL)
        array->last->next = value;
    else
        array->first = value;
    array->last = value;
    array->count++;
}

/* ---- places ---- */

/* Continuation bytes of UTF-8 do not count as columns. */
static void document_mark_pass(struct document_mark *mark, char byte)
{
    must(mark->line > 0 && mark->column > 0);
    if (byte == '\n') {
        mark->line++;
        mark->column = 1;
    } else if (((unsigned char)byte & 0xC0) != 0x80) {
        mark->column++;
    }
}

struct document_mark document_mark_of(struct text bytes, size_t at)
{
    struct document_mark mark = {.line = 1, .column = 1};

    for (size_t i = 0; i < at && i < bytes.len; i++)
        document_mark_pass(&mark, bytes.at[i]);
    must(mark.line > 0);
    return mark;
}

/* ---- JSON ---- */

struct json_reading {
    struct json_reader json;
    struct arena *arena;
    struct text bytes;
    const char *counted; /* lines and columns are counted up to this byte */
    struct document_mark now;
};

/* Continues counting from the last call, so all places together take one pass over the input. */
static struct document_mark mark_at(struct json_reading *in, const char *at)
{
    must(at >= in->counted);
    for (; in->counted < at; in->counted++)
        document_mark_pass(&in->now, *in->counted);
    return in->now;
}

static struct document_mark mark_now(struct json_reading *in)
{
    must(in->now.line > 0);
    return mark_at(in, in->json.at);
}

/* Uses a hash map, so that an object with thousands of keys takes linear time. */
static bool key_is_new_slow(const struct document *object, struct text key, struct map *seen)
{
    if (seen->count == 0)
        for (struct document *at = object->first; at != NULL; at = at->next)
            map_put(seen, at->key, at);
    return map_find(seen, key) == NULL;
}

static bool key_is_new(const struct document *object, struct text key, struct map *seen)
{
    must(seen->count == 0 || seen->count == object->count);
    if (object->count >= KEYS_FEW)
        return key_is_new_slow(object, key, seen);
    for (const struct document *at = object->first; at != NULL; at = at->next)
        if (text_eq(at->key, key))
            return false;
    return true;
}

/* Adds a key to the map, if there is one already. */
static void key_seen(struct document *value, struct map *seen)
{
    if (seen->count > 0)
        map_put(seen, value->key, value);
}

static struct document *read_value(struct json_reading *in);

/* Only whitespace and a comma precede a key. */
static bool document_read_key(struct json_reading *in, struct text *out,
                              struct document_mark *out_at)
{
    const char *before = in->json.at;

    if (!json_read_key(&in->json, out))
        return false;
    const char *quote = memchr(before, '"', (size_t)(in->json.at - before));
    must(quote != NULL);
    *out_at = mark_at(in, quote);
    return true;
}

/* Copies the keys, because the input may be freed before the tree. */
static struct document *document_read_object(struct json_reading *in)
{
    must(in->arena != NULL && in->now.line > 0);
    struct document *object = document_new(in->arena, DOCUMENT_OBJECT);
    struct map seen;
    struct document_mark key_at;
    struct text key;

    object->at = mark_now(in);
    map_init(&seen);
    json_read_object(&in->json);
    while (document_read_key(in, &key, &key_at)) {
        if (!key_is_new(object, key, &seen)) {
            json_reader_fail(&in->json, "the key \"%.*s\" is there twice", TEXT_ARG(key));
            break;
        }
        struct document *value = read_value(in);
        if (value == NULL)
            break;
        value->key = (struct text){arena_copy(in->arena, key), key.len};
        value->key_at = key_at;
        document_append(object, value);
        key_seen(value, &seen);
    }
    map_done(&seen);
    return in->json.failed ? NULL : object;
}

static struct document *read_array(struct json_reading *in)
{
    struct document *array = document_new(in->arena, DOCUMENT_ARRAY);

    array->at = mark_now(in);
    json_read_array(&in->json);
    while (json_read_element(&in->json)) {
        struct document *value = read_value(in);
        if (value == NULL)
            return NULL;
        document_append(array, value);
    }
    return in->json.failed ? NULL : array;
}

static struct document *document_read_string(struct json_reading *in)
{
    const struct document_mark at = mark_now(in);
    struct text text;
    if (!json_read_string(&in->json, &text))
        return NULL;
    struct document *document = document_new_str(in->arena, text);
    document->at = at;
    return document;
}

/* Keeps the raw bytes: a number keeps its digits, so writing it again changes nothing. */
static struct document *read_scalar(struct json_reading *in, enum document_kind kind)
{
    struct document *document = document_new(in->arena, kind);
    struct text raw;

    document->at = mark_now(in);
    if (!json_read_raw(&in->json, &raw))
        return NULL;
    document->text = (struct text){arena_copy(in->arena, raw), raw.len};
    return document;
}

/* Recursive; the reader limits the depth. */
static struct document *read_value(struct json_reading *in)
{
    switch (json_read_peek(&in->json)) {
    case JSON_TYPE_OBJECT:
        return document_read_object(in);
    case JSON_TYPE_ARRAY:
        return read_array(in);
    case JSON_TYPE_STRING:
        return document_read_string(in);
    case JSON_TYPE_NUMBER:
        return read_scalar(in, DOCUMENT_NUMBER);
    case JSON_TYPE_TRUE:
    case JSON_TYPE_FALSE:
        return read_scalar(in, DOCUMENT_BOOL);
    case JSON_TYPE_NULL:
        return read_scalar(in, DOCUMENT_NULL);
    case JSON_TYPE_END:
    case JSON_TYPE_BAD:
        break;
    }
    json_read_skip(&in->json); /* sets the error */
    return NULL;
}

int document_json_parse(struct text bytes, const char *root, struct arena *arena,
                        struct document **out, struct document_mark *out_fault, struct err *err)
{
    struct json_reading in = {
        .arena = arena, .bytes = bytes, .counted = bytes.at, .now = {.line = 1, .column = 1}};

    json_reader_init(&in.json, bytes, root, arena, err);
    struct document *document = read_value(&in);
    const int rc = json_reader_finish(&in.json);
    if (rc < 0) {
        *out_fault = document_mark_of(bytes, (size_t)(in.json.at - in.json.begin));
        return rc;
    }
    *out = document;
    return 0;
}

int document_parse_json(struct text bytes, const char *root, struct arena *arena,
                        struct document **out, struct err *err)
{
    struct document_mark unused;

    must(root[0] != '\0');
    return document_json_parse(bytes, root, arena, out, &unused, err);
}

/* ---- paths ---- */

/* Other keys, for example with a dot, are quoted: they would look like several. */
static bool is_plain_key(struct text key)
{
    must(key.at != NULL);
    for (size_t i = 0; i < key.len; i++) {
        const char c = text_lower(key.at[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return false;
    }
    return key.len > 0;
}

static void add_path_key(struct strbuf *out, struct text key)
{
    const bool plain = is_plain_key(key);

    must(out->data != NULL);
    if (plain && out->len > 0)
        strbuf_char(out, '.');
    strbuf_str(out, plain ? "" : "[\"");
    strbuf_shown(out, text_first(key, PATH_KEY_MAX));
    strbuf_str(out, plain ? "" : "\"]");
}

/* Recursion is bounded by the depth. Leaves out unchanged if value is not below from. */
static bool find_path(struct strbuf *out, const struct document *from, const struct document *value)
{
    const size_t before = out->len;
    uint32_t index = 0;

    if (from == value)
        return true;
    document_each (child, from) {
        if (from->kind == DOCUMENT_ARRAY)
            strbuf_printf(out, "[%u]", index++);
        else
            add_path_key(out, child->key);
        if (find_path(out, child, value))
            return true;
        strbuf_cut(out, before, out->len - before);
    }
    must(out->len == before);
    return false;
}

void document_write_path(struct strbuf *out, const struct document *root,
                         const struct document *value)
{
    CLEANUP(strbuf_done) struct strbuf path;

    strbuf_init(&path);
    must(find_path(&path, root, value));
    strbuf_text(out, (struct text){path.data, path.len});
}

/* ---- looking ---- */

/* Finds a null, too, for document_merge() and document_set(); document_get() hides it. */
static struct document *document_find(const struct document *document, struct text key)
{
    if (document == NULL || document->kind != DOCUMENT_OBJECT)
        return NULL;
    for (struct document *at = document->first; at != NULL; at = at->next)
        if (text_eq(at->key, key))
            return at;
    return NULL;
}

struct document *document_get(const struct document *document, const char *key)
{
    struct document *found = document_find(document, text_of(key));
    return found == NULL || found->kind == DOCUMENT_NULL ? NULL : found;
}

/*
 * A key with a dot, such as an annotation's, cannot be part of a path: use document_get().
 */
struct document *document_at(const struct document *document, const char *path)
{
    struct document *found = NULL;

    must(path[0] != '\0');
    while (*path != '\0') {
        const size_t len = strcspn(path, ".");
        found = document_find(found != NULL ? found : document, (struct text){path, len});
        if (found == NULL || found->kind == DOCUMENT_NULL)
            return NULL;
        path += len + (path[len] == '.');
    }
    return found;
}

const char *document_str(const struct document *document, const char *path)
{
    const struct document *found = document_at(document, path);
    return found != NULL && found->kind == DOCUMENT_STRING && !document_has_nul(found)
               ? found->text.at
               : "";
}

const char *document_shown(const struct document *document, const char *path)
{
    const struct document *found = document_at(document, path);
    return found != NULL && found->kind == DOCUMENT_STRING ? found->shown : "";
}

int64_t document_int(const struct document *document, const char *path)
{
    const struct document *found = document_at(document, path);
    return found != NULL && found->kind == DOCUMENT_NUMBER
               ? (int64_t)strtoll(found->text.at, NULL, 10) /* saturates */
               : 0;
}

bool document_true(const struct document *document, const char *path)
{
    const struct document *found = document_at(document, path);
    return found != NULL && found->kind == DOCUMENT_BOOL && text_is(found->text, "true");
}

bool document_has_nul(const struct document *document)
{
    must(document->text.at != NULL);
    return memchr(document->text.at, '\0', document->text.len) != NULL;
}

/* ---- changing ---- */

/* The copy shares keys and texts with the original, so it must not outlive its arena. */
struct document *document_copy(struct arena *arena, const struct document *document)
{
    struct document *copy = document_new(arena, document->kind);

    copy->at = document->at;
    copy->key_at = document->key_at;
    copy->key = document->key;
    copy->text = document->text;
    copy->shown = document->shown;
    for (const struct document *at = document->first; at != NULL; at = at->next)
        document_append(copy, document_copy(arena, at));
    must(copy->count == document->count);
    return copy;
}

/* Does nothing if there is no such key: RFC 7396 allows a patch to remove an absent one. */
static void unlink_child(struct document *object, struct text key)
{
    struct document *before = NULL;

    must(object->kind == DOCUMENT_OBJECT);
    for (struct document *at = object->first; at != NULL; before = at, at = at->next) {
        if (!text_eq(at->key, key))
            continue;
        if (before != NULL)
            before->next = at->next;
        else
            object->first = at->next;
        if (object->last == at)
            object->last = before;
        at->next = NULL;
        object->count--;
        return;
    }
}

/*
 * Moves value into the tree: if the key exists, the content is copied into the old node, so callers
 * must not keep a pointer to value.
 */
void document_set(struct arena *arena, struct document *object, struct text key,
                  struct document *value)
{
    must(object->kind == DOCUMENT_OBJECT && value->next == NULL);

    struct document *old = document_find(object, key);
    if (old == NULL) {
        value->key = (struct text){arena_copy(arena, key), key.len};
        document_append(object, value);
        return;
    }
    /* Overwrites the old node, to keep the order of keys. */
    struct document *next = old->next;
    const struct text kept = old->key;
    *old = *value;
    old->key = kept;
    old->next = next;
}

void document_set_str(struct arena *arena, struct document *object, const char *key,
                      const char *value)
{
    must(value != NULL);
    document_set(arena, object, text_of(key), document_new_str(arena, text_of(value)));
}

void document_remove(struct document *object, const char *key)
{
    must(object != NULL);
    unlink_child(object, text_of(key));
}

struct document *document_object(struct arena *arena, struct document *object, const char *key)
{
    struct document *found = document_get(object, key);
    if (found == NULL || found->kind != DOCUMENT_OBJECT) {
        document_set(arena, object, text_of(key), document_new(arena, DOCUMENT_OBJECT));
        found = document_get(object, key);
    }
    must(found != NULL && found->kind == DOCUMENT_OBJECT);
    return found;
}

/*
 * Kubernetes has the same rules for application/merge-patch+json: null removes, objects are merged,
 * everything else replaces.
 */
void document_merge(struct arena *arena, struct document *target, const struct document *patch)
{
    must(target->kind == DOCUMENT_OBJECT && patch->kind == DOCUMENT_OBJECT);

    for (const struct document *at = patch->first; at != NULL; at = at->next) {
        if (at->kind == DOCUMENT_NULL) {
            unlink_child(target, at->key);
            continue;
        }
        if (at->kind != DOCUMENT_OBJECT) {
            document_set(arena, target, at->key, document_copy(arena, at));
            continue;
        }
        /* Merge even into an absent value, which removes nulls inside the patch. */
        struct document *old = document_find(target, at->key);
        if (old == NULL || old->kind != DOCUMENT_OBJECT) {
            document_set(arena, target, at->key, document_new(arena, DOCUMENT_OBJECT));
            old = document_find(target, at->key);
        }
        must(old != NULL);
        document_merge(arena, old, at);
    }
}

/*
 * The order of keys does not matter, that of array elements does. Numbers are compared by their
 * digits: 1.0 is not 1.
 */
bool document_equal(const struct document *a, const struct document *b)
{
    if (a->kind != b->kind || a->count != b->count)
        return false;
    /* YAML has several words for null. */
    if (a->kind != DOCUMENT_NULL && !text_eq(a->text, b->text))
        return false;
    const struct document *other = b->first;
    for (const struct document *at = a->first; at != NULL; at = at->next) {
        /* Keys are mostly in the same order, so many of them take linear time. */
        if (a->kind == DOCUMENT_OBJECT && (other == NULL || !text_eq(other->key, at->key)))
            other = document_find(b, at->key);
        if (other == NULL || !document_equal(at, other))
            return false;
        other = other->next;
    }
    return true;
}

/* ---- writing JSON ---- */

enum { ON_ONE_LINE = -1 };

/* level is the number of open brackets, or ON_ONE_LINE at every depth. */
static void new_line(struct strbuf *out, int level)
{
    must(level >= ON_ONE_LINE);
    if (level == ON_ONE_LINE)
        return;
    strbuf_char(out, '\n');
    for (int i = 0; i < level; i++)
        strbuf_str(out, "  ");
}

static void document_write_value(struct strbuf *out, const struct document *document, int level);

/* An empty object or array stays on one line even when indented: {} and []. */
static void write_children(struct strbuf *out, const struct document *document, int level)
{
    const bool object = document->kind == DOCUMENT_OBJECT;
    const int inner = level == ON_ONE_LINE ? ON_ONE_LINE : level + 1;

    must(object || document->kind == DOCUMENT_ARRAY);
    strbuf_char(out, object ? '{' : '[');
    document_each (child, document) {
        new_line(out, inner);
        if (object) {
            strbuf_json(out, child->key);
            strbuf_str(out, level == ON_ONE_LINE ? ":" : ": ");
        }
        document_write_value(out, child, inner);
        if (child->next != NULL)
            strbuf_char(out, ',');
    }
    if (document->count > 0)
        new_line(out, level);
    strbuf_char(out, object ? '}' : ']');
}

/* Numbers and bools are written as they were read. */
static void document_write_value(struct strbuf *out, const struct document *document, int level)
{
    must(level <= JSON_DEPTH_MAX);
    switch (document->kind) {
    case DOCUMENT_NULL:
        strbuf_str(out, "null");
        return;
    case DOCUMENT_BOOL:
    case DOCUMENT_NUMBER:
        must(document->text.len > 0);
        strbuf_text(out, document->text);
        return;
    case DOCUMENT_STRING:
        strbuf_json(out, document->text);
        return;
    case DOCUMENT_ARRAY:
    case DOCUMENT_OBJECT:
        write_children(out, document, level);
    }
}

void document_write(struct strbuf *out, const struct document *document)
{
    document_write_value(out, document, ON_ONE_LINE);
}

void document_write_pretty(struct strbuf *out, const struct document *document)
{
    document_write_value(out, document, 0);
    strbuf_char(out, '\n');
}
