/*
 * Documents as trees: JSON in and out, search, change, comparison. Called by milligpuctl, the fake
 * API server and the reader of kubeconfigs; the daemon's own decoders use the pull reader instead,
 * because a tree of a large list takes too much memory. A tree lives in one arena and belongs to
 * one thread. Recursion is bounded by JSON_DEPTH_MAX, which both parsers enforce. First values,
 * then parsing, looking, changing, writing.
 */
#include "milligpu/document/document.h"

#include <inttypes.h>
#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/base/map.h"
#include "milligpu/wire/json/json.h"

#include "document_internal.h"

/* For fewer keys it is cheaper to compare each with each than to hash. */
enum { KEYS_FEW = 16 };
/* Bytes of each key in a path. */
enum { PATH_KEY_MAX = 64 };

const char *doc_kind_name(enum doc_kind kind)
{
    static const char *const name[] = {
        [DOC_NULL] = "null",       [DOC_BOOL] = "true or false", [DOC_NUMBER] = "a number",
        [DOC_STRING] = "a string", [DOC_ARRAY] = "an array",     [DOC_OBJECT] = "an object",
    };
    must((unsigned)kind < ARRAY_LEN(name));
    return name[kind];
}

/* No text is NULL, so callers can print and compare without a check. */
struct doc *doc_new(struct arena *arena, enum doc_kind kind)
{
    struct doc *doc = arena_alloc(arena, sizeof *doc);
    doc->kind = kind;
    doc->text = TEXT("");
    doc->shown = "";
    return doc;
}

/*
 * Foreign text may hold anything, and a terminal would obey it. Nearly all text is plain ASCII and
 * is its own form for people, without a copy.
 */
static const char *doc_show(struct arena *arena, struct text kept)
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

/* Copied, because the text may borrow from input that ends before the tree does. */
struct doc *doc_new_str(struct arena *arena, struct text text)
{
    struct doc *doc = doc_new(arena, DOC_STRING);
    doc->text = (struct text){arena_copy(arena, text), text.len};
    doc->shown = doc_show(arena, doc->text);
    return doc;
}

struct doc *doc_new_int(struct arena *arena, int64_t number)
{
    struct doc *doc = doc_new(arena, DOC_NUMBER);
    doc->text = text_of(arena_printf(arena, "%" PRId64, number));
    return doc;
}

/*
 * last makes it constant time; the next of value must be NULL, or a part of another tree would
 * follow.
 */
void doc_append(struct doc *array, struct doc *value)
{
    must(array->kind == DOC_ARRAY || array->kind == DOC_OBJECT);
    must(value->next == NULL);

    if (array->last != NULL)
        array->last->next = value;
    else
        array->first = value;
    array->last = value;
    array->count++;
}

/* ---- places ---- */

/* Bytes after the first of a character count no column. */
static void doc_mark_pass(struct doc_mark *mark, char byte)
{
    must(mark->line > 0 && mark->column > 0);
    if (byte == '\n') {
        mark->line++;
        mark->column = 1;
    } else if (((unsigned char)byte & 0xC0) != 0x80) {
        mark->column++;
    }
}

struct doc_mark doc_mark_of(struct text bytes, size_t at)
{
    struct doc_mark mark = {.line = 1, .column = 1};

    for (size_t i = 0; i < at && i < bytes.len; i++)
        doc_mark_pass(&mark, bytes.at[i]);
    must(mark.line > 0);
    return mark;
}

/* ---- JSON ---- */

struct json_reading {
    struct json_reader json;
    struct arena *arena;
    struct text bytes;
    const char *counted; /* lines and columns are counted up to here */
    struct doc_mark now;
};

/* Counts on from where it stopped, so all places together cost one walk over the input. */
static struct doc_mark mark_at(struct json_reading *in, const char *at)
{
    must(at >= in->counted);
    for (; in->counted < at; in->counted++)
        doc_mark_pass(&in->now, *in->counted);
    return in->now;
}

static struct doc_mark mark_now(struct json_reading *in)
{
    must(in->now.line > 0);
    return mark_at(in, in->json.at);
}

/* Hashed, so that an object with thousands of keys costs linear time. */
static bool key_is_new_slow(const struct doc *object, struct text key, struct map *seen)
{
    if (seen->count == 0)
        for (struct doc *at = object->first; at != NULL; at = at->next)
            map_put(seen, at->key, at);
    return map_find(seen, key) == NULL;
}

static bool key_is_new(const struct doc *object, struct text key, struct map *seen)
{
    must(seen->count == 0 || seen->count == object->count);
    if (object->count >= KEYS_FEW)
        return key_is_new_slow(object, key, seen);
    for (const struct doc *at = object->first; at != NULL; at = at->next)
        if (text_eq(at->key, key))
            return false;
    return true;
}

/* Once there are many keys they go into a map: add those that came since. */
static void key_seen(struct doc *value, struct map *seen)
{
    if (seen->count > 0)
        map_put(seen, value->key, value);
}

static struct doc *read_value(struct json_reading *in);

/* Only blanks and a comma are before a key. */
static bool doc_read_key(struct json_reading *in, struct text *out, struct doc_mark *out_at)
{
    const char *before = in->json.at;

    if (!json_read_key(&in->json, out))
        return false;
    const char *quote = memchr(before, '"', (size_t)(in->json.at - before));
    must(quote != NULL);
    *out_at = mark_at(in, quote);
    return true;
}

/* A key may borrow from the input, which may end before the tree does: it is copied. */
static struct doc *doc_read_object(struct json_reading *in)
{
    must(in->arena != NULL && in->now.line > 0);
    struct doc *object = doc_new(in->arena, DOC_OBJECT);
    struct map seen;
    struct doc_mark key_at;
    struct text key;

    object->at = mark_now(in);
    map_init(&seen);
    json_read_object(&in->json);
    while (doc_read_key(in, &key, &key_at)) {
        if (!key_is_new(object, key, &seen)) {
            json_reader_fail(&in->json, "the key \"%.*s\" is there twice", TEXT_ARG(key));
            break;
        }
        struct doc *value = read_value(in);
        if (value == NULL)
            break;
        value->key = (struct text){arena_copy(in->arena, key), key.len};
        value->key_at = key_at;
        doc_append(object, value);
        key_seen(value, &seen);
    }
    map_done(&seen);
    return in->json.failed ? NULL : object;
}

static struct doc *read_array(struct json_reading *in)
{
    struct doc *array = doc_new(in->arena, DOC_ARRAY);

    array->at = mark_now(in);
    json_read_array(&in->json);
    while (json_read_element(&in->json)) {
        struct doc *value = read_value(in);
        if (value == NULL)
            return NULL;
        doc_append(array, value);
    }
    return in->json.failed ? NULL : array;
}

static struct doc *doc_read_string(struct json_reading *in)
{
    const struct doc_mark at = mark_now(in);
    struct text text;
    if (!json_read_string(&in->json, &text))
        return NULL;
    struct doc *doc = doc_new_str(in->arena, text);
    doc->at = at;
    return doc;
}

/* The raw bytes: a number keeps its digits, so writing it again changes nothing. */
static struct doc *read_scalar(struct json_reading *in, enum doc_kind kind)
{
    struct doc *doc = doc_new(in->arena, kind);
    struct text raw;

    doc->at = mark_now(in);
    if (!json_read_raw(&in->json, &raw))
        return NULL;
    doc->text = (struct text){arena_copy(in->arena, raw), raw.len};
    return doc;
}

/* The reader bounds the depth. */
static struct doc *read_value(struct json_reading *in)
{
    switch (json_read_peek(&in->json)) {
    case JSON_TYPE_OBJECT:
        return doc_read_object(in);
    case JSON_TYPE_ARRAY:
        return read_array(in);
    case JSON_TYPE_STRING:
        return doc_read_string(in);
    case JSON_TYPE_NUMBER:
        return read_scalar(in, DOC_NUMBER);
    case JSON_TYPE_TRUE:
    case JSON_TYPE_FALSE:
        return read_scalar(in, DOC_BOOL);
    case JSON_TYPE_NULL:
        return read_scalar(in, DOC_NULL);
    case JSON_TYPE_END:
    case JSON_TYPE_BAD:
        break;
    }
    json_read_skip(&in->json); /* says what is wrong */
    return NULL;
}

int doc_json_parse(struct text bytes, const char *root, struct arena *arena, struct doc **out,
                   struct doc_mark *out_fault, struct err *err)
{
    struct json_reading in = {
        .arena = arena, .bytes = bytes, .counted = bytes.at, .now = {.line = 1, .column = 1}};

    json_reader_init(&in.json, bytes, root, arena, err);
    struct doc *doc = read_value(&in);
    const int rc = json_reader_finish(&in.json);
    if (rc < 0) {
        *out_fault = doc_mark_of(bytes, (size_t)(in.json.at - in.json.begin));
        return rc;
    }
    *out = doc;
    return 0;
}

int doc_parse_json(struct text bytes, const char *root, struct arena *arena, struct doc **out,
                   struct err *err)
{
    struct doc_mark unused;

    must(root[0] != '\0');
    return doc_json_parse(bytes, root, arena, out, &unused, err);
}

/* ---- paths ---- */

/* A key with any other character, a dot among them, would look like more than one. */
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

/* Bounded by the depth of the tree. Leaves out as it was if the value is elsewhere. */
static bool find_path(struct strbuf *out, const struct doc *from, const struct doc *value)
{
    const size_t before = out->len;
    uint32_t index = 0;

    if (from == value)
        return true;
    doc_each (child, from) {
        if (from->kind == DOC_ARRAY)
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

void doc_write_path(struct strbuf *out, const struct doc *root, const struct doc *value)
{
    CLEANUP(strbuf_done) struct strbuf path;

    strbuf_init(&path);
    must(find_path(&path, root, value));
    strbuf_text(out, (struct text){path.data, path.len});
}

/* ---- looking ---- */

/* Finds a null, too: doc_merge() and doc_set() need it, while doc_get() hides it. */
static struct doc *doc_find(const struct doc *doc, struct text key)
{
    if (doc == NULL || doc->kind != DOC_OBJECT)
        return NULL;
    for (struct doc *at = doc->first; at != NULL; at = at->next)
        if (text_eq(at->key, key))
            return at;
    return NULL;
}

struct doc *doc_get(const struct doc *doc, const char *key)
{
    struct doc *found = doc_find(doc, text_of(key));
    return found == NULL || found->kind == DOC_NULL ? NULL : found;
}

/*
 * A key that contains a dot, such as that of an annotation, cannot be part of a path: use
 * doc_get().
 */
struct doc *doc_at(const struct doc *doc, const char *path)
{
    struct doc *found = NULL;

    must(path[0] != '\0');
    while (*path != '\0') {
        const size_t len = strcspn(path, ".");
        found = doc_find(found != NULL ? found : doc, (struct text){path, len});
        if (found == NULL || found->kind == DOC_NULL)
            return NULL;
        path += len + (path[len] == '.');
    }
    return found;
}

const char *doc_str(const struct doc *doc, const char *path)
{
    const struct doc *found = doc_at(doc, path);
    return found != NULL && found->kind == DOC_STRING && !doc_has_nul(found) ? found->text.at : "";
}

const char *doc_shown(const struct doc *doc, const char *path)
{
    const struct doc *found = doc_at(doc, path);
    return found != NULL && found->kind == DOC_STRING ? found->shown : "";
}

int64_t doc_int(const struct doc *doc, const char *path)
{
    const struct doc *found = doc_at(doc, path);
    return found != NULL && found->kind == DOC_NUMBER
               ? (int64_t)strtoll(found->text.at, NULL, 10) /* saturates */
               : 0;
}

bool doc_true(const struct doc *doc, const char *path)
{
    const struct doc *found = doc_at(doc, path);
    return found != NULL && found->kind == DOC_BOOL && text_is(found->text, "true");
}

bool doc_has_nul(const struct doc *doc)
{
    must(doc->text.at != NULL);
    return memchr(doc->text.at, '\0', doc->text.len) != NULL;
}

/* ---- changing ---- */

/* Keys and texts are shared with the original, so the copy must not outlive its arena. */
struct doc *doc_copy(struct arena *arena, const struct doc *doc)
{
    struct doc *copy = doc_new(arena, doc->kind);

    copy->at = doc->at;
    copy->key_at = doc->key_at;
    copy->key = doc->key;
    copy->text = doc->text;
    copy->shown = doc->shown;
    for (const struct doc *at = doc->first; at != NULL; at = at->next)
        doc_append(copy, doc_copy(arena, at));
    must(copy->count == doc->count);
    return copy;
}

/* Nothing happens if there is no such key: RFC 7396 allows a patch to remove what is not there. */
static void unlink_child(struct doc *object, struct text key)
{
    struct doc *before = NULL;

    must(object->kind == DOC_OBJECT);
    for (struct doc *at = object->first; at != NULL; before = at, at = at->next) {
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
 * value moves into the tree: if the key exists, its content is copied into the old place, so
 * callers must not keep a pointer to it.
 */
void doc_set(struct arena *arena, struct doc *object, struct text key, struct doc *value)
{
    must(object->kind == DOC_OBJECT && value->next == NULL);

    struct doc *old = doc_find(object, key);
    if (old == NULL) {
        value->key = (struct text){arena_copy(arena, key), key.len};
        doc_append(object, value);
        return;
    }
    /* In its place, to keep the order of keys. */
    struct doc *next = old->next;
    const struct text kept = old->key;
    *old = *value;
    old->key = kept;
    old->next = next;
}

void doc_set_str(struct arena *arena, struct doc *object, const char *key, const char *value)
{
    must(value != NULL);
    doc_set(arena, object, text_of(key), doc_new_str(arena, text_of(value)));
}

void doc_remove(struct doc *object, const char *key)
{
    must(object != NULL);
    unlink_child(object, text_of(key));
}

struct doc *doc_object(struct arena *arena, struct doc *object, const char *key)
{
    struct doc *found = doc_get(object, key);
    if (found == NULL || found->kind != DOC_OBJECT) {
        doc_set(arena, object, text_of(key), doc_new(arena, DOC_OBJECT));
        found = doc_get(object, key);
    }
    must(found != NULL && found->kind == DOC_OBJECT);
    return found;
}

/*
 * Kubernetes has the same rules for application/merge-patch+json: null removes, objects are merged,
 * everything else replaces.
 */
void doc_merge(struct arena *arena, struct doc *target, const struct doc *patch)
{
    must(target->kind == DOC_OBJECT && patch->kind == DOC_OBJECT);

    for (const struct doc *at = patch->first; at != NULL; at = at->next) {
        if (at->kind == DOC_NULL) {
            unlink_child(target, at->key);
            continue;
        }
        if (at->kind != DOC_OBJECT) {
            doc_set(arena, target, at->key, doc_copy(arena, at));
            continue;
        }
        /* Even into nothing: nulls inside the patch must not be kept. */
        struct doc *old = doc_find(target, at->key);
        if (old == NULL || old->kind != DOC_OBJECT) {
            doc_set(arena, target, at->key, doc_new(arena, DOC_OBJECT));
            old = doc_find(target, at->key);
        }
        must(old != NULL);
        doc_merge(arena, old, at);
    }
}

/*
 * Keys may come in any order, elements of an array may not. Numbers are compared by their digits:
 * 1.0 is not 1.
 */
bool doc_equal(const struct doc *a, const struct doc *b)
{
    if (a->kind != b->kind || a->count != b->count)
        return false;
    /* YAML has several words for null. */
    if (a->kind != DOC_NULL && !text_eq(a->text, b->text))
        return false;
    const struct doc *other = b->first;
    for (const struct doc *at = a->first; at != NULL; at = at->next) {
        /* Keys are mostly in the same order, so that many of them cost linear time. */
        if (a->kind == DOC_OBJECT && (other == NULL || !text_eq(other->key, at->key)))
            other = doc_find(b, at->key);
        if (other == NULL || !doc_equal(at, other))
            return false;
        other = other->next;
    }
    return true;
}

/* ---- writing JSON ---- */

enum { ON_ONE_LINE = -1 };

/* The level counts the open brackets; ON_ONE_LINE stays as it is at each level. */
static void new_line(struct strbuf *out, int level)
{
    must(level >= ON_ONE_LINE);
    if (level == ON_ONE_LINE)
        return;
    strbuf_char(out, '\n');
    for (int i = 0; i < level; i++)
        strbuf_str(out, "  ");
}

static void doc_write_value(struct strbuf *out, const struct doc *doc, int level);

/* An empty object or array stays on one line even when indented: {} and []. */
static void write_children(struct strbuf *out, const struct doc *doc, int level)
{
    const bool object = doc->kind == DOC_OBJECT;
    const int inner = level == ON_ONE_LINE ? ON_ONE_LINE : level + 1;

    must(object || doc->kind == DOC_ARRAY);
    strbuf_char(out, object ? '{' : '[');
    doc_each (child, doc) {
        new_line(out, inner);
        if (object) {
            strbuf_json(out, child->key);
            strbuf_str(out, level == ON_ONE_LINE ? ":" : ": ");
        }
        doc_write_value(out, child, inner);
        if (child->next != NULL)
            strbuf_char(out, ',');
    }
    if (doc->count > 0)
        new_line(out, level);
    strbuf_char(out, object ? '}' : ']');
}

/* Numbers and bools are written as they were read. */
static void doc_write_value(struct strbuf *out, const struct doc *doc, int level)
{
    must(level <= JSON_DEPTH_MAX);
    switch (doc->kind) {
    case DOC_NULL:
        strbuf_str(out, "null");
        return;
    case DOC_BOOL:
    case DOC_NUMBER:
        must(doc->text.len > 0);
        strbuf_text(out, doc->text);
        return;
    case DOC_STRING:
        strbuf_json(out, doc->text);
        return;
    case DOC_ARRAY:
    case DOC_OBJECT:
        write_children(out, doc, level);
    }
}

void doc_write(struct strbuf *out, const struct doc *doc)
{
    doc_write_value(out, doc, ON_ONE_LINE);
}

void doc_write_pretty(struct strbuf *out, const struct doc *doc)
{
    doc_write_value(out, doc, 0);
    strbuf_char(out, '\n');
}
