#include <stdio.h>
#include <string.h>
#include <time.h>

#include "milligpu/alloc.h"
#include "milligpu/wire_kube.h"

#include "kube/standin_inner.h"

static const struct resource resources[RESOURCES] = {
    [RES_NODES] = {RES_NODES, "/api/v1", "v1", "nodes", "Node", false, true, true, 0},
    [RES_PODS] = {RES_PODS, "/api/v1", "v1", "pods", "Pod", true, true, true, 0},
    [RES_CAPACITIES] = {RES_CAPACITIES, "/apis/storage.k8s.io/v1", "storage.k8s.io/v1",
                        "csistoragecapacities", "CSIStorageCapacity", true, false, true, 0},
    [RES_EVENTS] = {RES_EVENTS, "/apis/events.k8s.io/v1", "events.k8s.io/v1", "events", "Event",
                    true, false, false, 1000},
};

const struct resource *standin_resource(enum resource_id id)
{
    must((unsigned)id < RESOURCES && resources[id].id == id);
    return &resources[id];
}

/* ---- names for things ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

const char *standin_uid(struct standin *standin, struct arena *arena)
{
    must(standin->compacted <= standin->rv);
    const uint64_t high = mix(standin->seed + 2 * standin->uids);
    const uint64_t low = mix(standin->seed + 2 * standin->uids + 1);

    standin->uids++;
    return arena_printf(arena, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32),
                        (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xfff),
                        (unsigned)(low >> 48 & 0x3fff) | 0x8000U,
                        (unsigned long long)(low & 0xffffffffffffU));
}

/* Whole seconds, as metav1.Time has it. */
const char *standin_time(struct standin *standin, struct arena *arena)
{
    char text[TIME_TEXT_BYTES];

    time_format(standin->wall_ms(standin->wall_ctx), text);
    const size_t seconds = strcspn(text, ".");
    must(seconds > 0 && seconds < sizeof text);
    return arena_printf(arena, "%.*sZ", (int)seconds, text);
}

/* ---- objects ---- */

static const char *pack(char **at, const char *text)
{
    must(text != NULL);
    const size_t bytes = strlen(text) + 1;
    char *here = memcpy(*at, text, bytes);
    *at += bytes;
    return here;
}

static struct object *object_new(const struct doc *doc, uint64_t rv)
{
    must(doc->kind == DOC_OBJECT);
    const char *const part[] = {
        doc_str(doc, "metadata.namespace"), doc_str(doc, "metadata.name"),
        doc_str(doc, "metadata.uid"),       doc_str(doc, "spec.nodeName"),
        doc_str(doc, "status.phase"),       doc_str(doc, "spec.schedulerName"),
    };
    const struct doc *cordon = doc_at(doc, "spec.unschedulable");
    struct strbuf text;
    size_t bytes = 0;

    strbuf_init(&text);
    doc_write(&text, doc);
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        bytes += strlen(part[i]) + 1;
    struct object *object = xmalloc(sizeof *object + bytes + text.len + 1);
    char *at = object->bytes;
    object->refs = 1;
    object->rv = rv;
    object->namespace = pack(&at, part[0]);
    object->name = pack(&at, part[1]);
    object->uid = pack(&at, part[2]);
    object->node = pack(&at, part[3]);
    object->phase = pack(&at, part[4]);
    object->scheduler = pack(&at, part[5]);
    object->unschedulable = cordon != NULL && text_is(cordon->text, "true");
    object->text = (struct text){at, text.len};
    memcpy(at, text.data, text.len + 1);
    strbuf_done(&text);
    return object;
}

static struct object *keep(struct object *object)
{
    must(object->refs > 0);
    object->refs++;
    return object;
}

void standin_object_unref(struct object *object)
{
    if (object == NULL)
        return;
    must(object->refs > 0);
    if (--object->refs == 0)
        xfree(object);
}

bool standin_selects(const struct selector *selector, const struct object *object)
{
    const char *const value[] = {
        [FIELD_NAME] = object->name,
        [FIELD_NAMESPACE] = object->namespace,
        [FIELD_NODE] = object->node,
        [FIELD_PHASE] = object->phase,
        [FIELD_SCHEDULER] = object->scheduler,
        [FIELD_CORDON] = object->unschedulable ? "true" : "false",
    };

    for (unsigned i = 0; i < selector->terms; i++) {
        const struct term *term = &selector->term[i];
        must((unsigned)term->field < ARRAY_LEN(value));
        if ((strcmp(value[term->field], term->value) == 0) != term->equal)
            return false;
    }
    return true;
}

/* ---- shelves ---- */

static int compare(const char *namespace, const char *name, const struct object *other)
{
    must(namespace != NULL && name != NULL);
    const int first = strcmp(namespace, other->namespace);
    return first != 0 ? first : strcmp(name, other->name);
}

static int compare_items(const void *a, const void *b)
{
    const struct object *const *left = a;
    const struct object *const *right = b;
    return compare((*left)->namespace, (*left)->name, *right);
}

/* Where it is, or belongs. */
static size_t seek(const struct shelf *shelf, const char *namespace, const char *name)
{
    size_t low = 0;
    size_t high = shelf->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(namespace, name, shelf->item[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    must(low <= shelf->count);
    return low;
}

struct object *standin_shelf_find(struct standin *standin, enum resource_id id,
                                  const char *namespace, const char *name)
{
    must(standin->compacted <= standin->rv);
    const struct shelf *shelf = &standin->shelf[id];
    const size_t at = seek(shelf, namespace, name);

    if (at == shelf->count || compare(namespace, name, shelf->item[at]) != 0)
        return NULL;
    return shelf->item[at];
}

static void log_drop(struct log_entry *entry)
{
    must(entry->after != NULL);
    standin_object_unref(entry->before);
    standin_object_unref(entry->after);
}

void standin_log_compact(struct standin *standin, size_t left)
{
    must(standin->log_count <= STANDIN_EVENTS_MAX);
    while (standin->log_count > left) {
        struct log_entry *oldest = &standin->log[standin->log_first];
        must(oldest->after->rv > standin->compacted);
        standin->compacted = oldest->after->rv;
        log_drop(oldest);
        standin->log_first = (standin->log_first + 1) % STANDIN_EVENTS_MAX;
        standin->log_count--;
    }
}

/* Takes over both references. */
static void log_add(struct standin *standin, enum resource_id id, struct object *before,
                    struct object *after, bool deleted)
{
    must(standin->compacted <= standin->rv);
    if (!standin_resource(id)->watched) {
        standin_object_unref(before);
        standin_object_unref(after);
        return;
    }
    standin_log_compact(standin, STANDIN_EVENTS_MAX - 1);
    const size_t at = (standin->log_first + standin->log_count) % STANDIN_EVENTS_MAX;
    standin->log[at] = (struct log_entry){id, deleted, before, after};
    standin->log_count++;
    (void)pthread_cond_broadcast(&standin->news); /* cannot fail on a live one */
}

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

static void drop_oldest(struct shelf *shelf)
{
    size_t oldest = 0;

    must(shelf->count > 0);
    for (size_t i = 1; i < shelf->count; i++)
        if (shelf->item[i]->rv < shelf->item[oldest]->rv)
            oldest = i;
    standin_object_unref(shelf->item[oldest]);
    shelf_remove(shelf, oldest);
}

static struct object *versioned(struct standin *standin, struct doc *doc, struct arena *arena)
{
    must(standin->compacted <= standin->rv);
    const uint64_t rv = ++standin->rv;
    struct doc *meta = doc_object(arena, doc, "metadata");

    doc_set_str(arena, meta, "resourceVersion",
                arena_printf(arena, "%llu", (unsigned long long)rv));
    return object_new(doc, rv);
}

struct object *standin_shelf_put(struct standin *standin, enum resource_id id, struct doc *doc,
                                 struct arena *arena)
{
    struct shelf *shelf = &standin->shelf[id];
    struct object *object = versioned(standin, doc, arena);
    const size_t at = seek(shelf, object->namespace, object->name);
    const size_t kept_max = standin_resource(id)->kept_max;

    must(object->name[0] != '\0');
    if (at < shelf->count && compare(object->namespace, object->name, shelf->item[at]) == 0) {
        log_add(standin, id, shelf->item[at], keep(object), false);
        shelf->item[at] = object;
        return object;
    }
    shelf_insert(shelf, at, object);
    log_add(standin, id, NULL, keep(object), false);
    if (kept_max > 0 && shelf->count > kept_max)
        drop_oldest(shelf);
    return object;
}

void standin_shelf_fill(struct standin *standin, enum resource_id id, struct doc *const *docs,
                        size_t count, struct arena *arena)
{
    struct shelf *shelf = &standin->shelf[id];

    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        struct object *object = versioned(standin, docs[i], arena);
        shelf_insert(shelf, shelf->count, object);
        log_add(standin, id, NULL, keep(object), false);
    }
    qsort(shelf->item, shelf->count, sizeof(struct object *), compare_items);
    for (size_t i = 1; i < shelf->count; i++)
        must(compare_items(&shelf->item[i - 1], &shelf->item[i]) < 0);
}

struct object *standin_shelf_take(struct standin *standin, enum resource_id id,
                                  struct object *object, struct arena *arena)
{
    struct shelf *shelf = &standin->shelf[id];
    struct doc *doc;
    struct err err;

    const size_t at = seek(shelf, object->namespace, object->name);
    must(at < shelf->count && shelf->item[at] == object);
    must(doc_parse_json(object->text, "object", arena, &doc, &err) == 0);
    struct object *last = versioned(standin, doc, arena);
    shelf_remove(shelf, at);
    if (!standin_resource(id)->watched) { /* else the log keeps it */
        standin_object_unref(object);
        standin_object_unref(last);
        return NULL;
    }
    log_add(standin, id, object, last, true);
    return last;
}

void standin_snapshot_drop(struct snapshot *snapshot)
{
    must(snapshot->id != 0 || snapshot->items.count == 0);
    for (size_t i = 0; i < snapshot->items.count; i++)
        standin_object_unref(snapshot->items.item[i]);
    xfree(snapshot->items.item);
    *snapshot = (struct snapshot){.id = 0};
}
