/*
 * Lists in pages, and watches. Called by fake_rest.c and fake_apiserver.c under the lock. A list is
 * a consistent snapshot: references to the immutable objects of its later pages are kept, for
 * SNAPSHOTS_MAX lists at a time. A watch is a position in the log (struct watching); its events are
 * computed when they are collected, so a slow watch costs nothing but may get 410.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "fake_internal.h"

/* Applies namespace and field selector, for lists and watches. */
static bool watch_wants(const struct ask *in, const struct object *object)
{
    must(in->fake->compacted <= in->fake->rv);
    if (in->namespace[0] != '\0' && strcmp(in->namespace, object->namespace) != 0)
        return false;
    return fake_selects(&in->selector, object);
}

/* ---- lists ---- */

static void shelf_keep(struct shelf *shelf, struct object *object)
{
    must(object->refs > 0);
    shelf->item = xgrow(shelf->item, shelf->count, &shelf->capacity, sizeof(struct object *));
    shelf->item[shelf->count++] = object;
    object->refs++;
}

static void list_head(struct ask *in, uint64_t rv, const char *token)
{
    must(in->fake->compacted <= in->fake->rv);
    strbuf_printf(in->out,
                  "{\"kind\":\"%sList\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":"
                  "\"%llu\"",
                  in->resource->kind, in->resource->group_version, (unsigned long long)rv);
    if (token[0] != '\0')
        strbuf_printf(in->out, ",\"continue\":\"%s\"", token);
    strbuf_str(in->out, "},\"items\":[");
}

/*
 * Keeps the objects of the later pages, as of the first page. Takes over the references in *rest,
 * and the slot of the list SNAPSHOTS_MAX before, whose later pages then get 410.
 */
static void snapshot_make(struct ask *in, struct shelf *rest, const char **out_token)
{
    struct fake_apiserver *fake = in->fake;
    const uint64_t id = ++fake->n_snapshots;
    struct list_snapshot *snapshot = &fake->snapshot[id % SNAPSHOTS_MAX];

    must(rest->count > 0);
    fake_snapshot_drop(snapshot);
    *snapshot = (struct list_snapshot){.id = id, .rv = fake->rv, .items = *rest};
    *rest = (struct shelf){NULL, 0, 0};
    *out_token = arena_printf(in->arena, "%llu.0", (unsigned long long)id);
}

/*
 * Linear in the shelf: there is no index by namespace or node. resourceVersion is ignored, because
 * the present state is at least as new.
 */
static int first_page(struct ask *in)
{
    const struct shelf *shelf = &in->fake->shelf[in->resource->id];
    const size_t limit = in->limit > 0 ? (size_t)in->limit : SIZE_MAX;
    struct shelf page = {NULL, 0, 0};
    struct shelf rest = {NULL, 0, 0};
    const char *token = "";

    for (size_t i = 0; i < shelf->count; i++)
        if (watch_wants(in, shelf->item[i]))
            shelf_keep(page.count < limit ? &page : &rest, shelf->item[i]);
    if (rest.count > 0)
        snapshot_make(in, &rest, &token);
    must(rest.count == 0);
    list_head(in, in->fake->rv, token);
    for (size_t i = 0; i < page.count; i++) {
        if (i > 0)
            strbuf_char(in->out, ',');
        strbuf_text(in->out, page.item[i]->text);
        fake_object_unref(page.item[i]);
    }
    xfree(page.item);
    strbuf_str(in->out, "]}");
    return 200;
}

/*
 * The token is "ID.FROM": the snapshot, and the index of the page's first object. As in the API
 * server, a page can be requested again.
 */
static int later_page(struct ask *in)
{
    char *end;
    const unsigned long long id = strtoull(in->continue_token, &end, 10);
    const unsigned long long from = *end == '.' ? strtoull(end + 1, &end, 10) : 0;
    const struct list_snapshot *snapshot = &in->fake->snapshot[id % SNAPSHOTS_MAX];
    const char *token = "";

    if (*end != '\0' || id == 0)
        return fake_answer_status(in, 400, "BadRequest", "continue key is not valid: %s",
                                  in->continue_token);
    if (snapshot->id != id || from >= snapshot->items.count)
        return fake_answer_status(
            in, 410, "Expired",
            "The provided continue parameter is too old to display a consistent list result.");
    const size_t left = snapshot->items.count - from;
    const size_t count = in->limit > 0 && (size_t)in->limit < left ? (size_t)in->limit : left;
    if (count < left)
        token = arena_printf(in->arena, "%llu.%zu", id, (size_t)from + count);
    must(count > 0);
    list_head(in, snapshot->rv, token);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            strbuf_char(in->out, ',');
        strbuf_text(in->out, snapshot->items.item[from + i]->text);
    }
    strbuf_str(in->out, "]}");
    return 200;
}

/*
 * A client with a later version than ours has seen another cluster, or this one before a restore;
 * the API server waits for that version and then answers 504.
 */
int fake_answer_list(struct ask *in)
{
    must(!in->watch && in->resource != NULL);
    if (in->continue_token[0] != '\0')
        return later_page(in);
    if (strtoull(in->rv, NULL, 10) > in->fake->rv)
        return fake_answer_status(in, 504, "Timeout",
                                  "Too large resource version: %s, current: %llu", in->rv,
                                  (unsigned long long)in->fake->rv);
    return first_page(in);
}

/* ---- watches ---- */

static void add_event(struct strbuf *out, const char *type, struct text object)
{
    must(out->data != NULL);
    strbuf_printf(out, "{\"type\":\"%s\",\"object\":", type);
    strbuf_text(out, object);
    strbuf_str(out, "}\n");
}

/* An object that enters the selection is ADDED, one that leaves it is DELETED. */
static void add_entry(const struct ask *in, const struct log_entry *entry, struct strbuf *out)
{
    const bool before = entry->before != NULL && watch_wants(in, entry->before);
    const bool after = !entry->deleted && watch_wants(in, entry->after);

    must(entry->after != NULL);
    if (after)
        add_event(out, before ? "MODIFIED" : "ADDED", entry->after->text);
    else if (before)
        add_event(out, "DELETED", entry->after->text);
}

/* reason and message are constants that need no escaping. */
static void add_error(struct strbuf *out, int code, const char *reason, const char *message)
{
    must(out->data != NULL);
    strbuf_printf(out,
                  "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\","
                  "\"metadata\":{},\"status\":\"Failure\",\"message\":\"%s\",\"reason\":\"%s\","
                  "\"code\":%d}}\n",
                  message, reason, code);
}

/* Without a version, or with 0, all present objects are ADDED. */
static bool watch_begin(const struct ask *in, struct watching *at, struct strbuf *out)
{
    must(in->fake->compacted <= in->fake->rv);
    const struct shelf *shelf = &in->fake->shelf[in->resource->id];

    at->begun = true;
    if (in->rv[0] != '\0' && strcmp(in->rv, "0") != 0) {
        at->rv = strtoull(in->rv, NULL, 10);
        /* fake_watch_collect() checks that it is not older than the log. */
        if (at->rv <= in->fake->rv)
            return true;
        add_error(out, 504, "Timeout", "Too large resource version");
        return false;
    }
    for (size_t i = 0; i < shelf->count; i++)
        if (watch_wants(in, shelf->item[i]))
            add_event(out, "ADDED", shelf->item[i]->text);
    at->rv = in->fake->rv;
    return true;
}

/* Returns the position of the first log entry after rv. */
static size_t seek_log(const struct fake_apiserver *fake, uint64_t rv)
{
    must(fake->compacted <= fake->rv);
    size_t low = 0;
    size_t high = fake->log_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const size_t at = (fake->log_first + middle) % FAKE_EVENTS_MAX;
        if (fake->log[at].after->rv <= rv)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Moves to the present version even if no entry matches, so that each entry is checked once. */
bool fake_watch_collect(const struct ask *in, struct watching *at, struct strbuf *out)
{
    const struct fake_apiserver *fake = in->fake;

    must(in->watch);
    if (!at->begun && !watch_begin(in, at, out))
        return false;
    if (at->rv < fake->compacted) {
        add_error(out, 410, "Expired", "too old resource version");
        return false;
    }
    for (size_t i = seek_log(fake, at->rv); i < fake->log_count; i++) {
        const struct log_entry *entry = &fake->log[(fake->log_first + i) % FAKE_EVENTS_MAX];
        if (entry->resource == in->resource->id)
            add_entry(in, entry, out);
    }
    at->rv = fake->rv;
    return true;
}

/* Its version is the one up to which the log was read, not that of the last event. */
void fake_watch_bookmark(const struct ask *in, struct watching *at, struct strbuf *out)
{
    must(at->begun);
    strbuf_printf(out,
                  "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"apiVersion\":\"%s\","
                  "\"metadata\":{\"resourceVersion\":\"%llu\",\"creationTimestamp\":null}}}\n",
                  in->resource->kind, in->resource->group_version, (unsigned long long)at->rv);
}
