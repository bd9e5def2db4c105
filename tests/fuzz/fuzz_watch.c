/* Any line of a watch is read or refused; jansson finds the same type, object and version. */
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

static void same_event(const struct watch_event *event, json_t *root)
{
    static const char *const types[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"};
    must(second_says(second_field(root, "type"), types[event->type]));
    const struct second object = second_read(event->object);
    must(json_equal(object.value, second_field(root, "object")));
    json_decref(object.value);
    if (event->type != WATCH_ERROR)
        must(second_says(second_at(root, "object.metadata.resourceVersion"),
                         event->resource_version));
}

static void same_error(const struct watch_event *event)
{
    struct status status;
    SCOPED_ARENA(arena);
    status_decode(event->object, &arena, &status);
    must(status.code == event->status.code);
    must(strcmp(status.reason, event->status.reason) == 0);
    must(status.retry_after_s == event->status.retry_after_s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {size > 0 ? (const char *)data : "", size};
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    struct watch_event event;
    struct err err;
    const int result = watch_decode(bytes, &arena, &event, &err);
    heap_is_bounded(before, size);
    if (result == 0) {
        const struct second second = second_read(bytes);
        must(event.object.len > 0 && event.object.len <= size);
        must(event.object.at >= bytes.at && event.object.at < bytes.at + size);
        must(event.resource_version != NULL && event.status.message != NULL);
        must(!second.refused);
        if (second.value != NULL)
            same_event(&event, second.value);
        if (event.type == WATCH_ERROR)
            same_error(&event);
        json_decref(second.value);
    } else {
        must(strncmp(err.text, "event", strlen("event")) == 0);
    }
    return 0;
}
