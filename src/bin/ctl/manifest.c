/*
 * Reads Pods from files as kubectl apply -f would, for the command play. Objects move from the
 * parsed document into manifest->pods without being copied; all of it lives in the caller's arena.
 */
#include "manifest.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 256 * 1024 * 1024, READ_BYTES = 64 * 1024 };

/* Only what play itself needs is checked; the fake API server judges the rest. */
static int take_pod(struct manifest *manifest, struct doc *pod, const char *file, struct err *err)
{
    struct arena *arena = manifest->arena;
    const char *name = doc_shown(pod, "metadata.name");

    must(pod->kind == DOC_OBJECT);
    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "%.200s: a Pod has no metadata.name", file);
    if (doc_at(pod, "spec") == NULL)
        return err_set(err, ERR_INVALID, "%.200s: Pod %.253s has no spec", file, name);
    if (doc_str(pod, "metadata.namespace")[0] == '\0')
        doc_set_str(arena, doc_get(pod, "metadata"), "namespace", manifest->namespace);
    doc_append(manifest->pods, pod);
    return 0;
}

static int manifest_take(struct manifest *manifest, struct doc *object, const char *implied,
                         const char *file, struct err *err);

/* The list cannot be used any more afterwards: a document has one parent. */
static int take_items(struct manifest *manifest, const struct doc *list, const char *implied,
                      const char *file, struct err *err)
{
    const struct doc *items = doc_get(list, "items");

    must(implied != NULL);
    if (items != NULL && items->kind != DOC_ARRAY)
        return err_set(err, ERR_INVALID, "%.200s: the items of a List are an array", file);
    struct doc *item = items != NULL ? items->first : NULL;
    while (item != NULL) {
        struct doc *next = item->next;
        item->next = NULL; /* it moves to another array; this one is not used again */
        if (manifest_take(manifest, item, implied, file, err) < 0)
            return err_same(err);
        item = next;
    }
    return 0;
}

/*
 * implied: the kind of an item that says none, in a PodList; the API server's own lists have such
 * items. Lists may contain lists, no deeper than the parser lets any document be.
 */
static int manifest_take(struct manifest *manifest, struct doc *object, const char *implied,
                         const char *file, struct err *err)
{
    const char *kind = doc_shown(object, "kind");

    must(object->next == NULL);
    if (object->kind == DOC_NULL)
        return 0; /* an empty document, such as after a last --- */
    if (object->kind != DOC_OBJECT)
        return err_set(err, ERR_INVALID, "%.200s: a Pod must be an object", file);
    if (kind[0] == '\0')
        kind = implied;
    if (kind[0] == '\0')
        return err_set(err, ERR_INVALID, "%.200s: an object has no kind: it is Pod or List", file);
    if (strcmp(kind, "Pod") == 0)
        return take_pod(manifest, object, file, err);
    if (strcmp(kind, "List") == 0)
        return take_items(manifest, object, "", file, err);
    if (strcmp(kind, "PodList") == 0)
        return take_items(manifest, object, "Pod", file, err);
    manifest->skip(manifest->user, kind, doc_shown(object, "metadata.name"));
    return 0;
}

/* Decides which reader goes first, and whose error is shown. */
static bool manifest_looks_like_json(struct text bytes)
{
    const struct text trimmed = text_trim(bytes);
    size_t at = 0;

    must(trimmed.len <= bytes.len);
    while (at < trimmed.len && strchr(" \t\r\n", trimmed.at[at]) != NULL)
        at++;
    return at < trimmed.len && trimmed.at[at] == '{';
}

int manifest_parse(struct manifest *manifest, struct text bytes, const char *file, struct err *err)
{
    struct doc *document;
    struct err json_err;

    must(manifest->pods->kind == DOC_ARRAY);
    if (manifest_looks_like_json(bytes)) {
        if (doc_parse_json(bytes, "document", manifest->arena, &document, &json_err) == 0)
            return manifest_take(manifest, document, "", file, err);
        /*
         * It may be YAML that begins with a brace; if it is neither, the error of the JSON reader
         * is better.
         */
    }
    struct doc *documents;
    if (doc_parse_yaml(bytes, manifest->arena, &documents, err) < 0) {
        if (manifest_looks_like_json(bytes))
            *err = json_err;
        return err_wrap(err, "%.200s", file);
    }
    for (struct doc *at = documents->first, *next; at != NULL; at = next) {
        next = at->next;
        at->next = NULL;
        if (manifest_take(manifest, at, "", file, err) < 0)
            return err_same(err);
    }
    return 0;
}

static int manifest_read_all(FILE *stream, const char *file, struct strbuf *out, struct err *err)
{
    char bytes[READ_BYTES];
    size_t got;

    must(stream != NULL);
    while ((got = fread(bytes, 1, sizeof bytes, stream)) > 0) {
        if (out->len + got > FILE_BYTES_MAX)
            return err_set(err, ERR_TOO_LARGE, "%.200s is larger than %d MiB", file,
                           FILE_BYTES_MAX / 1048576);
        strbuf_add(out, bytes, got);
    }
    return ferror(stream) != 0 ? err_set(err, ERR_IO, "%.200s: %m", file) : 0;
}

int manifest_read(struct manifest *manifest, const char *file, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf bytes;
    const bool is_stdin = strcmp(file, "-") == 0;
    FILE *stream = is_stdin ? stdin : fopen(file, "re");

    must(manifest->skip != NULL);
    strbuf_init(&bytes);
    if (stream == NULL)
        return err_set(err, ERR_INVALID, "%.200s: %m", file);
    const int status = manifest_read_all(stream, file, &bytes, err);
    if (!is_stdin)
        (void)fclose(stream); /* only read */
    if (status < 0)
        return status;
    return manifest_parse(manifest, (struct text){bytes.data, bytes.len},
                          is_stdin ? "standard input" : file, err);
}
