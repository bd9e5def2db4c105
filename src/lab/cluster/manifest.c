/*
 * Reads Pods, and objects that make Pods, from files as in kubectl apply -f, for the commands play
 * and simulate. Workloads borrow from the parsed documents, and both are in the caller's arena.
 */
#include "manifest.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/map.h"

#include "guess.h"

enum { FILE_BYTES_MAX = 256 * 1024 * 1024, READ_BYTES = 64 * 1024 };

/* One object, while it is read. */
struct manifest_reading {
    struct manifest *manifest;
    const struct document *object;
    const char *word; /* kind of the object */
    const char *file;
};

static int object_wrong(const struct manifest_reading *taking, struct err *err)
{
    const char *name = document_shown(taking->object, "metadata.name");

    must(err->text[0] != '\0');
    return err_wrap(err, "%.120s: %.63s%s%.120s", taking->file, taking->word,
                    name[0] != '\0' ? " " : "", name);
}

/* Reports an invalid object to wrong(); without wrong(), the error ends the reading. */
static int manifest_wrong(struct manifest *manifest, const struct err *err)
{
    must(err->text[0] != '\0');
    if (manifest->wrong == NULL)
        return err_same(err);
    manifest->wrong(manifest->user, err->text);
    return 0;
}

static int add_maker(const struct manifest_reading *taking, struct pod_maker *maker,
                     struct err *err)
{
    struct manifest *manifest = taking->manifest;

    must(maker->next == NULL);
    if (maker->pods > WORKLOAD_PODS_MAX - manifest->pods)
        return err_set(err, ERR_TOO_LARGE,
                       "its %u pods and the %u before are too many: play makes at most %d",
                       (unsigned)maker->pods, (unsigned)manifest->pods, WORKLOAD_PODS_MAX);
    if (manifest->last != NULL)
        manifest->last->next = maker;
    else
        manifest->first = maker;
    manifest->last = maker;
    manifest->workloads++;
    manifest->pods += maker->pods;
    return 0;
}

static int take_workload(const struct manifest_reading *taking, enum workload_kind kind,
                         struct err *err)
{
    struct manifest *manifest = taking->manifest;
    struct pod_maker *maker = arena_alloc(manifest->arena, sizeof *maker);
    const struct pod_maker_names names = {manifest->namespace, manifest->workloads};

    must(taking->object->kind == DOCUMENT_OBJECT);
    if (pod_maker_read(manifest->arena, taking->object, kind, &names, maker, err) < 0 ||
        add_maker(taking, maker, err) < 0)
        return object_wrong(taking, err);
    return 0;
}

static int take_part(void *user, const struct pod_maker_part *part, struct err *err)
{
    const struct manifest_reading *taking = user;
    struct manifest *manifest = taking->manifest;
    struct pod_maker *maker = arena_alloc(manifest->arena, sizeof *maker);
    const struct pod_maker_names names = {manifest->namespace, manifest->workloads};

    must(part->kind[0] != '\0');
    if (pod_maker_read_part(manifest->arena, taking->object, part, &names, maker, err) < 0)
        return err_same(err);
    return add_maker(taking, maker, err);
}

static int take_unknown(struct manifest_reading *taking, struct err *err)
{
    struct manifest *manifest = taking->manifest;
    uint32_t parts = 0;

    if (manifest->other != NULL && manifest->other(manifest->user, taking->object))
        return 0;
    if (guess_parts(manifest->arena, taking->object, take_part, taking, &parts, err) < 0)
        return object_wrong(taking, err);
    must(manifest->skip != NULL);
    if (parts == 0)
        manifest->skip(manifest->user, taking->word,
                       document_shown(taking->object, "metadata.name"),
                       "it makes no pods that are known here");
    return 0;
}

static int manifest_take(struct manifest *manifest, struct document *object, const char *implied,
                         const char *file, struct err *err);

/* Takes the items of a list, which is unusable afterwards, since a document has one parent. */
static int take_items(struct manifest *manifest, const struct document *list, const char *implied,
                      const char *file, struct err *err)
{
    const struct document *items = document_get(list, "items");

    must(implied != NULL);
    if (items != NULL && items->kind != DOCUMENT_ARRAY) {
        (void)err_set(err, ERR_INVALID, "%.200s: the items of a List are an array", file);
        return manifest_wrong(manifest, err);
    }
    struct document *item = items != NULL ? items->first : NULL;
    while (item != NULL) {
        struct document *next = item->next;
        item->next = NULL; /* the item moves to another array; this one is not used again */
        if (manifest_take(manifest, item, implied, file, err) < 0)
            return err_same(err);
        item = next;
    }
    return 0;
}

/* The kind of items: "Pod" for "PodList", whose items can lack it; "" if kind is not a list. */
static const char *list_of(struct manifest *manifest, const char *kind)
{
    const size_t bytes = strlen(kind);
    const size_t end = strlen("List");

    must(kind[0] != '\0');
    if (bytes <= end || strcmp(kind + bytes - end, "List") != 0)
        return "";
    const char *item = arena_copy(manifest->arena, (struct text){kind, bytes - end});
    return workload_kind_of(item, "") != WORKLOAD_KINDS ? item : "";
}

/*
 * implied: the kind of items without one, as in a PodList from an API server. Lists can contain
 * lists; the parser limits their depth.
 */
static int manifest_take(struct manifest *manifest, struct document *object, const char *implied,
                         const char *file, struct err *err)
{
    const char *kind = document_shown(object, "kind");

    must(object->next == NULL);
    if (object->kind == DOCUMENT_NULL)
        return 0; /* an empty document, such as after a last --- */
    if (kind[0] == '\0')
        kind = implied;
    if (object->kind != DOCUMENT_OBJECT || kind[0] == '\0') {
        (void)err_set(err, ERR_INVALID,
                      object->kind != DOCUMENT_OBJECT
                          ? "%.200s: a Pod must be an object"
                          : "%.200s: an object has no kind: it is Pod or "
                            "List",
                      file);
        return manifest_wrong(manifest, err);
    }
    struct manifest_reading taking = {manifest, object, kind, file};
    const enum workload_kind known = workload_kind_of(kind, document_str(object, "apiVersion"));
    if (known != WORKLOAD_KINDS)
        return take_workload(&taking, known, err) < 0 ? manifest_wrong(manifest, err) : 0;
    if (strcmp(kind, "List") == 0)
        return take_items(manifest, object, "", file, err);
    const char *item = list_of(manifest, kind);
    if (item[0] != '\0')
        return take_items(manifest, object, item, file, err);
    return take_unknown(&taking, err) < 0 ? manifest_wrong(manifest, err) : 0;
}

/* --- objects of one manifest that make each other --- */

static const char *workload_key(struct arena *arena, const char *kind, const char *namespace,
                                const char *name)
{
    must(kind[0] != '\0');
    return arena_printf(arena, "%s/%s/%s", kind, namespace, name);
}

static bool is_made_by_another(const struct manifest *manifest, const struct map *all,
                               const struct pod_maker *workload)
{
    must(manifest->arena != NULL);
    if (workload->owner_kind[0] == '\0')
        return false;
    const char *key = workload_key(manifest->arena, workload->owner_kind, workload->namespace,
                                   workload->owner_name);
    return map_find(all, text_of(key)) != NULL;
}

void manifest_finish(struct manifest *manifest)
{
    struct pod_maker **at = &manifest->first;
    struct map all;

    map_init(&all);
    for (struct pod_maker *each = manifest->first; each != NULL; each = each->next)
        (void)map_put(
            &all, text_of(workload_key(manifest->arena, each->word, each->namespace, each->name)),
            each); /* for two objects with one name, either makes the pods */
    manifest->last = NULL;
    while (*at != NULL) {
        struct pod_maker *workload = *at;
        if (!is_made_by_another(manifest, &all, workload)) {
            manifest->last = workload;
            at = &workload->next;
            continue;
        }
        manifest->skip(manifest->user, workload->word, workload->name,
                       arena_printf(manifest->arena, "%s %s makes it", workload->owner_kind,
                                    workload->owner_name));
        must(manifest->pods >= workload->pods);
        manifest->pods -= workload->pods;
        manifest->workloads--;
        *at = workload->next;
    }
    map_done(&all);
}

/* --- bytes --- */

/* Decides which reader is tried first, and whose error is shown. */
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
    struct document *document;
    struct err json_err;

    must(manifest->arena != NULL);
    if (manifest_looks_like_json(bytes)) {
        if (document_parse_json(bytes, "document", manifest->arena, &document, &json_err) == 0)
            return manifest_take(manifest, document, "", file, err);
        /*
         * The text can be YAML that begins with a brace; if it is neither, the error of the JSON
         * reader is shown.
         */
    }
    struct document *documents;
    if (document_parse_yaml(bytes, manifest->arena, &documents, err) < 0) {
        if (manifest_looks_like_json(bytes))
            *err = json_err;
        return err_wrap(err, "%.200s", file);
    }
    for (struct document *at = documents->first, *next; at != NULL; at = next) {
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
        (void)fclose(stream); /* read-only */
    if (status < 0)
        return status;
    return manifest_parse(manifest, (struct text){bytes.data, bytes.len},
                          is_stdin ? "standard input" : file, err);
}
