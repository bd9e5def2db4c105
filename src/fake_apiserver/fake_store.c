/*
 * The objects of the fake API server: shelves sorted by name, the log of events, compaction. Called
 * by the other fake_ files under the lock. An object is immutable and reference-counted: shelf, log
 * and list snapshots hold one reference each, and the lock guards the counts. Versions are assigned
 * only here, and every write of a watched resource adds an entry to the log and wakes waiting
 * threads. In order: uids and times, objects, shelves with their log.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "milligpu/base/alloc.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "fake_internal.h"

/* Events are never watched here, so only the last 1,000 are kept. */
static const struct resource resources[RESOURCES] = {
    [RES_NODES] = {RES_NODES, "/api/v1", "v1", "nodes", "Node", false, true, true, 0},
    [RES_PODS] = {RES_PODS, "/api/v1", "v1", "pods", "Pod", true, true, true, 0},
    [RES_CAPACITIES] = {RES_CAPACITIES, "/apis/storage.k8s.io/v1", "storage.k8s.io/v1",
                        "csistoragecapacities", "CSIStorageCapacity", true, false, true, 0},
    [RES_CONFIGMAPS] = {RES_CONFIGMAPS, "/api/v1", "v1", "configmaps", "ConfigMap", true, false,
                        true, 0},
    [RES_EVENTS] = {RES_EVENTS, "/apis/events.k8s.io/v1", "events.k8s.io/v1", "events", "Event",
                    true, false, false, 1000},
};

const struct resource *fake_resource(enum resource_id id)
{
    must((unsigned)id < RESOURCES && resources[id].id == id);
    return &resources[id];
}

/* ---- names for things ---- */

/* The finalizer of splitmix64, so that numbers from consecutive counters share no prefix. */
static uint64_t store_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

/*
 * Has the form of a version 4 UUID, but depends only on name and counter, so that tests and
 * simulations are repeatable.
 */
const char *fake_uid(struct fake_apiserver *fake, struct arena *arena)
{
    must(fake->compacted <= fake->rv);
    const uint64_t high = store_mix(fake->seed + 2 * fake->uids);
    const uint64_t low = store_mix(fake->seed + 2 * fake->uids + 1);

    fake->uids++;
    return arena_printf(arena, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32),
                        (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xfff),
                        (unsigned)(low >> 48 & 0x3fff) | 0x8000U,
                        (unsigned long long)(low & 0xffffffffffffU));
}

/* The present time in whole seconds, like metav1.Time. */
const char *fake_time(struct fake_apiserver *fake, struct arena *arena)
{
    char text[TIME_TEXT_BYTES];

    time_format(fake->wall_ms(fake->wall_ctx), text);
    const size_t seconds = strcspn(text, ".");
    must(seconds > 0 && seconds < sizeof text);
    return arena_printf(arena, "%.*sZ", (int)seconds, text);
}

/* ---- objects ---- */

static const char *store_pack(char **at, const char *text)
{
    must(text != NULL);
    const size_t bytes = strlen(text) + 1;
    char *here = memcpy(*at, text, bytes);
    *at += bytes;
    return here;
}

/*
 * One allocation with the fields for selectors, so that they need no parsing, and the JSON.
 */
static struct object *object_new(const struct document *document, uint64_t rv)
{
    must(document->kind == DOCUMENT_OBJECT);
    const char *const part[] = {
        document_str(document, "metadata.namespace"), document_str(document, "metadata.name"),
        document_str(document, "metadata.uid"),       document_str(document, "spec.nodeName"),
        document_str(document, "status.phase"),       document_str(document, "spec.schedulerName"),
    };
    const struct document *cordon = document_at(document, "spec.unschedulable");
    struct strbuf text;
    size_t bytes = 0;

    strbuf_init(&text);
    document_write(&text, document);
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        bytes += strlen(part[i]) + 1;
    struct object *object = xmalloc(sizeof *object + bytes + text.len + 1);
    char *at = object->bytes;
    object->refs = 1;
    object->rv = rv;
    object->namespace = store_pack(&at, part[0]);
    object->name = store_pack(&at, part[1]);
    object->uid = store_pack(&at, part[2]);
    object->node = store_pack(&at, part[3]);
    object->phase = store_pack(&at, part[4]);
    object->scheduler = store_pack(&at, part[5]);
    object->unschedulable = cordon != NULL && text_is(cordon->text, "true");
    object->text = (struct text){at, text.len};
    memcpy(at, text.data, text.len + 1);
    strbuf_done(&text);
    return object;
}

static struct object *store_keep(struct object *object)
{
    must(object->refs > 0);
    object->refs++;
    return object;
}

void fake_object_unref(struct object *object)
{
    if (object == NULL)
        return;
    must(object->refs > 0);
    if (--object->refs == 0)
        xfree(object);
}

/* All terms must match; a selector without terms matches everything. */
bool fake_selects(const struct selector *selector, const struct object *object)
{
    const char *const value[] = {
        [FIELD_NAME] = object->name,
        [FIELD_NAMESPACE] = object->namespace,
        [FIELD_NODE] = object->node,
        [FIELD_PHASE] = object->phase,
        [FIELD_SCHEDULER] = object->scheduler,
        [FIELD_CORDON] = object->unschedulable ? "true" : "false",
    };

    for (unsigned i = 0; i < selector->n_terms; i++) {
        const struct term *term = &selector->term[i];
        must((unsigned)term->field < ARRAY_LEN(value));
        if ((strcmp(value[term->field], term->value) == 0) != term->equal)
            return false;
    }
    return true;
}

/* ---- shelves ---- */

static int store_compare(const char *namespace, const char *name, const struct object *other)
{
    must(namespace != NULL && name != NULL);
    const int first = strcmp(namespace, other->namespace);
    return first != 0 ? first : strcmp(name, other->name);
}

static int compare_items(const void *a, const void *b)
{
    const struct object *const *left = a;
    const struct object *const *right = b;
    return store_compare((*left)->namespace, (*left)->name, *right);
}

/* Returns the index of the object, or where it would be inserted. */
static size_t store_seek(const struct shelf *shelf, const char *namespace, const char *name)
{
    size_t low = 0;
    size_t high = shelf->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (store_compare(namespace, name, shelf->item[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    must(low <= shelf->count);
    return low;
}

/* Borrowed from the shelf until the next write. */
struct object *fake_shelf_find(struct fake_apiserver *fake, enum resource_id id,
                               const char *namespace, const char *name)
{
    must(fake->compacted <= fake->rv);
    const struct shelf *shelf = &fake->shelf[id];
    const size_t at = store_seek(shelf, namespace, name);

    if (at == shelf->count || store_compare(namespace, name, shelf->item[at]) != 0)
        return NULL;
    return shelf->item[at];
}

static void log_drop(struct log_entry *entry)
{
    must(entry->after != NULL);
    fake_object_unref(entry->before);
    fake_object_unref(entry->after);
}

/*
 * Drops the oldest entries until left remain. Watches from before the last one dropped get 410.
 */
void fake_log_compact(struct fake_apiserver *fake, size_t left)
{
    must(fake->log_count <= FAKE_EVENTS_MAX);
    while (fake->log_count > left) {
        struct log_entry *oldest = &fake->log[fake->log_first];
        must(oldest->after->rv > fake->compacted);
        fake->compacted = oldest->after->rv;
        log_drop(oldest);
        fake->log_first = (fake->log_first + 1) % FAKE_EVENTS_MAX;
        fake->log_count--;
    }
}

/* Takes over both references. */
static void log_add(struct fake_apiserver *fake, enum resource_id id, struct object *before,
                    struct object *after, bool deleted)
{
    must(fake->compacted <= fake->rv);
    if (!fake_resource(id)->watched) {
        fake_object_unref(before);
        fake_object_unref(after);
        return;
    }
    /* Make room in the ring. */
    fake_log_compact(fake, FAKE_EVENTS_MAX - 1);
    const size_t at = (fake->log_first + fake->log_count) % FAKE_EVENTS_MAX;
    fake->log[at] = (struct log_entry){id, deleted, before, after};
    fake->log_count++;
    condvar_broadcast(&fake->news);
}

/* Linear: for single writes; fake_shelf_fill() loads files. */
static void shelf_insert(struct shelf *shelf, size_t at, struct object *object)
{
    must(at <= shelf->count);
    shelf->item = xgrow(shelf->item, shelf->count, &shelf->capacity, sizeof(struct object *));
    memmove(shelf->item + at + 1, shelf->item + at, (shelf->count - at) * sizeof(struct object *));
    shelf->item[at] = object;
    shelf->count++;
}

static void shelf_remove(struct shelf *shelf, size_t at)
{
    must(at < shelf->count);
    shelf->count--;
    memmove(shelf->item + at, shelf->item + at + 1, (shelf->count - at) * sizeof(struct object *));
}

/* Linear, for at most 1,001 Events. Not logged, because resources with a limit are not watched. */
static void drop_oldest(struct shelf *shelf)
{
    size_t oldest = 0;

    must(shelf->count > 0);
    for (size_t i = 1; i < shelf->count; i++)
        if (shelf->item[i]->rv < shelf->item[oldest]->rv)
            oldest = i;
    fake_object_unref(shelf->item[oldest]);
    shelf_remove(shelf, oldest);
}

/* Assigns the version of a write; nothing else does. */
static struct object *store_versioned(struct fake_apiserver *fake, struct document *document,
                                      struct arena *arena)
{
    must(fake->compacted <= fake->rv);
    const uint64_t rv = ++fake->rv;
    struct document *meta = document_object(arena, document, "metadata");

    document_set_str(arena, meta, "resourceVersion",
                     arena_printf(arena, "%llu", (unsigned long long)rv));
    return object_new(document, rv);
}

/*
 * The shelf's reference to the old object moves to the log; the new object gets one for each.
 */
struct object *fake_shelf_put(struct fake_apiserver *fake, enum resource_id id,
                              struct document *document, struct arena *arena)
{
    struct shelf *shelf = &fake->shelf[id];
    struct object *object = store_versioned(fake, document, arena);
    const size_t at = store_seek(shelf, object->namespace, object->name);
    const size_t kept_max = fake_resource(id)->kept_max;

    must(object->name[0] != '\0');
    if (at < shelf->count && store_compare(object->namespace, object->name, shelf->item[at]) == 0) {
        log_add(fake, id, shelf->item[at], store_keep(object), false);
        shelf->item[at] = object;
        return object;
    }
    shelf_insert(shelf, at, object);
    log_add(fake, id, NULL, store_keep(object), false);
    if (kept_max > 0 && shelf->count > kept_max)
        drop_oldest(shelf);
    return object;
}

/*
 * Sorts once at the end: inserting 100,000 pods in order would be quadratic. The caller has checked
 * that names are unique.
 */
void fake_shelf_fill(struct fake_apiserver *fake, enum resource_id id, struct document *const *docs,
                     size_t count, struct arena *arena)
{
    struct shelf *shelf = &fake->shelf[id];

    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        struct object *object = store_versioned(fake, docs[i], arena);
        shelf_insert(shelf, shelf->count, object);
        log_add(fake, id, NULL, store_keep(object), false);
    }
    qsort(shelf->item, shelf->count, sizeof(struct object *), compare_items);
    for (size_t i = 1; i < shelf->count; i++)
        must(compare_items(&shelf->item[i - 1], &shelf->item[i]) < 0);
}

/*
 * A deletion is a write: its event has the last state with a new version, as in the API server. The
 * object is parsed again, because its version is inside its JSON.
 */
struct object *fake_shelf_take(struct fake_apiserver *fake, enum resource_id id,
                               struct object *object, struct arena *arena)
{
    struct shelf *shelf = &fake->shelf[id];
    struct document *document;
    struct err err;

    const size_t at = store_seek(shelf, object->namespace, object->name);
    must(at < shelf->count && shelf->item[at] == object);
    must(document_parse_json(object->text, "object", arena, &document, &err) == 0);
    struct object *last = store_versioned(fake, document, arena);
    shelf_remove(shelf, at);
    if (!fake_resource(id)->watched) { /* otherwise the log takes the references */
        fake_object_unref(object);
        fake_object_unref(last);
        return NULL;
    }
    log_add(fake, id, object, last, true);
    return last;
}

/* A free slot is fine. */
void fake_snapshot_drop(struct list_snapshot *snapshot)
{
    must(snapshot->id != 0 || snapshot->items.count == 0);
    for (size_t i = 0; i < snapshot->items.count; i++)
        fake_object_unref(snapshot->items.item[i]);
    xfree(snapshot->items.item);
    *snapshot = (struct list_snapshot){.id = 0};
}
