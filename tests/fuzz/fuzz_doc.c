/*
 * A document that is written, in each of three ways, and read again is the same; read as YAML,
 * where that is possible, it is the same too. A merge patch does what RFC 7396 says, as checked
 * with jansson.
 */
#include <string.h>

#include "milligpu/document/document.h"

#include "support.h"

static struct document *read_json(struct text bytes, struct arena *arena)
{
    struct document *document = NULL;
    struct err err;
    if (document_parse_json(bytes, "document", arena, &document, &err) == 0) {
        must(document != NULL);
        return document;
    }
    must(strncmp(err.text, "document", strlen("document")) == 0);
    return NULL;
}

static void write_and_read(const struct document *document, struct arena *arena)
{
    SCOPED_STRBUF(once);
    SCOPED_STRBUF(twice);
    document_write(&once, document);
    const struct document *again = read_json((struct text){once.data, once.len}, arena);
    must(again != NULL && document_equal(document, again) && document_equal(again, document));
    document_write(&twice, again);
    must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    must(document_equal(document, document_copy(arena, document)));
    strbuf_reset(&twice);
    document_write_pretty(&twice, document);
    again = read_json((struct text){twice.data, twice.len}, arena);
    must(again != NULL && document_equal(document, again));
}

static void write_and_read_yaml(const struct document *document, struct arena *arena)
{
    SCOPED_STRBUF(text);
    struct document *documents = NULL;
    struct err err;
    document_write_yaml(&text, document);
    const int rc = document_parse_yaml((struct text){text.data, text.len}, arena, &documents, &err);
    if (rc == -ERR_TOO_LARGE) /* in YAML a scalar counts as a level */
        return;
    must(rc == 0 && documents->count == 1 && document_equal(document, documents->first));
}

/* JSON is nearly YAML: both readers agree on texts that both accept. */
static void read_as_yaml(struct text bytes, const struct document *json, struct arena *arena)
{
    struct document *documents = NULL;
    struct err err;
    if (document_parse_yaml(bytes, arena, &documents, &err) != 0) {
        must(strncmp(err.text, "line ", 5) == 0 || strncmp(err.text, "byte ", 5) == 0);
        return;
    }
    for (const struct document *at = documents->first; at != NULL; at = at->next) {
        write_and_read(at, arena);
        write_and_read_yaml(at, arena);
    }
    if (json != NULL)
        must(documents->count == 1 && document_equal(json, documents->first));
}

/* MergePatch(Target, Patch) of RFC 7396, section 2. */
static json_t *merge(json_t *target, json_t *patch)
{
    const char *name;
    json_t *value;
    if (!json_is_object(patch))
        return json_deep_copy(patch);
    json_t *out = json_is_object(target) ? json_deep_copy(target) : json_object();
    json_object_foreach (patch, name, value)
        if (json_is_null(value))
            (void)json_object_del(out, name); /* it may be missing */
        else
            must(json_object_set_new(out, name, merge(json_object_get(out, name), value)) == 0);
    return out;
}

static void patch(struct text bytes, struct text patch_bytes, struct arena *arena)
{
    struct document *target = read_json(bytes, arena);
    const struct document *change = read_json(patch_bytes, arena);
    const struct second before = second_read(bytes);
    const struct second with = second_read(patch_bytes);
    SCOPED_STRBUF(out);
    if (target != NULL && change != NULL && target->kind == DOCUMENT_OBJECT &&
        change->kind == DOCUMENT_OBJECT) {
        document_merge(arena, target, change);
        write_and_read(target, arena);
        document_write(&out, target);
        const struct second after = second_read((struct text){out.data, out.len});
        if (before.value != NULL && with.value != NULL) {
            json_t *expected = merge(before.value, with.value);
            must(json_equal(after.value, expected));
            json_decref(expected);
        }
        json_decref(after.value);
    }
    json_decref(before.value);
    json_decref(with.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    const struct text bytes = pieces_until(&pieces, '\0');
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    const struct document *document = read_json(bytes, &arena);
    heap_is_bounded(before, size);
    if (document != NULL) {
        write_and_read(document, &arena);
        write_and_read_yaml(document, &arena);
    }
    read_as_yaml(bytes, document, &arena);
    patch(bytes, pieces_rest(&pieces), &arena);
    return 0;
}
