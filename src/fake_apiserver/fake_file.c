/*
 * Loads a cluster file into the fake API server. Called at the start, before the first request, in
 * the main thread; several files may be loaded one after the other. The file is never written. In
 * order: parse the whole text (without the lock), check and complete each item, refuse duplicates,
 * and only then store everything, which cannot fail. Only fields that the fake API server reads are
 * checked; clients must handle the rest, as in a real cluster.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"

#include "fake_internal.h"

/* limit of a cluster file: 120,000 pods of 4 KB */
enum { FILE_BYTES_MAX = 512 * 1024 * 1024 };

/* Documents of one resource, in the arena. */
struct docs {
    struct document **document;
    size_t count;
    size_t capacity;
};

/* State of a load. All checks precede the first store, so that an invalid file changes nothing. */
struct file_loading {
    struct fake_apiserver *fake;
    const char *file;
    struct arena arena;
    struct docs docs[RESOURCES];
    uint64_t ignored;
    struct err *err;
    char where[64]; /* "items[3]", "document 2", or "" */
};

/* Sets an error with file, line and path. */
static int file_wrong(struct file_loading *in, const struct document *at, const char *text)
{
    must(text[0] != '\0');
    return err_set(in->err, ERR_INVALID, "%s: line %u: %s%s%s", in->file, at->at.line, in->where,
                   in->where[0] != '\0' ? "." : "", text);
}

static int wrong_type(struct file_loading *in, const struct document *at, const char *field,
                      const char *expected)
{
    char text[256];

    must(expected[0] != '\0');
    (void)snprintf(text, sizeof text, "%s%sexpected %s, found %s", field,
                   field[0] != '\0' ? ": " : "", expected,
                   document_kind_name(at->kind)); /* truncation is fine */
    return file_wrong(in, at, text);
}

static void docs_add(struct docs *docs, struct document *document)
{
    must(document->kind == DOCUMENT_OBJECT);
    docs->document = xgrow(docs->document, docs->count, &docs->capacity, sizeof(struct document *));
    docs->document[docs->count++] = document;
}

static int check_field(struct file_loading *in, const struct document *item, const char *path,
                       enum document_kind kind)
{
    const struct document *found = document_at(item, path);

    if (found == NULL)
        return 0;
    if (found->kind != kind)
        return wrong_type(in, found, path, document_kind_name(kind));
    /* As in the API server, node and phase are checked, but a scheduler may have any name. */
    if (kind == DOCUMENT_STRING && document_has_nul(found) &&
        strcmp(path, "spec.schedulerName") != 0)
        return file_wrong(in, found, "a NUL where a node or a phase should be");
    return 0;
}

/* Checks the fields that the fake API server reads. */
static int check_item(struct file_loading *in, const struct document *item)
{
    static const struct {
        const char *path;
        enum document_kind kind;
    } field[] = {
        {"spec", DOCUMENT_OBJECT},
        {"status", DOCUMENT_OBJECT},
        {"spec.nodeName", DOCUMENT_STRING},
        {"spec.schedulerName", DOCUMENT_STRING},
        {"status.phase", DOCUMENT_STRING},
        {"spec.containers", DOCUMENT_ARRAY},
        {"status.capacity", DOCUMENT_OBJECT},
        {"status.allocatable", DOCUMENT_OBJECT},
    };
    struct err err;

    if (fake_check_metadata(item, &err) < 0)
        return file_wrong(in, item, err.text);
    if (!fake_name_valid(document_str(item, "metadata.name")))
        return file_wrong(in, item,
                          document_str(item, "metadata.name")[0] == '\0'
                              ? "metadata.name: expected a name, found nothing"
                              : "metadata.name: expected lower case letters, digits, '-' and '.'");
    for (size_t i = 0; i < ARRAY_LEN(field); i++) {
        const int rc = check_field(in, item, field[i].path, field[i].kind);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/*
 * Adds the API server's defaults, which files written by hand lack. uids are added later, in
 * file_store(), because they use a counter of the fake API server.
 */
static void fill_item(struct file_loading *in, enum resource_id id, struct document *item)
{
    const struct resource *resource = fake_resource(id);
    struct document *meta = document_object(&in->arena, item, "metadata");
    struct err ignored;

    document_set_str(&in->arena, item, "kind", resource->kind);
    document_set_str(&in->arena, item, "apiVersion", resource->group_version);
    if (resource->namespaced && document_str(meta, "namespace")[0] == '\0')
        document_set_str(&in->arena, meta, "namespace", "default");
    if (!resource->namespaced)
        document_remove(meta, "namespace");
    if (document_str(meta, "creationTimestamp")[0] == '\0')
        document_set_str(&in->arena, meta, "creationTimestamp", fake_time(in->fake, &in->arena));
    if (id == RES_PODS) {
        struct document *status = document_object(&in->arena, item, "status");
        if (document_str(status, "phase")[0] == '\0')
            document_set_str(&in->arena, status, "phase", "Pending");
        /* Invalid quantities are reported by the decoders. */
        (void)fake_pod_fill_requests(&in->arena, item, false, &ignored);
    } else {
        struct document *status = document_object(&in->arena, item, "status");
        const struct document *capacity = document_get(status, "capacity");
        if (capacity != NULL && document_get(status, "allocatable") == NULL)
            document_set(&in->arena, status, TEXT("allocatable"),
                         document_copy(&in->arena, capacity));
    }
}

/*
 * kind may be omitted in the items of a NodeList. Objects of other kinds, which `kubectl get` may
 * have been asked for, are counted and skipped.
 */
static int load_item(struct file_loading *in, struct document *item, const char *list_of)
{
    if (item->kind != DOCUMENT_OBJECT)
        return wrong_type(in, item, "", "an object");
    const char *kind = document_str(item, "kind");
    if (kind[0] == '\0')
        kind = list_of;
    if (kind[0] == '\0')
        return file_wrong(in, item, "kind: expected \"Node\" or \"Pod\", found nothing");
    for (enum resource_id id = RES_NODES; id <= RES_PODS; id++) {
        if (strcmp(kind, fake_resource(id)->kind) != 0)
            continue;
        const int rc = check_item(in, item);
        if (rc < 0)
            return rc;
        fill_item(in, id, item);
        docs_add(&in->docs[id], item);
        return 0;
    }
    in->ignored++;
    return 0;
}

/* Sets where to the path of each item in turn. */
static int load_list(struct file_loading *in, struct document *list, const char *kind)
{
    struct document *items = document_get(list, "items");
    char prefix[sizeof in->where];
    char of[16];
    size_t index = 0;

    if (items == NULL)
        return file_wrong(in, list, "items: expected an array, found nothing");
    if (items->kind != DOCUMENT_ARRAY)
        return wrong_type(in, items, "items", "an array");
    /* "PodList" is a list of "Pod". */
    const size_t len = strlen(kind) - strlen("List");
    (void)snprintf(of, sizeof of, "%.*s", (int)len, kind); /* a longer one is not one of ours */
    memcpy(prefix, in->where, sizeof prefix);
    for (struct document *at = items->first; at != NULL; at = at->next) {
        (void)snprintf(in->where, sizeof in->where, "%.20s%sitems[%zu]", prefix,
                       prefix[0] != '\0' ? "." : "", index++); /* fits */
        const int rc = load_item(in, at, of);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static bool ends_in_list(const char *kind)
{
    must(kind != NULL);
    const size_t len = strlen(kind);
    return len >= 4 && strcmp(kind + len - 4, "List") == 0;
}

static int load_document(struct file_loading *in, struct document *document)
{
    const char *kind = document_str(document, "kind");

    if (document->kind == DOCUMENT_NULL)
        return 0; /* an empty document */
    if (document->kind != DOCUMENT_OBJECT || kind[0] == '\0') {
        char text[192];
        (void)snprintf(text, sizeof text,
                       "expected a List, as `kubectl get nodes,pods -A -o json` prints it, found "
                       "%s%s",
                       document_kind_name(document->kind),
                       document->kind == DOCUMENT_OBJECT ? " without a kind" : ""); /* fits */
        return file_wrong(in, document, text);
    }
    return ends_in_list(kind) ? load_list(in, document, kind) : load_item(in, document, "");
}

static int load_documents(struct file_loading *in, struct document *documents)
{
    unsigned number = 0;

    if (documents->count == 0)
        return err_set(in->err, ERR_INVALID,
                       "%s: is empty: expected a List, as `kubectl get nodes,pods -A -o json` "
                       "prints it",
                       in->file);
    for (struct document *at = documents->first; at != NULL; at = at->next) {
        in->where[0] = '\0';
        if (documents->count > 1)
            (void)snprintf(in->where, sizeof in->where, "document %u", ++number); /* fits */
        const int rc = load_document(in, at);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- duplicates ---- */

/* Any order that makes equal names adjacent. */
static int compare_docs(const void *a, const void *b)
{
    const struct document *const *left = a;
    const struct document *const *right = b;
    const int first = strcmp(document_str(*left, "metadata.namespace"),
                             document_str(*right, "metadata.namespace"));
    return first != 0 ? first
                      : strcmp(document_str(*left, "metadata.name"),
                               document_str(*right, "metadata.name"));
}

/* Refuses duplicate names, also of an earlier file: the second object would replace the first. */
static int file_check_names(struct file_loading *in, enum resource_id id)
{
    struct docs *docs = &in->docs[id];

    if (docs->count == 0)
        return 0;
    qsort(docs->document, docs->count, sizeof(struct document *), compare_docs);
    for (size_t i = 0; i < docs->count; i++) {
        const struct document *document = docs->document[i];
        const char *namespace = document_str(document, "metadata.namespace");
        const char *name = document_str(document, "metadata.name");
        const bool twice =
            (i > 0 && compare_docs(&docs->document[i - 1], &docs->document[i]) == 0) ||
            fake_shelf_find(in->fake, id, namespace, name) != NULL;
        if (twice)
            return err_set(in->err, ERR_INVALID, "%s: line %u: the %s %s%s%s is there twice",
                           in->file, document->at.line, fake_resource(id)->kind, namespace,
                           namespace[0] != '\0' ? "/" : "", name);
    }
    return 0;
}

/* Called under the lock, after all checks; cannot fail. */
static void file_store(struct file_loading *in)
{
    struct fake_apiserver *fake = in->fake;

    for (enum resource_id id = RES_NODES; id <= RES_PODS; id++) {
        struct docs *docs = &in->docs[id];
        for (size_t i = 0; i < docs->count; i++) {
            struct document *meta = document_get(docs->document[i], "metadata");
            must(meta != NULL);
            if (document_str(meta, "uid")[0] == '\0')
                document_set_str(&in->arena, meta, "uid", fake_uid(fake, &in->arena));
        }
        fake_shelf_fill(fake, id, docs->document, docs->count, &in->arena);
    }
    fake->counts.nodes += in->docs[RES_NODES].count;
    fake->counts.pods += in->docs[RES_PODS].count;
    fake->counts.ignored += in->ignored;
}

static bool file_looks_like_json(struct text text)
{
    size_t i = 0;
    while (i < text.len && strchr(" \r\n\t", text.at[i]) != NULL && text.at[i] != '\0')
        i++;
    return i < text.len && (text.at[i] == '{' || text.at[i] == '[');
}

/* JSON is valid YAML, but its own parser is ten times faster and stricter. */
static int file_parse(struct file_loading *in, struct text text, struct document **out)
{
    if (!file_looks_like_json(text))
        return document_parse_yaml(text, &in->arena, out, in->err);
    struct document *document;
    const int rc = document_parse_json(text, "cluster", &in->arena, &document, in->err);
    if (rc < 0)
        return rc;
    *out = document_new(&in->arena, DOCUMENT_ARRAY);
    document_append(*out, document);
    must((*out)->count == 1);
    return 0;
}

/* Parses without the lock, because a large file takes long. */
int fake_apiserver_load_text(struct fake_apiserver *fake, const char *name, struct text text,
                             struct err *err)
{
    struct file_loading in = {.fake = fake, .file = name, .err = err};
    struct document *documents = NULL;

    must(name[0] != '\0');
    arena_init(&in.arena);
    int rc = file_parse(&in, text, &documents);
    if (rc < 0)
        (void)err_wrap(err, "%s", name); /* rc has the code */
    mutex_lock(&fake->lock);
    if (rc == 0)
        rc = load_documents(&in, documents);
    for (enum resource_id id = RES_NODES; id <= RES_PODS && rc == 0; id++)
        rc = file_check_names(&in, id);
    if (rc == 0)
        file_store(&in);
    mutex_unlock(&fake->lock);
    for (int id = 0; id < RESOURCES; id++)
        xfree(in.docs[id].document);
    arena_done(&in.arena);
    return rc;
}

/* Text and tree are in memory at the same time, hence the limit of the file's size. */
int fake_apiserver_load(struct fake_apiserver *fake, const char *file, struct err *err)
{
    char *text;
    size_t len;

    must(file[0] != '\0');
    int rc = file_read(file, FILE_BYTES_MAX, &text, &len, err);
    if (rc < 0)
        return rc;
    rc = fake_apiserver_load_text(fake, file, (struct text){text, len}, err);
    xfree(text);
    return rc;
}
